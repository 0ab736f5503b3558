"""Deadline-based backfilling: equal to its slow twin, and its guarantees, on thousands of workloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from support.examples import examples
from support.outages import outages
from support.twins import SlowDbf, reserved_starts

from pybatsched.core import events as e
from pybatsched.core.decisions import Decision, Requeue
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy
from pybatsched_schedulers.dbf.policy import Dbf, DbfScheduler

N_PROCS = 4


@st.composite
def workloads(draw: st.DrawFn, *, exact: bool = False, deadlines: bool = True, unit: float = 1.0) -> Workload:
    """Make crowded workloads, where about half of the jobs have deadlines, loose and tight ones."""
    workload = Workload()
    at = 0
    for index in range(draw(st.integers(1, 16))):
        at += draw(st.sampled_from([0, 0, 1, 1, 2, 5]))
        run = draw(st.integers(1, 12))
        estimate = run if exact else run + draw(st.sampled_from([0, 0, 0, 1, 4, 10]))
        fields: dict[str, Any] = {}
        if deadlines and draw(st.booleans()):
            fields["max_stay"] = (estimate + draw(st.integers(0, 15) | st.integers(0, 60))) * unit
        workload.job(
            f"{index:02}",
            n=draw(st.integers(1, N_PROCS)),
            s=run * unit,
            at=at * unit,
            estimate=estimate * unit,
            walltime=(estimate + 1) * unit,
            **fields,
        )
    return workload


@st.composite
def option_sets(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "fixpoint": draw(st.sampled_from([True, True, False])),
        "promote": draw(st.sampled_from(["max", "each"])),
        "infeasible": draw(st.sampled_from(["regular", "reject"])),
        "order": draw(st.sampled_from(["fcfs", "fcfs", "sjf", "ljf", "narrowest", "widest"])),
    }


class DbfRun:
    """A run that keeps its policy object."""

    def __init__(self, policy: str | type[Policy], workload: Workload, **options: Any) -> None:
        session = Session(plan_for(policy, **options), checked=True)
        self.fake = FakeBatsim(workload, N_PROCS).run(session.handle)
        self.policy: Any = session.engine.policy
        assert not self.fake.deadlocked

    @property
    def spans(self) -> dict[str, tuple[float | None, float | None, str]]:
        return {job.id: (job.started_at, job.ended_at, job.final_state) for job in self.fake.jobs.values()}

    def end_of(self, job_id: str) -> float:
        ended_at = self.fake.jobs[job_id].ended_at
        assert ended_at is not None
        return ended_at


@examples(600)
@given(workloads() | workloads(exact=True) | workloads(unit=0.1), option_sets())
def test_equals_its_slow_twin(workload: Workload, options: dict[str, Any]) -> None:
    fast, slow = DbfRun("dbf", workload, **options), DbfRun(SlowDbf, workload, **options)
    assert fast.spans == slow.spans
    missed = {job_id for job_id, at in slow.policy.accepted.items() if slow.end_of(job_id) > at}
    assert {text.split()[1] for text in fast.policy.broken_promises()} == missed


def a_late_accepted_job() -> Workload:
    """Make a workload of which one pass leaves job 02 late; the arrival of 07 promotes it, but moves no other job."""
    workload = Workload()
    jobs = [(3, 6, 0), (3, 5, 14), (3, 3, 16), (2, 2, 17), (1, 1, 0), (2, 1, 0), (3, 1, 0), (1, 1, 0)]
    for index, (n, run, max_stay) in enumerate(jobs):
        fields = {"max_stay": max_stay} if max_stay else {}
        workload.job(f"{index:02}", n=n, s=run, estimate=run, walltime=run + 1, **fields)
    return workload


@examples(300)
@given(workloads(), option_sets())
@example(a_late_accepted_job(), {"fixpoint": False, "promote": "max", "infeasible": "regular", "order": "fcfs"})
def test_without_compression_equals_its_slow_twin(workload: Workload, options: dict[str, Any]) -> None:
    fast = DbfRun("dbf", workload, compression=False, **options)
    assert fast.spans == DbfRun(SlowDbf, workload, compression=False, **options).spans


@examples(600)
@given(workloads() | workloads(exact=True) | workloads(unit=0.1), option_sets())
def test_no_accepted_deadline_is_missed(workload: Workload, options: dict[str, Any]) -> None:
    """Nor is a regular job later than the place it was given when it came. For jobs that end by their estimates."""
    options["fixpoint"] = True
    slow = DbfRun(SlowDbf, workload, **options)
    fast = DbfRun("dbf", workload, **options)
    assert list(fast.policy.broken_promises()) == []
    for job_id, deadline_at in slow.policy.accepted.items():
        assert fast.end_of(job_id) <= deadline_at
    for job_id, place in slow.policy.promised.items():
        started_at = fast.fake.jobs[job_id].started_at
        assert started_at is not None
        assert started_at <= place


@examples(300)
@given(workloads(deadlines=False) | workloads(deadlines=False, unit=0.1), option_sets(), st.booleans())
def test_without_deadlines_it_is_conservative(workload: Workload, options: dict[str, Any], compression: bool) -> None:
    def results_of(run: FakeBatsim) -> dict[str, tuple[float | None, str]]:
        return {job.id: (job.started_at, str(job.procs)) for job in run.jobs.values()}

    plain = run_policy("conservative", workload, N_PROCS, compression=compression, order=options["order"])
    assert results_of(run_policy("dbf", workload, N_PROCS, compression=compression, **options)) == results_of(plain)


@examples(200)
@given(workloads(exact=True))
def test_regular_jobs_are_not_delayed_by_waiting_jobs_with_distant_deadlines(workload: Workload) -> None:
    """With deadlines that are never near, a regular job's place ignores every job that waits with one."""
    seen: list[tuple[float, float]] = []

    class Noted(DbfScheduler):
        def plan(self, now: float) -> Iterator[Decision]:
            yield from super().plan(now)
            assert not self._promises or set(reserved_starts(self._reservations)).isdisjoint(self._promises), (
                "nobody is ever promoted"
            )
            regular = [
                (place, job)
                for job_id, place in reserved_starts(self._reservations).items()
                for job in [self._entries[job_id][2]]
            ]
            alone = self.expected_profile(now)
            for place, job in sorted(regular, key=lambda found: self._entries[found[1].id]):
                seen.append((place, alone.earliest(job.n_procs, self.span_s(job), now)))
                alone.take(job.n_procs, place, place + self.span_s(job))

    for job in workload.jobs:
        if "max_stay" in job:
            job["max_stay"] = 1e6
    DbfRun(type("NotedDbf", (Dbf,), {"scheduler": Noted}), workload)
    assert all(place == alone for place, alone in seen)


