"""Read files in the Standard Workload Format (version 2): comments as header, then a line of 18 fields per job.

The Parallel Workloads Archive defines the format. An unknown number is -1. Some logs have names instead of numbers of
users, groups, applications, queues or partitions; these are kept as text. A line may have more than 18 fields. The
others are kept if comments name them, as `; 18: used_GPUs (of all nodes)` does in a list of fields that starts with 0.
"""

from __future__ import annotations

import io
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError, setting
from pybatsched.workload.formats.conversion import OTHER_PARTITION, check_partitions, gc_paused
from pybatsched.workload.formats.files import BYTE_ORDER_MARK, decoded, opened, text_of_line
from pybatsched.workload.report import Tally

Label = int | str
Extra = int | float | str


class SwfJob(NamedTuple):
    """One job of a log, all 18 fields and its line. Times are seconds, -1 is unknown. The unit of memory differs."""

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


#: Part of the error for a file whose first line is not a comment and does not start with a number.
_NEITHER: Final = (
    "; the file is neither a log (SWF, Slurm, Rackham) nor a workload of Batsim (JSON); a table (CSV) needs "
    f"{setting('mapping')}, which `pybatsched workload describe-table` proposes"
)
#: Names of the 18 fields in error messages, in the order of the format.
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
_PARTITION: Final = 15
_NUMBERS: Final = tuple(index for index in range(18) if index not in _LABELS)
_WHOLE: Final = (0, 4, 7, 10, 16)
_EXACT: Final = 1 << 53  # larger whole numbers are not all exact in floating point; no log needs more
_CHUNK: Final = 1 << 22
_MOST_CACHED: Final = 1 << 16

_COUNT: Final = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?![\d.]|,\d)")


#: A name in a list of fields: its position, a colon, the name, and perhaps an explanation.
_NAMED: Final = re.compile(r"([0-9]{1,3})\s*:\s*([A-Za-z][A-Za-z0-9_-]{0,40})(?![^\s(,;])")
#: A number that is not a name: a value of an extra field.
_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}\.[0-9]{1,15}")
#: A description of nodes: their number, after names, and the cores of each.
_NODES: Final = re.compile(r"[^:]+:[^:]+:([0-9]{1,9})x[0-9]{1,9}")
DESCRIBED: Final = "sizes are the numbers of nodes in {}, not those in fields 5 and 8 ({:,} jobs have others)"
#: Names of the fields after the 18th in logs as Alea NG and Frontier's have them, by index.
FRONTIER: Final[Mapping[int, str]] = {18: "used_GPUs", 19: "soft_walltime", 20: "required_properties"}
UNNAMED: Final = "more than 18 fields, and the header does not name the others: these are ignored"

#: A key starts with a capital and is not a URL: continued comments are indented and often contain URLs.
_HEADER: Final = re.compile(r"([A-Z][A-Za-z0-9_ ]{0,40}?)\s*:(?!//)\s*(.*)")


