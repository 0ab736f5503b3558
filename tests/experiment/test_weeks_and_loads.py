"""Weeks and several loads in Python are those of a campaign, with the same names, jobs and figures."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import logs
from support.process import run_cli

import pybatsched as pb
from pybatsched.errors import InputError

DAY_S = 86_400
FIGURES = ["workload", "policy", "load", "n_jobs", "mean_wait_s", "mean_bounded_slowdown", "utilisation", "makespan_s"]


def lines(seed: int = 1, days: int = 20) -> list[str]:
    """Return a log whose first job never ran: its submission begins the first week."""
    drawn = random.Random(seed)
    at = 1000.0
    made = [logs.line(1, 0, wait=0, run=0, allocated=1)]
    while at < days * DAY_S:
        run, wait = drawn.randint(600, 40_000), drawn.choice([0, 0, 300, 9000])
        size = drawn.randint(1, 8)
        made.append(logs.line(len(made) + 1, int(at), wait, run, size, requested_s=2 * run, user=drawn.randint(1, 4)))
        at += drawn.expovariate(1 / 15_000)
    return made


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return logs.log(tmp_path_factory.mktemp("log"), *lines())


def campaign(place: Path, log: Path, **workload: Any) -> pl.DataFrame:
    rows = "".join(f"{key} = {json.dumps(value)}\n" for key, value in workload.items() if key != "weeks")
    (place / "c.toml").write_text(
        f'name = "c"\n[[workload]]\nname = "log"\nfile = "{log}"\n{rows}weeks = {workload.get("weeks", "{}")}\n'
        '[[platform]]\nname = "own"\nof_workload = true\n[[policy]]\nname = "fcfs"\n[[policy]]\nname = "easy"\n'
    )
    done = run_cli("campaign", "run", "c.toml", "--output", "out", cwd=place)
    assert done.returncode == 0, done.stderr
    return pb.read_campaign(place / "out").figures.sort("workload", "policy")


@pytest.mark.parametrize(
    ("in_python", "in_a_campaign"),
    [
        ({"which": "all"}, '"all"'),
        ({"which": [2]}, "[2]"),
        ({"utilisation": (0.05, 1.5), "keep_ends": True}, "{ utilisation = [0.05, 1.5], keep_ends = true }"),
        ({"offered_load": (0.1, 2.0), "max_weeks": 1}, "{ offered_load = [0.1, 2.0], max_weeks = 1 }"),
    ],
)
def test_weeks_and_loads_are_those_of_a_campaign(log: Path, tmp_path: Path, in_python: Any, in_a_campaign: str) -> None:
    expected = campaign(tmp_path, log, weeks=in_a_campaign, load=[0.6, 0.9], warm_up="1d")
    weeks = pb.read_workload(log).weeks(**in_python, warm_up="1d")
    runs = pb.simulate(weeks, ["fcfs", "easy"], load=[0.6, 0.9], progress=False)
    found = runs.figures.sort("workload", "policy")
    assert found.select(FIGURES).equals(expected.select(FIGURES))
    assert found["workload"][0].startswith("log-week0")


def test_weeks_of_changed_jobs_are_those_that_are_left(log: Path) -> None:
    read = pb.read_workload(log)
    whole, part = read.weeks("all"), read.where(pl.col("n_procs") <= 4).weeks("all")
    assert sum(len(week.where(pl.col("n_procs") <= 4)) for week in whole) == sum(map(len, part))
    assert [week.name for week in part] == ["log-week01", "log-week02", "log-week03"]
    assert len({week.origin for week in part}) == 3
    followed = pb.read_workload(log, feedback=True).weeks([1])[0]
    assert "depends_on" in followed.jobs.columns


def test_tables_have_a_row_for_each_load(log: Path) -> None:
    runs = pb.simulate(pb.read_workload(log).weeks("all"), ["fcfs", "easy"], load=[0.5, 0.9], progress=False)
    by_load = [("fcfs", 0.5), ("easy", 0.5), ("fcfs", 0.9), ("easy", 0.9)]
    assert runs.summary().select("policy", "load").rows() == by_load
    assert runs.quantiles().select("policy", "load").rows() == by_load
    found = runs.against("fcfs", figures="mean_wait_s")
    assert found.select("policy", "load", "n").rows() == [("easy", 0.5, 3), ("easy", 0.9, 3)]
    assert set(found["verdict"]) <= {"better", "worse", "undecided"}


def test_tables_for_papers_are_those_of_the_command(log: Path, tmp_path: Path) -> None:
    campaign(tmp_path, log, weeks='"all"')
    runs = pb.simulate(pb.read_workload(log).weeks("all"), ["fcfs", "easy"], progress=False)
    args = ("--ci", "0.9", "--by", "policy", "--figures", "mean_wait_s,utilisation", "--bold-best")
    own: dict[str, Any] = {"figures": ["mean_wait_s", "utilisation"], "ci": 0.9, "bold_best": True}
    for form in ("text", "latex", "markdown"):
        printed = run_cli("campaign", "table", "out", *args, "--format", form, cwd=tmp_path).stdout
        assert runs.table(form=form, **own) == printed
    assert runs.to_latex(**own) == runs.table(form="latex", **own)
    assert pb.read_campaign(tmp_path / "out").to_latex(**own) == runs.to_latex(**own)
    assert "\\mathbf{" in runs.to_latex(**own)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda log: log.weeks([9]), "week 9: expected 1 to 3, the weeks of "),
        (lambda log: log.weeks("some"), "which: expected "),
        (lambda log: log.weeks([0]), "which=: expected a whole number, 1 or more, found 0"),
        (lambda log: log.weeks("all", offered_load=(0, 1)), "expected only one of them, found several"),
        (lambda log: pb.simulate(log, "easy", load=[]), "load: expected at least one offered load, found none"),
        (lambda log: pb.simulate(log, "easy", load=[0.5, 0.5]), "expected different labels and loads"),
        (lambda log: pb.simulate(log, "easy", load=[0.5, "much"]), "load=: expected a number above 0, found 'much'"),
        (lambda log: pb.simulate(log, "easy", load=[0.5], scale_load=2), "expected only one of them, found both"),
    ],
)
def test_errors(log: Path, call: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        call(pb.read_workload(log))
