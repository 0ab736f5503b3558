"""Files in the Standard Workload Format (version 2): a header of comments, then a line of 18 fields for each job.

The format is described by the Parallel Workloads Archive. A number that is not known is -1. Some logs found in the
wild have names where the format has numbers (user, group, application, queue, partition); these are kept as text.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.workload.files import opened
from pybatsched.workload.report import Tally

Label = int | str


class SwfJob(NamedTuple):
    """One job of a log, all 18 fields and its line. Times are seconds, -1 is unknown.

    Memory is that of a processor: KB by the format, and other units in some logs, which do not say so.
    """

    number: int
    submitted_at: float
    wait_s: float
    run_s: float
    allocated_procs: int
    cpu_s: float
    used_memory: float
    requested_procs: int
    requested_s: float
    requested_memory: float
    status: int
    user: Label
    group: Label
    application: Label
    queue: Label
    partition: Label
    preceding_job: int
    think_s: float
    line: int


#: The 18 fields as error messages call them, in the order of the format.
FIELDS: Final = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "application",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
_LABELS: Final = frozenset({11, 12, 13, 14, 15})
_NUMBERS: Final = tuple(index for index in range(18) if index not in _LABELS)
_WHOLE: Final = (0, 4, 7, 10, 16)
_EXACT: Final = 1 << 53  # beyond this, floating point has holes between whole numbers; no log needs more

#: Capital first, and no address: the rest of a comment that goes on is indented and often holds one.
_HEADER: Final = re.compile(r"([A-Z][A-Za-z0-9_ ]{0,40}?)\s*:(?!//)\s*(.*)")


@dataclass(slots=True)
class SwfTrace:
    """A log in memory: a header and the jobs, column by column (about 190 bytes a job).

    Iterating, or `trace[i]`, gives a job as one record. `header` has the values by their keys; a key that is given
    several times, or goes on over several lines, has them all, a line each. `bad` counts the lines that a lenient
    reading left out.
    """

    source: str
    header: dict[str, str] = field(default_factory=dict)
    numbers: list[array[Any]] = field(default_factory=lambda: [array("q" if i in _WHOLE else "d") for i in range(18)])
    labels: list[list[Label]] = field(default_factory=lambda: [[] for _ in range(18)])
    lines: array[int] = field(default_factory=lambda: array("L"))
    bad: dict[str, Tally] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> SwfJob:
        return SwfJob._make(column[index] for column in self._columns())

    def __iter__(self) -> Iterator[SwfJob]:
        return map(SwfJob._make, zip(*self._columns(), strict=True))

    def rows(self, indices: Iterable[int]) -> Iterator[SwfJob]:
        """Give the jobs at these places, one by one."""
        columns = self._columns()
        return (SwfJob._make([column[index] for column in columns]) for index in indices)

    def _columns(self) -> list[Sequence[Any]]:
        return [*(self.labels[i] if i in _LABELS else self.numbers[i] for i in range(18)), self.lines]

    @property
    def n_bad(self) -> int:
        """Lines that a lenient reading left out."""
        return sum(tally.count for tally in self.bad.values())

    def header_count(self, key: str) -> int | None:
        """Give the number a header's value begins with, as in `MaxProcs: 1664 (72, 1368, 224)`, if more than 0."""
        match = re.match(r"\d{1,15}(?![\d.])", self.header.get(key, ""))
        return int(match[0]) or None if match else None


def read_swf(path: str | Path, *, lenient: bool = False) -> SwfTrace:
    """Read a log, plain or gzip. About 4 µs a job: two seconds for the largest public ones.

    A line that does not have 18 fields, or something else where a number must be, is an InputError that names the
    file, the line and the field; a lenient reading leaves such lines out and counts them in `bad`.
    """
    trace = SwfTrace(str(path))
    reader = _Reader(trace, lenient=lenient)
    n_lines = 0
    with opened(path) as content:
        while chunk := content.readlines(1 << 22):  # 4 MB at a time: the log is never in memory as text
            reader.take(chunk, n_lines)
            n_lines += len(chunk)
    if not n_lines or not (len(trace) or trace.n_bad or reader.n_comments):
        raise InputError(f"{path}: expected a log in the Standard Workload Format, found an empty file")
    return trace


