"""Simulate the workloads of recorded runs of a real Slurm with policy `slurm`, and compare their figures.

    python benchmarks/slurm_free_runs.py [--seeds N] [-o NAME=VALUE] DIR...

Each directory is as for `slurm_decisions.py`. Its workload is what was submitted, with the measured times of the
commands. A job runs as long as its `sleep` and 0.12 s more, or 1.17 s as one of four in the recordings, or up to its
time limit. These and the phases of the clocks are random, by the seed. Waits are from the submission to the first
start of a job or task. Jobs that were cancelled while they waited are left out; those cancelled later run as long.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from slurm_decisions import tasks_of

from pybatsched import read_workload, simulate
from pybatsched.core.node_lists import nodes_in
from pybatsched.machines.slurm_conf import SlurmConf, read_slurm_conf

#: What a job takes besides its `sleep`, in seconds, and how many take longer: measured in all recordings.
START_UP_S, SLOW_START_UP_S, SLOW_PART = 0.12, 1.17, 0.24


class Figures(NamedTuple):
    """What is compared of a run. Times are seconds, the makespan since T0 of the recording."""

    mean_wait_s: float
    makespan_s: float
    by_backfill: float
    n_starts: float


class Recorded:
    """A recorded run: its workload and its figures."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf: SlurmConf = read_slurm_conf(folder / "slurm.conf")
        self.t0 = float(json.loads((folder / "meta.json").read_text())["t0_epoch"])
        self._events = list(self._rows("events.csv.gz"))
        self._names_qos = any("--qos=" in row["args"] for row in self._rows("submit.csv"))

    def _rows(self, name: str) -> Iterator[dict[str, str]]:
        path = self.folder / name
        with gzip.open(path, "rt") if name.endswith(".gz") else path.open() as file:
            yield from csv.DictReader(file)

    def workload(self, seed: int) -> dict[str, Any]:
        """Return the workload as a Batsim file holds it, with start-up times that depend on a seed."""
        dice = Random(seed)
        submitted = {row["job"]: float(row["t"]) for row in self._events if row["event"] == "submit"}
        ran = self._ran_until_cancelled()
        jobs, profiles = [], {}
        for row in self._rows("workload.csv"):
            name = f"j{row['idx']}"
            if name not in submitted or (row["cancel_at"] and name not in ran):
                continue
            job, (tasks, limit) = self._job(row, submitted[name]), tasks_of(row["array"] or None)
            if tasks:
                job |= {"array": name} | ({"array_limit": limit} if limit else {})
            for own_id in [f"{name}_{task}" for task in tasks] or [name]:
                start_up_s = SLOW_START_UP_S if dice.random() < SLOW_PART else START_UP_S
                run_s = ran.get(name, float(row["sleep"]) + start_up_s)
                profiles[f"d{run_s:g}"] = {"type": "delay", "delay": run_s}
                jobs.append(job | {"id": own_id, "profile": f"d{run_s:g}"})
        return {"nb_res": self.conf.n_cpus, "jobs": jobs, "profiles": profiles}

    def _ran_until_cancelled(self) -> dict[str, float]:
        """Return how long the jobs ran that users cancelled while they ran."""
        cancelled = {row["idx"]: row for row in self._rows("workload.csv") if row["cancel_at"]}
        starts = {row["job"]: float(row["t"]) for row in self._events if row["event"] == "start"}
        found = {}
        for row in self._rows("submit.csv"):
            name = f"j{row['idx']}"
            if row["idx"] in cancelled and row["args"].startswith("SCANCEL") and name in starts:
                found[name] = max(float(row["t_call"]) - self.t0 - starts[name], 0.001)
        return found

    def _job(self, row: Mapping[str, str], submitted_at: float) -> dict[str, Any]:
        partition = self.conf.partitions[row["partition"]]
        n_nodes, per_node = int(row["nodes"] or 1), int(row["tasks_per_node"] or 0)
        n_tasks = int(row["ntasks"] or 0) or n_nodes * max(per_node, 1)
        per_task = int(row["cpus_per_task"] or 1)
        job: dict[str, Any] = {name: row[name] for name in ("user", "account", "partition")}
        if self._names_qos:
            job["qos"] = row["qos"]
        if row["nodes"]:
            job["n_nodes"] = n_nodes
        if self.conf.select == "linear" or row["exclusive"]:  # whole nodes, with all their processors
            job["exclusive"] = True
        if self.conf.select == "linear":
            n_tasks = n_nodes * self.conf.nodes[partition.nodes[0]].n_cpus
        if per_node or per_task > 1:
            job["cores_per_node"] = max(per_node, 1) * per_task
        optional = {
            "memory_gb": int(row["mem_per_cpu"] or 0) / 1024,
            "node_memory_gb": int(row["mem_per_node"] or 0) / 1024,
            "gpus_per_node": int(row["gpus_per_node"] or 0),
            "nice": int(row["nice"] or 0),
            "reservation": row["reservation"],
        }
        job |= {name: value for name, value in optional.items() if value}
        if row["dep"]:
            kind, _, others = row["dep"].partition(":")
            job["depends_on"] = f"{kind}:{':'.join(f'j{one}' for one in others.split(':'))}"
        if row["begin"]:
            job["eligible_at"] = submitted_at + int(row["begin"])
        limit_s = int(row["limit_min"]) * 60
        return job | {
            "res": n_tasks * per_task,
            "subtime": submitted_at,
            "estimate": limit_s,
            "walltime": limit_s + 60,  # the policy kills before
        }

    def reservations(self) -> list[dict[str, Any]]:
        """Return the reservations that were created."""
        found = []
        for row in self._rows("submit.csv"):
            if row["args"].startswith("RESV") and "created" in row["args"]:
                words = dict(part.split("=", 1) for part in row["args"].split() if "=" in part)
                start = float(words["start_offset"])
                found.append(
                    {
                        "name": row["args"].rsplit(" ", 1)[1],
                        "start": start,
                        "duration": float(words["duration"]),
                        "hosts": self._procs(words["nodes"]),
                        "users": words["users"].split(","),
                        "conflict": "wait",
                        "notice": start - (float(row["t_return"]) - self.t0),
                    }
                )
        return found

    def _procs(self, names: str) -> str:
        """Return the processors of nodes, such as ``0-7 16-23``."""
        wanted, parts, first = set(nodes_in(names)), [], 0
        for node in self.conf.nodes:
            if node.name in wanted:
                parts.append(f"{first}-{first + node.n_cpus - 1}")
            first += node.n_cpus
        return " ".join(parts)

    def figures(self) -> Figures:
        """Return the figures of the recorded run."""
        submitted = {row["job"]: float(row["t"]) for row in self._events if row["event"] == "submit"}
        starts = {row["job"]: float(row["t"]) for row in reversed(self._events) if row["event"] == "start"}
        ways = [row["info"].split()[0] for row in self._events if row["event"] == "start"]
        ends = [float(row["t"]) for row in self._events if row["event"] in {"end", "timelimit"}]
        waits = [at - submitted[name.partition("_")[0]] for name, at in starts.items()]
        return Figures(fmean(waits), max(ends), ways.count("backfill") / len(ways), len(ways))


