"""Steps per second of the learning environment, compared with batsim-py on the available simulators.

    python benchmarks/steps.py [--quick] [--python PYTHON]

A step is one choice of the rule "the first of the queue that fits, else nothing". All programs therefore find the same
schedule, as the mean wait shows. The environment computes observations and masks in each step; batsim-py does not.
batsim-py runs with PYTHON (default: build/foreign/bin/python) on a real Batsim, if it is on the PATH, and on
`pybatsched batsim`; missing programs are listed and left out. CPU time is that of all processes, with the start-up of
batsim-py and without Python's imports. The table shows the speed-up per job. For batsim-py every event counts as a
step. Prints a table without a verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from peer_programs import platform_xml

from pybatsched.gym import SchedulingEnv
from pybatsched.platform.model import uniform
from pybatsched.policies import registry
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.run import run_policy
from pybatsched.workload import Workload
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate.models import Recipe, generate

ROOT = Path(__file__).parents[1]
N_PROCS = 64
PATIENCE_S = 1800.0

_POWER = '<prop id="{name}_per_state" value="{watts}"/><prop id="{name}_off" value="5"/>'


def machine() -> str:
    """Return a platform with energy for any Batsim, with both spellings of wattages; batsim-py requires energy."""
    power = "".join(_POWER.format(name=name, watts="50:60:100") for name in ("watt", "wattage"))
    return platform_xml(N_PROCS, power)


def random_workload(n_jobs: int) -> Workload:
    """Return random jobs with times in whole seconds and walltimes that no job reaches."""
    workload = generate(Recipe("poisson", N_PROCS, seed=1, n_jobs=n_jobs, load=0.8))
    profiles = {}
    for job in workload.jobs:
        run_s = max(1, round(workload.profiles[job["profile"]]["delay"]))
        job |= {"subtime": round(job["subtime"]), "profile": str(run_s), "walltime": 2 * run_s, "estimate": 2 * run_s}
        profiles[str(run_s)] = {"type": "delay", "delay": run_s}
    return Workload(workload.jobs, profiles, N_PROCS, workload.source)


def environment(workload: Workload) -> dict[str, Any]:
    """Run the workload as one episode."""
    env = SchedulingEnv(workload, N_PROCS, window=64, reservations=False, reward="wait")
    cpu, wall = time.process_time(), time.perf_counter()
    _, info = env.reset()
    n_steps, is_over = 0, False
    while not is_over:
        _, _, is_over, _, info = env.step(int(np.argmax(info["action_mask"])))
        n_steps += 1
    figures = info["figures"]
    row = {"n_steps": n_steps, "n_jobs": figures["n_jobs"], "wait_s": figures["mean_wait_s"]}
    return row | {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}


def policy(workload: Workload) -> dict[str, Any]:
    """Run the same rule as a policy, without the environment."""
    given = {"agent": "pybatsched.gym:in_queue_order", "window": 64, "reservations": False}
    plan = registry.PolicyPlan(registry.find("rl"), given, trusted=True)
    cpu, wall = time.process_time(), time.perf_counter()
    result = run_policy(Scenario(uniform(N_PROCS), {"w0": workload}), plan)
    counts = {"n_steps": int(result.policy_figures["n_choices"]), "n_jobs": result.figures.n_jobs}
    row: dict[str, Any] = {**counts, "wait_s": result.figures.mean_wait_s or 0.0}
    return row | {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}


def batsim_py(python: str, folder: Path, batsim: str) -> dict[str, Any]:
    """Run batsim-py with the `batsim` of a directory first on the PATH; return the error if it fails."""
    place = dict(os.environ, PATH=f"{batsim}{os.pathsep}{os.environ['PATH']}", TMPDIR=str(folder))
    command = [python, str(Path(__file__).with_name("run_batsim_py.py")), "platform.xml", "workload.json"]
    done = subprocess.run(
        command, cwd=folder, env=place, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode:
        return {"why_not": (done.stderr.strip() or "it failed").splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def drop_in(folder: Path) -> str:
    """Create an executable `batsim` for `pybatsched batsim` in a separate directory."""
    place = folder / "drop-in"
    subprocess.run(
        [sys.executable, "-m", "pybatsched", "batsim", "--link", place], stdout=subprocess.DEVNULL, check=True
    )
    return str(place)


def show(name: str, row: dict[str, Any], first: dict[str, Any]) -> None:
    if "why_not" in row:
        print(f"{name:<36}{row['why_not']}", flush=True)
        return
    ratio = row["cpu_s"] / row["n_jobs"] * first["n_jobs"] / first["cpu_s"]
    print(
        f"{name:<36}{row['n_jobs']:>7,}{row['n_steps']:>9,}{row['cpu_s']:>9.2f} s{row['wall_s']:>9.2f} s"
        f"{row['n_steps'] / row['cpu_s']:>10,.0f}/s{row['n_jobs'] / row['cpu_s']:>10,.0f}/s{ratio:>8.1f}x"
        f"{row['wait_s']:>12,.2f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    parser.add_argument("--python", default=str(ROOT / "build" / "foreign" / "bin" / "python"))
    args = parser.parse_args()
    workload = random_workload(300 if args.quick else 3000)
    print(
        f"{'':<36}{'jobs':>7}{'steps':>9}{'CPU':>11}{'wall':>11}{'steps':>12}{'jobs':>12}{'a job':>9}{'mean wait':>14}"
    )
    environment(random_workload(50))  # warm-up: imports, and the caches of the interpreter
    first = environment(workload)
    show("pybatsched.gym", first, first)
    show("policy rl, embedded simulator", policy(workload), first)
    has_batsim_py = (
        shutil.which(args.python)
        and not subprocess.run([args.python, "-c", "import batsim_py"], capture_output=True, check=False).returncode
    )
    if not has_batsim_py:
        print(f"batsim-py: left out, it is not installed in {args.python}")
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "platform.xml").write_text(machine())
        batsim4.write(workload, folder / "workload.json")
        real = shutil.which("batsim")
        found = batsim_py(args.python, folder, str(Path(real).parent)) if real else {"why_not": "left out, no batsim"}
        show("batsim-py, batsim", found, first)
        show("batsim-py, pybatsched batsim", batsim_py(args.python, folder, drop_in(folder)), first)


if __name__ == "__main__":
    main()
