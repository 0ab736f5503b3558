"""A full or closed standard output, and files that cannot be written completely, for every command."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import campaigns
from support.commands import all_commands
from support.nursery import Forked
from support.patience import PATIENCE_S
from support.places import ROOT
from support.process import run_cli, run_with_little_room
from support.tables import ROWS, text_table

from pybatsched import __version__

WORKLOAD = str(ROOT / "examples" / "workload.json")
EVENTS = str(ROOT / "tests/conformance/recordings/v4/generic-events/events.txt")
STAND_IN = ROOT / "tests" / "support" / "stand_in.py"
RUN = ("--procs", "32", "-w", WORKLOAD, "--policy", "easy", "-e", "another")
#: What each command is called with so that it writes to standard output; None for those that write nothing there, or
#: need a network.
SPEAKING: dict[str, tuple[str, ...] | None] = {
    "serve": None,
    "simulate": RUN,
    "run": ("-p", str(ROOT / "platforms" / "cluster32.xml"), *RUN[2:6], "--batsim", "./batsim"),
    "batsim": ("--version",),
    "keys": ("keys",),
    "relay": None,
    "workload lint": (WORKLOAD,),
    "workload describe-table": ("table.csv",),
    "workload convert": (WORKLOAD, "converted.json"),
    "workload events": (EVENTS, "--for", "batsim5", "--output", "events.txt"),
    "workload failures": ("--procs", "4", "--mtbf", "1d", "--until", "9d", "--output", "failures.txt"),
    "workload merge": (f"a={WORKLOAD}", f"b={WORKLOAD}", "--output", "merged.json"),
    "workload generate": ("poisson", "--jobs", "9", "--procs", "4", "--output", "drawn.json"),
    "workload shake": (WORKLOAD, "--output", "shaken.json"),
    "workload resample": ("weeks.json", "--output", "resampled.json"),
    "workload inject deadlines": (WORKLOAD, "deadlines", "--every", "3", "--output", "injected.json"),
    "workload inject urgent": (WORKLOAD, "urgent", "--share", "0.3", "--output", "injected.json"),
    "workload inject moldable": (WORKLOAD, "moldable", "--output", "injected.json"),
    "workload inject checkpoints": (WORKLOAD, "checkpoints", "--interval", "1h", "--output", "injected.json"),
    "workload inject files": ("users.json", "files", "--output", "injected.json"),
    "workload stats": (WORKLOAD,),
    "platform list": (),
    "platform show": ("curie",),
    "platform generate": ("rackham", "--output", "-"),
    "platform check": (str(ROOT / "platforms" / "cluster32.xml"),),
    "campaign run": None,
    "campaign tune": None,
    "campaign status": ("study",),
    "campaign table": ("study",),
    "reproduce": (),
    "traces list": (),
    "traces get": None,
    "traces sacct-command": (),
    "metrics": ("easy",),
    "report": ("easy",),
    "plot": None,
    "compare": ("easy_summary.json", "easy_summary.json"),
    "policies": (),
    "replay": ("easy.pbj",),
    "explain": ("easy.pbj", "w0!23"),
    "cite": ("easy",),
}
COMMANDS = [" ".join(words) for words in all_commands()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run, its journal, a campaign, and the stand-in for Batsim."""
    folder = tmp_path_factory.mktemp("output")
    args = ("--procs", "32", "-w", WORKLOAD, "--policy", "easy", "-e", "easy", "--journal", "easy.pbj")
    assert run_cli("simulate", *args, cwd=folder).returncode == 0
    drawn = ("poisson", "--jobs", "9", "--procs", "4", "--users", "3", "--output", "users.json")
    assert run_cli("workload", "generate", *drawn, cwd=folder).returncode == 0
    weeks = ("poisson", "--days", "20", "--gap", "86400", "--procs", "4", "--users", "3", "--output", "weeks.json")
    assert run_cli("workload", "generate", *weeks, cwd=folder).returncode == 0
    text_table(folder, *ROWS, name="table.csv")
    campaigns.scanned(folder / "study")
    (folder / "batsim").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    (folder / "batsim").chmod(0o755)
    return folder


@contextmanager
def full() -> Iterator[int]:
    """A device without room."""
    fd = os.open("/dev/full", os.O_WRONLY)
    yield fd
    os.close(fd)


@contextmanager
def closed_pipe() -> Iterator[int]:
    """A pipe that its reader has closed, as `head` does."""
    theirs, ours = os.pipe()
    os.close(theirs)
    yield ours
    os.close(ours)


WAYS = {"full": full, "closed": closed_pipe}
#: How a command ends: with an error line; or, if a pipe is closed, without one and as by SIGPIPE.
LOST: dict[str, tuple[int, list[str]]] = {
    "full": (2, ["pybatsched: standard output cannot be written: No space left on device"]),
    "closed": (141, []),
}


def run_into(way: str, args: tuple[str, ...], cwd: Path) -> tuple[int, list[str]]:
    """Run a command with such a standard output. Return its exit code and the lines of standard error."""
    with tempfile.TemporaryFile() as errors, WAYS[way]() as stdout:
        code = Forked(args, stderr=errors, stdout=stdout, cwd=cwd).finish()
        errors.seek(0)
        return code, errors.read().decode().splitlines()


def called(command: str) -> list[str]:
    """Return the arguments of a command as they are typed: the step of `inject` comes after the file."""
    return command.replace("inject ", f"inject {WORKLOAD} ").split()


def test_every_command_is_in_the_list_of_this_test() -> None:
    assert {*SPEAKING} == {*COMMANDS}


