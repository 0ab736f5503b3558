"""Read a table of jobs by a mapping of its columns (`tables.mapping`), column by column."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final

import polars as pl

from pybatsched.errors import InputError, setting
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.formats.conversion import zone_of
from pybatsched.workload.formats.files import SETS
from pybatsched.workload.logs import slurm_values as values
from pybatsched.workload.logs.cells import quick_numbers, read_cells
from pybatsched.workload.logs.records import MEMORY, SCHEMA, TIME, Records, as_dict, has_ended, not_before
from pybatsched.workload.logs.slurm_values import LoggedTime, Memory
from pybatsched.workload.logs.table import LogTable
from pybatsched.workload.logs.tables.files import Chunk, Table, open_table
from pybatsched.workload.logs.tables.mapping import (
    AUTO,
    FIELDS,
    UNITS,
    Column,
    Kind,
    TableMapping,
    detected,
    read_mapping,
    shipped,
)
from pybatsched.workload.walltimes import plain

BY_STATE: Final = "of a state that the mapping drops: dropped"
_A_TIME: Final = f"{values.A_TIME} (the mapping of a column can have another format)"
_MOST_S: Final = 100 * 366 * 86_400  # a century
_LATEST: Final = 253_402_300_800  # the year 10000
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]{1,20}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
#: A number, a duration or an amount with a decimal comma, perhaps with points between thousands.
DECIMAL_COMMA: Final = re.compile(r"[-+]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9:-]+),[0-9]+[^.,]*")
#: A number or an amount with a point, and no comma.
DECIMAL_POINT: Final = re.compile(r"[-+]?[0-9]*\.[0-9]*[^.,:]*")
_WITH_COMMAS: Final = re.compile(r"[-+]?[0-9:.-]+,[0-9.,]+[A-Za-z]*")
_COMMA_HINT: Final = (
    '; a decimal comma needs decimal = "," in [table] of the mapping; commas between thousands are invalid'
)
_ID_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_MOST_DIGITS: Final = 15
_MOST_ID: Final = 10**_MOST_DIGITS
_NO_LIMITS: Final = {**values.NO_LIMIT, "4294967294": -2.0, "4294967295": -1.0}  # numbers of Slurm's database


def read_table(
    path: str | Path,
    *,
    name: str | None = None,
    mapping: str | None = None,
    timezone: str | None = None,
    lenient: bool = False,
) -> LogTable:
    """Read a table: that of the public set `name`, or one with a mapping file. About 9 µs per row of 11 columns.

    Without both, the set is found by the columns. `timezone` replaces that of the mapping. An invalid row is an
    InputError that names the file, the line, the field and the column. A lenient reading skips such rows and counts
    them in `bad`.
    """
    chosen = read_mapping(mapping) if mapping is not None else None
    if chosen is None and name is not None:
        chosen = shipped(name)
    table = open_table(path) if chosen is None else open_table(path, chosen.delimiter, layout=chosen.layout)
    if chosen is None:
        found = detected(table.columns)
        if found is None:
            raise InputError(
                f"{table.files[0]}: expected the columns of a public set ({', '.join(SETS)}), found "
                f"{', '.join(table.columns)[:300]}; to read another table, write a mapping (`pybatsched workload "
                f"describe-table FILE`) and use {setting('mapping')}"
            )
        chosen = shipped(found)
        if chosen.layout != "rows":
            table = open_table(path, layout=chosen.layout)
    return _Reader(table, chosen, timezone, lenient=lenient).read()


def read_rows(table: Table, mapping: TableMapping) -> LogTable:
    """Read an open table leniently. O(rows). Raises InputError."""
    return _Reader(table, mapping, None, lenient=True).read()


def _with_unit(what: str, column: Column) -> str:
    """Return a column with its field and unit, for reports."""
    unit = f", format {column.format}" if column.format else f", unit {column.unit}" if column.unit else ""
    return f"column {column.name:.60} ({what}{unit})"


class _BadValueError(ValueError):
    """A value is invalid; the text is what was expected."""


def _text_of(cell: Any) -> str:
    """Return a cell as text; whole numbers have no decimals."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell)


