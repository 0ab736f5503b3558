"""Selected parts of a workload, and runs that stop at a given time."""

from __future__ import annotations

import csv
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import logs
from support.fuzzer import random_workload
from support.places import ROOT
from support.process import Server, run_cli
from support.simulated import rows

from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import read_run
from pybatsched.results import run_state
from pybatsched.simulator.simulation import SimulatedRun
from pybatsched.workload.selection import Selection

CALLING = f"{ROOT / 'tests' / 'support' / 'calling.py'}:Calling"
OUTPUTS = ("_jobs.csv", "_schedule.csv", "_machine_states.csv")
GOOD = [
    logs.line(number, 100 * number, run=150, allocated=5, requested_s=200, user=number % 3) for number in range(1, 41)
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a workload of forty jobs with deadlines, a log of forty, and the same log with a bad line."""
    content = random_workload(7, 40, 8)
    for job in content["jobs"]:
        job["subtime"] *= 200
        job["deadline"] = job["subtime"] + 500
    (tmp_path / "w.json").write_text(json.dumps(content))
    logs.log(tmp_path, *GOOD)
    bad = [*GOOD[:20], "21 x", *GOOD[20:]]
    logs.log(tmp_path, *bad, name="bad.swf")
    return tmp_path


def simulate(place: Path, *args: str, policy: str = "easy") -> subprocess.CompletedProcess[str]:
    return run_cli("simulate", "--procs", "8", "--policy", policy, *args, cwd=place)


def summary(place: Path, prefix: str) -> Any:
    return json.loads((place / f"{prefix}_summary.json").read_text())


def test_fields_are_read_back_as_the_run_has_read_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline is an instant: it has moved with its job."""
    monkeypatch.chdir(place)
    assert simulate(place, "-w", "w.json", "--from", "600", "--max-jobs", "5", "-e", "a").returncode == 0
    assert summary(place, "a")["selection"] == {"from": 600, "max_jobs": 5, "clock": "first"}
    assert summary(place, "a")["n_jobs_in_workloads"] == 5
    records = read_run("a").records
    assert len(records) == 5
    assert {round(record.fields["deadline"] - record.submitted_at, 6) for record in records} == {500}
    content = summary(place, "a") | {"selection": {"from": "soon"}}
    (place / "a_summary.json").write_text(json.dumps(content))
    with pytest.raises(
        InputError,
        match="a_summary.json: selection: expected numbers named from, to, max_jobs, warm_up, cool_down, names of par",
    ):
        read_run("a")


def test_selections_of_several_workloads_have_one_time_origin(place: Path) -> None:
    window = ("--from", "600", "--submitted-before", "1500", "--window-clock", "log")
    assert simulate(place, "-w", "log.swf", "-w", "w.json", *window, "-e", "a").returncode == 0
    times = {row["workload_name"]: float(row["submission_time"]) for row in reversed(rows(place / "a_jobs.csv"))}
    assert {name: 600 <= at < 1500 for name, at in times.items()} == {"w0": True, "w1": True}


def test_the_real_window_is_printed(place: Path) -> None:
    """The log has a job every 100 s from 100 s on, so 2 days of its clock have all 40 jobs: 3900 s."""
    done = simulate(place, "-w", "log.swf", "--submitted-before", "2d", "-e", "a")
    assert "log.swf: the window has 40 jobs, submitted within 0.05 days" in done.stderr
    done = run_cli("workload", "convert", "log.swf", "x.json", "--from", "1000", cwd=place)
    assert "log.swf: the window has 30 jobs, submitted within 0.03 days" in done.stderr
    done = run_cli("workload", "convert", "log.swf", "x.json", "--from", "3900", cwd=place)
    assert "log.swf: the window has 1 job, submitted within 0.00 days" in done.stderr


def test_a_selection_without_jobs_is_an_error(place: Path) -> None:
    done = simulate(place, "-w", "log.swf", "--from", "30d")
    assert done.returncode == 2
    assert "log.swf: no job is left: 40 jobs submitted from 100 s to 4000 s, and the selection is: from " in done.stderr
    assert simulate(place, "-w", "log.swf", "--from", "30d", "--allow-empty", "-e", "a").returncode == 0
    assert rows(place / "a_jobs.csv") == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--from monday", "--from: expected seconds, or a number with m, h, d or w as in 12h, found 'monday'"),
        ("--max-jobs 0", "--max-jobs: expected a whole number, 1 or more, found 0"),
        ("--tau -1", "--tau: expected seconds, 0 or more, found '-1'"),
        ("--lenient", "--lenient: expected a log, found a Batsim file, w.json"),
    ],
)
def test_invalid_selection_arguments_are_rejected(args: str, message: str, place: Path) -> None:
    done = simulate(place, "-w", "w.json", *args.split())
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_lenient_skips_bad_lines(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    done = simulate(place, "-w", "bad.swf", "-e", "a")
    assert (done.returncode, "bad.swf: line 23: expected at least 18 fields, found 2" in done.stderr) == (2, True), (
        done.stderr
    )
    done = simulate(place, "-w", "bad.swf", "--lenient", "-e", "a")
    assert (done.returncode, "bad.swf: 1 job: bad line, " in done.stderr) == (0, True), done.stderr
    assert simulate(place, "-w", "log.swf", "-e", "b").returncode == 0
    assert (place / "a_jobs.csv").read_text() == (place / "b_jobs.csv").read_text()
    assert (summary(place, "a")["lenient"], "lenient" in summary(place, "b")) == (True, False)
    assert {record.fields["user"] for record in read_run("a").records} == {0, 1, 2}  # read back as leniently
    done = run_cli("compare", "a_summary.json", "b_summary.json", cwd=place)
    assert "the two runs have different inputs: lenient, workloads" in done.stderr


def test_tau_is_used_and_recorded(place: Path) -> None:
    done = simulate(place, "-w", "log.swf", "--tau", "10", "-e", "a")
    mean = sum(read_run(str(place / "a")).jobs.values("bounded_slowdown", 10)) / 40
    assert f"mean bounded slowdown (tau 10 s)   {mean:>9,.3f}" in done.stdout
    assert summary(place, "a")["figures"]["tau_s"] == 10
    assert summary(place, "a")["figures"]["mean_bounded_slowdown"] == pytest.approx(mean, abs=0, rel=1e-12)


def test_a_selection_is_read_back_or_rejected() -> None:
    selection = Selection(60, 120, max_jobs=3, partitions=("gpu",))
    assert Selection.from_json(selection.as_json(), 1) == replace(selection, may_be_empty=True)
    assert Selection.from_json(selection.as_json(), 2).shift is False
    selection = Selection(60, 120, clock="first")
    assert Selection.from_json(selection.as_json(), 2) == replace(selection, may_be_empty=True)
    for wrong in (3, {"from": "soon"}, {"size": 3}, {"partitions": 3}, {"partitions": [3]}, {"clock": "swiss"}):
        with pytest.raises(
            InputError,
            match=r"selection: expected numbers .*, names of partitions, and the clock log or first, found [3{]",
        ):
            Selection.from_json(wrong, 1)


def jobs_until(place: Path, prefix: str, at: float) -> list[str]:
    """Return the rows of a whole run that were over by then."""
    with (place / f"{prefix}_jobs.csv").open() as file:
        return [",".join(row) for row in csv.reader(file) if row[0] == "job_id" or float(row[10]) <= at]


@pytest.mark.parametrize("until", ["0", "100", "250", "1000", "20m", "3999.5"])
def test_jobs_that_end_by_the_stop_time_are_those_of_the_whole_run(until: str, place: Path) -> None:
    """Jobs that end up to and at this time are as in the complete run; the others are reported."""
    assert simulate(place, "-w", "log.swf", "-e", "whole").returncode == 0
    done = simulate(place, "-w", "log.swf", "--stop-at", until, "-e", "cut")
    assert done.returncode == 5
    at = 1200 if until == "20m" else float(until)
    expected = jobs_until(place, "whole", at)
    with (place / "cut_jobs.csv").open() as file:
        assert [",".join(row) for row in csv.reader(file)] == expected
    content, n_over = summary(place, "cut"), len(expected) - 1
    n_to_come = sum(100 * number > at for number in range(1, 41))
    assert (content["finished"], content["ended_at"], content["cut_at"], content["n_to_come"]) == (
        False,
        at,
        at,
        n_to_come,
    )
    assert content["n_unfinished"] == 40 - n_over - n_to_come
    n_jobs = "1 job" if content["n_unfinished"] == 1 else f"{content['n_unfinished']} jobs"
    head = f"pybatsched: the simulation stopped at {at:g} with {n_jobs} unfinished and {n_to_come} "
    assert done.stderr.splitlines()[0] == f"{head}still to come: the simulation was stopped at {at:g} (--stop-at)"


def test_jobs_left_are_reported(place: Path) -> None:
    done = simulate(place, "-w", "log.swf", "--stop-at", "600", "-e", "cut")
    assert done.stderr.splitlines()[1:3] == [
        "  w0!4 (5 processors, submitted at 400): it has been running since 550",
        (
            "  w0!5 (5 processors, submitted at 500): the scheduler has not started it: "
            "head of the queue: needs 5 processors, 3 are free; reserved: 5 processors at 750.0, of 8 free then"
        ),
    ]
    assert ["jobs", "still", "to", "come", "34"] in [line.split() for line in done.stdout.splitlines()]


def test_stop_at_gives_the_same_with_an_external_scheduler(place: Path) -> None:
    with Server("--policy", "easy") as server:
        args = ("simulate", "--procs", "8", "-w", "log.swf", "--stop-at", "600", "-e", "cut", "--send-end")
        done = run_cli(*args, "--external", "-s", server.wait_ready(), cwd=place)
        assert server.finish() == 5
    assert done.returncode == 5
    assert "w0!4 (5 processors, submitted at 400): it has been running since 550\n" in done.stderr
    assert (
        "w0!5 (5 processors, submitted at 500): the scheduler has not started it: it may start it later\n"
        in done.stderr
    )
    assert len(rows(place / "cut_jobs.csv")) == 3


def test_a_stop_time_after_the_end_changes_nothing(place: Path) -> None:
    assert simulate(place, "-w", "log.swf", "-e", "a").returncode == 0
    ended_at = summary(place, "a")["ended_at"]
    assert simulate(place, "-w", "log.swf", "--stop-at", f"{ended_at}", "-e", "b").returncode == 0
    for suffix in OUTPUTS:
        assert (place / f"b{suffix}").read_text() == (place / f"a{suffix}").read_text()
    assert summary(place, "b") | {"command": ""} == summary(place, "a") | {"command": ""}
    assert "cut_at" not in json.loads((place / "b_state.json").read_text())


def test_readers_accept_a_stopped_run_with_a_notice(place: Path) -> None:
    assert simulate(place, "-w", "log.swf", "--stop-at", "600", "-e", "cut").returncode == 5
    done = run_cli("metrics", "cut", cwd=place)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "cut: cut at 600 s after 3 of 40 jobs")
    standing = read_run(str(place / "cut")).run_state
    assert (standing.notice, standing.reason, standing.remark) == ("cut at 600 s after 3 of 40 jobs", "", "")
    done = run_cli("compare", "cut_summary.json", "cut_summary.json", cwd=place)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "cut: cut at 600 s after 3 of 40 jobs")
    mark = json.loads((place / "cut_state.json").read_text())
    (place / "cut_state.json").write_text(json.dumps(mark | {"cut_at": "noon"}))
    with pytest.raises(InputError, match="cut_state.json: cut_at is 'noon'; expected a time in seconds"):
        run_state.read(str(place / "cut"))


