"""Deadline-based backfilling (N'Takpé and Suter, Compas 2016): jobs with deadlines are delayed as far as possible.

Regular jobs are planned as in conservative backfilling. A job with a deadline is *accepted* if it can meet it when it
arrives. It then has a provisional reservation: every new regular job is placed before it, and it moves back, as long as
its deadline allows. Accepted jobs that would miss their deadlines are *promoted*: they get a final reservation before
the new job does.

One pass of the published procedure can promote too few jobs and miss accepted deadlines, so by default it is repeated
until every accepted deadline is met (`fixpoint`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from pybatsched import (
    DeadlineFields,
    Decision,
    JobState,
    LocalPolicy,
    LocalScheduler,
    QueueFields,
    QueueOptions,
    Reason,
    RejectJob,
    instant,
)
from pybatsched_schedulers.backfilling_options import ConservativeOptions
from pybatsched_schedulers.conservative import TOLERANCE, ConservativeScheduler, upcoming
from pybatsched_schedulers.dbf.accepted_jobs import NO_JOB, AcceptedJobs, CandidatePlan, Entry, NewJob, Promote, meets

if TYPE_CHECKING:
    from pybatsched import AvailabilityProfile, Job, Partition


class DbfOptions(ConservativeOptions):
    """Options of deadline-based backfilling."""

    fixpoint: bool = Field(
        True,
        description="repeat the placement until all accepted deadlines are met; false is the published single pass",
    )
    promote: Promote = Field(
        "max",
        description="if promoted jobs would still miss their deadlines, promote all jobs submitted before the last of "
        "these (max), or before the first of these and repeat (each)",
    )
    infeasible: Literal["regular", "reject"] = Field(
        "regular", description="a job that cannot meet its deadline when it arrives is treated as regular, or rejected"
    )


class DbfFields(QueueFields, DeadlineFields):
    """The job fields of deadline-based backfilling: the deadline."""

    model_config = ConfigDict(defer_build=True)


class DbfScheduler(ConservativeScheduler):
    """Deadline-based backfilling on one partition.

    The final reservations are those of conservative backfilling; `_accepted` holds the provisional ones. Without
    deadlines this is conservative backfilling. O(profile) for a regular arrival that moves no provisional reservation,
    else O(accepted * profile) for each round of promotions.
    """

    promises = False  # jobs with deadlines move back for regular ones
    _is_steady = False

    def __init__(self, partition: Partition, options: QueueOptions | None = None) -> None:
        super().__init__(partition, options)
        rules = options if isinstance(options, DbfOptions) else DbfOptions.model_validate({})
        self._repeats = rules.fixpoint
        self.rejects_later = rules.infeasible == "reject"
        self._wanted: dict[str, float] = {}  # deadlines of jobs without a reservation
        self._promises: dict[str, float] = {}  # accepted deadlines of unfinished jobs
        self.n_accepted = 0
        self._infeasible: set[str] = set()  # jobs whose deadline was never accepted
        self._broken: list[str] = []
        self._refused: list[Job] = []
        self._accepted = AcceptedJobs(self.span_s, rules.promote)
        self._full: AvailabilityProfile | None = (
            None  # with provisional reservations; None: rebuild it when it is needed
        )

    # --- what happened ---

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue. O(log queue)."""
        deadline_at = job.deadline_at()
        if deadline_at is not None:
            self._wanted[job.id] = deadline_at
        super().submit(job, now, front=front)

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a job from the queue, and its accepted deadline."""
        self._wanted.pop(job.id, None)
        self._promises.pop(job.id, None)
        if job in self._refused:
            self._refused.remove(job)
        elif job.id in self._accepted:
            self._accepted.remove(job)
            self._full = None
            self._accepted.is_stale = self._must_compress = True
        else:
            super().withdraw(job, now)
            return
        LocalScheduler.withdraw(self, job, now)

    def refuse(self, job: Job, now: float) -> None:
        """Remove a rejected job from the queue; an accepted deadline counts as missed."""
        deadline_at = self._promises.get(job.id)
        if deadline_at is not None:
            self._broken.append(f"job {job.id} was accepted with the deadline {deadline_at} and is rejected at {now}")
        super().refuse(job, now)

    def ended(self, job: Job, now: float) -> None:
        """Release the rest of its allocation, and check its deadline."""
        super().ended(job, now)
        if job.state is JobState.WAITING:
            return  # it was requeued: the accepted deadline is still valid
        deadline_at = self._promises.pop(job.id, math.inf)
        ended_at = now if job.ended_at is None else job.ended_at  # `now` may be later
        if ended_at > deadline_at + TOLERANCE:
            self._broken.append(f"job {job.id} was accepted with the deadline {deadline_at} and ended at {ended_at}")

    def is_promised(self, job: Job) -> bool:
        """Return whether a job's deadline was accepted."""
        return job.id in self._promises

    @property
    def n_infeasible(self) -> int:
        """The number of jobs whose deadline was not accepted. A requeued job counts once."""
        return len(self._infeasible)

    def broken_promises(self) -> Iterable[str]:
        """Return a line for each accepted deadline that was missed."""
        return self._broken

    def _release(self, n: int, start_at: float, end_at: float) -> None:
        super()._release(n, start_at, end_at)
        self._full = None
        self._accepted.is_stale |= not self.compression  # only the next arrival moves jobs forward

    # --- the plan ---

    def plan(self, now: float) -> Iterator[Decision]:
        """Plan accepted jobs, then all others."""
        yield from super().plan(now)
        while self._refused:
            job = self._refused[0]
            reason = ("cannot meet its deadline {}", self._wanted[job.id])
            self.refuse(job, now)  # a requeued job may have an accepted deadline
            yield RejectJob(job.id, reason=reason)

    def _due(self, now: float) -> list[Entry]:
        due, provisional = super()._due(now), self._accepted.by_place
        if provisional and provisional[0][0] <= now:
            due += [entry for entry in provisional if entry[0] <= now]
            due.sort()
        return due

    def _upcoming(self, after: float) -> Iterator[tuple[float, Job]]:
        final, provisional = super()._upcoming(after), upcoming(self._accepted.by_place, after)
        return heapq.merge(final, provisional, key=lambda found: found[0])

    def _forget(self, entry: Entry) -> tuple[float, float]:
        job = entry[2]
        if job.id not in self._accepted:
            return super()._forget(entry)
        place = self._accepted.remove(job)
        end_at = instant(place, self.span_s(job))
        self._profile.take(job.n_procs, place, end_at)  # the reservation of a starting job is final
        return place, end_at

    def _update_plan(self, now: float) -> None:
        if self._full is not None:
            self._full.advance(now)
        provisional = self._accepted.by_place
        if provisional and provisional[0][0] < now - TOLERANCE:
            self._must_repair = True
        super()._update_plan(now)

    def _goes_first(self, job: Job) -> bool:
        return super()._goes_first(job) and job.id not in self._wanted

    def _place_newcomer(self, job: Job, now: float) -> None:
        """Accept a job with a feasible deadline; place any other job before all accepted ones."""
        deadline_at = self._wanted.get(job.id)
        if deadline_at is None:
            self._insert(job, now)
            return
        full, span_s = self._with_provisional(), self.span_s(job)
        place = full.earliest(job.n_procs, span_s, now)
        is_met = meets(deadline_at, place, span_s)
        if job.id not in self._promises:  # else it was requeued
            self.n_accepted += is_met
            (self._infeasible.discard if is_met else self._infeasible.add)(job.id)
        if is_met:
            self._full = full if self._accepted else full.copy()
            self._full.take(job.n_procs, place, instant(place, span_s))
            self._promises[job.id] = self._wanted.pop(job.id)
            if not self._accepted.add(self._entries[job.id], deadline_at, place):
                self._accepted.is_stale = self._wakes = True  # it was placed behind jobs of lower rank
        elif self.rejects_later:
            self._refused.append(job)
        else:
            del self._wanted[job.id]
            self._insert(job, now)

    def _with_provisional(self) -> AvailabilityProfile:
        """Return the profile with all reservations. O(1), or O(accepted * profile) after a change."""
        if not self._accepted:
            self._full = None
            return self._profile
        if self._full is None:
            self._full = self._profile.copy()
            self._accepted.take_all(self._full)
        return self._full

    def _insert(self, job: Job, now: float) -> None:
        """Place a regular job, before all accepted jobs that can still be delayed."""
        newcomer = NewJob(job.n_procs, self.span_s(job))
        if not self._accepted:
            super()._place_newcomer(job, now)
            return
        place = self._profile.earliest(*newcomer, now)
        end_at = instant(place, newcomer.span_s)
        full = self._with_provisional()
        retries = not self._repeats and bool(self._accepted.lost())  # one pass promotes late jobs at each arrival
        if self._accepted.is_stale or retries or not full.fits(newcomer.n, place, end_at):
            self._adopt(self._drafted(newcomer, now, self._accepted.lost()), now, job)
        else:  # no provisional reservation moves
            full.take(newcomer.n, place, end_at)
            self._take(job, place)

    def _drafted(self, newcomer: NewJob, now: float, lost: Container[str]) -> CandidatePlan | None:
        """Return a plan for a new job; None if no set of promotions meets all deadlines but the lost ones."""
        if self._repeats:
            return self._accepted.saved(self._profile, newcomer, now, lost)
        return self._accepted.in_one_pass(self._profile, newcomer, now)

    def _adopt(self, draft: CandidatePlan | None, now: float, newcomer: Job | None) -> None:
        """Adopt a draft as the plan. Without one, all provisional reservations become final, before the new job."""
        if draft is None:
            self._wakes = True  # these reservations may start without another event
            final = self._with_provisional()
            newcomer_at = now
            if newcomer is not None:
                newcomer_at = final.earliest(newcomer.n_procs, self.span_s(newcomer), now)
                final.take(newcomer.n_procs, newcomer_at, instant(newcomer_at, self.span_s(newcomer)))
            draft = CandidatePlan(final, final, self._accepted.places, newcomer_at, {}, [], [])
        self._profile = draft.final
        self._accepted.move(draft.provisional)
        self._full = draft.full if self._accepted else None
        self._accepted.is_stale = False
        for job_id, place in draft.promoted.items():
            self._record(self._entries[job_id][2], place)
        if newcomer is not None:
            self._record(newcomer, draft.newcomer_at)

    def _compress(self, now: float) -> None:
        """Move final reservations forward, then place the accepted jobs again; undo it if one would become late."""
        if not self._accepted:
            super()._compress(now)
            return
        if not (self._accepted.is_stale or self._freed.any_since(self._n_seen_by_all)):
            return
        before = (self._profile.copy(), self._reservations.copy(), self._freed.copy(), self._n_seen_by_all)
        super()._compress(now)
        full = self._profile.copy()
        places = self._accepted.placed(full, now)
        if self._accepted.is_late_in(places):
            self._profile, self._reservations, self._freed, self._n_seen_by_all = before
            self._n_stale = 1
            self._accepted.is_stale = self._wakes = True  # kept reservations may start without another event
            return
        self._accepted.move(places)
        self._accepted.is_stale = False
        self._full = full

    def _repair(self, now: float) -> None:
        """Rebuild the plan from the running jobs. Feasible deadlines are kept by promotion."""
        super()._repair(now)
        self._full = None
        if self._accepted:
            self._accepted.is_stale = True
            lost = self._accepted.lost_in(self._profile, now)
            draft = self._drafted(NO_JOB, now, lost)
            self._adopt(draft or self._accepted.draft(self._profile, frozenset(), NO_JOB, now), now, None)

    # --- queries ---

    def estimated_start(self, n: int, duration_s: float, now: float, latest: float) -> float:
        """Return the start of a regular job of this size if it were submitted now. Costs as its arrival."""
        start = super().estimated_start(n, duration_s, now, latest)
        if start == math.inf or not self._accepted or self.partition.n_kills_pending:
            return start
        draft = self._drafted(NewJob(n, duration_s), now, self._accepted.lost())
        return self._with_provisional().earliest(n, duration_s, now) if draft is None else draft.newcomer_at

    def planned_start(self, job: Job, now: float) -> float | None:
        """Return a waiting job's reserved start, final or provisional. O(1) if the plan is up to date."""
        place = super().planned_start(job, now)
        if place is None:
            place = self._accepted.places.get(job.id, math.inf)
        return None if place == math.inf else max(place, now)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return the job's reserved start."""
        if job.id in self._accepted and not self.partition.n_kills_pending:
            return (
                "planned to start at {}, or later if regular jobs come; its deadline is {}",
                self._accepted.places[job.id],
                self._promises[job.id],
            )
        return super().why_waiting(job, now)


class Dbf(LocalPolicy):
    """Deadline-based backfilling: jobs with deadlines are delayed for those without, as far as possible."""

    references = (
        """\
@inproceedings{ntakpe2016prise,
  author = {N'Takp{\\'e}, Tchimou and Suter, Fr{\\'e}d{\\'e}ric},
  title = {Prise en compte de t{\\^a}ches non-prioritaires dans l'ordonnancement batch},
  booktitle = {Conf{\\'e}rence d'informatique en Parall{\\'e}lisme, Architecture et Syst{\\`e}me (Compas 2016)},
  year = {2016},
  url = {https://inria.hal.science/hal-01420693},
}""",
    )
    Options: ClassVar[type[Any]] = DbfOptions
    JobFields: ClassVar[type[Any]] = DbfFields
    reserves = True
    scheduler = DbfScheduler

    def figures(self) -> Mapping[str, float]:
        """Return how many deadlines were accepted, and how many could not be met when the job was submitted."""
        assert isinstance(self.local, DbfScheduler)
        found = {"n_deadlines_accepted": self.local.n_accepted, "n_deadlines_infeasible": self.local.n_infeasible}
        return found if any(found.values()) else {}