@dataclass(slots=True)
class SwfTrace:
    """A log in memory: a header and the jobs, column by column (about 190 bytes a job).

    Iteration and `trace[i]` return jobs as records. `header` has the values by key. A key that occurs several times, or
    continues over several lines, has one line per value. `extras` are columns of named fields after the 18th, by name;
    None is a missing value. `unnamed` counts the lines with other fields after the 18th. `bad` counts the lines that a
    lenient reading has skipped, `others` the jobs of partitions that are not selected. `remarks` are notes about the
    whole log.
    """

    source: str
    header: dict[str, str] = field(default_factory=dict)
    numbers: list[array[Any]] = field(default_factory=lambda: [array("q" if i in _WHOLE else "d") for i in range(18)])
    labels: list[list[Label]] = field(default_factory=lambda: [[] for _ in range(18)])
    lines: array[int] = field(default_factory=lambda: array("L"))
    bad: dict[str, Tally] = field(default_factory=dict)
    others: Tally | None = None
    extras: dict[str, list[Extra | None]] = field(default_factory=dict)
    unnamed: Tally = field(default_factory=lambda: Tally(UNNAMED, "noted"))
    remarks: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> SwfJob:
        return SwfJob._make(column[index] for column in self._columns())

    def __iter__(self) -> Iterator[SwfJob]:
        return map(SwfJob._make, zip(*self._columns(), strict=True))

    def rows(self, indices: Iterable[int]) -> Iterator[SwfJob]:
        """Return the jobs at these indices, one by one."""
        return map(SwfJob._make, zip(*self.columns(SwfJob._fields, indices), strict=True))

    def columns(self, names: Iterable[str], indices: Iterable[int]) -> list[Sequence[Any]]:
        """Return some fields of the jobs at these indices, column by column. O(n) each."""
        places = list(indices)
        columns = dict(zip(SwfJob._fields, self._columns(), strict=True))
        if len(places) < 2:  # for one index, itemgetter does not return a sequence
            return [[columns[name][place] for place in places] for name in names]
        return list(map(itemgetter(*places), map(columns.__getitem__, names)))

    def _columns(self) -> list[Sequence[Any]]:
        return [*(self.labels[i] if i in _LABELS else self.numbers[i] for i in range(18)), self.lines]

    @property
    def n_bad(self) -> int:
        """The number of lines that a lenient reading has skipped."""
        return sum(tally.count for tally in self.bad.values())

    def header_count(self, key: str) -> int | None:
        """Return the number at the start of a header value, as in `MaxProcs: 1664 (72, 1368)`, if above 0."""
        match = _COUNT.match(self.header.get(key, ""))
        return int(match[0].replace(",", "")) or None if match else None

    @property
    def partitions(self) -> Counter[str]:
        """The number of jobs of each partition, by name. Jobs of unknown partitions do not count. O(n)."""
        return Counter(str(label) for label in self.labels[_PARTITION] if label != -1)

    @property
    def knows_waits(self) -> bool:
        """Whether any job has a known wait, and so a known start. O(n)."""
        return any(wait_s >= 0 for wait_s in self.numbers[2])

    def of_partitions(self, wanted: Sequence[str]) -> SwfTrace:
        """Return the log of some partitions. The jobs of the others are counted in it. O(n). Raises InputError."""
        check_partitions(self.source, wanted, self.partitions)
        chosen = set(wanted)
        if chosen >= {str(label) for label in self.labels[_PARTITION]}:
            return self
        keeps = [str(label) in chosen for label in self.labels[_PARTITION]]
        others = Tally(OTHER_PARTITION, "dropped")
        for line in compress(self.lines, (not kept for kept in keeps)):
            others.add(line)
        numbers = [array(column.typecode, compress(column, keeps)) for column in self.numbers]
        labels = [list(compress(column, keeps)) for column in self.labels]
        lines = array("L", compress(self.lines, keeps))
        extras = {name: list(compress(column, keeps)) for name, column in self.extras.items()}
        counted = others if others.count else None
        return SwfTrace(
            self.source, self.header, numbers, labels, lines, self.bad, counted, extras, self.unnamed, self.remarks
        )


def read_swf(path: str | Path, *, lenient: bool = False, names: Mapping[int, str] | None = None) -> SwfTrace:
    """Read a log, plain or gzip. About 6 µs per job: two seconds for the largest public logs.

    A line with fewer than 18 fields, or with an invalid number, is an InputError that names the file, the line and the
    field. A lenient reading skips such lines and counts them in `bad`. `names` are those of fields after the 18th, by
    index from 0, if the header does not have them. If one of these fields describes nodes, as `frontier:excl:25x112`
    does, sizes are its numbers of nodes.
    """
    trace = SwfTrace(str(path))
    reader = _Reader(trace, lenient=lenient, names=names)
    n_lines = 0
    with opened(path) as content, gc_paused():
        # 4 MB at a time, up to the end of a line: the log is never in memory as text.
        while chunk := content.read(_CHUNK) + content.readline():
            if not n_lines and b"\n" not in chunk:  # all lines of the file end in CR
                chunk = chunk.replace(b"\r", b"\n")
            n_lines += reader.take(chunk if n_lines else chunk.removeprefix(BYTE_ORDER_MARK), n_lines)
    if not n_lines or not (len(trace) or trace.n_bad or reader.n_comments):
        raise InputError(f"{path}: expected a log in the Standard Workload Format, found an empty file")
    _take_described_nodes(trace)
    return trace


