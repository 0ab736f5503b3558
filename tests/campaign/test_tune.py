"""A search of options: trials, early ends, training and test apart, repeated searches, and bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign.spec import spec_of
from pybatsched.campaign.tune import _split, _steps
from pybatsched.errors import InputError

pytest.importorskip("optuna")

#: A policy whose mean wait is least at patience = 7: it holds each job for |patience - 7| seconds and more.
POLICY = '''
from pybatsched import CallMeLater, ExecuteJob, Options, Policy
from pydantic import Field
from pybatsched_schedulers.fcfs import Fcfs


class Patient(Fcfs):
    """FCFS whose figure depends on an option."""

    class Options(Fcfs.Options):
        patience: int = Field(default=50, description="a number")
        kind: str = Field(default="plain", description="a word")

    def figures(self):
        return {"cost": float((self.options.patience - 7) ** 2 + (self.options.kind == "odd"))}
'''
STUDY = """
name = "study"
seeds = [1, 2, 3, 4, 5, 6]
[[workload]]
name = "w"
generate = { model = "poisson", procs = 8, jobs = 20 }
[[platform]]
name = "own"
of_workload = true
[[policy]]
name = "fcfs"
[[policy]]
name = "patient.py:Patient"
label = "patient"
[tune]
policy = "patient"
figure = "cost"
trials = 25
[tune.options]
patience = { low = 0, high = 20 }
kind = ["plain", "odd"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "patient.py").write_text(POLICY)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def search(place: Path, *args: str) -> Any:
    return run_cli("campaign", "tune", "study.toml", "--output", "out", "--workers", "1", *args, cwd=place)


def test_a_search_finds_the_best_options_and_tests_them_on_other_seeds(place: Path) -> None:
    done = search(place, "-q")
    assert done.returncode == 0, done.stderr
    trials = pl.read_csv(place / "out" / "trials.csv")
    assert trials.columns == ["trial", "patience", "kind", "value", "state", "runs", "best"]
    assert trials.height == 25
    for row in trials.iter_rows(named=True):
        assert row["value"] == (row["patience"] - 7) ** 2 + (row["kind"] == "odd")
        assert row["state"] in {"complete", "ended early"}
        assert row["runs"] == 3 if row["state"] == "complete" else row["runs"] < 3
    complete = trials.filter(pl.col("state") == "complete")
    assert trials["best"][-1] == min(complete["value"].to_list()) <= 1
    assert "ended early" in trials["state"]
    best = complete.sort("value", maintain_order=True).row(0, named=True)
    assert f'best of 25 trials: patience = {best["patience"]}, kind = "{best["kind"]}"' in done.stdout
    figures = pb.read_campaign(place / "out").figures  # the test: seeds that the search has not seen
    assert sorted(set(figures["seed"])) == [4, 5, 6]
    assert sorted(set(figures["policy"])) == ["patient", "patient tuned"]
    tuned = figures.filter(pl.col("policy") == "patient tuned")
    assert set(tuned["cost"]) == {best["value"]}
    assert json.loads(tuned["options"][0]) == {"patience": best["patience"], "kind": best["kind"]}
    assert set(figures.filter(pl.col("policy") == "patient")["cost"]) == {43.0**2}
    assert (place / "out" / "trials.svg").read_text().startswith("<?xml")


def test_a_repeated_search_runs_nothing_again_and_a_longer_one_continues(place: Path) -> None:
    assert search(place, "-q", "--trials", "4").returncode == 0
    first = (place / "out" / "trials.csv").read_text()
    stamps = {path: path.stat().st_mtime_ns for path in (place / "out" / "cells").iterdir()}
    assert search(place, "-q", "--trials", "4").returncode == 2  # a campaign is there
    assert search(place, "-q", "--trials", "4", "--resume").returncode == 0
    assert (place / "out" / "trials.csv").read_text() == first
    assert {path: path.stat().st_mtime_ns for path in (place / "out" / "cells").iterdir()} == stamps
    done = search(place, "--trials", "7", "--resume")
    assert done.returncode == 0, done.stderr
    assert (place / "out" / "trials.csv").read_text().startswith(first)
    assert "trial 7: " in done.stderr


