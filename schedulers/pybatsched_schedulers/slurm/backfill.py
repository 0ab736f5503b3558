"""Backfill: waiting jobs in order, each at its earliest start that delays no plan of a job before it.

A plan takes whole nodes for its whole time, even if the job needs one core. Nothing is kept from one pass to the next.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import reduce
from itertools import compress, count
from operator import and_, eq, invert
from typing import TYPE_CHECKING, TypeAlias

from pybatsched import set_of
from pybatsched_schedulers.slurm.controller import ExpectedStart, PreemptedJob, StartedJob, whole_second
from pybatsched_schedulers.slurm.jobs import Placement, Record
from pybatsched_schedulers.slurm.selection import Fit

if TYPE_CHECKING:
    from pybatsched_schedulers.slurm.controller import Controller

Decided: TypeAlias = StartedJob | PreemptedJob | ExpectedStart

#: After this many attempts a job gets no plan.
_MOST_TRIES = 1000


class _Map:
    """Which nodes have no plan, by intervals of time. Running jobs are not in it."""

    def __init__(self, begin: float, end: float, nodes: int) -> None:
        self.begins = [begin]
        self.ends = [end]
        self.nodes = [nodes]
        self._changes: list[int] | None = []

    @property
    def changes(self) -> list[int]:
        """The intervals at whose ends more nodes are offered. O(1), O(intervals) after a change."""
        if self._changes is None:
            more = map(and_, self.nodes[1:], map(invert, self.nodes))
            self._changes = list(compress(count(), more))
        return self._changes

    def offered(self, begin: float, end: float, nodes: int = -1) -> tuple[int, float]:
        """Return which nodes are in each interval that overlaps a time, and when more are offered; 0 for never.

        An interval that begins at the end of the time counts. More are offered at the end of an interval during the
        time, or just after. O(log intervals + intervals during the time).
        """
        first, last, changes = bisect_right(self.ends, begin), bisect_right(self.begins, end), self.changes
        i = bisect_left(changes, first)
        later = self.ends[changes[i]] if i < len(changes) and changes[i] <= last else 0
        return reduce(and_, self.nodes[first:last], nodes), later

    def skip(
        self, begin: float, limit_s: float, nodes: int, n: int, may_start: Callable[[int, float], bool]
    ) -> tuple[int, float, int, float]:
        """Skip the attempts from a time on in which a job has too few of its nodes.

        Each attempt is at the next change after the one before. It is skipped if fewer than `n` nodes are offered for
        the time limit, or if the job may not start on them until the next attempt. Return how many are skipped, the
        time of the next one (-1 for none), and what is offered then. O(attempts * intervals), usually less: an interval
        with too few nodes rules out all attempts until its end.
        """
        n_skipped, changes = 0, self.changes
        while True:
            found, later = self.offered(begin, begin + limit_s, nodes)
            is_enough = found.bit_count() >= n
            if is_enough and (not later or may_start(found, later)):
                return n_skipped, begin, found, later
            if not is_enough:
                first, last = bisect_right(self.ends, begin), bisect_right(self.begins, begin + limit_s)
                found, i = nodes, last
                while i > first and found.bit_count() >= n:
                    i -= 1
                    found &= self.nodes[i]
                before, after = bisect_left(changes, first), bisect_left(changes, i)
                if after > before:
                    begin = self.ends[changes[after - 1]]
                    last = bisect_right(self.begins, begin + limit_s)
                later = self.ends[changes[after]] if after < len(changes) and changes[after] <= last else 0
                n_skipped += after - before
            if not later:
                return n_skipped, -1, 0, 0
            n_skipped += 1
            begin = later

    def overlaps(self, begin: float, end: float, nodes: int) -> bool:
        """Return whether some of these nodes are planned for other jobs during a time."""
        return any(nodes & ~free for free in self.nodes[bisect_right(self.ends, begin) : bisect_left(self.begins, end)])

    def take(self, begin: float, end: float, nodes: int) -> None:
        """Take nodes for a time."""
        self._changes = None
        self._split(begin)
        self._split(end)
        for i in range(bisect_left(self.begins, begin), bisect_left(self.begins, end)):
            self.nodes[i] &= ~nodes
        for i in compress(count(), map(eq, self.nodes, self.nodes[1:])):  # as Slurm does: one pair for each plan
            self.ends[i] = self.ends.pop(i + 1)
            del self.begins[i + 1], self.nodes[i + 1]
            break

    def _split(self, at: float) -> None:
        i = bisect_left(self.ends, at)
        if i < len(self.ends) and self.begins[i] < at < self.ends[i]:
            self.begins.insert(i + 1, at)
            self.ends.insert(i, at)
            self.nodes.insert(i + 1, self.nodes[i])


class BackfillPass:
    """One run of backfill."""

    def __init__(self, controller: Controller, now: float) -> None:
        self._controller = controller
        self._options = controller.conf.scheduling
        self._now = whole_second(now)
        step = self._options.bf_resolution_s
        self._until = self._now + self._options.bf_window_s
        self._map = _Map(self._now // step * step, self._until // step * step, controller.machine.all)
        self._n_tried: Counter[tuple[str, str]] = Counter()

    def run(self) -> Iterator[Decided]:
        """Try the waiting jobs in order. The caller sees each decision after it was carried out."""
        controller, options = self._controller, self._options
        n_tested = n_started = 0
        planned = set[Record]()
        for entry in controller.queue(self._now):
            record = entry.record
            if record in planned or not entry.is_tried() or not self._may_test(record):
                continue
            n_tested += 1
            if n_tested > options.bf_max_job_test:
                return
            n_left = min(max(len(record.tasks), 1), options.bf_max_job_array_resv)
            while n_left and not self._is_full(record):
                n_left -= 1
                is_last = len(record.tasks) <= 1
                found = yield from self._try(record)
                if isinstance(found, StartedJob):
                    n_started += 1
                    if n_started == options.bf_max_job_start:
                        return
                if isinstance(found, ExpectedStart) and options.bf_one_resv_per_job:
                    planned.add(record)
                if not found or is_last:
                    break
                if isinstance(found, StartedJob):
                    controller.test_array(record, self._now)

    def _may_test(self, record: Record) -> bool:
        """Return whether a job is tested, and count it for its user and partition."""
        options = self._options
        if not record.partition.is_up or self._is_full(record):
            return False
        for most, key in (
            (options.bf_max_job_user, ("user", record.user)),
            (options.bf_max_job_part, ("partition", record.partition.name)),
        ):
            if most:
                if self._n_tried[key] >= most:
                    return False
                self._n_tried[key] += 1
        return True

    def _is_full(self, record: Record) -> bool:
        controller = self._controller
        if controller.jobs.is_over_array_limit(record):
            record.reason = "JobArrayTaskLimit"
            return True
        blocked = controller.use.blocked_by(record)
        if blocked:
            record.reason = blocked
        return bool(blocked)

    def _try(self, record: Record) -> Generator[Decided, None, StartedJob | ExpectedStart | None]:
        """Start a job, or plan it at its earliest start. Return what was done; None for nothing."""
        controller, request, begin = self._controller, record.request, float(self._now)
        able = controller.selection.able(request, controller.usable(record))
        n_nodes, may_start = controller.selection.fewest_nodes(request, able), self._may_start(record)
        has_limits = controller.use.limits_tres(record)
        tested, fit = -1, None
        n_tries = 0
        while n_tries < _MOST_TRIES:
            n_tries += 1
            if controller.reservations:
                allowed, later = self._beside_reservations(record, begin, able)
            else:
                n_skipped, begin, allowed, later = self._map.skip(begin, record.limit_s, able, n_nodes, may_start)
                n_tries += n_skipped
                if begin < 0 or n_tries > _MOST_TRIES:
                    return None
            if allowed != tested:
                tested, fit = allowed, self._fit(record, allowed)
                if has_limits and fit is not None and not self._is_within_limits(record, fit):
                    return None
            if fit is not None:
                start_at = max(fit.start_at, begin)
                if start_at <= self._now:
                    start = yield from self._start(record, allowed, fit)
                    if start is not None:
                        return start
                    start_at, tested = self._now + 1, -1
                if not later or start_at <= later:
                    plan, later = self._plan(record, start_at, fit.placement)
                    if plan is not None:
                        yield plan
                        return plan
            if not later:
                return None
            begin = later
        return None

    def _may_start(self, record: Record) -> Callable[[int, float], bool]:
        """Return a test that fails only if a job cannot start on some nodes until a time.

        Where a full test does more than to find a start, it always passes: a test with GPUs changes weights, one with
        limits can set a reason, and jobs can be preempted at once.
        """
        controller, request = self._controller, record.request
        if request.gpus_per_node or controller.use.limits_tres(record) or controller.victims_of(record):
            return _always
        may_fit = controller.selection.may_fit
        return lambda nodes, until: may_fit(request, nodes, controller.releases(record), until)

    def _plan(self, record: Record, start_at: float, placement: Placement) -> tuple[ExpectedStart | None, float]:
        """Take nodes for a job in the map. Return its plan, or when to try again; 0 for never."""
        options = self._options
        if start_at > self._until:
            return None, 0
        if record.qos is not None and "noreserve" in record.qos.flags:
            return None, 0
        if options.bf_min_age_reserve_s and self._now - record.eligible_at < options.bf_min_age_reserve_s:
            return None, 0
        step, nodes = options.bf_resolution_s, set_of(placement.nodes)
        from_at = start_at // step * step
        to_at = max((start_at + record.limit_s) // step * step, from_at + step)
        if self._map.overlaps(from_at, to_at, nodes):
            return None, start_at
        self._map.take(from_at, to_at, nodes)
        record.n_cpus_counted = placement.n_cpus
        return ExpectedStart(record, start_at, placement.nodes), 0

    def _beside_reservations(self, record: Record, begin: float, able: int) -> tuple[int, float]:
        """Return the nodes that a job may use from a time on, and when to try again; 0 for never."""
        controller, end = self._controller, begin + record.limit_s
        reserved = controller.reserved_against(record, begin, end)
        allowed, later = self._map.offered(begin, end, able & ~reserved)
        if reserved & controller.usable(record):
            freed_at = self._reservation_end(begin)
            later = min(later or freed_at, freed_at or later)
        return allowed, later

    def _reservation_end(self, after: float) -> float:
        step = self._options.bf_resolution_s
        ends = [
            -(-one.end_at // step) * step + 1 for one in self._controller.reservations.values() if one.end_at > after
        ]
        end = min(ends, default=math.inf)
        return end if end < self._until else 0

    def _is_within_limits(self, record: Record, fit: Fit) -> bool:
        """Return whether limits allow a job now, whenever it would start; else set its reason."""
        controller = self._controller
        reason = controller.use.exceeded_by(record, controller.tres(record, fit.placement), fit.placement.nodes)
        if reason:
            record.reason = reason
        return not reason

    def _fit(self, record: Record, allowed: int) -> Fit | None:
        """Return when and where a job fits on nodes, as running jobs end; None for never."""
        if allowed.bit_count() < record.request.min_nodes:
            return None
        controller = self._controller
        selection, request, now = controller.selection, record.request, self._now
        placement = controller.fits_now(request, allowed)
        if placement is not None:
            return Fit(now, placement)
        if controller.victims_of(record):
            found = controller.with_preemption(record, allowed)
            if found is not None:
                return Fit(now, found[0], tuple(found[1]))
        return selection.will_run(request, allowed, controller.releases(record), now)

    def _start(self, record: Record, allowed: int, fit: Fit) -> Generator[Decided, None, StartedJob | None]:
        """Start a job that fits now; None if its nodes have not answered yet, or others must be preempted first."""
        controller, request = self._controller, record.request
        controller.selection.reset_weights(request, allowed)
        if not fit.victims:
            placement = controller.selection.choose(request, allowed & ~controller.completing_nodes, controller.free)
            if placement is not None:
                started = controller.start(record, placement, self._now)
                if request.exclusive and not controller.conf.preempt_type and controller.conf.select != "linear":
                    step = self._options.bf_resolution_s
                    nodes = controller.held(started).nodes
                    self._map.take(self._map.begins[0], (self._now + started.limit_s) // step * step, nodes)
                start = StartedJob(started, "backfill")
                yield start
                return start
            return None
        conf = controller.conf
        if self._now >= record.preempted_at + conf.kill_wait_s + conf.message_timeout_s:
            record.preempted_at = self._now
            for victim in fit.victims:
                controller.preempt(victim, self._now)
                yield PreemptedJob(victim, record)
        return None


def _always(nodes: int, until: float) -> bool:  # noqa: ARG001
    return True
