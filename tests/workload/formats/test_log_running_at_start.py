"""Jobs of a log that run when the window begins: which they are, what is left of them, and their processors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import logs
from support.logs import SACCT_ZERO, sacct
from support.process import run_cli
from support.simulated import rows

import pybatsched as pb
from pybatsched.core.node_lists import nodes_in
from pybatsched.errors import InputError
from pybatsched.platform.model import uniform
from pybatsched.runs.running_jobs import placed

HEADER = "JobID|Submit|Start|ElapsedRaw|NCPUS|Timelimit|NodeList|Dependency"
#: Submission, wait, run time and processors. At 160 the first two run, the third one waits, and the fourth has ended.
JOBS = ((0, 0, 1000, 2), (100, 50, 300, 3), (110, 200, 20, 1), (120, 0, 40, 1), (200, 0, 50, 3), (400, 110, 5, 8))
NODES = ("n2", "n[3-4]", "n1", "n1", "n[3-4]", "n[1-4]")


def slurm(folder: Path, **after: str) -> Path:
    lines = [
        f"{number}|{SACCT_ZERO + at}|{SACCT_ZERO + at + wait}|{run}|{n}|20|{nodes}|{after.get(f'of_{number}', '')}"
        for number, ((at, wait, run, n), nodes) in enumerate(zip(JOBS, NODES, strict=True), 1)
    ]
    return sacct(folder, *lines, header=HEADER)


def swf(folder: Path) -> Path:
    lines = [
        logs.line(number, at, wait=wait, run=run, allocated=n, requested_s=1200)
        for number, (at, wait, run, n) in enumerate(JOBS, 1)
    ]
    file = folder / "log.swf"
    file.write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("file_of", [slurm, swf])
def test_the_rest_of_the_jobs_that_run_then(file_of: Any, tmp_path: Path) -> None:
    log = pb.read_workload(file_of(tmp_path), begin=160, running_at_start=True)
    names = ("subtime", "profile", "walltime", "evaluated", "running_at_start")
    assert [(int(job["id"]), *map(job.get, names)) for job in log.workload.jobs] == [
        (1, 0, "840", 1040, False, True),
        (2, 0, "290", 1190, False, True),
        (5, 40, "50", 1200, True, None),
        (6, 240, "5", 1200, True, None),
    ]
    report = log.workload.about["report"]
    assert (report["read"], report["kept"], report["dropped"]) == (6, 4, 2)


@pytest.mark.parametrize(
    ("options", "running", "others"),
    [
        ({"begin": 160}, ["1", "2"], ["5", "6"]),
        ({"begin": 160, "window_clock": "log"}, ["1", "2"], ["5", "6"]),  # time 0 is the submission of 5, at 200
        ({"begin": 160, "max_jobs": 1}, ["1", "2"], ["5"]),
        ({"begin": 210, "warm_up": 50}, ["1", "2"], ["5", "6"]),  # time 0 is 160
        ({"begin": 400}, ["1", "2"], ["6"]),
        ({"begin": 120}, ["1"], ["4", "5", "6"]),
        ({"end": 300}, [], ["1", "2", "3", "4", "5"]),
        ({}, [], ["1", "2", "3", "4", "5", "6"]),
    ],
)
def test_which_jobs_run_then(options: dict[str, Any], running: list[str], others: list[str], tmp_path: Path) -> None:
    jobs = pb.read_workload(slurm(tmp_path), running_at_start=True, **options).workload.jobs
    assert [job["id"] for job in jobs if "running_at_start" in job] == running
    assert [job["id"] for job in jobs if "running_at_start" not in job] == others
    assert [job.get("evaluated", True) for job in jobs if job["id"] in running] == [False] * len(running)


def test_the_schedule_and_the_summary(tmp_path: Path) -> None:
    """Job 5 starts beside the other two, and job 6 when all have ended. Only these two count."""
    args = ("simulate", "-w", str(slurm(tmp_path)), "--procs", "8", "--policy", "easy", "-e", "x", "--from", "160")
    done = run_cli(*args, "--running-at-start", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 jobs: runs at the start of the window: kept with the rest of its run time" in done.stderr
    assert "the window has 2 jobs" in done.stderr
    found = {row["job_id"]: row for row in rows(tmp_path / "x_jobs.csv")}
    spans = {name: (float(row["starting_time"]), float(row["finish_time"])) for name, row in found.items()}
    assert spans == {"1": (0, 840), "2": (0, 290), "5": (40, 90), "6": (840, 845)}
    assert (found["1"]["allocated_resources"], found["2"]["allocated_resources"]) == ("0-1", "2-4")
    summary = json.loads((tmp_path / "x_summary.json").read_text())
    assert (summary["running_at_start"], summary["n_not_evaluated"]) == (True, 2)
    assert summary["policy_figures"] == {"n_running_at_start": 2}
    assert summary["figures"]["mean_wait_s"] == 300
    done = run_cli("metrics", "x", cwd=tmp_path)  # reads the log again
    assert "2 of 4 jobs are left out" in done.stdout


def test_a_job_that_depends_on_one_of_them(tmp_path: Path) -> None:
    """Job 2 ends at 450 of the log, 290 of the run."""
    log = pb.read_workload(slurm(tmp_path, of_5="afterok:2"), begin=160, running_at_start=True)
    jobs = pb.simulate(log, "easy", n_procs=16).jobs
    assert dict(jobs.select("id", "started_at").iter_rows())["w0!5"] == 290


def test_they_run_on_their_nodes(tmp_path: Path) -> None:
    log = pb.read_workload(slurm(tmp_path), begin=160, running_at_start=True)

    def procs_on(*names: str) -> list[Any]:
        platform = uniform(len(names), properties=[{"node": name} for name in names])
        jobs = placed({"w0": log.workload}, platform)["w0"].jobs
        return [job["running_at_start"] for job in jobs if "running_at_start" in job]

    assert procs_on("n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4") == ["2-3", "4-6"]
    assert procs_on("n1", "n1", "n2", "n2", "n3", "n4") == ["2-3", "0-1 4"]  # too few on n3 and n4
    assert procs_on("n1", "n1", "n1", "n2", "n2", "n3", "n4") == ["3-4", "0-2"]
    assert procs_on("a", "b", "c", "d", "e", "f") == [True, True]


def test_a_campaign_and_a_conversion(tmp_path: Path) -> None:
    slurm(tmp_path)
    done = run_cli("workload", "convert", "sacct.txt", "w.json", "--from", "160", "--running-at-start", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    converted = json.loads((tmp_path / "w.json").read_text())
    assert [job.get("running_at_start") for job in converted["jobs"]] == [True, True, None, None]
    (tmp_path / "c.toml").write_text(
        "name = 'c'\n[[platform]]\nname = 'p'\nn_procs = 8\n[[policy]]\nname = 'easy'\n"
        "[[workload]]\nname = 'log'\nfile = 'sacct.txt'\nfrom = 160\nrunning_at_start = true\n"
    )
    done = run_cli("campaign", "run", "c.toml", "--output", "out", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run_cli("campaign", "table", "out", "--figures", "n_running_at_start,n_jobs", cwd=tmp_path)
    assert done.stdout.split()[-2:] == ["2", "2"]


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 1, "jobs": [], "profiles": {}}))
    with pytest.raises(InputError, match="running_at_start"):
        pb.read_workload(tmp_path / "w.json", running_at_start=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,7],gpu01", ["n1", "n2", "n3", "n7", "gpu01"]),
        ("r[08-10]-a", ["r08-a", "r09-a", "r10-a"]),
        ("", []),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]) -> None:
    assert nodes_in(text) == names
