"""What is free on nodes over time, if running and planned jobs keep their times."""

from __future__ import annotations

import math
from bisect import insort
from typing import TYPE_CHECKING, Final, NamedTuple

from sortedcontainers import SortedList

from pybatsched.core.instants import TICK, instant
from pybatsched.core.nodes import FreeNodes, members, set_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pybatsched.core.node_requests import NodeRequest
    from pybatsched.core.nodes import NodePart, Nodes, NodeShare


#: The time and the node of a step that does not come.
_NEVER: Final[tuple[float, int | None]] = math.inf, None


class NodeStep(NamedTuple):
    """A change on one node: a job gives back its share (`order` 0), or takes it (1, after all that is given back)."""

    at: float
    order: int
    number: int
    share: NodeShare
    is_exclusive: bool


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

    def end(self, at: float, shares: Iterable[NodeShare], *, exclusive: bool) -> list[NodeStep]:
        """Add the expected end of a running job. Return its steps, for `drop_end`. O(its nodes * log S)."""
        return [] if at == math.inf else [self._add(at, 0, share, exclusive) for share in shares]

    def drop_end(self, steps: Iterable[NodeStep]) -> None:
        """Remove steps: the job has ended. O(its nodes * (log S + s))."""
        for step in steps:
            self._of_node[step.share.node].remove(step)
            (self._takes if step.order else self._gives).remove((step.at, step.share.node))

    def book(self, booking: NodeBooking) -> list[NodeStep]:
        """Add a planned job. Return its steps, for `drop_end`. O(its nodes * log S)."""
        if booking.start_at == math.inf:
            return []
        steps = [self._add(booking.start_at, 1, share, booking.is_exclusive) for share in booking.shares]
        return steps + self.end(booking.end_at, booking.shares, exclusive=booking.is_exclusive)

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
        before: float = math.inf,
    ) -> NodeBooking | None:
        """Return the earliest place of a job from now on; None if there is none that begins earlier than `before`.

        The nodes have what the job requests during its whole span. O(S * s) at worst, and O(nodes) at least.
        """
        if now >= before:
            return None
        able = self._nodes.able(request) & self._among
        window = self._window(now, span_s, able)
        parts = window.fit(request, n, placement, among=able)
        if parts is not None:
            return self._booking(request, parts, window, now, span_s)
        for at, nodes in self._starts(now, span_s):
            if at >= before:
                return None
            changed = nodes & able
            if changed:
                for node in members(changed):
                    self._set_least(window, node, now, at, instant(at, span_s))
                parts = window.fit(request, n, placement, among=able)
                if parts is not None:
                    return self._booking(request, parts, window, at, span_s)
        return None

    def _booking(
        self, request: NodeRequest, parts: list[NodePart], window: FreeNodes, at: float, span_s: float
    ) -> NodeBooking:
        shares = self._nodes.shares_of(request, parts, window)
        return NodeBooking(at, instant(at, span_s), tuple(parts), shares, request.exclusive)

    def _starts(self, now: float, span_s: float) -> Iterator[tuple[float, int]]:
        """Yield the times after now at which shares are given back, with the nodes whose window has changed since.

        A window changes where a share is given back by its start, and where one is taken before its end.
        """
        gives, takes, soon = self._gives, self._takes, round(now + TICK, 6)
        head, tail = gives.bisect_left((soon, -1)), takes.bisect_left((instant(now, span_s), -1))
        changed = set_of(node for _, node in gives.islice(0, head))  # of jobs past their expected end
        following = gives.islice(head)
        at, node = (soon, None) if changed else next(following, _NEVER)
        while at < math.inf:
            if node is not None:
                changed |= 1 << node
            next_at, node = next(following, _NEVER)
            if next_at == at:
                continue
            end_at = instant(at, span_s)
            while tail < len(takes) and takes[tail][0] < end_at:
                changed |= 1 << takes[tail][1]
                tail += 1
            yield at, changed
            changed, at = 0, next_at

    def _window(self, now: float, span_s: float, able: int) -> FreeNodes:
        """Return what is free on nodes during a whole span from now on. O(nodes), and O(s) where jobs are planned."""
        free, end_at = self._nodes.free.copy(), instant(now, span_s)
        planned = set_of(node for _, node in self._takes.irange(None, (end_at, -1), (True, False)))
        for node in members(planned & able):
            self._set_least(free, node, now, now, end_at)
        return free

    def _set_least(self, free: FreeNodes, node: int, now: float, start_at: float, end_at: float) -> None:
        """Set what is free on a node to the least during a span. O(s)."""
        live, soon = self._nodes.free, round(now + TICK, 6)
        cores, memory, n_jobs = live.cores[node], live.memory[node], live.n_jobs[node]
        gpus, n_closed = [kind[node] for kind in live.gpus], live.closed >> node & 1
        least_cores, least_memory, least_gpus, most_jobs, most_closed = cores, memory, gpus.copy(), n_jobs, n_closed
        for at, order, _, share, is_exclusive in self._of_node[node]:
            if (at if at > now or order else soon) >= end_at:
                break
            sign = 1 - 2 * order
            cores += sign * share.n_cores
            memory += sign * share.memory
            n_jobs -= sign
            n_closed -= sign * is_exclusive
            for kind, n in enumerate(share.gpus):
                gpus[kind] += sign * n
            if (at if at > now or order else soon) <= start_at:
                least_cores, least_memory, least_gpus = cores, memory, gpus.copy()
                most_jobs, most_closed = n_jobs, n_closed
            elif order:
                least_cores, least_memory = min(least_cores, cores), min(least_memory, memory)
                least_gpus = [min(pair) for pair in zip(least_gpus, gpus, strict=True)]
                most_jobs, most_closed = max(most_jobs, n_jobs), max(most_closed, n_closed)
        free.set_node(
            node,
            max(least_cores, 0),  # it is less if a job does not end before a reservation
            least_memory,
            [max(n, 0) for n in least_gpus],
            is_idle=not most_jobs,
            is_closed=bool(most_closed),
        )
