"""Fair sharing: worked examples, a slow reference solver, and the properties of any fair share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pybatsched.errors import InputError
from pybatsched.simulator.work import sharing
from pybatsched.simulator.work.sharing import USED_UP, SharedResource, Sharing, User


def rates(users: list[Any]) -> list[float]:
    solver = Sharing()
    for user in users:
        solver.add(user)
    solver.solve()
    return [user.rate for user in users]


@pytest.mark.parametrize(
    ("capacities", "users", "expected"),
    [
        ([12.0], [([(0, 1.0)], None), ([(0, 2.0)], None), ([(0, 1.0)], None)], [4.0, 2.0, 4.0]),
        # The second is held back by its host. It gains 1 there; the first then takes the rest of the link.
        ([10.0, 1.0], [([(0, 1.0)], None), ([(0, 1.0), (1, 1.0)], None)], [9.0, 1.0]),
        ([10.0], [([(0, 1.0), (0, 1.0)], None), ([(0, 1.0)], None)], pytest.approx([10 / 3, 10 / 3])),
        ([0.0], [([], None), ([(0, 1.0)], None)], [1.0, 0.0]),
        # It is used up below an absolute amount.
        ([USED_UP / 2], [([(0, 1.0)], USED_UP / 8), ([(0, 1.0)], None)], [USED_UP / 8, USED_UP / 4]),
    ],
)
def test_a_resource_is_shared_by_its_users(capacities: list[float], users: list[Any], expected: list[float]) -> None:
    resources = [SharedResource(capacity) for capacity in capacities]
    made = [
        User([(resources[i], need) for i, need in needs], **({} if bound is None else {"bound": bound}))
        for needs, bound in users
    ]
    assert rates(made) == expected


def test_a_fat_pipe_gives_each_user_all() -> None:
    pipe = SharedResource(10.0, is_fatpipe=True)
    assert rates([User([(pipe, 1.0)]), User([(pipe, 5.0)])]) == [10.0, 2.0]


def test_a_bound_counts_again_in_later_rounds() -> None:
    """The second stops at 1 in the first round (5 each), and is charged 1 again in the second: 10 - 6 - 4 - 1 < 0."""
    link = SharedResource(10.0)
    assert rates([User([(link, 1.0)]), User([(link, 1.0)], bound=1.0)]) == [9.0, 1.0]
    link = SharedResource(12.0)
    other = SharedResource(1.0)
    users = [User([(link, 1.0)]), User([(link, 1.0)], bound=1.0), User([(link, 1.0), (other, 1.0)])]
    assert rates(users)[:2] == [10.0, 1.0]


def test_only_what_a_change_affects_is_solved_again() -> None:
    solver, left, right = Sharing(), SharedResource(4.0), SharedResource(6.0)
    a, b, c = User([(left, 1.0)]), User([(left, 1.0)]), User([(right, 1.0)])
    for user in (a, b, c):
        solver.add(user)
    assert set(solver.solve()) == {a, b, c}
    solver.remove(b)
    assert list(solver.solve()) == [a]
    assert (a.rate, c.rate) == (4.0, 6.0)
    assert list(solver.solve()) == []
    left.capacity = 2.0
    solver.change(left)
    assert list(solver.solve()) == [a]
    assert a.rate == 2.0


def test_a_fat_pipe_on_which_the_solver_would_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second reaches its bound with a gain of 1e-9, which is all that the pipe loses in each later round."""
    monkeypatch.setattr(sharing, "MAX_ROUNDS", 1000)
    pipe, host = SharedResource(1e3, is_fatpipe=True), SharedResource(2e12)
    with pytest.raises(InputError, match="FATPIPE"):
        rates([User([(pipe, 1e-6), (host, 1e-6)]), User([(pipe, 1.0)], bound=1e-9)])
    with pytest.raises(InputError, match="FATPIPE"):
        rates([User([(pipe, 1e-6)]), User([(pipe, 1.0)], bound=1e-9)])


