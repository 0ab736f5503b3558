"""Locality starts every job at the time and place of its slow twins, with the same loads."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from support.examples import examples
from support.locality_twin import PRESETS, Twin, TwinJob, TwinNode, TwinRules
from support.located import DYNAMIC, MACHINES, Machine, Node, crowds, fates
from support.published_twin import PublishedTwin

from pybatsched.testing import Workload, run_policy

SCORES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"score": name} for name in PRESETS]
) | st.fixed_dictionaries({name: st.sampled_from([0, 0.5, 1, 3, 500]) for name in ("x1", "x2", "x3")})


PUBLISHED_SCORES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [*({"score": name} for name in PRESETS), {"x1": 3, "x2": 2}, {"x1": 0, "x2": 1}]
)
PUBLISHED_MACHINES = st.sampled_from(
    [
        Machine((Node(),)),
        Machine((Node(),) * 2),
        Machine((Node(2, 16, 0.5),) * 4),
        Machine((Node(8, 128, 0.25),) * 3),
        Machine((Node(4, 16, 0.25), Node(4, 16, 0.5), Node(4, 16, 0.125))),
    ]
)


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    if given["bigger_nodes"] != "area":
        given.pop("areas")
    scores: dict[str, Any] = given.pop("scores")
    return given | scores


OPTIONS = st.fixed_dictionaries(
    {
        "scores": SCORES,
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
    run = run_policy("locality", workload, machine.n_procs, hosts=machine.hosts, config=DYNAMIC, **options)
    assert not run.deadlocked
    assert fates(run, machine) == twin_of(workload, machine, options)


@examples(300)
@given(st.data(), PUBLISHED_MACHINES, PUBLISHED_SCORES, st.sampled_from([1, 2, 5, 30]))
def test_starts_equal_those_of_the_twin_of_the_published_program(
    data: st.DataObject, machine: Machine, scores: dict[str, Any], interval_s: int
) -> None:
    workload = data.draw(crowds(machine, most=60, whole=True))
    options = {"interval_s": interval_s, **scores}
    run = run_policy(
        "locality", workload, machine.n_procs, hosts=machine.hosts, config=DYNAMIC, faithful=True, **options
    )
    assert not run.deadlocked
    assert fates(run, machine) == published_twin_of(workload, machine, options)
