"""Urgent jobs first, with backfilling (Agung, Watanabe, Weber, Egawa and Takizawa, IEEE Access 9, 2021).

Regular jobs are planned by conservative backfilling. An urgent job starts at once on free processors, even if that
delays regular jobs. If there are too few, it starts by *preemption*: running regular jobs are suspended, their memory
is swapped out, and after this *preemption delay* the urgent job gets their processors. A suspended job continues with
the rest of its work on its processors, as soon as they are free and its memory is swapped in.

The priorities are: waiting urgent jobs, suspended jobs, regular jobs. The first two have bookings *ahead* of the plan
of the regular jobs. They are computed at every message, and only colliding regular jobs move.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pybatsched import (
    EMPTY,
    HALF_TICK,
    TICK,
    AvailabilityProfile,
    BatsimFeature,
    Decision,
    Entry,
    ExecuteJob,
    IntervalSet,
    JobState,
    QueuePolicy,
    Reason,
    RejectJob,
    Release,
    Requeue,
    StartAt,
    instant,
    quantity,
)
from pybatsched_schedulers.fcfs import Fcfs
from pybatsched_schedulers.ujfb.options import SwapFields, UjfbOptions, UjfOptions
from pybatsched_schedulers.ujfb.preemption import VICTIM_ORDERS, Booking, Preemption, Suspended, Victim, delay_s
from pybatsched_schedulers.ujfb.suspension import SuspendingScheduler
from pybatsched_schedulers.ujfb.swaps import SwapTimes

if TYPE_CHECKING:
    from pybatsched import Cluster, Job, Partition


class UjfbScheduler(SuspendingScheduler):
    """Urgent jobs first on one partition. Without urgent and suspended jobs this costs as much as its base class."""

    def __init__(self, partition: Partition, options: UjfbOptions, cluster: Cluster) -> None:
        super().__init__(partition, options, cluster)
        self._rules = options
        self._can_stop = cluster.can_suspend if options.mode == "suspend" else cluster.can_restart
        self._urgents: list[Entry] = []  # waiting urgent jobs, in order
        self._served: dict[str, Entry] = {}  # running and held urgent jobs
        self._preemption: Preemption | None = None
        self._fixed: set[str] = set()  # regular jobs that should be preempted, but cannot be stopped
        self._n_fixed = 0  # the number of these so far
        self._first_fixed = ""  # the first of these
        self._waited: set[str] = set()  # unfinished urgent jobs that had to wait
        names = ("n_preemptions", "n_backfilled", "n_preceded", "swap_out_s", "pd_max_s", "n_waited")
        self._figures = dict.fromkeys(names, 0.0)

    # --- what happened ---

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into its queue. O(log queue)."""
        if not job.is_urgent():
            super().submit(job, now, front=front)
            return
        if job.estimate is None:
            job.estimate = self.assume_walltime
        self._queue_urgent(self._urgent_entry(job))

    def _urgent_entry(self, job: Job) -> Entry:
        self._n_arrivals += 1
        rank = self.span_s(job) if self._rules.urgent_order == "shortest" else 0.0
        return Entry(rank, self._n_arrivals, job)

    def take_over(self, job: Job) -> None:
        """Record a running job of an earlier policy, in the order of starts."""
        if job.is_urgent():
            self._served[job.id] = self._urgent_entry(job)
        else:
            self._count_start(job)

    def _queue_urgent(self, entry: Entry) -> None:
        self._entries[entry.job.id] = entry
        insort(self._urgents, entry)
        entry.job.queued_in = self.partition

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a waiting job from its queue."""
        one = self._suspension_of(job)
        if one is not None:
            self._drop(one)
        elif job.is_urgent():
            self._urgents.remove(self._entries.pop(job.id))
            job.queued_in = None
        else:
            super().withdraw(job, now)

    def waiting(self) -> list[Job]:
        """Return all jobs that wait here: urgent, suspended and regular ones."""
        return [job for _, _, job in self._urgents] + [one.job for one in self._suspended] + super().waiting()

    def holds(self, job: Job) -> bool:
        """Return whether a job waits here."""
        return super().holds(job) or self._suspension_of(job) is not None

    def ended(self, job: Job, now: float) -> None:
        """Release the job's allocation."""
        self._served.pop(job.id, None)
        if job.ended_at is not None:  # else it continues later
            self._fixed.discard(job.id)
            self._waited.discard(job.id)
        super().ended(job, now)

    def stopped(self, job: Job) -> None:
        """Record that a victim was killed; it is suspended when all victims are killed."""
        if self._preemption is not None:
            for victim in self._preemption.victims:
                victim.is_stopped |= victim.job is job

    def lost(self, job: Job, now: float) -> None:
        """Return a held job that lost a processor to its queue."""
        entry, one = self._served.get(job.id), self._resuming.get(job.id)
        self.ended(job, now)
        if entry is not None:
            self._queue_urgent(entry)
        elif one is not None:
            self._suspend(one)

    # --- the plan ---

    def decide(self, now: float) -> Iterable[Decision]:
        """Return the decisions of `plan`; none while a kill is pending or if no job waits."""
        if self.partition.n_kills_pending:
            return ()
        has_waiting = self.queue or self._urgents or self._suspended or self._preemption is not None
        return self.plan(now) if has_waiting else ()

    def plan(self, now: float) -> Iterator[Decision]:
        """Start urgent jobs, resume suspended ones, then plan the regular queue."""
        self._profile.advance(now)
        if self._swapping:
            self._swapping = [(until, procs) for until, procs in self._swapping if until > now + HALF_TICK]
        self._reserved.clear()
        if self._urgents or self._preemption is not None:
            yield from self._serve_urgents(now)
            if self.partition.n_kills_pending:
                return
        if self._suspended or self._ahead or self._swapping or self._reserved:
            self._book_ahead(now)
            yield from self._resume(now)
        yield from super().plan(now)

    # --- urgent jobs ---

    def _serve_urgents(self, now: float) -> Iterator[Decision]:
        """Start urgent jobs, by preemption if necessary, or reserve a start; stop when a kill is pending."""
        if self._preemption is not None:
            yield from self._take_over(now)
        free = self._free_for_urgents(now)
        for entry in list(self._urgents):
            job, n = entry.job, entry.job.n_procs
            place = free.earliest(n, self.span_s(job), now)
            end_at = instant(place, self.span_s(job))
            if place <= now:
                yield from self._start_urgent(job, now)
                if self.partition.n_kills_pending:
                    return
            if job.id in self._served:
                end_at = job.expected_end_at
            else:
                if job.id not in self._waited:
                    self._waited.add(job.id)
                    self._figures["n_waited"] += 1
                self._reserved[job.id] = Booking(n, place, end_at)
            free.take(n, place, end_at)

    def _free_for_urgents(self, now: float) -> AvailabilityProfile:
        """Return the processors over time without urgent jobs and jobs that cannot be stopped. O(running)."""
        n_now, later = self.partition.n_free, []
        for job in self.partition.running_jobs:
            n = self.partition.n_returned_by(job)
            if job.id not in self._served and self._can_stop(job) and self._could_go_on(job):
                n_now += n
            else:
                later.append((n, max(job.expected_end_at, round(now + TICK, 6))))
                if job.id not in self._served and job.id not in self._fixed and not self._can_stop(job):
                    self._fixed.add(job.id)
                    self._n_fixed += 1
                    self._first_fixed = self._first_fixed or job.id
        profile = AvailabilityProfile(now, n_now)
        for n, end_at in later:
            profile.give(n, end_at, math.inf)
        for until, procs in self._swapping:
            profile.take(len(procs & self.partition.free), now, until)
        return profile

    def _start_urgent(self, job: Job, now: float) -> Iterator[Decision]:
        """Start an urgent job on free processors, or stop victims for it; do nothing if there are too few."""
        missing = job.n_procs - len(self._usable())
        if missing <= 0:
            procs = self._chosen(job.n_procs, EMPTY)
            assert procs is not None
            self._unbook(job.id, now)
            disturbs = not self._profile.fits(job.n_procs, now, instant(now, self.span_s(job)))
            self._figures["n_preceded" if disturbs else "n_backfilled"] += 1
            reason: Reason = (
                "urgent: delays reservations of regular jobs" if disturbs else "urgent: delays no regular job"
            )
            yield from self._begin(job, procs, now, reason, now)
            return
        jobs = self._victims(missing)
        if jobs:
            yield from self._preempt(job, jobs, now)

    def _begin(self, job: Job, procs: IntervalSet, at: float, reason: Reason, now: float) -> Iterator[Decision]:
        self._unbook(job.id, now)
        entry = self._entries.pop(job.id)
        self._urgents.remove(entry)
        job.queued_in = None
        self._served[job.id] = entry
        yield StartAt(job.id, procs, at, reason=reason) if at > now else ExecuteJob(job.id, procs, reason=reason)
        self._adopt(job, now)

    def _chosen(self, n: int, freed: IntervalSet) -> IntervalSet | None:
        """Choose processors for an urgent job: those without a suspended job, then others, then those freed now."""
        usable = self._usable() - freed
        waited_for = EMPTY
        for one in self._suspended:
            if self._is_bound(one):
                waited_for = waited_for | one.procs
        chosen = EMPTY
        for procs in (usable - waited_for, usable & waited_for, freed & self.partition.free):
            chosen = chosen | procs.first(min(n - len(chosen), len(procs)))
        return chosen if len(chosen) == n else None

    def _could_go_on(self, job: Job) -> bool:
        """Return whether enough machines are left for a stopped job to continue."""
        return job.n_procs <= self.partition.n_possible

    def _victims(self, n: int) -> list[Job]:
        """Return the shortest prefix of the running regular jobs that frees n processors; empty if all free too few."""
        order = VICTIM_ORDERS[self._rules.victim_order]
        running = sorted(
            (job for job in self.partition.running_jobs if job.id in self._nth_start),
            key=lambda job: order(job, self._nth_start[job.id]),
        )
        chosen: list[tuple[Job, IntervalSet]] = []
        for job in running:
            n_freed = self.partition.n_returned_by(job)
            if not n_freed or job.procs is None or not self._can_stop(job) or not self._could_go_on(job):
                continue
            if self._rules.mode == "suspend" and not self._memory.fits([*chosen, (job, job.procs)]):
                continue
            chosen.append((job, job.procs))
            n -= n_freed
            if n <= 0:
                return [job for job, _ in chosen]
        return []

    def _preempt(self, urgent: Job, jobs: list[Job], now: float) -> Iterator[Decision]:
        """Stop victims. Held ones, in their swap-in, stop at once, the others when Batsim answers the kill."""
        suspends = self._rules.mode == "suspend"
        victims = []
        for job in jobs:
            assert job.procs is not None
            swap = self._swaps.times(job, job.procs) if suspends else SwapTimes(0.0, 0.0)
            victims.append(Victim(job, job.procs, swap))
        self._preemption = Preemption(urgent, victims)
        reason = ("preempted for the urgent job {}, which needs {} processors", urgent.id, urgent.n_procs)
        for victim in victims:
            job = victim.job
            if job.state is JobState.HELD:
                yield Release(job.id, reason=reason)
                self.ended(job, now)
                victim.is_stopped = True
            else:
                work: Any = "rest" if suspends else "all"
                yield Requeue(job.id, work=work, procs=victim.procs if suspends else None, by=urgent.id, reason=reason)
        if not self.partition.n_kills_pending:
            yield from self._take_over(now)

    def _take_over(self, now: float) -> Iterator[Decision]:
        """Start an urgent job on the processors of its victims, after their swap-out."""
        assert self._preemption is not None
        urgent, stopped = self._preemption.urgent, self._preemption.stopped()
        self._preemption = None
        freed = EMPTY
        for victim in stopped:
            freed = freed | victim.procs
            self._figures["n_preemptions"] += 1
            self._figures["swap_out_s"] += victim.swap.out_s
        pd_s = delay_s(self._rules.pd, (victim.swap.out_s for victim in stopped))
        self._figures["pd_max_s"] = max(self._figures["pd_max_s"], pd_s)
        at = instant(now, pd_s)
        procs = self._chosen(urgent.n_procs, freed)
        for victim in stopped:
            refusal = None if self._could_go_on(victim.job) else self.refusal(victim.job)
            if refusal is not None:  # machines became unavailable for good during the kill
                yield RejectJob(victim.job.id, reason=refusal)
            elif self._rules.mode == "kill_restart":
                super().submit(victim.job, now, front=True)
            else:
                self._suspend(Suspended(victim.job, victim.procs, victim.swap.in_s, urgent.id))
        if pd_s:
            self._swapping.append((at, freed))
        if procs is not None and urgent.id in self._entries:  # else a machine became unavailable: retry later
            reason = ("urgent: {} regular jobs were preempted, which takes {} s", len(stopped), pd_s)
            yield from self._begin(urgent, procs, at, reason, now)

    # --- output ---

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return what an urgent or suspended job waits for; for a regular job its reserved start."""
        one = self._suspension_of(job)
        if one is not None and self._is_bound(one):
            return "suspended for {}: resumes at {}, when {} are free", one.by, self._resumes_at(one), one.procs
        if one is not None:
            return "suspended for {}: resumes at {} on any processors", one.by, self._resumes_at(one)
        if job.id in self._reserved:
            return (
                "urgent: needs {} processors, {} are free and regular jobs hold too few; reserved from {}",
                job.n_procs,
                len(self._usable()),
                self._reserved[job.id].start_at,
            )
        return super().why_waiting(job, now)

    def figures(self) -> dict[str, float]:
        """Return how urgent jobs were started, and the times of swaps."""
        return {**self._figures, "swap_in_s": self.swap_in_s}

    def remarks(self) -> Iterator[str]:
        """Report jobs that could not be preempted, and swaps that took no time."""
        if self._n_fixed:
            yield (
                f"ujfb: {quantity(self._n_fixed, 'regular job')} could not be preempted for urgent jobs "
                f"(first: {self._first_fixed}): Batsim cannot stop and continue their profiles"
            )
        if self._swaps.knows_no_memory:
            yield "ujfb: swaps took no time: neither jobs nor hosts have memory_gb (see the options swap_out, swap_in)"


class Ujfb(QueuePolicy):
    """Urgent jobs first: they start at once, and regular jobs are suspended for them if necessary."""

    references = (
        """\
