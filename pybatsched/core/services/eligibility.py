"""Jobs that may not start yet: a service of the engine, for every policy, with the rules of Slurm.

A job may have a time from which on it may start (`eligible_at`), conditions on other jobs (`depends_on`, see
`pybatsched.core.dependencies`), or a limit of the tasks of its array that run at a time (`array_limit`), or be held
until it is released (`hold`). The policy gets the job when it may start. Until then it is in no queue. A policy with
`gets_jobs_early` gets it at its submission.

The end of a job is a success if Batsim reports one, unless the job's `status` is that of a failure in a log. A job that
is killed and requeued has not ended. A job that can never start is rejected. A condition on a job that is not in the
run counts as met when all jobs are submitted.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pybatsched.core import decisions as d
from pybatsched.core.dependencies import FIELDS, SINGLETON, StartCondition, dependency_of, follows_only
from pybatsched.core.finished_jobs import IdSet
from pybatsched.core.instants import HALF_TICK
from pybatsched.core.jobs import Job
from pybatsched.core.services.prerequisites import Prerequisites, WaitingItem, holds
from pybatsched.core.services.service import Service, Services
from pybatsched.core.validator import Violation
from pybatsched.errors import InputError, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybatsched.core.actions import Actions
    from pybatsched.core.jobs import KillCause
    from pybatsched.core.services.feedback import Feedback

#: Why a job is rejected, as in Slurm.
NEVER: Final = "DependencyNeverSatisfied"
HELD: Final = "JobHeldUser"
#: What jobs waited for before they could start, by the name of the figure.
_FIGURES: Final = ("n_began_later", "n_waited_for_jobs", "n_waited_for_array_limit", "n_released", "n_never_eligible")
_UNKNOWN: Final = "n_dependencies_on_unknown_jobs"


class _Array:
    """The tasks of an array: those that have not ended, those over the limit, and how many the policy has."""

    __slots__ = ("has_failed", "n_given", "over_limit", "unended")

    def __init__(self) -> None:
        self.unended: dict[str, Job] = {}
        self.over_limit: list[Job] = []
        self.n_given = 0
        self.has_failed = False

    def has_room(self, limit: int) -> bool:
        """Return whether a new task may start: it is no task's turn before it."""
        return self.n_given < limit and not self.over_limit


