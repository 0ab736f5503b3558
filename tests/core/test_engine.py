"""The engine, step by step: events passed to the policy, accepted decisions and errors."""

from __future__ import annotations

from typing import Any

import pytest
from support.stage import DynamicPuppet, Puppet, Stage, kinds, refused, start

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import JobState
from pybatsched.core.policy import BatsimFeature
from pybatsched.errors import InputError, RemoteProtocolError

# --- events -----------------------------------------------------------------------------------------------------


def test_free_processors_follow_the_states_of_a_job() -> None:
    stage = Stage()
    job = stage.submit("a", n=2)
    reply = stage.do(start(job, "1-2", reason="why not"))
    assert reply == (0.0, (d.ExecuteJob("w0!a", IntervalSet.parse("1-2"), timestamp=0.0, reason="why not"),))
    assert (stage.free, job.state, job.started_at, str(job.procs)) == ("0 3", JobState.RUNNING, 0.0, "1-2")
    stage.now = 10.0
    stage.step(stage.completed(job))
    assert stage.free == "0-3"
    assert stage.puppet.received == [("submitted", "w0!a"), ("ended", "w0!a", "COMPLETED_SUCCESSFULLY")]
    assert (job.ended_at, job.state) == (10.0, JobState.COMPLETED)
    assert stage.engine.jobs.n_over[JobState.COMPLETED] == 1


def test_ends_come_before_machines_before_submissions_before_calls() -> None:
    stage = Stage()
    a, b = stage.run("a", "0"), stage.run("b", "1")
    stage.puppet.received.clear()
    new = {"id": "w0!c", "subtime": 5, "res": 1, "profile": "d10"}
    stage.now = 5.0
    stage.do(d.KillJob((b.id,)))
    stage.step(
        e.RequestedCall(timestamp=5.0),
        e.JobSubmitted("w0!c", new, timestamp=4.0),
        e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet([3]), timestamp=5.0),
        stage.completed(a),
        *stage.killed(b),
    )
    assert [news[0] for news in stage.puppet.received] == ["ended", "killed", "machines", "submitted", "call"]


def test_no_more_jobs_is_reported_after_the_last_jobs() -> None:
    stage = Stage()
    job = {"id": "w0!a", "subtime": 0, "res": 1, "profile": "d10"}
    stage.step(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=0), e.JobSubmitted("w0!a", job, timestamp=0))
    assert [news[0] for news in stage.puppet.received] == ["submitted", "notify"]


def test_a_job_reported_late_keeps_its_submission_time() -> None:
    stage = Stage()
    job = {"id": "w0!a", "subtime": 3, "res": 1, "profile": "d10"}
    stage.step(e.JobSubmitted("w0!a", job, timestamp=3.0), at=10.0)
    assert stage.puppet.jobs["w0!a"].submitted_at == 3.0


def test_reasons_of_any_kind_can_be_shown() -> None:
    for reason, text in ((None, ""), (7, "7"), ((), ""), (("{} {}", 1), "{} {} 1"), (("{}", 1), "1"), ("x", "x")):
        assert d.reason_text(reason) == text  # type: ignore[arg-type]


def test_other_events_are_passed_to_the_policy() -> None:
    stage = Stage()
    stage.step(
        e.Answer(5.0, timestamp=0),
        e.Query({}, timestamp=0),
        e.FromJobMsg("w0!a", "hi", timestamp=0),
        e.UnknownEvent("SNOW", {}, timestamp=0),
        e.Notify("my own", timestamp=0),
    )
    assert sorted(stage.puppet.received) == [
        ("answer", 5.0),
        ("message", "hi"),
        ("notify", "my own"),
        ("query",),
        ("unknown",),
    ]
    assert stage.step(e.SimulationEnds(timestamp=0)) == (0.0, ())
    assert stage.puppet.received[-1] == ("end",)


def test_machines_go_and_come_back_while_a_job_runs_on() -> None:
    stage = Stage()
    job = stage.run("a", "0-1")
    gone = e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet([1, 2]), timestamp=0)
    stage.step(gone)
    assert (stage.free, job.state) == ("3", JobState.RUNNING)
    stage.step(stage.completed(job))
    assert stage.free == "0 3"
    stage.step(e.Notify(e.MACHINES_AVAILABLE, IntervalSet([1, 2]), timestamp=0))
    assert stage.free == "0-3"
    second = stage.run("b", "2-3")
    stage.step(gone)
    stage.step(e.Notify(e.MACHINES_AVAILABLE, IntervalSet([1, 2]), timestamp=0))
    assert stage.free == "0-1"
    stage.step(stage.completed(second))
    assert stage.free == "0-3"


def test_sleeping_processors_are_away_until_they_have_woken() -> None:
    stage = Stage()
    stage.do(d.SetResourceState(IntervalSet.parse("2-3"), "2"))
    assert stage.free == "0-1"
    assert refused(stage, d.SetResourceState(IntervalSet.parse("3"), "2")).rule == "pstate"
    stage.step(e.ResourceStateChanged(IntervalSet.parse("2-3"), "2", timestamp=0))
    assert stage.free == "0-1"
    stage.do(d.SetResourceState(IntervalSet.parse("2-3"), "0"))
    assert stage.free == "0-1"
    stage.step(e.ResourceStateChanged(IntervalSet.parse("2-3"), "0", timestamp=0))
    assert stage.free == "0-3"
    stage.do(d.SetResourceState(IntervalSet.parse("0"), "1"))
    assert stage.free == "0-3", "a slower pstate still computes"


