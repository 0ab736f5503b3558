"""Convert a log in the Standard Workload Format to a workload, with a report in its `about`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pybatsched.errors import InputError, setting, spelled
from pybatsched.workload import progress
from pybatsched.workload.formats.conversion import (
    DEFAULT_MEMORY_UNIT,
    LOOSE,
    MEMORY_UNITS,
    NO_RUN_TIME,
    NO_SUBMISSION,
    LogConverter,
    LogLines,
    LogOptions,
    MemoryUnit,
    gc_paused,
    procs_in_use,
)
from pybatsched.workload.formats.swf_reader import FIELDS, UNNAMED, SwfTrace
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import plains

PART: Final = "a part of a job that also has a line for the whole: dropped"
NO_SIZE: Final = "no processors, neither allocated nor requested: dropped"
NO_REQUEST: Final = "no requested time that its run time could be cut to: dropped"
CUT: Final = "ran longer than requested: run time cut to the request"
UNKNOWN: Final = "unknown run time: set to the given one"
UNPLANNED: Final = "neither run time nor requested time is known: no walltime and no estimate"
OTHER_SIZE: Final = "the other count of processors was taken, the wanted one is missing"

WHOLE_MACHINE: Final = (
    f"of some partitions alone: the machine is still the whole one, {{:,}} processors (or {setting('n_procs')})"
)

ESTIMATED: Final = "neither MaxProcs nor MaxNodes in the header: the machine is"

_PARTS: Final = frozenset({2, 3, 4})  # the status codes of the format for partial executions

EXTRA_FIELDS: Final = "fields after the 18th that the header names: kept as {}"
TAKEN_FIELDS: Final = "fields after the 18th with the name of another field of jobs: ignored ({})"
#: Usual names of fields after the 18th, in small letters, and the names of these fields of jobs.
_EXTRA_NAMES: Final[Mapping[str, str]] = {"used_gpus": "gpus", "allocated_gpus": "gpus", "num_gpus": "gpus"}
#: Fields of jobs that come from the 18 fields of the format.
_OWN_FIELDS: Final = frozenset(
    {
        *("id", "subtime", "res", "profile", "walltime", "estimate", "user", "group", "application", "queue"),
        *("partition", "status", "memory_gb", "requested_procs", "requested_time", "depends_on", "think_time"),
    }
)

#: Fields that jobs keep unchanged, numbers or names.
_LABELS: Final = ("user", "group", "application", "queue", "partition")

Size = Literal["allocated", "requested", "larger"]
RunTimes = Literal["logged", "cut"]
_IN_A_GB: Final[Mapping[MemoryUnit, float]] = {"KB": 1e6, "MB": 1e3, "GB": 1.0}


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


def extra_name(given: str) -> str:
    """Return the name of the job field for a field after the 18th, by its name in the header.

    >>> extra_name("used_GPUs"), extra_name("soft-walltime")
    ('gpus', 'soft_walltime')
    """
    name = given.lower().replace("-", "_")
    return _EXTRA_NAMES.get(name, name)


def size_of(allocated: float, requested: float, size: str = "allocated") -> int:
    """Return the processors of a job: the chosen number, the other one if it is missing, or 0."""
    if size == "larger":
        return max(int(allocated), int(requested), 0)
    first, second = (allocated, requested) if size == "allocated" else (requested, allocated)
    return int(first) if first > 0 else max(int(second), 0)


def peak_use(trace: SwfTrace, size: str = "allocated") -> int:
    """Return the most processors in use at one time by the log, 0 if it does not have measured waits. O(n log n)."""
    waits = trace.numbers[2]
    if not any(wait_s > 0 for wait_s in waits):  # in generated logs all waits are 0, as on a machine without limits
        return 0
    numbers = trace.numbers
    rows = zip(numbers[1], waits, numbers[3], numbers[4], numbers[7], numbers[10], strict=True)
    spans = (
        (at + wait_s, run_s, n, 0)
        for at, wait_s, run_s, allocated, requested, status in rows
        if at >= 0 and wait_s >= 0 and run_s > 0 and status not in _PARTS
        if (n := size_of(allocated, requested, size)) > 0
    )
    return max((used for used, _, _ in procs_in_use(spans)), default=0)


def machine_of(trace: SwfTrace, options: SwfOptions) -> tuple[int, str | None]:
    """Return the processors of a log's machine, and a remark if the number is not from MaxProcs."""
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
    if (peak := peak_use(trace, options.size)) > largest:
        what = f"estimated as the most processors in use at one time, {peak:,} (or {setting('n_procs')})"
        return peak, f"{ESTIMATED} {what}"
    return largest, f"{ESTIMATED} as large as the largest job, {largest:,}"


