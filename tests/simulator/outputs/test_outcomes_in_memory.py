"""A run can keep the outcomes of its jobs in memory. They are those of its file of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples

from pybatsched.metrics import jobs_csv
from pybatsched.metrics.outcomes import Outcome
from pybatsched.platform import model
from pybatsched.policies.registry import PolicyPlan, find
from pybatsched.runs.execute import Keeping
from pybatsched.simulator import run as runs
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import batsim_files
from pybatsched.workload.model import Workload

_TIMES = st.floats(0.000001, 500) | st.integers(1, 50)


def outcomes(workload: Workload, policy: str, options: dict[str, Any], prefix: Path | None) -> list[Outcome]:
    """Run a policy on eight processors; return the outcomes in memory."""
    plan = PolicyPlan(find(policy), options)
    scenario = Scenario(model.uniform(8), {"w0": workload}, runs.with_needs(SimulationOptions(), plan))
    kept: list[Outcome] = []
    files = [] if prefix is None else batsim_files(str(prefix))
    assert runs.run_policy(scenario, plan, [Keeping(kept), *files]).finished
    return kept


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw jobs of which some are too large, and some run longer than their walltimes."""
    jobs, profiles = [], {}
    for i in range(draw(st.integers(1, 12))):
        run_s = draw(_TIMES)
        profiles[f"p{i}"] = {"type": "delay", "delay": run_s}
        job = {"id": str(i), "subtime": draw(_TIMES), "res": draw(st.integers(1, 9)), "profile": f"p{i}"}
        jobs.append({**job, "walltime": max(round(run_s * draw(st.sampled_from([0.5, 1, 3])), 6), 0.001)})
    return Workload(jobs, profiles, 8)


@examples(40)
@given(workloads(), st.sampled_from(["fcfs", "easy"]))
def test_they_are_those_of_the_file(tmp_path_factory: pytest.TempPathFactory, workload: Workload, policy: str) -> None:
    prefix = tmp_path_factory.mktemp("run") / "run"
    kept = outcomes(workload, policy, {}, prefix)
    assert kept == list(jobs_csv.read(f"{prefix}_jobs.csv"))
    assert kept == outcomes(workload, policy, {}, None)


def test_those_of_killed_and_requeued_jobs(tmp_path: Path) -> None:
    """A long job on the redirection group is killed for the principal's queue, with a lineage in the metadata."""
    profiles = {"long": {"type": "delay", "delay": 900}, "short": {"type": "delay", "delay": 50}}
    rows = [("a", 0, 4, "long"), ("b", 1, 2, "long"), ("d", 3, 9, "short"), ("e", 60, 2, "long")]
    rows += [(f"f{i}", 70 + i, 2, "short") for i in range(6)]
    jobs = [
        {"id": name, "subtime": at, "res": n, "profile": profile, "walltime": 1000} for name, at, n, profile in rows
    ]
    options = {"alpha": 0.25, "theta": 2, "filter": "none"}
    kept = outcomes(Workload(jobs, profiles, 8), "redirection", options, tmp_path / "run")
    assert kept == list(jobs_csv.read(tmp_path / "run_jobs.csv"))
    assert "parent=w0!b;segment=1;kind=requeue" in {one.metadata for one in kept}
    assert {"COMPLETED_KILLED", "REJECTED"} <= {one.state for one in kept}
