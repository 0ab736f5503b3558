"""An index of nodes that quickly finds the best one for a job; a pass reads only changed nodes again."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from heapq import heapify, heappush, heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybatsched_schedulers.locality.input_files import FileStay
    from pybatsched_schedulers.locality.nodes import FileNode

#: The time from which idle cores are available.
ALWAYS = -math.inf


#: After this many changes the heap of a row is rebuilt before it is copied: it may contain as many outdated values.
_MAX_CHANGES = 32


class NodeValues:
    """One value for each node, with a fast minimum: O(log nodes) amortised if values mostly grow."""

    __slots__ = ("_heap", "_n_changes", "values")

    def __init__(self, values: list[float], heap: list[tuple[float, int]] | None = None) -> None:
        """Create a row. `heap` must contain every value with its node; outdated values only cost time."""
        self.values = values
        self._heap: list[tuple[float, int]] = self._ordered() if heap is None else heap
        self._n_changes = 0

    def _ordered(self) -> list[tuple[float, int]]:
        heap = [(value, index) for index, value in enumerate(self.values)]
        heapify(heap)
        return heap

    def copy(self) -> NodeValues:
        """Return an independent copy. Much cheaper than a new row if few values changed."""
        if self._n_changes > _MAX_CHANGES:
            self._heap, self._n_changes = self._ordered(), 0
        return NodeValues(self.values.copy(), self._heap.copy())

    def put(self, index: int, value: float) -> None:
        """Set the value of a node."""
        if value < self.values[index]:
            heappush(self._heap, (value, index))
        self.values[index] = value
        self._n_changes += 1

    def least(self) -> tuple[float, int]:
        """Return the smallest value and the first node with it."""
        heap, values = self._heap, self.values
        while True:
            top = heap[0]
            value, index = top
            if value == values[index]:
                return top
            heapreplace(heap, (values[index], index))  # it has grown since


class UnusedFiles:
    """The size of files on a node whose last planned use has ended, over time. Created in O(files log files)."""

    __slots__ = ("_ends", "_sums", "_uses")

    def __init__(self, stays: Mapping[str, Sequence[FileStay]], sizes: Mapping[str, float]) -> None:
        self._uses = sorted([(known[-1].end, sizes[name]) for name, known in stays.items()])
        self._ends = [end for end, _ in self._uses]
        self._sums: dict[int, float] = {0: 0.0}

    def gb(self, at: float) -> float:
        """Return the sum of their sizes at a time, in GB."""
        n = bisect_right(self._ends, at)
        total = self._sums.get(n)
        if total is None:
            total = self._sums[n] = math.fsum([size for _, size in self._uses[:n]])
        return total


class NodeIndex:
    """Available times of cores and stays of files on some nodes, kept from pass to pass.

    For each requested number of cores n there is a row with the n-th available time of every node, and a second row
    that includes the cost of evictions. A refresh is O(nodes), and O(cores + files) for changed nodes.
    """

    def __init__(self, nodes: Sequence[FileNode], *, knows_files: bool = True) -> None:
        """Create an index. Without `knows_files`, jobs can only be placed by availability, which is faster."""
        self.nodes = nodes
        self.knows_files = knows_files
        speeds = {node.bandwidth for node in nodes}
        self.has_one_bandwidth = len(speeds) == 1
        self.cores: list[list[float]] = [[] for _ in nodes]
        self.stays: list[dict[str, list[FileStay]]] = [{} for _ in nodes]
        self.sizes: dict[str, float] = {}  # of files, in GB
        self.holders: dict[str, set[int]] = {}
        self._times: dict[int, NodeValues] = {}
        self._evicting: dict[int, NodeValues] = {}
        self._evict_weight = 0.0
        self._now = ALWAYS
        self._again: set[int] = set(range(len(nodes)))  # nodes to read at the next refresh in any case

    def refresh(self, now: float) -> None:
        """Read the nodes that changed since the last time."""
        again, self._again, self._now = self._again, set(), now
        for index, node in enumerate(self.nodes):
            if node.has_changed or node.first_end <= now or index in again:
                self._read(index, node)

    def _read(self, index: int, node: FileNode) -> None:
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
                    self._again.add(index)  # unused: it may be evicted by then
        for n, row in self._times.items():
            row.put(index, nth_time(self.cores[index], n))
        if self._evicting:
            unused = self.unused(self.stays[index])
            for n, row in self._evicting.items():
                row.put(index, self.evicting_at(index, n, self._times[n].values[index], unused, self._evict_weight))

    def times(self, n: int) -> NodeValues:
        """Return the n-th available times of all nodes."""
        row = self._times.get(n)
        if row is None:
            row = self._times[n] = NodeValues([nth_time(cores, n) for cores in self.cores])
        return row

    def evicting(self, n: int, weight: float) -> NodeValues:
        """Return these times plus the weighted times to reload evicted files, for a job whose file is on no node."""
        if weight != self._evict_weight:
            self._evict_weight = weight
            self._evicting.clear()
        row = self._evicting.get(n)
        if row is None:
            row = self._evicting[n] = NodeValues(
                [
                    self.evicting_at(index, n, at, self.unused(self.stays[index]), weight)
                    for index, at in enumerate(self.times(n).values)
                ]
            )
        return row

    def unused(self, stays: Mapping[str, Sequence[FileStay]]) -> UnusedFiles:
        """Return the unused files of a node over time, by their stays. O(files log files)."""
        return UnusedFiles(stays, self.sizes)

    def evicting_at(self, index: int, n: int, at: float, unused: UnusedFiles, weight: float) -> float:
        """Return an available time plus the weighted time to reload the files that a job of n cores would evict."""
        if at == math.inf:
            return at
        begin = max(self._now, at)
        evicted_gb = unused.gb(begin)
        return begin + weight * self._reload_s(index, n, evicted_gb) if evicted_gb else at

    def evict_s(self, index: int, n: int, at: float, stays: Mapping[str, Sequence[FileStay]], but: str = "") -> float:
        """Return the time to reload the share of n cores of all unused files but one (EVICT)."""
        sizes = self.sizes
        idle = [sizes[name] for name, known in stays.items() if known[-1].end <= at and name != but]
        return self._reload_s(index, n, math.fsum(idle)) if idle else 0.0

    def _reload_s(self, index: int, n: int, gb: float) -> float:
        """Return the time to reload the share of n cores of so many GB."""
        node = self.nodes[index]
        return n / node.n_cores * gb / node.bandwidth if node.bandwidth else 0.0


def nth_time(cores: Sequence[float], n: int) -> float:
    """Return the time from which n cores are available, from their sorted available times; infinity if too few."""
    return cores[n - 1] if n <= len(cores) else math.inf
