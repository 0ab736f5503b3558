"""Random choices that Hypothesis can shrink, read from bytes that it draws.

A draw of Hypothesis costs 35 µs, whether it is one number or many bytes, and a scene takes a hundred choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Choices read from bytes. A byte of 0 is the first choice. Raises IndexError if there are too few bytes."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = -1

    def byte(self) -> int:
        """Return a number from 0 to 255."""
        self._at += 1
        return self._raw[self._at]

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1."""
        return int(self.part() * n) if n > 64 else self.byte() * n >> 8

    def part(self) -> float:
        """Return a number from 0 to 1, without 1."""
        return self.byte() / 256 + self.byte() / 65536

    def chance(self, percent: float) -> bool:
        """Return True so often."""
        return self.byte() >= 256 * (1 - percent / 100)

    def choice(self, items: Sequence[Item]) -> Item:
        """Return one of several; put the plainest first."""
        return items[self.below(len(items))]
