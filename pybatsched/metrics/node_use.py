"""Compute what jobs held of nodes: memory, GPUs, and free processors that no job could use for lack of these.

A summary has the nodes of its run if jobs requested more than processors. With them, the requests in the fields of jobs
and the processors in the table of jobs say what each job held. This is computed in the same way at the end of a run,
for its summary, and from saved files.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import mul
from typing import Any, Final, NamedTuple

from pybatsched.core.events import NOTHING
from pybatsched.core.host_nodes import nodes_of_groups
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.node_partitions import FIELD, OPTION, named_by, parse_partitions, places_of
from pybatsched.core.node_requests import GB, PLAIN, NodeRequest, request_of
from pybatsched.core.nodes import FreeNodes, Node, Nodes, NodeShare
from pybatsched.errors import InputError
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.metrics.series import Steps
from pybatsched.metrics.summary import NODE_FIGURES, NODES, OF_PARTITION
from pybatsched.metrics.truncated import Truncation

#: The classes of jobs by what they request most.
RESOURCES: Final = ("gpu", "memory", "whole node", "cores")
#: What jobs hold of nodes, as keys of `NodeUse.held`; a type of GPUs follows `GPUS` and a blank.
MEMORY, GPUS, STRANDED = "memory", "GPUs", "stranded"


class Start(NamedTuple):
    """One start of a job, until when, and on what. `row` is the number of the job."""

    row: int
    started_at: float
    ended_at: float
    runtime_s: float
    procs: IntervalSet


class _Named(NamedTuple):
    """A named partition: its processors."""

    name: str
    procs: IntervalSet
    is_default: bool


def nodes_of_summary(where: str, summary: Mapping[str, Any]) -> Nodes | None:
    """Read the nodes of a summary; None if requests were not counted. O(nodes). Raises InputError."""
    groups = summary.get(NODES)
    try:
        return nodes_of_groups(groups) if groups else None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{where}: nodes: expected groups of nodes with procs, found {groups!r:.80}") from None


def _partitions_of(policy: Any, nodes: Nodes) -> list[_Named]:
    """Return the named partitions in the options of a summary's policy, by priority. O(nodes). Raises InputError."""
    options = policy.get("options") if isinstance(policy, dict) else None
    text = options.get(OPTION) if isinstance(options, dict) else None
    found = []
    for spec in sorted(parse_partitions(text), key=lambda one: -one.priority) if isinstance(text, str) else ():
        places = places_of(spec, [node.name for node in nodes.nodes])
        intervals = (one for place in places for one in nodes.nodes[place].procs.intervals())
        found.append(_Named(spec.name, IntervalSet.of_intervals(intervals), spec.is_default))
    return found


