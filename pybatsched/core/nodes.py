"""Nodes: groups of processors that share memory and GPUs, and what is free on them.

Batsim allocates processors only. Memory and GPUs are counted here, by the node: a job that runs on some cores of a node
holds its share of the node's memory and GPUs until it ends. A machine has nodes if the platform file says so
(`pybatsched.core.host_nodes`), and they are counted from the first job on that requests more than processors.

A set of nodes is an integer, in which bit i stands for node i: such sets are combined faster than any other.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import compress, count
from operator import or_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pybatsched.core.intervals import IntervalSet
from pybatsched.core.node_requests import GB, PLAIN, NodeRequest

if TYPE_CHECKING:
    from pybatsched.core.decisions import Reason
    from pybatsched.core.jobs import Job
    from pybatsched.core.node_partitions import NodePartition

#: Makes the digits of a binary number the numbers 0 and 1.
_BITS: Final = bytes.maketrans(b"01", b"\0\1")


class Node(NamedTuple):
    """One node, as the platform describes it. `memory` is in millionths of a GB, infinite if it is not stated."""

    number: int
    name: str
    procs: IntervalSet
    n_cores: int
    memory: float
    #: The number of GPUs of each type, in the order of `Nodes.gpu_types`.
    gpus: tuple[int, ...]
    features: frozenset[str]
    weight: float = 1.0


class NodeShare(NamedTuple):
    """What a job holds of one node."""

    node: int
    n_cores: int
    memory: int
    gpus: tuple[int, ...]


class NodePart(NamedTuple):
    """How many cores a job gets on one node."""

    node: int
    n_cores: int


class FreeNodes:
    """What is free on each node at one instant: now, or at a time that a policy plans for."""

    __slots__ = ("by_cores", "by_gpus", "closed", "cores", "gpus", "idle", "machine", "memory", "n_jobs")

    def __init__(self, machine: Nodes) -> None:
        self.machine = machine
        nodes = machine.nodes
        #: What is free on each node; GPUs by type.
        self.cores = [node.n_cores for node in nodes]
        self.memory = [node.memory for node in nodes]
        self.gpus = [[node.gpus[kind] for node in nodes] for kind in range(len(machine.gpu_types))]
        self.n_jobs = [0] * len(nodes)
        #: The nodes on which no job runs.
        self.idle = machine.all
        #: The nodes that one job has for itself.
        self.closed = 0
        #: The nodes by their number of free cores, and for each type by that of free GPUs.
        self.by_cores = _sets_by(self.cores)
        self.by_gpus = [_sets_by(free) for free in self.gpus]

    def copy(self) -> Self:
        """Return an independent copy. O(nodes)."""
        made = self.__class__.__new__(self.__class__)
        made.machine = self.machine
        made.cores, made.memory, made.n_jobs = self.cores.copy(), self.memory.copy(), self.n_jobs.copy()
        made.gpus = [free.copy() for free in self.gpus]
        made.idle, made.closed = self.idle, self.closed
        made.by_cores = self.by_cores.copy()
        made.by_gpus = [sets.copy() for sets in self.by_gpus]
        return made

    def set_cores(self, node: int, n_cores: int) -> None:
        """Set the number of free cores of a node. O(1)."""
        bit = 1 << node
        self.by_cores[self.cores[node]] ^= bit
        self.by_cores[n_cores] |= bit
        self.cores[node] = n_cores

    def holds(self, shares: Iterable[NodeShare], *, exclusive: bool) -> bool:
        """Return whether these shares of nodes are free. O(shares)."""
        taken = self.closed | (~self.idle if exclusive else 0)
        return all(
            not taken >> node & 1
            and n_cores <= self.cores[node]
            and memory <= self.memory[node]
            and all(n <= free[node] for n, free in zip(gpus, self.gpus, strict=False))
            for node, n_cores, memory, gpus in shares
        )

    def set_node(
        self, node: int, n_cores: int, memory: float, gpus: Sequence[int], *, is_idle: bool, is_closed: bool
    ) -> None:
        """Set all that is free on a node. O(types of GPUs)."""
        bit = 1 << node
        self.set_cores(node, n_cores)
        self.memory[node] = memory
        for free, sets, n in zip(self.gpus, self.by_gpus, gpus, strict=True):
            sets[free[node]] ^= bit
            sets[n] |= bit
            free[node] = n
        self.idle = self.idle | bit if is_idle else self.idle & ~bit
        self.closed = self.closed | bit if is_closed else self.closed & ~bit

    def add_cores(self, parts: Iterable[NodePart]) -> None:
        """Add free cores to nodes. O(parts)."""
        for node, n in parts:
            self.set_cores(node, self.cores[node] + n)

    def count_cores(self, parts: Iterable[NodePart]) -> None:
        """Set the free cores of all nodes; those without a part have none. O(nodes)."""
        counts = dict(parts)
        for node in range(len(self.cores)):
            self.set_cores(node, counts.get(node, 0))

    def take(self, shares: Iterable[NodeShare], *, exclusive: bool = False) -> None:
        """Take what a job holds. O(its nodes)."""
        cores, by_cores = self.cores, self.by_cores
        for node, n_cores, memory, gpus in shares:
            bit, free = 1 << node, cores[node]
            by_cores[free] ^= bit
            by_cores[free - n_cores] |= bit
            cores[node] = free - n_cores
            self.memory[node] -= memory
            self.n_jobs[node] += 1
            self.idle &= ~bit
            if exclusive:
                self.closed |= bit
            if gpus:
                self._change_gpus(node, gpus, -1)

    def give(self, shares: Iterable[NodeShare], *, exclusive: bool = False, with_cores: bool = True) -> None:
        """Give back what a job held; without its cores if these are counted otherwise. O(its nodes)."""
        for node, n_cores, memory, gpus in shares:
            bit = 1 << node
            if with_cores:
                self.set_cores(node, self.cores[node] + n_cores)
            self.memory[node] += memory
            self.n_jobs[node] -= 1
            if not self.n_jobs[node]:
                self.idle |= bit
            if exclusive:
                self.closed &= ~bit
            if gpus:
                self._change_gpus(node, gpus, 1)

    def _change_gpus(self, node: int, gpus: Sequence[int], sign: int) -> None:
        bit = 1 << node
        for kind, n in enumerate(gpus):
            if n:
                free, sets = self.gpus[kind], self.by_gpus[kind]
                sets[free[node]] ^= bit
                free[node] += sign * n
                sets[free[node]] |= bit

    # --- where a job fits ---

    def candidates(self, request: NodeRequest, among: int) -> int:
        """Return the nodes that have the GPUs a job requests, and are not closed for it. O(types * GPUs of a node)."""
        found = among & self.machine.able(request) & ~self.closed
        if request.exclusive:
            found &= self.idle
        n = request.gpus_per_node
        if n and found:
            kinds = self.machine.kinds_of(request.gpu_type)
            if len(kinds) == 1:
                sets = self.by_gpus[kinds[0]]
                with_gpus = 0
                for count in range(n, len(sets)):
                    with_gpus |= sets[count]
                found &= with_gpus
            else:
                found = set_of(node for node in members(found) if sum(self.gpus[kind][node] for kind in kinds) >= n)
        return found

    def offer(self, request: NodeRequest, node: int) -> int:
        """Return how many cores a candidate can give a job, with memory for each. O(1)."""
        n_cores = self.cores[node]
        if request.node_memory and self.memory[node] < request.node_memory:
            return 0
        if request.core_memory:
            n_cores = int(min(n_cores, self.memory[node] // request.core_memory))
        if request.cores_per_node:
            return request.cores_per_node if n_cores >= request.cores_per_node else 0
        return n_cores

    def fit(self, request: NodeRequest, n: int, placement: str = "best", *, among: int = -1) -> list[NodePart] | None:
        """Return the nodes for a job of n processors with the cores on each; None if it does not fit now.

        `among` restricts the nodes. O(cores of a node) for a job on one node, unless memory is short; O(nodes) else.
        """
        if request.choices:
            places = (self.fit(one, n, placement, among=among) for one in request.choices)
            return next(filter(None, places), None)
        found = self.candidates(request, among)
        if not found:
            return None
        if request.cores_per_node and not _agrees(request, n):
            return None
        if request.cores_per_node in {0, n} and request.min_nodes == 1:
            one = self._one_node(request, n, placement, found)
            if one is not None:
                return [NodePart(one, n)]
        if request.is_on_one(n) or not self._may_hold(request, n, found):
            return None
        parts = self._several_nodes(request, n, placement, self._in_order(request, placement, found), found)
        if parts is None and request.max_nodes and not request.cores_per_node:
            # Fewer nodes may do if those that can give most come first.
            order = sorted(members(found), key=lambda node: (-self.offer(request, node), node))
            parts = self._several_nodes(request, n, "fewest", order, found)
        return parts if parts is None or placement != "spread" else self._evenly(request, parts, n)

    def _one_node(self, request: NodeRequest, n: int, placement: str, found: int) -> int | None:
        """Return the node for a job that runs on one; None if there is none."""
        if placement == "weight":
            groups = (found & group for group in self.machine.by_weight)
            return next(
                (one for group in groups if (one := self._one_node(request, n, "best", group)) is not None), None
            )
        levels = self.by_cores[n:]
        if placement in {"order", "fewest"}:
            enough = 0
            for nodes in levels:
                enough |= nodes
            levels = [enough]
        elif placement == "spread":
            levels.reverse()
        needed = max(request.node_memory, request.core_memory * n)
        for level in levels:
            nodes = level & found
            if nodes and not needed:
                return (nodes & -nodes).bit_length() - 1
            for node in members(nodes):
                if self.memory[node] >= needed:
                    return node
        return None

    def _may_hold(self, request: NodeRequest, n: int, found: int) -> bool:
        """Return whether the nodes have enough free cores, whatever their memory. O(cores of a node)."""
        unit, found_n, sets = request.cores_per_node, 0, self.by_cores
        for level in range(len(sets) - 1, max(unit, 1) - 1, -1):
            nodes = sets[level] & found
            if nodes:
                found_n += (unit or level) * nodes.bit_count()
                if found_n >= n:
                    return True
        return False

    def _several_nodes(
        self, request: NodeRequest, n: int, placement: str, order: Iterable[int], found: int
    ) -> list[NodePart] | None:
        """Take nodes in an order until a job has all its processors; None if they are too few.

        Every node gives at least one core. With the placement ``best`` the last node is the fullest that suffices.
        """
        left, most = n, request.max_nodes or n
        parts: list[NodePart] = []
        cores, memory, unit, core_memory = self.cores, self.memory, request.cores_per_node, request.core_memory
        needed = max(request.node_memory, core_memory * unit)
        for node in order:
            if needed and memory[node] < needed:
                continue
            offered = cores[node]
            if unit:
                offered = unit if offered >= unit else 0
            elif core_memory:
                offered = int(min(offered, memory[node] // core_memory))
            if not offered:
                continue
            n_missing = max(request.min_nodes - len(parts), 1)  # nodes still wanted, with this one
            taken = min(offered, left - (n_missing - 1))
            if taken <= 0 or len(parts) == most:
                return None
            last: int | None = node
            if taken == left and placement == "best" and not request.cores_per_node:
                last = self._one_node(request, left, "best", found & ~set_of(part.node for part in parts))
            parts.append(NodePart(node if last is None else last, taken))
            left -= taken
            if not left:
                return parts if len(parts) >= request.min_nodes else None
        return None

    def _in_order(self, request: NodeRequest, placement: str, found: int) -> Iterator[int]:
        """Yield nodes with free cores in the order in which a placement takes them: usually the emptiest first."""
        if placement == "order":
            yield from members(found & ~self.by_cores[0])
        elif placement == "best" and request.cores_per_node:
            for level in self.by_cores[request.cores_per_node :]:
                yield from members(level & found)
        else:
            for group in self.machine.by_weight if placement == "weight" else (-1,):
                for level in reversed(self.by_cores[1:]):
                    yield from members(level & found & group)

    def _evenly(self, request: NodeRequest, parts: Sequence[NodePart], n: int) -> list[NodePart]:
        """Distribute the processors of a job evenly on its nodes, as far as each can give them."""
        offers = {part.node: self.offer(request, part.node) for part in parts}
        given = dict.fromkeys(offers, 0)
        while n:
            for node, offered in offers.items():
                if n and given[node] < offered:
                    given[node] += 1
                    n -= 1
        return [NodePart(node, n_cores) for node, n_cores in given.items()]


def _agrees(request: NodeRequest, n: int) -> bool:
    """Return whether a number of processors agrees with the cores on each node and the number of nodes."""
    n_nodes, rest = divmod(n, request.cores_per_node)
    return not rest and request.min_nodes <= n_nodes <= (request.max_nodes or n_nodes)


def members(nodes: int) -> Iterator[int]:
    """Return the members of a set of nodes in order. O(members), or O(nodes) with less for each."""
    if 10 * nodes.bit_count() > nodes.bit_length():
        return compress(count(), f"{nodes:b}"[::-1].encode().translate(_BITS))
    return _few_members(nodes)


def _few_members(nodes: int) -> Iterator[int]:
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def set_of(nodes: Iterable[int]) -> int:
    """Return a set of nodes."""
    found = 0
    for node in nodes:
        found |= 1 << node
    return found


def union_of(sets: Iterable[int]) -> int:
    """Return the union of sets of nodes."""
    return reduce(or_, sets, 0)


def _sets_by(values: Sequence[int]) -> list[int]:
    """Return the set of nodes with each value."""
    sets = [0] * (max(values, default=0) + 1)
    for node, value in enumerate(values):
        sets[value] |= 1 << node
    return sets


class Nodes:
    """The nodes of a machine: what they are, what is free on each now (`free`), and which job holds what (`held`)."""

    def __init__(self, nodes: Sequence[Node], gpu_types: Sequence[str] = ()) -> None:
        #: Each node of the machine, by its number.
        self.nodes = tuple(nodes)
        #: The types of GPUs of the machine.
        self.gpu_types = tuple(gpu_types)
        #: All nodes, as a set.
        self.all = (1 << len(self.nodes)) - 1
        #: The nodes of each weight, the lowest first.
        self.by_weight = [
            set_of(node.number for node in self.nodes if node.weight == weight)
            for weight in sorted({node.weight for node in self.nodes})
        ]
        self._idle = FreeNodes(self)
        self._refusals: dict[tuple[NodeRequest, int], Reason | None] = {}
        #: What is free now.
        self.free = self._idle.copy()
        #: What each running or held job holds.
        self.held: dict[str, tuple[NodeShare, ...]] = {}
        #: The present reservations: their ends, what they hold of nodes that are reserved in part, and what their jobs
        #: hold.
        self.reserved: list[tuple[float, tuple[NodeShare, ...], tuple[NodeShare, ...]]] = []
        #: The requests of unfinished jobs that request more than processors.
        self.requests: dict[str, NodeRequest] = {}
        #: The partitions by name that restrict where jobs start; none if the run has no such partitions.
        self.partitions: dict[str, NodePartition] = {}
        #: Disjoint sets of nodes: no job may run on nodes of two of them.
        self.groups: tuple[int, ...] = (self.all,)
        self._able: dict[NodeRequest, int] = {}
        self._runs: list[tuple[int, int, int]] = sorted(
            (start, stop, node.number) for node in self.nodes for start, stop in node.procs.intervals()
        )
        self._starts = [start for start, _, _ in self._runs]
        self._parts_of: tuple[IntervalSet | None, list[NodePart]] = None, []  # those of the last set

    def kinds_of(self, gpu_type: str) -> Sequence[int]:
        """Return the places of a type of GPU in `gpu_types`, in any spelling; of all types if it is empty."""
        if not gpu_type:
            return range(len(self.gpu_types))
        return [place for place, name in enumerate(self.gpu_types) if name.lower() == gpu_type.lower()]

    def able(self, request: NodeRequest) -> int:
        """Return the nodes that can run a part of a job if they are idle. O(1) for a request that was seen before."""
        found = self._able.get(request)
        if found is None:
            found = union_of(map(self._able_in, request.in_partitions()))
            self._able[request] = found
        return found

    def _able_in(self, request: NodeRequest) -> int:
        return request.among & set_of(node.number for node in self.nodes if self._lacks(node, request) is None)

    # --- partitions ---

    def join(self, nodes: int) -> None:
        """Record that a job may run on any of these nodes: make one group of all groups with some of them."""
        if any(not nodes & ~group for group in self.groups):
            return
        for group in self.groups:
            nodes |= group if group & nodes else 0
        self.groups = (*(group for group in self.groups if not group & nodes), nodes)

    def group_of(self, job: Job) -> int:
        """Return the group of nodes in which a job runs. O(groups)."""
        groups = self.groups
        if len(groups) == 1:
            return groups[0]
        among = self.requests.get(job.id, PLAIN).among
        return next(one for one in groups if one & among)

    def partitions_of(self, job: Job) -> tuple[NodePartition, ...]:
        """Return the partitions in which a job may run, in the order in which they are tried; none without any."""
        choices = self.requests.get(job.id, PLAIN).in_partitions()
        return tuple(self.partitions[one.partition] for one in choices if one.partition)

    def outside(self, request: NodeRequest, procs: IntervalSet) -> str | None:
        """Return why processors do not lie within one of a job's partitions; None if they do. O(its nodes)."""
        choices = request.in_partitions()
        nodes = self.within(procs)
        if any(not nodes & ~one.among for one in choices):
            return None
        names, partitions = ", ".join(self.nodes[node].name for node in members(nodes)), [p.partition for p in choices]
        return f"its nodes {names} do not lie within one of its partitions: {', '.join(partitions)}"

    def _lacks(self, node: Node, request: NodeRequest) -> str | None:
        """Return what an idle node lacks for a job; None for nothing."""
        if request.features and not has_features(request.features, node.features):
            return "features"
        if sum(node.gpus[kind] for kind in self.kinds_of(request.gpu_type)) < request.gpus_per_node:
            return "gpus"
        needed = max(request.node_memory, request.core_memory * max(request.cores_per_node, 1))
        if node.memory < needed:
            return "memory"
        return "cores" if node.n_cores < request.cores_per_node else None

    def with_all_gpus(self, request: NodeRequest, n_gpus: int, n: int) -> NodeRequest:
        """Return a request for GPUs in all as one for GPUs of each node: of as few nodes as can hold the job."""
        nodes = [node for node in self.nodes if request.among >> node.number & 1]
        most_gpus = max((sum(node.gpus[kind] for kind in self.kinds_of(request.gpu_type)) for node in nodes), default=0)
        most_cores = max((node.n_cores for node in nodes if node.gpus), default=1)
        if request.cores_per_node:
            most_cores = request.cores_per_node
        fewest = max(request.min_nodes, -(-n_gpus // max(most_gpus, 1)), -(-n // most_cores))
        if request.max_nodes:
            fewest = min(fewest, request.max_nodes)
        return request._replace(min_nodes=fewest, max_nodes=fewest, gpus_per_node=-(-n_gpus // fewest))

    def parts_of(self, procs: IntervalSet) -> list[NodePart]:
        """Return how many of these processors belong to each node. O(k log intervals + nodes)."""
        if procs is self._parts_of[0]:  # a start is checked, and then counted
            return self._parts_of[1]
        counts: dict[int, int] = {}
        for start, stop in procs.intervals():
            place = bisect_right(self._starts, start) - 1
            at = start
            while at < stop:
                _, end, node = self._runs[place]
                upto = min(stop, end)
                counts[node] = counts.get(node, 0) + upto - at
                at, place = upto, place + 1
        self._parts_of = procs, [NodePart(node, n) for node, n in counts.items()]
        return self._parts_of[1]

    def procs_of(self, parts: Iterable[NodePart], free: IntervalSet) -> IntervalSet:
        """Return the lowest free processors of nodes, as many on each as its part. O(parts * log k), usually."""
        found: list[tuple[int, int]] = []
        for node, n in parts:
            left = n
            for start, stop in self.nodes[node].procs.intervals():
                for first, end in free.between(start, stop):
                    if left:
                        taken = min(left, end - first)
                        found.append((first, first + taken))
                        left -= taken
            assert not left, f"node {self.nodes[node].name} has too few free processors"
        return IntervalSet.of_intervals(found)

    def shares_of(
        self, request: NodeRequest, parts: Iterable[NodePart], free: FreeNodes | None = None
    ) -> tuple[NodeShare, ...]:
        """Return what a job holds of each node. GPUs of any type are the first free ones. O(parts)."""
        if request.choices:
            request = self._chosen(request, parts := list(parts))
        core_memory, node_memory, n_gpus = request.core_memory, request.node_memory, request.gpus_per_node
        if not n_gpus:
            return tuple([NodeShare(node, n, node_memory or core_memory * n, ()) for node, n in parts])
        return tuple(
            [
                NodeShare(node, n, node_memory or core_memory * n, self._gpus_on(node, request, free or self.free))
                for node, n in parts
            ]
        )

    def _chosen(self, request: NodeRequest, parts: Sequence[NodePart]) -> NodeRequest:
        """Return the request in the first partition that these nodes lie within, and whose number of nodes is right."""
        nodes, n = set_of(part.node for part in parts), len(parts)
        fitting = (
            one for one in request.choices if not nodes & ~one.among and one.min_nodes <= n <= (one.max_nodes or n)
        )
        return next(fitting, request.choices[0])

    def _gpus_on(self, node: int, request: NodeRequest, free: FreeNodes) -> tuple[int, ...]:
        left, taken = request.gpus_per_node, [0] * len(self.gpu_types)
        for kind in self.kinds_of(request.gpu_type):
            taken[kind] = min(left, free.gpus[kind][node])
            left -= taken[kind]
        return tuple(taken)

    def reserved_share(
        self, procs: IntervalSet, free: FreeNodes, used: Sequence[NodeShare] = ()
    ) -> tuple[NodeShare, ...]:
        """Return the memory and GPUs that go with reserved processors, without `used` ones, and at most what is free.

        They are that part of a node, rounded down. Of a whole node they are none: no other job can start there.
        O(their nodes * used).
        """
        found = []
        for number, n in self.parts_of(procs):
            node, own = self.nodes[number], [share for share in used if share.node == number]
            if n == node.n_cores:
                continue
            memory = 0 if node.memory == math.inf else int(node.memory) * n // node.n_cores
            left = max(min(memory - sum(share.memory for share in own), free.memory[number]), 0)
            gpus = []
            for kind, n_gpus in enumerate(node.gpus):
                n_used = sum(share.gpus[kind] for share in own if share.gpus)
                gpus.append(max(min(n_gpus * n // node.n_cores - n_used, free.gpus[kind][number]), 0))
            found.append(NodeShare(number, 0, int(left), tuple(gpus)))
        return tuple(found)

    # --- what is missing ---

    def refusal(self, request: NodeRequest, n: int) -> Reason | None:
        """Return which resource no set of nodes has for a job; None if it fits on idle nodes. O(1) for a known one."""
        if (request, n) not in self._refusals:
            self._refusals[request, n] = self._refusal(request, n)
        return self._refusals[request, n]

    def _refusal(self, request: NodeRequest, n: int) -> Reason | None:
        if self._idle.fit(request, n, "fewest") is not None:
            return None
        if request.cores_per_node and not _agrees(request, n):
            text = "can never fit: requests {} processors, but {} cores on each of {}"
            return text, n, request.cores_per_node, _nodes_text(request)
        wanted = least = PLAIN._replace(among=request.among)
        there = f" in partition {request.partition}" if request.partition else ""
        for field, what, value in (
            ("features", "nodes with {}", request.features),
            ("gpus_per_node", "{} on a node", _gpu_text(request.gpus_per_node, request.gpu_type)),
            ("cores_per_node", "{} cores on a node", request.cores_per_node),
            ("node_memory", "{} GB of memory on a node", request.node_memory / GB),
            ("core_memory", "{} GB of memory for each core", request.core_memory / GB),
        ):
            wanted = wanted._replace(**{field: getattr(request, field)})
            if field == "gpus_per_node":
                wanted = wanted._replace(gpu_type=request.gpu_type)
            if wanted != least and not self.able(wanted):
                return f"can never fit: requests {what}; no node{there} has that", value
        able = [self.nodes[node] for node in members(self.able(request))]
        if len(able) < request.min_nodes:
            wanted_gpus = _gpu_text(request.gpus_per_node, request.gpu_type) if request.gpus_per_node else ""
            text = f"can never fit: requests {{}}{' with {} each' if wanted_gpus else '{}'}; it can use {{}}{there}"
            return text, _nodes_text(request), wanted_gpus, len(able)
        return (
            f"can never fit: requests {{}} processors on {{}}; the {{}} nodes that it can use{there} have {{}} in all",
            n,
            _nodes_text(request),
            len(able),
            sum(self.most_cores(node, request) for node in able),
        )

    def most_cores(self, node: Node, request: NodeRequest) -> int:
        """Return how many cores an idle node can give a job, with memory for each."""
        return int(min(node.n_cores, node.memory // request.core_memory)) if request.core_memory else node.n_cores

    def within(self, procs: IntervalSet) -> int:
        """Return the nodes that have some of these processors, as a set. O(k log intervals + nodes)."""
        return set_of(part.node for part in self.parts_of(procs))

    def missing(self, request: NodeRequest, n: int, among: int = -1) -> Reason:
        """Return which resource is missing for a job that does not fit now; in its first partition. O(nodes)."""
        request = request.in_partitions()[0]
        for field, value, text in (
            ("exclusive", False, "idle nodes"),
            ("gpus_per_node", 0, _gpu_text(request.gpus_per_node, request.gpu_type)),
            ("node_memory", 0, f"{request.node_memory / GB:.9g} GB of memory on a node"),
            ("core_memory", 0, f"{request.core_memory / GB:.9g} GB of memory for each core"),
        ):
            changes: dict[str, Any] = {field: value}
            less = request._replace(**changes)
            if less != request and self.free.fit(less, n, "fewest", among=among) is not None:
                return "needs {}, which are not free", text
        there = f" in partition {request.partition}" if request.partition else ""
        return f"needs {{}} processors on {{}}; they are not free{there}", n, _nodes_text(request)

    def problem(self, request: NodeRequest, procs: IntervalSet) -> str | None:
        """Return why a job cannot start on processors that are free; None if it can. O(its nodes)."""
        parts, memory = self.parts_of(procs), self.free.memory
        if request.choices:
            request = self._chosen(request, parts)
        if not request.min_nodes <= len(parts) <= (request.max_nodes or len(parts)):
            return f"it requests {_nodes_text(request)}; the processors are on {len(parts)}"
        shares = self.shares_of(request, parts)
        usable = self.able(request) & ~self.free.closed & (self.free.idle if request.exclusive else -1)
        for share in shares:
            node, n_cores, needed, gpus = share
            if (
                not usable >> node & 1
                or needed > memory[node]
                or request.cores_per_node not in {0, n_cores}
                or sum(gpus) < request.gpus_per_node
            ):
                return self._problem_on(share, request)
        return None

    def _problem_on(self, share: NodeShare, request: NodeRequest) -> str:
        """Return why a node cannot give a job its share."""
        node, free = self.nodes[share.node], self.free
        n_gpus, free_gb = sum(share.gpus), free.memory[node.number] / GB
        wanted_gpus = _gpu_text(request.gpus_per_node, request.gpu_type)
        problems = (
            (free.closed >> node.number & 1, "runs a job that has it for itself"),
            (
                request.exclusive and not free.idle >> node.number & 1,
                "runs other jobs, and the job has nodes for itself",
            ),
            (
                request.cores_per_node not in {0, share.n_cores},
                f"has {share.n_cores} of the processors; the job requests {request.cores_per_node} on each node",
            ),
            (
                request.features and not has_features(request.features, node.features),
                f"has the features {', '.join(sorted(node.features)) or 'none'}; the job requests {request.features}",
            ),
            (
                share.memory > free.memory[node.number],
                f"has {free_gb:.9g} GB of {node.memory / GB:.9g} GB free; the job needs {share.memory / GB:.9g} GB",
            ),
            (n_gpus < request.gpus_per_node, f"has {n_gpus} of these free; the job needs {wanted_gpus}"),
        )
        return f"node {node.name} {next(text for is_problem, text in problems if is_problem)}"

    def check(self, free: IntervalSet) -> None:
        """Assert that what is free is what no job holds (for tests). O(nodes + jobs)."""
        twin = self._idle.copy()
        for job_id, shares in self.held.items():
            twin.take(shares, exclusive=self.requests.get(job_id, PLAIN).exclusive)
        for _, shares, _ in self.reserved:
            twin.take(shares)
        twin.count_cores(self.parts_of(free))
        for node in range(len(self.nodes)):
            assert self.free.memory[node] >= 0, f"memory of node {self.nodes[node].name} is overcommitted"
            assert min((free[node] for free in self.free.gpus), default=0) >= 0, f"GPUs of {node} are overcommitted"
        for name in FreeNodes.__slots__:
            if name != "machine":
                found, expected = getattr(self.free, name), getattr(twin, name)
                assert found == expected, f"free {name}: {found}, expected {expected}"

    # --- for the cluster ---

    def occupy(self, job: Job) -> None:
        """Take what a job holds that starts now. O(its nodes)."""
        request, segment = self.requests.get(job.id, PLAIN), job.segment
        assert segment.procs is not None
        shares = self.shares_of(request, self.parts_of(segment.procs))
        if segment.partition is None:  # its processors are away, and so not free
            shares = tuple(share._replace(n_cores=0) for share in shares)
        self.held[job.id] = shares
        self.free.take(shares, exclusive=request.exclusive)

    def vacate(self, job: Job, back: IntervalSet) -> None:
        """Give back what a job held, and the processors that are free again. O(its nodes)."""
        shares = self.held.pop(job.id)
        is_exclusive = self.requests.get(job.id, PLAIN).exclusive
        if len(back) == job.segment.n_held:
            self.free.give(shares, exclusive=is_exclusive)
            return
        self.free.give(shares, exclusive=is_exclusive, with_cores=False)
        self.free.add_cores(self.parts_of(back))

    def reserve(self, windows: Iterable[tuple[float, IntervalSet, Iterable[str]]]) -> None:
        """Hold the share of present reservations: their ends, processors, and the jobs that run there. O(jobs)."""
        for _, shares, _ in self.reserved:
            self.free.give(shares)
        self.reserved = []
        for end_at, procs, job_ids in windows:
            used = tuple(share for job_id in job_ids for share in self.held[job_id])
            shares = self.reserved_share(procs, self.free, used)
            self.free.take(shares)
            self.reserved.append((end_at, shares, used))

    def count_cores(self, free: IntervalSet) -> None:
        """Count the free cores of all nodes anew, after a change of machines. O(nodes * log k)."""
        self.free.count_cores(self.parts_of(free))


def has_features(wanted: str, features: frozenset[str]) -> bool:
    """Return whether a node has the features of a request: all joined by ``&``, in one of the groups between ``|``.

    >>> has_features("a100&ib|h100", frozenset(("a100", "ib"))), has_features("a100&ib|h100", frozenset(("a100",)))
    (True, False)
    """
    return any(features.issuperset(group.split("&")) for group in wanted.split("|"))


def _gpu_text(n: int, gpu_type: str) -> str:
    return f"{n} GPU{'s' if n > 1 else ''}" + (f" of type {gpu_type}" if gpu_type else "")


def _nodes_text(request: NodeRequest) -> str:
    fewest, most = request.min_nodes, request.max_nodes
    if fewest == most:
        return f"{fewest} node{'s' if fewest > 1 else ''}"
    if most:
        return f"{fewest} to {most} nodes"
    return f"at least {fewest} node{'s' if fewest > 1 else ''}"
