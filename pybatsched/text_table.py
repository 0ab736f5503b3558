"""Rows of words as lines of text, in columns."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], sides: str = "l") -> list[str]:
    """Write rows in columns, two blanks between them. `sides` has a letter for each column: l or r; the last repeats.

    >>> aligned([("wait", "3 s"), ("makespan", "1,000 s")], "lr")
    ['wait          3 s', 'makespan  1,000 s']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides += sides[-1] * (len(widths) - len(sides))
    return [
        "  ".join(
            word.ljust(width) if side == "l" else word.rjust(width)
            for word, width, side in zip(row, widths, sides, strict=False)
        ).rstrip()
        for row in rows
    ]
