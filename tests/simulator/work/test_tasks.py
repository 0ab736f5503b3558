"""Fair sharing of processors among parallel tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from pybatsched.simulator.loop import Loop, Process
from pybatsched.simulator.work.tasks import Capacity, Tasks, fair_rates


def one(host: int) -> Capacity:
    return Capacity(1.0)


def ignore(hosts: Iterable[int], now: float) -> None:
    pass


def quad(host: int) -> Capacity:
    return Capacity(1.0, 4)


@pytest.mark.parametrize(
    ("tasks", "rates"),
    [
        ([[(0, 10.0)]], [0.1]),
        ([[(0, 10.0)], [(0, 10.0)]], [0.05, 0.05]),
        ([[(0, 10.0)], [(0, 20.0)]], [0.05, 0.025]),  # the speed is split evenly, not the progress
        ([[(0, 10.0), (1, 20.0)]], [0.05]),  # as fast as the slowest host
        ([[(0, 10.0)], [(0, 10.0), (1, 40.0)]], [0.075, 0.025]),  # what one cannot use the other gets
        ([[(0, 10.0), (0, 10.0)]], [0.05]),  # two executors on one host
        ([[(0, 10.0), (0, 10.0)], [(0, 10.0)]], [1 / 30, 1 / 30]),  # executors share, not tasks
        ([[(0, 0.0)]], [math.inf]),
        ([], []),
    ],
)
def test_examples(tasks: list[list[tuple[int, float]]], rates: list[float]) -> None:
    assert fair_rates(tasks, one) == pytest.approx(rates)


@pytest.mark.parametrize(
    ("n_executors", "seconds"),
    [
        ([1], [5.0]),
        ([1, 1], [5.0, 5.0]),
        ([1] * 6, [7.5] * 6),
        ([2], [5.0]),
        ([6], [7.5]),
        ([3, 1], [5.0, 5.0]),
        ([4, 1], [6.25, 6.25]),
        ([6, 1], [8.75, 8.75]),
    ],
)
def test_four_cores_as_measured_with_batsim(n_executors: list[int], seconds: list[float]) -> None:
    """Tasks with 5 Gflop an executor, all on one host of four cores of 1 Gflop/s."""
    rates = fair_rates([[(0, 5.0)] * n for n in n_executors], quad)
    assert [1 / rate for rate in rates] == pytest.approx(seconds)


def test_speeds_count() -> None:
    def speeds(host: int) -> Capacity:
        return Capacity([1.0, 2.0][host])

    assert fair_rates([[(0, 10.0), (1, 10.0)]], speeds) == [0.1]
    assert fair_rates([[(1, 10.0)]], speeds) == [0.2]


executors = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1.0, 2.0, 5.0, 10.0])), min_size=1, max_size=5)
capacities = st.lists(st.builds(Capacity, st.sampled_from([0.5, 1.0, 2.0]), st.integers(1, 3)), min_size=5, max_size=5)


@given(st.lists(executors, min_size=1, max_size=8), capacities)
def test_no_host_is_overloaded_and_each_task_gets_an_even_share_or_more(
    tasks: list[list[tuple[int, float]]], hosts: list[Capacity]
) -> None:
    rates = fair_rates(tasks, hosts.__getitem__)
    n_on = [sum(place == host for task in tasks for place, _ in task) for host in range(5)]
    for host in range(5):
        used = sum(
            rate * amount for rate, task in zip(rates, tasks, strict=True) for place, amount in task if place == host
        )
        assert used <= hosts[host].flops * (1 + 1e-6)
    for rate, task in zip(rates, tasks, strict=True):
        fastest = min(hosts[host].speed / amount for host, amount in task)
        even = min(hosts[host].flops / n_on[host] / amount for host, amount in task)
        assert min(even, fastest) * (1 - 1e-9) <= rate <= fastest * (1 + 1e-9)


class Sleeper:
    """A process that a task wakes, and when."""

    def __init__(self) -> None:
        self.loop = Loop(lambda: None)
        self.woken: list[float] = []

    def process(self) -> Process:
        while True:
            yield None
            self.woken.append(self.loop.now)


def test_a_task_late_in_a_long_run_ends_at_the_exact_time() -> None:
    """At a clock of 1e8 a double has no room for 1e-9 s; the end is due when the clock has reached it, not before."""
    sleeper = Sleeper()
    sleeper.loop.now = 123456789.123
    tasks = Tasks(sleeper.loop, one, ignore, ignore)
    process = sleeper.process()
    next(process)
    task = tasks.begin([(0, 1.137)], process)
    sleeper.loop.run()
    assert sleeper.woken == [123456789.123 + 1.137]
    assert task.is_over(sleeper.loop.now)
