"""The choice of nodes: worked examples of each rule, and slow obvious twins of select/linear."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pybatsched.machines.slurm_conf import NodeSpec, Partition, SlurmConf
from pybatsched_schedulers.slurm import selection
from pybatsched_schedulers.slurm.controller import machine_of
from pybatsched_schedulers.slurm.jobs import Placement, Record, Request
from pybatsched_schedulers.slurm.selection import ConsTresSelection, CountedNodes, Held, LinearSelection, Releases

BATCH = Partition("batch", ())


class Nodes:
    """A cluster of nodes with (CPUs, weight, GPUs, memory), of which some CPUs are taken."""

    def __init__(self, *nodes: tuple[int, ...], taken: Iterable[int] = (), linear: bool = False) -> None:
        specs = [(*node, 1, 0, 8_000)[: len(node)] + (1, 0, 8_000)[len(node) - 1 :] for node in nodes]
        conf = SlurmConf("x", tuple(
            NodeSpec(f"n{i}", cpus, memory, {"a": gpus} if gpus else {}, weight)
            for i, (cpus, weight, gpus, memory) in enumerate(specs)
        ), {})  # fmt: skip
        self.machine = machine_of(conf)
        self.select = LinearSelection(self.machine) if linear else ConsTresSelection(self.machine)
        self.free = CountedNodes(self.machine)
        for node, cpus in enumerate(taken):
            if cpus:
                self.hold(Request(n_tasks=cpus, exclusive=linear), (node,), (cpus,))

    def hold(self, request: Request, nodes: tuple[int, ...], cpus: tuple[int, ...], end: float = 0) -> Held:
        record = Record(1, request, BATCH, end, 0)
        record.placement = placement = Placement(nodes, cpus)
        shares = self.select.shares(request, placement, self.free)
        self.free.take(shares, exclusive=request.exclusive)
        return Held(end, len(nodes), record, shares, sum(1 << node for node in nodes))

    def choose(self, allowed: int = -1, **fields: Any) -> dict[int, int] | None:
        """Return the chosen nodes with their CPUs."""
        allowed &= self.machine.all
        found = self.select.choose(Request(**fields), allowed, self.free)
        return None if found is None else dict(zip(found.nodes, found.cpus, strict=True))


# --- cons_tres ---


def test_nodes_without_enough_memory_gpus_or_free_cores_offer_nothing() -> None:
    cluster = Nodes((4, 1, 0, 1_000), (4, 1, 2, 4_000), (4, 1, 0, 2_000), taken=(0, 3, 0))
    assert cluster.choose(n_tasks=2, node_memory=1_500) == {2: 2}
    assert cluster.choose(n_tasks=2, max_nodes=1, cpu_memory=1_500) is None  # one core of node 2, one of node 1
    assert cluster.choose(n_tasks=2, cpu_memory=1_500) == {1: 1, 2: 1}
    assert cluster.choose(gpus_per_node=1) == {1: 1}
    assert cluster.choose(gpus_per_node=3) is None
    assert cluster.choose(n_tasks=4, tasks_per_node=4, max_nodes=1, exclusive=True) == {0: 4}
    assert cluster.choose(min_nodes=3, n_tasks=3, exclusive=True) is None  # node 1 is not idle


def test_cores_per_node_are_rounded_to_whole_tasks() -> None:
    cluster = Nodes((5,), (5,))
    assert cluster.choose(n_tasks=3, cpus_per_task=2) == {0: 4, 1: 2}
    assert cluster.choose(n_tasks=5, cpus_per_task=2) is None


def test_a_cheap_set_is_taken_first_even_if_it_is_too_small() -> None:
    cluster = Nodes((4, 10), (4, 10), (8, 20), (8, 20))
    assert cluster.choose(n_tasks=12) == {0: 4, 1: 4, 2: 4}
    assert cluster.choose(min_nodes=1, max_nodes=1, n_tasks=6) == {2: 6}
    cluster = Nodes((4, 20), (4, 10), taken=(0, 3))
    assert cluster.choose(n_tasks=3) == {0: 2, 1: 1}  # in pieces


def test_of_sets_of_equal_weight_the_smallest_that_suffices_else_the_largest() -> None:
    cluster = Nodes((4,), (4,), (4,), (4,), (4,), (4,), taken=(0, 0, 0, 4, 0, 4))
    # Sets: nodes 0-2 with 12 CPUs, node 4 with 4.
    assert cluster.choose(n_tasks=4) == {4: 4}
    assert cluster.choose(n_tasks=5) == {0: 4, 1: 1}
    assert cluster.choose(n_tasks=14) == {0: 4, 1: 4, 2: 4, 4: 2}
    assert cluster.choose(min_nodes=2, max_nodes=2, n_tasks=2) == {0: 1, 1: 1}


def test_one_node_is_the_best_fit_and_the_first_of_equals() -> None:
    cluster = Nodes((8,), (8,), (8,), (8,), taken=(0, 3, 4, 4))
    assert cluster.choose(n_tasks=3) == {2: 3}
    assert cluster.choose(n_tasks=5) == {1: 5}
    assert cluster.choose(min_nodes=1, max_nodes=1, n_tasks=6) == {0: 6}


def test_cores_are_front_loaded_and_the_last_permitted_node_holds_all_that_is_left() -> None:
    assert Nodes((8,), (8,), (8,)).choose(min_nodes=3, max_nodes=3, n_tasks=12) == {0: 8, 1: 3, 2: 1}
    cluster = Nodes((4,), (2,), (6,), taken=())
    assert cluster.choose(min_nodes=2, max_nodes=2, n_tasks=9) == {0: 4, 2: 5}  # node 1 cannot be the last one


def test_nodes_that_offer_least_are_dropped_if_the_permitted_nodes_are_too_few() -> None:
    cluster = Nodes((1,), (1,), (6,), (6,))
    # From the low end, node 0 would be the first of two.
    assert cluster.choose(min_nodes=2, max_nodes=2, n_tasks=12) == {2: 6, 3: 6}


def test_a_test_of_a_job_with_gpus_makes_its_nodes_cheaper_until_weights_are_reset() -> None:
    cluster = Nodes((4, 5, 0), (4, 5, 2), (4, 5, 0))
    asked = Request(n_tasks=1, gpus_per_node=1)
    assert cluster.choose(n_tasks=1) == {0: 1}
    assert cluster.choose(n_tasks=1, gpus_per_node=1) == {1: 1}
    assert cluster.choose(n_tasks=1) == {1: 1}
    cluster.select.reset_weights(asked, cluster.machine.all)
    assert cluster.choose(n_tasks=1) == {0: 1}


def test_gpus_of_a_type_and_their_return() -> None:
    cluster = Nodes((4, 1, 2), (4, 1, 2))
    held = cluster.hold(Request(n_tasks=1, gpus_per_node=2, gpu_type="a"), (0,), (1,))
    assert cluster.choose(n_tasks=1, gpus_per_node=1, gpu_type="a") == {1: 1}
    assert cluster.choose(n_tasks=1, gpus_per_node=1, gpu_type="b") is None
    cluster.free.give(held.shares, exclusive=False)
    assert cluster.choose(n_tasks=1, gpus_per_node=1, gpu_type="a") == {0: 1}


# --- cons_tres, against a twin ---


def slow_will_run(
    cluster: Nodes, request: Request, allowed: int, running: list[Held], now: int, most_removed: int
) -> tuple[float, Placement] | None:
    """Remove running jobs one after the other. A group ends with a job on allowed nodes if the next ends later."""
    then, begin, window, i = cluster.free.copy(), 0, 30, 0
    ends = [job for job in running if job.end_at < math.inf]
    while i < len(ends):
        last, n_removed = None, 0
        while i < len(ends):
            job, i = ends[i], i + 1
            if not job.nodes & allowed:
                continue
            if not begin:
                begin = int(job.end_at) + 30 - int(job.end_at) % 30
            last, n_removed = job, n_removed + 1
            then.give(job.shares, exclusive=job.record.request.exclusive)
            if n_removed > most_removed or (i < len(ends) and ends[i].end_at > begin + window):
                break
        if last is None:
            return None
        window *= 2
        while i < len(ends) and ends[i].end_at > begin + window:
            window *= 2
        found = cluster.select.choose(request, allowed, then)
        if found is not None:
            return last.end_at if last.end_at > now else max(last.end_at + 30, now + 1), found
    return None


@st.composite
def shared_clusters(draw: st.DrawFn) -> tuple[Nodes, list[Held]]:
    cluster = Nodes(*draw(st.lists(st.sampled_from([(4,), (2, 5, 2), (6, 1, 2, 900)]), min_size=1, max_size=8)))
    machine, held = cluster.machine.nodes, list[Held]()
    for place in range(draw(st.integers(0, 12))):
        wanted = draw(st.sampled_from([Request(n_tasks=2, cpu_memory=200), Request(gpus_per_node=1), Request()]))
        fitting = [
            node.number for node in machine if cluster.select.choose(wanted, 1 << node.number, cluster.free) is not None
        ]
        if fitting:
            end = draw(st.one_of(st.integers(1, 400), st.just(math.inf)))
            one = cluster.hold(wanted, (draw(st.sampled_from(fitting)),), (wanted.n_cpus,), end)
            held.append(one._replace(place=place))
    return cluster, sorted(held, key=lambda one: (one.end_at, one.place))


REQUESTS = (
    Request(n_tasks=4),
    Request(n_tasks=9, cpu_memory=300),
    Request(min_nodes=2, max_nodes=2, n_tasks=8),
    Request(min_nodes=2, n_tasks=2, exclusive=True),
    Request(n_tasks=2, tasks_per_node=2, max_nodes=1, node_memory=1_000),
    Request(n_tasks=2, gpus_per_node=2),
)


@given(shared_clusters(), st.sampled_from(REQUESTS), st.lists(st.integers(1, 255), min_size=1), st.integers(0, 3))
def test_shared_nodes_become_free_as_by_a_twin(
    drawn: tuple[Nodes, list[Held]], request: Request, sets: list[int], most_removed: int
) -> None:
    cluster, held = drawn
    releases, now = Releases(cluster.free, held), 100
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "_MOST_REMOVED", most_removed)
        patch.setattr(selection, "_MOST_STATES", 3)
        for nodes in sets:
            allowed = nodes & cluster.machine.all
            expected = slow_will_run(cluster, request, allowed, held, now, most_removed)
            fit = cluster.select.will_run(request, allowed, releases, now)
            assert (None if fit is None else (fit.start_at, fit.placement)) == expected
            if cluster.select.choose(request, allowed, cluster.free) or expected:
                able = cluster.select.able(request, allowed)
                assert able.bit_count() >= cluster.select.fewest_nodes(request, able)
                if expected and not request.gpus_per_node:
                    assert cluster.select.may_fit(request, able, releases, expected[0])


@given(shared_clusters(), st.integers(0, 8), st.integers(0, 255))
def test_free_cpus_are_counted_after_each_change(drawn: tuple[Nodes, list[Held]], least: int, nodes: int) -> None:
    cluster, held = drawn
    for free in (cluster.free, cluster.free.copy()):
        for one in held:
            free.give(one.shares)
            free.take(one.shares)
            free.give(one.shares)
            cores = dict(enumerate(free.cores))
            assert free.with_cores(least) == sum(1 << node for node, n in cores.items() if n >= least)
            assert free.n_cores(nodes) == sum(n for node, n in cores.items() if nodes >> node & 1)
            free.take(one.shares)


def test_a_job_may_fit_as_soon_as_enough_nodes_and_cpus_are_free() -> None:
    cluster = Nodes((4,), (4,), (4,))
    held = [
        cluster.hold(Request(n_tasks=n), (node,), (n,), end)
        for node, (n, end) in enumerate([(4, 60), (3, 90), (4, 150)])
    ]
    releases = Releases(cluster.free, held)

    def since(**fields: Any) -> list[int]:
        return [at for at in (30, 60, 90, 150) if cluster.select.may_fit(Request(**fields), 7, releases, at)]

    assert since(n_tasks=1) == [30, 60, 90, 150]
    assert since(n_tasks=6) == [90, 150]
    assert since(n_tasks=4, max_nodes=1) == [60, 90, 150]
    assert since(n_tasks=4, min_nodes=2, tasks_per_node=2) == [90, 150]
    assert since(n_tasks=2, min_nodes=2, exclusive=True) == [90, 150]
    assert since(n_tasks=3, min_nodes=3, exclusive=True) == [150]


# --- linear, against twins ---


def runs_of(nodes: list[int]) -> list[list[int]]:
    """Return runs of consecutive numbers."""
    groups = itertools.groupby(enumerate(nodes), key=lambda pair: pair[1] - pair[0])
    return [[node for _, node in group] for _, group in groups]


def best_fit(idle: list[int], n: int) -> list[int] | None:
    """Choose nodes by the rule: the smallest run of those that are large enough, else the largest run, again."""
    if len(idle) < n:
        return None
    taken: list[int] = []
    while len(taken) < n:
        runs = runs_of([node for node in idle if node not in taken])
        enough = [run for run in runs if len(run) >= n - len(taken)]
        size = min(map(len, enough)) if enough else max(map(len, runs))
        run = next(run for run in runs if len(run) == size)
        taken += run[: n - len(taken)]
    return sorted(taken)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Nodes, list[Held]]:
    n_nodes = draw(st.integers(1, 12))
    cluster = Nodes(*[(2,)] * n_nodes, linear=True)
    held, left = list[Held](), list(range(n_nodes))
    for place in range(draw(st.integers(0, 5))):
        own = sorted(draw(st.sets(st.sampled_from(left), max_size=4))) if left else []
        if own:
            left = [node for node in left if node not in own]
            request = Request(min_nodes=len(own), exclusive=True)
            end = draw(st.integers(1, 6)) * 10
            one = cluster.hold(request, tuple(own), (2,) * len(own), end)
            held.append(one._replace(place=place))
    return cluster, sorted(held, key=lambda one: (one.end_at, one.place))


@given(clusters(), st.integers(1, 12), st.data())
def test_linear_is_as_its_twins(drawn: tuple[Nodes, list[Held]], n: int, data: st.DataObject) -> None:
    cluster, held = drawn
    numbers = range(len(cluster.machine.nodes))
    allowed = data.draw(st.sets(st.sampled_from(numbers)))
    request = Request(min_nodes=n, max_nodes=n, n_tasks=n, exclusive=True)
    as_set = sum(1 << node for node in allowed)
    busy = {node for one in held for node in numbers if one.nodes >> node & 1}
    expected = best_fit(sorted(allowed - busy), n)
    found = cluster.select.choose(request, as_set, cluster.free)
    assert (None if found is None else list(found.nodes)) == expected
    if expected is not None:
        return
    now = 25
    later = None
    for i, one in enumerate(held):
        still = {node for other in held[i + 1 :] for node in numbers if other.nodes >> node & 1}
        chosen = best_fit(sorted(allowed - still), n)
        if chosen is not None:
            later = max(one.end_at, now + 1), chosen
            break
    fit = cluster.select.will_run(request, as_set, Releases(cluster.free, held), now)
    assert (None if fit is None else (fit.start_at, list(fit.placement.nodes))) == later


def test_linear_takes_light_nodes_first_and_enough_for_all_cpus() -> None:
    cluster = Nodes((2, 5), (2, 1), (2, 1), (2, 5), linear=True)
    assert cluster.choose(min_nodes=1, exclusive=True) == {1: 2}
    assert cluster.choose(min_nodes=3, n_tasks=3, exclusive=True) == {0: 2, 1: 2, 2: 2}
    assert cluster.choose(n_tasks=5, exclusive=True) == {0: 2, 1: 2, 2: 2}
    assert cluster.choose(n_tasks=5, min_nodes=2, max_nodes=2, exclusive=True) is None


def test_linear_takes_the_largest_nodes_if_the_smallest_have_too_few_cpus() -> None:
    cluster = Nodes((4,), (16,), (4,), (8,), (8,), linear=True)
    assert cluster.choose(n_tasks=10, max_nodes=1, exclusive=True) == {1: 16}
    assert cluster.choose(n_tasks=20, exclusive=True) == {1: 16, 4: 8}
    assert cluster.choose(n_tasks=30, min_nodes=2, max_nodes=2, exclusive=True) is None
    assert cluster.choose(n_tasks=4, exclusive=True) == {0: 4}
    assert cluster.choose(n_tasks=8, min_nodes=2, exclusive=True) == {0: 4, 1: 16}
    weighted = Nodes((4, 1), (16, 9), (4, 1), linear=True)
    assert weighted.choose(n_tasks=6, exclusive=True) == {0: 4, 2: 4}
    assert weighted.choose(n_tasks=6, max_nodes=1, exclusive=True) == {1: 16}


def test_linear_waits_for_a_node_with_enough_cpus_and_gpus() -> None:
    cluster = Nodes((4, 1, 0), (16, 1, 0), (4, 1, 2), linear=True)
    held = [cluster.hold(Request(exclusive=True), (node,), (4,), end) for node, end in ((0, 10), (1, 30), (2, 20))]
    releases = Releases(cluster.free, sorted(held, key=lambda one: one.end_at))
    for request, expected in (
        (Request(n_tasks=9, max_nodes=1, exclusive=True), (30, (1,))),
        (Request(gpus_per_node=1, exclusive=True), (20, (2,))),
    ):
        fit = cluster.select.will_run(request, 7, releases, 0)
        assert fit is not None
        assert (fit.start_at, fit.placement.nodes) == expected
    assert cluster.select.will_run(Request(n_tasks=17, max_nodes=1, exclusive=True), 7, releases, 0) is None
    assert not cluster.select.fits_when_idle(Request(gpus_per_node=3, exclusive=True), 7)
    equal = Nodes((4, 1, 2), (4, 1, 2), (4, 1, 0), linear=True)
    held = [equal.hold(Request(exclusive=True), (node,), (4,), 10 + node) for node in range(3)]
    fit = equal.select.will_run(Request(n_tasks=6, gpus_per_node=1, exclusive=True), 7, Releases(equal.free, held), 0)
    assert fit is not None
    assert (fit.start_at, fit.placement.nodes) == (11, (0, 1))
