"""The schedule that a log recorded, as a run: when its jobs really started and ended."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple

from pybatsched.core.derive import delay_of
from pybatsched.core.events import COMPLETED_SUCCESSFULLY
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError, quantity
from pybatsched.metrics.outcomes import Outcome
from pybatsched.metrics.summary import Result, Stuck
from pybatsched.metrics.tally import Tally
from pybatsched.metrics.workload_fields import evaluated_ids
from pybatsched.workload import Workload
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.jobs import full_id

#: The name of the run that a log recorded, in tables and for `compare`.
LOGGED: Final = "logged"
#: The field of jobs with the wait that the log recorded, in seconds.
WAIT: Final = "logged_wait_s"
#: What a workload says about itself after its submissions were changed, and what was done.
_CHANGED: Final = {"scaled_load": "scaled", "shaken": "shaken", "resampled": "resampled"}


class _Logged(NamedTuple):
    started_at: float
    submitted_at: float
    run_s: float
    n_procs: int
    job_id: str


def logged_run(workloads: Mapping[str, Workload], n_procs: int, tau_s: float) -> tuple[list[Outcome], Result]:
    """Return the outcomes of all jobs, by their ends in the log, and the result of the run. O(n log n).

    A job starts its logged wait after its submission and runs as long as in the log. Jobs get the lowest free
    processors; a job for which the machine is too small at that time shares the lowest ones. A job without a wait is
    unfinished. Raises InputError if no job has a wait, and if submissions were changed.
    """
    jobs: list[_Logged] = []
    stuck: list[Stuck] = []
    for name, workload in workloads.items():
        if how := [text for about, text in _CHANGED.items() if about in workload.about]:
            raise InputError(
                f"{workload.source}: the logged run: expected the submissions of the log, found {how[0]} ones"
            )
        run_s = {profile: delay_of(one, workload.profiles) for profile, one in workload.profiles.items()}
        columns = map(workload.values, ("id", "subtime", "res", "profile", WAIT))
        for job_id, at, size, profile, wait_s in zip(*columns, strict=True):
            known_s = run_s[profile]
            if known_s is not None and is_number(wait_s):
                jobs.append(_Logged(at + max(wait_s, 0), at, known_s, size, full_id(name, job_id)))
            else:
                stuck.append(Stuck(full_id(name, job_id), size, at, "the log has no wait or no run time of it"))
    if not jobs:
        sources = ", ".join(workload.source for workload in workloads.values())
        raise InputError(f"{sources}: the logged run: expected jobs with the field {WAIT}, found none")
    outcomes, n_shared = _placed(sorted(jobs), n_procs)
    tally = Tally(tau_s, evaluated_ids(workloads))
    for outcome in outcomes:
        tally.add(outcome)
    remarks = [f"{quantity(n_shared, 'job')} of the log started when too few processors were free"] if n_shared else []
    remarks += [f"{quantity(len(stuck), 'job')} of the log have no wait or no run time"] if stuck else []
    return outcomes, Result(
        finished=not stuck,
        ended_at=outcomes[-1].ended_at,
        n_messages=0,
        figures=tally.figures(n_procs, (one.job_id for one in stuck)),
        stuck=tuple(stuck),
        remarks=tuple(remarks),
    )


def _placed(jobs: list[_Logged], n_procs: int) -> tuple[list[Outcome], int]:
    """Return the outcomes of jobs in the order of their starts, by their ends, and how many share processors."""
    free = IntervalSet.span(0, n_procs)
    ends: list[tuple[float, int, IntervalSet]] = []
    outcomes: list[Outcome] = []
    n_shared = 0
    for number, job in enumerate(jobs):
        while ends and ends[0][0] <= job.started_at:
            free = free | heappop(ends)[2]
        if job.n_procs <= len(free):
            procs = free.first(job.n_procs)
            free = free - procs
            heappush(ends, (round(job.started_at + job.run_s, 6), number, procs))
        else:
            procs = IntervalSet.span(0, job.n_procs)
            n_shared += 1
        times = job.submitted_at, job.started_at, job.run_s
        outcomes.append(Outcome(job.job_id, COMPLETED_SUCCESSFULLY, *times, len(procs), procs=procs))
    outcomes.sort(key=lambda outcome: outcome.ended_at)
    return outcomes, n_shared
