"""Campaigns that sweep loads: their workloads, tables and the figure over load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support import campaigns
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign import table
from pybatsched.campaign.all_cells import points_of as points_in_store
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.spec import spec_of
from pybatsched.campaign.store import Store
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError
from pybatsched.report.campaign import means
from pybatsched.report.campaign.layout import sweep_charts
from pybatsched.report.campaign.points import Origin, points_of
from pybatsched.runs.build import build
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import RunSpec, WorkloadSpec
from pybatsched.runs.workloads import Jobs
from pybatsched.workload import load

GENERATED = {"model": "poisson", "procs": 8, "jobs": 40}


def test_each_load_is_a_workload(tmp_path: Path) -> None:
    spec = WorkloadTable.model_validate({"name": "w", "generate": GENERATED, "load": [0.5, 1.0]})
    found = Preparer(tmp_path, []).prepare(spec, 1)
    assert [one.name for one in found] == ["w-load0.5", "w-load1"]
    assert [one.family for one in found] == ["w", "w"]
    loads = [pb.read_workload(one.path).figures["offered_load"] for one in found]
    assert loads == pytest.approx([0.5, 1.0])
    one = Preparer(tmp_path, []).prepare(
        spec.model_copy(update={"load": (), "jobs": WorkloadSpec(scale_load=2.0, walltimes="exact")}), 1
    )
    plain = Preparer(tmp_path, []).prepare(spec.model_copy(update={"load": ()}), 1)
    twice, times = ([job["subtime"] for job in json.loads(Path(w[0].path).read_text())["jobs"]] for w in (one, plain))
    assert twice == pytest.approx([at / 2 for at in times], abs=1e-6)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"load": -0.5}, "expected a number above 0"),
        ({"load": []}, None),
        ({"load": [0.5, 0.5]}, "load: 0.5 is given twice; expected different loads"),
        ({"load": 0.5, "scale_load": 2}, "load: cannot be used with scale_load"),
        ({"load": 0.5, "generate": {**GENERATED, "load": 0.7}}, "or with a load of generate"),
        ({"scale_load": 0}, "scale_load: expected a number above 0, found 0"),
    ],
)
def test_bad_loads_of_a_campaign(members: dict[str, Any], text: str | None) -> None:
    given = {"name": "w", "generate": GENERATED} | members
    if text is None:
        assert not WorkloadTable.model_validate(given).is_split
        return
    with pytest.raises(ValidationError, match=text):
        WorkloadTable.model_validate(given)


def test_a_percentage_is_no_load(tmp_path: Path) -> None:
    spec = WorkloadTable.model_validate({"name": "w", "generate": GENERATED, "load": 90})
    with pytest.raises(InputError, match=r"^workload w: load: expected .*, found 90; did you mean 0\.9\?$"):
        Preparer(tmp_path, []).prepare(spec, seed=1)


@pytest.mark.parametrize(
    ("machine", "n_procs"),
    [
        ({"procs": 12}, 12),
        ({"procs": 12, "alpha": 0.25, "mmax": 14}, 14),
        ({"of_workload": True, "alpha": 0.2}, 10),
        ({"of_workload": True, "alpha": 0.2, "mmax_workload": True}, 8),
        ({"platform": "ricc-node@0.05", "mmax": 20}, 20),
        ({"platform": "ricc-node@0.05", "mmax_workload": True}, 8),
    ],
)
def test_a_load_is_that_of_the_machine_of_the_run(machine: dict[str, Any], n_procs: int, tmp_path: Path) -> None:
    content = {
        "name": "c",
        "workload": [{"name": "w", "generate": GENERATED, "load": 0.5}],
        "platform": [{"name": "m", **machine}],
        "policy": [{"name": "fcfs"}],
    }
    with Store(tmp_path / "out") as store:
        ((_, cell),) = points_in_store(spec_of(content, "c.toml"), store, [tmp_path])
    workload = pb.read_workload(cell.workload["path"], n_procs=n_procs)
    assert workload.figures["offered_load"] == pytest.approx(0.5)
    policy = PolicySpec("fcfs")
    jobs = [Jobs(load(cell.workload["path"]))]
    assert build(RunSpec.of({**cell.run, **cell.machine}, policy), jobs).scenario.platform.n_procs == n_procs


SWEEP = """
name = "sweep"
seeds = [1, 2]
[[workload]]
name = "w"
generate = { model = "poisson", procs = 8, jobs = 40 }
load = [0.5, 0.9]
[[platform]]
name = "own"
of_workload = true
[[policy]]
name = "fcfs"
[[policy]]
name = "easy"
"""


def test_a_campaign_over_loads_from_file_to_figure(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    done = run_cli("campaign", "run", "sweep.toml", "--output", "out", "--workers", "1", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    frame = table.frame(Store(tmp_path / "out"))
    assert frame["load"].to_list() == [0.5, 0.5, 0.9, 0.9] * 2
    assert set(frame["family"]) == {"w"}
    assert table.groups_shown(frame) == ["family", "policy", "load"]
    done = run_cli("campaign", "table", "out", "--ci", "0.95", "--figures", "mean_wait_s", cwd=tmp_path)
    assert [line.split()[:4] for line in done.stdout.splitlines()[1:]] == [
        ["w", "fcfs", "0.5", "2"],
        ["w", "easy", "0.5", "2"],
        ["w", "fcfs", "0.9", "2"],
        ["w", "easy", "0.9", "2"],
    ]
    done = run_cli("plot", "sweep", "out", "--measure", "mean_wait_s", "--output", "s.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("s.svg: sweep of mean wait (s), 8 values")
    done = run_cli("report", "out", "--output", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert "w, load 0.5" in page
    figure = pb.read_campaign(tmp_path / "out").plot.sweep("mean_wait_s", policy="easy")
    (panel,) = figure.get_axes()
    assert panel.get_xlabel() == "offered load"
    assert [text.get_text() for text in panel.get_xticklabels()] == ["0.5", "0.9"]


def test_lines_of_a_sweep_are_means_over_weeks(tmp_path: Path) -> None:
    rows = [
        campaigns.Row(f"kth-week{week:02}-load{load}", policy, {"mean_wait_s": value * week})
        for week in (1, 3)
        for load in (0.7, 0.9)
        for policy, value in (("fcfs", 20.0 * load), ("easy", 10.0 * load))
    ]
    campaigns.keep(tmp_path, rows, ["kth"])
    first, second = sweep_charts(points_of(Store(tmp_path)), "mean_wait_s")
    assert (first.subject, second.subject) == ("fcfs", "easy")
    assert [(box.category, box.mean.n, box.mean.unit) for box in second.boxes] == [
        ("0.7", 2, "week"),
        ("0.9", 2, "week"),
    ]
    assert [box.mean.mean for box in second.boxes] == pytest.approx([14.0, 18.0])


def test_a_sweep_needs_loads(tmp_path: Path) -> None:
    campaigns.keep(tmp_path, [campaigns.Row("w", "easy", {"mean_wait_s": 1.0})], ["w"])
    with pytest.raises(InputError, match="sweep: expected a campaign whose workloads have `load"):
        pb.read_campaign(tmp_path).plot.sweep("mean_wait_s")


def test_copies_of_a_workload_are_one_unit() -> None:
    values = [(Origin(f"a-week{week:02}-shake{copy:02}"), float(week)) for week in (1, 2, 3) for copy in (1, 2)]
    assert means.mean_over(values) == means.mean_over([(Origin(f"a-week{k:02}"), float(k)) for k in (1, 2, 3)])
    of_one = means.mean_over(values[:2])
    assert of_one is not None
    assert (of_one.n, of_one.unit) == (2, "shake")


def test_a_campaign_without_loads_has_no_such_column(tmp_path: Path) -> None:
    campaigns.keep(tmp_path, [campaigns.Row("w", "easy", {"mean_wait_s": 1.0})], ["w"])
    assert "load" not in table.frame(Store(tmp_path)).columns
