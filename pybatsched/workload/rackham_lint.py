"""What is odd about a file of the Rackham format, and what becomes of it."""

from __future__ import annotations

from pybatsched.errors import InputError
from pybatsched.workload.findings import Linted
from pybatsched.workload.rackham import N_NODES, NODE_CORES, is_over, submitted_at, time_zero
from pybatsched.workload.rackham_file import Kind, RackhamJob, RackhamTrace
from pybatsched.workload.turns import see_order


def lint_trace(trace: RackhamTrace, n_procs: int | None = None) -> Linted:
    """Look at a file, line by line. O(n)."""
    found = Linted(trace.source, "Rackham", len(trace.jobs), n_procs or N_NODES * NODE_CORES)
    found.see_bad_lines(trace.bad)
    zero_at = _see_time_zero(trace, found)
    seen: set[int] = set()
    sizes: dict[str, float] = {}
    latest_at = -1.0
    for job in trace.jobs:
        if 0 <= job.submitted_at < latest_at:
            found.see("submitted before the job above it", "put in order of submission", job.line)
        latest_at = max(latest_at, job.submitted_at)
        if job.number in seen:
            found.see("id given before", "renumbered (or --duplicates error)", job.line)
        seen.add(job.number)
        if sizes.setdefault(job.file, job.size_gb) != job.size_gb:
            found.see("data_size is not that of the same data above", "kept; locality refuses it", job.line)
        _see_times(job, found)
        _see_cores(job, found)
        if zero_at is not None:
            _see_class(job, zero_at, found)
    if zero_at is not None:
        _see_turns(trace, zero_at, found)
    return found


def _see_turns(trace: RackhamTrace, zero_at: float, found: Linted) -> None:
    """Count instants whose jobs are not in the order of their ids, which all have as many digits in the workload."""
    n_digits = len(str(max(job.number for job in trace.jobs)))
    runnable = (job for job in trace.jobs if job.submitted_at >= 0 and job.run_s > 0 and job.n_cores > 0)
    see_order(((submitted_at(job, zero_at), f"{job.number:0{n_digits}}", job.line) for job in runnable), found)


def _see_time_zero(trace: RackhamTrace, found: Linted) -> float | None:
    try:
        zero_at, remark = time_zero(trace)
    except InputError:
        found.see("no job of class 0, 1 or 2, whose submission is time 0", "an error", trace.jobs[0].line)
        return None
    if remark:
        found.see("no job of class 0", "time 0 is the first submission of class 1 or 2", trace.jobs[0].line, "note")
    return zero_at


def _see_times(job: RackhamJob, found: Linted) -> None:
    if job.submitted_at < 0:
        found.see("subtime unknown or negative", "dropped", job.line)
    if job.run_s <= 0:
        found.see("delay of 0, unknown or negative", "dropped (or --min-runtime S)", job.line)
    if job.walltime_s <= 0:
        found.see("walltime of 0, unknown or negative", "kept without a walltime", job.line)
    elif job.run_s >= job.walltime_s:
        found.see("ran at least as long as its walltime", "kept; it will be killed", job.line)


def _see_cores(job: RackhamJob, found: Linted) -> None:
    if job.n_cores <= 0:
        found.see("no cores", "dropped", job.line)
    elif job.n_cores > found.n_procs:
        remedy = "kept, schedulers reject it (or --max-size)"
        found.see(f"larger than the machine of {found.n_procs:,}", remedy, job.line)
    elif job.n_cores > NODE_CORES:
        remedy = "kept; schedulers of single nodes reject it"
        found.see(f"larger than a node of {NODE_CORES} cores", remedy, job.line)


def _see_class(job: RackhamJob, zero_at: float, found: Linted) -> None:
    """Tell what history is not as time 0 wants it."""
    if job.kind >= Kind.WARM_UP:
        if 0 <= job.submitted_at < zero_at:
            found.see("of class 0, 1 or 2, but submitted before time 0", "submitted at time 0", job.line)
        return
    if job.kind != Kind.RUNNING:
        return
    if job.started_at > zero_at:
        found.see("ran at time 0, but was started later", "taken to start at time 0", job.line)
    elif is_over(job.run_s, job.walltime_s, zero_at - job.started_at):
        found.see("ran at time 0, but its run time or walltime was over", "1 s is left", job.line, "note")
    if job.node > N_NODES:
        remedy = "kept; schedulers take it modulo their nodes"
        found.see(f"ran on a node beyond the machine's {N_NODES}", remedy, job.line, "note")
