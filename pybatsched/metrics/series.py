"""Step functions over time: processors in use, jobs in the queue."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Steps:
    """A step function: `values[i]` in [`times[i]`, `times[i + 1]`), the last without end; 0 before the first time."""

    times: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, time: float) -> float:
        """Return the value at an instant. O(log n)."""
        position = bisect_right(self.times, time) - 1
        return self.values[position] if position >= 0 else 0.0

    @property
    def maximum(self) -> float:
        """The largest value, 0 if there is none."""
        return max(self.values, default=0.0)

    def mean(self, begin: float, end: float) -> float:
        """Return the mean over a span of time. O(n)."""
        return self.integral(begin, end) / (end - begin) if end > begin else self.at(begin)

    def integral(self, begin: float, end: float) -> float:
        """Return the area under the steps between two instants. O(n)."""
        areas = []
        for value, since, stop in zip(self.values, self.times, self._stops(), strict=True):
            low, high = since if since > begin else begin, stop if stop < end else end  # noqa: FURB136  a call takes longer
            if high > low:
                areas.append(value * (high - low))
        return math.fsum(areas)

    def binned(self, edges: Sequence[float]) -> list[float]:
        """Return the mean in each bin between neighbouring edges, which are increasing. O(n + edges)."""
        n = len(edges) - 1
        areas = [0.0] * n
        position = 0
        for value, low, stop in zip(self.values, self.times, self._stops(), strict=True):
            while position < n and edges[position + 1] <= low:
                position += 1
            here = position
            while here < n and (begin := edges[here]) < stop:
                end = edges[here + 1]
                span_s = (stop if stop < end else end) - (low if low > begin else begin)  # noqa: FURB136
                if span_s > 0:
                    areas[here] += value * span_s
                here += 1
        return [area / (high - low) for area, (low, high) in zip(areas, pairwise(edges), strict=True)]

    def _stops(self) -> tuple[float, ...]:
        """Return the instants up to which the values hold."""
        return (*self.times[1:], math.inf) if self.times else ()
