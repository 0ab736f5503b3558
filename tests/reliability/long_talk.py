"""An endless conversation as of Batsim: jobs come and end, and the number of unfinished jobs is limited."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from pybatsched.core import events as e
from pybatsched.protocol import Message, v4

_ENDS = (*[(e.COMPLETED_SUCCESSFULLY, 0)] * 2, (e.COMPLETED_FAILED, 1), (e.COMPLETED_WALLTIME_REACHED, -1))
#: So many profiles all jobs share.
_N_KINDS = 50


class LongTalk:
    """Batsim's side: each message ends a job and submits another one.

    The job that ends is drawn, so some jobs run long while thousands pass. `ask` carries a message. With `dynamic`,
    jobs can be registered at run time: the peer acknowledges each one, answers kills, and refuses what Batsim would
    not survive. No job can then run with the size it asks for, so `reallocation` registers another job for each.

    Jobs are delays, unless a `profile` says what they all do.
    """

    def __init__(
        self,
        ask: Callable[[bytes], bytes],
        *,
        dynamic: bool = False,
        reuses_profiles: bool = False,
        profile: dict[str, Any] | None = None,
        n_alive: int = 100,
        n_procs: int = 64,
    ) -> None:
        self._ask = ask
        self._dynamic, self._reuses_profiles = dynamic, reuses_profiles
        delays = ({"type": "delay", "delay": 60.0 * kind + 60.0} for kind in range(_N_KINDS))
        self._static = {f"d{kind}": profile or delay for kind, delay in enumerate(delays)}
        self._n_alive = n_alive
        self._n_procs = n_procs
        self._random = random.Random(1).random
        self._now = 0.0
        self._waiting: set[str] = set()
        self._running: list[str] = []
        self._profiles = {f"w0!{name}": described for name, described in self._static.items()}  # not deleted yet
        self._profile_of: dict[str, str] = {}  # of jobs that are not over
        self._calls: list[float] = []
        self._due: list[e.Event] = []  # what the last reply leads to, at the same instant
        self.n_submitted = self.n_registered = self.n_killed = self.n_ended = self.n_exchanges = 0

    def begin(self) -> None:
        """Start the simulation, and submit the initial jobs."""
        n = self._n_procs
        hosts = tuple(e.Resource(i, f"n{i}", "idle", {"cluster": "one" if i < n // 2 else "two"}) for i in range(n))
        begins = e.SimulationBegins(
            n_resources=n,
            n_compute=n,
            n_storage=0,
            allow_compute_sharing=False,
            allow_storage_sharing=True,
            config={
                "profiles-forwarded-on-submission": True,
                "dynamic-jobs-enabled": self._dynamic,
                "dynamic-jobs-acknowledged": self._dynamic,
                "profile-reuse-enabled": self._reuses_profiles,
            },
            compute_resources=hosts,
            storage_resources=(),
            workloads={"w0": "long.json"},
            profiles={"w0": self._static},
            timestamp=0.0,
        )
        self._send([begins])
        self._send([self._submission() for _ in range(self._n_alive)])

    def go_on(self, n: int) -> None:
        """Let n jobs end and n others come. Raises RuntimeError if none runs: every policy starts jobs."""
        running = self._running
        for _ in range(n):
            if not running:
                raise RuntimeError(f"after {self.n_exchanges} exchanges no job runs")
            self._pass_a_second()
            place = int(self._random() * len(running))
            running[place], running[-1] = running[-1], running[place]
            self._send([self._completion(running.pop(), *_ENDS[self.n_ended % 4]), self._submission()])

    def end(self) -> None:
        """End all jobs and the simulation."""
        self._send([e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=self._now)])
        while self._running:
            self._pass_a_second()
            ended, self._running = self._running, []
            self._send([self._completion(job_id, e.COMPLETED_SUCCESSFULLY, 0) for job_id in ended])
        self._send([e.SimulationEnds(timestamp=self._now)])

    # --- what happens -----------------------------------------------------------------------------------------------

    def _pass_a_second(self) -> None:
        until = self._now + 1.0
        while self._calls and self._calls[0] <= until:
            self._now = heapq.heappop(self._calls)
            self._send([e.RequestedCall(timestamp=self._now)])
        self._now = until

    def _submission(self) -> e.JobSubmitted:
        number = self.n_submitted
        self.n_submitted += 1
        job_id, kind = f"w0!{number}", number % _N_KINDS
        fields = {
            "id": job_id,
            "subtime": self._now,
            "walltime": 60.0 * kind + 120.0,
            "res": 3 if self._dynamic else 1 << (number % 3),
            "profile": f"d{kind}",
        }
        if self._dynamic:
            fields["moldable"] = {"fraction": 0.9, "limit": 2}
        self._profile_of[job_id] = f"w0!d{kind}"
        self._waiting.add(job_id)
        return e.JobSubmitted(job_id, fields, self._static[f"d{kind}"], timestamp=self._now)

    def _completion(self, job_id: str, state: str, return_code: int) -> e.JobCompleted:
        self.n_ended += state != e.COMPLETED_KILLED
        self._forget(job_id)
        return e.JobCompleted(job_id, state, return_code, timestamp=self._now)

    def _forget(self, job_id: str) -> None:
        """Delete a job, and its profile as Batsim does: with the first finished job."""
        profile = self._profile_of.pop(job_id)
        if not self._reuses_profiles:
            self._profiles.pop(profile, None)

    # --- exchanges --------------------------------------------------------------------------------------------------

    def _send(self, events: Sequence[e.Event]) -> None:
        """Exchange a message, and those that its reply leads to at the same instant."""
        while events:
            reply = self._ask(v4.encode_events(Message(self._now, tuple(events))))
            self.n_exchanges += 1
            self._due = []
            for decision in json.loads(reply)["events"]:
                self._obey(decision["type"], decision["data"])
            events = self._due

    def _obey(self, kind: str, data: dict[str, Any]) -> None:
        """Carry out a decision. Raises KeyError or ValueError for a decision that would abort Batsim."""
        if kind == "EXECUTE_JOB":
            self._waiting.remove(data["job_id"])
            self._running.append(data["job_id"])
        elif kind == "REJECT_JOB":
            self._waiting.remove(data["job_id"])
            self._forget(data["job_id"])
        elif kind == "REGISTER_PROFILE":
            name = f"{data['workload_name']}!{data['profile_name']}"
            if name in self._profiles:
                raise ValueError(f"profile {name} is registered twice")
            self._profiles[name] = data["profile"]
        elif kind == "REGISTER_JOB":
            job_id, job = data["job_id"], data["job"]
            if job_id in self._waiting or job_id in self._running:
                raise ValueError(f"job {job_id} is registered twice")
            profile = f"{job_id.partition('!')[0]}!{job['profile']}"
            self._due.append(e.JobSubmitted(job_id, job, self._profiles[profile], timestamp=self._now))
            self._profile_of[job_id] = profile
            self._waiting.add(job_id)
            self.n_registered += 1
        elif kind == "KILL_JOB":
            for job_id in data["job_ids"]:
                self._running.remove(job_id)
                self._due.append(self._completion(job_id, e.COMPLETED_KILLED, -1))
            self.n_killed += len(data["job_ids"])
            progress = {job_id: {"profile_name": "d", "progress": 0.5} for job_id in data["job_ids"]}
            self._due.append(e.JobKilled(tuple(data["job_ids"]), progress, timestamp=self._now))
        elif kind == "CALL_ME_LATER":
            heapq.heappush(self._calls, data["timestamp"])
