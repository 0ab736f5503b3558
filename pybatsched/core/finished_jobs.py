"""Finished jobs: their ids in little memory, and how the most recent ones ended.

A long run has millions of jobs, and none of their ids may be used again. Most ids contain a number, so they are stored
as ranges of numbers. Where one bit for each number takes less memory than the ranges, bits are stored instead.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from typing import Final

_DIGITS: Final = "0123456789"
_N_FRESH: Final = 1024
_MAX_SERIES: Final = 4096
_MAX_DIGITS: Final = 18  # what fits into 64 bits
_BLOCK_BITS: Final = 16
_BLOCK: Final = 1 << _BLOCK_BITS  # numbers per bitmap
_MAX_RANGES: Final = _BLOCK // 8 // 16  # this many ranges take as many bytes as a bitmap

#: The text before the number of an id, the text after it, and the width of a number with leading zeros.
Series = tuple[str, str, int]


class Ranges:
    """A set of integers as half-open ranges of 16 bytes each. `blocks` are bitmaps instead, by number."""

    __slots__ = ("blocks", "starts", "stops")

    def __init__(self) -> None:
        self.starts = array("q")
        self.stops = array("q")
        self.blocks: dict[int, bytearray] = {}

    def add(self, numbers: list[int]) -> None:
        """Add numbers. O(ranges + n log n)."""
        edges = [*zip(self.starts, self.stops, strict=True)]
        for number in numbers:
            bits = self.blocks.get(number >> _BLOCK_BITS)
            if bits is None:
                edges.append((number, number + 1))
            else:
                _set_bits(bits, number, number + 1)
        edges.sort()
        self._merge(edges)
        if len(self.starts) > _MAX_RANGES:
            self._pack()

    def has(self, number: int) -> bool:
        """Return whether a number is in the set. O(log ranges)."""
        bits = self.blocks.get(number >> _BLOCK_BITS)
        if bits is not None:
            return bool(bits[number % _BLOCK >> 3] >> (number & 7) & 1)
        i = bisect_right(self.starts, number)
        return i > 0 and number < self.stops[i - 1]

    def _merge(self, edges: list[tuple[int, int]]) -> None:
        """Replace all ranges by these, which are sorted and may overlap."""
        starts, stops = array("q"), array("q")
        for start, stop in edges:
            if stops and start <= stops[-1]:
                if stop > stops[-1]:
                    stops[-1] = stop
            else:
                starts.append(start)
                stops.append(stop)
        self.starts, self.stops = starts, stops

    def _pack(self) -> None:
        """Convert blocks with too many ranges to bitmaps. O(ranges + converted numbers)."""
        counts = Counter(start >> _BLOCK_BITS for start in self.starts)
        crowded = [block for block, n in counts.items() if n > _MAX_RANGES]
        if not crowded:
            return
        for block in crowded:
            self.blocks[block] = bytearray(_BLOCK // 8)
        kept: list[tuple[int, int]] = []
        for first, stop in zip(self.starts, self.stops, strict=True):
            start = first
            while start < stop:
                block = start >> _BLOCK_BITS
                end = min(stop, (block + 1) << _BLOCK_BITS)
                bits = self.blocks.get(block)
                if bits is None:
                    kept.append((start, end))
                else:
                    _set_bits(bits, start, end)
                start = end
        self._merge(kept)


def _set_bits(bits: bytearray, start: int, stop: int) -> None:
    for number in range(start, stop):
        bits[number % _BLOCK >> 3] |= 1 << (number & 7)


class IdSet:
    """An exact set of ids that only grows.

    A range of numbered ids takes 16 bytes, however long it is, and a block of 65,536 numbers at most one bit each. An
    id without a number, or of too many series (`_MAX_SERIES`), is stored as text. `add` is O(1) on average, `has`
    O(log ranges).
    """

    def __init__(self) -> None:
        self._fresh: set[str] = set()
        self._series: dict[Series, Ranges] = {}
        self._others: set[str] = set()
        self._n_ranges = 0
        self._n_at_most = _N_FRESH

    def add(self, job_id: str) -> None:
        """Add an id."""
        fresh = self._fresh
        fresh.add(job_id)
        if len(fresh) >= self._n_at_most:
            self._settle()

    def has(self, job_id: str) -> bool:
        """Return whether an id is in the set."""
        if job_id in self._fresh or job_id in self._others:
            return True
        if not self._series:
            return False
        found = _numbered(job_id)
        if found is None:
            return False
        ranges = self._series.get(found[0])
        return ranges is not None and ranges.has(found[1])

    @property
    def n_kept(self) -> int:
        """How many objects are stored: ranges, bitmaps and single ids."""
        return len(self._fresh) + len(self._others) + self._n_ranges

    def _settle(self) -> None:
        """Move the ids added since the last time into ranges."""
        new: dict[Series, list[int]] = {}
        for job_id in self._fresh:
            found = _numbered(job_id)
            if found is None:
                self._others.add(job_id)
            elif found[0] in new:
                new[found[0]].append(found[1])
            elif found[0] in self._series or len(self._series) + len(new) < _MAX_SERIES:
                new[found[0]] = [found[1]]
            else:
                self._others.add(job_id)
        for series, numbers in new.items():
            self._series.setdefault(series, Ranges()).add(numbers)
        self._fresh = set()
        self._n_ranges = sum(len(ranges.starts) + len(ranges.blocks) for ranges in self._series.values())
        # More with many ranges: each pass goes through all of them.
        self._n_at_most = _N_FRESH + self._n_ranges // 2


def _numbered(job_id: str) -> tuple[Series, int] | None:
    """Return the series of an id and its number in the series; None if it has no number.

    Ids of later segments end in ``.k``, possibly more than once: ``dyn!w0.17.0.1`` is a segment of ``w0!17.0``. The
    first of the trailing numbers differs most between jobs, so that one is used. No two ids give the same result.
    """
    stem = job_id.rstrip(_DIGITS)
    start, end = len(stem), len(job_id)  # the number is from `start` to `end`
    if stem[-1:] == ".":
        stop = end  # of the number, if it has a dot in front
        n_dotted = 0  # how many numbers with a dot in front end the id
        while stem.endswith(".") and len(stem) < end:
            start, stop = len(stem), end
            n_dotted += 1
            end = start - 1
            stem = job_id[:end].rstrip(_DIGITS)
        if len(stem) < end and (n_dotted < 2 or not stem or stem.endswith("!")):
            start = len(stem)  # as in job17.1 and w0!17.0.1, but not in dyn!w0.17.1
        else:
            end = stop
    digits = job_id[start:end]
    if not digits or len(digits) > _MAX_DIGITS:
        return None
    width = len(digits) if digits[0] == "0" else 0
    return (job_id[:start], job_id[end:], width), int(digits)


#: For at most this many jobs it is known how and when they ended.
N_RECENT: Final = 4096


class FinishedJobs:
    """The ids of all finished jobs and segments, and how the recent ones ended. Look-ups: O(log n)."""

    def __init__(self) -> None:
        self._recent: dict[str, tuple[str, float | None]] = {}
        self._stopped = IdSet()  # killed, or continued under another id
        self._ended = IdSet()  # ended in any other way
        self._has_older = False  # false in most runs, which are short: then no further look-up is needed

    def add(self, job_id: str, word: str, at: float | None = None) -> None:
        """Record how a job ended, and when."""
        recent = self._recent
        if job_id in recent:  # a continued job that ends under its own id is recent again
            del recent[job_id]
        recent[job_id] = (word, at)
        if len(recent) > N_RECENT:
            self._forget_older()

    def outcome(self, job_id: str) -> str | None:
        """Return how a job ended, as text; None if it is not finished."""
        found = self._recent.get(job_id)
        if found is not None:
            word, at = found
            return word if at is None else f"{word} at {at}"
        if self._ended.has(job_id):  # first: a stopped job that ended later counts as ended
            return "long ago"
        return "killed long ago" if self._stopped.has(job_id) else None

    def was_stopped(self, job_id: str) -> bool:
        """Return whether a job was killed, or continued under another id."""
        found = self._recent.get(job_id)
        if found is not None:
            return _is_stop(found[0])
        return self._stopped.has(job_id) and not self._ended.has(job_id)

    def has(self, job_id: str) -> bool:
        """Return whether a job is finished."""
        if job_id in self._recent:
            return True
        return self._has_older and (self._ended.has(job_id) or self._stopped.has(job_id))

    def _forget_older(self) -> None:
        """Keep only the ids of the older half of the recent jobs."""
        kept = list(self._recent.items())
        half = len(kept) // 2
        for job_id, (word, _) in kept[:half]:
            (self._stopped if _is_stop(word) else self._ended).add(job_id)
        self._recent = dict(kept[half:])
        self._has_older = True


def _is_stop(outcome: str) -> bool:
    return outcome.startswith("continued") or "KILLED" in outcome
