"""Conservative backfilling: every job gets a reservation when it arrives, and no other job may delay it.

When a job ends early the plan is compressed: one at a time in queue order, each waiting job is moved to the earliest
possible start around the reservations of all others. Only the number of processors counts.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pybatsched import (
    EMPTY,
    FRONT,
    HALF_TICK,
    TICK,
    AvailabilityProfile,
    CallMeLater,
    Decision,
    FreedIntervals,
    IntervalSet,
    LocalPolicy,
    LocalScheduler,
    Reason,
    Reservations,
    instant,
    model_at,
    take_out,
)

if TYPE_CHECKING:
    from pybatsched import Job, Partition, QueueOptions


# With simulated networks jobs start and end a few microseconds late; smaller deviations from the plan are ignored.
TOLERANCE: Final = 1e-3

# If more reservations than this move at once, they are sorted again only when they have been read as often.
MANY: Final = 16


def upcoming(places: list[tuple[float, int, Job]], after: float) -> Iterator[tuple[float, Job]]:
    """Return the starts after a time from a sorted list, with their jobs. O(log places) for the first."""
    end: Any = (after, math.inf)
    for i in range(bisect_right(places, end), len(places)):
        yield places[i][0], places[i][2]


class ConservativeScheduler(LocalScheduler):
    """Conservative backfilling on one partition.

    `_reservations` holds the planned start of every waiting job, `_booked` the processors and expected end of every
    running job; `_profile` contains both. The plan is kept from event to event. It is repaired when an event
    contradicts it: machines become unavailable or available, a job overruns its estimate, or a policy starts a job by
    itself. Jobs keep their reservations if possible; the others are placed again in queue order.

    O(profile) per arrival. Compression checks each waiting job that may use processors freed since its last check
    (`FreedIntervals`): O(queue * profile) at worst, after an early end in a long queue.
    """

    on_nodes = "pybatsched_schedulers.on_nodes:ConservativeOnNodes"
    reserves = True
    promises = True
    #: Whether all moves of reservations at one time are counted (`_n_changes` and those of the partition).
    _is_steady: ClassVar[bool] = True

    def __init__(self, partition: Partition, options: QueueOptions | None = None) -> None:
        super().__init__(partition, options)
        self.compression = bool(getattr(options, "compression", True))
        self._profile = AvailabilityProfile(0.0, partition.n_free)
        self._reservations = Reservations()
        self._by_place: list[tuple[float, int, Job]] = []  # the same, sorted
        self._n_stale = 0  # reads of `_by_place` since it is stale, plus one; 0 if it is up to date
        self._booked: dict[str, tuple[IntervalSet, float]] = {}
        self._newcomers: list[Job] = []
        self._postponed: dict[str, Job] = {}  # jobs for which `pick` returned None
        self._postponed_ends: set[float] = set()  # when the jobs postponed now would have ended
        self._freed = FreedIntervals()
        self._n_seen_by_all = 0
        self._must_compress = False
        self._must_repair = False
        self._is_provisional = False  # some starts may move with the clock
        self._moves_on = False  # a job was past its estimate at the last repair
        self._repaired_as: tuple[float, int] | None = None  # time and partition version of the last repair
        self._has_new_places = False  # a job got its first reservation since the last check for a call
        #: Whether a planned start may come without another event, so that a call is needed.
        self._wakes = not self.compression
        self._called_at: set[float] = set()
        self._updated_as: tuple[float, int] | None = None  # time and version of the last query

    # --- what happened ---

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue; it gets a reservation when all ends at this time are known. O(log queue)."""
        super().submit(job, now, front=front)
        self._newcomers.append(job)

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a job from the queue and release its reservation."""
        entry = self._entries[job.id]
        super().withdraw(job, now)
        self._must_compress = True
        if self._reservations.place_of(entry) is not None:
            place, end_at = self._forget(entry)
            self._release(job.n_procs, max(place, now), end_at)
        else:
            self._newcomers.remove(job)

    def ended(self, job: Job, now: float) -> None:
        """Release the rest of the job's allocation, and compress the plan."""
        self._must_compress = True  # even after an end on time: an earlier pass may have left free processors
        procs, end_at = self._booked.pop(job.id, (EMPTY, now))
        if end_at > now:
            away = self.partition.away
            self._release(len(procs - away) if away else len(procs), now, end_at)

    def machines_changed(self, now: float) -> None:  # noqa: ARG002
        """Repair the plan: the available machines changed."""
        self._must_repair = True

    def _release(self, n: int, start_at: float, end_at: float) -> None:
        self._n_changes += 1
        self._profile.give(n, start_at, end_at)
        if self.compression:  # else it is not used
            self._freed.add(start_at, end_at)
        elif end_at == math.inf:  # an endless job: jobs that waited for it have no reservation
            self._must_repair = True

    # --- the plan ---

    def plan(self, now: float) -> Iterator[Decision]:
        """Update the plan and start the jobs whose reserved start has come."""
        self._update_plan(now)
        for place, _, job in self._due(now):
            # The plan may count on a job that ends at this time, but whose end was not reported yet.
            if job.n_procs <= self.partition.n_free:
                n, (_, planned_end_at) = job.n_procs, self._forget(self._entries[job.id])
                procs = self.pick(job, now)
                if procs is None:
                    self._postpone(job, planned_end_at, now)
                    continue
                yield self.start(self._entries[job.id], ("its place in the plan, {}, has come", place), procs)
                self._book(job, n, planned_end_at, now)
        if self._wakes:
            yield from self._calls(now)

    def _due(self, now: float) -> list[tuple[float, int, Job]]:
        """Return the jobs whose reserved start has come, as (start, arrival, job)."""
        if not self._n_stale:
            return list(itertools.takewhile(lambda entry: entry[0] <= now, self._by_place))
        if self._soonest() > now:
            return []
        places, entries = self._reservations.places, self._reservations.entries
        return sorted((place, *entries[i][1:]) for i, place in enumerate(places) if place <= now)

    def _soonest(self) -> float:
        """Return the first planned start; infinity for none. O(1); after many moves O(queue) with a small constant."""
        if self._n_stale:
            self._n_stale += 1
            if self._n_stale <= MANY:
                return min(self._reservations.places, default=math.inf)
            self._sort_places()
        return self._by_place[0][0] if self._by_place else math.inf

    def _postpone(self, job: Job, planned_end_at: float, now: float) -> None:
        """Move a job for which `pick` returned None to a later start."""
        self._release(job.n_procs, now, planned_end_at)  # for other jobs
        later = self._profile.next_step(now)
        self._take(job, self._profile.earliest(job.n_procs, self.span_s(job), later))
        self._postponed[job.id] = job
        self._postponed_ends.add(planned_end_at)
        self._wakes = True

    def _retry_postponed(self, now: float) -> None:
        """Move postponed jobs to the earliest start: after an end, `pick` may succeed in the same plan."""
        for entry in sorted(self._entries[job_id] for job_id in self._postponed):
            job, (place, end_at) = entry[2], self._forget(entry)
            self._profile.give(job.n_procs, place, end_at)
            better = self._profile.earliest(job.n_procs, self.span_s(job), now)
            self._take(job, better)
            if better < place < math.inf and self.compression:
                self._freed.add(place, end_at)

    def _book(self, job: Job, n: int, planned_end_at: float, now: float) -> None:
        """Record a job's allocation: a policy may have changed its start, or not started it."""
        segment = job.segment
        procs, end_at = segment.procs, segment.expected_end_at
        if segment.partition is self.partition and procs is not None:
            self._booked[job.id] = (procs, end_at)
            if len(procs) == n and end_at == planned_end_at:
                return
            self._profile.take(len(procs), now, end_at)
            self._must_repair |= len(procs) > n or end_at > planned_end_at + TOLERANCE
        self._release(n, now, planned_end_at)

    def _update_plan(self, now: float) -> None:
        """Update the plan: repair and compress it, and place new jobs."""
        self._profile.advance(now)
        # With a job past its estimate the plan is repaired after every event, but only once: a second compression would
        # change the results of queries in between.
        is_news = (now, self.partition.n_changes) != self._repaired_as
        self._is_provisional = self._moves_on and not is_news
        self._postponed_ends.clear()
        if self._newcomers:
            self._reserve_in_front()
        running = self.partition.running_jobs
        late = self._soonest() < now - TOLERANCE
        overrun = bool(running) and running[0].segment.expected_end_at < now - TOLERANCE
        must_repair = self._must_repair or late or len(running) != len(self._booked)
        if must_repair or (is_news and (overrun or self._moves_on)):
            self._repair(now)
        if self._must_compress and self._postponed:
            self._retry_postponed(now)
        if self._must_compress and self.compression:
            self._compress(now)
        self._must_compress = False
        if self._newcomers:
            newcomers = sorted(self._newcomers, key=lambda job: self._entries[job.id][:2])
            self._newcomers = []
            for job in newcomers:
                self._place_newcomer(job, now)
            self._has_new_places = True

    def _reserve_in_front(self) -> None:
        """Reserve new jobs that were put in front of the queue first, by a repair of the plan."""
        front = [job for job in self._newcomers if self._goes_first(job)]
        for job in front:
            self._newcomers.remove(job)
            self._record(job, math.inf)
            self._must_repair = self._wakes = True  # a kept reservation may start without another event

    def _goes_first(self, job: Job) -> bool:
        """Return whether a new job was put in front of all others."""
        return self._entries[job.id][0] == FRONT

    def _place_newcomer(self, job: Job, now: float) -> None:
        """Reserve the earliest possible start for a new job. O(profile)."""
        self._take(job, self._profile.earliest(job.n_procs, self.span_s(job), now))

    def _take(self, job: Job, place: float) -> None:
        """Reserve a start in the profile, and record it."""
        self._profile.take(job.n_procs, place, self._record(job, place))

    def _record(self, job: Job, place: float) -> float:
        """Record a reservation. Return its end."""
        self._n_changes += 1
        entry = self._entries[job.id]
        end_at = self._reservations.insert(entry, self.span_s(job), place, self._freed.n)
        if not self._n_stale:
            insort(self._by_place, (place, entry[1], job))
        return end_at

    def _forget(self, entry: tuple[float, int, Job]) -> tuple[float, float]:
        """Remove a job's reservation, but not from the profile. Return its start and end."""
        job = entry[2]
        place, end_at = self._reservations.remove(entry)
        self._postponed.pop(job.id, None)
        if not self._n_stale:
            take_out(self._by_place, (place, entry[1], job))
        return place, end_at

    def _record_moves(self, moved: list[tuple[int, float]]) -> None:
        """Record the moves of a pass, as rows with their old starts. O(log queue) for each, if few."""
        self._n_changes += len(moved)
        if len(moved) > MANY:
            self._n_stale = 1
        if self._n_stale and not self._postponed:
            return
        for row, place in moved:
            _, arrival, job = self._reservations.entries[row]
            self._postponed.pop(job.id, None)
            if not self._n_stale:
                take_out(self._by_place, (place, arrival, job))
                insort(self._by_place, (self._reservations.places[row], arrival, job))

    def _sort_places(self) -> None:
        """Update `_by_place`. O(1), or O(queue log queue) after many moves."""
        if self._n_stale:
            rows = zip(self._reservations.places, self._reservations.entries, strict=True)
            self._by_place = [(place, entry[1], entry[2]) for place, entry in rows]
            self._by_place.sort()
            self._n_stale = 0

    def _compress(self, now: float) -> None:
        """Move waiting jobs forward, one at a time in queue order."""
        if self._freed.any_since(self._n_seen_by_all):
            self._record_moves(self._profile.compress(now, self._reservations, self._freed))
            self._n_seen_by_all = min(self._reservations.seen, default=self._freed.n)
            self._freed.forget(self._n_seen_by_all)

    def _repair(self, now: float) -> None:
        """Rebuild the plan from the running jobs. O(queue log queue), and O(profile) for each job that must move."""
        running = self.partition.running_jobs
        # The start of a job that waits for a job past its estimate is unknown: the plan is provisional until it ends.
        self._is_provisional = self._moves_on = bool(running) and running[0].segment.expected_end_at <= now
        self._must_repair = False
        self._repaired_as = (now, self.partition.n_changes)
        self._booked = {job.id: (job.procs, job.expected_end_at) for job in running if job.procs is not None}
        self._replan(self.expected_profile(now), now)
        # Machines may have come back, or more jobs ended than were booked: all jobs may move to any time.
        self._freed.add(now, math.inf)
        self._must_compress = True

    def _replan(self, free: AvailabilityProfile, now: float) -> None:
        """Place all reservations in a profile of free processors; those that do not fit move."""
        self._profile, moved = free.replan(now, self._reservations, self._freed)
        self._record_moves(moved)

    def _calls(self, now: float) -> Iterator[Decision]:
        """Request a call for the next planned start that no other event announces. O(log queue); see `_firm_starts`.

        A start behind a job past its estimate moves with the clock, and a call for it would only lead to the next call;
        the end of that job is an event anyway. But a new job may be placed behind jobs of lower rank, and come first at
        the next repair. So after an arrival every start is good for one call.
        """
        soon, running = now + 1.5 * TICK, self.partition.running_jobs
        if not self._is_provisional and not (running and running[0].segment.expected_end_at <= soon):
            soon = now + HALF_TICK  # no job is expected to end at the next tick
        places = self._firm_starts(soon) if self._is_provisional and not self._has_new_places else self._upcoming(soon)
        self._has_new_places = False
        place, job = next(places, (math.inf, None))
        if job is not None and place < math.inf and place not in self._called_at:
            self._called_at = {at for at in self._called_at if at > now} | {place}
            yield CallMeLater(place, reason=("{} is promised to start then", job.id))

    def _firm_starts(self, soon: float) -> Iterator[tuple[float, Job]]:
        """Return the planned starts that do not depend on a job past its estimate, in order. O(queue).

        Each start is the end of another job. A start at the next tick depends on a job past its estimate, and so does a
        start at the planned end of such a job, and so on. Starts behind a postponed job move like it.
        """
        ends = self._postponed_ends.copy()
        for start_at, end_at, job in self._bookings():
            if start_at <= soon or start_at in ends:
                ends.add(end_at)
            elif job is not None:
                yield start_at, job

    def _bookings(self) -> Iterator[tuple[float, float, Job | None]]:
        """Return the reservations as (start, end, job) in order of their starts; the job is None for other bookings."""
        for place, job in self._upcoming(-math.inf):
            yield place, instant(place, self.span_s(job)), job

    def _upcoming(self, after: float) -> Iterator[tuple[float, Job]]:
        """Return the planned starts after a time in order, with their jobs. O(log queue) for the first."""
        self._sort_places()
        return upcoming(self._by_place, after)

    # --- queries ---

    # While a kill is pending the plan must not change: jobs get their reservations after it. Queries are then answered
    # without the plan, by placing the whole queue on the expected ends.

    def _update_to(self, now: float) -> None:
        """Update the plan before a query. O(1) if nothing changed since the last one."""
        if self._updated_as != (now, self._n_changes + self.partition.n_changes) or not self._is_steady:
            self._update_plan(now)
            self._updated_as = (now, self._n_changes + self.partition.n_changes)

    def plan_version(self, now: float) -> int:
        """Return a counter that changes whenever the plan changes: a reservation moved, or processors were freed."""
        if not self.partition.n_kills_pending:
            self._update_to(now)
            self._n_changes += not self._is_steady
        return super().plan_version(now)

    def estimated_start(self, n: int, duration_s: float, now: float, latest: float) -> float:
        """Return the start that a job would get if it were submitted now. O(profile), up to `latest`."""
        if self.partition.n_kills_pending:
            return super().estimated_start(n, duration_s, now, latest)
        self._update_to(now)
        return self._profile.earliest(n, duration_s, now, latest)

    def place(self, profile: AvailabilityProfile, n: int, span_s: float, now: float, not_before: float) -> float:  # noqa: ARG002
        """Place one job for a query: jobs overtake others if that delays none."""
        return super().place(profile, n, span_s, now, now)

    def planned_start(self, job: Job, now: float) -> float | None:
        """Return a waiting job's reserved start. O(1) if the plan is up to date."""
        if self.partition.n_kills_pending:
            return super().planned_start(job, now)
        self._update_to(now)
        entry = self._entries.get(job.id)
        place = None if entry is None else self._reservations.place_of(entry)
        return None if place is None or place == math.inf else max(place, now)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return the job's reserved start."""
        entry = self._entries.get(job.id)
        place = None if entry is None else self._reservations.place_of(entry)
        if place is None or self.partition.n_kills_pending:
            return super().why_waiting(job, now)
        if place == math.inf:
            return "no place: too few processors are available"
        return "planned to start at {}", place


class Conservative(LocalPolicy):
    """Conservative backfilling: a reservation for every job."""

    references = (
        """\
@article{mualem2001utilization,
  author = {Mu'alem, Ahuva W. and Feitelson, Dror G.},
  title = {Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the {IBM} {SP2} with
    Backfilling},
  journal = {IEEE Transactions on Parallel and Distributed Systems},
  volume = {12},
  number = {6},
  pages = {529--543},
  year = {2001},
  doi = {10.1109/71.932708},
}""",
    )
    Options: ClassVar[type[Any]] = model_at(
        "pybatsched_schedulers.backfilling_options:ConservativeOptions", placement=None, compression=True
    )
    reserves = True
    scheduler = ConservativeScheduler
