"""The jobs of a run by columns: what the tables and charts of the page are worked out from.

The page wants each number of all jobs some ten times. A column holds what the member of `JobRecord` that has its name
says, to the last bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pybatsched.metrics.classes import MEASURES, kind_of, plain_measures_of, size_class, values_of
from pybatsched.metrics.fields import user_told
from pybatsched.metrics.outcomes import DEFAULT_TAU_S, JobRecord
from pybatsched.metrics.plain import PlainJobs
from pybatsched.metrics.runs import Run
from pybatsched.report.gantt.bars import is_plain

Numbers: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]

_TICKS: Final = 1e6  # a second


def on_tick(values: Numbers) -> Numbers:
    """Round each to six decimals, exactly as `round` does. O(n), some hundredth of its time."""
    with np.errstate(all="ignore"):  # what is beyond all bounds stays so
        ticks = values * _TICKS
        whole = np.rint(ticks)
        # A whole number of ticks over a million is the nearest there is to its decimals. Which whole number it is, the
        # product cannot tell near a half, where its last bit matters.
        is_sure = np.abs(ticks - whole) + np.spacing(np.abs(ticks)) < 0.5
        rounded: Numbers = whole / _TICKS
    for i in np.flatnonzero(~is_sure).tolist():
        rounded[i] = round(float(values[i]), 6)
    return rounded


def at_least(least: float, values: Numbers) -> Numbers:
    """Give each value, or the least where it is below, as ``max(value, least)`` does. O(n)."""
    return np.where(values < least, least, values)


class Stairs(NamedTuple):
    """What `metrics.series.Steps` is, as arrays: `values[i]` holds from `times[i]` on, up to `times[i + 1]`."""

    times: Numbers
    values: Numbers

    def integral(self, begin: float, end: float) -> float:
        """Give the area under the steps between two instants. O(n)."""
        spans = np.minimum(self._stops(), end) - np.maximum(self.times, begin)
        return math.fsum((self.values * spans)[spans > 0].tolist())

    def binned(self, edges: Numbers) -> Numbers:
        """Give the mean in each span between neighbouring edges, which go up. O((n + edges) log edges)."""
        lows, highs, stops = edges[:-1], edges[1:], self._stops()
        first = np.searchsorted(highs, self.times, side="right")  # the bin that each step begins in, or the first one
        n_bins = np.maximum(np.searchsorted(lows, stops, side="left") - first, 0)
        step = np.repeat(np.arange(len(self.times)), n_bins)
        place = np.arange(len(step)) - np.repeat(np.cumsum(n_bins) - n_bins - first, n_bins)
        spans = np.minimum(stops[step], highs[place]) - np.maximum(self.times[step], lows[place])
        # It adds up one after another, as a loop over the steps would; a sum by pairs would differ in the last bit.
        areas = np.bincount(place, self.values[step] * at_least(0.0, spans), len(lows))
        means: Numbers = areas / (highs - lows)
        return means

    def _stops(self) -> Numbers:
        return np.append(self.times[1:], math.inf) if len(self.times) else self.times


def stairs_of(times: Numbers, changes: Numbers) -> Stairs:
    """Make steps of changes by whole numbers, in any order; those of one instant are one. O(n log n)."""
    instants, which = np.unique(times, return_inverse=True)
    sums = np.bincount(which, changes, len(instants))
    is_step = sums != 0
    return Stairs(instants[is_step], np.cumsum(sums[is_step]))


_TICK_S: Final = 1e-6


class Parts(NamedTuple):
    """The segments of all jobs that ran, job after job: their columns, and the places of each job's first and last."""

    begins: Numbers
    ends: Numbers
    sizes: Counts
    first: Counts
    last: Counts


class Holdings(NamedTuple):
    """Who held which processors, of jobs of one segment that nothing need be said about.

    `job` are the numbers of these jobs among those that ran, `place` says which set each of them held. The sets, none
    twice, are told by their lengths and by all of their intervals (without their ends) one after another.
    """

    job: Counts
    place: Counts
    lengths: Counts
    intervals: Counts


