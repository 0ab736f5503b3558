"""Invalid input of locality: platforms, jobs and options with exact errors, and rejected jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.located import DYNAMIC, FileNode, Machine, facts, fates, run_locality
from support.process import run_cli

from pybatsched.core import decisions as d
from pybatsched.errors import InputError
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy

MACHINE = Machine((FileNode(2, 16, 0.5), FileNode(4, 32, 0.5)))
AREA: dict[str, Any] = {"bigger_nodes": "area", "areas": {"16": 0, "32": 100}}
FILE: dict[str, Any] = {"input_file": "f", "input_size_gb": 4}
TASK = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}


def one(**fields: Any) -> Workload:
    """Make a workload of one job."""
    given: dict[str, Any] = {"n": 1, "s": 5, "walltime": 500, **fields}
    return Workload().job("x", **given)


def error_of(workload: Workload, hosts: Any = MACHINE.hosts, **options: Any) -> str:
    with pytest.raises(InputError) as raised:
        run_locality(workload, MACHINE.n_procs, hosts=hosts, config=DYNAMIC, **options)
    return str(raised.value)


def outcome(workload: Workload, *, faithful: bool = False, **options: Any) -> tuple[str, str]:
    """Return the job's state, and the reason if it was rejected."""
    session = Session(plan_for("published_locality" if faithful else "locality", **options), checked=True)
    run = FakeBatsim(workload, MACHINE.n_procs, config=DYNAMIC, hosts=MACHINE.hosts).run(session.handle)
    assert not run.deadlocked
    (job,) = (job for job in run.jobs.values() if "replaced_by" not in facts(job))
    reasons = [d.reason_text(reason) for _, reason in session.engine.rejections.values()]
    return job.final_state, reasons[0] if reasons else ""


NO_NODES = " (use a platform of cores such as -p rackham-core instead of --procs)"


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ([{}] * 6, "host node0 has no property node; policy locality expects it on all hosts" + NO_NODES),
        ([*MACHINE.hosts[:3], {"memory_gb": "32"}, *MACHINE.hosts[4:]],
         "host node3 has no property node; policy locality expects it on all hosts" + NO_NODES),
        ([{"node": "n", "fs_bw_gbps": "0"}] * 6, "node n, property fs_bw_gbps: expected more than 0 GB/s"),
        ([{"node": "n", "memory_gb": "0"}] * 6, "node n, property memory_gb: expected more than 0 GB"),
        ([{"node": "n", "fs_bw_gbps": "x"}] * 6,
         "host node0, property fs_bw_gbps: expected a number from 0, found 'x'"),
        ([{"node": "n", "memory_gb": "-1"}] * 6,
         "host node0, property memory_gb: expected a number from 0, found '-1'"),
    ],
)  # fmt: skip
def test_bad_platforms(hosts: list[dict[str, str]], message: str) -> None:
    assert error_of(one(), hosts) == message