class Watched(DbfScheduler):
    """Checks its plan after every message."""

    def plan(self, now: float) -> Iterator[Decision]:
        finals = dict(reserved_starts(self._reservations))
        yield from super().plan(now)
        for at, n_free in self._with_provisional().steps():
            assert 0 <= n_free <= self.partition.n_procs, f"{n_free} processors free at {at}"
        provisional = self._accepted.places
        assert set(reserved_starts(self._reservations)).isdisjoint(provisional)
        assert set(reserved_starts(self._reservations)) | set(provisional) == set(self._entries)
        assert not self._wanted
        assert set(provisional) <= set(self._promises)
        assert [(place, job.id) for place, _, job in self._accepted.by_place] == sorted(
            ((place, job_id) for job_id, place in provisional.items()),
            key=lambda found: (found[0], self._entries[found[1]][1]),
        )
        running = {job.id for job in self.partition.running_jobs}
        assert set(finals) <= set(reserved_starts(self._reservations)) | running, (
            "a final place is left by starting only"
        )


class WatchedDbf(Dbf):
    scheduler = Watched


@examples(200)
@given(workloads() | workloads(exact=True), option_sets(), st.booleans())
def test_the_plan_is_consistent_after_every_message(
    workload: Workload, options: dict[str, Any], compression: bool
) -> None:
    DbfRun(WatchedDbf, workload, compression=compression, **options)