@dataclass(frozen=True, eq=False)
class Jobs:
    """Some jobs of a run; a column has a row for each of them that ran, in their order.

    `records` are all of them; looking at one may take long, and is not needed where all are plain. `others` never ran;
    `special` ran, and there is more to tell of them than `holdings` do; `noted` ran, and have metadata. `users` are
    empty where nobody tells them.
    """

    records: Sequence[JobRecord]
    ids: Sequence[str]
    states: Sequence[str]
    submitted_at: Numbers
    runtime_s: Numbers
    parts: Parts
    holdings: Holdings
    kinds: npt.NDArray[np.str_]
    measures: Sequence[str]
    users: Sequence[str]
    others: Sequence[JobRecord] = ()
    special: Sequence[tuple[int, JobRecord]] = ()
    noted: Sequence[JobRecord] = ()

    @cached_property
    def started_at(self) -> Numbers:
        """When each job first began to run."""
        return self.parts.begins[self.parts.first]

    @cached_property
    def ended_at(self) -> Numbers:
        """When each job ended for good."""
        return self.parts.ends[self.parts.last]

    @cached_property
    def n_procs(self) -> Counts:
        """The processors of each job's last segment."""
        return self.parts.sizes[self.parts.last]

    @cached_property
    def flow_s(self) -> Numbers:
        """From the first submission to the last end of each job."""
        return self.ended_at - self.submitted_at

    @cached_property
    def wait_s(self) -> Numbers:
        """All of each job's flow that is not its run time."""
        return at_least(0.0, on_tick(self.flow_s - self.runtime_s))

    def values(self, measure: str, tau_s: float = DEFAULT_TAU_S) -> Numbers:
        """Give a measure of all jobs that have it, as `values_of` does. O(n)."""
        if measure in {"wait_s", "flow_s", "runtime_s"}:
            column: Numbers = getattr(self, measure)
            return column
        if measure == "queue_time_s":
            return at_least(0.0, self.started_at - self.submitted_at)
        if measure in {"slowdown", "bounded_slowdown"}:
            bound_s = max(tau_s, _TICK_S) if measure == "bounded_slowdown" else _TICK_S
            return at_least(1.0, (self.wait_s + self.runtime_s) / at_least(bound_s, self.runtime_s))
        return np.array(values_of(self.records, measure, tau_s))

    @cached_property
    def n_by_state(self) -> Counter[str]:
        """How many jobs came to each state."""
        return Counter(chain(self.states, map(attrgetter("state"), self.others)))

    def by_class(self, key: Literal["kind", "size"]) -> dict[str, tuple[int, npt.NDArray[np.bool_]]]:
        """Sort jobs as `metrics.classes.by_class` does: how many a class has, and which of those that ran. O(n)."""
        of_ran: npt.NDArray[Any]
        of_others: Counter[Any]
        if key == "kind":
            of_ran, of_others = self.kinds, Counter(map(kind_of, self.others))
        else:
            of_ran = np.frexp(self.n_procs)[1]  # how many binary digits a number has
            of_others = Counter(record.n_procs.bit_length() for record in self.others)
        found = {}
        for one in sorted({*np.unique(of_ran).tolist(), *of_others}):
            which = of_ran == one
            found[one if key == "kind" else size_class(one)] = int(which.sum()) + of_others[one], which
        return found

    @cached_property
    def usage(self) -> Stairs:
        """The processors that jobs hold over time, all segments of all jobs."""
        sizes = self.parts.sizes.astype(np.float64)
        return stairs_of(np.concatenate(self.parts[:2]), np.concatenate((sizes, -sizes)))

    @cached_property
    def queue_length(self) -> Stairs:
        """The number of waiting jobs over time: from submission, or a kill that requeues, to the next start."""
        since = np.roll(self.parts.ends, 1)
        since[self.parts.first] = self.submitted_at
        one = np.ones(len(since))
        return stairs_of(np.concatenate((since, self.parts.begins)), np.concatenate((one, -one)))

    @cached_property
    def span(self) -> tuple[float, float]:
        """The first submission, of a job that never ran as well, and the last end; (0, 0) if nothing ran."""
        if not self.ids:
            return 0.0, 0.0
        first = min([float(self.submitted_at.min()), *map(attrgetter("submitted_at"), self.others)])
        return first, float(self.ended_at.max())


def jobs_of(records: Sequence[JobRecord]) -> Jobs:
    """Take jobs apart into columns. O(n)."""
    ran = [record for record in records if record.segments]
    parts = list(chain.from_iterable(map(attrgetter("segments"), ran)))
    n_parts = np.fromiter((len(record.segments) for record in ran), np.int64, len(ran))
    last = np.cumsum(n_parts) - 1
    begins = _numbers(map(attrgetter("started_at"), parts))
    ends = on_tick(begins + _numbers(map(attrgetter("runtime_s"), parts)))
    sizes = np.array([part.n_procs for part in parts], np.int64)
    return Jobs(
        records=records,
        ids=[record.id for record in ran],
        states=[record.state for record in ran],
        submitted_at=_numbers(map(attrgetter("submitted_at"), ran)),
        runtime_s=_numbers(map(attrgetter("runtime_s"), ran)),
        parts=Parts(begins, ends, sizes, last - n_parts + 1, last),
        holdings=_holdings(ran),
        kinds=np.array(list(map(kind_of, ran)), np.str_),
        measures=plain_measures_of(records),
        users=[user_told(record.fields.get("user")) for record in ran],
        others=[record for record in records if not record.segments],
        special=[(number, record) for number, record in enumerate(ran) if not is_plain(record)],
        noted=[record for record in ran if record.segments[-1].metadata],
    )


