"""Means of a campaign with intervals: their samples, and how the page shows them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from support.campaigns import Row, keep, scanned

from pybatsched.campaign import table
from pybatsched.campaign.store import Store
from pybatsched.metrics.compare.confidence import student_t
from pybatsched.report import page
from pybatsched.report.campaign import means_table
from pybatsched.report.campaign.layout import charts_of
from pybatsched.report.campaign.means import Mean, mean_over, means_of
from pybatsched.report.campaign.points import Origin, Point, points_of

FIGURE = "mean_wait_s"


def points(folder: Path, rows: list[Row], families: tuple[str, ...] = ("w",)) -> list[Point]:
    return points_of(Store(keep(folder, rows, families)))


def row(workload: str, policy: str, value: float | None, **others: object) -> Row:
    return Row(workload, policy, {FIGURE: value}, **others)  # type: ignore[arg-type]


def half(*values: float) -> float:
    """Half of the interval of some values, by the definition."""
    n, mean = len(values), sum(values) / len(values)
    return student_t(0.95, n - 1) * math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)


def about(value: float) -> Any:
    """Return what is equal to a number that differs by rounding alone."""
    return pytest.approx(value)


def test_seeds_of_one_workload_are_independent() -> None:
    found = mean_over([(Origin("w", seed), value) for seed, value in enumerate([1.0, 2.0, 6.0])])
    assert found == Mean(3, 3.0, about(half(1.0, 2.0, 6.0)), "seed")
    assert found is not None
    assert found.n_text == "3 seeds"


def test_repeats_of_seeds_are_runs() -> None:
    found = mean_over([(Origin("w", 1, repeat), float(repeat)) for repeat in (0, 1)])
    assert found == Mean(2, 0.5, about(half(0.0, 1.0)), "run")


def test_seeds_of_a_week_are_one_value() -> None:
    """Twice the seeds would narrow an interval over weeks without new information on them."""
    weeks = {"a-week01": [1.0, 3.0], "a-week02": [5.0, 7.0], "a-week03": [10.0, 10.0]}
    found = mean_over([(Origin(week, seed), v) for week, values in weeks.items() for seed, v in enumerate(values)])
    assert found == Mean(3, 6.0, about(half(2.0, 6.0, 10.0)), "week")


def test_other_workloads_of_a_family_and_single_runs() -> None:
    several = mean_over([(Origin("a-week01"), 1.0), (Origin("a"), 2.0)])
    assert several is not None
    assert several.n_text == "2 workloads"
    assert mean_over([(Origin("a-week01"), 1.0)]) == Mean(1, 1.0, None, "run")
    assert mean_over([]) is None


def test_means_are_by_family_platform_and_setting(tmp_path: Path) -> None:
    rows = [
        row("log-week01", "easy", 2.0),
        row("log-week02", "easy", 4.0),
        row("other", "easy", 7.0),
        row("log-week01", "r", 1.0, options={"theta": 5, "same": 1}),
        row("log-week01", "r", 3.0, options={"theta": 9, "same": 1}),
    ]
    means = means_of(points(tmp_path, rows, ("log", "other")), (FIGURE,))
    assert (means.heads, means.figures) == (("workload", "policy"), (FIGURE,))
    assert [(row.names, row.n_runs, row.means[0]) for row in means.rows] == [
        (("log", "easy"), 2, Mean(2, 3.0, about(half(2.0, 4.0)), "week")),
        (("other", "easy"), 1, Mean(1, 7.0, None, "run")),
        (("log", "r theta=5"), 1, Mean(1, 1.0, None, "run")),
        (("log", "r theta=9"), 1, Mean(1, 3.0, None, "run")),
    ]
    assert means.rows[2].setting == "r (theta=5, same=1)"


def test_points_that_are_one_run_count_once(tmp_path: Path) -> None:
    rows = [row("w", "base", 2.0, seed=seed, address="0" * 64) for seed in (1, 2, 3)]
    rows += [row("w", "p", 2.0 * seed, seed=seed) for seed in (1, 2, 3)]
    found = points(tmp_path, rows)
    assert [(row.n_runs, row.means[0]) for row in means_of(found, (FIGURE,)).rows] == [
        (1, Mean(1, 2.0, None, "run")),
        (3, Mean(3, 4.0, about(half(2.0, 4.0, 6.0)), "seed")),
    ]
    (ratios,) = means_of(found, (FIGURE,), "base").rows
    assert (ratios.n_runs, ratios.means) == (3, (Mean(3, 2.0, about(half(1.0, 2.0, 3.0)), "seed"),))


def test_ratios_are_to_the_same_week_and_nothing_is_divided_by_zero(tmp_path: Path) -> None:
    rows = [row(f"w-week0{k}", "base", v) for k, v in enumerate([0.0, 4.0, 5.0, None])]
    rows += [row(f"w-week0{k}", "p", v) for k, v in enumerate([2.0, 2.0, 10.0, 1.0])]
    rows += [row("w-week09", "alone", 1.0)]
    means = means_of(points(tmp_path, rows), ("utilisation", FIGURE), "base")
    assert means.figures == (FIGURE,)
    assert [(row.names, row.means) for row in means.rows] == [(("p",), (Mean(2, 1.25, about(half(0.5, 2.0)), "week"),))]


def test_the_mean_of_a_box_is_that_of_the_table(tmp_path: Path) -> None:
    found = points_of(Store(scanned(tmp_path, n_weeks=3)))
    shown = {(*row.names[:2], row.setting): row.means[0] for row in means_of(found, (FIGURE,)).rows}
    (chart,) = charts_of(found, FIGURE, "conservative")
    for alpha, platform in (("0.05", "own-05"), ("0.1", "own-10")):
        for box in chart.panel("ricc", alpha):
            own = "conservative" if box.is_baseline else f"redirection (theta={box.category}, alpha={alpha})"
            assert box.mean == shown["ricc", platform, own]
            assert box.mean.n_text == "3 weeks"


def cells(text: str, name: str) -> list[list[str]]:
    """The texts of a table, row by row."""
    (found,) = re.findall(rf'<table class="means" id="{name}">(.*?)</table>', text, re.DOTALL)
    return [
        [re.sub("<.*?>", "", cell) for cell in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", line)]
        for line in re.findall("<tr>(.*?)</tr>", found)
    ]


def test_a_table_shows_intervals_n_and_significance(tmp_path: Path) -> None:
    rows = [Row("w", "easy", {"n_jobs": 9, FIGURE: v, "joy": v}, seed=k) for k, v in enumerate([10.0, 20.0, 30.0])]
    joys = (None, 1.0, 3.0)
    rows += [
        Row("w", "p", {"n_jobs": 9, FIGURE: v, "joy": joy}, seed=k)
        for (k, v), joy in zip(enumerate([5.0, 10.2, 14.8]), joys, strict=True)
    ]
    rows += [Row("w", "q <1>", {"n_jobs": 9, FIGURE: 8.0}, seed=1)]
    found = points(tmp_path, rows)
    figures = ("n_jobs", FIGURE, "joy")
    assert cells(means_table.table_html(means_of(found, figures), "t"), "t") == [
        ["policy", "n", "n jobs", "mean wait (s)", "joy"],
        ["easy", "3 seeds", "9", "20.00", "± 24.84", "20.00", "± 24.84"],
        ["p", "3 seeds", "9", "10.00", "± 12.18", "2.000 (n = 2)", "± 12.706"],
        ["q &lt;1&gt;", "1 run", "9", "8", "", "-", ""],
    ]
    ratios = means_table.table_html(means_of(found, (FIGURE,), "easy"), "r", around=1.0)
    assert "<b>0.5011</b>" in ratios
    assert "<b>0.4</b>" not in ratios  # one value, no interval
    low, high = (0.5011111 + sign * half(0.5, 0.51, 14.8 / 30) for sign in (-1, 1))
    assert f'title="{low:.6g} to {high:.6g}, n = 3 seeds"' in ratios


def test_a_table_shows_the_number_of_runs_if_it_exceeds_n(tmp_path: Path) -> None:
    rows = [row(f"w-week0{k}", "easy", float(k), seed=seed) for k in (1, 2) for seed in (1, 2, 3)]
    (head, line) = cells(means_table.table_html(means_of(points(tmp_path, rows), (FIGURE,)), "t"), "t")
    assert head == ["policy", "runs", "n", "mean wait (s)"]
    assert line == ["easy", "6", "2 weeks", "1.500", "± 6.353"]


def test_the_page_has_means_with_intervals_first(tmp_path: Path) -> None:
    rows = [
        Row("w", policy, dict.fromkeys(table.SHOWN, float(value + seed)), seed=seed)
        for policy, value in (("easy", 9), ("<fcfs>", 5))
        for seed in (1, 2, 3)
    ]
    text = page.of_campaign(Store(keep(tmp_path / "study", rows, ["w"])))
    heads = re.findall("<h[23]>.*?</h[23]>", text)
    assert heads[:3] == ["<h2>Means</h2>", "<h3>Means of ratios to easy</h3>", "<h3>Differences to easy</h3>"]
    assert heads.index("<h2>Means</h2>") < heads.index("<h2>Spread over workloads and seeds</h2>")
    assert "Means with their 95 % confidence intervals: mean ± t·s/√n, by\nStudent's t with n - 1" in text
    wait = ["mean wait (s)", "11.00", "7.000"]
    assert [line[3] for line in cells(text, "means")] == wait
    assert [line[4] for line in cells(text, "means")][1:] == ["± 2.48", "± 2.484"]
    assert cells(text, "mean-ratios")[1][:2] == ["&lt;fcfs&gt;", "3 seeds"]
    titles = cells(text, "mean-ratios")[0]
    assert ("mean wait" in titles, any("(s)" in title for title in titles)) == (True, False)  # ratios are no seconds


def test_one_run_each_has_no_interval_and_the_page_says_why(tmp_path: Path) -> None:
    rows = [Row("w", policy, dict.fromkeys(table.SHOWN, 2.5)) for policy in ("easy", "fcfs")]
    text = page.of_campaign(Store(keep(tmp_path / "study", rows, ["w"])))
    assert cells(text, "means")[1] == ["easy", "1 run", *["2.5"] * len(table.SHOWN)]
    assert "With n = 1 there is no interval" in text
