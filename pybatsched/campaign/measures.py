"""Evaluate the expressions of a study's file on a campaign's table.

An expression has numbers, + - * /, brackets and the functions below. FIGURE is a column of figures, also against the
campaign's baseline: ``median(response_ratio, policy = 'mct')``. `where` selects points by the first columns
(``workload = 'kth-*'``, a star matches anything) and by options of the policy (``theta = 10``):

* ``mean(FIGURE, where…)``, ``median``, ``total``, ``greatest``, ``least``: over the points;
* ``median_of_workloads(FIGURE, where…)``: the median of the medians over the points of each workload;
* ``mean_ratio(FIGURE, 'BASELINE', where…)``, ``median_ratio``, ``greatest_ratio``: over the ratios of the points to
  those of the policy with that label on the same workload, platform, seed and repeat;
* ``least_median_ratio(FIGURE, 'BASELINE', where…)``: the least such median of all platforms and options;
* ``best(OPTION, FIGURE, 'BASELINE', where…)``: the value of an option for which this median is least;
* ``min(…, …)`` and ``max``: of such expressions.

Anything else is an error. No code of the file is executed.
"""

from __future__ import annotations

import ast
import json
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pybatsched.campaign.table import POINT
from pybatsched.errors import InputError, did_you_mean
from pybatsched.metrics.compare.paired import pair_key
from pybatsched.metrics.figure_names import resolved
from pybatsched.metrics.workload_fields import matches

if TYPE_CHECKING:
    import polars as pl

Row: TypeAlias = Mapping[str, Any]

_OPERATORS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_OVER_POINTS: Final[dict[str, Callable[[list[float]], float]]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "total": sum,
    "greatest": max,
    "least": min,
}
_OVER_RATIOS: Final[dict[str, Callable[[list[float]], float]]] = {
    "mean_ratio": statistics.fmean,
    "median_ratio": statistics.median,
    "greatest_ratio": max,
}
_OF_VALUES: Final[dict[str, Callable[[list[float]], float]]] = {"min": min, "max": max}
_OTHERS: Final = ("median_of_workloads", "least_median_ratio", "best")
_EXPECTED: Final = f"numbers, + - * / and {', '.join((*_OVER_POINTS, *_OVER_RATIOS, *_OTHERS, *_OF_VALUES))}"


def evaluate(text: str, table: pl.DataFrame) -> float | None:
    """Return the value of an expression on a table; None if no point matches. Raises InputError."""
    try:
        return _value(ast.parse(text, mode="eval").body, _Points(table))
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError) as error:
        raise InputError(f"{text!r:.200}: {error}") from None


def selections(text: str) -> list[dict[str, Any]]:
    """Return what each function of an expression selects points by. Raises InputError."""
    try:
        calls = [node for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Call)]
    except (SyntaxError, RecursionError) as error:
        raise InputError(f"{text!r:.200}: {error}") from None
    return [_wanted(call.keywords) for call in calls if any(isinstance(arg, ast.Name) for arg in call.args)]


class _Points:
    """The points of a table, with the options of each."""

    def __init__(self, table: pl.DataFrame) -> None:
        self.columns = table.columns
        self.rows: Sequence[Row] = table.to_dicts()
        parsed = {text: json.loads(text) for text in {row.get("options") or "{}" for row in self.rows}}
        self.options = [parsed[row.get("options") or "{}"] for row in self.rows]

    def where(self, wanted: Mapping[str, Any]) -> list[tuple[Row, Mapping[str, Any]]]:
        """Return the matching points, with their options."""
        known = {name for options in self.options for name in options}
        for name in wanted:
            if name not in self.columns and name not in known:
                front = [column for column in self.columns if column in POINT]
                raise InputError(
                    f"{name}: unknown column or option; expected one of {', '.join([*front, *sorted(known)])}"
                )
        found = zip(self.rows, self.options, strict=True)
        return [
            (row, options)
            for row, options in found
            if all(matches(row[name] if name in row else options.get(name), value) for name, value in wanted.items())
        ]

    def figures(self, points: Sequence[tuple[Row, Any]], figure: str) -> list[float]:
        """Return a figure of the points that have it."""
        figure = self.column(figure)
        return [float(row[figure]) for row, _ in points if row[figure] is not None]

    def ratios(self, points: Sequence[tuple[Row, Any]], figure: str, baseline: str) -> list[float]:
        """Return the ratios of points to the baseline's points with the same workload, platform, seed and repeat."""
        figure = self.column(figure)
        base: dict[tuple[Any, ...], float] = {}
        for row in self.rows:
            if row["policy"] == baseline:
                key = pair_key(row)
                if base.setdefault(key, row[figure]) != row[figure]:
                    raise InputError(
                        f"baseline {baseline!r}: expected one setting on {key[0]}, {key[1]}, found several; "
                        "choose a baseline with one"
                    )
        if not base and self.rows:
            known = dict.fromkeys(row["policy"] for row in self.rows)
            raise InputError(f"{baseline!r}: unknown policy; expected one of {', '.join(known)}")
        base = {key: value for key, value in base.items() if value}  # no division by 0
        keyed = [(pair_key(row), row[figure]) for row, _ in points]
        return [value / base[key] for key, value in keyed if key in base and value is not None]

    def column(self, figure: str) -> str:
        """Return the column of a figure. Raises InputError if there is none."""
        figure = resolved(figure, self.columns)
        if figure not in self.columns or figure in POINT:
            known = [name for name in self.columns if name not in POINT]
            names = did_you_mean(figure, known, f"; expected one of {', '.join(known)}")
            raise InputError(f"{figure}: unknown figure{names}")
        return figure


