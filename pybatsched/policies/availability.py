"""The number of free processors over future time, in which reservations are placed.

A step function: `_free[i]` processors are free from `_times[i]` until `_times[i + 1]`, the last without end. All times
are on Batsim's tick (`pybatsched.core.instants`), so that equal times are equal numbers. NaN raises ValueError.

In the costs below, s is the number of steps: at most two per running or reserved job.

`AvailabilityProfile` is `PlainProfile`, or its faster twin in C (`_profile.c`) if that was built.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pybatsched.core.instants import HALF_TICK, TICK, instant
from pybatsched.policies.freed_intervals import check_times

if TYPE_CHECKING:
    from pybatsched.policies.freed_intervals import FreedIntervals
    from pybatsched.policies.reservations import Reservations

#: Steps of a block of the index, as a power of two.
_BLOCK: Final = 5


class PlainProfile:
    """How many processors are free from now on.

    >>> profile = AvailabilityProfile(0.0, 4)
    >>> profile.take(3, 0.0, 10.0)
    >>> profile.earliest(2, 5.0, 0.0), profile.earliest(1, 5.0, 0.0)
    (10.0, 0.0)

    An index, `_tops`, speeds up the search in long profiles: the maximum of each block of steps. It is built as far as
    a search goes, and dropped from the first changed step on.
    """

    __slots__ = ("_free", "_times", "_tops")

    def __init__(self, now: float, n_free: int) -> None:
        check_times(now)
        self._times = [now]
        self._free = [n_free]
        self._tops: list[int] = []

    def copy(self) -> PlainProfile:
        """Return an independent copy. O(s) with a small constant."""
        other: PlainProfile = self.__new__(type(self))
        other._times, other._free, other._tops = self._times.copy(), self._free.copy(), []
        return other

    def advance(self, now: float) -> None:
        """Drop the steps before now. O(s)."""
        if not now <= math.inf:
            check_times(now)
        i = bisect_right(self._times, now) - 1
        if i >= 0:
            if i:
                del self._times[:i]
                del self._free[:i]
                self._tops.clear()
            self._times[0] = now

    def take(self, n: int, start_at: float, end_at: float) -> None:
        """Allocate n processors from start to end, even if fewer are free: the number becomes negative. O(s)."""
        self._add(-n, start_at, end_at)

    def take_all(self, spans: Iterable[tuple[int, float, float]]) -> None:
        """Allocate processors for k spans (n, start, end) at once. O(s + k log k); one at a time is O(s * k)."""
        changes: dict[float, int] = {}
        first_at = self._times[0]
        for n, start_at, end_at in spans:
            start = max(start_at, first_at)
            if start < end_at:
                changes[start] = changes.get(start, 0) - n
                changes[end_at] = changes.get(end_at, 0) + n
            elif not end_at <= start:
                check_times(start, end_at)
        changes.pop(math.inf, None)
        instants = sorted(changes.keys() | set(self._times))
        free: list[int] = []
        i, before, delta = 0, 0, 0
        for at in instants:
            if i < len(self._times) and self._times[i] == at:
                before = self._free[i]
                i += 1
            delta += changes.get(at, 0)
            free.append(before + delta)
        self._times, self._free = instants, free
        self._tops.clear()

    def give(self, n: int, start_at: float, end_at: float) -> None:
        """Release n processors from start to end (infinity allowed). O(s)."""
        self._add(+n, start_at, end_at)  # raises TypeError unless n is a number

    def earliest(self, n: int, span_s: float, not_before: float, latest: float = math.inf) -> float:
        """Return the first time, up to `latest`, from which n processors stay free; infinity if none. O(s)."""
        times = self._times
        last = len(times)
        if latest == math.inf:
            return self._first(n, span_s, not_before, last, last)
        if not max(not_before, times[0]) <= latest:
            check_times(not_before, latest)
            return math.inf
        return self._first(n, span_s, not_before, bisect_right(times, latest), last)

    def _first(self, n: int, span_s: float, not_before: float, last: int, end: int) -> float:
        """Return the first valid start from `not_before` on, in a step before `last`; infinity for none. O(s).

        Steps from `end` on are ignored. A span is checked from its end: no start is possible before the last obstacle
        in it, so the steps before that are skipped.
        """
        times, free = self._times, self._free
        i = max(bisect_right(times, not_before) - 1, 0)
        start = max(not_before, times[0])
        if not start + span_s <= math.inf:
            check_times(start, span_s)
        while True:
            if free[i] < n:
                stop = (((i + 1) >> _BLOCK) + 1) << _BLOCK
                for i in range(i + 1, stop if stop < last else last):  # noqa: B020, FURB136  the next is mostly near
                    if free[i] >= n:
                        break
                else:
                    i = self._next_wide(n, stop, last)
                    if i >= last:
                        return math.inf
                start = times[i]
            k = bisect_left(times, start + span_s - HALF_TICK, i + 1, end) - 1
            while free[k] >= n:
                if k <= i:
                    return start
                k -= 1
            i = k

    def _next_wide(self, n: int, i: int, last: int) -> int:
        """Return the first step in [i, last) with n free; `last` or more if none. O(s) with a small constant."""
        free, tops = self._free, self._tops
        while i < last:
            stop = ((i >> _BLOCK) + 1) << _BLOCK
            for k in range(i, min(stop, last)):
                if free[k] >= n:
                    return k
            block, n_blocks = stop >> _BLOCK, ((last - 1) >> _BLOCK) + 1
            for k in range(len(tops), n_blocks):
                tops.append(max(free[k << _BLOCK : (k + 1) << _BLOCK]))
            while block < n_blocks and tops[block] < n:
                block += 1
            i = block << _BLOCK
        return last

    def fits(self, n: int, start_at: float, end_at: float) -> bool:
        """Return whether n processors are free all the time from start to end. O(s) with a small constant."""
        return self.least_free(start_at, end_at) >= n

    def better(self, n: int, span_s: float, place: float, not_before: float, before: float) -> float:
        """Return the first start in [not_before, before) before a job's reservation at `place`, else `place`. O(s)."""
        check_times(span_s, place, not_before, before)
        times = self._times
        before = min(before, place)
        if max(not_before, times[0]) >= before:
            return place
        return min(self._first(n, span_s, not_before, bisect_left(times, before), bisect_left(times, place)), place)

    def sooner(self, n: int, span_s: float, place: float, now: float, gained: tuple[float, float]) -> float:
        """Return the first start that is earlier than a job's reservation, after processors were freed, else `place`.

        `gained` is the interval with more free processors. The job had the earliest possible start before, so an
        earlier one must overlap this interval, which must be wide enough and start before `place`. O(s).
        """
        first, last = gained
        if not first + last + place + now + span_s <= math.inf:
            check_times(first, last, place, now, span_s)
        if first >= place or last <= now:
            return place
        times, before = self._times, min(last, place)
        end = bisect_left(times, place)
        stop = bisect_left(times, before) if before < place else end
        if n > 0 and self._next_wide(n, max(bisect_right(times, first) - 1, 0), stop) >= stop:
            return place
        not_before = max(now, times[max(bisect_right(times, first - span_s) - 1, 0)])
        return min(self._first(n, span_s, not_before, stop, end), place) if not_before < before else place

    def most_free(self, start_at: float, end_at: float) -> int:
        """Return the largest number of free processors in [start, end). O(s) with a small constant."""
        check_times(start_at, end_at)
        i = bisect_right(self._times, start_at) - 1
        return max(self._free[max(i, 0) : bisect_left(self._times, end_at)], default=0)

    def least_free(self, start_at: float, end_at: float) -> int:
        """Return the least free processors in [start, end), at least at start; negative if overallocated. O(s)."""
        if not start_at + end_at <= math.inf:
            check_times(start_at, end_at)
        i = max(bisect_right(self._times, start_at) - 1, 0)
        return min(self._free[i : max(bisect_left(self._times, end_at - HALF_TICK), i + 1)])

    def next_step(self, after: float) -> float:
        """Return the next time at which the number of free processors changes; infinity if none. O(log s), usually."""
        check_times(after)
        for i in range(max(bisect_right(self._times, after), 1), len(self._times)):
            if self._free[i] != self._free[i - 1]:
                return self._times[i]
        return math.inf

    def step_at(self, at: float) -> float:
        """Return the start of the step that contains a time. O(log s)."""
        if not at <= math.inf:
            check_times(at)
        return self._times[max(bisect_right(self._times, at) - 1, 0)]

    def free_at(self, at: float) -> int:
        """Return the number of free processors at a time. O(log s)."""
        if not at <= math.inf:
            check_times(at)
        return self._free[max(bisect_right(self._times, at) - 1, 0)]

    def steps(self) -> list[tuple[float, int]]:
        """Return (start, free) pairs in order, for output and tests. O(s)."""
        return list(zip(self._times, self._free, strict=True))

    # --- passes over a whole plan ---

    def move(self, n: int, span: tuple[float, float], to: tuple[float, float]) -> None:
        """Move an allocation of n processors to an earlier span, but not their overlap. O(s)."""
        (start_at, end_at), (new_start_at, new_end_at) = span, to
        check_times(start_at, end_at, new_start_at, new_end_at)
        self._add(-n, new_start_at, min(start_at, new_end_at))
        self._add(n, max(start_at, new_end_at), end_at)

    def compress(self, now: float, reservations: Reservations, freed: FreedIntervals) -> list[tuple[int, float]]:
        """Move reservations forward in queue order, where processors were freed. Return moved rows with old starts."""
        check_times(now)
        _check_lists(
            (reservations.sizes, reservations.seen), (reservations.spans_s, reservations.places, reservations.ends)
        )
        moved: list[tuple[int, float]] = []
        places, ends, seen, n_freed = reservations.places, reservations.ends, reservations.seen, freed.n
        for i, place in enumerate(places):
            since = seen[i]
            if since == n_freed:
                continue
            gained = freed.hull_since(since)
            seen[i] = n_freed
            if gained[0] >= place:
                continue
            n, span_s = reservations.sizes[i], reservations.spans_s[i]
            better = self.sooner(n, span_s, place, now, gained)
            if better < place:
                end_at = ends[i]
                moved.append((i, place))
                reservations.move(i, better)
                self.move(n, (place, end_at), (better, ends[i]))
                freed.add(place, end_at)
                seen[i] = n_freed = freed.n
        return moved

    def replan(
        self, now: float, reservations: Reservations, freed: FreedIntervals
    ) -> tuple[PlainProfile, list[tuple[int, float]]]:
        """Place all reservations in this profile of free processors, in queue order.

        A job keeps its reservation if possible; otherwise it gets the earliest start behind the jobs before it. Return
        the profile with all reservations, and the rows that moved with their old starts. Do not use this profile again.
        Only jobs that overlap an overallocated time are checked. O(s + rows log rows), and O(s) for each of these jobs.
        """
        check_times(now)
        _check_lists(
            (reservations.sizes, reservations.seen), (reservations.spans_s, reservations.places, reservations.ends)
        )
        moved: list[tuple[int, float]] = []
        soon = now + 1.5 * TICK
        spans = list(zip(reservations.sizes, reservations.places, reservations.ends, strict=True))
        full = self.copy()
        full.take_all([span for span in spans if soon < span[1] < math.inf])
        first, last = (math.inf, -math.inf) if full.least_free(now, math.inf) >= 0 else _overfull(full.steps())
        put_in: list[tuple[int, float, float]] = []  # kept reservations that are not in this profile yet
        for i, (n, place, end_at) in enumerate(spans):
            is_valid = soon < place < math.inf
            if is_valid and (place >= last or place < end_at <= first or full.least_free(place, end_at) >= 0):
                put_in.append((n, place, end_at))
                continue
            self._take_some(put_in)
            put_in.clear()
            if is_valid and self.fits(n, place, end_at):
                put_in.append((n, place, end_at))
                continue
            better = self.earliest(n, reservations.spans_s[i], now)
            if is_valid:
                full.give(n, place, end_at)
            if better != place:
                reservations.move(i, better)
                reservations.seen[i] = freed.n
                moved.append((i, place))
                freed.add(place, end_at)
            better_end_at = reservations.ends[i]
            full.take(n, better, better_end_at)
            put_in.append((n, better, better_end_at))
            if full.least_free(better, better_end_at) < 0:
                first, last = min(first, better), max(last, better_end_at)
        return full, moved

    def place_anew(
        self, now: float, freed_from: float, sizes: list[int], spans_s: list[float], places: list[float]
    ) -> list[float]:
        """Place jobs again in this profile, in order, each as early as possible. Return their starts. O(jobs * s).

        A job with the earliest possible start so far can start earlier only if processors were freed before that:
        from `freed_from` on, minus infinity for everywhere.
        """
        check_times(now, freed_from)
        _check_lists((sizes,), (spans_s, places))
        found: list[float] = []
        for n, span_s, place in zip(sizes, spans_s, places, strict=True):
            if freed_from == -math.inf:
                better = self.earliest(n, span_s, now)
            elif freed_from < place:
                better = self.earliest(n, span_s, max(now, self.step_at(freed_from - span_s)))
            elif place != math.inf and self.fits(n, place, instant(place, span_s)):
                better = place
            else:
                better = self.earliest(n, span_s, max(now, place) if place != math.inf else now)
            self.take(n, better, instant(better, span_s))
            if place < freed_from and better != place:
                freed_from = place
            found.append(better)
        return found

    def _take_some(self, spans: list[tuple[int, float, float]]) -> None:
        """Allocate few spans one by one, many at once, which may leave more steps. O(s + k log k)."""
        if len(spans) << 3 > len(self._times):
            self.take_all(spans)
            return
        for n, start_at, end_at in spans:
            self._add(-n, start_at, end_at)

    def _add(self, delta: int, start_at: float, end_at: float) -> None:
        times, free = self._times, self._free
        start_at = max(start_at, times[0])
        if not start_at < end_at:
            if not end_at <= start_at:
                check_times(start_at, end_at)
            return
        i = bisect_left(times, start_at)
        del self._tops[i >> _BLOCK :]
        if i == len(times) or times[i] != start_at:
            times.insert(i, start_at)
            free.insert(i, free[i - 1])
        if end_at == math.inf:
            j = len(times)
        else:
            j = bisect_left(times, end_at, i)
            if j == len(times) or times[j] != end_at:
                times.insert(j, end_at)
                free.insert(j, free[j - 1])
        free[i:j] = [n + delta for n in free[i:j]]
        # Only the two ends can have become equal to their neighbours.
        if j < len(times) and free[j] == free[j - 1]:
            del times[j], free[j]
        if i and free[i] == free[i - 1]:
            del times[i], free[i]


