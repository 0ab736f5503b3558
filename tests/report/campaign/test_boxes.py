"""Box plots with a dot for each user: figures stored in cells, and their charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.campaigns import Row, keep
from support.process import run_cli

from pybatsched.campaign.spec import ChartSpec
from pybatsched.campaign.store import Store
from pybatsched.metrics import Outcome
from pybatsched.metrics.figures import figures_of_each
from pybatsched.metrics.job_results import JobResults
from pybatsched.report import page
from pybatsched.report.campaign.boxes import Chart
from pybatsched.report.campaign.layout import charts_of, named_charts
from pybatsched.report.campaign.points import Point, points_of

SUCCESS, REJECTED = "COMPLETED_SUCCESSFULLY", "REJECTED"


def test_figures_of_each_user() -> None:
    rows = [
        Outcome("w0!1", SUCCESS, 0.0, 10.0, 10.0, 1, "load_s=3;n=9"),
        Outcome("w0!2", SUCCESS, 0.0, 30.0, 10.0, 1, "load_s=4"),
        Outcome("w0!3", SUCCESS, 0.0, 0.0, 10.0, 1),
        Outcome("w0!4", REJECTED, 0.0, 0.0, 0.0, 0),
        Outcome("w0!5", SUCCESS, 0.0, 0.0, 10.0, 1),
    ]
    fields: dict[str, dict[str, Any]] = {
        "w0!1": {"user": "x", "alone_s": 10, "evaluated": True},
        "w0!2": {"user": "x", "evaluated": True},
        "w0!3": {"user": 7, "evaluated": True},
        "w0!4": {"user": "z", "evaluated": True},
        "w0!5": {"user": "x"},
    }
    found = figures_of_each(JobResults.of_outcomes(rows, fields), "user", 60.0)
    assert list(found) == ["7", "x", "z"]
    assert found["z"] == {"n_jobs": 1}
    assert (found["x"]["n_jobs"], found["x"]["mean_wait_s"], found["x"]["max_wait_s"]) == (2, 20, 30)
    assert (found["x"]["mean_stretch"], found["x"]["total_load_s"], found["x"]["mean_load_s"]) == (2, 7, 3.5)
    assert "mean_stretch" not in found["7"]


FIGURE = "mean_stretch"


def users(**means: float) -> dict[str, Any]:
    return {"user": {name: {FIGURE: mean, "n_jobs": 2} for name, mean in means.items()} | {"new": {"n_jobs": 1}}}


ROWS = [
    Row("w", "fcfs", {FIGURE: 2.5}, each=users(a=2.0, b=3.0, zero=0.0)),
    Row("w", "lea", {FIGURE: 1.5}, {"x1": 500}, each=users(a=1.0, b=6.0, c=4.0, zero=5.0)),
    Row("w", "lea", {FIGURE: 1.5}, {"x1": 1}, each=users(b=3.0)),
    Row("w", "old", {FIGURE: 9.0}),
    Row("w", "left", None),
]


@pytest.fixture
def points(tmp_path: Path) -> list[Point]:
    return points_of(Store(keep(tmp_path / "study", ROWS, ("w",))))


def values(chart: Chart) -> dict[str, dict[str, float]]:
    return {box.category: {dot.name: dot.value for dot in box.dots} for box in chart.boxes}


def test_a_dot_is_a_user(points: list[Point]) -> None:
    (chart,) = named_charts(points, ChartSpec(figure=FIGURE, each="user"))
    assert values(chart) == {
        "fcfs": {"user a, w": 2.0, "user b, w": 3.0, "user zero, w": 0.0},
        "lea x1=500": {"user a, w": 1.0, "user b, w": 6.0, "user c, w": 4.0, "user zero, w": 5.0},
        "lea x1=1": {"user b, w": 3.0},
    }
    assert chart.title == "mean stretch of each user"


def test_the_unit_is_last_in_the_title(tmp_path: Path) -> None:
    waits = Row("w", "fcfs", {"mean_wait_s": 1.0}, each={"user": {"a": {"mean_wait_s": 1}}})
    (chart,) = named_charts(
        points_of(Store(keep(tmp_path / "waits", [waits], ("w",)))), ChartSpec(figure="mean_wait_s", each="user")
    )
    assert chart.title == "mean wait of each user (s)"


def test_users_are_compared_with_themselves(points: list[Point]) -> None:
    (chart,) = named_charts(points, ChartSpec(figure=FIGURE, each="user", over="fcfs"))
    assert values(chart) == {"lea x1=500": {"user a, w": 0.5, "user b, w": 2.0}, "lea x1=1": {"user b, w": 1.0}}
    assert chart.n_undefined == 1, "one has 0 with the baseline"
    assert chart.title == "mean stretch of each user, over that of fcfs"


def test_a_chart_by_parameter_shows_the_baseline_beside_it(points: list[Point]) -> None:
    charts = charts_of(points, FIGURE, "fcfs", each="user")
    assert [len(box.dots) for box in charts[0].panel("w", "")] == [3, 1, 4]
    assert charts[0].categories == ("fcfs (baseline)", "1", "500")


def test_without_each_a_dot_is_a_run(points: list[Point]) -> None:
    (chart,) = named_charts(points, ChartSpec(figure=FIGURE))
    assert values(chart)["fcfs"] == {"w": 2.5}
    assert chart.title == "mean stretch"


def test_figures_that_were_not_kept_are_not_shown(points: list[Point]) -> None:
    assert named_charts(points, ChartSpec(figure=FIGURE, each="queue")) == []


def test_the_page_says_what_a_dot_is(tmp_path: Path) -> None:
    charts = [{"figure": FIGURE, "each": "user", "title": "Users"}, {"figure": FIGURE}]
    text = page.of_campaign(Store(keep(tmp_path / "paged", ROWS, ("w",), charts)))
    assert text.count("Here a dot is a user in a run.") == 1
    assert "<h3>Users</h3>" in text


def test_dots_of_users_from_the_run_to_the_page(tmp_path: Path) -> None:
    jobs = [
        {"id": str(n), "subtime": 0, "res": 1, "walltime": 50, "profile": "d", "alone_s": 10, "user": "xyz"[n % 3]}
        for n in range(6)
    ]
    content = {"nb_res": 1, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 10}}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    (tmp_path / "s.toml").write_text(
        """
        name = "users"
        each = ["user"]
        [[workload]]
        name = "w"
        file = "w.json"
        [[platform]]
        name = "own"
        of_workload = true
        [[policy]]
        name = "fcfs"
        [[policy]]
        name = "easy"
        [[chart]]
        figure = "mean_stretch"
        each = "user"
        """
    )
    done = run_cli("campaign", "run", "s.toml", "--output", "out", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    point = points_of(Store(tmp_path / "out"))[0]
    assert point.sample("mean_stretch", "user") == {"x": 2.5, "y": 3.5, "z": 4.5}
    assert run_cli("report", "out", "--output", "page.html", cwd=tmp_path).returncode == 0
    assert "<h3>mean stretch of each user</h3>" in (tmp_path / "page.html").read_text()
    plot = ("plot", "boxes", "out", "--output", "x.svg", "--each")
    assert run_cli(*plot, "user", "--measure", "stretch", cwd=tmp_path).returncode == 0
    for more, text in (
        (("queue",), "each 'queue': expected user"),
        (("user", "--measure", "utilisation"), "measure 'utilisation': expected one of max_bounded_slowdown"),
    ):
        wrong = run_cli(*plot, *more, cwd=tmp_path)
        assert (wrong.returncode, text in wrong.stderr) == (2, True), wrong.stderr
    of_runs = run_cli("plot", "boxes", "no/run", "--each", "user", "--output", "x.svg", cwd=tmp_path)
    assert (of_runs.returncode, "--each: works only with a campaign" in of_runs.stderr) == (2, True)
