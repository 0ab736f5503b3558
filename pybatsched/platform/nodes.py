"""Nodes of a platform whose hosts are cores: hosts with the same property `node`, and the memory of each."""

from __future__ import annotations

import math
from collections import Counter

from pybatsched.errors import InputError
from pybatsched.platform.groups import property_of
from pybatsched.platform.model import Host, Platform


def nodes_by_memory(platform: Platform) -> dict[float, int]:
    """Count the nodes of each memory in GB, in ascending order. O(hosts).

    Compute hosts with the same `node` are one node, and `memory_gb` is the node's. Raises InputError that names the
    host for one without either, and for a node of two memories.
    """
    memories: dict[str, float] = {}
    for host in platform.compute:
        node = property_of(host, "node")
        if node is None:
            raise InputError(f"{_place(platform, host)}, property node: expected the node it belongs to, found none")
        memory_gb = _memory_gb(platform, host)
        if memories.setdefault(node, memory_gb) != memory_gb:
            raise InputError(
                f"{_place(platform, host)}, property memory_gb: expected {memories[node]:g}, as other hosts of node "
                f"{node[:40]} have, found {memory_gb:g}"
            )
    return dict(sorted(Counter(memories.values()).items()))


def _memory_gb(platform: Platform, host: Host) -> float:
    text = property_of(host, "memory_gb")
    try:
        memory_gb = float(text or "")
    except ValueError:
        memory_gb = math.nan
    if not 0 < memory_gb < math.inf:
        found = "none" if text is None else repr(text[:40])
        raise InputError(f"{_place(platform, host)}, property memory_gb: expected more than 0, found {found}")
    return memory_gb


def _place(platform: Platform, host: Host) -> str:
    return f"{platform.source}: host {host.name[:60]!r}" + (f" (line {host.line})" if host.line else "")
