"""The published policies with the real Batsim: the same jobs as on the embedded simulator."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_OF_WORK_S
from support.places import RECORDED
from support.process import Server
from support.simulated import rows, same_but_for_halves, same_jobs

from pybatsched.cli import main
from pybatsched.machines import names

pytestmark = pytest.mark.batsim

PLATFORM = RECORDED / "fuzz-11" / "platform.xml"
N_PROCS = 8


def crowd(seed: int, n_jobs: int, *, urgent: bool = False) -> dict[str, Any]:
    """Draw a crowd of delays, parallel tasks and composed jobs; some have deadlines, or are urgent."""
    dice = random.Random(seed)
    profiles: dict[str, Any] = {f"d{s}": {"type": "delay", "delay": s} for s in (1, 2, 2.5, 5, 9, 40)}
    profiles["p"] = {"type": "parallel_homogeneous", "cpu": 4e9, "com": 0}
    profiles["c"] = {"type": "composed", "repeat": 2, "seq": ["d1", "d2.5"]}
    jobs = []
    at = 0.0
    for index in range(n_jobs):
        at = round(at + dice.choice([0, 0.5, 1, 2, 6]), 6)
        name = dice.choice(sorted(profiles))
        job = {"id": str(index), "subtime": at, "res": dice.choice([1, 1, 2, 2, 3, 6]), "profile": name, "walltime": 60}
        job["user"] = f"u{index % 3}"
        if name.startswith("d"):
            job["estimate"] = profiles[name]["delay"] + dice.choice([0, 0, 3])
        if urgent:
            job |= (
                {"urgent": True, "res": dice.choice([2, 5, 8])}
                if index % 5 == 4
                else {"memory_gb": dice.choice([0, 6, 9])}
            )
        elif index % 3 == 2:
            job["max_stay"] = 60 + dice.choice([0, 30, 400])
        jobs.append(job)
    return {"nb_res": N_PROCS, "jobs": jobs, "profiles": profiles}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "policy",
    [
        ("redirection", "group_size=2", "theta=2"),
        ("redirection", "alpha=0.25", "theta=1", "filter=none", "decision=per_round", "principal=conservative"),
        ("dbf",),
        ("dbf", "fixpoint=false", "infeasible=reject"),
        ("ujf",),
        ("ujfb",),
        ("ujfb", "swap=uniform", "pd=serial", "victim_order=longest_remaining", "urgent_order=shortest"),
        ("ujfb", "swap=fixed", "swap_out=0", "swap_in=2.5", "resume_same_resources=false", "victim_order=fewest"),
        ("ujfb", "mode=kill_restart", "compression=false", "order=sjf"),
        ("easy", "order=wfp3"),
        ("easy", "order=f1", "backfill_order=saf"),
        ("easy", "backfill_order=sjf", "predict=last2", "correct=incremental"),
        ("easy", "predict=linear", "correct=doubling"),
        ("conservative", "predict=user_mean", "correct=requested"),
        ("dbf", "predict=last2", "correct=doubling"),
        ("ujfb", "predict=mean2", "correct=incremental"),
        ("published_predictsim", "backfill_order=sjf", "predict=last2", "correct=incremental"),
        ("published_rlscheduler", "order=wfp3", "backfilling=true"),
    ],
    ids=" ".join,
)
def test_the_same_jobs_as_on_the_embedded_simulator(policy: tuple[str, ...], seed: int, tmp_path: Path) -> None:
    (tmp_path / "platform.xml").write_text(PLATFORM.read_text())
    run_both(crowd(seed, 80, urgent=policy[0].startswith("ujf")), policy, tmp_path)
    # The learnt predictor has six random decimals.
    same = same_but_for_halves if "predict=linear" in policy else same_jobs
    same(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")
    if policy[0] in {"redirection", "ujfb"}:
        assert any("kind=requeue" in row["metadata"] for row in rows(tmp_path / "theirs_jobs.csv"))


def run_both(workload: dict[str, Any], policy: tuple[str, ...], folder: Path) -> None:
    """Run a workload on ``platform.xml`` of a folder with Batsim and embedded: ``theirs_`` and ``mine_``."""
    (folder / "w.json").write_text(json.dumps(workload))
    args = ["-p", str(folder / "platform.xml"), "-w", str(folder / "w.json"), "--enable-dynamic-jobs"]
    options = [part for text in policy[1:] for part in ("-o", text)]
    with Server("--policy", policy[0], *options) as server:
        command = ["batsim", *args, "-s", server.wait_ready(), "-e", str(folder / "theirs"), "-q"]
        batsim = subprocess.run(command, capture_output=True, timeout=PATIENCE_OF_WORK_S, check=False)
        code = server.finish()
    assert batsim.returncode == 0
    mine = str(folder / "mine")
    assert main(["simulate", *args, "--policy", policy[0], *options, "-e", mine, "--quiet"]) == code


def crowd_of_nodes(seed: int, n_jobs: int) -> dict[str, Any]:
    """Draw jobs that request memory, GPUs or whole nodes."""
    dice = random.Random(seed)
    jobs, at = [], 0
    for index in range(n_jobs):
        at += dice.choice([0, 1, 2, 6])
        job: dict[str, Any] = {"id": str(index), "subtime": at, "res": dice.choice([1, 2, 3, 6]), "walltime": 60}
        job["profile"] = dice.choice(["d5", "d9", "d40"])
        job |= dice.choice(
            [
                {},
                {"memory_gb": dice.choice([1, 4.5])},
                {"gpus_per_node": dice.choice([1, 2]), "node_memory_gb": 6},
                {"gpus": 3},
                {"n_nodes": 2, "cores_per_node": 2, "res": 4},
                {"n_nodes": "1-2", "exclusive": True},
                {"features": "ib"},
            ]
        )
        jobs.append(job)
    return {"nb_res": 16, "jobs": jobs, "profiles": {f"d{s}": {"type": "delay", "delay": s} for s in (5, 9, 40)}}


@pytest.mark.parametrize("seed", range(17))
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_nodes_need_nothing_from_batsim(policy: str, seed: int, tmp_path: Path) -> None:
    nodes = names.of_nodes("2 x 4 cores 16 GB, 2 x 4 cores 32 GB 2 gpus:a100 features ib")
    (tmp_path / "platform.xml").write_text(nodes.text)
    run_both(crowd_of_nodes(seed, 60), (policy,), tmp_path)
    same_jobs(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")
    finished = [row for row in rows(tmp_path / "mine_jobs.csv") if row["final_state"] == "COMPLETED_SUCCESSFULLY"]
    assert len(finished) > 40
    assert any(float(row["waiting_time"]) > 10 for row in finished)


PARTITIONS = "batch: 0-2, max_time 70, default; gpu: 2-3, max_nodes 1, priority 5; all: all"
#: Two whole nodes for a while, and then half a node.
RESERVATIONS = [
    {"name": "r0", "start": 40, "duration": 60, "hosts": "0-7", "users": ["alice"]},
    {"name": "r1", "start": 130, "duration": 80, "hosts": "8-9", "users": ["alice"], "conflict": "kill"},
]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("is_reserved", [False, True])
def test_partitions_and_reservations_of_nodes_need_nothing_from_batsim(
    policy: str, seed: int, tmp_path: Path, *, is_reserved: bool
) -> None:
    nodes = names.of_nodes("2 x 4 cores 16 GB, 2 x 4 cores 32 GB 2 gpus:a100 features ib")
    (tmp_path / "platform.xml").write_text(nodes.text)
    workload, dice = crowd_of_nodes(seed, 60), random.Random(seed)
    for job in workload["jobs"]:
        named = dice.choice(["", "", "batch", "gpu", "gpu,batch", "all"])
        job.update({"partition": named} if named else {})
        if is_reserved and dice.random() < 0.2:
            job.update(user="alice", reservation=dice.choice(["r0", "r1"]), walltime=41, partition="all")
    options = [f"node_partitions={PARTITIONS}"]
    options += [f"host_reservations={json.dumps(RESERVATIONS)}"] * is_reserved
    run_both(workload, (policy, *options), tmp_path)
    same_jobs(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")
    finished = [row for row in rows(tmp_path / "mine_jobs.csv") if row["final_state"] == "COMPLETED_SUCCESSFULLY"]
    assert len(finished) > 25
