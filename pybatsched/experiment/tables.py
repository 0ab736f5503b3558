"""Columns of job fields for the tables of experiments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pybatsched.errors import InputError

try:
    import polars as pl
except ImportError:
    raise InputError("experiments need polars; pip install 'pybatsched[notebook]'") from None

__all__ = ["pl", "plain_columns"]


def plain_columns(jobs: Sequence[Mapping[str, Any]], known: Collection[str]) -> list[pl.Series]:
    """Return a column for each field of jobs that holds texts or numbers, except for those in `known`. O(fields).

    Numbers stay numbers if all values are; else the column has texts. Missing values are null.
    """
    names = dict.fromkeys(name for job in jobs for name in job if name not in known)
    columns = []
    for name in names:
        values = [job.get(name) for job in jobs]
        kinds = {type(value) for value in values if value is not None}
        if not kinds or not kinds <= {bool, int, float, str}:
            continue
        if kinds == {bool}:
            columns.append(pl.Series(name, values, pl.Boolean))
        elif kinds <= {int, float}:
            columns.append(pl.Series(name, values, pl.Int64 if kinds == {int} else pl.Float64, strict=False))
        else:
            columns.append(pl.Series(name, [None if value is None else str(value) for value in values], pl.String))
    return columns
