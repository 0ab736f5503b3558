"""An engine for tests: a policy that does what a test says, and short functions for Batsim's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pybatsched.core import decisions as d, events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.engine import Engine, Reply
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.core.options import Options
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.errors import PolicyError
from pybatsched.metrics.outcomes import Outcome
from pybatsched.testing import FakeBatsim

PROFILES: dict[str, Any] = {
    "d10": {"type": "delay", "delay": 10},
    "ph": {"type": "parallel_homogeneous", "cpu": 8e9, "com": 0},
    "total": {"type": "parallel_homogeneous_total", "cpu": 8e9, "com": 0},
    "mixed": {"type": "composed", "repeat": 2, "seq": ["d10", "ph"]},
    "delays": {"type": "composed", "repeat": 2, "seq": ["d10", "d10"]},
    "totals": {"type": "composed", "seq": ["total", "total"]},
    "arrays": {"type": "parallel", "cpu": [1e9, 2e9], "com": [0, 0, 0, 0]},
}


class Puppet(Policy):
    """Does what the test says next, and records its events."""

    partitions: tuple[tuple[str, str], ...] = ()

    def on_begin(self, cluster: Cluster) -> None:
        self.received: list[tuple[Any, ...]] = []
        self.jobs: dict[str, Job] = {}
        self.next: Callable[[float], Iterable[Any] | None] = lambda _now: ()
        self.until = -1.0
        for name, procs in self.partitions:
            cluster.add_partition(name, IntervalSet.parse(procs))

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.jobs[job.id] = job
        self.received.append(("submitted", job.id))

    def on_job_ended(self, job: Job, now: float) -> None:
        self.received.append(("ended", job.id, job.final_state))

    def on_job_killed(self, job: Job, now: float) -> None:
        self.received.append(("killed", job.id, job.state.value))

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:
        self.received.append(("machines", str(procs)))

    def on_call(self, now: float) -> None:
        self.received.append(("call",))

    def on_notify(self, event: e.Notify, now: float) -> None:
        self.received.append(("notify", event.kind))

    def on_answer(self, event: e.Answer, now: float) -> None:
        self.received.append(("answer", event.consumed_energy))

    def on_query(self, event: e.Query, now: float) -> None:
        self.received.append(("query",))

    def on_job_message(self, event: e.FromJobMsg, now: float) -> None:
        self.received.append(("message", event.msg))

    def on_unknown(self, event: e.Event, now: float) -> None:
        self.received.append(("unknown",))

    def on_end(self, now: float) -> None:
        self.received.append(("end",))

    def decide(self, now: float) -> Iterable[d.Decision]:
        wanted, self.next = self.next, lambda _now: ()
        return wanted(now) or ()

    def busy_until(self, now: float) -> float:
        return max(self.until, now)


class DynamicPuppet(Puppet):
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})


class Stage:
    """An engine with a puppet on four processors."""

    def __init__(self, policy: type[Puppet] = Puppet, *, begin: bool = True, sharing: bool = False, **config: Any):
        self.engine = Engine(lambda _begins: policy(Options()), "puppet", checked=True)
        self.now = 0.0
        self.config = config
        if begin:
            self.first = self.step(self.begins(sharing=sharing))

    def begins(self, *, sharing: bool = False, **changes: Any) -> e.SimulationBegins:
        hosts = tuple(e.Resource(i, f"n{i}", "idle", {"sleep_pstates": "2:3:4"}) for i in range(4))
        fields: dict[str, Any] = {
            "n_resources": 5,
            "n_compute": 4,
            "n_storage": 1,
            "allow_compute_sharing": sharing,
            "config": {key.replace("_", "-"): value for key, value in self.config.items()},
            "compute_resources": hosts,
            "storage_resources": (e.Resource(4, "pfs"),),
            "workloads": {"w0": "w.json"},
            "profiles": {"w0": PROFILES},
        }
        return e.SimulationBegins(**(fields | changes), timestamp=0.0)

    @property
    def puppet(self) -> Puppet:
        assert isinstance(self.engine.policy, Puppet)
        return self.engine.policy

    def step(self, *events: e.Event, at: float | None = None) -> Reply:
        self.now = self.now if at is None else at
        return self.engine.step(self.now, events)

    def do(self, *decisions: d.Decision, events: Iterable[e.Event] = (), at: float | None = None) -> Reply:
        self.puppet.next = lambda _now: decisions
        return self.step(*events, at=at)

    def submit(self, name: str, n: int = 1, profile: str = "d10", at: float | None = None, **fields: Any) -> Job:
        self.now = self.now if at is None else at
        job_id = f"w0!{name}"
        job = {"id": job_id, "subtime": self.now, "res": n, "profile": profile, **fields}
        self.step(e.JobSubmitted(job_id, job, timestamp=self.now))
        return self.puppet.jobs[job_id]

    def run(self, name: str, procs: str, **fields: Any) -> Job:
        """Submit a job and start it."""
        job = self.submit(name, len(IntervalSet.parse(procs)), **fields)
        self.do(start(job, procs))
        return job

    def completed(self, job: Job, state: str = e.COMPLETED_SUCCESSFULLY) -> e.JobCompleted:
        return e.JobCompleted(job.wire_id, state, 0, str(job.procs), timestamp=self.now)

    def killed(self, job: Job, progress: float | None = 0.5) -> tuple[e.Event, ...]:
        node: dict[str, Any] = {"profile_name": job.profile_name}
        if progress is not None:
            node["progress"] = progress
        return (
            self.completed(job, e.COMPLETED_KILLED),
            e.JobKilled((job.wire_id,), {job.wire_id: node}, timestamp=self.now),
        )

    @property
    def free(self) -> str:
        return " ".join(str(partition.free) for partition in self.engine.cluster.partitions.values())


def start(job: Job | str, procs: str, **more: Any) -> d.ExecuteJob:
    return d.ExecuteJob(job if isinstance(job, str) else job.id, IntervalSet.parse(procs), **more)


def kinds(reply: Reply) -> list[str]:
    return [type(decision).__name__ for decision in reply.decisions]


def registered(reply: Any) -> tuple[Any, Any, str]:
    """Return the one profile, the one job and its note that a reply registers."""
    (profile,) = (x.profile for x in reply.decisions if isinstance(x, d.RegisterProfile))
    (job,) = (x for x in reply.decisions if isinstance(x, d.RegisterJob))
    (note,) = (x.metadata for x in reply.decisions if isinstance(x, d.SetJobMetadata) and x.job_id == job.job_id)
    return profile, job.job, note


def times(job: Job) -> tuple[Any, ...]:
    """Return the fields of a job that planners use, and its run time."""
    assert job.profile is not None
    return job.n_procs, job.profile.get("delay"), job.walltime, job.estimate


def outcomes(run: FakeBatsim) -> list[Outcome]:
    """Return the jobs of a run as metrics read them from ``_jobs.csv``."""
    return [
        Outcome(
            job.id,
            job.final_state,
            job.fields["subtime"],
            job.started_at or 0.0,
            (job.ended_at or 0.0) - (job.started_at or 0.0),
            len(job.procs),
            job.metadata,
            job.procs,
        )
        for job in run.jobs.values()
    ]


def refused(stage: Stage, *decisions: d.Decision) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        stage.do(*decisions)
    assert caught.value.policy == "puppet"
    return caught.value
