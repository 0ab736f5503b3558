"""Jobs per second of whole simulations with the embedded simulator, compared with a minimal loop.

    python benchmarks/simulations.py [--quick] [--traces DIR]

Each case runs in a separate process, which reports its peak memory, and the CPU and wall time of the simulation with
outputs, without start-up (imports, reading inputs). The lean loop is EASY on counts in one function: no messages, no
checks, no processor sets, no files. It shows the limit of CPython on this machine. Prints tables without a verdict.
Traces are read from --traces, PYBATSCHED_TRACES or ../shared/traces.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pybatsched.machines import names
from pybatsched.platform.model import uniform
from pybatsched.policies import registry
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import batsim_files
from pybatsched.simulator.run import run_policy, with_needs
from pybatsched.workload import Workload, load
from pybatsched.workload.generate.models import Recipe, generate

ROOT = Path(__file__).parents[1]
N_PROCS = 1024
#: Policy, nodes and jobs of each case on nodes.
NODE_CASES = (
    ("easy", 100, 10_000),
    ("easy", 1000, 10_000),
    ("easy", 1000, 100_000),
    ("conservative", 100, 10_000),
    ("conservative", 1000, 10_000),
    ("conservative", 1000, 100_000),
)
#: The cluster of the cases with policy slurm.
SLURM_CONF = """ClusterName=bench
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
AccountingStorageEnforce=associations
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityMaxAge=7-0
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightJobSize=1000
SchedulerType=sched/backfill
SchedulerParameters=bf_window=2880,bf_resolution=300,bf_max_job_test=500,bf_continue
NodeName=n[1-{n_nodes}] CPUs=64 RealMemory=262144 Gres=gpu:4
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def generated(n_jobs: int) -> Workload:
    """Return jobs with exponential run times and sizes of powers of two, at load 0.9."""
    return generate(Recipe("poisson", N_PROCS, seed=1, n_jobs=n_jobs, load=0.9))


def with_long_queue(workload: Workload, n_waiting: int) -> Workload:
    """Return jobs of which the first `n_waiting` are submitted at once: at load 1, about so many wait at any time."""
    later_by_s = workload.jobs[n_waiting]["subtime"]
    for index, job in enumerate(workload.jobs):
        job["subtime"] = 0 if index < n_waiting else job["subtime"] - later_by_s
    return workload


def on_nodes(n_jobs: int, n_nodes: int) -> Workload:
    """Return jobs that request memory, GPUs or whole nodes of 64 cores, 256 GB and 4 GPUs, at load 0.9."""
    dice = random.Random(1)
    jobs: list[dict[str, Any]] = []
    profiles, area = {}, 0.0
    for index in range(n_jobs):
        kind, run_s = dice.random(), round(dice.expovariate(1 / 3600)) + 1
        job: dict[str, Any] = {"id": str(index), "res": dice.choice([1, 2, 4, 8, 16, 32, 64])}
        if kind < 0.4:
            job["memory_gb"] = dice.choice([1, 2, 4, 8])
        elif kind < 0.6:
            job |= {"res": min(job["res"], 16), "n_nodes": 1, "gpus_per_node": dice.choice([1, 2, 4]), "memory_gb": 2}
        elif kind < 0.8:
            n = dice.choice([1, 2, 4, 8])
            job |= {"res": 16 * n, "n_nodes": n, "cores_per_node": 16, "memory_gb": 2}
        elif kind < 0.9:
            n = dice.choice([1, 2, 4])
            job |= {"res": 64 * n, "n_nodes": n, "exclusive": True}
        job |= {"profile": f"d{run_s}", "walltime": run_s * dice.choice([1, 2, 3, 5]) + 1}
        profiles[f"d{run_s}"] = {"type": "delay", "delay": run_s}
        area += job["res"] * run_s
        jobs.append(job)
    at, gap_s = 0.0, area / (0.9 * 64 * n_nodes) / n_jobs
    for job in jobs:
        at += dice.expovariate(1 / gap_s)
        job["subtime"] = round(at, 3)
    return Workload(jobs, profiles, 64 * n_nodes)


