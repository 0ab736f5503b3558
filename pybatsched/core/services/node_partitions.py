"""Partitions as Slurm has them: which nodes a job may use, and limits of its time and its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybatsched.core import decisions as d
from pybatsched.core.host_nodes import nodes_of
from pybatsched.core.instants import HALF_TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.node_partitions import OPTION, NodePartition, PartitionSpec, named_by, places_of, problem_with
from pybatsched.core.node_requests import NodeRequest, request_of
from pybatsched.core.nodes import set_of, union_of
from pybatsched.core.services.node_requests import NodeRequests
from pybatsched.core.services.running_at_start import FIELD as RUNNING_AT_START
from pybatsched.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybatsched.core.actions import Actions
    from pybatsched.core.jobs import Job
    from pybatsched.core.nodes import Nodes


def with_partitions(nodes: Nodes, specs: Sequence[PartitionSpec]) -> Nodes:
    """Restrict jobs to partitions of these nodes. O(nodes). Raises InputError for nodes that the machine lacks."""
    nodes.groups = ()
    for spec in specs:
        places = places_of(spec, [node.name for node in nodes.nodes])
        procs = IntervalSet.of_intervals(one for place in places for one in nodes.nodes[place].procs.intervals())
        found = NodePartition(spec.name, set_of(places), procs, spec.max_time_s, spec.max_nodes, spec.priority)
        nodes.partitions[spec.name] = found
        nodes.join(found.nodes)
    return nodes


class NodePartitions(NodeRequests):
    """Reads which partitions a job names, and rejects a job that none of them accepts, as Slurm does."""

    fields = None

    def __init__(self, actions: Actions, specs: Sequence[PartitionSpec]) -> None:
        super().__init__(actions, is_planned=True, is_own=False)
        self._specs = specs
        self._default = [spec.name for spec in specs if spec.is_default]
        self._refusals: dict[str, d.Reason] = {}

    def begin(self) -> None:
        """Count what is free on nodes from the beginning."""
        cluster = self._actions.cluster
        cluster.nodes = None
        self.use_nodes(with_partitions(nodes_of(cluster), self._specs), f"option {OPTION} is set")
        for job in self._actions.jobs.alive.values():
            self.check(job)

    def check(self, job: Job) -> None:
        """Read the partitions and the request of a new job. Raises InputError for an invalid field."""
        if RUNNING_AT_START in job.fields:  # it has started in the log
            super().check(job)
            return
        nodes = self._nodes
        assert nodes is not None
        try:
            request, n_gpus = request_of(job.fields) or (NodeRequest(in_order=True), 0)
        except ValueError as error:
            raise InputError(f"job {job.id}, {error}") from None
        problem = problem_with(job.fields, self._specs)
        if problem is not None:
            self._refusals[job.id] = f"field partition: {problem}"
            return
        named = [nodes.partitions[name] for name in named_by(job.fields) or self._default]
        named.sort(key=lambda one: -one.priority)
        choices = []
        for partition in named:
            refusal = _over_limit(job, request, partition)
            if refusal is None:
                one = _within(partition, request)
                if n_gpus:
                    one = nodes.with_all_gpus(one, n_gpus, job.n_procs)
                refusal = nodes.refusal(one, job.n_procs)
            if refusal is None:
                choices.append(one)
            else:
                self._refusals.setdefault(job.id, refusal)
        if choices:
            self._refusals.pop(job.id, None)
            nodes.join(union_of(one.among for one in choices))
            nodes.requests[job.id] = choices[0] if len(choices) == 1 else choices[0]._replace(choices=tuple(choices))

    def takes(self, job: Job) -> bool:
        """Reject a job that none of its partitions accepts."""
        reason = self._refusals.pop(job.id, None)
        if reason is not None:
            self._actions.carry_out(d.RejectJob(job.id, reason=reason))
        return reason is not None


def _over_limit(job: Job, request: NodeRequest, partition: NodePartition) -> d.Reason | None:
    """Return which limit of a partition a job exceeds; None if it exceeds none."""
    if job.walltime is not None and job.walltime > partition.max_time_s + HALF_TICK:
        text = "walltime {} is over max_time {} of partition {}"
        return text, job.walltime, partition.max_time_s, partition.name
    if partition.max_nodes and request.min_nodes > partition.max_nodes:
        text = "requests {} nodes, which is over max_nodes {} of partition {}"
        return text, request.min_nodes, partition.max_nodes, partition.name
    return None


def _within(partition: NodePartition, request: NodeRequest) -> NodeRequest:
    """Return a request within a partition."""
    most = min(filter(None, (request.max_nodes, partition.max_nodes)), default=0)
    return request._replace(partition=partition.name, among=partition.nodes, max_nodes=most)
