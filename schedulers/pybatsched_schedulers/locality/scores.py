"""The scores of the locality study, and a draft plan in which jobs are placed one by one.

A score is for a job of c cores with an input file, and a node:

* EAT is the earliest time at which c cores of the node are available, by walltimes.
* LOAD is the time that the job would then wait for its file.
* EVICT is the time to reload the files that the job would evict (other files whose last planned use has ended by then),
  weighted by its share of the node's cores.
* COPIES is the number of other nodes with its file.

The best node is the one with the smallest

    EAT + x2 * EVICT + (x1 + x3 * COPIES) * LOAD

and the first one for ties.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pybatsched_schedulers.locality.input_files import FileStay, fit_together
from pybatsched_schedulers.locality.node_index import ALWAYS, NodeValues, nth_time
from pybatsched_schedulers.locality.options import EFT, Weights

if TYPE_CHECKING:
    from pybatsched import Job
    from pybatsched_schedulers.locality.node_index import NodeIndex, UnusedFiles
    from pybatsched_schedulers.locality.nodes import FileNode


@dataclass(slots=True, eq=False)
class WaitingJob:
    """A waiting job of the planner, and its reservation: a node and a start time."""

    job: Job
    n_cores: int
    span_s: float
    file: str = ""
    size_gb: float = 0.0
    memory_class: float = math.inf
    history: tuple[int, float] | None = None  # the node on which it ran at the start of the simulation, and since when
    node: FileNode | None = None
    at: float = math.inf
    goes_on: bool = False  # it has this reservation because it ran there before

    def forget_place(self) -> None:
        """Drop the reservation."""
        self.node, self.at, self.goes_on = None, math.inf, False


class Offer(NamedTuple):
    """The offer of a node: a score, and the time from which its cores are available. The smallest is the best."""

    score: float
    nth: int  # of the draft's nodes
    at: float


class Draft:
    """A plan on top of a `NodeIndex`, made at one instant; jobs are put into it one by one.

    For nodes without a job's file the minimum of a row is the best one; only nodes with the file are checked one by
    one. O(log nodes + nodes with the file) for an offer, and O(cores + requested sizes * files on the node) for a
    placement.
    """

    def __init__(
        self,
        node_index: NodeIndex,
        now: float,
        *,
        persistent: bool = False,
        backfill: bool = False,
        crowded: bool = True,
    ) -> None:
        """Prepare a plan. With `crowded`, files may not fit beside each other, so memory is checked."""
        self.now = now
        self.nodes = node_index.nodes
        self._node_index = node_index
        self.peers: Sequence[Draft] = (self,)  # the drafts for all nodes of the machine, including this one
        self._persistent = persistent
        self._crowded = crowded
        self.cores = node_index.cores.copy()
        self._stays = node_index.stays.copy()  # copied for a node when it changes
        self._planned: dict[str, set[int]] = {}  # nodes on which files will be loaded
        self._changed: set[int] = set()  # nodes that are no longer as the board has them
        self._times: dict[int, NodeValues] = {}
        self._evicting: dict[int, NodeValues] = {}
        self._unused: dict[int, UnusedFiles] = {}
        self._evict_weight = 0.0
        self._holes: dict[int, list[float]] | None = {} if backfill else None
        self.n_idle = sum(bisect_right(cores, now) for cores in self.cores)

    def best(self, one: WaitingJob, weights: Weights, *, only_now: bool = False) -> Offer | None:
        """Return the node with the smallest score; with `only_now` among those with an immediate start."""
        if weights.copies or not self._node_index.has_one_bandwidth:
            return self._best_of(self._everywhere(), one, weights, None, only_now=only_now)
        best = self._best_by_rows(one, weights, only_now=only_now)
        # Nodes with the file, or with a hole, may have a smaller score than in the rows, which ignore both, but never a
        # larger one.
        if self._holes:
            holes = [(ALWAYS, index) for index in self._holes if self._has_hole(index, one)]
            best = self._best_of(holes, one, weights, best, only_now=only_now)
        if weights.load or weights.evict:
            times = self._times_of(one.n_cores).values
            soonest_first = sorted([(times[index], index) for index in self._holders(one.file)])
            best = self._best_of(soonest_first, one, weights, best, only_now=only_now)
        return best

    def offer(self, index: int, one: WaitingJob, weights: Weights) -> Offer | None:
        """Return the offer of one node; None if it never has enough cores and memory."""
        return self._best_of(((ALWAYS, index),), one, weights, None, only_now=False)

    def _best_of(
        self,
        candidates: Iterable[tuple[float, int]],
        one: WaitingJob,
        weights: Weights,
        best: Offer | None,
        *,
        only_now: bool,
    ) -> Offer | None:
        """Return the best of an offer and some nodes, each with a lower bound of its available time."""
        for soonest, index in candidates:
            if best is not None and soonest > best.score:
                break  # no score is less than its EAT, and the next nodes are available later
            at = self._earliest(index, one)
            if at == math.inf or (only_now and at > self.now):
                continue
            offer = Offer(self.score(index, one, at, weights), index, at)
            if best is None or offer < best:
                best = offer
        return best

    def _everywhere(self) -> list[tuple[float, int]]:
        return [(ALWAYS, index) for index in range(len(self.nodes))]

    def _best_by_rows(self, one: WaitingJob, weights: Weights, *, only_now: bool) -> Offer | None:
        """Return the best node by the rows, which ignore the job's own file."""
        now, times, load_s = self.now, self._times_of(one.n_cores), self.nodes[0].load_s(one.size_gb)
        if only_now and times.least()[0] > now:
            return None
        scores = self._evicting_of(one.n_cores, weights.evict) if weights.evict else times
        least, index = scores.least()
        if least == math.inf:
            return None
        at = max(times.values[index], now)
        best = Offer(max(least, now) + weights.load * load_s, index, at)
        if weights.is_eager:
            soonest, first = times.least()
            if soonest <= now:
                best = min(best, Offer(now + load_s, first, now))
        if (only_now and best.at > now) or not self._has_room(best.nth, one, best.at):
            return self._best_of(self._everywhere(), one, weights, None, only_now=only_now)
        return best

    def score(self, index: int, one: WaitingJob, at: float, weights: Weights) -> float:
        """Return the score of a node for a job that could start there at a time."""
        if weights.is_eager and at <= self.now:
            weights = EFT
        total = at + weights.evict * self.evict_s(index, one, at) if weights.evict else at
        if not weights.load and not weights.copies:
            return total
        copies = self._copies(index, one, at) if weights.copies else 0
        return total + (weights.load + weights.copies * copies) * self.load_s(index, one, at)

    def load_s(self, index: int, one: WaitingJob, at: float) -> float:
        """Return the time that a job would wait for its file if it started on a node at a time (LOAD)."""
        least_s = self.nodes[index].load_s(one.size_gb)
        for begin, loaded, end in self._stays[index].get(one.file, ()):
            if begin <= at and (self._persistent or at <= end):
                if loaded <= at:
                    return 0.0
                least_s = min(least_s, round(loaded - at, 6))
        return least_s

    def evict_s(self, index: int, one: WaitingJob, at: float) -> float:
        """Return the time to reload the files that the job would evict on a node at a time (EVICT)."""
        return self._node_index.evict_s(index, one.n_cores, at, self._stays[index], one.file)

    def _copies(self, index: int, one: WaitingJob, at: float) -> int:
        """Return the number of other nodes with a job's file at a time (COPIES)."""
        return sum(peer.n_holding(one.file, at, but=index if peer is self else -1) for peer in self.peers)

    def n_holding(self, file: str, at: float, *, but: int) -> int:
        """Return the number of nodes with a file at a time, except one."""
        return sum(
            index != but and any(self._covers(stay, at) for stay in self._stays[index][file])
            for index in self._holders(file)
        )

    def _covers(self, stay: FileStay, at: float) -> bool:
        """Return whether a file is on a node at a time; a persistent node is expected to keep it."""
        return stay.begin <= at and (self._persistent or at <= stay.end)

    def _holders(self, file: str) -> Collection[int]:
        """Return the nodes that have a file, or will have it."""
        present, planned = self._node_index.holders.get(file, ()), self._planned.get(file)
        return planned.union(present) if planned else present

    def _earliest(self, index: int, one: WaitingJob) -> float:
        if self._holes and self._has_hole(index, one) and self._has_room(index, one, self.now):
            return self.now
        at = max(nth_time(self.cores[index], one.n_cores), self.now)
        if at < math.inf and not self._has_room(index, one, at):
            for later in sorted({stay.end for stays in self._stays[index].values() for stay in stays}):
                if later > at and self._has_room(index, one, later):
                    return later
            return math.inf
        return at

    def _has_hole(self, index: int, one: WaitingJob) -> bool:
        """Return whether the job can end before idle cores with a later reservation are needed."""
        assert self._holes is not None
        until = round(self.now + one.span_s, 6)
        holes, cores = self._holes.get(index, ()), self.cores[index]
        if not holes or holes[-1] < until or len(cores) < one.n_cores:
            return False
        n_idle = bisect_right(cores, self.now)
        return n_idle < one.n_cores <= n_idle + len(holes) - bisect_left(holes, until)

    def _has_room(self, index: int, one: WaitingJob, at: float) -> bool:
        """Return whether the node's memory holds the file in addition to all files in use during the job."""
        if not self._crowded or not one.size_gb:
            return True
        memory_gb, until = self.nodes[index].memory_gb, at + one.span_s
        begins = [
            stay.begin
            for name, stays in self._stays[index].items()
            if name != one.file
            for stay in stays
            if at < stay.begin < until
        ]
        return all(
            fit_together(memory_gb, [one.size_gb, *self._others_in_use(index, one.file, moment)])
            for moment in (at, *begins)
        )

    def _others_in_use(self, index: int, but: str, at: float) -> list[float]:
        """Return the sizes of all files but one that are in use at a time."""
        sizes = self._node_index.sizes
        return [
            sizes[name]
            for name, stays in self._stays[index].items()
            if name != but and any(stay.begin <= at < stay.end for stay in stays)
        ]

    def place(self, one: WaitingJob, offer: Offer) -> None:
        """Reserve an offer for a job: the cores that are available first, until its walltime ends."""
        _, index, at = offer
        until = round(at + one.span_s, 6)
        one.node, one.at = self.nodes[index], at
        if one.file and self._node_index.knows_files:
            self._expect(index, one, FileStay(at, round(at + self.load_s(index, one, at), 6), until))
        self._take(index, one.n_cores, at, until)
        self._renew(index)

    def _expect(self, index: int, one: WaitingJob, stay: FileStay) -> None:
        """Record a planned stay."""
        mine = self._stays[index]
        if mine is self._node_index.stays[index]:
            mine = self._stays[index] = {name: stays.copy() for name, stays in mine.items()}
        self._note(mine.setdefault(one.file, []), stay)
        self._node_index.sizes[one.file] = one.size_gb
        self._planned.setdefault(one.file, set()).add(index)

    def _note(self, stays: list[FileStay], stay: FileStay) -> None:
        """Insert a stay among others of its file, sorted by end of use."""
        insort(stays, stay, key=lambda known: known.end)

    def _take(self, index: int, n: int, at: float, until: float) -> None:
        cores = self.cores[index]
        n_idle = bisect_right(cores, self.now)
        if at <= self.now and n_idle < n:  # in a hole: the cores with the earliest reservations
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
        self.cores[index] = rest

    @property
    def is_full(self) -> bool:
        """Whether every core has a job or a reservation, and no hole before a reservation can be used."""
        return not self.n_idle and not self._holes

    def _times_of(self, n: int) -> NodeValues:
        row = self._times.get(n)
        if row is None:
            row = self._times[n] = self._node_index.times(n).copy()
            for index in self._changed:
                row.put(index, nth_time(self.cores[index], n))
        return row

    def _evicting_of(self, n: int, weight: float) -> NodeValues:
        if weight != self._evict_weight:
            self._evict_weight = weight
            self._evicting.clear()
        row = self._evicting.get(n)
        if row is None:
            row, times = self._node_index.evicting(n, weight).copy(), self._times_of(n).values
            for index in self._changed:
                row.put(index, self._evicting_at(index, n, times[index], self._unused_on(index)))
            self._evicting[n] = row
        return row

    def _unused_on(self, index: int) -> UnusedFiles:
        """Return the unused files of a node over time. O(1) until a job is placed there."""
        found = self._unused.get(index)
        if found is None:
            found = self._unused[index] = self._node_index.unused(self._stays[index])
        return found

    def _evicting_at(self, index: int, n: int, at: float, unused: UnusedFiles) -> float:
        return self._node_index.evicting_at(index, n, at, unused, self._evict_weight)

    def _renew(self, index: int) -> None:
        """Update the rows for a changed node."""
        self._changed.add(index)
        cores = self.cores[index]
        for n, row in self._times.items():
            row.put(index, nth_time(cores, n))
        self._unused.pop(index, None)
        if self._evicting:
            unused = self._unused_on(index)
            for n, row in self._evicting.items():
                row.put(index, self._evicting_at(index, n, self._times[n].values[index], unused))
