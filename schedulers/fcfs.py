"""First come, first served: the head of the queue starts when it fits, and nobody overtakes it."""

from __future__ import annotations

from collections.abc import Iterator

from pybatsched.core.decisions import Decision
from pybatsched.policies.local import HEAD, LocalPolicy, LocalScheduler


class FcfsScheduler(LocalScheduler):
    """Start heads of the queue while they fit. O(started * (k + log queue)) per plan."""

    def _plan(self, now: float) -> Iterator[Decision]:
        while self.queue and self.queue[0][2].n_procs <= self.partition.n_free:
            procs = self.pick(self.queue[0][2], now)
            if procs is None:
                return
            yield self.start(self.queue[0], HEAD, procs)


class Fcfs(LocalPolicy):
    """First come, first served, without backfilling."""

    scheduler = FcfsScheduler
