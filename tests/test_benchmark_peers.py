"""The benchmark with other programs: inputs, tables, and reports of missing or failing programs. No speed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.packages import pins_in
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT, module_of
from support.platforms import read_platform

from pybatsched.workload import load


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    module = module_of("peers", ROOT / "benchmarks" / "peers.py")
    for limit in ("PATIENCE_S", "GRACE_S"):
        monkeypatch.setattr(module, limit, PATIENCE_OF_WORK_S)
    return module


@pytest.fixture
def alone(peers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The benchmark on a machine with nothing but pybatsched."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(peers.programs, "BUILD", tmp_path)
    return peers


def row(peers: Any, name: str, scheduler_s: float, simulator_s: float = 0.0, **more: Any) -> Any:
    """Make a row of two jobs by hand: `a` starts at 0, `b` at 10 or as given; half a second of it is the start."""
    starts = {"a": 0.0, "b": more.pop("b", 10.0)}
    n_exchanges = more.pop("n_exchanges", 0)
    case = peers.Case(name, list, more.pop("policy", "easy"), wired=bool(n_exchanges), **more)
    return peers.Row(case, peers.Taken(scheduler_s, simulator_s, starts), peers.Taken(0.5, 0.0, starts), n_exchanges)


def test_communicating_jobs_send_as_much_as_they_compute(peers: Any, tmp_path: Path) -> None:
    """At full speed a job of several processors sends 20 MB/s over the backbone, whatever its size."""
    jobs = peers.programs.random_workload(30, 32, 0.9)
    run_s = [jobs.profiles[job["profile"]]["delay"] for job in jobs.jobs]
    peers.programs.let_communicate(jobs)
    for job, seconds in zip(jobs.jobs, run_s, strict=True):
        n, profile = job["res"], jobs.profiles[job["profile"]]
        assert (profile["type"], profile["cpu"], job["walltime"]) == (
            "parallel_homogeneous",
            seconds * 1e9,
            20 * seconds,
        )
        assert n * (n - 1) * profile["com"] == pytest.approx(seconds * 20e6 if n > 1 else 0)
    made = peers.programs.write_communicating(jobs, tmp_path / "input")
    platform = read_platform(made.platform)
    assert (platform.n_procs, platform.network is None) == (32, False)
    assert [job["id"] for job in load(made.workload).jobs] == [job["id"] for job in jobs.jobs]


def test_only_simulators_with_a_network_run_communicating_jobs(alone: Any, capsys: pytest.CaptureFixture[str]) -> None:
    args = [
        "--communicating", "--jobs", "20", "--procs", "8", "--rounds", "1", "--only", "easy, pure", "--only", "Acca",
    ]  # fmt: skip
    assert alone.main(args) == 0
    output = capsys.readouterr().out
    assert "20 communicating jobs on 8 processors" in output
    assert "| embedded simulator, easy, pure Python |" in output
    assert "AccaSim" not in output


def test_all_input_files_have_the_same_jobs(peers: Any, tmp_path: Path) -> None:
    drawn = peers.programs.random_workload(50, 32, 0.9)
    made = peers.programs.write_input(drawn, tmp_path / "input")
    workloads = [load(path, walltimes="requested-strict") for path in (made.workload, made.log)]
    jobs = [
        [
            (str(job["id"]), job["subtime"], job["res"], workload.profiles[job["profile"]]["delay"], job["walltime"])
            for job in workload.jobs
        ]
        for workload in workloads
    ]
    assert jobs[0] == jobs[1]
    assert len(jobs[0]) == 50
    for _, submitted_at, _, run_s, walltime_s in jobs[0]:
        assert submitted_at == int(submitted_at)
        assert walltime_s == 2 * run_s == 2 * int(run_s) > 0
    assert [workload.n_procs for workload in workloads] == [32, 32]
    assert made.submitted == {name: submitted_at for name, submitted_at, *_ in jobs[0]}
    for n_cores, n_nodes in ((1, 32), (16, 2)):
        system = json.loads((tmp_path / "input" / f"cores-{n_cores}.config").read_text())
        assert system["groups"]["node"]["core"] == n_cores
        assert system["resources"]["node"] == n_nodes


def test_missing_programs_are_reported(alone: Any) -> None:
    missing = {case.name: case.missing for case in alone.programs.all_cases(32)}
    assert missing == {
        "Batsim + batsched, easy_bf_fast": "no batsim on the PATH",
        "Batsim + batsched, easy_bf": "no batsim on the PATH",
        "Batsim + batsched, conservative_bf": "no batsim on the PATH",
        "Batsim + pybatsim, easyBackfill": "no batsim on the PATH",
        "Batsim + pybatsched, easy, pure Python": "no batsim on the PATH",
        "Batsim + pybatsched, easy, pure Python, once more": "no batsim on the PATH",
        "Batsim + pybatsched, easy, compiled": "no batsim on the PATH",
        "Batsim + pybatsched, conservative, pure Python": "no batsim on the PATH",
        "Batsim + pybatsched, conservative, compiled": "no batsim on the PATH",
        "embedded simulator, easy, pure Python": "",
        "embedded simulator, easy, pure Python, once more": "",
        "embedded simulator, easy, compiled": "no build/fresh; `make wheel` makes it",
        "embedded simulator, conservative, pure Python": "",
        "embedded simulator, conservative, compiled": "no build/fresh; `make wheel` makes it",
        "AccaSim, EASY and first fit, 32 nodes of 1": "no build/accasim; `make build/accasim/ready` makes it",
        "AccaSim, EASY and first fit, 2 nodes of 16": "no build/accasim; `make build/accasim/ready` makes it",
    }


def test_with_batsim_alone_the_other_programs_are_reported_missing(alone: Any, tmp_path: Path) -> None:
    (tmp_path / "batsim").touch(mode=0o755)
    missing = {case.name: case.missing for case in alone.programs.all_cases(32)}
    assert missing["Batsim + batsched, easy_bf"] == "no batsched on the PATH"
    assert missing["Batsim + pybatsim, easyBackfill"] == "no build/foreign; `make build/foreign/ready` makes it"
    assert missing["Batsim + pybatsched, easy, pure Python"] == ""
    assert missing["Batsim + pybatsched, easy, compiled"] == "no build/fresh; `make wheel` makes it"


@pytest.mark.long
def test_a_run_without_other_programs(alone: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert alone.main(["--jobs", "30", "--procs", "32", "--rounds", "1"]) == 0
    output = capsys.readouterr().out
    lines = output.splitlines()
    assert lines[0].startswith("30 jobs on 32 processors, load 0.9; median of 1; CPython ")
    names = [line.split(" | ")[0] for line in lines if line.startswith("| e")]
    ours = ["easy, pure Python", "easy, pure Python, once more", "conservative, pure Python"]
    assert names == [f"| embedded simulator, {name}" for name in ours] * 2
    assert "| embedded simulator, easy, pure Python | 30 | " in output
    assert output.count("control: the same case twice, ") == 1
    assert "not run: Batsim + batsched, easy_bf_fast: no batsim on the PATH\n" in output
    assert "ERROR" not in output


def test_zero_rounds_are_rejected(peers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        peers.main(["--rounds", "0"])
    assert "--rounds: expected 1 or more" in capsys.readouterr().err


def test_a_failing_program_is_reported_and_the_others_continue(
    alone: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_place: object) -> list[str]:
        return [sys.executable, "-c", "raise SystemExit('no such policy')"]

    def lazy(_place: object) -> list[str]:
        return [sys.executable, "-c", ""]

    good = next(case for case in alone.programs.all_cases(8) if case.name == alone.REFERENCE)
    cases = [good._replace(name="broken", command=broken), good._replace(name="lazy", command=lazy), good]
    monkeypatch.setattr(alone.programs, "all_cases", lambda _n_procs: cases)
    assert alone.main(["--jobs", "5", "--procs", "8", "--rounds", "2"]) == 1
    output = capsys.readouterr()
    assert f"ERROR: broken: {Path(sys.executable).name} ended with exit code 1: no such policy\n" in output.out
    assert "ERROR: lazy: expected 5 successful jobs, found 0\n" in output.out
    assert output.err.count("broken") == 1  # not tried again
    assert f"| {alone.REFERENCE} | 5 | " in output.out


def test_a_program_that_waits_for_a_failed_one_is_ended(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "GRACE_S", 0.0)
    commands = ([sys.executable, "-c", "raise SystemExit(3)"], [sys.executable, "-c", "import signal; signal.pause()"])
    processes = [peers.subprocess.Popen(command) for command in commands]
    used = peers.finish(processes)
    assert [process.returncode for process in processes] == [3, -9]
    assert len(used) == 2


def test_the_program_that_failed_first_is_named(alone: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(alone, "GRACE_S", 0.0)
    (tmp_path / "batsim").write_text("#!/bin/sh\necho no such platform\nexit 5\n")
    (tmp_path / "batsim").chmod(0o755)
    waiting = alone.Case("x", lambda _: [sys.executable, "-c", "import signal; signal.pause()"], "easy", wired=True)
    files = alone.programs.write_input(alone.programs.random_workload(3, 8, 0.9), tmp_path / "input")
    with pytest.raises(alone.RunError, match="^batsim ended with exit code 5: no such platform$"):
        alone.run(waiting, alone.RunPaths(files, tmp_path / "out", alone.free_port()))


def test_what_the_benchmark_installs_is_pinned() -> None:
    names = [line for line in (ROOT / "benchmarks" / "peers.txt").read_text().splitlines() if line[0] != "#"]
    assert names
    assert set(names) <= set(pins_in())


def test_the_table_of_costs(peers: Any) -> None:
    rows = [row(peers, "Batsim + x", 1.5, 2.0, n_exchanges=2000), row(peers, peers.REFERENCE, 1.75)]
    assert peers.cost_table(rows, 7000) == (
        "|  | CPU s: scheduler | simulator | sum | of it start | jobs/s | ratio | scheduler µs an exchange |\n"
        "|---|---|---|---|---|---|---|---|\n"
        "| Batsim + x | 1.50 | 2.00 | 3.50 | 0.50 | 2,000 | 2.00 | 500 |\n"
        f"| {peers.REFERENCE} |  |  | 1.75 | 0.50 | 4,000 | 1.00 |  |"
    )


def test_the_table_of_schedules(peers: Any) -> None:
    rows = [row(peers, "theirs", 1.0, b=1200.0, n_exchanges=1234), row(peers, "ours", 1.0, ours=True)]
    assert peers.schedule_table(rows, {"a": 0.0, "b": 4.0}) == (
        "|  | jobs | mean wait s | start as ours | exchanges |\n"
        "|---|---|---|---|---|\n"
        "| theirs | 2 | 598 | 50.0 % | 1,234 |\n"
        "| ours | 2 | 3 | 100.0 % |  |"
    )


def test_the_control_rows_give_the_noise(peers: Any) -> None:
    rows = [row(peers, "a", 2.0), row(peers, "a, once more", 2.1), row(peers, "b", 1.0)]
    rows += [row(peers, "c", 2.0, 8.0), row(peers, "c, once more", 3.0, 8.0)]
    assert peers.noise(rows) == [
        "control: the same case twice, a: sum 1.05",
        "control: the same case twice, c: sum 1.10, scheduler alone 1.50",
    ]


def test_only_our_own_schedules_have_to_be_the_same(peers: Any) -> None:
    rows = [
        row(peers, "wire", 1.0, ours=True),
        row(peers, "theirs", 1.0, b=11.0),
        row(peers, "plans", 1.0, b=12.0, ours=True, policy="conservative"),
        row(peers, "embedded", 1.0, b=11.0, ours=True),
    ]
    assert peers.differences(rows) == ["embedded: 1 jobs start at other times than in wire"]


def test_the_median_is_one_of_the_runs(peers: Any) -> None:
    runs = [peers.Taken(a, b, {}) for a, b in ((1.0, 3.0), (2.0, 1.0), (4.0, 1.0))]
    assert peers.median(runs) == runs[0]
    assert peers.median(runs[1:]) == runs[1]


def test_accasims_table_is_read(peers: Any, tmp_path: Path) -> None:
    (tmp_path / "sched-log.swf").write_text(
        "1;1;1970-01-01 00:00:01__1;1#2;1#__1970-01-01 00:00:01;1970-01-01 00:01:41;2;2;NA;100;\n"
        "4;1;1970-01-01 00:00:04__1;1#__1970-01-02 00:01:41;1970-01-02 00:02:31;1;1;NA;50;\n"
    )
    assert peers.starts_of(tmp_path) == {"1": 1.0, "4": 86_501.0}


@pytest.mark.batsim
def test_with_all_programs_of_this_machine(peers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Batsim and all present programs finish all jobs, and our schedules are the same over a socket and embedded."""
    assert peers.main(["--jobs", "40", "--procs", "32", "--rounds", "1"]) == 0
    output = capsys.readouterr().out
    assert "| Batsim + pybatsched, easy, pure Python | 40 | " in output
    assert "ERROR" not in output
