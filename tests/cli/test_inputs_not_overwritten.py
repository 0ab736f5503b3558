"""No command overwrites a file that it reads."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from support import campaigns
from support.places import ROOT
from support.process import run_cli

WORKLOAD = ROOT / "examples" / "workload.json"
STAND_IN = ROOT / "tests" / "support" / "stand_in.py"
POLICY = "from pybatsched_schedulers.fcfs import Fcfs\n\n\nclass Mine(Fcfs):\n    pass\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a run, its journal and its workload."""
    shutil.copy(WORKLOAD, tmp_path / "w.json")
    args = ("--procs", "32", "-w", "w.json", "--policy", "easy", "-e", "out", "--journal", "kept.pbj", "-q")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    shutil.copy(tmp_path / "kept.pbj", tmp_path / "named.pbj")
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def refused(folder: Path, name: str, *args: str) -> None:
    """Check that a command refuses to write the file of this name, and changes no file."""
    before = content(folder)
    done = run_cli(*args, cwd=folder)
    assert f"{name} is an input of this command; expected another output file" in done.stderr
    assert done.returncode == 2
    assert content(folder) == before


@pytest.mark.parametrize(
    "name", ["out_jobs.csv", "out_summary.json", "out_state.json", "w.json", "./named.pbj", "kept.pbj"]
)
def test_a_report_replaces_no_input(name: str, place: Path) -> None:
    refused(place, name, "report", "out", "--journal", "named.pbj", "--output", name)


def test_a_report_finds_its_journal_and_keeps_it(place: Path) -> None:
    refused(place, "kept.pbj", "report", "out", "--output", "kept.pbj")
    (place / "kept.pbj").rename(place / "out.pbj")
    refused(place, "out.pbj", "report", "out", "--output", "out.pbj")


def test_a_figure_replaces_no_input(place: Path) -> None:
    shutil.copy(WORKLOAD, place / "w.svg")
    refused(place, "w.svg", "plot", "cdf", "out", "-w", "w.svg", "--output", "w.svg")
    refused(place, "w.svg", "workload", "stats", "w.svg", "--plot", "w.svg")


def test_the_files_of_a_campaign_are_kept(tmp_path: Path) -> None:
    campaigns.scanned(tmp_path / "study")
    cell = next((tmp_path / "study" / "cells").iterdir())
    refused(tmp_path, "study/manifest.json", "report", "study", "--output", "study/manifest.json")
    refused(tmp_path, cell.name, "report", "study", "--output", str(cell))
    (tmp_path / "study" / "ends").mkdir()
    (tmp_path / "study" / "ends" / "a.svg").touch()
    refused(tmp_path, "a.svg", "plot", "boxes", "study", "--output", "study/ends/a.svg")


@pytest.mark.parametrize("command", ["simulate", "run", "serve"])
@pytest.mark.parametrize("name", ["mine.py", "options.toml"])
def test_a_journal_replaces_neither_the_policy_nor_its_options(name: str, command: str, place: Path) -> None:
    (place / "mine.py").write_text(POLICY)
    (place / "options.toml").write_text("[policy.Mine]\n")
    inputs = () if command == "serve" else ("-p", "sx-ace", "-w", "w.json", "-e", "other")
    policy = ("--policy", "mine.py:Mine", "--config", "options.toml")
    refused(place, name, command, *inputs, *policy, "--journal", name)


def test_a_journal_replaces_no_file_that_an_option_names(place: Path) -> None:
    (place / "mine.py").write_text(POLICY)
    args = ("--procs", "32", "-w", "w.json", "-e", "other", "--policy", "redirection", "-o", "principal=mine.py:Mine")
    refused(place, "mine.py", "simulate", *args, "--journal", "mine.py")


def test_a_journal_replaces_no_file_for_the_scheduler(place: Path) -> None:
    (place / "options.json").write_text("{}")
    args = ("-p", "sx-ace", "-w", "w.json", "-e", "other", "--policy", "easy", "--journal", "options.json")
    refused(place, "options.json", "simulate", *args, "--sched-cfg-file", "options.json")
    program = place / "batsim"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    refused(place, "options.json", "run", *args, "--batsim", str(program), "--", "--sched-cfg-file", "options.json")


def test_results_replace_no_configuration(place: Path) -> None:
    (place / "other_summary.json").write_text("")
    args = ("--procs", "32", "-w", "w.json", "--policy", "easy", "-e", "other", "--config", "other_summary.json")
    refused(place, "other_summary.json", "simulate", *args)