@pytest.mark.parametrize("away", [{}, {"fs_bw_gbps": "0.5"}])
def test_a_node_without_bandwidth_is_rejected(away: dict[str, str]) -> None:
    hosts = [{"node": "n0", **away}] * 2 + [{"node": "n1"}] * 4
    name = "n1" if away else "n0"
    message = (
        f"job w0!x has an input file, but node {name} has no property fs_bw_gbps; expected it, or the option bandwidth"
    )
    assert error_of(one(**FILE), hosts) == message
    run = run_policy("locality", one(**FILE), 6, hosts=hosts, config=DYNAMIC, bandwidth=0.25)
    (loaded,) = (facts(job)["load_s"] for job in run.jobs.values() if "load_s" in facts(job))
    assert loaded == ("8" if away else "16")  # the platform precedes the option
    free = run_policy("locality", one(input_file="f", input_size_gb=0), 6, hosts=hosts, config=DYNAMIC)
    assert free.jobs["w0!x"].ended_at == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"input_file": "f", "input_size_gb": -1}, "field input_size_gb: expected GB from 0, found -1"),
        ({"input_size_gb": -1}, "field input_size_gb: expected GB from 0, found -1"),
        ({"input_size_gb": 1}, "field input_file: expected the name of the file whose size is given, found nothing"),
        ({"input_file": "f"}, "field input_size_gb: expected the size of the input_file in GB, found nothing"),
        ({"input_file": "f", "input_size_gb": "1"}, "field input_size_gb: expected GB from 0, found '1'"),
        ({"input_file": "f", "input_size_gb": True}, "field input_size_gb: expected GB from 0, found True"),
        (
            {"input_file": "f", "input_size_gb": [1], "node_memory_gb": 4},
            "field input_size_gb: expected GB from 0, found [1]",
        ),
        ({"input_file": 3, "input_size_gb": 1}, "field input_file: expected a name, found 3"),
        ({"input_file": "", "input_size_gb": 1}, "field input_file: expected a name, found ''"),
        ({"node_memory_gb": 0}, "field node_memory_gb: expected more than 0 GB, found 0"),
        ({"node_memory_gb": "x"}, "field node_memory_gb: expected more than 0 GB, found 'x'"),
        ({"history_node": -1}, "field history_node: expected a whole number from 0, found -1"),
        ({"history_node": "x"}, "field history_node: expected a whole number from 0, found 'x'"),
        ({"history_node": 1.5}, "field history_node: expected a whole number from 0, found 1.5"),
        ({"history_node": True}, "field history_node: expected a whole number from 0, found True"),
        ({"history_node": 1, "history_start": "x"}, "field history_start: expected seconds, found 'x'"),
    ],
)
@pytest.mark.parametrize("faithful", [False, True])
def test_bad_jobs(fields: dict[str, Any], message: str, faithful: bool) -> None:
    assert error_of(one(**fields), faithful=faithful) == f"job w0!x, {message}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "lea", "x1": 1}, "score lea sets x1 already; expected only one of them"),
        ({"score": "fcfs", "x2": 0}, "score fcfs sets x2 already; expected only one of them"),
        ({"score": "lem", "x3": 2}, "score lem sets x3 already; expected only one of them"),
        ({"bigger_nodes": "area"}, "bigger_nodes=area and areas: expected both or neither"),
        ({"areas": {"16": 1}}, "bigger_nodes=area and areas: expected both or neither"),
        ({"bigger_nodes": "area", "areas": {"x": 1}},
         "areas: expected an area of 0 or more for each memory in GB, found 'x': 1.0"),
        ({"bigger_nodes": "area", "areas": {"16": -1}},
         "areas: expected an area of 0 or more for each memory in GB, found '16': -1.0"),
        ({"bigger_nodes": "area", "areas": {"-16": 1}},
         "areas: expected an area of 0 or more for each memory in GB, found '-16': 1.0"),
        ({"bigger_nodes": "area", "areas": {"16": 1, "32": 2, "16.0": 3}},
         "areas: '16' and '16.0' are the same memory; expected one area for it"),
        ({"bigger_nodes": "area", "areas": 5}, "option areas (from -o): expected a table of keys and values, found 5"),
        ({"score": "leb"}, "option score (from -o): expected one of fcfs, eft, lea, leo, lem, found 'leb'"),
        ({"x1": -1}, "option x1 (from -o): expected 0 or more, found -1"),
        ({"interval_s": -1}, "option interval_s (from -o): expected 0 or more, found -1"),
        ({"interval_s": 1e300}, "option interval_s (from -o): expected at most 1,000,000,000, found 1e+300"),
        ({"bandwidth": 0}, "option bandwidth (from -o): expected more than 0, found 0"),
        ({"assume_walltime": 0}, "option assume_walltime (from -o): expected more than 0, found 0"),
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, Any], message: str) -> None:
    assert error_of(one(), **options) == f"policy locality: {message}"


def test_areas_of_another_machine() -> None:
    message = "option areas: no node has 77 GB; the platform has nodes of 16, 32 GB"
    assert error_of(one(), bigger_nodes="area", areas={"16": 5, "77": 1}) == message