def of_slurm(n_jobs: int, n_nodes: int, folder: Path) -> tuple[Workload, dict[str, Any]]:
    """Return jobs of 200 users on nodes, and the options of policy slurm with files that this writes to a folder."""
    workload, dice = on_nodes(n_jobs, n_nodes), random.Random(2)
    for job in workload.jobs:
        user = min(int(dice.expovariate(0.02)), 199)
        job |= {"user": f"u{user}", "account": f"a{user % 20}"}
        if not job.get("exclusive") and "memory_gb" not in job:
            job["memory_gb"] = 2
    (folder / "slurm.conf").write_text(SLURM_CONF.format(n_nodes=n_nodes))
    accounts = [f"a{number}" for number in range(20)]
    lines = ["Cluster - 'bench'", "Parent - 'root'", *(f"Account - '{one}':Fairshare=10" for one in accounts)]
    for one in accounts:
        lines.append(f"Parent - '{one}'")
        lines += [
            f"User - 'u{user}':DefaultAccount='{one}':Fairshare=1" for user in range(200) if f"a{user % 20}" == one
        ]
    (folder / "dump.cfg").write_text("\n".join(lines) + "\n")
    return workload, {"slurm_conf": str(folder / "slurm.conf"), "associations": str(folder / "dump.cfg")}


def lean_easy(workload: Workload, n_procs: int) -> float:
    """Simulate EASY on counts with minimal code; return the mean wait."""
    jobs = sorted(
        (job["subtime"], index, job["res"], workload.profiles[job["profile"]]["delay"])
        for index, job in enumerate(workload.jobs)
    )
    running: list[tuple[float, int]] = []
    queue: list[tuple[float, int, int, float]] = []
    free, i, waited = n_procs, 0, 0.0
    while i < len(jobs) or queue:
        now = min(jobs[i][0] if i < len(jobs) else float("inf"), running[0][0] if running else float("inf"))
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[1]
        while i < len(jobs) and jobs[i][0] <= now:
            queue.append(jobs[i])
            i += 1
        while queue and queue[0][2] <= free:
            at, _, n, run = queue.pop(0)
            free -= n
            waited += now - at
            heapq.heappush(running, (now + run, n))
        if queue and free:
            extra, shadow = free, now
            for end, n in sorted(running):
                extra += n
                shadow = end
                if extra >= queue[0][2]:
                    break
            extra -= queue[0][2]
            kept = [queue[0]]
            for job in queue[1:]:
                at, _, n, run = job
                if n <= free and (now + run <= shadow or n <= extra):
                    if now + run > shadow:
                        extra -= n
                    free -= n
                    waited += now - at
                    heapq.heappush(running, (now + run, n))
                else:
                    kept.append(job)
            queue = kept
    return waited / len(jobs)


def case(what: dict[str, Any]) -> dict[str, Any]:
    """Run one case in this process."""
    n_procs = what.get("n_procs", N_PROCS)
    if "trace" in what:
        workload = load(what["trace"], walltimes=what["walltimes"])
    elif "n_waiting" in what and "n_nodes" not in what:
        recipe = Recipe("poisson", n_procs, seed=1, n_jobs=what["n_jobs"], load=1.0)
        workload = with_long_queue(generate(recipe), what["n_waiting"])
    elif "n_nodes" in what:
        workload = on_nodes(what["n_jobs"], what["n_nodes"])
    else:
        workload = generated(what["n_jobs"])
    with tempfile.TemporaryDirectory() as directory:
        options = what.get("options", {})
        if what["policy"] == "slurm":
            workload, options = of_slurm(what["n_jobs"], what["n_nodes"], Path(directory))
            workload = with_long_queue(workload, what["n_waiting"]) if "n_waiting" in what else workload
        n_waiting = 0.0
        cpu, wall = time.process_time(), time.perf_counter()
        if what["policy"] == "lean loop":
            mean_wait = lean_easy(workload, n_procs)
        else:
            plan = registry.PolicyPlan(registry.find(what["policy"]), options)
            outputs = batsim_files(str(Path(directory) / "out"))
            platform = uniform(n_procs)
            if what["policy"] == "slurm":
                platform = names.find(options["slurm_conf"]).read()
            elif "n_nodes" in what:
                platform = names.of_nodes(f"{what['n_nodes']} x 64 cores 256 GB 4 gpus").read()
            cpu, wall = time.process_time(), time.perf_counter()
            settings = with_needs(SimulationOptions(), plan)
            result = run_policy(Scenario(platform, {"w0": workload}, settings), plan, outputs)
            mean_wait = result.figures.mean_wait_s or 0.0
            n_waiting = mean_wait * len(workload.jobs) / (result.figures.makespan_s or 1)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"n_jobs": len(workload.jobs), "cpu_s": cpu, "wall_s": wall, "peak_mb": peak}
    return {**found, "mean_wait_s": mean_wait, "mean_waiting": n_waiting}


