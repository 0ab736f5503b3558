"""Read the elements of a platform file: zones, hosts and their properties. `wiring` reads links and routes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from itertools import chain, islice
from types import MappingProxyType

from pybatsched.platform import values
from pybatsched.platform.model import MAX_HOSTS, NO_PROPERTIES, NO_ROLE, Host
from pybatsched.platform.network.wiring import Wiring, cost
from pybatsched.platform.network.zones import ClusterLinks, Link, Network, Zone
from pybatsched.platform.notes import Element, PlatformNotes
from pybatsched.platform.schema import REFUSED, REMARKS, SETTINGS, VALUES

_VERSION = re.compile(r"4(\.[01]?0*)?")
_WHOLE = re.compile(r"[0-9]{1,9}(\.0*)?")
_TOPOLOGIES = ("FLAT", "TORUS", "FAT_TREE", "DRAGONFLY")
_ROUTINGS = ("Cluster", "Dijkstra", "DijkstraCache", "Floyd", "Full", "None", "Vivaldi", "Wifi")
_BY_LOWER_CASE = {routing.lower(): routing for routing in _ROUTINGS}
# In SimGrid a zone has either zones or hosts.
_OF_ZONES = frozenset(("zone", "AS", "cluster", "peer", "zoneRoute", "ASroute", "bypassZoneRoute", "bypassASroute"))
_OF_HOSTS = frozenset(("host", "cabinet", "router", "host_link", "route", "bypassRoute"))
_AFTER_ROUTES = frozenset(
    ("route", "bypassRoute", "zoneRoute", "ASroute", "bypassZoneRoute", "bypassASroute", "trace", "trace_connect")
)


class Content:
    """The content read so far. The parser calls `begin` and `end` for each element, in the order of the file."""

    def __init__(self, source: str) -> None:
        self.hosts: list[Host] = []
        self.network = Network()
        #: Pairs: the index in `hosts` of the first host of a zone, and the zone.
        self.slices: list[tuple[int, Zone]] = []
        self.notes = PlatformNotes(source, self.network.refused, self.network.not_simulated)
        self._zones = [Zone("", "")]
        self._wiring = Wiring(self.notes, self.network, self._zones)
        self._lines: dict[str, int] = {}  # of hosts; filled by the first error that needs it
        self._props: dict[str, str] = {}
        #: SimGrid's settings that the file changes, with their lines.
        self.settings: dict[str, int] = {}
        self._begin: dict[str, Callable[[Element], None]] = {
            "platform": self._platform,
            "zone": self._begin_zone,
            "AS": self._begin_zone,
            "cabinet": self._cabinet,
            "peer": self._peer,
            "include": self._include,
            **self._wiring.begin,
        }
        self._end: dict[str, Callable[[Element], None]] = {
            "zone": self._end_zone,
            "AS": self._end_zone,
            "host": self._host,
            "cluster": self._cluster,
            **self._wiring.end,
        }

    def begin(self, element: Element, outer: Element | None) -> None:
        """Process the start of an element whose attributes have been checked."""
        tag = element.tag
        if tag == "prop":
            self._prop(element, outer)
            return
        if outer is not None and outer.tag in {"zone", "AS"}:
            self._settle(element)
        for name, value in element.attributes.items():
            if (tag, name) in VALUES and value not in VALUES[tag, name]:
                self.notes.refuse(
                    element,
                    f" attribute {name}: expected one of {', '.join(sorted(VALUES[tag, name]))}, found {value!r:.40}",
                )
        if tag == "config" and self.network.zones:
            self.notes.refuse(element, ": expected before all zones")
        handler = self._begin.get(tag)
        if handler is not None:
            handler(element)
        elif tag in REMARKS:
            self.notes.remark(tag, element.line, f"<{tag}>: {REMARKS[tag]}", is_refused=tag in REFUSED)
            if tag == "trace_connect":
                text = f"<trace_connect> gives {element.attributes['element']!r:.80} a trace"
                self.notes.not_simulated.append((element.line, text))

    def end(self, element: Element) -> None:
        """Process the end of an element."""
        handler = self._end.get(element.tag)
        if handler is not None:
            handler(element)

    def _speeds(self, element: Element) -> tuple[float, ...]:
        speeds = self.notes.read(element, "speed", values.speeds)
        if not values.is_simgrids(element.attributes["speed"]):
            text = f"{element.name}: SimGrid cannot read this speed"
            self.notes.remark("speed", element.line, text, is_refused=True)
        return speeds

    # --- zones and properties ---

    def _platform(self, element: Element) -> None:
        if not _VERSION.fullmatch(element.attributes["version"]):
            raise self.notes.error(
                element, f" attribute version: expected 4 or 4.1, found {element.attributes['version']!r:.80}"
            )

    def _settle(self, element: Element) -> None:
        """Close the properties of the zone at its first other content, and set or check its kind."""
        zone = self._zones[-1]
        zone.properties()
        kind = "zones" if element.tag in _OF_ZONES else "hosts" if element.tag in _OF_HOSTS else ""
        if kind and zone.kind not in {"", kind}:
            raise self.notes.error(
                element, f" in a zone of {zone.kind}; expected a zone of {kind} or a separate <zone>"
            )
        zone.kind = zone.kind or kind
        if zone.routes and element.tag not in _AFTER_ROUTES:
            self.notes.refuse(element, ": expected before the routes of its zone")

    def _begin_zone(self, element: Element) -> None:
        given = element.attributes["routing"]
        routing = _BY_LOWER_CASE.get(given.lower())
        if routing is None:
            raise self.notes.error(
                element, f" attribute routing: expected one of {', '.join(_ROUTINGS)}, found {given!r:.80}"
            )
        self._zones.append(self._new_zone(element, routing))

    def _new_zone(self, element: Element, routing: str, topology: str = "") -> Zone:
        parent, name = self._zones[-1], element.attributes["id"]
        if name in self.network.zone_ids:
            self.notes.refuse(element, f": zone {name!r:.80} already exists; expected another id")
        self.network.zone_ids.add(name)
        parent.members.append(name)
        zone = Zone(name, routing, element.line, parent, parent.properties(), topology=topology)
        self.network.zones.append(zone)
        return zone

    def _end_zone(self, _place: Element) -> None:
        self._zones.pop()

    def _prop(self, element: Element, outer: Element | None) -> None:
        """Add a property to the enclosing element. As in SimGrid, the first of two with the same name counts."""
        tag = outer.tag if outer is not None else ""
        key, value = element.attributes["id"], element.attributes["value"]
        if tag in {"host", "cluster"}:
            self._props.setdefault(key, value)
        elif tag in {"zone", "AS"}:
            if self._zones[-1].is_settled:
                raise self.notes.error(element, ": expected all properties of a zone before its other content")
            self._zones[-1].own.setdefault(key, value)
        elif tag == "config":
            self.settings.setdefault(key, element.line)
            if key in SETTINGS and not _is_default(value, SETTINGS[key]):
                self.notes.not_simulated.append((element.line, f"<config> changes {key}"))

    def _take_props(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the properties of the host or cluster that ends, with a role added if it has none, and unchanged."""
        if not self._props:
            return NO_ROLE, NO_PROPERTIES
        own, self._props = self._props, {}
        return MappingProxyType({"role": "", **own}), own

    # --- hosts ---

    def _add(self, host: Host, element: Element, zone: Zone | None = None) -> None:
        zone = zone or self._zones[-1]
        owners = self.network.owners
        if host.name in owners:
            before = self._line_of(host.name)
            raise self.notes.error(
                element, f": host {host.name!r:.80} already exists (line {before}); expected another name"
            )
        owners[host.name] = zone
        zone.members.append(host.name)
        if len(self.hosts) >= MAX_HOSTS:
            raise self.notes.error(element, f": too many hosts; expected at most {MAX_HOSTS}")
        if not self.slices or self.slices[-1][1] is not zone:
            self.slices.append((len(self.hosts), zone))
        self.hosts.append(host)

    def _line_of(self, name: str) -> int:
        """Return the line of a host or router. O(hosts) for the first call, then O(1)."""
        if name not in self._lines:
            self._lines = {host.name: host.line for host in self.hosts}
        return self._lines.get(name, self.network.owners[name].line)

    def _host(self, element: Element) -> None:
        speeds = self._speeds(element)
        pstate = self.notes.read(element, "pstate", _whole, "0")
        if pstate >= len(speeds):
            raise self.notes.error(element, f" attribute pstate: expected less than {len(speeds)}, found {pstate}")
        self.notes.note_traces(element)
        self._wiring.coordinates(element)
        properties, zone = self._take_props()[0], self._zones[-1].properties()
        name = element.attributes["id"]
        self._add(Host(name, speeds, self._cores(element), properties, zone, pstate, element.line), element)
        around = self._zones[-1]
        if around.routing == "None":
            self.notes.refuse_unreachable(element, around.id)
        if around.routing == "Vivaldi" and "coordinates" not in element.attributes:
            self.notes.refuse(element, " has no attribute coordinates; expected one in a zone with routing Vivaldi")

    def _cores(self, element: Element) -> int:
        n_cores = self.notes.read(element, "core", _whole, "1")
        if n_cores == 0:
            raise self.notes.error(element, " attribute core: expected 1 or more, found 0")
        return n_cores

    def _cluster(self, element: Element) -> None:
        attributes = element.attributes
        topology = attributes.get("topology", "FLAT")
        if topology not in _TOPOLOGIES:
            raise self.notes.error(
                element, f" attribute topology: expected one of {', '.join(_TOPOLOGIES)}, found {topology!r:.80}"
            )
        zone = self._new_zone(element, "", topology)
        link = self._wiring.made_link(element, "the links of ", "bw", "lat")
        zone.cross(link)
        backbone = None
        if topology == "FLAT":
            router = attributes.get("router_id") or f"{attributes['prefix']}{zone.id}_router{attributes['suffix']}"
            self.network.owners.setdefault(router, zone)
            backbone = self._backbone(element)
            if backbone is not None:
                zone.cross(backbone)
        zone.cluster = self._cluster_links(element, link, backbone)
        properties, own = self._take_props()
        around = self._zones[-1].properties()
        if own and topology == "FLAT":  # in SimGrid, other clusters do not have the properties of their hosts
            around = MappingProxyType({**around, **own})
            zone.own.update(own)
        like = Host("", self._speeds(element), self._cores(element), properties, around, 0, element.line)
        self._row(element, topology, like, zone)

    def _optional_link(self, element: Element, name: str) -> tuple[float, float] | None:
        """Return bandwidth and latency of an optional link of a cluster; as in SimGrid, None if both are 0."""
        given, read = element.attributes, self.notes.read
        bandwidth = read(element, f"{name}_bw", values.bandwidth) if given.get(f"{name}_bw") else 0.0
        latency_s = read(element, f"{name}_lat", values.latency) if given.get(f"{name}_lat") else 0.0
        return (bandwidth, latency_s) if bandwidth or latency_s else None

    def _backbone(self, element: Element) -> Link | None:
        given = self._optional_link(element, "bb")
        if given is None:
            return None
        bandwidth, latency_s = given
        where = f"the backbone of {element.name}, line {element.line}"
        policy = element.attributes.get("bb_sharing_policy", "SHARED")
        return Link(cost(latency_s, bandwidth), where, element.line, bandwidth, latency_s, policy)

    def _cluster_links(self, element: Element, link: Link, backbone: Link | None) -> ClusterLinks:
        attributes, read = element.attributes, self.notes.read
        return ClusterLinks(
            link.bandwidth,
            link.latency_s,
            is_split=attributes.get("sharing_policy", "SPLITDUPLEX") in {"SPLITDUPLEX", "FULLDUPLEX"},
            backbone=backbone,
            loopback=self._optional_link(element, "loopback"),
            limiter=read(element, "limiter_link", values.bandwidth) if attributes.get("limiter_link") else 0.0,
            parameters=attributes.get("topo_parameters", ""),
        )

    def _cabinet(self, element: Element) -> None:
        if self._zones[-1].routing != "Cluster":
            raise self.notes.error(element, ": expected in a zone with routing Cluster")
        zone = self._zones[-1]
        link = self._wiring.made_link(element, "the links of ", "bw", "lat")
        zone.cross(link)
        like = Host("", self._one_speed(element), 1, NO_ROLE, zone.properties(), 0, element.line)
        n_before = len(zone.members)
        self._row(element, "FLAT", like, zone)
        for name in zone.members[n_before:]:
            zone.private_links[name] = (link.bandwidth, link.bandwidth, link.latency_s)

    def _row(self, element: Element, topology: str, like: Host, zone: Zone) -> None:
        """Create the hosts of a radical, all like one."""
        room = MAX_HOSTS - len(self.hosts)
        ranges = self.notes.read(element, "radical", lambda text: values.explode(text, room))
        n_numbers = sum(map(len, ranges))
        n_hosts = self.notes.read(element, "topo_parameters", lambda text: values.n_placed(topology, text, n_numbers))
        if n_hosts < n_numbers:
            n_left = n_numbers - n_hosts
            self.notes.remark(
                "topology", element.line, f"{element.name}: its topology omits {n_left} hosts of its radical"
            )
        prefix, suffix = element.attributes["prefix"], element.attributes["suffix"]
        shared = (like.speeds, like.n_cores, like.properties, like.zone_properties, like.pstate, like.line)
        for number in islice(chain.from_iterable(ranges), n_hosts):
            self._add(Host(f"{prefix}{number}{suffix}", *shared), element, zone)

    def _one_speed(self, element: Element) -> tuple[float, ...]:
        speeds = self._speeds(element)
        if len(speeds) != 1:
            raise self.notes.error(
                element, f" attribute speed: expected one speed, found {element.attributes['speed']!r:.80}"
            )
        return speeds

    def _peer(self, element: Element) -> None:
        zone = self._zones[-1]
        if zone.routing != "Vivaldi":
            raise self.notes.error(element, ": expected in a zone with routing Vivaldi")
        where = f"the links of {element.name}, line {element.line}"
        down, up = (self.notes.read(element, key, values.bandwidth) for key in ("bw_in", "bw_out"))
        for bandwidth in (down, up):
            zone.cross(Link(cost(0.0, bandwidth), where, element.line))
        zone.private_links[element.attributes["id"]] = (up, down, 0.0)
        self.notes.note_traces(element)
        self._wiring.coordinates(element)
        speeds = self._one_speed(element)
        self._add(Host(element.attributes["id"], speeds, 1, NO_ROLE, zone.properties(), 0, element.line), element)

    def _include(self, element: Element) -> None:
        raise self.notes.error(element, ": expected no included files (SimGrid also rejects them since 3.18)")


@functools.lru_cache(maxsize=1024)
def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError("a whole number")
    return int(float(text))


def _is_default(text: str, default: float | str) -> bool:
    """Return whether a setting of SimGrid has its default value."""
    try:
        return float(text) == default
    except ValueError:
        return text == default
