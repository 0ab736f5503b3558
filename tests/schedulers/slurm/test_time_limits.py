"""Time limits: slurmctld kills at its checks, one each 30 s; with `exact=true` at the limit."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.places import GOLDEN

import pybatsched as pb
from pybatsched.machines.slurm_conf import Scheduling
from pybatsched.testing import FakeBatsim, Workload, run_policy
from pybatsched_schedulers.slurm.clocks import LATEST_KILL_S, Clocks

CONF = """\
ClusterName=small
SelectType=select/linear
NodeName=n[1-4] CPUs=1
PartitionName=batch Nodes=ALL Default=YES DefaultTime=2 MaxTime=10
PartitionName=open Nodes=ALL OverTimeLimit=1
"""
RECORDED = sorted((GOLDEN / "slurm").glob("s*/run_*"))


def run(tmp_path: Path, *jobs: dict[str, Any], conf: str = CONF, **options: Any) -> FakeBatsim:
    (tmp_path / "slurm.conf").write_text(conf)
    workload = Workload()
    for number, job in enumerate(jobs):
        workload.job(number, **{"n": 1, "s": 5_000, **job})
    path = str(tmp_path / "slurm.conf")
    return run_policy("slurm", workload, platform=path, slurm_conf=path, **options)


def ends(found: FakeBatsim) -> list[tuple[str, float]]:
    return [(job.final_state, round(job.ended_at or 0, 2)) for job in found.jobs.values()]


#: Fields of a job of 5,000 s, and when it is killed with exact=true. It starts at 0.
LIMITED = [
    ({"estimate": 90, "walltime": 1_000}, 90),
    ({"walltime": None}, 120),  # DefaultTime
    ({"estimate": 90, "walltime": 1_000, "time_limit": "Partition_Limit"}, 120),
    ({"estimate": 90, "walltime": 3_000, "time_limit": "UNLIMITED"}, 600),  # MaxTime
    ({"estimate": 90, "walltime": 1_000, "partition": "open"}, 150),  # OverTimeLimit
]


@pytest.mark.parametrize(("fields", "end_at"), LIMITED)
def test_a_job_is_killed_at_its_limit_or_at_the_next_check(tmp_path: Path, fields: Any, end_at: int) -> None:
    assert ends(run(tmp_path, fields, exact=True)) == [("COMPLETED_KILLED", end_at)]
    late = set()
    for seed in range(8):
        found = run(tmp_path, fields, seed=seed).jobs["w0!0"]
        assert found.final_state == "COMPLETED_KILLED"
        assert found.started_at is not None
        assert found.ended_at is not None
        late.add(found.ended_at - math.floor(found.started_at) - end_at)
    assert all(0 <= one < LATEST_KILL_S for one in late)
    assert max(late) - min(late) > 5


def test_jobs_are_killed_at_the_same_checks(tmp_path: Path) -> None:
    jobs = [{"estimate": 60 + 7 * i, "walltime": 1_000} for i in range(4)]
    found = [at for _, at in ends(run(tmp_path, *jobs, seed=3))]
    gaps = {round((b - a) / 30) for a, b in itertools.pairwise(found)}
    assert gaps == {0, 1}
    assert all(abs((b - a) - 30 * round((b - a) / 30)) < 1.1 for a, b in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"walltime": 90}, ("COMPLETED_WALLTIME_REACHED", 90)),
        ({"estimate": 60, "walltime": 90}, ("COMPLETED_WALLTIME_REACHED", 90)),  # before the last check for its limit
        ({"estimate": 60, "walltime": 90, "s": 80}, ("COMPLETED_SUCCESSFULLY", 80)),  # as in a log, where it was killed
        ({"partition": "open", "walltime": None}, ("COMPLETED_SUCCESSFULLY", 5_000)),
    ],
)
def test_batsim_ends_other_jobs(tmp_path: Path, fields: Any, end: tuple[str, float]) -> None:
    found = run(tmp_path, fields, seed=1).jobs["w0!0"]
    assert found.started_at is not None
    assert (found.final_state, round((found.ended_at or 0) - found.started_at, 2)) == end


def test_the_limit_of_a_requeued_job_counts_from_its_last_start(tmp_path: Path) -> None:
    conf = CONF.replace("n[1-4]", "n1") + "PartitionName=fast Nodes=ALL PriorityTier=2\n"
    conf += "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
    slow = {"estimate": 100, "walltime": 1_000}
    fast = {"s": 10, "at": 50, "walltime": 60, "partition": "fast"}
    found = run(tmp_path, slow, fast, conf=conf, exact=True).jobs
    last = next(job for name, job in found.items() if "0.1" in name)
    assert (last.started_at, round(last.ended_at or 0, 2)) == (171, 271)


def kills(folder: Path) -> list[tuple[float, int]]:
    """Return when jobs were killed at their limits in a recording, and the second in which each limit ended."""
    meta = json.loads((folder / "meta.json").read_text())
    with (folder / "sacct.psv").open() as file:
        rows = {row["JobIDRaw"]: row for row in csv.DictReader(file, delimiter="|") if row["State"] == "TIMEOUT"}
    with gzip.open(folder / "events.csv.gz", "rt") as file:
        events = [row for row in csv.DictReader(file) if row["event"] == "timelimit"]
    limits = {name: int(row["Start"]) + 60 * int(row["TimelimitRaw"]) for name, row in rows.items()}
    return [(meta["t0_epoch"] + float(row["t"]), limits[row["jobid"]]) for row in events]


@pytest.mark.skipif(not RECORDED, reason="no recordings of Slurm in PYBATSCHED_GOLDEN")
def test_recorded_kills_are_at_the_checks_of_some_phase() -> None:
    n_kills = 0
    for folder in RECORDED:
        found = kills(folder)
        n_kills += len(found)
        begin = float(json.loads((folder / "meta.json").read_text())["ctld_start"])
        clocks = [Clocks(Scheduling(), seed, begin) for seed in range(300)]
        wrong = [max((abs(one.limit_check(end) - at) for at, end in found), default=0) for one in clocks]
        assert min(wrong) <= 1.01, folder
    assert n_kills == 14


def test_no_calls_are_requested_for_the_limits_of_jobs_that_have_ended(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    jobs = [{"id": str(i), "subtime": 0, "res": 1, "profile": "d"} for i in range(40)]
    workload = {"nb_res": 4, "profiles": {"d": {"type": "delay", "delay": 10}}, "jobs": jobs}
    (tmp_path / "w.json").write_text(json.dumps(workload))
    policy = pb.policy("slurm", slurm_conf=str(tmp_path / "slurm.conf"), exact=True)
    simulation = pb.Simulation(pb.read_workload(tmp_path / "w.json"), policy)
    with pytest.warns(UserWarning, match="40 jobs without a time limit"):
        simulation.run()
    assert simulation.is_over
    assert simulation.now < 200  # one call, for the first jobs; the last ones would be killed after 210
