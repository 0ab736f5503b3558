"""Jobs that may not start yet: the policy has them in its queue, with Slurm's reasons and ages."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

import pybatsched as pb
from pybatsched.testing import FakeBatsim, Workload, run_policy

CONF = """\
ClusterName=small
SelectType=select/linear
PriorityType=priority/multifactor
PriorityWeightAge=3600
PriorityMaxAge=0-1
PriorityCalcPeriod=1
NodeName=n[1-2] CPUs=1
PartitionName=batch Nodes=ALL Default=YES MaxTime=600
"""


def run(tmp_path: Path, *jobs: dict[str, Any], **options: Any) -> FakeBatsim:
    (tmp_path / "slurm.conf").write_text(CONF)
    workload = Workload()
    for job in jobs:
        workload.job(job["id"], **{"n": 1, "s": 100, "walltime": 600, **{k: v for k, v in job.items() if k != "id"}})
    path = str(tmp_path / "slurm.conf")
    return run_policy("slurm", workload, platform=path, slurm_conf=path, **{"exact": True, **options})


def starts(found: FakeBatsim) -> dict[str, float | None]:
    assert not found.deadlocked
    return {name.removeprefix("w0!"): job.started_at for name, job in found.jobs.items()}


def array(name: str, n: int, limit: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": f"{name}_{i}", "array": name, "array_limit": limit, **fields} for i in range(n)]


def test_tasks_over_the_limit_wait_with_slurms_reason_and_do_not_age(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    jobs = [*array("a", 3, 1), {"id": "x", "s": 250}, {"id": "y", "at": 50}]
    workload = {
        "nb_res": 2,
        "profiles": {str(s): {"type": "delay", "delay": s} for s in (100, 250)},
        "jobs": [
            {"id": one["id"], "subtime": one.get("at", 0), "res": 1, "walltime": 600, "profile": str(one.get("s", 100)),
             **{k: v for k, v in one.items() if k.startswith("array")}}
            for one in jobs
        ],
    }  # fmt: skip
    policy = pb.policy("slurm", slurm_conf=str(tmp_path / "slurm.conf"), exact=True)
    (tmp_path / "w.json").write_text(json.dumps(workload))
    simulation = pb.Simulation(pb.read_workload(tmp_path / "w.json"), policy)
    simulation.run(until=90)
    squeue = {row["job"]: (row["tasks"], row["reason"]) for row in simulation.tables["squeue"]}
    assert squeue == {"w0!a_1": ("2", "JobArrayTaskLimit"), "w0!y": ("1", "Resources")}
    ages = {row["job"]: int(row["age"]) for row in simulation.tables["sprio"]}
    assert ages == {"w0!a_1": 0, "w0!y": 10}  # at 60, the last update
    simulation.run()
    jobs = [{**one, "s": one.get("s", 100)} for one in jobs]
    expected = {"a_0": 0, "x": 0, "y": 100, "a_1": 200, "a_2": 300}
    assert starts(run(tmp_path, *jobs)) == expected


def test_a_dependent_job_keeps_its_place_by_submission_and_ages_from_the_end_of_its_parent(tmp_path: Path) -> None:
    jobs: list[dict[str, Any]] = [
        {"id": "p"}, {"id": "x", "s": 300}, {"id": "c", "at": 10, "depends_on": "afterok:p"}, {"id": "y", "at": 20},
        {"id": "b", "at": 30, "eligible_at": 150}, {"id": "h", "at": 40, "hold": True, "eligible_at": 160},
    ]  # fmt: skip
    # At 100, c has the age 0 and y that of 80 s. At 200, b has an older submission than h, and both are young.
    assert starts(run(tmp_path, *jobs)) == {"p": 0, "x": 0, "y": 100, "c": 200, "b": 300, "h": 300}


@pytest.mark.parametrize("exact", [True, False])
def test_jobs_that_never_may_start_leave_the_queue(tmp_path: Path, exact: bool) -> None:
    jobs: list[dict[str, Any]] = [
        {"id": "p"}, {"id": "n", "depends_on": "afternotok:p"}, {"id": "h", "hold": True},
        *array("a", 2, 1, depends_on="afternotok:p"), *array("b", 3, 1, at=5, depends_on="afterok:p"),
    ]  # fmt: skip
    found = run(tmp_path, *jobs, exact=exact)
    states = {name.removeprefix("w0!"): job.final_state for name, job in found.jobs.items()}
    assert {name for name, state in states.items() if state == "REJECTED"} == {"n", "h", "a_0", "a_1"}
    ran = [found.jobs[f"w0!b_{i}"] for i in range(3)]
    for one, other in itertools.pairwise(ran):
        assert (other.started_at or 0) >= (one.ended_at or 0) >= 100


def test_tasks_that_differ_share_the_limit_of_their_array(tmp_path: Path) -> None:
    jobs = [*array("a", 2, 1), *array("a", 4, 1, at=1, nice=3)[2:], *array("a", 5, 1, at=150, nice=2)[4:]]
    found = starts(run(tmp_path, *jobs))
    assert sorted(found.values(), key=float) == [0, 100, 200, 300, 400]  # type: ignore[arg-type]


def test_tasks_whose_conditions_are_met_at_different_times_start_at_these(tmp_path: Path) -> None:
    times = [{"id": f"a_{i}", "array": "a", "eligible_at": at} for i, at in enumerate((100, 300))]
    assert starts(run(tmp_path, *times)) == {"a_0": 100, "a_1": 300}
    alone = [{"id": f"a_{i}", "array": "a", "user": "u", "job_name": "n", "depends_on": "singleton"} for i in range(3)]
    assert starts(run(tmp_path, *alone)) == {"a_0": 0, "a_1": 100, "a_2": 200}


def test_tasks_and_jobs_are_rejected_once(tmp_path: Path) -> None:
    jobs: list[dict[str, Any]] = [
        {"id": "p"}, {"id": "p_0"}, {"id": "p_1"},
        *({"id": f"a_{i}", "array": "a", "depends_on": f"afternotok:p_{i}"} for i in range(2)),
        {"id": "q", "at": 250, "depends_on": "afternotok:p", "partition": "unknown"},
    ]  # fmt: skip
    found = run(tmp_path, *jobs)
    states = {name.removeprefix("w0!"): job.final_state for name, job in found.jobs.items()}
    assert {name for name, state in states.items() if state == "REJECTED"} == {"a_0", "a_1", "q"}


def test_another_policy_obeys_the_limit_of_an_array(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF)
    workload = {
        "nb_res": 2,
        "profiles": {"d": {"type": "delay", "delay": 100}},
        "jobs": [{"subtime": 0, "res": 1, "walltime": 600, "profile": "d", **one} for one in array("a", 4, 1)],
    }
    (tmp_path / "w.json").write_text(json.dumps(workload))
    policy = pb.policy("slurm", slurm_conf=str(tmp_path / "slurm.conf"), exact=True)
    simulation = pb.Simulation(pb.read_workload(tmp_path / "w.json"), policy)
    simulation.run(until=50)
    simulation.replace_policy("fcfs")
    simulation.run()
    assert simulation.now == 400
    assert simulation.result().figures.mean_wait_s == 150
