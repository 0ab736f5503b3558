"""batsim-py from the package index starts our simulator as Batsim and gets the same messages."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.patience import PATIENCE_S

from foreign.inputs import N_JOBS, N_PROCS, write_input
from foreign.programs import ENVIRONMENT, needs_environment, rows, run_foreign, run_script, with_drop_in

pytestmark = needs_environment

SUCCESS, WALLTIME, KILLED = "COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED", "COMPLETED_KILLED"
#: Its monitors for each scenario, with Batsim 4.2.1: final states, and figures of the schedule and the hosts.
EXPECTED: dict[str, tuple[dict[str, int], dict[str, float]]] = {
    "queue": ({SUCCESS: 60}, {"makespan": 148, "max_waiting_time": 75, "time_idle": 249, "consumed_joules": 152700}),
    "energy": (
        {SUCCESS: 58, WALLTIME: 2},
        {
            "makespan": 356,
            "max_waiting_time": 274,
            "time_switching_off": 115,
            "time_switching_on": 380,
            "time_sleeping": 93,
            "nb_switches": 88,
            "consumed_joules": 242265,
        },
    ),
    "kill": (
        {SUCCESS: 50, KILLED: 3, "REJECTED": 7},
        {"makespan": 114, "nb_jobs_killed": 3, "nb_jobs_rejected": 7, "consumed_joules": 116800},
    ),
    "limited": ({SUCCESS: 15}, {"makespan": 40, "nb_jobs": 30, "consumed_joules": 41500}),
    "events": ({SUCCESS: 60}, {"makespan": 188, "max_waiting_time": 116, "time_idle": 533}),
    "sharing": ({SUCCESS: 48, WALLTIME: 12}, {"makespan": 80, "max_waiting_time": 0, "time_computing": 503}),
}
#: What Batsim writes about one run in two ways: its own version's spelling, and how long it took by the clock.
NOT_OF_THE_RUN = ("batsim_version", "scheduling_time", "simulation_time")


def drive(scenarios: Iterable[str], directory: Path, settings: dict[str, str]) -> None:
    """Drive scenarios, each into directories `tables` and `files` of its own."""
    made = write_input(directory, energy=True)
    args = [str(directory), str(made.platform), str(made.workload), str(made.events), *scenarios]
    run_script("drive_batsim_py.py", *args, settings=settings | {"PATIENCE_S": f"{PATIENCE_S:g}"})


def counts(table: list[dict[str, str]]) -> dict[str, int]:
    states = [row["final_state"] for row in table]
    return {state: states.count(state) for state in states}


def test_complete_runs_of_all_scenarios(tmp_path: Path) -> None:
    """All in one process of batsim-py, which takes seconds to begin."""
    drive(EXPECTED, tmp_path, with_drop_in(tmp_path))
    for scenario in EXPECTED:
        check_run(scenario, tmp_path / scenario)


def check_run(scenario: str, place: Path) -> None:
    tables = place / "tables"
    states, figures = EXPECTED[scenario]
    jobs = rows(tables / "JobMonitor.csv")
    assert counts(jobs) == states, scenario
    (overall,) = rows(tables / "SimulationMonitor.csv")
    assert {name: float(overall[name]) for name in figures} == figures, scenario
    for row in rows(tables / "HostStateSwitchMonitor.csv"):
        assert sum(int(n) for name, n in row.items() if name != "time") == N_PROCS, scenario
    if scenario == "limited":  # batsim-py has ended Batsim, which writes no more
        return
    # Its table of jobs is Batsim's, in whole seconds.
    ours = {row["job_id"]: row for row in rows(place / "files" / "batsim_jobs.csv")}
    assert len(ours) == len(jobs) == N_JOBS, scenario
    for row in jobs:
        expected = ours[row["job_id"]]
        assert row["final_state"] == expected["final_state"], scenario
        if row["final_state"] != "REJECTED":
            assert float(row["finish_time"]) == int(float(expected["finish_time"])), scenario
            assert row["allocated_resources"] == expected["allocated_resources"].replace(",", " "), scenario


@pytest.mark.batsim
@pytest.mark.parametrize("scenario", EXPECTED)
def test_the_same_run_with_batsim(scenario: str, tmp_path: Path) -> None:
    """Every table of its monitors, all that it has seen, and every file of Batsim are the same, byte by byte.

    But a Batsim that is ended early has written nothing.
    """
    for name in ("ours", "batsim"):
        place = tmp_path / name
        place.mkdir()
        drive([scenario], place, with_drop_in(place) if name == "ours" else {})
    ours, theirs = tmp_path / "ours" / scenario, tmp_path / "batsim" / scenario
    our_tables, our_files = ours / "tables", ours / "files"
    their_tables, their_files = theirs / "tables", theirs / "files"
    names = sorted(path.name for path in their_tables.iterdir())
    assert len(names) == 8
    for name in names:
        assert (our_tables / name).read_bytes() == (their_tables / name).read_bytes(), name
    if scenario == "limited":
        return
    assert sorted(path.name for path in our_files.iterdir()) == sorted(path.name for path in their_files.iterdir())
    for name in ("jobs", "schedule", "pstate_changes", "consumed_energy"):
        file = f"batsim_{name}.csv"
        assert content(our_files / file) == content(their_files / file), name


def content(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        table = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if name not in NOT_OF_THE_RUN} for row in table]


def test_the_tests_of_batsim_py_pass_in_its_environment(tmp_path: Path) -> None:
    """Those that its package brings along need no Batsim: they make sure that it works with newer packages at all.

    Those of its socket put a mock in the place of ZeroMQ's `close`; a newer pyzmq then waits for ever for that close.
    """
    (tests,) = ENVIRONMENT.glob("lib/python3*/site-packages/tests/test_simulator.py")
    files = [str(tests.with_name(f"test_{name}.py")) for name in ("jobs", "monitors", "protocol", "resources")]
    # One compares sums of floating-point numbers for equality; since Python 3.12 `sum` rounds them less.
    chosen, count = "not TestNetworkHandler", "397 passed, 8 deselected"
    if sys.version_info >= (3, 12):
        chosen, count = f"{chosen} and not (TestSchedulerMonitor and test_values)", "396 passed, 9 deselected"
    command = ["-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-k", chosen]
    output = run_foreign(*command, *files, str(tests), settings={}, cwd=tmp_path)
    assert count in output
