"""Data of box plots: the samples of a figure by row, column and category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from pybatsched.metrics.distributions import Distribution, distribution
from pybatsched.metrics.figure_names import name_and_unit
from pybatsched.report.campaign.means import Mean, mean_over
from pybatsched.report.campaign.points import Origin


class Dot(NamedTuple):
    """A value of a sample, with the name and the origin of its run."""

    value: float
    name: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Box:
    """The sample at one position of a chart: family, column (empty if there is only one), category along the axis."""

    row: str
    column: str
    category: str
    dots: tuple[Dot, ...]
    is_baseline: bool = False

    @property
    def statistics(self) -> Distribution:
        """The statistics of the sample. O(n log n)."""
        found = distribution(dot.value for dot in self.dots)
        assert found is not None  # every box has dots
        return found

    @property
    def mean(self) -> Mean:
        """The mean over weeks or seeds with its confidence interval. O(n)."""
        found = mean_over((dot.origin, dot.value) for dot in self.dots)
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class Chart:
    """Boxes of one figure: a row of panels per family, a column per value of the second axis, categories of the first.

    `reference` is the category of the baseline if it is not a value of the axis, else empty. `n_undefined` pairs have
    no ratio, because the baseline's value is 0. `heading` is the title in the campaign's file. With `each`, a field of
    jobs, a dot is one value of the field in a run (such as a user), otherwise it is a run. Charts of one measure have
    the same axis of values, unless `axis` is "own".
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
    axis: Literal["same", "own"] = "same"

    @property
    def is_ratio(self) -> bool:
        """Whether values are divided by those of the baseline."""
        return bool(self.baseline)

    @property
    def measure_title(self) -> str:
        """The title of the figure; for a ratio without its unit."""
        title, unit = name_and_unit(self.figure)
        return f"{title}{f' of each {self.each}' if self.each else ''}{'' if self.is_ratio else unit}"

    @property
    def title(self) -> str:
        """The title of the chart."""
        if self.heading:
            return f"{self.heading} ({self.subject})" if self.subject else self.heading
        return f"{self.measure_title}, over that of {self.baseline}" if self.is_ratio else self.measure_title

    def setting_text(self, box: Box) -> str:
        """Return the setting of a box as text."""
        if box.category == self.reference:
            return box.category.strip()
        parts = [f"{self.x_title} {box.category}", *([f"{self.column_title} {box.column}"] if box.column else [])]
        return ", ".join(parts)

    def lines(self, n_boxes: int) -> list[tuple[str, tuple[str, ...]]]:
        """Return families with the columns that are side by side, so that a line has at most `n_boxes` if possible."""
        n_most = max(n_boxes // len(self.categories), 1)
        n_lines = -(-len(self.columns) // n_most)
        n_each = -(-len(self.columns) // n_lines)
        parts = [self.columns[i : i + n_each] for i in range(0, len(self.columns), n_each)]
        return [(row, part) for row in self.rows for part in parts]

    def panel(self, row: str, column: str) -> list[Box]:
        """Return the boxes of one panel, in the order of the axis."""
        found = {box.category: box for box in self.boxes if (box.row, box.column) == (row, column)}
        return [found[category] for category in self.categories if category in found]


def dodge(k: int) -> float:
    """Return the offset of the k-th dot from the middle of its box, at most 0.25: dots must not hide each other.

    >>> [round(dodge(k), 2) for k in range(4)]
    [0.0, -0.19, 0.12, -0.07]
    """
    return ((k * 0.6180339887498949 + 0.5) % 1.0 - 0.5) * 0.5
