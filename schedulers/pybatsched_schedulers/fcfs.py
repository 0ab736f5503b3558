"""First come, first served: the head of the queue starts when it fits, and nobody overtakes it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pybatsched.core.compiling import mypyc_attr
from pybatsched.core.decisions import Decision
from pybatsched.core.instants import TICK
from pybatsched.policies.local import HEAD, LocalPolicy, LocalScheduler
from pybatsched.policies.options import QueueOptions
from pybatsched_schedulers.queue_plan import QueuePlan

if TYPE_CHECKING:
    from pybatsched.core.cluster import Partition
    from pybatsched.core.jobs import Job


@mypyc_attr(allow_interpreted_subclasses=True)
class FcfsScheduler(LocalScheduler):
    """Start heads of the queue while they fit. O(started * (k + log queue)) per plan.

    When jobs start by present knowledge is planned if somebody asks. From then on the plan is kept from event to event
    as long as all goes by it, and made anew after an early end, an overrun or a change of machines: O(queue + running).
    """

    def __init__(self, partition: Partition, options: QueueOptions | None = None) -> None:
        super().__init__(partition, options)
        #: In any other order one who comes later may go before others.
        self.promises = options is None or options.order == "fcfs"
        self._kept: QueuePlan | None = None

    def _plan(self, now: float) -> Iterator[Decision]:
        while self.queue and self.queue[0].job.n_procs <= self.partition.n_free:
            job = self.queue[0].job
            procs = self.pick(job, now)
            if procs is None:
                return
            kept = self._kept
            yield self.start(self.queue[0], HEAD, procs)
            if kept is not None:
                self._follow(kept, job, now)

    # --- the plan that is kept ---

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue. O(log queue), and what its place costs those behind it."""
        super().submit(job, now, front=front)
        if self._kept is not None:
            self._kept.cut(bisect_left(self.queue, self._entries[job.id]))

    def withdraw(self, job: Job, now: float) -> None:
        """Take a waiting job out of the queue again. O(log queue), and what its place means to those behind it."""
        if self._kept is not None:
            self._kept.cut(bisect_left(self.queue, self._entries[job.id]))
        super().withdraw(job, now)

    def ended(self, job: Job, now: float) -> None:
        """Keep the plan if the job ends as it was expected to."""
        kept, partition = self._kept, self.partition
        if kept is None:
            return
        if kept.n_changes + 1 == partition.n_changes and kept.end(now, partition.n_returned_by(job)):
            kept.n_changes += 1
        else:
            self._kept = None

    def _follow(self, kept: QueuePlan, job: Job, now: float) -> None:
        """Keep the plan if the job has started as it says: a policy may have started it otherwise, or not at all."""
        self._kept = None
        if not kept.placed:
            return
        place, partition = kept.placed[0], self.partition
        is_known = place.job is job and place.start_at == now and kept.n_changes + 1 == partition.n_changes
        if is_known and job.partition is partition and job.expected_end_at == place.end_at:
            kept.start_first()
            kept.n_changes += 1
            self._kept = kept

    def _stands(self, plan: QueuePlan, now: float) -> bool:
        """Tell whether a plan still is what one made now would be. O(1)."""
        partition, placed = self.partition, plan.placed
        if plan.n_changes != partition.n_changes or plan.n_free != partition.n_free:
            return False
        if placed and not (placed[0].start_at >= now and self.queue and placed[0].job is self.queue[0].job):
            return False
        # What waits for a job past its estimate moves on with the clock.
        is_late = bool(partition.running) and partition.running[0][0] < round(now + TICK, 6)
        return plan.made_at == now or not is_late

    def _settled(self, now: float) -> QueuePlan:
        """Give the plan of the whole queue. O(1) if nothing has happened, O(newcomers) if jobs only came."""
        plan, partition = self._kept, self.partition
        if plan is None or not self._stands(plan, now):
            soon = round(now + TICK, 6)
            ends = ((max(end_at, soon), partition.n_returned_by(job)) for end_at, _, job in partition.running)
            plan = self._kept = QueuePlan(now, partition.n_free, ends, partition.n_changes)
        if len(plan.placed) < len(self.queue):
            for _, _, job in self.queue[len(plan.placed) :]:
                plan.place(job, self.span_s(job), now)
        return plan

    def _estimated(self, n: int, duration_s: float, now: float, latest: float) -> float:  # noqa: ARG002
        return self._settled(now).earliest(n, now)

    def planned_start(self, job: Job, now: float) -> float | None:
        """Say when a job of this queue would start by present knowledge; None for never. O(log queue), usually."""
        entry = self._entries.get(job.id)
        if entry is None:
            return super().planned_start(job, now)
        start_at = self._settled(now).placed[bisect_left(self.queue, entry)].start_at
        return None if start_at == math.inf else start_at


@mypyc_attr(allow_interpreted_subclasses=True)
class Fcfs(LocalPolicy):
    """First come, first served, without backfilling."""

    scheduler = FcfsScheduler
