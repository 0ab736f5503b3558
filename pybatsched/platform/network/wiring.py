"""Read the network elements of a platform file: links, routes, routers, and coordinates in Vivaldi zones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pybatsched.platform import values
from pybatsched.platform.network.zones import Link, Network, Route, Zone
from pybatsched.platform.notes import Element, PlatformNotes

_HALF = re.compile(r"_(UP|DOWN)$")
_OF_CLUSTER = re.compile(r"_(link|backbone|limiter|loopback)\b|_link_")  # links that clusters create


class Wiring:
    """Processes the network elements. `zones` are the open zones, the innermost last."""

    def __init__(self, notes: PlatformNotes, network: Network, zones: Sequence[Zone]) -> None:
        self._notes = notes
        self._refuse = notes.refuse
        self._network = network
        self._zones = zones
        self._link_names: set[str] = set()  # as routes may use them
        self._route: list[str] = []
        self._directed: list[bool] = []
        self.begin: dict[str, Callable[[Element], None]] = {
            "link": self._link,
            "backbone": self._backbone,
            "host_link": self._host_link,
            "router": self._router,
            "link_ctn": self._link_ctn,
        }
        self.end: dict[str, Callable[[Element], None]] = {
            "route": self._end_route,
            "bypassRoute": self._end_route,
            "zoneRoute": self._end_zone_route,
            "ASroute": self._end_zone_route,
            "bypassZoneRoute": self._end_zone_route,
            "bypassASroute": self._end_zone_route,
        }

    def made_link(self, element: Element, what: str, bandwidth: str, latency: str) -> Link:
        """Return the link of an element; `bandwidth` and `latency` are the names of its attributes."""
        latency_s = self._notes.read(element, latency, values.latency, "0")
        rate = self._notes.read(element, bandwidth, values.bandwidth)
        where = f"{what}{element.name}, line {element.line}"
        policy = element.attributes.get("sharing_policy", "SHARED") if element.tag == "link" else "SHARED"
        return Link(cost(latency_s, rate), where, element.line, rate, latency_s, policy)

    def coordinates(self, element: Element) -> None:
        """Read the coordinates of a point. In Vivaldi zones, latencies are distances in ms between points."""
        text = element.attributes.get("coordinates", "")
        zone = self._zones[-1]
        if text and zone.routing == "Vivaldi":
            x, y, height = self._notes.read(element, "coordinates", _point)
            cost_s = (abs(x) + abs(y) + abs(height)) / 1000
            where = f"the path to {element.name}, line {element.line}"
            zone.links_of[element.attributes["id"]] = Link(cost_s, where, element.line)
            zone.coordinates[element.attributes["id"]] = (x, y, height)

    def _router(self, element: Element) -> None:
        self.coordinates(element)
        name, zone = element.attributes["id"], self._zones[-1]
        if name in self._network.owners:
            self._refuse(element, f": host or router {name!r:.80} already exists; expected another id")
        self._network.owners.setdefault(name, zone)
        zone.members.append(name)

    def _link(self, element: Element) -> None:
        self._notes.note_traces(element)
        name, links = element.attributes["id"], self._network.links
        if name in links:
            self._refuse(element, f": link {name!r:.80} already exists (line {links[name].line}); expected another id")
        links[name] = self.made_link(element, "", "bandwidth", "latency")
        if "latency" not in element.attributes:
            self._refuse(element, " has no attribute latency; expected one")
        policy = element.attributes.get("sharing_policy", "SHARED")
        if policy == "WIFI" and self._zones[-1].routing == "Wifi":
            self._refuse(element, ": Wifi links cannot be used with parallel tasks; expected another zone and policy")
        elif re.search("[;,]", element.attributes["bandwidth"]):
            self._refuse(element, " attribute bandwidth: expected one bandwidth")
        self._link_names |= {f"{name}_UP", f"{name}_DOWN"} if policy in {"SPLITDUPLEX", "FULLDUPLEX"} else {name}

    def _link_ctn(self, element: Element) -> None:
        direction = element.attributes.get("direction", "NONE")
        self._route.append(element.attributes["id"] + ("" if direction == "NONE" else f"_{direction}"))
        self._directed.append(direction != "NONE")

    def _backbone(self, element: Element) -> None:
        self._zones[-1].backbone = link = self.made_link(element, "", "bandwidth", "latency")
        self._zones[-1].cross(link)

    def _host_link(self, element: Element) -> None:
        attributes = element.attributes
        self._zones[-1].links_of[attributes["id"]] = (attributes["up"], attributes["down"])
        self._check_links(element, (attributes["up"], attributes["down"]))

    def _end_route(self, element: Element) -> None:
        """Process a route between points, which are also the gateways."""
        attributes = element.attributes
        for key in ("src", "dst"):
            if attributes[key] not in self._network.owners:
                self._refuse(element, f" attribute {key}: no host or router {attributes[key]!r:.80} is defined above")
        self._take_route(element, attributes["src"], attributes["dst"])

    def _end_zone_route(self, element: Element) -> None:
        attributes = element.attributes
        for key in ("src", "dst"):
            if attributes[key] not in self._network.zone_ids:
                self._refuse(element, f" attribute {key}: no zone {attributes[key]!r:.80} is defined above")
        for key in ("gw_src", "gw_dst"):
            if attributes[key] not in self._network.owners:
                self._refuse(element, f" attribute {key}: no host or router {attributes[key]!r:.80} is defined above")
        self._take_route(element, attributes["gw_src"], attributes["gw_dst"])

    def _take_route(self, element: Element, gw_src: str, gw_dst: str) -> None:
        links, self._route = tuple(self._route), []
        directed, self._directed = tuple(self._directed), []
        src, dst = element.attributes["src"], element.attributes["dst"]
        is_bypass = element.tag.startswith("bypass")
        both = not is_bypass and element.attributes.get("symmetrical", "YES").upper() in {"YES", "TRUE", "1"}
        name = f"<{element.tag}> from {src!r:.80} to {dst!r:.80}"
        if not links:
            self._refuse(
                element, f": the route from {src!r:.80} to {dst!r:.80} has no <link_ctn>; expected one or more"
            )
        self._check_links(element, links)
        zone = self._zones[-1]
        if src == dst and both and zone.routing in {"Floyd", "Dijkstra", "DijkstraCache"}:
            self._refuse(element, f': a route from {src!r:.80} to itself; expected symmetrical="NO"')
        joined = zone.bypassed if is_bypass else zone.joined
        if (src, dst) in joined:
            self._refuse(
                element, f": a route from {src!r:.80} to {dst!r:.80} already exists (symmetrical ones count twice)"
            )
        joined |= {(src, dst), (dst, src)} if both else {(src, dst)}
        zone.routes.append(Route(src, dst, gw_src, gw_dst, links, both, name, element.line, directed))

    def _check_links(self, element: Element, names: Iterable[str]) -> None:
        for name in dict.fromkeys(names):
            if name in self._link_names or _OF_CLUSTER.search(name):
                continue
            split = name in self._network.links or _HALF.sub("", name) in self._network.links
            hint = "; only the names of split links end with _UP or _DOWN" if split else ""
            self._refuse(element, f": no link {name!r:.80} is defined above{hint}")


def _point(text: str) -> tuple[float, float, float]:
    try:
        x, y, height = (float(word) for word in text.split(" "))
    except ValueError:
        x = y = height = float("nan")
    if not abs(x) + abs(y) + abs(height) < float("inf"):
        raise ValueError("three numbers separated by blanks")
    return x, y, height


def cost(latency_s: float, bandwidth: float) -> float:
    """Return the time of one byte on a link, in seconds."""
    return latency_s + (1.0 / bandwidth if bandwidth > 0 else float("inf"))
