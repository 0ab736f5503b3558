"""Decisions of a real Slurm 22.05.8: each start by the same pass on the same nodes, and each plan of backfill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.places import GOLDEN, ROOT, module_of

RECORDED = sorted((GOLDEN / "slurm").glob("s*/run_*"))
STARTS = {
    "s1_whole_nodes": 180,
    "s1_whole_nodes_limits": 180,
    "s2_fifo_backfill": 180,
    "s3_cores_mem_gpu": 200,
    "s4_qos_preempt": 284,
}
PLANS = {
    "s1_whole_nodes/run_a": 4_061,
    "s1_whole_nodes/run_b": 4_294,
    "s1_whole_nodes_limits/run_a": 3_785,
    "s2_fifo_backfill/run_a": 3_548,
    "s2_fifo_backfill/run_b": 4_096,
    "s3_cores_mem_gpu/run_a": 1_693,
    "s4_qos_preempt/run_a": 867,
}

decisions: Any = module_of("slurm_decisions", ROOT / "benchmarks" / "slurm_decisions.py")


@pytest.mark.skipif(not RECORDED, reason="no recordings of Slurm in PYBATSCHED_GOLDEN")
@pytest.mark.parametrize("folder", RECORDED, ids=lambda one: f"{one.parent.name}/{one.name}")
def test_every_start_and_every_plan_of_a_real_slurm(folder: Path) -> None:
    score, _ = decisions.compare(folder)
    assert score.differences == []
    assert score.n_starts == score.n_same_pass == score.n_same_nodes == STARTS[folder.parent.name]
    assert score.n_plans == score.n_same_plans == PLANS[f"{folder.parent.name}/{folder.name}"]
    assert score.n_freed_by_record == 0
