"""Files of the Rackham format in commands and campaigns, their findings in lint, and real files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import process
from support.logs import ONE_OF_EACH, rackham_file, rackham_line, real, rows_of

from pybatsched.errors import InputError
from pybatsched.workload import load
from pybatsched.workload.checks.job_order import OTHER_ORDER
from pybatsched.workload.checks.lint import lint
from pybatsched.workload.formats import batsim4
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.rackham import OVER, RUNNING, WAITING, JobClass, read_rackham
from pybatsched.workload.statistics import stats
from pybatsched.workload.walltimes import OVERRAN_STRICT

SEPTEMBER = "rackham/rackham-2022-09-10_V10000_anonymous.txt.gz"
MARCH = "rackham/rackham-2022-03-01_V10000.txt.gz"


def run_cli(*args: object) -> subprocess.CompletedProcess[str]:
    return process.run_cli(*map(str, args))


def test_convert(tmp_path: Path) -> None:
    file, out = rackham_file(tmp_path, *ONE_OF_EACH, "{ id: 5"), tmp_path / "w.json"
    done = run_cli("workload", "convert", file, out)
    assert (done.returncode, done.stderr) == (
        2,
        f'pybatsched: {file}: line 6: expected a }} at the end of the line, found "{{ id: 5"\n',
    )
    options = ("--lenient", "--procs", "40", "--profile", "parallel", "--speed", "1e6", "--walltimes", "exact")
    done = run_cli("workload", "convert", file, out, *options, "--max-size", "10")
    assert done.stdout.splitlines() == [
        "6 jobs read, 4 kept, 2 dropped",
        "dropped:",
        "        1  bad line, expected a } at the end of the line: dropped (line 6)",
        "        1  larger than the greatest size: dropped (line 1)",
        "changed:",
        "        1  ran at time 0: submitted then, run time and walltime shortened by what had passed (line 2)",
        f"wrote {out}: 4 jobs for 40 processors, submitted from 0 s to 200 s",
    ]
    workload = batsim4.read(out)
    assert workload.profiles["250"] == {"type": "parallel_homogeneous", "cpu": 250_000_000, "com": 0}
    assert workload.about["conversion"] == {
        "walltimes": "exact",
        "duplicates": "renumber",
        "profile": "parallel",
        "speed": 1e6,
    }


@pytest.mark.parametrize(
    ("option", "formats"),
    [("--size requested", "a log in SWF, a log of Slurm or a table"), ("--memory-unit MB", "a log in SWF")],
)
def test_convert_rejects_options_of_other_formats(tmp_path: Path, option: str, formats: str) -> None:
    file = rackham_file(tmp_path, *ONE_OF_EACH)
    done = run_cli("workload", "convert", file, tmp_path / "w.json", *option.split())
    message = f"pybatsched: {option}: expected {formats}, found a file of the Rackham format, {file}\n"
    assert (done.returncode, done.stderr) == (2, message)
    assert not (tmp_path / "w.json").exists()


def test_a_shift_of_a_batsim_file_moves_logged_starts(tmp_path: Path) -> None:
    workload = load(rackham_file(tmp_path, *ONE_OF_EACH))
    workload.jobs = [job | {"subtime": job["subtime"] + 30} for job in workload.jobs]
    batsim4.write(workload, tmp_path / "w.json")
    assert run_cli("workload", "convert", tmp_path / "w.json", tmp_path / "v.json", "--shift-to-zero").returncode == 0
    assert [job.get("history_start") for job in batsim4.read(tmp_path / "v.json").jobs] == [None, -80, *[None] * 3]


def test_stats_are_those_of_the_workload(tmp_path: Path) -> None:
    file = rackham_file(tmp_path, *ONE_OF_EACH, rackham_line(12, 1000, 0))
    figures = stats.summary(stats.sample(file))
    assert (figures["jobs"], figures["jobs_left_out"], figures["processors"], figures["span_s"]) == (5, 1, 9720, 200)
    assert (figures["users"], figures["overran_share"]) == (3, 0.2)
    assert stats.sample(file, 40).n_procs == 40


def test_lint_of_a_clean_file_has_no_findings(tmp_path: Path) -> None:
    found = lint(rackham_file(tmp_path, *ONE_OF_EACH[:-1]))
    assert (found.format, found.n_jobs, found.n_procs, found.findings) == ("Rackham", 4, 9720, {})


@pytest.mark.parametrize(
    ("lines", "odd", "notes"),
    [
        ([rackham_line(1, 9), rackham_line(2, 5)], {"submitted before the job above it": [2]}, {}),
        ([rackham_line(1), rackham_line(1)], {"id given before": [2]}, {}),
        ([rackham_line(1), rackham_line(2, size=5)], {"data_size is not that of the same data above": [2]}, {}),
        ([rackham_line(1), rackham_line(2, -1)], {"subtime unknown or negative": [2]}, {}),
        ([rackham_line(1, 0, 0)], {"delay of 0, unknown or negative": [1]}, {}),
        ([rackham_line(1, walltime=-1)], {"walltime of 0, unknown or negative": [1]}, {}),
        ([rackham_line(1, 0, 600)], {"ran at least as long as its walltime": [1]}, {}),
        ([rackham_line(1, cores=0)], {"no cores": [1]}, {}),
        ([rackham_line(1, cores=21)], {"larger than a node of 20 cores": [1]}, {}),
        ([rackham_line(1, cores=9721)], {"larger than the machine of 9,720": [1]}, {}),
        ([rackham_line(1, 5, kind=1), rackham_line(2, 9)], {"of class 0, 1 or 2, but submitted before time 0": [1]},
         {}),
        ([rackham_line(1, 5, kind=-2, started=10), rackham_line(2, 9)], {"ran at time 0, but was started later": [1]},
         {}),
        ([rackham_line(1, kind=-1)], {"no job of class 0, 1 or 2, whose submission is time 0": [1]}, {}),
        ([rackham_line(1, kind=1)], {},
         {"no job of class 0: time 0 is the first submission of class 1 or 2, at 0 s": [1]}),
        ([rackham_line(1, kind=-2, node=487), rackham_line(2, 60)], {},
         {"ran at time 0, but its run time or walltime was over": [1], "ran on a node beyond the machine's 486": [1]}),
        ([rackham_line(1), "{ id: x }"], {"bad line: field subtime: expected on every line": [2]}, {}),
    ],
)  # fmt: skip
def test_lint_finds_unusual_lines(tmp_path: Path, lines: list[str], odd: dict[str, Any], notes: dict[str, Any]) -> None:
    found = lint(rackham_file(tmp_path, *lines))
    by_level: dict[str, dict[str, Any]] = {"odd": {}, "note": {}}
    for finding in found.findings.values():
        by_level[finding.level][finding.what] = finding.places
        assert finding.remedy
    assert by_level == {"odd": odd, "note": notes}


def test_instants_whose_jobs_are_not_in_the_order_of_their_ids(tmp_path: Path) -> None:
    early = [rackham_line(3, 5, kind=-1), rackham_line(2, 7, kind=-1)]  # both are submitted at time 0
    later = [rackham_line(11, 1100), rackham_line(9, 1100), rackham_line(10, 1100), rackham_line(12, 1100)]
    found = lint(rackham_file(tmp_path, *early, rackham_line(4, 1000), *later))
    finding = found.findings[OTHER_ORDER]
    assert (finding.level, finding.count, finding.places) == ("note", 2, [1, 4])


def test_the_node_list_of_the_study_is_rejected_as_a_workload(tmp_path: Path) -> None:
    file = rackham_file(tmp_path, "{ id: 0 memory: 128 bandwidth: 0.1 core: 20 }")
    with pytest.raises(InputError, match=r"line 1: expected a field of the Rackham format; no line of"):
        lint(file)


@pytest.mark.parametrize(
    ("name", "zero_at", "n_jobs", "n_evaluated", "n_running", "n_waiting", "n_over", "n_overran", "last_at"),
    [
        (SEPTEMBER, 6_071_695, 21_819, 1511, 2041, 865, 8, 276, 255_887),
        (MARCH, 978_662, 11_675, 5300, 705, 795, 0, 539, 171_975),
    ],
)
def test_real_files(
    name: str,
    zero_at: int,
    n_jobs: int,
    n_evaluated: int,
    n_running: int,
    n_waiting: int,
    n_over: int,
    n_overran: int,
    last_at: int,
) -> None:
    """All jobs are kept; time 0 is where the first line of class 0 is; texts of ids are in the order of the file."""
    trace = read_rackham(real(name))
    assert (trace.zero_at, trace.remarks) == (zero_at, [])
    assert next(job.submitted_at for job in rows_of(trace) if job.kind == JobClass.WARM_UP) == zero_at
    assert all((job.submitted_at < zero_at) == (job.kind < JobClass.WARM_UP) for job in rows_of(trace))
    workload, report = to_workload(trace)
    assert (report.n_read, report.n_kept, len(workload.jobs), workload.n_procs) == (n_jobs, n_jobs, n_jobs, 9720)
    assert {rule: rule_count.count for rule, rule_count in report.rule_counts.items()} == {
        rule: n
        for rule, n in ((RUNNING, n_running), (WAITING, n_waiting), (OVER, n_over), (OVERRAN_STRICT, n_overran))
        if n
    }
    jobs = workload.jobs
    assert sum(job["evaluated"] for job in jobs) == n_evaluated
    assert [job["id"] for job in jobs] == [f"{number:05}" for number in range(1, n_jobs + 1)]
    assert [job["subtime"] for job in jobs] == sorted(job["subtime"] for job in jobs)
    assert (jobs[n_running + n_waiting]["subtime"], jobs[-1]["subtime"]) == (0, last_at)
    delays = {profile: content["delay"] for profile, content in workload.profiles.items()}
    assert sum(delays[job["profile"]] > job["walltime"] for job in jobs) == n_overran
    assert all(job["input_size_gb"] == pytest.approx(6.4 * job["res"]) for job in jobs)
    for row, job in zip(rows_of(trace), jobs, strict=True):
        passed = zero_at - row.started_at if row.kind == JobClass.RUNNING else 0
        assert delays[job["profile"]] == max(row.run_s - passed, 1)
        assert job["walltime"] == row.requested_s - passed
        assert job["alone_s"] == pytest.approx(row.run_s + row.size_gb / 0.1, abs=1e-6)
        assert job.get("history_start") == (-passed if row.kind == JobClass.RUNNING else None)
        assert job.get("history_node") == (row.node - 1 if row.kind == JobClass.RUNNING else None)
