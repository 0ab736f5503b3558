"""Policy slurm beside the services of the engine: reservations, failures, jobs without a limit, other requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybatsched.core import events as e
from pybatsched.errors import InputError
from pybatsched.testing import Workload, run_policy

CONF = """\
ClusterName=small
SelectType=select/{select}
PriorityType=priority/basic
SchedulerParameters=bf_interval=5,bf_resolution=60,bf_window=1440{more}
{lines}
PartitionName=low Nodes=ALL Default=YES PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=5
"""
NODES = "NodeName=n[1-3] CPUs=2 RealMemory=8000"


def run(
    place: Path, jobs: Workload, *, select: str = "cons_tres", more: str = "", lines: str = NODES, **how: Any
) -> Any:
    conf = place / "slurm.conf"
    conf.write_text(CONF.format(select=select, more=more, lines=lines))
    return run_policy("slurm", jobs, platform=conf, slurm_conf=str(conf), **{"exact": True, **how})


def starts(found: Any) -> dict[str, float]:
    assert not found.deadlocked
    return {name.removeprefix("w0!"): job.started_at for name, job in found.jobs.items()}


def test_a_start_that_would_reach_into_a_reservation_is_delayed_on_its_own_processors(tmp_path: Path) -> None:
    jobs = Workload()
    jobs.job("x", n=2, s=90, walltime=90, at=10.5)
    jobs.job("y", n=2, s=50, walltime=50, at=11)
    jobs.job("z", n=2, s=50, walltime=50, at=12)
    window = {"name": "m", "start": 100, "duration": 100, "hosts": "0-1"}
    assert starts(run(tmp_path, jobs, host_reservations=[window])) == {"x": 200, "y": 11, "z": 12}


def test_a_job_without_a_limit_has_a_plan_and_is_counted(tmp_path: Path) -> None:
    jobs = Workload()
    jobs.job("first", n=2, s=600, walltime=600)
    jobs.job("big", n=6, s=10, walltime=None, at=1)
    jobs.job("long", n=2, s=3000, walltime=3000, at=2)
    assert starts(run(tmp_path, jobs)) == {"first": 0, "big": 600, "long": 610}


@pytest.mark.parametrize("rule", ["kill", "resubmit", "requeue_first"])
@pytest.mark.parametrize("mode", ["CANCEL", "REQUEUE"])
def test_a_job_is_preempted_when_its_machine_fails(tmp_path: Path, mode: str, rule: str) -> None:
    jobs = Workload()
    jobs.job("victim", n=6, s=500, walltime=600, partition="low")
    jobs.job("urgent", n=2, s=10, walltime=60, partition="high", at=50)
    lines = f"PreemptType=preempt/partition_prio\nPreemptMode={mode}\n{NODES}"
    outage = [(50.0, e.MACHINES_UNAVAILABLE, "0"), (60.0, e.MACHINES_AVAILABLE, "0")]
    assert starts(run(tmp_path, jobs, lines=lines, on_failure=rule, machine_events=outage))["urgent"] < 61


@pytest.mark.parametrize("select", ["linear", "cons_tres"])
def test_a_job_may_have_fewer_processors_than_nodes(tmp_path: Path, select: str) -> None:
    jobs = Workload()
    jobs.job("x", n=1, s=10, walltime=60, n_nodes=3)
    assert starts(run(tmp_path, jobs, select=select)) == {"x": 0}


def test_requests_are_those_of_all_policies(tmp_path: Path) -> None:
    lines = "GresTypes=gpu\nNodeName=n1 CPUs=2 RealMemory=8000 Gres=gpu:a100:1\n"
    lines += "NodeName=n2 CPUs=2 RealMemory=8000 Gres=gpu:h100:1"
    jobs = Workload()
    jobs.job("x", n=1, s=10, walltime=60, gpus_per_node=1, gpu_type="h100")
    jobs.job("both", n=2, s=10, walltime=60, gpus=2, at=20)
    found = run(tmp_path, jobs, lines=lines)
    assert starts(found) == {"x": 0, "both": 20}
    assert str(found.jobs["w0!x"].procs) == "2"
    wrong = Workload()
    wrong.job("x", n=2, s=10, walltime=60, memory_gb=1, node_memory_gb=1)
    with pytest.raises(InputError, match="both memory_gb and node_memory_gb"):
        run(tmp_path, wrong)


def test_a_reservation_that_does_not_exist_rejects_the_job(tmp_path: Path) -> None:
    jobs = Workload()
    jobs.job("x", n=2, s=10, walltime=60, reservation="r")
    found = run(tmp_path, jobs)
    assert not found.deadlocked
    assert found.jobs["w0!x"].started_at is None


@pytest.mark.parametrize("exact", [True, False])
def test_passes_that_stop_early_go_on(tmp_path: Path, exact: bool) -> None:
    jobs = Workload()
    for number in range(6):
        jobs.job(str(number), n=1, s=3000, walltime=3600)
    found = starts(run(tmp_path, jobs, more=",sched_max_job_start=1,bf_max_job_start=1", exact=exact))
    assert max(found.values()) < 200


def test_nodes_that_answer_late_are_used(tmp_path: Path) -> None:
    jobs = Workload()
    jobs.job("a", n=6, s=10, walltime=20)
    jobs.job("b", n=6, s=10, walltime=20, at=1)
    found = starts(run(tmp_path, jobs, exact=False, node_answer_s=100))
    assert 110 <= found["b"] < 150


@pytest.mark.parametrize("interval", [-1, 0])
def test_the_main_pass_over_the_whole_queue_can_be_off_or_at_every_tick(tmp_path: Path, interval: int) -> None:
    jobs = Workload()
    jobs.job("a", n=6, s=10, walltime=20)
    jobs.job("b", n=6, s=10, walltime=20, at=1)
    jobs.job("c", n=6, s=10, walltime=20, at=500)
    assert starts(run(tmp_path, jobs, more=f",sched_interval={interval}", exact=False)).keys() == {"a", "b", "c"}


def test_accounts_are_those_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "dump.cfg").write_text("Cluster - 'other':Fairshare=1\nParent - 'root'\n")
    with pytest.raises(InputError, match="other"):
        run(tmp_path, Workload(), associations=str(tmp_path / "dump.cfg"))
