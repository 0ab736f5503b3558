"""What is known of a machine: its classes of nodes, the units to describe it in, and where each number is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Power:
    """What one node draws, in watts: idle, with all cores at work, and off. `sources` say where from, a line each."""

    idle: float
    full: float
    off: float
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes of one kind.

    `name` is the property `cluster` of its hosts unless `cluster` says otherwise, `core_speed` is that of one core in
    flop/s, `memory_gb` that of one node.
    `shown_speed` is the property `speed` where that is not the speed of a core in flop/s but a relative one.
    `properties` go to every host. `sources` say where the numbers are from, a line each.
    """

    name: str
    n_nodes: int
    cores_per_node: int
    core_speed: float
    memory_gb: float | None
    sources: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    power: Power | None = None
    shown_speed: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one host stands for: a core (`n_nodes` 0), a node, or several nodes.

    `group` is a property that tells neighbours from others by their number, and how many of them there are:
    ``("node", 20)`` for the cores of a node. `torus` gives the sides of the torus that the hosts form.
    """

    name: str
    n_nodes: int = 1
    group: tuple[str, int] | None = None
    torus: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """A shared file system: a storage host that each group of hosts reaches over a link of its own."""

    name: str
    link_bytes_per_s: float
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """Links in byte/s and seconds: from a node, or a group of hosts, to the others.

    `inner` is that of a host to the rest of its group, and free if not given; `trunk` that between clusters.
    """

    bandwidth: float
    latency_s: float
    sources: tuple[str, ...]
    inner: tuple[float, float] | None = None
    trunk: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine. The first unit is the one that its name alone stands for: what its logs count in."""

    name: str
    title: str
    classes: tuple[NodeClass, ...]
    units: tuple[Unit, ...]
    network: Network
    storage: Storage | None = None
    remarks: tuple[str, ...] = ()

    @property
    def n_cores(self) -> int:
        """All cores."""
        return sum(part.n_nodes * part.cores_per_node for part in self.classes)

    @property
    def has_power(self) -> bool:
        """Whether what its nodes draw is known, for all of them."""
        return all(part.power is not None for part in self.classes)

    def n_hosts(self, unit: Unit) -> int:
        """Give how many compute hosts it makes in a unit."""
        return sum(hosts_of(part.n_nodes, part, unit) for part in self.classes)


def hosts_of(n_nodes: int, part: NodeClass, unit: Unit) -> int:
    """Give how many hosts so many nodes of a class make, the last perhaps of fewer nodes than the others."""
    return n_nodes * part.cores_per_node if unit.n_nodes == 0 else -(-n_nodes // unit.n_nodes)