def to_workload(
    trace: SwfTrace, options: SwfOptions | None = None, selection: Selection | None = None
) -> tuple[Workload, Report]:
    """Convert a log, or the jobs that a selection keeps. About 7 µs per job, 1 µs per dropped job."""
    converter = _Converter(trace, options or SwfOptions(), selection or Selection())
    with gc_paused():
        converter.make(converter.chosen(converter.candidates()))
        return converter.workload(), converter.report


class _Converter(LogConverter):
    """The conversion of one log."""

    number_field = f"1 ({FIELDS[0]})"
    options: SwfOptions

    def __init__(self, trace: SwfTrace, options: SwfOptions, selection: Selection) -> None:
        trace = trace.of_partitions(selection.partitions) if selection.partitions else trace
        super().__init__(LogLines(trace.source, trace.numbers[0], trace.bad, trace.others), options, selection)
        self.trace = trace
        self._whole: set[int] = set()
        numbers, status = trace.numbers[0], trace.numbers[10]
        if not _PARTS.isdisjoint(status):
            self._whole = {number for number, code in zip(numbers, status, strict=True) if code not in _PARTS}

    def candidates(self) -> Iterator[tuple[int, float, int, str | None]]:
        """Yield the facts that decide whether a line becomes a job, and the rule that drops it, if any."""
        keeps_short = self.options.min_runtime_s is not None
        keeps_unknown = self.options.unknown_runtime_s is not None
        numbers = self.trace.numbers
        needs_request = self.options.run_times == "cut"
        for line, number, submitted_at, run_s, n_procs, requested_s, status in zip(
            self.trace.lines, numbers[0], numbers[1], numbers[3], self._sizes(), numbers[8], numbers[10], strict=True
        ):
            dropped_by = None
            if status in _PARTS and number in self._whole:
                dropped_by = PART
            elif submitted_at < 0:
                dropped_by = NO_SUBMISSION
            elif run_s <= 0 and not keeps_short and not (keeps_unknown and run_s < 0):
                dropped_by = NO_RUN_TIME
            elif n_procs <= 0:
                dropped_by = NO_SIZE
            elif needs_request and requested_s <= 0:
                dropped_by = NO_REQUEST
            yield line, submitted_at, n_procs, dropped_by

    def _sizes(self) -> list[int]:
        """Return the processors of the job on each line, as `size_of` does."""
        first, second = self.trace.numbers[4], self.trace.numbers[7]
        if self.options.size == "larger":
            return [max(n, other, 0) for n, other in zip(first, second, strict=True)]
        if self.options.size == "requested":
            first, second = second, first
        return [n if n > 0 else max(other, 0) for n, other in zip(first, second, strict=True)]

    def run_time(self, logged_s: float, line: int) -> float:
        """Return a job's run time: the logged one, that of unknown ones, or the minimum."""
        unknown_s = self.options.unknown_runtime_s
        if logged_s >= 0 or unknown_s is None:
            return super().run_time(logged_s, line)
        self.report.count("changed", UNKNOWN, line)
        return unknown_s

    def make(self, places: Sequence[int]) -> None:
        """Make a job of each of these lines, and count changes. O(n)."""
        names = ("number", "submitted_at", "run_s", "allocated_procs", "requested_procs", "requested_s", "line")
        number, submitted_at, logged_s, n_procs, other, requested_s, line = self.trace.columns(names, places)
        if self.options.size == "requested":
            n_procs, other = other, n_procs
        elif self.options.size == "larger":
            n_procs = list(map(max, n_procs, other))
        cuts = self.options.run_times == "cut"
        plans_by_request = self.options.walltimes.rule in {"requested", "requested-strict"}
        leaves_unplanned = plans_by_request and self.options.unknown_runtime_s is not None
        jobs = zip(plains(submitted_at), number, logged_s, n_procs, other, requested_s, line, strict=True)
        for at, a_number, a_run_s, n, n_else, wanted_s, a_line in progress.with_progress(jobs, len(places)):
            run_s = a_run_s if a_run_s > 0 else self.run_time(a_run_s, a_line)
            if cuts and run_s > wanted_s:
                self.report.count("changed", CUT, a_line)
                run_s = wanted_s
            if n <= 0:
                self.report.count("changed", OTHER_SIZE, a_line)
            if a_run_s < 0 and wanted_s <= 0 and leaves_unplanned:
                self.report.count("changed", UNPLANNED, a_line)
                walltime_s = estimate_s = None
            else:
                walltime_s, estimate_s, _ = self.times(run_s, wanted_s if wanted_s > 0 else None, a_line)
            job = {
                "id": self.number(a_number, a_line),
                "subtime": at,
                "res": n if n > 0 else n_else,
                "profile": self.profile(run_s),
            }
            if walltime_s is not None:
                job["walltime"] = walltime_s
            if estimate_s is not None:
                job["estimate"] = estimate_s
            self.jobs.append(job)
        self._add_known(places)

    def _add_known(self, places: Sequence[int]) -> None:
        """Add the other fields of these lines to their jobs, except for unknown values (-1)."""
        names = ("status", "requested_memory", "used_memory", "requested_procs", "requested_s", "preceding_job")
        status, wanted, used, requested_procs, requested_s, preceding_job = self.trace.columns(names, places)
        for name, labels in zip(_LABELS, self.trace.columns(_LABELS, places), strict=True):
            self._add(name, labels, [label != -1 for label in labels])
        self._add("status", status, [code >= 0 for code in status])
        memory = [amount if amount > 0 else other for amount, other in zip(wanted, used, strict=True)]
        if any(amount > 0 for amount in set(memory)):
            in_a_gb = _IN_A_GB[self.options.memory_unit]
            self._add("memory_gb", plains([amount / in_a_gb for amount in memory]), [amount > 0 for amount in memory])
        if self.options.with_waits:
            (waits,) = self.trace.columns(["wait_s"], places)
            self._add("logged_wait_s", plains(waits), [wait_s >= 0 for wait_s in waits])
        self._add("requested_procs", requested_procs, [n > 0 for n in requested_procs])
        self._add("requested_time", plains(requested_s), [time_s > 0 for time_s in requested_s])
        self._add_extras(places)
        # Job numbers start with 1, and some logs write 0 for none.
        follows = [before > 0 for before in preceding_job]
        if not any(follows):
            return
        self._add("depends_on", preceding_job, follows)
        (think_s,) = self.trace.columns(["think_s"], places)
        thinks = [is_one and time_s >= 0 for is_one, time_s in zip(follows, think_s, strict=True)]
        self._add("think_time", plains(think_s), thinks)

    def _add_extras(self, places: Sequence[int]) -> None:
        """Add the fields after the 18th that the header names, except for unknown values (-1)."""
        kept: list[str] = []
        taken: list[str] = []
        for given, column in self.trace.extras.items():
            name = extra_name(given)
            if name in _OWN_FIELDS or name in kept:
                taken.append(name)
                continue
            kept.append(name)
            values = [column[place] for place in places]
            self._add(name, values, [value is not None and value != -1 for value in values])
        if kept:
            self.report.note(EXTRA_FIELDS.format(", ".join(kept)))
        if taken:
            self.report.note(TAKEN_FIELDS.format(", ".join(taken)))
        if self.trace.unnamed.count:
            self.report.tallies[UNNAMED] = self.trace.unnamed

    def _add(self, name: str, values: Sequence[Any], is_known: Sequence[bool]) -> None:
        """Add a field to the jobs whose value is known."""
        for job, value in itertools.compress(zip(self.jobs, values, strict=True), is_known):
            job[name] = value

    def workload(self) -> Workload:
        """Return the workload."""
        n_procs, remark = machine_of(self.trace, self.options)
        for one in (*self.trace.remarks, *([] if remark is None else [remark])):
            self.report.note(one)
        for job in self.jobs:
            if "depends_on" in job and job["depends_on"] not in self.line_of:
                self.report.count("changed", LOOSE, self.line_of[job["id"]])
                del job["depends_on"]
                job.pop("think_time", None)
        if self.selection.partitions and self.options.n_procs is None:
            self.report.note(WHOLE_MACHINE.format(n_procs))
        made = self.finished(n_procs)
        if remark is not None and remark.startswith(ESTIMATED):
            made.about["estimated_machine"] = spelled(remark)
        made.about["swf_header"] = self.trace.header
        return made
