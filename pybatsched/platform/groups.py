"""Groups of hosts by a property, such as the hosts of a node or of a cluster."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.platform.model import Host, Platform


def property_of(host: Host, name: str) -> str | None:
    """Return a property of a host, or of its zones if the host does not have it."""
    own = host.properties.get(name)
    return own if own is not None else host.zone_properties.get(name)


def has_properties(platform: Platform, names: AbstractSet[str]) -> bool:
    """Return whether a compute host, or one of its zones, has one of these properties. O(hosts)."""
    return any(
        not (names.isdisjoint(host.properties) and names.isdisjoint(host.zone_properties)) for host in platform.compute
    )


def groups(platform: Platform, name: str) -> dict[str, IntervalSet]:
    """Return the processors by value of a property, in the order of their first hosts. O(hosts)."""
    found: dict[str, list[int]] = {}
    for proc, host in enumerate(platform.compute):
        value = property_of(host, name)
        if value is not None:
            found.setdefault(value, []).append(proc)
    return {value: IntervalSet(procs) for value, procs in found.items()}


def nodes_by_memory(platform: Platform) -> dict[float, int]:
    """Return the number of nodes (hosts with one `node`) by `memory_gb`. O(hosts). Raises InputError with the host."""
    memories: dict[str, float] = {}
    for host in platform.compute:
        node = property_of(host, "node")
        if node is None:
            raise InputError(f"{_where(platform, host)}, property node: expected the node it belongs to, found none")
        memory_gb = _memory_gb(platform, host)
        if memories.setdefault(node, memory_gb) != memory_gb:
            raise InputError(
                f"{_where(platform, host)}, property memory_gb: expected {memories[node]:g}, like other hosts of "
                f"node {node[:40]}, found {memory_gb:g}"
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
        raise InputError(f"{_where(platform, host)}, property memory_gb: expected more than 0, found {found}")
    return memory_gb


def _where(platform: Platform, host: Host) -> str:
    return f"{platform.source}: host {host.name[:60]!r}" + (f" (line {host.line})" if host.line else "")


class HostSize(NamedTuple):
    """Cores of the most frequent kind of host (the first of equals), number of compute hosts, and all their cores."""

    n_cores: int
    n_hosts: int
    n_cores_in_all: int


def host_size(platform: Platform) -> HostSize:
    """Return the sizes of hosts: the property `cores` of hosts or zones, else the attribute `core`. O(hosts)."""
    cores = [_cores(platform, host) for host in platform.compute]
    return HostSize(Counter(cores).most_common(1)[0][0], len(cores), sum(cores))


class UsualHost(NamedTuple):
    """The most frequent kind of host: core speed in flop/s, cores, and the number of hosts with another speed."""

    speed: float
    n_cores: int
    n_others: int


def usual_host(platform: Platform) -> UsualHost:
    """Return the most frequent kind of host by initial speed and cores; the first of equals. O(hosts)."""
    kinds = Counter((host.speed, host.n_cores) for host in platform.compute)
    speed, n_cores = kinds.most_common(1)[0][0]
    return UsualHost(speed, n_cores, sum(host.speed != speed for host in platform.compute))


def _cores(platform: Platform, host: Host) -> int:
    text = property_of(host, "cores")
    if text is None:
        return host.n_cores
    if not text.isascii() or not text.isdigit() or len(text) > 20 or not 0 < int(text) < 1 << 31:
        raise InputError(
            f"{_where(platform, host)}, property cores: expected a whole number from 1, found {text[:40]!r}"
        )
    return int(text)
