"""Machines that fail and come back, for workloads of hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from pybatsched.core import events as e

Events = list[tuple[float, str, str]]


def outages(n_procs: int, most: int) -> st.SearchStrategy[Events]:
    """Draw machine events for a `FakeBatsim`: each processor is away once at a time, and comes back."""
    return _changes(n_procs, most).map(_events)


def drains(n_procs: int, most: int) -> st.SearchStrategy[Events]:
    """Draw processors that are drained, and used again."""
    kinds = {e.MACHINES_UNAVAILABLE: e.DRAIN, e.MACHINES_AVAILABLE: e.UNDRAIN}
    return outages(n_procs, most).map(lambda events: [(at, kinds[kind], procs) for at, kind, procs in events])


def spans(events: Events, gone: str, back: str) -> list[tuple[float, float, int]]:
    """Return from when to when each processor is away, by the kinds of events."""
    return [
        (at, min(t for t, other, p in events if other == back and p == procs and t > at), int(procs))
        for at, kind, procs in events
        if kind == gone
    ]


def _changes(n_procs: int, most: int) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    return st.lists(st.tuples(st.integers(0, 60), st.integers(0, n_procs - 1), st.integers(1, 30)), max_size=most)


def _events(changes: list[tuple[int, int, int]]) -> Events:
    events: Events = []
    away_until: dict[int, int] = {}
    for start, proc, length in sorted(changes):
        if away_until.get(proc, -1) < start:
            away_until[proc] = start + length
            events.append((start, e.MACHINES_UNAVAILABLE, str(proc)))
            events.append((start + length, e.MACHINES_AVAILABLE, str(proc)))
    return events
