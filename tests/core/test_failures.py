"""Machines that fail: what the engine does with the jobs on them, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pybatsched.core import decisions as d, events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.engine import Engine
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.options import Options
from pybatsched.core.policy import Policy
from pybatsched.core.replacement import replace_policy
from pybatsched.errors import InputError
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy

Events = list[tuple[float, str, str]]


def outage(at: float, until: float, procs: str) -> Events:
    return [(at, e.MACHINES_UNAVAILABLE, procs), (until, e.MACHINES_AVAILABLE, procs)]


def times(run: FakeBatsim) -> dict[str, tuple[float | None, float | None]]:
    """Return start and end of each segment."""
    assert not run.deadlocked
    return {job.id.removeprefix("w0!"): (job.started_at, job.ended_at) for job in run.jobs.values()}


#: a on 0-1 and b on 2-3 from 0 to 10; c needs all four. 0-1 fail at 4, and return at 6.
FOUR = (
    Workload()
    .job("a", n=2, s=10, walltime=11, estimate=10)
    .job("b", n=2, s=10, walltime=11, estimate=10)
    .job("c", n=4, s=5, at=1, walltime=6, estimate=5)
    .job("d", n=2, s=6, at=2, walltime=7, estimate=6)
)
EXPECTED: dict[str | None, dict[str, tuple[float, float]]] = {
    # All jobs run on; at 10 all four are free again.
    None: {"a": (0, 10), "b": (0, 10), "c": (10, 15), "d": (15, 21)},
    # a is the head again and starts at 6, when its processors are back; d is backfilled at 10, when b ends.
    "requeue_first": {"a": (0, 4), "dyn!w0.a.1": (6, 16), "b": (0, 10), "d": (10, 16), "c": (16, 21)},
    # c starts at 10, d and a (10 s again) at 15.
    "requeue_last": {"a": (0, 4), "b": (0, 10), "c": (10, 15), "d": (15, 21), "dyn!w0.a.1": (15, 25)},
    "resubmit": {"a": (0, 4), "b": (0, 10), "c": (10, 15), "d": (15, 21), "dyn!w0.a.1": (15, 25)},
    "kill": {"a": (0, 4), "b": (0, 10), "c": (10, 15), "d": (15, 21)},
}


@pytest.mark.parametrize("rule", EXPECTED)
def test_the_jobs_of_a_failed_machine(rule: str | None) -> None:
    run = run_policy("easy", FOUR, 4, machine_events=outage(4, 6, "0-1"), on_failure=rule)
    assert times(run) == EXPECTED[rule]


def test_a_resubmitted_job_has_waited_for_nothing() -> None:
    """By the longest wait first, a requeued job comes before c; a resubmitted one behind it."""
    jobs = (
        Workload()
        .job("a", n=2, s=10, walltime=11)
        .job("c", n=2, s=5, at=3, walltime=6)
        .job("d", n=2, s=5, at=4, walltime=6)
    )
    orders: dict[str, Any] = {}
    for rule in ("requeue_last", "resubmit"):
        run = run_policy("easy", jobs, 2, machine_events=outage(5, 6, "0"), order="-wait", on_failure=rule)
        found = sorted((job.started_at or 0.0, job.id) for job in run.jobs.values() if job.id != "w0!a")
        orders[rule] = [job_id for _, job_id in found]
    assert orders == {"requeue_last": ["dyn!w0.a.1", "w0!c", "w0!d"], "resubmit": ["w0!c", "w0!d", "dyn!w0.a.1"]}


def recorded(policy: str, jobs: Workload, events: Events, **options: Any) -> tuple[FakeBatsim, list[d.Decision]]:
    """Run a policy and return its run with all decisions that were sent."""
    sent: list[d.Decision] = []
    plan = plan_for(policy, **options)
    session = Session(plan, watch=lambda _message, reply: sent.extend(reply.decisions), checked=True)
    fake = FakeBatsim(jobs, 4, {"dynamic-jobs-enabled": True}, events)
    return fake.run(session.handle), sent


def test_one_kill_for_one_failure_of_many_machines() -> None:
    """The job on all lost processors is killed once, and all jobs of the failure by one decision."""
    jobs = Workload().job("a", n=3, s=10, walltime=11).job("b", n=1, s=10, walltime=11)
    run, sent = recorded("fcfs", jobs, outage(4, 5, "0-1 3"), on_failure="requeue_first")
    assert [decision.job_ids for decision in sent if isinstance(decision, d.KillJob)] == [("w0!a", "w0!b")]
    assert times(run) == {"a": (0, 4), "b": (0, 4), "dyn!w0.a.1": (5, 15), "dyn!w0.b.1": (5, 15)}


def test_two_failures_of_one_instant_kill_a_job_once() -> None:
    jobs = Workload().job("a", n=4, s=10, walltime=11)
    events = [*outage(4, 5, "0"), *outage(4, 6, "2")]
    run, sent = recorded("fcfs", jobs, events, on_failure="requeue_last")
    assert sum(isinstance(decision, d.KillJob) for decision in sent) == 1
    assert times(run) == {"a": (0, 4), "dyn!w0.a.1": (6, 16)}


def test_several_jobs_keep_their_order_in_front() -> None:
    """a, b and c are killed together and start again in this order, before d, which came while they ran."""
    jobs = Workload()
    for name in ("a", "b", "c"):
        jobs.job(name, n=1, s=10, walltime=11)
    jobs.job("d", n=1, s=1, at=1, walltime=2)
    run = run_policy("fcfs", jobs, 3, machine_events=outage(4, 5, "0-2"), on_failure="requeue_first")
    procs = {job.id: str(job.procs) for job in run.jobs.values() if job.started_at == 5}
    assert procs == {"dyn!w0.a.1": "0", "dyn!w0.b.1": "1", "dyn!w0.c.1": "2"}
    assert times(run)["d"] == (15, 16)


@pytest.mark.parametrize(
    ("jobs", "n_procs", "events", "expected"),
    [
        # A job that ends with the failure is not killed.
        (Workload().job("a", n=2, s=4, walltime=9).job("b", n=2, s=3, at=4, walltime=5), 2, outage(4, 6, "0"),
         {"a": (0, 4), "b": (6, 9)}),
        # Machines without jobs fail without effect.
        (Workload().job("a", n=2, s=9, walltime=10), 4, outage(4, 6, "2-3"), {"a": (0, 9)}),
        # A job that fails twice.
        (Workload().job("a", n=2, s=9, walltime=10), 2, [*outage(4, 5, "0"), *outage(9, 10, "1")],
         {"a": (0, 4), "dyn!w0.a.1": (5, 9), "dyn!w0.a.2": (10, 19)}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["fcfs", "conservative"])
def test_jobs_that_are_requeued_first(
    policy: str, jobs: Workload, n_procs: int, events: Events, expected: dict[str, Any]
) -> None:
    run = run_policy(policy, jobs, n_procs, machine_events=events, on_failure="requeue_first")
    assert times(run) == expected


@pytest.mark.parametrize("policy", ["fcfs", "easy", "ujf", "published_predictsim"])
def test_the_head_starts_when_its_processors_are_back(policy: str) -> None:
    run = run_policy(policy, FOUR, 4, machine_events=outage(4, 6, "0-1"), on_failure="requeue_first")
    assert times(run)["dyn!w0.a.1"] == (6, 16)


def test_figures_count_failures_and_lost_work() -> None:
    plan = plan_for("easy", on_failure="requeue_first")
    session = Session(plan, checked=True)
    FakeBatsim(FOUR, 4, {"dynamic-jobs-enabled": True}, outage(4, 6, "0-1")).run(session.handle)
    figures = session.engine.figures
    assert {name: figures[name] for name in ("n_failures", "n_failure_kills", "lost_work_s")} == {
        "n_failures": 1,
        "n_failure_kills": 1,
        "lost_work_s": 2 * 4.0,
    }


class GivesUp(Policy):
    """Starts each job once, and rejects it after a failure."""

    def on_begin(self, cluster: Cluster) -> None:
        self.partition = cluster.add_partition("all", cluster.procs)
        self.decisions: list[d.Decision] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.decisions.append(d.ExecuteJob(job.id, self.partition.free.first(job.n_procs)))

    def on_failure(self, job: Job, now: float) -> None:
        self.decisions.append(d.RejectJob(job.id, reason="its machine failed"))

    def decide(self, now: float) -> Iterable[d.Decision]:
        decisions, self.decisions = self.decisions, []
        return decisions


def test_the_work_of_a_job_that_is_rejected_after_a_failure_is_lost() -> None:
    jobs = Workload().job("a", n=3, s=10, walltime=20)
    session = Session(plan_for(GivesUp, on_failure="requeue_first"), checked=True)
    FakeBatsim(jobs, 4, {"dynamic-jobs-enabled": True}, outage(4, 6, "0-1")).run(session.handle)
    assert session.engine.figures["lost_work_s"] == 3 * 4.0
    assert session.engine.figures["application_efficiency"] == 0.0


class Stack(Policy):
    """Starts jobs on the lowest processors, the last one first; killed jobs go to the bottom, whatever the option."""

    def on_begin(self, cluster: Cluster) -> None:
        self.partition = cluster.add_partition("all", cluster.procs)
        self.jobs: list[Job] = []
        self.seen: list[str] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.jobs.append(job)

    def on_job_ended(self, job: Job, now: float) -> None:
        self.seen.append(f"{job.id} {job.state.value}")

    def on_failure(self, job: Job, now: float) -> None:
        assert job.state is JobState.WAITING
        self.jobs.insert(0, job)

    def decide(self, now: float) -> Iterable[d.Decision]:
        while self.jobs and self.jobs[-1].n_procs <= self.partition.n_free:
            job = self.jobs.pop()
            yield d.ExecuteJob(job.id, self.partition.free.first(job.n_procs))


class KillsToo(Stack):
    """Requeues a running job when machines fail, without knowing that the engine does."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        if self.partition.n_away and self.partition.running_jobs:
            yield d.Requeue(self.partition.running_jobs[0].id)
        if not self.partition.n_kills_pending:
            yield from super().decide(now)


