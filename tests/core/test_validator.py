"""Illegal decisions of a policy: errors with the broken rule and the history of the job."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from procset import ProcSet
from support.stage import DynamicPuppet, Puppet, Stage, refused, start

from pybatsched.core import decisions as d, events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.engine import Engine
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.options import Options
from pybatsched.core.policy import Policy
from pybatsched.errors import PolicyError


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
def test_illegal_decisions_are_reported_with_rule_and_history(decision: Any, rule: str) -> None:
    stage = Stage()
    over = stage.run("over", "2")
    stage.step(stage.completed(over))
    stage.run("run", "0")
    stage.submit("wait", n=2)
    stage.step(e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet([3]), timestamp=0))
    error = refused(stage, decision)
    assert error.rule == rule
    if error.job_id and rule != "job known":
        assert error.history
    assert error.rule in str(error)


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (d.ExecuteJob("w0!wait", [1, 2]), "ExecuteJob.procs is a list: [1, 2]; expected an IntervalSet"),  # type: ignore[arg-type]
        (d.ExecuteJob(7, IntervalSet([1])), "ExecuteJob.job_id is an int: 7; expected a str"),  # type: ignore[arg-type]
        (d.RejectJob("w0!a", timestamp="now"), "RejectJob.timestamp is a str: 'now'; expected an int, a float or None"),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_the_wrong_type_is_reported_with_the_expected_one(decision: Any, message: str) -> None:
    assert f"broke the rule 'well-formed': {message}" in str(refused(Stage(), decision))


def test_the_error_has_the_history_of_the_job() -> None:
    stage = Stage()
    job = stage.submit("a", at=3.0)
    stage.do(start(job, "1", reason=("because {}", 42)))
    error = refused(stage, start(job, "2"))
    assert str(error) == (
        "policy puppet broke the rule 'job waiting': cannot start job w0!a: it is running\n"
        "history of job w0!a: submitted at 3.0 for 1 processors; started at 3.0 on 1 (because 42)"
    )


def test_two_starts_on_the_same_processor_in_one_reply() -> None:
    stage = Stage()
    a, b = stage.submit("a"), stage.submit("b")
    assert "0 are not free: used by w0!a" in str(refused(stage, start(a, "0"), start(b, "0")))


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
def test_invalid_partitions_are_policy_errors(partitions: tuple[tuple[str, str], ...]) -> None:
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
    with pytest.raises(PolicyError, match=r"decide raised ZeroDivisionError: oops .*test_validator.py: line \d+"):
        stage.step()

    stage.puppet.next = lambda _now: stage.engine.cluster.procs.first("two")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"decide raised NotIntegerError: .*test_validator.py: line \d+"):
        stage.step()  # ours raised it

    class Sorted(Puppet):
        def on_job_submitted(self, job: Job, now: float) -> None:
            heapq.nsmallest(2, [job, job])  # type: ignore[type-var]  # Python's raised it

    with pytest.raises(PolicyError, match=r"on_job_submitted raised TypeError: .*test_validator.py: line \d+"):
        Stage(Sorted).submit("a")

    class Exits(Puppet):
        def on_job_submitted(self, job: Job, now: float) -> None:
            raise SystemExit(3)

    with pytest.raises(PolicyError, match="on_job_submitted raised SystemExit"):
        Stage(Exits).submit("a")


def test_a_processor_set_with_non_integers_is_a_policy_error() -> None:
    stage = Stage()
    job = stage.submit("a")
    for members in ([0 / 1], [0.5], [False], ["0"]):
        wrong: Any = members
        stage.puppet.next = lambda _now, wrong=wrong: [d.ExecuteJob(job.id, IntervalSet(wrong))]  # type: ignore[misc]
        place = r"is an integer, not .* \(.*test_validator\.py: line \d+\)"
        with pytest.raises(PolicyError, match=place) as caught:
            stage.step()
        assert caught.value.rule == "well-formed"


@pytest.mark.parametrize("hook", ["remarks", "broken_promises"])
@pytest.mark.parametrize("given", ["one line", b"one line", None, 5])
def test_hooks_that_return_one_text_instead_of_a_list_are_errors(hook: str, given: Any) -> None:
    stage = Stage(type("Terse", (Puppet,), {hook: lambda _self: given}))
    found = type(given).__name__
    expected = rf"'well-formed': {hook} must return an iterable of texts such as a list, .*; it returned {found}: "
    with pytest.raises(PolicyError, match=expected):
        getattr(stage.engine, hook)


@pytest.mark.parametrize("given", [None, 5, ["a"]])
def test_figures_must_be_a_mapping(given: Any) -> None:
    stage = Stage(type("Terse", (Puppet,), {"figures": lambda _self: given}))
    with pytest.raises(
        PolicyError, match="'well-formed': figures must return a mapping of names to numbers, such as a dict"
    ):
        _ = stage.engine.figures


def test_a_figure_may_be_a_float_of_numpy() -> None:
    stage = Stage(type("Terse", (Puppet,), {"figures": lambda _self: {"a": np.float64(0.5), "b": 2}}))
    assert [(name, value, type(value)) for name, value in stage.engine.figures.items()] == [
        ("a", 0.5, float),
        ("b", 2, int),
    ]


@pytest.mark.parametrize("given", [d.RejectJob("w0!a"), 5, "start a"])
def test_a_single_decision_instead_of_a_list_is_an_error(given: Any) -> None:
    stage = Stage(type("Terse", (Puppet,), {"decide": lambda _self, _now: given if _self.jobs else None}))
    expected = (
        "'well-formed': decide must return an iterable of decisions, such as a list or a generator, or None; it ret"
    )
    with pytest.raises(PolicyError, match=expected):
        stage.submit("a")


def test_no_decisions_for_a_waiting_job_are_an_error_only_if_no_job_runs() -> None:
    stage = Stage(type("Silent", (Puppet,), {"decide": lambda self, now: self.next(now) if self.jobs else None}))
    stage.puppet.next = lambda _now: [start("w0!a", "0")]
    job = stage.submit("a")
    stage.puppet.next = lambda _now: None
    stage.submit("b")
    text = (
        "policy puppet broke the rule 'well-formed': decide returned None although job w0!b waits and no job runs; "
        "expected decisions: write `yield ExecuteJob(…)`, or return a list (`[]` for no decision)"
    )
    with pytest.raises(PolicyError) as caught:
        stage.step(stage.completed(job))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "expected"),
    [("user", "write job.fields['user']"), ("users", "the job's fields are id, subtime, res, profile, user")],
)
def test_a_field_read_as_an_attribute_is_explained(name: str, expected: str) -> None:
    stage = Stage(type("Reading", (Puppet,), {"on_job_submitted": lambda _self, job, _now: getattr(job, name)}))
    with pytest.raises(
        PolicyError, match=f"on_job_submitted raised AttributeError: .* line .*; {re.escape(expected)}$"
    ):
        stage.submit("a", user="ada")


class Text(str):
    """A text of a class of its own."""

    __slots__ = ()


def numpy_decisions(job_id: str) -> list[d.Decision]:
    """Return decisions with numbers of numpy, one for each job."""
    five, name = np.float64(5), Text(job_id)
    return [
        d.StartAt(name, IntervalSet([0]), five),
        d.Replace(name, IntervalSet([0]), duration_s=five, extra_s=five),
        d.Reshape(name, 1, five),
        d.CallMeLater(five, timestamp=np.float64(0), extra={"a": [five, {"b": (five,)}], Text("c"): 1}),
        d.RegisterProfile("dyn", "p", {"type": "delay", "delay": five}),
        d.RegisterJob("w0!new", {"subtime": five, "res": 1, "profile": "d10", "walltime": five}),
        d.KillJob((name,)),
        d.ToJobMsg(name, five),
        d.Answer({"job_id": name, "estimated_waiting_time": five}),
    ]


@pytest.mark.parametrize("nth", range(9))
def test_floats_of_numpy_are_floats(nth: int) -> None:
    """Accepted decisions can be encoded, so that a journal changes nothing."""
    stage = Stage(DynamicPuppet, dynamic_jobs_enabled=True)
    decision = numpy_decisions("w0!a")[nth]
    job = stage.run("a", "0") if isinstance(decision, d.KillJob | d.ToJobMsg) else stage.submit("a")
    sent = [msgspec.structs.asdict(one) for one in stage.do(decision).decisions]
    assert not find_odd([sent, job.start_at, job.walltime, job.estimate, job.load_s])


def find_odd(value: Any) -> list[Any]:
    """List the parts of a value that do not consist of plain Python values."""
    if isinstance(value, Mapping):
        return find_odd([*value, *value.values()])
    if isinstance(value, list | tuple):
        return [odd for part in value for odd in find_odd(part)]
    return [] if type(value) in {int, float, str, bool, type(None), IntervalSet} else [value]


def test_none_means_no_decisions() -> None:
    stage = Stage()
    stage.puppet.next = lambda _now: None
    assert stage.step().decisions == ()


def test_other_sizes_are_accepted_with_a_mapping_or_total_profiles() -> None:
    stage = Stage(sharing=True)
    mapped = stage.submit("m", n=4, profile="ph")
    stage.do(start(mapped, "0-1", mapping={"0": 0, "1": "0", "2": 1, "3": 1}))
    for name, profile in (("t", "total"), ("tt", "totals")):
        moldable = stage.submit(name, n=4, profile=profile)
        stage.do(start(moldable, "2"))
        assert moldable.state is JobState.RUNNING


def test_timestamps_may_be_up_to_the_end_of_the_decision_delay() -> None:
    stage = Stage()
    job = stage.submit("a")
    stage.puppet.until = 7.0
    reply = stage.do(start(job, "0"), d.KillJob((job.id,), timestamp=7.0), d.CallMeLater(8.0, timestamp=7.0))
    assert reply.now == 7.0
    assert [item.timestamp for item in reply.decisions] == [0.0, 7.0, 7.0]
    assert refused(stage, d.CallMeLater(6.0, timestamp=7.0)).rule == "call in the future"


def test_a_policy_may_set_its_decision_delay_at_the_start() -> None:
    class Slow(Policy):
        def on_begin(self, cluster: Cluster) -> None:
            self.busy_until = lambda now: now + 2.5  # type: ignore[method-assign]

        def decide(self, now: float) -> Iterable[d.Decision]:
            return ()

    engine = Engine(lambda _begins: Slow(Options()), "slow")
    assert engine.step(0.0, [Stage(begin=False).begins()]).now == 2.5


def test_a_call_within_the_current_tick_is_moved_to_the_next_tick() -> None:
    reply = Stage().do(d.CallMeLater(1e-7))
    assert reply.decisions[0].at == 1e-6  # type: ignore[attr-defined]
