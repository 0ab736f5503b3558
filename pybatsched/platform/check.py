"""Checks of a platform file: everything that Batsim would reject, and warnings for the user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from pybatsched.errors import InputError
from pybatsched.platform import xml
from pybatsched.platform.elements import Content
from pybatsched.platform.model import DEFAULT_MASTER, Host, Platform, check_energy
from pybatsched.platform.notes import Remark
from pybatsched.platform.roles import assemble

#: Above this number of hosts Batsim needs at least half a minute to load; its load time is quadratic.
MANY_HOSTS = 50_000
_LOAD_S_PER_HOST2 = 134 / 163_840**2  # measured with Batsim 4.2.1

_LINE = re.compile(r"\bline (\d+)")
_NUMBER = re.compile(r"(\d+)(\D*)$")
#: The outermost zone, which SimGrid creates.
ROOT: Final = "_world_"
#: Settings that exclude parallel tasks, which Batsim always has.
_MODELS: Final = ("cpu/model", "network/model")


def check(
    data: bytes,
    source: str,
    *,
    master: str = DEFAULT_MASTER,
    roles: Mapping[str, str] | None = None,
    energy: bool = False,
    batsim5: bool = False,
) -> list[Remark]:
    """Return all mistakes in elements; without any, those of roles and the network. O(bytes + n log n)."""
    problems: list[InputError] = []
    try:
        content = xml.content_of(data, source, problems)
    except InputError as error:  # not readable as XML, so the rest of the file is unknown
        return [_refused(problem, source) for problem in (error, *problems)]
    found = [_refused(problem, source) for problem in problems]
    found += _in_file(source, content.notes.remarks())
    if problems:
        return sorted(found)
    found += _in_file(source, ((line, text, True) for line, text in content.network.refused))
    if batsim5:
        found += _in_file(source, _differences_in_network(content))
    try:
        platform = assemble(content.hosts, source, master=master, roles=roles)
        if energy:
            check_energy(platform)
    except InputError as error:
        return sorted([*found, _refused(error, source)])
    if batsim5:
        found += _in_file(source, _differences_in_hosts(platform))
    paths = xml.paths_of(content, platform)
    missing = () if content.network.refused else paths.missing
    found += _in_file(source, ((line, text, True) for line, text in missing))
    found += _in_file(source, ((line, text, False) for line, text in paths.notes))
    found += [Remark(0, text, False) for text in platform.remarks]
    if paths.hop_s == float("inf"):
        found.append(Remark(0, f"{source}: no message can cross {paths.hop_at}: its bandwidth is 0", True))
    elif paths.hop_s:
        slow = (
            f"Batsim's internal messages take time, up to {paths.hop_s:.3g} s on {paths.hop_at}: jobs start and end "
            "later by this time, and events of one instant are sent separately"
        )
        found.append(Remark(0, f"{source}: {slow}", False))
    warnings = (many_hosts(platform), _disorder(platform))
    found += [Remark(0, f"{source}: {text}", False) for text in warnings if text]
    return sorted(found)


def _in_file(source: str, remarks: Iterable[tuple[int, str, bool]]) -> list[Remark]:
    """Return remarks whose texts have the file and the line."""
    return [Remark(line, f"{source}: line {line}: {text}", is_refused) for line, text, is_refused in remarks]


def _refused(error: InputError, source: str) -> Remark:
    """Return the finding for an error of the reader, whose text has the line after the file name."""
    match = _LINE.search(str(error).removeprefix(source))
    return Remark(int(match[1]) if match else 0, str(error), True)


def many_hosts(platform: Platform) -> str:
    """Return a warning if Batsim needs long to load the platform; empty if not."""
    n = len(platform.hosts)
    if n <= MANY_HOSTS:
        return ""
    return (
        f"{n:,} hosts: Batsim needs about {_LOAD_S_PER_HOST2 * n * n:,.0f} s to load them (its load time is "
        "quadratic); a coarser unit (a node, a partition) loads in seconds"
    )


def _disorder(platform: Platform) -> str:
    """Return a warning if the order of names as text, which is the order of ids, differs from their numbers."""
    for one, other in pairwise(platform.compute):
        first, second = _numbered(one), _numbered(other)
        if first is not None and second is not None and first[::2] == second[::2] and first[1] > second[1]:
            return (
                f"ids follow the order of names as text, so {one.name!r:.80} comes before {other.name!r:.80}; to keep "
                "the order of numbers, use numbers of equal width, such as radical 100-115"
            )
    return ""


def _numbered(host: Host) -> tuple[str, int, str] | None:
    match = _NUMBER.search(host.name)
    return (host.name[: match.start()], int(match[1]), match[2]) if match and len(match[1]) < 19 else None


# --- Batsim 5 on SimGrid 4.0: the file format is the same, but SimGrid creates the outermost zone, a file may select
# fewer models, and Batsim always checks the pstates of hosts


def _differences_in_network(content: Content) -> Iterator[Remark]:
    """Yield the differences in settings and zones. O(zones)."""
    for key in _MODELS:
        if key in content.settings:
            text = f"<config> changes {key}; expected its default: SimGrid 4 has only one model for parallel tasks"
            yield Remark(content.settings[key], text, True)
    is_reported = False
    for zone in content.network.zones:
        tag = "cluster" if zone.topology else "zone"
        name = f"<{tag} id={zone.id if zone.id.isprintable() else ascii(zone.id):.80}>"
        if zone.id == ROOT:
            yield Remark(zone.line, f"{name}: SimGrid 4 uses this id itself; expected another id", True)
        if zone.topology not in {"", "FLAT"} and zone.parent is not None and not zone.parent.id:
            text = f"{name} of topology {zone.topology} is not in a <zone>; expected one, as SimGrid 4 aborts without"
            yield Remark(zone.line, text, True)
        if zone.topology == "FLAT" and zone.own.keys() - {"role"} and not is_reported:
            is_reported = True
            text = f"{name}: in Batsim 5 its properties belong only to its hosts and are not in their zone_properties"
            yield Remark(zone.line, text, False)


def _differences_in_hosts(platform: Platform) -> Iterator[Remark]:
    """Yield the hosts whose pstates Batsim 5 rejects; it checks them with and without energy. O(hosts)."""
    seen: set[int] = set()
    for host in (*platform.hosts, platform.master):
        text = _why_rejected(host) if host.line not in seen else ""
        if text:
            seen.add(host.line)  # hosts of a cluster are alike
            yield Remark(host.line, text, True)


def _why_rejected(host: Host) -> str:
    try:
        computing = host.computing_pstates()
    except InputError as error:
        return f"{error} (Batsim 5 also reads it without energy)"
    if host.role in {"storage", "master"}:
        return ""
    for pstate in computing:
        if host.speeds[pstate] <= 0:
            return f"host {host.name!r}: pstate {pstate} has speed 0; expected more, or the pstate in sleep_pstates"
    return ""
