"""The network paths between the master and the hosts, as SimGrid would find them.

Batsim sends its notices as messages of one byte between the master and the other hosts. Batsim aborts when it first
uses a host without a path to the master. On a path with slow links, times drift. This module finds both. It does not
model the communication of jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from pybatsched.platform.model import Host
from pybatsched.platform.network.zones import NO_LINK, Link, Network, Route, Zone, costlier

#: A shorter hop does not change any clock value (messages have six decimals).
FREE_S = 1e-12

_SEARCHING = frozenset(("Floyd", "Dijkstra", "DijkstraCache"))
_OF_ITSELF = frozenset(("Cluster", "Vivaldi", "Wifi"))  # zones with a path between any two points
_MAX_MISSING = 20  # in the findings


class NoPathError(Exception):
    """There is no path; the text names its ends, and `line` is that of the zone that lacks a route."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True, slots=True)
class Findings:
    """The slowest link on any path to the master, the hosts without a path, and other notes, as (line, text)."""

    hop_s: float
    hop_at: str
    missing: tuple[tuple[int, str], ...]
    notes: tuple[tuple[int, str], ...]


def split_trails(src: Zone, dst: Zone) -> tuple[Zone, list[Zone], list[Zone]]:
    """Return the innermost zone around two zones, and the zones below it to each. Raises NoPathError."""
    from_trail, to_trail = src.trail(), dst.trail()
    depth = 0
    while depth < min(len(from_trail), len(to_trail)) and from_trail[depth] is to_trail[depth]:
        depth += 1
    if depth in {0, len(from_trail), len(to_trail)}:
        raise NoPathError("the zone of one contains the zone of the other", from_trail[0].line)
    return from_trail[depth - 1], from_trail[depth:], to_trail[depth:]


class _Reached(NamedTuple):
    """A reachable member of a zone: the slowest link on the path, and the point where the path enters the member."""

    worst: Link
    entry: str


def find(
    network: Network, hosts: Sequence[Host], slices: Sequence[tuple[int, Zone]], master: str, storage: AbstractSet[str]
) -> Findings:
    """Check the path from the master to each host, and back. O(hosts x depth + routes log routes)."""
    directions = [_Paths(network)]
    if not all(route.is_symmetrical for zone in network.zones for route in zone.routes):
        directions.append(_Paths(network, backward=True))
    worst = NO_LINK
    missing: dict[str, tuple[int, str]] = {}
    for host in _representatives(hosts, slices):
        if host.name == master or host.name in storage:
            continue
        for paths in directions:
            try:
                worst = costlier(worst, paths.between(master, host.name))
            except NoPathError as error:
                text = f"no path between the master {master!r:.80} and {host.name!r:.80}: {error}"
                missing.setdefault(str(error), (host.line or error.line, f"{text}; Batsim would abort when it is used"))
                break
    findings = (tuple(missing.values())[:_MAX_MISSING], tuple(directions[0].notes.values()))
    return Findings(0.0, "", *findings) if worst.cost_s < FREE_S else Findings(worst.cost_s, worst.where, *findings)


def _representatives(hosts: Sequence[Host], slices: Sequence[tuple[int, Zone]]) -> Iterator[Host]:
    """Yield all hosts of zones; of clusters only the first, which may be the gateway, the second and the last."""
    bounds = [*(first for first, _ in slices), len(hosts)]
    for (first, zone), last in zip(slices, bounds[1:], strict=True):
        row = hosts[first:last]
        yield from {host.name: host for host in (row[0], row[1 % len(row)], row[-1])}.values() if zone.topology else row


