"""The slow, obvious twin of `published_locality`: the published program by its rules, with a clock of seconds.

All times are whole. It shares nothing with the policy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import count
from typing import TypeVar

from support.locality_twin import PRESETS, Stay, TwinFile, TwinJob, TwinNode

T = TypeVar("T")


def by_logged_start(history: Iterable[tuple[float, T]]) -> list[T]:
    """Insert jobs with their starts one by one: before the head if it did not start earlier, else behind equals."""
    listed: list[tuple[float, T]] = []
    for start, job in history:
        is_head = not listed or start <= listed[0][0]
        listed.insert(0 if is_head else sum(other <= start for other, _ in listed), (start, job))
    return [job for _, job in listed]


class PublishedTwin:
    """Runs a complete simulation; then the jobs hold their results."""

    def __init__(
        self,
        jobs: Iterable[TwinJob],
        nodes: Iterable[TwinNode],
        score: str = "",
        x: tuple[float, float] = (0, 0),
        interval_s: int = 30,
    ) -> None:
        self.to_come = sorted(jobs, key=lambda job: (job.at, job.id))
        self.nodes = list(nodes)
        self.score, self.x, self.interval_s = score, x if not score else PRESETS[score][:2], interval_s
        self.waiting: list[TwinJob] = []
        self.new: list[TwinJob] = []
        self.running: list[TwinJob] = []
        self.available = [[0.0] * node.n_cores for node in self.nodes]  # from when each core is, as far as is known
        self.stays: list[dict[str, list[Stay]]] = []
        self.sizes: dict[str, float] = {}

    def run(self) -> None:
        for second in count():
            if not (self.to_come or self.waiting or self.new or self.running):
                return
            self.simulate_second(second)

    def simulate_second(self, t: int) -> None:
        """Simulate one second."""
        ended = [job for job in self.running if job.ended_at == t]
        for job in ended:
            self.end(job, t)
        self.start_placed(t)
        arrived = [job for job in self.to_come if job.at == t]
        self.to_come = self.to_come[len(arrived) :]
        if t == 0:
            history = [(job.history[1], (job.history[0], job)) for job in arrived if job.history is not None]
            for logged, job in by_logged_start(history):
                n = logged % len(self.nodes)
                self.take(job, n, self.eat(n, job, t))
                self.waiting.append(job)
            self.start_placed(t)
            self.new += [job for job in arrived if job.history is None]
            return
        if ended:
            self.waiting += arrived
        else:
            self.new += arrived
        if t % self.interval_s:
            return
        if self.is_stuck() and not arrived:
            self.full_pass_over_all(t)
        elif ended and self.waiting:
            self.full_pass(t)
        elif arrived and not ended:
            self.newcomers_pass(t)
        self.start_placed(t)
        if self.is_stuck():
            self.full_pass_over_all(t)
            self.start_placed(t)

    def is_stuck(self) -> bool:
        """Whether the program would wait for ever: no job runs or arrives, and waiting jobs have no place."""
        waits = bool(self.waiting or self.new)
        return waits and not self.to_come and not self.running and not any(job.reserved for job in self.waiting)

    # --- passes ---

    def full_pass_over_all(self, t: int) -> None:
        """Help where the program would wait for ever."""
        self.waiting += self.new
        self.new = []
        self.full_pass(t)

    def full_pass(self, t: int) -> None:
        for job in self.waiting:
            job.reserved = None
        for n, node in enumerate(self.nodes):
            busy = [job.until for job in node.runs for _ in range(job.cores)]
            self.available[n] = busy + [float(t)] * (node.n_cores - len(busy))
        self.place(self.waiting, t)

    def newcomers_pass(self, t: int) -> None:
        self.place(self.new, t)
        self.waiting += self.new
        self.new = []

    def place(self, jobs: list[TwinJob], t: int) -> None:
        self.look_at_files(t)
        n_running = sum(1 for node in self.nodes if node.runs)
        for job in jobs:
            n_idle = sum(at <= t for cores in self.available for at in cores)
            if n_idle == 0 or (self.is_scored and job.cores > n_idle):
                return
            x1, x2 = self.x
            if self.score == "lem" and n_running < len(self.nodes):
                x1, x2 = PRESETS["eft"][:2]
            scores = []
            for n, node in enumerate(self.nodes):
                if job.cores > node.n_cores:
                    continue
                at = self.eat(n, job, t)
                if self.score == "leo" and at == t:
                    x1, x2 = PRESETS["eft"][:2]  # and it stays so for the nodes that follow
                scores.append((int(at + x1 * self.load_s(n, job, at, t) + x2 * self.evict_s(n, job, at)), n, at))
            _, n, at = min(scores)
            if at == t and not self.nodes[n].runs and max(self.available[n]) <= t:
                n_running += 1
            stay = Stay(at, at + self.load_s(n, job, at, t), at + job.walltime)
            self.take(job, n, at)
            if job.file:
                self.sizes[job.file] = job.size_gb
                self.stays[n].setdefault(job.file, []).append(stay)

    @property
    def is_scored(self) -> bool:
        return self.x != (0, 0)

    def take(self, job: TwinJob, n: int, at: float) -> None:
        cores = sorted(self.available[n])
        self.available[n] = cores[job.cores :] + [at + job.walltime] * job.cores
        job.reserved = (n, at)

    # --- the terms of a score ---

    def look_at_files(self, t: int) -> None:
        """Files in use, and those whose last user ended just now; what earlier passes have planned is not known."""
        self.stays = []
        for node in self.nodes:
            found = {}
            for name, file in node.files.items():
                self.sizes[name] = file.size_gb
                if file.users:
                    found[name] = [Stay(t, max(t, file.loaded_at), file.until)]
                elif file.left_at == t:
                    found[name] = [Stay(t, t, t)]
            self.stays.append(found)

    def eat(self, n: int, job: TwinJob, t: int) -> float:
        return max(t, sorted(self.available[n])[job.cores - 1])

    def load_s(self, n: int, job: TwinJob, at: float, t: int) -> float:
        for stay in self.stays[n].get(job.file, []) if job.file else []:
            if stay.begin <= at <= stay.end:
                return 0 if stay.loaded <= at else stay.loaded - t  # from now, not from its start
        return job.size_gb / self.nodes[n].bandwidth

    def evict_s(self, n: int, job: TwinJob, at: float) -> float:
        node = self.nodes[n]
        over = [name for name, stays in self.stays[n].items() if name != job.file and stays[-1].end <= at]
        return job.cores / node.n_cores * sum(self.sizes[name] for name in over) / node.bandwidth

    # --- what really happens ---

    def start_placed(self, t: int) -> None:
        due = [job for job in self.waiting if job.reserved is not None and job.reserved[1] == t]
        self.waiting = [job for job in self.waiting if job not in due]
        for job in due:
            assert job.reserved is not None
            self.start(job, job.reserved[0], t)

    def start(self, job: TwinJob, n: int, t: int) -> None:
        node = self.nodes[n]
        assert sum(other.cores for other in node.runs) + job.cores <= node.n_cores
        job.node, job.started_at, job.reserved = n, t, None
        if job.file:
            file = node.files.get(job.file)
            if file is not None and (file.users or file.left_at == t):
                job.wait_s, job.reused = max(file.loaded_at - t, 0), True
            else:
                job.load_s = job.size_gb / node.bandwidth
                file = node.files[job.file] = TwinFile(job.size_gb, t + job.load_s)
            file.users.append(job)
            file.until = max(file.until, job.until)
        job.ended_at = t + min(job.load_s + job.wait_s + job.run_s, job.walltime)
        node.runs.append(job)
        self.running.append(job)

    def end(self, job: TwinJob, t: int) -> None:
        self.running.remove(job)
        node = self.nodes[job.node]
        node.runs.remove(job)
        if job.file:
            file = node.files[job.file]
            file.users.remove(job)
            if not file.users:
                file.left_at, file.until = t, -math.inf
