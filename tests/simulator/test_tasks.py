"""Fair sharing of processors among parallel tasks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybatsched.simulator.tasks import fair_rates


def one(host: int) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("tasks", "rates"),
    [
        ([{0: 10.0}], [0.1]),
        ([{0: 10.0}, {0: 10.0}], [0.05, 0.05]),
        ([{0: 10.0}, {0: 20.0}], [0.05, 0.025]),  # the speed is split evenly, not the progress
        ([{0: 10.0, 1: 20.0}], [0.05]),  # as fast as the slowest host
        ([{0: 10.0}, {0: 10.0, 1: 40.0}], [0.075, 0.025]),  # what one cannot use the other gets
        ([{0: 0.0}], [math.inf]),
        ([], []),
    ],
)
def test_examples(tasks: list[dict[int, float]], rates: list[float]) -> None:
    assert fair_rates(tasks, one) == pytest.approx(rates)


def test_speeds_count() -> None:
    assert fair_rates([{0: 10.0, 1: 10.0}], lambda host: [1.0, 2.0][host]) == [0.1]
    assert fair_rates([{1: 10.0}], lambda host: [1.0, 2.0][host]) == [0.2]


works = st.dictionaries(st.integers(0, 4), st.sampled_from([1.0, 2.0, 5.0, 10.0]), min_size=1, max_size=4)


@given(st.lists(works, min_size=1, max_size=8), st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=5, max_size=5))
def test_no_host_is_overloaded_and_every_task_is_held_up_somewhere(
    tasks: list[dict[int, float]], speeds: list[float]
) -> None:
    rates = fair_rates(tasks, speeds.__getitem__)
    used = [sum(rate * task.get(host, 0.0) for rate, task in zip(rates, tasks, strict=True)) for host in range(5)]
    for host, load in enumerate(used):
        assert load <= speeds[host] * (1 + 1e-6)
    for rate, task in zip(rates, tasks, strict=True):
        assert rate > 0
        assert any(used[host] >= speeds[host] * (1 - 1e-6) for host in task)
