"""Earliest places on nodes over time against a search that looks at every time."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings, strategies as st
from support.nodes_twin import SlowNode
from support.random_nodes import as_request, fast_nodes, machines, requests

from pybatsched.core.nodes import FreeNodes, Nodes, NodeShare
from pybatsched.policies.node_profile import NodeBooking, NodeProfile

Known = list[tuple[float, float, tuple[NodeShare, ...], bool]]  # start, end, shares and whether exclusive


def slow_earliest(
    nodes: Nodes, known: Known, fields: dict[str, Any], n: int, span_s: float
) -> tuple[float, Any] | None:
    """Return the first time at which a job fits during its whole span, and its nodes; the running jobs start at -1."""
    request = as_request(fields)
    times = sorted({0.0, *(end for _, end, _, _ in known)})
    for at in times:
        inside = [at, *(start for start, _, _, _ in known if at < start < at + span_s)]
        states = [state_at(nodes, known, time) for time in inside]
        least = states[0]
        for state in states[1:]:
            for node in range(len(nodes.nodes)):
                least.set_node(
                    node,
                    min(least.cores[node], state.cores[node]),
                    min(least.memory[node], state.memory[node]),
                    [min(one[node], other[node]) for one, other in zip(least.gpus, state.gpus, strict=True)],
                    is_idle=bool(least.idle & state.idle >> node << node & 1 << node),
                    is_closed=bool((least.closed | state.closed) >> node & 1),
                )
        parts = least.fit(request, n)
        if parts is not None:
            return at, parts
    return None


def state_at(nodes: Nodes, known: Known, at: float) -> FreeNodes:
    free = fast_nodes_like(nodes)
    for start, end, shares, is_exclusive in known:
        if start <= at < end:
            free.take(shares, exclusive=is_exclusive)
    return free


def fast_nodes_like(nodes: Nodes) -> FreeNodes:
    return Nodes(nodes.nodes, nodes.gpu_types).free


@settings(max_examples=300)
@given(machines(), st.lists(st.tuples(requests(), st.integers(1, 8), st.integers(1, 9), st.booleans()), max_size=9))
def test_the_earliest_place_is_that_of_the_search(
    slow: list[SlowNode], jobs: list[tuple[dict[str, Any], int, int, bool]]
) -> None:
    nodes = fast_nodes(slow)
    profile, known = NodeProfile(nodes, nodes.all), Known()
    for fields, n, span_s, is_running in jobs:
        request = as_request(fields)
        parts = nodes.free.fit(request, n) if is_running and not any(start >= 0 for start, *_ in known) else None
        if parts is not None:
            shares = nodes.shares_of(request, parts)
            nodes.free.take(shares, exclusive=request.exclusive)
            profile.end(float(span_s), shares, exclusive=request.exclusive)
            known.append((-1.0, float(span_s), shares, request.exclusive))
            continue
        expected = slow_earliest(nodes, known, fields, n, span_s)
        found = profile.earliest(request, n, span_s, 0.0)
        assert (None if found is None else (found.start_at, list(found.parts))) == expected
        if found is not None:
            assert profile.earliest(request, n, span_s, 0.0, before=found.start_at) is None
            profile.book(found)
            known.append((found.start_at, found.end_at, found.shares, found.is_exclusive))


@given(machines(), st.lists(st.tuples(requests(), st.integers(1, 8), st.integers(1, 9)), min_size=1, max_size=6))
def test_dropped_plans_leave_nothing_behind(slow: list[SlowNode], jobs: list[tuple[dict[str, Any], int, int]]) -> None:
    nodes = fast_nodes(slow)
    profile = NodeProfile(nodes, nodes.all)
    steps, first = [], dict[int, NodeBooking | None]()
    for number, (fields, n, span_s) in enumerate(jobs):
        first[number] = profile.earliest(as_request(fields), n, span_s, 0.0)
        steps.append(profile.book(first[number] or NodeBooking(math.inf)))
    for one in reversed(steps):
        profile.drop_end(one)
    for number, (fields, n, span_s) in enumerate(jobs):
        assert profile.earliest(as_request(fields), n, span_s, 0.0) == first[number]
        profile.book(first[number] or NodeBooking(math.inf))
