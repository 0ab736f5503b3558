"""Compute means of figures over groups of runs with confidence intervals, and write them as tables for papers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from pybatsched.errors import InputError, did_you_mean
from pybatsched.metrics.compare.confidence import LEVEL, Estimate, estimate
from pybatsched.metrics.compare.paired import other_jobs
from pybatsched.metrics.figure_names import better_of, figure_title, is_count, resolved
from pybatsched.text_table import aligned
from pybatsched.workload.names import parsed

#: Endings of the columns that follow the mean of a figure: ends of its interval, and the number of values.
LOW, HIGH, N = "_low", "_high", "_n"
#: Columns that identify a run, if a table has them.
_WORKLOAD, _SEEDS, _ADDRESS = "workload", ("seed", "repeat"), "address"
#: The column of the origins of workloads, in tables of Python: those with one origin are not independent.
ORIGIN: Final = "workload_origin"
_NAMES: Final = (_WORKLOAD, ORIGIN, "family", "platform", "policy", "options", *_SEEDS, _ADDRESS, "load")
#: Groups that differ only in these columns are compared to find the best one.
_COMPARED: Final = ("policy", "options")
#: The column that says how many jobs ran, where these are fewer than in other groups.
OTHER_JOBS: Final = "other_jobs"
_DIGITS: Final = 3
_NO_VALUE: Final = "-"


def summary_table(frame: pl.DataFrame, by: Sequence[str], figures: Sequence[str], level: float = LEVEL) -> pl.DataFrame:
    """Return the means of figures over groups of runs, with confidence intervals by Student's t.

    `frame` has a row for each run, with figures such as `mean_wait_s`. The result has a row for each group, in the
    order of their first runs. Its columns are `by`, and for each figure X the mean `X`, the ends of the interval
    `X_low` and `X_high` (null for a single value) and the number of independent values `X_n`. Runs without the figure
    do not count. For the column `other_jobs`, see `with_other_jobs`.

    The independent values of a group are its workloads (such as the weeks of a log), each with the mean over its runs.
    If there is one workload, they are its shaken copies or the runs of each seed and repeat (`unit_means`). Rows with
    the same address are one run. Without these columns, each row is a value. O(rows · figures). Raises
    InputError for unknown columns and levels.

    >>> runs = pl.DataFrame({"policy": ["easy"] * 3, "seed": [1, 2, 3], "mean_wait_s": [10.0, 12.0, 14.0]})
    >>> summary_table(runs, ["policy"], ["mean_wait_s"]).with_columns(pl.col(pl.Float64).round(2)).rows()
    [('easy', 12.0, 7.03, 16.97, 3)]
    """
    if not 0 < level < 1:
        raise InputError(f"confidence level {level:g}: expected a number between 0 and 1, such as {LEVEL:g}")
    by, figures = list(by), [resolved(name, frame.columns) for name in figures]
    _check_columns(frame, by, figures)
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    rows = []
    for key, members in groups.items():
        found: dict[str, Any] = dict(zip(by, key, strict=True))
        for figure in figures:
            found |= _columns(figure, _estimate(_once(members), figure, level))
        rows.append(found)
    schema = {name: frame.schema[name] for name in by} | {
        f"{figure}{ending}": pl.Int64 if ending == N else pl.Float64
        for figure in figures
        for ending in ("", LOW, HIGH, N)
    }
    return with_other_jobs(pl.DataFrame(rows, schema=schema), frame, by)


def with_other_jobs(table: pl.DataFrame, runs: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Add the column `other_jobs` ("11 of 30 ran") where other jobs ran than under another policy. O(runs)."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in runs.iter_rows(named=True):
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    places = [k for k, name in enumerate(by) if name not in _COMPARED]
    marks = other_jobs(groups, lambda group: tuple(group[k] for k in places))
    if not marks:
        return table
    column = [marks.get(group) for group in table.select(by).iter_rows()]
    return table.insert_column(len(by), pl.Series(OTHER_JOBS, column, pl.String))


#: Percentiles of figures over runs that are shown by default.
PERCENTS: Final = (5.0, 50.0, 95.0)


def quantile_table(
    frame: pl.DataFrame, by: Sequence[str], figures: Sequence[str], percents: Sequence[float] = PERCENTS
) -> pl.DataFrame:
    """Return percentiles of figures over the runs of each group, interpolated linearly. O(rows · figures).

    The columns are those of `by`, the number of `runs`, and for each figure X and percentile `X_p5`, `X_p50`, … Rows
    with the same address are one run. Raises InputError.

    >>> runs = pl.DataFrame({"policy": ["easy"] * 5, "mean_wait_s": [10.0, 12.0, 14.0, 20.0, 90.0]})
    >>> quantile_table(runs, ["policy"], ["mean_wait_s"], [50, 100]).rows()
    [('easy', 5, 14.0, 90.0)]
    """
    for percent in percents:
        if not 0 <= percent <= 100:
            raise InputError(f"percentile {percent:g}: expected a number from 0 to 100")
    by, figures = list(by), [resolved(name, frame.columns) for name in figures]
    _check_columns(frame, by, figures)
    once = frame.unique([*by, _ADDRESS], maintain_order=True) if _ADDRESS in frame.columns else frame
    values = [
        pl.col(figure).cast(pl.Float64).quantile(percent / 100, "linear").alias(f"{figure}_p{percent:g}")
        for figure in figures
        for percent in percents
    ]
    return with_other_jobs(once.group_by(by, maintain_order=True).agg(pl.len().alias("runs"), *values), frame, by)


def _check_columns(frame: pl.DataFrame, by: Sequence[str], figures: Sequence[str]) -> None:
    """Raise InputError for columns that cannot be grouped by, and for figures that are missing or not numbers."""
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric() or kind in {pl.Null, pl.Boolean}]
    named = [name for name in frame.columns if name in _NAMES or name not in numbers] or frame.columns
    for name in by:
        if name not in frame.columns:
            names = did_you_mean(name, named, f"; expected some of {', '.join(named)}")
            raise InputError(f"unknown column {name!r:.60} to group by{names}")
    for name in figures:
        if name not in numbers:
            known = [one for one in numbers if one not in _NAMES]
            names = did_you_mean(name, known, f"; expected some of {', '.join(known)}")
            raise InputError(f"unknown figure {name!r:.60}{names}")


def _columns(figure: str, found: Estimate | None) -> dict[str, Any]:
    if found is None:
        return {figure: None, f"{figure}{LOW}": None, f"{figure}{HIGH}": None, f"{figure}{N}": 0}
    low, high = (None, None) if found.half is None else (found.low, found.high)
    return {figure: found.mean, f"{figure}{LOW}": low, f"{figure}{HIGH}": high, f"{figure}{N}": found.n}


def _once(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return rows with different addresses; all rows if there are no addresses."""
    if not rows or rows[0].get(_ADDRESS) is None:
        return rows
    return list({row[_ADDRESS]: row for row in reversed(rows)}.values())[::-1]


