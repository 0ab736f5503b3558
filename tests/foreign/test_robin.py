"""A robin description with our simulator as batsim: both commands run, and both end if one fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S
from support.places import ROOT

from foreign.inputs import N_JOBS, write_input
from foreign.programs import free_port, rows, with_drop_in
from foreign.robin import FAILURE, SUCCESS, TIMEOUT, write_robin

OURS = f"{sys.executable} -m pybatsched"
NEVER_ENDS = "sleep 1000000"


@dataclass(frozen=True)
class Bench:
    """A directory with inputs, and settings under which `robin` and `batsim` are found."""

    place: Path
    settings: Mapping[str, str]
    batsim: str
    endpoint: str

    def robin(self, **described: object) -> subprocess.CompletedProcess[str]:
        """Run robin with a description; what is not described is as in the first example of Batsim's documentation."""
        usual = {
            "output-dir": str(self.place / "out"),
            "batcmd": self.batsim,
            "schedcmd": f"{OURS} --policy easy --endpoint {self.endpoint}",
            **{f"{name}-timeout": PATIENCE_S for name in ("simulation", "ready", "success", "failure")},
        }
        description = usual | {name.replace("_", "-"): value for name, value in described.items()}
        (self.place / "expe.yaml").write_text(yaml.safe_dump(description))
        return subprocess.run(
            ["robin", "expe.yaml"],
            capture_output=True,
            text=True,
            cwd=self.place,
            env=dict(os.environ) | dict(self.settings),
            timeout=PATIENCE_OF_WORK_S,
            check=False,
        )

    def log(self, name: str) -> str:
        return (self.place / "out" / "log" / f"{name}.log").read_text()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    settings = with_drop_in(tmp_path)
    write_robin(tmp_path / "drop-in")
    made = write_input(tmp_path)
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    batsim = f"batsim -p '{made.platform}' -w '{made.workload}' -e '{tmp_path}/out/batres' -s {endpoint}"
    return Bench(tmp_path, settings, batsim, endpoint)


def test_a_simulation(bench: Bench) -> None:
    done = bench.robin()
    assert done.returncode == SUCCESS, done.stderr
    assert {row["final_state"] for row in rows(bench.place / "out/batres_jobs.csv")} == {"COMPLETED_SUCCESSFULLY"}
    # What Batsim's own tests read in the log: each message, as it was sent.
    sent = [line for line in bench.log("batsim").splitlines() if "Sending '{" in line]
    assert sum(line.count('"JOB_SUBMITTED"') for line in sent) == N_JOBS
    assert (bench.place / "out" / "cmd" / "batsim.bash").read_text().splitlines()[1] == bench.batsim


def test_without_a_scheduler(bench: Bench) -> None:
    assert bench.robin(batcmd=f"{bench.batsim} --no-sched", schedcmd="").returncode == SUCCESS
    assert (bench.place / "out" / "batres_schedule.csv").exists()
    needless = bench.robin(batcmd=f"{bench.batsim} --no-sched")
    assert (needless.returncode, needless.stderr) == (1, "robin: a scheduler is of no use here\n")
    missing = bench.robin(schedcmd="")
    assert (missing.returncode, missing.stderr) == (1, "robin: a scheduler is needed here\n")


def test_when_batsim_fails_the_scheduler_is_ended(bench: Bench) -> None:
    done = bench.robin(batcmd=f"{bench.batsim} --enable-redis", schedcmd=NEVER_ENDS, failure_timeout=0)
    assert done.returncode == FAILURE
    assert "robin: sched: stopped" in done.stderr
    assert "robin: batsim: exit code 2: [0.000000] [batsim/ERROR] --enable-redis: " in done.stderr


def test_when_the_scheduler_fails_batsim_is_ended(bench: Bench) -> None:
    done = bench.robin(schedcmd="false", failure_timeout=0)
    assert done.returncode == FAILURE
    assert "robin: sched: exit code 1" in done.stderr
    assert "robin: batsim: stopped" in done.stderr


def test_when_time_is_over_both_are_ended(bench: Bench) -> None:
    """The scheduler never listens, so Batsim waits for ever."""
    # patience: the event that ends the wait never comes, so any time will do
    done = bench.robin(schedcmd=NEVER_ENDS, simulation_timeout=0.5)
    assert done.returncode == TIMEOUT
    assert done.stderr.count("stopped") == 2


def test_nothing_is_run_on_a_port_in_use(bench: Bench) -> None:
    with socket.socket() as other:
        other.bind(("", int(bench.endpoint.rpartition(":")[2])))
        other.listen()
        done = bench.robin(ready_timeout=0)
    assert (done.returncode, done.stderr) == (1, f"robin: {bench.endpoint}: Address already in use\n")
    assert not (bench.place / "out" / "cmd" / "batsim.bash").exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[]", "expected a mapping"), ("batcmd: x", "output-dir: got None"), ("batcmd: 'x", "found unexpected end")],
)
def test_a_bad_description(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "expe.yaml"
    path.write_text(text)
    command = [sys.executable, str(ROOT / "tests/foreign/robin.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_OF_WORK_S, check=False)
    assert done.returncode == 1
    assert problem in done.stderr