def measured(**what: Any) -> dict[str, Any]:
    """Run one case in a separate process."""
    command = [sys.executable, __file__, "--case", json.dumps(what)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def show(name: str, row: dict[str, Any], floor: dict[str, Any] | None = None) -> None:
    rate = row["n_jobs"] / row["cpu_s"]
    ratio = f"{row['cpu_s'] / row['n_jobs'] * floor['n_jobs'] / floor['cpu_s']:8.2f}x" if floor else " " * 9
    print(
        f"{name:<34}{row['n_jobs']:>9,}{row['cpu_s']:>9.2f} s{row['wall_s']:>9.2f} s{rate:>12,.0f}/s{ratio}"
        f"{row['peak_mb']:>9,.0f} MB{row['mean_wait_s']:>14,.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="generated jobs only, up to 30,000")
    parser.add_argument("--traces", default=os.environ.get("PYBATSCHED_TRACES", ROOT.parent / "shared" / "traces"))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(case(json.loads(args.case))))
        return
    head = f"{'':<34}{'jobs':>9}{'CPU':>11}{'wall':>11}{'rate':>14}{'/ lean':>9}{'peak':>12}{'mean wait':>16}"
    print(f"generated jobs, {N_PROCS:,} processors, load 0.9\n{head}")
    floor = measured(policy="lean loop", n_jobs=10_000)
    show("lean loop (EASY on counts)", floor)
    for policy in ("fcfs", "easy", "conservative"):
        show(policy, measured(policy=policy, n_jobs=10_000), floor)
    for n_jobs in (30_000,) if args.quick else (30_000, 100_000, 300_000):
        show(f"easy, {n_jobs:,}", measured(policy="easy", n_jobs=n_jobs), floor)
    long_queue: dict[str, Any] = {"policy": "easy", "n_jobs": 6000, "n_waiting": 2000, "n_procs": 256}
    print("\nqueues of 2,000 jobs, 256 processors, load 1; the ratio is to easy\n" + head.replace("/ lean", "/ easy"))
    base = measured(**long_queue)
    show("easy", base)
    for order in ("wfp3", "unicep"):
        show(f"easy, order {order}", measured(options={"order": order}, **long_queue), base)
    title = "nodes of 64 cores, 256 GB and 4 GPUs, load 0.9; the ratio is to the first row"
    print(f"\n{title}\n{head.replace('/ lean', '/ 1st ')}")
    first = None
    for policy, n_nodes, n_jobs in NODE_CASES[: 2 if args.quick else None]:
        row = measured(policy=policy, n_nodes=n_nodes, n_jobs=n_jobs)
        first = first or row
        show(f"{policy}, {n_nodes:,} nodes", row, first)
    n_jobs = 10_000 if args.quick else 100_000
    show("slurm, 1,000 nodes, multifactor", measured(policy="slurm", n_nodes=1000, n_jobs=n_jobs), first)
    if args.quick:
        return
    print(f"\nreal logs, exact estimates\n{head}")
    for name, policy, n_procs in (
        ("CEA-Curie-2011-2.1-cln.swf.gz", "fcfs", 93_312),
        ("CEA-Curie-2011-2.1-cln.swf.gz", "easy", 93_312),
        ("SDSC-BLUE-2000-4.2-cln.swf.gz", "conservative", 1_152),
    ):
        trace = Path(args.traces) / name
        if trace.exists():
            row = measured(policy=policy, trace=str(trace), walltimes="exact", n_procs=n_procs)
            show(f"{name.partition('-2')[0]}, {policy}", row, floor)
        else:
            print(f"{name}: not in {args.traces}")
    show_predictions(Path(args.traces) / "SDSC-BLUE-2000-4.2-cln.swf.gz", head)


def show_predictions(trace: Path, head: str) -> None:
    """Compare EASY with requested times and EASY-SJBF with predicted ones. The ratio is to the first row."""
    if not trace.exists():
        return
    print(f"\nSDSC-BLUE, requested times, / easy instead of / lean\n{head}")
    given = {"policy": "easy", "trace": str(trace), "walltimes": "requested", "n_procs": 1_152}
    first = measured(**given)
    show("easy", first, first)
    for correct in ("requested", "incremental"):
        options = {"backfill_order": "sjf", "predict": "last2", "correct": correct}
        show(f"SJBF, last2, {correct}", measured(**given, options=options), first)


if __name__ == "__main__":
    main()
