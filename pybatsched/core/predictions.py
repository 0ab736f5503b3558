"""Predicted run times: the interface of a predictor, and the predictions of one run.

`job.estimate` is the prediction, from the submission of the job on. When a running job exceeds it, a corrector gives
the next one. The walltime that Batsim enforces stays. The predictors are in `pybatsched.policies.predictions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pybatsched.core.instants import TICK, instant
from pybatsched.core.jobs import JobState, Prediction, set_estimate, user_of

if TYPE_CHECKING:
    from pybatsched.core.cluster import Cluster
    from pybatsched.core.jobs import Job

#: Returns the next estimate of a running job that has exceeded its last one, in seconds from its start. Arguments: the
#: first prediction, the last one, the number of corrections so far, and the requested time (None if it is unknown).
Corrector: TypeAlias = Callable[[float, float, int, float | None], float]


def run_time_s(job: Job, ended: float) -> float:
    """Return how long a job ran, over all segments, killed ones too, if the last one ended at this time."""
    assert job.started_at is not None
    last_s = ended - job.started_at
    return sum(segment.ran_s for segment in job.past) + last_s if job.past else last_s


class Predictor:
    """Base class of predictors of run times. One object serves one run.

    Two runs with the same jobs must get the same predictions, so a predictor uses no clock, no file and no unseeded
    random generator.
    """

    def begin(self, cluster: Cluster) -> None:
        """Handle the start of the run. The default does nothing."""

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:  # noqa: ARG002
        """Return the expected run time of a job that is submitted now, in seconds; None to keep the requested time.

        A prediction below one tick (a microsecond) counts as one tick. `running` are the jobs that run now; do not
        change them. Override this.
        """
        return None

    def learn(self, job: Job, ended: float) -> None:
        """Handle the end of a job that ran, also of a killed one, at the time `ended`. See `run_time_s`."""


@dataclass
class PredictionQuality:
    """How good predictions were: of `n` jobs that ran, the sum of absolute errors, and the number of underestimates."""

    n: int = 0
    error_s: float = 0.0
    n_under: int = 0

    def add(self, predicted_s: float, run_s: float) -> None:
        """Add a job. O(1)."""
        self.n += 1
        self.error_s += abs(predicted_s - run_s)
        self.n_under += predicted_s < run_s

    @property
    def mean_error_s(self) -> float:
        """The mean absolute error in seconds; 0 without jobs."""
        return self.error_s / self.n if self.n else 0.0

    @property
    def share_under(self) -> float:
        """The share of jobs that ran longer than predicted; 0 without jobs."""
        return self.n_under / self.n if self.n else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            "n_jobs": self.n,
            "mean_prediction_error_s": self.mean_error_s,
            "share_underestimated": self.share_under,
        }


class Predictions:
    """The predictions of one run. Costs are those of the predictor plus O(1), per job."""

    def __init__(self, name: str, predictor: Predictor, corrector: Corrector) -> None:
        self.name = name
        self.predictor = predictor
        self.quality = PredictionQuality()
        self.by_user: dict[str, PredictionQuality] = {}
        self.n_corrections = 0
        self.corrector = corrector

    def predict(self, job: Job, now: float, running: Collection[Job]) -> None:
        """Predict the run time of a waiting job, unless it has a prediction. Raises ValueError."""
        if job.prediction is not None:
            return
        found: Any = self.predictor.predict(job, now, running)
        try:
            seconds = job.requested if found is None else float(found)
        except (TypeError, ValueError):
            seconds = math.nan
        if seconds is not None and not 0 <= seconds < math.inf:
            raise ValueError(f"returned {found!r:.60} for job {job.id}; expected a number of seconds from 0, or None")
        if seconds is not None:
            seconds = max(round(seconds, 6), TICK)
            job.prediction = Prediction(seconds, job.whole.estimate)
            set_estimate(job, seconds)

    def learn(self, job: Job, ended: float) -> None:
        """Handle the end of a job that ran."""
        if job.prediction is not None and job.prediction.first_s is not None:
            run_s, predicted_s, user = run_time_s(job, ended), job.prediction.first_s * job.scale, user_of(job)
            self.quality.add(predicted_s, run_s)
            if user not in self.by_user:
                self.by_user[user] = PredictionQuality()
            self.by_user[user].add(predicted_s, run_s)
        self.predictor.learn(job, ended)

    def due(self, cluster: Cluster, now: float) -> list[Job]:
        """Return the running jobs whose expected ends have come. O(partitions + found)."""
        found: list[Job] = []
        for partition in cluster.partitions.values():
            for job in partition.running_jobs:
                if job.expected_end_at > now:
                    break
                if job.state is JobState.RUNNING:
                    found.append(job)
        return found

    def correct(self, job: Job, cluster: Cluster, now: float) -> bool:
        """Correct the estimate of a running job whose expected end has come. Return whether it changed."""
        estimate = self._next_estimate(job, now)
        if estimate is None:
            return False
        assert job.partition is not None
        cluster.partitions[job.partition.name].change_estimate(job, estimate)
        return True

    def _next_estimate(self, job: Job, now: float) -> float | None:
        """Return the first estimate by which a running job ends after now, else the last one, if it is longer."""
        last, started_at, state = job.estimate, job.started_at, job.prediction
        assert last is not None
        assert started_at is not None
        if state is None:
            state = job.prediction = Prediction(None, None)  # its estimate is the option `assume_walltime`
        if state.wire_id != job.wire_id:  # a new segment
            state.wire_id, state.start_s, state.n_corrections = job.wire_id, last, 0
        requested, before = _requested_now(job), last
        while instant(started_at, last) <= now:
            following = self.corrector(state.start_s, last, state.n_corrections, requested)
            if not following > last:
                break
            last = float(following)
            state.n_corrections += 1
            self.n_corrections += 1
        return last if last > before else None

    def next_correction(self, cluster: Cluster, now: float) -> tuple[float, Job | None]:
        """Return when the next running job may exceed its estimate, and the job; None if no job can.

        A job with its walltime as estimate cannot exceed it. Partitions without a free processor are left out: no job
        can start there before another message. O(running) at worst.
        """
        at, found = math.inf, None
        for partition in cluster.partitions.values():
            if not partition.n_free:
                continue
            for job in partition.running_jobs:
                if job.expected_end_at >= at:
                    break
                estimate, walltime = job.estimate, job.walltime
                if estimate is None or (walltime is not None and walltime <= estimate) or job.expected_end_at <= now:
                    continue
                if job.state is JobState.RUNNING and self._can_correct(job, estimate):
                    at, found = job.expected_end_at, job
                    break
        return at, found

    def _can_correct(self, job: Job, estimate: float) -> bool:
        """Return whether the corrector has a longer estimate for a running job."""
        state = job.prediction
        is_first = state is None or state.wire_id != job.wire_id
        start_s, n = (estimate, 0) if state is None or is_first else (state.start_s, state.n_corrections)
        return self.corrector(start_s, estimate, n, _requested_now(job)) > estimate

    def follow(self, other: Predictions) -> None:
        """Continue with the predictor of the policy that this one's policy replaces. Jobs keep their predictions."""
        self.predictor, self.quality, self.by_user = other.predictor, other.quality, other.by_user
        self.n_corrections = other.n_corrections

    def undo(self, job: Job) -> None:
        """Restore the estimate that an unfinished job had before its prediction. O(1)."""
        if job.prediction is None or job.prediction.first_s is None:
            return
        set_estimate(job, job.prediction.given_s)
        job.prediction = None
        if job.started_at is not None and job.procs is not None:
            segment, estimate = job.segment, job.estimate
            segment.estimate = None if estimate is None else estimate + job.load_s
            segment.expected_end_at = (
                math.inf if segment.estimate is None else instant(job.started_at, segment.estimate)
            )

    def figures(self) -> Mapping[str, float]:
        """Return the quality of all predictions as figures of the run."""
        found = self.quality.as_dict()
        del found["n_jobs"]
        return {**found, "n_corrections": self.n_corrections}


def _requested_now(job: Job) -> float | None:
    """Return the requested time of the current segment of a running job; None if it is unknown."""
    if job.rest is not None and job.walltime is not None:
        return job.walltime
    return None if job.requested is None else job.requested * job.scale + job.load_s
