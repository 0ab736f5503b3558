"""Locality on random workloads: invariants."""

from __future__ import annotations

import itertools
from collections import defaultdict
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.locality_twin import PRESETS, Twin, TwinJob, TwinNode, TwinRules
from support.located import DYNAMIC, HUGE, MACHINES, Fate, FileNode, Machine, crowd, crowds, fates, run_locality
from support.outages import outages
from support.published_twin import PublishedTwin, by_logged_start

from pybatsched.core import events as e
from pybatsched.testing import FakeBatsim, Workload

SCORES = st.sampled_from(["fcfs", "eft", "lea", "leo", "lem"])
FAITHFUL = {"faithful": True, "interval_s": 5}
MODES: st.SearchStrategy[dict[str, Any]] = st.just(FAITHFUL) | st.fixed_dictionaries(
    {
        "backfill": st.booleans(),
        "persistence": st.booleans(),
        "interval_s": st.sampled_from([0, 30]),
        "bigger_nodes": st.sampled_from(["never", "idle"]),
    }
)
OVER = {e.COMPLETED_SUCCESSFULLY, e.COMPLETED_WALLTIME_REACHED}


def run_of(workload: Workload, machine: Machine, **options: Any) -> FakeBatsim:
    run = run_locality(workload, machine.n_procs, hosts=machine.hosts, config=DYNAMIC, **options)
    assert not run.deadlocked
    return run


def fates_of(workload: Workload, machine: Machine, **options: Any) -> dict[str, Fate]:
    found = fates(run_of(workload, machine, **options), machine)
    assert set(found) == {job["id"] for job in workload.jobs}
    return found


def ends_of(fate: Fate) -> tuple[float, float]:
    assert fate.started_at is not None
    assert fate.ended_at is not None
    return fate.started_at, fate.ended_at


def residencies(workload: Workload, found: dict[str, Fate]) -> list[list[dict[str, Any]]]:
    """Group the jobs that use a file on a node: they start while it is there, or as the last of the others ends."""
    users = defaultdict(list)
    for job in workload.jobs:
        if "input_file" in job:
            users[found[job["id"]].node, job["input_file"]].append(job)
    groups: list[list[dict[str, Any]]] = []
    for jobs in users.values():
        left_at = -1.0
        for job in sorted(jobs, key=lambda job: ends_of(found[job["id"]])):
            start, end = ends_of(found[job["id"]])
            if start > left_at:
                groups.append([])
            groups[-1].append(job)
            left_at = max(left_at, end)
    return groups


@examples(200)
@given(st.data(), MACHINES, SCORES, MODES)
def test_cores_are_never_shared_and_loads_are_within_the_walltime(
    data: st.DataObject, machine: Machine, score: str, options: dict[str, Any]
) -> None:
    workload = data.draw(crowds(machine, whole="faithful" in options))
    run = run_of(workload, machine, score=score, **options)
    found = fates(run, machine)
    for job in workload.jobs:
        fate = found[job["id"]]
        start, end = ends_of(fate)
        assert start >= job["subtime"]
        run_s = workload.profiles[job["profile"]]["delay"]
        assert end == start + min(fate.load_s + fate.wait_s + run_s, job["walltime"])
    by_proc = defaultdict(list)
    for one in run.jobs.values():
        for proc in one.procs:
            by_proc[proc].append((one.started_at or 0.0, one.ended_at or 0.0))
    for times in by_proc.values():
        times.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))


@examples(200)
@given(st.data(), MACHINES, SCORES, st.booleans(), st.booleans())
def test_a_file_is_loaded_once_a_residency(
    data: st.DataObject, machine: Machine, score: str, faithful: bool, backfill: bool
) -> None:
    workload = data.draw(crowds(machine, whole=faithful))
    options = FAITHFUL if faithful else {"backfill": backfill}
    found = fates_of(workload, machine, score=score, **options)
    total_s = most_s = 0.0
    for jobs in residencies(workload, found):
        here = [found[job["id"]] for job in jobs]
        load_s = jobs[0]["input_size_gb"] / machine.nodes[here[0].node].bandwidth
        if faithful:
            load_s = int(load_s)  # whole seconds
        loads = [fate for fate in here if fate.load_s]
        assert [fate.load_s for fate in loads] == ([load_s] if load_s else [])
        assert [fate.reused for fate in here].count(False) == 1
        begin, _ = ends_of(here[0])
        for fate in here:
            start, _ = ends_of(fate)
            if fate.load_s:
                assert start == begin
            elif not faithful:  # the program takes a load that was cut off for a whole one
                assert fate.wait_s == max(begin + load_s - start, 0)
        total_s += sum(fate.load_s for fate in here)
        most_s += load_s * len(jobs)
    assert total_s <= most_s


