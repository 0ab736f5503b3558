"""`pybatsched simulate` as a user runs it: real files, processes and sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from support.fuzzer import random_workload
from support.patience import PATIENCE_MS, PATIENCE_S, wait_until
from support.places import PUSHY, RECORDED, ROOT, WAITING
from support.process import Server, run_cli, run_elsewhere
from support.simulated import rows
from support.terminals import open_terminal

from pybatsched.protocol.v5_handshake import Hello, write_hello
from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import replay
from pybatsched.simulator import external

FIXTURE = RECORDED / "fuzz-11"
LONG_S = 7200
OUTPUTS = ("_jobs.csv", "_schedule.csv", "_machine_states.csv")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Return a directory with a platform of eight hosts and a workload of forty jobs."""
    (tmp_path / "platform.xml").write_text((FIXTURE / "platform.xml").read_text())
    write_workload(tmp_path, random_workload(7, 40, 8))
    return tmp_path


def write_workload(directory: Path, content: Any, name: str = "w.json") -> None:
    (directory / name).write_text(json.dumps(content))


def jobs(*sizes: tuple[int, float], walltime: float = 60) -> dict[str, Any]:
    """Make a workload of (processors, seconds) jobs, all at time 0."""
    return {
        "nb_res": 8,
        "jobs": [
            {"id": str(i), "subtime": 0, "res": n, "profile": f"d{i}", "walltime": walltime}
            for i, (n, _) in enumerate(sizes)
        ],
        "profiles": {f"d{i}": {"type": "delay", "delay": s} for i, (_, s) in enumerate(sizes)},
    }


def machine_event(state: str, at: float, hosts: str) -> str:
    return json.dumps({"type": f"machine_{state}", "timestamp": at, "resources": hosts})


def simulate(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run_cli("simulate", "-p", "platform.xml", "-w", "w.json", *args, cwd=directory)


def texts(directory: Path, prefix: str) -> dict[str, str]:
    return {suffix: (directory / f"{prefix}{suffix}").read_text() for suffix in OUTPUTS}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", f"{PUSHY}:Restarter"])
def test_embedded_and_socket_runs_write_identical_files(policy: str, inputs: Path) -> None:
    flags = ["--enable-dynamic-jobs", "--enable-profile-reuse"] if "pushy" in policy else []
    inside = simulate(inputs, "--policy", policy, "-e", "in", *flags)
    assert inside.returncode == 0, inside.stderr
    with Server("--policy", policy) as server:
        outside = simulate(inputs, "--external", "-s", server.wait_ready(), "-e", "out", *flags)
        assert (outside.returncode, server.finish()) == (0, 0), outside.stderr + server.errors
    assert texts(inputs, "in") == texts(inputs, "out")
    assert len(rows(inputs / "in_jobs.csv")) >= 40
    assert outside.stdout.splitlines()[:6] == inside.stdout.splitlines()[:6]


def test_repeated_runs_write_identical_files_and_a_command_to_repeat(inputs: Path) -> None:
    args = ("simulate", "-p", "platform.xml", "-w", "w.json", "--policy", "easy", "-o", "order=sjf", "-e")
    assert run_cli(*args, "a", cwd=inputs).returncode == 0
    run_elsewhere([(*args, "b")], cwd=inputs)
    assert texts(inputs, "a") == texts(inputs, "b")
    assert (inputs / "a_summary.json").read_text() == (inputs / "b_summary.json").read_text()
    summary = json.loads((inputs / "a_summary.json").read_text())
    assert summary["policy"]["options"]["order"] == "sjf"
    assert len(summary["inputs"]["workloads"][0]["sha256"]) == 64
    assert summary["figures"]["n_jobs"] == 40
    assert summary["finished"] is True


def test_the_closing_table_is_right(inputs: Path) -> None:
    write_workload(inputs, jobs((8, 100.0), (8, 50.0), (99, 1.0), (1, 70.0)))
    done = simulate(inputs, "--policy", "fcfs", "-e", "t")
    assert done.returncode == 0
    table = dict(line.rsplit("  ", 1) for line in done.stdout.splitlines() if "  " in line)
    table = {key.strip(): value.strip() for key, value in table.items()}
    # job 0 reaches its walltime at 60; 1 runs 60-110; 3 reaches its walltime 110-170; 2 is too large
    assert table["jobs completed"] == "1"
    assert table["jobs walltime reached"] == "2"
    assert table["jobs rejected"] == "1"
    assert table["mean wait"] == f"{(0 + 60 + 110) / 3:.2f} s"
    assert table["max wait"] == "110.00 s"
    assert table["mean bounded slowdown (tau 10 s)"] == f"{(1 + 110 / 50 + 170 / 60) / 3:.3f}"
    assert table["utilisation"] == f"{(8 * 60 + 8 * 50 + 60) / (8 * 170):.2%}"
    assert table["makespan"] == "170.00 s"
    assert "1 job rejected, first reason: asks for 99 processors; the platform has 8" in done.stdout


def test_jobs_left_waiting_are_named_with_the_reason(inputs: Path) -> None:
    write_workload(inputs, jobs((2, 5.0), (3, 5.0)))
    stuck = simulate(inputs, "--policy", f"{PUSHY}:Lazy", "-e", "stuck")
    assert stuck.returncode == 5
    assert "2 jobs unfinished" in stuck.stderr
    assert "w0!1 (3 processors, submitted at 0)" in stuck.stderr
    assert "jobs unfinished" in stuck.stdout
    summary = json.loads((inputs / "stuck_summary.json").read_text())
    assert [job["job"] for job in summary["unfinished"]] == ["w0!0", "w0!1"]
    assert rows(inputs / "stuck_schedule.csv")[0]["nb_jobs_finished"] == "0"


def test_a_misspelled_method_of_a_policy_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pybatsched as pb\n\n\nclass Mine(pb.Policy):\n"
        "    def on_job_submited(self, job, now):\n        self.queue.append(job)\n\n"
        "    def decide(self, now):\n        return ()\n"
    )
    workload = str(ROOT / "examples" / "workload.json")
    done = run_cli("simulate", "--procs", "32", "-w", workload, "--policy", "mine.py:Mine", cwd=tmp_path)
    assert done.returncode == 5
    hint = "the policy gives no reason; it has a method on_job_submited, did you mean on_job_submitted?"
    assert hint in done.stderr + done.stdout


