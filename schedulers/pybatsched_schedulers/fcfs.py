"""First come, first served: the head of the queue starts when it fits, and no job overtakes it."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pybatsched import TICK, Decision, Job, LocalPolicy, LocalScheduler, instant, model_at

if TYPE_CHECKING:
    from pybatsched import Partition, QueueOptions


class PlannedJob(NamedTuple):
    """A waiting job with its planned start and end; both are infinite if it never starts."""

    job: Job
    n: int
    start_at: float
    end_at: float


class QueuePlan:
    """The planned starts of the first jobs of a queue, in order.

    In the costs below, m is the number of running and planned jobs. Insertions and removals shift a list of that
    length, which is quick.

    >>> from pybatsched.core.jobs import Job
    >>> plan = QueuePlan(0.0, 1, [(5.0, 2), (9.0, 1)], n_changes=0)  # one is free, two more from 5 on
    >>> plan.place(Job("wide", 3), 10.0, 0.0)
    >>> plan.place(Job("narrow", 1), 2.0, 0.0)
    >>> [(place.start_at, place.end_at) for place in plan.placed], plan.earliest(1, 0.0), plan.earliest(2, 0.0)
    ([(5.0, 15.0), (9.0, 11.0)], 11.0, 15.0)
    """

    def __init__(self, now: float, n_free: int, ends: Iterable[tuple[float, int]], n_changes: int) -> None:
        """Start with the free processors and the expected ends (time, processors) of running jobs, earliest first."""
        self.made_at = now
        self.n_free = n_free
        self.n_changes = n_changes  # the changes of the partition that the plan includes
        self.placed: list[PlannedJob] = []
        self._n_placed = 0  # the sum of their processors
        given_back = [(end_at, n) for end_at, n in ends if end_at < math.inf]
        # The times at which running and planned jobs release processors, and how many.
        self._times = [end_at for end_at, _ in given_back]
        self._counts = [n for _, n in given_back]
        self._n_passed = 0  # how many of these times are not after the last start
        self._n_returned = 0  # how many processors are released at these
        self._steps: list[int] | None = None  # the cumulative number released after that

    def earliest(self, n: int, now: float) -> float:
        """Return the start of a job at the end of the queue; infinity for never. O(log m), and O(m) after a change."""
        not_before = max(now, self.placed[-1].start_at) if self.placed else now
        missing = n - self._n_spare()
        if missing <= 0:
            return not_before
        if self._steps is None:
            self._steps = list(itertools.accumulate(itertools.islice(self._counts, self._n_passed, None)))
        i = bisect_left(self._steps, missing)
        return max(not_before, self._times[self._n_passed + i]) if i < len(self._steps) else math.inf

    def place(self, job: Job, span_s: float, now: float) -> None:
        """Plan a job behind all others. O(m) with a small constant; on average it passes one release time."""
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
        self.placed.append(PlannedJob(job, job.n_procs, start_at, end_at))
        self._n_placed += job.n_procs
        if end_at < math.inf:
            i = bisect_right(self._times, end_at, self._n_passed)
            self._times.insert(i, end_at)
            self._counts.insert(i, job.n_procs)
        self._steps = None

    def cut(self, n_kept: int) -> None:
        """Keep the first `n_kept` planned jobs and drop the others. O(m) for each of them, with a small constant."""
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
        """Record the planned start of the first job; its planned release stays. O(m) with a small constant."""
        place = self.placed.pop(0)
        self.n_free -= place.n
        self._n_placed -= place.n

    def end(self, end_at: float, n: int) -> bool:
        """Record the planned end of a job. Return whether it is in the plan. O(m) with a small constant."""
        if not self._drop(end_at, n):
            return False
        self.n_free += n
        self._n_passed = self._n_returned = 0
        self._steps = None
        return True

    def _n_spare(self) -> int:
        """Return how many processors are free after the last start; negative if some must be released first."""
        return self.n_free - self._n_placed + self._n_returned

    def _drop(self, end_at: float, n: int) -> bool:
        for i in range(bisect_left(self._times, end_at), len(self._times)):
            if self._times[i] != end_at:
                return False
            if self._counts[i] == n:
                del self._times[i], self._counts[i]
                return True
        return False


class FcfsScheduler(LocalScheduler):
    """Start heads of the queue while they fit. O(started * (k + log queue)) per plan.

    The starts of waiting jobs are planned on the first query. The plan is then kept from event to event as long as jobs
    start and end as planned, and rebuilt after an early end, an overrun or a change of machines: O(queue + running).
    """

    on_nodes = "pybatsched_schedulers.on_nodes:FcfsOnNodes"

    def __init__(self, partition: Partition, options: QueueOptions | None = None) -> None:
        super().__init__(partition, options)
        #: In any other order a later job may overtake others.
        self.promises = self._rank is None
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
        """Put a job into the queue. O(log queue), plus the removal of later jobs from the plan."""
        super().submit(job, now, front=front)
        if self._kept is not None:
            self._kept.cut(bisect_left(self.queue, self._entries[job.id]))

    def sort_queue(self, now: float) -> bool:
        """Sort the queue again if its order changes while jobs wait, and drop the plan if jobs have changed places."""
        is_changed = super().sort_queue(now)
        if is_changed:
            self._kept = None
        return is_changed

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a waiting job from the queue. O(log queue), plus the removal of later jobs from the plan."""
        if self._kept is not None:
            self._kept.cut(bisect_left(self.queue, self._entries[job.id]))
        super().withdraw(job, now)

    def ended(self, job: Job, now: float) -> None:
        """Keep the plan if the job ends as expected; drop it otherwise."""
        kept, partition = self._kept, self.partition
        if kept is None:
            return
        if kept.n_changes + 1 == partition.n_changes and kept.end(now, partition.n_returned_by(job)):
            kept.n_changes += 1
        else:
            self._kept = None

    def _follow(self, kept: QueuePlan, job: Job, now: float) -> None:
        """Keep the plan if the job started as planned: a policy may have changed its start, or not started it."""
        self._kept = None
        if not kept.placed:
            return
        place, partition = kept.placed[0], self.partition
        is_known = place.job is job and place.start_at == now and kept.n_changes + 1 == partition.n_changes
        if is_known and job.partition is partition and job.expected_end_at == place.end_at:
            kept.start_first()
            kept.n_changes += 1
            self._kept = kept

    def _is_valid(self, plan: QueuePlan, now: float) -> bool:
        """Return whether a plan equals one that would be built now. O(1)."""
        partition, placed = self.partition, plan.placed
        if plan.n_changes != partition.n_changes or plan.n_free != partition.n_free:
            return False
        if placed and not (placed[0].start_at >= now and self.queue and placed[0].job is self.queue[0].job):
            return False
        # The start of a job that waits for a job past its estimate moves with the clock.
        is_late = bool(partition.running_jobs) and partition.running_jobs[0].expected_end_at < round(now + TICK, 6)
        return plan.made_at == now or not is_late

    def _current_plan(self, now: float) -> QueuePlan:
        """Return the plan of the whole queue. O(1) if nothing changed, O(new jobs) if jobs were only submitted."""
        self.sort_queue(now)
        plan, partition = self._kept, self.partition
        if plan is None or not self._is_valid(plan, now):
            soon = round(now + TICK, 6)
            ends = ((max(job.expected_end_at, soon), partition.n_returned_by(job)) for job in partition.running_jobs)
            plan = self._kept = QueuePlan(now, partition.n_free, ends, partition.n_changes)
        if len(plan.placed) < len(self.queue):
            for _, _, job in self.queue[len(plan.placed) :]:
                plan.place(job, self.span_s(job), now)
        return plan

    def estimated_start(self, n: int, duration_s: float, now: float, latest: float) -> float:  # noqa: ARG002
        """Return the end of the planned queue. O(log queue), usually."""
        return self._current_plan(now).earliest(n, now)

    def planned_start(self, job: Job, now: float) -> float | None:
        """Return when a job of this queue would start by the current plan; None for never. O(log queue), usually."""
        if job.id not in self._entries:
            return super().planned_start(job, now)
        plan = self._current_plan(now)
        start_at = plan.placed[bisect_left(self.queue, self._entries[job.id])].start_at
        return None if start_at == math.inf else start_at


class Fcfs(LocalPolicy):
    """First come, first served, without backfilling."""

    Options: ClassVar[type[Any]] = model_at(
        "pybatsched_schedulers.backfilling_options:PlacementOptions", placement=None
    )
    scheduler = FcfsScheduler
