"""Axes of values: equal for the same measure, logarithmic if values are far apart, truncated if necessary."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.campaigns import scanned

from pybatsched.campaign.store import Store
from pybatsched.report.campaign.boxes import Box, Chart, Dot
from pybatsched.report.campaign.layout import charts_of
from pybatsched.report.campaign.means import Mean
from pybatsched.report.campaign.points import Origin, points_of
from pybatsched.report.campaign_charts import for_page
from pybatsched.report.scales import axes_of, axis_of, log_ticks


def about(value: float) -> Any:
    """Return what is equal to a number that differs by rounding alone."""
    return pytest.approx(value)


def chart(*samples: list[float], figure: str = "mean_wait_s", baseline: str = "", **others: Any) -> Chart:
    """A chart with a box for each sample, whose values are of seeds."""
    boxes = [
        Box("w", "", str(k), tuple(Dot(v, "", Origin("w", seed)) for seed, v in enumerate(values)))
        for k, values in enumerate(samples)
    ]
    names = tuple(box.category for box in boxes)
    return Chart("", figure, baseline, "policy", "", ("w",), ("",), names, tuple(boxes), **others)


def test_powers_of_ten_where_values_are_far_apart() -> None:
    assert axis_of([chart([1.0], [30.0])]).is_log
    assert not axis_of([chart([1.0], [20.0])]).is_log
    assert not axis_of([chart([0.0], [1000.0])]).is_log
    assert axis_of([chart([1.0], [2.0], scale="log")]).is_log
    assert not axis_of([chart([0.0], [2.0], scale="log")]).is_log
    assert not axis_of([chart([1.0], [900.0], scale="linear")]).is_log


def test_the_ratio_one_is_on_the_axis() -> None:
    ratios = chart([0.011], [0.012], baseline="easy")
    assert axis_of([ratios]).is_log
    near = axis_of([replace(ratios, boxes=chart([0.8], [0.9]).boxes)])
    assert near.low < 0.8
    assert near.high > 1.0


def test_an_axis_has_margins_and_starts_at_zero_if_that_needs_little_space() -> None:
    assert axis_of([chart([10.0], [20.0])])[:3] == (9.5, about(21.365), "linear")
    assert axis_of([chart([3.0], [20.0])])[:3] == (0.0, about(22.6), "linear")
    assert axis_of([chart([0.0], [10.0])])[:3] == (0.0, about(11.3), "linear")
    assert axis_of([chart([-5.0], [5.0])])[:3] == (-5.5, about(6.3), "linear")
    assert axis_of([chart([2.0], [2.0])])[:3] == (about(1.99), about(2.0013), "linear")
    assert axis_of([chart([0.0])]).high > 0
    wide = axis_of([chart([1.0], [1e20])])
    assert (math.log10(wide.low), math.log10(wide.high)) == (about(-1.0), about(22.6))


def test_intervals_extend_the_axis_only_within_a_limit() -> None:
    """Two seeds have an interval of 12.7 times what s/√n is; three times the axis must do."""
    short = axis_of([chart([10.0, 11.0, 12.0])])
    assert short.low < 11 - 2.48
    assert short.high > 11 + 2.48
    long = axis_of([chart([10.0, 12.0])])
    assert (long.low, long.high) == (about(8 - 0.3), about(14 + 0.13 * 6.3))
    whisker = long.whisker(Mean(2, 11.0, 12.7))
    assert (whisker.is_cut_below, whisker.is_cut_above) == (True, True)
    assert long.low < whisker.low < 10
    assert 12 < whisker.high < long.high
    assert axis_of([chart([10.0, 12.0])], with_intervals=False).low == about(9.9)


def test_an_axis_of_means_alone_is_for_means_and_intervals() -> None:
    """Values of single runs are not drawn there: neither their range counts, nor that one is 0."""
    spread = chart([10.0, 90.0] * 32, [40.0, 60.0] * 32)  # means of 50, intervals of 10.1 and 2.5 on each side
    low, high = spread.boxes[0].mean.low, spread.boxes[0].mean.high
    assert axis_of([spread]).low == 0
    span = high - low
    found = axis_of([spread], with_dots=False)
    assert found[:3] == (about(low - 0.05 * span), about(high + 0.13 * (high - low + 0.05 * span)), "linear")
    zeros = chart([0.0, 2.0], [40.0, 60.0])
    assert not axis_of([zeros]).is_log
    assert axis_of([zeros], with_dots=False).is_log
    assert not axis_of([chart([0.0, 0.0], [1.0])], with_dots=False).is_log


def test_an_interval_does_not_extend_the_axis_below_zero() -> None:
    linear = axis_of([chart([1.0, 2.0, 9.0])])
    assert linear.low == 0
    assert linear.whisker(Mean(3, 4.0, 10.8)).is_cut_below
    log = axis_of([chart([1.0, 2.0, 90.0])])
    assert log.is_log
    assert 0 < log.low < 1
    assert log.whisker(Mean(3, 31.0, 127.0)).is_cut_below


@given(st.lists(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=5), min_size=1, max_size=4), st.booleans())
def test_all_values_are_on_their_axis_and_all_that_is_drawn_of_intervals(
    samples: list[list[float]], with_dots: bool
) -> None:
    one = chart(*samples)
    scale = axis_of([one], with_dots=with_dots)
    assert not with_dots or all(scale.low <= value < scale.high for values in samples for value in values)
    for box in one.boxes:
        whisker = scale.whisker(box.mean)
        assert scale.low <= box.mean.mean < scale.high
        assert scale.low <= whisker.low <= whisker.high < scale.high


def test_charts_of_one_measure_have_one_axis() -> None:
    charts = [
        chart([1.0], [2.0]),
        chart([1.0], [2.0], figure="utilisation"),
        chart([50.0]),
        chart([5.0], baseline="easy"),
        chart([9.0], baseline="easy"),
        chart([7.0], baseline="fcfs"),
    ]
    scales = axes_of(charts)
    assert scales[0] == scales[2] == axis_of([charts[0], charts[2]])
    assert scales[0].is_log
    assert scales[1] == axis_of([charts[1]])
    assert scales[3] == scales[4] != scales[5]


def test_a_requested_scale_is_used_for_all_charts_of_the_measure() -> None:
    plain, log, linear = (chart([1.0], [2.0], scale=scale) for scale in ("auto", "log", "linear"))
    assert [scale.is_log for scale in axes_of([plain, log])] == [True, True]
    assert [scale.is_log for scale in axes_of([plain, linear, log])] == [False, False, True]


def test_a_chart_may_have_an_axis_of_its_own() -> None:
    far, near = chart([1.0], [900.0], scale="log"), chart([1.0], [1.04], axis="own", heading="near")
    assert axes_of([far, near]) == [axis_of([far]), axis_of([near])]
    sheets = [replace(near, subject=name, boxes=chart([value]).boxes) for name, value in (("a=1", 3.0), ("a=2", 4.0))]
    assert axes_of([far, *sheets])[1:] == [axis_of(sheets)] * 2


def test_all_figures_of_a_measure_on_a_page_have_the_same_ends(tmp_path: Path) -> None:
    """Families, columns, means and boxes; each of them has an n."""
    found = points_of(Store(scanned(tmp_path, n_weeks=2)))
    charts = [one for ratios in (False, True) for one in charts_of(found, "mean_wait_s", "conservative", ratios=ratios)]
    for one, axis in zip(charts, axes_of(charts), strict=True):
        for as_means in (True, False):
            panels = for_page(one, axis, as_means=as_means).axes
            assert len(panels) == 2 * len(one.columns)
            assert {panel.get_ylim() for panel in panels} == {(axis.low, axis.high)}
            for panel in panels:
                assert [text.get_text() for text in panel.texts] == ["n = 2"] * len(one.categories)


def test_narrow_boxes_show_n_as_a_plain_number() -> None:
    many = chart(*[[1.0, 2.0]] * 60)
    (panel,) = for_page(many, axis_of([many]), as_means=False).axes
    assert [text.get_text() for text in panel.texts] == ["2"] * 60


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.07, 1.2, [0.1, 0.2, 0.5, 1.0]),
        (1.0, 20.0, [1.0, 2.0, 5.0, 10.0, 20.0]),
        (3.0, 5000.0, [10.0, 100.0, 1000.0]),
        (1.2, 580.0, [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]),
        (0.99, 1.05, [1.0, 1.02, 1.04]),
        (1.0, 1.0095, [1.0, 1.002, 1.004, 1.006, 1.008]),
        (400.0, 1100.0, [400.0, 600.0, 800.0, 1000.0]),
    ],
)
def test_ticks_by_powers_of_ten_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == ticks
