"""`run` with a replacement for Batsim 5: its arguments and formats, and its files converted to those of Batsim 4."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.process import Server, run_cli
from support.simulated import rows

from pybatsched.errors import InputError
from pybatsched.live import batsim5
from pybatsched.live.batsim import read_arguments
from pybatsched.testing import Workload
from pybatsched.workload.formats import batsim4

STAND_IN = ROOT / "tests" / "support" / "stand_in5.py"
PLATFORM = ROOT / "tests" / "conformance" / "recordings" / "v5" / "basic" / "platform.xml"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a program, a workload, and one with urgent jobs."""
    program = tmp_path / "batsim5"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    program.chmod(0o755)
    workload = Workload().job("a", n=4, s=100, at=0, walltime=200).job("u", n=4, s=10, at=5, walltime=20, urgent=True)
    workload.job("b", n=1, s=30, at=6, walltime=40)
    workload.profiles["unused"] = {"type": "delay", "delay": 7}
    content = {"nb_res": 4, "jobs": workload.jobs, "profiles": workload.profiles}
    (tmp_path / "w.json").write_text(json.dumps(content))
    return tmp_path


def run5(place: Path, *args: str, policy: str = "ujfb") -> tuple[int, str]:
    given = ("run", "-p", str(PLATFORM), "-w", "w.json", "--policy", policy, "-e", "five", "--batsim", "./batsim5")
    done = run_cli(*given, *args, cwd=place)
    return done.returncode, done.stderr


def test_output_files_of_batsim_5_are_read_as_those_of_batsim_4(place: Path) -> None:
    code, errors = run5(place, "--journal", "five.pbj")
    assert code == 0, errors
    done = run_cli("simulate", "-p", str(PLATFORM), "-w", "w.json", "--policy", "ujfb", "-e", "four", "-q", cwd=place)
    assert done.returncode == 0
    five, four = rows(place / "five_jobs.csv"), rows(place / "four_jobs.csv")
    kept = ("job_id", "workload_name", "profile", "starting_time", "finish_time", "final_state", "metadata")
    assert [{name: row[name] for name in kept} for row in five] == [{name: row[name] for name in kept} for row in four]
    assert five[2]["metadata"].startswith("parent=w0!a;")
    assert rows(place / "five_schedule.csv")[0]["nb_jobs"] == "4"
    assert (place / "five_schedule.json").exists()
    output = [run_cli("metrics", prefix, cwd=place).stdout.replace("five", "four") for prefix in ("five", "four")]
    assert "slowdown" in output[0]
    assert output[0] == output[1]
    done = run_cli("replay", "five.pbj", cwd=place)
    assert "identical" in done.stdout


def test_the_workload_is_written_in_batsim_5s_format(place: Path) -> None:
    assert run5(place)[0] == 0
    written = json.loads((place / "five_w0.json").read_text())
    assert {profile["type"] for profile in written["profiles"].values()} == {"DelayProfile"}
    assert "unused" not in written["profiles"]
    assert [job["id"] for job in written["jobs"]] == ["a", "u", "b"]
    assert json.loads(written["jobs"][1]["extra_data"]) == {"urgent": True}
    assert batsim4.read(place / "five_w0.json").jobs[1]["urgent"] is True


def test_the_arguments_of_batsim_5(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_ARGS", str(place / "args"))
    assert run5(place, "--", "--mmax", "4")[0] == 0
    args = json.loads((place / "args").read_text())
    assert args[args.index("-e") + 1] == str(place / "five.part_")  # Batsim 5 cannot do without a directory
    assert args[args.index("--mmax") + 1] == "4"
    assert args[-3] == "-s"
    assert args[-2].startswith("ipc://")
    assert args[-1] == ""
    assert not {"--enable-dynamic-jobs", "--socket-endpoint"} & set(args)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--enable-dynamic-jobs"], "Batsim 5 has no option '--enable-dynamic-jobs'; the scheduler requests it"),
        (["--events", "e.txt"], "pybatsched workload events --for batsim5"),
        (["-s", "tcp://x:1", ""], "pybatsched sets the socket between scheduler and Batsim"),
        (["-l", "lib.so", ""], "pybatsched is the scheduler"),
        (["-e", "x"], "give -e before the --"),
    ],
)
def test_options_that_batsim_5_lacks_are_rejected(place: Path, args: list[str], message: str) -> None:
    code, errors = run5(place, "--", *args)
    assert code == 2
    assert message in errors


def test_a_batsim_5_that_crashes_after_the_hello_has_not_started(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "early")
    code, errors = run5(place)
    assert code == 2
    assert "Batsim did not start: Batsim ended with exit code 139 after message 1" in errors
    assert "Segmentation fault." in errors


@pytest.mark.parametrize(
    ("name", "profile", "message"),
    [
        (
            "none",
            {"type": "parallel_homogeneous", "cpu": 0, "com": 0},
            "has no work; expected computation or communication",
        ),
        ("my-w0", {"type": "delay", "delay": 3}, "expected a name that does not contain 'w0', the name of"),
    ],
)
def test_profiles_that_crash_batsim_5_are_reported(place: Path, name: str, profile: Any, message: str) -> None:
    content = json.loads((place / "w.json").read_text())
    content["profiles"][name] = profile
    assert run5(place)[0] == 0  # as long as no job uses it
    content["jobs"][0]["profile"] = name
    (place / "w.json").write_text(json.dumps(content))
    code, errors = run5(place)
    assert code == 2
    assert f'profile "{name}"' in errors
    assert message in errors


