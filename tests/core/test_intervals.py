"""Interval sets compared with Python's sets and with procset."""

from __future__ import annotations

import doctest
import itertools
import pickle
import random
import re
from typing import Any

import numpy as np
import procset
import pytest
from hypothesis import given, strategies as st

from pybatsched.core import intervals
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.errors import NotIntegerError
from pybatsched.policies import availability

members = st.sets(st.integers(0, 60))


def test_examples_in_docstrings_run() -> None:
    for module in (intervals, availability):
        assert doctest.testmod(module) == doctest.TestResults(0, doctest.testmod(module).attempted)
        assert doctest.testmod(module).attempted


@given(members, members)
def test_operations_are_those_of_sets(a: set[int], b: set[int]) -> None:
    x, y = IntervalSet(a), IntervalSet(b)
    assert set(x | y) == a | b
    assert set(x - y) == a - b
    assert set(x & y) == a & b
    assert x.issubset(y) == a.issubset(b)
    assert x.isdisjoint(y) == a.isdisjoint(b)
    assert (x == y) == (a == b)
    assert len(x) == len(a)
    assert bool(x) == bool(a)
    assert list(x) == sorted(a)
    assert all((i in x) == (i in a) for i in range(62))
    assert hash(x | y) == hash(y | x)
    for result in (x | y, x - y, x & y):
        check(result)


def check(value: IntervalSet) -> None:
    """The bounds are strictly increasing, so runs neither touch nor overlap."""
    bounds = [*itertools.chain.from_iterable(value.intervals())]
    assert all(p < q for p, q in itertools.pairwise(bounds))


@st.composite
def scattered(draw: st.DrawFn) -> set[int]:
    """Draw many numbers by one seed: drawing them one by one would take most of the time."""
    n, seed = draw(st.integers(300, 2001)), draw(st.integers(0, 2**32))
    return set(random.Random(seed).sample(range(2001), n))


@given(scattered(), scattered())
def test_operations_on_scattered_sets(a: set[int], b: set[int]) -> None:
    x, y = IntervalSet(a), IntervalSet(b)
    for result, expected in ((x | y, a | b), (x - y, a - b), (y - x, b - a), (x & y, a & b)):
        assert set(result) == expected
        check(result)


@given(members)
def test_text_is_that_of_procset(a: set[int]) -> None:
    mine, theirs = IntervalSet(a), procset.ProcSet(*a)
    assert str(mine) == str(theirs)
    assert IntervalSet.parse(str(theirs)) == mine
    assert IntervalSet.from_procset(theirs) == mine
    assert mine.to_procset() == theirs


@given(members, st.integers(0, 70))
def test_first_takes_the_lowest(a: set[int], n: int) -> None:
    value = IntervalSet(a)
    if n <= len(a):
        assert list(value.first(n)) == sorted(a)[:n]
        check(value.first(n))
    else:
        with pytest.raises(ValueError, match=f"first {n} of {len(a)}"):
            value.first(n)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1))
def test_any_order_and_overlap_is_read(runs: list[tuple[int, int]]) -> None:
    text = " ".join(f"{start}-{start + more}" if more else str(start) for start, more in runs)
    value = IntervalSet.parse(text)
    assert set(value) == {i for start, more in runs for i in range(start, start + more + 1)}
    check(value)


@pytest.mark.parametrize("text", ["1,2", "a", " 1", "1 ", "1  2", "3-1", "-1", "1-", "1-2-3", "١", "1\n"])
def test_bad_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="interval|ends before"):
        IntervalSet.parse(text)


def test_empty_sets_texts_and_negative_numbers() -> None:
    assert IntervalSet.parse("") == EMPTY == IntervalSet.span(3, 3)
    assert str(IntervalSet.span(2, 5)) == "2-4"
    assert repr(IntervalSet([7])) == "IntervalSet('7')"
    assert IntervalSet([1]) != "1"
    with pytest.raises(ValueError, match="never negative"):
        IntervalSet([-1])
    with pytest.raises(ValueError, match="never negative"):
        IntervalSet.span(-1, 3)


def test_operations_do_not_change_their_operands() -> None:
    a, b = IntervalSet.parse("0-9"), IntervalSet.parse("3-4")
    assert (a - b, a | b, a & b) == (IntervalSet.parse("0-2 5-9"), a, b)
    assert (str(a), str(b)) == ("0-9", "3-4")


@given(st.sets(st.integers(0, 2**61), max_size=5), st.integers(-5, 500) | st.integers(-(2**70), 2**70))
def test_any_integer_may_be_asked_for(a: set[int], asked: int) -> None:
    assert (asked in IntervalSet(a)) == (asked in a)
    assert all(i in IntervalSet(a) for i in a)


def properties_of(procs: IntervalSet) -> tuple[object, ...]:
    """Return all properties of a set."""
    return str(procs), len(procs), bool(procs), procs.lowest, procs.highest, [*procs.intervals()], hash(procs)


def test_members_are_integers() -> None:
    runs: Any = IntervalSet
    for member in (1.0, 1.5, True, "3", None, np.float64(2), np.bool_(True)):
        text = f"^a processor id, or a number of processors, is an integer, not {re.escape(repr(member))}$"
        with pytest.raises(NotIntegerError, match=text):
            runs([0, member])
        with pytest.raises(NotIntegerError, match=text):
            runs([0, 1, 2]).first(member)
    made = runs([np.int64(4), np.uint8(5), 5])
    assert properties_of(made) == properties_of(runs([4, 5]))
    assert {type(bound) for run in made.intervals() for bound in run} == {int}
    assert str(made.first(np.int32(1))) == "4"


@pytest.mark.parametrize(("start", "stop"), [(0.0, 2), (0, 2.0), (False, 2), (0, True)])
def test_a_span_has_bounds_that_are_integers(start: Any, stop: Any) -> None:
    with pytest.raises(NotIntegerError, match="is an integer, not"):
        IntervalSet.span(start, stop)
    one, three = np.array([1, 3])
    assert IntervalSet.span(one, three) == IntervalSet([1, 2])


def test_subclasses_give_sets_of_their_own_kind() -> None:
    class Named(IntervalSet):
        __slots__ = ()

    made = Named([1, 2, 9])
    assert {type(one) for one in (made | made, made & made, made - Named([2]), made.first(2))} == {Named}


def test_a_subclass_may_have_another_constructor() -> None:
    class Named(IntervalSet):
        def __init__(self, name: str, *, last: int) -> None:
            super().__init__(range(0, last, 2))
            self.name = name

    made, many = Named("even", last=5), Named("more", last=500)
    assert (made.name, str(made), len(made), list(made.intervals())) == ("even", "0 2 4", 3, [(0, 1), (2, 3), (4, 5)])
    assert (made.lowest, made.highest, 2 in made, made.issubset(many)) == (0, 4, True, True)
    assert (str(made | IntervalSet([1])), str(many & made), str(many.first(2))) == ("0-2 4", "0 2 4", "0 2")
    assert (type(made | made), many == IntervalSet(range(0, 500, 2))) == (Named, True)


def test_a_set_can_be_sent_to_another_process() -> None:
    procs = IntervalSet.parse("0-3 5 8-9")
    assert pickle.loads(pickle.dumps(procs)) == procs


@pytest.mark.parametrize("text", ["0-99999999999999999999", "99999999999999999999"])
def test_numbers_that_are_too_large_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is too large; expected at most 4611686018427387903"):
        IntervalSet.parse(text)
