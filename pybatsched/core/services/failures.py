"""Jobs on machines that fail: a service of the engine, for every policy.

Batsim's event `machine_unavailable` stops no job. With the option `on_failure` the engine does what a resource manager
does: it kills the jobs that run on the machine, and requeues them. All jobs of one failure are killed by one KILL_JOB.

`Failures.machines_gone` kills the jobs (`Requeues.kill_and_requeue`). Batsim answers at the same time with
JOB_COMPLETED (the processors are free) and JOB_KILLED. Then `Requeues.finish_kill` registers the next segment of a job,
which continues from its last checkpoint, and the job waits again. The policy gets `on_job_ended` and, after all events
of the message, `on_failure` (`before_decide`). `WorkAccount` counts what was lost when the job ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from pybatsched.core.checkpoints import Restarts, checkpoints_of
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
    from pybatsched.core.requeue import Requeues

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
        """Record that processors went down."""
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
    """The failures of one run: which jobs they killed, and how many."""

    def __init__(self, rule: FailureRule | None, actions: Actions, repair_s: float | None = None) -> None:
        self.rule = rule
        self._repair_s = repair_s
        self._actions = actions
        self._cluster = actions.cluster
        self._requeues = actions.requeues
        self._requeued: list[Job] = []  # killed jobs that wait again, and are in no queue
        self._n_failures = 0
        self._n_failure_kills = 0
        #: Jobs that were killed because a reservation began.
        self.n_reservation_kills = 0
        self._n_not_requeued = 0

    def check(self, job: Job) -> None:
        """Raise InputError for a new job with invalid checkpoints."""
        checkpoints_of(job.id, job.fields)

    def machines_gone(self, procs: IntervalSet, at: float) -> None:  # noqa: ARG002
        """Kill the jobs that run on failed processors by one decision, and expect the repair. O(running * k)."""
        if not procs:
            return  # of a storage host, or down already
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
        hit = [job for job in hit if job.wire_id not in self._actions.jobs.kills]
        if not hit:
            return
        hit.sort(key=_seq)
        own = [job for job in hit if self._requeues.is_by_policy(job.id)]  # of the policy, which may register others
        lost = [job for job in hit if is_lost or job in own or not self._cluster.can_restart(job)]
        if not is_lost:
            self._n_not_requeued += sum(job not in own for job in lost)
        self._requeues.kill_and_requeue(cause, hit, lost, reason)

    def running(self) -> Iterator[Job]:
        """Return all running jobs, those in no partition included."""
        for partition in self._cluster.partitions.values():
            for job in partition.running_jobs:
                if job.state is JobState.RUNNING:
                    yield job
        yield from self._cluster.inherited.values()

    def killed(self, job: Job, cause: KillCause) -> None:
        """Record that the kill of a job has taken effect. It waits again, unless it has ended."""
        if cause == "failure":
            self._n_failure_kills += 1
        else:
            self.n_reservation_kills += 1
        if job.state is JobState.WAITING:
            self._requeued.append(job)

    def before_decide(self) -> None:
        """Give the killed jobs to the policy: in order, or in reverse order if it puts each in front of the others."""
        if not self._requeued:
            return
        actions = self._actions
        jobs, self._requeued = self._requeued, []
        jobs.sort(key=_seq, reverse=self.rule in FIRST)
        if self.rule == "resubmit":
            for job in jobs:
                job.submitted_at = job.eligible_at = actions.now
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
        self._n_not_requeued = earlier._n_not_requeued

    def figures(self) -> dict[str, float]:
        """Return how many failures there were, and how many jobs they have killed."""
        if self.rule is None:
            return {}
        return {"n_failures": self._n_failures, "n_failure_kills": self._n_failure_kills}

    def remarks(self) -> tuple[str, ...]:
        """Report jobs that could not be requeued."""
        if not self._n_not_requeued:
            return ()
        n = f"{self._n_not_requeued:,} killed jobs were not requeued"
        return (f"{n}: Batsim deleted their profiles; start it with {setting('profile_reuse')}",)


class WorkAccount(Service):
    """The processor-seconds of the ended jobs of one run: useful work, checkpoints, and work lost by kills."""

    def __init__(self, requeues: Requeues, *, counts_failures: bool) -> None:
        self._requeues = requeues
        self._counts_failures = counts_failures
        self._useful = self._checkpoints = self._lost = self._extra = 0.0

    def ended(self, job: Job, cause: KillCause | None) -> None:  # noqa: ARG002
        """Count a job that has completed, was killed, or was rejected after kills."""
        ran = sum(segment.n_held * segment.ran_s for segment in (*job.past, job.segment))
        if job.state is not JobState.COMPLETED:
            self._lost += ran
        elif self._requeues.is_by_policy(job.id):
            self._extra += ran
        else:
            account, segment = job.restarts or Restarts(), job.segment
            account.add_run(segment.n_held, segment.ran_s - segment.own_s, segment.own_s)
            checkpoints = self._requeues.checkpoints_of(job)
            if checkpoints is not None:
                account.add_checkpoints(checkpoints)
            self._useful += account.kept + account.ran
            self._checkpoints += account.overhead
            self._lost += account.lost
            self._extra += account.extra

    def follow(self, earlier: WorkAccount) -> None:
        """Continue the sums of the policy that this one's policy replaces."""
        self._useful, self._checkpoints = earlier._useful, earlier._checkpoints
        self._lost, self._extra = earlier._lost, earlier._extra

    def figures(self) -> dict[str, float]:
        """Return the processor-seconds of lost work and, with a rule for failures, of checkpoints and useful work."""
        if not self._counts_failures:
            return {"lost_work_s": self._lost}
        total = self._useful + self._checkpoints + self._lost + self._extra
        return {
            "lost_work_s": self._lost,
            "checkpoint_s": self._checkpoints,
            "application_efficiency": self._useful / total if total else 1.0,
        }


def _seq(job: Job) -> int:
    return job.seq
