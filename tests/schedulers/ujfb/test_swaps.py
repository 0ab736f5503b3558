"""The duration of swaps, and the memory of hosts for them."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
from pydantic import ValidationError

from pybatsched.core.cluster import Cluster
from pybatsched.core.events import Resource
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.errors import InputError, PolicyError
from pybatsched.testing import Workload, plan_for, run_policy
from pybatsched_schedulers.ujfb import preemption, swaps as swap_times
from pybatsched_schedulers.ujfb.options import SwapOptions
from pybatsched_schedulers.ujfb.policy import Ujfb
from pybatsched_schedulers.ujfb.swaps import MEASUREMENTS, HostMemory, Swaps, SwapTimes, bandwidth_gbps


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
