"""Why a job did not start earlier: its reservation, the jobs that held processors, and suggestions for wrong ids."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.journals import explained
from support.nodes_example import simulate_example
from support.patience import PATIENCE_S
from support.process import run_cli
from support.pushy import Gentle

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.protocol import Message, v4
from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader, JournalWriter
from pybatsched.session.session import Session
from pybatsched.session.waits import Holder, Wait, waits_of
from pybatsched.testing import FakeBatsim, Workload, plan_for

# On four processors: a has three until 10. b needs all four. c starts beside a and ends in time; d would end too late.
FOUR = (
    Workload()
    .job("a", n=3, s=8, walltime=10)
    .job("b", n=4, s=5, at=1, walltime=6)
    .job("c", n=1, s=4, at=2, walltime=5)
    .job("d", n=1, s=9, at=3, walltime=10)
)


HEAD = "head of the queue: needs 4 processors"


def record(path: Path, workload: Workload, n_procs: int, policy: str | type = "easy", **more: object) -> FakeBatsim:
    session = Session(plan_for(policy), journal=JournalWriter(path))
    with session.closing_journal():
        return FakeBatsim(workload, n_procs, **more).run(session.handle)  # type: ignore[arg-type]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    record(tmp_path / "run.pbj", FOUR, 4)
    return tmp_path / "run.pbj"


def test_the_first_waiting_job_of_easy_shows_its_reservation(journal: Path) -> None:
    """It comes at 1, when a is expected to end at 10; a ends at 8."""
    assert explained(journal, "w0!b") == [
        "1 submitted: 4 processors, walltime 6",
        f"1 not started: {HEAD}, 1 are free; reserved: 4 processors at 10.0, of 4 free then",
        "6 ... passed over 4 more times",
        "8 started on 0-3: head of the queue",
        "13 ended: COMPLETED_SUCCESSFULLY, return code 0",
        "22 (the run ended)",
    ]


def test_a_reservation_leaves_extra_processors_to_others(tmp_path: Path) -> None:
    jobs = Workload().job("a", n=4, s=8, walltime=10).job("b", n=3, s=5, at=1, walltime=5)
    record(tmp_path / "run.pbj", jobs, 4)
    assert explained(tmp_path / "run.pbj", "w0!b")[1].endswith(
        " 0 are free; reserved: 3 processors at 10.0, of 4 free then"
    )


def test_there_is_no_reservation_after_a_job_without_an_estimate(tmp_path: Path) -> None:
    record(tmp_path / "run.pbj", Workload().job("a", n=4, s=8).job("b", n=3, s=5, at=1, walltime=5), 4)
    expected = "needs 3 processors, 0 are free; no reservation: no known end gives it enough"
    assert explained(tmp_path / "run.pbj", "w0!b")[1] == f"1 not started: head of the queue: {expected}"


@pytest.mark.parametrize("more", [(), ("--why-not-earlier",)])
@pytest.mark.parametrize("job", ["b", "w7!b"])
def test_an_id_without_its_workload_gets_a_suggestion(job: str, more: tuple[str, ...], journal: Path) -> None:
    done = run_cli("explain", str(journal), job, *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"pybatsched: {journal}: unknown job {job!r}; did you mean 'w0!b'?\n"


def test_all_workloads_with_the_id_are_suggested(tmp_path: Path) -> None:
    for name in ("x.json", "y.json"):
        (tmp_path / name).write_text(
            '{"nb_res": 4, "jobs": [{"id": "23", "subtime": 0, "res": 1, "profile": "d"}],'
            ' "profiles": {"d": {"type": "delay", "delay": 2}}}'
        )
    args = ("--procs", "4", "-w", "x.json", "-w", "y.json", "--policy", "easy", "--journal", "run.pbj")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    done = run_cli("explain", "run.pbj", "23", cwd=tmp_path)
    assert done.stderr == "pybatsched: run.pbj: unknown job '23'; did you mean 'w0!23' or 'w1!23'?\n"


@pytest.mark.parametrize("ask", [explain, waits_of])
def test_there_is_no_suggestion_without_a_similar_id(ask: object, journal: Path) -> None:
    assert callable(ask)
    with pytest.raises(InputError, match=r"unknown job 'w0!bb'; the journal has \d+ jobs, w0!\w+ to w0!\w+$"):
        ask(JournalReader(journal), "w0!bb")


@pytest.mark.parametrize("ask", [explain, waits_of])
@pytest.mark.parametrize("job", ["w0!e", "e", "b", "w7!b", "dyn!w0.b.1", "w0!\udcff", "3", "0"])
def test_no_policy_is_run_for_a_job_that_no_message_names(
    ask: Callable[[JournalReader, str], object], job: str, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job c runs on processor 3 alone, and d on 0: their allocations are these texts."""
    n_asked = Counter[str]()
    handle = Session.handle

    def counting(session: Session, raw: bytes) -> bytes:
        n_asked["messages"] += 1
        return handle(session, raw)

    monkeypatch.setattr(Session, "handle", counting)
    with pytest.raises(InputError, match="unknown job"):
        ask(JournalReader(journal), job)
    assert n_asked["messages"] == 0
    assert ask(JournalReader(journal), "w0!b")
    assert n_asked["messages"] == len(list(JournalReader(journal).exchanges()))


