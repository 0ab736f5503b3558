"""Failures, checkpoints, reservations and draining beside the real Batsim: the same jobs as in the simulator."""

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
from support.simulated import rows, same_jobs

from pybatsched.cli import main
from pybatsched.platform import model
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.workload import load
from pybatsched.workload.formats import batsim4
from pybatsched.workload.inject.checkpoints import Checkpointing, with_checkpoints

pytestmark = pytest.mark.batsim

PLATFORM = RECORDED / "fuzz-11" / "platform.xml"
N_PROCS = 8
RESERVATIONS = """
[[reservation]]
name = "maintenance"
start = 60
duration = 25
hosts = 3
every = 90
count = 3

[[reservation]]
name = "course"
start = 30
duration = 40
hosts = "0-2"
users = ["u1"]
conflict = "requeue"
"""


def crowd(seed: int, n_jobs: int) -> dict[str, Any]:
    """Draw delays; some jobs of u1 run in the reservation."""
    dice = random.Random(seed)
    profiles: dict[str, Any] = {f"d{s}": {"type": "delay", "delay": s} for s in (1, 2, 2.5, 5, 9, 40)}
    jobs = []
    at = 0.0
    for index in range(n_jobs):
        at = round(at + dice.choice([0, 0.5, 1, 2, 6]), 6)
        name = dice.choice(sorted(profiles))
        job = {"id": str(index), "subtime": at, "res": dice.choice([1, 1, 2, 2, 3, 6]), "profile": name, "walltime": 60}
        job |= {"user": f"u{index % 3}", "estimate": profiles[name]["delay"] + dice.choice([0, 0, 3])}
        if index % 9 == 4:
            job["reservation"] = "course"
        jobs.append(job)
    return {"nb_res": N_PROCS, "jobs": jobs, "profiles": profiles}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "policy",
    [
        ("fcfs", "on_failure=requeue_first"),
        ("easy", "on_failure=requeue_first"),
        ("easy", "on_failure=requeue_last", "order=wfp3"),
        ("easy", "on_failure=resubmit"),
        ("conservative", "on_failure=requeue_first", "expected_repair_s=5"),
        ("dbf", "on_failure=kill"),
        ("ujfb", "on_failure=requeue_first"),
        ("redirection", "group_size=2", "theta=2", "on_failure=requeue_first"),
    ],
    ids=" ".join,
)
def test_the_same_jobs_as_on_the_embedded_simulator(policy: tuple[str, ...], seed: int, tmp_path: Path) -> None:
    (tmp_path / "platform.xml").write_text(PLATFORM.read_text())
    (tmp_path / "plain.json").write_text(json.dumps(crowd(seed, 60)))
    made = with_checkpoints(
        load(str(tmp_path / "plain.json")), Checkpointing("4", "0.5", "0.25"), node_mtbf_s=None, speed=None
    )
    batsim4.write(made, str(tmp_path / "w.json"))
    (tmp_path / "r.toml").write_text(RESERVATIONS)
    failures = FailureModel(150.0, repair="5", seed=seed).on(model.uniform(N_PROCS)).until(400)
    # On a grid of half seconds, where the clock of Batsim has no rounding errors.
    events = [dict(event.described) | {"timestamp": round(2 * event.at) / 2} for event in failures]
    events += [
        {"timestamp": 20.5, "type": "drain", "resources": "5-6"},
        {"timestamp": 50.5, "type": "undrain", "resources": "5-6"},
    ]
    events.sort(key=lambda event: (event["timestamp"], event["type"]))
    (tmp_path / "e.txt").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    args = ["-p", str(tmp_path / "platform.xml"), "-w", str(tmp_path / "w.json"), "--events", str(tmp_path / "e.txt")]
    args += ["--enable-dynamic-jobs", "--forward-unknown-events"]
    options = [word for text in policy[1:] for word in ("-o", text)]
    options += ["--reservations", str(tmp_path / "r.toml")]
    with Server("--policy", policy[0], *options) as server:
        command = ["batsim", *args, "-s", server.wait_ready(), "-e", str(tmp_path / "theirs"), "-q"]
        batsim = subprocess.run(command, capture_output=True, timeout=PATIENCE_OF_WORK_S, check=False)
        code = server.finish()
    assert batsim.returncode == 0, batsim.stderr[-2000:]
    mine = str(tmp_path / "mine")
    assert main(["simulate", *args, "--policy", policy[0], *options, "-e", mine, "--quiet"]) == code
    same_jobs(Path(f"{mine}_jobs.csv"), tmp_path / "theirs_jobs.csv")
    notes = [row["metadata"] for row in rows(tmp_path / "theirs_jobs.csv")]
    if "on_failure=kill" not in policy:
        assert any("failures=" in note for note in notes)
        assert any("kept_s=" in note for note in notes)
