"""An obvious EASY with predicted run times: one pass per instant, everything computed again each time. O(n^2).

Instants are submissions, ends and corrections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pybatsched.workload.model import Workload

STEPS_S = [60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000]


@dataclass(eq=False)
class TwinJob:
    number: int
    submit: int
    run: int
    size: int
    requested: int
    user: int
    first: float = 0.0
    estimate: float = 0.0
    n_corrections: int = 0
    start: float = -1


@dataclass
class Past:
    """The run times of the ended jobs of each user, in the order of their ends."""

    by_user: dict[int, list[int]] = field(default_factory=dict)

    def of(self, job: TwinJob) -> list[int]:
        return self.by_user.setdefault(job.user, [])


def last2(job: TwinJob, past: Past) -> float:
    runs = past.of(job)[-2:]
    return job.requested if len(runs) < 2 else min(job.requested, sum(runs) // 2)


def mean2(job: TwinJob, past: Past) -> float:
    runs = past.of(job)[-2:]
    return min(job.requested, sum(runs) / len(runs)) if runs else job.requested


def user_mean(job: TwinJob, past: Past) -> float:
    runs = past.of(job)
    return min(job.requested, sum(runs) / len(runs)) if runs else job.requested


PREDICT: dict[str, Callable[[TwinJob, Past], float]] = {
    "last2": last2,
    "mean2": mean2,
    "user_mean": user_mean,
    "exact": lambda job, _past: job.run,
    "requested": lambda job, _past: job.requested,
    "double": lambda job, _past: 2 * job.requested,
}


def correct(job: TwinJob, how: str) -> None:
    if how == "requested":
        job.estimate = job.requested
    elif how == "doubling":
        job.estimate = 2 * job.estimate
    else:
        step = STEPS_S[job.n_corrections] if job.n_corrections < len(STEPS_S) else math.inf
        job.estimate = min(job.first + step, job.requested)
    job.n_corrections += 1


def twin_starts(
    jobs: Sequence[TwinJob], n_procs: int, *, predict: str, correction: str, sjbf: bool
) -> dict[int, float]:
    """Simulate, and return the starts by job number. Jobs are in the order of their submissions."""
    to_come, waiting, running, past = list(jobs), list[TwinJob](), list[TwinJob](), Past()
    while to_come or running:
        now = min([job.submit for job in to_come[:1]] + [job.start + min(job.run, job.estimate) for job in running])
        for job in [job for job in running if job.start + job.run == now]:
            running.remove(job)
            past.of(job).append(job.run)
        for job in running:
            while job.start + job.estimate <= now:
                correct(job, correction)
        while to_come and to_come[0].submit == now:
            job = to_come.pop(0)
            job.first = job.estimate = PREDICT[predict](job, past)
            waiting.append(job)
        one_pass(waiting, running, n_procs, now, sjbf=sjbf)
    return {job.number: job.start for job in jobs}


def one_pass(waiting: list[TwinJob], running: list[TwinJob], n_procs: int, now: float, *, sjbf: bool) -> None:
    def free() -> int:
        return n_procs - sum(job.size for job in running)

    def start(job: TwinJob) -> None:
        waiting.remove(job)
        running.append(job)
        job.start = now

    while waiting and waiting[0].size <= free():
        start(waiting[0])
    if not waiting:
        return
    head, n_then, shadow = waiting[0], free(), 0.0
    for job in sorted(running, key=lambda job: job.start + job.estimate):
        if n_then >= head.size and job.start + job.estimate > shadow:
            break
        n_then += job.size
        shadow = job.start + job.estimate
    extra = n_then - head.size
    others = waiting[1:]
    for job in sorted(others, key=lambda job: job.estimate) if sjbf else others:
        if job.size <= free():
            if now + job.estimate <= shadow:
                start(job)
            elif job.size <= extra:
                extra -= job.size
                start(job)


def as_workload(jobs: Sequence[TwinJob], n_procs: int) -> Workload:
    """Return the same jobs for the embedded simulator."""
    profiles: dict[str, Any] = {f"d{job.run}": {"type": "delay", "delay": job.run} for job in jobs}
    rows = [
        {
            "id": job.number,
            "subtime": job.submit,
            "res": job.size,
            "walltime": job.requested,
            "profile": f"d{job.run}",
            "user": job.user,
        }
        for job in jobs
    ]
    return Workload(rows, profiles, n_procs=n_procs)


def jobs_of_log(lines: Sequence[str], n_procs: int) -> list[TwinJob]:
    """Read jobs as the published program does: requested processors, run times cut to the requested times."""
    jobs = []
    for text in lines:
        if text.startswith(";") or not text.strip():
            continue
        fields = [int(float(part)) for part in text.split()]
        number, submit, run, requested, user = fields[0], fields[1], fields[3], fields[8], fields[11]
        size = fields[7] if fields[7] > 0 else fields[4]
        if run > 0 and 0 < size <= n_procs and requested > 0:
            jobs.append(TwinJob(number, submit, min(run, requested), size, requested, user))
    return sorted(jobs, key=lambda job: job.submit)


def mean_slowdown(jobs: Sequence[TwinJob], starts: Mapping[int, float]) -> float:
    """Return the mean bounded slowdown with a bound of 10 s."""
    slowdowns = [max((starts[job.number] - job.submit + job.run) / max(job.run, 10), 1.0) for job in jobs]
    return sum(slowdowns) / len(slowdowns)
