"""The worked examples of the papers: every start and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.twins import reserved_starts

from pybatsched.core.decisions import Decision
from pybatsched.core.intervals import IntervalSet
from pybatsched.testing import FakeBatsim, Workload, run_policy
from pybatsched_schedulers.dbf.policy import Dbf, DbfScheduler

DYNAMIC = {"dynamic-jobs-enabled": True}

# (id, submitted, processors, estimate, run time)
E1 = [(1, 0, 6, 10, 10), (2, 1, 5, 10, 10), (3, 2, 8, 5, 5), (4, 3, 2, 30, 30), (5, 4, 1, 5, 5), (6, 5, 3, 10, 10)]
E2B = [(1, 0, 4, 10, 6), (2, 0, 4, 6, 6), (3, 1, 6, 4, 4), (4, 2, 2, 12, 12), (5, 3, 4, 3, 3), (6, 4, 8, 2, 2)]

COMPRESSED = {1: (0, 6), 2: (0, 6), 3: (6, 10), 4: (6, 18), 5: (10, 13), 6: (18, 20)}


def workload(rows: list[tuple[int, int, int, int, int]], *, walltimes: str) -> Workload:
    """Return the estimate as a field beside a looser walltime, or as the walltime itself."""
    jobs = Workload()
    for job_id, at, n, estimate, run in rows:
        if walltimes == "estimates":
            jobs.job(job_id, n=n, s=run, at=at, estimate=estimate, walltime=estimate + 1)
        else:
            jobs.job(job_id, n=n, s=run, at=at, walltime=estimate)
    return jobs


@pytest.mark.parametrize("walltimes", ["estimates", "plain"])
@pytest.mark.parametrize(
    ("policy", "options", "rows", "expected"),
    [
        ("easy", {}, E1, {1: (0, 10), 2: (10, 20), 3: (33, 38), 4: (3, 33), 5: (10, 15), 6: (20, 30)}),
        ("conservative", {}, E1, {1: (0, 10), 2: (10, 20), 3: (20, 25), 4: (25, 55), 5: (4, 9), 6: (10, 20)}),
        ("conservative", {}, E2B, COMPRESSED),
        ("easy", {}, E2B, COMPRESSED),
        (
            "conservative",
            {"compression": False},
            E2B,
            {1: (0, 6), 2: (0, 6), 3: (10, 14), 4: (6, 18), 5: (14, 17), 6: (18, 20)},
        ),
        ("fcfs", {}, E1, {1: (0, 10), 2: (10, 20), 3: (20, 25), 4: (25, 55), 5: (25, 30), 6: (25, 35)}),
    ],
)
def test_example(
    policy: str, options: dict[Any, Any], rows: list[Any], expected: dict[Any, Any], walltimes: str
) -> None:
    run = run_policy(policy, workload(rows, walltimes=walltimes), 8, **options)
    assert {int(job.id[3:]): (job.started_at, job.ended_at) for job in run.jobs.values()} == expected


def test_conservative_places_at_submission() -> None:
    """E2's reservations as they are promised when each job comes: 1@0 2@10 3@20 4@25 5@4 6@10."""
    promised = {}
    for k in range(1, 7):
        run = run_policy("conservative", workload(E1[:k], walltimes="estimates"), 8)
        promised[k] = run.jobs[f"w0!{k}"].started_at
    assert promised == {1: 0, 2: 10, 3: 20, 4: 25, 5: 4, 6: 10}


# --- redirection: E3, principal group 0-5, redirection group 6-7, theta = 2 ---

