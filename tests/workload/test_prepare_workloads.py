"""Selections of Batsim files, and other walltimes for them."""

from __future__ import annotations

from typing import Any

import pytest

from pybatsched.errors import InputError
from pybatsched.workload import prepare
from pybatsched.workload.formats.conversion import LOOSE
from pybatsched.workload.model import Workload
from pybatsched.workload.selection import OUTSIDE, TOO_MANY, Selection, seconds_of
from pybatsched.workload.walltimes import Walltimes


def made(*jobs: dict[str, Any]) -> Workload:
    profiles: dict[str, dict[str, Any]] = {
        "five": {"type": "delay", "delay": 5},
        "twice": {"type": "composed", "seq": ["five", "one"], "repeat": 2},
        "one": {"type": "delay", "delay": 1},
        "task": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
        "talk": {"type": "recv", "success": "one", "failure": "gone"},
        "idle": {"type": "delay", "delay": 9},
    }
    full = [{"id": f"j{k}", "subtime": 0, "res": 1, "profile": "five", **job} for k, job in enumerate(jobs)]
    return Workload(full, profiles, 8, "w.json", {"version": 1})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("90s", 90),
        ("10m", 600),
        ("12h", 43_200),
        ("3d", 259_200),
        ("2w", 1_209_600),
        ("1e3", 1000),
    ],
)
def test_times_with_units_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text, "--from") == seconds


@pytest.mark.parametrize("text", ["", "d", "-1", "3x", "1h30", "nan", "inf", "1e999", "１"])
def test_other_times_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match="^--from: expected seconds"):
        seconds_of(text, "--from")


@pytest.mark.parametrize(
    "limits",
    [{"from_at": 5, "to_at": 5}, {"min_size": 4, "max_size": 3}, {"max_jobs": 0}, {"min_size": 0}, {"max_size": -1}],
)
def test_impossible_selections(limits: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        Selection(**limits)


def test_a_window_moves_all_instants_and_changes_nothing_it_was_given() -> None:
    workload = made(
        {"subtime": 1}, {"subtime": 30, "deadline": 100}, {"subtime": 20.25, "deadline": "soon"}, {"subtime": 50}
    )
    before = [dict(job) for job in workload.jobs]
    cut, report = prepare.select(workload, Selection(from_at=20, to_at=50))
    assert [(job["id"], job["subtime"], job.get("deadline")) for job in cut.jobs] == [
        ("j2", 0, "soon"),
        ("j1", 9.75, 79.75),
    ]
    assert workload.jobs == before
    assert (report.n_read, report.n_kept, report.n_dropped) == (4, 2, 2)
    assert (report.tallies[OUTSIDE].where, report.tallies[OUTSIDE].places) == ("job", ["j0", "j3"])
    assert cut.about["shifted_by"] == 20.25
    assert cut.about["version"] == 1
    again, _ = prepare.select(cut, Selection(from_at=5))
    assert again.about["shifted_by"] == 30


def test_only_used_profiles_stay() -> None:
    cut, _ = prepare.select(made({"profile": "twice"}, {"profile": "task", "subtime": 9}), Selection(to_at=5))
    assert list(cut.profiles) == ["five", "twice", "one"]
    assert list(prepare.select(made({"profile": "talk"}), Selection())[0].profiles) == ["one", "talk"]


def test_dependencies_on_jobs_cut_away() -> None:
    workload = made(
        {"id": 1},
        {"id": 2, "depends_on": "1"},
        {"id": 3, "subtime": 9, "depends_on": [2, 1], "think_time": 3},
        {"id": 4},
    )
    cut, report = prepare.select(workload, Selection(max_jobs=3))
    assert [job.get("depends_on") for job in cut.jobs] == [None, "1", None]
    assert report.tallies[TOO_MANY.format("3 jobs")].places == [3]
    cut, report = prepare.select(workload, Selection(from_at=5))
    assert cut.jobs == [{"id": 3, "subtime": 0, "res": 1, "profile": "five"}]
    assert report.tallies[LOOSE].places == [3]


def test_a_selection_without_jobs_is_an_error() -> None:
    with pytest.raises(InputError, match=r"w\.json: no job is left: 1 job submitted from 0 s to 0 s"):
        prepare.select(made({}), Selection(min_size=2))
    assert prepare.select(made(), Selection(min_size=2))[0].jobs == []


def test_other_walltimes_for_delays() -> None:
    workload = made({"walltime": 50, "estimate": 40}, {"profile": "twice"})
    exact, report = prepare.with_walltimes(workload, Walltimes("exact"))
    assert [(job["walltime"], job["estimate"]) for job in exact.jobs] == [(6, 5), (13, 12)]
    assert report.tallies["estimate and walltime set by the rule exact"].count == 2
    double, _ = prepare.with_walltimes(workload, Walltimes.parse("factor:10"))
    assert [(job["walltime"], job.get("estimate")) for job in double.jobs] == [(50, None), (120, None)]
    none, report = prepare.with_walltimes(workload, Walltimes("none"))
    assert not any("walltime" in job or "estimate" in job for job in none.jobs)
    assert report.tallies["estimate and walltime set by the rule none"].places == ["j0"]
    assert prepare.with_walltimes(workload, Walltimes("requested"))[0] is workload


def test_other_walltimes_need_a_run_time() -> None:
    with pytest.raises(InputError, match=r'w\.json: job "j0": walltimes exact: expected a profile made of delays'):
        prepare.with_walltimes(made({"profile": "task"}), Walltimes("exact"))
    prepare.with_walltimes(made({"profile": "task"}), Walltimes("none"))
