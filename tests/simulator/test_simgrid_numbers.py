"""Numbers as Batsim parses them: examples seen with Batsim, and invariants."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from pybatsched.simulator.simgrid.numbers import as_read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (9.500499999999999, 9.5005),  # a call at this time came at 9.50050000000000239 in Batsim, one bit later
        (0.1, 0.1),
        (-0.1, -0.1),
        (1e300, 1e300),
        (5e-324, 5e-324),
        (123456789012345.6, 123456789012345.6),
    ],
)
def test_examples(written: float, read: float) -> None:
    assert as_read(written) == read


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 15))
def test_numbers_of_up_to_15_digits_are_read_exactly(digits: int, n_decimals: int) -> None:
    value = digits / 10**n_decimals
    assert as_read(value) == value


@given(st.floats(1e-200, 1e200))
def test_others_differ_in_the_last_bits_only(value: float) -> None:
    assert abs(as_read(value) - value) <= 4 * math.ulp(value)
    assert as_read(-value) == -as_read(value)
