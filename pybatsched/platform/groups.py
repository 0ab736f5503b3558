"""Hosts that belong together by a property, as those of a node or of a cluster."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.platform.model import Host, Platform


def property_of(host: Host, name: str) -> str | None:
    """Give a property of a host, its own or that of the zones around it."""
    own = host.properties.get(name)
    return own if own is not None else host.zone_properties.get(name)


def groups(platform: Platform, name: str) -> dict[str, IntervalSet]:
    """Give the processors by a property, in the order of their first hosts; hosts without it are in none. O(hosts)."""
    found: dict[str, list[int]] = {}
    for proc, host in enumerate(platform.compute):
        value = property_of(host, name)
        if value is not None:
            found.setdefault(value, []).append(proc)
    return {value: IntervalSet(procs) for value, procs in found.items()}


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


class HostSize(NamedTuple):
    """Cores of the usual host (of equals in number, the first), compute hosts, and the cores of them all."""

    n_cores: int
    n_hosts: int
    n_cores_in_all: int


def host_size(platform: Platform) -> HostSize:
    """Count cores by the property `cores` of hosts or zones, else by the attribute `core` of hosts. O(hosts)."""
    cores = [_cores(platform, host) for host in platform.compute]
    return HostSize(Counter(cores).most_common(1)[0][0], len(cores), sum(cores))


class UsualHost(NamedTuple):
    """The host that most are like: the speed of a core in flop/s, its cores, and how many hosts have another speed."""

    speed: float
    n_cores: int
    n_others: int


def usual_host(platform: Platform) -> UsualHost:
    """Tell how fast most hosts are, as they begin; of equals in number, the first. O(hosts)."""
    kinds = Counter((host.speed, host.n_cores) for host in platform.compute)
    speed, n_cores = kinds.most_common(1)[0][0]
    return UsualHost(speed, n_cores, sum(host.speed != speed for host in platform.compute))


def _cores(platform: Platform, host: Host) -> int:
    text = property_of(host, "cores")
    if text is None:
        return host.n_cores
    if not text.isascii() or not text.isdigit() or len(text) > 20 or not 0 < int(text) < 1 << 31:
        where = f" (line {host.line})" if host.line else ""
        raise InputError(
            f"{platform.source}: host {host.name[:60]!r}{where}, property cores: expected a whole number from 1, "
            f"found {text[:40]!r}"
        )
    return int(text)
