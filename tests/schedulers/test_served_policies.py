"""The published policies over sockets, with invalid options, and at the end of runs."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.process import Peer, Server, run_cli

from pybatsched.core import decisions as d, events as e
from pybatsched.errors import InputError
from pybatsched.live.server import ServerOptions, serve
from pybatsched.metrics.saved_runs import read_run
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy

N_PROCS = 8
DYNAMIC = {"dynamic-jobs-enabled": True}


def drawn(seed: int, n_jobs: int = 60, *, urgent: bool = False) -> Workload:
    """Draw a crowded workload in which every third job has a deadline, or is urgent."""
    dice = random.Random(seed)
    workload = Workload()
    at = 0.0
    for index in range(n_jobs):
        at += dice.choice([0, 0.5, 1, 2, 6])
        run = dice.choice([1, 2, 2.5, 5, 9, 40])
        estimate = run + dice.choice([0, 0, 0, 3])
        stay = {"max_stay": estimate + dice.choice([0, 10, 40, 200])} if index % 3 == 2 else {}
        special: dict[str, Any] = {"urgent": index % 3 == 2} if urgent else stay
        n = dice.choice([1, 1, 2, 2, 3, 6])
        workload.job(index, n=n, s=run, at=at, estimate=estimate, walltime=estimate + 1, **special)
    return workload


def results_of(run: FakeBatsim) -> dict[str, tuple[Any, ...]]:
    assert not run.deadlocked
    return {job.id: (job.started_at, job.ended_at, str(job.procs), job.metadata) for job in run.jobs.values()}


@contextmanager
def serving(session: Session) -> Iterator[str]:
    """Serve a session on a real socket, in a thread."""
    ready, endpoints = threading.Event(), []

    def on_ready(endpoint: str) -> None:
        endpoints.append(endpoint)
        ready.set()

    options = ServerOptions("tcp://127.0.0.1:*", timeout_s=PATIENCE_S)
    thread = threading.Thread(target=serve, args=(session, options, on_ready), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield endpoints[0]
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


OVER_A_SOCKET = [
    ("redirection", {"group_size": 2, "theta": 2}),
    ("redirection", {"alpha": 0.25, "theta": 1, "filter": "none", "decision": "per_round", "principal": "dbf"}),
    ("dbf", {}),
    ("dbf", {"predict": "mean2", "correct": "doubling"}),
    ("dbf", {"fixpoint": False, "infeasible": "reject"}),
    ("ujfb", {"swap": "uniform", "seed": 3}),
    ("ujfb", {"swap": "fixed", "pd": "serial", "victim_order": "fewest", "resume_same_resources": False}),
    ("ujfb", {"mode": "kill_restart", "urgent_order": "shortest"}),
]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("policy", "options"), OVER_A_SOCKET, ids=lambda value: value if isinstance(value, str) else ""
)
def test_runs_over_a_socket_equal_embedded_runs(policy: str, options: dict[str, Any], seed: int) -> None:
    workload = drawn(seed, urgent=policy == "ujfb")
    with serving(Session(plan_for(policy, **options), checked=True)) as endpoint, Peer(endpoint) as peer:
        run = FakeBatsim(workload, N_PROCS, config=DYNAMIC).run(peer.ask)
    assert results_of(run) == results_of(run_policy(policy, workload, N_PROCS, config=DYNAMIC, **options))


@pytest.mark.parametrize(
    ("policy", "given", "message"),
    [
        ("redirection", ["alpha=1"], "option alpha (from -o): expected less than 1, found 1"),
        ("redirection", ["alpha=-0.1"], "option alpha (from -o): expected 0 or more"),
        ("redirection", ["theta=-1"], "option theta (from -o): expected 0 or more"),
        ("redirection", ["theta=nan"], "option theta (from -o): expected 0 or more"),
        ("redirection", ["group_size=9"], "the platform has 8 processors; expected group_size of at most 7, found 9"),
        ("redirection", ["group_size=8"], "the platform has 8 processors; expected group_size of at most 7, found 8"),
        ("redirection", ["alpha=0.9"], "the platform has 8 processors; expected alpha of at most 0.875, found 0.9"),
        ("redirection", ["filter=p"], "option filter (from -o): expected one of q, w, none, w_paper"),
        ("redirection", ["conflict=x"], "expected one of greatest_walltime, greatest_count, latest_start, widest"),
        ("redirection", ["principal=fifo"], "option principal: unknown policy 'fifo'; installed: conservative,"),
        ("redirection", ["principal=redirection"],
         "'redirection' cannot be used as a local scheduler: it has no single queue"),
        ("redirection", ['redirected_options={"x": 1}'], "option redirected: policy easy: unknown option 'x'"),
        ("redirection", ["alpha=0.2", "group_size=2"], "alpha and group_size were both given; expected only one"),
        ("redirection", ["redirected=dbf", 'redirected_options={"infeasible": "reject"}'],
         "option redirected: dbf with these options may reject a redirected job after its kill"),
        ("dbf", ["promote=all"], "option promote (from -o): expected one of max, each"),
        ("dbf", ["infeasible=kill"], "option infeasible (from -o): expected one of regular, reject"),
    ],
)  # fmt: skip
def test_bad_options(policy: str, given: list[str], message: str, tmp_path: Path) -> None:
    done = simulate(Workload().job("a", n=1, s=1, walltime=2), tmp_path, policy, *given)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"deadline": 9, "max_stay": 9}, "job w0!a: both deadline and max_stay; expected one of them"),
        ({"deadline": "soon"}, "job w0!a, field deadline: expected seconds from 0, found 'soon'"),
        ({"max_stay": -1}, "job w0!a, field max_stay: expected seconds from 0, found -1"),
        ({"max_stay": None}, "job w0!a, field max_stay: expected seconds from 0, found null"),
        ({"deadline": [1]}, "job w0!a, field deadline: expected seconds from 0, found [1]"),
    ],
)
def test_bad_deadlines(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        run_policy("dbf", Workload().job("a", n=1, s=1, walltime=2, **fields), 1)
    assert message in str(raised.value)


def simulate(workload: Workload, folder: Path, policy: str, *given: str) -> Any:
    content = {"nb_res": N_PROCS, "jobs": workload.jobs, "profiles": workload.profiles}
    (folder / "w.json").write_text(json.dumps(content))
    options = [part for text in given for part in ("-o", text)]
    args = ["--procs", str(N_PROCS), "-w", str(folder / "w.json"), "--policy", policy, "-e", str(folder / "run")]
    return run_cli("simulate", *args, *options)


def test_the_summary_has_default_options_and_no_warnings(tmp_path: Path) -> None:
    """No warning of a library's own, and a summary that is JSON, with a threshold of infinity too."""
    jobs = Workload().job("a", n=1, s=1, walltime=2)
    for given, theta in (([], 10), (["theta=inf"], "inf"), (["theta=3"], 3)):
        folder = tmp_path / str(theta)
        folder.mkdir()
        done = simulate(jobs, folder, "redirection", *given)
        assert (done.returncode, done.stderr) == (0, "")
        summary = json.loads((folder / "run_summary.json").read_text(), parse_constant=pytest.fail)
        assert summary["policy"]["options"]["theta"] == theta


