"""Failures on a machine of a thousand hosts, with jobs in the shape of LANL's case: up to 20,000 jobs under EASY."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import pybatsched as pb

N_HOSTS = 1_000
MTBF_S = 54_000.0  # of the system


def jobs_of(n_jobs: int, seed: int) -> dict[str, Any]:
    """Draw jobs of 1 to 1,000 hosts and minutes to a day, submitted faster than the machine can run them."""
    dice = random.Random(seed)
    profiles: dict[str, Any] = {}
    jobs = []
    for index in range(n_jobs):
        run_s = min(max(round(dice.lognormvariate(math.log(7_000), 1.2)), 60), 86_400)
        n = min(max(round(dice.lognormvariate(math.log(30), 1.3)), 1), N_HOSTS)
        profiles.setdefault(f"d{run_s}", {"type": "delay", "delay": run_s})
        job = {"id": str(index), "subtime": 10 * index, "res": n, "profile": f"d{run_s}", "walltime": 2 * run_s}
        jobs.append(job)
    return {"nb_res": N_HOSTS, "jobs": jobs, "profiles": profiles}


@pytest.mark.parametrize("n_jobs", [600, pytest.param(20_000, marks=pytest.mark.long)])
def test_every_job_ends_once(n_jobs: int, tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(json.dumps(jobs_of(n_jobs, 3)))
    failures = {"mtbf": f"{MTBF_S:.0f}", "of": "system", "repair": "1h", "seed": 1}
    run = pb.simulate(tmp_path / "w.json", "easy", failures=failures, progress=False)
    figures: dict[str, Any] = dict(run.figures)
    assert figures["n_completed"] == n_jobs
    expected = figures["makespan_s"] / MTBF_S
    assert abs(figures["n_failures"] - expected) <= 5 * math.sqrt(expected) + 2
    assert run.jobs["failures"].drop_nulls().sum() == figures["n_failure_kills"]
    assert 0.8 < figures["application_efficiency"] <= 1
    # All work is done once: run times are those of the profiles, whatever was lost.
    delays = {job["id"]: float(job["profile"][1:]) for job in jobs_of(n_jobs, 3)["jobs"]}
    for job_id, runtime_s in zip(run.jobs["id"], run.jobs["runtime_s"], strict=True):
        assert runtime_s == pytest.approx(delays[job_id.removeprefix("w0!")], abs=1e-5)
