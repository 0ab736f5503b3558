"""Draw the charts of the page of runs with Bokeh: a panel per run over time, and distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from bokeh import models
from bokeh.models.annotations import Legend, LegendItem
from bokeh.palettes import Category10
from bokeh.plotting import figure

from pybatsched.metrics.figure_names import title_of
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.metrics.series import Steps
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.report import durations

#: Width of charts in pixels.
WIDTH: Final = 1080
#: Width of the area between the axes, as in a Gantt chart, and of the margin to its left.
_FRAME_WIDTH: Final = 984
_LEFT: Final = 64
_MAX_POINTS: Final = 4_000
#: Maximum number of means over time.
_N_MEANS: Final = 150
_DASHES: Final = ("solid", "dashed", "dotted", "dotdash", "dashdot")
#: Names by which the script of the page (board.js) finds the shown time and the ticks.
TIME: Final = "time"
TICKS: Final = "ticks"
#: The script of the page formats times (clock.js).
_AS_TIME: Final = "return pybatschedClock.text(value)"

Quantity = Literal["utilisation", "queue"]


class TimeAxis(NamedTuple):
    """The time that all panels show, and its ticks. The script of the page finds both by name and sets them."""

    shown: models.Range1d
    ticks: models.FixedTicker


def time_axis(begin: float, end: float) -> TimeAxis:
    """Return the time axis of panels; the script of the page sets the same ticks as in Gantt charts."""
    last = max(end, begin + 1e-6)
    shown = models.Range1d(start=begin, end=last, bounds=(begin, last), name=TIME)
    return TimeAxis(shown, models.FixedTicker(ticks=[], name=TICKS))


class Resolution(NamedTuple):
    """The time resolution of all panels of a page: 0 is exact, else means over spans of that many seconds."""

    line_s: float = 0.0
    area_s: float = 0.0


def resolution_of(runs: Sequence[SavedRun]) -> Resolution:
    """Return one resolution for all panels: means for lines and areas with too many steps. O(runs)."""
    n_steps = max((len(steps.times) for run in runs for steps in (run.usage, run.queue_length)), default=0)
    spans = [run.span for run in runs]
    length_s = max((end for _, end in spans), default=0.0) - min((begin for begin, _ in spans), default=0.0)
    line_s = durations.span_for(length_s, _N_MEANS) if n_steps > 2 * _N_MEANS else 0.0
    return Resolution(line_s, length_s / _MAX_POINTS if n_steps > _MAX_POINTS else 0.0)


def over_time(
    runs: Sequence[SavedRun], what: Quantity, time: TimeAxis, resolution: Resolution, workload_keys: Sequence[str]
) -> list[figure]:
    """Draw the processors in use (as a share), or the queue's length, over time, per run. O(n log n)."""
    is_share = what == "utilisation" and all(run.n_procs for run in runs)
    series = [_steps(run, what, is_share=is_share) for run in runs]
    tops = dict.fromkeys(workload_keys, 0.0)
    for of_run, steps in zip(workload_keys, series, strict=True):
        tops[of_run] = max(tops[of_run], steps.maximum)
    panels = []
    for number, steps in enumerate(series):
        top = 1.0 if is_share else tops[workload_keys[number]]
        is_last = number + 1 == len(runs)
        panel = figure(
            frame_width=_FRAME_WIDTH,
            frame_height=150 if len(runs) == 1 else 84,
            min_border_left=_LEFT,
            min_border_right=32,
            tools=[models.PanTool(dimensions="width"), _wheel("width"), models.SaveTool()],
            toolbar_location="right",
            x_range=time.shown,
            y_range=models.Range1d(start=0, end=(top or 1.0) * 1.04),
            name=f"{what}-{number}",
        )
        panel.toolbar.autohide = True
        panel.xaxis.ticker = panel.xgrid.ticker = time.ticks
        panel.xaxis.formatter = models.CustomJSTickFormatter(code="return tick ? pybatschedClock.text(tick) : '0'")
        panel.xaxis.visible = is_last
        panel.yaxis.ticker = models.BasicTicker(desired_num_ticks=3 if len(runs) > 1 else 5)
        panel.yaxis.formatter = models.NumeralTickFormatter(format="0%" if is_share else "0,0")
        _draw(panel, steps, what, Category10[10][number % 10], resolution)
        panels.append(panel)
    return panels