def test_a_server_and_the_simulator_in_batsim_5s_place(place: Path) -> None:
    with Server("--policy", "ujfb") as server:
        args = ("-p", str(PLATFORM), "-w", "w.json", "--external", "-s", server.wait_ready(), "-e", "out", "-q")
        done = run_cli("simulate", *args, "--protocol", "v5", cwd=place)
        assert done.returncode == 0, done.stderr
        assert server.finish() == 0
    assert "Batsim 5 stores no job metadata" in server.errors
    summary = json.loads((place / "out_summary.json").read_text())
    assert summary["versions"]["behaves_as_batsim"] == "5.0.0-rc2"


def test_options_that_do_not_go_with_batsim_5s_protocol(place: Path) -> None:
    done = run_cli("simulate", "--procs", "4", "-w", "w.json", "--policy", "easy", "--protocol", "v5", cwd=place)
    assert done.returncode == 2
    assert "--protocol v5: works only with --external" in done.stderr
    args = ("--procs", "4", "-w", "w.json", "--external", "--protocol", "v5", "--enable-dynamic-jobs")
    done = run_cli("simulate", *args, cwd=place)
    assert done.returncode == 2
    assert "schedulers of Batsim 5 request it themselves" in done.stderr


ROWS = """job_id,workload_name,profile,final_state,metadata
jä,w0,w0!p,COMPLETED_SUCCESSFULLY,""
a.1,dyn,dyn!a.1,COMPLETED_SUCCESSFULLY,""
""".encode()
SETTLED = """job_id,workload_name,profile,final_state,metadata
jä,w0,p,COMPLETED_SUCCESSFULLY,""
a.1,dyn,a.1,COMPLETED_SUCCESSFULLY,"parent=w0!a"
""".encode()


@pytest.mark.parametrize("is_whole", [True, False])
def test_truncated_output_files_are_converted_up_to_the_last_whole_row(is_whole: bool, tmp_path: Path) -> None:
    """For any truncation of the file of jobs: every complete row is converted, the rest is unchanged."""
    jobs = tmp_path / "out_jobs.csv"
    for end in range(len(ROWS) + 1):
        jobs.write_bytes(ROWS[:end])
        batsim5.settle_files(str(tmp_path / "out"), {"dyn!a.1": "parent=w0!a"}, is_whole=is_whole)
        n_whole = ROWS[:end].count(b"\n")
        rest = ROWS[:end].rpartition(b"\n")[2]
        assert jobs.read_bytes() == b"".join(SETTLED.splitlines(keepends=True)[:n_whole]) + rest
    jobs.write_bytes(b"job_id,workload_name\na,w0\n")  # of another Batsim: its reader reports what is missing
    batsim5.settle_files(str(tmp_path / "out"), {}, is_whole=is_whole)
    assert jobs.read_bytes() == b"job_id,workload_name\na,w0\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out_jobs.csv"]


@pytest.mark.parametrize("text", [b"", b'{"nb_jobs": 3, "mak', b"[1]", b"\xff"])
def test_a_damaged_schedule_is_reported_and_hides_no_other_failure(text: bytes, tmp_path: Path) -> None:
    schedule = tmp_path / "out_schedule.json"
    schedule.write_bytes(text)
    with pytest.raises(InputError, match=r"out_schedule\.json: cannot be read"):
        batsim5.settle_files(str(tmp_path / "out"), {}, is_whole=True)
    batsim5.settle_files(str(tmp_path / "out"), {}, is_whole=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out_schedule.json"]


def test_a_batsim_killed_while_writing_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "cut")
    code, errors = run5(place)
    assert code == 4
    assert "Batsim ended with exit code 137" in errors
    assert "schedule.json" not in errors


def test_a_prefix_may_be_a_directory_or_the_start_of_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert batsim5.prefix_of("out") == str(tmp_path / "out_")
    assert batsim5.prefix_of("out/") == str(tmp_path / "out" / "_")
    assert batsim5.prefix_of("out/five") == str(tmp_path / "out" / "five_")


def test_options_with_two_values_are_read() -> None:
    args = ["-r", "node1", "storage", "--add-role=node2", "storage", "-Eq", "--mmax=4"]
    assert read_arguments(args, batsim5.OPTIONS, batsim5.OURS) == {
        "--add-role": ["node1:storage", "node2:storage"],
        "--energy": [],
        "--quiet": [],
        "--mmax": ["4"],
    }


def test_a_policy_with_events_that_batsim_5_lacks_fails_at_the_start(place: Path) -> None:
    """The notes on jobs are not missed here: `run` writes them into its files."""
    (place / "mine.py").write_text(
        "from pybatsched_schedulers.ujfb.policy import Ujfb\n\n\nclass Listens(Ujfb):\n"
        "    def on_answer(self, event, now):\n        raise AssertionError\n"
    )
    code, errors = run5(place, policy="mine.py:Listens")
    assert code == 0, errors
    assert "policy mine.py:Listens has on_answer, which is never called: Batsim 5 has no queries" in errors
    assert "stores no job metadata" not in errors
    code, errors = run5(place, "-q", policy="mine.py:Listens")
    assert (code, errors) == (0, "")
