"""`published_locality`: each rule of the published program, and rows of its own output on the real day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.located import DYNAMIC, Fate, FileNode, Machine, fates
from support.logs import rackham_line, rackham_workload
from support.places import SHARED_CASES, TRACES

from pybatsched.cli import main
from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import read_run
from pybatsched.testing import Workload, run_policy
from pybatsched.workload.formats import batsim4
from pybatsched_studies.locality import rackham

TWO = Machine((FileNode(), FileNode()))
DAY = TRACES / "rackham" / "rackham-2022-09-10_V10000_anonymous.txt.gz"


def played(jobs: Workload, machine: Machine = TWO, **options: Any) -> dict[str, Fate]:
    run = run_policy("published_locality", jobs, machine.n_procs, hosts=machine.hosts, config=DYNAMIC, **options)
    assert not run.deadlocked
    return fates(run, machine)


def starts(found: dict[str, Fate]) -> dict[str, float | None]:
    return {name: fate.started_at for name, fate in sorted(found.items())}


def test_a_pass_comes_only_in_a_30th_second_in_which_something_happens() -> None:
    """At 30 nothing happens; at 60 a job is submitted, and the earlier one starts with it."""
    jobs = Workload().job("a", n=1, s=10, at=5, walltime=20).job("b", n=1, s=120, at=60, walltime=200)
    jobs.job("c", n=1, s=10, at=61, walltime=20).job("d", n=1, s=10, at=180, walltime=20)
    # At 180 b ends, so d joins the waiting jobs and gets a full pass; c is still new, and would wait for ever.
    assert starts(played(jobs)) == {"a": 60, "b": 60, "c": 210, "d": 180}


@pytest.mark.parametrize(("x_s", "b_at"), [(60, 60), (65, 90)])
def test_cores_of_a_job_that_ended_early_are_known_after_the_next_full_pass_only(x_s: float, b_at: float) -> None:
    """A ends at 10, but b, submitted at 30, is planned after x, at 90; an end at 60 causes a full pass."""
    jobs = Workload().job("a", n=4, s=10, walltime=100, history_node=0)
    jobs.job("b", n=4, s=5, at=30, walltime=20).job("x", n=3, s=x_s, walltime=90, history_node=1)
    found = played(jobs, score="fcfs")
    assert starts(found) == {"a": 0, "b": b_at, "x": 0}
    assert found["b"].node == (0 if b_at == 60 else 1)


def test_history_waits_for_the_cores_of_its_node() -> None:
    """By logged start: c, a, b. Other jobs of that second are new, and have their first pass at 30."""
    jobs = Workload().job("a", n=3, s=50, walltime=50, history_node=2, history_start=-5)
    jobs.job("b", n=3, s=9, walltime=40, history_node=0, history_start=-1)
    jobs.job("c", n=1, s=10, walltime=20, history_node=0, history_start=-9).job("d", n=1, s=5, walltime=10)
    jobs.job("e", n=1, s=5, at=30, walltime=10)
    found = played(jobs)
    assert starts(found) == {"a": 0, "b": 50, "c": 0, "d": 30, "e": 30}
    assert [found[name].node for name in "abc"] == [0, 0, 0]


@pytest.mark.parametrize(
    ("logged", "order"),
    [((-5, -5, -5), "cba"), ((-9, -5, -5), "abc"), ((-5, -5, -9, -5, -5), "cbade"), ((-5, -9, -9, -5), "cbad")],
)
def test_history_with_the_logged_start_of_the_head_goes_before_it(logged: tuple[int, ...], order: str) -> None:
    """Jobs are inserted in the order of submission. A job with the start of the head becomes the head."""
    jobs = Workload()
    for name, start in zip("abcde", logged, strict=False):
        jobs.job(name, n=4, s=5, walltime=5, history_node=0, history_start=start)
    assert starts(played(jobs)) == {name: 5 * order.index(name) for name in sorted(order)}


def test_leo_stays_eft_for_the_nodes_after_one_where_it_could_start() -> None:
    """Node 0 is free now, node 1 at 40 with the file. By its own multipliers node 1 would lose; it wins by EFT's."""
    machine = Machine((FileNode(4, 16, 0.0625), FileNode(4, 16, 0.0625), FileNode(4, 16, 0.0625)))
    jobs = Workload().job("a", n=4, s=99, walltime=40, input_file="g", input_size_gb=4, history_node=1)
    jobs.job("b", n=4, s=99, walltime=40, input_file="f", input_size_gb=4, history_node=2)
    jobs.job("j", n=4, s=5, walltime=200, at=30, input_file="f", input_size_gb=4)
    # 64 s to load. Node 0: 30 + 64 = 94. Node 1: 40 + 64. Node 2: b is killed within its load, so 40 + (64 - 30) = 74,
    # where the rest of the load is counted from now; by LEA's multipliers 40 + 500 * 34.
    assert played(jobs, machine, score="leo")["j"] == Fate(40, 69, 2, 0, 24, True)
    assert played(jobs, machine, score="lea")["j"].node == 2
    swapped = Machine((machine.nodes[0],) * 3)
    for job in jobs.jobs[:2]:
        job["history_node"] -= 1  # node 2 is the free one now: node 1 is scored before it
    assert played(jobs, swapped, score="leo")["j"] == Fate(30, 99, 2, 64, 0, False)


