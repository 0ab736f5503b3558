"""Random machines with nodes, and random requests of jobs, for the fast and the slow placement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pybatsched.core.intervals import IntervalSet
from pybatsched.core.node_requests import GB, PLAIN, NodeRequest, request_of
from pybatsched.core.nodes import Node, Nodes
from support.nodes_twin import SlowNode, SlowPartition


def fast_nodes(slow: list[SlowNode]) -> Nodes:
    """Return the same machine."""
    kinds = list(dict.fromkeys(kind for node in slow for kind in node.gpus))
    return Nodes(
        [
            Node(
                index,
                f"n{index}",
                IntervalSet(node.procs),
                len(node.procs),
                round(node.memory_gb * GB),
                tuple(node.gpus.get(kind, 0) for kind in kinds),
                node.features,
                node.weight,
            )
            for index, node in enumerate(slow)
        ],
        kinds,
    )


@st.composite
def machines(draw: st.DrawFn) -> list[SlowNode]:
    """Draw a machine; the processors of its nodes may be interleaved."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    procs = list(range(sum(sizes)))
    if draw(st.booleans()):
        procs = draw(st.permutations(procs))
    nodes = []
    for size in sizes:
        own, procs = sorted(procs[:size]), procs[size:]
        gpus = draw(st.sampled_from(({}, {"a": 2}, {"b": 1}, {"a": 1, "b": 2})))
        features = frozenset(draw(st.sampled_from(((), ("x",), ("x", "y")))))
        weight = draw(st.sampled_from((1.0, 1.0, 3.0)))
        nodes.append(SlowNode(own, draw(st.sampled_from((4, 8, 12))), dict(gpus), features, weight))
    return sorted(nodes, key=lambda node: node.procs[0])


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the fields of a job."""
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        fewest = draw(st.integers(1, 4))
        most = draw(st.integers(fewest, 5))
        found["n_nodes"] = fewest if fewest == most else f"{fewest}-{most}"
    if draw(st.booleans()):
        found["cores_per_node"] = draw(st.integers(1, 4))
    memory: dict[str, Any] = draw(
        st.sampled_from(({}, {"memory_gb": 1}, {"memory_gb": 2.5}, {"node_memory_gb": 4}, {"node_memory_gb": 9}))
    )
    gpus: dict[str, Any] = draw(
        st.sampled_from(({}, {"gpus_per_node": 1}, {"gpus_per_node": 3}, {"gpus_per_node": "a:1"}))
    )
    other: dict[str, Any] = draw(st.sampled_from(({}, {}, {"exclusive": True}, {"features": "x"}, {"features": "x&y"})))
    return {**found, **memory, **gpus, **other}


@st.composite
def crowds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw jobs, in order of submission."""
    jobs, at = [], 0
    for index in range(draw(st.integers(1, 14))):
        at += draw(st.integers(0, 4))
        s = draw(st.integers(1, 9))
        request = draw(requests()) if draw(st.integers(0, 3)) else {}
        walltime = s + 0.5 + draw(st.integers(0, 5))
        n = draw(st.integers(1, 8))
        jobs.append({"id": f"{index:02}", "at": at, "n": n, "s": s, "walltime": walltime, "request": request})
    return jobs


def hosts_of(nodes: Sequence[SlowNode]) -> list[dict[str, str]]:
    """Return the properties of all hosts of a machine, in their order."""
    found = {}
    for index, node in enumerate(nodes):
        gpus = ",".join(f"{kind}:{n}" for kind, n in node.gpus.items())
        own = {"node": f"n{index}", "memory_gb": f"{node.memory_gb:g}", "features": ",".join(node.features)}
        for proc in node.procs:
            found[proc] = {**own, "weight": f"{node.weight:g}", **({"gpus": gpus} if gpus else {})}
    return [found[proc] for proc in sorted(found)]


@st.composite
def partitions(draw: st.DrawFn, n_nodes: int) -> list[SlowPartition]:
    """Draw partitions of a machine; the first one is the default."""
    return [
        SlowPartition(
            name,
            frozenset(draw(st.sets(st.integers(0, n_nodes - 1), min_size=1))),
            draw(st.sampled_from((math.inf, 9.0))),
            draw(st.sampled_from((10**9, 10**9, 1, 2))),
            draw(st.sampled_from((0, 0, 1, 5))),
        )
        for name in "pqr"[: draw(st.integers(1, 3))]
    ]


def described(chosen: list[SlowPartition]) -> str:
    """Return partitions as users describe them."""
    texts = []
    for one in chosen:
        limits = [f"max_time {one.max_time:g}"] if one.max_time < math.inf else []
        limits += [f"max_nodes {one.max_nodes}"] if one.max_nodes < 10**9 else []
        limits += [f"priority {one.priority}"] if one.priority else []
        nodes = [f"n{index}" for index in sorted(one.nodes)]
        texts.append(f"{one.name}: {', '.join([*nodes, *limits, *(['default'] if one is chosen[0] else [])])}")
    return "; ".join(texts)


def as_request(fields: dict[str, Any]) -> NodeRequest:
    found = request_of(fields)
    return PLAIN if found is None else found[0]
