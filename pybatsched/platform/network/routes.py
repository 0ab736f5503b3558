"""The links between two hosts, as SimGrid finds them: for jobs that communicate.

A route is found when it is first used, and kept. Loading a platform costs nothing more, also with many hosts: the links
of clusters are created with the first route that uses them. `pybatsched.platform.network.routing` only checks the
paths to the master.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain, pairwise, permutations
from typing import Final, NamedTuple

from pybatsched.errors import quantity
from pybatsched.platform.network.routing import NoPathError, split_trails
from pybatsched.platform.network.topologies import Dragonfly, FatTree, Topology, Torus
from pybatsched.platform.network.zones import ClusterLinks, Link, Network, Route, Zone

#: The link from a host to itself, where the platform has none: bandwidth in byte/s. It is free for any number of users.
LOOPBACK_BANDWIDTH: Final = 10e9
_SEARCHED: Final = frozenset({"Floyd", "Dijkstra", "DijkstraCache"})


class NetworkLink:
    """A link or half of a split link; all its routes share it. A fat pipe gives each transfer its whole bandwidth."""

    __slots__ = ("bandwidth", "is_fatpipe", "latency_s", "name")

    def __init__(self, name: str, bandwidth: float, latency_s: float = 0.0, *, is_fatpipe: bool = False) -> None:
        self.name = name
        self.bandwidth = bandwidth
        self.latency_s = latency_s
        self.is_fatpipe = is_fatpipe

    def __repr__(self) -> str:
        return f"NetworkLink({self.name!r})"


class _UnusableLink(NetworkLink):
    """A link that cannot be simulated. A path that needs it is an error."""

    __slots__ = ("fault", "line")

    def __init__(self, name: str, fault: str, line: int) -> None:
        super().__init__(name, 0.0)
        self.fault = fault
        self.line = line


class _LinkError(NoPathError):
    """A link that cannot be simulated, whatever path it is on."""


class Path(NamedTuple):
    """The links from a host to another (a link may occur twice), and their latency in seconds."""

    links: tuple[NetworkLink, ...]
    latency_s: float


class _Way:
    """A path under construction. The latency is summed in the order in which SimGrid sums it."""

    __slots__ = ("latency_s", "links")

    def __init__(self) -> None:
        self.links: list[NetworkLink] = []
        self.latency_s = 0.0

    def add(self, links: Iterable[NetworkLink]) -> None:
        for link in links:
            if isinstance(link, _UnusableLink):
                raise _LinkError(link.fault, link.line)
            self.links.append(link)
            self.latency_s += link.latency_s


class _Leg(NamedTuple):
    """One direction of a route of the file."""

    links: tuple[NetworkLink, ...]
    gw_src: str
    gw_dst: str


def unusable_link(network: Network, hosts: Collection[str]) -> str:
    """Return which link on routes between these hosts cannot be simulated, and why; empty if none. O(hosts + routes).

    It finds the links of clusters, and of routes between hosts, gateways, and zones with hosts. Links between other
    routers may be unused: an error names them when a path needs them.
    """
    inside = _inside(network, hosts)
    for zone in network.zones:  # outer zones come first
        used = inside.get(id(zone), set())
        routes = [route for route in zone.routes if route.src in used and route.dst in used]
        if zone.routing == "Wifi" and used:
            return f"line {zone.line}: zone {zone.id!r:.80} has routing Wifi; expected one that Batsim can use"
        if zone.kind == "zones":
            gateways = dict.fromkeys(name for route in routes for name in (route.gw_src, route.gw_dst))
            for id_, members in _inside(network, [name for name in gateways if name in network.owners]).items():
                inside.setdefault(id_, set()).update(members)
        given = [names for point, names in zone.links_of.items() if point in used and isinstance(names, tuple)]
        for name in dict.fromkeys(chain.from_iterable((*(route.links for route in routes), *given))):
            link = network.find_link(name)
            if link is not None and (fault := _fault_of(link, name)):
                return fault
        if zone.cluster is None or used.isdisjoint(zone.members):
            continue
        if zone.cluster.bandwidth <= 0:
            return f"line {zone.line}: the links of cluster {zone.id!r:.80} have no bandwidth; expected more than 0 Bps"
        if zone.cluster.backbone is not None and zone.cluster.backbone.bandwidth <= 0:
            return f"line {zone.line}: the backbone of cluster {zone.id!r:.80} has no bandwidth; expected bb_bw above 0"
    return ""


def _inside(network: Network, points: Iterable[str]) -> dict[int, set[str]]:
    """Return the members of each zone, by its `id`, that are or contain one of these points. O(points)."""
    inside: dict[int, set[str]] = {}
    for point in points:
        trail = network.owners[point].trail()
        for zone, member in zip(trail, (*(inner.id for inner in trail[1:]), point), strict=True):
            inside.setdefault(id(zone), set()).add(member)
    return inside


def _fault_of(link: Link, name: str) -> str:
    """Return why a link cannot be simulated; empty if it can."""
    where = f"line {link.line}: link {name!r:.80}"
    if link.bandwidth <= 0:
        return f"{where} has no bandwidth; expected more than 0 Bps"
    if link.policy == "WIFI":
        return f"{where} is a Wifi link, which is not simulated; run it with Batsim"
    return ""


def missing_routes(network: Network, hosts: Collection[str]) -> str:
    """Return between which of these hosts, or zones with them, routes are missing; empty if none are.

    In a Full zone of hosts, SimGrid takes a missing route for free. Elsewhere, jobs that need it fail. O(hosts +
    routes), and in a Full zone O(members²) if a route is missing.
    """
    inside = _inside(network, hosts)
    for zone in network.zones:
        members = [name for name in zone.members if name in inside.get(id(zone), ())]
        if zone.cluster is not None or len(members) < 2:
            continue
        joined = zone.joined | zone.bypassed
        where = f"zone {zone.id!r:.80} (line {zone.line})"
        fails = "as in Batsim, a run fails when a job or a message needs it"
        expected = f"expected a <{'zoneRoute' if zone.kind == 'zones' else 'route'}>"
        if zone.routing == "Full":
            known = set(members)
            n_joined = sum(src != dst and src in known and dst in known for src, dst in joined)
            n_missing = len(members) * (len(members) - 1) - n_joined
            if n_missing > 0:
                src, dst = next(pair for pair in permutations(members, 2) if pair not in joined)
                effect = fails if zone.kind == "zones" else "as in Batsim, transfers between these hosts take no time"
                n_routes = quantity(n_missing, "route")
                return f"{where}: {n_routes} missing, such as {src!r:.80} to {dst!r:.80}: {effect}; {expected}"
        elif zone.routing in _SEARCHED:
            for src, dst in _unreachable(members, joined):
                return f"{where} has no route from {src!r:.80} to {dst!r:.80}: {fails}; {expected}"
    return ""


def _unreachable(members: list[str], joined: Collection[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield pairs of members without a path from one to the other. Only pairs with the first member are checked."""
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for src, dst in joined:
        after.setdefault(src, []).append(dst)
        before.setdefault(dst, []).append(src)
    first = members[0]
    for neighbours in (after, before):
        reached = {first}
        waiting = [first]
        while waiting:
            for name in neighbours.get(waiting.pop(), ()):
                if name not in reached:
                    reached.add(name)
                    waiting.append(name)
        for name in members:
            if name not in reached:
                yield (first, name) if neighbours is after else (name, first)


