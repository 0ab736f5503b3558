"""Campaigns in jobs of a real Slurm with four nodes on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.campaign_runs import campaign, hold, n_done, start, write, write_gated
from support.patience import PATIENCE_OF_WORK_S, wait_until
from support.real_slurm import Cluster

pytestmark = pytest.mark.slurm

ON_SLURM = ("--on", "slurm", "--jobs", "4", "--partition", "batch", "--memory-gb", "0.5", "--interface", "lo")


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def slurm(four_nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("SLURM_CONF", four_nodes.env["SLURM_CONF"])
    return four_nodes


def running(slurm: Cluster) -> set[str]:
    return set(slurm.run("squeue", "-h", "-t", "running", "-o", "%i").split())


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the table and the files of all runs."""
    paths = [folder / "results.parquet", *folder.glob("runs/*/run_jobs.csv")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_cancelled_jobs_and_jobs_at_their_walltime_lose_no_cell(slurm: Cluster, tmp_path: Path) -> None:
    spec, out = write_gated(tmp_path, seeds=12, jobs=30, keep="files"), tmp_path / "out"
    assert campaign(spec, tmp_path / "local").returncode == 0
    hold(tmp_path, out, 8)
    process = start(spec, out, *ON_SLURM, "--walltime", "1h")
    wait_until(lambda: n_done(out) >= 8 and len(running(slurm)) == 4, by=process, limit_s=PATIENCE_OF_WORK_S)
    cancelled, timed_out, *_ = sorted(running(slurm))
    slurm.run("scontrol", "update", f"JobId={timed_out}", "TimeLimit=1")
    slurm.run("scancel", cancelled)
    wait_until(
        lambda: len(running(slurm) - {cancelled, timed_out}) == 4, by=process, limit_s=PATIENCE_OF_WORK_S
    )  # both were replaced
    assert "JobState=CANCELLED" in slurm.run("scontrol", "show", "job", cancelled)
    assert "JobState=TIMEOUT" in slurm.run("scontrol", "show", "job", timed_out)
    (tmp_path / "gate").unlink()
    _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 0, errors
    assert "36 of 36 cells done (0 before), 0 failed" in errors
    assert files_of(out) == files_of(tmp_path / "local")
    assert len(files_of(out)) == 37
    slurm.wait("squeue", "-h", until="")  # jobs that are left were cancelled
    assert "DUE TO TIME LIMIT" in (out / "logs" / f"pybatsched-{timed_out}.err").read_text()


def test_a_campaign_whose_process_was_killed_continues(slurm: Cluster, tmp_path: Path) -> None:
    spec, out = write_gated(tmp_path, seeds=12, jobs=30, keep="files"), tmp_path / "out"
    assert campaign(spec, tmp_path / "local").returncode == 0
    hold(tmp_path, out, 8)
    process = start(spec, out, *ON_SLURM)
    wait_until(lambda: n_done(out) >= 8, by=process, limit_s=PATIENCE_OF_WORK_S)
    process.kill()
    process.communicate(timeout=PATIENCE_OF_WORK_S)
    slurm.wait("squeue", "-h", until="")  # the jobs end although each still has a cell
    (tmp_path / "gate").unlink()
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").glob("*.json")}
    again = start(spec, out, *ON_SLURM, "--resume")
    _, errors = again.communicate(timeout=PATIENCE_OF_WORK_S)
    assert again.returncode == 0, errors
    assert f"36 of 36 cells done ({len(before)} before), 0 failed" in errors
    assert {path: path.stat().st_mtime_ns for path in before} == before  # nothing was done twice
    assert files_of(out) == files_of(tmp_path / "local")


def test_an_interruption_cancels_all_jobs(slurm: Cluster, tmp_path: Path) -> None:
    spec, out = write_gated(tmp_path, seeds=4), tmp_path / "out"
    hold(tmp_path, out, 1)
    process = start(spec, out, *ON_SLURM)
    wait_until(lambda: n_done(out) >= 1, by=process, limit_s=PATIENCE_OF_WORK_S)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 130, (errors, [*(out / "cells").iterdir()])
    assert f"finished cells are kept in {out}; continue with --resume" in errors
    slurm.wait("squeue", "-h", until="")


def test_a_partition_that_slurm_does_not_know(slurm: Cluster, tmp_path: Path) -> None:
    process = start(write(tmp_path / "s.toml"), tmp_path / "out", *ON_SLURM, "--partition", "nope")
    _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 2
    assert "--on slurm: a job was rejected: sbatch: error: invalid partition specified: nope\n" in errors
    assert "expected values that the batch system accepts, such as that of --partition" in errors


def test_jobs_that_slurm_does_not_start(slurm: Cluster, tmp_path: Path) -> None:
    slurm.run("scontrol", "update", "NodeName=n[1-4]", "State=DRAIN", "Reason=test")
    try:
        process = start(write(tmp_path / "s.toml"), tmp_path / "out", *ON_SLURM, "--start-within", "1")
        _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    finally:
        slurm.run("scontrol", "update", "NodeName=n[1-4]", "State=RESUME")
    assert process.returncode == 4
    assert "no job has run for 1 s; expected at least one, or a longer --start-within. squeue --user=" in errors
    assert "DRAINED" in errors  # the reason of the queue
    slurm.wait("squeue", "-h", until="")
