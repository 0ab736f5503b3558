"""What a platform file says of its network: links, routes, routers, and where points of Vivaldi zones are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pybatsched.platform import values
from pybatsched.platform.notes import Notes, Place
from pybatsched.platform.zones import Link, Network, Route, Zone

_HALF = re.compile(r"_(UP|DOWN)$")
_OF_CLUSTER = re.compile(r"_(link|backbone|limiter|loopback)\b|_link_")  # those that clusters make themselves


class Wiring:
    """Takes the elements that wire a network. `zones` are those open at the moment, the innermost last."""

    def __init__(self, notes: Notes, network: Network, zones: Sequence[Zone]) -> None:
        self._notes = notes
        self._refuse = notes.refuse
        self._network = network
        self._zones = zones
        self._link_names: set[str] = set()  # as routes may use them
        self._route: list[str] = []
        self.begin: dict[str, Callable[[Place], None]] = {
            "link": self._link,
            "backbone": self._backbone,
            "host_link": self._host_link,
            "router": self._router,
            "link_ctn": self._link_ctn,
        }
        self.end: dict[str, Callable[[Place], None]] = {
            "route": self._end_route,
            "bypassRoute": self._end_route,
            "zoneRoute": self._end_zone_route,
            "ASroute": self._end_zone_route,
            "bypassZoneRoute": self._end_zone_route,
            "bypassASroute": self._end_zone_route,
        }

    def made_link(self, place: Place, what: str, bandwidth: str, latency: str) -> Link:
        """Make a link of an element; `bandwidth` and `latency` are the names of its attributes."""
        cost_s = cost(
            self._notes.read(place, latency, values.latency, "0"), self._notes.read(place, bandwidth, values.bandwidth)
        )
        return Link(cost_s, f"{what}{place.name}, line {place.line}", place.line)

    def coordinates(self, place: Place) -> None:
        """In Vivaldi zones, latencies are distances in ms between points with a height."""
        text = place.attributes.get("coordinates", "")
        zone = self._zones[-1]
        if text and zone.routing == "Vivaldi":
            x, y, height = self._notes.read(place, "coordinates", _point)
            cost_s = (abs(x) + abs(y) + abs(height)) / 1000
            where = f"the way to {place.name}, line {place.line}"
            zone.links_of[place.attributes["id"]] = Link(cost_s, where, place.line)

    def _router(self, place: Place) -> None:
        self.coordinates(place)
        name, zone = place.attributes["id"], self._zones[-1]
        if name in self._network.owners:
            self._refuse(place, f": there is a host or router {name!r:.80} already; expected another id")
        self._network.owners.setdefault(name, zone)

    def _link(self, place: Place) -> None:
        self._notes.note_traces(place)
        name, links = place.attributes["id"], self._network.links
        if name in links:
            self._refuse(place, f": there is a link {name!r:.80} already (line {links[name].line})")
        links[name] = self.made_link(place, "", "bandwidth", "latency")
        if "latency" not in place.attributes:
            self._refuse(place, " has no attribute latency; expected one")
        policy = place.attributes.get("sharing_policy", "SHARED")
        if policy != "WIFI" and re.search("[;,]", place.attributes["bandwidth"]):
            self._refuse(place, " attribute bandwidth: expected one bandwidth")
        self._link_names |= {f"{name}_UP", f"{name}_DOWN"} if policy in {"SPLITDUPLEX", "FULLDUPLEX"} else {name}

    def _link_ctn(self, place: Place) -> None:
        direction = place.attributes.get("direction", "NONE")
        self._route.append(place.attributes["id"] + ("" if direction == "NONE" else f"_{direction}"))

    def _backbone(self, place: Place) -> None:
        self._zones[-1].cross(self.made_link(place, "", "bandwidth", "latency"))

    def _host_link(self, place: Place) -> None:
        attributes = place.attributes
        self._zones[-1].links_of[attributes["id"]] = (attributes["up"], attributes["down"])
        self._check_links(place, (attributes["up"], attributes["down"]))

    def _end_route(self, place: Place) -> None:
        """Take a route between points: they are their own gateways."""
        attributes = place.attributes
        for key in ("src", "dst"):
            if attributes[key] not in self._network.owners:
                self._refuse(place, f" attribute {key}: there is no host or router {attributes[key]!r:.80} above it")
        self._take_route(place, attributes["src"], attributes["dst"])

    def _end_zone_route(self, place: Place) -> None:
        attributes = place.attributes
        for key in ("src", "dst"):
            if attributes[key] not in self._network.zone_ids:
                self._refuse(place, f" attribute {key}: there is no zone {attributes[key]!r:.80} above it")
        for key in ("gw_src", "gw_dst"):
            if attributes[key] not in self._network.owners:
                self._refuse(place, f" attribute {key}: there is no host or router {attributes[key]!r:.80} above it")
        self._take_route(place, attributes["gw_src"], attributes["gw_dst"])

    def _take_route(self, place: Place, gw_src: str, gw_dst: str) -> None:
        links, self._route = tuple(self._route), []
        src, dst = place.attributes["src"], place.attributes["dst"]
        both = place.attributes.get("symmetrical", "YES").upper() in {"YES", "TRUE", "1"}
        name = f"<{place.tag}> from {src!r:.80} to {dst!r:.80}"
        if not links:
            self._refuse(place, f": the route from {src!r:.80} to {dst!r:.80} has no <link_ctn>; expected one or more")
        self._check_links(place, links)
        zone = self._zones[-1]
        if (src, dst) in zone.joined and not place.tag.startswith("bypass"):
            self._refuse(place, f": there is a route from {src!r:.80} to {dst!r:.80} already (they lead back as well)")
        zone.joined |= {(src, dst), (dst, src)} if both else {(src, dst)}
        zone.routes.append(Route(src, dst, gw_src, gw_dst, links, both, name, place.line))

    def _check_links(self, place: Place, names: Iterable[str]) -> None:
        for name in dict.fromkeys(names):
            if name in self._link_names or _OF_CLUSTER.search(name):
                continue
            split = name in self._network.links or _HALF.sub("", name) in self._network.links
            hint = "; a link that is split has names with _UP and _DOWN, others have not" if split else ""
            self._refuse(place, f": there is no link {name!r:.80} above it{hint}")


def _point(text: str) -> tuple[float, float, float]:
    try:
        x, y, height = (float(word) for word in text.split(" "))
    except ValueError:
        x = y = height = float("nan")
    if not abs(x) + abs(y) + abs(height) < float("inf"):
        raise ValueError("three numbers with a blank between them")
    return x, y, height


def cost(latency_s: float, bandwidth: float) -> float:
    """Give what one byte takes."""
    return latency_s + (1.0 / bandwidth if bandwidth > 0 else float("inf"))
