"""The profile in C: the same answers as the plain one, operation by operation and schedule by schedule."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.built import built_part
from support.examples import examples
from support.located import DYNAMIC

from pybatsched.core.instants import HALF_TICK, TICK, instant
from pybatsched.core.jobs import Job
from pybatsched.policies import local
from pybatsched.policies.gains import PlainGains
from pybatsched.policies.profile import PlainProfile
from pybatsched.policies.rows import Rows
from pybatsched.testing import FakeBatsim, Workload, run_policy
from pybatsched_schedulers import conservative, ujfb


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Build it from this checkout."""
    return built_part("pybatsched.policies._profile", tmp_path_factory.mktemp("built"))


# --- operation by operation ---

at = st.integers(0, 40).map(float) | st.sampled_from([0.1, 0.3, 7.000001, 12.999999])
span = st.integers(0, 20).map(float) | st.sampled_from([0.0000005, 0.1, math.inf])
n_procs = st.integers(0, 9)
booking = st.tuples(n_procs, at, at | st.just(math.inf))

operations = st.one_of(
    st.tuples(st.sampled_from(["take", "give", "fits"]), booking),
    st.tuples(st.just("take_all"), st.tuples(st.lists(booking, max_size=8))),
    st.tuples(st.sampled_from(["advance", "next_step", "step_at", "free_at"]), st.tuples(at)),
    st.tuples(st.just("earliest"), st.tuples(n_procs, span, at) | st.tuples(n_procs, span, at, at)),
    st.tuples(st.just("better"), st.tuples(n_procs, span, at | st.just(math.inf), at, at)),
    st.tuples(
        st.just("sooner"),
        st.tuples(n_procs, span, at | st.just(math.inf), at, st.tuples(at, at | st.just(math.inf))),
    ),
    st.tuples(st.sampled_from(["most_free", "least_free"]), st.tuples(at, at | st.just(math.inf))),
    st.tuples(
        st.just("move"),
        st.tuples(n_procs, st.tuples(at | st.just(math.inf), at | st.just(math.inf)), st.tuples(at, at)),
    ),
)


@examples(1000)
@given(at, n_procs, st.lists(operations, max_size=30))
def test_every_operation_gives_what_the_plain_one_gives(
    compiled: Any, begin: float, n: int, steps: list[tuple[str, Any]]
) -> None:
    plain, fast = PlainProfile(begin, n), compiled.Profile(begin, n)
    for name, arguments in steps:
        before = fast.copy()
        expected = getattr(plain, name)(*arguments)
        assert getattr(fast, name)(*arguments) == expected, (name, arguments)
        assert fast.steps() == plain.steps(), (name, arguments)
        if name not in {"take", "give", "take_all", "advance", "move"}:
            assert before.steps() == fast.steps(), "a question changes nothing"


def test_a_copy_lives_on_its_own(compiled: Any) -> None:
    profile = compiled.Profile(0.0, 4)
    other = profile.copy()
    other.take(3, 1.0, 2.0)
    assert profile.steps() == [(0.0, 4)]
    assert other.steps() == [(0.0, 4), (1.0, 1), (2.0, 4)]


def test_it_counts_in_the_same_ticks_and_has_all_methods(compiled: Any) -> None:
    assert (compiled.HALF_TICK, compiled.TICK) == (HALF_TICK, TICK)
    for plain, fast in ((PlainProfile, compiled.Profile), (PlainGains, compiled.Gains)):
        public = {name for name in vars(plain) if not name.startswith("_")}
        assert {name for name in vars(fast) if not name.startswith("_")} == public


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("take", (1,), TypeError),
        ("take", ("one", 0.0, 1.0), TypeError),
        ("take", (1 << 70, 0.0, 1.0), OverflowError),
        ("take_all", (5,), TypeError),
        ("take_all", ([5],), TypeError),
        ("take_all", ([(1, 2.0)],), TypeError),
        ("take_all", ([(1, 2.0, 3.0), (1, "x", 3.0)],), TypeError),
        ("advance", ("now",), TypeError),
        ("free_at", (None,), TypeError),
    ],
)
def test_what_is_none_of_its_arguments_is_an_error_and_changes_nothing(
    compiled: Any, name: str, arguments: Any, error: type[Exception]
) -> None:
    profile = compiled.Profile(0.0, 4)
    with pytest.raises(error):
        getattr(profile, name)(*arguments)
    assert profile.steps() == [(0.0, 4)]


