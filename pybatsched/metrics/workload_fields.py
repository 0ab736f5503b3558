"""Read the fields of workload jobs that metrics use: which jobs count (`evaluated`), run times alone, deadlines.

If some job of a run has the field `evaluated`, only jobs with ``evaluated: true`` count. The others warm the machine
up or keep it busy. Figures of the machine (utilisation, queue length, makespan) always include all jobs.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pybatsched.core.model_refs import ModelRef
from pybatsched.errors import InputError
from pybatsched.workload import Workload, jobs as workload_jobs
from pybatsched.workload.jobs import full_id
from pybatsched.workload.statistics.shares import TITLES

#: The member of a summary, or of the state file of an unfinished run, with the number of jobs that do not count.
NOT_EVALUATED: Final = "n_not_evaluated"
#: Fields of jobs that figures and classes of jobs use.
_METRIC_FIELDS: Final = {
    "deadline": math.nan,
    "max_stay": math.nan,
    "evaluated": False,
    "urgent": False,
    "alone_s": math.nan,
}
#: Their model.
METRIC_FIELDS: Final = ModelRef("pybatsched.core.fields:MetricFields", _METRIC_FIELDS)
#: Fields of jobs that pages show and that change no figure (user, account, partition, …), with their titles.
SHOWN_FIELDS: Final = TITLES


def has_no_metric_fields(content: bytes) -> bool:
    """Return whether no job has a field that figures or kinds use; False if it is not certain. O(length)."""
    if content[:1] != b"{" or b"\\u" in content:
        return False
    return not any(f'"{name}"'.encode() in content for name in _METRIC_FIELDS)


class _Described(msgspec.Struct, gc=False):
    """A job with the fields of `SHOWN_FIELDS`, which do not change figures."""

    id: Any
    user: Any = None
    account: Any = None
    group: Any = None
    partition: Any = None
    queue: Any = None
    qos: Any = None
    gpus: Any = None
    memory_gb: Any = None
    exit_state: Any = None
    status: Any = None


class _Jobs(msgspec.Struct):
    jobs: list[_Described]


def shown_fields_of(contents: Sequence[bytes]) -> dict[str, dict[str, Any]] | None:
    """Return the `SHOWN_FIELDS` in plain JSON files, by job id in the run; None if one cannot be read. O(length)."""
    names = [name for name in SHOWN_FIELDS if any(f'"{name}"'.encode() in content for content in contents)]
    if not names:
        return {}
    found = {}
    try:
        for number, content in enumerate(contents):
            workload = f"w{number}"
            for job in msgspec.json.decode(content, type=_Jobs).jobs:
                text = str(job.id)  # `full_id` is slow, and few ids need it
                own = {name: value for name in names if (value := getattr(job, name)) is not None}
                if own:
                    found[full_id(workload, text) if workload in text else f"{workload}!{text}"] = own
    except (msgspec.MsgspecError, InputError):  # loading the file with all checks reports the error
        return None
    return found


def user_name(user: Any) -> str:
    """Return the field `user` of a job as text; empty if there is none."""
    return "" if user is None else str(user)


def fields_of(workloads: Mapping[str, Workload]) -> dict[str, Mapping[str, Any]]:
    """Return the jobs of workloads by ids in a run. O(jobs). Raises InputError for values that metrics cannot use."""
    check_fields(workloads.values())
    return {full_id(name, job["id"]): job for name, workload in workloads.items() for job in workload.jobs}


def check_fields(workloads: Iterable[Workload]) -> None:
    """Raise InputError for a field that figures cannot use. O(jobs)."""
    workload_jobs.check_fields(workloads, {"metrics": METRIC_FIELDS})


def evaluated_ids(workloads: Mapping[str, Workload]) -> frozenset[str] | None:
    """Return the ids of the jobs that count, None if all count. O(jobs). Raises InputError as `fields_of` does."""
    check_fields(workloads.values())
    if not any("evaluated" in workload.fields for workload in workloads.values()):
        return None
    return frozenset(
        full_id(name, job_id)
        for name, workload in workloads.items()
        for job_id, counts in zip(workload.values("id"), workload.values("evaluated"), strict=True)
        if counts is True
    )


def not_evaluated(workloads: Mapping[str, Workload]) -> dict[str, int]:
    """Return the member of a summary with the number of jobs that do not count; empty if all count. O(jobs)."""
    ids = evaluated_ids(workloads)
    n = 0 if ids is None else sum(len(workload.jobs) for workload in workloads.values()) - len(ids)
    return {NOT_EVALUATED: n} if n else {}


def kind_of(fields: Mapping[str, Any]) -> str:
    """Return the kind of a job by its fields: urgent, deadline or regular."""
    if fields.get("urgent") is True:
        return "urgent"
    return "deadline" if "deadline" in fields or "max_stay" in fields else "regular"


def as_choices(wanted: Any) -> list[Any]:
    """Return the accepted values: the members of a list, or the value itself."""
    return wanted if isinstance(wanted, list) else [wanted]


def matches(value: Any, wanted: Any) -> bool:
    """Return whether a value is equal to the wanted one, or a text that matches a pattern with stars.

    >>> matches("kth-week07", "kth-*"), matches(10, 10.0), matches("10", 10)
    (True, True, False)
    """
    if isinstance(wanted, str) and isinstance(value, str):
        return fnmatch.fnmatchcase(value, wanted)
    return bool(value == wanted)
