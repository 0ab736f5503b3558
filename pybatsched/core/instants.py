"""Simulated times on Batsim's tick of a microsecond.

Batsim writes times with six decimals. Every computed time is rounded once to that tick, so that equal times are equal
numbers and plans need no tolerances.
"""

from __future__ import annotations

import math
import re
from typing import Final

#: The resolution of Batsim's times, in seconds.
TICK: Final = 1e-6
#: Half a tick. Batsim's clock may be this far from the time that it prints.
HALF_TICK: Final = 5e-7
#: Below this a product with a million is at most 0.01 from the exact one.
_SIMPLE: Final = 1e8
#: From here on a double does not distinguish single seconds.
_MAX_PLAIN: Final = 1e16


def on_tick(at: float) -> float:
    """Round a number of seconds to the tick.

    >>> on_tick(0.1234567)
    0.123457
    """
    if 0.0 < at < _SIMPLE:
        ticks = at * 1e6
        n = int(ticks + 0.5)
        if -0.48 < ticks - n < 0.48:
            return n / 1e6  # as `round`, in half of the time
    return round(at, 6)


def instant(start_at: float, span_s: float) -> float:
    """Return the time a span after a start, on the tick; infinity for an infinite span."""
    return on_tick(start_at + span_s) if span_s != math.inf else math.inf


#: What `span_of` reads, for errors.
A_SPAN: Final = "seconds, or a number with m, h, d or w as in 12h"
_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def span_of(text: str) -> float | None:
    """Read a span of time such as 86400, 90m, 12h, 3d or 2w in seconds; None if it is none.

    >>> span_of("90m"), span_of("1.5h"), span_of("-1"), span_of("1e999")
    (5400.0, 5400.0, None, None)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)([smhdw]?)", text.strip())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else math.inf
    return seconds if math.isfinite(seconds) else None


def seconds_text(at: float) -> str:
    """Return a time or a span as text, to the tick and without trailing zeros.

    >>> seconds_text(1000000000.25), seconds_text(8.0), seconds_text(0.1234567), seconds_text(1e300)
    ('1000000000.25', '8', '0.123457', '1e+300')
    """
    return f"{at:.6f}".rstrip("0").rstrip(".") if abs(at) < _MAX_PLAIN else f"{at:g}"
