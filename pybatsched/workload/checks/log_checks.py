"""Checks of a whole log that are the same for all formats: units of time limits, gaps, use beyond the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from operator import sub
from typing import Final

from pybatsched.workload.formats.conversion import procs_in_use
from pybatsched.workload.report import LintReport

_DAY_S: Final = 86_400
_LEAST_GAP_S: Final = 7 * _DAY_S
_FEW_JOBS: Final = 10

MINUTES: Final = "all time limits are below 1,440 s: are they in minutes?"
SECONDS: Final = "all time limits are above 30 days: are they in seconds?"
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
    """Find jobs that, by the log, started when the machine had too few free processors. O(n log n).

    `spans` are the start, run time, size and line of each job; `unit` is what sizes count.
    """
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
