"""A scene: all that one simulated run is made of, faults included, as a record that is printed as Python.

Jobs of the workload `other` are not in any file: another program registers them during the simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pprint import pformat
from typing import Any, Final

from pybatsched.core import events as e
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.platform.model import Platform, uniform
from pybatsched.simulator.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.workload.model import Workload

#: The workload whose jobs are registered at run time.
OTHER: Final = "other"
#: What jobs do: wait; wait and fail; compute; wait twice half as long.
DELAY, FAILS, WORK, PARTS = "delay", "fails", "work", "parts"
_SPEED: Final = 1e9
#: Policies that plan nodes with memory and GPUs.
ON_NODES: Final = frozenset(("fcfs", "easy", "conservative"))


@dataclass(frozen=True, slots=True)
class Job:
    """A job of n processors that takes s seconds; `id` has its workload, `fields` are passed on as they are."""

    id: str
    at: float
    n: int
    s: float
    kind: str = DELAY
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def workload(self) -> str:
        return self.id.partition("!")[0]

    @property
    def profile(self) -> str:
        """The name of its profile, which it shares with all that do the same, unless it is registered at run time."""
        own = f"_{self.id.partition('!')[2]}" if self.workload == OTHER else ""
        return f"{self.kind}_{self.s!r}{own}"

    @property
    def profiles(self) -> dict[str, dict[str, Any]]:
        """Its profile, behind those that it is made of."""
        if self.kind == PARTS:
            half = f"{self.profile}_half"
            return {
                half: {"type": "delay", "delay": self.s / 2},
                self.profile: {"type": "composed", "repeat": 2, "seq": [half]},
            }
        if self.kind == WORK:
            return {self.profile: {"type": "parallel_homogeneous", "cpu": self.s * _SPEED, "com": 0}}
        fails = {"ret": 3} if self.kind == FAILS else {}
        return {self.profile: {"type": "delay", "delay": self.s, **fails}}

    def described(self) -> dict[str, Any]:
        """Return its members as in a workload file."""
        name = self.id.partition("!")[2]
        return {"id": name, "subtime": self.at, "res": self.n, "profile": self.profile, **self.fields}

    @property
    def walltime(self) -> float | None:
        walltime = self.fields.get("walltime")
        return None if walltime is None else float(walltime)

    @property
    def estimate(self) -> float | None:
        """What policies plan with: its estimate, else its walltime."""
        estimate = self.fields.get("estimate", self.walltime)
        return None if estimate is None else float(estimate)


@dataclass(frozen=True, slots=True)
class Outage:
    """Processors that are away from an instant on until another, or for good."""

    at: float
    until: float | None
    procs: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Another program kills, at an instant, the n-th running job, if there are any."""

    at: float
    nth: int


@dataclass(frozen=True, slots=True)
class Scene:
    """One run of a policy. `late` are the seconds that the scheduler takes for its messages, over and over again.

    No job starts on processors of `drains`; jobs that run there continue.
    `hosts` are the properties of the hosts. With `batsim` 5 its protocol is used on the socket, and the policy
    requests dynamic jobs, acknowledgements and profile reuse itself.
    """

    policy: str
    n_procs: int
    jobs: tuple[Job, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    hosts: tuple[Mapping[str, str], ...] = ()
    outages: tuple[Outage, ...] = ()
    drains: tuple[Outage, ...] = ()
    kills: tuple[Kill, ...] = ()
    late: tuple[float, ...] = ()
    dynamic: bool = False
    acknowledged: bool = False
    reuse: bool = False
    forward: bool = False
    batsim: int = 4

    @property
    def others(self) -> tuple[Job, ...]:
        """The jobs that another program registers, in order of time."""
        return tuple(sorted((job for job in self.jobs if job.workload == OTHER), key=lambda job: job.at))

    @property
    def is_honest(self) -> bool:
        """Whether all estimates hold: no machine fails, no message is late, and no job exceeds its estimate."""
        return not (self.outages or self.drains or any(self.late) or self.is_predicted or self.reservations) and all(
            job.estimate is not None and min(job.s, job.walltime or job.s) <= job.estimate for job in self.jobs
        )

    @property
    def is_predicted(self) -> bool:
        """Whether run times are predicted: then nothing is promised."""
        return not self.options.keys().isdisjoint({"predict", "correct"})

    @property
    def reservations(self) -> tuple[Mapping[str, Any], ...]:
        """The reservations of hosts."""
        return tuple(self.options.get("host_reservations") or ())

    @property
    def has_nodes(self) -> bool:
        """Whether jobs may request memory, GPUs and nodes, which are counted."""
        return self.policy in ON_NODES and any("node" in host for host in self.hosts)

    def scenario(self) -> Scenario:
        """Return the inputs of the simulation."""
        by_workload: dict[str, list[Job]] = {"w0": []}
        for job in self.jobs:
            if job.workload != OTHER:
                by_workload.setdefault(job.workload, []).append(job)
        workloads = {}
        for name, jobs in sorted(by_workload.items()):
            profiles = {key: value for job in jobs for key, value in job.profiles.items()}
            jobs.sort(key=lambda job: job.at)
            workloads[name] = Workload([job.described() for job in jobs], profiles, self.n_procs, f"{name}.json")
        options = SimulationOptions(
            dynamic_jobs=self.dynamic,
            acknowledge_dynamic_jobs=self.acknowledged,
            profile_reuse=self.reuse,
            forward_profiles=self.forward,
            forward_unknown_events=bool(self.drains),
        )
        platform = _platform(self.n_procs, tuple(tuple(sorted(host.items())) for host in self.hosts))
        return Scenario(platform, workloads, options, [events] if (events := self._events()) else [])

    def _events(self) -> list[ExternalEvent]:
        events = []
        for found, gone, back in ((self.outages, UNAVAILABLE, AVAILABLE), (self.drains, e.DRAIN, e.UNDRAIN)):
            for one in found:
                events += [
                    _event(at, kind, one.procs) for at, kind in ((one.at, gone), (one.until, back)) if at is not None
                ]
        events.sort(key=lambda event: (event.at, event.kind not in {AVAILABLE, e.UNDRAIN}))  # returns first
        return [event._replace(place=place) for place, event in enumerate(events)]


def text_of(scene: Scene) -> str:
    """Write a scene as a Python expression, which `scene_in` reads."""
    return pformat(scene, width=110, sort_dicts=False)


def scene_in(text: str) -> Scene:
    """Read a scene that was printed. Lines of comments may stand before it."""
    scene = eval(text, {"Scene": Scene, "Job": Job, "Outage": Outage, "Kill": Kill, "inf": inf})
    assert isinstance(scene, Scene)
    return scene


def _event(at: float, kind: str, procs: str) -> ExternalEvent:
    """Give an event as it is read from a file: processors of other types than Batsim's are only text."""
    if kind in {AVAILABLE, UNAVAILABLE}:
        return ExternalEvent(at, kind, IntervalSet.parse(procs), {})
    return ExternalEvent(at, kind, EMPTY, {"type": kind, "timestamp": at, "resources": procs})


@lru_cache(maxsize=256)
def _platform(n_procs: int, hosts: tuple[tuple[tuple[str, str], ...], ...]) -> Platform:
    return uniform(n_procs, properties=[dict(host) for host in hosts])
