"""Single figures for papers, by matplotlib: SVG, PDF or PNG, by the name of the file."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.metrics.classes import title_of, values_of
from pybatsched.metrics.outcomes import DEFAULT_TAU_S
from pybatsched.metrics.runs import Run
from pybatsched.metrics.series import Steps, procs_in_use, queue_length
from pybatsched.report.bands import Rows, rows_of
from pybatsched.report.bars import HELD, LOAD, LOST, SUSPENDED, URGENT, bars_of, color_of, legend_of
from pybatsched.results.whole import whole

_ENDINGS: Final = (".svg", ".pdf", ".png")
_MAX_STEPS: Final = 20_000


def draw(kind: str, runs: Sequence[Run], path: str | Path, *, measure: str, tau_s: float = DEFAULT_TAU_S) -> None:
    """Draw one figure of runs into a file. Raises InputError for what cannot be drawn or written."""
    if kind == "gantt" and len(runs) != 1:
        raise InputError(f"gantt: expected one run, got {len(runs)}")
    with canvas(path, (7.2, 4.2 if kind == "gantt" else 3.2)) as figure:
        axes = figure.add_subplot()
        KINDS[kind](axes, runs, measure, tau_s)
        if kind not in {"gantt", "boxes"} and len(runs) > 1:
            axes.legend(frameon=False)
        notices = [plain(f"{run.label}: {run.standing.notice}") for run in runs if run.standing.notice]
        if notices:
            figure.suptitle("\n".join(notices), color="#b00020", fontsize=9)


@contextlib.contextmanager
def canvas(path: str | Path, size: tuple[float, float]) -> Iterator[Any]:
    """Give a figure of so many inches to draw on, and write it to a file in the end, or none of it. Raises InputError.

    The same drawing gives the same file: no date in it, and ids from a fixed salt.
    """
    if not str(path).endswith(_ENDINGS):
        raise InputError(f"{path}: expected a file name that ends in {', '.join(_ENDINGS)}")
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
        with whole(path) as place:
            dates = {"Date": None} if str(path).endswith(".svg") else {"CreationDate": None}
            figure.savefig(place, dpi=160, metadata=None if str(path).endswith(".png") else dates)


def _draw_gantt(axes: Any, runs: Sequence[Run], _measure: str, _tau_s: float) -> None:
    matplotlib: Any = importlib.import_module("matplotlib")
    collections: Any = importlib.import_module("matplotlib.collections")
    patches: Any = importlib.import_module("matplotlib.patches")
    palette = [color for number, color in enumerate(matplotlib.color_sequences["tab20"]) if number not in {14, 15}]
    rows = rows_of(runs[0])
    bars = bars_of([record for record in runs[0].records if record.ran], rows)
    corners: dict[int, list[Any]] = {}
    colors: dict[int, list[Any]] = {}
    for bar in bars:
        color = palette[color_of(bar.job, len(palette))]
        for low, high in bar.procs if rows is None else rows.placed(bar.procs):
            box = [(bar.begin, low), (bar.end, low), (bar.end, high), (bar.begin, high)]
            corners.setdefault(bar.look, []).append(box)
            colors.setdefault(bar.look, []).append(color)
    for look in sorted(corners):  # urgent jobs last, so that none is hidden
        axes.add_collection(collections.PolyCollection(corners[look], **_style(look, colors[look])))
    handles = [patches.Patch(label=text, **_style(look, palette[0])) for look, text in legend_of(bars).items()]
    if handles:
        axes.figure.legend(handles=handles, loc="outside lower left", frameon=False, ncols=2)
    axes.autoscale()
    axes.set_ylim(0, (runs[0].n_procs or None) if rows is None else rows.n_rows)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("processor")
    if rows is not None:
        _draw_bands(axes, rows)


def _draw_bands(axes: Any, rows: Rows) -> None:
    """Tint every other cluster, draw lines between them and write their names on the right."""
    for number, band in enumerate(rows.bands):
        if number % 2:
            axes.axhspan(band.low, band.high, facecolor="#eef3fa", zorder=0)
        if band.low:
            axes.axhline(band.low, color="#444444", linewidth=0.6)
        beside = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 8}
        axes.text(1.01, (band.low + band.high) / 2, plain(band.name), **beside)
    if not rows.is_plain:
        axes.set_ylabel("processors of each cluster")


def _style(look: int, color: Any) -> dict[str, Any]:
    """Say how bars of a look are drawn, as on the page. `color` is one, or one for each."""
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


def _draw_steps(axes: Any, runs: Sequence[Run], steps_of: Callable[[Run], Steps], name: str) -> None:
    for run in runs:
        steps = steps_of(run)
        times, values = list(steps.times), list(steps.values)
        if len(times) > _MAX_STEPS:
            edges = [times[0] + (times[-1] - times[0]) * k / _MAX_STEPS for k in range(_MAX_STEPS + 1)]
            times, values = edges[:-1], steps.binned(edges)
        axes.step(times, values, where="post", label=plain(run.label), linewidth=0.9)
    axes.set_xlabel("time (s)")
    axes.set_ylabel(name)


def _draw_utilisation(axes: Any, runs: Sequence[Run], _measure: str, _tau_s: float) -> None:
    _draw_steps(axes, runs, lambda run: procs_in_use(run.records), "processors in use")


def _draw_queue(axes: Any, runs: Sequence[Run], _measure: str, _tau_s: float) -> None:
    _draw_steps(axes, runs, lambda run: queue_length(run.records), "waiting jobs")


def plain(text: str) -> str:
    """Keep matplotlib from reading a name as mathematics."""
    return text.replace("$", r"\$")


def _values(run: Run, measure: str, tau_s: float) -> list[float]:
    return sorted(values_of(run.evaluated, measure, tau_s))


def _draw_cdf(axes: Any, runs: Sequence[Run], measure: str, tau_s: float) -> None:
    for run in runs:
        values = _values(run, measure, tau_s)
        axes.step(values, [(i + 1) / len(values) for i in range(len(values))], where="post", label=plain(run.label))
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_ylim(0, 1)
    axes.set_xlabel(title_of(measure))
    axes.set_ylabel("share of jobs")


def _draw_boxes(axes: Any, runs: Sequence[Run], measure: str, tau_s: float) -> None:
    values = [_values(run, measure, tau_s) for run in runs]
    axes.boxplot(values, tick_labels=[plain(run.label) for run in runs], whis=(5, 95), showmeans=True, showfliers=False)
    axes.set_ylabel(title_of(measure))


#: Figures by name.
KINDS: Final[dict[str, Callable[[Any, Sequence[Run], str, float], None]]] = {
    "gantt": _draw_gantt,
    "utilisation": _draw_utilisation,
    "queue": _draw_queue,
    "cdf": _draw_cdf,
    "boxes": _draw_boxes,
}
