"""The rectangles of a Gantt chart as arrays: those of the bars of `bars_of`, one for each interval of processors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from pybatsched.report.bands import Interval, Rows
from pybatsched.report.bars import URGENT, Bar, bars_of_job, is_plain
from pybatsched.report.sheet import Jobs
from pybatsched.report.stairs import Counts, Numbers


class Rectangles(NamedTuple):
    """Rectangles in the order of `bars_of`; `note` is the place of each one's text in `notes`, the first is empty."""

    left: Numbers
    right: Numbers
    low: Counts
    high: Counts
    job: Counts
    look: Counts
    note: Counts
    notes: list[str]


def rectangles_of(jobs: Jobs, rows: Rows | None = None) -> Rectangles:
    """Give the rectangles of the jobs that ran, which are numbered as they come. O(n log n + r) for r rectangles.

    Nearly all jobs of nearly all runs have one bar that nothing need be said about, and what it needs is in the columns
    of jobs. The bars of the others are made one by one.
    """
    urgent = jobs.is_urgent * np.int64(URGENT)
    plain: list[int] = []
    others: list[Bar] = []
    procs: list[Sequence[Interval]] = []  # those of bars, none of them twice
    places: list[int] = []  # of the processors of each plain bar there
    known: dict[int, int] = {}  # the same by the identity of a set: many jobs have had the same one
    for number, record in enumerate(jobs.ran):
        if rows is not None or not is_plain(record):
            others += bars_of_job(number, record, int(urgent[number]), rows)
            continue
        held = record.segments[0].procs
        place = known.setdefault(id(held), len(procs))
        if place == len(procs):
            procs.append(tuple(held.intervals()))
        plain.append(number)
        places.append(place)
    places += range(len(procs), len(procs) + len(others))
    procs += [bar.procs if rows is None else rows.placed(bar.procs) for bar in others]
    begin = np.concatenate((jobs.started_at[plain], [bar.begin for bar in others]))
    end = np.concatenate((jobs.ended_at[plain], [bar.end for bar in others]))
    job = np.array(plain + [bar.job for bar in others], np.int64)
    look = np.concatenate((urgent[plain], np.array([bar.look for bar in others], np.int64)))
    order = np.lexsort((job, end, begin))
    texts = [""] * len(plain) + [bar.note for bar in others]
    notes = list(dict.fromkeys(["", *(texts[i] for i in order.tolist())]))
    numbers = {text: number for number, text in enumerate(notes)}
    note = np.array([numbers[text] for text in texts], np.int64)
    n, low, high = _spread(procs, np.array(places, np.int64)[order])
    left, right, job, look, note = (np.repeat(column[order], n) for column in (begin, end, job, look, note))
    return Rectangles(left, right, low, high, job, look, note, notes)


def _spread(procs: Sequence[Sequence[Interval]], places: Counts) -> tuple[Counts, Counts, Counts]:
    """Give how many intervals there are at each of these places, and all of them in a row: begins and ends."""
    lengths = np.array([len(intervals) for intervals in procs], np.int64)
    bounds = np.array(list(chain.from_iterable(procs)), np.int64).reshape(-1, 2)
    n = lengths[places]
    first = (np.cumsum(lengths) - lengths)[places]
    row = np.arange(n.sum()) + np.repeat(first - (np.cumsum(n) - n), n)
    return n, bounds[row, 0], bounds[row, 1]
