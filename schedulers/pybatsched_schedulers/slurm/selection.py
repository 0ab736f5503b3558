"""Which nodes a job gets: Slurm's select/linear and select/cons_tres.

Both test a job on a set of allowed nodes, given what is free on each. `will_run` also says when a job fits if running
jobs end at their time limits. A set of nodes is an integer, as in `pybatsched.FreeNodes`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pybatsched import FreeNodes, NodeRequest, NodeShare, members, set_of
from pybatsched_schedulers.slurm.jobs import Placement, Record, Request

if TYPE_CHECKING:
    from pybatsched import Nodes

#: The lower part of a weight, which tests of jobs with GPUs change.
_WEIGHT_SHIFT: Final = 8
_LOW: Final = (1 << _WEIGHT_SHIFT) - 1
#: Ends of running jobs are taken together in windows that begin with this many seconds, and double.
_WINDOW_S: Final = 30
#: At most one job more than this is removed before a job is tested again.
_MOST_REMOVED: Final = 200
#: Memory in the unit of `pybatsched.Nodes`: this many are one MB.
MB: Final = 1000


class Fit(NamedTuple):
    """When a job fits, where, and which running jobs would have to go before (now, and only then)."""

    start_at: float
    placement: Placement
    victims: tuple[Record, ...] = ()


class NodeSelection(ABC):
    """The choice of nodes on a machine."""

    def __init__(self, machine: Nodes, *, counts_memory: bool = True) -> None:
        self.machine = machine
        #: The machine with nothing in use. It never changes.
        self.idle = FreeNodes(machine)
        self._counts_memory = counts_memory
        self._requests: dict[Request, NodeRequest] = {}
        self._able: dict[Request, int] = {}

    def request_on_nodes(self, request: Request) -> NodeRequest:
        """Return what a job asks of each node. O(1) for a request that was seen before."""
        found = self._requests.get(request)
        if found is None:
            memory = MB if self._counts_memory else 0
            found = self._requests[request] = NodeRequest(
                cores_per_node=max(request.tasks_per_node, 1) * request.cpus_per_task,
                core_memory=round(request.cpu_memory * memory),
                node_memory=round(request.node_memory * memory),
                gpus_per_node=request.gpus_per_node,
                gpu_type=request.gpu_type,
                features=request.features,
                exclusive=request.exclusive,
            )
        return found

    def shares(self, request: Request, placement: Placement, free: FreeNodes) -> tuple[NodeShare, ...]:
        """Return what a job takes of the nodes of its placement. O(its nodes * types of GPUs)."""
        on_node = self.request_on_nodes(request)
        return tuple(
            NodeShare(
                node,
                n_cpus,
                on_node.core_memory * n_cpus + on_node.node_memory,
                self._gpus(on_node, node, free) if on_node.gpus_per_node else (),
            )
            for node, n_cpus in zip(placement.nodes, placement.cpus, strict=True)
        )

    def _gpus(self, request: NodeRequest, node: int, free: FreeNodes) -> tuple[int, ...]:
        left, found = request.gpus_per_node, [0] * len(free.gpus)
        for kind in self.machine.kinds_of(request.gpu_type):
            found[kind] = min(left, free.gpus[kind][node])
            left -= found[kind]
        return tuple(found)

    def able(self, request: Request, allowed: int) -> int:
        """Return the allowed nodes with the cores, memory and features that a job asks for. GPUs do not count. O(1)."""
        found = self._able.get(request)
        if found is None:
            on_node = self.request_on_nodes(request)._replace(gpus_per_node=0, gpu_type="")
            found = self._able[request] = self.machine.able(on_node)
        return allowed & found

    def reset_weights(self, request: Request, allowed: int) -> None:  # noqa: ARG002
        """Forget what tests of jobs with GPUs have done to the weights of the nodes a job can use."""
        return

    @abstractmethod
    def choose(self, request: Request, allowed: int, free: FreeNodes) -> Placement | None:
        """Return where a job starts on allowed nodes; None if it does not fit."""

    @abstractmethod
    def will_run(self, record: Record, allowed: int, free: FreeNodes, running: Sequence[Held], now: int) -> Fit | None:
        """Return when and where a job fits that does not fit now, as running jobs end; None for never.

        `running` is in the order in which jobs end.
        """

    def fits_when_idle(self, request: Request, allowed: int) -> bool:
        """Return whether a job fits if all allowed nodes are idle."""
        return self.choose(request, allowed, self.idle) is not None


class Held(NamedTuple):
    """A running job with what it holds. They are sorted by end, then by their place in the list of jobs."""

    end_at: float
    place: int
    record: Record
    shares: tuple[NodeShare, ...]
    nodes: int


class LinearSelection(NodeSelection):
    """select/linear: whole nodes."""

    def _n_nodes(self, request: Request, allowed: int) -> int:
        """Return how many nodes a job needs: as many as asked, and enough for its CPUs."""
        nodes = self.machine.nodes
        least = min((nodes[node].n_cores for node in members(allowed)), default=1)
        return max(request.min_nodes, -(-request.n_cpus // least) if request.n_cpus > least * request.min_nodes else 0)

    def _idle(self, request: Request, allowed: int, free: FreeNodes) -> int:
        return self.able(request, allowed) & free.idle & ~free.closed

    def choose(self, request: Request, allowed: int, free: FreeNodes) -> Placement | None:
        """Return the best fit among runs of consecutive idle nodes. O(nodes)."""
        idle = self._idle(request, allowed, free)
        n = self._n_nodes(request, allowed)
        if idle.bit_count() < n or (request.max_nodes and n > request.max_nodes):
            return None
        usable = 0
        for group in self.machine.by_weight:  # nodes of low weight first
            usable |= idle & group
            if usable.bit_count() >= n:
                break
        taken: list[int] = []
        runs = [(len(run), run) for run in _runs(usable)]
        while len(taken) < n:
            left = n - len(taken)
            best = min((run for run in runs if run[0] >= left), key=_size, default=None) or max(runs, key=_size)
            taken += best[1][:left]
            runs.remove(best)
        taken.sort()
        return Placement(tuple(taken), tuple(self.machine.nodes[node].n_cores for node in taken))

    def will_run(self, record: Record, allowed: int, free: FreeNodes, running: Sequence[Held], now: int) -> Fit | None:
        """Remove running jobs one at a time, until the job fits. O(running + nodes)."""
        then, request = free.copy(), record.request
        n = self._n_nodes(request, allowed)
        able = self.able(request, allowed)
        for job in running:
            if job.end_at == math.inf:
                return None
            then.give(job.shares, exclusive=True)
            if (job.nodes & able) and (able & then.idle & ~then.closed).bit_count() >= n:
                found = self.choose(request, allowed, then)
                if found is not None:
                    return Fit(max(job.end_at, now + 1), found)
        return None


def _runs(nodes: int) -> Iterator[list[int]]:
    """Yield the runs of consecutive nodes of a set, in order."""
    run: list[int] = []
    for node in members(nodes):
        if run and node != run[-1] + 1:
            yield run
            run = []
        run.append(node)
    if run:
        yield run


def _size(run: tuple[int, list[int]]) -> int:
    return run[0]


class _Set(NamedTuple):
    """Consecutive nodes of equal weight with the CPUs that each offers."""

    weight: int
    n_cpus: int
    offers: list[tuple[int, int]]


class ConsTresSelection(NodeSelection):
    """select/cons_tres: nodes that are shared by CPUs, memory and GPUs."""

    def __init__(self, machine: Nodes, *, counts_memory: bool = True) -> None:
        super().__init__(machine, counts_memory=counts_memory)
        self._base = [(int(node.weight) << _WEIGHT_SHIFT) | _LOW for node in machine.nodes]
        self._weights = self._base.copy()
        self._lowered = 0  # nodes whose weight is not its base

    def reset_weights(self, request: Request, allowed: int) -> None:
        """Forget what tests of jobs with GPUs have done to the weights of the nodes a job can use. O(changed)."""
        if self._lowered:
            usable = self._lowered & self.able(request, allowed)
            for node in members(usable):
                self._weights[node] = self._base[node]
            self._lowered &= ~usable

    def _lower_weights(self, request: NodeRequest, usable: int) -> None:
        for node in members(usable):
            self._weights[node] = self._base[node] - request.gpus_per_node
        self._lowered |= usable

    # --- what nodes offer ---

    def _offers(self, request: Request, allowed: int, free: FreeNodes) -> list[tuple[int, int]]:
        """Return the nodes on which a part of a job fits, in order, with the CPUs that each offers. O(these nodes)."""
        on_node, memory = self.request_on_nodes(request), free.memory
        usable = free.candidates(on_node, allowed)
        needed = least = on_node.cores_per_node
        if request.max_nodes == 1 and not request.tasks_per_node:
            least = request.n_cpus
        if on_node.gpus_per_node:
            memory_needed = on_node.node_memory or on_node.core_memory * needed
            if memory_needed:
                usable = set_of([node for node in members(usable) if memory[node] >= memory_needed])
            self._lower_weights(on_node, usable)
        with_cpus = 0
        for nodes in free.by_cores[least:]:
            with_cpus |= nodes
        with_cpus &= usable
        if with_cpus.bit_count() < request.min_nodes:
            return []
        if on_node.gpus_per_node and request.tasks_per_node:
            return [(node, needed) for node, _ in self._offered(request, on_node, with_cpus, least, free)]
        return self._offered(request, on_node, with_cpus, least, free)

    def _offered(
        self, request: Request, on_node: NodeRequest, nodes: int, least: int, free: FreeNodes
    ) -> list[tuple[int, int]]:
        """Return the nodes with enough memory, and the CPUs that each offers: a number of tasks."""
        cores, memory, per_task, core_memory = free.cores, free.memory, request.cpus_per_task, on_node.core_memory
        memory_needed = on_node.node_memory or core_memory * on_node.cores_per_node
        if per_task == 1 and not memory_needed:
            return [(node, cores[node]) for node in members(nodes)]
        offers = [
            (node, int(min(cores[node], memory[node] // core_memory)) if core_memory else cores[node])
            for node in members(nodes)
            if memory[node] >= memory_needed
        ]
        if per_task > 1:
            offers = [(node, n_cpus - n_cpus % per_task) for node, n_cpus in offers]
        return [offer for offer in offers if offer[1] >= least] if core_memory or per_task > 1 else offers

    # --- the choice ---

    def choose(self, request: Request, allowed: int, free: FreeNodes) -> Placement | None:
        """Return nodes of low weight first, in consecutive sets. O(offering nodes), more only if CPUs are short."""
        offers = self._offers(request, allowed, free)
        taken = self._take(request, offers)
        if taken is None and offers:  # without the nodes that offer least, the permitted ones may be enough
            for least in sorted({n_cpus for _, n_cpus in offers})[:-1]:
                offers = [offer for offer in offers if offer[1] > least]
                if len(offers) < request.min_nodes:
                    break
                taken = self._take(request, offers)
                if taken is not None:
                    break
        return None if taken is None else self._placement(request, sorted(taken))

    def _take(self, request: Request, offers: Sequence[tuple[int, int]]) -> list[tuple[int, int]] | None:
        """Return nodes and the CPUs that each gives; None if they are not enough."""
        cpus_left, nodes_left = request.n_cpus, request.min_nodes
        if len(offers) < nodes_left or sum([n_cpus for _, n_cpus in offers]) < cpus_left:
            return None
        n_allowed = request.max_nodes or len(offers)
        least = max(request.tasks_per_node, 1) * request.cpus_per_task
        sets, taken = self._sets(offers), list[tuple[int, int]]()
        while sets and n_allowed:
            best = sets[0]
            for one in sets[1:]:
                if _is_better(one, best, cpus_left, nodes_left):
                    best = one
            sets.remove(best)
            usable = best.offers
            if nodes_left <= 1:
                single = min([offer for offer in usable if offer[1] >= cpus_left], key=_cpus, default=None)
                if single is not None:
                    usable = [single]
            for node, offered in usable:
                if n_allowed == 1 and offered < cpus_left:
                    continue
                given = max(min(offered, cpus_left - max(nodes_left - 1, 0)), least)
                taken.append((node, given))
                cpus_left -= given
                nodes_left -= 1
                n_allowed -= 1
                if (cpus_left <= 0 and nodes_left <= 0) or not n_allowed:
                    break
            if cpus_left <= 0 and nodes_left <= 0:
                return taken
        return None

    def _sets(self, offers: Iterable[tuple[int, int]]) -> list[_Set]:
        weights, found, part = self._weights, list[_Set](), list[tuple[int, int]]()
        follows, weight, total = -1, 0, 0
        for offer in offers:
            node, n_cpus = offer
            if node == follows and weights[node] == weight:
                part.append(offer)
                total += n_cpus
            else:
                if part:
                    found.append(_Set(weight, total, part))
                part, weight, total = [offer], weights[node], n_cpus
            follows = node + 1
        if part:
            found.append(_Set(weight, total, part))
        return found

    def _placement(self, request: Request, taken: Sequence[tuple[int, int]]) -> Placement:
        """Give each node one task, then one more in turn, up to what it gives."""
        nodes = tuple(node for node, _ in taken)
        if request.exclusive:
            return Placement(nodes, tuple(self.machine.nodes[node].n_cores for node in nodes))
        room = [given // request.cpus_per_task for _, given in taken]
        if sum(room) <= request.n_tasks:
            return Placement(nodes, tuple(n * request.cpus_per_task for n in room))
        tasks, left = [1] * len(room), request.n_tasks - len(room)
        while left > 0:
            for place, most in enumerate(room):
                if left > 0 and tasks[place] < most:
                    tasks[place] += 1
                    left -= 1
        return Placement(nodes, tuple(n * request.cpus_per_task for n in tasks))

    # --- when a job fits ---

    def will_run(self, record: Record, allowed: int, free: FreeNodes, running: Sequence[Held], now: int) -> Fit | None:
        """Remove running jobs in groups of ends, until the job fits. O(running + groups * nodes).

        A group is closed only by a job with nodes that the job may use, if the next job of all ends after the window.
        """
        request, then = record.request, free.copy()
        ends = running
        if running and running[-1].end_at == math.inf:
            ends = [job for job in running if job.end_at < math.inf]
        begin, window, i = 0, _WINDOW_S, 0
        while i < len(ends):
            last, n_removed = None, 0
            while i < len(ends):
                job = ends[i]
                i += 1
                if not job.nodes & allowed:
                    continue
                if not begin:
                    begin = int(job.end_at) + _WINDOW_S - int(job.end_at) % _WINDOW_S
                last, n_removed = job, n_removed + 1
                then.give(job.shares, exclusive=job.record.request.exclusive)
                if n_removed > _MOST_REMOVED or (i < len(ends) and ends[i].end_at > begin + window):
                    break
            if last is None:
                return None
            window *= 2
            while i < len(ends) and ends[i].end_at > begin + window:
                window *= 2
            found = self.choose(request, allowed, then)
            if found is not None:
                return Fit(last.end_at if last.end_at > now else max(last.end_at + _WINDOW_S, now + 1), found)
        return None


def _cpus(offer: tuple[int, int]) -> int:
    return offer[1]


def _is_better(one: _Set, best: _Set, cpus_left: int, nodes_left: int) -> bool:
    """Return whether a set is taken before the best one so far."""
    if one.weight != best.weight:
        return one.weight < best.weight
    suffices = one.n_cpus >= cpus_left and len(one.offers) >= nodes_left
    best_suffices = best.n_cpus >= cpus_left and len(best.offers) >= nodes_left
    if suffices:
        return not best_suffices or one.n_cpus < best.n_cpus
    return not best_suffices and one.n_cpus > best.n_cpus