def test_the_rest_of_a_load_is_counted_from_now() -> None:
    """At 62, when node 1 is free, 2 of 64 s would be left; from now on it is 34, and 62 + 34 is more than 30 + 64."""
    machine = Machine((FileNode(4, 16, 0.0625), FileNode(4, 16, 0.0625)))
    jobs = Workload().job("b", n=4, s=99, walltime=62, input_file="f", input_size_gb=4, history_node=1)
    jobs.job("j", n=4, s=5, walltime=200, at=30, input_file="f", input_size_gb=4)
    assert played(jobs, machine, score="eft")["j"] == Fate(30, 99, 0, 64, 0, False)


def lem_jobs() -> Workload:
    """Node 1 runs b, which uses file f. At 5 node 0 is idle; x is placed on it, and then y, which uses f, is placed."""
    jobs = Workload().job("b", n=4, s=90, walltime=50, history_node=1, input_file="f", input_size_gb=4)
    jobs.job("x", at=5, n=2, s=5, walltime=20)
    return jobs.job("y", at=5, n=1, s=5, walltime=20, input_file="f", input_size_gb=4)


def test_lem_counts_an_idle_node_as_running_once_a_job_starts_there() -> None:
    """With x on node 0 all nodes run, so y waits for node 1, which has its file. The end of x starts a full pass."""
    assert starts(played(lem_jobs(), score="lem", interval_s=1)) == {"b": 0, "x": 5, "y": 10}
    assert starts(played(lem_jobs(), score="eft", interval_s=1)) == {"b": 0, "x": 5, "y": 5}


def test_lem_does_not_count_an_idle_node_with_a_core_that_is_available_later() -> None:
    """Job a ended early, but its core counts as available from 100 on: x on node 0 adds no running node."""
    jobs = lem_jobs().job("a", n=1, s=2, walltime=100, history_node=0)
    assert starts(played(jobs, score="lem", interval_s=1)) == {"a": 0, "b": 0, "x": 5, "y": 5}


def test_lem_counts_a_node_once() -> None:
    """Of three nodes, v and x start on node 0. Node 2 is still idle, so y starts at once."""
    jobs = lem_jobs().job("v", at=5, n=2, s=5, walltime=20)
    assert starts(played(jobs, Machine((FileNode(),) * 3), score="lem", interval_s=1)) == {
        "b": 0,
        "v": 5,
        "x": 5,
        "y": 5,
    }


@pytest.mark.parametrize(("score", "last"), [("fcfs", 60), ("eft", 90)])
def test_scored_modes_stop_at_the_first_job_with_too_many_cores(score: str, last: float) -> None:
    """At 60, when a ends, 2 cores of each node are idle. FCFS reserves wide, for 90, and goes on to narrow."""
    machine = Machine((FileNode(8, 128, 0.5), FileNode(8, 128, 0.5)))
    jobs = Workload().job("a", n=2, s=60, walltime=70, history_node=0).job("b", n=6, s=90, walltime=90, history_node=0)
    jobs.job("c", n=6, s=90, walltime=90, history_node=1)
    jobs.job("wide", n=5, s=5, at=60, walltime=20).job("x narrow", n=1, s=5, at=60, walltime=20)
    found = played(jobs, machine, score=score)
    assert found["wide"].started_at == 90
    assert found["x narrow"].started_at == last


def lem_case() -> list[str]:
    """All 486 nodes get a job. The job of node 0 ends early, at 51. Of two jobs at 60 the first goes to node 0."""

    def filling(number: int, at: int) -> str:
        return rackham_line(number, at, 5000, 6000, 20, user=f"u{number}", data=999 + number, size="6.400000")

    return [
        rackham_line(1, 0, 20, 10000, 10, user="u1", size="0.100000"),
        *(filling(number, 0) for number in range(2, 486)),
        filling(486, 30),
        rackham_line(487, 60, 100, 8000, 5, user="u487", data=2, size="0.100000", kind=1),
        rackham_line(488, 60, 100, 7000, 1, user="u488", data=1001, size="6.400000", kind=1),
    ]


def tie_case() -> list[str]:
    """Two jobs of the history have the same node and the same logged start."""

    return [
        rackham_line(1, 0, 1000, 2000, 20, user="u1", data=1, size="0.100000", kind=-2, started=500, node=6),
        rackham_line(2, 0, 3000, 4000, 20, user="u2", data=2, size="0.100000", kind=-2, started=500, node=6),
        rackham_line(3, 600, 50, 100, 1, user="u3", data=3, size="0.100000"),
        rackham_line(4, 6600, 50, 100, 1, user="u4", data=4, size="0.100000", kind=1),
    ]


