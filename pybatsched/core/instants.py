"""Times as Batsim tells them.

Batsim writes times with six decimals. Two instants closer than that are one to us, and every instant we compute is
rounded once to that tick, so that equal times are equal numbers and plans need no tolerances.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

TICK: Final = 1e-6
HALF_TICK: Final = 5e-7
#: From here on not even seconds are told apart.
_NO_SECONDS: Final = 1e16


def plainly_on_tick(at: float) -> float:
    """Round a number of seconds to the tick.

    >>> plainly_on_tick(0.1234567)
    0.123457
    """
    return round(at, 6)


if TYPE_CHECKING:
    on_tick = plainly_on_tick
else:
    try:
        from pybatsched.core._fixed6 import on_tick
    except ImportError:  # not built
        on_tick = plainly_on_tick


def instant(start_at: float, span_s: float) -> float:
    """Give the instant that lies a span after another one, on the tick."""
    return on_tick(start_at + span_s) if span_s != math.inf else math.inf


def seconds_text(at: float) -> str:
    """Write an instant, or a span, to the tick and without zeros behind the point: six digits tell nothing in 2001.

    >>> seconds_text(1000000000.25), seconds_text(8.0), seconds_text(0.1234567), seconds_text(1e300)
    ('1000000000.25', '8', '0.123457', '1e+300')
    """
    return f"{at:.6f}".rstrip("0").rstrip(".") if abs(at) < _NO_SECONDS else f"{at:g}"
