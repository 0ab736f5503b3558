"""Which charts there are of a campaign: samples by parameter, and ratios to a baseline. Nothing is drawn.

A *family* is a workload of the campaign's file; its weeks and seeds are the sample of a box. The *axes* of a policy are
its options that have several values, and the platform if there are several: the option with most values is along the
chart, the next axis makes columns, any further ones a chart for each of their values. What other axes determine is no
axis: where each alpha has a platform of its own, alpha is enough.

A campaign's file may name its charts. Then `by` says what is along each, and whatever else tells the chosen points
apart makes columns and charts in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pybatsched.campaign.spec import ChartSpec
from pybatsched.metrics.fields import as_choices, is_like
from pybatsched.report.campaign.axes import (
    Axis,
    axes_of,
    option_axes,
    option_axis,
    platform_axis,
    policy_axis,
    setting_axis,
    undetermined,
)
from pybatsched.report.campaign.boxes import Box, Chart, Dot
from pybatsched.report.campaign.points import Point, baseline_of


def charts_of(
    points: Sequence[Point], figure: str, baseline: str = "", *, ratios: bool = False, only: str = "", each: str = ""
) -> list[Chart]:
    """Give the charts of a figure: those of each policy with several values of options, then that of all others.

    With `only`, just those of one policy. With `ratios`, values over those of the baseline on the same workload,
    platform, seed and repeat. With `each`, a field of jobs, a dot is one of its values in a run. A chart without values
    is left out. O(points).
    """
    by_policy: dict[str, list[Point]] = {}
    for point in points:
        if only in {"", point.policy}:
            by_policy.setdefault(point.policy, []).append(point)
    plain: list[Point] = []
    charts = []
    about = _about(points, figure, baseline, each)
    for policy, own in by_policy.items():
        axes = axes_of(own)
        if axes and axes[0].kind == "option":
            charts += _sheets(about, policy, own, axes, ratios=ratios)
        else:
            plain += own
    if charts and all(point.setting == baseline for point in plain):
        plain = []  # it is in the other charts
    if plain:
        platforms = platform_axis(plain)
        axes = [policy_axis(plain), *([platforms] if len(platforms.values) > 1 else [])]
        charts += _sheets(about, "", plain, axes, ratios=ratios)
    return [chart for chart in charts if chart.boxes]


def named_charts(points: Sequence[Point], wanted: ChartSpec) -> list[Chart]:
    """Give a chart that the campaign's file names: one, or one for each value of its third axis and further ones.

    None if no chosen point has the figure (or a partner of the policy that it is to be divided by). O(points).
    """
    chosen = [point for point in points if _is_chosen(point, wanted.where)]
    if wanted.by not in {"policy", "platform"}:
        chosen = [point for point in chosen if wanted.by in point.options]
    axes = _axes_by(wanted.by, chosen)
    baseline = baseline_of(points, wanted.over) if wanted.over else ""
    if wanted.over and not baseline:
        return []
    charts = _sheets(_about(points, wanted.figure, baseline, wanted.each), "", chosen, axes, ratios=bool(baseline))
    return [
        replace(chart, heading=wanted.title, scale=wanted.scale, axis=wanted.axis) for chart in charts if chart.boxes
    ]


def _axes_by(name: str, points: Sequence[Point]) -> list[Axis]:
    """Give the axis of that name, and those that are needed besides it to tell points apart."""
    others = [policy_axis(points), *option_axes(points), platform_axis(points)]
    if name == "policy":
        first, others = setting_axis(points), [platform_axis(points)]
    else:
        first = platform_axis(points) if name == "platform" else option_axis(name, points)
    return [first, *(axis for axis in undetermined([first, *others], points) if axis != first)]


def _is_chosen(point: Point, where: Mapping[str, Any]) -> bool:
    """Whether a point is as a chart wants it: each member one of its values, texts by patterns."""
    for name, wanted in where.items():
        if name == "workload":
            found = [point.workload, point.family]
        elif name in {"platform", "policy"}:
            found = [getattr(point, name)]
        else:
            found = [point.options[name]] if name in point.options else []
        if not any(is_like(value, choice) for value in found for choice in as_choices(wanted)):
            return False
    return True


class _About(NamedTuple):
    figure: str
    baseline: str
    base: Mapping[tuple[str, str, int, int], Point]
    has_seeds: bool
    each: str


def _about(points: Sequence[Point], figure: str, baseline: str, each: str) -> _About:
    base = {point.key: point for point in points if point.setting == baseline}
    return _About(figure, baseline, base, len({(point.seed, point.repeat) for point in points}) > 1, each)


def _sheets(about: _About, policy: str, points: Sequence[Point], axes: Sequence[Axis], *, ratios: bool) -> list[Chart]:
    """Make a chart for each combination of the values of all axes but two."""
    charts = []
    for values in itertools.product(*(axis.values for axis in axes[2:])):
        own = [p for p in points if all(axis.of(p) == value for axis, value in zip(axes[2:], values, strict=True))]
        words = [f"{axis.name}={value}" for axis, value in zip(axes[2:], values, strict=True)]
        charts.append(_chart(about, ", ".join([policy, *words] if policy else words), own, axes[:2], ratios=ratios))
    return charts


def _chart(about: _About, subject: str, points: Sequence[Point], axes: Sequence[Axis], *, ratios: bool) -> Chart:
    x, column = axes[0], axes[1] if len(axes) > 1 else None
    if ratios and x.kind == "policy":  # the baseline over itself tells nothing; within a grid it keeps its place
        points = [point for point in points if point.setting != about.baseline]
    samples: dict[tuple[str, str, str], dict[tuple[str, str, str], Dot]] = {}
    reference = ""
    if about.baseline and not ratios and all(point.setting != about.baseline for point in points):
        reference = f"{about.baseline} (baseline)"  # a value of an option may have the name of a policy
    while reference in x.values:
        reference += " "
    undefined = set()
    for point in points:
        at = point.family, column.of(point) if column is not None else ""
        base = about.base.get(point.key)
        below = base.sample(about.figure, about.each) if base is not None else {}
        seeds = f", seed {point.seed}{f' repeat {point.repeat}' if point.repeat else ''}" if about.has_seeds else ""
        name = f"{point.workload}{seeds}"
        if reference and base is not None:
            grey_dots = samples.setdefault((*at, reference), {})
            for part, value in below.items():
                grey_dots.setdefault((base.address, "", part), Dot(value, _named(about, part, name), base.origin))
        found = samples.setdefault((*at, x.of(point)), {})
        for part, value in point.sample(about.figure, about.each).items():
            if ratios and part not in below:
                continue
            run = point.address, base.address if ratios and base is not None else "", part
            if not ratios:
                found.setdefault(run, Dot(value, _named(about, part, name), point.origin))
            elif below[part]:
                found.setdefault(run, Dot(value / below[part], _named(about, part, name), point.origin))
            else:
                undefined.add(run)
    grey = {reference, *(x.of(point) for point in points if point.setting == about.baseline)} - {""}
    boxes = [Box(*at, tuple(dots.values()), at[2] in grey) for at, dots in samples.items() if dots]
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
        each=about.each,
    )


def _named(about: _About, part: str, run: str) -> str:
    """Name a dot: by its run, and which user of it, say."""
    return f"{about.each} {part}, {run}" if about.each else run
