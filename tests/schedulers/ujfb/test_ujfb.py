"""Urgent jobs first: worked examples with every start and its processors."""

from __future__ import annotations

from typing import Any

import pytest

from pybatsched.core import events as e
from pybatsched.metrics import joined
from pybatsched.metrics.outcomes import Outcome
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy
from pybatsched_schedulers.ujfb.policy import Ujfb

DYNAMIC = {"dynamic-jobs-enabled": True}
FIXED: dict[str, Any] = {"swap": "fixed", "swap_out": 1.0, "swap_in": 1.0}


def exact(jobs: Workload, name: str, at: float, n: int, s: float, **fields: Any) -> Workload:
    return jobs.job(name, n=n, s=s, at=at, walltime=s + 1, estimate=s, **fields)


def example(*urgents: tuple[str, float, int, float]) -> Workload:
    """The machine of the examples: R1 runs on 0-5, R2 needs all processors, R3 waits for R2."""
    jobs = Workload()
    for name, at, n, s in (("R1", 0, 6, 100), ("R2", 1, 8, 50), ("R3", 2, 1, 200)):
        exact(jobs, name, at, n, s)
    for urgent in urgents:
        exact(jobs, *urgent, urgent=True)
    return jobs


def ran(jobs: Workload, n_procs: int = 8, **options: Any) -> FakeBatsim:
    run = run_policy(Ujfb, jobs, n_procs, config=DYNAMIC, **{**FIXED, **options})
    assert not run.deadlocked
    return run


def segments(run: FakeBatsim) -> dict[str, list[tuple[float, float, str]]]:
    """Return (start, end, processors) of all segments by the jobs' own names."""
    outcomes = [
        Outcome(
            job.id,
            job.final_state,
            float(job.fields["subtime"]),
            -1.0 if job.started_at is None else job.started_at,
            0.0 if job.ended_at is None or job.started_at is None else job.ended_at - job.started_at,
            len(job.procs),
            job.metadata,
            job.procs,
        )
        for job in run.jobs.values()
    ]
    return {
        record.id.removeprefix("w0!"): [(s.started_at, s.ended_at, str(s.procs)) for s in record.segments]
        for record in joined(outcomes)
    }


def test_e5a_an_urgent_job_that_delays_no_other() -> None:
    assert segments(ran(example(("U", 10, 2, 40)))) == {
        "R1": [(0, 100, "0-5")],
        "U": [(10, 50, "6-7")],
        "R2": [(100, 150, "0-7")],
        "R3": [(150, 350, "0")],
    }


def test_e5b_an_urgent_job_that_precedes_others() -> None:
    assert segments(ran(example(("U", 10, 2, 240)))) == {
        "R1": [(0, 100, "0-5")],
        "U": [(10, 250, "6-7")],
        "R2": [(250, 300, "0-7")],
        "R3": [(300, 500, "0")],
    }


def test_e5c_an_urgent_job_that_preempts() -> None:
    assert segments(ran(example(("U", 10, 7, 60)))) == {
        "R1": [(0, 10, "0-5"), (72, 162, "0-5")],
        "U": [(11, 71, "0-4 6-7")],
        "R2": [(162, 212, "0-7")],
        "R3": [(212, 412, "0")],
    }


def test_e5c_with_kill_and_restart() -> None:
    assert segments(ran(example(("U", 10, 7, 60)), mode="kill_restart")) == {
        "R1": [(0, 10, "0-5"), (70, 170, "0-5")],
        "U": [(10, 70, "0-4 6-7")],
        "R2": [(170, 220, "0-7")],
        "R3": [(220, 420, "0")],
    }


def test_e5d_an_urgent_job_that_waits_for_another() -> None:
    assert segments(ran(example(("U", 10, 7, 60), ("U2", 20, 4, 30)))) == {
        "R1": [(0, 10, "0-5"), (102, 192, "0-5")],
        "U": [(11, 71, "0-4 6-7")],
        "U2": [(71, 101, "0-1 6-7")],
        "R2": [(192, 242, "0-7")],
        "R3": [(242, 442, "0")],
    }


def two_victims(**options: Any) -> dict[str, list[tuple[float, float, str]]]:
    jobs = Workload()
    exact(jobs, "A", 0, 3, 100, memory_gb=6)
    exact(jobs, "B", 1, 3, 100, memory_gb=12)
    exact(jobs, "C", 2, 2, 100, memory_gb=24)
    exact(jobs, "U", 10, 5, 50, urgent=True)
    return segments(ran(jobs, **options))


