"""Choose the axes of values: one for all charts of a measure, logarithmic if values differ by large factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from pybatsched.metrics.figure_names import title_of
from pybatsched.report import durations
from pybatsched.report.campaign.boxes import Chart
from pybatsched.report.campaign.means import Mean

#: The scale that a user requests for an axis.
ScaleOption = Literal["auto", "log", "linear"]
Kind = Literal["linear", "log", "symlog"]
#: An axis is logarithmic if the largest value is more than this many times the smallest.
LOG_FROM: Final = 20.0
#: Free shares of an axis below and above all values; the numbers of values are written above.
_BELOW, _ABOVE = 0.05, 0.13
_HEADROOM: Final = 1.2  # end of a logarithmic axis of a single chart, over the largest value
#: Shares of an axis at which a truncated interval ends with an arrow.
_LOWEST, _HIGHEST = 0.03, 0.9


class ChartAxis(NamedTuple):
    """An axis of values: its ends, its kind, and its title without a unit. Values with `is_time` are in seconds.

    A symlog axis is linear up to 1 and logarithmic above. `note` follows the title.
    """

    low: float
    high: float
    kind: Kind = "linear"
    title: str = ""
    is_time: bool = False
    note: str = ""

    @property
    def is_log(self) -> bool:
        """Whether the axis is logarithmic, at least above 1."""
        return self.kind != "linear"

    def ticks(self, n_max: int = 10, *, only_powers: bool = False) -> tuple[list[tuple[float, str]], str]:
        """Return ticks with their texts, and the title with the unit of the texts."""
        if self.kind == "linear" and self.is_time:
            marks, unit = durations.labelled(self.low, self.high, n_max)
            return marks, f"{self.title} ({unit}){self.note}"
        low = max(self.low, 1.0) if self.kind == "symlog" else self.low
        if self.is_log and self.is_time:
            marks = durations.marks(low, self.high)
        elif self.is_log:
            marks = [(at, f"{at:,.10g}") for at in log_ticks(low, self.high, only_powers=only_powers)]
        else:
            marks = [(at, f"{at:,.10g}") for at in linear_ticks(self.low, self.high, n_max)]
        return [(0.0, "0"), *marks] if self.kind == "symlog" else marks, self.title + self.note

    def with_room(self) -> ChartAxis:
        """Return the axis with free space above all values, for numbers."""
        if not self.is_log:
            return self._replace(high=self.high + _ABOVE * (self.high - self.low))
        low = 1.0 if self.kind == "symlog" else self.low
        return self._replace(high=self.high * max(self.high / low, 2.0) ** _ABOVE)

    def whisker(self, mean: Mean) -> Whisker:
        """Return the part of a mean's interval that is drawn: all of it, or up to the ends of the axis."""
        is_cut = mean.low < self.low, mean.high > self._at(_HIGHEST)
        low, high = self._at(_LOWEST) if is_cut[0] else mean.low, self._at(_HIGHEST) if is_cut[1] else mean.high
        return Whisker(low, high, *is_cut)

    def _at(self, share: float) -> float:
        if self.is_log:
            return self.low * math.exp(math.log(self.high / self.low) * share)
        return self.low + (self.high - self.low) * share


class Whisker(NamedTuple):
    """An interval as it is drawn: its ends, and whether it is truncated there."""

    low: float
    high: float
    is_cut_below: bool
    is_cut_above: bool


def axes_of(charts: Sequence[Chart]) -> list[ChartAxis]:
    """Return the axis of each chart: the same for the same measure over the same baseline."""
    requests: dict[tuple[str, ...], str] = {}
    for chart in charts:
        if chart.scale != "auto" and chart.axis == "same":
            requests.setdefault(_measure(chart), chart.scale)
    groups: dict[tuple[str, ...], list[Chart]] = {}
    keys = []
    for chart in charts:
        requested = chart.scale if chart.scale != "auto" else requests.get(_measure(chart), "auto")
        own_key = (chart.heading, chart.x_title, chart.scale) if chart.axis == "own" else (requested,)
        keys.append((*_measure(chart), *own_key))
        groups.setdefault(keys[-1], []).append(chart)
    axes = {key: axis_of(own) for key, own in groups.items()}
    return [axes[key] for key in keys]


def _measure(chart: Chart) -> tuple[str, ...]:
    return chart.figure, chart.baseline, chart.each


