"""The passes of predictsim: each rule by a worked example, and the slow twin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.logs import real
from support.outages import outages
from support.predictsim_twin import ROWS, PredictsimTwin, TwinJob

from pybatsched import Simulation, simulate
from pybatsched.errors import InputError
from pybatsched.experiment.log import Log
from pybatsched.testing import Workload, run_policy
from pybatsched.workload import model
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.swf import read_swf
from pybatsched.workload.walltimes import Walltimes
from pybatsched_studies.predictions.published import PublishedPredictsim

KTH = "KTH-SP2-1996-2.swf.gz"
N_PROCS = 8


def starts(jobs: Workload, n_procs: int, **options: Any) -> dict[str, float | None]:
    run = run_policy(PublishedPredictsim, jobs, n_procs, **options)
    assert not run.deadlocked
    return {job.id.removeprefix("w0!"): job.started_at for job in run.jobs.values()}


def test_a_pass_follows_every_single_end() -> None:
    """4 processors: x and y end early at 10. After the end of x alone, narrow is predicted to end before y."""
    jobs = (
        Workload()
        .job("x", n=2, s=10, walltime=30)
        .job("y", n=2, s=10, walltime=30)
        .job("wide", n=4, s=10, at=1, walltime=30)
        .job("narrow", n=2, s=10, at=2, walltime=15)
    )
    assert starts(jobs, 4) == {"x": 0, "y": 0, "wide": 20, "narrow": 10}
    one_pass = run_policy("easy", jobs, 4).jobs
    assert (one_pass["w0!wide"].started_at, one_pass["w0!narrow"].started_at) == (10, 20)


@pytest.mark.parametrize(("request_s", "first", "second"), [(10, "p", "q"), (15, "q", "p")])
def test_a_job_on_time_counts_as_gone_and_an_early_one_does_not(request_s: int, first: str, second: str) -> None:
    """2 processors: p and then q come at 10, when a ends. The head waits for long until 100.

    If the planned end of a is 10, its processor is free for the pass after p. If a ends early, the passes after p and q
    find no free processor, and the pass after the end tries q first, which is shorter.
    """
    jobs = (
        Workload()
        .job("a", n=1, s=10, walltime=request_s)
        .job("long", n=1, s=100, walltime=100)
        .job("head", n=2, s=5, at=1, walltime=5)
        .job("p", n=1, s=80, at=10, walltime=80)
        .job("q", n=1, s=20, at=10, walltime=20)
    )
    assert starts(jobs, 2, backfill_order="sjf") == {"a": 0, "long": 0, "head": 100, first: 10, second: 105}


@pytest.mark.parametrize(
    ("n", "order", "expected"),
    [
        (2, "fcfs", {"head": 10, "w": 20, "new": 20}),
        (1, "fcfs", {"head": 25, "w": 10, "new": 10}),
        (2, "sjf", {"head": 25, "w": 10, "new": 10}),
    ],
)
def test_a_submission_makes_a_pass_only_if_the_new_job_fits(n: int, order: str, expected: dict[str, float]) -> None:
    """4 processors: at 10 the new job comes, and first early (planned: 30) and then on_time (planned: 10) end.

    Before the ends one processor is free, that of on_time. If the new job fits there, its pass starts w, which is
    predicted to end at 25. Else the pass after the first end starts the head. With sjf there is always a pass.
    """
    jobs = (
        Workload()
        .job("early", n=2, s=10, walltime=30)
        .job("on_time", n=1, s=10, walltime=10)
        .job("z", n=1, s=100, walltime=100)
        .job("head", n=3, s=10, at=1, walltime=10)
        .job("w", n=1, s=15, at=2, walltime=15)
        .job("new", n=n, s=5, at=10, walltime=5)
    )
    found = starts(jobs, 4, backfill_order=order)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(("at", "start"), [(10, 55), (11, 11)])
def test_a_prediction_does_not_know_the_ends_of_the_same_instant(at: int, start: int) -> None:
    """3 processors: the head waits until 50. Known runs of 5 s and 10 s predict 7 s, an unknown run the request."""
    jobs = (
        Workload()
        .job("long", n=1, s=50, walltime=50, user="u")
        .job("a", n=1, s=5, walltime=5, user="v")
        .job("b", n=1, s=10, walltime=10, user="v")
        .job("head", n=3, s=5, at=6, walltime=5, user="u")
        .job("c", n=1, s=7, at=at, walltime=100, user="v")
    )
    found = starts(jobs, 3, predict="last2")
    assert (found["head"], found["c"]) == (50, start)


@pytest.mark.parametrize(
    ("correct", "end_at", "start"), [("requested", 60, 30), ("doubling", 40, 55), ("incremental", 60, 30)]
)
def test_a_correction_comes_before_a_submission_of_the_same_instant(correct: str, end_at: int, start: int) -> None:
    """2 processors: late starts at 20, is predicted to end at 30, and ends at 50. The head waits for it.

    At 30 the new job, of 25 s, comes. It ends by the corrected end of late, or not.
    """
    jobs = (
        Workload()
        .job("a", n=1, s=10, walltime=10, user="u")
        .job("b", n=1, s=10, walltime=10, user="u")
        .job("late", n=1, s=30, at=20, walltime=40, user="u")
        .job("head", n=2, s=5, at=21, walltime=5, user="v")
        .job("new", n=1, s=25, at=30, walltime=25, user="w")
    )
    found = starts(jobs, 2, predict="last2", correct=correct)
    assert end_at >= 30 + 25 if start == 30 else end_at < 30 + 25
    assert (found["late"], found["new"], found["head"]) == (20, start, 55 if start == 30 else 50)


def test_a_job_past_its_last_prediction_is_expected_to_end_now() -> None:
    """2 processors: a runs longer than requested, so nothing may overtake the head from 10 on."""
    jobs = (
        Workload()
        .job("a", n=1, s=30, estimate=10)
        .job("head", n=2, s=5, at=1, walltime=6)
        .job("early", n=1, s=5, at=5, walltime=5)
        .job("late", n=1, s=5, at=12, walltime=5)
    )
    assert starts(jobs, 2, predict="last2") == {"a": 0, "head": 30, "early": 5, "late": 35}


def test_invalid_options_are_rejected() -> None:
    for options in ({"backfill_order": "ljf"}, {"predict": "oracle"}, {"correct": "never"}, {"order": "sjf"}):
        with pytest.raises(InputError):
            starts(Workload().job("a", n=1, s=1, walltime=2), 4, **options)


@st.composite
def jobs_of_users(draw: st.DrawFn) -> list[TwinJob]:
    """Make small workloads with many coincidences."""
    found: list[TwinJob] = []
    at = 0
    for _ in range(draw(st.integers(1, 25))):
        at += draw(st.integers(0, 4))
        run_s = draw(st.integers(1, 20))
        requested_s = run_s + draw(st.sampled_from([0, 0, 1, 7, 40]))
        found.append(TwinJob(at, run_s, draw(st.integers(1, N_PROCS)), requested_s, draw(st.sampled_from("uvw"))))
    return found


def workload_of(jobs: list[TwinJob]) -> Workload:
    workload = Workload()
    for i, job in enumerate(jobs):
        workload.job(f"{i:02}", n=job.n, s=job.run_s, at=job.at, walltime=job.requested_s, user=job.user)
    return workload


@examples(500)
@given(jobs_of_users(), st.sampled_from(ROWS))
def test_every_start_is_that_of_the_twin(jobs: list[TwinJob], row: tuple[str, str, str]) -> None:
    order, predict, correct = row
    twin = PredictsimTwin(jobs, N_PROCS, *row).run()
    found = starts(workload_of(jobs), N_PROCS, backfill_order=order, predict=predict, correct=correct)
    assert found == {f"{i:02}": start for i, start in twin.starts.items()}


@examples(200)
@given(jobs_of_users(), st.sampled_from(ROWS), outages(N_PROCS, 4))
def test_every_job_ends_with_machine_failures(
    jobs: list[TwinJob], row: tuple[str, str, str], events: list[tuple[float, str, str]]
) -> None:
    options: dict[str, Any] = dict(zip(("backfill_order", "predict", "correct"), row, strict=True))
    run = run_policy(PublishedPredictsim, workload_of(jobs), N_PROCS, machine_events=events, **options)
    assert not run.deadlocked
    assert all(job.final_state in {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"} for job in run.jobs.values())


def log_of(n_jobs: int) -> Log:
    """The first jobs of KTH-SP2, as the study reads them."""
    how = LogOptions(walltimes=Walltimes("requested-strict"), size="requested", run_times="cut")
    workload, _ = to_workload(read_swf(real(KTH)), how)
    return Log(workload, "kth-sp2").head(n_jobs)


def twin_jobs_of(log: Log) -> list[TwinJob]:
    profiles = log.workload.profiles
    return [
        TwinJob(job["subtime"], profiles[job["profile"]]["delay"], job["res"], job["walltime"], str(job.get("user")))
        for job in log.workload.jobs
    ]


@pytest.mark.parametrize(
    ("n_jobs", "rows"), [(700, ROWS), pytest.param(3000, ROWS, marks=pytest.mark.long)], ids=["700", "3000"]
)
def test_every_start_on_a_log_is_that_of_the_twin(n_jobs: int, rows: list[tuple[str, str, str]]) -> None:
    log = log_of(n_jobs)
    jobs = twin_jobs_of(log)
    for order, predict, correct in rows:
        twin = PredictsimTwin(jobs, log.n_procs, order, predict, correct).run()
        run = simulate(log, PublishedPredictsim, backfill_order=order, predict=predict, correct=correct, progress=False)
        began = dict(zip(run.jobs["id"], run.jobs["started_at"], strict=True))
        expected = {f"w0!{job['id']}": twin.starts[i] for i, job in enumerate(log.workload.jobs)}
        assert began == expected
        assert run.figures["mean_bounded_slowdown"] == pytest.approx(twin.mean_bounded_slowdown(), rel=1e-12)


def test_it_can_replace_another_policy_during_a_run() -> None:
    jobs = [TwinJob(3 * i, 10 + i % 7, 1 + i % 5, 20, "uv"[i % 2]) for i in range(40)]
    workload = workload_of(jobs)
    log = Log(model.Workload(workload.jobs, workload.profiles, N_PROCS), "w")
    run = Simulation(log, "fcfs")
    run.run(until=50)
    run.replace_policy(PublishedPredictsim, predict="last2", correct="doubling")
    run.run()
    assert run.result().finished
