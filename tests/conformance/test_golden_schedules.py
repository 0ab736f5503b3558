"""Schedules on random workloads equal those of simple reference rules and of batsched's fcfs_fast, including hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.places import GOLDEN
from support.simulated import rows

from pybatsched.testing import FakeBatsim, Workload, run_policy

DIRECTORIES = sorted(path.parent for path in (GOLDEN / "schedules").glob("*/workload.json"))
pytestmark = pytest.mark.skipif(not DIRECTORIES, reason=f"no schedules in {GOLDEN} (set PYBATSCHED_GOLDEN)")


def simulate(policy: str, directory: Path) -> FakeBatsim:
    content = json.loads((directory / "workload.json").read_text())
    return run_policy(policy, Workload.from_json(content), content["nb_res"])


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda d: d.name)
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_starts_are_those_of_the_counting_rule(policy: str, directory: Path) -> None:
    run = simulate(policy, directory)
    expected = {f"w0!{row['job_id']}": row["start"] for row in rows(directory / f"counted_{policy}_starts.csv")}
    assert {job.id: f"{job.started_at:.6f}" for job in run.jobs.values()} == expected


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda d: d.name)
def test_fcfs_is_batscheds_fcfs_fast(directory: Path) -> None:
    run = simulate("fcfs", directory)
    expected = {
        f"w0!{row['job_id']}": (row["starting_time"], row["finish_time"], row["allocated_resources"])
        for row in rows(directory / "fcfs_fast_jobs.csv")
    }
    assert {
        job.id: (f"{job.started_at:.6f}", f"{job.ended_at:.6f}", str(job.procs)) for job in run.jobs.values()
    } == expected
