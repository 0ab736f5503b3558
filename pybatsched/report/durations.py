"""Choose units, ticks and labels of time axes. This module draws nothing."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0


class TimeUnit(NamedTuple):
    """A unit of time. `steps` are usual distances of ticks in it, in addition to 1, 2 and 5 times powers of ten."""

    name: str
    seconds: float
    steps: tuple[float, ...]


_UNITS: Final = (
    TimeUnit("days", DAY_S, (0.25, 0.5, 1, 2, 5)),
    TimeUnit("hours", HOUR_S, (0.25, 0.5, 1, 2, 3, 6, 12, 24)),
    TimeUnit("minutes", MINUTE_S, (0.25, 0.5, 1, 2, 5, 10, 15, 30)),
    TimeUnit("s", 1.0, (1, 2, 5, 10, 15, 30)),
)
_ROUND: Final = tuple(float(f"{digit}e{power}") for power in range(-6, 7) for digit in (1, 2, 5))
#: Round spans of time, for means over them.
_SPANS_S: Final = (
    *(n * MINUTE_S for n in (1, 5, 10, 15, 30)),
    *(n * HOUR_S for n in (1, 2, 3, 6, 12)),
    *(n * DAY_S for n in (1, 2, 5, 7, 14, 28)),
)


def duration_text(span_s: float) -> str:
    """Return a length of time as text with three digits, or whole days.

    >>> duration_text(604800), duration_text(9010.5), duration_text(90), duration_text(86400000)
    ('7 d', '2.5 h', '1.5 min', '1,000 d')
    """
    for unit_s, name in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if span_s >= unit_s:
            amount = span_s / unit_s
            return f"{amount:,.0f} {name}" if amount >= 100 else f"{amount:.3g} {name}"
    return f"{span_s:.3g} s"


def span_text(begin_s: float | None, end_s: float | None) -> str:
    """Return the limits of a span of time as text; empty if there are none.

    >>> span_text(7200, None), span_text(None, None)
    ('from 2 h', '')
    """
    limits = (("from", begin_s), ("to", end_s))
    return " ".join(f"{word} {duration_text(at)}" for word, at in limits if at is not None)


def _marked(*spans_s: float) -> tuple[tuple[float, str], ...]:
    return tuple((span_s, duration_text(span_s)) for span_s in spans_s)


#: Ticks of a logarithmic axis of durations, and finer ones for a short axis.
MARKS: Final = _marked(1.0, 10.0, MINUTE_S, 10 * MINUTE_S, HOUR_S, 6 * HOUR_S, *(n * DAY_S for n in (1, 10, 100, 1000)))
_FINE_MARKS: Final = _marked(
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0),
    *(n * MINUTE_S for n in (1, 2, 5, 10, 20, 30)),
    *(n * HOUR_S for n in (1, 2, 4, 8)),
    *(n * DAY_S for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)


def unit_of(span_s: float) -> TimeUnit:
    """Return the unit for a span of time: the largest unit that fits at least twice.

    >>> [unit_of(span_s).name for span_s in (1e7, 172_800, 172_799, 7200, 7199, 119)]
    ['days', 'days', 'hours', 'hours', 'minutes', 's']
    """
    return next((unit for unit in _UNITS if span_s >= 2 * unit.seconds), _UNITS[-1])


def ticks(begin_s: float, end_s: float, n_max: int = 10) -> list[float]:
    """Return at most `n_max` instants in equal steps that are round in the unit of the span.

    >>> [tick / 86400 for tick in ticks(-1e4, 8 * 86400)], [tick / 3600 for tick in ticks(0, 86400)]
    ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [0.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0, 24.0])
    """
    span_s = end_s - begin_s
    unit = unit_of(span_s)
    step = _step(span_s / unit.seconds, unit.steps, n_max) * unit.seconds
    return [k * step for k in range(math.ceil(begin_s / step), math.floor(end_s / step) + 1)]


def _step(span: float, usual: tuple[float, ...], n_max: int) -> float:
    """Return the smallest usual step such that a span has fewer than `n_max` of them."""
    shorter, longer = (one for one in _ROUND if one < usual[0]), (one for one in _ROUND if one > usual[-1])
    return next((one for one in (*shorter, *usual, *longer) if span < n_max * one), _ROUND[-1])


def marks(low_s: float, high_s: float) -> list[tuple[float, str]]:
    """Return ticks of a logarithmic axis of durations with their labels; finer ones for a short axis.

    >>> marks(1, 5000)
    [(1.0, '1 s'), (10.0, '10 s'), (60.0, '1 min'), (600.0, '10 min'), (3600.0, '1 h')]
    >>> marks(1000, 20_000)
    [(1200.0, '20 min'), (1800.0, '30 min'), (3600.0, '1 h'), (7200.0, '2 h'), (14400.0, '4 h')]
    """
    coarse = [mark for mark in MARKS if low_s <= mark[0] <= high_s]
    return coarse if len(coarse) > 2 else [mark for mark in _FINE_MARKS if low_s <= mark[0] <= high_s]


def labelled(begin_s: float, end_s: float, n_max: int = 10) -> tuple[list[tuple[float, str]], str]:
    """Return at most `n_max` + 1 ticks of a time axis with their labels, and the unit of the labels."""
    unit = unit_of(end_s - begin_s)
    return [(at, f"{at / unit.seconds:,.10g}") for at in ticks(begin_s, end_s, n_max)], unit.name


def span_for(total_s: float, n_max: int) -> float:
    """Return the shortest round span of time such that at most `n_max` of them cover the total.

    >>> [duration_text(span_for(total_s, 400)) for total_s in (730 * 86400, 3600, 1e10)], span_for(math.inf, 400)
    (['2 d', '1 min', '308 d'], inf)
    """
    wanted_s = total_s / n_max
    longest = _SPANS_S[-1]
    if wanted_s > longest:
        return math.ceil(wanted_s / longest) * longest if math.isfinite(wanted_s) else wanted_s
    return next(span_s for span_s in _SPANS_S if span_s * n_max >= total_s)
