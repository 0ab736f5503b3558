"""Compute the figures of a run while it runs, without polars: the same as `pybatsched.metrics.job_results`."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any

from pybatsched.core.events import REJECTED
from pybatsched.metrics.distributions import mean_and_maximum
from pybatsched.metrics.outcomes import (
    LOST_JOBS,
    MAY_CONTINUE,
    UNUSED_SPARE,
    JobRecord,
    Outcome,
    digest_of_ids,
    join_segments,
    lineage_of,
)
from pybatsched.metrics.slowdown import DEFAULT_TAU_S, bounded_slowdown
from pybatsched.metrics.truncated import UnfinishedJob


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run. Waits and slowdowns are over the jobs that ran; None if no job ran.

    The wait of a job is the time from its first submission to its last end minus its run time. Bounded slowdown is
    max(1, (wait + run) / max(run, tau)). `utilisation` is the share of all processors' time between the first
    submission and the last end that jobs held. A truncated run counts up to the truncation, with the jobs that ran
    then. `makespan_s` is the last end, counted from 0 as in Batsim. `n_left_out` jobs are not evaluated: only
    utilisation and makespan include them. `lost_jobs` identifies the jobs that were rejected or killed, or did not end.
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
    lost_jobs: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, for JSON; `n_left_out` and `lost_jobs` only if they are not 0."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value or name not in {"n_left_out", LOST_JOBS}}


@dataclass(slots=True)
class _Sums:
    """Waits and slowdowns of the jobs counted so far. Sums of them are exact, as in the table of jobs."""

    tau_s: float
    n_by_state: Counter[str] = field(default_factory=Counter)
    waits_s: array[float] = field(default_factory=lambda: array("d"))
    slowdowns: array[float] = field(default_factory=lambda: array("d"))

    def count(self, state: str, wait_s: float, runtime_s: float) -> None:
        """Count a job that ran."""
        self.n_by_state[state] += 1
        wait_s = int(wait_s * 1e6 + 0.5) / 1e6 if wait_s > 0 else 0.0  # as `round`, in much less time
        self.waits_s.append(wait_s)
        self.slowdowns.append(bounded_slowdown(wait_s, runtime_s, self.tau_s))

    def count_record(self, job: JobRecord) -> None:
        """Count a job that may have several segments, or never ran."""
        if job.ran:
            self.count(job.state, job.ended_at - job.submitted_at - job.runtime_s, job.runtime_s)
        else:
            self.n_by_state[job.state] += 1


class Tally:
    """Adds up outcomes one by one, O(1) each. `evaluated` are the ids of the jobs that count, None if all count."""

    def __init__(self, tau_s: float = DEFAULT_TAU_S, evaluated: AbstractSet[str] | None = None) -> None:
        self._sums = _Sums(tau_s)
        self._evaluated = evaluated
        self._left_out: set[str] = set()
        self._held_s = array("d")  # processor-seconds of each segment
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
            self._held_s.append(outcome.n_procs * runtime_s)
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
            self._sums.count(state, started_at - submitted_at, runtime_s)

    @property
    def n_over(self) -> int:
        """The number of jobs that are over, whether they count or not."""
        n_counted = sum(self._sums.n_by_state.values()) + len(self._possible_parents.keys() | self._later.keys())
        return n_counted + len(self._left_out)

    def truncate(self, at: float, unfinished: Iterable[UnfinishedJob]) -> None:
        """Count the processors that jobs still hold when the simulation is truncated."""
        self._cut_at = at
        for job in unfinished:
            self._first_at = min(self._first_at, job.submitted_at)
            if job.started_at is not None:
                self._held_s.append(job.n_procs * (at - job.started_at))

    def figures(self, n_procs: int, unfinished: Iterable[str] = ()) -> Figures:
        """Return the figures so far, on a machine of `n_procs` processors; `unfinished` are ids of jobs. O(jobs)."""
        sums = deepcopy(self._sums)
        lost = list(unfinished)
        for job_id in self._possible_parents.keys() | self._later.keys():
            # Without a possible parent, the job itself is not in this run's rows.
            job = join_segments(self._possible_parents.get(job_id), self._later.get(job_id, ()))
            sums.count_record(job)
            lost += [job_id] if job.state in MAY_CONTINUE else []
        mean_wait_s, max_wait_s = mean_and_maximum(sums.waits_s)
        mean_slowdown, max_slowdown = mean_and_maximum(sums.slowdowns)
        last_at = round(self._last_at, 6) if self._last_at > -math.inf else None
        end = last_at if self._cut_at == -math.inf else self._cut_at
        span_s = 0.0 if end is None else end - self._first_at
        return Figures(
            n_jobs=sum(sums.n_by_state.values()),
            n_by_state=dict(sorted(sums.n_by_state.items())),
            mean_wait_s=mean_wait_s,
            max_wait_s=max_wait_s,
            mean_bounded_slowdown=mean_slowdown,
            max_bounded_slowdown=max_slowdown,
            tau_s=sums.tau_s,
            utilisation=math.fsum(self._held_s) / (n_procs * span_s) if 0 < span_s < math.inf else None,
            makespan_s=last_at,
            n_left_out=len(self._left_out),
            **digest_of_ids(lost),
        )
