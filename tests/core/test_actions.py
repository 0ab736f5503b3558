"""Held jobs: processors kept for a job that starts later."""

from __future__ import annotations

from typing import Any

import pytest
from support.stage import DynamicPuppet, Puppet, Stage, kinds, start

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.errors import PolicyError
from pybatsched.testing import Workload, run_policy


class Listener(Puppet):
    def on_job_released(self, job: Job, procs: IntervalSet, now: float) -> None:
        self.received.append(("released", job.id, str(procs), job.state.value))


def hold(job: Job | str, procs: str, at: float, **more: Any) -> d.StartAt:
    return d.StartAt(job if isinstance(job, str) else job.id, IntervalSet.parse(procs), at, **more)


def call(at: float) -> e.RequestedCall:
    return e.RequestedCall(timestamp=at)


def test_processors_are_kept_and_the_job_starts_at_its_instant() -> None:
    stage = Stage(Listener)
    job = stage.submit("a", 2, at=5.0, walltime=20)
    reply = stage.do(hold(job, "1-2", 8.0, reason="after a swap"))
    assert kinds(reply) == ["CallMeLater"]
    assert reply.decisions[0].at == 8.0  # type: ignore[attr-defined]
    assert (job.state, stage.free, job.expected_end_at) == (JobState.HELD, "0 3", 28.0)
    partition = stage.engine.cluster.partitions["all"]
    assert (partition.running_jobs, job.expected_end_at) == ([job], 28.0)
    assert "held on 1-2 since 5.0, to start at 8.0" in job.history()
    assert stage.engine.jobs.n_running == 0
    reply = stage.step(call(8.0), at=8.0)
    assert kinds(reply) == ["SetJobMetadata", "ExecuteJob"]
    note, execute = reply.decisions
    assert (note.metadata, str(execute.procs)) == ("held_s=3", "1-2")  # type: ignore[attr-defined]
    assert execute.reason == "after a swap"
    assert (job.state, job.started_at, job.expected_end_at) == (JobState.RUNNING, 8.0, 28.0)
    assert stage.engine.jobs.n_running == 1
    stage.step(stage.completed(job), at=18.0)
    assert stage.free == "0-3"


def test_a_held_job_starts_at_the_first_message_at_or_after_its_time() -> None:
    stage = Stage(Listener)
    job = stage.submit("a", 2, walltime=20)
    stage.do(hold(job, "1-2", 3.0))
    assert kinds(stage.step(at=2.9)) == []
    assert kinds(stage.step(at=3.0)) == ["SetJobMetadata", "ExecuteJob"]
    assert kinds(stage.step(call(3.0), at=3.00001)) == []


def test_jobs_held_until_one_instant_share_one_call() -> None:
    stage = Stage(Listener)
    first, second = stage.submit("a", 1), stage.submit("b", 1)
    assert kinds(stage.do(hold(second, "0", 4.0), hold(first, "1", 4.0))) == ["CallMeLater"]
    reply = stage.step(call(4.0), at=4.0)
    assert [decision.job_id for decision in reply.decisions] == ["w0!a", "w0!a", "w0!b", "w0!b"]  # type: ignore[attr-defined]


def test_holding_a_job_until_now_starts_it() -> None:
    stage = Stage(Listener)
    job = stage.submit("a", 1, at=2.0)
    assert kinds(stage.do(hold(job, "3", 2.0))) == ["ExecuteJob"]
    assert job.state is JobState.RUNNING


def test_a_released_job_waits_again() -> None:
    stage = Stage(Listener)
    job = stage.submit("a", 2)
    stage.do(hold(job, "0-1", 4.0))
    assert kinds(stage.do(d.Release(job.id))) == []
    assert (job.state, stage.free, job.procs, job.partition) == (JobState.WAITING, "0-3", None, None)
    assert ("released", "w0!a", "0-1", "waiting") not in stage.puppet.received
    assert kinds(stage.step(call(4.0), at=4.0)) == []
    assert kinds(stage.do(start(job, "2-3"))) == ["ExecuteJob"]


def test_a_lost_processor_releases_the_held_job_and_notifies_the_policy() -> None:
    stage = Stage(Listener)
    held, other = stage.submit("a", 2), stage.submit("b", 1)
    stage.do(hold(held, "0-1", 4.0), hold(other, "2", 4.0))
    gone = e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet.parse("1"), timestamp=1.0)
    stage.step(gone, at=1.0)
    assert stage.puppet.received[-2:] == [("released", "w0!a", "0-1", "waiting"), ("machines", "1")]
    assert (held.state, other.state, stage.free) == (JobState.WAITING, JobState.HELD, "0 3")
    reply = stage.step(call(4.0), at=4.0)
    assert [type(decision).__name__ for decision in reply.decisions] == ["SetJobMetadata", "ExecuteJob"]