class Routes:
    """All routes of a platform. O(length of the route) for the first use of a pair, then O(1).

    In a Floyd zone, the first route costs O(members³), as in SimGrid; in a Dijkstra zone, the first route from a member
    costs O(routes log routes).
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._zones = {zone.id: zone for zone in network.zones}
        self._paths: dict[tuple[str, str], Path] = {}
        self._links: dict[str, NetworkLink] = {}
        self._legs: dict[int, dict[tuple[str, str], _Leg]] = {}
        self._bypasses: dict[int, dict[tuple[str, str], _Leg]] = {}
        self._searches: dict[int, _Floyd | _Dijkstra] = {}
        self._ranks: dict[int, dict[str, int]] = {}
        self._topologies: dict[int, Topology[NetworkLink]] = {}
        self._loopback = NetworkLink("__loopback__", LOOPBACK_BANDWIDTH, is_fatpipe=True)

    def between(self, src: str, dst: str) -> Path:
        """Return the path from a host to a host, also to itself. Raises NoPathError that names both."""
        path = self._paths.get((src, dst))
        if path is None:
            way = _Way()
            try:
                self._extend(way, src, dst)
            except _LinkError:
                raise
            except NoPathError as error:
                raise NoPathError(f"no route from {src!r:.80} to {dst!r:.80}: {error}", error.line) from None
            path = self._paths[src, dst] = Path(tuple(way.links), way.latency_s)
        return path

    def _extend(self, way: _Way, src: str, dst: str) -> None:
        """Add the path between two points of any zones."""
        owners = self._network.owners
        for name in (src, dst):
            if name not in owners:
                raise NoPathError(f"host or router {name!r:.80} does not exist", 0)
        if owners[src] is owners[dst]:
            self._extend_inside(way, owners[src], src, dst)
            return
        zone, from_trail, to_trail = split_trails(owners[src], owners[dst])
        bypass = self._bypass_between(zone, from_trail, to_trail)
        if bypass is not None:
            self._extend(way, src, bypass.gw_src)  # as in SimGrid, also from a gateway to itself
            way.add(bypass.links)
            self._extend(way, bypass.gw_dst, dst)
            return
        middle = _Way()
        middle.latency_s = way.latency_s  # SimGrid adds the latency between the zones first
        leg = self._between_zones(middle, zone, from_trail[0].id, to_trail[0].id)
        way.latency_s = middle.latency_s
        if src != leg.gw_src:
            self._extend(way, src, leg.gw_src)
        way.links += middle.links
        if dst != leg.gw_dst:
            self._extend(way, leg.gw_dst, dst)

    # --- routes of the file ---

    def _bypass_between(self, zone: Zone, src: list[Zone], dst: list[Zone]) -> _Leg | None:
        """Return a zone's bypass route between its inner zones `src` and `dst`, the innermost pair first, or None."""
        self._legs_of(zone)
        bypasses = self._bypasses[id(zone)]
        if not bypasses:
            return None
        ups, downs = src[::-1], dst[::-1]
        for highest in range(max(len(ups), len(downs))):
            pairs = [pair for i in range(highest) for pair in ((i, highest), (highest, i))]
            for up, down in (*pairs, (highest, highest)):
                if up < len(ups) and down < len(downs):
                    found = bypasses.get((ups[up].id, downs[down].id))
                    if found is not None:
                        return found
        return None

    def _between_zones(self, way: _Way, zone: Zone, src: str, dst: str) -> _Leg:
        """Add the links between two zones in a zone; return the gateways."""
        if zone.routing == "Full":
            leg = self._legs_of(zone).get((src, dst))
            if leg is None:
                raise _missing(zone, src, dst)
            way.add(leg.links)
            return leg
        if zone.routing not in _SEARCHED:
            raise NoPathError(f"routes between zones in {_named(zone)} are not simulated", zone.line)
        legs = self._found(zone, src, dst)
        before = ""
        for leg in legs:
            if before and before != leg.gw_src:
                if zone.routing != "Floyd":
                    raise NoPathError(f"SimGrid fails on different gateways in {_named(zone)}", zone.line)
                self._extend(way, before, leg.gw_src)
            way.add(leg.links)
            before = leg.gw_dst
        return _Leg((), legs[0].gw_src, legs[-1].gw_dst)

    def _extend_inside(self, way: _Way, zone: Zone, src: str, dst: str) -> None:
        """Add the path between two points of one zone."""
        if zone.cluster is not None:
            self._extend_in_cluster(way, zone, zone.cluster, src, dst)
            return
        if zone.routing in {"Cluster", "Vivaldi"}:
            self._extend_in_star(way, zone, src, dst)
            return
        legs = self._legs_of(zone)
        bypass = self._bypasses[id(zone)].get((src, dst))
        if bypass is not None:
            way.add(bypass.links)
        elif zone.routing == "Full":
            leg = legs.get((src, dst))
            if leg is not None:
                way.add(leg.links)
            elif src == dst:
                way.add((self._loopback,))
            # Between points of a Full zone, SimGrid treats a missing route as one without links.
        elif zone.routing in _SEARCHED:
            if src == dst:
                if zone.routing != "Floyd" and src not in self._search(zone).indices:
                    raise _missing(zone, src, dst)
                leg = legs.get((src, dst))
                way.add((self._loopback,) if leg is None else leg.links)
            else:
                for leg in self._found(zone, src, dst):
                    way.add(leg.links)
        else:
            raise NoPathError(f"routing {zone.routing} of {_named(zone)} is not simulated", zone.line)

    def _legs_of(self, zone: Zone) -> dict[tuple[str, str], _Leg]:
        """Return the routes of a zone in both directions. O(routes), once."""
        legs = self._legs.get(id(zone))
        if legs is None:
            legs = self._legs[id(zone)] = {}
            bypasses = self._bypasses[id(zone)] = {}
            for route in zone.routes:
                table = bypasses if route.is_bypass else legs
                table[route.src, route.dst] = _Leg(self._named_links(route.links), route.gw_src, route.gw_dst)
                if route.is_symmetrical and route.src != route.dst:
                    table[route.dst, route.src] = _Leg(self._way_back(route), route.gw_dst, route.gw_src)
        return legs

    def _way_back(self, route: Route) -> tuple[NetworkLink, ...]:
        names = []
        for name, is_directed in zip(route.links, route.directed, strict=True):
            base, _, half = name.rpartition("_")
            names.append(f"{base}_{'DOWN' if half == 'UP' else 'UP'}" if is_directed else name)
        return self._named_links(reversed(names))

    def _named_links(self, names: Iterable[str]) -> tuple[NetworkLink, ...]:
        return tuple(self._link(name) for name in names)

    def _link(self, name: str) -> NetworkLink:
        link = self._links.get(name)
        if link is None:
            given = self._network.find_link(name)
            if given is None:
                link = _UnusableLink(name, f"link {name!r:.80} does not exist or is created by a cluster", 0)
            elif fault := _fault_of(given, name):
                link = _UnusableLink(name, fault, given.line)
            else:
                is_fatpipe = given.policy == "FATPIPE"
                link = NetworkLink(name, given.bandwidth, given.latency_s, is_fatpipe=is_fatpipe)
            self._links[name] = link
        return link

    def _made(self, name: str, bandwidth: float, latency_s: float = 0.0, *, is_fatpipe: bool = False) -> NetworkLink:
        link = self._links.get(name)
        if link is None:
            if bandwidth <= 0:
                raise _LinkError(f"link {name!r:.80} has no bandwidth; expected more than 0 Bps", 0)
            link = self._links[name] = NetworkLink(name, bandwidth, latency_s, is_fatpipe=is_fatpipe)
        return link

    # --- searches ---

    def _search(self, zone: Zone) -> _Floyd | _Dijkstra:
        found = self._searches.get(id(zone))
        if found is None:
            legs = self._legs_of(zone)
            kind = _Floyd if zone.routing == "Floyd" else _Dijkstra
            found = self._searches[id(zone)] = kind(zone.members, legs, has_loopbacks=zone.kind == "hosts")
        return found

    def _found(self, zone: Zone, src: str, dst: str) -> list[_Leg]:
        """Return the routes of the path with the fewest links; of several, the one that SimGrid takes."""
        names = self._search(zone).path(src, dst)
        if names is None:
            raise _missing(zone, src, dst)
        legs = self._legs_of(zone)
        return [legs[pair] for pair in pairwise(names)]

    # --- zones that create links ---

    def _extend_in_star(self, way: _Way, zone: Zone, src: str, dst: str) -> None:
        """Go up from a point and down to another. A link is used once, also if it is on both parts."""
        up, down = self._star_links(zone, src)[0], self._star_links(zone, dst)[1]
        way.add(dict.fromkeys((*up, *down)))
        if zone.routing == "Vivaldi":
            (x, y, height), (x2, y2, height2) = (zone.coordinates.get(point, (0.0, 0.0, 0.0)) for point in (src, dst))
            distance = math.sqrt((x - x2) * (x - x2) + (y - y2) * (y - y2)) + abs(height) + abs(height2)
            way.latency_s += distance / 1000.0

    def _star_links(self, zone: Zone, point: str) -> tuple[tuple[NetworkLink, ...], tuple[NetworkLink, ...]]:
        """Return the links up from a point and down to it."""
        named = zone.links_of.get(point)
        private = zone.private_links.get(point)
        if private is not None:
            bandwidth_up, bandwidth_down, latency_s = private
            up = self._made(f"link_{point}_UP", bandwidth_up, latency_s)
            down = self._made(f"link_{point}_DOWN", bandwidth_down, latency_s)
        elif isinstance(named, tuple):
            up, down = (self._link(name) for name in named)
        else:
            return (), ()
        if zone.backbone is None:
            return (up,), (down,)
        backbone = self._made(f"{zone.id} backbone", zone.backbone.bandwidth, zone.backbone.latency_s)
        return (up, backbone), (backbone, down)

    def _extend_in_cluster(self, way: _Way, zone: Zone, links: ClusterLinks, src: str, dst: str) -> None:
        if zone.topology == "FLAT":
            if src == dst and links.loopback is not None:
                way.add((self._made(f"{zone.id} {src} loopback", *links.loopback, is_fatpipe=True),))
                return
            up, down = self._flat_links(zone, links, src, "UP"), self._flat_links(zone, links, dst, "DOWN")
            way.add(dict.fromkeys((*up, *reversed(down))))
            return
        ranks = self._ranks_of(zone)
        if src not in ranks or dst not in ranks:
            raise NoPathError(f"{src if src not in ranks else dst!r:.80} is not a host of {_named(zone)}", zone.line)
        if src == dst and links.loopback is not None:
            way.add((self._made(f"{zone.id} {src} loopback", *links.loopback, is_fatpipe=True),))
            return
        try:
            way.add(self._topology(zone, links).route(ranks[src], ranks[dst]))
        except ValueError as error:
            raise NoPathError(f"{_named(zone)}: {error}", zone.line) from None

    def _flat_links(self, zone: Zone, links: ClusterLinks, point: str, half: str) -> list[NetworkLink]:
        """Return the links from a host to the centre of a flat cluster. The router is the centre."""
        if point not in self._ranks_of(zone):
            return []
        found = [self._made(f"{zone.id} {point} limiter", links.limiter)] if links.limiter else []
        name = f"{zone.id} {point} {half}" if links.is_split else f"{zone.id} {point}"
        found.append(self._made(name, links.bandwidth, links.latency_s))
        if links.backbone is not None:
            backbone = links.backbone
            is_fatpipe = backbone.policy == "FATPIPE"
            name = f"{zone.id} backbone"
            found.append(self._made(name, backbone.bandwidth, backbone.latency_s, is_fatpipe=is_fatpipe))
        return found

    def _ranks_of(self, zone: Zone) -> dict[str, int]:
        ranks = self._ranks.get(id(zone))
        if ranks is None:
            ranks = self._ranks[id(zone)] = {name: rank for rank, name in enumerate(zone.members)}
        return ranks

    def _topology(self, zone: Zone, links: ClusterLinks) -> Topology[NetworkLink]:
        topology = self._topologies.get(id(zone))
        if topology is None:

            def make(name: str, factor: float) -> NetworkLink:
                return self._made(f"{zone.id} {name}", links.bandwidth * factor, links.latency_s)

            def limiter(name: str) -> NetworkLink | None:
                return self._made(f"{zone.id} {name} limiter", links.limiter) if links.limiter else None

            if zone.topology == "TORUS":
                topology = Torus(links.parameters, make, limiter, is_split=links.is_split)
            elif zone.topology == "DRAGONFLY":
                topology = Dragonfly(links.parameters, make, limiter, is_split=links.is_split)
            else:
                n_before = self._n_in_fat_trees_before(zone)
                topology = FatTree(links.parameters, make, limiter, is_split=links.is_split, n_before=n_before)
            self._topologies[id(zone)] = topology
        return topology

    def _n_in_fat_trees_before(self, zone: Zone) -> int:
        """Return the number of hosts in the fat trees before this one: SimGrid numbers them in one row."""
        n_hosts = 0
        for other in self._network.zones:
            if other is zone:
                break
            if other.topology == "FAT_TREE":
                n_hosts += len(other.members)
        return n_hosts


