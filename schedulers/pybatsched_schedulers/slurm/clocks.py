"""When slurmctld schedules: a main loop with ticks, and backfill, each with its own phase."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybatsched import slurm_conf as sc

#: The measured time from one tick of the main loop to the next.
TICK_S: Final = 1.002
#: Backfill looks again after this time if nothing has changed since its last run.
_LOOK_AGAIN_S: Final = 1.0


class Clocks:
    """When the next passes are due, with phases that depend on a seed. Times are seconds of the simulation."""

    def __init__(self, options: sc.Scheduling, seed: int, begin: float) -> None:
        phases = random.Random(seed)  # noqa: S311  not for secrets
        self._options = options
        self._first_tick = begin - TICK_S * phases.random()
        self._last_full = begin - options.sched_interval_s * phases.random()
        self._last_run = -math.inf
        self._is_asked = False
        self._needs_full = True  # something has changed since the last pass over the whole queue
        self._at_once = math.inf
        self._next_backfill = begin + options.bf_interval_s * phases.random()
        self._changed_at: float | None = begin

    def ask(self, now: float) -> None:
        """Request a main pass, because of a submission, an end or another change; backfill has something to do, too."""
        self._is_asked = self._needs_full = True
        if self._changed_at is None:
            self._changed_at = now

    def ask_at_once(self, at: float) -> None:
        """Request a main pass outside the ticks, as the end of an epilog does."""
        self._at_once = min(self._at_once, at)

    def next_main(self) -> float:
        """Return when the next main pass is due."""
        at = self._last_full + self._options.sched_interval_s if self._needs_full else math.inf
        if self._is_asked:
            at = min(at, self._last_run + self._options.batch_sched_delay_s)
        return min(self._tick_from(at), self._at_once)

    def _tick_from(self, at: float) -> float:
        """Return the first tick in the second of a time or later: slurmctld compares whole seconds."""
        if at == math.inf:
            return at
        n = max(math.ceil((math.floor(at) - self._first_tick) / TICK_S), 0) if at > -math.inf else 0
        return self._first_tick + n * TICK_S

    def main_ran(self, now: float) -> bool:
        """Record a main pass, and return whether it looks at the full queue."""
        if now >= self._at_once:
            self._at_once = math.inf
            if now < self._tick_from(self._last_run + self._options.batch_sched_delay_s):
                return False
        self._last_run, self._is_asked = now, False
        is_full = math.floor(now) - math.floor(self._last_full) >= self._options.sched_interval_s
        if is_full:
            self._last_full, self._needs_full = now, False
        return is_full

    def next_backfill(self) -> float:
        """Return when backfill is due: infinite if nothing has changed since its last run."""
        if not self._options.has_backfill or self._changed_at is None:
            return math.inf
        late = self._changed_at - self._next_backfill
        return self._next_backfill + max(math.ceil(late / _LOOK_AGAIN_S), 0) * _LOOK_AGAIN_S

    def backfill_ran(self, now: float) -> None:
        """Record a run of backfill."""
        self._next_backfill, self._changed_at = now + self._options.bf_interval_s, None