@examples(200)
@given(workloads(), outages(N_PROCS, 3), st.lists(st.integers(1, 30), min_size=16, max_size=16), option_sets())
def test_all_jobs_end_with_machine_failures_and_wrong_estimates(
    workload: Workload, events: list[tuple[float, str, str]], runs: list[int], options: dict[str, Any]
) -> None:
    """Overruns and lost machines may break deadlines, which is reported; nothing hangs and no job is lost."""
    for job, run in zip(workload.jobs, runs, strict=False):
        job["profile"] = f"d{run}"
        workload.profiles[job["profile"]] = {"type": "delay", "delay": run}
        job["walltime"] = max(run, job["estimate"]) + 1
    session = Session(plan_for("dbf", **options), checked=True)
    played = FakeBatsim(workload, N_PROCS, machine_events=events).run(session.handle)
    assert not played.deadlocked
    assert {job.final_state for job in played.jobs.values()} <= {e.COMPLETED_SUCCESSFULLY, "REJECTED"}
    promises = {text.split()[1] for text in session.engine.policy.broken_promises()}
    if options["infeasible"] == "reject":  # then each job that ran was accepted
        late = {
            job.id
            for job in played.jobs.values()
            if job.ended_at is not None and job.ended_at > job.fields["subtime"] + job.fields.get("max_stay", 1e9)
        }
        assert promises == late


@pytest.mark.parametrize("compression", [True, False])
@given(workload=workloads())
def test_a_regular_job_is_placed_at_its_estimated_start(workload: Workload, compression: bool) -> None:
    """The estimate of a regular job is what the plan gives it, if it comes."""
    answers: list[tuple[float | None, float | None]] = []

    class Asked(Dbf):
        def on_job_submitted(self, job: Any, now: float) -> None:
            regular = job.deadline_at() is None
            before = self.local.estimate(job.n_procs, self.local.span_s(job), now) if regular else None
            super().on_job_submitted(job, now)
            after = self.local.planned_start(job, now)
            if regular:
                answers.append((before, after))

    DbfRun(Asked, workload, compression=compression)
    assert all(before == after for before, after in answers)


def test_a_new_job_that_ranks_first_causes_no_deadlock() -> None:
    """By its size job 3 comes before job 0, behind which it was placed: nothing may be left waiting for no event."""
    jobs = (
        Workload()
        .job("0", n=4, s=8, at=5, estimate=9, walltime=10, max_stay=52)
        .job("1", n=1, s=5, at=5, estimate=5, walltime=6, max_stay=20)
        .job("3", n=1, s=9, at=6, estimate=10, walltime=11, max_stay=53)
        .job("4", n=1, s=10, at=6, estimate=10, walltime=11)
    )
    DbfRun("dbf", jobs, order="narrowest")


def starts(run: FakeBatsim) -> dict[str, float | None]:
    return {job.id.removeprefix("w0!"): job.started_at for job in run.jobs.values()}


@pytest.mark.parametrize("policy", ["conservative", "dbf"])
def test_a_promised_start_is_kept_while_an_earlier_job_is_delayed(policy: str) -> None:
    """A takes longer than its estimate, and E1 waits for it; C starts at 100 although no job ends then."""
    jobs = (
        Workload()
        .job("A", n=5, s=1000, estimate=10, walltime=2000)
        .job("X", n=3, s=50, estimate=100, walltime=200)
        .job("E1", n=4, s=200, at=1, estimate=200, walltime=300)
        .job("C", n=3, s=10, at=2, estimate=10, walltime=20)
    )
    assert starts(run_policy(policy, jobs, 8, compression=False))["C"] == 100


