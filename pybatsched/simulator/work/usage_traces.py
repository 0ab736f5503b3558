"""Usage traces: profiles of type `usage_trace`, which say how much of its host each rank of a job uses, phase by phase.

The profile names a file that lists one file a rank; each line of these is ``RANK m_usage USAGE FLOPS``: so many flops
on each of the cores that the usage (from 0 to 1) stands for, one at least. Ranks do not wait for each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set as AbstractSet
from pathlib import Path
from typing import Any, Final, TypeAlias

from pybatsched.errors import InputError

#: The phases of a rank: (usage of the host, flops on each core).
Phases: TypeAlias = tuple[tuple[float, float], ...]

_ACTION: Final = "m_usage"
_N_WORDS: Final = 4


def read_ranks(profile: str, described: Mapping[str, Any], source: str) -> tuple[Phases, ...]:
    """Read the trace of a profile that stands in the workload file `source`. Raises InputError that names the file."""
    listed = described.get("trace")
    if not isinstance(listed, str):
        raise InputError(f"{source}: profile {profile}, field trace: expected the name of a file, found {listed!r:.60}")
    place = _below(Path(source).parent, listed)
    names = [line.rstrip() for line in _lines(place, f"{source}: profile {profile}")]
    if not names:
        raise InputError(f"{place}: expected the name of a file for each rank, found none")
    return tuple(_phases(_below(place.parent, name), rank) for rank, name in enumerate(names))


def check_places(counts: AbstractSet[int], job: Mapping[str, Any], who: str) -> None:
    """Raise InputError unless a job has one place for its ranks in all its traces, which are so many (`counts`).

    Batsim keeps the places of the first trace for those that come after it, so they have to be of one size.
    """
    places = job.get("smpi_ranks_to_hosts_mapping")
    if len(counts) > 1:
        sizes = ", ".join(map(str, sorted(counts)))
        raise InputError(f"{who}: its usage traces have {sizes} ranks; expected as many in each")
    if counts and places and {len(places)} != counts:
        raise InputError(f"{who}: smpi_ranks_to_hosts_mapping has {len(places)} ranks, the trace {min(counts)}")


def hosts_of(ranks: Sequence[Phases], job: Mapping[str, Any], hosts: Sequence[int]) -> list[int]:
    """Give the host of each rank: as the job says, or in turn on as many as it asks for."""
    n_hosts = min(job["res"], len(hosts))
    places = job.get("smpi_ranks_to_hosts_mapping") or [rank % n_hosts for rank in range(len(ranks))]
    return [hosts[place] for place in places]


def n_cores_used(usage: float, n_cores: int) -> int:
    """Give the cores that a usage stands for, halves rounded up.

    >>> n_cores_used(0.5, 5), n_cores_used(0.1, 4), n_cores_used(1.0, 16)
    (3, 1, 16)
    """
    return max(math.floor(usage * n_cores + 0.5), 1)


def _phases(path: Path, rank: int) -> Phases:
    phases = []
    for number, line in enumerate(_lines(path, f"rank {rank}"), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}, line {number}"
        if len(words) != _N_WORDS or words[0] != str(rank) or words[1] != _ACTION:
            raise InputError(f"{where}: expected '{rank} {_ACTION} USAGE FLOPS', found {line!r:.80}")
        try:
            usage, flops = float(words[2]), float(words[3])
        except ValueError:
            raise InputError(f"{where}: expected numbers, found {line!r:.80}") from None
        if not (0 <= usage <= 1 and 0 <= flops < math.inf):
            raise InputError(f"{where}: expected a usage from 0 to 1 and flops from 0, found {line!r:.80}")
        phases.append((usage, flops))
    return tuple(phases)


def _below(folder: Path, name: str) -> Path:
    """Give the file of a name in a directory, as Batsim does: one that begins with a slash is there, too."""
    return folder / name.lstrip("/")


def _lines(path: Path, who: str) -> list[str]:
    try:
        if path.exists() and not path.is_file():  # a device may have no end
            raise InputError(f"{who}: cannot read the usage trace {path}: it is no file")
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{who}: cannot read the usage trace {path}: {error}") from None
