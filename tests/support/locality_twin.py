"""The slow, obvious twin of locality: the oracle of the fast policy, written from its rules.

It shares nothing with the policy, nor with the simulator: it has its own small event loop, nodes are lists of
cores with times, and the score of every node is computed again for every job. One message has all events of an
instant; one more comes after the last submission, and requested calls come even if they are not needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

PRESETS = {"fcfs": (0, 0, 0), "eft": (1, 0, 0), "lea": (500, 1, 0), "leo": (500, 1, 0), "lem": (500, 1, 0)}


@dataclass(eq=False)
class TwinJob:
    """A job; the twin fills in its result."""

    id: str
    at: float
    cores: int
    run_s: float
    walltime: float
    file: str = ""
    size_gb: float = 0.0
    memory_gb: float | None = None
    history: tuple[int, float] | None = None
    reserved: tuple[int, float] | None = None  # a node and an instant
    node: int = -1
    started_at: float = math.nan
    ended_at: float = math.nan
    load_s: float = 0.0
    wait_s: float = 0.0
    reused: bool = False

    @property
    def until(self) -> float:
        """The instant at which the plans expect its end."""
        return self.started_at + self.walltime


@dataclass
class TwinFile:
    """A file on a node."""

    size_gb: float
    loaded_at: float
    users: list[TwinJob] = field(default_factory=list)
    left_at: float = -math.inf
    left_as: int = 0  # the how-manieth that was left
    until: float = -math.inf  # for the published program: of all jobs that used it since it was last unused

    def is_here(self, now: float, *, persistent: bool) -> bool:
        return bool(self.users) or self.left_at == now or (persistent and self.loaded_at <= self.left_at)


@dataclass
class TwinNode:
    """A node with what is on it."""

    n_cores: int
    memory_gb: float
    bandwidth: float
    runs: list[TwinJob] = field(default_factory=list)
    files: dict[str, TwinFile] = field(default_factory=dict)


@dataclass
class TwinRules:
    """The options."""

    score: str = ""  # a preset; else x
    x: tuple[float, float, float] = (0, 0, 0)
    backfill: bool = False
    persistence: bool = False
    interval_s: float = 30
    bigger_nodes: str = "never"
    areas: Mapping[float, float] = field(default_factory=dict)  # Planned_Area by class of memory


class Stay(NamedTuple):
    begin: float
    loaded: float
    end: float


@dataclass
class Core:
    """A core in a plan: available from an instant on, and if it is idle now and reserved, from which instant."""

    free_at: float
    reserved_from: float | None = None


class Plan:
    """The state and the decisions of one pass."""

    def __init__(self, nodes: list[TwinNode], rules: TwinRules, now: float) -> None:
        self.nodes, self.rules, self.now = nodes, rules, now
        self.cores: list[list[Core]] = []
        self.stays: list[dict[str, list[Stay]]] = []
        self.sizes: dict[str, float] = {}
        self.busy = {n for n, node in enumerate(nodes) if node.runs}
        for node in nodes:
            busy = [Core(job.until) for job in node.runs for _ in range(job.cores)]
            self.cores.append(busy + [Core(now) for _ in range(node.n_cores - len(busy))])
            self.stays.append({})
            for name, file in node.files.items():
                self.sizes[name] = file.size_gb
                end = max((job.until for job in file.users), default=now)
                self.stays[-1][name] = [Stay(now, max(now, file.loaded_at), end)]

    # --- the terms of a score ---

    def idle(self, n: int) -> list[Core]:
        return [core for core in self.cores[n] if core.free_at <= self.now]

    def holes(self, n: int, until: float = -math.inf) -> list[Core]:
        """Cores that are idle now and reserved from a later instant, but not before `until`; the soonest first."""
        found = [core for core in self.cores[n] if core.reserved_from is not None and core.reserved_from >= until]
        return sorted(found, key=lambda core: core.reserved_from or 0)

    def eat(self, n: int, job: TwinJob) -> float:
        """EAT: when there are cores and memory enough."""
        n_idle, n_holes = len(self.idle(n)), len(self.holes(n, self.now + job.walltime))
        if self.rules.backfill and n_idle < job.cores <= n_idle + n_holes and self.has_room(n, job, self.now):
            return self.now
        if job.cores > self.nodes[n].n_cores:
            return math.inf
        cores_at = sorted(core.free_at for core in self.cores[n])[job.cores - 1]
        ends = sorted(stay.end for stays in self.stays[n].values() for stay in stays)
        for at in [cores_at, *(end for end in ends if end > cores_at)]:
            if self.has_room(n, job, at):
                return at
        return math.inf

    def has_room(self, n: int, job: TwinJob, at: float) -> bool:
        """Whether the file fits beside all others that are in use while the job runs."""
        others = {name: stays for name, stays in self.stays[n].items() if name != job.file}
        begins = [stay.begin for stays in others.values() for stay in stays if at < stay.begin < at + job.walltime]
        for moment in [at, *begins]:
            in_use = [name for name, stays in others.items() if any(s.begin <= moment < s.end for s in stays)]
            if job.size_gb and job.size_gb + sum(self.sizes[name] for name in in_use) > self.nodes[n].memory_gb:
                return False
        return True

    def holds(self, n: int, file: str, at: float) -> list[Stay]:
        """Stays of a file that reach to an instant; if nodes keep files, they are expected to keep this one."""
        stays = self.stays[n].get(file, []) if file else []
        return [stay for stay in stays if stay.begin <= at and (self.rules.persistence or at <= stay.end)]

    def load_s(self, n: int, job: TwinJob, at: float) -> float:
        """LOAD."""
        rests = [max(stay.loaded - at, 0) for stay in self.holds(n, job.file, at)]
        return min([job.size_gb / self.nodes[n].bandwidth, *rests])

    def evict_s(self, n: int, job: TwinJob, at: float) -> float:
        """EVICT."""
        node = self.nodes[n]
        over = [f for f, stays in self.stays[n].items() if f != job.file and max(stay.end for stay in stays) <= at]
        return job.cores / node.n_cores * sum(self.sizes[name] for name in over) / node.bandwidth

    def copies(self, n: int, job: TwinJob, at: float) -> int:
        """COPIES."""
        return sum(1 for other in range(len(self.nodes)) if other != n and self.holds(other, job.file, at))

    def score(self, n: int, job: TwinJob, at: float) -> float:
        x1, x2, x3 = PRESETS[self.rules.score] if self.rules.score else self.rules.x
        if (self.rules.score == "lem" and len(self.busy) < len(self.nodes)) or (
            self.rules.score == "leo" and at == self.now
        ):
            x1, x2, x3 = PRESETS["eft"]
        load_s = self.load_s(n, job, at)
        return at + x2 * self.evict_s(n, job, at) + (x1 + x3 * self.copies(n, job, at)) * load_s

    # --- a place for a job ---

    def offers(self, job: TwinJob, memory: float, *, only_now: bool = False) -> list[tuple[float, int, float]]:
        """All (score, node, EAT) of a class of nodes; once all its cores are taken, only holes are left."""
        members = [n for n, node in enumerate(self.nodes) if node.memory_gb == memory]
        if not any(self.idle(n) for n in members):
            only_now = True
        found = []
        for n in members:
            at = self.eat(n, job)
            if at < math.inf and (at == self.now or not only_now):
                found.append((self.score(n, job, at), n, at))
        return found

    def place(self, job: TwinJob, n: int, at: float) -> None:
        load_s = self.load_s(n, job, at)
        until = at + job.walltime
        n_missing = job.cores
        if at == self.now and len(self.idle(n)) < job.cores:  # in a hole: on those that are reserved soonest
            for core in self.holes(n, until)[: job.cores]:
                core.reserved_from = None
                n_missing -= 1
        for core in sorted(self.cores[n], key=lambda core: core.free_at)[:n_missing]:
            if core.free_at <= self.now < at:
                core.reserved_from = at
            core.free_at = until
        if job.file:
            self.sizes[job.file] = job.size_gb
            self.stays[n].setdefault(job.file, []).append(Stay(at, at + load_s, until))
        if at == self.now:
            self.busy.add(n)
        job.reserved = (n, at)


class Twin:
    """Runs a complete simulation; then the jobs hold their results."""

    def __init__(self, jobs: Iterable[TwinJob], nodes: Iterable[TwinNode], rules: TwinRules) -> None:
        self.to_come = sorted(jobs, key=lambda job: (job.at, job.id))
        self.nodes, self.rules = list(nodes), rules
        self.classes = sorted({node.memory_gb for node in self.nodes})
        self.sizes_of = {m: sum(node.memory_gb == m for node in self.nodes) for m in self.classes}
        self.planned = {m: rules.areas.get(m, 0.0) for m in self.classes}
        self.t_max = sum(self.planned[m] * self.sizes_of[m] for m in self.classes) / len(self.nodes)
        self.queue: list[TwinJob] = []
        self.newcomers: list[TwinJob] = []
        self.running: list[TwinJob] = []
        self.calls: set[float] = set()
        self.last_pass_at = -math.inf
        self.happened = False  # something, since the last pass
        self.n_left = 0

    def run(self) -> None:
        while True:
            coming = {job.at for job in self.to_come}
            instants = [*coming, *(job.ended_at for job in self.running), *self.calls]
            if not instants:
                return
            now = min(instants)
            self.message(now)
            if coming and not self.to_come:
                self.message(now)  # no more jobs will come

    def message(self, now: float) -> None:
        for job in [job for job in self.running if job.ended_at == now]:
            self.end(job, now)
        while self.to_come and self.to_come[0].at == now:
            self.newcomers.append(self.to_come.pop(0))
            self.happened = True
        for node in self.nodes:
            persistent = self.rules.persistence
            node.files = {f: file for f, file in node.files.items() if file.is_here(now, persistent=persistent)}
        self.start_reserved(now)
        if (self.queue or self.newcomers) and now - self.last_pass_at >= self.rules.interval_s:
            self.make_a_pass(now)
            self.start_reserved(now)
        self.calls = {at for at in self.calls if at > now}
        wishes = [job.reserved[1] for job in self.queue if job.reserved is not None]
        if self.happened and (self.queue or self.newcomers):
            wishes.append(self.last_pass_at + self.rules.interval_s)
        if wishes and now < min(wishes) < min(self.calls, default=math.inf):
            self.calls.add(min(wishes))

    # --- passes ---

    def make_a_pass(self, now: float) -> None:
        self.last_pass_at, self.happened = now, False
        plan = Plan(self.nodes, self.rules, now)
        drafted = dict.fromkeys(self.classes, 0.0)

        def place(job: TwinJob, n: int, at: float) -> None:
            plan.place(job, n, at)
            if (memory := self.nodes[n].memory_gb) != self.class_of(job):
                drafted[memory] += self.share(job, memory)

        self.queue += self.newcomers
        for job in self.queue:
            job.reserved = None
        history = [(job, job.history) for job in self.newcomers if job.history is not None]
        self.newcomers = []
        for job, (logged, _) in sorted(history, key=lambda pair: pair[1][1]):
            n = logged % len(self.nodes)
            if (at := plan.eat(n, job)) < math.inf:
                place(job, n, at)
        queue = [job for job in self.queue if job.reserved is None]
        if self.rules.bigger_nodes == "idle":
            queue.sort(key=self.class_of, reverse=True)
        for job in queue:
            own = self.class_of(job)
            offers = plan.offers(job, own)
            bigger = [memory for memory in self.classes if memory > own]
            if self.rules.bigger_nodes == "idle" and not plan.offers(job, own, only_now=True):
                offers = next(filter(None, (plan.offers(job, memory, only_now=True) for memory in bigger)), offers)
            if self.rules.bigger_nodes == "area" and bigger:
                memory = bigger[0]
                if self.planned[memory] + drafted[memory] + self.share(job, memory) <= self.t_max:
                    offers += plan.offers(job, memory)
            if offers:
                _, n, at = min(offers)
                place(job, n, at)

    def class_of(self, job: TwinJob) -> float:
        need = job.size_gb if job.memory_gb is None else job.memory_gb
        return min(memory for memory in self.classes if memory >= need)

    def share(self, job: TwinJob, memory: float) -> float:
        return job.cores * job.walltime / self.sizes_of[memory]

    # --- what really happens ---

    def start_reserved(self, now: float) -> None:
        for job in [job for job in self.queue if job.reserved is not None and job.reserved[1] == now]:
            assert job.reserved is not None
            self.queue.remove(job)
            self.start(job, job.reserved[0], now)

    def start(self, job: TwinJob, n: int, now: float) -> None:
        node = self.nodes[n]
        assert sum(other.cores for other in node.runs) + job.cores <= node.n_cores
        job.node, job.started_at = n, now
        if job.file:
            file = node.files.get(job.file)
            if file is None:
                job.load_s = job.size_gb / node.bandwidth
                file = node.files[job.file] = TwinFile(job.size_gb, now + job.load_s)
            else:
                job.wait_s, job.reused = max(file.loaded_at - now, 0), True
            file.users.append(job)
            if self.rules.persistence:
                self.forget_files(node)
        assert sum(file.size_gb for file in node.files.values() if file.users) <= node.memory_gb
        job.ended_at = now + min(job.load_s + job.wait_s + job.run_s, job.walltime)
        node.runs.append(job)
        self.running.append(job)
        if (memory := node.memory_gb) != self.class_of(job):
            self.planned[memory] += self.share(job, memory)

    def forget_files(self, node: TwinNode) -> None:
        while sum(file.size_gb for file in node.files.values()) > node.memory_gb:
            del node.files[min((file.left_as, name) for name, file in node.files.items() if not file.users)[1]]

    def end(self, job: TwinJob, now: float) -> None:
        self.happened = True
        self.running.remove(job)
        node = self.nodes[job.node]
        node.runs.remove(job)
        if job.file:
            file = node.files[job.file]
            file.users.remove(job)
            if not file.users:
                self.n_left += 1
                file.left_at, file.left_as = now, self.n_left
