"""The benchmark with other programs: inputs, and tables with and without these programs. No speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT, module_of

from pybatsched.workload import load


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = module_of("peers", ROOT / "benchmarks" / "peers.py")
    for limit in ("PATIENCE_S", "GRACE_S"):
        monkeypatch.setattr(module, limit, PATIENCE_OF_WORK_S)
    return module


@pytest.fixture
def alone(peers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The benchmark on a machine with nothing but pybatsched."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(peers.programs, "BUILD", tmp_path)
    return peers


def test_all_input_files_have_the_same_jobs(peers: Any, tmp_path: Path) -> None:
    drawn = peers.programs.random_workload(50, 32, 0.9)
    made = peers.programs.write_input(drawn, tmp_path / "input")
    workloads = [load(path, walltimes="requested-strict") for path in (made.workload, made.log)]
    jobs = [
        [
            (str(job["id"]), job["subtime"], job["res"], workload.profiles[job["profile"]]["delay"], job["walltime"])
            for job in workload.jobs
        ]
        for workload in workloads
    ]
    assert jobs[0] == jobs[1]
    assert len(jobs[0]) == 50
    for _, submitted_at, _, run_s, walltime_s in jobs[0]:
        assert submitted_at == int(submitted_at)
        assert walltime_s == 2 * run_s == 2 * int(run_s) > 0
    assert [workload.n_procs for workload in workloads] == [32, 32]
    assert made.submitted == {name: submitted_at for name, submitted_at, *_ in jobs[0]}


@pytest.mark.long
def test_a_run_without_other_programs(alone: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert alone.main(["--jobs", "30", "--procs", "32", "--rounds", "1"]) == 0
    output = capsys.readouterr().out
    lines = output.splitlines()
    assert lines[0].startswith("30 jobs on 32 processors, load 0.9; median of 1; CPython ")
    names = [line.split(" | ")[0] for line in lines if line.startswith("| e")]
    ours = ["easy, pure Python", "easy, pure Python, once more", "conservative, pure Python"]
    assert names == [f"| embedded simulator, {name}" for name in ours] * 2
    assert "| embedded simulator, easy, pure Python | 30 | " in output
    assert output.count("control: the same case twice, ") == 1
    assert "not run: Batsim + batsched, easy_bf_fast: no batsim on the PATH\n" in output
    assert "ERROR" not in output


@pytest.mark.batsim
def test_with_all_programs_of_this_machine(peers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Batsim and all present programs finish all jobs, and our schedules are the same over a socket and embedded."""
    assert peers.main(["--jobs", "40", "--procs", "32", "--rounds", "1"]) == 0
    output = capsys.readouterr().out
    assert "| Batsim + pybatsched, easy, pure Python | 40 | " in output
    assert "ERROR" not in output
