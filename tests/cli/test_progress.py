"""What is said on a terminal while something takes its time, and that it is said nowhere else."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import logs
from support.patience import PATIENCE_S
from support.places import ROOT
from support.process import run_cli

from pybatsched import cli
from pybatsched.cli.common import progress
from pybatsched.cli.common.progress import CLEARED, Bar, ProgressLine, doing, loading
from pybatsched.session.journal import JournalReader
from pybatsched.workload import load, progress as reporting

_EMPTY_BAR = f"[{'':30}] 0 of 1,000 jobs, simulated 00:00:00"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_until_the_end() -> None:
    with redirect_stderr(_Terminal()) as terminal:
        with doing("reading a.swf"):
            assert terminal.getvalue() == "reading a.swf ..."
        assert terminal.getvalue() == f"reading a.swf ...{CLEARED}"


def test_the_line_goes_with_an_error_too() -> None:
    with redirect_stderr(_Terminal()) as terminal, pytest.raises(ValueError, match="broken"), doing("reading a.swf"):
        raise ValueError("broken")
    assert terminal.getvalue() == f"reading a.swf ...{CLEARED}"


def test_no_progress_is_written_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with doing("reading a.swf"), ProgressLine(10):
        pass
    assert capsys.readouterr().err == ""


def test_quiet_is_quiet_on_a_terminal() -> None:
    with redirect_stderr(_Terminal()) as terminal, doing("reading a.swf", quiet=True), ProgressLine(10, quiet=True):
        pass
    assert terminal.getvalue() == ""


def test_the_bar_is_there_before_the_first_message() -> None:
    with redirect_stderr(_Terminal()) as terminal, ProgressLine(1000):
        assert terminal.getvalue() == _EMPTY_BAR
    assert terminal.getvalue() == _EMPTY_BAR + CLEARED


class Clock:
    """A clock that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_the_rate_excludes_loading_and_the_time_left_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with redirect_stderr(_Terminal()) as terminal, ProgressLine(1000) as line:
        clock.now = 200.0  # the jobs are ready
        line.update(0.0, 0)
        clock.now = 300.0  # the machine and the policy, too
        line.update(0.0, 0)
        clock.now = 310.0
        for _ in range(254):
            line.update(3600.0, 250)
    shown = terminal.getvalue().split("\r")[-2]
    assert shown == f"[{'#' * 7:30}] 250 of 1,000 jobs, simulated 01:00:00, 25 jobs/s, 00:00:30 left\x1b[K"


@pytest.mark.parametrize(
    ("ends_at", "now", "n_over", "shown"),
    [
        (7200.0, 3600.0, 100, f"[{'#' * 15:30}] 100 of 1,000 jobs, simulated 01:00:00, 10 jobs/s, 00:00:10 left"),
        (7200.0, 3600.0, 800, f"[{'#' * 24:30}] 800 of 1,000 jobs, simulated 01:00:00, 80 jobs/s, 00:00:02 left"),
        (0.0, 0.0, 1, f"[{'#' * 30}] 1 of 1,000 jobs, simulated 00:00:00, 0 jobs/s, 00:00:00 left"),
    ],
)
def test_a_run_ends_with_its_jobs_or_with_its_time(ends_at: float, now: float, n_over: int, shown: str) -> None:
    assert ProgressLine(1000, ends_at=ends_at).line(now, n_over, 10.0) == shown


def test_a_bar_of_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    with redirect_stderr(_Terminal()) as terminal, Bar("reading a.swf") as bar:
        bar.update(0.1)  # too early to be worth a word
        clock.now += 30.0
        bar.update(0.5)
    assert terminal.getvalue().split("\r") == [
        "reading a.swf ...",
        f"reading a.swf [{'#' * 15:30}] 50%, 00:00:30 left\x1b[K",
        CLEARED[1:],
    ]


def shares_of(path: Path) -> list[float]:
    """Load a workload and give the shares that are told."""
    told: list[float] = []
    with reporting.report_to(told.append), reporting.part(0, 1):
        load(path)
    return told


