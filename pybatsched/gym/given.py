"""What an environment was given: numbers that are numbers, told by their names."""

from __future__ import annotations

import math
import operator
from typing import Any

from pybatsched.errors import InputError


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Give a whole number of any kind, numpy's too. Raises InputError that names the option."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or number < low or (high is not None and number > high):
        upto = "" if high is None else f" to {high:,}"
        raise InputError(f"{name}: expected a whole number from {low}{upto}, found {value!r:.60}")
    return number


def seconds(name: str, value: Any, *, above: bool) -> float:
    """Give a span of time, at least 0, or `above` it and perhaps for ever. Raises InputError that names the option."""
    try:
        span_s = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        span_s = math.nan
    if not (span_s > 0 if above else 0 <= span_s < math.inf):
        expected = "seconds above 0" if above else "seconds, 0 or more"
        raise InputError(f"{name}: expected {expected}, found {value!r:.60}")
    return span_s