def test_a_policy_that_only_requests_calls_is_stopped(inputs: Path) -> None:
    write_workload(inputs, jobs((2, 9000.0), walltime=9999))
    done = simulate(inputs, "--policy", f"{PUSHY}:Ticking")
    assert done.returncode == 6
    assert "Ticking broke the rule 'endless calls': requested 1,001 calls in a row within 15" in done.stderr


def test_a_call_each_second_of_a_long_job_is_fine(inputs: Path) -> None:
    """It ends with exit code 5 only because it continues after the last job."""
    write_workload(inputs, jobs((2, 9000.0), walltime=9999))
    done = simulate(inputs, "--policy", f"{PUSHY}:Restless", "-e", "restless")
    assert (done.returncode, "0 jobs unfinished" in done.stderr) == (5, True)
    assert rows(inputs / "restless_jobs.csv")[0]["finish_time"] == "9000.000000"


def test_machines_that_never_come_back_are_named_as_the_reason(inputs: Path) -> None:
    write_workload(inputs, jobs((8, 5.0)))
    (inputs / "events.txt").write_text(machine_event("unavailable", 0, "0-3"))
    stuck = simulate(inputs, "--policy", f"{PUSHY}:Lazy", "--events", "events.txt")
    assert stuck.returncode == 5
    assert "it requests 8 processors; 4 of 8 are unavailable or asleep" in stuck.stderr


@pytest.mark.parametrize("send_end", [False, True])
def test_a_deadlock_of_an_external_scheduler_is_reported(send_end: bool, inputs: Path) -> None:
    """Batsim sends nothing then, so the scheduler sees a closed connection; with --send-end it gets an end message."""
    write_workload(inputs, jobs((2, 5.0)))
    with Server("--policy", f"{PUSHY}:Lazy") as server:
        flags = ["--send-end"] if send_end else []
        stuck = simulate(inputs, "--external", "-s", server.wait_ready(), *flags)
        code = server.finish()
    assert stuck.returncode == 5
    assert "w0!0" in stuck.stderr
    assert code == (5 if send_end else 4)


