"""Many values in a few numbers: mean, spread and percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

PERCENTILES: Final = (5, 25, 50, 75, 95, 99)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values in a few numbers. `std` is that of the values themselves (divided by n); `percentiles` are by per cent."""

    n: int
    total: float
    mean: float
    std: float
    minimum: float
    maximum: float
    percentiles: dict[int, float]

    @property
    def median(self) -> float:
        """Half of the values are below, half above."""
        return self.percentiles[50]

    def as_dict(self) -> dict[str, Any]:
        """Give the numbers by name, for tables and JSON."""
        own = {"n": self.n, "mean": self.mean, "std": self.std, "min": self.minimum}
        return own | {f"p{p}": value for p, value in self.percentiles.items()} | {"max": self.maximum}


def distribution(values: Iterable[float]) -> Distribution | None:
    """Describe values; None if there are none. O(n log n)."""
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
    """Give two numbers of a `distribution`, for those who need no others; None if there are no values. O(n)."""
    return (math.fsum(values) / len(values), max(values)) if values else (None, None)


def percentile(ordered: Sequence[float], p: float) -> float:
    """Give the value below which p per cent of ordered ones are, between two of them on the line that joins them.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 100)
    (2.5, 4.0)
    """
    place = (len(ordered) - 1) * p / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    below, above = ordered[low], ordered[high]
    return below + (above - below) * (place - low) if above > below else below