class NodeUse:
    """What jobs held of the nodes of a run, over time (`held`) and each of them."""

    def __init__(
        self,
        nodes: Nodes,
        records: Sequence[JobRecord],
        cut: Truncation | None = None,
        partitions: Sequence[_Named] = (),
    ) -> None:
        self.nodes = nodes
        self._partitions = partitions
        self._sizes = [record.n_procs for record in records]
        self._fields = [record.fields for record in records]
        self.starts = [
            Start(row, part.started_at, part.ended_at, part.runtime_s, part.procs)
            for row, record in enumerate(records)
            for part in record.segments
        ]
        submitted = [record.submitted_at for record in records]
        ends = [one.ended_at for one in self.starts]
        self.begin, self.end = (min(submitted), max(ends)) if ends else (0.0, 0.0)
        if cut is not None:
            for job in (one for one in cut.unfinished or () if one.started_at is not None):
                # Its number is after those of the others.
                times = job.started_at or 0.0, cut.at, cut.at - (job.started_at or 0.0)
                self.starts.append(Start(len(self._fields), *times, IntervalSet.parse(job.procs)))
                self._fields.append(job.fields)
            self.begin, self.end = cut.span(submitted)
        #: The request of each job, with its number of GPUs in all.
        self._requests = [(request_of(fields) if fields else None) or (PLAIN, 0) for fields in self._fields]
        #: What each start held: GB of memory, and GPUs of each type.
        self.memory_gb = [0.0] * len(self.starts)
        self.gpus: list[tuple[int, ...]] = [()] * len(self.starts)
        #: What jobs held over time: memory, GPUs, and free processors that were stranded.
        self.held = self._repeated()

    @classmethod
    def of_summary(
        cls, where: str, summary: Mapping[str, Any], records: Sequence[JobRecord], cut: Truncation | None = None
    ) -> NodeUse | None:
        """Return the use of the nodes of a summary; None if it has none, or if the fields of jobs are not known."""
        nodes = nodes_of_summary(where, summary)
        if nodes is None or not any(record.fields for record in records):
            return None
        return cls(nodes, records, cut, _partitions_of(summary.get("policy"), nodes))

    @cached_property
    def capacity(self) -> dict[str, float]:
        """The memory (GB) and the GPUs of all nodes, as the keys of `held`, where jobs request them."""
        nodes, types = self.nodes.nodes, self.nodes.gpu_types
        by_type = {kind: float(sum(node.gpus[place] for node in nodes)) for place, kind in enumerate(types)}
        found = {MEMORY: sum(node.memory for node in nodes if node.memory < math.inf) / GB}
        found[GPUS] = math.fsum(by_type.values())
        found |= {f"{GPUS} {kind}": n for kind, n in by_type.items() if len(by_type) > 1}
        if not any(one.core_memory or one.node_memory for one, _ in self._requests):
            del found[MEMORY]
        is_gpu = any(one.gpus_per_node or n_gpus for one, n_gpus in self._requests)
        return {name: value for name, value in found.items() if value and (is_gpu or name == MEMORY)}

    def _repeated(self) -> dict[str, Steps]:
        """Repeat all starts and ends in their order, ends first. O(starts * (log starts + their nodes))."""
        events = [(one.ended_at, 0, k) for k, one in enumerate(self.starts) if one.ended_at > one.started_at]
        events += [(one.started_at, 1, k) for k, one in enumerate(self.starts) if one.ended_at > one.started_at]
        events.sort()
        nodes, free = self.nodes, FreeNodes(self.nodes)
        shares: dict[int, tuple[NodeShare, ...]] = {}
        memory = [0] * len(self.starts)
        names = [MEMORY, *(f"{GPUS} {kind}" for kind in nodes.gpu_types), STRANDED]
        now = [0] * len(names)  # memory in the unit of nodes, so that sums are exact
        stranded = [0] * len(nodes.nodes)
        times: list[float] = []
        values: list[tuple[float, ...]] = []
        for at, is_start, k in events:
            request, n_gpus = self._requests[self.starts[k].row]
            if is_start:
                parts = nodes.parts_of(self.starts[k].procs)
                if n_gpus:  # on as few nodes as can hold them, which are these
                    request = request._replace(gpus_per_node=-(-n_gpus // len(parts)))
                own = shares[k] = nodes.shares_of(request, parts, free)
                free.take(own, exclusive=request.exclusive)
                memory[k] = sum(part.memory for part in own if nodes.nodes[part.node].memory < math.inf)
                self.gpus[k] = tuple(map(sum, zip(*(part.gpus for part in own), strict=True)))
            else:
                own = shares.pop(k)
                free.give(own, exclusive=request.exclusive)
            sign = 1 if is_start else -1
            now[0] += sign * memory[k]
            for kind, n in enumerate(self.gpus[k]):
                now[1 + kind] += sign * n
            for part in own:
                n = _n_stranded(nodes.nodes[part.node], free)
                now[-1] += n - stranded[part.node]
                stranded[part.node] = n
            if times and times[-1] == at:
                values.pop()
            else:
                times.append(at)
            values.append((now[0] / GB, *now[1:]))
        self.memory_gb = [one / GB for one in memory]
        columns = [list(column) for column in zip(*values, strict=True)] or [[] for _ in names]
        found = {name: Steps(tuple(times), tuple(column)) for name, column in zip(names, columns, strict=True)}
        found[GPUS] = Steps(tuple(times), tuple(map(sum, zip(*columns[1:-1], strict=True))) or (0.0,) * len(times))
        return found

    def figures(self) -> dict[str, float]:
        """Return the figures of nodes by name, as docs/metrics.md defines them; empty if no job ran. O(starts)."""
        span_s = self.end - self.begin
        if span_s <= 0:
            return {}
        held = {name: self.held[name].integral(self.begin, self.end) for name in (*self.capacity, STRANDED)}
        found = {figure_of(name): held[name] / (n * span_s) for name, n in self.capacity.items()}
        found["stranded"] = held[STRANDED] / (self._n_procs * span_s)
        starts: defaultdict[str, list[int]] = defaultdict(list)
        for k, one in enumerate(self.starts):
            starts[self._partition_of(one)].append(k)
        sizes = {one.name: len(one.procs) for one in self._partitions} or dict.fromkeys(sorted(starts), self._n_procs)
        for name, n in sizes.items() if len(sizes) > 1 or self._partitions else ():
            held_s = (len(self.starts[k].procs) * self.starts[k].runtime_s for k in starts[name])
            found |= {f"{OF_PARTITION}{name}": math.fsum(held_s) / (n * span_s)} if name else {}
        return found

    def _partition_of(self, start: Start) -> str:
        """Return the partition of a start: that of its job, or the first named one in which the job could run."""
        fields = self._fields[start.row]
        if not self._partitions:
            return str(fields.get(FIELD) or "")
        names = named_by(fields)
        own = (one for one in self._partitions if (one.name in names if names else one.is_default))
        return next((one.name for one in own if start.procs.issubset(one.procs)), "")

    def shares(self, rows: Iterable[int]) -> dict[str, float]:
        """Return which shares of all processors' time, memory and GPUs jobs held, by name of the figure. O(starts)."""
        chosen = set(rows)
        of = [k for k, one in enumerate(self.starts) if one.row in chosen]
        span_s = self.end - self.begin
        if span_s <= 0:
            return {}
        held: dict[str, list[float]] = {
            "": [len(self.starts[k].procs) for k in of],
            MEMORY: [self.memory_gb[k] for k in of],
            GPUS: [sum(self.gpus[k]) for k in of],
        }
        runtimes_s = [self.starts[k].runtime_s for k in of]
        capacity = {"": self._n_procs, **self.capacity}
        return {
            figure_of(name): math.fsum(map(mul, own, runtimes_s)) / (capacity[name] * span_s)
            for name, own in held.items()
            if name in capacity
        }

    @property
    def _n_procs(self) -> int:
        return sum(node.n_cores for node in self.nodes.nodes)

    def of_jobs(self) -> dict[str, list[Any]]:
        """Return columns of the table of jobs: the class of each by its request, and what its last start held. O(n)."""
        last = {one.row: k for k, one in enumerate(self.starts)}
        held = [last.get(row) for row in range(len(self._sizes))]
        return {
            "resource": self._resources(),
            "held_memory_gb": [None if k is None else self.memory_gb[k] for k in held],
            "held_gpus": [None if k is None else sum(self.gpus[k]) for k in held],
        }

    def _resources(self) -> list[str]:
        with_memory = [node for node in self.nodes.nodes if node.memory < math.inf]
        mean = sum(node.memory for node in with_memory) / max(sum(node.n_cores for node in with_memory), 1)
        smallest = min(node.n_cores for node in self.nodes.nodes)
        return [_resource_of(*self._requests[row], n, mean, smallest) for row, n in enumerate(self._sizes)]


def _resource_of(request: NodeRequest, n_gpus: int, n_procs: int, mean_memory: float, smallest: int) -> str:
    if request.gpus_per_node or n_gpus:
        return "gpu"
    if request.exclusive or (request.max_nodes and n_procs >= request.max_nodes * smallest):
        return "whole node"
    memory = request.core_memory * n_procs or request.node_memory * request.min_nodes
    return "memory" if memory > mean_memory * n_procs else "cores"


def _n_stranded(node: Node, free: FreeNodes) -> int:
    """Return how many free processors of a node no job can use for lack of memory or GPUs, or of an exclusive job."""
    number = node.number
    is_closed = free.closed >> number & 1
    has_gpus = not any(node.gpus) or any(kind[number] for kind in free.gpus)
    has_memory = free.memory[number] * node.n_cores >= node.memory
    return 0 if has_gpus and has_memory and not is_closed else free.cores[number]


def figure_of(resource: str) -> str:
    """Return the name of the figure of a resource: the share of it that jobs held.

    >>> figure_of(""), figure_of("memory"), figure_of("GPUs a100")
    ('utilisation', 'memory_utilisation', 'gpu_utilisation_a100')
    """
    if resource.startswith(GPUS):
        return f"gpu_utilisation{resource.removeprefix(GPUS).replace(' ', '_')}"
    return f"{resource}_utilisation" if resource else "utilisation"


def figures_of_summary(summary: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the figures of nodes in a summary; empty if it has none."""
    found = summary.get(NODE_FIGURES)
    return found if isinstance(found, dict) else NOTHING