class _Floyd:
    """Shortest paths between all members, with the choices of the algorithm of Floyd and Warshall. O(members³)."""

    def __init__(self, members: list[str], legs: dict[tuple[str, str], _Leg], *, has_loopbacks: bool) -> None:
        self.indices = {name: index for index, name in enumerate(members)}
        self._members = members
        n = len(members)
        costs: list[dict[int, int]] = [{} for _ in range(n)]
        self._before: list[dict[int, int]] = [{} for _ in range(n)]
        for (src, dst), leg in legs.items():
            a, b = self.indices[src], self.indices[dst]
            costs[a][b] = len(leg.links)
            self._before[a][b] = a
        if has_loopbacks:
            for a in range(n):
                costs[a].setdefault(a, 1)
                self._before[a].setdefault(a, a)
        for c in range(n):
            through, before_c = costs[c], self._before[c]
            for a in range(n):
                to_c = costs[a].get(c)
                if to_c is None:
                    continue
                row, before = costs[a], self._before[a]
                for b, onward in list(through.items()):
                    known = row.get(b)
                    if known is None or to_c + onward < known:
                        row[b] = to_c + onward
                        before[b] = before_c[b]

    def path(self, src: str, dst: str) -> list[str] | None:
        """Return the members on the path, with both ends; None if there is none."""
        before, at, end = self._before[self.indices[src]], self.indices[dst], self.indices[src]
        names = [dst]
        while True:
            if at not in before:
                return None
            at = before[at]
            names.append(self._members[at])
            if at == end:
                return names[::-1]


