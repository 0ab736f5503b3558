"""Compute the figures of a run while it runs, without polars: the same as `pybatsched.metrics.job_table`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pybatsched.core.events import REJECTED
from pybatsched.metrics.outcomes import MAY_CONTINUE, UNUSED_SPARE, JobRecord, Outcome, join_segments, lineage_of
from pybatsched.metrics.slowdown import DEFAULT_TAU_S, bounded_slowdown
from pybatsched.metrics.truncated import UnfinishedJob


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run. Waits and slowdowns are over the jobs that ran; None if no job ran.

    The wait of a job is the time from its first submission to its last end minus its run time. Bounded slowdown is
    max(1, (wait + run) / max(run, tau)). `utilisation` is the share of all processors' time between the first
    submission and the last end that jobs held. A truncated run counts up to the truncation, with the jobs that ran
    then. `makespan_s` is the last end, counted from 0 as in Batsim. `n_left_out` jobs are not evaluated: only
    utilisation and makespan include them.
    """

    n_jobs: int
    n_by_state: dict[str, int]
    mean_wait_s: float | None
    max_wait_s: float | None
    mean_bounded_slowdown: float | None
    max_bounded_slowdown: float | None
    tau_s: float
    utilisation: float | None
    makespan_s: float | None
    n_left_out: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, for JSON; `n_left_out` only if it is not 0."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.n_left_out:
            del found["n_left_out"]
        return found


@dataclass(slots=True)
class _Sums:
    """Waits and slowdowns of the jobs counted so far."""

    tau_s: float
    n_by_state: Counter[str] = field(default_factory=Counter)
    n_ran: int = 0
    wait_sum: float = 0.0
    wait_max: float = 0.0
    slow_sum: float = 0.0
    slow_max: float = 0.0

    def count(self, state: str, wait_s: float, runtime_s: float) -> None:
        """Count a job that ran."""
        self.n_by_state[state] += 1
        self.n_ran += 1
        slowdown = bounded_slowdown(wait_s, runtime_s, self.tau_s)
        self.wait_sum += wait_s
        self.slow_sum += slowdown
        if wait_s > self.wait_max:
            self.wait_max = wait_s
        if slowdown > self.slow_max:
            self.slow_max = slowdown

    def count_record(self, job: JobRecord) -> None:
        """Count a job that may have several segments, or never ran."""
        if job.ran and job.state != REJECTED:
            wait_s = max(round(job.ended_at - job.submitted_at - job.runtime_s, 6), 0.0)
            self.count(job.state, wait_s, job.runtime_s)
        else:
            self.n_by_state[job.state] += 1


class Tally:
    """Adds up outcomes one by one, O(1) each. `evaluated` are the ids of the jobs that count, None if all count."""

    def __init__(self, tau_s: float = DEFAULT_TAU_S, evaluated: AbstractSet[str] | None = None) -> None:
        self._sums = _Sums(tau_s)
        self._evaluated = evaluated
        self._left_out: set[str] = set()
        self._held_s = 0.0  # processor-seconds
        self._first_at = math.inf
        self._last_at = -math.inf
        self._cut_at = -math.inf
        self._possible_parents: dict[str, Outcome] = {}
        self._later: dict[str, list[Outcome]] = {}  # later segments, by the id of the first one

    def add(self, outcome: Outcome) -> None:
        """Add one outcome."""
        metadata, state, submitted_at = outcome.metadata, outcome.state, outcome.submitted_at
        started_at, runtime_s = outcome.started_at, outcome.runtime_s
        lineage = None
        if metadata:
            if metadata.startswith(UNUSED_SPARE):
                return  # a spare job that was not needed
            lineage = lineage_of(metadata)
        if submitted_at < self._first_at:
            self._first_at = submitted_at
        if state != REJECTED:
            self._held_s += outcome.n_procs * runtime_s
            if started_at + runtime_s > self._last_at:
                self._last_at = started_at + runtime_s
        if self._evaluated is not None:
            job_id = outcome.id if lineage is None else lineage.parent
            if job_id not in self._evaluated:
                self._left_out.add(job_id)
                return
        if lineage is not None:
            self._later.setdefault(lineage.parent, []).append(outcome)
        elif state in MAY_CONTINUE:
            self._possible_parents[outcome.id] = outcome
        else:
            self._sums.count(state, max(started_at - submitted_at, 0.0), runtime_s)

    def truncate(self, at: float, unfinished: Iterable[UnfinishedJob]) -> None:
        """Count the processors that jobs still hold when the simulation is truncated."""
        self._cut_at = at
        for n_procs, submitted_at, started_at in unfinished:
            self._first_at = min(self._first_at, submitted_at)
            if started_at is not None:
                self._held_s += n_procs * (at - started_at)

    def figures(self, n_procs: int) -> Figures:
        """Return the figures so far, on a machine of `n_procs` processors. O(killed, rejected and derived jobs)."""
        sums = replace(self._sums, n_by_state=self._sums.n_by_state.copy())
        for job_id, outcome in self._possible_parents.items():
            sums.count_record(join_segments(outcome, self._later.get(job_id, ())))
        for job_id, segments in self._later.items():
            if job_id not in self._possible_parents:  # the job itself is not in this run's rows
                sums.count_record(join_segments(None, segments))
        ran, n = sums.n_ran > 0, max(sums.n_ran, 1)
        span_s = (self._last_at if self._cut_at == -math.inf else self._cut_at) - self._first_at
        any_ran = self._last_at > -math.inf
        return Figures(
            n_jobs=sum(sums.n_by_state.values()),
            n_by_state=dict(sorted(sums.n_by_state.items())),
            mean_wait_s=sums.wait_sum / n if ran else None,
            max_wait_s=sums.wait_max if ran else None,
            mean_bounded_slowdown=sums.slow_sum / n if ran else None,
            max_bounded_slowdown=sums.slow_max if ran else None,
            tau_s=sums.tau_s,
            utilisation=self._held_s / (n_procs * span_s) if 0 < span_s < math.inf else None,
            makespan_s=self._last_at if any_ran else None,
            n_left_out=len(self._left_out),
        )