@examples(100)
@given(st.data(), MACHINES, SCORES)
def test_persistent_nodes_load_no_more_than_once_a_file_where_memory_is_plenty(
    data: st.DataObject, machine: Machine, score: str
) -> None:
    machine = Machine(tuple(node._replace(memory_gb=1024) for node in machine.nodes))
    workload = data.draw(crowds(machine, whole=True))
    for job in workload.jobs:  # no load is cut off
        job["walltime"] += 1000
    found = fates_of(workload, machine, score=score, persistence=True)
    loads = [(job["input_file"], found[job["id"]].node) for job in workload.jobs if found[job["id"]].load_s]
    assert len(loads) == len(set(loads))


@examples(100)
@given(st.data(), MACHINES, SCORES, st.booleans())
def test_jobs_of_the_history_start_on_their_logged_nodes(
    data: st.DataObject, machine: Machine, score: str, faithful: bool
) -> None:
    """In the order of the logged starts, jobs that find cores on their node start there; others wait for cores."""
    machine = Machine(tuple(node._replace(memory_gb=1024) for node in machine.nodes))
    workload = data.draw(crowds(machine, whole=True))
    found = fates_of(workload, machine, score=score, **(FAITHFUL if faithful else {}))
    n_idle = [node.n_cores for node in machine.nodes]
    logged = [(job["history_start"], job) for job in workload.jobs if "history_node" in job]
    in_order = by_logged_start(logged) if faithful else [job for _, job in sorted(logged, key=itemgetter(0))]
    for job in in_order:
        node = job["history_node"] % len(machine.nodes)
        if job["res"] <= n_idle[node]:
            n_idle[node] -= job["res"]
            assert (found[job["id"]].started_at, found[job["id"]].node) == (0, node)
        elif job["res"] <= machine.nodes[node].n_cores:
            n_idle[node] = 0  # a later job has cores after this one


@pytest.mark.parametrize(
    ("score", "multipliers"),
    [("fcfs", {"x1": 0, "x2": 0, "x3": 0}), ("fcfs", {"x2": 0}), ("eft", {"x1": 1}), ("lea", {"x1": 500, "x2": 1})],
)
@examples(40)
@given(data=st.data(), machine=MACHINES, options=MODES)
def test_presets_equal_their_multipliers(
    score: str, multipliers: dict[str, float], data: st.DataObject, machine: Machine, options: dict[str, Any]
) -> None:
    workload = data.draw(crowds(machine, whole="faithful" in options))
    assert fates_of(workload, machine, score=score, **options) == fates_of(workload, machine, **multipliers, **options)


@examples(60)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from([0, 30]))
def test_the_mixed_score_is_eft_while_a_node_is_idle(
    data: st.DataObject, backfill: bool, persistence: bool, interval_s: float
) -> None:
    """No job is of the large node's class, so it is always idle."""
    machine = Machine((FileNode(), FileNode(), FileNode()))
    workload = data.draw(crowds(machine, history=False))
    options: dict[str, Any] = {"backfill": backfill, "persistence": persistence, "interval_s": interval_s}
    with_idle = Machine((*machine.nodes, HUGE))
    mixed = fates_of(workload, with_idle, score="lem", **options)
    assert mixed == fates_of(workload, with_idle, score="eft", **options)


@examples(100)
@given(st.integers(0, 2**32), st.integers(1, 30), st.booleans())
def test_the_opportunistic_score_is_eft_where_every_node_is_idle(seed: int, n_jobs: int, backfill: bool) -> None:
    """Each job comes when the last one is over."""
    machine = Machine((FileNode(), FileNode(8, 16, 0.25), FileNode()))
    workload = crowd(machine, seed, n_jobs, history=False)
    for index, job in enumerate(workload.jobs):
        job["subtime"] = 2000 * index
    found = fates_of(workload, machine, score="leo", backfill=backfill)
    assert found == fates_of(workload, machine, score="eft", backfill=backfill)
    assert all(found[job["id"]].started_at == job["subtime"] for job in workload.jobs)


@examples(200)
@given(st.data(), MACHINES, SCORES, MODES, st.booleans())
def test_all_jobs_end_with_machine_failures(
    data: st.DataObject, machine: Machine, score: str, options: dict[str, Any], endless: bool
) -> None:
    """Machines go and come back, jobs without walltime outlive what was assumed: all jobs end, with few messages."""
    workload = data.draw(crowds(machine, whole="faithful" in options))
    events = data.draw(outages(machine.n_procs, 3) | outages(machine.n_procs, 20))
    if endless:
        for job in workload.jobs[::2]:
            del job["walltime"]
    run = run_of(workload, machine, score=score, assume_walltime=6, machine_events=events, **options)
    found = fates(run, machine)
    assert set(found) == {job["id"] for job in workload.jobs}
    assert run.n_messages <= 10 * len(workload.jobs) + len(events)


