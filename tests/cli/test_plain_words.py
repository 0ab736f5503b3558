"""Small words that people stumbled over: errors that name the option, notes that help, numbers that can be read."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import zmq
from support import logs
from support.patience import PATIENCE_MS, PATIENCE_S
from support.process import run_cli

from pybatsched.metrics.runs import read_run
from pybatsched.report.run import charts

LOG = [logs.line(number, 60 * number, run=50, allocated=5, requested_s=60) for number in range(1, 11)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "log.swf").write_text(logs.HEADER + "\n".join(LOG) + "\n")
    return tmp_path


def said(place: Path, *args: str, code: int = 2) -> str:
    done = run_cli("simulate", "-w", "log.swf", "--policy", "easy", *args, cwd=place)
    assert done.returncode == code, done.stderr
    return done.stderr


# --- energy ---


def test_equal_processors_have_no_watts(place: Path) -> None:
    expected = "pybatsched: -E, --energy: expected -p PLATFORM with watts; the processors of --procs N have none\n"
    assert said(place, "--procs", "8", "-E") == expected


def test_delays_put_no_load_on_hosts_and_what_does_is_named(place: Path) -> None:
    platform = "rackham-128gb-core-energy@0.002"
    hint = "all profiles are delays, which put no load on hosts"
    told = said(place, "-p", platform, "-E", code=0)
    assert hint in told
    assert "use `pybatsched workload convert --cpu-load` to write profiles that do" in told
    assert hint not in said(place, "-p", platform, code=0)


# --- windows ---


def test_a_selection_is_told_in_words_with_the_way_out(place: Path) -> None:
    text = said(place, "--procs", "8", "--from", "9000d")
    assert text.endswith("the selection is: from 777600000; expected at least one job, or --allow-empty\n")
    assert "{" not in text
    assert "from 777600000; expected" not in said(place, "--procs", "8", "--from", "9000d", "--allow-empty", code=0)
    done = run_cli("workload", "convert", "log.swf", "w.json", "--from", "9000d", cwd=place)
    assert done.stderr.endswith("and the selection is: from 777600000\n")


def test_times_that_cannot_be_are_told_by_their_options_before_anything_is_read(place: Path) -> None:
    (place / "log.swf").unlink()
    assert "--submitted-before 7d: expected a time after --from 8d" in said(
        place, "--procs", "8", "--from", "8d", "--submitted-before", "7d"
    )
    assert "--stop-at: expected seconds" in said(place, "--procs", "8", "--stop-at=-5")


# --- options of others, paths ---


def test_a_policy_that_cannot_be_borrowed_is_told_before_the_run(place: Path) -> None:
    (place / "c.toml").write_text('[policy.redirection]\nprincipal = "ujfb"\n')
    done = run_cli(
        *("simulate", "--procs", "8", "-w", "log.swf", "--policy", "redirection", "--config", "c.toml"),
        *("-e", "out/x", "--journal", "out/x.pbj"),
        cwd=place,
    )
    text = (
        "policy 'ujfb' cannot be used as a local scheduler: it has no single queue; expected one such as fcfs or easy"
    )
    assert (done.returncode, done.stderr) == (2, f"pybatsched: policy redirection, option principal: {text}\n")
    assert not (place / "out").exists()


def test_files_are_named_as_they_were_given(place: Path) -> None:
    job: dict[str, Any] = {"id": "a", "subtime": 0, "res": 1, "profile": "p"}
    profiles = {"p": {"type": "delay", "delay": 5}}
    for wrong in ({"walltime": "long"}, {"estimate": -1}):
        (place / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": [job | wrong], "profiles": profiles}))
        done = run_cli("simulate", "--procs", "2", "-w", "w.json", "--policy", "easy", cwd=place)
        assert (done.returncode, done.stderr.startswith("pybatsched: w.json: ")) == (2, True), done.stderr


# --- the other side's last words ---


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'{"error": 5}', "5"),
        (b'{"error": {}}', "{}"),
        (b'{"error": {"why": "no"}}', '{"why":"no"}'),
        (b'{"error": "red \\u001b[31m\\u0007"}', "red \\x1b[31m\\x07"),
    ],
)
def test_what_a_scheduler_says_is_shown_and_orders_nothing(answer: bytes, told: str, place: Path) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    socket.setsockopt(zmq.LINGER, PATIENCE_MS)
    socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    port = socket.bind_to_random_port("tcp://127.0.0.1")

    def scheduler() -> None:
        socket.recv()
        socket.send(answer)

    thread = threading.Thread(target=scheduler)
    thread.start()
    done = run_cli(
        "simulate", "--procs", "8", "-w", "log.swf", "--external", "-s", f"tcp://127.0.0.1:{port}", cwd=place
    )
    thread.join(PATIENCE_S)
    socket.close()
    context.term()
    assert done.returncode == 3
    assert f"the scheduler stopped with an error: {told}" in done.stderr
    assert "\x1b" not in done.stderr


# --- numbers and names ---


def test_numbers_of_a_table_are_written_out(place: Path) -> None:
    far = [logs.line(number, 10_000_000_000 + 60 * number, run=50, allocated=5) for number in range(1, 4)]
    (place / "log.swf").write_text(logs.HEADER + "\n".join(far) + "\n")
    said(place, "--procs", "8", "-e", "far", code=0)
    rows = {line.split()[0]: line.split() for line in run_cli("metrics", "far", cwd=place).stdout.splitlines()}
    assert rows["makespan_s"][-1] == "10,000,000,230.0"


def test_ends_that_differ_by_calls_alone_are_explained(place: Path) -> None:
    said(place, "--procs", "8", "-e", "a", code=0)
    told = json.loads((place / "a_summary.json").read_text())
    (place / "b_summary.json").write_text(json.dumps(told | {"ended_at": told["ended_at"] + 10}))
    why = "ended_at is the last reply of the scheduler, makespan_s the last end of a job"
    assert why in run_cli("compare", "a_summary.json", "b_summary.json", cwd=place).stderr
    assert why not in run_cli("compare", "a_summary.json", "a_summary.json", cwd=place).stderr


def test_studies_are_listed_by_an_option_too() -> None:
    assert run_cli("reproduce", "--list").stdout == run_cli("reproduce").stdout != ""


def test_an_axis_speaks_of_small_values_where_there_are_some(place: Path) -> None:
    said(place, "--procs", "8", "-e", "a", code=0)
    run = read_run(str(place / "a"))
    labels = [str(charts.cumulative([run], name).xaxis.axis_label) for name in ("wait_s", "bounded_slowdown")]
    assert labels == ["wait, values below 1 s drawn there", "bounded slowdown"]
