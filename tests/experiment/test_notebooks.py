"""The notebooks run from their first cell to their last, and are stored without outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from support.places import ROOT

import pybatsched as pb

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def cells_of(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    cells: list[dict[str, Any]] = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    return cells


def run_cell(source: str, scope: dict[str, Any], name: str) -> Any:
    """Run a cell as Jupyter does, and return the value of its last line if that is an expression."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), scope)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), scope)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpl.use("agg")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells_of(path)):
        value = run_cell("".join(cell["source"]), scope, f"{path.name}, cell {number}")
        if isinstance(value, pb.Log | pb.Run | pb.Runs | pb.PolicySpec):
            assert "<table>" in value._repr_html_()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_no_outputs(path: Path) -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells_of(path))


def test_two_policies_by_user_and_a_cdf_need_at_most_12_lines() -> None:
    """The first notebook as a script, without the cells that only show something."""
    cells = ["".join(cell["source"]) for cell in cells_of(ROOT / "examples" / "notebooks" / "first-simulation.ipynb")]
    parts = ("import pybatsched", "simulate(", "by_user", "cdf")
    wanted = [cell for cell in cells if any(arg in cell for arg in parts)]
    lines = [line for cell in wanted for line in cell.splitlines() if line.strip()]
    assert len(lines) <= 12, lines


def test_own_policy_has_fewer_than_15_lines() -> None:
    first = "".join(cells_of(ROOT / "examples" / "notebooks" / "own-policy.ipynb")[0]["source"])
    body = first[first.index("class SjbfScheduler") :]
    assert len([line for line in body.splitlines() if line.strip()]) < 15


def test_the_trace_of_slurm_has_findings_users_and_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for cell in cells_of(ROOT / "examples" / "notebooks" / "slurm-trace.ipynb"):
        run_cell("".join(cell["source"]), scope, "cell")
    log, runs = scope["log"], scope["runs"]
    assert any("ran longer than its time limit" in what for what in log.findings["what"])
    assert log.dropped["cancelled before it started: dropped"] == 1
    assert {"user", "account", "partition", "queue", "gpus", "exit_state"} <= {*log.jobs.columns} & {*runs.jobs.columns}
    assert scope["by_user"]["jobs"].sum() == len(log) == 300
    assert runs.jobs.filter(runs.jobs["wait_s"] > 0).height > 0
