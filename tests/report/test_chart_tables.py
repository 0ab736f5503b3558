"""Charts draw their tables: those of pages, read back from the page, and those of papers, from matplotlib's axes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import campaigns
from support.process import run_cli

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import SavedRun, read_run
from pybatsched.report import campaign_charts, chart_style, page
from pybatsched.report.campaign.layout import charts_of
from pybatsched.report.campaign.points import Point, points_of
from pybatsched.report.campaign_charts import CampaignPlotOptions, for_page
from pybatsched.report.charts import PlotOptions, chart_of
from pybatsched.report.gantt.chart import table_of
from pybatsched.report.lines import (
    MAX_RUNS,
    JobSelection,
    Quantity,
    boxes_of,
    cdf_of,
    groups_of,
    over_time,
    policies_of,
    renamed,
    span_of,
    time_axis,
)
from pybatsched.report.scales import axis_of


def simulated(folder: Path, name: str, policy: str, n: int, *options: str) -> SavedRun:
    """Run jobs that come every minute on four processors, each alone for a time that grows and falls."""
    jobs = [
        {"id": str(k), "subtime": 60 * k, "res": 1 + k % 4, "walltime": 900, "profile": f"{k % 7}"} for k in range(n)
    ]
    profiles = {f"{k}": {"type": "delay", "delay": 20 + 15 * k} for k in range(7)}
    (folder / f"{name}.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    args = ("--procs", "4", "-w", f"{name}.json", "--policy", policy, *options, "-e", name)
    assert run_cli("simulate", *args, cwd=folder).returncode == 0
    return read_run(str(folder / name))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def runs(place: Path) -> list[SavedRun]:
    """Two runs of few steps."""
    return [simulated(place, "fcfs", "fcfs", 60), simulated(place, "easy", "easy", 60)]


@pytest.fixture(scope="module")
def long_runs(place: Path) -> list[SavedRun]:
    """Two runs whose queues change too often to draw each step."""
    return [simulated(place, f"long-{policy}", policy, 600) for policy in ("fcfs", "easy")]


def on_page(text: str, name: str) -> Any:
    """The data of a canvas of a page."""
    found = re.search(rf'getElementById\("{name}"\), (\{{.*?\}}), window.board\);</script>', text)
    assert found is not None
    return json.loads(found[1])


def numbers(text: str, kind: str = "<f8") -> list[float]:
    found: list[float] = np.frombuffer(base64.b64decode(text), kind).tolist()
    return found


def in_paper(figure: Any, n: int) -> list[tuple[list[float], list[float]]]:
    """The lines of a chart, or the areas of its panels, as edges and values of their steps."""
    if len(figure.axes) == n > 1 or figure.axes[0].patches:
        stairs = [axes.patches[0].get_data() for axes in figure.axes]
        return [(one.edges.tolist(), one.values.tolist()) for one in stairs]
    lines = figure.axes[0].get_lines()
    return [(line.get_xdata().tolist(), line.get_ydata()[:-1].tolist()) for line in lines]


@pytest.mark.parametrize("what", ["utilisation", "queue"])
@pytest.mark.parametrize("are_long", [False, True])
def test_lines_over_time(
    what: Quantity, are_long: bool, runs: Sequence[SavedRun], long_runs: Sequence[SavedRun]
) -> None:
    shown = long_runs if are_long else runs
    span = span_of(shown)
    table = over_time(groups_of(shown), what, time_axis(*span), span)
    assert bool(table.span_s) is are_long
    assert all(len(line.x) == len(line.y) + 1 for line in table.lines)
    wanted = [(list(line.x), list(line.y)) for line in table.lines]
    paper = chart_of(what, shown)
    assert in_paper(paper, len(shown)) == wanted
    assert paper.axes[0].get_ylim() == (table.y.low, table.y.high)
    assert paper.axes[-1].get_xlim() == span
    text = page.of_runs(shown)
    for number, line in enumerate(wanted):
        data = on_page(text, f"{what}{number}")
        assert tuple(map(numbers, data["line"])) == line
        assert (data["axis"]["kind"], data["axis"]["low"], data["axis"]["high"]) == (
            table.y.kind,
            *paper.axes[0].get_ylim(),
        )
        assert data["limit"] == (4 if what == "utilisation" else 0)


def test_long_queues_are_means_as_processors_in_use_are(long_runs: Sequence[SavedRun]) -> None:
    (run, _) = long_runs
    begin, end = span_of([run])
    table = over_time([("x", [run])], "queue", time_axis(begin, end), (begin, end))
    (line,) = table.lines
    assert len(line.y) <= 401
    assert "; means of each 5 min" in table.x.ticks()[1]
    for (low, high), value in zip(list(pairwise(line.x))[:20], line.y, strict=False):
        assert value == pytest.approx(run.queue_length.mean(low, high))


@pytest.mark.parametrize("measure", ["wait_s", "bounded_slowdown"])
def test_cdf(measure: str, runs: Sequence[SavedRun]) -> None:
    """Values below 1 and the scale of the axis are the same on a page and in a paper."""
    table = cdf_of(groups_of(runs), JobSelection(measure, 10.0))
    options = PlotOptions(measure, width=5.4)
    figure: Any = chart_of("cdf", runs, options)
    (axes,) = figure.axes
    for line, drawn in zip(table.lines, axes.get_lines(), strict=True):
        assert drawn.get_xdata().tolist() == list(line.x)
        assert drawn.get_ydata().tolist() == list(line.y)
        assert drawn.get_label() == line.label
    assert (axes.get_xscale(), axes.get_xlim()) == (table.x.kind, (table.x.low, table.x.high))
    text = page.of_runs(runs)
    assert chart_style.svg(chart_of("cdf", runs, options)) in text
    with chart_style.style(5.4):
        figure.draw_without_rendering()
    height = 72 * figure.get_figheight()
    of_lines = re.findall(
        r'<path d="([^"]*)" clip-path="[^"]*" style="fill: none;[^"]* stroke: #(?:0a3f9a|e29600)', text
    )
    found = [path for path in of_lines if path in chart_style.svg(figure)]
    assert len(found) == len(table.lines)
    for path, line in zip(found, table.lines, strict=True):
        points = axes.transData.transform(list(zip(line.x, line.y, strict=True))) * 72 / figure.dpi
        xs, ys = points[:, 0], height - points[:, 1]
        for x, y in re.findall(r"[ML] (\S+) (\S+)", path):
            assert min(abs(xs - float(x))) < 0.01
            assert min(abs(ys - float(y))) < 0.01


def test_boxes(runs: Sequence[SavedRun]) -> None:
    table = boxes_of(groups_of(runs), JobSelection("wait_s", 10.0))
    (axes,) = chart_of("boxes", runs, PlotOptions("wait_s")).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(table.labels) == ["fcfs", "easy"]
    assert axes.get_ylim() == (table.y.low, table.y.high)
    patches: list[Any] = list(axes.patches)
    for box, patch in zip(table.boxes, patches, strict=True):
        heights = {float(y) for _, y in patch.get_path().vertices}
        assert heights >= {box.percentiles[25], box.percentiles[75]}
    drawn = [set(np.atleast_1d(line.get_ydata()).tolist()) for line in axes.get_lines()]
    assert all({box.median} in drawn and {box.mean} in drawn for box in table.boxes)


def test_gantt(runs: Sequence[SavedRun]) -> None:
    table = table_of(runs[0]).rectangles
    wanted = sorted(zip(*(column.tolist() for column in table[:4]), strict=True))
    data = on_page(page.of_runs(runs), "gantt0")
    columns = (
        numbers(data[name], kind) for name, kind in (("left", "<f8"), ("right", "<f8"), ("low", "<u4"), ("high", "<u4"))
    )
    assert sorted(zip(*columns, strict=True)) == wanted
    (bars,) = chart_of("gantt", runs[:1]).axes[0].collections
    boxes = [path.get_extents() for path in bars.get_paths()]
    assert sorted((box.x0, box.x1, box.y0, box.y1) for box in boxes) == wanted


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    return points_of(Store(campaigns.scanned(tmp_path_factory.mktemp("study") / "x", n_weeks=2)))


def dots(panel: Any) -> list[list[float]]:
    """The points of a panel: the runs, or the means."""
    found: list[list[float]] = panel.collections[-1].get_offsets().tolist()
    return found


@pytest.mark.parametrize("kind", ["boxes", "ratios", "means", "mean-ratios"])
def test_charts_of_a_campaign(kind: str, points: list[Point]) -> None:
    are_means, are_ratios = "mean" in kind, "ratios" in kind
    charts = charts_of(points, "mean_wait_s", "conservative", ratios=are_ratios)
    axis = axis_of(charts, with_dots=not are_means, with_intervals=are_means)
    options = CampaignPlotOptions("mean_wait_s", baseline="conservative", width=11.0)
    paper = campaign_charts.chart_of(kind, points, options).axes
    panels = [panel for chart in charts for panel in for_page(chart, axis, as_means=are_means).axes]
    of_table = [chart.panel(row, column) for chart in charts for row in chart.rows for column in chart.columns]
    assert len(paper) == len(panels) == len(of_table) > 3
    for own, other, boxes in zip(paper, panels, of_table, strict=True):
        assert dots(own) == dots(other)
        values = [box.mean.mean for box in boxes] if are_means else [dot.value for box in boxes for dot in box.dots]
        assert [y for _, y in dots(own)] == values
        assert own.get_ylim() == other.get_ylim() == (axis.low, axis.high)
        assert own.get_yscale() == other.get_yscale() == axis.kind


def test_points_of_a_page_name_their_runs(points: list[Point]) -> None:
    (chart, *_) = charts_of(points, "mean_wait_s", "conservative")
    for are_means in (False, True):
        text = chart_style.svg(for_page(chart, axis_of([chart]), as_means=are_means))
        found = re.findall("<title>(.*?)</title>", text)
        assert len(found) == sum(1 if are_means else len(box.dots) for box in chart.boxes)
        assert "xlink:href" not in text.partition("<title>")[2].partition("</title>")[0]
        wanted = r"theta 0\.5, alpha 0\.05: .* \(.* to .*\), 2 weeks" if are_means else r"curie-week01: [\d.,]+"
        assert any(re.fullmatch(wanted, one) for one in found), found


def test_a_sweep_and_differences_have_the_values_of_their_tables(tmp_path: Path) -> None:
    rows = [
        campaigns.Row(f"kth-load{load}", policy, {"mean_wait_s": n * load + seed}, seed=seed)
        for load in (0.5, 0.9)
        for n, policy in enumerate(("fcfs", "easy"), 1)
        for seed in (1, 2)
    ]
    found = points_of(Store(campaigns.keep(tmp_path / "loads", rows, ["kth"])))
    panel: Any
    (panel,) = campaign_charts.chart_of("sweep", found, CampaignPlotOptions("mean_wait_s")).axes
    lines = [line.get_ydata() for line in panel.get_lines() if line.get_marker() == "o"]
    assert [list(map(float, line)) for line in lines] == [[2.0, 2.4], [2.5, 3.3]]
    figure: Any = campaign_charts.chart_of("differences", found, CampaignPlotOptions("mean_wait_s"))
    places = [
        float(line.get_xdata()[0]) for panel in figure.axes for line in panel.get_lines() if line.get_marker() == "o"
    ]
    assert places == pytest.approx([0.5, 0.9])


@pytest.fixture(scope="module")
def many(runs: Sequence[SavedRun]) -> list[SavedRun]:
    return [replace(run, name=f"{run.label}, seed {seed}") for seed in range(MAX_RUNS) for run in runs]


def test_many_runs_are_drawn_by_policy(runs: Sequence[SavedRun], many: Sequence[SavedRun]) -> None:
    labels = [f"fcfs ({MAX_RUNS} runs)", f"easy ({MAX_RUNS} runs)"]
    assert [label for label, _ in groups_of(many)] == labels
    assert [label for label, _ in groups_of(many[:MAX_RUNS])] == [run.label for run in many[:MAX_RUNS]]
    assert len(groups_of(many, "run")) == 2 * MAX_RUNS
    assert [len(own) for _, own in groups_of(many[:6], "policy")] == [3, 3]
    alone, all_runs = (boxes_of(groups_of(one), JobSelection("wait_s", 10.0)) for one in (runs, many))
    assert [box.n for box in all_runs.boxes] == [MAX_RUNS * box.n for box in alone.boxes]
    assert [box.median for box in all_runs.boxes] == [box.median for box in alone.boxes]
    for kind in ("cdf", "boxes", "queue", "utilisation"):
        figure = chart_of(kind, many, PlotOptions("wait_s"))
        assert len(figure.axes) == (2 if kind == "utilisation" else 1)
    assert "; means of each 1 min and over runs" in figure.axes[-1].get_xlabel()
    span = span_of(many)
    table = over_time(groups_of(many), "queue", time_axis(*span), span)
    assert [max(line.y) for line in table.lines] == [
        pytest.approx(max(run.queue_length.binned(line.x))) for run, line in zip(runs, table.lines, strict=True)
    ]


def test_labels_name_policies_and_runs(many: Sequence[SavedRun]) -> None:
    found = renamed(many, {"easy": "EASY", "fcfs, seed 0": "First"})
    assert [run.label for run in found[:4]] == ["First", "EASY, seed 0", "fcfs, seed 1", "EASY, seed 1"]
    assert [label.partition(" (")[0] for label, _ in groups_of(found)] == ["fcfs", "EASY"]
    for labels in ({"easy": "x", "fcfs": "x"}, {"easy": " "}):
        with pytest.raises(InputError, match="expected names that are not empty and differ"):
            renamed(many, labels)


def test_policies_are_named_by_the_options_that_differ(place: Path) -> None:
    own = [simulated(place, f"by-{order}", "easy", 3, "-o", f"order={order}") for order in ("fcfs", "sjf")]
    assert policies_of(own) == ["easy (order=fcfs)", "easy (order=sjf)"]
    assert policies_of(own[:1]) == ["easy"]


def test_the_command_names_policies_of_many_runs(runs: Sequence[SavedRun], place: Path) -> None:
    names = [name for k in range(7) for name in (f"s{k}/fcfs", f"s{k}/easy")]
    for name in names:
        (place / name).parent.mkdir(exist_ok=True)
        for file in place.glob(f"{Path(name).name}_*"):
            (place / f"{name}{file.name.removeprefix(Path(name).name)}").write_bytes(file.read_bytes())
    args = ("--measure", "wait_s", "--label", "easy=EASY", "--output", "x.svg")
    done = run_cli("plot", "boxes", *names, *args, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    texts = re.findall(r"<!-- (.*?) -->", (place / "x.svg").read_text())
    assert {"fcfs", "EASY", "(7 runs)"} <= set(texts) or {"fcfs (7 runs)", "EASY (7 runs)"} <= set(texts), texts
    done = run_cli("plot", "boxes", *names, *args, "--by", "run", cwd=place)
    assert "s3/EASY" in re.findall(r"<!-- (.*?) -->", (place / "x.svg").read_text())
    wrong = run_cli("plot", "boxes", *names, "--label", "joy=x", "--output", "x.svg", cwd=place)
    assert (wrong.returncode, "label joy=x: expected OLD=NEW" in wrong.stderr) == (2, True)
