"""With a real Batsim 5: every policy on every input that it can read, the same jobs as on the embedded simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.places import GOLDEN
from support.process import run_cli
from support.programs import program
from support.recordings import recordings
from support.simulated import embed, rows

from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import replay

pytestmark = pytest.mark.batsim5

POLICIES = ["fcfs", "easy", "conservative", "dbf", "ujf", "ujfb", "redirection", "locality", "reallocation"]
#: Options of Batsim 4 for which schedulers of Batsim 5 ask themselves; the others that are known have the same name.
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


def told(args: list[str]) -> list[str] | None:
    """Say what Batsim 4 was told, for either; None if there is something that Batsim 5 has not."""
    said, words = [], [word for word in args if word not in ASKED_FOR]
    while words:
        word = words.pop(0)
        if word not in SAME:
            return None
        said += [word, *(words.pop(0) for _ in range(SAME[word]))]
    return said


def inputs() -> dict[str, tuple[Path, list[str]]]:
    """Give all inputs by name: where they are, and the arguments."""
    found = {one.name: (one.directory, told(one.args)) for one in recordings() if one.name not in NOT_RUN}
    for path in sorted((GOLDEN / "schedules").glob("*/workload.json")):
        found[f"schedule {path.parent.name}"] = (path.parent, ["-p", "platform.xml", "-w", "workload.json"])
    return {name: (place, args) for name, (place, args) in found.items() if args and not name.startswith("com-")}


INPUTS = inputs()
#: What a job's row has from the instant at which it was registered: Batsim 5 knows no earlier one.
SINCE_REGISTERED = ("submission_time", "waiting_time", "turnaround_time", "stretch")


def became(path: Path) -> list[dict[str, str]]:
    """Give all that a run tells of jobs; ends of one instant may have another order. Energy is compared elsewhere."""
    found = rows(path)
    for row in found:
        del row["consumed_energy"]
        for name in SINCE_REGISTERED if row["workload_name"] == "dyn" else ():
            del row[name]
        for name, value in row.items():
            row[name] = value.replace("-0.000000", "0.000000")
    return sorted(found, key=lambda row: (row["workload_name"], row["job_id"]))


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_are_those_of_the_embedded_simulator(policy: str, name: str, tmp_path: Path) -> None:
    place, args = INPUTS[name]
    own = [word.replace("-E", "--energy-host") for word in args if word in {"-E", "--mmax-workload"}]
    files = [word for word in args if word not in {"-E", "--mmax-workload"}]
    given = ["run", *files, "--policy", policy, "-e", str(tmp_path / "five"), "--journal", str(tmp_path / "five.pbj")]
    batsim = program("batsim5")
    assert batsim is not None
    done = run_cli(*given, "--batsim", batsim, "--allow-empty", "-q", "--", *own, cwd=place)
    assert done.returncode == 0, done.stderr
    mine = embed(place, args, policy, tmp_path / "mine")
    assert became(tmp_path / "five_jobs.csv") == became(mine)
    assert replay(JournalReader(tmp_path / "five.pbj"), policy).difference is None
