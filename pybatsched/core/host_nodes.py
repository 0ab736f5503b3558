"""Read the nodes of a platform from the properties of its hosts, and write them into summaries and read them again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pybatsched.core.intervals import IntervalSet
from pybatsched.core.node_requests import GB
from pybatsched.core.nodes import Node, Nodes
from pybatsched.errors import InputError

if TYPE_CHECKING:
    from pybatsched.core.cluster import Cluster

#: The properties of hosts that describe nodes.
NODE_PROPERTIES: Final = frozenset(("node", "memory_gb", "gpus", "features"))


def has_nodes(cluster: Cluster) -> bool:
    """Return whether a platform describes nodes: a host has a property ``node``, memory, GPUs or features. O(hosts)."""
    return any(
        not (NODE_PROPERTIES.isdisjoint(one.properties or ()) and NODE_PROPERTIES.isdisjoint(one.zone_properties or ()))
        for one in cluster.resources.values()
    )


def nodes_of(cluster: Cluster) -> Nodes:
    """Read the nodes of a platform from the properties of its hosts. O(processors).

    Hosts with one ``node`` are the cores of one node; a host without it is a node. Raises InputError for properties in
    which hosts of a node differ.
    """
    groups = cluster.groups("node")
    grouped = IntervalSet.of_intervals(one for procs in groups.values() for one in procs.intervals())
    alone = {cluster.host_of(proc): IntervalSet((proc,)) for proc in cluster.procs - grouped}
    places = sorted(((procs.lowest, name, procs) for name, procs in (*groups.items(), *alone.items())))
    described: list[tuple[str, IntervalSet, float, dict[str, int], frozenset[str], float]] = []
    for _, name, procs in places:
        memory_gb = cluster.number_of(procs.lowest, "memory_gb")
        weight = cluster.number_of(procs.lowest, "weight")
        text = {key: cluster.property_of(procs.lowest, key) for key in ("memory_gb", "gpus", "features", "weight")}
        for proc in procs:
            for key, value in text.items():
                other = cluster.property_of(proc, key)
                if other != value:
                    raise InputError(
                        f"node {name}: its hosts differ in the property {key}: {value or 'none'} and "
                        f"{other or 'none'}; expected one value"
                    )
        memory = math.inf if memory_gb is None else round(memory_gb * GB)
        features = frozenset(filter(None, (part.strip() for part in (text["features"] or "").split(","))))
        gpus = _gpus_of_host(cluster, procs.lowest, text["gpus"])
        described.append((name, procs, memory, gpus, features, 1.0 if weight is None else weight))
    types = list(dict.fromkeys(kind for one in described for kind in one[3]))
    return Nodes(
        [
            Node(index, name, procs, len(procs), memory, tuple(gpus.get(kind, 0) for kind in types), features, weight)
            for index, (name, procs, memory, gpus, features, weight) in enumerate(described)
        ],
        types,
    )


def groups_of(nodes: Nodes) -> list[dict[str, Any]]:
    """Return nodes for a file: groups of nodes with equal memory and GPUs, each with processors by name. O(nodes)."""
    groups: dict[tuple[float, tuple[int, ...]], dict[str, str]] = {}
    for node in nodes.nodes:
        groups.setdefault((node.memory, node.gpus), {})[node.name] = str(node.procs)
    return [
        {
            **({"memory_gb": memory / GB} if memory < math.inf else {}),
            **({"gpus": {kind: n for kind, n in zip(nodes.gpu_types, gpus, strict=True) if n}} if any(gpus) else {}),
            "procs": procs,
        }
        for (memory, gpus), procs in groups.items()
    ]


def nodes_of_groups(groups: Iterable[Mapping[str, Any]]) -> Nodes:
    """Return the nodes that `groups_of` described, without features and weights. O(nodes).

    Raises KeyError, TypeError, ValueError or AttributeError for other values.
    """
    found: list[tuple[IntervalSet, str, float, dict[str, int]]] = []
    for group in groups:
        memory = round(group["memory_gb"] * GB) if "memory_gb" in group else math.inf
        found += [
            (IntervalSet.parse(text), name, memory, group.get("gpus", {})) for name, text in group["procs"].items()
        ]
    found.sort(key=lambda one: (one[0].lowest, one[1]))
    types = list(dict.fromkeys(kind for *_, gpus in found for kind in gpus))
    nodes = [
        Node(number, name, procs, len(procs), memory, tuple(gpus.get(kind, 0) for kind in types), frozenset())
        for number, (procs, name, memory, gpus) in enumerate(found)
    ]
    return Nodes(nodes, types)


def _gpus_of_host(cluster: Cluster, proc: int, text: str | None) -> dict[str, int]:
    """Read the property ``gpus``: a number, or numbers by type such as ``a100:2,v100:1``."""
    found: dict[str, int] = {}
    for part in (text or "").split(","):
        if part.strip():
            kind, _, number = part.strip().rpartition(":")
            if not (number.isascii() and number.isdigit() and len(number) < 7):
                raise InputError(
                    f"host {cluster.host_of(proc)}, property gpus: expected a number, or numbers by type such as "
                    f"a100:4, found {text!r:.60}"
                )
            if int(number):
                found[kind] = found.get(kind, 0) + int(number)
    return found
