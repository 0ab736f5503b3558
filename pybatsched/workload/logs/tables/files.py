"""The rows of tables in files: CSV with any delimiter, Parquet, and arrays of JSON objects, also compressed."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import polars as pl

from pybatsched.errors import InputError
from pybatsched.workload import progress
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.formats.files import (
    BYTE_ORDER_MARK,
    PARQUET_MAGIC,
    decoded,
    is_compressed,
    opened,
    parts_of,
    text_of_line,
)

_CHUNK: Final = 1 << 22  # bytes of text
_ROWS: Final = 1 << 18
_MOST_JOINED: Final = 1000  # lines of one record
_LONGEST_LINE: Final = 1 << 24
_MARK: Final = "\0"
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}.*")
#: A comment of SWF. A table may start with an empty name and a semicolon, too.
_SWF_COMMENT: Final = re.compile(r"\s*;+(?:[^;]*$|[^;]*: )")
_N_SWF: Final = 18
_CONTROL: Final = re.compile(r"[\x01-\x08\x0e-\x1f\x7f-\x9f]")

#: Reports an invalid line of a file: the file, the line, the rule, and what was found. Raises if reading is strict.
Bad = Callable[[str, int, str, str], None]


class Chunk(NamedTuple):
    """Some rows: the file, the places of the rows in it, and their cells."""

    file: str
    places: Sequence[int]
    cells: pl.DataFrame


@dataclass(slots=True)
class Table:
    """A table in files of one kind, with the columns of the first file. `where` is what places count."""

    path: Path
    columns: list[str]
    files: list[Path]
    where: str
    delimiter: str = ""
    objects: Sequence[Sequence[Mapping[str, Any]]] = ()

    def chunks(self, wanted: Sequence[str], bad: Bad, header: Sequence[str] = ()) -> Iterator[Chunk]:
        """Yield all rows, with the wanted columns. Other lines with a `header` are errors. Raises InputError."""
        for number, file in enumerate(self.files):
            with progress.share(number, len(self.files)):
                if self.objects:
                    yield from _object_chunks(str(file), self.objects[number], wanted)
                elif self.delimiter:
                    yield from self._text_chunks(file, wanted, bad, header)
                else:
                    yield from _parquet_chunks(file, wanted)

    def _text_chunks(self, file: Path, wanted: Sequence[str], bad: Bad, header: Sequence[str]) -> Iterator[Chunk]:
        with opened(file) as content:
            columns, line = _header(file, content, self.delimiter)[:2]
            for name in wanted:
                if name not in columns:
                    raise InputError(f"{file}: line {line}: expected a column {name!r:.60}, as {self.files[0]} has")
            reader = _Rows(str(file), columns, self.delimiter, wanted, bad, header=header or columns)
            while piece := _piece(content):
                yield from reader.take(piece, line)
                line += piece.count(b"\n")


def open_table(path: str | Path, delimiter: str | None = None, *, layout: str = "rows") -> Table:
    """Open a table: find its files, their kind, the delimiter and the columns. Raises InputError."""
    place = Path(path)
    files = parts_of(place)
    first = files[0]
    with progress.paused(), opened(first) as content:
        start = content.read(4096)
    if start.startswith(PARQUET_MAGIC):
        return Table(place, _parquet_columns(first), files, "row")
    if re.match(rb"\s*[\[{]", start.removeprefix(BYTE_ORDER_MARK)):
        with progress.paused():
            rows = [_objects(file) for file in files]
        made = [_attempts(part) for part in rows] if layout == "attempts" else rows
        names = dict.fromkeys(name for part in rows for row in part for name in row)
        return Table(place, list(names), files, "row", objects=made)
    with progress.paused(), opened(first) as content:
        columns, _, found = _header(first, content, delimiter)
    return Table(place, columns, files, "line" if len(files) == 1 else "row", delimiter=found)


def _header(file: Path, content: BinaryIO, delimiter: str | None) -> tuple[list[str], int, str]:
    """Read the header: the names of the columns, its line, and the delimiter. Raises InputError."""
    line = 0
    while raw := content.readline(_LONGEST_LINE):
        line += 1
        text = text_of_line(file, line, raw)
        if text.strip():
            break
    else:
        raise InputError(f"{file}: expected a table, found an empty file")
    if "\r" in text:
        raise InputError(f"{file}: line {line}: expected lines that end in LF or CR LF, found CR (tr '\\r' '\\n')")
    found = delimiter or delimiter_of(text)
    try:
        cells = next(csv.reader([text], delimiter=found), [])
    except csv.Error:
        cells = text.split(found)
    names = [cell.strip() for cell in cells]
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    if _SWF_COMMENT.match(text) or len(numbers) == len(text.split()) >= _N_SWF:
        raise InputError(f"{file}: line {line}: expected a table, found a log in SWF, which needs no mapping")
    if any(map(_CONTROL.search, names)):
        raise InputError(f"{file}: line {line}: expected a header with the names of columns, found a binary file")
    if len(names) < 2:
        raise InputError(f"{file}: line {line}: expected a header with the names of columns, found {shown(text[:60])}")
    if 2 * len(numbers) >= len([name for name in names if name]):
        raise InputError(
            f"{file}: line {line}: expected a header with the names of columns, found a row of values, "
            f"{shown(text[:60])}; add a first line with names"
        )
    return names, line, found


def delimiter_of(header: str) -> str:
    """Return the delimiter of a header: the most frequent character that names of columns do not have, or a space."""
    counts = Counter(re.sub(r'"[^"]*"|[\w .()\[\]/%#$@+*-]', "", header))
    return max(counts, key=lambda one: (counts[one], one), default=" ")


def _piece(content: BinaryIO) -> bytes:
    """Read some megabytes up to the end of a line, and further lines if a text with quotes is not complete."""
    piece = content.read(_CHUNK) + content.readline(_LONGEST_LINE)
    for _ in range(_MOST_JOINED):
        if not piece.count(b'"') % 2 or not (more := content.readline(_LONGEST_LINE)):
            break
        piece += more
    return piece


class _Rows:
    """Makes columns of pieces of text. Pieces without quotes, in which all rows have the same length, are fast."""

    def __init__(
        self, file: str, columns: list[str], delimiter: str, wanted: Sequence[str], bad: Bad, *, header: Sequence[str]
    ) -> None:
        self._file = file
        self._columns = columns
        self._n = len(columns)
        self._delimiter = delimiter
        first = header[0]  # where it is a cell, there may be a second header
        ends = ((delimiter, delimiter), ("\n", delimiter), (delimiter, "\n"))
        self._header = frozenset(header)
        self._header_marks = tuple(f"{before}{first}{after}" for before, after in ends)
        self._wanted = {name: columns.index(name) for name in wanted}
        self._bad = bad

    def take(self, piece: bytes, n_before: int) -> Iterator[Chunk]:
        """Yield the rows of whole lines, which follow `n_before` others."""
        if b"\0" in piece:
            line = n_before + piece[: piece.index(b"\0")].count(b"\n") + 1
            raise InputError(f"{self._file}: line {line}: expected text, found a binary file")
        text = decoded(piece)
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        yield self._fast(text, n_before) or self._careful(text, n_before)

    def _fast(self, text: str, n_before: int) -> Chunk | None:
        """Return the rows of a piece; None if some line is not a row."""
        if '"' in text or "\r" in text or not self._delimiter.isascii():
            return None
        text = text if text.endswith("\n") else text + "\n"
        if any(one in text for one in self._header_marks) or text.startswith(self._header_marks[1][1:]):
            return None
        lines = pl.select(pl.lit(text[:-1]).str.split("\n")).to_series().explode()
        if (lines.str.count_matches(self._delimiter, literal=True) != self._n - 1).any():
            return None
        header = self._delimiter.join(map(str, range(self._n)))
        columns = [str(index) for index in self._wanted.values()]
        cells = pl.read_csv(
            f"{header}\n{text}".encode(),
            columns=columns,
            separator=self._delimiter,
            quote_char=None,
            infer_schema=False,
        )
        found = cells.select(pl.col(str(index)).alias(name) for name, index in self._wanted.items())
        return Chunk(self._file, range(n_before + 1, n_before + len(lines) + 1), found)

    def _careful(self, text: str, n_before: int) -> Chunk:
        """Return the rows of a piece, and report the lines that are not rows."""
        rows: list[list[str]] = []
        places: list[int] = []
        lines = io.StringIO(text, newline="")
        if text.count('"') % 2:
            reader = csv.reader(lines, delimiter=self._delimiter, quoting=csv.QUOTE_NONE)
        else:
            reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        line = n_before + 1
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                line = self._bad_lines(line, n_before + reader.line_num, "expected a line of CSV", f": {error}")
                continue
            if cells is None:
                break
            if len(cells) == self._n:
                names = [cell.strip() for cell in cells]
                if names != self._columns:  # else the header again
                    self._check_is_no_header(line, names)
                    rows.append(cells)
                    places.append(line)
            elif any(cell.strip() for cell in cells):
                rule = f"expected {self._n} fields"
                self._bad_lines(line, n_before + reader.line_num, rule, f", found {len(cells)}")
            line = n_before + reader.line_num + 1
        found = {name: [row[i] for row in rows] for name, i in self._wanted.items()}
        return Chunk(self._file, places, pl.DataFrame(found, schema=dict.fromkeys(found, pl.String)))

    def _check_is_no_header(self, line: int, cells: Sequence[str]) -> None:
        """Raise InputError for another header: the rows after it cannot be read by the first one."""
        if self._header.issubset(cells):
            raise InputError(
                f"{self._file}: line {line}: expected the columns of the first header in its order, found others, "
                f"{shown(', '.join(cells)[:60])}; put files with different headers into a directory"
            )

    def _bad_lines(self, line: int, last: int, rule: str, found: str) -> int:
        """Report an invalid record, each of its lines: a quote too many can make rows one record. Return the next."""
        text = "" if last <= line else f"; the text of a cell continues up to line {last}; check the quotes"
        for one in range(line, last + 1):
            self._bad(self._file, one, rule, found + text)
        return last + 1


def _parquet(file: Path, read: Callable[[], Any]) -> Any:
    """Read a Parquet file by polars. Errors of polars, and its panics, are InputErrors."""
    try:
        return read()
    except (InputError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001  a panic is not an Exception
        what = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(f"{file}: the Parquet data is truncated or damaged: {what}") from None


def _check_ends(file: Path) -> None:
    """Raise InputError for a file that was not written to its end: the length of its metadata and PAR1 are missing."""
    if is_compressed(file):
        raise InputError(f"{file}: expected Parquet without other compression; decompress it first (gunzip, unzstd)")
    size = file.stat().st_size
    with file.open("rb") as content:
        start = content.read(4)
        content.seek(max(size - 8, 0))
        end = content.read()
    n_metadata = int.from_bytes(end[:4], "little")
    if start != PARQUET_MAGIC or end[4:] != PARQUET_MAGIC or n_metadata > size - 12:
        raise InputError(
            f"{file}: the Parquet data is truncated or damaged: expected PAR1 at both ends, and metadata before the end"
        )


def _parquet_columns(file: Path) -> list[str]:
    _check_ends(file)
    return list(_parquet(file, lambda: pl.read_parquet_schema(file)))


def _parquet_chunks(file: Path, wanted: Sequence[str]) -> Iterator[Chunk]:
    """Yield chunks of rows with plain values."""
    names = _parquet_columns(file)
    for name in wanted:
        if name not in names:
            raise InputError(f"{file}: expected a column {name!r:.60}, as the other files of the table have")
    frame = _parquet(file, lambda: _plain(pl.read_parquet(file, columns=list(wanted), use_pyarrow=False)))
    for begin in range(0, frame.height, _ROWS):
        part = frame.slice(begin, _ROWS)
        progress.report((begin + part.height) / frame.height)
        yield Chunk(str(file), range(begin + 1, begin + part.height + 1), part)


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert lists to their means, categories and bytes to texts, decimals to numbers, zoned times to UTC."""
    made = []
    for name, kind in frame.schema.items():
        column = pl.col(name)
        if isinstance(kind, pl.Datetime) and kind.time_zone is not None:
            column = column.dt.convert_time_zone("UTC")
        elif isinstance(kind, pl.List | pl.Array):
            column = column.list.mean() if isinstance(kind, pl.List) else column.arr.mean()
        elif isinstance(kind, pl.Categorical | pl.Enum):
            column = column.cast(pl.String)
        elif isinstance(kind, pl.Decimal):
            column = column.cast(pl.Float64)
        elif isinstance(kind, pl.Binary):
            texts = [None if cell is None else decoded(cell) for cell in frame[name]]
            column = pl.lit(pl.Series(texts, dtype=pl.String))
        made.append(column.alias(name))
    return frame.select(made)


