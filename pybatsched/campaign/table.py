"""Return the results of a campaign: those of each point, a table of them, or the means of groups of points."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError, did_you_mean, printable
from pybatsched.metrics.compare.confidence import LEVEL
from pybatsched.metrics.compare.paired import Impact, impact, pair_key
from pybatsched.metrics.figure_names import better_of, renamed, resolved
from pybatsched.text_table import aligned
from pybatsched.workload.names import parsed

if TYPE_CHECKING:
    import polars as pl

#: The offered load that submissions were scaled to. Only the tables of campaigns that scale them have this column.
LOAD: Final = "load"
#: The first columns: they identify the point of a row.
POINT: Final = ("workload", "platform", "policy", "options", "seed", "repeat", "family", "address", LOAD)
#: Figures that are shown by default.
SHOWN: Final = ("n_jobs", "mean_wait_s", "mean_bounded_slowdown", "max_bounded_slowdown", "utilisation", "makespan_s")
#: Figures against a baseline that are shown if there is one.
AGAINST: Final = ("response_ratio", "impacted", "early")
#: Counts that are also shown if one of them is not 0: without them the other figures would mislead.
WARNING_COUNTS: Final = ("n_left_out", "n_rejected", "n_killed", "n_unfinished", "n_broken_promises")


#: The warning about a run in which no job completed.
NOTHING_COMPLETED: Final = "no job completed: all were rejected or killed"
#: The warning about a run that was stopped early; the number of jobs comes before it, where there is one number.
CUT: Final = "jobs unfinished or not submitted at stop_at"
#: Number of cached runs. The points of one workload follow each other, with their baseline.
_N_CACHED: Final = 8


def points_done(store: Store) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield all points of a campaign in the order of its file, each with its result. Raises InputError."""
    manifest = store.manifest()
    points = manifest["points"]
    results = store.results(point["address"] for point in points)
    label = manifest["spec"].get("baseline", "")
    base = {pair_key(point): point["address"] for point in points if label and point["policy"] == label}
    ends = lru_cache(_N_CACHED)(store.ends)
    for point in points:
        result = results.get(point["address"], {})
        if "figures" in result:
            result = {**result, "figures": renamed(result["figures"]), "each": _renamed_each(result.get("each", {}))}
        if label and "figures" in result:
            first, second = ends(base.get(pair_key(point), "")), ends(point["address"])
            own: dict[str, Any] = dict.fromkeys(Impact._fields)
            if first is not None and second is not None:
                own = impact(first, second)._asdict()
            result = {**result, "figures": {**result["figures"], **own}}
        yield point, result


def cell_text(point: Mapping[str, Any]) -> str:
    """Return workload, platform, policy, options and seed of a point as text."""
    options = f" {point['options']}" if point["options"] else ""
    return f"{point['workload']} {point['platform']} {point['policy']}{options} seed {point['seed']}"


def warnings_of(result: Mapping[str, Any]) -> list[str]:
    """Return the warnings of a cell: those stored with its result, and those that follow from its counts of jobs."""
    texts, figures = result.get("warnings"), result.get("figures") or {}
    n_lost = sum(figures.get(name) or 0 for name in ("n_rejected", "n_killed"))
    found = [NOTHING_COMPLETED] if 0 < (figures.get("n_jobs") or 0) <= n_lost else []
    found += [CUT] if result.get("n_cut") else []
    return found + [printable(text) for text in (texts if isinstance(texts, list) else ()) if isinstance(text, str)]


def _renamed_each(each: Mapping[str, Any]) -> dict[str, Any]:
    return {key: {name: renamed(row) for name, row in of_each.items()} for key, of_each in each.items()}


