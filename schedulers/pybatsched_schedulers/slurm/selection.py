"""Which nodes a job gets: Slurm's select/linear and select/cons_tres.

Both test a job on a set of allowed nodes, given what is free on each. `will_run` also says when a job fits if running
jobs end at their time limits. A set of nodes is an integer, as in `pybatsched.FreeNodes`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple, Self

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
#: So many states of the machine are kept.
_MOST_STATES: Final = 200
#: Memory in the unit of `pybatsched.Nodes`: this many are one MB.
MB: Final = 1000


class Fit(NamedTuple):
    """When a job fits, where, and which running jobs would have to go before (now, and only then)."""

    start_at: float
    placement: Placement
    victims: tuple[Record, ...] = ()


class CountedNodes(FreeNodes):
    """What is free on each node, with sets by which the free CPUs of any nodes are counted in a few steps."""

    __slots__ = ("_at_least", "_digits")

    def __init__(self, machine: Nodes) -> None:
        super().__init__(machine)
        self.forget()

    def forget(self) -> None:
        """Count anew: the free CPUs have changed."""
        self._at_least: list[int] = []  # the nodes with at least 0, 1, ... free CPUs
        self._digits: list[int] = []  # the nodes with each binary digit in their number of free CPUs, the highest first

    def copy(self) -> Self:
        """Return an independent copy. O(nodes)."""
        made = super().copy()
        made.forget()
        return made

    def take(self, shares: Iterable[NodeShare], *, exclusive: bool = False) -> None:
        """Take what a job holds. O(its nodes)."""
        super().take(shares, exclusive=exclusive)
        self.forget()

    def give(self, shares: Iterable[NodeShare], *, exclusive: bool = False, with_cores: bool = True) -> None:
        """Give back what a job held. O(its nodes)."""
        super().give(shares, exclusive=exclusive, with_cores=with_cores)
        self.forget()

    def with_cores(self, n: int) -> int:
        """Return the nodes with at least `n` free CPUs. O(1), O(cores of a node) after a change."""
        if not self._at_least:
            self._at_least = list(accumulate(reversed(self.by_cores), or_))[::-1]
        return self._at_least[n] if n < len(self._at_least) else 0

    def n_cores(self, nodes: int) -> int:
        """Return the number of free CPUs of some nodes. O(log cores), O(cores of a node) after a change."""
        if not self._digits:
            n_digits = len(self.by_cores).bit_length()
            self._digits = [0] * n_digits
            for n, with_n in enumerate(self.by_cores):
                for i in range(n_digits if with_n else 0):
                    if n >> i & 1:
                        self._digits[-1 - i] |= with_n
        found = 0
        for digit in self._digits:
            found = 2 * found + (nodes & digit).bit_count()
        return found


class NodeSelection(ABC):
    """The choice of nodes on a machine."""

    def __init__(self, machine: Nodes, *, counts_memory: bool = True) -> None:
        self.machine = machine
        #: The machine with nothing in use. It never changes.
        self.idle = CountedNodes(machine)
        #: The nodes by their CPUs, the fewest first.
        self._by_size = [(n_cpus, nodes) for n_cpus, nodes in enumerate(self.idle.by_cores) if nodes]
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

    def shares(self, request: Request, placement: Placement, free: CountedNodes) -> tuple[NodeShare, ...]:
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

    def _gpus(self, request: NodeRequest, node: int, free: CountedNodes) -> tuple[int, ...]:
        left, found = request.gpus_per_node, [0] * len(free.gpus)
        for kind in self.machine.kinds_of(request.gpu_type):
            found[kind] = min(left, free.gpus[kind][node])
            left -= found[kind]
        return tuple(found)

    def able(self, request: Request, allowed: int) -> int:
        """Return the allowed nodes with the cores, memory, features and GPUs that a job asks for. O(1)."""
        found = self._able.get(request)
        if found is None:
            found = self._able[request] = self.machine.able(self._asked_of_able(request))
        return allowed & found

    def _asked_of_able(self, request: Request) -> NodeRequest:
        return self.request_on_nodes(request)

    def fewest_nodes(self, request: Request, allowed: int) -> int:
        """Return a number of nodes with less than which a job never fits. O(sizes of nodes).

        Jobs with GPUs are tested even if CPUs are too few: each test changes weights.
        """
        most = next((n_cpus for n_cpus, nodes in reversed(self._by_size) if nodes & allowed), 1)
        return request.min_nodes if request.gpus_per_node else max(request.min_nodes, -(-request.n_cpus // most))

    def reset_weights(self, request: Request, allowed: int) -> None:  # noqa: ARG002
        """Forget what tests of jobs with GPUs have done to the weights of the nodes a job can use."""
        return

    def depends_on_tests(self, request: Request, allowed: int) -> bool:  # noqa: ARG002
        """Return whether a test of a job changes later ones, or depends on earlier ones."""
        return False

    @abstractmethod
    def choose(self, request: Request, allowed: int, free: CountedNodes) -> Placement | None:
        """Return where a job starts on allowed nodes; None if it does not fit."""

    def may_fit(self, request: Request, allowed: int, releases: Releases, until: float) -> bool:
        """Return False only if a job cannot start until a time, as too few nodes are idle then. O(log running)."""
        idle = releases.idle[bisect_right(releases.ends, until)]
        return (idle & allowed).bit_count() >= self.fewest_nodes(request, allowed)

    def will_run(self, request: Request, allowed: int, releases: Releases, now: int) -> Fit | None:
        """Return when and where a job fits that does not fit now, as running jobs end; None for never.

        O(1) for a request and nodes that were asked for before, unless it depends on tests.
        """
        key = request, allowed
        if self.depends_on_tests(request, allowed):
            found = self._first_fit(request, allowed, releases)
        else:
            if key not in releases.found:
                releases.found[key] = self._first_fit(request, allowed, releases)
            found = releases.found[key]
        return None if found is None else Fit(self._start_at(found[0], now), found[1])

    @abstractmethod
    def _first_fit(self, request: Request, allowed: int, releases: Releases) -> tuple[float, Placement] | None:
        """Return after which end of a running job a job fits, and where; None for never."""

    @abstractmethod
    def _start_at(self, end_at: float, now: int) -> float:
        """Return when a job can start after an end, which may be overdue."""

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


class Releases:
    """What is free as running jobs end, one after the other. All waiting jobs of a pass share it."""

    def __init__(self, free: CountedNodes, running: Sequence[Held]) -> None:
        n_ending = bisect_left(running, math.inf, key=_end_of)
        #: The running jobs that end, in this order, and their ends.
        self.jobs = running if n_ending == len(running) else running[:n_ending]
        self.ends = [job.end_at for job in self.jobs]
        self._nodes = list(accumulate([job.nodes for job in self.jobs], or_))  # those of the first 1, 2, ... jobs
        self._free = free
        self._states = {0: free}
        self._idle: list[int] | None = None
        #: By requests and allowed nodes: after which end a job fits, and where.
        self.found: dict[tuple[Request, int], tuple[float, Placement] | None] = {}

    @property
    def idle(self) -> list[int]:
        """The idle nodes after the end of 0, 1, ... jobs."""
        if self._idle is None:
            idle, n_jobs = self._free.idle & ~self._free.closed, self._free.n_jobs.copy()
            self._idle = [idle]
            for job in self.jobs:
                for share in job.shares:
                    n_jobs[share.node] -= 1
                    if not n_jobs[share.node]:
                        idle |= 1 << share.node
                self._idle.append(idle)
        return self._idle

    def n_ended(self, n: int, nodes: int) -> int:
        """Return how many jobs end until `n` of some nodes are idle; more than all for never. O(log running)."""
        return bisect_left(self.idle, n, key=lambda idle: (idle & nodes).bit_count())

    def first(self, nodes: int) -> int:
        """Return which job is the first that ends on some nodes; the number of jobs for none. O(log running)."""
        return bisect_left(self._nodes, True, key=lambda theirs: bool(theirs & nodes))

    def after(self, n: int) -> CountedNodes:
        """Return what is free after the end of `n` jobs. O(1) if it was asked before, else O(nodes + ends between)."""
        found = self._states.get(n)
        if found is None:
            if len(self._states) == _MOST_STATES:
                self._states = {0: self._free}
            begin = max(i for i in self._states if i < n)
            found = self._states[n] = self._states[begin].copy()
            for job in self.jobs[begin:n]:
                found.give(job.shares, exclusive=job.record.request.exclusive)
        return found


def _end_of(job: Held) -> float:
    return job.end_at


class LinearSelection(NodeSelection):
    """select/linear: whole nodes."""

    def choose(self, request: Request, allowed: int, free: CountedNodes) -> Placement | None:
        """Return where a job starts on idle nodes, those of low weight first. O(nodes)."""
        return self._chosen(request, self.able(request, allowed) & free.idle & ~free.closed)

    def _chosen(self, request: Request, idle: int) -> Placement | None:
        usable = 0
        for group in self.machine.by_weight:
            if idle & group:
                usable |= idle & group
                taken = sorted(self._taken(request, usable))
                if taken:
                    return Placement(tuple(taken), tuple(self.machine.nodes[node].n_cores for node in taken))
        return None

    def _taken(self, request: Request, usable: int) -> list[int]:
        """Return the nodes that a job takes of some; none if they do not suffice.

        It takes the best fit among runs of consecutive nodes. If the smallest nodes have too few CPUs for it, it takes
        the largest ones, the last of equal ones first.
        """
        sizes = [(n_cpus, nodes & usable) for n_cpus, nodes in self._by_size if nodes & usable]
        least = sizes[0][0]
        n, most = max(request.min_nodes, 1), request.max_nodes or usable.bit_count()
        if len(sizes) > 1 and request.n_cpus > least * n:
            largest, n_cpus = list[int](), 0
            ordered = (node for _, nodes in reversed(sizes) for node in reversed(list(members(nodes))))
            for node in islice(ordered, most):
                largest.append(node)
                n_cpus += self.machine.nodes[node].n_cores
                if len(largest) >= n and n_cpus >= request.n_cpus:
                    return largest
            return []
        n = max(n, -(-request.n_cpus // least))
        if n > min(usable.bit_count(), most):
            return []
        size = len if len(sizes) == 1 else self._n_cpus_in
        taken, runs = list[int](), list(_runs(usable))
        while len(taken) < n:
            left = n - len(taken)
            best = min((run for run in runs if len(run) >= left), key=size, default=None) or max(runs, key=size)
            taken += best[:left]
            runs.remove(best)
        return taken

    def _n_cpus_in(self, run: range) -> int:
        return sum(self.machine.nodes[node].n_cores for node in run)

    def _first_fit(self, request: Request, allowed: int, releases: Releases) -> tuple[float, Placement] | None:
        """Remove running jobs one at a time, until a job fits.

        O(log running + nodes) if all nodes are equal, else O(nodes log running).
        """
        able = self.able(request, allowed)
        after = max(releases.n_ended(max(self.fewest_nodes(request, able), 1), able), 1)
        if after > len(releases.jobs):
            return None
        placement = self._chosen(request, releases.idle[after] & able)
        if placement is None:  # nodes differ, or have GPUs
            counts = range(len(releases.jobs) + 1)
            fits = bisect_left(counts, 1, after, key=lambda n: bool(self._chosen(request, releases.idle[n] & able)))
            if fits < len(counts):
                after, placement = fits, self._chosen(request, releases.idle[fits] & able)
        return None if placement is None else (releases.ends[after - 1], placement)

    def _start_at(self, end_at: float, now: int) -> float:
        return max(end_at, now + 1)


def _runs(nodes: int) -> Iterator[range]:
    """Yield the runs of consecutive nodes of a set, in order. O(runs)."""
    while nodes:
        lowest = nodes & -nodes
        start, rest = lowest.bit_length() - 1, nodes + lowest  # carried to the end of the run
        yield range(start, (rest & -rest).bit_length() - 1)
        nodes &= rest


class _Set(NamedTuple):
    """Consecutive nodes of equal weight with the CPUs that each offers."""

    weight: int
    n_cpus: int
    offers: list[tuple[int, int]]


class ConsTresSelection(NodeSelection):
    """select/cons_tres: nodes that are shared by CPUs, memory and GPUs. `able` does not count GPUs."""

    def __init__(self, machine: Nodes, *, counts_memory: bool = True) -> None:
        super().__init__(machine, counts_memory=counts_memory)
        self._base = [(int(node.weight) << _WEIGHT_SHIFT) | _LOW for node in machine.nodes]
        self._weights = self._base.copy()
        self._lowered = 0  # nodes whose weight is not its base

    def _asked_of_able(self, request: Request) -> NodeRequest:
        return self.request_on_nodes(request)._replace(gpus_per_node=0, gpu_type="")

    def reset_weights(self, request: Request, allowed: int) -> None:
        """Forget what tests of jobs with GPUs have done to the weights of the nodes a job can use. O(changed)."""
        if self._lowered:
            usable = self._lowered & self.able(request, allowed)
            for node in members(usable):
                self._weights[node] = self._base[node]
            self._lowered &= ~usable

    def depends_on_tests(self, request: Request, allowed: int) -> bool:
        """Return whether a test changes weights, as with GPUs, or sees weights that others have changed. O(1)."""
        return bool(request.gpus_per_node or self._lowered & allowed)

    def _lower_weights(self, request: NodeRequest, usable: int) -> None:
        for node in members(usable):
            self._weights[node] = self._base[node] - request.gpus_per_node
        self._lowered |= usable

    # --- what nodes offer ---

    def _offers(self, request: Request, allowed: int, free: CountedNodes) -> list[tuple[int, int]]:
        """Return the nodes on which a part of a job fits, in order, with the CPUs that each offers. O(these nodes)."""
        on_node, memory = self.request_on_nodes(request), free.memory
        usable = free.candidates(on_node, allowed)
        needed, least = on_node.cores_per_node, _least_on_node(request)
        if on_node.gpus_per_node:
            memory_needed = on_node.node_memory or on_node.core_memory * needed
            if memory_needed:
                usable = set_of([node for node in members(usable) if memory[node] >= memory_needed])
            self._lower_weights(on_node, usable)
        with_cpus = self._with_cpus(request, usable, least, free)
        if not with_cpus:
            return []
        if on_node.gpus_per_node and request.tasks_per_node:
            return [(node, needed) for node, _ in self._offered(request, on_node, with_cpus, least, free)]
        return self._offered(request, on_node, with_cpus, least, free)

    def _with_cpus(self, request: Request, usable: int, least: int, free: CountedNodes) -> int:
        """Return the nodes with so many free CPUs; 0 if these are too few for a job, or their CPUs."""
        with_cpus = usable & free.with_cores(least)
        is_enough = with_cpus.bit_count() >= request.min_nodes and free.n_cores(with_cpus) >= request.n_cpus
        return with_cpus if is_enough else 0

    def may_fit(self, request: Request, allowed: int, releases: Releases, until: float) -> bool:
        """Return False only if a job cannot start until a time, as nodes or CPUs are too few then."""
        if request.exclusive:
            return super().may_fit(request, allowed, releases, until)
        free = releases.after(bisect_right(releases.ends, until))
        return bool(self._with_cpus(request, allowed & ~free.closed, _least_on_node(request), free))

    def _offered(
        self, request: Request, on_node: NodeRequest, nodes: int, least: int, free: CountedNodes
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

    def choose(self, request: Request, allowed: int, free: CountedNodes) -> Placement | None:
        """Return nodes of low weight first, in consecutive sets. O(offering nodes), more only if CPUs are short."""
        offers = self._offers(request, allowed, free)
        if not offers:
            return None
        taken = self._take(request, offers)
        if taken is None and sum([n_cpus for _, n_cpus in offers]) >= request.n_cpus:
            # without the nodes that offer least, the permitted ones may be enough
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

    def _first_fit(self, request: Request, allowed: int, releases: Releases) -> tuple[float, Placement] | None:
        """Remove running jobs in groups of ends, until the job fits. O(groups * nodes), usually.

        A group is closed only by a job with nodes that the job may use, if the next job of all ends after the window.
        """
        jobs, ends = releases.jobs, releases.ends
        n_ended = releases.first(allowed)
        if n_ended == len(jobs):
            return None
        n_at_least = 0
        if request.exclusive and not request.gpus_per_node:
            able = self.able(request, allowed)
            n_at_least = releases.n_ended(self.fewest_nodes(request, able), able)
        begin, window = int(ends[n_ended]) + _WINDOW_S - int(ends[n_ended]) % _WINDOW_S, _WINDOW_S
        while n_ended < len(jobs):
            first, n_ended = n_ended, _end_of_group(releases, n_ended, begin + window, allowed)
            group = range(n_ended - 1, first - 1, -1)
            last = next((jobs[i] for i in group if jobs[i].nodes & allowed), None)
            if last is None:
                return None
            window *= 2
            while n_ended < len(ends) and ends[n_ended] > begin + window:
                window *= 2
            if n_ended >= n_at_least:
                found = self.choose(request, allowed, releases.after(n_ended))
                if found is not None:
                    return last.end_at, found
        return None

    def _start_at(self, end_at: float, now: int) -> float:
        return end_at if end_at > now else max(end_at + _WINDOW_S, now + 1)


def _end_of_group(releases: Releases, first: int, until: float, allowed: int) -> int:
    """Return the number of jobs that have ended with the group that begins at `first`. O(jobs passed over)."""
    jobs = releases.jobs
    n_ended = max(bisect_right(releases.ends, until, lo=first), first + 1)
    if n_ended - first > _MOST_REMOVED:
        touching = (i for i in range(first, n_ended) if jobs[i].nodes & allowed)
        n_ended = next(islice(touching, _MOST_REMOVED, None), n_ended - 1) + 1
    while n_ended < len(jobs) and not jobs[n_ended - 1].nodes & allowed:
        n_ended += 1
    return n_ended


def _least_on_node(request: Request) -> int:
    """Return how many CPUs each node of a job must have: those of all tasks if it runs on one node."""
    if request.max_nodes == 1 and not request.tasks_per_node:
        return request.n_cpus
    return max(request.tasks_per_node, 1) * request.cpus_per_task


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