def machine_seconds(place: Path, prefix: str, until: float) -> float:
    """Return the processor-seconds computed up to an instant, by the file of machine states."""
    found = [(float(row["time"]), int(row["nb_computing"])) for row in rows(place / f"{prefix}_machine_states.csv")]
    ends = [time for time, _ in found[1:]] + [until]
    return sum(n * (min(end, until) - time) for (time, n), end in zip(found, ends, strict=True) if time < until)


@pytest.mark.parametrize("until", ["150", "600", "1000"])
def test_processors_of_jobs_running_at_the_stop_time_are_in_use(until: str, place: Path) -> None:
    """Table, summary, metrics and page agree with each other and with the machine states."""
    done = simulate(place, "-w", "log.swf", "--stop-at", until, "-e", "cut")
    at = float(until)
    first = 100.0  # the log's first submission
    expected = machine_seconds(place, "cut", at) / (8 * (at - first))
    assert summary(place, "cut")["figures"]["utilisation"] == pytest.approx(expected, rel=1e-9)
    assert ["utilisation", f"{expected:.2%}"] in [line.split() for line in done.stdout.splitlines()]
    result = json.loads(run_cli("metrics", "cut", "--json", cwd=place).stdout)["cut"]
    assert result["utilisation"]["mean"] == pytest.approx(expected, rel=1e-9)
    run = read_run(str(place / "cut"))
    assert run.utilisation() == pytest.approx(expected, rel=1e-9)
    assert run.usage.at(at - 1) == run.usage.integral(at - 1, at) > 0
    left = summary(place, "cut")["unfinished"]
    n_waiting = sum(job.get("started_at", at) == at and job["submitted_at"] < at for job in left)
    assert run.queue_length.at(at - 1e-3) == n_waiting
    assert run.queue_length.at(at) == 0