class Rude(threading.Thread):
    """A REP socket that receives one message, does what a test says, and then nothing until the simulator has ended.

    It answers, or closes its connection (answer None), or does something else (a function).
    """

    def __init__(self, answer: bytes | Callable[[], None] | None) -> None:
        super().__init__(daemon=True)
        self.answer = answer
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.has_ended = threading.Event()

    def run(self) -> None:
        if self.socket.poll(PATIENCE_MS):
            self.socket.recv()
            if isinstance(self.answer, bytes):
                self.socket.send(self.answer)
            elif self.answer is not None:
                self.answer()
            else:
                self.socket.close()
            self.has_ended.wait(PATIENCE_S)
        self.socket.close()
        self.context.term()

    def play(self, directory: Path, *args: str) -> tuple[int, str]:
        """Simulate with it, with a time limit that is never reached. Return the exit code and the errors."""
        self.start()
        done = simulate(directory, "--external", "-s", f"tcp://127.0.0.1:{self.port}", "--timeout", str(LONG_S), *args)
        self.has_ended.set()
        self.join(PATIENCE_S)
        return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"hello", "message 1"),
        (b'{"events":[]}', "now"),
        (
            b'{"now":0,"events":[{"timestamp":5,"type":"NOTIFY","data":{"type":"x"}}]}',
            "expected a time up to that of the reply",
        ),
        (b'{"now":0,"events":[{"timestamp":0,"type":"DANCE","data":{}}]}', "DANCE"),
        (
            b'{"now":0,"events":[{"timestamp":0,"type":"EXECUTE_JOB","data":{"job_id":"w0!77","alloc":"0"}}]}',
            "cannot execute job 'w0!77': it does not exist",
        ),
        (b'{"now":1e999,"events":[]}', "message 1"),
        (b'{"error":"no licence\\nleft"}', "message 1: the scheduler stopped with an error: no licence\nleft\n"),
        (b'{"error":7}', "message 1: the scheduler stopped with an error: 7\n"),
        (b'{"error":"","now":"?"}', "message 1, now: "),
    ],
)
def test_a_scheduler_that_breaks_the_protocol_is_reported(answer: bytes, message: str, inputs: Path) -> None:
    code, errors = Rude(answer).play(inputs)
    assert code == 3
    assert message in errors
    assert "Traceback" not in errors


def test_a_wrong_reply_in_batsim_5_names_the_message(inputs: Path) -> None:
    """The greeting is the first message."""
    code, errors = Rude(b'{"now":0,"events":[]}').play(inputs, "--protocol", "v5")
    assert code == 3
    assert "message 1: the scheduler uses the protocol of Batsim 4 (--protocol v4): its answer" in errors

    def answer() -> None:
        rude.socket.send(write_hello(Hello("rude", "1")))
        if rude.socket.poll(PATIENCE_MS):
            rude.socket.recv()
            rude.socket.send(b'{"now":0,"events":[{"timestamp":0,"event_type":"CreateProbeEvent","event":{}}]}')

    rude = Rude(answer)
    code, errors = rude.play(inputs, "--protocol", "v5")
    assert code == 3
    assert "message 2: unknown decision 'CreateProbeEvent'" in errors


def test_an_exception_of_the_external_scheduler_is_printed(inputs: Path) -> None:
    halting = f"{PUSHY.with_name('halting.py')}:Halting"
    with Server("--policy", halting, "-o", "after=0", "-o", "then=raise") as server:
        done = simulate(inputs, "--external", "-s", server.wait_ready())
        assert server.finish() == 6
    assert done.returncode == 3
    assert re.search(
        r"message \d+: the scheduler stopped with an error: PolicyError: policy .* ValueError: that is en", done.stderr
    )


def test_a_scheduler_that_disconnects_is_reported(inputs: Path) -> None:
    code, errors = Rude(None).play(inputs)
    assert code == 4
    assert "closed its connection" in errors


