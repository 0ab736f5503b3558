"""Platform files with the real Batsim: it accepts what we accept, rejects what we reject, and runs on every machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.platforms import DEFECTS, HARMLESS, MASTER, ONLY_BATSIM_4
from support.process import Server, run_cli
from support.simulated import rows, simgrid_version

from pybatsched.machines import names

pytestmark = pytest.mark.batsim

#: The largest machines take Batsim minutes to load.
TOO_LARGE = {"curie-core", "curie-core-energy", "intrepid-core", "intrepid-core-energy"}
#: Batsim 4.2.1 accepts these on SimGrid 3.32 only.
REJECTED_SINCE_3_34 = {"a network model"}


def workload(n_hosts: int) -> str:
    """Use every host of a machine of four, or some of a larger one; spans are exact in binary."""
    sizes = [1, 1, 2, 4, min(n_hosts, 300)]
    jobs = [
        {"id": str(i), "subtime": i * 0.5, "res": n, "walltime": 100, "profile": "p" if i % 2 else "d"}
        for i, n in enumerate(sizes)
    ]
    profiles = {"d": {"type": "delay", "delay": 8}, "p": {"type": "parallel_homogeneous", "cpu": 4e9, "com": 0}}
    return json.dumps({"nb_res": n_hosts, "jobs": jobs, "profiles": profiles})


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    (tmp_path / "w.json").write_text(workload(4))
    return tmp_path


@pytest.mark.parametrize("name", DEFECTS)
def test_batsim_fails_on_the_platforms_that_we_reject(name: str, inputs: Path) -> None:
    (inputs / "p.xml").write_text(DEFECTS[name].text)
    assert not survives(inputs)


@pytest.mark.parametrize("name", HARMLESS)
def test_batsim_accepts_the_platforms_that_we_accept(name: str, inputs: Path) -> None:
    (inputs / "p.xml").write_text(HARMLESS[name])
    assert survives(inputs)


@pytest.mark.parametrize("name", ONLY_BATSIM_4)
def test_batsim_accepts_the_platforms_that_only_batsim_5_rejects(name: str, inputs: Path) -> None:
    (inputs / "p.xml").write_text(ONLY_BATSIM_4[name].text)
    is_rejected = name in REJECTED_SINCE_3_34 and simgrid_version() >= (3, 34)
    assert survives(inputs, "-m", MASTER) is not is_rejected


def survives(inputs: Path, *more: str) -> bool:
    """Let Batsim run on a platform, without our looking at the file."""
    with Server("--policy", "fcfs", "--timeout", f"{PATIENCE_S:g}", endpoint=f"ipc://{inputs}/socket") as server:
        endpoint = server.wait_ready()
        command = ["batsim", "-p", "p.xml", "-w", "w.json", "-e", "out", "-q", "-s", endpoint, *more]
        done = subprocess.run(command, cwd=inputs, capture_output=True, timeout=PATIENCE_S, check=False)
    jobs = inputs / "out_jobs.csv"
    return done.returncode == 0 and jobs.exists() and len(rows(jobs)) == 5


@pytest.mark.parametrize("name", [name for name in names.all_names() if name not in TOO_LARGE])
def test_every_machine_runs_the_same_on_both(name: str, tmp_path: Path) -> None:
    n_hosts = names.find(name).read().n_procs
    (tmp_path / "w.json").write_text(workload(n_hosts))
    args = ("-p", name, "-w", "w.json", "--policy", "easy")
    energy = ("-E",) if name.endswith("-energy") else ()
    real = run_cli("run", *args, "-e", "real", *(("--", *energy) if energy else ()), cwd=tmp_path)
    assert real.returncode == 0, real.stderr
    embedded = run_cli("simulate", *args, "-e", "embedded", *energy, cwd=tmp_path)
    assert embedded.returncode == 0, embedded.stderr
    assert real.stdout == embedded.stdout
    assert rows(tmp_path / "real_jobs.csv") == rows(tmp_path / "embedded_jobs.csv")