class _Values:
    """Readers of single values by kind of column, for one table."""

    def __init__(self, mapping: TableMapping, zone: tzinfo) -> None:
        self.mapping = mapping
        self.zone = zone
        self.unknown = values.UNKNOWN | mapping.unknown
        self.origin_at: float | None = None
        if mapping.origin is not None:
            try:
                found = values.time_of(mapping.origin, zone)
            except ValueError as error:
                raise InputError(f"{mapping.at('table.origin')}: expected {error}, found {mapping.origin!r}") from None
            self.origin_at = found.at if found is not None else 0.0

    def of(self, what: str, column: Column) -> Callable[[Any], Any]:
        """Return the reader of the values of a column. It raises ValueError for an invalid value."""
        kind = FIELDS[what]
        makers: Mapping[Kind, Callable[[], Callable[[Any], Any]]] = {
            "id": lambda: self._id,
            "time": lambda: _Times(self, column).one,
            "duration": lambda: self._duration_with(what, column),
            "count": lambda: lambda cell: self._count(cell, column.resources),
            "memory": lambda: self._memory_with(column),
            "energy": lambda: self._amount_with(UNITS[kind][column.unit]),
            "power": lambda: self._amount_with(UNITS[kind][column.unit]),
            "number": lambda: self._priority,
            "state": lambda: self._state,
            "flag": lambda: lambda cell: None if (text := self._text(cell)) is None else text.lower() in column.true,
            "text": lambda: self._text,
        }
        read = makers[kind]()
        if self.mapping.decimal == "." or kind in {"id", "state", "flag", "text"} or column.format or column.resources:
            return read
        return lambda cell: read(self._with_point(cell))

    def _with_point(self, cell: Any) -> Any:
        """Return a text with a decimal point instead of the comma, and other cells as they are."""
        text = cell.strip() if isinstance(cell, str) else ""
        if text.lower() in self.unknown:
            return cell
        if DECIMAL_COMMA.fullmatch(text):
            return text.replace(".", "").replace(",", ".")
        if DECIMAL_POINT.fullmatch(text):
            raise _BadValueError('a number without points, because the mapping has decimal = ","')
        return cell

    def _number(self, cell: Any, expected: str, least: float = 0) -> float | None:
        """Return a number of at least `least`; None for an unknown one. Raises ValueError with the text."""
        if isinstance(cell, str):
            text = cell.strip()
            if text.lower() in self.unknown:
                return None
            if not _NUMBER.fullmatch(text):
                raise _BadValueError(expected)
            number = float(text)
            if self.mapping.unknown and _text_of(number) in self.unknown:
                return None
        elif isinstance(cell, int | float) and not isinstance(cell, bool):
            number = float(cell)
            if math.isnan(number) or (self.mapping.unknown and _text_of(number) in self.unknown):
                return None
        elif cell is None:
            return None
        else:
            raise _BadValueError(expected)
        if not least <= number < math.inf:
            raise _BadValueError(expected)
        return number

    def _id(self, cell: Any) -> dict[str, Any]:
        text = cell.strip() if isinstance(cell, str) else _text_of(cell)
        if text.lower() in self.unknown:
            raise _BadValueError("a job id")
        if text.endswith(".0") and text[:-2].isdigit():
            text = text[:-2]
        if _ID_NUMBER.fullmatch(text):
            return {"number": int(text), "name": None}
        if len(text) > 200:
            raise _BadValueError("a job id of at most 200 characters")
        return {"number": None, "name": text}

    def _duration_with(self, what: str, column: Column) -> Callable[[Any], float | None]:
        scale = UNITS["duration"][column.unit]
        expected = f"a duration in {'seconds' if column.unit in {AUTO, 's'} else column.unit}, or such as 1-12:00:00"
        is_limit = what == "limit"

        def one(cell: Any) -> float | None:
            if isinstance(cell, str) and ":" in cell:
                try:
                    return values.duration_of(cell.strip().removesuffix(".0"))
                except ValueError:
                    days = re.fullmatch(r"([0-9]{1,6}) days?,? ([0-9:.]+)", cell.strip())
                    if days is None:
                        raise _BadValueError(expected) from None
                    return values.duration_of(f"{days[1]}-{days[2]}")
            if isinstance(cell, timedelta):  # its unit is known
                return self._number(cell.total_seconds(), "a duration, 0 or more")
            if is_limit and (no_limit := _NO_LIMITS.get(_text_of(cell).lower())):
                return no_limit
            number = self._number(cell, expected)
            if number is None:
                return None
            seconds = number * scale
            if seconds > _MOST_S:
                raise _BadValueError(f"{expected}, at most a century (is the unit right?)")
            return seconds

        return one

    def _count(self, cell: Any, resources: tuple[str, ...]) -> int | None:
        if resources:
            amounts = [self._number(one, values.A_COUNT) for one in self._amounts(cell, resources)]
            known = [one for one in amounts if one is not None]
            number = math.fsum(known) if known else None
        else:
            number = self._number(cell, values.A_COUNT)
        if number is not None and (not number.is_integer() or number >= 1 << 31):
            most = "" if number < 1 << 31 else f", at most {(1 << 31) - 1:,}"
            raise _BadValueError(f"{values.A_COUNT}{most}")
        return None if number is None else int(number)

    def _amounts(self, cell: Any, resources: tuple[str, ...]) -> list[str]:
        """Return the amounts of some resources in a list such as 1=20,2=170000."""
        text = _text_of(cell).strip("\"'")
        if text.lower() in self.unknown:
            return []
        try:
            found = values.resources_of(text)
        except ValueError:
            raise _BadValueError("resources such as 1=20,2=170000") from None
        return [found[name.lower()] for name in resources if name.lower() in found]

    def _memory_with(self, column: Column) -> Callable[[Any], dict[str, Any] | None]:
        in_gb = UNITS["memory"][column.unit]
        per = {"job": "", "node": "n", "core": "c"}[column.per]
        expected = f"an amount of memory in {column.unit}, or such as 16G"

        def one(cell: Any) -> dict[str, Any] | None:
            if column.resources:
                cell = next(iter(self._amounts(cell, column.resources)), None)
            if isinstance(cell, str) and cell.strip() and not _NUMBER.fullmatch(cell.strip()):
                try:
                    found = values.memory_of(cell.strip())
                except ValueError:
                    raise _BadValueError(expected) from None
                return as_dict(found if found is None or found.per else Memory(found.gb, per))
            number = self._number(cell, expected)
            # 2^64 and the like mean: no limit
            return None if not number or number * in_gb > 2**30 else as_dict(Memory(number * in_gb, per))

        return one

    def _amount_with(self, scale: float) -> Callable[[Any], float | None]:
        def one(cell: Any) -> float | None:
            number = self._number(cell, "a number, 0 or more")
            return None if number is None else number * scale

        return one

    def _priority(self, cell: Any) -> int | float | None:
        number = self._number(cell, "a number", -sys.float_info.max)
        return None if number is None else plain(number)

    def _state(self, cell: Any) -> str | None:
        text = _text_of(cell)
        name = self.mapping.state_names.get(text.lower(), text)
        if text.lower() in self.mapping.drop or (self.mapping.keep and text.lower() not in self.mapping.keep):
            return DROPPED
        if name.lower() in self.unknown:
            return None
        try:
            return values.state_of(name)
        except ValueError:
            raise _BadValueError(
                "a state of Slurm such as COMPLETED, FAILED or CANCELLED, or one in [states.names] of the mapping"
            ) from None

    def _text(self, cell: Any) -> str | None:
        text = _text_of(cell)
        return None if text.lower() in self.unknown else text


