"""Read a table of jobs by a mapping of its columns (`tables.mapping`) as a `JobLog`, column by column."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from itertools import repeat
from operator import lt
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pybatsched.errors import InputError, setting
from pybatsched.workload.formats import slurm_values as values
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.formats.conversion import SizeIn, gc_paused, zone_of
from pybatsched.workload.formats.job_log import JobLog, LoggedJob, sizes
from pybatsched.workload.formats.slurm_values import JobId, Memory
from pybatsched.workload.formats.tables.files import Chunk, Table, open_table
from pybatsched.workload.formats.tables.mapping import (
    AUTO,
    FIELDS,
    SETS,
    SIZES,
    TEXTS,
    UNITS,
    Column,
    Kind,
    TableMapping,
    detected,
    read_mapping,
    shipped,
)
from pybatsched.workload.report import Tally
from pybatsched.workload.walltimes import plain

_Number = TypeVar("_Number", int, float)
BY_STATE: Final = "of a state that the mapping drops: dropped"
_A_TIME: Final = f"{values.A_TIME} (the mapping of a column can have another format)"
_MOST_CACHED: Final = 1 << 16
_UNLIMITED: Final = -1.0  # a limit that says: none
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
_FORBIDDEN: Final = re.compile(r'[!,"\\\s\0]')
#: Kinds of columns that repeat few values: each value is read once.
_OF_FEW_VALUES: Final[frozenset[Kind]] = frozenset({"duration", "count", "memory", "state", "text"})
_NO_LIMITS: Final = frozenset({*values.NO_LIMIT, "4294967294", "4294967295"})  # numbers of Slurm's database


def read_table(
    path: str | Path,
    *,
    name: str | None = None,
    mapping: str | None = None,
    timezone: str | None = None,
    lenient: bool = False,
) -> JobLog:
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


def read_rows(table: Table, mapping: TableMapping) -> JobLog:
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

    def __init__(self, log: JobLog, mapping: TableMapping, zone: tzinfo) -> None:
        self.log = log
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
        self._texts: dict[str, str | None] = {}
        self._states: dict[Any, str | None] = {}
        self._counts: dict[tuple[Any, tuple[str, ...]], int | None] = {}

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
            "text": lambda: self._text,
        }
        read = makers[kind]()
        if self.mapping.decimal == "." or kind in {"id", "state", "text"} or column.format or column.resources:
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

    def _id(self, cell: Any) -> JobId | None:
        text = cell.strip() if isinstance(cell, str) else _text_of(cell)
        if text.lower() in self.unknown:
            raise _BadValueError("a job id")
        if text.endswith(".0") and text[:-2].isdigit():
            text = text[:-2]
        if _ID_NUMBER.fullmatch(text):
            return JobId(int(text))
        if len(text) > 200:
            raise _BadValueError("a job id of at most 200 characters")
        return JobId(0, name=_FORBIDDEN.sub("_", text))

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
            if is_limit and _text_of(cell).lower() in _NO_LIMITS:
                return _UNLIMITED
            number = self._number(cell, expected)
            if number is None:
                return None
            seconds = number * scale
            if seconds > _MOST_S:
                raise _BadValueError(f"{expected}, at most a century (is the unit right?)")
            return seconds

        return one

    def _count(self, cell: Any, resources: tuple[str, ...]) -> int | None:
        key = (cell, resources)
        try:
            return self._counts[key]
        except KeyError:
            pass
        except TypeError:
            raise _BadValueError(values.A_COUNT) from None
        if resources:
            amounts = [self._number(one, values.A_COUNT) for one in self._amounts(cell, resources)]
            known = [one for one in amounts if one is not None]
            number = math.fsum(known) if known else None
        else:
            number = self._number(cell, values.A_COUNT)
        if number is not None and (not number.is_integer() or number >= 1 << 31):
            most = "" if number < 1 << 31 else f", at most {(1 << 31) - 1:,}"
            raise _BadValueError(f"{values.A_COUNT}{most}")
        count = None if number is None else int(number)
        if len(self._counts) < _MOST_CACHED:
            self._counts[key] = count
        return count

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

    def _memory_with(self, column: Column) -> Callable[[Any], Memory | None]:
        in_gb = UNITS["memory"][column.unit]
        per = {"job": "", "node": "n", "core": "c"}[column.per]
        expected = f"an amount of memory in {column.unit}, or such as 16G"

        def one(cell: Any) -> Memory | None:
            if column.resources:
                cell = next(iter(self._amounts(cell, column.resources)), None)
            if isinstance(cell, str) and cell.strip() and not _NUMBER.fullmatch(cell.strip()):
                try:
                    found = values.memory_of(cell.strip())
                except ValueError:
                    raise _BadValueError(expected) from None
                return found if found is None or found.per else Memory(found.gb, per)
            number = self._number(cell, expected)
            # 2^64 and the like mean: no limit
            return None if not number or number * in_gb > 2**30 else Memory(number * in_gb, per)

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
        try:
            return self._states[cell]
        except KeyError:
            pass
        except TypeError:
            raise _BadValueError("a state") from None
        text = _text_of(cell)
        name = self.mapping.state_names.get(text.lower(), text)
        known = self._states
        if text.lower() in self.mapping.drop or (self.mapping.keep and text.lower() not in self.mapping.keep):
            state: str | None = DROPPED
        elif name.lower() in self.unknown:
            state = None
        else:
            try:
                state = values.state_of(name)
            except ValueError:
                raise _BadValueError(
                    "a state of Slurm such as COMPLETED, FAILED or CANCELLED, or one in [states.names] of the mapping"
                ) from None
        if len(known) < _MOST_CACHED:
            known[cell] = state
        return state

    def _text(self, cell: Any) -> str | None:
        """Return a text that is known. Equal texts are one object."""
        text = cell.strip() if isinstance(cell, str) else _text_of(cell)
        try:
            return self._texts[text]
        except KeyError:
            known = None if text.lower() in self.unknown else text
            if len(self._texts) < _MOST_CACHED:
                self._texts[text] = known
            return known


class _Times:
    """Reads times of one column: numbers in its unit, texts, and times of Parquet. None is an unknown time."""

    def __init__(self, table: _Values, column: Column) -> None:
        self._log = table.log
        self._zone = table.zone
        self._unknown = table.unknown
        self._scale = UNITS["time"][column.unit]
        self._origin_at = table.origin_at
        self._format = column.format

    def one(self, cell: Any) -> float | None:
        """Read a time. Raises ValueError."""
        if isinstance(cell, str):
            return self._of_text(cell.strip())
        if cell is None:
            return None
        if isinstance(cell, date):
            there = cell if isinstance(cell, datetime) else datetime(cell.year, cell.month, cell.day)  # noqa: DTZ001
            at = self._of_time(there)
            if at < 0:
                raise _BadValueError("a time after 1970")
            return at or None
        if self._format and isinstance(cell, int):
            return self._of_text(str(cell))
        if isinstance(cell, int | float) and not isinstance(cell, bool):
            return None if math.isnan(cell) else self._of_number(float(cell))
        raise _BadValueError(values.A_TIME)

    def _of_number(self, number: float) -> float | None:
        at = number * self._scale + (self._origin_at or 0.0)
        if not 0 <= number < math.inf:
            raise _BadValueError("a time, 0 or later")
        if at >= _LATEST:
            raise _BadValueError("a time before the year 10000 (is the unit right?)")
        return at if at > 0 or self._origin_at is not None else None

    def _of_text(self, text: str) -> float | None:
        if text.lower() in self._unknown:
            return None
        if not self._format and _NUMBER.fullmatch(text):
            return self._of_number(float(text))
        if not self._format and (len(text) < 10 or not text[:4].isdigit()):
            raise _BadValueError(_A_TIME)
        try:
            there = datetime.strptime(text, self._format) if self._format else datetime.fromisoformat(text)  # noqa: DTZ007
            at = self._of_time(there)
        except (ValueError, OverflowError):
            if _NUMBER.fullmatch(text) and not float(text):
                return None  # a job that never started, in a table with a format
            raise _BadValueError(f"a time as {self._format}" if self._format else _A_TIME) from None
        if at <= 0:
            raise _BadValueError("a time after 1970")
        return at

    def _of_time(self, there: datetime) -> float:
        """Return the seconds since 1970 of a time; one without a zone is a local time."""
        if there.tzinfo is None:
            self._log.local_times = True
            there = there.replace(tzinfo=self._zone)
            if self._zone is not UTC:
                back_s = values.set_back_s(there)
                self._log.n_ambiguous += back_s > 0
                self._log.n_missing += back_s < 0
        return (there - _EPOCH).total_seconds()


def _plain_numbers(cells: Sequence[Any], kind: Callable[[Any], _Number]) -> list[_Number] | None:
    """Read cells that are all whole numbers of at most 15 digits as int or float; None if one is not. O(n)."""
    if cells and isinstance(cells[0], str):
        try:
            digits = "".join(cells)
        except TypeError:  # not all are texts
            return None
        if not (digits.isascii() and digits.isdigit() and all(cells)) or len(max(cells, key=len)) > _MOST_DIGITS:
            return None
    elif set(map(type, cells)) != {int}:
        return None
    return list(map(kind, cells))


def _plain_seconds(cells: Sequence[Any]) -> list[float] | None:
    """Read cells that are all plain numbers of seconds above 0; None if one is not. O(n), a tenth of the usual time."""
    numbers = _plain_numbers(cells, float)
    return None if numbers is None or min(numbers) <= 0 or max(numbers) >= _MOST_S else numbers


def _plain_ids(cells: Sequence[Any]) -> list[JobId] | None:
    """Read ids that are all numbers; None if one is not. O(n), a tenth of the usual time."""
    numbers = _plain_numbers(cells, int)
    if numbers is None or min(numbers) < 0 or max(numbers) >= _MOST_ID:
        return None
    nothing = repeat(None)
    parts = zip(numbers, nothing, nothing, nothing, repeat(False), repeat(""), strict=False)
    return list(map(partial(tuple.__new__, JobId), parts))


def _may_be_invalid(found: Mapping[str, list[Any]]) -> bool:
    """Return whether a row may be invalid or dropped by its values together. O(n), never falsely False."""
    starts, ends = found.get("start"), found.get("end")
    if starts is not None and ends is not None:
        try:
            if any(map(lt, ends, starts)):
                return True
        except TypeError:  # some are unknown
            pairs = zip(starts, ends, strict=True)
            if any(at is not None and end is not None and end < at for at, end in pairs):
                return True
    elif ends is not None:  # the start is the submission and the wait
        return True
    states = found.get("state")
    if None in found["submit"] or (states is not None and DROPPED in states):
        return True
    return not any(all(found[name]) for name in SIZES if name in found)


DROPPED: Final = "dropped"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Reader:
    """Makes jobs of the chunks of a table."""

    def __init__(self, table: Table, mapping: TableMapping, timezone: str | None, *, lenient: bool) -> None:
        self._table = table
        self._lenient = lenient
        of_attempts = ("start_time", "end_time", "n_nodes", "n_gpus") if mapping.layout == "attempts" else ()
        present = [*table.columns, *of_attempts]
        self._columns = mapping.fitted(present, str(table.path))
        used = {column.name for column in self._columns.values()}
        self.log = JobLog(
            str(table.path),
            timezone or mapping.timezone,
            "table",
            table.where,
            cast(SizeIn, mapping.size_in or self._usual_size()),
            columns=tuple(self._columns),
            units={what: _with_unit(what, one) for what, one in self._columns.items()},
            ignored=tuple(name for name in table.columns if name and name not in used),
            has_allocated=not self._columns.keys().isdisjoint({"cores", "nodes", "gpus"}),
        )
        if mapping.name:
            self.log.remarks.append(f"read as a table of the set {mapping.name}")
            if missing := [what for what in mapping.columns if what not in self._columns]:
                self.log.remarks.append(f"columns that the table does not have: {', '.join(missing)}")
        try:
            zone = zone_of(self.log.zone)
        except InputError as error:
            where = f"{mapping.at('table.timezone')}: " if timezone is None else ""
            raise InputError(f"{where}{error}") from None
        of = _Values(self.log, mapping, zone)
        self._read: dict[str, Callable[[Any], Any]] = {what: of.of(what, one) for what, one in self._columns.items()}
        self._plain = {
            what
            for what, column in self._columns.items()
            if FIELDS[what] in {"time", "duration"}
            and what != "limit"  # these repeat few values, which are kept once
            and column.unit in {AUTO, "s"}
            and not column.format
            and not (mapping.origin or mapping.unknown)
        }
        self._plain_id = not mapping.unknown
        self._has_origin = mapping.origin is not None
        self._labels: dict[tuple[str | None, ...], Mapping[str, str]] = {}
        self._n_rows = 0

    def _usual_size(self) -> str:
        """Return what sizes count without a choice: cores, nodes or GPUs, the first that the table has."""
        return next(
            one for one in ("cores", "nodes", "gpus") if one in self._columns or f"requested_{one}" in self._columns
        )

    def read(self) -> JobLog:
        """Read all rows. O(n)."""
        log = self.log
        wanted = list(dict.fromkeys(column.name for column in self._columns.values()))
        usual = [self._columns[what].name for what in ("submit", "id") if what in self._columns]
        header = usual if len(usual) == 2 else wanted
        with gc_paused():
            for chunk in self._table.chunks(wanted, self._bad, header):
                self._take(chunk)
        if not log.jobs and not log.bad and not log.dropped:
            raise InputError(f"{log.source}: expected a table with jobs, found a header alone")
        log.set_digits()
        log.drop_copies()
        return log

    def _bad(self, file: str, place: int, rule: str, found: str = "", count_as: int | None = None) -> None:
        """Report an invalid row, or count it."""
        if not self._lenient:
            where = "line" if self._table.delimiter else "row"
            raise InputError(f"{file}: {where} {place}: {rule}{found}")
        tally = self.log.bad.setdefault(rule, Tally(rule, "dropped", where=self.log.where))
        tally.add(place if count_as is None else count_as)

    def _take(self, chunk: Chunk) -> None:
        """Make jobs of a chunk, and report its invalid rows in order."""
        n = len(chunk.places)
        before = self._n_rows
        self._n_rows += n
        faults: dict[int, tuple[str, str]] = {}
        found: dict[str, list[Any]] = {}
        for what, column in self._columns.items():
            found[what] = self._values(what, column, chunk.columns[column.name], faults)
        if self.log.n_ambiguous:
            zone = zone_of(self.log.zone)
            for what, before_it in (("start", "submit"), ("end", "start")):
                if what in found and before_it in found:
                    pairs = zip(found[what], found[before_it], strict=True)
                    found[what] = [values.not_before(at, least_at, zone) for at, least_at in pairs]
        lines: Sequence[int] = (
            chunk.places
            if self.log.where == "line" or len(self._table.files) == 1
            else range(before + 1, before + n + 1)
        )
        made = self._jobs(found, lines, n)
        if not faults and not _may_be_invalid(found):
            self.log.jobs.extend(made)
            return
        states = found.get("state")
        for place, job in enumerate(made):
            fault = faults.get(place) if faults else None
            if fault is None and (run_s := job.run_s) is not None:
                fault = self._fault(job, run_s)
            if fault is not None:
                self._bad(chunk.file, chunk.places[place], *fault, count_as=job.line)
            elif states is not None and states[place] is DROPPED:
                self.log.dropped.setdefault(BY_STATE, Tally(BY_STATE, "dropped", where=self.log.where)).add(job.line)
            else:
                self.log.jobs.append(job)

    def _values(self, what: str, column: Column, cells: Sequence[Any], faults: dict[int, tuple[str, str]]) -> list[Any]:
        """Read a column. Invalid cells are None and are added to the faults, by row."""
        read = self._read[what]
        if what in self._plain and (numbers := _plain_seconds(cells)) is not None:
            return numbers
        if what == "id" and self._plain_id and (ids := _plain_ids(cells)) is not None:
            return ids
        try:
            if FIELDS[what] in _OF_FEW_VALUES and len(kinds := set(map(type, cells))) == 1 and kinds <= {str, int}:
                known = {cell: read(cell) for cell in set(cells)}
                return list(map(known.__getitem__, cells))
            return [read(cell) for cell in cells]
        except ValueError:
            pass
        made: list[Any] = []
        for place, cell in enumerate(cells):
            try:
                made.append(read(cell))
            except ValueError as error:
                made.append(None)
                text = _text_of(cell)
                hint = _COMMA_HINT if _WITH_COMMAS.fullmatch(text) else ""
                faults.setdefault(
                    place,
                    (f"field {what}, column {column.name:.60}: expected {error}", f", found {shown(text[:60])}{hint}"),
                )
        return made

    def _fault(self, job: LoggedJob, run_s: float) -> tuple[str, str] | None:
        """Return what is wrong with a job that ran, but whose times or sizes cannot be right: the rule, and more."""
        if run_s < 0:
            return "field end: expected a time that is not before the start", f", found {-run_s:,.0f} s before it"
        if not run_s or not job.has_ended:
            return None
        if job.submitted_at is None:
            hint = "" if self._has_origin else " (0 is an unknown time, unless the mapping has an origin)"
            return f"field submit: expected a time, because the job ran{hint}", ", found nothing"
        known = [n for n in (*job.allocated.values(), *job.requested.values()) if n is not None]
        if known and not any(known):
            return "a size: expected at least 1, because the job ran", ", found 0"
        return None

    def _jobs(self, found: Mapping[str, list[Any]], lines: Sequence[int], n: int) -> Iterator[LoggedJob]:
        """Return the jobs of some rows, column by column. Missing columns are None."""

        def column(what: str) -> Iterable[Any]:
            return found.get(what) or repeat(None, n)

        ids = found.get("id")
        if ids is None:
            ids = [JobId(line) for line in lines]
        elif None in ids:  # an invalid one, whose row is left out
            ids = [one or JobId(0) for one in ids]
        submitted = column("submit")
        started = column("start")
        if "start" not in found and "wait" in found:
            pairs = zip(submitted, found["wait"], strict=True)
            started = [None if at is None or wait_s is None else at + wait_s for at, wait_s in pairs]
        limits = found.get("limit")
        is_unlimited: Iterable[bool] = repeat(False, n)
        if limits is not None and _UNLIMITED in limits:
            is_unlimited = [limit_s == _UNLIMITED for limit_s in limits]
            limits = [None if limit_s == _UNLIMITED else limit_s for limit_s in limits]
        used = found.get("used_memory")
        return map(
            partial(tuple.__new__, LoggedJob),  # as `_make`, in a third of the time
            zip(
                ids,
                submitted,
                column("eligible"),
                started,
                column("end"),
                column("run_time"),
                repeat(None, n) if limits is None else [limit_s or None for limit_s in limits],
                is_unlimited,
                self._sizes(found, "", n),
                self._sizes(found, "requested_", n),
                column("memory"),
                repeat(None, n) if used is None else [None if one is None else one.gb for one in used],
                self._states_of(found, n),
                column("priority"),
                column("energy"),
                self._powers(found, n),
                self._labels_of(found, n),
                lines,
                strict=True,
            ),
        )

    def _sizes(self, found: Mapping[str, list[Any]], prefix: str, n: int) -> Iterable[Mapping[SizeIn, int | None]]:
        names = [f"{prefix}{one}" for one in ("cores", "nodes", "gpus")]
        if not any(name in found for name in names):
            return repeat(sizes(None, None, None), n)
        counts = {name: found[name] if name in found else [None] * n for name in names}
        for name in names:
            if name in found and self._columns[name].per == "node":
                nodes = found.get(f"{prefix}nodes") or found.get("nodes") or found.get("requested_nodes") or [None] * n
                counts[name] = [
                    None if one is None else one * (k or 1) for one, k in zip(counts[name], nodes, strict=True)
                ]
        return map(sizes, *counts.values())

    def _states_of(self, found: Mapping[str, list[Any]], n: int) -> Iterable[str | None]:
        """Return states. A job that started and has no end still runs, if the table does not say otherwise."""
        if "state" in found:
            return [None if state is DROPPED else state for state in found["state"]]
        if "end" in found and "start" in found and "run_time" not in found:
            pairs = zip(found["start"], found["end"], strict=True)
            return ["RUNNING" if at is not None and end is None else None for at, end in pairs]
        return repeat(None, n)

    def _powers(self, found: Mapping[str, list[Any]], n: int) -> Iterable[float | None]:
        if "power" not in found:
            return repeat(None, n)
        if self._columns["power"].per != "node":
            return found["power"]
        nodes = found.get("nodes") or found.get("requested_nodes") or [None] * n
        return [None if one is None else one * (k or 1) for one, k in zip(found["power"], nodes, strict=True)]

    def _labels_of(self, found: Mapping[str, list[Any]], n: int) -> Iterable[Mapping[str, str]]:
        """Return the text fields that are known. Equal ones are one object."""
        names = [name for name in TEXTS if name in found]
        if not names:
            return repeat({}, n)
        made: list[Mapping[str, str]] = []
        cache = self._labels
        for row in zip(*(found[name] for name in names), strict=True):
            labels = cache.get(row)
            if labels is None:
                labels = {name: text for name, text in zip(names, row, strict=True) if text is not None}
                if len(cache) < _MOST_CACHED:
                    cache[row] = labels
            made.append(labels)
        return made
