"""From a log in the Standard Workload Format to a workload that can be simulated, by rules that are counted.

`read_swf` reads the log, `to_workload` makes jobs of it. What is dropped, changed or remarkable stands in the report,
by rule, with the first lines; the report travels in the workload's `about`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pybatsched.errors import InputError
from pybatsched.workload.logs import LOOSE, NO_RUN_TIME, NO_SUBMISSION, Candidate, Lines, LogOptions, Making
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.swf_file import FIELDS, SwfJob, SwfTrace, read_swf
from pybatsched.workload.walltimes import plain

__all__ = [
    "DEFAULT_MEMORY_UNIT",
    "FIELDS",
    "MEMORY_UNITS",
    "MemoryUnit",
    "Options",
    "SwfJob",
    "SwfTrace",
    "machine_of",
    "read_swf",
    "size_of",
    "to_workload",
]

PART: Final = "a part of a job that also has a line for the whole: dropped"
NO_SIZE: Final = "no processors, neither allocated nor requested: dropped"
OTHER_SIZE: Final = "the other count of processors was taken, the wanted one is missing"

_PARTS: Final = frozenset({2, 3, 4})  # the status codes of the format for partial executions

MemoryUnit = Literal["KB", "MB", "GB"]
DEFAULT_MEMORY_UNIT: Final[MemoryUnit] = "KB"  # as the format says
_IN_A_GB: Final[Mapping[str, float]] = {"KB": 1e6, "MB": 1e3, "GB": 1.0}
#: The units of memory that a log may have.
MEMORY_UNITS: Final = tuple(_IN_A_GB)


@dataclass(frozen=True, slots=True)
class Options(LogOptions):
    """How a log in SWF becomes a workload.

    `size`: which count of processors a job gets (the other one where it is missing). `memory_unit`: what the log counts
    memory in. Where `n_procs` is not given, the machine has MaxProcs or MaxNodes of the header.
    """

    size: Literal["allocated", "requested"] = "allocated"
    memory_unit: MemoryUnit = DEFAULT_MEMORY_UNIT

    def __post_init__(self) -> None:
        LogOptions.__post_init__(self)  # a class with slots is made twice, and super() finds the first one
        if self.memory_unit not in MEMORY_UNITS:
            raise InputError(f"memory unit: expected one of {', '.join(MEMORY_UNITS)}, found {self.memory_unit!r:.40}")

    def as_json(self) -> dict[str, Any]:
        """Give the choices for the file that is made by them."""
        first = {"walltimes": str(self.walltimes), "size": self.size, "duplicates": self.duplicates}
        return first | {"memory_unit": self.memory_unit} | LogOptions.as_json(self)


def size_of(allocated: float, requested: float, size: str = "allocated") -> int:
    """Give the processors of a job: the wanted count, the other where that is missing, 0 where both are."""
    first, second = (allocated, requested) if size == "allocated" else (requested, allocated)
    return int(first) if first > 0 else max(int(second), 0)


def machine_of(trace: SwfTrace, options: Options) -> tuple[int, str | None]:
    """Give the processors of a log's machine, and what must be said about where the number is from."""
    if options.n_procs is not None:
        return options.n_procs, None
    found = trace.header_count("MaxProcs")
    if found is not None:
        return found, None
    found = trace.header_count("MaxNodes")
    if found is not None:
        return found, f"no MaxProcs in the header: the machine has its MaxNodes, {found:,} processors"
    pairs = zip(trace.numbers[4], trace.numbers[7], strict=True)
    largest = max((size_of(allocated, requested, options.size) for allocated, requested in pairs), default=0) or 1
    return (
        largest,
        f"neither MaxProcs nor MaxNodes in the header: the machine is as large as the largest job, {largest:,}",
    )


