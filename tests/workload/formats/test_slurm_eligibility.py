"""Eligible times, dependencies and array limits of logs of Slurm and tables, up to the starts of the jobs."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.logs import SACCT_ZERO, counts, sacct
from support.process import run_cli
from support.simulated import rows

import pybatsched as pb
from pybatsched.errors import InputError
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.slurm import read_slurm
from pybatsched.workload.logs.slurm_values import option_of

HEADER = "JobID|Submit|Eligible|Start|ElapsedRaw|NCPUS|Timelimit|State|User|JobName|Dependency|SubmitLine"


def line(job: str, at: float, run_s: float = 10, *, later: float = 0, state: str = "COMPLETED", **cells: Any) -> str:
    """Return a record that was eligible `later` seconds after its submission, and started then."""
    submit = SACCT_ZERO + at
    found = [job, submit, submit + later, submit + later, run_s, 2, "60", state, "ann", cells.get("name", job)]
    return "|".join(map(str, [*found, cells.get("after", ""), cells.get("by", "")]))


def jobs_of(folder: Path, *lines: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    workload, report = to_workload(read_slurm(sacct(folder, *lines, header=HEADER)))
    return list(workload.jobs), counts(report)


def starts(
    folder: Path, *lines: str, policy: str = "fcfs", n_procs: int = 64, **options: Any
) -> dict[str, float | None]:
    log = pb.read_workload(sacct(folder, *lines, header=HEADER), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rejected jobs
        jobs = pb.simulate(log, policy, n_procs=n_procs).jobs
    return {name.removeprefix("w0!"): at for name, at in jobs.select("id", "started_at").iter_rows()}


def test_a_job_does_not_start_beside_the_one_that_it_depends_on(tmp_path: Path) -> None:
    """Without the dependency, 102 starts at 10, beside 101."""
    lines = (line("101", 0, 100), line("102", 10, after="afterok:101", later=90), line("103", 20, 5))
    for policy in ("fcfs", "easy", "conservative"):
        assert starts(tmp_path, *lines, policy=policy) == {"101": 0, "102": 100, "103": 20}
    assert starts(tmp_path, *lines, ignore_eligibility=True) == {"101": 0, "102": 10, "103": 20}


def test_the_dependency_counts_and_not_when_it_ended_in_the_log(tmp_path: Path) -> None:
    """In the log 101 waited for 50 s, so that 102 was eligible at 150. Here 101 ends at 100."""
    lines = (line("101", 0, 100), line("102", 10, after="afterok:101", later=140), line("103", 20, 5, later=30))
    jobs, _ = jobs_of(tmp_path, *lines)
    assert [job.get("eligible_at") for job in jobs] == [None, None, 50]
    assert [job.get("eligible_after_s") for job in jobs] == [None, 140, 30]
    assert starts(tmp_path, *lines) == {"101": 0, "102": 100, "103": 50}


def test_a_job_whose_parents_ended_before_the_window_has_its_eligible_time(tmp_path: Path) -> None:
    lines = (line("1", 0, 500), line("2", 600), line("3", 610, after="afterok:1", later=40), line("4", 620))
    log = pb.read_workload(sacct(tmp_path, *lines, header=HEADER), begin=600)
    assert [(job["id"], job["subtime"], job.get("eligible_at")) for job in log.workload.jobs] == [
        ("2", 0, None), ("3", 10, 50), ("4", 20, None)
    ]  # fmt: skip


def test_the_limit_of_an_array(tmp_path: Path) -> None:
    """Tasks are eligible in the log when another one ended there. With the limit only the first time counts."""
    by = "sbatch --array=0-4%2 job.sh"
    lines = [line(f"7_{task}", 0, 10, later=2 + 30 * (task // 2), by=by) for task in range(5)]
    jobs, _ = jobs_of(tmp_path, *lines)
    assert [(job["array"], job["array_limit"], job["eligible_at"]) for job in jobs] == [("7", 2, 2)] * 5
    assert starts(tmp_path, *lines) == {"7_0": 2, "7_1": 2, "7_2": 12, "7_3": 12, "7_4": 22}
    waiting = line("7_[5-9%3]", 0, 0, state="PENDING")
    jobs, _ = jobs_of(tmp_path, *(one.replace(by, "") for one in lines), waiting)
    assert {job["array_limit"] for job in jobs} == {3}


@pytest.mark.parametrize(
    ("after", "made"),
    [
        ("afterok:1", "afterok:01"),
        ("afterok:1:2,afternotok:3", "afterok:01,afterok:02,afternotok:03"),
        ("afterany:1(unfulfilled)", "afterany:01"),
        ("after:1+30", "after:01+30"),
        ("after:1:2+5", "after:01,after:02+5"),
        ("afterok:1?afterok:2", "afterok:01?afterok:02"),
        ("afterok:1?afterok:99", None),
        ("afterok:1,afterok:99", "afterok:01"),
        ("afterok:10", "afterok:10"),
        ("afterok:10_*", "afterok:10"),
        ("afterok:10_1", "afterok:10_1"),
        ("aftercorr:10", "afterok:10"),
        ("afterburstbuffer:2", "afterany:02"),
        ("expand:1", None),
        ("singleton,after:3", "singleton,after:03"),
        ("1:2", "afterany:01,afterany:02"),
        ("afterok:4", "afterok:04-2"),  # it was requeued: its last attempt
        ("afterok:5", "afterok:05+0,afterok:05+1"),
        ("afterok:5+1", "afterok:05+1"),
        ("(null)", None),
    ],
)
def test_conditions_with_the_ids_of_the_workload(tmp_path: Path, after: str, made: str | None) -> None:
    parents = [line(one, 0) for one in ("1", "2", "3", "10_1", "10_2", "5+0", "5+1")]
    parents += [line("4", 0, state="PREEMPTED"), line("4", 1)]
    given: tuple[dict[str, Any], ...] = ({"after": after}, {"by": f"sbatch -p x --dependency={after} job.sh"})
    for cells in given:
        jobs, _ = jobs_of(tmp_path, *parents, line("6", 5, **cells))
        job = next(one for one in jobs if one["id"] == "06")
        assert job.get("depends_on") == made


def test_a_task_that_was_requeued_is_one_of_its_array(tmp_path: Path) -> None:
    lines = [
        line("1_1", 0, 10, state="PREEMPTED"),
        line("1_1", 10, 20),
        line("1_2", 0, 5),
        line("2", 1, after="afterok:1"),
    ]
    jobs, _ = jobs_of(tmp_path, *lines)
    assert {job["id"]: job.get("array") for job in jobs} == {"1_1": None, "1_1-2": "1", "1_2": "1", "2": None}
    assert starts(tmp_path, *lines) == {"1_1": 0, "1_1-2": 10, "1_2": 0, "2": 30}


def test_tasks_that_follow_tasks(tmp_path: Path) -> None:
    lines = [line(f"1_{task}", 0, 10 + task) for task in (1, 2, 3)]
    lines += [line(f"2_{task}", 1, 5, after="aftercorr:1") for task in (1, 2, 3)]
    found = starts(tmp_path, *lines)
    assert [found[f"2_{task}"] for task in (1, 2, 3)] == [11, 12, 13]


def test_parents_that_failed_in_the_log(tmp_path: Path) -> None:
    lines = (line("1", 0, state="FAILED"), line("2", 1, after="afternotok:1"), line("3", 1, after="afterok:1"))
    assert starts(tmp_path, *lines) == {"1": 0, "2": 10, "3": None}


def test_a_requeued_job_is_eligible_later(tmp_path: Path) -> None:
    lines = (line("1", 0, 20, state="PREEMPTED"), line("1", 20, 30, later=121), line("2", 5, after="afterok:1"))
    assert starts(tmp_path, *lines) == {"1": 0, "1-2": 141, "2": 171}


def test_the_summary_and_the_files(tmp_path: Path) -> None:
    file = sacct(tmp_path, line("1", 0), line("2", 1, after="afternotok:1"), line("3", 2, later=60), header=HEADER)
    done = run_cli("simulate", "-w", str(file), "--policy", "fcfs", "-e", "x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "x_summary.json").read_text())
    assert summary["warnings"] == ["1 job rejected, first reason: DependencyNeverSatisfied: afternotok:1"]
    figures = summary["policy_figures"]
    assert (figures["n_began_later"], figures["n_never_eligible"]) == (1, 1)
    by_id = {row["job_id"]: row for row in rows(tmp_path / "x_jobs.csv")}
    assert by_id["3"]["metadata"] == "eligible_after_s=60"
    done = run_cli("simulate", "-w", str(file), "--policy", "fcfs", "-e", "y", "--ignore-eligibility", cwd=tmp_path)
    assert "2 jobs with an eligible time, a dependency, a limit or a hold, which are ignored" in done.stderr
    assert "policy_figures" not in json.loads((tmp_path / "y_summary.json").read_text())


def test_a_file_with_conditions_on_jobs_that_are_not_there(tmp_path: Path) -> None:
    """They count as met at once, not when all jobs are submitted."""
    jobs = [
        {"id": 1, "subtime": 0, "res": 1, "profile": "d", "depends_on": "afterok:99"},
        {"id": 2, "subtime": 50, "res": 1, "profile": "d", "depends_on": ["1", "afterok:98"]},
        {"id": 3, "subtime": 60, "res": 1, "profile": "d", "depends_on": "afterok:1?afterok:9"},
    ]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 5}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    done = run_cli("simulate", "-w", "w.json", "--policy", "fcfs", "-e", "x", cwd=tmp_path)
    assert "w.json: 3 jobs: depends on a job that is not in the run, which counts as met" in done.stderr
    assert [float(row["starting_time"]) for row in rows(tmp_path / "x_jobs.csv")] == [0, 50, 60]
    log = pb.read_workload(tmp_path / "w.json")
    assert pb.simulate(log, "fcfs").jobs["started_at"].to_list() == [0, 50, 60]
    jobs[0]["depends_on"] = "afterwards:2"
    (tmp_path / "w.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="job 1, field depends_on: expected conditions such as"):
        pb.simulate(pb.read_workload(tmp_path / "w.json"), "fcfs")


def test_rules_follow_their_jobs(tmp_path: Path) -> None:
    """Times are moved with submissions, and ids are those of a merged or resampled workload."""
    lines = (line("1", 0), line("2", 100, later=50), line("3", 110, after="afterok:2"), line("4_1", 120, by="-a 1%1"))
    log = pb.read_workload(sacct(tmp_path, *lines, header=HEADER))
    half = log.with_load(2 * log.figures["offered_load"]).workload.jobs
    assert (half[1]["subtime"], half[1]["eligible_at"]) == (50, 100)
    args = ("workload", "merge", "a=sacct.txt", "--output", "m.json")
    done = run_cli(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    merged = json.loads((tmp_path / "m.json").read_text())["jobs"]
    assert (merged[2]["depends_on"], merged[3]["array"]) == ("afterok:a-2", "a-4")


def test_a_table_with_eligible_times_and_dependencies(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "jid": [1, 2, 3],
            "sub": [0, 5, 6],
            "el": [0, 5, 40],
            "run": [20, 5, 5],
            "cores": [1] * 3,
            "on": ["", "afterok:1", ""],
        }
    )
    table.write_csv(tmp_path / "t.csv")
    columns = {"id": "jid", "submit": "sub", "eligible": "el", "run_time": "run", "cores": "cores", "depends_on": "on"}
    mapping = ["[table]", "origin = 0", "[columns]", *(f'{name} = "{column}"' for name, column in columns.items())]
    (tmp_path / "m.toml").write_text("\n".join(mapping))
    log = pb.read_workload(tmp_path / "t.csv", mapping=str(tmp_path / "m.toml"))
    jobs = pb.simulate(log, "fcfs", n_procs=8).jobs
    assert jobs["started_at"].to_list() == [0, 20, 40]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sbatch -d afterok:1 x", "afterok:1"),
        ("sbatch --dependency afterok:1 x", "afterok:1"),
        ("sbatch --dependency='singleton' x", "singleton"),
        ("sbatch -dafterany:7 x", "afterany:7"),
        ("sbatch run-d afterok:1", ""),
        ("sbatch", ""),
    ],
)
def test_options_of_submissions(text: str, found: str) -> None:
    assert option_of(text, "dependency", "d") == found
