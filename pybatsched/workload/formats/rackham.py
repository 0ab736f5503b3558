"""Convert a log of the Rackham format to a workload, as in the study of locality (rules: docs/workloads.md).

Time 0 is the submission of the first warm-up job. Jobs that ran then continue on the same node with their remaining
time. Jobs that waited then are submitted at 0. Jobs of the evaluated class are marked, so that metrics can be limited
to them.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.workload.formats.conversion import (
    NO_RUN_TIME,
    NO_SUBMISSION,
    LogConverter,
    LogOptions,
    report_of_reading,
)
from pybatsched.workload.formats.rackham_reader import JobClass, RackhamJob, RackhamTrace
from pybatsched.workload.inject.input_files import alone_s
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes, plain, tidy

#: The machine of the study: 486 nodes of 20 cores, each a processor.
N_NODES: Final = 486
NODE_CORES: Final = 20
_LEAST_LEFT_S: Final = 1

NO_CORES: Final = "no cores: dropped"
RUNNING: Final = "ran at time 0: submitted then, run time and walltime shortened by what had passed"
OVER: Final = "ran at time 0, but its run time or walltime was over by then: 1 s is left"
LATE: Final = "ran at time 0, but was started later by the log: taken to start at time 0"
WAITING: Final = "waited at time 0: submitted then"
EARLY: Final = "of class 0, 1 or 2, but submitted before time 0: submitted then"
OUT_OF_TURN: Final = "submitted with the job above it, but of a lower id: Batsim takes it first"


def time_zero(trace: RackhamTrace) -> tuple[float, str | None]:
    """Return the time of the log that is time 0, and a remark about it. O(n). Raises InputError."""
    for kinds, remark in (({JobClass.WARM_UP}, ""), ({JobClass.EVALUATED, JobClass.AFTER}, "no job of class 0: ")):
        times = [job.submitted_at for job in trace.jobs if job.kind in kinds and job.submitted_at >= 0]
        if times:
            at = min(times)
            return at, remark and f"{remark}time 0 is the first submission of class 1 or 2, at {plain(at):,} s"
    raise InputError(
        f"{trace.source}: field workload: expected a job of class 0, 1 or 2, whose submission is time 0, found none"
    )


def to_workload(
    trace: RackhamTrace, options: LogOptions | None = None, selection: Selection | None = None
) -> tuple[Workload, Report]:
    """Convert a log, or the jobs that a selection keeps, by the clock of the workload. O(n log n)."""
    converter = _Converter(trace, options or LogOptions(), selection or Selection())
    for place in converter.chosen(map(converter.candidate, trace.jobs)):
        converter.make(trace.jobs[place])
    return converter.workload(), converter.report


class _Converter(LogConverter):
    """The conversion of one log."""

    number_field = "id"

    def __init__(self, trace: RackhamTrace, options: LogOptions, selection: Selection) -> None:
        if options.walltimes.rule == "requested":
            options = replace(options, walltimes=Walltimes("requested-strict"))
        numbers = [job.number for job in trace.jobs]
        super().__init__(trace.source, numbers, report_of_reading(len(numbers), trace.bad), options, selection)
        self.zero_at, remark = time_zero(trace)
        if remark:
            self.report.note(remark)

    def candidate(self, row: RackhamJob) -> tuple[int, float, int, str | None]:
        """Return the facts that decide whether a line becomes a job."""
        return row.line, submitted_at(row, self.zero_at), row.n_cores, self._drop_reason(row)

    def _drop_reason(self, row: RackhamJob) -> str | None:
        """Return the rule that drops a line, None to keep it."""
        if row.submitted_at < 0:
            return NO_SUBMISSION
        if row.run_s <= 0 and self.options.min_runtime_s is None:
            return NO_RUN_TIME
        return NO_CORES if row.n_cores <= 0 else None

    def make(self, row: RackhamJob) -> None:
        """Make a job of a line, and count changes."""
        whole_s = self.run_time(row.run_s, row.line)
        passed_s = self._passed(row)
        if is_over(whole_s, row.walltime_s, passed_s):
            self.report.count("changed", OVER, row.line)
        run_s = _left(whole_s, passed_s)
        times = self.times(run_s, _left(row.walltime_s, passed_s) if row.walltime_s > 0 else None, row.line)
        job: dict[str, Any] = {
            "id": self.number(row.number, row.line),
            "subtime": tidy(submitted_at(row, self.zero_at)),
            "res": row.n_cores,
            "profile": self.profile(run_s),
        }
        if times.walltime_s is not None:
            job["walltime"] = times.walltime_s
            job["estimate"] = times.walltime_s if times.estimate_s is None else times.estimate_s
        job |= {
            "user": row.user,
            "input_file": row.file,
            "input_size_gb": plain(row.size_gb),
            "alone_s": alone_s(whole_s, row.size_gb),
            "evaluated": row.kind == JobClass.EVALUATED,
        }
        if row.kind == JobClass.RUNNING:
            job |= {"history_node": row.node - 1, "history_start": tidy(-passed_s)}
        self.jobs.append(job)

    def _passed(self, row: RackhamJob) -> float:
        """Return how long a job had run at time 0, and count changes by its class."""
        if row.kind == JobClass.RUNNING:
            self.report.count("changed", RUNNING, row.line)
            if row.started_at > self.zero_at:
                self.report.count("changed", LATE, row.line)
            return max(self.zero_at - row.started_at, 0)
        if row.kind == JobClass.WAITING:
            self.report.count("changed", WAITING, row.line)
        elif row.submitted_at < self.zero_at:
            self.report.count("changed", EARLY, row.line)
        return 0

    def workload(self) -> Workload:
        """Return the workload. Ids get leading zeros, because Batsim takes jobs of the same time by id as text."""
        for before, job in itertools.pairwise(self.jobs):
            if job["subtime"] == before["subtime"] and job["id"] < before["id"]:
                self.report.count("noted", OUT_OF_TURN, self.line_of[job["id"]])
        made = self.finished(self.options.n_procs or N_NODES * NODE_CORES, self.zero_at)
        n_digits = len(str(self.greatest_number))
        for job in made.jobs:
            job["id"] = f"{job['id']:0{n_digits}}"
        return made


def submitted_at(row: RackhamJob, zero_at: float) -> float:
    """Return the submission time of a job in the workload, whose time 0 is `zero_at` of the file."""
    return max(row.submitted_at - zero_at, 0) if row.kind >= JobClass.WARM_UP else 0


def is_over(run_s: float, walltime_s: float, passed_s: float) -> bool:
    """Return whether less than a second is left of the run time or the walltime."""
    return passed_s > 0 and (run_s - passed_s < _LEAST_LEFT_S or 0 < walltime_s < passed_s + _LEAST_LEFT_S)


def _left(whole_s: float, passed_s: float) -> float:
    """Return the rest of a duration after `passed_s`, at least a second."""
    return max(whole_s - passed_s, _LEAST_LEFT_S) if passed_s else whole_s
