"""Workloads for experiments: their table of jobs, and the changes that a user makes to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.logs import line, log as swf

import pybatsched as pb
from pybatsched import InputError
from pybatsched.workload import load
from pybatsched.workload.job_columns import JobColumns
from pybatsched.workload.names import name_of_file

DAY = 86_400


def write_workload(path: Path, jobs: list[dict[str, Any]], n_procs: int = 4) -> Path:
    profiles = {"short": {"type": "delay", "delay": 10}, "work": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    given = [{"res": 1, "profile": "short", "walltime": 60, **job} for job in jobs]
    path.write_text(json.dumps({"nb_res": n_procs, "jobs": given, "profiles": profiles}))
    return path


@pytest.fixture
def log(tmp_path: Path) -> pb.Log:
    jobs = [
        {"id": "a", "subtime": 0, "user": "ann", "gpus": 2},
        {"id": "b", "subtime": 1 * DAY, "res": 2, "user": "bob", "deadline": 1 * DAY + 100},
        {"id": "c", "subtime": 2 * DAY, "profile": "work", "walltime": -1},
        {"id": "d", "subtime": 3 * DAY, "user": "ann", "tags": ["x"]},
    ]
    return pb.read_workload(write_workload(tmp_path / "w.json", jobs))


def test_table_of_jobs(log: pb.Log) -> None:
    assert (len(log), log.n_procs, log.name) == (4, 4, "w")
    assert log.jobs["id"].to_list() == ["w0!a", "w0!b", "w0!c", "w0!d"]
    assert log.jobs["submitted_at"].to_list() == [0.0, DAY, 2 * DAY, 3 * DAY]
    assert log.jobs["n_procs"].to_list() == [1, 2, 1, 1]
    assert log.jobs["runtime_s"].to_list() == [10.0, 10.0, None, 10.0]
    assert log.jobs["walltime_s"].to_list() == [60.0, 60.0, None, 60.0]
    assert log.jobs["user"].to_list() == ["ann", "bob", None, "ann"]
    assert log.jobs["gpus"].to_list() == [2, None, None, None]
    assert log.jobs["evaluated"].all()
    assert "tags" not in log.jobs.columns  # a list is no plain value


def test_a_window_from_zero_has_no_warm_up_before_it(log: pb.Log) -> None:
    assert log.window(0, "3d", warm_up="1d").jobs["evaluated"].all()
    assert log.window("0h", "3d", warm_up="1d").jobs["evaluated"].all()
    assert not log.window(end="3d", warm_up="1d").jobs["evaluated"].all()


def test_window_moves_the_first_job_to_zero(log: pb.Log) -> None:
    chosen = log.window("1d", "3d")
    assert chosen.jobs["id"].to_list() == ["w0!b", "w0!c"]
    assert chosen.jobs["submitted_at"].to_list() == [0.0, DAY]
    assert chosen.jobs["deadline"].to_list() == [100, None]
    assert chosen.how_read == {"walltimes": "requested", "selection": {"from": DAY, "to": 3 * DAY, "clock": "first"}}


def test_jobs_of_a_warm_up_do_not_count(log: pb.Log) -> None:
    chosen = log.window("2d", "4d", warm_up="1d")
    assert chosen.jobs.select("id", "submitted_at", "evaluated").rows() == [
        ("w0!b", 0.0, False),
        ("w0!c", DAY, True),
        ("w0!d", 2 * DAY, True),
    ]
    selection = {"from": 2 * DAY, "to": 4 * DAY, "warm_up": DAY, "clock": "first"}
    assert chosen.how_read == {"walltimes": "requested", "selection": selection}
    run = pb.simulate(chosen, "fcfs", progress=False)
    assert (run.figures["n_jobs"], run.figures["n_left_out"]) == (2, 1)


def test_scale_load_divides_submission_times(log: pb.Log) -> None:
    scaled = log.scale_load(2)
    assert scaled.jobs["submitted_at"].to_list() == [0.0, DAY / 2, DAY, 1.5 * DAY]
    assert scaled.jobs["deadline"].to_list() == [None, DAY // 2 + 100, None, None]
    assert log.jobs["submitted_at"].to_list() == [0.0, DAY, 2 * DAY, 3 * DAY]  # the log itself does not change
    ratio = scaled.figures["offered_load"] / log.figures["offered_load"]
    assert ratio == pytest.approx(2)


def test_where_keeps_jobs_by_expression_or_function(log: pb.Log) -> None:
    assert log.where(pl.col("user") == "ann").jobs["id"].to_list() == ["w0!a", "w0!d"]
    assert log.where(lambda job: job["n_procs"] > 1).jobs["id"].to_list() == ["w0!b"]


def test_fields_with_names_of_columns_and_of_odd_types(tmp_path: Path) -> None:
    named = ("n_procs", "submitted_at", "runtime_s", "walltime_s", "estimate_s")
    others = ("workload", "policy", "seed", "wait_s", "n_procs_field")
    given = dict.fromkeys((*named, *others), 7) | {"evaluated": "yes", "big": 1 << 63}
    jobs = [{"id": "a", "subtime": 0, **given}, {"id": "b", "subtime": 0, "big": 1, "evaluated": True}]
    table = pb.read_workload(write_workload(tmp_path / "w.json", jobs)).jobs
    assert [table[f"{name}_field"].to_list() for name in (*named, "n_procs_field")] == [[7, None]] * 6
    assert [table[name].to_list() for name in others[:4]] == [[7, None]] * 4
    assert (table["evaluated"].to_list(), table["big"].to_list()) == ([False, True], [str(1 << 63), "1"])
    del jobs[0]["evaluated"]
    run = pb.simulate(pb.read_workload(write_workload(tmp_path / "w.json", jobs)), "fcfs", progress=False)
    assert run.jobs.columns[:3] == ["workload", "policy", "seed"]
    assert [run.jobs[f"{name}_field"][0] for name in ("n_procs", *others)] == [7] * 6


def test_names_of_files_have_no_endings() -> None:
    assert {name_of_file(f"a/b.v2.{end}") for end in ("parquet", "csv.zst", "swf.gz", "json")} == {"b.v2"}


def test_a_machine_that_is_too_large_names_its_log(tmp_path: Path) -> None:
    log = pb.read_workload(swf(tmp_path, line(), header="; MaxProcs: 99999999999\n"))
    expected = "log.swf: size of the machine: expected at most 10,000,000 processors, found 99,999,999,999; n_procs="
    with pytest.raises(InputError, match=expected):
        pb.simulate(log, "fcfs", progress=False)


def test_an_empty_log_has_the_types_of_others(tmp_path: Path) -> None:
    empty, other = (pb.read_workload(swf(tmp_path, *lines), name="w").jobs for lines in ((), (line(),)))
    assert empty.schema.items() <= other.schema.items()


@pytest.mark.parametrize("rule", ["exact", "round", "factor:2", "none"])
def test_walltimes_after_reading_are_those_of_reading(tmp_path: Path, rule: str) -> None:
    lines = [line(k, 10 * k, requested_s=50 * k) for k in range(1, 4)]
    file = swf(tmp_path, *lines)
    found = pb.read_workload(file, walltimes=rule).jobs
    again = pb.read_workload(file).with_walltimes(rule).jobs
    assert found.equals(again.select(found.columns))


@pytest.mark.parametrize("rule", ["requested", "round", "factor:2"])
def test_a_saved_run_has_the_columns_of_the_run(tmp_path: Path, rule: str) -> None:
    lines = [line(k, 100 * k, wait=1, requested_s=50 * k, user=1) for k in range(1, 4)]
    read, followed = (pb.read_workload(swf(tmp_path, *lines), walltimes=rule, feedback=one) for one in (False, True))
    for log in (read, followed, read.scale_load(2)):
        run = pb.simulate(log, "fcfs", progress=False)
        run.save(tmp_path / "run")
        assert run.jobs.equals(pb.read_run(tmp_path / "run", label=run.policy).jobs)
        assert "walltime" in run.jobs.columns


def test_selections_of_a_log_read_only_the_jobs_that_they_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = pb.read_workload(swf(tmp_path, *(line(k, k, user=k % 3) for k in range(1, 10))))
    made = JobColumns._dictionaries
    read: list[int] = []

    def counted(jobs: JobColumns, part: pl.DataFrame) -> list[dict[str, Any]]:
        read.append(part.height)
        return made(jobs, part)

    monkeypatch.setattr(JobColumns, "_dictionaries", counted)
    assert len(log.digest) == 64
    some = log.where(pl.col("user") == "1")
    assert some.jobs["id"].to_list() == ["w0!1", "w0!4", "w0!7"]
    assert read == []
    assert [job["id"] for job in some.head(2).workload.jobs] == [1, 4]
    assert read == [2]


def test_a_written_log_is_read_again(log: pb.Log, tmp_path: Path) -> None:
    log.head(2).write(tmp_path / "two.json")
    assert [job["id"] for job in load(tmp_path / "two.json").jobs] == ["a", "b"]


def test_the_same_seed_generates_the_same_jobs() -> None:
    first, again, other = (
        pb.generate_workload("lublin", n_jobs=20, n_procs=16, seed=seed, load=0.8) for seed in (1, 1, 2)
    )
    assert first.jobs.equals(again.jobs)
    assert not first.jobs.equals(other.jobs)


_SWF = "1 0 0 10 2 -1 -1 2 5 -1 1 1 -1 -1 -1 -1 -1 -1\n"
_SACCT = "JobID|Submit|Start|End|NCPUS|Timelimit\n1|10|10|400|2|00:05:00\n"
_TABLE = "at,run,n,most\n10,390,2,300\n"
_ESTIMATE = "the size of the machine is an estimate: the "


@pytest.mark.parametrize(
    ("text", "mapped", "of_file", "note"),
    [
        (f"; MaxProcs: 4\n{_SWF}", False, 4, None),
        (_SWF, False, 2, f"{_ESTIMATE}processors of the largest job"),
        (_SACCT, False, 2, f"{_ESTIMATE}most cores in use at one time"),
        (_TABLE, True, 2, f"{_ESTIMATE}cores of the largest job"),
    ],
)
def test_findings_are_those_of_lint_for_the_machine_of_the_log(
    tmp_path: Path, text: str, mapped: bool, of_file: int, note: str | None
) -> None:
    path, mapping = tmp_path / "log", tmp_path / "m.toml"
    path.write_text(text)
    mapping.write_text('[columns]\nsubmit = "at"\nrun_time = "run"\ncores = "n"\nlimit = "most"\n')
    for n_procs in (None, 1, 8):
        log = pb.read_workload(path, mapping=mapping if mapped else None, n_procs=n_procs)
        assert log.n_procs == (n_procs or of_file)
        for one in (log, log.where(lambda _: True).named("changed")):
            found = one.findings["what"].to_list()
            assert any(what.startswith("ran longer than") for what in found)
            assert ("larger than the machine of 1" in found) == (n_procs == 1)
            sizes = [what for what in found if "MaxProcs" in what or "estimate" in what]
            assert sizes == ([] if n_procs or note is None else [note])


def test_the_given_size_of_the_machine_overrides_that_of_a_batsim_file(tmp_path: Path) -> None:
    file = write_workload(tmp_path / "w.json", [{"id": "a", "subtime": 0}])
    log = pb.read_workload(file, n_procs=200)
    assert log.n_procs == 200
    assert pb.simulate(log, "fcfs", progress=False).figures["utilisation"] == 1 / 200


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda log: log.window("10d"), "no job is left"),
        (lambda log: log.window(0, "4d", warm_up="1d").window("900w"), "no job is left[^;]*$"),
        (lambda log: log.window("a while"), "begin=: expected seconds, or a number with m, h, d or w"),
        (lambda log: log.window("3.5d", "4d", warm_up="1d"), "left in the window from 302400 s to 345600 s: 1 job"),
        (
            lambda log: log.with_walltimes("requested"),
            "rule: expected exact, factor:F, round or none, found 'requested'",
        ),
        (lambda log: log.scale_load(0), "scale_load: expected a factor above 0, found 0"),
        (lambda log: log.scale_load(float("nan")), "factor: expected a number, found nan"),
        (lambda log: log.where(lambda _job: False), "expected a condition that some job meets"),
        (lambda log: log.head(0), "n=: expected a whole number, 1 or more, found 0"),
        (lambda _log: pb.read_workload("x.swf", n_procs=0), "n_procs=: expected a whole number, 1 or more, found 0"),
        (lambda _log: pb.read_workload("missing.swf"), "missing.swf: cannot be read"),
        (lambda _log: pb.generate_workload("lublim", n_jobs=1, n_procs=1), "model: expected one of lublin"),
    ],
)
def test_errors(log: pb.Log, change: Any, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        change(log)


def test_html_escapes_names(log: pb.Log) -> None:
    assert "<b>&lt;x&gt;</b>" in log.named("<x>")._repr_html_()
