"""Ids that Batsim rejects are reported with their place when a workload is loaded, before files are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.process import run_cli

from pybatsched.campaign.execute import run_cell
from pybatsched.errors import InputError
from pybatsched.workload import jobs as ids
from pybatsched.workload.model import Workload

NONE = "expected an id without '!', commas, quotes, backslashes, line ends or NUL characters, which Batsim rejects"
INSIDE = "contains the workload's name, so Batsim reads it as WORKLOAD!JOB"


def workload(*names: int | str) -> Workload:
    jobs = [{"id": name, "subtime": 0, "res": 1, "walltime": 9, "profile": "d"} for name in names]
    return Workload(jobs, {"d": {"type": "delay", "delay": 5}}, 2, "w.json")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b!c"), f"""job "b!c", field id: as the workload w0 of a run, job id 'b!c': {NONE}"""),
        (("a,b",), f"""job "a,b", field id: as the workload w0 of a run, job id 'a,b': {NONE}"""),
        (("a\0b",), f"""job "a\\u0000b", field id: as the workload w0 of a run, job id 'a\\x00b': {NONE}"""),
        ((1, "w0"), f"""job "w0", field id: as the workload w0 of a run, job id 'w0' {INSIDE}"""),
        (("a", "w0!a"), 'job "w0!a", field id: it means the same as "a" in the workload w0'),
        (("w0!a", "a"), 'job "a", field id: it means the same as "w0!a" in the workload w0'),
    ],
)
@pytest.mark.parametrize("command", [["simulate", "--procs", "2"], ["run", "-p", "curie", "--batsim", "true"]], ids=str)
def test_an_id_that_batsim_rejects_is_an_error(
    command: list[str], names: tuple[int | str, ...], message: str, tmp_path: Path
) -> None:
    one = workload(*names)
    content = {"nb_res": 2, "jobs": one.jobs, "profiles": one.profiles}
    (tmp_path / "w.json").write_text(json.dumps(content))
    args = ("-w", "w.json", "--policy", "fcfs", "-e", "out", "--journal", "run.pbj")
    done = run_cli(*command, *args, cwd=tmp_path)
    assert done.returncode == 2
    assert f"pybatsched: w.json: {message}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["w.json"]


def test_an_id_that_batsim_rejects_is_an_error_in_a_campaign(tmp_path: Path) -> None:
    one = workload("a,b")
    content = {"nb_res": 2, "jobs": one.jobs, "profiles": one.profiles}
    (tmp_path / "w.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match='job "a,b", field id: as the workload w0 of a run'):
        run_cell({"workload_file": str(tmp_path / "w.json")})


def test_valid_ids_are_accepted() -> None:
    ids.check_ids({"w0": workload(1, "a", "w0!b", "x w1"), "w1": workload(1, "w1!a", "w0")})


def test_an_id_is_checked_against_the_name_of_its_own_workload() -> None:
    with pytest.raises(InputError, match='^w.json: job "x w1", field id: as the workload w1'):
        ids.check_ids({"w0": workload("x w1"), "w1": workload("x w1")})
