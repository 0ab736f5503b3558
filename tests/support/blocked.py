"""A run with a reservation of a host and with hosts that are down, for charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.process import run_cli

DOWN, UP = "machine_unavailable", "machine_available"
#: Two hosts fail at 10 and return at 20 and 30, one of them fails again for a moment, and one never returns.
EVENTS = [(10, DOWN, "1-2"), (20, UP, "1"), (30, UP, "2"), (70, DOWN, "1"), (70.05, UP, "1"), (80, DOWN, "3")]
RESERVATION = '[[reservation]]\nname = "m"\nstart = 40\nduration = 20\nhosts = "3"\n'


def simulated(folder: Path, *more: str) -> dict[str, Any]:
    """Simulate a on 0 from 0 to 100, and b on 1 and 3 from 20 to 40. Write files with the prefix `blocked`.

    Return the summary.
    """
    jobs = [
        {"id": "a", "subtime": 0, "res": 1, "profile": "d100", "walltime": 110},
        {"id": "b", "subtime": 15, "res": 2, "profile": "d20", "walltime": 21, "estimate": 20},
    ]
    profiles = {f"d{s}": {"type": "delay", "delay": s} for s in (20, 100)}
    (folder / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    lines = [json.dumps({"type": kind, "timestamp": at, "resources": procs}) for at, kind, procs in EVENTS]
    (folder / "events.txt").write_text("\n".join(lines) + "\n")
    (folder / "r.toml").write_text(RESERVATION)
    args = ("--procs", "4", "-w", "w.json", "--policy", "fcfs", "--events", "events.txt", "-e", "blocked", *more)
    done = run_cli("simulate", *args, cwd=folder)
    assert done.returncode in {0, 5}, done.stderr
    summary: dict[str, Any] = json.loads((folder / "blocked_summary.json").read_text())
    return summary
