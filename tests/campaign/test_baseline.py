"""Figures relative to a baseline: which jobs and runs are compared, and where the figures are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.process import run_cli

from pybatsched.campaign.measures import evaluate
from pybatsched.metrics.compare.paired import Impact

#: id, submission, processors, run time, other fields. The machine has four processors.
JOBS: tuple[tuple[str, int, int, int, dict[str, bool]], ...] = (
    ("a", 0, 4, 100, {}),
    ("b", 1, 4, 100, {}),
    ("c", 2, 1, 50, {"external": False}),
    ("d", 3, 1, 300, {"external": True}),
)
SPEC = """
name = "trial"
baseline = "plain"
where = {where}
seeds = {seeds}
workload = [{{ name = "w", file = "w.json" }}, {{ name = "other", file = "w.json", max_jobs = 2 }}]
platform = [{{ name = "own", of_workload = true }}]
policy = [
  {{ name = "easy", label = "short", options = {{ order = "sjf" }} }},
  {{ name = "fcfs", label = "plain", workloads = ["w"] }},
  {{ name = "easy" }},
]
{more}
"""


def campaign(
    place: Path, *options: str, where: str = "{ external = false }", seeds: str = "[0]", more: str = "", **changes: Any
) -> Path:
    """Run a campaign on the jobs above and give its directory."""
    jobs = [
        {"id": name, "subtime": at, "res": n, "profile": str(s), "walltime": s + 1, "estimate": s, **fields}
        for name, at, n, s, fields in JOBS
    ]
    profiles = {str(s): {"type": "delay", "delay": s} for *_, s, _ in JOBS}
    (place / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles} | changes))
    (place / "s.toml").write_text(SPEC.format(where=where, seeds=seeds, more=more))
    out = place / "out"
    done = run_cli("campaign", "run", str(place / "s.toml"), "--output", str(out), "--workers", "1", *options)
    assert done.returncode == 0, done.stderr
    return out


def rows(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the figures against the baseline by workload and policy."""
    found = pl.read_parquet(out / "results.parquet").iter_rows(named=True)
    return {(row["workload"], row["policy"]): {name: row[name] for name in Impact._fields} for row in found}


NONE = dict.fromkeys(Impact._fields)


def test_the_figures_of_each_point(tmp_path: Path) -> None:
    """First come, first served: b ends at 200, c at 250, d at 500. Shortest first: c at 150, b at 250, d at 550."""
    same = {"n_pairs": 3, "impacted": 0, "early": None, "late": None, "response_ratio": None}
    out = campaign(tmp_path)
    assert rows(out) == {
        ("w", "short"): {
            "n_pairs": 3,  # without d, which is external
            "impacted": 2 / 3,
            "early": 1 / 2,
            "late": 1 / 2,
            "response_ratio": (249 + 148) / (199 + 248),
        },
        ("w", "plain"): same,
        ("w", "easy"): same,
        ("other", "short"): NONE,  # the baseline was not tried there
        ("other", "easy"): NONE,
    }


@pytest.mark.parametrize(
    ("where", "n_pairs", "response_ratio"),
    [
        ("{ }", 4, (249 + 148 + 547) / (199 + 248 + 497)),
        ("{ external = true }", 1, 547 / 497),
        ('{ id = ["b", "d"] }', 2, (249 + 547) / (199 + 497)),
        ('{ profile = "1*", res = 4 }', 2, 249 / 199),
        ("{ external = false, res = 1 }", 1, 148 / 248),
        ("{ colour = 3 }", 0, None),
    ],
)
def test_which_jobs_are_compared(tmp_path: Path, where: str, n_pairs: int, response_ratio: float | None) -> None:
    found = rows(campaign(tmp_path, where=where))["w", "short"]
    assert (found["n_pairs"], found["response_ratio"]) == (n_pairs, response_ratio)


def test_jobs_that_do_not_count_are_not_compared(tmp_path: Path) -> None:
    jobs = [
        {"id": name, "subtime": at, "res": n, "profile": "p", "walltime": 60, "evaluated": name != "b"}
        for name, at, n, *_ in JOBS
    ]
    out = campaign(tmp_path, where="{ }", jobs=jobs, profiles={"p": {"type": "delay", "delay": 9}})
    assert rows(out)["w", "short"]["n_pairs"] == 3