class _Reader:
    """Turns chunks of lines into columns.

    The fast way takes all lines of a chunk at once; the careful way is gone only with a chunk that has something wrong
    in it, to find out what.
    """

    def __init__(self, trace: SwfTrace, *, lenient: bool) -> None:
        self.trace = trace
        self.lenient = lenient
        self.n_comments = 0
        self._key = ""
        self._labels: dict[bytes, Label] = {}  # a log has few names and many jobs

    def take(self, chunk: list[bytes], n_before: int) -> None:
        rows: list[list[bytes]] = []
        lines: list[int] = []
        odd = False
        for line, text in enumerate(chunk, n_before + 1):
            row = text.split()
            if len(row) == 18 and row[0][:1] != b";":
                rows.append(row)
                lines.append(line)
                odd = odd or b"_" in text  # 1_000 is a number to Python, and to nobody else
            elif not row:
                continue
            elif row[0][:1] == b";":
                self._comment(text)
            else:
                if b"\0" in text:
                    raise InputError(f"{self.trace.source}: line {line}: expected text, found a binary file")
                self._bad(line, f"expected 18 fields, found {len(row)}")
        try:
            if odd:
                raise ValueError
            columns = self._numbers(rows)
        except ValueError:
            good = [self._is_good(row, line) for row, line in zip(rows, lines, strict=True)]
            rows = [row for row, fine in zip(rows, good, strict=True) if fine]
            lines = [line for line, fine in zip(lines, good, strict=True) if fine]
            columns = self._numbers(rows)
        for index, column in columns.items():
            self.trace.numbers[index].extend(map(int, column) if index in _WHOLE else column)
        for index in _LABELS:
            self.trace.labels[index] += [self._label(row[index]) for row in rows]
        self.trace.lines.extend(lines)

    @staticmethod
    def _numbers(rows: list[list[bytes]]) -> dict[int, array[float]]:
        """Read the columns of numbers, or raise a ValueError if there is anything to say about one of them."""
        columns = {index: array("d", [float(row[index]) for row in rows]) for index in _NUMBERS}
        for index, column in columns.items():
            if column and not (math.isfinite(sum(column)) and max(map(abs, column)) < _EXACT):
                raise ValueError(FIELDS[index])
            if index in _WHOLE and not all(map(float.is_integer, column)):
                raise ValueError(FIELDS[index])
        return columns

    def _is_good(self, row: list[bytes], line: int) -> bool:
        for index in _NUMBERS:
            try:
                value = math.nan if b"_" in row[index] else float(row[index])
            except ValueError:
                value = math.nan
            expected = "a whole number" if index in _WHOLE else "a number"
            if not abs(value) < _EXACT or (index in _WHOLE and not value.is_integer()):
                found = row[index][:40].decode("utf-8", "backslashreplace")
                self._bad(line, f"field {index + 1} ({FIELDS[index]}): expected {expected}", f", found {found}")
                return False
        return True

    def _bad(self, line: int, rule: str, found: str = "") -> None:
        if not self.lenient:
            raise InputError(f"{self.trace.source}: line {line}: {rule}{found}")
        self.trace.bad.setdefault(rule, Tally(rule, "dropped")).add(line)

    def _label(self, text: bytes) -> Label:
        label = self._labels.get(text)
        if label is None:
            name = _decoded(text)
            label = self._labels[text] = int(name) if re.fullmatch(r"-?[0-9]{1,15}", name) else name
        return label

    def _comment(self, line: bytes) -> None:
        """Take a line of the header; one without a key goes on with the value before it."""
        self.n_comments += 1
        text = _decoded(line).strip().lstrip(";").strip()
        match = _HEADER.fullmatch(text)
        if match:
            self._key = match[1]
            text = match[2]
        elif not text:
            self._key = ""
        if self._key and (text or match):
            before = self.trace.header.get(self._key)
            self.trace.header[self._key] = text if before is None else f"{before}\n{text}"


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
