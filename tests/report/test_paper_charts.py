"""Figures for papers: their sizes, fonts, colours, legends, labels and spans of time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from support import campaigns
from support.nodes_example import simulate_example
from support.process import run_cli

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import SavedRun, read_run
from pybatsched.report import campaign_charts, chart_style
from pybatsched.report.campaign.points import points_of
from pybatsched.report.campaign_charts import CampaignPlotOptions
from pybatsched.report.charts import KINDS, PlotOptions, chart_of
from pybatsched.report.provenance import relabelled

LONG = (
    "FCFS (first come, first served)",
    "EASY backfilling in the order of submissions",
    "EASY backfilling, shortest job first",
    "Conservative backfilling with compression",
    "EASY backfilling, narrowest job first",
    "EASY backfilling, smallest area first ($a$)",
)


def simulated(folder: Path, name: str, jobs: Sequence[tuple[float, float]]) -> None:
    """Run jobs (submission, run time) of one processor each on two processors."""
    content = {
        "nb_res": 2,
        "jobs": [{"id": str(k), "subtime": at, "res": 1, "profile": f"{run}"} for k, (at, run) in enumerate(jobs)],
        "profiles": {f"{run}": {"type": "delay", "delay": run} for _, run in jobs},
    }
    (folder / f"{name}.json").write_text(json.dumps(content))
    args = ("--procs", "2", "-w", f"{name}.json", "--policy", "fcfs", "-e", name)
    assert run_cli("simulate", *args, cwd=folder).returncode == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    simulated(folder, "few", [(3600.0 * k, 7000.0 + k) for k in range(24)])
    simulate_example(folder, "nodes")
    simulated(folder, "many", [(60.0 * k, 100.0 + k % 50) for k in range(301)])
    return folder


@pytest.fixture(scope="module")
def run(place: Path) -> SavedRun:
    return read_run(str(place / "few"))


@pytest.fixture(scope="module")
def six(run: SavedRun) -> list[SavedRun]:
    return [replace(run, name=label) for label in LONG]


def check_all_inside(figure: Any) -> None:
    """All that is drawn is within the chart, but for a hundredth of an inch."""
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0) >= -0.01
    assert (box.x1 <= width + 0.01, box.y1 <= height + 0.01) == (True, True)


@pytest.mark.parametrize(("width", "inches"), [("column", 3.5), ("text", 7.2), ("5", 5.0)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_has_the_requested_width(kind: str, width: str, inches: float, place: Path) -> None:
    from matplotlib.figure import Figure

    run = read_run(str(place / ("nodes" if kind in {"gantt", "resources"} else "few")))
    found = chart_of(kind, [run], PlotOptions("wait_s", width=chart_style.width_of(width)))
    assert isinstance(found, Figure)
    check_all_inside(found)
    assert found.get_figwidth() == inches


def test_the_default_is_the_width_of_the_text(run: SavedRun) -> None:
    assert chart_of("cdf", [run]).get_figwidth() == 7.2


@pytest.mark.parametrize("text", ["wide", "1.9", "41", "nan", "-3"])
def test_invalid_widths_are_rejected(text: str, place: Path) -> None:
    done = run_cli("plot", "cdf", "few", "--width", text, "--output", "none.svg", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"pybatsched: --width {text}: expected column, text or 2 to 40 inches\n"


def test_fonts_are_embedded_as_truetype_also_in_charts_of_users(run: SavedRun, tmp_path: Path) -> None:
    import matplotlib as mpl

    before = mpl.rcParams["pdf.fonttype"]
    figure = chart_of("cdf", [run])
    figure.savefig(tmp_path / "x.pdf")
    content = (tmp_path / "x.pdf").read_bytes()
    assert b"/Type3" not in content
    assert b"/FontFile2" in content
    figure.savefig(tmp_path / "x.eps")
    assert b"FontType 42" in (tmp_path / "x.eps").read_bytes()
    assert mpl.rcParams["pdf.fonttype"] == before
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [3.5, 7.2])
@pytest.mark.parametrize("n", [2, 3, 6])
def test_a_legend_is_within_the_chart_and_over_no_axes(width: float, n: int, six: list[SavedRun]) -> None:
    figure = chart_of("cdf", six[:n], PlotOptions("wait_s", width=width))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    (axes,) = figure.axes
    frame, box = figure.bbox.padded(1e-6), legend.get_window_extent()
    assert frame.x0 <= box.x0 < box.x1 <= frame.x1
    assert frame.y0 <= box.y0 < box.y1 <= frame.y1
    assert not box.overlaps(axes.get_tightbbox())  # type: ignore[arg-type]
    assert axes.get_window_extent().height > 0.5 * frame.height
    assert [text.get_text().replace("\n", " ") for text in legend.get_texts()] == [
        label.replace("$", r"\$") for label in LONG[:n]
    ]


@pytest.mark.parametrize("kind", ["utilisation", "queue", "boxes"])
def test_no_text_is_outside_of_a_narrow_chart(kind: str, six: list[SavedRun]) -> None:
    check_all_inside(chart_of(kind, six, PlotOptions("wait_s", width=3.5)))


def test_a_word_that_is_too_wide_is_broken() -> None:
    lines = chart_style.wrapped("x" * 100, 2.0, 8.0).split("\n")
    assert "".join(lines) == "x" * 100
    assert all(chart_style.text_width(line, 8.0) <= 2.0 for line in lines)
    assert chart_style.wrapped("short words", 9.0, 8.0) == "short words"


@pytest.mark.parametrize("width", [3.5, 7.2])
@pytest.mark.parametrize("n", [3, 6])
def test_labels_of_boxes_are_not_broken_within_words(n: int, width: float, six: list[SavedRun]) -> None:
    names = [
        "conservative(compression=False)",
        "easy(order=sjf, assume_walltime=86400)",
        "my_own_easy_with_reservations",
    ]
    labels = [name if k < 3 else f"{name} again" for k, name in enumerate(names * 2)]
    runs = [replace(run, name=label) for run, label in zip(six, labels, strict=True)][:n]
    figure = chart_of("boxes", runs, PlotOptions("wait_s", width=width))
    shown = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    for label, text in zip(labels, shown, strict=False):
        lines = text.partition("\nn = ")[0].split("\n")
        assert "".join(lines).replace(" ", "") == label.replace(" ", "")
        assert all(line.endswith((",", "_")) or f"{line} " in label for line in lines[:-1])
    check_all_inside(figure)


#: What readers without red or green cones see: linear RGB by Machado, Oliveira and Fernandes (2009).
BLINDNESS = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}


def seen(color: str, by: str = "none") -> tuple[float, float, float]:
    """L*, a* and b* of a colour."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    r, g, b = (min(max(sum(w * x for w, x in zip(row, linear, strict=True)), 0), 1) for row in BLINDNESS[by])
    whites = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in whites)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_colours_differ_in_grey_and_for_colour_blind_readers() -> None:
    for one, other in combinations(chart_style.COLORS, 2):
        assert abs(seen(one)[0] - seen(other)[0]) >= 10, (one, other)
        for by in BLINDNESS:
            distance = sum((a - b) ** 2 for a, b in zip(seen(one, by), seen(other, by), strict=True)) ** 0.5
            assert distance >= 25, (one, other, by)


