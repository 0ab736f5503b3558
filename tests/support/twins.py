"""Slow, obvious twins of the shipped policies: the oracles of the fast ones.

They keep no state between messages but the queue and, for conservative backfilling, the promised places. They look at
every waiting job every time and count free processors instant by instant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from pybatsched.cluster import Cluster
from pybatsched.decisions import CallMeLater, Decision, ExecuteJob, RejectJob
from pybatsched.jobs import Job
from pybatsched.policy import Options, Policy


class Twin(Policy):
    """What all twins share: a list of waiting jobs in order of arrival."""

    def on_begin(self, cluster: Cluster) -> None:
        self.partition = cluster.add_partition("all", cluster.procs)
        self.queue: list[Job] = []
        self.rejects: list[Job] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        if job.n_procs > self.partition.n_procs or (job.estimate is None and isinstance(self, SlowConservative)):
            self.rejects.append(job)
        else:
            self.queue.append(job)

    def decide(self, now: float) -> Iterable[Decision]:
        while self.rejects:
            yield RejectJob(self.rejects.pop().id)
        yield from self.starts(now)

    def starts(self, now: float) -> Iterator[Decision]:
        raise NotImplementedError

    def start(self, job: Job) -> ExecuteJob:
        self.queue.remove(job)
        return ExecuteJob(job.id, self.partition.free.first(job.n_procs))


class SlowFcfs(Twin):
    """First come, first served."""

    def starts(self, now: float) -> Iterator[Decision]:
        while self.queue and self.queue[0].n_procs <= self.partition.n_free:
            yield self.start(self.queue[0])


class SlowEasy(Twin):
    """EASY by the book, from scratch at every message."""

    def starts(self, now: float) -> Iterator[Decision]:
        while self.queue and self.queue[0].n_procs <= self.partition.n_free:
            yield self.start(self.queue[0])
        if not self.queue:
            return
        head = self.queue[0]
        ends = sorted((max(end_at, now), len(job.procs or ())) for end_at, _, job in self.partition.running)
        shadow = min(
            (at for at, _ in ends if self.partition.n_free + sum(n for end, n in ends if end <= at) >= head.n_procs),
            default=math.inf,
        )
        extra = self.partition.n_free + sum(n for end, n in ends if end <= shadow) - head.n_procs
        if shadow == math.inf:
            extra = 0
        for job in self.queue[1:]:
            if job.n_procs > self.partition.n_free:
                continue
            if job.estimate is not None and round(now + job.estimate, 6) <= shadow:
                yield self.start(job)
            elif job.n_procs <= extra:
                extra -= job.n_procs
                yield self.start(job)


class SlowConservativeOptions(Options):
    compression: bool = True


class SlowConservative(Twin):
    """Conservative backfilling on counts: every place is found by trying all instants at which something ends.

    For jobs that end no later than their estimate.
    """

    Options = SlowConservativeOptions

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.places: dict[str, float] = {}
        self.ended = False

    def on_job_ended(self, job: Job, now: float) -> None:
        self.ended = True

    def starts(self, now: float) -> Iterator[Decision]:
        if self.ended and self.options.compression:
            for job in self.queue:
                if job.id in self.places:
                    self.places[job.id] = self.earliest(job, now)
        self.ended = False
        for job in self.queue:
            if job.id not in self.places:
                self.places[job.id] = self.earliest(job, now)
        for job in list(self.queue):
            if self.places[job.id] <= now and job.n_procs <= self.partition.n_free:
                del self.places[job.id]
                yield self.start(job)
        if not self.options.compression and self.places and min(self.places.values()) > now:
            yield CallMeLater(min(self.places.values()))

    def earliest(self, job: Job, now: float) -> float:
        booked = self.booked(job, now)
        for start in sorted({now, *(end for _, end, _ in booked if end > now)}):
            end = round(start + (job.estimate or 0.0), 6)
            instants = [start, *(at for at, _, _ in booked if start < at < end)]
            if all(self.used(booked, at) + job.n_procs <= self.partition.n_procs for at in instants):
                return start
        raise AssertionError("every job fits on the empty machine")

    def booked(self, but: Job, now: float) -> list[tuple[float, float, int]]:
        running = [(now, end_at, job.n_procs) for end_at, _, job in self.partition.running]
        waiting = [
            (self.places[job.id], round(self.places[job.id] + (job.estimate or 0.0), 6), job.n_procs)
            for job in self.queue
            if job is not but and job.id in self.places
        ]
        return running + waiting

    @staticmethod
    def used(booked: list[tuple[float, float, int]], at: float) -> int:
        return sum(n for start, end, n in booked if start <= at < end)
