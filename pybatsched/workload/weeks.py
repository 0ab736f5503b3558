"""The weeks of a log, their utilisation and offered load, by which studies select weeks.

A week has 168 hours. The first one starts with the first submission. The utilisation is that of the log: every job
occupies its processors from its logged start (submission + wait) to its end, whenever it was submitted. The offered
load is the work of the jobs submitted in the week, over the capacity of the machine in that week. A workload of a week
has the jobs *submitted* in that week, not those that still run from the week before.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pybatsched.core.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import select
from pybatsched.workload.reading import read, read_file
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection

if TYPE_CHECKING:
    from pybatsched.workload.logs.table import LogTable

WEEK_S: Final = 7 * 24 * 3600
#: The range of the utilisation of busy weeks.
USUAL: Final = (0.7, math.inf)
_N_SHOWN: Final = 60
_MOST_WEEKS: Final = 100_000  # two thousand years: the log is wrong


class Week(NamedTuple):
    """One of the `n_weeks` of a log, counted from 1. `utilisation` is None if the log has no start times."""

    number: int
    starts_at: float
    utilisation: float | None
    n_jobs: int
    offered_load: float = 0.0
    n_weeks: int = 0

    @property
    def ends_at(self) -> float:
        """The end of the week, which is not part of it."""
        return self.starts_at + WEEK_S


def weeks_of(log: LogTable, n_procs: int, size: str = "allocated") -> list[Week]:
    """Return the weeks of a log, up to the last submission. O(jobs + weeks in which jobs run)."""
    rows = log.runnable(size).select("submitted_at", "wait_s", "run_s", "n_procs").iter_rows()
    jobs = [(at, at + max(wait_s or 0.0, 0.0), run_s, n) for at, wait_s, run_s, n in rows]
    submissions = log.jobs["submitted_at"]
    first_at = min(submissions.filter(submissions >= 0), default=0.0)
    return _weeks(log.source, jobs, first_at, n_procs, knows_waits=log.knows_waits)


def weeks_of_workload(workload: Workload) -> list[Week]:
    """Return the weeks of a workload of any format, up to the last submission. O(jobs + weeks)."""
    run_s = {name: delay_of(profile, workload.profiles) for name, profile in workload.profiles.items()}
    times, waits = [float(at) for at in workload.values("subtime")], workload.values("logged_wait_s")
    jobs = [
        (at, at + (wait if is_number(wait) else 0.0), known_s, size)
        for at, wait, profile, size in zip(
            times, waits, workload.values("profile"), workload.values("res"), strict=True
        )
        if (known_s := run_s[profile]) is not None
    ]
    first_at = min(times, default=0.0)
    return _weeks(workload.source, jobs, first_at, workload.n_procs, knows_waits=any(map(is_number, waits)))


def _weeks(
    source: str, jobs: Sequence[tuple[float, float, float, int]], first_at: float, n_procs: int, *, knows_waits: bool
) -> list[Week]:
    """Return the weeks of jobs, given by submission, start, run time and size."""
    if not jobs:
        return []
    n_weeks = int((max(job[0] for job in jobs) - first_at) // WEEK_S) + 1
    if n_weeks > _MOST_WEEKS:
        raise InputError(f"{source}: expected a log of at most {_MOST_WEEKS:,} weeks, found {n_weeks:,}")
    used = [0.0] * n_weeks
    submitted = [0] * n_weeks
    offered = [0.0] * n_weeks
    for submit, start, run, n in jobs:
        submitted[int((submit - first_at) // WEEK_S)] += 1
        offered[int((submit - first_at) // WEEK_S)] += n * run
        end = start + run
        week = int((start - first_at) // WEEK_S)
        while week < n_weeks and (begins_at := first_at + week * WEEK_S) < end:
            used[week] += n * (min(end, begins_at + WEEK_S) - max(start, begins_at))
            week += 1
    most = n_procs * WEEK_S
    return [
        Week(index + 1, first_at + index * WEEK_S, area / most if knows_waits else None, n, work / most, n_weeks)
        for index, (area, n, work) in enumerate(zip(used, submitted, offered, strict=True))
    ]


Range: TypeAlias = tuple[float, float]


@dataclasses.dataclass(frozen=True, slots=True)
class WeekChoice:
    """Which weeks of a log to use: `all` with jobs, those with some `numbers`, or the busy ones.

    Busy weeks have a logged `utilisation` in a range (default: 0.7 or more), or an `offered_load` in a range. The first
    week, in which the machine fills up, and the last one, which is incomplete, are not busy weeks unless `keep_ends`.
    `max_weeks` limits their number.
    """

    all: bool = False
    numbers: tuple[int, ...] = ()
    utilisation: Range | None = None
    offered_load: Range | None = None
    keep_ends: bool = False
    max_weeks: int | None = None

    def of(self, weeks: Sequence[Week], source: str) -> list[Week]:
        """Return the chosen weeks with jobs, in order of time. O(weeks). Raises InputError for none."""
        for number in self.numbers:
            if number > len(weeks):
                raise InputError(f"week {number}: expected 1 to {len(weeks)}, the weeks of {source}")
        if self.numbers:
            found = [week for week in weeks if week.number in self.numbers]
            if empty := [week.number for week in found if not week.n_jobs]:
                raise InputError(f"week {empty[0]}: expected a week with jobs, found none in that week of {source}")
            return found
        with_jobs = [week for week in weeks if week.n_jobs]
        if not self.all:
            try:
                with_jobs = [week for week in self._busy(weeks) if week.n_jobs]
            except InputError as error:
                raise InputError(f"{source}: {error}") from None
        if not with_jobs:
            raise InputError(f"{source}: {self._why_none(weeks)}")
        return with_jobs[: self.max_weeks]

    def _busy(self, weeks: Sequence[Week]) -> list[Week]:
        if self.offered_load is None:
            return busy_weeks(weeks, *(self.utilisation or USUAL), keep_ends=self.keep_ends)
        least, most = self.offered_load
        inner = weeks if self.keep_ends else weeks[1:-1]
        return [week for week in inner if least <= week.offered_load <= most]

    def _why_none(self, weeks: Sequence[Week]) -> str:
        """Return why no week is chosen, with the values of all weeks."""
        if self.all or not weeks:
            return "expected a log with jobs, found none"
        of_load = self.offered_load is not None
        (least, most), name = (
            self.offered_load or self.utilisation or USUAL,
            "offered load" if of_load else "utilisation",
        )
        values = [week.offered_load if of_load else week.utilisation for week in weeks]
        shown = ", ".join(f"{value:.0%}" for value in values[:_N_SHOWN] if value is not None)
        more = ", …" if len(values) > _N_SHOWN else ""
        ends = "" if self.keep_ends else ", which is neither the first nor the last"
        bound = f"of {least:g} or more" if math.isinf(most) else f"of {least:g} to {most:g}"
        return f"expected a week with a{'n' if of_load else ' logged'} {name} {bound}{ends}, found {shown}{more}"


def busy_weeks(
    weeks: Sequence[Week], least: float = 0.7, most: float = float("inf"), *, keep_ends: bool = False
) -> list[Week]:
    """Return the weeks with a utilisation in a range, without the first and last one. Raises InputError."""
    if any(week.utilisation is None for week in weeks):
        raise InputError(
            "the log has no waits, so the utilisation of its weeks is unknown; choose weeks by their offered load, by "
            "their numbers, or all"
        )
    inner = weeks if keep_ends else weeks[1:-1]
    return [week for week in inner if week.utilisation is not None and least <= week.utilisation <= most]


def workloads_of(
    log: LogTable, weeks: Sequence[Week], options: LogOptions, selection: Selection
) -> Iterator[tuple[Week, Workload, Report]]:
    """Yield a workload of the jobs submitted in each of these weeks, with the week in its `about`. O(n) each."""
    from pybatsched.workload.logs.conversion import to_workload  # noqa: PLC0415  it needs polars

    for week in weeks:
        window = dataclasses.replace(selection, from_at=week.starts_at, to_at=week.ends_at)
        workload, report = to_workload(log, options, window)
        workload.about["week"] = _about(week)
        yield week, workload, report


def _about(week: Week) -> dict[str, Any]:
    """Return the member `week` of a workload file: its number, and its utilisation or offered load."""
    if week.utilisation is None:
        return {"number": week.number, "offered_load": round(week.offered_load, 4)}
    return {"number": week.number, "logged_utilisation": round(week.utilisation, 4)}


def workloads_of_weeks(
    workload: Workload, weeks: Sequence[Week], selection: Selection, report: Report
) -> Iterator[tuple[Week, Workload, Report]]:
    """Yield a workload of the jobs submitted in each of these weeks, as `workloads_of`, for any format. O(n) each."""
    for week in weeks:
        window = dataclasses.replace(selection, from_at=week.starts_at, to_at=week.ends_at, clock="log")
        made, own = select(workload, window, report)
        made.about["week"] = _about(week)
        yield week, made, own


def range_of(text: str, what: str = "utilisation") -> Range:
    """Read a range of utilisation or load: 0.7:1.0, or 0.7: for no upper limit. Raises InputError."""
    low, colon, high = text.partition(":")
    try:
        least, most = float(low or 0), float(high or "inf")
    except ValueError:
        least, most = 1.0, 0.0
    if not colon or not 0 <= least <= most:
        raise InputError(f"{what}: expected a range such as 0.7:1.0 or 0.7:, found {text}")
    return least, most


def weekly(
    path: str | Path,
    options: LogOptions,
    selection: Selection,
    choice: WeekChoice,
    source: str | None = None,
    *,
    lenient: bool = False,
) -> Iterator[tuple[Week, Workload, Report]]:
    """Yield a workload of each chosen week of a file of any format. Up to 100 µs per job. Raises InputError."""
    source = str(path) if source is None else source
    if format_of(path, options.format, options.mapping) == "SWF":
        from pybatsched.workload.logs.conversion import machine_of  # noqa: PLC0415  it needs polars
        from pybatsched.workload.logs.table import LogTable  # noqa: PLC0415  it needs polars

        log = read_file(path, format=options.format, lenient=lenient)
        assert isinstance(log, LogTable)
        if selection.partitions:
            log = log.of_partitions(selection.partitions)
        weeks = weeks_of(log, machine_of(log, options)[0], options.size)
        yield from workloads_of(log, choice.of(weeks, source), options, selection)
    else:
        workload, report = read(path, options, Selection(partitions=selection.partitions), lenient=lenient)
        of_all = dataclasses.replace(selection, partitions=())
        yield from workloads_of_weeks(workload, choice.of(weeks_of_workload(workload), source), of_all, report)
