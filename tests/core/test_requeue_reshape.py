"""Reshape: a waiting job gets another size and other times; Batsim is informed when the job starts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.pushy import Molder
from support.stage import DynamicPuppet, Stage, kinds, outcomes, registered, start, times

from pybatsched.core import decisions as d, events as e
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import JobState
from pybatsched.core.policy_calls import IdleCalls
from pybatsched.errors import PolicyError
from pybatsched.metrics.outcomes import Outcome, facts_of, joined, lineage_of
from pybatsched.policies.registry import local_scheduler
from pybatsched.testing import Workload, run_policy


@pytest.fixture
def stage() -> Stage:
    return Stage(DynamicPuppet, dynamic_jobs_enabled=True)


def test_nothing_is_sent_until_the_job_starts_in_its_shape(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15, estimate=12, at=3.0, user="pat")
    reply = stage.do(d.Reshape(job.id, 4, 0.7, reason="wider is sooner"), at=4.0)
    assert kinds(reply) == []
    assert times(job) == (4, 7.0, 10.5, 8.4)
    assert (job.n_procs_requested, job.scale, job.is_reshaped, job.wire_id) == (2, 0.7, True, "w0!a")
    assert job.history() == "submitted at 3.0 for 2 processors; now for 4 processors, times x 0.7; waiting"
    reply = stage.do(start(job, "0-3", reason="its turn"), at=7.0)
    assert kinds(reply) == [
        "SetJobMetadata", "RejectJob", "RegisterProfile", "RegisterJob", "SetJobMetadata", "ExecuteJob",
    ]  # fmt: skip
    assert reply.decisions[0].metadata == "replaced_by=dyn!w0.a.1;kind=replace"  # type: ignore[attr-defined]
    profile, fields, note = registered(reply)
    assert profile == {"type": "delay", "delay": 7.0}
    assert fields == {
        "id": "dyn!w0.a.1", "subtime": 3.0, "res": 4, "profile": "w0.a.1", "walltime": 10.5, "estimate": 8.4,
        "user": "pat",
    }  # fmt: skip
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


@pytest.mark.parametrize(
    ("requeue", "goes_on", "reshaped", "note"),
    [
        # 2 of 5 s are done in the shape (3, 0.5): run time, walltime, estimate then; and as (1, 2.0).
        ({"work": "rest"}, (3, 3.0, 5.5, 4.0), (1, 12.0, 22.0, 16.0), ";work=rest"),
        ({"work": "all"}, (3, 5.0, 7.5, 6.0), (1, 20.0, 30.0, 24.0), ""),
        ({"work": "rest", "extra_s": 1.0}, (3, 4.0, 6.5, 5.0), (1, 16.0, 26.0, 20.0), ";work=rest;extra_s={}"),
        ({"work": "all", "extra_s": 1.0}, (3, 6.0, 8.5, 7.0), (1, 24.0, 34.0, 28.0), ";extra_s={}"),
        ({"work": "rest", "by": "w0!u"}, (3, 3.0, 5.5, 4.0), (1, 12.0, 22.0, 16.0), ";work=rest;by=w0!u"),
    ],
)
def test_a_requeued_job_keeps_its_shape_and_can_get_another(
    stage: Stage, requeue: dict[str, Any], goes_on: tuple[Any, ...], reshaped: tuple[Any, ...], note: str
) -> None:
    job = stage.submit("a", n=2, walltime=15, estimate=12)
    stage.do(d.Reshape(job.id, 3, 0.5), start(job, "0-2"))
    stage.do(d.Requeue(job.id, procs=IntervalSet.parse("0-2"), **requeue), at=2.0)
    reply = stage.step(*stage.killed(job))
    profile, fields, shown = registered(reply)
    assert shown == "parent=w0!a;segment=2;kind=requeue" + note.format("1")
    assert (fields["res"], profile["delay"], fields["walltime"], fields["estimate"]) == times(job) == goes_on
    assert (job.wire_id, str(job.resume_on), job.is_reshaped) == ("dyn!w0.a.2", "0-2", False)
    assert stage.puppet.received[-1] == ("killed", "w0!a", "waiting")

    stage.do(d.Reshape(job.id, 3, 0.25), d.Reshape(job.id, 1, 2.0))
    assert times(job) == reshaped
    assert job.estimate_at(0.5) == goes_on[3]
    assert (job.resume_on, job.whole.at(job.scale).walltime, job.whole.at(job.scale).estimate) == (None, 30.0, 24.0)
    stage.do(d.Reshape(job.id, 3, 0.5))
    assert times(job) == goes_on
    assert not job.is_reshaped, "it could start as it is"
    stage.do(d.Reshape(job.id, 1, 2.0))
    profile, fields, shown = registered(stage.do(start(job, "3"), at=4.0))
    assert shown == "parent=w0!a;segment=3;kind=replace" + note.format("4")
    assert (fields["res"], profile["delay"], fields["walltime"], fields["estimate"]) == reshaped

    stage.do(d.Requeue(job.id), at=5.0)  # from scratch: the whole job, in the shape it has now
    stage.step(*stage.killed(job))
    assert times(job) == (1, 20.0, 30.0, 24.0)
    stage.do(d.Reshape(job.id, 2, 1.0))
    assert times(job) == (2, 10, 15, 12)
    assert registered(stage.do(start(job, "0-1")))[0] == {"type": "delay", "delay": 10}


def test_a_job_that_never_was_reshaped_can_be_after_a_requeue(stage: Stage) -> None:
    job = stage.run("a", "0-1", profile="delays", walltime=50)
    stage.do(d.Requeue(job.id, work="rest"), at=14.0)
    stage.step(*stage.killed(job, None))
    stage.do(d.Reshape(job.id, 4, 0.5))
    assert times(job) == (4, 13.0, 18.0, 18.0)
    stage.do(start(job, "0-3"))
    stage.do(d.Requeue(job.id), at=15.0)
    stage.step(*stage.killed(job))
    assert times(job) == (4, 20.0, 25.0, 25.0)


def test_a_composed_profile_of_delays_is_one_delay(stage: Stage) -> None:
    job = stage.submit("a", profile="delays", walltime=50)
    stage.do(d.Reshape(job.id, 2, 0.5))
    assert times(job) == (2, 20.0, 25.0, 25.0)
    assert registered(stage.do(start(job, "0-1")))[0] == {"type": "delay", "delay": 20.0}


def test_a_composed_job_of_another_size_alone(stage: Stage) -> None:
    job = stage.submit("a", profile="delays", walltime=50)
    stage.do(d.Reshape(job.id, 2, 1.0))
    assert registered(stage.do(start(job, "0-1")))[0] == {"type": "delay", "delay": 40.0}
    again = stage.submit("b", profile="delays", walltime=50)
    stage.do(d.Reshape(again.id, 2, 0.5), d.Reshape(again.id, 1, 1.0))
    assert kinds(stage.do(start(again, "2"))) == ["ExecuteJob"]


def test_a_reshaped_profile_keeps_its_other_fields() -> None:
    stage = Stage(DynamicPuppet, begin=False, dynamic_jobs_enabled=True)
    stage.step(stage.begins(profiles={"w0": {"bad": {"type": "delay", "delay": 4, "ret": 3}}}))
    job = stage.submit("a", profile="bad")
    reply = stage.do(d.Reshape(job.id, 1, 0.5), start(job, "0"))
    assert registered(reply)[0] == {"type": "delay", "delay": 2.0, "ret": 3}


def test_reshaping_adds_no_walltime_or_estimate(stage: Stage) -> None:
    job = stage.submit("a")
    stage.do(d.Reshape(job.id, 2, 0.5))
    assert (*times(job), job.estimate_at(3.0)) == (2, 5.0, None, None, None)
    assert "walltime" not in registered(stage.do(start(job, "0-1")))[1]


def test_an_unknown_profile_has_no_times(stage: Stage) -> None:
    job = stage.submit("a", profile="zzz")
    with pytest.raises(PolicyError, match="its profile 'zzz' is unknown"):
        stage.do(d.Reshape(job.id, 2, 0.5))


@pytest.mark.parametrize(
    ("walltime", "scale", "expected"),
    [
        (10.000001, 0.01, (0.1, 0.100001)),  # both would be 0.1, and Batsim would report a kill
        (10.5, 1e-9, (1e-6, 2e-6)),
        (10, 1e-9, (1e-6, 1e-6)),  # it would have been killed before
        (7, 1 / 3, (3.333333, 2.333333)),
    ],
)
def test_a_job_ends_before_its_walltime_in_any_shape_if_it_does_in_one(
    stage: Stage, walltime: float, scale: float, expected: tuple[float, float]
) -> None:
    job = stage.submit("a", walltime=walltime, estimate=10)
    stage.do(d.Reshape(job.id, 1, scale))
    assert times(job)[1:3] == expected
    assert job.estimate == job.estimate_at(scale) == max(round(10 * scale, 6), 1e-6)


def test_a_replace_starts_from_the_shape(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15, estimate=12)
    reply = stage.do(
        d.Reshape(job.id, 4, 0.5),
        d.SetJobMetadata(job.id, "mood=1"),
        d.Replace(job.id, IntervalSet.parse("0-3"), extra_s=30.0),
    )
    profile, fields, note = registered(reply)
    assert (fields["res"], profile["delay"], fields["walltime"], fields["estimate"]) == (4, 35.0, 37.5, 36.0)
    assert note == "parent=w0!a;segment=1;kind=replace;extra_s=30;mood=1"
    stage.do(d.Requeue(job.id, work="rest"), at=33.0)  # 3 of its 5 s are done
    stage.step(*stage.killed(job))
    assert times(job) == (4, 2.0, 4.5, 3.0)
    stage.do(d.Reshape(job.id, 2, 1.0))
    assert times(job) == (2, 4.0, 9.0, 6.0)


def test_a_replace_without_changes_of_its_own_takes_the_shape(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15)
    stage.do(d.Reshape(job.id, 4, 0.5))
    profile, fields, _ = registered(stage.do(d.Replace(job.id, IntervalSet.parse("0-3"))))
    assert (fields["res"], profile["delay"], fields["walltime"]) == (4, 5.0, 7.5)


def test_a_replace_of_a_reshaped_job_keeps_its_margin_and_size(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15)
    stage.do(d.Reshape(job.id, 4, 0.5), d.Replace(job.id, IntervalSet.parse("0-2"), n=3, duration_s=6.0))
    assert times(job) == (3, 6.0, 8.5, 8.5)  # 2.5 s more than its work, as in its shape
    stage.do(d.Requeue(job.id), at=1.0)
    stage.step(*stage.killed(job))
    assert times(job) == (3, 6.0, 8.5, 8.5)
    stage.do(d.Reshape(job.id, 2, 1.0))
    assert times(job) == (2, 12.0, 17.0, 17.0)


def test_a_held_job_keeps_its_shape(stage: Stage) -> None:
    job = stage.submit("a", n=1, walltime=15, estimate=12)
    reply = stage.do(d.Reshape(job.id, 2, 0.5), d.StartAt(job.id, IntervalSet.parse("1-2"), 8.0))
    assert kinds(reply) == ["CallMeLater"]
    assert (job.state, job.expected_end_at, stage.free) == (JobState.HELD, 14.0, "0 3")
    stage.do(d.Release(job.id), at=1.0)
    assert times(job) == (2, 5.0, 7.5, 6.0)
    stage.do(d.Reshape(job.id, 3, 0.4), d.StartAt(job.id, IntervalSet.parse("0-2"), 8.0))
    gone = e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet.parse("1"), timestamp=2.0)
    stage.step(gone, at=2.0)
    assert (job.state, times(job)) == (JobState.WAITING, (3, 4.0, 6.0, 4.8))
    stage.do(d.StartAt(job.id, IntervalSet.parse("0 2-3"), 8.0), at=3.0)
    reply = stage.step(e.RequestedCall(timestamp=8.0), at=8.0)
    notes = [(x.job_id, x.metadata) for x in reply.decisions if isinstance(x, d.SetJobMetadata)]
    assert notes == [
        ("w0!a", "replaced_by=dyn!w0.a.1;kind=replace"),
        ("dyn!w0.a.1", "parent=w0!a;segment=1;kind=replace"),
        ("dyn!w0.a.1", "parent=w0!a;segment=1;kind=replace;held_s=5"),
    ]
    assert kinds(reply)[-1] == "ExecuteJob"
    assert (job.state, job.expected_end_at) == (JobState.RUNNING, 12.8)


def test_killed_and_rejected_reshaped_jobs_are_finished(stage: Stage) -> None:
    waiting, running = stage.submit("a", walltime=15), stage.submit("b", walltime=15)
    stage.do(d.Reshape(waiting.id, 2, 0.5), d.Reshape(running.id, 3, 0.5), start(running, "0-2"))
    reply = stage.do(d.RejectJob(waiting.id), d.KillJob((running.id,)), at=1.0)
    rejected, killed = reply.decisions
    assert isinstance(rejected, d.RejectJob)
    assert isinstance(killed, d.KillJob)
    assert (rejected.job_id, killed.job_ids) == ("w0!a", ("dyn!w0.b.1",))
    stage.step(*stage.killed(running))
    assert stage.engine.jobs.n_over == {JobState.COMPLETED: 0, JobState.KILLED: 1, JobState.REJECTED: 1}
    assert stage.free == "0-3"


def test_a_kill_after_the_end_changes_nothing(stage: Stage) -> None:
    job = stage.submit("a", walltime=15)
    stage.do(d.Reshape(job.id, 2, 0.5), start(job, "0-1"))
    stage.do(d.Requeue(job.id), at=5.0)
    stage.step(stage.completed(job), e.JobKilled((job.wire_id,), {}, timestamp=5.0))
    assert stage.puppet.received[-1] == ("ended", "w0!a", "COMPLETED_SUCCESSFULLY")


SCALES = st.sampled_from([1 / 7, 0.25, 0.7, 1, 1.0, 4 / 3, 1e-3, 150.0]) | st.floats(1e-3, 1e3)


@examples(300)
@given(
    steps=st.lists(
        st.tuples(st.just("reshape"), st.integers(1, 4), SCALES)
        | st.tuples(st.just("run"), st.sampled_from(["all", "rest"]), st.floats(0.0, 0.9)),
        max_size=12,
    )
)
def test_any_sequence_of_shapes_and_requeues(steps: list[tuple[str, Any, Any]]) -> None:
    """Compared with a simple model: the last size and scale, and the share of the job that is left."""
    stage = Stage(DynamicPuppet, dynamic_jobs_enabled=True)
    job = stage.submit("a", n=2, walltime=15.25, estimate=12)
    n, scale, done_s, off_s = 2, 1.0, 0.0, 0.0  # done, and off by rounding: in seconds of the job as it was submitted
    registered_as = (2, 1.0)
    for kind, what, how in steps:
        if kind == "reshape":
            n, scale = what, float(how)
            assert kinds(stage.do(d.Reshape(job.id, n, scale))) == []
        else:
            reply = stage.do(start(job, f"0-{n - 1}"))
            assert ("RegisterJob" in kinds(reply)) == (registered_as != (n, scale)), "only if it is another one"
            ran_s = how * times(job)[1]
            stage.do(d.Requeue(job.id, work=what), at=stage.now + ran_s)
            stage.step(*stage.killed(job))
            done_s, off_s = (0.0, 0.0) if what == "all" else (done_s + ran_s / scale, off_s + 2e-6 / scale)
            registered_as = (n, scale)
        left = [(whole - done_s) * scale for whole in (10, 15.25, 12)]
        if not off_s:
            assert times(job) == (n, *(x if scale == 1 else round(x, 6) for x in left))
        else:
            assert times(job) == (n, *(pytest.approx(x, abs=off_s * scale + 1e-6) for x in left))
        assert job.is_reshaped == (registered_as != (n, scale))


@examples(150)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 6), st.integers(1, 12), st.integers(0, 5)), min_size=1, max_size=12
    ),
    seed=st.integers(0, 10**6),
    requeued=st.sampled_from(["", "all", "rest"]),
    extra_s=st.sampled_from([0.0, 0.75]),
    load_s=st.sampled_from([0.0, 2.5]),
    outage=st.booleans(),
)
def test_every_job_does_its_work_in_any_shapes(
    jobs: list[Any], seed: int, requeued: str, extra_s: float, load_s: float, outage: bool
) -> None:
    workload = Workload()
    at = 0
    for index, (gap, n, work, more) in enumerate(jobs):
        at += gap
        workload.job(f"{index:02}", n=n, s=work, at=at, walltime=work + more + 1, estimate=work + more)
    machine_events = [(5.0, e.MACHINES_UNAVAILABLE, "1 4"), (11.0, e.MACHINES_AVAILABLE, "1 4")] if outage else []
    run = run_policy(
        Molder,
        workload,
        6,
        config={"dynamic-jobs-enabled": True},
        machine_events=machine_events,
        seed=seed,
        requeued=requeued,
        extra_s=extra_s if requeued == "all" else 0.0,  # of work that is added, a part may be left
        load_s=load_s,
    )
    assert not run.deadlocked
    records = joined(outcomes(run))
    assert sorted(record.id for record in records) == [f"w0!{index:02}" for index in range(len(jobs))]
    for record in records:
        _, _, work, more = jobs[int(record.id[-2:])]
        assert record.state == e.COMPLETED_SUCCESSFULLY
        last = record.segments[-1]
        counted = record.segments if requeued == "rest" else (last,)
        lengths = [max(one.runtime_s - extra_of(one), 0.0) for one in counted]
        scales = [facts_of(one.metadata)["scale"] for one in counted]
        done = sum(length / scale for length, scale in zip(lengths, scales, strict=True))
        # A kill has the time of the message, and happens a little later.
        assert done == pytest.approx(work, abs=sum(1.2e-5 / scale for scale in scales))
        assert record.runtime_s == pytest.approx(sum(lengths), abs=1e-6), "the time it took in the shapes it ran in"
        assert record.n_procs == run.jobs[last.id].fields["res"]
        if not requeued:
            scale, fields = facts_of(last.metadata)["scale"], run.jobs[last.id].fields
            assert fields["walltime"] == pytest.approx((work + more + 1) * scale + extra_of(last), abs=1e-6)
            assert fields["estimate"] == pytest.approx((work + more) * scale + extra_of(last), abs=1e-6)


def extra_of(outcome: Outcome) -> float:
    lineage = lineage_of(outcome.metadata)
    return 0.0 if lineage is None else lineage.extra_s
