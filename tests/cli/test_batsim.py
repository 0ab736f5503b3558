"""`pybatsched batsim`: behaviour, output files, messages and exit codes equal those of Batsim."""

from __future__ import annotations

import json
import locale
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.patience import PATIENCE_OF_WORK_S, wait_until
from support.process import run_cli, run_forked
from support.recordings import recording
from support.replying import DROP_IN, Scheduler, run_beside
from support.simulated import FILES, without_hops

ABORTED = -6  # by SIGABRT; 134 in a shell


def test_a_whole_run_writes_batsims_files_and_no_others(tmp_path: Path) -> None:
    source = recording("energy")
    done, scheduler = run_beside(source, tmp_path / "out", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [json.loads(text)["now"] for text in scheduler.requests] == [
        json.loads(text)["now"] for text in source.requests
    ]
    tables = [f"out_{name}.csv" for name in ("consumed_energy", "jobs", "machine_states", "pstate_changes", "schedule")]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*tables, "out_schedule.trace"]
    for name in FILES:
        assert without_hops(tmp_path / name) == (source.directory / name).read_text()


def test_disabled_outputs_are_not_written(tmp_path: Path) -> None:
    off = ["--disable-schedule-tracing", "--disable-machine-state-tracing"]
    done, _ = run_beside(recording("plain"), tmp_path / "out", *off, "--sg-log", "root.thresh:critical")
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out_jobs.csv", "out_schedule.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_outputs_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "out_jobs.csv").symlink_to("/dev/full")
    done, _ = run_beside(recording("plain"), tmp_path / "out", "-q")
    assert done.returncode == ABORTED
    assert f"cannot write the outputs {tmp_path}/out_*: No space left on device\n" in done.stderr


def test_existing_files_are_overwritten_as_by_batsim(tmp_path: Path) -> None:
    (tmp_path / "out_jobs.csv").write_text("something else")
    done, _ = run_beside(recording("plain"), tmp_path / "out", "-q")
    assert done.returncode == 0
    assert (tmp_path / "out_jobs.csv").read_text() == (recording("plain").directory / "out_jobs.csv").read_text()


@pytest.mark.parametrize(
    ("level", "has_network", "has_more"),
    [("quiet", False, False), ("network-only", True, False), ("information", True, True), ("debug", True, True)],
)
def test_the_verbosity_level_selects_logged_messages(
    level: str, has_network: bool, has_more: bool, tmp_path: Path
) -> None:
    """In the format of Batsim's log, because scripts search it."""
    source = recording("plain")
    done, scheduler = run_beside(source, tmp_path / "out", "-v", level)
    lines = done.stderr.splitlines()
    sent = [line.partition("Sending '")[2][:-1] for line in lines if "] [network/INFO] Sending '" in line]
    got = [line.partition("Received '")[2][:-1] for line in lines if "] [network/INFO] Received '" in line]
    assert sent == ([text.decode() for text in scheduler.requests] if has_network else [])
    assert got == ([text.decode() for text in source.replies] if has_network else [])
    assert any("[batsim/INFO] Workload 'w0' corresponds to workload file" in line for line in lines) == has_more


