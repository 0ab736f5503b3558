"""The reservations of waiting jobs in queue order, for passes over a whole plan."""

from __future__ import annotations

from bisect import bisect_left

from pybatsched.core.instants import instant
from pybatsched.core.jobs import Job


class Reservations:
    """A table of reservations with one list per column, so that a pass, also in C, handles only numbers.

    Row i is the waiting job `entries[i]`: it requests `sizes[i]` processors for `spans_s[i]`, is reserved from
    `places[i]` to `ends[i]`, and was last checked when there were `seen[i]` freed intervals. Inserting and removing
    shift lists, which is quick.
    """

    __slots__ = ("ends", "entries", "places", "seen", "sizes", "spans_s")

    def __init__(self) -> None:
        self.entries: list[tuple[float, int, Job]] = []
        self.sizes: list[int] = []
        self.spans_s: list[float] = []
        self.places: list[float] = []
        self.ends: list[float] = []
        self.seen: list[int] = []

    def __len__(self) -> int:
        return len(self.entries)

    def insert(self, entry: tuple[float, int, Job], span_s: float, place: float, seen: int) -> float:
        """Insert a row for an entry of the queue. Return its end. O(rows) with a small constant."""
        end_at = instant(place, span_s)
        i = bisect_left(self.entries, entry)
        self.entries.insert(i, entry)
        self.sizes.insert(i, entry[2].n_procs)
        self.spans_s.insert(i, float(span_s))
        self.places.insert(i, place)
        self.ends.insert(i, end_at)
        self.seen.insert(i, seen)
        return end_at

    def place_of(self, entry: tuple[float, int, Job]) -> float | None:
        """Return the reserved start of an entry of the queue; None if it has no row. O(log rows)."""
        i = bisect_left(self.entries, entry)
        return self.places[i] if i < len(self.entries) and self.entries[i] == entry else None

    def remove(self, entry: tuple[float, int, Job]) -> tuple[float, float]:
        """Remove the row of an entry. Return its start and its end. O(rows) with a small constant."""
        i = bisect_left(self.entries, entry)
        if i == len(self.entries) or self.entries[i] != entry:
            raise ValueError(f"{entry!r:.120} has no reservation")
        del self.entries[i], self.sizes[i], self.spans_s[i], self.seen[i]
        return self.places.pop(i), self.ends.pop(i)

    def move(self, i: int, place: float) -> None:
        """Change the start of a reservation. O(1)."""
        self.places[i] = place
        self.ends[i] = instant(place, self.spans_s[i])

    def copy(self) -> Reservations:
        """Return an independent copy. O(rows) with a small constant."""
        other = Reservations()
        other.entries, other.sizes, other.spans_s = self.entries.copy(), self.sizes.copy(), self.spans_s.copy()
        other.places, other.ends, other.seen = self.places.copy(), self.ends.copy(), self.seen.copy()
        return other