# (id, submitted, processors, run time)
E3 = [
    (1, 0, 2, 100),
    (2, 0, 4, 20),
    (3, 1, 2, 5),
    (4, 2, 2, 5),
    (5, 3, 3, 5),
    (6, 4, 1, 5),
    (7, 5, 2, 30),
    (8, 6, 6, 10),
]
ON_SIX = {
    "1": (0, 100),
    "2": (0, 20),
    "3": (20, 25),
    "4": (20, 25),
    "5": (25, 30),
    "6": (25, 30),
    "7": (30, 60),
    "8": (100, 110),
}
BY_FILTER = {
    "q": {"1": (0, 4), "1 redirected": (4, 104), "2": (0, 20), "3": (4, 9), "4": (9, 14), "5": (20, 25), "6": (14, 19),
     "7": (19, 49), "8": (49, 59)},
    "w": {"1": (0, 3), "1 redirected": (3, 103), "2": (0, 20), "3": (3, 8), "4": (8, 13), "5": (20, 25), "6": (13, 18),
     "7": (18, 48), "8": (48, 58)},
    "none": {"1": (0, 3), "1 redirected": (3, 103), "2": (0, 20), "3": (3, 6), "3 redirected": (103, 108), "4": (6, 11),
     "5": (20, 25), "6": (11, 16), "7": (16, 46), "8": (46, 56)},
    "w_paper": ON_SIX,
}  # fmt: skip


def redirected(run: FakeBatsim) -> dict[str, tuple[float | None, float | None]]:
    """Return the spans of all jobs; the second run of a redirected job has a name that shows it."""
    moved = {}
    for job in run.jobs.values():
        name = job.id.partition("!")[2]
        if job.id.startswith("dyn!"):
            assert job.metadata == f"parent=w0!{name[3:-2]};segment=1;kind=requeue"
            name = f"{name[3:-2]} redirected"
        moved[name] = (job.started_at, job.ended_at)
    return moved


def e3() -> Workload:
    return workload([(*row, row[-1]) for row in E3], walltimes="estimates")


@pytest.mark.parametrize("rule", BY_FILTER)
@pytest.mark.parametrize("group", [{"alpha": 0.25}, {"group_size": 2}])
@pytest.mark.parametrize("decision", ["per_job", "per_round"])
def test_redirection(rule: str, group: dict[str, Any], decision: str) -> None:
    options = {"theta": 2, "filter": rule, "decision": decision, **group}
    run = run_policy("redirection", e3(), 8, config=DYNAMIC, **options)
    assert redirected(run) == BY_FILTER[rule]
    for job in run.jobs.values():
        group_of_its = IntervalSet.parse("6-7" if job.id.startswith("dyn!") else "0-5")
        assert job.procs.issubset(group_of_its)


def test_easy_on_all_of_the_machine() -> None:
    spans = {
        "1": (0, 100),
        "2": (0, 20),
        "3": (1, 6),
        "4": (6, 11),
        "5": (20, 25),
        "6": (11, 16),
        "7": (16, 46),
        "8": (46, 56),
    }
    assert redirected(run_policy("easy", e3(), 8)) == spans


# --- deadlines: E4 and E4b on four processors ---

# (id, submitted, processors, run time, deadline)
E4 = [
    (1, 0, 4, 10, None),
    (2, 1, 2, 10, 41),
    (3, 2, 4, 10, None),
    (4, 3, 3, 10, None),
    (5, 4, 4, 10, None),
    (6, 5, 1, 5, 100),
    (7, 6, 4, 10, 30),
    (8, 7, 1, 4, None),
]
E4B = [
    (1, 4, 2, 9, 22),
    (2, 4, 2, 8, 20),
    (3, 8, 2, 5, 32),
    (4, 8, 4, 1, 32),
    (5, 9, 1, 2, 25),
    (6, 10, 4, 2, 22),
    (7, 11, 4, 8, None),
    (8, 12, 4, 2, 20),
]


def with_deadlines(rows: list[tuple[int, int, int, int, int | None]], *, stays: bool = False) -> Workload:
    jobs = Workload()
    for job_id, at, n, run, deadline in rows:
        fields: dict[str, Any] = {}
        if deadline is not None:
            fields = {"max_stay": deadline - at} if stays else {"deadline": deadline}
        jobs.job(job_id, n=n, s=run, at=at, estimate=run, walltime=run + 1, **fields)
    return jobs


