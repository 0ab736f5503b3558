"""A slow, simple model of the program RLScheduler (SC 2020): its logs, sequences, scores and clock.

It handles one event at a time, as the program does, and shares no code with pybatsched.
"""

from __future__ import annotations

import gzip
import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np


class TwinJob(NamedTuple):
    """A job: its number, submission, run time, processors and requested time (-1 if nothing is known)."""

    number: int
    submitted_at: int
    run_s: int
    n: int
    requested_s: int


class Running(NamedTuple):
    """A running job with its real and its expected end."""

    end_at: int
    expected_end_at: int
    job: TwinJob


def read_log(path: Path) -> list[TwinJob]:
    """Read a log as the program does. A requested time is completed before an unknown run time is."""
    jobs = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if line.startswith(";") or not line.strip():
                continue
            fields = line.split()
            number, submitted_at, run_s = int(fields[0]), int(fields[1]), int(fields[3])
            allocated, requested, requested_s = int(fields[4]), int(fields[7]), int(fields[8])
            if requested_s == -1:
                requested_s = run_s
            run_s = 10 if run_s < 0 else run_s
            if run_s > 0:
                jobs.append(TwinJob(number, submitted_at, run_s, max(allocated, requested), requested_s))
    return sorted(jobs)


def draw_starts(n_jobs: int, length: int = 1024, number: int = 10, seed: int = 1) -> list[int]:
    """Draw the starts of sequences with numpy's generator, seeded as old Gym did."""
    digest = hashlib.sha512(str(seed).encode()).digest()
    numbers = [int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")]
    generator = np.random.RandomState(numbers)
    return [int(generator.randint(length, n_jobs - length - 1)) for _ in range(number)]


def score_of(order: str, *, real_waits: bool) -> Callable[[TwinJob, int], float | tuple[int, int]]:
    """Return the score of a job at a time; the lowest goes first."""

    def wait(job: TwinJob, now: int) -> float:
        return (now if real_waits else -1) - job.submitted_at

    def log10(value: float) -> float:
        return math.log10(value if value > 0 else 0.1)

    scores: dict[str, Callable[[TwinJob, int], float | tuple[int, int]]] = {
        "fcfs": lambda job, _now: job.submitted_at,
        "sjf": lambda job, _now: (job.requested_s, job.submitted_at),
        "f1": lambda job, _now: log10(job.requested_s) * job.n + 870 * log10(job.submitted_at),
        "wfp3": lambda job, now: -((wait(job, now) / job.requested_s) ** 3) * job.n,
        "unicep": lambda job, now: -(wait(job, now) + 1e-15) / (math.log2(job.n + 1e-15) * job.requested_s),
    }
    return scores[order]


def program_starts(
    jobs: Sequence[TwinJob], n_procs: int, order: str, *, backfilling: bool = False, real_waits: bool = False
) -> dict[int, int]:
    """Return the start of each job, by its number."""
    return _Program(jobs, n_procs, order, backfilling=backfilling, real_waits=real_waits).run()


def mean_bounded_slowdown(jobs: Sequence[TwinJob], starts: dict[int, int], tau_s: int = 10) -> float:
    """Return the mean bounded slowdown of a schedule."""
    return sum(
        max(1.0, (starts[job.number] - job.submitted_at + job.run_s) / max(job.run_s, tau_s)) for job in jobs
    ) / len(jobs)


class _Program:
    def __init__(
        self, jobs: Sequence[TwinJob], n_procs: int, order: str, *, backfilling: bool, real_waits: bool
    ) -> None:
        self.coming = list(jobs)
        self.n_free = n_procs
        self.score = score_of(order, real_waits=real_waits)
        self.backfilling = backfilling
        self.now = jobs[0].submitted_at
        self.queue: list[TwinJob] = []
        self.running: list[Running] = []
        self.starts: dict[int, int] = {}

    def run(self) -> dict[int, int]:
        while self.queue or self.coming:
            if not self.queue:
                self.next_event()
                continue
            self.queue.sort(key=lambda job: self.score(job, self.now))
            head = self.queue[0]
            if head.n > self.n_free:
                shadow_at = self.shadow(head) if self.backfilling else 0
                while head.n > self.n_free:
                    if self.backfilling:
                        self.backfill(shadow_at)
                    self.next_event()
            self.start(head)
        return self.starts

    def start(self, job: TwinJob) -> None:
        self.queue.remove(job)
        self.starts[job.number] = self.now
        self.n_free -= job.n
        self.running.append(Running(self.now + job.run_s, self.now + job.requested_s, job))

    def next_event(self) -> None:
        self.running.sort(key=lambda one: one.end_at)
        if self.coming and (not self.running or self.coming[0].submitted_at <= self.running[0].end_at):
            job = self.coming.pop(0)
            self.now = max(self.now, job.submitted_at)
            self.queue.append(job)
        else:
            ended = self.running.pop(0)
            self.now = max(self.now, ended.end_at)
            self.n_free += ended.job.n

    def shadow(self, head: TwinJob) -> int:
        self.running.sort(key=lambda one: one.expected_end_at)
        n_then, shadow_at = self.n_free, self.now
        for one in self.running:
            n_then += one.job.n
            shadow_at = one.expected_end_at
            if n_then >= head.n:
                break
        return shadow_at

    def backfill(self, shadow_at: int) -> None:
        self.queue.sort(key=lambda job: job.submitted_at)
        for job in list(self.queue):
            if job.n <= self.n_free and self.now + job.requested_s < shadow_at:
                self.start(job)
