"""evalys from the package index reads our simulator's files as Batsim's."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support.process import run_cli

from foreign.inputs import N_JOBS, N_PROCS, write_input
from foreign.programs import ENVIRONMENT, free_port, needs_environment, pybatsim, rows, run_pair, run_script
from pybatsched.core.intervals import IntervalSet

pytestmark = needs_environment

QUIET = {"MPLBACKEND": "Agg", "MPLCONFIGDIR": str(ENVIRONMENT / "matplotlib")}


def test_figures_of_evalys_equal_ours(tmp_path: Path) -> None:
    prefix = tmp_path / "out"
    done = run_cli("simulate", *write_input(tmp_path).args, "--policy", "easy", "-q", "-e", str(prefix))
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out_summary.json").read_text())
    check_figures(prefix, summary["figures"])


def test_figures_of_evalys_for_the_batsim_command_equal_ours(tmp_path: Path) -> None:
    """The files of `pybatsched batsim`, read by evalys, compared with the row of _schedule.csv."""
    port = free_port()
    prefix = tmp_path / "out"
    endpoint = f"tcp://127.0.0.1:{port}"
    simulator = [sys.executable, "-m", "pybatsched", "batsim", *write_input(tmp_path).args, "-q", "-s", endpoint]
    outcome = run_pair(pybatsim("schedFcfs", port), [*simulator, "-e", str(prefix)], tmp_path)
    assert outcome.codes == (0, 0), outcome.output
    (expected,) = rows(tmp_path / "out_schedule.csv")
    busy = sum(
        float(row["execution_time"]) * len(IntervalSet.parse(row["allocated_resources"])) for row in jobs(prefix)
    )
    figures = {
        "n_jobs": int(expected["nb_jobs"]),
        "mean_wait_s": float(expected["mean_waiting_time"]),
        "max_wait_s": float(expected["max_waiting_time"]),
        "makespan_s": float(expected["makespan"]),
    }
    first = min(float(row["starting_time"]) for row in jobs(prefix))
    check_figures(prefix, figures | {"utilisation": busy / N_PROCS / (figures["makespan_s"] - first)})


def jobs(prefix: Path) -> list[dict[str, str]]:
    return rows(prefix.with_name(f"{prefix.name}_jobs.csv"))


def check_figures(prefix: Path, ours: dict[str, Any]) -> None:
    theirs = json.loads(run_script("read_with_evalys.py", str(prefix), str(N_PROCS), settings=QUIET))
    assert (theirs["n_jobs"], theirs["n_success"], theirs["n_procs"]) == (N_JOBS, N_JOBS, N_PROCS)
    assert ours["n_jobs"] == N_JOBS
    assert theirs["n_machines"] == [N_PROCS]
    for name in ("mean_wait_s", "max_wait_s", "makespan_s"):
        assert theirs[name] == pytest.approx(ours[name], abs=1e-6)
    # evalys counts from the first start, we from the first submission; here the first job starts at once.
    table = jobs(prefix)
    first = min(float(row["starting_time"]) for row in table)
    assert first == min(float(row["submission_time"]) for row in table)
    assert theirs["mean_load"] / N_PROCS == pytest.approx(ours["utilisation"], abs=1e-9)
    assert theirs["allocations"] == {row["job_id"]: row["allocated_resources"].replace(",", " ") for row in table}

    # How many processors are held and asked for after each instant, from the table alone.
    held: defaultdict[float, int] = defaultdict(int)
    asked: defaultdict[float, int] = defaultdict(int)
    for row in table:
        size = int(row["requested_number_of_resources"])
        held[float(row["starting_time"])] += size
        held[float(row["finish_time"])] -= size
        asked[float(row["submission_time"])] += size
        asked[float(row["starting_time"])] -= size
    assert theirs["load"] == running_sum(held)
    assert theirs["queue"] == running_sum(asked)
    # The file of machine states agrees: evalys keeps its last line of each instant.
    assert theirs["computing"] == theirs["load"]


def running_sum(changes: dict[float, int]) -> list[list[float]]:
    level = 0
    levels: list[list[float]] = []
    for at in sorted(changes):
        level += changes[at]
        levels.append([at, level])
    return levels
