"""From a file of the Rackham format to a workload, as the study of locality has it (docs/workloads.md has the rules).

Time 0 is the submission of the first warm-up job. What ran then goes on where it ran, with what was left of it; what
waited then is submitted at 0. Jobs of the evaluated class are marked, so that figures can be those of the study.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.workload.formats.conversion import (
    NO_RUN_TIME,
    NO_SUBMISSION,
    Candidate,
    Lines,
    LogConverter,
    LogOptions,
)
from pybatsched.workload.formats.rackham_file import Kind, RackhamJob, RackhamTrace, read_rackham
from pybatsched.workload.inject.input_files import alone_s
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes, plain, tidy

__all__ = ["RackhamTrace", "read_rackham", "time_zero", "to_workload"]

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
    """Give the instant of the log that is time 0, and what must be said about it. O(n).

    It is the first submission of class 0; where there is none, of class 1 or 2. Raises InputError where there is
    nothing but history.
    """
    for kinds, remark in (({Kind.WARM_UP}, ""), ({Kind.EVALUATED, Kind.AFTER}, "no job of class 0: ")):
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
    """Make a workload of a file, or of the jobs of it that a selection keeps, by the clock of the workload. O(n log n).

    Requested walltimes are as the file has them, and jobs that ran longer are killed as they are in the study. Raises
    InputError as `time_zero` does, for an id given twice where that is not to be repaired, and for a selection that
    leaves nothing.
    """
    making = _Converter(trace, options or LogOptions(), selection or Selection())
    for place in making.chosen(map(making.candidate, trace.jobs)):
        making.make(trace.jobs[place])
    return making.workload(), making.report


class _Converter(LogConverter):
    """One conversion under way."""

    number_field = "id"

    def __init__(self, trace: RackhamTrace, options: LogOptions, selection: Selection) -> None:
        if options.walltimes.rule == "requested":
            options = replace(options, walltimes=Walltimes("requested-strict"))
        super().__init__(Lines(trace.source, [job.number for job in trace.jobs], trace.bad), options, selection)
        self.zero_at, remark = time_zero(trace)
        if remark:
            self.report.note(remark)

    def candidate(self, row: RackhamJob) -> Candidate:
        """Say of a line what decides whether it makes a job."""
        return Candidate(row.line, submitted_at(row, self.zero_at), row.n_cores, self._refusal(row))

    def _refusal(self, row: RackhamJob) -> str | None:
        """Give the one rule by which a line makes no job."""
        if row.submitted_at < 0:
            return NO_SUBMISSION
        if row.run_s <= 0 and self.options.min_runtime_s is None:
            return NO_RUN_TIME
        return NO_CORES if row.n_cores <= 0 else None

    def make(self, row: RackhamJob) -> None:
        """Make a job of a line, and count what had to be changed."""
        whole_s = self.run_time(row.run_s, row.line)
        passed_s = self._passed(row)
        if is_over(whole_s, row.walltime_s, passed_s):
            self.report.count("changed", OVER, row.line)
        run_s = _left(whole_s, passed_s)
        times = self.times(run_s, _left(row.walltime_s, passed_s) if row.walltime_s > 0 else None, row.line)
        job: dict[str, Any] = {
            "id": self.number(row.number, row.line),
            "subtime": tidy(self.candidate(row).submitted_at),
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
            "evaluated": row.kind == Kind.EVALUATED,
        }
        if row.kind == Kind.RUNNING:
            job |= {"history_node": row.node - 1, "history_start": tidy(-passed_s)}
        self.jobs.append(job)

    def _passed(self, row: RackhamJob) -> float:
        """Give how long a job had run at time 0, and count what its class does to it."""
        if row.kind == Kind.RUNNING:
            self.report.count("changed", RUNNING, row.line)
            if row.started_at > self.zero_at:
                self.report.count("changed", LATE, row.line)
            return max(self.zero_at - row.started_at, 0)
        if row.kind == Kind.WAITING:
            self.report.count("changed", WAITING, row.line)
        elif row.submitted_at < self.zero_at:
            self.report.count("changed", EARLY, row.line)
        return 0

    def workload(self) -> Workload:
        """Put together what was made. Ids get leading zeros: Batsim takes jobs of one instant in the order of texts."""
        for before, job in itertools.pairwise(self.jobs):
            if job["subtime"] == before["subtime"] and job["id"] < before["id"]:
                self.report.count("noted", OUT_OF_TURN, self.line_of[job["id"]])
        made = self.finished(self.options.n_procs or N_NODES * NODE_CORES, self.zero_at)
        n_digits = len(str(self.greatest_number))
        for job in made.jobs:
            job["id"] = f"{job['id']:0{n_digits}}"
        return made


def submitted_at(row: RackhamJob, zero_at: float) -> float:
    """Give the submission of a job by the clock of the workload, whose 0 is an instant of the file's."""
    return max(row.submitted_at - zero_at, 0) if row.kind >= Kind.WARM_UP else 0


def is_over(run_s: float, walltime_s: float, passed_s: float) -> bool:
    """Tell whether less than a second is left of a run time or a walltime when some of it has passed."""
    return passed_s > 0 and (run_s - passed_s < _LEAST_LEFT_S or 0 < walltime_s < passed_s + _LEAST_LEFT_S)


def _left(whole_s: float, passed_s: float) -> float:
    """Give what is left of a time when some of it has passed: at least a second."""
    return max(whole_s - passed_s, _LEAST_LEFT_S) if passed_s else whole_s
