"""Random cases from a seed: drawn by Hypothesis, and shrunk by it if they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed as seeded, settings, strategies as st
from hypothesis.errors import Flaky

Item = TypeVar("Item")
MOST_TRIES: Final = 600


def draw(cases: st.SearchStrategy[Item], seed: str, n: int, play: Callable[[Item], None], *phases: Phase) -> None:
    """Draw n cases, the plainest one first: the same ones for the same seed and n."""
    rules = settings(
        max_examples=n, phases=phases or [Phase.generate], database=None, deadline=None, report_multiple_bugs=False,
        verbosity=Verbosity.quiet, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    seeded(seed)(rules(given(cases)(play)))()


def smallest(
    cases: st.SearchStrategy[Item],
    seed: str,
    n: int,
    number: int,
    fails: Callable[[Item], bool],
    most_tries: int = MOST_TRIES,
) -> Item | None:
    """Draw cases again up to a number, and shrink that one as long as it fails; None if it does not fail again."""
    found: Item | None = None
    known: set[str] = set()
    at = -1

    def play(case: Item) -> None:
        nonlocal found, at
        at += 1
        text = repr(case)
        if at == number or (found is not None and at <= number + most_tries and text not in known):
            known.update([text] if fails(case) else [])
        if text in known:
            found = case
            raise AssertionError

    with suppress(AssertionError, Flaky):
        draw(cases, seed, n, play, Phase.generate, Phase.shrink)
    return found


class Dice:
    """Choices read from bytes, so that Hypothesis can shrink them: a byte of 0 is the first choice.

    A draw of Hypothesis costs 35 µs, whether it is one number or many bytes, and a case takes a hundred choices. Raises
    IndexError if there are too few bytes.
    """

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


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table for people and for README.md."""
    lines = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)