def _take_described_nodes(trace: SwfTrace) -> None:
    """Replace sizes by the numbers of nodes in a field after the 18th, if all its values describe nodes. O(n)."""
    for name, column in trace.extras.items():
        nodes: dict[Extra | None, int] = {}
        for value in set(column):
            match = _NODES.fullmatch(value) if isinstance(value, str) else None
            nodes[value] = int(match[1]) if match else 0
        if not any(nodes.values()) or any(not n for value, n in nodes.items() if value not in {None, -1}):
            continue
        found = [nodes[value] for value in column]
        n_other = sum(n > 0 and n != size for n, size in zip(found, trace.numbers[4], strict=True))
        for index in (4, 7):
            sizes = zip(found, trace.numbers[index], strict=True)
            trace.numbers[index] = array("q", [n or size for n, size in sizes])
        trace.remarks.append(DESCRIBED.format(name, n_other))
        return


class _Labels(dict[bytes, Label]):
    """A cache of decoded names and numbers of users, queues, …: a log has few different ones."""

    def __missing__(self, text: bytes) -> Label:
        name = decoded(text)
        label = self[text] = int(name) if re.fullmatch(r"-?[0-9]{1,15}", name) else name
        return label


class _Extras(dict[bytes, Extra]):
    """A cache of decoded values of fields after the 18th."""

    def __missing__(self, text: bytes) -> Extra:
        name = decoded(text)
        value: Extra = name
        if re.fullmatch(r"-?[0-9]{1,15}", name):
            value = int(name)
        elif _DECIMAL.fullmatch(name):
            value = float(name)
        if len(self) < _MOST_CACHED:
            self[text] = value
        return value


def extra_names(named: Mapping[int, str]) -> dict[int, str]:
    """Return the names of fields after the 18th by index from 0, given a list of fields by position.

    The list counts from 0 if it has a position 0, or if it starts with 18, the first field that is not of the format;
    otherwise from 1. Lists of fewer than two fields do not count: they are comments.
    """
    if len(named) < 2 and not any(position >= 18 for position in named):
        return {}
    first = 0 if min(named) in {0, 18} else 1
    found = {position - first: name for position, name in sorted(named.items()) if position - first >= 18}
    by_name = {name: index for index, name in reversed(found.items())}
    return {index: name for index, name in found.items() if by_name[name] == index}