def test_the_utilisation_of_an_older_stopped_run_is_unknown(place: Path) -> None:
    simulate(place, "-w", "log.swf", "--stop-at", "600", "-e", "cut")
    content = summary(place, "cut")
    kept = [{"job": one["job"], "why": one["why"]} for one in content["unfinished"]]
    (place / "cut_summary.json").write_text(json.dumps(content | {"unfinished": kept}))
    assert read_run(str(place / "cut")).utilisation() is None
    bad = [one | {"n_procs": "many"} for one in content["unfinished"]]
    (place / "cut_summary.json").write_text(json.dumps(content | {"unfinished": bad}))
    done = run_cli("metrics", "cut", cwd=place)
    assert done.returncode == 2
    assert "cut_summary.json: unfinished: expected n_procs, submitted_at, and started_at if it runs" in done.stderr


TOLD = (
    "all jobs were done, but the scheduler kept requesting calls: "
    "1,000 times in a row since 4160, without another event"
)


@pytest.fixture
def two(place: Path) -> Path:
    """The first two jobs of the log, the second of which ends at 400; and one that comes at 4000 and ends at 4150."""
    logs.log(place, *GOOD[:2], GOOD[-1], name="two.swf")
    return place


def test_a_policy_that_only_requests_calls_after_the_last_job_is_stopped(two: Path) -> None:
    """A call was asked for at 4140, and comes at 4150 with the last end; the first that comes alone is that of 4160."""
    assert SimulatedRun.MAX_CALLS_AT_REST == 1_000
    done = simulate(two, "-w", "two.swf", "-e", "a", policy=CALLING)
    assert done.returncode == 5
    last = 4160 + 10 * 1_000
    message = f"pybatsched: the simulation stopped at {last} with 0 jobs unfinished: {TOLD}\n"
    assert done.stderr == message
    assert (summary(two, "a")["finished"], summary(two, "a")["stopped"]) == (False, TOLD)
    assert len(rows(two / "a_jobs.csv")) == 3


def test_an_external_policy_that_only_requests_calls_is_stopped(two: Path) -> None:
    with Server("--policy", CALLING) as server:
        args = ("simulate", "--procs", "8", "-w", "two.swf", "-e", "a", "--send-end", "-q")
        done = run_cli(*args, "--external", "-s", server.wait_ready(), cwd=two)
        server.finish()
    assert (done.returncode, TOLD in done.stderr) == (5, True)


@pytest.mark.parametrize("calls", [500, 1_300])
def test_a_policy_that_stops_requesting_calls_finishes(calls: int, two: Path) -> None:
    """Of 1,300 calls, 405 come before the last job is over."""
    done = simulate(two, "-w", "two.swf", "-o", f"calls={calls}", "-e", "a", policy=CALLING)
    assert (done.returncode, done.stderr) == (0, "")
