"""New results replace old ones only when they are complete, wherever the writer is stopped."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pybatsched.errors import InputError, Interrupted, PolicyError
from pybatsched.results import run_state
from pybatsched.results.atomic_files import whole
from pybatsched.results.run_state import JOBS, LOG, SUFFIXES, State, find
from pybatsched.results.writing import Results


class Killed(BaseException):
    """The writer's process has ended."""


def write(results: Results, name: str, suffixes: frozenset[str]) -> None:
    results.begin(1)
    for suffix in suffixes:
        Path(f"{results.part}{suffix}").write_text(name)
    results.finish()


def seen(prefix: str, *, newest: bool = False) -> dict[str, str]:
    """Return the content of each file that a reader of a prefix sees."""
    found = find(prefix, newest=newest)
    paths = {suffix: found.path(suffix) for suffix in SUFFIXES}
    return {suffix: path.read_text() for suffix, path in paths.items() if path.exists()}


@contextmanager
def killed_at(step: int) -> Iterator[list[str]]:
    """Stop before the given change of a file, and skip all later ones. Return the changes that were made."""
    made: list[str] = []

    def change(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **how: Any) -> Any:
            if len(made) == step:
                raise Killed
            made.append(name)
            return real(*args, **how)

        return changed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", change("replace", Path.replace))
        patch.setattr(Path, "unlink", change("unlink", Path.unlink))
        patch.setattr(os, "pwrite", change("write", os.pwrite))
        yield made


some_files = st.frozensets(st.sampled_from([one for one in SUFFIXES if one != LOG])).map(lambda found: found | {JOBS})


