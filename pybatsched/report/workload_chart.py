"""Draw a chart of a workload: arrivals, sizes and load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError, quantity
from pybatsched.report import chart_style
from pybatsched.workload.statistics import stats
from pybatsched.workload.statistics.stats import DAY_S, Sample

_SIZE: Final = (11.0, 7.0)  # in inches
_BLUE: Final = "#3b6ea8"
_ORANGE: Final = "#d9822b"
_PALE: Final = "#c9d7e8"
_BURST: Final = 20  # times the median: above it, the axis is logarithmic


def draw(of: Sample, path: str | Path) -> None:
    """Write a chart of arrivals, sizes and load; equal data is equal bytes. Raises InputError."""
    chart_style.check_path(path)
    if not of.size:
        raise InputError(f"{of.source}: expected at least one job to draw, found none")
    with chart_style.style(_SIZE[0]):
        figure: Any = chart_style.new_figure(*_SIZE)
        figure.get_layout_engine().set(h_pad=0.09, hspace=0.04, wspace=0.03)
        n_jobs, n_procs = quantity(len(of.size), "job"), quantity(of.n_procs, "processor")
        title = f"{Path(of.source).name}: {n_jobs}, {n_procs}, {of.span_s / DAY_S:,.1f} days"
        figure.suptitle(chart_style.plain(title), fontsize=12.5)
        for axes, drawn in zip(
            figure.subplots(2, 2).flat, (_draw_hours, _draw_days, _draw_sizes, _draw_load), strict=True
        ):
            drawn(axes, of)
            axes.grid(axis="y", color=chart_style.GRID, linewidth=0.7)
            axes.set_axisbelow(True)
            axes.set_ylim(bottom=0)
            axes.set_title(axes.get_title(), loc="left", weight="bold", fontsize=10.5)
            axes.set_title("", loc="center")
        chart_style.write(figure, path)


def _thousands(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _draw_hours(axes: Any, of: Sample) -> None:
    axes.bar([hour + 0.5 for hour in range(24)], stats.per_hour_of_day(of), width=0.86, color=_BLUE)
    axes.set(title="Arrivals by hour of the day", xlabel=f"hour ({of.clock_name})", ylabel="jobs", xlim=(0, 24))
    axes.set_xticks(range(0, 25, 3))
    _thousands(axes.yaxis)


def _over_time(axes: Any, of: Sample) -> list[float]:
    """Label the time axis, in days or hours, and return the borders of the periods."""
    unit_s, unit = (DAY_S, "days") if of.span_s >= 2 * DAY_S else (3600, "hours")
    borders = [index * of.period_s / unit_s for index in range(of.n_periods + 1)]
    axes.set_xlabel(f"{unit} since the first submission")
    axes.set_xlim(0, borders[-1])
    return borders


def _draw_days(axes: Any, of: Sample) -> None:
    counts = stats.arrivals_over_time(of)
    axes.stairs(counts, _over_time(axes, of), fill=True, color=_BLUE)
    axes.set(title=f"Arrivals each {of.period_name}", ylabel="jobs")
    if has_bursts(counts):
        axes.set_title(f"Arrivals each {of.period_name} (logarithmic)")
        axes.set_yscale("symlog", linthresh=1.0, linscale=0.4)
        axes.set_yticks([0, *(10**power for power in range(len(str(max(counts)))))])
        axes.set_yticks([], minor=True)
    _thousands(axes.yaxis)


def has_bursts(counts: Sequence[int]) -> bool:
    """Return whether the busiest period has more than 20 times the jobs of the median one.

    Periods without jobs do not count.

    >>> has_bursts([0, 0, 1, 1, 2, 21]), has_bursts([1, 20])
    (True, False)
    """
    busy = sorted(count for count in counts if count)
    return bool(busy) and busy[-1] > _BURST * busy[(len(busy) - 1) // 2]


def _draw_sizes(axes: Any, of: Sample) -> None:
    bars = stats.sizes_by_power(of)
    work = [0.0] * len(bars)
    for run, size in zip(of.run_s, of.size, strict=True):
        work[(size - 1).bit_length()] += run * size
    total = sum(work)
    places = range(len(bars))
    axes.bar(
        [place - 0.21 for place in places],
        [100 * count / len(of.size) for _, count in bars],
        width=0.4,
        color=_BLUE,
        label="of the jobs",
    )
    axes.bar(
        [place + 0.21 for place in places],
        [100 * amount / total for amount in work],
        width=0.4,
        color=_ORANGE,
        label="of the work",
    )
    axes.set(title="Sizes", xlabel="processors (up to)", ylabel="share [%]")
    steep = len(bars) > 9
    axes.set_xticks(places, [_short(1 << place) for place in places], rotation=45 if steep else 0)
    axes.legend(frameon=False)


def _short(count: int) -> str:
    """Write 131072 as 128k: the sizes of this panel are powers of two."""
    return f"{count >> 10}k" if count >= 1024 else str(count)


def _draw_load(axes: Any, of: Sample) -> None:
    needed = [100 * share for share in stats.needed_over_time(of)]
    used = [100 * share for share in stats.utilisation_over_time(of)]
    borders = _over_time(axes, of)
    axes.stairs(needed, borders, fill=True, color=_PALE, label="needed, if no job waited")
    if used:
        axes.stairs(used, borders, color=_ORANGE, linewidth=1.2, label="in use, by the log")
    axes.axhline(100, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set(title="Load", ylabel="share of the machine [%]")
    _thousands(axes.yaxis)
    # One extreme day would make the rest unreadable, so the axis is cut. The title has the maximum.
    top = max(1.25 * sorted(needed)[int(0.98 * (len(needed) - 1))], 1.1 * max(used, default=0), 110)
    if max(needed) > top:
        axes.set_title(f"Load (needed: up to {max(needed):,.0f} %)")
    axes.set_ylim(0, 1.15 * top)  # with room for the legend
    axes.legend(loc="upper left", ncols=2, framealpha=0.9, edgecolor="none", borderaxespad=0.2)
