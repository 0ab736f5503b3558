"""The charts of a campaign by matplotlib, for papers: panels by family and column, SVG, PDF or PNG."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pybatsched.errors import InputError
from pybatsched.report import figures, samples
from pybatsched.report.boxes import Box, Chart, dodge
from pybatsched.report.layout import charts_of
from pybatsched.report.scales import Scale, log_ticks, scale_of


class Kind(NamedTuple):
    """What a figure shows: values or ratios to a baseline, in boxes or as means with their intervals."""

    is_ratio: bool
    is_mean: bool


#: Figures of a campaign by name.
KINDS: Final = {
    "boxes": Kind(is_ratio=False, is_mean=False),
    "ratios": Kind(is_ratio=True, is_mean=False),
    "means": Kind(is_ratio=False, is_mean=True),
    "mean-ratios": Kind(is_ratio=True, is_mean=True),
}
_WIDTH: Final = 7.2  # inches, as the other figures
_MOST: Final = 40  # boxes side by side; more columns go below
_SLOT: Final = 0.26
_LETTER: Final = 0.075
_ALONG: Final = 30  # letters that fit along the axis of values
_ROW: Final = 2.3
_MARGIN: Final = 0.9
_BOX, _BASELINE, _MEAN, _DOT, _GREY = "#a6cee3", "#d0d0d0", "#e31a1c", "#1f4e79", "#7a7a7a"


def draw(
    kind: str,
    points: Sequence[samples.Point],
    path: str | Path,
    *,
    figure: str,
    baseline: str = "",
    policy: str = "",
    each: str = "",
    scale: Literal["auto", "log", "linear"] = "auto",
) -> str:
    """Draw a figure of a campaign into a file, one chart below the other, and say in a few words what it shows.

    `figure` may be a measure: its mean. With `policy`, just the charts of that one; with `each`, a field of jobs, a dot
    is one of its values in a run. All charts have one axis of values. Raises InputError for what cannot be drawn or
    written.
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
    is_ratio = KINDS[kind].is_ratio
    if is_ratio and not chosen:
        raise InputError(f"{kind}: expected a campaign with several policies or settings")
    charts = charts_of(points, name, chosen, ratios=is_ratio, only=policy, each=each)
    if not charts:
        pair = f" beside one of {chosen} on the same workload, platform and seed" if is_ratio else ""
        raise InputError(f"{kind}: no points to show, of {policy or 'any policy'}{pair}")
    charts = [replace(chart, scale=scale) for chart in charts]
    axis = scale_of(charts, with_intervals=KINDS[kind].is_mean)
    sizes = [_size(chart) for chart in charts]
    size = max(width for width, _ in sizes), sum(height for _, height in sizes)
    with figures.canvas(path, size) as whole:
        parts = whole.subfigures(len(charts), 1, squeeze=False, height_ratios=[height for _, height in sizes])
        for part, chart in zip(parts[:, 0], charts, strict=True):
            _chart(part, chart, axis, as_means=KINDS[kind].is_mean)
    of_runs = f"{sum(len(box.dots) for chart in charts for box in chart.boxes):,} values"
    return f"{kind} of {charts[0].measure_title}, {of_runs}{', logarithmic' if axis.is_log else ''}"


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


def _slot(chart: Chart) -> float:
    """Give the inches that there are for a box."""
    columns = chart.lines(_MOST)[0][1]
    return max((_WIDTH - _MARGIN) / (len(columns) * max(len(chart.categories), 4)), _SLOT)


def _is_turned(chart: Chart) -> bool:
    return _LETTER * _longest(chart) > _slot(chart)


def _chart(part: Any, chart: Chart, axis: Scale, *, as_means: bool) -> None:
    subject = f"{figures.plain(chart.subject)}: " if chart.subject else ""
    part.suptitle(f"{subject}{figures.plain(chart.title)}", fontsize=10)
    lines = chart.lines(_MOST)
    axes = part.subplots(len(lines), len(lines[0][1]), squeeze=False, sharex=True, sharey="row")
    for line, (row, columns) in zip(axes, lines, strict=True):
        for panel, column in zip(line, columns, strict=False):
            _panel(panel, chart, chart.panel(row, column), axis, as_means=as_means)
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


def _panel(panel: Any, chart: Chart, boxes: Sequence[Box], axis: Scale, *, as_means: bool) -> None:
    places = [chart.categories.index(box.category) for box in boxes]
    (_draw_means if as_means else _draw_boxes)(panel, boxes, places, axis)
    if chart.is_ratio:
        panel.axhline(1.0, color="#444444", linestyle="--", linewidth=0.8, zorder=0)
    if axis.is_log:
        ticker: Any = importlib.import_module("matplotlib.ticker")
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(ticker.FixedLocator(log_ticks(axis.low, axis.high)))
        panel.yaxis.set_minor_locator(ticker.NullLocator())
    panel.yaxis.set_major_formatter("{x:,.10g}")
    panel.set_ylim(axis.low, axis.high)
    panel.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    panel.set_axisbelow(True)
    n = len(chart.categories)
    half = max(n, 4) / 2 + 0.1  # a box alone need not be as wide as its panel
    panel.set_xlim((n - 1) / 2 - half, (n - 1) / 2 + half)
    ns = [box.mean.n if as_means else len(box.dots) for box in boxes]
    is_wide = _LETTER * max((len(f"n = {one:,}") for one in ns), default=0) < _slot(chart)
    above = {"transform": panel.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": 7, "color": "#555555"}
    for place, one in zip(places, ns, strict=True):
        panel.text(place, 0.99, f"n = {one:,}" if is_wide else f"{one:,}", **above)


def _draw_boxes(panel: Any, boxes: Sequence[Box], places: Sequence[int], _axis: Scale) -> None:
    if not boxes:
        return
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
    panel.scatter(at, values, s=7, color=_DOT, alpha=0.6, linewidths=0, zorder=3)


def _draw_means(panel: Any, boxes: Sequence[Box], places: Sequence[int], axis: Scale) -> None:
    for place, box in zip(places, boxes, strict=True):
        mean, color = box.mean, _GREY if box.is_baseline else _DOT
        panel.plot([place], [mean.mean], "o", color=color, markersize=4)
        if mean.half is None:
            continue
        whisker = axis.whisker(mean)
        panel.plot([place, place], [whisker.low, whisker.high], "-", color=color, linewidth=1.1)
        panel.plot([place], [whisker.low], "v" if whisker.is_cut_below else "_", color=color, markersize=5)
        panel.plot([place], [whisker.high], "^" if whisker.is_cut_above else "_", color=color, markersize=5)


def _stats(box: Box) -> dict[str, Any]:
    """Give what matplotlib draws a box of: the same numbers as on the page."""
    told = box.told
    low, q1, q2, q3, high = (told.percentiles[p] for p in (5, 25, 50, 75, 95))
    return {"whislo": low, "q1": q1, "med": q2, "q3": q3, "whishi": high, "mean": told.mean, "fliers": []}
