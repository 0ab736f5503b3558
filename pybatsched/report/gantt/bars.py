"""Compute the bars of a Gantt chart: times, processors and look of each segment, hold and load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from pybatsched.metrics.outcomes import JobRecord, Lineage, Outcome, facts_of, lineage_of, parse_metadata
from pybatsched.metrics.workload_fields import kind_of
from pybatsched.report.gantt.cluster_rows import Rows

if TYPE_CHECKING:
    from pybatsched.metrics.job_results import JobResults

MOVES: Final = "moves"
RESUBMITTED: Final = "resubmitted"
CLUSTER: Final = "cluster"
#: Of more clusters or nodes of a job, the number is shown.
_N_NAMED: Final = 8


class Moved(NamedTuple):
    """A job that was moved or withdrawn."""

    job: str
    moves: float
    resubmitted: float | None
    cluster: str
    wait_s: float


def moved_jobs(jobs: JobResults) -> list[Moved]:
    """Return all jobs that were moved or withdrawn, sorted by moves, then by withdrawals, largest first. O(n log n)."""
    own = jobs.frame
    rows = zip(own["id"], jobs.column(MOVES), jobs.column(RESUBMITTED), own["metadata"], own["wait_s"], strict=True)
    found = [
        Moved(job_id, moves, resubmitted, parse_metadata(metadata).get(CLUSTER, ""), wait_s)
        for job_id, moves, resubmitted, metadata, wait_s in rows
        if moves or (moves is not None and resubmitted)
    ]
    return sorted(found, key=lambda one: (-one.moves, -(one.resubmitted or 0)))  # stable: ties stay in the given order


def location_text(record: JobRecord, metadata: str, rows: Rows | None, procs: Sequence[tuple[int, int]]) -> str:
    """Return the cluster of a segment, by its metadata or its rows, or its nodes, and its job's moves."""
    named = parse_metadata(metadata).get(CLUSTER) if metadata else None
    where = [named] if named else rows.names(procs) if rows is not None else []
    what = "cluster" if named or rows is None else rows.what
    more = f" and {len(where) - _N_NAMED:,} more" if len(where) > _N_NAMED else ""
    words = [f"{what}{'s' if len(where) > 1 else ''} {', '.join(where[:_N_NAMED])}{more}"] if where else []
    if MOVES in record.facts:
        words.append(_times("moved", record.facts[MOVES]))
    if RESUBMITTED in record.facts:
        words.append(_times("resubmitted", record.facts[RESUBMITTED]))
    return ", ".join(words)


def _times(what: str, n: float) -> str:
    """Return a count of events as text.

    >>> _times("moved", 0), _times("moved", 1), _times("moved", 2)
    ('not moved', 'moved once', 'moved 2 times')
    """
    if n == 0:
        return f"not {what}"
    return f"{what} once" if n == 1 else f"{what} {n:g} times"


#: The look of a bar: one of the first five, plus URGENT for urgent jobs. The script of the page (gantt.js) has the same
#: numbers.
PLAIN, SUSPENDED, LOST, HELD, LOAD = range(5)
URGENT: Final = 8
#: The looks of hosts that are reserved or down, also in gantt.js.
RESERVED: Final = 16
DOWN: Final = 17
#: For each member of the summary with such hosts: their look, and its text. Later ones are drawn over earlier ones.
BLOCKED: Final = {
    "reservations": (RESERVED, "hosts reserved: only jobs of the reservation start there"),
    "unavailable": (DOWN, "hosts down: no job starts there"),
}
#: The legend of each look, in this order. Plain bars have no entry.
LEGEND: Final = {
    SUSPENDED: "suspended: the job continued later with the rest of its work",
    LOST: "lost: the job was killed, and this work is repeated",
    HELD: "processors held for the job that starts there next",
    LOAD: "load: the job has its processors, its work starts afterwards",
    URGENT: "urgent job",
}
#: Prefix of the text about a job's input file in the metadata of a segment.
_INPUT: Final = "input="
#: Jobs get every seventh colour, so that neighbours look different.
_STRIDE: Final = 7


class Bar(NamedTuple):
    """A period of a job, by its number, on half-open intervals of processors; `note` is often empty."""

    begin: float
    end: float
    job: int
    look: int
    procs: Sequence[tuple[int, int]]
    note: str = ""


def bars_of(records: Sequence[JobRecord], rows: Rows | None = None) -> list[Bar]:
    """Return the bars of jobs, numbered in this order, by their starts; `rows` add their clusters. O(n log n)."""
    bars: list[Bar] = []
    known: dict[int, tuple[tuple[int, int], ...]] = {}  # by the identity of a set: many jobs share one
    for number, record in enumerate(records):
        urgent = URGENT if record.fields and kind_of(record.fields) == "urgent" else 0
        if is_plain(record):
            (only,) = record.segments
            procs = known.get(id(only.procs))
            if procs is None:
                procs = known[id(only.procs)] = tuple(only.procs.intervals())
            note = location_text(record, "", rows, procs) if rows is not None else ""
            bars.append(Bar(only.started_at, only.ended_at, number, urgent, procs, note))
        else:
            bars += bars_of_job(number, record, urgent, rows)
    bars.sort(key=attrgetter("begin", "end", "job"))
    return bars


