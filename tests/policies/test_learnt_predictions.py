"""Predictors that learn: features by hand, no use of future jobs, and deterministic results."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples

import pybatsched as pb
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState, start_job
from pybatsched.errors import InputError
from pybatsched.policies.learning import FEATURES, Boosted, FeaturePredictor, Linear
from pybatsched.policies.predictions import PREDICTORS, predictor_of
from pybatsched.testing import Workload, run_policy


class Plain(FeaturePredictor):
    """Keeps what it is taught."""

    def __init__(self) -> None:
        super().__init__()
        self.taught: list[tuple[list[float], float]] = []

    def estimate(self, features: list[float], job: Job) -> float:
        return 1e9

    def fit(self, features: list[float], run_s: float, job: Job) -> None:
        self.taught.append((features, run_s))


def a_job(name: str, user: str, n: int, walltime: float | None = 1000.0) -> Job:
    return Job(name, n, walltime=walltime, fields={"user": user})


def running(name: str, user: str, n: int, at: float) -> Job:
    job = a_job(name, user, n)
    start_job(job, at, IntervalSet.span(0, n), "")
    assert job.state is JobState.RUNNING
    return job


def test_the_features_of_a_job() -> None:
    plain = Plain()
    plain._n_procs = 20
    for i, (n, run_s) in enumerate([(2, 10.0), (4, 20.0), (6, 60.0), (8, 30.0)]):
        plain.learn(running(f"w0!{i}", "ann", n, 100.0), 100.0 + run_s)
    others = [running("w0!r", "ann", 3, 21_500.0), running("w0!s", "ann", 2, 21_000.0), running("w0!t", "bob", 5, 0.0)]
    found = dict(zip(FEATURES, plain.features(a_job("w0!x", "ann", 10), 21_600.0, others), strict=True))
    assert {name: value for name, value in found.items() if name[-3:] not in {"sin", "cos"}} == {
        "constant": 1.0,
        "requested_s": 1000.0,
        "n_procs": 10.0,
        "last_s": 30.0,
        "second_last_s": 60.0,
        "third_last_s": 20.0,
        "mean2_s": 45.0,
        "mean3_s": pytest.approx(110 / 3),
        "user_mean_s": 30.0,
        "user_mean_procs": 5.0,
        "procs_ratio": 2.0,
        "since_last_end_s": 21_600.0 - 130.0,
        "user_running": 2.0,
        "user_running_procs": 5.0,
        "user_longest_s": 600.0,
        "user_elapsed_s": 700.0,
        "running": 3.0,
        "busy_share": 0.5,
    }
    assert (found["day_sin"], found["day_cos"]) == pytest.approx((1.0, 0.0)), "a quarter of a day"
    assert (found["week_sin"], found["week_cos"]) == pytest.approx((math.sin(math.pi / 14), math.cos(math.pi / 14)))


def test_a_job_is_learnt_with_its_features_at_submission() -> None:
    plain = Plain()
    job = a_job("w0!x", "ann", 1)
    assert plain.predict(job, 0.0, []) == 1000.0, "at most the requested time"
    asked = list(plain._pending["w0!x"])
    plain.learn(running("w0!y", "ann", 1, 5.0), 50.0)
    start_job(job, 60.0, IntervalSet([0]), "")
    plain.learn(job, 67.0)
    assert plain.taught == [(asked, 7.0)]


def test_linear_learns_the_habits_of_two_users() -> None:
    """Jobs of ann take a tenth of their requested time, those of bob half of it."""
    dice, linear, late_errors = random.Random(1), Linear(), []
    for i in range(4000):
        user = dice.choice(["ann", "bob"])
        requested = dice.choice([1000.0, 2000.0, 4000.0])
        run_s = requested * (0.1 if user == "ann" else 0.5)
        job = Job(f"w0!{i}", 1, walltime=requested, fields={"user": user})
        predicted = linear.predict(job, 10.0 * i, [])
        assert predicted is not None
        start_job(job, 10.0 * i, IntervalSet([0]), "")
        linear.learn(job, 10.0 * i + run_s)
        if i >= 3000:
            late_errors.append((abs(predicted - run_s), requested - run_s))
    assert sum(error for error, _ in late_errors) < 0.4 * sum(plain for _, plain in late_errors)


def test_a_job_without_any_time_has_no_prediction_at_first() -> None:
    assert Linear().predict(a_job("w0!x", "ann", 1, walltime=None), 0.0, []) is None


def random_jobs(seed: int, n: int) -> Workload:
    dice, workload, at = random.Random(seed), Workload(), 0.0
    for i in range(n):
        at += dice.choice([0, 1, 4, 9])
        run_s = dice.choice([1, 2, 5, 12, 30])
        size = dice.choice([1, 2, 3])
        workload.job(
            f"{i:03}", n=size, s=run_s, at=at, walltime=run_s + dice.choice([0, 5, 50]), user=dice.choice("abc")
        )
    return workload


@pytest.fixture
def small_boosted(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra predict)")
    monkeypatch.setattr(Boosted, "every", 10)


def estimates(workload: Workload, predict: str) -> dict[str, float | None]:
    """Return the predictions of all jobs, at their submissions."""
    seen: dict[str, float | None] = {}

    class Noted(pb.LocalPolicy):
        from pybatsched_schedulers.easy import EasyScheduler as scheduler  # noqa: N813

        def on_job_submitted(self, job: Job, now: float) -> None:
            seen[job.id] = job.estimate
            super().on_job_submitted(job, now)

    run_policy(Noted, workload, 4, predict=predict)
    return seen


def check_no_look_ahead(workload: Workload, n: int, predict: str) -> None:
    """The predictions of the first jobs are the same without all later ones."""
    first = Workload()
    first.profiles = workload.profiles
    at = workload.jobs[n]["subtime"]
    first.jobs = [job for job in workload.jobs if job["subtime"] <= at]
    whole = estimates(workload, predict)
    assert estimates(first, predict) == {f"w0!{job['id']}": whole[f"w0!{job['id']}"] for job in first.jobs}


@examples(60)
@given(st.integers(0, 10**6), st.integers(2, 40), st.data(), st.sampled_from(sorted(PREDICTORS.keys() - {"boosted"})))
def test_predictions_do_not_depend_on_later_jobs(seed: int, n: int, data: st.DataObject, predict: str) -> None:
    check_no_look_ahead(random_jobs(seed, n), data.draw(st.integers(0, n - 1)), predict)


@pytest.mark.usefixtures("small_boosted")
def test_boosted_trees_do_not_depend_on_later_jobs() -> None:
    check_no_look_ahead(random_jobs(3, 60), 30, "boosted")


@pytest.mark.usefixtures("small_boosted")
def test_boosted_trees_are_deterministic_and_differ_from_means() -> None:
    first = estimates(random_jobs(4, 60), "boosted")
    assert first == estimates(random_jobs(4, 60), "boosted")
    assert first != estimates(random_jobs(4, 60), "mean2")


def test_linear_is_deterministic() -> None:
    assert estimates(random_jobs(4, 60), "linear") == estimates(random_jobs(4, 60), "linear")


def test_boosted_without_scikit_learn_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Any = __import__("importlib").import_module

    def missing(name: str) -> Any:
        if name == "sklearn.ensemble":
            raise ImportError(name="sklearn")
        return real(name)

    monkeypatch.setattr("pybatsched.policies.learning.importlib.import_module", missing)
    with pytest.raises(
        InputError, match=r"predict=boosted needs sklearn; run pip install '\.\[predict\]' in a clone of pybatsched"
    ):
        predictor_of("boosted")
