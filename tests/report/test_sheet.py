"""The page by columns: to the last bit what comes of the records, one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support import moved
from support.examples import examples
from support.places import ROOT
from support.process import run_cli

from pybatsched.core.intervals import IntervalSet
from pybatsched.metrics import Outcome, joined
from pybatsched.metrics.classes import MEASURES, STRETCHES, by_class, plain_measures_of, values_of
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.metrics.runs import Run, read_run, read_what_is_there
from pybatsched.metrics.series import Steps, procs_in_use, queue_length, span_of, steps_of
from pybatsched.report import page
from pybatsched.report.gantt.bars import bars_of
from pybatsched.report.gantt.chart import rectangles_of
from pybatsched.report.gantt.cluster_rows import Rows, rows_of
from pybatsched.report.gantt.columns import Sheet, Stairs, jobs_of, on_tick, stairs_of
from pybatsched.report.run.page import Told

_TIMES = st.one_of(st.integers(0, 20).map(float), st.floats(0, 1e9).map(lambda value: round(value, 6)))
_SETS = st.sets(st.integers(0, 12)).map(IntervalSet)
_SAME = tuple(IntervalSet.parse(text) for text in ("0", "0-3", "1 5-6"))  # which many have
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
        procs = draw(st.one_of(_SETS, st.sampled_from(_SAME)))
        note = draw(_NOTES)
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


@given(_records(), st.sampled_from([0.0, 10.0, 60.0]))
@examples(200)
def test_columns_are_what_the_records_say(records: list[JobRecord], tau_s: float) -> None:
    jobs = jobs_of(records)
    ran = [record for record in records if record.ran]
    for name in ("submitted_at", "started_at", "ended_at", "runtime_s", "wait_s", "flow_s", "n_procs"):
        assert getattr(jobs, name).tolist() == [getattr(record, name) for record in ran], name
    assert (jobs.ids, jobs.states) == ([record.id for record in ran], [record.state for record in ran])
    for measure in (*MEASURES, *STRETCHES, "load_s"):
        assert jobs.values(measure, tau_s).tolist() == values_of(records, measure, tau_s), measure
    assert jobs.measures == plain_measures_of(records)
    assert jobs.span == span_of(records)
    assert {state: len(members) for state, members in by_class(records, "state").items()} == jobs.n_by_state
    assert [record for record in records if record.facts] == [record for record in jobs.noted if record.facts]


@given(_records())
@examples(200)
def test_classes_are_those_of_the_records(records: list[JobRecord]) -> None:
    jobs = jobs_of(records)
    ids = np.array(jobs.ids, np.str_)
    for found, wanted in (
        (jobs.by_class("kind"), by_class(records, "kind")),
        (jobs.by_class("size"), by_class(records, "size")),
    ):
        assert list(found) == list(wanted)
        assert [n for n, _ in found.values()] == [len(members) for members in wanted.values()]
        members = [[record.id for record in jobs if record.ran] for jobs in wanted.values()]
        assert [ids[which].tolist() for _, which in found.values()] == members


def as_steps(stairs: Stairs) -> Steps:
    return Steps(tuple(stairs.times.tolist()), tuple(stairs.values.tolist()))


@given(_records())
@examples(200)
def test_use_and_queue_are_those_of_the_records(records: list[JobRecord]) -> None:
    jobs = jobs_of(records)
    assert as_steps(jobs.usage) == procs_in_use(records)
    assert as_steps(jobs.queue_length) == queue_length(records)
    run = Run("x", tuple(records), 16, {})
    assert Sheet(run).utilisation() == run.utilisation()


@given(
    st.lists(st.tuples(_TIMES, st.integers(-9, 9).map(float)), max_size=40),
    st.lists(_TIMES, min_size=2, max_size=30, unique=True).map(sorted),
)
@examples(300)
def test_means_over_spans_are_those_of_steps(changes: list[tuple[float, float]], edges: list[float]) -> None:
    steps = steps_of(changes)
    stairs = stairs_of(np.array([at for at, _ in changes]), np.array([by for _, by in changes]))
    assert as_steps(stairs) == steps
    assert stairs.binned(np.array(edges)).tolist() == steps.binned(edges)
    for begin, end in pairwise(edges):
        assert stairs.integral(begin, end) == steps.integral(begin, end)


_HALVES = st.integers(-(10**14), 10**14).map(lambda ticks: (ticks + 0.5) * 1e-6)
_NEAR_HALVES = st.builds(lambda at, up: math.nextafter(at, math.inf if up else -math.inf), _HALVES, st.booleans())


@given(st.lists(st.one_of(st.floats(), st.floats(-1e9, 1e9), _HALVES, _NEAR_HALVES, _TIMES)))
@examples(500)
def test_rounding_is_that_of_python(values: list[float]) -> None:
    found = on_tick(np.array(values, np.float64)).tolist()
    assert list(map(repr, found)) == [repr(round(value, 6)) for value in values]  # signs of 0 as well, and nan


def rectangles_by_bars(records: Sequence[JobRecord], rows: Rows | None) -> list[list[Any]]:
    """Give the columns of `Rectangles` bar by bar, interval by interval."""
    bars = bars_of([record for record in records if record.ran], rows)
    notes = list(dict.fromkeys(["", *(bar.note for bar in bars)]))
    found: list[tuple[Any, ...]] = [
        (bar.begin, bar.end, low, high, bar.job, bar.look, notes.index(bar.note))
        for bar in bars
        for low, high in (bar.procs if rows is None else rows.placed(bar.procs))
    ]
    return [*([row[k] for row in found] for k in range(7)), notes]


@given(_records(), st.booleans())
@examples(300)
def test_rectangles_are_those_of_the_bars(records: list[JobRecord], has_clusters: bool) -> None:
    rows = Rows({"a": [(0, 2), (6, 9)], "b": [(2, 6)]}, 13) if has_clusters else None
    found = rectangles_of(jobs_of(records), rows)
    assert [*(column.tolist() for column in found[:-1]), found.notes] == rectangles_by_bars(records, rows)


def test_rectangles_of_one_span_are_in_the_order_of_their_jobs() -> None:
    notes = ("load_s=1", "", "load_s=1", "")
    rows = [Outcome(f"w0!{k}", "COMPLETED_FAILED", 0.0, 1.0, 2.0, 1, note, _SAME[0]) for k, note in enumerate(notes)]
    assert rectangles_of(jobs_of(joined(rows))).job.tolist() == [0, 1, 2, 3]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    made = ("workload", "generate", "lublin", "--jobs", "6000", "--procs", "64", "--load", "0.8", "--output", "w.json")
    assert run_cli(*made, cwd=folder).returncode == 0
    (folder / "few.json").write_text((ROOT / "examples" / "workload.json").read_text())
    for name, file in (("many", "w.json"), ("few", "few.json")):
        args = ("--procs", "64", "-w", file, "--policy", "easy", "-e", name)
        assert run_cli("simulate", *args, cwd=folder).returncode == 0
    return folder


@pytest.mark.parametrize("name", ["few", "many"])
def test_the_page_of_a_run_by_columns_is_that_by_records(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    fast, slow = read_what_is_there(name, by_columns=True), read_run(name)
    assert (fast.plain is None, slow.plain is None) == (False, True)
    told = [Told({"w0!00": [(3.0, "it began")]})]
    assert page.of_runs([fast], told) == page.of_runs([slow], told)
    assert page.of_runs([fast, fast]) == page.of_runs([slow, slow])
    done = run_cli("report", name, "--output", "page.html", cwd=place)
    assert done.returncode == 0, done.stderr
    assert (place / "page.html").read_text(encoding="utf-8") == page.of_runs([slow])


def test_clusters_are_told_of_a_run_by_columns_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [{"id": k, "subtime": k, "res": 2, "profile": "9", "walltime": 10, "cluster": "ctc"} for k in range(3)]
    moved.run(tmp_path, "grid-pwa@0.05", jobs)
    monkeypatch.chdir(tmp_path)
    fast, slow = read_what_is_there("moved", by_columns=True), read_run("moved")
    assert fast.plain is not None
    assert rows_of(fast) is not None
    assert page.of_runs([fast]) == page.of_runs([slow])