def overrun() -> Workload:
    """A job exceeds its estimate, so an accepted job with a deadline after it is late."""
    return (
        Workload()
        .job("liar", n=8, s=20, estimate=5, walltime=30)
        .job("late", n=8, s=2, at=1, estimate=2, walltime=3, deadline=9)
    )


def test_a_missed_deadline_is_reported_with_exit_code_7(tmp_path: Path) -> None:
    done = simulate(overrun(), tmp_path, "dbf")
    assert done.returncode == 7
    assert "the policy broke 1 of its promises" in done.stderr
    assert "job w0!late was accepted with the deadline 9.0 and ended at 22.0" in done.stderr
    summary = json.loads((tmp_path / "run_summary.json").read_text())
    assert summary["broken_promises"] == ["job w0!late was accepted with the deadline 9.0 and ended at 22.0"]
    assert summary["finished"]


def test_a_served_run_that_missed_a_deadline_is_exit_code_7() -> None:
    with Server("--policy", "dbf") as server, Peer(server.wait_ready()) as peer:
        FakeBatsim(overrun(), N_PROCS).run(peer.ask)
        assert server.finish() == 7
    assert "job w0!late was accepted with the deadline 9.0 and ended at 22.0" in server.errors


def test_infeasible_jobs_are_rejected_on_request(tmp_path: Path) -> None:
    jobs = Workload().job("a", n=8, s=9, walltime=10).job("b", n=1, s=5, at=1, walltime=6, deadline=12)
    assert simulate(jobs, tmp_path, "dbf").returncode == 0
    done = simulate(jobs, tmp_path, "dbf", "infeasible=reject")
    assert done.returncode == 0
    assert "1 job rejected, first reason: cannot meet its deadline 12.0" in done.stdout


