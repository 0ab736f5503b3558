"""Means over the runs of a campaign, with their confidence intervals. Nothing is drawn.

An interval is about what differs by chance: the *weeks* of a log (or several workloads of a family, whatever they are),
each with the mean over its seeds, or else the *seeds* of one workload. Values of one week are not independent of each
other, so that seeds of weeks do not make an interval narrower.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pybatsched.errors import quantity
from pybatsched.metrics.confidence import Estimate, estimate
from pybatsched.report import html as tables
from pybatsched.report.campaign.axes import setting_axis
from pybatsched.report.campaign.points import Origin, Point, figure_title, name_and_unit


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


def written(told: Table, name: str, around: float | None = None) -> str:
    """Write a table: means with half their intervals beside them. O(cells).

    How many jobs there are has none: it is given, not measured. What is on one side of `around` with its whole interval
    is bold.
    """
    with_runs = any(row.n_runs != _largest_n(row)[0] for row in told.rows)
    is_wide = [
        figure != "n_jobs" and any(mean is not None and mean.half is not None for mean in column)
        for figure, column in zip(told.figures, zip(*(row.means for row in told.rows), strict=True), strict=True)
    ]
    heads = [f'<th class="text">{html.escape(head)}</th>' for head in told.heads]
    heads += ["<th>runs</th>", "<th>n</th>"] if with_runs else ["<th>n</th>"]
    for figure, wide in zip(told.figures, is_wide, strict=True):
        title = name_and_unit(figure)[0] if told.are_ratios else figure_title(figure)
        heads.append(f"<th{' colspan=2' if wide else ''}>{html.escape(title)}</th>")
    body = []
    for row in told.rows:
        n, words = _largest_n(row)
        cells = [f'<td class="text">{html.escape(word)}</td>' for word in row.names[:-1]]
        cells.append(f'<td class="text" title="{html.escape(row.setting)}">{html.escape(row.names[-1])}</td>')
        cells += [f"<td>{row.n_runs:,}</td>"] if with_runs else []
        cells.append(f'<td class="n">{words}</td>')
        cells += [_cells(mean, n, around, wide=wide) for mean, wide in zip(row.means, is_wide, strict=True)]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide beyond"><table class="means" id="{name}"><thead><tr>{"".join(heads)}</tr></thead>\n<tbody>\n'
        + "\n".join(body)
        + "\n</tbody></table></div>"
    )


def _largest_n(row: Row) -> tuple[int, str]:
    """Give the largest n of a row, and the words for it."""
    return max(((mean.n, mean.told_n) for mean in row.means if mean is not None), default=(0, "-"))


def _cells(mean: Mean | None, n: int, around: float | None, *, wide: bool) -> str:
    """Write a mean, and half its interval in a cell of its own; with its n where others of the row have more."""
    if mean is None:
        return "<td>-</td><td></td>" if wide else "<td>-</td>"
    words, half = with_half(mean) if wide else (tables.number(mean.mean), "")
    is_sure = around is not None and mean.half is not None and not mean.low <= around <= mean.high
    told = f' title="{mean.low:,.6g} to {mean.high:,.6g}, n = {mean.told_n}"' if half else ""
    fewer = f" (n = {mean.n:,})" if mean.n < n else ""
    cell = f"<td{told}>{f'<b>{words}</b>' if is_sure else words}{fewer}</td>"
    return f'{cell}<td class="half"{told}>{f"± {half}" if half else ""}</td>' if wide else cell


def with_half(mean: Mean) -> tuple[str, str]:
    """Write a mean and half its interval with as many digits after the point: of the mean four count, of the half two.

    >>> with_half(Mean(3, 92.8712, 143.2)), with_half(Mean(3, 2.0, 2.484)), with_half(Mean(3, 0.6877123, 0.000123))
    (('92.87', '143.20'), ('2.000', '2.484'), ('0.68771', '0.00012'))
    >>> with_half(Mean(3, 95317.4, 148243.2)), with_half(Mean(3, 95317.4, 1.25)), with_half(Mean(1, 0.0, None))
    (('95,317', '148,243'), ('95,317.4', '1.2'), ('0', ''))
    """
    if mean.half is None:
        return tables.number(mean.mean), ""
    digits = max(_digits(mean.mean, 4), _digits(mean.half, 2))
    return f"{mean.mean:,.{digits}f}", f"{mean.half:,.{digits}f}"


def _digits(value: float, n: int) -> int:
    """Give how many digits after the point show so many that count; not more than nine."""
    return min(max(n - 1 - math.floor(math.log10(abs(value))), 0), 9) if value else 0