@pytest.mark.parametrize("ask", [explain, waits_of])
@pytest.mark.parametrize(("name", "written"), [("é", rb"\u00e9"), ("a/b", rb"a\/b"), ("b", rb"\u0062")])
def test_a_job_is_found_however_its_id_is_written(
    ask: Callable[[JournalReader, str], object], name: str, written: bytes, tmp_path: Path
) -> None:
    """JSON has several ways to write a character."""
    session = Session(plan_for("easy"), journal=JournalWriter(tmp_path / "run.pbj"))
    plain = json.dumps(f"w0!{name}", ensure_ascii=False).encode()

    def rewritten(raw: bytes) -> bytes:
        return session.handle(raw.replace(plain, b'"w0!' + written + b'"'))

    with session.closing_journal():
        FakeBatsim(Workload().job(name, n=1, s=1), 4).run(rewritten)
    assert ask(JournalReader(tmp_path / "run.pbj"), f"w0!{name}")


def test_a_journal_in_a_pipe_is_read_once(journal: Path) -> None:
    """It cannot be searched before: `explain <(zcat run.pbj.gz) w0!b`."""
    command = ["/bin/bash", "-c", f'"{sys.executable}" -m pybatsched explain <(cat "{journal}") "$1"', "bash"]
    whole = run_cli("explain", str(journal), "w0!b").stdout
    for job, code, told_of in (("w0!b", 0, whole), ("w0!e", 2, "")):
        done = subprocess.run([*command, job], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stdout) == (code, told_of)


def test_jobs_that_held_the_processors_are_listed(journal: Path) -> None:
    done = run_cli("explain", str(journal), "w0!b", "--why-not-earlier")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "job w0!b: submitted at 1 for 4 of 4 processors",
        "started on 0-3 at 8, 7 s later: head of the queue",
        "fewer than 4 were free meanwhile: 0 to 1",
        "held by  processors  from  to  of its wait",
        "w0!a              3     0   8          7 s  was running when it was submitted",
        "w0!c              1     2   6          4 s  overtook it: backfilled: ends by the shadow time 10.0 of w0!b",
        "(the run ended)",
    ]


def test_times_of_a_log_are_exact_to_the_tick(tmp_path: Path) -> None:
    """Logs count from 1970 on: with six digits, times are rounded to weeks."""
    at = 1e9 + 0.25
    jobs = Workload().job("a", n=3, s=8.5, at=at, walltime=10).job("b", n=4, s=5, at=at + 1, walltime=6)
    record(tmp_path / "run.pbj", jobs, 4)
    lines = run_cli("explain", str(tmp_path / "run.pbj"), "w0!b", "--why-not-earlier").stdout.splitlines()
    assert lines[:2] == [
        "job w0!b: submitted at 1000000001.25 for 4 of 4 processors",
        "started on 0-3 at 1000000008.75, 7.5 s later: head of the queue",
    ]
    assert lines[4].split()[:6] == ["w0!a", "3", "1000000000.25", "1000000008.75", "7.5", "s"]


