"""Running campaigns: killed and resumed, with failing cells and killed workers, on this machine and on Dask."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.campaign_runs import campaign, hold, n_done, start, write, write_gated
from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S, no_longer_than, wait_until
from support.places import ROOT
from support.process import run_cli, run_process

from pybatsched.campaign import table, workers
from pybatsched.campaign.store import Store
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.report import provenance

HALTING = f"{ROOT / 'tests' / 'support' / 'halting.py'}:Halting"


def test_a_campaign_ends_in_a_table(tmp_path: Path) -> None:
    spec = write(tmp_path / "s.toml", keep="jobs")
    done = campaign(spec, tmp_path / "out", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "9 of 9 cells done (0 before), 0 failed" in done.stderr
    rows = pl.read_parquet(tmp_path / "out" / "results.parquet")
    assert rows.shape[0] == 9
    assert rows["n_jobs"].to_list() == [20] * 9
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["spec"]["name"] == "trial"
    assert len(manifest["versions"]["code"]) == 64
    jobs = [pl.read_parquet(path) for path in sorted((tmp_path / "out" / "jobs").iterdir())]
    assert [frame.shape[0] for frame in jobs] == [20] * 9
    status = run_cli("campaign", "status", str(tmp_path / "out"))
    assert (status.returncode, status.stdout) == (0, "trial: 9 points, 9 cells\n9 done, 0 failed, 0 left\n")


def test_workers_ignore_a_package_of_the_same_name_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pybatsched").mkdir()
    (tmp_path / "pybatsched" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    assert campaign(write(tmp_path / "s.toml", seeds=1), tmp_path / "out").returncode == 0


def test_files_of_failed_cells_are_marked_incomplete(tmp_path: Path) -> None:
    more = f'[[policy]]\nname = "{HALTING}"\noptions = {{after = 5, then = "raise"}}'
    done = campaign(write(tmp_path / "s.toml", seeds=1, keep="files", more=more), tmp_path / "out")
    assert done.returncode == 7
    states = {
        path: json.loads(path.read_text())["state"] for path in (tmp_path / "out" / "runs").glob("*/run_state.json")
    }
    assert sorted(states.values()) == ["failed", "finished", "finished", "finished"]
    summaries = [json.loads(path.read_text()) for path in (tmp_path / "out" / "runs").glob("*/run_summary.json")]
    assert [summary["prepared"] for summary in summaries] == [{"walltimes": "exact"}] * 3  # of random workloads
    assert {
        dict(provenance.rows_of([SavedRun("", (), 4, summary)], 10.0))["walltimes"][0] for summary in summaries
    } == {"exact"}
    for path, state in states.items():
        shown = run_cli("metrics", str(path).removesuffix("_state.json"))
        assert shown.returncode == (7 if state == "failed" else 0)
        assert ("failed after 5 of 20 jobs" in shown.stdout) is (state == "failed")
    assert table.frame(Store(tmp_path / "out")).height == 3


@pytest.mark.long
def test_a_campaign_of_two_hundred_cells_is_killed_and_resumed(tmp_path: Path) -> None:
    spec = write_gated(tmp_path, seeds=70)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert campaign(spec, whole, "--workers", "2").returncode == 0
    assert len(list((whole / "cells").iterdir())) == 210
    for goal in (40, 80, 120, 160):
        hold(tmp_path, broken, goal)
        process = start(spec, broken, "--resume", "--workers", "2")
        wait_until(lambda: n_done(broken) >= goal, by=process)  # noqa: B023  it waits at once
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    (tmp_path / "gate").unlink()
    before = {path: path.stat().st_mtime_ns for path in (broken / "cells").glob("*.json")}
    assert 160 <= len(before) < 210
    assert not (broken / "results.parquet").exists()
    done = campaign(spec, broken, "--resume", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert f"210 of 210 cells done ({len(before)} before), 0 failed" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before  # nothing was done twice
    assert (broken / "results.parquet").read_bytes() == (whole / "results.parquet").read_bytes()


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"address": "x", "figures": {}}'])
def test_a_damaged_result_is_run_again(damage: str, tmp_path: Path) -> None:
    spec = write(tmp_path / "s.toml", seeds=1)
    assert campaign(spec, tmp_path / "out").returncode == 0
    table_before = (tmp_path / "out" / "results.parquet").read_bytes()
    victim = min((tmp_path / "out" / "cells").iterdir())
    victim.write_text(damage)
    again = campaign(spec, tmp_path / "out", "--resume")
    assert "3 of 3 cells done (2 before), 0 failed" in again.stderr
    assert (tmp_path / "out" / "results.parquet").read_bytes() == table_before


def test_an_existing_campaign_is_not_restarted_without_resume(tmp_path: Path) -> None:
    spec = write(tmp_path / "s.toml", seeds=1)
    assert campaign(spec, tmp_path / "out").returncode == 0
    again = campaign(spec, tmp_path / "out")
    assert again.returncode == 2
    assert "it already contains a campaign; continue it with --resume" in again.stderr


def test_the_directory_of_another_campaign_is_not_resumed(tmp_path: Path) -> None:
    spec, folder = write(tmp_path / "s.toml", seeds=1), tmp_path / "out"
    assert campaign(spec, folder).returncode == 0
    before = (folder / "manifest.json").read_bytes()
    spec.write_text(spec.read_text().replace('"trial"', '"other"'))
    done = campaign(spec, folder, "--resume")
    assert done.returncode == 2
    assert "expected results of other, found those of the campaign 'trial'; use another --output" in done.stderr
    assert (folder / "manifest.json").read_bytes() == before


LOGS = """
name = "trial"
[[workload]]
name = "drawn"
generate = {model = "lublin", procs = 32, jobs = 5}
[[workload]]
name = "logged"
file = "no-such.swf"
[[platform]]
name = "own"
of_workload = true
[[policy]]
name = "fcfs"
"""


def test_a_campaign_without_its_log_leaves_no_directory(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(LOGS)
    done = campaign(tmp_path / "s.toml", tmp_path / "new" / "out")
    assert done.returncode == 2
    assert "no-such.swf" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_campaign_without_its_log_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(LOGS)
    (tmp_path / "out" / "prepared").mkdir(parents=True)
    (tmp_path / "out" / "prepared" / "notes.txt").touch()
    assert campaign(tmp_path / "s.toml", tmp_path / "out").returncode == 2
    assert (tmp_path / "out" / "prepared" / "notes.txt").exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["prepared"]


def test_two_campaigns_in_one_directory_are_rejected(tmp_path: Path) -> None:
    with Store(tmp_path / "out"):
        done = campaign(write(tmp_path / "s.toml"), tmp_path / "out")
    assert done.returncode == 2
    assert "another campaign is running in this directory" in done.stderr


BAD = '''
from pybatsched.core.policy import Policy


class Raises(Policy):
    """Raises at the first job."""

    def on_job_submitted(self, job):
        raise ValueError("no job suits me")

    def decide(self, now):
        print("hello")
        return ()


class Never(Policy):
    """Starts nothing, and says a lot."""

    def decide(self, now):
        print("{}" * 100)
        return ()


class Dies(Policy):
    """Takes the process with it."""

    def decide(self, now):
        import os
        os.kill(os.getpid(), 9)


class Exits(Policy):
    def decide(self, now):
        import os, sys
        sys.stderr.write("".join(f"line {i}\\n" for i in range(20_000)))
        sys.stderr.write("out of luck\\n")
        sys.stderr.flush()
        os._exit(3)


class Faults(Policy):
    def decide(self, now):
        import ctypes
        ctypes.string_at(0)


class Talks(Policy):
    """Never ends."""

    def decide(self, now):
        while True:
            print("bla" * 1000, flush=True)
            has_begun()


class Sleeps(Policy):
    """Never ends."""

    def decide(self, now):
        has_begun()
        import signal
        signal.pause()


def has_begun():
    import os, pathlib
    pathlib.Path(__file__).with_name(f"begun-{os.getpid()}").touch()
'''


class Clock:
    """The clock of the time limit of cells: it stops until only cells that never end are left and have started.

    Then each reading is half a second later.
    """

    def __init__(self, place: Path, n_that_end: int, n_that_never_end: int) -> None:
        self._place = place
        self._n_that_end, self._n_that_never_end = n_that_end, n_that_never_end
        self._now = 0.0

    def monotonic(self) -> float:
        n_begun = len(list(self._place.glob("begun-*")))
        if n_done(self._place / "out") >= self._n_that_end and n_begun == self._n_that_never_end:
            self._now += 0.5
        return self._now


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("Raises", "PolicyError: policy"),
        ("Never", "UnfinishedError: 20 jobs unfinished; the scheduler has not started it"),
        ("Dies", "WorkerDied: its process ended with SIGKILL"),
        ("Exits", "WorkerDied: its process ended with exit code 3; its last output:\nline 19971\n"),
        ("Exits", "line 19999\nout of luck\n"),
        (
            "Faults",
            "WorkerDied: its process ended with SIGSEGV; its last output:\nFatal Python error: Segmentation fault\n",
        ),
        # patience: measured by the test's own clock
        ("Talks", "TimedOut: more time than timeout_s = 2; its last output:\n"),
        # patience: measured by the test's own clock
        ("Sleeps", "TimedOut: more time than timeout_s = 2\n"),
    ],
)
def test_a_failed_cell_stops_no_other(
    policy: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    more = f'[[policy]]\nname = "{tmp_path}/bad.py:{policy}"\n'
    spec = write(tmp_path / "s.toml", seeds=2, more=more)
    if "timeout_s" in message:
        # patience: measured by the test's own clock
        spec.write_text("timeout_s = 2.0\n" + spec.read_text())
        monkeypatch.setattr(workers, "time", Clock(tmp_path, 6, 2))
    done = campaign(spec, tmp_path / "out", "--workers", "2")
    assert done.returncode == 7, done.stderr
    assert "6 of 8 cells done (0 before), 2 failed" in done.stderr
    status = run_cli("campaign", "status", str(tmp_path / "out"))
    assert status.returncode == 7
    assert status.stdout.count(message.splitlines()[-1 if message.startswith("line") else 0]) == 2
    results = [json.loads(path.read_text()) for path in (tmp_path / "out" / "cells").iterdir()]
    errors = [result["error"] + "\n" for result in results if "error" in result]
    assert [message in error for error in errors] == [True, True]
    assert pl.read_parquet(tmp_path / "out" / "results.parquet").shape[0] == 6
    again = campaign(spec, tmp_path / "out", "--resume")
    assert "6 of 8 cells done (6 before), 2 failed" in again.stderr


def test_an_internal_error_is_reported_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pybatsched.campaign import one_cell

    def fails(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(one_cell, "load", fails)
    result = one_cell.run_or_error({"address": "a", "workload": {"path": "w.json"}})
    first, *more = result["error"].splitlines()
    assert first == "MemoryError: no room"
    assert more[-1].strip().startswith("raise MemoryError")
    assert "in run_cell" in result["error"]


def test_an_interrupt_leaves_no_workers(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    spec = write(tmp_path / "s.toml", seeds=2, more=f'[[policy]]\nname = "{tmp_path}/bad.py:Sleeps"\n')
    process = start(spec, tmp_path / "out", "--workers", "2")
    wait_until(lambda: n_done(tmp_path / "out") == 6 and len(list(tmp_path.glob("begun-*"))) == 2, by=process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 130
    assert f"; finished cells are kept in {tmp_path / 'out'}; continue with --resume\n" in errors
    assert not any(Path(f"/proc/{child}").exists() for child in children)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("campaign")
    assert campaign(write(place / "s_|&.toml", seeds=2), place / "out").returncode == 0
    return place / "out"


def test_tables(finished: Path) -> None:
    def shown(*args: str) -> str:
        done = run_cli("campaign", "table", str(finished), *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert len(shown().splitlines()) == 7
    by_policy = shown("--by", "policy,options", "--figures", "n_jobs").splitlines()
    assert by_policy[1].split() == ["easy", '{"order":', '"fcfs"}', "2", "20"]
    assert shown("--by", "policy", "--format", "csv").startswith("policy,points,n_jobs,")
    markdown = shown("--format", "markdown", "--figures", "n_jobs").splitlines()
    assert markdown[1] == "|---|---|---|---|---|---|---|"
    latex = shown("--by", "options", "--format", "latex", "--figures", "mean_wait_s")
    assert r"""\{"order": "fcfs"\} & 2 &""" in latex
    assert r"mean\_wait\_s" in latex
    assert len(shown("--figures", "all", "--format", "csv").splitlines()[0].split(",")) > 50


def test_wrong_columns_list_those_there_are(finished: Path) -> None:
    done = run_cli("campaign", "table", str(finished), "--figures", "beauty")
    assert done.returncode == 2
    assert "unknown column 'beauty'; expected some of workload, platform" in done.stderr
    assert run_cli("campaign", "table", str(finished.parent)).returncode == 2
    assert run_cli("campaign", "status", str(finished.parent)).returncode == 2


def address_in(file: Path) -> str:
    """Return the address in a scheduler's file; empty as long as the file is not there, or not whole."""
    try:
        return str(json.loads(file.read_text())["address"])
    except (FileNotFoundError, ValueError):
        return ""


