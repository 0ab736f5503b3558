"""Paired bootstrap: closed forms, scipy's own numbers, pairs and units, and the commands that show it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from support import campaigns
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign import table
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.compare.bootstrap import COLUMNS, N_RESAMPLES, adjusted, against, compare


def is_easy(row: Any) -> bool:
    return bool(row["policy"] == "easy")


def test_means_and_difference_by_hand() -> None:
    found = compare([(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)])
    assert (found.n, found.mean, found.baseline, found.difference) == (3, 2.0, 4.0, -2.0)
    assert found.p == 0.25  # of the 8 ways to put signs to 1, 2, 3, two have a sum of 6 or -6
    assert found.p_better == 1.0


def test_a_probability_in_closed_form() -> None:
    """Means of two draws from {0, 1} are 0, 1/2 and 1 with probability 1/4, 1/2 and 1/4; a 0 counts half."""
    pairs = [(1.0, 1.0), (2.0, 1.0)]
    deviation = math.sqrt(0.25 * 0.75 / N_RESAMPLES)
    assert compare(pairs, "higher").p_better == pytest.approx(7 / 8, abs=5 * deviation)
    assert compare(pairs, "lower").p_better == pytest.approx(1 / 8, abs=5 * deviation)
    assert compare(pairs, "").p_better is None


def test_one_pair_has_no_interval_and_equal_differences_have_one_without_width() -> None:
    assert compare([(3.0, 5.0)])[3:] == (-2.0, None, None, None, None)
    assert compare([(3.0, 5.0), (4.0, 6.0)])[3:] == (-2.0, -2.0, -2.0, 1.0, 0.5)
    assert compare([(5.0, 5.0)] * 4)[3:] == (0.0, 0.0, 0.0, 0.5, 1.0)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=3, max_size=12), st.integers(0, 5))
def test_the_interval_is_that_of_scipy(pairs: list[tuple[int, int]], seed: int) -> None:
    differences = np.array([a - b for a, b in pairs], dtype=float)
    found = compare(pairs, seed=seed)
    assert found.difference == pytest.approx(differences.mean())
    assert found.low is not None
    assert found.high is not None
    if np.ptp(differences):
        rng = np.random.default_rng(seed)
        expected = stats.bootstrap((differences,), np.mean, n_resamples=N_RESAMPLES, method="BCa", rng=rng)
        interval = expected.confidence_interval
        if not math.isnan(interval.low) and not math.isnan(interval.high):
            assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    mirrored = compare([(b, a) for a, b in pairs], "higher", seed=seed)
    assert mirrored.difference == pytest.approx(-found.difference)
    assert mirrored.p == pytest.approx(found.p, abs=0.02)
    assert compare(pairs, seed=seed) == found  # the same seed gives the same numbers


def test_the_interval_covers_the_true_difference() -> None:
    """Of 200 experiments with 20 pairs each and a true difference of 3, about 95 % of the intervals contain it."""
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        base = rng.exponential(100, 20)
        found = compare(list(zip(base + rng.normal(3, 5, 20), base, strict=True)))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 3 <= found.high
    assert 178 <= covered <= 200


def test_the_correction_is_that_of_benjamini_and_hochberg() -> None:
    assert adjusted([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.04, 0.04])
    assert adjusted([None]) == [None]
    assert adjusted([]) == []


def rows_of(*values: tuple[str, str, float | None], **more: Any) -> list[dict[str, Any]]:
    return [{"workload": w, "policy": p, "mean_wait_s": v, **more} for w, p, v in values]


def test_pairs_are_of_the_same_workload_and_copies_are_one_unit() -> None:
    rows = rows_of(
        *(("a-week01-shake01", "easy", 10.0), ("a-week01-shake02", "easy", 20.0), ("a-week02-shake01", "easy", 40.0)),
        *(("a-week01-shake01", "sjf", 11.0), ("a-week01-shake02", "sjf", 15.0), ("a-week02-shake01", "sjf", 30.0)),
        ("a-week03-shake01", "sjf", 1000.0),  # no partner
        ("a-week04-shake01", "easy", 1.0),
        ("a-week04-shake01", "sjf", None),  # no value
    )
    (found,) = against(rows, is_easy, ["policy"], ["mean_wait_s"])
    assert (found["policy"], found["better"], found["n"]) == ("sjf", "lower", 2)
    assert (found["mean"], found["baseline"], found["difference"]) == (21.5, 27.5, -6.0)  # 13 - 15 and 30 - 40
    assert found["p_adjusted"] == found["p"]
    assert list(found) == ["policy", *COLUMNS]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_pairs_without_a_finite_value_are_left_out(value: float) -> None:
    rows = rows_of(*((f"a-week0{week}", "easy", 10.0 * week) for week in (1, 2, 3, 4)))
    rows += rows_of(("a-week01", "sjf", 8.0), ("a-week02", "sjf", 19.0), ("a-week03", "sjf", value))
    rows += rows_of(("a-week04", "sjf", 37.0))
    (found,) = against(rows, is_easy, ["policy"], ["mean_wait_s"])
    assert (found["n"], found["difference"]) == (3, -2.0)
    assert found["p"] == 0.25  # all three signs are equal: 2 of 8
    with pytest.raises(InputError, match="comparison: expected finite values"):
        compare([(1.0, 2.0), (value, 3.0)])


def test_seeds_of_one_workload_are_units_and_a_baseline_without_seeds_has_all_of_them() -> None:
    rows = rows_of(("w", "easy", 10.0), seed=None)
    rows += [row for seed in (1, 2, 3) for row in rows_of(("w", "random", 10.0 + seed), seed=seed)]
    (found,) = against(rows, is_easy, ["policy"], ["mean_wait_s"])
    assert (found["n"], found["difference"]) == (3, 2.0)


def test_runs_that_are_one_count_once() -> None:
    rows = [row for seed in (1, 2) for row in rows_of(("w", "easy", 1.0), ("w", "sjf", 2.0), seed=seed)]
    for row in rows:
        row["address"] = row["policy"]  # nothing depends on the seed
    (found,) = against(rows, is_easy, ["policy"], ["mean_wait_s"])
    assert (found["n"], found["low"]) == (1, None)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(InputError, match="expected runs of another policy on the workloads"):
        against(rows_of(("a", "easy", 1.0), ("b", "sjf", 1.0)), is_easy, ["policy"], ["mean_wait_s"])
    two = rows_of(("a", "easy", 1.0), options="{}") + rows_of(("a", "easy", 2.0), options='{"order": "sjf"}')
    with pytest.raises(InputError, match="baseline easy: expected one setting on a, found several"):
        against(two, is_easy, ["policy"], ["mean_wait_s"])
    with pytest.raises(InputError, match="confidence level 1: expected a number between 0 and 1"):
        compare([(1.0, 2.0)], level=1)
    with pytest.raises(InputError, match="expected at least one pair of runs"):
        compare([])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A campaign of three weeks: sjf waits 1, 2 and 6 seconds less than easy, fcfs waits longer."""
    rows = []
    for week, less in ((1, 1.0), (2, 2.0), (3, 6.0)):
        for policy, wait in (("easy", 10.0 * week), ("sjf", 10.0 * week - less), ("fcfs", 30.0 * week)):
            figures = {"mean_wait_s": wait, "mean_bounded_slowdown": 1 + wait, "utilisation": 0.5, "n_jobs": 9}
            rows.append(campaigns.Row(f"kth-week{week:02}", policy, figures))
    return campaigns.keep(tmp_path / "study", rows, ["kth"])