def is_plain(record: JobRecord) -> bool:
    """Return whether a job that ran has a single bar without a note, as most jobs."""
    return len(record.segments) == 1 and not record.segments[0].metadata


def bars_of_job(number: int, record: JobRecord, urgent: int, rows: Rows | None) -> list[Bar]:
    """Return the bars of one job, segment by segment; `urgent` is added to the look of each. O(segments)."""
    parts = record.segments
    lineages = [lineage_of(part.metadata) for part in parts]
    kept = _kept_by_checkpoints(parts, lineages)
    bars = []
    for i, part in enumerate(parts):
        look, notes, procs = PLAIN, [], tuple(part.procs.intervals())
        where = location_text(record, part.metadata, rows, procs)
        if i + 1 < len(parts):
            look = SUSPENDED if kept[i] is None else LOST
            notes.append(_stop_text(lineages[i + 1], is_lost=look == LOST))
        if part.held_s:
            held = f"held for {_seconds(part.held_s)}"
            begin = round(part.started_at - part.held_s, 6)
            bars.append(Bar(begin, part.started_at, number, HELD | urgent, procs, _lines(held, where)))
            notes.append(f"{held} before it started")
        notes += _input_texts(part.metadata)
        lineage, begin = lineages[i], part.started_at
        if lineage is not None and lineage.extra_s > 0 and (look != LOST or kept[i]):  # that of lost work is lost too
            begin = min(round(begin + lineage.extra_s, 6), part.ended_at)
            texts = [] if kept[i] else notes
            load = "\n".join(texts) or f"{_seconds(lineage.extra_s)} before its work"
            bars.append(Bar(part.started_at, begin, number, LOAD | urgent, procs, _lines(load, where)))
        if kept_s := kept[i]:
            end = min(round(begin + kept_s, 6), part.ended_at)
            text = f"{_seconds(kept_s)} kept by a checkpoint"
            bars.append(Bar(begin, end, number, PLAIN | urgent, procs, _lines(text, where)))
            begin = end
        if begin < part.ended_at or begin == part.started_at:  # else the segment ended before its work started
            bars.append(Bar(begin, part.ended_at, number, look | urgent, procs, _lines(*notes, where)))
    return bars


def _kept_by_checkpoints(parts: Sequence[Outcome], lineages: Sequence[Lineage | None]) -> list[float | None]:
    """Return how many seconds of each segment checkpoints have kept; None if no restart follows it. O(segments)."""
    begins = [0.0] * len(parts)  # the progress of the job when the work of a segment begins
    own_s = [0.0] * len(parts)
    for i, (part, lineage) in enumerate(zip(parts, lineages, strict=True)):
        own_s[i] = max(part.runtime_s - (0.0 if lineage is None else lineage.extra_s), 0.0)
        is_rest = i > 0 and lineage is not None and lineage.is_rest
        begins[i] = begins[i - 1] + own_s[i - 1] if is_rest else 0.0 if lineage is None else lineage.kept_s
    found: list[float | None] = []
    kept_to: float | None = None  # the least progress from which a later segment restarts
    for i in reversed(range(len(parts))):
        found.append(None if kept_to is None else round(min(max(kept_to - begins[i], 0.0), own_s[i]), 6))
        lineage = lineages[i]
        if i and not (lineage is not None and lineage.is_rest):
            kept_to = begins[i] if kept_to is None else min(kept_to, begins[i])
    return found[::-1]


def _lines(*texts: str) -> str:
    """Join the texts that are not empty as lines."""
    return "\n".join(text for text in texts if text)


def _input_texts(metadata: str) -> list[str]:
    """Return how a job got its input file, from `input=` and facts in its metadata; empty without them."""
    words = next((part.removeprefix(_INPUT) for part in metadata.split(";") if part.startswith(_INPUT)), "")
    if not words:
        return []
    facts = facts_of(metadata)
    load_s, wait_s = facts.get("load_s", 0.0), facts.get("load_wait_s", 0.0)
    if load_s > 0:
        return [f"{words}: loaded in {_seconds(load_s)}"]
    return [f"{words}: reused{f' after {_seconds(wait_s)} of its load by another job' if wait_s > 0 else ''}"]


def _stop_text(follower: Lineage | None, *, is_lost: bool) -> str:
    """Return why a segment ended before its job did, from the lineage of the next segment."""
    word = "suspended" if follower is not None and follower.is_rest else "killed"
    by = f", preempted by {follower.by}" if follower is not None and follower.by else ""
    return f"{word}{by}{'; this work is lost' if is_lost else ''}"


def _seconds(duration_s: float) -> str:
    return f"{duration_s:,.6f}".rstrip("0").rstrip(".") + " s"


def legend_of(looks: Iterable[int]) -> dict[int, str]:
    """Return the legend of these looks. O(n)."""
    found = {part for look in looks for part in (look & ~URGENT, look & URGENT)}
    return {look: text for look, text in LEGEND.items() if look in found}


def color_of(job: int, n_colors: int) -> int:
    """Return the index of a job's colour in a palette."""
    return job * _STRIDE % n_colors
