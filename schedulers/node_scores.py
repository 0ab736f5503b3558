"""Which node a job should go to: the scores of the locality study, and a plan in which jobs are placed one by one.

For a job of c cores with an input file, and a node: EAT is the earliest instant at which c of its cores are available,
by walltimes; LOAD the time that the job would then wait for its file; EVICT the time to load again what it would push
out, the other files whose last planned use is over by then, weighted by its share of the node's cores; COPIES the
number of other nodes that hold its file. The node with the least

    EAT + x2 * EVICT + (x1 + x3 * COPIES) * LOAD

is the best one, and of equal ones the first.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pybatsched_schedulers.input_files import Stay

if TYPE_CHECKING:
    from pybatsched.core.jobs import Job
    from pybatsched_schedulers.nodes import Node


class Weights(NamedTuple):
    """The multipliers of a score. `eager` nodes, where the job could start at once, are scored by EAT + LOAD (LEO)."""

    load: float = 0.0  # x1
    evict: float = 0.0  # x2
    copies: float = 0.0  # x3
    is_eager: bool = False


FCFS: Final = Weights()
EFT: Final = Weights(load=1.0)
LEA: Final = Weights(load=500.0, evict=1.0)
LEO: Final = LEA._replace(is_eager=True)


@dataclass(slots=True, eq=False)
class Waiter:
    """A waiting job as the planner sees it, and the place it has: a node and the instant of its start."""

    job: Job
    n_cores: int
    span_s: float
    file: str = ""
    size_gb: float = 0.0
    memory_class: float = math.inf
    history: tuple[int, float] | None = None  # the node on which it ran when the simulation begins, and since when
    node: Node | None = None
    at: float = math.inf

    def forget_place(self) -> None:
        """Wait without a place."""
        self.node, self.at = None, math.inf


class Offer(NamedTuple):
    """What a node offers: a score, and the instant from which its cores can be had. The least is the best."""

    score: float
    nth: int  # of the draft's nodes
    at: float


class Draft:
    """A plan for some nodes, made at one instant; jobs are put into it one by one.

    It knows the available times of all cores, and the stays of files that are known or planned. For each number of
    cores c that is asked for it keeps the c-th available times of all nodes in one list, so that finding the best node
    is a `min` and an `index`; only nodes that hold the job's file are looked at singly. O(nodes) for an offer, and
    O(cores + sizes asked for * files on the node) for a placement.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        now: float,
        *,
        persistent: bool = False,
        backfill: bool = False,
        crowded: bool = True,
        knows_files: bool = True,
    ) -> None:
        """`crowded` tells that files may not fit beside each other; without it nobody looks at the memory.

        Without `knows_files` jobs can only be placed by availability, which is faster.
        """
        self.nodes = nodes
        self.now = now
        self._persistent = persistent
        self._crowded = crowded
        speeds = {node.bandwidth for node in nodes}
        self._bandwidth = speeds.pop() if len(speeds) == 1 else None  # None: not the same for all
        self._cores = [node.times(now) for node in nodes]
        self.n_idle = sum(bisect_right(cores, now) for cores in self._cores)
        self._times: dict[int, list[float]] = {}
        self._worn: dict[int, list[float]] = {}  # EAT + x2 * EVICT, of nodes that do not hold the job's file
        self._evict_weight = 0.0
        self._holes: dict[int, list[float]] | None = {} if backfill else None
        self._stays: list[dict[str, list[Stay]]] = []
        self._sizes: dict[str, float] = {}
        self._holders: dict[str, set[int]] = {}
        self._knows_files = knows_files
        if knows_files:
            self._read_files()

    def _read_files(self) -> None:
        for index, node in enumerate(self.nodes):
            stays = {}
            for name, size_gb, stay in node.files.stays(self.now):
                stays[name] = [stay]
                self._sizes[name] = size_gb
                self._holders.setdefault(name, set()).add(index)
            self._stays.append(stays)

    # --- offers -----------------------------------------------------------------------------------------------

    def best(self, one: Waiter, weights: Weights, *, only_now: bool = False) -> Offer | None:
        """Find the node with the least score; with `only_now` among those where the job can start at once."""
        self._weigh(weights)
        if weights.copies or self._bandwidth is None:
            return self._best_of(range(len(self.nodes)), one, weights, None, only_now=only_now)
        best = None
        crowded: list[int] = []  # nodes whose cores are free earlier than their memory
        while True:
            plain = self._best_plain(one, weights, crowded, only_now=only_now)
            if plain is None or self._has_room(plain.nth, one, plain.at):
                break
            crowded.append(plain.nth)
        if plain is not None:
            best = plain
        if crowded:
            best = self._best_of(crowded, one, weights, best, only_now=only_now)
        # A node that holds the file scores no worse than it would without it, nor does one with a hole: `plain`, which
        # counts neither, can be too high for these, never too low.
        if self._holes:
            holes = [index for index in self._holes if self._has_hole(index, one)]
            best = self._best_of(holes, one, weights, best, only_now=only_now)
        if (weights.load or weights.evict) and one.file in self._holders:
            times, bound = self._times_of(one.n_cores), math.inf if best is None else best.score
            near = [index for index in self._holders[one.file] if times[index] <= bound]
            best = self._best_of(near, one, weights, best, only_now=only_now)
        return best

    def _best_of(
        self, indices: Iterable[int], one: Waiter, weights: Weights, best: Offer | None, *, only_now: bool
    ) -> Offer | None:
        """Look at some nodes singly, to beat the best so far."""
        for index in indices:
            at = self._earliest(index, one)
            if at == math.inf or (only_now and at > self.now) or (best is not None and at > best.score):
                continue  # no score is less than its EAT
            offer = Offer(self.score(index, one, at, weights), index, at)
            if best is None or offer < best:
                best = offer
        return best

    def offer(self, index: int, one: Waiter, weights: Weights) -> Offer | None:
        """Look at one node; None if it never has cores and memory enough."""
        return self._best_of((index,), one, weights, None, only_now=False)

    def score(self, index: int, one: Waiter, at: float, weights: Weights) -> float:
        """Give the score of a node for a job that could start there at an instant."""
        if weights.is_eager and at <= self.now:
            weights = EFT
        total = at + weights.evict * self.evict_s(index, one, at) if weights.evict else at
        if not weights.load and not weights.copies:
            return total
        copies = self._copies(index, one, at) if weights.copies else 0
        return total + (weights.load + weights.copies * copies) * self.load_s(index, one, at)

    def load_s(self, index: int, one: Waiter, at: float) -> float:
        """Give the time that a job would wait for its file if it started on a node at an instant (LOAD)."""
        least_s = self.nodes[index].load_s(one.size_gb)
        for stay in self._stays[index].get(one.file, ()):
            if self._covers(stay, at):
                least_s = min(least_s, max(round(stay.loaded - at, 6), 0.0))
        return least_s

    def evict_s(self, index: int, one: Waiter, at: float) -> float:
        """Give the time to load again what the job would push out: its share of what nobody needs any more (EVICT)."""
        node = self.nodes[index]
        idle_gb = sum(
            self._sizes[name] for name, stays in self._stays[index].items() if name != one.file and stays[-1].end <= at
        )
        return one.n_cores / node.n_cores * idle_gb / node.bandwidth if idle_gb and node.bandwidth else 0.0

    def _copies(self, index: int, one: Waiter, at: float) -> int:
        """Count the other nodes that hold a job's file at an instant (COPIES)."""
        return sum(
            other != index and any(self._covers(stay, at) for stay in self._stays[other][one.file])
            for other in self._holders.get(one.file, ())
        )

    def _covers(self, stay: Stay, at: float) -> bool:
        """Tell whether a file is on a node at an instant; a persistent node is expected to keep it."""
        return stay.begin <= at and (self._persistent or at <= stay.end)

    def _best_plain(self, one: Waiter, weights: Weights, but: Sequence[int], *, only_now: bool) -> Offer | None:
        """Find the best node by the rows, which know of no job's own file, leaving out some. O(nodes)."""
        times, load_s = self._times_of(one.n_cores), self.nodes[0].load_s(one.size_gb)
        row = self._worn_of(one.n_cores) if weights.evict else times
        if only_now:
            row = [score if at <= self.now else math.inf for score, at in zip(row, times, strict=True)]
        if but:
            row = row.copy()
            for index in but:
                row[index] = math.inf
        least = min(row)
        if least == math.inf:
            return None
        index = row.index(least)
        plain = Offer(least + weights.load * load_s, index, times[index])
        if weights.is_eager and (first := first_at(times, self.now, but)) is not None:
            return min(plain, Offer(self.now + load_s, first, self.now))
        return plain

    # --- when there are cores and memory enough ---------------------------------------------------------------

    def _earliest(self, index: int, one: Waiter) -> float:
        if self._holes and self._has_hole(index, one) and self._has_room(index, one, self.now):
            return self.now
        at = self._times_of(one.n_cores)[index]
        if at < math.inf and not self._has_room(index, one, at):
            for later in sorted({stay.end for stays in self._stays[index].values() for stay in stays}):
                if later > at and self._has_room(index, one, later):
                    return later
            return math.inf
        return at

    def _has_hole(self, index: int, one: Waiter) -> bool:
        """Tell whether the job can be over before cores that are idle now are needed for others."""
        assert self._holes is not None
        until = round(self.now + one.span_s, 6)
        holes, cores = self._holes.get(index, ()), self._cores[index]
        if not holes or holes[-1] < until or len(cores) < one.n_cores:
            return False
        n_idle = bisect_right(cores, self.now)
        return n_idle < one.n_cores <= n_idle + len(holes) - bisect_left(holes, until)

    def _has_room(self, index: int, one: Waiter, at: float) -> bool:
        """Tell whether the node's memory holds the file, beside all that are in use while the job runs."""
        if not self._crowded or not one.size_gb:
            return True
        left_gb, until = self.nodes[index].memory_gb - one.size_gb, at + one.span_s
        others = [
            (self._sizes[name], stay)
            for name, stays in self._stays[index].items()
            if name != one.file
            for stay in stays
            if stay.begin < until and stay.end > at
        ]
        moments = [at, *(stay.begin for _, stay in others if stay.begin > at)]
        return all(self._gb_at(index, one.file, moment) <= left_gb for moment in moments)

    def _gb_at(self, index: int, but: str, at: float) -> float:
        return sum(
            self._sizes[name]
            for name, stays in self._stays[index].items()
            if name != but and any(stay.begin <= at < stay.end for stay in stays)
        )

    # --- placing ----------------------------------------------------------------------------------------------

    def place(self, one: Waiter, offer: Offer) -> None:
        """Give a job the place it was offered: the cores that are available first, until its walltime ends."""
        _, index, at = offer
        until = round(at + one.span_s, 6)
        one.node, one.at = self.nodes[index], at
        if one.file and self._knows_files:
            load_s = self.load_s(index, one, at)
            self._sizes[one.file] = one.size_gb
            self._holders.setdefault(one.file, set()).add(index)
            self._note(self._stays[index].setdefault(one.file, []), Stay(at, round(at + load_s, 6), until))
        self._take(index, one.n_cores, at, until)
        self._renew(index)

    def _note(self, stays: list[Stay], stay: Stay) -> None:
        """Note a planned stay of a file; the last one of all tells when its last planned use ends."""
        insort(stays, stay, key=lambda known: known.end)

    def _take(self, index: int, n: int, at: float, until: float) -> None:
        cores = self._cores[index]
        n_idle = bisect_right(cores, self.now)
        if at <= self.now and n_idle < n:  # in a hole: the cores that are reserved soonest
            assert self._holes is not None
            holes = self._holes[index]
            first = bisect_left(holes, until)
            n_in_hole = min(n, len(holes) - first)
            del holes[first : first + n_in_hole]
            if not holes:
                del self._holes[index]
            n -= n_in_hole
        n_idle = min(n_idle, n)
        self.n_idle -= n_idle
        if at > self.now and n_idle and self._holes is not None:
            holes = self._holes.setdefault(index, [])
            place = bisect_left(holes, at)
            holes[place:place] = [at] * n_idle
        rest = cores[n:]
        place = bisect_left(rest, until)
        rest[place:place] = [until] * n
        self._cores[index] = rest

    @property
    def has_holes(self) -> bool:
        """Whether some cores are idle now and reserved for later."""
        return bool(self._holes)

    # --- rows -------------------------------------------------------------------------------------------------

    def _weigh(self, weights: Weights) -> None:
        if weights.evict and weights.evict != self._evict_weight:
            self._evict_weight = weights.evict
            self._worn.clear()

    def _times_of(self, n: int) -> list[float]:
        row = self._times.get(n)
        if row is None:
            row = self._times[n] = [cores[n - 1] if len(cores) >= n else math.inf for cores in self._cores]
        return row

    def _worn_of(self, n: int) -> list[float]:
        row = self._worn.get(n)
        if row is None:
            times = self._times_of(n)
            row = self._worn[n] = times.copy()
            for index, at in enumerate(times):
                idle_gb = 0.0
                for name, stays in self._stays[index].items():
                    if stays[-1].end <= at:
                        idle_gb += self._sizes[name]
                if idle_gb:
                    row[index] = self._worn_at(index, n, at, idle_gb)
        return row

    def _worn_at(self, index: int, n: int, at: float, idle_gb: float) -> float:
        """Give EAT + x2 * EVICT, where a job of n cores pushes out its share of files that nobody needs any more."""
        node = self.nodes[index]
        return at + self._evict_weight * (n / node.n_cores * idle_gb / node.bandwidth) if node.bandwidth else at

    def _renew(self, index: int) -> None:
        """Bring the rows up to date for a node that has changed."""
        cores = self._cores[index]
        n_cores = len(cores)
        for n, row in self._times.items():
            row[index] = cores[n - 1] if n <= n_cores else math.inf
        if not self._worn:
            return
        over = sorted((stays[-1].end, self._sizes[name]) for name, stays in self._stays[index].items())
        first_end = over[0][0] if over else math.inf
        for n, row in self._worn.items():
            row[index] = at = self._times[n][index]
            if first_end <= at < math.inf:
                idle_gb = sum(size_gb for end, size_gb in over if end <= at)
                row[index] = self._worn_at(index, n, at, idle_gb)


def first_at(times: list[float], now: float, but: Container[int] = ()) -> int | None:
    """Find the first node that is available now, leaving out some."""
    index = -1
    try:
        while True:
            index = times.index(now, index + 1)
            if index not in but:
                return index
    except ValueError:
        return None
