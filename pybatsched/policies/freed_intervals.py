"""Time intervals of a plan in which processors were freed, in Python or in C (`_profile.c`)."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING


def check_times(*times: float) -> None:
    """Raise ValueError for NaN, which cannot be ordered, and TypeError for a value that is not a number."""
    for at in times:
        if not at <= math.inf:
            raise ValueError("a time is NaN; expected a number of seconds")


class PlainFreedIntervals:
    """A growing list of freed intervals. `hull_since` returns the hull of the latest ones.

    Two monotonic stacks: an interval that is neither the earliest start nor the latest end of any suffix is dropped.
    `add` is O(1) on average, `hull_since` O(log n).
    """

    __slots__ = ("_ends", "_starts", "n")

    def __init__(self) -> None:
        self.n = 0
        self._starts: list[tuple[int, float]] = []
        self._ends: list[tuple[int, float]] = []

    def add(self, start_at: float, end_at: float) -> None:
        """Add the interval [start, end)."""
        check_times(start_at, end_at)
        while self._starts and self._starts[-1][1] >= start_at:
            self._starts.pop()
        while self._ends and self._ends[-1][1] <= end_at:
            self._ends.pop()
        self._starts.append((self.n, start_at))
        self._ends.append((self.n, end_at))
        self.n += 1

    def any_since(self, n: int) -> bool:
        """Return whether intervals were added after the first n."""
        return self.n > n

    def copy(self) -> PlainFreedIntervals:
        """Return an independent copy."""
        other: PlainFreedIntervals = self.__new__(type(self))
        other.n, other._starts, other._ends = self.n, self._starts.copy(), self._ends.copy()
        return other

    def forget(self, n: int) -> None:
        """Drop the first n intervals, which are not needed any more."""
        del self._starts[: bisect_left(self._starts, (n,))]
        del self._ends[: bisect_left(self._ends, (n,))]

    def hull_since(self, n: int) -> tuple[float, float]:
        """Return the earliest start and the latest end of all intervals after the first n; (inf, -inf) for none."""
        if n >= self.n:
            return math.inf, -math.inf
        return (self._starts[bisect_left(self._starts, (n,))][1], self._ends[bisect_left(self._ends, (n,))][1])


if TYPE_CHECKING:
    FreedIntervals = PlainFreedIntervals
else:
    try:
        from pybatsched.policies._profile import FreedIntervals
    except ImportError:  # not built
        FreedIntervals = PlainFreedIntervals
