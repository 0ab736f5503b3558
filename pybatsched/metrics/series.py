"""What changes over time: processors in use, jobs in the queue. Steps that hold until the next one."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pybatsched.metrics.outcomes import JobRecord


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
        for i, value in enumerate(self.values):
            stop = self.times[i + 1] if i + 1 < len(self.times) else math.inf
            low, high = max(self.times[i], begin), min(stop, end)
            if high > low:
                areas.append(value * (high - low))
        return math.fsum(areas)

    def binned(self, edges: Sequence[float]) -> list[float]:
        """Give the mean in each span between neighbouring edges, which go up. O(n + edges)."""
        areas = [0.0] * (len(edges) - 1)
        bounds = [*self.times, math.inf]
        place = 0
        for i, value in enumerate(self.values):
            low, stop = bounds[i], bounds[i + 1]
            while place < len(areas) and edges[place + 1] <= low:
                place += 1
            here = place
            while here < len(areas) and edges[here] < stop:
                span_s = min(stop, edges[here + 1]) - max(low, edges[here])
                if span_s > 0:
                    areas[here] += value * span_s
                here += 1
        return [area / (high - low) for area, (low, high) in zip(areas, pairwise(edges), strict=True)]


def steps_of(changes: Iterable[tuple[float, float]]) -> Steps:
    """Make steps of changes (time, by how much), in any order; those of one instant are one. O(n log n)."""
    sums: dict[float, float] = {}
    for time, change in changes:
        sums[time] = sums.get(time, 0.0) + change
    times, values = [], []
    value = 0.0
    for time in sorted(sums):
        if sums[time]:
            value += sums[time]
            times.append(time)
            values.append(value)
    return Steps(tuple(times), tuple(values))


def procs_in_use(records: Iterable[JobRecord]) -> Steps:
    """Give the processors that jobs hold over time, all segments of all jobs. O(n log n)."""
    return steps_of(
        change
        for record in records
        for part in record.segments
        for change in (
            (part.started_at, float(part.n_procs)),
            (part.ended_at, -float(part.n_procs)),
        )
    )


def queue_length(records: Iterable[JobRecord]) -> Steps:
    """Give the number of waiting jobs over time: from submission, or a kill that requeues, to the next start.

    Rejected jobs are left out: files do not tell when they were rejected. O(n log n).
    """
    return steps_of(change for record in records if record.ran for change in _waits(record))


def _waits(record: JobRecord) -> Iterable[tuple[float, float]]:
    since = record.submitted_at
    for part in record.segments:
        yield since, 1.0
        yield part.started_at, -1.0
        since = part.ended_at


def span_of(records: Sequence[JobRecord]) -> tuple[float, float]:
    """Give the first submission and the last end; (0, 0) if nothing ran."""
    ran = [record for record in records if record.ran]
    if not ran:
        return 0.0, 0.0
    return min(record.submitted_at for record in records), max(record.ended_at for record in ran)
