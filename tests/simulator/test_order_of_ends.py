"""The order of jobs that end at one instant, some at their walltimes; compared with the real Batsim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.free_links import equal_nodes
from support.process import run_cli
from support.simulated import beside_batsim, rows, same_jobs, simgrid_version

PLATFORM = equal_nodes(8, properties={"wattage_per_state": "50:60:150"})
PROFILES = {
    **{f"p{s}": {"type": "parallel_homogeneous", "cpu": s * 1e9, "com": 0} for s in (1, 2, 3, 5, 50)},
    **{f"d{s}": {"type": "delay", "delay": s} for s in (1, 2, 3, 5, 50)},
}

#: Jobs by name: what they do in turn, their walltimes, when they are submitted; and the order of their ends.
CASES = {
    "the first part is cut": (["A p50 5 0", "B d5 100 0", "C p50 5 0", "D p5 100 0"], "ABCD"),
    "a later part is cut": (["A p2,p50 7 0", "B p2,d5 100 0", "C d2,p50 7 0", "D d2,d5 100 0"], "BDAC"),
    "a later part ends as a delay does": (["0 p2,d2,d2,p1 100 0", "1 d3 2 0", "2 d3,p1,d2 5 2", "3 p3 100 2"], "1320"),
    "a later part takes all that is left": (
        ["0 p1,d2 3 2", "1 p2,p2,d1 4 1", "2 p1,d1,p3 6 0", "3 p2,p2,d2 5 0", "4 p2 3 2", "5 d2,p1 4 0", "6 p3 6 0"],
        "6542013",
    ),
    "a later part has no time at all": (
        ["0 d2,d3,d3 5 1", "1 d3 6 2", "2 d1,d1,p3 3 0", "3 d3,p2 4 0", "4 p2,p1,p1 7 2", "5 d1,p2,p1 3 0"],
        "253104",
    ),
    "a job comes at that instant": (["0 p2,p2 7 0", "1 p2,p1 2 0", "2 d3,p1 3 0", "3 d2 6 2"], "1203"),
}
#: Orders that differ since SimGrid 3.34: describing a parallel task takes no rounds of the kernel there.
SINCE_3_34 = {"a later part ends as a delay does": "1302", "a later part takes all that is left": "6542103"}


def write(case: str, directory: Path) -> list[str]:
    """Write the inputs of a case. Gives Batsim's arguments."""
    profiles = dict(PROFILES)
    jobs = []
    for name, parts, walltime, at in map(str.split, CASES[case][0]):
        profiles[name] = {"type": "composed", "repeat": 1, "seq": parts.split(",")}
        jobs.append({"id": name, "subtime": int(at), "res": 1, "profile": name, "walltime": int(walltime)})
    (directory / "w.json").write_text(json.dumps({"nb_res": 8, "jobs": jobs, "profiles": profiles}))
    (directory / "p.xml").write_text(PLATFORM)
    return ["-p", str(directory / "p.xml"), "-w", str(directory / "w.json")]


@pytest.mark.parametrize("energy", [[], ["-E"]], ids=["", "energy"])
@pytest.mark.parametrize("case", CASES)
def test_order_of_ends_at_one_instant(case: str, energy: list[str], tmp_path: Path) -> None:
    done = run_cli("simulate", *write(case, tmp_path), *energy, "--policy", "fcfs", "-e", str(tmp_path / "out"), "-q")
    assert done.returncode == 0, done.stderr
    assert "".join(row["job_id"] for row in rows(tmp_path / "out_jobs.csv")) == CASES[case][1]


@pytest.mark.batsim
@pytest.mark.parametrize("energy", [[], ["-E"]], ids=["", "energy"])
@pytest.mark.parametrize("case", CASES)
def test_order_of_ends_equals_batsims(case: str, energy: list[str], tmp_path: Path) -> None:
    mine, theirs = beside_batsim([*write(case, tmp_path), *energy], "fcfs", [], tmp_path)
    if case in SINCE_3_34 and simgrid_version() >= (3, 34):
        head, *lines = mine.read_text().splitlines(keepends=True)
        lines.sort(key=lambda line: SINCE_3_34[case].index(line[0]))
        mine.write_text("".join([head, *lines]))
    same_jobs(mine, theirs)