def test_what_a_generator_raises_goes_on(compiled: Any) -> None:
    def spans() -> Any:
        yield (1, 0.0, 5.0)
        raise RuntimeError("no more")

    profile = compiled.Profile(0.0, 4)
    with pytest.raises(RuntimeError, match="no more"):
        profile.take_all(spans())
    assert profile.steps() == [(0.0, 4)]


def test_many_steps(compiled: Any) -> None:
    plain, fast = PlainProfile(0.0, 3000), compiled.Profile(0.0, 3000)
    for k in range(1000):
        for profile in (plain, fast):
            profile.take(1, float(7 * k % 1009), float(7 * k % 1009 + k % 13 + 1))
    assert fast.steps() == plain.steps()


@given(st.lists(st.tuples(at | st.just(math.inf), at | st.just(math.inf)), max_size=30), st.data())
def test_gains_are_the_same(compiled: Any, added: list[tuple[float, float]], data: st.DataObject) -> None:
    plain, fast, forgotten = PlainGains(), compiled.Gains(), 0
    for start_at, end_at in added:
        plain.add(start_at, end_at)
        fast.add(start_at, end_at)
        other = fast.copy()
        since = data.draw(st.integers(forgotten, plain.n + 1))
        assert (fast.n, fast.any_since(since)) == (plain.n, plain.any_since(since))
        assert fast.hull_since(since) == other.hull_since(since) == plain.hull_since(since)
        if data.draw(st.booleans()):
            forgotten = since
            plain.forget(since)
            fast.forget(since)


def test_gains_that_were_forgotten_are_an_error(compiled: Any) -> None:
    for gains in (PlainGains(), compiled.Gains()):
        gains.add(1.0, 2.0)
        gains.forget(1)
        with pytest.raises(IndexError):
            gains.hull_since(0)


# --- pass by pass ---


class Plans:
    """A plan with either profile: what passes are given, and what they make of it."""

    def __init__(self, profile: Any, gains: Any, waiting: list[tuple[int, float, float]]) -> None:
        self.profile, self.gains, self.rows = profile, gains, Rows()
        for index, (n, span_s, place) in enumerate(waiting):
            self.rows.insert((0.0, index, Job(f"w0!{index}", n)), span_s, place, 0)

    def told(self) -> tuple[Any, ...]:
        rows, gains = self.rows, self.gains
        hulls = [gains.hull_since(n) for n in range(gains.n + 1)]
        return rows.places, rows.ends, rows.seen, hulls, self.profile.steps()


places = at | st.just(math.inf)
waiting_jobs = st.lists(st.tuples(n_procs, span, places), max_size=12)
passes = st.one_of(
    st.tuples(st.just("take"), booking),
    st.tuples(st.just("gain"), booking),
    st.tuples(st.sampled_from(["compress", "replan"]), st.tuples(at)),
    st.tuples(st.just("advance"), st.tuples(at)),
)


@examples(1000)
@given(st.integers(1, 9), waiting_jobs, st.lists(passes, max_size=12))
def test_every_pass_gives_what_the_plain_one_gives(
    compiled: Any, n: int, waiting: list[tuple[int, float, float]], steps: list[tuple[str, Any]]
) -> None:
    plain = Plans(PlainProfile(0.0, n), PlainGains(), waiting)
    fast = Plans(compiled.Profile(0.0, n), compiled.Gains(), waiting)
    for name, arguments in steps:
        answers: list[Any] = []
        for plan in (plain, fast):
            if name == "gain":
                plan.profile.give(*arguments)
                plan.gains.add(*arguments[1:])
                answers.append(None)
            elif name == "replan":
                plan.profile, answer = plan.profile.replan(*arguments, plan.rows, plan.gains)
                answers.append(answer)
            elif name == "compress":
                answers.append(plan.profile.compress(*arguments, plan.rows, plan.gains))
            else:
                answers.append(getattr(plan.profile, name)(*arguments))
        assert answers[0] == answers[1], name
        assert plain.told() == fast.told(), name


