"""What the pictures of a campaign show: samples by parameter, and ratios to a baseline. Data only, nothing is drawn.

A *family* is a workload of the campaign's file; its weeks and seeds are the sample of a box. The *axes* of a policy are
its options that have several values, and the platform if there are several: the option with most values is along the
chart, the next axis makes columns, any further ones a chart for each of their values. What other axes determine is no
axis: where each alpha has a platform of its own, alpha is enough.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.classes import MEASURES, title_of
from pybatsched.metrics.distributions import Distribution, distribution

#: What is drawn of a campaign, the most telling first.
FIGURES: Final = ("bounded_slowdown_mean", "wait_s_mean", "bounded_slowdown_max", "utilisation")
_LOG_FROM: Final = 20.0
_WEEK: Final = re.compile(r"-week[0-9]{2,}$")
_UNSET: Final = "not set"


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a campaign. Points with one address are one run.

    `figures` is None while it is not done; if it failed, `error` says why.
    """

    workload: str
    family: str
    platform: str
    policy: str
    options: Mapping[str, Any]
    seed: int
    repeat: int
    address: str
    figures: Mapping[str, Any] | None
    error: str | None = None

    @property
    def setting(self) -> str:
        """The policy with its options, as people call it."""
        words = ", ".join(f"{key}={_shown(value)}" for key, value in self.options.items())
        return f"{self.policy} ({words})" if words else self.policy

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What two points have in common that differ in nothing but the policy."""
        return self.workload, self.platform, self.seed, self.repeat

    def value(self, figure: str) -> float | None:
        """Give one of its figures; None if it is not done, or has none."""
        found = self.figures.get(figure) if self.figures is not None else None
        return None if found is None else float(found)


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
    have no ratio, because the baseline's value is 0.
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

    @property
    def is_ratio(self) -> bool:
        """Whether values are divided by those of the baseline."""
        return bool(self.baseline)

    @property
    def measure_title(self) -> str:
        """The figure for people; of a ratio without its unit."""
        title = figure_title(self.figure)
        return title.removesuffix(" (s)") if self.is_ratio else title

    @property
    def title(self) -> str:
        """What is drawn, for people."""
        return f"{self.measure_title}, over that of {self.baseline}" if self.is_ratio else self.measure_title

    @property
    def is_log(self) -> bool:
        """Whether values are so far apart that an axis by powers of ten shows more of them."""
        values = [dot.value for box in self.boxes for dot in box.dots]
        return min(values) > 0 and max(values) > _LOG_FROM * min(values)

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

    >>> log_ticks(0.9, 12.0), log_ticks(3.0, 5000.0)
    ([1.0, 2.0, 5.0, 10.0], [10.0, 100.0, 1000.0])
    """
    steps = (1, 2, 5) if high < 300 * low else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def means_of(points: Sequence[Point], figures: Sequence[str]) -> tuple[list[str], list[list[Any]]]:
    """Give a table of means by family, platform and setting: its head, and its rows in the order of the campaign.

    Families and platforms are told where there are several. Points with one address count once.
    """
    several = [name for name in ("family", "platform") if len({getattr(point, name) for point in points}) > 1]
    groups: dict[tuple[str, ...], dict[str, Point]] = {}
    for point in points:
        if point.figures is not None:
            key = (*(getattr(point, name) for name in several), point.setting)
            groups.setdefault(key, {})[point.address] = point
    rows: list[list[Any]] = []
    for key, members in groups.items():
        found = [
            [value for point in members.values() if (value := point.value(figure)) is not None] for figure in figures
        ]
        rows.append([*key, len(members), *(sum(values) / len(values) if values else None for values in found)])
    titles = {"family": "workload", "platform": "platform"}
    return [*(titles[name] for name in several), "policy", "runs", *map(figure_title, figures)], rows


def dodge(k: int) -> float:
    """Give how far from the middle of its box the k-th dot goes, so that dots do not hide each other; at most 0.25.

    >>> [round(dodge(k), 2) for k in range(4)]
    [0.0, -0.19, 0.12, -0.07]
    """
    return ((k * 0.6180339887498949 + 0.5) % 1.0 - 0.5) * 0.5