def test_the_table_of_a_campaign_against_a_policy(study: Path) -> None:
    found = table.against(table.frame(Store(study)), "easy", figures=["mean_wait_s"])
    assert found.select("family", "policy", "figure", "n", "difference", "p").rows() == [
        ("kth", "sjf", "mean_wait_s", 3, -3.0, 0.25),
        ("kth", "fcfs", "mean_wait_s", 3, 40.0, 0.25),
    ]
    assert found.columns == ["family", "policy", *COLUMNS]
    low, high = found["low"][0], found["high"][0]
    assert -6 <= low < -3 < high <= -1
    done = run_cli("campaign", "table", str(study), "--against", "easy", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[2] for line in done.stdout.splitlines()[1:4]] == [
        "mean_wait_s",
        "mean_bounded_slowdown",
        "utilisation",
    ]
    assert pb.read_campaign(study).against("easy", figures="mean_wait_s").equals(found)
    wide = run_cli("campaign", "table", str(study), "--against", "easy", "--ci", "0.5", "--format", "markdown")
    assert wide.returncode == 0


def test_errors_of_against(study: Path) -> None:
    for words, text in (
        (("--against", "conservative"), "baseline 'conservative': expected the label of a policy: easy, sjf, fcfs"),
        (("--against", "easy", "--quantiles"), "--against: cannot be used with --quantiles"),
        (("--against", "easy", "--figures", "n_cats"), "unknown column 'n_cats'"),
        (("--figures", "mean_waits"), "unknown column 'mean_waits'; did you mean 'mean_wait_s'? Expected some of "),
        (("--against", "easy", "--ci", "2"), "--ci 2: expected a confidence level between 0 and 1"),
    ):
        done = run_cli("campaign", "table", str(study), *words)
        assert done.returncode == 2
        assert text in done.stderr


