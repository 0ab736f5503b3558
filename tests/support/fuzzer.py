"""A scheduler that decides at random, but legally and from a seed: the same messages always get the same replies."""

from __future__ import annotations

import json
import random
from typing import Any


class Fuzzer:
    """Starts, kills, rejects, calls, registers and is busy at random. `handle` replies to a message."""

    def __init__(self, seed: int, *, dynamic: bool = False, metadata: bool = True, sharing: bool = False) -> None:
        self.dice = random.Random(seed)
        self.dynamic = dynamic
        self.metadata = metadata
        self.sharing = sharing
        self.requests: list[Any] = []
        self.waiting: dict[str, int] = {}
        self.running: dict[str, list[int]] = {}
        self.asked: set[str] = set()
        self.n_procs = 0
        self.free: list[int] = []
        self.away: set[int] = set()
        self.n_registered = 0
        self.static_done = False
        self.finished_registration = False
        self.acknowledged = False
        self.finished = False
        self.n_calls = 0

    def handle(self, raw: bytes) -> bytes:
        """Take in a message and answer it."""
        message = json.loads(raw)
        self.requests.append(message)
        for event in message["events"]:
            self._receive(event["type"], event["data"])
        now = message["now"]
        if self.finished:
            return json.dumps({"now": now, "events": []}).encode()
        stamp = now
        events: list[dict[str, Any]] = []

        def decide(kind: str, data: dict[str, Any]) -> None:
            events.append({"timestamp": stamp, "type": kind, "data": data})

        for _ in range(self.dice.randrange(5)):
            if self.dice.random() < 0.1:
                stamp += self.dice.choice([0.25, 1, 2, 3])
            self._act(decide, stamp)
        self._start_something(decide)
        self._finish(decide)
        busy_s = self.dice.choice([0, 0, 0, 0, 0.5, 1, 3])
        return json.dumps({"now": stamp + busy_s, "events": events}).encode()

    def _receive(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "SIMULATION_BEGINS":
            self.n_procs = data["nb_compute_resources"]
            self.free = list(range(self.n_procs))
            self.acknowledged = data["config"]["dynamic-jobs-acknowledged"]
        elif kind == "JOB_SUBMITTED":
            self.waiting.setdefault(data["job_id"], data["job"]["res"])
        elif kind == "JOB_COMPLETED":
            self.free += self.running.pop(data["job_id"])
            self.free.sort()
        elif kind == "NOTIFY" and data["type"] == "no_more_static_job_to_submit":
            self.static_done = True
        elif kind == "NOTIFY" and data["type"].startswith("event_machine"):
            procs = {i for part in data["resources"].split() for i in _span(part)}
            self.away = self.away - procs if data["type"].endswith("_available") else self.away | procs
        elif kind == "REQUESTED_CALL":
            self.n_calls -= 1
        elif kind == "SIMULATION_ENDS":
            self.finished = True

    def _act(self, decide: Any, stamp: float) -> None:
        dice = self.dice.random()
        if dice < 0.45:
            self._start(decide)
        elif dice < 0.6 and self.running:
            self._kill(decide)
        elif dice < 0.66 and self.waiting:
            job = self.dice.choice(sorted(self.waiting))
            del self.waiting[job]
            decide("REJECT_JOB", {"job_id": job})
        elif dice < 0.8 and self.n_calls < 6:
            self.n_calls += 1
            decide("CALL_ME_LATER", {"timestamp": stamp + self.dice.choice([0.25, 1, 2, 4, 8])})
        elif dice < 0.9 and self.dynamic and not self.finished_registration and self.n_registered < 15:
            self._register(decide, stamp)
        elif self.metadata and self.waiting:
            job = self.dice.choice(sorted(self.waiting))
            decide("SET_JOB_METADATA", {"job_id": job, "metadata": f"seen at {stamp}"})

    def _start(self, decide: Any) -> None:
        fitting = [job for job, n in sorted(self.waiting.items()) if 0 < n <= len(self._usable())]
        if fitting:
            job = self.dice.choice(fitting)
            procs = sorted(self.dice.sample(self._usable(), self.waiting.pop(job)))
            self.free = [proc for proc in self.free if proc not in procs]
            self.running[job] = procs
            decide("EXECUTE_JOB", {"job_id": job, "alloc": " ".join(map(str, procs))})

    def _start_something(self, decide: Any) -> None:
        """Never let the simulation stop while jobs wait."""
        if not self.running and not self.n_calls:
            self._start(decide)
        if self.waiting and not self.running and not self.n_calls:
            for job in sorted(self.waiting):
                decide("REJECT_JOB", {"job_id": job})
            self.waiting.clear()

    def _usable(self) -> list[int]:
        procs = range(self.n_procs) if self.sharing else self.free
        return [proc for proc in procs if proc not in self.away]

    def _kill(self, decide: Any) -> None:
        jobs = self.dice.sample(sorted(self.running), min(len(self.running), self.dice.choice([1, 1, 2])))
        decide("KILL_JOB", {"job_ids": jobs})

    def _register(self, decide: Any, stamp: float) -> None:
        self.n_registered += 1
        name, n = str(self.n_registered), self.dice.randint(1, 3)
        profile = {"type": "delay", "delay": self.dice.choice([0.5, 2, 5, 8])}
        decide("REGISTER_PROFILE", {"workload_name": "dyn", "profile_name": f"q{name}", "profile": profile})
        job = {"id": name, "subtime": stamp, "res": n, "profile": f"q{name}", "walltime": self.dice.choice([3, 10])}
        decide("REGISTER_JOB", {"job_id": f"dyn!{name}", "job": job})
        if not self.acknowledged:
            self.waiting[f"dyn!{name}"] = n

    def _finish(self, decide: Any) -> None:
        if self.dynamic and not self.finished_registration and self.static_done and self.n_registered >= 5:
            self.finished_registration = True
            decide("NOTIFY", {"type": "registration_finished"})
        elif self.dynamic and not self.finished_registration and self.static_done and not self.n_calls:
            self.n_calls += 1
            decide("CALL_ME_LATER", {"timestamp": 1e6})
            self.n_registered += 5


def _span(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def random_workload(seed: int, n_jobs: int, n_procs: int) -> dict[str, Any]:
    """Make a workload of all kinds of profiles, with many coincidences. Times are sums of powers of two."""
    dice = random.Random(seed)
    profiles: dict[str, Any] = {f"d{i}": {"type": "delay", "delay": s} for i, s in enumerate([0.25, 1, 2, 3, 5, 8, 12])}
    profiles |= {f"p{s}": {"type": "parallel_homogeneous", "cpu": s * 1e9, "com": 0} for s in (1, 2, 4, 8)}
    profiles["total"] = {"type": "parallel_homogeneous_total", "cpu": 8e9, "com": 0}
    profiles["fails"] = {"type": "delay", "delay": 3, "ret": 7}
    profiles["seq"] = {"type": "composed", "repeat": 2, "seq": ["d1", "d3"]}
    profiles["mix"] = {"type": "composed", "repeat": 2, "seq": ["d2", "p2"]}
    profiles["nest"] = {"type": "composed", "repeat": 1, "seq": ["seq", "d0", "fails", "d4"]}
    profiles["nothing"] = {"type": "parallel_homogeneous", "cpu": 0, "com": 0}
    jobs = []
    at = 0.0
    for i in range(n_jobs):
        at += dice.choice([0, 0, 0, 0.5, 1, 2, 4])
        name = dice.choice(sorted(profiles))
        n = dice.choice([1, 2, 4]) if name == "total" else dice.randint(1, n_procs)
        job = {"id": str(i), "subtime": at, "res": n, "profile": name, "extra": {"id": 3, "x": [0.5]}}
        if dice.random() < 0.8:
            job["walltime"] = dice.choice([1, 2, 4, 6, 10, 25, 60])
        jobs.append(job)
    return {"nb_res": n_procs, "jobs": jobs, "profiles": profiles}


def machine_events(dice: random.Random, n_procs: int) -> str:
    """Make external events: machines that become unavailable and available again."""
    lines, at = [], 0.0
    for _ in range(3):
        at += dice.choice([1, 2.5, 8, 16])
        host = str(dice.randint(0, n_procs - 1))
        lines.append({"type": "machine_unavailable", "timestamp": at, "resources": host})
        at += dice.choice([0.5, 4, 10])
        lines.append({"type": "machine_available", "timestamp": at, "resources": host})
    return "\n".join(map(json.dumps, lines))
