"""Plans kept between events: their estimates, and how long they are valid."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from support.estimated import N_PROCS, workloads
from support.examples import examples
from support.outages import outages
from support.stage import Stage

from pybatsched.core import decisions as d
from pybatsched.core.cluster import Cluster
from pybatsched.core.instants import instant
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.policy import BatsimFeature
from pybatsched.policies.local_scheduler import LocalPolicy, LocalScheduler
from pybatsched.policies.queue_options import QueueOptions
from pybatsched.policies.registry import local_scheduler
from pybatsched.testing import Workload, run_policy
from pybatsched_schedulers import fcfs
from pybatsched_schedulers.backfilling_options import ConservativeOptions
from pybatsched_schedulers.conservative import ConservativeScheduler
from pybatsched_schedulers.dbf.policy import DbfFields, DbfOptions, DbfScheduler
from pybatsched_schedulers.fcfs import FcfsScheduler, QueuePlan

DYNAMIC = {"dynamic-jobs-enabled": True}


class CuriousOptions(QueueOptions):
    """The seed, and whether jobs follow their plan or leave it in all possible ways."""

    seed: int = 0
    unruly: bool = True


class Curious(LocalPolicy):
    """Asks in every call; if unruly, jobs leave the queue, come back in front, are killed or start at other times."""

    Options: ClassVar[type[Any]] = CuriousOptions
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})
    has_whims: ClassVar[bool] = False  # and does not start jobs as planned

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.dice = random.Random(self.options.seed)
        self.jobs = cluster.jobs
        self.loose: list[Job] = []
        self.answers: dict[tuple[float, int], list[Any]] = {}

    def on_job_submitted(self, job: Job, now: float) -> None:
        super().on_job_submitted(job, now)
        self.ask(now)

    def on_job_ended(self, job: Job, now: float) -> None:
        super().on_job_ended(job, now)
        self.ask(now)

    def on_job_killed(self, job: Job, now: float) -> None:
        super().on_job_killed(job, now)
        self.loose.append(job)

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:
        super().on_machines_changed(procs, now)
        self.ask(now)

    def decide(self, now: float) -> Iterable[d.Decision]:
        dice, local, unruly = self.dice, self.local, self.options.unruly
        loose, self.loose = self.loose, []
        for job in loose:
            local.submit(job, now, front=unruly and dice.random() < 0.3)
            self.ask(now)
        for job in local.waiting() if unruly else ():
            if dice.random() < 0.15:
                local.withdraw(job, now)
                self.ask(now)
                self.loose.append(job)
        self.ask(now)
        for decision in super().decide(now):
            self.ask(now)
            yield from self.varied(decision, now)
            self.ask(now)
        running = [job for job in local.partition.running_jobs if job.state is JobState.RUNNING]
        if unruly and running and not local.partition.n_kills_pending and dice.random() < 0.05:
            yield d.Requeue(dice.choice(running).id, work="all")
        if self.loose:
            yield d.CallMeLater(now + 1)

    def varied(self, decision: d.Decision, now: float) -> Iterable[d.Decision]:
        how = self.dice.random() if self.options.unruly else 1.0
        if not isinstance(decision, d.ExecuteJob) or how > 0.25:
            yield decision
        elif how < 0.1:
            yield d.StartAt(decision.job_id, decision.procs, now + self.dice.choice([0, 2.5]))
        elif how < 0.2:
            yield d.Replace(decision.job_id, decision.procs, extra_s=1.5)
        elif self.has_whims:
            self.loose.append(self.jobs[decision.job_id])
        else:
            yield decision

    def ask(self, now: float) -> None:
        """Ask all questions, and compare the answers with earlier ones and with bounds."""
        local = self.local
        version = local.plan_version(now)
        spans = (0.5, 4.0, 30.0, math.inf)
        found: list[Any] = [local.estimate(n, s, now) for n in range(1, N_PROCS + 2) for s in spans]
        found += [local.planned_start(job, now) for job in local.waiting()]
        assert local.plan_version(now) == version, "questions change nothing"
        assert self.answers.setdefault((now, version), found) == found, "an old version has its old answers"
        self.check_estimates(now)
        n, span_s = self.dice.randint(1, N_PROCS), self.dice.choice(spans)
        start = local.estimate(n, span_s, now)
        end_at = math.inf if start is None else instant(start, span_s)
        for bound in (now, now + span_s, end_at - 0.5, end_at, end_at + 0.5):
            expected = start if end_at <= bound else None
            assert local.estimate(n, span_s, now, not_after=bound) == expected

    def check_estimates(self, now: float) -> None:
        """Compare answers with those of an oracle, where there is one."""


class CuriousFcfs(Curious):
    """Compared with the slow way: the queue is placed again, job by job, for each question."""

    scheduler = FcfsScheduler
    has_whims = True

    def check_estimates(self, now: float) -> None:
        local = self.local
        for n in range(1, N_PROCS + 1):
            for span_s in (0.5, 30.0, math.inf):
                start = LocalScheduler.estimated_start(local, n, span_s, now, math.inf)
                assert local.estimate(n, span_s, now) == (None if start == math.inf else start)
        for job in [*local.waiting(), *self.loose]:
            assert local.planned_start(job, now) == LocalScheduler.planned_start(local, job, now)


class CuriousConservative(Curious):
    scheduler = ConservativeScheduler


ORDERS = st.sampled_from(["fcfs", "sjf", "widest"])


@pytest.mark.parametrize("policy", [CuriousFcfs, CuriousConservative])
@examples(120)
@given(jobs=workloads(), order=ORDERS, away=outages(N_PROCS, 3), seed=st.integers(0, 10**6), unruly=st.booleans())
def test_estimates_equal_those_of_a_new_plan(
    policy: type[Curious], jobs: Workload, order: str, away: list[Any], seed: int, unruly: bool
) -> None:
    run = run_policy(policy, jobs, N_PROCS, config=DYNAMIC, machine_events=away, order=order, seed=seed, unruly=unruly)
    assert not run.deadlocked


@examples(60)
@given(jobs=workloads(), order=ORDERS, away=outages(N_PROCS, 3))
def test_asking_for_estimates_changes_no_schedule(jobs: Workload, order: str, away: list[Any]) -> None:
    asked = run_policy(CuriousFcfs, jobs, N_PROCS, config=DYNAMIC, machine_events=away, order=order, unruly=False)
    plain = run_policy("fcfs", jobs, N_PROCS, config=DYNAMIC, machine_events=away, order=order)
    assert asked.jobs == plain.jobs


class Impatient(LocalPolicy):
    """Requeues the running job that ends last whenever a job comes; if curious, it asks while kills are under way."""

    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})
    is_curious: ClassVar[bool] = False

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.has_news = False

    def on_job_submitted(self, job: Job, now: float) -> None:
        super().on_job_submitted(job, now)
        self.has_news = True

    def on_job_killed(self, job: Job, now: float) -> None:
        super().on_job_killed(job, now)
        self.local.submit(job, now)

    def decide(self, now: float) -> Iterable[d.Decision]:
        running = [job for job in self.local.partition.running_jobs if job.n_restarts < 2]
        if running and self.has_news and not self.local.partition.n_kills_pending:
            yield d.Requeue(running[-1].id, work="all")
        self.has_news = False
        if self.local.partition.n_kills_pending and self.is_curious:
            version = self.local.plan_version(now)
            for n in range(1, self.local.partition.n_procs + 1):
                # The plan is not brought up to date before the kill has taken effect, so it must not be used.
                start = LocalScheduler.estimated_start(self.local, n, 4.0, now, math.inf)
                assert self.local.estimate(n, 4.0, now) == (None if start == math.inf else start)
            starts = [self.local.planned_start(job, now) for job in self.local.waiting()]
            assert all(start is None or start >= now for start in starts)
            assert self.local.plan_version(now) == version
        yield from super().decide(now)


class ImpatientConservative(Impatient):
    Options = ConservativeOptions
    scheduler = ConservativeScheduler


class ImpatientDbf(Impatient):
    Options = DbfOptions
    JobFields: ClassVar[type[Any]] = DbfFields
    scheduler = DbfScheduler


@pytest.mark.parametrize("policy", [ImpatientConservative, ImpatientDbf])
@pytest.mark.parametrize("is_curious", [False, True])
def test_asking_for_an_estimate_during_a_kill_changes_nothing(policy: type[Impatient], is_curious: bool) -> None:
    """B comes at 10, and A is killed for it: B starts at once. A place given before the kill would make it wait."""
    jobs = Workload().job("a", n=N_PROCS, s=100, walltime=101).job("b", n=N_PROCS, s=5, at=10, walltime=6)
    curious = type("Policy", (policy,), {"is_curious": is_curious})
    run = run_policy(curious, jobs, N_PROCS, config=DYNAMIC, compression=False)
    assert {job.id: job.started_at for job in run.jobs.values()} == {"w0!a": 0, "w0!b": 10, "dyn!w0.a.1": 16}


@pytest.mark.parametrize("policy", [ImpatientConservative, ImpatientDbf])
@examples(60)
@given(jobs=workloads(deadlines=True), away=outages(N_PROCS, 3), compression=st.booleans())
def test_asking_for_estimates_during_kills_changes_no_schedule(
    policy: type[Impatient], jobs: Workload, away: list[Any], compression: bool
) -> None:
    plain, asked = (
        run_policy(kind, jobs, N_PROCS, config=DYNAMIC, machine_events=away, compression=compression)
        for kind in (policy, type("Curious", (policy,), {"is_curious": True}))
    )
    assert asked.jobs == plain.jobs


@pytest.fixture
def n_plans(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list with the instant at which each plan of a queue was made."""
    made: list[float] = []

    class Counted(QueuePlan):
        def __init__(self, now: float, *rest: Any, **more: Any) -> None:
            made.append(now)
            super().__init__(now, *rest, **more)

    monkeypatch.setattr(fcfs, "QueuePlan", Counted)
    return made


