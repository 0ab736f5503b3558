"""The jobs of a log as columns of a table, which become dictionaries one by one when they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, overload

import polars as pl

from pybatsched.workload.walltimes import plain, tidy

#: Reads the values of a column of texts.
Reader = Callable[[Any], Any]

_EXACT: Final = 1 << 53
_MOST: Final = 1 << 63
_SLICE: Final = 1 << 14  # jobs that are read at once


class JobColumns(Sequence[dict[str, Any]]):
    """The jobs of a log. A column has one field of all jobs, by the name in Batsim's files; null is no such field.

    Numbers without a fraction are integers in jobs. `readers` are for columns of texts: they return the values that
    jobs have, which are not None. A job is made when it is read, so that changing it does not change the columns.
    """

    __slots__ = ("_n_full", "_names", "_readers", "table")

    def __init__(self, table: pl.DataFrame, readers: Mapping[str, Reader] = MappingProxyType({})) -> None:
        n_missing = table.null_count().row(0, named=True) if table.width else {}
        some = [name for name, n in n_missing.items() if 0 < n < table.height]
        full = [name for name, n in n_missing.items() if not n and table.height]
        self._names, self._n_full = full + some, len(full)
        self._readers = readers
        #: The fields that some job has.
        self.table = table.select(self._names)

    def __len__(self) -> int:
        return self.table.height

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for part in self.table.iter_slices(_SLICE):
            yield from self._dictionaries(part)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return self._dictionaries(self.table[place])
        return self._dictionaries(self.table[range(len(self))[place]])[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"JobColumns({len(self):,} jobs: {', '.join(self._names)})"

    def at(self, places: Sequence[int]) -> JobColumns:
        """Return some jobs by their places, in this order. O(places) for each field."""
        return JobColumns(self.table[pl.Series(places, dtype=pl.UInt32)], self._readers)

    @property
    def fields(self) -> list[str]:
        """The names of the fields that some job has. O(1)."""
        return self._names

    def values(self, field: str) -> list[Any]:
        """Return a field of all jobs, None where a job does not have it. O(n)."""
        return self._values(self.table[field]) if field in self.table.columns else [None] * len(self)

    def columns(self) -> list[pl.Series]:
        """Return the fields that hold texts or numbers; a column that needs no change is not copied."""
        return [made for column in self.table if (made := self._plain(column)) is not None]

    def _plain(self, column: pl.Series) -> pl.Series | None:
        if column.name in self._readers:
            return plain_column(column.name, self._values(column))
        if column.dtype == pl.Float64 and _are_whole(column):
            return column.cast(pl.Int64)
        return None if column.dtype == pl.List else column

    def _values(self, column: pl.Series) -> list[Any]:
        read = self._readers.get(column.name)
        if read is not None:
            return values_of(column, read)
        return plains(column) if column.dtype == pl.Float64 else column.to_list()

    def _dictionaries(self, part: pl.DataFrame) -> list[dict[str, Any]]:
        """Return the jobs of some rows: first the fields that all jobs have, then those that some have."""
        columns = [self._values(column) for column in part]
        full = self._names[: self._n_full]
        jobs = [dict(zip(full, row, strict=True)) for row in zip(*columns[: self._n_full], strict=True)]
        for name, values in zip(self._names[self._n_full :], columns[self._n_full :], strict=True):
            for job, value in zip(jobs, values, strict=True):
                if value is not None:
                    job[name] = value
        return jobs


def plains(values: pl.Series) -> list[int | float | None]:
    """Return numbers without a fraction as integers: 60.0 is 60. Columns of whole numbers are converted at once."""
    if _are_whole(values):
        return values.cast(pl.Int64).to_list()
    return [None if value is None else plain(value) for value in values.to_list()]


def _are_whole(values: pl.Series) -> bool:
    return bool(((values == values.floor()) & (values.abs() < _EXACT)).all())


def plain_column(name: str, values: Sequence[Any]) -> pl.Series | None:
    """Return values as a column: numbers if all are, else texts; None if some are lists or objects, or all missing.

    Whole numbers of 2^63 or more, which no column of numbers holds exactly, make it a column of texts, too.
    """
    kinds = {type(value) for value in values if value is not None}
    if not kinds or not kinds <= {bool, int, float, str}:
        return None
    if kinds == {bool}:
        return pl.Series(name, values, pl.Boolean)
    if kinds == {int} and all(value is None or -_MOST <= value < _MOST for value in values):
        return pl.Series(name, values, pl.Int64)
    if float in kinds and kinds <= {int, float}:
        return pl.Series(name, values, pl.Float64, strict=False)
    return pl.Series(name, [None if value is None else str(value) for value in values], pl.String)


def tidied(seconds: pl.Series) -> pl.Series:
    """Return computed times, rounded to six decimals as `tidy` does. O(n)."""
    if (seconds == seconds.floor()).all():
        return seconds
    made = [None if one is None else float(tidy(one)) for one in seconds.to_list()]
    return pl.Series(seconds.name, made, dtype=pl.Float64)


def values_of(column: pl.Series, value_of: Reader) -> list[Any]:
    """Return a function of each known value of a column. Results for equal values are one object."""
    values = {None: None} | {value: value_of(value) for value in column.drop_nulls().unique().to_list()}
    return [values[value] for value in column.to_list()]


def computed(columns: pl.DataFrame, function: Callable[..., Any], kind: Any) -> pl.Series:
    """Return a function of the values of each row, which is called once for rows that are equal. O(n)."""
    names = columns.columns
    different = columns.unique()
    made = pl.Series("made", [function(*row) for row in different.iter_rows()], dtype=kind)
    return columns.join(different.with_columns(made), on=names, how="left", nulls_equal=True, maintain_order="left")[
        "made"
    ]


def renamed(columns: Iterable[pl.Series], taken: Collection[str]) -> Iterator[pl.Series]:
    """Yield columns, where NAME is NAME_field if the name is taken, also by a column before."""
    names = set(taken)
    for column in columns:
        name = column.name
        while name in names:
            name = f"{name}_field"
        names.add(name)
        yield column.alias(name)


def plain_columns(jobs: Sequence[Mapping[str, Any]], known: Collection[str] = ()) -> list[pl.Series]:
    """Return a column for each field of jobs that holds texts or numbers, except for those in `known`. O(fields)."""
    names = dict.fromkeys(name for job in jobs for name in job if name not in known)
    made = (plain_column(name, [job.get(name) for job in jobs]) for name in names)
    return [one for one in made if one is not None]
