"""The state file of a run, and which files a reader gets by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pybatsched.errors import InputError, spelled
from pybatsched.results import run_state
from pybatsched.results.run_state import Found, Mark, RunState, State, find, read, read_stable
from pybatsched.results.writing import Results


def mark(state: str, **members: Any) -> str:
    head = {"format": "pybatsched-state", "format_version": 1, "state": state, "n_jobs": 54034}
    return json.dumps(head | members)


@pytest.mark.parametrize(
    ("state", "n_over", "is_alive", "message"),
    [
        (State.RUNNING, 40, True, "still running, 40 of 54,034 jobs so far"),
        (State.RUNNING, None, True, "still running"),
        (State.RUNNING, 40, False, "broke off after 40 of 54,034 jobs"),
        (State.RUNNING, None, False, "broke off"),
        (State.INTERRUPTED, 40, False, "interrupted after 40 of 54,034 jobs"),
        (State.FAILED, 12345, False, "failed after 12,345 of 54,034 jobs"),
    ],
)
def test_the_text_of_each_state(state: State, n_over: int | None, is_alive: bool, message: str) -> None:
    assert Mark(state, 54034, n_over, "", {}, is_alive=is_alive).describe() == message
    if n_over is not None:
        assert Mark(state, 54034, None, "", {}, is_alive=is_alive).describe(n_over) == message


def test_complete_runs_have_no_notice() -> None:
    finished, broken = Mark(State.FINISHED, 3, 3, "", {}), Mark(State.FAILED, 3, 1, "a reason", {})
    for one in (Found("a", None, is_whole=True), Found("a", finished, is_whole=True)):
        assert one.standing("a", 3) == RunState("a")
        assert (one.standing("a", 3).notice, one.standing("a", 3).reason, one.standing("a", 3).remark) == ("", "", "")
    newer = Found("a", broken, is_whole=True).standing("a", 3)
    assert (newer.notice, newer.reason) == ("", "")
    assert (
        spelled(newer.remark)
        == "results of an earlier run; the last one: failed after 1 of 3 jobs (a.part_*, shown by partial)"
    )
    partial = Found("a.part", broken, is_whole=False).standing("a", 2)
    assert (partial.notice, partial.reason, partial.remark) == ("failed after 2 of 3 jobs", "a reason", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected the state of a run in JSON, found '{' (Expecting property name"),
        ("[" * 100_000, "expected the state of a run in JSON, found '[[["),
        ("[]", "expected a JSON object with format 'pybatsched-state', found []"),
        ('{"format": "mine"}', "format: expected 'pybatsched-state', found 'mine'"),
        (mark("running", format_version=2), "format_version is 2; expected 1"),
        (mark("dancing"), "state is 'dancing'; expected one of running, interrupted, failed, finished"),
        (mark("failed", n_jobs="many"), "n_jobs is 'many'; expected a number of jobs"),
        (mark("failed", n_over="some"), "n_over is 'some'; expected a number of jobs"),
        (mark("finished", moving=["_home"]), "moving is ['_home']; expected some of _jobs.csv"),
        (mark("finished", moving="_jobs.csv"), "moving is '_jobs.csv'; expected some of _jobs.csv"),
    ],
)
def test_invalid_state_files_name_the_file_and_the_field(text: str, message: str, tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    Path(f"{prefix}_state.json").write_text(text)
    with pytest.raises(InputError) as error:
        read(prefix)
    assert f"a_state.json: {message}" in str(error.value)
    with Results(prefix) as results, pytest.raises(InputError) as error:  # it may be a file of another program
        results.begin(3)
    assert f"a_state.json: {message}" in str(error.value)
    assert Path(f"{prefix}_state.json").read_text() == text


def test_an_empty_or_missing_state_file_is_none(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    assert read(prefix) is None
    Path(f"{prefix}_state.json").write_text(" \n")
    assert read(prefix) is None
    Path(f"{prefix}_state.json").unlink()
    Path(f"{prefix}_state.json").mkdir()
    assert read(prefix) is None
    assert find(prefix) == find(prefix, newest=True) == Found(prefix, None, is_whole=True)


def test_a_running_run_holds_the_lock(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    Path(f"{prefix}_state.json").write_text(mark("running"))
    one = read(prefix)
    assert one is not None
    assert (one.state, one.is_alive, one.describe(7)) == (State.RUNNING, False, "broke off after 7 of 54,034 jobs")
    with Results(prefix) as results:
        results.begin(54034)
        one = read(prefix)
        assert one is not None
        assert (one.state, one.is_alive, one.describe(7)) == (
            State.RUNNING,
            True,
            "still running, 7 of 54,034 jobs so far",
        )


@pytest.mark.parametrize("state", ["running", "interrupted", "failed"])
def test_complete_results_are_preferred_to_newer_partial_ones(state: str, tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    Path(f"{prefix}_state.json").write_text(mark(state))
    for newest in (False, True):
        one = find(prefix, newest=newest)
        assert (one.prefix, one.is_whole) == (f"{prefix}.part", False)
        assert one.path("_jobs.csv") == Path(f"{prefix}.part_jobs.csv")
        assert find(f"{prefix}.part", newest=newest) == one  # by its own name it is no more whole
    Path(f"{prefix}_jobs.csv").touch()
    whole = find(prefix)
    assert (whole.prefix, whole.is_whole) == (prefix, True)
    assert whole.path("_jobs.csv") == Path(f"{prefix}_jobs.csv")
    assert find(prefix, newest=True) == one


def test_a_finished_run_is_at_its_prefix(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a.part")  # an unusual but valid name
    for text in (mark("finished"), ""):
        Path(f"{prefix}_state.json").write_text(text)
        assert (find(prefix).prefix, find(prefix).is_whole) == (prefix, True)
    Path(f"{tmp_path}/a_state.json").write_text(mark("finished"))
    assert (find(prefix).prefix, find(prefix).is_whole) == (prefix, True)


def write(prefix: str, name: str) -> None:
    """Make a whole run whose files have a name in them."""
    with Results(prefix) as results:
        results.begin(1)
        for suffix in ("_jobs.csv", "_summary.json"):
            Path(f"{results.part}{suffix}").write_text(name)
        results.finish()


def test_files_that_are_replaced_while_they_are_read_are_read_again(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    write(prefix, "old")
    todo = ["new", "newer"]

    def look(found: Found) -> list[str]:
        jobs = found.path("_jobs.csv").read_text()
        if todo:
            write(prefix, todo.pop(0))
        return [jobs, found.path("_summary.json").read_text()]

    assert read_stable(prefix, look) == ["newer", "newer"]
    assert not todo


def test_a_read_error_while_files_are_replaced_is_retried(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    write(prefix, "old")
    todo = ["new"]

    def look(found: Found) -> str:
        if todo:
            write(prefix, todo.pop(0))
            raise InputError("gone")
        return found.path("_jobs.csv").read_text()

    assert read_stable(prefix, look) == "new"

    def complain(_found: Found) -> str:
        raise InputError("gone for good")

    with pytest.raises(InputError, match="gone for good"):
        read_stable(prefix, complain)


def test_a_reader_gives_up_if_files_are_always_replaced(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    write(prefix, "0")
    n = 0

    def look(_found: Found) -> None:
        nonlocal n
        n += 1
        write(prefix, str(n))

    with pytest.raises(InputError, match="replaced faster than they can be read"):
        read_stable(prefix, look)


def test_files_renamed_while_they_are_read_are_found(tmp_path: Path) -> None:
    """The state file says that files are being renamed; each is found under one of its two names."""
    prefix = str(tmp_path / "a")
    Path(f"{prefix}_state.json").write_text(mark("finished", moving=["_jobs.csv", "_summary.json"]))
    for suffix in ("_jobs.csv", "_schedule.csv", "_summary.json"):
        Path(f"{prefix}{suffix}").write_text("old")
    for suffix in ("_jobs.csv", "_summary.json"):
        Path(f"{prefix}.part{suffix}").write_text("new")
    todo = ["_jobs.csv", "_summary.json"]
    n_looks = 0

    def look(found: Found) -> list[str]:
        nonlocal n_looks
        n_looks += 1
        paths = [found.path(suffix) for suffix in ("_jobs.csv", "_summary.json")]
        assert not found.path("_schedule.csv").exists()  # which the new run has not written
        if todo:
            suffix = todo.pop(0)
            Path(f"{prefix}.part{suffix}").replace(f"{prefix}{suffix}")
        return [path.read_text() if path.exists() else "missed" for path in paths]

    assert find(prefix).is_whole
    assert read_stable(prefix, look) == ["new", "new"]
    assert n_looks == 3


def test_the_order_in_which_files_are_renamed() -> None:
    assert run_state.SUFFIXES[0] == run_state.JOBS
    assert run_state.SUFFIXES[-1] == run_state.SUMMARY  # scripts that wait for it find the others
