"""Checks of a platform file: everything that Batsim would reject, and warnings for the user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from pybatsched.errors import InputError
from pybatsched.platform import simgrid4, xml
from pybatsched.platform.model import DEFAULT_MASTER, Host, Platform, check_energy
from pybatsched.platform.roles import assemble

#: Above this number of hosts Batsim needs at least half a minute to load; its load time is quadratic.
MANY_HOSTS = 50_000
_LOAD_S_PER_HOST2 = 134 / 163_840**2  # measured with Batsim 4.2.1

_LINE = re.compile(r"\bline (\d+)")
_NUMBER = re.compile(r"(\d+)(\D*)$")


class Finding(NamedTuple):
    """A finding about a file; `is_refused` if Batsim would abort. Line 0 means the whole file."""

    line: int
    text: str
    is_refused: bool


def check(
    data: bytes,
    source: str,
    *,
    master: str = DEFAULT_MASTER,
    roles: Mapping[str, str] | None = None,
    energy: bool = False,
    batsim5: bool = False,
) -> list[Finding]:
    """Check a platform file from end to end. O(bytes + n log n).

    All mistakes in elements are reported. The master, the roles and the network are checked only if the elements are
    correct, so that one mistake is not reported twice. With `energy`, the file must have the properties that ``-E``
    needs. With `batsim5`, the check is for Batsim 5 and SimGrid 4 instead of Batsim 4.
    """
    problems: list[InputError] = []
    try:
        content = xml.content_of(data, source, problems)
    except InputError as error:  # not readable as XML, so the rest of the file is unknown
        return [_refused(problem, source) for problem in (error, *problems)]
    found = [_refused(problem, source) for problem in problems]
    found += [Finding(line, f"{source}: line {line}: {text}", refused) for line, text, refused in content.remarks()]
    if problems:
        return sorted(found)
    found += [Finding(line, f"{source}: line {line}: {text}", True) for line, text in content.network.refused]
    if batsim5:
        found += [_different(one, source) for one in simgrid4.of_network(content)]
    try:
        platform = assemble(content.hosts, source, master=master, roles=roles)
        if energy:
            check_energy(platform)
    except InputError as error:
        return sorted([*found, _refused(error, source)])
    if batsim5:
        found += [_different(one, source) for one in simgrid4.of_hosts(platform)]
    paths = xml.paths_of(content, platform)
    missing = () if content.network.refused else paths.missing
    found += [Finding(line, f"{source}: line {line}: {text}", True) for line, text in missing]
    found += [Finding(line, f"{source}: line {line}: {text}", False) for line, text in paths.notes]
    found += [Finding(0, text, False) for text in platform.remarks]
    if paths.hop_s == float("inf"):
        found.append(Finding(0, f"{source}: no message can cross {paths.hop_at}: its bandwidth is 0", True))
    elif paths.hop_s:
        found.append(Finding(0, _hops(source, paths.hop_s, paths.hop_at), False))
    found += _sizes(platform)
    return sorted(found)


def _different(one: simgrid4.Difference, source: str) -> Finding:
    return Finding(one.line, f"{source}: line {one.line}: {one.text}", one.is_refused)


def _refused(error: InputError, source: str) -> Finding:
    """Return the finding for an error of the reader, whose text has the line after the file name."""
    match = _LINE.search(str(error).removeprefix(source))
    return Finding(int(match[1]) if match else 0, str(error), True)


def _hops(source: str, hop_s: float, hop_at: str) -> str:
    return (
        f"{source}: Batsim's internal messages take time, up to {hop_s:.3g} s on {hop_at}: jobs start and end later by "
        "this time, and events of one instant are sent separately"
    )


def _sizes(platform: Platform) -> list[Finding]:
    """Return warnings about large machines and about the order of ids."""
    texts = (many_hosts(platform), _disorder(platform))
    return [Finding(0, f"{platform.source}: {text}", False) for text in texts if text]


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
