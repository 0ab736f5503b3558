"""Checks of a whole log that are the same for all formats: units of times and limits, gaps, use beyond the machine."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from pybatsched.errors import setting
from pybatsched.workload.logs.table import applying, procs_in_use
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


def check_units(limits_s: pl.Series, found: LintReport, line: int) -> None:
    """Find limits whose unit is not plausible, if there are ten or more. O(n)."""
    if len(limits_s) < _FEW_JOBS:
        return
    if (limits_s < 1440).all():
        found.add(MINUTES, "kept as they are", line, "note")
    elif (limits_s > 30 * _DAY_S).all():
        found.add(SECONDS, "kept as they are", line, "note")


def check_times(
    submissions: pl.Series, run_times_s: pl.Series, names: tuple[str, str], found: LintReport, line: int
) -> None:
    """Find submissions and run times whose unit is not plausible. O(n log n).

    These are: 1,000 jobs or more, one every 2 s or faster on average, or all of them shorter than a minute; and 10 jobs
    or more over more than 30 years, or with a median run time above 30 days. `names` say where submissions and run
    times come from.
    """
    of_submissions, of_run_times = names
    first_at, last_at = _number(submissions.min()), _number(submissions.max())
    longest_s, half_s = _number(run_times_s.max()), _number(run_times_s.median())
    span_s = last_at - first_at
    if len(submissions) >= _MANY_JOBS and span_s <= _LEAST_BETWEEN_S * len(submissions):
        found.add(SHORT_LOG.format(len(submissions), span_s, of_submissions), "kept as they are", line)
    elif len(submissions) >= _FEW_JOBS and span_s > _LONG_LOG_S:
        found.add(LONG_LOG.format(span_s / (365.25 * _DAY_S), of_submissions), "kept as they are", line)
    if len(run_times_s) >= _FEW_JOBS and half_s > _LONG_RUN_S:
        found.add(LONG_RUNS.format(half_s / _DAY_S, of_run_times), "kept as they are", line)
    elif len(run_times_s) >= _MANY_JOBS and longest_s < _SHORT_RUN_S:
        found.add(SHORT_RUNS.format(len(run_times_s), longest_s, of_run_times), "kept as they are", line)


def _number(value: Any) -> float:
    """Return a figure of a column of numbers; 0 if the column is empty."""
    return 0.0 if value is None else float(value)


def check_beyond(n_beyond: int, n_limits: int, names: tuple[str, str], found: LintReport, line: int | str) -> None:
    """Find a log in which nine of ten jobs or more exceed their time limit, if ten jobs or more have one. O(1)."""
    if n_limits >= _FEW_JOBS and n_beyond >= _NEARLY_ALL * n_limits:
        what = MOST_BEYOND.format(n_beyond, n_limits, *names)
        found.add(
            what,
            f"kept; walltimes are raised to the run times (or {setting('walltimes', 'requested-strict')}: killed)",
            line,
        )


def check_gaps(submissions: pl.DataFrame, found: LintReport) -> None:
    """Note times without submissions, given `submitted_at` and `line` of jobs. O(n log n)."""
    gaps = submissions.sort("submitted_at", "line").with_columns(gap_s=pl.col("submitted_at").diff())
    what = GAP.format(_number(gaps["gap_s"].max()) / _DAY_S)
    remedy = "kept; the machine may have been down, or a part of the log is missing"
    for rule_count in applying(gaps, {what: pl.col("gap_s") >= _LEAST_GAP_S}):
        found.add_rule_count(rule_count, remedy)


def check_use(spans: pl.DataFrame, unit: str, found: LintReport) -> None:
    """Find jobs, as `table.spans` returns them, that started on a full machine by the log. O(n log n)."""
    use = procs_in_use(spans)
    most = int(_number(use["used"].max()))
    what = BEYOND_MACHINE.format(unit, most, found.n_procs, most / found.n_procs)
    overloaded = (pl.col("used") > found.n_procs) & (pl.col("change") > 0)
    for rule_count in applying(use.sort("line"), {what: overloaded}):
        found.add_rule_count(rule_count, "kept; the logged utilisation exceeds 100 %", "odd")
