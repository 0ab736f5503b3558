"""Former names of options: they still work, but the help and the recorded command do not show them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import logs
from support.process import run_cli

LOG = [logs.line(number, 60 * number, run=50, allocated=5, requested_s=60) for number in range(1, 11)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    logs.log(tmp_path, *LOG)
    return tmp_path


def simulate(place: Path, *args: str, code: int) -> dict[str, object]:
    done = run_cli("simulate", "--procs", "8", "-w", "log.swf", "--policy", "easy", "-e", "out", *args, cwd=place)
    assert done.returncode == code, done.stderr
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
    before, after = simulate(place, old, value, code=code), simulate(place, new, value, code=code)
    assert before["command"] == after["command"]
    assert f"{new} {value}" in str(after["command"])
    assert before["figures"] == after["figures"]


@pytest.mark.parametrize("option", ["--to", "--until"])
@pytest.mark.parametrize("command", ["convert log.swf", "merge a=log.swf --output"])
def test_old_names_of_workload_commands_write_the_same_file(place: Path, command: str, option: str) -> None:
    for name, given in (("old.json", option), ("new.json", "--submitted-before")):
        done = run_cli("workload", *command.split(), name, given, "300", cwd=place)
        assert done.returncode == 0, done.stderr
    assert (place / "old.json").read_bytes() == (place / "new.json").read_bytes()


@pytest.mark.parametrize("option", ["--farewell", "--send-end"])
def test_send_end_works_by_its_old_and_new_name(place: Path, option: str) -> None:
    # patience: the event that ends the wait never comes, so any time will do
    args = ("--external", "-s", "tcp://127.0.0.1:1", "--timeout", "0.1", option)
    done = run_cli("simulate", "--procs", "8", "-w", "log.swf", *args, cwd=place)
    assert done.returncode == 4, done.stderr


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
