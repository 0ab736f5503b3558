"""For authors of policies: builders, and a small fake Batsim that checks every decision on its own.

`FakeBatsim` plays Batsim's side for jobs whose duration is known (delays, and parallel tasks without
communication). It groups everything that happens at one instant into one message and refuses what Batsim would
refuse, independently of the engine's rules.

>>> from pybatsched.testing import Workload, run_policy
>>> jobs = Workload().job("a", n=2, s=10).job("b", n=2, s=5, at=1)
>>> {job_id: job.started_at for job_id, job in run_policy("fcfs", jobs, n_procs=2).jobs.items()}
{'w0!a': 0.0, 'w0!b': 10.0}
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pybatsched import decisions as d
from pybatsched import events as e
from pybatsched import registry
from pybatsched.derive import delay_of, is_any_size
from pybatsched.intervals import EMPTY, IntervalSet
from pybatsched.policy import Policy
from pybatsched.protocol import Message, v4
from pybatsched.session import Session

SPEED = 1e9


class Refused(AssertionError):  # noqa: N818  what would make the real Batsim abort
    """The scheduler did something that Batsim does not survive."""


class Workload:
    """Builds jobs one by one: ``Workload().job("a", n=2, s=10).job("b", n=1, s=5, at=3, walltime=8)``."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.profiles: dict[str, dict[str, Any]] = {}

    def job(
        self,
        name: str | int,
        *,
        n: int,
        s: float,
        at: float = 0.0,
        walltime: float | None = None,
        **fields: Any,
    ) -> Workload:
        """Add a job of n processors that takes s seconds; further fields go to the job as they are."""
        profile = f"d{s}"
        self.profiles[profile] = {"type": "delay", "delay": s}
        job: dict[str, Any] = {"id": str(name), "subtime": at, "res": n, "profile": profile, **fields}
        if walltime is not None:
            job["walltime"] = walltime
        self.jobs.append(job)
        return self

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Workload:
        """Take over a Batsim workload file that has been read already."""
        workload = cls()
        workload.jobs = [dict(job) for job in content["jobs"]]
        workload.profiles = dict(content["profiles"])
        return workload


@dataclass(slots=True)
class FakeJob:
    """A job as the fake Batsim sees it. `final_state` is Batsim's word, or REJECTED."""

    id: str
    fields: Mapping[str, Any]
    duration_s: float
    walltime: float | None
    is_parallel: bool
    state: str = "NOT_SUBMITTED"
    started_at: float | None = None
    ended_at: float | None = None
    procs: IntervalSet = EMPTY
    final_state: str = ""
    metadata: str = ""
    announced: bool = False


