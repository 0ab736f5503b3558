"""Routes in clusters with a topology: torus, fat tree and dragonfly, as in SimGrid, created when they are used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, TypeVar

L = TypeVar("L")

#: Returns the link of a name, and creates it on first use. The factor multiplies the bandwidth.
LinkMaker = Callable[[str, float], L]
#: Returns the limiter of a host or switch; None if the cluster has no limiters.
LimiterMaker = Callable[[str], L | None]


class Topology(Generic[L]):
    """The links of a cluster. A split link has one half for each direction."""

    def __init__(self, make: LinkMaker[L], limiter: LimiterMaker[L], *, is_split: bool) -> None:
        self._make = make
        self._limiter = limiter
        self._is_split = is_split

    def route(self, src: int, dst: int) -> list[L]:
        """Return the links from a host to another, with limiters. O(length)."""
        raise NotImplementedError

    def _up(self, name: str, factor: float = 1.0) -> L:
        return self._make(f"{name} UP" if self._is_split else name, factor)

    def _down(self, name: str, factor: float = 1.0) -> L:
        return self._make(f"{name} DOWN" if self._is_split else name, factor)

    def _add_limiter(self, links: list[L], name: str) -> None:
        limiter = self._limiter(name)
        if limiter is not None:
            links.append(limiter)


class Torus(Topology[L]):
    """Routes go along one dimension after the other, the shorter way round. `parameters` are sizes: ``4,4,2``."""

    def __init__(self, parameters: str, make: LinkMaker[L], limiter: LimiterMaker[L], *, is_split: bool) -> None:
        super().__init__(make, limiter, is_split=is_split)
        self._sizes = [int(size) for size in parameters.split(",")]

    def route(self, src: int, dst: int) -> list[L]:
        """Return the links from a host to another, with limiters. O(length)."""
        links: list[L] = []
        at, step = src, 1
        for dimension, size in enumerate(self._sizes):
            first, last = (src // step) % size, (dst // step) % size
            # The condition is SimGrid's, which does not always find the shorter way.
            is_forward = first < last <= first + size // 2 or (first > size // 2 and (first + size // 2) % size >= last)
            while (at // step) % size != last:
                place = (at // step) % size
                if is_forward:
                    after = at + step - (step * size if place == size - 1 else 0)
                    link = self._up(f"{at} dimension {dimension}")
                else:
                    after = at - step + (step * size if place == 0 else 0)
                    link = self._down(f"{after} dimension {dimension}")
                self._add_limiter(links, str(at))
                links.append(link)
                at = after
            step *= size
        self._add_limiter(links, str(dst))
        return links


class FatTree(Topology[L]):
    """Routes go up until a switch is above the destination, and then down.

    `parameters` are as ``2;4,2;1,2;1,1``: the number of levels, and for each level the number of children, of parents
    and of parallel links. `n_before` is the number of hosts in fat trees earlier in the file.
    """

    def __init__(
        self, parameters: str, make: LinkMaker[L], limiter: LimiterMaker[L], *, is_split: bool, n_before: int = 0
    ) -> None:
        super().__init__(make, limiter, is_split=is_split)
        _, down, up, count = parameters.split(";")
        self._down_counts = [int(number) for number in down.split(",")]
        self._up_counts = [int(number) for number in up.split(",")]
        self._cables = [int(number) for number in count.split(",")]
        self._n_levels = len(self._down_counts)
        self._n_before = n_before

    def route(self, src: int, dst: int) -> list[L]:
        """Return the links from a host to another, with limiters. O(levels)."""
        links: list[L] = []
        goal = self._label(0, dst)
        level, label = 0, self._label(0, src)
        while level == 0 or label[level:] != goal[level:]:  # not yet at a switch above the destination
            port = (dst + self._n_before) // math.prod(self._up_counts[:level])
            port %= self._up_counts[level] * self._cables[level]
            self._add_limiter(links, f"{level} {label}")
            parent = list(label)
            parent[level] = port % self._up_counts[level]
            cable = port // self._up_counts[level]
            links.append(self._up(self._cable_name(level, label, parent, cable)))
            level, label = level + 1, parent
        port = n_ports = 0
        while level > 0:
            if port >= n_ports:
                port = (src + self._n_before) % self._cables[level - 1] * self._down_counts[level - 1]
            cable, index = divmod(port, self._down_counts[level - 1])
            if index == goal[level - 1]:
                child = list(label)
                child[level - 1] = index
                links.append(self._down(self._cable_name(level - 1, child, label, cable)))
                self._add_limiter(links, f"{level} {label}")
                level, label = level - 1, child
            port += 1  # as in SimGrid, the search on the next level continues from here
            n_ports = self._down_counts[level - 1] * self._cables[level - 1]
        self._add_limiter(links, f"{level} {label}")
        return links

    def _label(self, level: int, position: int) -> list[int]:
        """Return the place of a host or switch: its index among the children or parents at each level."""
        label = []
        for below in range(self._n_levels):
            count = self._down_counts[below] if below >= level else self._up_counts[below]
            label.append(position % count)
            position //= count
        return label

    def _cable_name(self, level: int, child: list[int], parent: list[int], cable: int) -> str:
        return f"level {level} from {child} to {parent} cable {cable}"


class Dragonfly(Topology[L]):
    """Routes are minimal: to the router of the group that leads to the other group, there, and on to the destination.

    `parameters` are as ``3,4;4,3;5,1;2``: groups, chassis and blades, each with the number of parallel links, and hosts
    per blade. There is a path between all groups only if there are not more groups than blades.
    """

    def __init__(self, parameters: str, make: LinkMaker[L], limiter: LimiterMaker[L], *, is_split: bool) -> None:
        super().__init__(make, limiter, is_split=is_split)
        parts = [[int(number) for number in part.split(",")] for part in parameters.split(";")]
        (_, self._n_blue), (self._n_chassis, self._n_black) = parts[0], parts[1]
        (self._n_blades, self._n_green), (self._n_nodes,) = parts[2], parts[3]

    def route(self, src: int, dst: int) -> list[L]:
        """Return the links from a host to another, with limiters. O(1)."""
        group, chassis, blade, node = self._place(src)
        to_group, to_chassis, to_blade, to_node = self._place(dst)
        links: list[L] = []
        self._add_limiter(links, f"host {src}")
        links.append(self._up(f"host {group} {chassis} {blade} {node}"))
        if (group, chassis, blade) != (to_group, to_chassis, to_blade):
            if group != to_group:
                if max(group, to_group) >= self._n_blades:
                    raise ValueError("SimGrid has no links between groups if there are more groups than blades")
                if blade != to_group:
                    self._add_router_limiter(links, group, chassis, blade)
                    links.append(self._green(group, chassis, blade, to_group))
                    blade = to_group
                if chassis != 0:
                    self._add_router_limiter(links, group, chassis, blade)
                    links.append(self._black(group, chassis, 0, blade))
                    chassis = 0
                links.append(self._blue(group, to_group))
                self._add_router_limiter(links, group, chassis, blade)
                group, chassis, blade = to_group, 0, group
            if blade != to_blade:
                self._add_router_limiter(links, group, chassis, blade)
                links.append(self._green(group, chassis, blade, to_blade))
                chassis, blade = 0, to_blade  # as in SimGrid, which continues from the first chassis
            if chassis != to_chassis:
                self._add_router_limiter(links, group, chassis, blade)
                links.append(self._black(group, chassis, to_chassis, blade))
        self._add_router_limiter(links, to_group, to_chassis, to_blade)
        links.append(self._down(f"host {to_group} {to_chassis} {to_blade} {to_node}"))
        self._add_limiter(links, f"host {dst}")
        return links

    def _place(self, host: int) -> tuple[int, int, int, int]:
        rest, node = divmod(host, self._n_nodes)
        rest, blade = divmod(rest, self._n_blades)
        group, chassis = divmod(rest, self._n_chassis)
        return group, chassis, blade, node

    def _green(self, group: int, chassis: int, blade: int, to_blade: int) -> L:
        low, high = sorted((blade, to_blade))
        name = f"green {group} {chassis} {low} {high}"
        return self._up(name, self._n_green) if blade == low else self._down(name, self._n_green)

    def _black(self, group: int, chassis: int, to_chassis: int, blade: int) -> L:
        low, high = sorted((chassis, to_chassis))
        name = f"black {group} {low} {high} {blade}"
        return self._up(name, self._n_black) if chassis == low else self._down(name, self._n_black)

    def _blue(self, group: int, to_group: int) -> L:
        low, high = sorted((group, to_group))
        name = f"blue {low} {high}"
        return self._up(name, self._n_blue) if group == low else self._down(name, self._n_blue)

    def _add_router_limiter(self, links: list[L], group: int, chassis: int, blade: int) -> None:
        self._add_limiter(links, f"router {group} {chassis} {blade}")
