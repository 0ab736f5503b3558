"""The profile in C: the same answers as the plain one, operation by operation and schedule by schedule."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.built import built_part
from support.examples import examples
from support.located import DYNAMIC

from pybatsched.core.instants import HALF_TICK
from pybatsched.policies import local
from pybatsched.policies.profile import PlainProfile
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
        if name not in {"take", "give", "take_all", "advance"}:
            assert before.steps() == fast.steps(), "a question changes nothing"


def test_a_copy_lives_on_its_own(compiled: Any) -> None:
    profile = compiled.Profile(0.0, 4)
    other = profile.copy()
    other.take(3, 1.0, 2.0)
    assert profile.steps() == [(0.0, 4)]
    assert other.steps() == [(0.0, 4), (1.0, 1), (2.0, 4)]


def test_it_counts_in_the_same_ticks_and_has_all_methods(compiled: Any) -> None:
    assert compiled.HALF_TICK == HALF_TICK
    public = {name for name in vars(PlainProfile) if not name.startswith("_")}
    assert {name for name in vars(compiled.Profile) if not name.startswith("_")} == public


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
        assert starts(run_policy(policy, workload, 8, config=DYNAMIC)) == plain