def axis_of(charts: Sequence[Chart], *, with_dots: bool = True, with_intervals: bool = True) -> ChartAxis:
    """Return one axis for some charts: for dots, means with their intervals, and 1 if they are ratios.

    Intervals extend the axis to at most three times the range of the dots, and not below 0 unless a dot is; the rest is
    truncated. The axis is logarithmic if requested, or if the largest value is more than 20 times the smallest, but
    never if a value is not above 0. A linear axis starts at 0 if that takes less than a quarter of it. O(dots).
    """
    lines = [1.0 for chart in charts if chart.is_ratio]
    dots = lines + [dot.value for chart in charts for box in chart.boxes for dot in box.dots]
    means = [box.mean for chart in charts for box in chart.boxes] if with_intervals else []
    values = dots if with_dots else lines + [mean.mean for mean in means]
    low, high = min(values), max(values)
    title, is_time = charts[0].measure_title.removesuffix(" (s)"), charts[0].measure_title.endswith(" (s)")
    requested: ScaleOption = next((chart.scale for chart in charts if chart.scale != "auto"), "auto")
    if is_log(low, high, requested):
        logs = [math.log(dot) for dot in dots if dot > 0]
        lows = [math.log(mean.low) if mean.low > 0 else min(logs) for mean in means]
        highs = [math.log(mean.high) for mean in means]
        bottom, top = _widened(math.log(low), math.log(high), lows, highs, logs)
        span = max(top - bottom, 0.1)
        return ChartAxis(math.exp(bottom - _BELOW * span), math.exp(top + _ABOVE * span), "log", title, is_time)
    bottom, top = _widened(low, high, [mean.low for mean in means], [mean.high for mean in means], dots)
    span = top - bottom or 0.1 * abs(top) or 0.1
    if low < 0:
        return ChartAxis(bottom - _BELOW * span, top + _ABOVE * span, "linear", title, is_time)
    bottom = 0.0 if bottom < top / 4 else bottom - _BELOW * span
    return ChartAxis(bottom, top + _ABOVE * (top - bottom), "linear", title, is_time)


def is_log(low: float, high: float, requested: ScaleOption = "auto") -> bool:
    """Return whether an axis is logarithmic: if requested, or if values differ by a large factor.

    >>> is_log(1.0, 20.0), is_log(1.0, 20.1), is_log(0.0, 20.1), is_log(1.0, 2.0, "log"), is_log(0.0, 2.0, "log")
    (False, True, False, True, False)
    """
    return low > 0 and (requested == "log" or (requested == "auto" and high > LOG_FROM * low))


def kind_for(low: float, high: float, requested: ScaleOption = "auto") -> Kind:
    """Return the kind of axis of a single chart: as `is_log`, but with zeros it can be logarithmic above 1 (symlog).

    Then the largest value is compared with 1, and the axis is linear below 1.

    >>> kind_for(1.0, 30.0), kind_for(0.0, 30.0), kind_for(0.0, 20.0), kind_for(-1.0, 30.0), kind_for(0.0, 2.0, "log")
    ('log', 'symlog', 'linear', 'linear', 'symlog')
    """
    if low > 0:
        return "log" if is_log(low, high, requested) else "linear"
    return "symlog" if low == 0 and (requested == "log" or (requested == "auto" and high > LOG_FROM)) else "linear"


def axis_for(low: float, high: float, measure: str, requested: ScaleOption = "auto") -> ChartAxis:
    """Return the axis of a measure of jobs in a single chart. A linear axis starts at 0 if that needs little space."""
    kind, is_time = kind_for(low, high, requested), measure.endswith("_s")
    ends = {"log": (low / _HEADROOM, high * _HEADROOM), "symlog": (-0.1, high * _HEADROOM)}
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    linear = (0.0 if 0 <= low <= high / 4 else low - margin, high + margin)
    return ChartAxis(*ends.get(kind, linear), kind, title_of(measure).removesuffix(" (s)"), is_time and low >= 0)


def _widened(
    low: float, high: float, lows: Sequence[float], highs: Sequence[float], dots: Sequence[float]
) -> tuple[float, float]:
    """Return the ends of an axis for values and intervals; intervals extend it by at most the range of the dots."""
    least, most = min(dots), max(dots)
    reach = most - least
    bottom, top = max(min(lows, default=low), least - reach), min(max(highs, default=high), most + reach)
    return min(low, bottom), max(high, top)


def log_ticks(low: float, high: float, *, only_powers: bool = False) -> list[float]:
    """Return ticks of a logarithmic axis: 1, 2 and 5 times powers of ten, or the powers only if these are enough.

    With `only_powers`, two powers are enough. If the ends are too close, the ticks have equal steps.

    >>> log_ticks(0.9, 12.0), log_ticks(3.0, 5000.0), log_ticks(0.99, 1.05)
    ([1.0, 2.0, 5.0, 10.0], [10.0, 100.0, 1000.0], [1.0, 1.02, 1.04])
    """
    if high < 3 * low:
        return linear_ticks(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    coarse, fine = (
        [tick for power in powers for step in steps if low <= (tick := float(f"{step}e{power}")) <= high]
        for steps in ((1,), (1, 2, 5))
    )
    is_enough = len(coarse) >= 2 if only_powers else high >= 300 * low and len(coarse) >= 3
    return coarse if is_enough else fine


def linear_ticks(low: float, high: float, n_max: int = 5) -> list[float]:
    """Return at most `n_max` + 1 round numbers in equal steps.

    >>> linear_ticks(0.0, 128.0), linear_ticks(0.99, 1.05), linear_ticks(0.0, 1.0, 10)
    ([0.0, 50.0, 100.0], [1.0, 1.02, 1.04], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    """
    power = math.floor(math.log10((high - low) / n_max))
    digit, power = next(
        (digit, more)
        for more in (power, power + 1)
        for digit in (1, 2, 5)
        if float(f"{digit}e{more}") * n_max >= (high - low) * (1 - 1e-9)
    )
    step = float(f"{digit}e{power}")
    return [float(f"{digit * k}e{power}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