def test_late_jobs_without_a_promise_are_no_broken_promises(tmp_path: Path) -> None:
    """Job a has all processors until 10. Job b would have to end at 8, so it is late without a promise; job c is not.

    `infeasible=reject` rejects job b, which counts as late too.
    """
    jobs = Workload().job("a", n=8, s=10, walltime=10)
    jobs.job("b", n=1, s=5, at=1, walltime=5, deadline=8).job("c", n=1, s=5, at=2, walltime=5, deadline=40)
    for given in ((), ("infeasible=reject",)):
        assert simulate(jobs, tmp_path, "dbf", *given).returncode == 0
        found = read_run(str(tmp_path / "run"))
        assert found.summary["policy_figures"] == {"n_deadlines_accepted": 1, "n_deadlines_infeasible": 1}
        assert found.jobs.frame.filter(found.jobs.frame["is_late"])["id"].to_list() == ["w0!b"]
    assert simulate(Workload().job("a", n=8, s=10, walltime=10), tmp_path, "dbf").returncode == 0
    assert "policy_figures" not in read_run(str(tmp_path / "run")).summary


def test_a_requeued_job_counts_once_as_infeasible() -> None:
    """Its deadline is at 5, and it runs for 10 s. It is killed at 2 and 5, and requeued."""
    jobs = Workload().job("a", n=1, s=10, walltime=10, deadline=5)
    away, back = e.MACHINES_UNAVAILABLE, e.MACHINES_AVAILABLE
    events = [(at, kind, "0") for at, kind in ((2.0, away), (3.0, back), (5.0, away), (6.0, back))]
    session = Session(plan_for("dbf", on_failure="requeue_first"), checked=True)
    FakeBatsim(jobs, 1, {"dynamic-jobs-enabled": True}, events).run(session.handle)
    figures = session.engine.figures
    assert (figures["n_deadlines_accepted"], figures["n_deadlines_infeasible"]) == (0, 1)


def test_jobs_without_a_time_are_rejected_with_the_reason(tmp_path: Path) -> None:
    done = simulate(Workload().job("a", n=1, s=1, max_stay=9), tmp_path, "dbf")
    assert "has neither walltime nor estimate" in done.stdout
    assert simulate(Workload().job("a", n=1, s=1, max_stay=9), tmp_path, "dbf", "assume_walltime=5").returncode == 0


