"""Return the results of a campaign as a table: a row for each point, or the means of groups of points."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybatsched.campaign.baseline import points_done
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.figure_names import resolved
from pybatsched.text_table import aligned

if TYPE_CHECKING:
    import polars as pl

#: The first columns: they identify the point of a row.
POINT: Final = ("workload", "platform", "policy", "options", "seed", "repeat")
#: Figures that are shown by default.
SHOWN: Final = (
    "n_jobs",
    "mean_wait_s",
    "mean_bounded_slowdown",
    "max_bounded_slowdown",
    "utilisation",
    "makespan_s",
)
#: Figures against a baseline that are shown if there is one.
AGAINST: Final = ("response_ratio", "impacted", "early")
#: Counts that are also shown if one of them is not 0: without them the other figures would mislead.
WARNING_COUNTS: Final = ("n_left_out", "n_rejected", "n_broken_promises")


def shown(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the figures that are shown of these points."""
    found = list(rows)
    counts = [name for name in WARNING_COUNTS if any(row.get(name) for row in found)]
    against = [name for name in AGAINST if any(row.get(name) is not None for row in found)]
    return [*SHOWN[:1], *counts, *SHOWN[1:], *against]


def frame(store: Store) -> pl.DataFrame:
    """Return all points of a campaign that are done, in the order of its file."""
    polars = load_polars()
    rows = []
    for point, result in points_done(store):
        if "figures" not in result:
            continue
        head = {name: point[name] for name in ("workload", "platform", "policy", "seed", "repeat")}
        head["options"] = json.dumps(point["options"], sort_keys=True)
        rows.append({name: head[name] for name in POINT} | result["figures"])
    if not rows:
        rows_of: pl.DataFrame = polars.DataFrame(schema=list(POINT))
    else:
        rows_of = polars.DataFrame(rows, infer_schema_length=None)
    return rows_of


def grouped(table: pl.DataFrame, by: Sequence[str], figures: Sequence[str]) -> pl.DataFrame:
    """Return the means of figures over each group of points, with their numbers; groups in order of first point."""
    polars = load_polars()
    figures = [resolved(name, table.columns) for name in figures]
    for name in (*by, *figures):
        if name not in table.columns:
            raise InputError(f"unknown column {name!r:.60}; expected some of {', '.join(table.columns)}")
    if not by:
        return table.select(*(name for name in POINT if name in table.columns), *figures)
    means = [polars.col(name).cast(polars.Float64).mean() for name in figures]
    return table.group_by(list(by), maintain_order=True).agg(polars.len().alias("points"), *means)


def written(table: pl.DataFrame, form: str) -> str:
    """Return a table as text, csv, markdown or latex."""
    polars = load_polars()
    rows = [table.columns, *([_shown(value, form) for value in row] for row in table.iter_rows())]
    if form == "csv":
        texts = {name: polars.col(name) for name, kind in table.schema.items() if kind == polars.String}
        start = r"^[=+\-@\t\r]"  # a spreadsheet would read such a text as a formula
        marked = {
            name: polars.when(text.str.contains(start)).then(polars.lit("'") + text).otherwise(text)
            for name, text in texts.items()
        }
        return str(table.with_columns(**marked).write_csv())
    if form == "markdown":
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], ""])
    if form == "latex":
        body = " \\\\\n".join(" & ".join(row) for row in [[_escaped(name) for name in rows[0]], *rows[1:]])
        head, _, rest = body.partition("\n")
        columns = "".join("r" if dtype.is_numeric() else "l" for dtype in table.dtypes)
        return f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{head}\n\\hline\n{rest} \\\\\n\\hline\n\\end{{tabular}}\n"
    sides = "".join("r" if dtype.is_numeric() else "l" for dtype in table.dtypes)
    return "\n".join(aligned(rows, sides or "l")) + "\n"


def _shown(value: Any, form: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    if form == "latex":
        return _escaped(text)
    if form != "markdown":
        return text
    for markup, harmless in (("|", "\\|"), ("<", "&lt;"), ("](", "]\\(")):  # cells, tags, links and images
        text = text.replace(markup, harmless)
    return " ".join(text.splitlines())


def _escaped(text: str) -> str:
    """Return text with the special characters of LaTeX escaped."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)


def load_polars() -> Any:
    """Return the module polars. Raises InputError if it is not installed."""
    try:
        import polars as pl  # noqa: PLC0415  an optional dependency
    except ImportError:
        raise InputError("campaigns need polars; pip install 'pybatsched[campaign]'") from None
    return pl
