"""Small jobs on larger nodes, by hand: if their own class cannot start them, and as far as areas allow."""

from __future__ import annotations

from typing import Any

import pytest
from support.located import DYNAMIC, Machine, Node, fates

from pybatsched.testing import Workload, run_policy

#: Node 0 is small, node 1 is big.
MACHINE = Machine((Node(2, 16), Node(2, 32)))
#: The mean over both nodes is 100: of class 16 there is too much, of class 32 nothing.
AREA: dict[str, Any] = {"bigger_nodes": "area", "areas": {"16": 200, "32": 0}}


def played(jobs: Workload, **options: Any) -> dict[str, tuple[float | None, int]]:
    """Return start and node of each job; "a" keeps node 0 busy until 100."""
    run = run_policy("locality", jobs, MACHINE.n_procs, hosts=MACHINE.hosts, config=DYNAMIC, **options)
    assert not run.deadlocked
    return {name: (fate.started_at, fate.node) for name, fate in fates(run, MACHINE).items()}


def busy() -> Workload:
    return Workload().job("a", n=2, s=100, walltime=100)


@pytest.mark.parametrize(("bigger_nodes", "expected"), [("never", (100, 0)), ("idle", (0, 1))])
def test_an_idle_larger_node_is_used_only_if_the_option_allows_it(
    bigger_nodes: str, expected: tuple[float, int]
) -> None:
    jobs = busy().job("b", n=2, s=10, walltime=50)
    assert played(jobs, bigger_nodes=bigger_nodes)["b"] == expected


def test_jobs_that_need_a_larger_node_are_first() -> None:
    """B has a reservation on node 0 until the next pass."""
    jobs = busy().job("b", n=2, s=10, walltime=50).job("c", n=2, s=10, walltime=50, node_memory_gb=32)
    assert played(jobs, bigger_nodes="idle") == {"a": (0, 0), "b": (30, 1), "c": (0, 1)}


@pytest.mark.parametrize(("walltime", "expected"), [(50, (0, 1)), (50.5, (100, 0))])
def test_the_planned_area_may_be_just_the_mean(walltime: float, expected: tuple[float, int]) -> None:
    jobs = busy().job("b", n=2, s=10, walltime=walltime)
    assert played(jobs, **AREA)["b"] == expected


def test_a_job_started_on_a_bigger_node_uses_its_area() -> None:
    """At 40 node 1 is idle again, but what is planned for it is full: b was to take 2 x 50 s."""
    jobs = busy().job("b", n=2, s=10, walltime=50).job("c", n=1, s=1, walltime=1, at=40)
    assert played(jobs, **AREA) == {"a": (0, 0), "b": (0, 1), "c": (100, 0)}


def test_areas_are_counted_within_a_pass() -> None:
    """B takes all that is left of class 32, and a core of it stays idle."""
    jobs = busy().job("b", n=1, s=10, walltime=100).job("c", n=1, s=1, walltime=100)
    assert played(jobs, **AREA) == {"a": (0, 0), "b": (0, 1), "c": (100, 0)}