class Polite(CuriousFcfs):
    """Asks before and after all decisions, not while one is on its way."""

    def decide(self, now: float) -> Iterable[d.Decision]:
        self.ask(now)
        yield from LocalPolicy.decide(self, now)
        self.ask(now)


def eventful(off_s: float = 0.0) -> Workload:
    """Make some jobs on time, but for the third one if it is to be off."""
    jobs = Workload()
    for name, at, n, run in (("a", 0, 4, 10), ("b", 1, 3, 5), ("c", 2, 6, 4.5), ("d", 3, 1, 7), ("e", 12, 2, 3)):
        jobs.job(name, n=n, s=run, at=at, estimate=run + (off_s if name == "c" else 0), walltime=99)
    return jobs


@pytest.mark.parametrize(
    ("off_s", "expected"),
    [
        (0.0, [0.0]),  # all go by the plan that was made at the first question
        (3.0, [0.0, 19.5]),  # c ends earlier than planned
        (-2.0, [0.0, 19.5]),  # c is late; no event and no question comes until it ends
    ],
)
def test_a_plan_is_kept_while_events_follow_it(n_plans: list[float], off_s: float, expected: list[float]) -> None:
    run = run_policy(Polite, eventful(off_s), N_PROCS, config=DYNAMIC)
    assert [job.started_at for job in run.jobs.values()] == [0, 10, 15, 19.5, 19.5]
    assert n_plans == expected


