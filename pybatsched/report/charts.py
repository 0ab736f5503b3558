"""The charts of the page of runs but the Gantt chart, by Bokeh: lines over time and distributions.

Names are data: they go into columns, which the page writes as text and never as HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, NumeralTickFormatter, Range1d
from bokeh.palettes import Category10
from bokeh.plotting import figure

from pybatsched.metrics.classes import title_of
from pybatsched.metrics.outcomes import DEFAULT_TAU_S
from pybatsched.report.sheet import Sheet
from pybatsched.report.stairs import Numbers, Stairs, at_least

WIDTH: Final = 1080
_TOOLS: Final = "xwheel_zoom,xpan,box_zoom,reset,save"
_MAX_POINTS: Final = 4_000


def over_time(runs: Sequence[Sheet], what: str) -> figure:
    """Draw the processors in use (as a share), or the length of the queue, of all runs over time. O(n log n)."""
    is_usage = what == "utilisation"
    is_share = all(run.n_procs for run in runs)
    plot = figure(
        width=WIDTH,
        height=240,
        tools=_TOOLS,
        active_scroll="xwheel_zoom",
        x_axis_label="time (s)",
        y_axis_label="waiting jobs" if not is_usage else f"processors in use{' (share)' if is_share else ''}",
        name=what,
    )
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    for number, run in enumerate(runs):
        times, values = _thinned(run.jobs.usage if is_usage else run.jobs.queue_length)
        if is_usage and is_share:
            values = values / run.n_procs
        source = ColumnDataSource({"time": times, "value": values})
        color = Category10[10][number % 10]
        line = plot.step("time", "value", mode="after", color=color, legend_label=run.label, source=source)
        plot.add_tools(HoverTool(renderers=[line], tooltips=[("time", "@time{0,0} s"), (what, "@value{0.[000]}")]))
    _tidy_legend(plot)
    return plot


def _thinned(steps: Stairs) -> tuple[Numbers, Numbers]:
    """Give the steps themselves, or means over equal spans of time where they are too many to draw."""
    if len(steps.times) <= _MAX_POINTS:
        return steps.times, steps.values
    begin, end = steps.times[0], steps.times[-1]
    edges = begin + (end - begin) * np.arange(_MAX_POINTS + 1) / _MAX_POINTS
    return edges[:-1], steps.binned(edges)


def cumulated(runs: Sequence[Sheet], measure: str, tau_s: float = DEFAULT_TAU_S) -> figure:
    """Draw the share of jobs up to each value of a measure, of all runs. O(n log n)."""
    plot = figure(
        width=WIDTH // 2,
        height=280,
        tools="pan,wheel_zoom,box_zoom,reset,save",
        x_axis_type="log",
        y_range=Range1d(start=0, end=1.02),
        x_axis_label=f"{title_of(measure)}, values below 1 drawn at 1",
        y_axis_label="share of jobs",
        name=f"cdf-{measure}",
    )
    for number, run in enumerate(runs):
        values = np.sort(at_least(1.0, run.evaluated.values(measure, tau_s)))
        stride = max(len(values) // _MAX_POINTS, 1)
        kept = np.array([*range(0, len(values), stride), len(values) - 1] if len(values) else [], np.int64)
        x, y = values[kept], (kept + 1) / max(len(values), 1)
        plot.step(x, y, mode="after", color=Category10[10][number % 10], legend_label=run.label)
    _tidy_legend(plot, "bottom_right")
    return plot


def _tidy_legend(plot: figure, location: Any = "top_right") -> None:
    if plot.legend:
        plot.legend.location = location
        plot.legend.click_policy = "hide"
        plot.legend.background_fill_alpha = 0.7