def shown(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the figures that are shown of these points."""
    found = list(rows)
    counts = [name for name in WARNING_COUNTS if any(row.get(name) for row in found)]
    against = [name for name in AGAINST if any(row.get(name) is not None for row in found)]
    return [*SHOWN[:1], *counts, *SHOWN[1:], *against]


def frame(store: Store) -> pl.DataFrame:
    """Return all points of a campaign that are done, in the order of its file."""
    import polars as pl  # noqa: PLC0415  slow to import

    names = [str(part["name"]) for part in store.manifest()["spec"]["workload"]]
    any_load = any(part.get("load") for part in store.manifest()["spec"]["workload"])
    rows = []
    for point, result in points_done(store):
        if "figures" not in result:
            continue
        head = {name: point[name] for name in ("workload", "platform", "policy", "seed", "repeat", "address")}
        parts = parsed(point["workload"], names)
        head["family"] = parts.family
        head["options"] = json.dumps(point["options"], sort_keys=True)
        head |= {LOAD: parts.load} if any_load else {}
        rows.append({name: head[name] for name in POINT if name in head} | result["figures"])
    if not rows:
        rows_of: pl.DataFrame = pl.DataFrame(schema=[name for name in POINT if name != LOAD])
    else:
        rows_of = pl.DataFrame(rows, infer_schema_length=None)
    return rows_of


def groups_shown(table: pl.DataFrame) -> list[str]:
    """Return the columns that a table of means is grouped by if the user names none."""
    columns = ["family", "policy"]
    for name in (LOAD, "platform", "options"):
        if name not in table.columns:
            continue
        if table.select(*columns, name).unique().height > table.select(columns).unique().height:
            columns.append(name)
    return columns


def grouped(table: pl.DataFrame, by: Sequence[str], figures: Sequence[str]) -> pl.DataFrame:
    """Return the means of figures over each group of points, with their numbers; groups in order of first point."""
    import polars as pl  # noqa: PLC0415  slow to import

    figures = [resolved(name, table.columns) for name in figures]
    _check_columns(table, (*by, *figures))
    from pybatsched.metrics.compare.grouped import with_other_jobs  # noqa: PLC0415  it needs polars

    if not by:
        # The family is shown if it is not the same as the workload.
        is_same = (table["family"] == table["workload"]).all()
        first = ("workload",) if is_same else ("workload", "family")
        others = (name for name in POINT if name in table.columns and name not in {*first, "family", "address"})
        names = [*first, *others]
        return with_other_jobs(table.select(*names, *figures), table, names)
    means = [pl.col(name).cast(pl.Float64).mean() for name in figures]
    found = table.group_by(list(by), maintain_order=True).agg(pl.len().alias("points"), *means)
    return with_other_jobs(found, table, by)


def _check_columns(table: pl.DataFrame, names: Iterable[str]) -> None:
    """Raise InputError for a name that is not a column."""
    for name in names:
        if name not in table.columns:
            known = did_you_mean(name, table.columns, f"; expected some of {', '.join(table.columns)}")
            raise InputError(f"unknown column {name!r:.60}{known}")


def against(
    table: pl.DataFrame, baseline: str, by: Sequence[str] = (), figures: Sequence[str] = (), level: float = LEVEL
) -> pl.DataFrame:
    """Return a row for each group of points and figure: the difference to a baseline with its interval.

    `baseline` is the label of a policy with one setting. By default, groups and figures are those that are shown, with
    a direction of better values; the columns are those of `pybatsched.metrics.compare.bootstrap`. Raises InputError.
    """
    import polars as pl  # noqa: PLC0415  slow to import

    from pybatsched.metrics.compare import bootstrap  # noqa: PLC0415  scipy is an extra

    rows = table.to_dicts()
    labels = list(dict.fromkeys(row["policy"] for row in rows))
    if baseline not in labels:
        raise InputError(f"baseline {baseline!r:.60}: expected the label of a policy: {', '.join(labels)}")
    names = [resolved(name, table.columns) for name in figures] or [
        name for name in shown(rows) if better_of(name) and name in table.columns
    ]
    groups = list(by) or groups_shown(table)
    _check_columns(table, (*groups, *names))
    found = bootstrap.against(rows, lambda row: row["policy"] == baseline, groups, names, level=level)
    kinds: dict[str, Any] = {name: table.schema[name] for name in groups}
    kinds |= dict.fromkeys(("figure", "better", "verdict"), pl.String)
    kinds |= {name: pl.Int64 if name == "n" else pl.Float64 for name in bootstrap.COLUMNS if name not in kinds}
    return pl.DataFrame(found, schema={name: kinds[name] for name in (*groups, *bootstrap.COLUMNS)})


def written(table: pl.DataFrame, form: str) -> str:
    """Return a table as text, csv, markdown or latex."""
    from pybatsched.metrics.compare.grouped import in_csv, in_latex, in_markdown  # noqa: PLC0415  they need polars

    rows = [table.columns, *([_shown(value) for value in row] for row in table.iter_rows())]
    if form == "csv":
        return in_csv(table)
    if form == "markdown":
        lines = [f"| {' | '.join(row)} |" for row in [rows[0], *(list(map(in_markdown, row)) for row in rows[1:])]]
        return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], ""])
    if form == "latex":
        columns = "".join("r" if dtype.is_numeric() else "l" for dtype in table.dtypes)
        head, *body = (f"{' & '.join(map(in_latex, row))} \\\\" for row in rows)
        lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", head, "\\midrule", *body, "\\bottomrule"]
        return "\n".join([*lines, "\\end{tabular}", ""])
    sides = "".join("r" if dtype.is_numeric() else "l" for dtype in table.dtypes)
    return "\n".join(aligned(rows, sides or "l")) + "\n"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
