"""batsched, the scheduler of Batsim's authors in C++, drives our simulator to the schedules it made with Batsim."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.places import GOLDEN

from foreign.programs import free_port, our_simulator, run_pair


def find_batsched() -> str | None:
    """Give batsched on the PATH, or beside the real file of a batsim that is there."""
    batsim = shutil.which("batsim")
    beside = None if batsim is None else str(Path(batsim).resolve().parent)
    return shutil.which("batsched") or shutil.which("batsched", path=beside)


BATSCHED = find_batsched()
SCHEDULES = sorted(path.parent.resolve() for path in (GOLDEN / "schedules").glob("*/workload.json"))


@pytest.mark.batsim
@pytest.mark.skipif(BATSCHED is None, reason="no batsched on the PATH or beside batsim")
@pytest.mark.parametrize("directory", SCHEDULES, ids=lambda d: d.name)
@pytest.mark.parametrize("variant", ["fcfs_fast", "easy_bf", "conservative_bf"])
def test_its_schedules_are_those_with_batsim(variant: str, directory: Path, tmp_path: Path) -> None:
    assert BATSCHED is not None
    port = free_port()
    scheduler = [BATSCHED, "-v", variant, "-d", "0", "-s", f"tcp://127.0.0.1:{port}"]
    args = ["-p", str(directory / "platform.xml"), "-w", str(directory / "workload.json")]
    outcome = run_pair(scheduler, our_simulator(args, port, tmp_path / "out"), tmp_path)
    assert outcome.codes == (0, 0), outcome.said
    # Where a start in Batsim missed the submission by a last bit, its wait is -0.000000; our clock has no such noise.
    expected = (directory / f"{variant}_jobs.csv").read_bytes().replace(b",-0.000000,", b",0.000000,")
    assert (tmp_path / "out_jobs.csv").read_bytes() == expected
