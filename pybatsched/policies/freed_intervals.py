"""Room that became free in a plan: where a job that waits may find a better place.

`FreedIntervals` is `PlainFreedIntervals`, or its faster twin in C (`_profile.c`) if that was built.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING


def check_times(*times: float) -> None:
    """Refuse NaN, which is neither before nor after another time, and what is no number (TypeError)."""
    for at in times:
        if not at <= math.inf:
            raise ValueError("a time is NaN; expected a number of seconds")


class PlainFreedIntervals:
    """Room that became free in the plan, one gain after the other; asked for the hull of those since some count.

    Two monotonic stacks: an entry that is neither the earliest start nor the latest end of any suffix is dropped, so
    adding is O(1) on average and asking O(log gains).
    """

    __slots__ = ("_ends", "_starts", "n")

    def __init__(self) -> None:
        self.n = 0
        self._starts: list[tuple[int, float]] = []
        self._ends: list[tuple[int, float]] = []

    def add(self, start_at: float, end_at: float) -> None:
        """Note that [start, end) became freer."""
        check_times(start_at, end_at)
        while self._starts and self._starts[-1][1] >= start_at:
            self._starts.pop()
        while self._ends and self._ends[-1][1] <= end_at:
            self._ends.pop()
        self._starts.append((self.n, start_at))
        self._ends.append((self.n, end_at))
        self.n += 1

    def any_since(self, n: int) -> bool:
        """Tell whether anything was gained since there were n gains."""
        return self.n > n

    def copy(self) -> PlainFreedIntervals:
        """Give a copy that lives on its own."""
        other: PlainFreedIntervals = self.__new__(type(self))
        other.n, other._starts, other._ends = self.n, self._starts.copy(), self._ends.copy()
        return other

    def forget(self, n: int) -> None:
        """Forget the first n gains: nobody will ask for them any more."""
        del self._starts[: bisect_left(self._starts, (n,))]
        del self._ends[: bisect_left(self._ends, (n,))]

    def hull_since(self, n: int) -> tuple[float, float]:
        """Give the earliest start and the latest end of all gained since there were n gains; (inf, -inf) for none."""
        if n >= self.n:
            return math.inf, -math.inf
        return (
            self._starts[bisect_left(self._starts, (n,))][1],
            self._ends[bisect_left(self._ends, (n,))][1],
        )


if TYPE_CHECKING:
    FreedIntervals = PlainFreedIntervals
else:
    try:
        from pybatsched.policies._profile import FreedIntervals
    except ImportError:  # not built
        FreedIntervals = PlainFreedIntervals
