"""Machines that fail and come back, for workloads of hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from pybatsched.core import events as e


def outages(n_procs: int, most: int) -> st.SearchStrategy[list[tuple[float, str, str]]]:
    """Draw machine events for a `FakeBatsim`: each processor is away once at a time, and comes back."""
    drawn = st.tuples(st.integers(0, 60), st.integers(0, n_procs - 1), st.integers(1, 30))
    return st.lists(drawn, max_size=most).map(_events)


def _events(changes: list[tuple[int, int, int]]) -> list[tuple[float, str, str]]:
    events: list[tuple[float, str, str]] = []
    away_until: dict[int, int] = {}
    for start, proc, length in sorted(changes):
        if away_until.get(proc, -1) < start:
            away_until[proc] = start + length
            events.append((start, e.MACHINES_UNAVAILABLE, str(proc)))
            events.append((start + length, e.MACHINES_AVAILABLE, str(proc)))
    return events
