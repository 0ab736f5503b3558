"""What became of the jobs of a run: rows of ``_jobs.csv``, and the jobs of users that they are put together to.

A job that was killed and requeued, or replaced by one of another size, is several rows and one job: from its first
submission to its last end. The engine writes the lineage into the rows' metadata
(``parent=w0!12;segment=1;kind=requeue``, ``;work=rest`` where the segment goes on with what was left, ``;by=w0!7`` for
the job it made room for, ``;extra_s=2`` for time that is no work: the price of a swap, a load before it), and
``held_s=1`` where processors were kept for a job so long before it started. So the same comes from files of real
Batsim.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.core.derive import id_from_note
from pybatsched.core.events import COMPLETED_KILLED, NOTHING, REJECTED
from pybatsched.core.intervals import EMPTY, IntervalSet

#: Run times below this many seconds count as this many in a bounded slowdown.
DEFAULT_TAU_S: Final = 10.0
#: One tick of the files. A run of no time counts as one tick in a slowdown without a bound.
TICK_S: Final = 1e-6
#: What the engine writes into metadata itself: none of it is a fact that a policy tells of a job.
_OWN_WORDS: Final = frozenset(
    ("parent", "segment", "kind", "work", "by", "extra_s", "held_s", "replaced_by", "unused_spare_of")
)
_FACT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
#: How the metadata of a job begins that was registered to be at hand and was not needed.
UNUSED_SPARE: Final = "unused_spare_of="


class Outcome(NamedTuple):
    """What became of one job of ``_jobs.csv``. A rejected one has no start, run time and processors.

    `procs` are the processors themselves, where somebody wants to know them.
    """

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
        """When it ended, on the tick of the files: a job that starts then must not seem to overlap by a last bit."""
        return round(self.started_at + self.runtime_s, 6)

    @property
    def held_s(self) -> float:
        """How long its processors were kept for it before it started, by its metadata; 0 if they were not.

        >>> Outcome("w0!a", "COMPLETED_SUCCESSFULLY", 0.0, 5.0, 20.0, 2, "parent=w0!b;held_s=1.5").held_s
        1.5
        """
        if "held_s=" not in self.metadata:  # nearly all jobs of nearly all runs
            return 0.0
        try:
            held_s = float(words_of(self.metadata).get("held_s", "0"))
        except ValueError:
            return 0.0
        return held_s if 0 < held_s < math.inf else 0.0


class Lineage(NamedTuple):
    """What the metadata of a segment says: whose it is, which, how its run time counts, and for whom it made room."""

    parent: str
    segment: int
    is_rest: bool
    extra_s: float
    by: str = ""


def words_of(metadata: str) -> dict[str, str]:
    """Give what metadata says by name: ``name=value`` between semicolons. O(length)."""
    return dict(part.partition("=")[::2] for part in metadata.split(";"))


class JobRecord(NamedTuple):
    """One job of a user, joined from its rows.

    `runtime_s` is the work that counts: a job that was restarted from scratch has the run time of its last segment, one
    that went on with the rest the sum of them, both without the time it took to bring it back. `segments` are what ran,
    in order; of a rejected job none. `fields` are the job's own in the workload file, where that was read. What is
    measured of jobs is in `pybatsched.metrics.job_table`.
    """

    id: str
    state: str
    submitted_at: float
    runtime_s: float
    segments: tuple[Outcome, ...]
    fields: Mapping[str, Any] = NOTHING

    @property
    def ran(self) -> bool:
        """Whether it ran at all, and so has waits and slowdowns."""
        return bool(self.segments)

    @property
    def n_procs(self) -> int:
        """The processors of its last segment, or those it asked for."""
        return self.segments[-1].n_procs if self.segments else int(self.fields.get("res", 0))

    @property
    def started_at(self) -> float:
        """When it first began to run."""
        return self.segments[0].started_at

    @property
    def ended_at(self) -> float:
        """When it ended for good."""
        return self.segments[-1].ended_at

    @property
    def facts(self) -> Mapping[str, float]:
        """The numbers in the metadata of its last segment, by name; none if it never ran."""
        return facts_of(self.segments[-1].metadata) if self.segments else NOTHING


def lineage_of(metadata: str) -> Lineage | None:
    """Read what a segment's metadata says of its lineage; None for a job that is its own.

    >>> lineage_of("parent=w0!12;segment=1;kind=requeue;work=rest;by=w0!7;extra_s=2.5")
    Lineage(parent='w0!12', segment=1, is_rest=True, extra_s=2.5, by='w0!7')
    """
    if "parent=" not in metadata:
        return None
    said = words_of(metadata)
    if "parent" not in said:
        return None
    try:
        segment, extra_s = int(said.get("segment", "1")), float(said.get("extra_s", "0"))
    except ValueError:
        segment, extra_s = 1, 0.0
    parent, by = id_from_note(said["parent"]), id_from_note(said.get("by", ""))
    return Lineage(parent, segment, said.get("work") == "rest", extra_s, by)


def facts_of(metadata: str) -> Mapping[str, float]:
    """Give the numbers in metadata, ``name=value`` between semicolons, but for the engine's own words. O(length).

    >>> facts_of("parent=w0!12;segment=1;kind=replace;extra_s=64;load_s=64;file=a.dat;reused=0")
    {'load_s': 64.0, 'reused': 0.0}
    """
    if "=" not in metadata:  # nearly all jobs of nearly all runs
        return NOTHING
    found = {}
    for part in metadata.split(";"):
        match = _FACT.fullmatch(part.strip())
        if match is not None and match[1] not in _OWN_WORDS and math.isfinite(value := float(match[2])):
            found[match[1]] = value
    return found


def put_together(first: Outcome | None, later: Sequence[Outcome], fields: Mapping[str, Any] = NOTHING) -> JobRecord:
    """Make one job of its segments: the original row, if it is known, and those that went on for it. O(k log k)."""
    if first is not None and not later:  # nearly all jobs of nearly all runs
        ran = first.state != REJECTED
        runtime_s = max(first.runtime_s, 0.0) if ran else 0.0
        return JobRecord(first.id, first.state, first.submitted_at, runtime_s, (first,) if ran else (), fields)
    chain: list[tuple[Outcome, Lineage | None]] = [] if first is None else [(first, None)]
    chain += sorted(((outcome, lineage_of(outcome.metadata)) for outcome in later), key=_place_in_chain)
    last = chain[-1][0]
    parts = [(outcome, lineage) for outcome, lineage in chain if outcome.state != REJECTED]
    runtime_s = 0.0
    for outcome, lineage in reversed(parts):
        # One that was killed before its work began has none, and takes nothing from that of the others.
        runtime_s += max(outcome.runtime_s - (lineage.extra_s if lineage is not None else 0.0), 0.0)
        if lineage is None or not lineage.is_rest:
            break
    job_id = first.id if first is not None else chain[0][1].parent if chain[0][1] is not None else last.id
    segments = tuple(outcome for outcome, _ in parts)
    return JobRecord(job_id, last.state, chain[0][0].submitted_at, runtime_s, segments, fields)


def _place_in_chain(part: tuple[Outcome, Lineage | None]) -> int:
    return part[1].segment if part[1] is not None else 0


def joined(outcomes: Iterable[Outcome], fields: Mapping[str, Mapping[str, Any]] = NOTHING) -> list[JobRecord]:
    """Put all rows of a run together to jobs, in the order in which they were first over. O(rows).

    `fields` are the jobs of the workload files by their full ids; members like user or deadline come from there.
    """
    firsts: dict[str, Outcome] = {}
    later: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if not outcome.metadata:  # nearly all jobs of nearly all runs
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
        records.append(put_together(outcome, segments, fields.get(job_id, NOTHING)))
    records += [put_together(None, segments, fields.get(parent, NOTHING)) for parent, segments in later.items()]
    return records


#: States after which a job may go on as another one.
MAY_GO_ON: Final = frozenset((COMPLETED_KILLED, REJECTED))
