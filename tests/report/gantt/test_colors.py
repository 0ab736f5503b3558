"""Colours of jobs: the same classes in all charts of a page, and a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pybatsched.core.intervals import IntervalSet
from pybatsched.metrics import Outcome, joined
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.report.gantt.colors import BY_JOB, Coloring, as_pixel, coloring_data, colorings_of, default_coloring

DAY = 86_400.0


def run(*jobs: tuple[str, float, int, dict[str, Any]]) -> SavedRun:
    """A run of jobs, each an id, a wait, a size and fields."""
    rows = [
        Outcome(job_id, "COMPLETED_SUCCESSFULLY", 0.0, wait_s, 10.0, n, "", IntervalSet.parse(f"0-{n - 1}"))
        for job_id, wait_s, n, _ in jobs
    ]
    records = tuple(joined(rows, {job_id: fields for job_id, _, _, fields in jobs}))
    return SavedRun("x", records, 4096, {})


def classes(coloring: Coloring) -> list[list[str]]:
    """The class name of each job, by run."""
    return [[coloring.words[k] for k in column.tolist()] for column in coloring.classes]


def by_name(runs: Sequence[SavedRun]) -> dict[str, Coloring]:
    return {coloring.name: coloring for coloring in colorings_of(runs)}


def test_each_coloring_has_the_classes_of_all_runs() -> None:
    first = run(("w0!1", 0, 1, {"user": "x"}), ("w0!2", 59.9, 3, {"user": 7}), ("w1!3", 60, 8, {"urgent": True}))
    second = run(("w0!1", 8 * DAY, 1, {"user": "x", "deadline": 5}))
    found = by_name([first, second])
    assert list(found) == ["user", "size", "wait", "class", "workload"]
    assert classes(found["user"]) == [["user x", "user 7", "unknown"], ["user x"]]
    assert classes(found["size"]) == [["1 processor", "2 to 3 processors", "8 to 15 processors"], ["1 processor"]]
    assert classes(found["wait"]) == [["none", "under 1 min", "1 to 10 min"], ["over 7 d"]]
    assert classes(found["class"]) == [["regular", "regular", "urgent"], ["deadline"]]
    assert classes(found["workload"]) == [["w0", "w0", "w1"], ["w0"]]
    for coloring in found.values():
        assert len(set(coloring.colors)) == len(coloring.words) == len(coloring.colors)


def test_colorings_with_one_class_are_omitted() -> None:
    assert list(by_name([run(("w0!1", 0, 1, {}), ("w0!2", 0, 1, {}))])) == []
    assert list(by_name([run(("w0!1", 0, 1, {}), ("w0!2", 5, 1, {}))])) == ["wait"]
    assert colorings_of([run()]) == []


def test_the_busiest_users_have_colours_of_their_own() -> None:
    jobs = [(f"w0!{k}-{n}", 0.0, 1, {"user": k}) for k in range(40) for n in range(40 - k)]
    coloring = by_name([run(*jobs)])["user"]
    assert list(coloring.words) == [*(f"user {k}" for k in range(16)), "24 other users"]
    jobs.append(("w0!x", 0.0, 1, {}))
    assert by_name([run(*jobs)])["user"].words[-1] == "24 other users and unknown"


def test_many_sizes_are_put_together() -> None:
    coloring = by_name([run(*((f"w0!{n}", 0.0, n, {}) for n in (1, 3, 4, 2048)))])["size"]
    assert classes(coloring) == [
        ["1 to 3 processors", "1 to 3 processors", "4 to 15 processors", "1,024 to 4,095 processors"]
    ]


def test_a_run_of_many_jobs_is_coloured_by_wait_by_default() -> None:
    few = run(("w0!1", 0, 1, {}), ("w0!2", 5, 1, {}))
    many = run(*((f"w0!{k}", float(k), 1, {}) for k in range(3001)))
    assert default_coloring([few], colorings_of([few])) == BY_JOB
    assert default_coloring([few, many], colorings_of([few, many])) == "wait"
    alike = run(*((f"w0!{k}", 0.0, 1, {}) for k in range(3001)))
    assert default_coloring([alike], colorings_of([alike])) == BY_JOB


def test_the_script_gets_colours_in_canvas_byte_order() -> None:
    coloring = Coloring("size", "size", ["#010203", "#ff0000"], ["a", "b"], [])
    assert coloring_data(coloring)["colors"] == [0xFF030201, 0xFF0000FF] == [as_pixel("#010203"), as_pixel("#ff0000")]
