"""Figures of runs on nodes: on paper, second by second, and the same in all places."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from support.nodes_example import MACHINE, simulate_example
from support.nodes_twin import SlowNode, gpus_of
from support.process import run_cli
from support.random_nodes import crowds, fast_nodes, hosts_of, machines

import pybatsched as pb
from pybatsched.campaign.store import Store
from pybatsched.campaign.table import points_done
from pybatsched.core.host_nodes import groups_of, nodes_of_groups
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.nodes import Node, Nodes
from pybatsched.errors import InputError
from pybatsched.metrics import JobRecord, Outcome
from pybatsched.metrics.node_use import NodeUse, figures_of_summary, nodes_of_summary
from pybatsched.metrics.saved_runs import read_run
from pybatsched.testing import FakeJob, Workload, run_policy

#: On 16 processors, 96 GB and 4 GPUs from 0 to 90. The processors of n2 are free beside c, which has both of its GPUs:
#: two until 30, but one while f runs; one on each of n2 and n3 is free beside e, which has all GPUs for 10 s.
FIGURES = {
    "memory_utilisation": (16 * 10 + 12 * 20 + 8 * 5 + 4 * 50) / (96 * 90),
    "gpu_utilisation": (2 * 30 + 1 * 15 + 4 * 10 + 1 * 50) / (4 * 90),
    "stranded": (2 * 30 - 5 + 2 * 10) / (16 * 90),
    "utilisation_of_gpu": (2 * 30 + 2 * 15 + 4 * 10 + 2 * 50) / (16 * 90),
    "utilisation_of_main": (4 * 10 + 1 * 20 + 1 * 5 + 2 * 50) / (16 * 90),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of docs/nodes.md under EASY, also cut at 35."""
    place = tmp_path_factory.mktemp("nodes")
    simulate_example(place, "run")
    simulate_example(place, "cut", "--stop-at", "35")
    return place


def test_on_paper(place: Path) -> None:
    summary = json.loads((place / "run_summary.json").read_text())
    assert summary["node_figures"] == FIGURES
    assert summary["nodes"] == [
        {"memory_gb": 16.0, "procs": {"0": "0-3", "1": "4-7"}},
        {"memory_gb": 32.0, "gpus": {"": 2}, "procs": {"2": "8-11", "3": "12-15"}},
    ]


def test_a_saved_run_python_and_a_campaign_have_the_same_figures(place: Path) -> None:
    saved = read_run(str(place / "run"))
    assert saved.jobs.nodes is not None
    assert saved.jobs.nodes.figures() == FIGURES
    run = pb.simulate(pb.read_workload(str(place / "w.json")), "easy", nodes=MACHINE)
    assert FIGURES.items() <= run.figures.items()
    assert "resource" in run.jobs.columns
    printed = json.loads(run_cli("metrics", "run", "--json", cwd=place).stdout)["run"]
    assert {name: printed[name]["mean"] for name in FIGURES} == FIGURES
    (place / "study.toml").write_text(
        f'name = "c"\neach = ["resource"]\n[[workload]]\nname = "w"\nfile = "w.json"\n'
        f'[[platform]]\nname = "p"\nnodes = "{MACHINE}"\n[[policy]]\nname = "easy"\n'
    )
    done = run_cli("campaign", "run", "study.toml", "--output", "study", "--quiet", cwd=place)
    assert done.returncode == 0, done.stderr
    ((_, cell),) = points_done(Store(place / "study"))
    assert FIGURES.items() <= cell["figures"].items()
    assert {name: one["mean_wait_s"] for name, one in cell["each"]["resource"].items()} == {
        "cores": 0,
        "gpu": (0 + 0 + 28 + 36) / 4,
        "memory": 0,
    }
    assert cell["each"]["resource"]["gpu"]["gpu_utilisation"] == FIGURES["gpu_utilisation"]


def test_classes_by_what_jobs_request(place: Path) -> None:
    saved = read_run(str(place / "run"))
    resources = dict(zip(saved.jobs.frame["id"], saved.jobs.frame["resource"], strict=True))
    # The machine has 6 GB for each processor.
    assert resources == {f"w0!{name}": "gpu" for name in "cdeg"} | {
        "w0!a": "cores",
        "w0!b": "memory",
        "w0!f": "memory",
        "w0!h": "cores",
    }
    use = saved.jobs.by_class("resource")["memory"].use_of_nodes()
    assert use["memory_utilisation"] == (12 * 20 + 8 * 5) / (96 * 90)
    assert use["utilisation"] == (20 + 5) / (16 * 90)
    held = saved.jobs.frame.filter(saved.jobs.frame["id"] == "w0!e").select("held_memory_gb", "held_gpus").row(0)
    assert held == (0, 4)
    node = Node(0, "n", IntervalSet.parse("0-3"), 4, 16_000_000, (), frozenset())
    record = JobRecord("w0!a", "REJECTED", 0, 0, ())
    for fields in ({"exclusive": True, "res": 1}, {"n_nodes": 1, "res": 4}):
        assert NodeUse(Nodes([node]), [record._replace(fields=fields)]).of_jobs()["resource"] == ["whole node"]


