"""The charts of a campaign by matplotlib, for papers: panels by family and column, SVG, PDF or PNG."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.report import figures, samples
from pybatsched.report.boxes import Box, Chart, dodge, log_ticks, span_of_values
from pybatsched.report.layout import charts_of

#: Figures of a campaign by name, and whether they are ratios.
KINDS: Final = {"boxes": False, "ratios": True}
_WIDTH: Final = 7.2  # inches, as the other figures
_MOST: Final = 40  # boxes side by side; more columns go below
_SLOT: Final = 0.26
_LETTER: Final = 0.075
_ALONG: Final = 30  # letters that fit along the axis of values
_ROW: Final = 2.3
_MARGIN: Final = 0.9
_BOX, _BASELINE, _MEAN, _DOT = "#a6cee3", "#d0d0d0", "#e31a1c", "#1f4e79"


def draw(
    kind: str,
    points: Sequence[samples.Point],
    path: str | Path,
    *,
    figure: str,
    baseline: str = "",
    policy: str = "",
    each: str = "",
) -> None:
    """Draw boxes or ratios of a campaign into a file, one chart below the other. `figure` may be a measure: its mean.

    With `policy`, just the charts of that one; with `each`, a field of jobs, a dot is one of its values in a run.
    Raises InputError for what cannot be drawn or written.
    """
    if each and not any(each in point.each for point in points):
        kept = sorted({key for point in points for key in point.each})
        raise InputError(f"each {each!r:.60}: expected {', '.join(kept) or 'a campaign with each = [...] in its file'}")
    known = sorted({key for point in points for key in _figures(point, each)})
    name = figure if figure in known else f"{figure}_mean"
    if not known:
        raise InputError("the campaign: no cell is done, so there is nothing to show")
    if name not in known:
        raise InputError(f"measure {figure!r:.60}: expected one of {', '.join(known)}")
    policies = list(dict.fromkeys(point.policy for point in points))
    if policy and policy not in policies:
        raise InputError(f"policy {policy!r:.60}: expected one of {', '.join(policies)}")
    chosen = samples.baseline_of(points, baseline)
    if KINDS[kind] and not chosen:
        raise InputError("ratios: expected a campaign with several policies or settings")
    charts = charts_of(points, name, chosen, ratios=KINDS[kind], only=policy, each=each)
    if not charts:
        pair = f" beside one of {chosen} on the same workload, platform and seed" if KINDS[kind] else ""
        raise InputError(f"{kind}: no points to show, of {policy or 'any policy'}{pair}")
    sizes = [_size(chart) for chart in charts]
    size = max(width for width, _ in sizes), sum(height for _, height in sizes)
    with figures.canvas(path, size) as whole:
        parts = whole.subfigures(len(charts), 1, squeeze=False, height_ratios=[height for _, height in sizes])
        for part, chart in zip(parts[:, 0], charts, strict=True):
            _chart(part, chart)


def _figures(point: samples.Point, each: str) -> set[str]:
    """Give the names of the figures that a point has, of itself or of each user, say."""
    if not each:
        return set(point.figures or ())
    return {name for row in point.each.get(each, {}).values() for name in row}


def _size(chart: Chart) -> tuple[float, float]:
    lines = chart.lines(_MOST)
    width = max(_WIDTH, _MARGIN + _SLOT * len(lines[0][1]) * len(chart.categories))
    return width, _ROW * len(lines) + 0.7 + (_LETTER * _longest(chart) if _is_turned(chart) else 0)


def _longest(chart: Chart) -> int:
    return max(map(len, chart.categories))


def _is_turned(chart: Chart) -> bool:
    n_boxes = len(chart.lines(_MOST)[0][1]) * len(chart.categories)
    return _LETTER * _longest(chart) > max((_WIDTH - _MARGIN) / n_boxes, _SLOT)


def _chart(part: Any, chart: Chart) -> None:
    subject = f"{figures.plain(chart.subject)}: " if chart.subject else ""
    part.suptitle(f"{subject}{figures.plain(chart.title)}", fontsize=10)
    lines = chart.lines(_MOST)
    axes = part.subplots(len(lines), len(lines[0][1]), squeeze=False, sharex=True, sharey="row")
    for line, (row, columns) in zip(axes, lines, strict=True):
        for panel, column in zip(line, columns, strict=False):
            _panel(panel, chart, row, column)
            if chart.column_title and (row == chart.rows[0] or len(chart.columns) > len(columns)):
                panel.set_title(figures.plain(f"{chart.column_title} {column}"), fontsize=9)
        for panel in line[len(columns) :]:
            panel.set_axis_off()
        label = "ratio" if chart.is_ratio else textwrap.fill(chart.measure_title, _ALONG)
        line[0].set_ylabel(figures.plain(f"{row}\n{label}"))
    names = [figures.plain(name) for name in chart.categories]
    for j in range(len(lines[0][1])):  # labels below the last panel of each column; the last line may have fewer
        lowest = max(i for i, (_, columns) in enumerate(lines) if j < len(columns))
        axes[lowest, j].set_xticks(range(len(names)), names, rotation=90 if _is_turned(chart) else 0)
        axes[lowest, j].tick_params(labelbottom=True)
    part.supxlabel(figures.plain(chart.x_title), fontsize=9)


def _panel(panel: Any, chart: Chart, row: str, column: str) -> None:
    boxes = chart.panel(row, column)
    places = [chart.categories.index(box.category) for box in boxes]
    if boxes:
        drawn = panel.bxp(
            [_stats(box) for box in boxes],
            positions=places,
            widths=0.65,
            showmeans=True,
            showfliers=False,
            patch_artist=True,
            medianprops={"color": "black", "linewidth": 1.3},
            meanprops={"marker": "D", "markersize": 3.5, "markerfacecolor": _MEAN, "markeredgecolor": "none"},
            boxprops={"linewidth": 0.7},
        )
        for patch, box in zip(drawn["boxes"], boxes, strict=True):
            patch.set_facecolor(_BASELINE if box.is_baseline else _BOX)
        at = [place + dodge(k) for place, box in zip(places, boxes, strict=True) for k in range(len(box.dots))]
        values = [dot.value for box in boxes for dot in box.dots]
        panel.scatter(at, values, s=5, color=_DOT, alpha=0.45, linewidths=0, zorder=3)
    if chart.is_ratio:
        panel.axhline(1.0, color="#444444", linestyle="--", linewidth=0.8, zorder=0)
    low, high = span_of_values(chart, row)
    if chart.is_log:
        ticker: Any = importlib.import_module("matplotlib.ticker")
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(ticker.FixedLocator(log_ticks(low, high)))
        panel.yaxis.set_major_formatter("{x:,.10g}")
        panel.yaxis.set_minor_formatter(ticker.NullFormatter())
    panel.set_ylim(low, high)
    n = len(chart.categories)
    half = max(n, 4) / 2 + 0.1  # a box alone need not be as wide as its panel
    panel.set_xlim((n - 1) / 2 - half, (n - 1) / 2 + half)


def _stats(box: Box) -> dict[str, Any]:
    """Give what matplotlib draws a box of: the same numbers as on the page."""
    told = box.told
    low, q1, q2, q3, high = (told.percentiles[p] for p in (5, 25, 50, 75, 95))
    return {"whislo": low, "q1": q1, "med": q2, "q3": q3, "whishi": high, "mean": told.mean, "fliers": []}
