"""The data of a machine: its classes of nodes, the units of its hosts, and the source of each number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NodePower:
    """The power of one node in watts: idle, with all cores busy, and off. `sources` has one line per source."""

    idle: float
    full: float
    off: float
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeClass:
    """Nodes of one kind.

    The property `cluster` of its hosts is `cluster`, or `name` if that is empty. `core_speed` is the speed of one core
    in flop/s, `memory_gb` the memory of one node. `shown_speed` is the property `speed` if that is a relative speed
    instead of flop/s. Every host gets `properties`. `sources` has the sources of the numbers, one per line.
    """

    name: str
    n_nodes: int
    cores_per_node: int
    core_speed: float
    memory_gb: float | None
    sources: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    power: NodePower | None = None
    shown_speed: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class HostUnit:
    """What one host represents: a core (`n_nodes` 0), or nodes.

    `group` is a property that numbers groups of hosts, and their size; 0 for the cores of a node.
    """

    name: str
    n_nodes: int = 1
    group: tuple[str, int] | None = None
    torus: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """A shared file system: a storage host with a separate link to each group of hosts."""

    name: str
    link_bytes_per_s: float
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinkSpeeds:
    """Links, in byte/s and seconds, from a node or group to others; `inner` in a group, `trunk` between clusters."""

    bandwidth: float
    latency_s: float
    sources: tuple[str, ...]
    inner: tuple[float, float] | None = None
    trunk: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine. The first unit, in which its logs count, is the default of its name.

    `references` are what to cite for it: names of logs and policies, which have the entries.
    """

    name: str
    title: str
    classes: tuple[NodeClass, ...]
    units: tuple[HostUnit, ...]
    network: LinkSpeeds
    storage: Storage | None = None
    remarks: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @property
    def n_cores(self) -> int:
        """The number of cores of all nodes."""
        return sum(part.n_nodes * part.cores_per_node for part in self.classes)

    @property
    def has_power(self) -> bool:
        """Whether the power of all its nodes is known."""
        return all(part.power is not None for part in self.classes)

    def n_hosts(self, unit: HostUnit) -> int:
        """Return the number of compute hosts in a unit."""
        return sum(hosts_of(part.n_nodes, part, unit) for part in self.classes)


def hosts_of(n_nodes: int, part: NodeClass, unit: HostUnit) -> int:
    """Return the number of hosts of so many nodes of a class; the last host may have fewer nodes."""
    return n_nodes * part.cores_per_node if unit.n_nodes == 0 else -(-n_nodes // unit.n_nodes)