def _value(node: ast.expr, points: _Points) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _value(operand, points)
            return None if value is None else -value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            one, other = _value(left, points), _value(right, points)
            return None if one is None or other is None else _OPERATORS[type(op)](one, other)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=where):
            return _function(name, args, _wanted(where), points)
        case _:
            raise InputError(f"{ast.unparse(node):.80}: expected {_EXPECTED}")


def _function(name: str, args: list[ast.expr], wanted: Mapping[str, Any], points: _Points) -> float | None:
    match name, args:
        case _, [ast.Name(id=figure)] if name in _OVER_POINTS:
            values = points.figures(points.where(wanted), figure)
            return _OVER_POINTS[name](values) if values else None
        case _, [ast.Name(id=figure), ast.Constant(value=str() as baseline)] if name in _OVER_RATIOS:
            values = points.ratios(points.where(wanted), figure, baseline)
            return _OVER_RATIOS[name](values) if values else None
        case "median_of_workloads", [ast.Name(id=figure)]:
            return _of_workloads(points, figure, wanted)
        case "least_median_ratio", [ast.Name(id=figure), ast.Constant(value=str() as baseline)]:
            return _least(points, figure, baseline, wanted)
        case "best", [ast.Name(id=option), ast.Name(id=figure), ast.Constant(value=str() as baseline)]:
            return _best(points, option, figure, baseline, wanted)
        case _, [_, *_] if name in _OF_VALUES and not wanted:
            numbers = [_value(arg, points) for arg in args]
            known = [number for number in numbers if number is not None]
            return _OF_VALUES[name](known) if len(known) == len(numbers) else None
        case _:
            raise InputError(f"{name}({', '.join(map(ast.unparse, args)):.80}): expected {_EXPECTED}")


def _wanted(where: Sequence[ast.keyword]) -> dict[str, Any]:
    wanted = {}
    for keyword in where:
        if keyword.arg is None or keyword.arg in wanted or not isinstance(keyword.value, ast.Constant):
            raise InputError(f"{ast.unparse(keyword):.80}: expected a column or option, once, and its value")
        wanted[keyword.arg] = keyword.value.value
    return wanted


def _of_workloads(points: _Points, figure: str, wanted: Mapping[str, Any]) -> float | None:
    groups: dict[str, list[tuple[Row, Any]]] = {}
    for point in points.where(wanted):
        groups.setdefault(point[0]["workload"], []).append(point)
    values = [points.figures(group, figure) for group in groups.values()]
    medians = [statistics.median(found) for found in values if found]
    return statistics.median(medians) if medians else None


def _least(points: _Points, figure: str, baseline: str, wanted: Mapping[str, Any]) -> float | None:
    groups: dict[tuple[Any, ...], list[tuple[Row, Any]]] = {}
    for row, options in points.where(wanted):
        if row["policy"] != baseline:
            groups.setdefault((row["policy"], row["platform"], row["options"]), []).append((row, options))
    ratios = [points.ratios(group, figure, baseline) for group in groups.values()]
    return min((statistics.median(found) for found in ratios if found), default=None)


def _best(points: _Points, option: str, figure: str, baseline: str, wanted: Mapping[str, Any]) -> float | None:
    found = points.where(wanted)
    values = list(dict.fromkeys(options[option] for _, options in found if option in options))
    if not all(isinstance(value, int | float) for value in values):
        raise InputError(f"best({option}, …): expected an option whose values are numbers")
    if not any(option in options for options in points.options) and points.rows:
        raise InputError(f"best({option}, …): no point has this option")
    medians = []
    for value in values:
        ratios = points.ratios([point for point in found if point[1].get(option) == value], figure, baseline)
        if ratios:
            medians.append((statistics.median(ratios), value))
    return float(min(medians)[1]) if medians else None
