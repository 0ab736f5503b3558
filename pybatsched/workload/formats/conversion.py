"""The conversion of logs of any format to a workload: options, selection, job numbers, profiles and report."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pybatsched.errors import InputError, setting
from pybatsched.workload.formats.files import Format
from pybatsched.workload.walltimes import Walltimes, plain


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
NO_SIZE: Final = "no {}, neither allocated nor requested: dropped"
NO_RUN_TIME: Final = "run time of 0 or unknown: dropped"
RAISED: Final = "run time of 0 or unknown: set to the minimum"
RENUMBERED: Final = "job number given before: renumbered"
LOOSE: Final = "depends on a job that is not in the workload: dependency removed"
TOO_LARGE: Final = "larger than the machine: kept, schedulers will reject it"

RUNNING: Final = "runs at the start of the window: kept with the rest of its run time, not counted in figures of jobs"

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
    that of the log or its format). `duplicates`: give a second job of the same id another one, or reject the log.
    `profile`: delays, or parallel tasks of the same duration on processors of `speed_flops`. `format`: a name of
    `files.FORMATS` (default: by the content). `mapping`: the file with the mapping of a table.

    `running_at_start`: keep the jobs that run at time 0 of the workload, too, with the rest of their run times.

    `size`: the number of processors to use (the other one if it is missing), or the larger of both. `run_times`: as
    logged, or cut to the requested time, which drops jobs without one.

    For SWF alone: `unknown_runtime_s`: keep jobs with an unknown run time, with this run time; without a requested time
    they have no estimate. `memory_unit`: the unit of memory in the log. For Slurm and tables: `size_in`: what the size
    of a job counts; None: as the log says, cores for Slurm. `timezone`: that of times without a zone; None: as the
    mapping of the table says, else UTC.
    """

    walltimes: Walltimes = field(default_factory=Walltimes)
    min_runtime_s: float | None = None
    n_procs: int | None = None
    duplicates: Literal["renumber", "error"] = "renumber"
    profile: Literal["delay", "parallel"] = "delay"
    speed_flops: float = 1e9
    format: str | None = None
    mapping: str | None = None
    running_at_start: bool = False
    size: Size = "allocated"
    run_times: RunTimes = "logged"
    unknown_runtime_s: float | None = None
    memory_unit: MemoryUnit = DEFAULT_MEMORY_UNIT
    size_in: SizeIn | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        if self.n_procs is not None and self.n_procs < 1:
            raise InputError(f"processors: expected 1 or more, found {self.n_procs}")
        if self.min_runtime_s is not None and not 0 < self.min_runtime_s < math.inf:
            raise InputError(f"minimum run time: expected more than 0 seconds, found {self.min_runtime_s}")
        if not 0 < self.speed_flops < math.inf:
            raise InputError(f"speed: expected more than 0 flop/s, found {self.speed_flops}")
        if self.unknown_runtime_s is not None and not 0 < self.unknown_runtime_s < math.inf:
            raise InputError(
                f"{setting('unknown_runtime')}: expected more than 0 seconds, found {self.unknown_runtime_s}"
            )
        if self.memory_unit not in MEMORY_UNITS:
            raise InputError(f"memory unit: expected one of {', '.join(MEMORY_UNITS)}, found {self.memory_unit!r:.40}")
        if self.size_in is not None and self.size_in not in SIZES:
            raise InputError(f"size: expected one of {', '.join(SIZES)}, found {self.size_in!r:.40}")
        if self.timezone is not None:
            zone_of(self.timezone)

    def as_json(self, kind: Format) -> dict[str, Any]:
        """Return the options that apply to a format, for the workload file."""
        made: dict[str, Any] = {"walltimes": str(self.walltimes), "size": self.size}
        made |= {"run_times": self.run_times} if self.run_times != "logged" else {}
        made |= {"running_at_start": True} if self.running_at_start else {}
        made |= {"unknown_runtime": self.unknown_runtime_s} if self.unknown_runtime_s is not None else {}
        made |= {"memory_unit": self.memory_unit} if kind == "SWF" else {}
        made["duplicates"] = self.duplicates
        made |= {"format": self.format} if self.format is not None else {}
        made |= {"mapping": Path(self.mapping).name} if self.mapping is not None else {}
        made |= {"min_runtime": self.min_runtime_s} if self.min_runtime_s is not None else {}
        return made | ({"profile": self.profile, "speed": self.speed_flops} if self.profile == "parallel" else {})


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name, such as Europe/Paris. Raises InputError."""
    if name.upper() in {"UTC", "Z"}:
        return UTC
    from zoneinfo import ZoneInfo  # noqa: PLC0415  slow to import

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise InputError(
            f"time zone {name!r:.60}: expected a name of the time zone database, such as Europe/Paris or UTC"
        ) from None


def profile_of(duration_s: float, kind: str, speed_flops: float) -> dict[str, Any]:
    """Return a profile of this duration: a delay, or a parallel task on processors of the given speed."""
    if kind == "delay":
        return {"type": "delay", "delay": duration_s}
    return {"type": "parallel_homogeneous", "cpu": plain(duration_s * speed_flops), "com": 0}
