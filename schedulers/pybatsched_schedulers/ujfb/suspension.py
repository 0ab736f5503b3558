"""Conservative backfilling around suspended jobs and other bookings *ahead* of the plan."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pybatsched import EMPTY, HALF_TICK, TICK, AvailabilityProfile, Decision, ExecuteJob, IntervalSet, StartAt, instant
from pybatsched_schedulers.conservative import ConservativeScheduler
from pybatsched_schedulers.ujfb.preemption import Booking, Suspended
from pybatsched_schedulers.ujfb.swaps import HostMemory, Swaps

if TYPE_CHECKING:
    from pybatsched import Cluster, Job, Partition
    from pybatsched_schedulers.ujfb.options import UjfbOptions


class SuspendingScheduler(ConservativeScheduler):
    """A conservative plan around suspended jobs: O(running * suspended) more for a message if there are any."""

    promises = False  # urgent jobs delay others
    _is_steady = False

    def __init__(self, partition: Partition, options: UjfbOptions, cluster: Cluster) -> None:
        super().__init__(partition, options)
        self.swap_in_s = 0.0  # all swap-ins together
        self._same_resources = options.resume_same_resources
        self._swaps = Swaps(cluster, options)
        self._memory = HostMemory(cluster, self._swaps, options.vh_memory_gb)
        self._suspended: list[Suspended] = []  # in the order in which they resume
        self._resuming: dict[str, Suspended] = {}  # in their swap-in or after it
        self._swapping: list[tuple[float, IntervalSet]] = []  # processors that are idle until a time
        self._reserved: dict[str, Booking] = {}  # of jobs with priority over suspended jobs
        self._ahead: dict[str, Booking] = {}  # all bookings, as they are in the profile
        self._collided = False
        self._nth_start: dict[str, int] = {}  # start number of each running regular job
        self._n_starts = 0

    # --- suspended jobs ---

    def ended(self, job: Job, now: float) -> None:
        """Release the job's allocation."""
        self._nth_start.pop(job.id, None)
        self._resuming.pop(job.id, None)
        super().ended(job, now)

    def _suspension_of(self, job: Job) -> Suspended | None:
        return next((one for one in self._suspended if one.job is job), None)

    def _suspend(self, one: Suspended) -> None:
        self._suspended.insert(0, one)
        one.job.queued_in = self.partition
        self._memory.hold(one.job, one.procs)

    def _drop(self, one: Suspended) -> None:
        self._suspended.remove(one)
        one.job.queued_in = None
        self._memory.give_back(one.job, one.procs)

    def _is_bound(self, one: Suspended) -> bool:
        """Return whether a suspended job waits for its own processors; not if some are unavailable for good."""
        gone = self.partition.machines_settled and not one.procs.isdisjoint(self.partition.away)
        return self._same_resources and not gone

    def _resumes_at(self, one: Suspended) -> float:
        booking = self._ahead.get(one.job.id)
        return -math.inf if booking is None else booking.start_at

    def _book(self, job: Job, n: int, planned_end_at: float, now: float) -> None:
        super()._book(job, n, planned_end_at, now)
        self._count_start(job)

    def _count_start(self, job: Job) -> None:
        self._n_starts += 1
        self._nth_start[job.id] = self._n_starts

    # --- bookings ahead ---

    def _book_ahead(self, now: float) -> None:
        """Compute the bookings of jobs with priority over regular jobs, and apply the changes to the plan."""
        bookings: dict[str, Booking] = {}
        for until, procs in self._swapping:
            bookings[f"{procs} until {until}"] = Booking(len(procs & self.partition.free), now, until)
        bookings |= self._reserved
        if self._suspended:
            free = super().expected_profile(now)
            free.take_all(bookings.values())
            claims: list[tuple[Booking, IntervalSet]] = []  # of bound jobs
            for one in self._suspended:
                booking = bookings[one.job.id] = self._booking_of(one, free, claims, now)
                free.take(*booking)
                if self._is_bound(one):
                    claims.append((booking, one.procs))
        for name in [name for name, booking in self._ahead.items() if bookings.get(name) != booking.left_at(now)]:
            self._unbook(name, now)
        for name, booking in bookings.items():
            if name not in self._ahead:
                self._ahead[name] = booking
                self._take_ahead(booking)

    def _booking_of(
        self, one: Suspended, free: AvailabilityProfile, claims: list[tuple[Booking, IntervalSet]], now: float
    ) -> Booking:
        """Return the first booking of a suspended job that overlaps no claim. O(profile) for each overlap."""
        n, span_s = one.job.n_procs, one.swap_in_s + self.span_s(one.job)
        is_bound = self._is_bound(one)
        not_before = self._own_procs_at(one, now) if is_bound else now
        while True:
            start_at = free.earliest(n, span_s, not_before)
            booking = Booking(n, start_at, instant(start_at, span_s))
            ends = [
                claim.end_at for claim, procs in claims if claim.overlaps(booking) and not procs.isdisjoint(one.procs)
            ]
            if not is_bound or not ends:
                return booking
            not_before = max(ends)

    def _own_procs_at(self, one: Suspended, now: float) -> float:
        """Return when a suspended job's processors are free; absent ones are assumed to come back. O(running)."""
        running = ((max(job.expected_end_at, now + TICK), job.procs or EMPTY) for job in self.partition.running_jobs)
        ends = [end for part in (running, self._swapping) for end, procs in part if not procs.isdisjoint(one.procs)]
        return round(max(ends, default=now), 6)

    def _unbook(self, name: str, now: float) -> None:
        booking = self._ahead.pop(name, None)
        if booking is not None:
            self._release(booking.n, max(booking.start_at, now), booking.end_at)
            self._must_compress = True

    def _adopt(self, job: Job, now: float) -> None:
        """Add a running job to the plan that was not in it before."""
        if job.procs is None:
            return  # the engine starts it later, because of a reservation of hosts
        self._booked[job.id] = (job.procs, job.expected_end_at)
        self._take_ahead(Booking(len(job.procs), now, job.expected_end_at))

    def _take_ahead(self, booking: Booking) -> None:
        self._profile.take(*booking)
        self._collided |= self._profile.least_free(booking.start_at, booking.end_at) < 0

    # --- the plan ---

    def _update_plan(self, now: float) -> None:
        collided, self._collided = self._collided, False
        if collided:
            self._reserve_in_front()  # else the other jobs would move twice
            self._replan(self.expected_profile(now), now)
            self._must_compress = self._wakes = True  # a kept reservation may start without another event
        super()._update_plan(now)
        self._is_provisional |= collided  # a suspended job may wait for an absent machine

    def _bookings(self) -> Iterator[tuple[float, float, Job | None]]:
        ahead = [*self._reserved.values(), *(self._ahead[one.job.id] for one in self._suspended)]
        return heapq.merge(
            sorted((booking.start_at, booking.end_at, None) for booking in ahead),
            super()._bookings(),
            key=lambda booked: booked[0],
        )

    def expected_profile(self, now: float) -> AvailabilityProfile:
        """Return the free processors for regular jobs: all but running jobs and bookings."""
        profile = super().expected_profile(now)
        profile.take_all(self._ahead.values())
        return profile

    def pick(self, job: Job, now: float) -> IntervalSet | None:
        """Return the lowest processors that are not being swapped and not needed by a suspended job too early."""
        if not (self._suspended or self._swapping):
            return super().pick(job, now)
        return self._picked(job, instant(now, self.span_s(job)))

    def _picked(self, job: Job, end_at: float) -> IntervalSet | None:
        free = self._usable()
        for one in self._suspended:
            if one.job is not job and self._is_bound(one) and self._resumes_at(one) < end_at - HALF_TICK:
                free = free - one.procs
        return free.first(job.n_procs) if job.n_procs <= len(free) else None

    def _usable(self) -> IntervalSet:
        """Return the free processors whose memory is not being swapped out."""
        free = self.partition.free
        for _, procs in self._swapping:
            free = free - procs
        return free

    def _resume(self, now: float) -> Iterator[Decision]:
        """Resume suspended jobs whose processors are free, in order."""
        for one in list(self._suspended):
            job, booking = one.job, self._ahead[one.job.id]
            procs = one.procs if self._is_bound(one) else self._picked(job, booking.end_at)
            if booking.start_at > now or procs is None or not procs.issubset(self._usable()):
                continue
            self._drop(one)
            del self._ahead[job.id]
            self._resuming[job.id] = one
            self.swap_in_s += one.swap_in_s
            at = instant(now, one.swap_in_s)
            reason = ("resumes after {} s of swap-in: the processors it had are free", one.swap_in_s)
            yield StartAt(job.id, procs, at, reason=reason) if at > now else ExecuteJob(job.id, procs, reason=reason)
            self._booked[job.id] = (procs, booking.end_at)  # its booking becomes its allocation
            self._count_start(job)
