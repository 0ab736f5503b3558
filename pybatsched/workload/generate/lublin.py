"""The workload model of Lublin and Feitelson.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs",
Journal of Parallel and Distributed Computing 63(11), 2003. The parameters below are those of the paper and of the
authors' program that the Parallel Workloads Archive distributes. That program has a fixed machine of 128 processors;
here the bounds of the sizes scale with the machine, as the authors advise.

* Size: 1 with some probability; else 2 to the power of a two-stage uniform variate, which is rounded to a whole number
  with some probability.
* Run time: e to the power of a hyper-gamma variate. The probability of its first gamma distribution decreases with the
  size, so large jobs run longer.
* Arrivals: gaps of e to the power of a gamma variate, on a clock that runs faster at busy times of the day. The weight
  of each half hour comes from another gamma distribution over the day, which starts in the morning.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_HALF_HOURS: Final = 48
_HALF_HOUR_S: Final = 1800.0
_DAY_S: Final = _HALF_HOURS * _HALF_HOUR_S
_MORNING: Final = 11  # the half hour, counted from 1, at which the daily cycle starts
_LONGEST_RUN: Final = 12.0  # logarithms of the longest run time and the longest gap, about two and five days
_LONGEST_GAP: Final = 13.0


@dataclass(frozen=True)
class Population:
    """The parameters of one type of jobs, by their names in the paper. `queue` is the name of its queue.

    `below_hi` and `hi_below` set the bounds of the two-stage uniform distribution: log2 of the largest size is that of
    the machine minus `hi_below`, and the stages meet `below_hi` lower.
    """

    queue: str
    p_serial: float
    p_power2: float
    u_low: float
    below_hi: float
    hi_below: float
    u_prob: float
    run_1: tuple[float, float]
    run_2: tuple[float, float]
    p_a: float
    p_b: float
    gap: tuple[float, float]
    day: tuple[float, float]

    def size(self, rng: random.Random, n_procs: int) -> int:
        """Return a random number of processors."""
        kind = rng.random()
        if kind <= self.p_serial or n_procs < 2:
            return 1
        high = max(math.log2(n_procs) - self.hi_below, self.u_low)
        middle = high - self.below_hi
        if middle < self.u_low:  # a small machine: the stages would meet below the smallest parallel job
            middle = (self.u_low + high) / 2
        power = rng.uniform(self.u_low, middle) if rng.random() <= self.u_prob else rng.uniform(middle, high)
        if kind <= self.p_serial + self.p_power2:
            return 1 << min(int(power + 0.5), n_procs.bit_length() - 1)
        return min(int(2**power + 0.5), n_procs)

    def run_s(self, rng: random.Random, size: int) -> int:
        """Return a random run time for a job of this size: whole seconds, at least one."""
        p_first = min(max(self.p_a * size + self.p_b, 0.0), 1.0)
        while True:
            shape, scale = self.run_1 if rng.random() <= p_first else self.run_2
            logarithm = rng.gammavariate(shape, scale)
            if logarithm <= _LONGEST_RUN:
                return max(int(math.exp(logarithm)), 1)

    @cached_property
    def busyness(self) -> tuple[float, ...]:
        """The weight of each half hour of the day, from midnight on. The mean is 1."""
        weights = [0.0] * _HALF_HOURS
        for step in range(_MORNING, _MORNING + _HALF_HOURS):
            weights[(step - 1) % _HALF_HOURS] = gamma_cdf(step + 0.5, *self.day) - gamma_cdf(step - 0.5, *self.day)
        mean = sum(weights) / _HALF_HOURS
        return tuple(weight / mean for weight in weights)

    @cached_property
    def _elapsed(self) -> tuple[float, ...]:
        """The time of the weighted clock at the end of each half hour."""
        return tuple(itertools.accumulate(weight * _HALF_HOUR_S for weight in self.busyness))

    def even_arrivals(self, rng: random.Random) -> Iterator[float]:
        """Yield random arrivals without end, as times of a clock on which every hour is equally busy."""
        even_at = 0.0
        while True:
            logarithm = rng.gammavariate(*self.gap)
            if logarithm <= _LONGEST_GAP:
                even_at += math.exp(logarithm)
                yield even_at

    def time_of_day(self, even_at: float) -> float:
        """Convert a time of the even clock to real time, counted from midnight of the first day."""
        days, rest = divmod(even_at, self._elapsed[-1])
        half_hour = min(bisect.bisect_right(self._elapsed, rest), _HALF_HOURS - 1)
        before = self._elapsed[half_hour - 1] if half_hour else 0.0
        share = (rest - before) / (self._elapsed[half_hour] - before)
        return days * _DAY_S + (half_hour + share) * _HALF_HOUR_S

    def even_clock(self, at: float) -> float:
        """Convert a real time to the even clock: the inverse of `time_of_day`."""
        days, rest = divmod(at, _DAY_S)
        half_hour, share = divmod(rest / _HALF_HOUR_S, 1.0)
        before = self._elapsed[int(half_hour) - 1] if half_hour else 0.0
        return days * self._elapsed[-1] + before + share * (self._elapsed[int(half_hour)] - before)


#: The first parameter of `gap` is that of the rush hours times the authors' ratio for the whole day.
BATCH: Final = Population(
    queue="batch",
    p_serial=0.2927,
    p_power2=0.6686,
    u_low=1.2,
    below_hi=2.0,
    hi_below=0.0,
    u_prob=0.875,
    run_1=(6.57, 0.823),
    run_2=(639.1, 0.0156),
    p_a=-0.003,
    p_b=0.6986,
    gap=(6.0415 * 1.0519, 0.8531),
    day=(6.1271, 5.2740),
)
INTERACTIVE: Final = Population(
    queue="interactive",
    p_serial=0.1541,
    p_power2=0.625,
    u_low=1.0,
    below_hi=2.5,
    hi_below=1.5,
    u_prob=0.705,
    run_1=(3.8351, 0.6605),
    run_2=(7.073, 0.6856),
    p_a=-0.0118,
    p_b=0.9156,
    gap=(6.5510 * 0.9797, 0.6621),
    day=(8.9186, 3.6680),
)
ALL: Final = Population(
    queue="",
    p_serial=0.244,
    p_power2=0.576,
    u_low=0.8,
    below_hi=2.5,
    hi_below=0.0,
    u_prob=0.86,
    run_1=(4.2, 0.94),
    run_2=(312.0, 0.03),
    p_a=-0.0054,
    p_b=0.78,
    gap=(10.2303 * 1.0225, 0.4871),
    day=(8.1737, 3.9631),
)


def gamma_cdf(x: float, shape: float, scale: float) -> float:
    """Return the probability that a gamma variate is at most x, by the series of the incomplete gamma function."""
    if x <= 0:
        return 0.0
    z = x / scale
    term = total = 1.0 / shape
    n = shape
    while term > total * 1e-16:
        n += 1
        term *= z / n
        total += term
    return total * math.exp(shape * math.log(z) - z - math.lgamma(shape))