def test_unused_free_processors_are_reported(journal: Path) -> None:
    """From 6 on there was one for d, but b had its reservation; d came at 3, when c had it."""
    done = run_cli("explain", str(journal), "w0!d", "--why-not-earlier")
    assert done.stdout.splitlines()[1:] == [
        "started on 0 at 13, 10 s later: head of the queue",
        (
            "1 or more were free for 2 s of that, first from 6 to 8: other jobs were before it in the queue; its "
            "history shows why"
        ),
        "held by  processors  from  to  of its wait",
        "w0!b              4     8  13          5 s  submitted before it: head of the queue",
        "w0!a              3     0   8          5 s  was running when it was submitted",
        "w0!c              1     2   6          3 s  was running when it was submitted",
        "(the run ended)",
    ]


def test_jobs_that_did_not_wait_or_were_rejected(tmp_path: Path) -> None:
    jobs = Workload().job("a", n=3, s=8, walltime=10).job("big", n=9, s=5, at=1, walltime=5)
    record(tmp_path / "run.pbj", jobs, 4)
    path = str(tmp_path / "run.pbj")
    assert run_cli("explain", path, "w0!a", "--why-not-earlier").stdout.splitlines()[1:] == [
        "started on 0-2 at 0, 0 s later: head of the queue",
        "(the run ended)",
    ]
    assert run_cli("explain", path, "w0!big", "--why-not-earlier").stdout.splitlines()[1:] == [
        "rejected at 1, 0 s later: asks for 9 processors; the platform has 4",
        "(the run ended)",
    ]


