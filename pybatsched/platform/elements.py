"""What the elements of a platform file mean: zones, hosts and their properties; `wiring` knows the network."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from itertools import chain, islice
from types import MappingProxyType

from pybatsched.platform import values
from pybatsched.platform.model import MAX_HOSTS, NO_PROPERTIES, NO_ROLE, Host
from pybatsched.platform.notes import Notes, Place, Remark
from pybatsched.platform.schema import REFUSED, REMARKS, VALUES
from pybatsched.platform.wiring import Wiring, cost
from pybatsched.platform.zones import Link, Network, Zone

_VERSION = re.compile(r"4(\.[01]?0*)?")
_WHOLE = re.compile(r"[0-9]{1,9}(\.0*)?")
_TOPOLOGIES = ("FLAT", "TORUS", "FAT_TREE", "DRAGONFLY")
_ROUTINGS = ("Cluster", "Dijkstra", "DijkstraCache", "Floyd", "Full", "None", "Vivaldi", "Wifi")
_BY_LOWER_CASE = {routing.lower(): routing for routing in _ROUTINGS}
# SimGrid knows zones of zones and zones of hosts, and none of both.
_OF_ZONES = frozenset(("zone", "AS", "cluster", "peer", "zoneRoute", "ASroute", "bypassZoneRoute", "bypassASroute"))
_OF_HOSTS = frozenset(("host", "cabinet", "router", "host_link", "route", "bypassRoute"))
_AFTER_ROUTES = frozenset(
    ("route", "bypassRoute", "zoneRoute", "ASroute", "bypassZoneRoute", "bypassASroute", "trace", "trace_connect")
)


class Content:
    """What has been read so far. The parser calls `begin` and `end` for each element, in the file's order."""

    def __init__(self, source: str) -> None:
        self.hosts: list[Host] = []
        self.network = Network()
        #: From which place in `hosts` on they are in which zone.
        self.slices: list[tuple[int, Zone]] = []
        self._notes = Notes(source, self.network.refused)
        self._zones = [Zone("", "")]
        self._wiring = Wiring(self._notes, self.network, self._zones)
        self._lines: dict[str, int] = {}  # of hosts, once somebody asks
        self._props: dict[str, str] = {}
        #: SimGrid's settings that the file changes, with their lines.
        self.settings: dict[str, int] = {}
        self._begin: dict[str, Callable[[Place], None]] = {
            "platform": self._platform,
            "zone": self._begin_zone,
            "AS": self._begin_zone,
            "cabinet": self._cabinet,
            "peer": self._peer,
            "include": self._include,
            **self._wiring.begin,
        }
        self._end: dict[str, Callable[[Place], None]] = {
            "zone": self._end_zone,
            "AS": self._end_zone,
            "host": self._host,
            "cluster": self._cluster,
            **self._wiring.end,
        }

    def remark(self, kind: str, line: int, text: str, *, is_refused: bool = False) -> None:
        """Keep something to tell the user, once for each kind of it."""
        self._notes.remark(kind, line, text, is_refused=is_refused)

    def remarks(self) -> list[Remark]:
        """Give all remarks in the order of the file."""
        return self._notes.remarks()

    def begin(self, place: Place, outer: Place | None) -> None:
        """Take an element whose attributes are those it may have."""
        tag = place.tag
        if tag == "prop":
            self._prop(place, outer)
            return
        if outer is not None and outer.tag in {"zone", "AS"}:
            self._settle(place)
        for name, value in place.attributes.items():
            if (tag, name) in VALUES and value not in VALUES[tag, name]:
                self._notes.refuse(
                    place,
                    f" attribute {name}: expected one of {', '.join(sorted(VALUES[tag, name]))}, got {value!r:.40}",
                )
        if tag == "config" and self.network.zones:
            self._notes.refuse(place, ": expected it before all zones")
        handler = self._begin.get(tag)
        if handler is not None:
            handler(place)
        elif tag in REMARKS:
            self._notes.remark(tag, place.line, f"<{tag}>: {REMARKS[tag]}", is_refused=tag in REFUSED)

    def end(self, place: Place) -> None:
        """Take the end of an element."""
        handler = self._end.get(place.tag)
        if handler is not None:
            handler(place)

    def _speeds(self, place: Place) -> tuple[float, ...]:
        speeds = self._notes.read(place, "speed", values.speeds)
        if not values.is_simgrids(place.attributes["speed"]):
            text = f"{place.name}: SimGrid does not understand such a speed"
            self._notes.remark("speed", place.line, text, is_refused=True)
        return speeds

    # --- zones and properties ---

    def _platform(self, place: Place) -> None:
        if not _VERSION.fullmatch(place.attributes["version"]):
            raise self._notes.error(
                place, f" attribute version: expected 4 or 4.1, got {place.attributes['version']!r:.80}"
            )

    def _settle(self, place: Place) -> None:
        """Let no more properties come to the zone once something else is in it, and keep its kind."""
        zone = self._zones[-1]
        zone.properties()
        kind = "zones" if place.tag in _OF_ZONES else "hosts" if place.tag in _OF_HOSTS else ""
        if kind and zone.kind not in {"", kind}:
            raise self._notes.error(
                place, f" in a zone of {zone.kind}; expected a zone of {kind} or a <zone> of its own"
            )
        zone.kind = zone.kind or kind
        if zone.routes and place.tag not in _AFTER_ROUTES:
            self._notes.refuse(place, ": expected it before the routes of its zone")

    def _begin_zone(self, place: Place) -> None:
        given = place.attributes["routing"]
        routing = _BY_LOWER_CASE.get(given.lower())
        if routing is None:
            raise self._notes.error(
                place, f" attribute routing: expected one of {', '.join(_ROUTINGS)}, got {given!r:.80}"
            )
        self._zones.append(self._new_zone(place, routing))

    def _new_zone(self, place: Place, routing: str, topology: str = "") -> Zone:
        parent, name = self._zones[-1], place.attributes["id"]
        if name in self.network.zone_ids:
            self._notes.refuse(place, f": there is a zone {name!r:.80} already; expected another id")
        self.network.zone_ids.add(name)
        zone = Zone(name, routing, place.line, parent, parent.properties(), topology=topology)
        self.network.zones.append(zone)
        return zone

    def _end_zone(self, _place: Place) -> None:
        self._zones.pop()

    def _prop(self, place: Place, outer: Place | None) -> None:
        """Give a property to what it stands in; of two with one name the first holds, as in SimGrid."""
        tag = outer.tag if outer is not None else ""
        key, value = place.attributes["id"], place.attributes["value"]
        if tag in {"host", "cluster"}:
            self._props.setdefault(key, value)
        elif tag in {"zone", "AS"}:
            if self._zones[-1].is_settled:
                raise self._notes.error(place, ": expected all properties of a zone before its other content")
            self._zones[-1].own.setdefault(key, value)
        elif tag == "config":
            self.settings.setdefault(key, place.line)

    def _take_props(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Give the properties of the host or cluster that ends: with a role in any case, and as they are."""
        if not self._props:
            return NO_ROLE, NO_PROPERTIES
        own, self._props = self._props, {}
        return MappingProxyType({"role": "", **own}), own

    # --- hosts ---

    def _add(self, host: Host, place: Place, zone: Zone | None = None) -> None:
        zone = zone or self._zones[-1]
        owners = self.network.owners
        if host.name in owners:
            before = self._line_of(host.name)
            raise self._notes.error(
                place, f": host {host.name!r:.80} exists already (line {before}); expected another name"
            )
        owners[host.name] = zone
        if len(self.hosts) >= MAX_HOSTS:
            raise self._notes.error(place, f": too many hosts; expected {MAX_HOSTS} at most")
        if not self.slices or self.slices[-1][1] is not zone:
            self.slices.append((len(self.hosts), zone))
        self.hosts.append(host)

    def _line_of(self, name: str) -> int:
        """Tell where a host or router is described. All are looked at once, however often it is asked."""
        if name not in self._lines:
            self._lines = {host.name: host.line for host in self.hosts}
        return self._lines.get(name, self.network.owners[name].line)

    def _host(self, place: Place) -> None:
        speeds = self._speeds(place)
        pstate = self._notes.read(place, "pstate", _whole, "0")
        if pstate >= len(speeds):
            raise self._notes.error(place, f" attribute pstate: expected less than {len(speeds)}, got {pstate}")
        self._notes.note_traces(place)
        self._wiring.coordinates(place)
        properties, zone = self._take_props()[0], self._zones[-1].properties()
        name = place.attributes["id"]
        self._add(Host(name, speeds, self._cores(place), properties, zone, pstate, place.line), place)
        around = self._zones[-1]
        if around.routing == "None":
            self._notes.refuse(place, f": in zone {around.id!r:.80} with routing None, in which no message finds a way")
        if around.routing == "Vivaldi" and "coordinates" not in place.attributes:
            self._notes.refuse(place, " has no attribute coordinates; expected one in a zone with routing Vivaldi")

    def _cores(self, place: Place) -> int:
        n_cores = self._notes.read(place, "core", _whole, "1")
        if n_cores == 0:
            raise self._notes.error(place, " attribute core: expected 1 or more, got 0")
        return n_cores

    def _cluster(self, place: Place) -> None:
        attributes = place.attributes
        topology = attributes.get("topology", "FLAT")
        if topology not in _TOPOLOGIES:
            raise self._notes.error(
                place, f" attribute topology: expected one of {', '.join(_TOPOLOGIES)}, got {topology!r:.80}"
            )
        zone = self._new_zone(place, "", topology)
        zone.cross(self._wiring.made_link(place, "the links of ", "bw", "lat"))
        if topology == "FLAT":
            router = attributes.get("router_id") or f"{attributes['prefix']}{zone.id}_router{attributes['suffix']}"
            self.network.owners.setdefault(router, zone)
            if attributes.get("bb_bw"):
                zone.cross(self._wiring.made_link(place, "the backbone of ", "bb_bw", "bb_lat"))
        properties, own = self._take_props()
        around = self._zones[-1].properties()
        if own and topology == "FLAT":  # SimGrid forgets to give other clusters the properties that their hosts get
            around = MappingProxyType({**around, **own})
            zone.own.update(own)
        like = Host("", self._speeds(place), self._cores(place), properties, around, 0, place.line)
        self._row(place, topology, like, zone)

    def _cabinet(self, place: Place) -> None:
        if self._zones[-1].routing != "Cluster":
            raise self._notes.error(place, ": expected it in a zone with routing Cluster")
        zone = self._zones[-1]
        zone.cross(self._wiring.made_link(place, "the links of ", "bw", "lat"))
        like = Host("", self._one_speed(place), 1, NO_ROLE, zone.properties(), 0, place.line)
        self._row(place, "FLAT", like, zone)

    def _row(self, place: Place, topology: str, like: Host, zone: Zone) -> None:
        """Make the hosts that a radical numbers, all like one."""
        room = MAX_HOSTS - len(self.hosts)
        ranges = self._notes.read(place, "radical", lambda text: values.explode(text, room))
        n_numbers = sum(map(len, ranges))
        n_hosts = self._notes.read(place, "topo_parameters", lambda text: values.n_placed(topology, text, n_numbers))
        if n_hosts < n_numbers:
            n_left = n_numbers - n_hosts
            self._notes.remark(
                "topology", place.line, f"{place.name}: its topology leaves out {n_left} hosts of its radical"
            )
        prefix, suffix = place.attributes["prefix"], place.attributes["suffix"]
        shared = (like.speeds, like.n_cores, like.properties, like.zone_properties, like.pstate, like.line)
        for number in islice(chain.from_iterable(ranges), n_hosts):
            self._add(Host(f"{prefix}{number}{suffix}", *shared), place, zone)

    def _one_speed(self, place: Place) -> tuple[float, ...]:
        speeds = self._speeds(place)
        if len(speeds) != 1:
            raise self._notes.error(
                place, f" attribute speed: expected one speed, got {place.attributes['speed']!r:.80}"
            )
        return speeds

    def _peer(self, place: Place) -> None:
        zone = self._zones[-1]
        if zone.routing != "Vivaldi":
            raise self._notes.error(place, ": expected it in a zone with routing Vivaldi")
        where = f"the links of {place.name}, line {place.line}"
        for key in ("bw_in", "bw_out"):
            zone.cross(Link(cost(0.0, self._notes.read(place, key, values.bandwidth)), where, place.line))
        self._notes.note_traces(place)
        self._wiring.coordinates(place)
        speeds = self._one_speed(place)
        self._add(Host(place.attributes["id"], speeds, 1, NO_ROLE, zone.properties(), 0, place.line), place)

    def _include(self, place: Place) -> None:
        raise self._notes.error(place, ": expected no other files (nor does SimGrid take them since 3.18)")


@functools.lru_cache(maxsize=1024)
def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError("a whole number")
    return int(float(text))
