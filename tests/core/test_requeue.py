"""Requeue and replace: messages to Batsim, and one job for the policy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.pushy import Gentle, Ruthless
from support.stage import DynamicPuppet, Puppet, Stage, kinds, refused, start

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import JobState
from pybatsched.errors import PolicyError
from pybatsched.testing import FakeBatsim, Workload, run_policy


@pytest.fixture
def stage() -> Stage:
    return Stage(DynamicPuppet, dynamic_jobs_enabled=True)


def on_wire(reply: Any) -> list[tuple[Any, ...]]:
    """Return the reply in short."""
    short: list[tuple[Any, ...]] = []
    for item in reply.decisions:
        match item:
            case d.RegisterProfile(workload_name=workload, profile_name=name, profile=profile):
                short.append(("profile", f"{workload}!{name}", profile))
            case d.RegisterJob(job_id=job_id, job=job):
                short.append(("job", job_id, job))
            case d.SetJobMetadata(job_id=job_id, metadata=text):
                short.append(("note", job_id, text))
            case d.ExecuteJob(job_id=job_id, procs=procs):
                short.append(("start", job_id, str(procs)))
            case d.KillJob(job_ids=ids):
                short.append(("kill", *ids))
            case d.RejectJob(job_id=job_id):
                short.append(("reject", job_id))
            case d.Notify(kind=kind):
                short.append((kind,))
    return short


@pytest.mark.parametrize(
    ("procs", "rule", "text"),
    [
        ("0-1", "right number", "expected the 3 processors that job w0!a requests, found 2"),
        ("", "right number", "expected the 3 processors that job w0!a requests, found 0"),
        ("2-4", "inside the partition", "4 are not compute processors of this platform"),
        ("7-9", "inside the partition", "7-9 are not compute processors of this platform"),
    ],
)
def test_a_job_cannot_be_resumed_on_just_any_processors(stage: Stage, procs: str, rule: str, text: str) -> None:
    job = stage.run("a", "0-2", walltime=15)
    error = refused(stage, d.Requeue(job.id, procs=IntervalSet.parse(procs)))
    assert (error.rule, error.text) == (rule, text)


def test_a_job_is_resumed_within_a_partition() -> None:
    class Two(DynamicPuppet):
        partitions = (("left", "0-1"), ("right", "2-3"))

    stage = Stage(Two, dynamic_jobs_enabled=True)
    job = stage.run("a", "0-1", walltime=15)
    error = refused(stage, d.Requeue(job.id, procs=IntervalSet.parse("1-2")))
    assert (error.rule, error.text) == ("inside the partition", "1-2 are in more than one partition; expected one")
    stage.do(d.Requeue(job.id, procs=IntervalSet.parse("2-3")))
    stage.step(*stage.killed(job))
    assert str(job.resume_on) == "2-3"


def test_requeue_from_scratch(stage: Stage) -> None:
    job = stage.run("a", "0-2", walltime=15, user="pat")
    reply = stage.do(d.Requeue(job.id, reason="in the way"), at=4.0)
    assert on_wire(reply) == [("kill", "w0!a")]
    assert stage.engine.cluster.partitions["all"].n_kills_pending == 1
    assert stage.free == "3"
    reply = stage.do(start(job, "1-3"), events=stage.killed(job, 0.4))
    assert on_wire(reply) == [
        ("profile", "dyn!w0.a.1", {"type": "delay", "delay": 10}),
        (
            "job",
            "dyn!w0.a.1",
            {"id": "dyn!w0.a.1", "subtime": 0.0, "res": 3, "profile": "w0.a.1", "walltime": 15, "user": "pat"},
        ),
        ("note", "dyn!w0.a.1", "parent=w0!a;segment=1;kind=requeue"),
        ("start", "dyn!w0.a.1", "1-3"),
    ]
    assert stage.puppet.received[-1] == ("killed", "w0!a", "waiting")
    assert (job.id, job.wire_id, job.n_restarts, stage.free) == ("w0!a", "dyn!w0.a.1", 1, "0")
    assert stage.engine.cluster.partitions["all"].n_kills_pending == 0
    stage.now = 14.0
    reply = stage.step(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=14.0), stage.completed(job))
    assert stage.puppet.received[-2:] == [
        ("ended", "w0!a", "COMPLETED_SUCCESSFULLY"),
        ("notify", e.NO_MORE_STATIC_JOBS),
    ]
    assert on_wire(reply) == [("registration_finished",)]
    assert stage.engine.jobs.n_submitted == 1
    assert stage.engine.jobs.n_over == {JobState.COMPLETED: 1, JobState.KILLED: 0, JobState.REJECTED: 0}


@pytest.mark.parametrize(
    ("profile", "fields", "requeue", "at", "progress", "expected", "walltime", "estimate"),
    [
        ("d10", {"walltime": 15}, {"work": "rest"}, 4.0, 0.4, {"type": "delay", "delay": 6.0}, 11.0, 11.0),
        ("d10", {"walltime": 15, "estimate": 12}, {"work": "rest"}, 4.0, 0.4, {"delay": 6.0}, 11.0, 8.0),
        ("d10", {"walltime": 15, "estimate": 3}, {"work": "rest"}, 4.0, 0.4, {"delay": 6.0}, 11.0, 11.0),
        (
            "d10",
            {"walltime": 15, "estimate": 3},
            {"work": "rest", "extra_s": 2.5},
            4.0,
            0.4,
            {"delay": 8.5},
            13.5,
            13.5,
        ),
        ("d10", {"walltime": 15}, {"work": "rest", "extra_s": 2.5}, 4.0, 0.4, {"delay": 8.5}, 13.5, 13.5),
        ("d10", {"walltime": 15}, {"work": "all", "extra_s": 2.5}, 4.0, 0.4, {"delay": 12.5}, 17.5, 17.5),
        ("d10", {}, {"work": "rest"}, 4.0, 0.4, {"delay": 6.0}, None, None),
        ("d10", {"walltime": 15}, {"work": "rest"}, 0.0, 0.0, {"delay": 10.0}, 15.0, 15.0),
        ("delays", {"walltime": 50}, {"work": "rest"}, 14.0, None, {"type": "delay", "delay": 26.0}, 36.0, 36.0),
        ("delays", {"walltime": 50}, {"work": "all"}, 14.0, None, {"type": "delay", "delay": 40.0}, 50.0, 50.0),
        ("ph", {"walltime": 9}, {"work": "rest"}, 2.0, 0.25, {"type": "parallel_homogeneous", "cpu": 6e9}, 7.0, 7.0),
        ("ph", {"walltime": 9}, {"work": "all"}, 2.0, 0.25, {"cpu": 8e9, "com": 0}, 9.0, 9.0),
        # 0.25 of the work in 2 s: one more second is 0.125 of it
        ("ph", {"walltime": 9}, {"work": "rest", "extra_s": 1.0}, 2.0, 0.25, {"cpu": 7e9}, 8.0, 8.0),
        ("arrays", {"walltime": 9}, {"work": "rest"}, 1.0, 0.5, {"cpu": [5e8, 1e9], "com": [0, 0, 0, 0]}, 8.0, 8.0),
    ],
)
def test_remaining_work_and_times_of_a_requeued_job(
    stage: Stage,
    profile: str,
    fields: dict[Any, Any],
    requeue: dict[Any, Any],
    at: float,
    progress: float | None,
    expected: dict[Any, Any],
    walltime: float | None,
    estimate: float | None,
) -> None:
    job = stage.run("a", "0-1", profile=profile, **fields)
    stage.do(d.Requeue(job.id, **requeue), at=at)
    reply = stage.step(*stage.killed(job, progress))
    (_, _, made), (_, _, registered), _ = on_wire(reply)
    assert {key: made[key] for key in expected} == expected
    assert (registered.get("walltime"), job.walltime, job.estimate) == (walltime, walltime, estimate)
    assert registered.get("estimate", estimate) == estimate


def test_requeued_again_and_again(stage: Stage) -> None:
    job = stage.run("a", "0", walltime=15)
    for k, at in ((1, 2.0), (2, 5.0), (3, 9.0)):
        stage.do(d.Requeue(job.id, work="rest"), at=at)
        stage.do(start(job, "0"), events=stage.killed(job))
        assert job.wire_id == f"dyn!w0.a.{k}"
    assert [(s.wire_id, s.started_at, s.ended_at) for s in job.past] == [
        ("w0!a", 0.0, 2.0),
        ("dyn!w0.a.1", 2.0, 5.0),
        ("dyn!w0.a.2", 5.0, 9.0),
    ]
    assert job.profile == {"type": "delay", "delay": 1.0}
    assert list(stage.engine.cluster.profiles) == ["w0"], "each derived profile is for one job alone"
    for k in (1, 2, 3):
        with pytest.raises(PolicyError, match=f"the profile name dyn!w0.a.{k} was used before"):
            stage.do(d.RegisterProfile("dyn", f"w0.a.{k}", {"type": "delay", "delay": 1}))
    assert "continued as dyn!w0.a.3" in job.history()


def test_a_restart_from_scratch_repeats_the_whole_job(stage: Stage) -> None:
    job = stage.run("a", "0", walltime=15, estimate=12)
    stage.do(d.Requeue(job.id, work="rest", extra_s=1.0), at=4.0)
    stage.do(start(job, "0"), events=stage.killed(job))
    assert (job.profile, job.walltime, job.estimate) == ({"type": "delay", "delay": 7.0}, 12.0, 9.0)
    stage.do(d.Requeue(job.id, work="all", extra_s=2.0), at=5.0)
    stage.do(start(job, "0"), events=stage.killed(job))
    assert (job.profile, job.walltime, job.estimate) == ({"type": "delay", "delay": 12.0}, 17.0, 14.0)
    stage.do(d.Requeue(job.id, work="all", extra_s=2.0), at=6.0)
    stage.step(*stage.killed(job))
    assert (job.profile, job.walltime, job.estimate) == ({"type": "delay", "delay": 12.0}, 17.0, 14.0)


def test_the_policy_can_see_where_a_requeued_job_ran(stage: Stage) -> None:
    job = stage.run("a", "0-1")
    stage.do(d.Requeue(job.id), at=4.0)
    stage.step(*stage.killed(job))
    assert (str(job.past[-1].procs), job.past[-1].partition) == ("0-1", stage.engine.cluster.partitions["all"])


@pytest.mark.parametrize("announced_together", [True, False])
def test_a_job_that_ended_by_itself_is_not_requeued(stage: Stage, announced_together: bool) -> None:
    job = stage.run("a", "0")
    stage.do(d.Requeue(job.id), at=10.0)
    end, answer = stage.completed(job), e.JobKilled((job.wire_id,), {}, timestamp=10.0)
    if announced_together:
        reply = stage.step(end, answer)
    else:
        assert on_wire(stage.step(end)) == []
        assert stage.engine.cluster.partitions["all"].n_kills_pending == 1
        reply = stage.step(answer)
    assert on_wire(reply) == []
    assert stage.puppet.received[-1] == ("ended", "w0!a", "COMPLETED_SUCCESSFULLY")
    assert stage.engine.cluster.partitions["all"].n_kills_pending == 0


def test_acknowledged_registrations_are_not_reported_as_submissions() -> None:
    stage = Stage(DynamicPuppet, dynamic_jobs_enabled=True, dynamic_jobs_acknowledged=True)
    job = stage.run("a", "0")
    stage.do(d.Requeue(job.id), at=1.0)
    stage.step(*stage.killed(job))
    stage.puppet.received.clear()
    stage.do(start(job, "2"), events=[e.JobSubmitted(job.wire_id, {"id": job.wire_id, "res": 1}, timestamp=1.0)])
    assert stage.puppet.received == []
    assert job.state is JobState.RUNNING


def test_a_profile_that_cannot_be_copied_is_kept_alive_by_a_job_registered_before_the_kill(stage: Stage) -> None:
    job = stage.run("a", "0", profile="mixed", walltime=99)
    reply = stage.do(d.Requeue(job.id), at=1.0)
    assert on_wire(reply) == [
        ("job", "w0!a.1", {"id": "w0!a.1", "subtime": 0.0, "res": 1, "profile": "mixed", "walltime": 99}),
        ("note", "w0!a.1", "parent=w0!a;segment=1;kind=requeue"),
        ("kill", "w0!a"),
    ]
    reply = stage.do(start(job, "1"), events=stage.killed(job, None))
    assert on_wire(reply) == [("start", "w0!a.1", "1")]


def test_a_profile_deleted_by_batsim_cannot_be_used_again(stage: Stage) -> None:
    first = stage.run("first", "3", profile="mixed")
    job = stage.run("a", "0", profile="mixed", walltime=99)
    stage.step(stage.completed(first))
    with pytest.raises(PolicyError, match="profile_reuse"):
        stage.do(d.Requeue(job.id))
    for profile in ("mixed", "d10", "ph"):  # the parts of a composed profile go with it
        with pytest.raises(PolicyError, match="profile_reuse"):
            stage.do(d.RegisterJob("w0!new", {"subtime": 0, "res": 1, "profile": profile}))


def test_with_profile_reuse_profiles_stay_usable() -> None:
    stage = Stage(DynamicPuppet, dynamic_jobs_enabled=True, profile_reuse_enabled=True)
    first = stage.run("first", "3", profile="mixed")
    job = stage.run("a", "0", profile="mixed", walltime=99)
    stage.step(stage.completed(first))
    assert on_wire(stage.do(d.Requeue(job.id)))[-1] == ("kill", "w0!a")


def test_the_job_registered_in_advance_is_rejected_if_it_is_not_needed(stage: Stage) -> None:
    job = stage.run("a", "0", profile="mixed", walltime=99)
    stage.do(d.Requeue(job.id), at=28.0)
    reply = stage.step(stage.completed(job), e.JobKilled(("w0!a",), {}, timestamp=28.0))
    assert on_wire(reply) == [("note", "w0!a.1", "unused_spare_of=w0!a"), ("reject", "w0!a.1")]
    assert stage.engine.jobs.n_over[JobState.REJECTED] == 0
    assert stage.engine.actions._notes.of("w0!a.1") == "", "nothing is kept of it"


@pytest.mark.parametrize("is_used", [False, True])
def test_the_id_of_the_job_registered_in_advance_is_not_free(stage: Stage, is_used: bool) -> None:
    job = stage.run("a", "0", profile="mixed", walltime=99)
    again = d.RegisterJob("w0!a.1", {"subtime": 0, "res": 1, "profile": "total"})
    stage.do(d.Requeue(job.id), at=28.0)
    with pytest.raises(PolicyError, match="the id w0!a.1 was used before"):
        stage.do(again)
    answer = stage.killed(job) if is_used else [stage.completed(job), e.JobKilled(("w0!a",), {}, timestamp=28.0)]
    with pytest.raises(PolicyError, match="the id w0!a.1 was used before"):
        stage.do(again, events=answer)


@pytest.mark.parametrize(
    ("profile", "requeue", "progress", "text"),
    [
        ("mixed", {"work": "rest"}, None, "requires work='all' without extra_s"),
        ("mixed", {"extra_s": 1.0}, None, "requires work='all' without extra_s"),
        ("ph", {"work": "rest"}, None, "no progress"),
        ("ph", {"extra_s": 1.0}, 0.0, "the speed of the job is not known yet"),
    ],
)
def test_jobs_that_cannot_be_requeued_are_rejected_with_a_reason(
    stage: Stage, profile: str, requeue: dict[Any, Any], progress: float | None, text: str
) -> None:
    job = stage.run("a", "0", profile=profile)
    with pytest.raises(PolicyError, match=text) as caught:
        stage.do(d.Requeue(job.id, **requeue), at=1.0)
        stage.step(*stage.killed(job, progress))
    assert (caught.value.rule, caught.value.job_id) == ("can be requeued", "w0!a")


def test_bad_requeues(stage: Stage) -> None:
    job = stage.run("a", "0")
    for decision, rule in (
        (d.Requeue(job.id, extra_s=-1.0), "finite numbers"),
        (d.Requeue(job.id, work="half"), "known work"),  # type: ignore[arg-type]
    ):
        with pytest.raises(PolicyError) as caught:
            stage.do(decision)
        assert caught.value.rule == rule
    with pytest.raises(PolicyError, match="being killed already"):
        stage.do(d.Requeue(job.id), d.Requeue(job.id))


def test_a_plain_kill_ends_the_job(stage: Stage) -> None:
    job = stage.run("a", "0-3")
    assert on_wire(stage.do(d.KillJob((job.id,)), at=2.0)) == [("kill", "w0!a")]
    stage.do(d.KillJob((job.id,)))  # Batsim accepts this, and replies once
    stage.step(*stage.killed(job))
    assert stage.puppet.received[-1] == ("killed", "w0!a", "killed")
    assert stage.engine.jobs.n_over[JobState.KILLED] == 1
    assert stage.engine.cluster.partitions["all"].n_kills_pending == 0


@pytest.mark.parametrize("profile", ["d10", "mixed"])
def test_a_kill_after_a_requeue_ends_the_job(stage: Stage, profile: str) -> None:
    job = stage.run("a", "0", profile=profile, walltime=99)
    stage.do(d.Requeue(job.id), d.KillJob((job.id,)), at=1.0)
    reply = stage.step(*stage.killed(job))
    spare = [("note", "w0!a.1", "unused_spare_of=w0!a"), ("reject", "w0!a.1")]
    assert on_wire(reply)[: len(spare)] == (spare if profile == "mixed" else [])
    assert stage.puppet.received[-1] == ("killed", "w0!a", "killed")
    assert not stage.engine.jobs.alive


def test_extra_seconds_of_a_resumed_job_are_work_at_its_own_speed(stage: Stage) -> None:
    """In 2 s it does 2e9 of 8e9; of the 6e9 that remain, half in 3 s. So one more second is 1e9."""
    job = stage.run("a", "0-1", profile="ph", walltime=99)
    stage.do(d.Requeue(job.id, work="rest"), at=2.0)
    stage.do(start(job, "0-1"), events=stage.killed(job, 0.25))
    assert job.profile is not None
    assert job.profile["cpu"] == 6e9
    stage.do(d.Requeue(job.id, work="all", extra_s=1.0), at=5.0)
    stage.step(*stage.killed(job, 0.5))
    assert job.profile["cpu"] == 9e9


def test_a_job_resumed_at_another_size_keeps_all_its_work(stage: Stage) -> None:
    job = stage.run("a", "0-1", walltime=15)
    stage.do(d.Requeue(job.id, work="rest"), at=4.0)
    stage.do(d.Replace(job.id, IntervalSet.parse("0-2"), n=3), events=stage.killed(job))
    assert (job.n_procs, job.profile) == (3, {"type": "delay", "delay": 6.0})
    stage.do(d.Requeue(job.id, work="all"), at=5.0)
    stage.step(*stage.killed(job))
    assert (job.n_procs, job.profile, job.walltime) == (3, {"type": "delay", "delay": 10}, 15)


def test_job_killed_may_arrive_before_job_completed(stage: Stage) -> None:
    job = stage.run("a", "0-3")
    stage.do(d.KillJob((job.id,)), at=2.0)
    completed, killed = stage.killed(job)
    stage.step(killed)
    assert (stage.puppet.received[-1], stage.free) == (("killed", "w0!a", "killed"), "0-3")
    stage.step(completed)
    assert stage.puppet.received[-1] == ("killed", "w0!a", "killed")


def test_replace_in_one_reply(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=11, estimate=10, at=3.0)
    reply = stage.do(d.Replace(job.id, IntervalSet.parse("0-3"), n=4, duration_s=5.5, reason="wider"), at=7.0)
    assert on_wire(reply) == [
        ("note", "w0!a", "replaced_by=dyn!w0.a.1;kind=replace"),
        ("reject", "w0!a"),
        ("profile", "dyn!w0.a.1", {"type": "delay", "delay": 5.5}),
        (
            "job",
            "dyn!w0.a.1",
            {"id": "dyn!w0.a.1", "subtime": 3.0, "res": 4, "profile": "w0.a.1", "walltime": 6.5, "estimate": 5.5},
        ),
        ("note", "dyn!w0.a.1", "parent=w0!a;segment=1;kind=replace"),
        ("start", "dyn!w0.a.1", "0-3"),
    ]
    assert (job.n_procs, job.state, job.expected_end_at) == (4, JobState.RUNNING, 12.5)
    stage.now = 12.5
    stage.step(stage.completed(job))
    assert stage.engine.jobs.n_over == {JobState.COMPLETED: 1, JobState.KILLED: 0, JobState.REJECTED: 0}


def test_a_replacement_always_has_a_walltime_beyond_its_work(stage: Stage) -> None:
    hopeless = stage.submit("a", n=1, walltime=4)  # a delay of 10: it would be killed
    stage.do(d.Replace(hopeless.id, IntervalSet.parse("0"), duration_s=2.0))
    assert hopeless.walltime == pytest.approx(2.0, abs=1e-5)
    assert (hopeless.walltime or 0) > 2.0
    parallel = stage.submit("b", n=1, profile="ph", walltime=9)
    stage.do(d.Replace(parallel.id, IntervalSet.parse("1"), duration_s=2.0))
    assert parallel.walltime == 3.0


def test_metadata_of_a_job_is_not_set_on_its_spare_job(stage: Stage) -> None:
    job = stage.run("a", "0", profile="mixed", walltime=99)
    stage.do(d.Requeue(job.id), at=1.0)
    assert on_wire(stage.do(d.SetJobMetadata(job.id, "mood=bad"))) == [("note", "w0!a", "mood=bad")]


def test_replace_by_the_same_is_a_plain_start() -> None:
    stage = Stage()  # works without dynamic jobs
    job = stage.submit("a", n=2)
    assert on_wire(stage.do(d.Replace(job.id, IntervalSet.parse("0-1"), n=2, duration_s=10.0))) == [
        ("start", "w0!a", "0-1")
    ]


@pytest.mark.parametrize(
    ("replace", "rule"),
    [
        ({"n": 3}, "right number"),
        ({"duration_s": 0.0}, "finite numbers"),
        ({"duration_s": float("inf")}, "finite numbers"),
        ({"n": 1}, "right number"),
    ],
)
def test_bad_replacements(stage: Stage, replace: dict[Any, Any], rule: str) -> None:
    job = stage.submit("a", n=2)
    with pytest.raises(PolicyError) as caught:
        stage.do(d.Replace(job.id, IntervalSet.parse("0-1"), **replace))
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    "change",
    [
        d.Replace("w0!a", IntervalSet.parse("0"), n=1),
        d.Replace("w0!a", IntervalSet.parse("0-1"), extra_s=1.0),
        d.Reshape("w0!a", 1, 1.0),
    ],
)
def test_a_change_of_a_job_needs_dynamic_jobs(change: d.Decision) -> None:
    stage = Stage()
    stage.submit("a", n=2)
    with pytest.raises(PolicyError, match="dynamic_jobs"):
        stage.do(change)


def test_metadata_of_a_derived_job_keeps_its_lineage(stage: Stage) -> None:
    job = stage.run("a", "0")
    stage.do(d.Requeue(job.id))
    reply = stage.do(d.SetJobMetadata(job.id, "mood=good"), events=stage.killed(job))
    assert on_wire(reply)[-1] == ("note", "dyn!w0.a.1", "parent=w0!a;segment=1;kind=requeue;mood=good")


def test_registration_is_finished_at_once_by_policies_that_never_register() -> None:
    assert kinds(Stage(Puppet, dynamic_jobs_enabled=True).first) == ["Notify"]
    assert kinds(Stage(Puppet).first) == []


def test_registration_finishes_when_all_jobs_are_submitted_and_done(stage: Stage) -> None:
    assert kinds(stage.first) == []
    job = stage.submit("a")
    assert on_wire(stage.step(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=0))) == []
    assert on_wire(stage.do(d.RejectJob(job.id))) == [("reject", "w0!a"), ("registration_finished",)]
    assert on_wire(stage.step()) == []


@pytest.mark.parametrize("workloads", [{}, {"w0": "empty.json"}])
def test_registration_is_finished_without_any_job(workloads: dict[Any, Any]) -> None:
    stage = Stage(DynamicPuppet, begin=False, dynamic_jobs_enabled=True)
    reply = stage.step(stage.begins(workloads=workloads))
    if workloads:
        assert on_wire(reply) == []
        reply = stage.step(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=0))
    assert on_wire(reply) == [("registration_finished",)]


def test_a_policy_registers_jobs_of_its_own(stage: Stage) -> None:
    profile = d.RegisterProfile("mine", "nap", {"type": "delay", "delay": 3})
    made = d.RegisterJob("mine!1", {"id": "mine!1", "subtime": 0.0, "res": 1, "profile": "nap"})
    reply = stage.do(profile, made, start("mine!1", "2"))
    assert kinds(reply) == ["RegisterProfile", "RegisterJob", "ExecuteJob"]
    assert stage.engine.cluster.jobs["mine!1"].state is JobState.RUNNING
    assert stage.free == "0-1 3"
    for decision, rule in (
        (made, "new job id"),
        (profile, "new profile"),
        (d.RegisterJob("mine!2", {"res": 1, "profile": "nap"}), "whole job"),
        (d.RegisterJob("mine!2", {"subtime": 0, "res": 0, "profile": "nap"}), "whole job"),
        (d.RegisterJob("mine!2", {"subtime": 0, "res": 1, "profile": "zzz"}), "profile known"),
        (d.RegisterJob("other!2", {"subtime": 0, "res": 1, "profile": "nap"}), "workload known"),
        (d.RegisterJob("bare", {"subtime": 0, "res": 1, "profile": "nap"}), "job id"),
        (d.RegisterProfile("mine", "x", {"type": "delay", "delay": float("inf")}), "finite numbers"),
        (d.RegisterProfile("mine", "x", {"type": "parallel", "cpu": [float("nan")]}), "finite numbers"),
        (d.RegisterProfile("mine", "x", {"type": "smpi"}), "whole profile"),
        (d.RegisterProfile("mine", "x", {}), "whole profile"),
        (d.RegisterProfile("mine", "x", {"type": "delay", "delay": 0}), "whole profile"),
        (d.RegisterProfile("mine", "x", {"type": "composed", "seq": ["nap"]}), "whole profile"),
        (d.RegisterJob("mine!2", {"subtime": 0, "res": 1, "profile": "nap", "walltime": -7}), "whole job"),
        (d.RegisterJob("mine!2", {"subtime": 0, "res": 1, "profile": "nap", "walltime": "x"}), "whole job"),
        (d.RegisterJob("mine!2", {"subtime": 0, "res": 1, "profile": "nap", "estimate": 0}), "whole job"),
        (d.RegisterJob("mine!2", {"subtime": 0, "res": 1, "profile": "nap", "estimate": -1}), "whole job"),
        (d.RegisterJob("mine!2", {"subtime": 0, "res": 1, "profile": "nap", "walltime": True}), "whole job"),
    ):
        with pytest.raises(PolicyError) as caught:
            stage.do(decision)
        assert caught.value.rule == rule, decision


@pytest.mark.parametrize("workload", ["w0", "dyn", "mine"])
def test_profiles_registered_by_the_policy_keep_only_their_names(stage: Stage, workload: str) -> None:
    profile = d.RegisterProfile(workload, "nap", {"type": "delay", "delay": 3})
    made = d.RegisterJob(f"{workload}!1", {"subtime": 0.0, "res": 1, "profile": "nap"})
    stage.do(profile, made, start(f"{workload}!1", "2"))
    stage.step(stage.completed(stage.engine.cluster.jobs[f"{workload}!1"]))
    assert "nap" not in stage.engine.cluster.profiles[workload]
    with pytest.raises(PolicyError, match=f"the profile name {workload}!nap was used before"):
        stage.do(profile)
    with pytest.raises(PolicyError, match="profile_reuse"):
        stage.do(d.RegisterJob(f"{workload}!2", {"subtime": 0.0, "res": 1, "profile": "nap"}))


def test_registering_late_first_continues_registration() -> None:
    stage = Stage(Puppet, dynamic_jobs_enabled=True)  # it said registration_finished in its first reply
    reply = stage.do(d.RegisterProfile("mine", "nap", {"type": "delay", "delay": 3}))
    assert on_wire(reply)[0] == ("continue_registration",)
    assert on_wire(reply)[-1] == ("registration_finished",)


@pytest.mark.parametrize("policy", [Ruthless, Gentle])
@pytest.mark.parametrize("acknowledged", [True, False])
@examples(60)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 12), st.integers(0, 5)), min_size=1, max_size=15
    )
)
def test_requeued_jobs_all_end_and_do_their_work(policy: type[Ruthless], acknowledged: bool, jobs: list[Any]) -> None:
    workload = Workload()
    at = 0
    for index, (gap, n, run, more) in enumerate(jobs):
        at += gap
        workload.job(f"{index:02}", n=n, s=run, at=at, walltime=run + more + 1)
    config = {"dynamic-jobs-enabled": True, "dynamic-jobs-acknowledged": acknowledged}
    run = run_policy(policy, workload, 4, config=config)
    assert not run.deadlocked
    for index, (_, _, work, _) in enumerate(jobs):
        segments = [
            job for job in run.jobs.values() if job.id == f"w0!{index:02}" or f"parent=w0!{index:02};" in job.metadata
        ]
        *killed, last = sorted(segments, key=lambda job: (job.started_at, len(job.id), job.id))
        assert all(job.final_state == e.COMPLETED_KILLED for job in killed)
        assert last.final_state == e.COMPLETED_SUCCESSFULLY
        if policy is Ruthless:
            took = (last.ended_at or 0.0) - (last.started_at or 0.0)
            assert took == pytest.approx(work + (0.5 if killed else 0.0))
        else:
            done = sum((job.ended_at or 0.0) - (job.started_at or 0.0) for job in segments)
            assert done == pytest.approx(work + 0.5 * len(killed), abs=1e-5 * len(segments))


def test_the_fake_batsim_detects_a_deadlock(stage: Stage) -> None:
    class Lazy(Puppet):
        pass

    run = run_policy(Lazy, Workload().job("a", n=1, s=1), 2)
    assert isinstance(run, FakeBatsim)
    assert run.deadlocked
