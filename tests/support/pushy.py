"""Policies that kill and requeue many jobs, to test the engine's services; loaded by path into the real process."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from pybatsched.core import decisions as d
from pybatsched.core.cluster import Cluster
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.options import Options
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.policies.local_scheduler import LocalPolicy, LocalScheduler, QueuePolicy
from pybatsched.policies.queue_options import QueueOptions
from pybatsched.policies.registry import local_scheduler
from pybatsched_schedulers.easy import EasyScheduler
from pybatsched_schedulers.fcfs import FcfsScheduler


class Ruthless(LocalPolicy):
    """EASY that requeues the job with the most processors at each submission; for tests of the services."""

    Options = QueueOptions
    scheduler: ClassVar[type[LocalScheduler]] = EasyScheduler
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})
    work: Any = "all"
    extra_s = 0.5

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.pushed = False

    def on_job_submitted(self, job: Job, now: float) -> None:
        super().on_job_submitted(job, now)
        self.pushed = True

    def on_job_killed(self, job: Job, now: float) -> None:
        super().on_job_killed(job, now)
        self.local.submit(job, now)

    def decide(self, now: float) -> Iterable[d.Decision]:
        running = [job for job in self.local.partition.running_jobs if job.n_restarts < 3]
        if self.pushed and running and not self.local.partition.n_kills_pending:
            victim = max(running, key=lambda job: (job.n_procs, job.id))
            yield d.Requeue(victim.id, work=self.work, extra_s=self.extra_s)
        self.pushed = False
        yield from super().decide(now)


class Restarter(Ruthless):
    """The same without the extra time, so that any profile can be restarted."""

    extra_s = 0.0


class Gentle(Ruthless):
    """The same, but victims keep what they have done."""

    work = "rest"


class Stretcher(LocalPolicy):
    """FCFS on two processors more or fewer than asked for, and twice the time: every job is replaced."""

    Options = QueueOptions
    scheduler = EasyScheduler
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def decide(self, now: float) -> Iterable[d.Decision]:
        for decision in super().decide(now):
            if isinstance(decision, d.ExecuteJob):
                n = len(decision.procs)
                on = decision.procs if n == 1 else decision.procs.first(n - 1)
                yield d.Replace(decision.job_id, on, n=len(on), duration_s=7.25, reason="stretched")
            else:
                yield decision


class LoaderOptions(QueueOptions):
    """How long each job loads, whether within its walltime, and what is left of the first victim of each newcomer."""

    load_s: float = 2.5
    within: bool = False
    requeued: Literal["", "all", "rest"] = ""


class Loader(Ruthless):
    """EASY that puts a load before every job, and reports it; with `requeued` it also preempts jobs once."""

    Options = LoaderOptions
    extra_s = 0.0

    def decide(self, now: float) -> Iterable[d.Decision]:
        assert isinstance(self.options, LoaderOptions)
        self.work = self.options.requeued
        self.pushed = self.pushed and bool(self.work)
        for decision in super().decide(now):
            if isinstance(decision, d.ExecuteJob):
                load_s, within = self.options.load_s, self.options.within
                yield d.SetJobMetadata(decision.job_id, f"load_s={load_s:g}")
                yield d.Replace(decision.job_id, decision.procs, extra_s=load_s, within_walltime=within)
            else:
                yield decision


class Narrower(LocalPolicy):
    """FCFS of jobs that are narrowed to one processor, for as many times longer."""

    scheduler = FcfsScheduler
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.loose: list[Job] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.loose.append(job)

    def decide(self, now: float) -> Iterable[d.Decision]:
        while self.loose:
            job = self.loose.pop(0)
            yield d.Reshape(job.id, 1, job.n_procs_requested, reason="one is enough")
            self.submit_to(self.local, job, now)
        yield from super().decide(now)


class MolderOptions(Options):
    """The seed; the remaining work of requeued jobs, if any; and the length of loads."""

    seed: int = 0
    requeued: Literal["", "all", "rest"] = ""
    extra_s: float = 0.0
    load_s: float = 0.0


class Molder(QueuePolicy):
    """Two halves between which waiting jobs move, in another shape each time; some starts are held, or have a load.

    Each job has the scale it started with as a fact.
    """

    Options = MolderOptions
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster: Cluster) -> None:
        half = cluster.procs.first(cluster.n_procs // 2)
        self.locals = [
            local_scheduler("conservative", {}, cluster.add_partition("low", half)),
            local_scheduler("easy", {}, cluster.add_partition("high", cluster.procs - half)),
        ]
        self.dice = random.Random(self.options.seed)
        self.jobs = cluster.jobs
        self.loose: list[Job] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.loose.append(job)

    def on_job_killed(self, job: Job, now: float) -> None:
        super().on_job_killed(job, now)
        self.loose.append(job)

    def decide(self, now: float) -> Iterable[d.Decision]:
        dice, options = self.dice, self.options
        for local in self.locals:
            for job in local.waiting():
                if dice.random() < 0.5:
                    local.withdraw(job, now)
                    self.loose.append(job)
        for job in self.loose:
            local = dice.choice(self.locals)
            for _ in range(dice.choice((0, 1, 1, 2))):
                n, scale = dice.randint(1, local.partition.n_procs), dice.choice((0.25, 1 / 3, 0.5, 1, 1.0, 1.7, 2))
                expected = (n, job.estimate_at(scale))
                yield d.Reshape(job.id, n, scale, reason=("{} is another size", n))
                assert (job.n_procs, job.estimate) == expected
            if job.n_procs > local.partition.n_procs:
                yield d.Reshape(job.id, local.partition.n_procs, job.scale)
            self.submit_to(local, job, now)
        self.loose.clear()
        for decision in super().decide(now):
            yield from self.varied(decision, now)
        victims = [job for local in self.locals for job in local.partition.running_jobs if job.started_at is not None]
        victims = [job for job in victims if job.n_restarts < 3 and job.state is JobState.RUNNING]
        busy = any(local.partition.n_kills_pending for local in self.locals)
        if options.requeued and victims and not busy and dice.random() < 0.3:
            yield d.Requeue(dice.choice(victims).id, work=options.requeued, extra_s=options.extra_s)

    def varied(self, decision: d.Decision, now: float) -> Iterable[d.Decision]:
        """Start a job in one of several ways."""
        if not isinstance(decision, d.ExecuteJob):
            yield decision
            return
        yield d.SetJobMetadata(decision.job_id, f"scale={self.jobs[decision.job_id].scale!r}")
        how = self.dice.random()
        if how < 0.2:
            yield d.StartAt(decision.job_id, decision.procs, now + 1.5)
        elif how < 0.4:
            yield d.Replace(decision.job_id, decision.procs, extra_s=self.options.load_s)
        else:
            yield decision


class Lazy(Policy):
    """Never starts anything."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        return ()


