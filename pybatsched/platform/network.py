"""How long Batsim's own messages would take on a platform's network.

Batsim moves its notices as messages of one byte between the master and the other hosts. The embedded simulator moves
nothing; where a link on these ways costs time, the user should know. This is no model of the network: it finds the
costliest single link that such a message may cross.
"""

from __future__ import annotations

from collections.abc import Sequence

#: A hop below this vanishes in any clock value that counts (the wire has six decimals).
FREE_S = 1e-12


class Network:
    """Links and routes, as the reader finds them."""

    def __init__(self) -> None:
        self._links: dict[str, tuple[float, str]] = {}
        self._crossed: set[str] = set()
        self._direct: list[tuple[str, str, Sequence[str]]] = []
        self._gateways: set[str] = set()
        self._worst = (0.0, "")

    def charge(self, where: str, latency: float, bandwidth: float) -> None:
        """Take note of a link that messages cross in any case, as those of clusters."""
        cost = _cost(latency, bandwidth)
        if cost > self._worst[0]:
            self._worst = (cost, where)

    def link(self, name: str, where: str, latency: float, bandwidth: float) -> None:
        """Take note of a link that counts only if a route leads over it."""
        self._links[name] = (_cost(latency, bandwidth), where)

    def cross(self, links: Sequence[str]) -> None:
        """Let a route lead over links: between zones, or part of a longer way."""
        self._crossed.update(links)

    def direct(self, src: str, dst: str, links: Sequence[str]) -> None:
        """Let two neighbours have a route of their own (routing ``Full``); no other way leads over it."""
        self._direct.append((src, dst, links))

    def gateway(self, name: str) -> None:
        """Take note of a point through which a zone is entered."""
        self._gateways.add(name)

    def worst(self, master: str) -> tuple[float, str]:
        """Give the longest hop in seconds and where it is; (0, "") if all hops are free. O(links + routes)."""
        ends = self._gateways | {master}
        crossed = set(self._crossed)
        for src, dst, links in self._direct:
            if src in ends or dst in ends:
                crossed.update(links)
        worst = self._worst
        for name in sorted(crossed):
            # Split links are used by the names of their halves as well; links that clusters make are charged already.
            found = self._links.get(name) or self._links.get(name.removesuffix("_UP").removesuffix("_DOWN"))
            if found is not None and found[0] > worst[0]:
                worst = found
        return worst if worst[0] >= FREE_S else (0.0, "")


def _cost(latency: float, bandwidth: float) -> float:
    return latency + (1.0 / bandwidth if bandwidth > 0 else float("inf"))
