"""The conversion of logs of any format to a workload: options, selection, job numbers, profiles and report."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from pybatsched.errors import InputError, quantity
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report, Tally
from pybatsched.workload.selection import NOT_COUNTED, TOO_MANY, Selection
from pybatsched.workload.walltimes import Times, Walltimes, plain, tidy


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the cyclic garbage collector, which takes an eighth of the time to prepare a large log."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


NO_SUBMISSION: Final = "no submit time, or before 0: dropped"
NO_RUN_TIME: Final = "run time of 0 or unknown: dropped"
RAISED: Final = "run time of 0 or unknown: set to the minimum"
RENUMBERED: Final = "job number given before: renumbered"
LOOSE: Final = "depends on a job that is not in the workload: dependency removed"
MOVED: Final = "submitted before the job on the line above: put in order of submission"
TOO_LARGE: Final = "larger than the machine: kept, schedulers will reject it"
OTHER_PARTITION: Final = "of another partition: dropped"

MemoryUnit = Literal["KB", "MB", "GB"]
DEFAULT_MEMORY_UNIT: Final[MemoryUnit] = "KB"  # as in the standard of SWF
#: The units of memory that a log may have.
MEMORY_UNITS: Final[tuple[MemoryUnit, ...]] = get_args(MemoryUnit)
SizeIn = Literal["cores", "nodes", "gpus"]
#: What the size of a job can count.
SIZES: Final[tuple[SizeIn, ...]] = get_args(SizeIn)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a log becomes a workload; the defaults are those of `pybatsched workload convert`.

    `min_runtime_s`: keep jobs with run time 0 or unknown, with this run time. `n_procs`: size of the machine (default:
    that of the log or its format). `duplicates`: renumber a second job of
    the same number, or reject the log. `profile`: delays, or parallel tasks of the same duration on processors of
    `speed_flops`. `format`: a name of `files.FORMATS` (default: by the content). `mapping`: the file with the
    mapping of a table.
    """

    walltimes: Walltimes = field(default_factory=Walltimes)
    min_runtime_s: float | None = None
    n_procs: int | None = None
    duplicates: Literal["renumber", "error"] = "renumber"
    profile: Literal["delay", "parallel"] = "delay"
    speed_flops: float = 1e9
    format: str | None = None
    mapping: str | None = None

    def __post_init__(self) -> None:
        if self.n_procs is not None and self.n_procs < 1:
            raise InputError(f"processors: expected 1 or more, found {self.n_procs}")
        if self.min_runtime_s is not None and not 0 < self.min_runtime_s < math.inf:
            raise InputError(f"minimum run time: expected more than 0 seconds, found {self.min_runtime_s}")
        if not 0 < self.speed_flops < math.inf:
            raise InputError(f"speed: expected more than 0 flop/s, found {self.speed_flops}")

    def as_json(self) -> dict[str, Any]:
        """Return the options for the workload file."""
        made: dict[str, Any] = {"walltimes": str(self.walltimes), "duplicates": self.duplicates}
        if self.format is not None:
            made["format"] = self.format
        if self.mapping is not None:
            made["mapping"] = Path(self.mapping).name
        if self.min_runtime_s is not None:
            made["min_runtime"] = self.min_runtime_s
        if self.profile == "parallel":
            made |= {"profile": self.profile, "speed": self.speed_flops}
        return made


def check_partitions(source: str, wanted: Iterable[str], n_jobs: Mapping[str, int]) -> None:
    """Raise InputError, with the number of jobs of each partition of a log, if a wanted partition has none."""
    for name in wanted:
        if name not in n_jobs:
            known = ", ".join(f"{one} ({quantity(n, 'job')})" for one, n in sorted(n_jobs.items())) or "none"
            raise InputError(f"{source}: partition {name!r:.40}: expected a partition of the log: {known}")


def profile_of(duration_s: float, kind: str, speed_flops: float) -> dict[str, Any]:
    """Return a profile of this duration: a delay, or a parallel task on processors of the given speed."""
    if kind == "delay":
        return {"type": "delay", "delay": duration_s}
    return {"type": "parallel_homogeneous", "cpu": plain(duration_s * speed_flops), "com": 0}


class LogLines(NamedTuple):
    """The lines of a log: its file, the numbers of its jobs, and the lines that a lenient reading has skipped."""

    source: str
    numbers: Sequence[int]
    bad: Mapping[str, Tally]
    others: Tally | None = None
    where: str = "line"


