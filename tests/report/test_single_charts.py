"""Single charts and the page, without a browser: output, rejected arguments, and deterministic files."""

from __future__ import annotations

import base64
import json
import re
import shutil
from array import array
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from support import blocked, campaigns, file_loads, preempted
from support.nodes_example import simulate_example
from support.places import ROOT
from support.process import run_cli, run_elsewhere, run_process

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import read_run
from pybatsched.report import campaign_charts, charts, page
from pybatsched.report.campaign import points as samples
from pybatsched.report.campaign_charts import CampaignPlotOptions
from pybatsched.report.chart_style import plain
from pybatsched.report.charts import KINDS, chart_of
from pybatsched.report.gantt import bars, chart
from pybatsched.session.explain import explain, job_histories
from pybatsched.session.journal import JournalReader

PUSHY = ROOT / "tests" / "support" / "pushy.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    workload = str(ROOT / "examples" / "workload.json")
    for name, policy in (("easy", "easy"), ("pushy", f"{PUSHY}:Ruthless")):
        args = ("--procs", "32", "-w", workload, "--policy", policy, "-e", name, "--journal", f"{name}.pbj")
        assert run_cli("simulate", *args, cwd=folder).returncode == 0
    simulate_example(folder, "nodes")
    return folder


ENDINGS = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}
PAGE = ("report", "easy", "pushy", "--output")


def drawing(kind: str, file: str) -> tuple[str, ...]:
    """Return the command that draws a chart."""
    runs = {"gantt": ("easy",), "resources": ("nodes",)}.get(kind, ("easy", "pushy"))
    return ("plot", kind, *runs, "--output", file)


@pytest.fixture(scope="module")
def elsewhere(place: Path) -> Path:
    """The same runs, with all charts and the page drawn by another process."""
    charts = [drawing(kind, f"elsewhere-{kind}.{ending}") for kind in KINDS for ending in ENDINGS]
    run_elsewhere([*charts, (*PAGE, "elsewhere.html")], cwd=place)
    return place