def test_the_figure_and_the_page_of_differences(study: Path, tmp_path: Path) -> None:
    figure = pb.read_campaign(study).plot.differences("mean_wait_s", baseline="easy", labels={"sjf": "SJF"})
    (panel,) = figure.get_axes()
    assert [text.get_text() for text in panel.get_yticklabels()] == ["SJF (n = 3)", "fcfs (n = 3)"]
    assert panel.get_xlabel() == "mean wait (s): policy minus easy; left is better"
    one = pb.read_campaign(study).plot.differences("utilisation", baseline="easy", policy="sjf")
    assert one.get_axes()[0].get_xlabel() == "utilisation: policy minus easy; right is better"
    with pytest.raises(InputError, match="each: cannot be used with the chart differences"):
        pb.read_campaign(study).plot.differences("mean_wait_s", each="user")
    done = run_cli("report", str(study), "--output", "page.html", "--baseline", "easy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert "Differences to easy" in page
    for name in COLUMNS:
        assert f"<li><b>{name}</b>: " in page


def test_two_sets_of_runs_are_compared_pair_by_pair(tmp_path: Path) -> None:
    runs = {}
    for week in (1, 2, 3):
        jobs = [(0, 2, 100), (1, 4, 50), (2, 1, 10 * week), (3, 1, 20 * week)]
        content = {
            "nb_res": 4,
            "jobs": [
                {"id": k, "subtime": at, "res": n, "walltime": run + 1, "profile": f"{run}"}
                for k, (at, n, run) in enumerate(jobs)
            ],
            "profiles": {f"{run}": {"type": "delay", "delay": run} for _, _, run in jobs},
        }
        path = tmp_path / f"week{week}.json"
        path.write_text(json.dumps(content))
        for policy in ("fcfs", "easy"):
            args = ("-w", path.name, "--policy", policy, "-e", f"out/{policy}-week{week}-a", "-q")
            assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
            summary = json.loads((tmp_path / f"out/{policy}-week{week}-a_summary.json").read_text())
            runs[policy, week] = summary["figures"]["mean_wait_s"]
    done = run_cli("compare", "out/fcfs-*-a", "out/easy-*-a", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 pairs of runs; the difference is after - before" in done.stderr
    (line,) = [line.split() for line in done.stdout.splitlines() if line.startswith("mean_wait_s ")]
    means = [sum(runs[policy, week] for week in (1, 2, 3)) / 3 for policy in ("fcfs", "easy")]
    assert [float(text.replace(",", "")) for text in line[1:4]] == pytest.approx(
        [*means, means[1] - means[0]], rel=1e-4
    )
    assert line[6:8] == ["lower", "1"]
    done = run_cli("compare", "out/fcfs-*-a", "out/easy-*-a", "--fail-if", "mean_wait_s < -1", cwd=tmp_path)
    assert done.returncode == 7
    for words, text in (
        (("out/fcfs-*-a", "out/easy-week1-a"), "expected one star in the last part of both names"),
        (("out/fcfs-*-a", "out/sjf-*-a"), "out/sjf-*-a: no run found"),
        (("out/fcfs-*-a", "out/easy-*1-a"), "expected a matching run of the other set for each run"),
    ):
        done = run_cli("compare", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert text in done.stderr


def test_runs_in_python_are_compared() -> None:
    logs = {f"log {k}": pb.generate_workload("lublin", n_jobs=60, n_procs=16, seed=k, load=0.9) for k in (1, 2, 3)}
    runs = pb.simulate(logs, ["fcfs", "easy"], progress=False)
    found = runs.against("fcfs", figures=["mean_wait_s"])
    waits = runs.figures["mean_wait_s"].to_list()
    assert found["difference"][0] == pytest.approx((sum(waits[1::2]) - sum(waits[::2])) / 3)
    with pytest.raises(InputError, match="expected the label of a policy: fcfs, easy"):
        runs.against("sjf")