def _steps(run: SavedRun, what: Quantity, *, is_share: bool) -> Steps:
    steps = run.usage if what == "utilisation" else run.queue_length
    return Steps(steps.times, tuple(value / run.n_procs for value in steps.values)) if is_share else steps


def _draw(panel: figure, steps: Steps, what: Quantity, color: str, resolution: Resolution) -> None:
    if not len(steps.times):  # Bokeh would never finish an area without points
        return
    exact = models.ColumnDataSource(
        _means(steps, resolution.area_s) if resolution.area_s else _columns(steps.times, steps.values)
    )
    panel.varea_step("time", 0, "value", step_mode="after", source=exact, color=color, alpha=0.3)
    if resolution.line_s:
        exact = models.ColumnDataSource(_means(steps, resolution.line_s))
    line = panel.step("time", "value", mode="after", source=exact, color=color, line_width=1.5)
    as_time = models.CustomJSHover(code=_AS_TIME)
    tooltips = [("from", "@time{custom}"), (what, "@value{0.[000]}")]
    panel.add_tools(models.HoverTool(renderers=[line], tooltips=tooltips, formatters={"@time": as_time}, mode="vline"))


def _columns(times: Sequence[float], values: Sequence[float]) -> dict[str, Any]:
    return {"time": np.array(times), "value": np.array(values)}


def _means(steps: Steps, span_s: float) -> dict[str, Any]:
    """Return the means over spans of time that start at multiples of their length, except the first and last."""
    begin, end = steps.times[0], steps.times[-1]
    inner = np.arange(np.floor(begin / span_s) + 1, np.ceil(end / span_s)) * span_s
    edges = [begin, *inner.tolist(), end]
    return _columns(edges, [*steps.binned(edges), steps.values[-1]])


def _wheel(dimensions: Literal["both", "width"]) -> models.WheelZoomTool:
    """Return the wheel tool. It zooms only with Ctrl; without it the wheel scrolls the page."""
    return models.WheelZoomTool(dimensions=dimensions, modifiers="ctrl")


def cumulative(runs: Sequence[SavedRun], measure: str, tau_s: float = DEFAULT_TAU_S) -> figure:
    """Draw the cumulative distribution of a measure for all runs, with a legend to the right. O(n log n)."""
    is_time = measure.endswith("_s")
    wheel = _wheel("both")
    exact = [np.array(run.evaluated.values(measure, tau_s)) for run in runs]
    is_below = any(float(values.min(initial=1.0)) < 1.0 for values in exact)
    below = f", values below 1{' s' if is_time else ''} drawn there" if is_below else ""
    columns = [np.sort(np.maximum(values, 1.0)) for values in exact]
    last = max((float(values[-1]) for values in columns if len(values)), default=1.0)
    chart = figure(
        frame_width=390,
        frame_height=270,
        tools=[models.PanTool(), wheel, "box_zoom", "reset", models.SaveTool()],
        active_scroll=wheel,
        x_axis_type="log",
        x_range=models.Range1d(start=0.8, end=max(1.25 * last, 10.0)),
        y_range=models.Range1d(start=0, end=1.02),
        x_axis_label=f"{title_of(measure.removesuffix('_s'))}{below}",
        y_axis_label="share of jobs",
        name=f"cdf-{measure}",
    )
    chart.toolbar.autohide = True
    chart.yaxis.formatter = models.NumeralTickFormatter(format="0%")
    if is_time:
        chart.xaxis.ticker = chart.xgrid.ticker = models.FixedTicker(ticks=[at for at, _ in durations.MARKS])
        chart.xaxis.major_label_overrides = dict(durations.MARKS)
    items: list[LegendItem] = []
    for number, (run, values) in enumerate(zip(runs, columns, strict=True)):
        stride = max(len(values) // _MAX_POINTS, 1)
        kept = np.array([*range(0, len(values), stride), len(values) - 1] if len(values) else [], np.int64)
        x, y = values[kept], (kept + 1) / max(len(values), 1)
        line: Any = chart.step(x, y, mode="after", **line_of(number), name=f"run{number}")
        items.append(LegendItem(label=run.label, renderers=[line]))
    if len(items) > 1:
        chart.add_layout(Legend(items=items, click_policy="hide", border_line_color=None, glyph_width=36), "right")
    return chart


def line_of(number: int) -> Mapping[str, Any]:
    """Return the style of the line of a run by its number: runs differ in colour and dashes; the first is solid."""
    dash = _DASHES[number % len(_DASHES)]
    return {"color": Category10[10][number % 10], "line_dash": dash, "line_width": 2}
