"""`pybatsched batsim` and the real Batsim: the same command lines give the same exit codes and files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.patience import PATIENCE_OF_WORK_S
from support.places import FIXTURES
from support.recordings import Recording, recording
from support.replying import DROP_IN, run_beside

pytestmark = pytest.mark.batsim

REAL = ("batsim",)
OWN = [Recording(path.parent) for path in sorted((FIXTURES / "v4").glob("*/conversation.jsonl"))]
#: Not the same in two runs of Batsim, or on two machines: wall-clock columns, its version, how a quotient of nothing is
#: written; colours; the hops of a zero-hop platform at time 0, and the mean power that follows from them.
WALL_CLOCK = {"scheduling_time", "simulation_time", "batsim_version"}


def comparable_content(path: Path) -> object:
    """Return the content of a file without what differs between two runs of Batsim."""
    text = re.sub(r"(?m)^[\d.]+e-(?:29|30)\d\b", "0", path.read_text())
    if path.name == "out_schedule.csv":
        names, values = (line.split(",") for line in text.split())
        return {name: value.lstrip("-") for name, value in zip(names, values, strict=True) if name not in WALL_CLOCK}
    if path.name == "out_schedule.trace":
        return re.sub(r'(?m)^(5 j.*) "[^"]*"$', r"\1", text)
    if path.name == "out_consumed_energy.csv":
        return [line.rpartition(",")[0] if line.startswith("0.000000,") else line for line in text.splitlines()]
    return text


@pytest.mark.parametrize("source", OWN, ids=lambda r: r.name)
def test_files_and_exit_codes_equal_batsims(source: Recording, tmp_path: Path) -> None:
    found = {}
    for name, program in (("mine", DROP_IN), ("theirs", REAL)):
        (tmp_path / name).mkdir()
        done, scheduler = run_beside(source, tmp_path / name / "out", "-q", program=program)
        files = {} if done.returncode else {path.name: comparable_content(path) for path in (tmp_path / name).iterdir()}
        if "--enable-compute-sharing" in source.args:
            files.pop("out_schedule.trace")  # which of several jobs a machine shows depends on addresses
        found[name] = (done.returncode, len(scheduler.requests), files)
    assert found["mine"] == found["theirs"]


@pytest.mark.parametrize(
    "args",
    [
        "--version --help", "--foo", "-p", "-w workload.json", "-p platform.xml extra",
        "-p platform.xml -p platform.xml", "-p platform.xml -q -q", "-p platform.xml --energy=yes",
        "-p platform.xml --enable", "-p platform.xml --sched-cfg a --sched-cfg-file b", "-p none.xml",
        "-p none.xml -w none.json -W none.dax --events none.txt", "-p platform.xml --WS none.dax 5",
        "-p platform.xml --mmax many", "-p platform.xml -w workload.json --mmax 3x --no-sched -q -e OUT",
        "-p platform.xml --mmax 2147483648 --no-sched -q -e OUT",
        "-p platform.xml --redis-port 7x --dump-execution-context", "-p platform.xml --no-sched -q -e --",
        "-p platform.xml --simgrid-version", "-p none.xml -r nobody --dump-execution-context",
        "-p platform.xml --mmax -+4", "-p platform.xml --mmax 99999999999",
        "-p platform.xml -w workload.json --mmax 4.5 --no-sched -q -e OUT", "-p platform.xml --workload=",
        "--help --foo", "--version -z more", "--simgrid-version --foo", "-p platform.xml -v loud",
        "-p platform.xml --workflow-jobs-limit -1", "-p platform.xml -w workload.json --mmax -1 --no-sched -q -e OUT",
        "-p platform.xml --enable-profile-reuse", "-p platform.xml --dump-execution-context",
        "-pplatform.xml --no-sched -q --export=OUT", "-p platform.xml -w workload.json --no-sched -qE --expo OUT",
        "-p platform.xml -w platform.xml -q", "-p workload.json -w workload.json -q",
        "-p platform.xml -w workload.json -r nobody:storage -q --no-sched -e OUT",
    ],
)  # fmt: skip
def test_command_lines_are_accepted_or_rejected_as_by_batsim(args: str, tmp_path: Path) -> None:
    codes, outcomes = [], []
    place = tmp_path / "inputs"
    shutil.copytree(recording("plain").directory, place)  # some would write where they are
    for program in (DROP_IN, REAL):
        done = subprocess.run(
            [*program, *(arg.replace("OUT", str(tmp_path / "out")) for arg in args.split())],
            cwd=place,
            capture_output=True,
            text=True,
            timeout=PATIENCE_OF_WORK_S,
            check=False,
        )
        codes.append(done.returncode)
        outcomes.append(done.stdout if "--dump" in args else "")
    assert codes[0] == codes[1]
    assert outcomes[0] == outcomes[1]