@pytest.mark.parametrize("name", ["e\x1b[31m", "b\udcff"])
def test_characters_invalid_in_xml_are_escaped(name: str, place: Path, tmp_path: Path) -> None:
    for file in place.glob("easy_*"):
        shutil.copy(file, tmp_path / f"{name}{file.name.removeprefix('easy')}")
    done = run_cli("plot", "utilisation", name, "--output", "a.svg", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    drawn = (tmp_path / "a.svg").read_text("utf-8")
    ET.fromstring(drawn)
    assert f"<!-- {name.encode('unicode_escape').decode()} -->" in drawn
    assert plain("n\uffff$") == r"n\uffff\$"
    if name == "b\udcff":
        assert run_cli("report", name, "--output", "a.html", cwd=tmp_path).returncode == 0
        assert "b\\udcff" in (tmp_path / "a.html").read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_charts_are_the_same_for_the_same_run(kind: str, ending: str, elsewhere: Path) -> None:
    done = run_cli(*drawing(kind, f"here-{kind}.{ending}"), cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    here, there = ((elsewhere / f"{where}-{kind}.{ending}").read_bytes() for where in ("here", "elsewhere"))
    assert here.startswith(ENDINGS[ending])
    assert here == there


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return campaigns.scanned(tmp_path_factory.mktemp("study"))


@pytest.mark.parametrize(
    ("kind", "ending"),
    [*((kind, "svg") for kind in campaign_charts.KINDS), *(("boxes", end) for end in ("pdf", "png"))],
)
def test_charts_of_a_campaign_are_the_same_for_the_same_campaign(
    kind: str, ending: str, study: Path, tmp_path: Path
) -> None:
    if kind == "sweep":
        loads = [
            campaigns.Row(f"kth-load{load}", policy, {"mean_wait_s": n * load})
            for load in (0.5, 0.9)
            for n, policy in enumerate(("fcfs", "easy"), 1)
        ]
        study = campaigns.keep(tmp_path / "loads", loads, ["kth"])
    points = samples.points_of(Store(study))
    found = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.{ending}"
        campaign_charts.draw(kind, points, path, CampaignPlotOptions("wait_s"))
        found.append(path.read_bytes())
    assert found[0] == found[1]
    assert len(found[0]) > 5000


def test_a_chart_of_a_campaign_has_a_description(study: Path, tmp_path: Path) -> None:
    args = ("--measure", "mean_wait_s", "--policy", "redirection", "--output", "x.svg")
    done = run_cli("plot", "ratios", str(study), *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "x.svg").read_text()
    texts = re.findall(r"<!-- (.*?) -->", text)
    assert "redirection: mean wait, over that of conservative" in texts
    assert texts.count("alpha 0.05") == texts.count("alpha 0.1") == 1
    assert [part for part in texts if part in {"0.5", "2", "10"}][:3] == ["0.5", "2", "10"]
    assert "theta" in texts


@pytest.mark.parametrize("kind", ["ratios", "mean-ratios"])
@pytest.mark.parametrize(
    ("baseline", "args", "chosen"),
    [("fcfs", (), "fcfs"), ("fcfs", ("--baseline", "conservative"), "conservative"), ("", (), "easy")],
)
def test_ratios_are_to_the_baseline_of_the_campaign(
    kind: str, baseline: str, args: tuple[str, ...], chosen: str, tmp_path: Path
) -> None:
    rows = [campaigns.Row("w", name, {"mean_wait_s": 2.0}) for name in ("easy", "fcfs", "conservative")]
    campaigns.keep(tmp_path / "study", rows, ["w"], baseline=baseline)
    done = run_cli("plot", kind, "study", "--measure", "wait_s", *args, "--output", "x.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    texts = re.findall(r"<!-- (.*?) -->", (tmp_path / "x.svg").read_text())
    assert f"mean wait, over that of {chosen}" in texts


def _waits(folder: Path, *waits: tuple[float, float]) -> Path:
    """Write a campaign of policies a, b, … with the mean waits of two seeds each."""
    rows = [
        campaigns.Row("w", "abc"[number], {"mean_wait_s": wait}, seed=seed)
        for number, own in enumerate(waits)
        for seed, wait in enumerate(own)
    ]
    return campaigns.keep(folder, rows, ["w"])


def test_means_are_on_a_logarithmic_axis_on_request(tmp_path: Path) -> None:
    """A single value of 0 is not drawn, and does not matter."""
    _waits(tmp_path / "study", (0.0, 20.0), (40.0, 60.0))
    args = ("--measure", "wait_s", "--scale", "log", "--output", "x.svg")
    done = run_cli("plot", "means", "study", *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("x.svg: means of mean wait (s), 4 values, on a logarithmic axis; ")


@pytest.mark.parametrize(
    ("kind", "waits"), [("boxes", ((0.0, 20.0), (40.0, 60.0))), ("means", ((0.0, 0.0), (40.0, 60.0)))]
)
def test_no_logarithmic_axis_can_show_a_zero(kind: str, waits: tuple[tuple[float, float], ...], tmp_path: Path) -> None:
    _waits(tmp_path / "study", *waits)
    args = ("--measure", "wait_s", "--scale", "log", "--output", "x.svg")
    done = run_cli("plot", kind, "study", *args, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"pybatsched: --scale log: {kind} of mean wait (s) are not all above 0; use --scale linear or --scale auto\n"
    )
    assert not (tmp_path / "x.svg").exists()


def test_names_in_charts_are_not_read_as_mathematics(tmp_path: Path) -> None:
    for kind in campaign_charts.KINDS:
        name = "w-load0.9" if kind == "sweep" else "w"
        rows = [
            campaigns.Row(name, "$\\frac$", {"mean_wait_s": 1.0}),
            campaigns.Row(name, "p", {"mean_wait_s": 2.0}, {"o$_{": "$x"}),
            campaigns.Row(name, "p", {"mean_wait_s": 2.0}, {"o$_{": "^$y$"}),
        ]
        points = samples.points_of(Store(campaigns.keep(tmp_path / kind, rows, ["w"])))
        campaign_charts.draw(kind, points, tmp_path / "x.svg", CampaignPlotOptions("mean_wait_s"))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("gantt",), "gantt: expected runs; charts of a campaign are boxes, ratios"),
        (("boxes", "--measure", "joy"), "measure 'joy': expected one of makespan_s, max_bounded_slowdown"),
        (("boxes", "--measure", "makespans"), "measure 'makespans'; did you mean 'makespan_s'? Expected one of "),
        (("boxes", "--policy", "joy"), "policy 'joy': expected one of conservative, redirection"),
        (("ratios", "--baseline", "joy"), "baseline 'joy': expected one of conservative, redirection"),
        (("ratios", "--policy", "conservative"), "ratios: no points to show of conservative"),
    ],
)
def test_invalid_charts_of_a_campaign_are_rejected(
    args: tuple[str, ...], message: str, study: Path, tmp_path: Path
) -> None:
    done = run_cli("plot", args[0], str(study), *args[1:], "--output", "x.svg", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_charts_of_unfinished_campaigns_are_rejected(tmp_path: Path) -> None:
    none = samples.points_of(Store(campaigns.keep(tmp_path / "none", [campaigns.Row("w", "p", None)], ["w"])))
    with pytest.raises(InputError, match="the campaign has no finished cell to show"):
        campaign_charts.draw("boxes", none, tmp_path / "x.svg", CampaignPlotOptions("wait_s"))
    rows = [campaigns.Row("w", "p", {"mean_wait_s": 1.0})]
    one = samples.points_of(Store(campaigns.keep(tmp_path / "one", rows, ["w"])))
    with pytest.raises(InputError, match="expected a campaign with several policies or settings"):
        campaign_charts.draw("ratios", one, tmp_path / "x.svg", CampaignPlotOptions("wait_s"))


@pytest.mark.parametrize("kind", ["ratios", "mean-ratios"])
@pytest.mark.parametrize(
    ("value", "message"), [(0.0, "of the baseline fcfs is 0, so"), (None, "of the baseline fcfs has no value, so")]
)
def test_a_baseline_of_zero_or_without_a_value_is_reported(
    kind: str, value: float | None, message: str, tmp_path: Path
) -> None:
    rows = [campaigns.Row("w", "fcfs", {"mean_wait_s": value}), campaigns.Row("w", "easy", {"mean_wait_s": 1.0})]
    campaigns.keep(tmp_path / "study", rows, ["w"])
    done = run_cli("plot", kind, "study", "--measure", "wait_s", "--output", "a.svg", cwd=tmp_path)
    assert done.returncode == 2
    expected = f"pybatsched: {kind}: mean_wait_s {message} there are no ratios; use another --baseline or --measure\n"
    assert done.stderr == expected


def test_values_without_a_ratio_and_points_that_failed_are_counted(tmp_path: Path) -> None:
    rows = [campaigns.Row(week, "fcfs", {"mean_wait_s": wait}) for week, wait in (("a", 0.0), ("b", 2.0))]
    rows += [campaigns.Row(week, "easy", {"mean_wait_s": 1.0}) for week in ("a", "b")]
    rows += [campaigns.Row("b", "bad", None, error="it raised"), campaigns.Row("b", "late", None)]
    campaigns.keep(tmp_path / "study", rows, ["a", "b"])
    plot = ("study", "--measure", "wait_s", "--output", "a.svg")
    done = run_cli("plot", "ratios", *plot, cwd=tmp_path)
    assert "ratios of mean wait, 1 value (1 without: the baseline is 0); " in done.stdout
    assert "2 points not included; pybatsched campaign status study shows why" in done.stderr
    assert run_cli("plot", "boxes", *plot, "--policy", "easy", cwd=tmp_path).stderr == ""


@pytest.mark.long
def test_the_page_of_a_campaign_compares_with_the_policy_that_is_named(study: Path) -> None:
    text = page.of_campaign(Store(study), "redirection (theta=2, alpha=0.1)")
    assert "over that of redirection (theta=2, alpha=0.1)</h3>" in text
    assert "over that of conservative" not in text
    with pytest.raises(InputError, match="baseline 'joy'"):
        page.of_campaign(Store(study), "joy")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("cdf", "easy", "--output", "x.gif"), "x.gif: expected a file name that ends in .svg, .pdf, .png"),
        (("gantt", "easy", "pushy", "--output", "x.svg"), "gantt: expected one run, found 2"),
        (("cdf", "nothing", "--output", "x.svg"), "no run 'nothing': nothing_jobs.csv does not exist"),
        (("cdf", "easy", "--output", "easy_jobs.csv/x.svg"), "easy_jobs.csv/x.svg: cannot be written"),
        (("cdf", "easy", "--measure", "joy", "--output", "x.svg"), "measure 'joy': expected one of wait_s, flow_s"),
        (("cdf", "easy", "--measure", "wait", "--output", "x.svg"), "measure 'wait'; did you mean 'wait_s'? Expected"),
        (("ratios", "easy", "pushy", "--output", "x.svg"), "ratios: expected the directory of one campaign"),
        (("boxes", "easy", "--baseline", "easy", "--output", "x.svg"), "--baseline: works only with a campaign"),
    ],
)
def test_invalid_charts_are_rejected(args: tuple[str, ...], message: str, place: Path) -> None:
    done = run_cli("plot", *args, cwd=place)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_page_is_the_same_for_the_same_run_and_names_no_address(elsewhere: Path) -> None:
    """Byte for byte: in two processes that draw nothing else, and after other charts, here and elsewhere."""
    assert run_cli(*PAGE, "here.html", cwd=elsewhere).returncode == 0
    for name in ("first.html", "second.html"):
        done = run_process(*PAGE, name, cwd=elsewhere)
        assert done.returncode == 0, done.stderr
    text = (elsewhere / "first.html").read_bytes()
    assert text.count(b"<svg ") == 2
    assert all((elsewhere / f"{name}.html").read_bytes() == text for name in ("second", "here", "elsewhere"))
    assert not re.search(rb"<(script|link|img)[^>]+(src|href)=[\"']?(http|//)", text)


