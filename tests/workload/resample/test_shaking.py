"""Shaken copies of a workload: their bytes, their moves, campaigns and quantiles over copies."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st
from support import logs
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError
from pybatsched.metrics.compare.grouped import quantile_table, summary_table
from pybatsched.workload.model import Workload
from pybatsched.workload.resample.shaking import shake, shaken


def workload(*times: float) -> Workload:
    jobs = [{"id": k, "subtime": at, "res": 1, "profile": "p"} for k, at in enumerate(times)]
    return Workload(jobs, {"p": {"type": "delay", "delay": 10}}, 4, "w.json")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lines = [logs.line(k, 60 * k, run=50 * k, allocated=5, requested_s=900) for k in range(1, 11)]
    logs.log(tmp_path, *lines)
    return tmp_path


def test_by_0_seconds_the_bytes_are_the_same(place: Path) -> None:
    assert run_cli("workload", "convert", "log.swf", "w.json", cwd=place).returncode == 0
    for source in ("log.swf", "w.json"):
        done = run_cli("workload", "shake", source, "--by", "0", "--seed", "5", "--output", "s.json", cwd=place)
        assert done.returncode == 0, done.stderr
        assert (place / "s.json").read_bytes() == (place / "w.json").read_bytes()
    some = workload(3, 5)
    assert shake(some, 0) is some


@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=40), st.sampled_from([1, 60, 0.5, 7.25]), st.integers(0, 9)
)
def test_moves_are_within_the_bound_and_the_jobs_are_sorted(times: list[int], by_s: float, seed: int) -> None:
    some = workload(*sorted(times))
    some.jobs[0]["deadline"] = some.jobs[0]["subtime"] + 100
    made = shake(some, by_s, seed)
    assert shake(some, by_s, seed) == made
    before = {job["id"]: job["subtime"] for job in some.jobs}
    for job in made.jobs:
        assert max(before[job["id"]] - by_s, 0) <= job["subtime"] <= before[job["id"]] + by_s
        assert isinstance(job["subtime"], int) or by_s != int(by_s)
        assert job.get("deadline", job["subtime"] + 100) == pytest.approx(job["subtime"] + 100)
    after = [job["subtime"] for job in made.jobs]
    assert after == sorted(after)
    assert sorted(job["id"] for job in made.jobs) == sorted(before)


def test_all_moves_are_equally_likely() -> None:
    made = shake(workload(*[1000] * 3000), 1)
    counts = [sum(job["subtime"] == 1000 + move for job in made.jobs) for move in (-1, 0, 1)]
    assert sum(counts) == 3000
    assert min(counts) > 900  # a thousand each, 26 the standard deviation


def test_copies_differ_and_seeds_give_other_copies() -> None:
    some = workload(*range(0, 10_000, 100))
    copies = [tuple(job["subtime"] for job in one.jobs) for seed in (1, 2) for one in shaken(some, 5, 60, seed)]
    assert len(set(copies)) == 10


@pytest.mark.parametrize("by", ["-5", "soon", "nan"])
def test_bad_amounts_write_nothing(place: Path, by: str) -> None:
    done = run_cli("workload", "shake", "log.swf", f"--by={by}", "--output", "s.json", cwd=place)
    assert done.returncode == 2
    assert "--by: expected seconds, or a number with m, h, d or w" in done.stderr
    assert not (place / "s.json").exists()
    with pytest.raises(InputError, match="shake: expected 0 seconds or more"):
        shake(workload(1), -1)


def test_the_input_is_not_overwritten(place: Path) -> None:
    (place / "w.json").write_text("{}")
    done = run_cli("workload", "shake", "w.json", "--output", "w.json", cwd=place)
    assert done.returncode == 2
    assert (place / "w.json").read_text() == "{}"


def test_copies_of_a_campaign(place: Path) -> None:
    spec = WorkloadTable.model_validate(
        {"name": "log", "file": "log.swf", "load": [0.5, 0.9], "shake": {"n": 3, "by_s": "1m"}}
    )
    found = Preparer(place, [place]).prepare(spec, 1)
    names = [f"log-load{load}-shake{copy:02}" for load in (0.5, 0.9) for copy in (1, 2, 3)]
    assert [one.name for one in found] == names
    assert len({one.digest for one in found}) == 6
    others = Preparer(place, [place]).prepare(spec, 2)
    assert not {one.digest for one in found} & {one.digest for one in others}
    still = spec.model_copy(update={"shake": spec.shake.model_copy(update={"by_s": 0.0}) if spec.shake else None})
    assert len({one.digest for one in Preparer(place, [place]).prepare(still, 1)}) == 2  # one for each load


def test_medians_and_quantiles_over_copies(place: Path) -> None:
    (place / "c.toml").write_text(
        'name = "c"\n[[workload]]\nname = "log"\nfile = "log.swf"\nshake = { n = 5, by_s = 60 }\n'
        '[[platform]]\nname = "own"\nprocs = 8\n[[policy]]\nname = "easy"\n'
    )
    assert run_cli("campaign", "run", "c.toml", "--output", "out", "--workers", "1", "-q", cwd=place).returncode == 0
    waits = sorted(pb.read_campaign(place / "out").figures["mean_wait_s"])
    assert len(waits) == 5
    args = ("campaign", "table", "out", "--quantiles", "0,50,100", "--figures", "mean_wait_s", "--format", "csv")
    done = run_cli(*args, cwd=place)
    head, row = done.stdout.splitlines()
    assert head == "family,policy,runs,mean_wait_s_p0,mean_wait_s_p50,mean_wait_s_p100"
    assert row.split(",")[:3] == ["log", "easy", "5"]
    assert [float(text) for text in row.split(",")[3:]] == [waits[0], waits[2], waits[4]]
    for bad, text in (("5;50", "expected numbers from 0 to 100"), ("101", "percentile 101: expected a number")):
        done = run_cli("campaign", "table", "out", "--quantiles", bad, cwd=place)
        assert done.returncode == 2
        assert text in done.stderr
    assert run_cli("campaign", "table", "out", "--quantiles", "--ci", "0.9", cwd=place).returncode == 2


def test_one_run_counts_once_and_copies_are_no_independent_units() -> None:
    frame = pl.DataFrame(
        {
            "workload": ["a-week01-shake01", "a-week01-shake02", "a-week02-shake01", "a-week02-shake02"],
            "policy": ["easy"] * 4,
            "address": ["x", "x", "y", "z"],
            "mean_wait_s": [1.0, 1.0, 3.0, 5.0],
        }
    )
    assert quantile_table(frame, ["policy"], ["mean_wait_s"], [50]).rows() == [("easy", 3, 3.0)]
    means = summary_table(frame, ["policy"], ["mean_wait_s"])
    assert means["mean_wait_s_n"].to_list() == [2]
    assert means["mean_wait_s"].to_list() == [2.5]  # of 1 and 4


def test_shaken_logs_in_python(place: Path) -> None:
    log = pb.read_workload(place / "log.swf")
    runs = pb.simulate([log.shake(60, seed=k) for k in (1, 2, 3)], "easy", progress=False)
    assert [run.workload for run in runs] == ["log-shake01", "log-shake02", "log-shake03"]
    medians = runs.quantiles(figures="mean_wait_s")
    assert medians.columns == ["policy", "runs", "mean_wait_s_p5", "mean_wait_s_p50", "mean_wait_s_p95"]
    assert json.loads(json.dumps(log.shake("1m", seed=4).workload.about["shaken"])) == {"by_s": 60, "seed": 4}
