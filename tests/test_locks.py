"""Two runs never write the same files at once, and their locks are removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.patience import PATIENCE_S, wait_until
from support.places import ROOT, WAITING
from support.process import run_cli

from pybatsched import locks
from pybatsched.errors import InputError
from pybatsched.session.journal import JournalWriter


def simulate(place: Path, prefix: str, policy: str = "easy", *more: str) -> tuple[str, ...]:
    inputs = ("--procs", "32", "-w", str(ROOT / "examples" / "workload.json"))
    return ("simulate", *inputs, "--policy", policy, "-e", str(place / prefix), *more)


@contextlib.contextmanager
def running(place: Path, prefix: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A simulation that does not end."""
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


RESULTS = {f"_{name}" for name in ("jobs.csv", "schedule.csv", "machine_states.csv", "summary.json", "state.json")}


def files(*prefixes: str) -> set[str]:
    return {f"out/{prefix}{suffix}" for prefix in prefixes for suffix in RESULTS}


def test_two_simulations_with_one_prefix_are_rejected(tmp_path: Path) -> None:
    with running(tmp_path, "out/a"):
        before = names(tmp_path)
        second = run_cli(*simulate(tmp_path, "out/../out/a"))
        assert second.returncode == 2
        assert f"-e {tmp_path}/out/../out/a: another run is writing" in second.stderr
        assert names(tmp_path) == before
        assert run_cli(*simulate(tmp_path, "out/b")).returncode == 0
    # It was killed by SIGKILL: the lock is free, and only its own files are left.
    own = {"out", "out/a_state.json", "out/a.part_jobs.csv", "out/a.part_machine_states.csv"}
    assert names(tmp_path) == own | files("b")
    assert run_cli(*simulate(tmp_path, "out/a")).returncode == 0
    assert names(tmp_path) == {"out"} | files("a", "b")


def test_two_simulations_with_one_journal_are_rejected(tmp_path: Path) -> None:
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


def test_a_run_that_does_not_start_leaves_no_files(tmp_path: Path) -> None:
    done = run_cli(*simulate(tmp_path, "new/place/a", "easy", "--journal", str(tmp_path)))
    assert done.returncode == 2
    assert names(tmp_path) == set()


def test_a_locked_file_is_rejected_for_others_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("precious")
    with locks.held(path, "taken"):
        assert path.read_text() == "precious"
        with pytest.raises(InputError, match="taken"), locks.held(path, "taken"):
            pass
    with pytest.raises(ZeroDivisionError), locks.held(path, "taken"):
        raise ZeroDivisionError
    assert path.read_text() == "precious"
    with locks.held(path, "taken"):
        pass


def test_an_interrupted_writer_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "place" / "a"
    with pytest.raises(KeyboardInterrupt), locks.held(path, "taken"):
        assert path.exists()
        raise KeyboardInterrupt
    assert names(tmp_path) == set()


def test_looking_for_a_writer_does_not_block_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader holds the lock for a moment, shared: a writer waits a moment."""
    path = tmp_path / "a"
    path.touch()
    reader = os.open(path, os.O_RDONLY)
    fcntl.flock(reader, fcntl.LOCK_SH)
    n_waits = 0

    def wait(_seconds: float) -> None:
        nonlocal n_waits
        n_waits += 1
        if n_waits == 3:
            os.close(reader)

    monkeypatch.setattr(time, "sleep", wait)
    with locks.held(path, "taken") as fd:
        assert n_waits == 3
        other = os.open(path, os.O_RDONLY)
        assert locks.has_writer(other) is True
        os.close(fd)
        assert locks.has_writer(other) is False
        os.dup2(other, fd)
        os.close(other)


def test_a_file_removed_while_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of a file that has no name any more is worth nothing: the new one is taken."""
    path = tmp_path / "a"
    real, n_calls = locks.take, 0

    def slow(fd: int) -> bool:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            path.unlink()
        return real(fd)

    monkeypatch.setattr(locks, "take", slow)
    with locks.held(path, "taken"):
        assert (n_calls, path.exists()) == (2, True)


def test_devices_and_pipes_are_not_locked(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.symlink_to("/dev/null")
    with locks.held(path, "taken"), locks.held(path, "taken"):
        pass
    assert path.is_symlink()
    writers = [JournalWriter("/dev/null") for _ in range(2)]
    for writer in writers:
        writer.close()


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_cli(*simulate(tmp_path, "file/a"))
    message = f"-e {tmp_path}/file/a: cannot write {tmp_path}/file: File exists"
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
