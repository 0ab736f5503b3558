"""The benchmark of steps: missing programs are omitted with a note, and all find the same schedule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT

STEPS = ROOT / "benchmarks" / "steps.py"

#: In place of batsim-py: a simulator in which each job waits for five seconds, and takes no time.
STAND_IN = """
import json, sys

class Job:
    def __init__(self, job): self.id, self.res, self.subtime = job["id"], job["res"], job["subtime"]

class Platform:
    def get_not_allocated_hosts(self): return [Job({"id": i, "res": 0, "subtime": 0}) for i in range(64)]

class SimulatorHandler:
    def start(self, platform, workload, verbosity):
        assert platform == "platform.xml"
        self.queue = [Job(job) for job in json.load(open(workload))["jobs"]]
        self.platform, self.is_running = Platform(), True
    @property
    def current_time(self): return self.queue[0].subtime + 5
    def proceed_time(self): self.is_running = False
    def allocate(self, job_id, hosts):
        job = next(job for job in self.queue if job.id == job_id)
        assert len(hosts) == job.res
        self.queue.remove(job)
"""


def lines_of(*arguments: str, before: str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, str(STEPS), "--quick", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": before + os.environ["PATH"]},
        timeout=PATIENCE_OF_WORK_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_batsim_py() -> None:
    _, environment, policy, last = lines_of("--python", "no-such-python")
    assert environment.startswith("pybatsched.gym ")
    assert policy.startswith("policy rl, embedded simulator ")
    assert environment.split()[-2:] == policy.split()[-2:]  # the mean wait
    assert environment.split()[1:3] == ["300", "300"]
    assert last == "batsim-py: left out, it is not installed in no-such-python"


@pytest.mark.long
def test_a_batsim_py_without_batsim_is_omitted(tmp_path: Path) -> None:
    python = tmp_path / "python"
    (tmp_path / "batsim_py.py").write_text("import no_such_simulator")
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert lines_of("--python", str(python))[-1] == f"batsim-py: left out, it is not installed in {python}"
    (tmp_path / "batsim_py.py").write_text(STAND_IN)
    assert lines_of("--python", str(python))[3] == f"{'batsim-py, batsim':<36}left out, no batsim"
    batsim = tmp_path / "bin" / "batsim"
    batsim.parent.mkdir()
    batsim.write_text("#!/bin/sh\n")
    batsim.chmod(0o755)
    row = lines_of("--python", str(python), before=f"{batsim.parent}{os.pathsep}")[3]
    assert row.split()[:4] == ["batsim-py,", "batsim", "300", "301"]
    assert row.endswith("5.00 s")


def test_the_workload_is_readable_by_all_programs(tmp_path: Path) -> None:
    program = (
        "import steps, json; w = steps.random_workload(5); print(json.dumps([w.jobs, w.profiles, steps.machine()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=STEPS.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_OF_WORK_S,
    )
    jobs, profiles, xml = json.loads(done.stdout)
    assert all(job["walltime"] == 2 * profiles[job["profile"]]["delay"] for job in jobs)
    assert xml.count('id="wattage_per_state"') == xml.count('id="watt_per_state"') == 2
