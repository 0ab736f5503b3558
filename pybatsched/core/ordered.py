"""Taking entries out of plain sorted lists: for short ones a list with bisection beats every cleverer structure."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, TypeVar

Entry = TypeVar("Entry", bound=tuple[Any, ...])


def take_out(entries: list[Entry], entry: Entry) -> None:
    """Remove an entry from a sorted list. O(log n) to find it, O(n), quickly, to close the gap.

    Raises ValueError if it is not there, rather than removing its neighbour.
    """
    i = bisect_left(entries, entry)
    if i == len(entries) or entries[i] != entry:
        raise ValueError(f"{entry!r:.120} is not in the list")
    del entries[i]
