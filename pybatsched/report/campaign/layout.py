"""Choose the charts of a campaign: samples by parameter, and ratios to a baseline. This module draws nothing.

A *family* is a workload of the campaign's file; its weeks and seeds are the sample of a box. The *axes* of a policy are
its options that have several values, and the platform if there are several. The option with most values is along the
chart, the next axis has a column per value, and further axes have a chart per value. An axis that other axes determine
is left out: if each alpha has its own platform, alpha is enough.

A campaign's file may name its charts. Then `by` is the axis along each chart, and the other axes in which the selected
points differ become columns and charts in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pybatsched.campaign.spec import ChartSpec
from pybatsched.metrics.workload_fields import as_choices, matches
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
    """Return the charts of a figure: those of each policy with several values of options, then one of all others.

    With `only`, the charts of one policy. With `ratios`, values over those of the baseline on the same workload,
    platform, seed and repeat. With `each`, a field of jobs, a dot is one value of the field in a run. Charts without
    values are left out. O(points).
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
            charts += _charts(about, policy, own, axes, ratios=ratios)
        else:
            plain += own
    if charts and all(point.setting == baseline for point in plain):
        plain = []  # the other charts contain the baseline
    if plain:
        platforms = platform_axis(plain)
        axes = [policy_axis(plain), *([platforms] if len(platforms.values) > 1 else [])]
        charts += _charts(about, "", plain, axes, ratios=ratios)
    return [chart for chart in charts if chart.boxes]


def named_charts(points: Sequence[Point], wanted: ChartSpec) -> list[Chart]:
    """Return a chart of the campaign's file: one for each value of its third and further axes. O(points)."""
    chosen = [point for point in points if _is_chosen(point, wanted.where)]
    if wanted.by not in {"policy", "platform"}:
        chosen = [point for point in chosen if wanted.by in point.options]
    axes = _axes_by(wanted.by, chosen)
    baseline = baseline_of(points, wanted.over) if wanted.over else ""
    if wanted.over and not baseline:
        return []
    charts = _charts(_about(points, wanted.figure, baseline, wanted.each), "", chosen, axes, ratios=bool(baseline))
    return [
        replace(chart, heading=wanted.title, scale=wanted.scale, axis=wanted.axis) for chart in charts if chart.boxes
    ]


def _axes_by(name: str, points: Sequence[Point]) -> list[Axis]:
    """Return the axis of that name, and the other axes in which points differ."""
    others = [policy_axis(points), *option_axes(points), platform_axis(points)]
    if name == "policy":
        first, others = setting_axis(points), [platform_axis(points)]
    else:
        first = platform_axis(points) if name == "platform" else option_axis(name, points)
    return [first, *(axis for axis in undetermined([first, *others], points) if axis != first)]


def _is_chosen(point: Point, where: Mapping[str, Any]) -> bool:
    """Return whether a chart selects a point: each member of `where` matches, texts by patterns."""
    for name, wanted in where.items():
        if name == "workload":
            found = [point.workload, point.family]
        elif name in {"platform", "policy"}:
            found = [getattr(point, name)]
        else:
            found = [point.options[name]] if name in point.options else []
        if not any(matches(value, choice) for value in found for choice in as_choices(wanted)):
            return False
    return True


class _ChartData(NamedTuple):
    figure: str
    baseline: str
    base: Mapping[tuple[str, str, int, int], Point]
    has_seeds: bool
    each: str


def _about(points: Sequence[Point], figure: str, baseline: str, each: str) -> _ChartData:
    base = {point.key: point for point in points if point.setting == baseline}
    return _ChartData(figure, baseline, base, len({(point.seed, point.repeat) for point in points}) > 1, each)


def _charts(
    about: _ChartData, policy: str, points: Sequence[Point], axes: Sequence[Axis], *, ratios: bool
) -> list[Chart]:
    """Return a chart for each combination of the values of all axes but the first two."""
    charts = []
    for values in itertools.product(*(axis.values for axis in axes[2:])):
        own = [p for p in points if all(axis.of(p) == value for axis, value in zip(axes[2:], values, strict=True))]
        words = [f"{axis.name}={value}" for axis, value in zip(axes[2:], values, strict=True)]
        charts.append(_chart(about, ", ".join([policy, *words] if policy else words), own, axes[:2], ratios=ratios))
    return charts


def _chart(about: _ChartData, subject: str, points: Sequence[Point], axes: Sequence[Axis], *, ratios: bool) -> Chart:
    x, column = axes[0], axes[1] if len(axes) > 1 else None
    if ratios and x.kind == "policy":  # the ratio of the baseline to itself is 1
        points = [point for point in points if point.setting != about.baseline]
    samples: dict[tuple[str, str, str], dict[tuple[str, str, str], Dot]] = {}
    reference = ""
    if about.baseline and not ratios and all(point.setting != about.baseline for point in points):
        reference = f"{about.baseline} (baseline)"  # with a suffix: a value of an option may have the name of a policy
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


def _named(about: _ChartData, part: str, run: str) -> str:
    """Return the name of a dot: its run, and the value of the field `each`."""
    return f"{about.each} {part}, {run}" if about.each else run


def sweep_charts(points: Sequence[Point], figure: str, *, only: str = "", each: str = "") -> list[Chart]:
    """Return a chart for each setting, with a row for each log and a category for each load. O(points)."""
    scaled = [point for point in points if point.load is not None and point.figures is not None]
    several = len({point.platform for point in scaled}) > 1
    loads = [f"{load:g}" for load in sorted({point.load for point in scaled if point.load is not None})]
    samples: dict[str, dict[tuple[str, str], dict[tuple[str, str], Dot]]] = {}
    titles = setting_axis(scaled).titles
    for point in scaled:
        if only not in {"", point.policy}:
            continue
        row = f"{point.log}, {point.platform}" if several else point.log
        found = samples.setdefault(titles[point.setting], {}).setdefault((row, f"{point.load:g}"), {})
        for part, value in point.sample(figure, each).items():
            found.setdefault((point.address, part), Dot(value, part, point.origin))
    charts = []
    for title, of_title in samples.items():
        boxes = tuple(Box(row, "", load, tuple(dots.values())) for (row, load), dots in of_title.items() if dots)
        if boxes:
            rows = tuple(dict.fromkeys(box.row for box in boxes))
            charts.append(Chart(title, figure, "", "offered load", "", rows, ("",), tuple(loads), boxes, each=each))
    return charts
