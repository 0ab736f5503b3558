"""Student's t against tables, and means with their intervals."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given, strategies as st
from support.places import ROOT

from pybatsched.metrics.compare.confidence import LEVEL, LEVEL_TEXT, Estimate, estimate, student_t

#: Both sides of 95 and of 99 per cent, as printed in tables, to four decimals.
TABLE = {
    1: (12.7062, 63.6567),
    2: (4.3027, 9.9248),
    3: (3.1824, 5.8409),
    4: (2.7764, 4.6041),
    5: (2.5706, 4.0321),
    9: (2.2622, 3.2498),
    10: (2.2281, 3.1693),
    19: (2.0930, 2.8609),
    20: (2.0860, 2.8453),
    30: (2.0423, 2.7500),
    60: (2.0003, 2.6603),
    120: (1.9799, 2.6174),
}


@pytest.mark.parametrize(("dof", "wanted"), TABLE.items())
def test_quantiles_are_those_of_tables(dof: int, wanted: tuple[float, float]) -> None:
    assert (round(student_t(0.95, dof), 4), round(student_t(0.99, dof), 4)) == wanted


@given(st.floats(0.01, 0.999))
def test_quantiles_equal_the_formulas_for_small_degrees_of_freedom(level: float) -> None:
    """One degree of freedom is Cauchy's distribution, two have an algebraic one."""
    assert student_t(level, 1) == pytest.approx(math.tan(math.pi * level / 2), rel=1e-9)
    assert student_t(level, 2) == pytest.approx(level * math.sqrt(2 / (1 - level * level)), rel=1e-9)


@given(st.floats(0.1, 0.99), st.integers(1, 60))
def test_the_density_between_quantiles_adds_up_to_the_level(level: float, dof: int) -> None:
    """By Simpson's rule over the angle, in which the density is a power of the cosine."""
    end, n = math.atan(student_t(level, dof) / math.sqrt(dof)), 400
    whole = math.sqrt(math.pi) * math.gamma(dof / 2) / math.gamma((dof + 1) / 2) / 2
    weights = [1, *([4, 2] * (n // 2))[:-1], 1]
    area = sum(w * math.cos(end * k / n) ** (dof - 1) for k, w in enumerate(weights)) * end / n / 3
    assert area / whole == pytest.approx(level, abs=1e-7)


def test_with_many_degrees_of_freedom_it_is_the_normal_distribution() -> None:
    assert student_t(0.95, 100_000) == pytest.approx(statistics.NormalDist().inv_cdf(0.975), abs=1e-4)


@pytest.mark.parametrize(("level", "dof"), [(0.0, 3), (1.0, 3), (0.95, 0)])
def test_invalid_levels_and_degrees_of_freedom_are_rejected(level: float, dof: int) -> None:
    with pytest.raises(ValueError, match="expected a level between 0 and 1"):
        student_t(level, dof)


def test_an_interval_worked_out_by_hand() -> None:
    """Ten values with mean 5.5, s² = 82.5/9: 2.2622 x sqrt(9.1667/10) on both sides."""
    found = estimate(range(1, 11))
    assert found is not None
    assert (found.n, found.mean) == (10, 5.5)
    assert (round(found.low, 3), round(found.high, 3)) == (3.334, 7.666)


def test_one_value_has_no_interval_and_no_values_have_no_mean() -> None:
    assert estimate([]) is None
    one = estimate([7.0])
    assert one == Estimate(1, 7.0, None)
    assert one is not None
    assert (one.low, one.high) == (7.0, 7.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.floats(0.001, 1000), st.floats(-1e6, 1e6))
def test_intervals_scale_and_shift_with_the_values(values: list[float], factor: float, shift: float) -> None:
    found, moved = estimate(values), estimate([factor * value + shift for value in values])
    assert found is not None
    assert moved is not None
    assert moved.mean == pytest.approx(factor * found.mean + shift, rel=1e-6, abs=1e-3)
    assert moved.half == pytest.approx(factor * (found.half or 0), rel=1e-6, abs=1e-2)
    wider = estimate(values, 0.99)
    assert wider is not None
    assert wider.half is not None
    assert found.half is not None
    assert wider.half >= found.half


def test_the_confidence_level_is_defined_in_one_place() -> None:
    """Every text with an interval uses this constant: a copy would be wrong after a change."""
    assert f"{100 * LEVEL:g} %" == LEVEL_TEXT
    own = [path.name for path in (ROOT / "pybatsched").rglob("*.py") if f"{LEVEL_TEXT} " in path.read_text()]
    assert own == []
    for place in ("report/campaign/page.py", "report/campaign_charts.py"):
        assert "{LEVEL_TEXT}" in (ROOT / "pybatsched" / place).read_text()
