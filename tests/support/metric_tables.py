"""Write the tables of docs/metrics.md and docs/experiments.md: figures, and columns of tables. `make api` runs it."""

from __future__ import annotations

from collections.abc import Iterable

from pybatsched.metrics import figure_names
from pybatsched.metrics.compare import bootstrap
from pybatsched.metrics.job_results import COLUMNS


def of_metrics() -> dict[str, str]:
    """Return the tables of docs/metrics.md with their heads, by the names in their markers."""
    figures = {
        "measures": ("measure", figure_names.MEASURES | figure_names.STRETCHES | figure_names.OF_LOGS),
        "figures": ("figure of a run", figure_names.OF_RUNS),
        "against": ("figure against a baseline", figure_names.AGAINST),
    }
    columns = ((f"`{name}`", kind.__name__, meaning) for name, (kind, meaning) in COLUMNS.items())
    statistics = ((f"`{name}`", text) for name, text in figure_names.STATISTICS.items())
    return {
        "columns": _table(("column", "type", "meaning"), columns),
        "statistics": _table(("statistic", "definition"), statistics),
    } | {
        name: _table(
            (head, "unit", "title", "definition"),
            ((f"`{one.name}`", one.unit, one.title, one.definition) for one in named.values()),
        )
        for name, (head, named) in figures.items()
    }


def of_experiments() -> dict[str, str]:
    """Return the table of docs/experiments.md."""
    return {"comparison": _table(("column", ""), ((f"`{name}`", text) for name, text in bootstrap.COLUMNS.items()))}


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in (head, *rows)]
    return "\n".join((lines[0], "|" + "---|" * len(head), *lines[1:], ""))
