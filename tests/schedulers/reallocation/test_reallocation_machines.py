"""Reallocation when machines fail permanently: their waiting jobs move elsewhere, in order of submission."""

from __future__ import annotations

from typing import Any

import pytest
from support import holding
from support.gridded import Fate, Grid, fates, rejections
from support.located import DYNAMIC, facts

from pybatsched.core import events as e
from pybatsched.testing import FakeBatsim, Workload, run_policy

TWO = Grid({"c1": (4, None), "c2": (4, None)})
GONE = [(20.0, e.MACHINES_UNAVAILABLE, "0")]


def run(jobs: Workload, grid: Grid = TWO, **options: Any) -> FakeBatsim:
    return run_policy(
        "reallocation", jobs, grid.n_procs, hosts=grid.hosts, config=DYNAMIC, machine_events=GONE, **options
    )


def example() -> Workload:
    """Both clusters are busy; 3 waits for all of c1, which loses a machine while 5 waits for c2 already."""
    jobs = Workload().job("1", n=4, s=100, walltime=100, external=True, cluster="c1")
    jobs.job("2", n=4, s=200, walltime=200, external=True, cluster="c2")
    jobs.job("3", n=4, s=10, walltime=10, at=1)
    jobs.job("5", n=4, s=5, walltime=5, at=2, external=True, cluster="c2")
    return jobs


@pytest.mark.parametrize("algorithm", ["none", "regular", "all_cancellation"])
def test_a_rigid_job_goes_to_another_cluster(algorithm: str) -> None:
    found = fates(run(example(), algorithm=algorithm), TWO)
    assert found["3"] == Fate(205.0, 215.0, "c2", 4, 1, 1)  # after the jobs that wait there
    assert found["5"] == Fate(200.0, 205.0, "c2", 4)


def test_jobs_of_a_lost_cluster_precede_jobs_submitted_at_that_instant() -> None:
    jobs = example().job("6", n=4, s=7, walltime=7, at=20)
    found = fates(run(jobs), TWO)
    assert (found["3"].started_at, found["6"].started_at) == (205.0, 215.0)


def test_a_moldable_job_may_shrink_on_its_cluster() -> None:
    jobs = example()
    jobs.jobs[2]["moldable"] = {"fraction": 1.0, "limit": 4}
    found = fates(run(jobs), TWO)
    assert found["3"] == Fate(100.0, 113.333333, "c1", 3, 0, 1)  # the cluster is the same: no move


def test_external_jobs_and_jobs_that_fit_nowhere_are_rejected() -> None:
    grid = Grid({"c1": (4, None), "c2": (3, None)})
    jobs = Workload().job("1", n=4, s=100, walltime=100, external=True, cluster="c1")
    jobs.job("2", n=4, s=9, walltime=9, external=True, cluster="c1", at=1).job("3", n=4, s=9, walltime=9, at=2)
    found = run(jobs, grid)
    assert rejections(found) == {"2", "3"}
    assert set(fates(found, grid)) == {"1"}
    assert all(facts(job).keys() <= {"cluster"} for job in found.jobs.values())


def test_jobs_of_a_lost_cluster_keep_their_submission_order() -> None:
    """With a window of one minmin looks at the oldest only."""
    grid = Grid({"c1": (4, None), "c2": (4, None), "c3": (4, None)})
    jobs = Workload().job("1", n=4, s=1000, walltime=1000, external=True, cluster="c1")
    jobs.job("2", n=4, s=2000, walltime=2000, external=True, cluster="c2")
    jobs.job("3", n=4, s=40, walltime=5000, external=True, cluster="c3")
    jobs.job("4", n=4, s=10, walltime=10, at=1)  # waits for c1 until that is too small, then for c2
    jobs.job("5", n=3, s=2000, walltime=2000, at=2)  # waits for c1
    found = fates(run(jobs, grid, heuristic="minmin", window=1, period=50), grid)
    assert found["4"] == Fate(50.0, 60.0, "c3", 4, 2, 2)
    assert found["5"] == Fate(100.0, 2100.0, "c3", 3, 1, 1)


@pytest.mark.parametrize("algorithm", ["none", "regular", "all_cancellation"])
def test_a_held_job_is_not_moved(algorithm: str) -> None:
    """1 and 2 rest until 50, and no event moves them; 3 waits for 1, then rests as well.

    All cancellation withdraws 3 at 20 and 60. The second event finds another plan, because 1 and 2 have started.
    """
    jobs = Workload().job("1", n=4, s=100, walltime=100).job("2", n=4, s=200, walltime=200, external=True, cluster="c2")
    jobs.job("3", n=4, s=10, walltime=10)
    found = TWO.run(jobs, algorithm=algorithm, local=holding.NAME, period=20)
    assert fates(found, TWO) == {
        "1": Fate(50.0, 150.0, "c1", 4),
        "2": Fate(50.0, 250.0, "c2", 4),
        "3": Fate(200.0, 210.0, "c1", 4, 0, 2 if algorithm == "all_cancellation" else 0),
    }


def test_a_held_job_that_loses_its_machines_waits_again_and_may_move() -> None:
    """At 20 job 1 loses c1 for now; at 40, the next event, it goes to c2, where it rests until 90."""
    jobs = Workload().job("1", n=4, s=100, walltime=100).job("2", n=1, s=5, walltime=5, external=True, cluster="c1")
    away = [(20.0, e.MACHINES_UNAVAILABLE, "0"), (500.0, e.MACHINES_AVAILABLE, "0")]
    options: dict[str, Any] = {"local": holding.NAME, "period": 40}
    found = run_policy(
        "reallocation", jobs, TWO.n_procs, hosts=TWO.hosts, config=DYNAMIC, machine_events=away, **options
    )
    assert fates(found, TWO)["1"] == Fate(90.0, 190.0, "c2", 4, 1, 1)