def test_twelve_lines_differ_in_colour_or_dashes() -> None:
    looks = {(look["color"], str(look["linestyle"])) for look in map(chart_style.line, range(12))}
    assert len(looks) == 12
    assert len({str(chart_style.line(number)["linestyle"]) for number in range(6)}) == 6


def test_many_jobs_are_coloured_by_wait_with_a_colour_bar(place: Path, run: SavedRun) -> None:
    many = read_run(str(place / "many"))
    assert [axes.get_ylabel() for axes in chart_of("gantt", [many]).axes] == ["processor", "wait"]
    assert [axes.get_ylabel() for axes in chart_of("gantt", [run]).axes] == ["processor"]
    by_job = chart_of("gantt", [many], PlotOptions(color="job"))
    assert len(by_job.axes) == 1
    by_wait = chart_of("gantt", [run], PlotOptions(color="wait"))
    assert len(by_wait.axes) == 2
    # 300 of 301 jobs are in the span: each has its own colour
    assert len(chart_of("gantt", [many], PlotOptions(end_s=3600.0)).axes) == 1


def test_longer_waits_are_darker(run: SavedRun) -> None:
    figure: Any = chart_of("gantt", [run], PlotOptions(color="wait"))
    (bars,) = figure.axes[0].collections
    waits = [record.segments[0].started_at - record.submitted_at for record in run.records]
    starts = [record.segments[0].started_at for record in run.records]
    of_starts = sorted(zip(starts, waits, strict=True))
    light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b, _ in bars.get_facecolor()]
    pairs = list(zip([wait for _, wait in of_starts], light, strict=True))
    for (wait, own), (longer, other) in combinations(sorted(pairs), 2):
        assert own >= other or wait == longer


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ((), ["few", "many"]),
        (("One", "Two"), ["One", "Two"]),
        (("many=Many jobs",), ["few", "Many jobs"]),
        (("few=a=b", "many=Many"), ["a=b", "Many"]),
        (("x=1", "y=2"), ["x=1", "y=2"]),
        (("out/few=Few",), ["Few", "many"]),
    ],
)
def test_labels_are_by_position_or_by_name(given: tuple[str, ...], labels: list[str]) -> None:
    assert relabelled(["few", "many"], given, ["out/few", "out/many"]) == labels


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("One",), "--label One: expected OLD=NEW, where OLD is one of few, many; or give one --label for each"),
        (("few=One", "joy=Two"), "label joy=Two: expected OLD=NEW, where OLD is one of few, many; or give one"),
        (("few=many",), "label many: found for few and for many; expected different names"),
        (("few=",), "label: found an empty label for few; expected a name"),
    ],
)
def test_invalid_labels_are_rejected(given: tuple[str, ...], message: str, place: Path) -> None:
    args = [text for label in given for text in ("--label", label)]
    done = run_cli("plot", "cdf", "few", "many", *args, "--output", "none.svg", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def plot(place: Path, *args: str) -> tuple[str, list[str]]:
    """Draw a chart; give the line that is printed, and all texts in the picture."""
    done = run_cli("plot", *args, "--output", "x.svg", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    return line.partition(": ")[2].rpartition("; ")[0], re.findall(r"<!-- (.*?) -->", (place / "x.svg").read_text())


def test_the_command_names_runs(place: Path) -> None:
    _, texts = plot(place, "cdf", "few", "many", "--label", "many=Many jobs", "--width", "column")
    assert {"few", "Many jobs"} <= {*texts}
    assert "many" not in texts


@pytest.mark.parametrize("kind", ["gantt", "utilisation", "queue"])
def test_the_axis_of_time_has_these_ends(kind: str, run: SavedRun) -> None:
    figure = chart_of(kind, [run], PlotOptions(begin_s=7200.0, end_s=36_000.0))
    assert figure.axes[0].get_xlim() == (7200.0, 36_000.0)
    half = chart_of(kind, [run], PlotOptions(end_s=36_000.0))
    assert half.axes[0].get_xlim() == (0.0, 36_000.0)


def test_a_queue_in_a_span_starts_with_the_jobs_that_wait_there(place: Path) -> None:
    many = read_run(str(place / "many"))
    steps = many.queue_length
    figure: Any = chart_of("queue", [many], PlotOptions(begin_s=6000.0, end_s=9000.0))
    (line,) = figure.axes[0].get_lines()
    times, values = list(line.get_xdata()), list(line.get_ydata())
    assert (times[0], values[0]) == (6000.0, steps.at(6000.0))
    assert (times[-1], values[-1]) == (9000.0, steps.at(8999.999))


def test_only_jobs_submitted_in_the_span_count(place: Path) -> None:
    line, texts = plot(place, "boxes", "few", "--from", "2h", "--to", "0.25d", "--measure", "wait_s")
    assert line == "boxes of wait (s) of few, 4 jobs, from 2 h to 6 h"
    assert "n = 4" in texts


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("cdf", "few", "--from", "soon"),
            "--from: expected seconds, or a number with m, h, d or w as in 12h, found soon",
        ),
        (("cdf", "few", "--from", "2h", "--to", "1h"), "--to 1h: expected a time after --from 2h"),
        (("cdf", "few", "--from", "9d"), "few: expected at least one job submitted from 9 d with bounded_slowdown"),
        (("queue", "few", "--from", "9d"), "no job is shown from 9 d: the runs last from 0 s to 1.04 d; use another"),
        (("cdf", "few", "--only", "w"), "--only: works only with a campaign, not with runs; remove it"),
        (("cdf", "few", "--color", "wait"), "--color: works only with the chart gantt, not with cdf"),
    ],
)
def test_invalid_options_are_rejected(args: tuple[str, ...], message: str, place: Path) -> None:
    done = run_cli("plot", *args, "--output", "none.svg", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (place / "none.svg").exists()


def kept(folder: Path, ending: str = "") -> Path:
    """Write a campaign of two weeks of two logs; `ending` is that of the names of its workloads."""
    rows = [
        campaigns.Row(f"{family}-week0{week}{ending}", policy, {"mean_wait_s": 100.0 * week + 7 * number})
        for family in ("kth", "sdsc")
        for week in (1, 2)
        for number, policy in enumerate(LONG)
    ]
    return campaigns.keep(folder, rows, ["kth", "sdsc"])


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kept(tmp_path_factory.mktemp("papers") / "study")


@pytest.mark.parametrize("width", [3.5, 7.2])
@pytest.mark.parametrize("kind", campaign_charts.KINDS)
def test_charts_of_a_campaign_have_the_width_and_no_clipped_text(
    kind: str, width: float, study: Path, tmp_path: Path
) -> None:
    points = points_of(Store(kept(tmp_path / "loads", "-load0.9") if kind == "sweep" else study))
    figure = campaign_charts.chart_of(kind, points, CampaignPlotOptions("wait_s", width=width))
    assert figure.get_figwidth() == width
    check_all_inside(figure)


def test_only_some_workloads_are_drawn_with_other_names(study: Path) -> None:
    args = ("--measure", "wait_s", "--only", "sdsc", "--label", "sdsc=SDSC SP2", "--label", f"{LONG[0]}=FCFS")
    line, texts = plot(study.parent, "means", "study", *args)
    assert line == "means of mean wait (s), 12 values"
    assert {"SDSC SP2", "FCFS"} <= {*texts}
    assert not {"kth", "sdsc", LONG[0]} & {*texts}
    line, _ = plot(study.parent, "boxes", "study", "--measure", "wait_s", "--only", "*-week01")
    assert line.startswith("boxes of mean wait (s), 12 values")


def test_settings_are_renamed_by_their_names(tmp_path: Path) -> None:
    rows = [
        campaigns.Row("w", "easy", {"mean_wait_s": wait}, {"order": order})
        for order, wait in (("fcfs", 2.0), ("sjf", 1.0))
    ]
    campaigns.keep(tmp_path / "study", rows, ["w"])
    args = ("--measure", "wait_s", "--baseline", "easy (order=fcfs)", "--label", "easy (order=fcfs)=EASY")
    _, texts = plot(tmp_path, "ratios", "study", *args)
    assert "easy: mean wait, over that of EASY" in texts


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--only", "joy"), "--only joy: expected a workload of the campaign: kth, sdsc"),
        (
            ("--label", "joy=x"),
            "--label joy=x: expected OLD=NEW, where OLD is one of FCFS (first come, first served), ",
        ),
        (("--label", "kth=sdsc"), "label 'sdsc': found for two names of one chart; expected different names"),
        (("--from", "1h"), "--from: works only with runs, not with a campaign"),
        (("--color", "job"), "--color: works only with runs, not with a campaign"),
        (("--width", "x"), "--width x: expected column, text or 2 to 40 inches"),
    ],
)
def test_invalid_options_for_a_campaign_are_rejected(
    args: tuple[str, ...], message: str, study: Path, tmp_path: Path
) -> None:
    done = run_cli("plot", "boxes", str(study), "--measure", "wait_s", *args, "--output", "x.svg", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_unknown_charts_are_rejected_in_python(run: SavedRun) -> None:
    with pytest.raises(
        InputError, match="chart 'joy': expected one of gantt, utilisation, resources, queue, cdf, boxes"
    ):
        chart_of("joy", [run])
    with pytest.raises(InputError, match="chart 'joy': expected one of boxes, ratios, means, mean-ratios"):
        campaign_charts.chart_of("joy", [])