class Eligibility(Service):
    """The jobs of one run that may not start yet. A job without such fields costs a test of the names of its fields."""

    def __init__(self, actions: Actions, feedback: Feedback | None) -> None:
        self._actions = actions
        self._feedback = feedback
        self.is_dormant = True  # until the first job with such fields
        self.fields: frozenset[str] | None = frozenset(FIELDS)
        self._has_rules = False  # some job has more than the name of an array
        self._waiting: Prerequisites[Job] = Prerequisites()
        #: The jobs that the policy does not have yet, by id.
        self.held_back: dict[str, Job] = {}
        self._given = set[str]()  # unfinished jobs with such fields that it has
        self._early = set[str]()  # those held back that the policy has all the same
        self._failed = IdSet()  # arrays of which all tasks have ended, some without success
        self._unknown = set[str]()  # ids of jobs that have not been submitted, on which a job depends
        self._arrays: dict[str, _Array] = {}  # by the id of an array in the run
        self._free: list[_Array] = []  # arrays of which a task has ended
        self._by_name: dict[tuple[str, str, str], dict[str, Job]] | None = None  # from the first singleton on
        self._counts: Counter[str] = Counter()

    def takes(self, job: Job) -> bool:
        """Hold back a job that may not start yet. Return whether it does. O(conditions)."""
        fields = job.fields
        if self._by_name is not None:
            self._add_name(job)
        if fields.keys().isdisjoint(FIELDS):
            return False
        if job.id in self._given:
            return self._is_taken_back(job)  # of an earlier policy
        if job.id in self.held_back:
            return not self._comes_early(job)  # of an earlier policy
        rules = FIELDS & fields.keys()
        if rules == {"depends_on"} and follows_only(fields):
            return False
        if self.is_dormant:
            self.is_dormant, self.fields = False, None
            self._actions.services = Services(self._actions.services.all)
        self._has_rules = self._has_rules or rules != {"array"}
        try:
            return self._holds(job) and not self._comes_early(job)
        except ValueError as error:
            raise InputError(f"job {job.id}, field {error}") from None

    def _is_taken_back(self, job: Job) -> bool:
        """Hold back a waiting task of an earlier policy if its array is full. Return whether it does. O(tasks)."""
        array, limit = self._array_of(job), self._limit_of(job)
        if array is None or limit is None:
            return False
        others = (other for other in array.unended.values() if other.id in self._given and other is not job)
        if sum(_has_started(other) or _seq(other) < _seq(job) for other in others) < limit:
            return False
        self._given.remove(job.id)
        array.n_given -= 1
        self.held_back[job.id] = job
        insort(array.over_limit, job, key=_seq)
        return True

    def _comes_early(self, job: Job) -> bool:
        """Return whether the policy gets a job that is held back, and remember it."""
        self._early.discard(job.id)
        job.eligible_at = job.submitted_at
        if self._actions.caller.policy.gets_jobs_early and "reservation" not in job.fields:
            self._early.add(job.id)
            job.eligible_at = math.inf
        return job.id in self._early

    def _holds(self, job: Job) -> bool:
        """Hold back a new job if it may not start yet. Raises ValueError with the name of an invalid field."""
        now, fields = self._actions.now, job.fields
        at, limit = _seconds(fields), self._limit_of(job)
        is_on_hold = fields.get("hold", False)
        if type(is_on_hold) is not bool:
            raise ValueError(f"hold: expected true or false, found {str(is_on_hold)[:60]}")
        try:
            dependency = dependency_of(fields)
        except ValueError as error:
            raise ValueError(f"depends_on: expected {error}, found {str(fields['depends_on'])[:60]}") from None
        conditions = () if dependency is None else dependency.conditions
        array = None
        if "array" in fields:
            array = self._arrays.setdefault(_full_id(job, str(fields["array"])), _Array())
            array.unended[job.id] = job
        if any(condition.kind == SINGLETON for condition in conditions) and self._by_name is None:
            self._by_name = {}
            for other in self._actions.jobs.alive.values():
                self._add_name(other)
        self.held_back[job.id] = job
        if _is_never_released(job):
            return True
        wait = WaitingItem(job, at, len(conditions), is_any=dependency is not None and dependency.is_any)
        found = [(self._id_of(job, condition), condition) for condition in conditions]
        states = [self._met_at(job, job_id, condition) for job_id, condition in found]
        pending = [one for one, met_at in zip(found, states, strict=True) if met_at is None]
        self._waiting.add(wait, pending)
        for (_, condition), met_at in zip(found, states, strict=True):
            if met_at is not None:
                self._waiting.decide(wait, condition, None if met_at == math.inf else met_at)
        if is_on_hold:
            self._counts["n_released"] += 1
        elif at > now + HALF_TICK:
            self._counts["n_began_later"] += 1
        self._counts["n_waited_for_jobs"] += bool(pending)
        is_due = wait.at <= now + HALF_TICK and not (pending or wait.is_any or wait.is_over)
        if is_due and (array is None or limit is None or array.has_room(limit)):
            wait.is_over = True
            self._give(job, array)
            return False
        return True

    def _give(self, job: Job, array: _Array | None) -> None:
        """Record that the policy gets a job."""
        del self.held_back[job.id]
        self._given.add(job.id)
        if array is not None:
            array.n_given += 1

    def _id_of(self, job: Job, condition: StartCondition) -> str:
        """Return the id of a condition's job in the run; for a singleton a text that is no id."""
        return _full_id(job, condition.job) if condition.job else f"{SINGLETON}!{job.id}"

    def _met_at(self, job: Job, job_id: str, condition: StartCondition) -> float | None:
        """Return when a condition is or was met: infinity for never, None if that is not decided yet."""
        jobs, starts = self._actions.jobs, condition.kind == "after"
        array, other = self._arrays.get(job_id), jobs.alive.get(job_id)
        met_at: float | None = None
        if condition.kind == SINGLETON:
            assert self._by_name is not None
            met_at = 0.0 if next(iter(self._by_name[_name_of(job)])) == job.id else None
        elif other is not None:
            met_at = _first_start(other) if starts and _has_started(other) else None
        elif array is not None and array.unended:
            met_at = self._actions.now if starts and all(map(_has_started, array.unended.values())) else None
        elif array is not None or jobs.is_used(job_id):
            met_at = jobs.finished.started_at(job_id)
            if not starts:
                is_ok = jobs.finished.was_success(job_id) if array is None else not self._failed.has(job_id)
                met_at = 0.0 if holds(condition, is_ok=is_ok) else math.inf
        elif self._all_submitted():
            self._counts[_UNKNOWN] += 1
            met_at = 0.0
        else:
            self._unknown.add(job_id)
        return None if met_at is None else met_at + condition.delay_s

    def _all_submitted(self) -> bool:
        return self._actions.static_jobs_done and (self._feedback is None or not self._feedback.is_waiting())

    def _add_name(self, job: Job) -> None:
        assert self._by_name is not None
        self._by_name.setdefault(_name_of(job), {})[job.id] = job

    def ended(self, job: Job, cause: KillCause | None) -> None:  # noqa: ARG002
        """Record the end of a job."""
        is_ok, at = self._actions.jobs.finished.was_success(job.id), job.ended_at
        assert at is not None
        self.held_back.pop(job.id, None)
        self._early.discard(job.id)
        self._ended(job.id, _first_start(job) if _has_started(job) else at, at, is_ok=is_ok)
        if "array" in job.fields:
            self._task_ended(job, at, is_ok=is_ok)
        self._given.discard(job.id)
        if self._by_name is not None:
            same = self._by_name.get(_name_of(job), {})
            same.pop(job.id, None)
            first = next(iter(same), None)
            if first is None:
                self._by_name.pop(_name_of(job), None)
            else:
                self._waiting.ended(f"{SINGLETON}!{first}", at, is_ok=True)

    def _ended(self, job_id: str, started_at: float, at: float, *, is_ok: bool) -> None:
        self._unknown.discard(job_id)
        self._waiting.started(job_id, started_at)
        self._waiting.ended(job_id, at, is_ok=is_ok)

    def _task_ended(self, job: Job, at: float, *, is_ok: bool) -> None:
        """Record the end of a task of an array."""
        array_id = _full_id(job, str(job.fields["array"]))
        array = self._arrays.get(array_id)  # none for a job that is larger than the machine
        if array is None or array.unended.pop(job.id, None) is None:
            return
        array.has_failed |= not is_ok
        if job.id in self._given:
            array.n_given -= 1
            if array.over_limit:
                self._free.append(array)
        if not array.unended:
            if array.has_failed:
                self._failed.add(array_id)
            self._ended(array_id, at, at, is_ok=not array.has_failed)

    def after_events(self) -> None:
        """Give the policy the jobs that may start now, and reject those that never may."""
        if not self.held_back:
            return
        now = self._actions.now
        if self._unknown and self._all_submitted():
            self._forget_unknown(now)
        self._reject_never()
        free, self._free = self._free, []
        limited: list[Job] = []
        for at, job in self._waiting.due(now):
            if job.id not in self.held_back:
                continue
            array = self._array_of(job)
            if array is None or self._limit_of(job) is None:
                self._submit(job, at, array)
            else:
                insort(array.over_limit, job, key=_seq)
                limited.append(job)
                free.append(array)
        for array in free:
            while array.over_limit and array.n_given < (_limit_of(array.over_limit[0].fields) or 0):
                job = array.over_limit.pop(0)
                if job.id in self.held_back:
                    self._submit(job, now, array)
        self._counts["n_waited_for_array_limit"] += sum(job.id in self.held_back for job in limited)

    def _array_of(self, job: Job) -> _Array | None:
        """Return the array of a task; None for other jobs."""
        return self._arrays[_full_id(job, str(job.fields["array"]))] if "array" in job.fields else None

    def _limit_of(self, job: Job) -> int | None:
        """Return how many tasks of its array may run; None for any number, also if the policy obeys the limit."""
        limit = _limit_of(job.fields)
        return None if self._actions.caller.policy.gets_jobs_early else limit

    def _submit(self, job: Job, at: float, array: _Array | None) -> None:
        """Give the policy a job that was held back, or tell it that the job may start."""
        actions = self._actions
        self._give(job, array)
        job.eligible_at = max(at, job.submitted_at)
        if job.eligible_at > job.submitted_at:
            later_s = job.eligible_at - job.submitted_at
            actions.add_fact(job, f"eligible_after_s={later_s:.12g}", reason="the time before it could start")
        if job.id in self._early:
            self._early.remove(job.id)
            actions.caller.call("on_job_eligible", job, actions.now)
        else:
            actions.submit(job)

    def _forget_unknown(self, now: float) -> None:
        """Count conditions on jobs that are not in the run as met."""
        unknown, self._unknown = sorted(self._unknown), set()
        for job_id in unknown:
            if not self._actions.jobs.is_used(job_id) and job_id not in self._arrays:
                for waits in (self._waiting.for_starts.pop(job_id, ()), self._waiting.for_ends.pop(job_id, ())):
                    self._counts[_UNKNOWN] += len(waits)
                    for wait, condition in waits:
                        self._waiting.decide(wait, condition, now)

    def _reject_never(self) -> None:
        """Reject the jobs with a dependency that cannot be met. Others may depend on them."""
        never = self._waiting.never
        while never:
            job, condition = never.pop(0)
            if job.id in self.held_back:
                self._reject(job, (f"{NEVER}: {{}}", str(condition)))

    def _reject(self, job: Job, reason: d.Reason) -> None:
        self._counts["n_never_eligible"] += 1
        is_early = job.id in self._early
        self._actions.carry_out(d.RejectJob(job.id, reason=reason))
        if is_early:
            self._actions.caller.call("on_job_ended", job, self._actions.now)

    def after_decide(self) -> None:
        """Request a call for the next job that may start, and reject jobs that wait for each other."""
        if not self.held_back:
            return
        actions = self._actions
        for job_id in [*self._waiting.for_starts]:
            array, job = self._arrays.get(job_id), actions.jobs.alive.get(job_id)
            if job is not None and _has_started(job):
                self._waiting.started(job_id, _first_start(job))
            elif array is not None and array.unended and all(map(_has_started, array.unended.values())):
                self._waiting.started(job_id, actions.now)
        self._reject_never()
        while not self._free and self._waiting.next_due() is None and self._is_stuck():
            job = next(filter(_is_never_released, self.held_back.values()), None)
            if job is None:
                self._reject(next(iter(self.held_back.values())), f"{NEVER}: its jobs wait for each other")
            else:
                self._reject(job, f"{HELD}: held and never released")
            self._reject_never()
        if self._free:
            actions.carry_out(d.CallMeLater(actions.now, reason="a task of an array may start"))
        self._waiting.request_call(actions, "{} may start then")

    def _is_stuck(self) -> bool:
        """Return whether the jobs that are held back are all that is left, so that none of them can start."""
        actions = self._actions
        return bool(self.held_back) and (
            self._all_submitted() and len(actions.jobs.alive) == len(self.held_back) and not actions.jobs.kills
        )

    def admit(self, job: Job, decision: d.ExecuteJob) -> d.ExecuteJob:
        """Raise Violation for a policy that starts a job which it did not get yet."""
        if job.id in self.held_back:
            raise Violation("is eligible", d.reason_text(self.why_waiting(job) or ""), job=job)
        return decision

    def is_waiting(self) -> bool:
        """Return whether jobs are held back."""
        return bool(self.held_back)

    def why_waiting(self, job: Job) -> d.Reason | None:
        """Return what a job that is held back waits for; None for other jobs."""
        if job.id not in self.held_back:
            return None
        fields = job.fields
        condition = self._waiting.first_condition(job)
        if condition is not None and condition.job:
            return "may not start yet: waits for job {} ({})", _full_id(job, condition.job), condition.kind
        if condition is not None:
            return "may not start yet: waits for an earlier job of its user and name (singleton)"
        if _is_never_released(job):
            return "may not start yet: it is held"
        if _seconds(fields) > self._actions.now:
            return "may not start yet: not before {}", _seconds(fields)
        return "may not start yet: {} of its array run or wait already", quantity(_limit_of(fields) or 0, "task")

    def figures(self) -> Mapping[str, float]:
        """Return how many jobs were held back, for what, if any job could be."""
        if not self._has_rules:
            return {}
        return {name: self._counts[name] for name in (*_FIGURES, *([_UNKNOWN] if self._counts[_UNKNOWN] else []))}


