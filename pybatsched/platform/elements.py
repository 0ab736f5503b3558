"""What the elements of a platform file mean: hosts, their properties and the network between them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from pybatsched.errors import InputError
from pybatsched.platform import radical, units
from pybatsched.platform.model import MAX_HOSTS, NO_PROPERTIES, NO_ROLE, Host
from pybatsched.platform.network import Network
from pybatsched.platform.schema import REMARKS

T = TypeVar("T")

_VERSION = re.compile(r"4(\.[01]?0*)?")
_WHOLE = re.compile(r"[0-9]{1,9}(\.0*)?")
_TOPOLOGIES = ("FLAT", "TORUS", "FAT_TREE", "DRAGONFLY")
_ROUTINGS = ("Cluster", "Dijkstra", "DijkstraCache", "Floyd", "Full", "None", "Vivaldi", "Wifi")
_BY_LOWER_CASE = {routing.lower(): routing for routing in _ROUTINGS}
_TRACE_FILES = frozenset(("speed_file", "availability_file", "state_file", "bandwidth_file", "latency_file"))
# SimGrid knows zones of zones and zones of hosts, and none of both.
_OF_ZONES = frozenset(("zone", "AS", "cluster", "peer", "zoneRoute", "ASroute", "bypassZoneRoute", "bypassASroute"))
_OF_HOSTS = frozenset(("host", "cabinet", "router", "host_link", "route", "bypassRoute"))


class Place(NamedTuple):
    """An element of the file and where it begins; a tuple, because there may be a million of them."""

    tag: str
    attributes: dict[str, str]
    line: int

    @property
    def name(self) -> str:
        """The element as errors show it."""
        given = self.attributes.get("id")
        if given is None:
            return f"<{self.tag}>"
        return f"<{self.tag} id={given if given.isprintable() else ascii(given):.80}>"


@dataclass(slots=True)
class _Zone:
    """A zone that is open: its own properties, then, once they are all known, those that hold in it."""

    routing: str
    outer: Mapping[str, str]
    own: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    _all: Mapping[str, str] | None = None

    @property
    def is_settled(self) -> bool:
        return self._all is not None

    def properties(self) -> Mapping[str, str]:
        if self._all is None:
            self._all = MappingProxyType({**self.outer, **self.own}) if self.own else self.outer
        return self._all


class Content:
    """What has been read so far. The parser calls `begin` and `end` for each element, in the file's order."""

    def __init__(self, source: str) -> None:
        self.hosts: list[Host] = []
        self.network = Network()
        self._source = source
        self._remarks: dict[str, tuple[int, str]] = {}
        self._lines: dict[str, int] = {}
        self._zones = [_Zone("", NO_PROPERTIES)]
        self._props: dict[str, str] = {}
        self._route: list[str] = []
        self._begin: dict[str, Callable[[Place], None]] = {
            "platform": self._platform,
            "zone": self._begin_zone,
            "AS": self._begin_zone,
            "cabinet": self._cabinet,
            "peer": self._peer,
            "link": self._link,
            "backbone": self._backbone,
            "host_link": self._host_link,
            "router": self._router,
            "link_ctn": lambda place: self._route.append(place.attributes["id"]),
            "include": self._include,
        }
        self._end: dict[str, Callable[[Place], None]] = {
            "zone": self._end_zone,
            "AS": self._end_zone,
            "host": self._host,
            "cluster": self._cluster,
            "route": self._end_route,
            "bypassRoute": self._end_other_route,
            "zoneRoute": self._end_other_route,
            "ASroute": self._end_other_route,
            "bypassZoneRoute": self._end_other_route,
            "bypassASroute": self._end_other_route,
        }

    def remark(self, kind: str, line: int, text: str) -> None:
        """Keep something to tell the user, once for each kind of it."""
        self._remarks.setdefault(kind, (line, text))

    def remarks(self) -> Iterator[str]:
        """Give all remarks in the order of the file."""
        return (f"{self._source}, line {line}: {text}" for line, text in sorted(self._remarks.values()))

    def begin(self, place: Place, outer: Place | None) -> None:
        """Take an element whose attributes are those it may have."""
        tag = place.tag
        if tag == "prop":
            self._prop(place, outer)
            return
        if outer is not None and outer.tag in {"zone", "AS"}:
            self._settle(place)
        handler = self._begin.get(tag)
        if handler is not None:
            handler(place)
        elif tag in REMARKS:
            self.remark(tag, place.line, f"<{tag}>: {REMARKS[tag]}")

    def end(self, place: Place) -> None:
        """Take the end of an element."""
        handler = self._end.get(place.tag)
        if handler is not None:
            handler(place)

    # --- errors and attributes ---

    def _error(self, place: Place, text: str) -> InputError:
        return InputError(f"{self._source}, line {place.line}: {place.name}{text}")

    def _read(self, place: Place, key: str, read: Callable[[str], T], default: str = "") -> T:
        """Read an attribute; errors of `read` say what was expected."""
        text = place.attributes.get(key, default)
        try:
            return read(text)
        except ValueError as error:
            got = "" if ", got " in str(error) else f", got {text!r:.80}"
            raise self._error(place, f" attribute {key}: expected {error}{got}") from None

    def _speeds(self, place: Place) -> tuple[float, ...]:
        if not units.is_simgrids(place.attributes["speed"]):
            self.remark("speed", place.line, f"{place.name}: SimGrid does not understand such a speed")
        return self._read(place, "speed", units.speeds)

    def _hop(self, place: Place, bandwidth: str, latency: str) -> tuple[float, float]:
        return self._read(place, latency, units.latency, "0"), self._read(place, bandwidth, units.bandwidth)

    def _note_traces(self, place: Place) -> None:
        if not _TRACE_FILES.isdisjoint(place.attributes):
            self.remark("trace", place.line, f"{place.name}: traces are not followed")

    # --- zones and properties ---

    def _platform(self, place: Place) -> None:
        if not _VERSION.fullmatch(place.attributes["version"]):
            raise self._error(place, f" attribute version: expected 4 or 4.1, got {place.attributes['version']!r:.80}")

    def _settle(self, place: Place) -> None:
        """Let no more properties come to the zone once something else is in it, and keep its kind."""
        zone = self._zones[-1]
        zone.properties()
        kind = "zones" if place.tag in _OF_ZONES else "hosts" if place.tag in _OF_HOSTS else ""
        if kind and zone.kind not in {"", kind}:
            raise self._error(place, f" in a zone of {zone.kind}; expected a zone of {kind} or a <zone> of its own")
        zone.kind = zone.kind or kind

    def _begin_zone(self, place: Place) -> None:
        given = place.attributes["routing"]
        routing = _BY_LOWER_CASE.get(given.lower())
        if routing is None:
            raise self._error(place, f" attribute routing: expected one of {', '.join(_ROUTINGS)}, got {given!r:.80}")
        self._zones.append(_Zone(routing, self._zones[-1].properties()))

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
                raise self._error(place, ": expected all properties of a zone before its other content")
            self._zones[-1].own.setdefault(key, value)

    def _take_props(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Give the properties of the host or cluster that ends: with a role in any case, and as they are."""
        if not self._props:
            return NO_ROLE, NO_PROPERTIES
        own, self._props = self._props, {}
        return MappingProxyType({"role": "", **own}), own

    # --- hosts ---

    def _add(self, host: Host, place: Place) -> None:
        before = self._lines.setdefault(host.name, host.line)
        if len(self._lines) == len(self.hosts):  # no new name
            raise self._error(place, f": host {host.name!r:.80} exists already (line {before}); expected another name")
        if len(self.hosts) >= MAX_HOSTS:
            raise self._error(place, f": too many hosts; expected {MAX_HOSTS} at most")
        self.hosts.append(host)

    def _host(self, place: Place) -> None:
        speeds = self._speeds(place)
        pstate = self._read(place, "pstate", _whole, "0")
        if pstate >= len(speeds):
            raise self._error(place, f" attribute pstate: expected less than {len(speeds)}, got {pstate}")
        self._note_traces(place)
        self._coordinates(place)
        properties, zone = self._take_props()[0], self._zones[-1].properties()
        name = place.attributes["id"]
        self._add(Host(name, speeds, self._cores(place), properties, zone, pstate, place.line), place)

    def _cores(self, place: Place) -> int:
        n_cores = self._read(place, "core", _whole, "1")
        if n_cores == 0:
            raise self._error(place, " attribute core: expected 1 or more, got 0")
        return n_cores

    def _cluster(self, place: Place) -> None:
        attributes = place.attributes
        topology = attributes.get("topology", "FLAT")
        if topology not in _TOPOLOGIES:
            raise self._error(
                place, f" attribute topology: expected one of {', '.join(_TOPOLOGIES)}, got {topology!r:.80}"
            )
        latency, bandwidth = self._hop(place, "bw", "lat")
        self.network.charge(f"the links of {place.name}, line {place.line}", latency, bandwidth)
        if attributes.get("bb_bw") and topology == "FLAT":
            latency, bandwidth = self._hop(place, "bb_bw", "bb_lat")
            self.network.charge(f"the backbone of {place.name}, line {place.line}", latency, bandwidth)
        properties, own = self._take_props()
        zone = self._zones[-1].properties()
        if own and topology == "FLAT":  # SimGrid forgets to give other clusters the properties that their hosts get
            zone = MappingProxyType({**zone, **own})
        self._row(place, topology, Host("", self._speeds(place), self._cores(place), properties, zone, 0, place.line))

    def _cabinet(self, place: Place) -> None:
        if self._zones[-1].routing != "Cluster":
            raise self._error(place, ": expected it in a zone with routing Cluster")
        latency, bandwidth = self._hop(place, "bw", "lat")
        self.network.charge(f"the links of {place.name}, line {place.line}", latency, bandwidth)
        zone = self._zones[-1].properties()
        self._row(place, "FLAT", Host("", self._one_speed(place), 1, NO_ROLE, zone, 0, place.line))

    def _row(self, place: Place, topology: str, like: Host) -> None:
        """Make the hosts that a radical numbers, all like one."""
        room = MAX_HOSTS - len(self.hosts)
        ranges = self._read(place, "radical", lambda text: radical.explode(text, room))
        n_numbers = sum(map(len, ranges))
        n_hosts = self._read(place, "topo_parameters", lambda text: radical.n_placed(topology, text, n_numbers))
        if n_hosts < n_numbers:
            n_left = n_numbers - n_hosts
            self.remark("topology", place.line, f"{place.name}: its topology leaves out {n_left} hosts of its radical")
        prefix, suffix = place.attributes["prefix"], place.attributes["suffix"]
        shared = (like.speeds, like.n_cores, like.properties, like.zone_properties, like.pstate, like.line)
        for number in islice(chain.from_iterable(ranges), n_hosts):
            self._add(Host(f"{prefix}{number}{suffix}", *shared), place)

    def _one_speed(self, place: Place) -> tuple[float, ...]:
        speeds = self._speeds(place)
        if len(speeds) != 1:
            raise self._error(place, f" attribute speed: expected one speed, got {place.attributes['speed']!r:.80}")
        return speeds

    def _peer(self, place: Place) -> None:
        zone = self._zones[-1]
        if zone.routing != "Vivaldi":
            raise self._error(place, ": expected it in a zone with routing Vivaldi")
        where = f"the links of {place.name}, line {place.line}"
        for key in ("bw_in", "bw_out"):
            self.network.charge(where, 0.0, self._read(place, key, units.bandwidth))
        self._note_traces(place)
        self._coordinates(place)
        speeds = self._one_speed(place)
        self._add(Host(place.attributes["id"], speeds, 1, NO_ROLE, zone.properties(), 0, place.line), place)

    # --- the network ---

    def _coordinates(self, place: Place) -> None:
        """In Vivaldi zones, latencies are distances in ms between points with a height."""
        text = place.attributes.get("coordinates", "")
        if text and self._zones[-1].routing == "Vivaldi":
            x, y, height = self._read(place, "coordinates", _point)
            self.network.charge(
                f"the way to {place.name}, line {place.line}", (abs(x) + abs(y) + abs(height)) / 1000, float("inf")
            )

    def _router(self, place: Place) -> None:
        self._coordinates(place)

    def _link(self, place: Place) -> None:
        self._note_traces(place)
        latency, bandwidth = self._hop(place, "bandwidth", "latency")
        self.network.link(place.attributes["id"], f"{place.name}, line {place.line}", latency, bandwidth)

    def _backbone(self, place: Place) -> None:
        self.network.charge(f"{place.name}, line {place.line}", *self._hop(place, "bandwidth", "latency"))

    def _host_link(self, place: Place) -> None:
        self.network.cross((place.attributes["up"], place.attributes["down"]))

    def _end_route(self, place: Place) -> None:
        links, self._route = self._route, []
        if self._zones[-1].routing == "Full":
            self.network.direct(place.attributes["src"], place.attributes["dst"], links)
        else:
            self.network.cross(links)

    def _end_other_route(self, place: Place) -> None:
        links, self._route = self._route, []
        self.network.cross(links)
        for key in ("gw_src", "gw_dst"):
            if key in place.attributes:
                self.network.gateway(place.attributes[key])

    def _include(self, place: Place) -> None:
        raise self._error(place, ": expected no other files (nor does SimGrid take them since 3.18)")


@functools.lru_cache(maxsize=1024)
def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError("a whole number")
    return int(float(text))


def _point(text: str) -> tuple[float, float, float]:
    try:
        x, y, height = (float(word) for word in text.split(" "))
    except ValueError:
        x = y = height = float("nan")
    if not abs(x) + abs(y) + abs(height) < float("inf"):
        raise ValueError("three numbers with a blank between them")
    return x, y, height
