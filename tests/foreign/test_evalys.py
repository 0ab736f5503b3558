"""evalys, as it is on the package index, reads our simulator's files as Batsim's."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from support.process import run_cli

from foreign.inputs import N_JOBS, N_PROCS, write_input
from foreign.programs import ENVIRONMENT, needs_environment, rows, run_script

pytestmark = needs_environment

QUIET = {"MPLBACKEND": "Agg", "MPLCONFIGDIR": str(ENVIRONMENT / "matplotlib")}


def test_its_figures_are_ours(tmp_path: Path) -> None:
    prefix = tmp_path / "out"
    done = run_cli("simulate", *write_input(tmp_path).args, "--policy", "easy", "-q", "-e", str(prefix))
    assert done.returncode == 0, done.stderr
    theirs = json.loads(run_script("read_with_evalys.py", str(prefix), str(N_PROCS), settings=QUIET))
    summary = json.loads((tmp_path / "out_summary.json").read_text())
    ours = summary["figures"]
    assert (theirs["n_jobs"], theirs["n_success"], theirs["n_procs"]) == (N_JOBS, N_JOBS, N_PROCS)
    assert ours["n_jobs"] == N_JOBS
    assert theirs["n_machines"] == [N_PROCS]
    for name in ("mean_wait_s", "max_wait_s", "makespan_s"):
        assert theirs[name] == pytest.approx(ours[name], abs=1e-6)
    # evalys counts from the first start, we from the first submission; here the first job starts at once.
    table = rows(tmp_path / "out_jobs.csv")
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
    # The machines' file tells the same story: evalys keeps its last line of each instant.
    assert theirs["computing"] == theirs["load"]


def running_sum(changes: dict[float, int]) -> list[list[float]]:
    level = 0
    levels: list[list[float]] = []
    for at in sorted(changes):
        level += changes[at]
        levels.append([at, level])
    return levels
