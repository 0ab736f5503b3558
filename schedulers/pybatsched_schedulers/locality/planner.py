"""Passes over the queue: when jobs get reservations, on which class of nodes, and when they start."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pybatsched import HALF_TICK, InputError, Reason
from pybatsched_schedulers.locality.node_index import NodeIndex
from pybatsched_schedulers.locality.nodes import FileNode, FileNodes
from pybatsched_schedulers.locality.options import FCFS, LocalityOptions, Weights
from pybatsched_schedulers.locality.scores import Draft, Offer, WaitingJob


class PlannedAreas:
    """Planned areas: core seconds per node. A smaller class is admitted up to the mean of all nodes."""

    def __init__(self, planned: Mapping[str, float], nodes: FileNodes) -> None:
        """Read the planned areas. Raises InputError for a class that the machine does not have."""
        by_memory = {float(name): area for name, area in planned.items()}
        for memory in by_memory:
            if memory not in nodes.classes:
                known = ", ".join(f"{known:g}" for known in nodes.classes)
                raise InputError(f"option areas: no node has {memory:g} GB; the platform has nodes of {known} GB")
        self._n_nodes = {memory: len(members) for memory, members in nodes.by_class.items()}
        self._planned = {memory: by_memory.get(memory, 0.0) for memory in nodes.classes}
        self._limit = sum(self._planned[memory] * n for memory, n in self._n_nodes.items()) / len(nodes)
        self._drafted: dict[float, float] = {}

    def begin(self) -> None:
        """Reset the areas of the last pass."""
        self._drafted = dict.fromkeys(self._planned, 0.0)

    def admits(self, one: WaitingJob, memory: float) -> bool:
        """Return whether a job of the next smaller class may use this one."""
        return self._planned[memory] + self._drafted[memory] + self._share(one, memory) <= self._limit

    def draft(self, one: WaitingJob, memory: float) -> None:
        """Record a reservation in another class than the job's own, for this pass."""
        if memory != one.memory_class:
            self._drafted[memory] += self._share(one, memory)

    def start(self, one: WaitingJob, memory: float) -> None:
        """Record a start in another class than the job's own."""
        if memory != one.memory_class:
            self._planned[memory] += self._share(one, memory)

    def _share(self, one: WaitingJob, memory: float) -> float:
        return one.n_cores * one.span_s / self._n_nodes[memory]


