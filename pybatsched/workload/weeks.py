"""The weeks of a log and their utilisation, by which studies select weeks.

A week has 168 hours. The first one starts with the first submission. The utilisation is that of the log: every job
occupies its processors from its logged start (submission + wait) to its end, whenever it was submitted. A workload of
a week has the jobs *submitted* in that week, not those that still run from the week before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.workload.formats.swf import SwfOptions, SwfTrace, size_of, to_workload
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection

WEEK_S: Final = 7 * 24 * 3600
_MOST_WEEKS: Final = 100_000  # two thousand years: the log is wrong


class Week(NamedTuple):
    """One week of a log, counted from 1.

    `utilisation` is the mean utilisation of the machine, None if the log has no waits and so no start times.
    """

    number: int
    starts_at: float
    utilisation: float | None
    n_jobs: int

    @property
    def ends_at(self) -> float:
        """The end of the week, which is not part of it."""
        return self.starts_at + WEEK_S


def weeks_of(trace: SwfTrace, n_procs: int, size: str = "allocated") -> list[Week]:
    """Return the weeks of a log, up to the last submission. O(jobs + weeks in which jobs run).

    Jobs without size or run time do not count. An unknown wait counts as 0, unless all are unknown.
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
    """Return the weeks with a utilisation in a range, both ends included, without the first and last week.

    In the first week the machine fills up, and the last one is incomplete. Raises InputError if the utilisation is
    unknown.
    """
    if any(week.utilisation is None for week in weeks):
        raise InputError(
            "the log has no waits (field 3 is -1 for all jobs), so the utilisation of its weeks is unknown; expected a "
            "log with waits, or one week by its number"
        )
    inner = weeks if keep_ends else weeks[1:-1]
    return [week for week in inner if week.utilisation is not None and least <= week.utilisation <= most]


def workloads_of(
    trace: SwfTrace, weeks: Sequence[Week], options: SwfOptions, selection: Selection
) -> Iterator[tuple[Week, Workload, Report]]:
    """Yield a workload of the jobs submitted in each of these weeks, with the week in its `about`. O(n) each."""
    for week in weeks:
        window = dataclasses.replace(selection, from_at=week.starts_at, to_at=week.ends_at)
        workload, report = to_workload(trace, options, window)
        workload.about["week"] = {"number": week.number}
        if week.utilisation is not None:
            workload.about["week"]["logged_utilisation"] = round(week.utilisation, 4)
        yield week, workload, report


def range_of(text: str) -> tuple[float, float]:
    """Read a range of utilisation: 0.7:1.0, or 0.7: for no upper limit. Raises InputError."""
    low, colon, high = text.partition(":")
    try:
        least, most = float(low or 0), float(high or "inf")
    except ValueError:
        least, most = 1.0, 0.0
    if not colon or not 0 <= least <= most:
        raise InputError(f"utilisation: expected a range such as 0.7:1.0 or 0.7:, found {text}")
    return least, most