def test_a_truncated_journal_has_a_note(journal: Path) -> None:
    raw = journal.read_bytes()
    journal.write_bytes(raw[: len(raw) * 2 // 3])
    wait = waits_of(JournalReader(journal), "w0!b")[0]
    assert wait.note.startswith("the journal is truncated: ")
    assert wait.how == "not yet started"
    assert [(one.job_id, one.ended_at) for one in wait.holders] == [("w0!a", math.inf), ("w0!c", math.inf)]


@pytest.mark.parametrize(
    ("n", "procs", "back_at", "free", "started_at"),
    [
        (1, "2-3", 9, [(2, 1)], 9),
        # One of the two that a has goes away with another one: of four, one is free until a ends, and then two.
        (2, "1-2", 25, [(2, 1), (20, 2)], 25),
    ],
)
def test_unavailable_processors_are_not_free_and_count_once(
    n: int, procs: str, back_at: int, free: list[tuple[int, int]], started_at: int, tmp_path: Path
) -> None:
    jobs = Workload().job("a", n=n, s=20, walltime=20).job("b", n=3, s=5, at=2, walltime=5)
    away = [(1, e.MACHINES_UNAVAILABLE, procs), (back_at, e.MACHINES_AVAILABLE, procs)]
    record(tmp_path / "run.pbj", jobs, 4, machine_events=away)
    wait = waits_of(JournalReader(tmp_path / "run.pbj"), "w0!b")[0]
    assert (wait.free, wait.ended_at) == (free, started_at)


def test_processors_that_jobs_share_are_held_until_the_last_one_ends(tmp_path: Path) -> None:
    """a has 0-1 until 20, b 1-2 until 10: of four, one is free at first, and then two."""
    journal = JournalWriter(tmp_path / "run.pbj")
    journal.header(plan_for("fcfs"), None, {})

    def came(at: float, job_id: str, n: int) -> e.JobSubmitted:
        return e.JobSubmitted(job_id, {"id": job_id, "res": n, "profile": "d"}, timestamp=at)

    def ends(at: float, job_id: str) -> e.JobCompleted:
        return e.JobCompleted(job_id, "COMPLETED_SUCCESSFULLY", timestamp=at)

    def starts(at: float, job_id: str, procs: str) -> d.ExecuteJob:
        return d.ExecuteJob(job_id, IntervalSet.parse(procs), timestamp=at)

    messages: list[tuple[float, list[e.Event], list[d.Decision]]] = [
        (0, [e.SimulationBegins(n_compute=4, timestamp=0)], []),
        (1, [came(1, "w0!a", 2), came(1, "w0!b", 2)], [starts(1, "w0!a", "0-1"), starts(1, "w0!b", "1-2")]),
        (2, [came(2, "w0!c", 4)], []),
        (10, [ends(10, "w0!b")], []),
        (20, [ends(20, "w0!a")], [starts(20, "w0!c", "0-3")]),
    ]
    for n, (now, events, decisions) in enumerate(messages, 1):
        journal.request(n, v4.encode_events(Message(now, tuple(events))), 2**20)
        journal.reply(n, v4.encode_decisions(Message(now, tuple(decisions))), [""] * len(decisions))
    journal.close()
    wait = waits_of(JournalReader(tmp_path / "run.pbj"), "w0!c")[0]
    assert (wait.free, wait.ended_at) == ([(2, 1), (10, 2)], 20)


def test_a_requeued_job_waits_until_its_first_start_and_keeps_its_id(tmp_path: Path) -> None:
    jobs = Workload().job("a", n=2, s=10, walltime=20).job("b", n=2, s=5, at=4, walltime=6)
    jobs.job("c", n=2, s=5, at=5, walltime=6)
    ran = record(tmp_path / "run.pbj", jobs, 2, Gentle, config={"dynamic-jobs-enabled": True}).jobs
    assert (ran["dyn!w0.a.1"].started_at, ran["dyn!w0.a.1"].ended_at) == (5, 11.5)
    first = waits_of(JournalReader(tmp_path / "run.pbj"), "w0!a")[0]
    assert (first.submitted_at, first.ended_at, first.holders) == (0, 0, [])
    last = waits_of(JournalReader(tmp_path / "run.pbj"), "w0!c")[0]
    assert (last.submitted_at, last.ended_at) == (5, 11.5)
    how = "head of the queue"
    assert last.holders == [Holder("w0!a", IntervalSet.parse("0-1"), 5.0, how, submitted_at=0.0, ended_at=11.5)]


def test_many_jobs_that_hold_processors_are_summarised(tmp_path: Path) -> None:
    jobs = Workload()
    for number in range(25):
        jobs.job(number, n=1, s=100 + number, walltime=200)
    record(tmp_path / "run.pbj", jobs.job("wide", n=25, s=5, at=1, walltime=6), 25)
    lines = run_cli("explain", str(tmp_path / "run.pbj"), "w0!wide", "--why-not-earlier").stdout.splitlines()
    assert lines[4].split()[:5] == ["w0!24", "1", "0", "124", "123"]
    assert lines[-2] == f"and 5 more, with {sum(range(99, 104)):,} processor-seconds in all"


def test_reasons_end_where_the_replayed_policy_differs(journal: Path) -> None:
    """FCFS does not start c at 2: from then on reasons are unknown."""
    done = run_cli("explain", str(journal), "w0!b", "--why-not-earlier", "--policy", "fcfs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2:4] == [
        "(the policy cannot be run: free processors are those of the whole machine, including reserved ones)",
        "fewer than 4 were free meanwhile: 0 to 1",
    ]


def recorded(path: Path, workload: Workload, n_procs: int, policy: str, **options: object) -> Path:
    session = Session(plan_for(policy, **options), journal=JournalWriter(path))
    with session.closing_journal():
        FakeBatsim(workload, n_procs, config={"dynamic-jobs-enabled": True}).run(session.handle)
    return path


def test_only_processors_of_the_partition_of_the_job_count(tmp_path: Path) -> None:
    """Four of eight processors are reserved for redirected jobs: although free, b cannot use them."""
    jobs = Workload().job("a", n=3, s=30, walltime=40).job("b", n=2, s=5, at=1, walltime=6)
    path = recorded(tmp_path / "run.pbj", jobs, 8, "redirection", group_size=4)
    assert run_cli("explain", str(path), "w0!b", "--why-not-earlier").stdout.splitlines() == [
        "job w0!b: submitted at 1 for 2 of 4 processors of partition principal",
        "started on 0-1 at 30, 29 s later: head of the queue",
        "fewer than 2 were free meanwhile: 1 to 1",
        "held by  processors  from  to  of its wait",
        "w0!a              3     0  30         29 s  was running when it was submitted",
        "(the run ended)",
    ]


URGENT = (
    Workload()
    .job("a", n=4, s=100, walltime=100)
    .job("u", n=4, s=10, at=20, walltime=10, urgent=True)
    .job("b", n=1, s=9, at=21, walltime=9)
)


def test_processors_held_for_the_job_are_not_free(tmp_path: Path) -> None:
    """a is swapped out for u, which takes three seconds: during them its processors are not free."""
    path = recorded(tmp_path / "run.pbj", URGENT, 4, "ujfb", swap="fixed", swap_out=3.0, swap_in=3.0)
    lines = run_cli("explain", str(path), "w0!u", "--why-not-earlier").stdout.splitlines()
    assert lines[1].startswith("started on 0-3 at 23, 3 s later")
    assert lines[2:] == [
        "processors were held for it for 3 s of that, first from 20 to 23; its history shows why",
        "fewer than 4 were free meanwhile: 0 to 0",
        "(the run ended)",
    ]


def test_every_wait_of_a_requeued_job_is_listed(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.pbj", URGENT, 4, "ujfb", swap="fixed", swap_out=3.0, swap_in=3.0)
    first, second = waits_of(JournalReader(path), "w0!a")
    assert (first.submitted_at, first.ended_at, first.is_requeued) == (0, 0, False)
    assert (second.submitted_at, second.is_requeued, second.came_at) == (20, True, 0)
    assert second.ended_at == 36  # u ends at 33, and it takes three seconds to swap a in
    assert [(one.job_id, one.started_at, one.ended_at) for one in second.holders] == [("w0!u", 23, 33)]
    assert second.spans_kept() == [(33, 36)]
    done = run_cli("explain", str(path), "dyn!w0.a.1", "--why-not-earlier")
    lines = done.stdout.splitlines()
    assert lines[0] == "dyn!w0.a.1 is a part of w0!a"
    assert lines[3] == "job w0!a: killed, and requeued, at 20 for 4 of 4 processors"
    assert lines[-2].split()[:6] == ["w0!u", "4", "23", "33", "10", "s"]
    for more in ((), ("--why-not-earlier",)):
        done = run_cli("explain", str(path), "w0.a.1", *more)
        assert (done.returncode, "did you mean 'dyn!w0.a.1'?" in done.stderr) == (2, True)


def test_a_requeued_job_without_a_new_start_is_reported(tmp_path: Path) -> None:
    path = recorded(tmp_path / "run.pbj", URGENT, 4, "ujfb", swap="fixed", swap_out=3.0, swap_in=3.0)
    raw = path.read_bytes()
    path.write_bytes(raw[: raw.index(b"urgent: 1 regular")])  # the reason of u's start
    *_, last = waits_of(JournalReader(path), "w0!a")
    assert (last.is_requeued, last.how) == (True, "not yet started")


CROWDS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 30), st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=14
)


@examples(60)
@given(crowd=CROWDS, policy=st.sampled_from(["fcfs", "easy", "conservative"]))
def test_waits_agree_with_the_schedule(
    crowd: list[tuple[int, int, int, int]], policy: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The listed jobs are those that ran during the wait, and together with free processors they fill the machine."""
    path = tmp_path_factory.mktemp("run") / "run.pbj"
    jobs = Workload()
    for number, (n, s, at, more) in enumerate(crowd):
        jobs.job(number, n=n, s=s, at=at, walltime=s + more + 1)
    ran = record(path, jobs, 6, policy).jobs
    spans = {name: (float(job.started_at or 0), float(job.ended_at or 0)) for name, job in ran.items()}
    for number, (n, _, begin, _) in enumerate(crowd):
        name = f"w0!{number}"
        end = spans[name][0]
        wait = waits_of(JournalReader(path), name)[0]
        assert (wait.submitted_at, wait.ended_at, wait.n_procs, wait.n_machine) == (begin, end, n, 6)
        held: Mapping[str, Holder] = {one.job_id: one for one in wait.holders}
        assert set(held) == {other for other, (first, last) in spans.items() if max(first, begin) < min(last, end)}
        for other, holder in held.items():
            first, last = spans[other]
            assert (holder.n_procs, holder.started_at) == (crowd[int(other[3:])][0], first)
            assert holder.ended_at == (last if last <= end else math.inf)
        check_free(wait)


def check_free(wait: Wait) -> None:
    ends = [*(at for at, _ in wait.free[1:]), wait.ended_at]
    assert bool(wait.free) == (wait.ended_at > wait.submitted_at)
    for (begin, n_free), end in zip(wait.free, ends, strict=False):
        middle = (begin + end) / 2
        assert n_free + sum(one.n_procs for one in wait.holders if one.started_at <= middle < one.ended_at) == 6
        assert any(first <= begin and end <= last for first, last in wait.spans_with(1)) == (n_free > 0)


def test_a_job_that_may_not_start_yet_waits_for_no_processors(tmp_path: Path) -> None:
    """On 4 processors: b may start when a has ended, which e uses first; c may start at 25, and does."""
    jobs = Workload().job("a", n=3, s=10, walltime=20).job("b", n=1, s=10, walltime=20, at=1, depends_on="afterok:a")
    jobs.job("c", n=1, s=10, walltime=20, at=1, eligible_at=25).job("e", n=4, s=10, walltime=20, at=2)
    path = tmp_path / "run.pbj"
    record(path, jobs, 4)
    assert run_cli("explain", str(path), "w0!b", "--why-not-earlier").stdout.splitlines() == [
        "job w0!b: submitted at 1 for 1 of 4 processors",
        "started on 0 at 20, 19 s later: head of the queue",
        "for 9 s of that, first from 1 to 10: may not start yet: waits for job w0!a (afterok)",
        "fewer than 1 were free meanwhile: 0 to 0",
        "held by  processors  from  to  of its wait",
        "w0!e              4    10  20         10 s  was running when it could start first",
        "(the run ended)",
    ]
    assert run_cli("explain", str(path), "w0!c", "--why-not-earlier").stdout.splitlines() == [
        "job w0!c: submitted at 1 for 1 of 4 processors",
        "started on 1 at 25, 24 s later: head of the queue",
        "for 24 s of that, first from 1 to 25: may not start yet: not before 25.0",
        "(the run ended)",
    ]


def test_jobs_that_hold_what_a_job_lacks_on_nodes(tmp_path: Path) -> None:
    simulate_example(tmp_path, "run", "--journal", "run.pbj")
    lines = explained(tmp_path / "run.pbj", "w0!e")
    lacks = "not started: needs 2 GPUs, which are not free; what it lacks is held by"
    assert lines[1] == f"2 {lacks} w0!c (2 GPUs), w0!d (1 GPU)"
    assert f"20 {lacks} w0!c (2 GPUs)" in lines
    # One GPU of the last node is free, but none of its processors.
    expected = "needs 1 GPU, which are not free; what it lacks is held by w0!c (2 GPUs), w0!d (2 processors), w0!h (2"
    assert any(expected in line for line in explained(tmp_path / "run.pbj", "w0!g"))
    shown = run_cli("explain", str(tmp_path / "run.pbj"), "w0!g", "--why-not-earlier").stdout
    assert "for 21 s of that, first from 5 to 16: needs 1 GPU, which are not free\n" in shown
    assert "2 or more were free for 15 s of that, first from 4 to 5: other jobs were before it" in shown


@pytest.mark.parametrize(
    ("running", "waiting", "text"),
    [
        ({"memory_gb": 7}, {"memory_gb": 2}, "w0!r0 (7 GB), w0!r1 (7 GB)"),
        ({"exclusive": True}, {}, "w0!r0 (1 node), w0!r1 (1 node)"),
        ({}, {"exclusive": True}, "w0!r0 (1 node), w0!r1 (1 node)"),
        ({"memory_gb": 0.5}, {"n": 8, "memory_gb": 1}, "w0!r0 (1 processor), w0!r1 (1 processor)"),
        ({"gpus": 1}, {"gpus": 1}, "w0!r0 (1 GPU), w0!r1 (1 GPU)"),
    ],
)
def test_each_resource_that_is_held(
    running: dict[str, Any], waiting: dict[str, Any], text: str, tmp_path: Path
) -> None:
    """Two nodes of 4 processors, 8 GB and one GPU, with a job on each."""
    jobs = Workload()
    for name in ("r0", "r1"):
        jobs.job(name, n=1, s=10, walltime=20, **{"cores_per_node": 1, "memory_gb": 0.001, **running})
    jobs.job("w", **{"n": 1, "s": 10, "walltime": 20, "at": 1, "memory_gb": 0.001, **waiting})
    hosts = [{"node": f"n{k // 4}", "memory_gb": "8", "gpus": "1"} for k in range(8)]
    path = tmp_path / "run.pbj"
    session = Session(plan_for("easy", placement="spread"), journal=JournalWriter(path))
    with session.closing_journal():
        FakeBatsim(jobs, 8, hosts=hosts).run(session.handle)
    assert explained(path, "w0!w")[1].endswith(f"; what it lacks is held by {text}")
