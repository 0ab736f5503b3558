"""Sets of processors as sorted intervals.

Machines allocate processors in runs, so a set of 100,000 processors is usually a handful of intervals. An
`IntervalSet` keeps the bounds of its half-open intervals in one flat sorted list, ``[a0, b0, a1, b1, …]``:
an even index starts a run and an odd one ends it, which makes adding and removing a run one bisection and one
slice. Closed intervals such as ``0-3 5`` exist only as text, which is how Batsim writes them.

k is the number of intervals below, never the number of processors.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final, Self

from pybatsched.errors import NotIntegerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from procset import ProcSet

_MANY: Final = 128  # bounds: past that a linear pass beats one slice per interval
_END: Final = 2**62
_PART: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


class IntervalSet:
    """An immutable set of non-negative integers.

    >>> free = IntervalSet.parse("0-3 5 8-9")
    >>> len(free), free.first(5), free - IntervalSet.parse("1-5")
    (7, IntervalSet('0-3 5'), IntervalSet('0 8-9'))
    """

    __slots__ = ("_bounds", "_n", "_text")

    def __init__(self, members: Iterable[int] = ()) -> None:
        """Create a set of single processors. O(n log n); for runs use `span` or `parse`.

        Raises NotIntegerError, a TypeError, for a member that is not an integer. Integers of numpy are accepted.
        """
        bounds: list[int] = []
        for i in sorted({member if type(member) is int else _integer(member) for member in members}):
            if i < 0:
                raise ValueError(f"a processor id is never negative: {i}")
            if bounds and bounds[-1] == i:
                bounds[-1] = i + 1
            else:
                bounds += (i, i + 1)
        self._bounds = bounds
        self._n = -1
        self._text: str | None = None

    @classmethod
    def span(cls, start: int, stop: int) -> IntervalSet:
        """Return the set start, start + 1, …, stop - 1; the empty set if `stop` is not above `start`. O(1).

        `parse` is stricter: it raises ValueError for an interval that ends before its start, such as ``3-1``.
        """
        start, stop = _integer(start), _integer(stop)
        if start < 0:
            raise ValueError(f"a processor id is never negative: {start}")
        if stop > _END:
            raise ValueError(f"processor id {stop - 1} is too large; expected at most {_END - 1}")
        return cls._of([start, stop] if stop > start else [])

    @classmethod
    def parse(cls, text: str) -> IntervalSet:
        """Read Batsim's form: ``0-3 5``, any order, overlaps allowed; empty text is the empty set.

        O(k) for text in order. Raises ValueError naming the part that is wrong.
        """
        bounds: list[int] = []
        for part in text.split(" ") if text else ():
            match = _PART.fullmatch(part)
            if match is None:
                raise ValueError(f"{part!r} is neither a number nor an interval such as 4-7, in {text[:80]!r}")
            start = int(match[1])
            stop = int(match[2]) + 1 if match[2] else start + 1
            if stop > _END:
                raise ValueError(f"processor id {part!r} is too large; expected at most {_END - 1}")
            if stop <= start:
                raise ValueError(f"the interval {part!r} ends before it starts, in {text[:80]!r}")
            if not bounds or start > bounds[-1]:
                bounds += (start, stop)
            else:
                _insert(bounds, start, stop)
        return cls._of(bounds)

    @classmethod
    def from_procset(cls, procs: ProcSet) -> IntervalSet:
        """Return the set of a procset.ProcSet. O(k)."""
        bounds: list[int] = []
        for interval in procs.intervals():
            bounds += (int(interval.inf), int(interval.sup) + 1)
        return cls._of(bounds)

    @classmethod
    def of_intervals(cls, intervals: Iterable[tuple[int, int]]) -> IntervalSet:
        """Return the union of half-open intervals, none of them empty, in any order. O(n log n)."""
        return cls._of(_joined(intervals))

    @classmethod
    def _of(cls, bounds: list[int], n: int = -1) -> Self:
        """Wrap sorted bounds that are never changed again, and the number of members if it is known. O(1)."""
        self = cls.__new__(cls)
        self._bounds = bounds
        self._n = n
        self._text = None
        return self

    def intervals(self) -> Iterator[tuple[int, int]]:
        """Return the half-open intervals in order. O(k)."""
        bounds = iter(self._bounds)
        return zip(bounds, bounds)  # noqa: B905  two at a time; their number is even

    @property
    def lowest(self) -> int:
        """The lowest member; -1 for the empty set. O(1)."""
        return self._bounds[0] if self._bounds else -1

    @property
    def highest(self) -> int:
        """The highest member; -1 for the empty set. O(1)."""
        return self._bounds[-1] - 1 if self._bounds else -1

    def first(self, n: int) -> Self:
        """Return the n lowest members; the empty set for n <= 0. O(k). Raises ValueError if there are fewer."""
        if type(n) is not int:
            n = _integer(n)
        bounds = self._bounds
        if n <= 0:
            return self._of([], 0)
        left = n
        for start, stop in self.intervals():
            left -= stop - start
            if left <= 0:
                taken = bounds[: bounds.index(start) + 1]
                taken.append(stop + left)  # the last run may be longer than needed
                return self._of(taken, n)
        raise ValueError(f"asked for the first {n} of {len(self)} processors")

    def __or__(self, other: IntervalSet) -> Self:
        """Union. O(k log k) for two small sets, one slice per interval of the smaller one."""
        small, large = self._bounds, other._bounds
        if len(small) > len(large):
            small, large = large, small
        if len(small) > _MANY:
            return self._of(_merged(small, large))
        bounds = large.copy()
        for k in range(0, len(small), 2):
            start, stop = small[k], small[k + 1]
            i = bisect_left(bounds, start)
            j = bisect_right(bounds, stop, i)
            if i == j and not i & 1:  # a separate run, the most frequent case
                bounds[i:i] = (start, stop)
            else:
                _join(bounds, start, stop, i, j)
        return self._of(bounds)

    def __sub__(self, other: IntervalSet) -> Self:
        """Difference. One slice per interval of other, or one slice if other are the lowest members."""
        gone = other._bounds
        if _are_lowest(gone, self._bounds):
            rest = self._bounds[len(gone) - 1 :]
            if rest[0] == gone[-1]:
                del rest[0]
            else:
                rest.insert(0, gone[-1])
            return self._of(rest)
        bounds = self._bounds.copy()
        if len(gone) > _MANY and bounds:
            # Only the runs between the lowest and the highest member of self matter: few, if self is one run.
            gone = gone[bisect_right(gone, bounds[0]) & ~1 : bisect_left(gone, bounds[-1]) + 1 & ~1]
            if len(gone) > _MANY:
                return self._of(_without(bounds, gone))
        for k in range(0, len(gone), 2):
            start, stop = gone[k], gone[k + 1]
            i = bisect_left(bounds, start)
            j = bisect_right(bounds, stop)
            # Odd means inside a run: cut it there. Even means between runs: nothing to cut.
            bounds[i:j] = ([start] if i & 1 else []) + ([stop] if j & 1 else [])
        return self._of(bounds)

    def __and__(self, other: IntervalSet) -> Self:
        """Intersection. O(k)."""
        a, b = self._bounds, other._bounds
        bounds: list[int] = []
        i = j = 0
        while i < len(a) and j < len(b):
            start, stop = max(a[i], b[j]), min(a[i + 1], b[j + 1])
            if start < stop:
                bounds += (start, stop)
            if a[i + 1] < b[j + 1]:
                i += 2
            else:
                j += 2
        return self._of(bounds)

    def between(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the half-open intervals of the members from `start` to before `stop`. O(log k), plus these."""
        bounds = self._bounds
        i = bisect_right(bounds, start) & ~1
        while i < len(bounds) and bounds[i] < stop:
            yield max(bounds[i], start), min(bounds[i + 1], stop)
            i += 2

    def issubset(self, other: IntervalSet) -> bool:
        """Return whether every member is in other too. O(k log k)."""
        mine, theirs = self._bounds, other._bounds
        if _are_lowest(mine, theirs):
            return True
        for k in range(0, len(mine), 2):
            i = bisect_right(theirs, mine[k])
            if not i & 1 or mine[k + 1] > theirs[i]:
                return False
        return True

    def isdisjoint(self, other: IntervalSet) -> bool:
        """Return whether no member is shared. O(k)."""
        return not self & other

    def __contains__(self, member: int) -> bool:
        return bool(bisect_right(self._bounds, member) & 1)

    def __len__(self) -> int:
        """Count the members. O(k) the first time, then O(1)."""
        if self._n < 0:
            self._n = sum(self._bounds[1::2]) - sum(self._bounds[::2])
        return self._n

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def __eq__(self, other: object) -> bool:
        return self._bounds == other._bounds if isinstance(other, IntervalSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._bounds))

    def __str__(self) -> str:
        """Return Batsim's canonical form, ``0-3 5``. O(k) the first time, then O(1)."""
        if self._text is None:
            self._text = " ".join([f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in self.intervals()])
        return self._text

    def to_procset(self) -> ProcSet:
        """Return a procset.ProcSet of the same processors. Quadratic in k (procset merges one by one)."""
        from procset import ProcInt, ProcSet  # noqa: PLC0415  imported only when it is needed

        return ProcSet(*(ProcInt(a, b - 1) for a, b in self.intervals()))

    def __iter__(self) -> Iterator[int]:
        for a, b in self.intervals():
            yield from range(a, b)

    def __reduce__(self) -> tuple[Any, ...]:
        return IntervalSet.parse, (str(self),)

    def __repr__(self) -> str:
        return f"IntervalSet({str(self)!r})"


