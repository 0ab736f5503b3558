"""The table of jobs: each measure by its definition."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.patience import PATIENCE_S
from support.places import ROOT
from support.process import run_cli
from support.twins import steps_of

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.metrics import JobRecord, Outcome, joined
from pybatsched.metrics.distributions import distribution, mean_and_maximum
from pybatsched.metrics.job_results import COLUMNS, SEGMENT_COLUMNS, JobResults
from pybatsched.metrics.saved_runs import SavedRun, read_latest, read_run
from pybatsched.metrics.slowdown import bounded_slowdown
from pybatsched.metrics.workload_fields import has_no_metric_fields, kind_of
from pybatsched.report.gantt.bars import bars_of
from pybatsched.report.gantt.chart import rectangles_of
from pybatsched.report.gantt.cluster_rows import Rows

_TIMES = st.one_of(st.integers(0, 20).map(float), st.floats(0, 1e9).map(lambda value: round(value, 6)))
_SETS = st.sets(st.integers(0, 12)).map(IntervalSet)
_NOTES = st.sampled_from(["", "", "", "held_s=1.5", "load_s=64", "moves=2;cluster=a", "input=f on node 1;load_s=2"])
_FIELDS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {},
        {"urgent": True},
        {"deadline": 9},
        {"max_stay": 3},
        {"alone_s": 4.5},
        {"res": 5},
        {"evaluated": True},
        {"user": 3},
    ]
)


@st.composite
def _rows_of_job(draw: st.DrawFn, name: str) -> list[Outcome]:
    """The rows of a job that was rejected, or ran in some segments; its times need not make sense."""
    submitted_at = draw(_TIMES)
    if draw(st.integers(0, 5)) == 0:
        return [Outcome(f"w0!{name}", "REJECTED", submitted_at, 0.0, 0.0, 0)]
    rows = []
    for k in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        procs, note = draw(_SETS), draw(_NOTES)
        if k:
            rest = draw(st.sampled_from(["", ";work=rest", ";by=w0!9;extra_s=2.5"]))
            note = f"parent=w0!{name};segment={k};kind=requeue{rest}{';' if note else ''}{note}"
        state = draw(st.sampled_from(["COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED"]))
        row_id = f"dyn!w0.{name}.{k}" if k else f"w0!{name}"
        rows.append(Outcome(row_id, state, submitted_at, draw(_TIMES), draw(_TIMES), len(procs), note, procs))
    return rows


@st.composite
def _records(draw: st.DrawFn) -> list[JobRecord]:
    names = [str(number) for number in range(draw(st.integers(0, 8)))]
    rows = [row for name in names for row in draw(_rows_of_job(name))]
    return joined(rows, {f"w0!{name}": draw(_FIELDS) for name in names})


def by_definition(record: JobRecord, tau_s: float) -> dict[str, float | None]:
    """The measures of a job that ran, in plain Python."""
    flow_s = record.ended_at - record.submitted_at
    wait_s = max(round(flow_s - record.runtime_s, 6), 0.0)
    alone_s = record.fields.get("alone_s")
    return {
        "wait_s": wait_s,
        "flow_s": flow_s,
        "slowdown": bounded_slowdown(wait_s, record.runtime_s, 0.0),
        "bounded_slowdown": bounded_slowdown(wait_s, record.runtime_s, tau_s),
        "runtime_s": record.runtime_s,
        "queue_time_s": max(record.started_at - record.submitted_at, 0.0),
        "stretch": flow_s / alone_s if alone_s else None,
        "bounded_stretch": flow_s / max(alone_s, 300.0) if alone_s else None,
        "load_s": record.facts.get("load_s"),
    }


@given(_records(), st.sampled_from([0.0, 1e-9, 10.0, 60.0]))
@examples(200)
def test_measures_are_as_defined_to_the_last_bit(records: list[JobRecord], tau_s: float) -> None:
    jobs = JobResults.of(records)
    assert {name: kind for name, kind in jobs.frame.schema.items() if not name.startswith("fact.")} == {
        name: kind for name, (kind, _) in COLUMNS.items()
    }
    assert jobs.segments.schema == SEGMENT_COLUMNS
    ran = [record for record in records if record.ran]
    for name in by_definition(JobRecord("", "", 0, 0, (Outcome("", "", 0, 0, 0, 0),)), 0.0):
        expected = [by_definition(record, tau_s)[name] for record in ran]
        assert jobs.values(name, tau_s) == [value for value in expected if value is not None], name
        column = [None if not record.ran else by_definition(record, tau_s)[name] for record in records]
        assert jobs.column(name, tau_s).to_list() == column
    late = ["max_stay" in record.fields or "deadline" in record.fields for record in records]
    for record, has_deadline, is_late in zip(records, late, jobs.frame["is_late"], strict=True):
        deadline_at = record.fields.get("deadline", record.submitted_at + record.fields.get("max_stay", 0))
        assert is_late == (has_deadline and (not record.ran or record.ended_at > deadline_at + 1e-3))


@given(_records())
@examples(200)
def test_use_and_queue_change_with_every_segment(records: list[JobRecord]) -> None:
    use, queue = [], []
    for record in records:
        since = record.submitted_at
        for part in record.segments:
            use += [(part.started_at, float(part.n_procs)), (part.ended_at, -float(part.n_procs))]
            queue += [(since, 1.0), (part.started_at, -1.0)]
            since = part.ended_at
    jobs = JobResults.of(records)
    assert jobs.procs_in_use() == steps_of(use)
    assert jobs.queue_length() == steps_of(queue)
    ends = [record.ended_at for record in records if record.ran]
    assert jobs.span == ((min(record.submitted_at for record in records), max(ends)) if ends else (0, 0))
    begin, end = jobs.span
    held_s = math.fsum(part.n_procs * part.runtime_s for record in records for part in record.segments)
    assert SavedRun("x", tuple(records), 16, {}).utilisation() == (
        held_s / (16 * (end - begin)) if end > begin else None
    )


@given(_records(), st.booleans())
@examples(100)
def test_rectangles_are_those_of_the_bars(records: list[JobRecord], has_clusters: bool) -> None:
    rows = Rows({"a": [(0, 2), (6, 9)], "b": [(2, 6)]}, 13) if has_clusters else None
    bars = bars_of([record for record in records if record.ran], rows)
    notes = list(dict.fromkeys(["", *(bar.note for bar in bars)]))
    expected: list[tuple[Any, ...]] = [
        (bar.begin, bar.end, low, high, bar.job, bar.look, notes.index(bar.note))
        for bar in bars
        for low, high in (bar.procs if rows is None else rows.placed(bar.procs))
    ]
    found = rectangles_of(records, rows)
    assert list(zip(*(column.tolist() for column in found[:-1]), strict=True)) == expected
    assert found.notes == notes
    assert all(one[:2] <= other[:2] for one, other in pairwise(expected))


@given(st.lists(st.floats(-1e9, 1e9)))
@examples(100)
def test_mean_and_maximum_are_those_of_the_distribution(values: list[float]) -> None:
    expected = distribution(values)
    assert mean_and_maximum(values) == ((None, None) if expected is None else (expected.mean, expected.maximum))


@given(_TIMES, _TIMES, st.sampled_from([0.0, 1e-9, 10.0, 60.0]))
@examples(100)
def test_bounded_slowdowns_of_the_tally_by_their_definition(wait_s: float, runtime_s: float, tau_s: float) -> None:
    assert bounded_slowdown(wait_s, runtime_s, tau_s) == max((wait_s + runtime_s) / max(runtime_s, tau_s, 1e-6), 1.0)


@pytest.mark.parametrize(
    ("content", "nothing"),
    [
        (b'{"jobs": [{"id": 1, "user": "urgent"}]}', False),  # it may be a name: better not
        (b'{"jobs": [{"id": 1, "user": "u"}]}', True),
        (b'{"jobs": [{"id": 1, "urgent": false}]}', False),
        (b'{"jobs": [{"id": 1, "\\u0075rgent": true}]}', False),
        (b'{"jobs": [{"id": 1, "deadline": 3}]}', False),
        (b'{"jobs": [{"id": 1, "max_stay": 3}]}', False),
        (b'{"jobs": [{"id": 1, "alone_s": 3}]}', False),
        (b'{"jobs": [{"id": 1, "evaluated": true}]}', False),
        (b"\x1f\x8b", False),
        (b"; UnixStartTime: 0\n", False),
        (b"", False),
    ],
)
def test_which_workloads_have_no_metric_fields(content: bytes, nothing: bool) -> None:
    assert has_no_metric_fields(content) is nothing


@pytest.mark.parametrize(("name", "n_procs", "loads"), [("plain", 32, False), ("urgent", 32, True), ("plain", 8, True)])
def test_workloads_are_loaded_only_where_figures_need_their_fields(
    name: str, n_procs: int, loads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On eight processors some jobs are rejected: their sizes are in the workload."""
    text = (ROOT / "examples" / "workload.json").read_text()
    (tmp_path / "plain.json").write_text(text)
    (tmp_path / "urgent.json").write_text(text.replace('"res": ', '"urgent": true, "res": ', 1))
    args = ("--procs", str(n_procs), "-w", f"{name}.json", "--policy", "easy", "-e", "x")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    monkeypatch.chdir(tmp_path)
    few, every = read_latest("x", all_fields=False), read_run("x")
    assert any(record.fields for record in few.records) == loads
    assert few.jobs.frame.equals(every.jobs.frame)
    with pytest.raises(InputError, match="no run 'nothing': nothing_jobs.csv does not exist"):
        read_latest("nothing", all_fields=False)


