"""Test tools for authors of policies: workload builders, and a fake Batsim with the checks of the real one.

`FakeBatsim` checks every decision independently of the engine's rules. All messages pass through the codec, as over a
socket.

>>> from pybatsched.testing import Workload, run_policy
>>> jobs = Workload().job("a", n=2, s=10).job("b", n=2, s=5, at=1)
>>> {job_id: job.started_at for job_id, job in run_policy("fcfs", jobs, n_procs=2).jobs.items()}
{'w0!a': 0.0, 'w0!b': 10.0}
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.policy import Policy
from pybatsched.errors import InputError, RemoteProtocolError
from pybatsched.platform.model import Platform, check_energy, uniform
from pybatsched.policies import registry
from pybatsched.protocol import Codec, Message, v4, v5
from pybatsched.protocol.v5_handshake import read_hello, write_greeting
from pybatsched.runs.build import platform_of, scenario_of
from pybatsched.runs.spec import MachineSpec
from pybatsched.session.session import Session
from pybatsched.simulator import batsim5_handshake
from pybatsched.simulator.external_events import ExternalEvent
from pybatsched.simulator.jobs import NOT_SUBMITTED, RUNNING, SUBMITTED, SimJob
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.simulation import SimulatedRun
from pybatsched.workload import model as workloads
from pybatsched.workload.formats import checks

__all__ = ["FakeBatsim", "FakeJob", "Refused", "Workload", "plan_for", "run_policy"]


class Refused(AssertionError):  # noqa: N818  a refused decision, not an error of the test
    """The scheduler made a decision on which Batsim would abort."""


class Workload:
    """Builds jobs one by one: ``Workload().job("a", n=2, s=10).job("b", n=1, s=5, at=3, walltime=8)``."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.profiles: dict[str, dict[str, Any]] = {}

    def job(
        self, name: str | int, *, n: int, s: float, at: float = 0.0, walltime: float | None = None, **fields: Any
    ) -> Workload:
        """Add a job of n processors that takes s seconds; other keyword arguments become job fields."""
        profile = f"d{s}"
        self.profiles[profile] = {"type": "delay", "delay": s}
        job: dict[str, Any] = {"id": str(name), "subtime": at, "res": n, "profile": profile, **fields}
        if walltime is not None:
            job["walltime"] = walltime
        self.jobs.append(job)
        return self

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Workload:
        """Return the workload of a parsed Batsim workload file."""
        workload = cls()
        workload.jobs = [dict(job) for job in content["jobs"]]
        workload.profiles = dict(content["profiles"])
        return workload


@dataclass(frozen=True, slots=True)
class FakeJob:
    """The result of a job. `final_state` is Batsim's, or REJECTED; it is empty until the job has ended."""

    id: str
    fields: Mapping[str, Any]
    started_at: float | None
    ended_at: float | None
    procs: IntervalSet
    final_state: str
    metadata: str


