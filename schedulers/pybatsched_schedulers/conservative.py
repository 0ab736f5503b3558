"""Conservative backfilling: every job gets a place in the plan when it arrives, and nobody may push it back.

When a job ends early the plan is compressed: the waiting jobs are taken one at a time in queue order, each is placed
again as early as it can be around the present places of all the others. Processors are counted, not named.
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
    QueueOptions,
    Reason,
    Reservations,
    instant,
    mypyc_attr,
    take_out,
)
from pybatsched_schedulers.plan_options import ConservativeOptions

if TYPE_CHECKING:
    from pybatsched import Job, Partition


# Real networks make jobs start and end a few microseconds late; a plan that is off by less than this stands.
TOLERANCE: Final = 1e-3

# Where more places than this move at once, it does not pay to keep them sorted until they are asked for as often.
MANY: Final = 16


def upcoming(places: list[tuple[float, int, Job]], after: float) -> Iterator[tuple[float, Job]]:
    """Give the places after an instant of a sorted list, and whose they are. O(log places) for the first."""
    end: Any = (after, math.inf)
    for i in range(bisect_right(places, end), len(places)):
        yield places[i][0], places[i][2]


@mypyc_attr(allow_interpreted_subclasses=True)
class ConservativeScheduler(LocalScheduler):
    """Conservative backfilling on one partition.

    `_rows` holds the planned start of every waiting job, `_booked` what every running one holds and until when;
    together they make up `_profile`. The plan is kept from event to event. Where reality breaks it (machines go or come
    back, a job overruns its estimate, a policy starts a job by itself) it is repaired: a job keeps its place if it can,
    and only those that collide are placed anew, in queue order.

    O(profile) per arrival. Compression looks at each waiting job for which room was gained since the last time
    (`FreedIntervals`): O(queue * profile) at worst, after an early end in a long queue.
    """

    reserves = True
    promises = True
    #: Whether nothing moves places at one instant but what is counted (`_n_changes`, and the partition's own).
    _is_steady: ClassVar[bool] = True

    def __init__(self, partition: Partition, options: QueueOptions | None = None) -> None:
        super().__init__(partition, options)
        self.compression = options.compression if isinstance(options, ConservativeOptions) else True
        self._profile = AvailabilityProfile(0.0, partition.n_free)
        self._rows = Reservations()
        self._by_place: list[tuple[float, int, Job]] = []  # the same, sorted
        self._n_stale = 0  # how often in a row that was asked for what is stale, plus one; 0 if it is up to date
        self._booked: dict[str, tuple[IntervalSet, float]] = {}
        self._newcomers: list[Job] = []
        self._put_off_jobs: dict[str, Job] = {}  # those that could not have the processors they wanted
        self._vacated: set[float] = set()  # when those who were put off just now would have ended
        self._gains = FreedIntervals()
        self._n_seen_by_all = 0
        self._must_compress = False
        self._must_repair = False
        self._is_provisional = False  # some places may move on with the clock
        self._moves_on = False  # somebody was past its estimate when the plan was last repaired
        self._repaired_as: tuple[float, int] | None = None  # when that was, and as which state of the partition
        self._has_welcomed = False  # somebody got his first place since a call was last thought of
        #: Whether a planned start may come when nothing else happens, so that a call is needed.
        self._wakes = not self.compression
        self._called_at: set[float] = set()
        self._settled_as: tuple[float, int] | None = None  # when, and as which version, the plan was last asked

    # --- what happened ---

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue; it gets its place when all ends of this instant are known. O(log queue)."""
        super().submit(job, now, front=front)
        self._newcomers.append(job)

    def withdraw(self, job: Job, now: float) -> None:
        """Take a job out of the queue and give its place to others."""
        entry = self._entries[job.id]
        super().withdraw(job, now)
        self._must_compress = True
        if self._rows.place_of(entry) is not None:
            place, end_at = self._forget(entry)
            self._gain(job.n_procs, max(place, now), end_at)
        else:
            self._newcomers.remove(job)

    def ended(self, job: Job, now: float) -> None:
        """Give back what the job had booked beyond now, and let the others look for better places."""
        self._must_compress = True  # even after an end on time: an earlier pass may have left room behind
        procs, end_at = self._booked.pop(job.id, (EMPTY, now))
        if end_at > now:
            away = self.partition.away
            self._gain(len(procs - away) if away else len(procs), now, end_at)

    def machines_changed(self, now: float) -> None:  # noqa: ARG002
        """Repair the plan: the machine is another one."""
        self._must_repair = True

    def _gain(self, n: int, start_at: float, end_at: float) -> None:
        self._n_changes += 1
        self._profile.give(n, start_at, end_at)
        if self.compression:  # else nobody will look
            self._gains.add(start_at, end_at)
        elif end_at == math.inf:  # it was held for ever, and so whoever waits for it has no place at all
            self._must_repair = True

    # --- the plan ---

    def plan(self, now: float) -> Iterator[Decision]:
        """Bring the plan up to date and start the jobs whose time has come."""
        self._settle(now)
        for place, _, job in self._due(now):
            # The plan may count on a job that ends at this very instant and has not been announced yet.
            if job.n_procs <= self.partition.n_free:
                n, (_, planned_end_at) = job.n_procs, self._forget(self._entries[job.id])
                procs = self.pick(job, now)
                if procs is None:
                    self._put_off(job, planned_end_at, now)
                    continue
                yield self.start(self._entries[job.id], ("its place in the plan, {}, has come", place), procs)
                self._book(job, n, planned_end_at, now)
        if self._wakes:
            yield from self._calls(now)

    def _due(self, now: float) -> list[tuple[float, int, Job]]:
        """Give who has a place that has come, as (place, arrival, job)."""
        if not self._n_stale:
            return list(itertools.takewhile(lambda entry: entry[0] <= now, self._by_place))
        if self._soonest() > now:
            return []
        places, entries = self._rows.places, self._rows.entries
        return sorted((place, *entries[i][1:]) for i, place in enumerate(places) if place <= now)

    def _soonest(self) -> float:
        """Give the first planned start; infinity for none. O(1), or O(queue), quickly, after many moves."""
        if self._n_stale:
            self._n_stale += 1
            if self._n_stale <= MANY:
                return min(self._rows.places, default=math.inf)
            self._sort_places()
        return self._by_place[0][0] if self._by_place else math.inf

    def _put_off(self, job: Job, planned_end_at: float, now: float) -> None:
        """Look for a later place for a job that could not have the processors it wants now."""
        self._gain(job.n_procs, now, planned_end_at)  # for the others: the job itself has seen that it is no use
        later = self._profile.next_step(now)
        self._take(job, self._profile.earliest(job.n_procs, self.span_s(job), later))
        self._put_off_jobs[job.id] = job
        self._vacated.add(planned_end_at)
        self._wakes = True

    def _try_again(self, now: float) -> None:
        """Let jobs that were put off look for the first place there is, now that something has ended. O(profile) each.

        What they want may be had while the plan, which counts processors, has not changed.
        """
        for entry in sorted(self._entries[job_id] for job_id in self._put_off_jobs):
            job, (place, end_at) = entry[2], self._forget(entry)
            self._profile.give(job.n_procs, place, end_at)
            better = self._profile.earliest(job.n_procs, self.span_s(job), now)
            self._take(job, better)
            if better < place < math.inf and self.compression:
                self._gains.add(place, end_at)

    def _book(self, job: Job, n: int, planned_end_at: float, now: float) -> None:
        """Note what a job really got: a policy may have started it otherwise than planned, or not at all."""
        if job.partition is self.partition and job.procs is not None:
            self._booked[job.id] = (job.procs, job.expected_end_at)
            if len(job.procs) == n and job.expected_end_at == planned_end_at:
                return
            self._profile.take(len(job.procs), now, job.expected_end_at)
            self._must_repair |= len(job.procs) > n or job.expected_end_at > planned_end_at + TOLERANCE
        self._gain(n, now, planned_end_at)

    def _settle(self, now: float) -> None:
        """Bring the plan up to date: repair and compress it, and give newcomers their places."""
        self._profile.advance(now)
        # With a job past its estimate the plan is repaired whenever something happens, but once is enough: compressed
        # again, it would be another one than whoever has asked in between was told.
        is_news = (now, self.partition.n_changes) != self._repaired_as
        self._is_provisional = self._moves_on and not is_news
        self._vacated.clear()
        if self._newcomers:
            self._put_in_front()
        running = self.partition.running_jobs
        late = self._soonest() < now - TOLERANCE
        overrun = bool(running) and running[0].expected_end_at < now - TOLERANCE
        must_repair = self._must_repair or late or len(running) != len(self._booked)
        if must_repair or (is_news and (overrun or self._moves_on)):
            self._repair(now)
        if self._must_compress and self._put_off_jobs:
            self._try_again(now)
        if self._must_compress and self.compression:
            self._compress(now)
        self._must_compress = False
        if self._newcomers:
            newcomers = sorted(self._newcomers, key=lambda job: self._entries[job.id][:2])
            self._newcomers = []
            for job in newcomers:
                self._welcome(job, now)
            self._has_welcomed = True

    def _put_in_front(self) -> None:
        """Let newcomers that go before all others be placed first, when the plan is repaired."""
        front = [job for job in self._newcomers if self._goes_first(job)]
        for job in front:
            self._newcomers.remove(job)
            self._note(job, math.inf)
            self._must_repair = self._wakes = True  # who keeps his place may begin when nothing ends

    def _goes_first(self, job: Job) -> bool:
        """Tell whether a newcomer was put in front of all others."""
        return self._entries[job.id][0] == FRONT

    def _welcome(self, job: Job, now: float) -> None:
        """Give a newcomer the first place there is. O(profile)."""
        self._take(job, self._profile.earliest(job.n_procs, self.span_s(job), now))

    def _take(self, job: Job, place: float) -> None:
        """Take a place in the profile, and note it."""
        self._profile.take(job.n_procs, place, self._note(job, place))

    def _note(self, job: Job, place: float) -> float:
        """Note a place. Gives when it ends."""
        self._n_changes += 1
        entry = self._entries[job.id]
        end_at = self._rows.insert(entry, self.span_s(job), place, self._gains.n)
        if not self._n_stale:
            insort(self._by_place, (place, entry[1], job))
        return end_at

    def _forget(self, entry: tuple[float, int, Job]) -> tuple[float, float]:
        """Let go of a job's place, but not of what it has taken. Gives from when to when that is."""
        job = entry[2]
        place, end_at = self._rows.remove(entry)
        self._put_off_jobs.pop(job.id, None)
        if not self._n_stale:
            take_out(self._by_place, (place, entry[1], job))
        return place, end_at

    def _note_moves(self, moved: list[tuple[int, float]]) -> None:
        """Note what a pass has done to some rows: they had other places before. O(log queue) for each, if few."""
        self._n_changes += len(moved)
        if len(moved) > MANY:
            self._n_stale = 1
        if self._n_stale and not self._put_off_jobs:
            return
        for row, place in moved:
            _, arrival, job = self._rows.entries[row]
            self._put_off_jobs.pop(job.id, None)
            if not self._n_stale:
                take_out(self._by_place, (place, arrival, job))
                insort(self._by_place, (self._rows.places[row], arrival, job))

    def _sort_places(self) -> None:
        """Bring `_by_place` up to date. O(1), or O(queue log queue) after many moves."""
        if self._n_stale:
            rows = zip(self._rows.places, self._rows.entries, strict=True)
            self._by_place = [(place, entry[1], entry[2]) for place, entry in rows]
            self._by_place.sort()
            self._n_stale = 0

    def _compress(self, now: float) -> None:
        """Move waiting jobs forward, one at a time in queue order."""
        if self._gains.any_since(self._n_seen_by_all):
            self._note_moves(self._profile.compress(now, self._rows, self._gains))
            self._n_seen_by_all = min(self._rows.seen, default=self._gains.n)
            self._gains.forget(self._n_seen_by_all)

    def _repair(self, now: float) -> None:
        """Make the plan fit what really runs. O(queue log queue), and O(profile) for each who loses his place."""
        running = self.partition.running_jobs
        # What waits for a job past its estimate has no real place, so the plan is provisional until that one has ended.
        self._is_provisional = self._moves_on = bool(running) and running[0].expected_end_at <= now
        self._must_repair = False
        self._repaired_as = (now, self.partition.n_changes)
        self._booked = {job.id: (job.procs, job.expected_end_at) for job in running if job.procs is not None}
        self._replan(self.expected_profile(now), now)
        # Machines may have come back, or more ended than was booked: everybody may look everywhere.
        self._gains.add(now, math.inf)
        self._must_compress = True

    def _replan(self, free: AvailabilityProfile, now: float) -> None:
        """Put the places of all waiting jobs into a profile of what is free for them; who collides gets another one."""
        self._profile, moved = free.replan(now, self._rows, self._gains)
        self._note_moves(moved)

    def _calls(self, now: float) -> Iterator[Decision]:
        """Ask to be woken for the next planned start, if nothing else may happen then. O(log queue); see `_firm`.

        A place behind a job past its estimate is no promise: it moves on with the clock, and a call for it would only
        lead to the next one. The end of that job is news enough. But a newcomer may be placed behind somebody it ranks
        before, and go first when the plan is next repaired: so after an arrival any place is good enough for one call.
        """
        soon, running = now + 1.5 * TICK, self.partition.running_jobs
        if not self._is_provisional and not (running and running[0].expected_end_at <= soon):
            soon = now + HALF_TICK  # nobody is expected to end with the next tick, and so to be the news
        places = self._firm(soon) if self._is_provisional and not self._has_welcomed else self._upcoming(soon)
        self._has_welcomed = False
        place, job = next(places, (math.inf, None))
        if job is not None and place < math.inf and place not in self._called_at:
            self._called_at = {at for at in self._called_at if at > now} | {place}
            yield CallMeLater(place, reason=("{} is promised to start then", job.id))

    def _firm(self, soon: float) -> Iterator[tuple[float, Job]]:
        """Give the planned starts that do not lie behind a job past its estimate, in order. O(queue).

        A place is an instant at which something ends. At the next tick that is a job past its estimate; and when one
        that waits for it would end, the next one that does so begins. Those behind a job that was put off move like it.
        """
        ends = self._vacated.copy()
        for start_at, end_at, job in self._bookings():
            if start_at <= soon or start_at in ends:
                ends.add(end_at)
            elif job is not None:
                yield start_at, job

    def _bookings(self) -> Iterator[tuple[float, float, Job | None]]:
        """Give what is booked for those who wait, as (start, end, job) in order of the starts; None for no place."""
        for place, job in self._upcoming(-math.inf):
            yield place, instant(place, self.span_s(job)), job

    def _upcoming(self, after: float) -> Iterator[tuple[float, Job]]:
        """Give the planned starts after an instant in order, and whose they are. O(log queue) for the first."""
        self._sort_places()
        return upcoming(self._by_place, after)

    # --- questions ---

    # While a kill is under way the plan must not change: jobs get their places when the kill is done. Questions are
    # then answered without the plan, by placing the whole queue on the expected ends.

    def _bring_up_to(self, now: float) -> None:
        """Settle the plan before a question. O(1) if nothing has happened since the last one."""
        if self._settled_as != (now, self._n_changes + self.partition.n_changes) or not self._is_steady:
            self._settle(now)
            self._settled_as = (now, self._n_changes + self.partition.n_changes)

    def plan_version(self, now: float) -> int:
        """Give a number that is another one whenever answers may be: whenever a place has moved, or room was gained."""
        if not self.partition.n_kills_pending:
            self._bring_up_to(now)
            self._n_changes += not self._is_steady
        return super().plan_version(now)

    def estimated_start(self, n: int, duration_s: float, now: float, latest: float) -> float:
        """Find the place that such a job would get if it came now. O(profile), and no farther than `latest`."""
        if self.partition.n_kills_pending:
            return super().estimated_start(n, duration_s, now, latest)
        self._bring_up_to(now)
        return self._profile.earliest(n, duration_s, now, latest)

    def place(self, profile: AvailabilityProfile, n: int, span_s: float, now: float, not_before: float) -> float:  # noqa: ARG002
        """Place one job for a question: jobs overtake others where that delays none."""
        return super().place(profile, n, span_s, now, now)

    def planned_start(self, job: Job, now: float) -> float | None:
        """Give a waiting job's place in the plan. O(1) if the plan is up to date."""
        if self.partition.n_kills_pending:
            return super().planned_start(job, now)
        self._bring_up_to(now)
        entry = self._entries.get(job.id)
        place = None if entry is None else self._rows.place_of(entry)
        return None if place is None or place == math.inf else max(place, now)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Tell the job's present place in the plan."""
        entry = self._entries.get(job.id)
        place = None if entry is None else self._rows.place_of(entry)
        if place is None or self.partition.n_kills_pending:
            return super().why_waiting(job, now)
        if place == math.inf:
            return "no place: too few processors are available"
        return "planned to start at {}", place


@mypyc_attr(allow_interpreted_subclasses=True)
class Conservative(LocalPolicy):
    """Conservative backfilling: a reservation for every job."""

    Options: ClassVar[type[ConservativeOptions]] = ConservativeOptions
    reserves = True
    scheduler = ConservativeScheduler
