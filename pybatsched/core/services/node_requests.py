"""Requests of jobs for memory, GPUs and whole nodes: read at submission, and counted from the first one on."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pybatsched.core import decisions as d
from pybatsched.core.host_nodes import groups_of, nodes_of
from pybatsched.core.node_requests import REQUEST_FIELDS, request_of
from pybatsched.core.nodes import Nodes
from pybatsched.core.services.service import Service
from pybatsched.errors import InputError, setting

if TYPE_CHECKING:
    from pybatsched.core.actions import Actions
    from pybatsched.core.jobs import Job, KillCause


class NodeRequests(Service):
    """Reads what jobs request of the nodes of a machine, and rejects those that no set of nodes can hold.

    A policy that does not plan nodes ignores requests, and its user gets a remark.
    """

    fields: frozenset[str] | None = REQUEST_FIELDS

    def __init__(self, actions: Actions, *, is_planned: bool, is_own: bool) -> None:
        self._actions = actions
        self._nodes: Nodes | None = None  # read when the first job requests more than processors
        self._is_planned = is_planned
        self._is_own = is_own  # the policy reads such fields itself
        self._n_requests = 0

    def begin(self) -> None:
        """Read the requests of all unfinished jobs again, if the policy was replaced."""
        self._actions.cluster.nodes = None
        for job in self._actions.jobs.alive.values():
            self.check(job)

    def leave(self) -> None:
        """Count no nodes any more, unless another service does."""
        if self._actions.cluster.nodes is self._nodes:
            self._actions.cluster.nodes = None

    def check(self, job: Job) -> None:
        """Read the request of a new job. Raises InputError for an invalid field, or if processors are shared."""
        try:
            found = request_of(job.fields)
        except ValueError as error:
            if self._is_planned:
                raise InputError(f"job {job.id}, {error}") from None
            return
        if found is None:
            return
        self._n_requests += 1
        if not self._is_planned:
            return
        request, n_gpus = found
        if self._nodes is None:
            self.use_nodes(nodes_of(self._actions.cluster), f"job {job.id} requests memory, GPUs or nodes")
            assert self._nodes is not None
        if n_gpus:
            request = self._nodes.with_all_gpus(request, n_gpus, job.n_procs)
        self._nodes.requests[job.id] = request

    def use_nodes(self, nodes: Nodes, why: str) -> None:
        """Count from now on what is free on nodes. O(processors)."""
        cluster = self._actions.cluster
        if cluster.allow_sharing:
            raise InputError(f"{why}; expected a Batsim that is started without {setting('compute_sharing')}")
        self._nodes = nodes
        cluster.use_nodes(nodes)
        self._actions.caller.call("on_requests", nodes, self._actions.now)

    def takes(self, job: Job) -> bool:
        """Reject a job that no set of nodes can hold."""
        nodes = self._nodes
        request = None if nodes is None else nodes.requests.get(job.id)
        reason = None if nodes is None or request is None else nodes.refusal(request, job.n_procs)
        if reason is not None:
            self._actions.carry_out(d.RejectJob(job.id, reason=reason))
        return reason is not None

    def ended(self, job: Job, cause: KillCause | None) -> None:  # noqa: ARG002
        """Forget the request of a job."""
        if self._nodes is not None:
            self._nodes.requests.pop(job.id, None)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the nodes, if requests were counted here or by the policy."""
        nodes = self._nodes
        if self._is_own and self._n_requests:
            with suppress(InputError):  # the policy may read other properties of hosts
                nodes = nodes_of(self._actions.cluster)
        return {} if nodes is None else {"nodes": groups_of(nodes)}

    def remarks(self) -> tuple[str, ...]:
        """Say whether requests were ignored."""
        if self._is_planned or self._is_own or not self._n_requests:
            return ()
        text = f"{self._n_requests:,} jobs request memory, GPUs or nodes; the policy plans processors only and ignores"
        return (f"{text} these requests",)
