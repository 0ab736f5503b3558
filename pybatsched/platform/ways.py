"""Where the network leads: the ways between hosts and the master, as SimGrid would find them.

Batsim moves its notices as messages of one byte between the master and the other hosts. A host without a way to the
master makes it abort when the host is first used; a way over links that cost time lets times drift. This module finds
both. It is no model of the network: what jobs communicate is not its matter.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from pybatsched.platform.model import Host
from pybatsched.platform.zones import Link, Network, Route, Zone

#: A hop below this vanishes in any clock value that counts (the wire has six decimals).
FREE_S = 1e-12

_SEARCHING = frozenset(("Floyd", "Dijkstra", "DijkstraCache"))
_N_TOLD = 20


class NoWayError(Exception):
    """There is no way; the text says between what, and `line` where the zone is that lacks it."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True, slots=True)
class Findings:
    """The costliest link on any way to the master, which hosts have no way, and what else is odd: (line, text)."""

    hop_s: float
    hop_at: str
    missing: tuple[tuple[int, str], ...]
    notes: tuple[tuple[int, str], ...]


@dataclass(slots=True)
class _Table:
    """The routes of a zone by their ends; for routings that search, the search trees found so far."""

    edges: dict[str, dict[str, Route]] = field(default_factory=dict)
    trees: dict[str, dict[str, str]] = field(default_factory=dict)
    is_symmetrical: bool = True


def find(
    network: Network, hosts: Sequence[Host], slices: Sequence[tuple[int, Zone]], master: str, storage: AbstractSet[str]
) -> Findings:
    """Look at the way from the master to each host and back. O(hosts + routes log routes), less for clusters.

    `slices` say from which place in `hosts` on they are in which zone. All hosts of a cluster are alike: a few are
    asked. To storage hosts Batsim sends nothing.
    """
    ways = _Ways(network)
    worst: Link | None = None
    missing: dict[str, tuple[int, str]] = {}
    for host in _representatives(hosts, slices):
        if host.name == master or host.name in storage:
            continue
        for src, dst in ((master, host.name), (host.name, master)):
            try:
                for link in ways.between(src, dst):
                    if worst is None or link.cost_s > worst.cost_s:
                        worst = link
            except NoWayError as error:
                text = f"no way from host {src!r:.80} to {dst!r:.80}: {error}; Batsim would abort when it is used"
                missing.setdefault(str(error), (host.line or error.line, text))
                break
    told = (tuple(missing.values())[:_N_TOLD], tuple(ways.notes.values()))
    if worst is None or worst.cost_s < FREE_S:
        return Findings(0.0, "", *told)
    return Findings(worst.cost_s, worst.where, *told)


def _representatives(hosts: Sequence[Host], slices: Sequence[tuple[int, Zone]]) -> Iterator[Host]:
    """Give all hosts of zones, but of clusters the first, the second and the last: the first may be the gateway."""
    bounds = [*(first for first, _ in slices), len(hosts)]
    for (first, zone), last in zip(slices, bounds[1:], strict=True):
        row = hosts[first:last]
        yield from {host.name: host for host in (row[0], row[1 % len(row)], row[-1])}.values() if zone.topology else row