@examples(1000)
@given(at, n_procs, st.lists(booking, max_size=6), waiting_jobs, at, at | st.sampled_from([-math.inf, math.inf]))
def test_jobs_get_the_places_that_the_plain_one_gives_them(
    compiled: Any,
    begin: float,
    n: int,
    taken: list[tuple[int, float, float]],
    jobs: list[tuple[int, float, float]],
    now: float,
    freed_from: float,
) -> None:
    sizes, spans_s, before = [n for n, _, _ in jobs], [span_s for _, span_s, _ in jobs], [place for _, _, place in jobs]
    plain, fast = PlainProfile(begin, n), compiled.Profile(begin, n)
    for profile in (plain, fast):
        profile.take_all(taken)
    given_before = list(before)
    found = fast.place_anew(now, freed_from, sizes, spans_s, before)
    assert found == plain.place_anew(now, freed_from, sizes, spans_s, before)
    assert fast.steps() == plain.steps()
    assert before == given_before


@pytest.mark.parametrize(
    ("lists", "error"),
    [
        (([1], [1.0], []), ValueError),
        (([1], [], [0.0]), ValueError),
        (((1,), [1.0], [0.0]), TypeError),
        ((["one"], [1.0], [0.0]), TypeError),
        (([1], [None], [0.0]), TypeError),
        (([1], [1.0], ["now"]), TypeError),
        (([1 << 70], [1.0], [0.0]), OverflowError),
    ],
)
def test_jobs_that_are_none_get_no_places(compiled: Any, lists: Any, error: type[Exception]) -> None:
    profile = compiled.Profile(0.0, 4)
    with pytest.raises(error):
        profile.place_anew(0.0, 0.0, *lists)
    assert profile.steps() == [(0.0, 4)]


@examples(1000)
@given(st.floats(0, 1e10) | st.integers(0, 10**12).map(lambda n: n / 1e6 + HALF_TICK), st.floats(0, 1e10))
def test_ends_are_on_the_tick(compiled: Any, now: float, span_s: float) -> None:
    rows, gains = Rows(), compiled.Gains()
    rows.insert((0.0, 1, Job("w0!1", 1)), span_s, math.inf, 0)
    gains.add(0.0, math.inf)
    assert compiled.Profile(now, 1).compress(now, rows, gains) == [(0, math.inf)]
    assert (rows.places, rows.ends) == ([now], [instant(now, span_s)])


@pytest.mark.parametrize("name", ["compress", "replan"])
def test_rows_that_are_none_are_an_error(compiled: Any, name: str) -> None:
    class Odd:
        sizes, spans_s, places, ends, seen = ([1], [2.0], [3.0], [5.0], [0])

    profile = compiled.Profile(0.0, 4)
    for field, value, error in (
        ("sizes", ["one"], TypeError),
        ("sizes", (1,), TypeError),
        ("places", [None], TypeError),
        ("places", [], ValueError),
    ):
        odd: Any = type("Odder", (Odd,), {field: value})()
        gains = compiled.Gains()
        gains.add(0.0, 9.0)
        with pytest.raises(error):
            getattr(profile, name)(0.0, odd, gains)
    with pytest.raises(TypeError):
        getattr(profile, name)(0.0, Odd(), PlainGains())
    with pytest.raises(AttributeError):
        getattr(profile, name)(0.0, object(), compiled.Gains())


