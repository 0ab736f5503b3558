"""The axes of values: one for all charts of one measure, by powers of ten where values are far apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from pybatsched.report.campaign.boxes import Chart
from pybatsched.report.campaign.means import Mean

#: How an axis is wanted.
Wish = Literal["auto", "log", "linear"]
#: An axis goes by powers of ten where the largest value is more than so many times the smallest.
LOG_FROM: Final = 20.0
#: The parts of an axis that are left free below all values, and above them, where the numbers of values are written.
_BELOW, _ABOVE = 0.05, 0.13
#: The parts of an axis where an interval that goes on ends with an arrow.
_LOWEST, _HIGHEST = 0.03, 0.9


class Scale(NamedTuple):
    """An axis of values: its ends, and whether it goes by powers of ten."""

    low: float
    high: float
    is_log: bool

    def whisker(self, mean: Mean) -> Whisker:
        """Give what of the interval of a mean is drawn: all of it, or up to the ends of the axis."""
        is_cut = mean.low < self.low, mean.high > self._at(_HIGHEST)
        low, high = self._at(_LOWEST) if is_cut[0] else mean.low, self._at(_HIGHEST) if is_cut[1] else mean.high
        return Whisker(low, high, *is_cut)

    def _at(self, share: float) -> float:
        if self.is_log:
            return self.low * math.exp(math.log(self.high / self.low) * share)
        return self.low + (self.high - self.low) * share


class Whisker(NamedTuple):
    """An interval as it is drawn: its ends, and whether it goes on beyond them."""

    low: float
    high: float
    is_cut_below: bool
    is_cut_above: bool


def scales_of(charts: Sequence[Chart]) -> list[Scale]:
    """Give the axis of each chart: the same for the same measure, over the same baseline.

    Where one of them asks for powers of ten, or for none, all have it that do not ask for the contrary. A chart that
    wants an axis of its own has one, the same for all sheets of it.
    """
    wished: dict[tuple[str, ...], str] = {}
    for chart in charts:
        if chart.scale != "auto" and chart.axis == "same":
            wished.setdefault(_measure(chart), chart.scale)
    groups: dict[tuple[str, ...], list[Chart]] = {}
    keys = []
    for chart in charts:
        wish = chart.scale if chart.scale != "auto" else wished.get(_measure(chart), "auto")
        alone = (chart.heading, chart.x_title, chart.scale) if chart.axis == "own" else (wish,)
        keys.append((*_measure(chart), *alone))
        groups.setdefault(keys[-1], []).append(chart)
    scales = {key: scale_of(own) for key, own in groups.items()}
    return [scales[key] for key in keys]


def _measure(chart: Chart) -> tuple[str, ...]:
    return chart.figure, chart.baseline, chart.each


def scale_of(charts: Sequence[Chart], *, with_dots: bool = True, with_intervals: bool = True) -> Scale:
    """Give one axis for what is drawn of some charts: dots, means with their intervals, and 1 where they are ratios.

    Intervals make it no more than three times as long as dots alone, and do not take it below 0 where no dot is; what
    is beyond is cut. It goes by powers of ten where that is asked for, or the largest value is more than 20 times the
    smallest, and never where a value is not above 0. Otherwise it begins at 0 where that takes less than a quarter of
    it. O(dots).
    """
    lines = [1.0 for chart in charts if chart.is_ratio]
    dots = lines + [dot.value for chart in charts for box in chart.boxes for dot in box.dots]
    means = [box.mean for chart in charts for box in chart.boxes] if with_intervals else []
    values = dots if with_dots else lines + [mean.mean for mean in means]
    low, high = min(values), max(values)
    wish: Wish = next((chart.scale for chart in charts if chart.scale != "auto"), "auto")
    if is_log(low, high, wish):
        logs = [math.log(dot) for dot in dots if dot > 0]
        lows = [math.log(mean.low) if mean.low > 0 else min(logs) for mean in means]
        highs = [math.log(mean.high) for mean in means]
        bottom, top = _widened(math.log(low), math.log(high), lows, highs, logs)
        span = max(top - bottom, 0.1)
        return Scale(math.exp(bottom - _BELOW * span), math.exp(top + _ABOVE * span), is_log=True)
    bottom, top = _widened(low, high, [mean.low for mean in means], [mean.high for mean in means], dots)
    span = top - bottom or 0.1 * abs(top) or 0.1
    if low < 0:
        return Scale(bottom - _BELOW * span, top + _ABOVE * span, is_log=False)
    bottom = 0.0 if bottom < top / 4 else bottom - _BELOW * span
    return Scale(bottom, top + _ABOVE * (top - bottom), is_log=False)


def is_log(low: float, high: float, wish: Wish = "auto") -> bool:
    """Whether an axis for such values goes by powers of ten: where it is asked for, or values are far apart.

    >>> is_log(1.0, 20.0), is_log(1.0, 20.1), is_log(0.0, 20.1), is_log(1.0, 2.0, "log"), is_log(0.0, 2.0, "log")
    (False, True, False, True, False)
    """
    return low > 0 and (wish == "log" or (wish == "auto" and high > LOG_FROM * low))


def axis_for(low: float, high: float, wish: Wish = "auto") -> Literal["linear", "log", "symlog"]:
    """Give how an axis of a single figure goes: as `is_log` says, but with zeros it can go by powers of ten beyond 1.

    Then 1 is the value that others are compared with, and what is below it has equal steps.

    >>> axis_for(1.0, 30.0), axis_for(0.0, 30.0), axis_for(0.0, 20.0), axis_for(-1.0, 30.0), axis_for(0.0, 2.0, "log")
    ('log', 'symlog', 'linear', 'linear', 'symlog')
    """
    if low > 0:
        return "log" if is_log(low, high, wish) else "linear"
    return "symlog" if low == 0 and (wish == "log" or (wish == "auto" and high > LOG_FROM)) else "linear"


def _widened(
    low: float, high: float, lows: Sequence[float], highs: Sequence[float], dots: Sequence[float]
) -> tuple[float, float]:
    """Give the ends of an axis for values and for intervals, these up to as far beyond all dots as dots are apart."""
    least, most = min(dots), max(dots)
    reach = most - least
    bottom, top = max(min(lows, default=low), least - reach), min(max(highs, default=high), most + reach)
    return min(low, bottom), max(high, top)


def log_ticks(low: float, high: float) -> list[float]:
    """Give round numbers for an axis by powers of ten: 1, 2 and 5 of each, or just the powers where these are enough.

    Where the ends are too close for that, equal steps.

    >>> log_ticks(0.9, 12.0), log_ticks(3.0, 5000.0), log_ticks(0.99, 1.05)
    ([1.0, 2.0, 5.0, 10.0], [10.0, 100.0, 1000.0], [1.0, 1.02, 1.04])
    """
    if high < 3 * low:
        return _equal_ticks(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    coarse, fine = (
        [tick for power in powers for step in steps if low <= (tick := float(f"{step}e{power}")) <= high]
        for steps in ((1,), (1, 2, 5))
    )
    return fine if high < 300 * low or len(coarse) < 3 else coarse


def _equal_ticks(low: float, high: float) -> list[float]:
    """Give two to five round numbers in equal steps."""
    power = math.floor(math.log10((high - low) / 2))
    digit = next(digit for digit in (5, 2, 1) if float(f"{digit}e{power}") <= (high - low) / 2)
    step = float(f"{digit}e{power}")
    return [float(f"{digit * k}e{power}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
