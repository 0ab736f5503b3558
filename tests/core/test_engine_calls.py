"""A policy that only keeps requesting calls is stopped; a policy that decides something in its calls is not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.places import PUSHY
from support.stage import DynamicPuppet, Stage, start

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import JobState
from pybatsched.core.policy_calls import IdleCalls
from pybatsched.errors import PolicyError
from pybatsched.policies import registry
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.session.replay import replay
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload

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


def test_an_hourly_call_for_a_year_is_fine() -> None:
    stage = Stage()
    for _ in range(365 * 24):
        called(stage, after_s=3600.0)
    assert stage.now == 365 * 86_400


def test_calls_in_pairs_are_fine() -> None:
    """Simulated time passes between the pairs."""
    stage = Stage()
    for _ in range(MANY):
        called(stage)
        called(stage, after_s=16 * TICK)


@pytest.mark.parametrize("after_s", [16 * TICK, 1e-4, 1e-3])
def test_short_steps_of_time_are_fine(after_s: float) -> None:
    """A policy may request a call every 100 microseconds, say."""
    stage = Stage()
    for _ in range(MANY):
        called(stage, after_s=after_s)


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
