"""A small demonstration: a generated week of jobs on the embedded simulator, under three policies.

    python examples/demo.py [--procs 128] [--load 0.8] [--seed 2026]

It writes to out/: the workload, the files and a journal of each run, and a page about all runs. Each run uses
``pybatsched simulate``, the page ``pybatsched report``.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
from pathlib import Path
from typing import Any

from pybatsched import cli
from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate.models import Recipe, generate
from pybatsched.workload.walltimes import Walltimes

OUT = Path("out")
POLICIES = ("fcfs", "easy", "conservative")


def main() -> int:
    """Generate, simulate, compare, and explain one job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--procs", type=int, default=128)
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=2026)
    args = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    recipe = Recipe(
        "lublin", args.procs, seed=args.seed, days=7, load=args.load, walltimes=Walltimes.parse("factor:2"), n_users=20
    )
    week = generate(recipe)
    batsim4.write(week, OUT / "demo_week.json")
    print(
        f"a week of {len(week.jobs):,} jobs on {args.procs} processors, "
        f"offered load {args.load:.0%} (out/demo_week.json)"
    )
    print(f"{'policy':<14}{'mean wait':>12}{'max wait':>12}{'mean b. slowdown':>18}{'utilisation':>13}{'makespan':>12}")
    inputs = ["--procs", str(args.procs), "-w", str(OUT / "demo_week.json")]
    for policy in POLICIES:
        prefix = f"{OUT}/demo_{policy}"
        files = ["-e", prefix, "--journal", f"{prefix}.pbj"]
        if code := cli.main(["simulate", *inputs, "--policy", policy, *files, "--quiet"]):
            return code
        summary = json.loads(Path(f"{prefix}_summary.json").read_text(encoding="utf-8"))
        print(row(policy, summary["figures"]))
    longest = longest_wait(OUT / "demo_conservative_jobs.csv")
    print(f"\nthe history of {longest}, the job with the longest wait under conservative:")
    for at, text in explain(JournalReader(str(OUT / "demo_conservative.pbj")), longest)[:8]:
        print(f"  {at:>12,.2f}  {text}")
    report()
    print("\nBatsim's outputs, summaries and journals are in out/; the same from the command line:")
    print(f"  pybatsched simulate --procs {args.procs} -w out/demo_week.json --policy easy -e out/easy")
    return 0


def report() -> None:
    """Write a page about the three runs and print its path. Without matplotlib, the command prints what to install."""
    runs = [f"{OUT}/demo_{policy}" for policy in POLICIES]
    labels = [f"--label={policy}" for policy in POLICIES]
    path = OUT / "demo.html"
    print()
    if cli.main(["report", *runs, *labels, "--output", str(path)]) == 0:
        print(f"a page about all three, to open in a browser: {path}")


def row(policy: str, figures: dict[str, Any]) -> str:
    """Return the line of a policy."""
    return (
        f"{policy:<14}{figures['mean_wait_s']:>10,.0f} s{figures['max_wait_s']:>10,.0f} s"
        f"{figures['mean_bounded_slowdown']:>18,.2f}{figures['utilisation']:>13.1%}{figures['makespan_s']:>10,.0f} s"
    )


def longest_wait(path: Path) -> str:
    """Return the id of the job with the longest wait."""
    with path.open(encoding="utf-8") as file:
        job = max(csv.DictReader(file), key=lambda job: float(job["waiting_time"] or 0))
    return f"{job['workload_name']}!{job['job_id']}"


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly: exit code 141 in a shell
    raise SystemExit(main())