@contextlib.contextmanager
def dask_cluster(place: Path, n_workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A real scheduler and worker processes of Dask, on this machine."""
    env = os.environ | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10"}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": place, "env": env}
    dask = [sys.executable, "-m", "dask"]
    command = [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    command += ["--scheduler-file", "dask.json"]
    processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL, **quiet)]
    try:
        wait_until(lambda: address_in(place / "dask.json"), by=processes[0])
        address = address_in(place / "dask.json")
        worker = [*dask, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        worker += ["--local-directory", str(place)]
        processes += [subprocess.Popen(worker, stderr=subprocess.DEVNULL, **quiet) for _ in range(n_workers)]
        yield address, processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait(PATIENCE_S)


def test_dask_gives_the_same_table_even_if_a_worker_is_killed(tmp_path: Path) -> None:
    spec = write_gated(tmp_path, seeds=20, jobs=60)
    assert campaign(spec, tmp_path / "local").returncode == 0
    hold(tmp_path, tmp_path / "dask", 10)
    with dask_cluster(tmp_path, 2) as (address, members):
        process = start(spec, tmp_path / "dask", "--dask", address)
        wait_until(lambda: n_done(tmp_path / "dask") >= 10, by=process)
        members[0].kill()
        (tmp_path / "gate").unlink()
        _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 0, errors
    assert "60 of 60 cells done (0 before), 0 failed" in errors
    assert (tmp_path / "dask" / "results.parquet").read_bytes() == (tmp_path / "local" / "results.parquet").read_bytes()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        # patience: the event that ends the wait never comes, so any time will do
        ("Sleeps", "TimedOut: more time than timeout_s = 0.5\n"),
        pytest.param(
            "Exits", "WorkerDied: its process ended with exit code 3; its last output:\n", marks=pytest.mark.long
        ),
    ],
)
def test_cells_on_dask_have_time_limits_and_report_worker_errors(policy: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    spec = write(tmp_path / "s.toml", seeds=2)
    more = ("campaign", "run", str(spec), "--output", str(tmp_path / "out"), "--dask")
    with dask_cluster(tmp_path, 1) as (address, members):
        assert run_process(*more, address).returncode == 0  # without a limit, so they have all the time they need
        write(spec, seeds=2, more=f'[[policy]]\nname = "bad.py:{policy}"\n')
        if "timeout_s" in message:
            # patience: the event that ends the wait never comes, so any time will do
            spec.write_text("timeout_s = 0.5\n" + spec.read_text())
        done = run_process(*more, address, "--resume")
        assert [member.poll() for member in members] == [None]  # no worker of Dask was lost
    assert done.returncode == 7, done.stderr
    assert "6 of 8 cells done (6 before), 2 failed" in done.stderr
    assert run_cli("campaign", "status", str(tmp_path / "out")).stdout.count(message) == 2


class EnoughError(Exception):
    """A test has received enough."""


def test_the_progress_line_on_dask_counts_running_cells(tmp_path: Path) -> None:
    from pybatsched.campaign.all_cells import Progress, run_campaign
    from pybatsched.campaign.on_dask import DaskWorkers
    from pybatsched.campaign.spec import read_spec

    (tmp_path / "bad.py").write_text(BAD)
    spec = write(tmp_path / "s.toml", seeds=2, more='[[policy]]\nname = "bad.py:Sleeps"\n')
    received: list[tuple[int, int]] = []

    def note(progress: Progress) -> None:
        received.append((progress.n_left, progress.n_running))
        if (
            received[-20:] == [received[-1]] * 20 and progress.n_running
        ):  # no result arrives, but progress is still reported
            raise EnoughError

    with dask_cluster(tmp_path, 1) as (address, _), Store(tmp_path / "out") as store:
        campaign_of = read_spec(spec)
        crew = functools.partial(DaskWorkers, address, store.run_folder)
        with no_longer_than(PATIENCE_OF_WORK_S), pytest.raises(EnoughError):
            run_campaign(campaign_of, store, [], crew, spec_folder=tmp_path, on_progress=note)
    assert {n_running for _, n_running in received} == {0, 1}  # one thread, however many cells wait


def test_losing_the_dask_scheduler_keeps_finished_cells(tmp_path: Path) -> None:
    spec = write_gated(tmp_path, seeds=20, jobs=60)
    hold(tmp_path, tmp_path / "dask", 5)
    with dask_cluster(tmp_path, 1) as (address, _):
        process = start(spec, tmp_path / "dask", "--dask", address)
        wait_until(lambda: n_done(tmp_path / "dask") >= 5, by=process)
    (tmp_path / "gate").unlink()
    _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 4, errors
    status = run_cli("campaign", "status", str(tmp_path / "dask")).stdout
    assert ", 0 failed, " in status
    assert campaign(spec, tmp_path / "dask", "--resume").returncode == 0


_WITHOUT_PATIENCE = """
import sys
from pybatsched.campaign import on_dask
from pybatsched.cli import main
on_dask.CONNECT_S = 1
sys.exit(main(sys.argv[1:]))
"""


def test_no_dask_scheduler(tmp_path: Path) -> None:
    args = ("campaign", "run", write(tmp_path / "s.toml"), "--output", tmp_path / "o", "--dask", "127.0.0.1:1")
    command = [sys.executable, "-c", _WITHOUT_PATIENCE, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_OF_WORK_S, check=False)
    assert done.returncode == 4
    assert re.search(r"127\.0\.0\.1:1: no Dask scheduler answers at this address", done.stderr)
