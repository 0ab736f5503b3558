"""Facts: numbers that a policy reports for its jobs, as measures of runs, campaigns and pages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from support.places import PUSHY
from support.process import run_cli

from pybatsched.campaign import table
from pybatsched.campaign.measures import evaluate
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics import Outcome, joined
from pybatsched.metrics.compare.paired import paired
from pybatsched.metrics.figures import figures_of
from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.outcomes import facts_of
from pybatsched.metrics.saved_runs import read_run

SUCCESS, KILLED, REJECTED = "COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED", "REJECTED"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", {}),
        ("note", {}),
        ("load_s=64", {"load_s": 64.0}),
        ("load_s=64;load_wait_s=0.5; reused=1 ;_x2=-3e2;y=+.5;z=7.", None),
        ("load_s=64;load_s=65", {"load_s": 65.0}),  # the last value counts
        ("parent=w0!1;segment=2;kind=requeue;work=rest;by=7;extra_s=3;held_s=2;reused=0", {"reused": 0.0}),
        ("replaced_by=3;unused_spare_of=4", {}),
        *((f"x={wrong}", {}) for wrong in ("", "nan", "inf", "1e999", "0x10", "1_000", "ten", "1,5", "5 s", "--1")),
        *((f"{wrong}=1", {}) for wrong in ("", "2x", "a-b", "a b", "é", "a.b")),
        ("a=b=1", {}),
    ],
)
def test_facts_are_read_from_metadata(text: str, facts: dict[str, float] | None) -> None:
    wanted = {"load_s": 64.0, "load_wait_s": 0.5, "reused": 1.0, "_x2": -300.0, "y": 0.5, "z": 7.0}
    assert facts_of(text) == (wanted if facts is None else facts)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_that_python_writes_is_read_back(value: float) -> None:
    assert facts_of(f"a=b;x={value!r}") == {"x": value}


ROWS = [
    Outcome("w0!a", SUCCESS, 0.0, 0.0, 20.0, 2, "load_s=4;reused=1"),
    Outcome("w0!b", REJECTED, 5.0, 0.0, 0.0, 0, "replaced_by=dyn!w0.b.1;kind=replace;load_s=1000"),
    Outcome("dyn!w0.b.1", KILLED, 5.0, 20.0, 10.0, 4, "parent=w0!b;segment=1;kind=replace;extra_s=8;load_s=8"),
    Outcome("dyn!w0.b.2", SUCCESS, 5.0, 30.0, 18.0, 4, "parent=w0!b;segment=2;kind=requeue;load_s=10"),
    Outcome("w0!c", SUCCESS, 6.0, 25.0, 4.0, 2),
    Outcome("w0!d", REJECTED, 6.0, 0.0, 0.0, 0, "load_s=500"),
    Outcome("w0!e", SUCCESS, 6.0, 50.0, 4.0, 2, "wait_s=3;utilisation=9"),
]
RECORDS = joined(ROWS, {"w0!a": {"user": "x", "urgent": True}, "w0!b": {"user": "y"}, "w0!c": {"user": "y"}})


JOBS = JobResults.of(RECORDS)


def test_facts_are_those_of_the_last_segment() -> None:
    assert [dict(record.facts) for record in RECORDS] == [
        {"load_s": 4, "reused": 1},
        {"load_s": 10},
        {},
        {},
        {"wait_s": 3, "utilisation": 9},
    ]


def test_facts_are_measures() -> None:
    assert JOBS.facts == ["load_s", "reused"], "names that are ours stay ours"
    summary = JOBS.distribution("load_s")
    assert summary is not None
    assert (summary.n, summary.total, summary.mean, summary.median, summary.maximum) == (2, 14, 7, 7, 10)
    assert JOBS.column("reused").to_list() == [1, None, None, None, None]
    assert JOBS.column("load_s").to_list() == [4, 10, None, None, None]
    assert JOBS.column("wait_s")[4] == 44
    by_user = {name: members.values("load_s") for name, members in JOBS.by_class("user").items()}
    assert by_user == {"unknown": [], "x": [4], "y": [10]}
    with pytest.raises(
        InputError, match=r"measure 'loads'; did you mean 'load_s'\? Expected one of wait_s, .*, load_s, reused$"
    ):
        JOBS.distribution("loads")


def test_facts_job_by_job() -> None:
    first = JobResults.of_outcomes([Outcome(f"w0!{n}", SUCCESS, 0, 0, 5, 1, f"load_s={n}") for n in (0, 2, 4)])
    second = joined(
        [Outcome("w0!0", SUCCESS, 0, 0, 5, 1, "load_s=3"), Outcome("w0!2", SUCCESS, 0, 9, 5, 1, "load_s=6")]
    )
    both = paired(first, JobResults.of([*second, *joined([Outcome("w0!4", SUCCESS, 0, 0, 5, 1)])]), "load_s")
    assert (both.n_pairs, both.n_ratios, both.mean_ratio, both.impacted_ratio) == (3, 1, 3, 3)
    assert both.ratio_of_means == (3 + 6) / (0 + 2)


def test_facts_are_figures_of_campaigns() -> None:
    row = figures_of(JOBS, 4, 60.0)
    assert [row[f"{name}_load_s"] for name in ("n_jobs_with", "total", "mean", "p50", "max")] == [2, 14, 7, 7, 10]
    assert row["total_reused"] == 1
    assert (row["urgent_total_load_s"], row["urgent_mean_load_s"], row["regular_max_load_s"]) == (4, 4, 10)
    assert row["regular_total_reused"] is None
    assert row["mean_wait_s"] == (0 + 25 + 19 + 44) / 4


def test_a_fact_never_replaces_a_figure() -> None:
    plain = [Outcome("w0!a", SUCCESS, 0, 10, 5, 1)]
    loud = [replace(plain[0], metadata="bounded_slowdown=7;makespan=3;n=4;queue_length=5;urgent_wait_s=6;wait=8")]
    before, after = (figures_of(JobResults.of_outcomes(rows), 4, 60.0) for rows in (plain, loud))
    assert {name: after[name] for name in before} == before
    assert (after["total_n"], after["max_makespan"], after["total_wait"]) == (4, 3, 8)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of a policy that reports loads: 3 s and 5 s for each of three jobs."""
    place = tmp_path_factory.mktemp("facts")
    jobs = [
        {"id": str(n), "subtime": n, "res": 2, "walltime": 100, "profile": "d", "user": "xy"[n % 2]} for n in range(3)
    ]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 10}}}
    (place / "w.json").write_text(json.dumps(content))
    for load_s in (3, 5):
        done = run_cli(
            *("simulate", "--procs", "4", "-w", "w.json", "--policy", f"{PUSHY}:Loader", "-e", f"load{load_s}"),
            *("-o", f"load_s={load_s}", "--quiet"),
            cwd=place,
        )
        assert done.returncode == 0, done.stderr
    return place


