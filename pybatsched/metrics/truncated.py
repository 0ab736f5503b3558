"""Read the truncation of a run (``--stop-at``): its time, and the unfinished jobs, which count up to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pybatsched.core.events import NOTHING
from pybatsched.errors import InputError


class UnfinishedJob(NamedTuple):
    """A job that had not ended at the truncation; `started_at` is None if it waited.

    In a run that counted nodes, a running job has its processors, and the fields with its request.
    """

    n_procs: int
    submitted_at: float
    started_at: float | None
    procs: str = ""
    fields: Mapping[str, Any] = NOTHING


class Truncation(NamedTuple):
    """The time at which the simulation was truncated, and the unfinished jobs, None if unknown."""

    at: float
    unfinished: Sequence[UnfinishedJob] | None

    def in_use(self) -> Iterator[tuple[float, float]]:
        """Yield the changes of the processors in use by the jobs that ran at the truncation."""
        for job in self.unfinished or ():
            if job.started_at is not None:
                yield job.started_at, float(job.n_procs)
                yield self.at, -float(job.n_procs)

    def waiting(self) -> Iterator[tuple[float, float]]:
        """Yield the changes of the number of waiting jobs by all unfinished jobs."""
        for job in self.unfinished or ():
            yield job.submitted_at, 1.0
            yield (self.at if job.started_at is None else job.started_at), -1.0

    def span(self, submitted_at: Iterable[float]) -> tuple[float, float]:
        """Return the first submission of all jobs and the truncation; (0, 0) if there is no submission before it."""
        first = min([*submitted_at, *(job.submitted_at for job in self.unfinished or ())], default=math.inf)
        return (first, self.at) if first <= self.at else (0.0, 0.0)


def of_summary(where: str, summary: Mapping[str, Any]) -> Truncation | None:
    """Read the truncation in a summary; None if there was none. Raises InputError for malformed members."""
    at = summary.get("cut_at")
    if at is None:
        return None
    if not _is_time(at):
        raise InputError(f"{where}: cut_at is {at!r:.40}; expected a time in seconds")
    unfinished = summary.get("unfinished")
    entries = [entry for entry in unfinished if isinstance(entry, dict)] if isinstance(unfinished, list) else []
    if unfinished is None or any("n_procs" not in entry for entry in entries):
        return Truncation(float(at), None)
    return Truncation(float(at), [_unfinished_job(where, entry) for entry in entries])


def _unfinished_job(where: str, entry: Mapping[str, Any]) -> UnfinishedJob:
    n_procs, submitted_at, started_at = (entry.get(name) for name in ("n_procs", "submitted_at", "started_at"))
    is_count = isinstance(n_procs, int) and not isinstance(n_procs, bool) and n_procs >= 0
    if not (is_count and _is_time(submitted_at) and (started_at is None or _is_time(started_at))):
        expected = "n_procs, submitted_at, and started_at if it runs"
        raise InputError(f"{where}: unfinished: expected {expected}, found {dict(entry)!r:.120}")
    times = float(submitted_at or 0), None if started_at is None else float(started_at)
    return UnfinishedJob(int(n_procs or 0), *times, str(entry.get("procs", "")), entry.get("fields") or NOTHING)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
