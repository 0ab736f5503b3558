"""Jobs on machines that fail: a service of the engine, for every policy.

Batsim's event `machine_unavailable` stops no job. With the option `on_failure` the engine does what a resource manager
does: it kills the jobs that run on the machine, and requeues them. All jobs of one failure are killed by one KILL_JOB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from pybatsched.core.checkpoints import checkpoints_of
from pybatsched.core.instants import instant
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.services.service import Service
from pybatsched.errors import setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pybatsched.core.actions import Actions
    from pybatsched.core.decisions import Reason
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.core.jobs import KillCause

#: What happens to a job whose machine fails: it is killed, and requeued in front of the queue or behind all others,
#: submitted again, or not requeued.
FailureRule: TypeAlias = Literal["requeue_first", "requeue_last", "resubmit", "kill"]
#: The rules that register jobs in Batsim.
REQUEUING: Final = frozenset(("requeue_first", "requeue_last", "resubmit"))
#: The rules that put jobs in front of the queue; without a rule, jobs are killed only for reservations.
FIRST: Final = frozenset(("requeue_first", None))


def rule_of(options: Any) -> FailureRule | None:
    """Return the option `on_failure` of a policy's options; None if it is not set, or the model has no such option."""
    rule: FailureRule | None = getattr(options, "on_failure", None)
    return rule


def repair_s_of(options: Any) -> float | None:
    """Return the option `expected_repair_s` of a policy's options; None if it is not set."""
    seconds: float | None = getattr(options, "expected_repair_s", None)
    return seconds


class Outage(NamedTuple):
    """Processors that went down by one event and returned together; `end_at` is None while they are down."""

    start_at: float
    end_at: float | None
    procs: IntervalSet