class _Paths:
    """Finds paths from a point, and caches those through a zone. `backward` follows routes in reverse."""

    def __init__(self, network: Network, *, backward: bool = False) -> None:
        self.notes: dict[str, tuple[int, str]] = {}  # by zone
        self._network = network
        self._backward = backward
        self._trees: dict[tuple[int, str], dict[str, _Reached]] = {}

    def between(self, src: str, dst: str) -> Link:
        """Return the slowest link of the path. Raises NoPathError."""
        if src == dst:
            return NO_LINK
        owners = self._network.owners
        for name in (src, dst):
            if name not in owners:
                raise NoPathError(f"host or router {name!r:.80} does not exist", 0)
        if owners[src] is owners[dst]:
            return self._inside(owners[src], src, dst)
        zone, from_trail, to_trail = split_trails(owners[src], owners[dst])
        member, goal = from_trail[0].id, to_trail[0].id
        reached = self._tree(zone, src, member).get(goal)
        if reached is None:
            raise NoPathError(f"{_zone_name(zone)} has no route from {member!r:.80} to {goal!r:.80}", zone.line)
        return costlier(reached.worst, self.between(reached.entry, dst))

    def _inside(self, zone: Zone, src: str, dst: str) -> Link:
        """Return the slowest link of a path inside a zone of points or a cluster."""
        if zone.topology:
            return zone.costliest
        if zone.routing in _OF_ITSELF:
            return costlier(zone.costliest, self._of(zone, src), self._of(zone, dst))
        reached = self._tree(zone, src, src).get(dst)
        if reached is not None:
            return reached.worst
        error = NoPathError(f"{_zone_name(zone)} has no route from {src!r:.80} to {dst!r:.80}", zone.line)
        if zone.routing != "Full":
            raise error
        # Observed with Batsim 4.2.1: between points of a Full zone, but not between zones, a missing route is free.
        self.notes.setdefault(zone.id, (zone.line, f"{error}; in Batsim messages between them take no time"))
        return NO_LINK

    def _of(self, zone: Zone, point: str) -> Link:
        own = zone.links_of.get(point, ())
        return own if isinstance(own, Link) else self._costliest(own)

    def _costliest(self, names: Iterable[str]) -> Link:
        """Return the slowest of links by name. The halves of split links have a suffix."""
        found = map(self._network.find_link, names)
        return costlier(NO_LINK, *(link for link in found if link is not None))  # unknown links are reported elsewhere

    def _tree(self, zone: Zone, point: str, member: str) -> dict[str, _Reached]:
        """Return the members of a zone that a point reaches, by the fewest links. O(routes log routes), once."""
        tree = self._trees.get((id(zone), point))
        if tree is not None:
            return tree
        tree = self._trees[id(zone), point] = {}
        edges = self._edges(zone)
        found: dict[str, _Reached] = {member: _Reached(NO_LINK, point)}
        heap = [(len(route.links), there, member, route) for there, route in edges.get(member, {}).items()]
        heapq.heapify(heap)
        while heap:
            cost, here, before, route = heapq.heappop(heap)
            if here in found:
                continue
            found[here] = tree[here] = self._step(zone, found[before], route, here)
            if zone.routing in _SEARCHING:
                for there, onward in edges.get(here, {}).items():
                    if there not in found:
                        heapq.heappush(heap, (cost + len(onward.links), there, here, onward))
        return tree

    def _step(self, zone: Zone, so_far: _Reached, route: Route, to: str) -> _Reached:
        """Extend a path over a route into a member."""
        forth = route.dst == to
        leave, enter = (route.gw_src, route.gw_dst) if forth else (route.gw_dst, route.gw_src)
        if zone.kind == "zones":
            self._check_gateways(zone, route)
        worst = costlier(so_far.worst, self.between(so_far.entry, leave), self._costliest(route.links))
        return _Reached(worst, enter)

    def _edges(self, zone: Zone) -> dict[str, dict[str, Route]]:
        edges: dict[str, dict[str, Route]] = {}
        for route in zone.routes:
            src, dst = (route.dst, route.src) if self._backward else (route.src, route.dst)
            edges.setdefault(src, {})[dst] = route
            if route.is_symmetrical:
                edges.setdefault(dst, {}).setdefault(src, route)
        return edges

    def _check_gateways(self, zone: Zone, route: Route) -> None:
        """Raise NoPathError unless the gateways are in the zones of the route; otherwise the search may not end."""
        depth = len(zone.trail())
        for member, gateway in ((route.src, route.gw_src), (route.dst, route.gw_dst)):
            owner = self._network.owners.get(gateway)
            trail = [] if owner is None else owner.trail()
            if len(trail) <= depth or trail[depth].id != member or trail[depth - 1] is not zone:
                raise NoPathError(f"the gateway {gateway!r:.80} of {route.name} is not in {member!r:.80}", route.line)


def _zone_name(zone: Zone) -> str:
    return f"zone {zone.id!r:.80} (line {zone.line})" if zone.id else "the platform itself"
