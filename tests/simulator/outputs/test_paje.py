"""``_schedule.trace``: equal to Batsim's file line by line, and the same schedule as ``_jobs.csv``."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from support.recordings import recording
from support.simulated import play, rows

from pybatsched.core.intervals import IntervalSet
from pybatsched.platform.model import uniform
from pybatsched.simulator.hosts import HostBook, HostState
from pybatsched.simulator.jobs import KILLED_TASK, NO_TIME_S, SimJob
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.paje import ScheduleTrace
from pybatsched.simulator.work.profiles import Work

BEGIN = "# Begin of events\n"
END = "\n# End of events, containers destruction\n"


def events(text: str) -> list[str]:
    """Return the lines of the events, without the colours of jobs."""
    body = text.partition(BEGIN)[2].partition(END)[0]
    return [re.sub(r'^(5 .*) "[^"]*"$', r"\1", line) for line in body.splitlines()]


def job(name: str, procs: list[int]) -> SimJob:
    made = SimJob("w0", name, {"res": len(procs), "subtime": 0}, Work("p", "delay", {}))
    made.alloc = IntervalSet(procs)
    return made


def test_a_small_trace(tmp_path: Path) -> None:
    """Two jobs, one of which is killed; then two that share a processor, and one whose machine has gone."""
    scenario = Scenario(uniform(2), {})
    book = HostBook(2)
    a, b, c = job("a", [0, 1]), job("b", [0]), job("c", [0])
    a.return_code = KILLED_TASK
    trace = ScheduleTrace(str(tmp_path / "out"))
    with trace.opened(scenario, book):
        trace.started(a, 0.0)
        trace.released(a, 2.5)
        trace.started(b, 3.0)
        trace.started(c, 4.0)
        trace.released(b, 5.0)
        book.change(0, HostState.UNAVAILABLE, 5.5)
        trace.released(c, 6.0)
        trace.run_ended(7.0, 0.0, (0, 0))
    text = (tmp_path / "out_schedule.trace").read_text()
    names = [host.name for host in scenario.platform.hosts]
    assert events(text) == [
        "6 0.000000 machine_state m0 w", "6 0.000000 machine_state m1 w", '5 jw0!a machine_state "w0!a"',
        "6 0.000000 machine_state m0 jw0!a", "6 0.000000 machine_state m1 jw0!a", '8 2.500000 kk k "w0!a"',
        '8 2.500000 km m0 "w0!a"', '8 2.500000 km m1 "w0!a"', "6 2.500000 machine_state m0 w",
        "6 2.500000 machine_state m1 w", '5 jw0!b machine_state "w0!b"', "6 3.000000 machine_state m0 jw0!b",
        '5 jw0!c machine_state "w0!c"', "6 5.000000 machine_state m0 jw0!c",
    ]  # fmt: skip
    head, _, tail = text.partition(BEGIN)
    assert tail.endswith(f"{END}3 7.000000 m0 machine_ct\n3 7.000000 m1 machine_ct\n3 7.000000 root root_ct\n")
    assert f'2 0.000000 machine_ct m1 "{names[1]}" root\n' in head
    kinds = re.findall(r"^%EventDef Paje(\w+) (\d+)$", head, flags=re.MULTILINE)
    assert [int(number) for _, number in kinds] == list(range(1, 11))
    colours = re.findall(r'^5 j\S+ machine_state "\S+" "([^"]*)"$', text, flags=re.MULTILINE)
    assert len(set(colours)) == 3


@pytest.mark.parametrize("name", ["random-plain-1", "kill-order", "walltime-parallel", "energy", "requeue-ack"])
def test_the_trace_has_the_schedule_of_the_jobs(name: str, tmp_path: Path) -> None:
    """Every processor shows every job from its start to its end, and nothing else."""
    play(recording(name), tmp_path / "out", traced=True)
    shown = defaultdict(list)
    busy: dict[str, tuple[str, float]] = {}
    lines = events((tmp_path / "out_schedule.trace").read_text())
    for line in lines:
        if not line.startswith("6 "):
            continue
        _, at, _, machine, state = line.split()
        if machine in busy:
            job, since = busy.pop(machine)
            shown[job].append((machine, since, float(at)))
        if state != "w":
            busy[machine] = (state, float(at))
    table = [row for row in rows(tmp_path / "out_jobs.csv") if row["starting_time"]]
    assert table
    assert busy == {}
    for row in table:
        job = f"j{row['workload_name']}!{row['job_id']}"
        start, end = float(row["starting_time"]), float(row["finish_time"])
        if float(row["execution_time"]) == NO_TIME_S:  # written down instead of nothing
            end = start
        assert shown[job] == [(f"m{proc}", start, end) for proc in IntervalSet.parse(row["allocated_resources"])]
    killed = {line.split('"')[1] for line in lines if line.startswith("8 ") and " kk " in line}
    by_walltime = {
        f"{row['workload_name']}!{row['job_id']}" for row in table if row["final_state"] == "COMPLETED_WALLTIME_REACHED"
    }
    assert by_walltime <= killed
