"""Policy slurm in whole runs: properties on random small machines, exact and with clocks, and its errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.testing import FakeBatsim, FakeJob, Workload, run_policy

#: Two partitions that share nodes, a QOS that preempts, and limits of an array, a user, a group and a QOS.
CONF = """\
ClusterName=small
SelectType=select/{select}
AccountingStorageEnforce={enforce}
PriorityType=priority/{priority}
PriorityWeightAge=100
PriorityWeightFairshare=1000
PriorityCalcPeriod=1
PreemptType=preempt/qos
PreemptMode={mode}
SchedulerParameters=bf_interval=5,bf_resolution=1,bf_window=60
NodeName=n[1-{n_nodes}] CPUs={cpus} RealMemory=8000
PartitionName=batch Nodes=ALL Default=YES MaxTime=60
PartitionName=express Nodes=n1 MaxTime=60 PriorityTier=5
"""
DUMP = """\
Cluster - 'small':Fairshare=1:QOS='normal,high,low'
Parent - 'root'
Account - 'lab':Fairshare=1:GrpTRES=cpu={most_cpus}
Parent - 'lab'
User - 'ann':DefaultAccount='lab':Fairshare=1:MaxJobs=2
User - 'ben':DefaultAccount='lab':Fairshare=3
"""
QOS = """\
Name|Priority|Preempt|PreemptMode|Flags|MaxTRESPU
normal|10||cluster||
high|20|low|cluster||
low|0||cluster||cpu=2
"""

#: The end of a killed job is this much after its processors are free.
KILL_S = 1e-4


def write(place: Path, **values: Any) -> dict[str, Any]:
    """Write the files of a cluster, and return the options and the platform."""
    found = {
        "select": "cons_tres", "enforce": "associations,limits,qos", "priority": "multifactor", "mode": "REQUEUE",
        "n_nodes": 3, "cpus": 2, "most_cpus": 5, **values,
    }  # fmt: skip
    for name, text in (("slurm.conf", CONF), ("dump.cfg", DUMP), ("qos.txt", QOS)):
        (place / name).write_text(text.format(**found))
    paths = {"slurm_conf": "slurm.conf", "associations": "dump.cfg", "qos": "qos.txt"}
    return {"platform": place / "slurm.conf", **{option: str(place / name) for option, name in paths.items()}}


def number(name: str) -> str:
    """Return the id in the workload of a job, or of a later run of it, such as w0!w0.3.1."""
    return name.rpartition("!")[2].removeprefix("w0.").split(".")[0]


def overlapping(jobs: Iterable[FakeJob]) -> Iterable[list[FakeJob]]:
    """Yield the jobs that run at each start of one, in their last runs."""
    ran = [job for job in jobs if job.started_at is not None and job.ended_at is not None]
    for one in ran:
        at = one.started_at
        assert at is not None
        yield [job for job in ran if (job.started_at or 0) <= at < (job.ended_at or 0) - KILL_S]


def check(found: FakeBatsim, workload: Workload, values: dict[str, Any]) -> None:
    """Check that all jobs ran or were rejected, none too early, on enough nodes, and that limits hold."""
    asked = {str(job["id"]): job for job in workload.jobs}
    assert not found.deadlocked
    for name, job in ((number(name), job) for name, job in found.jobs.items()):
        if job.final_state == "REJECTED":
            continue
        assert job.final_state.startswith("COMPLETED"), (name, job.final_state)
        assert job.started_at is not None
        assert job.started_at >= asked[name]["subtime"] - 1e-6
        nodes = {proc // values["cpus"] for proc in job.procs}
        assert job.fields["partition"] != "express" or nodes <= {0}
    for running in overlapping(found.jobs.values()):
        held: list[int] = []
        for job in running:
            of_job = {proc // values["cpus"] for proc in job.procs}
            held += of_job if values["select"] == "linear" else list(job.procs)
        assert len(held) == len(set(held))
        cpus = values["cpus"] if values["select"] == "linear" else 1
        of_user = {user: [job for job in running if job.fields["user"] == user] for user in ("ann", "ben")}
        assert len(of_user["ann"]) <= 2
        assert sum(size(job, cpus) for job in running) <= values["most_cpus"]
        for jobs in of_user.values():
            assert sum(size(job, cpus) for job in jobs if job.fields["qos"] == "low") <= 2
        for array in ("a1", "a2"):
            assert len([job for job in running if job.fields.get("array") == array]) <= 1


def size(job: FakeJob, cpus: int) -> int:
    """Return the CPUs of a job; of its whole nodes, if a node has more than one."""
    return len({proc // cpus for proc in job.procs}) * cpus if cpus > 1 else len(job.procs)


@st.composite
def workloads(draw: st.DrawFn, values: dict[str, Any]) -> Workload:
    workload, at = Workload(), 0
    for i in range(draw(st.integers(1, 14))):
        at += draw(st.integers(0, 20))
        time_s = draw(st.integers(1, 200))
        array = draw(st.sampled_from(["", "", "a1", "a2"]))
        workload.job(
            i, n=draw(st.integers(1, values["n_nodes"] * values["cpus"] + 1)), s=time_s, at=at,
            walltime=-(-time_s // 60) * 60 * draw(st.integers(1, 3)), user=draw(st.sampled_from(["ann", "ben"])),
            partition=draw(st.sampled_from(["batch", "express", "express,batch"])),
            qos=draw(st.sampled_from(["normal", "high", "low"])), nice=draw(st.integers(0, 5)),
            **({"array": array, "array_limit": 1} if array else {}),
        )  # fmt: skip
    return workload


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.parametrize("select", ["linear", "cons_tres"])
@pytest.mark.parametrize("exact", [True, False])
def test_any_run_ends_without_overlaps_and_within_limits(
    tmp_path: Path, select: str, exact: bool, data: st.DataObject
) -> None:
    values: dict[str, Any] = {
        "select": select, "n_nodes": data.draw(st.integers(1, 4)), "cpus": data.draw(st.integers(1, 3)),
        "priority": data.draw(st.sampled_from(["basic", "multifactor"])), "most_cpus": data.draw(st.integers(1, 8)),
        "mode": data.draw(st.sampled_from(["OFF", "REQUEUE", "CANCEL"])),
    }  # fmt: skip
    options = write(tmp_path, **values)
    workload = data.draw(workloads(values))
    seed = data.draw(st.integers(0, 3))
    found = run_policy("slurm", workload, exact=exact, seed=seed, **options)
    if values["mode"] != "CANCEL":
        check(found, workload, values)


# --- examples ---


def both(workload: Workload, tmp_path: Path, **values: Any) -> FakeBatsim:
    return run_policy("slurm", workload, exact=True, **write(tmp_path, n_nodes=1, cpus=1, **values))


def test_a_preempted_job_runs_again_after_121_seconds_though_nothing_else_happens(tmp_path: Path) -> None:
    workload = Workload().job("low", n=1, s=300, walltime=600, user="ben", qos="low")
    workload.job("high", n=1, s=10, at=50, walltime=60, user="ann", qos="high")
    found = both(workload, tmp_path)
    again = next(job for name, job in found.jobs.items() if "low.1" in name)
    assert found.jobs["w0!low"].final_state == "COMPLETED_KILLED"
    assert found.jobs["w0!high"].started_at == 50
    assert again.started_at == 171
    assert again.ended_at == 471


def test_a_preempted_job_may_be_cancelled_for_good(tmp_path: Path) -> None:
    workload = Workload().job("low", n=1, s=300, walltime=600, user="ben", qos="low")
    workload.job("high", n=1, s=10, at=50, walltime=60, user="ann", qos="high")
    found = both(workload, tmp_path, mode="CANCEL")
    assert {name: job.final_state for name, job in found.jobs.items()} == {
        "w0!low": "COMPLETED_KILLED", "w0!high": "COMPLETED_SUCCESSFULLY",
    }  # fmt: skip
    assert found.jobs["w0!high"].started_at == 50


def test_jobs_are_rejected_with_slurms_reasons(tmp_path: Path) -> None:
    plan: dict[str, dict[str, Any]] = {
        "PartitionName": {"partition": "none"}, "InvalidAccount": {"user": "eve"}, "InvalidQOS": {"qos": "none"},
        "PartitionTimeLimit": {"walltime": 3_660.0}, "BadConstraints": {"n": 2}, "": {},
    }  # fmt: skip
    workload = Workload()
    for i, fields in enumerate(plan.values()):
        workload.job(i, **{"n": 1, "s": 1, "walltime": 60.0, "user": "ann", **fields})
    found = both(workload, tmp_path, most_cpus=9)
    states = [found.jobs[f"w0!{i}"].final_state for i in range(len(plan))]
    assert states == ["REJECTED"] * 5 + ["COMPLETED_SUCCESSFULLY"]


def test_the_reasons_of_rejected_jobs_name_what_is_not_accepted(tmp_path: Path) -> None:
    options, log = write(tmp_path), tmp_path / "sacct.txt"
    rows = ("eve|lab|batch|low", "ann|lab|x|low", "ann|lab|batch|odd", "ben|lab|batch|low")
    times = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00|1|COMPLETED"
    lines = [f"{number}|{row}|{times}" for number, row in enumerate(rows)]
    log.write_text("\n".join(["JobID|User|Account|Partition|QOS|Submit|Start|End|NCPUS|State", *lines, ""]))
    files = ("--slurm-conf", options["slurm_conf"], "--associations", options["associations"], "--qos", options["qos"])
    found = run_cli(
        "simulate", "-w", str(log), *files, "-o", "AccountingStorageEnforce=qos", "-e", str(tmp_path / "out")
    )
    assert re.findall("first reason: (.*)", found.stdout) == [
        "InvalidAccount (user eve in account lab)",
        "PartitionName (x)",
        "InvalidQOS (odd for user ann)",
    ]


def test_usage_of_sshare_counts_from_the_beginning(tmp_path: Path) -> None:
    workload = Workload().job("first", n=1, s=100, walltime=120, user="ann")
    workload.job("ann", n=1, s=5, at=1, walltime=60, user="ann").job("ben", n=1, s=5, at=2, walltime=60, user="ben")
    options = write(tmp_path, n_nodes=1, cpus=1)
    shares = tmp_path / "sshare.txt"
    started = {}
    for user in ("ann", "ben"):
        shares.write_text(f"Account|User|RawUsage\nroot||9000000\nlab||9000000\nlab|{user}|9000000\n")
        jobs = run_policy("slurm", workload, exact=True, sshare=str(shares), **options).jobs
        started[user] = (jobs["w0!ann"].started_at or 0) < (jobs["w0!ben"].started_at or 0)
    assert started == {"ann": False, "ben": True}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"slurm_conf": "missing.conf"}, r"missing\.conf: No such file"),
        ({"PriorityWeightFairShared": "3"}, r"PriorityWeightFairShared.*did you mean PriorityWeightFairshare\?"),
        ({"associations": None}, "QOS are those of accounts; expected --associations"),
        ({"associations": None, "qos": None, "sshare": "x"}, "usage is that of accounts; expected --associations"),
        ({"platform": None, "n_procs": 2}, "it has 3 nodes, the platform 2; expected the same number"),
        (
            {"platform": None, "n_procs": 3},
            "node n1 has 2 CPUs, node node0 of the platform 1; expected the same number",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_what_to_do(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    options = {**write(tmp_path), **changes}
    workload = Workload().job("a", n=1, s=1, walltime=60, user="ann")
    with pytest.raises((InputError, OSError, ValueError), match=expected):
        run_policy("slurm", workload, **{key: value for key, value in options.items() if value is not None})


def test_a_partition_has_a_known_qos_or_a_remark(tmp_path: Path) -> None:
    options = write(tmp_path)
    conf = tmp_path / "slurm.conf"
    text = (
        conf.read_text()
        .replace("Nodes=n1 ", "Nodes=n1 QOS=fast ")
        .replace("PartitionName", "PartitionName=DEFAULT LLN=YES\nPartitionName", 1)
    )
    conf.write_text(f"{text}SchedulerParameters=bf_busy_nodes\n")
    workload = Workload().job("a", n=1, s=1, walltime=60, user="ann")
    with pytest.raises(InputError, match="partition express: unknown QOS fast; expected one in .*qos.txt"):
        run_policy("slurm", workload, **options)
    del options["qos"]
    log = tmp_path / "sacct.txt"
    times = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:01:00"
    log.write_text(f"JobID|User|Submit|Start|End|NCPUS|State\n1|ann|{times}|1|COMPLETED\n")
    files = ("--slurm-conf", str(conf), "--associations", options["associations"])
    found = run_cli("simulate", "-w", str(log), *files, "-e", str(tmp_path / "out"))
    assert "QOS=fast is not simulated: without a file of `sacctmgr show qos -P`" in found.stderr
    assert ": bf_busy_nodes is not simulated: " in found.stderr
    assert found.stderr.count(": LLN=YES is not simulated: ") == 1  # of all partitions


@pytest.mark.parametrize("exact", [True, False])
def test_a_job_waits_until_the_usage_of_its_group_has_decayed_though_nothing_runs(tmp_path: Path, exact: bool) -> None:
    options = write(tmp_path, n_nodes=1, cpus=1)
    dump = tmp_path / "dump.cfg"
    dump.write_text(dump.read_text().replace("GrpTRES=cpu=5", "GrpTRESMins=cpu=2"))
    workload = Workload().job("a", n=1, s=240, walltime=300, user="ann")
    workload.job("b", n=1, s=10, at=245, walltime=60, user="ben")
    found = run_policy("slurm", workload, exact=exact, PriorityDecayHalfLife="5", **options)
    # 240 seconds have become about 184 at the end; they are below 120 after 0.62 half-lives, 186 seconds later.
    assert not found.deadlocked
    started_at = found.jobs["w0!b"].started_at
    assert started_at is not None
    assert 400 < started_at < 520
