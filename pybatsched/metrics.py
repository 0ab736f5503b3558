"""Figures of a run, from its jobs' outcomes: waits, slowdowns, utilisation.

A job that was killed and requeued, or replaced by one of another size, counts once: from its first submission to its
last end. Its segments are put together by what the engine wrote into their metadata (``parent=w0!12;…``), so the same
figures come from a plain ``_jobs.csv`` of real Batsim.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from pybatsched.events import COMPLETED_KILLED, REJECTED

#: Run times below this many seconds count as this many in a bounded slowdown.
DEFAULT_TAU_S: Final = 60.0
#: How the metadata of a job begins that was registered to be at hand and was not needed.
UNUSED_SPARE: Final = "unused_spare_of="


class Outcome(NamedTuple):
    """What became of one job of ``_jobs.csv``. A rejected one has no start, run time and processors."""

    id: str
    state: str
    submitted_at: float
    started_at: float
    runtime_s: float
    n_procs: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run. Waits and slowdowns are over the jobs that ran; None where no job ran.

    `wait` is from submission to the start of the job's last segment, bounded slowdown is
    max(1, (wait + run) / max(run, tau)), `utilisation` is the share of all processors' time between the first
    submission and the last end that jobs held, and `makespan_s` is that last end, counted from 0 as Batsim does.
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

    def as_dict(self) -> dict[str, Any]:
        """Give the figures by name, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


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

    def count(self, outcome: Outcome, submitted_at: float) -> None:
        """Count a job by its last segment and its first submission."""
        self.n_by_state[outcome.state] += 1
        if outcome.state == REJECTED:
            return
        self.n_ran += 1
        runtime_s = outcome.runtime_s
        wait_s = max(outcome.started_at - submitted_at, 0.0)
        slowdown = max((wait_s + runtime_s) / max(runtime_s, self.tau_s), 1.0)
        self.wait_sum += wait_s
        self.slow_sum += slowdown
        self.wait_max = max(self.wait_max, wait_s)
        self.slow_max = max(self.slow_max, slowdown)


class Tally:
    """Adds up outcomes as they come. O(1) each; only killed, rejected and derived jobs are remembered."""

    def __init__(self, tau_s: float = DEFAULT_TAU_S) -> None:
        self._sums = _Sums(tau_s)
        self._held_s = 0.0  # processor-seconds
        self._first_at = math.inf
        self._last_at = -math.inf
        self._perhaps_parents: dict[str, Outcome] = {}
        self._last_segments: dict[str, Outcome] = {}  # of the jobs that went on as others, by their own ids

    def add(self, outcome: Outcome) -> None:
        """Take in one outcome."""
        metadata = outcome.metadata
        if metadata.startswith(UNUSED_SPARE):
            return  # made in case a kill came in time, and never needed
        self._first_at = min(self._first_at, outcome.submitted_at)
        if outcome.state != REJECTED:
            self._held_s += outcome.n_procs * outcome.runtime_s
            self._last_at = max(self._last_at, outcome.started_at + outcome.runtime_s)
        parent = parent_of(metadata) if metadata else None
        if parent is not None:
            known = self._last_segments.get(parent)
            if known is None or outcome.started_at >= known.started_at:
                self._last_segments[parent] = outcome
        elif outcome.state in {COMPLETED_KILLED, REJECTED}:
            self._perhaps_parents[outcome.id] = outcome
        else:
            self._sums.count(outcome, outcome.submitted_at)

    def figures(self, n_procs: int) -> Figures:
        """Give the figures so far, on a machine of so many processors. O(killed, rejected and derived jobs)."""
        sums = replace(self._sums, n_by_state=self._sums.n_by_state.copy())
        for job_id, outcome in self._perhaps_parents.items():
            sums.count(self._last_segments.get(job_id, outcome), outcome.submitted_at)
        for job_id, outcome in self._last_segments.items():
            if job_id not in self._perhaps_parents:  # the job itself is not in this run's rows
                sums.count(outcome, outcome.submitted_at)
        ran, n, span_s = sums.n_ran > 0, max(sums.n_ran, 1), self._last_at - self._first_at
        return Figures(
            n_jobs=sum(sums.n_by_state.values()),
            n_by_state=dict(sorted(sums.n_by_state.items())),
            mean_wait_s=sums.wait_sum / n if ran else None,
            max_wait_s=sums.wait_max if ran else None,
            mean_bounded_slowdown=sums.slow_sum / n if ran else None,
            max_bounded_slowdown=sums.slow_max if ran else None,
            tau_s=sums.tau_s,
            utilisation=self._held_s / (n_procs * span_s) if ran and span_s > 0 else None,
            makespan_s=self._last_at if ran else None,
        )


def parent_of(metadata: str) -> str | None:
    """Give the job that a derived one goes on for, by its metadata.

    >>> parent_of("parent=w0!12;segment=1;kind=requeue")
    'w0!12'
    """
    for part in metadata.split(";"):
        key, _, value = part.partition("=")
        if key == "parent":
            return value
    return None