def test_the_simulator_writes_facts(place: Path) -> None:
    run = read_run(str(place / "load3"))
    assert [(record.id, record.runtime_s, dict(record.facts)) for record in run.records] == [
        (f"w0!{n}", 10, {"load_s": 3}) for n in range(3)
    ]
    assert run.jobs.values("wait_s") == [3, 3, 14]


def test_the_command(place: Path) -> None:
    result = json.loads(run_cli("metrics", "load3", "--json", cwd=place).stdout)["load3"]
    assert {name: result["load_s"][name] for name in ("n", "total", "mean", "max")} == {
        "n": 3,
        "total": 9,
        "mean": 3,
        "max": 3,
    }
    assert "total" not in result["wait_s"]
    lines = run_cli("metrics", "load3", cwd=place).stdout.splitlines()
    assert lines[0].split()[-1] == "total"
    assert [line.split()[-1] for line in lines if line.startswith("load_s")] == ["9"]
    by_user = run_cli("metrics", "load3", "--by", "user", "--measure", "load_s", "--json", cwd=place).stdout
    assert {name: (row["jobs"], row["total"]) for name, row in json.loads(by_user)["load3"].items()} == {
        "x": (2, 6),
        "y": (1, 3),
    }
    pairs = run_cli("metrics", "load5", "--against", "load3", "--measure", "load_s", "--json", cwd=place).stdout
    assert json.loads(pairs)["load5"]["load_s"]["mean_ratio"] == pytest.approx(5 / 3)
    for more in (("--by", "user"), ("--against", "load5"), ()):
        wrong = run_cli("metrics", "load3", *more, "--measure", "beauty", cwd=place)
        assert (wrong.returncode, "measure 'beauty': expected one of wait_s" in wrong.stderr) == (2, True)
        assert "load_s" in wrong.stderr


def test_the_page_and_single_figures(place: Path) -> None:
    assert run_cli("report", "load3", "load5", "--output", "page.html", cwd=place).returncode == 0
    page = (place / "page.html").read_text()
    cells = {
        name: re.findall(r"<td[^>]*>(.*?)</td>", rest)
        for name, rest in re.findall(r'<tr><td class="text">([^<]*)</td>(.*?)</tr>', page)
    }
    assert cells["jobs with load"] == ["3", "3"]
    assert cells["total load (s)"] == ["9", "15"]
    assert (cells["mean load (s) of these jobs"], cells["max load (s)"]) == (["3", "5"], ["3", "5"])
    for kind in ("cdf", "boxes"):
        done = run_cli("plot", kind, "load3", "load5", "--measure", "load_s", "--output", f"{kind}.svg", cwd=place)
        assert done.returncode == 0, done.stderr
    wrong = run_cli("plot", "cdf", "load3", "--measure", "beauty", "--output", "x.svg", cwd=place)
    assert (wrong.returncode, "measure 'beauty': expected one of wait_s" in wrong.stderr) == (2, True)


def test_a_campaign(place: Path) -> None:
    (place / "s.toml").write_text(
        f"""
        name = "loads"
        keep = "jobs"
        [[workload]]
        name = "w"
        file = "w.json"
        [[platform]]
        name = "four"
        procs = 4
        [[policy]]
        name = "{PUSHY}:Loader"
        label = "loader"
        options = {{load_s = [3, 5]}}
        [[policy]]
        name = "fcfs"
        [[chart]]
        figure = "total_load_s"
        where = {{policy = "loader"}}
        by = "load_s"
        """
    )
    done = run_cli("campaign", "run", "s.toml", "--output", "out", "--workers", "1", cwd=place)
    assert done.returncode == 0, done.stderr
    rows = table.frame(Store(place / "out"))
    assert rows["total_load_s"].to_list() == [9, 15, None]
    assert rows["n_jobs_with_load_s"].to_list() == [3, 3, None]
    assert evaluate("total(total_load_s, policy = 'loader')", rows) == 24
    assert evaluate("greatest(max_load_s) - least(mean_load_s, load_s = 3)", rows) == 2
    shown = run_cli("campaign", "table", "out", "--figures", "mean_load_s", "--by", "policy", cwd=place)
    assert shown.stdout.split()[-6:] == ["loader", "2", "4", "fcfs", "1", "-"]
    done = run_cli("plot", "boxes", "out", "--measure", "load_s", "--output", "boxes.svg", cwd=place)
    assert done.returncode == 0, done.stderr
    assert run_cli("report", "out", "--output", "study.html", cwd=place).returncode == 0
    assert "<h3>total load (s)</h3>" in (place / "study.html").read_text()
