"""From a log in the Standard Workload Format to a workload that can be simulated, by rules that are counted.

`read_swf` reads the log, `to_workload` makes jobs of it. What is dropped, changed or remarkable stands in the report,
by rule, with the first lines; the report travels in the workload's `about`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from pybatsched.errors import InputError
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import TOO_MANY, Selection
from pybatsched.workload.swf_file import FIELDS, SwfJob, SwfTrace, read_swf
from pybatsched.workload.walltimes import Walltimes, plain, tidy

__all__ = [
    "DEFAULT_MEMORY_UNIT",
    "FIELDS",
    "MEMORY_UNITS",
    "MemoryUnit",
    "Options",
    "SwfJob",
    "SwfTrace",
    "machine_of",
    "profile_of",
    "read_swf",
    "size_of",
    "to_workload",
]

PART: Final = "a part of a job that also has a line for the whole: dropped"
NO_SUBMISSION: Final = "no submit time, or before 0: dropped"
NO_RUN_TIME: Final = "run time of 0 or unknown: dropped"
NO_SIZE: Final = "no processors, neither allocated nor requested: dropped"
RAISED: Final = "run time of 0 or unknown: set to the minimum"
OTHER_SIZE: Final = "the other count of processors was taken, the wanted one is missing"
RENUMBERED: Final = "job number given before: renumbered"
LOOSE: Final = "depends on a job that is not in the workload: dependency removed"
MOVED: Final = "submitted before the job on the line above: put in order of submission"
TOO_LARGE: Final = "larger than the machine: kept, schedulers will reject it"

_PARTS: Final = frozenset({2, 3, 4})  # the status codes of the format for partial executions

MemoryUnit = Literal["KB", "MB", "GB"]
DEFAULT_MEMORY_UNIT: Final[MemoryUnit] = "KB"  # as the format says
_IN_A_GB: Final[Mapping[str, float]] = {"KB": 1e6, "MB": 1e3, "GB": 1.0}
#: The units of memory that a log may have.
MEMORY_UNITS: Final = tuple(_IN_A_GB)


@dataclass(frozen=True, slots=True)
class Options:
    """How a log becomes a workload; the defaults are those of `pybatsched workload convert`.

    `size`: which count of processors a job gets (the other one where it is missing). `min_runtime_s`: keep jobs that
    ran 0 seconds or an unknown time, with this run time. `n_procs`: the machine, else MaxProcs or MaxNodes of the
    header. `duplicates`: give a second job of the same number a new one, or refuse the log. `profile`: delays, or
    parallel tasks that take as long on processors of `speed_flops`. `memory_unit`: what the log counts memory in.
    """

    walltimes: Walltimes = field(default_factory=Walltimes)
    size: Literal["allocated", "requested"] = "allocated"
    min_runtime_s: float | None = None
    n_procs: int | None = None
    duplicates: Literal["renumber", "error"] = "renumber"
    profile: Literal["delay", "parallel"] = "delay"
    speed_flops: float = 1e9
    memory_unit: MemoryUnit = DEFAULT_MEMORY_UNIT

    def __post_init__(self) -> None:
        if self.n_procs is not None and self.n_procs < 1:
            raise InputError(f"processors: expected 1 or more, found {self.n_procs}")
        if self.min_runtime_s is not None and not 0 < self.min_runtime_s < math.inf:
            raise InputError(f"minimum run time: expected more than 0 seconds, found {self.min_runtime_s}")
        if not 0 < self.speed_flops < math.inf:
            raise InputError(f"speed: expected more than 0 flop/s, found {self.speed_flops}")
        if self.memory_unit not in MEMORY_UNITS:
            raise InputError(f"memory unit: expected one of {', '.join(MEMORY_UNITS)}, found {self.memory_unit!r:.40}")

    def as_json(self) -> dict[str, Any]:
        """Give the choices for the file that is made by them."""
        made: dict[str, Any] = {
            "walltimes": str(self.walltimes),
            "size": self.size,
            "duplicates": self.duplicates,
            "memory_unit": self.memory_unit,
        }
        if self.min_runtime_s is not None:
            made["min_runtime"] = self.min_runtime_s
        if self.profile == "parallel":
            made |= {"profile": self.profile, "speed": self.speed_flops}
        return made


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
    for row in making.chosen():
        making.make(row)
    return making.workload(), making.report


class _Making:
    """One conversion under way."""

    def __init__(self, trace: SwfTrace, options: Options, selection: Selection) -> None:
        self.trace = trace
        self.options = options
        self.selection = selection
        self.report = Report(n_read=len(trace) + trace.n_bad)
        for tally in trace.bad.values():
            told = replace(tally, rule=f"bad line, {tally.rule}: dropped")
            self.report.tallies[told.rule] = told
        self._jobs: list[dict[str, Any]] = []
        self._profiles: dict[str, dict[str, Any]] = {}
        self._profile_names: dict[float, str] = {}
        self._line_of: dict[int, int] = {}
        numbers, status = trace.numbers[0], trace.numbers[10]
        self._next_number = max(numbers, default=0) + 1
        self._whole: set[int] = set()
        if not _PARTS.isdisjoint(status):
            self._whole = {number for number, code in zip(numbers, status, strict=True) if code not in _PARTS}

    def chosen(self) -> Iterator[SwfJob]:
        """Give the lines that make jobs, in order of submission, and count why the others do not."""
        kept: list[int] = []
        moved: set[int] = set()
        latest_at = 0.0
        n_runnable = 0
        for index, row in enumerate(self.trace):
            n_procs = size_of(row.allocated_procs, row.requested_procs, self.options.size)
            refusal = self._refusal(row, n_procs)
            if refusal is None:
                n_runnable += 1
                refusal = self.selection.refusal(row.submitted_at, n_procs)
            if refusal is not None:
                self.report.count("dropped", refusal, row.line)
                continue
            if row.submitted_at < latest_at:
                moved.add(index)
            latest_at = max(latest_at, row.submitted_at)
            kept.append(index)
        if n_runnable and not kept:
            raise self.selection.nothing_left(self.trace.source, self.trace.numbers[1])
        kept.sort(key=self.trace.numbers[1].__getitem__)  # stable: equal times stay in the log's order
        most = len(kept) if self.selection.max_jobs is None else self.selection.max_jobs
        for index in sorted(kept[most:]):
            self.report.count("dropped", TOO_MANY, self.trace.lines[index])
        for index in sorted(moved.intersection(kept[:most])):
            self.report.count("changed", MOVED, self.trace.lines[index])
        return self.trace.rows(kept[:most])

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
        options, report = self.options, self.report
        run_s = row.run_s
        if run_s <= 0:
            assert options.min_runtime_s is not None
            run_s = options.min_runtime_s
            report.count("changed", RAISED, row.line)
        if (row.allocated_procs if options.size == "allocated" else row.requested_procs) <= 0:
            report.count("changed", OTHER_SIZE, row.line)
        times = options.walltimes.of(run_s, row.requested_s if row.requested_s > 0 else None)
        if times.changed is not None:
            report.count("changed", times.changed, row.line)
        job = {
            "id": self._number(row),
            "subtime": plain(row.submitted_at),
            "res": size_of(row.allocated_procs, row.requested_procs, options.size),
            "profile": self._profile(run_s),
        }
        if times.walltime_s is not None:
            job["walltime"] = times.walltime_s
        if times.estimate_s is not None:
            job["estimate"] = times.estimate_s
        _add_known(job, row, _IN_A_GB[options.memory_unit])
        self._jobs.append(job)

    def _number(self, row: SwfJob) -> int:
        number = row.number
        first = self._line_of.get(number)
        if first is not None:
            if self.options.duplicates == "error":
                raise InputError(
                    f"{self.trace.source}: line {row.line}, field 1 ({FIELDS[0]}): expected a number of its own, "
                    f"found {number} again, which is on line {first}"
                )
            self.report.count("changed", RENUMBERED, row.line)
            number = self._next_number
            self._next_number += 1
        self._line_of[number] = row.line
        return number

    def _profile(self, run_s: float) -> str:
        """Give the name of the profile for a run time; jobs that run as long share one."""
        name = self._profile_names.get(run_s)
        if name is None:
            duration = plain(run_s)
            name = self._profile_names[run_s] = str(duration)
            self._profiles[name] = profile_of(duration, self.options.profile, self.options.speed_flops)
        return name

    def workload(self) -> Workload:
        """Put together what was made."""
        jobs, report = self._jobs, self.report
        n_procs, remark = machine_of(self.trace, self.options)
        if remark is not None:
            report.note(remark)
        by_s = jobs[0]["subtime"] if jobs and self.selection.shifts else 0
        for job in jobs:
            if by_s:
                job["subtime"] = tidy(job["subtime"] - by_s)
            if "depends_on" in job and job["depends_on"] not in self._line_of:
                report.count("changed", LOOSE, self._line_of[job["id"]])
                del job["depends_on"]
                job.pop("think_time", None)
            if job["res"] > n_procs:
                report.count("noted", TOO_LARGE, self._line_of[job["id"]])
        report.n_kept = len(jobs)
        about: dict[str, Any] = {"source": Path(self.trace.source).name, "conversion": self.options.as_json()}
        if chosen := self.selection.as_json():
            about["selection"] = chosen
        if by_s:
            about["shifted_by"] = by_s
        about |= {"report": report.as_json(), "swf_header": self.trace.header}
        return Workload(jobs, self._profiles, n_procs, self.trace.source, about)


def profile_of(duration_s: float, kind: str, speed_flops: float) -> dict[str, Any]:
    """Make a profile that takes so long: a delay, or a parallel task on processors of the given speed."""
    if kind == "delay":
        return {"type": "delay", "delay": duration_s}
    return {"type": "parallel_homogeneous", "cpu": plain(duration_s * speed_flops), "com": 0}


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
