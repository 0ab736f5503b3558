"""The Rackham format: read line by line, time 0, history, and jobs as the study has them."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import process
from support.logs import line, log, rackham_file, rackham_line, real

from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadSpec
from pybatsched.errors import InputError
from pybatsched.workload import batsim_json, files, load, stats
from pybatsched.workload.lint import lint
from pybatsched.workload.logs import (
    MOVED,
    NO_RUN_TIME,
    NO_SUBMISSION,
    RAISED,
    RENUMBERED,
    TOO_LARGE,
    LogOptions,
)
from pybatsched.workload.model import Workload
from pybatsched.workload.rackham import (
    EARLY,
    LATE,
    NO_CORES,
    OUT_OF_TURN,
    OVER,
    RUNNING,
    WAITING,
    time_zero,
    to_workload,
)
from pybatsched.workload.rackham_file import FIELDS, Kind, RackhamJob, RackhamTrace, read_rackham
from pybatsched.workload.report import Report
from pybatsched.workload.selection import OUTSIDE, TOO_MANY, Selection
from pybatsched.workload.walltimes import OVERRAN_STRICT, UNREQUESTED_STRICT, Walltimes

SEPTEMBER = "rackham/rackham-2022-09-10_V10000_anonymous.txt.gz"
MARCH = "rackham/rackham-2022-03-01_V10000.txt.gz"

#: One job of each class: time 0 is 1000.
ONE_OF_EACH = (
    rackham_line(7, 5, 500, 9000, 20, user="eve", data=3, size="128.000000", kind=-1, started=1500, node=12),
    rackham_line(8, 900, 300, 400, 4, data=4, size="25.600000", kind=-2, started=950, node=338),
    rackham_line(9, 1000, 60, 600, 1, data=5, size="6.400000", kind=0, started=1001, node=9),
    rackham_line(10, 1000, 60.5, 600, 1, user="bob", data=6, size="6.400000", kind=1, started=1001, node=9),
    rackham_line(11, 1200, 700, 600, 3, data=7, size="19.200000", kind=2, started=1300, node=9),
)


def made(path: Path, *lines: str, options: LogOptions | None = None, **selection: Any) -> tuple[Workload, Report]:
    return to_workload(read_rackham(rackham_file(path, *lines)), options, Selection(**selection))


def run_cli(*args: object) -> subprocess.CompletedProcess[str]:
    return process.run_cli(*map(str, args))


def counts(report: Report) -> dict[str, tuple[int, list[int | str]]]:
    return {rule: (tally.count, tally.places) for rule, tally in report.tallies.items()}


# ------------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n   \n"])
@pytest.mark.parametrize("packed", [False, True])
def test_all_fields_of_a_line(tmp_path: Path, end: str, packed: bool) -> None:
    text = end.join([*ONE_OF_EACH[:2], ""]).encode()
    (tmp_path / "w").write_bytes(gzip.compress(text) if packed else text)
    trace = read_rackham(tmp_path / "w")
    assert files.format_of(tmp_path / "w") == "Rackham"
    assert trace.jobs[0] == RackhamJob(7, 5, 500, 9000, 20, "eve", "3", 128, Kind.WAITING, 1500, 12, 1)
    assert trace.jobs[1][:-1] == (8, 900, 300, 400, 4, "ann", "4", 25.6, Kind.RUNNING, 950, 338)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ('{"nb_res": 1}', "Batsim JSON"),
        ("{}", "Batsim JSON"),
        ("{", "Batsim JSON"),
        ("[1]", "Batsim JSON"),
        ('\ufeff  \n{\n  "id": 1}', "Batsim JSON"),
        ("{ id: 1", "Rackham"),
        ("\ufeff\n\n{id:1}", "Rackham"),
        (" " * 4095 + "{" + " " * 40 + "memory : 1", "Rackham"),
        ("; MaxProcs: 4", "SWF"),
        ("id: 1", "SWF"),
    ],
)
def test_formats_are_told_by_how_a_file_begins(tmp_path: Path, content: str, kind: str) -> None:
    (tmp_path / "w.swf").write_text(content, encoding="utf-8")
    assert files.format_of(tmp_path / "w.swf") == kind


def test_fields_may_come_in_any_order_and_without_blanks_at_the_braces(tmp_path: Path) -> None:
    words = rackham_line(3, kind=1).strip("{} ").split()
    pairs = [f"{name} {value}" for name, value in zip(words[::2], words[1::2], strict=True)]
    file = rackham_file(tmp_path, "\ufeff" + rackham_line(3, kind=1), "{" + "\t".join(reversed(pairs)) + "}")
    first, second = read_rackham(file).jobs
    assert first[:-1] == second[:-1]


HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (rackham_line()[:-1], "expected a } at the end of the line, found"),
        (rackham_line()[:60], "expected a } at the end of the line, found"),
        ("id: 3 }", 'expected a line as { id: 1 subtime: 0 … }, found "id: 3 }"'),
        (line(1), 'expected a line as { id: 1 subtime: 0 … }, found "1 0 0 60 2'),
        ('{"id": 1}', 'expected no fields but those of the format, found "\\"id\\""'),
        ("{ }", "field id: expected on every line, found nothing"),
        ("{ id: }", "field id: expected a value, found nothing"),
        (rackham_line(subtime=""), "field subtime: expected a value, found nothing"),
        (rackham_line(user=""), "field user: expected a value, found nothing"),
        ("{ id: 1 2 3 }", 'expected the name of a field with a colon, found "2"'),
        ("{ id: 0 memory: 128 bandwidth: 0.1 core: 20 }", 'expected no fields but those of the format, found "memory"'),
        (rackham_line().replace("cores: 2 ", ""), "field cores: expected on every line, found nothing"),
        (rackham_line().replace("cores: 2 ", "id: 2 "), "field id: expected once, found it twice"),
        (rackham_line(user="ann lee"), 'expected the name of a field with a colon, found "lee"'),
        (rackham_line("x"), 'field id: expected a whole number from 0, found "x"'),
        (rackham_line(-1), 'field id: expected a whole number from 0, found "-1"'),
        (rackham_line("1.5"), 'field id: expected a whole number from 0, found "1.5"'),
        (rackham_line(HUGE), 'field id: expected a whole number from 0, found "99999'),
        (rackham_line(subtime="soon"), 'field subtime: expected a number, found "soon"'),
        (rackham_line(subtime="1_000"), 'field subtime: expected a number, found "1_000"'),
        (rackham_line(subtime="٣"), 'field subtime: expected a number, found "\\u0663"'),
        (rackham_line(delay="nan"), 'field delay: expected a number, found "nan"'),
        (rackham_line(delay="inf"), 'field delay: expected a number, found "inf"'),
        (rackham_line(delay="1e300"), 'field delay: expected a number, found "1e300"'),
        (rackham_line(delay=HUGE), 'field delay: expected a number, found "99999'),
        (rackham_line(walltime="0x10"), 'field walltime: expected a number, found "0x10"'),
        (rackham_line(cores="2.5"), 'field cores: expected a whole number below 2^31, found "2.5"'),
        (rackham_line(cores=2**31), 'field cores: expected a whole number below 2^31, found "2147483648"'),
        (rackham_line(size=-0.1), 'field data_size: expected GB from 0, found "-0.1"'),
        (rackham_line(kind=3), 'field workload: expected a class from -2 to 2, found "3"'),
        (rackham_line(kind="0.5"), 'field workload: expected a class from -2 to 2, found "0.5"'),
        (rackham_line(started="then"), 'field start_time_from_history: expected a number, found "then"'),
        (rackham_line(node="1.5"), 'field start_node_from_history: expected a whole number, found "1.5"'),
        (rackham_line(kind=-2, node=0), 'field start_node_from_history: expected a node from 1 on (it ran), found "0"'),
    ],
    ids=lambda text: text[-50:],
)
def test_a_bad_line_is_told_with_file_line_and_field_or_left_out(tmp_path: Path, bad: str, told: str) -> None:
    file = rackham_file(tmp_path, rackham_line(1), bad, rackham_line(2, 5), bad)
    with pytest.raises(InputError) as caught:
        read_rackham(file)
    assert str(caught.value).startswith(f"{file}: line 2: {told}")
    trace = read_rackham(file, lenient=True)
    assert [job.number for job in trace.jobs] == [1, 2]
    workload, report = to_workload(trace)
    ((rule, count),) = [(rule, found) for rule, found in counts(report).items() if rule.startswith("bad line")]
    assert told.startswith(rule.removeprefix("bad line, ").removesuffix(": dropped"))
    assert (count, report.n_read, report.n_kept, report.n_dropped) == ((2, [2, 4]), 4, 2, 2)
    assert len(workload.jobs) == 2


@given(st.text(max_size=60))
def test_whatever_stands_there_is_a_job_or_an_error_with_its_line(tmp_path_factory: Any, text: str) -> None:
    file = tmp_path_factory.mktemp("any") / "w"
    file.write_bytes(b"{ id: 1 " + text.encode("utf-8", "replace"))
    with pytest.raises(InputError, match=f"^{file}: line [0-9]+: "):
        load(file)


def test_binary_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"{ id: 1 \0\0 }")
    with pytest.raises(InputError, match="line 1: expected text, found a binary file"):
        load(tmp_path / "w")
    (tmp_path / "w").write_bytes(gzip.compress(rackham_line().encode())[:-9])
    with pytest.raises(InputError, match="truncated or damaged"):
        load(tmp_path / "w")
    (tmp_path / "w").write_text("\n \n")
    with pytest.raises(InputError, match=r"expected a workload \(Batsim JSON, SWF or Rackham\), found an empty file"):
        load(tmp_path / "w")


def test_mixed_formats(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 4: expected 18 fields, found 24$"):
        load(log(tmp_path, line(1), rackham_line(2)))
    with pytest.raises(InputError, match=r"line 2: expected a line as"):
        load(rackham_file(tmp_path, rackham_line(1), line(2)))


# ----------------------------------------------------------------------------------------------------- a workload of it


def test_one_job_of_each_class(tmp_path: Path) -> None:
    workload, report = made(tmp_path, *ONE_OF_EACH)
    assert workload.jobs == [
        {
            "id": "07",
            "subtime": 0,
            "res": 20,
            "profile": "500",
            "walltime": 9000,
            "estimate": 9000,
            "user": "eve",
            "input_file": "3",
            "input_size_gb": 128,
            "alone_s": 1780,
            "evaluated": False,
        },
        {
            "id": "08",
            "subtime": 0,
            "res": 4,
            "profile": "250",
            "walltime": 350,
            "estimate": 350,
            "user": "ann",
            "input_file": "4",
            "input_size_gb": 25.6,
            "alone_s": 556,
            "evaluated": False,
            "history_node": 337,
            "history_start": -50,
        },
        {
            "id": "09",
            "subtime": 0,
            "res": 1,
            "profile": "60",
            "walltime": 600,
            "estimate": 600,
            "user": "ann",
            "input_file": "5",
            "input_size_gb": 6.4,
            "alone_s": 124,
            "evaluated": False,
        },
        {
            "id": "10",
            "subtime": 0,
            "res": 1,
            "profile": "60.5",
            "walltime": 600,
            "estimate": 600,
            "user": "bob",
            "input_file": "6",
            "input_size_gb": 6.4,
            "alone_s": 124.5,
            "evaluated": True,
        },
        {
            "id": "11",
            "subtime": 200,
            "res": 3,
            "profile": "700",
            "walltime": 600,
            "estimate": 600,
            "user": "ann",
            "input_file": "7",
            "input_size_gb": 19.2,
            "alone_s": 892,
            "evaluated": False,
        },
    ]
    assert workload.profiles["250"] == {"type": "delay", "delay": 250}
    assert workload.n_procs == 9720
    assert workload.about == {
        "source": "rackham.txt",
        "conversion": {"walltimes": "requested-strict", "duplicates": "renumber"},
        "shifted_by": 1000,
        "report": report.as_json(),
    }
    assert counts(report) == {WAITING: (1, [1]), RUNNING: (1, [2]), OVERRAN_STRICT: (1, [5])}
    assert (report.n_read, report.n_kept, report.n_dropped) == (5, 5, 0)


def test_what_is_written_is_read_again_and_is_the_same_each_time(tmp_path: Path) -> None:
    file = rackham_file(tmp_path, *ONE_OF_EACH)
    texts = [batsim_json.text_of(load(file)) for _ in range(2)]
    assert texts[0] == texts[1]
    (tmp_path / "w.json").write_text(texts[0])
    assert batsim_json.read(tmp_path / "w.json").jobs == load(file).jobs
    assert not [job for job in load(file, walltimes="none").jobs if "walltime" in job or "estimate" in job]


def test_what_was_over_has_a_second_left(tmp_path: Path) -> None:
    """By its run time, by its walltime, by both, exactly at time 0; and one with a second left by itself."""
    rows = [(50, 900), (900, 50), (50, 50), (100, 100), (101, 101), (50, -1)]
    lines = [rackham_line(k, 5, run, wall, kind=-2, started=900) for k, (run, wall) in enumerate(rows, 1)]
    workload, report = made(tmp_path, *lines, rackham_line(9, 1000))
    found = [(job["profile"], job.get("walltime"), job["alone_s"]) for job in workload.jobs[:-1]]
    assert found == [
        ("1", 800, 178),
        ("800", 1, 1028),
        ("1", 1, 178),
        ("1", 1, 228),
        ("1", 1, 229),
        ("1", None, 178),
    ]
    assert counts(report)[OVER] == (5, [1, 2, 3, 4, 6])
    assert counts(report)[OVERRAN_STRICT] == (4, [2, 3, 4, 5])
    assert counts(report)[UNREQUESTED_STRICT] == (1, [6])


def test_time_zero_is_the_first_submission_of_class_0_wherever_its_line_is(tmp_path: Path) -> None:
    lines = [rackham_line(1, 300), rackham_line(2, 100, kind=1), rackham_line(3, 200), rackham_line(4, -7)]
    workload, report = made(tmp_path, *lines)
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [("2", 0), ("3", 0), ("1", 100)]
    assert counts(report) == {NO_SUBMISSION: (1, [4]), MOVED: (2, [2, 3]), EARLY: (1, [2])}


def test_time_zero_without_class_0(tmp_path: Path) -> None:
    lines = [rackham_line(1, 5, kind=-1), rackham_line(2, 400, kind=2), rackham_line(3, 300, kind=1)]
    workload, report = made(tmp_path, *lines)
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [("1", 0), ("3", 0), ("2", 100)]
    assert "no job of class 0: time 0 is the first submission of class 1 or 2, at 300 s" in report.tallies
    with pytest.raises(InputError, match=r"rackham.txt: field workload: expected a job of class 0, 1 or 2, whose"):
        made(tmp_path, *lines[:1])


def test_history_that_started_after_time_0(tmp_path: Path) -> None:
    workload, report = made(tmp_path, rackham_line(1, 5, kind=-2, started=1300), rackham_line(2, 1000))
    first = workload.jobs[0]
    assert (first["history_start"], first["profile"], first["walltime"]) == (0, "60", 600)
    assert counts(report) == {RUNNING: (1, [1]), LATE: (1, [1])}


def test_jobs_that_cannot_run_are_dropped_or_get_a_run_time(tmp_path: Path) -> None:
    lines = [rackham_line(1, 0, 0), rackham_line(2, 1, -1), rackham_line(3, 2, cores=0), rackham_line(4, 3, cores=-1)]
    workload, report = made(tmp_path, *lines, rackham_line(5, 4))
    assert [job["id"] for job in workload.jobs] == ["5"]
    assert counts(report) == {NO_RUN_TIME: (2, [1, 2]), NO_CORES: (2, [3, 4])}
    workload, report = made(tmp_path, *lines, rackham_line(5, 4), options=LogOptions(min_runtime_s=3))
    assert [(job["id"], job["profile"], job["alone_s"]) for job in workload.jobs] == [
        ("1", "3", 131),
        ("2", "3", 131),
        ("5", "60", 188),
    ]
    assert counts(report) == {NO_CORES: (2, [3, 4]), RAISED: (2, [1, 2])}


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        ("requested", [(600, 600), (50, 50)]),
        ("requested-strict", [(600, 600), (50, 50)]),
        ("exact", [(61, 60), (61, 60)]),
        ("factor:2", [(120, 120), (120, 120)]),
        ("round", [(300, 300), (300, 300)]),
        ("none", [(None, None), (None, None)]),
    ],
)
def test_walltimes(tmp_path: Path, rule: str, times: list[tuple[Any, Any]]) -> None:
    lines = rackham_line(1), rackham_line(2, walltime=50)
    workload, report = made(tmp_path, *lines, options=LogOptions(Walltimes.parse(rule)))
    assert [(job.get("walltime"), job.get("estimate")) for job in workload.jobs] == times
    assert (OVERRAN_STRICT in report.tallies) == rule.startswith("requested")


def test_ids_given_twice(tmp_path: Path) -> None:
    lines = rackham_line(9), rackham_line(9), rackham_line(8), rackham_line(9, 5)
    workload, report = made(tmp_path, *lines)
    assert [job["id"] for job in workload.jobs] == ["09", "10", "08", "11"]
    assert counts(report) == {RENUMBERED: (2, [2, 4]), OUT_OF_TURN: (1, [3])}
    with pytest.raises(InputError, match=r"line 2, field id: expected a number of its own, found 9 again, .* line 1$"):
        made(tmp_path, *lines, options=LogOptions(duplicates="error"))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=120), st.integers(0, 2000))
def test_texts_of_ids_are_in_the_order_of_the_file(times: list[int], first: int) -> None:
    jobs = [
        RackhamJob(first + k, at, 60, 600, 1, "ann", "1", 6.4, Kind.WARM_UP, 0, 1, k + 1)
        for k, at in enumerate(sorted(times))
    ]
    workload, _ = to_workload(RackhamTrace("here", jobs))
    order = [(job["subtime"], job["id"]) for job in workload.jobs]
    assert order == sorted(order)
    assert [int(name) for _, name in order] == [job.number for job in jobs]


def test_a_selection_is_by_the_clock_of_the_workload(tmp_path: Path) -> None:
    workload, report = made(tmp_path, *ONE_OF_EACH, to_at=200)
    assert [job["id"] for job in workload.jobs] == ["07", "08", "09", "10"]  # history is at 0
    assert counts(report)[OUTSIDE] == (1, [5])
    workload, _ = made(tmp_path, *ONE_OF_EACH, from_at=100)
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [("11", 0)]
    assert (workload.about["shifted_by"], workload.about["selection"]) == (1200, {"from": 100})
    workload, report = made(tmp_path, *ONE_OF_EACH, max_jobs=2, max_size=4)
    assert [job["id"] for job in workload.jobs] == ["08", "09"]
    assert (counts(report)[TOO_MANY], WAITING in counts(report)) == ((2, [4, 5]), False)
    with pytest.raises(InputError, match="no job is left: 5 jobs were submitted from 0 s to 200 s"):
        made(tmp_path, *ONE_OF_EACH, from_at=201)


def test_a_shift_of_a_batsim_file_moves_logged_starts(tmp_path: Path) -> None:
    workload = load(rackham_file(tmp_path, *ONE_OF_EACH))
    for job in workload.jobs:
        job["subtime"] += 30
    batsim_json.write(workload, tmp_path / "w.json")
    assert run_cli("workload", "convert", tmp_path / "w.json", tmp_path / "v.json", "--shift-to-zero").returncode == 0
    assert [job.get("history_start") for job in batsim_json.read(tmp_path / "v.json").jobs] == [None, -80, *[None] * 3]


def test_another_machine(tmp_path: Path) -> None:
    workload, report = made(tmp_path, *ONE_OF_EACH, options=LogOptions(n_procs=19))
    assert (workload.n_procs, counts(report)[TOO_LARGE]) == (19, (1, [1]))


# --------------------------------------------------------------------------------------------------------- the commands


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
    workload = batsim_json.read(out)
    assert workload.profiles["250"] == {"type": "parallel_homogeneous", "cpu": 250_000_000, "com": 0}
    assert workload.about["conversion"] == {
        "walltimes": "exact",
        "duplicates": "renumber",
        "profile": "parallel",
        "speed": 1e6,
    }


@pytest.mark.parametrize(
    "option",
    [("--weeks",), ("--week", "1"), ("--size", "requested"), ("--size", "allocated"), ("--memory-unit", "KB")],
)
def test_convert_refuses_what_is_for_swf_alone(tmp_path: Path, option: tuple[str, ...]) -> None:
    file = rackham_file(tmp_path, *ONE_OF_EACH)
    done = run_cli("workload", "convert", file, tmp_path / "w.json", *option)
    said = f"pybatsched: {option[0]}: expected a log in SWF, found a file of the Rackham format, {file}\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert not (tmp_path / "w.json").exists()


def test_simulate_takes_it_and_says_what_was_changed(tmp_path: Path) -> None:
    file = rackham_file(tmp_path, *ONE_OF_EACH)
    done = run_cli("simulate", "--procs", "40", "-w", file, "--policy", "fcfs", "-e", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert f"{file}: 1 jobs: {RUNNING}" in done.stderr
    with (tmp_path / "out_jobs.csv").open() as rows:
        states = {row["job_id"]: row["final_state"] for row in csv.DictReader(rows)}
    assert states["11"] == "COMPLETED_WALLTIME_REACHED"
    assert {states[name] for name in ("07", "08", "09", "10")} == {"COMPLETED_SUCCESSFULLY"}
    done = run_cli("simulate", "--procs", "40", "-w", file, "--policy", "fcfs", "--memory-unit", "KB")
    assert (done.returncode, "--memory-unit: expected a log in SWF among the workloads" in done.stderr) == (2, True)


def test_stats_are_those_of_the_workload(tmp_path: Path) -> None:
    file = rackham_file(tmp_path, *ONE_OF_EACH, rackham_line(12, 1000, 0))
    figures = stats.summary(stats.sample(file))
    assert (figures["jobs"], figures["jobs_left_out"], figures["processors"], figures["span_s"]) == (5, 1, 9720, 200)
    assert (figures["users"], figures["overran_share"]) == (3, 0.2)
    assert stats.sample(file, 40).n_procs == 40


def test_a_campaign_takes_it(tmp_path: Path) -> None:
    rackham_file(tmp_path, *ONE_OF_EACH)
    given_: dict[str, Any] = {"name": "day", "file": "rackham.txt"}

    def prepared(**more: Any) -> Any:
        (one,) = Preparer(tmp_path, [tmp_path]).prepare(WorkloadSpec.model_validate(given_ | more), 0)
        return one

    plain = prepared()
    content = json.loads(Path(plain.path).read_text())
    assert content["jobs"] == load(tmp_path / "rackham.txt").jobs
    assert (plain.n_procs, prepared(procs=40).n_procs) == (9720, 40)
    exact = json.loads(Path(prepared(walltimes="exact", max_jobs=2).path).read_text())
    assert [(job["walltime"], job["estimate"]) for job in exact["jobs"]] == [(501, 500), (251, 250)]
    for more, told in (({"weeks": {}}, "weeks"), ({"memory_unit": "KB"}, "memory_unit")):
        with pytest.raises(
            InputError, match=f"^workload day: {told}: expected a log in SWF, found a file of the Rackham"
        ):
            prepared(**more)
    rackham_file(tmp_path, *ONE_OF_EACH[:-1])
    assert prepared().digest != plain.digest


# ----------------------------------------------------------------------------------------------------------------- lint


def test_nothing_odd(tmp_path: Path) -> None:
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
        (
            [rackham_line(1, 5, kind=1), rackham_line(2, 9)],
            {"of class 0, 1 or 2, but submitted before time 0": [1]},
            {},
        ),
        (
            [rackham_line(1, 5, kind=-2, started=10), rackham_line(2, 9)],
            {"ran at time 0, but was started later": [1]},
            {},
        ),
        ([rackham_line(1, kind=-1)], {"no job of class 0, 1 or 2, whose submission is time 0": [1]}, {}),
        ([rackham_line(1, kind=1)], {}, {"no job of class 0": [1]}),
        (
            [rackham_line(1, kind=-2, node=487), rackham_line(2, 60)],
            {},
            {
                "ran at time 0, but its run time or walltime was over": [1],
                "ran on a node beyond the machine's 486": [1],
            },
        ),
        ([rackham_line(1), "{ id: x }"], {"bad line: field subtime: expected on every line": [2]}, {}),
    ],
)
def test_what_is_odd(tmp_path: Path, lines: list[str], odd: dict[str, Any], notes: dict[str, Any]) -> None:
    found = lint(rackham_file(tmp_path, *lines))
    by_level: dict[str, dict[str, Any]] = {"odd": {}, "note": {}}
    for finding in found.findings.values():
        by_level[finding.level][finding.what] = finding.places
        assert finding.remedy
    assert by_level == {"odd": odd, "note": notes}


def test_the_node_list_of_the_study_is_no_workload(tmp_path: Path) -> None:
    file = rackham_file(tmp_path, "{ id: 0 memory: 128 bandwidth: 0.1 core: 20 }")
    with pytest.raises(InputError, match=r"line 1: expected no fields but .* format; no line of the file is a job"):
        lint(file)


# ----------------------------------------------------------------------------------------------------------- real files


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
    assert time_zero(trace) == (zero_at, "")
    assert next(job.submitted_at for job in trace.jobs if job.kind == Kind.WARM_UP) == zero_at
    assert all((job.submitted_at < zero_at) == (job.kind < Kind.WARM_UP) for job in trace.jobs)
    workload, report = to_workload(trace)
    assert (report.n_read, report.n_kept, len(workload.jobs), workload.n_procs) == (n_jobs, n_jobs, n_jobs, 9720)
    assert {rule: tally.count for rule, tally in report.tallies.items()} == {
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
    for row, job in zip(trace.jobs, jobs, strict=True):
        passed = zero_at - row.started_at if row.kind == Kind.RUNNING else 0
        assert delays[job["profile"]] == max(row.run_s - passed, 1)
        assert job["walltime"] == job["estimate"] == row.walltime_s - passed
        assert job["alone_s"] == pytest.approx(row.run_s + row.size_gb / 0.1, abs=1e-6)
        assert job.get("history_start") == (-passed if row.kind == Kind.RUNNING else None)
        assert job.get("history_node") == (row.node - 1 if row.kind == Kind.RUNNING else None)


def test_fields_of_the_format_are_those_of_the_record() -> None:
    assert len(FIELDS) == len(RackhamJob._fields) - 1
