"""The names of jobs: in their workload, and in a whole run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.workload.checks import shown
from pybatsched.workload.model import Workload

#: Batsim aborts on these in an id, or its files could not be read again; it cuts an id at a NUL.
FORBIDDEN_IN_IDS: Final = '!,"\\\r\n\0'
_FORBIDDEN: Final = re.compile(f"[{re.escape(FORBIDDEN_IN_IDS)}]")


def full_id(workload: str, given: Any) -> str:
    """Give a job's id in a run.

    >>> full_id("w0", 12), full_id("w0", "w0!12")
    ('w0!12', 'w0!12')
    """
    return f"{workload}!{name_in(workload, given)}"


def check(workloads: Mapping[str, Workload]) -> None:
    """Raise InputError that names file, job and field for the first id that Batsim does not take in a run. O(jobs)."""
    for workload, content in workloads.items():
        ids = [job["id"] for job in content.jobs]
        text = " ".join([given for given in ids if isinstance(given, str)])
        if workload not in text and _FORBIDDEN.search(text) is None:
            continue  # nearly all files: nothing to look for, one by one
        names: dict[str, int | str] = {}
        for given in ids:
            place = f"{content.source}: job {shown(given)}, field id"
            try:
                name = name_in(workload, given)
            except InputError as error:
                what = str(error).removeprefix(f"workload {workload}: ")
                raise InputError(f"{place}: as the workload {workload} of a run, {what}") from None
            if names.setdefault(name, given) != given:
                raise InputError(f"{place}: it is another way to write {shown(names[name])} in the workload {workload}")


def name_in(workload: str, given: Any) -> str:
    """Give a job's name in its workload. As in Batsim, an id that contains the workload's name must be a full one."""
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
            f"workload {workload}: job id {text!r}: Batsim takes no '!', commas, quotes, backslashes, line ends or NUL "
            "characters in ids"
        )
    return name
