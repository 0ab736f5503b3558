"""EASY backfilling: worked examples, each rule, and custom backfill orders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pybatsched import Entry, LocalPolicy
from pybatsched.testing import Workload, run_policy
from pybatsched_schedulers.easy import LONG_QUEUE, EasyScheduler


class ShortestBackfill(EasyScheduler):
    """EASY-SJBF: the shortest jobs are tried first."""

    def candidates(self, now: float) -> Iterable[Entry]:
        return sorted(self.queue, key=lambda entry: self.span_s(entry.job))


class EasySjbf(LocalPolicy):
    scheduler = ShortestBackfill


class AllCandidates(EasyScheduler):
    """The slow twin: the whole queue is tried in each pass, in its order."""

    def candidates(self, now: float) -> Iterable[Entry]:
        return list(self.queue)


class SlowEasy(LocalPolicy):
    scheduler = AllCandidates


def starts(policy: Any, jobs: Workload, n_procs: int, **options: Any) -> dict[str, float | None]:
    return {job.id: job.started_at for job in run_policy(policy, jobs, n_procs, **options).jobs.values()}


def test_a_job_that_ends_by_the_shadow_time_is_backfilled() -> None:
    """4 processors: job 2 must wait for job 1 until 10; job 3 ends at 10, job 4 would end at 11."""
    jobs = (
        Workload()
        .job("1", n=3, s=10, estimate=10)
        .job("2", n=4, s=5, estimate=5, at=1)
        .job("4", n=1, s=10, estimate=10, at=1)
        .job("3", n=1, s=9, estimate=9, at=1)
    )
    assert starts("easy", jobs, 4) == {"w0!1": 0, "w0!2": 10, "w0!3": 1, "w0!4": 15}


def test_a_job_on_extra_processors_may_run_past_the_shadow_time() -> None:
    """4 processors: at 10 job 2 takes 3 of 4, so one is extra; job 3 uses it for as long as it likes."""
    jobs = (
        Workload()
        .job("1", n=3, s=10, estimate=10)
        .job("2", n=3, s=5, estimate=5, at=1)
        .job("3", n=1, s=100, estimate=100, at=1)
    )
    assert starts("easy", jobs, 4) == {"w0!1": 0, "w0!2": 10, "w0!3": 1}


@pytest.mark.parametrize(
    ("policy", "expected"), [("easy", {"w0!3": 1, "w0!4": 15}), (EasySjbf, {"w0!3": 15, "w0!4": 1})]
)
def test_a_backfill_order_is_three_lines(policy: Any, expected: dict[str, float]) -> None:
    """One processor is free until 10: in queue order the job of 8 s gets it, in order of length the one of 4 s."""
    jobs = (
        Workload()
        .job("1", n=3, s=10, estimate=10)
        .job("2", n=4, s=5, estimate=5, at=1)
        .job("3", n=1, s=8, estimate=8, at=1)
        .job("4", n=1, s=4, estimate=4, at=1)
    )
    found = starts(policy, jobs, 4)
    assert {name: found[name] for name in expected} == expected


def test_jobs_that_arrive_together_are_tried_in_queue_order() -> None:
    """One processor is free until the shortest job starts at 10: the shorter of two jobs that arrive at 2 gets it."""
    jobs = (
        Workload()
        .job("1", n=3, s=10, estimate=10)
        .job("2", n=4, s=3, estimate=3, at=1)
        .job("3", n=1, s=8, estimate=8, at=2)
        .job("4", n=1, s=4, estimate=4, at=2)
    )
    assert starts("easy", jobs, 4, order="sjf") == {"w0!1": 0, "w0!2": 10, "w0!3": 13, "w0!4": 2}


@given(
    jobs=st.lists(
        st.tuples(st.integers(1, 8), st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=2 * LONG_QUEUE
    ),
    order=st.sampled_from(["fcfs", "sjf", "largest"]),
)
def test_trying_only_some_candidates_changes_nothing(jobs: list[tuple[int, int, int]], order: str) -> None:
    workload = Workload()
    for number, (n, seconds, at) in enumerate(jobs):
        workload.job(str(number), n=n, s=seconds, at=at, estimate=seconds)
    assert starts("easy", workload, 8, order=order) == starts(SlowEasy, workload, 8, order=order)
