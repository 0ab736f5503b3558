"""Files of external events converted to Batsim 5's format and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support import blocked
from support.process import run_cli

from pybatsched.simulator import external_events

OUTAGE = {"timestamp": 10, "type": "machine_unavailable", "resources": "0-1"}
REPAIR = {"timestamp": 20.5, "type": "machine_available", "resources": "0-1"}
OWN = {"timestamp": 5, "type": "alarm", "level": 3}
PLAIN = {"type": "generic", "timestamp": 1, "data": "hello"}


def lines(*events: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


def described(path: Path) -> list[Any]:
    return [event.described for event in external_events.read(path, n_hosts=4, forward_unknown=True)]


def test_the_command_writes_both_formats(tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text(lines(REPAIR, OUTAGE, OWN, PLAIN))
    done = run_cli("workload", "events", "e.txt", "--for", "batsim5", "--output", "e5.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "wrote e5.txt: 4 events for batsim5\n"
    assert [json.loads(line) for line in (tmp_path / "e5.txt").read_text().splitlines()] == [
        PLAIN,
        {"type": "generic", "timestamp": 5, "data": json.dumps(OWN)},
        {"type": "generic", "timestamp": 10, "data": json.dumps(OUTAGE)},
        {"type": "generic", "timestamp": 20.5, "data": json.dumps(REPAIR)},
    ]
    done = run_cli("workload", "events", "e5.txt", "--for", "batsim4", "--output", "e4.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "e4.txt").read_text() == lines(PLAIN, OWN, OUTAGE, REPAIR)
    done = run_cli("workload", "events", "e5.txt", "--for", "batsim5", "--output", "e6.txt", cwd=tmp_path)
    assert (tmp_path / "e6.txt").read_text() == (tmp_path / "e5.txt").read_text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "e.txt: line 1: expected a JSON object"),
        (lines({"timestamp": 1}), "e.txt: line 1: field type: expected a text"),
        (lines(OUTAGE, {**OUTAGE, "resources": "x"}), "e.txt: line 2: field resources"),
        (
            lines(OUTAGE, OUTAGE),
            (
                "e.txt: 0-1 become unavailable at 10, but they are already unavailable; expected them to become "
                "available first\n"
            ),
        ),
        (lines({**PLAIN, "timestamp": -1}), "e.txt: line 1: field timestamp: expected seconds, 0 or more"),
        (
            lines({**OUTAGE, "timestamp": 10**400}),
            "e.txt: line 1: field timestamp: expected seconds, 0 or more, found 1000",
        ),
        (
            lines({**OUTAGE, "timestamp": True}),
            "e.txt: line 1: field timestamp: expected seconds, 0 or more, found True",
        ),
        ('{"type": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 1: expected a JSON object: maximum recursion depth"),
    ],
)
def test_bad_events_are_errors(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text(text)
    done = run_cli("workload", "events", "e.txt", "--for", "batsim5", "--output", "o.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert not (tmp_path / "o.txt").exists()


def test_simulate_takes_events_of_both(tmp_path: Path) -> None:
    jobs = [{"id": str(i), "subtime": i, "res": 2, "profile": "d", "walltime": 90} for i in range(6)]
    profiles = {"d": {"type": "delay", "delay": 8}}
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    (tmp_path / "e4.txt").write_text(lines(OUTAGE, REPAIR))
    run_cli("workload", "events", "e4.txt", "--for", "batsim5", "--output", "e5.txt", cwd=tmp_path)
    tables = []
    for name in ("e4", "e5"):
        args = ("--procs", "4", "-w", "w.json", "--policy", "easy", "-e", name, "--events", f"{name}.txt")
        done = run_cli("simulate", *args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        tables.append((tmp_path / f"{name}_jobs.csv").read_text())
    done = run_cli("simulate", *args[:7], "none", cwd=tmp_path)
    assert tables[0] == tables[1]
    assert tables[0] != (tmp_path / "none_jobs.csv").read_text()


@pytest.mark.parametrize(("more", "end"), [((), 100), (("--stop-at", "85"), 85)])
def test_the_summary_has_the_outages(more: tuple[str, ...], end: float, tmp_path: Path) -> None:
    """Hosts that are still down at the end of the run are down until then."""
    assert blocked.simulated(tmp_path, *more)["unavailable"] == [
        {"start": 10, "end": 20, "procs": "1"},
        {"start": 10, "end": 30, "procs": "2"},
        {"start": 70, "end": 70.05, "procs": "1"},
        {"start": 80, "end": end, "procs": "3"},
    ]


def test_a_summary_without_outages(tmp_path: Path) -> None:
    """The hosts fail after the end of the run."""
    assert "unavailable" not in blocked.simulated(tmp_path, "--stop-at", "9")


def test_an_event_in_data_has_the_time_of_the_one_around_it() -> None:
    """Batsim 5's own example has no time in its data."""
    around = {"type": "generic", "timestamp": 10.0, "data": '{"type": "machine_unavailable", "resources": "0-4 6 8"}'}
    assert external_events.from_batsim5(around) == {
        "type": "machine_unavailable",
        "resources": "0-4 6 8",
        "timestamp": 10.0,
    }


