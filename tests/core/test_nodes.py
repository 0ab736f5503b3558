"""Placement on nodes against a slow twin, accounts of memory and GPUs, and requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from support.nodes_twin import SlowNode, put, slow_fit
from support.random_nodes import as_request, fast_nodes, machines, requests

from pybatsched.core.intervals import IntervalSet
from pybatsched.core.node_requests import GB, PLAIN, request_of
from pybatsched.core.nodes import FreeNodes, Nodes, has_features

PLACEMENTS = ("best", "fewest", "order", "weight", "spread")


@settings(max_examples=600)
@given(machines(), st.lists(st.tuples(requests(), st.integers(1, 12)), min_size=1, max_size=8), st.data())
def test_each_placement_is_that_of_the_twin(
    slow: list[SlowNode], jobs: list[tuple[dict[str, Any], int]], data: st.DataObject
) -> None:
    nodes = fast_nodes(slow)
    free = nodes.free
    procs = IntervalSet(proc for node in slow for proc in node.procs)
    for job_id, (fields, n) in enumerate(jobs):
        request, placement = as_request(fields), data.draw(st.sampled_from(PLACEMENTS))
        expected = slow_fit(slow, fields, n, placement)
        parts = free.fit(request, n, placement)
        assert (None if parts is None else [tuple(part) for part in parts]) == expected
        if parts is None:
            continue
        taken = nodes.procs_of(parts, procs)
        assert nodes.problem(request, taken) is None
        assert list(taken) == put(slow, expected or (), fields, job_id)
        free.take(nodes.shares_of(request, parts), exclusive=request.exclusive)
        procs = procs - taken
        for index, node in enumerate(slow):
            assert free.cores[index] == len(node.free_procs())
            assert free.memory[index] == node.free_memory() * GB
            assert sum(gpus[index] for gpus in free.gpus) == node.free_gpus("")


@given(machines(), st.lists(st.tuples(requests(), st.integers(1, 12)), max_size=8))
def test_what_is_taken_and_given_back_leaves_nothing_behind(
    slow: list[SlowNode], jobs: list[tuple[dict[str, Any], int]]
) -> None:
    nodes = fast_nodes(slow)
    free, held = nodes.free, []
    before = free.copy()
    for fields, n in jobs:
        request = as_request(fields)
        parts = free.fit(request, n)
        if parts is not None:
            held.append((nodes.shares_of(request, parts), request.exclusive))
            free.take(held[-1][0], exclusive=request.exclusive)
    copied = free.copy()
    for shares, is_exclusive in held:
        free.give(shares, exclusive=is_exclusive)
    for name in FreeNodes.__slots__:
        assert getattr(free, name) == getattr(before, name), name
    if held:
        assert copied.cores != free.cores


@given(machines(), requests(), st.integers(1, 20))
def test_a_job_is_refused_if_and_only_if_it_fits_on_no_idle_nodes(
    slow: list[SlowNode], fields: dict[str, Any], n: int
) -> None:
    request = as_request(fields)
    assert (fast_nodes(slow).refusal(request, n) is None) == (slow_fit(slow, fields, n, "fewest") is not None)


def four_nodes() -> Nodes:
    """Two nodes of 4 cores and 16 GB, and two of 8 cores, 64 GB and two GPUs."""
    small = [SlowNode(list(range(4 * i, 4 * i + 4)), 16, {}) for i in range(2)]
    large = [SlowNode(list(range(8 + 8 * i, 16 + 8 * i)), 64, {"a100": 2}, frozenset(("ib",))) for i in range(2)]
    return fast_nodes(small + large)


def test_types_of_gpus_are_the_same_in_capitals() -> None:
    assert four_nodes().refusal(as_request({"gpus_per_node": "A100:2"}), 1) is None


@pytest.mark.parametrize(
    ("fields", "n", "text"),
    [
        ({"gpus_per_node": 3}, 1, "3 GPUs on a node"),
        ({"gpus_per_node": "v100:1"}, 1, "1 GPU of type v100 on a node"),
        ({"node_memory_gb": 65}, 1, "65.0 GB of memory on a node"),
        ({"features": "ib&nvme"}, 1, "nodes with ib&nvme"),
        ({"cores_per_node": 9}, 9, "9 cores on a node"),
        ({"cores_per_node": 4}, 6, "6 processors, but 4 cores on each of at least 1 node"),
        ({"n_nodes": 5}, 5, "requests 5 nodes; it can use 4"),
        ({"memory_gb": 16}, 11, "on at least 1 node; the 4 nodes that it can use have 10 in all"),
    ],
)
def test_a_refusal_names_the_missing_resource(fields: dict[str, Any], n: int, text: str) -> None:
    reason = four_nodes().refusal(as_request(fields), n)
    assert isinstance(reason, tuple)
    assert text in reason[0].format(*reason[1:])


def test_gpus_in_all_are_spread_on_as_few_nodes_as_can_hold_them() -> None:
    nodes = four_nodes()

    def spread(n_gpus: int, n: int, **fields: Any) -> tuple[int, int, int]:
        request = nodes.with_all_gpus(as_request({**fields, "gpus": n_gpus}) if fields else PLAIN, n_gpus, n)
        return request.min_nodes, request.max_nodes, request.gpus_per_node

    assert spread(2, 1) == (1, 1, 2)
    assert spread(3, 4) == (2, 2, 2)
    assert spread(2, 12) == (2, 2, 1)
    assert spread(2, 2, n_nodes=2) == (2, 2, 1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"n_nodes": 0}, "field n_nodes: expected a number of nodes from 1, or a range such as '2-4', found 0"),
        ({"n_nodes": "4-2"}, "field n_nodes: expected a number of nodes"),
        ({"cores_per_node": 1.5}, "field cores_per_node: expected a number of cores from 1, found 1.5"),
        ({"memory_gb": -1}, "field memory_gb: expected GB from 0 for each core, found -1"),
        ({"memory_gb": float("nan")}, "field memory_gb: expected GB"),
        ({"node_memory_gb": True}, "field node_memory_gb: expected GB from 0 for each node, found True"),
        ({"gpus": "two"}, "field gpus: expected a number of GPUs from 0, or a type and a number such as 'a100:2'"),
        ({"features": "a&&b"}, "field features: expected features joined by & or |"),
        ({"exclusive": 1}, "field exclusive: expected true or false, found 1"),
        ({"memory_gb": 1, "node_memory_gb": 1}, "both memory_gb and node_memory_gb; expected one of them"),
        ({"gpus": 1, "gpus_per_node": 1}, "both gpus and gpus_per_node; expected one of them"),
    ],
)
def test_an_invalid_request_names_its_field(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        request_of(fields)
    assert text in str(caught.value)


def test_a_request_for_nothing_is_none() -> None:
    assert request_of({"user": "u"}) is None
    assert request_of({"gpus": 0, "memory_gb": 0, "n_nodes": "1-0"[:1] + "-99", "exclusive": False}) is not None
    assert request_of({"gpus": 0, "memory_gb": 0, "nodes": 0}) is None
    assert request_of({"nodes": 3, "n_nodes": 2}) == request_of({"n_nodes": 2}) != request_of({"nodes": 3})


def test_features_are_joined_by_and_and_or() -> None:
    assert has_features("a&b|c", frozenset("c"))
    assert not has_features("a&b|c", frozenset("a"))
