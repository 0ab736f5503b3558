"""A run's ``_jobs.csv`` by columns, where nothing but numbers is told of its jobs, as in nearly all runs.

Many figures need no `JobRecord` each: 100,000 of them take a second to make, and to take apart again. This is the fast
twin of `jobs_csv` and `joined` for those who want columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, Final, overload

from pybatsched.core.events import FINAL_STATES, REJECTED
from pybatsched.metrics.jobs_csv import COLUMNS, END_OF_TIME_S
from pybatsched.metrics.outcomes import JobRecord

_RAN: Final = frozenset(FINAL_STATES) - {REJECTED}
_TIMES: Final = re.compile(r"[0-9.eE+ -]*")  # neither nan nor 1_0, which Python takes
_PROCS: Final = re.compile(r"[0-9 -]*")
_LAST: Final = 2**31  # processors; what has more, or seems to, is for the careful way
_ROWS: Final = 64  # read at once: measured, more are slower, as they do not fit into the processor's caches


@dataclass(frozen=True, slots=True)
class Sets:
    """Sets of processors: all their intervals one after another, without their ends, and how many each set has."""

    lows: Sequence[int]
    highs: Sequence[int]
    lengths: Sequence[int]
    sizes: Sequence[int]


@dataclass(frozen=True, slots=True)
class PlainJobs:
    """Jobs that ran once each and have no metadata, in the order of their rows; `where` says which set each held.

    `users` are as their workload has them, empty if none of the jobs has one.
    """

    ids: Sequence[str]
    states: Sequence[str]
    submitted_at: Sequence[float]
    started_at: Sequence[float]
    runtime_s: Sequence[float]
    where: Sequence[int]
    sets: Sets
    users: Sequence[str] = ()


class Awaited(Sequence[JobRecord]):
    """So many records, which are put together when somebody looks at one."""

    def __init__(self, n: int, make: Callable[[], Sequence[JobRecord]]) -> None:
        self._n = n
        self._make = make
        self._made: Sequence[JobRecord] | None = None

    def _records(self) -> Sequence[JobRecord]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, place: int) -> JobRecord: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[JobRecord]: ...

    def __getitem__(self, place: int | slice) -> JobRecord | Sequence[JobRecord]:
        return self._records()[place]

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self._records())


def read(path: str | Path) -> PlainJobs | None:
    """Read a file of which nothing need be said; None for all others, errors included. O(rows), 5 µs each."""
    try:
        columns = _columns(path)
        if columns is None:
            return None
        names, workloads, submitted_at, states, started_at, runtime_s, allocations, metadata = columns
        ids = [f"{workload}!{name}" for workload, name in zip(workloads, names, strict=True)]
        places = {text: place for place, text in enumerate(dict.fromkeys(allocations))}
        sets = sets_of(list(places))
    except (OSError, ValueError, csv.Error):  # a UnicodeDecodeError is a ValueError
        return None
    if any(metadata) or not _RAN.issuperset(states) or len(set(ids)) != len(ids) or sets is None:
        return None
    where = [places[text] for text in allocations]
    return PlainJobs(ids, states, submitted_at, started_at, runtime_s, where, sets)


def _columns(path: str | Path) -> list[list[Any]] | None:
    """Give the columns of `COLUMNS`, times as numbers; None if rows are of several lengths. Raises ValueError."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, strict=True)
        head = next(rows, [])
        places = [head.index(name) for name in COLUMNS]
        is_number = [name.endswith("_time") for name in COLUMNS]
        found: list[list[Any]] = [[] for _ in COLUMNS]
        while some := list(islice(rows, _ROWS)):
            if set(map(len, some)) != {len(head)}:
                return None
            columns = list(zip(*some, strict=True))
            for column, place, as_number in zip(found, places, is_number, strict=True):
                column.extend(_seconds(columns[place]) if as_number else columns[place])
    return found


def _seconds(texts: Sequence[str]) -> list[float]:
    """Read times. Raises ValueError unless all are plain numbers of seconds."""
    found = list(map(float, texts))
    if _TIMES.fullmatch(" ".join(texts)) is None or max(map(abs, found)) > END_OF_TIME_S:
        raise ValueError("no plain numbers")
    return found


def sets_of(texts: Sequence[str]) -> Sets | None:
    """Read sets as `IntervalSet.parse` does; None unless all are written plainly: in order, no gaps of none. O(k).

    >>> sets_of(["0-3 5", "7"])
    Sets(lows=[0, 5, 7], highs=[4, 6, 8], lengths=[2, 1], sizes=[5, 1])
    """
    if not texts:
        return Sets([], [], [], [])
    text = " ".join(texts)
    if _PROCS.fullmatch(text) is None:
        return None
    parts = text.split(" ")
    bounds = "-".join([part if "-" in part else f"{part}-{part}" for part in parts]).split("-")
    if len(bounds) != 2 * len(parts) or not all(bounds):
        return None
    lows, highs = list(map(int, bounds[::2])), [int(bound) + 1 for bound in bounds[1::2]]
    lengths = [text.count(" ") + 1 for text in texts]
    ends = [0, *accumulate(lengths)]
    steps = {i for i, (high, low) in enumerate(zip(highs, lows[1:], strict=False), 1) if low <= high}
    if max(highs) > _LAST or any(map(int.__ge__, lows, highs)) or not steps.issubset(ends):
        return None
    sizes = [0, *accumulate(high - low for low, high in zip(lows, highs, strict=True))]
    return Sets(lows, highs, lengths, [sizes[end] - sizes[begin] for begin, end in pairwise(ends)])
