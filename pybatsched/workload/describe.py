"""The figures of a workload as text for a terminal: a summary and histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pybatsched.workload import stats
from pybatsched.workload.stats import DAY_S, Sample

_BAR: Final = 44
_ROWS: Final = 14  # of the histogram over time, however long the workload


def lines(of: Sample, figures: Mapping[str, Any]) -> list[str]:
    """Give a sample and its summary (`stats.summary`) as lines of text."""
    text = [Path(of.source).name, *_summary(of, figures)]
    if of.size:
        hours = [(f"{hour:02} h", count) for hour, count in enumerate(stats.per_hour_of_day(of))]
        text += ["", f"arrivals by hour of the day ({of.clock_name})", *histogram(hours)]
        per_s, unit = (DAY_S, "day") if of.span_s >= 2 * DAY_S else (3600, "hour")
        arrivals = _over_time(of, stats.arrivals_over_time(of), per_s)
        text += ["", f"arrivals over time (jobs in one {unit})", *histogram(arrivals)]
        text += ["", "sizes (processors)", *histogram(stats.sizes_by_power(of))]
        text += ["", "run times", *histogram(stats.run_times_by_scale(of))]
        load = stats.utilisation_over_time(of) or stats.needed_over_time(of)
        name = "in use, by the log" if of.wait_s is not None else "needed, if no job waited"
        shares = [(label, 100 * share) for label, share in _over_time(of, load, of.period_s)]
        text += ["", f"load over time (% of the machine; {name})", *histogram(shares)]
    return text


def _summary(of: Sample, figures: Mapping[str, Any]) -> list[str]:
    span_s = figures["span_s"]
    rows = [
        (
            "jobs",
            f"{figures['jobs']:,}" + _if(figures["jobs_left_out"], ", and {:,} left out (no size, no known run time)"),
        ),
        ("processors", f"{of.n_procs:,}"),
        ("span", duration(span_s) + _if(figures["first_submission_s"], " from {:,.0f} s on")),
        ("jobs a day", _number(figures["jobs_per_day"])),
        (
            "users",
            f"{figures['users']:,}" + _if(figures.get("busiest_user_share"), ", the busiest has {:.0%} of the jobs"),
        ),
        ("sizes", _spread(figures["size"], _number)),
        ("", f"serial {_share(figures['serial_share'])}, power of two {_share(figures['power_of_two_share'])}"),
        ("run times", _spread(figures["run_time_s"], duration)),
    ]
    if figures["run_to_requested"]:
        rows.append(("run / requested", _spread(figures["run_to_requested"], lambda ratio: f"{ratio:.3f}")))
        rows.append(("", f"ran longer than requested: {_share(figures['overran_share'])}"))
    if "wait_s" in figures:
        rows.append(("logged waits", _spread(figures["wait_s"], duration)))
    rows.append(("offered load", _share(figures["offered_load"])))
    if "logged_utilisation" in figures:
        rows.append(("in use, by the log", _share(figures["logged_utilisation"])))
    return [f"  {name:<18} {value}" for name, value in rows]


def _if(value: Any, text: str) -> str:
    return text.format(value) if value else ""


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _spread(of: Mapping[str, float], shown: Any) -> str:
    if not of:
        return "-"
    names = {"min": "min", "p5": "5 %", "p25": "25 %", "p50": "median", "p75": "75 %", "p95": "95 %", "max": "max"}
    return ", ".join(f"{names.get(key, key)} {shown(value)}" for key, value in of.items())


def duration(seconds: float) -> str:
    """Give a time as people say it: 45 s, 12 min, 3.5 h, 21 d."""
    for unit_s, unit in ((DAY_S, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:,.1f} {unit}"
    return f"{seconds:,.3g} s" if seconds < 10 else f"{seconds:,.0f} s"


def _over_time(of: Sample, values: Sequence[float], per_s: float) -> list[tuple[str, float]]:
    """Put the periods of a sample together to a few rows, each the mean for a span of `per_s` seconds."""
    step = max(1, -(-len(values) // _ROWS))
    unit_s, unit = (DAY_S, "day") if of.span_s >= 2 * DAY_S else (3600, "hour")
    rows = []
    for first in range(0, len(values), step):
        chosen = values[first : first + step]
        began = f"{first * of.period_s / unit_s:,.1f}".removesuffix(".0")
        rows.append((f"{unit} {began}", sum(chosen) / step * per_s / of.period_s))  # the last row may be incomplete
    return rows


def histogram(bars: Sequence[tuple[str, float]]) -> list[str]:
    """Draw bars of text, the longest of a fixed length; anything above 0 is visible."""
    top = max((value for _, value in bars), default=0)
    width = max((len(name) for name, _ in bars), default=0)
    made = []
    for name, value in bars:
        length = max(round(_BAR * value / top), 1) if top and value > 0 else 0
        made.append(f"  {name:>{width}} {_number(value):>9} {'#' * length}".rstrip())
    return made