def test_a_processor_lost_at_the_start_time_releases_the_held_job() -> None:
    stage = Stage(Listener)
    job = stage.submit("a", 2)
    stage.do(hold(job, "0-1", 4.0))
    gone = e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet.parse("0"), timestamp=4.0)
    assert kinds(stage.step(call(4.0), gone, at=4.0)) == []
    assert (job.state, stage.free) == (JobState.WAITING, "1-3")


def test_facts_texts_and_lineage_share_the_metadata() -> None:
    stage = Stage(DynamicPuppet, dynamic_jobs_enabled=True)
    job = stage.run("a", "0-1", walltime=20)
    stage.do(d.Requeue(job.id, work="rest", by="w0!urgent"), at=4.0)
    reply = stage.step(*stage.killed(job))
    lineage = "parent=w0!a;segment=1;kind=requeue;work=rest;by=w0!urgent"
    assert [x.metadata for x in reply.decisions if isinstance(x, d.SetJobMetadata)] == [lineage]
    stage.do(d.SetJobMetadata(job.id, "colour=red"), hold(job, "0-1", 6.0))
    reply = stage.step(call(6.0), at=6.0)
    assert reply.decisions[0].metadata == f"{lineage};held_s=2;colour=red"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("decision", "rule", "text"),
    [
        (hold("w0!a", "0", 4.0), "right number", "expected the 2 processors that job w0!a requests, found 1"),
        (hold("w0!a", "0-1", -1.0), "start in the future", "cannot start at -1.0"),
        (hold("w0!a", "0-1", float("nan")), "start in the future", "cannot start at nan"),
        (hold("w0!b", "0-1", 4.0), "job waiting", "cannot hold processors for job w0!b: it is running"),
        (hold("w0!a", "2-3", 4.0), "processors free", "used by w0!b"),
        (hold("w0!gone", "2-3", 4.0), "job known", "w0!gone"),
        (hold("w0!a", "7-8", 4.0), "inside the partition", "not compute processors"),
        (d.Release("w0!a"), "job held", "cannot release job w0!a: it is waiting"),
        (d.Release("w0!b"), "job held", "it is running"),
        (d.StartAt("w0!a", "0-1", 4.0), "well-formed", "StartAt.procs is a str"),  # type: ignore[arg-type]
    ],
)
def test_invalid_holds_are_rejected(decision: d.Decision, rule: str, text: str) -> None:
    stage = Stage()
    stage.submit("a", 2)
    stage.run("b", "2-3")
    with pytest.raises(PolicyError, match=text) as error:
        stage.do(decision)
    assert error.value.rule == rule


@pytest.mark.parametrize(
    "decision", [start("w0!a", "2-3"), d.KillJob(("w0!a",)), d.RejectJob("w0!a"), hold("w0!a", "2-3", 9.0)]
)
def test_a_held_job_is_neither_waiting_nor_running(decision: d.Decision) -> None:
    stage = Stage()
    job = stage.submit("a", 2)
    stage.do(hold(job, "0-1", 4.0))
    with pytest.raises(PolicyError, match="it is held"):
        stage.do(decision)


def test_held_processors_do_not_sleep() -> None:
    stage = Stage()
    job = stage.submit("a", 2)
    stage.do(hold(job, "0-1", 4.0))
    with pytest.raises(PolicyError, match="0 are used by job w0!a"):
        stage.do(d.SetResourceState(IntervalSet.parse("0"), "2"))


class Patient(Puppet):
    """Starts each job three seconds after it came."""

    def decide(self, now: float) -> Any:
        for job in self.jobs.values():
            if job.state is JobState.WAITING and job.n_procs <= self.partition.n_free:
                yield d.StartAt(job.id, self.partition.free.first(job.n_procs), now + 3)

    def on_begin(self, cluster: Any) -> None:
        super().on_begin(cluster)
        self.partition = cluster.add_partition("all", cluster.procs)


def test_over_the_codec_every_job_starts_three_seconds_late() -> None:
    jobs = Workload().job("a", n=2, s=10).job("b", n=3, s=5, at=1).job("c", n=1, s=4, at=2.5)
    batsim = run_policy(Patient, jobs, n_procs=4)
    assert {job.id: (job.started_at, str(job.procs)) for job in batsim.jobs.values()} == {
        "w0!a": (3.0, "0-1"),
        "w0!c": (5.5, "2"),
        "w0!b": (16.0, "0-2"),
    }
