"""Jobs read by columns: what the records say, and nothing where there is more to say."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.places import ROOT
from support.process import run_cli

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.metrics import jobs_csv
from pybatsched.metrics.fields import tells_nothing
from pybatsched.metrics.outcomes import Outcome
from pybatsched.metrics.plain import Awaited, PlainJobs, read, sets_of
from pybatsched.metrics.runs import read_run, read_what_is_there

HEAD = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,final_state,"
    "starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,allocated_resources,"
    "consumed_energy,metadata"
)
FINE = '7,w0,p,1.5,2,9,1,COMPLETED_SUCCESSFULLY,2.25,3,5,1,4,1,0-3 5,-1,""'


def written(path: Path, *rows: str, head: str = HEAD) -> Path:
    file = path / "x_jobs.csv"
    file.write_text("\n".join((head, *rows, "")), encoding="utf-8")
    return file


def outcomes(jobs: PlainJobs) -> list[Outcome]:
    """Give the rows that columns were read from."""
    sets = jobs.sets
    procs, at = [], 0
    for length in sets.lengths:
        parts = zip(sets.lows[at : at + length], sets.highs[at : at + length], strict=True)
        procs.append(IntervalSet(k for low, high in parts for k in range(low, high)))
        at += length
    assert at == len(sets.lows) == len(sets.highs)
    columns = (jobs.ids, jobs.states, jobs.submitted_at, jobs.started_at, jobs.runtime_s, jobs.where)
    return [
        Outcome(name, state, submitted_at, started_at, runtime_s, sets.sizes[where], "", procs[where])
        for name, state, submitted_at, started_at, runtime_s, where in zip(*columns, strict=True)
    ]


_TIMES = st.one_of(st.integers(0, 10**9).map(str), st.floats(0, 1e9).map(lambda value: f"{value:.6f}"))
_SETS = st.sets(st.integers(0, 40), min_size=1).map(lambda members: str(IntervalSet(members)))
_STATES = st.sampled_from(["COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED", "COMPLETED_WALLTIME_REACHED"])


@given(st.lists(st.tuples(_TIMES, _STATES, _TIMES, _TIMES, _SETS), max_size=200))
@examples(60)
def test_columns_are_those_of_the_rows(rows: list[tuple[str, ...]]) -> None:
    lines = [
        f'{number},w{number % 2},p,{submitted},2,9,1,{state},{start},{runtime},5,1,4,1,{procs},-1,""'
        for number, (submitted, state, start, runtime, procs) in enumerate(rows)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), *lines)
        found = read(path)
        assert found is not None
        assert outcomes(found) == list(jobs_csv.read(path))


@pytest.mark.parametrize(
    "row",
    [
        FINE.replace('""', "parent=w0!3;segment=1;kind=requeue"),
        FINE.replace('""', "load_s=3"),
        FINE.replace("COMPLETED_SUCCESSFULLY", "REJECTED"),
        FINE.replace("COMPLETED_SUCCESSFULLY", "WELL"),
        FINE.replace("7,w0", "6,w0"),  # twice
        FINE.replace("1.5", "soon"),
        FINE.replace("2.25", ""),
        FINE.replace("2.25", "2_2"),
        FINE.replace("1.5", "nan"),
        FINE.replace("1.5", "-inf"),
        FINE.replace(",3,5", ",1e999,5"),
        FINE.replace(",3,5", ",1e31,5"),
        FINE.replace("0-3 5", "5 0-3"),
        FINE.replace("0-3 5", "0-3 4"),  # one interval, not two
        FINE.replace("0-3 5", "0-3 2"),
        FINE.replace("0-3 5", "3-0"),
        FINE.replace("0-3 5", ""),
        FINE.replace("0-3 5", "0-3-5 7-8-9"),
        FINE.replace("0-3 5", "0-"),
        FINE.replace("0-3 5", "0  5"),
        FINE.replace("0-3 5", "٣"),
        FINE.replace("0-3 5", "0-9999999999"),
        FINE.removesuffix(',""'),
        f"{FINE},more",
        f'{FINE}"',
        "",
    ],
)
def test_where_more_is_to_be_said_the_careful_way_says_it(row: str, tmp_path: Path) -> None:
    before = FINE.replace("7,w0", "6,w0")
    assert read(written(tmp_path, before, FINE)) is not None
    assert read(written(tmp_path, before, row, FINE.replace("7,w0", "8,w0"))) is None


def test_files_that_cannot_be_read_by_columns(tmp_path: Path) -> None:
    assert read(tmp_path / "nothing_jobs.csv") is None
    (tmp_path / "x_jobs.csv").write_bytes(b"")
    assert read(tmp_path / "x_jobs.csv") is None
    (tmp_path / "x_jobs.csv").write_bytes(f"{HEAD}\n{FINE}\n".encode().replace(b"w0", b"\xff"))
    assert read(tmp_path / "x_jobs.csv") is None
    assert read(written(tmp_path, FINE, head=HEAD.replace("job_id", "id"))) is None
    empty = read(written(tmp_path))
    assert empty is not None
    assert outcomes(empty) == []


@given(st.lists(st.text("0123456789- ", max_size=9)))
@examples(300)
def test_sets_are_read_as_one_by_one_or_not_at_all(texts: list[str]) -> None:
    found = sets_of(texts)
    if found is None:
        return
    parsed = [IntervalSet.parse(text) for text in texts]
    assert found.sizes == [len(procs) for procs in parsed]
    assert found.lengths == [len(list(procs.intervals())) for procs in parsed]
    bounds = [interval for procs in parsed for interval in procs.intervals()]
    assert list(zip(found.lows, found.highs, strict=True)) == bounds


@given(st.lists(_SETS))
@examples(60)
def test_sets_as_they_are_written_are_read(texts: list[str]) -> None:
    assert sets_of(texts) is not None


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
def test_which_workloads_tell_nothing(content: bytes, nothing: bool) -> None:
    assert tells_nothing(content) is nothing


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    text = (ROOT / "examples" / "workload.json").read_text()
    (folder / "plain.json").write_text(text)
    (folder / "urgent.json").write_text(text.replace('"res": ', '"urgent": true, "res": ', 1))
    for name in ("plain", "urgent"):
        args = ("--procs", "32", "-w", f"{name}.json", "--policy", "easy", "-e", name)
        assert run_cli("simulate", *args, cwd=folder).returncode == 0
    return folder


def test_a_run_by_columns_has_the_same_records_when_somebody_asks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    slow, fast = read_run("plain"), read_what_is_there("plain", by_columns=True)
    assert slow.plain is None
    assert fast.plain is not None
    assert isinstance(fast.records, Awaited)
    assert (fast.n_procs, fast.summary, fast.standing) == (slow.n_procs, slow.summary, slow.standing)
    assert fast.evaluated is fast.records
    assert outcomes(fast.plain) == [part for record in slow.records for part in record.segments]
    assert (len(fast.records), fast.n_left_out, fast.left_out_told) == (30, 0, "")
    assert tuple(fast.records) == slow.records
    assert (fast.records[3], fast.records[2:5]) == (slow.records[3], slow.records[2:5])


def test_a_run_is_read_by_records_where_more_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert read_what_is_there("urgent", by_columns=True).plain is None
    assert read_what_is_there("plain", ["plain.json"], by_columns=True).plain is None
    assert read_what_is_there("plain", (), 32, by_columns=True).plain is None
    with pytest.raises(InputError, match="nothing_jobs.csv: cannot read the jobs"):
        read_what_is_there("nothing", by_columns=True)
