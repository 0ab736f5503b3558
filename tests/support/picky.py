"""Policies that reject jobs, so that the jobs that run wait less."""

from __future__ import annotations

from collections.abc import Iterator

from pybatsched import Cluster, Decision, ExecuteJob, Job, Policy, RejectJob


class Picky(Policy):
    """First come, first served; all jobs after the first `n_kept` are rejected."""

    n_kept = 11

    def on_begin(self, cluster: Cluster) -> None:
        self.machine = cluster.add_partition("all", cluster.procs)
        self.jobs: list[Job] = []
        self.n_submitted = 0

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.jobs.append(job)

    def decide(self, now: float) -> Iterator[Decision]:
        for job in list(self.jobs):
            if self.n_submitted >= self.n_kept:
                yield RejectJob(job.id, reason="too many jobs")
            elif job.n_procs <= self.machine.n_free:
                yield ExecuteJob(job.id, self.machine.free.first(job.n_procs))
            else:
                return
            self.n_submitted += 1
            self.jobs.remove(job)


class Refusing(Picky):
    """Rejects all jobs."""

    n_kept = 0
