"""The time of decisions per message under the published policies.

    python benchmarks/decisions.py [--quick] [--traces DIR]

Each case is simulated in this process, and every call of the engine (events in, checked decisions out) is timed with
the wall clock. Prints the CPU time of the run and percentiles over the messages in which jobs arrive, together with
those of the basic policies on the same jobs. Prints tables without a verdict. Without the traces it uses random jobs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine
from pybatsched.machines import names
from pybatsched.platform.model import Platform, uniform
from pybatsched.policies import registry
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import JobFiles
from pybatsched.simulator.run import with_needs
from pybatsched.simulator.simulation import SimulatedRun
from pybatsched.text_table import aligned
from pybatsched.workload import Workload
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.generate.models import Recipe, generate
from pybatsched.workload.inject.deadlines import every, with_deadlines
from pybatsched.workload.inject.steps import Moldable, Urgent
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.swf import read_swf
from pybatsched.workload.merge import ClusterLog, merged
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes
from pybatsched.workload.weeks import busy_weeks, weeks_of, workloads_of
from pybatsched_studies.locality import rackham

ROOT = Path(__file__).parents[1]
DAY_S = 86_400.0
HEAD = ("case", "policy", "jobs", "CPU s", "jobs/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms")


def timed(workload: Workload, platform: Platform, policy: str, **options: Any) -> tuple[float, list[float]]:
    """Simulate; return the CPU time, and the sorted times of the messages with arrivals."""
    plan = registry.PolicyPlan(registry.find(policy), options)
    engine = Engine(plan.make, policy)
    spans: list[float] = []

    def step(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        begun = time.perf_counter()
        reply = engine.step(now, events)
        if any(type(event) is e.JobSubmitted for event in events):
            spans.append(time.perf_counter() - begun)
        return reply

    scenario = Scenario(platform, {"w0": workload}, with_needs(SimulationOptions(), plan))
    with tempfile.TemporaryDirectory() as scratch:
        begun = time.process_time()
        SimulatedRun(scenario, step, [JobFiles(f"{scratch}/run")]).run()
        return time.process_time() - begun, sorted(spans)


def row(case: str, workload: Workload, on: int | Platform, policy: str, **options: Any) -> tuple[str, ...]:
    """Run a case on a platform, or on `on` equal processors, and return its line of the table."""
    cpu_s, spans = timed(workload, uniform(on) if isinstance(on, int) else on, policy, **options)
    marks = [spans[min(int(len(spans) * share), len(spans) - 1)] for share in (0.5, 0.99, 0.999, 1.0)]
    n_jobs = len(workload.jobs)
    shown = " ".join([policy, *(f"{key}={value}" for key, value in options.items())])
    times = [f"{1000 * span:.2f}" for span in marks]
    return (case, shown, f"{n_jobs:,}", f"{cpu_s:.1f}", f"{n_jobs / cpu_s:,.0f}", *times)


def deadlines(workload: Workload, least_s: float) -> Workload:
    """Give every third job a deadline."""
    return with_deadlines(workload, every(len(workload.jobs), 3, 2), least_s=least_s, factor=2.0)


def urgent_rows(traces: Path) -> list[tuple[str, ...]]:
    """Run the cases with urgent jobs, and conservative backfilling on the same jobs."""
    rows = []
    uniform_swaps = {"swap": "uniform"}
    monthly = Urgent(every_s=30 * DAY_S, busy=0.75)
    for name, file, n_procs, step, n_jobs in (
        ("SX-ACE, 10,000 jobs", "SX-ACE-2019.swf.gz", 1280, monthly, 10_000),
        ("SX-ACE", "SX-ACE-2019.swf.gz", 1280, monthly, None),
        ("DWD", "DWD-SXO-2020-urgentq.swf.gz", 1024, Urgent(queues=("sx_rout",)), None),
    ):
        if (traces / file).exists():
            options = LogOptions(Walltimes.parse("exact"), n_procs=n_procs)
            log = to_workload(read_swf(traces / file), options, Selection(max_jobs=n_jobs))[0]
            jobs = step.applied(log, seed=1)
            rows.append(row(name, jobs, n_procs, "conservative"))
            rows.append(row(name, jobs, n_procs, "ujfb", **uniform_swaps))
    return rows


def locality_rows(traces: Path) -> list[tuple[str, ...]]:
    """Run the day of the locality study, by the published program and by the policy."""
    file = traces / "rackham" / "rackham-2022-09-10_V10000_anonymous.txt.gz"
    if not file.exists():
        return []
    jobs = rackham.read(file)
    platform = names.find("rackham-128gb").read()
    return [
        row("Rackham, 2022-09-10", jobs, platform, policy, score=score)
        for policy in ("published_locality", "locality")
        for score in ("fcfs", "eft", "lea", "leo", "lem")
    ]


def grid_rows(traces: Path) -> list[tuple[str, ...]]:
    """Run months of the reallocation study, and all six months in one run."""
    logs = {"hpc2n": "HPC2N-2002-2.2", "ctc": "CTC-SP2-1996-3.1", "sdsc": "SDSC-SP2-1998-4.2"}
    files = {name: traces / f"{log}-cln.swf.gz" for name, log in logs.items()}
    if not all(file.exists() for file in files.values()):
        return []
    platform, rows = names.find("grid-pwa").read(), []
    for case, first, last in (("month 1", 0, 30), ("month 3", 60, 90), ("six months", 0, 182)):
        window = Selection(from_at=first * DAY_S, to_at=last * DAY_S, clock="first")
        options = LogOptions(Walltimes.parse("requested"))
        parts = [ClusterLog(name, to_workload(read_swf(file), options, window)[0]) for name, file in files.items()]
        jobs = Moldable().applied(merged(parts), 1)
        for algorithm, heuristic in (
            ("regular", "mct"),
            ("all_cancellation", "mct"),
            ("regular", "minmin"),
            ("all_cancellation", "minmin"),
        ):
            rows.append(row(case, jobs, platform, "reallocation", algorithm=algorithm, heuristic=heuristic))
    return rows


def main() -> None:
    """Run all cases whose inputs exist."""
    parser = argparse.ArgumentParser(description="The time of decisions per message.")
    parser.add_argument("--quick", action="store_true", help="random jobs only")
    parser.add_argument("--traces", default=os.environ.get("PYBATSCHED_TRACES", ROOT.parent / "shared" / "traces"))
    args = parser.parse_args()
    rows: list[tuple[str, ...]] = [HEAD]
    jobs_256 = generate(Recipe("lublin", 256, seed=1, n_jobs=5_000, load=0.9))
    for case, workload, policy in (
        ("random", jobs_256, "conservative"),
        ("random, 24 h", deadlines(jobs_256, DAY_S), "dbf"),
        ("random, 72 h", deadlines(jobs_256, 3 * DAY_S), "dbf"),
        ("random", jobs_256, "easy"),
        ("random", jobs_256, "redirection"),
        ("random, urgent", Urgent(every_s=DAY_S, kinds=((64, 600.0),)).applied(jobs_256, seed=1), "ujfb"),
    ):
        rows.append(row(case, workload, 302 if policy in {"easy", "redirection"} else 256, policy))
    exact = LogOptions(Walltimes.parse("exact"))
    blue = Path(args.traces) / "SDSC-BLUE-2000-4.2-cln.swf.gz"
    if blue.exists() and not args.quick:
        jobs = to_workload(read_swf(blue), exact, Selection())[0]
        rows.append(row("SDSC-BLUE", jobs, 1152, "conservative"))
        for name, least_s in (("24 h", DAY_S), ("72 h", 3 * DAY_S)):
            rows.append(row(f"SDSC-BLUE, {name}", deadlines(jobs, least_s), 1152, "dbf"))
    curie = Path(args.traces) / "CEA-Curie-2011-2.1-cln.swf.gz"
    if curie.exists() and not args.quick:
        log = read_swf(curie)
        weeks = busy_weeks(weeks_of(log, 93_312), 0.7)
        for week, jobs, _ in workloads_of(log, weeks, exact, Selection()):
            if week.number == 31:  # the week with most jobs
                rows.append(row("Curie, week 31", jobs, 109_779, "easy"))
                rows.append(row("Curie, week 31", jobs, 109_779, "redirection"))
    if not args.quick:
        rows += urgent_rows(Path(args.traces))
        rows += locality_rows(Path(args.traces))
        rows += grid_rows(Path(args.traces))
    print("\n".join(aligned(rows, "llrrrrrrr")))


if __name__ == "__main__":
    main()
