"""The embedded simulator beside the real Batsim: the same messages to random schedulers, the same files.

That policies get the same jobs from both, on all recorded inputs, is checked in test_batsim.py.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from support.external_runs import SIMULATE, comparable, exit_code_of
from support.fuzzer import Fuzzer, machine_events, random_workload
from support.logs import line, log
from support.patience import PATIENCE_S
from support.places import PUSHY, RECORDED
from support.process import Server, run_cli
from support.simulated import embed, rows, same_jobs

from pybatsched.machines import names
from pybatsched.simulator.options import AUTO, SIMGRID

pytestmark = pytest.mark.batsim

PLATFORM = RECORDED / "fuzz-11" / "platform.xml"
ENERGY = RECORDED / "energy" / "platform.xml"


CASES = [("plain", seed) for seed in range(30)]
CASES += [("sharing", seed) for seed in range(15)] + [("energy", seed) for seed in range(9, 24)]


@pytest.mark.parametrize("clock", [AUTO, SIMGRID])
@pytest.mark.parametrize(("mode", "seed"), CASES)
def test_random_schedulers_get_the_same_messages_from_both(mode: str, seed: int, clock: str, tmp_path: Path) -> None:
    dice = random.Random(seed + 1000)
    n_procs = 4 if mode == "energy" else 8
    (tmp_path / "platform.xml").write_text((ENERGY if mode == "energy" else PLATFORM).read_text())
    (tmp_path / "w.json").write_text(json.dumps(random_workload(seed, dice.randint(1, 60), n_procs)))
    args = ["-p", "platform.xml", "-w", "w.json"]
    args += {"plain": [], "sharing": ["--enable-compute-sharing"], "energy": ["-E"]}[mode]
    dynamic = dice.random() < 0.4
    if dice.random() < 0.3:
        (tmp_path / "w2.json").write_text(json.dumps(random_workload(seed + 5000, dice.randint(0, 20), n_procs)))
        args += ["-w", "w2.json"]
    if dynamic:
        args += ["--enable-dynamic-jobs", *(["--acknowledge-dynamic-jobs"] if dice.random() < 0.5 else [])]
    if dice.random() < 0.3:
        (tmp_path / "events.txt").write_text(machine_events(dice, n_procs))
        args += ["--events", "events.txt"]
    theirs, mine = (Fuzzer(seed, dynamic=dynamic, sharing=mode == "sharing") for _ in range(2))
    code = exit_code_of(["batsim", *args, "-e", "theirs", "-q"], tmp_path, theirs)
    my_code = exit_code_of([*SIMULATE, *args, "--clock", clock, "-e", "mine"], tmp_path, mine)
    assert [comparable(m) for m in mine.requests] == [comparable(m) for m in theirs.requests]
    assert (my_code in {0, 8}) == (code == 0)  # 8: no job completed
    if code == 0:
        killed_at_zero = any(
            row["final_state"] == "COMPLETED_KILLED" and row["starting_time"] == row["finish_time"] == "0.000000"
            for row in rows(tmp_path / "theirs_jobs.csv")
        )
        if clock == SIMGRID or not killed_at_zero:  # there Batsim's 1e-300 s hops show
            same_jobs(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")


@pytest.mark.parametrize("policy", ["Restarter", "Gentle", "Stretcher"])
def test_requeued_and_replaced_jobs_are_the_same(policy: str, tmp_path: Path) -> None:
    content = random_workload(5, 60, 8)
    content["jobs"] = [job for job in content["jobs"] if job["profile"] not in {"mix", "nest", "nothing", "total"}]
    (tmp_path / "platform.xml").write_text(PLATFORM.read_text())
    (tmp_path / "w.json").write_text(json.dumps(content))
    args = ["-p", "platform.xml", "-w", "w.json", "--enable-dynamic-jobs", "--enable-profile-reuse"]
    with Server("--policy", f"{PUSHY}:{policy}") as server:
        command = ["batsim", *args, "-s", server.wait_ready(), "-e", "theirs", "-q"]
        batsim = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False)
        assert (batsim.returncode, server.finish()) == (0, 0), server.errors
    mine = embed(tmp_path, args, f"{PUSHY}:{policy}", tmp_path / "mine")
    same_jobs(mine, tmp_path / "theirs_jobs.csv")
    assert any("parent=" in row["metadata"] for row in rows(mine))


@pytest.mark.parametrize(
    ("load_s", "within", "requeued"),
    [(2.5, False, ""), (2.5, True, ""), (30, True, ""), (2.5, True, "rest"), (4, False, "all")],
)
def test_loads_before_the_work_are_the_same(load_s: float, within: bool, requeued: str, tmp_path: Path) -> None:
    content = random_workload(7, 60, 8)
    of_delays = {name for name, profile in content["profiles"].items() if profile["type"] == "delay"}
    content["jobs"] = [job for job in content["jobs"] if job["profile"] in of_delays]
    (tmp_path / "platform.xml").write_text(PLATFORM.read_text())
    (tmp_path / "w.json").write_text(json.dumps(content))
    args = ["-p", "platform.xml", "-w", "w.json", "--enable-dynamic-jobs", "--enable-profile-reuse"]
    args += ["--sched-cfg", json.dumps({"load_s": load_s, "within": within, "requeued": requeued})]
    with Server("--policy", f"{PUSHY}:Loader") as server:
        command = ["batsim", *args, "-s", server.wait_ready(), "-e", "theirs", "-q"]
        batsim = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=PATIENCE_S, check=False)
        assert (batsim.returncode, server.finish()) == (0, 0), server.errors
    mine = embed(tmp_path, args, f"{PUSHY}:Loader", tmp_path / "mine")
    same_jobs(mine, tmp_path / "theirs_jobs.csv")
    loaded = [row for row in rows(mine) if f"extra_s={load_s};load_s={load_s}" in row["metadata"]]
    assert len(loaded) >= len(content["jobs"])
    killed = [row for row in loaded if row["final_state"] == "COMPLETED_WALLTIME_REACHED"]
    if not requeued:
        hopeless = {
            f"w0.{job['id']}.1"
            for job in content["jobs"]
            if content["profiles"][job["profile"]]["delay"] + load_s * within >= job.get("walltime", float("inf"))
        }
        assert {row["job_id"] for row in killed} == hopeless
    assert killed
    assert all(float(row["execution_time"]) == float(row["requested_time"]) for row in killed)


@pytest.mark.parametrize("load", [False, True])
def test_converted_jobs_take_as_long_with_load_and_draw_as_much_as_in_batsim(load: bool, tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(names.find("rackham-128gb-core-energy@0.004").text)  # 40 cores
    dice = random.Random(7)
    lines = [
        line(k, 7 * k, run=round(dice.uniform(0.5, 900), 3), allocated=dice.randint(1, 40), requested_s=1000)
        for k in range(1, 40)
    ]
    log(tmp_path, *lines, header="; MaxProcs: 40\n")
    more = ("--cpu-load",) if load else ()
    assert (
        run_cli("workload", "convert", "log.swf", "w.json", "--platform", "p.xml", *more, cwd=tmp_path).returncode == 0
    )
    args = ("-p", "p.xml", "-w", "w.json", "--policy", "easy", "-q")
    assert run_cli("simulate", *args, "-E", "-e", "ours", cwd=tmp_path).returncode == 0
    done = run_cli("run", *args, "-e", "batsims", "--", "-E", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ours_jobs.csv").read_text() == (tmp_path / "batsims_jobs.csv").read_text()
    content = json.loads((tmp_path / "w.json").read_text())
    logged = {str(job["id"]): float(job["profile"]) for job in content["jobs"]}  # profiles are named after run times
    for row in rows(tmp_path / "batsims_jobs.csv"):
        assert float(row["execution_time"]) == pytest.approx(logged[row["job_id"]], abs=2e-6)
    ours, batsims = (
        json.loads((tmp_path / f"{who}_summary.json").read_text())["energy"] for who in ("ours", "batsims")
    )
    assert ours == pytest.approx(batsims, rel=1e-9)
    held_s = sum(logged[str(job["id"])] * job["res"] for job in content["jobs"])
    assert batsims["energy_jobs_j"] == pytest.approx(held_s * (12.5 if load else 4.5), rel=1e-6)
