"""Progress on a terminal during long work, and no progress anywhere else."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import termios
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from support import logs
from support.patience import PATIENCE_S
from support.places import ROOT
from support.process import run_cli
from support.terminals import open_terminal

from pybatsched import cli
from pybatsched.cli.common import progress
from pybatsched.cli.common.progress import ProgressBar, ProgressLine, doing, loading
from pybatsched.session.journal import JournalReader
from pybatsched.workload import load, progress as reporting


class _Terminal(io.StringIO):
    """A terminal that records what it showed."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> list[str]:
        """What it showed, one after the other."""
        return [text for text in self.getvalue().replace("\x1b[K", "").split("\r") if text]

    @property
    def is_clear(self) -> bool:
        """Whether the last line was removed."""
        return self.getvalue().endswith("\r\x1b[K")


def test_progress_is_shown_until_the_end() -> None:
    with redirect_stderr(_Terminal()) as terminal:
        with doing("reading a.swf"):
            assert terminal.shown == ["reading a.swf ..."]
        assert terminal.is_clear


def test_the_progress_line_is_cleared_after_an_error() -> None:
    with redirect_stderr(_Terminal()) as terminal, pytest.raises(ValueError, match="broken"), doing("reading a.swf"):
        raise ValueError("broken")
    assert terminal.is_clear


def test_no_progress_is_written_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with doing("reading a.swf"), ProgressLine(10):
        pass
    assert capsys.readouterr().err == ""


def test_quiet_shows_no_progress_on_a_terminal() -> None:
    with redirect_stderr(_Terminal()) as terminal, ProgressLine(10, quiet=True):
        pass
    assert terminal.getvalue() == ""


def test_the_bar_is_shown_before_the_first_message() -> None:
    with redirect_stderr(_Terminal()) as terminal, ProgressLine(1000):
        assert terminal.shown == [f"|{'':30}| 0 of 1,000 jobs, simulated 00:00:00, ? left"]
    assert terminal.is_clear


def test_the_bar_of_a_run_shows_jobs_and_simulated_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    with redirect_stderr(_Terminal()) as terminal, ProgressLine(1000) as line:
        for _ in range(256):
            line.update_run(3600.0, 250)
    assert terminal.shown[-1].startswith(f"|{'#' * 7}{'':23}| 250 of 1,000 jobs, simulated 01:00:00, ")
    assert terminal.shown[-1].endswith(" left")


@pytest.mark.parametrize(
    ("ends_at", "now", "n_over", "share"), [(7200.0, 3600.0, 100, 0.5), (7200.0, 3600.0, 800, 0.8), (0.0, 0.0, 1, 1.0)]
)
def test_the_share_done_is_by_jobs_or_by_stop_time(ends_at: float, now: float, n_over: int, share: float) -> None:
    assert ProgressLine(1000, ends_at=ends_at).share(now, n_over) == share


def test_a_bar_shows_a_percentage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    with redirect_stderr(_Terminal()) as terminal, ProgressBar("reading a.swf") as bar:
        bar.update(0.5)
    assert terminal.shown[0] == f"reading a.swf |{'':30}| 0 %, ? left"
    assert terminal.shown[-1].startswith(f"reading a.swf |{'#' * 15}{'':15}| 50 %, ")
    assert terminal.is_clear


def shares_of(path: Path) -> list[float]:
    """Load a workload and return the reported shares."""
    shares: list[float] = []
    with reporting.report_to(shares.append), reporting.part(0, 1):
        load(path)
    return shares


@pytest.mark.parametrize("kind", ["swf", "swf.gz", "json"])
def test_loading_reports_its_progress(kind: str, tmp_path: Path) -> None:
    path, n = tmp_path / f"a.{kind}", 20_000
    if kind == "json":
        jobs = [{"id": str(i), "subtime": i, "res": 1, "profile": "d"} for i in range(n)]
        content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 2}}}
        path.write_text(json.dumps(content))
    else:
        text = logs.HEADER + "\n".join(logs.line(i, i) for i in range(1, n + 1)) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if kind == "swf.gz" else text.encode())
    shares = shares_of(path)
    assert len(shares) > 5
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.1
    assert any(0.2 < share <= 0.6 for share in shares)  # reading is 60 % of the work
    assert 0.6 < shares[-1] <= 1
    assert shares_of(path) == shares


def test_progress_without_a_receiver_is_ignored() -> None:
    assert not reporting.is_reporting()
    items = [1, 2]
    assert reporting.with_progress(items, 2) is items
    shares: list[float] = []
    with reporting.report_to(shares.append):
        reporting.report(0.5)  # of no part
    assert shares == []


def test_progress_of_nested_parts_is_scaled() -> None:
    shares: list[float] = []
    with reporting.report_to(shares.append), reporting.part(0, 1):
        with reporting.part(0.5, 0.75):
            reporting.report(0.5)
            reporting.report(7.0)
        reporting.report(1.0)
        assert list(reporting.with_progress("ab", 2)) == ["a", "b"]
    assert shares == [0.625, 0.75, 1.0, 0.0]


def test_reading_a_journal_reports_its_progress(tmp_path: Path) -> None:
    args = ("--procs", "32", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy", "--journal", "a.pbj")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    shares: list[float] = []
    n = sum(1 for _ in JournalReader(tmp_path / "a.pbj", shares.append).exchanges())
    assert len(shares) == 2 * n + 2
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


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
    what = "replaying a.pbj" if command == "replay" else "reading a.pbj"
    assert terminal.shown[0].startswith(f"{what} |{'':30}| 0 %")
    assert terminal.shown[-1].startswith(f"{what} |{'#' * 30}| 100 %, 00:00 left")
    assert len(terminal.shown) > 20
    assert terminal.is_clear


def test_a_log_is_loaded_with_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.log(tmp_path, *(logs.line(i, i) for i in range(1, 9_001)), name="a.swf")
    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    with redirect_stderr(_Terminal()) as terminal, loading("reading a.swf"):
        load(tmp_path / "a.swf")
    assert any(f"|{'#' * 18}{'':12}| 60 %" in text for text in terminal.shown)
    assert terminal.is_clear


@pytest.mark.parametrize(("more", "is_shown"), [((), True), (("--quiet",), False)])
def test_simulate_shows_the_file_it_reads(tmp_path: Path, more: tuple[str, ...], is_shown: bool) -> None:
    ours, theirs = open_terminal()
    termios.tcsetwinsize(theirs, (24, 120))
    command = [sys.executable, "-P", "-m", "pybatsched", "simulate", "--procs", "32", "-w", "examples/workload.json"]
    command += ["--policy", "easy", "-e", str(tmp_path / "run"), *more]
    try:
        subprocess.run(command, cwd=ROOT, stderr=theirs, stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
        os.write(theirs, b"|")  # else there may be nothing to read
        output = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    if is_shown:
        assert output.lstrip("\r").startswith("reading examples/workload.json |")
        assert f"|{'':30}| 0 of 30 jobs, simulated 00:00:00" in output
    else:
        assert output == "|"
