"""Processor-seconds of work, checkpoints and lost work, worked out by hand: every second of a job is in one of them."""

from __future__ import annotations

from typing import Any

import pytest
from support.stage import DynamicPuppet, Stage, start

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.options import Options

#: A job of 200 s that writes a checkpoint of 5 s every 50 s, and reads one in 2 s: 215 s.
SAVED = {"checkpoint_interval_s": 50, "checkpoint_dump_s": 5, "checkpoint_read_s": 2, "checkpoint_work_s": 200}


class Failing(Stage):
    """A stage whose machines fail, with jobs that are requeued."""

    def __init__(self) -> None:
        super().__init__(begin=False, dynamic_jobs_enabled=True)
        options = Options(on_failure="requeue_first")
        self.engine = Engine(lambda _begins: DynamicPuppet(options), "puppet", checked=True)
        begins = self.begins()
        assert begins.profiles is not None
        profiles = {"w0": {**begins.profiles["w0"], "d215": {"type": "delay", "delay": 215}}}
        self.step(self.begins(profiles=profiles))

    def notice(self, kind: str, procs: str = "0") -> e.Notify:
        return e.Notify(kind, procs=IntervalSet.parse(procs), timestamp=self.now)

    def fail(self, job: Job, at: float) -> None:
        """Let processor 0, on which the job runs, fail for an instant."""
        self.now = at
        self.step(self.notice(e.MACHINES_UNAVAILABLE))
        self.step(*self.killed(job), self.notice(e.MACHINES_AVAILABLE))
        assert job.state is JobState.WAITING

    def end(self, job: Job, at: float) -> dict[str, float]:
        """Let a job end. Return the figures."""
        self.now = at
        self.step(self.completed(job))
        return self.figures

    @property
    def figures(self) -> dict[str, float]:
        names = ("lost_work_s", "checkpoint_s", "application_efficiency")
        return {name: self.engine.figures[name] for name in names}


@pytest.fixture
def stage() -> Failing:
    return Failing()


def costs(lost: float, checkpoints: float, efficiency: float) -> dict[str, Any]:
    return {"lost_work_s": lost, "checkpoint_s": checkpoints, "application_efficiency": pytest.approx(efficiency)}


def test_segments_on_different_numbers_of_processors(stage: Failing) -> None:
    """4 s on two processors are lost; then the job takes 20 s on one."""
    job = stage.run("a", "0-1", walltime=15)
    stage.fail(job, 4.0)
    stage.do(d.Reshape(job.id, 1, 2.0), start(job, "3"))
    assert stage.end(job, 24.0) == costs(8, 0, 20 / 28)


def test_seconds_of_a_suspended_job_that_is_lost_later(stage: Failing) -> None:
    """4 s on two processors, then 6 s of the remaining 12 s on one: all of it is repeated."""
    job = stage.run("a", "0-1", walltime=15)
    stage.do(d.Requeue(job.id, work="rest"), at=4.0)
    stage.do(d.Reshape(job.id, 1, 2.0), start(job, "0"), events=stage.killed(job))
    stage.fail(job, 10.0)
    stage.do(start(job, "0"))
    assert stage.end(job, 30.0) == costs(8 + 6, 0, 20 / 34)


def test_another_shape_loses_the_checkpoints(stage: Failing) -> None:
    """At 120 there are two checkpoints. On two processors the job then runs 10 of 53.5 s, and repeats all its work."""
    job = stage.run("a", "0", profile="d215", walltime=300, **SAVED)
    stage.fail(job, 120.0)
    stage.do(d.Reshape(job.id, 2, 0.5), start(job, "0-1"))
    assert job.profile == {"type": "delay", "delay": 53.5}
    stage.fail(job, 130.0)
    assert job.profile == {"type": "delay", "delay": 107.5}
    assert job.restarts is not None
    assert job.restarts.facts == "failures=2;lost_s=120"
    stage.do(start(job, "0-1"))
    assert stage.end(job, 237.5) == costs(10 + 2 * 10 + 100, 2 * 5, 215 / 355)


def test_a_job_of_another_duration_writes_no_checkpoints(stage: Failing) -> None:
    job = stage.submit("a", profile="d215", walltime=300, **SAVED)
    stage.do(d.Replace(job.id, IntervalSet.parse("0"), duration_s=100.0))
    assert stage.end(job, 100.0) == costs(0, 0, 1)


@pytest.mark.parametrize("killed_by_peer", [False, True])
def test_the_work_of_a_killed_job_is_lost(stage: Failing, killed_by_peer: bool) -> None:
    """A machine fails at 4; at 7 the policy kills the job, or Batsim does. Another job does its work."""
    job, other = stage.run("a", "0-1", walltime=15), stage.run("b", "3", walltime=15)
    stage.fail(job, 4.0)
    stage.do(start(job, "0-1"))
    if killed_by_peer:
        stage.step(e.JobCompleted(job.wire_id, e.COMPLETED_KILLED, 0, "0-1", timestamp=7.0), at=7.0)
    else:
        stage.do(d.KillJob((job.id,)), at=7.0)
        stage.step(*stage.killed(job))
    assert job.state is JobState.KILLED
    assert stage.end(other, 10.0) == costs(2 * 7, 0, 10 / 24)


def test_a_processor_fails_only_if_it_is_up(stage: Failing) -> None:
    """The second event is about processors that are down; the third one about one more."""
    for procs in ("0-1", "1", "1-2"):
        stage.step(stage.notice(e.MACHINES_UNAVAILABLE, procs))
    assert stage.engine.figures["n_failures"] == 2
    assert [one["procs"] for one in stage.engine.tables["unavailable"]] == ["0-1", "2"]


def test_a_checkpoint_of_segments_on_different_numbers_of_processors(stage: Failing) -> None:
    """20 s on one processor, 60 s on two, and 10 s on one: of the last 90 s, 50 are kept and 5 wrote the checkpoint."""
    job = stage.run("a", "0", profile="d215", walltime=300, **SAVED)
    stage.do(d.Requeue(job.id, work="rest"), at=20.0)
    stage.do(d.Replace(job.id, IntervalSet.parse("0-1"), n=2), events=stage.killed(job))
    stage.do(d.Requeue(job.id, work="rest"), at=80.0)
    stage.do(d.Replace(job.id, IntervalSet.parse("0"), n=1), events=stage.killed(job))
    stage.fail(job, 90.0)
    assert job.restarts is not None
    assert job.restarts.n_checkpoints == 1
    stage.do(start(job, "0"))
    figures = stage.end(job, 90.0 + 162.0)
    held_s = 20 + 2 * 60 + 10 + 162
    useful_s = figures["application_efficiency"] * held_s
    assert useful_s + figures["checkpoint_s"] + figures["lost_work_s"] == pytest.approx(held_s)
