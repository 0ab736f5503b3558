"""What jobs request of nodes besides processors: memory, GPUs, features, whole nodes.

Amounts of memory are whole millionths of a GB, so that sums are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

#: The unit of memory: this many are one GB.
GB: Final = 1_000_000


class NodeRequest(NamedTuple):
    """What a job requests of nodes, besides its number of processors."""

    min_nodes: int = 1
    #: 0 for any number.
    max_nodes: int = 0
    #: The cores on every one of its nodes; 0 for any number.
    cores_per_node: int = 0
    core_memory: int = 0
    node_memory: int = 0
    gpus_per_node: int = 0
    #: The type of these GPUs; empty for any.
    gpu_type: str = ""
    #: Features that its nodes must have, such as ``infiniband&avx512`` or ``a100|h100``.
    features: str = ""
    #: Whether its nodes run no other job.
    exclusive: bool = False
    #: Whether it gets the first free processors, whatever the placement.
    in_order: bool = False
    #: The partition, and its nodes as a set; -1 for all nodes.
    partition: str = ""
    among: int = -1
    #: If it may run in one of several partitions: the request in each, in the order in which they are tried.
    choices: tuple[NodeRequest, ...] = ()

    def in_partitions(self) -> tuple[NodeRequest, ...]:
        """Return the request in each partition in which the job may run; the request itself without partitions."""
        return self.choices or (self,)

    def is_on_one(self, n: int) -> bool:
        """Return whether a job of n processors runs on one node."""
        return all(one.max_nodes == 1 or one.cores_per_node == n for one in self.in_partitions())


#: The request of a job that needs nothing but processors.
PLAIN: Final = NodeRequest()


def request_of(fields: Mapping[str, Any]) -> tuple[NodeRequest, int] | None:
    """Return a job's request, and its number of GPUs in all; None if it requests only processors. O(fields).

    Raises ValueError with the name of an invalid field, without the job.

    >>> request, n_gpus = request_of({"n_nodes": "2-4", "gpus_per_node": "a100:2"})
    >>> request.min_nodes, request.max_nodes, request.gpus_per_node, request.gpu_type, n_gpus
    (2, 4, 2, 'a100', 0)
    """
    if fields.keys().isdisjoint(REQUEST_FIELDS):
        return None
    for name, (is_valid, expected) in _RULES.items():
        if name in fields and not is_valid(fields[name]):
            raise ValueError(f"field {name}: expected {expected}, found {fields[name]!r:.60}")
    for one, other in (("memory_gb", "node_memory_gb"), ("gpus", "gpus_per_node")):
        if fields.get(one) and fields.get(other):
            raise ValueError(f"both {one} and {other}; expected one of them")
    fewest, most = _range_of(fields.get("n_nodes", fields.get("nodes", "")))
    gpu_type, n_gpus = _gpus_of(fields.get("gpus", 0))
    per_node = 0
    if fields.get("gpus_per_node"):
        gpu_type, per_node = _gpus_of(fields["gpus_per_node"])
    request = NodeRequest(
        fewest,
        most,
        fields.get("cores_per_node", 0),
        int(fields.get("memory_gb", 0) * GB + 1e-3),  # a part of a node's memory is not rounded up
        round(fields.get("node_memory_gb", 0) * GB),
        per_node,
        (gpu_type or fields.get("gpu_type", "")) if per_node or n_gpus else "",
        fields.get("features", ""),
        fields.get("exclusive", False),
    )
    return None if request == PLAIN and not n_gpus else (request, n_gpus)


def _range_of(value: int | str) -> tuple[int, int]:
    """Return the least and the largest number of nodes: of a number, a range such as ``2-4``, or none."""
    fewest, _, most = str(value or "").partition("-")
    return int(fewest or 1), int(most or fewest or 0)


def _gpus_of(value: int | str) -> tuple[str, int]:
    """Return the type and the number of GPUs: of a number, or a text such as ``a100:2``. The type may be empty."""
    kind, _, number = str(value).rpartition(":")
    return kind, int(number)


def _is_count(value: Any, least: int = 1) -> bool:
    return type(value) is int and least <= value < 1 << 31


def _is_nodes(value: Any) -> bool:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", value, re.ASCII) if isinstance(value, str) else None
    if match is None:
        return _is_count(value)
    return 1 <= int(match[1]) <= int(match[2] or match[1])


def _is_gpus(value: Any) -> bool:
    if isinstance(value, str):
        return re.fullmatch(r"([\w.-]+:)?\d{1,9}", value) is not None
    return _is_count(value, 0)


def _is_memory(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value <= _MOST_GB


def _is_features(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\w.:=-]+([&|][\w.:=-]+)*|", value) is not None


#: More memory than any machine has.
_MOST_GB: Final = 1e9
_GPUS: Final = (_is_gpus, "a number of GPUs from 0, or a type and a number such as 'a100:2'")
#: What each field may be.
_RULES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "n_nodes": (_is_nodes, "a number of nodes from 1, or a range such as '2-4'"),
    "nodes": (lambda value: _is_count(value, 0), "a number of nodes from 0"),
    "cores_per_node": (_is_count, "a number of cores from 1"),
    "memory_gb": (_is_memory, "GB from 0 for each core"),
    "node_memory_gb": (_is_memory, "GB from 0 for each node"),
    "gpus": _GPUS,
    "gpus_per_node": _GPUS,
    "gpu_type": (
        lambda value: isinstance(value, str) and re.fullmatch(r"[\w.-]+", value) is not None,
        "a type of GPUs such as 'a100'",
    ),
    "features": (_is_features, "features joined by & or |, such as 'a100&ib'"),
    "exclusive": (lambda value: type(value) is bool, "true or false"),
}
#: The fields by which a job requests more than processors.
REQUEST_FIELDS: Final = frozenset(_RULES)