class _Times:
    """Reads times of one column: numbers in its unit, texts, and times of Parquet. None is an unknown time."""

    def __init__(self, table: _Values, column: Column) -> None:
        self._zone = table.zone
        self._unknown = table.unknown
        self._scale = UNITS["time"][column.unit]
        self._origin_at = table.origin_at
        self._format = column.format

    def one(self, cell: Any) -> dict[str, Any] | None:
        """Read a time. Raises ValueError."""
        return as_dict(self._of_cell(cell))

    def _of_cell(self, cell: Any) -> LoggedTime | None:
        if isinstance(cell, str):
            return self._of_text(cell.strip())
        if cell is None:
            return None
        if isinstance(cell, date):
            there = cell if isinstance(cell, datetime) else datetime(cell.year, cell.month, cell.day)  # noqa: DTZ001
            found = self._of_time(there)
            if found.at < 0:
                raise _BadValueError("a time after 1970")
            return found if found.at else None
        if self._format and isinstance(cell, int):
            return self._of_text(str(cell))
        if isinstance(cell, int | float) and not isinstance(cell, bool):
            return None if math.isnan(cell) else self._of_number(float(cell))
        raise _BadValueError(values.A_TIME)

    def _of_number(self, number: float) -> LoggedTime | None:
        at = number * self._scale + (self._origin_at or 0.0)
        if not 0 <= number < math.inf:
            raise _BadValueError("a time, 0 or later")
        if at >= _LATEST:
            raise _BadValueError("a time before the year 10000 (is the unit right?)")
        return LoggedTime(at) if at > 0 or self._origin_at is not None else None

    def _of_text(self, text: str) -> LoggedTime | None:
        if text.lower() in self._unknown:
            return None
        if not self._format and _NUMBER.fullmatch(text):
            return self._of_number(float(text))
        if not self._format and (len(text) < 10 or not text[:4].isdigit()):
            raise _BadValueError(_A_TIME)
        try:
            there = datetime.strptime(text, self._format) if self._format else datetime.fromisoformat(text)  # noqa: DTZ007
            found = self._of_time(there)
        except (ValueError, OverflowError):
            if _NUMBER.fullmatch(text) and not float(text):
                return None  # a job that never started, in a table with a format
            raise _BadValueError(f"a time as {self._format}" if self._format else _A_TIME) from None
        if found.at <= 0:
            raise _BadValueError("a time after 1970")
        return found

    def _of_time(self, there: datetime) -> LoggedTime:
        """Return the seconds since 1970 of a time; one without a zone is a local time."""
        is_local, back_s = there.tzinfo is None, 0.0
        if is_local:
            there = there.replace(tzinfo=self._zone)
            back_s = 0.0 if self._zone is UTC else values.set_back_s(there)
        return LoggedTime((there - _EPOCH).total_seconds(), is_local, back_s > 0, back_s < 0)


