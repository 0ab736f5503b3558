"""Warm-up and cool-down: jobs around the measured window are simulated and not counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError
from support import logs
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.swf import read_swf
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import select
from pybatsched.workload.selection import NOT_COUNTED, Selection
from pybatsched.workload.weeks import WEEK_S

PROFILE = {"p": {"type": "delay", "delay": 10}}


def workload(*times: float) -> Workload:
    jobs = [{"id": k, "subtime": at, "res": 1, "profile": "p"} for k, at in enumerate(times)]
    return Workload(jobs, PROFILE, 4, "w.json")


def counted(made: Workload) -> dict[float, bool]:
    return {job["subtime"]: job["evaluated"] for job in made.jobs}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        # Times 0, 10, …, 90; with a window the first kept job moves to 0.
        (Selection(30, 50, warm_up_s=20), {0: False, 10: False, 20: True, 30: True}),
        (Selection(30, 50, cool_down_s=20), {0: True, 10: True, 20: False, 30: False}),
        (Selection(30, 50, warm_up_s=5, cool_down_s=11), {0: True, 10: True, 20: False, 30: False}),
        (Selection(20, 30, warm_up_s=1000), {0: False, 10: False, 20: True}),
        # Without a start or an end, they are taken from the ends of the workload; the end itself still counts.
        (Selection(None, 50, warm_up_s=20), {0: False, 10: False, 20: True, 30: True, 40: True}),
        (Selection(60, None, cool_down_s=10), {0: True, 10: True, 20: True, 30: False}),
    ],
)
def test_which_jobs_count(selection: Selection, expected: dict[float, bool], tmp_path: Path) -> None:
    times = range(0, 100, 10)
    made, report = select(workload(*times), selection)
    assert counted(made) == expected
    n = sum(not counts for counts in expected.values())
    assert report.as_json()["rules"].get(NOT_COUNTED, {"count": 0})["count"] == n
    path = tmp_path / "log.swf"
    path.write_text(logs.HEADER + "".join(logs.line(k + 1, at, run=10) + "\n" for k, at in enumerate(times)))
    from_log, _ = to_workload(read_swf(path), None, selection)
    assert counted(from_log) == expected
    again = Selection.from_json(made.about["selection"], 1)
    assert counted(select(workload(*times), again)[0]) == expected  # as a summary stores it


def test_a_clock_from_the_first_submission_has_no_negative_times() -> None:
    late = workload(1000, 1010, 1020, 1030)
    made, _ = select(late, Selection(20, None, clock="first", warm_up_s=15))
    assert counted(made) == {5: False, 15: True, 25: True}  # the window starts at 20, its warm-up at 5
    made, _ = select(late, Selection(20, None, clock="first", warm_up_s=500))
    assert counted(made) == {0: False, 10: False, 20: True, 30: True}


def test_jobs_that_did_not_count_before_do_not_count_now() -> None:
    some = workload(0, 10, 20, 30)
    some.jobs[2]["evaluated"] = True
    some.jobs[3]["evaluated"] = False
    assert counted(select(some, Selection(10, None, warm_up_s=10))[0]) == {0: False, 10: False, 20: True, 30: False}
    assert "evaluated" not in some.jobs[0]


def test_jobs_that_the_file_does_not_evaluate_do_not_count(tmp_path: Path) -> None:
    file = logs.rackham_workload(tmp_path, *logs.ONE_OF_EACH, logs.rackham_line(12, 1150, kind=1))
    log = pb.read_workload(file)
    log.write(tmp_path / "w.json")
    found = []
    for one in (log, pb.read_workload(tmp_path / "w.json")):
        run = pb.simulate(one.window(100, 300, warm_up=100), "fcfs", progress=False)
        run.save(tmp_path / one.name)
        read = pb.read_run(tmp_path / one.name)
        found += [sorted(it.jobs.filter(pl.col("evaluated"))["id"]) for it in (run, read)]
    read_at_once = pb.read_workload(file, begin=100, end=300, warm_up=100)
    assert read_at_once.jobs.filter(pl.col("evaluated"))["id"].to_list() == ["w0!12"]
    assert found == [["w0!12"]] * 4


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=40),
    st.integers(0, 200),
    st.integers(1, 100),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_counted_jobs_are_those_of_the_plain_window(
    times: list[int], begin: int, length: int, warm_up: int, cool_down: int
) -> None:
    some = workload(*sorted(times))
    bare = Selection(begin, begin + length, shift=False, may_be_empty=True)
    wide = Selection(begin, begin + length, shift=False, may_be_empty=True, warm_up_s=warm_up, cool_down_s=cool_down)
    expected = [job["id"] for job in select(some, bare)[0].jobs]
    made = select(some, wide)[0].jobs
    assert [job["id"] for job in made if job.get("evaluated", True)] == expected
    assert [job["id"] for job in made] == [
        job["id"] for job in some.jobs if begin - warm_up <= job["subtime"] < begin + length + cool_down
    ]


def test_a_window_without_jobs_to_count_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^w\.json: no job is left in the window from 20 s to 30 s: 2 jobs of the"):
        select(workload(0, 10, 50), Selection(20, 30, warm_up_s=30))
    with pytest.raises(InputError, match=r"^warm-up: expected 0 seconds or more, found -1"):
        Selection(warm_up_s=-1)


def log(path: Path, n_weeks: int) -> Path:
    """Write a log with a job at the start of each week, that runs for all of it and a day longer, on the machine."""
    lines = [logs.line(k + 1, k * WEEK_S, run=WEEK_S + 86_400, allocated=8, wait=0) for k in range(n_weeks)]
    path.write_text(logs.HEADER + "\n".join(lines) + "\n")
    return path


def test_a_week_with_the_week_before_is_not_a_cold_start(tmp_path: Path) -> None:
    log(tmp_path / "log.swf", 4)
    waits = {}
    for warm_up in ("0d", "7d", "14d"):
        args = ("--from", "14d", "--submitted-before", "21d", "--warm-up", warm_up, "--policy", "fcfs", "-e", warm_up)
        done = run_cli("simulate", "--procs", "8", "-w", str(tmp_path / "log.swf"), *args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        run = pb.read_run(tmp_path / warm_up)
        assert run.figures["n_jobs"] == 1
        waits[warm_up] = run.figures["mean_wait_s"]
    assert waits == {"0d": 0, "7d": 86_400, "14d": 2 * 86_400}


def test_weeks_of_a_campaign_have_a_warm_up(tmp_path: Path) -> None:
    log(tmp_path / "log.swf", 4)
    given = {"name": "log", "file": "log.swf", "weeks": {}, "warm_up": "7d", "cool_down": "7d"}
    found = Preparer(tmp_path, [tmp_path]).prepare(WorkloadTable.model_validate(given), 0)
    assert [one.name for one in found] == ["log-week02", "log-week03"]
    for one in found:
        jobs = json.loads(Path(one.path).read_text())["jobs"]
        assert [job["evaluated"] for job in jobs] == [False, True, False]


def test_random_workloads_have_a_warm_up(tmp_path: Path) -> None:
    given: dict[str, Any] = {"name": "w", "generate": {"model": "poisson", "procs": 8, "jobs": 40}, "warm_up": "1h"}
    (one,) = Preparer(tmp_path, []).prepare(WorkloadTable.model_validate(given), 1)
    jobs = json.loads(Path(one.path).read_text())["jobs"]
    first_at = jobs[0]["subtime"]
    assert [job["evaluated"] for job in jobs] == [job["subtime"] >= first_at + 3600 for job in jobs]
    with pytest.raises(ValidationError, match="change: cannot be used with warm_up or cool_down"):
        WorkloadTable.model_validate(given | {"change": {"by": "a:b"}})
    with pytest.raises(ValidationError, match="warm_up"):
        WorkloadTable.model_validate(given | {"warm_up": -5})


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("--warm-up", "soon"), "--warm-up: expected seconds, or a number with m, h, d or w as in 12h, found 'soon'"),
        (("--cool-down", "-3"), "--cool-down: expected seconds, or a number with m, h, d or w as in 12h, found '-3'"),
        (("--from", "1d", "--submitted-before", "2d", "--warm-up", "2d"), "no job is left in the window"),
    ],
)
def test_bad_windows_write_nothing(args: tuple[str, ...], text: str, tmp_path: Path) -> None:
    log(tmp_path / "log.swf", 2)
    done = run_cli("workload", "convert", "log.swf", "w.json", *args, cwd=tmp_path)
    assert done.returncode == 2
    assert text in done.stderr
    assert not (tmp_path / "w.json").exists()
