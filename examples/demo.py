"""The main job in miniature: a generated week of jobs on the embedded simulator, under three policies.

    python examples/demo.py [--procs 128] [--load 0.8] [--seed 2026]

Files go to out/: the workload, Batsim's outputs and a journal of each run, and a page about them.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from pybatsched.metrics import Figures
from pybatsched.metrics.runs import read_run
from pybatsched.platform.model import uniform
from pybatsched.policies import registry
from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs import Outputs
from pybatsched.simulator.run import run_policy
from pybatsched.workload import batsim_json
from pybatsched.workload.generate import Recipe, generate
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
    batsim_json.write(week, OUT / "demo_week.json")
    print(
        f"a week of {len(week.jobs):,} jobs on {args.procs} processors, "
        f"offered load {args.load:.0%} (out/demo_week.json)"
    )
    print(f"{'policy':<14}{'mean wait':>12}{'max wait':>12}{'mean b. slowdown':>18}{'utilisation':>13}{'makespan':>12}")
    for policy in POLICIES:
        journal = OUT / f"demo_{policy}.pbj"
        result = run_policy(
            Scenario(uniform(args.procs), {"w0": week}),
            registry.PolicyPlan(registry.find(policy)),
            Outputs(str(OUT / f"demo_{policy}")),
            journal=JournalWriter(str(journal)),
        )
        print(row(policy, result.figures))
    longest = longest_wait(OUT / "demo_conservative_jobs.csv")
    print(f"\nthe story of {longest} under conservative, the job that waited longest:")
    for at, text in explain(JournalReader(str(OUT / "demo_conservative.pbj")), longest)[:8]:
        print(f"  {at:>12,.2f}  {text}")
    report()
    print("\nBatsim's outputs and journals are in out/; the same from the command line:")
    print(f"  pybatsched simulate --procs {args.procs} -w out/demo_week.json --policy easy -e out/easy")
    return 0


def report() -> None:
    """Write a page about the three runs, if Bokeh is there, and say where it is."""
    try:
        from pybatsched.report import page, tales  # noqa: PLC0415  Bokeh is an extra
    except ImportError:
        print("\n(no page: pip install 'pybatsched[report]')")
        return
    runs = [read_run(str(OUT / f"demo_{policy}"), [str(OUT / "demo_week.json")]) for policy in POLICIES]
    told = [tales.tell(run) for run in runs]  # from out/demo_easy.pbj, …
    path = OUT / "demo.html"
    path.write_text(page.of_runs(runs, told), encoding="utf-8")
    print(f"\na page about all three, to open in a browser: {path}")


def row(policy: str, figures: Figures) -> str:
    """Write the line of a policy."""
    wait, longest = figures.mean_wait_s or 0.0, figures.max_wait_s or 0.0
    return (
        f"{policy:<14}{wait:>10,.0f} s{longest:>10,.0f} s{figures.mean_bounded_slowdown or 1.0:>18,.2f}"
        f"{figures.utilisation or 0.0:>13.1%}{figures.makespan_s or 0.0:>10,.0f} s"
    )


def longest_wait(path: Path) -> str:
    """Find the job that waited longest."""
    with path.open(encoding="utf-8") as file:
        job = max(csv.DictReader(file), key=lambda job: float(job["waiting_time"] or 0))
    return f"{job['workload_name']}!{job['job_id']}"


if __name__ == "__main__":
    raise SystemExit(main())
