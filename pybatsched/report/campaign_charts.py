"""Draw the charts of a campaign with matplotlib, for papers: panels by family and column, SVG, PDF or PNG."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybatsched.campaign.tune import Trial
from pybatsched.errors import InputError, did_you_mean, quantity, setting
from pybatsched.metrics.compare.confidence import LEVEL_TEXT
from pybatsched.metrics.compare.paired import OTHER_JOBS
from pybatsched.metrics.figure_names import name_and_unit, resolved
from pybatsched.metrics.workload_fields import matches
from pybatsched.report import chart_style
from pybatsched.report.campaign.boxes import Box, Chart, dodge
from pybatsched.report.campaign.layout import charts_of, sweep_charts
from pybatsched.report.campaign.means import differences_of
from pybatsched.report.campaign.points import Point, baseline_of
from pybatsched.report.chart_style import GRID, plain
from pybatsched.report.charts import BOX, draw_boxes
from pybatsched.report.scales import ChartAxis, ScaleOption, axis_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Charts of a campaign by name, with what they show.
KINDS: Final[Mapping[str, str]] = {
    "boxes": "a figure of its table for each value of the options, by family of workloads",
    "ratios": "ratios of the figure to a baseline on the same workload, platform and seed",
    "means": f"means of the figure with {LEVEL_TEXT} confidence intervals, by Student's t over weeks or seeds",
    "mean-ratios": "means of the ratios",
    "differences": "each policy minus the baseline, with intervals by paired bootstrap (docs/experiments.md)",
    "sweep": "means over the offered load, a line for each policy, of a campaign with `load = [...]`",
}
#: Those of ratios to a baseline, and those of boxes. The others show means.
_OF_RATIOS: Final = ("ratios", "mean-ratios")
_OF_BOXES: Final = ("boxes", "ratios")
_MAX_BOXES: Final = 40  # side by side; more columns are placed below
_SLOT: Final = 0.26
_NAMES_SHARE: Final = 0.4  # of the width, at most, for the names beside panels
_ROW: Final = 2.3
_MARGIN: Final = 0.9
#: Widths of charts on a page in inches, of few and of many boxes, and the width of a box in the former.
_PAGE_WIDTHS: Final = (5.4, 11.0)
_PAGE_SLOT: Final = 0.4
_BASELINE, _DOT, _GREY = "#d0d0d0", "#1f4e79", "#7a7a7a"


class CampaignPlotOptions(NamedTuple):
    """The options of a campaign's charts.

    `figure` may be a measure; then it is the mean of the measure. With `policy`, only the charts of that policy are
    drawn, with `only` only workloads or families that match one of these names, which may contain stars. With `each`, a
    field of jobs, a dot is one value of the field in a run. `labels` are new names of policies, settings and families.
    `width` is in inches; by default a chart is as wide as the text of a paper, or wider if it has many boxes.
    """

    figure: str = "bounded_slowdown"
    baseline: str = ""
    policy: str = ""
    each: str = ""
    scale: ScaleOption = "auto"
    width: float | None = None
    only: Sequence[str] = ()
    labels: Mapping[str, str] = {}


def chart_of(kind: str, points: Sequence[Point], options: CampaignPlotOptions | None = None) -> Figure:
    """Return charts of a campaign, one below the other with one axis of values. Raises InputError."""
    return _drawn(kind, points, options or CampaignPlotOptions())[0]


def draw(kind: str, points: Sequence[Point], path: str | Path, options: CampaignPlotOptions) -> str:
    """Draw charts of a campaign into a file, and return a short description. Raises InputError."""
    chart_style.check_path(path)
    figure, what = _drawn(kind, points, options)
    chart_style.write(figure, path)
    return what


def _drawn(kind: str, points: Sequence[Point], options: CampaignPlotOptions) -> tuple[Figure, str]:
    """Return charts as a matplotlib Figure, and their description."""
    if kind not in KINDS:
        raise InputError(f"chart {kind!r:.40}: expected one of {', '.join(KINDS)}")
    is_mean = kind not in _OF_BOXES
    if kind == "differences":
        return _differences(points, options)
    charts = [_renamed(chart, options.labels) for chart in _charts(kind, points, options)]
    axis = axis_of(charts, with_dots=not is_mean, with_intervals=is_mean)
    if options.scale == "log" and not axis.is_log:
        what = f"{kind} of {charts[0].measure_title}"
        raise InputError(
            f"{setting('scale', 'log')}: {what} are not all above 0; use {setting('scale', 'linear')} or "
            f"{setting('scale', 'auto')}"
        )
    if kind == "sweep":
        return _sweep(charts, axis, options.width or chart_style.TEXT_IN), _described(kind, charts, axis)
    width = options.width or max(_width(chart) for chart in charts)
    heights = [_height(chart, width) for chart in charts]
    with chart_style.style(width):
        figure: Any = chart_style.new_figure(width, sum(heights))
        parts = figure.subfigures(len(charts), 1, squeeze=False, height_ratios=heights)
        for part, chart in zip(parts[:, 0], charts, strict=True):
            subject = f"{chart.subject}: " if chart.subject else ""
            size = chart_style.font_size(part) + 1
            title = plain(f"{subject}{chart.title.removesuffix(' (s)')}")
            part.suptitle(chart_style.wrapped(title, width - 0.2, size), fontsize=size)
            _chart(part, chart, axis, width, as_means=is_mean)
    return figure, _described(kind, charts, axis)


def for_page(chart: Chart, axis: ChartAxis, *, as_means: bool) -> Figure:
    """Return a chart without a title for a page; its points have hover texts."""
    n = len(chart.lines(_MAX_BOXES)[0][1]) * len(chart.categories)
    width, wide = _PAGE_WIDTHS
    width = width if _MARGIN + _PAGE_SLOT * n <= width else max(wide, _MARGIN + _SLOT * n)
    with chart_style.style(width):
        figure: Any = chart_style.new_figure(width, _height(chart, width) - 0.3)
        _chart(figure, chart, axis, width, as_means=as_means, with_hover=True)
    made: Figure = figure
    return made


def _described(kind: str, charts: Sequence[Chart], axis: ChartAxis) -> str:
    """Return the description of charts."""
    n_values = sum(len(box.dots) for chart in charts for box in chart.boxes)
    n_undefined = sum(chart.n_undefined for chart in charts)
    without = f" ({n_undefined:,} without: the baseline is 0)" if n_undefined else ""
    on_axis = ", on a logarithmic axis" if axis.is_log else ""
    return f"{kind} of {charts[0].measure_title}, {quantity(n_values, 'value')}{without}{on_axis}"


def _charts(kind: str, all_points: Sequence[Point], options: CampaignPlotOptions) -> list[Chart]:
    """Return the charts to draw. Raises InputError if there are none."""
    points, each, policy = chosen(all_points, options.only), options.each, options.policy
    if each and not any(each in point.each for point in points):
        kept = sorted({key for point in points for key in point.each})
        raise InputError(f"each {each!r:.60}: expected {', '.join(kept) or 'a campaign with each = [...] in its file'}")
    name = _figure_name(points, options)
    baseline = baseline_of(points, options.baseline)
    is_ratio = kind in _OF_RATIOS
    if is_ratio and not baseline:
        raise InputError(f"{kind}: expected a campaign with several policies or settings")
    if kind == "sweep":
        charts = sweep_charts(points, name, only=policy, each=each)
        if not charts:
            raise InputError(
                "sweep: expected a campaign whose workloads have `load = [...]`, found no point with a load"
            )
    else:
        charts = charts_of(points, name, baseline, ratios=is_ratio, only=policy, each=each)
    if not charts:
        nothing = f"no points to show of {policy or 'any policy'}"
        why = _why_no_ratio(points, name, baseline, policy, each) if is_ratio else ""
        raise InputError(f"{kind}: {why or nothing}")
    return [replace(chart, scale=options.scale) for chart in charts]


def _figure_name(points: Sequence[Point], options: CampaignPlotOptions) -> str:
    """Return the name of the figure to draw. Raises InputError for unknown figures and policies."""
    known = sorted({key for point in points for key in _figures(point, options.each)})
    mean = f"mean_{options.figure}"
    name = mean if options.figure not in known and mean in known else resolved(options.figure, known)
    if not known:
        raise InputError("the campaign has no finished cell to show; run it first")
    if name not in known:
        names = did_you_mean(options.figure, known, f": expected one of {', '.join(known)}")
        raise InputError(f"measure {options.figure!r:.60}{names}")
    policies = list(dict.fromkeys(point.policy for point in points))
    if options.policy and options.policy not in policies:
        raise InputError(f"policy {options.policy!r:.60}: expected one of {', '.join(policies)}")
    return name


def chosen(points: Sequence[Point], only: Sequence[str]) -> list[Point]:
    """Return the points of the workloads or families that match one of the names. Raises InputError."""
    for name in only:
        if not any(matches(own, name) for point in points for own in (point.workload, point.family)):
            families = dict.fromkeys(point.family for point in points)
            raise InputError(
                f"{setting('only', name[:60])}: expected a workload of the campaign: {', '.join(families)}"
            )
    return [
        point
        for point in points
        if not only or any(matches(own, name) for name in only for own in (point.workload, point.family))
    ]


def _renamed(chart: Chart, labels: Mapping[str, str]) -> Chart:
    """Return a chart with new names of policies, settings and families. Raises InputError if two get the same name."""
    if not labels:
        return chart
    reference = chart.reference
    base = reference.strip().removesuffix(" (baseline)")
    own = {**labels, **({reference: f"{labels[base]} (baseline)"} if base in labels else {})}
    categories, rows = ([own.get(name, name) for name in names] for names in (chart.categories, chart.rows))
    for names in (categories, rows):
        twice = next((name for name in names if names.count(name) > 1), "")
        if twice:
            raise InputError(f"label {twice!r:.60}: found for two names of one chart; expected different names")
    boxes = [
        replace(box, row=own.get(box.row, box.row), category=own.get(box.category, box.category)) for box in chart.boxes
    ]
    return replace(
        chart,
        subject=own.get(chart.subject, chart.subject),
        baseline=own.get(chart.baseline, chart.baseline),
        reference=own.get(reference, reference),
        rows=tuple(rows),
        categories=tuple(categories),
        boxes=tuple(boxes),
    )


def names_in(points: Sequence[Point]) -> list[str]:
    """Return the names that labels may replace: policies, their settings and families. O(points)."""
    return list(dict.fromkeys(name for point in points for name in (point.policy, point.setting, point.family)))


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
    instead = f"use another {setting('baseline')} or {setting('measure')}"
    return f"{figure} of the baseline {baseline} {what}, so there are no ratios; {instead}"


def _figures(point: Point, each: str) -> set[str]:
    """Return the names of the figures of a point, or of the values of a field such as user."""
    if not each:
        return set(point.figures or ())
    return {name for row in point.each.get(each, {}).values() for name in row}


def _width(chart: Chart) -> float:
    """Return the width of a chart in inches if the user has not chosen one."""
    return max(chart_style.TEXT_IN, _MARGIN + _SLOT * len(chart.lines(_MAX_BOXES)[0][1]) * len(chart.categories))


def _lines(chart: Chart, width: float) -> list[tuple[str, tuple[str, ...]]]:
    """Return the lines of panels that fit into a width."""
    return chart.lines(min(int((width - _MARGIN) / _SLOT + 1e-6), _MAX_BOXES))


def _height(chart: Chart, width: float) -> float:
    """Return the height of a chart in inches."""
    row = _ROW if width > chart_style.WIDTHS["column"] * 1.5 else 1.7
    return row * len(_lines(chart, width)) + 0.7 + chart_style.category_height(chart.categories, _slot(chart, width))


def _slot(chart: Chart, width: float) -> float:
    """Return the width of a box in inches."""
    columns = _lines(chart, width)[0][1]
    return (width - _MARGIN) / (len(columns) * max(len(chart.categories), 4))


def _chart(part: Any, chart: Chart, axis: ChartAxis, width: float, *, as_means: bool, with_hover: bool = False) -> None:
    """Draw the panels of a chart into a part of a figure."""
    size, slot = chart_style.font_size(part), _slot(chart, width)
    lines = _lines(chart, width)
    axes = part.subplots(len(lines), len(lines[0][1]), squeeze=False, sharey="row")
    for i, (line, (row, columns)) in enumerate(zip(axes, lines, strict=True)):
        for j, column in enumerate(columns):
            panel, boxes = line[j], chart.panel(row, column)
            positions = [chart.categories.index(box.category) for box in boxes]
            hover = [chart.setting_text(box) for box in boxes] if with_hover else []
            (_draw_means if as_means else _draw_boxes)(panel, boxes, positions, axis, hover)
            if chart.is_ratio:
                panel.axhline(1.0, color="#444444", linestyle="--", linewidth=0.8, zorder=0)
            chart_style.set_axis(panel, "y", axis)
            ns = [(at, box.mean.n if as_means else len(box.dots)) for at, box in zip(positions, boxes, strict=True)]
            chart_style.set_categories(panel, chart.categories, slot, ns)
            is_last = not any(j < len(below) for _, below in lines[i + 1 :])  # the last line may have fewer panels
            panel.tick_params(labelbottom=is_last, labelleft=j == 0)
            if chart.column_title and (row == chart.rows[0] or len(chart.columns) > len(columns)):
                panel.set_title(plain(f"{chart.column_title} {column}"), fontsize=size)
        for panel in line[len(columns) :]:
            panel.set_axis_off()
        for panel in line[1:]:
            panel.set_ylabel("")
        label = "ratio" if chart.is_ratio else line[0].get_ylabel()
        line[0].set_ylabel(f"{plain(row)}\n{label}")
    part.supxlabel(plain(chart.x_title), fontsize=size)


def _draw_boxes(panel: Any, boxes: Sequence[Box], at: Sequence[int], _axis: ChartAxis, hover: Sequence[str]) -> None:
    colors = [_BASELINE if box.is_baseline else BOX for box in boxes]
    draw_boxes(panel, [box.statistics for box in boxes], at, colors)
    places = [position + dodge(k) for position, box in zip(at, boxes, strict=True) for k in range(len(box.dots))]
    dots = [dot for box in boxes for dot in box.dots]
    drawn = panel.scatter(places, [dot.value for dot in dots], s=7, color=_DOT, alpha=0.6, linewidths=0, zorder=3)
    if hover:
        drawn.set_urls([f"{dot.name}: {dot.value:,.4g}" for dot in dots])


def _draw_means(panel: Any, boxes: Sequence[Box], at: Sequence[int], axis: ChartAxis, hover: Sequence[str]) -> None:
    means, colors = [box.mean for box in boxes], [_GREY if box.is_baseline else _DOT for box in boxes]
    drawn = panel.scatter(at, [mean.mean for mean in means], s=20, c=colors, linewidths=0, zorder=3)
    for position, mean, color in zip(at, means, colors, strict=True):
        if mean.half is None:
            continue
        whisker = axis.whisker(mean)
        panel.plot([position, position], [whisker.low, whisker.high], "-", color=color, linewidth=1.1)
        panel.plot([position], [whisker.low], "v" if whisker.is_cut_below else "_", color=color, markersize=5)
        panel.plot([position], [whisker.high], "^" if whisker.is_cut_above else "_", color=color, markersize=5)
    if hover:
        texts = ["" if mean.half is None else f" ({mean.low:,.4g} to {mean.high:,.4g})" for mean in means]
        shown = zip(hover, means, texts, strict=True)
        drawn.set_urls([f"{name}: {mean.mean:,.4g}{text}, {mean.n_text}" for name, mean, text in shown])


def _sweep(charts: Sequence[Chart], axis: ChartAxis, width: float) -> Figure:
    """Draw a line for each chart over the offered load, means with their intervals, a panel for each row."""
    rows = list(dict.fromkeys(row for chart in charts for row in chart.rows))
    height = _ROW if width > chart_style.WIDTHS["column"] * 1.5 else 1.9
    loads = sorted({float(box.category) for chart in charts for box in chart.boxes})
    step = (loads[-1] - loads[0]) / 100 or 0.005
    with chart_style.style(width):
        figure = chart_style.new_figure(width, height * len(rows) + 0.5)
        panels: Any = figure.subplots(len(rows), 1, squeeze=False, sharex=True)[:, 0]
        handles: dict[str, Any] = {}
        for panel, row in zip(panels, rows, strict=True):
            for number, chart in enumerate(charts):
                boxes = sorted((box for box in chart.boxes if box.row == row), key=lambda box: float(box.category))
                if not boxes:
                    continue
                aside = step * (number - (len(charts) - 1) / 2)  # so that intervals do not cover each other
                at = [float(box.category) + aside for box in boxes]
                look = chart_style.line(number)
                (handle,) = panel.plot(at, [box.mean.mean for box in boxes], marker="o", markersize=3, **look)
                handles.setdefault(chart.subject, handle)
                for x, box in zip(at, boxes, strict=True):
                    if box.mean.half is not None:
                        whisker = axis.whisker(box.mean)
                        ends = [whisker.low, whisker.high]
                        panel.plot([x, x], ends, "-", marker="_", markersize=4, color=look["color"], linewidth=0.8)
            chart_style.set_axis(panel, "y", axis)
            panel.set_xticks(loads, [f"{load:g}" for load in loads])
            panel.grid(axis="y", color=GRID, linewidth=0.6)
            panel.set_axisbelow(True)
            chart_style.add_title(panel, row)
        panels[-1].set_xlabel(charts[0].x_title)
        chart_style.add_legend(figure, list(handles.items()), "upper left")
    made: Figure = figure
    return made


def _differences(all_points: Sequence[Point], options: CampaignPlotOptions) -> tuple[Figure, str]:
    """Draw the differences of all settings to a baseline with their intervals, a panel for each family."""
    points = chosen(all_points, options.only)
    if options.each:
        raise InputError("each: cannot be used with the chart differences, which compares whole runs")
    figure_name, baseline = _figure_name(points, options), baseline_of(points, options.baseline)
    if not baseline:
        raise InputError("differences: expected a campaign with several policies or settings")
    kept = [point for point in points if point.setting == baseline or options.policy in {"", point.policy}]
    found = differences_of(kept, [figure_name], baseline)
    families = list(dict.fromkeys(row["family"] for row in found))
    title, unit = name_and_unit(figure_name)
    width = options.width or chart_style.TEXT_IN
    with chart_style.style(width):
        figure: Any = chart_style.new_figure(width, 1.0)
        size = chart_style.font_size(figure)
        notes = [OTHER_JOBS if row["verdict"] == OTHER_JOBS else f"n = {row['n']:,}" for row in found]
        names = [plain(options.labels.get(row["policy"], row["policy"])) for row in found]
        names = [f"{name} ({note})" for name, note in zip(names, notes, strict=True)]
        names = [chart_style.wrapped(name, _NAMES_SHARE * width, size) for name in names]
        beside = width - max(chart_style.text_width(name, size) for name in names) - 0.4  # the width of the panels
        n_lines = [
            sum(1 + name.count("\n") for name, row in zip(names, found, strict=True) if row["family"] == family)
            for family in families
        ]
        figure.set_figheight(0.9 + sum(0.5 + 0.26 * n for n in n_lines))
        panels = figure.subplots(len(families), 1, squeeze=False, sharex=True, height_ratios=[n + 1 for n in n_lines])
        for panel, family in zip(panels[:, 0], families, strict=True):
            own = [row for row in found if row["family"] == family]
            own_names = [name for name, row in zip(names, found, strict=True) if row["family"] == family]
            for place, row in enumerate(own):
                if row["low"] is not None:
                    ends = [row["low"], row["high"]]
                    panel.plot(ends, [place, place], "-", marker="|", markersize=5, color=_DOT, linewidth=1.1)
                panel.plot([row["difference"]], [place], "o", color=_DOT, markersize=4)
            panel.axvline(0.0, color="#444444", linestyle="--", linewidth=0.8, zorder=0)
            panel.set_yticks(range(len(own)), own_names)
            panel.set_ylim(len(own) - 0.5, -0.5)
            panel.xaxis.set_major_formatter("{x:,.10g}")
            panel.grid(axis="x", color=GRID, linewidth=0.6)
            panel.set_axisbelow(True)
            title_lines = chart_style.wrapped(plain(options.labels.get(family, family)), beside, size)
            panel.set_title(title_lines, loc="left", fontsize=size)
        better = {"lower": "; left is better", "higher": "; right is better"}.get(found[0]["better"], "")
        shown = plain(options.labels.get(baseline, baseline))
        label = f"{title}{unit}: policy minus {shown}{better}"
        panels[-1, 0].set_xlabel(chart_style.wrapped(label, beside, size))
    return figure, f"differences of {title}{unit} to {baseline}, {quantity(len(found), 'comparison')}"


def draw_trials(trials: Sequence[Trial], figure: str, path: str | Path) -> None:
    """Draw the values of the trials of a search, and the best value so far, into a file. Raises InputError."""
    chart_style.check_path(path)
    marks = {"complete": ("o", _DOT), "ended early": ("x", _GREY)}
    with chart_style.style():
        drawn: Any = chart_style.new_figure(chart_style.TEXT_IN, 2.8)
        panel = drawn.subplots()
        handles: list[tuple[str, Any]] = []
        for state, (marker, color) in marks.items():
            own = [trial for trial in trials if trial.state == state]
            at, values = [trial.number + 1 for trial in own], [trial.value for trial in own]
            handles.append((state, panel.scatter(at, values, s=14, marker=marker, color=color, linewidths=0.9)))
        best = [(trial.number + 1, trial.best) for trial in trials if trial.best is not None]
        (line,) = panel.step(*zip(*best, strict=True), where="post", color=chart_style.COLORS[1], linewidth=1.4)
        chart_style.add_legend(drawn, [*handles, ("best so far", line)], "upper left")
        panel.set_xlabel("trial")
        panel.set_ylabel(textwrap.fill(plain(figure), 30))
        panel.grid(axis="y", color=GRID, linewidth=0.6)
        chart_style.write(drawn, path)
