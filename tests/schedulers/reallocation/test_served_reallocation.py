"""Reallocation over a socket, with the real Batsim, explained and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.free_links import written
from support.grid_crowds import crowd
from support.gridded import Grid, fates
from support.located import DYNAMIC
from support.process import Peer, Server, run_cli
from support.simulated import beside_batsim, rows, same_but_for_halves

from pybatsched.testing import FakeBatsim, Workload

GRID = Grid({"c1": (4, 1.0), "c2": (6, 1.2), "c3": (2, 2.0)})
VARIANTS: list[dict[str, Any]] = [
    {"algorithm": "none"},
    {"period": 10},
    {"period": 20, "threshold": 1, "sizing": "exhaustive"},
    {"period": 10, "heuristic": "minmin", "window": 4},
    {"period": 10, "algorithm": "all_cancellation"},
    {"period": 12.5, "algorithm": "all_cancellation", "heuristic": "minmin", "window": 3},
    {"period": 10, "local": "fcfs", "threshold": 5},
    {"period": 10, "local": "fcfs", "algorithm": "all_cancellation"},
]
NAMES = [" ".join(map(str, options.values())) for options in VARIANTS]


def given(options: dict[str, Any]) -> list[str]:
    return [text for name, value in options.items() for text in ("-o", f"{name}={value}")]


@pytest.mark.parametrize("options", VARIANTS, ids=NAMES)
def test_a_run_over_a_socket_equals_the_embedded_run(options: dict[str, Any]) -> None:
    workload = crowd(GRID, 5, 50)
    with Server("--policy", "reallocation", *given(options)) as server, Peer(server.wait_ready()) as peer:
        served = FakeBatsim(workload, GRID.n_procs, config=DYNAMIC, hosts=GRID.hosts).run(peer.ask)
        assert server.finish() == 0
    alone = fates(GRID.run(workload, **options), GRID)
    assert fates(served, GRID) == alone
    assert len({fate.cluster for fate in alone.values()}) == 3


@pytest.mark.batsim
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", VARIANTS, ids=NAMES)
def test_jobs_equal_those_with_the_real_batsim(options: dict[str, Any], seed: int, tmp_path: Path) -> None:
    args = written(crowd(GRID, seed, 60, unscaled=False), GRID.hosts, tmp_path)
    mine, theirs = beside_batsim(args, "reallocation", given(options), tmp_path)
    same_but_for_halves(mine, theirs)
    assert any("kind=replace" in row["metadata"] for row in rows(theirs))


def test_moves_are_explained_with_both_ends_and_replayed(tmp_path: Path) -> None:
    grid = Grid({"c1": (4, None), "c2": (4, None)})
    jobs = Workload()
    jobs.job("1", n=4, s=4000, walltime=4000, external=True, cluster="c1")
    jobs.job("2", n=4, s=1800, walltime=7200, external=True, cluster="c2")
    jobs.job("3", n=4, s=600, walltime=600, at=10).job("4", n=4, s=30, walltime=30, at=20)
    args = [*written(jobs, grid.hosts, tmp_path), "--policy", "reallocation", "-o", "algorithm=all_cancellation"]
    done = run_cli("simulate", *args, "-e", str(tmp_path / "run"), "--journal", str(tmp_path / "run.pbj"))
    assert (done.returncode, done.stderr) == (0, "")
    for figure, value in (
        ("n_moves", 1),
        ("n_moved_jobs", 1),
        ("n_events", 1),
        ("max_moves", 1),
        ("max_resubmitted", 1),
    ):
        assert f"{figure} {value}" in " ".join(done.stdout.split())
    third, fourth = (run_cli("explain", str(tmp_path / "run.pbj"), f"w0!{name}").stdout for name in "34")
    assert "cluster c1 is where it ends first, at 4600" in third
    assert "moves from cluster c1, where it was to end at 4600, to cluster c2: to end at 4200" in third
    assert "submitted again to cluster c1: to end at 4030, before 4630" in fourth
    assert run_cli("replay", str(tmp_path / "run.pbj")).returncode == 0
    (row,) = (row for row in rows(tmp_path / "run_jobs.csv") if row["job_id"] == "3")
    assert row["metadata"] == "moves=1;resubmitted=1;cluster=c2"