def test_gpus_of_any_type_are_the_first_free_ones() -> None:
    """On a node with two GPUs of type a and one of type b for 40 s, and an idle one with one of each."""
    nodes = Nodes(
        [
            Node(0, "n0", IntervalSet.parse("0-3"), 4, math.inf, (2, 1), frozenset()),
            Node(1, "n1", IntervalSet.parse("4-7"), 4, math.inf, (1, 1), frozenset()),
        ],
        ["a", "b"],
    )
    rows: list[tuple[float, float, dict[str, Any]]] = [
        (0, 40, {"gpus_per_node": "a:1"}),
        (5, 10, {"gpus_per_node": 2}),  # one of each type
        (20, 10, {"gpus": 1}),  # of type a
    ]
    records = []
    for k, (at, run_s, fields) in enumerate(rows):
        part = Outcome(f"w0!{k}", "COMPLETED_SUCCESSFULLY", at, at, run_s, 1, procs=IntervalSet((k,)))
        records.append(JobRecord(part.id, part.state, at, run_s, (part,), {"res": 1, **fields}))
    assert NodeUse(nodes, records).figures() == {
        "gpu_utilisation": (40 + 2 * 10 + 10) / (5 * 40),
        "gpu_utilisation_a": (40 + 10 + 10) / (3 * 40),
        "gpu_utilisation_b": 10 / (2 * 40),
        "stranded": 2 * 10 / (8 * 40),
    }


def test_a_truncated_run_counts_the_jobs_that_ran_then(place: Path) -> None:
    expected = {
        "memory_utilisation": (16 * 10 + 12 * 20 + 8 * 5 + 4 * 30) / (96 * 35),
        "gpu_utilisation": (2 * 30 + 1 * 15 + 4 * 5) / (4 * 35),
        "stranded": (2 * 30 - 5 + 2 * 5) / (16 * 35),
        "utilisation_of_gpu": (2 * 30 + 2 * 15 + 4 * 5) / (16 * 35),
        "utilisation_of_main": (4 * 10 + 1 * 20 + 1 * 5 + 2 * 30) / (16 * 35),
    }
    assert figures_of_summary(json.loads((place / "cut_summary.json").read_text())) == expected
    nodes = read_run(str(place / "cut")).jobs.nodes
    assert nodes is not None
    assert nodes.figures() == expected


def test_a_named_partition_counts_its_own_processors(place: Path) -> None:
    partitions = "main: 0-2, default; gpu: 2-3, priority 5"
    simulate_example(place, "named", "--partitions", partitions)
    found = json.loads((place / "named_summary.json").read_text())["node_figures"]
    saved = read_run(str(place / "named"))
    assert saved.jobs.nodes is not None
    assert saved.jobs.nodes.figures() == found
    # a, b, f and h are on nodes 0 and 1, and f on 2; c, d, e and g on 2 and 3, until 90.
    assert found["utilisation_of_main"] == (4 * 10 + 1 * 20 + 1 * 5 + 2 * 50) / (12 * 90)
    assert found["utilisation_of_gpu"] == (2 * 30 + 2 * 15 + 4 * 10 + 2 * 50) / (8 * 90)
    assert FIGURES["gpu_utilisation"] == found["gpu_utilisation"]


def test_a_policy_that_counts_requests_itself_has_the_figures(place: Path) -> None:
    (place / "slurm.conf").write_text(
        "SchedulerType=sched/backfill\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nGresTypes=gpu\n"
        "NodeName=a[0-1] CPUs=4 RealMemory=16000\nNodeName=g[0-1] CPUs=4 RealMemory=32000 Gres=gpu:2\n"
        "PartitionName=main Nodes=ALL Default=YES State=UP\nPartitionName=gpu Nodes=g[0-1] State=UP\n"
    )
    simulate_example(place, "slurm", "--policy", "slurm", "-o", "slurm_conf=slurm.conf")
    summary = json.loads((place / "slurm_summary.json").read_text())
    gpu_s, span_s = 2 * 30 + 1 * 15 + 4 * 10 + 1 * 50, summary["figures"]["makespan_s"]
    assert summary["node_figures"]["gpu_utilisation"] == pytest.approx(gpu_s / (4 * span_s))