def procs_in_use(spans: Iterable[tuple[float, float, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield, at each start and end in order of time: the processors in use then, the change, and the line of the job.

    `spans` are the start, run time, size and line of each job. At one instant ends come before starts, and starts are
    in the order of the spans. O(n log n).
    """
    found = list(spans)
    times = [started_at + run_s for started_at, run_s, _, _ in found] + [started_at for started_at, _, _, _ in found]
    changes = [-n for _, _, n, _ in found] + [n for _, _, n, _ in found]
    used = 0
    for place in sorted(range(len(times)), key=times.__getitem__):  # stable, and faster than to sort tuples
        used += changes[place]
        yield used, changes[place], found[place % len(found)][3]


class LogConverter:
    """The conversion of one log."""

    #: Name of the job number's field in error messages.
    number_field = ""

    def __init__(self, lines: LogLines, options: LogOptions, selection: Selection) -> None:
        self.source = lines.source
        self.options = options
        self.selection = selection
        n_read = len(lines.numbers) + sum(tally.count for tally in lines.bad.values())
        self.report = Report(n_read, where=lines.where)
        for tally in lines.bad.values():
            dropped = replace(tally, rule=f"bad {lines.where}, {tally.rule}: dropped")
            self.report.tallies[dropped.rule] = dropped
        if lines.others is not None:
            self.report.n_read += lines.others.count
            self.report.tallies[lines.others.rule] = lines.others
        self.jobs: list[dict[str, Any]] = []
        self.line_of: dict[int | str, int] = {}
        self.origin_at = 0.0
        self.greatest_number = max(lines.numbers, default=0)
        self._profiles: dict[str, dict[str, Any]] = {}
        self._profile_names: dict[float, str] = {}

    def chosen(self, candidates: Iterable[tuple[int, float, int, str | None]]) -> list[int]:
        """Return the indices of the lines that become jobs, in order, and count others. Raises InputError."""
        kept: list[int] = []
        times: list[float] = []
        lines: list[int] = []
        moved: set[int] = set()
        latest_at = 0.0
        n_runnable = 0
        filters_jobs = self.selection.filters_jobs
        if self.selection.clock == "first":
            candidates = list(candidates)
            self.origin_at = self.selection.origin(at for _, at, _, dropped_by in candidates if dropped_by is None)
        for place, (line, submitted_at, n_procs, refused) in enumerate(candidates):
            times.append(submitted_at)
            lines.append(line)
            dropped_by = refused
            if dropped_by is None:
                n_runnable += 1
                if filters_jobs:
                    dropped_by = self.selection.drop_reason(submitted_at, n_procs, self.origin_at)
            if dropped_by is not None:
                self.report.count("dropped", dropped_by, line)
                continue
            if submitted_at < latest_at:
                moved.add(place)
            else:
                latest_at = submitted_at
            kept.append(place)
        if n_runnable and not kept and not self.selection.may_be_empty:
            raise self.selection.no_jobs_error(self.source, times)
        kept.sort(key=times.__getitem__)  # stable: equal times stay in the log's order
        most = len(kept) if self.selection.max_jobs is None else self.selection.max_jobs
        for place in sorted(kept[most:]):
            self.report.count("dropped", TOO_MANY.format(quantity(most, "job")), lines[place])
        for place in sorted(moved.intersection(kept[:most])):
            self.report.count("changed", MOVED, lines[place])
        return kept[:most]

    def run_time(self, logged_s: float, line: int) -> float:
        """Return a job's run time: the logged one, or the minimum."""
        if logged_s > 0:
            return logged_s
        assert self.options.min_runtime_s is not None
        self.report.count("changed", RAISED, line)
        return self.options.min_runtime_s

    def times(self, run_s: float, requested_s: float | None, line: int) -> Times:
        """Return walltime and estimate by the rule, and count changes."""
        times = self.options.walltimes.of(run_s, requested_s)
        if times.changed is not None:
            self.report.count("changed", times.changed, line)
        return times

    def number(self, number: int, line: int) -> int:
        """Return the number of the job on a line: its own, or a new one if that is used already."""
        first = self.line_of.get(number)
        if first is not None:
            if self.options.duplicates == "error":
                raise InputError(
                    f"{self.source}: line {line}, field {self.number_field}: expected a unique number, "
                    f"found {number}, which is also on line {first}"
                )
            self.report.count("changed", RENUMBERED, line)
            self.greatest_number = number = self.greatest_number + 1
        self.line_of[number] = line
        return number

    def profile(self, run_s: float) -> str:
        """Return the name of the profile for a run time. Jobs with the same run time share it."""
        name = self._profile_names.get(run_s)
        if name is None:
            duration = plain(run_s)
            name = self._profile_names[run_s] = str(duration)
            self._profiles[name] = profile_of(duration, self.options.profile, self.options.speed_flops)
        return name

    def finished(self, n_procs: int, moved_by_s: float = 0) -> Workload:
        """Return the workload. `moved_by_s` is how far jobs were moved before the selection moves them. O(n)."""
        jobs, report = self.jobs, self.report
        by_s = self.selection.moved_by(self.origin_at, jobs[0]["subtime"]) if jobs else 0
        counted = self.selection.counted(self.source, [job["subtime"] for job in jobs], self.origin_at)
        if counted is not None:
            for job, is_counted in zip(jobs, counted, strict=True):
                job["evaluated"] = is_counted
                if not is_counted:
                    report.count("noted", NOT_COUNTED, self.line_of[job["id"]])
        for job in jobs:
            if by_s:
                job["subtime"] = tidy(job["subtime"] - by_s)
            if job["res"] > n_procs:
                report.count("noted", TOO_LARGE, self.line_of[job["id"]])
        report.n_kept = len(jobs)
        about: dict[str, Any] = {"source": Path(self.source).name, "conversion": self.options.as_json()}
        if chosen := self.selection.as_json():
            about["selection"] = chosen
        if by_s or moved_by_s:
            about["shifted_by"] = tidy(by_s + moved_by_s)
        about["report"] = report.as_json()
        return Workload(jobs, self._profiles, n_procs, self.source, about)
