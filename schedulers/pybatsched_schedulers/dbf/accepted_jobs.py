"""Accepted jobs of deadline-based backfilling: their provisional reservations, and drafts of new plans."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from pybatsched import HALF_TICK, AvailabilityProfile, Job, instant, take_out

Entry: TypeAlias = "tuple[float, int, Job]"
Promote: TypeAlias = Literal["max", "each"]


class NewJob(NamedTuple):
    """The request of a new regular job; 0 processors mean no job."""

    n: int
    span_s: float


NO_JOB = NewJob(0, 0.0)


class CandidatePlan(NamedTuple):
    """A possible plan.

    `final` is the profile with running jobs and final reservations, `full` also has the provisional ones. `late` are
    the provisional jobs that would miss their deadlines, `late_promoted` the promoted ones; if there are any of these,
    the provisional jobs were not placed. Jobs that are lost anyway do not count as late.
    """

    final: AvailabilityProfile
    full: AvailabilityProfile
    promoted: dict[str, float]
    newcomer_at: float
    provisional: dict[str, float]
    late: list[Entry]
    late_promoted: list[Entry]

    @property
    def keeps_all(self) -> bool:
        """Whether every feasible deadline is met."""
        return not self.late and not self.late_promoted


class AcceptedJobs:
    """Jobs with accepted deadlines and provisional reservations.

    `by_place` holds (start, arrival, job), sorted. `is_stale` means that the starts may differ from placing the jobs in
    queue order; otherwise every job has the earliest possible start.
    """

    def __init__(self, span_s: Callable[[Job], float], promote: Promote) -> None:
        self.places: dict[str, float] = {}
        self.by_place: list[Entry] = []
        self.is_stale = False
        self._limits: dict[str, tuple[float, float]] = {}  # planned duration and latest end of each
        self._entries: dict[str, Entry] = {}
        self._sorted: list[Entry] | None = []  # in queue order; None: sort when needed
        self._span_s = span_s
        self._promote = promote

    def __bool__(self) -> bool:
        return bool(self.places)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self.places

    def add(self, entry: Entry, deadline_at: float, place: float) -> bool:
        """Add a job of the queue. Return whether it is the last in queue order. O(accepted)."""
        job = entry[2]
        is_last = all(other < entry for other in self._entries.values())
        self._limits[job.id] = (self._span_s(job), deadline_at + HALF_TICK)
        self._entries[job.id] = entry
        self._sorted = None
        self.places[job.id] = place
        insort(self.by_place, (place, entry[1], job))
        return is_last

    def remove(self, job: Job) -> float:
        """Remove a job that starts, is promoted or leaves the queue. Return its start. O(accepted)."""
        place = self.places.pop(job.id)
        take_out(self.by_place, (place, self._entries.pop(job.id)[1], job))
        del self._limits[job.id]
        self._sorted = None
        return place

    def move(self, places: Mapping[str, float]) -> None:
        """Change the starts of all jobs; jobs without a start are removed. O(accepted * log accepted)."""
        self.places = dict(places)
        if len(places) != len(self._entries):
            self._entries = {job_id: self._entries[job_id] for job_id in places}
            self._limits = {job_id: self._limits[job_id] for job_id in places}
            self._sorted = None
        self.by_place = sorted((place, *self._entries[job_id][1:]) for job_id, place in places.items())

    def _in_order(self) -> list[Entry]:
        """Return all jobs in queue order. O(1), and O(accepted * log accepted) after a change."""
        if self._sorted is None:
            self._sorted = sorted(self._entries.values())
        return self._sorted

    def take_all(self, profile: AvailabilityProfile) -> None:
        """Allocate the reservations of all jobs in a profile. O(accepted * profile)."""
        for place, _, job in self.by_place:
            profile.take(job.n_procs, place, instant(place, self._span_s(job)))

    def lost(self) -> set[str]:
        """Return the jobs that will miss their deadlines by the current plan. O(accepted)."""
        return self._late_at(self.places)

    def lost_in(self, final: AvailabilityProfile, now: float) -> set[str]:
        """Return the jobs that would miss their deadlines even if they were placed next."""
        first = {job.id: final.earliest(job.n_procs, self._span_s(job), now) for _, _, job in self._entries.values()}
        return self._late_at(first)

    def is_late_in(self, places: Mapping[str, float]) -> bool:
        """Return whether new starts would make a job late that is not late now."""
        return not self._late_at(places) <= self.lost()

    def _late_at(self, places: Mapping[str, float]) -> set[str]:
        late = set()
        for job_id, place in places.items():
            span_s, limit_at = self._limits[job_id]
            if place + span_s > limit_at:  # as in `meets`
                late.add(job_id)
        return late

    # --- drafts ---

    def saved(
        self, final: AvailabilityProfile, newcomer: NewJob, now: float, lost: Container[str]
    ) -> CandidatePlan | None:
        """Promote jobs until only lost jobs are late; None if impossible. O(accepted * profile) a round."""
        promoted: frozenset[str] = frozenset()
        while True:
            draft = self.draft(final, promoted, newcomer, now, lost)
            if draft.keeps_all:
                return draft
            grown = promoted | {job.id for _, _, job in draft.late}
            if draft.late_promoted:
                grown = self._grown(promoted, draft.late_promoted)
            if grown == promoted:
                return None
            promoted = grown

    def in_one_pass(self, final: AvailabilityProfile, newcomer: NewJob, now: float) -> CandidatePlan:
        """Promote as published: late jobs, and once the jobs before them (`each`: before one at a time)."""
        draft = self.draft(final, frozenset(), newcomer, now)
        if draft.late:
            promoted = frozenset(job.id for _, _, job in draft.late)
            draft = self.draft(final, promoted, newcomer, now, anyway=True)
            while draft.late_promoted:
                grown = self._grown(promoted, draft.late_promoted)
                if grown == promoted:
                    break
                promoted = grown
                draft = self.draft(final, promoted, newcomer, now, anyway=True)
                if self._promote == "max":
                    break
        return draft

    def _grown(self, promoted: frozenset[str], late: list[Entry]) -> frozenset[str]:
        """Also promote the jobs before a late promoted job. Return the same set if there are none."""
        for last in [late[-1]] if self._promote == "max" else late:
            before = {job_id for job_id, entry in self._entries.items() if entry < last}
            if not before <= promoted:
                return promoted | before
        return promoted

    def draft(
        self,
        final: AvailabilityProfile,
        promoted: frozenset[str],
        newcomer: NewJob,
        now: float,
        lost: Container[str] = (),
        *,
        anyway: bool = False,
    ) -> CandidatePlan:
        """Place promoted jobs, the new one, then the others; stop at a late promoted one unless `anyway`."""
        final = final.copy()
        in_order = self._in_order()
        places: dict[str, float] = {}
        freed_from = math.inf  # the earliest time at which a moved job freed processors
        for _, _, job in in_order:
            if job.id in promoted:
                place = places[job.id] = final.earliest(job.n_procs, self._span_s(job), now)
                final.take(job.n_procs, place, instant(place, self._span_s(job)))
                if place != self.places[job.id]:
                    freed_from = min(freed_from, self.places[job.id])
        late_promoted = self._late(in_order, places, lost)
        if late_promoted and not anyway:
            return CandidatePlan(final, final, places, now, {}, [], late_promoted)
        newcomer_at = now
        if newcomer.n:
            newcomer_at = final.earliest(newcomer.n, newcomer.span_s, now)
            final.take(newcomer.n, newcomer_at, instant(newcomer_at, newcomer.span_s))
        full = final.copy()
        others = [entry for entry in in_order if entry[2].id not in promoted]
        provisional = self._placed(others, full, now, freed_from)
        return CandidatePlan(
            final, full, places, newcomer_at, provisional, self._late(others, provisional, lost), late_promoted
        )

    def _late(self, entries: Iterable[Entry], places: Mapping[str, float], lost: Container[str]) -> list[Entry]:
        late = self._late_at(places)
        if not late:
            return []
        return [entry for entry in entries if entry[2].id in late and entry[2].id not in lost]

    def placed(self, full: AvailabilityProfile, now: float) -> dict[str, float]:
        """Place all jobs in queue order into a profile, each as early as possible. O(accepted * profile)."""
        return self._placed(self._in_order(), full, now, -math.inf)

    def _placed(
        self, entries: list[Entry], full: AvailabilityProfile, now: float, freed_from: float
    ) -> dict[str, float]:
        """Place jobs in order into a profile, each as early as possible. O(accepted * profile)."""
        ids = [job.id for _, _, job in entries]
        sizes, spans_s = [job.n_procs for _, _, job in entries], [self._limits[job_id][0] for job_id in ids]
        before = [self.places[job_id] for job_id in ids]
        found = full.place_anew(now, -math.inf if self.is_stale else freed_from, sizes, spans_s, before)
        return dict(zip(ids, found, strict=True))


def meets(deadline_at: float, place: float, span_s: float) -> bool:
    """Return whether a job with this start meets its deadline."""
    return place + span_s <= deadline_at + HALF_TICK
