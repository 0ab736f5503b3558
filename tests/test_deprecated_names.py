"""Deprecated names work as the new ones, with a warning. The help and the recorded command do not show them."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from support import logs
from support.process import run_cli, run_process

import pybatsched
from pybatsched import __version__
from pybatsched.deprecations import REMOVED_IN, DeprecatedNameWarning
from pybatsched.metrics.figure_names import resolved
from pybatsched.testing import Workload, run_policy

LOG = [logs.line(number, 60 * number, run=50, allocated=5, requested_s=60) for number in range(1, 11)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    logs.log(tmp_path, *LOG)
    return tmp_path


def warning(old: str, new: str, since: str = "1.0") -> str:
    return f"{old} is deprecated since version {since} and works until version {REMOVED_IN}: use {new}"


def test_deprecated_names_end_with_the_next_major_version() -> None:
    assert int(REMOVED_IN.split(".")[0]) == int(__version__.split(".")[0]) + 1, "remove all deprecated names now"


def simulate(place: Path, *args: str, code: int, warned: str = "") -> dict[str, object]:
    done = run_cli("simulate", "--procs", "8", "-w", "log.swf", "--policy", "easy", "-e", "out", *args, cwd=place)
    assert done.returncode == code, done.stderr
    assert ("deprecated" in done.stderr) == bool(warned)
    assert f"pybatsched: warning: {warned}\n" in done.stderr or not warned
    content: dict[str, object] = json.loads((place / "out_summary.json").read_text())
    return content


@pytest.mark.parametrize(
    ("old", "new", "value", "code"),
    [
        ("--to", "--submitted-before", "300", 0),
        ("--until", "--submitted-before", "5m", 0),
        ("--until-time", "--stop-at", "100", 5),
    ],
)
def test_old_names_of_simulate_make_the_same_run(place: Path, old: str, new: str, value: str, code: int) -> None:
    before = simulate(place, old, value, code=code, warned=warning(old, new))
    after = simulate(place, new, value, code=code)
    assert before["command"] == after["command"]
    assert f"{new} {value}" in str(after["command"])
    assert before["figures"] == after["figures"]


@pytest.mark.parametrize("option", ["--to", "--until"])
@pytest.mark.parametrize("command", ["convert log.swf", "merge a=log.swf --output"])
def test_old_names_of_workload_commands_write_the_same_file(place: Path, command: str, option: str) -> None:
    for name, given in (("old.json", option), ("new.json", "--submitted-before")):
        done = run_cli("workload", *command.split(), name, given, "300", cwd=place)
        assert done.returncode == 0, done.stderr
        assert (warning(option, "--submitted-before") in done.stderr) == (name == "old.json")
    assert (place / "old.json").read_bytes() == (place / "new.json").read_bytes()


@pytest.mark.parametrize("option", ["--farewell", "--send-end"])
def test_send_end_works_by_its_old_and_new_name(place: Path, option: str) -> None:
    # patience: the event that ends the wait never comes, so any time will do
    args = ("--external", "-s", "tcp://127.0.0.1:1", "--timeout", "0.1", option)
    done = run_cli("simulate", "--procs", "8", "-w", "log.swf", *args, cwd=place)
    assert done.returncode == 4, done.stderr
    assert (warning("--farewell", "--send-end") in done.stderr) == (option == "--farewell")


@pytest.mark.parametrize(
    ("command", "old"),
    [
        (("simulate",), ("--to", "--until", "--until-time", "--farewell")),
        (("run",), ("--to", "--until")),
        (("workload", "convert"), ("--to", "--until")),
        (("workload", "merge"), ("--to", "--until")),
    ],
)
def test_the_help_shows_new_names_only(command: tuple[str, ...], old: tuple[str, ...]) -> None:
    parts = run_cli(*command, "--help").stdout.replace(",", " ").replace("[", " ").replace("]", " ").split()
    assert "--submitted-before" in parts
    assert set(old).isdisjoint(parts)


def with_old_name(old: str, new: str) -> Any:
    return pytest.warns(DeprecatedNameWarning, match=f"^{warning(old, new)}$")


@pytest.mark.parametrize(("old", "new"), [("Need", "BatsimFeature"), ("Profile", "AvailabilityProfile")])
def test_old_names_of_python(old: str, new: str) -> None:
    with with_old_name(f"pybatsched.{old}", f"pybatsched.{new}") as caught:
        assert getattr(pybatsched, old) is getattr(pybatsched, new)
    assert caught[0].filename == __file__
    assert old not in pybatsched.__all__


def test_an_old_scheduler_works() -> None:
    with with_old_name("OldScheduler._plan", "plan"):

        class OldScheduler(pybatsched.LocalScheduler):
            def _plan(self, now: float) -> Any:
                for entry in list(self.queue):
                    if entry.job.n_submitted <= self.partition.n_free:  # with a warning for each name
                        yield self.start(entry, f"{[job.id for *_, job in self.partition.running]} are running")

    class Old(pybatsched.LocalPolicy):
        scheduler = OldScheduler

    jobs = Workload().job("a", n=1, s=5).job("b", n=1, s=5, at=1)
    with (
        with_old_name("job.n_submitted", "job.n_procs_requested"),
        with_old_name("partition.running", "partition.running_jobs, a list of jobs"),
    ):
        assert [job.started_at for job in run_policy(Old, jobs, n_procs=2).jobs.values()] == [0, 1]


def test_old_names_of_figures() -> None:
    with with_old_name("the figure wait_s_mean", "mean_wait_s"):
        assert resolved("wait_s_mean", {"mean_wait_s"}) == "mean_wait_s"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolved("wait_s_mean", {"wait_s_mean", "mean_wait_s"}) == "wait_s_mean", "a policy's own figure"


def test_a_command_reports_an_old_name_of_a_policy_file_once(place: Path) -> None:
    policy = "from pybatsched import Need\nfrom pybatsched_schedulers.fcfs import Fcfs\nclass Mine(Fcfs): need = Need\n"
    (place / "mine.py").write_text(policy)
    done = run_process("simulate", "--procs", "8", "-w", "log.swf", "--policy", "mine.py:Mine", cwd=place)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("deprecated") == 1
    assert warning("pybatsched.Need", "pybatsched.BatsimFeature") in done.stderr


def test_a_command_obeys_the_warning_options_of_python(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "warnoptions", ["ignore::FutureWarning"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        simulate(place, "--to", "300", code=0)
