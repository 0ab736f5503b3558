"""Sets of ids that only grow, and nearly all of whose members have a number in them.

A run of days has millions of jobs, and none of their ids may ever be used again. Ids that are numbered, as those of
nearly all workloads are, cost nothing here once their neighbours are in as well: what is kept are ranges of numbers.
Where there are so many ranges that one bit for each number takes less room, bits are kept instead.
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
_BLOCK: Final = 1 << _BLOCK_BITS  # so many numbers share a map of bits
_MAX_RANGES: Final = _BLOCK // 8 // 16  # so many ranges take as many bytes as the map

#: What stands in front of the number of an id and behind it, and how wide a number is that begins with a zero.
Series = tuple[str, str, int]


class Ranges:
    """A set of integers as ranges, each 16 bytes: from a start to before a stop.

    `blocks` holds a map of bits for each block of numbers that would have too many ranges, by the block's number.
    """

    __slots__ = ("blocks", "starts", "stops")

    def __init__(self) -> None:
        self.starts = array("q")
        self.stops = array("q")
        self.blocks: dict[int, bytearray] = {}

    def add(self, numbers: list[int]) -> None:
        """Take in more numbers. O(ranges + n log n)."""
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
        """Tell whether a number is in. O(log ranges)."""
        bits = self.blocks.get(number >> _BLOCK_BITS)
        if bits is not None:
            return bool(bits[number % _BLOCK >> 3] >> (number & 7) & 1)
        place = bisect_right(self.starts, number)
        return place > 0 and number < self.stops[place - 1]

    def _merge(self, edges: list[tuple[int, int]]) -> None:
        """Keep these ranges, which are sorted and may overlap, and no others."""
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
        """Turn the ranges of a block into bits where there are too many. O(ranges + numbers that become bits)."""
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
    """A set of ids from which nothing is taken. It answers exactly.

    A range of numbered ids takes 16 bytes, however long it is, and 65,536 numbers in a row take at most a bit each. An
    id that has no number, or is one of too many series (`_MAX_SERIES`), is kept as it is. `add` is O(1) on the average,
    `has` O(log ranges).
    """

    def __init__(self) -> None:
        self._fresh: set[str] = set()
        self._series: dict[Series, Ranges] = {}
        self._others: set[str] = set()
        self._n_ranges = 0
        self._n_at_most = _N_FRESH

    def add(self, job_id: str) -> None:
        """Take in an id."""
        fresh = self._fresh
        fresh.add(job_id)
        if len(fresh) >= self._n_at_most:
            self._settle()

    def has(self, job_id: str) -> bool:
        """Tell whether an id is in."""
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
        """How many things are kept one by one: ranges, maps of bits, and ids that are in none."""
        return len(self._fresh) + len(self._others) + self._n_ranges

    def _settle(self) -> None:
        """Put what has come since the last time into ranges."""
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
        # More where there are many ranges: else to go through these would be the more costly the more there are.
        self._n_at_most = _N_FRESH + self._n_ranges // 2


def _numbered(job_id: str) -> tuple[Series, int] | None:
    """Take an id apart: its series and its number in it; None if it has none.

    Jobs that go on have ids that end in ``.k``, perhaps more than once: ``dyn!w0.17.0.1`` is a part of ``w0!17.0``. The
    first of the numbers at the end tells more jobs apart than the others do. No two ids give the same.
    """
    start = end = stop = len(job_id)  # the number is from `start` to `end`, or to `stop` if it has a dot in front
    n_dotted = 0  # how many numbers with a dot in front end the id
    stem = job_id.rstrip(_DIGITS)
    while stem.endswith(".") and len(stem) < end:
        start, stop = len(stem), end
        n_dotted += 1
        end = start - 1
        stem = job_id[:end].rstrip(_DIGITS)
    if len(stem) < end and (n_dotted < 2 or not stem or stem.endswith("!")):
        start = len(stem)  # as in w0!17, w0!job17, job17.1 and w0!17.0.1, but not in dyn!w0.17.1
    else:
        end = stop
    digits = job_id[start:end]
    if not digits or len(digits) > _MAX_DIGITS:
        return None
    width = len(digits) if digits[0] == "0" else 0
    return (job_id[:start], job_id[end:], width), int(digits)


#: Of so many jobs at the most it is known how they ended and when.
N_LAST_WORDS: Final = 4096


class Departed:
    """The ids of all jobs, and of parts of jobs, that are over. Those that are numbered take no room in the long run.

    To `add` is O(1) on the average; look-ups are O(1) for the last ones and O(log n) for those long over.
    """

    def __init__(self) -> None:
        self._last_words: dict[str, tuple[str, float | None]] = {}
        self._stopped = IdSet()  # by a kill, or to go on under another id
        self._over = IdSet()  # in any other way
        self._has_forgotten = False  # most runs are too short for it, and need not look any further

    def add(self, job_id: str, word: str, at: float | None = None) -> None:
        """Note what became of a job, and when."""
        last_words = self._last_words
        last_words.pop(job_id, None)  # one that went on may end under its own name: it is a last one again
        last_words[job_id] = (word, at)
        if len(last_words) > N_LAST_WORDS:
            self._forget_words()

    def last_word(self, job_id: str) -> str | None:
        """Say what became of a job; None if it is not among these."""
        found = self._last_words.get(job_id)
        if found is not None:
            word, at = found
            return word if at is None else f"{word} at {at}"
        if self._over.has(job_id):  # asked first: what was stopped and has ended all the same has ended
            return "long ago"
        return "killed long ago" if self._stopped.has(job_id) else None

    def was_stopped(self, job_id: str) -> bool:
        """Tell whether a job was ended by a kill, or went on under another id."""
        found = self._last_words.get(job_id)
        if found is not None:
            return _is_stop(found[0])
        return self._stopped.has(job_id) and not self._over.has(job_id)

    def has(self, job_id: str) -> bool:
        """Tell whether a job is among these."""
        if job_id in self._last_words:
            return True
        return self._has_forgotten and (self._over.has(job_id) or self._stopped.has(job_id))

    def _forget_words(self) -> None:
        """Forget the older half of the last words, but for whose they are."""
        kept = list(self._last_words.items())
        half = len(kept) // 2
        for job_id, (word, _) in kept[:half]:
            (self._stopped if _is_stop(word) else self._over).add(job_id)
        self._last_words = dict(kept[half:])
        self._has_forgotten = True


def _is_stop(last_word: str) -> bool:
    return last_word.startswith("went on") or "KILLED" in last_word
