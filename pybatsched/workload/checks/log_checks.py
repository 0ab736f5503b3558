"""Checks of a whole log that are the same for all formats: units of times and limits, gaps, use beyond the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from operator import sub
from statistics import median
from typing import Final

from pybatsched.errors import setting
from pybatsched.workload.formats.conversion import procs_in_use
from pybatsched.workload.report import LintReport

_DAY_S: Final = 86_400
_LEAST_GAP_S: Final = 7 * _DAY_S
_FEW_JOBS: Final = 10
_MANY_JOBS: Final = 1000
_LEAST_BETWEEN_S: Final = 2
_LONG_LOG_S: Final = 30 * 365.25 * _DAY_S
_LONG_RUN_S: Final = 30 * _DAY_S
_SHORT_RUN_S: Final = 60
_NEARLY_ALL: Final = 0.9

MINUTES: Final = "all time limits are below 1,440 s: are they in minutes?"
SECONDS: Final = "all time limits are above 30 days: are they in seconds?"
SHORT_LOG: Final = "all {:,} jobs were submitted within {:,.0f} s, one every 2 s or faster: is the unit of {} right?"
LONG_LOG: Final = "submissions are {:,.0f} years apart: is the unit of {} right?"
LONG_RUNS: Final = "the median run time is {:,.0f} days, more than 30: is the unit of {} right?"
SHORT_RUNS: Final = "the longest of {:,} jobs ran for {:.3g} s, less than a minute: is the unit of {} right?"
MOST_BEYOND: Final = "{:,} of {:,} jobs ran longer than their time limit: is the unit of {} or of {} right?"
GAP: Final = "no submission for a week or more before it (up to {:.0f} days)"
BEYOND_MACHINE: Final = "started while more {} than the machine has were in use (up to {:,} of {:,}: {:.0%})"


def check_units(limits_s: Sequence[float], found: LintReport, line: int) -> None:
    """Find limits whose unit is not plausible, if there are ten or more. O(n)."""
    if len(limits_s) < _FEW_JOBS:
        return
    if max(limits_s) < 1440:
        found.add(MINUTES, "kept as they are", line, "note")
    elif min(limits_s) > 30 * _DAY_S:
        found.add(SECONDS, "kept as they are", line, "note")


def check_times(
    submissions: Sequence[float], run_times_s: Sequence[float], names: tuple[str, str], found: LintReport, line: int
) -> None:
    """Find submissions and run times whose unit is not plausible. O(n log n).

    These are: 1,000 jobs or more, one every 2 s or faster on average, or all of them shorter than a minute; and 10 jobs
    or more over more than 30 years, or with a median run time above 30 days. `names` say where submissions and run
    times come from.
    """
    of_submissions, of_run_times = names
    span_s = max(submissions) - min(submissions) if submissions else 0.0
    if len(submissions) >= _MANY_JOBS and span_s <= _LEAST_BETWEEN_S * len(submissions):
        found.add(SHORT_LOG.format(len(submissions), span_s, of_submissions), "kept as they are", line)
    elif len(submissions) >= _FEW_JOBS and span_s > _LONG_LOG_S:
        found.add(LONG_LOG.format(span_s / (365.25 * _DAY_S), of_submissions), "kept as they are", line)
    if len(run_times_s) >= _FEW_JOBS and (half_s := median(run_times_s)) > _LONG_RUN_S:
        found.add(LONG_RUNS.format(half_s / _DAY_S, of_run_times), "kept as they are", line)
    elif len(run_times_s) >= _MANY_JOBS and (longest_s := max(run_times_s)) < _SHORT_RUN_S:
        found.add(SHORT_RUNS.format(len(run_times_s), longest_s, of_run_times), "kept as they are", line)


def check_beyond(n_beyond: int, n_limits: int, names: tuple[str, str], found: LintReport, line: int | str) -> None:
    """Find a log in which nine of ten jobs or more exceed their time limit, if ten jobs or more have one. O(1)."""
    if n_limits >= _FEW_JOBS and n_beyond >= _NEARLY_ALL * n_limits:
        what = MOST_BEYOND.format(n_beyond, n_limits, *names)
        found.add(
            what,
            f"kept; walltimes are raised to the run times (or {setting('walltimes', 'requested-strict')}: killed)",
            line,
        )


def check_gaps(submissions: Sequence[tuple[float, int]], found: LintReport) -> None:
    """Note times without submissions, given the submissions and their lines. O(n log n)."""
    times = sorted(at for at, _ in submissions)
    if max(map(sub, islice(times, 1, None), times), default=0) < _LEAST_GAP_S:
        return
    long = [
        (gap_s, line)
        for (sooner, _), (later, line) in pairwise(sorted(submissions))
        if (gap_s := later - sooner) >= _LEAST_GAP_S
    ]
    what = GAP.format(max((gap_s for gap_s, _ in long), default=0) / _DAY_S)
    for _, line in long:
        found.add(what, "kept; the machine may have been down, or a part of the log is missing", line, "note")


def check_use(spans: Iterable[tuple[float, float, int, int]], unit: str, found: LintReport) -> None:
    """Find jobs (start, run time, size, line) that, by the log, started on a full machine. O(n log n)."""
    most = 0
    overloaded: list[int] = []
    for used, n, line in procs_in_use(spans):
        if used > most:
            most = used
        if used > found.n_procs and n > 0:
            overloaded.append(line)
    what = BEYOND_MACHINE.format(unit, most, found.n_procs, most / found.n_procs)
    for line in sorted(overloaded):
        found.add(what, "kept; the logged utilisation exceeds 100 %", line)
