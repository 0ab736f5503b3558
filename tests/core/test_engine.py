"""The engine, step by step: what it tells the policy, what it lets through, and what it refuses."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import pytest
from procset import ProcSet
from support.stage import DynamicPuppet, Puppet, Stage, kinds, start

from pybatsched.core import decisions as d
from pybatsched.core import events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.engine import Engine
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.policy import Need, Options, Policy
from pybatsched.errors import InputError, PolicyError, RemoteProtocolError

# --- events -----------------------------------------------------------------------------------------------------


def test_a_job_lives_and_the_free_set_follows() -> None:
    stage = Stage()
    job = stage.submit("a", n=2)
    reply = stage.do(start(job, "1-2", reason="why not"))
    assert reply == (0.0, (d.ExecuteJob("w0!a", IntervalSet.parse("1-2"), timestamp=0.0, reason="why not"),))
    assert (stage.free, job.state, job.started_at, str(job.procs)) == ("0 3", JobState.RUNNING, 0.0, "1-2")
    stage.now = 10.0
    stage.step(stage.completed(job))
    assert stage.free == "0-3"
    assert stage.puppet.heard == [("submitted", "w0!a"), ("ended", "w0!a", "COMPLETED_SUCCESSFULLY")]
    assert (job.ended_at, job.state) == (10.0, JobState.COMPLETED)
    assert stage.engine.jobs.n_over[JobState.COMPLETED] == 1


def test_ends_come_before_machines_before_submissions_before_calls() -> None:
    stage = Stage()
    a, b = stage.run("a", "0"), stage.run("b", "1")
    stage.puppet.heard.clear()
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
    assert [news[0] for news in stage.puppet.heard] == ["ended", "killed", "machines", "submitted", "call"]


def test_no_more_jobs_is_told_after_the_last_jobs() -> None:
    stage = Stage()
    job = {"id": "w0!a", "subtime": 0, "res": 1, "profile": "d10"}
    stage.step(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=0), e.JobSubmitted("w0!a", job, timestamp=0))
    assert [news[0] for news in stage.puppet.heard] == ["submitted", "notify"]


def test_a_job_told_late_was_submitted_when_it_was_submitted() -> None:
    stage = Stage()
    job = {"id": "w0!a", "subtime": 3, "res": 1, "profile": "d10"}
    stage.step(e.JobSubmitted("w0!a", job, timestamp=3.0), at=10.0)
    assert stage.puppet.jobs["w0!a"].submitted_at == 3.0


def test_reasons_of_any_kind_can_be_shown() -> None:
    for reason, text in ((None, ""), (7, "7"), ((), ""), (("{} {}", 1), "{} {} 1"), (("{}", 1), "1"), ("x", "x")):
        assert d.reason_text(reason) == text  # type: ignore[arg-type]


def test_other_news_reach_the_policy() -> None:
    stage = Stage()
    stage.step(
        e.Answer(5.0, timestamp=0),
        e.Query({}, timestamp=0),
        e.FromJobMsg("w0!a", "hi", timestamp=0),
        e.UnknownEvent("SNOW", {}, timestamp=0),
        e.Notify("my own", timestamp=0),
    )
    assert sorted(stage.puppet.heard) == [
        ("answer", 5.0),
        ("message", "hi"),
        ("notify", "my own"),
        ("query",),
        ("unknown",),
    ]
    assert stage.step(e.SimulationEnds(timestamp=0)) == (0.0, ())
    assert stage.puppet.heard[-1] == ("end",)


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
    assert stage.puppet.heard == []


# --- what a peer must not do --------------------------------------------------------------------------------------


def test_peer_errors() -> None:
    with pytest.raises(RemoteProtocolError, match="SIMULATION_BEGINS first, got JobSubmitted"):
        Stage(begin=False).step(e.JobSubmitted("a", {}, timestamp=0))
    with pytest.raises(RemoteProtocolError, match="SIMULATION_BEGINS first, got nothing"):
        Stage(begin=False).step()
    stage = Stage()
    cases: list[tuple[str, str, tuple[e.Event, ...]]] = [
        ("second SIMULATION_BEGINS", "events[0].data", (stage.begins(),)),
        ("no job w0!x is known", "events[0].data.job_id", (e.JobCompleted("w0!x", timestamp=0),)),
        ("a number of processors", "events[1].data.job.res", (e.RequestedCall(timestamp=0), submitted(res=None))),
        ("a number of processors", "events[0].data.job.res", (submitted(res=-1),)),
        ("a number of processors", "events[0].data.job.res", (submitted(res=True),)),
        ("number of seconds", "events[0].data.job.walltime", (submitted(walltime="x"),)),
        ("without its description", "events[0].data.job", (e.JobSubmitted("w0!a", timestamp=0),)),
        ("happened at 5", "events[0].timestamp", (e.RequestedCall(timestamp=5.0),)),
        ("without resources", "events[0].data.resources", (e.Notify(e.MACHINES_AVAILABLE, timestamp=0),)),
        (
            "no resources 9",
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


def test_more_peer_errors() -> None:
    stage = Stage()
    job = stage.submit("a")
    with pytest.raises(RemoteProtocolError, match="submitted twice"):
        stage.submit("a")
    with pytest.raises(RemoteProtocolError, match="was not started"):
        stage.step(stage.completed(job))
    stage.do(start(job, "0"))
    stage.step(stage.completed(job), at=5.0)
    with pytest.raises(RemoteProtocolError, match="over already"):
        stage.step(stage.completed(job))
    with pytest.raises(RemoteProtocolError, match="time goes back: 4.0 after 5.0"):
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


def test_older_and_foreign_peers_describe_less() -> None:
    stage = Stage(begin=False)
    stage.step(
        stage.begins(
            n_compute=None, n_storage=None, n_resources=3, compute_resources=None, storage_resources=None, profiles=None
        )
    )
    assert stage.free == "0-2"
    with pytest.raises(RemoteProtocolError, match="no number of processors"):
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
        needs = frozenset({Need.FORWARDED_PROFILES})

    with pytest.raises(InputError, match="--forward-profiles-on-submission"):
        Stage(WantsProfiles)


# --- what a policy must not do ------------------------------------------------------------------------------------


def refused(stage: Stage, *decisions: d.Decision) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        stage.do(*decisions)
    assert caught.value.policy == "puppet"
    return caught.value


@pytest.mark.parametrize(
    ("decision", "rule"),
    [
        (start("w0!ghost", "0"), "job known"),
        (start("w0!run", "2"), "job waiting"),
        (start("w0!over", "2"), "job alive"),
        (start("w0!wait", "1"), "right number"),
        (start("w0!wait", "1-3"), "right number"),
        (start("w0!wait", ""), "right number"),
        (start("w0!wait", "0-1"), "processors free"),
        (start("w0!wait", "3-4"), "inside the partition"),
        (start("w0!wait", "7-8"), "inside the partition"),
        (start("w0!wait", "2-3"), "processors available"),
        (start("w0!wait", "1", mapping={"0": 0}), "mapping"),
        (start("w0!wait", "1", mapping={"0": 0, "1": 1}), "mapping"),
        (start("w0!wait", "1", mapping={"0": "x", "1": 0}), "mapping"),
        (start("w0!wait", "1", mapping={"0": 0, "1": 0}, storage_mapping={}), "one option"),
        (start("w0!wait", "1-2", timestamp=float("nan")), "finite numbers"),
        (start("w0!wait", "1-2", timestamp=3.0), "stamps before now"),
        (d.RejectJob("w0!run"), "job waiting"),
        (d.RejectJob("w0!ghost"), "job known"),
        (d.KillJob(("w0!wait",)), "job running"),
        (d.KillJob(("w0!over",)), "job alive"),
        (d.KillJob(()), "job running"),
        (d.CallMeLater(0.0), "call in the future"),
        (d.CallMeLater(-1.0), "call in the future"),
        (d.CallMeLater(float("inf")), "call in the future"),
        (d.CallMeLater(float("nan")), "call in the future"),
        (d.SetResourceState(IntervalSet([9]), "0"), "processors known"),
        (d.SetResourceState(IntervalSet([0]), "slow"), "pstate"),
        (d.SetJobMetadata("w0!run", 'say "hi"'), "metadata without quotes"),
        (d.SetJobMetadata("w0!over", "x"), "job alive"),
        (d.ChangeJobState("w0!wait", "COMPLETED_SUCCESSFULLY"), "job state"),
        (d.RegisterJob("dyn!1", {"subtime": 0, "res": 1, "profile": "p"}), "registration enabled"),
        (d.RegisterProfile("dyn", "p", {"type": "delay", "delay": 1}), "registration enabled"),
        (d.Requeue("w0!run"), "registration enabled"),
        (d.Notify("lunch"), "known notice"),
        (d.Query({"weather": {}}), "known query"),
        (d.Answer(), "whole answer"),
        (d.ToJobMsg("w0!ghost", "hi"), "job known"),
        (d.UnknownDecision("DANCE", {}), "known decision"),
        (d.ExecuteJob("w0!wait", [1, 2]), "well-formed"),  # type: ignore[arg-type]
        (d.ExecuteJob("w0!wait", ProcSet((1, 2))), "well-formed"),
        (d.ExecuteJob(7, IntervalSet([1, 2])), "well-formed"),  # type: ignore[arg-type]
        (d.CallMeLater("5"), "well-formed"),  # type: ignore[arg-type]
        (d.SetJobMetadata("w0!run", 5), "well-formed"),  # type: ignore[arg-type]
        (d.SetResourceState(IntervalSet([2]), 2), "well-formed"),  # type: ignore[arg-type]
        (d.RejectJob("w0!wait", timestamp="now"), "well-formed"),  # type: ignore[arg-type]
        (d.SetResourceState(IntervalSet([0]), "2"), "pstate"),
        ("execute!", "known decision"),
        (None, "known decision"),
    ],
)
def test_illegal_decisions_are_caught_with_rule_and_story(decision: Any, rule: str) -> None:
    stage = Stage()
    over = stage.run("over", "2")
    stage.step(stage.completed(over))
    stage.run("run", "0")
    stage.submit("wait", n=2)
    stage.step(e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet([3]), timestamp=0))
    error = refused(stage, decision)
    assert error.rule == rule
    if error.job_id and rule != "job known":
        assert error.story
    assert error.rule in str(error)


def test_the_story_is_told() -> None:
    stage = Stage()
    job = stage.submit("a", at=3.0)
    stage.do(start(job, "1", reason=("because {}", 42)))
    error = refused(stage, start(job, "2"))
    assert str(error) == (
        "policy puppet broke the rule 'job waiting': cannot start job w0!a: it is running\n"
        "the story of job w0!a so far: submitted at 3.0 for 1 processors; started at 3.0 on 1 (because 42)"
    )


def test_two_starts_on_the_same_processor_in_one_reply() -> None:
    stage = Stage()
    a, b = stage.submit("a"), stage.submit("b")
    assert "0 are not free: held by w0!a" in str(refused(stage, start(a, "0"), start(b, "0")))


def test_partitions_are_kept_apart() -> None:
    class Two(Puppet):
        partitions = (("left", "0-1"), ("right", "2-3"))

    stage = Stage(Two)
    job = stage.submit("a", n=2)
    assert "more than one partition" in str(refused(stage, start(job, "1-2")))
    stage = Stage(Two)
    job = stage.submit("a", n=2)
    stage.do(start(job, "2-3"))
    assert job.partition is not None
    assert (job.partition.name, stage.free) == ("right", "0-1 ")


@pytest.mark.parametrize("partitions", [(("a", "0-1"), ("b", "1-2")), (("a", "0"), ("a", "1")), (("a", "3-4"),)])
def test_bad_partitions_are_the_policys_fault(partitions: tuple[tuple[str, str], ...]) -> None:
    class Bad(Puppet):
        pass

    Bad.partitions = partitions
    with pytest.raises(PolicyError, match="on_begin raised ValueError"):
        Stage(Bad)


def test_any_exception_of_a_policy_becomes_a_policy_error() -> None:
    stage = Stage()

    def explode(_now: float) -> Iterable[d.Decision]:
        yield from ()
        raise ZeroDivisionError("oops")

    stage.puppet.next = explode
    with pytest.raises(PolicyError, match=r"decide raised ZeroDivisionError: oops .*test_engine.py, line \d+"):
        stage.step()

    stage.puppet.next = lambda _now: stage.engine.cluster.procs.first("two")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"decide raised TypeError: .*test_engine.py, line \d+"):  # ours raised it
        stage.step()

    class Sorted(Puppet):
        def on_job_submitted(self, job: Job, now: float) -> None:
            heapq.nsmallest(2, [job, job])  # type: ignore[type-var]  # Python's raised it

    with pytest.raises(PolicyError, match=r"on_job_submitted raised TypeError: .*test_engine.py, line \d+"):
        Stage(Sorted).submit("a")

    class Exits(Puppet):
        def on_job_submitted(self, job: Job, now: float) -> None:
            raise SystemExit(3)

    with pytest.raises(PolicyError, match="on_job_submitted raised SystemExit"):
        Stage(Exits).submit("a")


def test_none_is_no_decisions() -> None:
    stage = Stage()
    stage.puppet.next = lambda _now: None
    assert stage.step().decisions == ()


def test_sizes_that_batsim_lets_through() -> None:
    stage = Stage(sharing=True)
    mapped = stage.submit("m", n=4, profile="ph")
    stage.do(start(mapped, "0-1", mapping={"0": 0, "1": "0", "2": 1, "3": 1}))
    for name, profile in (("t", "total"), ("tt", "totals")):
        moldable = stage.submit(name, n=4, profile=profile)
        stage.do(start(moldable, "2"))
        assert moldable.state is JobState.RUNNING


def test_a_busy_scheduler_may_stamp_up_to_its_own_now() -> None:
    stage = Stage()
    job = stage.submit("a")
    stage.puppet.until = 7.0
    reply = stage.do(start(job, "0"), d.KillJob((job.id,), timestamp=7.0), d.CallMeLater(8.0, timestamp=7.0))
    assert reply.now == 7.0
    assert [item.timestamp for item in reply.decisions] == [0.0, 7.0, 7.0]
    assert refused(stage, d.CallMeLater(6.0, timestamp=7.0)).rule == "call in the future"


def test_a_policy_may_set_how_long_it_is_busy_as_it_begins() -> None:
    class Slow(Policy):
        def on_begin(self, cluster: Cluster) -> None:
            self.busy_until = lambda now: now + 2.5  # type: ignore[method-assign]

        def decide(self, now: float) -> Iterable[d.Decision]:
            return ()

    engine = Engine(lambda _begins: Slow(Options()), "slow")
    assert engine.step(0.0, [Stage(begin=False).begins()]).now == 2.5


def test_a_call_within_the_tick_is_moved_behind_batsims_clock() -> None:
    reply = Stage().do(d.CallMeLater(1e-7))
    assert reply.decisions[0].at == 1e-6  # type: ignore[attr-defined]
