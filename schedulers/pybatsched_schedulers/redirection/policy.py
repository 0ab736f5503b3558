"""EASY with redirection (Faure, Lucarelli, Richard and Trystram, IPDPSW 2020): jobs that delay others run elsewhere.

The machine is divided into a *principal* group, on which all jobs are scheduled, and a small *redirection* group. For
every job that runs in the principal group, the jobs that arrive and wait meanwhile are counted. When a count exceeds a
threshold and the job fits into the redirection group, it is killed and restarted there, once. Each group has its own
local scheduler; the published one is EASY for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, field_serializer, model_validator

from pybatsched import (
    BatsimFeature,
    Decision,
    InputError,
    JobState,
    LocalScheduler,
    Options,
    QueuePolicy,
    Reason,
    Requeue,
    UntrustedFileError,
    local_scheduler,
    quantity,
)

if TYPE_CHECKING:
    from pybatsched import Cluster, Job, Partition

Filter: TypeAlias = Literal["q", "w", "none", "w_paper"]
Conflict: TypeAlias = Literal["greatest_walltime", "greatest_count", "latest_start", "widest"]


class RedirectionOptions(Options):
    """Options of redirection."""

    alpha: float = Field(0.15, ge=0, lt=1, description="share of the processors that makes up the redirection group")
    group_size: int | None = Field(
        None, ge=0, description="the redirection group as a number of processors, instead of alpha"
    )
    theta: float = Field(
        10.0,
        ge=0,
        description="a job is redirected when more jobs than this arrived and waited since its start (or inf)",
    )
    filter: Filter = Field(
        "q",
        description="which arrivals a running job counts: q, those that request at most its processors; w, those with "
        "at most its planned duration; none, all; w_paper, those with at least its planned duration (the published "
        "pseudo-code, which contradicts its text)",
    )
    decision: Literal["per_job", "per_round"] = Field(
        "per_job",
        description="look for a job to redirect after each arrival that waits, or once after all arrivals of a message",
    )
    count_backfilled: bool = Field(
        True, description="also count arrivals that are backfilled at the same time (as published)"
    )
    conflict: Conflict = Field(
        "greatest_walltime",
        description="which of several jobs to redirect: the one with the greatest walltime (planned duration), the "
        "greatest count, the latest start (which loses least work) or the most processors; then the first submitted",
    )
    principal: str = Field("easy", description="local scheduler of the principal group: a policy with one queue")
    principal_options: dict[str, Any] = Field(default_factory=dict, description="options of that policy")
    redirected: str = Field("easy", description="local scheduler of the redirection group")
    redirected_options: dict[str, Any] = Field(default_factory=dict, description="options of that policy")

    @model_validator(mode="after")
    def _one_size(self) -> RedirectionOptions:
        if self.group_size is not None and "alpha" in self.model_fields_set:
            raise ValueError("alpha and group_size were both given; expected only one")
        return self

    @field_serializer("theta", when_used="json")
    def _finite(self, theta: float) -> Any:
        return theta if math.isfinite(theta) else "inf"  # JSON has no infinity


def _span_s(job: Job) -> float:
    return math.inf if job.estimate is None else job.estimate


#: For each filter, the running jobs whose counts a waiting arrival increases.
FILTERS: Final[dict[Filter, Callable[[Job, Iterable[Job]], list[Job]]]] = {
    "q": lambda arrival, running: [job for job in running if job.n_procs >= arrival.n_procs],
    "w": lambda arrival, running: [job for job in running if _span_s(job) >= _span_s(arrival)],
    "none": lambda _arrival, running: list(running),
    "w_paper": lambda arrival, running: [job for job in running if _span_s(arrival) >= _span_s(job)],
}

#: The key of a job and its count: the job with the greatest key is redirected, then the first submitted.
CONFLICTS: Final[dict[Conflict, Callable[[Job, int], float]]] = {
    "greatest_walltime": lambda job, _count: _span_s(job),
    "greatest_count": lambda _job, count: count,
    "latest_start": lambda job, _count: job.started_at or 0.0,
    "widest": lambda job, _count: job.n_procs,
}


def principal_size(options: RedirectionOptions, n_procs: int) -> int:
    """Return the number of processors of the principal group. Raises InputError if there would be none."""
    if options.group_size is None:
        n = math.floor((1 - options.alpha) * n_procs + 1e-9)
        expected = f"alpha of at most {1 - 1 / n_procs:.3g}, found {options.alpha:g}"
    else:
        n = n_procs - options.group_size
        expected = f"group_size of at most {n_procs - 1}, found {options.group_size}"
    if n < 1:
        count = f"{n_procs} processor{'' if n_procs == 1 else 's'}"
        raise InputError(f"policy redirection: the platform has {count}; expected {expected}")
    return n


class Redirection(QueuePolicy):
    """EASY with redirection: jobs that delay too many others are restarted on a reserved part of the machine."""

    references = (
        """\
