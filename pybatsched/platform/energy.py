"""What hosts draw and how they sleep: the properties that Batsim's and SimGrid's energy models read."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wattage:
    """The power a host draws in one pstate, in watts: doing nothing, barely at work, and with all cores at work."""

    idle: float
    epsilon: float
    full: float


@dataclass(frozen=True, slots=True)
class SleepPstate:
    """A pstate to sleep in, with the pstates that stand for the way down and the way up.

    The speed v of these two says how long the way is: 1/v seconds.
    """

    sleep: int
    switch_off: int
    switch_on: int


def _watts(text: str) -> float:
    value = float(text) if text.strip() and "_" not in text else math.nan
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


@functools.lru_cache(maxsize=1024)
def wattages(text: str, n_pstates: int) -> tuple[Wattage, ...]:
    """Read ``idle:epsilon:full,…``, one for each pstate; ``idle:full`` has epsilon = idle, as SimGrid does it.

    Raises ValueError that says what was expected.
    """
    parts = text.split(",")
    if len(parts) != n_pstates:
        raise ValueError(f"one idle:epsilon:full for each of {n_pstates} pstates, got {len(parts)}: {text!r:.80}")
    found = []
    for pstate, part in enumerate(parts):
        try:
            values = [_watts(value) for value in part.split(":")]
        except ValueError:
            values = []
        if len(values) not in {2, 3}:
            raise ValueError(f"idle:epsilon:full in watts for pstate {pstate}, got {part!r:.80}")
        found.append(Wattage(values[0], values[0] if len(values) == 2 else values[1], values[-1]))
    return tuple(found)


def wattage_off(text: str) -> float:
    """Read what a host draws that is off. Raises ValueError that says what was expected."""
    try:
        return _watts(text)
    except ValueError:
        raise ValueError(f"a power in watts, got {text!r:.80}") from None


@functools.lru_cache(maxsize=1024)
def sleep_pstates(text: str, n_pstates: int) -> tuple[SleepPstate, ...]:
    """Read ``sleep:switch_off:switch_on,…``. A pstate either sleeps, is on a way or computes, never two of these.

    Two sleep pstates may share their ways. Raises ValueError that says what was expected.
    """
    found: list[SleepPstate] = []
    for part in text.split(","):
        numbers = [word.strip() for word in part.split(":")]
        if len(numbers) != 3 or not all(number.isascii() and number.isdigit() for number in numbers):
            raise ValueError(f"the three pstates sleep:switch_off:switch_on, got {part!r:.80}")
        if any(len(number.lstrip("0")) > 9 or int(number) >= n_pstates for number in numbers):
            raise ValueError(f"pstates below {n_pstates}, the number of speeds, got {part!r:.80}")
        found.append(SleepPstate(*map(int, numbers)))
    asleep = [pstate.sleep for pstate in found]
    on_the_way = {pstate.switch_off for pstate in found} | {pstate.switch_on for pstate in found}
    for pstate in asleep:
        if pstate in on_the_way or asleep.count(pstate) > 1:
            raise ValueError(f"each pstate in one part only (sleeping, or on a way), got pstate {pstate} twice")
    return tuple(found)