@article{agung2021preemptive,
  author = {Agung, Mulya and Watanabe, Yuta and Weber, Henning and Egawa, Ryusuke and Takizawa, Hiroyuki},
  title = {Preemptive Parallel Job Scheduling for Heterogeneous Systems Supporting Urgent Computing},
  journal = {IEEE Access},
  volume = {9},
  pages = {17557--17571},
  year = {2021},
  doi = {10.1109/ACCESS.2021.3053162},
}""",
    )
    Options: ClassVar[type[Any]] = UjfbOptions
    JobFields: ClassVar[type[Any]] = SwapFields
    reserves = True
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})
    takes_any_procs = False  # a suspended job resumes where its memory is
    local: UjfbScheduler

    def on_begin(self, cluster: Cluster) -> None:
        """Create one partition of all processors."""
        self.local = UjfbScheduler(cluster.add_partition("all", cluster.procs), self.options, cluster)
        self.locals = [self.local]

    def take_over(self, job: Job, now: float) -> bool:  # noqa: ARG002
        """Plan with a running job of an earlier policy: a regular one may be preempted."""
        self.local.take_over(job)
        return True

    def on_job_submitted(self, job: Job, now: float) -> None:
        """Queue the job, or reject it if it can never start."""
        self.submit_to(self.local, job, now)

    def on_job_killed(self, job: Job, now: float) -> None:
        """Record a killed victim, which waits for its processors from now on."""
        self.local.ended(job, now)
        self.local.stopped(job)

    def on_job_released(self, job: Job, procs: IntervalSet, now: float) -> None:  # noqa: ARG002
        """Queue a job again that lost a processor during its own swap-in or the swap-out of others."""
        self.local.lost(job, now)

    def figures(self) -> Mapping[str, float]:
        """Return how urgent jobs were started, and the times of swaps."""
        return self.local.figures()

    def remarks(self) -> Iterable[str]:
        """Report jobs that could not be preempted, and swaps that took no time."""
        return self.local.remarks()


class Ujf(Fcfs):
    """Urgent jobs first: jobs start in queue order, urgent jobs before all others; no job is preempted."""

    references = Ujfb.references
    Options: ClassVar[type[Any]] = UjfOptions
