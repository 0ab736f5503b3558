"""A few crashes of each kind, and the checks of `make crashes` on known damage."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S
from support.places import ROOT
from support.process import run_cli

from pybatsched import locks
from pybatsched.results import run_state
from pybatsched.session.journal import JournalReader
from reliability.crashes import __main__ as crashes, checks, processes, self_kill, simulation
from reliability.crashes.checks import Found


def python(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PYTHONPATH": str(ROOT / "tests"), "PYBATSCHED_NO_MOUNT": "1"} | variables
    return subprocess.run(
        [sys.executable, *args], env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE_OF_WORK_S
    )


def test_a_few_crashes_of_each_kind_find_no_problem() -> None:
    done = python("-m", "reliability.crashes", "--times", "3", "--jobs", "2", "--seed", "3")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[0] == "|"]
    assert rows[0] == ["kind", "times", *self_kill.STAGES, "problems"]
    assert [row[0] for row in rows[2:]] == list(crashes.KINDS), done.stdout + done.stderr
    for _kind, times, *stages, problems in rows[2:]:
        assert (times, problems) == ("3", "0"), done.stdout
        # A moment that is drawn may be after the end, again and again.
        assert 1 <= sum(map(int, stages)) <= 3, done.stdout
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("15 tries, 0 problems; seed 3; full disks by RLIMIT_FSIZE")


def test_each_function_that_shows_progress_exists() -> None:
    """A renamed function would never be seen, and crashes would be counted in the wrong stage."""
    defined = {
        ("/".join(path.parts[-2:]), function)
        for path in (ROOT / "pybatsched").rglob("*.py")
        for function in re.findall(r"^ *def (\w+)\(", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert self_kill.PROGRESS_CALLS.keys() - defined == set()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The prefix of a complete run, with its journal."""
    checks.write_inputs(tmp_path)
    assert run_cli(*simulation.command(tmp_path), cwd=tmp_path).returncode == 0
    return tmp_path / simulation.PREFIX


@pytest.fixture
def journal(run: Path) -> Path:
    return run.parents[1] / simulation.JOURNAL


def set_running(run: Path) -> Path:
    """Change the state of a run, and return the path of its mark."""
    state = Path(f"{run}{run_state.MARK}")
    state.write_text(json.dumps(json.loads(state.read_text()) | {"state": "running"}))
    return state


def test_mixed_results_of_two_runs_and_other_files_are_detected(run: Path) -> None:
    whole = checks.results_at(run)
    checks.check_results(found := Found(), run, whole)
    checks.check_next_results(found, run, whole)
    assert found.problems == []
    shutil.copy(f"{run}_jobs.csv", f"{run}.part_jobs.csv")
    checks.check_next_results(found, run, whole)
    assert found.problems.pop() == "beside the next results there is ['a.part_jobs.csv']"
    Path(f"{run}_summary.json").write_text("{}")
    checks.check_results(found, run, whole)
    assert found.problems == ["the results are neither those before nor the new ones"]
    checks.check_next_results(found := Found(), run, whole)
    assert found.problems[0] == "the results of the next run are not those of an undisturbed one"


def test_lost_earlier_results_are_detected(run: Path) -> None:
    whole = checks.results_at(run)
    set_running(run)
    checks.check_results(found := Found(), run, None, earlier=whole)
    for suffix in whole:
        Path(f"{run}{suffix}").rename(f"{run}.part{suffix}")
    checks.check_results(found, run, None)
    assert found.problems == []
    checks.check_results(found, run, None, earlier=whole)
    assert found.problems == ["the results before are gone, and there are no new ones"]


def test_a_lock_that_stays_is_detected(run: Path) -> None:
    with locks.held(set_running(run), "taken"):
        checks.check_results(found := Found(), run, checks.results_at(run))
    assert "the mark's lock is still held" in found.problems


def test_what_is_lost_of_a_journal_is_detected(journal: Path) -> None:
    whole = journal.read_bytes()
    n = sum(exchange.is_answered for exchange in JournalReader(journal).exchanges())
    for cut, n_requests in ((0, 0), (1, 0), (100, 0), (2000, 0), (-1, 0), (-100, n)):
        journal.write_bytes(whole[:cut])
        checks.check_journal(found := Found(), journal, whole, n_requests)
        assert found.problems == []
    journal.write_bytes(whole[: len(whole) // 2])
    checks.check_journal(found, journal, whole, n)
    assert [problem.partition(",")[0] for problem in found.problems] == [f"message {n} came"]


def test_a_damaged_journal_is_detected(journal: Path) -> None:
    whole = journal.read_bytes()
    journal.write_bytes(whole[:3000] + b"\xc1" + whole[3000:])
    checks.check_journal(found := Found(), journal, whole)
    assert found.problems[0] == "the journal is no beginning of an undisturbed one"
    assert found.problems[1].startswith("the journal cannot be read: ")


STRAY = """
import os, subprocess, sys
from reliability.crashes import processes
processes.adopt_orphans()
code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
subprocess.run([sys.executable, "-c", code, sys.argv[1]])
print(processes.strays())
"""


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("import signal; signal.pause()", "is left behind: "),
        ("import os; os._exit(3)", "outlived its parent and ended with 3"),
        ("import os; os.kill(os.getpid(), 9)", ""),
    ],
)
def test_a_process_that_outlives_its_parent_is_detected(does: str, message: str) -> None:
    done = python("-c", STRAY, does, PYBATSCHED_PATIENCE="1" if "pause" in does else f"{PATIENCE_S:g}")
    assert done.returncode == 0, done.stderr
    assert (message in done.stdout, done.stdout == "[]\n") == (True, not message)


# --- the moment ---

MOVES = """
import os, sys
open(sys.argv[1] + ".half", "w").close()
for i in range(3):
    len("abc".replace("a", "b"))
os.replace(sys.argv[1] + ".half", sys.argv[1])
"""


def test_a_process_dies_at_each_call_that_touches_files(tmp_path: Path) -> None:
    """Before each and after each: the file is not there, is half there, is in its place."""
    note, path = tmp_path / "note", tmp_path / "file"

    def run(**plan: object) -> int:
        variables = processes.hooked({"note": str(note), **plan})  # type: ignore[typeddict-item]
        return python("-c", MOVES, str(path), **variables).returncode

    assert run() == 0
    n_files = json.loads(note.read_text())["files"][-1]
    seen = []
    for at in range(1, n_files + 1):
        path.unlink(missing_ok=True)
        path.with_suffix(".half").unlink(missing_ok=True)
        assert run(scale="files", at=at) == -9
        assert json.loads(note.read_text())["stage"] in self_kill.STAGES
        seen.append((path.with_suffix(".half").exists(), path.exists()))
    assert (seen[0], seen[-1]) == ((False, False), (False, True))
    assert seen == sorted(seen, key=[(False, False), (True, False), (False, True)].index)
    assert (True, False) in seen
    assert run(scale="files", at=n_files + 1) == 0
