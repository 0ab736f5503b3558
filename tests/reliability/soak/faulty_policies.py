"""Policies with one fault each, which `make soak` must find: each is a shipped policy with one change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from pybatsched.core import decisions as d
from pybatsched.core.cluster import Cluster
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched_schedulers.conservative import Conservative
from pybatsched_schedulers.dbf.policy import Dbf
from pybatsched_schedulers.easy import Easy
from pybatsched_schedulers.fcfs import Fcfs


class StartsTwice(Easy):
    """Starts every second job on the lowest processors, free or not."""

    n_starts = 0

    def decide(self, now: float) -> Iterable[d.Decision]:
        for decision in super().decide(now):
            if isinstance(decision, d.ExecuteJob):
                self.n_starts += 1
                if self.n_starts % 2 == 0:
                    yield d.ExecuteJob(decision.job_id, IntervalSet.span(0, len(decision.procs)))
                    continue
            yield decision


class LosesJobs(Fcfs):
    """Loses every third job."""

    n_jobs = 0

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.n_jobs += 1
        if self.n_jobs % 3:
            super().on_job_submitted(job, now)


class RejectsJobs(Easy):
    """Rejects what has to wait."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        yield from super().decide(now)
        for job in self.local.waiting():
            self.local.refuse(job, now)
            yield d.RejectJob(job.id)


class KillsJobs(Easy):
    """Kills running jobs as soon as a job waits, and never continues them."""

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.victims: list[Job] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        super().on_job_submitted(job, now)
        self.victims.append(job)

    def decide(self, now: float) -> Iterable[d.Decision]:
        yield from super().decide(now)
        for job in [job for job in self.victims if job.state is JobState.RUNNING] if self.local.queue else ():
            self.victims.remove(job)
            yield d.KillJob((job.id,))


class CallsForEver(Easy):
    """Requests calls a little later, again and again, while a job waits."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        yield from super().decide(now)
        if self.local.queue:
            yield d.CallMeLater(now + 0.01)


class BreaksStarts(Conservative):
    """Puts every job in front of all that have a promise already."""

    def on_job_submitted(self, job: Job, now: float) -> None:
        if self.local.refusal(job) is not None:
            super().on_job_submitted(job, now)
        else:
            self.local.submit(job, now, front=True)


class Starves(Easy):
    """Backfills every job that fits, without regard to the first in the queue."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        yield from super().decide(now)
        for entry in list(self.local.queue):
            if entry.job.n_procs <= self.local.partition.n_free:
                yield self.local.start(entry, "it fits")


class HidesBrokenPromises(Dbf):
    """Does not report accepted deadlines that were missed."""

    def broken_promises(self) -> Iterable[str]:
        return ()


class CriesWolf(Dbf):
    """Reports every accepted deadline as missed."""

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.accepted: dict[str, Job] = {}

    def decide(self, now: float) -> Iterable[d.Decision]:
        yield from super().decide(now)
        self.accepted |= {job.id: job for job in self.local.waiting() if self.local.is_promised(job)}

    def broken_promises(self) -> Iterable[str]:
        return [f"job {job_id} was accepted and is late" for job_id in self.accepted]


class Moody(Easy):
    """Decides by the number of earlier instances, so that each run differs from the last one."""

    n_made: ClassVar[int] = 0

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        Moody.n_made += 1
        self.mood = Moody.n_made

    def decide(self, now: float) -> Iterator[d.Decision]:
        for decision in super().decide(now):
            if isinstance(decision, d.ExecuteJob) and self.mood % 2 and len(decision.procs) == 1:
                free = self.local.partition.free
                yield d.ExecuteJob(decision.job_id, IntervalSet.span(max(free), max(free) + 1))
            else:
                yield decision