@pytest.mark.parametrize("policy", [Stack, KillsToo])
def test_a_policy_of_an_author(policy: type[Policy]) -> None:
    jobs = Workload().job("a", n=2, s=10, walltime=11).job("b", n=2, s=3, at=1, walltime=4)
    run = run_policy(policy, jobs, 2, machine_events=outage(4, 6, "0"), on_failure="requeue_first")
    assert times(run) == {"a": (0, 4), "b": (6, 9), "dyn!w0.a.1": (9, 19)}


class Gives(Stack):
    """Kills all running jobs when machines fail."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        if self.partition.n_away and self.partition.running_jobs:
            yield d.KillJob(tuple(job.id for job in self.partition.running_jobs))
        yield from super().decide(now)


@pytest.mark.parametrize("profile", ["delay", "mixed"])
def test_a_policy_kills_a_job_that_the_engine_would_requeue(profile: str) -> None:
    """Batsim gets one kill, and the job does not come back; a spare job registered for it is rejected."""
    jobs = Workload().job("a", n=2, s=10, walltime=30)
    jobs.profiles |= {
        "work": {"type": "parallel_homogeneous", "cpu": 5e9, "com": 0},
        "mixed": {"type": "composed", "seq": ["work", "work"]},
    }
    if profile == "mixed":
        jobs.jobs[0]["profile"] = profile
    session = Session(plan_for(Gives, on_failure="requeue_first"), checked=True)
    run = FakeBatsim(jobs, 2, {"dynamic-jobs-enabled": True}, outage(4, 6, "0")).run(session.handle)
    assert not run.deadlocked
    assert run.jobs["w0!a"].final_state == e.COMPLETED_KILLED
    assert [job.final_state for job in run.jobs.values() if job.id != "w0!a"] == ["REJECTED"] * (profile == "mixed")
    policy = session.engine.policy
    assert isinstance(policy, Stack)
    assert (policy.seen, policy.jobs) == (["w0!a killed"], [])
    figures = session.engine.figures
    assert (figures["n_failure_kills"], figures["lost_work_s"]) == (1, 8)


def test_jobs_start_beside_a_kill() -> None:
    """Stack knows nothing of the kill of a at 4, and starts b on free processors at once."""
    jobs = Workload().job("a", n=2, s=10, walltime=11).job("b", n=2, s=3, at=4, walltime=4)
    run = run_policy(Stack, jobs, 4, machine_events=outage(4, 6, "0"), on_failure="requeue_first")
    assert times(run) == {"a": (0, 4), "b": (4, 7), "dyn!w0.a.1": (6, 16)}


def test_killed_jobs_are_reported_as_ended() -> None:
    jobs = Workload().job("a", n=1, s=10, walltime=11)
    for rule, state in (("kill", "killed"), ("resubmit", "waiting")):
        session = Session(plan_for(Stack, on_failure=rule), checked=True)
        FakeBatsim(jobs, 1, {"dynamic-jobs-enabled": True}, outage(4, 6, "0")).run(session.handle)
        policy = session.engine.policy
        assert isinstance(policy, Stack)
        assert policy.seen[0] == f"w0!a {state}"


def test_requeues_need_dynamic_jobs() -> None:
    with pytest.raises(InputError, match="--enable-dynamic-jobs"):
        run_policy("easy", FOUR, 4, config={"dynamic-jobs-enabled": False}, on_failure="requeue_first")
    assert run_policy("easy", FOUR, 4, config={"dynamic-jobs-enabled": False}, on_failure="kill").jobs


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(InputError, match="on_failure"):
        run_policy("easy", FOUR, 4, on_failure="restart")


def test_the_default_is_in_no_summary() -> None:
    assert Options().model_dump() == {}
    assert Options(on_failure="kill").model_dump() == {"on_failure": "kill"}


def test_a_profile_that_cannot_be_copied_is_registered_before_the_kill() -> None:
    """Batsim deletes a composed profile with its job, so a spare job is registered first."""
    jobs = Workload().job("a", n=1, s=10, walltime=30)
    jobs.profiles |= {
        "work": {"type": "parallel_homogeneous", "cpu": 5e9, "com": 0},
        "both": {"type": "composed", "seq": ["work", "work"]},
    }
    jobs.jobs[0]["profile"] = "both"
    run = run_policy("fcfs", jobs, 1, machine_events=outage(4, 6, "0"), on_failure="requeue_first")
    assert times(run) == {"a": (0, 4), "a.1": (6, 16)}
    assert run.jobs["w0!a.1"].metadata.endswith(";failures=1;lost_s=4")


def test_a_replaced_policy_continues_the_counts() -> None:
    begins = e.SimulationBegins(n_resources=2, n_compute=2, config={"dynamic-jobs-enabled": True}, timestamp=0.0)
    plan = plan_for("easy", on_failure="kill")
    engine = Engine(plan.make, "easy", checked=True)
    engine.step(0.0, [begins])
    engine.step(1.0, [e.Notify(e.MACHINES_UNAVAILABLE, procs=engine.cluster.procs.first(1), timestamp=1.0)])
    replace_policy(engine, begins, plan_for("fcfs", on_failure="requeue_last").make, "fcfs")
    assert engine.figures["n_failures"] == 1


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "dbf", "ujfb"])
def test_draining(policy: str) -> None:
    """0-1 are drained from 4 to 12: a runs on until 10, and b starts on 2-3 only; c waits for all four."""
    jobs = (
        Workload()
        .job("a", n=2, s=10, walltime=11, estimate=10)
        .job("b", n=2, s=5, at=5, walltime=6, estimate=5)
        .job("c", n=4, s=5, at=6, walltime=6, estimate=5)
    )
    events = [(4, e.DRAIN, "0-1"), (12, e.UNDRAIN, "0-1")]
    run = run_policy(
        policy, jobs, 4, config={"forward-unknown-events": True}, machine_events=events, on_failure="requeue_first"
    )
    assert times(run) == {"a": (0, 10), "b": (5, 10), "c": (12, 17)}
    assert str(run.jobs["w0!b"].procs) == "2-3"


def test_draining_of_machines_that_fail() -> None:
    """A repaired machine stays drained."""
    jobs = Workload().job("a", n=1, s=3, at=3, walltime=4)
    events = [(0, e.DRAIN, "0"), *outage(1, 2, "0"), (9, e.UNDRAIN, "0")]
    run = run_policy("easy", jobs, 1, config={"forward-unknown-events": True}, machine_events=sorted(events))
    assert times(run) == {"a": (9, 12)}


@pytest.mark.parametrize("procs", ["9", ""])
def test_wrong_drains(procs: str) -> None:
    engine = Engine(plan_for("easy").make, "easy")
    engine.step(0.0, [e.SimulationBegins(n_resources=2, n_compute=2, config={}, timestamp=0.0)])
    with pytest.raises(InputError, match="event drain at 1: resources: expected processors of the platform"):
        engine.step(1.0, [e.Notify(e.DRAIN, timestamp=1.0, extra={"resources": procs})])


def outages(*machine_events: tuple[float, str, str]) -> list[dict[str, Any]]:
    """Return what the engine has recorded at the end of a run of 40 s on four processors."""
    session = Session(plan_for("fcfs"), checked=True)
    FakeBatsim(Workload().job("a", n=1, s=40, walltime=50), 4, machine_events=machine_events).run(session.handle)
    return session.engine.tables["unavailable"]


def test_an_outage_is_split_if_processors_return_at_different_times() -> None:
    two = [(10, e.MACHINES_UNAVAILABLE, "1-2"), (20, e.MACHINES_AVAILABLE, "2"), (30, e.MACHINES_AVAILABLE, "1")]
    assert outages(*two) == [{"start": 10, "end": 20, "procs": "2"}, {"start": 10, "end": 30, "procs": "1"}]


def test_an_outage_has_no_end_while_processors_are_down() -> None:
    """One event for all hosts is one record. A processor that is down twice has two records."""
    assert outages() == []
    assert outages(*outage(5, 6, "0 2-3"), (7, e.MACHINES_UNAVAILABLE, "3")) == [
        {"start": 5, "end": 6, "procs": "0 2-3"},
        {"start": 7, "end": None, "procs": "3"},
    ]


def test_one_event_can_end_several_outages() -> None:
    """Processor 1 is reported twice: it is down since 5. 0 was never down. Drained processors are not down."""
    assert outages(
        (4, e.DRAIN, "2"),
        (5, e.MACHINES_UNAVAILABLE, "1"),
        (6, e.MACHINES_UNAVAILABLE, "1 3"),
        (7, e.MACHINES_UNAVAILABLE, "1"),
        (8, e.MACHINES_AVAILABLE, "0-3"),
    ) == [{"start": 5, "end": 8, "procs": "1"}, {"start": 6, "end": 8, "procs": "3"}]


@pytest.mark.parametrize("policy", ["conservative", "dbf", "ujfb"])
@pytest.mark.parametrize(
    ("repair_s", "a", "d_at", "c_at"),
    [
        # At 4 a is planned at 10, when b ends. It keeps this at 6, when c (at 20) and d (at 6) are planned again.
        (None, (10, 20), 6, 20),
        # At 4 a is planned at 6, when 0-1 are back; d beside it at 10; c at 16.
        (2, (6, 16), 10, 16),
    ],
)
def test_a_plan_keeps_its_reservations_and_uses_known_repairs(
    policy: str, repair_s: float | None, a: tuple[float, float], d_at: float, c_at: float
) -> None:
    options: dict[str, Any] = {"on_failure": "requeue_first", "expected_repair_s": repair_s}
    run = run_policy(policy, FOUR, 4, machine_events=outage(4, 6, "0-1"), **options)
    expected = {"a": (0, 4), "b": (0, 10), "dyn!w0.a.1": a, "d": (d_at, d_at + 6), "c": (c_at, c_at + 5)}
    assert times(run) == expected


def test_easy_reserves_for_the_repair() -> None:
    """c needs all four: known to be back at 9, so that d (until 8) is backfilled, and x (until 20) is not."""
    jobs = (
        Workload()
        .job("c", n=4, s=5, at=3, walltime=6, estimate=5)
        .job("d", n=1, s=5, at=3, walltime=6, estimate=5)
        .job("x", n=1, s=17, at=3, walltime=18, estimate=17)
    )
    events = outage(1, 9, "0-1")
    run = run_policy("easy", jobs, 4, machine_events=events, expected_repair_s=8)
    assert times(run) == {"c": (9, 14), "d": (3, 8), "x": (14, 31)}
    run = run_policy("easy", jobs, 4, machine_events=events)
    assert times(run) == {"c": (20, 25), "d": (3, 8), "x": (3, 20)}


@pytest.mark.parametrize("policy", ["conservative", "easy", "dbf", "ujfb"])
def test_a_repair_that_is_late(policy: str) -> None:
    """Expected at 3, the machine is back at 30. Nothing is planned on it in between, and no call is requested."""
    jobs = Workload().job("a", n=2, s=5, at=2, walltime=6).job("b", n=1, s=5, at=4, walltime=6)
    run = run_policy(policy, jobs, 2, machine_events=outage(1, 30, "0"), expected_repair_s=2)
    assert times(run) == {"a": (30, 35), "b": (4, 9)}
    assert run.n_messages < 15
