"""Nodes: processors that share a memory, with their running jobs and input files.

Processors are cores here. In the platform, hosts or zones have the property ``node``, which groups the cores, and
``memory_gb`` and ``fs_bw_gbps``, the bandwidth from the shared file system.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybatsched import EMPTY, InputError, IntervalSet
from pybatsched_schedulers.locality.input_files import FilesOnNode, FileStay

if TYPE_CHECKING:
    from pybatsched import Cluster, Job, Partition
    from pybatsched_schedulers.locality.options import LocalityOptions


@dataclass(slots=True)
class RunningJob:
    """A running job on a node, planned until a time."""

    n_cores: int
    started_at: float
    until: float
    file: str


class FileNode:
    """One node. `index` is its number among all nodes, in Batsim's order of hosts."""

    def __init__(self, index: int, name: str, partition: Partition, procs: IntervalSet, memory_gb: float) -> None:
        self.index = index
        self.name = name
        self.partition = partition
        self.procs = procs
        self.n_cores = len(procs)
        self.memory_gb = memory_gb
        self.bandwidth: float | None = None  # GB/s from the shared file system
        self.whole_seconds = False
        self.files = FilesOnNode(memory_gb, persistent=False)
        self.runs: dict[str, RunningJob] = {}
        self.kept = EMPTY  # cores of jobs that wait for the load of another job
        self.has_changed = True  # reset by the node index when it has read the node
        self._ends: list[float] = []  # the planned end of each busy core, ascending

    def load_s(self, size_gb: float) -> float:
        """Return the load time of a file of this size, independent of other loads."""
        if not size_gb or not self.bandwidth:
            return 0.0
        load_s = round(size_gb / self.bandwidth, 6)
        return float(int(load_s)) if self.whole_seconds else load_s

    def free_cores(self) -> IntervalSet:
        """Return the free cores. O(k)."""
        free = self.partition.free & self.procs
        return free - self.kept if self.kept else free

    @property
    def n_possible(self) -> int:
        """How many cores a job can get here at most."""
        away = len(self.partition.lost & self.procs) if self.partition.machines_settled else 0
        return self.n_cores - away

    def start(self, job: Job, n_cores: int, now: float, until: float, file: str) -> None:
        """Record the start of a job. O(cores)."""
        self.has_changed = True
        self.runs[job.id] = RunningJob(n_cores, now, until, file)
        self._ends.extend([until] * n_cores)
        self._ends.sort()

    def end(self, job: Job, now: float) -> None:
        """Record the end of a job. O(cores)."""
        self.has_changed = True
        run = self.runs.pop(job.id)
        place = bisect_left(self._ends, run.until)
        del self._ends[place : place + run.n_cores]
        if run.file:
            self.files.leave(run.file, now)

    @property
    def first_end(self) -> float:
        """The first planned end of a running job."""
        return self._ends[0] if self._ends else math.inf

    def times(self, now: float) -> list[float]:
        """Return from when each core is available, in order: idle ones always, absent ones never. O(cores)."""
        if self._ends and self._ends[0] <= now:
            self._expect_longer(now)
        n_idle = self.n_cores - len(self._ends)
        if not self.partition.away:
            return [-math.inf] * n_idle + self._ends
        n_free = len(self.free_cores())
        return [-math.inf] * n_free + self._ends + [math.inf] * (n_idle - n_free)

    def stays(self, now: float) -> Iterator[tuple[str, float, FileStay]]:
        """Return name, size and stay of every file, until the end of its last user. O(jobs)."""
        if self.whole_seconds:
            return self.files.stays(now)
        ends: dict[str, float] = {}
        for run in self.runs.values():
            if run.until > ends.get(run.file, 0.0):
                ends[run.file] = run.until
        return self.files.stays(now, ends)

    def _expect_longer(self, now: float) -> None:
        self._ends = []
        for run in self.runs.values():
            if run.until <= now:
                run.until = round(2 * now - run.started_at + 1, 6)
            for _ in range(run.n_cores):
                insort(self._ends, run.until)


class FileNodes(Sequence[FileNode]):
    """All nodes of a machine, with a partition for each class of memory."""

    def __init__(self, nodes: list[FileNode]) -> None:
        self._nodes = nodes
        self.classes = sorted({node.memory_gb for node in nodes})
        self.least_bandwidth = min((node.bandwidth for node in nodes if node.bandwidth), default=math.inf)
        #: The first node without a bandwidth.
        self.without_bandwidth = next((node for node in nodes if node.bandwidth is None), None)
        self.by_class = {memory: [node for node in nodes if node.memory_gb == memory] for memory in self.classes}
        self._most_cores = {memory: max(node.n_cores for node in group) for memory, group in self.by_class.items()}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[FileNode]:
        return iter(self._nodes)

    def __getitem__(self, index: int) -> FileNode:  # type: ignore[override]  # no slices
        return self._nodes[index]

    def most_cores(self, memory_gb: float) -> int:
        """Return how many cores a job can get on a node of a class at most. O(nodes) if some are lost for good."""
        group = self.by_class[memory_gb]
        partition = group[0].partition
        if partition.machines_settled and partition.away:
            return max(node.n_possible for node in group)
        return self._most_cores[memory_gb]

    @classmethod
    def of(cls, cluster: Cluster, options: LocalityOptions) -> FileNodes:
        """Read the nodes, and create a partition for each memory class. O(processors). Raises InputError."""
        groups = cluster.groups("node")
        for proc in cluster.procs:
            if cluster.property_of(proc, "node") is None:
                host = cluster.host_of(proc)
                raise InputError(
                    f"host {host} has no property node; policy locality expects it on all hosts (use a platform of "
                    "cores such as -p rackham-core instead of --procs)"
                )
        memories: dict[str, float] = {}
        for name, procs in groups.items():
            memory = _number_of(cluster, name, procs, "memory_gb")
            if memory == 0:
                raise InputError(f"node {name}, property memory_gb: expected more than 0 GB")
            memories[name] = math.inf if memory is None else memory
        partitions = {}
        for memory in sorted(set(memories.values())):
            members = IntervalSet(proc for name, procs in groups.items() if memories[name] == memory for proc in procs)
            title = "all" if memory == math.inf else f"{memory:g} GB"
            partitions[memory] = cluster.add_partition(title, members)
        nodes = []
        for index, (name, procs) in enumerate(groups.items()):
            node = FileNode(index, name, partitions[memories[name]], procs, memories[name])
            bandwidth = _number_of(cluster, name, procs, "fs_bw_gbps")
            if bandwidth == 0:
                raise InputError(f"node {name}, property fs_bw_gbps: expected more than 0 GB/s")
            node.bandwidth = options.bandwidth if bandwidth is None else bandwidth
            node.files = FilesOnNode(node.memory_gb, persistent=options.persistence)
            nodes.append(node)
        return cls(nodes)


def _number_of(cluster: Cluster, node: str, procs: IntervalSet, name: str) -> float | None:
    """Return a property of a node. Raises InputError if its hosts have different values."""
    values = {cluster.number_of(proc, name) for proc in procs}
    if len(values) > 1:
        shown = " and ".join(sorted("none" if value is None else f"{value:g}" for value in values)[:3])
        raise InputError(f"node {node}: its hosts differ in the property {name}: {shown}; expected one value")
    return values.pop()
