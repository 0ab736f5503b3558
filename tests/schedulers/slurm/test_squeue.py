"""What policy slurm tells: squeue, sprio and sshare at an instant, by a journal, in Python, and why a job waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.process import run_cli

import pybatsched as pb

CONF = """\
ClusterName=two
SelectType=select/cons_tres
AccountingStorageEnforce=associations
PriorityType=priority/multifactor
PriorityWeightFairshare=1000
PriorityWeightJobSize=100
NodeName=n[1-2] CPUs=4 RealMemory=8000
PartitionName=batch Nodes=ALL Default=YES MaxTime=60
"""
DUMP = """\
Cluster - 'two':Fairshare=1:QOS='normal'
Parent - 'root'
Account - 'lab':Fairshare=1
Parent - 'lab'
User - 'ann':DefaultAccount='lab':Fairshare=1
User - 'ben':DefaultAccount='lab':Fairshare=1
"""
JOBS = """\
JobID|User|Account|Partition|Submit|Start|End|Timelimit|AllocCPUS|State
1|ann|lab|batch|1000|1000|1060|2|8|COMPLETED
2|ben|lab|batch|1010|1060|1100|2|6|COMPLETED
3|ann|lab|batch|1020|1100|1150|2|2|COMPLETED
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("slurm.conf", CONF), ("dump.cfg", DUMP), ("sacct.txt", JOBS)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("place")
def test_tables_of_a_journal_at_an_instant() -> None:
    inputs = ("-w", "sacct.txt", "--slurm-conf", "slurm.conf", "--associations", "dump.cfg", "-o", "exact=true")
    assert run_cli("simulate", *inputs, "--journal", "run.pbj").returncode == 0
    shown = run_cli("explain", "run.pbj", "--at", "30s")
    assert shown.returncode == 0, shown.stderr
    tables = [block.splitlines() for block in shown.stdout.split("\n\n")]
    assert [table[0] for table in tables if table] == ["squeue at 20", "sprio at 20", "sshare at 20"]
    assert [row.split() for row in tables[0][1:]] == [
        [
            "job",
            "user",
            "partition",
            "qos",
            "priority",
            "tasks",
            "nodes",
            "cpus",
            "expected",
            "start",
            "reason",
            "limit",
        ],
        ["w0!2", "ben", "batch", "normal", "1062", "1", "1", "6", "120", "Resources"],
        ["w0!3", "ann", "batch", "normal", "1037", "1", "1", "2", "240", "Priority"],  # plans take whole nodes
    ]
    history = run_cli("explain", "run.pbj", "w0!2").stdout
    assert "not started: Resources, priority 1062, expected to start at 120" in history
    assert run_cli("explain", "run.pbj").stderr.endswith("expected either a job or --at TIME\n")
    assert run_cli("simulate", "-w", "sacct.txt", "--policy", "easy", "--journal", "easy.pbj").returncode == 0
    waits = run_cli("explain", "run.pbj", "w0!2", "--why-not-earlier").stdout
    assert "the partitions and limits of slurm_conf are not considered here" in waits
    assert "the policy has no tables" in run_cli("explain", "easy.pbj", "--at", "30").stderr


@pytest.mark.usefixtures("place")
def test_tables_while_a_simulation_runs() -> None:
    policy = pb.policy("slurm", slurm_conf="slurm.conf", associations="dump.cfg", exact=True)
    simulation = pb.Simulation(pb.read_workload("sacct.txt"), policy)
    simulation.run(until=30)
    tables = simulation.tables
    assert tables.keys() == {"squeue", "sprio", "sshare"}
    sizes = {row["job"]: row["jobsize norm"] for row in tables["sprio"]}
    assert sizes == {"w0!2": "0.6250000", "w0!3": "0.3750000"}
    users = [row["User"] for row in tables["sshare"] if row["User"]]
    assert users == ["ann", "ben"]


@pytest.mark.usefixtures("place")
def test_a_warm_up_fills_the_usage_before_the_window() -> None:
    """Ann's job of 8 CPUs ran for 600 s in the hour before the window. Each of its 10 periods decays from its begin."""
    conf = CONF.replace("PriorityWeightJobSize=100", "PriorityDecayHalfLife=0-1\nPriorityCalcPeriod=1")
    Path("slurm.conf").write_text(conf)
    Path("sacct.txt").write_text("""\
JobID|User|Account|Partition|Submit|Start|End|Timelimit|AllocCPUS|State
1|ann|lab|batch|1000|1000|1600|20|8|COMPLETED
2|ben|lab|batch|4600|4600|4660|2|8|COMPLETED
3|ann|lab|batch|4610|4660|4700|2|8|COMPLETED
4|ben|lab|batch|4620|4700|4760|2|8|COMPLETED
""")
    per_s = 1 - 0.693 / 3600
    assert int(sum(8 * 60 * per_s ** (3600 - 60 * k) for k in range(10))) == 2529
    policy = pb.policy("slurm", slurm_conf="slurm.conf", associations="dump.cfg", exact=True)
    found = {}
    for warm_up_s in (0, 3600):
        window = pb.read_workload("sacct.txt").window("1h", "2h", warm_up=warm_up_s)
        simulation = pb.Simulation(window, policy)
        simulation.run(until=warm_up_s + 20)
        usage = {row["User"]: row["RawUsage"] for row in simulation.tables["sshare"] if row["User"]}
        jobs = pb.simulate(window, policy).jobs
        found[warm_up_s] = usage, jobs.sort("started_at")["id"].to_list()[-2:]
    assert found == {
        0: ({"ann": "0", "ben": "0"}, ["w0!3", "w0!4"]),
        3600: ({"ann": "2529", "ben": "0"}, ["w0!4", "w0!3"]),
    }
