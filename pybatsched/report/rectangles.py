"""The rectangles of a Gantt chart as arrays: those of the bars of `bars_of`, one for each interval of processors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pybatsched.report.bands import Rows
from pybatsched.report.bars import URGENT, bars_of, bars_of_job
from pybatsched.report.sheet import Jobs, laid_out
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
    of jobs. The bars of the others are made one by one; so are all where there are clusters to be told.
    """
    urgent = (jobs.kinds == "urgent") * np.int64(URGENT)
    plain, place, lengths, intervals = jobs.holdings
    if rows is not None:
        plain, place = plain[:0], place[:0]
        bars = bars_of([record for record in jobs.records if record.ran], rows)
    else:
        bars = [bar for k, record in jobs.special for bar in bars_of_job(k, record, int(urgent[k]), rows)]
    more = laid_out([bar.procs if rows is None else rows.placed(bar.procs) for bar in bars])
    place = np.concatenate((place, np.arange(len(bars)) + len(lengths)))
    lengths, intervals = np.concatenate((lengths, more[0])), np.concatenate((intervals, more[1]))
    begin = np.concatenate((jobs.started_at[plain], [bar.begin for bar in bars]))
    end = np.concatenate((jobs.ended_at[plain], [bar.end for bar in bars]))
    job = np.concatenate((plain, np.array([bar.job for bar in bars], np.int64)))
    look = np.concatenate((urgent[plain], np.array([bar.look for bar in bars], np.int64)))
    order = np.lexsort((job, end, begin))
    texts = [""] * len(plain) + [bar.note for bar in bars]
    notes = list(dict.fromkeys(["", *(texts[i] for i in order.tolist())]))
    numbers = {text: number for number, text in enumerate(notes)}
    note = np.array([numbers[text] for text in texts], np.int64)
    n, first = lengths[place[order]], (np.cumsum(lengths) - lengths)[place[order]]
    low, high = intervals[np.arange(n.sum()) + np.repeat(first - (np.cumsum(n) - n), n)].T
    left, right, job, look, note = (np.repeat(column[order], n) for column in (begin, end, job, look, note))
    return Rectangles(left, right, low, high, job, look, note, notes)
