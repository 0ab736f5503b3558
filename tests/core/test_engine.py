"""The engine, step by step: events passed to the policy, accepted decisions and errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support.places import PUSHY
from support.stage import DynamicPuppet, Puppet, Stage, kinds, refused, start

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import JobState
from pybatsched.core.policy import BatsimFeature
from pybatsched.core.policy_calls import IdleCalls
from pybatsched.errors import InputError, PolicyError, RemoteProtocolError
from pybatsched.policies import registry
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.session.replay import replay
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload


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
        ("event_machine_available has no resources", "events[0].data.resources",
         (e.Notify(e.MACHINES_AVAILABLE, timestamp=0),)),
        ("event_machine_available: unknown resources 9", "events[0].data.resources",
         (e.Notify(e.MACHINES_AVAILABLE, IntervalSet([9]), timestamp=0),)),
    ]  # fmt: skip
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


MANY = 3_000


def called(stage: Stage, *decisions: d.Decision, events: Iterable[e.Event] = (), after_s: float = TICK) -> None:
    """Call the policy a tick later, or after some seconds; it requests the next call, and does what the test says."""
    at = round(stage.now + after_s, 6)
    stage.do(*decisions, d.CallMeLater(at + after_s), events=[e.RequestedCall(timestamp=at), *events], at=at)


def test_a_thousand_calls_within_a_few_ticks_of_each_other_are_enough() -> None:
    stage = Stage()
    assert IdleCalls.MAX_AT_ONCE == 1_000
    for _ in range(1_000):
        called(stage)
    with pytest.raises(PolicyError) as caught:
        called(stage)
    assert (caught.value.exit_code, caught.value.rule) == (6, "endless calls")
    assert str(caught.value) == (
        "policy puppet broke the rule 'endless calls': requested 1,001 calls in a row within 15 microseconds "
        "of each other, the last at 0.001001, and nothing else happened"
    )


@pytest.mark.parametrize(
    ("steps", "n"),
    [
        ([3600.0], 365 * 24),  # hourly for a year
        *(([after_s], MANY) for after_s in (16 * TICK, 1e-4, 1e-3)),  # every 100 microseconds, say
        ([TICK, 16 * TICK], MANY),  # in pairs: simulated time passes between them
    ],
)
def test_calls_between_which_time_passes_are_fine(steps: list[float], n: int) -> None:
    stage = Stage()
    for _ in range(n):
        for after_s in steps:
            called(stage, after_s=after_s)
    assert stage.now == pytest.approx(n * sum(steps))


def test_calls_while_nothing_else_can_happen_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 50,000, and one for each hour."""
    assert IdleCalls.MAX_AT_REST == 50_000
    monkeypatch.setattr(IdleCalls, "MAX_AT_REST", 100)
    stage = Stage()
    stage.submit("a")
    stage.step(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=0.0))
    for _ in range(MANY):
        called(stage, after_s=3600.0)
    stage.step(e.Notify("my own", timestamp=stage.now))
    for _ in range(100):
        called(stage, after_s=1.0)
    with pytest.raises(PolicyError, match=r"'endless calls': requested 101 calls in a row, from \d+.0 to \d+.0, and"):
        called(stage, after_s=1.0)


def _runs(stage: Stage) -> None:
    stage.run("b", "0")


def _is_held(stage: Stage) -> None:
    stage.do(d.StartAt(stage.submit("b").id, IntervalSet([0]), 1e6))


def _is_down(stage: Stage) -> None:
    stage.step(e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet([3]), timestamp=0.0))


def _comes(stage: Stage) -> None:
    pass


@pytest.mark.parametrize("prepare", [_runs, _is_held, _is_down, _comes])
def test_more_calls_are_fine_while_something_can_happen(
    prepare: Callable[[Stage], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IdleCalls, "MAX_AT_REST", 100)
    stage = Stage()
    prepare(stage)
    if prepare is not _comes:
        stage.step(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=0.0))
    for _ in range(1_000):
        called(stage, after_s=1.0)
    assert stage.now == 1_000


def test_no_policy_can_request_calls_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert IdleCalls.MAX == 1_000_000  # hourly calls of a century
    monkeypatch.setattr(IdleCalls, "MAX", 1_500)
    stage = Stage()
    for _ in range(1_500):
        called(stage, after_s=1.0)
    with pytest.raises(PolicyError) as caught:
        called(stage, after_s=1.0)
    assert (caught.value.exit_code, caught.value.rule) == (6, "endless calls")
    assert str(caught.value) == (
        "policy puppet broke the rule 'endless calls': "
        "requested 1,501 calls in a row, from 1.0 to 1501.0, and nothing else happened"
    )


@pytest.mark.parametrize(
    "decision",
    [d.CallMeLater(7.0), d.Reshape("w0!a", 2, 1.0), d.SetJobMetadata("w0!a", "x"), d.KillJob(("w0!running",))],
)
def test_no_policy_can_make_decisions_for_ever_in_one_message(
    decision: d.Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Engine.MAX_DECISIONS == 1_000_000
    monkeypatch.setattr(Engine, "MAX_DECISIONS", 1_500)
    stage = Stage(DynamicPuppet, dynamic_jobs_enabled=True)
    stage.submit("a", 2)
    stage.run("running", "0")
    stage.puppet.next = lambda _now: itertools.repeat(decision, 1_500 + 4 * 2)
    stage.step(at=1.0)
    stage.puppet.next = lambda _now: itertools.repeat(decision)
    with pytest.raises(PolicyError) as caught:
        stage.step(at=2.0)
    assert (caught.value.exit_code, caught.value.rule) == (6, "endless decisions")
    assert str(caught.value) == (
        "policy puppet broke the rule 'endless decisions': decide made more decisions for one message than 1,500 plus "
        f"four for each unfinished job, the last a {type(decision).__name__}; check that its loop ends"
    )


def test_all_jobs_can_be_started_or_rejected_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "MAX_DECISIONS", 0)
    stage = Stage()
    jobs = [stage.submit(f"j{k}") for k in range(4)]
    stage.do(*(d.RejectJob(job.id) for job in jobs[2:]), *(d.ExecuteJob(jobs[k].id, IntervalSet([k])) for k in (0, 1)))
    assert [job.state for job in jobs] == [JobState.RUNNING] * 2 + [JobState.REJECTED] * 2


