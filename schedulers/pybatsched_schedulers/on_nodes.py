"""FCFS, EASY and conservative backfilling for jobs that request memory, GPUs or whole nodes.

A job starts on nodes that have what it requests. EASY's promise is the same as for processors: a job that overtakes the
head of the queue does not delay it. The *shadow time* is the earliest time at which the head is expected to fit, and
`Head` holds what is free on each node then. Another job may start if it ends by the shadow time, or if the head would
still fit beside it.

With partitions, jobs with a higher priority come first. Partitions that share no nodes, directly or through others, are
groups of their own (`Nodes.groups`): a job waits only for jobs of its group, and each group has a head.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybatsched import (
    EMPTY,
    FRONT,
    HALF_TICK,
    PLAIN,
    TICK,
    CallMeLater,
    Decision,
    Entry,
    FreeNodes,
    IntervalSet,
    Job,
    LocalScheduler,
    NodeBooking,
    NodeProfile,
    NodeShare,
    NodeStep,
    Reason,
    instant,
    parse_order,
    set_of,
)

if TYPE_CHECKING:
    from pybatsched import NodePart, NodeRequest, Nodes, Partition, QueueOptions


#: The rank of jobs in front of the queue if partitions have priorities: ranks are then pairs.
_FRONT: Final = (FRONT, FRONT)


class FcfsOnNodes(LocalScheduler):
    """FCFS on the nodes of one partition."""

    def __init__(self, partition: Partition, options: QueueOptions | None, nodes: Nodes) -> None:
        super().__init__(partition, options)
        self.nodes = nodes
        self._placement: str = getattr(options, "placement", None) or "best"
        self._among = nodes.within(partition.procs)
        if any(one.priority for one in nodes.partitions.values()):
            self._front, self._rank = _FRONT, self._by_priority(self._rank)

    def _by_priority(self, rank: Any) -> Any:
        """Return an order by the priority of a job's first partition, and then by another order."""

        def ranked(job: Job, span_s: float, now: float) -> tuple[float, float]:
            partitions = self.nodes.partitions_of(job)
            priority = partitions[0].priority if partitions else 0
            return -priority, 0.0 if rank is None else rank(job, span_s, now)

        return ranked

    def request(self, job: Job) -> NodeRequest:
        """Return what a job requests of nodes."""
        return self.nodes.requests.get(job.id, PLAIN)

    def refusal(self, job: Job, *, restarted: bool = False) -> Reason | None:
        """Return why the job can never start here; None if it can. O(nodes) if machines are lost for good."""
        reason, partition = super().refusal(job, restarted=restarted), self.partition
        if reason is None and partition.machines_settled and partition.lost:
            left = FreeNodes(self.nodes)
            left.count_cores(self.nodes.parts_of(partition.procs - partition.lost))
            if left.fit(self.request(job), job.n_procs, "fewest", among=self._among) is None:
                return "can never fit: processors {} do not come back", partition.lost
        return reason

    def fit(self, job: Job, now: float) -> list[NodePart] | None:
        """Return the nodes on which a job can start now, with the cores on each; None if it does not fit."""
        free, n, partition = self.nodes.free, job.n_procs, self.partition
        if n > partition.n_free:
            return None
        request = self.request(job)
        if partition.upcoming:
            free = self._around_windows(free, partition.free, now, self.span_s(job))
        return free.fit(request, n, self.placement_of(request), among=self._among)

    def placement_of(self, request: NodeRequest) -> str:
        """Return the placement of a job: a job that requests only processors gets the lowest ones."""
        return "order" if request is PLAIN or request.in_order else self._placement

    def pick(self, job: Job, now: float) -> IntervalSet | None:
        """Return the processors on which a job starts; None if it does not fit now."""
        parts = self.fit(job, now)
        return None if parts is None else self.procs_of(parts, job, now)

    def procs_of(self, parts: Iterable[NodePart], job: Job, now: float) -> IntervalSet:
        """Return processors of these nodes: the lowest that are free and not reserved."""
        partition = self.partition
        free = partition.free_for(now, self.span_s(job)) if partition.upcoming else partition.free
        return self.nodes.procs_of(parts, free)

    def _around_windows(self, free: FreeNodes, procs: IntervalSet, at: float, span_s: float) -> FreeNodes:
        """Return what is free for a span from a time on: without hosts that are reserved then. O(nodes + windows)."""
        end_at, usable = instant(at, span_s) - HALF_TICK, free.copy()
        for window in self.partition.upcoming:
            if window.start_at < end_at and at < window.end_at:
                procs = procs - window.procs
                usable.take(self.nodes.reserved_share(window.procs & self.partition.procs, usable))
        usable.count_cores(self.nodes.parts_of(procs))
        return usable

    def missing(self, job: Job, now: float) -> Reason:
        """Return which resource is missing for a job that does not fit now."""
        window = self.partition.obstacle(job.n_procs, now, self.span_s(job))
        if window is not None:
            return "would overlap reservation {} from {} to {}", window.name, window.start_at, window.end_at
        if job.n_procs > self.partition.n_free:
            return "needs {} processors, {} are free", job.n_procs, self.partition.n_free
        return self.nodes.missing(self.request(job), job.n_procs, self._among)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return which resource is missing for the head of the queue; the queue for the others."""
        self.sort_queue(now)
        group = self.nodes.group_of(job)
        head = next((one for _, _, one in self.queue if self.nodes.group_of(one) == group), None)
        is_head = job is head and not self.partition.n_kills_pending
        return self.missing(job, now) if is_head else super().why_waiting(job, now)

    def plan(self, now: float) -> Iterator[Decision]:
        """Start jobs from the head of the queue while they fit; those of each group of nodes by themselves."""
        yield from self.start_heads(self.queue, {}, now)

    def start_heads(self, entries: Sequence[Entry], heads: dict[int, Head], now: float) -> Iterator[Decision]:
        """Start the first jobs of each group while they fit; the first that does not becomes the head of its group."""
        place = 0
        while place < len(entries) and len(heads) < len(self.nodes.groups):
            entry = entries[place]
            group = self.nodes.group_of(entry.job)
            if group not in heads:
                procs = self.pick(entry.job, now)
                if procs is None:
                    heads[group] = self.head_of(entry, now)
                else:
                    yield self.start(entry, "head of the queue", procs)
            if place < len(entries) and entries[place] is entry:  # the queue is shorter after a start
                place += 1

    def head_of(self, entry: Entry, now: float) -> Head:  # noqa: ARG002
        """Return the head of a group, which does not fit now."""
        return Head(entry, math.inf, self.nodes.free)


class Head(NamedTuple):
    """The first job of a group, when it is expected to fit, and what is free then."""

    entry: Entry
    at: float
    free: FreeNodes


class EasyOnNodes(FcfsOnNodes):
    """EASY on the nodes of one partition. A plan is O(queue + running) after an end, else O(new jobs)."""

    def __init__(self, partition: Partition, options: QueueOptions | None, nodes: Nodes) -> None:
        super().__init__(partition, options, nodes)
        backfill_order = getattr(options, "backfill_order", None)
        self._backfill_order = None if backfill_order is None else parse_order(backfill_order)
        self._newcomers: list[Entry] = []
        self._heads: dict[int, Head] | None = None  # by group of nodes; None: plan from scratch
        self._groups = nodes.groups

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue."""
        super().submit(job, now, front=front)
        self._newcomers.append(self._entries[job.id])

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a job from the queue."""
        super().withdraw(job, now)
        self._heads = None

    def ended(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Plan from scratch: something was freed."""
        self._heads = None

    def machines_changed(self, now: float) -> None:  # noqa: ARG002
        """Plan from scratch: the available machines changed."""
        self._heads = None

    def plan(self, now: float) -> Iterator[Decision]:
        """Start the head of the queue while it fits, then backfill. Each group of nodes has a head."""
        newcomers, self._newcomers = sorted(self._newcomers), []
        heads = None if self._varies else self._valid_heads(newcomers, now)
        candidates: Sequence[Entry] = self.queue if heads is None else newcomers
        self._heads = heads = {} if heads is None else heads
        self._groups = self.nodes.groups
        yield from self.start_heads(candidates, heads, now)
        if self._backfill_order is not None:
            candidates = sorted(self._in_backfill_order(candidates, now))
        for _, _, job in tuple(candidates):
            if job.id not in self._entries:
                continue
            head = heads[self.nodes.group_of(job)]
            if job is head.entry.job:
                continue
            parts = self.fit(job, now)
            if parts is None:
                continue
            reason = self._backfill(job, head, parts, now)
            if reason is not None:
                yield self.start(self._entries[job.id], reason, self.procs_of(parts, job, now))
                if not self.partition.n_free:
                    return

    def _valid_heads(self, newcomers: Iterable[Entry], now: float) -> dict[int, Head] | None:
        """Return the heads of the last plan; None if a job comes before one, or if one was expected to start."""
        heads = self._heads
        if heads is None or self._groups is not self.nodes.groups or any(now > head.at for head in heads.values()):
            return None
        for entry in newcomers:
            head = heads.get(self.nodes.group_of(entry.job))
            if head is not None and entry < head.entry:
                return None
        return heads

    def _in_backfill_order(self, entries: Iterable[Entry], now: float) -> Iterator[Entry]:
        assert self._backfill_order is not None
        rank_of = self._backfill_order.rank_at
        if self._front is not FRONT:
            rank_of = self._by_priority(rank_of)
        for rank, arrival, job in entries:
            yield Entry(rank if rank == self._front else rank_of(job, self.span_s(job), now), arrival, job)

    def _backfill(self, job: Job, head: Head, parts: list[NodePart], now: float) -> Reason | None:
        """Return the rule by which a job that fits may start before the head; None if it may not."""
        first, span_s = head.entry.job, self.span_s(job)
        if span_s != math.inf and now + span_s <= head.at + HALF_TICK:
            return "backfilled: ends by the shadow time {} of {}", head.at, first.id
        if self.partition.upcoming:  # a job beside the head might need hosts that are reserved later
            return None
        request = self.request(job)
        shares = self.nodes.shares_of(request, parts)
        head.free.take(shares, exclusive=request.exclusive)
        if head.free.fit(self.request(first), first.n_procs, "fewest", among=self._among) is None:
            head.free.give(shares, exclusive=request.exclusive)
            return None
        return "backfilled beside {}, which still fits at {}", first.id, head.at

    def head_of(self, entry: Entry, now: float) -> Head:
        """Return when a job that does not fit now is expected to, and what is free then; infinity for never.

        O(running), times O(nodes) if hosts are reserved.
        """
        head = entry.job
        span_s = self.span_s(head)
        for at, free, procs in self._releases(now):
            usable = self._around_windows(free, procs, max(at, now), span_s) if self.partition.upcoming else free
            if usable.fit(self.request(head), head.n_procs, "fewest", among=self._among) is not None:
                return Head(entry, max(at, now), free)
        return Head(entry, math.inf, self.nodes.free)

    def _releases(self, now: float) -> Iterator[tuple[float, FreeNodes, IntervalSet]]:
        """Yield each time at which something is expected to become free, and what is free from then on.

        The set of free processors is kept only if hosts are reserved. The caller does not change what is free.
        """
        partition, nodes = self.partition, self.nodes
        free, procs, at = nodes.free.copy(), partition.free, -math.inf
        steps: Iterable[tuple[float, Job | IntervalSet | tuple[NodeShare, ...]]]
        steps = ((job.segment.expected_end_at, job) for job in partition.running_jobs)
        if partition.returning or nodes.reserved:
            known = (one for one in partition.returning if one[0] > now)  # of others the return is not known
            reserved = ((end_at, (*held, *used)) for end_at, held, used in nodes.reserved)
            steps = sorted([*steps, *known, *reserved], key=_first)
        for step_at, step in steps:
            if step_at > at > -math.inf:
                yield at, free, procs
            if step_at == math.inf:
                return
            at = step_at
            if isinstance(step, IntervalSet):
                back = step & partition.away
                free.add_cores(nodes.parts_of(back))
            elif isinstance(step, tuple):
                back = EMPTY
                free.give(step)
            else:
                back = step.segment.procs or EMPTY
                is_whole = back.isdisjoint(partition.away) if partition.n_away else True
                free.give(nodes.held[step.id], exclusive=self.request(step).exclusive, with_cores=is_whole)
                if not is_whole:
                    back = back - partition.away
                    free.add_cores(nodes.parts_of(back))
            if partition.upcoming:
                procs = procs | back
        if at > -math.inf:
            yield at, free, procs

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return which resource is missing for a job of this queue, or why it may not overtake."""
        if self.partition.n_kills_pending or job.id not in self._entries:
            return super().why_waiting(job, now)
        head = (self._heads or {}).get(self.nodes.group_of(job))
        if head is not None and job is not head.entry.job and self.fit(job, now) is not None:
            return "would delay {}, which is expected to start at {}", head.entry.job.id, head.at
        return self.missing(job, now)


def _start_of(booking: NodeBooking) -> float:
    return booking.start_at


def _first(step: tuple[float, Any]) -> float:
    return step[0]


class ConservativeOnNodes(FcfsOnNodes):
    """Conservative backfilling on the nodes of one partition: every job has a planned start, on planned nodes.

    After an early end jobs are moved forward, one at a time in queue order, around the plans of all others. A job is
    tried again only if nodes that it can use have changed since it was tried last. The plan is made anew, in queue
    order, if machines change, if a job runs longer than expected, or if an order of the policy contradicts it.
    """

    reserves = True

    def __init__(self, partition: Partition, options: QueueOptions | None, nodes: Nodes) -> None:
        super().__init__(partition, options, nodes)
        self._compresses = bool(getattr(options, "compression", True))
        self._newcomers: list[Entry] = []
        self._must_rebuild = True
        self._must_compress = False
        self._was_late = False  # a job was past its expected end when the plan was made
        self._called_at: set[float] = set()

    # --- what happened ---

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue; it is planned when all ends at this time are known."""
        super().submit(job, now, front=front)
        self._newcomers.append(self._entries[job.id])
        self._must_rebuild |= front

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a job from the queue and from the plan."""
        self._newcomers = [entry for entry in self._newcomers if entry.job is not job]
        super().withdraw(job, now)
        if not self._must_rebuild and job.id in self._plans:
            booking = self._forget(job)
            self._freed(booking.shares, booking.end_at)

    def ended(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Give back the rest of the job's time."""
        if not self._must_rebuild:
            steps = self._ends.pop(job.id, None)
            if steps is None:
                self._must_rebuild = True
            else:
                self._profile.drop_end(steps)
                self._freed(self._held[job.id], steps[0].at if steps else math.inf)
                self._must_compress = True

    def machines_changed(self, now: float) -> None:  # noqa: ARG002
        """Make the plan anew: the available machines changed."""
        self._must_rebuild = True

    # --- the plan ---

    def plan(self, now: float) -> Iterator[Decision]:
        """Update the plan, and start the jobs whose planned start has come."""
        self._update(now)
        due = [job_id for job_id, booking in self._plans.items() if booking.start_at <= now]
        for entry in sorted((self._entries[job_id] for job_id in due), key=self._by_start):
            job = entry.job
            booking = self._plans[job.id]
            procs = self._procs_at(booking, job, now)
            if procs is None:  # a job whose end was planned for now still runs
                self._must_rebuild = True
                continue
            self._forget(job)
            yield self.start(entry, ("its place in the plan, {}, has come", booking.start_at), procs)
            self._follow(job)
            if self._held.get(job.id) != booking.shares:  # it runs on other nodes than those of its plan
                self._freed(booking.shares, booking.end_at)
        yield from self._calls(now)

    def _by_start(self, entry: Entry) -> tuple[float, int]:
        return self._plans[entry.job.id].start_at, entry.arrival

    def _procs_at(self, booking: NodeBooking, job: Job, now: float) -> IntervalSet | None:
        """Return the processors of a planned start; None if its nodes do not have them."""
        if self.partition.upcoming:
            return self.pick(job, now)
        if not self.nodes.free.holds(booking.shares, exclusive=booking.is_exclusive):
            return None
        return self.procs_of(booking.parts, job, now)

    def _update(self, now: float) -> None:
        """Bring the plan up to date: ends, new jobs, and moves forward."""
        running = self.partition.running_jobs
        is_late = bool(running) and running[0].segment.expected_end_at <= now
        if self._must_rebuild or is_late or self._was_late or len(running) != len(self._ends):
            self._rebuild(now)
            self._was_late = is_late
            return
        if self._must_compress and self._compresses:
            self._compress(now)
        self._must_compress = False
        for entry in sorted(self._newcomers):
            self._place(entry.job, now)
        self._newcomers = []

    def _rebuild(self, now: float) -> None:
        """Plan all jobs anew, in queue order, around the running ones and reservations of hosts."""
        partition, nodes = self.partition, self.nodes
        self._profile = NodeProfile(nodes, self._among)
        self._plans: dict[str, NodeBooking] = {}
        self._steps: dict[str, list[NodeStep]] = {}
        self._ends: dict[str, list[NodeStep]] = {}
        self._held: dict[str, tuple[NodeShare, ...]] = {}
        # Nodes that were given back, and the time until which they had been taken.
        self._changes: list[tuple[int, float]] = []
        self._tried: dict[str, int] = {}
        for job in partition.running_jobs:
            self._follow(job)
        for at, procs in partition.returning:
            if at > now:  # else it is not known when they return
                parts = nodes.parts_of(procs & partition.away)
                self._profile.end(at, [NodeShare(*part, 0, ()) for part in parts], exclusive=False)
        for end_at, held, used in nodes.reserved:
            self._profile.end(end_at, (*held, *used), exclusive=False)
        for window in partition.upcoming:
            procs = window.procs & partition.procs
            shares = [NodeShare(*part, 0, ()) for part in nodes.parts_of(procs)]
            shares += nodes.reserved_share(procs, FreeNodes(nodes))
            self._profile.book(NodeBooking(window.start_at, window.end_at, (), tuple(shares)))
        for entry in self.queue:
            self._place(entry.job, now)
        self._newcomers, self._must_rebuild, self._must_compress = [], False, False

    def _place(self, job: Job, now: float) -> None:
        """Plan a job at its earliest place."""
        found = self._earliest(job, now)
        self._put(job, NodeBooking(math.inf) if found is None else found)
        self._tried[job.id] = len(self._changes)

    def _earliest(self, job: Job, now: float, **limits: Any) -> NodeBooking | None:
        request, span_s = self.request(job), self.span_s(job)
        placement = self.placement_of(request)
        return self._profile.earliest(request, job.n_procs, span_s, now, placement=placement, **limits)

    def _put(self, job: Job, booking: NodeBooking) -> None:
        self._plans[job.id] = booking
        self._steps[job.id] = self._profile.book(booking)
        self._n_changes += 1

    def _forget(self, job: Job) -> NodeBooking:
        """Remove a job from the plan."""
        self._profile.drop_end(self._steps.pop(job.id))
        del self._tried[job.id]
        return self._plans.pop(job.id)

    def _freed(self, shares: Iterable[NodeShare], until: float) -> None:
        """Note that shares of nodes were given back that had been taken until a time."""
        self._changes.append((set_of(share.node for share in shares), until))

    def _follow(self, job: Job) -> None:
        """Add the expected end of a running job. A policy may have changed its start, or not started it."""
        segment = job.segment
        if segment.partition is not self.partition or segment.procs is None:
            self._must_rebuild = True
            return
        shares = self._held[job.id] = self.nodes.held[job.id]
        if self.partition.n_away:  # absent processors do not come back at its end
            absent = dict(self.nodes.parts_of(segment.procs & self.partition.away))
            shares = tuple(share._replace(n_cores=share.n_cores - absent.get(share.node, 0)) for share in shares)
        self._ends[job.id] = self._profile.end(segment.expected_end_at, shares, exclusive=self.request(job).exclusive)

    def _compress(self, now: float) -> None:
        """Move waiting jobs forward, one at a time in queue order.

        A better place uses a node that was given back, before the time until which it had been taken.
        """
        for _, _, job in self.queue:
            booking = self._plans.get(job.id)
            if booking is None:
                continue
            before, changed, able = now, 0, self.nodes.able(self.request(job))
            for nodes, until in self._changes[self._tried[job.id] :]:
                if until > now and nodes & able:
                    changed |= nodes & able
                    before = max(before, until)
            before = min(before, booking.start_at)
            if before > now:
                self._move_forward(job, booking, now, before, changed)
            self._tried[job.id] = len(self._changes)
        n_seen = min(self._tried.values(), default=len(self._changes))
        self._changes = self._changes[n_seen:]
        self._tried = {job_id: n - n_seen for job_id, n in self._tried.items()}

    def _move_forward(self, job: Job, booking: NodeBooking, now: float, before: float, changed: int) -> None:
        """Plan a job anew if it can start before a time with one of the nodes that have changed."""
        profile, request, span_s = self._profile, self.request(job), self.span_s(job)
        at, is_apart = now, not changed & set_of(part.node for part in booking.parts)
        if is_apart:  # the nodes that have changed are not its own
            at = profile.first_use(request, job.n_procs, span_s, now, among=changed, before=before)
            if at == math.inf:
                return
        profile.drop_end(self._steps[job.id])
        among = changed if request.is_on_one(job.n_procs) else -1
        better = self._earliest(job, now, among=among, before=before, not_before=at)
        self._put(job, booking if better is None else better)
        if better is not None:
            self._freed(booking.shares, booking.end_at)

    def _calls(self, now: float) -> Iterator[Decision]:
        """Request a call at the next planned start, if it may come without another event."""
        if self._compresses and not (self.partition.upcoming or self.partition.returning):
            return
        at = self._next_start(now)
        if at < math.inf and at not in self._called_at:
            self._called_at = {one for one in self._called_at if one > now} | {at}
            yield CallMeLater(at, reason="a planned start")

    def _next_start(self, now: float) -> float:
        """Return the next planned start that does not depend on a job past its estimate. O(queue log queue).

        A start at the next tick depends on such a job, and so does one at the planned end of a job that starts then,
        and so on. They move with the clock.
        """
        running, soon = self.partition.running_jobs, round(now + TICK, 6)
        is_late = bool(running) and running[0].segment.expected_end_at <= now
        postponed = {soon} if is_late else set()
        for booking in sorted(self._plans.values(), key=_start_of):
            if booking.start_at in postponed:
                postponed.add(booking.end_at)
            elif booking.start_at > now:
                return booking.start_at
        return math.inf

    # --- queries ---

    def estimated_start(self, n: int, duration_s: float, now: float, latest: float) -> float:
        """Return the start that a job without requests would get if it were submitted now."""
        self._update(now)
        found = self._profile.earliest(PLAIN, n, duration_s, now, before=latest + TICK)
        return math.inf if found is None else found.start_at

    def planned_start(self, job: Job, now: float) -> float | None:
        """Return the planned start of a waiting job."""
        self._update(now)
        booking = self._plans.get(job.id)
        return None if booking is None or booking.start_at == math.inf else max(booking.start_at, now)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return the job's planned start."""
        booking = self._plans.get(job.id) if not self._must_rebuild else None
        if booking is None or self.partition.n_kills_pending or booking.start_at == math.inf:
            return super().why_waiting(job, now)
        return "planned to start at {}", booking.start_at
