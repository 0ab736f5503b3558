"""Logs whose lines are jobs with times, sizes and states, and their conversion to a workload (rules: docs/traces.md).

`slurm_reader` and `tables.reader` make a `JobLog` of a file, `to_workload` converts it. Time 0 is the first submission
of a job that can run. The size of the machine is estimated if it is not given, because such logs do not have it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

import polars as pl

from pybatsched.errors import InputError, setting, spelled
from pybatsched.workload import progress
from pybatsched.workload.formats import slurm_values as values
from pybatsched.workload.formats.conversion import (
    CUT,
    LOOSE,
    NO_REQUEST,
    NO_RUN_TIME,
    NO_SUBMISSION,
    OTHER_SIZE,
    SIZES,
    JobLogOptions,
    LogConverter,
    SizeIn,
    SwfOptions,
    gc_paused,
    report_of_reading,
)
from pybatsched.workload.formats.slurm_values import JobId, Memory
from pybatsched.workload.logs.table import procs_in_use, spans_frame
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report, Tally
from pybatsched.workload.selection import OTHER_PARTITION, Selection, check_partitions
from pybatsched.workload.walltimes import plain, tidy

WAITING_TASKS: Final = "tasks of an array that had not started at the end of the log: dropped"
CANCELLED: Final = "cancelled before it started: dropped"
NOT_STARTED: Final = "not started at the end of the log: dropped"
RUNNING: Final = "still running at the end of the log: dropped"
NO_SIZE: Final = "no {} in the log: dropped"
UNLIMITED: Final = "time limit UNLIMITED or Partition_Limit: no requested time"
ATTEMPT: Final = "an id given before (a further attempt of a requeued job, for example): a job of its own"
COPY: Final = "a record that another line repeats, or repeats with the end of the job: dropped"
ESTIMATED: Final = (
    "the log does not have the size of its machine: estimated as the most {} in use at one time, {:,} (or "
    f"{setting('n_procs')})"
)
LARGEST: Final = (
    "the log has neither the size of its machine nor starts of jobs: the machine is as large as the largest job, {:,} "
    "{} (or "
    f"{setting('n_procs')})"
)
WITHOUT_ZONE: Final = (
    "times have no zone and are read as UTC: if the clocks of the cluster change for daylight saving time, some times "
    f"are wrong by an hour ({setting('timezone', 'Europe/Paris')})"
)
MISSING_TIMES: Final = "local times that do not exist, when daylight saving time begins (is the time zone right?)"
_AMOUNTS_OF: Final = attrgetter("memory", "used_gb", "priority", "energy_j", "power_w")
_NO_AMOUNTS: Final = (None,) * 5
_DEPENDENCY: Final = re.compile(r"([0-9]{1,15})(?:_([0-9]{1,15}|\*))?(?:\+([0-9]{1,9}))?(?![0-9])")


class LoggedJob(NamedTuple):
    """One job, or one attempt of it. Times are seconds since 1970; None is an unknown value.

    `elapsed_s` is the run time by the log. `allocated` and `requested` are cores, nodes and GPUs (`sizes`). `energy_j`
    and `used_gb` are those of the job, or of its steps; `power_w` is the mean over its run time, of all its nodes.
    `labels` are the text fields that jobs keep, by the names of these fields. `line` is unique in the log.
    """

    id: JobId
    submitted_at: float | None
    eligible_at: float | None
    started_at: float | None
    ended_at: float | None
    elapsed_s: float | None
    limit_s: float | None
    is_unlimited: bool
    allocated: Mapping[SizeIn, int | None]
    requested: Mapping[SizeIn, int | None]
    memory: Memory | None
    used_gb: float | None
    state: str | None
    priority: int | float | None
    energy_j: float | None
    power_w: float | None
    labels: Mapping[str, str]
    line: int

    @property
    def run_s(self) -> float | None:
        """The run time: by the log, else from start to end."""
        if self.elapsed_s is not None:
            return self.elapsed_s
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

    @property
    def has_ended(self) -> bool:
        """Whether the job is not waiting or running at the end of the log."""
        if self.state in values.ALIVE:
            return False
        return self.ended_at is not None or self.elapsed_s is not None


@dataclass(slots=True)
class JobLog:
    """A log in memory, in the order of the file.

    `format` is the name in reports, and `where` is what `line` counts: lines of a text, or rows. `size_in` is what
    sizes count if no option says so. `columns` are those that are known, `ignored` the others. `units` are the columns
    of a table with their units, by field, for reports. `bad` counts the lines that a lenient reading has skipped,
    `dropped` those that were left out for another reason, `others` the jobs of partitions that are not selected.
    `local_times` says whether times without a zone were read, `n_ambiguous` how many
    of them exist twice, and `n_missing` how many do not exist. `has_allocated` says whether the log has sizes that jobs
    got, `has_unique_ids` whether it is known that no id is given twice. `digits` are those of the longest number, task
    and part, for ids with leading zeros. `remarks` are notes about the whole log.
    """

    source: str
    zone: str = "UTC"
    format: Literal["Slurm", "table"] = "Slurm"
    where: str = "line"
    size_in: SizeIn = "cores"
    columns: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    jobs: list[LoggedJob] = field(default_factory=list)
    bad: dict[str, Tally] = field(default_factory=dict)
    dropped: dict[str, Tally] = field(default_factory=dict)
    others: Tally | None = None
    has_allocated: bool = True
    n_steps: int = 0
    lost_steps: Tally = field(default_factory=lambda: Tally("a step whose job has no line: ignored", "noted"))
    local_times: bool = False
    n_ambiguous: int = 0
    n_missing: int = 0
    has_unique_ids: bool = False
    digits: tuple[int, int, int] = (1, 1, 1)
    remarks: list[str] = field(default_factory=list)

    def names_of(self, *fields: str) -> str:
        """Return the names and units of the columns of some fields, for reports; empty if one is unknown."""
        known = [self.units[name] for name in fields if name in self.units]
        return " and ".join(known) if len(known) == len(fields) else ""

    def set_digits(self) -> None:
        """Find the digits of the longest parts of ids. O(n)."""
        ids = [job.id for job in self.jobs]
        numbers = ({one.number for one in ids}, {one.task or 0 for one in ids}, {one.part or 0 for one in ids})
        number, task, part = (len(str(max(found, default=0))) for found in numbers)
        self.digits = (number, task, part)

    def drop_copies(self) -> None:
        """Drop lines that repeat a record, as in months that were exported separately, or lack its end. O(n)."""
        jobs = self.jobs
        self.has_unique_ids = len({job.id for job in jobs}) == len(jobs)
        if self.has_unique_ids:
            return
        by_run: dict[Any, int] = {}
        dropped: set[int] = set()
        for place, job in enumerate(jobs):
            if job.id.is_waiting:
                continue
            key = (job.id, job.submitted_at, job.started_at)
            first = by_run.setdefault(key, place)
            if first == place:
                continue
            if not job.has_ended or jobs[first]._replace(line=job.line) == job:
                dropped.add(place)
            elif not jobs[first].has_ended:
                dropped.add(first)
                by_run[key] = place
            # else the lines differ in more than their end: both are kept, as attempts
        if dropped:
            copies = self.dropped[COPY] = Tally(COPY, "dropped", where=self.where)
            for place in sorted(dropped):
                copies.add(jobs[place].line)
            self.jobs = [job for place, job in enumerate(jobs) if place not in dropped]

    def of_partitions(self, wanted: Sequence[str]) -> JobLog:
        """Return the log of some partitions. The jobs of the others are counted. O(n). Raises InputError."""
        named = (job.labels["partition"] for job in self.jobs if "partition" in job.labels)
        check_partitions(self.source, wanted, Counter(named))
        others = Tally(OTHER_PARTITION, "dropped", where=self.where)
        kept: list[LoggedJob] = []
        for job in self.jobs:
            if job.labels.get("partition") in wanted:
                kept.append(job)
            else:
                others.add(job.line)
        return replace(self, jobs=kept, others=others if others.count else None)


@lru_cache(1 << 16)
def sizes(cores: int | None, nodes: int | None, gpus: int | None) -> Mapping[SizeIn, int | None]:
    """Return the sizes of a job by what they count. Equal sizes are one object: most jobs have a usual size."""
    return {"cores": cores, "nodes": nodes, "gpus": gpus}


def size_of(job: LoggedJob, size_in: SizeIn = "cores", size: str = "allocated") -> int:
    """Return the size of a job: the chosen number, the other one if it is missing, or 0."""
    first, second = job.allocated[size_in], job.requested[size_in]
    if size == "larger":
        return max(first or 0, second or 0)
    if size == "requested":
        first, second = second, first
    return first or second or 0


def drop_reason(job: LoggedJob) -> str | None:
    """Return why a job did not run to its end, None if it did."""
    state = job.state
    if job.id.is_waiting:
        return WAITING_TASKS
    if state in {"CANCELLED", "REVOKED"} and not job.run_s:
        return CANCELLED
    if state in values.ALIVE or (job.ended_at is None and job.elapsed_s is None):  # `has_ended`, without a call
        if job.started_at is not None and state != "PENDING":
            return RUNNING
        return NOT_STARTED if state in values.ALIVE else NO_RUN_TIME
    return NO_SUBMISSION if job.submitted_at is None else None


def peak_use(jobs: Iterable[LoggedJob], size_in: SizeIn = "cores", size: str = "allocated") -> int:
    """Return the most cores, nodes or GPUs in use at one time, at least those of the largest job. O(n log n)."""
    found = list(jobs)
    largest = max((size_of(job, size_in, size) for job in found if job.run_s), default=0)
    ended = (job for job in found if drop_reason(job) is None)
    peak = procs_in_use(spans_of(ended, size_in, size)).select(pl.col("used").max()).item() or 0
    return max(largest, peak)


def spans_of(jobs: Iterable[LoggedJob], size_in: SizeIn = "cores", size: str = "allocated") -> pl.DataFrame:
    """Return the start, run time, size and line of each job that has them, for `procs_in_use`."""
    return spans_frame(
        (job.started_at, run_s, n, job.line)
        for job in jobs
        if job.started_at is not None and (n := size_of(job, size_in, size)) and (run_s := job.run_s)
    )


def to_workload(
    trace: JobLog, options: SwfOptions | None = None, selection: Selection | None = None
) -> tuple[Workload, Report]:
    """Convert a log, or the jobs that a selection keeps. About 10 µs per job. Raises InputError."""
    chosen = JobLogOptions.of(options or JobLogOptions())
    chosen = replace(chosen, size_in=chosen.size_in or trace.size_in, timezone=trace.zone)
    converter = _Converter(trace, chosen, selection or Selection())
    with gc_paused():
        places = converter.chosen(converter.candidates())
        converter.make(places)
        converter.add_attempts(places)
        return converter.workload(), converter.report


class _Converter(LogConverter):
    """The conversion of one log."""

    number_field = "JobID"
    options: JobLogOptions

    def __init__(self, trace: JobLog, options: JobLogOptions, selection: Selection) -> None:
        whole = trace
        trace = trace.of_partitions(selection.partitions) if selection.partitions else trace
        numbers = [job.id.number for job in trace.jobs]
        report = report_of_reading(len(numbers), trace.bad, trace.others, trace.where)
        super().__init__(trace.source, numbers, report, options, selection)
        for tally in trace.dropped.values():
            self.report.n_read += tally.count
            self.report.tallies[tally.rule] = tally
        self.trace = trace
        assert options.size_in is not None
        self._size_in: SizeIn = options.size_in
        self._whole = whole
        self._check_sizes()
        reasons = [drop_reason(job) for job in whole.jobs]
        times = (job.submitted_at for job, reason in zip(whole.jobs, reasons, strict=True) if reason is None)
        self.zero_at = min((at for at in times if at is not None), default=0.0)
        self._reasons = reasons if trace is whole else [drop_reason(job) for job in trace.jobs]
        self._submitted_at: list[int | float] = []  # of each line, from time 0 on
        self._attempts = None if trace.has_unique_ids else _attempts(whole.jobs, trace.jobs)
        self._ids: dict[str, list[str]] = {}  # of jobs in the workload, by the ids of dependencies
        self._has_amounts = any(map(_NO_AMOUNTS.__ne__, map(_AMOUNTS_OF, trace.jobs)))
        self._has_dependencies = any("dependency" in job.labels for job in trace.jobs)

    def _check_sizes(self) -> None:
        """Raise InputError if no job has a size in the chosen unit."""
        size_in = self._size_in
        if self._whole.jobs and not any(job.allocated[size_in] or job.requested[size_in] for job in self._whole.jobs):
            present = [
                one for one in SIZES if any(job.allocated[one] or job.requested[one] for job in self._whole.jobs)
            ]
            if present:
                raise InputError(
                    f"{self.source}: expected sizes in {size_in}, found none; the log has sizes in "
                    f"{' and '.join(present)} ({setting('size_in', present[0])})"
                )

    def candidates(self) -> Iterator[tuple[int, float, int, str | None]]:
        """Yield the facts that decide whether a line becomes a job, and the rule that drops it, if any."""
        keeps_short = self.options.min_runtime_s is not None
        zero_at, times = self.zero_at, self._submitted_at
        for job, reason in zip(self.trace.jobs, self._reasons, strict=True):
            n = size_of(job, self._size_in, self.options.size)
            dropped_by = reason
            if dropped_by is None:
                if not job.run_s and not keeps_short:
                    dropped_by = NO_RUN_TIME
                elif not n:
                    dropped_by = NO_SIZE.format(self._size_in)
                elif self.options.run_times == "cut" and job.limit_s is None:
                    dropped_by = NO_REQUEST
            submitted_at = tidy((job.submitted_at or 0.0) - zero_at)
            times.append(submitted_at)
            yield job.line, submitted_at, n, dropped_by

    def make(self, places: Sequence[int]) -> None:
        """Make a job of each of these lines, and count changes. O(n)."""
        rows, count = self.trace.jobs, self.report.count
        size_in, size = self._size_in, self.options.size
        cuts = self.options.run_times == "cut"
        notes_other_size = size == "allocated" and self.trace.has_allocated
        plans_by_limit = self.options.walltimes.is_by_request
        profiles = self._profile_names
        limits: dict[float, int | float] = {}  # equal limits are one object
        for place in progress.with_progress(places, len(places)):
            row = rows[place]
            run_s, limit_s = row.run_s or 0.0, row.limit_s
            if run_s <= 0:
                run_s = self.run_time(run_s, row.line)
            if limit_s is None:
                if row.is_unlimited:
                    count("noted", UNLIMITED, row.line)
            else:
                if cuts and run_s > limit_s:
                    count("changed", CUT, row.line)
                    run_s = limit_s
                limit_s = limits.get(limit_s) or limits.setdefault(limit_s, plain(limit_s))
            n = size_of(row, size_in, size)
            if notes_other_size and not row.allocated[size_in]:
                count("changed", OTHER_SIZE, row.line)
            walltime_s: float | None = limit_s
            estimate_s: float | None = None
            if limit_s is None or limit_s <= run_s or not plans_by_limit:  # else as `times` does, without calls
                walltime_s, estimate_s, _ = self.times(run_s, limit_s, row.line)
            job: dict[str, Any] = {
                "id": self._id(place, row),
                "subtime": self._submitted_at[place],
                "res": n,
                "profile": profiles.get(run_s) or self.profile(run_s),
            }
            if walltime_s is not None:
                job["walltime"] = walltime_s
            if estimate_s is not None:
                job["estimate"] = estimate_s
            self._add_known(job, row)
            if limit_s is not None:
                job["requested_time"] = limit_s
            self._add_amounts(job, row, n)
            self.jobs.append(job)

    def add_attempts(self, places: Sequence[int]) -> None:
        """Add the number of the attempt to the jobs of these lines that have several. O(n)."""
        if self._attempts is not None:
            for place, job in zip(places, self.jobs, strict=True):
                number, n_all, _ = self._attempts[place]
                if n_all > 1:
                    job["attempt"] = number

    def _id(self, place: int, row: LoggedJob) -> str:
        """Return the id of a job in the workload: that of the log with leading zeros, and the number of the attempt."""
        attempt, _, first_line = (1, 1, 0) if self._attempts is None else self._attempts[place]
        given = row.id.text(*self.trace.digits)
        if attempt > 1:
            if self.options.duplicates == "error":
                raise InputError(
                    f"{self.source}: {self.trace.where} {row.line}, field {self.number_field}: expected a unique id, "
                    f"found {row.id.text()}, which is also on {self.trace.where} {first_line}"
                )
            self.report.count("noted", ATTEMPT, row.line)
            given = f"{given}-{attempt}"
        self.line_of[given] = row.line
        if self._has_dependencies:
            number = row.id.number
            for name in {row.id.text()} if row.id.name else {row.id.text(), f"{number}", f"{number}_*"}:
                self._ids.setdefault(name, []).append(given)
        return given

    def _add_known(self, job: dict[str, Any], row: LoggedJob) -> None:
        """Add texts, state and sizes that the log has."""
        labels, allocated, requested = row.labels, row.allocated, row.requested
        if labels:
            job.update(labels)
            if "partition" in labels:
                job["queue"] = labels["partition"]
        if (state := row.state) is not None:
            job["exit_state"] = state
            job["status"] = values.ENDED[state]
        if (count := allocated["nodes"]) is not None or (count := requested["nodes"]) is not None:
            job["nodes"] = count
        if (count := allocated["gpus"]) is not None or (count := requested["gpus"]) is not None:
            job["gpus"] = count
        if wanted := requested[self._size_in]:
            job["requested_procs"] = wanted

    def _add_amounts(self, job: dict[str, Any], row: LoggedJob, n: int) -> None:
        """Add memory, priority, energy, power and the times after the submission, if the log has them."""
        if self._has_amounts:
            if row.memory is not None and (memory_gb := round(_memory_gb(row, row.memory) / n, 9)):
                job["memory_gb"] = plain(memory_gb)
            if row.used_gb is not None:
                job["used_memory_gb"] = plain(round(row.used_gb, 9))
            if row.priority is not None:
                job["priority"] = row.priority
            if row.energy_j is not None:
                job["energy_j"] = plain(row.energy_j)
            if row.power_w is not None:
                job["mean_power_w"] = plain(row.power_w)
        submitted_at, started_at, eligible_at = row.submitted_at, row.started_at, row.eligible_at
        assert submitted_at is not None
        if started_at is not None and started_at >= submitted_at:
            job["logged_wait_s"] = tidy(started_at - submitted_at)
        if eligible_at is not None and eligible_at > submitted_at and (later_s := tidy(eligible_at - submitted_at)):
            job["eligible_after_s"] = later_s

    def workload(self) -> Workload:
        """Return the workload."""
        for job in self.jobs:
            if "dependency" in job:
                self._add_dependencies(job)
        size_in = self._size_in
        n_procs, remark = self.options.n_procs, ""
        if n_procs is None:
            n_procs = peak_use(self._whole.jobs, size_in, self.options.size) or 1
            has_starts = any(job.started_at is not None for job in self._whole.jobs)
            remark = ESTIMATED.format(size_in, n_procs) if has_starts else LARGEST.format(n_procs, size_in)
            self.report.note(remark)
        self._note_reading()
        made = self.finished(n_procs, self.zero_at)
        made.about |= {"estimated_machine": spelled(remark)} if remark else {}
        made.about["clock"] = {"UnixStartTime": "0", "TimeZoneString": self.trace.zone}
        return made

    def _add_dependencies(self, job: dict[str, Any]) -> None:
        """Add `depends_on`: the jobs of the workload that a dependency such as afterok:123:124 names."""
        text = job["dependency"].partition("(")[0]
        wanted = [match[0] for match in _DEPENDENCY.finditer(text)]
        if self.trace.jobs[0].id.name:
            wanted = [one for one in re.split(r"[\s,:;?|]+", text) if one in self._ids]
        found = dict.fromkeys(one for name in wanted for one in self._ids.get(name, ()) if one != job["id"])
        if any(name not in self._ids for name in wanted):
            self.report.count("changed", LOOSE, self.line_of[job["id"]])
        if found:
            job["depends_on"] = list(found)

    def _note_reading(self) -> None:
        """Add notes about the whole log."""
        trace, report = self.trace, self.report
        for remark in trace.remarks:
            report.note(remark)
        if self.jobs:
            first = datetime.fromtimestamp(self.zero_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            report.note(f"time 0 is the first submission, {first}")
        if trace.local_times and trace.zone.upper() == "UTC":
            report.note(WITHOUT_ZONE)
        if trace.n_ambiguous:
            report.note(
                f"local times that exist twice, when daylight saving time ends: the first one is taken, or the second "
                f"one if a job would start before its submission or end before its start ({trace.n_ambiguous:,} times)"
            )
        if trace.n_missing:
            report.note(f"{MISSING_TIMES}: read as an hour later ({trace.n_missing:,} times)")
        if n_merged := trace.n_steps - trace.lost_steps.count:
            report.note(f"lines of steps: merged into their jobs ({n_merged:,} lines)")
        if trace.lost_steps.count:
            report.tallies[trace.lost_steps.rule] = trace.lost_steps
        if trace.ignored:
            report.note(f"columns that are not used: {', '.join(trace.ignored)[:200]}")


def _attempts(whole: Sequence[LoggedJob], kept: Iterable[LoggedJob]) -> list[tuple[int, int, int]] | None:
    """Return for each kept line: its attempt, the attempts, the first line; None if all ids differ. O(n)."""
    if len({job.id for job in whole}) == len(whole):
        return None
    first_line: dict[JobId, int] = {}
    n_of: dict[JobId, int] = {}
    number_at: dict[int, int] = {}
    for job in whole:
        first_line.setdefault(job.id, job.line)
        n_of[job.id] = number_at[job.line] = n_of.get(job.id, 0) + 1
    return [(number_at[job.line], n_of[job.id], first_line[job.id]) for job in kept]


def _either(row: LoggedJob, size_in: SizeIn) -> int | None:
    """Return the allocated number, else the requested one, None if both are unknown."""
    allocated = row.allocated[size_in]
    return row.requested[size_in] if allocated is None else allocated


def _memory_gb(row: LoggedJob, memory: Memory) -> float:
    """Return the memory of a whole job."""
    units: Mapping[str, SizeIn] = {"n": "nodes", "c": "cores"}
    n = 1 if not memory.per else (_either(row, units[memory.per]) or 1)
    return memory.gb * n
