"""The shipped predictors and correctors, by worked examples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from pybatsched.core.cluster import Cluster
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, Segment, kill_job, requeue_job, start_job
from pybatsched.core.predictions import run_time_s
from pybatsched.errors import InputError
from pybatsched.policies.predictions import CORRECTORS, PREDICTORS, corrector_of, predictor_of


def a_job(
    name: str, user: Any = "ann", *, walltime: float | None = 3600.0, estimate: float | None = None, **facts: Any
) -> Job:
    fields = {} if user is None else {"user": user}
    return Job(name, 1, walltime=walltime, estimate=estimate, fields=fields, **facts)


def predictions_after(name: str, past: list[tuple[str, float]], job: Job) -> float | None:
    """Let jobs of these users run for these times, and predict another one."""
    predictor = predictor_of(name)
    for i, (user, run_s) in enumerate(past):
        ended = a_job(f"w0!{i}", user)
        ended.segment.started_at = 1000.0 * i
        predictor.learn(ended, 1000.0 * i + run_s)
    return predictor.predict(job, 10_000.0, [])


ANN = [("ann", 10.0), ("bob", 500.0), ("ann", 25.0), ("ann", 100.0)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("last2", 62.0),  # floor(62.5)
        ("mean2", 62.5),
        ("user_mean", 45.0),
        ("requested", 3600.0),
        ("double", 7200.0),
    ],
)
def test_what_a_user_ran_before_is_the_prediction(name: str, expected: float) -> None:
    assert predictions_after(name, ANN, a_job("w0!x")) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("last2", 50.0), ("mean2", 50.0), ("user_mean", 45.0), ("double", 100.0)]
)
def test_a_prediction_is_at_most_the_requested_time_but_for_twice_that(name: str, expected: float) -> None:
    assert predictions_after(name, ANN, a_job("w0!x", walltime=50.0)) == expected


@pytest.mark.parametrize(("name", "expected"), [("last2", 3600.0), ("mean2", 500.0), ("user_mean", 500.0)])
def test_one_ended_job_is_enough_for_a_mean_but_not_for_last2(name: str, expected: float) -> None:
    assert predictions_after(name, ANN, a_job("w0!x", "bob")) == expected
    assert predictions_after(name, ANN, a_job("w0!x", "eve")) == 3600.0


@pytest.mark.parametrize("name", ["last2", "mean2", "user_mean", "requested", "double"])
def test_a_job_without_request_keeps_its_unknown_time_until_its_user_is_known(name: str) -> None:
    job = a_job("w0!x", walltime=None)
    assert predictions_after(name, [], job) is None
    known = predictions_after(name, [("ann", 7.0), ("ann", 7.0)], job)
    assert known == (None if name in {"requested", "double"} else 7.0)


def test_the_requested_time_is_the_estimate_field_else_the_walltime() -> None:
    """Logs have jobs that ran longer than requested: their walltime is then their run time and a second."""
    assert predictions_after("requested", [], a_job("w0!x", walltime=100.0, estimate=30.0)) == 30.0
    assert predictions_after("requested", [], a_job("w0!x", walltime=100.0)) == 100.0
    assert predictions_after("requested", [], a_job("w0!x", walltime=None, estimate=30.0)) == 30.0


def test_jobs_without_user_are_those_of_one_user() -> None:
    past = [("ann", 10.0), ("ann", 10.0)]
    predictor = predictor_of("mean2")
    for i, user in enumerate((None, "ann", None)):
        job = a_job(f"w0!{i}", user)
        job.segment.started_at = 0.0
        predictor.learn(job, 20.0 + i)
    assert predictor.predict(a_job("w0!x", None), 50.0, []) == 21.0
    assert predictions_after("mean2", past, a_job("w0!x", 7)) == 3600.0


def test_a_mean_below_one_second_is_not_rounded_to_nothing() -> None:
    assert predictions_after("last2", [("ann", 0.25), ("ann", 0.75)], a_job("w0!x")) == 0.5


DELAY = {"type": "delay", "delay": 40.0}


@pytest.mark.parametrize(("walltime", "expected"), [(100.0, 40.0), (30.0, 30.0), (None, 40.0)])
def test_exact_is_the_delay_up_to_the_walltime(walltime: float | None, expected: float) -> None:
    job = a_job("w0!x", walltime=walltime, profile_name="d", profile=DELAY)
    assert predictor_of("exact").predict(job, 0.0, []) == expected


@pytest.mark.parametrize("profile", [None, {"type": "parallel_homogeneous", "cpu": 1.0, "com": 0.0}])
def test_exact_knows_only_delays(profile: Mapping[str, Any] | None) -> None:
    job = a_job("w0!x", profile_name="p", profile=profile)
    with pytest.raises(InputError, match=r"predict=exact: job w0!x has the profile 'p' .*; expected a profile of del"):
        predictor_of("exact").predict(job, 0.0, [])


def test_the_run_time_of_a_requeued_job_is_that_of_all_its_segments() -> None:
    job = a_job("w0!x")
    start_job(job, 10.0, IntervalSet([0]), "")
    kill_job(job, 25.0)
    requeue_job(job, Segment("dyn!x.1", job.whole), None, None)
    start_job(job, 100.0, IntervalSet([0]), "")
    assert run_time_s(job, 107.5) == 22.5


def test_names_are_checked() -> None:
    assert set(PREDICTORS) == {"last2", "mean2", "user_mean", "exact", "requested", "double", "linear", "boosted"}
    assert set(CORRECTORS) == {"requested", "doubling", "incremental"}
    with pytest.raises(InputError, match=r"unknown predictor 'lst2'; expected one of: last2, mean2"):
        predictor_of("lst2")
    with pytest.raises(InputError, match=r"unknown corrector 'twice'; expected one of: requested, doubling, increm"):
        corrector_of("twice")


def test_the_increments_are_those_of_the_paper() -> None:
    increment = corrector_of("incremental")
    hours = [increment(0.0, 0.0, n, None) / 3600 for n in range(12)]
    assert hours == pytest.approx([1 / 60, 5 / 60, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, math.inf])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("min(estimate, 1.5 * user_mean)", 67.5),
        ("last2 if queue == 'long' else mean2 * 2", 125.0),
        ("estimate if user != 'ann' or procs > 1 else user_mean + 5", 50.0),
        ("usage + 7", 7.0),  # nothing runs
        ("1 / (procs - 1)", None),
        ("sqrt(-procs)", None),
    ],
)
def test_an_expression_over_predictors_and_fields(text: str, expected: float | None) -> None:
    assert predictions_after(text, ANN, a_job("w0!x")) == expected


def test_an_expression_with_the_usage_of_the_user() -> None:
    """At 30, Ann has used a processor for 10 s, and Bob has used nothing."""
    predictor, cluster = predictor_of("usage if usage else estimate"), Cluster(IntervalSet.span(0, 4))
    predictor.begin(cluster)
    job = a_job("w0!1")
    job.segment.n_held = 1
    cluster.usage().started(job, 15.0)
    cluster.usage().ended(job, 25.0)
    assert [predictor.predict(a_job("w0!2", user), 30.0, []) for user in ("ann", "bob")] == [10, 3600]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("last3 * 2", "job w0!x: unknown name 'last3' in an expression"),
        ("estimate +", "predictor 'estimate \\+': expected one of"),
        ("procs ** procs", "exponent 'procs': expected a number from -100 to 100"),
    ],
)
def test_errors_of_expressions(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        predictions_after(text, ANN, a_job("w0!x"))
