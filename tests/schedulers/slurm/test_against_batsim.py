"""Policy `slurm` with the real Batsim: the same jobs as on the embedded simulator."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_OF_WORK_S
from support.process import Server
from support.simulated import rows, same_but_for_halves

from pybatsched.cli import main
from pybatsched.machines import names

pytestmark = pytest.mark.batsim

WHOLE_NODES = """ClusterName=c
SelectType=select/linear
PriorityType=priority/multifactor
PriorityDecayHalfLife=0-00:10:00
PriorityCalcPeriod=00:01:00
PriorityMaxAge=0-00:10:00
PriorityWeightAge=1000
PriorityWeightFairshare=2000
PriorityWeightJobSize=500
AccountingStorageEnforce=associations
SchedulerParameters=bf_interval=15,bf_resolution=10
NodeName=n[1-4] CPUs=4 RealMemory=16000
PartitionName=batch Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=EXCLUSIVE
"""
SHARED_NODES = """ClusterName=c
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU=2000
PriorityType=priority/multifactor
PriorityCalcPeriod=00:01:00
PriorityWeightAge=1000
PriorityWeightQOS=3000
AccountingStorageEnforce=associations,limits,qos
PreemptType=preempt/qos
PreemptMode=REQUEUE
Epilog=/bin/true
SchedulerParameters=bf_interval=15,bf_resolution=10
NodeName=a[1-2] CPUs=4 RealMemory=16000 Weight=10
NodeName=g[1-2] CPUs=4 RealMemory=32000 Gres=gpu:2 Weight=20
PartitionName=batch Nodes=ALL Default=YES PriorityTier=1 MaxTime=60 State=UP
PartitionName=gpu Nodes=g[1-2] PriorityTier=5 MaxTime=60 State=UP
"""
DUMP = """Cluster - 'c':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'x':Fairshare=20
Account - 'y':Fairshare=30:GrpTRES=cpu=10
Parent - 'x'
User - 'u0':DefaultAccount='x':Fairshare=1:QOS='high,low,normal'
User - 'u1':DefaultAccount='x':Fairshare=3:MaxJobs=2:QOS='high,low,normal'
Parent - 'y'
User - 'u2':DefaultAccount='y':Fairshare=1:QOS='high,low,normal'
"""
QOS = """Name|Priority|GraceTime|Preempt|PreemptMode|Flags|GrpTRES|MaxTRESPU|MaxJobsPU
normal|50|00:00:00||cluster|||cpu=8|
low|10|00:00:00||cluster||||
high|100|00:00:00|low|cluster||||3
"""


def crowd(seed: int, *, is_shared: bool) -> dict[str, Any]:
    """Draw jobs for four nodes of four processors."""
    dice = random.Random(seed)
    jobs, at = [], 0.3
    for index in range(50):
        at = round(at + dice.choice([0, 1, 5, 17]), 6)
        user = dice.randrange(3)
        job: dict[str, Any] = {"id": str(index), "subtime": at, "walltime": dice.choice([60, 120, 180])}
        job |= {"user": f"u{user}", "account": "xxy"[user], "profile": dice.choice(["d5.12", "d29.12", "d100.12"])}
        if is_shared:
            job |= {"res": dice.choice([1, 2, 3, 6]), "qos": dice.choice(["low", "low", "normal", "high"])}
            job |= dice.choice(
                [
                    {},
                    {"memory_gb": dice.choice([1, 3.5])},
                    {"res": 2, "n_nodes": 1, "gpus_per_node": dice.choice([1, 2]), "node_memory_gb": 6},
                    {"res": 4, "n_nodes": 2, "cores_per_node": 2},
                    {"res": 4, "n_nodes": 1, "exclusive": True},
                    {"res": 1, "partition": "gpu"},
                ]
            )
        else:
            n_nodes = dice.choice([1, 1, 2, 4])
            job |= {"res": 4 * n_nodes, "n_nodes": n_nodes, "exclusive": True}
        jobs.append(job)
    profiles = {f"d{s}": {"type": "delay", "delay": s} for s in (5.12, 29.12, 100.12)}
    return {"nb_res": 16, "jobs": jobs, "profiles": profiles}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_shared", [False, True])
def test_slurm_starts_the_same_jobs_at_the_same_times(seed: int, tmp_path: Path, *, is_shared: bool) -> None:
    for name, text in (
        ("slurm.conf", SHARED_NODES if is_shared else WHOLE_NODES),
        ("dump.cfg", DUMP),
        ("qos.psv", QOS),
        ("w.json", json.dumps(crowd(seed, is_shared=is_shared))),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "platform.xml").write_text(names.find(str(tmp_path / "slurm.conf")).text)
    args = ["-p", str(tmp_path / "platform.xml"), "-w", str(tmp_path / "w.json"), "--enable-dynamic-jobs"]
    options = [
        part
        for text in (
            f"slurm_conf={tmp_path}/slurm.conf",
            f"associations={tmp_path}/dump.cfg",
            f"qos={tmp_path}/qos.psv",
            f"seed={seed}",
            f"exact={str(seed == 5).lower()}",
        )
        for part in ("-o", text)
    ]
    with Server("--policy", "slurm", *options) as server:
        command = ["batsim", *args, "-s", server.wait_ready(), "-e", str(tmp_path / "theirs"), "-q"]
        batsim = subprocess.run(command, capture_output=True, timeout=PATIENCE_OF_WORK_S, check=False)
        code = server.finish()
    assert batsim.returncode == 0
    mine = str(tmp_path / "mine")
    assert main(["simulate", *args, "--policy", "slurm", *options, "-e", mine, "--quiet"]) == code
    same_but_for_halves(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")
    found = rows(tmp_path / "mine_jobs.csv")
    assert sum(row["final_state"] == "COMPLETED_SUCCESSFULLY" for row in found) > 25
    assert any(float(row["waiting_time"]) > 30 for row in found)
