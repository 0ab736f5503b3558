"""Reservations of hosts, worked out by hand: what starts before, in and after them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from pybatsched.core import decisions as d, events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.engine import Engine
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.policy import Policy
from pybatsched.core.replacement import replace_policy
from pybatsched.errors import InputError, PolicyError
from pybatsched.runs.reservations import read_reservations
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy


def reserved(start: float, duration: float, hosts: Any, **more: Any) -> dict[str, Any]:
    return {"name": "r", "start": start, "duration": duration, "hosts": hosts, **more}


def times(run: FakeBatsim) -> dict[str, tuple[Any, ...]]:
    assert not run.deadlocked
    return {job.id.removeprefix("w0!"): (job.started_at, job.ended_at, str(job.procs)) for job in run.jobs.values()}


def starts(run: FakeBatsim) -> dict[str, float | None]:
    return {job_id: found[0] for job_id, found in times(run).items()}


#: The whole machine is reserved from 20 to 30. a ends before; b would not; c fits before it.
JOBS = (
    Workload()
    .job("a", n=2, s=10, walltime=11, estimate=10)
    .job("b", n=2, s=15, at=1, walltime=16, estimate=15)
    .job("c", n=1, s=8, at=2, walltime=9, estimate=8)
)


@pytest.mark.parametrize(
    ("policy", "b_at", "c_at"),
    [
        ("fcfs", 30, 45),  # b would overlap from 10 on, and c does not overtake it
        *((policy, 30, 10) for policy in ("easy", "conservative", "dbf", "ujfb")),  # c ends at 18, and is backfilled
    ],
)
def test_jobs_before_a_reservation(policy: str, b_at: float, c_at: float) -> None:
    run = run_policy(policy, JOBS, 2, host_reservations=[reserved(20, 10, 2)])
    assert starts(run) == {"a": 0, "b": b_at, "c": c_at}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "published_predictsim", "ujf", "ujfb", "dbf"])
def test_jobs_beside_a_reservation(policy: str) -> None:
    """Processors 0 and 1 are reserved: a long job goes to 2 and 3, a short one to 0."""
    jobs = Workload().job("long", n=2, s=50, walltime=51).job("short", n=1, s=15, walltime=16)
    found = times(run_policy(policy, jobs, 4, host_reservations=[reserved(20, 10, "0-1")]))
    assert found["long"] == (0, 50, "2-3")
    assert found["short"][:2] == (0, 15)


@pytest.mark.parametrize(
    ("conflict", "expected"),
    [
        ("wait", {"a": (30, 80, "0-1")}),
        ("requeue", {"a": (0, 20, "0-1"), "dyn!w0.a.1": (30, 80, "0-1")}),
        ("kill", {"a": (0, 20, "0-1")}),
    ],
)
def test_jobs_in_the_way(conflict: str, expected: dict[str, Any]) -> None:
    jobs = Workload().job("a", n=2, s=50, walltime=51)
    run = run_policy("easy", jobs, 2, host_reservations=[reserved(20, 10, "0-1", conflict=conflict)])
    assert times(run) == expected


@pytest.mark.parametrize("rule", [None, "requeue_first"])
@pytest.mark.parametrize("conflict", ["requeue", "kill"])
def test_kills_for_reservations_are_no_failures(conflict: str, rule: str | None) -> None:
    """20 s on two processors are lost."""
    jobs = Workload().job("a", n=2, s=50, walltime=51)
    tables = [reserved(20, 10, "0-1", conflict=conflict)]
    session = Session(plan_for("easy", host_reservations=tables, on_failure=rule), checked=True)
    run = FakeBatsim(jobs, 2, {"dynamic-jobs-enabled": True}).run(session.handle)
    found = session.engine.figures
    assert (found["n_reservation_kills"], found["lost_work_s"], found.get("n_failure_kills", 0)) == (1, 40, 0)
    assert not any("failures=" in job.metadata for job in run.jobs.values())


def test_an_overrun_delays_only_what_waits_for_its_processors() -> None:
    """a runs until 25 instead of 15, and its host is free at 30, when the reservation ends."""
    jobs = (
        Workload()
        .job("a", n=1, s=25, walltime=99, estimate=15)
        .job("b", n=1, s=5, at=21, walltime=6, estimate=5)
        .job("c", n=2, s=5, at=22, walltime=6, estimate=5)
    )
    run = run_policy("easy", jobs, 2, host_reservations=[reserved(20, 10, "0")])
    assert times(run) == {"a": (0, 25, "0"), "b": (21, 26, "1"), "c": (30, 35, "0-1")}


@pytest.mark.parametrize("conflict", ["requeue", "kill"])
def test_a_reservation_that_begins_when_another_ends(conflict: str) -> None:
    """a was there before the first one was announced, and runs on; the second one kills it at 20."""
    first = reserved(10, 10, 2, name="first", notice=1)
    tables = [first, reserved(20, 10, 2, name="second", conflict=conflict)]
    run = run_policy("easy", Workload().job("a", n=2, s=50, walltime=51), 2, host_reservations=tables)
    rest = {"dyn!w0.a.1": (30, 80, "0-1")} if conflict == "requeue" else {}
    assert times(run) == {"a": (0, 20, "0-1"), **rest}


@pytest.mark.parametrize(
    ("n_procs", "jobs", "tables", "expected"),
    [
        # A job may end when the reservation begins, and not later.
        (2, [("a", 2, 20, 0)], [reserved(20, 10, 2)], {"a": 0}),
        (2, [("a", 2, 20.5, 0)], [reserved(20, 10, 2)], {"a": 30}),
        # Two reservations of the same time.
        (4, [("a", 4, 15, 10)], [reserved(20, 10, "2-3"), reserved(20, 10, "0-1") | {"name": "other"}], {"a": 30}),
        # At 0 the reservation is not known, and a starts; b comes when it is.
        (2, [("a", 1, 50, 0), ("b", 1, 50, 5)], [reserved(20, 10, 2, notice=15)], {"a": 0, "b": 30}),
        # Every 20 s for 10 s: a job of 10 s fits between two; one of 12 s waits for the end of all.
        (1, [("a", 1, 12, 0), ("b", 1, 10, 0)], [reserved(0, 10, 1, every=20, count=3)], {"b": 10, "a": 50}),
    ],
)
def test_jobs_around_reservations(
    n_procs: int, jobs: list[tuple[str, int, float, float]], tables: list[Any], expected: dict[str, float]
) -> None:
    workload = Workload()
    for name, n, s, at in jobs:
        workload.job(name, n=n, s=s, at=at, walltime=s + 1, estimate=s)
    assert starts(run_policy("easy", workload, n_procs, host_reservations=tables)) == expected


def test_jobs_that_ask_for_a_reservation() -> None:
    """Two jobs of alice run in it, in order; the third does not fit; others may not use it."""
    own: dict[str, Any] = {"reservation": "r", "user": "alice", "walltime": 9}
    jobs = (
        Workload()
        .job("x", n=2, s=6, estimate=6, **own)
        .job("y", n=2, s=4, at=1, estimate=4, **own)
        .job("z", n=2, s=4, at=1, estimate=4, **own)
        .job("bob", n=1, s=4, at=2, estimate=4, **{**own, "user": "bob"})
        .job("wide", n=3, s=4, at=2, estimate=4, **own)
        .job("other", n=2, s=4, at=2, estimate=4, walltime=9)
        .job("unknown", n=2, s=4, at=2, estimate=4, **{**own, "reservation": "q"})
    )
    run = run_policy("easy", jobs, 4, host_reservations=[reserved(20, 10, "0-1", users=["alice"])])
    assert times(run) == {
        "x": (20, 26, "0-1"),
        "y": (26, 30, "0-1"),
        "z": (None, None, ""),
        "bob": (None, None, ""),
        "wide": (None, None, ""),
        "other": (2, 6, "0-1"),
        "unknown": (None, None, ""),
    }
    assert {job.id for job in run.jobs.values() if job.final_state == "REJECTED"} == {
        f"w0!{name}" for name in ("z", "bob", "wide", "unknown")
    }


def test_jobs_that_a_later_window_has_room_for() -> None:
    """A window of 10 s every 20 s, three times: w, x and y of 8 s run in one each. None is left for z.

    If x runs on past its estimate until the window is over, y waits for the next one.
    """
    own: dict[str, Any] = {"reservation": "r", "user": "alice", "n": 2, "walltime": 20}
    jobs = Workload()
    for name in ("w", "x", "y", "z"):
        jobs.job(name, s=8, estimate=8, **own)
    tables = [reserved(10, 10, 2, users=["alice"], every=20, count=3)]
    assert starts(run_policy("easy", jobs, 2, host_reservations=tables)) == {"w": 10, "x": 30, "y": 50, "z": None}
    jobs = Workload().job("x", s=12, estimate=8, **own).job("y", s=8, estimate=8, **own)
    assert starts(run_policy("easy", jobs, 2, host_reservations=tables)) == {"x": 10, "y": 30}


def test_a_job_without_a_walltime_runs_in_no_reservation() -> None:
    jobs = Workload().job("x", n=1, s=6, reservation="r", user="alice")
    session = Session(plan_for("easy", host_reservations=[reserved(20, 10, 1, users=["alice"])]), checked=True)
    FakeBatsim(jobs, 1).run(session.handle)
    assert list(session.engine.rejections) == ["has no walltime and no estimate; reservation {} needs one"]


@pytest.mark.parametrize("name", [["r"], {"r": 1}, 3])
def test_a_field_that_is_no_name(name: Any) -> None:
    jobs = Workload().job("x", n=1, s=6, walltime=9, reservation=name, user="alice")
    run = run_policy("fcfs", jobs, 1, host_reservations=[reserved(20, 10, 1, users=["alice"])])
    assert [job.final_state for job in run.jobs.values()] == ["REJECTED"]


def test_accounts() -> None:
    jobs = Workload().job("x", n=1, s=6, estimate=6, walltime=9, reservation="r", account="hpc")
    assert starts(run_policy("fcfs", jobs, 1, host_reservations=[reserved(20, 10, 1, accounts=["hpc"])])) == {"x": 20}


def test_a_job_of_a_reservation_whose_machine_fails() -> None:
    jobs = Workload().job("x", n=1, s=6, estimate=6, walltime=9, reservation="r", user="alice")
    outage = [(22, e.MACHINES_UNAVAILABLE, "0"), (23, e.MACHINES_AVAILABLE, "0")]
    tables = [reserved(20, 10, "0-1", users=["alice"])]
    run = run_policy("easy", jobs, 2, machine_events=outage, host_reservations=tables, on_failure="requeue_first")
    assert times(run) == {"x": (20, 22, "0"), "dyn!w0.x.1": (22, 28, "1")}


def test_a_host_that_fails_in_a_reservation_is_not_back_at_its_end() -> None:
    """0-1 are reserved until 20, and 0 is down from 12 to 112: b waits for 1 and 2 only, and c does not delay it."""
    jobs = (
        Workload()
        .job("a", n=1, s=5, at=13, walltime=6, estimate=5)
        .job("b", n=2, s=5, at=13, walltime=6, estimate=5)
        .job("c", n=1, s=200, at=13.5, walltime=201, estimate=200)
    )
    outage = [(12, e.MACHINES_UNAVAILABLE, "0"), (112, e.MACHINES_AVAILABLE, "0")]
    run = run_policy("easy", jobs, 3, machine_events=outage, host_reservations=[reserved(10, 10, "0-1")])
    assert starts(run) == {"a": 13, "b": 20, "c": 25}


class Ignorant(Policy):
    """Starts jobs on the lowest free processors, whatever is reserved."""

    def on_begin(self, cluster: Cluster) -> None:
        self.partition = cluster.add_partition("all", cluster.procs)
        self.jobs: list[Job] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.jobs.append(job)

    def decide(self, now: float) -> Iterable[d.Decision]:
        while self.jobs and self.jobs[0].n_procs <= self.partition.n_free:
            job = self.jobs.pop(0)
            yield d.ExecuteJob(job.id, self.partition.free.first(job.n_procs))


class Stubborn(Ignorant):
    takes_any_procs = False


def test_a_policy_gets_other_processors() -> None:
    jobs = Workload().job("a", n=2, s=50, walltime=51)
    tables = [reserved(20, 10, "0-1")]
    assert times(run_policy(Ignorant, jobs, 4, host_reservations=tables)) == {"a": (0, 50, "2-3")}
    assert times(run_policy(Stubborn, jobs, 4, host_reservations=tables)) == {"a": (30, 80, "0-1")}


class Snapshot(Ignorant):
    """Reads the free processors once, and starts jobs on the lowest of them."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        free = self.partition.free
        found: list[d.Decision] = []
        while self.jobs and self.jobs[0].n_procs <= len(free):
            job = self.jobs.pop(0)
            procs = free.first(job.n_procs)
            free = free - procs
            found.append(d.ExecuteJob(job.id, procs))
        return found


