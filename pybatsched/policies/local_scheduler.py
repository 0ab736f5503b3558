"""Local schedulers: a queue and a rule on one partition. A policy owns one or more of them."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

from pybatsched.core.decisions import Answer, Decision, ExecuteJob, Reason, RejectJob
from pybatsched.core.instants import TICK, instant
from pybatsched.core.jobs import Job
from pybatsched.core.model_refs import COMMON, DefaultOptions, model_at, object_at
from pybatsched.core.policy import Policy
from pybatsched.core.services.failures import FIRST, rule_of
from pybatsched.deprecations import deprecated
from pybatsched.errors import InputError, PolicyError
from pybatsched.policies.availability import AvailabilityProfile
from pybatsched.policies.orders import parse_order

if TYPE_CHECKING:
    from pybatsched.core.cluster import Cluster, Partition
    from pybatsched.core.events import Notify, Query
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.core.nodes import Nodes
    from pybatsched.policies.queue_options import QueueOptions


#: The rank of jobs that are put in front of the queue, in any order.
FRONT: Final = -math.inf

#: The defaults of the own fields of `QueueOptions`.
_OWN_DEFAULTS: Final[dict[str, Any]] = {"order": "fcfs", "assume_walltime": None}


class Entry(NamedTuple):
    """An entry of a queue: the job's rank by the queue's order, its arrival number, and the job."""

    rank: float
    arrival: int
    job: Job


AnyTuple = TypeVar("AnyTuple", bound=tuple[Any, ...])


def take_out(entries: list[AnyTuple], entry: AnyTuple) -> None:
    """Remove an entry from a sorted list. O(n) with a small constant. Raises ValueError if it is not there."""
    i = bisect_left(entries, entry)
    if i == len(entries) or entries[i] != entry:
        raise ValueError(f"{entry!r:.120} is not in the list")
    del entries[i]


def shadow_time(partition: Partition, n_needed: int, now: float) -> tuple[float, int]:
    """Return EASY's shadow time of a job that does not fit now, and the extra processors then. O(running).

    It is when enough processors are expected to be free; the extra ones are those that the job does not need. It is
    infinite, without extra ones, if the job waits for one without an estimate or for machines that are not available.
    """
    n_missing = n_needed - partition.n_free
    if n_missing <= 0:
        return -math.inf, -n_missing
    are_whole = not partition.n_away  # then a job returns all that it holds
    running = iter(partition.running_jobs)
    for job in running:
        n_missing -= job.segment.n_held if are_whole else partition.n_returned_by(job)
        if n_missing <= 0:
            break
    else:
        return math.inf, 0
    shadow_at = max(job.segment.expected_end_at, now)  # a job past its estimate is expected to end now
    if shadow_at == math.inf:
        return math.inf, 0
    for job in running:  # others that end then
        if job.segment.expected_end_at > shadow_at:
            break
        n_missing -= job.segment.n_held if are_whole else partition.n_returned_by(job)
    return shadow_at, -n_missing


class LocalScheduler(ABC):
    """A queue of waiting jobs and a rule that starts them on one partition.

    `queue` is a sorted list: ties of rank are broken by arrival in *this* queue, so a requeued job goes behind jobs of
    equal rank unless it is put in front of all. If the order changes while jobs wait (`wfp3`), `sort_queue` replaces
    all entries.
    """

    #: Whether the rule reserves a time for every job, and so cannot plan endless jobs.
    reserves: ClassVar[bool] = False
    #: Whether the rule may reject a job that is already in its queue.
    rejects_later = False
    #: The place ``module:class`` of the scheduler for jobs that request memory, GPUs or whole nodes. Not inherited.
    on_nodes: ClassVar[str] = ""
    #: Whether `planned_start` is a guarantee: no job starts later than any earlier `planned_start`, as long as jobs end
    #: by their estimates, machines stay available, and no job is put in front of the queue or started past it.
    promises: bool = False
    # Set only for an order that changes while jobs wait: Python is slower with objects of more than 29 attributes.
    _varies: bool = False
    #: The rank of jobs that are put in front of the queue; other ranks may be tuples.
    _front: Any = FRONT
    _sorted_at: float = math.nan  # the time of all ranks, if they are of one time

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        if "_plan" in vars(cls) and "plan" not in vars(cls):
            deprecated(f"{cls.__name__}._plan", "plan", "1.0")
            cls.plan = vars(cls)["_plan"]  # type: ignore[method-assign]

    def __init__(self, partition: Partition, options: QueueOptions | None = None) -> None:
        found: Any = options or DefaultOptions({**COMMON, **_OWN_DEFAULTS})
        self.partition = partition
        self.assume_walltime: float | None = found.assume_walltime
        self.queue: list[Entry] = []
        order = parse_order(found.order, partition)
        if self.reserves:
            try:
                order.check_fixed()
            except ValueError as error:
                raise InputError(f"option order: {error}") from None
        self._rank = order.rank  # None for the order of arrival
        if order.varies:
            self._varies = True
        self._entries: dict[str, Entry] = {}
        self._n_arrivals = 0
        self._n_changes = 0  # of the queue and of the plan; see `plan_version`
        self._assumed: set[str] = set()  # jobs that plan with assume_walltime

    def span_s(self, job: Job) -> float:
        """Return the planned duration of a job: its estimate, else infinity."""
        estimate = job.segment.estimate
        return math.inf if estimate is None else estimate

    def refusal(self, job: Job, *, restarted: bool = False) -> Reason | None:
        """Return why the job can never start here, now or `restarted` from scratch; None if it can."""
        estimate = job.whole.at(job.scale).estimate if restarted else job.segment.estimate
        if job.n_procs > self.partition.n_possible:
            return (
                "can never fit: asks for {} processors, partition {} has {}",
                job.n_procs,
                self.partition.name,
                self.partition.n_possible,
            )
        if self.reserves and estimate is None and self.assume_walltime is None:
            return "has neither walltime nor estimate, so no time can be reserved for it (see assume_walltime)"
        return None

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job behind those of equal rank or, with `front`, before all, the last one first. O(log queue)."""
        if job.segment.estimate is None and self.assume_walltime is not None:
            job.estimate = self.assume_walltime
            self._assumed.add(job.id)
        self._n_arrivals += 1
        arrival = -self._n_arrivals if front else self._n_arrivals
        rank = self._front if front else 0.0
        if self._rank is not None and not front:
            rank = self._rank(job, self.span_s(job), now)
            if self._varies and now != self._sorted_at:
                self._sorted_at = math.nan
        entry = Entry(rank, arrival, job)
        self._entries[job.id] = entry
        insort(self.queue, entry)
        job.queued_in = self.partition
        self._n_changes += 1

    def take_queue_of(self, other: LocalScheduler) -> None:
        """Take over the queue of another scheduler of this partition. Call it before any submission."""
        self.queue, self._entries, self._n_arrivals = other.queue, other._entries, other._n_arrivals
        self._assumed = other._assumed

    def withdraw(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Remove a waiting job from the queue. O(log queue)."""
        take_out(self.queue, self._entries.pop(job.id))
        job.queued_in = None
        self._n_changes += 1
        if job.id in self._assumed:
            self._assumed.remove(job.id)
            job.estimate = None

    def refuse(self, job: Job, now: float) -> None:
        """Remove a waiting job from the queue because it is rejected."""
        self.withdraw(job, now)

    def is_promised(self, job: Job) -> bool:  # noqa: ARG002
        """Return whether the end of a job by a deadline is guaranteed, so that it should not be killed."""
        return False

    def waiting(self) -> list[Job]:
        """Return all jobs that wait here, in queue order. O(queue)."""
        return [job for _, _, job in self.queue]

    def holds(self, job: Job) -> bool:
        """Return whether a job waits in this queue. O(1)."""
        return job.id in self._entries

    def ended(self, job: Job, now: float) -> None:  # noqa: B027  most rules look at the partition only
        """Handle the end or kill of a job of this partition; its processors are free already."""

    def machines_changed(self, now: float) -> None:  # noqa: B027
        """Handle processors of the partition that became unavailable or available."""

    def estimate_changed(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Handle a new estimate of a running job of the partition. By default as a change of machines."""
        self.machines_changed(now)

    def uses_new_estimates(self, now: float) -> bool:  # noqa: ARG002
        """Return whether new estimates of running jobs may cause a decision before the next event."""
        return True

    def decide(self, now: float) -> Iterable[Decision]:
        """Return the decisions of `plan`; none if the queue is empty or while a kill is pending here."""
        if not self.queue or self.partition.n_kills_pending:
            return ()
        if self._varies and self.partition.n_free:  # else no job can start, in any order
            self.sort_queue(now)
        found: Any = self.plan(now)
        if found is None:
            text = "plan returned None; expected decisions: write `yield self.start(entry, reason)`, or return a list"
            raise PolicyError(text, policy=type(self).__name__, rule="well-formed")
        return found  # type: ignore[no-any-return]

    def sort_queue(self, now: float) -> bool:
        """Sort the queue again if its order changes while jobs wait. Return whether jobs have changed places.

        Without such an order O(1). With it the ranks of all jobs are computed once for each `now` that needs them: by
        `decide` if a processor is free, and by queries. O(queue log queue), and O(queue) if few jobs change places.
        """
        if not self._varies or now == self._sorted_at or self._rank is None:
            return False
        queue = []
        for entry in self.queue:
            rank, arrival, job = entry
            queue.append(entry if rank == self._front else Entry(self._rank(job, self.span_s(job), now), arrival, job))
        queue.sort()
        is_changed = any(new.job is not old.job for new, old in zip(queue, self.queue, strict=True))
        self._sorted_at = now
        self._n_changes += is_changed
        self.queue[:] = queue
        self._entries.update((entry.job.id, entry) for entry in queue)
        return is_changed

    @abstractmethod
    def plan(self, now: float) -> Iterator[Decision]:
        """Start the jobs that may start now, one decision at a time. The queue is not empty. Override this."""

    def estimate(self, n: int, duration_s: float, now: float, *, not_after: float | None = None) -> float | None:
        """Return when a job would start if it were submitted now; None for never or an end after `not_after`."""
        bound = math.inf if not_after is None else not_after
        if n > self.partition.n_procs or instant(now, duration_s) > bound:
            return None
        latest = math.inf if bound == math.inf else bound - duration_s + TICK
        start = self.estimated_start(n, duration_s, now, latest)
        return None if start == math.inf or instant(start, duration_s) > bound else start

    def estimated_start(self, n: int, duration_s: float, now: float, latest: float) -> float:  # noqa: ARG002
        """Return the start for `estimate`; infinity for never or after `latest`. O(queue * (queue + running))."""
        profile, not_before = self._placed_queue(now, None)
        return self.place(profile, n, duration_s, now, not_before)

    def plan_version(self, now: float) -> int:  # noqa: ARG002  a plan may have to be brought up to date
        """Return a counter that changes whenever the plan, `estimate` and `planned_start`, may change. O(1).

        The version is valid only for the same `now`. A subclass whose plan depends on more than the queue and the
        partition must count those changes too.
        """
        return self._n_changes + self.partition.n_changes

    def planned_start(self, job: Job, now: float) -> float | None:
        """Return when a job of this queue would start by the current plan; None for never. Costs as `estimate`."""
        profile, not_before = self._placed_queue(now, job)
        start = self.place(profile, job.n_procs, self.span_s(job), now, not_before)
        return None if start == math.inf else start

    def _placed_queue(self, now: float, until: Job | None) -> tuple[AvailabilityProfile, float]:
        """Place the queue, up to a job, on the running jobs' expected ends. Return the profile and the last start."""
        self.sort_queue(now)
        profile = self.expected_profile(now)
        not_before = now
        for _, _, job in self.queue:
            if job is until:
                break
            not_before = self.place(profile, job.n_procs, self.span_s(job), now, not_before)
        return profile, not_before

    def place(self, profile: AvailabilityProfile, n: int, span_s: float, now: float, not_before: float) -> float:
        """Place one job for `estimate` and return its start; without backfilling not before the previous start."""
        start = profile.earliest(n, span_s, max(now, not_before))
        profile.take(n, start, instant(start, span_s))
        return start

    def expected_profile(self, now: float) -> AvailabilityProfile:
        """Return the free processors by expected ends; a job past its estimate ends next. O(running)."""
        profile, soon = AvailabilityProfile(now, self.partition.n_free), round(now + TICK, 6)
        for job in self.partition.running_jobs:
            profile.give(self.partition.n_returned_by(job), max(job.expected_end_at, soon), math.inf)
        if self.partition.returning or self.partition.upcoming:
            self._reserve(profile, soon)
        return profile

    def _reserve(self, profile: AvailabilityProfile, soon: float) -> None:
        """Take the reservations of hosts that are known from a profile, and give back absent ones. O(windows)."""
        partition = self.partition
        for at, procs in partition.returning:
            if at >= soon:  # else nobody knows when they return
                profile.give(len(procs & partition.away), at, math.inf)
        away = partition.away
        for window in partition.upcoming:
            n = len((window.procs & partition.procs) - away)
            profile.take(n, window.start_at, window.end_at)

    def shadow(self, head: Job, now: float) -> tuple[float, int]:
        """Return the `shadow_time` of a job, around reservations of hosts. O(running + windows)."""
        partition = self.partition
        if not (partition.returning or partition.upcoming):
            return shadow_time(partition, head.n_procs, now)
        profile = self.expected_profile(now)
        start_at = profile.earliest(head.n_procs, self.span_s(head), profile.next_step(now))
        if start_at == math.inf or partition.upcoming:  # a job beside the head might need hosts that are reserved later
            return start_at, 0
        return start_at, profile.least_free(start_at, instant(start_at, TICK)) - head.n_procs

    def pick(self, job: Job, now: float) -> IntervalSet | None:
        """Return the processors that a job starts on: the lowest free ones. None: not now. Enough are free."""
        if self.partition.upcoming:
            return self.partition.first_for(job.n_procs, now, self.span_s(job))
        return self.partition.free.first(job.n_procs)

    def start(self, entry: Entry, reason: Reason, procs: IntervalSet | None = None) -> ExecuteJob:
        """Remove a job from the queue and start it, by default on the lowest free processors. O(k + log queue)."""
        job = entry.job
        del self._entries[job.id]
        take_out(self.queue, entry)
        job.queued_in = None
        self._n_changes += 1
        if self._assumed:
            self._assumed.discard(job.id)
        return ExecuteJob(job.id, procs or self.partition.free.first(job.n_procs), reason=reason)

    def broken_promises(self) -> Iterable[str]:
        """Return a line for each guarantee to a job of this queue that was not kept."""
        return ()

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return why a job of this queue was not started now."""
        self.sort_queue(now)
        entry = self._entries.get(job.id)
        if entry is None:
            return "it is not in this queue"
        if self.partition.n_kills_pending:
            return "a kill is under way in partition {}", self.partition.name
        window = self.partition.obstacle(job.n_procs, now, self.span_s(job))
        if window is not None:
            return "would overlap reservation {} from {} to {}", window.name, window.start_at, window.end_at
        head = self.queue[0].job
        if head is job:
            return "head of the queue: needs {} processors, {} are free", job.n_procs, self.partition.n_free
        ahead = bisect_left(self.queue, entry)
        return (
            "{} ahead of it in the queue; the first, {}, needs {} processors, {} are free",
            ahead,
            head.id,
            head.n_procs,
            self.partition.n_free,
        )


class QueuePolicy(Policy):
    """A policy that routes jobs between local schedulers, one for each partition. Fill `locals` in `on_begin`.

    It forwards events to the scheduler of their partition, rejects jobs that can never start, and returns the decisions
    of all schedulers. Override `on_job_submitted` to choose the queue of a job.
    """

    JobFields: ClassVar[type[Any]] = model_at("pybatsched.policies.queue_options:QueueFields", urgent=False)

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.locals: list[LocalScheduler] = []
        self._urgent: list[Decision] = []

    def submit_to(self, local: LocalScheduler, job: Job, now: float, *, front: bool = False) -> bool:
        """Queue a job, or reject it if it can never start there. Return whether it was queued."""
        refusal = local.refusal(job)
        if refusal is not None:
            self._urgent.append(RejectJob(job.id, reason=refusal))
            return False
        local.submit(job, now, front=front)
        return True

    def ran_on(self, job: Job) -> LocalScheduler:
        """Return the scheduler of the partition on which a job ran last. O(partitions)."""
        partition = job.past[-1].partition if job.partition is None and job.past else job.partition
        return next(local for local in self.locals if local.partition is partition)

    def take_over(self, job: Job, now: float) -> bool:  # noqa: ARG002
        """Plan with a running job of an earlier policy: the schedulers read running jobs from their partitions."""
        return True

    def on_job_ended(self, job: Job, now: float) -> None:
        """Notify the scheduler of its partition."""
        self.ran_on(job).ended(job, now)

    def on_job_killed(self, job: Job, now: float) -> None:
        """Notify the scheduler of its partition. A requeued job is in no queue until the policy submits it again."""
        self.ran_on(job).ended(job, now)

    def on_failure(self, job: Job, now: float) -> None:
        """Queue a job whose machine failed: in front of the queue that it came from, or as a new one."""
        ran_on = job.past[-1].partition
        if ran_on is not None and rule_of(self.options) in FIRST:
            self.submit_to(self.ran_on(job), job, now, front=True)
        else:
            self.on_job_submitted(job, now)

    def on_job_released(self, job: Job, procs: IntervalSet, now: float) -> None:
        """Put a held job that lost its processors in front of the queue of the partition it was held in."""
        for local in self.locals:
            if procs.issubset(local.partition.procs):
                local.submit(job, now, front=True)

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:
        """Notify the schedulers of these machines."""
        for local in self.locals:
            if not procs.isdisjoint(local.partition.procs):
                local.machines_changed(now)

    def on_estimate_changed(self, job: Job, now: float) -> None:
        """Notify the scheduler of its partition."""
        for local in self.locals:
            if local.partition is job.partition:
                local.estimate_changed(job, now)

    def on_notify(self, event: Notify, now: float) -> None:  # noqa: ARG002
        """Reject the waiting jobs that can never start, when no machine can come back any more."""
        for local in self.locals:
            if local.partition.machines_settled:
                for job in local.waiting():
                    refusal = local.refusal(job)
                    if refusal is not None:
                        local.refuse(job, now)
                        self._urgent.append(RejectJob(job.id, reason=refusal))

    def on_query(self, event: Query, now: float) -> None:
        """Answer WRENCH's query for a waiting time, by the plan of the first scheduler."""
        asked = event.requests.get("estimate_waiting_time")
        job = asked.get("job") if isinstance(asked, dict) else None
        if not isinstance(asked, dict) or not isinstance(job, dict) or type(job.get("res")) is not int:
            return
        walltime = job.get("walltime")
        known = isinstance(walltime, int | float) and 0 < walltime < 1e300
        span_s = float(walltime) if known and walltime is not None else math.inf
        start = self.locals[0].estimate(job["res"], span_s, now)
        wait = -1.0 if start is None else start - now
        answer = {"job_id": asked.get("job_id"), "estimated_waiting_time": wait}
        self._urgent.append(Answer(answer, reason="by the present plan; -1 means never"))

    def decide(self, now: float) -> Iterable[Decision]:
        """Return the pending rejections and answers, then the decisions of all schedulers."""
        urgent, self._urgent = self._urgent, []
        return itertools.chain(urgent, *(local.decide(now) for local in self.locals))

    def broken_promises(self) -> Iterable[str]:
        """Return those of all schedulers."""
        return itertools.chain.from_iterable(local.broken_promises() for local in self.locals)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return the reason of the scheduler with the job in its queue."""
        for local in self.locals:
            if local.holds(job):
                return local.why_waiting(job, now)
        return "it is in no queue"


class LocalPolicy(QueuePolicy):
    """A policy that is one local scheduler on the whole machine. Set `scheduler`."""

    Options: ClassVar[type[Any]] = model_at("pybatsched.policies.queue_options:QueueOptions", **_OWN_DEFAULTS)
    scheduler: ClassVar[type[LocalScheduler]]
    local: LocalScheduler

    @property
    def plans_nodes(self) -> bool:  # type: ignore[override]  # it depends on the scheduler
        """Whether there is a scheduler for jobs that request memory, GPUs or whole nodes."""
        found = getattr(self, "scheduler", None)
        return found is not None and "on_nodes" in vars(found)

    def on_begin(self, cluster: Cluster) -> None:
        """Create one partition of all processors."""
        self.local = self.scheduler(cluster.add_partition("all", cluster.procs), self.options)
        self.locals = [self.local]

    def on_job_submitted(self, job: Job, now: float) -> None:
        """Queue the job, or reject it if it can never start."""
        self.submit_to(self.local, job, now)

    def on_requests(self, nodes: Nodes, now: float) -> None:  # noqa: ARG002
        """Use the scheduler for nodes from now on."""
        before = self.local
        self.local = object_at(self.scheduler.on_nodes)(before.partition, self.options, nodes)
        self.local.take_queue_of(before)
        self.locals = [self.local]

    def on_job_ended(self, job: Job, now: float) -> None:
        """Notify the scheduler."""
        self.local.ended(job, now)

    def on_job_killed(self, job: Job, now: float) -> None:
        """Notify the scheduler (only subclasses kill jobs)."""
        self.local.ended(job, now)

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:  # noqa: ARG002
        """Notify the scheduler."""
        self.local.machines_changed(now)

    def uses_new_estimates(self, now: float) -> bool:
        """Return the scheduler's answer."""
        return self.local.uses_new_estimates(now)

    def decide(self, now: float) -> Iterable[Decision]:
        """Return the pending rejections and answers, then the scheduler's decisions."""
        return super().decide(now) if self._urgent else self.local.decide(now)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return the scheduler's reason."""
        return self.local.why_waiting(job, now)
