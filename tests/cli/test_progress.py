"""What is said on a terminal while something takes its time, and that it is said nowhere else."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.places import ROOT

from pybatsched.cli.progress import CLEARED, ProgressLine, doing

_EMPTY_BAR = f"[{'':30}] 0 of 1,000 jobs, simulated 00:00:00, 0 jobs/s"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_takes_a_while_is_told_until_it_is_done() -> None:
    with redirect_stderr(_Terminal()) as terminal:
        with doing("reading a.swf"):
            assert terminal.getvalue() == "reading a.swf ..."
        assert terminal.getvalue() == f"reading a.swf ...{CLEARED}"


def test_the_line_goes_with_an_error_too() -> None:
    with redirect_stderr(_Terminal()) as terminal, pytest.raises(ValueError, match="broken"), doing("reading a.swf"):
        raise ValueError("broken")
    assert terminal.getvalue() == f"reading a.swf ...{CLEARED}"


def test_nothing_is_told_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
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
    assert said.startswith(f"reading examples/workload.json ...{CLEARED}[" if is_told else "|")