@pytest.mark.parametrize(("size", "remarked"), [(1, True), (2, False)])
def test_a_group_too_small_for_all_jobs_gives_a_remark(size: int, remarked: bool, tmp_path: Path) -> None:
    jobs = Workload().job("a", n=2, s=9, walltime=10).job("b", n=3, s=5, at=1, walltime=6)
    done = simulate(jobs, tmp_path, "redirection", f"group_size={size}")
    assert done.returncode == 0
    remark = "no job could be redirected: the group has 1 processor, and no job requests fewer than 2"
    assert (remark in done.stderr) is remarked
    with Server("--policy", "redirection", "-o", f"group_size={size}") as server, Peer(server.wait_ready()) as peer:
        FakeBatsim(jobs, N_PROCS, config=DYNAMIC).run(peer.ask)
        assert server.finish() == 0
    assert (remark in server.errors) is remarked


def test_a_job_larger_than_the_principal_group_is_rejected_with_the_reason(tmp_path: Path) -> None:
    done = simulate(Workload().job("a", n=7, s=9, walltime=10), tmp_path, "redirection", "group_size=2")
    assert "can never fit: asks for 7 processors, partition principal has 6" in done.stdout


def test_explain_shows_redirections(tmp_path: Path) -> None:
    jobs = Workload().job("long", n=2, s=100, walltime=101).job("wide", n=4, s=5, walltime=6)
    for index in range(4):
        jobs.job(f"small{index}", n=2, s=5, at=1 + index, walltime=6)
    content = {"nb_res": N_PROCS, "jobs": jobs.jobs, "profiles": jobs.profiles}
    (tmp_path / "w.json").write_text(json.dumps(content))
    args = ["--procs", "8", "-w", str(tmp_path / "w.json"), "--policy", "redirection", "-e", str(tmp_path / "run")]
    args += ["-o", "group_size=2", "-o", "theta=1", "--journal", str(tmp_path / "run.pbj")]
    assert run_cli("simulate", *args).returncode == 0
    output = run_cli("explain", str(tmp_path / "run.pbj"), "w0!long").stdout
    assert "redirected: 2 jobs came and waited, more than theta = 1" in output
    assert run_cli("replay", str(tmp_path / "run.pbj")).returncode == 0


def test_a_job_that_ends_as_it_is_to_be_redirected_is_not_run_again() -> None:
    """The kill goes out, and the job has ended when it arrives: its end comes first, then an empty answer."""
    session = Session(plan_for("redirection", group_size=2, theta=0), checked=True)
    engine = session.engine
    hosts = tuple(e.Resource(i, f"n{i}", "idle") for i in range(N_PROCS))
    profiles = {"w0": {"d": {"type": "delay", "delay": 10}}}
    begins = e.SimulationBegins(
        n_resources=N_PROCS, config=DYNAMIC, compute_resources=hosts, profiles=profiles, timestamp=0.0
    )
    engine.step(0.0, [begins])

    def submitted(name: str, n: int, at: float) -> e.JobSubmitted:
        job = {"id": f"w0!{name}", "subtime": at, "res": n, "profile": "d", "walltime": 20}
        return e.JobSubmitted(f"w0!{name}", job, timestamp=at)

    engine.step(1.0, [submitted("long", 2, 1.0), submitted("wide", 4, 1.0)])
    reply = engine.step(2.0, [submitted("small", 2, 2.0)])
    assert [type(decision).__name__ for decision in reply.decisions] == ["KillJob"]
    ended = e.JobCompleted("w0!long", e.COMPLETED_SUCCESSFULLY, 0, "0-1", timestamp=2.0)
    reply = engine.step(2.0, [ended, e.JobKilled(("w0!long",), {}, timestamp=2.0)])
    assert [type(decision).__name__ for decision in reply.decisions] == ["ExecuteJob"]  # of the small one
    assert set(engine.jobs.alive) == {"w0!wide", "w0!small"}


