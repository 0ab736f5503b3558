"""A load before a job's work: `Replace` with `extra_s`, messages to Batsim, and a later `Requeue`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.pushy import Loader
from support.stage import DynamicPuppet, Stage, outcomes, registered, start

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.errors import PolicyError
from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.outcomes import joined
from pybatsched.testing import Workload, run_policy

DYNAMIC = {"dynamic-jobs-enabled": True}


@pytest.fixture
def stage() -> Stage:
    return Stage(DynamicPuppet, dynamic_jobs_enabled=True)


def replace(job: Job, procs: str, **how: Any) -> d.Replace:
    return d.Replace(job.id, IntervalSet.parse(procs), **how)


def test_a_load_in_one_reply(stage: Stage) -> None:
    job = stage.submit("a", n=2, walltime=15, estimate=12, at=3.0, user="pat")
    reply = stage.do(replace(job, "1-2", extra_s=30.5, reason="loads its file"), at=7.0)
    assert [type(x).__name__ for x in reply.decisions] == [
        "SetJobMetadata", "RejectJob", "RegisterProfile", "RegisterJob", "SetJobMetadata", "ExecuteJob",
    ]  # fmt: skip
    assert reply.decisions[0].metadata == "replaced_by=dyn!w0.a.1;kind=replace"  # type: ignore[attr-defined]
    profile, fields, note = registered(reply)
    assert profile == {"type": "delay", "delay": 40.5}
    assert fields == {
        "id": "dyn!w0.a.1", "subtime": 3.0, "res": 2, "profile": "w0.a.1", "walltime": 45.5, "estimate": 42.5,
        "user": "pat",
    }  # fmt: skip
    assert note == "parent=w0!a;segment=1;kind=replace;extra_s=30.5"
    assert (job.load_s, job.walltime, job.estimate, job.expected_end_at) == (30.5, 45.5, 42.5, 49.5)
    assert "started at 7.0 on 1-2, with 30.5 s before its work (loads its file)" in job.history()


def test_a_load_within_the_walltime_keeps_walltime_and_estimate(stage: Stage) -> None:
    job = stage.submit("a", n=1, walltime=15, estimate=12)
    profile, fields, note = registered(stage.do(replace(job, "0", extra_s=30.5, within_walltime=True)))
    assert (profile["delay"], fields["walltime"], fields["estimate"]) == (40.5, 15, 12)
    assert note.endswith(";extra_s=30.5")
    assert (job.walltime, job.estimate, job.expected_end_at) == (15, 12, 12.0)


@pytest.mark.parametrize(
    ("profile", "how", "delay", "walltime"),
    [
        ("d10", {"extra_s": 2}, 12, 52.0),
        ("delays", {"extra_s": 2.5}, 42.5, 52.5),
        ("ph", {"extra_s": 2.5, "duration_s": 5.0}, 7.5, 8.5),  # the work is not a known time: a second more
        ("d10", {"extra_s": 2.5, "duration_s": 5.0}, 7.5, 47.5),  # 40 s more than its work, as before
        ("d10", {"extra_s": 2.5, "duration_s": 10.0}, 12.5, 52.5),
        ("d10", {"extra_s": 2.5, "duration_s": 5.0, "within_walltime": True}, 7.5, 50.0),
        ("d10", {"duration_s": 5.0, "within_walltime": True}, 5.0, 50.0),
        ("d10", {"spent_s": 12.5}, 10, 37.5),
        ("delays", {"spent_s": 60.0}, 40, 1e-6),  # its walltime is over
        ("d10", {"extra_s": 2.5, "spent_s": 12.5}, 12.5, 40.0),
    ],
)
def test_profile_and_fields_of_a_registered_job_with_a_load(
    stage: Stage, profile: str, how: dict[str, Any], delay: float, walltime: float
) -> None:
    job = stage.submit("a", n=1, profile=profile, walltime=50.0)
    made, fields, _ = registered(stage.do(replace(job, "0", **how)))
    assert (made, fields["walltime"]) == ({"type": "delay", "delay": delay}, walltime)
    assert (job.walltime, job.estimate) == (walltime, walltime if "duration_s" not in how or profile != "ph" else 7.5)


def test_a_load_keeps_the_return_code_of_a_failing_job() -> None:
    stage = Stage(DynamicPuppet, begin=False, dynamic_jobs_enabled=True)
    stage.step(stage.begins(profiles={"w0": {"bad": {"type": "delay", "delay": 4, "ret": 3}}}))
    job = stage.submit("a", profile="bad")
    assert registered(stage.do(replace(job, "0", extra_s=1)))[0] == {"type": "delay", "delay": 5, "ret": 3}


def test_a_load_adds_no_walltime_to_a_job_without_one(stage: Stage) -> None:
    job = stage.submit("a")
    _, fields, _ = registered(stage.do(replace(job, "0", extra_s=1)))
    assert ("walltime" in fields, job.walltime, job.estimate) == (False, None, None)


def test_a_job_without_walltime_is_replaced_after_a_load_too(stage: Stage) -> None:
    """Its rows are then in order: the load is segment 0."""
    job = stage.submit("a")
    profile, fields, note = registered(stage.do(replace(job, "0", spent_s=3.0)))
    assert (profile["delay"], "walltime" in fields, note) == (10, False, "parent=w0!a;segment=1;kind=replace")


def test_a_requeued_job_has_its_whole_walltime_again(stage: Stage) -> None:
    job = stage.submit("a", walltime=50.0)
    stage.do(replace(job, "0", spent_s=12.5))
    assert (job.walltime, job.whole.at(job.scale).walltime) == (37.5, 50.0)


@pytest.mark.parametrize("how", [{}, {"within_walltime": True}, {"n": 1, "duration_s": 10, "within_walltime": True}])
def test_no_load_and_nothing_else_is_a_plain_start(how: dict[str, Any]) -> None:
    stage = Stage()  # works without dynamic jobs
    job = stage.submit("a", walltime=4)  # less than its work: it stays so
    (only,) = stage.do(replace(job, "0", extra_s=0.0, **how)).decisions
    assert isinstance(only, d.ExecuteJob)
    assert (only.job_id, job.load_s) == ("w0!a", 0.0)


@pytest.mark.parametrize("profile", ["ph", "mixed", "arrays", "total"])
def test_only_delays_can_have_a_load(stage: Stage, profile: str) -> None:
    n = 2 if profile == "arrays" else 1
    job = stage.submit("a", n=n, profile=profile, walltime=99)
    with pytest.raises(PolicyError, match="expected a profile of delays|expected a duration_s") as caught:
        stage.do(replace(job, f"0-{n - 1}", extra_s=1.0))
    assert (caught.value.rule, caught.value.job_id) == ("can be replaced", "w0!a")


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ({"extra_s": -1.0}, "finite numbers"),
        ({"extra_s": float("nan")}, "finite numbers"),
        ({"extra_s": float("inf")}, "finite numbers"),
        ({"extra_s": "3"}, "well-formed"),
        ({"spent_s": -1.0}, "finite numbers"),
        ({"spent_s": float("inf")}, "finite numbers"),
        ({"extra_s": None}, "well-formed"),
        ({"within_walltime": 1}, "well-formed"),
    ],
)
def test_invalid_loads_are_rejected(stage: Stage, how: dict[str, Any], rule: str) -> None:
    job = stage.submit("a")
    with pytest.raises(PolicyError) as caught:
        stage.do(replace(job, "0", **how))
    assert caught.value.rule == rule


# --- requeue ------------------------------------------------------------------------------------------------------

REQUEUES = [
    # requeue, killed at, then: work, walltime, estimate. Work 10, walltime 15, estimate 12, load 30.
    ({"work": "all"}, 4.0, 10.0, 15.0, 12.0),
    ({"work": "all"}, 36.0, 10.0, 15.0, 12.0),
    ({"work": "all", "extra_s": 2.0}, 36.0, 12.0, 17.0, 14.0),
    ({"work": "rest"}, 4.0, 10.0, 15.0, 12.0),  # within the load: all of its own work
    ({"work": "rest"}, 30.0, 10.0, 15.0, 12.0),
    ({"work": "rest"}, 36.0, 4.0, 9.0, 6.0),
    ({"work": "rest", "extra_s": 2.0}, 36.0, 6.0, 11.0, 8.0),
    ({"work": "rest", "extra_s": 2.0}, 4.0, 12.0, 17.0, 14.0),
    ({"work": "rest"}, 42.5, 1e-6, 2.5, 2.5),  # past its estimate: only the walltime is known
]


@pytest.mark.parametrize("within_walltime", [True, False])
@pytest.mark.parametrize(("requeue", "at", "work", "walltime", "estimate"), REQUEUES)
def test_a_requeue_does_not_count_the_load_as_work(
    stage: Stage,
    within_walltime: bool,
    requeue: dict[str, Any],
    at: float,
    work: float,
    walltime: float,
    estimate: float,
) -> None:
    job = stage.submit("a", n=1, walltime=15.0, estimate=12.0)
    stage.do(replace(job, "0", extra_s=30.0, within_walltime=within_walltime))
    stage.do(d.Requeue(job.id, **requeue), at=at)
    profile, fields, note = registered(stage.step(*stage.killed(job)))
    assert (profile["delay"], fields["walltime"], fields["estimate"]) == (work, walltime, estimate)
    assert (job.load_s, job.walltime, job.estimate) == (0.0, walltime, estimate)
    rest = ";work=rest" if requeue["work"] == "rest" else ""
    assert note == f"parent=w0!a;segment=2;kind=requeue{rest}" + (";extra_s=2" if "extra_s" in requeue else "")


def test_a_new_duration_is_kept_after_a_requeue(stage: Stage) -> None:
    job = stage.submit("a", n=1, walltime=15.0)
    stage.do(replace(job, "0-1", n=2, duration_s=6.0, extra_s=30.0))
    assert (job.profile, job.walltime) == ({"type": "delay", "delay": 36.0}, 41.0)
    stage.do(d.Requeue(job.id), at=33.0)
    assert registered(stage.step(*stage.killed(job)))[0] == {"type": "delay", "delay": 6.0}
    assert (job.n_procs, job.walltime) == (2, 11.0)


def test_loaded_again_after_a_requeue(stage: Stage) -> None:
    job = stage.run("a", "0", walltime=15.0)
    stage.do(d.Requeue(job.id, work="rest", extra_s=1.0, by="w0!u"), at=4.0)
    stage.step(*stage.killed(job))
    reply = stage.do(replace(job, "1", extra_s=5.0), at=6.0)
    gone, note = (x.metadata for x in reply.decisions if isinstance(x, d.SetJobMetadata))
    assert gone == (
        "parent=w0!a;segment=1;kind=requeue;work=rest;by=w0!u;extra_s=1;replaced_by=dyn!w0.a.2;kind=replace"
    )
    assert note == "parent=w0!a;segment=2;kind=replace;work=rest;by=w0!u;extra_s=6"
    assert (job.profile, job.walltime) == ({"type": "delay", "delay": 12.0}, 17.0)
    stage.do(d.Requeue(job.id, work="rest"), at=13.0)  # 2 s beyond the load
    assert registered(stage.do(start(job, "2"), events=stage.killed(job)))[0] == {"type": "delay", "delay": 5.0}
    stage.do(d.Requeue(job.id, work="all"), at=14.0)
    stage.step(*stage.killed(job))
    assert (job.profile, job.walltime) == ({"type": "delay", "delay": 10}, 15.0), "the whole job, as ever"


@pytest.mark.parametrize("first", [True, False])
def test_metadata_of_the_policy_is_set_on_the_replacing_job(stage: Stage, first: bool) -> None:
    job = stage.submit("a")
    metadata, done = d.SetJobMetadata(job.id, "load_s=30;reused=0"), replace(job, "0", extra_s=30)
    reply = stage.do(*((metadata, done) if first else (done, metadata)))
    notes = {x.job_id: x.metadata for x in reply.decisions if isinstance(x, d.SetJobMetadata)}  # the last one counts
    assert notes == {
        "w0!a": "replaced_by=dyn!w0.a.1;kind=replace",
        "dyn!w0.a.1": "parent=w0!a;segment=1;kind=replace;extra_s=30;load_s=30;reused=0",
    }


def test_earlier_metadata_moves_to_the_replacement_but_not_to_a_requeue(stage: Stage) -> None:
    job = stage.submit("a")
    stage.do(d.SetJobMetadata(job.id, "mood=1"))
    assert registered(stage.do(replace(job, "0", extra_s=3), at=5.0))[2].endswith(";extra_s=3;mood=1")
    stage.do(d.Requeue(job.id), at=6.0)
    assert registered(stage.step(*stage.killed(job)))[2] == "parent=w0!a;segment=2;kind=requeue"


@pytest.mark.parametrize(
    ("options", "state", "runtime_s", "wait_s", "ended_at"),
    [
        ({"load_s": 30.0}, e.COMPLETED_SUCCESSFULLY, 10.0, 30.0, 42.0),
        ({"load_s": 3.0, "within": True}, e.COMPLETED_SUCCESSFULLY, 10.0, 3.0, 15.0),
        ({"load_s": 8.0, "within": True}, e.COMPLETED_WALLTIME_REACHED, 7.0, 8.0, 17.0),
        ({"load_s": 30.0, "within": True}, e.COMPLETED_WALLTIME_REACHED, 0.0, 15.0, 17.0),  # killed in its load
        ({"load_s": 0.0}, e.COMPLETED_SUCCESSFULLY, 10.0, 0.0, 12.0),
    ],
)
def test_the_time_of_a_load_counts_as_wait(
    options: dict[str, Any], state: str, runtime_s: float, wait_s: float, ended_at: float
) -> None:
    jobs = Workload().job("a", n=1, s=10, at=2, walltime=15)
    found = JobResults.of_outcomes(outcomes(run_policy(Loader, jobs, 2, config=DYNAMIC, **options)))
    (record,) = found.frame.iter_rows(named=True)
    assert (record["id"], record["state"], record["ended_at"]) == ("w0!a", state, ended_at)
    assert (record["runtime_s"], record["wait_s"], record["queue_time_s"]) == (runtime_s, wait_s, 0.0)


@examples(60)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(1, 12), st.integers(0, 5)), min_size=1, max_size=12
    ),
    load_s=st.sampled_from([0.0, 0.25, 1.0, 7.5, 40.0]),
    within=st.booleans(),
    requeued=st.sampled_from(["", "all", "rest"]),
)
def test_every_job_does_its_work_after_its_loads(jobs: list[Any], load_s: float, within: bool, requeued: str) -> None:
    workload = Workload()
    at = 0
    for index, (gap, n, run, more) in enumerate(jobs):
        at += gap
        workload.job(f"{index:02}", n=n, s=run, at=at, walltime=run + more + 1)
    run = run_policy(Loader, workload, 4, config=DYNAMIC, load_s=load_s, within=within, requeued=requeued)
    assert not run.deadlocked
    rows = joined(outcomes(run))
    records = {record.id: record for record in rows}
    waits = dict(JobResults.of(rows).frame.select("id", "wait_s").iter_rows())
    assert set(records) == {f"w0!{index:02}" for index in range(len(jobs))}
    for index, (_, _, work, more) in enumerate(jobs):
        record = records[f"w0!{index:02}"]
        if record.state == e.COMPLETED_SUCCESSFULLY:
            assert record.runtime_s == pytest.approx(work, abs=1e-5 * len(record.segments))
        else:
            assert (record.state, within) == (e.COMPLETED_WALLTIME_REACHED, True)
            assert load_s + work >= work + more + 1 - 1e-4
            assert 0 <= record.runtime_s < work + 1e-4
        assert waits[record.id] >= load_s - 1e-5 or record.state == e.COMPLETED_WALLTIME_REACHED