class Outages(Service):
    """The outages of one run."""

    def __init__(self) -> None:
        self._ended: list[Outage] = []
        self._down: list[Outage] = []

    def machines_gone(self, procs: IntervalSet, at: float) -> None:
        """Record that processors went down, except those that are down already. O(present outages)."""
        for outage in self._down:
            procs = procs - outage.procs
        if procs:
            self._down.append(Outage(at, None, procs))

    def machines_back(self, procs: IntervalSet, at: float) -> None:
        """Record that processors returned; an outage is split if others stay down. O(present outages)."""
        down, self._down = self._down, []
        for outage in down:
            back, rest = outage.procs & procs, outage.procs - procs
            if back:
                self._ended.append(Outage(outage.start_at, at, back))
            if rest:
                self._down.append(Outage(outage.start_at, None, rest))

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return start, end and processors of all outages in order; the end is None while down. O(n log n)."""
        outages = sorted((*self._ended, *self._down), key=lambda outage: outage.start_at)
        return {"unavailable": [{"start": o.start_at, "end": o.end_at, "procs": str(o.procs)} for o in outages]}


class Failures(Service):
    """The failures of one run: which jobs they stopped, and how many."""

    def __init__(self, rule: FailureRule | None, actions: Actions, repair_s: float | None = None) -> None:
        self.rule = rule
        self._repair_s = repair_s
        self._actions = actions
        self._cluster = actions.cluster
        self._requeues = actions.requeues
        self._stopped: list[Job] = []  # killed jobs that wait again, and are in no queue
        self._n_failures = 0
        self._n_failure_kills = 0
        #: Jobs that were killed because a reservation began.
        self.n_reservation_kills = 0
        self._n_not_requeued = 0
        self._lost_s = self._checkpoint_s = self._extra_s = self._useful_s = 0.0  # processor-seconds

    def check(self, job: Job) -> None:
        """Raise InputError for a new job with invalid checkpoints."""
        checkpoints_of(job.id, job.fields)

    def machines_gone(self, procs: IntervalSet, at: float) -> None:  # noqa: ARG002
        """Kill the jobs that run on failed processors by one decision, and expect the repair. O(running * k)."""
        if not procs:
            return  # of a storage host
        if self.rule is not None:
            self._n_failures += 1
            reason = ("processors {} failed", procs)
            self._kill("failure", procs, self.running(), reason, is_lost=self.rule == "kill")
        if self._repair_s is not None:
            self._cluster.repairs.append((instant(self._actions.now, self._repair_s), procs))
            self._cluster.show_returning()

    def machines_back(self, procs: IntervalSet, at: float) -> None:  # noqa: ARG002
        """Record that processors have returned. O(repairs)."""
        if self._cluster.repairs:
            left = [(at, own - procs) for at, own in self._cluster.repairs]
            self._cluster.repairs = [(at, own) for at, own in left if own]
            self._cluster.show_returning()

    def clear(self, procs: IntervalSet, reason: Reason, *, is_lost: bool) -> None:
        """Kill the policy's jobs on processors for a reservation by one decision; requeue them unless lost."""
        inherited = self._cluster.inherited
        jobs = (job for job in self.running() if job.id not in inherited)
        self._kill("reservation", procs, jobs, reason, is_lost=is_lost)

    def _kill(
        self, cause: KillCause, procs: IntervalSet, jobs: Iterable[Job], reason: Reason, *, is_lost: bool
    ) -> None:
        hit = [job for job in jobs if job.procs is not None and not job.procs.isdisjoint(procs)]
        hit = [job for job in hit if not self._requeues.kill_pending(job.wire_id)]
        if not hit:
            return
        hit.sort(key=_seq)
        own = [job for job in hit if self._requeues.is_by_policy(job.id)]  # of the policy, which may register others
        lost = [job for job in hit if is_lost or job in own or not self._cluster.can_restart(job)]
        if not is_lost:
            self._n_not_requeued += sum(job not in own for job in lost)
        self._requeues.kill_for(cause, hit, lost, reason)

    def running(self) -> Iterator[Job]:
        """Return all running jobs, those in no partition included."""
        for partition in self._cluster.partitions.values():
            for job in partition.running_jobs:
                if job.state is JobState.RUNNING:
                    yield job
        yield from self._cluster.inherited.values()

    def stopped(self, job: Job, cause: KillCause) -> None:
        """Record that the kill of a job has taken effect. It waits again, unless it has ended."""
        if cause == "failure":
            self._n_failure_kills += 1
        else:
            self.n_reservation_kills += 1
        if job.state is JobState.WAITING:
            self._stopped.append(job)
        else:
            self._end(job, is_useful=False)

    def ended(self, job: Job, cause: KillCause | None) -> None:
        """Count the processor-seconds of a job that ended by itself, at its walltime, or by a rejection after kills."""
        if cause is None and job.started_at is not None:
            self._end(job, is_useful=True)
        elif cause is None:
            self._lost_s += sum(segment.n_held * segment.ran_s for segment in job.past)

    def _end(self, job: Job, *, is_useful: bool) -> None:
        """Count the processor-seconds of an ended job: useful work, checkpoints, and what was lost by kills."""
        if job.started_at is None or job.ended_at is None:
            return
        n, restarts, last_s = job.n_held, job.restarts, job.ended_at - job.started_at
        total_s = last_s + sum(segment.ran_s for segment in job.past)
        if not is_useful:
            self._lost_s += n * total_s
            return
        if self._requeues.is_by_policy(job.id):
            self._extra_s += n * total_s
            return
        is_as_submitted = job.scale == 1.0 and job.n_procs == job.n_procs_requested
        saved = checkpoints_of(job.id, job.fields) if is_as_submitted else None
        lost_s = 0.0 if restarts is None else restarts.lost_s
        load_s = min(job.load_s, last_s)
        extra_s = load_s + (0.0 if restarts is None else restarts.extra_s)
        overhead_s = 0.0
        if saved is not None:
            n_resumed, read_s = (0, 0.0) if restarts is None else (restarts.n_checkpoints, restarts.read_s)
            ran_s = last_s - load_s + (0.0 if restarts is None else restarts.ran_s)
            n_written = saved.n_complete(n_resumed, ran_s)
            overhead_s = n_written * saved.dump_s + read_s + (min(saved.read_s, ran_s) if n_resumed else 0.0)
        self._lost_s += n * lost_s
        self._checkpoint_s += n * overhead_s
        self._extra_s += n * extra_s
        self._useful_s += n * max(total_s - lost_s - overhead_s - extra_s, 0.0)

    def before_decide(self) -> None:
        """Give the killed jobs to the policy: in order, or in reverse order if it puts each in front of the others."""
        if not self._stopped:
            return
        actions = self._actions
        jobs, self._stopped = self._stopped, []
        jobs.sort(key=_seq, reverse=self.rule in FIRST)
        if self.rule == "resubmit":
            for job in jobs:
                job.submitted_at = actions.now
        for job in jobs:
            if not actions.services.take(job):
                actions.caller.call("on_failure", job, actions.now)

    def excuses_promises(self) -> bool:
        """Return whether jobs were killed by failures or for reservations."""
        return self._n_failure_kills + self.n_reservation_kills > 0

    def follow(self, earlier: Failures) -> None:
        """Continue the counts of the policy that this one's policy replaces."""
        self._n_failures, self._n_failure_kills = earlier._n_failures, earlier._n_failure_kills
        self.n_reservation_kills = earlier.n_reservation_kills
        self._n_not_requeued, self._lost_s = earlier._n_not_requeued, earlier._lost_s
        self._checkpoint_s, self._extra_s, self._useful_s = earlier._checkpoint_s, earlier._extra_s, earlier._useful_s

    def figures(self) -> dict[str, float]:
        """Return the failures, their kills, and the processor-seconds of lost work, checkpoints and useful work."""
        total_s = self._useful_s + self._checkpoint_s + self._lost_s + self._extra_s
        if self.rule is None:
            return {"lost_work_s": self._lost_s}
        return {
            "n_failures": self._n_failures,
            "n_failure_kills": self._n_failure_kills,
            "lost_work_s": self._lost_s,
            "checkpoint_s": self._checkpoint_s,
            "application_efficiency": self._useful_s / total_s if total_s else 1.0,
        }

    def remarks(self) -> tuple[str, ...]:
        """Report jobs that could not be requeued."""
        if not self._n_not_requeued:
            return ()
        n = f"{self._n_not_requeued:,} killed jobs were not requeued"
        return (f"{n}: Batsim deleted their profiles; start it with {setting('profile_reuse')}",)


def _seq(job: Job) -> int:
    return job.seq
