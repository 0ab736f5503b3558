"""A table of a platform: the kinds of hosts, with their number and ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pybatsched.core.intervals import IntervalSet
from pybatsched.platform.model import Host, Platform
from pybatsched.text_table import aligned

#: Properties that only number hosts, and so do not make a separate kind.
_NUMBERING = frozenset(("node", "vh"))
_HEAD = ("ids", "hosts", "cores", "speed (Gflop/s)", "cluster", "memory (GB)", "power (W)", "other properties")
_OWN_COLUMN = frozenset(("role", "cluster", "cores", "speed", "memory_gb", "wattage_per_state", "watt_per_state"))


def table(platform: Platform) -> list[str]:
    """Return the lines of the table: one row per kind of hosts, and a last row for all hosts. O(hosts)."""
    rows: list[tuple[str, ...]] = [_HEAD]
    rows += [_row(ids, hosts) for ids, hosts in _kinds(platform.compute)]
    first = platform.n_procs
    rows += [(_ids(first + i, host), *_row(IntervalSet(), [host])[1:]) for i, host in enumerate(platform.storage)]
    n_cores = sum(host.n_cores for host in platform.compute)
    rows.append(("all", f"{platform.n_procs:,}", f"{n_cores:,}", "", "", "", "", f"master {platform.master.name}"))
    return aligned(rows, "lrrrlrrl")


def _ids(first: int, host: Host) -> str:
    return f"{first} ({host.role})" if host.role else str(first)


def _kinds(hosts: Sequence[Host]) -> Iterator[tuple[IntervalSet, list[Host]]]:
    """Group neighbours that differ only in their names and numbers."""
    known: dict[int, tuple[object, ...]] = {}  # hosts of a cluster share their properties

    def kind(host: Host) -> tuple[object, ...]:
        facts = known.get(id(host.properties))
        if facts is None:
            shared = sorted(item for item in host.properties.items() if item[0] not in _NUMBERING)
            facts = known[id(host.properties)] = tuple(shared)
        return host.speeds, host.n_cores, host.pstate, facts

    first = 0
    for _, group in groupby(hosts, key=kind):
        members = list(group)
        yield IntervalSet.span(first, first + len(members)), members
        first += len(members)


def _row(ids: IntervalSet, hosts: Sequence[Host]) -> tuple[str, ...]:
    host = hosts[0]
    facts = host.properties
    others = [f"{key}={value}" for key, value in facts.items() if key not in _OWN_COLUMN | _NUMBERING]
    for key in sorted(_NUMBERING & facts.keys()):
        n = len({other.properties.get(key) for other in hosts})
        others.append(f"{key} ({n:,} values)" if n > 1 else f"{key}={facts[key]}")
    return (
        str(ids),
        f"{len(hosts):,}",
        f"{sum(other.n_cores for other in hosts):,}",
        ", ".join(f"{speed / 1e9:g}" for speed in host.speeds),
        facts.get("cluster", ""),
        facts.get("memory_gb", ""),
        _power(host),
        " ".join(others),
    )


def _power(host: Host) -> str:
    watts = host.wattages()
    return f"{watts[host.pstate].idle:g} to {watts[host.pstate].full:g}" if watts else ""
