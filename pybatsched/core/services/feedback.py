"""Jobs that users submit a think time after the end of other jobs: held back by the engine, and registered when due.

Batsim submits jobs at fixed times only. So the jobs of a workload that follow others are not in Batsim's workload. They
come in the member `FEEDBACK_JOBS` of SIMULATION_BEGINS. When the jobs that a job follows have ended, the engine
requests a call for a think time later, and then registers the job as a dynamic job of the same workload. A job that is
killed and requeued has not ended.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pybatsched.core.instants import HALF_TICK, on_tick
from pybatsched.errors import RemoteProtocolError

#: The member of SIMULATION_BEGINS with the jobs that follow others.
FEEDBACK_JOBS: Final = "feedback_jobs"


class FollowingJob(msgspec.Struct, frozen=True):
    """A job that is submitted `think_time` seconds after the last end of the jobs `after`. Ids are full ids."""

    id: str
    after: list[str]
    think_time: float
    job: dict[str, Any]
    profile: dict[str, Any]


class Feedback:
    """The jobs of one run that have not been submitted yet."""

    def __init__(self, given: object) -> None:
        try:
            jobs = msgspec.convert(given, list[FollowingJob])
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(f"expected jobs that follow others: {error}", field=FEEDBACK_JOBS) from None
        _check(jobs)
        self._jobs = dict(enumerate(jobs))  # those that have not been submitted, by their index in the message
        self._n_awaited = [len(set(job.after)) for job in jobs]
        self._followers: dict[str, list[int]] = {}  # by id of a job, the indices of those that follow it
        for index, job in self._jobs.items():
            for job_id in dict.fromkeys(job.after):
                self._followers.setdefault(job_id, []).append(index)
        self._due: list[tuple[float, int]] = []  # a heap of times and indices
        self._called_at: set[float] = set()

    @property
    def n_left(self) -> int:
        """The number of jobs that have not been submitted."""
        return len(self._jobs)

    def check_not_stuck(self) -> None:
        """Raise RemoteProtocolError if no job is due. Called when no other job is left that could end."""
        if self._jobs and not self._due:
            index, job = next(iter(self._jobs.items()))
            awaited = next(job_id for job_id in job.after if index in self._followers.get(job_id, ()))
            raise RemoteProtocolError(
                f"job {job.id} is never submitted: it follows job {awaited}, which has not ended, and no other "
                "job waits or runs; expected ids of jobs of this run, without a cycle",
                field=f"{FEEDBACK_JOBS}[{index}].after",
            )

    def ended(self, job_id: str, at: float) -> None:
        """Record the end of a job. O(log n) for each job that follows it."""
        for index in self._followers.pop(job_id, ()):
            self._n_awaited[index] -= 1
            if not self._n_awaited[index]:
                heapq.heappush(self._due, (on_tick(at + self._jobs[index].think_time), index))

    def next_due(self, now: float) -> tuple[float, FollowingJob] | None:
        """Remove and return the next job to submit now, and the time of its submission; None if there is none."""
        if not self._due or self._due[0][0] > now + HALF_TICK:
            return None
        at, index = heapq.heappop(self._due)
        return at, self._jobs.pop(index)

    def next_call(self, now: float) -> tuple[float, str] | None:
        """Return the next time of a submission and the id of the job, if no call was requested for it; else None."""
        self._called_at = {at for at in self._called_at if at > now}
        if not self._due or self._due[0][0] in self._called_at:
            return None
        at, index = self._due[0]
        self._called_at.add(at)
        return at, self._jobs[index].id


def _check(jobs: list[FollowingJob]) -> None:
    """Raise RemoteProtocolError for the first job that could not be submitted. O(n)."""
    ids: set[str] = set()
    for index, job in enumerate(jobs):
        workload, _, name = job.id.partition("!")
        field, text = "", ""
        if not (workload and name):
            field, text = "id", f"expected an id with a workload, such as w0!3, found {job.id!r:.60}"
        elif job.id in ids:
            field, text = "id", f"expected each id once, found {job.id!r:.60} again"
        elif not job.after:
            field, text = "after", f"job {job.id}: expected the id of at least one job, found none"
        elif not 0 <= job.think_time < math.inf:
            field, text = "think_time", f"job {job.id}: expected 0 seconds or more, found {job.think_time}"
        elif not isinstance(profile := job.job.get("profile"), str):
            field, text = "job.profile", f"job {job.id}: expected the name of a profile, found {profile!r:.60}"
        if text:
            raise RemoteProtocolError(text, field=f"{FEEDBACK_JOBS}[{index}].{field}")
        ids.add(job.id)


def feedback_of(extra: Mapping[str, Any]) -> Feedback | None:
    """Return the jobs that follow others, from the unknown members of SIMULATION_BEGINS; None if there are none."""
    given = extra.get(FEEDBACK_JOBS)
    return Feedback(given) if given else None
