"""Times as Batsim tells them.

Batsim writes times with six decimals. Two instants closer than that are one to us, and every instant we compute is
rounded once to that tick, so that equal times are equal numbers and plans need no tolerances.
"""

from __future__ import annotations

import math
from typing import Final

TICK: Final = 1e-6
HALF_TICK: Final = 5e-7


def instant(start_at: float, span_s: float) -> float:
    """Give the instant that lies a span after another one, on the tick."""
    return round(start_at + span_s, 6) if span_s != math.inf else math.inf
