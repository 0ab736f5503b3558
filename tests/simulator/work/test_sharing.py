"""Fair sharing, plain and in C: worked examples, a slow reference solver, and the properties of any fair share."""

from __future__ import annotations

import gc
import math
import signal
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given, strategies as st
from support.built import built_part

from pybatsched.errors import InputError
from pybatsched.simulator.work import sharing
from pybatsched.simulator.work.sharing import USED_UP, PlainResource, PlainSharing, PlainUser

#: The classes of one of the twins.
Twin: TypeAlias = Any


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Build the twin in C from this checkout."""
    return built_part("pybatsched.simulator.work._sharing", tmp_path_factory)


@pytest.fixture(scope="module", params=["plain", "in C"])
def twin(request: pytest.FixtureRequest) -> Twin:
    if request.param == "in C":
        return request.getfixturevalue("compiled")
    return SimpleNamespace(Resource=PlainResource, User=PlainUser, Sharing=PlainSharing)


def rates(twin: Twin, users: list[Any]) -> list[float]:
    solver = twin.Sharing()
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
def test_a_resource_is_shared_by_its_users(
    twin: Twin, capacities: list[float], users: list[Any], expected: list[float]
) -> None:
    resources = [twin.Resource(capacity) for capacity in capacities]
    made = [
        twin.User([(resources[i], need) for i, need in needs], **({} if bound is None else {"bound": bound}))
        for needs, bound in users
    ]
    assert rates(twin, made) == expected


def test_a_fat_pipe_gives_each_user_all(twin: Twin) -> None:
    pipe = twin.Resource(10.0, is_fatpipe=True)
    assert rates(twin, [twin.User([(pipe, 1.0)]), twin.User([(pipe, 5.0)])]) == [10.0, 2.0]


def test_a_bound_counts_again_in_later_rounds(twin: Twin) -> None:
    """The second stops at 1 in the first round (5 each), and is charged 1 again in the second: 10 - 6 - 4 - 1 < 0."""
    link = twin.Resource(10.0)
    assert rates(twin, [twin.User([(link, 1.0)]), twin.User([(link, 1.0)], bound=1.0)]) == [9.0, 1.0]
    link = twin.Resource(12.0)
    other = twin.Resource(1.0)
    users = [twin.User([(link, 1.0)]), twin.User([(link, 1.0)], bound=1.0), twin.User([(link, 1.0), (other, 1.0)])]
    assert rates(twin, users)[:2] == [10.0, 1.0]


def test_only_what_a_change_affects_is_solved_again(twin: Twin) -> None:
    solver, left, right = twin.Sharing(), twin.Resource(4.0), twin.Resource(6.0)
    a, b, c = twin.User([(left, 1.0)]), twin.User([(left, 1.0)]), twin.User([(right, 1.0)])
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


def test_a_fat_pipe_on_which_the_solver_would_not_end(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second reaches its bound with a gain of 1e-9, which is all that the pipe loses in each later round."""
    monkeypatch.setattr(sharing, "MAX_ROUNDS", 1000)
    pipe, host = twin.Resource(1e3, is_fatpipe=True), twin.Resource(2e12)
    with pytest.raises(InputError, match="FATPIPE"):
        rates(twin, [twin.User([(pipe, 1e-6), (host, 1e-6)]), twin.User([(pipe, 1.0)], bound=1e-9)])
    with pytest.raises(InputError, match="FATPIPE"):
        rates(twin, [twin.User([(pipe, 1e-6)]), twin.User([(pipe, 1.0)], bound=1e-9)])


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


def built(twin: Twin, slow: Slow) -> tuple[list[Any], list[Any]]:
    resources = [twin.Resource(c, is_fatpipe=f) for c, f in zip(slow.capacities, slow.fat, strict=True)]
    return resources, [twin.User([(resources[r], w) for r, w in needs], bound) for needs, bound in slow.users]


@given(systems())
def test_rates_equal_those_of_the_slow_solver_exactly(twin: Twin, slow: Slow) -> None:
    expected = slow.solve()
    _, users = built(twin, slow)
    assert rates(twin, users) == expected


@given(systems())
def test_no_resource_is_overused_and_no_bound_exceeded(twin: Twin, slow: Slow) -> None:
    slow.solve()  # which gives up on what takes too many rounds
    resources, users = built(twin, slow)
    rates(twin, users)
    for resource in resources:  # of a fat pipe, SimGrid gives more than there is if its users have other limits
        assert resource.is_fatpipe or resource.load() <= resource.capacity * (1 + 1e-9) + USED_UP
    for user in users:
        assert user.rate <= user.bound or not user.needs


