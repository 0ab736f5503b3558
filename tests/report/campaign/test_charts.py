"""Charts named in a campaign file: their points, their axes, and their place on the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.campaigns import Row, keep

from pybatsched.campaign import table
from pybatsched.campaign.spec import ChartSpec
from pybatsched.campaign.store import Store
from pybatsched.metrics.figure_names import figure_title
from pybatsched.report import page
from pybatsched.report.campaign.boxes import Chart
from pybatsched.report.campaign.layout import named_charts
from pybatsched.report.campaign.points import Point, figures_of, points_of
from pybatsched.report.scales import axis_of

FIGURE = "urgent_max_slowdown"
SHORT = {"swap_out": [0.2, 2], "swap_in": [0.1, 2]}
LONG = {"swap_out": [5, 10], "swap_in": [3, 5]}


def row(workload: str, policy: str, value: float | None, **others: Any) -> Row:
    usual = dict.fromkeys(table.SHOWN, 2.0)
    return Row(workload, policy, {**usual, FIGURE: value, "regular_mean_slowdown": 3.0}, **others)


ROWS = [
    row(workload, policy, value * factor, options=options, seed=seed)
    for workload, factor in (("sx-ace", 1), ("dwd", 10))
    for seed in (1, 2)
    for policy, value, options in (
        ("fcfs", 900.0, {}),
        ("conservative", 90.0, {}),
        ("ujfb-longer", 1.04, LONG),
        ("ujfb", 1.01, SHORT),
        ("ujfb-serial", 1.09, SHORT | {"pd": "serial"}),
    )
]


@pytest.fixture
def points(tmp_path: Path) -> list[Point]:
    return points_of(Store(keep(tmp_path / "study", ROWS, ("sx-ace", "dwd"))))


def charts(points: list[Point], **members: Any) -> list[Chart]:
    return named_charts(points, ChartSpec.model_validate({"figure": FIGURE} | members))


def values(chart: Chart, family: str = "sx-ace") -> dict[tuple[str, str], list[float]]:
    return {
        (box.column, box.category): [dot.value for dot in box.dots]
        for column in chart.columns
        for box in chart.panel(family, column)
    }


def test_charts_by_policy_have_boxes_in_the_order_of_the_file(points: list[Point]) -> None:
    (chart,) = charts(points)
    assert chart.categories == ("fcfs", "conservative", "ujfb-longer", "ujfb", "ujfb-serial")
    assert (chart.rows, chart.columns, chart.x_title) == (("sx-ace", "dwd"), ("",), "policy")
    assert values(chart)["", "ujfb"] == [1.01, 1.01]
    assert [dot.name for dot in chart.panel("dwd", "")[0].dots] == ["dwd, seed 1", "dwd, seed 2"]
    assert not any(box.is_baseline for box in chart.boxes)
    assert chart.title == "max slowdown of urgent jobs"


def test_settings_of_a_policy_are_labelled_by_what_differs(tmp_path: Path) -> None:
    options = [LONG | {"swap": "uniform"}, SHORT | {"swap": "uniform"}]
    rows = [row("w", "easy", 9.0)] + [row("w", "ujfb", 2.0 - k, options=one) for k, one in enumerate(options)]
    (chart,) = charts(points_of(Store(keep(tmp_path / "study", rows, ["w"]))))
    assert chart.categories == ("easy", "ujfb swap_out=[0.2, 2]", "ujfb swap_out=[5, 10]")
    assert values(chart, "w") == {("", name): [v] for name, v in zip(chart.categories, (9.0, 1.0, 2.0), strict=True)}


def test_charts_over_an_option_sort_its_values_and_omit_dependent_options(points: list[Point]) -> None:
    """The policy and the time to swap in go with the time to swap out; policies without the option are left out."""
    (chart,) = charts(points, by="swap_out", where={"policy": ["ujfb", "ujfb-longer"]}, title="U_L over swap times")
    assert (chart.x_title, chart.columns, chart.title) == ("swap_out", ("",), "U_L over swap times")
    assert values(chart) == {("", "[0.2, 2]"): [1.01, 1.01], ("", "[5, 10]"): [1.04, 1.04]}
    assert chart.categories == ("[0.2, 2]", "[5, 10]")


def test_charts_over_an_option_have_a_column_for_each_policy(points: list[Point]) -> None:
    (chart,) = charts(points, by="swap_out")
    assert (chart.column_title, chart.columns) == ("policy", ("ujfb-longer", "ujfb", "ujfb-serial"))
    assert values(chart) == {
        ("ujfb-longer", "[5, 10]"): [1.04, 1.04],
        ("ujfb", "[0.2, 2]"): [1.01, 1.01],
        ("ujfb-serial", "[0.2, 2]"): [1.09, 1.09],
    }


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"policy": "ujfb*"}, {"ujfb-longer", "ujfb", "ujfb-serial"}),
        ({"policy": ["fcfs", "ujfb-*"]}, {"fcfs", "ujfb-longer", "ujfb-serial"}),
        ({"swap_out": [[0.2, 2]]}, {"ujfb", "ujfb-serial"}),
        ({"swap_out": [[5, 10], [7, 8]], "policy": "*"}, {"ujfb-longer"}),
        ({"swap_out": [0.2, 2]}, set()),  # two numbers, neither of which is one pair of bounds
        ({"pd": "serial"}, {"ujfb-serial"}),
        ({"pd": "s*", "swap_in": [[3, 5]]}, set()),
        ({"platform": "other"}, set()),
    ],
)
def test_points_are_chosen_by_pattern_and_value(points: list[Point], where: dict[str, Any], found: set[str]) -> None:
    assert {name for chart in charts(points, where=where) for name in chart.categories} == found


def test_workloads_are_chosen_by_their_own_name_or_that_of_their_log(tmp_path: Path) -> None:
    rows = [row(name, "easy", 1.0) for name in ("log-week01", "log-week02", "other")]
    found = points_of(Store(keep(tmp_path / "study", rows, ("log", "other"))))
    for wanted, names in (("log", ["log-week01", "log-week02"]), ("*02", ["log-week02"]), ("other", ["other"])):
        (chart,) = charts(found, where={"workload": wanted})
        assert [dot.name for box in chart.boxes for dot in box.dots] == names


def test_over_a_policy_values_are_ratios_to_its_own(points: list[Point]) -> None:
    (chart,) = charts(points, over="conservative", where={"policy": ["fcfs", "conservative"]})
    assert values(chart, "dwd") == {("", "fcfs"): [10.0, 10.0]}
    assert chart.title == "max slowdown of urgent jobs, over that of conservative"
    assert charts(points[:1], over="fcfs") == []  # there is nothing beside it


def test_by_platform_and_with_a_third_axis(tmp_path: Path) -> None:
    rows = [
        row("w", policy, 1.0, options={"a": a}, platform=platform)
        for policy in ("p", "q")
        for a in (1, 2)
        for platform in ("small", "large")
    ]
    found = points_of(Store(keep(tmp_path / "study", rows, ["w"])))
    sheets = charts(found, by="platform", title="By machine")
    assert [chart.title for chart in sheets] == ["By machine (a=1)", "By machine (a=2)"]
    assert all((chart.categories, chart.columns) == (("small", "large"), ("p", "q")) for chart in sheets)
    (by_policy,) = charts(found)
    assert (by_policy.categories, by_policy.columns) == (("p a=1", "p a=2", "q a=1", "q a=2"), ("small", "large"))


def test_the_axis_has_the_requested_scale(points: list[Point]) -> None:
    close = {"by": "swap_out", "where": {"workload": "sx-ace"}}
    scales = ("auto", "log", "linear")
    assert [axis_of(charts(points, scale=scale)).is_log for scale in scales] == [True, True, False]
    assert [axis_of(charts(points, scale=scale, **close)).is_log for scale in scales] == [False, True, False]


def test_a_logarithmic_axis_has_no_zero(tmp_path: Path) -> None:
    rows = [row("w", "a", 0.0), row("w", "b", 100.0)]
    (chart,) = charts(points_of(Store(keep(tmp_path / "study", rows, ["w"]))), scale="log")
    assert not axis_of([chart]).is_log


def test_the_ratio_one_counts_for_the_choice_of_the_scale(points: list[Point]) -> None:
    """Ratios of 0.0011 are close to each other, and far from 1."""
    (chart,) = charts(points, over="fcfs", where={"policy": "ujfb*"})
    assert axis_of([chart]).is_log


def test_figures_by_kind_are_drawn_if_jobs_have_kinds(points: list[Point], tmp_path: Path) -> None:
    kinds = ["urgent_max_slowdown", "regular_mean_slowdown"]
    assert figures_of(points)[:3] == [*kinds, "mean_bounded_slowdown"]
    without = points_of(Store(keep(tmp_path / "plain", [Row("w", "p", {FIGURE: None}), Row("w", "q", None)], ["w"])))
    assert figures_of(without)[0] == "mean_bounded_slowdown"


@pytest.mark.parametrize(
    ("figure", "title"),
    [
        ("urgent_max_slowdown", "max slowdown of urgent jobs"),
        ("regular_mean_bounded_slowdown", "mean bounded slowdown of regular jobs"),
        ("regular_mean_wait_s", "mean wait of regular jobs (s)"),
        ("deadline_n_late", "late deadline jobs"),
        ("urgent_n_jobs", "urgent jobs"),
        ("n_preemptions", "n preemptions"),
        ("pd_max_s", "pd max (s)"),
        ("urgent", "urgent"),
    ],
)
def test_figures_have_readable_titles(figure: str, title: str) -> None:
    assert figure_title(figure) == title


NAMED = (
    {"figure": FIGURE, "title": "U_L <all>", "scale": "log"},
    {"figure": FIGURE, "by": "swap_out"},
    {"figure": "no_such"},
)


def heads(text: str) -> list[str]:
    """The heads of the columns of the table of means."""
    return re.findall("<th.*?>(.*?)</th>", text.partition('id="means"><thead>')[2].partition("</thead>")[0])


def test_the_page_shows_the_named_charts_instead_of_the_usual_ones(tmp_path: Path) -> None:
    folder = keep(tmp_path / "study", ROWS, ("sx-ace", "dwd"), charts=NAMED)
    text = page.of_campaign(Store(folder))
    assert "<h3>U_L &lt;all&gt;</h3>" in text
    assert "<h3>no such</h3>" in text
    assert "no finished and selected run has the figure no_such." in text
    assert "<h3>mean bounded slowdown</h3>" not in text
    assert "the baseline is grey" not in text
    assert heads(text)[3:6] == ["n jobs", "max slowdown of urgent jobs", "mean wait (s)"]
    compared = page.of_campaign(Store(folder), "conservative")
    assert "<h3>U_L &lt;all&gt;</h3>" in compared
    assert "<h3>mean bounded slowdown, over that of conservative</h3>" in compared


@pytest.mark.long
def test_without_named_charts_the_page_shows_figures_by_kind_first(tmp_path: Path) -> None:
    text = page.of_campaign(Store(keep(tmp_path / "study", ROWS, ("sx-ace", "dwd"))))
    places = [text.index(f"<h3>{title}</h3>") for title in ("max slowdown of urgent jobs", "mean bounded slowdown")]
    assert places == sorted(places)
    assert heads(text)[4:7] == ["max slowdown of urgent jobs", "mean slowdown of regular jobs", "mean wait (s)"]