def test_a_policy_that_reads_the_free_processors_once() -> None:
    """a is moved to 2-3, and b, which the policy starts there, gets 0-1. In a second run c is moved to 7."""
    jobs = Workload().job("a", n=2, s=50, walltime=51).job("b", n=2, s=10, walltime=11)
    found = times(run_policy(Snapshot, jobs, 4, host_reservations=[reserved(20, 10, "0-1")]))
    assert found == {"a": (0, 50, "2-3"), "b": (0, 10, "0-1")}
    jobs.job("c", n=1, s=50, walltime=51).job("e", n=2, s=10, walltime=11).job("f", n=2, s=10, walltime=11)
    found = times(run_policy(Snapshot, jobs, 9, host_reservations=[reserved(20, 10, "0-1 4-6")]))
    assert {name: one[0] for name, one in found.items()} == dict.fromkeys("abcef", 0)
    assert found["c"] == (0, 50, "7")


class Wrong(Snapshot):
    """Starts its second job on a text."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        for nth, decision in enumerate(super().decide(now)):
            assert isinstance(decision, d.ExecuteJob)
            text: Any = "2-3"
            yield d.ExecuteJob(decision.job_id, text) if nth else decision


def test_wrong_processors_after_a_move() -> None:
    jobs = Workload().job("a", n=2, s=50, walltime=51).job("b", n=2, s=10, walltime=11)
    with pytest.raises(PolicyError, match="expected an IntervalSet"):
        run_policy(Wrong, jobs, 4, host_reservations=[reserved(20, 10, "0-1")])


def test_a_start_is_delayed_if_no_processors_are_left() -> None:
    """a would overlap and starts at 30; b, which the policy starts behind it, ends before."""
    jobs = Workload().job("a", n=2, s=50, walltime=51).job("b", n=2, s=10, at=1, walltime=11)
    session = Session(plan_for(Ignorant, host_reservations=[reserved(20, 10, 2)]), checked=True)
    run = FakeBatsim(jobs, 2).run(session.handle)
    assert starts(run) == {"a": 30, "b": 1}
    assert session.engine.figures["n_delayed_starts"] == 1


class Repeating(Ignorant):
    """Starts all waiting jobs whenever it is called, those of earlier calls too."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        self.jobs = [job for job in self.jobs if job.state is JobState.WAITING]
        for job in self.jobs:
            if job.n_procs <= self.partition.n_free:
                yield d.ExecuteJob(job.id, self.partition.free.first(job.n_procs))