@dataclass
class Slow:
    """The rule as in the module's text, over all users and resources in each round, in lists."""

    capacities: list[float]
    fat: list[bool]
    users: list[tuple[list[tuple[int, float]], float]]
    rates: list[float] = field(default_factory=list)

    def solve(self) -> list[float]:
        n = len(self.users)
        self.rates = [0.0 if needs else 1.0 for needs, _ in self.users]
        gains = [0.0] * n
        growing = [bool(needs) for needs, _ in self.users]
        free = list(self.capacities)
        is_open = [True] * len(free)
        n_rounds = 0
        while any(growing):
            n_rounds += 1
            assume(n_rounds < 500)
            shares = []
            for r in range(len(free)):
                count = sum(growing[u] for u in range(n) for where, _ in self.users[u][0] if where == r)
                is_open[r] = is_open[r] and count > 0
                shares.append(free[r] / (1 if self.fat[r] else count) if is_open[r] else 0.0)
            for u, (needs, bound) in enumerate(self.users):
                if growing[u]:
                    gains[u] = min([shares[where] / weight for where, weight in needs] + [bound - self.rates[u]])
                    self.rates[u] += gains[u]
                    growing[u] = self.rates[u] != bound
            for r in range(len(free)):
                if not is_open[r]:
                    continue
                uses = [
                    w * gains[u] for u in reversed(range(n)) for where, w in reversed(self.users[u][0]) if where == r
                ]
                for used in [min([shares[r], *uses])] if self.fat[r] else uses:
                    free[r] = 0.0 if free[r] - used < USED_UP else free[r] - used
                if free[r] <= 0:
                    is_open[r] = False
                    for u, (needs, _) in enumerate(self.users):
                        growing[u] = growing[u] and all(where != r for where, _ in needs)
        return self.rates


AMOUNTS = st.sampled_from([1.0, 2.0]) | st.floats(0.1, 100)  # equal amounts make resources alike


@st.composite
def systems(draw: st.DrawFn) -> Slow:
    n_resources = draw(st.integers(1, 12))
    capacities = draw(st.lists(AMOUNTS, min_size=n_resources, max_size=n_resources))
    fat = draw(st.lists(st.booleans(), min_size=n_resources, max_size=n_resources))
    need = st.tuples(st.integers(0, n_resources - 1), AMOUNTS)
    user = st.tuples(st.lists(need, max_size=12), st.one_of(st.just(math.inf), AMOUNTS))
    return Slow(capacities, fat, draw(st.lists(user, min_size=1, max_size=6)))


def built(slow: Slow) -> tuple[list[Any], list[Any]]:
    resources = [SharedResource(c, is_fatpipe=f) for c, f in zip(slow.capacities, slow.fat, strict=True)]
    return resources, [User([(resources[r], w) for r, w in needs], bound) for needs, bound in slow.users]


@given(systems())
def test_rates_equal_those_of_the_slow_solver_exactly(slow: Slow) -> None:
    expected = slow.solve()
    _, users = built(slow)
    assert rates(users) == expected


@given(systems())
def test_no_resource_is_overused_and_no_bound_exceeded(slow: Slow) -> None:
    slow.solve()  # which gives up on what takes too many rounds
    resources, users = built(slow)
    rates(users)
    for resource in resources:  # of a fat pipe, SimGrid gives more than there is if its users have other limits
        assert resource.is_fatpipe or resource.load() <= resource.capacity * (1 + 1e-9) + USED_UP
    for user in users:
        assert user.rate <= user.bound or not user.needs


@given(systems(), st.data())
def test_any_order_of_changes_gives_the_same_rates(slow: Slow, data: st.DataObject) -> None:
    """Users are added in this order, with solutions in between; removed users have no effect."""
    expected = slow.solve()
    resources, users = built(slow)
    solver = Sharing()
    passing = User([(resource, 1.0) for resource in resources if not resource.is_fatpipe])
    for user in users:
        if not any(slow.fat) and data.draw(st.booleans()):  # a part of the users may need more rounds than all
            solver.solve()
        solver.add(user)
    solver.add(passing)
    solver.solve()
    solver.remove(passing)
    solver.solve()
    assert [user.rate for user in users] == expected


def _interrupt(_number: int, _frame: object) -> None:
    raise InterruptedError
