"""Complete real logs: the fast policies and their slow twins, and averages compared with published ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.places import TRACES
from support.simulated import rows
from support.twins import SlowEasy

from pybatsched.core.policy import Policy
from pybatsched.metrics import Figures
from pybatsched.platform.model import uniform
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.files import batsim_files
from pybatsched.simulator.run import run_policy
from pybatsched.testing import plan_for
from pybatsched.workload import Workload, load

SP2, CTC = "SDSC-SP2-1998-4.2-cln.swf.gz", "CTC-SP2-1996-3.1-cln.swf.gz"
DS, HPC2N = "SDSC-DS-2004-2.1-cln.swf.gz", "HPC2N-2002-2.2-cln.swf.gz"


def log(name: str, walltimes: str) -> Workload:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"no {name} in {TRACES} (set PYBATSCHED_TRACES)")
    return load(path, walltimes=walltimes)


def simulate(workload: Workload, n_procs: int, policy: str | type[Policy], prefix: Path | None = None) -> Figures:
    files = [] if prefix is None else batsim_files(str(prefix))
    result = run_policy(Scenario(uniform(n_procs), {"w0": workload}), plan_for(policy), files)
    assert result.finished
    return result.figures


@pytest.mark.long
@pytest.mark.parametrize(("name", "n_procs", "walltimes"), [(SP2, 128, "requested"), (CTC, 338, "exact")])
def test_easy_and_its_slow_twin_agree_on_a_whole_log(name: str, n_procs: int, walltimes: str) -> None:
    workload = log(name, walltimes)
    assert simulate(workload, n_procs, "easy") == simulate(workload, n_procs, SlowEasy)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "n_procs", "n_jobs", "hours"), [(DS, 1664, 84_893, 1.43), (HPC2N, 240, 202_871, 3.33)]
)
def test_conservative_waits_are_the_recomputed_ones(
    name: str, n_procs: int, n_jobs: int, hours: float, tmp_path: Path
) -> None:
    """Over the regular two thirds of the DBF study (every third job has a deadline there), exact run times."""
    workload = log(name, "exact")
    assert len(workload.jobs) == n_jobs
    simulate(workload, n_procs, "conservative", tmp_path / "out")
    regular = {str(job["id"]) for index, job in enumerate(workload.jobs) if index % 3 != 2}
    waits = [float(row["waiting_time"]) for row in rows(tmp_path / "out_jobs.csv") if row["job_id"] in regular]
    assert sum(waits) / len(waits) / 3600 == pytest.approx(hours, rel=0.05)