def test_two_victims_are_swapped_at_once() -> None:
    """One and two seconds by their memory; all their processors are idle until both are out."""
    assert two_victims(swap="bandwidth", swap_out=None, swap_in=None) == {
        "A": [(0, 10, "0-2"), (63, 153, "0-2")],
        "B": [(1, 10, "3-5"), (64, 155, "3-5")],
        "C": [(2, 102, "6-7")],
        "U": [(12, 62, "0-4")],
    }


def test_two_victims_are_swapped_one_after_the_other() -> None:
    assert two_victims(swap="bandwidth", swap_out=None, swap_in=None, pd="serial") == {
        "A": [(0, 10, "0-2"), (66, 156, "0-2")],
        "B": [(1, 10, "3-5"), (67, 158, "3-5")],
        "C": [(2, 102, "6-7")],
        "U": [(15, 65, "0-4")],
    }


@pytest.mark.parametrize(
    ("order", "victims"),
    [("start_order", {"A", "B"}), ("longest_remaining", {"B", "C"}), ("fewest", {"A", "B"})],
)
def test_the_order_of_victims(order: str, victims: set[str]) -> None:
    found = two_victims(victim_order=order)
    assert {name for name, parts in found.items() if len(parts) > 1} == victims


def test_preempted_again_during_its_swap_in() -> None:
    """U ends at 71; R1 swaps in until 72, but V comes at 71.5 and takes the processors again."""
    jobs = example(("U", 10, 7, 60), ("V", 71.5, 8, 20))
    assert segments(ran(jobs)) == {
        "R1": [(0, 10, "0-5"), (93.5, 183.5, "0-5")],
        "U": [(11, 71, "0-4 6-7")],
        "V": [(72.5, 92.5, "0-7")],
        "R2": [(183.5, 233.5, "0-7")],
        "R3": [(233.5, 433.5, "0")],
    }


def test_a_victim_that_ends_in_the_same_instant_costs_nothing() -> None:
    jobs = Workload()
    exact(jobs, "A", 0, 6, 10)
    exact(jobs, "U", 10, 7, 60, urgent=True)
    assert segments(ran(jobs)) == {"A": [(0, 10, "0-5")], "U": [(10, 70, "0-6")]}


def test_an_urgent_job_that_comes_during_the_delay_of_another() -> None:
    """The victim's last processor is idle until 11; two others are free all the time."""
    jobs = Workload()
    exact(jobs, "R", 0, 6, 100)
    exact(jobs, "U", 10, 5, 60, urgent=True)
    exact(jobs, "V", 10.5, 2, 30, urgent=True)
    exact(jobs, "W", 10.6, 1, 5, urgent=True)
    assert segments(ran(jobs, n_procs=8)) == {
        "R": [(0, 10, "0-5"), (72, 162, "0-5")],
        "U": [(11, 71, "0-2 6-7")],
        "V": [(11, 41, "3-4")],
        "W": [(11, 16, "5")],
    }


def test_a_machine_that_goes_away_during_the_delay() -> None:
    outage = [(10.5, e.MACHINES_UNAVAILABLE, "6"), (30.0, e.MACHINES_AVAILABLE, "6")]
    run = run_policy(Ujfb, example(("U", 10, 7, 60)), 8, config=DYNAMIC, machine_events=outage, **FIXED)
    assert not run.deadlocked
    assert segments(run)["U"] == [(11, 71, "0-5 7")]


def test_a_machine_that_goes_away_during_the_swap_in() -> None:
    outage = [(71.5, e.MACHINES_UNAVAILABLE, "3"), (80.0, e.MACHINES_AVAILABLE, "3")]
    run = run_policy(Ujfb, example(("U", 10, 7, 60)), 8, config=DYNAMIC, machine_events=outage, **FIXED)
    assert not run.deadlocked
    assert segments(run)["R1"] == [(0, 10, "0-5"), (81, 171, "0-5")]


def test_processors_that_never_come_back_are_not_waited_for() -> None:
    outage = [(71.5, e.MACHINES_UNAVAILABLE, "3")]
    run = run_policy(Ujfb, example(("U", 10, 7, 60)), 8, config=DYNAMIC, machine_events=outage, **FIXED)
    assert not run.deadlocked
    assert segments(run)["R1"] == [(0, 10, "0-5"), (72.5, 162.5, "0-2 4-5 7")]


def on_the_whole_machine() -> Workload:
    return exact(exact(Workload(), "R", 0, 8, 100), "U", 10, 1, 30, urgent=True)


@pytest.mark.parametrize("mode", ["suspend", "kill_restart"])
def test_a_job_that_could_never_resume_is_not_preempted(mode: str) -> None:
    outage = [(5.0, e.MACHINES_UNAVAILABLE, "3")]
    run = run_policy(Ujfb, on_the_whole_machine(), 8, config=DYNAMIC, machine_events=outage, mode=mode, **FIXED)
    assert not run.deadlocked
    assert segments(run) == {"R": [(0, 100, "0-7")], "U": [(100, 130, "0")]}


