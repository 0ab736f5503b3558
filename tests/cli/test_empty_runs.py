"""Runs without a job: an input error, unless --allow-empty is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.process import run_cli
from support.simulated import rows

from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError

NONE_RAN = "; MaxProcs: 4\n" + "".join(
    f"{number} {number} -1 0 1 -1 -1 1 10 -1 5 1 1 1 1 1 -1 -1\n" for number in range(1, 4)
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a workload without jobs, a log of jobs that never ran, and a platform."""
    (tmp_path / "none.json").write_text(json.dumps({"nb_res": 4, "jobs": [], "profiles": {}}))
    (tmp_path / "none.swf").write_text(NONE_RAN)
    jobs = [{"id": "1", "subtime": 0, "res": 1, "profile": "d"}]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 2}}}
    (tmp_path / "one.json").write_text(json.dumps(content))
    return tmp_path


EXPECTED = "expected a workload with jobs, or --allow-empty"
CASES = {
    "no workload": ((), "no --workload"),
    "an empty one": (("-w", "none.json"), "none.json: the file has no jobs"),
    "all dropped": (("-w", "none.swf"), "none.swf: 3 jobs: run time of 0 or unknown: dropped"),
    "two of them": (
        ("-w", "none.json", "-w", "none.json"),
        "none.json: the file has no jobs; none.json: the file has no jobs",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_without_a_job_is_rejected_before_anything_is_written(case: str, place: Path) -> None:
    given, why = CASES[case]
    before = {*place.iterdir()}
    done = run_cli("simulate", "--procs", "4", *given, "--policy", "easy", "-e", "out", "-q", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"pybatsched: no job to run ({why}); {EXPECTED}\n"
    assert {*place.iterdir()} == before


@pytest.mark.parametrize("case", CASES)
def test_allow_empty_accepts_an_empty_run(case: str, place: Path) -> None:
    given, _ = CASES[case]
    done = run_cli("simulate", "--procs", "4", *given, "--policy", "easy", "-e", "out", "--allow-empty", cwd=place)
    assert done.returncode == 0, done.stderr
    assert rows(place / "out_jobs.csv") == []
    assert json.loads((place / "out_summary.json").read_text())["figures"]["n_jobs"] == 0


def test_a_run_with_one_job_is_accepted(place: Path) -> None:
    given = ("-w", "none.json", "-w", "one.json")
    assert run_cli("simulate", "--procs", "4", *given, "--policy", "easy", "-e", "out", cwd=place).returncode == 0


def test_an_empty_run_with_batsim_is_rejected(place: Path) -> None:
    done = run_cli("run", "-p", "curie-node", "-w", "none.json", "--policy", "easy", "-e", "out", cwd=place)
    assert done.returncode == 2
    assert f"no job to run (none.json: the file has no jobs); {EXPECTED}" in done.stderr


@pytest.mark.parametrize(
    ("file", "why"), [("none.json", "the file has no jobs"), ("none.swf", "3 jobs: run time of 0 or unknown: dropped")]
)
def test_a_campaign_with_an_empty_workload_is_an_error(file: str, why: str, place: Path) -> None:
    with pytest.raises(InputError) as error:
        Preparer(place, [place]).prepare(WorkloadTable.model_validate({"name": "idle", "file": file}), 0)
    assert str(error.value) == f"workload idle: there is no job to run ({why})"


@pytest.mark.parametrize("report", [None, 3, {"rules": 3}, {"rules": {"x": 3}}, {"rules": {"x": {"fate": "dropped"}}}])
def test_invalid_conversion_reports_in_a_workload_are_ignored(report: object, place: Path) -> None:
    (place / "none.json").write_text(json.dumps({"nb_res": 4, "jobs": [], "profiles": {}, "report": report}))
    done = run_cli("simulate", "--procs", "4", "-w", "none.json", "--policy", "easy", cwd=place)
    assert (done.returncode, "none.json: the file has no jobs" in done.stderr) == (2, True)
