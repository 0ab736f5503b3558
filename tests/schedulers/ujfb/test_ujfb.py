"""Urgent jobs first: worked examples with every start and its processors."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
from pydantic import ValidationError

from pybatsched.core import events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.events import Resource
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.errors import InputError, PolicyError
from pybatsched.metrics import joined
from pybatsched.metrics.outcomes import Outcome
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy
from pybatsched_schedulers.ujfb import preemption, swaps as swap_times
from pybatsched_schedulers.ujfb.options import SwapOptions
from pybatsched_schedulers.ujfb.policy import Ujfb
from pybatsched_schedulers.ujfb.swaps import MEASUREMENTS, HostMemory, Swaps, SwapTimes, bandwidth_gbps

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


@pytest.mark.parametrize(
    ("urgent", "mode", "r1", "r2_at", "of_urgent"),
    [
        # E5a and E5b: it delays no other job, and it precedes others.
        ([("U", 10, 2, 40)], "suspend", [(0, 100, "0-5")], 100, {"U": (10, 50, "6-7")}),
        ([("U", 10, 2, 240)], "suspend", [(0, 100, "0-5")], 250, {"U": (10, 250, "6-7")}),
        # E5c: it preempts another.
        ([("U", 10, 7, 60)], "suspend", [(0, 10, "0-5"), (72, 162, "0-5")], 162, {"U": (11, 71, "0-4 6-7")}),
        ([("U", 10, 7, 60)], "kill_restart", [(0, 10, "0-5"), (70, 170, "0-5")], 170, {"U": (10, 70, "0-4 6-7")}),
        # E5d: it waits for another urgent job.
        ([("U", 10, 7, 60), ("U2", 20, 4, 30)], "suspend", [(0, 10, "0-5"), (102, 192, "0-5")], 192,
         {"U": (11, 71, "0-4 6-7"), "U2": (71, 101, "0-1 6-7")}),
        # U ends at 71; R1 swaps in until 72, but V comes at 71.5 and takes the processors again.
        ([("U", 10, 7, 60), ("V", 71.5, 8, 20)], "suspend", [(0, 10, "0-5"), (93.5, 183.5, "0-5")], 183.5,
         {"U": (11, 71, "0-4 6-7"), "V": (72.5, 92.5, "0-7")}),
    ],
)  # fmt: skip
def test_urgent_jobs_worked_out_by_hand(
    urgent: list[Any], mode: str, r1: list[Any], r2_at: float, of_urgent: dict[str, Any]
) -> None:
    assert segments(ran(example(*urgent), mode=mode)) == {
        "R1": r1,
        **{name: [segment] for name, segment in of_urgent.items()},
        "R2": [(r2_at, r2_at + 50, "0-7")],
        "R3": [(r2_at + 50, r2_at + 250, "0")],
    }


def two_victims(**options: Any) -> dict[str, list[tuple[float, float, str]]]:
    jobs = Workload()
    exact(jobs, "A", 0, 3, 100, memory_gb=6)
    exact(jobs, "B", 1, 3, 100, memory_gb=12)
    exact(jobs, "C", 2, 2, 100, memory_gb=24)
    exact(jobs, "U", 10, 5, 50, urgent=True)
    return segments(ran(jobs, **options))


@pytest.mark.parametrize(("pd", "a_at", "b_at", "u_at"), [("max", 63, 64, 12), ("serial", 66, 67, 15)])
def test_two_victims_are_swapped_at_once_or_one_after_the_other(pd: str, a_at: int, b_at: int, u_at: int) -> None:
    """One and two seconds by their memory; all their processors are idle until both are out."""
    assert two_victims(swap="bandwidth", swap_out=None, swap_in=None, pd=pd) == {
        "A": [(0, 10, "0-2"), (a_at, a_at + 90, "0-2")],
        "B": [(1, 10, "3-5"), (b_at, b_at + 91, "3-5")],
        "C": [(2, 102, "6-7")],
        "U": [(u_at, u_at + 50, "0-4")],
    }


@pytest.mark.parametrize(
    ("order", "victims"), [("start_order", {"A", "B"}), ("longest_remaining", {"B", "C"}), ("fewest", {"A", "B"})]
)
def test_the_order_of_victims(order: str, victims: set[str]) -> None:
    found = two_victims(victim_order=order)
    assert {name for name, parts in found.items() if len(parts) > 1} == victims


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


@pytest.mark.parametrize(
    ("outage", "job", "expected"),
    [
        ([(10.5, e.MACHINES_UNAVAILABLE, "6"), (30.0, e.MACHINES_AVAILABLE, "6")], "U", [(11, 71, "0-5 7")]),
        (
            [(71.5, e.MACHINES_UNAVAILABLE, "3"), (80.0, e.MACHINES_AVAILABLE, "3")],
            "R1",
            [(0, 10, "0-5"), (81, 171, "0-5")],
        ),
        ([(71.5, e.MACHINES_UNAVAILABLE, "3")], "R1", [(0, 10, "0-5"), (72.5, 162.5, "0-2 4-5 7")]),
    ],
)
def test_a_machine_that_goes_away_during_a_swap(outage: list[Any], job: str, expected: list[Any]) -> None:
    """During the delay before U; during the swap-in of R1; and then for ever, so that R1 does not wait for it."""
    run = run_policy(Ujfb, example(("U", 10, 7, 60)), 8, config=DYNAMIC, machine_events=outage, **FIXED)
    assert not run.deadlocked
    assert segments(run)[job] == expected


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
        "n_preemptions": 1, "n_backfilled": 1, "n_preceded": 0, "n_waited": 1, "swap_out_s": 1, "swap_in_s": 1,
        "pd_max_s": 1,
    }  # fmt: skip


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


def cluster(*properties: dict[str, str]) -> Cluster:
    hosts = [Resource(i, f"ve{i}", "idle", own) for i, own in enumerate(properties)]
    return Cluster(IntervalSet.span(0, len(hosts)), resources=hosts)


def swaps(machine: Cluster, **options: Any) -> Swaps:
    return Swaps(machine, SwapOptions.model_validate(options))


def job(n: int = 2, **fields: Any) -> Job:
    return Job("w0!1", n, fields=fields)


PAIR = IntervalSet.parse("0-1")
AURORA = {"memory_gb": "48", "swap_bw_gbps": "6.0", "vh": "0"}


@pytest.mark.parametrize(
    ("input_size", "gbps"), [("A", 5.445), ("B", 6.286), ("C", 5.391), ("D", 6.078), (None, 6.003)], ids=str
)
def test_the_fits_of_the_published_table(input_size: Any, gbps: float) -> None:
    assert round(bandwidth_gbps(input_size), 3) == gbps


def test_the_table_is_complete_and_marks_all_outliers() -> None:
    assert len(MEASUREMENTS) == 32
    assert len({(row.input_size, row.application) for row in MEASUREMENTS}) == 32
    for row in MEASUREMENTS:
        line_s = row.size_mb / 1000 / bandwidth_gbps(row.input_size)
        assert row.is_outlier == (abs(row.swap_s - line_s) > 0.005 and abs(row.swap_s / line_s - 1) > 0.1), row


@pytest.mark.parametrize("module", [swap_times, preemption])
def test_examples_in_docstrings(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 0


def test_a_swap_takes_as_long_as_its_slowest_copy() -> None:
    machine = cluster(AURORA, {"memory_gb": "24", "swap_bw_gbps": "2"}, {})
    assert swaps(machine).times(job(1), IntervalSet.parse("0")) == SwapTimes(8.0, 8.0)
    assert swaps(machine).times(job(), PAIR) == SwapTimes(12.0, 12.0)
    assert swaps(machine).times(job(memory_gb=6), PAIR) == SwapTimes(3.0, 3.0)
    assert swaps(machine).times(job(memory_gb=0), PAIR) == SwapTimes(0.0, 0.0)
    assert swaps(machine).times(job(1, memory_gb=3), IntervalSet.parse("2")) == SwapTimes(0.5, 0.5)
    assert swaps(machine, swap_class="A").times(job(memory_gb=5.445), PAIR).out_s == pytest.approx(1.0, abs=1e-4)


def test_a_swap_of_unknown_size_takes_no_time_and_gives_a_remark() -> None:
    times = swaps(cluster({}, {}))
    assert times.times(job(), PAIR) == SwapTimes(0.0, 0.0)
    assert times.knows_no_memory
    jobs = Workload().job("r", n=2, s=9, walltime=10).job("u", n=1, s=2, at=1, walltime=3, urgent=True)
    run = run_policy(Ujfb, jobs, 2, config={"dynamic-jobs-enabled": True})
    assert run.jobs["w0!u"].started_at == 1


def test_hosts_have_the_properties_of_their_zone() -> None:
    host = Resource(0, "ve0", "idle", {}, {"memory_gb": "12", "swap_bw_gbps": "6"})
    machine = Cluster(IntervalSet.span(0, 1), resources=[host])
    assert swaps(machine).times(job(1), IntervalSet.parse("0")) == SwapTimes(2.0, 2.0)


def test_random_swap_times_follow_the_seed_and_the_bounds() -> None:
    machine = cluster({}, {})
    first = [swaps(machine, swap="uniform", seed=3).times(job(), PAIR) for _ in range(2)]
    assert first[0] == first[1] != swaps(machine, swap="uniform", seed=4).times(job(), PAIR)
    many = swaps(machine, swap="uniform", swap_out=[5, 10], swap_in=[3, 4])
    drawn = [many.times(job(), PAIR) for _ in range(200)]
    assert all(5 <= out <= 10 and 3 <= in_ <= 4 for out, in_ in drawn)
    assert len(set(drawn)) == 200
    few = [swaps(machine, swap="uniform", seed=k).times(job(), PAIR) for k in range(200)]
    assert all(0.2 <= out <= 2 and 0.1 <= in_ <= 2 for out, in_ in few)


def test_fixed_seconds() -> None:
    machine = cluster({}, {})
    assert swaps(machine, swap="fixed").times(job(), PAIR) == SwapTimes(1.0, 1.0)
    assert swaps(machine, swap="fixed", swap_out=0, swap_in=2.5).times(job(), PAIR) == SwapTimes(0.0, 2.5)


def test_how_many_swapped_jobs_a_host_can_hold() -> None:
    machine = cluster(AURORA, AURORA, AURORA | {"vh": "1"}, AURORA | {"vh": "1"})
    memory = HostMemory(machine, swaps(machine), 100.0)
    small, large = job(1, memory_gb=60), job(3)
    assert memory.fits([(large, IntervalSet.parse("0-2"))])
    assert not memory.fits([(large, IntervalSet.parse("0-2")), (small, IntervalSet.parse("3"))])
    memory.hold(large, IntervalSet.parse("0-2"))
    assert not memory.fits([(small, IntervalSet.parse("3"))])
    assert not memory.fits([(small, IntervalSet.parse("1"))])
    memory.give_back(large, IntervalSet.parse("0-2"))
    assert memory.fits([(small, IntervalSet.parse("3"))])
    assert HostMemory(machine, swaps(machine), None).fits([(small, PAIR)] * 99)


def test_jobs_larger_than_the_host_memory_are_not_preempted() -> None:
    """A started first, but its 48 GB on each engine do not fit; B needs little memory and is swapped out."""
    jobs = (
        Workload()
        .job("A", n=2, s=100, walltime=101, estimate=100)
        .job("B", n=2, s=100, at=1, walltime=101, estimate=100, memory_gb=6)
        .job("U", n=2, s=10, at=5, walltime=11, estimate=10, urgent=True)
    )
    run = run_policy(Ujfb, jobs, 4, config={"dynamic-jobs-enabled": True}, hosts=[AURORA] * 4, vh_memory_gb=64)
    assert {job.id: (job.started_at, str(job.procs)) for job in run.jobs.values()} == {
        "w0!A": (0, "0-1"),
        "w0!B": (1, "2-3"),
        "w0!U": (6, "2-3"),
        "dyn!w0.B.1": (17, "2-3"),
    }


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"swap_out": 1.0}, "swap_out: works only with swap=uniform or swap=fixed"),
        ({"swap": "uniform", "swap_out": 1.0}, r"expected two numbers, \[least, most\]"),
        ({"swap": "fixed", "swap_in": [1, 2]}, "expected one number of seconds"),
        ({"swap": "uniform", "swap_in": [2, 1]}, "the smaller bound first"),
        ({"swap": "uniform", "swap_in": [-1, 1]}, "expected seconds from 0"),
        ({"swap": "fixed", "swap_out": -1}, "expected seconds from 0"),
        ({"swap": "fixed", "swap_out": float("inf")}, "expected seconds from 0"),
        ({"swap": "fixed", "swap_class": "A"}, "swap_class: works only with swap=bandwidth"),
        ({"swap_class": "E"}, "expected one of A, B, C, D, found 'E'"),
        ({"vh_memory_gb": -1}, "expected 0 or more, found -1"),
        ({"seed": "x"}, "expected a whole number, found 'x'"),
        ({"victim_order": "nobody"}, "start_order"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        plan_for(Ujfb, **options).options_for(None)


def test_swap_options_are_reported_unchanged() -> None:
    with pytest.raises(ValidationError):
        SwapOptions.model_validate({"swap": "uniform", "swap_out": [1, 2, 3]})
    assert SwapOptions.model_validate({"swap": "uniform", "swap_out": [1, 2]}).swap_out == (1.0, 2.0)


@pytest.mark.parametrize(
    ("fields", "hosts", "options", "text"),
    [
        ({"urgent": 1}, {}, {}, "job w0!a, field urgent: expected true or false, found 1"),
        ({"urgent": "yes"}, {}, {}, "field urgent: expected true or false, found 'yes'"),
        ({"memory_gb": -1}, {}, {}, "job w0!a, field memory_gb: expected gigabytes per processor from 0, found -1"),
        ({"memory_gb": "much"}, {}, {}, "field memory_gb"),
        ({}, {}, {"vh_memory_gb": 64}, "vh_memory_gb needs hosts with a property vh; host node0 has none"),
        ({}, {"memory_gb": "many"}, {}, "host node0, property memory_gb: expected a number from 0, found 'many'"),
        ({}, {"swap_bw_gbps": "0"}, {}, "host node0, property swap_bw_gbps: expected a bandwidth above 0"),
    ],
)
def test_invalid_inputs_are_rejected(fields: Any, hosts: Any, options: Any, text: str) -> None:
    jobs = Workload().job("a", n=1, s=5, walltime=6, **fields)
    with pytest.raises((InputError, PolicyError), match=text):
        run_policy(Ujfb, jobs, 2, config={"dynamic-jobs-enabled": True}, hosts=[hosts] * 2, **options)


def test_an_urgent_job_larger_than_the_machine_is_rejected() -> None:
    jobs = Workload().job("a", n=9, s=5, walltime=6, urgent=True).job("b", n=2, s=5, walltime=6)
    run = run_policy(Ujfb, jobs, 8, config={"dynamic-jobs-enabled": True})
    assert {job.id: job.final_state for job in run.jobs.values()} == {
        "w0!a": "REJECTED",
        "w0!b": "COMPLETED_SUCCESSFULLY",
    }
