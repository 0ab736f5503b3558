"""Jobs that may not start yet, or that run at the start, with the real Batsim: the same schedule as embedded."""

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


def random_jobs(seed: int, n_jobs: int, *, has_running: bool) -> dict[str, Any]:
    """Return random jobs on 8 hosts, most of which may not start at once; some run from the start on."""
    dice = random.Random(seed)
    profiles: dict[str, Any] = {f"d{s}": {"type": "delay", "delay": s} for s in (2, 7, 10.5, 30)}
    profiles["c"] = {"type": "parallel_homogeneous", "cpu": 1e10, "com": 0}  # 10 s
    jobs: list[dict[str, Any]] = []
    for k in range(1, n_jobs + 1):
        profile = dice.choice([*profiles])
        run_s = profiles[profile].get("delay", 10)
        job = {"id": f"{k:02}", "subtime": dice.randint(0, 3 * k), "res": dice.randint(1, 8), "profile": profile}
        job["walltime"] = run_s + dice.choice([-1, 3, 40])  # some reach it
        others = [f"{one:02}" for one in range(max(1, k - 8), k + 2) if one != k]
        if dice.random() < 0.5:
            kinds = [dice.choice(("after", "afterany", "afterok", "afternotok")) for _ in range(dice.randint(1, 2))]
            job["depends_on"] = dice.choice(",?").join(f"{kind}:{dice.choice(others)}" for kind in kinds)
        if dice.random() < 0.3:
            job |= {"array": dice.choice("pq"), "array_limit": 2}
        if dice.random() < 0.2:
            job["eligible_at"] = dice.randint(0, 150)
        if dice.random() < 0.05:
            job["hold"] = True
        if dice.random() < 0.1 and has_running:
            job = {**job, "subtime": 0, "res": 1, "running_at_start": dice.choice([True, "7", "3"])}
        jobs.append(job)
    jobs.sort(key=lambda job: job["subtime"])
    return {"nb_res": 8, "jobs": jobs, "profiles": profiles}


CASES = [("fcfs", seed) for seed in range(4)] + [("easy", seed) for seed in range(4, 10)]
CASES += [("conservative", seed) for seed in range(10, 14)]
CASES += [(f"{PUSHY}:{name}", seed) for name in ("Restarter", "Gentle") for seed in range(14, 18)]


@pytest.mark.parametrize(("policy", "seed"), CASES)
def test_jobs_start_when_they_may_on_batsim(policy: str, seed: int, tmp_path: Path) -> None:
    """The requeuing policies kill jobs that others depend on: only the last end counts.

    They would also kill jobs at the instant of their start at 0, which has other times in Batsim.
    """
    (tmp_path / "platform.xml").write_text(PLATFORM.read_text())
    (tmp_path / "w.json").write_text(json.dumps(random_jobs(seed, 40, has_running=":" not in policy)))
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
    assert ids == {f"{k:02}" for k in range(1, 41)}
