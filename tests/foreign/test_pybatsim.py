"""pybatsim from the package index drives complete runs of our simulator as of Batsim."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.process import run_cli

from foreign.inputs import N_JOBS, N_PROCS, RETURNS, Input, write_input
from foreign.programs import (
    PYBATSIM,
    free_port,
    needs_environment,
    our_simulator,
    pybatsim,
    real_batsim,
    rows,
    run_foreign,
    run_pair,
    with_drop_in,
)
from pybatsched.core.intervals import IntervalSet

pytestmark = needs_environment

ANYHOSTS = str(Path(__file__).with_name("anyhosts.py"))
DETERMINISTIC = ["schedFcfs", "schedEasySjfBackfill", "easyBackfill"]
#: These go through a set of objects, in the order of their addresses, and claim 0.005 s of scheduling for each event.
FILLERS = ["fillerSched", "fillerSchedWithEvents"]
SCHEDULING_S = 0.1


def messages(log: str) -> list[dict[str, Any]]:
    """Return all messages in pybatsim's log, received and sent."""
    return [ast.literal_eval(text) for text in re.findall(r"Message (?:Received from|Sent to) Batsim: (.*)", log)]


def check_schedule(made: Input, table: list[dict[str, str]], *, returns: Sequence[float] = ()) -> None:
    """Check the rules that any schedule obeys: all jobs, not too early, for as long as they take, one per processor.

    Jobs that wait start when a job has ended or machines have come back (`returns`), not at any other time.
    """
    content = json.loads(made.workload.read_text())
    jobs = {job["id"]: job for job in content["jobs"]}
    assert sorted(row["job_id"] for row in table) == sorted(jobs)
    held: list[tuple[float, float, IntervalSet]] = []
    for row in table:
        job = jobs[row["job_id"]]
        started_at, ended_at = float(row["starting_time"]), float(row["finish_time"])
        assert row["final_state"] == "COMPLETED_SUCCESSFULLY"
        assert float(row["submission_time"]) == job["subtime"]
        assert started_at >= job["subtime"]
        assert float(row["waiting_time"]) == pytest.approx(started_at - job["subtime"], abs=2e-6)
        assert ended_at - started_at == pytest.approx(float(job["profile"][1:]), abs=2e-6)
        procs = IntervalSet.parse(row["allocated_resources"])
        assert len(procs) == job["res"]
        assert all(not procs & other for begin, end, other in held if begin < ended_at and started_at < end)
        held.append((started_at, ended_at, procs))
    waited = [row for row in table if float(row["waiting_time"]) > SCHEDULING_S]
    assert waited
    chances = [*returns, *(end for _, end, _ in held)]
    for row in waited:
        started_at = float(row["starting_time"])
        assert any(chance <= started_at <= chance + SCHEDULING_S for chance in chances)


@pytest.mark.parametrize("scheduler", [*DETERMINISTIC, *FILLERS])
def test_complete_runs_of_all_schedulers(scheduler: str, tmp_path: Path) -> None:
    made = write_input(tmp_path)
    port = free_port()
    with_events = scheduler == "fillerSchedWithEvents"
    args = made.args_with_events if with_events else made.args
    outcome = run_pair(pybatsim(scheduler, port), our_simulator(args, port, tmp_path / "out"), tmp_path)
    assert outcome.codes == (0, 0), outcome.output
    assert f"success {N_JOBS} , complete: {N_JOBS}" in outcome.scheduler_output
    check_schedule(made, rows(tmp_path / "out_jobs.csv"), returns=RETURNS if with_events else ())


def test_fcfs_of_pybatsim_equals_ours(tmp_path: Path) -> None:
    """Start and end at the same times; which of the free processors a job gets is another matter."""
    made = write_input(tmp_path)
    port = free_port()
    outcome = run_pair(pybatsim(ANYHOSTS, port), our_simulator(made.args, port, tmp_path / "theirs"), tmp_path)
    assert outcome.codes == (0, 0), outcome.output
    ours = run_cli("simulate", *made.args, "--policy", "fcfs", "-q", "-e", str(tmp_path / "ours"))
    assert ours.returncode == 0, ours.stderr
    theirs_table, our_table = rows(tmp_path / "theirs_jobs.csv"), rows(tmp_path / "ours_jobs.csv")
    check_schedule(made, theirs_table)
    for table in (theirs_table, our_table):
        table.sort(key=lambda row: int(row["job_id"]))
        for row in table:
            del row["allocated_resources"]
    assert theirs_table == our_table


def run_with_both(scheduler: str, args: list[str], out: Path) -> list[list[dict[str, Any]]]:
    """Run a scheduler with our simulator (files ours_*) and with Batsim (batsim_*). Return the messages of each run."""
    received = []
    for name, simulator in (("ours", our_simulator), ("batsim", real_batsim)):
        port = free_port()
        outcome = run_pair(pybatsim(scheduler, port), simulator(args, port, out / name), out)
        assert outcome.codes == (0, 0), outcome.output
        received.append(messages(outcome.scheduler_output))
    assert len(received[0]) > N_JOBS
    return received


@pytest.mark.batsim
@pytest.mark.parametrize("scheduler", DETERMINISTIC)
def test_the_same_run_with_batsim(scheduler: str, tmp_path: Path) -> None:
    """Every message, _jobs.csv and _machine_states.csv are the same as with Batsim itself."""
    ours, theirs = run_with_both(scheduler, write_input(tmp_path).args, tmp_path)
    assert ours == theirs
    for file in ("jobs.csv", "machine_states.csv"):
        assert (tmp_path / f"ours_{file}").read_bytes() == (tmp_path / f"batsim_{file}").read_bytes()


