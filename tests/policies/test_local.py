"""Local schedulers: the order of jobs and the choice of processors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.twins import reserved_starts

from pybatsched.core.cluster import Partition
from pybatsched.core.decisions import Decision
from pybatsched.core.instants import TICK, instant
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.errors import InputError, PolicyError
from pybatsched.policies.availability import AvailabilityProfile
from pybatsched.policies.local_scheduler import LocalPolicy
from pybatsched.testing import FakeBatsim, Workload, run_policy
from pybatsched_schedulers.conservative import Conservative, ConservativeScheduler
from pybatsched_schedulers.dbf.policy import Dbf
from pybatsched_schedulers.easy import Easy
from pybatsched_schedulers.fcfs import Fcfs, FcfsScheduler
from pybatsched_schedulers.ujfb.policy import Ujf

ALL: list[type[LocalPolicy]] = [Fcfs, Easy, Conservative, Dbf]


def started(run: FakeBatsim) -> dict[str, tuple[float | None, str]]:
    return {job.id.removeprefix("w0!"): (job.started_at, str(job.procs)) for job in run.jobs.values()}


def starts(run: FakeBatsim) -> dict[str, float | None]:
    return {name: at for name, (at, _) in started(run).items()}


@pytest.mark.parametrize("policy", [*ALL, Ujf])
def test_urgent_jobs_are_first_in_the_order_urgent_first(policy: type[LocalPolicy]) -> None:
    jobs = Workload().job("a", n=8, s=5, walltime=9, estimate=5)
    for name, urgent in (("b", False), ("c", True), ("d", False), ("e", True)):
        jobs.job(name, n=8, s=5, at=1, walltime=9, estimate=5, urgent=urgent)
    options: dict[str, Any] = {} if policy is Ujf else {"order": "urgent_first"}
    assert starts(run_policy(policy, jobs, 8, **options)) == {"a": 0, "c": 5, "e": 10, "b": 15, "d": 20}


def test_an_invalid_urgent_field_is_an_error() -> None:
    jobs = Workload().job("a", n=1, s=5, walltime=9, urgent="true")
    with pytest.raises(InputError, match="job w0!a, field urgent: expected true or false, found 'true'"):
        run_policy(Ujf, jobs, 8)


def test_a_plan_without_yield_is_an_error() -> None:
    class Lazy(LocalPolicy):
        scheduler: ClassVar[Any] = type("LazyScheduler", (FcfsScheduler,), {"plan": lambda _self, _now: None})

    with pytest.raises(PolicyError) as caught:
        run_policy(Lazy, Workload().job("a", n=1, s=5), 8)
    assert str(caught.value) == (
        "policy LazyScheduler broke the rule 'well-formed': plan returned None; expected decisions: "
        "write `yield self.start(entry, reason)`, or return a list"
    )


class VipFirst:
    def on_job_submitted(self: Any, job: Job, now: float) -> None:
        self.local.submit(job, now, front="vip" in job.id)


def in_front(policy: type[LocalPolicy], jobs: Workload, n_procs: int, **options: Any) -> dict[str, Any]:
    return starts(run_policy(type("VipFirstPolicy", (VipFirst, policy), {}), jobs, n_procs, **options))


@pytest.mark.parametrize("order", ["fcfs", "sjf", "widest"])
@pytest.mark.parametrize("policy", ALL)
def test_a_job_put_in_front_is_first_in_any_order(policy: type[LocalPolicy], order: str) -> None:
    jobs = Workload().job("a", n=8, s=5, walltime=6, estimate=5)
    for name, s in (("b", 1), ("c", 2), ("vip1", 20), ("d", 3), ("vip2", 9)):
        jobs.job(name, n=8, s=s, at=1, walltime=s + 1, estimate=s)
    found = in_front(policy, jobs, 8, order=order)
    assert (found["vip2"], found["vip1"]) == (5, 14)
    assert {found[name] for name in "bcd"} == {34, 35, 37} if order == "sjf" else found["d"] == 37


def behind_a(*others: tuple[str, float, int, float]) -> Workload:
    jobs = Workload().job("a", n=4, s=10, walltime=11, estimate=10)
    for name, at, n, s in others:
        jobs.job(name, n=n, s=s, at=at, walltime=s + 1, estimate=s)
    return jobs


@pytest.mark.parametrize("compression", [True, False])
@pytest.mark.parametrize(
    ("others", "expected"),
    [
        # b and c were to start at 10, side by side; there is room for vip and b, so only c moves back.
        ([("b", 1, 2, 10), ("c", 2, 1, 30), ("vip", 3, 2, 5)], {"vip": 10, "b": 10, "c": 15}),
        # All places were 10 (b, c) and 20 (d, e); vip takes the first ten seconds, and all others move by as much.
        ([("b", 1, 2, 10), ("c", 2, 2, 10), ("d", 3, 4, 5), ("e", 4, 1, 5), ("vip", 5, 4, 10)],
         {"vip": 10, "b": 20, "c": 20, "d": 30, "e": 35}),
        # It fits beside all others, and no job moves.
        ([("b", 1, 3, 10), ("c", 2, 4, 5), ("vip", 3, 1, 10)], {"b": 10, "vip": 10, "c": 20}),
    ],
)  # fmt: skip
def test_a_job_in_front_moves_other_jobs_only_if_needed(
    others: list[Any], expected: dict[str, float], compression: bool
) -> None:
    assert in_front(Conservative, behind_a(*others), 4, compression=compression) == {"a": 0, **expected}


class Fussy:
    """Takes no processor below 2 for jobs called fussy, and reports when it could not."""

    def pick(self: Any, job: Job, now: float) -> IntervalSet | None:
        free = self.partition.free - IntervalSet.parse("0-1") if "fussy" in job.id else self.partition.free
        return free.first(job.n_procs) if job.n_procs <= len(free) else None


def fussy(policy: type[LocalPolicy], jobs: Workload, **options: Any) -> dict[str, Any]:
    scheduler = type("FussyScheduler", (Fussy, policy.scheduler), {})
    run = run_policy(type("FussyPolicy", (policy,), {"scheduler": scheduler}), jobs, 4, **options)
    assert not run.deadlocked
    return started(run)


@pytest.mark.parametrize("policy", ALL)
def test_a_scheduler_chooses_its_processors(policy: type[LocalPolicy]) -> None:
    jobs = Workload().job("fussy", n=1, s=5, walltime=6, estimate=5).job("b", n=1, s=5, at=1, walltime=6, estimate=5)
    assert fussy(policy, jobs) == {"fussy": (0, "2"), "b": (1, "0")}


@pytest.mark.parametrize(
    ("policy", "next_at"),
    [(Fcfs, 9), (Easy, 2), (Conservative, 2), (Dbf, 2)],
    ids=["fcfs", "easy", "conservative", "dbf"],
)
def test_a_job_without_its_processors_waits_for_the_next_end(policy: type[LocalPolicy], next_at: float) -> None:
    """On 2-3 runs a; b is short enough to go before the fussy one where there is backfilling."""
    jobs = (
        Workload()
        .job("fussy-a", n=2, s=9, walltime=10, estimate=9)
        .job("fussy", n=2, s=5, at=1, walltime=6, estimate=5)
        .job("b", n=2, s=3, at=2, walltime=4, estimate=3)
    )
    assert fussy(policy, jobs) == {"fussy-a": (0, "2-3"), "fussy": (9, "2-3"), "b": (next_at, "0-1")}


@pytest.mark.parametrize("policy", ALL)
@examples(40)
@given(data=st.data())
def test_every_job_starts(policy: type[LocalPolicy], data: st.DataObject) -> None:
    jobs = Workload()
    for index in range(data.draw(st.integers(1, 12))):
        name = f"{'fussy' if data.draw(st.booleans()) else 'easy'}{index}"
        s = data.draw(st.integers(1, 9))
        estimate = max(s + data.draw(st.integers(-3, 5)), 1)
        n = data.draw(st.integers(1, 2 if name.startswith("fussy") else 4))
        jobs.job(name, n=n, s=s, at=data.draw(st.integers(0, 20)), walltime=s + 1, estimate=estimate)
    found = fussy(policy, jobs)
    assert all(at is not None for at, _ in found.values())
    assert all(IntervalSet.parse(procs).lowest >= 2 for name, (_, procs) in found.items() if "fussy" in name)


def slow_replan(free: AvailabilityProfile, planned: list[tuple[int, float, float]], now: float) -> list[float]:
    """Place jobs (n, place, span) in turn: a job keeps its place if possible, else it gets the earliest one."""
    places = []
    for n, place, span_s in planned:
        keeps = now + 1.5 * TICK < place < float("inf") and free.fits(n, place, instant(place, span_s))
        at = place if keeps else free.earliest(n, span_s, now)
        free.take(n, at, instant(at, span_s))
        places.append(at)
    return places


spans = st.tuples(st.integers(1, 4), st.one_of(st.integers(0, 30), st.just(float("inf"))), st.integers(1, 12))


@examples(300)
@given(
    st.lists(spans, max_size=14),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 25), st.integers(1, 9)), max_size=6),
)
def test_fast_replanning_equals_slow_replanning(
    planned: list[tuple[int, float, int]], taken: list[tuple[int, int, int]]
) -> None:
    """The fast way checks only jobs in conflict; the slow way checks all jobs, in order."""
    free = AvailabilityProfile(0.0, 4)
    free.take_all((n, float(at), float(at + s)) for n, at, s in taken)
    scheduler = ConservativeScheduler(Partition("all", IntervalSet.span(0, 4)))
    jobs = []
    for index, (n, place, s) in enumerate(planned):
        job = Job(f"w0!{index}", n, estimate=float(s), seq=index)
        jobs.append(job)
        scheduler.submit(job, 0.0)
        scheduler._newcomers.clear()
        scheduler._record(job, float(place))
    expected = slow_replan(free.copy(), [(n, float(place), float(s)) for n, place, s in planned], 0.0)
    scheduler._replan(free, 0.0)
    assert [reserved_starts(scheduler._reservations)[job.id] for job in jobs] == expected
    assert sorted(scheduler._by_place) == scheduler._by_place
    again = AvailabilityProfile(0.0, 4)
    again.take_all((n, float(at), float(at + s)) for n, at, s in taken)
    for (n, _, s), at in zip(planned, expected, strict=True):
        again.take(n, at, instant(at, float(s)))
    instants = {at for at, _ in again.steps()} | {at for at, _ in scheduler._profile.steps()}
    assert [again.free_at(at) for at in sorted(instants)] == [scheduler._profile.free_at(at) for at in sorted(instants)]


@examples(200)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(-3, 20), st.integers(0, 9)), max_size=12), st.integers(0, 5))
def test_take_all_equals_repeated_take(taken: list[tuple[int, int, int]], begin: int) -> None:
    one, all_at_once = AvailabilityProfile(float(begin), 9), AvailabilityProfile(float(begin), 9)
    one.take(2, begin + 1.0, begin + 4.0)
    all_at_once.take(2, begin + 1.0, begin + 4.0)
    wanted = [(n, float(at), float(at + s)) for n, at, s in taken] + [(1, begin + 2.0, float("inf"))]
    for n, start, end in wanted:
        one.take(n, start, end)
    all_at_once.take_all(wanted)
    instants = sorted({at for at, _ in one.steps()} | {at for at, _ in all_at_once.steps()})
    assert [one.free_at(at) for at in instants] == [all_at_once.free_at(at) for at in instants]
    for at in instants:
        assert all_at_once.least_free(at, at + 3) == min(one.free_at(x) for x in (at, *instants) if at <= x < at + 3)


def test_all_waiting_jobs_are_listed() -> None:
    seen: list[list[str]] = []

    class Asks(Conservative):
        def decide(self, now: float) -> Iterable[Decision]:
            seen.append([job.id for job in self.local.waiting()])
            return super().decide(now)

    run_policy(Asks, Workload().job("a", n=2, s=5, walltime=6).job("b", n=2, s=5, walltime=6), 2)
    assert ["w0!a", "w0!b"] in seen