def _estimate(rows: Sequence[Mapping[str, Any]], figure: str, level: float) -> Estimate | None:
    """Return the mean of a figure over the independent values of a group; None without values."""
    found = [row for row in rows if row[figure] is not None]
    return estimate(unit_means(found, figure).values(), level)


def unit_means(rows: Sequence[Mapping[str, Any]], figure: str) -> dict[Hashable, float]:
    """Return the mean of a figure over the rows of each independent unit. O(rows).

    The units are the workloads; shaken copies of one workload, at one load or several, are one unit. The column of
    origins tells which workloads are copies; without it, or for an empty origin, their names do. If there is one
    such unit, they are its copies, and else the runs of each seed and repeat. Loads are never independent.
    """
    names = [str(row.get(_WORKLOAD)) for row in rows]
    by_unit = [row.get(ORIGIN) or parsed(name).unit for row, name in zip(rows, names, strict=True)]
    by_copy = [parsed(name).without_load for name in names]
    seeds = [name for name in _SEEDS if rows and name in rows[0]]
    seen: Counter[str] = Counter()
    by_seed: list[Hashable] = []
    for name, row in zip(names, rows, strict=True):
        by_seed.append(tuple(row[seed] for seed in seeds) or seen[name])
        seen[name] += 1
    keys: Sequence[Hashable] = by_unit if len(set(by_unit)) > 1 else by_copy if len(set(by_copy)) > 1 else by_seed
    units: dict[Hashable, list[float]] = {}
    for key, row in zip(keys, rows, strict=True):
        units.setdefault(key, []).append(float(row[figure]))
    return {key: math.fsum(values) / len(values) for key, values in units.items()}