def test_withdrawn_and_new_jobs_need_no_new_plan(n_plans: list[float]) -> None:
    stage = Stage()
    local = local_scheduler("fcfs", {}, stage.engine.cluster.partitions["all"])
    jobs = [Job(f"w0!{k}", n, walltime=10.0, seq=k) for k, n in enumerate((4, 3, 1, 2, 4))]
    for job in jobs:
        local.submit(job, 0.0)

    def places() -> list[float | None]:
        return [local.planned_start(job, 0.0) for job in local.waiting()]

    assert places() == [0.0, 10.0, 10.0, 20.0, 30.0]
    local.withdraw(jobs[1], 0.0)
    assert places() == [0.0, 10.0, 10.0, 20.0]
    local.submit(jobs[1], 0.0)
    assert places() == [0.0, 10.0, 10.0, 20.0, 30.0]
    local.withdraw(jobs[0], 0.0)
    local.submit(jobs[0], 0.0, front=True)
    assert places() == [0.0, 10.0, 10.0, 20.0, 30.0]
    assert [local.estimate(n, 5.0, 0.0) for n in range(1, 6)] == [30.0, 40.0, 40.0, 40.0, None]
    for job in local.waiting():
        local.withdraw(job, 0.0)
    assert [local.estimate(n, 5.0, 3.0) for n in range(1, 6)] == [3.0, 3.0, 3.0, 3.0, None]
    assert n_plans == [0.0]


def test_without_questions_no_plan_is_made(n_plans: list[float]) -> None:
    run_policy("fcfs", eventful(), N_PROCS)
    assert n_plans == []


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
def test_estimates_move_with_the_clock_without_events(name: str) -> None:
    stage = Stage()
    local = local_scheduler(name, {}, stage.engine.cluster.partitions["all"])
    late, waiting = stage.run("late", "0-3", walltime=5), stage.submit("waiting", n=2, walltime=5)
    for now, free_at in ((0.0, 5.0), (4.0, 5.0), (6.0, 6.000001), (7.5, 7.500001)):
        assert local.estimate(4, 1.0, now) == free_at
    stage.step(stage.completed(late), at=8.0)
    local.ended(late, 8.0)
    local.submit(waiting, 8.0)
    for now in (8.0, 8.5, 9.25):  # it could start, but no event says so
        assert local.planned_start(waiting, now) == now
        assert (local.estimate(2, 1.0, now), local.estimate(3, 1.0, now)) == (now, now + 5.0)


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
def test_a_late_job_may_end_at_the_instant_of_a_question(name: str) -> None:
    stage = Stage()
    local = local_scheduler(name, {}, stage.engine.cluster.partitions["all"])
    late, waiting = stage.run("late", "0-3", walltime=5), stage.submit("waiting", n=2, walltime=5)
    local.submit(waiting, 0.0)
    stage.step(at=6.0)
    assert local.planned_start(waiting, 6.0) == 6.000001
    stage.step(stage.completed(late), at=6.0)
    local.ended(late, 6.0)
    assert local.planned_start(waiting, 6.0) == 6.0
