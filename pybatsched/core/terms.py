"""What a job is to do and how long that may take, and the shapes in which it may do it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pybatsched.core.decisions import Reason
from pybatsched.core.instants import TICK


class Terms(NamedTuple):
    """What a job is to do, and how long that may take."""

    profile_name: str
    profile: Mapping[str, Any] | None
    walltime: float | None
    estimate: float | None


class Load(NamedTuple):
    """Seconds at the beginning of a segment that are no work, and what the segment would be without them."""

    seconds: float
    own: Terms


class Shape(NamedTuple):
    """The size a job is to have, what its times are multiplied with, and why."""

    n: int
    scale: float
    reason: Reason = ""


class Work(NamedTuple):
    """Terms, and the scale that their times are at: what other shapes are counted from, however often."""

    terms: Terms
    scale: float = 1.0

    def span_at(self, span_s: float, scale: float) -> float:
        """Give a span of these terms at another scale, on Batsim's tick and never nothing.

        At their own scale it is as it is.

        >>> Work(Terms("d", None, 90.0, 90.0)).span_at(90.0, 1 / 7)
        12.857143
        """
        if scale == self.scale:
            return span_s
        return max(round(span_s * (scale / self.scale), 6), TICK)

    def at(self, scale: float) -> Terms:
        """Give the terms at another scale; their profile must be a delay, unless it is their own scale. O(1).

        A delay that would end before its walltime still does, even if both are rounded to the same tick.
        """
        if scale == self.scale:
            return self.terms
        name, profile, walltime, estimate = self.terms
        assert profile is not None
        delay_s = profile["delay"]
        scaled_s = self.span_at(delay_s, scale)
        if walltime is not None:
            ends_by_itself = delay_s < walltime
            walltime = self.span_at(walltime, scale)
            if ends_by_itself and walltime <= scaled_s:
                walltime = round(scaled_s + TICK, 6)
        if estimate is not None:
            estimate = self.span_at(estimate, scale)
        return Terms(name, {**profile, "delay": scaled_s}, walltime, estimate)
