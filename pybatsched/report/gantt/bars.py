"""The bars of a Gantt chart: what the jobs of a run did on which processors, and how each is shown. Nothing is drawn.

A job has a bar for each of its segments, and one for each time that processors were held for it before a start. What
came in front of a segment's own work, as the load of an input file, is a bar of its own at its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from pybatsched.metrics.fields import kind_of
from pybatsched.metrics.outcomes import JobRecord, Lineage, facts_of, lineage_of, words_of
from pybatsched.report.gantt.cluster_rows import Rows

if TYPE_CHECKING:
    from pybatsched.metrics.job_table import JobTable

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


def moved(jobs: JobTable) -> list[Moved]:
    """Return all jobs that were moved or withdrawn, those moved most first, then those withdrawn most. O(n log n)."""
    own = jobs.frame
    rows = zip(own["id"], jobs.column(MOVES), jobs.column(RESUBMITTED), own["metadata"], own["wait_s"], strict=True)
    found = [
        Moved(job_id, moves, resubmitted, words_of(metadata).get(CLUSTER, ""), wait_s)
        for job_id, moves, resubmitted, metadata, wait_s in rows
        if moves or (moves is not None and resubmitted)
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


#: How a bar looks: one of the first five, and URGENT besides. The script of the page (gantt.js) has the same numbers.
PLAIN, SUSPENDED, LOST, HELD, LOAD = range(5)
URGENT: Final = 8
#: What a chart's legend says of each, in its order. Plain bars explain themselves.
LEGEND: Final = {
    SUSPENDED: "suspended: the job went on later with the rest of its work",
    LOST: "lost: the job was killed and began anew",
    HELD: "processors held for the job that starts there next",
    LOAD: "load: the job has its processors, its own work begins after it",
    URGENT: "urgent job",
}
#: What stands before the words on a job's input file in the metadata of a segment.
_INPUT: Final = "input="
#: Jobs get every seventh colour, so that neighbours do not look alike.
_STRIDE: Final = 7


class Bar(NamedTuple):
    """A stretch of time on some processors, which are given as intervals without their ends.

    `job` is the number of its job; `note` says what is special, if anything is.
    """

    begin: float
    end: float
    job: int
    look: int
    procs: Sequence[tuple[int, int]]
    note: str = ""


def bars_of(records: Sequence[JobRecord], rows: Rows | None = None) -> list[Bar]:
    """Give the bars of jobs in the order of their begins; jobs are numbered as they come. O(n log n).

    With the rows of a machine that has several clusters, the note of each says on which it is.
    """
    bars: list[Bar] = []
    known: dict[int, tuple[tuple[int, int], ...]] = {}  # by the identity of a set: many jobs have had the same one
    for number, record in enumerate(records):
        urgent = URGENT if record.fields and kind_of(record.fields) == "urgent" else 0
        if is_plain(record):
            (only,) = record.segments
            procs = known.get(id(only.procs))
            if procs is None:
                procs = known[id(only.procs)] = tuple(only.procs.intervals())
            note = told_of(record, "", rows.names(procs)) if rows is not None else ""
            bars.append(Bar(only.started_at, only.ended_at, number, urgent, procs, note))
        else:
            bars += bars_of_job(number, record, urgent, rows)
    bars.sort(key=attrgetter("begin", "end", "job"))
    return bars


def is_plain(record: JobRecord) -> bool:
    """Whether a job that ran has one bar that nothing is told of, as nearly all jobs of nearly all runs."""
    return len(record.segments) == 1 and not record.segments[0].metadata


def bars_of_job(number: int, record: JobRecord, urgent: int, rows: Rows | None) -> list[Bar]:
    """Give the bars of one job, segment by segment; `urgent` is part of how each looks. O(segments)."""
    parts = record.segments
    lineages = [lineage_of(part.metadata) for part in parts]
    anew = max((i for i, lineage in enumerate(lineages) if i and not (lineage and lineage.is_rest)), default=0)
    bars = []
    for i, part in enumerate(parts):
        look, notes, procs = PLAIN, [], tuple(part.procs.intervals())
        where = told_of(record, part.metadata, rows.names(procs) if rows is not None else ())
        if i + 1 < len(parts):
            look = LOST if i < anew else SUSPENDED
            notes.append(_stop_told(lineages[i + 1], is_lost=look == LOST))
        if part.held_s:
            held = f"held for {_seconds(part.held_s)}"
            begin = round(part.started_at - part.held_s, 6)
            bars.append(Bar(begin, part.started_at, number, HELD | urgent, procs, _lines(held, where)))
            notes.append(f"{held} before it started")
        notes += _input_told(part.metadata)
        lineage, begin = lineages[i], part.started_at
        if lineage is not None and lineage.extra_s > 0 and look != LOST:  # of what is lost, the load is lost as well
            begin = min(round(begin + lineage.extra_s, 6), part.ended_at)
            load = "\n".join(notes) or f"{_seconds(lineage.extra_s)} before its work"
            bars.append(Bar(part.started_at, begin, number, LOAD | urgent, procs, _lines(load, where)))
        if begin < part.ended_at or begin == part.started_at:  # else it was over before its work began
            bars.append(Bar(begin, part.ended_at, number, look | urgent, procs, _lines(*notes, where)))
    return bars


def _lines(*texts: str) -> str:
    """Put texts below each other, those that say something."""
    return "\n".join(text for text in texts if text)


def _input_told(metadata: str) -> list[str]:
    """Say what became of a job's input file, where its policy tells: `input=` in words, and facts in seconds."""
    words = next((part.removeprefix(_INPUT) for part in metadata.split(";") if part.startswith(_INPUT)), "")
    if not words:
        return []
    facts = facts_of(metadata)
    load_s, wait_s = facts.get("load_s", 0.0), facts.get("load_wait_s", 0.0)
    if load_s > 0:
        return [f"{words}: loaded in {_seconds(load_s)}"]
    return [f"{words}: reused{f' after {_seconds(wait_s)} of its load by another job' if wait_s > 0 else ''}"]


def _stop_told(follower: Lineage | None, *, is_lost: bool) -> str:
    """Say why a segment ended before its job did; the one that follows knows."""
    word = "suspended" if follower is not None and follower.is_rest else "killed"
    by = f", preempted by {follower.by}" if follower is not None and follower.by else ""
    return f"{word}{by}{'; this work is lost' if is_lost else ''}"


def _seconds(duration_s: float) -> str:
    return f"{duration_s:,.6f}".rstrip("0").rstrip(".") + " s"


def legend_of(bars: Iterable[Bar]) -> dict[int, str]:
    """Give what a legend must explain: exactly the looks that are there. O(n)."""
    return legend_of_looks({bar.look for bar in bars})


def legend_of_looks(looks: Iterable[int]) -> dict[int, str]:
    """Give what a legend must explain of these looks. O(n)."""
    found = {part for look in looks for part in (look & ~URGENT, look & URGENT)}
    return {look: text for look, text in LEGEND.items() if look in found}


def color_of(job: int, n_colors: int) -> int:
    """Give the place of a job's colour in a palette."""
    return job * _STRIDE % n_colors
