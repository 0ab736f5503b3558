"""What is free on nodes over time, if running and planned jobs keep their times."""

from __future__ import annotations

import itertools
import math
from bisect import insort
from typing import TYPE_CHECKING, Final, NamedTuple

from sortedcontainers import SortedList

from pybatsched.core.instants import TICK, instant
from pybatsched.core.nodes import FreeNodes, NodeShare, members, set_of
from pybatsched.policies.availability import AvailabilityProfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pybatsched.core.node_requests import NodeRequest
    from pybatsched.core.nodes import NodePart, Nodes


#: The time and the node of a step that does not come.
_NEVER: Final[tuple[float, int | None]] = math.inf, None


class NodeStep(NamedTuple):
    """A change on one node: a job gives back its share (`order` 0), or takes it (1, after all that is given back)."""

    at: float
    order: int
    number: int
    share: NodeShare
    is_exclusive: bool


#: After all steps of a node.
_LAST: Final = NodeStep(math.inf, 1, 0, NodeShare(0, 0, 0, ()), is_exclusive=False)


class NodeBooking(NamedTuple):
    """The planned start and end of a job, its nodes, and what it holds there. An infinite start is never."""

    start_at: float
    end_at: float = math.inf
    parts: tuple[NodePart, ...] = ()
    shares: tuple[NodeShare, ...] = ()
    is_exclusive: bool = False


