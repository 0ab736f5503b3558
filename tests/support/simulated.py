"""Recordings of the real Batsim replayed with the simulator in Batsim's place."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pybatsched.cli import build_parser, main
from pybatsched.cli.simulate import spec_of
from pybatsched.core import decisions as d, events as e
from pybatsched.errors import PybatschedError, RemoteProtocolError
from pybatsched.protocol import Message, v4
from pybatsched.runs.build import build
from pybatsched.simulator.options import AUTO, Scenario
from pybatsched.simulator.outputs.files import batsim_files
from pybatsched.simulator.outputs.paje import ScheduleTrace
from pybatsched.simulator.simulation import SimulatedRun
from support.patience import PATIENCE_OF_WORK_S
from support.process import Server
from support.recordings import Recording

FILES = ("out_jobs.csv", "out_schedule.csv", "out_machine_states.csv", "out_pstate_changes.csv")


@dataclass
class Played:
    """Messages and files of the simulator for the recorded replies."""

    messages: list[Any] = field(default_factory=list)
    finished: bool = False
    refusal: str = ""


def scenario_of(recording: Recording) -> Scenario:
    """Read the inputs by the very options Batsim was given."""
    args = build_parser().parse_args(["simulate", *recording.args, "--external", "--quiet", "--allow-empty"])
    before = Path.cwd()
    os.chdir(recording.directory)
    try:
        scenario = build(spec_of(args)).scenario
    finally:
        os.chdir(before)
    for workload in scenario.workloads.values():
        workload.source = Path(workload.source).name  # as the recordings have it
    return scenario


def play(
    recording: Recording, prefix: Path, *, traced: bool = False, halting: bool = False, clock: str = AUTO
) -> Played:
    """Reply to the simulator with the recorded replies; with `halting`, from outside, message by message.

    With `traced`, the schedule is traced, too.
    """
    played = Played()
    replies = iter(recording.replies)

    def scheduler(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        played.messages.append(json.loads(v4.encode_events(Message(now, tuple(events)))))
        reply = next(replies, None)
        if reply is None:
            raise RemoteProtocolError("the recorded scheduler has nothing more to say")
        message = v4.decode_decisions(reply)
        return message.now, message.items

    scenario = scenario_of(recording)
    scenario = replace(scenario, options=replace(scenario.options, clock=clock))
    files = [*batsim_files(str(prefix)), *([ScheduleTrace(str(prefix))] if traced else [])]
    simulation = SimulatedRun(scenario, None if halting else scheduler, files)
    try:
        if halting:
            exchanges = simulation.exchanges()
            with contextlib.closing(exchanges), contextlib.suppress(StopIteration):
                exchange = next(exchanges)
                while True:
                    exchange = exchanges.send(scheduler(*exchange))
            played.finished = simulation.finished
        else:
            played.finished = simulation.run()
    except PybatschedError as error:
        played.refusal = str(error)
    return played


def without_hops(path: Path) -> str:
    """Return the text of a file as the recordings have it: times below 1e-290 are 0."""
    return re.sub(r"(?m)^[\d.]+e-(?:29|30)\d\b", "0", path.read_text())


def first_difference(recording: Recording, played: Played) -> str:
    """Return where the simulator's messages differ from the recorded ones; numbers are compared as numbers."""
    expected = [json.loads(text) for text in recording.requests]
    for number, (mine, theirs) in enumerate(zip(played.messages, expected, strict=False), 1):
        if mine != theirs:
            return f"message {number}:\n  simulator {json.dumps(mine)}\n  Batsim    {json.dumps(theirs)}"
    if len(played.messages) != len(expected):
        return f"{len(played.messages)} messages; Batsim sent {len(expected)}: {played.refusal}"
    return ""


def embed(directory: Path, args: list[str], policy: str, prefix: Path) -> Path:
    """Run a policy on the embedded simulator, in this process, with Batsim's own options. Return its ``_jobs.csv``."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        assert main(["simulate", *args, "--policy", policy, "-e", str(prefix), "--quiet", "--allow-empty"]) == 0
    finally:
        os.chdir(before)
    return prefix.with_name(f"{prefix.name}_jobs.csv")


def beside_batsim(
    args: list[str], policy: str, options: list[str], folder: Path, clock: str = AUTO
) -> tuple[Path, Path]:
    """Run a policy on the embedded simulator and on the real Batsim, and give both ``_jobs.csv``."""
    with Server("--policy", policy, *options) as server:
        command = ["batsim", *args, "-s", server.wait_ready(), "-e", str(folder / "theirs"), "-q"]
        batsim = subprocess.run(command, capture_output=True, timeout=PATIENCE_OF_WORK_S, check=False)
        assert server.finish() == 0
    assert batsim.returncode == 0
    own = ["--clock", clock, "-e", str(folder / "mine"), "--quiet"]
    assert main(["simulate", *args, "--policy", policy, *options, *own]) == 0
    return folder / "mine_jobs.csv", folder / "theirs_jobs.csv"


def simgrid_version() -> tuple[int, ...]:
    """Return the version of SimGrid that the real Batsim uses."""
    command = ["batsim", "--simgrid-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_OF_WORK_S, check=True)
    return tuple(map(int, done.stdout.split(".")))


def same_jobs(mine: Path, theirs: Path) -> None:
    """Compare two ``_jobs.csv`` text by text, order included; but a wait of -0.000000 is clock noise of Batsim's."""
    assert mine.read_text() == theirs.read_text().replace(",-0.000000,", ",0.000000,")


def same_but_for_halves(mine: Path, theirs: Path) -> None:
    """Compare two ``_jobs.csv``, order included. Batsim computes the stretch with long doubles.

    It may differ in the last digit: of the file, or of a double.
    """
    for one, other in zip(rows(mine), rows(theirs), strict=True):
        ours, batsims = one.pop("stretch"), other.pop("stretch")
        assert ours == batsims or float(ours) == pytest.approx(float(batsims), abs=1.5e-6, rel=1e-15)
        assert one == {name: value.replace("-0.000000", "0.000000") for name, value in other.items()}


def rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