class Restless(LocalPolicy):
    """EASY that requests a call every second."""

    scheduler = EasyScheduler

    def decide(self, now: float) -> Iterable[d.Decision]:
        yield from super().decide(now)
        yield d.CallMeLater(now + 1.0)


class Ticking(LocalPolicy):
    """EASY that requests a call at the next tick."""

    scheduler = EasyScheduler

    def decide(self, now: float) -> Iterable[d.Decision]:
        yield from super().decide(now)
        yield d.CallMeLater(now + TICK)


class Greedy(Policy):
    """Starts every job on processor 0, free or not."""

    def on_begin(self, cluster: Cluster) -> None:
        self.jobs: list[Job] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.jobs.append(job)

    def decide(self, now: float) -> Iterable[d.Decision]:
        while self.jobs:
            yield d.ExecuteJob(self.jobs.pop(0).id, IntervalSet.span(0, 1))


class Sleepy(LocalPolicy):
    """EASY that takes a millisecond of real time for each message, however fast the machine."""

    scheduler = EasyScheduler

    def decide(self, now: float) -> Iterable[d.Decision]:
        # patience: a fast machine takes as long; a slow one may take longer
        time.sleep(0.001)
        return super().decide(now)


class GamblerOptions(Options):
    """A seed."""

    seed: int = 0


class Gambler(LocalPolicy):
    """EASY with an option that it does not use."""

    Options = GamblerOptions
    scheduler = EasyScheduler

    def on_begin(self, cluster: Cluster) -> None:
        self.local = self.scheduler(cluster.add_partition("all", cluster.procs), QueueOptions.model_validate({}))
        self._urgent = []
