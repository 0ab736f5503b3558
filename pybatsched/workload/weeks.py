"""The weeks of a log and how busy the machine was in them, as the studies choose them.

A week is 168 hours; the first one begins with the first submission. How busy the machine was is what the log says:
every job occupies its processors from its logged start (submission + wait) to its end, whatever week it was submitted
in. A study takes the jobs *submitted* in a week, so jobs carried over from the week before are not in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.workload.formats.swf import Options, SwfTrace, size_of, to_workload
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection

WEEK_S: Final = 7 * 24 * 3600
_MOST_WEEKS: Final = 100_000  # two thousand years: a time in it is wrong


class Week(NamedTuple):
    """One week of a log, counted from 1.

    `utilisation` is the mean share of the machine that was in use, None where the log tells no waits and so no starts.
    """

    number: int
    starts_at: float
    utilisation: float | None
    n_jobs: int

    @property
    def ends_at(self) -> float:
        """The first instant that is not in the week any more."""
        return self.starts_at + WEEK_S


def weeks_of(trace: SwfTrace, n_procs: int, size: str = "allocated") -> list[Week]:
    """Give the weeks of a log, up to the one with the last submission. O(jobs + weeks that jobs run through).

    Jobs of no size or run time occupy nothing and submit nothing. An unknown wait is none, unless all are unknown.
    """
    jobs = [
        (submit, submit + max(wait, 0.0), run, n)
        for submit, wait, run, allocated, requested in zip(
            *(trace.numbers[index] for index in (1, 2, 3, 4, 7)), strict=True
        )
        if submit >= 0 and run > 0 and (n := size_of(allocated, requested, size)) > 0
    ]
    if not jobs:
        return []
    first_at = min(at for at in trace.numbers[1] if at >= 0)
    n_weeks = int((max(job[0] for job in jobs) - first_at) // WEEK_S) + 1
    if n_weeks > _MOST_WEEKS:
        raise InputError(f"{trace.source}: expected a log of at most {_MOST_WEEKS:,} weeks, found {n_weeks:,}")
    used = [0.0] * n_weeks
    submitted = [0] * n_weeks
    for submit, start, run, n in jobs:
        submitted[int((submit - first_at) // WEEK_S)] += 1
        end = start + run
        week = int((start - first_at) // WEEK_S)
        while week < n_weeks and (begins_at := first_at + week * WEEK_S) < end:
            used[week] += n * (min(end, begins_at + WEEK_S) - max(start, begins_at))
            week += 1
    knows_waits = trace.knows_waits
    return [
        Week(index + 1, first_at + index * WEEK_S, area / (n_procs * WEEK_S) if knows_waits else None, n)
        for index, (area, n) in enumerate(zip(used, submitted, strict=True))
    ]


def busy_weeks(
    weeks: Sequence[Week], least: float = 0.7, most: float = float("inf"), *, keep_ends: bool = False
) -> list[Week]:
    """Give the weeks with a utilisation in a range, both ends included; not the first and last week of the log.

    These two are cut by the log itself: a machine that fills up, and an incomplete week. Raises InputError where the
    log does not tell how busy its machine was.
    """
    if any(week.utilisation is None for week in weeks):
        raise InputError(
            "the log has no waits (field 3 is -1 for all jobs), so nobody knows how busy its weeks were; expected a "
            "log with waits, or one week by its number"
        )
    inner = weeks if keep_ends else weeks[1:-1]
    return [week for week in inner if week.utilisation is not None and least <= week.utilisation <= most]


def workloads_of(
    trace: SwfTrace, weeks: Sequence[Week], options: Options, selection: Selection
) -> Iterator[tuple[Week, Workload, Report]]:
    """Make a workload of the jobs submitted in each of these weeks; its `about` says which week it is. O(n) each."""
    for week in weeks:
        window = dataclasses.replace(selection, from_at=week.starts_at, to_at=week.ends_at)
        workload, report = to_workload(trace, options, window)
        workload.about["week"] = {"number": week.number}
        if week.utilisation is not None:
            workload.about["week"]["logged_utilisation"] = round(week.utilisation, 4)
        yield week, workload, report


def range_of(text: str) -> tuple[float, float]:
    """Read a range of utilisation: 0.7:1.0, or 0.7: for no upper end. Raises InputError."""
    low, colon, high = text.partition(":")
    try:
        least, most = float(low or 0), float(high or "inf")
    except ValueError:
        least, most = 1.0, 0.0
    if not colon or not 0 <= least <= most:
        raise InputError(f"utilisation: expected a range as 0.7:1.0 or 0.7:, found {text}")
    return least, most