def test_shared_processors_are_free_when_the_last_job_leaves() -> None:
    stage = Stage(sharing=True)
    a, b = stage.run("a", "0-1"), stage.run("b", "1-2")
    assert stage.free == "3"
    stage.step(stage.completed(a))
    assert stage.free == "0 3"
    stage.step(stage.completed(b))
    assert stage.free == "0-3"


def test_a_job_larger_than_the_platform_is_rejected_with_the_reason() -> None:
    stage = Stage()
    job = {"id": "w0!big", "subtime": 0, "res": 5, "profile": "d10"}
    reply = stage.step(e.JobSubmitted("w0!big", job, timestamp=0))
    assert [d.reason_text(item.reason) for item in reply.decisions] == ["asks for 5 processors; the platform has 4"]
    assert kinds(reply) == ["RejectJob"]
    assert stage.puppet.received == []


# --- what a peer must not do --------------------------------------------------------------------------------------


def test_peer_errors() -> None:
    with pytest.raises(RemoteProtocolError, match="SIMULATION_BEGINS first, found JobSubmitted"):
        Stage(begin=False).step(e.JobSubmitted("a", {}, timestamp=0))
    with pytest.raises(RemoteProtocolError, match="SIMULATION_BEGINS first, found nothing"):
        Stage(begin=False).step()
    stage = Stage()
    cases: list[tuple[str, str, tuple[e.Event, ...]]] = [
        ("second SIMULATION_BEGINS", "events[0].data", (stage.begins(),)),
        ("unknown job w0!x", "events[0].data.job_id", (e.JobCompleted("w0!x", timestamp=0),)),
        ("a number of processors", "events[1].data.job.res", (e.RequestedCall(timestamp=0), submitted(res=None))),
        ("a number of processors", "events[0].data.job.res", (submitted(res=-1),)),
        ("a number of processors", "events[0].data.job.res", (submitted(res=True),)),
        ("number of seconds", "events[0].data.job.walltime", (submitted(walltime="x"),)),
        ("has no description", "events[0].data.job", (e.JobSubmitted("w0!a", timestamp=0),)),
        ("the event is at 5", "events[0].timestamp", (e.RequestedCall(timestamp=5.0),)),
        (
            "event_machine_available has no resources",
            "events[0].data.resources",
            (e.Notify(e.MACHINES_AVAILABLE, timestamp=0),),
        ),
        (
            "event_machine_available: unknown resources 9",
            "events[0].data.resources",
            (e.Notify(e.MACHINES_AVAILABLE, IntervalSet([9]), timestamp=0),),
        ),
    ]
    for text, field, events in cases:
        with pytest.raises(RemoteProtocolError, match=text) as caught:
            Stage().step(*events)
        assert caught.value.field == field


def submitted(**fields: Any) -> e.JobSubmitted:
    return e.JobSubmitted("w0!a", {"id": "w0!a", "subtime": 0, "res": 1, "profile": "d10"} | fields, timestamp=0)


def test_peer_errors_about_jobs() -> None:
    stage = Stage()
    job = stage.submit("a")
    with pytest.raises(RemoteProtocolError, match="was submitted before; expected a new id"):
        stage.submit("a")
    with pytest.raises(RemoteProtocolError, match="was not started"):
        stage.step(stage.completed(job))
    stage.do(start(job, "0"))
    stage.step(stage.completed(job), at=5.0)
    with pytest.raises(RemoteProtocolError, match="has ended already"):
        stage.step(stage.completed(job))
    with pytest.raises(RemoteProtocolError, match="time goes back: found 4.0, expected at least 5.0"):
        stage.step(at=4.0)
    stage.step(at=5.0 - 1e-6)
    assert stage.engine.now == 5.0
    stage.step(e.SimulationEnds(timestamp=5.0), at=5.0)
    with pytest.raises(RemoteProtocolError, match="after SIMULATION_ENDS"):
        stage.step()


def test_a_users_bad_field_is_the_users_error() -> None:
    for value in ("soon", 0, -5, [1]):
        with pytest.raises(InputError, match="job w0!a, field estimate"):
            Stage().step(submitted(estimate=value))


def test_platform_fields_missing_from_older_peers_are_derived() -> None:
    stage = Stage(begin=False)
    stage.step(
        stage.begins(
            n_compute=None, n_storage=None, n_resources=3, compute_resources=None, storage_resources=None, profiles=None
        )
    )
    assert stage.free == "0-2"
    with pytest.raises(RemoteProtocolError, match="the number of processors is missing"):
        broken = Stage(begin=False)
        broken.step(broken.begins(n_compute=None, n_resources=None, compute_resources=None))
    with pytest.raises(RemoteProtocolError, match="4 resources are described; expected 7"):
        broken = Stage(begin=False)
        broken.step(broken.begins(n_compute=7))


def test_needs_are_checked_at_the_start_and_name_the_option() -> None:
    with pytest.raises(InputError, match="puppet needs Batsim to be started with --enable-dynamic-jobs"):
        Stage(DynamicPuppet)
    with pytest.raises(InputError, match="--enable-redis"):
        Stage(redis_enabled=True)

    class WantsProfiles(Puppet):
        needs = frozenset({BatsimFeature.FORWARDED_PROFILES})

    with pytest.raises(InputError, match="--forward-profiles-on-submission"):
        Stage(WantsProfiles)