@dataclass(slots=True)
class FakeBatsim:
    """The embedded simulator for a scheduler that is a function from message to reply.

    `config` has members of Batsim's `config`; `machine_events` are (instant, kind, processors) with the kinds
    `events.MACHINES_UNAVAILABLE` and `events.MACHINES_AVAILABLE`, `events.DRAIN` and `events.UNDRAIN`; `hosts` are the
    properties of each host. `platform`, a file or the name of a machine, replaces the `n_procs` equal hosts. `energy`
    is Batsim's ``-E``. With `batsim` 5 it uses the protocol of Batsim 5: the scheduler requests features, and only
    `sched-config` of `config` is sent.
    """

    workload: Workload
    n_procs: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    machine_events: Sequence[tuple[float, str, str]] = ()
    hosts: Sequence[Mapping[str, str]] = ()
    platform: str | PathLike[str] | None = None
    energy: bool = False
    workload_name: str = "w0"
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    n_messages: int = 0
    deadlocked: bool = False
    batsim: int = 4

    def run(self, handle: Callable[[bytes], bytes]) -> FakeBatsim:
        """Run the whole simulation. It sets `jobs` to the result of each job, and `deadlocked` after a deadlock.

        Raises InputError for a job or a profile that Batsim would reject in a workload file.
        """
        codec: Codec = v4
        scenario = self._scenario()
        if self.batsim == 5:
            text = scenario.options.sched_config
            features = read_hello(handle(write_greeting(text))).features
            codec = v5.Codec(features, text)
            scenario = replace(scenario, options=batsim5_handshake.with_requested_features(scenario.options, features))

        def scheduler(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
            reply = codec.decode_decisions(handle(codec.encode_events(Message(now, tuple(events)))))
            return reply.now, reply.items

        peer = scheduler if self.batsim == 4 else batsim5_handshake.with_batsim5_fields(scheduler, scenario, "ENDPOINT")
        record = _Record()
        simulation = SimulatedRun(scenario, peer, [record])
        try:
            self.deadlocked = not simulation.run()
        except RemoteProtocolError as error:
            raise Refused(str(error)) from error
        self.n_messages = simulation.n_messages
        jobs = sorted([*record.ended, *simulation.world.all_jobs()], key=lambda job: (job.subtime, job.id))
        self.jobs = {job.id: _result(job) for job in jobs}
        return self

    def _scenario(self) -> Scenario:
        options = SimulationOptions(
            dynamic_jobs=bool(self.config.get("dynamic-jobs-enabled")),
            acknowledge_dynamic_jobs=bool(self.config.get("dynamic-jobs-acknowledged")),
            profile_reuse=bool(self.config.get("profile-reuse-enabled")),
            forward_profiles=bool(self.config.get("profiles-forwarded-on-submission")),
            forward_unknown_events=bool(self.config.get("forward-unknown-events")),
            sched_config=str(self.config.get("sched-config", "")),
            energy=self.energy,
        )
        checks.check_profiles(self.workload.profiles, "the workload")
        for index, job in enumerate(self.workload.jobs):
            checks.check_job(job, index, self.workload.profiles, "the workload")
        platform = self._platform()
        jobs = workloads.Workload(self.workload.jobs, self.workload.profiles, platform.n_procs, "workload.json")
        events = [
            ExternalEvent(float(at), kind.removeprefix("event_"), IntervalSet.parse(procs), {"resources": procs})
            for at, kind, procs in sorted(self.machine_events)
        ]
        return scenario_of(platform, {self.workload_name: jobs}, options, event_lists=[events] if events else [])

    def _platform(self) -> Platform:
        if self.platform is not None:
            found = platform_of(MachineSpec(platform=str(self.platform), energy=self.energy))
            assert found is not None
        else:
            try:
                found = uniform(operator.index(self.n_procs) or len(self.hosts), properties=self.hosts)
            except TypeError:
                raise InputError(f"n_procs is {self.n_procs!r:.40}; expected a whole number of processors") from None
        if self.energy:
            check_energy(found)
        return found


class _Record(Observer):
    """Keeps the finished jobs."""

    def __init__(self) -> None:
        self.ended: list[SimJob] = []

    def finished(self, job: SimJob, outcome: object) -> None:
        del outcome
        self.ended.append(job)


def _result(job: SimJob) -> FakeJob:
    ran = job.started_at >= 0
    has_ended = job.state not in {NOT_SUBMITTED, SUBMITTED, RUNNING}
    return FakeJob(
        job.id,
        job.fields,
        round(job.started_at, 6) if ran else None,
        round(job.started_at + job.runtime_s, 6) if ran and has_ended else None,
        job.alloc,
        job.state if has_ended else "",
        job.metadata,
    )


def plan_for(policy: str | type[Policy], **options: Any) -> registry.PolicyPlan:
    """Return the plan of a policy, given by name or class, with options."""
    if isinstance(policy, str):
        source = registry.find(policy, trusted=True)
    else:
        source = registry.PolicySource(policy.__name__, policy, "a test")
    return registry.PolicyPlan(source, options, trusted=True)


def run_policy(
    policy: str | type[Policy],
    workload: Workload,
    n_procs: int = 0,
    *,
    config: Mapping[str, Any] | None = None,
    machine_events: Sequence[tuple[float, str, str]] = (),
    hosts: Sequence[Mapping[str, str]] = (),
    platform: str | PathLike[str] | None = None,
    energy: bool = False,
    batsim: int = 4,
    **options: Any,
) -> FakeBatsim:
    """Run a policy on the fake Batsim through the codec, and check the engine's invariants at each step.

    The features that the policy `needs` are on, unless `config` turns them off. `hosts` are the properties of each
    host. `platform`, a platform file or the name of a machine, replaces the `n_procs` equal processors. `energy` is
    Batsim's ``-E``: the policy can set pstates and query the consumed energy. `batsim` is the protocol version: 4 or 5.
    """
    plan = plan_for(policy, **options)
    needed = {need.config_key: True for need in plan.needs()}
    session = Session(plan, checked=True)
    config = needed | dict(config or {})
    fake = FakeBatsim(workload, n_procs, config, machine_events, hosts, platform, energy, batsim=batsim)
    return fake.run(session.handle)
