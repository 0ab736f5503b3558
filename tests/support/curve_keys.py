"""Conversations with keys: their first messages, and a simulation that uses them."""

from __future__ import annotations

from pathlib import Path

from pybatsched.live import keys
from support.places import ROOT
from support.process import run_cli
from support.recordings import recording

FIRST = recording("plain").requests[0]
WORKLOAD = ("-w", str(ROOT / "examples" / "workload.json"), "--procs", "32")


def simulate(endpoint: str, *args: str, cwd: Path, export: str = "out") -> tuple[int, str]:
    """Simulate with the scheduler at an endpoint. Return the exit code and standard error."""
    done = run_cli("simulate", *WORKLOAD, "--external", "-s", endpoint, "-e", export, "-q", *args, cwd=cwd)
    return done.returncode, done.stderr


def schedule(folder: Path, name: str) -> str:
    """Return the table of jobs that a simulation wrote."""
    return (folder / f"{name}_jobs.csv").read_text()


def keys_made_in(folder: Path) -> Path:
    """Make keys in a subdirectory. Return the subdirectory."""
    keys.make(folder / "keys")
    return folder / "keys"


def schedule_without_keys(folder: Path) -> str:
    """Return the schedule of a simulation with a policy in its process, without keys."""
    assert run_cli("simulate", *WORKLOAD, "--policy", "easy", "-e", "out", "-q", cwd=folder).returncode == 0
    return schedule(folder, "out")
