"""Workloads of recorded runs of a real Slurm, simulated with the clocks of policy `slurm`: the numbers of one seed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import GOLDEN, ROOT, module_of

#: Mean wait, makespan, share of starts by backfill, and starts.
EXPECTED: dict[str, tuple[float, float, float, float]] = {
    "s1_whole_nodes/run_a": (295.260672, 1837.697889, 0.577778, 180),
    "s1_whole_nodes_limits/run_a": (321.137094, 1770.631889, 0.466667, 180),
    "s2_fifo_backfill/run_a": (363.933147, 1912.428574, 0.450000, 180),
    "s3_cores_mem_gpu/run_a": (132.055876, 1724.428574, 0.565000, 200),
    "s4_qos_preempt/run_a": (106.635283, 2050.003889, 0.187726, 277),
}


@pytest.fixture
def free_runs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # it imports its neighbour
    yield module_of("slurm_free_runs", ROOT / "benchmarks" / "slurm_free_runs.py")
    sys.modules.pop("slurm_decisions", None)


@pytest.mark.skipif(not (GOLDEN / "slurm").exists(), reason="no recordings of Slurm in PYBATSCHED_GOLDEN")
@pytest.mark.filterwarnings("ignore:.*killed, which did not run again")  # at their time limits, as recorded
@pytest.mark.parametrize("run", EXPECTED)
def test_free_runs_keep_their_figures(run: str, free_runs: Any) -> None:
    found = free_runs.simulated(free_runs.Recorded(GOLDEN / "slurm" / Path(run)), 0, {})
    assert found == pytest.approx(EXPECTED[run], abs=1e-6)
