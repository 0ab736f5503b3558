"""With a real Batsim 5: every policy on every input that it can read, the same jobs as on the embedded simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.free_links import written
from support.grid_crowds import crowd as grid_crowd
from support.gridded import Grid
from support.located import FileNode, Machine, crowd as located_crowd
from support.places import GOLDEN
from support.process import run_cli
from support.programs import program
from support.recordings import recordings
from support.simulated import embed, rows

from pybatsched.errors import InputError
from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import replay
from pybatsched.testing import Workload
from pybatsched.workload.formats import batsim4
from pybatsched.workload.prepare import check_work, without_unused

pytestmark = pytest.mark.batsim5

POLICIES = ["fcfs", "easy", "conservative", "dbf", "ujf", "ujfb", "redirection", "reallocation"]
MACHINE = Machine((FileNode(), FileNode(), FileNode(memory_gb=32), FileNode(8, 16, 0.25)))
GRID = Grid({"c1": (4, 1.0), "c2": (6, 1.2), "c3": (2, 2.0)})
#: Options of Batsim 4 that schedulers of Batsim 5 request themselves; the other known ones have the same name.
ASKED_FOR = {
    "--enable-dynamic-jobs",
    "--acknowledge-dynamic-jobs",
    "--enable-profile-reuse",
    "--forward-profiles-on-submission",
}
SAME = {"-p": 1, "-w": 1, "-E": 0, "-m": 1, "--mmax": 1, "--mmax-workload": 0}
#: Recordings that are not played, and why.
NOT_RUN = {
    "job-messages": "Batsim 5 has no messages between jobs and schedulers",
    "sched-config": "its --sched-cfg holds an option that no policy has",
    "storage": "it has a parallel file system",
    "clock-noise": "last-bit effects of SimGrid's clock (docs/conformance.md)",
    "very-short": "last-bit effects of SimGrid's clock (docs/conformance.md)",
}


def converted_args(args: list[str]) -> list[str] | None:
    """Convert the arguments of Batsim 4 to those for both; None if Batsim 5 lacks one of them."""
    converted, arguments = [], [arg for arg in args if arg not in ASKED_FOR]
    while arguments:
        arg = arguments.pop(0)
        if arg not in SAME:
            return None
        converted += [arg, *(arguments.pop(0) for _ in range(SAME[arg]))]
    return converted


def inputs() -> dict[str, tuple[Path, list[str]]]:
    """Return all inputs by name: where they are, and the arguments."""
    found = {one.name: (one.directory, converted_args(one.args)) for one in recordings() if one.name not in NOT_RUN}
    for path in sorted((GOLDEN / "schedules").glob("*/workload.json")):
        found[f"schedule {path.parent.name}"] = (path.parent, ["-p", "platform.xml", "-w", "workload.json"])
    return {
        name: (place, args)
        for name, (place, args) in found.items()
        if args and not name.startswith("com-") and all(map(has_work, place.glob("workload*.json")))
    }


def has_work(path: Path) -> bool:
    """Return whether all jobs of a workload have work: Batsim 5 crashes on a job without."""
    try:
        check_work(without_unused(batsim4.read(path)))
    except InputError:
        return False
    return True


INPUTS = inputs()
#: What a job's row has from the instant at which it was registered: Batsim 5 knows no earlier one.
SINCE_REGISTERED = ("submission_time", "waiting_time", "turnaround_time", "stretch")


def became(path: Path) -> list[dict[str, str]]:
    """Return all job rows of a run; ends at one instant may have another order. Energy is compared elsewhere."""
    found = rows(path)
    for row in found:
        del row["consumed_energy"]
        for name in SINCE_REGISTERED if row["workload_name"] == "dyn" else ():
            del row[name]
        for name, value in row.items():
            row[name] = value.replace("-0.000000", "0.000000")
    return sorted(found, key=lambda row: (row["workload_name"], row["job_id"]))


def run5(place: Path, args: list[str], policy: list[str], out: Path) -> Path:
    """Run a policy with Batsim 5, and again from the journal. Return the file of its jobs."""
    own = [arg.replace("-E", "--energy-host") for arg in args if arg in {"-E", "--mmax-workload"}]
    files = [arg for arg in args if arg not in {"-E", "--mmax-workload"}]
    batsim = program("batsim5")
    assert batsim is not None
    given = ["--policy", *policy, "-e", str(out / "five"), "--journal", str(out / "five.pbj"), "--batsim", batsim]
    done = run_cli("run", *files, *given, "--allow-empty", "-q", "--", *own, cwd=place)
    assert done.returncode == 0, done.stderr
    assert replay(JournalReader(out / "five.pbj"), policy[0]).difference is None
    return out / "five_jobs.csv"


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_are_those_of_the_embedded_simulator(policy: str, name: str, tmp_path: Path) -> None:
    place, args = INPUTS[name]
    theirs = run5(place, args, [policy], tmp_path)
    assert became(theirs) == became(embed(place, args, policy, tmp_path / "mine"))


def compare_with_batsim5(workload: Workload, hosts: list[dict[str, str]], policy: list[str], place: Path) -> None:
    """Compare a run with Batsim 5 with one on the embedded simulator, on hosts with properties."""
    args = [text for text in written(workload, hosts, place) if text not in ASKED_FOR]
    done = run_cli("simulate", *args, "--policy", *policy, "-e", str(place / "mine"), "-q")
    assert done.returncode == 0, done.stderr
    theirs = became(run5(place, args, policy, place))
    assert theirs == became(place / "mine_jobs.csv")
    assert any("kind=replace" in row["metadata"] for row in theirs)


@pytest.mark.parametrize("score", ["fcfs", "eft", "lea", "leo", "lem"])
def test_locality(score: str, tmp_path: Path) -> None:
    compare_with_batsim5(located_crowd(MACHINE, 3, 60), MACHINE.hosts, ["locality", "-o", f"score={score}"], tmp_path)


@pytest.mark.parametrize("algorithm", ["none", "regular", "all_cancellation"])
def test_reallocation(algorithm: str, tmp_path: Path) -> None:
    crowd = grid_crowd(GRID, 3, 60, unscaled=False)
    compare_with_batsim5(
        crowd, GRID.hosts, ["reallocation", "-o", "period=10", "-o", f"algorithm={algorithm}"], tmp_path
    )