class NodeProfile:
    """Free cores, memory and GPUs of all nodes over time.

    It starts with what is free on the nodes now (`nodes.free`, which the engine keeps up to date). `end` adds the
    expected end of a running job, `book` a planned job; `drop_end` and `drop` remove them. S is the number of changes
    on all nodes, s that on one node.
    """

    def __init__(self, nodes: Nodes, among: int) -> None:
        self._nodes = nodes
        self._among = among
        # Time and node of each step, by its kind.
        self._gives: SortedList[tuple[float, int]] = SortedList()
        self._takes: SortedList[tuple[float, int]] = SortedList()
        self._of_node: list[list[NodeStep]] = [[] for _ in nodes.nodes]
        self._n_steps = 0
        # The free cores of all nodes over time: made when they are needed, and kept up to date then.
        self._cores: AvailabilityProfile | None = None
        self._is_overbooked = False  # reservations may overlap running jobs, whose cores would count twice

    def end(self, at: float, shares: Iterable[NodeShare], *, exclusive: bool) -> list[NodeStep]:
        """Add the expected end of a running job. Return its steps, for `drop_end`. O(its nodes * log S)."""
        shares = tuple(shares)
        if self._cores is not None:
            self._cores.take(sum(share.n_cores for share in shares), 0.0, at)
        return self._gives_at(at, shares, is_exclusive=exclusive)

    def _gives_at(self, at: float, shares: Iterable[NodeShare], *, is_exclusive: bool) -> list[NodeStep]:
        return [] if at == math.inf else [self._add(at, 0, share, is_exclusive) for share in shares]

    def drop_end(self, steps: Iterable[NodeStep]) -> None:
        """Remove steps: the job has ended. O(its nodes * (log S + s))."""
        n_given, n_taken, start_at, end_at = 0, 0, 0.0, math.inf
        for step in steps:
            self._of_node[step.share.node].remove(step)
            (self._takes if step.order else self._gives).remove((step.at, step.share.node))
            if step.order:
                start_at = step.at
                n_taken += step.share.n_cores
            else:
                end_at = step.at
                n_given += step.share.n_cores
        if self._cores is not None:
            self._cores.give(n_taken or n_given, start_at, end_at)

    def book(self, booking: NodeBooking) -> list[NodeStep]:
        """Add a planned job. Return its steps, for `drop_end`. O(its nodes * log S)."""
        if booking.start_at == math.inf:
            return []
        self._is_overbooked |= not booking.parts  # a reservation of hosts
        steps = [self._add(booking.start_at, 1, share, booking.is_exclusive) for share in booking.shares]
        if self._cores is not None:
            self._cores.take(sum(share.n_cores for share in booking.shares), booking.start_at, booking.end_at)
        return steps + self._gives_at(booking.end_at, booking.shares, is_exclusive=booking.is_exclusive)

    def _add(self, at: float, order: int, share: NodeShare, is_exclusive: bool) -> NodeStep:
        self._n_steps += 1
        step = NodeStep(at, order, self._n_steps, share, is_exclusive)
        insort(self._of_node[share.node], step)
        (self._takes if order else self._gives).add((at, share.node))
        return step

    def earliest(
        self,
        request: NodeRequest,
        n: int,
        span_s: float,
        now: float,
        *,
        placement: str = "best",
        among: int = -1,
        before: float = math.inf,
        not_before: float = -math.inf,
    ) -> NodeBooking | None:
        """Return the earliest place of a job from now on; None if there is none that begins earlier than `before`.

        The nodes have what the job requests during its whole span. The caller knows that there is no place before
        `not_before`, which is a time at which something is given back. Times at which all nodes together have too few
        free cores are skipped. O(S * s) at worst, and O(nodes) at least.
        """
        if now >= before:
            return None
        able = self._nodes.able(request) & self._among & among
        is_on_one = request.is_on_one(n)
        is_tied = is_on_one or request.cores_per_node or request.exclusive or request.gpus_per_node
        cores = (
            None if is_tied or self._is_overbooked else self._cores_from(now)
        )  # cores alone are rarely short for other jobs
        at = enough_at = max(now, not_before)
        if cores is not None:
            n_more = max(sum(self._nodes.free.cores) - cores.free_at(now), 0)  # given back before their time
            n_least = max(n - n_more, 0)
            at = enough_at = cores.earliest(n_least, span_s, at)
        if at >= before:
            return None
        window = self._window(now, at, span_s, able)
        parts = window.fit(request, n, placement, among=able)
        if parts is not None:
            return self._booking(request, parts, window, at, span_s)
        changed = 0
        for at, nodes in self._starts(now, enough_at, span_s):
            if at >= before or enough_at >= before:
                return None
            changed |= nodes & able
            if not changed or at < enough_at:
                continue
            if cores is not None:
                enough_at = cores.earliest(n_least, span_s, at)
                if at < enough_at:
                    continue
            for node in members(changed):
                self._set_least(window, node, now, at, instant(at, span_s))
            # A job on one node still does not fit on the others.
            parts = window.fit(request, n, placement, among=changed if is_on_one else able)
            if parts is not None:
                return self._booking(request, parts, window, at, span_s)
            changed = 0
        return None

    def first_use(self, request: NodeRequest, n: int, span_s: float, now: float, *, among: int, before: float) -> float:
        """Return the first time, now or when something is given back, from which a job could use one of some nodes.

        The whole job if it runs on one node, else as many cores as
        it needs there at least. Infinity if there is no such time earlier than `before`. O(s) for each of these nodes.
        """
        found_at = before
        for one in request.in_partitions():
            n_cores = n if one.is_on_one(n) else one.cores_per_node or 1
            for node in members(among & self._among & self._nodes.able(one)):
                found_at = min(found_at, self._first_on(node, one, n_cores, span_s, now))
        return math.inf if found_at == before else found_at

    def _first_on(self, node: int, request: NodeRequest, n_cores: int, span_s: float, now: float) -> float:
        """Return the first time from which one node has some cores for a job during a span. O(s)."""
        live, soon, kinds = self._nodes.free, round(now + TICK, 6), self._nodes.kinds_of(request.gpu_type)
        cores, memory, n_jobs = live.cores[node], live.memory[node], live.n_jobs[node]
        n_closed, n_gpus = live.closed >> node & 1, sum(live.gpus[kind][node] for kind in kinds)
        needed, n_gpus_needed = max(request.node_memory, request.core_memory * n_cores), request.gpus_per_node
        last_at, begin_at, end_at = now, math.inf, math.inf
        for at, order, _, (_, n, gb, some), is_exclusive in itertools.chain(self._of_node[node], (_LAST,)):
            if at <= now and not order:
                at = soon  # noqa: PLW2901
            if at > last_at:
                if at > end_at:
                    return begin_at
                is_enough = cores >= n_cores and memory >= needed and n_gpus >= n_gpus_needed and not n_closed
                if not is_enough or (n_jobs and request.exclusive):
                    begin_at = end_at = math.inf
                elif begin_at == math.inf:
                    begin_at, end_at = last_at, instant(last_at, span_s)
                last_at = at
            sign = 1 - 2 * order
            cores += sign * n
            memory += sign * gb
            n_jobs -= sign
            n_closed -= sign * is_exclusive
            if some:
                n_gpus += sign * sum([some[kind] for kind in kinds])
        return begin_at

    def _cores_from(self, now: float) -> AvailabilityProfile:
        """Return the free cores of all nodes over time. Jobs past their expected end have ended. O(S log S) once."""
        if self._cores is not None:
            self._cores.advance(now)
            return self._cores
        steps = [(step.share.n_cores, step.at, step.order) for steps in self._of_node for step in steps]
        n_given = sum(n for n, _, is_taken in steps if not is_taken)
        made = AvailabilityProfile(now, sum(self._nodes.free.cores) + n_given)
        made.take_all([(n, at, math.inf) if is_taken else (n, now, at) for n, at, is_taken in steps])
        self._cores = made
        return made

    def _booking(
        self, request: NodeRequest, parts: list[NodePart], window: FreeNodes, at: float, span_s: float
    ) -> NodeBooking:
        shares = self._nodes.shares_of(request, parts, window)
        return NodeBooking(at, instant(at, span_s), tuple(parts), shares, request.exclusive)

    def _starts(self, now: float, start_at: float, span_s: float) -> Iterator[tuple[float, int]]:
        """Yield the times after a start at which shares are given back, with the nodes whose window has changed since.

        A window changes where a share is given back by its start, and where one is taken before its end.
        """
        gives, takes, soon = self._gives, self._takes, round(now + TICK, 6)
        changed, head = 0, gives.bisect_left((max(start_at, soon), len(self._of_node)))
        if start_at < soon:
            head = gives.bisect_left((soon, -1))
            changed = set_of(node for _, node in gives.islice(0, head))  # of jobs past their expected end
        later = takes.islice(takes.bisect_left((instant(start_at, span_s), -1)))
        take_at, taken = next(later, _NEVER)
        following = gives.islice(head)
        at, node = (soon, None) if changed else next(following, _NEVER)
        while at < math.inf:
            if node is not None:
                changed |= 1 << node
            next_at, node = next(following, _NEVER)
            if next_at == at:
                continue
            end_at = instant(at, span_s)
            while take_at < end_at:
                assert taken is not None
                changed |= 1 << taken
                take_at, taken = next(later, _NEVER)
            yield at, changed
            changed, at = 0, next_at

    def _window(self, now: float, start_at: float, span_s: float, able: int) -> FreeNodes:
        """Return what is free on nodes during a whole span. O(nodes), and O(s) where there is a step before its end."""
        free, end_at = self._nodes.free.copy(), instant(start_at, span_s)
        changed = set_of(node for _, node in self._takes.irange(None, (end_at, -1), (True, False)))
        if start_at > now:
            changed |= set_of(node for _, node in self._gives.irange(None, (start_at, len(self._of_node))))
        for node in members(changed & able):
            self._set_least(free, node, now, start_at, end_at)
        return free

    def _set_least(self, free: FreeNodes, node: int, now: float, start_at: float, end_at: float) -> None:
        """Set what is free on a node to the least during a span. O(s)."""
        live, soon = self._nodes.free, round(now + TICK, 6)
        cores, memory, n_jobs = live.cores[node], live.memory[node], live.n_jobs[node]
        gpus, n_closed = [kind[node] for kind in live.gpus], live.closed >> node & 1
        least: tuple[int, float, list[int], int, int] | None = None
        for at, order, _, (_, n, gb, some), is_exclusive in self._of_node[node]:
            if at <= now and not order:
                at = soon  # noqa: PLW2901
            if at >= end_at:
                break
            if at > start_at and least is None:
                least = cores, memory, gpus, n_jobs, n_closed
            sign = 1 - 2 * order
            cores += sign * n
            memory += sign * gb
            n_jobs -= sign
            n_closed -= sign * is_exclusive
            if some:
                gpus = [one + sign * k for one, k in zip(gpus, some, strict=True)]
            if order and least is not None:
                cores_1, memory_1, gpus_1, n_jobs_1, n_closed_1 = least
                least = (
                    cores if cores < cores_1 else cores_1,  # noqa: FURB136  quicker than min
                    memory if memory < memory_1 else memory_1,  # noqa: FURB136
                    list(map(min, gpus, gpus_1)) if some else gpus_1,
                    n_jobs if n_jobs > n_jobs_1 else n_jobs_1,  # noqa: FURB136
                    n_closed if n_closed > n_closed_1 else n_closed_1,  # noqa: FURB136
                )
        cores, memory, gpus, n_jobs, n_closed = least or (cores, memory, gpus, n_jobs, n_closed)
        if cores < 0 or (gpus and min(gpus) < 0):  # a job does not end before a reservation
            cores, gpus = max(cores, 0), [max(n, 0) for n in gpus]
        free.set_node(node, cores, memory, gpus, is_idle=not n_jobs, is_closed=bool(n_closed))
