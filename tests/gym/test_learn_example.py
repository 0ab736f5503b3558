"""The example of a learning agent: it is deterministic, and its output runs as a policy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.packages import needed_for, without
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT, TRACES
from support.process import run_cli

from pybatsched.workload.generate.models import Recipe, generate

LEARN = ROOT / "examples" / "learn.py"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Five weeks of a small machine, as a log."""
    jobs = generate(Recipe("lublin", 16, seed=5, days=50, load=0.9))
    rows: list[str] = []
    for job in jobs.jobs:
        run_s = round(jobs.profiles[job["profile"]]["delay"]) or 1
        asked = f"{job['res']} -1 -1 {job['res']} {3 * run_s} -1 1 1 1 -1 1 -1 -1 -1"
        rows.append(f"{len(rows) + 1} {round(job['subtime'])} 0 {run_s} {asked}\n")
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 16\n" + "".join(rows))
    return path


def learn(*arguments: str, command: list[str] | None = None, cwd: Path) -> list[str]:
    done = subprocess.run(
        [*(command or [sys.executable, str(LEARN)]), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_OF_WORK_S,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("learnt in")]


def test_what_it_learns_runs_as_a_policy(log: Path, tmp_path: Path) -> None:
    output = learn(str(log), "--quick", "--output", "one", cwd=tmp_path)
    assert output[0] == "log.swf: 2 busy weeks for training, and 2 later ones for the test"
    titles = next(line for line in output if line.startswith("mean bounded slowdown"))
    assert titles.split()[4:] == ["fcfs", "easy", "easy,", "sjf", "learnt"]
    args = ("--procs", "16", "-w", str(log), "--policy", "rl", "-o", "agent=one/agent.py:agent", "-o", "window=128")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0


@pytest.mark.long
def test_the_same_seed_learns_the_same(log: Path, tmp_path: Path) -> None:
    first = learn(str(log), "--quick", "--output", "one", cwd=tmp_path)
    again = learn(str(log), "--quick", "--output", "two", cwd=tmp_path)
    other = learn(str(log), "--quick", "--output", "three", "--seed", "2", cwd=tmp_path)
    assert [line.replace("one/", "two/") for line in first] == again
    agents = [(tmp_path / name / "agent.py").read_text() for name in ("one", "two", "three")]
    assert agents[0] == agents[1]
    assert agents[0] != agents[2]
    assert first[1:] != other[1:]
    assert (tmp_path / "one" / "weeks.png").read_bytes() == (tmp_path / "two" / "weeks.png").read_bytes()


def test_only_the_figure_needs_matplotlib(log: Path, tmp_path: Path) -> None:
    lacking = needed_for("plot") - needed_for("rl")
    assert "matplotlib" in lacking
    program = tmp_path / "program.py"
    program.write_text(
        f"import runpy, sys\nsys.argv = ['learn', {str(log)!r}, '--quick']\n"
        f"runpy.run_path({str(LEARN)!r}, run_name='__main__')\n"
    )
    done = learn(command=without(lacking, program), cwd=tmp_path)
    assert "no chart: it needs matplotlib, pip install '.[plot]'" in done
    assert (tmp_path / "out" / "learn" / "agent.py").exists()


def test_without_a_log_it_says_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(LEARN), "gone.swf"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_OF_WORK_S,
    )
    assert done.returncode == 2
    message = "learn.py: error: log gone.swf does not exist; give another one, or set PYBATSCHED_TRACES to "
    assert f"{message}the directory of SDSC-SP2-1998-4.2-cln.swf.gz\n" in done.stderr


@pytest.mark.skipif(not (TRACES / "SDSC-SP2-1998-4.2-cln.swf.gz").exists(), reason="SDSC-SP2 is not at hand")
def test_on_sdsc_sp2(tmp_path: Path) -> None:
    log = str(TRACES / "SDSC-SP2-1998-4.2-cln.swf.gz")
    done = learn(log, "--quick", "--output", "out", cwd=tmp_path)
    assert done[0] == "SDSC-SP2-1998-4.2-cln.swf.gz: 2 busy weeks for training, and 2 later ones for the test"


NO_LOG = (
    "the file is neither a log (SWF, Slurm) nor a workload of Batsim (JSON); a table (CSV) needs "
    "mapping, which `pybatsched workload describe-table` proposes"
)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("notes.txt", f"notes.txt: line 1: expected at least 18 fields, found 3; {NO_LOG}\n"),
        ("log.swf --output notes.txt", "File exists: 'notes.txt'"),
    ],
)
def test_errors_have_no_traceback(args: str, message: str, log: Path) -> None:
    (log.parent / "notes.txt").write_text("not a log\n")
    done = subprocess.run(
        [sys.executable, str(LEARN), *args.split()],
        cwd=log.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_OF_WORK_S,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