def simulated(recorded: Recorded, seed: int, options: Mapping[str, Any]) -> Figures:
    """Simulate the workload of a recording, with phases of the clocks that depend on a seed."""
    folder = recorded.folder
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "w.json"
        file.write_text(json.dumps(recorded.workload(seed)))
        run = simulate(
            read_workload(file),
            "slurm",
            slurm_conf=str(folder / "slurm.conf"),
            associations=str(folder / "sacctmgr_dump.cfg"),
            qos=str(folder / "qos.psv"),
            host_reservations=recorded.reservations() or None,
            seed=seed,
            progress=False,
            **options,
        )
    jobs, figures = run.jobs, run.figures
    by_backfill, by_main = figures["n_started_by_backfill"] or 0, figures["n_started_by_main"] or 0
    return Figures(
        jobs["queue_time_s"].mean(),
        jobs["ended_at"].max(),
        by_backfill / (by_main + by_backfill),
        by_main + by_backfill,
    )


#: Figures of repeated runs of the same workload on a real Slurm: the lowest and highest mean wait and makespan.
REPEATS = {
    "s1_whole_nodes": (313, 371, 1819, 1880),
    "s2_fifo_backfill": (294, 354, 1830, 1914),
    "s3_cores_mem_gpu": (125, 141, 1792, 1872),
    "s4_qos_preempt": (111, 114, 2018, 2087),
}


def main() -> int:
    """Compare the recordings that are named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path)
    parser.add_argument("--seeds", metavar="N", type=int, default=10, help="runs of each recording (default: 10)")
    parser.add_argument("-o", dest="options", metavar="NAME=VALUE", action="append", default=[])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    options = dict(one.split("=", 1) for one in args.options)
    for folder in args.folders:
        recorded = Recorded(folder)
        runs = [simulated(recorded, seed, options) for seed in range(args.seeds)]
        print(f"{folder}")
        for name, real, *ours in zip(Figures._fields, recorded.figures(), *runs, strict=True):
            digits = 3 if name == "by_backfill" else 0
            spread = f"{fmean(ours):.{digits}f} ({min(ours):.{digits}f} to {max(ours):.{digits}f})"
            print(f"  {name:<12} recorded {real:8.{digits}f}   simulated {spread}", flush=True)
        repeats = REPEATS.get(folder.parent.name)
        if repeats:
            print("  repeats: mean wait {} to {} s, makespan {} to {} s".format(*repeats))
    return 0


if __name__ == "__main__":
    sys.exit(main())