def spans_of(run: FakeBatsim) -> dict[int, tuple[float | None, float | None]]:
    return {int(job.id[3:]): (job.started_at, job.ended_at) for job in run.jobs.values()}


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("promote", ["max", "each"])
def test_deadline_based_backfilling(promote: str, stays: bool) -> None:
    run = run_policy("dbf", with_deadlines(E4, stays=stays), 4, promote=promote)
    assert spans_of(run) == {
        1: (0, 10),
        3: (10, 20),
        4: (20, 30),
        8: (20, 24),
        6: (24, 29),
        2: (30, 40),
        5: (40, 50),
        7: (50, 60),
    }
    run = run_policy("dbf", with_deadlines(E4B, stays=stays), 4, promote=promote)
    assert spans_of(run) == {
        1: (4, 13),
        2: (4, 12),
        6: (13, 15),
        7: (15, 23),
        3: (23, 28),
        5: (23, 25),
        4: (28, 29),
        8: (29, 31),
    }


def test_conservative_backfilling_ignores_deadlines() -> None:
    run = run_policy("conservative", with_deadlines(E4), 4)
    assert spans_of(run) == {
        1: (0, 10),
        2: (10, 20),
        6: (10, 15),
        8: (10, 14),
        3: (20, 30),
        4: (30, 40),
        5: (40, 50),
        7: (50, 60),
    }


@pytest.mark.parametrize(
    ("rows", "at", "final", "provisional"),
    [
        (E4, 1, {}, {2: 10}),
        (E4, 2, {3: 10}, {2: 20}),
        (E4, 3, {3: 10, 4: 20}, {2: 30}),
        (E4, 4, {3: 10, 4: 20, 2: 30, 5: 40}, {}),
        (E4, 5, {3: 10, 4: 20, 2: 30, 5: 40}, {6: 20}),
        (E4, 6, {3: 10, 4: 20, 2: 30, 5: 40, 7: 50}, {6: 20}),
        (E4, 7, {3: 10, 4: 20, 8: 20, 2: 30, 5: 40, 7: 50}, {6: 24}),
        (E4B, 11, {6: 13, 7: 15}, {3: 23, 4: 28, 5: 23}),
        (E4B, 12, {6: 13, 7: 15, 3: 23, 4: 28, 5: 23, 8: 29}, {}),
    ],
)
def test_the_plan_after_each_arrival(
    rows: list[Any], at: int, final: dict[int, float], provisional: dict[int, float]
) -> None:
    seen = []

    class Watched(DbfScheduler):
        def plan(self, now: float) -> Iterator[Decision]:
            yield from super().plan(now)
            if now == at:
                seen.append([{int(job_id[3:]): place for job_id, place in places.items()} for places in self.plans()])

        def plans(self) -> tuple[dict[str, float], dict[str, float]]:
            return reserved_starts(self._reservations), self._accepted.places

    run_policy(type("WatchedDbf", (Dbf,), {"scheduler": Watched}), with_deadlines(rows), 4)
    assert seen[-1] == [final, provisional]


def test_deadlines_without_a_feasible_promotion_keep_their_places() -> None:
    """After an early end no set of promotions saves all deadlines when job 8 comes: the places stay as they are.

    Then the early ends go on: 6 starts at 8, long before the place it was promised.
    """
    rows = [
        (1, 1, 1, 3, 1, 6),
        (2, 1, 2, 12, 7, None),
        (3, 3, 2, 11, 2, 36),
        (4, 3, 2, 10, 10, 40),
        (5, 3, 6, 3, 3, 24),
        (6, 4, 4, 1, 1, 14),
        (7, 5, 5, 3, 3, 21),
        (8, 6, 6, 9, 9, None),
    ]
    jobs = Workload()
    for job_id, at, n, estimate, run_s, deadline in rows:
        fields = {} if deadline is None else {"deadline": deadline}
        jobs.job(job_id, n=n, s=run_s, at=at, estimate=estimate, walltime=estimate + 1, **fields)
    starts = {job_id: span[0] for job_id, span in spans_of(run_policy("dbf", jobs, 6)).items()}
    assert starts == {2: 1, 1: 1, 3: 3, 4: 3, 6: 8, 5: 13, 7: 16, 8: 19}
