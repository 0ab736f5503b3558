"""Hosts that belong together by a property, as those of a node or of a cluster."""

from __future__ import annotations

from pybatsched.core.intervals import IntervalSet
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
