"""Ids of jobs in their workload and in a run, and checks of job fields."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from pybatsched.core.field_check import FieldCheck, FieldsLike
from pybatsched.core.node_requests import REQUEST_FIELDS, request_of
from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import FileLocation, shown
from pybatsched.workload.model import Workload

#: Characters that ids must not have: Batsim aborts, writes files that cannot be read, or cuts the id at a NUL.
FORBIDDEN_IN_IDS: Final = '!,"\\\r\n\0'
_FORBIDDEN: Final = re.compile(f"[{re.escape(FORBIDDEN_IN_IDS)}]")


def full_id(workload: str, given: Any) -> str:
    """Return a job's id in a run.

    >>> full_id("w0", 12), full_id("w0", "w0!12")
    ('w0!12', 'w0!12')
    """
    return f"{workload}!{name_in(workload, given)}"


def check_ids(workloads: Mapping[str, Workload]) -> None:
    """Raise InputError for the first id that Batsim rejects in a run. It names file, job and field. O(jobs)."""
    for workload, content in workloads.items():
        ids = content.values("id")
        if are_names(workload, ids):
            continue  # nearly all files need no check of each id
        names: dict[str, int | str] = {}
        for given in ids:
            where = f"{content.source}: job {shown(given)}, field id"
            try:
                name = name_in(workload, given)
            except InputError as error:
                what = str(error).removeprefix(f"workload {workload}: ")
                raise InputError(f"{where}: as the workload {workload} of a run, {what}") from None
            if names.setdefault(name, given) != given:
                raise InputError(
                    f"{where}: it means the same as {shown(names[name])} in the workload {workload}; expected unique "
                    "ids"
                )


def are_names(workload: str, ids: Iterable[Any]) -> bool:
    """Return whether all ids are names of jobs in their workload as they are. O(ids)."""
    text = " ".join([given for given in ids if isinstance(given, str)])
    return workload not in text and _FORBIDDEN.search(text) is None


def name_in(workload: str, given: Any) -> str:
    """Return a job's name in its workload. As in Batsim, an id with the workload's name must be WORKLOAD!JOB."""
    name = text = str(given)
    if workload in text:
        prefix, mark, name = text.partition("!")
        if not mark or prefix != workload or not name:
            raise InputError(
                f"workload {workload}: job id {text!r} contains the workload's name, so Batsim reads it as "
                f"WORKLOAD!JOB; rename the job, or write {workload}!{text}"
            )
    if _FORBIDDEN.search(name) is not None:
        raise InputError(
            f"workload {workload}: job id {text!r}: expected an id without '!', commas, quotes, backslashes, line ends "
            "or NUL characters, which Batsim rejects"
        )
    return name


def check_requests(workloads: Iterable[Workload]) -> None:
    """Raise InputError for a job with an invalid request of nodes. O(jobs), O(fields) if there is no request."""
    for workload in workloads:
        if not REQUEST_FIELDS.isdisjoint(workload.fields):
            for job in workload.jobs:
                try:
                    request_of(job)
                except ValueError as error:
                    raise InputError(f"{workload.source}: job {shown(job['id'])}, {error}") from None


def in_order(workload: Workload, name_of: Callable[[Any], str]) -> Iterator[dict[str, Any]]:
    """Return jobs in the order in which Batsim submits them: by time, then by name. O(n log n)."""

    def submission(job: Mapping[str, Any]) -> tuple[float, str]:
        return float(job["subtime"]), name_of(job["id"])

    jobs = workload.jobs
    if isinstance(jobs, list):
        return iter(sorted(jobs, key=submission))
    # Those of a log are in order of their times.
    at_once = itertools.groupby(jobs, operator.itemgetter("subtime"))
    return itertools.chain.from_iterable(sorted(some, key=submission) for _, some in at_once)


def check_fields(
    workloads: Iterable[Workload], models: Mapping[str, FieldsLike], context: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Raise InputError for the first field that a model rejects. O(jobs * models)."""
    loaded = [(workload, workload.fields) for workload in workloads]
    for reader, model in models.items():
        check = FieldCheck(model, reader, context)
        for workload, names in loaded:
            for job in workload.jobs if check.concerns(names, partial(workload.values, "estimate", 1)) else ():
                for fault in check.faults(job):
                    place = FileLocation(workload.source, f"job {shown(job['id'])}")
                    if not fault.field:
                        raise InputError(f"{place}: {fault.wrong}")
                    found = "nothing" if fault.is_missing else shown(fault.found)
                    raise InputError(f"{place}, {fault.what}, found {found}")
