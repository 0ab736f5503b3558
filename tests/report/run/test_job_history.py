"""Job histories of a journal on a page: complete, truncated, or of another run."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest
from support.journals import cut_before_reply, record_ends
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import read_run
from pybatsched.report.run import job_history
from pybatsched.report.run.page import JobHistories


def simulate(folder: Path, name: str, at: float = 0.0) -> str:
    """Play two jobs of which the second one waits for the first, with a journal; gives its prefix."""
    jobs = [{"id": job, "subtime": at, "res": 4, "walltime": 9, "profile": "d"} for job in ("a", "b")]
    content = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 5}}}
    (folder / f"{name}.json").write_text(json.dumps(content))
    args = ("--procs", "4", "-w", f"{name}.json", "--policy", "easy", "-e", name, "--journal", f"{name}.pbj", "-q")
    assert run_cli("simulate", *args, cwd=folder).returncode == 0
    return str(folder / name)


def test_times_of_a_log_are_exact_to_the_tick(tmp_path: Path) -> None:
    """Logs count from 1970 on: with six digits, both starts would be 1e+09."""
    early, late = simulate(tmp_path, "early", 1e9 + 0.25), simulate(tmp_path, "late", 1e9 + 7.5)
    message = f"job w0!a started at 1000000007.5, but in {early} at 1000000000.25; expected the journal of this run"
    with pytest.raises(InputError) as caught:
        job_history.read_histories(read_run(early), f"{late}.pbj")
    assert str(caught.value) == f"{late}.pbj: {message}"


def test_a_truncated_journal_is_shown_with_a_note(tmp_path: Path) -> None:
    prefix = simulate(tmp_path, "run")
    journal = Path(f"{prefix}.pbj")
    histories = job_history.read_histories(read_run(prefix))
    assert histories.note == ""
    cut_before_reply(journal, 3)  # in which the first job ends
    cut = job_history.read_histories(read_run(prefix))
    note = "the journal is truncated: 7 bytes after its last complete record"
    assert cut.note == f"The journal {journal} is not complete, and histories end with it: {note}."
    assert cut.stories == {job_id: lines[: len(cut.stories[job_id])] for job_id, lines in histories.stories.items()}
    assert "decides differently" not in str(cut.stories)
    assert run_cli("report", prefix, "--output", "x.html", cwd=tmp_path).returncode == 0
    assert cut.note in unescape((tmp_path / "x.html").read_text())


def test_a_journal_of_a_killed_run_is_incomplete(tmp_path: Path) -> None:
    prefix = simulate(tmp_path, "run")
    journal = Path(f"{prefix}.pbj")
    raw = journal.read_bytes()
    journal.write_bytes(raw[: record_ends(raw)[-2]])
    note = ": the journal has no end: the run was killed, or is still running."
    assert job_history.read_histories(read_run(prefix)).note.endswith(note)


def test_a_journal_truncated_before_its_first_job_has_no_histories(tmp_path: Path) -> None:
    """Given, it is an error; found, a note."""
    prefix = simulate(tmp_path, "run")
    cut_before_reply(Path(f"{prefix}.pbj"), 1)
    why = f"it contains no job of {prefix} (the journal is truncated: 7 bytes after its last complete record)"
    assert job_history.read_histories(read_run(prefix)) == JobHistories(
        note=f"The journal {prefix}.pbj is not shown: {why}."
    )
    done = run_cli("report", prefix, "--journal", f"{prefix}.pbj", "--output", "x.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"pybatsched: {prefix}.pbj: {why}\n")
    assert not (tmp_path / "x.html").exists()
