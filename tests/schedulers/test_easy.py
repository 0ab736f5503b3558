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


@pytest.mark.parametrize(
    ("policy", "order", "jobs", "expected"),
    [
        # Job 2 must wait for job 1 until 10; job 3 ends at 10, job 4 would end at 11.
        ("easy", "fcfs", [("2", 4, 5, 1), ("4", 1, 10, 1), ("3", 1, 9, 1)], {"2": 10, "3": 1, "4": 15}),
        # At 10 job 2 takes 3 of 4 processors, so one is extra; job 3 uses it for as long as it likes.
        ("easy", "fcfs", [("2", 3, 5, 1), ("3", 1, 100, 1)], {"2": 10, "3": 1}),
        # One processor is free until 10: in queue order the job of 8 s gets it, in order of length the one of 4 s.
        ("easy", "fcfs", [("2", 4, 5, 1), ("3", 1, 8, 1), ("4", 1, 4, 1)], {"2": 10, "3": 1, "4": 15}),
        (EasySjbf, "fcfs", [("2", 4, 5, 1), ("3", 1, 8, 1), ("4", 1, 4, 1)], {"2": 10, "3": 15, "4": 1}),
        # The queue is sorted by length: the shorter of two jobs that arrive together at 2 gets the processor.
        ("easy", "sjf", [("2", 4, 3, 1), ("3", 1, 8, 2), ("4", 1, 4, 2)], {"2": 10, "3": 13, "4": 2}),
    ],
)
def test_jobs_that_are_backfilled(
    policy: Any, order: str, jobs: list[tuple[str, int, int, int]], expected: dict[str, float]
) -> None:
    """Job 1 has three of four processors until 10."""
    workload = Workload().job("1", n=3, s=10, estimate=10)
    for name, n, s, at in jobs:
        workload.job(name, n=n, s=s, at=at, estimate=s)
    options = {} if policy is EasySjbf else {"order": order}
    assert starts(policy, workload, 4, **options) == {f"w0!{name}": at for name, at in ({"1": 0} | expected).items()}


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
