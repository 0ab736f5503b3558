"""A queue from which an agent chooses one job after the other.

The agent sees a *window*, the first jobs of the queue. Its choice is a position in the window, or `window` for "nothing
now". A chosen job that fits starts. A job that does not fit gets a *reservation* with a shadow time, as the head of the
queue in EASY; jobs chosen after it must fit and not delay it. A reservation lasts for the choices of one message.
`mask` marks the valid choices:

* before a reservation: every job of the window (without `reservations`: every job that fits);
* after it: the jobs that fit and end by the shadow time or need no more than the extra processors, by EASY's rule;
* "nothing now", unless no job runs: else the simulation could not continue.

The agent is not asked if no job of the window may start, nor twice about the same state of queue and machine. An agent
that always takes the first valid choice is EASY, as long as the queue is not longer than the window.

This module needs numpy (extra ``rl``): import it where it is used. `pybatsched.gym` and the policy ``rl`` use it.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Final, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pybatsched.core.cluster import Partition
from pybatsched.core.decisions import Decision, ExecuteJob, Reason
from pybatsched.core.instants import HALF_TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.policies.local_scheduler import Entry, LocalScheduler
from pybatsched.policies.queue_options import ChoiceOptions

#: Which choices are possible now: one boolean for each choice.
Mask: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.float64]
Shown: TypeAlias = NDArray[np.float32]

#: The rows of the table of the queue, one column per job.
SIZE, SPAN_S, SUBMITTED_AT, N_ROWS = range(4)
#: The observed values of each job: whether the row has a job, its processors, its planned duration, its wait so far,
#: whether it would start if chosen now, whether it has the reservation.
QUEUE: Final = ("is_there", "processors", "time", "wait", "may_start", "is_reserved")
_ROOM: Final = 64

YEAR_S: Final = 365 * 86_400.0
_SPANS: Final = math.log1p(YEAR_S)
_PER_SPAN: Final = 1 / _SPANS


def scaled(span_s: float) -> float:
    """Return a duration on a logarithmic scale: 0 for no time, 1 for a year or more and for infinity.

    >>> [round(scaled(span_s), 3) for span_s in (0.0, 60.0, 3600.0, 86_400.0, math.inf)]
    [0.0, 0.238, 0.474, 0.658, 1.0]
    """
    return math.log1p(min(max(span_s, 0.0), YEAR_S)) * _PER_SPAN


def seconds(value: NDArray[np.floating[Any]]) -> Numbers:
    """Return the durations of scaled values, to their precision.

    >>> [round(float(span_s)) for span_s in seconds(np.array([0.0, 0.4743, 1.0]))]
    [0, 3602, 31536000]
    """
    return np.expm1(np.asarray(value, dtype=np.float64) * _SPANS)


def all_scaled(spans_s: Numbers, longest_s: float) -> Numbers:
    """Scale durations in place; none may be below 0 or above `longest_s`."""
    if longest_s > YEAR_S:
        np.minimum(spans_s, YEAR_S, out=spans_s)
    np.log1p(spans_s, out=spans_s)
    spans_s *= _PER_SPAN
    return spans_s


class ChoiceScheduler(LocalScheduler):
    """A queue from which an agent chooses. `choose_from` returns its choice for this queue.

    Without it, a subclass overrides `plan` or `decide`, and the caller chooses: it calls `begin` once per message.
    While `begin`, and later `goes_on`, returns true, it calls `choose` and applies the returned decision.

    `table` holds sizes, planned durations and submission times in queue order, `shown` the observed values that never
    change; the first `n_shown` jobs are the window. A choice is O(window + running); a job that enters or leaves the
    queue moves O(queue) memory.
    """

    def __init__(
        self,
        partition: Partition,
        options: ChoiceOptions,
        choose_from: Callable[[ChoiceScheduler], SupportsIndex] | None = None,
    ) -> None:
        super().__init__(partition, options)
        self._choose_from = choose_from
        self.n_choices = 0
        self.window = options.window
        self.now = 0.0
        self.reserved: Job | None = None
        self.shadow_at = 0.0
        self.n_extra = 0
        self.n_masked = 0
        self.table: Numbers = np.empty((N_ROWS, _ROOM))
        self.shown: Shown = np.zeros((_ROOM, len(QUEUE)), dtype=np.float32)
        self._reservations = options.reservations
        self._may_start: Mask = np.zeros(0, dtype=bool)
        self._none_may_start = self._may_start
        self._mask: Mask | None = None  # None: not computed yet
        self._asks = False
        self._settled_at = -1  # the version of the plan at which no further job is started

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue. O(queue) for the columns behind it."""
        super().submit(job, now, front=front)
        n = len(self.queue)
        if n > self.table.shape[1]:
            self.table = np.concatenate([self.table, np.empty_like(self.table)], axis=1)
            self.shown = np.concatenate([self.shown, np.zeros_like(self.shown)])
        place = bisect_left(self.queue, self._entries[job.id])
        if place < n - 1:
            self.table[:, place + 1 : n] = self.table[:, place : n - 1]
            self.shown[place + 1 : n] = self.shown[place : n - 1]
        span_s = self.span_s(job)
        self.table[:, place] = (job.n_procs, span_s, min(job.submitted_at, now))
        self.shown[place, :3] = (1.0, job.n_procs / self.partition.n_procs, scaled(span_s))

    def withdraw(self, job: Job, now: float) -> None:
        """Take a job out of the queue. O(queue) for the columns behind it."""
        self._drop(bisect_left(self.queue, self._entries[job.id]))
        super().withdraw(job, now)

    def start(self, entry: Entry, reason: Reason, procs: IntervalSet | None = None) -> ExecuteJob:
        """Take a job out of the queue and start it. O(queue) for the columns behind it."""
        self._drop(bisect_left(self.queue, entry))
        return super().start(entry, reason, procs)

    def sort_queue(self, now: float) -> bool:
        """Sort the queue and its columns again if its order changes while jobs wait. O(queue log queue) at most."""
        if not self._varies:
            return False
        places = {entry.job.id: place for place, entry in enumerate(self.queue)}
        is_changed = super().sort_queue(now)
        if is_changed:
            moved = [places[entry.job.id] for entry in self.queue]
            self.table[:, : len(moved)] = self.table[:, moved]
            self.shown[: len(moved)] = self.shown[moved]
        return is_changed

    def _drop(self, place: int) -> None:
        n = len(self.queue)
        if place < n - 1:
            self.table[:, place : n - 1] = self.table[:, place + 1 : n]
            self.shown[place : n - 1] = self.shown[place + 1 : n]

    @property
    def n_shown(self) -> int:
        """How many jobs of the queue are in the window."""
        return min(len(self.queue), self.window)

    @property
    def may_start(self) -> Mask:
        """Which jobs of the window would start if chosen; empty if the agent is not asked."""
        return self._may_start

    @property
    def mask(self) -> Mask:
        """The valid choices: positions of the window, and "nothing now" last; only that if the agent is not asked."""
        if self._mask is None:
            self._mask = found = np.zeros(self.window + 1, dtype=bool)
            if self._asks:
                n = self.n_shown
                found[:n] = self._may_start if self.reserved is not None or not self._reservations else True
                found[-1] = bool(self.partition.running_jobs)
            else:
                found[-1] = True
        return self._mask.copy()  # the caller may change it

    def begin(self, now: float) -> bool:
        """Start the choices of a message. Return whether there is something to choose."""
        self.now = now
        self.reserved = None
        self.sort_queue(now)
        return self.goes_on()

    def goes_on(self) -> bool:
        """Update the valid choices after a choice. Return whether there is something to choose. O(window)."""
        self._asks = self._is_something_to_choose()
        self._mask = None
        if not self._asks:
            self._may_start = self._none_may_start
            self._settled_at = self.plan_version(self.now)
        return self._asks

    def _is_something_to_choose(self) -> bool:
        n, partition = self.n_shown, self.partition
        if not n or not partition.n_free or partition.n_kills_pending:
            return False
        if self._settled_at == self.plan_version(self.now):
            return False
        sizes = self.table[SIZE, :n]
        may_start: Mask = sizes <= partition.n_free
        if self.reserved is not None:
            spans_s = self.table[SPAN_S, :n]
            in_time = (self.now + spans_s <= self.shadow_at + HALF_TICK) & np.isfinite(spans_s)
            may_start &= in_time | (sizes <= self.n_extra)
        self._may_start = may_start
        return bool(np.count_nonzero(may_start))  # any() takes longer than all before it

    def choose(self, action: SupportsIndex) -> ExecuteJob | None:
        """Apply a choice. Return the start of a job; None for a reservation and for "nothing now".

        A masked choice counts as "nothing now" or, if that is masked, as the first valid choice (`n_masked` counts
        both). Raises ValueError for a value that is not a choice.
        """
        place = _place(action, self.window)
        mask = self._mask if self._mask is not None else self.mask
        if not mask[place]:
            self.n_masked += 1
            place = self.window if mask[-1] else int(mask.argmax())
        if place == self.window:
            self._settled_at = self.plan_version(self.now)
            return None
        entry = self.queue[place]
        if self._may_start[place]:
            return self.start(entry, self._reason(entry.job, place))
        self.reserved = entry.job
        self.shadow_at, self.n_extra = self.shadow(entry.job, self.now)
        return None

    def _reason(self, job: Job, place: int) -> Reason:
        """Return why a job starts, and subtract it from the extra processors if it uses them."""
        if self.reserved is None:
            return "chosen: place {} of {}", place, len(self.queue)
        span_s = self.span_s(job)
        if span_s != float("inf") and self.now + span_s <= self.shadow_at + HALF_TICK:
            return "chosen: ends by the shadow time {} of {}", self.shadow_at, self.reserved.id
        self.n_extra -= job.n_procs
        return "chosen on {} extra processors beside {}", job.n_procs, self.reserved.id

    def plan(self, now: float) -> Iterator[Decision]:
        """Ask the agent until it starts no more jobs. O(window + running) for each choice, plus the agent's time."""
        if self._choose_from is None:
            raise NotImplementedError("override plan, or pass choose_from")
        is_asked = self.begin(now)
        while is_asked:
            self.n_choices += 1
            start = self.choose(self._choose_from(self))
            if start is not None:
                yield start
            is_asked = self.goes_on()


def _place(action: Any, window: int) -> int:
    try:
        place = operator.index(action)
    except TypeError:
        place = -1
    if not 0 <= place <= window:
        raise ValueError(f"the choice {action!r:.80}: expected a whole number from 0 to {window}")
    return place