@examples(20)
@given(st.integers(0, 2**32))
def test_long_plans_are_passed_through_alike(compiled: Any, seed: int) -> None:
    """Over many blocks of the index; some ends are early, and some jobs outlive their estimates."""
    dice = Random(seed)
    waiting = [(dice.randint(1, 30), float(dice.choice([1, 5, 20, 100])), math.inf) for _ in range(150)]
    plain = Plans(PlainProfile(0.0, 32), PlainGains(), waiting)
    fast = Plans(compiled.Profile(0.0, 32), compiled.Gains(), waiting)
    for now in range(0, 300, 30):
        n, until = dice.randint(1, 30), now + dice.randint(2, 90)
        if dice.random() < 0.5:
            for plan in (plain, fast):
                plan.profile.give(n, now, until)
                plan.gains.add(now, until)
            plain.profile.advance(now)
            fast.profile.advance(now)
        else:
            plain.profile, fast.profile = PlainProfile(float(now), 32 - n), compiled.Profile(float(now), 32 - n)
            for plan in (plain, fast):
                plan.profile.give(n, until, math.inf)
                plan.profile, _ = plan.profile.replan(float(now), plan.rows, plan.gains)
        assert plain.told() == fast.told()
        freed_from = dice.choice([-math.inf, math.inf, float(now + dice.randint(0, 200))])
        others = [
            (dice.randint(1, 30), float(dice.choice([1, 5, 20])), float(now + dice.randint(0, 300))) for _ in range(50)
        ]
        lists = [[job[i] for job in others] for i in range(3)]
        full = [plan.profile.copy() for plan in (plain, fast)]
        placed = [profile.place_anew(float(now), freed_from, *lists) for profile in full]
        assert placed[0] == placed[1]
        assert full[0].steps() == full[1].steps()
        moved = [plan.profile.compress(float(now), plan.rows, plan.gains) for plan in (plain, fast)]
        assert moved[0] == moved[1]
        assert plain.told() == fast.told()


# --- schedule by schedule ---


@st.composite
def crowds(draw: st.DrawFn) -> Workload:
    """Draw jobs that often wait, of which some end early and some outlive their estimates."""
    workload, now = Workload(), 0
    for index in range(draw(st.integers(5, 30))):
        now += draw(st.integers(0, 3))
        run = draw(st.integers(1, 20))
        estimate = draw(st.sampled_from([run, run, 3 * run, 10 * run, max(run // 2, 1)]))
        fields: dict[str, Any] = {"estimate": estimate, "walltime": max(run, estimate) + 1}
        kind = draw(st.sampled_from(["", "", "deadline", "urgent"]))
        if kind:
            fields[kind] = now + 30 + 2 * estimate if kind == "deadline" else True
        workload.job(f"{index:02}", n=draw(st.integers(1, 8)), s=run, at=now, **fields)
    return workload


def starts(run: FakeBatsim) -> dict[str, tuple[float | None, str]]:
    assert not run.deadlocked
    return {job.id: (job.started_at, str(job.procs)) for job in run.jobs.values()}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "dbf", "ujfb", "reallocation"])
@examples(100)
@given(workload=crowds())
def test_every_policy_starts_the_same_jobs_on_the_same_processors(
    compiled: Any, policy: str, workload: Workload
) -> None:
    plain = starts(run_policy(policy, workload, 8, config=DYNAMIC))
    with pytest.MonkeyPatch.context() as patch:
        for module in (local, conservative, ujfb):
            patch.setattr(module, "Profile", compiled.Profile)
        patch.setattr(conservative, "Gains", compiled.Gains)
        assert starts(run_policy(policy, workload, 8, config=DYNAMIC)) == plain


@pytest.mark.parametrize("policy", ["conservative", "dbf", "ujfb"])
@examples(50)
@given(workload=crowds(), n_many=st.sampled_from([0, 1, 3]))
def test_how_many_moves_are_too_many_to_keep_places_sorted_changes_nothing(
    policy: str, workload: Workload, n_many: int
) -> None:
    usual = starts(run_policy(policy, workload, 8, config=DYNAMIC))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conservative, "MANY", n_many)
        assert starts(run_policy(policy, workload, 8, config=DYNAMIC)) == usual
