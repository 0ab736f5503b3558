"""Draw single charts for papers with matplotlib, as SVG, PDF or PNG (by the ending of the file name)."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pybatsched.errors import InputError, quantity, setting
from pybatsched.metrics.distributions import Distribution, distribution
from pybatsched.metrics.figure_names import title_of
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.metrics.series import Steps
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.report import chart_style, durations
from pybatsched.report.chart_style import COLORS, plain
from pybatsched.report.gantt import bars as gantt
from pybatsched.report.gantt.cluster_rows import Rows, blocked_hosts, rows_of
from pybatsched.report.scales import LOG_FROM, ScaleOption, axis_for, log_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How the jobs of a Gantt chart are coloured: each job has a colour, or the colour shows its wait.
ColorOption = Literal["auto", "job", "wait"]

_MAX_STEPS: Final = 4_000
_MAX_SPANS: Final = 400  # with more steps, means over spans are drawn
_HEADROOM: Final = 1.2  # end of a logarithmic axis of values, over the largest value
_MAX_LINES: Final = 3  # of queues in one chart; more runs have a panel each
_MANY_BARS: Final = 2_000
_MAX_COLORED_JOBS: Final = 300  # with more jobs, single jobs cannot be distinguished by colours
#: The looks of hosts that are reserved or down.
_BLOCKED: Final = {
    gantt.RESERVED: {"facecolor": "#e4e4e4", "edgecolor": "#9a9a9a", "hatch": "///", "linewidth": 0.5},
    gantt.DOWN: {"facecolor": "#5a5a5a", "linewidth": 0},
}
_FIXED_SCALE: Final = ("gantt", "utilisation")  # charts whose axis of values is always linear
_OF_JOBS: Final = ("cdf", "boxes")  # charts of a measure of jobs
_THOUSANDS: Final = "{x:,.10g}"
#: Colours of waits, and the part of the map that is used: its lightest colours look like idle processors.
_WAITS, _WAITS_PART = "viridis_r", (0.1, 1.0)
_LINEAR_WAIT_S: Final = 60.0  # shorter waits are almost the same colour
BOX, _MEAN = "#a6cee3", "#d7301f"


class PlotSummary(NamedTuple):
    """A short description of a chart, and whether its axis of values is logarithmic."""

    what: str
    is_log: bool = False


class PlotOptions(NamedTuple):
    """The options of a chart. `begin_s` and `end_s` limit the axis of time, or jobs by their submission."""

    measure: str = "bounded_slowdown"
    tau_s: float = DEFAULT_TAU_S
    scale: ScaleOption = "auto"
    width: float = chart_style.TEXT_IN
    begin_s: float | None = None
    end_s: float | None = None
    color: ColorOption = "auto"

    def has(self, at: float) -> bool:
        """Return whether an instant is in the span of time."""
        return (self.begin_s is None or at >= self.begin_s) and (self.end_s is None or at < self.end_s)

    @property
    def span_text(self) -> str:
        """The span of time as text; empty if there are no limits."""
        limits = (("from", self.begin_s), ("to", self.end_s))
        return " ".join(f"{word} {durations.duration_text(at)}" for word, at in limits if at is not None)


def chart_of(kind: str, runs: Sequence[SavedRun], options: PlotOptions | None = None) -> Figure:
    """Return a chart of runs: gantt, utilisation, queue, cdf or boxes. Raises InputError."""
    return _drawn(kind, runs, options or PlotOptions())[0]


def draw(kind: str, runs: Sequence[SavedRun], path: str | Path, options: PlotOptions) -> str:
    """Draw one chart of runs into a file, and return a short description. Raises InputError."""
    chart_style.check_path(path)
    figure, summary = _drawn(kind, runs, options)
    chart_style.write(figure, path)
    of_runs = runs[0].label if len(runs) == 1 else f"{len(runs)} runs"
    n_jobs = sum(kind not in _OF_JOBS or options.has(record.submitted_at) for run in runs for record in run.records)
    span = f", {options.span_text}" if options.span_text else ""
    on_axis = ", on a logarithmic axis" if summary.is_log else ""
    return f"{summary.what} of {of_runs}, {quantity(n_jobs, 'job')}{span}{on_axis}"


def _drawn(kind: str, runs: Sequence[SavedRun], options: PlotOptions) -> tuple[Figure, PlotSummary]:
    """Return a chart and its description."""
    if kind not in KINDS:
        raise InputError(f"chart {kind!r:.40}: expected one of {', '.join(KINDS)}")
    if kind == "gantt" and len(runs) != 1:
        raise InputError(f"gantt: expected one run, found {len(runs)}")
    if options.scale != "auto" and kind in _FIXED_SCALE:
        kinds = ", ".join(name for name in KINDS if name not in _FIXED_SCALE)
        raise InputError(f"{setting('scale')}: expected one of the charts {kinds}")
    if options.color != "auto" and kind != "gantt":
        raise InputError(f"{setting('color')}: works only with the chart gantt, not with {kind}")
    with chart_style.style(options.width):
        figure = chart_style.new_figure(options.width, _height(kind, len(runs), options.width))
        summary = KINDS[kind](figure, runs, options)
        notices = [plain(f"{run.label}: {run.run_state.notice}") for run in runs if run.run_state.notice]
        if notices:
            size = chart_style.font_size(figure)
            lines = [chart_style.wrapped(notice, options.width - 0.2, size) for notice in notices]
            figure.suptitle("\n".join(lines), color="#b00020", fontsize=size)
    return figure, summary


def _height(kind: str, n_runs: int, width: float) -> float:
    """Return the height of a chart in inches, without its legend."""
    is_narrow = width < chart_style.TEXT_IN / 1.5
    if kind == "utilisation" or (kind == "queue" and n_runs > _MAX_LINES):
        return 0.7 + 0.85 * n_runs if is_narrow else 1.0 + 1.3 * n_runs
    if kind == "gantt":
        return 2.8 if is_narrow else 4.2
    return 2.3 if is_narrow else 3.2


def _draw_gantt(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    (run,) = runs
    axes = figure.add_subplot()
    collections: Any = importlib.import_module("matplotlib.collections")
    patches: Any = importlib.import_module("matplotlib.patches")
    rows = rows_of(run)
    ran = [record for record in run.records if record.ran]
    begin, end = _span_of(runs, options)
    bars = [bar for bar in gantt.bars_of(ran, rows) if bar.end >= begin and bar.begin <= end]
    n_shown = len({bar.job for bar in bars})
    is_by_wait = options.color == "wait" or (options.color == "auto" and n_shown > _MAX_COLORED_JOBS)
    color_of_job = (
        _colors_by_wait(figure, axes, run.jobs.ran["wait_s"].to_list())
        if is_by_wait
        else _colors_by_job(run.records, ran)
    )
    corners: dict[int, list[Any]] = {}
    colors: dict[int, list[Any]] = {}
    for bar in bars:
        for low, high in bar.procs if rows is None else rows.placed(bar.procs):
            box = [(bar.begin, low), (bar.end, low), (bar.end, high), (bar.begin, high)]
            corners.setdefault(bar.look, []).append(box)
            colors.setdefault(bar.look, []).append(color_of_job[bar.job])
    # White edges, white stripes or antialiasing would hide thousands of narrow bars.
    no_edges = {"linewidth": 0, "antialiased": False}
    crowded: dict[int, dict[str, Any]] = {}
    if len(bars) > _MANY_BARS:
        crowded = {gantt.PLAIN: no_edges, gantt.LOST: no_edges, gantt.LOAD: no_edges | {"edgecolor": "black"}}
    for look in sorted(corners):  # urgent jobs last, so that no other bar hides them
        style = _style(look, colors[look]) | crowded.get(look, {})
        axes.add_collection(collections.PolyCollection(corners[look], **style))
    handles = [
        (text, patches.Patch(**(_style(look, "#1f77b4") | crowded.get(look, {}))))
        for look, text in gantt.legend_of({bar.look for bar in bars}).items()
    ]
    for member, (look, text) in gantt.BLOCKED.items():
        boxes = [
            [(one.begin, low), (one.end, low), (one.end, high), (one.begin, high)]
            for one in blocked_hosts(run, member, rows)
            for low, high in one.procs
            if one.end >= begin and one.begin <= end
        ]
        if boxes:
            axes.add_collection(collections.PolyCollection(boxes, zorder=0, **_BLOCKED[look]))
            handles.append((text, patches.Patch(**_BLOCKED[look])))
    if handles:
        chart_style.add_legend(figure, handles, "lower left")
    axes.autoscale()
    axes.set_ylim(0, (run.n_procs or None) if rows is None else rows.n_rows)
    axes.yaxis.set_major_formatter(_THOUSANDS)
    if options.begin_s is None:
        begin = min((bar.begin for bar in bars), default=begin)
    if options.end_s is None:
        end = max((bar.end for bar in bars), default=end)
    _time_axis(axes, begin, end, is_exact=options.begin_s is not None)
    axes.set_ylabel("processor")
    chart_style.add_title(axes, run.label)
    if rows is not None:
        _draw_bands(axes, rows)
    return PlotSummary("gantt")


def _colors_by_job(records: Sequence[JobRecord], ran: Sequence[JobRecord]) -> list[Any]:
    """Return the colours of jobs as on the page, without greys."""
    matplotlib: Any = importlib.import_module("matplotlib")
    palette = [color for number, color in enumerate(matplotlib.color_sequences["tab20"]) if number not in {14, 15}]
    by_submission = sorted(records, key=lambda record: (record.submitted_at, record.id))
    numbers = {record.id: gantt.color_of(number, len(palette)) for number, record in enumerate(by_submission)}
    return [palette[numbers[record.id]] for record in ran]


def _colors_by_wait(figure: Any, axes: Any, waits: Sequence[float]) -> list[Any]:
    """Return the colours of jobs by wait, on a logarithmic scale above a minute, and add a colour bar."""
    matplotlib: Any = importlib.import_module("matplotlib")
    maps: Any = importlib.import_module("matplotlib.colors")
    mappables: Any = importlib.import_module("matplotlib.cm")
    longest = max([*waits, 1.0])
    if longest > _LINEAR_WAIT_S:
        norm = maps.SymLogNorm(_LINEAR_WAIT_S, linscale=0.5, vmin=0.0, vmax=longest, base=10)
        marks, title = [(0.0, "0"), *durations.marks(_LINEAR_WAIT_S, longest)], "wait"
    else:
        norm = maps.Normalize(0.0, longest)
        marks, unit = durations.labelled(0.0, longest, 5)
        title = f"wait ({unit})"
    whole = matplotlib.colormaps[_WAITS]
    low, high = _WAITS_PART
    colors = maps.ListedColormap([whole(low + (high - low) * k / 255) for k in range(256)])
    mappable = mappables.ScalarMappable(norm, colors)
    bar = figure.colorbar(mappable, ax=axes, aspect=30, pad=0.02, fraction=0.05)
    bar.set_ticks([at for at, _ in marks], labels=[text for _, text in marks])
    bar.ax.minorticks_off()
    bar.outline.set_linewidth(0.5)
    bar.set_label(title)
    return list(mappable.to_rgba(waits))


def _draw_bands(axes: Any, rows: Rows) -> None:
    """Tint every other cluster, draw lines between them and write their names on the right."""
    for number, band in enumerate(rows.bands):
        if number % 2:
            axes.axhspan(band.low, band.high, facecolor="#eef3fa", zorder=0)
        if band.low:
            axes.axhline(band.low, color="#444444", linewidth=0.6)
        style = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
        axes.text(1.01, (band.low + band.high) / 2, plain(band.name), **style)
    if not rows.is_plain:
        axes.set_ylabel("processors of each cluster")


def _style(look: int, color: Any) -> dict[str, Any]:
    """Return the style of bars of a look, as on the page. `color` is one colour, or one per bar."""
    colors: Any = importlib.import_module("matplotlib.colors")
    kind = look & ~gantt.URGENT
    if kind == gantt.HELD:
        return {"facecolor": "none", "edgecolor": "#505050", "linewidth": 0.5, "linestyle": (0, (3, 1.5))}
    style = {"facecolor": color, "edgecolor": "white", "linewidth": 0.2}
    if kind == gantt.LOST:
        style["facecolor"] = "#b0b0b0"
    elif kind == gantt.LOAD:
        style["hatch"] = "\\\\\\\\\\\\"
    elif kind == gantt.SUSPENDED:
        pale = 1 - 0.4 * (1 - colors.to_rgba_array(color)[:, :3])
        style |= {"facecolor": pale if len(pale) > 1 else pale[0], "edgecolor": color, "hatch": "/////"}
    return style | ({"edgecolor": "black", "linewidth": 1.0} if look & gantt.URGENT else {})


def _time_axis(axes: Any, begin: float, end: float, *, is_exact: bool = False) -> None:
    """Set up an axis of time in days to seconds; it starts at 0 if `begin` is close to 0 and not `is_exact`."""
    begin = 0.0 if 0 < begin < 0.1 * end and not is_exact else begin
    marks, unit = durations.labelled(begin, end, chart_style.n_ticks(axes.figure))
    axes.set_xlim(begin, end)
    axes.set_xticks([at for at, _ in marks], [text for _, text in marks])
    axes.set_xlabel(f"time ({unit})")


def _draw_utilisation(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    """Draw a panel for each run, one below the other: lines of several runs in one panel would hide each other."""
    begin, end = _span_of(runs, options)
    found = [_part(run.usage, begin, end) for run in runs]
    span_s = durations.span_for(end - begin, _MAX_SPANS)
    is_binned = any(len(steps.times) > _MAX_SPANS for steps in found)
    panels = figure.subplots(len(runs), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    for number, (panel, run, steps) in enumerate(zip(panels, runs, found, strict=True)):
        edges, values = [*steps.times, end], [*steps.values]
        if is_binned:
            first = math.floor(begin / span_s)
            edges = [span_s * k for k in range(first, math.ceil(end / span_s) + 1)]
            values = run.usage.binned(edges)
        panel.stairs(values, edges, fill=True, color=COLORS[number % len(COLORS)], alpha=0.85)
        chart_style.add_title(panel, run.label)
        if run.n_procs:
            panel.axhline(run.n_procs, color="#666666", linewidth=0.7, linestyle=(0, (4, 3)))
    tops = [run.n_procs or steps.maximum for run, steps in zip(runs, found, strict=True)]
    panels[0].set_ylim(0, 1.06 * max(*tops, 1))
    panels[0].yaxis.set_major_formatter(_THOUSANDS)
    _time_axis(panels[-1], begin, end, is_exact=options.begin_s is not None)
    for panel in panels[:-1]:
        panel.set_xlabel("")
    if len(runs) == 1:
        panels[0].set_ylabel("processors in use")
    else:
        figure.supylabel("processors in use", fontsize=chart_style.font_size(figure))
    if is_binned:
        panels[-1].set_xlabel(f"{panels[-1].get_xlabel()}; means of each {durations.duration_text(span_s)}")
    return PlotSummary("processors in use over time")


def _draw_queue(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    """Draw lines in one chart, or a panel for each of many runs; logarithmic if a line is near 0 most of the time."""
    are_panels = len(runs) > _MAX_LINES
    panels = figure.subplots(len(runs) if are_panels else 1, 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    begin, end = _span_of(runs, options)
    found = [_part(run.queue_length, begin, end) for run in runs]
    for number, (run, steps) in enumerate(zip(runs, found, strict=True)):
        times, values = list(steps.times), list(steps.values)
        if len(times) > _MAX_STEPS:
            edges = [times[0] + (times[-1] - times[0]) * k / _MAX_STEPS for k in range(_MAX_STEPS + 1)]
            times, values = edges[:-1], steps.binned(edges)
        # No job waits before the first step and after the last one; the line shows this.
        is_cut = bool(values) and end < run.queue_length.times[-1]
        times, values = [begin, *times, end], [0.0, *values, values[-1] if is_cut else 0.0]
        if are_panels:
            panels[number].fill_between(times, values, step="post", color=COLORS[number % len(COLORS)], linewidth=0.4)
            chart_style.add_title(panels[number], run.label)
        else:
            how = chart_style.line(number)
            panels[0].step(times, values, where="post", label=plain(run.label), linewidth=0.9, **how)
    highest = max(steps.maximum for steps in found)
    flattest = min(run.queue_length.mean(begin, end) for run in runs)
    is_log = options.scale == "log" or (options.scale == "auto" and highest > LOG_FROM * max(flattest, 1.0))
    for panel in panels:
        kind = "symlog" if is_log else "linear"
        _value_axis(panel, "y", kind, (0.0, max(highest, 1.0)), "", is_low=are_panels)
    _time_axis(panels[-1], begin, end, is_exact=options.begin_s is not None)
    if are_panels:
        figure.supylabel("waiting jobs", fontsize=chart_style.font_size(figure))
    else:
        panels[0].set_ylabel("waiting jobs")
        _legend(figure, panels[0], runs)
    return PlotSummary("waiting jobs over time", is_log)


def _span_of(runs: Sequence[SavedRun], options: PlotOptions) -> tuple[float, float]:
    """Return the time that all charts of some runs show, within the limits of the options. Raises InputError."""
    begins = [record.submitted_at for run in runs for record in run.records]
    ends = [record.ended_at for run in runs for record in run.records if record.ran]
    for run in runs:
        if run.cut is not None:
            begins.append(run.span[0])
            ends.append(run.span[1])
    begin = min(begins, default=0.0)
    end = max(*ends, begin + 1e-6) if ends else begin + 1.0
    first = begin if options.begin_s is None else options.begin_s
    last = end if options.end_s is None else options.end_s
    if first >= end or last <= begin:
        found = f"{durations.duration_text(begin)} to {durations.duration_text(end)}"
        raise InputError(f"no job is shown {options.span_text}: the runs last from {found}; use another begin or end")
    return first, last


def _part(steps: Steps, begin: float, end: float) -> Steps:
    """Return the steps within a span of time. O(n)."""
    if not steps.times or (begin <= steps.times[0] and steps.times[-1] <= end):
        return steps
    kept = [(at, value) for at, value in zip(steps.times, steps.values, strict=True) if begin < at < end]
    pairs = [(begin, steps.at(begin)), *kept]
    return Steps(tuple(at for at, _ in pairs), tuple(value for _, value in pairs))


def _legend(figure: Any, axes: Any, runs: Sequence[SavedRun]) -> None:
    if len(runs) > 1:
        labels = [run.label for run in runs]
        chart_style.add_legend(figure, list(zip(labels, axes.get_lines(), strict=True)), "upper left")


def _value_axis(
    axes: Any, which: str, kind: str, ends: tuple[float, float], measure: str, *, is_low: bool = False
) -> None:
    """Set up an axis of values with round ticks: only powers of ten on a logarithmic axis that `is_low`."""
    low, high = ends
    axis, name = getattr(axes, f"{which}axis"), title_of(measure)
    is_time = measure.endswith("_s")
    if kind != "linear":
        getattr(axes, f"set_{which}scale")(kind, **({"linthresh": 1.0, "linscale": 0.5} if kind == "symlog" else {}))
        least = 1.0 if kind == "symlog" else low
        marks = (
            durations.marks(least, _HEADROOM * high)
            if is_time
            else [(at, f"{at:,.10g}") for at in log_ticks(least, high, only_powers=is_low)]
        )
        marks = [(0.0, "0"), *marks] if kind == "symlog" else marks
        axis.set_ticks([at for at, _ in marks], [text for _, text in marks])
        axis.set_ticks([], minor=True)
        getattr(axes, f"set_{which}lim")(low / 1.2 if kind == "log" else -0.1, high * _HEADROOM)
        getattr(axes, f"set_{which}label")(name.removesuffix(" (s)"))
        return
    getattr(axes, f"set_{which}label")(name)
    axis.set_major_formatter(_THOUSANDS)
    if 0 <= low <= high / 4 and which == "y":
        axes.set_ylim(bottom=0)
    if is_time and low >= 0 and high > 0:
        marks, unit = durations.labelled(0.0, high, chart_style.n_ticks(axes.figure))
        axis.set_ticks([at for at, _ in marks], [text for _, text in marks])
        getattr(axes, f"set_{which}label")(f"{name.removesuffix(' (s)')} ({unit})")


def _values(run: SavedRun, options: PlotOptions) -> list[float]:
    jobs = run.evaluated.submitted_in(options.begin_s, options.end_s)
    found = sorted(jobs.values(options.measure, options.tau_s))
    if not found:
        which = f" submitted {options.span_text}" if options.span_text else ""
        raise InputError(f"{run.prefix}: expected at least one job{which} with {options.measure}, found none")
    return found


def _draw_cdf(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    axes = figure.add_subplot()
    found = [_values(run, options) for run in runs]
    low, high = min(values[0] for values in found), max(values[-1] for values in found)
    kind = axis_for(low, high, options.scale)
    for number, (run, values) in enumerate(zip(runs, found, strict=True)):
        stride = max(len(values) // _MAX_STEPS, 1)
        kept = sorted({*range(0, len(values), stride), len(values) - 1})
        shares = [(k + 1) / len(values) for k in kept]
        at = [values[k] for k in kept]
        # From 0 up to the first value, and from the last one to the end of the axis.
        axes.step(
            [at[0], *at, high], [0.0, *shares, 1.0], where="post", label=plain(run.label), **chart_style.line(number)
        )
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of jobs")
    axes.grid(color="#e4e4e4", linewidth=0.6)
    _value_axis(axes, "x", kind, (low, high), options.measure)
    _legend(figure, axes, runs)
    return PlotSummary(f"cdf of {title_of(options.measure)}", kind != "linear")


def _draw_boxes(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    axes = figure.add_subplot()
    found = [distribution(_values(run, options)) for run in runs]
    statistics = [one for one in found if one is not None]
    low = min(one.percentiles[5] for one in statistics)
    high = max(max(one.percentiles[95], one.mean) for one in statistics)
    kind = axis_for(low, high, options.scale)
    draw_boxes(axes, statistics, range(len(statistics)), [BOX] * len(statistics))
    half = max(len(statistics), 4) / 2
    axes.set_xlim((len(statistics) - 1) / 2 - half, (len(statistics) - 1) / 2 + half)
    _name_boxes(figure, axes, [run.label for run in runs], [one.n for one in statistics])
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    _value_axis(axes, "y", kind, (low, high), options.measure)
    return PlotSummary(f"boxes of {title_of(options.measure)}", kind != "linear")


def _name_boxes(figure: Any, axes: Any, labels: Sequence[str], ns: Sequence[int]) -> None:
    """Write labels and numbers of jobs below boxes; if labels are too long for that, turn them, with numbers above."""
    size = chart_style.font_size(figure)
    slot = (figure.get_figwidth() - 0.8) / max(len(labels), 4)
    names = [plain(label) for label in labels]
    words = [word for name in names for word in (*chart_style.words_of(name), f"n = {max(ns):,}")]
    if max(chart_style.text_width(word, size) for word in words) < slot - 0.06:
        below = [chart_style.label_lines(name, slot - 0.06, size) for name in names]
        axes.set_xticks(range(len(names)), [f"{name}\nn = {n:,}" for name, n in zip(below, ns, strict=True)])
        n_more = max(name.count("\n") for name in below)
        figure.set_size_inches(figure.get_figwidth(), figure.get_figheight() + n_more * size / 60)
        return
    room, degrees = (1.3, 60) if chart_style.is_narrow(figure) else (1.8, 45)
    lines = [chart_style.label_lines(name, room, size) for name in names]
    axes.set_xticks(range(len(names)), lines, rotation=degrees, ha="right", rotation_mode="anchor")
    tallest = max(chart_style.text_width(name, size) for name in lines) * math.sin(math.radians(degrees))
    figure.set_size_inches(figure.get_figwidth(), figure.get_figheight() + tallest)
    small = size - 1
    above = {"transform": axes.get_xaxis_transform(), "va": "bottom", "color": "#555555", "fontsize": small}
    if len(set(ns)) == 1:
        axes.text(len(ns) - 0.5, 1.01, f"n = {ns[0]:,} each", ha="right", **above)
        return
    texts = [f"n = {n:,}" for n in ns]
    if max(chart_style.text_width(text, small) for text in texts) > slot - 0.04:
        texts = [f"{n:,}" for n in ns]
        axes.text(-0.02, 1.01, "n", ha="right", **above | {"transform": axes.transAxes})
    for position, text in enumerate(texts):
        axes.text(position, 1.01, text, ha="center", **above)


def draw_boxes(axes: Any, statistics: Sequence[Distribution], positions: Sequence[int], colors: Sequence[str]) -> None:
    """Draw boxes: quartiles, whiskers at 5 and 95 per cent, the mean as a red diamond, as on the page."""
    if not statistics:
        return
    keys = {"whislo": 5, "q1": 25, "med": 50, "q3": 75, "whishi": 95}
    drawn = axes.bxp(
        [{key: one.percentiles[p] for key, p in keys.items()} | {"mean": one.mean, "fliers": []} for one in statistics],
        positions=positions,
        widths=0.65,
        showmeans=True,
        showfliers=False,
        patch_artist=True,
        medianprops={"color": "black", "linewidth": 1.3},
        meanprops={"marker": "D", "markersize": 3.5, "markerfacecolor": _MEAN, "markeredgecolor": "none"},
        boxprops={"linewidth": 0.7},
    )
    for patch, color in zip(drawn["boxes"], colors, strict=True):
        patch.set_facecolor(color)


#: Charts by name.
KINDS: Final[dict[str, Callable[[Any, Sequence[SavedRun], PlotOptions], PlotSummary]]] = {
    "gantt": _draw_gantt,
    "utilisation": _draw_utilisation,
    "queue": _draw_queue,
    "cdf": _draw_cdf,
    "boxes": _draw_boxes,
}