@contextmanager
def started(scheduler: Scheduler, *args: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the program beside a scheduler that listens. Its standard error is a pipe."""
    with scheduler.listening() as endpoint:
        command = [*DROP_IN, *args, "-q", "-s", endpoint]
        yield subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", ["bad-json", "bad-unknown-type", "bad-busy-resource"])
def test_replies_that_abort_batsim_abort_the_run(name: str, tmp_path: Path) -> None:
    done, _ = run_beside(recording(name), tmp_path / "out", "-q")
    assert done.returncode == ABORTED
    assert done.stderr.startswith("[0.000000] [batsim/ERROR] ")
    assert "Traceback" not in done.stderr


def test_a_deadlock_ends_with_0_and_is_reported(tmp_path: Path) -> None:
    done, _ = run_beside(recording("bad-deadlock"), tmp_path / "out", "-q")
    assert done.returncode == 0
    assert "Deadlock" in done.stderr
    assert "job w0!" in done.stderr


def test_a_long_list_of_unfinished_jobs_is_truncated(tmp_path: Path) -> None:
    jobs = [{"id": n, "subtime": 0, "res": 1, "profile": "d"} for n in range(50)]
    workload = {"nb_res": 4, "jobs": jobs, "profiles": {"d": {"type": "delay", "delay": 1}}}
    (tmp_path / "w.json").write_text(json.dumps(workload))
    platform = recording("plain").directory / "platform.xml"
    scheduler = Scheduler([b'{"now":0,"events":[]}'] * 4)
    with started(scheduler, "-p", str(platform), "-w", "w.json", cwd=tmp_path) as process:
        scheduler.answer(process)
        _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 0
    assert errors.count("job w0!") == 20
    assert errors.endswith("and 30 more\n")


def test_an_open_registration_is_reported(tmp_path: Path) -> None:
    done, _ = run_beside(recording("plain"), tmp_path / "out", "-q", "--enable-dynamic-jobs")
    assert done.returncode == 0
    assert "Deadlock detected: all jobs are done, but the scheduler did not send registration_finished" in done.stderr


def test_a_lost_scheduler_is_reported(tmp_path: Path) -> None:
    """Batsim would wait for ever."""
    source = recording("plain")
    scheduler = Scheduler(source.replies[:1])
    with started(scheduler, *source.args, "-e", str(tmp_path / "out"), cwd=source.directory) as process:
        scheduler.answer(process)
    _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 4
    assert "closed its connection" in errors


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A copy of the inputs of a recording: a command that is not rejected would write there."""
    return Path(shutil.copytree(recording("plain").directory, tmp_path / "plain"))


def refused(*args: str, cwd: Path) -> tuple[int, str]:
    done = run_forked("batsim", *args, cwd=cwd)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ("-p none.xml", 1, "Platform file 'none.xml' cannot be read."),
        ("-p platform.xml -w none.json", 2, "Workload file 'none.json' cannot be read."),
        ("-p platform.xml --events none.txt", 2, "Events file 'none.txt' cannot be read."),
        ("-p platform.xml -W none.dax", 4, "Workflow file 'none.dax' cannot be read."),
        ("-p platform.xml --WS none.dax 5", 16, "Cut workflow file 'none.dax' cannot be read."),
        ("-p none.xml -w none.json -W none.dax", 7, "Workload file"),
        (f"-p {'p' * 300} -w {'w' * 300}", 3, f"Platform file '{'p' * 300}' cannot be read."),
        ("-p platform.xml --mmax many", 0, "Cannot read --mmax 'many' as an integer."),
        ("-p platform.xml --redis-port 7x", 0, "Cannot read --redis-port '7x' as an integer."),
        ("-p platform.xml --mmax ٣", 0, "Cannot read --mmax '٣' as an integer."),
        (f"-p {'p' * 300}", 1, "cannot be read."),
        ("-p platform.xml --workload=", 2, "Workload file '' cannot be read."),
        ("-p platform.xml --workflow-jobs-limit -1", 0, "--workflow-jobs-limit -1 must not be negative."),
        ("-p platform.xml -v loud", 0, "Invalid verbosity level 'loud'; expected one of quiet,"),
        ("-p platform.xml --enable-profile-reuse", 0, "without --enable-dynamic-jobs"),
        ("-p platform.xml --enable-redis", 2, "--enable-redis: this simulator does not support job descriptions"),
        ("-p platform.xml -W workload.json", 2, "--workflow: this simulator does not support workflows"),
        ("-p platform.xml --sg-cfg tracing:yes", 2, "--sg-cfg tracing:yes: "),
        ("--unittest", 2, "--unittest: "),
        ("-p platform.xml -p platform.xml", 255, "--platform: expected once, found twice"),
        ("-w workload.json", 255, "pybatsched batsim: -p FILE is missing; expected a platform; see --help\n"),
        (
            "-p platform.xml --sched-cfg-file none.txt",
            ABORTED,
            "--sched-cfg-file none.txt: cannot be read: No such file",
        ),
        (
            "-p platform.xml -s somewhere",
            ABORTED,
            "cannot connect to 'somewhere': Invalid argument; expected an endpoint",
        ),
    ],
)
def test_invalid_command_lines_have_batsims_exit_code_and_message(
    args: str, code: int, message: str, plain: Path
) -> None:
    found, errors = refused(*args.split(), cwd=plain)
    encoding = locale.getencoding()
    message = message.encode(encoding, "backslashreplace").decode(encoding)  # as it can be written
    assert (found, message in errors) == (code, True), errors


@pytest.mark.parametrize("number", ["3", "3x", "+3", " 3.9"])
def test_numbers_are_read_as_batsim_reads_them(number: str, plain: Path) -> None:
    """Text after a number is ignored. Three machines are too few for a job of four."""
    done = run_forked("batsim", "-p", "platform.xml", "-w", "workload.json", "--no-sched", "--mmax", number, cwd=plain)
    assert done.returncode == ABORTED
    assert "job w0!cid requests 4 processors; expected at most 3, the size of the platform" in done.stderr


