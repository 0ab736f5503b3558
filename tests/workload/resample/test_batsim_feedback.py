"""Submissions that depend on ends, with the real Batsim: the same schedule as with the embedded simulator."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.places import PUSHY, RECORDED
from support.process import run_cli
from support.simulated import rows, same_jobs

from pybatsched.simulator.options import EXACT, SIMGRID

pytestmark = pytest.mark.batsim

PLATFORM = RECORDED / "fuzz-11" / "platform.xml"  # 8 hosts


def random_feedback(seed: int, n_jobs: int) -> dict[str, Any]:
    """Return random jobs of delays and computations on 8 hosts, many of which follow one or two earlier ones."""
    dice = random.Random(seed)
    profiles: dict[str, Any] = {f"d{s}": {"type": "delay", "delay": s} for s in (2, 7, 10.5, 30)}
    profiles["c"] = {"type": "parallel_homogeneous", "cpu": 3e6, "com": 0}
    jobs: list[dict[str, Any]] = []
    for k in range(1, n_jobs + 1):
        profile = dice.choice([*profiles])
        run_s = profiles[profile].get("delay", 10)
        job = {"id": k, "subtime": dice.randint(0, 3 * k), "res": dice.randint(1, 9), "profile": profile}
        job["walltime"] = run_s + dice.choice([-1, 3, 40])  # some reach it
        if k > 1 and dice.random() < 0.7:
            earlier = range(max(1, k - 8), k)
            job["depends_on"] = dice.choice([dice.choice(earlier), dice.sample(earlier, min(2, k - 1))])
            job["think_time"] = dice.choice([0, 0, 1, 4.75, 20])
        jobs.append(job)
    jobs.sort(key=lambda job: job["subtime"])
    return {"nb_res": 8, "jobs": jobs, "profiles": profiles, "feedback": True}


CASES = [("fcfs", seed) for seed in range(4)] + [("easy", seed) for seed in range(4, 10)]
CASES += [("conservative", seed) for seed in range(10, 14)]
CASES += [(f"{PUSHY}:{name}", seed) for name in ("Restarter", "Gentle") for seed in range(14, 18)]


@pytest.mark.parametrize(("policy", "seed"), CASES)
def test_jobs_that_follow_others_are_the_same_on_batsim(policy: str, seed: int, tmp_path: Path) -> None:
    """The requeuing policies kill jobs that others follow: only the last end counts."""
    (tmp_path / "platform.xml").write_text(PLATFORM.read_text())
    (tmp_path / "w.json").write_text(json.dumps(random_feedback(seed, 40)))
    args = ("-p", "platform.xml", "-w", "w.json", "--policy", policy, "-q")
    done = run_cli("run", *args, "-e", "theirs", "--journal", "theirs.journal", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for clock in (EXACT, SIMGRID):
        done = run_cli("simulate", *args, "--clock", clock, "-e", "mine", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        same_jobs(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")
    done = run_cli("replay", "theirs.journal", "--policy", policy, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    ids = {row["job_id"] for row in rows(tmp_path / "mine_jobs.csv") if row["workload_name"] == "w0"}
    assert ids == {str(k) for k in range(1, 41)}
