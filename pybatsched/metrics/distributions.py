"""Describe many values by a few statistics: mean, standard deviation and percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

PERCENTILES: Final = (5, 25, 50, 75, 95, 99)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Statistics of values. `std` is the population standard deviation (divided by n); keys of `percentiles` are p."""

    n: int
    total: float
    mean: float
    std: float
    minimum: float
    maximum: float
    percentiles: dict[int, float]

    @property
    def median(self) -> float:
        """The 50th percentile."""
        return self.percentiles[50]

    def as_dict(self) -> dict[str, Any]:
        """Return the statistics by name, for tables and JSON."""
        own = {"n": self.n, "mean": self.mean, "std": self.std, "min": self.minimum}
        return own | {f"p{p}": value for p, value in self.percentiles.items()} | {"max": self.maximum}


def distribution(values: Iterable[float]) -> Distribution | None:
    """Return statistics of the values; None if there are no values. O(n log n)."""
    ordered = sorted(values)
    n = len(ordered)
    if not n:
        return None
    total = math.fsum(ordered)
    mean = total / n
    variance = math.fsum([(value - mean) ** 2 for value in ordered]) / n
    shares = {p: percentile(ordered, p) for p in PERCENTILES}
    return Distribution(n, total, mean, math.sqrt(variance), ordered[0], ordered[-1], shares)


def mean_and_maximum(values: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """Return the mean and the maximum only, faster than `distribution`; None if there are no values. O(n)."""
    return (math.fsum(values) / len(values), max(values)) if values else (None, None)


def percentile(ordered: Sequence[float], p: float) -> float:
    """Return the percentile p of sorted values, by linear interpolation.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 100)
    (2.5, 4.0)
    """
    position = (len(ordered) - 1) * p / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    below, above = ordered[low], ordered[high]
    return below + (above - below) * (position - low) if above > below else below
