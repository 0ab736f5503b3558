"""Daly's interval is the best one: the overhead of checkpoints and failures has its minimum there."""

from __future__ import annotations

import math
import random

import pytest

from pybatsched.core.checkpoints import Checkpoints, Restarts
from pybatsched.workload.inject.checkpoints import daly_interval_s

HOUR_S = 3600.0
N_FAILURES = 30_000
FACTORS = (0.4, 0.5, 0.63, 0.8, 1.0, 1.26, 1.6, 2.0, 2.5)


def overhead(interval_s: float, dump_s: float, mtbf_s: float) -> float:
    """Return the time that is not work, as a share of the work, of an endless job with random failures."""
    checkpoints = Checkpoints(interval_s, dump_s, dump_s, 1e15)
    dice, restarts, total_s = random.Random(7), Restarts(), 0.0
    for _ in range(N_FAILURES):
        ran_s = dice.expovariate(1 / mtbf_s)
        total_s += ran_s
        restarts.add_run(1, 0.0, ran_s)
        restarts.restart(checkpoints)
    work_s = restarts.n_checkpoints * interval_s
    return total_s / work_s - 1


def minimum(xs: list[float], ys: list[float]) -> float:
    """Return the minimum of the parabola through points, by least squares."""
    sums = [sum(x**k for x in xs) for k in range(5)]
    right = [sum(y * x**k for x, y in zip(xs, ys, strict=True)) for k in range(3)]
    rows = [[sums[i + j] for j in range(3)] + [right[i]] for i in range(3)]
    for i in range(3):
        for j in range(3):
            if i != j:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    _, b, c = (rows[i][3] / rows[i][i] for i in range(3))
    assert c > 0
    return -b / (2 * c)


@pytest.mark.parametrize("mtbf_h", [6, 24, 96])
def test_the_overhead_is_least_at_dalys_interval(mtbf_h: float) -> None:
    """The minimum is within 3 % of Daly's interval, for dumps of five minutes."""
    mtbf_s, dump_s = mtbf_h * HOUR_S, 300.0
    best_s = daly_interval_s(dump_s, mtbf_s)
    ys = [overhead(factor * best_s, dump_s, mtbf_s) for factor in FACTORS]
    # In the logarithm of the interval, (x + 1 / x) / 2 is nearly a parabola around its minimum.
    found = math.exp(minimum([math.log(factor) for factor in FACTORS], ys))
    assert found == pytest.approx(1.0, abs=0.03)


def best_interval_s(dump_s: float, mtbf_s: float) -> float:
    """Return the interval T with the least expected time per work, M (e^((T + C) / M) - 1) / T, by bisection.

    The derivative is 0 where (1 - T / M) e^((T + C) / M) = 1; the left side falls from e^(C / M) to 0.
    """
    low, high = 0.0, mtbf_s
    for _ in range(100):
        middle = (low + high) / 2
        is_below = (1 - middle / mtbf_s) * math.exp((middle + dump_s) / mtbf_s) > 1
        low, high = (middle, high) if is_below else (low, middle)
    return low


@pytest.mark.parametrize(("mtbf_s", "within"), [(152, 0.07), (1200, 0.002), (HOUR_S, 0.0004), (6 * HOUR_S, 0.0001)])
def test_dalys_interval_is_near_the_exact_optimum(mtbf_s: float, within: float) -> None:
    """Also for jobs on many hosts, whose MTBF is shorter than a dump of five minutes."""
    assert daly_interval_s(300.0, mtbf_s) == pytest.approx(best_interval_s(300.0, mtbf_s), rel=within)