#: One way for the help of a command, and the other for its output.
IN_TURN = [(name, *((0, 1) if nth % 2 else (1, 0))) for nth, name in enumerate(COMMANDS)]


@pytest.mark.parametrize(("command", "way"), [(name, [*WAYS][way]) for name, way, _ in IN_TURN])
def test_the_help_of_every_command_cannot_be_written(command: str, way: str, place: Path) -> None:
    assert run_into(way, (*called(command), "--help"), place) == LOST[way]


@pytest.mark.parametrize(
    ("command", "way"), [(name, [*WAYS][way]) for name, _, way in IN_TURN if SPEAKING[name] is not None]
)
def test_every_command_reports_an_unwritable_output(command: str, way: str, place: Path) -> None:
    group, *name = command.split()[:2]  # the step of `inject` comes after its file
    shutil.rmtree(place / "keys", ignore_errors=True)  # which no command writes twice
    code, output = run_into(way, (group, *name, *(SPEAKING[command] or ())), place)
    assert (code, [line for line in output if not line.startswith(f"pybatsched {__version__}: ")]) == LOST[way]


@pytest.mark.parametrize("way", WAYS)
def test_an_output_larger_than_the_buffer_is_reported_if_unwritable(way: str, place: Path) -> None:
    """More than a buffer holds: the command itself fails, not the last flush."""
    assert run_into(way, ("platform", "generate", "curie", "--output", "-"), place) == LOST[way]


def test_a_closed_pipe_ends_a_command_without_an_error(tmp_path: Path) -> None:
    """As `| head -1` does, in a process of its own. A table of 400 kB is more than a pipe holds."""
    rows = [campaigns.Row("w", "p" * 80, {"n_jobs": 1} if n == 0 else None, address="a") for n in range(5000)]
    campaigns.keep(tmp_path / "study", rows, ["w"])
    command = [sys.executable, "-m", "pybatsched", "campaign", "table", "study", "--figures", "all", "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"workload,platform,policy,")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE


def test_a_run_whose_table_has_no_reader_is_finished(place: Path, tmp_path: Path) -> None:
    """Its files are in place before the table is printed."""
    assert run_into("closed", ("simulate", *RUN[:-1], str(tmp_path / "a")), place) == LOST["closed"]
    assert json.loads((tmp_path / "a_state.json").read_text())["state"] == "finished"


@pytest.mark.parametrize("program", [("-m", "pybatsched"), (str(Path(sys.executable).with_name("pybatsched")),)])
def test_a_missing_standard_output_is_reported(program: tuple[str, ...], place: Path) -> None:
    command = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, *program, "policies"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (2, "pybatsched: standard output cannot be written: it is closed\n")


def test_a_quiet_command_needs_no_standard_output(place: Path, tmp_path: Path) -> None:
    assert run_into("full", ("simulate", *RUN[:-1], str(tmp_path / "a"), "--quiet"), place) == (0, [])


@pytest.mark.parametrize(
    "args",
    [
        ("plot", "gantt", "easy", "--output"),
        ("plot", "boxes", "study", "--measure", "mean_wait_s", "--output"),
        ("workload", "stats", WORKLOAD, "--plot"),
        ("report", "easy", "--output"),
    ],
    ids=["plot", "plot of a campaign", "stats", "report"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_an_incomplete_picture_is_removed(is_first: bool, args: tuple[str, ...], place: Path, tmp_path: Path) -> None:
    output = tmp_path / "there" / ("page.html" if args[0] == "report" else "figure.svg")
    earlier = {} if is_first else {output: b"an earlier one"}
    for path, content in earlier.items():
        path.parent.mkdir()
        path.write_bytes(content)
    done = run_with_little_room(*args, str(output), cwd=place)
    assert (done.returncode, done.stderr) == (2, f"pybatsched: {output}: cannot be written: File too large\n")
    assert {path: path.read_bytes() for path in output.parent.iterdir()} == earlier


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full", "0<&- 2>&-", "0<&- 1>&- 2>&-"])
def test_a_run_continues_if_stderr_is_closed(where: str, tmp_path: Path) -> None:
    """Notes go to standard error; files and tables are what the command is for."""
    assert run_cli("simulate", *RUN, cwd=tmp_path).returncode == 0
    expected = {path.name: path.read_text() for path in tmp_path.iterdir() if path.suffix == ".csv"}
    (tmp_path / "else").mkdir()
    command = " ".join([shlex.quote(text) for text in (sys.executable, "-m", "pybatsched", "simulate", *RUN, "-v")])
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} {where}"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path / "else",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == (2 if "1>&-" in where else 0)
    assert ("utilisation" in done.stdout) == ("1>&-" not in where)
    found = {path.name: path.read_text() for path in (tmp_path / "else").iterdir() if path.suffix == ".csv"}
    assert found == expected


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_an_error_on_closed_stderr_keeps_its_exit_code(where: str, tmp_path: Path) -> None:
    args = ("simulate", "--procs", "4", "--policy", "easy", "-w", "nowhere.json")
    command = " ".join([shlex.quote(sys.executable), "-m", "pybatsched", *args, where])
    done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2


def test_the_demo_ends_without_an_error_if_its_pipe_is_closed(tmp_path: Path) -> None:
    """As the commands do: a shell gives 141 for a program that SIGPIPE has ended."""
    with closed_pipe() as stdout:
        done = subprocess.run(
            [sys.executable, "-u", str(ROOT / "examples" / "demo.py"), "--procs", "8", "--load", "0.1"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")
