"""Box plots as data: the samples of a figure by row, column and category, and the axis of their values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from pybatsched.metrics.distributions import Distribution, distribution
from pybatsched.report.samples import figure_title

_LOG_FROM: Final = 20.0


class Dot(NamedTuple):
    """A value of a sample and where it comes from."""

    value: float
    name: str


@dataclass(frozen=True, slots=True)
class Box:
    """The sample at one place of a chart: a family, a column (empty if there is but one), a category along the axis."""

    row: str
    column: str
    category: str
    dots: tuple[Dot, ...]
    is_baseline: bool = False

    @property
    def told(self) -> Distribution:
        """The sample in a few numbers. O(n log n)."""
        found = distribution(dot.value for dot in self.dots)
        assert found is not None  # a box without dots is never made
        return found


@dataclass(frozen=True, slots=True)
class Chart:
    """Boxes of one figure: a row of panels a family, a column a value of the second axis, categories along the first.

    `reference` is the category of the baseline where it is none of the axis, and empty otherwise. `n_undefined` pairs
    have no ratio, because the baseline's value is 0. `heading` is what the campaign's file calls it. With `each`, a
    field of jobs, a dot is one of its values in a run (a user, say), otherwise it is a run.
    """

    subject: str
    figure: str
    baseline: str
    x_title: str
    column_title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    categories: tuple[str, ...]
    boxes: tuple[Box, ...]
    reference: str = ""
    n_undefined: int = 0
    heading: str = ""
    each: str = ""
    scale: Literal["auto", "log", "linear"] = "auto"

    @property
    def is_ratio(self) -> bool:
        """Whether values are divided by those of the baseline."""
        return bool(self.baseline)

    @property
    def measure_title(self) -> str:
        """The figure for people; of a ratio without its unit."""
        title, unit, _ = figure_title(self.figure).partition(" (s)")
        return f"{title}{f' of each {self.each}' if self.each else ''}{'' if self.is_ratio else unit}"

    @property
    def title(self) -> str:
        """What is drawn, for people."""
        if self.heading:
            return f"{self.heading} ({self.subject})" if self.subject else self.heading
        return f"{self.measure_title}, over that of {self.baseline}" if self.is_ratio else self.measure_title

    @property
    def is_log(self) -> bool:
        """Whether the axis goes by powers of ten: where it is asked for, or values are so far apart that it shows more.

        Never where there is a 0, which has no place on such an axis.
        """
        values = [dot.value for box in self.boxes for dot in box.dots] + ([1.0] if self.is_ratio else [])
        is_wanted = self.scale == "log" or (self.scale == "auto" and max(values) > _LOG_FROM * min(values))
        return is_wanted and min(values) > 0

    def words_of(self, box: Box) -> str:
        """Say which setting a box is of."""
        if box.category == self.reference:
            return box.category.strip()
        words = [f"{self.x_title} {box.category}", *([f"{self.column_title} {box.column}"] if box.column else [])]
        return ", ".join(words)

    def lines(self, n_boxes: int) -> list[tuple[str, tuple[str, ...]]]:
        """Give families with columns that go side by side, so many that a line has no more boxes if it can be."""
        n_most = max(n_boxes // len(self.categories), 1)
        n_lines = -(-len(self.columns) // n_most)
        n_each = -(-len(self.columns) // n_lines)
        parts = [self.columns[i : i + n_each] for i in range(0, len(self.columns), n_each)]
        return [(row, part) for row in self.rows for part in parts]

    def panel(self, row: str, column: str) -> list[Box]:
        """Give the boxes of one panel, in the order of the axis."""
        found = {box.category: box for box in self.boxes if (box.row, box.column) == (row, column)}
        return [found[category] for category in self.categories if category in found]


def span_of_values(chart: Chart, row: str) -> tuple[float, float]:
    """Give the ends of the axis of values for one family: all dots, with a margin; of ratios with 1 as well."""
    values = [dot.value for box in chart.boxes if box.row == row for dot in box.dots]
    low, high = min(values), max(values)
    if chart.is_ratio:
        low, high = min(low, 1.0), max(high, 1.0)
    if chart.is_log:
        margin = max(high / low, 1.1) ** 0.05
        return low / margin, high * margin
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin, high + margin


def log_ticks(low: float, high: float) -> list[float]:
    """Give round numbers for an axis by powers of ten: 1, 2 and 5 of each, or just the powers where there are many.

    Where the ends are too close for that, equal steps.

    >>> log_ticks(0.9, 12.0), log_ticks(3.0, 5000.0), log_ticks(0.99, 1.05)
    ([1.0, 2.0, 5.0, 10.0], [10.0, 100.0, 1000.0], [1.0, 1.02, 1.04])
    """
    if high < 3 * low:
        return _equal_ticks(low, high)
    steps = (1, 2, 5) if high < 300 * low else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def _equal_ticks(low: float, high: float) -> list[float]:
    """Give two to five round numbers in equal steps."""
    power = math.floor(math.log10((high - low) / 2))
    digit = next(digit for digit in (5, 2, 1) if float(f"{digit}e{power}") <= (high - low) / 2)
    step = float(f"{digit}e{power}")
    return [float(f"{digit * k}e{power}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def dodge(k: int) -> float:
    """Give how far from the middle of its box the k-th dot goes, so that dots do not hide each other; at most 0.25.

    >>> [round(dodge(k), 2) for k in range(4)]
    [0.0, -0.19, 0.12, -0.07]
    """
    return ((k * 0.6180339887498949 + 0.5) % 1.0 - 0.5) * 0.5
