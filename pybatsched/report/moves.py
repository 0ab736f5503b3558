"""Jobs that a policy has moved from one cluster to another while they waited, by what it tells of them.

The metadata of a job's last segment may say ``moves=2;resubmitted=5;cluster=ctc``: how often it was moved, how often it
was withdrawn from a queue to be placed anew, and where it ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pybatsched.metrics.outcomes import JobRecord, words_of

MOVES: Final = "moves"
RESUBMITTED: Final = "resubmitted"
CLUSTER: Final = "cluster"


class Moved(NamedTuple):
    """A job that was moved or withdrawn."""

    job: str
    moves: float
    resubmitted: float | None
    cluster: str
    wait_s: float


def are_told(records: Iterable[JobRecord]) -> bool:
    """Whether moves are told of some job. O(n)."""
    return any(MOVES in record.facts for record in records)


def moved(records: Iterable[JobRecord]) -> list[Moved]:
    """Give all jobs that were moved or withdrawn, those moved most first, then those withdrawn most. O(n log n)."""
    found = [
        Moved(
            record.id,
            record.facts[MOVES],
            record.facts.get(RESUBMITTED),
            words_of(record.segments[-1].metadata).get(CLUSTER, ""),
            record.wait_s,
        )
        for record in records
        if record.facts.get(MOVES) or (MOVES in record.facts and record.facts.get(RESUBMITTED))
    ]
    return sorted(found, key=lambda one: (-one.moves, -(one.resubmitted or 0)))  # stable: then in the order given


def told_of(record: JobRecord, metadata: str, clusters: Sequence[str]) -> str:
    """Say in a line where a segment was, and how often its job was moved; empty if nothing is known of it.

    Where is what its metadata says, else these clusters.
    """
    named = words_of(metadata).get(CLUSTER) if metadata else None
    where = [named] if named else clusters
    words = [f"cluster{'s' if len(where) > 1 else ''} {', '.join(where)}"] if where else []
    if MOVES in record.facts:
        words.append(_times("moved", record.facts[MOVES]))
    if RESUBMITTED in record.facts:
        words.append(_times("resubmitted", record.facts[RESUBMITTED]))
    return ", ".join(words)


def _times(what: str, n: float) -> str:
    """Say how often.

    >>> _times("moved", 0), _times("moved", 1), _times("moved", 2)
    ('not moved', 'moved once', 'moved 2 times')
    """
    if n == 0:
        return f"not {what}"
    return f"{what} once" if n == 1 else f"{what} {n:g} times"
