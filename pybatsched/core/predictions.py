"""Predicted run times: the interface of a predictor."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pybatsched.core.cluster import Cluster
    from pybatsched.core.jobs import Job

#: Returns the next estimate of a running job that has outlived its last one, in seconds from its start. Arguments: the
#: first prediction, the last one, the number of corrections so far, and the requested time (None if it is unknown).
Corrector: TypeAlias = Callable[[float, float, int, float | None], float]


def requested_s(job: Job) -> float | None:
    """Return the requested time of a submitted job in seconds: its walltime, else its field `estimate`, else None.

    Extra seconds and other shapes of the job do not count.
    """
    work = job.base_work.work
    return work.estimate if work.walltime is None else work.walltime


def user_of(job: Job) -> str:
    """Return the user of a job, by its field `user`. All jobs without this field have one common, unnamed user."""
    user = job.fields.get("user")
    return "" if user is None else str(user)


def run_time_s(job: Job, ended: float) -> float:
    """Return how long a job ran, if its last segment ended at this time: the sum over all its segments.

    A job that was requeued to run again from scratch counts with the time of its killed segments too.
    """
    assert job.started_at is not None
    return sum((segment.ended_at - segment.started_at for segment in job.past), ended - job.started_at)


class Predictor:
    """Base class of predictors of run times. One object serves one run; a simulation that is copied copies it.

    Two runs with the same jobs must get the same predictions, so a predictor uses no clock, no file and no unseeded
    random generator.
    """

    def begin(self, cluster: Cluster) -> None:
        """Handle the start of the run. The default does nothing."""

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:  # noqa: ARG002
        """Return the expected run time of a job that is submitted now, in seconds; None to keep the requested time.

        `running` are the jobs that run now. Do not change them. Override this.
        """
        return None

    def learn(self, job: Job, ended: float) -> None:
        """Handle the end of a job that ran, at the time `ended`; `job.started_at` is the start of its last segment.

        `run_time_s` returns its run time. Jobs that were killed count as well. The default does nothing.
        """
