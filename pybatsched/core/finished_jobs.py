"""Finished jobs: their ids in little memory, and how the most recent ones ended.

A long run has millions of jobs, and none of their ids may be used again. Most ids contain a number, so one bit is
stored for each of them.
"""

from __future__ import annotations

from typing import Final

_DIGITS: Final = "0123456789"
_SHIFT: Final = 10
_MASK: Final = (1 << _SHIFT) - 1
_MAX_SERIES: Final = 4096
_MAX_DIGITS: Final = 18  # longer numbers are stored as text

#: The text before the number of an id, the text after it, and the width of a number with leading zeros.
Series = tuple[str, str, int]


class IdSet:
    """An exact set of ids that only grows. O(1).

    1,024 numbers in a row take a quarter of a kilobyte. An id without a number, or of too many series
    (`_MAX_SERIES`), is stored as text.
    """

    def __init__(self) -> None:
        self._series: dict[Series, dict[int, int]] = {}  # for each 1,024 numbers one bit each
        self._others: set[str] = set()
        self._fresh: set[str] = set()  # at most `N_RECENT` new ones as text, which is quick

    def add(self, job_id: str) -> None:
        """Add an id. O(1) on average."""
        self._fresh.add(job_id)
        if len(self._fresh) > N_RECENT:
            self._settle()

    def _settle(self) -> None:
        """Store the new ids in little memory. O(new ids)."""
        for job_id in self._fresh:
            found = _numbered(job_id)
            if found is not None and (found[0] in self._series or len(self._series) < _MAX_SERIES):
                series, number = found
                bits = self._series.setdefault(series, {})
                bits[number >> _SHIFT] = bits.get(number >> _SHIFT, 0) | 1 << (number & _MASK)
            else:
                self._others.add(job_id)
        self._fresh.clear()

    def has(self, job_id: str) -> bool:
        """Return whether an id is in the set."""
        if job_id in self._fresh or job_id in self._others:
            return True
        found = _numbered(job_id) if self._series else None
        if found is None:
            return False
        series, number = found
        bits = self._series.get(series)
        return bits is not None and bool(bits.get(number >> _SHIFT, 0) >> (number & _MASK) & 1)

    @property
    def n_kept(self) -> int:
        """How many objects are stored: groups of numbers, and single ids."""
        self._settle()
        return len(self._others) + sum(map(len, self._series.values()))


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
    """The ids of all finished jobs and segments, and how the recent ones ended. O(1) on average."""

    def __init__(self) -> None:
        self._recent: dict[str, tuple[str, float | None, float | None, bool]] = {}
        self._failed = IdSet()  # older ones without success
        self._killed = IdSet()  # killed, or continued under another id
        self._ended = IdSet()  # ended in any other way
        self._has_older = False  # false in most runs, which are short: then no further look-up is needed

    def add(
        self,
        job_id: str,
        word: str,
        at: float | None = None,
        started_at: float | None = None,
        *,
        is_success: bool = False,
    ) -> None:
        """Record how a job ended, when, when it had started, and whether it was a success."""
        recent = self._recent
        if job_id in recent:  # a continued job that ends under its own id is recent again
            del recent[job_id]
        recent[job_id] = (word, at, started_at, is_success)
        if len(recent) > N_RECENT:
            self._forget_older()

    def outcome(self, job_id: str) -> str | None:
        """Return how a job ended, as text; None if it is not finished."""
        found = self._recent.get(job_id)
        if found is not None:
            word, at, *_ = found
            return word if at is None else f"{word} at {at}"
        if self._ended.has(job_id):  # first: a killed job that ended later counts as ended
            return "long ago"
        return "killed long ago" if self._killed.has(job_id) else None

    def started_at(self, job_id: str) -> float:
        """Return when a recent job started, or was rejected; 0 for an older one."""
        _, at, started_at, _ = self._recent.get(job_id, ("", None, None, True))
        return (at if started_at is None else started_at) or 0.0

    def was_success(self, job_id: str) -> bool:
        """Return whether a finished job ended with success."""
        found = self._recent.get(job_id)
        return not self._failed.has(job_id) if found is None else found[3]

    def was_killed(self, job_id: str) -> bool:
        """Return whether a job was killed, or continued under another id."""
        found = self._recent.get(job_id)
        if found is not None:
            return _is_kill(found[0])
        return self._killed.has(job_id) and not self._ended.has(job_id)

    def has(self, job_id: str) -> bool:
        """Return whether a job is finished."""
        if job_id in self._recent:
            return True
        return self._has_older and (self._ended.has(job_id) or self._killed.has(job_id))

    def _forget_older(self) -> None:
        """Keep only the ids of the older half of the recent jobs."""
        kept = list(self._recent.items())
        half = len(kept) // 2
        for job_id, (word, _, _, is_success) in kept[:half]:
            (self._killed if _is_kill(word) else self._ended).add(job_id)
            if not is_success:
                self._failed.add(job_id)
        self._recent = dict(kept[half:])
        self._has_older = True


def _is_kill(outcome: str) -> bool:
    return outcome.startswith("continued") or "KILLED" in outcome
