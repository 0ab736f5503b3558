"""The two times a scheduler lives by: the estimate it plans with and the walltime that is enforced.

| rule | estimate | walltime |
|---|---|---|
| `exact` | run time | run time + 1 |
| `requested` | what the user asked for | the same; run time + 1 where the job ran as long as that or longer |
| `requested-strict` | what the user asked for | the same, so that the simulator kills a job that ran longer |
| `factor:F` | F times the run time | the same, at least run time + 1 |
| `round` | run time, rounded up as people do | the same, at least run time + 1 |
| `none` | none | none |

A walltime that only has to let a job end is one second more than its run time, because Batsim counts a delay equal to
its walltime as one that reached it.
"""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pybatsched.errors import InputError

RULES: Final = ("exact", "requested", "requested-strict", "factor:F", "round", "none")

OVERRAN: Final = "ran at least as long as requested: walltime is the run time + 1, the request stays as the estimate"
OVERRAN_STRICT: Final = "ran at least as long as requested: will be killed at its walltime"
UNREQUESTED: Final = "no requested time: estimate is the run time, walltime the run time + 1"
UNREQUESTED_STRICT: Final = "no requested time: no walltime"

#: What people ask for: some minutes, half hours, hours, then days.
_CUSTOMARY_S: Final = (
    *(60 * minutes for minutes in (1, 5, 10, 15, 20, 30, 45)),
    *(3600 * hours for hours in (1, 1.5, 2, 3, 4, 6, 8, 10, 12, 15, 18, 20, 24, 30, 36, 48, 60, 72)),
)
_DAY_S: Final = 86_400
_MOST: Final = 1e6
_EXACT: Final = 1 << 53  # beyond this, floating point has holes between whole numbers


def plain(value: float) -> int | float:
    """Give a whole number as one, and any other number as it is: 60.0 is written 60."""
    return int(value) if abs(value) < _EXACT and value == int(value) else value


def plains(values: Sequence[float]) -> list[int | float]:
    """Give the plain form of each value; the usual case, whole numbers only, at once. O(n)."""
    if values and min(values) > -_EXACT and max(values) < _EXACT and all(map(float.is_integer, values)):
        return list(map(int, values))
    return list(map(plain, values))


def tidy(seconds: float) -> int | float:
    """Give a time we computed as it is written to files: on Batsim's tick of six decimals."""
    return plain(round(seconds, 6))


class Times(NamedTuple):
    """Walltime and estimate of one job (None: leave the member out), and the rule that had to change something."""

    walltime_s: int | float | None
    estimate_s: int | float | None
    changed: str | None = None


@dataclass(frozen=True, slots=True)
class Walltimes:
    """One of the rules above. `Walltimes.parse("factor:2")` reads it from the user."""

    rule: str = "requested"
    factor: float = 1.0  # that of `exact` is 1

    @classmethod
    def parse(cls, text: str) -> Walltimes:
        """Read a rule. Raises InputError that lists the known ones."""
        name, colon, value = text.partition(":")
        if name == "factor" and colon:
            try:
                factor = float(value)
            except ValueError:
                factor = math.nan
            if not 0 < factor <= _MOST:
                raise InputError(
                    f"walltimes {text}: expected a factor above 0, at most {_MOST:g}, found {value or 'none'}"
                )
            return cls("factor", factor)
        if colon or text not in RULES or text == "factor:F":
            raise InputError(f"walltimes: expected one of {', '.join(RULES)}, found {text}")
        return cls(text)

    def __str__(self) -> str:
        return f"factor:{self.factor:g}" if self.rule == "factor" else self.rule

    def of(self, run_s: float, requested_s: float | None) -> Times:
        """Give the times of a job that ran so long and had asked for so much. O(1)."""
        if self.rule == "none":
            return Times(None, None)
        if self.rule in {"requested", "requested-strict"}:
            return self._as_requested(run_s, requested_s)
        estimate_s = min(run_s * self.factor, sys.float_info.max) if self.rule != "round" else rounded_up(run_s)
        if estimate_s > run_s + 1:
            return Times(tidy(estimate_s), None)  # the estimate is the walltime where there is none
        return Times(tidy(run_s + 1), tidy(max(estimate_s, 1e-6)))

    def _as_requested(self, run_s: float, requested_s: float | None) -> Times:
        strict = self.rule == "requested-strict"
        if requested_s is None:
            return (
                Times(None, None, UNREQUESTED_STRICT) if strict else Times(tidy(run_s + 1), plain(run_s), UNREQUESTED)
            )
        if requested_s > run_s:
            return Times(plain(requested_s), None)
        if strict:
            return Times(plain(requested_s), None, OVERRAN_STRICT)
        return Times(tidy(run_s + 1), plain(requested_s), OVERRAN)


def rounded_up(run_s: float) -> float:
    """Give the least customary request that is longer than a run time; from three days on, whole days."""
    position = bisect.bisect_right(_CUSTOMARY_S, run_s)
    return _CUSTOMARY_S[position] if position < len(_CUSTOMARY_S) else (run_s // _DAY_S + 1) * _DAY_S
