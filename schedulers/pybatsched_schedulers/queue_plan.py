"""A plan of a queue that is served strictly in order: when each job starts if nobody overtakes another.

Behind the start of the last job of such a queue processors are only given back. So it is enough to know how many are
free and when how many are given back, and a job that comes last starts as soon as there are enough: how long it is to
run does not matter for that.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from pybatsched.core.instants import instant
from pybatsched.core.jobs import Job


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
