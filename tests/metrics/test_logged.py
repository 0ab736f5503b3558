"""The schedule that a log recorded, as a run: in Python, and on the command line as `logged`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import logs
from support.process import run_cli

import pybatsched as pb
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.metrics.logged import logged_run
from pybatsched.workload import load

#: A machine of 8 processors: job 3 waits longer than needed, and job 4 starts when it has not enough processors.
LOG = (
    logs.line(1, 0, wait=0, run=100, allocated=5, requested_s=200, user=1),
    logs.line(2, 10, wait=5, run=50, allocated=2, requested_s=60, user=2),
    logs.line(3, 20, wait=80, run=10, allocated=4, requested_s=20, user=1),
    logs.line(4, 30, wait=0, run=40, allocated=3, requested_s=50, user=2),
)
WAITS = [0.0, 5.0, 80.0, 0.0]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A log, and a run of it."""
    logs.log(tmp_path, *LOG)
    done = run_cli("simulate", "-w", "log.swf", "--policy", "fcfs", "--tau", "1", "-e", "out/fcfs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_jobs_start_after_their_logged_waits(tmp_path: Path) -> None:
    outcomes, result = logged_run({"w0": load(logs.log(tmp_path, *LOG))}, 8, 10.0)
    found = [(one.id, one.submitted_at, one.started_at, one.ended_at, str(one.procs)) for one in outcomes]
    assert found == [
        ("w0!2", 10, 15, 65, "5-6"),
        ("w0!4", 30, 30, 70, "0-2"),  # only processor 7 is free
        ("w0!1", 0, 0, 100, "0-4"),
        ("w0!3", 20, 100, 110, "0-3"),  # starts when job 1 ends
    ]
    assert result.remarks == ("1 job of the log started when too few processors were free",)
    assert (result.finished, result.figures.n_jobs, result.figures.makespan_s) == (True, 4, 110)
    assert result.figures.mean_wait_s == sum(WAITS) / 4
    assert result.figures.utilisation == (5 * 100 + 2 * 50 + 4 * 10 + 3 * 40) / (8 * 110)
    assert outcomes[0].procs == IntervalSet.parse("5-6")


def test_the_logged_run_in_python(place: Path) -> None:
    log = pb.read_workload(place / "log.swf")
    with pytest.warns(UserWarning, match="logged: 1 job of the log started when too few processors were free"):
        run = log.logged_run(tau_s=1)
    assert run.jobs.sort("id")["wait_s"].to_list() == WAITS
    assert run.jobs["user"].to_list() == ["2", "2", "1", "1"]
    assert (run.policy, run.workload, run.tau_s, run.is_finished) == ("logged", "log", 1, True)
    runs = pb.Runs([run, pb.read_run(place / "out/fcfs")])
    assert runs.compare("logged")["n_pairs"].to_list() == [4]
    run.save(place / "out/logged")
    assert pb.read_run(place / "out/logged").figures == run.figures
    again = pb.read_run(place / "out/logged", label="logged")
    assert again.jobs.equals(run.jobs)
    with pytest.raises(InputError, match="logged: expected a run with a journal"):
        run.explain("w0!1")


def test_commands_compare_with_the_log(place: Path) -> None:
    with pytest.warns(UserWarning, match="too few processors"):
        pb.read_workload(place / "log.swf").logged_run(tau_s=1).save(place / "out/saved")
    tables = [run_cli("compare", name, "out/fcfs", cwd=place) for name in ("logged", "out/saved")]
    rows = [[line.split() for line in done.stdout.splitlines()] for done in tables]
    assert [done.returncode for done in tables] == [0, 0]
    for name in ("mean_wait_s", "max_bounded_slowdown", "utilisation", "makespan_s", "n_completed", "ended_at"):
        found = [next(row for row in table if row[0] == name) for table in rows]
        assert found[0] == found[1]
    other_way = run_cli("compare", "out/fcfs", "logged", "--fail-if", "mean_wait_s > 21", cwd=place)
    assert (other_way.returncode, "mean_wait_s was" in other_way.stderr) == (7, True)


def test_metrics_have_the_logged_waits(place: Path) -> None:
    rows = json.loads(run_cli("metrics", "out/fcfs", "--json", cwd=place).stdout)["out/fcfs"]
    assert (rows["logged_wait_s"]["mean"], rows["logged_wait_s"]["max"]) == (21.25, 80)
    args = ("metrics", "out/fcfs", "--measure", "logged_wait_s", "--by", "user", "--json")
    by_user = json.loads(run_cli(*args, cwd=place).stdout)["out/fcfs"]
    assert {user: row["mean"] for user, row in by_user.items()} == {"1": 40, "2": 2.5}
    assert not any("logged" in name for name in pb.read_run(place / "out/fcfs").figures)


def test_jobs_without_a_wait_are_unfinished(tmp_path: Path) -> None:
    rows = (*LOG[:2], logs.line(3, 20, wait=-1, run=10, allocated=4))
    _, result = logged_run({"w0": load(logs.log(tmp_path, *rows))}, 8, 10.0)
    assert (result.finished, [one.job_id for one in result.stuck]) == (False, ["w0!3"])
    assert result.figures.lost_jobs


def test_a_window_leaves_out_jobs_of_the_warm_up(tmp_path: Path) -> None:
    log = pb.read_workload(logs.log(tmp_path, *LOG[:3])).window(15, warm_up=10)
    run = log.logged_run()
    assert (run.figures["n_jobs"], run.figures["mean_wait_s"]) == (1, 80)


@pytest.mark.parametrize(
    ("change", "found"),
    [("scale_load", "scaled"), ("shake", "shaken"), ("resample", "resampled"), ("head", "the field logged_wait_s")],
)
def test_errors(tmp_path: Path, change: str, found: str) -> None:
    rows = [logs.line(k, 86_400 * k, wait=-1 if change == "head" else 5, run=10, user=k % 3) for k in range(1, 20)]
    log = pb.read_workload(logs.log(tmp_path, *rows))
    made = getattr(log, change)(*{"scale_load": [2], "shake": [60], "head": [3]}.get(change, []))
    with pytest.raises(InputError, match=f"log.swf.*: the logged run: .*{found}"):
        made.logged_run()


def test_a_run_without_its_log_has_no_logged_run(place: Path) -> None:
    (place / "log.swf").unlink()
    done = run_cli("compare", "logged", "out/fcfs", cwd=place)
    assert (done.returncode, done.stderr) == (
        2,
        "pybatsched: out/fcfs: logged: expected the workload files of its summary, unchanged\n",
    )