class Planner:
    """The queue, and the passes over it.

    A pass runs at the first event at least an interval after the last pass. It drops all reservations and makes new
    ones in the order of submission, until every core has a job or a reservation. A job starts at its reserved time,
    also between passes. A pass costs O(nodes) for each requested size, plus the cost of `Draft` for each placement.
    """

    def __init__(self, nodes: FileNodes, options: LocalityOptions) -> None:
        self._nodes = nodes
        self._options = options
        self._rule = options.rule()
        self._areas = PlannedAreas(options.areas, nodes) if options.areas is not None else None
        self._indexes: dict[float, NodeIndex] = {}
        self._place_in_class = {node.index: i for group in nodes.by_class.values() for i, node in enumerate(group)}
        self._waiting: dict[str, WaitingJob] = {}
        self._history: list[WaitingJob] = []  # new jobs that ran already at the start of the simulation
        self._last_pass_at = -math.inf
        self._is_stale = False  # something happened since the last pass
        self._placed: list[WaitingJob] = []  # jobs with a reservation
        self._next_at = math.inf  # the first reserved start
        # If no file is larger than the memory share of its job's cores, the cores are full before the memory.
        self._memory_of_core = min(node.memory_gb / node.n_cores for node in nodes) * (1 + 1e-9)
        self._is_crowded = False
        self.n_passes = 0
        self.n_placements = 0

    def submit(self, one: WaitingJob, now: float) -> None:  # noqa: ARG002  as other planners
        """Add a submitted job."""
        self._waiting[one.job.id] = one
        self._is_stale = True
        if one.history is not None:
            self._history.append(one)
        self._is_crowded |= one.size_gb > self._memory_of_core * one.n_cores

    def changed(self) -> None:
        """Record that a job ended, or that machines changed."""
        self._is_stale = True

    def no_more_jobs(self) -> None:
        """Record that no more jobs will be submitted."""

    def waiting(self) -> list[WaitingJob]:
        """Return all waiting jobs."""
        return list(self._waiting.values())

    def withdraw(self, one: WaitingJob) -> None:
        """Remove a waiting job."""
        del self._waiting[one.job.id]
        if one in self._history:
            self._history.remove(one)
        if one.node is not None:
            self._placed.remove(one)

    def starts(self, now: float) -> Iterator[WaitingJob]:
        """Yield the jobs that start now. The caller starts each before it takes the next one."""
        yield from self._start_reserved(now)
        if self._waiting and now - self._last_pass_at >= self._options.interval_s - HALF_TICK:
            self._pass(now)
            yield from self._start_reserved(now)

    def wake_at(self, now: float) -> float:  # noqa: ARG002  as other planners
        """Return the time of the next reserved start, or of the next pass if something changed."""
        if self._is_stale and self._waiting:
            return min(self._next_at, self._next_pass_at)
        return self._next_at

    def why_waiting(self, one: WaitingJob) -> Reason:
        """Return why a job has no reservation."""
        if one.job.submitted_at > self._last_pass_at + HALF_TICK:
            return ("waits for the next pass, at {} or with the first event after it", self._next_pass_at)
        return "no core that it may use was without a job or a reservation when it was its turn in the last pass"

    @property
    def _next_pass_at(self) -> float:
        return round(self._last_pass_at + self._options.interval_s, 6)

    def _start_reserved(self, now: float) -> Iterator[WaitingJob]:
        if self._next_at > now + HALF_TICK:
            return
        due = [one for one in self._placed if one.at <= now + HALF_TICK]
        due.sort(key=lambda one: one.job.seq)  # the first submitted loads a shared file
        self._placed = [one for one in self._placed if one.at > now + HALF_TICK]
        self._next_at = min((one.at for one in self._placed), default=math.inf)
        for one in due:
            node = one.node
            assert node is not None
            has_room = not one.size_gb or node.files.fits(one.file, one.size_gb)
            if not has_room or len(node.free_cores()) < one.n_cores:
                one.forget_place()  # a core became unavailable, or a job exceeded its assumed duration
                self._is_stale = True
                continue
            del self._waiting[one.job.id]
            if self._areas is not None:
                self._areas.start(one, node.memory_gb)
            yield one

    def _pass(self, now: float) -> None:
        self.n_passes += 1
        self._last_pass_at, self._is_stale, self._next_at = now, False, math.inf
        drafts = self._drafts(now)
        busy = {node.index for node in self._nodes if node.runs}
        if self._areas is not None:
            self._areas.begin()
        for one in self._placed:
            one.forget_place()
        self._placed = []
        queue = self.waiting()
        busy.update(self._place_history(drafts, now))
        if self._options.bigger_nodes == "idle":
            queue.sort(key=lambda one: -one.memory_class)
        open_drafts = {memory for memory, draft in drafts.items() if not draft.is_full}
        for one in queue:
            if not open_drafts:
                break
            if one.node is not None:
                continue
            found = self._choose(one, drafts, some_idle=len(busy) < len(self._nodes))
            if found is None:
                continue
            node, offer = found
            draft = drafts[node.memory_gb]
            self._put(draft, one, offer)
            if draft.is_full:
                open_drafts.discard(node.memory_gb)
            if one.at <= now:
                busy.add(node.index)

    def _place_history(self, drafts: Mapping[float, Draft], now: float) -> Iterator[int]:
        """Reserve cores of their nodes for jobs that ran before; yield the nodes on which one continues at once."""
        for one in sorted(self._history, key=lambda one: one.history[1] if one.history else 0.0):
            assert one.history is not None
            node = self._nodes[one.history[0] % len(self._nodes)]
            draft = drafts[node.memory_gb]
            offer = draft.offer(self._place_in_class[node.index], one, FCFS)
            if offer is None:
                continue
            self._put(draft, one, offer)
            one.goes_on = True
            if offer.at <= now:
                yield node.index
        self._history.clear()

    def _put(self, draft: Draft, one: WaitingJob, offer: Offer) -> None:
        draft.place(one, offer)
        self.n_placements += 1
        if self._areas is not None:
            self._areas.draft(one, draft.nodes[offer.nth].memory_gb)
        self._placed.append(one)
        self._next_at = min(self._next_at, one.at)

    def _drafts(self, now: float) -> dict[float, Draft]:
        """Create a draft for each class of memory."""
        knows_files = self._is_crowded or not self._rule.is_fcfs
        for memory, group in self._nodes.by_class.items():
            if memory not in self._indexes or self._indexes[memory].knows_files != knows_files:
                self._indexes[memory] = NodeIndex(group, knows_files=knows_files)
            self._indexes[memory].refresh(now)
        options = self._options
        drafts = {
            memory: Draft(
                node_index, now, persistent=options.persistence, backfill=options.backfill, crowded=self._is_crowded
            )
            for memory, node_index in self._indexes.items()
        }
        for draft in drafts.values():
            draft.peers = list(drafts.values())
        return drafts

    def _choose(
        self, one: WaitingJob, drafts: Mapping[float, Draft], *, some_idle: bool
    ) -> tuple[FileNode, Offer] | None:
        """Return the best node for a job among those it may use; None if there is none."""
        weights = self._rule.weights(some_idle=some_idle)
        own = self._best(drafts[one.memory_class], one, weights)
        if self._options.bigger_nodes == "never" or len(drafts) == 1:
            return own
        bigger = [memory for memory in self._nodes.classes if memory > one.memory_class]
        if self._areas is not None:
            found = [own] if own is not None else []
            if bigger and self._areas.admits(one, bigger[0]):
                other = self._best(drafts[bigger[0]], one, weights)
                if other is not None:
                    found.append(other)
            return min(found, key=lambda pair: (pair[1].score, pair[0].index), default=None)
        if self._best(drafts[one.memory_class], one, weights, only_now=True) is None:
            for memory in bigger:
                if (other := self._best(drafts[memory], one, weights, only_now=True)) is not None:
                    return other
        return own

    def _best(
        self, draft: Draft, one: WaitingJob, weights: Weights, *, only_now: bool = False
    ) -> tuple[FileNode, Offer] | None:
        """Return the best node of one class; None for none. If no core is idle, only a start now is possible."""
        if draft.is_full:
            return None
        offer = draft.best(one, weights, only_now=only_now or not draft.n_idle)
        return None if offer is None else (draft.nodes[offer.nth], offer)