def test_the_page_of_a_campaign_is_the_same_for_the_same_campaign(study: Path, tmp_path: Path) -> None:
    done = run_process("report", str(study), "--output", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.of_campaign(Store(study))


def column(data: dict[str, Any], name: str, code: str) -> list[Any]:
    return list(array(code, base64.b64decode(data[name])))


def test_rectangles_are_the_processors_of_each_segment(place: Path) -> None:
    run = read_run(str(place / "pushy"))
    data = chart.data_of(run)
    n_rows = sum(len(list(part.procs.intervals())) for record in run.records for part in record.segments)
    assert len(data["jobs"]) == 30
    left, looks = column(data, "left", "d"), column(data, "look", "B")
    assert len(looks) - looks.count(bars.LOAD) == n_rows
    assert left == sorted(left)
    assert set(looks) == {bars.PLAIN, bars.LOST, bars.LOAD}  # a job was killed and restarted after half a second
    assert data["legend"] == [(look, bars.LEGEND[look]) for look in (bars.LOST, bars.LOAD)]
    assert set(data["notes"]) == {"", "killed; this work is lost", "0.5 s before its work"}


def test_a_chart_without_anything_special_has_neither_legend_nor_notes(place: Path) -> None:
    data = chart.data_of(read_run(str(place / "easy")))
    assert data["legend"] == []
    assert "note" not in data
    assert "notes" not in data


def test_each_rectangle_has_the_look_and_the_note_of_its_bar(tmp_path: Path) -> None:
    prefix = preempted.simulated(tmp_path, *preempted.SWAPS)
    data = chart.data_of(read_run(str(prefix), [str(tmp_path / "urgent.json")]))
    rows = zip(
        column(data, "left", "d"),
        column(data, "low", "I"),
        [data["jobs"][number] for number in column(data, "job", "I")],
        column(data, "look", "B"),
        [data["notes"][number] for number in column(data, "note", "I")],
        strict=True,
    )
    held, held_before = "held for 10 s", "held for 10 s before it started"
    assert list(rows) == [
        (0.0, 0, "w0!R1", bars.SUSPENDED, "suspended, preempted by w0!U"),
        (10.0, 0, "w0!U", bars.HELD | bars.URGENT, held),
        (10.0, 6, "w0!U", bars.HELD | bars.URGENT, held),
        (20.0, 0, "w0!U", bars.URGENT, held_before),
        (20.0, 6, "w0!U", bars.URGENT, held_before),
        (80.0, 0, "w0!U2", bars.URGENT, ""),
        (80.0, 6, "w0!U2", bars.URGENT, ""),
        (110.0, 0, "w0!R1", bars.HELD, held),
        (120.0, 0, "w0!R1", bars.PLAIN, held_before),
        (210.0, 0, "w0!R2", bars.PLAIN, ""),
        (260.0, 0, "w0!R3", bars.PLAIN, ""),
    ]
    assert [look for look, _ in data["legend"]] == [bars.SUSPENDED, bars.HELD, bars.URGENT]


@pytest.mark.parametrize(
    ("options", "explained"),
    [(preempted.SWAPS, {bars.SUSPENDED, bars.HELD, bars.URGENT}), (("mode=kill_restart",), {bars.LOST, bars.URGENT})],
)
def test_a_gantt_chart_explains_what_it_shows(options: tuple[str, ...], explained: set[int], tmp_path: Path) -> None:
    preempted.simulated(tmp_path, *options)
    done = run_cli("plot", "gantt", "ujfb", "--output", "x.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    texts = re.findall(r"<!-- (.*?) -->", (tmp_path / "x.svg").read_text())
    assert {look for look, text in bars.LEGEND.items() if text in texts} == explained


def test_a_gantt_chart_explains_loads(tmp_path: Path) -> None:
    file_loads.simulated(tmp_path)
    assert run_cli("plot", "gantt", "loads", "--output", "x.svg", cwd=tmp_path).returncode == 0
    texts = re.findall(r"<!-- (.*?) -->", (tmp_path / "x.svg").read_text())
    assert {look for look, text in bars.LEGEND.items() if text in texts} == {bars.LOAD}


def test_loads_are_striped_in_a_crowded_chart_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file_loads.simulated(tmp_path)
    monkeypatch.setattr(charts, "_MANY_BARS", 0)
    figure = chart_of("gantt", [read_run(str(tmp_path / "loads"))])
    drawn = [one for one in figure.axes[0].collections if one.get_hatch()]
    assert len(drawn) == 1
    assert np.array_equal(drawn[0].get_edgecolor(), [[0.0, 0.0, 0.0, 1.0]])  # white stripes would hide narrow bars


def test_a_plain_gantt_chart_has_no_legend(place: Path) -> None:
    assert run_cli("plot", "gantt", "easy", "--output", "plain.svg", cwd=place).returncode == 0
    texts = re.findall(r"<!-- (.*?) -->", (place / "plain.svg").read_text())
    assert texts
    assert not set(texts) & set(bars.LEGEND.values())


#: Times and rows of the hosts that are blocked in the run of `support.blocked`.
RESERVED = [(40, 60, 3, 4)]
DOWN = [(10, 20, 1, 2), (10, 30, 2, 3), (70, 70.05, 1, 2), (80, 100, 3, 4)]


def test_a_chart_shows_hosts_that_are_reserved_or_down(tmp_path: Path) -> None:
    blocked.simulated(tmp_path, "--reservations", "r.toml")
    run = read_run(str(tmp_path / "blocked"))
    data = chart.data_of(run)
    assert data["blocked"] == {bars.RESERVED: RESERVED, bars.DOWN: DOWN}
    assert data["legend"] == list(bars.BLOCKED.values())
    figure = chart_of("gantt", [run])
    behind = [shown for shown in figure.axes[0].collections if shown.get_zorder() == 0]
    found = [[path.get_extents().extents for path in shown.get_paths()] for shown in behind]
    assert [[(x1, x2, y1, y2) for x1, y1, x2, y2 in boxes] for boxes in found] == [RESERVED, DOWN]
    texts = [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()]
    assert texts == ["hosts reserved: only jobs of the reservation start there", "hosts down: no job starts there"]


def test_a_chart_has_no_legend_for_hosts_that_were_never_down(place: Path) -> None:
    assert "blocked" not in chart.data_of(read_run(str(place / "easy")))


@pytest.mark.parametrize("member", bars.BLOCKED)
@pytest.mark.parametrize("odd", [7, "1-2", [7], [{"start": 0}], [{"start": 0, "end": None, "procs": "1"}]])
def test_malformed_entries_of_blocked_hosts_are_left_out(member: str, odd: Any, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "easy_jobs.csv", tmp_path / "odd_jobs.csv")
    (tmp_path / "odd_summary.json").write_text(json.dumps({"n_procs": 32, member: odd}))
    assert "blocked" not in chart.data_of(read_run(str(tmp_path / "odd")))


def test_histories_of_all_jobs_equal_those_of_each_job(place: Path) -> None:
    """The output of explain for each job: its starts, kills and rejections, also under its other ids."""
    histories = job_histories(JournalReader(str(place / "pushy.pbj")))
    assert len(histories) == 30
    for job_id in ("w0!00", "w0!05", "w0!23"):
        wanted = [
            line
            for line in explain(JournalReader(str(place / "pushy.pbj")), job_id)
            if line[1].startswith(("started on", "kill asked"))
        ]
        assert histories[job_id] == wanted


def test_more_journals_than_runs_are_rejected(place: Path) -> None:
    done = run_cli("report", "easy", "--journal", "easy.pbj", "--journal", "pushy.pbj", cwd=place)
    assert done.returncode == 2
    assert "--journal: 2 journals for 1 run" in done.stderr


def test_a_journal_of_another_run_is_rejected(place: Path) -> None:
    done = run_cli("report", "easy", "--journal", "pushy.pbj", "--output", "wrong.html", cwd=place)
    assert done.returncode == 2
    assert "pushy.pbj: policy" in done.stderr
    assert not (place / "wrong.html").exists()