def test_a_figure_over_that_of_another_policy(place: Path) -> None:
    text = STUDY.replace('figure = "cost"', 'figure = "mean_wait_s"\nagainst = "fcfs"')
    (place / "study.toml").write_text(text)
    done = search(place, "-q", "--trials", "2")
    assert done.returncode == 0, done.stderr
    assert set(pl.read_csv(place / "out" / "trials.csv")["value"]) == {1.0}  # it is FCFS
    assert "mean_wait_s, over that of fcfs: 1 on 3 workloads for training" in done.stdout
    assert "differences to fcfs in the test:" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("[tune]", "[[chart]]", "chart"),
        ('policy = "patient"', 'policy = "easy"', "policy: no policy is named 'easy'; expected one of fcfs, patient"),
        ("low = 0", "low = 30", "expected low below high, found 30 and 20"),
        ("low = 0,", "low = 0, log = true,", "log: expected low above 0, found 0"),
        ('["plain", "odd"]', "[]", "kind"),
        ('figure = "cost"', 'figure = "speed"', "it has no figure speed"),
        ("patience = {", "impatience = {", "impatience"),
        (", 2, 3, 4, 5, 6]", "]", "tune: expected at least two workloads (weeks, resamples) or seeds"),
        ("trials = 25", "train = 1.0", "train"),
    ],
)
def test_bad_input(place: Path, old: str, new: str, text: str) -> None:
    assert old in STUDY
    (place / "study.toml").write_text(STUDY.replace(old, new, 1))
    done = search(place, "-q", "--trials", "2")
    assert done.returncode == 2
    assert "study.toml: " in done.stderr
    assert text in done.stderr
    assert not (place / "out" / "manifest.json").exists()


def test_the_file_is_checked_before_optuna_is_needed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # as if it were not installed
    done = search(place, "-q")
    assert done.returncode == 2
    assert "run pip install '.[tune]' in a clone of pybatsched" in done.stderr
    (place / "study.toml").write_text(STUDY.replace("seeds = [1, 2, 3, 4, 5, 6]", "seeds = [1]"))
    done = search(place, "-q")
    assert done.returncode == 2
    assert "tune: expected at least two workloads" in done.stderr


def test_a_campaign_without_the_table_is_not_searched(place: Path) -> None:
    (place / "study.toml").write_text(STUDY.partition("[tune]")[0])
    done = search(place)
    assert done.returncode == 2
    assert "study.toml: expected a table [tune] with policy, figure and options" in done.stderr
    assert not (place / "out").exists()


def point(workload: str, seed: int = 0) -> Any:
    return {"workload": workload, "seed": seed, "repeat": 0, "platform": "own"}, None


def test_copies_of_a_week_are_on_one_side() -> None:
    points = [point(f"a-week{week:02}-shake{copy:02}") for week in range(1, 6) for copy in (1, 2)]
    train, test = _split(points, 0.6)
    assert [unit[0] for unit in train] == ["a-week01", "a-week02", "a-week03"]
    assert [unit[0] for unit in test] == ["a-week04", "a-week05"]
    steps = _steps(points, train)
    assert sorted(len(step) for step in steps) == [2, 2, 2]
    assert {one["workload"] for step in steps for one, _ in step} == {
        one["workload"] for one, _ in points if one["workload"] < "a-week04"
    }
    assert _steps(points, train) == steps


def test_there_is_always_something_to_test_and_to_train_on() -> None:
    points = [point("w", seed) for seed in (1, 2, 3)]
    for share, n in ((0.01, 1), (0.5, 2), (0.99, 2)):
        train, test = _split(points, share)
        assert (len(train), len(test)) == (n, 3 - n)
    with pytest.raises(InputError, match="tune: expected at least two workloads"):
        _split([point("w")], 0.5)


def test_a_campaign_runs_a_file_with_the_table_as_any_other(place: Path) -> None:
    content: dict[str, Any] = {"name": "c", "tune": {"policy": "easy", "options": {"order": ["fcfs", "sjf"]}}}
    content |= {"workload": [{"name": "w", "file": "w.json"}], "platform": [{"name": "p", "procs": 4}]}
    assert spec_of(content | {"policy": [{"name": "easy"}]}, "c.toml").tune is not None
    with pytest.raises(InputError, match="tune: policy: 'easy' has several settings; expected one"):
        spec_of(content | {"policy": [{"name": "easy", "options": {"order": ["fcfs", "sjf"]}}]}, "c.toml")
