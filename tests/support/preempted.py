"""A run in which an urgent job preempts a regular one, and another job waits; for tests of reports."""

from __future__ import annotations

import json
from pathlib import Path

from support.process import run_cli

#: Name, submission, processors, seconds; those with a U are urgent.
JOBS = (("R1", 0, 6, 100), ("R2", 1, 8, 50), ("R3", 2, 1, 200), ("U", 10, 7, 60), ("U2", 20, 4, 30))


def simulated(folder: Path, *options: str) -> Path:
    """Run UJFB on eight processors. Return the prefix of its files."""
    jobs = [
        {"id": name, "subtime": at, "res": n, "walltime": s + 1, "estimate": s, "profile": name}
        | ({"urgent": True} if "U" in name else {})
        for name, at, n, s in JOBS
    ]
    profiles = {name: {"type": "delay", "delay": s} for name, _, _, s in JOBS}
    (folder / "urgent.json").write_text(json.dumps({"nb_res": 8, "jobs": jobs, "profiles": profiles}))
    given = [text for option in options for text in ("-o", option)]
    args = ("--procs", "8", "-w", "urgent.json", "--policy", "ujfb", *given, "-e", "ujfb")
    done = run_cli("simulate", *args, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "ujfb"


#: Options by which a swap takes ten seconds either way, to be seen in a chart.
SWAPS = ("swap=fixed", "swap_out=10", "swap_in=10")