def points_of(store: Store) -> list[Point]:
    """Give all points of a campaign, done or not, in the order of its file. Raises InputError if there is none."""
    manifest = store.manifest()
    names = [str(part["name"]) for part in manifest["spec"]["workload"]]
    results = store.results(point["address"] for point in manifest["points"])
    points = []
    for row in manifest["points"]:
        result = results.get(row["address"], {})
        own = {name: row[name] for name in ("workload", "platform", "policy", "options", "seed", "repeat", "address")}
        points.append(
            Point(
                family=family_of(row["workload"], names),
                figures=result.get("figures"),
                error=result.get("error"),
                **own,
            )
        )
    return points


def family_of(workload: str, names: Iterable[str]) -> str:
    """Give the workload of the campaign's file that a prepared one comes from.

    >>> family_of("curie-week07", ["curie", "ricc"]), family_of("curie-week07", ["curie", "curie-week07"])
    ('curie', 'curie-week07')
    """
    known = set(names)
    stem = _WEEK.sub("", workload)
    return stem if workload not in known and (stem in known or not known) else workload


def figure_title(figure: str) -> str:
    """Name a figure of the table for people.

    >>> figure_title("wait_s_mean"), figure_title("utilisation")
    ('mean wait (s)', 'utilisation')
    """
    measure, _, statistic = figure.rpartition("_")
    return f"{statistic} {title_of(measure)}" if measure in MEASURES else title_of(figure)


def baseline_of(points: Sequence[Point], name: str = "") -> str:
    """Give the setting that others are compared with: the one named, by label or with its options, or the first.

    Of a policy with several settings it is the first one. Empty if there is but one setting. Raises InputError.
    """
    settings = {point.setting: point.policy for point in points}
    for setting, policy in settings.items():
        if name in {setting, policy, ""}:
            return setting if len(settings) > 1 else ""
    known = ", ".join(dict.fromkeys([*settings.values(), *settings]))
    raise InputError(f"baseline {name!r:.60}: expected one of {known}")


def charts_of(
    points: Sequence[Point], figure: str, baseline: str = "", *, ratios: bool = False, only: str = ""
) -> list[Chart]:
    """Give the charts of a figure: those of each policy with several values of options, then that of all others.

    With `only`, just those of one policy. With `ratios`, values over those of the baseline on the same workload,
    platform, seed and repeat. A chart without values is left out. O(points).
    """
    by_policy: dict[str, list[Point]] = {}
    for point in points:
        if only in {"", point.policy}:
            by_policy.setdefault(point.policy, []).append(point)
    plain: list[Point] = []
    charts = []
    about = _About(
        figure,
        baseline,
        {point.key: point for point in points if point.setting == baseline},
        len({(point.seed, point.repeat) for point in points}) > 1,
    )
    for policy, own in by_policy.items():
        axes = _axes(own)
        if axes and axes[0].kind == "option":
            charts += _sheets(about, policy, own, axes, ratios=ratios)
        else:
            plain += own
    if charts and all(point.setting == baseline for point in plain):
        plain = []  # it is in the other charts
    if plain:
        axes = [_Axis("policy", "policy", tuple(dict.fromkeys(point.policy for point in plain)))]
        axes += [axis for axis in [_platform_axis(plain)] if len(axis.values) > 1]
        charts += _sheets(about, "", plain, axes, ratios=ratios)
    return [chart for chart in charts if chart.boxes]


class _Axis(NamedTuple):
    kind: Literal["option", "platform", "policy"]
    name: str
    values: tuple[str, ...]

    def of(self, point: Point) -> str:
        """Give the value of a point, as it is shown."""
        if self.kind == "option":
            return _shown(point.options[self.name]) if self.name in point.options else _UNSET
        return point.platform if self.kind == "platform" else point.policy


class _About(NamedTuple):
    figure: str
    baseline: str
    base: Mapping[tuple[str, str, int, int], Point]
    has_seeds: bool


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _axes(points: Sequence[Point]) -> list[_Axis]:
    """Give the axes of a policy: options by number of values, then the platform, without what others determine."""
    names = dict.fromkeys(name for point in points for name in point.options)
    options = [_option_axis(name, points) for name in names]
    options.sort(key=lambda axis: -len(axis.values))
    kept: list[_Axis] = []
    for axis in [*options, _platform_axis(points)]:
        if len(axis.values) > 1 and not _is_determined(axis, kept, points):
            kept.append(axis)
    return kept


