"""The behaviour of the locality study's published program: its clock, its two lists and its rounding.

A pass is possible only at every 30th second, and only if something happened in that second. A core whose job ended
early is known to be free only after the next full pass. The remaining time of a load is counted from now, not from the
start of the job. README.md of the study describes all differences.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from pybatsched import HALF_TICK, Reason
from pybatsched_schedulers.locality.input_files import FileStay
from pybatsched_schedulers.locality.node_index import NodeIndex, UnusedFiles
from pybatsched_schedulers.locality.nodes import FileNodes
from pybatsched_schedulers.locality.options import EFT, FCFS, LocalityOptions, Rule, Weights
from pybatsched_schedulers.locality.policy import Locality
from pybatsched_schedulers.locality.scores import Draft, Offer, WaitingJob

if TYPE_CHECKING:
    from pybatsched import Cluster


class PublishedDraft(Draft):
    """A draft by the rules of the program: scores are integers, and only the first matching stay counts."""

    def __init__(self, node_index: NodeIndex, now: float, cores: list[list[float]] | None = None) -> None:
        """Create a draft. `cores` are the available times of an earlier plan, to use instead of the real ones."""
        super().__init__(node_index, now, crowded=False)
        self.cores = [[max(at, now) for at in times] for times in (self.cores if cores is None else cores)]
        self._changed = set(range(len(node_index.nodes)))
        self.n_idle = sum(at <= now for times in self.cores for at in times)

    def is_available(self, index: int) -> bool:
        """Return whether no core of a node becomes available later than now. O(cores)."""
        return not any(self.now < at < math.inf for at in self.cores[index])

    def best(self, one: WaitingJob, weights: Weights, *, only_now: bool = False) -> Offer | None:  # noqa: ARG002
        """Return the node with the smallest score. From the first node with an immediate start on, LEO is EFT."""
        rows = self._times_of(one.n_cores)
        times = rows.values
        soonest, first = rows.least()
        if weights == FCFS:
            return None if soonest == math.inf else Offer(soonest, first, soonest)
        # The rows do not include files on nodes, nor different bandwidths.
        singly = self._holders(one.file) if self._node_index.has_one_bandwidth else range(len(self.nodes))
        eager_from = first if weights.is_eager and soonest == self.now else None
        best = self._best_by_rows_but(singly, one, weights, eager_from)
        for index in singly:
            at = times[index]
            if at < math.inf and (best is None or at <= best.score):  # no score is less than its EAT
                own = EFT if eager_from is not None and index >= eager_from else weights
                offer = Offer(self.score(index, one, at, own), index, at)
                best = offer if best is None or offer < best else best
        return best

    def _best_by_rows_but(
        self, singly: Collection[int], one: WaitingJob, weights: Weights, eager_from: int | None
    ) -> Offer | None:
        """Return the best node by the rows, except some. O(log nodes), or O(nodes) if one of these would be it."""
        rows, load_s = self._times_of(one.n_cores), self.nodes[0].load_s(one.size_gb)
        times = rows.values
        scores = self._evicting_of(one.n_cores, weights.evict) if weights.evict else rows
        if eager_from is not None and eager_from not in singly:
            return Offer(
                self.now + load_s, eager_from, self.now
            )  # nodes before it start later, with a larger weight of LOAD
        least, index = scores.least()
        if eager_from is None and index not in singly:
            return Offer(least + weights.load * load_s, index, times[index]) if least < math.inf else None
        left = scores.values.copy()
        if eager_from is not None:
            left[eager_from:] = [at + (EFT.load - weights.load) * load_s for at in times[eager_from:]]
        for nth in singly:
            left[nth] = math.inf
        least = min(left)
        index = left.index(least)
        return Offer(least + weights.load * load_s, index, times[index]) if least < math.inf else None

    def score(self, index: int, one: WaitingJob, at: float, weights: Weights) -> float:
        """Return the score, an integer."""
        if at == math.inf:
            return at
        evict_s = self.evict_s(index, one, at) if weights.evict else 0.0
        return int(at + weights.evict * evict_s + weights.load * self.load_s(index, one, at))

    def load_s(self, index: int, one: WaitingJob, at: float) -> float:
        """Return the load time by the first stay that contains a time, counted from now."""
        for stay in self._stays[index].get(one.file, ()):
            if stay.begin <= at <= stay.end:
                is_left = stay.end <= self.now  # the last user ended now: the program treats it as loaded
                return 0.0 if stay.loaded <= at or is_left else stay.loaded - self.now
        return self.nodes[index].load_s(one.size_gb)

    def _note(self, stays: list[FileStay], stay: FileStay) -> None:
        stays.append(stay)

    def _evicting_at(self, index: int, n: int, at: float, unused: UnusedFiles) -> float:
        return at if at == math.inf else int(super()._evicting_at(index, n, at, unused))


class PublishedProgram:
    """The planner of the published program, with steps of a second. A pass costs O(waiting * nodes) at most."""

    def __init__(self, nodes: FileNodes, rule: Rule, interval_s: int) -> None:
        self._nodes = nodes
        self._rule = rule
        self._interval_s = interval_s
        self._waiting: dict[str, WaitingJob] = {}  # with or without a reservation
        self._new: dict[str, WaitingJob] = {}
        self._arrived: list[WaitingJob] = []  # since the last second
        self._has_ended = False  # since the last second
        self._last_end_at = -math.inf
        self._node_index = NodeIndex(list(nodes))
        self._cores: list[list[float]] | None = None  # available times after the last pass
        self._is_last = False  # no more jobs will be submitted
        self._is_hopeless = False  # the pass of a stuck program placed no job, and nothing changed since
        self._next_at = math.inf  # the first reserved start
        self._due_at = math.inf  # the next second to process
        self.n_passes = 0
        self.n_placements = 0

    def submit(self, one: WaitingJob, now: float) -> None:  # noqa: ARG002  as other planners
        """Add a submitted job."""
        self._is_hopeless = False
        self._arrived.append(one)

    def changed(self) -> None:
        """Record that a job ended, or that machines changed."""
        self._is_hopeless = False
        self._has_ended = True

    def no_more_jobs(self) -> None:
        """Record that no more jobs will be submitted."""
        self._is_last = True

    def waiting(self) -> list[WaitingJob]:
        """Return all waiting jobs."""
        return [*self._waiting.values(), *self._new.values(), *self._arrived]

    def withdraw(self, one: WaitingJob) -> None:
        """Remove a waiting job."""
        self._waiting.pop(one.job.id, None)
        self._new.pop(one.job.id, None)
        if one in self._arrived:
            self._arrived.remove(one)
        self._is_hopeless = False  # later jobs may fit now
        self._look_ahead()

    def starts(self, now: float) -> Iterator[WaitingJob]:
        """Yield the jobs that start now. The caller starts each before it takes the next one."""
        is_late = self._due_at < now - HALF_TICK  # the requested second has passed because decisions take time
        if not is_late and abs(now - round(now)) > HALF_TICK:
            return  # events between seconds are processed at the next second
        now = float(math.floor(now + HALF_TICK))
        last_on_grid = now // self._interval_s * self._interval_s
        may_pass = last_on_grid > 0 and last_on_grid >= (self._due_at if is_late else now)
        is_news = self._has_ended or bool(self._arrived)  # else it was processed in an earlier message of this second
        arrived, self._arrived = self._arrived, []
        if self._has_ended:
            self._last_end_at, self._has_ended = now, False
        has_ended = is_news and self._last_end_at == now
        yield from self._start_reserved(now)
        if now == 0:
            self._place_history([one for one in arrived if one.history is not None])
            arrived = [one for one in arrived if one.history is None]
            yield from self._start_reserved(now)
            has_ended = False
        target = self._waiting if has_ended else self._new
        target.update((one.job.id, one) for one in arrived)
        if may_pass:
            is_stuck = self._is_stuck()
            if is_stuck:
                self._waiting |= self._new
                self._new.clear()
                has_ended = True
            if has_ended and self._waiting:
                self._full_pass(now)
            elif arrived and not has_ended:
                self._newcomers_pass(now)
            self._look_ahead()
            self._is_hopeless = is_stuck and self._next_at == math.inf
            yield from self._start_reserved(now)

    def why_waiting(self, one: WaitingJob) -> Reason:
        """Return why a job has no reservation."""
        if one.job.id in self._waiting:
            return "no place was left for it in the last pass; it waits for the next full one"
        return "is new: waits for a pass over newcomers"

    def wake_at(self, now: float) -> float:
        """Return the next time to act: a whole second, a reserved start, or the next pass of a stuck program."""
        if self._arrived or self._has_ended:
            self._due_at = math.ceil(now)
        elif self._is_stuck() and not self._is_hopeless:
            self._due_at = (now // self._interval_s + 1) * self._interval_s
        else:
            # A job that started late, between seconds, is also expected to end between seconds.
            self._due_at = self._next_at if self._next_at == math.inf else math.ceil(self._next_at)
        return self._due_at

    def _is_stuck(self) -> bool:
        """Return whether jobs wait and nothing can happen any more: the published program would never finish."""
        if not self._is_last or not (self._waiting or self._new):
            return False
        return all(one.node is None for one in self._waiting.values()) and not any(node.runs for node in self._nodes)

    def _start_reserved(self, now: float) -> Iterator[WaitingJob]:
        if self._next_at > now:
            return
        for one in [one for one in self._waiting.values() if one.at <= now]:
            assert one.node is not None
            if len(one.node.free_cores()) < one.n_cores:  # some became unavailable
                one.forget_place()
                continue
            del self._waiting[one.job.id]
            yield one
        self._look_ahead()

    def _look_ahead(self) -> None:
        self._next_at = min((one.at for one in self._waiting.values()), default=math.inf)

    def _place_history(self, jobs: list[WaitingJob]) -> None:
        """Place jobs that ran before the start of the simulation on their nodes, in the order of their starts."""
        draft = self._draft(0.0, self._cores)
        for one in _by_logged_start(jobs):
            assert one.history is not None
            offer = draft.offer(one.history[0] % len(self._nodes), one, self._rule.weights(some_idle=True))
            if offer is not None:
                draft.place(one, offer)
                one.goes_on = True
            self._waiting[one.job.id] = one
        self._cores = draft.cores
        self._look_ahead()

    def _draft(self, now: float, cores: list[list[float]] | None = None) -> PublishedDraft:
        self._node_index.refresh(now)
        return PublishedDraft(self._node_index, now, cores)

    def _full_pass(self, now: float) -> None:
        for one in self._waiting.values():
            one.forget_place()
        self._place(list(self._waiting.values()), self._draft(now))

    def _newcomers_pass(self, now: float) -> None:
        self._place(list(self._new.values()), self._draft(now, self._cores))
        self._waiting |= self._new
        self._new.clear()

    def _place(self, jobs: list[WaitingJob], draft: PublishedDraft) -> None:
        """Place jobs one by one, until too few cores are idle; later jobs get no reservation.

        For LEM, a node on which a job starts now counts as one more running node only if no job runs there and all its
        cores are available.
        """
        self.n_passes += 1
        n_running = sum(bool(node.runs) for node in self._nodes)
        for one in jobs:
            if not draft.n_idle or (not self._rule.is_fcfs and one.n_cores > draft.n_idle):
                break
            offer = draft.best(one, self._rule.weights(some_idle=n_running < len(self._nodes)))
            if offer is None:
                continue
            if offer.at <= draft.now and not draft.nodes[offer.nth].runs and draft.is_available(offer.nth):
                n_running += 1
            draft.place(one, offer)
            self.n_placements += 1
        self._cores = draft.cores


def _by_logged_start(jobs: list[WaitingJob]) -> list[WaitingJob]:
    """Sort history jobs by logged start as the program does: it inserts them one by one into a list.

    A job with the same start as the first job of the list goes before it; any other job goes behind equal starts.
    """
    starts: list[float] = []
    listed: list[WaitingJob] = []
    for one in jobs:
        assert one.history is not None
        start = one.history[1]
        place = 0 if starts and start == starts[0] else bisect_right(starts, start)
        starts.insert(place, start)
        listed.insert(place, one)
    return listed


class PublishedLocalityOptions(LocalityOptions):
    """The options of the policy that the program has, too."""

    @model_validator(mode="after")
    def _of_the_program(self) -> PublishedLocalityOptions:
        for name in ("backfill", "persistence", "x3"):
            if getattr(self, name):
                raise ValueError(f"cannot be used with {name}")
        for name, usual in (("bigger_nodes", "never"), ("loads", "seconds")):
            if getattr(self, name) != usual:
                raise ValueError(f"cannot be used with {name}={getattr(self, name)}")
        if self.interval_s < 1 or self.interval_s % 1:
            raise ValueError(f"expected interval_s in whole seconds from 1, found {self.interval_s:g}")
        return self


class PublishedLocality(Locality):
    """The published program of the study: locality with its clock, its lists and its rounding."""

    Options: ClassVar[type[Any]] = PublishedLocalityOptions

    def on_begin(self, cluster: Cluster) -> None:
        """Read the nodes; times of loads are whole seconds."""
        super().on_begin(cluster)
        for node in self._nodes:
            node.whole_seconds = True

    def _planner_of(self, nodes: FileNodes, options: LocalityOptions) -> PublishedProgram:
        return PublishedProgram(nodes, options.rule(), int(options.interval_s))

    def _planned_s(self, span_s: float) -> float:
        return float(math.ceil(span_s))

    def _too_large(self, one: WaitingJob) -> None:
        """Return None: the program ignores the memory of nodes."""

    def _most_cores(self, one: WaitingJob) -> int:  # noqa: ARG002  as for the policy
        return max(map(self._nodes.most_cores, self._nodes.classes))