def test_a_scheduler_that_stops_replying_is_reported(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It receives the message, and a long time passes on the simulator's clock, not on ours."""
    passed = [0.0]
    monkeypatch.setattr(external, "time", SimpleNamespace(monotonic=lambda: passed[-1]))
    code, errors = Rude(lambda: passed.append(LONG_S)).play(inputs)
    assert code == 4
    assert "no reply to message 1 at tcp://127.0.0.1:" in errors
    assert f" for {LONG_S:.1f} s (--timeout {LONG_S})" in errors


def test_a_missing_scheduler_is_reported(inputs: Path) -> None:
    # patience: the event that ends the wait never comes, so any time will do
    done = simulate(inputs, "--external", "-s", "tcp://127.0.0.1:9", "--timeout", "0.5")
    assert done.returncode == 4
    assert "no scheduler at tcp://127.0.0.1:9" in done.stderr
    assert not list(inputs.glob("out*"))


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_missing_scheduler_leaves_the_state_of_an_earlier_run(is_finished: bool, inputs: Path) -> None:
    """A run that broke off is no longer there, because its files were removed."""
    assert simulate(inputs, "--policy", "fcfs", "-e", "keep").returncode == 0
    state = inputs / "keep_state.json"
    before = state.read_text() if is_finished else state.read_text().replace('"finished"', '"failed"')
    state.write_text(before)
    # patience: the event that ends the wait never comes, so any time will do
    assert simulate(inputs, "--external", "-s", "tcp://127.0.0.1:9", "--timeout", "0.5", "-e", "keep").returncode == 4
    assert (state.read_text() == before) == is_finished
    assert json.loads(state.read_text())["state"] == ("finished" if is_finished else "failed")


def test_a_rejected_workload_keeps_earlier_results(inputs: Path) -> None:
    assert simulate(inputs, "--policy", "fcfs", "-e", "keep").returncode == 0
    before = texts(inputs, "keep")
    content = jobs((2, 5.0))
    content["profiles"]["d0"] = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 1e6}
    write_workload(inputs, content)
    refused = simulate(inputs, "--policy", "fcfs", "-e", "keep", "--clock", "exact")
    assert refused.returncode == 2
    assert "w.json: job 0: profile d0 (parallel_homogeneous) communicates, which is not simulated" in refused.stderr
    assert "with --clock exact (use --clock simgrid); run it with Batsim" in refused.stderr
    assert texts(inputs, "keep") == before


def test_a_journal_of_a_simulation_can_be_replayed_and_explained(inputs: Path) -> None:
    assert simulate(inputs, "--policy", "easy", "-e", "plain").returncode == 0
    assert simulate(inputs, "--policy", "easy", "-e", "journaled", "--journal", "run.pbj").returncode == 0
    assert texts(inputs, "plain") == texts(inputs, "journaled")
    assert replay(JournalReader(str(inputs / "run.pbj"))).difference is None
    story = run_cli("explain", "run.pbj", "w0!3", cwd=inputs)
    assert story.returncode == 0
    assert "submitted" in story.stdout


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_keeps_written_files(signum: int, inputs: Path) -> None:
    command = [sys.executable, "-m", "pybatsched", "simulate", "-p", "platform.xml", "-w", "w.json", "--policy"]
    command += [f"{WAITING}:Waits", "-o", "mark=mark", "-e", "cut"]
    process = subprocess.Popen(command, cwd=inputs, stderr=subprocess.PIPE)
    wait_until((inputs / "mark").exists, by=process)
    process.send_signal(signum)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signum
    assert b"Traceback" not in errors
    assert (inputs / "cut.part_jobs.csv").read_text().startswith("job_id,")
    assert not (inputs / "cut_jobs.csv").exists()


