"""When slurmctld schedules and checks time limits: a main loop with ticks, and backfill, each with its own phase."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final

from pybatsched import HALF_TICK

if TYPE_CHECKING:
    from pybatsched import slurm_conf as sc

#: The measured time from one tick of the main loop to the next.
TICK_S: Final = 1.002
#: Backfill looks again after this time if nothing has changed since its last run.
_LOOK_AGAIN_S: Final = 1.0
#: Between checks of time limits, in whole seconds.
_LIMITS_EVERY_S: Final = 30
#: A job is killed at most this long after its time limit: a period of checks, and the rest of a tick.
LATEST_KILL_S: Final = _LIMITS_EVERY_S + 2


class Clocks:
    """When the next passes are due, with phases that depend on a seed. Times are seconds of the simulation."""

    def __init__(self, options: sc.Scheduling, seed: int, begin: float) -> None:
        phases = random.Random(seed)  # noqa: S311  not for secrets
        self._options = options
        self._first_tick = begin - round(TICK_S * phases.random(), 6)
        #: Between passes over the whole queue; infinite for none.
        self._interval_s = max(options.sched_interval_s, 1)
        phase = phases.random()
        self._last_full = begin - (round(self._interval_s * phase, 6) if self._interval_s < math.inf else 0)
        self._last_run = -math.inf  # at a tick
        self._asked_at = math.inf  # since when a main pass is requested
        self._changed_full_at = begin  # since when a pass over the whole queue has something to do
        self._at_once = math.inf
        self._next_backfill = begin + round(options.bf_interval_s * phases.random(), 6)
        self._changed_at: float | None = begin
        self._first_check_at = math.floor(begin) - phases.randrange(_LIMITS_EVERY_S)

    def skip(self, now: float) -> None:
        """Record the passes that were due before a time, with nothing to do."""
        while self.next_main() < now - HALF_TICK:
            self.main_ran(self.next_main())
        if self.next_backfill() < now - HALF_TICK:
            self.backfill_ran(self.next_backfill())

    def ask(self, now: float) -> None:
        """Request a main pass, because of a submission, an end or another change; backfill has something to do, too."""
        self._asked_at = min(self._asked_at, now)
        self.change(now)

    def change(self, now: float) -> None:
        """Let the next pass over the whole queue and the next backfill run: something has changed."""
        if self._changed_full_at == math.inf and self._interval_s < math.inf:
            period_s = math.ceil(self._interval_s / TICK_S) * TICK_S
            n = (now - self._last_full) // period_s  # passes with nothing to do
            if n:
                self._last_full += n * period_s
                self._last_run = max(self._last_run, self._last_full)
            self._changed_full_at = now
        if self._changed_at is None:
            self._changed_at = now

    def ask_at_once(self, at: float) -> None:
        """Request a main pass outside the ticks, as the end of an epilog does."""
        self._at_once = min(self._at_once, at)

    def next_main(self) -> float:
        """Return when the next main pass is due."""
        return min(self._next_at_tick(), self._at_once)

    def _next_at_tick(self) -> float:
        """Return the first tick at which a pass is due: slurmctld compares whole seconds."""
        options, second = self._options, math.floor
        of_full = max(self._changed_full_at, second(self._last_full) + self._interval_s)
        after = -math.inf if self._last_run == -math.inf else second(self._last_run) + options.batch_sched_delay_s
        at = min(of_full, max(self._asked_at, after))
        if at == math.inf:
            return at
        return self._tick(at)

    def _tick(self, at: float) -> float:
        """Return the first tick that is not before a time."""
        return self._first_tick + max(math.ceil((at - self._first_tick) / TICK_S), 0) * TICK_S

    def limit_check(self, at: float) -> float:
        """Return the first check of time limits that is not before a whole second: a tick after each 30 s."""
        n = math.ceil((at - self._first_check_at) / _LIMITS_EVERY_S)
        return self._tick(self._first_check_at + n * _LIMITS_EVERY_S)

    def main_ran(self, now: float) -> bool:
        """Record a main pass, and return whether it looks at the full queue."""
        if self._at_once <= now + HALF_TICK:
            self._at_once = math.inf
        if self._next_at_tick() > now + HALF_TICK:
            return False
        self._last_run, self._asked_at = now, math.inf
        is_full = math.floor(now) - math.floor(self._last_full) >= self._interval_s
        if is_full:
            self._last_full, self._changed_full_at = now, math.inf
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
