"""The worked examples of the papers, start by start and end by end."""

from __future__ import annotations

from typing import Any

import pytest

from pybatsched.testing import Workload, run_policy

# (id, submitted, processors, estimate, run time)
E1 = [(1, 0, 6, 10, 10), (2, 1, 5, 10, 10), (3, 2, 8, 5, 5), (4, 3, 2, 30, 30), (5, 4, 1, 5, 5), (6, 5, 3, 10, 10)]
E2B = [(1, 0, 4, 10, 6), (2, 0, 4, 6, 6), (3, 1, 6, 4, 4), (4, 2, 2, 12, 12), (5, 3, 4, 3, 3), (6, 4, 8, 2, 2)]

COMPRESSED = {1: (0, 6), 2: (0, 6), 3: (6, 10), 4: (6, 18), 5: (10, 13), 6: (18, 20)}


def workload(rows: list[tuple[int, int, int, int, int]], *, walltimes: str) -> Workload:
    """Give the estimate as a field beside a looser walltime, or as the walltime itself."""
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