@given(systems(), st.data())
def test_any_order_of_changes_gives_the_same_rates(twin: Twin, slow: Slow, data: st.DataObject) -> None:
    """Users are added in this order, with solutions in between; removed users have no effect."""
    expected = slow.solve()
    resources, users = built(twin, slow)
    solver = twin.Sharing()
    passing = twin.User([(resource, 1.0) for resource in resources if not resource.is_fatpipe])
    for user in users:
        if not any(slow.fat) and data.draw(st.booleans()):  # a part of the users may need more rounds than all
            solver.solve()
        solver.add(user)
    solver.add(passing)
    solver.solve()
    solver.remove(passing)
    solver.solve()
    assert [user.rate for user in users] == expected


@given(st.randoms(use_true_random=False))
def test_both_twins_agree_after_any_changes(compiled: Any, dice: Random) -> None:
    plain = SimpleNamespace(Resource=PlainResource, User=PlainUser, Sharing=PlainSharing)
    twins = (plain, compiled)
    capacities = [dice.choice([1.0, 2.0, dice.uniform(0.1, 100)]) for _ in range(dice.randint(1, 14))]
    resources = [[twin.Resource(capacity) for capacity in capacities] for twin in twins]
    solvers = [twin.Sharing() for twin in twins]
    users: list[list[Any]] = []
    for _ in range(25):
        kind = dice.choice(["add", "add", "remove", "capacity", "bound", "solve"])
        if kind == "add":
            needs = [
                (dice.randrange(len(capacities)), dice.choice([1.0, 3.0, dice.uniform(0.1, 9)]))
                for _ in range(dice.randint(0, 12))
            ]
            bound = dice.choice([math.inf, dice.uniform(0.01, 5)])
            users.append(
                [
                    twin.User([(own[place], weight) for place, weight in needs], bound)
                    for twin, own in zip(twins, resources, strict=True)
                ]
            )
            for solver, user in zip(solvers, users[-1], strict=True):
                solver.add(user)
        elif kind == "remove" and users:
            for solver, user in zip(solvers, users.pop(dice.randrange(len(users))), strict=True):
                solver.remove(user)
        elif kind == "capacity":
            place, capacity = dice.randrange(len(capacities)), dice.uniform(0.1, 50)
            for solver, own in zip(solvers, resources, strict=True):
                own[place].capacity = capacity
                solver.change(own[place])
        elif kind == "bound" and users:
            bound = dice.uniform(0.01, 5)
            for solver, user in zip(solvers, dice.choice(users), strict=True):
                user.bound = bound
                for resource, _ in user.needs:
                    solver.change(resource)
        else:
            for solver in solvers:
                solver.solve()
            assert [a.rate for a, _ in users] == [b.rate for _, b in users]
            assert [a.load() for a in resources[0]] == [b.load() for b in resources[1]]


def test_a_signal_interrupts_many_rounds(compiled: Any) -> None:
    """The rounds would take hours: a fat pipe with many users, which loses almost nothing in each round."""
    pipe, host = compiled.Resource(1e3, is_fatpipe=True), compiled.Resource(2e12)
    users = [compiled.User([(pipe, 1e-6), (host, 1e-6)]) for _ in range(2_000)]
    users.append(compiled.User([(pipe, 1.0)], bound=1e-9))
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        # patience: any time will do, because the rounds take hours
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError):
            rates(compiled, users)
    finally:
        # patience: 0 switches the timer off
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _interrupt(_number: int, _frame: object) -> None:
    raise InterruptedError


def test_the_twin_in_c_has_the_same_limits(compiled: Any) -> None:
    assert compiled.USED_UP == USED_UP
    assert compiled.MAX_ROUNDS == sharing.MAX_ROUNDS


def test_wrong_arguments_are_refused(compiled: Any) -> None:
    link = compiled.Resource(1.0)
    solver = compiled.Sharing()
    for wrong in (1, [1], [(link,)], [(link, "1")], [(PlainResource(1.0), 1.0)], [(link, 1.0), (link, None)]):
        with pytest.raises(TypeError):
            compiled.User(wrong)
    for method in (solver.add, solver.remove, solver.change):
        with pytest.raises(TypeError):
            method(None)
    user = compiled.User([(link, 1.0)])
    with pytest.raises(KeyError):
        solver.remove(user)
    solver.add(user)
    with pytest.raises(ValueError, match="already"):
        solver.add(user)
    solver.solve()
    assert user.rate == 1.0


def test_a_forgotten_user_leaves_its_resources(compiled: Any) -> None:
    """Unlike the plain resource, one in C does not keep its users alive."""
    link, solver = compiled.Resource(4.0), compiled.Sharing()
    kept, forgotten = compiled.User([(link, 1.0), (link, 1.0)]), compiled.User([(link, 1.0)])
    solver.add(forgotten)
    solver.add(kept)
    del forgotten
    gc.collect()
    solver.solve()
    assert (kept.rate, link.load()) == (2.0, 4.0)
    del link, solver
    gc.collect()
    assert kept.needs[0][0].load() == 4.0
