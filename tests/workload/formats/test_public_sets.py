"""Public sets of traces, in small files with our own values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import tables
from support.logs import line, log, real
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.workload import load
from pybatsched.workload.checks.lint import lint
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.formats.files import FORMATS, SETS
from pybatsched.workload.logs.swf import DESCRIBED
from pybatsched.workload.logs.tables import mapping as table_mapping
from pybatsched.workload.statistics.stats import sample


def chosen(jobs: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(job.get(name) for name in names) for job in jobs]


#: Of each set: id, submission, size, run time, requested time, and some fields of the jobs, worked out by hand.
EXPECTED: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {
    "pm100": (
        ("gpus", "memory_gb", "mean_power_w", "eligible_after_s", "logged_wait_s", "user", "priority"),
        [("61", 0, 2, "600", 1800, 8, 240, 1500, 10, 60, "5", 1000),
         ("62", 20, 1, "60", 86_400, 4, 240, 500, None, 100, "6", 2000)],
    ),
    "fdata": (
        ("memory_gb", "energy_j", "mean_power_w", "exit_state", "exit_code", "logged_wait_s"),
        [("a1", 0, 2, "1800", 3600, 28, 360_000, 200, "COMPLETED", "0", 600)],
    ),
    "eagle": (
        ("nodes", "gpus", "memory_gb", "exit_state", "account", "job_name"),
        [("5", 0, 72, "600", 3600, 2, 1, 0.055555556, "COMPLETED", "a1", "n1"),
         ("6", 5, 36, "7210", 7200, 1, 0, None, "TIMEOUT", "a1", "n2")],
    ),
    "supercloud": (
        ("nodes", "gpus", "memory_gb", "exit_state", "eligible_after_s"),
        [("11", 0, 40, "600", 3600, 1, 2, 0.2, "COMPLETED", 60),
         ("13", 10, 8, "3690", None, 1, 1, 0.125, "TIMEOUT", None)],
    ),
    "alcf": (
        ("user", "account", "queue", "exit_code"),
        [("21.theta", 0, 128, "600.5", 1800, "1", "2", "default", "0")],
    ),
    "lumos": (
        ("exit_state", "exit_code", "logged_wait_s"),
        [("31", 0, 512, "600", 900, "COMPLETED", "0", 100), ("32", 3, 1, "30", 60, "CANCELLED", "143", 5)],
    ),
    "helios": (("queue", "nodes", "requested_procs"), [("41", 0, 8, "600", None, "vc1", 1, None)]),
    "philly": (
        ("attempt", "exit_state", "logged_wait_s", "nodes"),
        [("application_1_51", 0, 2, "60", None, 1, "FAILED", 60, 1),
         ("application_1_51-2", 120, 3, "600", None, 2, "COMPLETED", 60, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_sets_by_name_and_by_their_columns(tmp_path: Path, name: str) -> None:
    file = tables.one_of(name, tmp_path)
    assert format_of(file) == FORMATS[name] == "table"
    names, expected = EXPECTED[name]
    for format_name in (None, name):
        workload = load(file, format=format_name)
        rows = chosen(workload.jobs, "id", "subtime", "res", "profile", "requested_time", *names)
        assert rows == expected
        assert f"read as a table of the set {name}" in workload.about["report"]["rules"]
    assert not [finding for finding in lint(file).findings.values() if finding.what.startswith("bad")]
    assert len(sample(file).submitted_at) == len(expected)


def test_the_unit_of_a_limit_is_that_of_the_set(tmp_path: Path) -> None:
    """PM100 has minutes, F-DATA seconds: one widely used loader reads minutes as seconds."""
    assert load(tables.one_of("pm100", tmp_path)).jobs[0]["walltime"] == 30 * 60
    assert load(tables.one_of("fdata", tmp_path)).jobs[0]["walltime"] == 3600


def test_helios_in_other_units(tmp_path: Path) -> None:
    file = tables.one_of("helios", tmp_path)
    assert load(file).about["report"]["rules"]["no gpus, neither allocated nor requested: dropped"]["count"] == 1
    assert [job["res"] for job in load(file, size_in="cores").jobs] == [64, 4]


def test_another_name_is_an_error_with_the_missing_columns(tmp_path: Path) -> None:
    file = tables.one_of("helios", tmp_path)
    done = run_cli("workload", "lint", str(file), "--format", "alcf")
    assert (done.returncode, "the mapping alcf" in done.stderr, "expected submit" in done.stderr) == (2, True, True)
    assert "the set has columns such as QUEUED_TIMESTAMP" in done.stderr
    assert "the table has job_id, user, vc" in done.stderr


def test_mappings_of_sets_are_complete() -> None:
    for name in SETS:
        known = table_mapping.shipped(name)
        assert known.name == name
        assert table_mapping.detected(known.detect) == name
        assert known.size_in in {"cores", "nodes", "gpus"}


FRONTIER = "; UnixStartTime: 1704067200\n"


def test_frontier_takes_nodes_from_the_descriptor(tmp_path: Path) -> None:
    rows = (
        f"{line(1, 0, 5, 60, 448, requested_s=100)} 16 -1 frontier:excl:2x112",
        f"{line(2, 9, 5, 60, 3, requested_s=100)} 24 -1 frontier:excl:3x112",
    )
    named = "; 0: job_id\n; 18: used_GPUs\n; 19: soft_walltime\n; 20: required_properties\n"
    file = log(tmp_path, *rows, header=FRONTIER + named)
    workload = load(file)
    assert chosen(workload.jobs, "res", "gpus", "required_properties") == [
        (2, 16, "frontier:excl:2x112"),
        (3, 24, "frontier:excl:3x112"),
    ]
    assert DESCRIBED.format("required_properties", 1) in workload.about["report"]["rules"]
    assert workload.n_procs == 5
    bare = log(tmp_path, *rows, header=FRONTIER)  # a header that does not name the fields
    assert [job["res"] for job in load(bare).jobs] == [448, 3]
    assert chosen(load(bare, format="frontier").jobs, "res", "gpus") == [(2, 16), (3, 24)]
    assert lint(bare, format="frontier").n_procs == 5


@pytest.mark.parametrize("last", ["all", "a:b:2", "a:b:x2", "a:b:2x"])
def test_other_descriptions_change_no_size(tmp_path: Path, last: str) -> None:
    header = "; 18: used_GPUs\n; 19: soft_walltime\n; 20: required_properties\n"
    rows = (f"{line(1, 0, 5, 60, 4)} 1 -1 x:y:2x112", f"{line(2, 9, 5, 60, 3)} 1 -1 {last}")
    assert [job["res"] for job in load(log(tmp_path, *rows, header=header)).jobs] == [4, 3]


def test_python_and_campaigns_read_tables(tmp_path: Path) -> None:
    file = tables.one_of("lumos", tmp_path)
    read = pb.read_workload(file, format="lumos")
    assert (len(read), read.n_procs) == (2, 512)
    assert "ran longer than its time limit" not in " ".join(read.findings["what"])
    mapped = tables.text_table(tmp_path, *tables.ROWS)
    assert len(pb.read_workload(mapped, mapping=tables.mapping(tmp_path))) == 2
    spec = WorkloadTable.model_validate({"name": "t", "file": "jobs.csv", "mapping": "mapping.toml", "procs": 8})
    (made,) = Preparer(tmp_path / "made", [tmp_path]).prepare(spec, 0)
    assert [job["id"] for job in load(made.path).jobs] == ["7", "8"]
    with pytest.raises(ValueError, match="format: expected one of batsim, swf"):
        WorkloadTable.model_validate({"name": "t", "file": "jobs.csv", "format": "odd"})
    with pytest.raises(ValueError, match="format: cannot be used with mapping"):
        WorkloadTable.model_validate({"name": "t", "file": "jobs.csv", "format": "pm100", "mapping": "m.toml"})


def test_the_real_logs() -> None:
    """Figures of the available logs: jobs, sizes and use beyond the machine."""
    mira = load(real("ALCF-Mira-2018.csv.gz"), n_procs=49_152)
    assert (len(mira.jobs), max(job["res"] for job in mira.jobs)) == (22_508, 49_152)
    found = lint(real("ALCF-Mira-2018.csv.gz"), 49_152)
    assert any("started while more nodes than the machine has" in finding.what for finding in found.findings.values())
    eagle = load(real("today/NREL-Eagle-sample.csv.gz"))
    assert (len(eagle.jobs), eagle.jobs[0]["requested_time"], eagle.jobs[0]["res"]) == (1000, 172_800, 10)
