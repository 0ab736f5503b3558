"""Rules for estimates, which schedulers plan with, and walltimes, which the simulator enforces.

| rule | estimate | walltime |
|---|---|---|
| `exact` | run time | run time + 1 |
| `requested` | the requested time | the same; run time + 1 if the job ran as long as that or longer |
| `requested-strict` | the requested time | the same, so that the simulator kills a job that ran longer |
| `factor:F` | F times the run time | the same, at least run time + 1 |
| `round` | run time, rounded up to a usual request | the same, at least run time + 1 |
| `none` | none | none |

The walltime of a job that must not be killed is its run time + 1 s, because Batsim kills a job whose delay equals its
walltime.
"""

from __future__ import annotations

import bisect
import math
import sys
from typing import Final, NamedTuple

import msgspec

from pybatsched.errors import InputError

RULES: Final = ("exact", "requested", "requested-strict", "factor:F", "round", "none")

OVERRAN: Final = "ran at least as long as requested: walltime is the run time + 1, the request stays as the estimate"
OVERRAN_STRICT: Final = "ran at least as long as requested: will be killed at its walltime"
UNREQUESTED: Final = "no requested time: estimate is the run time, walltime the run time + 1"
UNREQUESTED_STRICT: Final = "no requested time: no walltime"

#: Usual requests: some minutes, half hours, hours, then days.
_USUAL_S: Final = (
    *(60 * minutes for minutes in (1, 5, 10, 15, 20, 30, 45)),
    *(3600 * hours for hours in (1, 1.5, 2, 3, 4, 6, 8, 10, 12, 15, 18, 20, 24, 30, 36, 48, 60, 72)),
)
_DAY_S: Final = 86_400
_MOST: Final = 1e6
_EXACT: Final = 1 << 53  # larger whole numbers are not all exact in floating point


def plain(value: float) -> int | float:
    """Return a float without a fraction as an integer: 60.0 is written 60."""
    return int(value) if abs(value) < _EXACT and value == int(value) else value


def tidy(seconds: float) -> int | float:
    """Round a computed time to six decimals, the precision of Batsim's files."""
    whole = int(seconds) if -_EXACT < seconds < _EXACT else None
    return whole if whole is not None and whole == seconds else plain(round(seconds, 6))  # most times are whole seconds


class Times(NamedTuple):
    """Walltime and estimate of one job (None: no such field), and the rule that changed them, if any."""

    walltime_s: int | float | None
    estimate_s: int | float | None
    changed: str | None = None


class Walltimes(msgspec.Struct, frozen=True):
    """One of the rules above. `Walltimes.parse("factor:2")` reads one from text."""

    rule: str = "requested"
    factor: float = 1.0  # 1 for `exact`

    @classmethod
    def parse(cls, text: str, option: str = "walltimes: ") -> Walltimes:
        """Read a rule. Raises InputError that lists the known ones and starts with the name of the `option`."""
        name, colon, value = text.partition(":")
        if name == "factor" and colon:
            try:
                factor = float(value)
            except ValueError:
                factor = math.nan
            if not 0 < factor <= _MOST:
                raise InputError(f"{option}expected a factor above 0, at most {_MOST:g}, found {text!r:.60}")
            return cls("factor", factor)
        if colon or text not in RULES or text == "factor:F":
            raise InputError(f"{option}expected one of {', '.join(RULES)}, found {text!r:.60}")
        return cls(text)

    def __str__(self) -> str:
        return f"factor:{self.factor:g}" if self.rule == "factor" else self.rule

    @property
    def is_by_request(self) -> bool:
        """Whether a request that is longer than the run time is the walltime, whatever the run time is."""
        return self.rule in {"requested", "requested-strict"}

    def of(self, run_s: float, requested_s: float | None) -> Times:
        """Return walltime and estimate of a job, given its run time and its requested time. O(1)."""
        if self.rule == "none":
            return Times(None, None)
        if self.is_by_request:
            return self._as_requested(run_s, requested_s)
        estimate_s = min(run_s * self.factor, sys.float_info.max) if self.rule != "round" else rounded_up(run_s)
        if estimate_s > run_s + 1:
            return Times(tidy(estimate_s), None)  # without an estimate, the walltime is the estimate
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
    """Return the smallest usual request that is longer than the run time; above three days, whole days."""
    position = bisect.bisect_right(_USUAL_S, run_s)
    return _USUAL_S[position] if position < len(_USUAL_S) else (run_s // _DAY_S + 1) * _DAY_S
