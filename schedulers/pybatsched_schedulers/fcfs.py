"""First come, first served: the head of the queue starts when it fits, and nobody overtakes it."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pybatsched import TICK, Decision, Job, LocalPolicy, LocalScheduler, QueueOptions, instant, mypyc_attr

if TYPE_CHECKING:
    from pybatsched import Partition


class Place(NamedTuple):
    """A waiting job, with its planned start and end; both are infinity for one that never starts."""

    job: Job
    n: int
    start_at: float
    end_at: float


class QueuePlan:
    """The planned starts of the first jobs of a queue, in order.

    m is the number of jobs that run or are placed below. Insertions and removals move a list of that length, which is
    quick.

    >>> from pybatsched.core.jobs import Job
    >>> plan = QueuePlan(0.0, 1, [(5.0, 2), (9.0, 1)], n_changes=0)  # one is free, two more from 5 on
    >>> plan.place(Job("wide", 3), 10.0, 0.0)
    >>> plan.place(Job("narrow", 1), 2.0, 0.0)
    >>> [(place.start_at, place.end_at) for place in plan.placed], plan.earliest(1, 0.0), plan.earliest(2, 0.0)
    ([(5.0, 15.0), (9.0, 11.0)], 11.0, 15.0)
    """

    def __init__(self, now: float, n_free: int, ends: Iterable[tuple[float, int]], n_changes: int) -> None:
        """Begin with what is free now, and the expected ends (instant, processors) of what runs, soonest first."""
        self.made_at = now
        self.n_free = n_free
        self.n_changes = n_changes  # how many changes of the partition the plan knows of
        self.placed: list[Place] = []
        self._n_placed = 0  # all their processors
        given_back = [(end_at, n) for end_at, n in ends if end_at < math.inf]
        # When how many are given back, by those that run or are placed.
        self._times = [end_at for end_at, _ in given_back]
        self._counts = [n for _, n in given_back]
        self._n_passed = 0  # so many of these instants lie before the last start, or at it; and
        self._n_returned = 0  # so many processors were given back at them
        self._steps: list[int] | None = None  # how many are given back from there on, added up

    def earliest(self, n: int, now: float) -> float:
        """Give the start of a job that comes last; infinity for never. O(log m), and O(m) after a change."""
        not_before = max(now, self.placed[-1].start_at) if self.placed else now
        missing = n - self._n_spare()
        if missing <= 0:
            return not_before
        if self._steps is None:
            self._steps = list(itertools.accumulate(itertools.islice(self._counts, self._n_passed, None)))
        i = bisect_left(self._steps, missing)
        return max(not_before, self._times[self._n_passed + i]) if i < len(self._steps) else math.inf

    def place(self, job: Job, span_s: float, now: float) -> None:
        """Put a job behind all others. O(m), quickly; on average it passes one instant."""
        start_at = self.placed[-1].start_at if self.placed else now
        missing = job.n_procs - self._n_spare()
        while missing > 0 and self._n_passed < len(self._times):
            n = self._counts[self._n_passed]
            start_at = max(start_at, self._times[self._n_passed])
            self._n_passed += 1
            self._n_returned += n
            missing -= n
        if missing > 0:
            start_at = math.inf
        end_at = instant(start_at, span_s)
        self.placed.append(Place(job, job.n_procs, start_at, end_at))
        self._n_placed += job.n_procs
        if end_at < math.inf:
            i = bisect_right(self._times, end_at, self._n_passed)
            self._times.insert(i, end_at)
            self._counts.insert(i, job.n_procs)
        self._steps = None

    def cut(self, n_kept: int) -> None:
        """Forget the places behind the first ones: somebody left, or came in between. O(m) for each, quickly."""
        if n_kept >= len(self.placed):
            return
        for place in reversed(self.placed[n_kept:]):
            self._n_placed -= place.n
            if place.end_at < math.inf:
                self._drop(place.end_at, place.n)
        del self.placed[n_kept:]
        self._n_passed = self._n_returned = 0
        self._steps = None

    def start_first(self) -> None:
        """Let the first job run, as planned: what it gives back and when stays as it is. O(m), quickly."""
        place = self.placed.pop(0)
        self.n_free -= place.n
        self._n_placed -= place.n

    def end(self, end_at: float, n: int) -> bool:
        """Let a job be over that ends as planned. Gives whether there is one in the plan. O(m), quickly."""
        if not self._drop(end_at, n):
            return False
        self.n_free += n
        self._n_passed = self._n_returned = 0
        self._steps = None
        return True

    def _n_spare(self) -> int:
        """Give how many are free behind the last start; below 0, so many are needed before anybody is given some."""
        return self.n_free - self._n_placed + self._n_returned

    def _drop(self, end_at: float, n: int) -> bool:
        for i in range(bisect_left(self._times, end_at), len(self._times)):
            if self._times[i] != end_at:
                return False
            if self._counts[i] == n:
                del self._times[i], self._counts[i]
                return True
        return False


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

    def plan(self, now: float) -> Iterator[Decision]:
        """Start jobs from the head of the queue while they fit."""
        while self.queue and self.queue[0].job.n_procs <= self.partition.n_free:
            job = self.queue[0].job
            procs = self.pick(job, now)
            if procs is None:
                return
            kept = self._kept
            yield self.start(self.queue[0], "head of the queue", procs)
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
        is_late = bool(partition.running_jobs) and partition.running_jobs[0].expected_end_at < round(now + TICK, 6)
        return plan.made_at == now or not is_late

    def _settled(self, now: float) -> QueuePlan:
        """Give the plan of the whole queue. O(1) if nothing has happened, O(newcomers) if jobs only came."""
        plan, partition = self._kept, self.partition
        if plan is None or not self._stands(plan, now):
            soon = round(now + TICK, 6)
            ends = ((max(job.expected_end_at, soon), partition.n_returned_by(job)) for job in partition.running_jobs)
            plan = self._kept = QueuePlan(now, partition.n_free, ends, partition.n_changes)
        if len(plan.placed) < len(self.queue):
            for _, _, job in self.queue[len(plan.placed) :]:
                plan.place(job, self.span_s(job), now)
        return plan

    def estimated_start(self, n: int, duration_s: float, now: float, latest: float) -> float:  # noqa: ARG002
        """Return the end of the planned queue. O(log queue), usually."""
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