def test_a_start_is_delayed_once_however_often_it_is_decided() -> None:
    """a is started at 0, and again when b and c arrive, which end before the reservation."""
    jobs = Workload().job("a", n=1, s=50, walltime=51)
    for name, at in (("b", 1), ("c", 12)):
        jobs.job(name, n=1, s=5, at=at, walltime=6)
    session = Session(plan_for(Repeating, host_reservations=[reserved(20, 10, 2)]), checked=True)
    run = FakeBatsim(jobs, 2).run(session.handle)
    assert starts(run) == {"a": 30, "b": 1, "c": 12}
    assert session.engine.figures["n_delayed_starts"] == 1


@pytest.mark.parametrize("rule", ["requeue_first", "requeue_last", "resubmit"])
def test_requeued_jobs_keep_their_order_in_a_reservation(rule: str) -> None:
    """a and b run in the reservation, and c and d wait for it. When a's and b's host fails, both come back before c."""
    jobs = Workload()
    for name in "abcd":
        jobs.job(name, n=1, s=10, walltime=11, reservation="r", user="u")
    table = reserved(0, 100, "0-1", users=["u"])
    events = [(4, e.MACHINES_UNAVAILABLE, "0-1"), (5, e.MACHINES_AVAILABLE, "0-1")]
    run = run_policy("easy", jobs, 2, machine_events=events, host_reservations=[table], on_failure=rule)
    assert starts(run) == {"a": 0, "b": 0, "dyn!w0.a.1": 5, "dyn!w0.b.1": 5, "c": 15, "d": 15}


