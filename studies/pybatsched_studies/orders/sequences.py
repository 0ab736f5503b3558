"""Sequences of consecutive jobs from random starts, drawn as the program RLScheduler draws them.

Zhang, Dai, He, Bao and Xie (SC 2020) compare schedulers on ten sequences of 1,024 jobs. The start of a sequence is
``randint(n, m - n - 1)`` of numpy's `RandomState`, for sequences of n jobs out of m. The generator is seeded as old
versions of Gym did: by the first eight bytes of the SHA-512 digest of the seed's digits. Python's `random` is the same
generator and has the same seeding by an integer, so numpy is not needed.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from pybatsched.errors import InputError, quantity
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import consecutive


class SequenceStarts:
    """The random starts of sequences of `length` jobs out of `n_jobs`. The same seed gives the same starts.

    Each start is at least `length`, and at least `length` + 2 jobs are left from it on.

    >>> starts = SequenceStarts(10_000, 1024, seed=1)
    >>> [starts.draw() for _ in range(4)]
    [1981, 2756, 4299, 8850]
    """

    def __init__(self, n_jobs: int, length: int, seed: int) -> None:
        if n_jobs < 2 * length + 2:
            wanted = quantity(2 * length + 2, "job")
            raise InputError(
                f"sequences of {quantity(length, 'job')}: expected at least {wanted} to draw them from, "
                f"found {n_jobs:,}"
            )
        digest = hashlib.sha512(str(seed).encode()).digest()
        self._random = random.Random(int.from_bytes(digest[:8], "little"))  # noqa: S311  no secret
        self._first = length
        self._greatest = n_jobs - 2 * length - 2  # of the drawn numbers, which are counted from 0

    def draw(self) -> int:
        """Return the index of the next sequence's first job. On average less than two random numbers are needed."""
        mask = (1 << self._greatest.bit_length()) - 1
        while True:
            drawn = self._random.getrandbits(32) & mask
            if drawn <= self._greatest:
                return self._first + drawn


def sequences(workload: Workload, seed: int, number: int = 10, jobs: int = 1024) -> Iterator[Workload]:
    """Yield `number` sequences of so many consecutive jobs. O(profiles + jobs) each. Raises InputError."""
    starts = SequenceStarts(len(workload.jobs), jobs, seed)
    for _ in range(number):
        start = starts.draw()
        sequence = consecutive(workload, start, jobs)
        sequence.about["sequence"] = {"start": start, "seed": seed}
        yield sequence
