"""The availability profile in C: equal to the plain one, operation by operation and schedule by schedule."""

from __future__ import annotations

import copy
import math
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st
from support.built import built_part
from support.examples import examples
from support.located import DYNAMIC

from pybatsched.core.instants import HALF_TICK, TICK, instant
from pybatsched.core.jobs import Job
from pybatsched.policies import local_scheduler as local
from pybatsched.policies.availability import PlainProfile
from pybatsched.policies.freed_intervals import PlainFreedIntervals
from pybatsched.policies.reservations import Reservations
from pybatsched.testing import FakeBatsim, Workload, run_policy
from pybatsched_schedulers import conservative
from pybatsched_schedulers.ujfb import policy as ujfb


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Build it from this checkout."""
    return built_part("pybatsched.policies._profile", tmp_path_factory)


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
        st.just("sooner"), st.tuples(n_procs, span, at | st.just(math.inf), at, st.tuples(at, at | st.just(math.inf)))
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
    plain, fast = PlainProfile(begin, n), compiled.AvailabilityProfile(begin, n)
    for name, arguments in steps:
        before = fast.copy()
        expected = getattr(plain, name)(*arguments)
        assert getattr(fast, name)(*arguments) == expected, (name, arguments)
        assert fast.steps() == plain.steps(), (name, arguments)
        if name not in {"take", "give", "take_all", "advance", "move"}:
            assert before.steps() == fast.steps(), "a question changes nothing"


def test_a_copy_is_independent(compiled: Any) -> None:
    profile = compiled.AvailabilityProfile(0.0, 4)
    other = profile.copy()
    other.take(3, 1.0, 2.0)
    assert profile.steps() == [(0.0, 4)]
    assert other.steps() == [(0.0, 4), (1.0, 1), (2.0, 4)]


def test_it_counts_in_the_same_ticks_and_has_all_methods(compiled: Any) -> None:
    assert (compiled.HALF_TICK, compiled.TICK) == (HALF_TICK, TICK)
    for plain, fast in ((PlainProfile, compiled.AvailabilityProfile), (PlainFreedIntervals, compiled.FreedIntervals)):
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
def test_invalid_arguments_are_errors_and_change_nothing(
    compiled: Any, name: str, arguments: Any, error: type[Exception]
) -> None:
    profile = compiled.AvailabilityProfile(0.0, 4)
    with pytest.raises(error):
        getattr(profile, name)(*arguments)
    assert profile.steps() == [(0.0, 4)]


def test_an_exception_of_a_generator_is_passed_on(compiled: Any) -> None:
    def spans() -> Any:
        yield (1, 0.0, 5.0)
        raise RuntimeError("no more")

    profile = compiled.AvailabilityProfile(0.0, 4)
    with pytest.raises(RuntimeError, match="no more"):
        profile.take_all(spans())
    assert profile.steps() == [(0.0, 4)]


def test_profiles_with_many_steps_are_equal(compiled: Any) -> None:
    plain, fast = PlainProfile(0.0, 3000), compiled.AvailabilityProfile(0.0, 3000)
    for k in range(1000):
        for profile in (plain, fast):
            profile.take(1, float(7 * k % 1009), float(7 * k % 1009 + k % 13 + 1))
    assert fast.steps() == plain.steps()


@given(st.lists(st.tuples(at | st.just(math.inf), at | st.just(math.inf)), max_size=30), st.data())
def test_freed_intervals_are_equal(compiled: Any, added: list[tuple[float, float]], data: st.DataObject) -> None:
    plain, fast, forgotten = PlainFreedIntervals(), compiled.FreedIntervals(), 0
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


def test_reading_forgotten_freed_intervals_is_an_error(compiled: Any) -> None:
    for gains in (PlainFreedIntervals(), compiled.FreedIntervals()):
        gains.add(1.0, 2.0)
        gains.forget(1)
        with pytest.raises(IndexError):
            gains.hull_since(0)


class Plans:
    """A plan with one of the two profiles: input and result of passes."""

    def __init__(self, profile: Any, gains: Any, waiting: list[tuple[int, float, float]]) -> None:
        self.profile, self.gains, self.rows = profile, gains, Reservations()
        for index, (n, span_s, place) in enumerate(waiting):
            self.rows.insert((0.0, index, Job(f"w0!{index}", n)), span_s, place, 0)

    def state(self) -> tuple[Any, ...]:
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
    plain = Plans(PlainProfile(0.0, n), PlainFreedIntervals(), waiting)
    fast = Plans(compiled.AvailabilityProfile(0.0, n), compiled.FreedIntervals(), waiting)
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
        assert plain.state() == fast.state(), name


@examples(1000)
@given(at, n_procs, st.lists(booking, max_size=6), waiting_jobs, at, at | st.sampled_from([-math.inf, math.inf]))
def test_jobs_get_the_same_places(
    compiled: Any,
    begin: float,
    n: int,
    taken: list[tuple[int, float, float]],
    jobs: list[tuple[int, float, float]],
    now: float,
    freed_from: float,
) -> None:
    sizes, spans_s, before = [n for n, _, _ in jobs], [span_s for _, span_s, _ in jobs], [place for _, _, place in jobs]
    plain, fast = PlainProfile(begin, n), compiled.AvailabilityProfile(begin, n)
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
def test_invalid_job_lists_are_rejected(compiled: Any, lists: Any, error: type[Exception]) -> None:
    profile = compiled.AvailabilityProfile(0.0, 4)
    with pytest.raises(error):
        profile.place_anew(0.0, 0.0, *lists)
    assert profile.steps() == [(0.0, 4)]


between_ticks = st.builds(
    lambda n, k: (2 * n + 1) / 2e6 + k * math.ulp(n / 1e6), st.integers(0, 10**15), st.integers(-3, 3)
).filter(lambda x: x >= 0)


@examples(3000)
@given(st.floats(0, 1e10) | between_ticks, st.floats(0, 1e10) | st.just(0.0))
def test_ends_are_on_the_tick(compiled: Any, now: float, span_s: float) -> None:
    rows, gains = Reservations(), compiled.FreedIntervals()
    rows.insert((0.0, 1, Job("w0!1", 1)), span_s, math.inf, 0)
    gains.add(0.0, math.inf)
    assert compiled.AvailabilityProfile(now, 1).compress(now, rows, gains) == [(0, math.inf)]
    assert (rows.places, rows.ends) == ([now], [instant(now, span_s)])


@pytest.mark.parametrize("name", ["compress", "replan"])
def test_invalid_reservation_rows_are_errors(compiled: Any, name: str) -> None:
    class Odd:
        sizes, spans_s, places, ends, seen = ([1], [2.0], [3.0], [5.0], [0])

    profile = compiled.AvailabilityProfile(0.0, 4)
    for field, value, error in (
        ("sizes", ["one"], TypeError),
        ("sizes", (1,), TypeError),
        ("places", [None], TypeError),
        ("places", [], ValueError),
    ):
        odd: Any = type("Odder", (Odd,), {field: value})()
        gains = compiled.FreedIntervals()
        gains.add(0.0, 9.0)
        with pytest.raises(error):
            getattr(profile, name)(0.0, odd, gains)
    with pytest.raises(TypeError):
        getattr(profile, name)(0.0, Odd(), PlainFreedIntervals())
    with pytest.raises(AttributeError):
        getattr(profile, name)(0.0, object(), compiled.FreedIntervals())


@examples(20)
@given(st.integers(0, 2**32))
def test_passes_over_long_plans_are_equal(compiled: Any, seed: int) -> None:
    """Over many blocks of the index; some ends are early, and some jobs outlive their estimates."""
    dice = Random(seed)
    waiting = [(dice.randint(1, 30), float(dice.choice([1, 5, 20, 100])), math.inf) for _ in range(150)]
    plain = Plans(PlainProfile(0.0, 32), PlainFreedIntervals(), waiting)
    fast = Plans(compiled.AvailabilityProfile(0.0, 32), compiled.FreedIntervals(), waiting)
    for now in range(0, 300, 30):
        n, until = dice.randint(1, 30), now + dice.randint(2, 90)
        if dice.random() < 0.5:
            for plan in (plain, fast):
                plan.profile.give(n, now, until)
                plan.gains.add(now, until)
            plain.profile.advance(now)
            fast.profile.advance(now)
        else:
            plain.profile, fast.profile = (
                PlainProfile(float(now), 32 - n),
                compiled.AvailabilityProfile(float(now), 32 - n),
            )
            for plan in (plain, fast):
                plan.profile.give(n, until, math.inf)
                plan.profile, _ = plan.profile.replan(float(now), plan.rows, plan.gains)
        assert plain.state() == fast.state()
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
        assert plain.state() == fast.state()


class Twin(NamedTuple):
    """The classes of one of the two."""

    profile: Any
    gains: Any


@pytest.fixture(params=["plain", "compiled"])
def twin(request: pytest.FixtureRequest, compiled: Any) -> Twin:
    if request.param == "plain":
        return Twin(PlainProfile, PlainFreedIntervals)
    return Twin(compiled.AvailabilityProfile, compiled.FreedIntervals)


FIELDS = ("sizes", "spans_s", "places", "ends", "seen")


def crowded(twin: Twin) -> Plans:
    """A plan in which every pass moves the first job, and has two more to look at."""
    plan = Plans(twin.profile(0.0, 4), twin.gains(), [(2, 10.0, math.inf), (3, 5.0, math.inf), (1, 5.0, math.inf)])
    plan.gains.add(0.0, math.inf)
    return plan


def run_pass(plan: Plans, name: str, now: float = 0.0) -> Any:
    rows = plan.rows
    if name == "place_anew":
        return plan.profile.place_anew(now, -math.inf, rows.sizes, rows.spans_s, rows.places)
    return getattr(plan.profile, name)(now, rows, plan.gains)


PASSES = [(name, field) for name in ("compress", "replan") for field in FIELDS]
PASSES += [("place_anew", field) for field in FIELDS[:3]]


def test_the_passes_of_these_tests_change_the_plan(twin: Twin) -> None:
    for name in ("compress", "replan", "place_anew"):
        plan, before = crowded(twin), crowded(twin).state()
        run_pass(plan, name)
        assert plan.state() != before


@pytest.mark.parametrize(("name", "field"), PASSES)
def test_a_number_whose_conversion_clears_the_rows_is_rejected(twin: Twin, name: str, field: str) -> None:
    plan = crowded(twin)

    class Clearing:
        def clear(self) -> Any:
            for one in FIELDS:
                getattr(plan.rows, one).clear()
            return 1

        __index__ = __float__ = clear

    getattr(plan.rows, field)[1] = Clearing()
    before = copy.deepcopy([getattr(plan.rows, one) for one in FIELDS if one != field])
    steps = plan.profile.steps()
    with pytest.raises(TypeError):
        run_pass(plan, name)
    assert [getattr(plan.rows, one) for one in FIELDS if one != field] == before
    assert len(getattr(plan.rows, field)) == 3
    assert plan.profile.steps() == steps


@pytest.mark.parametrize(("name", "field"), PASSES)
@pytest.mark.parametrize(
    ("value", "error"), [("x", TypeError), (None, TypeError), (1j, TypeError), (math.nan, ValueError)]
)
def test_a_wrong_value_behind_good_ones_changes_nothing(
    twin: Twin, name: str, field: str, value: Any, error: type[Exception]
) -> None:
    plan = crowded(twin)
    getattr(plan.rows, field)[2] = value
    before = copy.deepcopy(plan.state())
    with pytest.raises(TypeError if field in {"sizes", "seen"} else error):
        run_pass(plan, name)
    assert repr(plan.state()) == repr(before)  # NaN is not equal to itself


@pytest.mark.parametrize(("name", "field"), PASSES)
def test_rows_of_different_lengths_change_nothing(twin: Twin, name: str, field: str) -> None:
    plan = crowded(twin)
    getattr(plan.rows, field).pop()
    before = copy.deepcopy(plan.state())
    with pytest.raises(ValueError, match="lists of one length"):
        run_pass(plan, name)
    assert plan.state() == before


@pytest.mark.parametrize("name", ["compress", "replan"])
def test_rows_that_change_their_lists_during_a_pass_are_rejected(twin: Twin, name: str) -> None:
    class Emptying:
        sizes, spans_s, places, ends = [1, 1], [2.0, 2.0], [3.0, 3.0], [5.0, 5.0]

        @property
        def seen(self) -> list[int]:
            self.sizes.clear()
            return [0, 0]

    gains = twin.gains()
    gains.add(0.0, 9.0)
    with pytest.raises(ValueError, match="lists of one length"):
        getattr(twin.profile(0.0, 4), name)(0.0, Emptying(), gains)


@pytest.mark.parametrize(("value", "error"), [(math.nan, ValueError), ("x", TypeError)])
@pytest.mark.parametrize("name", ["compress", "replan", "place_anew"])
def test_a_wrong_instant_of_a_pass_changes_nothing(twin: Twin, name: str, value: Any, error: type[Exception]) -> None:
    plan = crowded(twin)
    before = copy.deepcopy(plan.state())
    with pytest.raises(error):
        run_pass(plan, name, value)
    assert plan.state() == before


def test_a_pass_with_forgotten_freed_intervals_changes_nothing(twin: Twin) -> None:
    plan = crowded(twin)
    plan.gains.forget(1)
    before = copy.deepcopy([getattr(plan.rows, one) for one in FIELDS])
    with pytest.raises(IndexError):
        run_pass(plan, "compress")
    assert [getattr(plan.rows, one) for one in FIELDS] == before
    assert plan.profile.steps() == [(0.0, 4)]


NAN = math.nan


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("advance", (NAN,)),
        ("take", (1, NAN, 5.0)),
        ("take", (1, 5.0, NAN)),
        ("take", (1, math.inf, NAN)),
        ("give", (1, NAN, 5.0)),
        ("give", (1, 0.0, NAN)),
        ("take_all", ([(1, 0.0, 1.0), (1, NAN, 5.0)],)),
        ("take_all", ([(1, 0.0, 1.0), (1, 2.0, NAN)],)),
        ("move", (1, (NAN, 5.0), (2.0, 4.0))),
        ("move", (1, (3.0, NAN), (2.0, 4.0))),
        ("move", (1, (3.0, 5.0), (NAN, 4.0))),
        ("move", (1, (3.0, 5.0), (2.0, NAN))),
        ("place_anew", (0.0, NAN, [1], [1.0], [0.0])),
        ("earliest", (1, NAN, 0.0)),
        ("earliest", (1, 1.0, NAN)),
        ("earliest", (1, 1.0, NAN, 5.0)),
        ("earliest", (1, 1.0, 0.0, NAN)),
        ("fits", (1, NAN, 5.0)),
        ("fits", (1, 0.0, NAN)),
        ("least_free", (NAN, 5.0)),
        ("most_free", (0.0, NAN)),
        ("next_step", (NAN,)),
        ("step_at", (NAN,)),
        ("free_at", (NAN,)),
        ("better", (1, NAN, 5.0, 0.0, 9.0)),
        ("better", (1, 1.0, NAN, 0.0, 9.0)),
        ("better", (1, 1.0, 5.0, NAN, 9.0)),
        ("better", (1, 1.0, 5.0, 0.0, NAN)),
        ("sooner", (1, NAN, 5.0, 0.0, (0.0, 9.0))),
        ("sooner", (1, 1.0, NAN, 0.0, (0.0, 9.0))),
        ("sooner", (1, 1.0, 5.0, NAN, (0.0, 9.0))),
        ("sooner", (1, 1.0, 5.0, 0.0, (NAN, 9.0))),
        ("sooner", (1, 1.0, 5.0, 0.0, (0.0, NAN))),
    ],
)
def test_a_time_that_is_nan_is_rejected(twin: Twin, name: str, arguments: Any) -> None:
    profile = twin.profile(0.0, 4)
    profile.take(2, 1.0, 7.0)
    steps = profile.steps()
    with pytest.raises(ValueError, match="a time is NaN; expected a number of seconds"):
        getattr(profile, name)(*arguments)
    assert profile.steps() == steps


def test_starts_and_freed_intervals_at_nan_are_rejected(twin: Twin) -> None:
    with pytest.raises(ValueError, match="a time is NaN"):
        twin.profile(NAN, 4)
    gains = twin.gains()
    for span in ((NAN, 1.0), (0.0, NAN)):
        with pytest.raises(ValueError, match="a time is NaN"):
            gains.add(*span)
    assert gains.n == 0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("give", ("one", 1.0, 5.0)), ("give", (None, 1.0, 5.0)), ("move", (1, (3.0, "x"), (2.0, 4.0)))],
)
def test_values_that_are_not_numbers_change_nothing(twin: Twin, name: str, arguments: Any) -> None:
    profile = twin.profile(0.0, 4)
    with pytest.raises(TypeError):
        getattr(profile, name)(*arguments)
    assert profile.steps() == [(0.0, 4)]


def test_a_subclass_may_have_another_constructor(twin: Twin) -> None:
    class Named(twin.profile):  # type: ignore[misc, name-defined]
        def __init__(self, name: str, *, n: int) -> None:
            super().__init__(1.0, n)
            self.name = name

    class Counted(twin.gains):  # type: ignore[misc, name-defined]
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    profile = Named("night", n=4)
    profile.take(3, 2.0, 5.0)
    other = profile.copy()
    other.give(3, 2.0, 5.0)
    assert (profile.name, profile.steps()) == ("night", [(1.0, 4), (2.0, 1), (5.0, 4)])
    assert (type(other), other.steps()) == (Named, [(1.0, 4)])
    gains = Counted("night")
    gains.add(0.0, 1.0)
    assert (gains.name, gains.n, type(gains.copy())) == ("night", 1, Counted)
    with pytest.raises(TypeError):
        twin.profile("night", n=4)


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
            patch.setattr(module, "AvailabilityProfile", compiled.AvailabilityProfile)
        patch.setattr(conservative, "FreedIntervals", compiled.FreedIntervals)
        assert starts(run_policy(policy, workload, 8, config=DYNAMIC)) == plain


@pytest.mark.parametrize("policy", ["conservative", "dbf", "ujfb"])
@examples(50)
@given(workload=crowds(), n_many=st.sampled_from([0, 1, 3]))
def test_the_limit_for_keeping_places_sorted_does_not_change_schedules(
    policy: str, workload: Workload, n_many: int
) -> None:
    usual = starts(run_policy(policy, workload, 8, config=DYNAMIC))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conservative, "MANY", n_many)
        assert starts(run_policy(policy, workload, 8, config=DYNAMIC)) == usual