def _check_lists(whole: tuple[list[int], ...], real: tuple[list[float], ...]) -> None:
    """Check the lists of a pass before it changes anything. O(jobs). Raises ValueError and TypeError."""
    lists: tuple[list[Any], ...] = whole + real
    for numbers in lists:
        if type(numbers) is not list:
            raise TypeError("expected lists of numbers")
        if len(numbers) != len(lists[0]):
            raise ValueError("expected lists of one length")
    total: object
    for numbers in whole:
        total = sum(numbers)
        if not isinstance(total, int):
            raise TypeError("expected whole numbers")
    for numbers in real:
        total = sum(numbers, 0.0)
        if not isinstance(total, float):
            raise TypeError("expected numbers of seconds")
        if math.isnan(total):  # the sum of NaN, or of both infinities
            check_times(*numbers)


def _overfull(steps: list[tuple[float, int]]) -> tuple[float, float]:
    """Return the hull of the overallocated times; there must be some. O(s)."""
    found = [i for i, (_, n) in enumerate(steps) if n < 0]
    last = found[-1] + 1
    return steps[found[0]][0], steps[last][0] if last < len(steps) else math.inf


if TYPE_CHECKING:
    AvailabilityProfile = PlainProfile
else:
    try:
        from pybatsched.policies._profile import AvailabilityProfile
    except ImportError:  # not built
        AvailabilityProfile = PlainProfile
