"""The CPU time that each part in C saves alone in whole runs of real logs.

    make compiled && python benchmarks/c_parts.py [--jobs N] [--rounds N] [--traces DIR]

Each part is left alone in a copy of build/compiled. All copies run in turn, and the lowest CPU time of each counts.
Prints the time of pure Python, and the percentage of it that each part saves.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pybatsched.text_table import aligned

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("PYBATSCHED_TRACES", ROOT.parent / "shared" / "traces"))
LOGS = ("KTH-SP2-1996-2", "SDSC-BLUE-2000-4.2-cln", "CEA-Curie-2011-2.1-cln")


def cpu_s(build: Path, *command: object) -> float:
    """Run a command of pybatsched from this build; return its CPU time (user and system)."""
    program = [sys.executable, "-P", "-m", "pybatsched", *map(str, command)]
    before = os.times()
    done = subprocess.run(program, check=False, capture_output=True, env=os.environ | {"PYTHONPATH": str(build)})
    after = os.times()
    if done.returncode not in (0, 7):  # 7: jobs that outlive their estimates miss deadlines
        sys.exit(done.stderr.decode())
    return after.children_user + after.children_system - before.children_user - before.children_system


def builds(compiled: Path, scratch: Path) -> dict[str, Path]:
    """Copy the compiled build: without parts in C, and with each of them alone."""
    parts = sorted({file.name.split(".")[0] for file in compiled.rglob("*.so")})
    copies = {name: scratch / name for name in ("none", *parts)}
    for name, build in copies.items():
        shutil.copytree(compiled, build, ignore=shutil.ignore_patterns("__pycache__"))
        for file in build.rglob("*.so"):
            if file.name.split(".")[0] != name:
                file.unlink()
    return copies


def main() -> None:
    """Print a line for each log and policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--jobs", default="10000", help="the first N jobs of each log (default 10000)")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        copies = builds(ROOT / "build" / "compiled", scratch)
        best: dict[tuple[str, Path, str], dict[str, float]] = {}
        for log in LOGS:
            jobs, due = scratch / f"{log}.json", scratch / f"{log}-due.json"
            plain, trace = copies["none"], given.traces / f"{log}.swf.gz"
            cpu_s(plain, "workload", "convert", trace, jobs, "--max-jobs", given.jobs)
            cpu_s(plain, "workload", "inject", jobs, "deadlines", "--every", 3, "--least", "24h", "--output", due)
            best |= {(log, jobs, "easy"): {}, (log, jobs, "conservative"): {}, (log, due, "dbf"): {}}
        for _ in range(given.rounds):
            for (_, file, policy), times in best.items():
                for name, build in copies.items():
                    spent = cpu_s(build, "simulate", "-w", file, "--policy", policy, "-e", scratch / "run")
                    times[name] = min(spent, times.get(name, spent))
    rows = [("log", "policy", *copies)]
    for (log, _, policy), times in best.items():
        none = times.pop("none")
        rows.append((log, policy, f"{none:.2f} s", *(f"{100 - 100 * spent / none:.0f} %" for spent in times.values())))
    print(*aligned(rows), sep="\n")


if __name__ == "__main__":
    main()
