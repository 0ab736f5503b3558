"""Compute means over the runs of a campaign, with their confidence intervals. This module draws nothing.

The sample of an interval are the *weeks* of a log (or the workloads of a family), each with the mean over its seeds, or
else the *seeds* of one workload. Values of one week are not independent, so seeds of weeks do not make an interval
narrower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pybatsched.errors import quantity
from pybatsched.metrics.compare.confidence import Estimate, estimate
from pybatsched.metrics.compare.paired import PAIRED_BY, other_jobs
from pybatsched.report.campaign.axes import setting_axis
from pybatsched.report.campaign.points import Origin, Point


@dataclass(frozen=True, slots=True)
class Mean(Estimate):
    """A mean with its interval; `unit` is the unit of its sample: week, seed, …."""

    unit: str = "run"

    @property
    def n_text(self) -> str:
        """The number of values with its unit.

        >>> Mean(3, 1.0, 0.5, "seed").n_text, Mean(1, 1.0, None, "run").n_text
        ('3 seeds', '1 run')
        """
        return quantity(self.n, self.unit)


def mean_over(values: Iterable[tuple[Origin, float]]) -> Mean | None:
    """Return the mean of values of runs; None if there are no values. O(n).

    >>> mean_over([(Origin("a-week01", 1), 1.0), (Origin("a-week01", 2), 3.0), (Origin("a-week02", 1), 2.0)])
    Mean(n=2, mean=2.0, half=0.0, unit='week')
    """
    found = list(values)
    origins = [origin for origin, _ in found]
    if len({origin.unit for origin in origins}) > 1:
        unit = "week" if all(origin.is_week for origin in origins) else "workload"
        of_unit = [origin.unit for origin in origins]
    elif len({origin.workload for origin in origins}) > 1:
        unit = "shake"
        of_unit = [origin.workload for origin in origins]
    else:
        unit = "run" if any(origin.repeat for origin in origins) else "seed"
        of_unit = [f"{origin.seed} {origin.repeat}" for origin in origins]
    groups: dict[str, list[float]] = {}
    for name, (_, value) in zip(of_unit, found, strict=True):
        groups.setdefault(name, []).append(value)
    result = estimate(sum(group) / len(group) for group in groups.values())
    if result is None:
        return None
    return Mean(result.n, result.mean, result.half, unit if result.n > 1 else "run")


class MeansRow(NamedTuple):
    """A row of a table of means: family and platform where there are several, the policy, its runs, and means.

    The policy is named by the options in which its settings differ; `setting` has all options. `other_jobs` says how
    many jobs ran if these are fewer than under another policy, or how many did under the baseline.
    """

    names: tuple[str, ...]
    setting: str
    n_runs: int
    means: tuple[Mean | None, ...]
    other_jobs: str = ""


class MeansTable(NamedTuple):
    """Means by family, platform and setting. With `are_ratios`, of ratios of figures, without units."""

    heads: tuple[str, ...]
    figures: tuple[str, ...]
    rows: tuple[MeansRow, ...]
    are_ratios: bool = False


def means_of(points: Sequence[Point], figures: Sequence[str], baseline: str = "") -> MeansTable:
    """Return the table of means of figures, rows in the order of the campaign. Points with one address count once.

    With a baseline (a setting), they are means of ratios: each value over that of the baseline on the same workload,
    platform, seed and repeat. The baseline itself, and figures and settings without any ratio, are left out.
    O(points x figures).
    """
    titles_of_settings = setting_axis(points).titles
    several = [name for name in ("family", "platform") if len({getattr(point, name) for point in points}) > 1]
    base = {point.key: point for point in points if point.setting == baseline and point.figures is not None}
    groups: dict[tuple[str, ...], dict[tuple[str, str], tuple[Point, Point | None]]] = {}
    runs: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for point in points:
        partner = base.get(point.key)
        if point.figures is None:
            continue
        names = (*(getattr(point, name) for name in several), point.setting)
        of_point = dict(zip(PAIRED_BY, point.key, strict=True))
        runs.setdefault(names, []).append({**of_point, **point.figures})
        if not (baseline and (partner is None or point.setting == baseline)):
            pair = point.address, partner.address if partner is not None else ""
            groups.setdefault(names, {}).setdefault(pair, (point, partner))
    marks = other_jobs(runs, lambda names: names[:-1])
    of_base = {names[:-1]: f"{text} under the baseline" for names, text in marks.items() if names[-1] == baseline}
    rows = []
    for names, pairs in groups.items():
        means = tuple(mean_over(_values(pairs.values(), figure)) for figure in figures)
        if not baseline or any(mean is not None for mean in means):
            rows.append(
                MeansRow(
                    (*names[:-1], titles_of_settings[names[-1]]),
                    names[-1],
                    len(pairs),
                    means,
                    marks.get(names) or of_base.get(names[:-1], ""),
                )
            )
    titles = {"family": "workload", "platform": "platform"}
    kept = [k for k in range(len(figures)) if not baseline or any(row.means[k] is not None for row in rows)]
    return MeansTable(
        (*(titles[name] for name in several), "policy"),
        tuple(figures[k] for k in kept),
        tuple(row._replace(means=tuple(row.means[k] for k in kept)) for row in rows),
        are_ratios=bool(baseline),
    )


def _values(pairs: Iterable[tuple[Point, Point | None]], figure: str) -> Iterator[tuple[Origin, float]]:
    """Yield the values of a figure, divided by those of the partners if there are any; none is divided by 0."""
    for point, partner in pairs:
        value, below = point.value(figure), 1.0 if partner is None else partner.value(figure)
        if value is not None and below:
            yield point.origin, value / below


def differences_of(points: Sequence[Point], figures: Sequence[str], baseline: str) -> list[dict[str, Any]]:
    """Return the differences of all settings to a baseline, with verdicts. Raises InputError."""
    from pybatsched.metrics.compare import bootstrap  # noqa: PLC0415  it needs extras

    titles = setting_axis(points).titles
    several = len({point.platform for point in points}) > 1
    rows = [
        {
            **point.figures,
            "workload": point.workload,
            "family": f"{point.family}, {point.platform}" if several else point.family,
            "platform": point.platform,
            "policy": titles[point.setting],
            "setting": point.setting,
            "seed": point.seed,
            "repeat": point.repeat,
            "address": point.address,
        }
        for point in points
        if point.figures is not None
    ]
    return bootstrap.against(rows, lambda row: row["setting"] == baseline, ("family", "policy"), figures)
