"""Reshape: a waiting job gets another size and other times; Batsim is informed when the job starts."""

from __future__ import annotations

from typing import Any

import pytest
from support.stage import DynamicPuppet, Stage, kinds, registered, start, times

from pybatsched.core import decisions as d, events as e
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import JobState
from pybatsched.core.policy_calls import IdleCalls
from pybatsched.errors import PolicyError
from pybatsched.policies.registry import local_scheduler


@pytest.fixture
def stage() -> Stage:
    return Stage(DynamicPuppet, dynamic_jobs_enabled=True)


# --- what is sent -------------------------------------------------------------------------------------------------


def test_nothing_is_sent_until_the_job_starts_in_its_shape(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15, estimate=12, at=3.0, user="pat")
    reply = stage.do(d.Reshape(job.id, 4, 0.7, reason="wider is sooner"), at=4.0)
    assert kinds(reply) == []
    assert times(job) == (4, 7.0, 10.5, 8.4)
    assert (job.n_procs_requested, job.scale, job.is_reshaped, job.wire_id) == (2, 0.7, True, "w0!a")
    assert job.history() == "submitted at 3.0 for 2 processors; now for 4 processors, times x 0.7; waiting"
    reply = stage.do(start(job, "0-3", reason="its turn"), at=7.0)
    assert kinds(reply) == [
        "SetJobMetadata",
        "RejectJob",
        "RegisterProfile",
        "RegisterJob",
        "SetJobMetadata",
        "ExecuteJob",
    ]
    assert reply.decisions[0].metadata == "replaced_by=dyn!w0.a.1;kind=replace"  # type: ignore[attr-defined]
    profile, fields, note = registered(reply)
    assert profile == {"type": "delay", "delay": 7.0}
    assert fields == {
        "id": "dyn!w0.a.1",
        "subtime": 3.0,
        "res": 4,
        "profile": "w0.a.1",
        "walltime": 10.5,
        "estimate": 8.4,
        "user": "pat",
    }
    assert note == "parent=w0!a;segment=1;kind=replace"
    assert (job.state, job.expected_end_at, job.is_reshaped) == (JobState.RUNNING, 15.4, False)
    stage.step(stage.completed(job), at=14.0)
    assert stage.engine.jobs.n_over == {JobState.COMPLETED: 1, JobState.KILLED: 0, JobState.REJECTED: 0}


def test_shapes_are_counted_from_the_job_as_it_was_submitted(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15.5)
    for n, scale in ((4, 3.0), (1, 0.1), (3, 1 / 3), (1, 1.0), (4, 7)):
        stage.do(d.Reshape(job.id, n, scale))
        walltime = round(15.5 * scale, 6)
        assert times(job) == (n, round(10 * scale, 6), walltime, walltime)
        assert job.estimate_at(0.5) == 7.75


def test_in_the_shape_it_was_submitted_in_the_job_itself_starts() -> None:
    stage = Stage()  # works without dynamic jobs if nothing is changed
    job = stage.submit("a", n=2, profile="ph", walltime=15)
    stage.do(d.Reshape(job.id, 2, 1.0))
    assert kinds(stage.do(start(job, "0-1"))) == ["ExecuteJob"]


def test_back_in_the_shape_it_was_submitted_in(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15.123456789)
    stage.do(d.Reshape(job.id, 3, 2.0), d.Reshape(job.id, 2, 1))
    assert times(job) == (2, 10, 15.123456789, 15.123456789)
    (only,) = stage.do(start(job, "2-3")).decisions
    assert isinstance(only, d.ExecuteJob)
    assert only.job_id == "w0!a"


def test_a_generator_sees_each_shape_immediately(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15)
    seen = []

    def decide(_now: float) -> Any:
        for n, scale in ((1, 2.0), (3, 0.5), (4, 0.4)):
            yield d.Reshape(job.id, n, scale)
            seen.append((job.n_procs, job.walltime, job.estimate))
        yield start(job, "0-3")

    stage.puppet.next = decide
    assert kinds(stage.step())[-1] == "ExecuteJob"
    assert seen == [(1, 30.0, 30.0), (3, 7.5, 7.5), (4, 6.0, 6.0)]


