"""The data of campaign charts, without drawing: families, axes, samples, pairs and ratios."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.campaigns import Row, keep, scanned

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.report.campaign.boxes import Chart
from pybatsched.report.campaign.layout import charts_of
from pybatsched.report.campaign.points import Point, baseline_of, points_of
from pybatsched.workload.names import parsed

FIGURE = "mean_wait_s"


def points(folder: Path, rows: list[Row], families: tuple[str, ...] = ("w",)) -> list[Point]:
    return points_of(Store(keep(folder, rows, families)))


def row(workload: str, policy: str, value: float | None, **others: object) -> Row:
    return Row(workload, policy, {FIGURE: value}, **others)  # type: ignore[arg-type]


def values(chart: Chart) -> dict[tuple[str, str, str], list[float]]:
    return {(box.row, box.column, box.category): [dot.value for dot in box.dots] for box in chart.boxes}


@pytest.mark.parametrize(
    ("workload", "names", "family"),
    [
        ("curie", ["curie"], "curie"),
        ("curie-week07", ["curie"], "curie"),
        ("curie-week107", ["curie"], "curie"),
        ("curie-week07", ["curie", "curie-week07"], "curie-week07"),
        ("curie-weekend", ["curie", "curie-weekend"], "curie-weekend"),
        ("a-week01-week02", ["a", "a-week01"], "a-week01"),
        ("curie-week07", [], "curie"),
        ("other-week07", ["curie"], "other-week07"),
    ],
)
def test_weeks_are_of_the_family_of_their_log(workload: str, names: list[str], family: str) -> None:
    assert parsed(workload, names).family == family


def test_without_grids_there_is_a_box_for_each_policy_and_family(tmp_path: Path) -> None:
    rows = [row(w, p, v) for v, (w, p) in enumerate([("a-week01", "x"), ("a-week02", "x"), ("a-week01", "y")], start=1)]
    rows += [row("b", "y", 7.0), row("b", "x", None), Row("b", "z", None)]
    found = points(tmp_path, rows, ("a", "b"))
    (chart,) = charts_of(found, FIGURE, baseline_of(found))
    assert values(chart) == {("a", "", "x"): [1.0, 2.0], ("a", "", "y"): [3.0], ("b", "", "y"): [7.0]}
    assert (chart.rows, chart.columns, chart.categories) == (("a", "b"), ("",), ("x", "y"))
    assert (chart.subject, chart.x_title, chart.column_title) == ("", "policy", "")
    assert [box.is_baseline for box in chart.boxes] == [True, False, False]
    assert [dot.name for dot in chart.panel("a", "")[0].dots] == ["a-week01", "a-week02"]
    (ratios,) = charts_of(found, FIGURE, "x", ratios=True)
    assert values(ratios) == {("a", "", "y"): [3.0]}  # week 2 of y is missing, and of b there is no baseline
    assert ratios.title == "mean wait, over that of x"


def test_numbers_are_sorted_and_texts_keep_their_order(tmp_path: Path) -> None:
    given = [10, 2, 0.5, "max", True, None]
    found = points(tmp_path, [row("w", "p", 1.0, options={"theta": v}) for v in given] + [row("w", "p", 1.0)])
    (chart,) = charts_of(found, FIGURE)
    assert chart.categories == ("not set", "0.5", "2", "10", "max", "true", "null")


def test_the_option_with_most_values_is_along_the_chart(tmp_path: Path) -> None:
    rows = [row("w", "p", 1.0, options={"a": a, "b": b, "same": 5}) for a in (1, 2) for b in (3, 1, 2)]
    (chart,) = charts_of(points(tmp_path, rows), FIGURE)
    assert (chart.subject, chart.x_title, chart.column_title) == ("p", "b", "a")
    assert (chart.categories, chart.columns) == (("1", "2", "3"), ("1", "2"))


def test_several_platforms_are_an_axis(tmp_path: Path) -> None:
    rows = [row("w", "p", 1.0, options={"a": a}, platform=m) for a in (1, 2) for m in ("small", "large", "huge")]
    rows += [row("w", "q", 1.0, platform=m) for m in ("small", "large")]
    grid, plain = charts_of(points(tmp_path, rows), FIGURE)
    assert (grid.x_title, grid.column_title, grid.columns) == ("a", "platform", ("small", "large", "huge"))
    assert (plain.x_title, plain.column_title, plain.columns) == ("policy", "platform", ("small", "large"))


def test_a_third_axis_makes_charts_of_their_own(tmp_path: Path) -> None:
    rows = [
        row("w", "p", float(a), options={"a": a, "b": b}, platform=m)
        for a in (1, 2, 3)
        for b in (1, 2)
        for m in ("small", "large")
    ]
    charts = charts_of(points(tmp_path, rows), FIGURE)
    assert [chart.subject for chart in charts] == ["p, platform=small", "p, platform=large"]
    assert all((chart.x_title, chart.column_title) == ("a", "b") for chart in charts)


def test_a_platform_that_an_option_determines_is_no_axis(tmp_path: Path) -> None:
    """Each alpha is tried on a platform of its own; pairs are those of the same week on the same platform."""
    found = points_of(Store(scanned(tmp_path, n_weeks=2)))
    (chart,) = charts_of(found, FIGURE, "conservative")
    assert (chart.x_title, chart.categories) == ("theta", ("conservative (baseline)", "0.5", "2", "10"))
    assert (chart.column_title, chart.columns, chart.rows) == ("alpha", ("0.05", "0.1"), ("curie", "ricc"))
    assert len(chart.boxes) == 2 * 2 * 4
    assert values(chart)["curie", "0.1", "conservative (baseline)"] == [180.0, 360.0]
    assert chart.reference == "conservative (baseline)"
    assert chart.setting_text(chart.boxes[0]) == "conservative (baseline)"
    assert chart.setting_text(chart.panel("curie", "0.1")[1]) == "theta 0.5, alpha 0.1"
    (plain,) = charts_of(found, FIGURE, "conservative", only="conservative")  # which the others show beside them
    assert (plain.subject, plain.categories, plain.columns) == ("", ("conservative",), ("own-10", "own-05"))
    (ratios,) = charts_of(found, FIGURE, "conservative", ratios=True)
    assert ratios.categories == ("0.5", "2", "10")
    assert values(ratios)["ricc", "0.05", "2"] == pytest.approx([0.66, 0.66])
    assert not any(box.is_baseline for box in ratios.boxes)


def test_pairs_have_workload_platform_seed_and_repeat_in_common(tmp_path: Path) -> None:
    keys = [
        {"platform": m, "seed": s, "repeat": r, "workload": w}
        for m in ("m", "n")
        for s in (1, 2)
        for r in (0, 1)
        for w in ("v", "w")
    ]
    rows = [Row(policy="base", figures={FIGURE: 2.0**k}, **key) for k, key in enumerate(keys)]  # type: ignore[arg-type]
    rows += [Row(policy="p", figures={FIGURE: 3 * 2.0**k}, **key) for k, key in reversed(list(enumerate(keys)))]  # type: ignore[arg-type]
    (chart,) = charts_of(points(tmp_path, rows, ("v", "w")), FIGURE, "base", ratios=True)
    assert all(sample == [3.0] * 4 for sample in values(chart).values())
    assert len(chart.boxes) == 4
    assert {dot.name for dot in chart.boxes[0].dots} == {f"w, seed {s}{r}" for s in (1, 2) for r in ("", " repeat 1")}


def test_nothing_is_divided_by_zero(tmp_path: Path) -> None:
    rows = [row(f"w-week0{k}", "base", v) for k, v in enumerate([0.0, 4.0, None])]
    rows += [row(f"w-week0{k}", "p", 2.0) for k in range(3)]
    (chart,) = charts_of(points(tmp_path, rows), FIGURE, "base", ratios=True)
    assert (values(chart), chart.n_undefined) == ({("w", "", "p"): [0.5]}, 1)


def test_points_that_are_one_run_count_once(tmp_path: Path) -> None:
    """Three seeds without influence are one run; a random policy is paired with it three times."""
    rows = [row("w", "base", 2.0, seed=seed, address="0" * 64) for seed in (1, 2, 3)]
    rows += [row("w", "p", 2.0 * seed, seed=seed) for seed in (1, 2, 3)]
    found = points(tmp_path, rows)
    (chart,) = charts_of(found, FIGURE, "base")
    assert values(chart) == {("w", "", "base"): [2.0], ("w", "", "p"): [2.0, 4.0, 6.0]}
    (ratios,) = charts_of(found, FIGURE, "base", ratios=True)
    assert values(ratios) == {("w", "", "p"): [1.0, 2.0, 3.0]}


def test_the_baseline_is_the_first_setting_or_the_one_named(tmp_path: Path) -> None:
    rows = [row("w", "easy", 1.0, options={"order": order}) for order in ("fcfs", "sjf")] + [row("w", "fcfs", 1.0)]
    found = points(tmp_path, rows)
    assert baseline_of(found) == baseline_of(found, "easy") == "easy (order=fcfs)"
    assert baseline_of(found, "easy (order=sjf)") == "easy (order=sjf)"
    assert baseline_of(found, "fcfs") == "fcfs"
    assert baseline_of(found[:1]) == ""
    with pytest.raises(InputError, match=r"baseline 'sjf': expected one of easy, fcfs, easy \(order=fcfs\), easy"):
        baseline_of(found, "sjf")
    grid, plain = charts_of(found, FIGURE, "easy (order=fcfs)")
    assert (grid.categories, [box.is_baseline for box in grid.boxes]) == (("fcfs", "sjf"), [True, False])
    assert plain.categories == ("easy (order=fcfs) (baseline)", "fcfs")
    ratios, _ = charts_of(found, FIGURE, "easy (order=fcfs)", ratios=True)  # where the page says that it is grey, too
    assert (ratios.categories, [box.is_baseline for box in ratios.boxes]) == (("fcfs", "sjf"), [True, False])


def test_a_baseline_named_like_a_value_has_its_own_category(tmp_path: Path) -> None:
    rows = [row("w", "fcfs", 5.0)] + [row("w", "easy", 1.0, options={"order": order}) for order in ("fcfs", "sjf")]
    (grid,) = charts_of(points(tmp_path, rows), FIGURE, "fcfs")
    assert grid.categories == ("fcfs (baseline)", "fcfs", "sjf")
    assert values(grid)["w", "", "fcfs (baseline)"] == [5.0]
    assert [grid.setting_text(box) for box in grid.panel("w", "")] == ["fcfs (baseline)", "order fcfs", "order sjf"]


def test_charts_of_one_policy_and_of_no_points(tmp_path: Path) -> None:
    found = points_of(Store(scanned(tmp_path, n_weeks=1)))
    assert [chart.subject for chart in charts_of(found, FIGURE, "conservative", only="redirection")] == ["redirection"]
    assert charts_of(found, "no_such_figure") == []


def test_many_columns_go_below_each_other(tmp_path: Path) -> None:
    rows = [row("w", "p", 1.0, options={"a": a, "b": b}) for a in range(8) for b in range(7)]
    (chart,) = charts_of(points(tmp_path, rows), FIGURE)
    assert [(name, len(columns)) for name, columns in chart.lines(7 * 8)] == [("w", 7)]
    assert [columns for _, columns in chart.lines(3 * 8)] == [("0", "1", "2"), ("3", "4", "5"), ("6",)]
    assert [columns for _, columns in chart.lines(5 * 8)] == [("0", "1", "2", "3"), ("4", "5", "6")]
    assert len(chart.lines(1)) == 7
