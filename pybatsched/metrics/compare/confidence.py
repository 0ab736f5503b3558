"""Compute means with a confidence interval, by Student's t."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

#: The confidence level.
LEVEL: Final = 0.95
#: The confidence level as text.
LEVEL_TEXT: Final = f"{100 * LEVEL:g} %"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of n independent values and half the width of its confidence interval, None for a single value.

    The interval is exact if the values are normally distributed. With few values it is wide, and it may include
    negative numbers even if no value can be negative.
    """

    n: int
    mean: float
    half: float | None

    @property
    def low(self) -> float:
        """The lower end of the interval; the mean if there is no interval."""
        return self.mean - (self.half or 0.0)

    @property
    def high(self) -> float:
        """The upper end of the interval; the mean if there is no interval."""
        return self.mean + (self.half or 0.0)


def estimate(values: Iterable[float], level: float = LEVEL) -> Estimate | None:
    """Return the mean and its interval, mean ± t s/√n with n - 1 degrees of freedom; None without values. O(n).

    >>> estimate([5.0, 5.0, 5.0]), estimate([7.0])
    (Estimate(n=3, mean=5.0, half=0.0), Estimate(n=1, mean=7.0, half=None))
    """
    found = list(values)
    n = len(found)
    if not n:
        return None
    mean = math.fsum(found) / n
    if n == 1:
        return Estimate(1, mean, None)
    variance = math.fsum([(value - mean) ** 2 for value in found]) / (n - 1)
    return Estimate(n, mean, student_t(level, n - 1) * math.sqrt(variance / n))


@lru_cache(maxsize=1024)
def student_t(level: float, dof: int) -> float:
    """Return the t such that a variable of Student's distribution is in [-t, t] with probability `level`.

    Bisects the angle 53 times. O(degrees of freedom).

    >>> round(student_t(0.95, 2), 4), round(student_t(0.95, 29), 4)
    (4.3027, 2.0452)
    """
    if not (0 < level < 1 and dof >= 1):
        raise ValueError(
            f"level {level}, {dof} degrees of freedom: expected a level between 0 and 1, and at least 1 degree"
        )
    low, high = 0.0, math.pi / 2
    for _ in range(53):
        middle = (low + high) / 2
        if _within(middle, dof) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(dof) * math.tan((low + high) / 2)


def _within(angle: float, dof: int) -> float:
    """Return the probability of [-t, t], where tan(angle) = t/√dof (Abramowitz and Stegun, 26.7.3-4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = dof % 2
    term = cosine if is_odd else 1.0
    terms = [term] if dof > 1 else []
    for k in range(2 if not is_odd else 3, dof - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        terms.append(term)
    total = sine * math.fsum(terms)
    return 2 / math.pi * (angle + total) if is_odd else total
