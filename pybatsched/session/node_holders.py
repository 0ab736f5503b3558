"""Say which jobs hold what a job lacks on the nodes that it could use."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pybatsched.core.node_requests import GB, PLAIN, NodeRequest
from pybatsched.core.nodes import Nodes, NodeShare, members, union_of

if TYPE_CHECKING:
    from pybatsched.core.decisions import Reason
    from pybatsched.core.jobs import Job

#: Of more jobs that hold a resource, the number is shown.
_N_NAMED: Final = 5
#: What a node lacks for a job: GPUs, all of it, memory or processors, in the order in which they are named.
_GPUS, _NODES, _MEMORY, _CORES = range(4)


def lacks(nodes: Nodes, job: Job) -> bool:
    """Return whether a job does not fit on its nodes now. O(nodes)."""
    return nodes.free.fit(nodes.requests.get(job.id, PLAIN), job.n_procs, "fewest") is None


def with_holders(reason: Reason, nodes: Nodes, job: Job) -> Reason:
    """Return why a job waits, with the jobs that hold what it lacks now. O(nodes + what jobs hold)."""
    found = _holders(nodes, nodes.requests.get(job.id, PLAIN)) if lacks(nodes, job) else []
    if not found:
        return reason
    text = ", ".join(found[:_N_NAMED])
    if len(found) > _N_NAMED:
        text += f" and {len(found) - _N_NAMED:,} more"
    template, *values = (reason,) if isinstance(reason, str) else reason
    return f"{template}; what it lacks is held by {{}}", *values, text


def _holders(nodes: Nodes, request: NodeRequest) -> list[str]:
    """Return each job that holds what a request lacks on some node, with how much, the largest holder first."""
    choices = request.in_partitions()
    usable = {
        node: next(one for one in choices if nodes.able(one) >> node & 1)
        for node in members(union_of(map(nodes.able, choices)))
    }
    lacking = {node: what for node, one in usable.items() if (what := _lacking(nodes, one, node)) is not None}
    lacking = lacking or dict.fromkeys(usable, _CORES)  # each could run a part, but they are too few
    held: Counter[tuple[int, str]] = Counter()
    for job_id, shares in nodes.held.items():
        for share in shares:
            what = lacking.get(share.node)
            if what is not None and (amount := _amount(share, what)):
                held[what, job_id] += amount
    ordered = sorted(held.items(), key=lambda one: (one[0][0], -one[1], one[0][1]))
    return [f"{job_id} ({_text(what, amount)})" for (what, job_id), amount in ordered]


def _lacking(nodes: Nodes, request: NodeRequest, node: int) -> int | None:
    """Return what a node lacks for a part of a job; None if it could run a part now."""
    free, kinds = nodes.free, nodes.kinds_of(request.gpu_type)
    if free.closed >> node & 1 or (request.exclusive and not free.idle >> node & 1):
        return _NODES
    if sum(free.gpus[kind][node] for kind in kinds) < request.gpus_per_node:
        return _GPUS
    least = max(request.cores_per_node, 1)
    if free.memory[node] < (request.node_memory or request.core_memory * least):
        return _MEMORY
    return _CORES if free.cores[node] < least else None


def _amount(share: NodeShare, what: int) -> int:
    return (sum(share.gpus), 1, share.memory, share.n_cores)[what]


def _text(what: int, amount: int) -> str:
    if what == _MEMORY:
        return f"{amount / GB:.9g} GB"
    word = {_GPUS: "GPU", _NODES: "node", _CORES: "processor"}[what]
    return f"{amount:,} {word}{'s' if amount > 1 else ''}"