class _Cell(NamedTuple):
    """A mean and half its interval as text; `half` is empty without an interval."""

    mean: str
    half: str
    is_best: bool


class _Form(NamedTuple):
    """How one format writes texts, means with their intervals, and the best means."""

    text: Callable[[str], str]
    cell: Callable[[_Cell], str]


def to_text(summary: pl.DataFrame, *, bold_best: bool = False) -> str:
    """Return a table of `summary_table` as aligned text. The best mean of each column has a star."""
    form = _Form(lambda text: " ".join(text.split()), lambda cell: _plain(cell) + (" *" if cell.is_best else ""))
    heads, rows, sides, _ = _rendered(summary, form, bold_best=bold_best)
    if any(cell.endswith(" *") for row in rows for cell in row):  # the numbers of a column stay aligned
        is_marked = [any(row[k].endswith(" *") for row in rows) for k in range(len(heads))]
        rows = [
            [
                f"{cell}  " if marked and not cell.endswith(" *") else cell
                for cell, marked in zip(row, is_marked, strict=True)
            ]
            for row in rows
        ]
    return "\n".join(aligned([heads, *rows], sides)) + "\n"


def to_markdown(summary: pl.DataFrame, *, bold_best: bool = False) -> str:
    """Return a table of `summary_table` in Markdown, with the best mean of each column in bold on request."""
    form = _Form(in_markdown, lambda cell: _plain(cell._replace(mean=f"**{cell.mean}**") if cell.is_best else cell))
    heads, rows, sides, _ = _rendered(summary, form, bold_best=bold_best)
    rule = "|".join("---:" if side == "r" else "---" for side in sides)
    return "\n".join([_line(heads), f"|{rule}|", *map(_line, rows), ""])


