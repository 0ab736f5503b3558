"""The power and sleep pstates of hosts: the properties that the energy models of Batsim and SimGrid read."""

from __future__ import annotations

import functools
import math

import msgspec


class Wattage(msgspec.Struct, frozen=True):
    """The power of a host in one pstate, in watts: idle, with a load close to 0, and with all cores busy."""

    idle: float
    epsilon: float
    full: float


class SleepPstate(msgspec.Struct, frozen=True):
    """A sleep pstate and the virtual pstates of switching off and on; a switch takes 1 / their speed seconds."""

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
    """Read ``idle:epsilon:full,…``, for each pstate; in ``idle:full``, epsilon is idle. Raises ValueError."""
    parts = text.split(",")
    if len(parts) != n_pstates:
        raise ValueError(f"one idle:epsilon:full for each of {n_pstates} pstates, found {len(parts)}: {text!r:.80}")
    found = []
    for pstate, part in enumerate(parts):
        try:
            values = [_watts(value) for value in part.split(":")]
        except ValueError:
            values = []
        if len(values) not in {2, 3}:
            raise ValueError(f"idle:epsilon:full in watts for pstate {pstate}, found {part!r:.80}")
        found.append(Wattage(values[0], values[0] if len(values) == 2 else values[1], values[-1]))
    return tuple(found)


def wattage_off(text: str) -> float:
    """Read the power of a host that is off. Raises ValueError with the expected value."""
    try:
        return _watts(text)
    except ValueError:
        raise ValueError(f"a power in watts, found {text!r:.80}") from None


@functools.lru_cache(maxsize=1024)
def sleep_pstates(text: str, n_pstates: int) -> tuple[SleepPstate, ...]:
    """Read ``sleep:switch_off:switch_on,…``. Sleep pstates may share the switching pstates. Raises ValueError."""
    found: list[SleepPstate] = []
    for part in text.split(","):
        numbers = [word.strip() for word in part.split(":")]
        if len(numbers) != 3 or not all(number.isascii() and number.isdigit() for number in numbers):
            raise ValueError(f"the three pstates sleep:switch_off:switch_on, found {part!r:.80}")
        if any(len(number.lstrip("0")) > 9 or int(number) >= n_pstates for number in numbers):
            raise ValueError(f"pstates below {n_pstates}, the number of speeds, found {part!r:.80}")
        found.append(SleepPstate(*map(int, numbers)))
    asleep = [pstate.sleep for pstate in found]
    switching = {pstate.switch_off for pstate in found} | {pstate.switch_on for pstate in found}
    for pstate in asleep:
        if pstate in switching or asleep.count(pstate) > 1:
            raise ValueError(f"each pstate in one part only (sleeping or switching), found pstate {pstate} twice")
    return tuple(found)
