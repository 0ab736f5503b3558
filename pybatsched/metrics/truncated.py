"""What a run whose simulated time was ended (``--stop-at``) had left over: it counts over time, up to the cut."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pybatsched.errors import InputError


class Left(NamedTuple):
    """A job that was not over at the cut; `started_at` is None if it waited."""

    n_procs: int
    submitted_at: float
    started_at: float | None


class Cut(NamedTuple):
    """When simulated time was over, and what was left over then; None if nobody says."""

    at: float
    left: Sequence[Left] | None

    def in_use(self) -> Iterator[tuple[float, float]]:
        """Give the changes of the processors in use by the jobs that ran at the cut."""
        for one in self.left or ():
            if one.started_at is not None:
                yield one.started_at, float(one.n_procs)
                yield self.at, -float(one.n_procs)

    def waiting(self) -> Iterator[tuple[float, float]]:
        """Give the changes of the number of waiting jobs by all that were left over."""
        for one in self.left or ():
            yield one.submitted_at, 1.0
            yield (self.at if one.started_at is None else one.started_at), -1.0

    def span(self, submitted_at: Iterable[float]) -> tuple[float, float]:
        """Give the first submission, of jobs that were over or left over, and the cut; (0, 0) if there is none."""
        first = min([*submitted_at, *(one.submitted_at for one in self.left or ())], default=math.inf)
        return (first, self.at) if first <= self.at else (0.0, 0.0)


def of_summary(where: str, summary: Mapping[str, Any]) -> Cut | None:
    """Read what a summary says of a cut; None if there was none. Raises InputError for what it cannot mean."""
    at = summary.get("cut_at")
    if at is None:
        return None
    if not _is_time(at):
        raise InputError(f"{where}: cut_at is {at!r:.40}; expected a time in seconds")
    told = summary.get("unfinished")
    entries = [entry for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []
    if told is None or any("n_procs" not in entry for entry in entries):
        return Cut(float(at), None)
    return Cut(float(at), [_left(where, entry) for entry in entries])


def _left(where: str, entry: Mapping[str, Any]) -> Left:
    n_procs, submitted_at, started_at = (entry.get(name) for name in Left._fields)
    is_count = isinstance(n_procs, int) and not isinstance(n_procs, bool) and n_procs >= 0
    if not (is_count and _is_time(submitted_at) and (started_at is None or _is_time(started_at))):
        expected = "n_procs, submitted_at, and started_at if it runs"
        raise InputError(f"{where}: unfinished: expected {expected}, found {dict(entry)!r:.120}")
    times = float(submitted_at or 0), None if started_at is None else float(started_at)
    return Left(int(n_procs or 0), *times)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
