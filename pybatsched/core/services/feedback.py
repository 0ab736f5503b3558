"""Jobs that users submit a think time after the end of other jobs: held back by the engine, and registered when due.

Also the end of the registration, which the engine sends for most policies.

Batsim submits jobs at fixed times only. So the jobs of a workload that follow others are not in Batsim's workload: the
engine gets them before the run. When the jobs that a job follows have ended, the engine requests a call for a think
time later, and then registers the job as a dynamic job of the same workload. A job that is killed and requeued has not
ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pybatsched.core import decisions as d, events as e
from pybatsched.core.dependencies import StartCondition
from pybatsched.core.services.prerequisites import Prerequisites, WaitingItem
from pybatsched.core.services.service import Service
from pybatsched.errors import InputError, RemoteProtocolError

if TYPE_CHECKING:
    from pybatsched.core.actions import Actions
    from pybatsched.core.jobs import Job, KillCause
    from pybatsched.core.policy import Policy

#: The member with the jobs that follow others, in the header of a journal.
FEEDBACK_JOBS: Final = "feedback_jobs"


class FollowingJob(msgspec.Struct, frozen=True):
    """A job that is submitted `think_time` seconds after the last end of the jobs `after`. Ids are full ids."""

    id: str
    after: list[str]
    think_time: float
    job: dict[str, Any]
    profile: dict[str, Any]


class Feedback(Service):
    """The jobs of one run that have not been submitted yet."""

    def __init__(self, jobs: Sequence[FollowingJob], actions: Actions) -> None:
        self._actions = actions
        self._jobs = dict(enumerate(jobs))  # those that have not been submitted, by their index
        self._places = {job.id: place for place, job in enumerate(jobs)}
        self._waiting: Prerequisites[FollowingJob] = Prerequisites()
        for job in jobs:
            ids = dict.fromkeys(job.after)
            conditions = [(job_id, StartCondition("afterany", job_id, job.think_time)) for job_id in ids]
            self._waiting.add(WaitingItem(job, 0.0, len(ids)), conditions)

    def check_policy(self, policy: Policy, name: str) -> None:
        """Raise InputError if jobs are left, and the policy manages the registration."""
        if policy.manages_registration and self._jobs:
            raise InputError(
                f"feedback: policy {name} manages the registration of jobs (manages_registration); expected a policy "
                "that leaves it to the engine, which registers the jobs that follow others"
            )

    def is_waiting(self) -> bool:
        """Return whether jobs have not been submitted."""
        return bool(self._jobs)

    def ended(self, job: Job, cause: KillCause | None) -> None:  # noqa: ARG002
        """Record the end of a job. O(log n) for each job that follows it."""
        assert job.ended_at is not None
        self._waiting.ended(job.id, job.ended_at, is_ok=True)

    def holds_back(self, notice: e.Notify) -> bool:
        """Return whether jobs are still to come after Batsim's notice that there are none."""
        return notice.kind == e.NO_MORE_STATIC_JOBS and bool(self._jobs)

    def after_events(self) -> None:
        """Submit the jobs whose think time is over."""
        if not self._jobs:
            return
        actions = self._actions
        for at, job in self._waiting.due(actions.now):
            del self._jobs[self._places[job.id]]
            self._submit(job, at)
        if not self._jobs and actions.static_jobs_done:
            actions.caller.call("on_notify", e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=actions.now), actions.now)

    def _submit(self, following: FollowingJob, at: float) -> None:
        """Register a job with its profile, and submit it as of a time."""
        actions = self._actions
        if actions.jobs.is_used(following.id):
            text = f"job {following.id} was submitted before; expected a new id"
            raise RemoteProtocolError(text, field=FEEDBACK_JOBS)
        problem = actions.field_check.error_text(following.id, following.job)
        if problem is not None:
            raise InputError(problem)
        workload, name = following.id.partition("!")[0], following.job["profile"]
        reason = "a think time after the end of {}", following.after[-1]
        actions.carry_out(d.RegisterProfile(workload, name, following.profile, reason=reason))
        fields = {**following.job, "subtime": at}
        job = actions.add_job(following.id, fields, following.profile, at=at)
        actions.requeues.registered(job, by_policy=False)
        actions.send(d.RegisterJob(following.id, fields, reason=reason))
        for check in actions.services.check:
            check(job)
        actions.submit(job)

    def request_call(self) -> None:
        """Request a call for the next submission. Raises RemoteProtocolError if it never comes."""
        actions = self._actions
        if actions.all_over() and self._waiting.next_due() is None:
            index, job = next(iter(self._jobs.items()))
            awaited = next(job_id for job_id in job.after if job_id in self._waiting.for_ends)
            raise RemoteProtocolError(
                f"job {job.id} is never submitted: it follows job {awaited}, which has not ended, and no other "
                "job waits or runs; expected ids of jobs of this run, without a cycle",
                field=f"{FEEDBACK_JOBS}[{index}].after",
            )
        self._waiting.request_call(actions, "{} is submitted then")


class Registration(Service):
    """Finishes the registration of jobs, unless the policy does it: Batsim waits for it."""

    def __init__(self, actions: Actions, feedback: Feedback | None, *, never: bool, by_policy: bool) -> None:
        self._actions = actions
        self._feedback = feedback
        self._never = never  # no job is registered
        self._by_policy = by_policy

    def after_decide(self) -> None:
        """Request a call for the next job that follows others, or finish the registration."""
        actions, feedback = self._actions, self._feedback
        if feedback is not None and feedback.is_waiting():
            feedback.request_call()
        elif not (actions.registration_finished or self._by_policy) and (self._never or actions.all_over()):
            why = "this policy registers no jobs" if self._never else "all jobs are in and over"
            actions.carry_out(d.Notify(d.REGISTRATION_FINISHED, reason=why))


def following_jobs(given: object) -> list[FollowingJob]:
    """Return the jobs that JSON objects describe. O(n). Raises InputError if one cannot be submitted."""
    try:
        jobs = msgspec.convert(given, list[FollowingJob])
    except msgspec.ValidationError as error:
        raise InputError(f"{FEEDBACK_JOBS}: expected jobs that follow others: {error}") from None
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
            raise InputError(f"{FEEDBACK_JOBS}[{index}].{field}: {text}")
        ids.add(job.id)
    return jobs