def _integer(value: Any) -> int:
    """Return an integer of any class as an int. Raises NotIntegerError for all else, bool included."""
    if type(value) is not bool:
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise NotIntegerError(f"a processor id, or a number of processors, is an integer, not {value!r:.80}")


def _merged(a: list[int], b: list[int]) -> list[int]:
    """Unite two sets of runs in one pass; sorting two sorted lists together is linear."""
    return _joined([*zip(a[::2], a[1::2], strict=True), *zip(b[::2], b[1::2], strict=True)])


def _joined(intervals: Iterable[tuple[int, int]]) -> list[int]:
    bounds: list[int] = []
    for start, stop in sorted(intervals):
        if bounds and start <= bounds[-1]:
            bounds[-1] = max(bounds[-1], stop)
        else:
            bounds += (start, stop)
    return bounds


def _without(bounds: list[int], gone: list[int]) -> list[int]:
    """Return the bounds of a difference. One bisection per run, and one step per run that is cut out of it."""
    rest: list[int] = []
    for k in range(0, len(bounds), 2):
        start, stop = bounds[k], bounds[k + 1]
        i = bisect_right(gone, start)
        if i & 1:  # inside a run that is gone
            start = gone[i]
            i += 1
        while start < stop:
            if i == len(gone) or gone[i] >= stop:
                rest += (start, stop)
                break
            rest += (start, gone[i])
            start = gone[i + 1]
            i += 2
    return rest


def _are_lowest(some: list[int], bounds: list[int]) -> bool:
    """Return whether some are the lowest members of a set, as `first` returns them. O(k), in C."""
    head = some[:-1]
    n = len(head)
    return n > 0 and bounds[:n] == head and some[n] <= bounds[n]


def _insert(bounds: list[int], start: int, stop: int) -> None:
    """Add one run in place, merging with neighbours it touches."""
    _join(bounds, start, stop, bisect_left(bounds, start), bisect_right(bounds, stop))


def _join(bounds: list[int], start: int, stop: int, i: int, j: int) -> None:
    """Add one run in place of the bounds i to j that it covers or touches."""
    bounds[i:j] = ([] if i & 1 else [start]) + ([] if j & 1 else [stop])


#: The empty set.
EMPTY: Final = IntervalSet()
