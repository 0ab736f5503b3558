"""Read ``_jobs.csv``, as Batsim and the embedded simulator write it, and write the columns that are read."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Final

from pybatsched.core.events import FINAL_STATES, REJECTED
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.metrics import Outcome

COLUMNS: Final = (
    "job_id",
    "workload_name",
    "submission_time",
    "final_state",
    "starting_time",
    "execution_time",
    "allocated_resources",
    "metadata",
)

#: Largest time in a file. Sums of such times are still finite.
END_OF_TIME_S: Final = 1e30
_AT_THE_END: Final = "unexpected end of data"  # message of csv for a quoted field without an end

# A field may list all processors of a large machine one by one.
csv.field_size_limit(2**31 - 1)


def read_partial(path: str | Path) -> Iterator[Outcome]:
    """Yield the rows of an unfinished run. The file may be missing, or end in the middle of a row."""
    if Path(path).exists():
        yield from read(path, is_partial=True)


def read(path: str | Path, *, is_partial: bool = False) -> Iterator[Outcome]:
    """Yield the outcome of each row, without a truncated last one if `is_partial`. O(rows). Raises InputError."""
    rows = None
    try:
        with Path(path).open(encoding="utf-8-sig", newline="", errors="replace" if is_partial else "strict") as file:
            whole_lines = (line for line in file if line.endswith("\n"))
            rows = csv.reader(whole_lines if is_partial else file, strict=True)
            head = next(rows, None)
            if head is None:
                if is_partial:
                    return
                raise InputError(f"{path}: line 1: the file is empty (was the disk full?)")
            missing = [name for name in COLUMNS if name not in head]
            if missing:
                raise InputError(f"{path}: line 1: no column {missing[0]!r}; expected Batsim's columns")
            positions = [head.index(name) for name in COLUMNS]
            chosen, least = itemgetter(*positions), max(positions) + 1
            sets: dict[str, IntervalSet] = {}
            for row in rows:
                if len(row) >= least:
                    yield _outcome(chosen(row), sets, path, rows.line_num)
                elif row:
                    raise InputError(
                        f"{path}: line {rows.line_num}: the row is truncated; expected {least} fields, found {len(row)}"
                    )
    except OSError as error:
        raise InputError(_unreadable(path, error)) from None
    except (UnicodeDecodeError, csv.Error) as error:
        if is_partial and str(error) == _AT_THE_END:
            return
        line = rows.line_num if rows is not None else 1
        raise InputError(f"{path}: line {line}: the table is damaged or truncated: {error}") from None


def write(path: str | Path, outcomes: Iterable[Outcome]) -> None:
    """Write a row for each outcome. O(rows)."""
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for one in outcomes:
            workload, _, name = one.id.partition("!")
            submitted, started, ran = (f"{at:.6f}" for at in (one.submitted_at, one.started_at, one.runtime_s))
            rows.writerow((name, workload, submitted, one.state, started, ran, one.procs, one.metadata))


def _unreadable(path: str | Path, error: OSError) -> str:
    run = str(path).removesuffix("_jobs.csv")
    if isinstance(error, FileNotFoundError) and run != str(path):
        return f"no run {run!r}: {path} does not exist; expected PREFIX of `simulate -e PREFIX`"
    return f"{path}: cannot be read: {error.strerror}"


def _outcome(values: tuple[str, ...], sets: dict[str, IntervalSet], path: str | Path, line: int) -> Outcome:
    """Parse a row. `sets` caches the processor sets of earlier rows by their text: many jobs have the same ones."""
    name, workload, submission, state, start, runtime, allocation, metadata = values
    job_id = f"{workload}!{name}"
    if state not in FINAL_STATES:
        expected = ", ".join(FINAL_STATES)
        raise InputError(f"{path}: line {line}: job {job_id}: final_state {state!r:.40}; expected one of {expected}")
    try:
        submitted_at = _seconds(submission, "submission_time")
        if state == REJECTED:
            return Outcome(job_id, state, submitted_at, 0.0, 0.0, 0, metadata)
        started_at, runtime_s = _seconds(start, "starting_time"), _seconds(runtime, "execution_time")
        procs = sets.get(allocation)
        if procs is None:
            procs = sets[allocation] = _processors(allocation)
    except ValueError as error:
        raise InputError(f"{path}: line {line}: job {job_id}, {error}") from None
    return Outcome(job_id, state, submitted_at, started_at, runtime_s, len(procs), metadata, procs)


def _processors(text: str) -> IntervalSet:
    try:
        return IntervalSet.parse(text)
    except ValueError as error:
        raise ValueError(f"field allocated_resources: {error}") from None


def _seconds(text: str, name: str) -> float:
    """Parse a number of seconds. Raises ValueError also for NaN, infinity and underscores, which Python accepts."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not -END_OF_TIME_S <= value <= END_OF_TIME_S or "_" in text:
        raise ValueError(f"field {name}: expected seconds, found {text!r:.40}")
    return value
