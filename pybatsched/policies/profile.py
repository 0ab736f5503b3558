"""Free processors over future time: where a reservation finds its place.

A step function: `_free[i]` processors are free from `_times[i]` until `_times[i + 1]`, the last for ever. All
instants are on Batsim's tick (`pybatsched.core.instants`), so that equal times are equal numbers.

s is the number of steps below: at most two per running or reserved job.

`Profile` is `PlainProfile`, or where it was built its twin in C (`_profile.c`): the same answers, and faster.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pybatsched.core.instants import HALF_TICK


class PlainProfile:
    """How many processors are free from now on.

    >>> profile = Profile(0.0, 4)
    >>> profile.take(3, 0.0, 10.0)
    >>> profile.earliest(2, 5.0, 0.0), profile.earliest(1, 5.0, 0.0)
    (10.0, 0.0)
    """

    __slots__ = ("_free", "_times")

    def __init__(self, now: float, n_free: int) -> None:
        self._times = [now]
        self._free = [n_free]

    def copy(self) -> PlainProfile:
        """Give a copy that lives on its own. O(s), quickly."""
        other = PlainProfile(0.0, 0)
        other._times, other._free = self._times.copy(), self._free.copy()
        return other

    def advance(self, now: float) -> None:
        """Forget what lies before now. O(s)."""
        i = bisect_right(self._times, now) - 1
        if i >= 0:
            if i:
                del self._times[:i]
                del self._free[:i]
            self._times[0] = now

    def take(self, n: int, start_at: float, end_at: float) -> None:
        """Use n processors from start to end (infinity allowed). O(s)."""
        self._add(-n, start_at, end_at)

    def take_all(self, spans: Iterable[tuple[int, float, float]]) -> None:
        """Use processors for many spans (n, start, end) at once. O(s + k log k); one at a time it is O(s * k)."""
        changes: dict[float, int] = {}
        first_at = self._times[0]
        for n, start_at, end_at in spans:
            start = max(start_at, first_at)
            if start < end_at and start != math.inf:
                changes[start] = changes.get(start, 0) - n
                changes[end_at] = changes.get(end_at, 0) + n
        changes.pop(math.inf, None)
        instants = sorted(changes.keys() | set(self._times))
        free: list[int] = []
        i, before, delta = 0, 0, 0
        for at in instants:
            if i < len(self._times) and self._times[i] == at:
                before = self._free[i]
                i += 1
            delta += changes.get(at, 0)
            free.append(before + delta)
        self._times, self._free = instants, free

    def give(self, n: int, start_at: float, end_at: float) -> None:
        """Give back n processors from start to end (infinity allowed). O(s)."""
        self._add(n, start_at, end_at)

    def earliest(self, n: int, span_s: float, not_before: float, latest: float = math.inf) -> float:
        """Find the first instant from which n processors stay free for the span; infinity if there is none. O(s).

        Infinity as well if that is later than `latest`; no start beyond it is tried.
        """
        times, free = self._times, self._free
        last = len(times)
        i = bisect_right(times, not_before) - 1
        i = max(i, 0)
        start = max(not_before, times[0])
        stop = last
        if latest != math.inf:
            if start > latest:
                return math.inf
            stop = bisect_right(times, latest)
        while True:
            while free[i] < n:
                i += 1
                if i >= stop:
                    return math.inf
                start = times[i]
            end = start + span_s - HALF_TICK
            while True:
                i += 1
                if i == last or times[i] >= end:
                    return start
                if free[i] < n:
                    break

    def fits(self, n: int, start_at: float, end_at: float) -> bool:
        """Tell whether n processors are free all the time from start to end. O(s), quickly."""
        return self.least_free(start_at, end_at) >= n

    def better(self, n: int, span_s: float, place: float, not_before: float, before: float) -> float:
        """Find the first start in [not_before, before) that is better than a job's own place, else that place. O(s).

        The job's own reservation begins at its place and stays where it is: beyond that instant it may use what is
        its own already, so only what lies before is looked at.
        """
        times, free = self._times, self._free
        i = max(bisect_right(times, not_before) - 1, 0)
        stop = bisect_left(times, place, i)
        start = max(not_before, times[0])
        before = min(before, place)
        while start < before:
            if free[i] >= n:
                end = start + span_s - HALF_TICK
                i += 1
                while i < stop and free[i] >= n and times[i] < end:
                    i += 1
                if i >= stop or times[i] >= end:
                    return start
            i += 1
            if i >= stop:
                break
            start = times[i]
        return place

    def sooner(self, n: int, span_s: float, place: float, now: float, gained: tuple[float, float]) -> float:
        """Find the first start that is better than a job's own place after some time was gained, else that place. O(s).

        The job had the best place there was, so a better one must touch the time at which more is free since then; that
        must be wide enough for it, and lie before its own place: behind that it was the job's already.
        """
        first, last = gained
        if first >= place or last <= now or self.most_free(first, min(last, place)) < n:
            return place
        return self.better(n, span_s, place, max(now, self.step_at(first - span_s)), last)

    def most_free(self, start_at: float, end_at: float) -> int:
        """Give the largest number free at some instant of [start, end). O(s), quickly."""
        i = bisect_right(self._times, start_at) - 1
        return max(self._free[max(i, 0) : bisect_left(self._times, end_at)], default=0)

    def least_free(self, start_at: float, end_at: float) -> int:
        """Give the smallest number free at any instant of [start, end); below 0 if too much was taken. O(s), quickly.

        An empty span counts as the instant it begins at.
        """
        i = max(bisect_right(self._times, start_at) - 1, 0)
        return min(self._free[i : max(bisect_left(self._times, end_at - HALF_TICK), i + 1)])

    def next_step(self, after: float) -> float:
        """Give the next instant at which the number free changes; infinity if it does not. O(log s), usually."""
        for i in range(max(bisect_right(self._times, after), 1), len(self._times)):
            if self._free[i] != self._free[i - 1]:
                return self._times[i]
        return math.inf

    def step_at(self, at: float) -> float:
        """Give the beginning of the step that an instant lies in. O(log s)."""
        return self._times[max(bisect_right(self._times, at) - 1, 0)]

    def free_at(self, at: float) -> int:
        """Give the number free at an instant. O(log s)."""
        return self._free[max(bisect_right(self._times, at) - 1, 0)]

    def steps(self) -> list[tuple[float, int]]:
        """Give (from, free) pairs in order, for people and tests. O(s)."""
        return list(zip(self._times, self._free, strict=True))

    def _add(self, delta: int, start_at: float, end_at: float) -> None:
        times, free = self._times, self._free
        start_at = max(start_at, times[0])
        if end_at <= start_at or start_at == math.inf:
            return
        i = bisect_left(times, start_at)
        if i == len(times) or times[i] != start_at:
            times.insert(i, start_at)
            free.insert(i, free[i - 1])
        if end_at == math.inf:
            j = len(times)
        else:
            j = bisect_left(times, end_at, i)
            if j == len(times) or times[j] != end_at:
                times.insert(j, end_at)
                free.insert(j, free[j - 1])
        for k in range(i, j):
            free[k] += delta
        # Only the two ends can have become equal to their neighbours.
        if j < len(times) and free[j] == free[j - 1]:
            del times[j], free[j]
        if i and free[i] == free[i - 1]:
            del times[i], free[i]


if TYPE_CHECKING:
    Profile = PlainProfile
else:
    try:
        from pybatsched.policies._profile import Profile
    except ImportError:  # not built
        Profile = PlainProfile
