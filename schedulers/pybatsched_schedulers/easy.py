"""EASY backfilling: the head of the queue gets a reservation, others may overtake if they do not delay it.

The *shadow time* of the head is the earliest time at which enough processors are expected to be free for it; the
*extra* processors are those that are free then in addition. Another job may start now if it fits and either ends by the
shadow time or needs no more than the extra processors. Only the number of processors counts. Jobs are tried in the
order of the queue, or in a backfill order; the head is always that of the queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from sys import float_info
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sortedcontainers import SortedList

from pybatsched import (
    FRONT,
    HALF_TICK,
    TICK,
    Decision,
    Entry,
    ExecuteJob,
    LocalPolicy,
    LocalScheduler,
    Reason,
    model_at,
    parse_order,
)

if TYPE_CHECKING:
    from pybatsched import AvailabilityProfile, IntervalSet, Job, Partition, QueueOptions, RankedJobs

#: From this length on a queue is also indexed by job size. For shorter queues a full pass is faster.
LONG_QUEUE: Final = 64


class Backlog:
    """An index of a long queue by size, in backfill order and by duration. `add` and `remove` are O(log queue)."""

    def __init__(self) -> None:
        self._by_size: dict[int, tuple[SortedList[Entry], SortedList[tuple[float, Entry]]]] = {}
        self._spans: dict[str, float] = {}

    def add(self, entry: Entry, span_s: float) -> None:
        """Add a job of the queue."""
        n = entry.job.n_procs
        if n not in self._by_size:
            self._by_size[n] = (SortedList(), SortedList())
        in_order, by_span = self._by_size[n]
        self._spans[entry.job.id] = span_s
        in_order.add(entry)
        by_span.add((span_s, entry))

    def remove(self, entry: Entry) -> None:
        """Remove a job that has left the queue."""
        in_order, by_span = self._by_size[entry.job.n_procs]
        in_order.remove(entry)
        by_span.remove((self._spans.pop(entry.job.id), entry))
        if not in_order:
            del self._by_size[entry.job.n_procs]

    def has_one_of(self, n_free: int) -> bool:
        """Return whether a job needs at most this number of processors. O(sizes)."""
        return min(self._by_size, default=math.inf) <= n_free

    def candidates(self, now: float, end_by: float, n_free: int, n_extra: int) -> list[Entry]:
        """Return in backfill order all jobs that may start now, and few others. O(sizes * log queue + found).

        At most as many jobs of one size can start as fit at the same time. For each of the two rules the first ones in
        backfill order are enough.
        """
        found: list[Entry] = []
        end_by = min(end_by, float_info.max)  # excludes endless jobs
        longest: Any = (end_by - now + TICK,)  # one tick more; the exact check follows
        for n, (in_order, by_span) in self._by_size.items():
            if n <= n_free:
                n_fit = n_free // max(n, 1)
                if n <= n_extra:
                    found += in_order.islice(stop=n_fit)
                n_in_time = by_span.bisect_left(longest)
                if n_in_time * n_in_time > n_fit * len(in_order):  # many: the first ones are found quickly
                    in_time = (entry for entry in in_order if now + self._spans[entry.job.id] <= end_by)
                    found += islice(in_time, n_fit)
                else:
                    timed = by_span.islice(stop=n_in_time)
                    found += sorted([entry for span_s, entry in timed if now + span_s <= end_by])[:n_fit]
        found.sort()
        return found


class EasyScheduler(LocalScheduler):
    """EASY on one partition.

    After a plan no job of the queue may start until a processor is freed, so the next plan checks only new jobs. A plan
    is then O(new jobs); after an end O(queue + running), with a long queue O(sizes + running). If the order of the
    queue changes while jobs wait, every pass with free processors is O(queue + running), plus O(log queue) for each job
    that fits; `queue` itself is sorted only for queries. A backfill order that changes costs O(queue log queue).
    """

    on_nodes = "pybatsched_schedulers.on_nodes:EasyOnNodes"

    #: The ranks of waiting jobs, only for an order that changes while they wait.
    _ranked: RankedJobs | None = None

    def __init__(self, partition: Partition, options: QueueOptions | None = None) -> None:
        super().__init__(partition, options)
        if self._varies and options is not None:
            self._ranked = parse_order(options.order, partition).ranked_jobs()
        backfill_order = getattr(options, "backfill_order", None)
        #: The backfill order; None: the order of the queue.
        self._backfill_order = None if backfill_order is None else parse_order(backfill_order, partition)
        self._backfill_varies = self._varies if self._backfill_order is None else self._backfill_order.varies
        #: The entries by which jobs are tried, by job. These are the entries of the queue if it has the same order.
        self._tried: dict[str, Entry] = self._entries if self._backfill_order is None else {}
        self._newcomers: list[Entry] = []
        self._backlog: Backlog | None = None  # only while the queue is long
        self._head: Job | None = None  # the job the shadow time is for; None: plan from scratch
        self._is_settled = False  # whether only newcomers can start
        self._shadow_at = math.inf
        self._n_extra = 0

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue. O(log queue)."""
        super().submit(job, now, front=front)
        entry = self._entries[job.id]
        if self._ranked is not None:
            self._ranked.add(job, self.span_s(job), entry.arrival)
        if self._backfill_order is not None:
            entry = self._tried[job.id] = self._by_backfill_order(entry, now)
        self._newcomers.append(entry)
        if self._backlog is not None:
            self._backlog.add(entry, self.span_s(job))

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a job from the queue. O(log queue)."""
        self._drop(self._entries[job.id])
        super().withdraw(job, now)
        self._head = None

    def start(self, entry: Entry, reason: Reason, procs: IntervalSet | None = None) -> ExecuteJob:
        """Remove a job from the queue and start it. O(k + log queue)."""
        self._drop(entry)
        return super().start(entry, reason, procs)

    def _drop(self, entry: Entry) -> None:
        """Remove a job of the queue from the indexes."""
        if self._backlog is not None:
            self._backlog.remove(self._tried[entry.job.id])
        if self._backfill_order is not None:
            del self._tried[entry.job.id]
        if self._ranked is not None:
            self._ranked.remove(entry.arrival)

    def ended(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Plan from scratch: processors were freed."""
        self._head = None

    def machines_changed(self, now: float) -> None:  # noqa: ARG002
        """Plan from scratch: the available machines changed."""
        self._head = None

    def uses_new_estimates(self, now: float) -> bool:  # noqa: ARG002
        """Return whether a waiting job fits into the free processors. O(queue), with a long queue O(sizes)."""
        n_free = self.partition.n_free
        if self._backlog is not None:
            return self._backlog.has_one_of(n_free)
        return any(entry.job.n_procs <= n_free for entry in self.queue)

    def decide(self, now: float) -> Iterable[Decision]:
        """Return the decisions of `plan`, without sorting the queue by an order that changes while jobs wait."""
        if not self.queue or self.partition.n_kills_pending:
            return ()
        return super().decide(now) if self._varies and self._ranked is None else self.plan(now)

    def _first(self, now: float) -> Entry:
        """Return the head of the queue, which is not empty. O(queue) for an order that changes while jobs wait."""
        return self.queue[0] if self._ranked is None else self._entries[self._ranked.first(now).id]

    def plan(self, now: float) -> Iterator[Decision]:
        """Start the head of the queue while it fits, then backfill. O(queue + running) after an end."""
        queue, partition = self.queue, self.partition
        n_free = partition.n_free
        first = self._first(now) if n_free else queue[0]  # without free processors no job can start
        head = first.job
        if head is not self._head or now > self._shadow_at:
            while head.n_procs <= n_free:
                procs = self.pick(head, now)
                if procs is None:
                    break
                yield self.start(first, "head of the queue", procs)
                if not queue:
                    self._head = None
                    self._newcomers = []
                    return
                n_free = partition.n_free
                first = self._first(now)
                head = first.job
            self._head = head
            if head.n_procs <= n_free and not partition.upcoming:
                self._shadow_at, self._n_extra = self._next_end(now), 0  # `pick` returned None: try after the next end
            else:
                self._shadow_at, self._n_extra = self.shadow(head, now)
            self._is_settled = False
        candidates = self.candidates(now) if n_free else ()
        self._newcomers = []
        self._is_settled = True
        for _, _, job in candidates:
            if job.n_procs <= n_free and job is not self._head and job.id in self._entries:
                n_extra = self._n_extra
                reason = self.backfill(job, now)
                if reason is not None:
                    procs = self.pick(job, now)
                    if procs is None:
                        self._n_extra = n_extra
                        continue
                    yield self.start(self._entries[job.id], reason, procs)
                    n_free = partition.n_free
                    if not n_free:
                        return

    def candidates(self, now: float) -> Iterable[Entry]:
        """Return the entries to try, in backfill order; the head and a few that cannot start may be among them.

        The option `backfill_order` gives another order. For an order that it cannot express override this, and return
        the whole queue sorted: ``sorted(self.queue, key=…)``. (As long as no processor is freed only newcomers can
        start; in a long queue only some are returned.)
        """
        if self._backfill_varies:
            return self._candidates_now(now)
        if self._is_settled:
            return sorted(self._newcomers)
        if len(self.queue) < (LONG_QUEUE if self._backlog is None else LONG_QUEUE // 2):
            self._backlog = None
            return self.queue[1:] if self._backfill_order is None else sorted(self._tried.values())
        if self._backlog is None:
            self._backlog = Backlog()
            for entry in self._tried.values():
                self._backlog.add(entry, self.span_s(entry.job))
        return self._backlog.candidates(now, self._shadow_at + HALF_TICK, self.partition.n_free, self._n_extra)

    def _candidates_now(self, now: float) -> list[Entry]:
        """Return the entries to try, in a backfill order that changes while jobs wait. O(queue log queue)."""
        n_free = self.partition.n_free
        if self._ranked is not None and self._backfill_order is None:
            if self._is_settled and not self._newcomers:
                return []
            longest_s = self._shadow_at - now + TICK  # one tick more; the exact check follows
            jobs = self._ranked.startable(n_free, self._n_extra, longest_s, now)
            if self._is_settled:
                new = {entry.job.id for entry in self._newcomers}
                jobs = [job for job in jobs if job.id in new]
            return [self._entries[job.id] for job in jobs]
        if self._is_settled:
            entries = [self._entries[entry.job.id] for entry in self._newcomers if entry.job.id in self._entries]
        else:
            entries = [entry for entry in self.queue if entry.job.n_procs <= n_free]
        if self._backfill_order is not None:
            entries = [self._by_backfill_order(entry, now) for entry in entries]
        return sorted(entries)

    def _by_backfill_order(self, entry: Entry, now: float) -> Entry:
        """Return the entry of a job in backfill order. A job in front of the queue stays there."""
        rank, arrival, job = entry
        if rank != FRONT and self._backfill_order is not None:
            rank = self._backfill_order.rank_at(job, self.span_s(job), now)
        return Entry(rank, arrival, job)

    def _next_end(self, now: float) -> float:
        """Return the next expected end of a running job; infinity if none runs. O(running)."""
        return min((max(job.expected_end_at, now) for job in self.partition.running_jobs), default=math.inf)

    def backfill(self, job: Job, now: float) -> Reason | None:
        """Return the rule by which a job that fits may start before the head; None if it may not."""
        span_s = self.span_s(job)
        if span_s != math.inf and now + span_s <= self._shadow_at + HALF_TICK:
            return "backfilled: ends by the shadow time {} of {}", self._shadow_at, self._head and self._head.id
        if job.n_procs <= self._n_extra:
            self._n_extra -= job.n_procs
            return "backfilled on {} extra processors beside {}", job.n_procs, self._head and self._head.id
        return None

    # Placing each job as early as possible is an estimate, not EASY: a job may start earlier on extra processors, or
    # later because other jobs do.
    def place(self, profile: AvailabilityProfile, n: int, span_s: float, now: float, not_before: float) -> float:  # noqa: ARG002
        """Place a job as early as it fits, independent of the jobs before it."""
        return super().place(profile, n, span_s, now, now)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return why a job of this queue was not started now."""
        head = self._head
        if head is None or job.id not in self._entries or self.partition.n_kills_pending:
            return super().why_waiting(job, now)
        if self._varies:
            self.sort_queue(now)
            if self.queue[0].job is not head:  # no processor was free, so the plan has an earlier head
                return super().why_waiting(job, now)
        if job is head and job.n_procs > self.partition.n_free:
            return self._why_the_head_waits(head)
        if job is head:
            return super().why_waiting(job, now)
        if job.n_procs > self.partition.n_free:
            return "behind {}; needs {} processors, {} are free", head.id, job.n_procs, self.partition.n_free
        return (
            "not backfilled: would end at {}, after the shadow time {} of {}, and only {} extra processors are there",
            round(now + self.span_s(job), 6),
            self._shadow_at,
            head.id,
            self._n_extra,
        )

    def _why_the_head_waits(self, head: Job) -> Reason:
        """Return the reservation of the head: its time and number of processors."""
        counts = head.n_procs, self.partition.n_free
        if self._shadow_at == math.inf:
            return (
                "head of the queue: needs {} processors, {} are free; no reservation: no known end gives it enough",
                *counts,
            )
        return (
            "head of the queue: needs {} processors, {} are free; reserved: {} processors at {}, of {} free then",
            *counts,
            head.n_procs,
            self._shadow_at,
            head.n_procs + self._n_extra,
        )


class Easy(LocalPolicy):
    """EASY backfilling (aggressive backfilling with one reservation)."""

    references = (
        """\
@inproceedings{lifka1995anl,
  author = {Lifka, David A.},
  title = {The {ANL/IBM SP} scheduling system},
  booktitle = {Job Scheduling Strategies for Parallel Processing (JSSPP 1995)},
  series = {Lecture Notes in Computer Science},
  volume = {949},
  pages = {295--303},
  year = {1995},
  doi = {10.1007/3-540-60153-8_35},
}""",
    )
    Options: ClassVar[type[Any]] = model_at(
        "pybatsched_schedulers.backfilling_options:EasyOptions", placement=None, backfill_order=None
    )
    scheduler = EasyScheduler