@pytest.mark.parametrize(("rule", "first"), [("requeue_last", "dyn!w0.a.1"), ("resubmit", "w0!b")])
def test_a_reservation_resubmits_jobs_by_the_rule_for_failures(rule: str, first: str) -> None:
    """a is killed at 20, and b has waited since 5. By the longest wait, a resubmitted job comes second."""
    jobs = Workload().job("a", n=2, s=50, walltime=51).job("b", n=2, s=5, at=5, walltime=60)
    tables = [reserved(20, 10, 2, conflict="requeue")]
    run = run_policy("easy", jobs, 2, host_reservations=tables, on_failure=rule, order="-wait")
    assert run.jobs[first].started_at == 30


def test_why_a_job_waits() -> None:
    session = Session(plan_for("easy", host_reservations=[reserved(20, 10, 2)]), checked=True)
    seen: list[str] = []

    def handle(raw: bytes) -> bytes:
        reply = session.handle(raw)
        seen.extend(
            d.reason_text(session.engine.why_waiting(job, session.engine.now))
            for job in session.engine.jobs.alive.values()
            if job.started_at is None
        )
        return reply

    FakeBatsim(Workload().job("a", n=2, s=50, walltime=51), 2).run(handle)
    assert seen[0] == "would overlap reservation r from 20.0 to 30.0"


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ([reserved(0, 10, "0-9")], "reservation r: hosts: processors 4-9 do not exist"),
        ([reserved(0, 10, 5)], "reservation r: hosts: expected at most 4, found 5"),
        ([reserved(0, 10, ["nowhere"])], "reservation r: hosts: unknown host 'nowhere'"),
        ([reserved(0, 10, "x")], "reservation r: hosts: expected processors"),
        ([reserved(0, 10, "0"), reserved(9, 1, "0-1", name="s")], "reservation s: processors 0 are reserved by r"),
        ([reserved(0, 10, "0", every=5, count=2)], "reservation r: every: expected at least its duration"),
        ([reserved(0, 10, "0"), reserved(20, 10, "0")], "reservation r: name: another reservation has it too"),
        ([reserved(0, 10, True)], "hosts"),
        ([reserved(0, 10, 1, count=3)], "expected the member every as well: the time from one start to the next"),
        ([reserved(0, 0, "0")], "duration"),
        ([reserved(-1, 5, "0")], "start"),
        ([reserved(0, 5, 0)], "expected a number of hosts, processors such as"),
        ([reserved(0, 5, 1, conflict="fight")], "conflict"),
    ],
)
def test_wrong_reservations(tables: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(InputError, match=text):
        run_policy("easy", JOBS, 4, host_reservations=tables)


def test_another_policy_with_wrong_reservations_changes_nothing() -> None:
    begins = e.SimulationBegins(n_resources=4, n_compute=4, config={"dynamic-jobs-enabled": True}, timestamp=0.0)
    engine = Engine(plan_for("easy", host_reservations=[reserved(0, 50, "0-1")]).make, "easy", checked=True)
    engine.step(0.0, [begins])
    before = engine.policy, engine.cluster.partitions, engine.tables["reservations"]
    with pytest.raises(InputError, match="do not exist"):
        replace_policy(engine, begins, plan_for("fcfs", host_reservations=[reserved(0, 10, "9")]).make, "fcfs")
    assert (engine.policy, engine.cluster.partitions, engine.tables["reservations"]) == before
    assert str(engine.cluster.reserved) == "0-1"


def test_a_policy_without_reservations_forgets_those_of_the_last_one() -> None:
    begins = e.SimulationBegins(n_resources=4, n_compute=4, config={"dynamic-jobs-enabled": True}, timestamp=0.0)
    engine = Engine(plan_for("easy", host_reservations=[reserved(0, 50, "0-1")]).make, "easy", checked=True)
    engine.step(0.0, [begins])
    replace_policy(engine, begins, plan_for("fcfs", expected_repair_s=5).make, "fcfs")
    engine.step(1.0, [e.Notify(e.MACHINES_UNAVAILABLE, procs=IntervalSet([0]), timestamp=1.0)])
    (partition,) = engine.cluster.partitions.values()
    assert partition.returning == [(6.0, IntervalSet([0]))]


def test_a_file() -> None:
    text = '# weekly\n[[reservation]]\nname = "m"\nstart = "1d"\nduration = "8h"\nhosts = 4\n'
    assert read_reservations(text, "r.toml") == [
        {"name": "m", "start": 86400.0, "duration": 28800.0, "hosts": 4, "source": "r.toml: line 2"}
    ]
    for wrong, message in (
        (text.replace("8h", "0"), "r.toml: line 5: reservation: duration: expected more than 0, found 0.0"),
        (
            text.replace("8h", "2x"),
            "line 5: reservation: duration: expected seconds, or a number with m, h, d or w as in",
        ),
        (text.replace("duration", "length"), "r.toml: line 2: reservation: duration is missing"),
        (text + 'evry = "3h"\n', "r.toml: line 7: reservation: unknown key 'evry'; did you mean 'every'?"),
        (text + 'users = "alice"\n', "line 7: reservation: users: expected a list of texts such as"),
        (text + text.replace('"m"', '""'), "r.toml: line 9: reservation: name: expected a text that is not empty"),
        (
            text.replace("= 4", "= true"),
            "r.toml: line 6: reservation: hosts: expected a number of hosts, processors such",
        ),
        (
            text.replace("= 4", "= [1, 2]"),
            "r.toml: line 6: reservation: hosts: expected a number of hosts, processors such",
        ),
        (text + "count = 2\n", "r.toml: line 7: reservation: count: expected the member every as well"),
        (
            text + 'every = "2d"\n',
            "r.toml: line 2: reservation: count: expected 2 or more windows, because every is given",
        ),
        (text + "[other]\n", "r.toml: expected tables"),
        ("[[reservation", "r.toml: "),
    ):
        with pytest.raises(InputError, match=re.escape(message)):
            read_reservations(wrong, "r.toml")
