"""Workloads in figures, in text and in a picture."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import line, log

from pybatsched.errors import InputError
from pybatsched.report import workload_chart as plot
from pybatsched.workload.statistics import stats, stats as describe
from pybatsched.workload.statistics.stats import DAY_S, Sample

HOUR_S = 3600


def test_percentiles() -> None:
    assert stats.percentiles([5, 1, 3, 2, 4]) == {
        "min": 1,
        "p5": pytest.approx(1.2),
        "p25": 2,
        "p50": 3,
        "p75": 4,
        "p95": pytest.approx(4.8),
        "max": 5,
        "mean": 3,
    }
    assert stats.percentiles([7])["p95"] == 7
    assert stats.percentiles([]) == {}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_percentiles_are_in_order(values: list[float]) -> None:
    made = stats.percentiles(values)
    ordered = [made[key] for key in ("min", "p5", "p25", "p50", "p75", "p95", "max")]
    assert ordered == sorted(ordered)
    assert min(values) == made["min"]


def a_log(path: Path) -> Path:
    return log(
        path,
        line(1, 0, 0, 100, 4, requested_s=200, user=1),
        line(2, DAY_S, 50, 200, 8, requested_s=100, user=1),
        line(3, DAY_S + HOUR_S, 0, 300, 1, user=2),
        line(4, 2 * DAY_S, 10, 400, 3, requested_s=400, user=1),
        line(5, 2 * DAY_S, run=0),
        header="; MaxProcs: 8\n; UnixStartTime: 1341100800\n; TimeZoneString: Europe/Paris\n; TimeZone: 3600\n",
    )


def test_the_summary_of_a_log(tmp_path: Path) -> None:
    made = stats.summary(stats.sample(a_log(tmp_path)))
    work = 4 * 100 + 8 * 200 + 300 + 3 * 400
    assert made["jobs"] == 4
    assert made["jobs_left_out"] == 1
    assert made["processors"] == 8
    assert made["users"] == 2
    assert made["busiest_user_share"] == 0.75
    assert made["span_s"] == 2 * DAY_S
    assert made["jobs_per_day"] == 2
    assert (made["size"]["min"], made["size"]["p50"], made["size"]["max"], made["size"]["mean"]) == (1, 3.5, 8, 4)
    assert made["serial_share"] == 0.25
    assert made["power_of_two_share"] == 0.75
    assert made["run_time_s"]["mean"] == 250
    assert made["run_to_requested"]["p50"] == 1
    assert made["overran_share"] == pytest.approx(1 / 3)
    assert made["wait_s"]["max"] == 50
    assert made["offered_load"] == pytest.approx(work / (8 * 2 * DAY_S))
    assert made["logged_utilisation"] == pytest.approx((work - 3 * 400) / (8 * 2 * DAY_S))  # the last is after the span
    assert json.loads(json.dumps(made)) == made


def test_the_time_of_day_is_that_of_the_place(tmp_path: Path) -> None:
    sample = stats.sample(a_log(tmp_path))  # begins on 1 July 2012, 00:00 UTC: 02:00 in Paris
    if "Europe/Paris" in sample.clock_name:
        assert [hour for hour, count in enumerate(stats.per_hour_of_day(sample)) if count] == [2, 3]
    else:  # no time zones on this machine: without summer time
        assert [hour for hour, count in enumerate(stats.per_hour_of_day(sample)) if count] == [1, 2]


@pytest.mark.parametrize(
    ("header", "name", "hour"),
    [
        ("", "time 0 is midnight", 0),
        ("; UnixStartTime: soon\n", "time 0 is midnight", 0),
        ("; UnixStartTime: 1e300\n", "time 0 is midnight", 0),
        ("; UnixStartTime: 3600\n", "UTC", 1),
        ("; UnixStartTime: 3600\n; TimeZoneString: No/Where\n; TimeZone: 7200\n", "local time, without summer time", 3),
        ("; UnixStartTime: 3600\n; TimeZoneString: ../x\n", "UTC", 1),
    ],
)
def test_the_clock_of_a_log_is_read_from_its_header(tmp_path: Path, header: str, name: str, hour: int) -> None:
    sample = stats.sample(log(tmp_path, line(), header="; MaxProcs: 8\n" + header))
    assert sample.clock_name == name
    assert stats.per_hour_of_day(sample)[hour] == 1


def test_jobs_and_use_over_time(tmp_path: Path) -> None:
    sample = stats.sample(
        log(
            tmp_path,
            line(1, 100, HOUR_S - 60, 3 * HOUR_S + 60, 4),  # in use for 60 s of hour 0, and hours 1 to 3
            line(2, 100 + HOUR_S, 0, HOUR_S, 2),
            line(3, 100 + 2 * HOUR_S, 0, 8 * HOUR_S, 2),  # hours 2 to 9
            line(4, 100 + 50 * HOUR_S, 0, 20 * HOUR_S, 1),  # hour 50, the last one, and on
        )
    )
    assert (sample.period_s, sample.period_name, sample.n_periods) == (HOUR_S, "hour", 51)
    assert stats.arrivals_over_time(sample) == [1, 1, 1, *[0] * 47, 1]
    needed = stats.needed_over_time(sample)  # the first job would end 60 s after hour 2
    assert needed == pytest.approx([0.5, 0.75, 0.75, 0.25 + 240 / (8 * HOUR_S), *[0.25] * 6, *[0] * 40, 0.125])
    used = stats.utilisation_over_time(sample)
    assert used == pytest.approx([4 * 60 / (8 * HOUR_S), *[0.75] * 3, *[0.25] * 6, *[0] * 40, 0.125])


@pytest.mark.parametrize(
    ("span_s", "period_s", "name"),
    [
        (0, 60, "minute"),
        (3 * HOUR_S, 60, "minute"),
        (12 * HOUR_S, 600, "10 minutes"),
        (7 * DAY_S, HOUR_S, "hour"),
        (30 * DAY_S, 6 * HOUR_S, "6 hours"),
        (254 * DAY_S, DAY_S, "day"),
        (730 * DAY_S, 2 * DAY_S, "2 days"),
        (1e15, 23_148_149 * DAY_S, "23,148,149 days"),
    ],
)
def test_periods(span_s: float, period_s: float, name: str) -> None:
    sample = Sample("x", 1, submitted_at=[5, 5 + span_s])
    assert (sample.period_s, sample.period_name) == (period_s, name)


def test_a_wrong_time_does_not_fill_the_memory(tmp_path: Path) -> None:
    sample = stats.sample(log(tmp_path, line(1), line(2, 1e15)))
    assert sum(stats.arrivals_over_time(sample)) == 2
    assert len(stats.arrivals_over_time(sample)) <= 501
    assert describe.lines(sample, stats.summary(sample))


def test_sizes_and_run_times_in_classes() -> None:
    sample = Sample("x", 64, size=[1, 1, 2, 3, 4, 5, 33, 64], run_s=[1, 60, 61, 3600, 1e5, 5, 5, 5])
    assert stats.sizes_by_power(sample) == [
        ("1", 2),
        ("2", 1),
        ("3-4", 2),
        ("5-8", 1),
        ("9-16", 0),
        ("17-32", 0),
        ("33-64", 2),
    ]
    assert [count for _, count in stats.run_times_by_scale(sample)] == [5, 1, 1, 0, 0, 0, 1]


def test_the_figures_of_a_batsim_file(tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "nb_res": 8,
        "shifted_by": DAY_S + 7200,
        "swf_header": {"UnixStartTime": "0"},
        "jobs": [{"id": 1, "subtime": 10, "res": 2, "profile": "c", "walltime": 40, "user": "pat"},
         {"id": 2, "subtime": 0, "res": 4, "profile": "d", "walltime": 40, "requested_time": 20, "user": 5},
         {"id": 3, "subtime": 5, "res": 4, "profile": "p"}],
        "profiles": {"d": {"type": "delay", "delay": 10}, "c": {"type": "composed", "seq": ["d", "d"]},
         "p": {"type": "parallel_homogeneous", "cpu": 1, "com": 0}},
    }  # fmt: skip
    (tmp_path / "w.json").write_text(json.dumps(content))
    sample = stats.sample(tmp_path / "w.json")
    assert (sample.submitted_at, sample.run_s, sample.size) == ([0, 10], [10, 20], [4, 2])
    assert (sample.request_s, sample.wait_s, sample.n_left_out) == ([20, 40], None, 1)
    assert stats.per_hour_of_day(sample)[2] == 2
    made = stats.summary(sample)
    assert made["offered_load"] == 80 / 80
    assert "wait_s" not in made
    assert "logged_utilisation" not in made


def test_a_workload_without_jobs_has_figures_too(tmp_path: Path) -> None:
    sample = stats.sample(log(tmp_path))
    assert stats.summary(sample)["jobs"] == 0
    assert "jobs               0" in "\n".join(describe.lines(sample, stats.summary(sample)))
    with pytest.raises(InputError, match="expected at least one job to draw"):
        plot.draw(sample, tmp_path / "x.svg")


def test_histograms() -> None:
    assert describe.histogram([("a", 0), ("bb", 1), ("c", 1000), ("d", 500.5)]) == [
        "   a         0",
        "  bb         1 #",
        f"   c     1,000 {'#' * 44}",
        f"   d       500 {'#' * 22}",
    ]
    assert describe.histogram([]) == []
    assert describe.histogram([("a", 0)]) == ["  a         0"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.25 s"), (45, "45 s"), (119, "119 s"), (120, "2.0 min"), (7200, "2.0 h"), (2 * DAY_S, "2.0 d")],
)
def test_durations(seconds: float, text: str) -> None:
    assert describe.duration(seconds) == text


def test_the_text_for_the_terminal(tmp_path: Path) -> None:
    sample = stats.sample(a_log(tmp_path))
    text = describe.lines(sample, stats.summary(sample))
    assert text[:5] == [
        "log.swf",
        "  jobs               4, and 1 left out (no size, no known run time)",
        "  processors         8",
        "  span               2.0 d",
        "  jobs a day         2",
    ]
    assert "arrivals over time (jobs in one day)" in text
    assert "    day 1        12 " + "#" * 44 in text  # two jobs in a row of four hours
    assert all(line.isascii() for line in text)


def test_bursts_of_arrivals_are_on_a_logarithmic_axis(tmp_path: Path) -> None:
    """One hour in six has more than 20 times the jobs of the median one."""
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")

    def titles(n_at_once: int) -> list[str]:
        times = [hour * 3600 for hour in range(6)] + [7200] * n_at_once
        path = log(tmp_path, *(line(k, at, 0, 10, 1) for k, at in enumerate(sorted(times), start=1)))
        plot.draw(stats.sample(path, 4), tmp_path / "w.svg")
        return re.findall(r"<!-- (Arrivals each .*?) -->", (tmp_path / "w.svg").read_text())

    (calm,), (bursts,) = titles(5), titles(300)
    assert (calm.endswith("(logarithmic)"), bursts) == (False, f"{calm} (logarithmic)")


@pytest.mark.parametrize("name", ["w.svg", "w.png", "w.pdf"])
def test_a_picture(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    sample = stats.sample(a_log(tmp_path).rename(tmp_path / "a $log$ & <more>.swf"))
    first, second = tmp_path / name, tmp_path / f"again-{name}"
    plot.draw(sample, first)
    plot.draw(sample, second)
    assert first.read_bytes() == second.read_bytes()
    assert b"CreationDate" not in first.read_bytes()
    if name == "w.svg":
        text = first.read_text()
        assert text.startswith("<?xml")
        for part in ("Arrivals by hour of the day", "Arrivals each hour", "Sizes", "Load"):
            assert f"<!-- {part} -->" in text
        assert "&lt;more&gt;" in text or "<!-- a $log$ &amp; &lt;more" in text
    else:
        assert first.read_bytes().startswith(b"%PDF" if name == "w.pdf" else b"\x89PNG")


def test_pictures_of_unusual_samples(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    for lines in ([line(1)], [line(1), line(2, 1e15)], [line(1, run=1e12), line(2, 5, run=1e-9)]):
        plot.draw(stats.sample(log(tmp_path, *lines)), tmp_path / "x.png")


def test_invalid_pictures_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = stats.sample(a_log(tmp_path))
    with pytest.raises(InputError, match=r"x\.gif: expected a file name that ends in \.svg, \.pdf"):
        plot.draw(sample, tmp_path / "x.gif")
    if importlib.util.find_spec("matplotlib"):
        (tmp_path / "file").touch()
        with pytest.raises(InputError, match=r"x\.svg: cannot be written: File exists"):
            plot.draw(sample, tmp_path / "file" / "x.svg")
        plot.draw(sample, tmp_path / "new" / "x.svg")
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.svg"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        InputError, match=r"charts need matplotlib; run pip install '\.\[plot\]' in a clone of pybatsched"
    ):
        plot.draw(sample, tmp_path / "x.svg")


def test_unknown_requests_are_left_out(tmp_path: Path) -> None:
    sample = stats.sample(log(tmp_path, line(1, requested_s=-1), line(2)))
    assert all(math.isnan(request) for request in sample.request_s)
    assert stats.summary(sample)["run_to_requested"] == {}
    assert stats.summary(sample)["overran_share"] is None
