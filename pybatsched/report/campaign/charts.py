"""Draw the charts of a campaign with Bokeh: a panel for each family, with a box or mean per setting."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, Final

from bokeh.models import (
    BooleanFilter,
    CDSView,
    ColumnDataSource,
    FactorRange,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.plotting import figure

from pybatsched.metrics.compare.confidence import LEVEL_TEXT
from pybatsched.report.campaign.boxes import Box, Chart, dodge
from pybatsched.report.run.charts import WIDTH
from pybatsched.report.scales import Scale, log_ticks

_HALF: Final = WIDTH // 2
_SLOT: Final = 42  # preferred width of a box in pixels
_LEAST_SLOT: Final = 20
_MARGIN: Final = 100
_LETTER: Final = 6.3
_SMALL_LETTER: Final = 6.0
_ALONG: Final = 32  # letters that fit along the axis of values
_BOX, _BASELINE, _MEAN, _DOT, _GREY = "#a6cee3", "#d0d0d0", "#e31a1c", "#1f4e79", "#7a7a7a"
_NUMBER: Final = "{0,0.[0000]}"


def draw(chart: Chart, scale: Scale, *, as_means: bool = False) -> list[figure]:
    """Draw a chart: boxes with their dots, or only means with intervals, by family. O(dots log dots)."""
    lines = chart.lines((WIDTH - _MARGIN) // _LEAST_SLOT)
    n = len(lines[0][1]) * len(chart.categories)
    width = _HALF if _MARGIN + _SLOT * n <= _HALF else max(WIDTH, _MARGIN + _LEAST_SLOT * n)
    slot = (width - _MARGIN) / n
    panels = []
    for row, columns in lines:
        panel = _frame(chart, scale, row, columns, slot)
        kind = ("mean-ratios" if as_means else "ratios") if chart.is_ratio else ("means" if as_means else "boxes")
        panel.name = f"{kind}-{chart.figure}"
        boxes = [box for column in columns for box in chart.panel(row, column)]
        (_paint_means if as_means else _paint_boxes)(panel, chart, scale, boxes)
        ns = [box.mean.n if as_means else len(box.dots) for box in boxes]
        _write_n(panel, [_factor(chart, box.column, box.category) for box in boxes], ns, scale, slot)
        panels.append(panel)
    return panels


def _frame(chart: Chart, scale: Scale, row: str, columns: Sequence[str], slot: float) -> figure:
    turn, room = _label_angle(chart, slot)
    factors = [_factor(chart, column, category) for column in columns for category in chart.categories]
    panel = figure(
        width=round(_MARGIN + slot * len(factors)),
        height=270 + room,
        tools="pan,wheel_zoom,box_zoom,reset,save",
        active_drag=None,
        x_range=FactorRange(factors=factors, range_padding=0.02),
        y_range=Range1d(start=scale.low, end=scale.high),
        y_axis_type="log" if scale.is_log else "linear",
        title=row,
        x_axis_label=chart.x_title,
        y_axis_label=textwrap.fill(f"{'ratio of ' if chart.is_ratio else ''}{chart.measure_title}", _ALONG),
    )
    panel.yaxis.formatter = NumeralTickFormatter(format="0,0.[000]")
    if scale.is_log:
        panel.yaxis.ticker = panel.ygrid.ticker = FixedTicker(ticks=log_ticks(scale.low, scale.high))
    panel.yaxis.minor_tick_line_color = None
    panel.toolbar.logo = None
    panel.toolbar.autohide = True
    panel.xgrid.grid_line_color = None
    panel.xaxis.major_label_orientation = turn
    panel.xaxis.major_label_text_font_size = panel.yaxis.major_label_text_font_size = "12px"
    panel.xaxis.axis_label_text_font_style = panel.yaxis.axis_label_text_font_style = "normal"
    for axis in panel.xaxis:
        axis.update(group_text_font_size="12px", separator_line_color=None)
    if chart.is_ratio:
        panel.hspan(y=[1.0], line_color="#444444", line_dash="dashed")
    return panel


def _write_n(panel: figure, positions: Sequence[Any], ns: Sequence[int], scale: Scale, slot: float) -> None:
    """Write the number of values above each box or mean; without "n =" if the space is too narrow."""
    texts = [f"n = {n:,}" for n in ns]
    if max(map(len, texts)) * _SMALL_LETTER > slot:
        texts = [f"{n:,}" for n in ns]
    source = ColumnDataSource({"at": positions, "y": [scale.high] * len(texts), "n": texts})
    looks: dict[str, Any] = {"text_align": "center", "text_baseline": "top", "text_color": "#555555"}
    panel.text("at", "y", "n", y_offset=3, source=source, name="n", text_font_size="11px", **looks)


def _paint_means(panel: figure, chart: Chart, scale: Scale, boxes: Sequence[Box]) -> None:
    means = [box.mean for box in boxes]
    whiskers = [scale.whisker(one) for one in means]
    source = ColumnDataSource(
        {
            "at": [_factor(chart, box.column, box.category) for box in boxes],
            "setting": [chart.setting_text(box) for box in boxes],
            "fill": [_GREY if box.is_baseline else _DOT for box in boxes],
            "n": [one.n_text for one in means],
            "mean": [one.mean for one in means],
            "low": [one.low for one in whiskers],
            "high": [one.high for one in whiskers],
            "interval": [f"{one.low:,.4g} to {one.high:,.4g}" if one.half is not None else "-" for one in means],
        }
    )
    panel.segment("at", "low", "at", "high", color="fill", line_width=1.5, source=source)
    for marker, key, which in (
        ("dash", "low", [one.half is not None and not w.is_cut_below for one, w in zip(means, whiskers, strict=True)]),
        ("dash", "high", [one.half is not None and not w.is_cut_above for one, w in zip(means, whiskers, strict=True)]),
        ("inverted_triangle", "low", [w.is_cut_below for w in whiskers]),
        ("triangle", "high", [w.is_cut_above for w in whiskers]),
    ):
        view = CDSView(filter=BooleanFilter(booleans=which))
        panel.scatter("at", key, marker=marker, size=10, color="fill", line_width=1.5, source=source, view=view)
    dots = panel.scatter("at", "mean", size=9, color="fill", source=source, name="means")
    tooltips = [("", "@setting"), ("mean", f"@mean{_NUMBER}"), (f"{LEVEL_TEXT} interval", "@interval"), ("n", "@n")]
    panel.add_tools(HoverTool(renderers=[dots], tooltips=tooltips))


def _paint_boxes(panel: figure, chart: Chart, _scale: Scale, boxes: Sequence[Box]) -> None:
    statistics = [box.statistics for box in boxes]
    positions = [_factor(chart, box.column, box.category) for box in boxes]
    columns: dict[str, list[Any]] = {
        "at": positions,
        "setting": [chart.setting_text(box) for box in boxes],
        "fill": [_BASELINE if box.is_baseline else _BOX for box in boxes],
        "n": [one.n for one in statistics],
        "mean": [one.mean for one in statistics],
    }
    for key, p in (("low", 5), ("q1", 25), ("q2", 50), ("q3", 75), ("high", 95)):
        columns[key] = [one.percentiles[p] for one in statistics]
    source = ColumnDataSource(columns)
    panel.segment("at", "low", "at", "high", color="black", source=source)
    bars = panel.vbar("at", 0.7, "q3", "q1", fill_color="fill", line_color="black", source=source, name="boxes")
    panel.vbar("at", 0.7, "q2", "q2", line_color="black", line_width=2, source=source)
    dots = ColumnDataSource(
        {
            "at": [
                _dodged(place, dodge(k))
                for place, box in zip(positions, boxes, strict=True)
                for k in range(len(box.dots))
            ],
            "value": [dot.value for box in boxes for dot in box.dots],
            "name": [dot.name for box in boxes for dot in box.dots],
            "setting": [chart.setting_text(box) for box in boxes for _ in box.dots],
        }
    )
    points = panel.scatter("at", "value", size=6, color=_DOT, alpha=0.6, line_color=None, source=dots, name="dots")
    panel.scatter("at", "mean", size=8, color=_MEAN, marker="diamond", source=source)
    of_boxes = [("", "@setting"), ("values" if chart.each else "runs", "@n"), ("median", f"@q2{_NUMBER}")]
    of_boxes += [("quartiles", f"@q1{_NUMBER} to @q3{_NUMBER}"), ("mean", f"@mean{_NUMBER}")]
    panel.add_tools(HoverTool(renderers=[bars], tooltips=of_boxes))
    of_dots = [("", "@name"), ("", "@setting"), ("value", f"@value{_NUMBER}")]
    panel.add_tools(HoverTool(renderers=[points], tooltips=of_dots))


def _factor(chart: Chart, column: str, category: str) -> Any:
    return (f"{chart.column_title} {column}", category) if chart.column_title else category


def _dodged(factor: Any, by: float) -> Any:
    return (*factor, by) if isinstance(factor, tuple) else (factor, by)


def _label_angle(chart: Chart, slot: float) -> tuple[float, int]:
    """Return the angle at which labels do not overlap, and the height that they need in addition to one line."""
    longest = _LETTER * max(map(len, chart.categories))
    if longest < 0.9 * slot:
        return 0.0, 15 if chart.column_title else 0
    angle = math.pi / 4 if slot > 22 else math.pi / 2
    return angle, round(longest * math.sin(angle)) + (15 if chart.column_title else 0)
