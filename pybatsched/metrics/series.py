"""What changes over time: processors in use, jobs in the queue. Steps that hold until the next one."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Steps:
    """A value over time: `values[i]` holds from `times[i]` up to, and not at, `times[i + 1]`; the last one holds on.

    Before the first time it is 0. Times go up.
    """

    times: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, time: float) -> float:
        """Give the value at an instant. O(log n)."""
        place = bisect_right(self.times, time) - 1
        return self.values[place] if place >= 0 else 0.0

    @property
    def maximum(self) -> float:
        """The largest value, 0 if there is none."""
        return max(self.values, default=0.0)

    def mean(self, begin: float, end: float) -> float:
        """Give the mean over a span of time. O(n)."""
        return self.integral(begin, end) / (end - begin) if end > begin else self.at(begin)

    def integral(self, begin: float, end: float) -> float:
        """Give the area under the steps between two instants. O(n)."""
        areas = []
        for value, since, stop in zip(self.values, self.times, self._stops(), strict=True):
            low, high = since if since > begin else begin, stop if stop < end else end  # noqa: FURB136  a call takes longer
            if high > low:
                areas.append(value * (high - low))
        return math.fsum(areas)

    def binned(self, edges: Sequence[float]) -> list[float]:
        """Give the mean in each span between neighbouring edges, which go up. O(n + edges)."""
        n = len(edges) - 1
        areas = [0.0] * n
        place = 0
        for value, low, stop in zip(self.values, self.times, self._stops(), strict=True):
            while place < n and edges[place + 1] <= low:
                place += 1
            here = place
            while here < n and (begin := edges[here]) < stop:
                end = edges[here + 1]
                span_s = (stop if stop < end else end) - (low if low > begin else begin)  # noqa: FURB136
                if span_s > 0:
                    areas[here] += value * span_s
                here += 1
        return [area / (high - low) for area, (low, high) in zip(areas, pairwise(edges), strict=True)]

    def _stops(self) -> tuple[float, ...]:
        """Give the instants up to which the values hold."""
        return (*self.times[1:], math.inf) if self.times else ()


def steps_of(changes: Iterable[tuple[float, float]]) -> Steps:
    """Make steps of changes (time, by how much), in any order; those of one instant are one. O(n log n)."""
    sums: defaultdict[float, float] = defaultdict(float)
    for time, change in changes:
        sums[time] += change
    times, values = [], []
    value = 0.0
    for time in sorted(sums):
        if change := sums[time]:
            value += change
            times.append(time)
            values.append(value)
    return Steps(tuple(times), tuple(values))
