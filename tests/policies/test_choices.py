"""Choices of an agent and their effect, on a few jobs by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.episodes import as_workload

from pybatsched.gym import MACHINE, QUEUE, RUNNING, SchedulingEnv, scaled, seconds
from pybatsched.testing import Workload

NOTHING = 4

#: a runs until 10. b does not fit beside it, c and d do; d would delay b, which can start at 10 with 1 processor left.
JOBS = (
    Workload()
    .job("a", n=3, s=10, walltime=10)
    .job("b", n=3, s=5, at=1, walltime=5)
    .job("c", n=1, s=9, at=1, walltime=9)
    .job("d", n=1, s=50, at=1, walltime=50)
    .job("e", n=2, s=50, at=1, walltime=50)
)


def begun(**options: Any) -> tuple[SchedulingEnv, dict[str, Any]]:
    """Return the environment after the one choice there is at first: a."""
    env = SchedulingEnv(as_workload(JOBS, 5), window=4, **options)
    _, info = env.reset()
    assert info["action_mask"].tolist() == [1, 0, 0, 0, 0]  # nothing runs, so a job must start
    assert info["now"] == 0
    return env, env.step(0)[4]


def names(env: SchedulingEnv) -> str:
    return "".join(job.id.removeprefix("w0!") for job in env.waiting())


def column(observation: dict[str, Any], name: str) -> list[float]:
    found: list[float] = observation["queue"][:, QUEUE.index(name)].tolist()
    return found


def test_a_job_that_does_not_fit_gets_a_reservation_that_no_job_delays() -> None:
    env, info = begun()
    assert (info["now"], names(env)) == (1, "bcde")
    assert info["action_mask"].tolist() == [1, 1, 1, 1, 1]
    observation, _, _, _, info = env.step(0)
    assert info["now"] == 1
    assert column(observation, "is_reserved") == [1, 0, 0, 0]
    assert column(observation, "may_start") == [0, 1, 1, 1]  # 2 processors are left over at 10
    machine = dict(zip(MACHINE, observation["machine"].tolist(), strict=True))
    assert machine["extra"] == pytest.approx(2 / 5)
    assert seconds(observation["machine"])[MACHINE.index("shadow")] == pytest.approx(9, abs=1e-3)
    assert info["action_mask"].tolist() == [0, 1, 1, 1, 1]
    *_, info = env.step(2)  # d, on one of the two
    assert names(env) == "bce"
    assert info["action_mask"].tolist() == [0, 1, 0, 0, 1]  # e needs two
    observation, _, _, _, info = env.step(1)  # c ends in time; now no job fits, and the next choice is at 10
    assert (info["now"], names(env)) == (10, "be")
    assert column(observation, "is_reserved") == [0, 0, 0, 0]
    assert info["action_mask"].tolist() == [1, 1, 0, 0, 1]


def test_without_reservations_only_fitting_jobs_can_be_chosen() -> None:
    env, info = begun(reservations=False)
    assert info["action_mask"].tolist() == [0, 1, 1, 1, 1]
    *_, info = env.step(3)
    assert names(env) == "bcd"
    assert info["now"] == 10
    assert info["action_mask"].tolist() == [1, 1, 1, 0, 1]


def test_choosing_nothing_asks_again_after_the_next_event() -> None:
    env, info = begun()
    *_, info = env.step(NOTHING)
    assert (info["now"], names(env)) == (10, "bcde")
    assert info["action_mask"].tolist() == [1, 1, 1, 1, 0]  # nothing runs any more
    *_, info = env.step(NOTHING)  # so the first that may be is chosen
    assert names(env) == "cde"


def test_a_masked_choice_does_nothing_and_an_invalid_choice_is_an_error() -> None:
    env, _ = begun()
    env.step(0)
    *_, info = env.step(0)  # b is reserved for already
    assert (info["now"], names(env)) == (10, "bcde")
    for wrong in (-1, 5, 1.5, "b", None):
        with pytest.raises(ValueError, match="expected a whole number from 0 to 4"):
            env.step(wrong)
    assert names(env) == "bcde"
    env.step(np.array(3))
    assert names(env) == "bcd"


def test_only_the_window_can_be_chosen_from_and_the_queue_has_its_order() -> None:
    env = SchedulingEnv(as_workload(JOBS, 5), window=2, order="narrowest")
    env.reset()
    *_, info = env.step(0)
    assert names(env) == "cd"
    assert info["action_mask"].tolist() == [1, 1, 1]
    *_, info = env.step(1)
    assert names(env) == "ce"
    assert info["now"] == 1


def test_the_observation_of_queue_running_jobs_and_machine() -> None:
    env, _ = begun()
    observation, _, _, _, info = env.step(2)
    assert info["now"] == 1
    queue = [
        [1, 3 / 5, scaled(5), 0, 0, 0],
        [1, 1 / 5, scaled(9), 0, 1, 0],
        [1, 2 / 5, scaled(50), 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    assert observation["queue"] == pytest.approx(np.array(queue))
    rows = np.array([[1, 3 / 5, scaled(9), scaled(1)], [1, 1 / 5, scaled(50), 0]], dtype=np.float32)
    assert observation["running"].shape == (16, len(RUNNING))
    assert observation["running"][:2] == pytest.approx(rows)
    assert not observation["running"][2:].any()
    counts = [math.log1p(n) / math.log1p(100_000) for n in (3, 2)]
    assert observation["machine"].tolist() == np.array([1 / 5, 0, *counts, 0, 0], dtype=np.float32).tolist()
    assert observation["time"].tolist() == np.array([1 / 86_400, 1 / 604_800], dtype=np.float32).tolist()


def test_a_job_without_an_end_and_one_past_its_estimate() -> None:
    jobs = Workload().job("a", n=1, s=10, walltime=20, estimate=2).job("b", n=2, s=5, at=3).job("c", n=1, s=5, at=3)
    env = SchedulingEnv(as_workload(jobs, 2), window=4)
    env.reset()
    env.step(0)
    observation, _, _, _, info = env.step(0)  # b has a reservation as if a ended now; no job may start beside it
    assert (info["now"], names(env)) == (10, "bc")
    assert column(observation, "time") == [1, 1, 0, 0]
    assert column(observation, "wait") == pytest.approx([scaled(7), scaled(7), 0, 0])