def test_calls_with_an_empty_reply_count() -> None:
    stage = Stage()
    ticks = [round(nth * TICK, 6) for nth in range(1, 1_002)]
    stage.do(*(d.CallMeLater(at) for at in ticks))
    for at in ticks[:-1]:
        stage.step(e.RequestedCall(timestamp=at), at=at)
    with pytest.raises(
        PolicyError, match=r"1,001 calls in a row within 15 microseconds of each other, the last at 0.001001, and"
    ):
        stage.step(e.RequestedCall(timestamp=ticks[-1]), at=ticks[-1])


def test_several_calls_in_one_message_count_once() -> None:
    stage = Stage()
    for _ in range(1_000):
        called(stage, events=[e.RequestedCall(timestamp=stage.now)] * 5)


def test_calls_that_start_a_job_each_are_fine() -> None:
    stage = Stage()
    waiting = [stage.submit(f"a{i}") for i in range(1_500)]  # each step checks all of them
    running = None
    for job in waiting:
        if running is not None:
            stage.step(stage.completed(running))
        called(stage, start(job, "0"))
        running = job


def test_calls_that_hold_or_release_a_job_are_fine() -> None:
    """Although Batsim only gets one more request for a call."""
    stage = Stage()
    job = stage.submit("a")
    for i in range(MANY):
        if i % 1_001 == 1_000:
            called(
                stage, d.StartAt(job.id, IntervalSet([0]), 1e6) if job.state is JobState.WAITING else d.Release(job.id)
            )
        else:
            called(stage)


def test_calls_at_which_a_held_job_starts_are_fine() -> None:
    stage = Stage()
    job = stage.submit("a")
    stage.do(d.StartAt(job.id, IntervalSet([0]), 0.001))
    for _ in range(2_000):
        called(stage)
    assert job.started_at == 0.001


def test_calls_that_decide_anything_are_fine() -> None:
    stage = Stage()
    job = stage.run("a", "0")
    for i in range(MANY):
        called(stage, *[d.SetJobMetadata(job.id, str(i))] * (i % 1_001 == 1_000))


def test_calls_between_other_events_are_fine() -> None:
    """Whether the other event has a message of its own or comes together with a call."""
    stage = Stage()
    for i in range(MANY):
        called(stage)
        if i % 1_000 == 999:
            stage.step(e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet([3]), timestamp=stage.now))
    stage = Stage()
    for i in range(MANY):
        called(stage, events=[e.Notify("my own", timestamp=stage.now)] * (i % 1_001 == 1_000))


@pytest.mark.parametrize(
    ("late_s", "kinds", "at"),
    [
        (0.0, ["ExecuteJob", "CallMeLater", "CallMeLater"], [2.1, 3.0]),
        (1e-4, ["ExecuteJob", "CallMeLater", "CallMeLater"], [2.1, 3.0]),
        (0.05, ["CallMeLater", "CallMeLater", "ExecuteJob"], [2.7, 3.4]),
    ],
)
def test_no_call_is_late_where_messages_have_a_latency(late_s: float, kinds: list[str], at: list[float]) -> None:
    """The latency of the submissions is that of decisions, too, of which each waits for those before it."""
    stage = Stage()
    stage.submit("a", at=5e-4 + late_s, subtime=5e-4)
    job = stage.submit("b", at=2.0, subtime=1.0)
    reply = stage.do(start(job, "0"), d.CallMeLater(2.1), d.CallMeLater(3.0))
    assert [type(one).__name__ for one in reply.decisions] == kinds
    assert [one.at for one in reply.decisions if isinstance(one, d.CallMeLater)] == at


def test_no_call_is_late_behind_a_decision_with_a_later_stamp() -> None:
    stage = Stage()
    stage.puppet.until = 9.0
    call = stage.do(start(stage.submit("a"), "0", timestamp=9.0), d.CallMeLater(5.0)).decisions[-1]
    assert isinstance(call, d.CallMeLater)
    assert call.at == 9.0 + TICK


def test_a_replay_reports_the_same_as_the_run(tmp_path: Path) -> None:
    policy = f"{PUSHY}:Ticking"
    plan = registry.PolicyPlan(registry.find(policy, trusted=True))
    session = Session(plan, journal=JournalWriter(tmp_path / "run.pbj"))
    with pytest.raises(PolicyError, match="'endless calls'"), session.closing_journal():
        FakeBatsim(Workload().job("a", n=1, s=9_000), 4).run(session.handle)
    result = replay(JournalReader(tmp_path / "run.pbj"), policy)
    assert (result.n_same, result.difference) == (session.n_messages, None)
    last = list(JournalReader(tmp_path / "run.pbj").exchanges())[-1]
    assert last.error is not None
    assert last.error[0] == "PolicyError"
    assert "1,001 calls in a row" in last.error[1]
