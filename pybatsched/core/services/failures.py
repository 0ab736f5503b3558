"""Jobs on machines that fail: a service of the engine, for every policy.

Batsim's event `machine_unavailable` stops no job. With the option `on_failure` the engine does what a resource manager
does: it kills the jobs that run on the machine, and requeues them. All jobs of one failure are killed by one KILL_JOB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pybatsched.core.jobs import Job, JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybatsched.core.cluster import Cluster
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.core.services.requeue import Services

#: What happens to a job whose machine fails: it is killed, and requeued in front of the queue or behind all others,
#: submitted again, or not requeued.
FailureRule: TypeAlias = Literal["requeue_first", "requeue_last", "resubmit", "kill"]
#: The rules that register jobs in Batsim.
REQUEUING: Final = frozenset(("requeue_first", "requeue_last", "resubmit"))


def rule_of(options: Any) -> FailureRule | None:
    """Return the option `on_failure` of a policy's options; None if it is not set, or the model has no such option."""
    rule: FailureRule | None = getattr(options, "on_failure", None)
    return rule


class Failures:
    """The failures of one run: which jobs they stopped, and how many."""

    def __init__(self, rule: FailureRule, cluster: Cluster, services: Services) -> None:
        self.rule = rule
        self._cluster = cluster
        self._services = services
        self._stopped: list[Job] = []  # killed jobs that wait again, and are in no queue
        self._n_failures = 0
        self.n_killed = 0  # jobs killed by failures
        self._n_not_requeued = 0
        self._lost_s = 0.0  # processor-seconds

    def fail(self, procs: IntervalSet) -> None:
        """Kill the jobs that run on processors which failed, by one decision. O(running * k).

        A job that is being killed already is left out.
        """
        self._n_failures += 1
        hit = [job for job in self._running() if job.procs is not None and not job.procs.isdisjoint(procs)]
        hit = [job for job in hit if not self._services.kill_pending(job.wire_id)]
        if not hit:
            return
        hit.sort(key=_seq)
        lost = [job for job in hit if self.rule == "kill" or not self._cluster.can_restart(job)]
        if self.rule != "kill":
            self._n_not_requeued += len(lost)
        self._services.kill_failed(hit, lost, ("processors {} failed", procs))

    def _running(self) -> Iterator[Job]:
        for partition in self._cluster.partitions.values():
            for job in partition.running_jobs:
                if job.state is JobState.RUNNING:
                    yield job
        yield from self._cluster.inherited.values()

    def stopped(self, job: Job) -> None:
        """Record that the kill of a job has taken effect. It waits again, unless it has ended."""
        self.n_killed += 1
        if job.state is JobState.WAITING:
            last = job.past[-1]
            self._lost_s += len(last.procs) * (last.ended_at - last.started_at)
            self._stopped.append(job)
        elif job.started_at is not None and job.ended_at is not None:
            self._lost_s += job.n_held * (job.ended_at - job.started_at)

    def to_requeue(self, now: float) -> list[Job]:
        """Return the killed jobs in the order in which the policy puts them into its queue, and forget them.

        If they go in front of the queue, the first submitted job comes last, so that it is first in the queue.
        """
        jobs, self._stopped = self._stopped, []
        jobs.sort(key=_seq, reverse=self.rule == "requeue_first")
        if self.rule == "resubmit":
            for job in jobs:
                job.submitted_at = now
        return jobs

    @property
    def has_stopped(self) -> bool:
        """Whether killed jobs are in no queue."""
        return bool(self._stopped)

    def follow(self, other: Failures) -> None:
        """Continue the counts of the policy that this one's policy replaces."""
        self._n_failures, self.n_killed = other._n_failures, other.n_killed
        self._n_not_requeued, self._lost_s = other._n_not_requeued, other._lost_s

    def figures(self) -> dict[str, float]:
        """Return the failures, the kills, and the lost processor-seconds of the run."""
        return {"n_failures": self._n_failures, "n_failure_kills": self.n_killed, "lost_work_s": self._lost_s}

    def remarks(self) -> tuple[str, ...]:
        """Report jobs that could not be requeued."""
        if not self._n_not_requeued:
            return ()
        n = f"{self._n_not_requeued:,} killed jobs were not requeued"
        return (f"{n}: Batsim deleted their profiles; start it with --enable-profile-reuse",)


def _seq(job: Job) -> int:
    return job.seq