def to_workload(
    trace: SwfTrace, options: Options | None = None, selection: Selection | None = None
) -> tuple[Workload, Report]:
    """Make a workload of a log, or of the jobs of it that a selection keeps. About 15 µs a job, 2 µs if left out.

    Run times stay as they are, jobs come in order of submission, and every job keeps its number. Raises InputError for
    a number given twice where that is not to be repaired, and for a selection that leaves nothing.
    """
    making = _Making(trace, options or Options(), selection or Selection())
    for row in trace.rows(making.chosen(map(making.candidate, trace))):
        making.make(row)
    return making.workload(), making.report


class _Making(Making):
    """One conversion under way."""

    number_field = f"1 ({FIELDS[0]})"
    options: Options

    def __init__(self, trace: SwfTrace, options: Options, selection: Selection) -> None:
        super().__init__(Lines(trace.source, trace.numbers[0], trace.bad), options, selection)
        self.trace = trace
        self._whole: set[int] = set()
        numbers, status = trace.numbers[0], trace.numbers[10]
        if not _PARTS.isdisjoint(status):
            self._whole = {number for number, code in zip(numbers, status, strict=True) if code not in _PARTS}

    def candidate(self, row: SwfJob) -> Candidate:
        """Say of a line what decides whether it makes a job."""
        n_procs = size_of(row.allocated_procs, row.requested_procs, self.options.size)
        return Candidate(row.line, row.submitted_at, n_procs, self._refusal(row, n_procs))

    def _refusal(self, row: SwfJob, n_procs: int) -> str | None:
        """Give the one rule by which a line makes no job."""
        if row.status in _PARTS and row.number in self._whole:
            return PART
        if row.submitted_at < 0:
            return NO_SUBMISSION
        if row.run_s <= 0 and self.options.min_runtime_s is None:
            return NO_RUN_TIME
        return NO_SIZE if n_procs <= 0 else None

    def make(self, row: SwfJob) -> None:
        """Make a job of a line, and count what had to be changed."""
        options = self.options
        run_s = self.run_time(row.run_s, row.line)
        if (row.allocated_procs if options.size == "allocated" else row.requested_procs) <= 0:
            self.report.count("changed", OTHER_SIZE, row.line)
        times = self.times(run_s, row.requested_s if row.requested_s > 0 else None, row.line)
        job = {
            "id": self.number(row.number, row.line),
            "subtime": plain(row.submitted_at),
            "res": size_of(row.allocated_procs, row.requested_procs, options.size),
            "profile": self.profile(run_s),
        }
        if times.walltime_s is not None:
            job["walltime"] = times.walltime_s
        if times.estimate_s is not None:
            job["estimate"] = times.estimate_s
        _add_known(job, row, _IN_A_GB[options.memory_unit])
        self.jobs.append(job)

    def workload(self) -> Workload:
        """Put together what was made."""
        n_procs, remark = machine_of(self.trace, self.options)
        if remark is not None:
            self.report.note(remark)
        for job in self.jobs:
            if "depends_on" in job and job["depends_on"] not in self.line_of:
                self.report.count("changed", LOOSE, self.line_of[job["id"]])
                del job["depends_on"]
                job.pop("think_time", None)
        made = self.finished(n_procs)
        made.about["swf_header"] = self.trace.header
        return made


def _add_known(job: dict[str, Any], row: SwfJob, in_a_gb: float) -> None:
    """Add what else the log knows about a job; what it does not know (-1) is left out."""
    if row.user != -1:
        job["user"] = row.user
    if row.group != -1:
        job["group"] = row.group
    if row.queue != -1:
        job["queue"] = row.queue
    if row.status >= 0:
        job["status"] = row.status
    memory = row.requested_memory if row.requested_memory > 0 else row.used_memory
    if memory > 0:
        job["memory_gb"] = plain(memory / in_a_gb)
    if row.requested_procs > 0:
        job["requested_procs"] = row.requested_procs
    if row.requested_s > 0:
        job["requested_time"] = plain(row.requested_s)
    if row.preceding_job > 0:  # numbers of the format begin with 1, and some logs write 0 for none
        job["depends_on"] = row.preceding_job
        if row.think_s >= 0:
            job["think_time"] = plain(row.think_s)
