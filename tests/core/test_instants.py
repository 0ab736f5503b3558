"""Times on Batsim's tick."""

from __future__ import annotations

import math

from hypothesis import example, given, strategies as st
from support.examples import examples

from pybatsched.core.instants import on_tick

_TIMES = st.floats(allow_nan=False) | st.floats(0, 2e8)
_HALF_TICKS = st.integers(-(10**15), 10**15).map(lambda n: n / 2e6)  # nearest to half of a tick, where rounding is hard


@examples(2000)
@given(_TIMES | _HALF_TICKS, st.sampled_from([-math.inf, 0.0, math.inf]))
@example(0.0, 0.0)
@example(-0.0, 0.0)
@example(2.675e-6, 0.0)
@example(1e8, -math.inf)
def test_equals_round(at: float, towards: float) -> None:
    near = at if towards == 0.0 else math.nextafter(at, towards)
    assert math.isinf(near) or repr(on_tick(near)) == repr(round(near, 6))
