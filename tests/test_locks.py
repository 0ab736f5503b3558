"""Two runs never write the same files at once, and nothing is left of what keeps them apart."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patience import PATIENCE_S, wait_until
from support.places import ROOT, WAITING
from support.process import run_cli

from pybatsched import locks
from pybatsched.errors import InputError
from pybatsched.session.journal import JournalWriter

JOBS, LOG = locks.OF_SIMULATION, locks.OF_BATSIM


def simulate(place: Path, prefix: str, policy: str = "easy", *more: str) -> tuple[str, ...]:
    inputs = ("--procs", "32", "-w", str(ROOT / "examples" / "workload.json"))
    return ("simulate", *inputs, "--policy", policy, "-e", str(place / prefix), *more)


@contextlib.contextmanager
def running(place: Path, prefix: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A simulation that goes on and on."""
    mark = place / "mark"
    options = ("-o", f"mark={mark}", *more)
    command = [sys.executable, "-m", "pybatsched", *simulate(place, prefix, f"{WAITING}:Waits", *options)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(mark.exists, by=process)
        mark.unlink()
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def names(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if "__pycache__" not in path.parts}


USUAL = {"out", "out/a_jobs.csv", "out/a_schedule.csv", "out/a_machine_states.csv", "out/a_summary.json"}


def test_two_simulations_of_one_prefix(tmp_path: Path) -> None:
    with running(tmp_path, "out/a"):
        before = names(tmp_path)
        second = run_cli(*simulate(tmp_path, "out/../out/a"))
        assert second.returncode == 2
        assert f"-e {tmp_path}/out/../out/a: another run is writing" in second.stderr
        assert names(tmp_path) == before
        assert run_cli(*simulate(tmp_path, "out/b")).returncode == 0
    # It was killed by SIGKILL: the lock is gone, and there is nothing but its own files.
    assert names(tmp_path) - {f"out/b{suffix.removeprefix('out/a')}" for suffix in USUAL} <= USUAL
    assert run_cli(*simulate(tmp_path, "out/a")).returncode == 0
    assert names(tmp_path) >= USUAL


def test_two_simulations_of_one_journal(tmp_path: Path) -> None:
    journal = tmp_path / "run.pbj"
    with running(tmp_path, "a", "--journal", str(journal)):
        size = journal.stat().st_size
        second = run_cli(*simulate(tmp_path, "b", "easy", "--journal", str(journal)))
        assert second.returncode == 2
        assert f"the journal '{journal}' is being written by another run" in second.stderr
        assert journal.stat().st_size == size
        assert not list(tmp_path.glob("b_*"))
    assert run_cli(*simulate(tmp_path, "b", "easy", "--journal", str(journal))).returncode == 0
    assert run_cli("replay", str(journal)).returncode == 0


def test_a_run_that_does_not_begin_leaves_nothing(tmp_path: Path) -> None:
    done = run_cli(*simulate(tmp_path, "new/place/a", "easy", "--journal", str(tmp_path)))
    assert done.returncode == 2
    assert names(tmp_path) == set()


def test_earlier_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a_jobs.csv").write_text("precious")
    with locks.files_of(str(tmp_path / "a"), JOBS):
        assert (tmp_path / "a_jobs.csv").read_text() == "precious"
        with pytest.raises(InputError, match="another run is writing"), locks.files_of(str(tmp_path / "a"), JOBS):
            pass
    assert (tmp_path / "a_jobs.csv").read_text() == "precious"
    with locks.files_of(str(tmp_path / "a"), JOBS):
        pass


def test_a_run_with_batsim_and_a_simulation_see_each_other(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    with locks.files_of(prefix, LOG, (JOBS,)):
        refused = run_cli(*simulate(tmp_path, "a"))
        assert (refused.returncode, "a_batsim.log right now" in refused.stderr) == (2, True)
        with locks.files_of(prefix, JOBS):  # a simulation that plays Batsim for it
            pass
    with locks.files_of(prefix, JOBS), pytest.raises(InputError, match="a_jobs.csv right now"):
        locks.files_of(prefix, LOG, (JOBS,)).__enter__()


def test_what_came_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), locks.files_of(str(tmp_path / "new" / "place" / "a"), JOBS):
        assert (tmp_path / "new" / "place" / "a_jobs.csv").exists()
        raise KeyboardInterrupt
    assert names(tmp_path) == set()


def test_a_file_that_was_taken_away_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of a file that has no name any more is worth nothing: the new one is taken."""
    path = tmp_path / "a_jobs.csv"
    real, n_calls = locks.take, 0

    def slow(fd: int) -> bool:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            path.unlink()
        return real(fd)

    monkeypatch.setattr(locks, "take", slow)
    with locks.files_of(str(tmp_path / "a"), JOBS):
        assert (n_calls, path.exists()) == (2, True)


def test_what_is_no_file_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "a_jobs.csv").symlink_to("/dev/null")
    with locks.files_of(str(tmp_path / "a"), JOBS), locks.files_of(str(tmp_path / "a"), JOBS):
        pass
    assert (tmp_path / "a_jobs.csv").is_symlink()
    writers = [JournalWriter("/dev/null") for _ in range(2)]
    for writer in writers:
        writer.close()


def test_where_nothing_can_be_written_nothing_is_locked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with locks.files_of(str(tmp_path / "file" / "a"), JOBS):
        pass
    done = run_cli(*simulate(tmp_path, "file/a"))
    assert (done.returncode, "file" in done.stderr) == (2, True)
