"""Outcomes of jobs: rows of ``_jobs.csv``, and the users' jobs that are joined from them.

A job that was killed and requeued, or replaced by one of another size, has several rows but is one job: from its first
submission to its last end. The engine writes the lineage into the metadata of the rows
(``parent=w0!12;segment=1;kind=requeue``). ``;work=rest`` marks a segment that continues with the remaining work,
``;by=w0!7`` names the job that the kill made room for, and ``;extra_s=2`` is time that is not work, such as a swap or a
load. ``;kept_s=55`` is run time of earlier segments that a checkpoint has kept. ``held_s=1`` is the time for which
processors were kept for the job before it started. Files of real Batsim have the same metadata.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from pybatsched.core.derive import id_from_note
from pybatsched.core.events import COMPLETED_KILLED, NOTHING, REJECTED
from pybatsched.core.intervals import EMPTY, IntervalSet

#: Names that the engine writes into metadata: they are not facts of a policy.
_ENGINE_NAMES: Final = frozenset(
    ("parent", "segment", "kind", "work", "by", "extra_s", "held_s", "kept_s", "replaced_by", "unused_spare_of")
)
_FACT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
#: The figure that identifies the jobs that were rejected or killed, or did not end.
LOST_JOBS: Final = "lost_jobs"
#: States after which a job may continue as another job. It is lost if it does not.
MAY_CONTINUE: Final = frozenset((COMPLETED_KILLED, REJECTED))
#: Start of the metadata of a spare job that was registered in advance and not needed.
UNUSED_SPARE: Final = "unused_spare_of="


class Outcome(msgspec.Struct, frozen=True):
    """One row of ``_jobs.csv``. A rejected job has no start, run time or processors."""

    id: str
    state: str
    submitted_at: float
    started_at: float
    runtime_s: float
    n_procs: int
    metadata: str = ""
    procs: IntervalSet = EMPTY

    @property
    def ended_at(self) -> float:
        """The end, rounded to the tick of the files, so that a job that starts then does not overlap by rounding."""
        return round(self.started_at + self.runtime_s, 6)

    @property
    def held_s(self) -> float:
        """The time for which processors were kept for the job before its start, from its metadata; 0 if none.

        >>> Outcome("w0!a", "COMPLETED_SUCCESSFULLY", 0.0, 5.0, 20.0, 2, "parent=w0!b;held_s=1.5").held_s
        1.5
        """
        if "held_s=" not in self.metadata:  # the usual case
            return 0.0
        try:
            held_s = float(parse_metadata(self.metadata).get("held_s", "0"))
        except ValueError:
            return 0.0
        return held_s if 0 < held_s < math.inf else 0.0


class Lineage(NamedTuple):
    """The lineage in a segment's metadata. `by` is the job that it made room for; checkpoints kept `kept_s` seconds."""

    parent: str
    segment: int
    is_rest: bool
    extra_s: float
    by: str = ""
    kept_s: float = 0.0


def parse_metadata(metadata: str) -> dict[str, str]:
    """Return the values in metadata by name: ``name=value`` between semicolons. O(length)."""
    return dict(part.partition("=")[::2] for part in metadata.split(";"))


class JobRecord(NamedTuple):
    """One job of a user, joined from its rows.

    `runtime_s` is the work that counts, without `extra_s`. If the job restarted from scratch, it is the run time of the
    last segment. If the job continued, it is the sum of the segments. Run time that a checkpoint has kept of earlier
    segments is added. `segments` are the runs in order; a rejected job has none. `fields` are the job's fields in the
    workload file, if that was read. Measures of jobs are in `pybatsched.metrics.job_results`.
    """

    id: str
    state: str
    submitted_at: float
    runtime_s: float
    segments: tuple[Outcome, ...]
    fields: Mapping[str, Any] = NOTHING

    @property
    def ran(self) -> bool:
        """Whether the job ran at all. Only such jobs have waits and slowdowns."""
        return bool(self.segments)

    @property
    def n_procs(self) -> int:
        """The processors of the last segment; those requested if the job never ran."""
        return self.segments[-1].n_procs if self.segments else int(self.fields.get("res", 0))

    @property
    def started_at(self) -> float:
        """The first start."""
        return self.segments[0].started_at

    @property
    def ended_at(self) -> float:
        """The last end."""
        return self.segments[-1].ended_at

    @property
    def facts(self) -> Mapping[str, float]:
        """The numbers in the metadata of the last segment, by name; none if the job never ran."""
        return facts_of(self.segments[-1].metadata) if self.segments else NOTHING


