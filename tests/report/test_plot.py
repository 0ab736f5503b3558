"""Figures of runs: the output of `plot`, axes, and units of time."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support import campaigns
from support.process import run_cli, run_with_little_room

from pybatsched.metrics.saved_runs import read_run
from pybatsched.report import durations
from pybatsched.report.charts import KINDS, PlotOptions
from pybatsched.report.gantt import chart
from pybatsched.report.gantt.bars import bars_of
from pybatsched.report.scales import kind_for

DAY_S = 86400


def simulated(folder: Path, name: str, jobs: Sequence[tuple[float, int, float]], policy: str = "fcfs") -> None:
    """Run jobs (submission, processors, run time) on four processors."""
    content = {
        "nb_res": 4,
        "jobs": [{"id": str(k), "subtime": at, "res": n, "profile": f"d{k}"} for k, (at, n, _) in enumerate(jobs)],
        "profiles": {f"d{k}": {"type": "delay", "delay": run} for k, (_, _, run) in enumerate(jobs)},
    }
    (folder / f"{name}.json").write_text(json.dumps(content))
    args = ("--procs", "4", "-w", f"{name}.json", "--policy", policy, "-e", name)
    assert run_cli("simulate", *args, cwd=folder).returncode == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs: of some days with waits up to a day, of some minutes, and one with a long queue."""
    folder = tmp_path_factory.mktemp("runs")
    simulated(folder, "days", [(k * 3600, 4, 4 * 3600) for k in range(12)] + [(9 * DAY_S, 1, DAY_S)])
    simulated(folder, "minutes", [(k * 10, 4, 20) for k in range(12)])
    simulated(folder, "crowd", [(0, 4, 1000)] + [(1, 4, 1000) for _ in range(60)])
    return folder


