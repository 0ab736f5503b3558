"""Planned starts that are promises, versions of plans, and bounds on estimates."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from support.estimated import N_PROCS, workloads
from support.examples import examples
from support.stage import Stage

from pybatsched.core import decisions as d, events as e
from pybatsched.core.cluster import Cluster, Partition
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.policies.local_scheduler import LocalPolicy, LocalScheduler
from pybatsched.policies.registry import local_scheduler
from pybatsched.testing import Workload, run_policy
from pybatsched_schedulers.backfilling_options import ConservativeOptions
from pybatsched_schedulers.conservative import ConservativeScheduler
from pybatsched_schedulers.fcfs import FcfsScheduler


@pytest.mark.parametrize(
    ("name", "options", "promises"),
    [
        ("fcfs", {}, True),
        ("fcfs", {"order": "sjf"}, False),
        ("ujf", {}, False),
        ("conservative", {}, True),
        ("conservative", {"order": "sjf"}, True),
        ("conservative", {"compression": False}, True),
        ("easy", {}, False),
        ("dbf", {}, False),
    ],
)
def test_which_schedulers_promise_planned_starts(name: str, options: dict[str, Any], promises: bool) -> None:
    assert local_scheduler(name, options, Partition("all", IntervalSet.span(0, 4))).promises is promises


class PromisedOptions(ConservativeOptions):
    """The seed of the random choices."""

    seed: int = 0


class Promised(LocalPolicy):
    """Records every reported planned start, and the estimate just before a job is submitted.

    Some jobs are withdrawn, others move to the end of the queue and get another planned start.
    """

    Options = PromisedOptions

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.dice = random.Random(self.options.seed)
        self.newcomers: list[Job] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.newcomers.append(job)

    def decide(self, now: float) -> Iterable[d.Decision]:
        local = self.local
        for job in local.waiting():
            if self.dice.random() < 0.1:
                local.withdraw(job, now)
                del self.promised[job.id]
                self.newcomers.append(job)
        for job in self.newcomers:
            estimated = local.estimate(job.n_procs, local.span_s(job), now)
            assert self.submit_to(local, job, now)
            assert local.planned_start(job, now) == estimated
        self.newcomers.clear()
        for job in local.waiting():
            if self.dice.random() < 0.05:
                local.withdraw(job, now)
                yield d.RejectJob(job.id)
                continue
            start_at = local.planned_start(job, now)
            assert start_at is not None
            assert start_at <= self.promised.setdefault(job.id, start_at), "no job gets a later planned start"
            self.promised[job.id] = start_at
        yield from super().decide(now)

    promised: ClassVar[dict[str, float]] = {}


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        (FcfsScheduler, {}),
        (ConservativeScheduler, {}),
        (ConservativeScheduler, {"order": "sjf"}),
        (ConservativeScheduler, {"order": "widest"}),
        (ConservativeScheduler, {"compression": False}),
    ],
)
@examples(100)
@given(jobs=workloads(honest=True), seed=st.integers(0, 10**6))
def test_no_job_starts_later_than_planned(
    scheduler: type[LocalScheduler], options: dict[str, Any], jobs: Workload, seed: int
) -> None:
    promised: dict[str, float] = {}
    policy = type("PromisedPolicy", (Promised,), {"scheduler": scheduler, "promised": promised})
    run = run_policy(policy, jobs, N_PROCS, seed=seed, **options)
    assert not run.deadlocked
    for job in run.jobs.values():
        if job.started_at is not None:
            assert job.started_at <= promised[job.id]


def test_a_promise_for_the_next_tick_is_kept() -> None:
    """All is free from 5 on. c was promised 10 and d the tick after it, which Batsim calls 10 µs late."""
    jobs = Workload().job("a", n=1, s=5, walltime=10).job("b", n=1, s=5, walltime=10.000001)
    jobs.job("c", n=1, s=100, at=1, walltime=100).job("d", n=1, s=3, at=2, walltime=3)
    run = run_policy("conservative", jobs, 2, compression=False)
    assert {job.id: job.started_at for job in run.jobs.values()} == {
        "w0!a": 0.0,
        "w0!b": 0.0,
        "w0!c": 10.0,
        "w0!d": 10.00001,
    }


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
def test_a_version_stays_while_nothing_happens(name: str) -> None:
    stage = Stage()
    local = local_scheduler(name, {}, stage.engine.cluster.partitions["all"])
    first, second = (stage.submit(job_id, n=3, walltime=20) for job_id in "ab")
    versions = [local.plan_version(0.0)]

    def differs() -> bool:
        versions.append(local.plan_version(stage.now))
        local.estimate(2, 9.0, stage.now)
        assert local.plan_version(stage.now) == versions[-1]
        return versions[-1] > versions[-2]

    assert not differs()
    local.submit(first, 0.0)
    assert differs()
    stage.do(*local.decide(0.0))
    assert differs()
    local.submit(second, 0.0)
    assert differs()
    assert local.planned_start(second, 0.0) == 20.0
    assert not differs()
    local.withdraw(second, 0.0)
    assert differs()
    stage.step(e.Notify(e.MACHINES_UNAVAILABLE, IntervalSet.parse("3"), timestamp=1.0), at=1.0)
    local.machines_changed(1.0)
    assert differs()
    stage.step(stage.completed(first), at=2.0)
    local.ended(first, 2.0)
    assert differs()


def test_schedulers_without_a_version_return_a_new_one_each_time() -> None:
    local = local_scheduler("dbf", {}, Partition("all", IntervalSet.span(0, 4)))
    assert local.plan_version(0.0) < local.plan_version(0.0)


def test_changes_in_another_partition_keep_the_version() -> None:
    cluster = Cluster(IntervalSet.span(0, 8))
    low, high = (cluster.add_partition(str(i), IntervalSet.span(i, i + 4)) for i in (0, 4))
    cluster.change_machines(gone=IntervalSet.parse("5"))
    assert (low.n_changes, high.n_changes, high.n_free) == (0, 1, 3)
    cluster.change_machines(gone=IntervalSet.parse("5"))
    assert high.n_changes == 1
    cluster.change_machines(back=IntervalSet.parse("1 5"))
    assert (low.n_changes, high.n_changes, high.n_free) == (0, 2, 4)


class Counting(ConservativeScheduler):
    """Counts its searches for a place that does not exist yet."""

    n_searches = 0

    def estimated_start(self, n: int, duration_s: float, now: float, latest: float) -> float:
        self.n_searches += 1
        return super().estimated_start(n, duration_s, now, latest)


def test_an_end_bound_that_cannot_be_met_needs_no_search() -> None:
    local = Counting(Partition("all", IntervalSet.span(0, 4)))
    local.submit(Job("w0!a", 4, walltime=10.0), 0.0)
    assert local.estimate(1, 5.0, 0.0, not_after=15.0) == 10.0
    assert local.estimate(1, 5.0, 0.0, not_after=14.999999) is None
    assert local.n_searches == 2
    assert local.estimate(1, 5.0, 0.0, not_after=4.999999) is None
    assert local.estimate(1, math.inf, 0.0, not_after=1e9) is None
    assert local.n_searches == 2