def lineage_of(metadata: str) -> Lineage | None:
    """Parse the lineage in a segment's metadata; None for a job that continues no other.

    >>> lineage_of("parent=w0!12;segment=1;kind=requeue;work=rest;by=w0!7;extra_s=2.5")
    Lineage(parent='w0!12', segment=1, is_rest=True, extra_s=2.5, by='w0!7', kept_s=0.0)
    """
    if "parent=" not in metadata:
        return None
    values = parse_metadata(metadata)
    if "parent" not in values:
        return None
    try:
        segment, extra_s = int(values.get("segment", "1")), float(values.get("extra_s", "0"))
        kept_s = float(values.get("kept_s", "0"))
    except ValueError:
        segment, extra_s, kept_s = 1, 0.0, 0.0
    parent, by = id_from_note(values["parent"]), id_from_note(values.get("by", ""))
    return Lineage(parent, segment, values.get("work") == "rest", extra_s, by, kept_s)


def facts_of(metadata: str) -> Mapping[str, float]:
    """Return the numbers in metadata, ``name=value`` between semicolons, without the engine's own. O(length).

    >>> facts_of("parent=w0!12;segment=1;kind=replace;extra_s=64;load_s=64;file=a.dat;reused=0")
    {'load_s': 64.0, 'reused': 0.0}
    """
    if "=" not in metadata:  # the usual case
        return NOTHING
    found = {}
    for part in metadata.split(";"):
        match = _FACT.fullmatch(part.strip())
        if match is not None and match[1] not in _ENGINE_NAMES and math.isfinite(value := float(match[2])):
            found[match[1]] = value
    return found


def join_segments(first: Outcome | None, later: Sequence[Outcome], fields: Mapping[str, Any] = NOTHING) -> JobRecord:
    """Return one job joined from its segments: the original row, if known, and later ones. O(k log k)."""
    if first is not None and not later:  # the usual case
        ran = first.state != REJECTED
        runtime_s = max(first.runtime_s, 0.0) if ran else 0.0
        return JobRecord(first.id, first.state, first.submitted_at, runtime_s, (first,) if ran else (), fields)
    chain: list[tuple[Outcome, Lineage | None]] = [] if first is None else [(first, None)]
    rows = ((outcome, lineage_of(outcome.metadata)) for outcome in later)
    chain += sorted(rows, key=lambda part: part[1].segment if part[1] is not None else 0)
    last = chain[-1][0]
    parts = [(outcome, lineage) for outcome, lineage in chain if outcome.state != REJECTED]
    runtime_s = 0.0
    for outcome, lineage in reversed(parts):
        # A segment that was killed before its work started has no work; it must not reduce the sum.
        runtime_s += max(outcome.runtime_s - (lineage.extra_s if lineage is not None else 0.0), 0.0)
        if lineage is not None:
            runtime_s += lineage.kept_s
        if lineage is None or not lineage.is_rest:
            break
    job_id = first.id if first is not None else chain[0][1].parent if chain[0][1] is not None else last.id
    segments = tuple(outcome for outcome, _ in parts)
    return JobRecord(job_id, last.state, chain[0][0].submitted_at, runtime_s, segments, fields)


def joined(outcomes: Iterable[Outcome], fields: Mapping[str, Mapping[str, Any]] = NOTHING) -> list[JobRecord]:
    """Join all rows of a run to jobs, in the order of their first rows; `fields` are by full job id. O(rows)."""
    firsts: dict[str, Outcome] = {}
    later: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if not outcome.metadata:  # the usual case
            firsts[outcome.id] = outcome
            continue
        if outcome.metadata.startswith(UNUSED_SPARE):
            continue
        lineage = lineage_of(outcome.metadata)
        if lineage is None:
            firsts[outcome.id] = outcome
        else:
            later.setdefault(lineage.parent, []).append(outcome)
    records = []
    for job_id, outcome in firsts.items():
        segments = later.pop(job_id, ())
        records.append(join_segments(outcome, segments, fields.get(job_id, NOTHING)))
    records += [join_segments(None, segments, fields.get(parent, NOTHING)) for parent, segments in later.items()]
    return records


def digest_of_ids(job_ids: Iterable[str]) -> dict[str, int]:
    """Return the figure `lost_jobs`, a number that identifies these jobs in any order; empty without jobs. O(n log n).

    >>> digest_of_ids(["w0!2", "w0!1"]) == digest_of_ids(["w0!1", "w0!2"]), digest_of_ids([])
    (True, {})
    """
    text = "\n".join(sorted(job_ids))
    return {LOST_JOBS: int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)} if text else {}
