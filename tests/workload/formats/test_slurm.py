"""Conversion of logs of Slurm: sizes, fields, states, attempts, times, and the size of the machine."""

from __future__ import annotations

import hashlib
import heapq
import json
from pathlib import Path
from typing import Any

import pytest
from support.logs import SACCT_ZERO, counts, real, sacct, sacct_line
from support.process import run_cli

import pybatsched as pb
from pybatsched.errors import InputError, spelled
from pybatsched.metrics.saved_runs import workloads_of
from pybatsched.testing import Workload, run_policy
from pybatsched.workload import load
from pybatsched.workload.formats.conversion import LogOptions, SizeIn
from pybatsched.workload.logs import conversion, records
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.slurm import read_slurm
from pybatsched.workload.reading import read
from pybatsched.workload.selection import Selection
from pybatsched.workload.statistics import stats
from pybatsched.workload.walltimes import Walltimes


def converted(folder: Path, *lines: str, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the jobs of a log, and the counts of its report."""
    workload, report = to_workload(read_slurm(sacct(folder, *lines)), LogOptions(**options))
    assert report.n_read == report.n_kept + report.n_dropped
    return list(workload.jobs), counts(report)


def test_all_fields_of_a_job(tmp_path: Path) -> None:
    header = (
        "JobID|User|Group|Account|Partition|QOS|JobName|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS"
        "|ReqCPUS|NNodes|ReqMem|AllocTRES|State|ExitCode|Priority|ConsumedEnergyRaw|Dependency|MaxRSS"
    )
    first = "8||||||a|1704067200||1704067200|1704067201|1|10|1|1|1||||||||"
    second = (
        "9_2|ann|phys|proj|gpu|high|train|1704067210|1704067220|1704067230|1704067330|100|10|8|4|2|16Gn"
        "|cpu=8,mem=32G,node=2,gres/gpu=4|TIMEOUT|0:15|4500|12000|afterok:8|2G"
    )
    workload, _ = to_workload(read_slurm(sacct(tmp_path, first, second, header=header)))
    assert workload.jobs[1] == {
        "id": "9_2",
        "subtime": 10,
        "res": 8,
        "profile": "100",
        "walltime": 600,
        "user": "ann",
        "group": "phys",
        "account": "proj",
        "partition": "gpu",
        "queue": "gpu",
        "qos": "high",
        "job_name": "train",
        "exit_code": "0:15",
        "exit_state": "TIMEOUT",
        "status": 0,
        "nodes": 2,
        "gpus": 4,
        "requested_procs": 4,
        "requested_time": 600,
        "node_memory_gb": 16,
        "used_memory_gb": 2,
        "priority": 4500,
        "energy_j": 12000,
        "logged_wait_s": 20,
        "eligible_after_s": 10,
        "dependency": "afterok:8",
        "depends_on": "afterok:8",
        "array": "9",
    }
    assert workload.about["conversion"]["size_in"] == "cores"
    assert workload.about["shifted_by"] == SACCT_ZERO


@pytest.mark.parametrize(("size_in", "size"), [("cores", 8), ("nodes", 2), ("gpus", 4)])
def test_sizes_in_cores_nodes_or_gpus(tmp_path: Path, size_in: SizeIn, size: int) -> None:
    line = sacct_line("1", 0, 0, 60, 8, NNodes="2", AllocTRES="cpu=8,mem=16G,node=2,gres/gpu=4", ReqMem="2Gc")
    (job,), _ = converted(tmp_path, line, size_in=size_in)
    assert job["res"] == size
    assert job["memory_gb"] == 16 / size


def test_jobs_without_gpus_are_dropped_if_sizes_are_in_gpus(tmp_path: Path) -> None:
    jobs, report = converted(tmp_path, sacct_line("1", AllocTRES="cpu=1,gres/gpu=2"), sacct_line("2"), size_in="gpus")
    assert [job["id"] for job in jobs] == ["1"]
    assert report["no gpus, neither allocated nor requested: dropped"] == (1, [3])
    with pytest.raises(InputError, match="expected sizes in gpus, found none; the log has sizes in cores and nodes"):
        converted(tmp_path, sacct_line("2"), size_in="gpus")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("COMPLETED", 1),
        *((state, 0) for state in ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "DEADLINE")),
        ("CANCELLED by 1000", 5),
    ],
)
def test_jobs_that_ran_are_kept_whatever_their_end(tmp_path: Path, state: str, status: int) -> None:
    (job,), _ = converted(tmp_path, sacct_line("1", State=state))
    assert (job["exit_state"], job["status"]) == (state.split(maxsplit=1)[0], status)


def test_jobs_that_did_not_run_are_dropped_and_counted(tmp_path: Path) -> None:
    never: dict[str, Any] = {"Start": "None", "End": str(SACCT_ZERO + 9), "Elapsed": "00:00:00", "NCPUS": "0"}
    jobs, report = converted(
        tmp_path,
        sacct_line("1"),
        sacct_line("2", State="CANCELLED by 7", **never),
        sacct_line("3", run=0, State="CANCELLED by 7"),
        sacct_line("4", State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
        sacct_line("5", State="RUNNING", End="Unknown"),
        sacct_line("6_[4-9%2]", State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
        sacct_line("7", run=0),
    )
    assert [job["id"] for job in jobs] == ["1"]
    dropped = {rule: places for rule, (_, places) in report.items() if rule.endswith(": dropped")}
    assert dropped == {
        records.CANCELLED: [3, 4],
        records.NOT_STARTED: [5],
        records.RUNNING: [6],
        records.WAITING_TASKS: [7],
        "run time of 0 or unknown: dropped": [8],
    }


def test_attempts_of_a_requeued_job_are_jobs(tmp_path: Path) -> None:
    lines = (sacct_line("1", 0, State="NODE_FAIL"), sacct_line("2", 5), sacct_line("1", 70), sacct_line("1", 140))
    jobs, report = converted(tmp_path, *lines)
    assert [(job["id"], job.get("attempt")) for job in jobs] == [("1", 1), ("2", None), ("1-2", 2), ("1-3", 3)]
    assert report[conversion.ATTEMPT] == (2, [4, 5])
    with pytest.raises(
        InputError, match=r"line 4, field JobID: expected a unique id, found 1, which is also on line 2"
    ):
        converted(tmp_path, *lines, duplicates="error")


def test_jobs_without_a_limit(tmp_path: Path) -> None:
    lines = (sacct_line("1", Timelimit="UNLIMITED"), sacct_line("2", Timelimit="Partition_Limit"))
    jobs, report = converted(tmp_path, *lines, sacct_line("3", Timelimit=""))
    assert [(job["walltime"], job["estimate"]) for job in jobs] == [(61, 60)] * 3
    assert [job.get("time_limit") for job in jobs] == ["UNLIMITED", "Partition_Limit", None]
    assert report[conversion.UNLIMITED] == (2, [2, 3])
    (job,), _ = converted(tmp_path, lines[0], walltimes=Walltimes("requested-strict"))
    assert "walltime" not in job
    (job,), _ = converted(tmp_path, lines[0], walltimes=Walltimes("exact"))
    assert "time_limit" not in job


def test_local_times(tmp_path: Path) -> None:
    """The clocks go back at 03:00 on 27 October 2024 in Paris: this job runs for 3 hours."""
    header = "JobID|Submit|Start|End|NCPUS"
    file = sacct(tmp_path, "1|2024-10-27T01:00:00|2024-10-27T01:00:00|2024-10-27T03:00:00|4", header=header)
    in_utc, report = read(file, LogOptions(), Selection())
    assert in_utc.jobs[0]["profile"] == "7200"
    assert records.WITHOUT_ZONE in report.rule_counts
    in_paris, report = read(file, LogOptions(timezone="Europe/Paris"), Selection())
    assert in_paris.jobs[0]["profile"] == "10800"
    assert records.WITHOUT_ZONE not in report.rule_counts
    assert in_paris.about["shifted_by"] == 1_729_983_600


def test_dependencies(tmp_path: Path) -> None:
    header = "JobID|Submit|ElapsedRaw|NCPUS|Dependency"
    lines = (
        "1_1|1704067200|60|1|",
        "1_2|1704067200|60|1|",
        "2|1704067200|60|1|afterok:1_2(unfulfilled)",
        "3|1704067200|60|1|afterany:1_*,afterok:2:99",
        "4|1704067200|60|1|singleton",
    )
    workload, report = to_workload(read_slurm(sacct(tmp_path, *lines, header=header)))
    assert [job.get("depends_on") for job in workload.jobs] == [
        None,
        None,
        "afterok:1_2",
        "afterany:1,afterok:2",
        "singleton",
    ]
    assert [job.get("array") for job in workload.jobs] == ["1", "1", None, None, None]
    assert counts(report)["depends on a job that is not in the workload: dependency removed"] == (1, [5])


def test_the_size_of_the_machine_is_the_peak_of_the_log(tmp_path: Path) -> None:
    lines = (sacct_line("1", 0, 0, 60, 4), sacct_line("2", 10, 0, 50, 3), sacct_line("3", 20, 40, 60, 5))
    trace = read_slurm(sacct(tmp_path, *lines))
    workload, report = to_workload(trace)
    assert workload.n_procs == 7  # jobs 1 and 2 end when job 3 starts
    estimated = conversion.ESTIMATED.format("cores", 7)
    assert (estimated in report.rule_counts, workload.about["estimated_machine"]) == (True, spelled(estimated))
    sized, _ = to_workload(trace, LogOptions(n_procs=64))
    assert (sized.n_procs, "estimated_machine" in sized.about) == (64, False)


def test_figures(tmp_path: Path) -> None:
    file = sacct(
        tmp_path, sacct_line("1", 0, 5), sacct_line("2", 3600, 10, Timelimit=""), sacct_line("3", State="PENDING")
    )
    found = stats.sample(file)
    assert (found.wait_s, found.run_s, found.n_left_out) == ([5, 10], [60, 60], 1)
    assert found.request_s[0] == 600
    assert found.request_s[1] != found.request_s[1]  # unknown
    assert (found.clock_name, found.clock(0) % 86_400) == ("local time, UTC", 0)


def test_figures_of_a_run_read_the_log_as_the_run_did(tmp_path: Path) -> None:
    lines = (sacct_line("1", NNodes="2", AllocTRES="cpu=8,node=2"), sacct_line("2", 5, User="bob"))
    args = ("--procs", "4", "--policy", "fcfs", "--size-in", "nodes", "--timezone", "Europe/Paris", "--quiet")
    done = run_cli("simulate", "-w", str(sacct(tmp_path, *lines)), *args, "-e", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    done = run_cli("metrics", str(tmp_path / "run"), "--by", "user", "--measure", "wait_s")
    assert (done.returncode, "bob" in done.stdout) == (0, True), done.stderr
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    (workload,) = workloads_of(str(tmp_path / "run"), summary).values()
    assert workload.jobs[0]["res"] == 2
    assert workload.about["conversion"]["timezone"] == "Europe/Paris"


def test_read_workload_with_options(tmp_path: Path) -> None:
    file = sacct(tmp_path, sacct_line("1", NNodes="3", Submit="2024-01-01T01:00:00", AllocTRES="cpu=8,node=3"))
    log = pb.read_workload(file, size_in="nodes", timezone="Europe/Paris")
    assert log.workload.jobs[0]["res"] == 3
    assert log.workload.about["shifted_by"] == SACCT_ZERO


def test_convert_lint_and_stats(tmp_path: Path) -> None:
    file, out = (
        sacct(tmp_path, sacct_line("1"), sacct_line("2", NCPUS="x"), sacct_line("3")),
        tmp_path / "out" / "w.json",
    )
    done = run_cli("workload", "convert", str(file), str(out))
    assert (done.returncode, out.exists(), out.parent.exists()) == (2, False, False)
    assert f'{file}: line 3: field NCPUS: expected a whole number, 0 or more, found "x"' in done.stderr
    done = run_cli("workload", "convert", str(file), str(out), "--lenient", "--size-in", "nodes")
    assert done.returncode == 0, done.stderr
    assert "bad line, field NCPUS: expected a whole number, 0 or more: dropped (line 3)" in done.stdout
    assert [job["res"] for job in json.loads(out.read_text())["jobs"]] == [1, 1]
    done = run_cli("workload", "lint", str(file), "--json")
    assert json.loads(done.stdout)["format"] == "Slurm"
    done = run_cli("workload", "stats", str(out))
    assert "logged waits" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("convert FILE OUT --weeks", "expected a week with a logged utilisation of 0.7 or more, which is neither the"),
        ("convert FILE OUT --memory-unit MB", "--memory-unit MB: expected a log in SWF, found a log of Slurm"),
        ("convert FILE OUT --timezone Mars", "--timezone: expected a name of the time zone database"),
        ("convert SWF OUT --size-in gpus", "--size-in gpus: expected a log of Slurm or a table, found a log in SWF"),
        ("lint SWF --timezone UTC", "--timezone UTC: expected a log of Slurm or a table, found a log in SWF"),
        ("stats SWF --size-in nodes", "--size-in nodes: expected a log of Slurm or a table, found a log in SWF"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, args: str, message: str) -> None:
    (tmp_path / "log.swf").write_text("; MaxProcs: 8\n")
    files = {"FILE": str(sacct(tmp_path, sacct_line())), "SWF": str(tmp_path / "log.swf"), "OUT": f"{tmp_path}/w.json"}
    done = run_cli("workload", *(files.get(arg, arg) for arg in args.split()))
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_the_sacct_command(tmp_path: Path) -> None:
    done = run_cli("traces", "sacct-command", "--from", "2026-01-01", "--to", "2026-04-01")
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split()
    assert parts[:2] == ["SLURM_TIME_FORMAT=%s", "sacct"]
    assert {"--parsable2", "--allocations", "--duplicates", "--starttime", "2026-01-01", "2026-04-01"} <= {*parts}
    assert done.stdout.endswith("| gzip > sacct.txt.gz\n")
    (columns,) = [arg.removeprefix("--format=") for arg in parts if arg.startswith("--format=")]
    file = sacct(tmp_path, header=columns.replace(",", "|"))
    with pytest.raises(InputError, match="found a header alone"):  # all columns are known
        read_slurm(file)
    done = run_cli("traces", "sacct-command", "--steps", "--names", "--output", "a b.txt")
    assert "--allocations" not in done.stdout
    assert "User,Group,Account,JobName,MaxRSS > 'a b.txt'" in done.stdout
    done = run_cli("traces", "sacct-command", "--from", "x; rm")
    assert (done.returncode, "expected a date such as 2026-01-31" in done.stderr) == (2, True)


def test_fcfs_on_cirrus() -> None:
    """Jobs of one instant are in the order of the file. Waits are those of a plain loop over the log."""
    log = pb.read_workload(real("today/Cirrus-2024-Q1.sacct.csv.gz"), n_procs=13_249)
    workload = log.workload
    report = workload.about["report"]
    assert (report["read"], report["kept"], report["rules"][records.CANCELLED]["count"]) == (11_635, 11_434, 199)
    workload.jobs = [job | {"id": f"{number:05}"} for number, job in enumerate(workload.jobs)]
    run = pb.simulate(log, "fcfs", n_procs=13_249)
    starts = dict(run.jobs.select("id", "started_at").iter_rows())
    expected = _fcfs([(job["subtime"], float(job["profile"]), job["res"]) for job in workload.jobs], 13_249)
    assert [starts[f"w0!{number:05}"] for number in range(len(expected))] == expected
    waits = [start - job["subtime"] for start, job in zip(expected, workload.jobs, strict=True)]
    assert sum(waits) / len(waits) == pytest.approx(1905.0854469)


#: The mean wait of the first 1,069 jobs in ElastiSim's stored output, in its units of 100 s, and a digest of their
#: starts: github.com/EPCCed/mira-cirrus-elastisim, cirrus-cpu-simple-rigid/data/output/job_statistics.csv (2024-11-22).
_ELASTISIM_WAIT = 149.41721234798877
_ELASTISIM_STARTS = "e5765191add2bbd2b0398457a9cfe683b173bca682d77b4e57b67d5291aab176"


def test_fcfs_on_cirrus_repeats_the_starts_of_elastisim() -> None:
    """Jobs of at least 100 s, in units of 100 s rounded down, in file order. Later jobs do not change these starts."""
    log = pb.read_workload(real("today/Cirrus-2024-Q1.sacct.csv.gz"), n_procs=13_249)
    jobs = [
        (job["subtime"] // 100, float(job["profile"]) // 100, job["res"])
        for job in log.workload.jobs
        if float(job["profile"]) >= 100
    ]
    workload = Workload()
    for number, (at, run_s, n) in enumerate(jobs):
        workload.job(f"{number:04}", n=n, s=run_s, at=at)
    run = run_policy("fcfs", workload, n_procs=13_249)
    starts = [run.jobs[f"w0!{number:04}"].started_at for number in range(len(jobs))]
    text = " ".join(f"{start:.0f}" for start in starts)
    assert (len(jobs), hashlib.sha256(text.encode()).hexdigest()) == (1_069, _ELASTISIM_STARTS)
    waits = [start - at for start, (at, _, _) in zip(starts, jobs, strict=True)]
    assert sum(waits) / len(waits) == pytest.approx(_ELASTISIM_WAIT, rel=1e-12)
    assert sum(wait > 0 for wait in waits) == 366


def _fcfs(jobs: list[tuple[float, float, int]], n_free: int) -> list[float]:
    """Return the starts of jobs (submission, run time, size) under FCFS."""
    ends: list[tuple[float, int]] = []
    starts: list[float] = []
    now = 0.0
    for submitted_at, run_s, n in jobs:
        now = max(now, submitted_at)
        while ends and (ends[0][0] <= now or n_free < n):
            end, freed = heapq.heappop(ends)
            now, n_free = max(now, end), n_free + freed
        n_free -= n
        heapq.heappush(ends, (now + run_s, n))
        starts.append(now)
    return starts


def test_eagle() -> None:
    workload = load(real("today/NREL-Eagle-sample.csv.gz"))
    assert len(workload.jobs) == 1000
    assert {job["requested_time"] for job in workload.jobs} >= {1800, 172_800}  # seconds, not minutes


def test_columns_of_the_tests_are_known(tmp_path: Path) -> None:
    notes = read_slurm(sacct(tmp_path, sacct_line())).notes
    assert not [one for one in notes if one.startswith("columns")]
