"""Draw the charts of a campaign with matplotlib, for papers: panels by family and column, SVG, PDF or PNG."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError, quantity
from pybatsched.metrics.figure_names import resolved
from pybatsched.report import durations, figures
from pybatsched.report.campaign.boxes import Box, Chart, dodge
from pybatsched.report.campaign.layout import charts_of
from pybatsched.report.campaign.points import Point, baseline_of
from pybatsched.report.scales import Scale, ScaleOption, log_ticks, scale_of


class FigureKind(NamedTuple):
    """The content of a figure: values or ratios to a baseline, as boxes or as means with their intervals."""

    is_ratio: bool
    is_mean: bool


#: Figures of a campaign by name.
KINDS: Final = {
    "boxes": FigureKind(is_ratio=False, is_mean=False),
    "ratios": FigureKind(is_ratio=True, is_mean=False),
    "means": FigureKind(is_ratio=False, is_mean=True),
    "mean-ratios": FigureKind(is_ratio=True, is_mean=True),
}
_WIDTH: Final = 7.2  # inches, as in the other figures
_MAX_BOXES: Final = 40  # side by side; more columns are placed below
_SLOT: Final = 0.26
_LETTER: Final = 0.075
_ALONG: Final = 30  # letters that fit along the axis of values
_ROW: Final = 2.3
_MARGIN: Final = 0.9
_BASELINE, _DOT, _GREY = "#d0d0d0", "#1f4e79", "#7a7a7a"


def draw(
    kind: str,
    points: Sequence[Point],
    path: str | Path,
    *,
    figure: str,
    baseline: str = "",
    policy: str = "",
    each: str = "",
    scale: ScaleOption = "auto",
) -> str:
    """Draw a figure of a campaign into a file, one chart below the other, and return a short description.

    `figure` may be a measure; then it is the mean of the measure. With `policy`, only the charts of that policy are
    drawn. With `each`, a field of jobs, a dot is one value of the field in a run. All charts have the same axis of
    values. Raises InputError for data that cannot be drawn and files that cannot be written.
    """
    if each and not any(each in point.each for point in points):
        kept = sorted({key for point in points for key in point.each})
        raise InputError(f"each {each!r:.60}: expected {', '.join(kept) or 'a campaign with each = [...] in its file'}")
    known = sorted({key for point in points for key in _figures(point, each)})
    name = f"mean_{figure}" if figure not in known and f"mean_{figure}" in known else resolved(figure, known)
    if not known:
        raise InputError("the campaign has no finished cell to show")
    if name not in known:
        raise InputError(f"measure {figure!r:.60}: expected one of {', '.join(known)}")
    policies = list(dict.fromkeys(point.policy for point in points))
    if policy and policy not in policies:
        raise InputError(f"policy {policy!r:.60}: expected one of {', '.join(policies)}")
    chosen = baseline_of(points, baseline)
    is_ratio = KINDS[kind].is_ratio
    if is_ratio and not chosen:
        raise InputError(f"{kind}: expected a campaign with several policies or settings")
    charts = charts_of(points, name, chosen, ratios=is_ratio, only=policy, each=each)
    if not charts:
        nothing = f"no points to show of {policy or 'any policy'}"
        why = _why_no_ratio(points, name, chosen, policy, each) if is_ratio else ""
        raise InputError(f"{kind}: {why or nothing}")
    charts = [replace(chart, scale=scale) for chart in charts]
    is_mean = KINDS[kind].is_mean
    axis = scale_of(charts, with_dots=not is_mean, with_intervals=is_mean)
    if scale == "log" and not axis.is_log:
        what = f"{kind} of {charts[0].measure_title}"
        raise InputError(f"--scale log: {what} are not all above 0; use --scale linear or --scale auto")
    sizes = [_size(chart) for chart in charts]
    size = max(width for width, _ in sizes), sum(height for _, height in sizes)
    with figures.canvas(path, size) as whole:
        parts = whole.subfigures(len(charts), 1, squeeze=False, height_ratios=[height for _, height in sizes])
        for part, chart in zip(parts[:, 0], charts, strict=True):
            _chart(part, chart, axis, as_means=is_mean)
    n_values = sum(len(box.dots) for chart in charts for box in chart.boxes)
    n_undefined = sum(chart.n_undefined for chart in charts)
    without = f" ({n_undefined:,} without: the baseline is 0)" if n_undefined else ""
    on_axis = ", on a logarithmic axis" if axis.is_log else ""
    return f"{kind} of {charts[0].measure_title}, {quantity(n_values, 'value')}{without}{on_axis}"


def _why_no_ratio(points: Sequence[Point], figure: str, baseline: str, policy: str, each: str) -> str:
    """Return why no value of a figure has a ratio to the baseline. O(points)."""
    base = {point.key: point for point in points if point.setting == baseline}
    own = [point for point in points if point.setting != baseline and policy in {"", point.policy}]
    partners = [base[point.key] for point in own if point.key in base and point.sample(figure, each)]
    if not partners:
        paired = f"with a point of {baseline} on the same workload, platform and seed"
        return f"no points to show of {policy or 'any policy'} {paired}"
    values = [value for partner in partners for value in partner.sample(figure, each).values()]
    what = "is 0" if values and not any(values) else "has no value"
    return f"{figure} of the baseline {baseline} {what}, so there are no ratios; use another --baseline or --measure"


def _figures(point: Point, each: str) -> set[str]:
    """Return the names of the figures of a point, or of the values of a field such as user."""
    if not each:
        return set(point.figures or ())
    return {name for row in point.each.get(each, {}).values() for name in row}


def _size(chart: Chart) -> tuple[float, float]:
    lines = chart.lines(_MAX_BOXES)
    width = max(_WIDTH, _MARGIN + _SLOT * len(lines[0][1]) * len(chart.categories))
    return width, _ROW * len(lines) + 0.7 + (_LETTER * _longest(chart) if _is_rotated(chart) else 0)


def _longest(chart: Chart) -> int:
    return max(map(len, chart.categories))


def _slot(chart: Chart) -> float:
    """Return the width of a box in inches."""
    columns = chart.lines(_MAX_BOXES)[0][1]
    return max((_WIDTH - _MARGIN) / (len(columns) * max(len(chart.categories), 4)), _SLOT)


def _is_rotated(chart: Chart) -> bool:
    return _LETTER * _longest(chart) > _slot(chart)


def _chart(part: Any, chart: Chart, axis: Scale, *, as_means: bool) -> None:
    subject = f"{figures.plain(chart.subject)}: " if chart.subject else ""
    part.suptitle(f"{subject}{figures.plain(chart.title.removesuffix(' (s)'))}", fontsize=10)
    lines = chart.lines(_MAX_BOXES)
    axes = part.subplots(len(lines), len(lines[0][1]), squeeze=False, sharex=True, sharey="row")
    for line, (row, columns) in zip(axes, lines, strict=True):
        for panel, column in zip(line, columns, strict=False):
            _panel(panel, chart, chart.panel(row, column), axis, as_means=as_means)
            if chart.column_title and (row == chart.rows[0] or len(chart.columns) > len(columns)):
                panel.set_title(figures.plain(f"{chart.column_title} {column}"), fontsize=9)
        for panel in line[len(columns) :]:
            panel.set_axis_off()
        label = "ratio" if chart.is_ratio else textwrap.fill(_title(chart, axis), _ALONG)
        line[0].set_ylabel(figures.plain(f"{row}\n{label}"))
    names = [figures.plain(name) for name in chart.categories]
    for j in range(len(lines[0][1])):  # labels below the last panel of each column; the last line may have fewer panels
        lowest = max(i for i, (_, columns) in enumerate(lines) if j < len(columns))
        axes[lowest, j].set_xticks(range(len(names)), names, rotation=90 if _is_rotated(chart) else 0)
        axes[lowest, j].tick_params(labelbottom=True)
    part.supxlabel(figures.plain(chart.x_title), fontsize=9)


def _panel(panel: Any, chart: Chart, boxes: Sequence[Box], axis: Scale, *, as_means: bool) -> None:
    positions = [chart.categories.index(box.category) for box in boxes]
    (_draw_means if as_means else _draw_boxes)(panel, boxes, positions, axis)
    if chart.is_ratio:
        panel.axhline(1.0, color="#444444", linestyle="--", linewidth=0.8, zorder=0)
    _set_axis(panel, axis, is_time=_is_time(chart))
    panel.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    panel.set_axisbelow(True)
    n = len(chart.categories)
    half = max(n, 4) / 2 + 0.1  # a single box is narrower than its panel
    panel.set_xlim((n - 1) / 2 - half, (n - 1) / 2 + half)
    ns = [box.mean.n if as_means else len(box.dots) for box in boxes]
    is_wide = _LETTER * max((len(f"n = {one:,}") for one in ns), default=0) < _slot(chart)
    above = {"transform": panel.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": 7, "color": "#555555"}
    for position, one in zip(positions, ns, strict=True):
        panel.text(position, 0.99, f"n = {one:,}" if is_wide else f"{one:,}", **above)


def _is_time(chart: Chart) -> bool:
    return chart.measure_title.endswith(" (s)")


def _title(chart: Chart, axis: Scale) -> str:
    """Return the label of the axis of values. A time axis has units at its ticks, or one unit in its label."""
    if not _is_time(chart):
        return chart.measure_title
    _, unit = durations.labelled(axis.low, axis.high)
    return f"{chart.measure_title.removesuffix(' (s)')}{'' if axis.is_log else f' ({unit})'}"


def _set_axis(panel: Any, axis: Scale, *, is_time: bool) -> None:
    panel.yaxis.set_major_formatter("{x:,.10g}")
    if axis.is_log:
        panel.set_yscale("log")
        marks = [(at, f"{at:,.10g}") for at in log_ticks(axis.low, axis.high)]
        marks = durations.marks(axis.low, axis.high) if is_time else marks
    elif is_time:
        marks, _ = durations.labelled(axis.low, axis.high)
    if axis.is_log or is_time:
        panel.set_yticks([at for at, _ in marks], [text for _, text in marks])
        panel.set_yticks([], minor=True)
    panel.set_ylim(axis.low, axis.high)


def _draw_boxes(panel: Any, boxes: Sequence[Box], positions: Sequence[int], _axis: Scale) -> None:
    colors = [_BASELINE if box.is_baseline else figures.BOX for box in boxes]
    figures.draw_boxes(panel, [box.statistics for box in boxes], positions, colors)
    at = [position + dodge(k) for position, box in zip(positions, boxes, strict=True) for k in range(len(box.dots))]
    values = [dot.value for box in boxes for dot in box.dots]
    panel.scatter(at, values, s=7, color=_DOT, alpha=0.6, linewidths=0, zorder=3)


def _draw_means(panel: Any, boxes: Sequence[Box], positions: Sequence[int], axis: Scale) -> None:
    for position, box in zip(positions, boxes, strict=True):
        mean, color = box.mean, _GREY if box.is_baseline else _DOT
        panel.plot([position], [mean.mean], "o", color=color, markersize=4)
        if mean.half is None:
            continue
        whisker = axis.whisker(mean)
        panel.plot([position, position], [whisker.low, whisker.high], "-", color=color, linewidth=1.1)
        panel.plot([position], [whisker.low], "v" if whisker.is_cut_below else "_", color=color, markersize=5)
        panel.plot([position], [whisker.high], "^" if whisker.is_cut_above else "_", color=color, markersize=5)
