"""Usage traces: profiles of type `usage_trace`, with the host usage of each rank of a job, phase by phase.

The profile names a file that lists one file per rank. Each line of these is ``RANK m_usage USAGE FLOPS``: so many
flops on each of the used cores. USAGE, from 0 to 1, is the share of used cores; at least one core is used. Ranks do
not wait for each other.
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
    """Read the trace of a profile of the workload file `source`. InputError names the file."""
    listed = described.get("trace")
    if not isinstance(listed, str):
        raise InputError(f"{source}: profile {profile}, field trace: expected the name of a file, found {listed!r:.60}")
    path = _below(Path(source).parent, listed)
    names = [line.rstrip() for line in _lines(path, f"{source}: profile {profile}")]
    if not names:
        raise InputError(f"{path}: expected the name of a file for each rank, found none")
    return tuple(_phases(_below(path.parent, name), rank) for rank, name in enumerate(names))


def check_ranks(counts: AbstractSet[int], job: Mapping[str, Any], owner: str) -> None:
    """Raise InputError unless all usage traces of a job have the same number of ranks, which its mapping also has.

    `counts` are the numbers of ranks. Batsim uses the mapping of the first trace for all later ones.
    """
    places = job.get("smpi_ranks_to_hosts_mapping")
    if len(counts) > 1:
        sizes = ", ".join(map(str, sorted(counts)))
        raise InputError(f"{owner}: expected usage traces with the same number of ranks, found {sizes} ranks")
    if counts and places and {len(places)} != counts:
        raise InputError(
            f"{owner}: smpi_ranks_to_hosts_mapping: expected {min(counts)} ranks, as in the trace, found {len(places)}"
        )


def hosts_of(ranks: Sequence[Phases], job: Mapping[str, Any], hosts: Sequence[int]) -> list[int]:
    """Return the host of each rank: by the mapping of the job, or round-robin over the requested number of hosts."""
    n_hosts = min(job["res"], len(hosts))
    places = job.get("smpi_ranks_to_hosts_mapping") or [rank % n_hosts for rank in range(len(ranks))]
    return [hosts[place] for place in places]


def n_cores_used(usage: float, n_cores: int) -> int:
    """Return the number of cores that a usage corresponds to, halves rounded up.

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
        where = f"{path}: line {number}"
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
    """Return the path of a file in a directory. As in Batsim, a leading slash is ignored."""
    return folder / name.lstrip("/")


def _lines(path: Path, owner: str) -> list[str]:
    try:
        if path.exists() and not path.is_file():  # a device may never end
            raise InputError(f"{owner}: usage trace {path}: cannot be read: it is not a regular file")
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{owner}: usage trace {path}: cannot be read: {error}") from None
