"""Campaigns on a full disk, and files left by a campaign that was killed while writing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.patience import PATIENCE_S, wait_until
from support.process import run_cli, run_with_little_room

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.results.atomic_files import whole

SPEC = """
name = "trial"
[[workload]]
name = "drawn"
generate = {model = "lublin", procs = 8, jobs = 5, load = 0.9}
[[platform]]
name = "own"
of_workload = true
[[policy]]
name = "fcfs"
"""


def campaign(*more: str) -> tuple[str, ...]:
    Path("s.toml").write_text(SPEC)
    return ("campaign", "run", "s.toml", "--output", "out", "--workers", "1", *more)


def test_a_full_disk_names_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    full = run_with_little_room(*campaign(), cwd=tmp_path)
    message = f"pybatsched: {tmp_path / 'out' / 'results.parquet'}: cannot be written: File too large\n"
    assert (full.returncode, full.stderr) == (2, message)
    assert {path.name for path in Path("out").iterdir()} == {".lock", "cells", "manifest.json", "prepared"}
    done = run_cli(*campaign("--resume"))
    assert (done.returncode, "1 of 1 cells done (1 before)" in done.stderr) == (0, True)


def test_a_campaign_removes_partial_files_of_a_killed_campaign(tmp_path: Path) -> None:
    def names() -> set[str]:
        return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}

    with Store(tmp_path) as store:
        store.save({"address": "a", "figures": {}, "ends": []})
        store.write_manifest({})
    kept = names()
    assert kept == {".lock", "manifest.json", "cells/a.json", "ends/a.json.gz"}
    for name in kept - {".lock"}:
        with whole(tmp_path / name) as half:
            (tmp_path / name).rename(half)
            half.with_name(half.name.replace(".part-", ".part-1")).write_text("hal")  # of another process
    assert len(names()) == 7
    with Store(tmp_path) as store:
        assert names() == kept
        assert store.result("a") == {"address": "a", "figures": {}}


def test_a_rejected_campaign_removes_no_files(tmp_path: Path) -> None:
    with Store(tmp_path), pytest.raises(InputError, match="another campaign is running in this directory"):
        (tmp_path / "cells" / ".part-1.a.json").touch()
        Store(tmp_path).__enter__()
    assert (tmp_path / "cells" / ".part-1.a.json").exists()


DIES = """
import os, signal
from pybatsched_schedulers.fcfs import Fcfs

class Dies(Fcfs):
    def on_begin(self, cluster):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_dies_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scratch").mkdir()
    Path("dies.py").write_text(DIES)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    command = campaign()
    Path("s.toml").write_text(SPEC.replace('"fcfs"', '"dies.py:Dies"'))
    assert run_cli(*command).returncode == 7
    assert list(Path("scratch").iterdir()) == []


NEVER_ENDS = """
import os, pathlib, signal
from pybatsched_schedulers.fcfs import Fcfs

class NeverEnds(Fcfs):
    def on_begin(self, cluster):
        pathlib.Path(__file__).with_name("half").write_text(str(os.getpid()))
        pathlib.Path(__file__).with_name("half").rename(pathlib.Path(__file__).with_name("pid"))
        signal.pause()
"""


def is_dead(pid: int) -> bool:
    """Return whether a process has ended, or is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_a_busy_worker_ends_when_its_parent_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("never.py").write_text(NEVER_ENDS)
    command = campaign()
    Path("s.toml").write_text(SPEC.replace('"fcfs"', '"never.py:NeverEnds"'))
    parent = subprocess.Popen([sys.executable, "-m", "pybatsched", *command])
    try:
        wait_until(Path("pid").exists, by=parent)
    finally:
        parent.kill()
        parent.wait(PATIENCE_S)
    pid = int(Path("pid").read_text())
    try:
        wait_until(lambda: is_dead(pid))
    finally:
        if not is_dead(pid):
            os.kill(pid, signal.SIGKILL)
    # The lock is free: the next campaign starts.
    Path("s.toml").write_text(SPEC)
    assert run_cli(*command, "--resume").returncode == 0


def test_a_worker_without_a_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    args = campaign()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    done = run_cli(*args)
    message = "cannot create a directory for temporary files (TMPDIR): No such file or directory\n"
    assert (done.returncode, done.stderr) == (2, f"pybatsched: {message}")
