"""Predicted run times as estimates: a service of the engine for policies with the option `predict`.

A job gets its prediction when it is submitted. When a running job exceeds it, a corrector gives the next one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pybatsched.core import decisions as d, events as e
from pybatsched.core.jobs import JobState
from pybatsched.core.services.running_at_start import FIELD as RUNNING_AT_START
from pybatsched.core.services.service import Service

if TYPE_CHECKING:
    from pybatsched.core.actions import Actions
    from pybatsched.core.jobs import Job, KillCause
    from pybatsched.core.predictions import Predictions


class PredictedEstimates(Service):
    """Predicts the run times of the jobs of one run, and corrects them."""

    def __init__(self, predictions: Predictions, actions: Actions) -> None:
        self._predictions = predictions
        self._actions = actions
        self._called_at = -math.inf  # the last call that was requested for a correction

    def begin(self) -> None:
        """Let the predictor begin."""
        self._actions.caller.call("begin", self._actions.cluster, of=self._predictions.predictor)

    def follow(self, earlier: PredictedEstimates) -> None:
        """Continue with what an earlier predictor of the same name has learnt."""
        self._called_at = earlier._called_at
        if self._predictions.name == earlier._predictions.name:
            self._predictions.follow(earlier._predictions)
        else:
            earlier.leave()
            self.begin()

    def leave(self) -> None:
        """Give all unfinished jobs the estimates that they had before."""
        for job in self._actions.jobs.alive.values():
            self._predictions.undo(job)

    def before_events(self, events: Sequence[e.Event]) -> None:
        """Correct the estimates of jobs that run longer than predicted, and notify the policy."""
        cluster, now = self._actions.cluster, self._actions.now
        due = self._predictions.due(cluster, now)
        if not due:
            return
        ending = {event.job_id for event in events if type(event) is e.JobCompleted}
        for job in due:
            if job.wire_id not in ending and self._predictions.correct(job, cluster, now):
                self._actions.caller.call("on_estimate_changed", job, now)

    def submitted(self, job: Job) -> None:
        """Predict the run time of a waiting job."""
        self._actions.caller.call("predict", job, self._actions.now, self._running(), of=self._predictions)

    def _running(self) -> Collection[Job]:
        """Return the running jobs. O(1) with one partition and no held job, else O(running)."""
        partitions = self._actions.cluster.partitions
        if len(partitions) == 1 and not self._actions.holds.jobs:
            return next(iter(partitions.values())).running_jobs
        jobs = [job for partition in partitions.values() for job in partition.running_jobs]
        return [job for job in jobs if job.state is JobState.RUNNING]

    def ended(self, job: Job, cause: KillCause | None) -> None:  # noqa: ARG002
        """Let the predictor learn from a job that ran."""
        if job.started_at is not None and RUNNING_AT_START not in job.fields:  # of those, only the rest ran here
            self._actions.caller.call("learn", job, job.ended_at, of=self._predictions)

    def after_decide(self) -> None:
        """Request a call for the next end of an estimate of a running job, if a waiting job could start then."""
        actions = self._actions
        if len(actions.jobs.alive) <= actions.jobs.n_running:
            return
        at, job = self._predictions.next_correction(actions.cluster, actions.now)
        if job is None or actions.now < self._called_at <= at:
            return
        if actions.caller.call("uses_new_estimates", actions.now):
            self._called_at = at
            actions.carry_out(d.CallMeLater(at, reason=("{} is expected to end then", job.id)))

    def excuses_promises(self) -> bool:
        """Return True: promises hold only for the times that users requested."""
        return True

    def figures(self) -> Mapping[str, float]:
        """Return the quality of all predictions."""
        return self._predictions.figures()