def to_latex(summary: pl.DataFrame, *, bold_best: bool = False) -> str:
    r"""Return a table in LaTeX (package booktabs), with the best mean of each column in bold on request."""
    heads, rows, sides, groups = _rendered(summary, _Form(in_latex, _cell_in_latex), bold_best=bold_best)
    lines = [f"\\begin{{tabular}}{{{sides}}}", "\\toprule", f"{' & '.join(heads)} \\\\", "\\midrule"]
    for k, row in enumerate(rows):
        if k and groups[k] != groups[k - 1] and len({*groups}) < len(groups):
            lines.append("\\addlinespace")
        lines.append(f"{' & '.join(row)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def to_csv(summary: pl.DataFrame, *, bold_best: bool = False) -> str:
    """Return a table of `summary_table` as CSV with all digits. There is no bold text."""
    del bold_best
    return in_csv(summary)


#: The functions that write a table, by the name of the format.
FORMATS: Final[Mapping[str, Callable[..., str]]] = {
    "text": to_text,
    "latex": to_latex,
    "markdown": to_markdown,
    "csv": to_csv,
}


def _rendered(
    summary: pl.DataFrame, form: _Form, *, bold_best: bool
) -> tuple[list[str], list[list[str]], str, list[tuple[Any, ...]]]:
    """Return headings, rows of cells, the side of each column (l or r), and what each row is compared within."""
    columns = summary.columns
    figures = [name for name in columns if f"{name}{LOW}" in columns and f"{name}{N}" in columns]
    of_figures = {f"{figure}{ending}" for figure in figures for ending in ("", LOW, HIGH, N)}
    by = [name for name in columns if name not in of_figures]
    found = summary.rows(named=True)
    best = {figure: _best(found, figure, by) if bold_best else set() for figure in figures}
    rows = []
    for place, row in enumerate(found):
        ns = sorted({row[f"{figure}{N}"] for figure in figures})
        n = f"{ns[0]}" if len(ns) == 1 else f"{ns[0]} to {ns[-1]}" if ns else _NO_VALUE
        cells = [_cell(row, figure, is_best=place in best[figure]) for figure in figures]
        rows.append([*(form.text(_name(row[name])) for name in by), n, *map(form.cell, cells)])
    heads = [form.text(head) for head in (*by, "n", *map(figure_title, figures))]
    return heads, rows, "l" * len(by) + "r" * (len(figures) + 1), [_group(row, by) for row in found]


def _group(row: Mapping[str, Any], by: Sequence[str]) -> tuple[Any, ...]:
    """Return what rows must share to be compared: all but policy and options."""
    return tuple(row[name] for name in by if name not in (*_COMPARED, OTHER_JOBS))


def _best(rows: Sequence[Mapping[str, Any]], figure: str, by: Sequence[str]) -> set[int]:
    """Return the rows with the best mean of a figure among those that differ only in policy and options."""
    better = better_of(figure)
    if not better:
        return set()
    best: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
    for place, row in enumerate(rows):
        if row[figure] is not None and (is_count(figure) or not row.get(OTHER_JOBS)):
            best.setdefault(_group(row, by), []).append((row[figure] if better == "lower" else -row[figure], place))
    found = set()
    for own in best.values():
        values = [value for value, _ in own]
        if min(values) < max(values):  # among equal values, none is the best
            found |= {place for value, place in own if value == min(values)}
    return found


def _cell(row: Mapping[str, Any], figure: str, *, is_best: bool) -> _Cell:
    mean, low = row[figure], row[f"{figure}{LOW}"]
    if mean is None:
        return _Cell("", "", is_best=False)
    half = None if low is None else (row[f"{figure}{HIGH}"] - low) / 2
    return _Cell(*with_interval(mean, half), is_best)


def with_interval(mean: float, half: float | None) -> tuple[str, str]:
    """Return a mean with three significant digits, and half its interval up to the same place.

    If the interval is smaller than that place, both have as many digits as its first one needs.

    >>> with_interval(1167.99, 234.5), with_interval(0.6396, 0.0123), with_interval(1167.99, 2.345)
    (('1,170', '230'), ('0.640', '0.012'), ('1,168', '2'))
    >>> with_interval(12.0, None), with_interval(0.0, 0.0), with_interval(0.0, 0.05)
    (('12.0', ''), ('0', '0'), ('0.0000', '0.0500'))
    """
    place = _place(mean, _DIGITS) if mean else _place(half, _DIGITS) if half else 0
    if half and mean:
        place = min(place, _place(half, 1))
    texts = [f"{round(value, -place):,.{max(-place, 0)}f}" for value in (mean, half or 0.0)]
    return texts[0], "" if half is None else texts[1]


def _place(value: float, digits: int) -> int:
    """Return the power of ten of the last of some significant digits."""
    return int(f"{abs(value):.{digits - 1}e}".partition("e")[2]) - digits + 1


def _plain(cell: _Cell) -> str:
    return f"{cell.mean} ± {cell.half}" if cell.half else cell.mean or _NO_VALUE


def _cell_in_latex(cell: _Cell) -> str:
    if not cell.mean:
        return "--"
    mean, half = (text.replace(",", "{,}") for text in (cell.mean, cell.half))
    mean = f"\\mathbf{{{mean}}}" if cell.is_best else mean
    return f"${mean} \\pm {half}$" if half else f"${mean}$"


def _name(value: Any) -> str:
    return _NO_VALUE if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def in_latex(text: str) -> str:
    """Return text with the special characters of LaTeX escaped."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in " ".join(text.splitlines()))


def in_markdown(text: str) -> str:
    """Return text without the markup of Markdown, in one line."""
    for markup, harmless in (("|", "\\|"), ("<", "&lt;"), ("](", "]\\(")):  # cells, tags, links and images
        text = text.replace(markup, harmless)
    return " ".join(text.splitlines())


def in_csv(table: pl.DataFrame) -> str:
    """Return a table as CSV. A text that a spreadsheet would read as a formula starts with an apostrophe."""
    start = r"^[=+\-@\t\r]"
    texts = {name: pl.col(name) for name, kind in table.schema.items() if kind == pl.String}
    marked = {
        name: pl.when(text.str.contains(start)).then(pl.lit("'") + text).otherwise(text) for name, text in texts.items()
    }
    return table.with_columns(**marked).write_csv()
