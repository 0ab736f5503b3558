"""Read columns of cells, which are texts or typed values: each different cell once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

_MOST_DIGITS: Final = 15  # such whole numbers are exact in floating point


class InvalidCell(NamedTuple):
    """An invalid cell: its row, what was expected, and the cell."""

    row: int
    expected: str
    cell: Any


def read_cells(
    cells: pl.Series, read: Callable[[Any], Any], dtype: Any, quick: pl.Series | None = None
) -> tuple[pl.Series, list[InvalidCell]]:
    """Return the values of cells, and the invalid cells, whose values are null. One call for each different cell.

    `read` returns the value of a cell, None for an unknown one, or raises ValueError with what was expected. `quick`
    has values that `read` would return, too; null where it must be called.
    """
    if cells.dtype == pl.Object:
        values, faults = read_list(cells.to_list(), read)
        return pl.Series(values, dtype=dtype), faults
    if quick is not None and not quick.null_count():
        return quick, []
    different = (cells if quick is None else cells.filter(quick.is_null())).unique(maintain_order=True)
    values, wrong = read_list(different.to_list(), read)
    expected = {fault.row: fault.expected for fault in wrong}
    by_cell = pl.DataFrame(
        {
            "cell": different,
            "value": pl.Series(values, dtype=dtype),
            "expected": pl.Series(map(expected.get, range(len(different))), dtype=pl.String),
        }
    )
    found = cells.to_frame("cell").join(by_cell, on="cell", how="left", nulls_equal=True, maintain_order="left")
    value = found["value"] if quick is None else found.select(pl.coalesce(quick, "value")).to_series()
    if not wrong:
        return value, []
    rows = found.with_row_index("row").filter(pl.col("expected").is_not_null()).select("row", "expected", "cell")
    return value, [InvalidCell(*row) for row in rows.iter_rows()]


def read_list(cells: Sequence[Any], read: Callable[[Any], Any]) -> tuple[list[Any], list[InvalidCell]]:
    """Return the values of cells as `read_cells` does. Equal texts are read once."""
    known: dict[str, Any] = {}
    values: list[Any] = []
    faults: list[InvalidCell] = []
    for row, cell in enumerate(cells):
        is_text = type(cell) is str
        if is_text and cell in known:
            values.append(known[cell])
            continue
        try:
            value = read(cell)
        except ValueError as error:
            value = None
            faults.append(InvalidCell(row, str(error), cell))
        else:
            if is_text:
                known[cell] = value
        values.append(value)
    return values, faults


def quick_numbers(cells: pl.Series, least: float, below: float, *, are_whole: bool = False) -> pl.Series:
    """Return cells that are plain numbers in a range, null for others: texts of digits only, or typed numbers. O(n)."""
    if cells.dtype == pl.String:
        cell = pl.col("cell")
        are_digits = (cell.str.len_bytes() <= _MOST_DIGITS) & ~cell.str.starts_with("+") & ~cell.str.starts_with("-")
        numbers = pl.when(are_digits).then(cell.cast(pl.Int64, strict=False)).cast(pl.Float64)
    elif cells.dtype.is_numeric():
        numbers = pl.col("cell").cast(pl.Float64)
    else:
        numbers = pl.lit(None, pl.Float64)
    is_quick = (
        (numbers >= least) & (numbers < below) & (numbers == numbers.floor() if are_whole else pl.lit(value=True))
    )
    kept = pl.when(is_quick).then(numbers)
    return cells.to_frame("cell").select(kept.alias("value")).to_series()
