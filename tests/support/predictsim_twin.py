"""The slow, obvious twin of `published_predictsim`: a small simulator of its own that has one event after the other.

It shares nothing with the policy, the engine and the embedded simulator. It gives all published rows of KTH-SP2 and
CTC-SP2 to four decimals.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

CORRECTION, SUBMISSION, END = range(3)

STEPS_S: Final = [60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000]

#: The published rows: backfill order, predictor, corrector.
ROWS: Final = [
    *((order, predict, "requested") for order in ("fcfs", "sjf") for predict in ("requested", "exact", "double")),
    *((order, "last2", correct) for order in ("fcfs", "sjf") for correct in ("incremental", "requested", "doubling")),
]


class TwinJob(NamedTuple):
    """A job of a log; `run_s` is at most `requested_s`."""

    at: float
    run_s: float
    n: int
    requested_s: float
    user: str = ""


@dataclass
class PredictsimTwin:
    """Plays a whole simulation; afterwards `starts` has the start of each job."""

    jobs: Sequence[TwinJob]
    n_procs: int
    order: str
    predict: str
    correct: str
    starts: dict[int, float] = field(default_factory=dict)
    _queue: list[int] = field(default_factory=list)
    _planned_ends: dict[int, float] = field(default_factory=dict)  # of running jobs
    _predicted: dict[int, float] = field(default_factory=dict)
    _first: dict[int, float] = field(default_factory=dict)
    _n_corrections: dict[int, int] = field(default_factory=dict)
    _ran: dict[str, list[float]] = field(default_factory=dict)  # by user
    _events: list[tuple[float, int, int, int]] = field(default_factory=list)  # time, kind, order, job

    def run(self) -> PredictsimTwin:
        self._events = [(job.at, SUBMISSION, i, i) for i, job in enumerate(self.jobs)]
        heapq.heapify(self._events)
        handlers = {CORRECTION: self._on_correction, SUBMISSION: self._on_submission, END: self._on_end}
        while self._events:
            now, kind, order, i = heapq.heappop(self._events)
            handlers[kind](now, order, i)
        return self

    def mean_bounded_slowdown(self, tau_s: float = 10.0) -> float:
        slowdowns = [
            max(1.0, (self.starts[i] - job.at + job.run_s) / max(job.run_s, tau_s)) for i, job in enumerate(self.jobs)
        ]
        return sum(slowdowns) / len(slowdowns)

    def _on_correction(self, now: float, order: int, i: int) -> None:
        job, n, last = self.jobs[i], self._n_corrections.get(i, 0), self._predicted[i]
        self._n_corrections[i] = n + 1
        if self.correct == "requested":
            new = job.requested_s
        elif self.correct == "doubling":
            new = 2 * last
        else:
            new = min(job.requested_s, self._first[i] + STEPS_S[n]) if n < len(STEPS_S) else job.requested_s
        assert new > last
        self._predicted[i] = new
        self._planned_ends[i] = self.starts[i] + new
        if job.run_s > new:
            heapq.heappush(self._events, (self._planned_ends[i], CORRECTION, order, i))

    def _on_submission(self, now: float, order: int, i: int) -> None:
        job, ran = self.jobs[i], self._ran.get(self.jobs[i].user, [])
        last_two = min(job.requested_s, (ran[-1] + ran[-2]) // 2) if len(ran) > 1 else job.requested_s
        self._predicted[i] = self._first[i] = {
            "requested": job.requested_s,
            "exact": job.run_s,
            "double": 2 * job.requested_s,
            "last2": last_two,
        }[self.predict]
        self._queue.append(i)
        if self.order == "sjf" or job.n <= self._n_free(now):
            self._pass(now)

    def _on_end(self, now: float, order: int, i: int) -> None:
        del self._planned_ends[i]
        self._ran.setdefault(self.jobs[i].user, []).append(self.jobs[i].run_s)
        self._pass(now)

    def _n_free(self, now: float) -> int:
        return self.n_procs - sum(self.jobs[i].n for i, end_at in self._planned_ends.items() if end_at > now)

    def _start(self, i: int, now: float) -> None:
        self._queue.remove(i)
        self.starts[i] = now
        self._planned_ends[i] = now + self._predicted[i]
        number = len(self.starts)
        if self.jobs[i].run_s > self._predicted[i]:
            heapq.heappush(self._events, (self._planned_ends[i], CORRECTION, number, i))
        heapq.heappush(self._events, (now + self.jobs[i].run_s, END, number, i))

    def _pass(self, now: float) -> None:
        while self._queue and self.jobs[self._queue[0]].n <= self._n_free(now):
            self._start(self._queue[0], now)
        if not self._queue:
            return
        head = self.jobs[self._queue[0]]
        shadow_at = min(
            at for at in self._planned_ends.values() if at > now and self._n_free(at) >= head.n
        )  # jobs that end at that time count as ended
        n_extra = self._n_free(shadow_at) - head.n
        others = self._queue[1:]
        if self.order == "sjf":
            others.sort(key=lambda i: self._predicted[i])
        for i in others:
            n = self.jobs[i].n
            if n > self._n_free(now):
                continue
            if now + self._predicted[i] > shadow_at:
                if n > n_extra:
                    continue
                n_extra -= n
            self._start(i, now)
