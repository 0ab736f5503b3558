"""Members of jobs in the workload that metrics rest on: which jobs count (`evaluated`), and what each takes alone.

Where some job of a run has the field `evaluated`, only those with ``evaluated: true`` count, because the others are
there to warm the machine up, or to keep it busy; what is told of the machine is told of the whole run all the same.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pydantic import Field

from pybatsched.core.fields import DeadlineFields
from pybatsched.errors import InputError
from pybatsched.workload import jobs as job_fields
from pybatsched.workload.jobs import full_id

if TYPE_CHECKING:
    from pybatsched.workload import Workload

#: The member of a summary, and of the mark of a run that is not over, that says how many jobs do not count.
NOT_EVALUATED: Final = "n_not_evaluated"
#: Members of jobs that figures and classes of jobs rest on.
_TELLING: Final = ("alone_s", "deadline", "evaluated", "max_stay", "urgent")


def tells_nothing(content: bytes) -> bool:
    """Whether no job of a workload file has a member that figures or kinds of jobs rest on. O(length).

    It may say no where it is not sure of that: of all but plain JSON, and of text in which a name may be hidden.
    """
    if content[:1] != b"{" or b"\\u" in content:
        return False
    return not any(f'"{name}"'.encode() in content for name in _TELLING)


class MetricFields(DeadlineFields):
    """What figures and classes of jobs read: whether they count or are urgent, what each takes alone, and deadlines."""

    evaluated: bool = Field(default=False, description="true or false")
    urgent: bool = Field(default=False, description="true or false")
    alone_s: float = Field(math.nan, gt=0, allow_inf_nan=False, description="more than 0 seconds")


class _Owned(msgspec.Struct, gc=False):
    id: Any
    user: Any = None


class _Owners(msgspec.Struct):
    jobs: list[_Owned]


def users_of(contents: Sequence[bytes]) -> dict[str, str] | None:
    """Read whose the jobs of workload files in plain JSON are, by their ids in a run; None if that cannot be done.

    Empty where no job tells it. Files are in Batsim's order. O(length), a hundredth of what it takes to load them.
    """
    if not any(b'"user"' in content for content in contents):
        return {}
    found = {}
    try:
        for number, content in enumerate(contents):
            name = f"w{number}"
            for job in msgspec.json.decode(content, type=_Owners).jobs:
                text = str(job.id)  # `full_id` takes long, and nearly none needs it
                found[full_id(name, text) if name in text else f"{name}!{text}"] = user_told(job.user)
    except (msgspec.MsgspecError, InputError):  # whoever reads it with care will say what is wrong
        return None
    return found


def user_told(user: Any) -> str:
    """Give the name of a user as a job tells it; empty if it does not."""
    return "" if user is None else str(user)


def fields_of(workloads: Mapping[str, Workload]) -> dict[str, Mapping[str, Any]]:
    """Give the jobs of workloads by their ids in a run. O(jobs).

    Raises InputError that names the file, the job and the field for what metrics cannot use.
    """
    check_fields(workloads.values())
    return {full_id(name, job["id"]): job for name, workload in workloads.items() for job in workload.jobs}


def check_fields(workloads: Iterable[Workload]) -> None:
    """Raise InputError for a field that figures cannot use. O(jobs)."""
    job_fields.check_fields(workloads, {"metrics": MetricFields})


def evaluated_ids(workloads: Mapping[str, Workload]) -> frozenset[str] | None:
    """Give the ids of the jobs that count, None if all do. O(jobs). Raises InputError as `fields_of` does."""
    check_fields(workloads.values())
    if not any("evaluated" in job for workload in workloads.values() for job in workload.jobs):
        return None
    return frozenset(
        full_id(name, job["id"])
        for name, workload in workloads.items()
        for job in workload.jobs
        if job.get("evaluated") is True
    )


def not_evaluated(workloads: Mapping[str, Workload]) -> dict[str, int]:
    """Say for a summary, by a member's name, how many jobs do not count; nothing if all do. O(jobs)."""
    ids = evaluated_ids(workloads)
    n = 0 if ids is None else sum(len(workload.jobs) for workload in workloads.values()) - len(ids)
    return {NOT_EVALUATED: n} if n else {}


def kind_of(fields: Mapping[str, Any]) -> str:
    """Return the kind of a job by its fields: urgent, deadline or regular."""
    if fields.get("urgent") is True:
        return "urgent"
    return "deadline" if "deadline" in fields or "max_stay" in fields else "regular"


def as_choices(wanted: Any) -> list[Any]:
    """Give the values that something may have: the members of a list, or the value itself."""
    return wanted if isinstance(wanted, list) else [wanted]


def is_like(value: Any, wanted: Any) -> bool:
    """Whether a value is as wanted: equal, or a text that fits a pattern with stars.

    >>> is_like("curie-week07", "curie-*"), is_like(10, 10.0), is_like("10", 10)
    (True, True, False)
    """
    if isinstance(wanted, str) and isinstance(value, str):
        return fnmatch.fnmatchcase(value, wanted)
    return bool(value == wanted)
