"""Numbers of very many jobs at once, with Numpy, which comes with Bokeh: rounding, and what changes over time.

All of it has an obvious twin elsewhere that goes job by job, and gives the same to the last bit.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]

_TICKS: Final = 1e6  # a second


def on_tick(values: Numbers) -> Numbers:
    """Round each to six decimals, exactly as `round` does. O(n), some hundredth of its time."""
    with np.errstate(all="ignore"):  # what is beyond all bounds stays so
        ticks = values * _TICKS
        whole = np.rint(ticks)
        # A whole number of ticks over a million is the nearest there is to its decimals. Which whole number it is, the
        # product cannot tell near a half, where its last bit matters.
        is_sure = np.abs(ticks - whole) + np.spacing(np.abs(ticks)) < 0.5
        rounded: Numbers = whole / _TICKS
    for i in np.flatnonzero(~is_sure).tolist():
        rounded[i] = round(float(values[i]), 6)
    return rounded


def at_least(least: float, values: Numbers) -> Numbers:
    """Give each value, or the least where it is below, as ``max(value, least)`` does. O(n)."""
    return np.where(values < least, least, values)


class Stairs(NamedTuple):
    """What `metrics.series.Steps` is, as arrays: `values[i]` holds from `times[i]` on, up to `times[i + 1]`."""

    times: Numbers
    values: Numbers

    def integral(self, begin: float, end: float) -> float:
        """Give the area under the steps between two instants. O(n)."""
        spans = np.minimum(self._stops(), end) - np.maximum(self.times, begin)
        return math.fsum((self.values * spans)[spans > 0].tolist())

    def binned(self, edges: Numbers) -> Numbers:
        """Give the mean in each span between neighbouring edges, which go up. O((n + edges) log edges)."""
        lows, highs, stops = edges[:-1], edges[1:], self._stops()
        first = np.searchsorted(highs, self.times, side="right")  # the bin that each step begins in, or the first one
        n_bins = np.maximum(np.searchsorted(lows, stops, side="left") - first, 0)
        step = np.repeat(np.arange(len(self.times)), n_bins)
        place = np.arange(len(step)) - np.repeat(np.cumsum(n_bins) - n_bins - first, n_bins)
        spans = np.minimum(stops[step], highs[place]) - np.maximum(self.times[step], lows[place])
        # It adds up one after another, as a loop over the steps would; a sum by pairs would differ in the last bit.
        areas = np.bincount(place, self.values[step] * at_least(0.0, spans), len(lows))
        means: Numbers = areas / (highs - lows)
        return means

    def _stops(self) -> Numbers:
        return np.append(self.times[1:], math.inf) if len(self.times) else self.times


def stairs_of(times: Numbers, changes: Numbers) -> Stairs:
    """Make steps of changes by whole numbers, in any order; those of one instant are one. O(n log n)."""
    instants, which = np.unique(times, return_inverse=True)
    sums = np.bincount(which, changes, len(instants))
    is_step = sums != 0
    return Stairs(instants[is_step], np.cumsum(sums[is_step]))
