"""Ids of finished jobs: stored exactly and in little memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from pybatsched.core import finished_jobs
from pybatsched.core.finished_jobs import N_RECENT, FinishedJobs, IdSet, _numbered

#: Texts that are near to each other: with and without numbers, zeros in front, points, digits of other scripts.
NAMES = (
    st.text("w!01.2a٣", max_size=6)
    | st.integers(0, 300).map("w0!{}".format)
    | st.integers(0, 99).map("d!w.{}.1".format)
)


@given(st.lists(NAMES), st.lists(NAMES), st.integers(0, 4))
def test_the_id_set_equals_a_python_set(members: list[str], asked: list[str], max_series: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finished_jobs, "_MAX_SERIES", max_series)
        found, expected = IdSet(), set()
        for member in members:
            found.add(member)
            expected.add(member)
            assert found.has(member)
        assert [found.has(one) for one in asked + members] == [one in expected for one in asked + members]


@given(st.sets(NAMES))
def test_different_ids_have_different_numbered_forms(names: set[str]) -> None:
    apart = [found for name in names if (found := _numbered(name)) is not None]
    assert len(set(apart)) == len(apart)


def test_numbers_of_any_length_are_kept() -> None:
    found = IdSet()
    for number in range(5_000):
        found.add(f"w0!{10**25 + number}")
    assert found.has(f"w0!{10**25 + 4_999}")
    assert not found.has(f"w0!{10**25 + 5_000}")


@pytest.mark.parametrize(
    "form",
    ["w0!{}", "w0!{:09}", "dynamic!w0.{}.1", "{}", "dyn!w0.{}.0.1", "w0!{}.0", "w0!{}.0.1", "w0!job{}.2", "{}.0.1"],
)
def test_numbered_ids_need_little_memory(form: str) -> None:
    """In the order in which jobs end: nearly that of their numbers."""
    dice = random.Random(1)
    found = IdSet()
    for number in sorted(range(20_000), key=lambda number: number + dice.randrange(100)):
        found.add(form.format(number))
    assert found.n_kept < 20_000 / 50


def test_sparse_numbers_and_many_series_are_kept_one_by_one() -> None:
    found = IdSet()
    for number in range(10_000):
        found.add(f"w0!{number * 7000}")
        found.add(f"{number}x{number}")
    assert found.n_kept == 20_000
    assert found.has("w0!69993000")
    assert found.has("9999x9999")
    assert not found.has("w0!69992999")
    assert not found.has("9999x9998")


def test_every_second_number_takes_a_bit() -> None:
    """As the ids of jobs that are registered for some of the jobs that come."""
    dice = random.Random(1)
    members = {number for number in range(100_000) if dice.random() < 0.5}
    found = IdSet()
    for number in sorted(members, key=lambda number: number + dice.randrange(100)):
        found.add(f"dyn!w0.{number}.1")
    assert found.n_kept < 100_000 / 500
    assert {number for number in range(-1, 100_001) if found.has(f"dyn!w0.{number}.1")} == members


def test_outcomes_are_kept_for_recent_jobs_only() -> None:
    over = FinishedJobs()
    n = 3 * finished_jobs.N_RECENT
    for number in range(n):
        over.add(f"w0!{number}", "COMPLETED_KILLED" if number % 10 == 0 else "COMPLETED_SUCCESSFULLY", float(number))
    assert over.outcome(f"w0!{n - 1}") == f"COMPLETED_SUCCESSFULLY at {n - 1}.0"
    assert (over.outcome("w0!1"), over.outcome("w0!10")) == ("long ago", "killed long ago")
    assert over.outcome(f"w0!{n}") is None
    assert all(over.has(f"w0!{number}") for number in range(n))
    assert not over.has(f"w0!{n}")
    assert [number for number in range(n) if over.was_killed(f"w0!{number}")] == list(range(0, n, 10))


def test_a_continued_job_that_ended_was_not_killed() -> None:
    finished_jobs = FinishedJobs()
    finished_jobs.add("w!1", "continued as dyn!1")
    for number in range(N_RECENT + 1):
        finished_jobs.add(f"a!{number}", "COMPLETED_SUCCESSFULLY", 1.0)
    assert (finished_jobs.outcome("w!1"), finished_jobs.was_killed("w!1")) == ("killed long ago", True)
    finished_jobs.add("w!1", "COMPLETED_SUCCESSFULLY", 2.0)
    assert (finished_jobs.outcome("w!1"), finished_jobs.was_killed("w!1")) == ("COMPLETED_SUCCESSFULLY at 2.0", False)
    for number in range(N_RECENT + 1):
        finished_jobs.add(f"b!{number}", "COMPLETED_SUCCESSFULLY", 3.0)
    assert (finished_jobs.outcome("w!1"), finished_jobs.was_killed("w!1"), finished_jobs.has("w!1")) == (
        "long ago",
        False,
        True,
    )


def test_a_job_that_ends_now_is_recent_even_if_it_continued_long_ago() -> None:
    finished_jobs = FinishedJobs()
    finished_jobs.add("w!1", "continued as dyn!1")
    for number in range(N_RECENT - 1):
        finished_jobs.add(f"a!{number}", "COMPLETED_SUCCESSFULLY", 1.0)
    finished_jobs.add("w!1", "COMPLETED_SUCCESSFULLY", 2.0)
    finished_jobs.add("b!1", "COMPLETED_SUCCESSFULLY", 3.0)
    assert finished_jobs.outcome("w!1") == "COMPLETED_SUCCESSFULLY at 2.0"