@pytest.mark.parametrize("roles", ["nobody", "a:b:storage"])
def test_invalid_roles_abort_before_other_checks(roles: str, plain: Path) -> None:
    done = run_forked("batsim", "-p", "none.xml", "--dump-execution-context", "-r", roles, cwd=plain)
    assert (done.returncode, done.stdout) == (ABORTED, "")
    assert f"--add-role-to-hosts {roles}: expected one ':'" in done.stderr


def test_jobs_that_replay_mpi_are_rejected_by_name(plain: Path) -> None:
    content = json.loads((plain / "workload.json").read_text())
    content["profiles"][content["jobs"][0]["profile"]] = {"type": "smpi", "trace": "t.txt"}
    (plain / "w.json").write_text(json.dumps(content))
    before = sorted(plain.iterdir())
    code, errors = refused("-p", "platform.xml", "-w", "w.json", cwd=plain)
    assert code == 2
    assert "is of type smpi, which replays messages of MPI processes; run it with Batsim" in errors
    assert sorted(plain.iterdir()) == before


@pytest.mark.parametrize(
    "break_it",
    [lambda text: text[: len(text) // 2], lambda text: text.replace('"subtime"', '"subtme"'), lambda _text: "[]"],
)
def test_an_invalid_workload_aborts(break_it: Callable[[str], str], plain: Path) -> None:
    (plain / "w.json").write_text(break_it((plain / "workload.json").read_text()))
    done = run_forked("batsim", "-p", "platform.xml", "-w", "w.json", cwd=plain)
    assert done.returncode == ABORTED
    assert "w.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_versions_help_and_context() -> None:
    assert run_cli("batsim", "--version").stdout == "4.2.1\n"
    assert run_cli("batsim", "--simgrid-version").stdout == "3.32.0\n"
    assert run_cli("batsim", "-h").stdout == run_cli("batsim", "--help").stdout
    context = run_cli(
        "batsim", "-p", "none", "-s", "ipc://x", "-e", "a/b", "--no-sched", "--dump-execution-context", "--redis-port=7"
    )
    assert context.returncode == 0
    assert json.loads(context.stdout) == {
        "socket_endpoint": "ipc://x",
        "redis_enabled": False,
        "redis_hostname": "127.0.0.1",
        "redis_port": 7,
        "redis_prefix": "default",
        "export_prefix": "a/b",
        "external_scheduler": False,
    }


def test_redis_options_are_sent_to_the_scheduler(tmp_path: Path) -> None:
    _, scheduler = run_beside(
        recording("plain"), tmp_path / "out", "-q", "--redis-hostname", "far", "--redis-port", "7"
    )
    config = json.loads(scheduler.requests[0])["events"][0]["data"]["config"]
    assert (config["redis-enabled"], config["redis-hostname"], config["redis-port"]) == (False, "far", 7)


def test_without_a_scheduler_all_jobs_start_immediately(tmp_path: Path) -> None:
    """Jobs of 4, 2 and 1 Gflop share processor 0: at a third of its speed until 3, at a half until 5, then alone."""
    cpu = {
        name: {"type": "parallel_homogeneous", "cpu": gflop * 1e9, "com": 0}
        for name, gflop in zip("abc", (4, 2, 1), strict=True)
    }
    jobs = [{"id": name, "subtime": 50, "res": 1, "profile": name, "walltime": 100} for name in cpu]
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": cpu}))
    platform = '<platform version="4.1"><zone id="z" routing="Full">{}</zone></platform>'
    hosts = "".join(f'<host id="{name}" speed="1Gf"/>' for name in ("master_host", "n0"))
    head = '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    (tmp_path / "p.xml").write_text(head + platform.format(hosts))
    done = run_forked("batsim", "-p", "p.xml", "-w", "w.json", "--no-sched", "-q", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    # Batsim's server writes the rows, and there is none.
    assert (tmp_path / "out_jobs.csv").read_text().count("\n") == 1
    states = [line.split(",")[0] for line in (tmp_path / "out_machine_states.csv").read_text().splitlines()[1:]]
    assert states == ["0", "0", "0", "3", "5", "7"]
    traced = (tmp_path / "out_schedule.trace").read_text()
    assert traced.endswith("\n3 7.000000 m0 machine_ct\n3 7.000000 root root_ct\n")


def test_link_creates_a_program_named_batsim(tmp_path: Path) -> None:
    place = tmp_path / "my tools"
    done = run_cli("batsim", "--link", str(place))
    assert done.returncode == 0
    assert f"PATH='{place}':$PATH" in done.stdout
    assert run_cli("batsim", "--link", str(place)).returncode == 0  # again: it is ours
    (tmp_path / "pybatsched").mkdir()  # not the package, whatever its name
    path = f"{place}{os.pathsep}{os.environ['PATH']}"
    found = subprocess.run(
        ["batsim", "--version"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_OF_WORK_S,
        check=True,
    )
    assert found.stdout == "4.2.1\n"


def test_link_does_not_replace_a_real_batsim(tmp_path: Path) -> None:
    real = tmp_path / "batsim"
    real.write_text("#!/bin/sh\necho real\n")
    done = run_cli("batsim", "--link", str(tmp_path))
    assert done.returncode == 2
    assert f"{real} exists and was not written by pybatsched" in done.stderr
    assert real.read_text() == "#!/bin/sh\necho real\n"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_waiting_simulation(signum: signal.Signals, tmp_path: Path) -> None:
    source = recording("plain")
    scheduler = Scheduler(source.replies[:1])
    with started(scheduler, *source.args, "-e", str(tmp_path / "out"), cwd=source.directory) as process:
        scheduler.answer(process)
        process.send_signal(signum)
        _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 128 + signum
    assert errors == f"pybatsched: interrupted by signal {signum}\n"


def test_a_signal_after_the_last_message_keeps_the_output_files(tmp_path: Path) -> None:
    """The scheduler may have finished, and all processes may get a signal, before the files are written."""
    source = recording("plain")
    scheduler = Scheduler(source.replies[:-1])
    with started(scheduler, *source.args, "-e", str(tmp_path / "out"), cwd=source.directory) as process:
        scheduler.answer(process)
        last = scheduler.receive()
        assert b"SIMULATION_ENDS" in last
        process.send_signal(signal.SIGTERM)
        scheduler.send(source.replies[-1])
        process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 0
    assert (tmp_path / "out_jobs.csv").read_text() == (source.directory / "out_jobs.csv").read_text()


def test_the_second_signal_ends_the_wait_for_the_final_reply(tmp_path: Path) -> None:
    """A scheduler may receive the end and send no reply."""
    source = recording("plain")
    scheduler = Scheduler(source.replies[:-1])
    with started(scheduler, *source.args, "-e", str(tmp_path / "out"), cwd=source.directory) as process:
        scheduler.answer(process)
        assert b"SIMULATION_ENDS" in scheduler.receive()

        def has_ended() -> bool:
            process.send_signal(signal.SIGINT)  # two that come at once are one
            return process.poll() is not None

        try:
            wait_until(has_ended)
        finally:
            process.kill()
            _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert (process.returncode, errors) == (128 + signal.SIGINT, "pybatsched: interrupted by signal 2\n")


def test_a_scheduler_that_only_requests_calls_gets_simulation_ends(tmp_path: Path) -> None:
    """Batsim would continue. No job is left, and each reply requests the next call."""
    place = Path(shutil.copytree(recording("plain").directory, tmp_path / "plain"))
    (place / "w.json").write_text('{"nb_res": 1, "jobs": [], "profiles": {}}')
    scheduler = Scheduler([])
    with started(scheduler, "-p", "platform.xml", "-w", "w.json", cwd=place) as process:
        message = b""
        while b"SIMULATION_ENDS" not in message:
            message = scheduler.receive()
            now = json.loads(message)["now"]
            call = {"timestamp": now, "type": "CALL_ME_LATER", "data": {"timestamp": now + 1}}
            over = b"SIMULATION_ENDS" in message
            scheduler.send(json.dumps({"now": now, "events": [] if over else [call]}).encode())
        _, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 5
    why = "all jobs were done, but the scheduler kept requesting calls: 1,000 times in a row since 1, "
    assert f"{why}without another event\n" in errors


def test_simulation_ends_in_a_job_field_does_not_disable_signals(tmp_path: Path) -> None:
    place = Path(shutil.copytree(recording("plain").directory, tmp_path / "plain"))
    content = json.loads((place / "workload.json").read_text())
    content["jobs"][0]["note"] = "SIMULATION_ENDS"
    (place / "workload.json").write_text(json.dumps(content))
    scheduler = Scheduler(recording("plain").replies[:1])
    with started(scheduler, *recording("plain").args, "-e", str(tmp_path / "out"), cwd=place) as process:
        scheduler.answer(process)
        assert b'"SIMULATION_ENDS"' in scheduler.receive()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_OF_WORK_S)
    assert process.returncode == 128 + signal.SIGTERM