def test_a_redirected_job_whose_group_shrinks_for_good_is_rejected_with_the_reason() -> None:
    jobs = Workload().job("first", n=2, s=100, walltime=101).job("long", n=2, s=90, walltime=91)
    jobs.job("third", n=2, s=95, walltime=96)
    for index in range(4):
        jobs.job(f"small{index}", n=2, s=5, at=1 + index, walltime=6)
    away = [(2.5, e.MACHINES_UNAVAILABLE, "7")]
    session = Session(plan_for("redirection", group_size=2, theta=0), checked=True)
    run = FakeBatsim(jobs, N_PROCS, config=DYNAMIC, machine_events=away).run(session.handle)
    assert not run.deadlocked
    assert run.jobs["dyn!w0.first.1"].final_state == e.COMPLETED_SUCCESSFULLY  # it ran there when the machine went
    assert run.jobs["dyn!w0.third.1"].final_state == "REJECTED"
    ((n, reason),) = session.engine.rejections.values()
    assert n == 1
    assert d.reason_text(reason) == "can never fit: asks for 2 processors, partition redirection has 1"


def test_a_job_with_a_promise_is_not_redirected() -> None:
    """It would be redirected, but its deadline was accepted where it runs."""
    jobs = Workload().job("long", n=2, s=100, walltime=101, deadline=101.5).job("wide", n=4, s=5, walltime=6)
    for index in range(4):
        jobs.job(f"small{index}", n=2, s=5, at=1 + index, walltime=6)
    options: dict[str, Any] = {"group_size": 2, "theta": 1, "config": DYNAMIC}
    kept = run_policy("redirection", jobs, N_PROCS, principal="dbf", **options)
    assert "dyn!w0.long.1" not in kept.jobs
    assert "dyn!w0.long.1" in run_policy("redirection", jobs, N_PROCS, **options).jobs


def test_no_job_is_killed_for_a_group_that_would_reject_it() -> None:
    jobs = Workload().job("long", n=2, s=100).job("wide", n=4, s=5)  # no walltimes
    for index in range(4):
        jobs.job(f"small{index}", n=2, s=5, at=1 + index)
    options: dict[str, Any] = {"group_size": 2, "theta": 1, "redirected": "conservative"}
    options["principal_options"] = {"assume_walltime": 200}
    run = run_policy("redirection", jobs, N_PROCS, config=DYNAMIC, **options)
    assert {job.final_state for job in run.jobs.values()} == {e.COMPLETED_SUCCESSFULLY}
    options["redirected_options"] = {"assume_walltime": 200}
    assert "dyn!w0.long.1" in run_policy("redirection", jobs, N_PROCS, config=DYNAMIC, **options).jobs


@pytest.mark.parametrize("reuse", [False, True])
def test_a_job_that_batsim_cannot_restart_is_kept_with_a_remark(reuse: bool) -> None:
    """Its profile has parallel parts, and the first job on it has ended."""
    jobs = Workload()
    jobs.profiles = {
        "p": {"type": "parallel_homogeneous", "cpu": 5e10, "com": 0},
        "mix": {"type": "composed", "repeat": 1, "seq": ["p", "p"]},
        "d5": {"type": "delay", "delay": 5},
    }
    jobs.jobs = [
        {"id": "first", "subtime": 0, "res": 2, "profile": "mix", "walltime": 300},
        {"id": "second", "subtime": 60, "res": 2, "profile": "mix", "walltime": 300},
        {"id": "wide", "subtime": 110, "res": 4, "profile": "mix", "walltime": 300},
        *({"id": f"s{i}", "subtime": 120 + i, "res": 2, "profile": "d5", "walltime": 6} for i in range(3)),
    ]
    session = Session(plan_for("redirection", group_size=2, theta=1), checked=True)
    config = {**DYNAMIC, "profile-reuse-enabled": reuse}
    run = FakeBatsim(jobs, N_PROCS, config=config).run(session.handle)
    assert not run.deadlocked
    remarks = session.engine.remarks
    if reuse:
        assert not remarks
        assert any("kind=requeue" in job.metadata for job in run.jobs.values())
    else:
        assert "1 job could not be redirected (first: w0!second)" in remarks[0]
        assert "--enable-profile-reuse" in remarks[0]
        assert {job.final_state for job in run.jobs.values()} == {e.COMPLETED_SUCCESSFULLY}
