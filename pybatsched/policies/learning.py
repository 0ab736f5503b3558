"""Predictors that learn from the jobs that have ended: a linear regression and boosted trees, with equal features."""

from __future__ import annotations

import importlib
import math
from collections import deque
from collections.abc import Collection
from typing import Any, ClassVar, Final

from pybatsched.core.cluster import Cluster
from pybatsched.core.jobs import Job, user_of
from pybatsched.core.predictions import Predictor, run_time_s
from pybatsched.errors import InputError

_DAY_S: Final = 86_400.0
_WEEK_S: Final = 7 * _DAY_S

#: The features of a job, in order. The documentation describes them.
FEATURES: Final = (
    "constant",
    "requested_s",
    "n_procs",
    "last_s",
    "second_last_s",
    "third_last_s",
    "mean2_s",
    "mean3_s",
    "user_mean_s",
    "user_mean_procs",
    "procs_ratio",
    "since_last_end_s",
    "user_running",
    "user_running_procs",
    "user_longest_s",
    "user_elapsed_s",
    "running",
    "busy_share",
    "day_sin",
    "day_cos",
    "week_sin",
    "week_cos",
)


class _User:
    """The ended jobs of a user."""

    __slots__ = ("ended_at", "last", "n", "sum_procs", "sum_s")

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=3)  # run times, newest first
        self.n = 0
        self.sum_s = 0.0
        self.sum_procs = 0
        self.ended_at = 0.0


class FeaturePredictor(Predictor):
    """Base of predictors that learn from features. Predictions are between one second and the requested time."""

    def __init__(self) -> None:
        self._users: dict[str, _User] = {}
        self._pending: dict[str, list[float]] = {}  # the features of unfinished jobs
        self._n_procs = 1

    def begin(self, cluster: Cluster) -> None:
        """Read the size of the machine."""
        self._n_procs = cluster.n_procs

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:
        """Return the prediction of the model. O(running), plus the model."""
        features = self._pending[job.id] = self.features(job, now, running)
        seconds = max(self.estimate(features, job), 1.0)
        if job.requested is not None:
            return min(seconds, job.requested)
        return seconds if seconds < math.inf else None

    def learn(self, job: Job, ended: float) -> None:
        """Teach the model. O(features), plus the model."""
        run_s = run_time_s(job, ended)
        name = user_of(job)
        if name not in self._users:
            self._users[name] = _User()
        user = self._users[name]
        user.last.appendleft(run_s)
        user.n += 1
        user.sum_s += run_s
        user.sum_procs += job.n_procs_requested
        user.ended_at = ended
        features = self._pending.pop(job.id, None)
        if features is not None:
            self.fit(features, run_s, job)

    def estimate(self, features: list[float], job: Job) -> float:
        """Return the model's run time in seconds; it may be out of bounds. Override this."""
        raise NotImplementedError

    def fit(self, features: list[float], run_s: float, job: Job) -> None:
        """Teach the model the run time of a job. Override this."""
        raise NotImplementedError

    def features(self, job: Job, now: float, running: Collection[Job]) -> list[float]:
        """Return the features of a job that is submitted now, by `FEATURES`. O(running)."""
        name = user_of(job)
        user = self._users.get(name) or _User()
        last = [*user.last, 0.0, 0.0, 0.0]
        n = user.n
        mean_procs = user.sum_procs / n if n else 0.0
        n_own, own_procs, longest_s, elapsed_s, busy = 0, 0, 0.0, 0.0, 0
        for other in running:
            busy += other.n_held
            if other.started_at is not None and user_of(other) == name:
                since_s = now - other.started_at
                n_own += 1
                own_procs += other.n_held
                elapsed_s += since_s
                longest_s = max(longest_s, since_s)
        day, week = 2 * math.pi * now / _DAY_S, 2 * math.pi * now / _WEEK_S
        return [
            1.0,
            job.requested or 0.0,
            float(job.n_procs),
            last[0],
            last[1],
            last[2],
            sum(last[:2]) / min(n, 2) if n else 0.0,
            sum(last[:3]) / min(n, 3) if n else 0.0,
            user.sum_s / n if n else 0.0,
            mean_procs,
            job.n_procs / mean_procs if mean_procs else 0.0,
            now - user.ended_at if n else 0.0,
            float(n_own),
            float(own_procs),
            longest_s,
            elapsed_s,
            float(len(running)),
            busy / self._n_procs,
            math.sin(day),
            math.cos(day),
            math.sin(week),
            math.cos(week),
        ]


