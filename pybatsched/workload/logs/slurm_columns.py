"""The columns of a log of Slurm: their names in `sacct`, other spellings, and which of them a log needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set as AbstractSet
from typing import Final

#: Names of columns (in small letters, without `_`), and the columns of `sacct` that they are.
_COLUMNS: Final[Mapping[str, str]] = {
    name.lower(): name
    for name in (
        *("JobID", "JobIDRaw", "Submit", "Eligible", "Start", "End", "Elapsed", "ElapsedRaw", "Timelimit"),
        *("TimelimitRaw", "NCPUS", "AllocCPUS", "ReqCPUS", "NNodes", "AllocNodes", "ReqNodes", "AllocTRES", "ReqTRES"),
        *("AllocGRES", "ReqGRES", "ReqMem", "MaxRSS", "State", "ExitCode", "User", "UID", "Group", "GID", "Account"),
        *("Partition", "QOS", "JobName", "Priority", "ConsumedEnergy", "ConsumedEnergyRaw", "Dependency", "SubmitLine"),
        *(
            "Comment",
            "AdminComment",
            "SystemComment",
            "WorkDir",
            "NodeList",
            "Constraints",
            "OverSubscribe",
            "Reason",
            "ArrayTaskThrottle",
        ),
    )
} | {
    "shared": "OverSubscribe",
    "submittime": "Submit",
    "eligibletime": "Eligible",
    "starttime": "Start",
    "endtime": "End",
    "runtime": "ElapsedRaw",
    "name": "JobName",
    "submitline": "SubmitLine",
    "dependencies": "Dependency",
}
IDS: Final = ("JobID", "JobIDRaw")
CORES: Final = ("NCPUS", "AllocCPUS", "ReqCPUS", "AllocTRES", "ReqTRES")
NODES: Final = ("NNodes", "AllocNodes", "ReqNodes", "AllocTRES", "ReqTRES")
GPUS: Final = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")


def column_of(given: str) -> str | None:
    """Return the column that a cell of a header names; None for an unknown one.

    >>> column_of("submit_time"), column_of("JobID%20"), column_of("walltime")
    ('Submit', 'JobID', None)
    """
    return _COLUMNS.get(re.sub(r"[ _-]|%.*", "", given).lower())


def missing_column(found: AbstractSet[str | None]) -> str:
    """Return what a log with these columns of `sacct` lacks; empty if it has all that it needs."""
    if found.isdisjoint(IDS):
        return "a header with a column JobID"
    if "Submit" not in found:
        return "a column Submit"
    if found.isdisjoint({"Elapsed", "ElapsedRaw"}) and not found >= {"Start", "End"}:
        return "the column Elapsed, or Start and End"
    return "" if not found.isdisjoint({*CORES, *NODES, *GPUS}) else "a column of sizes, such as NCPUS"


def is_header(cells: Iterable[str]) -> bool:
    """Return whether this is the header of a log of Slurm: an id as `sacct` writes it, or all columns."""
    given = {cell.partition("%")[0] for cell in cells}
    return not given.isdisjoint(IDS) or not missing_column(set(map(column_of, given)))
