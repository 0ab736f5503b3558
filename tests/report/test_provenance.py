"""Reading options of a workload: shown with the run, and part of the identity of its jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.logs import line, log
from support.process import run_cli

from pybatsched.metrics.saved_runs import SavedRun, read_run
from pybatsched.report import page, provenance
from pybatsched.report.gantt.chart import workload_key

LOG = tuple(line(k, 10 * k, allocated=16 * k) for k in range(1, 6))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    log(folder, *LOG, header="; MaxProcs: 128\n")
    return folder


def ran(folder: Path, name: str, *args: str) -> SavedRun:
    done = run_cli("simulate", "-w", "log.swf", "--policy", "fcfs", "-e", name, "-q", *args, cwd=folder)
    assert done.returncode == 0, done.stderr
    return read_run(str(folder / name))


def shown_rows(*runs: SavedRun) -> dict[str, list[str]]:
    return dict(provenance.rows_of(runs, 10.0))


def test_default_reading_options_are_not_shown(place: Path) -> None:
    rows = shown_rows(ran(place, "whole", "--procs", "128"))
    assert rows["walltimes"] == ["requested"]
    assert rows.keys().isdisjoint({"jobs chosen", "sizes in", "malformed lines", "memory in"})


def test_the_reading_options_of_a_workload_are_shown(place: Path) -> None:
    whole = ran(place, "plain", "--procs", "128")
    part = ran(place, "part", "--procs", "128", "--from", "15", "--max-jobs", "2", "--lenient", "--memory-unit", "MB")
    rows = shown_rows(whole, part)
    assert rows["jobs chosen"] == ["-", "from=15\nmax_jobs=2\nclock=first"]
    assert rows["malformed lines"] == ["-", "left out"]
    assert rows["memory in"] == ["-", "MB"]
    assert '<tr class="differs"><td>jobs chosen</td>' in page.of_runs([whole, part])


@pytest.mark.parametrize("args", [(), ("--units", "node")])
def test_the_unit_of_sizes_is_shown_with_named_platforms(place: Path, args: tuple[str, ...]) -> None:
    run = ran(place, "nodes", "-p", "curie-node@0.01", *args)
    assert run.summary["units"] == "node"
    assert shown_rows(run)["sizes in"] == ["nodes"]
    cores = ran(place, "cores", "-p", "curie-node@0.01", "--units", "core")
    assert shown_rows(cores)["sizes in"] == ["cores"]


def test_jobs_that_were_moved_or_resized_are_not_the_same(place: Path) -> None:
    whole, other = ran(place, "a", "--procs", "128"), ran(place, "b", "--procs", "100", "--walltimes", "exact")
    moved = ran(place, "c", "--procs", "128", "--from", "15")
    resized = ran(place, "d", "-p", "curie-node@0.01")
    assert workload_key(whole) == workload_key(other)
    assert len({workload_key(whole), workload_key(moved), workload_key(resized)}) == 3
    assert "Runs with other workloads: c, d. For these, jobs are paired" in page.of_runs([whole, other, moved, resized])
    cores = ran(place, "e", "-p", "curie-node@0.01", "--units", "core")
    assert workload_key(cores) == workload_key(whole)


@pytest.mark.parametrize("odd", [{"selection": 7, "units": ["x"]}, {"selection": [], "lenient": "yes"}])
def test_any_value_in_a_summary_is_accepted(odd: dict[str, Any], place: Path) -> None:
    run = ran(place, "odd", "--procs", "128")
    changed = replace(run, summary={**run.summary, **odd})
    assert "jobs chosen" not in shown_rows(changed)
    assert workload_key(changed) != workload_key(run)
