"""Find problems in a log of Slurm or in a table, line by line and over the whole log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from operator import gt
from typing import Final

import polars as pl

from pybatsched.errors import setting
from pybatsched.workload.checks.log_checks import check_beyond, check_gaps, check_times, check_units, check_use
from pybatsched.workload.formats import job_log
from pybatsched.workload.formats.conversion import SIZES, SizeIn, gc_paused
from pybatsched.workload.formats.job_log import JobLog, LoggedJob
from pybatsched.workload.report import LintReport

_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_SLACK_S: Final = 60  # Slurm kills jobs up to a minute after their limit

OTHER_RUN_TIME: Final = "run time is not end - start"
DAYLIGHT_SAVING: Final = "run time differs from end - start by an hour: daylight saving time"
IN_FUTURE: Final = "submitted in the future: is the unit of times right?"
EARLY_START: Final = "started before it was submitted"
BEYOND_LIMIT: Final = "ran longer than its time limit (by up to {} s)"
NO_LIMIT: Final = "time limit unknown, UNLIMITED or Partition_Limit"
CLOCK_STEP: Final = (
    "submitted before the job with the lower id on the line above (by up to {} s): the clock was set back"
)
DUPLICATE: Final = "id given before"
ESTIMATE: Final = "the size of the machine is an estimate: the most {} in use at one time"
LARGEST: Final = "the size of the machine is an estimate: the {} of the largest job, because no job has a start"


@gc_paused()
def lint_job_log(trace: JobLog, n_procs: int | None = None) -> LintReport:
    """Check a log of Slurm or a table. O(n log n), about 5 µs per job."""
    size_in = next(
        (one for one in (trace.size_in, *SIZES) if any(job.allocated[one] or job.requested[one] for job in trace.jobs)),
        trace.size_in,
    )
    n_known = n_procs or job_log.peak_use(trace.jobs, size_in) or 1
    found = LintReport(trace.source, trace.format, len(trace.jobs), n_known, where=trace.where)
    found.add_bad_lines(trace.bad)
    if not trace.jobs:
        found.add("no line is a job", "an error: no job is left", 1)
        return found
    first_line = trace.jobs[0].line
    if n_procs is None:
        rule = ESTIMATE if any(job.started_at is not None for job in trace.jobs) else LARGEST
        found.add(rule.format(size_in), f"taken (or {setting('n_procs')})", first_line, "note")
    if trace.local_times and trace.zone.upper() == "UTC":
        found.add("times have no zone", f"read as UTC (or {setting('timezone')})", first_line, "note")
    if trace.n_missing:
        found.add(job_log.MISSING_TIMES, f"read as an hour later (or {setting('timezone')})", first_line)
    for tally in trace.dropped.values():
        found.add_tally(tally, "dropped")
    if trace.lost_steps.count:
        found.add_tally(trace.lost_steps, "ignored")
    for remark in trace.remarks:
        found.add(remark, "nothing", first_line, "note")
    ended = _check_ends(trace.jobs, found)
    _check_times_and_sizes(ended, size_in, found)
    _check_limits(ended, found)
    _check_plausible(trace, ended, found)
    if not trace.has_unique_ids:
        _check_ids(trace.jobs, found)
    _check_clock(trace.jobs, found)
    submissions = [(job.submitted_at, job.line) for job in ended if job.submitted_at is not None]
    schema = {"submitted_at": pl.Float64, "line": pl.Int64}
    check_gaps(pl.DataFrame(submissions, schema=schema, orient="row"), found)
    if n_procs is not None:  # nothing exceeds an estimate by the peak
        check_use(job_log.spans_of(ended, size_in), size_in, found)
    return found


def _check_ends(jobs: Sequence[LoggedJob], found: LintReport) -> list[LoggedJob]:
    """Return the jobs that have ended, and add a note for each other job and each submission in the future."""
    latest = time.time() + _DAY_S  # clocks of other zones are up to a day ahead
    ended: list[LoggedJob] = []
    for job in jobs:
        if (reason := job_log.drop_reason(job)) is None:
            ended.append(job)
        else:
            found.add(reason.removesuffix(": dropped"), "dropped", job.line, "note")
        if (submitted_at := job.submitted_at) is not None and submitted_at > latest:
            found.add(IN_FUTURE, "kept", job.line)
    return ended


def _check_times_and_sizes(jobs: Sequence[LoggedJob], size_in: SizeIn, found: LintReport) -> None:
    """Check the times and the size of each job. Most jobs need no look at their times: they have only start and end."""
    n_procs = found.n_procs
    for job in jobs:
        at, started_at = job.submitted_at, job.started_at
        if at is None or started_at is None or started_at < at or job.elapsed_s is not None or not job.run_s:
            _check_times(job, found)
        n = job.allocated[size_in] or job.requested[size_in] or 0  # `size_of`, without a call
        if not 0 < n <= n_procs and job.run_s:
            _check_size(n, size_in, job, found)


def _check_times(job: LoggedJob, found: LintReport) -> None:
    if not job.run_s:
        found.add("run time 0 or unknown", f"dropped (or {setting('min_runtime')})", job.line)
    started_at = job.started_at
    if started_at is None:
        return
    if job.submitted_at is not None and started_at < job.submitted_at:
        found.add(EARLY_START, "kept; its wait is unknown", job.line)
    if job.elapsed_s is None or job.ended_at is None:
        return
    apart_s = abs(job.ended_at - started_at - job.elapsed_s)
    if apart_s == _HOUR_S:
        found.add(DAYLIGHT_SAVING, f"the run time is taken (or {setting('timezone')})", job.line)
    elif apart_s > 1:
        found.add(OTHER_RUN_TIME, "the run time is taken, which is without suspended time", job.line)


def _check_size(n: int, size_in: SizeIn, job: LoggedJob, found: LintReport) -> None:
    if not n:
        found.add(f"no {size_in}", "dropped", job.line)
    else:
        remedy = f"kept, schedulers reject it (or {setting('max_size')})"
        found.add(f"larger than the machine of {found.n_procs:,}", remedy, job.line)


def _check_limits(jobs: Sequence[LoggedJob], found: LintReport) -> None:
    beyond = [
        (job, run_s - job.limit_s) for job in jobs if job.limit_s and (run_s := job.run_s) and run_s > job.limit_s
    ]
    late = [(job, by_s) for job, by_s in beyond if by_s > _SLACK_S]
    what = BEYOND_LIMIT.format(f"{max((by_s for _, by_s in late), default=0):,.0f}")
    for job, _ in late:
        remedy = (
            f"walltime is raised, the limit stays the estimate (or {setting('walltimes', 'requested-strict')}: killed)"
        )
        found.add(what, remedy, job.line)
    for job, by_s in beyond:
        if by_s <= _SLACK_S:
            found.add("ran up to a minute longer than its time limit", "walltime is raised", job.line, "note")
    limits_s = [job.limit_s for job in jobs]
    if None in limits_s:
        for job in jobs:
            if job.limit_s is None:
                found.add(NO_LIMIT, "planned with its run time", job.line, "note")
    if jobs:
        check_units(_numbers(limit_s for limit_s in limits_s if limit_s), found, jobs[0].line)


def _check_plausible(trace: JobLog, jobs: Sequence[LoggedJob], found: LintReport) -> None:
    """Check the units of submissions, run times and limits over all jobs."""
    if not jobs:
        return
    runs = trace.names_of("run_time") or trace.names_of("start", "end") or "run times"
    ran = _numbers(run_s for job in jobs if (run_s := job.run_s))
    submissions = _numbers(at for job in jobs if (at := job.submitted_at) is not None)
    names = (trace.names_of("submit") or "submission times", runs)
    check_times(submissions, ran, names, found, jobs[0].line)
    pairs = [(run_s, job.limit_s) for job in jobs if job.limit_s and (run_s := job.run_s)]
    n_beyond = sum(run_s > limit_s for run_s, limit_s in pairs)
    check_beyond(n_beyond, len(pairs), (trace.names_of("limit") or "time limits", runs), found, jobs[0].line)


def _numbers(values: Iterable[float]) -> pl.Series:
    return pl.Series(list(values), dtype=pl.Float64)


def _check_ids(jobs: Sequence[LoggedJob], found: LintReport) -> None:
    seen = set()
    for job in jobs:
        if job.id in seen:
            found.add(
                DUPLICATE, f"a job of its own, as after a requeue (or {setting('duplicates', 'error')})", job.line
            )
        seen.add(job.id)


def _check_clock(jobs: Sequence[LoggedJob], found: LintReport) -> None:
    """Find submissions that are earlier than that of a lower id. Ids of attempts do not count."""
    times = [at for job in jobs if (at := job.submitted_at) is not None]
    if not any(map(gt, times, islice(times, 1, None))):  # in order of submission, as most logs are
        return
    n_of: dict[int, int] = {}
    for job in jobs:
        n_of[job.id.number] = n_of.get(job.id.number, 0) + (job.id.task is None and job.id.part is None)
    single = [job for job in jobs if n_of[job.id.number] <= 1 and job.submitted_at is not None]
    steps = [
        (job, before.submitted_at - job.submitted_at)
        for before, job in pairwise(single)
        if before.submitted_at is not None
        and job.submitted_at is not None
        and job.id.number > before.id.number
        and job.submitted_at < before.submitted_at - 1
    ]
    what = CLOCK_STEP.format(f"{max((by_s for _, by_s in steps), default=0):,.0f}")
    for job, _ in steps:
        found.add(what, "put in order of submission", job.line)
