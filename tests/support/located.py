"""Machines of nodes, workloads with input files, and the results of their jobs, for tests of locality."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st

from pybatsched.testing import FakeBatsim, FakeJob, Workload, run_policy

DYNAMIC = {"dynamic-jobs-enabled": True}


class FileNode(NamedTuple):
    """A node: its cores, its memory and its bandwidth from the file system in GB and GB/s."""

    n_cores: int = 4
    memory_gb: float = 16
    bandwidth: float = 0.5


class Machine(NamedTuple):
    """FileNodes, one processor a core."""

    nodes: tuple[FileNode, ...]

    @property
    def n_procs(self) -> int:
        return sum(node.n_cores for node in self.nodes)

    @property
    def hosts(self) -> list[dict[str, str]]:
        """The properties of the hosts, for `run_policy`."""
        return [
            {"node": f"n{index}", "memory_gb": f"{node.memory_gb:g}", "fs_bw_gbps": f"{node.bandwidth:g}"}
            for index, node in enumerate(self.nodes)
            for _ in range(node.n_cores)
        ]

    @property
    def node_of(self) -> list[int]:
        """The node of each processor."""
        return [index for index, node in enumerate(self.nodes) for _ in range(node.n_cores)]


class Fate(NamedTuple):
    """What became of a job; `reused` is None for a job without a file."""

    started_at: float | None
    ended_at: float | None
    node: int
    load_s: float = 0.0
    wait_s: float = 0.0
    reused: bool | None = None


def facts(job: FakeJob) -> Mapping[str, str]:
    """Read the facts in a job's metadata."""
    return dict(part.split("=", 1) for part in job.metadata.split(";") if part)


def fates(run: FakeBatsim, machine: Machine) -> dict[str, Fate]:
    """Return the result of each job, by the id that its user gave it."""
    found = {}
    for job in run.jobs.values():
        known = facts(job)
        if "replaced_by" in known:
            continue
        assert job.final_state in {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"}
        (node,) = {machine.node_of[proc] for proc in job.procs}  # within one node
        name = known.get("parent", job.id).removeprefix("w0!")
        read = (
            (float(known["load_s"]), float(known["load_wait_s"]), known["reused"] == "1") if "load_s" in known else ()
        )
        found[name] = Fate(job.started_at, job.ended_at, node, *read)
    return found


SMALL, BIG, HUGE, SLOW = FileNode(), FileNode(memory_gb=32), FileNode(memory_gb=64), FileNode(n_cores=8, bandwidth=0.25)
MACHINES = st.sampled_from(
    [
        Machine((SMALL,)),
        Machine((SMALL,) * 3),
        Machine((FileNode(2, 16, 0.25),) * 4),
        Machine((SLOW, SMALL, SMALL)),
        Machine((SMALL, BIG)),
        Machine((BIG, SMALL, SMALL, BIG)),
        Machine((SMALL, BIG, HUGE, FileNode(8, 16, 2))),
    ]
)

#: By name, so that a file has one size. All loads are exact.
FILES = {"a": 4.0, "b": 4.0, "c": 8.0, "d": 0.5, "e": 12.0, "f": 2.0, "g": 0.0, "h": 6.0}


def crowd(machine: Machine, seed: int, n_jobs: int, *, history: bool = True, whole: bool = False) -> Workload:
    """Draw a crowded workload in which jobs share few files; some walltimes are too short for the load and the work.

    Fewer jobs of the same seed are the first of more. With `whole` all times are whole seconds.
    """
    dice = random.Random(seed)
    workload = Workload()
    names = dice.sample(sorted(FILES), dice.choice([1, 2, 4, 8]))
    classes = sorted({node.memory_gb for node in machine.nodes})
    most = min(node.n_cores for node in machine.nodes)
    longest = dice.choice([8, 40])
    slack_s = dice.choice([[0, 0, 8, 40, 200, -4], [8, 40], [2, 4], [40, 200, 1000]])
    gaps: list[float] = dice.choice([[0, 0, 0, 0.25, 1, 4, 10, 30], [0, 0, 0.5, 2], [0, 4, 8, 16]])
    at = 0.0
    for index in range(n_jobs):
        gap = dice.choice(gaps) if index > 4 else 0.0
        at += math.ceil(gap) if whole else gap
        run_s = dice.randint(1, longest)
        fields: dict[str, Any] = {}
        if dice.randrange(6):
            name = dice.choice(names)
            fields = {"input_file": name, "input_size_gb": FILES[name]}
        if not dice.randrange(4):
            fields["node_memory_gb"] = max(dice.choice([*classes, 8]), fields.get("input_size_gb", 0))
        if history and not at and dice.randrange(2):
            fields |= {"history_node": dice.randint(0, 9), "history_start": -dice.randint(0, 9)}
        walltime = max(run_s + dice.choice(slack_s), 1)
        workload.job(f"{index:02}", n=dice.randint(1, most), s=run_s, at=at, walltime=walltime, **fields)
    return workload


def crowds(
    machine: Machine, *, most: int = 30, history: bool = True, whole: bool = False
) -> st.SearchStrategy[Workload]:
    """Draw crowded workloads."""
    seeds, sizes = st.integers(0, 2**32), st.integers(1, most)
    return st.builds(crowd, st.just(machine), seeds, sizes, history=st.just(history), whole=st.just(whole))


def run_locality(jobs: Workload, n_procs: int, *, faithful: bool = False, **given: Any) -> FakeBatsim:
    """Run `locality`, or the published program."""
    return run_policy("published_locality" if faithful else "locality", jobs, n_procs, **given)
