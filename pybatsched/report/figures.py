"""Draw single figures for papers with matplotlib, as SVG, PDF or PNG (by the ending of the file name)."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError, printable, quantity
from pybatsched.metrics.distributions import Distribution, distribution
from pybatsched.metrics.figure_names import title_of
from pybatsched.metrics.outcomes import DEFAULT_TAU_S
from pybatsched.metrics.runs import Run
from pybatsched.report import durations
from pybatsched.report.gantt.bars import HELD, LOAD, LOST, PLAIN, SUSPENDED, URGENT, bars_of, color_of, legend_of
from pybatsched.report.gantt.cluster_rows import Rows, rows_of
from pybatsched.report.scales import LOG_FROM, ScaleOption, axis_for, log_ticks
from pybatsched.results.atomic_files import whole

_ENDINGS: Final = (".svg", ".pdf", ".png")
_MAX_STEPS: Final = 4_000
_MAX_SPANS: Final = 400  # with more steps, means over spans are drawn
_HEADROOM: Final = 1.2  # end of a logarithmic axis of values, over the largest value
_MANY_BARS: Final = 2_000
_FIXED_SCALE: Final = ("gantt", "utilisation")  # figures whose axis of values is always linear
_COLORS: Final = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#a6761d", "#e7298a")
_DASHES: Final = ("-", "--", "-.", ":")
_THOUSANDS: Final = "{x:,.10g}"
BOX, _MEAN = "#a6cee3", "#e31a1c"


class FigureSummary(NamedTuple):
    """A short description of a figure, and whether its axis of values is logarithmic."""

    what: str
    is_log: bool = False


class FigureOptions(NamedTuple):
    """The options of a figure: the measure of jobs, the bound of slowdowns, and the scale of the axis."""

    measure: str
    tau_s: float = DEFAULT_TAU_S
    scale: ScaleOption = "auto"


def draw(kind: str, runs: Sequence[Run], path: str | Path, options: FigureOptions) -> str:
    """Draw one figure of runs into a file, and return a short description.

    Raises InputError for data that cannot be drawn and files that cannot be written.
    """
    if kind == "gantt" and len(runs) != 1:
        raise InputError(f"gantt: expected one run, found {len(runs)}")
    if options.scale != "auto" and kind in _FIXED_SCALE:
        raise InputError(
            f"--scale: expected one of the figures {', '.join(name for name in KINDS if name not in _FIXED_SCALE)}"
        )
    height = {"gantt": 4.2, "utilisation": 1.0 + 1.3 * len(runs)}.get(kind, 3.4)
    with canvas(path, (7.2, height)) as figure:
        summary = KINDS[kind](figure, runs, options)
        notices = [plain(f"{run.label}: {run.run_state.notice}") for run in runs if run.run_state.notice]
        if notices:
            figure.suptitle("\n".join(notices), color="#b00020", fontsize=9)
    of_runs = runs[0].label if len(runs) == 1 else f"{len(runs)} runs"
    n_jobs = sum(len(run.records) for run in runs)
    return (
        f"{summary.what} of {of_runs}, {quantity(n_jobs, 'job')}{', on a logarithmic axis' if summary.is_log else ''}"
    )


@contextlib.contextmanager
def canvas(path: str | Path, size: tuple[float, float]) -> Iterator[Any]:
    """Yield a figure of the given size in inches, and write it atomically to a file at the end. Raises InputError.

    The same drawing gives the same file: it contains no date, and ids come from a fixed salt.
    """
    if not str(path).endswith(_ENDINGS):
        raise InputError(f"{path}: expected a file name that ends in {', '.join(_ENDINGS)}")
    log = logging.getLogger("matplotlib")
    if log.level == logging.NOTSET:
        log.setLevel(logging.ERROR)  # with a read-only home it would warn about its caches
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise InputError("figures need matplotlib; pip install 'pybatsched[plot]'") from None
    with matplotlib.rc_context(
        {
            "svg.hashsalt": "pybatsched",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "hatch.linewidth": 0.4,
        }
    ):
        figure = figures.Figure(figsize=size, layout="constrained")
        yield figure
        ending = Path(path).suffix[1:]
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
        content = io.BytesIO()  # a full disk would raise a different error for each format
        figure.savefig(content, format=ending, dpi=160, metadata=metadata)
        with whole(path) as temporary:
            temporary.write_bytes(content.getvalue())


def _draw_gantt(figure: Any, runs: Sequence[Run], _options: FigureOptions) -> FigureSummary:
    axes = figure.add_subplot()
    matplotlib: Any = importlib.import_module("matplotlib")
    collections: Any = importlib.import_module("matplotlib.collections")
    patches: Any = importlib.import_module("matplotlib.patches")
    # The colours of the page, without greys: a job has the same colour in both.
    palette = [color for number, color in enumerate(matplotlib.color_sequences["tab20"]) if number not in {14, 15}]
    rows = rows_of(runs[0])
    ran = [record for record in runs[0].records if record.ran]
    bars = bars_of(ran, rows)
    by_submission = sorted(runs[0].records, key=lambda record: (record.submitted_at, record.id))
    color_numbers = {record.id: color_of(number, len(palette)) for number, record in enumerate(by_submission)}
    corners: dict[int, list[Any]] = {}
    colors: dict[int, list[Any]] = {}
    for bar in bars:
        color = palette[color_numbers[ran[bar.job].id]]
        for low, high in bar.procs if rows is None else rows.placed(bar.procs):
            box = [(bar.begin, low), (bar.end, low), (bar.end, high), (bar.begin, high)]
            corners.setdefault(bar.look, []).append(box)
            colors.setdefault(bar.look, []).append(color)
    # White edges or antialiasing would hide thousands of narrow bars.
    crowded = {"linewidth": 0, "antialiased": False} if len(bars) > _MANY_BARS else {}
    for look in sorted(corners):  # urgent jobs last, so that no other bar hides them
        style = _style(look, colors[look]) | (crowded if look == PLAIN else {})
        axes.add_collection(collections.PolyCollection(corners[look], **style))
    handles = [patches.Patch(label=text, **_style(look, palette[0])) for look, text in legend_of(bars).items()]
    if handles:
        axes.figure.legend(handles=handles, loc="outside lower left", frameon=False, ncols=2)
    axes.autoscale()
    axes.set_ylim(0, (runs[0].n_procs or None) if rows is None else rows.n_rows)
    axes.yaxis.set_major_formatter(_THOUSANDS)
    _time_axis(axes, min((bar.begin for bar in bars), default=0.0), max((bar.end for bar in bars), default=1.0))
    axes.set_ylabel("processor")
    axes.set_title(plain(runs[0].label), loc="left", fontsize=9)
    if rows is not None:
        _draw_bands(axes, rows)
    return FigureSummary("gantt")


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
    kind = look & ~URGENT
    if kind == HELD:
        return {"facecolor": "none", "edgecolor": "#505050", "linewidth": 0.5, "linestyle": (0, (3, 1.5))}
    style = {"facecolor": color, "edgecolor": "white", "linewidth": 0.2}
    if kind == LOST:
        style["facecolor"] = "#b0b0b0"
    elif kind == LOAD:
        style["hatch"] = "\\\\\\\\\\\\"
    elif kind == SUSPENDED:
        pale = 1 - 0.4 * (1 - colors.to_rgba_array(color)[:, :3])
        style |= {"facecolor": pale if len(pale) > 1 else pale[0], "edgecolor": color, "hatch": "/////"}
    return style | ({"edgecolor": "black", "linewidth": 1.0} if look & URGENT else {})


def _time_axis(axes: Any, begin: float, end: float) -> None:
    """Set up a horizontal time axis in days, hours, minutes or seconds. It starts at 0 if the begin is close to 0."""
    begin = 0.0 if 0 < begin < 0.1 * end else begin
    marks, unit = durations.labelled(begin, end)
    axes.set_xlim(begin, end)
    axes.set_xticks([at for at, _ in marks], [text for _, text in marks])
    axes.set_xlabel(f"time ({unit})")


def _draw_utilisation(figure: Any, runs: Sequence[Run], _options: FigureOptions) -> FigureSummary:
    """Draw a panel for each run, one below the other: lines of several runs in one panel would hide each other."""
    found = [run.usage for run in runs]
    begin, end = _span_of(runs)
    span_s = durations.span_for(end - begin, _MAX_SPANS)
    is_binned = any(len(steps.times) > _MAX_SPANS for steps in found)
    panels = figure.subplots(len(runs), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    for number, (panel, run, steps) in enumerate(zip(panels, runs, found, strict=True)):
        edges, values = [*steps.times, end], [*steps.values]
        if is_binned:
            first = math.floor(begin / span_s)
            edges = [span_s * k for k in range(first, math.ceil(end / span_s) + 1)]
            values = steps.binned(edges)
        panel.stairs(values, edges, fill=True, color=_COLORS[number % len(_COLORS)], alpha=0.85)
        panel.set_title(plain(run.label), loc="left", fontsize=9)
        if run.n_procs:
            panel.axhline(run.n_procs, color="#666666", linewidth=0.7, linestyle=(0, (4, 3)))
    tops = [run.n_procs or steps.maximum for run, steps in zip(runs, found, strict=True)]
    panels[0].set_ylim(0, 1.06 * max(*tops, 1))
    panels[0].yaxis.set_major_formatter(_THOUSANDS)
    _time_axis(panels[-1], begin, end)
    for panel in panels[:-1]:
        panel.set_xlabel("")
    figure.supylabel("processors in use", fontsize=9)
    if is_binned:
        panels[-1].set_xlabel(f"{panels[-1].get_xlabel()}; means of each {durations.duration_text(span_s)}")
    return FigureSummary("processors in use over time")


def _draw_queue(figure: Any, runs: Sequence[Run], options: FigureOptions) -> FigureSummary:
    """Draw lines in one chart; on a logarithmic axis if a line would otherwise be near 0 most of the time."""
    axes = figure.add_subplot()
    found = [run.queue_length for run in runs]
    begin, end = _span_of(runs)
    for number, (run, steps) in enumerate(zip(runs, found, strict=True)):
        times, values = list(steps.times), list(steps.values)
        if len(times) > _MAX_STEPS:
            edges = [times[0] + (times[-1] - times[0]) * k / _MAX_STEPS for k in range(_MAX_STEPS + 1)]
            times, values = edges[:-1], steps.binned(edges)
        # No job waits before the first step and after the last one; the line shows this.
        times, values = [begin, *times, end], [0.0, *values, 0.0]
        axes.step(times, values, where="post", label=plain(run.label), linewidth=0.9, **_line(number))
    highest = max(steps.maximum for steps in found)
    flattest = min(steps.mean(begin, end) for steps in found)
    is_log = options.scale == "log" or (options.scale == "auto" and highest > LOG_FROM * max(flattest, 1.0))
    _value_axis(axes, "y", "symlog" if is_log else "linear", (0.0, max(highest, 1.0)), "")
    axes.set_ylabel("waiting jobs")
    _time_axis(axes, begin, end)
    _legend(figure, axes, runs)
    return FigureSummary("waiting jobs over time", is_log)


def _span_of(runs: Sequence[Run]) -> tuple[float, float]:
    """Return the first submission and the last end of several runs: the time axis of all their figures."""
    begins = [record.submitted_at for run in runs for record in run.records]
    ends = [record.ended_at for run in runs for record in run.records if record.ran]
    for run in runs:
        if run.cut is not None:
            begins.append(run.span[0])
            ends.append(run.span[1])
    begin = min(begins, default=0.0)
    return begin, max(*ends, begin + 1e-6) if ends else begin + 1.0


def _line(number: int) -> dict[str, Any]:
    """Return a colour and dashes: lines can be distinguished without colours."""
    return {"color": _COLORS[number % len(_COLORS)], "linestyle": _DASHES[number % len(_DASHES)]}


def _legend(figure: Any, axes: Any, runs: Sequence[Run]) -> None:
    if len(runs) > 1:
        figure.legend(handles=axes.get_lines(), loc="outside upper left", frameon=False, ncols=min(len(runs), 4))


def _value_axis(axes: Any, which: str, kind: str, ends: tuple[float, float], measure: str) -> None:
    """Set up an axis of values and its label: ticks at round times for durations, else at round numbers."""
    low, high = ends
    axis, name = getattr(axes, f"{which}axis"), title_of(measure)
    is_time = measure.endswith("_s")
    if kind != "linear":
        getattr(axes, f"set_{which}scale")(kind, **({"linthresh": 1.0, "linscale": 0.5} if kind == "symlog" else {}))
        least = 1.0 if kind == "symlog" else low
        marks = (
            durations.marks(least, _HEADROOM * high)
            if is_time
            else [(at, f"{at:,.10g}") for at in log_ticks(least, high)]
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
        marks, unit = durations.labelled(0.0, high)
        axis.set_ticks([at for at, _ in marks], [text for _, text in marks])
        getattr(axes, f"set_{which}label")(f"{name.removesuffix(' (s)')} ({unit})")


def plain(text: str) -> str:
    """Escape a name for matplotlib (no mathematics), and remove characters that XML cannot contain."""
    return printable(text).replace("$", r"\$")


def _values(run: Run, options: FigureOptions) -> list[float]:
    found = sorted(run.evaluated.values(options.measure, options.tau_s))
    if not found:
        raise InputError(f"{run.prefix}: expected at least one job with {options.measure}, found none")
    return found


def _draw_cdf(figure: Any, runs: Sequence[Run], options: FigureOptions) -> FigureSummary:
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
        axes.step([at[0], *at, high], [0.0, *shares, 1.0], where="post", label=plain(run.label), **_line(number))
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of jobs")
    axes.grid(color="#e4e4e4", linewidth=0.6)
    _value_axis(axes, "x", kind, (low, high), options.measure)
    _legend(figure, axes, runs)
    return FigureSummary(f"cdf of {title_of(options.measure)}", kind != "linear")


def _draw_boxes(figure: Any, runs: Sequence[Run], options: FigureOptions) -> FigureSummary:
    axes = figure.add_subplot()
    found = [distribution(_values(run, options)) for run in runs]
    statistics = [one for one in found if one is not None]
    low = min(one.percentiles[5] for one in statistics)
    high = max(max(one.percentiles[95], one.mean) for one in statistics)
    kind = axis_for(low, high, options.scale)
    draw_boxes(axes, statistics, range(len(statistics)), [BOX] * len(statistics))
    axes.set_xticks(
        range(len(statistics)),
        [plain(f"{run.label}\nn = {one.n:,}") for run, one in zip(runs, statistics, strict=True)],
    )
    half = max(len(statistics), 4) / 2
    axes.set_xlim((len(statistics) - 1) / 2 - half, (len(statistics) - 1) / 2 + half)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    _value_axis(axes, "y", kind, (low, high), options.measure)
    return FigureSummary(f"boxes of {title_of(options.measure)}", kind != "linear")


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


#: Figures by name.
KINDS: Final[dict[str, Callable[[Any, Sequence[Run], FigureOptions], FigureSummary]]] = {
    "gantt": _draw_gantt,
    "utilisation": _draw_utilisation,
    "queue": _draw_queue,
    "cdf": _draw_cdf,
    "boxes": _draw_boxes,
}
