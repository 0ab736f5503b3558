"""What a page tells of a journal: the whole story, what of it is missing, and why a journal is not the run's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.metrics.runs import read_run
from pybatsched.report import tales


def simulate(folder: Path, name: str, at: float = 0.0) -> str:
    """Play two jobs of which the second one waits for the first, with a journal; gives its prefix."""
    jobs = [{"id": job, "subtime": at, "res": 4, "walltime": 9, "profile": "d"} for job in ("a", "b")]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 5}}}
    (folder / f"{name}.json").write_text(json.dumps(content))
    args = ("--procs", "4", "-w", f"{name}.json", "--policy", "easy", "-e", name, "--journal", f"{name}.pbj", "-q")
    assert run_cli("simulate", *args, cwd=folder).returncode == 0
    return str(folder / name)


def test_instants_of_a_log_are_told_to_the_tick(tmp_path: Path) -> None:
    """Logs count from 1970 on: with six digits, both starts would be 1e+09."""
    early, late = simulate(tmp_path, "early", 1e9 + 0.25), simulate(tmp_path, "late", 1e9 + 7.5)
    told = f"job w0!a started at 1000000007.5, but in {early} at 1000000000.25; expected the journal of this run"
    with pytest.raises(InputError) as caught:
        tales.tell(read_run(early), f"{late}.pbj")
    assert str(caught.value) == f"--journal {late}.pbj: {told}"