class _Ways:
    """Finds ways; what was looked up once is remembered."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._tables: dict[int, _Table] = {}
        self.notes: dict[str, tuple[int, str]] = {}  # by zone

    def between(self, src: str, dst: str) -> list[Link]:
        """Give the links of a way, in no particular order. Raises NoWayError."""
        if src == dst:
            return []
        owners = self._network.owners
        for name in (src, dst):
            if name not in owners:
                raise NoWayError(f"there is no host or router {name!r:.80}", 0)
        from_trail, to_trail = owners[src].trail(), owners[dst].trail()
        depth = 0
        while depth < min(len(from_trail), len(to_trail)) and from_trail[depth] is to_trail[depth]:
            depth += 1
        if depth == 0:
            raise NoWayError("they are in zones without a zone around both", from_trail[0].line)
        zone = from_trail[depth - 1]
        if len(from_trail) == depth and len(to_trail) == depth:
            return self._inside(zone, src, dst)
        one = from_trail[depth].id if len(from_trail) > depth else src
        other = to_trail[depth].id if len(to_trail) > depth else dst
        return self._through(zone, (src, one), (dst, other))

    def _through(self, zone: Zone, start: tuple[str, str], goal: tuple[str, str]) -> list[Link]:
        """Cross a zone of zones: `start` and `goal` are points, and the members of the zone that they are in."""
        links: list[Link] = []
        here = start[0]
        for route, forth in self._steps(zone, start[1], goal[1]):
            leave, enter = (route.gw_src, route.gw_dst) if forth else (route.gw_dst, route.gw_src)
            self._check_gateways(zone, route)
            links += self.between(here, leave)
            links += self._named(route.links)
            here = enter
        return links + self.between(here, goal[0])

    def _check_gateways(self, zone: Zone, route: Route) -> None:
        """Make sure that gateways are where they should be, so that ways end somewhere."""
        depth = len(zone.trail())
        for member, gateway in ((route.src, route.gw_src), (route.dst, route.gw_dst)):
            owner = self._network.owners.get(gateway)
            trail = [] if owner is None else owner.trail()
            if len(trail) <= depth or trail[depth].id != member or trail[depth - 1] is not zone:
                raise NoWayError(f"the gateway {gateway!r:.80} of {route.name} is not in {member!r:.80}", route.line)

    def _inside(self, zone: Zone, src: str, dst: str) -> list[Link]:
        """Cross a zone of points, or a cluster."""
        if zone.topology:
            return zone.crossed
        if zone.routing in {"Cluster", "Vivaldi"}:
            links = list(zone.crossed)
            for name in (src, dst):
                own = zone.links_of.get(name, ())
                links += [own] if isinstance(own, Link) else self._named(own)
            return links
        try:
            return [link for route, _ in self._steps(zone, src, dst) for link in self._named(route.links)]
        except NoWayError as error:
            if zone.routing != "Full":
                raise
            # Seen with Batsim 4.2.1: between points of a Full zone, unlike between zones, no route is a free one.
            self.notes.setdefault(zone.id, (zone.line, f"{error}; Batsim takes such a way for a free one"))
            return []

    def _named(self, names: tuple[str, ...]) -> list[Link]:
        """Give links by name; halves of split links have names of their own, and what is unknown is told elsewhere."""
        links = self._network.links
        found = (links.get(name) or links.get(name.removesuffix("_UP").removesuffix("_DOWN")) for name in names)
        return [link for link in found if link is not None]

    def _steps(self, zone: Zone, src: str, dst: str) -> list[tuple[Route, bool]]:
        """Give the routes from one member of a zone to another, and whether each is gone forth or back."""
        table = self._tables.get(id(zone))
        if table is None:
            table = self._tables[id(zone)] = _Table(is_symmetrical=all(route.is_symmetrical for route in zone.routes))
            for route in zone.routes:
                table.edges.setdefault(route.src, {})[route.dst] = route
                if route.is_symmetrical:
                    table.edges.setdefault(route.dst, {}).setdefault(route.src, route)
        if zone.routing not in _SEARCHING:
            found = table.edges.get(src, {}).get(dst)
            if found is None:
                raise NoWayError(f"{_called(zone)} has no route from {src!r:.80} to {dst!r:.80}", zone.line)
            return [(found, found.src == src and found.dst == dst)]
        if table.is_symmetrical and dst in table.trees:  # one tree, that of the master, serves both directions
            return [(route, not forth) for route, forth in self._path(table, zone, dst, src)[::-1]]
        return self._path(table, zone, src, dst)

    def _path(self, table: _Table, zone: Zone, root: str, goal: str) -> list[tuple[Route, bool]]:
        if root not in table.trees:
            table.trees[root] = _tree(table, root)
        tree = table.trees[root]
        if goal not in tree:
            raise NoWayError(f"no routes of {_called(zone)} lead there", zone.line)
        steps = []
        while goal != root:
            before = tree[goal]
            route = table.edges[before][goal]
            steps.append((route, route.src == before and route.dst == goal))
            goal = before
        return steps[::-1]


def _called(zone: Zone) -> str:
    return f"zone {zone.id!r:.80} (line {zone.line})" if zone.id else "the platform itself"


def _tree(table: _Table, src: str) -> dict[str, str]:
    """Give for each member that can be reached the one before it on the way of the fewest links, as SimGrid counts."""
    before: dict[str, str] = {src: src}
    done: set[str] = set()
    heap: list[tuple[int, str, str]] = [(0, src, src)]
    while heap:
        cost, here, came_from = heapq.heappop(heap)
        if here in done:
            continue
        done.add(here)
        before[here] = came_from
        for there, route in table.edges.get(here, {}).items():
            if there not in done:
                heapq.heappush(heap, (cost + len(route.links), there, here))
    return before