TWIN_SCORES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"score": name} for name in PRESETS]
) | st.fixed_dictionaries({name: st.sampled_from([0, 0.5, 1, 3, 500]) for name in ("x1", "x2", "x3")})


PUBLISHED_SCORES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [*({"score": name} for name in PRESETS), {"x1": 3, "x2": 2}, {"x1": 0, "x2": 1}]
)
PUBLISHED_MACHINES = st.sampled_from(
    [
        Machine((FileNode(),)),
        Machine((FileNode(),) * 2),
        Machine((FileNode(2, 16, 0.5),) * 4),
        Machine((FileNode(8, 128, 0.25),) * 3),
        Machine((FileNode(4, 16, 0.25), FileNode(4, 16, 0.5), FileNode(4, 16, 0.125))),
    ]
)


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    if given["bigger_nodes"] != "area":
        given.pop("areas")
    scores: dict[str, Any] = given.pop("scores")
    return given | scores


OPTIONS = st.fixed_dictionaries(
    {
        "scores": TWIN_SCORES,
        "backfill": st.booleans(),
        "persistence": st.booleans(),
        "interval_s": st.sampled_from([0, 30]),
        "bigger_nodes": st.sampled_from(["never", "never", "idle", "area"]),
        "areas": st.fixed_dictionaries({name: st.sampled_from([0, 64, 512]) for name in ("16", "32", "64")}),
    }
).map(options_of)


def jobs_of(workload: Workload) -> list[TwinJob]:
    return [
        TwinJob(
            job["id"],
            job["subtime"],
            job["res"],
            workload.profiles[job["profile"]]["delay"],
            job["walltime"],
            job.get("input_file", ""),
            job.get("input_size_gb", 0),
            job.get("node_memory_gb"),
            (job["history_node"], job["history_start"]) if "history_node" in job else None,
        )
        for job in workload.jobs
    ]


def results_of(jobs: list[TwinJob]) -> dict[str, tuple[Any, ...]]:
    return {
        job.id: (job.started_at, job.ended_at, job.node, job.load_s, job.wait_s, job.reused if job.file else None)
        for job in jobs
    }


def twin_of(workload: Workload, machine: Machine, options: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    rules = TwinRules(
        options.get("score", ""),
        (options.get("x1", 0), options.get("x2", 0), options.get("x3", 0)),
        options["backfill"],
        options["persistence"],
        options["interval_s"],
        options["bigger_nodes"],
        {float(name): area for name, area in options.get("areas", {}).items()},
    )
    jobs = jobs_of(workload)
    Twin(jobs, [TwinNode(*node) for node in machine.nodes], rules).run()
    return results_of(jobs)


def published_twin_of(workload: Workload, machine: Machine, options: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    jobs, x = jobs_of(workload), (options.get("x1", 0), options.get("x2", 0))
    nodes = [TwinNode(*node) for node in machine.nodes]
    PublishedTwin(jobs, nodes, options.get("score", ""), x, options["interval_s"]).run()
    return results_of(jobs)


@examples(300)
@given(st.data(), MACHINES, OPTIONS)
def test_starts_equal_those_of_the_slow_twin(data: st.DataObject, machine: Machine, options: dict[str, Any]) -> None:
    workload = data.draw(crowds(machine))
    if "areas" in options:
        classes = {f"{node.memory_gb:g}" for node in machine.nodes}
        options["areas"] = {name: area for name, area in options["areas"].items() if name in classes}
    run = run_locality(workload, machine.n_procs, hosts=machine.hosts, config=DYNAMIC, **options)
    assert not run.deadlocked
    assert fates(run, machine) == twin_of(workload, machine, options)


@examples(300)
@given(st.data(), PUBLISHED_MACHINES, PUBLISHED_SCORES, st.sampled_from([1, 2, 5, 30]))
def test_starts_equal_those_of_the_twin_of_the_published_program(
    data: st.DataObject, machine: Machine, scores: dict[str, Any], interval_s: int
) -> None:
    workload = data.draw(crowds(machine, most=60, whole=True))
    options = {"interval_s": interval_s, **scores}
    run = run_locality(workload, machine.n_procs, hosts=machine.hosts, config=DYNAMIC, faithful=True, **options)
    assert not run.deadlocked
    assert fates(run, machine) == published_twin_of(workload, machine, options)


def test_a_second_message_of_a_second_causes_no_second_pass() -> None:
    """At 150, a full pass places a job at 162. Another message of that second must not remove its place."""
    machine = Machine((FileNode(2, 16, 0.5),) * 4)
    workload = crowd(machine, 42, 42, history=True, whole=True)
    options: dict[str, Any] = {"x1": 3, "x2": 2, "interval_s": 5}
    found = fates(run_of(workload, machine, faithful=True, **options), machine)
    assert found == published_twin_of(workload, machine, options)
