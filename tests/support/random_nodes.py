"""Random machines with nodes, and random requests of jobs, for the fast and the slow placement."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pybatsched.core.intervals import IntervalSet
from pybatsched.core.nodes import GB, PLAIN, Node, NodeRequest, Nodes, request_of
from support.nodes_twin import SlowNode


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


def as_request(fields: dict[str, Any]) -> NodeRequest:
    found = request_of(fields)
    return PLAIN if found is None else found[0]