def test_progress_on_a_terminal_and_nothing_on_a_pipe(inputs: Path) -> None:
    """The line is shown at intervals; Sleepy makes the run long enough on a fast machine."""
    write_workload(inputs, random_workload(3, 300, 8))
    quiet = simulate(inputs, "--policy", f"{PUSHY}:Sleepy")
    assert quiet.returncode == 0
    assert "jobs/s" not in quiet.stderr
    main, terminal = open_terminal()
    command = [sys.executable, "-m", "pybatsched", "simulate", "-p", "platform.xml", "-w", "w.json", "--policy"]
    process = subprocess.Popen([*command, f"{PUSHY}:Sleepy"], cwd=inputs, stderr=terminal, stdout=subprocess.DEVNULL)
    os.close(terminal)
    seen = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(main)
    assert process.wait(PATIENCE_S) == 0
    assert b"of 300 jobs, simulated" in seen
    assert seen.endswith(b"\r\x1b[K")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("", "expected either --policy NAME or --external"),
        ("--policy easy --external", "--policy and --external were both given; expected only one"),
        ("--policy nobody", "unknown policy 'nobody'"),
        ("--policy easy --procs 4", "--platform and --procs: expected only one of them, found both"),
        ("--policy easy --mmax 99", "cannot keep 99 compute hosts"),
        ("--policy easy -w absent.json", "absent.json"),
        ("--policy easy --events absent.txt", "--events absent.txt: cannot be read: No such file"),
        ("--policy easy --reservations absent.txt", "--reservations absent.txt: cannot be read: No such file"),
        ("--policy easy --mapping absent.txt", "--mapping absent.txt: cannot be read: No such file"),
        ("--policy easy -E", "wattage_per_state"),
        ("--policy easy -e w.json/x", "cannot write"),
        ("--external -o a=1", "-o, --config, --reservations, --partitions and --journal: work only with --policy"),
        ("--external -s nonsense", "cannot connect to 'nonsense': Invalid argument; expected an endpoint such as"),
        ("--external -s tcp://localhost:70000", "cannot connect to 'tcp://localhost:70000': expected a port from"),
        (
            "--policy easy --sched-cfg { --sched-cfg-file x",
            "--sched-cfg and --sched-cfg-file: expected only one of them, found both",
        ),
        ("--policy easy --walltimes sometimes", "sometimes"),
        ("--policy easy --memory-unit TB", "--memory-unit: invalid choice: 'TB'"),
        ("--policy easy --memory-unit MB", "--memory-unit MB: expected a log in SWF, found a Batsim file"),
    ],
)
def test_usage_errors_name_the_wrong_option_or_file(args: str, message: str, inputs: Path) -> None:
    done = simulate(inputs, *args.split())
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: expected a JSON object"),
        ("[]", "line 2: expected a JSON object"),
        ('{"timestamp": 1}', "line 2: field type"),
        (machine_event("available", -1, "0"), "field timestamp"),
        (machine_event("unavailable", 1, "8"), "processors 8 do not exist"),
        (machine_event("unavailable", 1, "x"), "field resources"),
        (machine_event("available", 5, "3"), "3 become available at 5, but they were not unavailable"),
        (machine_event("unavailable", 5, "1"), "1 become unavailable at 5, but they are already unavailable"),
        ('{"type": "party", "timestamp": 5}', "other types need --forward-unknown-events"),
    ],
)
def test_bad_events_name_file_and_line(line: str, message: str, inputs: Path) -> None:
    (inputs / "events.txt").write_text(f"{machine_event('unavailable', 0, '1')}\n{line}\n")
    done = simulate(inputs, "--policy", "easy", "--events", "events.txt")
    assert done.returncode == 2
    assert "events.txt" in done.stderr
    assert message in done.stderr


def test_processors_come_from_the_workload_without_a_machine(tmp_path: Path) -> None:
    given = ("simulate", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy")
    done = run_cli(*given, "-e", "log", cwd=tmp_path)
    assert done.returncode == 0
    assert "32 processors, as in the workload; --procs or --platform changes this" in done.stderr
    assert run_cli(*given, "--procs", "32", "-e", "procs", cwd=tmp_path).returncode == 0
    assert (tmp_path / "log_jobs.csv").read_bytes() == (tmp_path / "procs_jobs.csv").read_bytes()


def test_jobs_that_are_too_large_are_the_first_line_of_the_closing_table(tmp_path: Path) -> None:
    given = ("simulate", "--procs", "8", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy")
    done = run_cli(*given, cwd=tmp_path)
    first = done.stdout.splitlines()[0]
    assert re.fullmatch(r"warning: \d+ of 30 jobs were rejected: the machine is too small", first), done.stdout