@pytest.mark.batsim
def test_the_same_run_with_batsim_and_energy(tmp_path: Path) -> None:
    """The same with -E and its two files: energy meters change the order at one instant."""
    args = [*write_input(tmp_path, energy=True).args, "-E"]
    ours, theirs = run_with_both("schedFcfs", args, tmp_path)
    assert ours == theirs
    for file in ("jobs.csv", "machine_states.csv", "pstate_changes.csv", "consumed_energy.csv"):
        assert (tmp_path / f"ours_{file}").read_bytes() == (tmp_path / f"batsim_{file}").read_bytes()


def run_experiment(made: Input, out: Path, settings: dict[str, str]) -> None:
    """Run `pybatsim-experiment`, which starts the batsim and the pybatsim on the PATH."""
    port, other = free_port(), free_port()
    sockets = {"socket-endpoint": f"tcp://127.0.0.1:{port}", "event-socket-endpoint": f"tcp://127.0.0.1:{other}"}
    experiment = {
        "output-dir": str(out),
        "export": "run",
        "event-socket-connect": f"tcp://127.0.0.1:{other}",
        "batsim": {
            "platform": str(made.platform),
            "workload": str(made.workload),
            "socket-endpoint": sockets["socket-endpoint"],
            "enable-profile-reuse": False,
        },
        "scheduler": {"name": "schedFcfs", **sockets, "timeout": str(round(PATIENCE_S * 1000))},
    }
    out.mkdir()
    path = out / "experiment.json"
    path.write_text(json.dumps(experiment))
    output = run_foreign(str(PYBATSIM.with_name("pybatsim-experiment")), str(path), settings=settings, cwd=out)
    assert "Scheduler return code: 0\nBatsim return code: 0" in output


def test_an_experiment(tmp_path: Path) -> None:
    """It finds our simulator by its link, and the files of a run are all there."""
    made = write_input(tmp_path)
    run_experiment(made, tmp_path / "out", with_drop_in(tmp_path))
    check_schedule(made, rows(tmp_path / "out" / "run_jobs.csv"))
    names = {path.name for path in (tmp_path / "out").glob("run_*")}
    batsims = {"run_jobs.csv", "run_schedule.csv", "run_machine_states.csv", "run_schedule.trace"}
    assert names == {*batsims, "run_events.csv"}  # the last is pybatsim's


@pytest.mark.batsim
def test_the_same_experiment_with_batsim(tmp_path: Path) -> None:
    made = write_input(tmp_path)
    run_experiment(made, tmp_path / "ours", with_drop_in(tmp_path))
    run_experiment(made, tmp_path / "batsim", {"PATH": f"{PYBATSIM.parent}:{os.environ['PATH']}"})
    for name in ("run_jobs.csv", "run_machine_states.csv", "run_events.csv"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "batsim" / name).read_bytes(), name
    # Batsim chooses random colours of jobs each time.
    ours, theirs = ((tmp_path / name / "run_schedule.trace").read_text() for name in ("ours", "batsim"))
    colour = re.compile(r'(?<=")[\d.]+ [\d.]+ [\d.]+(?="\n)')
    assert len(colour.findall(theirs)) > N_JOBS
    assert colour.sub("", ours) == colour.sub("", theirs)


def test_an_invalid_decision_of_pybatsim_is_rejected(tmp_path: Path) -> None:
    """randomSched starts every job immediately on any processors; without sharing Batsim aborts, and we report why.

    Then pybatsim waits for a message until its timeout, so the test sets a short one.
    """
    port = free_port()
    simulator = our_simulator(write_input(tmp_path).args, port, tmp_path / "out")
    outcome = run_pair(pybatsim("randomSched", port, patience_s=PATIENCE_S / 6), simulator, tmp_path)
    assert outcome.codes == (1, 3), outcome.output
    assert re.search(r"w0!\d+", outcome.simulator_output), outcome.output
    assert "Traceback" not in outcome.simulator_output
    assert "Batsim is not responding" in outcome.scheduler_output


def test_pybatsim_may_overlap_jobs_with_compute_sharing(tmp_path: Path) -> None:
    port = free_port()
    args = [*write_input(tmp_path).args, "--enable-compute-sharing"]
    outcome = run_pair(pybatsim("randomSched", port), our_simulator(args, port, tmp_path / "out"), tmp_path)
    assert outcome.codes == (0, 0), outcome.output
    table = rows(tmp_path / "out_jobs.csv")
    assert len(table) == N_JOBS
    assert {row["waiting_time"] for row in table} == {"0.000000"}
    assert rows(tmp_path / "out_schedule.csv")[0]["nb_computing_machines"] == str(N_PROCS)


def test_a_scheduler_that_dies_is_noticed(tmp_path: Path) -> None:
    """fcfsSchedSleep expects a state's number where Batsim 4 writes text, and exits; Batsim would wait for ever."""
    port = free_port()
    args = [*write_input(tmp_path, energy=True).args, "-E"]
    outcome = run_pair(pybatsim("fcfsSchedSleep", port), our_simulator(args, port, tmp_path / "out"), tmp_path)
    assert outcome.codes == (1, 4), outcome.output
    assert "Switched to an unhandled pstate: 3" in outcome.scheduler_output
    assert re.search(r"closed its connection [\d.]+ s ago without a reply to message \d+", outcome.simulator_output)
