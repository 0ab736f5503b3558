"""Preemption for urgent jobs: victims, their order, and the preemption delay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from pybatsched import IntervalSet, Job
from pybatsched_schedulers.ujfb.options import Delay, VictimOrder
from pybatsched_schedulers.ujfb.swaps import SwapTimes


@dataclass(slots=True)
class Victim:
    """A regular job that is being stopped for an urgent job, with its processors."""

    job: Job
    procs: IntervalSet
    swap: SwapTimes
    is_stopped: bool = False


class Preemption(NamedTuple):
    """An urgent job and the jobs that are being stopped for it, in the order of their choice."""

    urgent: Job
    victims: list[Victim]

    def stopped(self) -> list[Victim]:
        """Return the victims that did not end before the kill."""
        return [victim for victim in self.victims if victim.is_stopped]


@dataclass(slots=True, frozen=True)
class Suspended:
    """A stopped job that waits for its processors. `by` is the urgent job that it was preempted for."""

    job: Job
    procs: IntervalSet
    swap_in_s: float
    by: str


class Booking(NamedTuple):
    """A number of processors that regular jobs must not use for some time."""

    n: int
    start_at: float
    end_at: float

    def left_at(self, now: float) -> Booking:
        """Return the rest of the booking from now on."""
        return self if self.start_at >= now else self._replace(start_at=now)

    def overlaps(self, other: Booking) -> bool:
        """Return whether this booking and another one overlap in time."""
        return self.start_at < other.end_at and other.start_at < self.end_at


#: The sort keys of victims, from a job and its start number: the smallest comes first.
VICTIM_ORDERS: Final[dict[VictimOrder, Callable[[Job, int], tuple[float, int]]]] = {
    "start_order": lambda _job, nth: (0.0, nth),
    "longest_remaining": lambda job, nth: (-job.expected_end_at, nth),
    "fewest": lambda job, nth: (-job.n_procs, nth),
}


def delay_s(pd: Delay, swap_outs: Iterable[float]) -> float:
    """Return the preemption delay of some swap-outs; 0 without any.

    >>> delay_s("max", [1.0, 0.5]), delay_s("serial", [1.0, 0.5])
    (1.0, 2.0)
    """
    seconds = list(swap_outs)
    if pd == "serial":
        return round(sum(seconds) + (seconds[-1] if seconds else 0.0), 6)
    return max(seconds, default=0.0)
