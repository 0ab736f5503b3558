"""Unusual logs: several partitions, no waits, byte order marks, no machine size, and no requests."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from support.logs import line, log, trace
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError, spelled
from pybatsched.metrics import jobs_csv
from pybatsched.workload import load
from pybatsched.workload.checks.lint import lint
from pybatsched.workload.logs.swf import read_swf
from pybatsched.workload.weeks import WEEK_S, busy_weeks, weeks_of

MARK = b"\xef\xbb\xbf"
LOG = (
    line(1, 0, partition=1, application="md"),
    line(2, 5, partition="gpu"),
    line(3, 9, partition=1, preceding=2),
    line(4, 9, partition=2),
    line(5, 11),
)


def test_partition_and_application_are_kept(tmp_path: Path) -> None:
    made = load(log(tmp_path, *LOG))
    assert [(job.get("partition"), job.get("application")) for job in made.jobs] == [
        (1, "md"),
        ("gpu", None),
        (1, None),
        (2, None),
        (None, None),
    ]


def test_a_log_can_be_limited_to_partitions(tmp_path: Path) -> None:
    log(tmp_path, *LOG)
    done = run_cli("workload", "convert", "log.swf", "w.json", "--partition", "1", "--partition", "gpu", cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "5 jobs read, 3 kept, 2 dropped",
        "dropped:",
        "        2  of another partition: dropped (lines 6, 7)",
        "changed:",
        "        3  no requested time: estimate is the run time, walltime the run time + 1 (lines 3, 4, 5)",
        "noted:",
        "        1  of some partitions alone: the machine is still the whole one, 8 processors (or --procs)",
        "wrote w.json: 3 jobs for 8 processors, submitted from 0 s to 9 s",
    ]
    content = json.loads((tmp_path / "w.json").read_text())
    assert [job["id"] for job in content["jobs"]] == [1, 2, 3]
    assert content["selection"] == {"partitions": ["1", "gpu"]}
    assert (content["report"]["read"], content["report"]["dropped"]) == (5, 2)
    again = run_cli("workload", "convert", "w.json", "v.json", "--partition", "1", "--procs", "4", cwd=tmp_path)
    assert again.returncode == 0
    content = json.loads((tmp_path / "v.json").read_text())
    assert [(job["id"], job.get("depends_on")) for job in content["jobs"]] == [(1, None), (3, None)]
    assert "1  of another partition: dropped (job 2)" in again.stdout
    quiet = run_cli("workload", "convert", "log.swf", "w.json", "--partition", "1", "--procs", "4", cwd=tmp_path)
    assert "noted" not in quiet.stdout


def test_a_window_counts_from_the_first_submission_of_the_partitions(tmp_path: Path) -> None:
    file = log(tmp_path, *(line(k, 100 * k, partition=k % 2) for k in range(1, 9)))
    pb.read_workload(file).write(tmp_path / "w.json")
    how: dict[str, Any] = {"partitions": "0", "begin": 100, "end": 500, "warm_up": 10}
    first, second = (pb.read_workload(one, **how).jobs for one in (file, tmp_path / "w.json"))
    assert first["id"].to_list() == ["w0!4", "w0!6"]
    assert first.select("id", "submitted_at", "evaluated").equals(second.select("id", "submitted_at", "evaluated"))


def test_a_partition_that_is_not_there(tmp_path: Path) -> None:
    log(tmp_path, *LOG)
    done = run_cli("workload", "convert", "log.swf", "w.json", "--partition", "3", cwd=tmp_path)
    assert done.returncode == 2
    message = "log.swf: partition '3': expected a partition of the log: 1 (2 jobs), 2 (1 job), gpu (1 job)"
    assert message in done.stderr
    run_cli("workload", "convert", "log.swf", "w.json", cwd=tmp_path)
    done = run_cli("workload", "convert", "w.json", "v.json", "--partition", "3", cwd=tmp_path)
    assert (done.returncode, "partition '3': expected a partition of the jobs: 1, 2, gpu" in done.stderr) == (2, True)


def test_simulations_stats_and_campaigns_take_partitions(tmp_path: Path) -> None:
    file = log(tmp_path, *LOG)
    args = ("--procs", "4", "-w", "log.swf", "--policy", "easy", "--partition", "1")
    done = run_cli("simulate", *args, cwd=tmp_path)
    assert done.returncode == 0
    assert [job.id for job in jobs_csv.read(tmp_path / "out_jobs.csv")] == ["w0!1", "w0!3"]
    assert json.loads((tmp_path / "out_summary.json").read_text())["selection"] == {"partitions": ["1"]}
    figures = json.loads(run_cli("workload", "stats", str(file), "--json", "--partition", "1").stdout)
    assert figures["jobs"] == 2
    spec = WorkloadTable.model_validate({"name": "log", "file": "log.swf", "partitions": ["gpu", 2]})
    (made,) = Preparer(tmp_path / "kept", [tmp_path]).prepare(spec, 0)
    assert [job["id"] for job in json.loads(Path(made.path).read_text())["jobs"]] == [2, 4]


def test_runs_that_have_read_a_log_in_other_ways_have_other_inputs(tmp_path: Path) -> None:
    log(tmp_path, *LOG)
    for name, more in (("a", ()), ("b", ("--partition", "1"))):
        args = ("simulate", "--procs", "4", "-w", "log.swf", "--policy", "easy", "-e", name, *more)
        assert run_cli(*args, cwd=tmp_path).returncode == 0
    done = run_cli("compare", "a_summary.json", "b_summary.json", cwd=tmp_path)
    assert "the two runs have different inputs: selection" in done.stderr


def test_weeks_of_a_partition(tmp_path: Path) -> None:
    lines = [line(k + 1, k * WEEK_S // 2, run=WEEK_S, allocated=8, partition=k % 2) for k in range(8)]
    log(tmp_path, *lines)
    done = run_cli(
        *["workload", "convert", "log.swf", "w.json", "--week", "2", "--partition", "1", "--procs", "8"], cwd=tmp_path
    )
    assert done.stdout.splitlines()[:4] == [
        "week 2 of 4: logged utilisation 100.0%",
        "8 jobs read, 1 kept, 7 dropped",
        "dropped:",
        "        4  of another partition: dropped (lines 3, 5, 7, 9)",
    ]


def test_lint_notes_several_partitions(tmp_path: Path) -> None:
    found = lint(log(tmp_path, *LOG)).findings["jobs of 3 partitions, the largest 1"]
    assert (found.level, spelled(found.remedy)) == ("note", "all are taken (or partitions)")
    assert not any("partitions" in what for what in lint(log(tmp_path, LOG[0], LOG[2])).findings)


def test_without_waits_the_utilisation_of_weeks_is_unknown(tmp_path: Path) -> None:
    lines = [line(k + 1, k * WEEK_S, wait=-1, run=WEEK_S, allocated=8) for k in range(3)]
    made = trace(tmp_path, *lines)
    weeks = weeks_of(made, 8)
    assert [(week.utilisation, week.n_jobs) for week in weeks] == [(None, 1)] * 3
    with pytest.raises(InputError, match="the log has no waits"):
        busy_weeks(weeks)
    done = run_cli(*["workload", "convert", "log.swf", "w.json", "--week", "2"], cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "week 2 of 3: offered load 100.0%"
    assert json.loads((tmp_path / "w.json").read_text())["week"] == {"number": 2, "offered_load": 1.0}
    done = run_cli(*["workload", "convert", "log.swf", "w.json", "--weeks"], cwd=tmp_path)
    assert done.returncode == 2
    assert (
        "log.swf: the log has no waits, so the utilisation of its weeks is unknown; choose weeks by their offered"
        in done.stderr
    )
    assert "logged utilisation" not in run_cli("workload", "stats", "log.swf", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1,024", 1024),
        ("163,840 (40 racks)", 163840),
        ("1664 (72, 1368, 224)", 1664),
        ("128, 256", 128),
        ("1024,512", None),
        ("1,02", None),
        ("12.5", None),
        ("0", None),
    ],
)
def test_counts_in_headers(text: str, count: int | None, tmp_path: Path) -> None:
    assert trace(tmp_path, line(), header=f"; MaxProcs: {text}\n").header_count("MaxProcs") == count


@pytest.mark.parametrize("header", ["; MaxProcs: 8\n", ""])
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_not_part_of_a_field(header: str, packed: bool, tmp_path: Path) -> None:
    plain = read_swf(log(tmp_path, line(7, 3), line(8, 4), header=header))
    content = MARK + (tmp_path / "log.swf").read_bytes()
    (tmp_path / "log.swf").write_bytes(gzip.compress(content) if packed else content)
    marked = read_swf(tmp_path / "log.swf")
    assert marked.jobs.equals(plain.jobs)
    assert marked.header == plain.header


def test_a_byte_order_mark_in_all_that_is_read(tmp_path: Path) -> None:
    log(tmp_path, line(1))
    run_cli("workload", "convert", "log.swf", "w.json", cwd=tmp_path)
    (tmp_path / "events.txt").write_text('{"type": "machine_unavailable", "timestamp": 1, "resources": "3"}\n')
    (tmp_path / "config.toml").write_text('[policy.easy]\norder = "sjf"\n')
    (tmp_path / "cfg.json").write_text('{"assume_walltime": 5}')
    for name in ("w.json", "events.txt", "config.toml", "cfg.json"):
        (tmp_path / name).write_bytes(MARK + (tmp_path / name).read_bytes())
    args = "--procs 4 -w w.json --policy easy --events events.txt --config config.toml --sched-cfg-file cfg.json -e a"
    done = run_cli("simulate", *args.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    policy = json.loads((tmp_path / "a_summary.json").read_text())["policy"]
    assert (policy["options"]["order"], policy["options"]["assume_walltime"]) == ("sjf", 5)
    plain = run_cli("metrics", "a", "--json", cwd=tmp_path).stdout
    for name in ("a_jobs.csv", "a_summary.json", "a_schedule.csv"):
        (tmp_path / name).write_bytes(MARK + (tmp_path / name).read_bytes())
    marked = run_cli("metrics", "a", "--json", cwd=tmp_path)
    assert (marked.returncode, marked.stdout) == (0, plain)
    assert run_cli("compare", "a_summary.json", "a_summary.json", cwd=tmp_path).returncode == 0


def test_a_log_without_a_machine_size_gives_no_size_warning(tmp_path: Path) -> None:
    log(tmp_path, line(1, allocated=2), line(2, 5, allocated=16), header="")
    done = run_cli("simulate", "--procs", "200", "-w", "log.swf", "--policy", "easy", cwd=tmp_path)
    assert done.returncode == 0
    assert "MaxProcs" not in done.stderr
    assert "made for" not in done.stderr
    small = run_cli("simulate", "--procs", "4", "-w", "log.swf", "--policy", "easy", cwd=tmp_path)
    assert "warning: 1 of 2 jobs was rejected: the machine is too small" in small.stdout
    assert "made for" not in small.stderr
    cut = run_cli(
        *["simulate", "--procs", "200", "--mmax-workload", "-w", "log.swf", "--policy", "easy", "-e", "cut"],
        cwd=tmp_path,
    )
    assert "the machine has the processors of the largest job, 16" in cut.stderr  # which is what was asked for
    assert json.loads((tmp_path / "cut_summary.json").read_text())["n_procs"] == 16


@pytest.mark.parametrize(
    ("policy", "options", "name"),
    [
        ("conservative", (), ("conservative", "assume_walltime=SECONDS")),
        ("dbf", (), ("dbf", "assume_walltime=SECONDS")),
        ("reallocation", (), ("conservative", 'local_options={"assume_walltime": SECONDS}')),
        ("redirection", ("principal=conservative",),
         ("conservative", 'principal_options={"assume_walltime": SECONDS}')),
        ("redirection", ("redirected=conservative",),
         ("conservative", 'redirected_options={"assume_walltime": SECONDS}')),
        ("easy", (), None),
        ("conservative", ("assume_walltime=60",), None),
        ("reallocation", ('local_options={"assume_walltime": 60}',), None),
    ],
)  # fmt: skip
def test_jobs_that_will_be_rejected_for_want_of_a_request(
    policy: str, options: tuple[str, ...], name: tuple[str, str] | None, tmp_path: Path
) -> None:
    """The advice is an option that the policy has: with a number for SECONDS it can be given."""
    log(tmp_path, line(1, requested_s=90), line(2, 1), line(3, 2))
    given = [text for option in options for text in ("-o", option)]
    args = ["--procs", "8", "-w", "log.swf", "--policy", policy, *given]
    done = run_cli("simulate", *args, "--walltimes", "requested-strict", cwd=tmp_path)
    if name is None:
        assert "neither walltime nor estimate" not in done.stderr
    else:
        reserving, option = name
        warning = (
            f"log.swf: 2 of 3 jobs have neither walltime nor estimate, and {reserving} rejects them: plan them with -o "
            f"{shlex.quote(option)}, or, in a log, with their run times by --walltimes requested"
        )
        assert warning in done.stderr
        more = ("--walltimes", "requested-strict", "-o", option.replace("SECONDS", "60"))
        followed = run_cli("simulate", *args, *more, cwd=tmp_path)
        assert followed.returncode == 0, followed.stderr
        assert "neither walltime nor estimate" not in followed.stderr
    assert "neither walltime nor estimate, and" not in run_cli("simulate", *args, cwd=tmp_path).stderr


def test_a_run_has_its_machine_and_notes_count_no_jobs(tmp_path: Path) -> None:
    """A run has the size of its machine, and notes on a whole log are not counted as jobs."""
    log(tmp_path, *LOG)
    args = ("simulate", "--procs", "6", "-w", "log.swf", "--policy", "easy")
    done = run_cli(*args, "--partition", "1", "--partition", "gpu", cwd=tmp_path)
    assert "--procs N" not in done.stderr
    assert "log.swf: 2 jobs: of another partition: dropped\n" in done.stderr
    (tmp_path / "log.swf").write_text((tmp_path / "log.swf").read_text().replace("MaxProcs", "MaxNodes"))
    errors = run_cli(*args, cwd=tmp_path).stderr
    assert "log.swf: no MaxProcs in the header: the machine has its MaxNodes, 8 processors\n" in errors
    one = run_cli(*args, "--max-jobs", "1", cwd=tmp_path).stderr
    assert "log.swf: 1 job: no requested time" in one
    assert "1 jobs" not in one
