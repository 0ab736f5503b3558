"""Stop a policy that only keeps requesting calls: it would never finish.

An idle call is one that the policy requested and answers only with new requests for calls.
"""

from __future__ import annotations

from typing import ClassVar

from pybatsched.core.instants import TICK
from pybatsched.core.validator import Violation


class IdleCalls:
    """Counts the idle calls in a row."""

    #: A run is stopped after this many. An hourly call for a century is allowed.
    MAX: ClassVar[int] = 1_000_000
    #: The same for calls within `AT_ONCE_S` of each other. Batsim 4 sends the fastest ones 10 ticks apart.
    MAX_AT_ONCE: ClassVar[int] = 1_000
    AT_ONCE_S: ClassVar[float] = 15 * TICK

    def __init__(self) -> None:
        self.n = 0
        self._n_at_once = 0
        self._since = self._last_at = 0.0

    def add(self, now: float) -> None:
        """Count a call. The count is set back to 0 by everything else that happens (`n = 0`)."""
        if not self.n:
            self._since = now
        if not self.n or now > self._last_at + self.AT_ONCE_S:
            self._n_at_once = 0
        self.n += 1
        self._n_at_once += 1
        self._last_at = now

    def check(self) -> None:
        """Raise Violation if there are too many."""
        if self._n_at_once > self.MAX_AT_ONCE:
            text = (
                f"requested {self._n_at_once:,} calls in a row within 15 microseconds of each other, "
                f"the last at {self._last_at}"
            )
        elif self.n > self.MAX:
            text = f"requested {self.n:,} calls in a row, from {self._since} to {self._last_at}"
        else:
            return
        raise Violation("endless calls", f"{text}, and nothing else happened")
