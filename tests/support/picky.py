"""Policies that reject jobs, so that the jobs that run wait less."""

from __future__ import annotations

from collections.abc import Iterator

from pybatsched import CallMeLater, Cluster, Decision, ExecuteJob, Job, KillJob, Policy, RejectJob


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


class Odd(Picky):
    """Rejects every second job."""

    rest = 0

    def decide(self, now: float) -> Iterator[Decision]:
        for job in [job for job in self.jobs if int(job.id.partition("!")[2]) % 2 == self.rest]:
            self.jobs.remove(job)
            yield RejectJob(job.id)
        self.n_submitted = 0
        yield from super().decide(now)


class Even(Odd):
    """Rejects the others."""

    rest = 1


class Killer(Picky):
    """Kills each job 150 s after its start."""

    n_kept = 30

    def decide(self, now: float) -> Iterator[Decision]:
        for job in [job for job in self.machine.running_jobs if now >= (job.started_at or 0) + 150]:
            yield KillJob((job.id,))
        for decision in super().decide(now):
            yield decision
            yield CallMeLater(now + 150)


class Refusing(Picky):
    """Rejects all jobs."""

    n_kept = 0