@dataclass(slots=True)
class FakeBatsim:
    """A simulation from begin to end. `run` drives a scheduler given as a function from message to reply."""

    workload: Workload
    n_procs: int
    config: Mapping[str, Any] = field(default_factory=dict)
    machine_events: Sequence[tuple[float, str, str]] = ()
    workload_name: str = "w0"
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    clock: float = 0.0
    n_messages: int = 0
    deadlocked: bool = False
    _heap: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: itertools.count[int] = field(default_factory=itertools.count)
    _outbox: list[e.Event] = field(default_factory=list)
    _profiles: dict[str, dict[str, Any]] = field(default_factory=dict)
    _free: IntervalSet = EMPTY
    _away: IntervalSet = EMPTY
    _ready_at: float = 0.0
    _n_calls: int = 0
    _n_static: int = 0
    _finished_registration: bool = False

    def run(self, handle: Callable[[bytes], bytes]) -> FakeBatsim:
        """Play the whole simulation. Afterwards `jobs` tells what became of each job, `deadlocked` if it got stuck."""
        self._free = IntervalSet.span(0, self.n_procs)
        self._profiles[self.workload_name] = dict(self.workload.profiles)
        self._submit_all()
        for at, kind, procs in self.machine_events:
            self._at(at, lambda kind=kind, procs=procs: self._machine(kind, IntervalSet.parse(procs)))  # type: ignore[misc]
        if self.machine_events:
            last = max(at for at, _, _ in self.machine_events)
            self._at(last, lambda: self._say(e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=self._now())))
        self._say(self._begins())
        self._exchange(handle)
        while self._heap:
            self.clock = self._heap[0][0]
            while self._heap and self._heap[0][0] == self.clock:
                heapq.heappop(self._heap)[2]()
            if self._outbox and self.clock >= self._ready_at:
                self._exchange(handle)
        if not self._over():
            self.deadlocked = True
            return self
        self._say(e.SimulationEnds(timestamp=self._now()))
        self._exchange(handle)
        return self

    # --- clock and messages ---

    def _now(self) -> float:
        return round(self.clock, 6)

    def _at(self, at: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (max(at, self.clock), next(self._count), action))

    def _say(self, event: e.Event) -> None:
        self._outbox.append(event)

    def _exchange(self, handle: Callable[[bytes], bytes]) -> None:
        self.n_messages += 1
        message = v4.encode_events(Message(self._now(), tuple(self._outbox)))
        for event in self._outbox:
            if isinstance(event, e.JobCompleted):
                self.jobs[event.job_id].announced = True
        self._outbox = []
        reply = v4.decode_decisions(handle(message))
        self._ready_at = max(self.clock, reply.now)
        for decision in reply.items:
            at = decision.timestamp
            if at is None or at > reply.now:
                raise Refused(f"time stamp {at} of {decision} is after the reply's now, {reply.now}")
            if at > self.clock + 1e-6:
                self._at(at, lambda decision=decision: self._obey(decision))  # type: ignore[misc]
            else:
                self._obey(decision)
        if self._ready_at > self.clock:
            self._at(self._ready_at, lambda: None)

    def _over(self) -> bool:
        dynamic = bool(self.config.get("dynamic-jobs-enabled"))
        done = all(job.state in {"OVER", "REJECTED"} for job in self.jobs.values())
        return done and not self._n_calls and (self._finished_registration or not dynamic)

    def _begins(self) -> e.SimulationBegins:
        config = {
            "redis-enabled": False,
            "profiles-forwarded-on-submission": False,
            "dynamic-jobs-enabled": False,
            "dynamic-jobs-acknowledged": False,
            "profile-reuse-enabled": False,
            "sched-config": "",
            "forward-unknown-events": False,
        }
        config.update(self.config)
        hosts = tuple(e.Resource(i, f"node{i}", "idle", {"role": ""}, {}) for i in range(self.n_procs))
        return e.SimulationBegins(
            self.n_procs,
            self.n_procs,
            0,
            False,
            True,
            config,
            hosts,
            (),
            {self.workload_name: "workload.json"},
            self._profiles,
            timestamp=0.0,
        )

    # --- what happens ---

    def _submit_all(self) -> None:
        jobs = [self._make(f"{self.workload_name}!{job['id']}", job) for job in self.workload.jobs]
        jobs.sort(key=lambda job: (job.fields["subtime"], job.id))
        self._n_static = len(jobs)
        for job in jobs:
            self.jobs[job.id] = job
            self._at(job.fields["subtime"], lambda job=job: self._submit(job))  # type: ignore[misc]
        if not jobs:
            self._at(0.0, self._no_more_jobs)

    def _make(self, job_id: str, fields: Mapping[str, Any]) -> FakeJob:
        workload = job_id.partition("!")[0]
        profiles = self._profiles[workload]
        profile = profiles[fields["profile"]]
        walltime = fields.get("walltime")
        duration = delay_of(profile, profiles)
        is_parallel = duration is None
        if duration is None:
            n = fields["res"] if profile["type"] == "parallel_homogeneous_total" else 1
            duration = profile["cpu"] / n / SPEED
        return FakeJob(
            job_id,
            {**fields, "id": job_id},
            duration,
            walltime if walltime and walltime > 0 else None,
            is_parallel,
        )

    def _submit(self, job: FakeJob) -> None:
        job.state = "SUBMITTED"
        self._say(e.JobSubmitted(job.id, job.fields, timestamp=self._now()))
        self._n_static -= 1
        if not self._n_static:
            self._no_more_jobs()

    def _no_more_jobs(self) -> None:
        self._say(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=self._now()))

    def _machine(self, kind: str, procs: IntervalSet) -> None:
        self._away = self._away | procs if kind == e.MACHINES_UNAVAILABLE else self._away - procs
        self._say(e.Notify(kind, procs, timestamp=self._now()))

    def _end(self, job: FakeJob, final_state: str, code: int) -> None:
        if job.state != "RUNNING":
            return  # it was killed before
        job.state = "OVER"
        job.final_state = final_state
        job.ended_at = self._now()
        self._free = self._free | job.procs
        self._say(e.JobCompleted(job.id, final_state, code, str(job.procs), timestamp=self._now()))

    # --- decisions ---

    def _obey(self, decision: d.Decision) -> None:
        name = f"_obey_{type(decision).__name__}"
        if not hasattr(self, name):
            raise Refused(f"the fake Batsim does not understand {decision}")
        getattr(self, name)(decision)

    def _job(self, job_id: str) -> FakeJob:
        job = self.jobs.get(job_id)
        if job is None or job.announced:
            raise Refused(f"no job {job_id} is known (any more)")
        return job

    def _obey_ExecuteJob(self, decision: d.ExecuteJob) -> None:  # noqa: N802
        job = self._job(decision.job_id)
        if job.state != "SUBMITTED":
            raise Refused(f"{job.id} cannot start: it is {job.state}")
        workload = job.id.partition("!")[0]
        any_size = is_any_size(self._profiles[workload].get(job.fields["profile"]), {})
        if len(decision.procs) != job.fields["res"] and not any_size:
            raise Refused(f"{job.id} asks for {job.fields['res']} processors, not {decision.procs}")
        if not decision.procs or not decision.procs.issubset(self._free - self._away):
            raise Refused(f"{job.id} cannot start on {decision.procs}: free are {self._free - self._away}")
        self._free = self._free - decision.procs
        job.state, job.procs, job.started_at = "RUNNING", decision.procs, self._now()
        limit = job.walltime
        reached = limit is not None and (job.duration_s > limit if job.is_parallel else job.duration_s >= limit)
        if reached and limit is not None:
            self._at(self.clock + limit, lambda: self._end(job, e.COMPLETED_WALLTIME_REACHED, -1))
        else:
            self._at(self.clock + job.duration_s, lambda: self._end(job, e.COMPLETED_SUCCESSFULLY, 0))

    def _obey_RejectJob(self, decision: d.RejectJob) -> None:  # noqa: N802
        job = self._job(decision.job_id)
        if job.state != "SUBMITTED":
            raise Refused(f"{job.id} cannot be rejected: it is {job.state}")
        job.state = job.final_state = "REJECTED"

    def _obey_KillJob(self, decision: d.KillJob) -> None:  # noqa: N802
        progress = {}
        stopped = []
        for job in map(self._job, decision.job_ids):
            if job.state not in {"RUNNING", "OVER"}:
                raise Refused(f"{job.id} cannot be killed: it is {job.state}")
            if job.state == "RUNNING" and job.started_at is not None:
                done = (self.clock - job.started_at) / job.duration_s
                progress[job.id] = {"profile_name": job.fields["profile"], "progress": round(done, 6)}
                stopped.append(job)
        ids = decision.job_ids

        def answer() -> None:
            for job in stopped:
                self._end(job, e.COMPLETED_KILLED, -2 if job.is_parallel else -1)
            self._say(e.JobKilled(ids, progress, timestamp=self._now()))

        self._at(self.clock, answer)

    def _obey_CallMeLater(self, decision: d.CallMeLater) -> None:  # noqa: N802
        if decision.at <= self.clock:
            raise Refused(f"a call at {decision.at}, it is {self.clock}")
        self._n_calls += 1
        self._at(decision.at, self._call)

    def _call(self) -> None:
        self._n_calls -= 1
        self._say(e.RequestedCall(timestamp=self._now()))

    def _obey_SetJobMetadata(self, decision: d.SetJobMetadata) -> None:  # noqa: N802
        self._job(decision.job_id).metadata = decision.metadata

    def _dynamic(self) -> None:
        if not self.config.get("dynamic-jobs-enabled") or self._finished_registration:
            raise Refused("registration is not enabled, or finished")

    def _obey_RegisterProfile(self, decision: d.RegisterProfile) -> None:  # noqa: N802
        self._dynamic()
        profiles = self._profiles.setdefault(decision.workload_name, {})
        if decision.profile_name in profiles:
            raise Refused(f"profile {decision.profile_name} exists")
        profiles[decision.profile_name] = dict(decision.profile)

    def _obey_RegisterJob(self, decision: d.RegisterJob) -> None:  # noqa: N802
        self._dynamic()
        if decision.job_id in self.jobs or "subtime" not in decision.job:
            raise Refused(f"job {decision.job_id} exists, or has no subtime")
        job = self.jobs[decision.job_id] = self._make(decision.job_id, decision.job)
        job.state = "SUBMITTED"
        if self.config.get("dynamic-jobs-acknowledged"):
            event = e.JobSubmitted(job.id, job.fields, timestamp=self._now())
            self._at(self.clock, lambda: self._say(event))

    def _obey_Notify(self, decision: d.Notify) -> None:  # noqa: N802
        self._finished_registration = decision.kind == d.REGISTRATION_FINISHED


def plan_for(policy: str | type[Policy], **options: Any) -> registry.PolicyPlan:
    """Make a plan of a policy by name or class, with options."""
    if isinstance(policy, str):
        return registry.PolicyPlan(registry.find(policy), options)
    return registry.PolicyPlan(registry.PolicySource(policy.__name__, policy, "a test"), options)


def run_policy(
    policy: str | type[Policy],
    workload: Workload,
    n_procs: int,
    *,
    config: Mapping[str, Any] | None = None,
    machine_events: Sequence[tuple[float, str, str]] = (),
    **options: Any,
) -> FakeBatsim:
    """Run a policy on the fake Batsim through the codec, with the engine's invariants checked at each step."""
    session = Session(plan_for(policy, **options), checked=True)
    fake = FakeBatsim(workload, n_procs, config=config or {}, machine_events=machine_events)
    return fake.run(session.handle)