class _Reader:
    """Converts chunks of lines to columns: at once if all lines are valid (`take_jobs`), else line by line."""

    def __init__(self, trace: SwfTrace, *, lenient: bool, names: Mapping[int, str] | None = None) -> None:
        self.trace = trace
        self.lenient = lenient
        self.n_comments = 0
        self._key = ""
        self._labels = _Labels()
        self._extras = _Extras()
        self._named: dict[int, str] = {}
        self._names = names or {}

    def take(self, chunk: bytes, n_before: int) -> int:
        """Read complete lines, which follow `n_before` others, and return their number. O(length)."""
        n_head, rest = self._head(chunk)
        n_before += n_head
        n = self.take_jobs(rest, n_before)
        return n_head + (self.take_carefully(rest, n_before) if n is None else n)

    def _head(self, chunk: bytes) -> tuple[int, bytes]:
        """Read the comments at the start of a chunk. Returns their number and the rest of the chunk."""
        n = begin = 0
        while chunk.startswith(b";", begin):
            end = chunk.find(b"\n", begin) + 1 or len(chunk)
            self._comment(chunk[begin:end])
            n, begin = n + 1, end
        return n, chunk[begin:] if n else chunk

    def take_jobs(self, chunk: bytes, n_before: int) -> int | None:
        """Read lines that are all jobs and return their number. If one is not, read nothing and return None."""
        if b";" in chunk:
            return None
        if not chunk.endswith(b"\n"):
            chunk += b"\n"
        n = chunk.count(b"\n")
        width = len(chunk[: chunk.index(b"\n")].split())
        words = chunk.replace(b"\n", b" ; ").split()  # a mark at the end of each line, which must follow all fields
        if width < 18 or len(words) != (width + 1) * n or words[width :: width + 1].count(b";") != n:
            return None
        names = self._extra_names() if width > 18 else {}
        columns = {index: words[index :: width + 1] for index in (*range(18), *(i for i in names if i < width))}
        if b"_" in chunk and any(b"_" in b" ".join(columns[index]) for index in _NUMBERS):
            return None  # Python accepts 1_000 as a number, but the format does not
        try:
            numbers = {index: _read_column(columns[index], index) for index in _NUMBERS}
        except ValueError:
            return None
        lines = range(n_before + 1, n_before + n + 1)
        self._keep(numbers, columns, lines)
        self._keep_extras(columns, dict.fromkeys(lines, width) if width > 18 else {}, n)
        return n

    def take_carefully(self, chunk: bytes, n_before: int) -> int:
        """Read lines one by one, report or count invalid ones, and return the number of lines."""
        rows: list[list[bytes]] = []
        lines: list[int] = []
        texts = io.BytesIO(chunk).readlines()
        for line, text in enumerate(texts, n_before + 1):
            row = text.split()
            if len(row) >= 18 and row[0][:1] != b";":
                rows.append(row)
                lines.append(line)
            elif not row:
                continue
            elif row[0][:1] == b";":
                self._comment(text)
            else:
                if b"\0" in text:
                    text_of_line(self.trace.source, line, text)  # raises InputError
                is_none = line == 1 and not row[0].isdigit() and not self.lenient
                self._bad(line, f"expected at least 18 fields, found {len(row)}", _NEITHER if is_none else "")
        good = [self._is_good(row, line) for row, line in zip(rows, lines, strict=True)]
        rows = [row for row, fine in zip(rows, good, strict=True) if fine]
        lines = [line for line, fine in zip(lines, good, strict=True) if fine]
        columns = {index: [row[index] for row in rows] for index in range(18)}
        self._keep({index: _read_column(columns[index], index) for index in _NUMBERS}, columns, lines)
        widths = {line: len(row) for row, line in zip(rows, lines, strict=True) if len(row) > 18}
        names = self._extra_names() if widths else {}
        extras = {index: [row[index] if index < len(row) else None for row in rows] for index in names}
        self._keep_extras(extras, widths, len(rows))
        return len(texts)

    def _extra_names(self) -> Mapping[int, str]:
        """Return the names of fields after the 18th by index: of the header, else the given ones."""
        return extra_names(self._named) or self._names

    def _keep_extras(
        self, columns: Mapping[int, Sequence[bytes | None]], widths: Mapping[int, int], n_rows: int
    ) -> None:
        """Keep the named fields after the 18th of the last rows. `widths` are the fields on lines with more than 18."""
        names = self._extra_names() if widths or self.trace.extras else {}
        n_before = len(self.trace) - n_rows
        for index, name in names.items():
            words = columns.get(index) or [None] * n_rows
            column = self.trace.extras.setdefault(name, [None] * n_before)
            column += [None if word is None else self._extras[word] for word in words]
        unnamed = {width for width in set(widths.values()) if width - 18 > sum(index < width for index in names)}
        if unnamed:
            for line, width in widths.items():
                if width in unnamed:
                    self.trace.unnamed.add(line)

    def _keep(
        self, numbers: Mapping[int, Sequence[float]], columns: Mapping[int, Sequence[bytes]], lines: Iterable[int]
    ) -> None:
        for index, column in numbers.items():
            kept = self.trace.numbers[index]
            kept += array(kept.typecode, column)
        for index in _LABELS:
            self.trace.labels[index] += map(self._labels.__getitem__, columns[index])
        self.trace.lines.extend(lines)

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

    def _comment(self, line: bytes) -> None:
        """Read a line of the header. A line without a key continues the last value."""
        self.n_comments += 1
        text = decoded(line).strip().lstrip(";").strip()
        if named := _NAMED.match(text):
            self._named.setdefault(int(named[1]), named[2])
        match = _HEADER.fullmatch(text)
        if match:
            self._key = match[1]
            text = match[2]
        elif not text:
            self._key = ""
        if self._key and (text or match):
            before = self.trace.header.get(self._key)
            self.trace.header[self._key] = text if before is None else f"{before}\n{text}"


def _read_column(words: Sequence[bytes], index: int) -> list[float]:
    """Read a column of numbers, or raise ValueError if one is invalid. O(n)."""
    if words and words.count(words[0]) == len(words):  # most logs have fields that are unknown for all jobs
        return _read_numbers(words[:1], index) * len(words)
    return _read_numbers(words, index)


def _read_numbers(words: Sequence[bytes], index: int) -> list[float]:
    numbers = list(map(float, words))
    if numbers and not (math.isfinite(sum(numbers)) and min(numbers) > -_EXACT and max(numbers) < _EXACT):
        raise ValueError(FIELDS[index])
    if index not in _WHOLE:
        return numbers
    if not all(map(float.is_integer, numbers)):
        raise ValueError(FIELDS[index])
    return list(map(int, numbers))