RACKHAM_CASES = {
    "lem": (lem_case(), {"001": 30, "002": 30, "486": 30, "487": 60, "488": 60}),
    "tie": (tie_case(), {"1": 3900, "2": 0, "3": 6000, "4": 6000}),
}


@pytest.mark.parametrize("name", RACKHAM_CASES)
def test_cases_on_the_whole_machine(name: str, tmp_path: Path) -> None:
    """The expected starts are those of the program itself."""
    lines, expected = RACKHAM_CASES[name]
    prefix = str(tmp_path / "run")
    options = ["--policy", "published_locality", "-o", "score=lem", "-e", prefix, "--quiet"]
    assert main(["simulate", "-p", "rackham-128gb", "-w", str(rackham_workload(tmp_path, *lines)), *options]) == 0
    found = {job.id.removeprefix("w0!"): job.started_at for job in read_run(prefix).records}
    assert len(found) == len(lines)
    assert {number: found[number] for number in expected} == expected


@pytest.mark.parametrize("name", RACKHAM_CASES)
def test_cases_equal_the_shared_files(name: str) -> None:
    case = SHARED_CASES / f"locality-{name}.txt"
    if not case.exists():
        pytest.skip(f"the case {case.name} is not at hand")
    assert case.read_text().splitlines() == RACKHAM_CASES[name][0]


ROWS = {
    "lea": {"mean queue": 21349.84, "mean flow": 28932.08, "mean stretch": 31.0728, "mean bounded stretch": 28.9527,
     "max queue": 599_459, "transfer": 409_344, "wait for loads": 90_634, "reuses": 641},
    "lem": {"mean queue": 21849.46, "mean flow": 29449.51, "mean stretch": 33.4393, "mean bounded stretch": 30.8631,
     "max queue": 86_088, "transfer": 501_632, "wait for loads": 27_584, "reuses": 433},
}  # fmt: skip


@pytest.mark.long
@pytest.mark.skipif(not DAY.exists(), reason=f"the trace {DAY.name} is not at hand")
@pytest.mark.parametrize("score", ROWS)
def test_the_programs_own_row_on_the_real_day(score: str, tmp_path: Path) -> None:
    """On 2022-09-10 totals, maxima and reuses are equal, means but for the program's single floats."""
    row = ROWS[score]
    prefix = str(tmp_path / "run")
    day = tmp_path / "day.json"
    batsim4.write(rackham.read(DAY), day)
    options = ["--policy", "published_locality", "-o", f"score={score}", "-e", prefix, "--quiet"]
    assert main(["simulate", "-p", "rackham-128gb", "-w", str(day), *options]) == 0
    jobs = read_run(prefix).evaluated
    assert len(jobs) == 1511
    means = {
        "mean queue": sum(jobs.values("queue_time_s")) / 1511,
        "mean flow": sum(jobs.values("flow_s")) / 1511,
        "mean stretch": sum(jobs.values("stretch")) / 1511,
        "mean bounded stretch": sum(jobs.values("bounded_stretch")) / 1511,
    }
    exact = {
        "max queue": max(jobs.values("queue_time_s")),
        "transfer": sum(jobs.values("load_s")),
        "wait for loads": sum(jobs.values("load_wait_s")),
        "reuses": sum(jobs.values("reused")),
    }
    assert exact == {name: row[name] for name in exact}
    assert means == {name: pytest.approx(row[name], rel=1e-5) for name in means}


def test_nodes_may_load_at_different_speeds() -> None:
    """Node 0 loads 4 GB in 64 s, node 1 in 8 s: the earliest finish is there, though both are free."""
    machine = Machine((FileNode(4, 16, 0.0625), FileNode(4, 16, 0.5)))
    jobs = Workload().job("j", n=1, s=5, walltime=200, at=30, input_file="f", input_size_gb=4)
    assert played(jobs, machine, score="eft")["j"] == Fate(30, 43, 1, 8, 0, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backfill": True}, "cannot be used with backfill"),
        ({"persistence": True}, "cannot be used with persistence"),
        ({"bigger_nodes": "idle"}, "cannot be used with bigger_nodes=idle"),
        ({"bigger_nodes": "area", "areas": {"16": 1}}, "cannot be used with bigger_nodes=area"),
        ({"x3": 1}, "cannot be used with x3"),
        ({"interval_s": 0}, "expected interval_s in whole seconds from 1, found 0"),
        ({"interval_s": 1.5}, "expected interval_s in whole seconds from 1, found 1.5"),
    ],
)
def test_options_that_the_program_does_not_have(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        played(Workload().job("a", n=1, s=10, walltime=20), **options)
    assert str(raised.value) == f"policy published_locality: {message}"
