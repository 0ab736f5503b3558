"""Axes of time: in which unit, and where the ticks are. Nothing is drawn."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0


class Unit(NamedTuple):
    """A unit of time. `steps` are the distances of ticks that people like in it, besides 1, 2 and 5 of powers."""

    name: str
    seconds: float
    steps: tuple[float, ...]


_UNITS: Final = (
    Unit("days", DAY_S, (0.25, 0.5, 1, 2, 5)),
    Unit("hours", HOUR_S, (0.25, 0.5, 1, 2, 3, 6, 12, 24)),
    Unit("minutes", MINUTE_S, (0.25, 0.5, 1, 2, 5, 10, 15, 30)),
    Unit("s", 1.0, (1, 2, 5, 10, 15, 30)),
)
_ROUND: Final = tuple(float(f"{digit}e{power}") for power in range(-6, 7) for digit in (1, 2, 5))
#: Spans of time that people like, for means over them.
_SPANS_S: Final = (
    *(n * MINUTE_S for n in (1, 5, 10, 15, 30)),
    *(n * HOUR_S for n in (1, 2, 3, 6, 12)),
    *(n * DAY_S for n in (1, 2, 5, 7, 14, 28)),
)


def told(span_s: float) -> str:
    """Write a length of time in three digits, or whole days.

    >>> told(604800), told(9010.5), told(90), told(86400000)
    ('7 d', '2.5 h', '1.5 min', '1,000 d')
    """
    for unit_s, name in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if span_s >= unit_s:
            amount = span_s / unit_s
            return f"{amount:,.0f} {name}" if amount >= 100 else f"{amount:.3g} {name}"
    return f"{span_s:.3g} s"


def _marked(*spans_s: float) -> tuple[tuple[float, str], ...]:
    return tuple((span_s, told(span_s)) for span_s in spans_s)


#: What an axis of durations by powers of ten has ticks at, and where just a few of them are on it.
MARKS: Final = _marked(1.0, 10.0, MINUTE_S, 10 * MINUTE_S, HOUR_S, *(n * DAY_S for n in (1, 10, 100, 1000)))
_FINE_MARKS: Final = _marked(
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0),
    *(n * MINUTE_S for n in (1, 2, 5, 10, 20, 30)),
    *(n * HOUR_S for n in (1, 2, 4, 8)),
    *(n * DAY_S for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)


def unit_of(span_s: float) -> Unit:
    """Give the unit in which a span of time is told: the largest of which there are at least two.

    >>> [unit_of(span_s).name for span_s in (1e7, 172_800, 172_799, 7200, 7199, 119)]
    ['days', 'days', 'hours', 'hours', 'minutes', 's']
    """
    return next((unit for unit in _UNITS if span_s >= 2 * unit.seconds), _UNITS[-1])


def ticks(begin_s: float, end_s: float, n_most: int = 10) -> list[float]:
    """Give instants in equal steps that are round in the unit of the span, as many as fit but not more than that.

    >>> [tick / 86400 for tick in ticks(-1e4, 8 * 86400)], [tick / 3600 for tick in ticks(0, 86400)]
    ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [0.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0, 24.0])
    """
    span_s = end_s - begin_s
    unit = unit_of(span_s)
    step = _step(span_s / unit.seconds, unit.steps, n_most) * unit.seconds
    return [k * step for k in range(math.ceil(begin_s / step), math.floor(end_s / step) + 1)]


def _step(span: float, liked: tuple[float, ...], n_most: int) -> float:
    """Give the smallest step that people like of which a span has less than so many."""
    shorter, longer = (one for one in _ROUND if one < liked[0]), (one for one in _ROUND if one > liked[-1])
    return next((one for one in (*shorter, *liked, *longer) if span < n_most * one), _ROUND[-1])


def marks(low_s: float, high_s: float) -> list[tuple[float, str]]:
    """Give ticks for an axis of durations by powers of ten, with their labels; finer ones where it is short.

    >>> marks(1, 5000)
    [(1.0, '1 s'), (10.0, '10 s'), (60.0, '1 min'), (600.0, '10 min'), (3600.0, '1 h')]
    >>> marks(1000, 20_000)
    [(1200.0, '20 min'), (1800.0, '30 min'), (3600.0, '1 h'), (7200.0, '2 h'), (14400.0, '4 h')]
    """
    coarse = [mark for mark in MARKS if low_s <= mark[0] <= high_s]
    return coarse if len(coarse) > 2 else [mark for mark in _FINE_MARKS if low_s <= mark[0] <= high_s]


def labelled(begin_s: float, end_s: float) -> tuple[list[tuple[float, str]], str]:
    """Give the ticks of an axis of time with their labels, and the unit that these are in."""
    unit = unit_of(end_s - begin_s)
    return [(at, f"{at / unit.seconds:,.10g}") for at in ticks(begin_s, end_s)], unit.name


def span_for(total_s: float, n_most: int) -> float:
    """Give the shortest span of time that people like of which there are at most so many in all.

    >>> [told(span_for(total_s, 400)) for total_s in (730 * 86400, 3600, 1e10)], span_for(math.inf, 400)
    (['2 d', '1 min', '308 d'], inf)
    """
    wanted_s = total_s / n_most
    longest = _SPANS_S[-1]
    if wanted_s > longest:
        return math.ceil(wanted_s / longest) * longest if math.isfinite(wanted_s) else wanted_s
    return next(span_s for span_s in _SPANS_S if span_s * n_most >= total_s)
