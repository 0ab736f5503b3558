"""Numbers with six decimals: the C functions equal the plain functions to the last bit and character."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from support.built import built_part
from support.examples import examples

from pybatsched.core.instants import on_tick, on_tick_in_python
from pybatsched.simulator.outputs.files import JOB_COLUMNS, job_row, plain_job_row, rejected_row


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Build it from this checkout."""
    return built_part("pybatsched.core._fixed6", tmp_path_factory)


ticks = st.integers(-(10**16), 10**16).map(lambda n: n / 1e6)
between = st.builds(lambda n, k: (2 * n + 1) / 2e6 + k * math.ulp(n / 1e6), st.integers(0, 10**15), st.integers(-3, 3))
binary = st.builds(lambda n, k: n / 2.0**k, st.integers(-(10**9), 10**9), st.integers(0, 40))
seconds = ticks | between | binary | st.floats(allow_nan=False, allow_infinity=False, width=64)


@examples(3000)
@given(seconds)
@example(0.0000005)
@example(-0.0000005)
@example(2.5e-7)
@example(-1e-9)
@example(-0.0)
@example(999_999_999.9999999)
@example(1e9)
@example(1e300)
def test_a_number_comes_to_the_same_tick(compiled: Any, x: float) -> None:
    assert struct.pack("d", compiled.on_tick(x)) == struct.pack("d", on_tick_in_python(x))


@examples(3000)
@given(seconds | st.sampled_from([math.inf, -math.inf, math.nan]))
def test_a_number_is_written_in_the_same_letters(compiled: Any, x: float) -> None:
    assert compiled.row(x) == f"{x:.6f}\n"


def test_infinities_nan_and_texts_are_handled_as_by_round(compiled: Any) -> None:
    assert compiled.on_tick(3) == 3.0
    assert compiled.on_tick(math.inf) == math.inf
    assert math.isnan(compiled.on_tick(math.nan))
    with pytest.raises(TypeError):
        compiled.on_tick("3")


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just("x" * 3000)


columns = st.tuples(
    *[text] * 3,
    seconds,
    st.integers(0, 10**6),
    seconds,
    st.sampled_from("01"),
    text,
    *[seconds] * 6,
    text,
    seconds,
    text,
)


@examples(500)
@given(columns)
def test_a_row_is_the_same_text(compiled: Any, values: tuple[Any, ...]) -> None:
    assert len(values) == len(JOB_COLUMNS)
    assert compiled.row(*values) == plain_job_row(*values)


def test_a_value_that_cannot_be_written_is_an_error_and_no_crash(compiled: Any) -> None:
    class Mute:
        def __str__(self) -> str:
            raise LookupError("nothing to say")

    with pytest.raises(LookupError, match="nothing to say"):
        compiled.row("x" * 3000, Mute())
    with pytest.raises(UnicodeEncodeError):
        compiled.row("x" * 3000, "\ud800")


def test_the_row_of_a_rejected_job_has_as_many_columns() -> None:
    row = rejected_row("1", "w0", "p", 0.5, 4, -1.0, "0", "REJECTED", '""')
    assert row == '1,w0,p,0.500000,4,-1.000000,0,REJECTED,,,,,,,,,""\n'
    assert row.count(",") + 1 == len(JOB_COLUMNS)


def test_the_installed_functions_equal_the_plain_ones() -> None:
    assert on_tick(0.1234567) == 0.123457
    values = ("1", "w0", "p", 0.5, 4, -1.0, "1", "OK", 1.0, 2.0, 3.0, 0.5, 2.5, 1.25, "0-3", -1.0, '""')
    assert job_row(*values) == plain_job_row(*values)
