"""Conversion of logs in SWF: one rule at a time, and every job is accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import counts, line, log, trace

from pybatsched.errors import InputError
from pybatsched.workload import load
from pybatsched.workload.formats import batsim4
from pybatsched.workload.formats.conversion import (
    CUT,
    LOOSE,
    NO_REQUEST,
    NO_RUN_TIME,
    NO_SIZE,
    NO_SUBMISSION,
    OTHER_SIZE,
    RAISED,
    RENUMBERED,
    TOO_LARGE as TOO_LARGE_FOR_THE_MACHINE,
    LogOptions,
    MemoryUnit,
)
from pybatsched.workload.logs.conversion import UNKNOWN, UNPLANNED, to_workload
from pybatsched.workload.logs.swf import PART, read_swf
from pybatsched.workload.selection import MOVED, Selection
from pybatsched.workload.walltimes import OVERRAN, UNREQUESTED, Walltimes

EXACT = Walltimes("exact")
NO_PROCS = NO_SIZE.format("processors")


def test_a_whole_job(tmp_path: Path) -> None:
    text = line(
        5,
        10,
        3,
        60,
        4,
        requested=8,
        requested_s=120,
        used_kb=1000,
        requested_kb=2_500_000,
        user=7,
        group=8,
        application=9,
        queue=10,
        partition=11,
    )
    follower = line(6, 11, 0, 60.5, 1, requested_s=90, preceding=5, think=30, queue="night")
    workload, report = to_workload(trace(tmp_path, text, follower))
    assert workload.jobs == [
        {"id": 5, "subtime": 10, "res": 4, "profile": "60", "walltime": 120, "user": 7, "group": 8, "application": 9,
         "queue": 10, "partition": 11, "status": 1, "memory_gb": 2.5, "logged_wait_s": 3,
         "requested_procs": 8, "requested_time": 120},
        {"id": 6, "subtime": 11, "res": 1, "profile": "60.5", "walltime": 90, "queue": "night", "status": 1,
         "logged_wait_s": 0, "requested_time": 90, "depends_on": 5, "think_time": 30},
    ]  # fmt: skip
    assert workload.profiles == {"60": {"type": "delay", "delay": 60}, "60.5": {"type": "delay", "delay": 60.5}}
    assert workload.n_procs == 8
    assert (report.n_read, report.n_kept, report.rule_counts) == (2, 2, {})
    assert workload.about == {
        "source": "log.swf",
        "conversion": {"walltimes": "requested", "size": "allocated", "duplicates": "renumber", "memory_unit": "KB"},
        "report": {"read": 2, "kept": 2, "dropped": 0, "rules": {}},
        "swf_header": {"Version": "2.2", "MaxProcs": "8"},
    }  # fmt: skip


def test_unknown_members_are_left_out(tmp_path: Path) -> None:
    workload, _ = to_workload(
        trace(tmp_path, line(wait=-1, status=-1, preceding=0, think=0)), LogOptions(Walltimes("none"))
    )
    assert workload.jobs == [{"id": 1, "subtime": 0, "res": 2, "profile": "60"}]


def test_memory_is_the_requested_else_the_used(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1, used_kb=500_000), line(2, used_kb=500_000, requested_kb=1_000_000), line(3))
    jobs = to_workload(made)[0].jobs
    assert [job.get("memory_gb") for job in jobs] == [0.5, 1, None]


@pytest.mark.parametrize(
    ("unit", "expected"), [("KB", [0.0615, 1, 1.5e-6]), ("MB", [61.5, 1000, 0.0015]), ("GB", [61_500, 1_000_000, 1.5])]
)
def test_the_unit_of_memory(unit: MemoryUnit, expected: list[float], tmp_path: Path) -> None:
    lines = (line(1, requested_kb=61_500), line(2, used_kb=1_000_000), line(3, requested_kb=1.5))
    made, _ = to_workload(read_swf(log(tmp_path, *lines)), LogOptions(memory_unit=unit))
    assert [job["memory_gb"] for job in made.jobs] == expected
    assert [type(job["memory_gb"]) for job in made.jobs] == [type(memory_gb) for memory_gb in expected]
    assert made.about["conversion"]["memory_unit"] == unit
    assert load(tmp_path / "log.swf", memory_unit=unit).jobs == made.jobs


def test_run_times_are_cut_to_the_request(tmp_path: Path) -> None:
    lines = (
        line(1, run=60, requested_s=90),
        line(2, run=90, requested_s=60),
        line(3, run=60, requested_s=-1),
        line(4, run=60, requested_s=0),
        line(5, run=60, requested_s=60),
        line(6, run=0, requested_s=60),
    )
    made, report = to_workload(trace(tmp_path, *lines), LogOptions(Walltimes("exact"), run_times="cut"))
    assert [(job["id"], job["profile"], job["walltime"]) for job in made.jobs] == [
        (1, "60", 61),
        (2, "60", 61),
        (5, "60", 61),
    ]
    assert {rule: rule_count.places for rule, rule_count in report.rule_counts.items()} == {
        CUT: [4],
        NO_REQUEST: [5, 6],
        NO_RUN_TIME: [8],
    }
    assert made.about["conversion"]["run_times"] == "cut"
    assert load(tmp_path / "log.swf", walltimes="exact", run_times="cut").jobs == made.jobs
    assert [job["profile"] for job in to_workload(trace(tmp_path, *lines))[0].jobs] == ["60", "90", "60", "60", "60"]


def test_unknown_units_of_memory_are_rejected() -> None:
    with pytest.raises(InputError, match=r"^memory unit: expected one of KB, MB, GB, found 'kb'"):
        LogOptions(memory_unit="kb")  # type: ignore[arg-type]


def test_dropped_jobs_are_counted(tmp_path: Path) -> None:
    made = trace(
        tmp_path,
        line(1, run=0),
        line(2, run=-1),
        line(3, allocated=-1),
        line(4, allocated=0, requested=0),
        line(5, submit=-1),
        line(6),
        line(7, run=0, allocated=-1),
    )
    workload, report = to_workload(made, LogOptions(EXACT))
    assert [job["id"] for job in workload.jobs] == [6]
    assert counts(report) == {NO_RUN_TIME: (3, [3, 4, 9]), NO_PROCS: (2, [5, 6]), NO_SUBMISSION: (1, [7])}
    assert (report.n_read, report.n_kept, report.n_dropped) == (7, 1, 6)
    assert workload.about["report"]["rules"][NO_PROCS] == {"fate": "dropped", "count": 2, "first_lines": [5, 6]}


def test_a_minimum_run_time_keeps_jobs_that_did_not_run_and_no_other_changes(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1, run=0), line(2, run=-1), line(3, run=5), line(4, run=0, allocated=-1))
    workload, report = to_workload(made, LogOptions(EXACT, min_runtime_s=10))
    assert [(job["id"], job["profile"]) for job in workload.jobs] == [(1, "10"), (2, "10"), (3, "5")]
    assert counts(report) == {RAISED: (2, [3, 4]), NO_PROCS: (1, [6])}


def test_an_unknown_run_time_is_set_and_one_of_zero_is_dropped(tmp_path: Path) -> None:
    """A job of which neither run time nor request is known has no estimate. The rule `exact` plans with the set one."""
    rows = line(1, run=0), line(2, run=-1), line(3, run=5), line(4, run=-1, requested_s=60)
    workload, report = to_workload(trace(tmp_path, *rows), LogOptions(unknown_runtime_s=10))
    found = [(job["id"], job["profile"], job.get("walltime"), job.get("estimate")) for job in workload.jobs]
    assert found == [(2, "10", None, None), (3, "5", 6, 5), (4, "10", 60, None)]
    assert counts(report) == {NO_RUN_TIME: (1, [3]), UNKNOWN: (2, [4, 6]), UNPLANNED: (1, [4]), UNREQUESTED: (1, [5])}
    assert workload.about["conversion"]["unknown_runtime"] == 10
    exact, _ = to_workload(trace(tmp_path, *rows), LogOptions(EXACT, unknown_runtime_s=10, min_runtime_s=3))
    assert [(job["profile"], job["walltime"]) for job in exact.jobs] == [("3", 4), ("10", 11), ("5", 6), ("10", 11)]


def test_the_larger_of_allocated_and_requested_size_is_used(tmp_path: Path) -> None:
    rows = line(1, allocated=4, requested=2), line(2, allocated=-1, requested=3), line(3, allocated=5, requested=6)
    workload, report = to_workload(trace(tmp_path, *rows, line(4, allocated=-1)), LogOptions(EXACT, size="larger"))
    assert [job["res"] for job in workload.jobs] == [4, 3, 6]
    assert counts(report) == {NO_PROCS: (1, [6])}


def test_sizes(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1, allocated=4, requested=2), line(2, allocated=-1, requested=3), line(3, allocated=5))
    for size, expected, places in (("allocated", [4, 3, 5], [4]), ("requested", [2, 3, 5], [5])):
        workload, report = to_workload(made, LogOptions(EXACT, size=size))  # type: ignore[arg-type]
        assert [job["res"] for job in workload.jobs] == expected
        assert counts(report) == {OTHER_SIZE: (1, places)}


def test_requests_that_are_missing_or_were_overrun(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1), line(2, requested_s=60), line(3, requested_s=61), line(4, requested_s=10))
    workload, report = to_workload(made)
    assert [(job["walltime"], job.get("estimate")) for job in workload.jobs] == [
        (61, 60),
        (61, 60),
        (61, None),
        (61, 10),
    ]
    assert counts(report) == {UNREQUESTED: (1, [3]), OVERRAN: (2, [4, 6])}
    (job,) = to_workload(trace(tmp_path, line(1, requested_s=1e-7)))[0].jobs  # 0 in Batsim's files
    assert (job["walltime"], job["estimate"]) == (61, 60)
    assert {job["profile"] for job in workload.jobs} == {"60"}


def test_numbers_given_twice(tmp_path: Path) -> None:
    made = trace(tmp_path, line(3, 0), line(9, 1), line(3, 2), line(9, 3), line(10, 4, preceding=9))
    workload, report = to_workload(made, LogOptions(EXACT))
    assert [job["id"] for job in workload.jobs] == [3, 9, 11, 12, 10]
    assert counts(report) == {RENUMBERED: (2, [5, 6])}
    with pytest.raises(InputError) as caught:
        to_workload(made, LogOptions(EXACT, duplicates="error"))
    message = "line 5, field 1 (job number): expected a unique id, found 3, which is also on line 3"
    assert str(caught.value) == f"{made.source}: {message}"


def test_parts_of_a_job_are_dropped_if_the_whole_job_is_listed(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1, status=1), line(1, status=2), line(1, status=3), line(2, status=2))
    workload, report = to_workload(made, LogOptions(EXACT))
    assert [job["id"] for job in workload.jobs] == [1, 2]
    assert counts(report) == {PART: (2, [4, 5])}


def test_order_of_submission(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1, 5), line(2, 9), line(3, 5), line(4, 9), line(5, 1))
    workload, report = to_workload(made, LogOptions(EXACT))
    assert [job["id"] for job in workload.jobs] == [5, 1, 3, 2, 4]
    assert counts(report) == {MOVED: (2, [5, 7])}


def test_dependencies_on_jobs_that_are_not_there(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1, run=0), line(2, preceding=1, think=5), line(3, preceding=2), line(4, preceding=99))
    workload, report = to_workload(made, LogOptions(EXACT))
    assert [(job["id"], job.get("depends_on"), job.get("think_time")) for job in workload.jobs] == [
        (2, None, None),
        (3, 2, None),
        (4, None, None),
    ]
    assert counts(report)[LOOSE] == (2, [4, 6])


@pytest.mark.parametrize(
    ("header", "n_procs", "given", "noted"),
    [
        ("; MaxProcs: 8\n; MaxNodes: 4\n", None, 8, None),
        ("; MaxProcs: 8\n", 16, 16, None),
        (
            "; MaxNodes: 4 (thin)\n; MaxProcs: -1\n",
            None,
            4,
            "no MaxProcs in the header: the machine has its MaxNodes, 4",
        ),
        ("; Version: 2\n", None, 3, "the machine has the processors of the largest job, 3"),
    ],
)
def test_the_machine(tmp_path: Path, header: str, n_procs: int | None, given: int, noted: str | None) -> None:
    made = trace(tmp_path, line(1, allocated=3), line(2, allocated=1), header=header)
    workload, report = to_workload(made, LogOptions(EXACT, n_procs=n_procs))
    assert workload.n_procs == given
    assert [noted in rule for rule in report.rule_counts if noted] == ([True] if noted else [])
    assert bool(report.rule_counts) == bool(noted)


def test_jobs_larger_than_the_machine_stay(tmp_path: Path) -> None:
    workload, report = to_workload(trace(tmp_path, line(1, allocated=9)), LogOptions(EXACT))
    assert workload.jobs[0]["res"] == 9
    assert counts(report) == {TOO_LARGE_FOR_THE_MACHINE: (1, [3])}
    assert report.n_kept == 1


def test_parallel_tasks_take_as_long(tmp_path: Path) -> None:
    workload, _ = to_workload(trace(tmp_path, line(run=2.5)), LogOptions(EXACT, profile="parallel", speed_flops=4e9))
    assert workload.profiles == {"2.5": {"type": "parallel_homogeneous", "cpu": 10_000_000_000, "com": 0}}


@pytest.mark.parametrize(
    "options",
    [
        {"n_procs": 0},
        {"min_runtime_s": 0},
        {"min_runtime_s": float("nan")},
        {"unknown_runtime_s": 0},
        {"speed_flops": -1},
    ],
)
def test_impossible_options(options: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        LogOptions(**options)


def test_bad_lines_are_in_the_report(tmp_path: Path) -> None:
    made = read_swf(log(tmp_path, line(1), "x y", line(2)), lenient=True)
    workload, report = to_workload(made, LogOptions(EXACT))
    assert (report.n_read, report.n_kept, report.n_dropped) == (3, 2, 1)
    assert counts(report) == {"bad line, expected at least 18 fields, found 2: dropped": (1, [4])}
    assert len(workload.jobs) == 2


def test_the_report_as_text(tmp_path: Path) -> None:
    lines = [line(k, run=0 if k < 8 else 60) for k in range(1, 10)]
    assert to_workload(trace(tmp_path, *lines, line(10, allocated=20)), LogOptions(EXACT))[1].lines() == [
        "10 jobs read, 3 kept, 7 dropped",
        "dropped:",
        f"        7  {NO_RUN_TIME} (lines 3, 4, 5, 6, 7, ...)",
        "noted:",
        f"        1  {TOO_LARGE_FOR_THE_MACHINE} (line 12)",
    ]


# -------------------------------------------------------------------------------------------------------- properties

ROWS = st.lists(
    st.tuples(
        st.integers(0, 12),  # few numbers, so that some come twice
        st.integers(-1, 40),
        st.sampled_from([-1, 0, 1, 7, 60, 2.5]),
        st.sampled_from([-1, 0, 1, 2, 9]),
        st.sampled_from([-1, 0, 1, 4]),
        st.sampled_from([-1, 1, 60, 100]),
        st.sampled_from([-1, 0, 1, 2, 3, 5]),
        st.integers(-1, 12),
    ),
    max_size=25,
)
SELECTIONS = st.builds(
    Selection,
    from_at=st.none() | st.integers(0, 15),
    to_at=st.none() | st.integers(16, 40),
    min_size=st.none() | st.just(2),
    max_size=st.none() | st.integers(2, 9),
    max_jobs=st.none() | st.integers(1, 9),
    shift=st.none() | st.booleans(),
)


@given(
    ROWS,
    SELECTIONS,
    st.sampled_from(["exact", "requested", "requested-strict", "factor:2", "none"]),
    st.none() | st.just(3.0),
    st.booleans(),
)
def test_every_job_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[Any, ...]],
    selection: Selection,
    rule: str,
    min_runtime_s: float | None,
    by_request: bool,
) -> None:
    lines = [
        line(number, at, run=run, allocated=n, requested=asked, requested_s=request, status=status, preceding=before)
        for number, at, run, n, asked, request, status, before in rows
    ]
    made = trace(tmp_path_factory.getbasetemp(), *lines)
    options = LogOptions(
        Walltimes.parse(rule), size="requested" if by_request else "allocated", min_runtime_s=min_runtime_s
    )
    try:
        workload, report = to_workload(made, options, selection)
    except InputError as error:
        assert "no job is left" in str(error)
        return
    assert report.n_read == len(rows) == report.n_kept + report.n_dropped
    assert report.n_kept == len(workload.jobs)
    times = [job["subtime"] for job in workload.jobs]
    assert times == sorted(times)
    # Every kept job has the duration of a line of its size and time, whatever walltimes are asked for.
    by = workload.about.get("shifted_by", 0)
    logged = {
        (at, size, run if run > 0 else min_runtime_s)
        for _, at, run, n, asked, *_ in rows
        for size in (n, asked)
        if size > 0
    }
    for job in workload.jobs:
        assert (job["subtime"] + by, job["res"], workload.profiles[job["profile"]]["delay"]) in logged
        if rule != "none" and rule != "requested-strict":
            assert job["walltime"] > workload.profiles[job["profile"]]["delay"]
    # And what was made is a workload by Batsim's rules.
    file = tmp_path_factory.getbasetemp() / "made.json"
    batsim4.write(workload, file)
    assert batsim4.read(file).jobs == workload.jobs


def test_load_detects_the_format_by_the_content(tmp_path: Path) -> None:
    file = log(tmp_path, line(1, requested_s=100)).rename(tmp_path / "w.json")
    workload = load(file)
    assert workload.jobs[0]["walltime"] == 100
    assert load(file, walltimes="exact", n_procs=5).n_procs == 5
    batsim4.write(workload, tmp_path / "w.swf")
    assert load(tmp_path / "w.swf").jobs == workload.jobs
    assert load(tmp_path / "w.swf", walltimes="exact").jobs[0]["walltime"] == 61
    with pytest.raises(InputError, match="expected one of exact"):
        load(tmp_path / "w.swf", walltimes="exakt")


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\x00\x01", b"hello\n", b"<xml/>", b"\x1f\x8b"])
def test_load_rejects_unknown_formats(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "w"
    file.write_bytes(content)
    with pytest.raises(InputError, match=str(file)):
        load(file)


def test_load_rejects_pipes(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="expected a file, which can be read twice, found a pipe"):
        load(tmp_path / "pipe")
    with pytest.raises(InputError, match="found a directory without them"):
        load(tmp_path)
