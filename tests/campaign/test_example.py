"""The campaign of docs/campaigns.md, run by its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from support.places import ROOT
from support.process import run_cli


def test_the_example_runs_and_prints_the_known_figures(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "campaigns.md").read_text()
    commands = re.findall(
        r"^pybatsched (campaign (?:run|table) .*out/backfilling(?: --by .*)?)$", page, flags=re.MULTILINE
    )
    assert len(commands) == 2
    for command in commands:
        done = run_cli(*shlex.split(command.replace("out/", f"{tmp_path}/")), cwd=ROOT)
        assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    waits = {(row[0], row[1], "sjf" in " ".join(row)): float(row[-5]) for row in rows}
    assert len(waits) == 8
    assert waits["overloaded", "easy", False] < waits["overloaded", "fcfs", False]  # backfilling helps
    assert waits["busy", "easy", False] < waits["overloaded", "easy", False]  # and load hurts