@given(st.lists(st.tuples(some_files, st.integers(0, 40)), max_size=4), some_files)
def test_a_writer_killed_at_any_step_leaves_one_complete_run(
    killed: list[tuple[frozenset[str], int]], last: frozenset[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"{folder}/a"
        with Results(prefix) as results:
            write(results, "first", frozenset({JOBS, "_schedule.csv"}))
        whole = {JOBS: "first", "_schedule.csv": "first"}
        for number, (suffixes, step) in enumerate(killed):
            results = Results(prefix).__enter__()
            with killed_at(step), suppress(Killed):
                write(results, f"killed {number}", suffixes)
            if results.state is State.FINISHED:
                whole = dict.fromkeys(suffixes, f"killed {number}")
            results.state = State.FINISHED  # a killed process writes nothing
            results.__exit__(None, None, None)
            assert find(prefix).is_whole
            assert seen(prefix) == whole
        # The next one that fails changes nothing, and the next one that does not replaces all.
        with pytest.raises(ZeroDivisionError), Results(prefix) as results:
            results.begin(1)
            Path(f"{results.part}_jobs.csv").write_text("broken")
            raise ZeroDivisionError
        assert seen(prefix) == whole
        assert seen(prefix, newest=True) == {JOBS: "broken"}
        with Results(prefix) as results:
            write(results, "last", last)
        assert seen(prefix) == dict.fromkeys(last, "last")
        assert {path.name for path in Path(folder).iterdir()} == {"a_state.json", *(f"a{one}" for one in last)}


def test_partial_files_of_an_earlier_run_are_not_used(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    with pytest.raises(ZeroDivisionError), Results(prefix) as results:
        results.begin(1)
        for suffix in (JOBS, "_schedule.csv"):
            Path(f"{results.part}{suffix}").write_text("broken")
        raise ZeroDivisionError
    assert seen(prefix) == {JOBS: "broken", "_schedule.csv": "broken"}
    with Results(prefix) as results:
        results.begin(1)
        assert seen(prefix) == {}
        Path(f"{results.part}_jobs.csv").write_text("new")
        results.finish()
    assert seen(prefix) == {JOBS: "new"}


def test_every_step_is_tried(tmp_path: Path) -> None:
    """The range above exceeds the number of steps, so that the last steps are included."""
    with killed_at(1000) as made, Results(str(tmp_path / "a")) as results:
        write(results, "x", frozenset(SUFFIXES))
    assert {*made} == {"write", "unlink", "replace"}
    assert len(made) <= 40


@pytest.mark.parametrize(
    ("error", "state", "reason", "code"),
    [
        (Interrupted(signal.SIGTERM), "interrupted", "signal 15", 143),
        (Interrupted(signal.SIGINT), "interrupted", "signal 2", 130),
        (KeyboardInterrupt(), "interrupted", "KeyboardInterrupt", 130),
        (InputError("no\nroom"), "failed", "no", 2),
        (PolicyError("bad", policy="p", rule="r"), "failed", "policy p broke the rule 'r': bad", 6),
        (ZeroDivisionError("by zero"), "failed", "ZeroDivisionError: by zero", 1),
        (ValueError("x" * 500), "failed", "ValueError: " + "x" * 288, 1),
        (None, "failed", "left before its end", 1),
    ],
)
def test_the_state_file_shows_how_a_run_ended(
    error: BaseException | None, state: str, reason: str, code: int, tmp_path: Path
) -> None:
    prefix = str(tmp_path / "new" / "a")
    results = Results(prefix, {"inputs": {"workloads": []}})
    with results:
        results.begin(54034, 128)
        running = json.loads(Path(f"{prefix}_state.json").read_text())
        assert (running["state"], running["n_jobs"], running["n_procs"]) == ("running", 54034, 128)
        assert running["pid"] == os.getpid()
        assert running.keys() >= {"host", "started"}
        results.n_over = 40
        if error is not None:
            results.__exit__(type(error), error, None)
    content = json.loads(Path(f"{prefix}_state.json").read_text())
    assert content == {
        "format": "pybatsched-state",
        "format_version": 1,
        "state": state,
        "n_jobs": 54034,
        "n_over": 40,
        "reason": reason,
        "exit_code": code,
        "inputs": {"workloads": []},
        "n_procs": 128,
    }
    assert results.describe() == f"{state} after 40 of 54,034 jobs"


def test_the_state_file_of_a_finished_run_is_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Results(str(tmp_path / name), {"inputs": name}) as results:
            results.n_over = 29
            results.begin(30, 8)
            Path(f"{results.part}_jobs.csv").touch()
            results.finish()
    text = (tmp_path / "a_state.json").read_text()
    assert text == (tmp_path / "b_state.json").read_text()
    assert json.loads(text) == {
        "format": "pybatsched-state",
        "format_version": 1,
        "state": "finished",
        "n_jobs": 30,
        "n_over": 29,
    }


def test_the_state_file_can_be_read_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that is shorter than the last one is written over it, and then the rest is cut off."""
    prefix, read = str(tmp_path / "a"), []
    real = os.ftruncate

    def truncate(fd: int, size: int) -> None:
        mark = run_state.read(prefix)
        assert mark is not None
        read.append((str(mark.state), mark.moving))
        real(fd, size)

    monkeypatch.setattr(os, "ftruncate", truncate)
    with Results(prefix, {"inputs": "x" * 5000}) as results:
        write(results, "x", frozenset({JOBS}))
    assert read == [("running", ()), ("finished", (JOBS,)), ("finished", ())]


def test_a_run_that_does_not_start_changes_no_files(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    with Results(prefix) as results:
        write(results, "old", frozenset({JOBS}))
    before = Path(f"{prefix}_state.json").read_text()
    with pytest.raises(ZeroDivisionError), Results(prefix):
        raise ZeroDivisionError
    assert (seen(prefix), Path(f"{prefix}_state.json").read_text()) == ({JOBS: "old"}, before)
    with pytest.raises(ZeroDivisionError), Results(str(tmp_path / "new" / "b")):
        raise ZeroDivisionError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_jobs.csv", "a_state.json"]


def test_two_writers_with_one_prefix_are_rejected(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    with Results(prefix) as results:
        results.begin(1)
        with (
            pytest.raises(InputError, match=r"a: another run is writing \S+a.part_\*; wait for its end"),
            Results(prefix),
        ):
            pass
        Path(f"{results.part}_jobs.csv").write_text("mine")
        results.finish()
        with pytest.raises(InputError, match="another run"), Results(prefix):  # not before it has left
            pass
    assert seen(prefix) == {JOBS: "mine"}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_directory_in_the_way_is_noticed_before_the_run(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"a{suffix}").mkdir()
    with (
        pytest.raises(InputError, match=f"cannot write .*a{suffix}: it is a directory"),
        Results(str(tmp_path / "a")) as results,
    ):
        results.begin(1)
    assert [path.name for path in tmp_path.iterdir()] == [f"a{suffix}"]


def test_results_removed_during_the_run(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    with pytest.raises(InputError, match=r"a.part_jobs.csv was removed"), Results(prefix) as results:
        results.begin(1)
        results.finish()
    mark = run_state.read(prefix)
    assert mark is not None
    assert (mark.state, mark.reason.endswith("a.part_jobs.csv was removed during the run")) == ("failed", True)


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_the_first_state_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", full)
    with (
        pytest.raises(InputError, match="cannot write .*a_state.json: No space left on device"),
        Results(str(tmp_path / "a")) as results,
    ):
        results.begin(1)
    assert list(tmp_path.iterdir()) == []


def test_a_partly_written_state_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:20], at))
    with (
        pytest.raises(InputError, match="cannot write .*a_state.json: the disk is full"),
        Results(str(tmp_path / "a")) as results,
    ):
        results.begin(1)
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_does_not_fit_keeps_the_previous_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little of the new state fits: complete results can still be read, and the next run starts."""
    prefix = str(tmp_path / "a")
    with Results(prefix) as results:
        write(results, "old", frozenset({JOBS}))
    before = run_state.read(prefix)
    assert before is not None
    size, real = Path(f"{prefix}_state.json").stat().st_size, os.pwrite
    for room in range(size, size + 200, 7):
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", lambda fd, data, at, room=room: real(fd, data[: room - at], at))
            with (
                pytest.raises(InputError, match="cannot write .*a_state.json: the disk is full"),
                Results(prefix, {"policy": "x" * 200}) as results,
            ):
                results.begin(1)
        after = run_state.read(prefix)
        assert after is not None
        assert after.about == before.about
        assert seen(prefix) == {JOBS: "old"}
    with Results(prefix, {"policy": "x" * 200}) as results:
        write(results, "new", frozenset({JOBS}))
    assert seen(prefix) == {JOBS: "new"}


def test_a_full_disk_at_the_last_state_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the run is marked as running but its lock is free: it was interrupted."""
    prefix = str(tmp_path / "a")
    with pytest.raises(ZeroDivisionError), Results(prefix) as results:
        results.begin(3)
        monkeypatch.setattr(os, "pwrite", full)
        raise ZeroDivisionError
    mark = run_state.read(prefix)
    assert mark is not None
    assert mark.describe(2) == "broke off after 2 of 3 jobs"


def test_results_that_cannot_be_renamed_stay_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = str(tmp_path / "a")
    with monkeypatch.context() as patch, Results(prefix) as results:
        results.begin(1)
        for suffix in (JOBS, "_summary.json"):
            Path(f"{results.part}{suffix}").write_text("new")
        patch.setattr(Path, "replace", full)
        with pytest.raises(InputError, match="the results are complete, but .* cannot be renamed: No space"):
            results.finish()
    assert find(prefix).is_whole
    assert seen(prefix) == {JOBS: "new", "_summary.json": "new"}


def test_the_log_of_batsim_is_kept_until_the_next_run_with_batsim(tmp_path: Path) -> None:
    prefix = str(tmp_path / "a")
    with Results(prefix) as results:
        write(results, "one", frozenset({JOBS, LOG}))
    with Results(prefix) as results:
        write(results, "two", frozenset({JOBS}))
    assert (tmp_path / "a_batsim.log").read_text() == "one"
    with Results(prefix) as results:
        write(results, "three", frozenset({JOBS, LOG}))
    assert (tmp_path / "a_batsim.log").read_text() == "three"


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".part-{os.getpid()}.table.csv").symlink_to(victim)
    with whole(tmp_path / "table.csv") as half:
        half.write_text("new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "table.csv").read_text() == "new"
    assert not (tmp_path / "table.csv").is_symlink()


def test_a_symbolic_link_at_the_target_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "table.csv").symlink_to(victim)
    with whole(tmp_path / "table.csv") as half:
        half.write_text("new")
    assert (victim.read_text(), (tmp_path / "table.csv").read_text()) == ("precious", "new")


def test_rights_are_those_of_the_umask_and_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with whole(tmp_path / "a") as half:
            half.write_text("x")
        with pytest.raises(InputError, match="b: cannot be written: gone"), whole(tmp_path / "b"):
            raise OSError("gone")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
