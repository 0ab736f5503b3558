"""One name per figure: the tables of names, and old names of version 0.2."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.places import ROOT
from support.process import run_cli

from pybatsched.campaign import table
from pybatsched.campaign.measures import evaluate
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics import Outcome, Tally, figure_names
from pybatsched.metrics.compare.comparison import broken, read_condition, read_summary
from pybatsched.metrics.figures import figures_of
from pybatsched.metrics.job_results import JobResults
from pybatsched.report.campaign.points import points_of

pytestmark = pytest.mark.filterwarnings("ignore::pybatsched.deprecations.DeprecatedNameWarning")
SUCCESS = "COMPLETED_SUCCESSFULLY"


def test_every_figure_of_a_run_is_in_the_tables() -> None:
    rows = [Outcome("w0!a", SUCCESS, 0, 0, 5, 1, "load_s=3"), Outcome("w0!b", SUCCESS, 0, 0, 5, 1)]
    fields = {"w0!a": {"urgent": True, "alone_s": 3}, "w0!b": {"max_stay": 3}}
    tally = Tally()
    for row in rows:
        tally.add(row)
    names = {*figures_of(JobResults.of_outcomes(rows, fields), 4, 10.0), *tally.figures(4).as_dict()} - {"n_by_state"}
    measures = {*figure_names.MEASURES, *figure_names.STRETCHES, "load_s"}
    known = {*figure_names.OF_RUNS, *(f"{text}_{one}" for text in figure_names.STATISTICS for one in measures)}
    known |= {f"{kind}_{name}" for kind in figure_names.KINDS for name in known}
    assert names <= known


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wait_s_mean", "mean_wait_s"),
        ("bounded_slowdown_p95", "p95_bounded_slowdown"),
        ("urgent_slowdown_max", "urgent_max_slowdown"),
        ("regular_load_s_total", "regular_total_load_s"),
        ("load_s_n", "n_jobs_with_load_s"),
        ("queue_length_mean", "mean_queue_length"),
        ("n_successfully", "n_completed"),
        ("deadline_n_late", "deadline_n_late"),
        ("utilisation", "utilisation"),
        ("pd_max_s", "pd_max_s"),
        ("mean_wait_s", "mean_wait_s"),
    ],
)
def test_old_names(old: str, new: str) -> None:
    assert figure_names.current_name(old) == new
    assert figure_names.resolved(old, {new}) == new
    assert figure_names.resolved(old, {old, new}) == old, "a policy's own figure keeps its name"
    assert figure_names.resolved(old, set()) == old


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("names")
    (place / "c.toml").write_text(
        'name = "c"\neach = ["size"]\n[[workload]]\nname = "w"\ngenerate = { model = "lublin", procs = 8, jobs = 40 }\n'
        '[[platform]]\nname = "p"\nof_workload = true\n[[policy]]\nname = "easy"\n[[policy]]\nname = "fcfs"\n'
        '[[chart]]\nfigure = "wait_s_mean"\n'
    )
    assert run_cli("campaign", "run", "c.toml", "--output", "out", cwd=place).returncode == 0
    return place


def test_old_names_in_tables_and_studies(campaign: Path) -> None:
    frame = table.frame(Store(str(campaign / "out")))
    assert "mean_wait_s" in frame.columns
    assert "wait_s_mean" not in frame.columns
    assert evaluate("mean(wait_s_mean)", frame) == evaluate("mean(mean_wait_s)", frame)
    assert evaluate("mean_ratio(flow_s_max, 'fcfs')", frame) == evaluate("mean_ratio(max_flow_s, 'fcfs')", frame)
    with pytest.raises(InputError, match=r"^patience_mean: unknown figure; expected one of n_jobs"):
        evaluate("mean(patience_mean)", frame)
    found = [
        run_cli("campaign", "table", "out", "--figures", name, "--format", "csv", cwd=campaign).stdout
        for name in ("wait_s_mean,utilisation", "mean_wait_s,utilisation")
    ]
    assert found[0] == found[1]
    assert found[0].splitlines()[0].endswith("mean_wait_s,utilisation")


def test_old_names_in_plots_and_charts(campaign: Path) -> None:
    outputs = [
        run_cli("plot", "means", "out", "--measure", name, "--output", "x.svg", cwd=campaign).stdout
        for name in ("wait_s_mean", "mean_wait_s", "wait_s")
    ]
    assert len(set(outputs)) == 1
    assert outputs[0].startswith("x.svg: means of mean wait (s), ")
    assert run_cli("report", "out", "--output", "x.html", cwd=campaign).returncode == 0
    text = (campaign / "x.html").read_text()
    assert "Nothing to show" not in text


def test_stored_results_with_old_names(campaign: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(campaign / "out", old)
    new_names = {figure_names.current_name(name): name for name in _old_names()}
    for path in (old / "cells").glob("*.json"):
        result = json.loads(path.read_text())
        result["figures"] = {new_names.get(name, name): value for name, value in result["figures"].items()}
        for classes in result["each"].values():
            for name, row in classes.items():
                classes[name] = {new_names.get(figure, figure): value for figure, value in row.items()}
        path.write_text(json.dumps(result))
    assert "wait_s_mean" in path.read_text()
    assert table.frame(Store(str(old))).equals(table.frame(Store(str(campaign / "out"))))
    assert points_of(Store(str(old))) == points_of(Store(str(campaign / "out")))


def _old_names() -> list[str]:
    statistics = [arg for arg in figure_names.STATISTICS if arg != "n_jobs_with"]
    return [f"{one}_{arg}" for one in (*figure_names.MEASURES, "queue_length") for arg in statistics] + [
        "n_successfully"
    ]


def test_old_names_in_conditions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    args = ("--procs", "32", "-w", str(ROOT / "examples" / "workload.json"))
    for policy in ("fcfs", "easy"):
        assert run_cli("simulate", *args, "--policy", policy, "-e", policy, cwd=tmp_path).returncode == 0
    first, second = read_summary("fcfs"), read_summary("easy")
    for old, new in (("wait_s_mean", "mean_wait_s"), ("n_successfully", "n_completed")):
        messages = [broken(read_condition(f"{name} >= 0"), first, second, "") for name in (old, new)]
        assert messages[0].partition(":")[2] == messages[1].partition(":")[2] != ""
