"""Means over the runs of a campaign, with their confidence intervals. Nothing is drawn.

An interval is about what differs by chance: the *weeks* of a log (or several workloads of a family, whatever they are),
each with the mean over its seeds, or else the *seeds* of one workload. Values of one week are not independent of each
other, so that seeds of weeks do not make an interval narrower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pybatsched.errors import quantity
from pybatsched.metrics.confidence import Estimate, estimate
from pybatsched.report.campaign.axes import setting_axis
from pybatsched.report.campaign.points import Origin, Point


@dataclass(frozen=True, slots=True)
class Mean(Estimate):
    """A mean with its interval, over so many weeks, seeds, …; `unit` is one of them."""

    unit: str = "run"

    @property
    def told_n(self) -> str:
        """How many values it is of, as people say it.

        >>> Mean(3, 1.0, 0.5, "seed").told_n, Mean(1, 1.0, None, "run").told_n
        ('3 seeds', '1 run')
        """
        return quantity(self.n, self.unit)


def mean_over(values: Iterable[tuple[Origin, float]]) -> Mean | None:
    """Give the mean of values that come from runs; None if there are none. O(n).

    >>> mean_over([(Origin("a-week01", 1), 1.0), (Origin("a-week01", 2), 3.0), (Origin("a-week02", 1), 2.0)])
    Mean(n=2, mean=2.0, half=0.0, unit='week')
    """
    found = list(values)
    origins = [origin for origin, _ in found]
    if len({origin.workload for origin in origins}) > 1:
        unit = "week" if all(origin.is_week for origin in origins) else "workload"
        of_unit = [origin.workload for origin in origins]
    else:
        unit = "run" if any(origin.repeat for origin in origins) else "seed"
        of_unit = [f"{origin.seed} {origin.repeat}" for origin in origins]
    groups: dict[str, list[float]] = {}
    for name, (_, value) in zip(of_unit, found, strict=True):
        groups.setdefault(name, []).append(value)
    told = estimate(sum(group) / len(group) for group in groups.values())
    if told is None:
        return None
    return Mean(told.n, told.mean, told.half, unit if told.n > 1 else "run")


class Row(NamedTuple):
    """A row of a table of means: family and platform where there are several, the policy, its runs, and means.

    The policy is told by the options in which its settings differ, `setting` is with all of them.
    """

    names: tuple[str, ...]
    setting: str
    n_runs: int
    means: tuple[Mean | None, ...]


class Table(NamedTuple):
    """Means by family, platform and setting. `heads` are those of the names of rows, `figures` those of their means.

    If they `are_ratios`, they are of ratios of such figures, which have no unit.
    """

    heads: tuple[str, ...]
    figures: tuple[str, ...]
    rows: tuple[Row, ...]
    are_ratios: bool = False


def means_of(points: Sequence[Point], figures: Sequence[str], baseline: str = "") -> Table:
    """Give the table of means of such figures, rows in the order of the campaign. Points with one address count once.

    With a baseline, a setting, means are of ratios: each value over that of the baseline on the same workload,
    platform, seed and repeat. The baseline itself, and figures and settings without any ratio, are left out then.
    O(points x figures).
    """
    words = setting_axis(points).words
    several = [name for name in ("family", "platform") if len({getattr(point, name) for point in points}) > 1]
    base = {point.key: point for point in points if point.setting == baseline and point.figures is not None}
    groups: dict[tuple[str, ...], dict[tuple[str, str], tuple[Point, Point | None]]] = {}
    for point in points:
        partner = base.get(point.key)
        if point.figures is not None and not (baseline and (partner is None or point.setting == baseline)):
            names = (*(getattr(point, name) for name in several), point.setting)
            runs = point.address, partner.address if partner is not None else ""
            groups.setdefault(names, {}).setdefault(runs, (point, partner))
    rows = []
    for names, pairs in groups.items():
        means = tuple(mean_over(_values(pairs.values(), figure)) for figure in figures)
        if not baseline or any(mean is not None for mean in means):
            rows.append(Row((*names[:-1], words[names[-1]]), names[-1], len(pairs), means))
    titles = {"family": "workload", "platform": "platform"}
    kept = [k for k in range(len(figures)) if not baseline or any(row.means[k] is not None for row in rows)]
    return Table(
        (*(titles[name] for name in several), "policy"),
        tuple(figures[k] for k in kept),
        tuple(row._replace(means=tuple(row.means[k] for k in kept)) for row in rows),
        are_ratios=bool(baseline),
    )


def _values(pairs: Iterable[tuple[Point, Point | None]], figure: str) -> Iterator[tuple[Origin, float]]:
    """Give the values of a figure, over those of partners where there are partners; nothing is divided by 0."""
    for point, partner in pairs:
        value, below = point.value(figure), 1.0 if partner is None else partner.value(figure)
        if value is not None and below:
            yield point.origin, value / below
