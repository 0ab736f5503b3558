"""Preemption for urgent jobs: who is suspended, for whom, for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pybatsched import IntervalSet, Job
from pybatsched_schedulers.ujfb.swaps import SwapTimes

if TYPE_CHECKING:
    from pybatsched_schedulers.ujfb.options import Delay, VictimOrder


@dataclass(slots=True)
class Victim:
    """A regular job that is being stopped for an urgent one, on the processors it has."""

    job: Job
    procs: IntervalSet
    swap: SwapTimes
    is_stopped: bool = False


class Preemption(NamedTuple):
    """An urgent job and those that are being stopped for it, in the order in which they were chosen."""

    urgent: Job
    victims: list[Victim]

    def stopped(self) -> list[Victim]:
        """Give those that did not end by themselves in that instant."""
        return [victim for victim in self.victims if victim.is_stopped]


@dataclass(slots=True, frozen=True)
class Suspended:
    """A job that was stopped and waits for the processors it had. `by` is the urgent job that has them, or had."""

    job: Job
    procs: IntervalSet
    swap_in_s: float
    by: str


class Booking(NamedTuple):
    """Processors that regular jobs must leave alone, by count."""

    n: int
    start_at: float
    end_at: float

    def left_at(self, now: float) -> Booking:
        """Give what is left of it: a booking that goes on is no other one because time goes by."""
        return self if self.start_at >= now else self._replace(start_at=now)

    def overlaps(self, other: Booking) -> bool:
        """Tell whether both hold processors at some instant."""
        return self.start_at < other.end_at and other.start_at < self.end_at


#: By what victims are ordered, from a job and the number of its start: the least comes first.
VICTIM_ORDERS: Final[dict[VictimOrder, Callable[[Job, int], tuple[float, int]]]] = {
    "start_order": lambda _job, nth: (0.0, nth),
    "longest_remaining": lambda job, nth: (-job.expected_end_at, nth),
    "fewest": lambda job, nth: (-job.n_procs, nth),
}


def delay_s(pd: Delay, swap_outs: Iterable[float]) -> float:
    """Give the preemption delay of some swap-outs; none without any.

    >>> delay_s("max", [1.0, 0.5]), delay_s("serial", [1.0, 0.5])
    (1.0, 2.0)
    """
    seconds = list(swap_outs)
    if pd == "serial":
        return round(sum(seconds) + (seconds[-1] if seconds else 0.0), 6)
    return max(seconds, default=0.0)
