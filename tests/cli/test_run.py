"""`pybatsched run`: scheduler and Batsim in one command, with a replacement for Batsim that can fail on purpose."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_S, wait_until
from support.places import ROOT
from support.process import run_cli
from support.simulated import rows

from pybatsched.results.run_state import SUFFIXES

STAND_IN = ROOT / "tests" / "support" / "stand_in.py"
PUSHY = ROOT / "tests" / "support" / "pushy.py"
HALTING = f"{ROOT / 'tests' / 'support' / 'halting.py'}:Halting"
WORKLOAD = ROOT / "examples" / "workload.json"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the stand-in as `batsim` on the PATH."""
    program = tmp_path / "bin" / "batsim"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN_PID", str(tmp_path / "pid"))
    monkeypatch.setenv("STAND_IN_ARGS", str(tmp_path / "args"))
    return tmp_path


def run(place: Path, *more: str, policy: str = "easy") -> subprocess.CompletedProcess[str]:
    args = ("-p", str(ROOT / "platforms" / "cluster32.xml"), "-w", str(WORKLOAD), "--policy", policy, "-e", "out/r")
    return run_cli("run", *args, *more, cwd=place)


def is_running(place: Path) -> bool:
    """Return whether the stand-in still runs; a zombie does not."""
    try:
        status = Path(f"/proc/{(place / 'pid').read_text()}/status").read_text()
    except FileNotFoundError:
        return False
    return "State:\tZ" not in status


def assert_gone(place: Path) -> None:
    wait_until(lambda: not is_running(place))


def test_a_run_gives_the_table_and_the_files_of_simulate(place: Path) -> None:
    done = run(place)
    assert done.returncode == 0, done.stderr
    args = ("-p", str(ROOT / "platforms" / "cluster32.xml"), "-w", str(WORKLOAD), "--policy", "easy", "-e", "out/s")
    simulated = run_cli("simulate", *args, cwd=place)
    assert done.stdout == simulated.stdout
    assert rows(place / "out" / "r_jobs.csv") == rows(place / "out" / "s_jobs.csv")
    one, other = (json.loads((place / "out" / f"{name}_summary.json").read_text()) for name in "rs")
    assert one["figures"] == other["figures"]
    assert one["versions"]["batsim"] == "4.2.1"
    assert_gone(place)


def test_replaced_results_are_reported(place: Path) -> None:
    assert "replaced the results" not in run(place).stderr + run(place).stderr
    on = f"on {WORKLOAD}"
    replaced = f"replaced the results of policy easy {on} with those of policy fcfs {on}"
    message = f"out/r: {replaced} (different: policy)\n"
    assert message in run(place, policy="fcfs").stderr
    assert run(place, "-q").stderr == ""


def test_batsim_gets_what_the_policy_needs_and_what_the_user_adds(place: Path) -> None:
    done = run(place, "--", "--disable-machine-state-tracing", policy=f"{PUSHY}:Ruthless")
    assert done.returncode == 0, done.stderr
    args = (place / "args").read_text().splitlines()
    assert "--enable-dynamic-jobs" in args
    assert "--disable-machine-state-tracing" in args
    assert not (place / "out" / "r_machine_states.csv").exists()
    # A job that was killed and went on as another is still one job.
    assert "jobs completed                            30" in done.stdout
    assert run(place, "--", "--enable-dynamic-jobs", policy=f"{PUSHY}:Ruthless").returncode == 0
    assert (place / "args").read_text().splitlines().count("--enable-dynamic-jobs") == 1


def test_options_passed_through_batsim_cannot_name_policy_files(place: Path) -> None:
    (place / "mine.py").write_text("raise SystemExit('it was run')\n")
    done = run(place, "--", "--sched-cfg", '{"principal": "mine.py:Mine"}', policy="redirection")
    assert done.returncode == 2
    assert "option principal (from Batsim's --sched-cfg): 'mine.py:Mine' is a Python file" in done.stderr
    assert "it was run" not in done.stderr


