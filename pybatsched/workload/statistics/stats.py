"""Statistics of a workload: number of jobs, sizes, run times, estimates, arrivals and load."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from pybatsched.core.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.formats.conversion import LogOptions, SizeIn
from pybatsched.workload.model import Workload
from pybatsched.workload.reading import read_file
from pybatsched.workload.selection import Selection
from pybatsched.workload.statistics import shares
from pybatsched.workload.walltimes import Walltimes

DAY_S: Final = 86_400
_PERIODS: Final[dict[float, str]] = {60: "minute", 600: "10 minutes", 3600: "hour", 21_600: "6 hours", DAY_S: "day"}
_MANY_PERIODS: Final = 200
_MOST_PERIODS: Final = 500  # of days
_PERCENTILES: Final = (5, 25, 50, 75, 95)


@dataclass(slots=True)
class Sample:
    """The jobs of a workload, column by column, in order of submission; those that cannot run are only counted.

    `request_s` is the requested time of a job (NaN: unknown), `wait_s` its logged wait (None: not a log). `clock`
    converts a time to local time, and `clock_name` describes it. `labels` are texts of other fields, by name
    (`pybatsched.workload.statistics.shares`).
    """

    source: str
    n_procs: int
    submitted_at: list[float] = field(default_factory=list)
    run_s: list[float] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    request_s: list[float] = field(default_factory=list)
    wait_s: list[float] | None = None
    labels: dict[str, list[str]] = field(default_factory=dict)
    n_users: int = 0
    busiest_user_share: float | None = None
    n_left_out: int = 0
    clock: Callable[[float], float] = float
    clock_name: str = "time 0 is midnight"

    @property
    def span_s(self) -> float:
        """The time from the first submission to the last."""
        return self.submitted_at[-1] - self.submitted_at[0] if self.submitted_at else 0.0

    @property
    def period_s(self) -> float:
        """The length of a period in charts over time: a minute to days, depending on the span."""
        for period_s in _PERIODS:
            if self.span_s <= (_MANY_PERIODS if period_s < DAY_S else _MOST_PERIODS) * period_s:
                return period_s
        return DAY_S * float(math.ceil(self.span_s / DAY_S / _MOST_PERIODS))

    @property
    def period_name(self) -> str:
        """The name of the period, as in "jobs each hour"."""
        return _PERIODS.get(self.period_s) or f"{self.period_s / DAY_S:,.0f} days"

    @property
    def n_periods(self) -> int:
        """The number of periods from the first submission to the last."""
        return int(self.span_s // self.period_s) + 1 if self.submitted_at else 0


def sample(
    path: str | Path,
    n_procs: int | None = None,
    partitions: Sequence[str] = (),
    size_in: SizeIn | None = None,
    timezone: str | None = None,
    *,
    format: str | None = None,  # noqa: A002  as the option
    mapping: str | None = None,
) -> Sample:
    """Read a sample from a workload file of any format, or from some of its partitions. Raises InputError."""
    found = read_file(path, format=format, mapping=mapping, timezone=timezone)
    if isinstance(found, Workload):
        if partitions:
            raise InputError(f"{path}: partitions: expected a log in SWF or of Slurm, found Batsim JSON")
        return sample_workload(found, n_procs)
    from pybatsched.workload.logs.conversion import to_workload  # noqa: PLC0415  it needs polars

    walltimes = Walltimes("requested-strict")
    options = LogOptions(walltimes, n_procs=n_procs, size_in=size_in, timezone=timezone)
    workload, report = to_workload(found, options, Selection(partitions=tuple(partitions)))
    made = sample_workload(workload)
    made.n_left_out += report.n_dropped
    return made


def sample_workload(workload: Workload, n_procs: int | None = None) -> Sample:
    """Return the sample of a workload, without jobs of unknown run time. O(n log n)."""
    durations = {name: delay_of(profile, workload.profiles) for name, profile in workload.profiles.items()}
    run_s = [durations[name] for name in workload.values("profile")]
    times, sizes = workload.values("subtime"), workload.values("res")
    places = [place for place, size in enumerate(sizes) if size > 0 and run_s[place] is not None]
    places.sort(key=times.__getitem__)

    def kept(values: list[Any]) -> list[Any]:
        return [values[place] for place in places]

    made = Sample(workload.source, n_procs or workload.n_procs, n_left_out=len(sizes) - len(places))
    made.submitted_at, made.run_s, made.size = kept(times), kept(run_s), kept(sizes)
    requests = zip(*(kept(workload.values(name)) for name in ("requested_time", "estimate", "walltime")), strict=True)
    known = (next((one for one in request if one is not None), None) for request in requests)
    made.request_s = [one if is_number(one) and one > 0 else math.nan for one in known]
    _describe(made, {name: kept(workload.values(name)) for name in shares.TITLES if name in workload.fields})
    waits = kept(workload.values("logged_wait_s"))
    made.wait_s = [wait_s if is_number(wait_s) else 0.0 for wait_s in waits] if any(map(is_number, waits)) else None
    header = workload.about.get("swf_header", workload.about.get("clock"))
    shift = workload.about.get("shifted_by", 0)
    if isinstance(header, dict):
        made.clock, made.clock_name = _clock(header, shift if is_number(shift) else 0.0)
    return made


def _describe(made: Sample, columns: Mapping[str, Sequence[Any]]) -> None:
    """Add the values of other fields to a sample, and the number of users."""
    made.labels = shares.labels_of(columns)
    users = Counter(str(user) for user in columns.get("user", ()) if user is not None)
    made.n_users = len(users)
    if users:
        made.busiest_user_share = users.most_common(1)[0][1] / len(made.size)


def _clock(header: Mapping[str, Any], shift_s: float) -> tuple[Callable[[float], float], str]:
    """Return a function from times of a log to local time, by the time zone in its header, and its name."""
    try:
        began_at = float(str(header["UnixStartTime"]).split()[0]) + shift_s
        datetime.fromtimestamp(began_at, UTC)
    except (KeyError, ValueError, IndexError, OverflowError, OSError):
        return float, "time 0 is midnight"
    zone, name = _zone(header)
    offsets: dict[int, float] = {}  # one look-up for each hour of the log: offsets change on the hour

    def local(at: float) -> float:
        hour = int((began_at + at) // 3600)
        offset = offsets.get(hour)
        if offset is None:
            try:
                there = datetime.fromtimestamp(hour * 3600, zone).utcoffset() or timedelta()
            except (ValueError, OverflowError, OSError):  # beyond the calendar
                there = timedelta()
            offset = offsets[hour] = there.total_seconds()
        return began_at + at + offset

    return local, name


def _zone(header: Mapping[str, Any]) -> tuple[tzinfo, str]:
    name = str(header.get("TimeZoneString", "")).strip()
    try:
        if name:
            return ZoneInfo(name), f"local time, {name}"
    except (OSError, ValueError, KeyError):
        pass  # no such zone, or no time zones on this machine: the offset will do
    try:
        return timezone(timedelta(seconds=int(str(header["TimeZone"]).split()[0]))), "local time, without summer time"
    except (KeyError, ValueError, IndexError):
        return UTC, "UTC"


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """Return percentiles, interpolated linearly, with minimum, maximum and mean. O(n log n)."""
    ordered = sorted(values)
    if not ordered:
        return {}
    made = {"min": ordered[0]}
    for percent in _PERCENTILES:
        position = percent / 100 * (len(ordered) - 1)
        low = int(position)
        high = min(low + 1, len(ordered) - 1)
        made[f"p{percent}"] = ordered[low] + (ordered[high] - ordered[low]) * (position - low)
    return {**made, "max": ordered[-1], "mean": math.fsum(ordered) / len(ordered)}


def summary(of: Sample) -> dict[str, Any]:
    """Return the figures of a sample. O(n log n)."""
    n = len(of.size)
    span_s = of.span_s
    work = math.fsum(run * size for run, size in zip(of.run_s, of.size, strict=True))
    asked = [(run, request) for run, request in zip(of.run_s, of.request_s, strict=True) if not math.isnan(request)]
    made: dict[str, Any] = {
        "version": 1,
        "file": of.source,
        "jobs": n,
        "jobs_left_out": of.n_left_out,
        "processors": of.n_procs,
        "users": of.n_users,
        "first_submission_s": of.submitted_at[0] if n else None,
        "span_s": span_s,
        "jobs_per_day": n / span_s * DAY_S if span_s else None,
        "size": percentiles(of.size),
        "serial_share": sum(size == 1 for size in of.size) / n if n else None,
        "power_of_two_share": sum(size & (size - 1) == 0 for size in of.size) / n if n else None,
        "run_time_s": percentiles(of.run_s),
        "run_to_requested": percentiles(run / request for run, request in asked),
        "overran_share": sum(run > request for run, request in asked) / len(asked) if asked else None,
        "offered_load": work / (of.n_procs * span_s) if span_s else None,
    }
    if of.busiest_user_share is not None:
        made["busiest_user_share"] = of.busiest_user_share
    if of.wait_s is not None:
        made["wait_s"] = percentiles(of.wait_s)
        made["logged_utilisation"] = _logged_utilisation(of)
    if of.labels:
        made["shares"] = _shares(of)
    return made


def _shares(of: Sample) -> dict[str, list[dict[str, Any]]]:
    """Return the shares of the values of each field, such as each user, with logged waits. O(n x fields)."""
    work = [run * size for run, size in zip(of.run_s, of.size, strict=True)]
    made = {}
    for name, labels in of.labels.items():
        found = shares.shares(labels, work, of.wait_s, shares.names_of(name, labels, work))
        made[name] = [
            {"name": one.name, "jobs": one.n_jobs, "processor_seconds_share": one.share}
            | ({} if one.mean_wait_s is None else {"mean_wait_s": one.mean_wait_s})
            for one in found
        ]
    return made


def _logged_utilisation(of: Sample) -> float | None:
    """Return the logged mean utilisation from the first submission to the last."""
    if not of.span_s or of.wait_s is None:
        return None
    last_at = of.submitted_at[-1]
    used = (
        size * (min(at + wait + run, last_at) - at - wait)
        for at, wait, run, size in zip(of.submitted_at, of.wait_s, of.run_s, of.size, strict=True)
        if at + wait < last_at
    )
    return math.fsum(used) / (of.n_procs * of.span_s)


def per_hour_of_day(of: Sample) -> list[int]:
    """Count the arrivals in each hour of the day, by the sample's clock."""
    counts = [0] * 24
    for at in of.submitted_at:
        counts[int(of.clock(at) % DAY_S // 3600)] += 1
    return counts


def arrivals_over_time(of: Sample) -> list[int]:
    """Count the arrivals in each period from the first submission on."""
    counts = [0] * of.n_periods
    for at in of.submitted_at:
        counts[int((at - of.submitted_at[0]) // of.period_s)] += 1
    return counts


def needed_over_time(of: Sample) -> list[float]:
    """Return the utilisation of each period if no job had to wait. It may exceed 1."""
    return _used_over_time(of, [0.0] * len(of.size))


def utilisation_over_time(of: Sample) -> list[float]:
    """Return the logged utilisation of each period up to the last submission; empty if the sample is not a log."""
    return [] if of.wait_s is None else _used_over_time(of, of.wait_s)


def _used_over_time(of: Sample, wait_s: Sequence[float]) -> list[float]:
    n, period_s = of.n_periods, of.period_s
    used = [0.0] * (n + 1)  # the last one is for later times
    for at, wait, run, size in zip(of.submitted_at, wait_s, of.run_s, of.size, strict=True):
        start = at - of.submitted_at[0] + wait
        end = start + run
        first, last = min(int(start // period_s), n), min(int(end // period_s), n)
        if first == last:
            used[first] += size * run
            continue
        used[first] += size * ((first + 1) * period_s - start)
        used[last] += size * (end - last * period_s)
        for between in range(first + 1, last):
            used[between] += size * period_s
    return [amount / (of.n_procs * period_s) for amount in used[:n]]


def sizes_by_power(of: Sample) -> list[tuple[str, int]]:
    """Count the jobs of 1 processor, 2, 3-4, 5-8, and so on, up to the largest."""
    counts = Counter((size - 1).bit_length() for size in of.size)
    top = max(counts, default=-1)
    names = [str(1 << k) if k < 2 else f"{(1 << k - 1) + 1}-{1 << k}" for k in range(top + 1)]
    return [(name, counts[k]) for k, name in enumerate(names)]


def run_times_by_scale(of: Sample) -> list[tuple[str, int]]:
    """Count the jobs by run time: up to 1 min, 10 min, 1 h, 4 h, 12 h, 1 d, and longer."""
    steps = ((60, "to 1 min"), (600, "to 10 min"), (3600, "to 1 h"), (14_400, "to 4 h"), (43_200, "to 12 h"))
    scales = (*steps, (DAY_S, "to 1 d"), (math.inf, "longer"))
    counts = Counter(next(name for most, name in scales if run <= most) for run in of.run_s)
    return [(name, counts[name]) for _, name in scales]


_BAR: Final = 44
_ROWS: Final = 14  # of the histogram over time, however long the workload


def lines(of: Sample, figures: Mapping[str, Any]) -> list[str]:
    """Return a sample and its summary (`summary`) as lines of text."""
    text = [Path(of.source).name, *_summary(of, figures)]
    if of.size:
        hours = [(f"{hour:02} h", count) for hour, count in enumerate(per_hour_of_day(of))]
        text += ["", f"arrivals by hour of the day ({of.clock_name})", *histogram(hours)]
        per_s, unit = (DAY_S, "day") if of.span_s >= 2 * DAY_S else (3600, "hour")
        arrivals = _over_time(of, arrivals_over_time(of), per_s)
        text += ["", f"arrivals over time (jobs in one {unit})", *histogram(arrivals)]
        text += ["", "sizes (processors)", *histogram(sizes_by_power(of))]
        text += ["", "run times", *histogram(run_times_by_scale(of))]
        load = utilisation_over_time(of) or needed_over_time(of)
        name = "in use, by the log" if of.wait_s is not None else "needed, if no job waited"
        percents = [(label, 100 * share) for label, share in _over_time(of, load, of.period_s)]
        text += ["", f"load over time (% of the machine; {name})", *histogram(percents)]
        for name, found in figures.get("shares", {}).items():
            text += [
                "",
                f"by {shares.TITLES[name]} (jobs, % of the processor-seconds{_if(of.wait_s, ', mean logged wait')})",
            ]
            text += _share_lines(found)
    return text


def _share_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each share: its name, jobs and per cent, and the mean wait if it is known."""
    width = max(len(one["name"]) for one in found)
    return [
        f"  {one['name']:>{width}} {one['jobs']:>9,} {_share(one['processor_seconds_share']):>7}"
        + (f" {duration(one['mean_wait_s']):>10}" if "mean_wait_s" in one else "")
        for one in found
    ]


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
    """Write a duration with a suitable unit: 45 s, 12 min, 3.5 h, 21 d."""
    for unit_s, unit in ((DAY_S, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:,.1f} {unit}"
    return f"{seconds:,.3g} s" if seconds < 10 else f"{seconds:,.0f} s"


def _over_time(of: Sample, values: Sequence[float], per_s: float) -> list[tuple[str, float]]:
    """Merge the periods of a sample into a few rows. Each row has the mean per `per_s` seconds."""
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