def test_without_the_requests_of_jobs_the_summary_still_has_its_figures(place: Path, tmp_path: Path) -> None:
    for name in ("run_jobs.csv", "run_summary.json"):
        (tmp_path / name).write_text((place / name).read_text())
    content = json.loads((tmp_path / "run_summary.json").read_text())
    content["inputs"]["workloads"][0]["file"] = "missing.json"
    (tmp_path / "run_summary.json").write_text(json.dumps(content))
    run = read_run(str(tmp_path / "run"))
    assert run.jobs.nodes is None
    assert figures_of_summary(run.summary) == FIGURES
    with pytest.raises(InputError, match="s.json: nodes: expected groups of nodes with procs, found"):
        nodes_of_summary("s.json", {"nodes": [{"procs": {"n0": "x"}}]})


def of_fake(job: FakeJob) -> JobRecord:
    assert job.started_at is not None
    assert job.ended_at is not None
    times = job.fields["subtime"], job.started_at, job.ended_at - job.started_at
    part = Outcome(job.id, "COMPLETED_SUCCESSFULLY", *times, len(job.procs), procs=job.procs)
    return JobRecord(job.id, part.state, part.submitted_at, part.runtime_s, (part,), job.fields)


def by_seconds(slow: Sequence[SlowNode], jobs: Sequence[JobRecord]) -> dict[str, float]:
    """The figures by adding up each second on each node."""
    begin, end = min(job.submitted_at for job in jobs), max(job.ended_at for job in jobs)
    held_gb = held_gpus = stranded = 0.0
    for second in range(round(begin), round(end)):
        for node in slow:
            here = [
                (job.fields, len(job.segments[0].procs & IntervalSet(node.procs)))
                for job in jobs
                if job.started_at <= second < job.ended_at
            ]
            here = [(fields, n) for fields, n in here if n]
            own_gb = sum(fields.get("node_memory_gb", fields.get("memory_gb", 0) * n) for fields, n in here)
            own_gpus = sum(gpus_of(fields)[1] for fields, _ in here)
            n_gpus, n_free = sum(node.gpus.values()), len(node.procs) - sum(n for _, n in here)
            held_gb, held_gpus = held_gb + own_gb, held_gpus + own_gpus
            has_memory = node.memory_gb - own_gb >= node.memory_gb / len(node.procs)
            is_usable = has_memory and (not n_gpus or own_gpus < n_gpus)
            if not is_usable or any(fields.get("exclusive") for fields, _ in here):
                stranded += n_free
    span_s, n_procs = end - begin, sum(len(node.procs) for node in slow)
    n_gpus = sum(sum(node.gpus.values()) for node in slow)
    memory_gb = sum(node.memory_gb for node in slow)
    found = {"memory_utilisation": held_gb / (span_s * memory_gb)} if held_gb else {}
    found |= {"gpu_utilisation": held_gpus / (span_s * n_gpus)} if held_gpus else {}
    return {**found, "stranded": stranded / (span_s * n_procs)}


@settings(max_examples=100)
@given(machines(), crowds())
def test_figures_are_sums_of_seconds(slow: list[SlowNode], jobs: list[dict[str, Any]]) -> None:
    workload = Workload()
    for job in jobs:
        workload.job(job["id"], n=job["n"], s=job["s"], at=job["at"], walltime=job["walltime"], **job["request"])
    done = run_policy("easy", workload, hosts=hosts_of(slow)).jobs.values()
    records = [of_fake(job) for job in done if job.final_state != "REJECTED"]
    use = NodeUse(fast_nodes(slow), records)
    found = {name: value for name, value in use.figures().items() if not name.startswith("gpu_utilisation_")}
    assert found == pytest.approx(by_seconds(slow, records) if records else {})
    by_type = [value for name, value in use.capacity.items() if name.startswith("GPUs ")]
    assert not by_type or sum(by_type) == use.capacity["GPUs"]
    classes = use.of_jobs()["resource"]
    shares = [use.shares([row for row, one in enumerate(classes) if one == name]) for name in set(classes)]
    whole = use.shares(range(len(records)))
    assert {name: sum(one[name] for one in shares) for name in whole} == pytest.approx(whole)
    assert whole.get("memory_utilisation") == pytest.approx(found.get("memory_utilisation"))


@given(machines())
def test_nodes_are_read_from_a_summary(slow: list[SlowNode]) -> None:
    nodes = fast_nodes(slow)
    again = nodes_of_groups(json.loads(json.dumps(groups_of(nodes))))
    assert again.gpu_types == nodes.gpu_types
    assert again.nodes == tuple(node._replace(features=frozenset(), weight=1.0) for node in nodes.nodes)
