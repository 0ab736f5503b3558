"""Assign rows of a Gantt chart on a machine of clusters or nodes: the processors of each of these form a band."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pybatsched.core.intervals import IntervalSet
from pybatsched.metrics.saved_runs import SavedRun

#: A half-open interval of processors or rows.
Interval: TypeAlias = tuple[int, int]


class Band(NamedTuple):
    """A cluster or node and its rows: from `low` to `high`, exclusive."""

    name: str
    low: int
    high: int


class Stretch(NamedTuple):
    """Consecutive processors with consecutive rows from `row` on; `name` is their band, empty without one."""

    begin: int
    end: int
    row: int
    name: str


class Rows:
    """The row of each processor, by clusters or nodes (`what`), then the others.

    `is_plain` if rows are the numbers of processors.
    """

    def __init__(self, clusters: Mapping[str, Sequence[Interval]], n_procs: int, what: str = "cluster") -> None:
        self.what = what
        self.bands: list[Band] = []
        stretches: list[Stretch] = []
        row = 0
        for name, intervals in sorted(clusters.items(), key=lambda item: min(item[1], default=(0, 0))):
            low = row
            for begin, end in intervals:
                stretches.append(Stretch(begin, end, row, name))
                row += end - begin
            if row > low:
                self.bands.append(Band(name, low, row))
        stretches.sort()
        last = 0
        for begin, end in [*(part[:2] for part in stretches), (n_procs, n_procs)]:
            if begin > last:
                stretches.append(Stretch(last, begin, row, ""))
                row += begin - last
            last = max(last, end)
        self.n_rows = row
        self.stretches = sorted(stretches)
        self._begins = [part.begin for part in self.stretches]
        self.is_plain = all(part.begin == part.row for part in self.stretches)

    def _parts_of(self, begin: int, end: int) -> Sequence[Stretch]:
        """Return the parts of stretches within an interval of processors."""
        first = max(bisect_right(self._begins, begin) - 1, 0)
        last = bisect_right(self._begins, end - 1)
        return [
            Stretch(low, min(part.end, end), part.row + low - part.begin, part.name)
            for part in self.stretches[first:last]
            if (low := max(part.begin, begin)) < min(part.end, end)
        ]

    def placed(self, procs: Sequence[Interval]) -> Sequence[Interval]:
        """Return the rows of processors. O(k log k)."""
        if self.is_plain:
            return procs
        parts = [part for interval in procs for part in self._parts_of(*interval)]
        found: list[Interval] = []
        for low, high in sorted((part.row, part.row + part.end - part.begin) for part in parts):
            if found and found[-1][1] == low:
                found[-1] = found[-1][0], high
            else:
                found.append((low, high))
        return found

    def names(self, procs: Sequence[Interval]) -> list[str]:
        """Return the clusters or nodes that processors belong to, in their order. O(k log k)."""
        found = {part.name for interval in procs for part in self._parts_of(*interval)}
        return [band.name for band in self.bands if band.name in found]


class BlockedHosts(NamedTuple):
    """Hosts that are reserved or down: from when to when, and their processors as half-open intervals of rows."""

    begin: float
    end: float
    procs: Sequence[Interval]


def blocked_hosts(run: SavedRun, member: str, rows: Rows | None) -> list[BlockedHosts]:
    """Return `reservations` or `unavailable` of a run's summary, without malformed entries. O(entries)."""
    found = []
    entries = run.summary.get(member)
    for one in entries if isinstance(entries, list) else ():
        try:
            procs = tuple(IntervalSet.parse(one["procs"]).intervals())
            placed = procs if rows is None else tuple(rows.placed(procs))
            found.append(BlockedHosts(float(one["start"]), float(one["end"]), placed))
        except (KeyError, TypeError, ValueError):
            continue
    return found


def rows_of(run: SavedRun) -> Rows | None:
    """Return the rows of a run's chart; None unless its summary has several clusters, or nodes. O(jobs)."""
    bands, what = (run.clusters, "cluster") if run.clusters else (run.procs_by_node, "node")
    if not bands:
        return None
    used = max((part.procs.highest + 1 for record in run.records for part in record.segments), default=0)
    return Rows(bands, max(run.n_procs, used), what)