def test_a_missed_deadline_does_not_stop_compression() -> None:
    """D misses its deadline while a machine is unavailable; C still uses the processors that B frees."""
    jobs = (
        Workload()
        .job("A", n=1, s=1, estimate=1, walltime=2)
        .job("B", n=3, s=14, at=1, estimate=109, walltime=200)
        .job("D", n=4, s=2, at=1, estimate=2, walltime=3, deadline=200)
        .job("C", n=3, s=10, at=3, estimate=10, walltime=20)
    )
    away = [(2.0, e.MACHINES_UNAVAILABLE, "3"), (500.0, e.MACHINES_AVAILABLE, "3")]
    assert starts(run_policy("dbf", jobs, N_PROCS, machine_events=away)) == {"A": 0, "B": 1, "C": 15, "D": 500}


def test_a_missed_deadline_breaks_no_other_deadline() -> None:
    """L takes longer than its estimate, so D1 is late in any case; D2 need not be."""
    jobs = (
        Workload()
        .job("L", n=4, s=20, estimate=10, walltime=30)
        .job("D1", n=4, s=5, at=1, estimate=5, walltime=6, deadline=15)
        .job("D2", n=4, s=5, at=2, estimate=5, walltime=6, deadline=27)
        .job("t", n=4, s=1, at=12, estimate=1, walltime=2, deadline=1000)
    )
    run = DbfRun("dbf", jobs)
    assert starts(run.fake) == {"L": 0, "D2": 20, "D1": 25, "t": 30}
    assert [text.split()[1] for text in run.policy.broken_promises()] == ["w0!D1"]


def test_an_accepted_job_that_is_rejected_is_a_broken_promise() -> None:
    jobs = (
        Workload()
        .job("A", n=4, s=10, walltime=11)
        .job("D", n=4, s=5, at=1, walltime=6, deadline=30)
        .job("last", n=1, s=1, at=50, walltime=2)
    )
    session = Session(plan_for("dbf"), checked=True)
    FakeBatsim(jobs, N_PROCS, machine_events=[(2.0, e.MACHINES_UNAVAILABLE, "3")]).run(session.handle)
    (promises,) = session.engine.policy.broken_promises()
    assert promises.startswith("job w0!D was accepted with the deadline 30.0 and is rejected at")


def test_a_refused_job_can_be_withdrawn() -> None:
    class Asked(Dbf):
        def on_job_submitted(self, job: Any, now: float) -> None:
            super().on_job_submitted(job, now)
            self.local.planned_start(job, now)
            if job.id == "w0!b":
                self.local.withdraw(job, now)
                self.local.submit(job, now)

    jobs = Workload().job("a", n=4, s=9, walltime=10).job("b", n=1, s=5, at=1, walltime=6, deadline=12)
    run = run_policy(Asked, jobs, N_PROCS, infeasible="reject")
    assert {job.id: job.final_state for job in run.jobs.values()} == {
        "w0!a": e.COMPLETED_SUCCESSFULLY,
        "w0!b": "REJECTED",
    }


def test_a_promise_to_a_job_that_is_requeued_and_then_rejected_is_broken() -> None:
    """It is killed at 1 and comes back too late for its deadline: it is rejected by the option, and reported."""

    class Pushes(Dbf):
        needs = frozenset({BatsimFeature.DYNAMIC_JOBS})
        pushed = False

        def on_job_killed(self, job: Any, now: float) -> None:
            super().on_job_killed(job, now)
            self.local.submit(job, now)

        def decide(self, now: float) -> Iterator[Decision]:
            if now >= 1 and not self.pushed:
                self.pushed = True
                yield Requeue("w0!d")
            yield from super().decide(now)

    jobs = Workload().job("d", n=4, s=5, walltime=6, estimate=5, deadline=5).job("a", n=4, s=1, at=1, walltime=2)
    session = Session(plan_for(Pushes, infeasible="reject"), checked=True)
    run = FakeBatsim(jobs, N_PROCS, config={"dynamic-jobs-enabled": True}).run(session.handle)
    assert run.jobs["dyn!w0.d.1"].final_state == "REJECTED"
    (promises,) = session.engine.broken_promises
    assert promises == "job w0!d was accepted with the deadline 5.0 and is rejected at 1.0"
