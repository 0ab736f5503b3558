"""Differences of Batsim 5 on SimGrid 4.0: what it rejects or interprets differently in a platform of Batsim 4.

The file format is the same: DTD, units and versions have not changed since SimGrid 3.32. Three things have changed:
SimGrid creates the outermost zone, a file may select fewer models, and Batsim always checks the pstates of hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.platform.elements import Content
from pybatsched.platform.model import Host, Platform

#: The outermost zone, which SimGrid creates.
ROOT: Final = "_world_"
#: Settings that exclude parallel tasks, which Batsim always has.
_MODELS: Final = ("cpu/model", "network/model")


class Difference(NamedTuple):
    """A difference in a line; `is_refused` if Batsim 5 would abort."""

    line: int
    text: str
    is_refused: bool


def of_network(content: Content) -> Iterator[Difference]:
    """Yield the differences in settings and zones. O(zones)."""
    for key in _MODELS:
        if key in content.settings:
            text = f"<config> changes {key}; expected its default: SimGrid 4 has only one model for parallel tasks"
            yield Difference(content.settings[key], text, True)
    is_reported = False
    for zone in content.network.zones:
        tag = "cluster" if zone.topology else "zone"
        name = f"<{tag} id={zone.id if zone.id.isprintable() else ascii(zone.id):.80}>"
        if zone.id == ROOT:
            yield Difference(zone.line, f"{name}: SimGrid 4 uses this id itself; expected another id", True)
        if zone.topology not in {"", "FLAT"} and zone.parent is not None and not zone.parent.id:
            text = f"{name} of topology {zone.topology} is not in a <zone>; expected one, as SimGrid 4 aborts without"
            yield Difference(zone.line, text, True)
        if zone.topology == "FLAT" and zone.own.keys() - {"role"} and not is_reported:
            is_reported = True
            text = f"{name}: in Batsim 5 its properties belong only to its hosts and are not in their zone_properties"
            yield Difference(zone.line, text, False)


def of_hosts(platform: Platform) -> Iterator[Difference]:
    """Yield the hosts whose pstates Batsim 5 rejects; it checks them with and without energy. O(hosts)."""
    seen: set[int] = set()
    for host in (*platform.hosts, platform.master):
        text = _why_rejected(host) if host.line not in seen else ""
        if text:
            seen.add(host.line)  # hosts of a cluster are alike
            yield Difference(host.line, text, True)


def _why_rejected(host: Host) -> str:
    try:
        computing = host.computing_pstates()
    except InputError as error:
        return f"{error} (Batsim 5 also reads it without energy)"
    if host.role in {"storage", "master"}:
        return ""
    for pstate in computing:
        if host.speeds[pstate] <= 0:
            return f"host {host.name!r}: pstate {pstate} has speed 0; expected more, or the pstate in sleep_pstates"
    return ""
