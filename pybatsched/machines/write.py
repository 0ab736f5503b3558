"""Write a machine as a SimGrid platform for Batsim and the embedded simulator.

Batsim (observed with 4.2.1) requires one master, and orders ids by names as text; therefore numbers have equal width
and prefixes are in order. Speeds and cores are written as properties, because Batsim does not send them. Links between
hosts and master cost nothing, so that Batsim's internal messages take no time. With a group property, each group is a
cluster. A DijkstraCache zone joins the groups through the master's cluster, and SimGrid finds the paths between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final
from xml.sax.saxutils import quoteattr

from pybatsched.errors import InputError
from pybatsched.machines.model import HostUnit, Machine, NodeClass, NodePower, Storage, hosts_of
from pybatsched.platform.model import MAX_HOSTS

FREE: Final = ("1e300Bps", "0")
#: Versions of Batsim by the spelling of wattages in platforms.
OLD_SPELLING: Final = ("3.1", "4.0")
NEW_SPELLING: Final = ("4.1", "4.2", "5.0")
_TRUNK: Final = "trunk"
_STORAGE: Final = "storage"
_HEAD: Final = """\
<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
"""


@dataclass(frozen=True, slots=True)
class Variant:
    """How to write a machine: for a version of Batsim (empty: all), with `alpha` of all hosts added."""

    unit: str = ""
    alpha: float = 0.0
    scale: float = 1.0
    energy: bool = False
    batsim: str = ""
    real_network: bool = False


@dataclass(slots=True)
class _Cluster:
    """A cluster element: hosts that differ only in their number."""

    id: str
    prefix: str
    numbers: range
    speed: float
    n_cores: int = 1
    properties: dict[str, str] = field(default_factory=dict)
    torus: tuple[int, int, int] | None = None

    @property
    def gateway(self) -> str:
        """The router of the cluster; a torus has none, so its first host."""
        return f"{self.prefix}{self.numbers[0]}" if self.torus else f"{self.prefix}{self.id}_router"


@dataclass(frozen=True, slots=True)
class _Row:
    """Hosts of one class, in the order of their ids."""

    part: NodeClass
    n_hosts: int
    name: str
    is_extra: bool = False


def unit_of(machine: Machine, name: str) -> HostUnit:
    """Return a unit of a machine by name; an empty name is the first. Raises InputError that lists them."""
    for unit in machine.units:
        if name in {unit.name, ""}:
            return unit
    known = ", ".join(unit.name for unit in machine.units)
    raise InputError(f"{machine.name}: unknown unit {name!r:.40}; expected one of {known}")


def equal_width(n: int) -> range:
    """Return n consecutive numbers with the same number of digits, as few as possible.

    >>> equal_width(93312), equal_width(90), equal_width(8)
    (range(100000, 193312), range(10, 100), range(1, 9))
    """
    first = 1
    while first + n > first * 10:
        first *= 10
    return range(first, first + n)


def n_extra(n_hosts: int, alpha: float) -> int:
    """Return how many hosts to add to n, so that the added ones are the share alpha of all, rounded up.

    >>> [n_extra(640, alpha) for alpha in (0.10, 0.15, 0.20, 0.25)]
    [72, 113, 160, 214]
    """
    return math.ceil(n_hosts / (1 - alpha) - 1e-9) - n_hosts


def platform_xml(machine: Machine, variant: Variant) -> str:
    """Return a machine as the text of a platform file. O(clusters). Raises InputError if the variant is impossible."""
    unit = unit_of(machine, variant.unit)
    _check(machine, variant)
    rows = _rows(machine, unit, variant)
    clusters = list(_clusters(machine, unit, rows, variant))
    master = _Cluster("master", "master", range(1), 1e9, 1, {"role": "master", **_no_watts(variant)})
    own_links = _own_links(machine, unit) if variant.real_network else FREE
    lines = [*_comment(_description(machine, unit, variant)), '<platform version="4.1">']
    lines.append(f' <zone id="site" routing="{"Full" if unit.group is None else "DijkstraCache"}">')
    lines += [line for cluster in clusters for line in _element(cluster, own_links)]
    lines += _element(master, FREE)
    if machine.storage is not None:
        lines += _storage_zone(machine.storage, variant)
    links, routes = _network(machine, clusters, master, variant)
    lines += [*links, *routes]  # SimGrid requires all links before all routes
    return _HEAD + "\n".join([*lines, " </zone>", "</platform>", ""])


def _own_links(machine: Machine, unit: HostUnit) -> tuple[str, str]:
    """Return the link of each host: the link of a node or, in a group, the inner link, such as core to node."""
    network = machine.network
    if unit.group is not None:
        return FREE if network.inner is None else _written(*network.inner)
    if any(_cores(part, unit) != part.cores_per_node for part in machine.classes):
        nodes = [other.name for other in machine.units if other.group is not None or other.n_nodes == 1]
        raise InputError(
            f"{machine.name}: links are known per node, not per {unit.name}; expected the unit {' or '.join(nodes)}"
        )
    return _written(network.bandwidth, network.latency_s)


def _check(machine: Machine, variant: Variant) -> None:
    if not 0 <= variant.alpha < 1:
        raise InputError(f"{machine.name}: alpha is {variant.alpha:g}; expected a share from 0 to below 1")
    if not 0 < variant.scale < math.inf:
        raise InputError(f"{machine.name}: scale is {variant.scale:g}; expected a number above 0")
    if variant.energy and not machine.has_power:
        raise InputError(
            f"{machine.name}: the power of its nodes is unknown, so it has no energy variant; use it without energy"
        )
    if variant.batsim and variant.batsim not in (*OLD_SPELLING, *NEW_SPELLING):
        raise InputError(
            f"unknown Batsim version {variant.batsim:.20}; expected one of {', '.join((*OLD_SPELLING, *NEW_SPELLING))}"
        )


def _rows(machine: Machine, unit: HostUnit, variant: Variant) -> list[_Row]:
    """Return the hosts by class, then those that alpha adds: like the first class, with the last ids."""
    several = len(machine.classes) > 1
    rows = []
    for number, part in enumerate(machine.classes):
        n_nodes = max(round(part.n_nodes * variant.scale), 1)
        name = f"{chr(ord('a') + number)}-{part.name}" if several else machine.name
        rows.append(_Row(part, hosts_of(n_nodes, part, unit), name))
    n_hosts = sum(row.n_hosts for row in rows)
    if n_hosts > MAX_HOSTS * (1 - variant.alpha):
        raise InputError(f"{machine.name}: scale {variant.scale:g} gives too many hosts; expected at most {MAX_HOSTS}")
    extra = n_extra(n_hosts, variant.alpha)
    return [*rows, _Row(machine.classes[0], extra, "z-extra", is_extra=True)] if extra else rows


def _clusters(machine: Machine, unit: HostUnit, rows: Sequence[_Row], variant: Variant) -> Iterator[_Cluster]:
    if unit.group is not None:
        yield from _groups(unit, unit.group, rows, variant)
        return
    for row in rows:
        torus = _torus(machine, unit, row) if unit.torus and not row.is_extra else None
        properties = _properties(row, unit, variant)
        numbers = equal_width(math.prod(torus) if torus else row.n_hosts)
        part, n_cores = row.part, _cores(row.part, unit)
        yield _Cluster(row.name, f"{row.name}-", numbers, part.core_speed, n_cores, properties, torus)


def _groups(unit: HostUnit, group: tuple[str, int], rows: Sequence[_Row], variant: Variant) -> Iterator[_Cluster]:
    """Yield a cluster for each group of hosts, numbered over all rows; the last of a row may be smaller."""
    key, size = group
    found = []
    for row in rows:
        most = size or row.part.cores_per_node
        found += [(min(most, row.n_hosts - at), row) for at in range(0, row.n_hosts, most)]
    for index, (number, (n, row)) in enumerate(zip(equal_width(len(found)), found, strict=True)):
        properties = {key: str(index), **_properties(row, unit, variant)}
        name = f"{key}{number}"
        yield _Cluster(name, f"{name}-", equal_width(n), row.part.core_speed, _cores(row.part, unit), properties)


def _torus(machine: Machine, unit: HostUnit, row: _Row) -> tuple[int, int, int]:
    """Return the torus of a scaled machine: at least one whole plane."""
    x, y, z = unit.torus or (1, 1, 1)
    whole = hosts_of(row.part.n_nodes, row.part, unit)
    if row.n_hosts == whole:
        return x, y, z
    planes = max(round(row.n_hosts / (y * z)), 1)
    if planes * y * z != row.n_hosts:
        raise InputError(
            f"{machine.name}: the torus has {row.n_hosts} hosts; expected a scale with whole planes of {y * z}, such "
            f"as {planes / x:g}, or another unit"
        )
    return planes, y, z


def _cores(part: NodeClass, unit: HostUnit) -> int:
    return part.cores_per_node * unit.n_nodes if unit.n_nodes else 1


def _properties(row: _Row, unit: HostUnit, variant: Variant) -> dict[str, str]:
    """Return the properties that all hosts of a row share."""
    part = row.part
    n_cores = _cores(part, unit)
    facts = {
        "cluster": "extra" if row.is_extra else part.cluster or part.name,
        "cores": str(n_cores),
        "speed": part.shown_speed or _number(part.core_speed),
    }
    if part.memory_gb is not None:
        # The memory of the node if a property names the node; else the share of the host.
        share = n_cores / part.cores_per_node if unit.group is None else max(unit.n_nodes, 1)
        facts["memory_gb"] = _number(part.memory_gb * share)
    facts |= part.properties
    if variant.energy and part.power is not None:
        facts |= _watts(part.power, n_cores / part.cores_per_node, n_cores, variant.batsim)
    return facts


def _watts(power: NodePower, n_nodes: float, n_cores: int, batsim: str) -> Mapping[str, str]:
    """Return the properties of the power of a host.

    The middle number is the power with a load close to 0; in the old spelling, that of one busy core. SimGrid 3.25
    (Batsim 3.1 and 4.0) prefers the old spelling if both are given; newer versions read only the new one.
    """
    idle, full, off = (_number(round(watts * n_nodes, 6)) for watts in (power.idle, power.full, power.off))
    one_core = _number(round((power.idle + (power.full - power.idle) / n_cores) * n_nodes, 6))
    facts: dict[str, str] = {}
    if batsim not in OLD_SPELLING:
        facts |= {"wattage_per_state": f"{idle}:{idle}:{full}", "wattage_off": off}
    if batsim not in NEW_SPELLING:
        facts |= {"watt_per_state": f"{idle}:{one_core}:{full}", "watt_off": off}
    return facts


def _no_watts(variant: Variant) -> Mapping[str, str]:
    """Return wattages of 0 for the master and storage: Batsim requires them for storage and warns about the master."""
    return _watts(NodePower(0, 0, 0, ()), 1, 1, variant.batsim) if variant.energy else {}


def _number(value: float) -> str:
    return f"{value:.12g}" if value != int(value) else str(int(value))


def _bytes(value: float) -> str:
    return f"{_number(value)}Bps"


def _written(bandwidth: float, latency_s: float) -> tuple[str, str]:
    return _bytes(bandwidth), f"{_number(latency_s)}s"


def _element(cluster: _Cluster, links: tuple[str, str]) -> Iterator[str]:
    bandwidth, latency = links
    radical = f"{cluster.numbers[0]}-{cluster.numbers[-1]}"
    speed = f"{_number(round(cluster.speed / 1e9, 9))}Gf"
    text = (
        f"  <cluster id={quoteattr(cluster.id)} prefix={quoteattr(cluster.prefix)} suffix="
        f'"" radical="{radical}" speed="{speed}" core="{cluster.n_cores}" bw="{bandwidth}" '
        f'lat="{latency}"'
    )
    if cluster.torus:
        text += f' topology="TORUS" topo_parameters="{",".join(map(str, cluster.torus))}"'
    yield text + ">"
    for key, value in cluster.properties.items():
        yield f"   <prop id={quoteattr(key)} value={quoteattr(value)}/>"
    yield "  </cluster>"


def _link(name: str, bandwidth: str, latency: str) -> str:
    return f'  <link id="{name}" bandwidth="{bandwidth}" latency="{latency}"/>'


def _path(src: _Cluster, dst: _Cluster, link: str) -> Iterator[str]:
    return _route(src.id, src.gateway, dst.id, dst.gateway, (link,))


def _route(src: str, gw_src: str, dst: str, gw_dst: str, links: Sequence[str]) -> Iterator[str]:
    ends = {"src": src, "dst": dst, "gw_src": gw_src, "gw_dst": gw_dst}
    yield "  <zoneRoute " + " ".join(f"{key}={quoteattr(value)}" for key, value in ends.items()) + ">"
    yield "   " + "".join(f'<link_ctn id="{link}"/>' for link in links)
    yield "  </zoneRoute>"


def _network(
    machine: Machine, clusters: Sequence[_Cluster], master: _Cluster, variant: Variant
) -> tuple[list[str], list[str]]:
    """Write the links between clusters, and the routes over them."""
    network, is_grouped = machine.network, unit_of(machine, variant.unit).group is not None
    links = [*_comment(("A free way to the master: nothing is lost on it when Batsim sends its own messages.",), 2)]
    links.append(_link(_TRUNK, *FREE))
    routes: list[str] = []
    for cluster in clusters:
        up = _TRUNK
        if variant.real_network and is_grouped:  # paths between groups use the master's cluster
            up = f"{cluster.id}-up"
            links.append(_link(up, *_written(network.bandwidth, network.latency_s)))
        routes += _path(cluster, master, up)
    if not is_grouped:
        trunk = _TRUNK
        if variant.real_network and network.trunk is not None:
            trunk = "wan"
            links.append(_link(trunk, *_written(*network.trunk)))
        routes += [line for pair in combinations(clusters, 2) for line in _path(*pair, trunk)]
    if machine.storage is not None:
        name = machine.storage.name
        for cluster in clusters:
            link = f"{cluster.id}-{name}"
            links.append(_link(link, _bytes(machine.storage.link_bytes_per_s), "0"))
            # Two links, so that no path between groups uses the storage: SimGrid minimises the number of links.
            routes += _route(cluster.id, cluster.gateway, _STORAGE, name, (link, _TRUNK))
    return links, routes


def _storage_zone(storage: Storage, variant: Variant) -> Iterator[str]:
    """Yield the shared file system: a zone with one host, because a cluster would append a number to its name."""
    yield from _comment(storage.sources, 2)
    yield f'  <zone id="{_STORAGE}" routing="Full">'
    yield f'   <host id="{storage.name}" speed="0f">'
    for key, value in {"role": "storage", **_no_watts(variant)}.items():
        yield f"    <prop id={quoteattr(key)} value={quoteattr(value)}/>"
    yield "   </host>"
    yield "  </zone>"


def _comment(texts: Sequence[str], indent: int = 0) -> list[str]:
    """Return the lines of an XML comment. Two dashes in a row, which would end it, are separated."""
    text = "\n     ".join(texts).replace("--", "- -")
    return [" " * indent + line for line in f"<!-- {text} -->".splitlines()]


def _description(machine: Machine, unit: HostUnit, variant: Variant) -> list[str]:
    """Return the lines of the header comment: what the file describes, and the sources of its numbers."""
    size = (
        "a core" if unit.n_nodes == 0 else "a node" if unit.n_nodes == 1 and unit.name == "node" else f"a {unit.name}"
    )
    changes = [f"alpha {variant.alpha:g}"] if variant.alpha else []
    changes += [f"scale {variant.scale:g}"] if variant.scale != 1 else []
    changes += ["energy"] if variant.energy else []
    changes += [f"for Batsim {variant.batsim}"] if variant.batsim else []
    changes += ["with the real network"] if variant.real_network else []
    lines = [machine.title + ".", f"Made by pybatsched platform generate; a host is {', '.join([size, *changes])}."]
    for part in machine.classes:
        lines.append(f"{part.name}:")
        lines += [f"  {source}" for source in part.sources]
        if variant.energy and part.power is not None:
            lines += [f"  {source}" for source in part.power.sources]
    if variant.energy and unit.n_nodes != 1:
        lines.append("A host draws its share of a node, or what its nodes draw together.")
    if variant.real_network:
        lines += machine.network.sources
    lines += [f"{remark}." for remark in machine.remarks]
    return lines