NEVER_ENOUGH_CORES = "asks for {} cores; a node that it may use has {} at most"


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({"n": 5}, {}, NEVER_ENOUGH_CORES.format(5, 2)),
        ({"n": 3}, {}, NEVER_ENOUGH_CORES.format(3, 2)),
        ({"n": 3}, AREA, NEVER_ENOUGH_CORES.format(3, 2)),
        ({"n": 3}, {"bigger_nodes": "idle"}, ""),
        ({"n": 5}, {"bigger_nodes": "idle"}, NEVER_ENOUGH_CORES.format(5, 4)),
        ({"n": 3, "node_memory_gb": 17}, {}, ""),
        ({"n": 3}, {"faithful": True}, ""),
        ({"n": 5}, {"faithful": True}, NEVER_ENOUGH_CORES.format(5, 4)),
        ({"input_file": "f", "input_size_gb": 40}, {},
         "its file of 40 GB is larger than the memory of any node (32 GB)"),
        ({"input_file": "f", "input_size_gb": 40}, {"faithful": True, "interval_s": 1}, ""),
        ({"input_file": "f", "input_size_gb": 24, "node_memory_gb": 32}, {}, ""),
        ({"input_file": "f", "input_size_gb": 24, "node_memory_gb": 16}, {},
         "its file of 24 GB is larger than the memory of any node that it may use (16 GB)"),
        ({"input_file": "f", "input_size_gb": 24, "node_memory_gb": 16}, {"bigger_nodes": "idle"}, ""),
        ({"node_memory_gb": 33}, {}, "needs 33 GB on its node; none has more than 32 GB"),
        ({"walltime": None}, {}, "has no walltime, so no time can be reserved for it (see assume_walltime)"),
        ({"walltime": None, "estimate": 9}, {"faithful": True},
         "has no walltime, so no time can be reserved for it (see assume_walltime)"),
        ({"walltime": None}, {"assume_walltime": 3}, ""),
        ({"walltime": None, **FILE}, {"assume_walltime": 3, "faithful": True}, ""),
        ({**FILE, "profile": "task"}, {}, "no load can be put in front of its profile 'task', {}"),
        ({"profile": "task"}, {}, ""),
        ({"profile": "task", "input_file": "f", "input_size_gb": 0}, {}, ""),
        ({**FILE, "profile": "delays"}, {}, ""),
        ({**FILE, "user": "pat", "weird": {"a": [1]}, "input": None}, {}, ""),
    ],
)  # fmt: skip
def test_which_jobs_are_rejected(fields: dict[str, Any], options: dict[str, Any], message: str) -> None:
    workload = one(**fields)
    workload.profiles |= {"task": TASK, "delays": {"type": "composed", "repeat": 2, "seq": ["d5", "d5"]}}
    message = message.replace("{}", "which is not known to be made of delays")
    assert outcome(workload, **options) == ("REJECTED" if message else "COMPLETED_SUCCESSFULLY", message)


def test_dynamic_jobs_are_needed() -> None:
    with pytest.raises(InputError) as raised:
        run_policy("locality", one(), MACHINE.n_procs, hosts=MACHINE.hosts, config={"dynamic-jobs-enabled": False})
    assert str(raised.value) == "policy locality needs Batsim to be started with --enable-dynamic-jobs"


def test_options_by_batsims_own_command_line() -> None:
    """Options of --sched-cfg: with FCFS the second job starts on the other node, with LEA it waits for the file."""
    jobs = one(n=4, s=50, node_memory_gb=32, **FILE)
    jobs.job("y", n=2, s=5, walltime=20, node_memory_gb=32, **FILE)
    machine = Machine((FileNode(4, 32, 0.5), FileNode(4, 32, 0.5)))
    for score, start in (("fcfs", 0), ("lea", 58)):
        config = {**DYNAMIC, "sched-config": json.dumps({"score": score})}
        run = run_policy("locality", jobs, 8, hosts=machine.hosts, config=config)
        assert fates(run, machine)["y"].started_at == start


def test_a_platform_without_nodes_is_exit_code_2(tmp_path: Path) -> None:
    jobs = one()
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs.jobs, "profiles": jobs.profiles}))
    args = ["--procs", "2", "-w", str(tmp_path / "w.json"), "-e", str(tmp_path / "run"), "--enable-dynamic-jobs"]
    done = run_cli("simulate", *args, "--policy", "locality")
    assert done.returncode == 2
    assert "has no property node; policy locality expects it on all hosts" in done.stderr
    assert "Traceback" not in done.stderr