def test_baseline_figures_are_in_the_table_in_claims_and_on_the_page(tmp_path: Path) -> None:
    chart = '[[chart]]\nfigure = "response_ratio"\ntitle = "Response"\nwhere = { policy = ["short", "easy"] }\n'
    out = campaign(tmp_path, more=chart)
    table = run_cli("campaign", "table", str(out), "--format", "csv").stdout.splitlines()
    assert table[0].endswith(",makespan_s,response_ratio,impacted,early")
    assert table[1].endswith(f",{397 / 447},{2 / 3},0.5")
    everything = pl.read_parquet(out / "results.parquet")
    assert evaluate("median(response_ratio, policy = 'short')", everything) == 397 / 447
    assert evaluate("greatest(early) - mean(late, policy = 'short')", everything) == 0
    assert evaluate("mean(response_ratio, policy = 'easy')", everything) is None
    assert run_cli("report", str(out), "--output", str(tmp_path / "page.html")).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h3>Response</h3>" in page
    assert "jobs and the response ratio are against the policy plain, of jobs with external = false." in page
    assert "response of the impacted, over the baseline&#x27;s</th>" in page


@pytest.mark.long
def test_without_named_charts_the_page_has_default_charts_against_the_baseline(tmp_path: Path) -> None:
    out = campaign(tmp_path, where="{ }")
    assert run_cli("report", str(out), "--output", str(tmp_path / "page.html")).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "against the policy plain, of all jobs." in page
    assert "Ratios are to plain on the same workload" in page
    for title in ("Response of the impacted", "Share of jobs that end at another time", "Share of the impacted that"):
        assert title.lower() in page.lower()


def test_another_baseline_runs_nothing_again(tmp_path: Path) -> None:
    out = campaign(tmp_path)
    cells = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    spec = (tmp_path / "s.toml").read_text().replace('baseline = "plain"', 'baseline = "short"')
    (tmp_path / "s.toml").write_text(spec)
    done = run_cli("campaign", "run", str(tmp_path / "s.toml"), "--output", str(out), "--resume")
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()} == cells
    found = rows(out)
    assert found["w", "plain"]["response_ratio"] == 447 / 397
    assert found["other", "easy"] == {"n_pairs": 2, "impacted": 0, "early": None, "late": None, "response_ratio": None}


def test_runs_with_missing_or_damaged_end_times_are_repeated_or_omitted(tmp_path: Path) -> None:
    out = campaign(tmp_path)
    before = rows(out)
    for path in (out / "ends").iterdir():
        path.unlink()
    status = run_cli("campaign", "table", str(out), "--figures", "n_jobs,impacted")
    assert status.stdout.split()[-1] == "-"  # of the run itself everything is there
    assert rows(campaign(tmp_path, "--resume")) == before
    (first, *_) = sorted((out / "ends").iterdir())
    first.write_bytes(b"no gzip")
    table = run_cli("campaign", "table", str(out), "--figures", "impacted", "--format", "csv")
    assert table.returncode == 0
    assert len(table.stdout.splitlines()) == 6


def test_pairs_are_of_the_same_seed_and_repeat(tmp_path: Path) -> None:
    """Each seed has its own random workload; points of different seeds have no jobs in common."""
    (tmp_path / "s.toml").write_text(
        """
name = "drawn"
keep = "jobs"
baseline = "fcfs"
seeds = [1, 2]
repeats = 2
workload = [{ name = "w", generate = { procs = 8, jobs = 40, load = 1.2 } }]
platform = [{ name = "own", of_workload = true }]
policy = [{ name = "fcfs" }, { name = "easy" }]
"""
    )
    out = tmp_path / "out"
    assert run_cli("campaign", "run", str(tmp_path / "s.toml"), "--output", str(out)).returncode == 0
    found = pl.read_parquet(out / "results.parquet")
    easy = found.filter(pl.col("policy") == "easy")
    assert easy["n_pairs"].to_list() == [40] * 4
    assert len(set(easy["response_ratio"].to_list())) == 4
    assert found.filter(pl.col("policy") == "fcfs")["impacted"].to_list() == [0] * 4
    points = json.loads((out / "manifest.json").read_text())["points"]
    for row in easy.iter_rows(named=True):
        same = [point for point in points if (point["seed"], point["repeat"]) == (row["seed"], row["repeat"])]
        plain, other = (
            {job["job"]: job for job in pl.read_parquet(out / "jobs" / f"{point['address']}.parquet").to_dicts()}
            for point in same
        )
        changed = [name for name in plain if plain[name]["ended_at"] != other[name]["ended_at"]]
        before, after = (
            sum(run[name]["ended_at"] - run[name]["submitted_at"] for name in changed) for run in (plain, other)
        )
        assert row["impacted"] == len(changed) / 40
        assert row["response_ratio"] == pytest.approx(after / before)


def test_without_a_baseline_there_are_no_such_figures(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        """
name = "none"
workload = [{ name = "w", generate = { procs = 8, jobs = 9 } }]
platform = [{ name = "own", of_workload = true }]
policy = [{ name = "fcfs" }]
"""
    )
    out = tmp_path / "out"
    assert run_cli("campaign", "run", str(tmp_path / "s.toml"), "--output", str(out)).returncode == 0
    assert not {*Impact._fields} & {*pl.read_parquet(out / "results.parquet").columns}
    assert not (out / "ends").exists()
