"""The conversion of logs of any format to a workload: options, selection, job numbers, profiles and report."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Final, Literal, get_args
from zoneinfo import ZoneInfo

from pybatsched.errors import InputError, setting
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report, Tally
from pybatsched.workload.selection import NOT_COUNTED, Selection
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
TOO_LARGE: Final = "larger than the machine: kept, schedulers will reject it"

CUT: Final = "ran longer than requested: run time cut to the request"
NO_REQUEST: Final = "no requested time that its run time could be cut to: dropped"
OTHER_SIZE: Final = "the other count of processors was taken, the wanted one is missing"

MemoryUnit = Literal["KB", "MB", "GB"]
DEFAULT_MEMORY_UNIT: Final[MemoryUnit] = "KB"  # as in the standard of SWF
#: The units of memory that a log may have.
MEMORY_UNITS: Final[tuple[MemoryUnit, ...]] = get_args(MemoryUnit)
SizeIn = Literal["cores", "nodes", "gpus"]
#: What the size of a job can count.
SIZES: Final[tuple[SizeIn, ...]] = get_args(SizeIn)
Size = Literal["allocated", "requested", "larger"]
RunTimes = Literal["logged", "cut"]


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


@dataclass(frozen=True, slots=True)
class SwfOptions(LogOptions):
    """Options for the conversion of a log in SWF.

    `size`: the number of processors to use (the other one if it is missing), or the larger of both. `run_times`: as
    logged, or cut to the requested time, which drops jobs without one. `unknown_runtime_s`: keep jobs with an unknown
    run time, with this run time; without a requested time they have no estimate. `memory_unit`: the unit of memory in
    the log. `with_waits`: keep logged waits as `logged_wait_s`. If `n_procs` is None, the machine has MaxProcs or
    MaxNodes of the header.
    """

    size: Size = "allocated"
    run_times: RunTimes = "logged"
    unknown_runtime_s: float | None = None
    memory_unit: MemoryUnit = DEFAULT_MEMORY_UNIT
    with_waits: bool = False

    def __post_init__(self) -> None:
        LogOptions.__post_init__(self)  # super() fails: a dataclass with slots is created twice
        if self.unknown_runtime_s is not None and not 0 < self.unknown_runtime_s < math.inf:
            raise InputError(
                f"{setting('unknown_runtime')}: expected more than 0 seconds, found {self.unknown_runtime_s}"
            )
        if self.memory_unit not in MEMORY_UNITS:
            raise InputError(f"memory unit: expected one of {', '.join(MEMORY_UNITS)}, found {self.memory_unit!r:.40}")

    def as_json(self) -> dict[str, Any]:
        """Return the options for the workload file."""
        first = {"walltimes": str(self.walltimes), "size": self.size, "duplicates": self.duplicates}
        cut: dict[str, Any] = {} if self.run_times == "logged" else {"run_times": self.run_times}
        if self.unknown_runtime_s is not None:
            cut["unknown_runtime"] = self.unknown_runtime_s
        return first | cut | {"memory_unit": self.memory_unit} | LogOptions.as_json(self)


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name, such as Europe/Paris. Raises InputError."""
    if name.upper() in {"UTC", "Z"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise InputError(
            f"time zone {name!r:.60}: expected a name of the time zone database, such as Europe/Paris or UTC"
        ) from None


@dataclass(frozen=True, slots=True)
class JobLogOptions(SwfOptions):
    """Options for the conversion of a log of Slurm or of a table.

    `size_in`: what the size of a job counts; None: as the log says, cores for Slurm. `timezone`: that of times without
    a zone; None: as the mapping of the table says, else UTC. `size`: allocated or requested cores, nodes or GPUs,
    or the larger number. `memory_unit` and `unknown_runtime_s` are not used: the log has units, and jobs that ended
    have a run time.
    """

    size_in: SizeIn | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        SwfOptions.__post_init__(self)  # super() fails: a dataclass with slots is created twice
        if self.size_in is not None and self.size_in not in SIZES:
            raise InputError(f"size: expected one of {', '.join(SIZES)}, found {self.size_in!r:.40}")
        if self.timezone is not None:
            zone_of(self.timezone)

    def as_json(self) -> dict[str, Any]:
        """Return the options for the workload file."""
        made = SwfOptions.as_json(self)
        del made["memory_unit"]
        return made | {"size_in": self.size_in, "timezone": self.timezone}

    @classmethod
    def of(cls, options: SwfOptions, size_in: SizeIn | None = None, timezone: str | None = None) -> JobLogOptions:
        """Return options for a log in SWF as options for a log of Slurm or a table. Options for these do not change."""
        if isinstance(options, JobLogOptions):
            return options
        own = {one.name: getattr(options, one.name) for one in fields(SwfOptions)}
        return cls(**own, size_in=size_in, timezone=timezone)


def profile_of(duration_s: float, kind: str, speed_flops: float) -> dict[str, Any]:
    """Return a profile of this duration: a delay, or a parallel task on processors of the given speed."""
    if kind == "delay":
        return {"type": "delay", "delay": duration_s}
    return {"type": "parallel_homogeneous", "cpu": plain(duration_s * speed_flops), "com": 0}


def report_of_reading(
    n_jobs: int, bad: Mapping[str, Tally], others: Tally | None = None, where: str = "line"
) -> Report:
    """Return the report of a log with this many jobs, and the lines and jobs that are dropped already."""
    report = Report(n_jobs + sum(tally.count for tally in bad.values()), where=where)
    for tally in bad.values():
        dropped = replace(tally, rule=f"bad {where}, {tally.rule}: dropped")
        report.tallies[dropped.rule] = dropped
    if others is not None:
        report.n_read += others.count
        report.tallies[others.rule] = others
    return report


def move(
    jobs: Sequence[dict[str, Any]], selection: Selection, source: str, origin_at: float
) -> tuple[float, list[bool] | None]:
    """Move the submissions of jobs, and mark the jobs that are in the window. O(n). Raises InputError.

    Return how far the jobs were moved, and which of them are counted; None if all are.
    """
    by_s = selection.moved_by(origin_at, jobs[0]["subtime"]) if jobs else 0
    is_counted = selection.counted(source, [job["subtime"] for job in jobs], origin_at)
    for job, is_one in zip(jobs, is_counted or (), strict=False):
        job["evaluated"] = is_one
    for job in jobs if by_s else ():
        job["subtime"] = tidy(job["subtime"] - by_s)
    return by_s, is_counted


def about_conversion(
    source: str, options: LogOptions, selection: Selection, report: Report, moved_by_s: float
) -> dict[str, Any]:
    """Return the members of a workload file that describe its conversion. Its jobs were moved by `moved_by_s`."""
    about: dict[str, Any] = {"source": Path(source).name, "conversion": options.as_json()}
    if chosen := selection.as_json():
        about["selection"] = chosen
    if moved_by_s:
        about["shifted_by"] = tidy(moved_by_s)
    return about | {"report": report.as_json()}


class LogConverter:
    """The conversion of one log."""

    #: Name of the job number's field in error messages.
    number_field = ""

    def __init__(
        self, source: str, numbers: Sequence[int], report: Report, options: LogOptions, selection: Selection
    ) -> None:
        self.source = source
        self.options = options
        self.selection = selection
        self.report = report
        self.jobs: list[dict[str, Any]] = []
        self.line_of: dict[int | str, int] = {}
        self.origin_at = 0.0
        self.greatest_number = max(numbers, default=0)
        self._profiles: dict[str, dict[str, Any]] = {}
        self._profile_names: dict[float, str] = {}

    def chosen(self, candidates: Iterable[tuple[int, float, int, str | None]]) -> list[int]:
        """Return the indices of the lines that become jobs, in order, and count others. Raises InputError.

        A candidate is a line, its submission, its size, and the rule that drops it, if any.
        """
        from pybatsched.workload.logs.selection import candidates_of, chosen  # noqa: PLC0415  they need polars

        kept, self.origin_at = chosen(candidates_of(candidates), self.selection, self.report, self.source)
        return kept["place"].to_list()

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
        by_s, is_counted = move(jobs, self.selection, self.source, self.origin_at)
        for job, is_one in zip(jobs, is_counted or (), strict=False):
            if not is_one:
                report.count("noted", NOT_COUNTED, self.line_of[job["id"]])
        for job in jobs:
            if job["res"] > n_procs:
                report.count("noted", TOO_LARGE, self.line_of[job["id"]])
        report.n_kept = len(jobs)
        about = about_conversion(self.source, self.options, self.selection, report, by_s + moved_by_s)
        return Workload(jobs, self._profiles, n_procs, self.source, about)