def _objects(file: Path) -> list[dict[str, Any]]:
    """Read an array of objects, or one object a line. Raises InputError."""
    with opened(file) as content:
        raw = content.read()
    text = decoded(raw.removeprefix(BYTE_ORDER_MARK))
    is_array = text.lstrip().startswith("[")
    found: list[Any] = []
    for line, piece in [(1, text)] if is_array else enumerate(text.split("\n"), 1):
        if not piece.strip():
            continue
        try:
            row = json.loads(piece)
        except (ValueError, RecursionError) as error:
            if '"jobs"' in text and '"profiles"' in text:
                raise InputError(
                    f"{file}: expected a table (an array of JSON objects), found a workload of Batsim, which needs no "
                    "mapping; of a directory, name one file"
                ) from None
            what, where = str(error), f"line {line}"
            if isinstance(error, json.JSONDecodeError):
                what, where = error.msg, f"line {line + error.lineno - 1}:{error.colno}"
            expected = "expected an array of JSON objects, or an object on each line"
            raise InputError(
                f"{file}: {where}: {expected}, found broken JSON (is the file complete?): {what}"
            ) from None
        found += row if is_array else [row]
    for place, row in enumerate(found, 1):
        if not isinstance(row, dict):
            raise InputError(f"{file}: row {place}: expected a JSON object, found {shown(row)}")
    if not found:
        raise InputError(f"{file}: expected an array of JSON objects, found an empty one")
    return found