@pytest.mark.parametrize("kind", ["swf", "swf.gz", "json"])
def test_loading_tells_how_far_it_is(kind: str, tmp_path: Path) -> None:
    path, n = tmp_path / f"a.{kind}", 20_000
    if kind == "json":
        jobs = [{"id": str(i), "subtime": i, "res": 1, "profile": "d"} for i in range(n)]
        content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 2}}}
        path.write_text(json.dumps(content))
    else:
        text = logs.HEADER + "\n".join(logs.line(i, i) for i in range(1, n + 1)) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if kind == "swf.gz" else text.encode())
    told = shares_of(path)
    assert len(told) > 5
    assert told == sorted(told)
    assert told[0] == 0  # the file is looked at for what it is
    assert any(0.2 < share < 0.6 for share in told)
    assert 0.6 < told[-1] <= 1
    assert shares_of(path) == told


def test_progress_without_a_receiver_is_ignored() -> None:
    assert not reporting.is_reporting()
    items = [1, 2]
    assert reporting.with_progress(items, 2) is items
    told: list[float] = []
    with reporting.report_to(told.append):
        reporting.report(0.5)  # of no part
    assert told == []


def test_parts_of_parts_take_their_place() -> None:
    told: list[float] = []
    with reporting.report_to(told.append), reporting.part(0, 1):
        with reporting.part(0.5, 0.75):
            reporting.report(0.5)
            reporting.report(7.0)
        reporting.report(1.0)
        assert list(reporting.with_progress("ab", 2)) == ["a", "b"]
    assert told == [0.625, 0.75, 1.0, 0.0]


def test_a_journal_tells_how_far_it_is_read(tmp_path: Path) -> None:
    args = ("--procs", "32", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy", "--journal", "a.pbj")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    told: list[float] = []
    n = sum(1 for _ in JournalReader(tmp_path / "a.pbj", told.append).exchanges())
    assert len(told) == 2 * n + 2
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("command", ["replay", "explain"])
def test_replay_and_explain_show_a_bar_on_a_terminal(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    args = ("--procs", "32", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy", "--journal", "a.pbj")
    assert run_cli("simulate", *args).returncode == 0
    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    job = ["w0!23"] if command == "explain" else []
    with redirect_stderr(_Terminal()) as terminal:
        assert cli.main([command, "a.pbj", *job]) == 0
    shown = terminal.getvalue().split("\r")
    what = "replaying a.pbj" if command == "replay" else "reading a.pbj"
    assert (shown[0], shown[-1]) == (f"{what} ...", CLEARED[1:])
    assert shown[-2].startswith(f"{what} [{'#' * 30}] 100%, 00:00:00 left")
    assert len(shown) > 20


def test_a_log_is_loaded_with_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.swf").write_text(logs.HEADER + "\n".join(logs.line(i, i) for i in range(1, 9_001)) + "\n")
    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    with redirect_stderr(_Terminal()) as terminal, loading("reading a.swf"):
        load(tmp_path / "a.swf")
    shown = terminal.getvalue().split("\r")
    assert f"[{'#' * 15:30}] 50%" in "".join(shown)
    assert (shown[0], shown[-1]) == ("reading a.swf ...", CLEARED[1:])


@pytest.mark.parametrize(("more", "is_told"), [((), True), (("--quiet",), False)])
def test_simulate_says_what_it_reads(tmp_path: Path, more: tuple[str, ...], is_told: bool) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "pybatsched", "simulate", "--procs", "32", "-w", "examples/workload.json"]
    command += ["--policy", "easy", "-e", str(tmp_path / "run"), *more]
    try:
        subprocess.run(command, cwd=ROOT, stderr=theirs, stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
        os.write(theirs, b"|")  # else there may be nothing to read
        said = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    if is_told:
        assert said.startswith("reading examples/workload.json ...")
        assert f"{CLEARED}[{'':30}] 0 of 30 jobs, simulated 00:00:00" in said
    else:
        assert said == "|"
