"""The shape of a platform's network: zones in zones, what is in them, and the routes between.

A zone holds either other zones or points (hosts and routers). A `<cluster>` is a zone that makes its points and links
itself. This is what the file says; `pybatsched.platform.routing` finds out where it leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pybatsched.platform.model import NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class Link:
    """A link: what one byte takes to cross it, in seconds, and where the file describes it."""

    cost_s: float
    where: str
    line: int


NO_LINK: Final = Link(0.0, "", 0)


def costlier(*links: Link) -> Link:
    """Give the costliest of links, the first of equals."""
    return max(links, key=lambda link: link.cost_s)


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """A route between two components of a zone. Between points it has no gateways: they are the points themselves."""

    src: str
    dst: str
    gw_src: str
    gw_dst: str
    links: tuple[str, ...]
    is_symmetrical: bool
    name: str
    line: int


@dataclass(slots=True, eq=False)
class Zone:
    """A zone of the file. `kind` is what it holds, "zones" or "hosts", once that is known.

    `topology` is that of a cluster, and empty otherwise. `costliest` is the worst link that any way in it or through it
    may cross: a cluster's own, a backbone. `links_of` are those of single points: in a zone with routing Cluster their
    links up and down, in a Vivaldi zone their distance. `joined` are the pairs that have a route already.
    """

    id: str
    routing: str
    line: int = 0
    parent: Zone | None = None
    outer: Mapping[str, str] = field(default_factory=lambda: NO_PROPERTIES)
    own: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    topology: str = ""
    routes: list[Route] = field(default_factory=list)
    costliest: Link = NO_LINK
    links_of: dict[str, tuple[str, ...] | Link] = field(default_factory=dict)
    joined: set[tuple[str, str]] = field(default_factory=set)
    _all: Mapping[str, str] | None = None

    def cross(self, link: Link) -> None:
        """Take note of a link that any way in it or through it may cross."""
        self.costliest = costlier(self.costliest, link)

    @property
    def is_settled(self) -> bool:
        """Whether something other than properties has been in it, so that no more of them may come."""
        return self._all is not None

    def properties(self) -> Mapping[str, str]:
        """Give its own properties and those from around it, and let no more come."""
        if self._all is None:
            self._all = MappingProxyType({**self.outer, **self.own}) if self.own else self.outer
        return self._all

    def trail(self) -> list[Zone]:
        """Give the zones from the outermost to this one."""
        found: list[Zone] = []
        zone: Zone | None = self
        while zone is not None:
            found.append(zone)
            zone = zone.parent
        return found[::-1]


@dataclass(slots=True)
class Network:
    """All zones, links and points of a file. `owners` says in which zone a host or router is."""

    zones: list[Zone] = field(default_factory=list)
    zone_ids: set[str] = field(default_factory=set)
    links: dict[str, Link] = field(default_factory=dict)
    owners: dict[str, Zone] = field(default_factory=dict)
    #: What Batsim refuses when it loads the file, though it can be read: lines and texts.
    refused: list[tuple[int, str]] = field(default_factory=list)
