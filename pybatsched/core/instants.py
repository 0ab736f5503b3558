"""Simulated times on Batsim's tick of a microsecond.

Batsim writes times with six decimals. Every computed time is rounded once to that tick, so that equal times are equal
numbers and plans need no tolerances.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

#: The resolution of Batsim's times, in seconds.
TICK: Final = 1e-6
#: Half a tick. Batsim's clock may be this far from the time that it prints.
HALF_TICK: Final = 5e-7
#: From here on a double does not distinguish single seconds.
_MAX_PLAIN: Final = 1e16


def on_tick_in_python(at: float) -> float:
    """Round a number of seconds to the tick.

    >>> on_tick_in_python(0.1234567)
    0.123457
    """
    return round(at, 6)


if TYPE_CHECKING:
    on_tick = on_tick_in_python
else:
    try:
        from pybatsched.core._fixed6 import on_tick
    except ImportError:  # not built
        on_tick = on_tick_in_python


def instant(start_at: float, span_s: float) -> float:
    """Return the time a span after a start, on the tick; infinity for an infinite span."""
    return on_tick(start_at + span_s) if span_s != math.inf else math.inf


def seconds_text(at: float) -> str:
    """Return a time or a span as text, to the tick and without trailing zeros.

    >>> seconds_text(1000000000.25), seconds_text(8.0), seconds_text(0.1234567), seconds_text(1e300)
    ('1000000000.25', '8', '0.123457', '1e+300')
    """
    return f"{at:.6f}".rstrip("0").rstrip(".") if abs(at) < _MAX_PLAIN else f"{at:g}"
