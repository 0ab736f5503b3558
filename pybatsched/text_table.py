"""Format rows of cells as lines of text with aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], sides: str = "l") -> list[str]:
    """Return the rows as lines with aligned columns, two blanks between them.

    `sides` has a letter for each column: l (left) or r (right). The last letter repeats.

    >>> aligned([("wait", "3 s"), ("makespan", "1,000 s")], "lr")
    ['wait          3 s', 'makespan  1,000 s']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides += sides[-1] * (len(widths) - len(sides))
    return [
        "  ".join(
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, sides, strict=False)
        ).rstrip()
        for row in rows
    ]
