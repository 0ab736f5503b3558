"""Reallocation (Caniou, Charrier and Desprez, AusPDC 2011): a meta-scheduler over clusters with local schedulers.

Jobs of the grid are sized and submitted to the cluster where they are expected to end first (minimum completion time).
Walltimes are longer than run times, so plans are pessimistic. Every hour waiting jobs are checked again, and move to
another cluster if they are expected to end earlier there. Jobs that users submit directly to a cluster (*external*
jobs) do not move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pybatsched import (
    HALF_TICK,
    TICK,
    BatsimFeature,
    CallMeLater,
    Decision,
    ExecuteJob,
    InputError,
    LocalScheduler,
    QueuePolicy,
    Reason,
    RejectJob,
    Replace,
    Reshape,
    SetJobMetadata,
    StartAt,
    UntrustedFileError,
    fact_text,
    local_scheduler,
)
from pybatsched_schedulers.reallocation.grid import GridJob, Site, read_home, read_moldable, read_sites
from pybatsched_schedulers.reallocation.options import GridFields, ReallocationOptions
from pybatsched_schedulers.reallocation.sizing import MinMin, OfferSearch, SiteOffer

if TYPE_CHECKING:
    from pybatsched import Cluster, IntervalSet, Job, Partition, events


class Reallocation(QueuePolicy):
    """Submits jobs to the cluster where they end first, and moves waiting ones when plans have changed."""

    references = (
        """\
