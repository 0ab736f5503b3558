"""The nodes as they are, in a form in which the best one for a job is found quickly.

Most of it does not change from one pass to the next: only nodes on which something happened are read again.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from heapq import heapify, heappush, heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybatsched_schedulers.locality.input_files import Stay
    from pybatsched_schedulers.locality.nodes import Node

#: Since when idle cores are available.
ALWAYS = -math.inf


#: After how many changes the heap of a row is made anew before it is copied: each may have left a number in it that
#: every copy would have to throw away.
_MAX_CHANGES = 32


class Row:
    """A number for each node, of which the least is at hand: O(log nodes) amortised, for numbers that mostly grow."""

    __slots__ = ("_heap", "_n_changes", "values")

    def __init__(self, values: list[float], heap: list[tuple[float, int]] | None = None) -> None:
        """`heap` holds every number with its node at least; others in it are no harm but for the time they take."""
        self.values = values
        self._heap: list[tuple[float, int]] = self._ordered() if heap is None else heap
        self._n_changes = 0

    def _ordered(self) -> list[tuple[float, int]]:
        heap = [(value, index) for index, value in enumerate(self.values)]
        heapify(heap)
        return heap

    def copy(self) -> Row:
        """Give another row that goes on from these numbers. Far cheaper than a new one while few have changed."""
        if self._n_changes > _MAX_CHANGES:
            self._heap, self._n_changes = self._ordered(), 0
        return Row(self.values.copy(), self._heap.copy())

    def put(self, index: int, value: float) -> None:
        """Change the number of a node."""
        if value < self.values[index]:
            heappush(self._heap, (value, index))
        self.values[index] = value
        self._n_changes += 1

    def least(self) -> tuple[float, int]:
        """Give the least number and the first node that has it."""
        heap, values = self._heap, self.values
        while True:
            top = heap[0]
            value, index = top
            if value == values[index]:
                return top
            heapreplace(heap, (values[index], index))  # it has grown since


class UnusedFiles:
    """How many GB of files on a node nobody needs any more, by instant: those whose last planned use is over by then.

    Made in O(files log files), asked in O(log files), but for the first question about the same files.
    """

    __slots__ = ("_ends", "_sums", "_uses")

    def __init__(self, stays: Mapping[str, Sequence[Stay]], sizes: Mapping[str, float]) -> None:
        self._uses = sorted([(known[-1].end, sizes[name]) for name, known in stays.items()])
        self._ends = [end for end, _ in self._uses]
        self._sums: dict[int, float] = {0: 0.0}

    def gb(self, at: float) -> float:
        """Give the sum of their sizes."""
        n = bisect_right(self._ends, at)
        total = self._sums.get(n)
        if total is None:
            total = self._sums[n] = math.fsum([size for _, size in self._uses[:n]])
        return total


class NodeIndex:
    """Available times of cores and stays of files on some nodes, kept from pass to pass.

    For each number of cores n that is asked for there is a row with the n-th available times of all nodes, and one in
    which evictions are counted as well. A refresh is O(nodes), and O(cores + files) for nodes on which something
    happened.
    """

    def __init__(self, nodes: Sequence[Node], *, knows_files: bool = True) -> None:
        """Without `knows_files` jobs can only be placed by availability, which is faster."""
        self.nodes = nodes
        self.knows_files = knows_files
        speeds = {node.bandwidth for node in nodes}
        self.has_one_bandwidth = len(speeds) == 1
        self.cores: list[list[float]] = [[] for _ in nodes]
        self.stays: list[dict[str, list[Stay]]] = [{} for _ in nodes]
        self.sizes: dict[str, float] = {}  # of files, in GB
        self.holders: dict[str, set[int]] = {}
        self._times: dict[int, Row] = {}
        self._evicting: dict[int, Row] = {}
        self._evict_weight = 0.0
        self._now = ALWAYS
        self._again: set[int] = set(range(len(nodes)))  # to be read at the next look, whatever happens

    def refresh(self, now: float) -> None:
        """Read the nodes on which something happened since the last time."""
        again, self._again, self._now = self._again, set(), now
        for index, node in enumerate(self.nodes):
            if node.has_changed or node.first_end <= now or index in again:
                self._read(index, node)

    def _read(self, index: int, node: Node) -> None:
        node.has_changed = False
        self.cores[index] = node.times(self._now)
        if self.knows_files:
            for name in self.stays[index]:
                self.holders[name].discard(index)
            self.stays[index] = {}
            for name, size_gb, stay in node.stays(self._now):
                self.stays[index][name] = [stay]
                self.sizes[name] = size_gb
                self.holders.setdefault(name, set()).add(index)
                if stay.end <= self._now:
                    self._again.add(index)  # nobody uses it: it may be gone by then
        for n, row in self._times.items():
            row.put(index, nth_time(self.cores[index], n))
        if self._evicting:
            unused = self.unused(self.stays[index])
            for n, row in self._evicting.items():
                row.put(index, self.evicting_at(index, n, self._times[n].values[index], unused, self._evict_weight))

    def times(self, n: int) -> Row:
        """Give the n-th available times of all nodes."""
        row = self._times.get(n)
        if row is None:
            row = self._times[n] = Row([nth_time(cores, n) for cores in self.cores])
        return row

    def evicting(self, n: int, weight: float) -> Row:
        """Give these times plus the weighted times to load evicted files again, by a job whose file is on no node."""
        if weight != self._evict_weight:
            self._evict_weight = weight
            self._evicting.clear()
        row = self._evicting.get(n)
        if row is None:
            row = self._evicting[n] = Row(
                [
                    self.evicting_at(index, n, at, self.unused(self.stays[index]), weight)
                    for index, at in enumerate(self.times(n).values)
                ]
            )
        return row

    def unused(self, stays: Mapping[str, Sequence[Stay]]) -> UnusedFiles:
        """Tell when the files of a node are needed no longer, by their stays. O(files log files)."""
        return UnusedFiles(stays, self.sizes)

    def evicting_at(self, index: int, n: int, at: float, unused: UnusedFiles, weight: float) -> float:
        """Give an available time plus the weighted time to load again what a job of n cores would push out."""
        if at == math.inf:
            return at
        begin = max(self._now, at)
        evicted_gb = unused.gb(begin)
        return begin + weight * self._reload_s(index, n, evicted_gb) if evicted_gb else at

    def evict_s(self, index: int, n: int, at: float, stays: Mapping[str, Sequence[Stay]], but: str = "") -> float:
        """Give the time to load again the share of n cores of all files but one that nobody needs any more (EVICT)."""
        sizes = self.sizes
        idle = [sizes[name] for name, known in stays.items() if known[-1].end <= at and name != but]
        return self._reload_s(index, n, math.fsum(idle)) if idle else 0.0

    def _reload_s(self, index: int, n: int, gb: float) -> float:
        """Give the time to load the share of n cores of so much again."""
        node = self.nodes[index]
        return n / node.n_cores * gb / node.bandwidth if node.bandwidth else 0.0


def nth_time(cores: Sequence[float], n: int) -> float:
    """Give the instant from which n of some cores are available, of which the times are in order."""
    return cores[n - 1] if n <= len(cores) else math.inf