@pytest.mark.parametrize("data", ["some data", "", "[1]", "3", '{"a": 1}', '{"type": 3}', '{"type": NaN}', None, {}])
def test_other_data_is_not_converted_to_an_event(data: Any) -> None:
    event = {"type": "generic", "timestamp": 1, "data": data}
    assert external_events.from_batsim5(event) is event
    assert external_events.from_batsim5(external_events.to_batsim5(event)) == event


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["generic", "x"]) | st.text(max_size=3), "timestamp": st.floats(0, 1e12)},
        optional={"data": st.text(max_size=3) | st.integers(), "é": st.lists(st.none() | st.booleans(), max_size=2)},
    )
)
def test_every_event_is_unchanged_after_conversion_and_back(event: dict[str, Any]) -> None:
    made = external_events.to_batsim5(event)
    assert made["type"] == "generic"
    assert isinstance(made["data"], str)
    assert external_events.from_batsim5(made) == event


@pytest.mark.parametrize("resources", ["9", "", "x", 3])
def test_processors_of_drain_events_are_checked_before_the_run(tmp_path: Path, resources: Any) -> None:
    job = {"id": "1", "subtime": 0, "res": 1, "profile": "p"}
    workload = {"nb_res": 4, "jobs": [job], "profiles": {"p": {"type": "delay", "delay": 9}}}
    (tmp_path / "w.json").write_text(json.dumps(workload), encoding="utf-8")
    (tmp_path / "e.txt").write_text(lines({"timestamp": 3, "type": "drain", "resources": resources}), encoding="utf-8")
    args = ("--procs", "4", "-w", "w.json", "--policy", "fcfs", "--events", "e.txt", "--forward-unknown-events")
    done = run_cli("simulate", *args, "-e", "out/a", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "out").exists()) == (2, False)
    assert "e.txt: line 1: field resources: " in done.stderr


def test_a_missing_file_of_a_predictor_is_found_before_the_run(tmp_path: Path) -> None:
    job = {"id": "1", "subtime": 0, "res": 1, "profile": "p"}
    workload = {"nb_res": 4, "jobs": [job], "profiles": {"p": {"type": "delay", "delay": 9}}}
    (tmp_path / "w.json").write_text(json.dumps(workload), encoding="utf-8")
    args = ("--procs", "4", "-w", "w.json", "--policy", "easy", "-o", "predict=mine.py:Mine")
    done = run_cli("simulate", *args, "-e", "out/a", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "out").exists()) == (2, False)
    assert "policy easy: option predict (from -o): predictor 'mine.py:Mine': file mine.py not found" in done.stderr
