"""Draw single charts for papers and pages with matplotlib, as SVG, PDF or PNG (by the ending of the file name)."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from pybatsched.errors import InputError, quantity, setting
from pybatsched.metrics.distributions import Distribution
from pybatsched.metrics.figure_names import title_of
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.report import chart_style, durations
from pybatsched.report.chart_style import COLORS, GRID, plain
from pybatsched.report.gantt import bars as gantt
from pybatsched.report.gantt.chart import GanttTable, table_of
from pybatsched.report.gantt.cluster_rows import Rows
from pybatsched.report.gantt.colors import DISTINCT, colorings_of
from pybatsched.report.lines import (
    Boxes,
    ByOption,
    JobSelection,
    Lines,
    boxes_of,
    cdf_of,
    groups_of,
    over_time,
    resources_over_time,
    span_of,
    time_axis,
)
from pybatsched.report.scales import ScaleOption

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How the jobs of a Gantt chart are coloured: each job has a colour, or it shows the wait, the partition or the GPUs.
ColorOption = Literal["auto", "job", "wait", "partition", "gpus"]

_MAX_LINES: Final = 3  # of queues in one chart; more groups have a panel each
_MANY_BARS: Final = 2_000
_MAX_COLORED_JOBS: Final = 300  # with more jobs, single jobs cannot be distinguished by colours
#: The looks of hosts that are reserved or down.
_BLOCKED: Final = {
    gantt.RESERVED: {"facecolor": "#e4e4e4", "edgecolor": "#9a9a9a", "hatch": "///", "linewidth": 0.5},
    gantt.DOWN: {"facecolor": "#5a5a5a", "linewidth": 0},
}
#: Colours of waits, and the part of the map that is used: its lightest colours look like idle processors.
_WAITS, _WAITS_PART = "viridis_r", (0.1, 1.0)
_LINEAR_WAIT_S: Final = 60.0  # shorter waits are almost the same colour
_LEAST_BAND: Final = 4.0  # points: lower bands have no tint and no line
BOX, _MEAN = "#a6cee3", "#d7301f"


class PlotSummary(NamedTuple):
    """A short description of a chart, and whether its axis of values is logarithmic."""

    what: str
    is_log: bool = False


class PlotOptions(NamedTuple):
    """The options of a chart. `begin_s` and `end_s` limit the axis of time, or jobs by their submission.

    `by` says whether each run or each policy has a line, box or panel.
    """

    measure: str = "bounded_slowdown"
    tau_s: float = DEFAULT_TAU_S
    scale: ScaleOption = "auto"
    width: float = chart_style.TEXT_IN
    begin_s: float | None = None
    end_s: float | None = None
    color: ColorOption = "auto"
    by: ByOption = "auto"

    @property
    def jobs(self) -> JobSelection:
        """The values of jobs that charts show."""
        return JobSelection(self.measure, self.tau_s, self.begin_s, self.end_s)


def chart_of(kind: str, runs: Sequence[SavedRun], options: PlotOptions | None = None) -> Figure:
    """Return a chart of runs, one of `KINDS`. Raises InputError."""
    return _drawn(kind, runs, options or PlotOptions())[0]


def draw(kind: str, runs: Sequence[SavedRun], path: str | Path, options: PlotOptions) -> str:
    """Draw one chart of runs into a file, and return a short description. Raises InputError."""
    chart_style.check_path(path)
    figure, summary = _drawn(kind, runs, options)
    chart_style.write(figure, path)
    of_runs = runs[0].label if len(runs) == 1 else f"{len(runs)} runs"
    limits = (options.begin_s, options.end_s) if KINDS[kind].is_of_jobs else (None, None)
    n_jobs = sum(run.jobs.submitted_in(*limits).frame.height for run in runs)
    shown = durations.span_text(options.begin_s, options.end_s)
    on_axis = ", on a logarithmic axis" if summary.is_log else ""
    return f"{summary.what} of {of_runs}, {quantity(n_jobs, 'job')}{f', {shown}' if shown else ''}{on_axis}"


def _drawn(kind: str, runs: Sequence[SavedRun], options: PlotOptions) -> tuple[Figure, PlotSummary]:
    """Return a chart and its description."""
    if kind not in KINDS:
        raise InputError(f"chart {kind!r:.40}: expected one of {', '.join(KINDS)}")
    chosen = KINDS[kind]
    if chosen.is_of_one_run and len(runs) != 1:
        raise InputError(f"{kind}: expected one run, found {len(runs)}")
    if options.scale != "auto" and not chosen.has_scale:
        kinds = ", ".join(name for name, one in KINDS.items() if one.has_scale)
        raise InputError(f"{setting('scale')}: expected one of the charts {kinds}")
    if options.color != "auto" and kind != "gantt":
        raise InputError(f"{setting('color')}: works only with the chart gantt, not with {kind}")
    with chart_style.style(options.width):
        figure = chart_style.new_figure(options.width, 1.0)
        summary = chosen.draw(figure, runs, options)
        notices = [plain(f"{run.label}: {run.run_state.notice}") for run in runs if run.run_state.notice]
        if notices:
            size = chart_style.font_size(figure)
            lines = [chart_style.wrapped(notice, options.width - 0.2, size) for notice in notices]
            figure.suptitle("\n".join(lines), color="#b00020", fontsize=size)
    return figure, summary


def _is_narrow(figure: Any) -> bool:
    return bool(figure.get_figwidth() < chart_style.TEXT_IN / 1.5)


def _draw_gantt(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    (run,) = runs
    figure.set_figheight(2.8 if _is_narrow(figure) else 4.2)
    axes = figure.add_subplot()
    collections: Any = importlib.import_module("matplotlib.collections")
    patches: Any = importlib.import_module("matplotlib.patches")
    table = table_of(run)
    begin, end = span_of(runs, options.begin_s, options.end_s)
    found = table.rectangles
    shown = (found.right >= begin) & (found.left <= end)
    left, right, low, high, job, look = (column[shown] for column in found[:6])
    n_shown = len(np.unique(job))
    is_by_wait = options.color == "wait" or (options.color == "auto" and n_shown > _MAX_COLORED_JOBS)
    classes: list[tuple[str, Any]] = []
    if options.color in {"partition", "gpus"}:
        color_of_job, classes = _colors_by_class(run, options.color, {*job.tolist()})
    elif is_by_wait:
        color_of_job = _colors_by_wait(figure, axes, run.jobs.ran["wait_s"].to_list())
    else:
        color_of_job = _colors_by_job(table)
    # White edges, white stripes or antialiasing would hide thousands of narrow bars.
    no_edges = {"linewidth": 0, "antialiased": False}
    crowded: dict[int, dict[str, Any]] = {}
    if len(left) > _MANY_BARS:
        crowded = {gantt.PLAIN: no_edges, gantt.LOST: no_edges, gantt.LOAD: no_edges | {"edgecolor": "black"}}
    for kind in sorted({*look.tolist()}):  # urgent jobs last, so that no other bar hides them
        of = look == kind
        style = _style(kind, [color_of_job[k] for k in job[of]]) | crowded.get(kind, {})
        axes.add_collection(collections.PolyCollection(_corners(left[of], right[of], low[of], high[of]), **style))
    handles = [(text, patches.Patch(facecolor=color)) for text, color in classes]
    handles += [
        (text, patches.Patch(**(_style(kind, "#1f77b4") | crowded.get(kind, {}))))
        for kind, text in gantt.legend_of({*look.tolist()}).items()
    ]
    for kind, boxes in table.blocked.items():
        inside = np.array([box for box in boxes if box[1] >= begin and box[0] <= end]).reshape(-1, 4)
        if len(inside):
            axes.add_collection(collections.PolyCollection(_corners(*inside.T), zorder=0, **_BLOCKED[kind]))
            handles.append((dict(table.legend)[kind], patches.Patch(**_BLOCKED[kind])))
    if handles:
        chart_style.add_legend(figure, handles, "lower left")
    if options.begin_s is None:
        begin = float(left.min(initial=np.inf)) if len(left) else begin
    if options.end_s is None:
        end = float(right.max(initial=-np.inf)) if len(left) else end
    chart_style.set_axis(axes, "x", time_axis(begin, end, is_exact=options.begin_s is not None))
    axes.set_ylim(0, table.n_rows or None)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.set_ylabel("processor")
    chart_style.add_title(axes, run.label)
    if table.rows is not None:
        _draw_bands(axes, table.rows)
    return PlotSummary("gantt")


def _corners(left: Any, right: Any, low: Any, high: Any) -> Any:
    """Return the corners of rectangles."""
    return np.stack([np.stack(at, -1) for at in ((left, low), (right, low), (right, high), (left, high))], 1)


def _colors_by_job(table: GanttTable) -> list[Any]:
    """Return the colours of jobs as on the page."""
    return [DISTINCT[gantt.color_of(hue, len(DISTINCT))] for hue in table.hues.tolist()]


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


def _colors_by_class(run: SavedRun, name: str, shown: set[int]) -> tuple[list[Any], list[tuple[str, Any]]]:
    """Return the colours of jobs by class as on the page, and the texts and colours of the classes that are shown."""
    found = next((one for one in colorings_of([run]) if one.name == name), None)
    if found is None:
        what = {"partition": "several partitions", "gpus": "different numbers of GPUs"}[name]
        raise InputError(f"{setting('color', name)}: expected jobs of {what}")
    classes = found.classes[0].tolist()
    used = sorted({classes[job] for job in shown})
    return [found.colors[one] for one in classes], [(found.words[one], found.colors[one]) for one in used]


def _draw_bands(axes: Any, rows: Rows) -> None:
    """Tint every other cluster or node, draw lines between them and write their names on the right, where they fit."""
    height = axes.get_figure().get_figheight() * 0.75 * 72  # of the axes in points, about
    top = -math.inf
    for number, band in enumerate(rows.bands):
        tall = (band.high - band.low) / rows.n_rows * height
        if number % 2 and tall > _LEAST_BAND:
            axes.axhspan(band.low, band.high, facecolor="#eef3fa", zorder=0)
        if band.low and tall > _LEAST_BAND:
            axes.axhline(band.low, color="#444444", linewidth=0.6 if rows.what == "cluster" else 0.3)
        middle = (band.low + band.high) / 2
        if rows.what == "cluster" or middle / rows.n_rows * height >= top:
            top = middle / rows.n_rows * height + 14
            style = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
            axes.text(1.01, middle, plain(band.name), **style)
    if not rows.is_plain:
        axes.set_ylabel(f"processors of each {rows.what}")
    elif rows.what == "node":
        axes.set_ylabel("processor; nodes on the right")


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


def _draw_over_time(figure: Any, runs: Sequence[SavedRun], options: PlotOptions, what: Any) -> Lines:
    """Draw a panel for each line, one below the other; a few queues are in one chart, where they do not hide others."""
    begin, end = span_of(runs, options.begin_s, options.end_s)
    time = time_axis(begin, end, is_exact=options.begin_s is not None)
    table = over_time(groups_of(runs, options.by), what, time, (begin, end), scale=options.scale)
    n = len(table.lines)
    are_panels = what == "utilisation" or n > _MAX_LINES
    is_narrow = _is_narrow(figure)
    base, each = (0.7, 0.85) if is_narrow else (1.0, 1.3)
    figure.set_figheight(base + each * n if are_panels else 2.3 if is_narrow else 3.2)
    if not are_panels:
        draw_lines(figure, table)
        return table
    panels = figure.subplots(n, 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    for number, (panel, line, limit) in enumerate(zip(panels, table.lines, table.limits, strict=True)):
        panel.stairs(line.y, line.x, fill=True, color=COLORS[number % len(COLORS)], alpha=0.85)
        chart_style.add_title(panel, line.label)
        if limit:
            panel.axhline(limit, color="#666666", linewidth=0.7, linestyle=(0, (4, 3)))
    chart_style.set_axis(panels[0], "y", table.y, only_powers=True)
    chart_style.set_axis(panels[-1], "x", table.x)
    if n > 1:
        panels[0].set_ylabel("")
        figure.supylabel(table.y.title, fontsize=chart_style.font_size(figure))
    return table


def _draw_utilisation(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    _draw_over_time(figure, runs, options, "utilisation")
    return PlotSummary("processors in use over time")


def _draw_resources(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    begin, end = span_of(runs, options.begin_s, options.end_s)
    time = time_axis(begin, end, is_exact=options.begin_s is not None)
    table = resources_over_time(runs[0], time, (begin, end))
    figure.set_figheight(2.3 if _is_narrow(figure) else 3.2)
    draw_lines(figure, table)
    return PlotSummary("shares of processors, memory and GPUs in use over time")


def _draw_queue(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    return PlotSummary("waiting jobs over time", _draw_over_time(figure, runs, options, "queue").y.is_log)


def draw_lines(figure: Any, table: Lines) -> None:
    """Draw all lines of a table in one chart, with a legend if there are several."""
    axes = figure.add_subplot()
    for number, line in enumerate(table.lines):
        y = line.y if len(line.y) == len(line.x) else [*line.y, line.y[-1]]
        look = chart_style.line(number)
        axes.step(line.x, y, where="post", label=plain(line.label), linewidth=1.2, **look)
    chart_style.set_axis(axes, "x", table.x)
    chart_style.set_axis(axes, "y", table.y)
    axes.grid(color=GRID, linewidth=0.6)
    if len(table.lines) > 1:
        handles = [(line.label, drawn) for line, drawn in zip(table.lines, axes.get_lines(), strict=True)]
        chart_style.add_legend(figure, handles, "upper left")


def _draw_cdf(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    figure.set_figheight(2.3 if _is_narrow(figure) else 3.2)
    table = cdf_of(groups_of(runs, options.by), options.jobs, options.scale)
    draw_lines(figure, table)
    return PlotSummary(f"cdf of {title_of(options.measure)}", table.x.is_log)


def _draw_boxes(figure: Any, runs: Sequence[SavedRun], options: PlotOptions) -> PlotSummary:
    table: Boxes = boxes_of(groups_of(runs, options.by), options.jobs, options.scale)
    slot = (figure.get_figwidth() - 0.9) / max(len(table.labels), 4)
    below = chart_style.category_height(table.labels, slot)
    figure.set_figheight((2.3 if _is_narrow(figure) else 3.2) + below)
    axes = figure.add_subplot()
    draw_boxes(axes, table.boxes, range(len(table.boxes)), [BOX] * len(table.boxes))
    chart_style.set_axis(axes, "y", table.y)
    chart_style.set_categories(axes, table.labels, slot, [(k, one.n) for k, one in enumerate(table.boxes)])
    return PlotSummary(f"boxes of {title_of(options.measure)}", table.y.is_log)


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


class ChartKind(NamedTuple):
    """A chart: what it shows, how it is drawn, and what it can show.

    `has_scale`: its axis of values may be logarithmic. `is_of_jobs`: it shows a measure of jobs.
    """

    about: str
    draw: Callable[[Any, Sequence[SavedRun], PlotOptions], PlotSummary]
    has_scale: bool = False
    is_of_jobs: bool = False
    is_of_one_run: bool = False


#: Charts by name.
KINDS: Final[dict[str, ChartKind]] = {
    "gantt": ChartKind("which job ran when and where, of one run", _draw_gantt, is_of_one_run=True),
    "utilisation": ChartKind("processors in use over time, a panel for each run or policy", _draw_utilisation),
    "resources": ChartKind(
        "shares of processors, memory and GPUs in use over time, of one run on nodes",
        _draw_resources,
        is_of_one_run=True,
    ),
    "queue": ChartKind("waiting jobs over time", _draw_queue, has_scale=True),
    "cdf": ChartKind("share of jobs up to each value of a measure", _draw_cdf, has_scale=True, is_of_jobs=True),
    "boxes": ChartKind(
        "quartiles of a measure, whiskers at 5 and 95 per cent, means marked",
        _draw_boxes,
        has_scale=True,
        is_of_jobs=True,
    ),
}