@inproceedings{faure2020redirection,
  author = {Faure, Adrien and Lucarelli, Giorgio and Richard, Olivier and Trystram, Denis},
  title = {Online Scheduling with Redirection for Parallel Jobs},
  booktitle = {IEEE International Parallel and Distributed Processing Symposium Workshops (IPDPSW)},
  year = {2020},
  doi = {10.1109/IPDPSW50202.2020.00066},
}""",
    )
    Options: ClassVar[type[Any]] = RedirectionOptions
    borrows = ("principal", "redirected")
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster: Cluster) -> None:
        """Divide the machine: the lowest processors are the principal group."""
        options: RedirectionOptions = self.options
        procs = cluster.procs.first(principal_size(options, cluster.n_procs))
        self.principal = self._made("principal", cluster.add_partition("principal", procs))
        self.locals = [self.principal]
        self.redirection: LocalScheduler | None = None
        if len(procs) < cluster.n_procs:
            partition = cluster.add_partition("redirection", cluster.procs - procs)
            self.redirection = self._made("redirected", partition)
            if self.redirection.rejects_later:
                raise InputError(
                    f"policy redirection, option redirected: {options.redirected} with these options may reject a "
                    "redirected job after its kill; expected a scheduler that does not"
                )
            self.locals.append(self.redirection)
        self._can_restart = cluster.can_restart
        self._counted = FILTERS[options.filter]
        self._counts: dict[Job, int] = {}  # by running job of the principal group: the arrivals that waited
        self._leaving: set[Job] = set()  # jobs with a pending kill
        self._newcomers: list[Job] = []
        self._narrowest = math.inf  # the smallest size of all jobs so far
        self._fixed: set[Job] = set()  # running jobs to redirect that Batsim cannot restart
        self._n_fixed = 0  # the number of these so far
        self._first_fixed = ""  # the first of these

    def _made(self, which: str, partition: Partition) -> LocalScheduler:
        name, given = getattr(self.options, which), getattr(self.options, f"{which}_options")
        try:
            return local_scheduler(name, given, partition, files=self.trusted_files)
        except UntrustedFileError:
            raise  # its text contains the option and its source
        except InputError as error:
            raise InputError(f"policy redirection, option {which}: {error}") from None

    # --- what happened ---

    def on_job_submitted(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Keep the job until all events of this time are known."""
        self._narrowest = min(self._narrowest, job.n_procs)
        self._newcomers.append(job)

    def on_job_ended(self, job: Job, now: float) -> None:
        """Forget its count, and notify the scheduler of its group."""
        self._forget(job)
        super().on_job_ended(job, now)

    def on_job_killed(self, job: Job, now: float) -> None:
        """Queue a redirected job."""
        self._forget(job)
        super().on_job_killed(job, now)
        if job.state is JobState.WAITING and self.redirection is not None:
            self.submit_to(self.redirection, job, now)

    def _forget(self, job: Job) -> None:
        self._counts.pop(job, None)
        self._leaving.discard(job)
        self._fixed.discard(job)

    # --- decisions ---

    def decide(self, now: float) -> Iterator[Decision]:
        """Queue the new jobs one by one, redirect jobs that delay them, and return the decisions of both groups."""
        if self._newcomers:
            yield from self._take_in(now)
        yield from super().decide(now)

    def _take_in(self, now: float) -> Iterator[Decision]:
        options: RedirectionOptions = self.options
        local = self.principal
        newcomers, self._newcomers = self._newcomers, []
        has_waiting = False
        while newcomers:
            if not options.count_backfilled and local.partition.n_kills_pending:
                self._newcomers = newcomers  # whether they wait is known after the kill
                break
            job = newcomers.pop(0)
            starts = not local.queue and job.n_procs <= local.partition.n_free
            if not self.submit_to(local, job, now):
                continue
            if starts or not options.count_backfilled:
                yield from local.decide(now)
            if starts or not local.holds(job):
                continue
            has_waiting = True
            self._count(job)
            if options.decision == "per_job":
                yield from self._redirect()
        if has_waiting and options.decision == "per_round":
            yield from self._redirect()

    def _count(self, arrival: Job) -> None:
        """Increase the counts of running jobs for a waiting arrival. O(running)."""
        counts = self._counts
        running = list(self.principal.partition.running_jobs)
        if self._leaving:
            running = [job for job in running if job not in self._leaving]
        for job in self._counted(arrival, running):
            counts[job] = counts.get(job, 0) + 1

    def _redirect(self) -> Iterator[Decision]:
        """Redirect one job whose count is too high, if there is one, and reset the counts."""
        if self.redirection is None:
            return
        theta, choose = self.options.theta, CONFLICTS[self.options.conflict]
        high = [(job, count) for job, count in self._counts.items() if count > theta]
        high = [(job, count) for job, count in high if self._may_go(job)]
        if not high:
            return
        victim, count = max(high, key=lambda found: (choose(*found), -found[0].seq))
        self._counts.clear()
        self._leaving.add(victim)
        yield Requeue(victim.id, reason=("redirected: {} jobs came and waited, more than theta = {:g}", count, theta))

    def _may_go(self, job: Job) -> bool:
        """Return whether a job can be restarted in the redirection group without breaking a guarantee."""
        assert self.redirection is not None
        group = self.redirection.partition
        if any(segment.partition is group for segment in job.past):
            return False  # it was redirected, and came back after a failure or a reservation
        if self.redirection.refusal(job, restarted=True) is not None or self.principal.is_promised(job):
            return False
        if not self._can_restart(job):
            if job not in self._fixed:
                self._fixed.add(job)
                self._n_fixed += 1
                self._first_fixed = self._first_fixed or job.id
            return False
        return True

    # --- output ---

    def remarks(self) -> Iterable[str]:
        """Warn about a redirection group that is too small for all jobs, and about jobs that could not be restarted."""
        if self._n_fixed:
            yield (
                f"redirection: {quantity(self._n_fixed, 'job')} could not be redirected (first: {self._first_fixed}): "
                "Batsim deletes a profile when the first job that uses it ends; start it with --enable-profile-reuse"
            )
        n = self.redirection.partition.n_procs if self.redirection is not None else 0
        if self._narrowest != math.inf and n < self._narrowest and self.options.theta != math.inf:
            yield (
                f"redirection: no job could be redirected: the group has {quantity(n, 'processor')}, "
                f"and no job requests fewer than {self._narrowest}"
            )

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return the reason of the scheduler with the job in its queue."""
        return "it came just now" if job in self._newcomers else super().why_waiting(job, now)
