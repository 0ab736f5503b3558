"""What Batsim 5, on SimGrid 4.0, refuses or means otherwise about a platform that Batsim 4 takes.

The format of files is the same: DTD, units and versions have not changed since SimGrid 3.32. What has changed is the
zone around all others, which SimGrid makes itself, which of its models a file may choose, and when Batsim looks at the
pstates of hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.platform.elements import Content
from pybatsched.platform.model import Host, Platform

#: The zone that SimGrid makes around those of a file.
ROOT: Final = "_world_"
#: Settings that go with no parallel tasks, which Batsim always has.
_MODELS: Final = ("cpu/model", "network/model")


class Difference(NamedTuple):
    """Something about a line; `is_refused` if Batsim 5 does not survive it."""

    line: int
    text: str
    is_refused: bool


def of_network(content: Content) -> Iterator[Difference]:
    """Give what is different about settings and zones. O(zones)."""
    for key in _MODELS:
        if key in content.settings:
            text = f"<config> changes {key}; expected it as it is, since SimGrid 4 has one model for parallel tasks"
            yield Difference(content.settings[key], text, True)
    told = False
    for zone in content.network.zones:
        tag = "cluster" if zone.topology else "zone"
        name = f"<{tag} id={zone.id if zone.id.isprintable() else ascii(zone.id):.80}>"
        if zone.id == ROOT:
            yield Difference(zone.line, f"{name}: SimGrid 4 has a zone of this id itself; expected another one", True)
        if zone.topology not in {"", "FLAT"} and zone.parent is not None and not zone.parent.id:
            text = f"{name} of topology {zone.topology} in no zone; expected it in a <zone>, or SimGrid 4 ends"
            yield Difference(zone.line, text, True)
        if zone.topology == "FLAT" and zone.own.keys() - {"role"} and not told:
            told = True
            text = f"{name}: its properties are those of its hosts alone, no longer also in their zone_properties"
            yield Difference(zone.line, text, False)


def of_hosts(platform: Platform) -> Iterator[Difference]:
    """Give hosts whose pstates Batsim 5 does not take: it looks at them with and without energy. O(hosts)."""
    seen: set[int] = set()
    for host in _all(platform):
        text = _why_not(host) if host.line not in seen else ""
        if text:
            seen.add(host.line)  # hosts of a cluster are alike
            yield Difference(host.line, text, True)


def _all(platform: Platform) -> Iterable[Host]:
    return (*platform.hosts, platform.master)


def _why_not(host: Host) -> str:
    try:
        computing = host.computing_pstates()
    except InputError as error:
        return f"{error} (Batsim 5 reads it without energy, too)"
    if host.role in {"storage", "master"}:
        return ""
    for pstate in computing:
        if host.speeds[pstate] <= 0:
            return f"host {host.name!r} computes in pstate {pstate}; expected a speed above 0, or it in sleep_pstates"
    return ""