def _full_id(job: Job, given: str) -> str:
    """Return the id in the run of a job that another one names."""
    return f"{job.workload}!{given}" if job.workload and "!" not in given else given


def _name_of(job: Job) -> tuple[str, str, str]:
    fields = job.fields
    return job.workload, str(fields.get("user", "")), str(fields.get("job_name", ""))


def _seq(job: Job) -> int:
    return job.seq


def _is_never_released(job: Job) -> bool:
    return job.fields.get("hold") is True and "eligible_at" not in job.fields


def _has_started(job: Job) -> bool:
    return bool(job.past) or job.started_at is not None


def _first_start(job: Job) -> float:
    started_at = job.past[0].started_at if job.past else job.started_at
    assert started_at is not None
    return started_at


def _seconds(fields: Mapping[str, Any]) -> float:
    """Return the time from which on a job may start. Raises ValueError."""
    at = fields.get("eligible_at", 0.0)
    if type(at) not in {int, float} or not math.isfinite(at):
        raise ValueError(f"eligible_at: expected seconds, found {str(at)[:60]}")
    return float(at)


def _limit_of(fields: Mapping[str, Any]) -> int | None:
    """Return how many tasks of its array may run at a time; None for any number. Raises ValueError."""
    limit = fields.get("array_limit")
    if limit is None:
        return None
    if type(limit) is not int or limit < 1 or "array" not in fields:
        what = "the number of tasks of an array, from 1, and the field array"
        raise ValueError(f"array_limit: expected {what}, found {str(limit)[:60]}")
    return limit
