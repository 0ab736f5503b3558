"""What shared processors draw: each load is billed for the time it lasted, whoever reads the meters at which end."""

from __future__ import annotations

import json
from pathlib import Path

from support.free_links import equal_nodes
from support.process import run_process
from support.simulated import rows

#: Eight hosts that draw 50 W idle, 60 W with next to no work and 150 W in full use.
PLATFORM = equal_nodes(8, properties={"wattage_per_state": "50:60:150"})


def energies(directory: Path, *jobs: tuple[int, list[dict[str, object]]]) -> list[tuple[float, float]]:
    """Run jobs, each of so many processors and of these profiles in turn, all at once.

    Gives when ends were, and what all hosts together had consumed by then, as Batsim writes it down.
    """
    profiles: dict[str, dict[str, object]] = {}
    described = []
    for number, (n, parts) in enumerate(jobs):
        names = [f"{number}.{place}" for place in range(len(parts))]
        profiles |= dict(zip(names, parts, strict=True))
        profiles[str(number)] = {"type": "composed", "repeat": 1, "seq": names}
        described.append({"id": str(number), "subtime": 0, "res": n, "profile": str(number), "walltime": 1000})
    (directory / "w.json").write_text(json.dumps({"nb_res": 8, "jobs": described, "profiles": profiles}))
    (directory / "p.xml").write_text(PLATFORM)
    done = run_process("batsim", "-p", "p.xml", "-w", "w.json", "-E", "--no-sched", "-q", cwd=directory)
    assert done.returncode == 0, done.stderr
    table = rows(directory / "out_consumed_energy.csv")
    return [(float(row["time"]), float(row["energy"])) for row in table if row["event_type"] == "e"]


def gflop(amount: float) -> dict[str, object]:
    return {"type": "parallel_homogeneous", "cpu": amount * 1e9, "com": 0}


SECOND: dict[str, object] = {"type": "delay", "delay": 1}


def test_one_that_goes_faster_when_another_ends(tmp_path: Path) -> None:
    """Until 8, hosts 0 and 1 are in full use and hosts 2 and 3 in half; then all four are in full use."""
    first = 8 * (2 * 150 + 2 * 105 + 4 * 50)
    assert energies(tmp_path, (4, [gflop(8)]), (2, [gflop(4)])) == [(8, first), (12, first + 4 * (4 * 150 + 4 * 50))]


def test_one_that_begins_to_compute_when_another_ends(tmp_path: Path) -> None:
    """At 1 a job ends that has only slept, and another one begins to compute: until then there was one task."""
    first = 2 * 150 + 6 * 50
    then = first + 2 * (2 * 150 + 105 + 5 * 50)
    found = energies(tmp_path, (3, [SECOND, gflop(8)]), (6, [SECOND]), (2, [gflop(2)]))
    assert found == [(1, first), (3, then), (10, then + 7 * (3 * 150 + 5 * 50))]