def test_local_schedulers_plan_with_the_shape(stage: Stage) -> None:
    job, other = stage.submit("a", n=1, walltime=100), stage.submit("b", n=2, walltime=60)
    local = local_scheduler("conservative", {}, stage.engine.cluster.partitions["all"])

    def decide(now: float) -> Any:
        local.submit(other, now)
        yield d.Reshape(job.id, 3, 0.5)
        local.submit(job, now)
        assert local.planned_start(job, now) == 60.0
        local.withdraw(job, now)
        yield d.Reshape(job.id, 2, 0.7)
        local.submit(job, now)
        yield from local.decide(now)

    stage.puppet.next = decide
    reply = stage.step()
    assert [str(x.procs) for x in reply.decisions if isinstance(x, d.ExecuteJob)] == ["0-1", "2-3"]
    assert registered(reply)[1]["walltime"] == 70.0
    assert (job.queued_in, job.expected_end_at) == (None, 70.0)


# --- what cannot be done ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "scale", "rule"),
    [
        (0, 1.0, "right number"),
        (-3, 1.0, "right number"),
        (5, 1.0, "right number"),
        (2.0, 1.0, "well-formed"),
        (2, 0.0, "finite numbers"),
        (2, -1.0, "finite numbers"),
        (2, float("nan"), "finite numbers"),
        (2, float("inf"), "finite numbers"),
        (2, 10**400, "finite numbers"),
        (2, 1e299, "finite numbers"),
        (2, "3", "well-formed"),
        (2, None, "well-formed"),
    ],
)
def test_invalid_reshapes_are_rejected(stage: Stage, n: Any, scale: Any, rule: str) -> None:
    job = stage.submit("a", n=2, walltime=1e10)
    with pytest.raises(PolicyError) as caught:
        stage.do(d.Reshape(job.id, n, scale))
    assert caught.value.rule == rule


@pytest.mark.parametrize("profile", ["ph", "mixed", "arrays", "total"])
def test_only_delays_can_be_reshaped(stage: Stage, profile: str) -> None:
    job = stage.submit("a", n=2, profile=profile, walltime=99)
    assert not stage.engine.cluster.can_reshape(job)
    with pytest.raises(PolicyError, match="expected a profile of delays") as caught:
        stage.do(d.Reshape(job.id, 2, 0.5))
    assert (caught.value.rule, caught.value.job_id) == ("can be reshaped", "w0!a")


def test_which_jobs_cannot_be_reshaped(stage: Stage) -> None:
    waiting, running = stage.submit("a", walltime=20), stage.run("b", "0", walltime=20)
    local = local_scheduler("fcfs", {}, stage.engine.cluster.partitions["all"])
    local.submit(waiting, 0.0)
    with pytest.raises(PolicyError, match="waits in the queue of partition all; withdraw it first") as caught:
        stage.do(d.Reshape(waiting.id, 2, 0.5))
    assert caught.value.rule == "in no queue"
    local.withdraw(waiting, 0.0)
    stage.do(d.StartAt(waiting.id, IntervalSet.parse("1"), 5.0))
    for job_id, rule in (("w0!a", "job waiting"), ("w0!b", "job waiting"), ("w0!zzz", "job known")):
        with pytest.raises(PolicyError) as caught:
            stage.do(d.Reshape(job_id, 2, 0.5))
        assert caught.value.rule == rule
    stage.step(stage.completed(running), at=1.0)
    with pytest.raises(PolicyError) as caught:
        stage.do(d.Reshape("w0!b", 2, 0.5))
    assert caught.value.rule == "job alive"


def test_another_shape_needs_dynamic_jobs() -> None:
    stage = Stage()
    job = stage.submit("a", n=2)
    with pytest.raises(PolicyError, match="--enable-dynamic-jobs"):
        stage.do(d.Reshape(job.id, 1, 1.0))


def test_the_state_of_a_reshaped_job_cannot_be_changed(stage: Stage) -> None:
    job = stage.submit("a", n=2)
    stage.do(d.Reshape(job.id, 1, 1.0))
    with pytest.raises(PolicyError, match="the job was reshaped"):
        stage.do(d.ChangeJobState(job.id, "RUNNING"))


def test_reshaping_does_not_reset_the_count_of_idle_calls(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15)
    with pytest.raises(PolicyError, match="calls in a row"):
        for k in range(1, IdleCalls.MAX_AT_ONCE + 3):
            at = round(k * TICK, 6)
            stage.do(
                d.Reshape(job.id, 1 + k % 4, 1.0),
                d.CallMeLater(at + TICK),
                events=[e.RequestedCall(timestamp=at)],
                at=at,
            )