def _holdings(ran: Sequence[JobRecord]) -> Holdings:
    job: list[int] = []
    place: list[int] = []
    sets: list[tuple[tuple[int, int], ...]] = []
    known: dict[int, int] = {}  # the places of sets by their identity: many jobs have had the same one
    for number, record in enumerate(ran):
        if is_plain(record):
            held = record.segments[0].procs
            at = known.setdefault(id(held), len(sets))
            if at == len(sets):
                sets.append(tuple(held.intervals()))
            job.append(number)
            place.append(at)
    return Holdings(np.array(job, np.int64), np.array(place, np.int64), *laid_out(sets))


def laid_out(sets: Sequence[Sequence[tuple[int, int]]]) -> tuple[Counts, Counts]:
    """Give the number of intervals of each set, and all of them one after another. O(intervals)."""
    intervals = np.fromiter(chain.from_iterable(chain.from_iterable(sets)), np.int64)
    return np.fromiter(map(len, sets), np.int64, len(sets)), intervals.reshape(-1, 2)


def plain_jobs_of(jobs: PlainJobs, records: Sequence[JobRecord]) -> Jobs:
    """Give the columns of jobs that have been read by columns; nobody looks at their records. O(n)."""
    begins, runtime_s = np.array(jobs.started_at), np.array(jobs.runtime_s)
    numbers, place = np.arange(len(jobs.ids)), np.array(jobs.where, np.int64)
    sizes = np.array(jobs.sets.sizes, np.int64)[place]
    intervals = np.array([jobs.sets.lows, jobs.sets.highs], np.int64).T
    return Jobs(
        records=records,
        ids=jobs.ids,
        states=jobs.states,
        submitted_at=np.array(jobs.submitted_at),
        runtime_s=at_least(0.0, runtime_s),
        parts=Parts(begins, on_tick(begins + runtime_s), sizes, numbers, numbers),
        holdings=Holdings(numbers, place, np.array(jobs.sets.lengths, np.int64), intervals),
        kinds=np.full(len(jobs.ids), "regular"),
        measures=list(MEASURES),
        users=jobs.users or [""] * len(jobs.ids),
    )


class Sheet:
    """A run with its jobs by columns: `jobs` are all, `evaluated` those that count."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.label = run.label
        self.n_procs = run.n_procs
        if run.plain is not None and not run.clusters:  # else it is told of each job in which cluster it was
            self.jobs = plain_jobs_of(run.plain, run.records)
        else:
            self.jobs = jobs_of(run.records)
        self.evaluated = self.jobs if run.evaluated is run.records else jobs_of(run.evaluated)

    @cached_property
    def usage(self) -> Stairs:
        """The processors that jobs hold over time; of a run that was cut, with those that ran then."""
        cut = self.run.cut
        return self.jobs.usage if cut is None else _changed(self.jobs.usage, cut.in_use())

    @cached_property
    def queue_length(self) -> Stairs:
        """The number of waiting jobs over time; of a run that was cut, with those that waited then."""
        cut = self.run.cut
        return self.jobs.queue_length if cut is None else _changed(self.jobs.queue_length, cut.waiting())

    @cached_property
    def span(self) -> tuple[float, float]:
        """The first submission and the last end, or the cut."""
        if self.run.cut is None:
            return self.jobs.span
        others = (record.submitted_at for record in self.jobs.others)
        return self.run.cut.span(chain(self.jobs.submitted_at.tolist(), others))

    def utilisation(self) -> float | None:
        """Give the share of all processors' time that jobs held, as `Run.utilisation` does."""
        begin, end = self.span
        cut = self.run.cut
        if end <= begin or not self.n_procs or (cut is not None and cut.left is None):
            return None
        return self.usage.integral(begin, end) / (self.n_procs * (end - begin))


def _changed(steps: Stairs, changes: Iterable[tuple[float, float]]) -> Stairs:
    """Add changes to steps. O(n log n)."""
    times, more = np.array([*changes]).reshape(-1, 2).T
    return stairs_of(np.concatenate((steps.times, times)), np.concatenate((np.diff(steps.values, prepend=0), more)))


def _numbers(values: Iterable[float]) -> Numbers:
    return np.fromiter(values, np.float64)
