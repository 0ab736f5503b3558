"""Jobs that are evaluated or not (`evaluated`), and stretches relative to the time alone (`alone_s`)."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.places import PUSHY
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.metrics import Outcome, Tally
from pybatsched.metrics.compare.comparison import read_summary
from pybatsched.metrics.figures import figures_of
from pybatsched.metrics.job_results import STRETCH_BOUND_S, JobResults
from pybatsched.metrics.saved_runs import read_run
from pybatsched.metrics.workload_fields import evaluated_ids, fields_of
from pybatsched.workload import Workload

SUCCESS, KILLED, REJECTED = "COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED", "REJECTED"


def workload(**fields: dict[str, Any]) -> Workload:
    jobs = [{"id": name, "subtime": 0, "res": 1, "profile": "d", **own} for name, own in fields.items()]
    return Workload(jobs, {"d": {"type": "delay", "delay": 10}}, 4, "my.json")


def test_which_jobs_are_evaluated() -> None:
    assert evaluated_ids({"w0": workload(a={}, b={"user": 1})}) is None
    mixed = workload(a={}, b={"evaluated": True}, c={"evaluated": False})
    assert evaluated_ids({"w0": mixed, "w1": workload(a={})}) == frozenset({"w0!b"})
    assert evaluated_ids({"w0": workload(a={"evaluated": False})}) == frozenset()
    rows = [Outcome(f"w0!{name}", SUCCESS, 0.0, 0.0, 5.0, 1) for name in "abcd"]
    assert JobResults.of_outcomes(rows, fields_of({"w0": mixed})).evaluated.frame["id"].to_list() == ["w0!b"]
    assert len(JobResults.of_outcomes(rows, fields_of({"w0": workload(a={})})).evaluated) == 4


@pytest.mark.parametrize("value", [None, 1, "true", [True]])
def test_evaluated_must_be_true_or_false(value: Any) -> None:
    with pytest.raises(InputError, match=r'^my\.json: job "b", field evaluated: expected true or false, found '):
        evaluated_ids({"w0": workload(a={}, b={"evaluated": value})})


@pytest.mark.parametrize("value", [None, 0, -1.0, "5", True, float("inf"), float("nan")])
def test_alone_s_must_be_a_time(value: Any) -> None:
    with pytest.raises(InputError, match=r'^my\.json: job "b", field alone_s: expected more than 0 seconds, found '):
        fields_of({"w0": workload(a={"alone_s": 5}, b={"alone_s": value})})
    with pytest.raises(InputError, match=r"^job w0!b, field alone_s: expected more than 0 seconds, found "):
        JobResults.of_outcomes([Outcome("w0!b", SUCCESS, 0.0, 0.0, 5.0, 1)], {"w0!b": {"alone_s": value}})


jobs_of_a_run = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.booleans(), st.sampled_from("prxk")),
    max_size=8,
)


@given(jobs_of_a_run)
def test_job_figures_use_evaluated_jobs_and_machine_figures_use_all(drawn: list[Any]) -> None:
    rows, fields, n_rows = [], {}, 0
    for number, (at, wait, run, counts, kind) in enumerate(drawn):
        name = f"w0!{number}"
        fields[name] = {"evaluated": counts}
        if kind == "r":
            rows.append(Outcome(name, REJECTED, at, 0.0, 0.0, 0))
        elif kind == "p":
            rows.append(Outcome(name, SUCCESS, at, at + wait, run, 1))
        elif kind == "x":
            rows.append(Outcome(name, REJECTED, at, 0.0, 0.0, 0, "replaced_by=z;kind=replace"))
            rows.append(Outcome(f"dyn!{number}", SUCCESS, at, at + wait, run, 1, f"parent={name};segment=1;extra_s=1"))
        else:
            rows.append(Outcome(name, KILLED, at, at + wait, run, 1))
            rows.append(Outcome(f"dyn!{number}", SUCCESS, at, at + wait + run, run, 1, f"parent={name};segment=1"))
        n_rows += 1
    ids = frozenset(name for name, own in fields.items() if own["evaluated"])
    some, all_of_them = Tally(10.0, ids), Tally(10.0)
    for row in rows:
        some.add(row)
        all_of_them.add(row)
    figures, whole = some.figures(4), all_of_them.figures(4)
    jobs = JobResults.of_outcomes(rows, fields).evaluated
    assert (figures.n_jobs, figures.n_left_out) == (len(jobs), n_rows - len(jobs))
    assert (figures.utilisation, figures.makespan_s) == (whole.utilisation, whole.makespan_s)
    if jobs.ran.height:
        assert figures.mean_wait_s == pytest.approx(statistics.fmean(jobs.values("wait_s")))
        assert figures.max_bounded_slowdown == max(jobs.values("bounded_slowdown", 10.0))
    else:
        assert figures.mean_wait_s is figures.max_bounded_slowdown is None
    assert ("n_left_out" in figures.as_dict()) == (figures.n_left_out > 0)


# --- stretch ----------------------------------------------------------------------------------------------------------

FLOWS = JobResults.of_outcomes(
    [Outcome(f"w0!{name}", SUCCESS, 0.0, 100.0, 500.0, 1) for name in "abc"]
    + [Outcome("w0!d", REJECTED, 0.0, 0.0, 0.0, 0)],
    {"w0!a": {"alone_s": 200, "user": "x"}, "w0!b": {"alone_s": 1200.0, "user": "x"}, "w0!d": {"alone_s": 1}},
)


def test_a_stretch_is_flow_over_what_the_job_takes_alone() -> None:
    assert STRETCH_BOUND_S == 300
    found = list(zip(FLOWS.column("stretch"), FLOWS.column("bounded_stretch"), strict=True))
    assert found == [(3, 2), (0.5, 0.5), (None, None), (None, None)]
    summary, bounded = FLOWS.distribution("stretch"), FLOWS.distribution("bounded_stretch")
    assert summary is not None
    assert bounded is not None
    assert (summary.n, summary.mean, summary.maximum, bounded.mean) == (2, 1.75, 3, 1.25)
    assert FLOWS.plain_measures[-2:] == ["stretch", "bounded_stretch"]
    assert {name: len(members) for name, members in FLOWS.by_class("user").items()} == {"unknown": 2, "x": 2}


def test_without_alone_s_there_are_no_stretches() -> None:
    jobs = JobResults.of_outcomes([Outcome("w0!a", SUCCESS, 0.0, 100.0, 500.0, 1, "stretch=5")])
    assert "stretch" not in jobs.plain_measures
    assert not [name for name in figures_of(jobs, 4, 60.0) if "stretch" in name], "no fact takes its name"
    with pytest.raises(InputError, match="measure 'stretch'"):
        jobs.distribution("stretch")


def test_stretches_are_figures_of_campaigns() -> None:
    row = figures_of(FLOWS, 4, 60.0)
    assert (row["mean_stretch"], row["max_stretch"], row["mean_bounded_stretch"]) == (1.75, 3, 1.25)


def write(path: Path, counts: str) -> None:
    """Four jobs of 10 s one after the other on the whole machine; jobs with the letter t are evaluated."""
    fields = {"t": {"evaluated": True}, "f": {"evaluated": False}, "-": {}}
    jobs = [
        {"id": str(n), "subtime": n, "res": 4, "walltime": 50, "profile": "d", "alone_s": 5, "user": "xy"[n % 2]}
        | fields[letter]
        for n, letter in enumerate(counts)
    ]
    path.write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 10}}}))


def simulate(place: Path, name: str, *more: str, policy: str = "fcfs") -> str:
    args = ("simulate", "--procs", "4", "-w", f"{name}.json", "--policy", policy, "-e", name)
    done = run_cli(*args, *more, cwd=place)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("evaluated")
    for name, counts in (("some", "f-tt"), ("none", "ffff"), ("all", "----")):
        write(place / f"{name}.json", counts)
        (place / f"{name}.txt").write_text(simulate(place, name))
    return place


def test_the_closing_table_and_the_summary(place: Path) -> None:
    lines = [line.split() for line in (place / "some.txt").read_text().splitlines()]
    assert ["jobs", "completed", "2"] in lines
    assert ["jobs", "left", "out:", "not", "evaluated", "2"] in lines
    assert ["mean", "wait", "22.50", "s"] in lines, "the third waits 18 s, the fourth 27"
    some, whole = (json.loads((place / f"{name}_summary.json").read_text())["figures"] for name in ("some", "all"))
    assert (some["n_jobs"], some["n_left_out"], some["max_wait_s"]) == (2, 2, 27)
    assert (some["utilisation"], some["makespan_s"]) == (whole["utilisation"], whole["makespan_s"]) == (1, 40)
    assert (whole["n_jobs"], "n_left_out" in whole) == (4, False)
    assert json.loads((place / "some_state.json").read_text())["n_over"] == 4


def test_a_run_without_evaluated_jobs_is_reported(place: Path) -> None:
    text = (place / "none.txt").read_text()
    assert "there are no figures of jobs: none has evaluated: true" in text
    assert "nan" not in text
    figures = json.loads((place / "none_summary.json").read_text())["figures"]
    assert (figures["n_jobs"], figures["n_left_out"], figures["mean_wait_s"], figures["makespan_s"]) == (0, 4, None, 40)
    result = run_cli("metrics", "none", cwd=place)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("none: all 4 jobs are left out of figures of jobs: none has evaluated: true\n")
    found = json.loads(run_cli("metrics", "none", "--json", cwd=place).stdout)["none"]
    assert (found["left_out"], found["wait_s"], found["makespan_s"]) == ({"n": 4}, {"n": 0}, {"max": 40})
    assert run_cli("report", "none", "--output", "none.html", cwd=place).returncode == 0
    assert "none: all 4 jobs are left out" in (place / "none.html").read_text()
    for kind, code in (("cdf", 2), ("boxes", 2), ("gantt", 0)):
        done = run_cli("plot", kind, "none", "--output", f"none-{kind}.svg", cwd=place)
        assert (done.returncode, "expected at least one job with bounded_slowdown" in done.stderr) == (code, code == 2)


def test_metrics(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)  # where the workload is that the summary names
    run = read_run("some")
    assert (run.evaluated.frame["id"].to_list(), run.n_left_out, len(run.records)) == (["w0!2", "w0!3"], 2, 4)
    found = json.loads(run_cli("metrics", "some", "--json", cwd=place).stdout)["some"]
    assert found["left_out"] == {"n": 2}
    assert (found["wait_s"]["n"], found["wait_s"]["mean"]) == (2, 22.5)
    assert (found["stretch"]["mean"], found["stretch"]["max"]) == ((28 + 37) / 2 / 5, 37 / 5)
    assert found["bounded_stretch"]["max"] == 37 / 300
    assert (found["utilisation"]["mean"], found["makespan_s"]["max"], found["queue_length"]["max"]) == (1, 40, 3)
    output = run_cli("metrics", "some", cwd=place).stdout
    message = "some: 2 of 4 jobs are left out of figures of jobs: only those with evaluated: true count"
    assert output.splitlines()[0] == message
    assert "left_out" not in json.loads(run_cli("metrics", "all", "--json", cwd=place).stdout)["all"]
    args = ("metrics", "some", "--by", "user", "--measure", "stretch")
    by_user = json.loads(run_cli(*args, "--json", cwd=place).stdout)["some"]
    assert {name: row.get("jobs") for name, row in by_user.items()} == {"left_out": None, "x": 1, "y": 1}
    assert message in run_cli(*args, cwd=place).stdout
    pairs = json.loads(run_cli("metrics", "some", "--against", "all", "--json", cwd=place).stdout)["some"]
    assert (pairs["flow_s"]["n_pairs"], pairs["flow_s"]["n_only_first"]) == (2, 2)


def test_a_plain_table_of_batsim_with_the_workload_beside_it(place: Path, tmp_path: Path) -> None:
    (tmp_path / "b_jobs.csv").write_text((place / "some_jobs.csv").read_text())
    assert read_run(str(tmp_path / "b")).n_left_out == 0, "nobody says who counts"
    assert read_run(str(tmp_path / "b"), [str(place / "some.json")]).n_left_out == 2


def test_a_missing_workload_of_evaluated_jobs_is_an_error(place: Path, tmp_path: Path) -> None:
    for name in ("jobs.csv", "summary.json"):
        (tmp_path / f"b_{name}").write_text((place / f"some_{name}").read_text())
    for command in (("metrics", "b"), ("report", "b"), ("plot", "cdf", "b", "--output", "x.svg")):
        done = run_cli(*command, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), command
        why = "some of its jobs are not evaluated, but the workload with the field `evaluated` is missing"
        assert f"b: {why}" in done.stderr
        assert run_cli(*command, "-w", str(place / "some.json"), cwd=tmp_path).returncode == 0


def test_the_page(place: Path) -> None:
    assert run_cli("report", "all", "some", "--output", "page.html", cwd=place).returncode == 0
    page = (place / "page.html").read_text()
    assert '<p class="note">some: 2 of 4 jobs are left out of figures of jobs: only those with evaluated' in page
    rows = {
        name: re.findall(r"<td[^>]*>(.*?)</td>", rest)
        for name, rest in re.findall(r'<tr><td class="text">([^<]*)</td>(.*?)</tr>', page)
    }
    assert rows["jobs"] == ["4", "2"]
    assert rows["jobs left out: not evaluated"] == ["0", "2"]
    assert rows["jobs completed"] == ["4", "2"]
    assert rows["mean wait (s)"] == ["13.5", "22.5"]
    assert rows["max stretch"] == ["7.4", "7.4"]
    assert rows["utilisation"] == ["1", "1"]
    assert rows["regular"][:2] == ["4", "2"], "classes, of both runs"
    assert rows["some, flow (s)"][0] == "2", "jobs in both"


def test_figures_of_a_failed_run_use_evaluated_jobs(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = json.loads((place / "some.json").read_text())
    for job, at in zip(content["jobs"], (0, 20, 40, 41), strict=True):
        job |= {"subtime": at, "res": 1, "evaluated": at != 20}
    (place / "failed.json").write_text(json.dumps(content))
    args = ("--procs", "4", "-w", "failed.json", "--policy", f"{PUSHY}:Greedy", "-e", "failed")
    assert run_cli("simulate", *args, cwd=place).returncode == 6
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="failed: some of its jobs are not evaluated"):
        read_summary(str(place / "failed_summary.json"))
    monkeypatch.chdir(place)
    summary = read_summary("failed_summary.json")
    assert (summary.metrics["n_jobs"], summary.metrics["n_left_out"]) == (1, 1)
    assert "failed after 2 of 4 jobs" in summary.run_state.notice


@pytest.mark.parametrize(("field", "value"), [("evaluated", 1), ("alone_s", 0)])
def test_bad_fields_are_reported_before_the_run(field: str, value: Any, tmp_path: Path) -> None:
    write(tmp_path / "w.json", "tt")
    content = json.loads((tmp_path / "w.json").read_text())
    content["jobs"][1][field] = value
    (tmp_path / "w.json").write_text(json.dumps(content))
    done = run_cli("simulate", "--procs", "4", "-w", "w.json", "--policy", "fcfs", "-e", "x", cwd=tmp_path)
    assert done.returncode == 2
    assert f'w.json: job "1", field {field}: expected ' in done.stderr
    assert not list(tmp_path.glob("x*"))