def with_profile(jobs: Workload, name: str, profile: str) -> Workload:
    jobs.profiles |= {
        "task": {"type": "parallel_homogeneous", "cpu": 100e9, "com": 0},
        "delays": {"type": "composed", "repeat": 2, "seq": ["d30", "d20"]},
        "mixed": {"type": "composed", "seq": ["d30", "task"]},
        "d30": {"type": "delay", "delay": 30},
        "d20": {"type": "delay", "delay": 20},
    }
    next(job for job in jobs.jobs if job["id"] == name)["profile"] = profile
    return jobs


@pytest.mark.parametrize("profile", ["task", "delays"])
def test_parallel_and_composed_jobs_resume_with_the_rest(profile: str) -> None:
    """As E5c: 10 s of 100 are done, and Batsim's progress of a task has six decimals."""
    found = segments(ran(with_profile(example(("U", 10, 7, 60)), "R1", profile)))
    assert found["R1"] == [(0, 10, "0-5"), (72, 162, "0-5")]
    assert found["R2"] == [(162, 212, "0-7")]


def test_a_parallel_job_preempted_in_its_first_microsecond_loses_nothing() -> None:
    found = segments(ran(with_profile(example(("U", 1e-6, 7, 60)), "R1", "task")))
    assert found["U"] == [(1.000001, 61.000001, "0-4 6-7")]
    (first, second) = found["R1"]
    assert list(first) == [0, 1e-6, "0-5"]
    assert [second[0], second[2]] == [62.000001, "0-5"]
    assert second[1] == pytest.approx(162.000001, abs=2e-4)


def test_a_job_that_starts_and_is_preempted_at_one_instant() -> None:
    jobs = Workload()
    exact(jobs, "A", 0, 8, 5)
    exact(jobs, "B", 1, 8, 30)
    exact(jobs, "U", 5, 2, 10, urgent=True)
    assert segments(ran(jobs)) == {"A": [(0, 5, "0-7")], "U": [(5, 15, "0-1")], "B": [(15, 45, "0-7")]}


def test_a_job_that_cannot_resume_is_not_preempted_and_gives_a_remark() -> None:
    """R1 is composed of a delay and a parallel task: the urgent job waits for its end, as by its estimate."""
    jobs = with_profile(example(("U", 10, 7, 60)), "R1", "mixed")
    session = Session(plan_for(Ujfb, **FIXED), checked=True)
    run = FakeBatsim(jobs, 8, config=DYNAMIC).run(session.handle)
    found = segments(run)
    assert found["R1"] == [(0, 101, "0-5")]
    assert found["U"] == [(101, 161, "0-6")]
    (remark,) = session.engine.remarks
    assert remark == (
        "ujfb: 1 regular job could not be preempted for urgent jobs (first: w0!R1): "
        "Batsim cannot stop and continue their profiles"
    )
    assert isinstance(session.engine.policy, Ujfb)
    local = session.engine.policy.local
    assert (local._fixed, local._waited) == (set(), set()), "nothing is kept of jobs that are over"


def test_the_figures_of_a_run() -> None:
    session = Session(plan_for(Ujfb, **FIXED), checked=True)
    FakeBatsim(example(("U", 10, 7, 60), ("U2", 20, 4, 30)), 8, config=DYNAMIC).run(session.handle)
    assert session.engine.figures == {
        "n_preemptions": 1,
        "n_backfilled": 1,
        "n_preceded": 0,
        "n_waited": 1,
        "swap_out_s": 1,
        "swap_in_s": 1,
        "pd_max_s": 1,
    }


def test_a_suspended_job_may_end_before_the_reservation_of_another_starts() -> None:
    """2A was on 1-3, which are free from 31 on. Its work is done before 4B, with a claim on 2-3, goes on."""
    jobs = Workload()
    for name, at, n, s, fields in (
        ("1C", 0, 1, 5, {}),
        ("2A", 0, 3, 60, {}),
        ("3D", 5, 1, 7, {}),
        ("U1", 10, 1, 20, {"urgent": True}),
        ("4B", 12, 3, 15, {}),
        ("U2", 15, 1, 100, {"urgent": True}),
    ):
        exact(jobs, name, at, n, s, **fields)
    assert segments(ran(jobs, 4)) == {
        "1C": [(0, 5, "0")],
        "2A": [(0, 10, "1-3"), (32, 82, "1-3")],
        "3D": [(5, 12, "0")],
        "U1": [(11, 31, "1")],
        "4B": [(12, 15, "0 2-3"), (117, 129, "0 2-3")],
        "U2": [(16, 116, "0")],
    }