def _attempts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each attempt of each object: submitted when the last one failed, or with the job."""
    made: list[dict[str, Any]] = []
    for row in rows:
        found = row.get("attempts")
        attempts = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        submitted = row.get("submitted_time")
        for number, attempt in enumerate(attempts, 1):
            detail = attempt.get("detail")
            nodes = [one for one in detail if isinstance(one, dict)] if isinstance(detail, list) else []
            gpus = [one.get("gpus") for one in nodes]
            own = {
                "submitted_time": submitted,
                "start_time": attempt.get("start_time"),
                "end_time": attempt.get("end_time"),
                "n_nodes": len(nodes),
                "n_gpus": sum(len(one) for one in gpus if isinstance(one, list)),
            }
            made.append({**row, **own, "status": row.get("status") if number == len(attempts) else "Failed"})
            submitted = attempt.get("end_time") or submitted
        if not attempts:
            made.append({**row, "start_time": None, "end_time": None, "n_nodes": None, "n_gpus": None})
    return made


def _object_chunks(file: str, rows: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> Iterator[Chunk]:
    for begin in range(0, len(rows), _ROWS):
        part = rows[begin : begin + _ROWS]
        progress.report(begin / len(rows))
        cells = [_series(name, [_scalar(row.get(name)) for row in part]) for name in wanted]
        yield Chunk(file, range(begin + 1, begin + len(part) + 1), pl.DataFrame(cells))


def _series(name: str, cells: Sequence[Any]) -> pl.Series:
    """Return cells as a column; if they have several types, as objects."""
    kinds = {type(cell) for cell in cells if cell is not None}
    is_plain = len(kinds) <= 1 and not any(isinstance(cell, int) and abs(cell) >> 53 for cell in cells)
    return pl.Series(name, cells, dtype=None if is_plain else pl.Object)


def _scalar(value: Any) -> Any:
    """Return a value of JSON as a number or a text; None for an object, and the mean of a list of numbers."""
    if isinstance(value, list):
        numbers = [one for one in value if isinstance(one, int | float) and not isinstance(one, bool)]
        return math.fsum(numbers) / len(numbers) if numbers else None
    return None if isinstance(value, dict) else value
