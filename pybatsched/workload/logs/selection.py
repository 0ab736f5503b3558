"""Select the rows of a log that become jobs."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from pybatsched.errors import quantity
from pybatsched.workload.logs.table import applying
from pybatsched.workload.report import Report
from pybatsched.workload.selection import MOVED, TOO_MANY, Selection
from pybatsched.workload.walltimes import tidy


def candidates_of(rows: Iterable[tuple[int, float, int, str | None]]) -> pl.DataFrame:
    """Return lines, submissions, sizes and rules that drop rows as the table that `chosen` takes. O(n)."""
    schema = {"line": pl.Int64, "submitted_at": pl.Float64, "n_procs": pl.Int64, "dropped_by": pl.String}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def first_of(rules: Iterable[tuple[str, pl.Expr]]) -> pl.Expr:
    """Return the first rule that applies to a row, null for none."""
    return pl.coalesce(pl.lit(None, pl.String), *(pl.when(applies).then(pl.lit(rule)) for rule, applies in rules))


def chosen(rows: pl.DataFrame, selection: Selection, report: Report, source: str) -> tuple[pl.DataFrame, float]:
    """Return the rows that become jobs, in order of submission, and the time that a window counts from. O(n log n).

    `dropped_by` is the rule that drops a row, null for none. Other rows are counted. The result has the index of each
    row as `place`. Raises InputError.
    """
    rows = rows.with_row_index("place")
    runnable = rows.filter(pl.col("dropped_by").is_null())
    origin_at = selection.origin(runnable["submitted_at"])
    times = rows["submitted_at"].fill_null(-1)
    if origin_at:
        times = pl.Series([float(tidy(at - origin_at)) for at in times.to_list()], dtype=pl.Float64)
    limit = first_of(selection.limits(pl.lit(times), pl.col("n_procs")))
    rows = rows.with_columns(pl.coalesce("dropped_by", limit))
    dropped_by = rows["dropped_by"].drop_nulls().unique().to_list()
    report.add(applying(rows, {rule: pl.col("dropped_by") == rule for rule in dropped_by}, "dropped"))
    kept = rows.filter(pl.col("dropped_by").is_null())
    if len(runnable) and not len(kept) and not selection.may_be_empty:
        raise selection.no_jobs_error(source, rows["submitted_at"].fill_null(-1).to_list())
    at = pl.col("submitted_at")
    kept = kept.with_columns((at < at.cum_max().shift(1)).alias("is_moved")).sort(at, maintain_order=True)
    most = len(kept) if selection.max_jobs is None else selection.max_jobs
    too_many = TOO_MANY.format(quantity(most, "job"))
    report.add(applying(kept[most:].sort("place"), {too_many: pl.lit(value=True)}, "dropped"))
    report.add(applying(kept[:most].sort("place"), {MOVED: pl.col("is_moved")}, "changed"))
    return kept[:most], origin_at
