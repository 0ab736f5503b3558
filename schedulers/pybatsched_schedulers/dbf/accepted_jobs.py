"""Accepted jobs of deadline-based backfilling: their provisional places, and drafts of other plans for them.

A *draft* is a plan that may come to be. It promotes some of the accepted jobs to final places, puts a newcomer behind
them, and finds provisional places for the others behind that, each as early as it can be, in queue order.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pybatsched import HALF_TICK, AvailabilityProfile, instant, take_out

if TYPE_CHECKING:
    from pybatsched import Job
    from pybatsched_schedulers.plan_options import Promote

Entry: TypeAlias = "tuple[float, int, Job]"


class NewJob(NamedTuple):
    """A regular job by what it asks for; one of 0 processors is none."""

    n: int
    span_s: float


NO_JOB = NewJob(0, 0.0)


class Draft(NamedTuple):
    """A plan that may come to be.

    `final` is the profile of what runs and of all final places, `full` has the provisional ones as well. `late` would
    miss their deadlines among those with provisional places, `late_promoted` among the promoted; if there are any of
    these, the provisional places were not looked for. Jobs that are lost anyway are not counted as late.
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
        """Whether every deadline is met that can be."""
        return not self.late and not self.late_promoted


class AcceptedJobs:
    """Jobs whose deadlines were accepted and whose places may still change.

    `by_place` holds (place, arrival, job), sorted. `is_stale` says that places may be others than placing the jobs in
    queue order would give; as long as they are not, a job has the best place there was.
    """

    def __init__(self, span_s: Callable[[Job], float], promote: Promote) -> None:
        self.places: dict[str, float] = {}
        self.by_place: list[Entry] = []
        self.is_stale = False
        self._limits: dict[str, tuple[float, float]] = {}  # how long each is to run, and when it must be over
        self._entries: dict[str, Entry] = {}
        self._sorted: list[Entry] | None = []  # these in queue order; None: sort them when they are asked for
        self._span_s = span_s
        self._promote = promote

    def __bool__(self) -> bool:
        return bool(self.places)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self.places

    def add(self, entry: Entry, deadline_at: float, place: float) -> bool:
        """Take in a job of the queue. Gives whether it comes last in queue order. O(accepted)."""
        job = entry[2]
        is_last = all(other < entry for other in self._entries.values())
        self._limits[job.id] = (self._span_s(job), deadline_at + HALF_TICK)
        self._entries[job.id] = entry
        self._sorted = None
        self.places[job.id] = place
        insort(self.by_place, (place, entry[1], job))
        return is_last

    def remove(self, job: Job) -> float:
        """Let go of a job that starts, is promoted or leaves the queue. Gives its place. O(accepted), quickly."""
        place = self.places.pop(job.id)
        take_out(self.by_place, (place, self._entries.pop(job.id)[1], job))
        del self._limits[job.id]
        self._sorted = None
        return place

    def move(self, places: Mapping[str, float]) -> None:
        """Give all jobs other places; who has none is let go of. O(accepted * log accepted)."""
        self.places = dict(places)
        if len(places) != len(self._entries):
            self._entries = {job_id: self._entries[job_id] for job_id in places}
            self._limits = {job_id: self._limits[job_id] for job_id in places}
            self._sorted = None
        self.by_place = sorted((place, *self._entries[job_id][1:]) for job_id, place in places.items())

    def _in_order(self) -> list[Entry]:
        """Give all jobs in queue order. O(1), and O(accepted * log accepted) after a change."""
        if self._sorted is None:
            self._sorted = sorted(self._entries.values())
        return self._sorted

    def take_all(self, profile: AvailabilityProfile) -> None:
        """Take what all jobs have reserved. O(accepted * profile)."""
        for place, _, job in self.by_place:
            profile.take(job.n_procs, place, instant(place, self._span_s(job)))

    def lost(self) -> set[str]:
        """Give the jobs that will miss their deadlines by the present plan. O(accepted)."""
        return self._late_at(self.places)

    def lost_in(self, final: AvailabilityProfile, now: float) -> set[str]:
        """Give the jobs that would miss their deadlines even if they were the next to be placed."""
        first = {job.id: final.earliest(job.n_procs, self._span_s(job), now) for _, _, job in self._entries.values()}
        return self._late_at(first)

    def is_late_in(self, places: Mapping[str, float]) -> bool:
        """Tell whether other places would make somebody late who is not by his present place."""
        return not self._late_at(places) <= self.lost()

    def _late_at(self, places: Mapping[str, float]) -> set[str]:
        late = set()
        for job_id, place in places.items():
            span_s, limit_at = self._limits[job_id]
            if place + span_s > limit_at:  # as `meets` says
                late.add(job_id)
        return late

    # --- drafts ---

    def saved(self, final: AvailabilityProfile, newcomer: NewJob, now: float, lost: Container[str]) -> Draft | None:
        """Promote until nobody is late but those who are lost. None if no set of promotions does that.

        A round costs O(accepted * profile), and every round promotes more.
        """
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

    def in_one_pass(self, final: AvailabilityProfile, newcomer: NewJob, now: float) -> Draft:
        """Promote as it is published: those at risk, and once those before them; what is missed then is missed.

        With ``promote="each"`` those before are found one late job at a time.
        """
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
        """Promote also those who came before a promoted job that would be late. The same set if there are none."""
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
    ) -> Draft:
        """Place the promoted jobs, then a newcomer, then the others. O(accepted * profile).

        Stops when a promoted job is late, unless `anyway`.
        """
        final = final.copy()
        in_order = self._in_order()
        places: dict[str, float] = {}
        freed_from = math.inf  # the earliest instant at which somebody who moved has left room
        for _, _, job in in_order:
            if job.id in promoted:
                place = places[job.id] = final.earliest(job.n_procs, self._span_s(job), now)
                final.take(job.n_procs, place, instant(place, self._span_s(job)))
                if place != self.places[job.id]:
                    freed_from = min(freed_from, self.places[job.id])
        late_promoted = self._late(in_order, places, lost)
        if late_promoted and not anyway:
            return Draft(final, final, places, now, {}, [], late_promoted)
        newcomer_at = now
        if newcomer.n:
            newcomer_at = final.earliest(newcomer.n, newcomer.span_s, now)
            final.take(newcomer.n, newcomer_at, instant(newcomer_at, newcomer.span_s))
        full = final.copy()
        others = [entry for entry in in_order if entry[2].id not in promoted]
        provisional = self._placed(others, full, now, freed_from)
        return Draft(
            final, full, places, newcomer_at, provisional, self._late(others, provisional, lost), late_promoted
        )

    def _late(self, entries: Iterable[Entry], places: Mapping[str, float], lost: Container[str]) -> list[Entry]:
        late = self._late_at(places)
        if not late:
            return []
        return [entry for entry in entries if entry[2].id in late and entry[2].id not in lost]

    def placed(self, full: AvailabilityProfile, now: float) -> dict[str, float]:
        """Place all jobs in queue order into a profile, wherever there is room. O(accepted * profile)."""
        return self._placed(self._in_order(), full, now, -math.inf)

    def _placed(
        self, entries: list[Entry], full: AvailabilityProfile, now: float, freed_from: float
    ) -> dict[str, float]:
        """Place jobs in order into a profile, each as early as it can be. O(accepted * profile)."""
        ids = [job.id for _, _, job in entries]
        sizes, spans_s = [job.n_procs for _, _, job in entries], [self._limits[job_id][0] for job_id in ids]
        before = [self.places[job_id] for job_id in ids]
        found = full.place_anew(now, -math.inf if self.is_stale else freed_from, sizes, spans_s, before)
        return dict(zip(ids, found, strict=True))


def meets(deadline_at: float, place: float, span_s: float) -> bool:
    """Tell whether a job that starts at a place is over in time."""
    return place + span_s <= deadline_at + HALF_TICK
