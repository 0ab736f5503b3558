"""The power of shared processors: each load is counted for its duration."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.free_links import equal_nodes
from support.patience import PATIENCE_OF_WORK_S
from support.replying import DROP_IN
from support.simulated import rows

from pybatsched.core.intervals import IntervalSet
from pybatsched.simulator import hosts
from pybatsched.simulator.hosts import CountingBook, HostBook, HostState

#: Eight hosts that draw 50 W idle, 60 W with next to no work and 150 W in full use.
PLATFORM = equal_nodes(8, properties={"wattage_per_state": "50:60:150"})


def write(directory: Path, *jobs: tuple[int, list[dict[str, object]]]) -> None:
    """Write a platform and a workload of jobs, each of so many processors and of these profiles in turn."""
    profiles: dict[str, dict[str, object]] = {}
    described = []
    for number, (n, parts) in enumerate(jobs):
        names = [f"{number}.{place}" for place in range(len(parts))]
        profiles |= dict(zip(names, parts, strict=True))
        profiles[str(number)] = {"type": "composed", "repeat": 1, "seq": names}
        described.append({"id": str(number), "subtime": 0, "res": n, "profile": str(number), "walltime": 1000})
    (directory / "w.json").write_text(json.dumps({"nb_res": 8, "jobs": described, "profiles": profiles}))
    (directory / "p.xml").write_text(PLATFORM)


def energies(directory: Path, program: Sequence[str] = DROP_IN) -> list[tuple[float, float]]:
    """Run all jobs at once. Return the ends, and the energy of all hosts up to each end."""
    command = [*program, "-p", "p.xml", "-w", "w.json", "-E", "--no-sched", "-q"]
    subprocess.run(command, cwd=directory, capture_output=True, timeout=PATIENCE_OF_WORK_S, check=True)
    table = rows(directory / "out_consumed_energy.csv")
    return [(float(row["time"]), float(row["energy"])) for row in table if row["event_type"] == "e"]


def gflop(amount: float) -> dict[str, object]:
    return {"type": "parallel_homogeneous", "cpu": amount * 1e9, "com": 0}


def seconds(n: int) -> dict[str, object]:
    return {"type": "delay", "delay": n}


SECOND = seconds(1)


def test_a_job_that_becomes_faster_when_another_ends(tmp_path: Path) -> None:
    """Until 8, hosts 0 and 1 are in full use and hosts 2 and 3 in half; then all four are in full use."""
    first = 8 * (2 * 150 + 2 * 105 + 4 * 50)
    write(tmp_path, (4, [gflop(8)]), (2, [gflop(4)]))
    assert energies(tmp_path) == [(8, first), (12, first + 4 * (4 * 150 + 4 * 50))]


def test_a_job_that_starts_to_compute_when_another_ends(tmp_path: Path) -> None:
    """At 1 a job ends that has only slept, and another one begins to compute: until then there was one task."""
    first = 2 * 150 + 6 * 50
    then = first + 2 * (2 * 150 + 105 + 5 * 50)
    write(tmp_path, (3, [SECOND, gflop(8)]), (6, [SECOND]), (2, [gflop(2)]))
    assert energies(tmp_path) == [(1, first), (3, then), (10, then + 7 * (3 * 150 + 5 * 50))]


def test_a_job_that_becomes_slower_when_another_starts(tmp_path: Path) -> None:
    """From 1 on the second job shares host 0, so that host 1 is in half use; its meter is not read before 5.

    So all five seconds are billed as half use there, as Batsim does.
    """
    write(tmp_path, (2, [gflop(4)]), (1, [SECOND, gflop(2)]))
    first = 5 * (150 + 105 + 6 * 50)
    assert energies(tmp_path) == [(5, first), (6, first + 2 * 150 + 6 * 50)]


@pytest.mark.batsim
@pytest.mark.parametrize("seed", range(12))
def test_random_runs_equal_those_of_batsim(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)

    def job() -> tuple[int, list[dict[str, object]]]:
        parts = [
            gflop(draw.randint(1, 8)) if draw.random() < 0.6 else seconds(draw.randint(1, 6))
            for _ in range(draw.randint(1, 4))
        ]
        return draw.randint(1, 8), parts

    write(tmp_path, *(job() for _ in range(draw.randint(2, 4))))
    assert energies(tmp_path) == energies(tmp_path, ["batsim"])


N = 12
actions = st.lists(
    st.tuples(st.integers(0, 7), st.sets(st.integers(0, N - 1), min_size=1, max_size=N), st.booleans()), max_size=40
)


@given(actions, st.sampled_from([1, 3, 4096]))
def test_the_counting_book_equals_the_book_of_hosts(steps: list[tuple[int, set[int], bool]], n_kept: int) -> None:
    quick, slow = CountingBook(N), HostBook(N)
    quick._n_keep = n_kept
    running: dict[str, IntervalSet] = {}
    now = 0.0
    for number, (dt, members, ends) in enumerate(steps):
        now += dt / 4
        procs = IntervalSet(members)
        assert quick.blocked(procs) == slow.blocked(procs) or (quick.blocked(procs) and slow.blocked(procs))
        if ends and running:
            job = min(running)
            for book in (quick, slow):
                book.end(job, running[job], now)
            del running[job]
        elif quick.blocked(procs) is None:
            running[f"j{number:03}"] = procs
            for book in (quick, slow):
                book.start(f"j{number:03}", procs, now)
        assert quick.counts_text() == slow.counts_text()
        assert quick.times_s() == slow.times_s()


def test_the_current_state_is_not_yet_counted() -> None:
    book = HostBook(2)
    book.start("a", IntervalSet([0]), 3.0)
    assert book.times_s()[HostState.IDLE] == 3.0
    book.end("a", IntervalSet([0]), 5.0)
    assert book.times_s()[HostState.COMPUTING] == 2.0
    assert book.times_s()[HostState.IDLE] == 3.0


def test_a_busy_processor_gives_the_reason() -> None:
    book = CountingBook(4)
    book.start("w0!a", IntervalSet([1, 2]), 0.0)
    assert book.blocked(IntervalSet([0, 2])) == (2, "is currently computing jobs (w0!a), and sharing is off")
    assert book.blocked(IntervalSet([7])) == (7, "does not exist")
    away = HostBook(4)
    away.change(3, HostState.UNAVAILABLE, 1.0)
    assert away.blocked(IntervalSet([3])) == (3, "cannot compute jobs now: it is unavailable")
    assert away.n_away(4) == 1


def test_outdated_changes_are_removed() -> None:
    book = CountingBook(2)
    for i in range(3 * hosts._MANY_CHANGES):
        book.start(f"j{i}", IntervalSet([i % 2]), float(i))
        book.end(f"j{i}", IntervalSet([i % 2]), float(i + 1))
    assert len(book._changes) <= hosts._MANY_CHANGES
    n = 3 * hosts._MANY_CHANGES
    assert book.times_s()[HostState.COMPUTING] == n
    assert book.times_s()[HostState.IDLE] == n - 1