@inproceedings{caniou2011reallocation,
  author = {Caniou, Yves and Charrier, Ghislain and Desprez, Fr{\\'e}d{\\'e}ric},
  title = {Evaluation of Reallocation Heuristics for Moldable Tasks in Computational Grids},
  booktitle = {9th Australasian Symposium on Parallel and Distributed Computing (AusPDC 2011)},
  series = {Conferences in Research and Practice in Information Technology},
  volume = {118},
  year = {2011},
}""",
    )
    Options: ClassVar[type[Any]] = ReallocationOptions
    JobFields: ClassVar[type[Any]] = GridFields
    borrows = ("local",)
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})
    handles_oversized = True  # a moldable job may be smaller

    def on_begin(self, cluster: Cluster) -> None:
        """Read the clusters."""
        self._cluster = cluster
        self.sites = read_sites(cluster, self._made)
        self.locals = [site.local for site in self.sites]
        self._by_name = {site.name: site for site in self.sites}
        self._newcomers: list[GridJob | tuple[Job, Site]] = []
        self._waiting: dict[str, GridJob] = {}  # grid jobs in queues
        self._held: dict[str, GridJob] = {}  # grid jobs with held processors, until they end
        self._external: dict[str, Site] = {}  # unfinished external jobs
        # With one cluster no job can move, and a call would only run the local scheduler without need.
        algorithm = self.options.algorithm
        self._has_events = algorithm == "all_cancellation" or (algorithm == "regular" and len(self.sites) > 1)
        self._event_at = math.inf  # the next event, if a call was requested
        self._skipped_at = math.inf  # the next event, if no call was requested because it would change nothing
        self._was_waiting = False  # a grid job waited after the last message
        self._called_at: set[float] = set()  # the future times for which a call was requested
        self._quiet_version: int | None = None  # the version of the plans, if the last event did not change them
        self._quiet_until = math.inf  # from then on a search may have another result for the same plans
        self._are_bounds = True  # no job can exceed its estimate, so planned starts are upper bounds
        self._figures = dict.fromkeys(("n_moves", "n_moved_jobs", "n_events", "max_moves", "max_resubmitted"), 0)

    def _made(self, partition: Partition) -> LocalScheduler:
        options: ReallocationOptions = self.options
        try:
            local = local_scheduler(options.local, options.local_options, partition, files=self.trusted_files)
        except UntrustedFileError:
            raise  # its text contains the option and its source
        except InputError as error:
            raise InputError(f"policy reallocation, option local: {error}") from None
        if not local.promises:
            given = " with these local_options" if options.local_options else ""
            raise InputError(
                f"policy reallocation, option local: {options.local}{given} does not guarantee its planned starts, so "
                "expected ends are not reliable; expected conservative, or fcfs in the order of arrival"
            )
        return local

    def take_over(self, job: Job, now: float) -> bool:
        """Plan with a running job of an earlier policy; it does not move."""
        self._check_bound(job)
        return super().take_over(job, now)

    def _check_bound(self, job: Job) -> None:
        """Record whether a job can exceed its estimate."""
        self._are_bounds &= job.walltime is not None and job.estimate is not None and job.walltime <= job.estimate

    def on_job_submitted(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Keep the job until all events of this time are known."""
        moldable, home = read_moldable(job.fields), read_home(job.fields)
        if job.n_procs < 1:
            self._refuse(job, ("asks for {} processors", job.n_procs))
            return
        self._check_bound(job)
        if home is not None:
            site = self._by_name.get(home)
            if site is None:
                known = ", ".join(self._by_name)
                self._refuse(job, ("is external, and its cluster {} is not there, only {}", home, known))
            else:
                self._newcomers.append((job, site))
            return
        can_scale = self._cluster.can_reshape(job)
        if moldable is not None and not can_scale:
            text = "is moldable, but its profile {!r} is not known to be made of delays, so it can have no other size"
            self._refuse(job, (text, job.profile_name))
            return
        self._newcomers.append(GridJob(job, moldable, can_scale))

    def _refuse(self, job: Job, reason: Reason) -> None:
        self._urgent.append(RejectJob(job.id, reason=reason))

    def on_notify(self, event: events.Notify, now: float) -> None:
        """Submit waiting jobs to other clusters if their cluster has become too small for good."""
        without_cluster = []
        for one in self._waiting.values():
            site = one.site
            assert site is not None
            if site.partition.machines_settled and site.local.refusal(one.job) is not None:
                without_cluster.append(one)
        for one in without_cluster:
            self._withdraw(one, now)
            del self._waiting[one.job.id]
        self._newcomers[:0] = without_cluster  # they are older than the new jobs
        super().on_notify(event, now)

    def on_failure(self, job: Job, now: float) -> None:
        """Submit a job whose machine failed as a new one: to the cluster where it ends first."""
        self.on_job_submitted(job, now)

    def on_job_released(self, job: Job, procs: IntervalSet, now: float) -> None:
        """Return a held job that lost processors to the waiting jobs."""
        super().on_job_released(job, procs, now)
        if (one := self._held.pop(job.id, None)) is not None:
            self._waiting[job.id] = one

    def on_job_ended(self, job: Job, now: float) -> None:
        """Notify the scheduler of its cluster, and forget the job."""
        super().on_job_ended(job, now)
        self._held.pop(job.id, None)
        self._external.pop(job.id, None)

    def decide(self, now: float) -> Iterator[Decision]:
        """Submit the new jobs, move jobs if an event is due, and return the decisions of all clusters."""
        newcomers, self._newcomers = self._newcomers, []
        for newcomer in newcomers:
            if isinstance(newcomer, GridJob):
                yield from self._submit_first(newcomer, now)
            else:
                job, site = newcomer
                if self.submit_to(site.local, job, now):
                    self._external[job.id] = site
        if self._is_event(now) and self._waiting:
            yield from self._reallocate(now)
        for decision in super().decide(now):
            if isinstance(decision, ExecuteJob | StartAt | Replace):  # these remove a job from its queue
                facts = self._leave(decision.job_id, is_held=isinstance(decision, StartAt))
                yield SetJobMetadata(decision.job_id, facts, reason="where it goes")
            yield decision
        yield from self._ask_for_event(now)

    def _leave(self, job_id: str, *, is_held: bool) -> str:
        """Forget a job that leaves its queue to start now or later. Return the facts for its metadata."""
        one = self._waiting.pop(job_id, None)
        if one is None:
            return f"cluster={fact_text(self._external[job_id].name)}"
        if is_held:
            self._held[job_id] = one
        assert one.site is not None
        return f"moves={one.n_moves};resubmitted={one.n_resubmitted};cluster={fact_text(one.site.name)}"

    def _submit_first(self, one: GridJob, now: float) -> Iterator[Decision]:
        """Submit a job that is new or lost its cluster, or reject it if no cluster can hold it."""
        place = self._search(now, math.inf).best_place(one)
        if place is None:
            self._refuse(one.job, self._why_nowhere(one))
            return
        before, site = one.site, self.sites[place.nth]
        reason: Reason = ("cluster {} is where it ends first, at {:.12g}", site.name, place.end_at)
        if before is not None:
            text = "cluster {}, where it waited, is now too small for it; cluster {} is where it ends first, at {:.12g}"
            reason = (text, before.name, site.name, place.end_at)
            if before is not site:
                self._count_move(one)
        yield from self._submit(one, place, now, reason)

    def _why_nowhere(self, one: GridJob) -> Reason:
        job = one.job
        largest = max(site.partition.n_possible for site in self.sites)
        if job.n_procs_requested <= largest:
            text = (
                "no cluster can hold it: where there are {} processors they are faster than the slowest, and its times "
                "cannot be scaled, as its profile {!r} is not known to be made of delays"
            )
            return (text, job.n_procs_requested, job.profile_name)
        return (
            "no cluster can hold it: it asks for {} processors, and the largest has {}",
            job.n_procs_requested,
            largest,
        )

    def _submit(self, one: GridJob, place: SiteOffer, now: float, reason: Reason) -> Iterator[Decision]:
        """Reshape a job for an offer and put it into the queue of that site."""
        site, job = self.sites[place.nth], one.job
        yield Reshape(job.id, place.n, one.scale(site, place.n), reason=reason)
        if self.submit_to(site.local, job, now):
            one.site = site
            self._waiting[job.id] = one
        else:
            self._waiting.pop(job.id, None)

    def _withdraw(self, one: GridJob, now: float) -> None:
        assert one.site is not None
        one.site.local.withdraw(one.job, now)
        one.n_resubmitted += 1
        self._figures["max_resubmitted"] = max(self._figures["max_resubmitted"], one.n_resubmitted)

    def _count_move(self, one: GridJob) -> None:
        one.n_moves += 1
        self._figures["n_moves"] += 1
        self._figures["n_moved_jobs"] += one.n_moves == 1
        self._figures["max_moves"] = max(self._figures["max_moves"], one.n_moves)

    def _search(self, now: float, watch_from: float) -> OfferSearch:
        return OfferSearch(self.sites, now, self.options.sizing, watch_from)

    def _is_event(self, now: float) -> bool:
        """Return whether an event is due: one with a requested call, or a skipped one at the time of a message."""
        soon = now + HALF_TICK
        if self._event_at <= soon:
            self._event_at = self._skipped_at = math.inf
            return True
        if self._skipped_at > soon:
            return False
        skipped_at = _next_multiple(self.options.period, now - TICK) if self._was_waiting else self._skipped_at
        self._skipped_at = math.inf
        return now - HALF_TICK <= skipped_at <= soon

    def _ask_for_event(self, now: float) -> Iterator[Decision]:
        """Request a call at the next event that may move a job, if a grid job waits until then. O(waiting) if so.

        After an event that changed no plan the next one changes none either, unless something happens in between. Else
        only the clock can change a result: a running job exceeds its estimate, or a search considers other sizes.
        """
        self._was_waiting = bool(self._waiting)
        if not self._has_events:
            return
        next_at = event_at = _next_multiple(self.options.period, now)
        if not self._waiting:
            if self._event_at > next_at:
                self._event_at = math.inf  # it was for jobs that have started
            return
        if next_at >= self._event_at:
            return  # it was requested already
        if self._start_before(next_at, now):
            return
        if self._quiet_version is not None and self._quiet_version == self._version(now):
            self._skipped_at = next_at
            quiet_until = self._quiet_until
            if not self._are_bounds:
                ends = (
                    site.partition.running_jobs[0].expected_end_at for site in self.sites if site.partition.running_jobs
                )
                quiet_until = min(quiet_until, min(ends, default=math.inf))
            if quiet_until == math.inf:
                return
            event_at = max(next_at, _next_multiple(self.options.period, quiet_until - TICK))
            if event_at >= self._event_at or self._start_before(event_at, now):
                return
        self._event_at = event_at
        if event_at not in self._called_at:
            self._called_at = {at for at in self._called_at if at > now} | {event_at}
            yield CallMeLater(event_at, reason="check better clusters for waiting jobs")

    def _start_before(self, event_at: float, now: float) -> bool:
        """Return whether all waiting grid jobs will certainly have started by an event."""
        return self._are_bounds and all(one.planned_start(now) < event_at for one in self._waiting.values())

    def _version(self, now: float) -> int:
        """Return a counter that changes whenever a plan changes."""
        return sum(site.local.plan_version(now) for site in self.sites)

    def _plans(self, now: float) -> list[tuple[Site, str, int, float | None]]:
        """Return the queues of all clusters with sizes and planned starts. O(waiting)."""
        return [
            (site, job.id, job.n_procs, site.local.planned_start(job, now))
            for site in self.sites
            for job in site.local.waiting()
        ]

    def _reallocate(self, now: float) -> Iterator[Decision]:
        """Move waiting grid jobs, and record whether a plan changed."""
        self._figures["n_events"] += 1
        plans, search = self._plans(now), self._search(now, _next_multiple(self.options.period, now))
        jobs = sorted(self._waiting.values(), key=lambda one: one.job.seq)  # some may have lost their cluster
        if self.options.algorithm == "regular":
            yield from self._regular(jobs, search)
        else:
            yield from self._all_cancellation(jobs, search)
        self._quiet_version = self._version(now) if plans == self._plans(now) else None
        self._quiet_until = search.changes_at

    def _regular(self, jobs: list[GridJob], search: OfferSearch) -> Iterator[Decision]:
        """Move jobs one by one, if that gains enough."""
        now, threshold = search.now, self.options.threshold
        if self.options.heuristic == "minmin":
            for one, place in MinMin(jobs[: self.options.window], search).others():
                if place is not None and place.end_at < one.planned_end(now) - threshold + HALF_TICK:
                    yield from self._move(one, place, now)
            return
        for one in jobs:
            place = search.best_place(one, but=one.site, beat=one.planned_end(now) - threshold + HALF_TICK)
            if place is not None and place.end_at < math.inf:
                yield from self._move(one, place, now)

    def _move(self, one: GridJob, place: SiteOffer, now: float) -> Iterator[Decision]:
        planned_at = one.planned_end(now)
        self._withdraw(one, now)
        yield from self._submit_again(one, place, planned_at, now)

    def _all_cancellation(self, jobs: list[GridJob], search: OfferSearch) -> Iterator[Decision]:
        """Withdraw all jobs and submit them again, one after the other."""
        now = search.now
        planned_at = {one.job.id: one.planned_end(now) for one in jobs}
        for one in jobs:
            self._withdraw(one, now)
        if self.options.heuristic == "minmin":
            for one, place in MinMin(jobs[: self.options.window], search).anywhere():
                yield from self._submit_again(one, place, planned_at[one.job.id], now)
            jobs = jobs[self.options.window :]
        for one in jobs:
            yield from self._submit_again(one, search.best_place(one), planned_at[one.job.id], now)

    def _submit_again(self, one: GridJob, place: SiteOffer | None, planned_at: float, now: float) -> Iterator[Decision]:
        """Submit a withdrawn job, with its gain as the reason."""
        assert place is not None  # a job that was in a queue fits there
        assert one.site is not None
        before, after = one.site, self.sites[place.nth]
        if after is before:
            text = "submitted again to cluster {}: to end at {:.12g}, before {:.12g}"
            reason: Reason = (text, after.name, place.end_at, planned_at)
        else:
            self._count_move(one)
            text = "moves from cluster {}, where it was to end at {:.12g}, to cluster {}: to end at {:.12g}"
            reason = (text, before.name, planned_at, after.name, place.end_at)
        yield from self._submit(one, place, now, reason)

    def figures(self) -> Mapping[str, float]:
        """Return how often jobs moved and were withdrawn, in total and at most, and the number of events."""
        return self._figures

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return the reason of the scheduler with the job in its queue."""
        is_new = any(one.job is job if isinstance(one, GridJob) else one[0] is job for one in self._newcomers)
        return "it came just now" if is_new else super().why_waiting(job, now)


def _next_multiple(period: float, now: float) -> float:
    """Return the first multiple of a period after a time, on the tick.

    >>> _next_multiple(3600, 3599.999999), _next_multiple(3600, 3600.0), _next_multiple(10 / 3, 13.333333)
    (3600, 7200, 16.666667)
    """
    nth = math.floor(now / period)
    while round(nth * period, 6) <= now + HALF_TICK:
        nth += 1
    return round(nth * period, 6)