DROPPED: Final = "dropped"
_SIZES: Final = ("cores", "nodes", "gpus")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: The columns of records that fields of tables fill with one value each, and the types of these values.
_COLUMNS: Final = {
    "submit": "submitted_at",
    "eligible": "eligible_at",
    "start": "started_at",
    "end": "ended_at",
    "run_time": "elapsed_s",
    "wait": "wait_s",
    "limit": "requested_s",
    "energy": "energy_j",
    "power": "power_w",
    "features": "constraint",
    **{unit: f"allocated_{unit}" for unit in _SIZES},
}
_TYPES: Final[Mapping[Kind, Any]] = {
    "id": pl.Struct({"number": pl.Int64, "name": pl.String}),
    "time": TIME,
    "memory": MEMORY,
    "count": pl.Int64,
    **dict.fromkeys(("duration", "energy", "power", "number"), pl.Float64),
    **dict.fromkeys(("state", "text"), pl.String),
    "flag": pl.Boolean,
}


class _Reader:
    """Makes columns of records of the chunks of a table."""

    def __init__(self, table: Table, mapping: TableMapping, timezone: str | None, *, lenient: bool) -> None:
        self._table = table
        self._lenient = lenient
        of_attempts = ("start_time", "end_time", "n_nodes", "n_gpus") if mapping.layout == "attempts" else ()
        self._columns = mapping.fitted([*table.columns, *of_attempts], str(table.path))
        used = {column.name for column in self._columns.values()}
        size_in = mapping.size_in or self._usual_size()
        self._records = records = Records(str(table.path), "table", table.where, size_in, timezone or mapping.timezone)
        records.names = self._names()
        records.ignored += [name for name in table.columns if name and name not in used]
        if mapping.name:
            records.set_name = mapping.name
            records.remarks.append(f"read as a table of the set {mapping.name}")
            if missing := [what for what in mapping.columns if what not in self._columns]:
                records.remarks.append(f"columns that the table does not have: {', '.join(missing)}")
        try:
            self._zone = zone_of(records.zone)
        except InputError as error:
            where = f"{mapping.at('table.timezone')}: " if timezone is None else ""
            raise InputError(f"{where}{error}") from None
        of = _Values(mapping, self._zone)
        self._read = {what: of.of(what, one) for what, one in self._columns.items()}
        are_numbers = not (mapping.origin or mapping.unknown)
        self._quick = {what for what, column in self._columns.items() if are_numbers and _is_plain(what, column)}
        self._has_origin = mapping.origin is not None
        self._n_rows = 0
        self._dropped: list[int] = []

    def _names(self) -> dict[str, str]:
        """Return what the file calls columns whose units may be wrong."""
        units = {what: _with_unit(what, one) for what, one in self._columns.items()}
        runs = units.get("run_time") or " and ".join(units[one] for one in ("start", "end") if one in units)
        names = {"submitted_at": units.get("submit"), "requested_s": units.get("limit")}
        names["run_s"] = runs if "run_time" in units or {"start", "end"} <= units.keys() else None
        return {column: name for column, name in names.items() if name}

    def _usual_size(self) -> str:
        """Return what sizes count without a choice: cores, nodes or GPUs, the first that the table has."""
        return next(one for one in _SIZES if one in self._columns or f"requested_{one}" in self._columns)

    def read(self) -> LogTable:
        """Read all rows. O(n)."""
        records = self._records
        wanted = list(dict.fromkeys(column.name for column in self._columns.values()))
        usual = [self._columns[what].name for what in ("submit", "id") if what in self._columns]
        header = usual if len(usual) == 2 else wanted
        for chunk in self._table.chunks(wanted, self._bad, header):
            self._take(chunk)
        records.drop(BY_STATE, self._dropped)
        jobs = records.jobs()
        if not len(jobs) and not records.bad and not self._dropped:
            raise InputError(f"{records.source}: expected a table with jobs, found a header alone")
        log = records.log(jobs)
        log.has_allocated = not self._columns.keys().isdisjoint({"cores", "nodes", "gpus"})
        return log

    def _bad(self, file: str, place: int, rule: str, found: str = "", count_as: int | None = None) -> None:
        """Report an invalid row, or count it."""
        if not self._lenient:
            where = "line" if self._table.delimiter else "row"
            raise InputError(f"{file}: {where} {place}: {rule}{found}")
        self._records.count_bad(rule, place if count_as is None else count_as)

    def _take(self, chunk: Chunk) -> None:
        """Read the values of a chunk, and report its invalid rows in order."""
        n = len(chunk.places)
        before = self._n_rows
        self._n_rows += n
        is_place = self._records.where == "line" or len(self._table.files) == 1
        lines = pl.Series("line", chunk.places if is_place else range(before + 1, before + n + 1), dtype=pl.Int64)
        faults: dict[int, tuple[str, str]] = {}
        found = {
            what: self._values(what, column, chunk.cells[column.name], faults) for what, column in self._columns.items()
        }
        jobs = self._jobs(pl.DataFrame(found), lines)
        self._check(jobs, faults)
        for place in sorted(faults):
            self._bad(chunk.file, chunk.places[place], *faults[place], count_as=lines[place])
        jobs = jobs.filter(~pl.int_range(pl.len()).is_in(list(faults)))
        is_dropped = pl.col("state").eq_missing(DROPPED)
        self._dropped += jobs.filter(is_dropped)["line"].to_list()
        self._records.parts.append(jobs.filter(~is_dropped).select(name for name in jobs.columns if name in SCHEMA))

    def _values(self, what: str, column: Column, cells: pl.Series, faults: dict[int, tuple[str, str]]) -> pl.Series:
        """Read a column. Invalid cells are null and are added to the faults, by row."""
        quick = None
        if what in self._quick and cells.dtype != pl.Object:
            is_id = what == "id"
            quick = quick_numbers(cells, 0 if is_id else 1e-9, _MOST_ID if is_id else _MOST_S, are_whole=is_id)
            quick = _structs(quick, FIELDS[what])
        read = self._read[what]
        found, wrong = read_cells(cells, read, _TYPES[FIELDS[what]], quick)
        for fault in wrong:
            text = _text_of(fault.cell)
            hint = _COMMA_HINT if _WITH_COMMAS.fullmatch(text) else ""
            rule = f"field {what}, column {column.name:.60}: expected {fault.expected}"
            faults.setdefault(fault.row, (rule, f", found {shown(text[:60])}{hint}"))
        return found.alias(what)

    def _check(self, jobs: pl.DataFrame, faults: dict[int, tuple[str, str]]) -> None:
        """Add faults of jobs that ran, but whose times or sizes cannot be right."""
        run_s = pl.coalesce("elapsed_s", pl.col("ended_at") - pl.col("started_at"))
        ran = (run_s.fill_null(0) != 0) & has_ended()
        sizes = [
            name for name in jobs.columns if name.startswith(("allocated_", "requested_")) and name != "requested_s"
        ]
        checks = jobs.select(
            run_s.alias("run_s"),
            (ran & pl.col("submitted_at").is_null()).alias("is_unsubmitted"),
            (ran & (pl.max_horizontal(*sizes) <= 0)).fill_null(value=False).alias("has_no_size"),
        ).with_row_index("place")
        wrong = checks.filter(
            (pl.col("run_s") < 0).fill_null(value=False) | pl.col("is_unsubmitted") | pl.col("has_no_size")
        )
        hint = "" if self._has_origin else " (0 is an unknown time, unless the mapping has an origin)"
        for place, run, is_unsubmitted, _ in wrong.iter_rows():
            if run < 0:
                expected, found = "a time that is not before the start", f"{-run:,.0f} s before it"
                fields = ["end"]
            elif is_unsubmitted:
                expected, found = f"a time, because the job ran{hint}", "nothing"
                fields = ["submit"]
            else:
                expected, found = "at least 1, because the job ran", "0"
                fields = [what for what in self._columns if what.removeprefix("requested_") in _SIZES]
            names = " or ".join(f"field {what}, column {self._columns[what].name:.60}" for what in fields)
            fault = f"{names}: expected {expected}", f", found {found}"
            faults.setdefault(place, fault)

    def _jobs(self, found: pl.DataFrame, lines: pl.Series) -> pl.DataFrame:
        """Return the columns of records."""
        ids = found["id"].struct.unnest() if "id" in found.columns else pl.DataFrame([lines.alias("number")])
        made = found.rename({what: column for what, column in _COLUMNS.items() if what in found.columns})
        made = made.drop("id", strict=False).hstack([*ids, lines])
        for column in ("submitted_at", "eligible_at", "started_at", "ended_at"):
            if column in made.columns:
                made = made.with_columns(self._records.counted(made[column].struct.unnest()).alias(column))
        if self._records.n_ambiguous:
            for column, before in (("started_at", "submitted_at"), ("ended_at", "started_at")):
                if {column, before} <= set(made.columns):
                    made = made.with_columns(not_before(made[column], made[before], self._zone))
        if "started_at" not in made.columns and "wait_s" in made.columns:
            made = made.with_columns((pl.col("submitted_at") + pl.col("wait_s")).alias("started_at"))
        missing = [name for name in ("started_at", "ended_at", "elapsed_s") if name not in made.columns]
        made = made.with_columns(pl.lit(None, pl.Float64).alias(name) for name in missing)
        if "requested_s" in made.columns:
            limit_s = pl.col("requested_s")
            made = made.with_columns(
                limit_s.replace_strict(values.LIMIT_NAMES, default=None, return_dtype=pl.String).alias("time_limit"),
                pl.when(limit_s > 0).then(limit_s),
            )
        made = made.with_columns(self._amounts(made.columns))
        if "state" not in made.columns:
            knows_ends = {"start", "end"} <= set(found.columns) and "run_time" not in found.columns
            is_running = pl.col("started_at").is_not_null() & pl.col("ended_at").is_null() & knows_ends
            made = made.with_columns(pl.when(is_running).then(pl.lit("RUNNING")).alias("state"))
        return made

    def _amounts(self, columns: Sequence[str]) -> Iterator[pl.Expr]:
        """Yield amounts of whole jobs: memory, power, and sizes that the table has for each node."""

        def positive(*names: str) -> pl.Expr:
            n = pl.coalesce(*(one for one in names if one in columns), pl.lit(1))
            return pl.when(n > 0).then(n).otherwise(1)

        for what in ("cores", "gpus", "requested_cores", "requested_gpus"):
            if what in self._columns and self._columns[what].per == "node":
                first = "requested_nodes" if what.startswith("requested_") else "allocated_nodes"
                yield pl.col(_COLUMNS.get(what, what)) * positive(first, "allocated_nodes", "requested_nodes")
        if "power_w" in columns and self._columns["power"].per == "node":
            yield pl.col("power_w") * positive("allocated_nodes", "requested_nodes")
        if "memory" in columns:
            gb, per = (pl.col("memory").struct.field(name) for name in ("gb", "per"))
            of_nodes, of_cores = (positive(f"allocated_{one}", f"requested_{one}") for one in ("nodes", "cores"))
            yield (gb * pl.when(per == "n").then(of_nodes).when(per == "c").then(of_cores).otherwise(1)).alias(
                "memory_gb"
            )
            yield (per == "n").fill_null(value=False).alias("is_node_memory")
        if "used_memory" in columns:
            yield pl.col("used_memory").struct.field("gb").alias("used_gb")


def _is_plain(what: str, column: Column) -> bool:
    """Return whether most cells of a column are numbers that need no look. Some numbers are limits that mean: none."""
    in_seconds = FIELDS[what] in {"time", "duration"} and column.unit in {AUTO, "s"} and not column.format
    return what == "id" or (in_seconds and what != "limit")


def _structs(numbers: pl.Series, kind: Kind) -> pl.Series:
    """Return numbers as values of ids or times, null for unknown ones."""
    if kind == "id":
        made = pl.struct(pl.col("n").cast(pl.Int64).alias("number"), pl.lit(None, pl.String).alias("name"))
    elif kind == "time":
        no = (pl.lit(value=False).alias(name) for name in ("is_local", "is_ambiguous", "is_missing"))
        made = pl.struct(pl.col("n").alias("at"), *no)
    else:
        return numbers
    return numbers.alias("n").to_frame().select(pl.when(pl.col("n").is_not_null()).then(made)).to_series()
