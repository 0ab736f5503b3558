"""The scores of locality on small machines, term by term, and the worked example of the study."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.located import DYNAMIC, Fate, FileNode, Machine, fates

from pybatsched.core import events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.testing import Workload, run_policy
from pybatsched_schedulers.locality.node_index import NodeIndex
from pybatsched_schedulers.locality.nodes import FileNodes
from pybatsched_schedulers.locality.options import LocalityOptions, Weights
from pybatsched_schedulers.locality.scores import Draft, WaitingJob

RACKHAM = FileNode(n_cores=20, memory_gb=128, bandwidth=0.1)


def nodes_of(machine: Machine) -> FileNodes:
    hosts = [e.Resource(i, f"h{i}", "idle", properties) for i, properties in enumerate(machine.hosts)]
    return FileNodes.of(
        Cluster(IntervalSet.span(0, machine.n_procs), resources=hosts), LocalityOptions.model_validate({})
    )


def draft_of(nodes: FileNodes, now: float) -> Draft:
    board = NodeIndex(list(nodes))
    board.refresh(now)
    return Draft(board, now)


def job(name: str) -> Job:
    return Job(name, 1)


def waiter(n: int, span_s: float, file: str = "", size_gb: float = 0.0) -> WaitingJob:
    return WaitingJob(job("new"), n, span_s, file, size_gb, 128)


def runs(nodes: FileNodes, index: int, n: int, until: float, file: str = "", size_gb: float = 0.0) -> None:
    """Let a job run since long ago, so that its file is loaded."""
    node, since = nodes[index], -1e6
    if file:
        node.files.arrive(file, size_gb, node.load_s(size_gb), since, until)
    node.start(job(f"on {index} until {until}"), n, since, until, file)


def scores(draft: Draft, one: WaitingJob, *, some_idle: bool, **options: Any) -> list[float]:
    weights = LocalityOptions.model_validate(options).rule().weights(some_idle=some_idle)
    offers = [draft.offer(index, one, weights) for index in range(len(draft.nodes))]
    return [math.inf if offer is None else offer.score for offer in offers]


def best(draft: Draft, one: WaitingJob, *, some_idle: bool, **options: Any) -> tuple[str, float]:
    offer = draft.best(one, LocalityOptions.model_validate(options).rule().weights(some_idle=some_idle))
    assert offer is not None
    return "ABC"[offer.nth], offer.at


def example(*, busy_b: float = 0.0, file_b: str = "") -> tuple[Draft, WaitingJob]:
    nodes = nodes_of(Machine((RACKHAM,) * 3))
    runs(nodes, 0, 20, 1000, "F1", 10)
    runs(nodes, 2, 20, 500, "F3", 20)
    if busy_b:
        runs(nodes, 1, 20, busy_b, file_b, 30 if file_b else 0)
    return draft_of(nodes, 0.0), waiter(10, 300, "F1", 10)


def test_the_terms_of_the_worked_example() -> None:
    draft, one = example()
    assert [draft.load_s(index, one, at) for index, at in enumerate((1000, 0, 500))] == [0, 100, 100]
    assert [draft.evict_s(index, one, at) for index, at in enumerate((1000, 0, 500))] == [0, 0, 100]
    assert [draft.load_s(0, one, at) for at in (999, 1000, 1000.5)] == [0, 0, 100]
    assert [draft.evict_s(2, one, at) for at in (499.5, 500, 501)] == [0, 100, 100]


@pytest.mark.parametrize(
    ("options", "expected", "chosen"),
    [
        ({"score": "fcfs"}, [1000, 0, 500], ("B", 0)),
        ({"score": "eft"}, [1000, 100, 600], ("B", 0)),
        ({"score": "lea"}, [1000, 50_000, 50_600], ("A", 1000)),
        ({}, [1000, 50_000, 50_600], ("A", 1000)),  # lea is the default
        ({"score": "leo"}, [1000, 100, 50_600], ("B", 0)),
        ({"score": "lem"}, [1000, 100, 600], ("B", 0)),
        ({"x1": 1}, [1000, 100, 600], ("B", 0)),
        ({"x1": 12, "x2": 3}, [1000, 1200, 2000], ("A", 1000)),
        ({"x3": 4}, [1000, 400, 900], ("B", 0)),  # A has the one copy, at 0 and at 500
        ({"x1": 1, "x2": 1, "x3": 20}, [1000, 2100, 2700], ("A", 1000)),
        ({"x2": 0}, [1000, 0, 500], ("B", 0)),
    ],
)
def test_the_worked_example(options: dict[str, Any], expected: list[float], chosen: tuple[str, float]) -> None:
    draft, one = example()
    assert scores(draft, one, some_idle=True, **options) == expected
    assert best(draft, one, some_idle=True, **options) == chosen


@pytest.mark.parametrize(
    ("score", "expected", "chosen"),
    [
        ("fcfs", [1000, 2000, 500], ("C", 500)),
        ("eft", [1000, 2100, 600], ("C", 500)),
        ("lea", [1000, 52_000, 50_600], ("A", 1000)),
        ("leo", [1000, 52_000, 50_600], ("A", 1000)),
        ("lem", [1000, 52_000, 50_600], ("A", 1000)),
    ],
)
@pytest.mark.parametrize("file_b", ["", "F2"])
def test_the_worked_example_with_b_busy_until_2000(
    score: str, expected: list[float], chosen: tuple[str, float], file_b: str
) -> None:
    draft, one = example(busy_b=2000, file_b=file_b)
    evict_s = 150 if file_b and expected[1] > 50_000 else 0  # half the node, 30 GB
    assert scores(draft, one, some_idle=False, score=score) == [expected[0], expected[1] + evict_s, expected[2]]
    assert best(draft, one, some_idle=False, score=score) == chosen


def played(score: str, *, b_is_busy: bool = False) -> dict[str, Fate]:
    machine = Machine((RACKHAM,) * 3)
    jobs = Workload()
    jobs.job("a", n=20, s=5000, walltime=1000, input_file="F1", input_size_gb=10, history_node=0)
    if b_is_busy:
        jobs.job("b", n=20, s=5000, walltime=2000, history_node=1)
    jobs.job("c", n=20, s=5000, walltime=500, input_file="F3", input_size_gb=20, history_node=2)
    jobs.job("j", n=10, s=50, walltime=300, input_file="F1", input_size_gb=10)
    run = run_policy("locality", jobs, 60, hosts=machine.hosts, config=DYNAMIC, score=score)
    assert not run.deadlocked
    return fates(run, machine)


@pytest.mark.parametrize("score", ["fcfs", "eft", "leo", "lem"])
def test_the_worked_example_played_on_b(score: str) -> None:
    """The job starts at once on B, and its work begins at 100; A and C are killed, their loads in their walltimes."""
    assert played(score) == {
        "a": Fate(0, 1000, 0, 100, 0, False),
        "c": Fate(0, 500, 2, 200, 0, False),
        "j": Fate(0, 150, 1, 100, 0, False),
    }


def test_the_worked_example_played_on_a() -> None:
    assert played("lea")["j"] == Fate(1000, 1050, 0, 0, 0, True)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ("fcfs", Fate(500, 650, 2, 100, 0, False)),
        ("eft", Fate(500, 650, 2, 100, 0, False)),
        ("lea", Fate(1000, 1050, 0, 0, 0, True)),
        # Until 500 it has a place on A, at 1000; but when C is idle, that is where it could start at once.
        ("leo", Fate(500, 650, 2, 100, 0, False)),
        ("lem", Fate(500, 650, 2, 100, 0, False)),
    ],
)
def test_the_worked_example_played_with_b_busy(score: str, expected: Fate) -> None:
    assert played(score, b_is_busy=True)["j"] == expected


def test_a_load_is_counted_from_the_start_and_by_the_best_stay() -> None:
    nodes = nodes_of(Machine((RACKHAM,)))
    nodes[0].files.arrive("f", 10, 100, 0, 400)
    nodes[0].start(job("a"), 10, 0, 400, "f")
    draft, one = draft_of(nodes, 30.0), waiter(15, 100, "f", 10)
    assert [draft.load_s(0, one, at) for at in (30, 60, 100, 400, 401)] == [70, 40, 0, 0, 100]
    offer = draft.offer(0, one, LocalityOptions.model_validate({"score": "eft"}).rule().weights(some_idle=False))
    assert offer is not None
    assert (offer.score, offer.at) == (400, 400)
    draft.place(one, offer)
    assert [draft.load_s(0, one, at) for at in (400, 450, 500, 501)] == [0, 0, 0, 100]


def test_an_idle_file_is_evicted_for_a_share_of_the_node() -> None:
    nodes = nodes_of(Machine((FileNode(4, 16, 0.5),)))
    for file, size_gb in (("f", 4), ("g", 2)):
        nodes[0].files.arrive(file, size_gb, 0, 0, 10)
        nodes[0].files.leave(file, 10)
    draft = draft_of(nodes, 10.0)
    assert [draft.evict_s(0, waiter(n, 5, "h", 1), 10) for n in (1, 2, 4)] == [3, 6, 12]
    assert draft.evict_s(0, waiter(4, 5, "f", 4), 10) == 4  # its own file is not evicted


def test_of_equal_nodes_the_first_is_the_best() -> None:
    nodes = nodes_of(Machine((RACKHAM,) * 3))
    runs(nodes, 0, 20, 50)
    for score in ("fcfs", "eft", "lea", "leo", "lem"):
        assert best(draft_of(nodes, 0.0), waiter(1, 5, "f", 1), some_idle=True, score=score) == ("B", 0)


def test_copies_are_counted_on_nodes_of_all_classes() -> None:
    """The big node holds the file too. With it, waiting for the small one (40) is better than loading at once."""
    machine = Machine((FileNode(4, 16, 0.5), FileNode(4, 16, 0.5), FileNode(4, 32, 0.5)))
    jobs = Workload()
    for name, node in (("a", 0), ("b", 2)):
        jobs.job(name, n=4, s=40, walltime=40, input_file="f", input_size_gb=4, history_node=node)
    jobs.job("j", n=4, s=5, walltime=20, input_file="f", input_size_gb=4)
    for x3, start, node in ((2, 0, 1), (3, 40, 0)):  # 8 s to load: 0 + 2 * 2 * 8 < 40 < 0 + 3 * 2 * 8
        run = run_policy("locality", jobs, 12, hosts=machine.hosts, config=DYNAMIC, x3=x3)
        found = fates(run, machine)["j"]
        assert (found.started_at, found.node) == (start, node)


def test_a_file_is_expected_to_be_evicted_after_its_last_user() -> None:
    """Early could have stayed until 1000 but ended at 20: at 80, when there are cores, the file will be gone."""
    machine = Machine((FileNode(4, 16, 0.5), FileNode(4, 16, 0.5)))
    file: dict[str, Any] = {"input_file": "f", "input_size_gb": 4}
    jobs = Workload()
    jobs.job("early", n=2, s=12, walltime=1000, history_node=0, **file)
    jobs.job("late", n=2, s=500, walltime=50, history_node=0, **file)
    jobs.job("other", n=2, s=500, walltime=60, at=20, history_node=0)
    jobs.job("j", n=4, s=5, walltime=20, at=21, **file)
    run = run_policy("locality", jobs, 8, hosts=machine.hosts, config=DYNAMIC, score="lea", interval_s=0)
    assert fates(run, machine)["j"] == Fate(21, 34, 1, 8, 0, False)


def test_a_job_of_the_history_waits_for_its_node_until_the_next_pass() -> None:
    """2b gets node 0 from 50 on, though node 1 is idle; at 30 it is an ordinary job, and can start on node 1."""
    machine = Machine((FileNode(4, 16, 0.5), FileNode(4, 16, 0.5)))
    jobs = Workload()
    jobs.job("1a", n=4, s=500, walltime=50, history_node=0, history_start=-20)
    jobs.job("2b", n=4, s=5, walltime=20, history_node=0, history_start=-10)
    assert fates(run_policy("locality", jobs, 8, hosts=machine.hosts, config=DYNAMIC), machine)["2b"].started_at == 50
    jobs.job("3c", n=1, s=5, walltime=20, at=7)
    found = fates(run_policy("locality", jobs, 8, hosts=machine.hosts, config=DYNAMIC), machine)["2b"]
    assert (found.started_at, found.node) == (30, 1)


def test_a_mixed_score_counts_nodes_of_history_as_busy() -> None:
    """Both nodes have a job of the history, so LEM is LEA and j waits for its file rather than load it at once."""
    machine = Machine((FileNode(4, 16, 0.5), FileNode(4, 16, 0.5)))
    jobs = Workload()
    jobs.job("0j", n=2, s=5, walltime=20, input_file="f", input_size_gb=4)
    jobs.job("1a", n=4, s=30, walltime=30, input_file="f", input_size_gb=4, history_node=0)
    jobs.job("2b", n=2, s=30, walltime=30, history_node=1)
    for score, expected in (("eft", Fate(0, 13, 1, 8, 0, False)), ("lem", Fate(30, 35, 0, 0, 0, True))):
        run = run_policy("locality", jobs, 8, hosts=machine.hosts, config=DYNAMIC, score=score)
        assert fates(run, machine)["0j"] == expected


TIMES = st.sampled_from([5.0, 10.0, 20.0, 40.0])
RUNS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "f", "g", "h"]), TIMES), max_size=10)
FACTORS = st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, 500.0])] * 3)


@examples(200)
@given(RUNS, st.integers(1, 4), FACTORS, st.tuples(*[st.sampled_from([0.0, 1.0, 4.0])] * 3))
def test_scores_grow_with_each_term_and_only_files_that_are_there_are_not_loaded(
    running: list[tuple[int, str, float]], n: int, factors: Any, more: Any
) -> None:
    nodes = nodes_of(Machine((FileNode(4, 128, 0.5),) * 3))
    kept: list[tuple[int, str, float]] = []
    for index, file, until in running:
        if sum(other == index for other, _, _ in kept) < 4:
            kept.append((index, file, until))
            node = nodes[index]
            if file:
                node.files.arrive(file, 2, node.load_s(2), -100, until)
            node.start(job(str(len(kept))), 1, -100, until, file)
    draft, one = draft_of(nodes, 0.0), waiter(n, 10, "f", 2)
    for index in range(3):
        offer = draft.offer(index, one, Weights(*factors))
        assert offer is not None
        at = offer.at
        is_there = any(known == index and file == "f" and until >= at for known, file, until in kept)
        assert draft.load_s(index, one, at) == (0 if is_there else 4)
        over = {file for known, file, _ in kept if known == index and file not in {"", "f"}}
        over -= {file for known, file, until in kept if known == index and until > at}
        assert draft.evict_s(index, one, at) == n / 4 * 2 * len(over) / 0.5
        copies = {known for known, file, until in kept if known != index and file == "f" and until >= at}
        x1, x2, x3 = factors
        load_s, evict_s = draft.load_s(index, one, at), draft.evict_s(index, one, at)
        assert offer.score == at + x2 * evict_s + (x1 + x3 * len(copies)) * load_s
        larger = Weights(*(factor + plus for factor, plus in zip(factors, more, strict=True)))
        assert draft.score(index, one, at, larger) >= offer.score >= at


#: Node 0 is small, node 1 is big.
MACHINE = Machine((FileNode(2, 16), FileNode(2, 32)))
#: The mean over both nodes is 100: of class 16 there is too much, of class 32 nothing.
AREA: dict[str, Any] = {"bigger_nodes": "area", "areas": {"16": 200, "32": 0}}


def played_beside(jobs: Workload, **options: Any) -> dict[str, tuple[float | None, int]]:
    """Return start and node of each job; "a" keeps node 0 busy until 100."""
    run = run_policy("locality", jobs, MACHINE.n_procs, hosts=MACHINE.hosts, config=DYNAMIC, **options)
    assert not run.deadlocked
    return {name: (fate.started_at, fate.node) for name, fate in fates(run, MACHINE).items()}


@pytest.mark.parametrize(
    ("options", "n", "walltime", "more", "expected"),
    [
        # An idle larger node is used only if the option allows it.
        ({"bigger_nodes": "never"}, 2, 50, {}, {"b": (100, 0)}),
        ({"bigger_nodes": "idle"}, 2, 50, {}, {"b": (0, 1)}),
        # Jobs that need a larger node are first: b has a reservation on node 0 until the next pass.
        ({"bigger_nodes": "idle"}, 2, 50, {"n": 2, "s": 10, "walltime": 50, "node_memory_gb": 32},
         {"b": (30, 1), "c": (0, 1)}),
        # The planned area may be just the mean.
        (AREA, 2, 50, {}, {"b": (0, 1)}),
        (AREA, 2, 50.5, {}, {"b": (100, 0)}),
        # At 40 node 1 is idle again, but what is planned for it is full: b was to take 2 x 50 s.
        (AREA, 2, 50, {"n": 1, "s": 1, "walltime": 1, "at": 40}, {"b": (0, 1), "c": (100, 0)}),
        # Within a pass, b takes all that is left of class 32, and a core of it stays idle.
        (AREA, 1, 100, {"n": 1, "s": 1, "walltime": 100}, {"b": (0, 1), "c": (100, 0)}),
    ],
)  # fmt: skip
def test_jobs_on_larger_nodes(
    options: dict[str, Any], n: int, walltime: float, more: dict[str, Any], expected: dict[str, Any]
) -> None:
    jobs = Workload().job("a", n=2, s=100, walltime=100).job("b", n=n, s=10, walltime=walltime)
    if more:
        jobs.job("c", **more)
    assert played_beside(jobs, **options) == {"a": (0, 0), **expected}
