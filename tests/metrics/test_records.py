"""Rows of files combined to jobs: description, classes, series over time, and comparison."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.places import ROOT
from support.process import run_cli
from support.twins import steps_of

from pybatsched.errors import InputError
from pybatsched.metrics import Outcome, Tally, jobs_csv, joined
from pybatsched.metrics.compare.paired import JobStay, impact, paired
from pybatsched.metrics.distributions import distribution, percentile
from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.outcomes import Lineage, lineage_of
from pybatsched.metrics.saved_runs import read_run
from pybatsched.metrics.series import Steps

SUCCESS, KILLED, REJECTED = "COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED", "REJECTED"
PUSHY = ROOT / "tests" / "support" / "pushy.py"

times = st.integers(0, 1000).map(lambda n: n / 4)


@st.composite
def runs(draw: st.DrawFn) -> list[Outcome]:
    """Rows as a run leaves them: plain jobs, rejected ones, and chains of segments, in any order."""
    rows: list[Outcome] = []
    for number in range(draw(st.integers(0, 8))):
        at, name, n = draw(times), f"w0!{number}", draw(st.integers(1, 4))
        kind = draw(st.sampled_from(["plain", "rejected", "requeued", "rest", "replaced"]))
        if kind == "rejected":
            rows.append(Outcome(name, REJECTED, at, 0.0, 0.0, 0))
            continue
        start, span = at + draw(times), draw(times)
        if kind == "plain":
            rows.append(Outcome(name, SUCCESS, at, start, span, n))
            continue
        if kind == "replaced":
            rows.append(Outcome(name, REJECTED, at, 0.0, 0.0, 0, f"replaced_by=dyn!{number};kind=replace"))
            rows.append(Outcome(f"dyn!{number}", SUCCESS, at, start, span, n, f"parent={name};segment=1;kind=replace"))
            continue
        rows.append(Outcome(name, KILLED, at, start, span, n))
        note = ";work=rest" if kind == "rest" else ""
        n_more = draw(st.integers(0, 3))
        for k in range(1, n_more + 1):
            start, before = start + span + draw(times), span
            span = before + draw(times)
            state = SUCCESS if k == n_more else KILLED
            rows.append(
                Outcome(f"dyn!{number}.{k}", state, at, start, span, n, f"parent={name};segment={k};kind=requeue{note}")
            )
    return draw(st.permutations(rows))


@given(runs())
def test_the_tally_and_the_table_agree(rows: list[Outcome]) -> None:
    tally = Tally()
    for row in rows:
        tally.add(row)
    figures, jobs = tally.figures(4), JobResults.of_outcomes(rows)
    assert figures.n_jobs == len(jobs)
    assert figures.n_by_state == Counter(jobs.frame["state"])
    waits, slowdowns = jobs.distribution("wait_s"), jobs.distribution("bounded_slowdown")
    assert (figures.mean_wait_s is None) == (waits is None) == (figures.makespan_s is None)
    if waits is not None and slowdowns is not None:
        assert figures.mean_wait_s == pytest.approx(waits.mean, rel=1e-12)
        assert figures.mean_bounded_slowdown == pytest.approx(slowdowns.mean, rel=1e-12)
        assert (figures.max_wait_s, figures.max_bounded_slowdown) == (waits.maximum, slowdowns.maximum)
        begin, end = jobs.span
        assert figures.makespan_s == end
        if end > begin and figures.utilisation is not None:
            assert figures.utilisation == pytest.approx(jobs.procs_in_use().integral(begin, end) / (4 * (end - begin)))


@given(runs())
def test_every_job_of_a_user_is_one_record(rows: list[Outcome]) -> None:
    records = joined(rows)
    assert sorted(record.id for record in records) == sorted(row.id for row in rows if row.id.startswith("w0!"))
    jobs = JobResults.of(records)
    assert jobs.frame["id"].to_list() == [record.id for record in records]
    names = ("flow_s", "wait_s", "runtime_s", "slowdown", "bounded_slowdown")
    for flow_s, wait_s, runtime_s, slowdown, bounded in zip(*map(jobs.values, names), strict=True):
        assert flow_s == pytest.approx(wait_s + runtime_s)
        assert 1 <= bounded <= slowdown
    assert sum(len(record.segments) for record in records) == sum(row.state != REJECTED for row in rows)


@given(runs())
def test_at_the_end_the_queue_is_empty_and_nothing_is_held(rows: list[Outcome]) -> None:
    jobs = JobResults.of_outcomes(rows)
    for series in (jobs.procs_in_use(), jobs.queue_length()):
        assert list(series.times) == sorted(set(series.times))
        assert series.values[-1:] in {(), (0.0,)}
        assert all(value >= 0 for value in series.values)


@given(st.lists(st.tuples(times, st.integers(-3, 3).map(float))), times, times)
def test_areas_are_those_of_slow_sums(changes: list[tuple[float, float]], one: float, other: float) -> None:
    """The slow way: one value for every quarter of a second."""
    series = steps_of(changes)
    begin, end = min(one, other), max(one, other)
    slow = sum(series.at(begin + k / 4) / 4 for k in range(round((end - begin) * 4)))
    assert series.integral(begin, end) == pytest.approx(slow)
    for time in {time for time, _ in changes}:
        assert series.at(time) == pytest.approx(sum(change for at, change in changes if at <= time))
    edges = sorted({begin, end, *(begin + (end - begin) * k / 7 for k in range(8))})
    if len(edges) > 1:
        wanted = [series.integral(low, high) / (high - low) for low, high in pairwise(edges)]
        assert series.binned(edges) == pytest.approx(wanted)


def test_a_step_function_is_zero_before_its_first_step() -> None:
    series = Steps((5.0,), (2.0,))
    assert (series.at(4.9), series.at(5.0), series.maximum, Steps((), ()).maximum) == (0, 2, 2, 0)
    assert series.mean(5.0, 5.0) == 2


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_distributions(values: list[float]) -> None:
    summary = distribution(values)
    assert summary is not None
    assert summary.n == len(values)
    assert summary.mean == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert summary.std == pytest.approx(statistics.pstdev(values), abs=1e-3)
    assert summary.median == pytest.approx(statistics.median(values), abs=1e-6)
    shares = list(summary.percentiles.values())
    assert summary.minimum <= shares[0]
    assert shares == sorted(shares)
    assert shares[-1] <= summary.maximum


@pytest.mark.parametrize(("p", "value"), [(0, 1.0), (25, 1.75), (50, 2.5), (90, 3.7), (100, 4.0)])
def test_percentiles_lie_between_neighbours(p: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], p) == pytest.approx(value)


def test_without_values_there_is_no_distribution() -> None:
    assert distribution([]) is None
    assert JobResults.of_outcomes([Outcome("w0!a", REJECTED, 0.0, 0.0, 0.0, 0)]).distribution() is None
    with pytest.raises(InputError, match="measure 'beauty': expected one of wait_s"):
        JobResults.of([]).distribution("beauty")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("replaced_by=dyn!x;kind=replace", None),
        ("parent=w0!1;segment=2;kind=requeue", Lineage("w0!1", 2, False, 0.0)),
        ("parent=w0!1;segment=1;kind=requeue;work=rest", Lineage("w0!1", 1, True, 0.0)),
        ("parent=w0!1;segment=1;kind=requeue;work=rest;by=w0!7;held_s=1", Lineage("w0!1", 1, True, 0.0, "w0!7")),
        ("parent=w0!1;segment=x;extra_s=y", Lineage("w0!1", 1, False, 0.0)),
        ("mood=good;parent=w0!1", Lineage("w0!1", 1, False, 0.0)),
    ],
)
def test_lineage(text: str, found: Lineage | None) -> None:
    assert lineage_of(text) == found


@pytest.mark.parametrize(
    ("text", "held_s"),
    [
        ("", 0.0),
        ("held_s=1", 1.0),
        ("parent=w0!1;segment=1;held_s=0.25;mood=good", 0.25),
        ("upheld_s=1", 0.0),
        *((f"held_s={wrong}", 0.0) for wrong in ("", "long", "nan", "inf", "-1")),
    ],
)
def test_how_long_processors_were_held(text: str, held_s: float) -> None:
    assert Outcome("w0!a", SUCCESS, 0.0, 5.0, 5.0, 1, text).held_s == held_s


def test_classes_by_kind_size_and_fields() -> None:
    sizes = {"a": 1, "b": 2, "c": 3, "d": 64}
    fields: dict[str, dict[str, Any]] = {
        "a": {"user": 10},
        "b": {"urgent": True, "user": 9},
        "c": {"deadline": 9.0},
        "d": {"max_stay": 3},
    }
    jobs = JobResults.of_outcomes([Outcome(name, SUCCESS, 0.0, 0.0, 5.0, n) for name, n in sizes.items()], fields)
    assert {k: v.frame["id"].to_list() for k, v in jobs.by_class("kind").items()} == {
        "deadline": ["c", "d"],
        "regular": ["a"],
        "urgent": ["b"],
    }
    assert list(jobs.by_class("size")) == ["1", "2-3", "64-127"]
    assert list(jobs.by_class("user")) == ["9", "10", "unknown"]


def test_pairs_of_runs_without_common_jobs() -> None:
    one = JobResults.of_outcomes([Outcome("w0!a", SUCCESS, 0.0, 0.0, 5.0, 1)])
    other = JobResults.of_outcomes([Outcome("w0!b", SUCCESS, 0.0, 0.0, 5.0, 1)])
    both = paired(one, other)
    assert (both.n_pairs, both.n_only_first, both.n_only_second) == (0, 1, 1)
    assert both.impacted is both.early is both.mean_ratio is both.ratio_of_means is both.response_ratio is None


@given(runs())
def test_a_run_compared_with_itself_is_unchanged(rows: list[Outcome]) -> None:
    jobs = JobResults.of_outcomes(rows)
    both = paired(jobs, jobs)
    assert both.impacted in {0.0, None}
    assert both.mean_ratio in {1.0, None}
    assert both.response_ratio is None


@given(st.lists(st.tuples(times, times, times, st.booleans()), max_size=8))
def test_the_impact_of_one_run_on_another_by_its_definition(jobs: list[tuple[float, float, float, bool]]) -> None:
    """Each job is submitted, has a response in either run, and may be missing in the second."""
    first = {str(k): JobStay(at, at + before) for k, (at, before, _, _) in enumerate(jobs)}
    second = {str(k): JobStay(at, at + after) for k, (at, _, after, is_there) in enumerate(jobs) if is_there}
    found = impact(first, second)
    pairs = [(before, after) for _, before, after, is_there in jobs if is_there]
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    assert found.n_pairs == len(pairs)
    assert found.impacted == (len(changed) / len(pairs) if pairs else None)
    assert found.early == (sum(after < before for before, after in changed) / len(changed) if changed else None)
    assert found.late == (sum(after > before for before, after in changed) / len(changed) if changed else None)
    total = sum(before for before, _ in changed)
    expected = sum(after for _, after in changed) / total if total else None
    assert found.response_ratio == (None if expected is None else pytest.approx(expected))


def test_a_ratio_of_means_is_not_a_mean_of_ratios() -> None:
    """A short job that waits a little changes one of them much, and the other little."""
    first = JobResults.of_outcomes([Outcome("w0!a", SUCCESS, 0, 0, 1, 1), Outcome("w0!b", SUCCESS, 0, 900, 100, 1)])
    second = JobResults.of_outcomes([Outcome("w0!a", SUCCESS, 0, 19, 1, 1), Outcome("w0!b", SUCCESS, 0, 700, 100, 1)])
    for measure in ("flow_s", "wait_s"):
        assert paired(first, second, measure).response_ratio == (20 + 800) / (1 + 1000)
    assert paired(first, second).impacted_ratio == (20 / 1 + 800 / 1000) / 2


def test_jobs_are_chosen_by_their_fields() -> None:
    fields: dict[str, dict[str, Any]] = {
        "w0!a": {"external": True, "user": "ann"},
        "w0!b": {"external": False, "user": "bob"},
        "w0!c": {"user": 3},
    }
    jobs = JobResults.of_outcomes([Outcome(name, SUCCESS, 0, 0, 1, 1) for name in fields], fields)
    for where, expected in (
        ({}, "abc"),
        ({"external": False}, "bc"),
        ({"external": True}, "a"),
        ({"external": [True, False]}, "abc"),
        ({"user": ["a*", 3], "external": False}, "c"),
        ({"user": "3"}, ""),
    ):
        assert "".join(job_id[-1] for job_id in jobs.chosen(where).frame["id"]) == expected


# --- files ---

DELAY = {"type": "delay", "delay": 60}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("run")
    args = ("-p", "platforms/cluster32.xml", "-w", "examples/workload.json", "--policy", f"{PUSHY}:Ruthless")
    assert run_cli("simulate", *args, "-e", str(place / "run"), cwd=ROOT).returncode == 0
    return str(place / "run")


def test_a_run_is_read_back_with_its_lineage(prefix: str) -> None:
    found = read_run(prefix)
    summary = json.loads(Path(f"{prefix}_summary.json").read_text())
    assert len(found.records) == summary["figures"]["n_jobs"] == 30
    assert any(len(record.segments) > 1 for record in found.records)
    assert found.utilisation() == pytest.approx(summary["figures"]["utilisation"])
    waits = found.jobs.distribution("wait_s")
    assert waits is not None
    assert waits.mean == pytest.approx(summary["figures"]["mean_wait_s"])


def test_semicolons_in_ids_do_not_break_a_lineage(tmp_path: Path) -> None:
    job = {"subtime": 0, "res": 2, "profile": "p", "walltime": 90, "moldable": {"fraction": 1, "limit": 8}}
    ids = ["a;b=7", "50%3B", "c;parent=d", "d"]
    content = {"nb_res": 8, "jobs": [{"id": each, **job} for each in ids], "profiles": {"p": DELAY}}
    (tmp_path / "w.json").write_text(json.dumps(content))
    args = ("--procs", "8", "-w", "w.json", "--policy", "reallocation", "-e", "run", "--journal", "run.pbj")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    records = read_run(str(tmp_path / "run")).records
    assert {record.id: (record.state, record.runtime_s) for record in records} == {
        f"w0!{each}": ("COMPLETED_SUCCESSFULLY", 15.0) for each in ids
    }
    assert {tuple(record.facts) for record in records} == {("moves", "resubmitted")}
    done = run_cli("explain", "run.pbj", "w0!a;b=7", cwd=tmp_path)
    assert "ended: COMPLETED_SUCCESSFULLY" in done.stdout


def test_fields_come_from_the_workload(prefix: str, tmp_path: Path) -> None:
    content = json.loads((ROOT / "examples" / "workload.json").read_text())
    for number, job in enumerate(content["jobs"]):
        job["user"] = f"u{number % 3}"
    (tmp_path / "w.json").write_text(json.dumps(content))
    found = read_run(prefix, [str(tmp_path / "w.json")])
    assert {name: len(jobs) for name, jobs in found.jobs.by_class("user").items()} == {"u0": 10, "u1": 10, "u2": 10}
    assert list(read_run(prefix).jobs.by_class("user")) == ["unknown"]


def test_an_invalid_unit_of_memory_is_rejected(prefix: str, tmp_path: Path) -> None:
    (tmp_path / "b_jobs.csv").write_text(Path(f"{prefix}_jobs.csv").read_text())
    summary = json.loads(Path(f"{prefix}_summary.json").read_text()) | {"memory_unit": ["KB"]}
    (tmp_path / "b_summary.json").write_text(json.dumps(summary))
    with pytest.raises(InputError, match=r"b_summary\.json: memory_unit is \['KB'\]; expected one of KB, MB, GB"):
        read_run(str(tmp_path / "b"))


def test_plain_files_of_batsim_are_enough(prefix: str, tmp_path: Path) -> None:
    for suffix in ("_jobs.csv", "_schedule.csv"):
        (tmp_path / f"b{suffix}").write_text(Path(f"{prefix}{suffix}").read_text())
    found = read_run(str(tmp_path / "b"))
    assert (found.n_procs, found.summary, len(found.records)) == (32, {}, 30)
    (tmp_path / "b_schedule.csv").unlink()
    assert read_run(str(tmp_path / "b")).utilisation() is None
    assert read_run(str(tmp_path / "b"), n_procs=32).utilisation() == pytest.approx(read_run(prefix).utilisation())


def test_the_size_of_a_machine_may_be_given(prefix: str, tmp_path: Path) -> None:
    plain = tmp_path / "b"
    Path(f"{plain}_jobs.csv").write_text(Path(f"{prefix}_jobs.csv").read_text())

    def utilisation(*args: str) -> object:
        done = run_cli("metrics", *args, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)[args[0]]["utilisation"]["mean"]

    assert utilisation(str(plain)) is None
    assert utilisation(str(plain), "--procs", "32") == pytest.approx(utilisation(prefix))
    for args, text in (
        ((prefix, "--procs", "64"), "--procs 64: expected 32, as in the files of the run"),
        ((str(plain), "--procs", "2"), "--procs 2: expected at least "),
        ((str(plain), "--procs", "0"), "expected a whole number, 1 or more, found '0'"),
    ):
        done = run_cli("metrics", *args)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr
    page = str(tmp_path / "page.html")
    assert run_cli("report", str(plain), "--procs", "32", "--output", page).returncode == 0
    assert run_cli("report", str(plain), "--procs", "2", "--output", page).returncode == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("final_state", "state", 1), "line 1: no column 'final_state'"),
        (lambda text: text.replace("COMPLETED_SUCCESSFULLY", "DONE", 1), "final_state 'DONE'; expected one of"),
        (lambda text: text[:-30], "truncated"),
        (lambda text: text.replace(",0-", ",x-", 1), "line"),
    ],
)
def test_broken_tables_name_the_line(change: object, message: str, prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "x_jobs.csv"
    path.write_text(change(Path(f"{prefix}_jobs.csv").read_text()))  # type: ignore[operator]
    with pytest.raises(InputError, match="x_jobs.csv: line") as error:
        list(jobs_csv.read(path))
    assert message in str(error.value)


FIELDS = ("submission_time", "starting_time", "execution_time")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "1e31", "1_0", "soon", ""])
@pytest.mark.parametrize("field", FIELDS)
def test_invalid_times_are_rejected(field: str, text: str, prefix: str, tmp_path: Path) -> None:
    head, first, *rest = Path(f"{prefix}_jobs.csv").read_text().splitlines()
    values = first.split(",")
    values[head.split(",").index(field)] = text
    changed = ",".join(values)
    (tmp_path / "x_jobs.csv").write_text("\n".join([head, *rest, changed, ""]))
    with pytest.raises(InputError) as error:
        list(jobs_csv.read(tmp_path / "x_jobs.csv"))
    place = f"{tmp_path / 'x_jobs.csv'}: line {len(rest) + 2}: job w0!{values[0]}, field {field}"
    assert str(error.value) == f"{place}: expected seconds, found {text!r}"


@pytest.mark.parametrize("text", ["nan", "inf"])
def test_commands_reject_invalid_times(text: str, prefix: str, tmp_path: Path) -> None:
    head, first, *rest = Path(f"{prefix}_jobs.csv").read_text().splitlines()
    values = first.split(",")
    values[head.split(",").index("execution_time")] = text
    changed = ",".join(values)
    (tmp_path / "x_jobs.csv").write_text("\n".join([head, changed, *rest, ""]))
    message = (
        f"pybatsched: x_jobs.csv: line 2: job w0!{values[0]}, field execution_time: expected seconds, found '{text}'\n"
    )
    for command in (["metrics"], ["report", "--output", "x.html"], ["plot", "cdf", "--output", "x.svg"]):
        done = run_cli(*command, "x", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", message), command


def test_the_command(prefix: str) -> None:
    done = run_cli("metrics", prefix)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split()[:3] == ["n", "mean", "std"]
    assert "utilisation" in done.stdout
    by_size = run_cli("metrics", prefix, "--by", "size", "--measure", "wait_s").stdout
    assert "16-31" in by_size
    against = json.loads(run_cli("metrics", prefix, "--against", prefix, "--json").stdout)
    assert against[prefix]["flow_s"]["n_pairs"] == 30
    assert math.isclose(against[prefix]["flow_s"]["mean_ratio"], 1)
    missing = run_cli("metrics", "nowhere/run")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
