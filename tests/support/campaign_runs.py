"""Campaigns that tests run, and that wait until a test lets them go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from support.process import run_cli

SPEC = """
name = "trial"
seeds = {seeds}
keep = "{keep}"
[[workload]]
name = "drawn"
generate = {{model = "lublin", procs = 32, jobs = {jobs}, load = 0.9}}
[[platform]]
name = "own"
of_workload = true
[[policy]]
name = "easy"
options = {{order = ["fcfs", "sjf"]}}
[[policy]]
name = "fcfs"
{more}
"""


def write(path: Path, *, seeds: int = 3, jobs: int = 20, keep: str = "figures", more: str = "") -> Path:
    path.write_text(SPEC.format(seeds=list(range(seeds)), jobs=jobs, keep=keep, more=more))
    return path


def campaign(spec: Path, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a campaign, by default with one worker: a few cells do not need two."""
    workers = () if "--workers" in more else ("--workers", "1")
    return run_cli("campaign", "run", str(spec), "--output", str(folder), *workers, *more)


def start(spec: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "pybatsched", "campaign", "run", str(spec), "--output", str(folder), *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


GATED = '''
import pathlib, time
from pybatsched_schedulers.fcfs import Fcfs

GATE = pathlib.Path(__file__).with_name("gate")


class Gated(Fcfs):
    """FCFS that does not begin once so many cells are done as the gate says, until the gate is taken away."""

    def on_begin(self, cluster):
        super().on_begin(cluster)
        while GATE.exists():
            folder, _, goal = GATE.read_text().partition(" ")
            if len(list(pathlib.Path(folder, "cells").glob("*.json"))) < int(goal):
                break
            # patience: the pause between two polls
            time.sleep(0.01)
'''


def write_gated(place: Path, **members: Any) -> Path:
    """Write a campaign that can be paused, so that it cannot end before a test has finished its work."""
    (place / "gated.py").write_text(GATED)
    spec = write(place / "s.toml", **members)
    spec.write_text(spec.read_text().replace('"fcfs"\n', f'"{place}/gated.py:Gated"\n'))
    return spec


def hold(place: Path, folder: Path, goal: int) -> None:
    """Pause a gated campaign as soon as this number of cells is done."""
    (place / "gate.part").write_text(f"{folder} {goal}")
    (place / "gate.part").replace(place / "gate")


def n_done(folder: Path) -> int:
    return len(list((folder / "cells").glob("*.json"))) if (folder / "cells").exists() else 0