@given(_records())
@examples(100)
def test_a_class_has_its_own_segments(records: list[JobRecord]) -> None:
    jobs = JobResults.of(records)
    for kind, own in jobs.by_class("kind").items():
        again = JobResults.of([record for record in records if kind_of(record.fields) == kind])
        assert own.segments.drop("row").equals(again.segments.drop("row"))
        assert (own.procs_in_use(), own.queue_length()) == (again.procs_in_use(), again.queue_length())


def test_a_column_that_no_job_has_is_null() -> None:
    jobs = JobResults.of_outcomes([Outcome("w0!a", "COMPLETED_SUCCESSFULLY", 0, 0, 5, 1)])
    assert jobs.column("load_s").to_list() == [None]
    assert jobs.column("load_s").dtype == pl.Float64
    assert jobs.values("load_s") == []


_WITHOUT_POLARS = """
import sys
sys.modules["polars"] = None
from pybatsched.__main__ import main
sys.exit(main())
"""


def test_without_polars(tmp_path: Path) -> None:
    """The closing table and `compare` do not import polars, which is slow to import."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", _WITHOUT_POLARS, *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    workload = str(ROOT / "examples" / "workload.json")
    done = run("simulate", "--procs", "32", "-w", workload, "--policy", "easy", "-e", "x")
    assert (done.returncode, "mean bounded slowdown (tau 10 s)" in done.stdout) == (0, True), done.stderr
    assert run("compare", "x", "x").returncode == 0