class _Dijkstra:
    """Shortest paths from one member, with the choices of SimGrid's search. O(routes log routes) for each source."""

    def __init__(self, _members: list[str], legs: dict[tuple[str, str], _Leg], *, has_loopbacks: bool) -> None:
        del has_loopbacks  # a loopback is on no shortest path
        names = dict.fromkeys(name for pair in legs for name in pair)
        self.indices = {name: index for index, name in enumerate(names)}
        self._names = list(names)
        self._edges: list[list[tuple[int, int]]] = [[] for _ in names]
        for (src, dst), leg in legs.items():
            self._edges[self.indices[src]].append((self.indices[dst], len(leg.links)))
        self._trees: dict[int, list[int]] = {}

    def path(self, src: str, dst: str) -> list[str] | None:
        """Return the members on the path, with both ends; None if there is none."""
        if src not in self.indices or dst not in self.indices:
            return None
        start, at = self.indices[src], self.indices[dst]
        before = self._tree(start)
        names = [dst]
        while at != start:
            at = before[at]
            if at < 0:
                return None
            names.append(self._names[at])
        return names[::-1]

    def _tree(self, start: int) -> list[int]:
        before = self._trees.get(start)
        if before is not None:
            return before
        n = len(self._names)
        before = self._trees[start] = [-1] * n
        costs = [math.inf] * n
        costs[start] = 0
        heap: list[tuple[float, int]] = [(0, start)]
        while heap:
            cost, at = heappop(heap)
            if cost > costs[at]:
                continue
            for there, length in self._edges[at]:
                if cost + length < costs[there]:
                    costs[there] = cost + length
                    before[there] = at
                    heappush(heap, (costs[there], there))
        return before


def _missing(zone: Zone, src: str, dst: str) -> NoPathError:
    return NoPathError(f"{_named(zone)} has no route from {src!r:.80} to {dst!r:.80}", zone.line)


def _named(zone: Zone) -> str:
    return f"zone {zone.id!r:.80} (line {zone.line})"
