"""A run on two nodes in which jobs load files, wait for loads, or reuse files; for tests of reports."""

from __future__ import annotations

import json
from pathlib import Path

from support.process import run_cli

#: A name that would do harm if it were taken for HTML.
GENOME = "genome <b onclick=x>1</b>"
#: Name, submission, cores, walltime, seconds, file and its size in GB.
JOBS = (
    ("a", 0, 8, 400, 200, GENOME, 6),  # loads for 60 s
    ("b", 20, 8, 400, 200, GENOME, 6),  # starts at the next pass, at 30, and waits for the rest of it
    ("c", 130, 4, 400, 200, GENOME, 6),  # finds it
    ("d", 130, 20, 100, 200, "other", 12),  # would load for 120 s, and is killed at its walltime
)


def simulated(folder: Path) -> Path:
    """Run locality on two nodes of 20 cores. Return the prefix of its files."""
    jobs = [
        {"id": name, "subtime": at, "res": n, "walltime": most, "profile": str(s)}
        | {"input_file": file, "input_size_gb": size}
        for name, at, n, most, s, file, size in JOBS
    ]
    profiles = {str(s): {"type": "delay", "delay": s} for _, _, _, _, s, _, _ in JOBS}
    (folder / "files.json").write_text(json.dumps({"nb_res": 40, "jobs": jobs, "profiles": profiles}))
    machine = ("platform", "generate", "rackham-128gb", "--scale", "0.004", "--output", "two.xml")
    run = ("simulate", "-p", "two.xml", "-w", "files.json", "--policy", "locality", "-e", "loads")
    for args in (machine, run):
        done = run_cli(*args, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder / "loads"
