"""The command in a summary: it repeats the run, and equal runs have equal commands."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.process import run_cli

from pybatsched.cli import simulate
from pybatsched.cli.common.inputs import command_to_repeat
from pybatsched.metrics.saved_runs import read_run

WORKLOAD = "a's.json"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / WORKLOAD).write_text((ROOT / "examples" / "workload.json").read_text())
    return tmp_path


def summary(place: Path, prefix: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((place / f"{prefix}_summary.json").read_text())
    return content


def test_the_recorded_command_does_not_depend_on_spelling_or_output_paths(place: Path) -> None:
    ways = (
        ("-w", WORKLOAD, "--policy", "easy", "-o", "order=sjf", "--procs", "32", "-e", "a", "-q"),
        (
            *("--export", "deep/b", "--journal", "b.pbj"),
            *("--procs=32", "--policy=easy", "-oorder=sjf"),
            f"--workload={WORKLOAD}",
        ),
    )
    for way in ways:
        assert run_cli("simulate", *way, cwd=place).returncode == 0
    content = summary(place, "a")
    assert content["command"] == f"pybatsched simulate --procs 32 -w {shlex.quote(WORKLOAD)} --policy easy -o order=sjf"
    assert (place / "a_summary.json").read_bytes() == (place / "deep" / "b_summary.json").read_bytes()


def test_the_recorded_command_repeats_the_run(place: Path) -> None:
    given = ("-p", "cluster.xml", "-w", WORKLOAD, "-w", "more.json", "--policy", "easy", "-o", "order=sjf", "-o")
    (place / "cluster.xml").write_text((ROOT / "platforms" / "cluster32.xml").read_text())
    (place / "more.json").write_text((place / WORKLOAD).read_text())
    flags = ("assume_walltime=500", "--walltimes", "factor:2", "--enable-profile-reuse", "--seed", "3", "-e", "a")
    assert run_cli("simulate", *given, *flags, cwd=place).returncode == 0
    first, *again = shlex.split(summary(place, "a")["command"])
    assert first == "pybatsched"
    assert run_cli(*again, "-e", "b", cwd=place).returncode == 0
    for suffix in ("_summary.json", "_jobs.csv"):
        assert (place / f"a{suffix}").read_bytes() == (place / f"b{suffix}").read_bytes()


def test_the_recorded_command_has_the_arguments_for_batsim() -> None:
    parser = ArgumentParser()
    simulate.add_arguments(parser)
    args = parser.parse_args(["--procs", "4", "-w", "w.json", "--policy", "fcfs"])
    args.for_batsim = ["-E", "--sched-cfg", "a b"]
    command = command_to_repeat("run", simulate.add_arguments, args)
    assert command == "pybatsched run --procs 4 -w w.json --policy fcfs -- -E --sched-cfg 'a b'"


def test_a_failed_run_records_its_command(place: Path) -> None:
    halting = f"{ROOT / 'tests' / 'support' / 'halting.py'}:Halting"
    options = ("--policy", halting, "-o", "after=5", "-o", "then=raise", "-e", "out/broken", "--journal", "broken.pbj")
    assert run_cli("simulate", "--procs", "32", "-w", WORKLOAD, *options, cwd=place).returncode == 6
    run = read_run(str(place / "out" / "broken"), partial=True)
    assert run.summary["command"].startswith("pybatsched simulate --procs 32 -w ")
    assert run.journal == str(place / "broken.pbj")


def test_the_state_file_names_the_journal_relative_to_itself(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ("simulate", "--procs", "32", "-w", WORKLOAD, "--policy", "easy", "-e", "out/a")
    assert run_cli(*args, "--journal", "books/a.pbj", cwd=place).returncode == 2  # there is no such directory
    (place / "books").mkdir()
    assert run_cli(*args, "--journal", "books/a.pbj", cwd=place).returncode == 0
    assert json.loads((place / "out" / "a_state.json").read_text())["journal"] == "../books/a.pbj"
    monkeypatch.chdir(place)
    assert read_run("out/a").journal == "books/a.pbj"
    monkeypatch.chdir(place / "out")
    assert read_run("a").journal == "../books/a.pbj"
    assert run_cli(*args, cwd=place).returncode == 0
    assert read_run("a").journal == ""