class Linear(FeaturePredictor):
    """An online linear regression with an asymmetric loss.

    It learns with normalised adaptive gradients (Ross, Mineiro, Langford: Normalized online learning, UAI 2013), so no
    feature needs a scale. The loss is linear for underestimates and
    quadratic for overestimates. The weight of a job is the logarithm of its area, processors times run time. Times are
    relative to the longest requested or run time so far. Plain floats are used instead of numpy, so that all machines
    give the same results.
    """

    #: The step size of the gradient descent.
    rate: ClassVar[float] = 0.02
    #: The loss of an overestimate of e seconds is e * e / tolerance_s, that of an underestimate is e.
    tolerance_s: ClassVar[float] = 600.0

    def __init__(self) -> None:
        super().__init__()
        n = len(FEATURES)
        self._weights = [0.0] * n
        self._scales = [0.0] * n
        self._squares = [0.0] * n  # the sums of squared gradients
        self._n = 0
        self._norm = 0.0
        self._unit_s = 1.0

    def estimate(self, features: list[float], job: Job) -> float:
        """Return the linear model's run time; the requested time before the first end. O(features)."""
        if not self._n:
            return math.inf if job.requested is None else job.requested
        return self._unit_s * sum(weight * x for weight, x in zip(self._weights, features, strict=True))

    def fit(self, features: list[float], run_s: float, job: Job) -> None:
        """Take one step of the gradient descent. O(features)."""
        weights, scales, squares = self._weights, self._scales, self._squares
        longest_s = max(run_s, job.requested or 0.0)
        if longest_s > self._unit_s:
            factor = self._unit_s / longest_s
            self._weights = weights = [weight * factor for weight in weights]
            self._unit_s = longest_s
        for i, x in enumerate(features):
            size = abs(x)
            if size > scales[i]:
                weights[i] *= scales[i] / size
                scales[i] = size
        error = sum(weight * x for weight, x in zip(weights, features, strict=True)) - run_s / self._unit_s
        error_s = error * self._unit_s
        slope = math.log(math.e + run_s * job.n_procs) * (2 * error_s / self.tolerance_s if error > 0 else -1.0)
        self._n += 1
        self._norm += sum((x / scale) ** 2 for x, scale in zip(features, scales, strict=True) if scale)
        step = self.rate * math.sqrt(self._n / self._norm)
        for i, x in enumerate(features):
            gradient = slope * x
            if gradient:
                squares[i] += gradient * gradient
                weights[i] -= step * gradient / (scales[i] * math.sqrt(squares[i]))


class Boosted(FeaturePredictor):
    """Gradient-boosted trees of scikit-learn, trained again after every `every` ends, on the last `window` ended jobs.

    Until the first training, predictions are the means of the user's last two jobs (`mean2`).
    """

    every: ClassVar[int] = 500
    window: ClassVar[int] = 5_000

    def __init__(self) -> None:
        super().__init__()
        try:
            self._ensemble = importlib.import_module("sklearn.ensemble")
        except ImportError as error:
            raise InputError.not_installed(f"predict=boosted needs {error.name}", "predict") from None
        self._model: Any = None
        self._rows: deque[list[float]] = deque(maxlen=self.window)
        self._logs: deque[float] = deque(maxlen=self.window)
        self._n = 0

    def estimate(self, features: list[float], job: Job) -> float:
        """Return the trees' run time. About 0.2 ms."""
        if self._model is None:
            return features[FEATURES.index("mean2_s")] or job.requested or math.inf
        return math.exp(float(self._model.predict([features])[0]))

    def fit(self, features: list[float], run_s: float, job: Job) -> None:  # noqa: ARG002
        """Keep the job, and train after every `every` jobs, on logarithms of run times: O(window * features)."""
        self._rows.append(features)
        self._logs.append(math.log(max(run_s, 1.0)))
        self._n += 1
        if self._n % self.every == 0:
            model = self._ensemble.GradientBoostingRegressor(n_estimators=50, max_depth=4, random_state=0)
            self._model = model.fit(list(self._rows), list(self._logs))