def plot(place: Path, *args: str) -> tuple[str, list[str]]:
    """Draw a chart; give the line that is printed, and all texts in the picture."""
    done = run_cli("plot", *args, "--output", "x.svg", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    return line, re.findall(r"<!-- (.*?) -->", (place / "x.svg").read_text())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("gantt", "days"), "gantt of days, 13 jobs"),
        (("utilisation", "days", "minutes"), "processors in use over time of 2 runs, 25 jobs"),
        (("queue", "minutes"), "waiting jobs over time of minutes, 12 jobs"),
        (("queue", "crowd", "minutes"), "waiting jobs over time of 2 runs, 73 jobs, on a logarithmic axis"),
        (("cdf", "days", "--measure", "wait_s"), "cdf of wait (s) of days, 13 jobs, on a logarithmic axis"),
        (("cdf", "days", "--measure", "wait_s", "--scale", "linear"), "cdf of wait (s) of days, 13 jobs"),
        (("cdf", "minutes", "--measure", "runtime_s"), "cdf of runtime (s) of minutes, 12 jobs"),
        (("boxes", "days", "minutes"), "boxes of bounded slowdown of 2 runs, 25 jobs"),
        (
            ("boxes", "minutes", "--scale", "log"),
            "boxes of bounded slowdown of minutes, 12 jobs, on a logarithmic axis",
        ),
    ],
)
def test_one_line_says_which_file_was_written_and_what_it_shows(
    args: tuple[str, ...], message: str, place: Path
) -> None:
    line, _ = plot(place, *args)
    assert re.fullmatch(r"\d+\.\d kB", line.removeprefix(f"x.svg: {message}; ")), line
    size = (place / "x.svg").stat().st_size
    assert line.endswith(f"; {size / 1e3:.1f} kB")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("boxes",), "boxes of mean wait (s), 32 values, on a logarithmic axis"),
        (("ratios",), "ratios of mean wait, 24 values"),
        (("means", "--scale", "linear"), "means of mean wait (s), 32 values"),
        (("mean-ratios", "--policy", "redirection"), "mean-ratios of mean wait, 24 values"),
    ],
)
def test_the_command_describes_charts_of_a_campaign(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    campaigns.scanned(tmp_path / "study", n_weeks=2)
    line, texts = plot(tmp_path, args[0], "study", "--measure", "wait_s", *args[1:])
    assert line.startswith(f"x.svg: {message}; ")
    assert texts.count("n = 2") == (12 if "ratios" in message else 16)


def test_long_times_are_in_days(place: Path) -> None:
    for kind in ("gantt", "utilisation", "queue"):
        _, texts = plot(place, kind, "days")
        assert "time (days)" in texts
        assert [text for text in texts if text.isdigit()][:3] == ["0", "2", "4"], kind
        _, texts = plot(place, kind, "minutes")
        assert "time (minutes)" in texts


def test_durations_have_units(place: Path) -> None:
    _, texts = plot(place, "cdf", "days", "--measure", "wait_s")
    marks = ["0", "1 s", "10 s", "1 min", "10 min", "1 h", "1 d"]
    assert list(dict.fromkeys(text for text in texts if text in marks)) == marks
    assert "wait" in texts
    _, texts = plot(place, "boxes", "days", "--measure", "wait_s", "--scale", "linear")
    assert "wait (hours)" in texts


def test_a_campaigns_durations_have_units_too(tmp_path: Path) -> None:
    campaigns.scanned(tmp_path / "study", n_weeks=2)
    _, texts = plot(tmp_path, "boxes", "study", "--measure", "wait_s")
    assert "1 h" in texts
    _, texts = plot(tmp_path, "boxes", "study", "--measure", "wait_s", "--scale", "linear")
    assert texts.count("mean wait (hours)") == 2
    assert "mean wait (s)" not in texts


def test_boxes_show_their_n_and_each_run_has_a_panel(place: Path) -> None:
    _, texts = plot(place, "boxes", "days", "minutes")
    assert [text for text in texts if text.startswith("n = ")] == ["n = 13", "n = 12"]
    _, texts = plot(place, "utilisation", "days", "minutes", "crowd")
    assert [text for text in texts if text in {"days", "minutes", "crowd"}] == ["days", "minutes", "crowd"]


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
@pytest.mark.parametrize("args", [("plot", "cdf", "days", "--output"), ("workload", "stats", "days.json", "--plot")])
def test_an_incomplete_chart_is_removed(args: tuple[str, ...], ending: str, place: Path, tmp_path: Path) -> None:
    """Of any kind: if the disk becomes full while writing, each kind fails differently."""
    path = tmp_path / f"figure.{ending}"
    done = run_with_little_room(*args, str(path), cwd=place)
    assert (done.returncode, done.stderr) == (2, f"pybatsched: {path}: cannot be written: File too large\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["gantt", "utilisation"])
def test_scale_is_rejected_for_charts_without_a_choice_of_axis(kind: str, place: Path) -> None:
    done = run_cli("plot", kind, "days", "--scale", "log", "--output", "none.svg", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--scale: expected one of the charts queue, cdf, boxes" in done.stderr
    assert not (place / "none.svg").exists()


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (1, 20, "linear"),
        (1, 20.1, "log"),
        (0, 20, "linear"),
        (0, 20.1, "symlog"),
        (-1, 1e6, "linear"),
        (5, 5, "linear"),
    ],
)
def test_an_axis_is_logarithmic_if_values_are_far_apart(low: float, high: float, kind: str) -> None:
    assert kind_for(low, high) == kind


def test_an_axis_has_the_requested_scale() -> None:
    assert [kind_for(1, 2, "log"), kind_for(0, 2, "log"), kind_for(-1, 2, "log")] == ["log", "symlog", "linear"]
    assert [kind_for(low, 1e6, "linear") for low in (-1, 0, 1)] == ["linear"] * 3


@given(st.floats(0, 1e6), st.floats(1, 1e9))
def test_ticks_of_time_are_few_and_round(begin: float, span: float) -> None:
    end = begin + span
    found = durations.ticks(begin, end)
    unit = durations.unit_of(end - begin)
    assert len(found) <= 11
    assert all(begin <= tick <= end for tick in found)
    steps = {round((after - before) / unit.seconds, 6) for before, after in pairwise(found)}
    assert len(steps) <= 1
    assert all(step == float(f"{step:.2g}") for step in steps)


@pytest.mark.parametrize(
    ("span_s", "unit", "texts"),
    [
        (700 * DAY_S, "days", ["0", "100", "200", "300", "400", "500", "600", "700"]),
        (3 * DAY_S, "days", ["0", "0.5", "1", "1.5", "2", "2.5", "3"]),
        (DAY_S, "hours", ["0", "3", "6", "9", "12", "15", "18", "21", "24"]),
        (7000, "minutes", ["0", "15", "30", "45", "60", "75", "90", "105"]),
        (100, "s", ["0", "15", "30", "45", "60", "75", "90"]),
        (1, "s", ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_axes_of_time(span_s: float, unit: str, texts: list[str]) -> None:
    marks, name = durations.labelled(0, span_s)
    assert (name, [text for _, text in marks]) == (unit, texts)


@given(st.floats(1, 1e7), st.floats(3, 1e6))
def test_axes_of_durations_always_have_marks(low: float, factor: float) -> None:
    found = durations.marks(low, min(low * factor, 8e7))
    assert found
    assert found == sorted(found)


def test_means_are_over_round_spans_of_time() -> None:
    assert [
        durations.duration_text(durations.span_for(days * DAY_S, 400)) for days in (0.1, 7, 30, 365, 730, 4000)
    ] == [
        "1 min", "30 min", "2 h", "1 d", "2 d", "14 d",
    ]  # fmt: skip


@pytest.mark.parametrize(("figure", "marks"), [("cdf", {"6 h", "1 d"}), ("boxes", {"1 d"})])
def test_an_axis_of_waits_near_a_day_has_a_mark_at_one_day(figure: str, marks: set[str], tmp_path: Path) -> None:
    simulated(tmp_path, "day", [(0, 4, 23 * 3600.0), *((k, 4, 1.0) for k in range(1, 20))])
    _, texts = plot(tmp_path, figure, "day", "--measure", "wait_s", "--scale", "log")
    assert marks <= {*texts}


def test_queues_differ_without_colours_and_span_the_axis(place: Path) -> None:
    from matplotlib.figure import Figure

    drawn = Figure()
    runs = [read_run(str(place / name)) for name in ("days", "minutes", "crowd")]
    KINDS["queue"].draw(drawn, runs, PlotOptions("wait_s"))
    lines: Any = drawn.axes[0].get_lines()
    assert len({line.get_linestyle() for line in lines}) == 3
    for line in lines:
        times, values = list(line.get_xdata()), list(line.get_ydata())
        assert (times[0], times[-1]) == (0, 10 * DAY_S)  # of all runs
        assert (values[0], values[-1]) == (0, 0)
        assert times == sorted(times)


def test_a_gantt_chart_has_the_colours_of_the_page_and_names_its_run(tmp_path: Path) -> None:
    """The page counts jobs by their submission; rows of files are in the order of ends."""
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure

    simulated(tmp_path, "both", [(0, 2, 100.0), (1, 2, 10.0), (2, 1, 5.0)])
    run = read_run(str(tmp_path / "both"))
    drawn = Figure()
    KINDS["gantt"].draw(drawn, [run], PlotOptions("wait_s"))
    assert drawn.axes[0].get_title(loc="left") == "both"
    (bars,) = drawn.axes[0].collections
    colors: Any = bars.get_facecolor()
    ran = [record for record in run.records if record.ran]
    found = {ran[bar.job].id: to_hex(color) for bar, color in zip(bars_of(ran), colors, strict=True)}
    data = chart.data_of(run)
    palette = [f"#{value & 0xFF:02x}{value >> 8 & 0xFF:02x}{value >> 16 & 0xFF:02x}" for value in data["palette"]]
    hues = base64.b64decode(data["hues"])
    assert [record.id for record in run.records] != sorted(found)
    assert found == {job: palette[hue] for job, hue in zip(data["jobs"], hues, strict=True)}
