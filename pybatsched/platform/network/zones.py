"""The network of a platform as the file describes it: nested zones, links, and the routes between.

A zone contains either other zones or points (hosts and routers). A `<cluster>` is a zone that creates its points and
links. `pybatsched.platform.network.routing` finds the paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Link:
    """A link: the time of one byte, in seconds, its position in the file, bandwidth in byte/s, latency and policy."""

    cost_s: float
    where: str
    line: int
    bandwidth: float = 0.0
    latency_s: float = 0.0
    policy: str = "SHARED"


NO_LINK: Final = Link(0.0, "", 0)


def costlier(*links: Link) -> Link:
    """Return the slowest of links, the first of equals."""
    return max(links, key=lambda link: link.cost_s)


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """A route between members of a zone. `directed` links have a direction: the way back uses their other halves."""

    src: str
    dst: str
    gw_src: str
    gw_dst: str
    links: tuple[str, ...]
    is_symmetrical: bool
    name: str
    line: int
    directed: tuple[bool, ...] = ()

    @property
    def is_bypass(self) -> bool:
        """Whether the route overrides the routing of its zone."""
        return self.name.startswith("<bypass")


@dataclass(frozen=True, slots=True)
class ClusterLinks:
    """The links that a `<cluster>` creates for each host, and its backbone.

    `is_split` is True if links have one half for each direction. `loopback` is a bandwidth and a latency, or None.
    `limiter` is a bandwidth; 0 means none. `parameters` are those of the topology, as in the file.
    """

    bandwidth: float
    latency_s: float
    is_split: bool
    backbone: Link | None
    loopback: tuple[float, float] | None
    limiter: float
    parameters: str


@dataclass(slots=True, eq=False)
class Zone:
    """A zone of the file. `kind` is the kind of its members, "zones" or "hosts"; empty until the first member.

    `topology` is that of a cluster, and empty otherwise. `costliest` is the slowest link that any path in or through
    the zone may use: a link of the cluster, or a backbone. `links_of` has the links of single points: with routing
    Cluster their links up and down, with Vivaldi their distance. `joined` has the pairs that already have a route,
    `bypassed` those that have a bypass route.
    `members` are the names of its points or zones, in the order of the file. `cluster` has the links of a cluster,
    `backbone` the link between the links of a zone with routing Cluster. `private_links` has, for the hosts of cabinets
    and for peers, the bandwidths up and down and the latency. `coordinates` are those of points in a Vivaldi zone.
    """

    id: str
    routing: str
    line: int = 0
    parent: Zone | None = None
    outer: Mapping[str, str] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    topology: str = ""
    routes: list[Route] = field(default_factory=list)
    costliest: Link = NO_LINK
    links_of: dict[str, tuple[str, ...] | Link] = field(default_factory=dict)
    joined: set[tuple[str, str]] = field(default_factory=set)
    bypassed: set[tuple[str, str]] = field(default_factory=set)
    members: list[str] = field(default_factory=list)
    cluster: ClusterLinks | None = None
    backbone: Link | None = None
    private_links: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    coordinates: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    _all: Mapping[str, str] | None = None

    def cross(self, link: Link) -> None:
        """Record a link that any path in or through the zone may use."""
        self.costliest = costlier(self.costliest, link)

    @property
    def is_settled(self) -> bool:
        """Whether the zone has content other than properties, after which no property is allowed."""
        return self._all is not None

    def properties(self) -> Mapping[str, str]:
        """Return the properties of the zone and its outer zones, and allow no more properties."""
        if self._all is None:
            self._all = MappingProxyType({**self.outer, **self.own}) if self.own else self.outer
        return self._all

    def trail(self) -> list[Zone]:
        """Return the zones from the outermost to this one."""
        found: list[Zone] = []
        zone: Zone | None = self
        while zone is not None:
            found.append(zone)
            zone = zone.parent
        return found[::-1]


@dataclass(slots=True)
class Network:
    """All zones, links and points of a file. `owners` maps a host or router to its zone."""

    zones: list[Zone] = field(default_factory=list)
    zone_ids: set[str] = field(default_factory=set)
    links: dict[str, Link] = field(default_factory=dict)
    owners: dict[str, Zone] = field(default_factory=dict)
    #: Readable content that Batsim rejects when it loads the file: (line, text).
    refused: list[tuple[int, str]] = field(default_factory=list)
    #: Content that changes times in Batsim and that the embedded simulator does not simulate: (line, text).
    not_simulated: list[tuple[int, str]] = field(default_factory=list)

    def find_link(self, name: str) -> Link | None:
        """Return a link by its name, or by that of one of its halves."""
        return self.links.get(name) or self.links.get(name.removesuffix("_UP").removesuffix("_DOWN"))