def test_machines_by_name_and_logs_become_files_for_batsim(place: Path) -> None:
    (place / "log.swf").write_text("; MaxProcs: 4\n1 0 -1 10 2 -1 -1 2 20 1500 1 1 1 1 1 1 -1 -1\n")
    args = ("-p", "sx-aurora", "-w", "log.swf", "--walltimes", "exact", "--policy", "fcfs", "-e", "deep/er/x")
    done = run_cli("run", *args, "--memory-unit", "MB", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "<platform" in (place / "deep" / "er" / "x_platform.xml").read_text()
    (job,) = json.loads((place / "deep" / "er" / "x_w0.json").read_text())["jobs"]
    assert (job["walltime"], job["memory_gb"]) == (11, 1.5)
    assert json.loads((place / "deep" / "er" / "x_summary.json").read_text())["memory_unit"] == "MB"
    args_of_batsim = (place / "args").read_text().splitlines()
    assert args_of_batsim[:4] == ["-p", "deep/er/x_platform.xml", "-w", "deep/er/x_w0.json"]


def test_a_part_of_a_batsim_file_becomes_a_file_for_batsim(place: Path) -> None:
    content = json.loads(WORKLOAD.read_text())
    for number, job in enumerate(content["jobs"]):
        job["partition"] = number % 3
    (place / "w.json").write_text(json.dumps(content))
    args = ("-p", "ricc-node@0.1", "-w", "w.json", "--policy", "fcfs", "-e", "x")
    assert run_cli("run", *args, "--partition", "2", "--units", "node", cwd=place).returncode == 0
    jobs = json.loads((place / "x_w0.json").read_text())["jobs"]
    wanted = sorted((job for job in content["jobs"] if job["partition"] == 2), key=lambda job: float(job["subtime"]))
    assert [(job["id"], job["res"]) for job in jobs] == [(job["id"], -(-job["res"] // 8)) for job in wanted]
    assert "x_w0.json" in (place / "args").read_text().splitlines()


def test_a_bad_field_is_reported_before_batsim_starts(place: Path) -> None:
    content = json.loads(WORKLOAD.read_text())
    content["jobs"][7]["memory_gb"] = "much"
    (place / "w.json").write_text(json.dumps(content))
    done = run_cli("run", "-p", "sx-ace", "-w", "w.json", "--policy", "ujfb", "-e", "x", cwd=place)
    assert done.returncode == 2
    assert 'w.json: job "07", field memory_gb: expected gigabytes per processor from 0, found "much"' in done.stderr
    assert not (place / "pid").exists()


def test_a_journal_can_be_replayed(place: Path) -> None:
    assert run(place, "--journal", "run.pbj").returncode == 0
    assert run_cli("replay", "run.pbj", cwd=place).returncode == 0


@pytest.mark.parametrize("how", ["", "deadlock-abort", "slow-end"])
def test_a_deadlock_lists_each_job(how: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batsim 4.2 exits with 0 and prints nothing; with SimGrid 3.25 it aborts."""
    monkeypatch.setenv("STAND_IN", how)
    done = run(place, policy=f"{PUSHY}:Lazy")
    assert done.returncode == 5, done.stderr
    assert "jobs unfinished" in done.stdout
    assert "w0!00 (16 processors, submitted at 7.6): the scheduler has not started it" in done.stderr
    summary = json.loads((place / "out" / "r_summary.json").read_text())
    assert (summary["finished"], summary["n_unfinished"]) == (False, 30)


def test_a_job_missing_in_batsims_output_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "lose-a-job")
    done = run(place)
    assert done.returncode == 5
    assert "it has no row in out/r_jobs.csv, so Batsim lost it" in done.stderr


@pytest.mark.parametrize(
    ("how", "code", "messages"),
    [
        ("early", 2, ["Batsim did not start: Batsim ended with exit code 134 before its first", "file: no master"]),
        ("crash", 4, ["Batsim ended with exit code 139 after message 1", "Segmentation fault"]),
        ("crash-late", 4, ["Batsim ended with exit code 139"]),
    ],
)
def test_a_batsim_that_crashes_is_reported(
    how: str, code: int, messages: list[str], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", how)
    (place / "deadlock.json").write_text(WORKLOAD.read_text())  # a name is no verdict
    done = run(place, "-w", "deadlock.json")
    assert done.returncode == code
    assert all(message in done.stderr for message in messages), done.stderr


def start(place: Path, *more: str) -> subprocess.Popen[str]:
    given = ("-p", "sx-ace", "-w", str(WORKLOAD), "--policy", "easy", *more)
    command = [sys.executable, "-m", "pybatsched", "run", *given]
    process = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: (place / "pid").exists() and (place / "pid").read_text(), by=process)
    return process


def files(place: Path) -> dict[str, bytes]:
    """Return the results that are in their places, with Batsim's log."""
    found = {suffix: place / "out" / f"r{suffix}" for suffix in SUFFIXES}
    return {suffix: path.read_bytes() for suffix, path in found.items() if path.exists()}


def test_a_finished_run_leaves_no_partial_files(place: Path) -> None:
    assert run(place).returncode == 0
    before = files(place)
    suffixes = ("jobs.csv", "schedule.csv", "schedule.trace", "machine_states.csv", "summary.json", "batsim.log")
    results = {f"r_{suffix}" for suffix in suffixes}
    assert {path.name for path in (place / "out").iterdir()} == results | {"r_state.json"}
    summary = json.loads((place / "out" / "r_summary.json").read_text())["batsim_args"]
    assert summary[summary.index("-e") + 1] == "out/r"
    mark = json.loads((place / "out" / "r_state.json").read_text())
    assert (mark["state"], mark["n_jobs"], mark["n_over"]) == ("finished", 30, 30)
    assert run(place).returncode == 0
    assert files(place) == before


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("how", "code", "n_over"), [("early", 2, 0), ("crash", 4, 0), ("crash-late", 4, 30), ("raise", 6, 5)]
)
def test_a_failed_run_keeps_earlier_results(
    how: str, code: int, n_over: int, is_first: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_first:
        assert run(place).returncode == 0
    before = files(place)
    monkeypatch.setenv("STAND_IN", how)
    policy = HALTING if how == "raise" else "easy"
    options = ("-o", "then=raise", "-o", "after=5") if how == "raise" else ()
    done = run(place, *options, policy=policy)
    assert done.returncode == code, done.stderr
    assert f"failed after {n_over} of 30 jobs; its files are out/r.part_*" in done.stderr
    assert files(place) == before
    mark = json.loads((place / "out" / "r_state.json").read_text())
    assert (mark["state"], mark["n_jobs"], mark["n_over"], mark["exit_code"]) == ("failed", 30, n_over, code)
    assert (place / "out" / "r.part_batsim.log").exists()
    shown = run_cli("metrics", "out/r", cwd=place)
    if is_first:
        assert (shown.returncode, "out/r: failed after" in shown.stdout) == (7, True)
    else:
        assert (shown.returncode, "failed" in shown.stdout) == (0, False)
        assert f"results of an earlier run; the last one: failed after {n_over} of 30 jobs" in shown.stderr
    monkeypatch.delenv("STAND_IN")
    assert run(place).returncode == 0
    assert not list((place / "out").glob("r.part*_*"))


@pytest.mark.parametrize(("signum", "state"), [(signal.SIGTERM, "interrupted"), (signal.SIGKILL, "running")])
def test_a_stopped_run_keeps_earlier_results(
    signum: int, state: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(place).returncode == 0
    before = files(place)
    (place / "pid").unlink()
    monkeypatch.setenv("STAND_IN", "wait")
    process = start(place, "-e", "out/r")
    shown = run_cli("metrics", "out/r", cwd=place)
    assert (shown.returncode, "the last one: still running (out/r.part_*" in shown.stderr) == (0, True)
    process.send_signal(signum)
    process.communicate(timeout=PATIENCE_S)
    assert files(place) == before
    assert json.loads((place / "out" / "r_state.json").read_text())["state"] == state
    message = "interrupted after 0 of 30 jobs" if state == "interrupted" else "broke off"
    assert f"the last one: {message} (out/r.part_*" in run_cli("metrics", "out/r", cwd=place).stderr
    assert_gone(place)


def test_two_runs_with_the_same_prefix_are_rejected(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "hang")
    process = start(place, "-e", "out/r")
    try:
        second = run(place)
        assert second.returncode == 2
        assert "-e out/r: another run is writing out/r.part_*; wait for its end" in second.stderr
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    assert_gone(place)
    monkeypatch.delenv("STAND_IN")
    assert run(place).returncode == 0
    assert not list((place / "out").glob("*lock*"))


@pytest.mark.parametrize("how", ["hang", "stubborn", "wait"])
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_scheduler_and_batsim(
    how: str, signum: int, code: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", how)
    process = start(place)
    process.send_signal(signum)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert_gone(place)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_batsim_ends_when_pybatsched_is_killed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "stubborn")
    process = start(place)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert_gone(place)


def test_the_scheduler_ends_when_batsim_is_killed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "hang")
    process = start(place)
    os.kill(int((place / "pid").read_text()), signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "exit code 137 before its first message" in errors


def test_a_policy_that_raises_ends_batsim(place: Path) -> None:
    lines = (
        "from pybatsched.core.policy import Policy",
        "class Bad(Policy):",
        " def decide(self, now): raise ValueError('no')",
    )
    (place / "bad.py").write_text("\n".join(lines))
    done = run(place, policy="bad.py:Bad")
    assert done.returncode == 6
    assert "ValueError: no" in done.stderr
    assert_gone(place)


def test_the_summary_has_the_arguments_of_batsim(place: Path) -> None:
    added = ("--", "--sched-cfg", '{"order": "sjf"}', "--mmax=24", "--enable-dynamic-jobs")
    (place / "w.json").write_text(WORKLOAD.read_text().replace('"res": 32', '"res": 24'))
    args = ("-p", "sx-ace", "-w", "w.json", "--policy", "easy", "-e", "out/")
    done = run_cli("run", *args, *added, cwd=place)
    assert done.returncode == 0, done.stderr
    summary = json.loads((place / "out" / "_summary.json").read_text())
    assert summary["policy"]["options"]["order"] == "sjf"
    assert summary["n_procs"] == 24
    assert summary["batsim_options"]["dynamic-jobs-enabled"] is True
    compared = run_cli("compare", "out/_summary.json", "out/_summary.json", cwd=place)
    assert (compared.returncode, compared.stderr) == (0, "")


def test_the_summary_has_the_clusters_of_batsim(place: Path) -> None:
    args = ("-p", "grid-pwa@0.1", "-w", str(WORKLOAD), "--policy", "easy", "-e", "out/r")
    assert run_cli("run", *args, cwd=place).returncode == 0
    summary = json.loads((place / "out" / "r_summary.json").read_text())
    assert summary["clusters"] == {"hpc2n": "0-23", "ctc": "24-66", "sdsc": "67-79"}
    assert run_cli("run", *args, "--", "--mmax=40", cwd=place).returncode == 0
    summary = json.loads((place / "out" / "r_summary.json").read_text())
    assert summary["clusters"] == {"hpc2n": "0-23", "ctc": "24-39"}


@pytest.mark.parametrize(
    "spelling", [("-m", "head0"), ("-mhead0",), ("--master-host", "head0"), ("--master-host=head0",)]
)
def test_options_for_batsim_in_any_spelling(spelling: tuple[str, ...], place: Path) -> None:
    text = (ROOT / "platforms" / "cluster32.xml").read_text().replace('<prop id="role" value="master"/>', "")
    (place / "p.xml").write_text(text)
    args = ("-p", "p.xml", "-w", str(WORKLOAD), "--policy", "easy", "--", *spelling)
    done = run_cli("run", *args, cwd=place)
    assert done.returncode == 0, done.stderr


def test_energy_by_name(place: Path) -> None:
    args = ("-p", "sx-aurora", "-w", str(WORKLOAD), "--policy", "easy", "--", "-Eq")
    assert run_cli("run", *args, cwd=place).returncode == 0
    assert "wattage_per_state" in (place / "out_platform.xml").read_text()
    summary = json.loads((place / "out_summary.json").read_text())
    assert summary["batsim_options"]["energy"] is True
    digest = hashlib.sha256((place / "out_platform.xml").read_bytes()).hexdigest()
    assert summary["inputs"]["platform"] == [{"file": "sx-aurora", "sha256": digest}]


@pytest.mark.parametrize(
    "suffix", ["_jobs.csv", "_summary.json", "_state.json", ".part_jobs.csv", "_w0.json", "_batsim.log"]
)
def test_inputs_are_never_overwritten(suffix: str, place: Path) -> None:
    path = place / f"x{suffix}"
    path.write_text(WORKLOAD.read_text())
    for command in ("run", "simulate")[: 1 if suffix == "_w0.json" else 2]:
        done = run_cli(command, "-p", "sx-ace", "-w", path.name, "--policy", "easy", "-e", "x", cwd=place)
        assert done.returncode == 2
        assert f"x{suffix} is an input of this command; expected another output file" in done.stderr
        assert path.read_text() == WORKLOAD.read_text()


def test_an_output_path_that_is_a_directory_is_an_error(place: Path) -> None:
    (place / "out" / "r_jobs.csv").mkdir(parents=True)
    done = run(place)
    assert done.returncode == 2
    assert "-e out/r: cannot write out/r_jobs.csv" in done.stderr


def test_processes_started_by_a_wrapper_are_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "wait")
    wrapper = place / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n"{sys.executable}" "{STAND_IN}" "$@"\n')  # no exec: two processes
    wrapper.chmod(0o755)
    process = start(place, "--batsim", str(wrapper))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143
    assert_gone(place)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--", "-s", "tcp://x"),
            "arguments for Batsim: '-s' is not allowed; pybatsched sets the socket between scheduler and Batsim",
        ),
        (("--", "--export=x"), "arguments for Batsim: '--export=x' is not allowed; give -e before the --"),
        (("--", "-wx.json"), "arguments for Batsim: '-wx.json' is not allowed; give -w before the --"),
        (("--batsim", "/nowhere/batsim"), "--batsim /nowhere/batsim: expected an executable program"),
        (("stray.json",), "unrecognized arguments: stray.json"),
        (("-m", "n0"), "unrecognized arguments: -m n0; give it to Batsim after --: pybatsched run … -- -m n0\n"),
        (("-rn0:storage",), "-rn0:storage; give it to Batsim after --: pybatsched run … -- -rn0:storage\n"),
        (("--events=a b",), "--events=a b; give it to Batsim after --: pybatsched run … -- '--events=a b'\n"),
        (("-E",), "unrecognized arguments: -E; give it to Batsim after --: pybatsched run … -- -E\n"),
        (("-s", "tcp://x"), "unrecognized arguments: -s tcp://x\n"),
        (("--journal", str(WORKLOAD)), "is an input of this command; expected another output file"),
    ],
)
def test_usage_errors(args: tuple[str, ...], message: str, place: Path) -> None:
    done = run(place, *args)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_missing_batsim_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run(tmp_path)
    assert done.returncode == 2
    assert "there is no batsim on the PATH. Give its path (--batsim PATH), use its Docker image" in done.stderr
    done = run(tmp_path, "--image", "oarteam/batsim:4.0.0")
    assert done.returncode == 2
    assert "--image oarteam/batsim:4.0.0: docker not found on the PATH" in done.stderr


@pytest.mark.parametrize("program", [(), ("--batsim", "/nowhere/batsim"), ("--image", "oarteam/batsim:4.0.0")])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--policy", "no-such"), "no-such"),
        (("-p", "no-such.xml"), "no-such.xml"),
        (("-w", "no-such.json"), "no-such.json"),
        (("--journal", str(WORKLOAD)), "is an input of this command; expected another output file"),
    ],
)
def test_wrong_input_is_reported_before_a_missing_program(
    wrong: tuple[str, ...], message: str, program: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run(tmp_path, *program, *wrong)
    assert done.returncode == 2
    assert message in done.stderr
    assert "batsim:4.0.0" not in done.stderr
    assert "/nowhere/batsim" not in done.stderr


def test_the_image_is_started_with_the_files_under_their_own_names(place: Path) -> None:
    """A stand-in for docker drops its own arguments and runs what the image would run."""
    docker = place / "bin" / "docker"
    docker.write_text(
        f'#!/bin/sh\necho "$@" >> "{place}/docker"\n[ "$1" = run ] || exit 0\n'
        f'while [ "$1" != oarteam/batsim:4.0.0 ]; do shift; done; shift\nexec "{sys.executable}" "{STAND_IN}" "$@"\n'
    )
    docker.chmod(0o755)
    done = run(place, "--image", "oarteam/batsim:4.0.0")
    assert done.returncode == 0, done.stderr
    text = (place / "docker").read_text()
    assert f"--volume {place}/out:{place}/out " in text
    assert f"--volume {ROOT}/platforms:{ROOT}/platforms:ro" in text
    assert f"--user {os.getuid()}:{os.getgid()}" in text
    assert "--network host" in text
    args = (place / "args").read_text().splitlines()
    assert args[args.index("-e") + 1] == f"{place}/out/r.part"
    recorded = json.loads((place / "out" / "r_summary.json").read_text())["batsim_args"]
    assert recorded[recorded.index("-e") + 1] == f"{place}/out/r"
    assert args[args.index("--socket-endpoint") + 1].startswith("tcp://127.0.0.1:")


def test_a_container_is_killed_by_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "hang")
    docker = place / "bin" / "docker"
    docker.write_text(
        f'#!/bin/sh\necho "$@" >> "{place}/docker"\n'
        f'[ "$1" = kill ] && exec kill -9 "$(cat "{place}/pid")"\n'
        f'while [ "$1" != oarteam/batsim:4.0.0 ]; do shift; done; shift\nexec "{sys.executable}" "{STAND_IN}" "$@"\n'
    )
    docker.chmod(0o755)
    process = start(place, "--image", "oarteam/batsim:4.0.0")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143
    assert f"kill pybatsched-{process.pid}" in (place / "docker").read_text()
    assert_gone(place)
