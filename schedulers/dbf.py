"""Deadline-based backfilling (N'Takpé and Suter, Compas 2016): jobs that can wait make room for those that cannot.

Regular jobs are planned as in conservative backfilling, for good. A job with a deadline is *accepted* if it can meet it
when it arrives; from then on it has a place that is provisional: every regular job that comes is placed before it, and
it moves back, as long as its deadline allows. Accepted jobs that would miss theirs are *promoted*: they get a final
place before the newcomer does.

One pass of the published procedure can promote too few jobs and break its own promise, so by default it is repeated
until every accepted deadline is safe (`fixpoint`).
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import Field

from pybatsched.decisions import Decision, Reason, RejectJob
from pybatsched.instants import HALF_TICK, instant
from pybatsched.jobs import JobState
from pybatsched.local import LocalPolicy, LocalScheduler, QueueOptions
from pybatsched.ordered import take_out
from pybatsched.profile import Profile
from pybatsched_schedulers.conservative import TOLERANCE, ConservativeOptions, ConservativeScheduler

if TYPE_CHECKING:
    from pybatsched.cluster import Partition
    from pybatsched.jobs import Job

Entry: TypeAlias = "tuple[float, int, Job]"


class DbfOptions(ConservativeOptions):
    """Options of deadline-based backfilling."""

    fixpoint: bool = Field(
        True,
        description="repeat the placement until all accepted deadlines are safe; false is the published single pass",
    )
    promote: Literal["max", "each"] = Field(
        "max",
        description="where promoted jobs alone would miss their deadlines, promote all that came before the last of "
        "these (max), or before the first and look again (each)",
    )
    infeasible: Literal["regular", "reject"] = Field(
        "regular", description="a job that cannot meet its deadline when it arrives is treated as regular, or rejected"
    )


class Draft(NamedTuple):
    """A plan that may come to be: with some accepted jobs promoted, and a newcomer behind them.

    `final` is the profile of what runs and of all final places, `full` has the provisional places as well. `late` would
    miss their deadlines among those with provisional places, `late_promoted` among the promoted; if there are any of
    these, the provisional places were not looked for.
    """

    final: Profile
    full: Profile
    promoted: dict[str, float]
    newcomer_at: float
    provisional: dict[str, float]
    late: list[Entry]
    late_promoted: list[Entry]

    @property
    def keeps_all(self) -> bool:
        """Whether every accepted deadline is met."""
        return not self.late and not self.late_promoted


class DbfScheduler(ConservativeScheduler):
    """Deadline-based backfilling on one partition.

    The final places are those of conservative backfilling, which this is as long as no job has a deadline; provisional
    ones lie over them. O(profile) for a regular arrival that disturbs no provisional place, else O(provisional *
    profile) for each round of promotions.
    """

    def __init__(self, partition: Partition, options: QueueOptions | None = None) -> None:
        super().__init__(partition, options)
        self._rules = options if isinstance(options, DbfOptions) else DbfOptions.model_validate({})
        self._deadlines: dict[str, float] = {}  # of newcomers and of jobs with provisional places
        self._promises: dict[str, float] = {}  # accepted deadlines of jobs that are not over
        self._broken: list[str] = []
        self._refused: list[Job] = []
        self._provisional: dict[str, float] = {}
        self._by_provisional: list[Entry] = []  # (place, arrival, job), sorted
        self._full: Profile | None = None  # with provisional places; None: make it anew when it is asked for
        #: Whether provisional places may be others than placing the jobs in queue order would give.
        self._stale = False

    # --- what happened ---

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue. Raises InputError for a deadline that is none. O(log queue)."""
        deadline_at = job.deadline_at()
        if deadline_at is not None:
            self._deadlines[job.id] = deadline_at
        super().submit(job, now, front=front)

    def withdraw(self, job: Job, now: float) -> None:
        """Take a job out of the queue, and its promise back."""
        self._deadlines.pop(job.id, None)
        self._promises.pop(job.id, None)
        if job.id not in self._provisional:
            super().withdraw(job, now)
            return
        place = self._provisional.pop(job.id)
        take_out(self._by_provisional, (place, self._entries[job.id][1], job))
        LocalScheduler.withdraw(self, job, now)
        self._full = None
        self._stale = self._must_compress = True

    def ended(self, job: Job, now: float) -> None:
        """Give back what is left of its time, and see whether its deadline was met."""
        super().ended(job, now)
        deadline_at = self._promises.pop(job.id, math.inf)
        if now > deadline_at + TOLERANCE and job.state is not JobState.WAITING:
            self._broken.append(f"job {job.id} was accepted with the deadline {deadline_at} and ended at {now}")

    def broken_promises(self) -> Iterable[str]:
        """Tell the accepted deadlines that were missed."""
        return self._broken

    def _gain(self, n: int, start_at: float, end_at: float) -> None:
        super()._gain(n, start_at, end_at)
        self._full = None
        self._stale |= not self.compression  # nobody will move anybody forward but the next arrival

    # --- the plan ---

    def _plan(self, now: float) -> Iterator[Decision]:
        yield from super()._plan(now)
        while self._refused:
            job = self._refused.pop(0)
            deadline_at = self._deadlines.pop(job.id)
            take_out(self.queue, self._entries.pop(job.id))
            yield RejectJob(job.id, reason=("cannot meet its deadline {}", deadline_at))

    def _due(self, now: float) -> list[Entry]:
        due = super()._due(now)
        if self._by_provisional and self._by_provisional[0][0] <= now:
            due += [entry for entry in self._by_provisional if entry[0] <= now]
            due.sort()
        return due

    def _next(self) -> tuple[float, Job | None]:
        final = super()._next()
        if self._by_provisional and self._by_provisional[0][0] < final[0]:
            return self._by_provisional[0][0], self._by_provisional[0][2]
        return final

    def _forget(self, job: Job, arrival: int) -> float:
        place = self._provisional.pop(job.id, None)
        if place is None:
            return super()._forget(job, arrival)
        del self._deadlines[job.id]
        take_out(self._by_provisional, (place, arrival, job))
        self._profile.take(job.n_procs, place, instant(place, self.span_s(job)))  # what starts is final
        return place

    def _settle(self, now: float) -> None:
        if self._full is not None:
            self._full.advance(now)
        if self._by_provisional and self._by_provisional[0][0] < now - TOLERANCE:
            self._must_repair = True
        super()._settle(now)

    def _welcome(self, job: Job, now: float) -> None:
        """Accept a job with a deadline that can be met; place any other before all accepted ones."""
        deadline_at = self._deadlines.get(job.id)
        if deadline_at is None:
            self._insert(job, now)
            return
        full = self._with_provisional()
        place = full.earliest(job.n_procs, self.span_s(job), now)
        if self._meets(job, place):
            self._full = full if self._provisional else full.copy()
            self._full.take(job.n_procs, place, instant(place, self.span_s(job)))
            self._promises[job.id] = deadline_at
            self._provisional[job.id] = place
            insort(self._by_provisional, (place, self._entries[job.id][1], job))
        elif self._rules.infeasible == "reject":
            self._refused.append(job)
        else:
            self._insert(job, now)

    def _meets(self, job: Job, place: float) -> bool:
        return place + self.span_s(job) <= self._deadlines[job.id] + HALF_TICK

    def _with_provisional(self) -> Profile:
        """Give the profile of all there is. O(1), or O(provisional * profile) after a change below."""
        if not self._provisional:
            self._full = None
            return self._profile
        if self._full is None:
            self._full = self._profile.copy()
            for place, _, job in self._by_provisional:
                self._full.take(job.n_procs, place, instant(place, self.span_s(job)))
        return self._full

    def _insert(self, job: Job, now: float) -> None:
        """Give a regular job its final place, before all accepted jobs that can still wait."""
        self._deadlines.pop(job.id, None)
        n, span_s = job.n_procs, self.span_s(job)
        if self._provisional and self._stale:
            self._adopt(self._drafted(n, span_s, now), now, job)
            return
        place = self._profile.earliest(n, span_s, now)
        if self._provisional:
            full = self._with_provisional()
            if not full.fits(n, place, instant(place, span_s)):
                self._adopt(self._drafted(n, span_s, now), now, job)
                return
            full.take(n, place, instant(place, span_s))  # it disturbs nobody
        self._note(job, self._take(job, place))

    def _drafted(self, n: int, span_s: float, now: float) -> Draft | None:
        """Find a plan for a newcomer of this size and time. None if no set of promotions saves all deadlines."""
        if not self._rules.fixpoint:
            return self._in_one_pass(n, span_s, now)
        promoted: frozenset[str] = frozenset()
        while True:
            draft = self._draft(promoted, n, span_s, now)
            if draft.keeps_all:
                return draft
            grown = promoted | {job.id for _, _, job in draft.late}
            if draft.late_promoted:
                grown = self._grown(promoted, draft.late_promoted)
            if grown == promoted:
                return None
            promoted = grown

    def _in_one_pass(self, n: int, span_s: float, now: float) -> Draft:
        """Promote as it is published: once those at risk, once those before them; what is missed then is missed."""
        draft = self._draft(frozenset(), n, span_s, now)
        if draft.late:
            promoted = frozenset(job.id for _, _, job in draft.late)
            draft = self._draft(promoted, n, span_s, now, anyway=True)
            while draft.late_promoted:
                grown = self._grown(promoted, draft.late_promoted)
                if grown == promoted:
                    break
                promoted = grown
                draft = self._draft(promoted, n, span_s, now, anyway=True)
                if self._rules.promote == "max":
                    break
        return draft

    def _grown(self, promoted: frozenset[str], late: list[Entry]) -> frozenset[str]:
        """Promote also those who came before a promoted job that would be late. The same set if there are none."""
        ends = [late[-1]] if self._rules.promote == "max" else late
        for last in ends:
            before = {job.id for _, _, job in self._accepted() if self._entries[job.id] < last}
            if not before <= promoted:
                return promoted | before
        return promoted

    def _accepted(self) -> list[Entry]:
        """Give the jobs with provisional places, in queue order. O(provisional * log provisional)."""
        return sorted(self._entries[job_id] for job_id in self._provisional)

    def _draft(self, promoted: frozenset[str], n: int, span_s: float, now: float, *, anyway: bool = False) -> Draft:
        """Place the promoted jobs, then a newcomer (of 0 processors for none), then the other accepted ones.

        Stops when a promoted job is late, unless `anyway`. O(accepted * profile).
        """
        accepted = self._accepted()
        final = self._profile.copy()
        places: dict[str, float] = {}
        late: list[Entry] = []
        freed_from = math.inf  # the earliest instant at which somebody who moved has left room
        for entry in accepted:
            if entry[2].id in promoted:
                job = entry[2]
                place = places[job.id] = final.earliest(job.n_procs, self.span_s(job), now)
                final.take(job.n_procs, place, instant(place, self.span_s(job)))
                if place != self._provisional[job.id]:
                    freed_from = min(freed_from, self._provisional[job.id])
                if not self._meets(job, place):
                    late.append(entry)
        if late and not anyway:
            return Draft(final, final, places, now, {}, [], late)
        newcomer_at = final.earliest(n, span_s, now) if n else now
        if n:
            final.take(n, newcomer_at, instant(newcomer_at, span_s))
        full = final.copy()
        others = [entry for entry in accepted if entry[2].id not in promoted]
        provisional, behind = self._replaced(others, full, now, freed_from)
        return Draft(final, full, places, newcomer_at, provisional, behind, late)

    def _replaced(
        self, accepted: list[Entry], full: Profile, now: float, freed_from: float = math.inf
    ) -> tuple[dict[str, float], list[Entry]]:
        """Place jobs in order into a profile, each as early as it can be. Gives the places, and who is late.

        Who had the best place there was can only find a better one where room was freed before it.
        """
        places: dict[str, float] = {}
        late = []
        if self._stale:
            freed_from = -math.inf
        for entry in accepted:
            job = entry[2]
            n, span_s, place = job.n_procs, self.span_s(job), self._provisional[job.id]
            if freed_from < place:
                better = full.earliest(n, span_s, max(now, full.step_at(freed_from - span_s)))
            elif place != math.inf and full.fits(n, place, instant(place, span_s)):
                better = place
            else:
                better = full.earliest(n, span_s, max(now, place) if place != math.inf else now)
            full.take(n, better, instant(better, span_s))
            if better != place:
                freed_from = min(freed_from, place)
            places[job.id] = better
            if not self._meets(job, better):
                late.append(entry)
        return places, late

    def _adopt(self, draft: Draft | None, now: float, newcomer: Job | None) -> None:
        """Make a draft the plan. Without one, all accepted jobs keep their places for good, before the newcomer."""
        if draft is None:
            self._wakes = True  # these places may begin when nothing ends
            final = self._with_provisional()
            promoted, provisional = dict(self._provisional), dict[str, float]()
            newcomer_at = now
            if newcomer is not None:
                n, span_s = newcomer.n_procs, self.span_s(newcomer)
                newcomer_at = final.earliest(n, span_s, now)
                final.take(n, newcomer_at, instant(newcomer_at, span_s))
            full = None
        else:
            final, full, promoted, newcomer_at, provisional = draft[:5]
        self._profile, self._full = final, full
        self._keep(provisional)
        for job_id, place in promoted.items():
            self._note(self._entries[job_id][2], place)
            del self._deadlines[job_id]
        if newcomer is not None:
            self._note(newcomer, newcomer_at)
        self._stale = False

    def _keep(self, provisional: Mapping[str, float]) -> None:
        """Take over provisional places."""
        self._provisional = dict(provisional)
        entries = self._entries
        self._by_provisional = sorted((place, *entries[job_id][1:]) for job_id, place in provisional.items())

    def _compress(self, now: float) -> None:
        """Move final places forward, then place the accepted jobs again; keep all as it was if one would be late."""
        if not self._provisional:
            super()._compress(now)
            return
        if not (self._stale or self._gains.any_since(self._n_seen_by_all)):
            return
        before = (
            self._profile.copy(),
            self._places.copy(),
            self._by_place.copy(),
            self._seen.copy(),
            self._gains.copy(),
            self._n_seen_by_all,
        )
        super()._compress(now)
        self._stale = True  # room was freed anywhere
        full = self._profile.copy()
        places, late = self._replaced(self._accepted(), full, now)
        if late:
            self._profile, self._places, self._by_place, self._seen, self._gains, self._n_seen_by_all = before
            self._wakes = True  # the places kept may begin when nothing ends
            return
        self._keep(places)
        self._full = full
        self._stale = False

    def _repair(self, now: float) -> None:
        """Make the plan fit what really runs. Deadlines are saved by promotion where they still can be."""
        super()._repair(now)
        self._full = None
        if self._provisional:
            self._stale = True
            self._adopt(self._drafted(0, 0.0, now) or self._draft(frozenset(), 0, 0.0, now), now, None)

    # --- questions ---

    def estimate(self, n: int, duration_s: float, now: float) -> float | None:
        """Say when a regular job of this size would be placed if it came now. As costly as its arrival."""
        start = super().estimate(n, duration_s, now)
        if start is None or not self._provisional:
            return start
        draft = self._drafted(n, duration_s, now)
        at = self._with_provisional().earliest(n, duration_s, now) if draft is None else draft.newcomer_at
        return None if at == math.inf else at

    def planned_start(self, job: Job, now: float) -> float | None:
        """Give a waiting job's place, final or provisional. O(1) if the plan is up to date."""
        place = super().planned_start(job, now)
        if place is None:
            place = self._provisional.get(job.id, math.inf)
        return None if place == math.inf else max(place, now)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Tell the job's present place in the plan."""
        if job.id in self._provisional and not self.partition.n_kills_pending:
            return (
                "planned to start at {}, or later if regular jobs come; its deadline is {}",
                self._provisional[job.id],
                self._deadlines[job.id],
            )
        return super().why_waiting(job, now)


class Dbf(LocalPolicy):
    """Deadline-based backfilling: jobs with deadlines step back for those without, as far as they can."""

    Options: ClassVar[type[Any]] = DbfOptions
    scheduler = DbfScheduler
