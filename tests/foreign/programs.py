"""Programs of other projects: where they are, and how two of them run together, with a time limit for every wait."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S
from support.places import ROOT
from support.process import run_cli

ENVIRONMENT = ROOT / "build" / "foreign"
PYTHON = ENVIRONMENT / "bin" / "python"
PYBATSIM = ENVIRONMENT / "bin" / "pybatsim"

needs_environment = pytest.mark.skipif(
    not (ENVIRONMENT / "ready").exists(), reason="no build/foreign; `make build/foreign/ready` makes it"
)


def free_port() -> int:
    """Return an unused port, below those that the system assigns itself."""
    while True:
        port = random.SystemRandom().randrange(20_000, 28_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@dataclass(frozen=True)
class Outcome:
    """How two processes ended, and their output."""

    scheduler_code: int
    simulator_code: int
    scheduler_output: str
    simulator_output: str

    @property
    def codes(self) -> tuple[int, int]:
        """The exit codes, the scheduler's first."""
        return self.scheduler_code, self.simulator_code

    @property
    def output(self) -> str:
        return f"scheduler:\n{self.scheduler_output[-3000:]}\nsimulator:\n{self.simulator_output[-3000:]}"


def run_pair(scheduler: list[str], simulator: list[str], directory: Path) -> Outcome:
    """Run both to their ends. The second is killed (-9) PATIENCE_S after the first, both after PATIENCE_OF_WORK_S.

    They work in the directory: pybatsim writes its out_events.csv where it is.
    """
    paths = [directory / "scheduler.log", directory / "simulator.log"]
    until = time.monotonic() + PATIENCE_OF_WORK_S
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command, path in zip((scheduler, simulator), paths, strict=True):
            with path.open("wb") as log:
                process = subprocess.Popen(
                    command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
                processes.append(process)
        n_running = 2
        # patience: at least PATIENCE_S
        while n_running and time.monotonic() < until:
            # patience: the pause between two polls
            time.sleep(0.02)
            if n_running > (n_running := sum(process.poll() is None for process in processes)):
                until = min(until, time.monotonic() + PATIENCE_S)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE_S)
    codes = [process.returncode for process in processes]
    return Outcome(codes[0], codes[1], paths[0].read_text(), paths[1].read_text())


def our_simulator(args: list[str], port: int, prefix: Path) -> list[str]:
    """Return the command that runs our simulator as Batsim for the scheduler at the port."""
    command = [sys.executable, "-m", "pybatsched", "simulate", *args, "--external", "-q"]
    return [*command, "--timeout", f"{PATIENCE_S:g}", "-s", f"tcp://127.0.0.1:{port}", "-e", str(prefix)]


def with_drop_in(directory: Path) -> dict[str, str]:
    """Return settings under which every program that starts a `batsim` starts ours, by its link in a new directory."""
    place = directory / "drop-in"
    place.mkdir()
    done = run_cli("batsim", "--link", str(place))
    assert done.returncode == 0, done.stderr
    return {"PATH": os.pathsep.join([str(place), str(ENVIRONMENT / "bin"), os.environ["PATH"]])}


def real_batsim(args: list[str], port: int, prefix: Path) -> list[str]:
    return ["batsim", *args, "-v", "quiet", "-s", f"tcp://127.0.0.1:{port}", "-e", str(prefix)]


def pybatsim(scheduler: str, port: int, *, patience_s: float = PATIENCE_S) -> list[str]:
    """Return the command of a scheduler of pybatsim (or of a file with one) that logs every message."""
    patience_ms = str(round(patience_s * 1000))
    return [str(PYBATSIM), scheduler, "-s", f"tcp://127.0.0.1:{port}", "-v", "info", "-t", patience_ms]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def run_script(name: str, *args: str, settings: dict[str, str]) -> str:
    """Run a script of this directory in the foreign environment. Return what it printed."""
    return run_foreign(str(Path(__file__).with_name(name)), *args, settings=settings)


def run_foreign(*args: str, settings: dict[str, str], cwd: Path | None = None) -> str:
    """Run the Python of the foreign environment. Return what it printed.

    After an error a program may wait for ever: then it is killed with all its child processes.
    """
    process = subprocess.Popen(
        [str(PYTHON), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=os.environ | settings,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output + errors
    return output