def _option_axis(name: str, points: Sequence[Point]) -> _Axis:
    """Sort numbers by size; others stay in the order of the file, after them. What is not set comes first."""
    found = {_shown(point.options[name]): point.options[name] for point in points if name in point.options}
    numbers = [text for text, value in found.items() if isinstance(value, int | float) and not isinstance(value, bool)]
    others = [text for text in found if text not in numbers]
    unset = [_UNSET] if any(name not in point.options for point in points) and _UNSET not in found else []
    return _Axis("option", name, (*unset, *sorted(numbers, key=float), *others))


def _platform_axis(points: Sequence[Point]) -> _Axis:
    return _Axis("platform", "platform", tuple(dict.fromkeys(point.platform for point in points)))


def _is_determined(axis: _Axis, by: Sequence[_Axis], points: Sequence[Point]) -> bool:
    seen: dict[tuple[str, ...], str] = {}
    return all(seen.setdefault(tuple(a.of(p) for a in by), axis.of(p)) == axis.of(p) for p in points)


def _sheets(about: _About, policy: str, points: Sequence[Point], axes: Sequence[_Axis], *, ratios: bool) -> list[Chart]:
    """Make a chart for each combination of the values of all axes but two."""
    charts = []
    for values in itertools.product(*(axis.values for axis in axes[2:])):
        own = [p for p in points if all(axis.of(p) == value for axis, value in zip(axes[2:], values, strict=True))]
        words = [f"{axis.name}={value}" for axis, value in zip(axes[2:], values, strict=True)]
        charts.append(_chart(about, ", ".join([policy, *words] if policy else words), own, axes[:2], ratios=ratios))
    return charts


def _chart(about: _About, subject: str, points: Sequence[Point], axes: Sequence[_Axis], *, ratios: bool) -> Chart:
    x, column = axes[0], axes[1] if len(axes) > 1 else None
    if ratios and x.kind == "policy":  # the baseline over itself tells nothing; within a grid it keeps its place
        points = [point for point in points if point.setting != about.baseline]
    samples: dict[tuple[str, str, str], dict[tuple[str, str], Dot]] = {}
    reference = "" if ratios or any(p.setting == about.baseline for p in points) else about.baseline
    while reference in x.values:
        reference += " "
    undefined = set()
    for point in points:
        at = point.family, column.of(point) if column is not None else ""
        base = about.base.get(point.key)
        value, below = point.value(about.figure), base.value(about.figure) if base is not None else None
        seeds = f", seed {point.seed}{f' repeat {point.repeat}' if point.repeat else ''}" if about.has_seeds else ""
        name = f"{point.workload}{seeds}"
        if reference and base is not None and below is not None:
            samples.setdefault((*at, reference), {}).setdefault((base.address, ""), Dot(below, name))
        if value is None or (ratios and below is None):
            continue
        run = point.address, base.address if ratios and base is not None else ""
        found = samples.setdefault((*at, x.of(point)), {})
        if not ratios:
            found.setdefault(run, Dot(value, name))
        elif below:
            found.setdefault(run, Dot(value / below, name))
        else:
            undefined.add(run)
    grey = {reference, *(x.of(point) for point in points if point.setting == about.baseline)} - {""}
    boxes = [Box(*at, tuple(dots.values()), at[2] in grey and not ratios) for at, dots in samples.items() if dots]
    there = {(box.row, box.column, box.category) for box in boxes}
    return Chart(
        subject=subject,
        figure=about.figure,
        baseline=about.baseline if ratios else "",
        x_title=x.name,
        column_title=column.name if column is not None else "",
        rows=tuple(dict.fromkeys(box.row for box in boxes)),
        columns=tuple(c for c in (column.values if column is not None else ("",)) if c in {at[1] for at in there}),
        categories=tuple(c for c in (reference, *x.values) if c in {at[2] for at in there}),
        boxes=tuple(boxes),
        reference=reference,
        n_undefined=len(undefined),
    )
