"""The jobs of a run by columns: what the tables and charts of the page are worked out from.

A record is asked for its numbers once; the page wants each of them some ten times, of all jobs. A column holds what
the member of `JobRecord` that has its name says, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from pybatsched.metrics.classes import kind_of, size_class, values_of
from pybatsched.metrics.outcomes import DEFAULT_TAU_S, JobRecord
from pybatsched.metrics.runs import Run
from pybatsched.report.stairs import Counts, Numbers, Stairs, at_least, on_tick, stairs_of

_TICK_S: Final = 1e-6


class Jobs:
    """Some jobs of a run; a column has a row for each of them that ran, in their order. O(n) to make.

    `noted` are those that ran and have metadata: of no others something special is told.
    """

    def __init__(self, records: Sequence[JobRecord]) -> None:
        self.records = records
        self.ran = [record for record in records if record.segments]
        self.noted = [record for record in self.ran if record.segments[-1].metadata]
        self._has_run = np.fromiter((bool(record.segments) for record in records), np.bool_, len(records))
        parts = list(chain.from_iterable(map(attrgetter("segments"), self.ran)))
        n_parts = np.fromiter((len(record.segments) for record in self.ran), np.int64, len(self.ran))
        self._last = np.cumsum(n_parts) - 1
        self._first = self._last - n_parts + 1
        self._begins = _numbers("started_at", parts)
        self._ends = on_tick(self._begins + _numbers("runtime_s", parts))
        self._sizes = np.fromiter(map(attrgetter("n_procs"), parts), np.int64, len(parts))
        self.submitted_at = _numbers("submitted_at", self.ran)
        self.runtime_s = _numbers("runtime_s", self.ran)
        self.started_at = self._begins[self._first]
        self.ended_at = self._ends[self._last]
        self.n_procs = self._sizes[self._last]

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
    def kinds(self) -> npt.NDArray[np.str_]:
        """The kind of each job, also of those that never ran."""
        return np.array(list(map(kind_of, self.records)), np.str_)

    @cached_property
    def is_urgent(self) -> npt.NDArray[np.bool_]:
        """Whether each job is urgent, of those that ran."""
        found: npt.NDArray[np.bool_] = (self.kinds == "urgent")[self._has_run]
        return found

    def by_class(self, key: Literal["kind", "size"]) -> dict[str, tuple[int, npt.NDArray[np.bool_]]]:
        """Sort jobs as `metrics.classes.by_class` does: how many a class has, and which of those that ran. O(n)."""
        of_all: npt.NDArray[Any] = self.kinds if key == "kind" else self._n_bits()
        found = {}
        for one in np.unique(of_all).tolist():
            which = of_all == one
            found[one if key == "kind" else size_class(one)] = int(which.sum()), which[self._has_run]
        return found

    def _n_bits(self) -> Counts:
        """Give the number of binary digits of each job's size."""
        sizes = np.empty(len(self.records), np.int64)
        sizes[self._has_run] = self.n_procs
        sizes[~self._has_run] = [record.n_procs for record in self.records if not record.segments]
        return np.frexp(sizes)[1].astype(np.int64)

    @cached_property
    def usage(self) -> Stairs:
        """The processors that jobs hold over time, all segments of all jobs."""
        sizes = self._sizes.astype(np.float64)
        return stairs_of(np.concatenate((self._begins, self._ends)), np.concatenate((sizes, -sizes)))

    @cached_property
    def queue_length(self) -> Stairs:
        """The number of waiting jobs over time: from submission, or a kill that requeues, to the next start."""
        since = np.roll(self._ends, 1)
        since[self._first] = self.submitted_at
        one = np.ones(len(since))
        return stairs_of(np.concatenate((since, self._begins)), np.concatenate((one, -one)))

    @cached_property
    def span(self) -> tuple[float, float]:
        """The first submission, of a job that never ran as well, and the last end; (0, 0) if nothing ran."""
        if not self.ran:
            return 0.0, 0.0
        return min(map(attrgetter("submitted_at"), self.records)), float(self.ended_at.max())


class Sheet:
    """A run with its jobs by columns: `jobs` are all, `evaluated` those that count."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.label = run.label
        self.n_procs = run.n_procs
        self.jobs = Jobs(run.records)
        self.evaluated = self.jobs if run.evaluated is run.records else Jobs(run.evaluated)

    def utilisation(self) -> float | None:
        """Give the share of all processors' time from the first submission to the last end that jobs held."""
        begin, end = self.jobs.span
        if end <= begin or not self.n_procs:
            return None
        return self.jobs.usage.integral(begin, end) / (self.n_procs * (end - begin))


def _numbers(member: str, of: Sequence[Any]) -> Numbers:
    return np.fromiter(map(attrgetter(member), of), np.float64, len(of))
