"""The counting book of host states, compared with the slow book of every host."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pybatsched.core.intervals import IntervalSet
from pybatsched.simulator.machine import hosts
from pybatsched.simulator.machine.hosts import CountingBook, HostBook, HostState

N = 12
actions = st.lists(
    st.tuples(st.integers(0, 7), st.sets(st.integers(0, N - 1), min_size=1, max_size=N), st.booleans()), max_size=40
)


@given(actions, st.sampled_from([1, 3, 4096]))
def test_the_counting_book_equals_the_book_of_hosts(steps: list[tuple[int, set[int], bool]], n_kept: int) -> None:
    quick, slow = CountingBook(N), HostBook(N)
    quick._n_keep = n_kept
    running: dict[str, IntervalSet] = {}
    now = 0.0
    for number, (dt, members, ends) in enumerate(steps):
        now += dt / 4
        procs = IntervalSet(members)
        assert quick.blocked(procs) == slow.blocked(procs) or (quick.blocked(procs) and slow.blocked(procs))
        if ends and running:
            job = min(running)
            for book in (quick, slow):
                book.end(job, running[job], now)
            del running[job]
        elif quick.blocked(procs) is None:
            running[f"j{number:03}"] = procs
            for book in (quick, slow):
                book.start(f"j{number:03}", procs, now)
        assert quick.counts_text() == slow.counts_text()
        assert quick.times_s() == slow.times_s()


def test_the_current_state_is_not_yet_counted() -> None:
    book = HostBook(2)
    book.start("a", IntervalSet([0]), 3.0)
    assert book.times_s()[HostState.IDLE] == 3.0
    book.end("a", IntervalSet([0]), 5.0)
    assert book.times_s()[HostState.COMPUTING] == 2.0
    assert book.times_s()[HostState.IDLE] == 3.0


def test_a_busy_processor_gives_the_reason() -> None:
    book = CountingBook(4)
    book.start("w0!a", IntervalSet([1, 2]), 0.0)
    assert book.blocked(IntervalSet([0, 2])) == (2, "is currently computing jobs (w0!a), and sharing is off")
    assert book.blocked(IntervalSet([7])) == (7, "does not exist")
    away = HostBook(4)
    away.change(3, HostState.UNAVAILABLE, 1.0)
    assert away.blocked(IntervalSet([3])) == (3, "cannot compute jobs now: it is unavailable")
    assert away.n_away(4) == 1


def test_outdated_changes_are_removed() -> None:
    book = CountingBook(2)
    for i in range(3 * hosts._MANY_CHANGES):
        book.start(f"j{i}", IntervalSet([i % 2]), float(i))
        book.end(f"j{i}", IntervalSet([i % 2]), float(i + 1))
    assert len(book._changes) <= hosts._MANY_CHANGES
    n = 3 * hosts._MANY_CHANGES
    assert book.times_s()[HostState.COMPUTING] == n
    assert book.times_s()[HostState.IDLE] == n - 1
