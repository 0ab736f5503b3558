"""The profile of free processors, compared with a table of one entry per second."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

from hypothesis import given, strategies as st
from support.examples import examples

from pybatsched.core.jobs import Job
from pybatsched.policies.availability import AvailabilityProfile
from pybatsched.policies.freed_intervals import FreedIntervals
from pybatsched.policies.reservations import Reservations

HORIZON = 40
spans = st.tuples(st.integers(1, 4), st.integers(0, HORIZON - 1), st.integers(1, 20))


class Table:
    """The simple twin: the number of free processors in each second, and after the last one."""

    def __init__(self, n: int) -> None:
        self.free = [n] * (2 * HORIZON)

    def add(self, delta: int, start: int, end: float) -> None:
        for t in range(start, min(int(min(end, 2 * HORIZON)), 2 * HORIZON)):
            self.free[t] += delta

    def earliest(self, n: int, span: int, not_before: int) -> float:
        for start in range(not_before, 2 * HORIZON):
            window = self.free[start : start + span] or self.free[-1:]
            if min(window) >= n and (start + span <= 2 * HORIZON or self.free[-1] >= n):
                return start
        return math.inf


@given(st.integers(1, 6), st.lists(spans, max_size=15), st.integers(1, 6), st.integers(1, 15), st.integers(0, 30))
def test_earliest_returns_the_earliest_start(
    n_procs: int, taken: list[Any], n: int, span: int, not_before: int
) -> None:
    profile, table = AvailabilityProfile(0.0, n_procs), Table(n_procs)
    for k, start, length in taken:
        profile.take(k, start, start + length)
        table.add(-k, start, start + length)
    assert [profile.free_at(t) for t in range(HORIZON)] == table.free[:HORIZON]
    assert profile.most_free(not_before, not_before + span) == max(table.free[not_before : not_before + span])
    start = profile.earliest(n, span, not_before)
    assert start == table.earliest(n, span, not_before)
    for latest in (0, not_before - 1, not_before, start - 1, start - 0.5, start, start + 0.5, HORIZON):
        assert profile.earliest(n, span, not_before, latest) == (start if start <= latest else math.inf)


@given(st.lists(spans, max_size=15), st.integers(1, 4), st.integers(1, 15), st.integers(0, 30), st.integers(1, 40))
def test_better_returns_the_earliest_place_beside_all_reservations(
    taken: list[Any], n: int, span: int, not_before: int, window: int
) -> None:
    profile = AvailabilityProfile(0.0, 6)
    for k, start, length in taken:
        at = profile.earliest(k, length, start)  # so that nothing is overbooked
        profile.take(k, at, at + length)
    place = profile.earliest(n, span, 35)
    around = profile.earliest(n, span, not_before)  # without the job itself
    profile.take(n, place, place + span)
    expected = around if around < min(place, not_before + window) else place
    if around < place:
        # what is its own may be used: a window that reaches into the own place is feasible too
        profile.give(n, place, place + span)
        best = profile.earliest(n, span, not_before)
        profile.take(n, place, place + span)
        expected = best if best < not_before + window else place
    assert profile.better(n, span, place, not_before, not_before + window) == expected


@given(st.lists(spans, max_size=12), st.data())
def test_give_undoes_take(taken: list[Any], data: st.DataObject) -> None:
    profile = AvailabilityProfile(0.0, 10)
    for k, start, length in taken:
        profile.take(k, start, start + length)
    for k, start, length in data.draw(st.permutations(taken)):
        profile.give(k, start, start + length)
    assert profile.steps() == [(0.0, 10)]


@given(st.lists(spans, max_size=12), st.integers(0, HORIZON))
def test_advance_removes_only_the_past(taken: list[Any], now: int) -> None:
    profile, table = AvailabilityProfile(0.0, 20), Table(20)
    for k, start, length in taken:
        profile.take(k, start, start + length)
        table.add(-k, start, start + length)
    profile.advance(now)
    assert profile.steps()[0][0] == now
    assert [profile.free_at(t) for t in range(now, HORIZON)] == table.free[now:HORIZON]
    steps = profile.steps()
    assert all(a[1] != b[1] for a, b in itertools.pairwise(steps)), "neighbours are merged"


def test_jobs_without_an_end() -> None:
    profile = AvailabilityProfile(0.0, 4)
    profile.take(3, 5.0, math.inf)
    assert profile.earliest(1, math.inf, 0.0) == 0.0
    assert profile.earliest(2, math.inf, 0.0) == math.inf
    assert profile.earliest(2, 5.0, 0.0) == 0.0
    assert profile.earliest(2, 5.1, 0.0) == math.inf
    profile.take(1, math.inf, math.inf)
    profile.give(3, 5.0, math.inf)
    assert profile.steps() == [(0.0, 4)]


def test_a_gap_of_the_exact_length_is_used_despite_float_rounding() -> None:
    profile = AvailabilityProfile(0.0, 1)
    profile.take(1, 0.3, 100.0)
    assert 0.1 + 0.2 > 0.3
    assert profile.earliest(1, 0.2, 0.1) == 0.1


@given(st.lists(spans, max_size=15), st.integers(1, 4), st.integers(1, 15), st.integers(0, 30), st.integers(1, 20))
def test_moving_equals_give_and_take(taken: list[Any], n: int, span: int, place: int, by: int) -> None:
    moved, other = AvailabilityProfile(0.0, 9), AvailabilityProfile(0.0, 9)
    for profile in (moved, other):
        profile.take_all((k, float(start), float(start + length)) for k, start, length in taken)  # leaves equal steps
        profile.take(n, place, place + span)
    sooner = max(place - by, 0)
    moved.move(n, (place, place + span), (sooner, sooner + span))
    other.give(n, place, place + span)
    other.take(n, sooner, sooner + span)
    assert moved.steps() == other.steps()


@examples(30)
@given(st.integers(0, 2**32))
def test_long_profiles_are_searched_as_short_ones_are(seed: int) -> None:
    """Over many blocks of the index, between changes; the obvious search tries all steps one after the other."""
    dice, profile = Random(seed), AvailabilityProfile(0.0, 40)
    for at in range(0, 2000, 4):
        profile.take(dice.randint(0, 30), at, at + dice.randint(1, 9))
    for _ in range(40):
        n, span, begin = dice.randint(20, 41), dice.choice([0, 1, 5, 20, 100]), dice.randint(0, 2000)
        steps = profile.steps()
        ends = [at for at, _ in steps[1:]] + [math.inf]
        starts = [max(begin, at) for (at, _), end in zip(steps, ends, strict=True) if end > begin]

        def suits(start: float, n: int = n, span: int = span, steps: Any = steps, ends: Any = ends) -> bool:
            last = max(start + span, start + 0.5)
            return all(free >= n for (at, free), end in zip(steps, ends, strict=True) if at < last and end > start)

        assert profile.earliest(n, span, begin) == next(filter(suits, starts), math.inf)
        change = profile.take if dice.random() < 0.5 else profile.give
        change(dice.randint(0, 5), begin, begin + dice.randint(1, 300))
        if dice.random() < 0.1:
            profile.advance(profile.steps()[0][0] + dice.randint(0, 50))


@given(st.lists(spans, max_size=12), st.integers(0, 9))
def test_compression_places_one_job_after_the_other_around_all_others(wanted: list[Any], n_ended: int) -> None:
    profile, rows, gains = AvailabilityProfile(0.0, 4), Reservations(), FreedIntervals()
    for index, (n, not_before, length) in enumerate(wanted):
        place = profile.earliest(n, length, not_before)
        profile.take(n, place, place + length)
        if index >= n_ended:
            rows.insert((0.0, index, Job(f"w0!{index}", n)), length, place, gains.n)
        else:
            profile.give(n, place, place + length)
    gains.add(0.0, math.inf)
    other, expected, before = profile.copy(), [], rows.places.copy()
    for n, span_s, place in zip(rows.sizes, rows.spans_s, before, strict=True):
        other.give(n, place, place + span_s)
        expected.append(other.earliest(n, span_s, 0.0))
        other.take(n, expected[-1], expected[-1] + span_s)
    moved = profile.compress(0.0, rows, gains)
    assert (rows.places, profile.steps()) == (expected, other.steps())
    assert rows.ends == [place + span_s for place, span_s in zip(expected, rows.spans_s, strict=True)]
    assert moved == [(i, at) for i, (at, to) in enumerate(zip(before, expected, strict=True)) if at != to]
    assert gains.n == 1 + len(moved)
