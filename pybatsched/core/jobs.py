"""Jobs as their users submitted them, and the table of all jobs of a run.

A job that is killed and requeued, or replaced by one of another size, becomes a new job in Batsim but stays one job
here: `job.id` is the user's id. `job.segment` is the job in Batsim as which it waits or runs now. Only the engine
changes a job; policies read it.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from pybatsched.core.checkpoints import Restarts
from pybatsched.core.decisions import Reason, Requeue, reason_text
from pybatsched.core.events import COMPLETED_SUCCESSFULLY
from pybatsched.core.finished_jobs import FinishedJobs, IdSet
from pybatsched.core.instants import TICK, instant
from pybatsched.core.intervals import IntervalSet
from pybatsched.deprecations import deprecated_attribute
from pybatsched.errors import InputError, RemoteProtocolError


class JobWork(msgspec.Struct, frozen=True):
    """The work of a job: its profile, walltime and estimate, and the scale of these times."""

    profile_name: str
    profile: Mapping[str, Any] | None
    walltime: float | None
    estimate: float | None
    scale: float = 1.0

    def span_at(self, span_s: float, scale: float) -> float:
        """Return a span of this work at another scale, on Batsim's tick and at least one tick.

        At its own scale the span does not change.

        >>> JobWork("d", None, 90.0, 90.0).span_at(90.0, 1 / 7)
        12.857143
        """
        if scale == self.scale:
            return span_s
        return max(round(span_s * (scale / self.scale), 6), TICK)

    def at(self, scale: float) -> JobWork:
        """Return the work at another scale. Its profile must be a delay, unless the scale is its own. O(1)."""
        if scale == self.scale:
            return self
        profile, walltime, estimate = self.profile, self.walltime, self.estimate
        assert profile is not None
        delay_s = profile["delay"]
        scaled_s = self.span_at(delay_s, scale)
        if walltime is not None:
            ends_by_itself = delay_s < walltime
            walltime = self.span_at(walltime, scale)
            if ends_by_itself and walltime <= scaled_s:
                walltime = round(scaled_s + TICK, 6)
        if estimate is not None:
            estimate = self.span_at(estimate, scale)
        return JobWork(self.profile_name, {**profile, "delay": scaled_s}, walltime, estimate, scale)

    def is_finite_at(self, scale: float, delay_s: float) -> bool:
        """Return whether all times are finite at another scale, for a profile with this delay. O(1)."""
        return max(delay_s, self.walltime or 0.0, self.estimate or 0.0) * (scale / self.scale) < math.inf


class StartupLoad(NamedTuple):
    """Extra seconds at the start of a segment, and the segment's work without them."""

    seconds: float
    own: JobWork


class JobShape(NamedTuple):
    """The size of a reshaped job, the factor of its times, and the reason."""

    n: int
    scale: float
    reason: Reason = ""


class JobState(enum.Enum):
    """The state of a job; `TRANSITIONS` lists all changes of it."""

    __hash__ = object.__hash__  # members are singletons, and Enum's own hash is a Python function

    WAITING = "waiting"
    HELD = "held"
    RUNNING = "running"
    COMPLETED = "completed"
    KILLED = "killed"
    REJECTED = "rejected"


class Transition(NamedTuple):
    """A change of a job: the state before and after it, and its cause."""

    before: JobState
    after: JobState
    cause: str


#: All changes of jobs. The functions at the end of this module make them. Those of decisions were checked by the
#: validator before.
TRANSITIONS: Final[dict[str, Transition]] = {
    "hold": Transition(JobState.WAITING, JobState.HELD, "`StartAt`"),
    "release": Transition(JobState.HELD, JobState.WAITING, "`Release`, a lost processor, or the start that follows"),
    "reshape": Transition(JobState.WAITING, JobState.WAITING, "`Reshape`: another size and duration"),
    "replace": Transition(JobState.WAITING, JobState.WAITING, "`Replace`: another job in Batsim, which starts at once"),
    "start": Transition(JobState.WAITING, JobState.RUNNING, "`ExecuteJob`, `ChangeJobState`"),
    "reject": Transition(JobState.WAITING, JobState.REJECTED, "`RejectJob`"),
    "complete": Transition(JobState.RUNNING, JobState.COMPLETED, "JOB_COMPLETED"),
    "kill": Transition(JobState.RUNNING, JobState.KILLED, "JOB_COMPLETED or JOB_KILLED after a kill"),
    "requeue": Transition(JobState.KILLED, JobState.WAITING, "JOB_KILLED, if the kill was a `Requeue`"),
    "finish": Transition(JobState.KILLED, JobState.KILLED, "JOB_KILLED, otherwise: the job is finished"),
}


class PartitionRef(Protocol):
    """The part of `pybatsched.Partition` that a job refers to."""

    name: str
    procs: IntervalSet
    n_kills_pending: int


class Segment:
    """One job in Batsim: what changes when a job is requeued, reshaped or replaced.

    A job waits and runs as its present segment. The segments in `job.past` ran and were killed.
    """

    __slots__ = (
        "ended_at",
        "estimate",
        "expected_end_at",
        "held_from",
        "load",
        "n_held",
        "partition",
        "procs",
        "profile_name",
        "registered_as",
        "start_at",
        "start_reason",
        "started_at",
        "wire_id",
        "work",
    )

    def __init__(self, wire_id: str, work: JobWork, load: StartupLoad | None = None) -> None:
        #: The id in Batsim: the job's own, or another one after a requeue or a replacement.
        self.wire_id = wire_id
        #: The name of its profile in Batsim.
        self.profile_name = work.profile_name
        #: Its profile, walltime and scale, in the present shape of the job.
        self.work = work
        #: The run time to plan with, in seconds; None if it is unknown.
        self.estimate = work.estimate
        self.registered_as: tuple[int, float] | None = None  # size and scale in Batsim, if the job has others now
        self.load = load  # extra seconds before its work
        #: When its hold began; None if it is not held.
        self.held_from: float | None = None
        #: The planned start of a held job; None if it is not held.
        self.start_at: float | None = None
        #: When it started; None before.
        self.started_at: float | None = None
        #: When it is expected to end: its start and its estimate; infinite if that is not known.
        self.expected_end_at: float = math.inf
        #: When it ended; None before.
        self.ended_at: float | None = None
        #: The processors that it holds or held; None if there are none.
        self.procs: IntervalSet | None = None
        #: The number of these processors.
        self.n_held = 0
        #: The partition in which it runs or is held; None if there is none.
        self.partition: PartitionRef | None = None
        #: Why it was started or held: the reason of the decision.
        self.start_reason: Reason = ""

    @property
    def ran_s(self) -> float:
        """How long it ran; 0 unless it has ended."""
        return 0.0 if self.started_at is None or self.ended_at is None else self.ended_at - self.started_at

    @property
    def own_s(self) -> float:
        """How long it ran after its load."""
        return self.ran_s if self.load is None else max(self.ran_s - self.load.seconds, 0.0)


#: Why a job is killed: its machine failed, a reservation of hosts begins, or the policy has decided it (or the peer).
KillCause: TypeAlias = Literal["failure", "reservation", "decision"]


@dataclass(slots=True)
class PendingKill:
    """A kill that Batsim has not answered yet."""

    job: Job
    requeue: Requeue | None
    spare_id: str | None = None  # registered in advance if the profile cannot be copied
    cause: KillCause = "decision"


class Prediction:
    """The predicted run time of an unfinished job, at its submission, and the estimate that it had before.

    `first_s` is None if it could not be predicted. After a correction, `start_s` is the estimate with which the segment
    `wire_id` started.
    """

    __slots__ = ("first_s", "given_s", "n_corrections", "start_s", "wire_id")

    def __init__(self, first_s: float | None, given_s: float | None) -> None:
        self.first_s = first_s
        self.given_s = given_s
        self.wire_id = ""
        self.start_s = 0.0
        self.n_corrections = 0


def user_of(job: Job) -> str:
    """Return the user of a job, by its field `user`. All jobs without this field have one common, unnamed user."""
    user = job.fields.get("user")
    return "" if user is None else str(user)


def _of_segment(name: str) -> Any:
    """Return a read-only attribute of jobs that is one of their present segment."""
    return property(attrgetter(f"segment.{name}"))  # in C: it needs less time than a method


class Job:
    """One job of a user.

    Planning uses `estimate`: the job field of that name, else the walltime, else None (unknown). Batsim enforces the
    walltime. With the option `predict` the estimate is a prediction; `requested` stays the estimate of the submission,
    the time that the user requested.
    """

    __slots__ = (
        "eligible_at",
        "fields",
        "final_state",
        "id",
        "n_derived",
        "n_procs",
        "n_procs_requested",
        "past",
        "prediction",
        "queued_in",
        "requested",
        "rest",
        "restarts",
        "resume_on",
        "segment",
        "seq",
        "shape",
        "state",
        "submitted_at",
        "whole",
        "workload",
    )

    def __init__(
        self,
        job_id: str,
        n_procs: int,
        *,
        walltime: float | None = None,
        estimate: float | None = None,
        submitted_at: float = 0.0,
        seq: int = 0,
        profile_name: str = "",
        profile: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        #: The user's id of the job, such as w0!12.
        self.id = job_id
        #: The name of its workload, such as w0; empty if its id has none.
        self.workload = job_id.partition("!")[0] if "!" in job_id else ""
        #: The number of processors that it needs now.
        self.n_procs: int = n_procs
        #: The number of processors with which it was submitted.
        self.n_procs_requested: int = n_procs
        #: The estimate with which it was submitted. It stays, whatever is predicted.
        self.requested = walltime if estimate is None else estimate
        #: When it was submitted.
        self.submitted_at = submitted_at
        #: From when on it could start: its submission, or later (`pybatsched.core.services.eligibility`).
        self.eligible_at = submitted_at
        #: Its number in the order of submissions.
        self.seq = seq
        #: All fields of the job in the workload, for example ``job.fields.get("user")``.
        self.fields: Mapping[str, Any] = fields or {}
        #: Its state, a `JobState`.
        self.state = JobState.WAITING
        #: Batsim's final state, such as COMPLETED_SUCCESSFULLY; empty before its end.
        self.final_state = ""
        # All of its work, from which other shapes are computed, and its work after a requeue that is not a new start.
        self.whole = JobWork(profile_name, profile, walltime, self.requested)
        self.rest: JobWork | None = None
        #: Its present segment: the job in Batsim as which it waits or runs.
        self.segment = Segment(job_id, self.whole)
        #: Its finished segments, one for each kill with a requeue.
        self.past: tuple[Segment, ...] = ()
        #: Its predicted run time, with the option `predict`; else None.
        self.prediction: Prediction | None = None
        self.restarts: Restarts | None = None  # what kills have cost it; None if it was not requeued
        self.n_derived = 0  # how many derived jobs were registered for it
        #: The processors on which it should continue after a requeue; None for any.
        self.resume_on: IntervalSet | None = None
        self.queued_in: PartitionRef | None = None  # the partition with the queue it waits in
        #: Its size and factor of times after the last `Reshape`; None if there was none.
        self.shape: JobShape | None = None

    # Attributes of its present segment; see `Segment`.
    wire_id: str = _of_segment("wire_id")
    profile_name: str = _of_segment("profile_name")
    profile: Mapping[str, Any] | None = _of_segment("work.profile")
    walltime: float | None = _of_segment("work.walltime")
    scale: float = _of_segment("work.scale")
    load: StartupLoad | None = _of_segment("load")
    held_from: float | None = _of_segment("held_from")
    start_at: float | None = _of_segment("start_at")
    started_at: float | None = _of_segment("started_at")
    expected_end_at: float = _of_segment("expected_end_at")
    ended_at: float | None = _of_segment("ended_at")
    procs: IntervalSet | None = _of_segment("procs")
    n_held: int = _of_segment("n_held")
    partition: PartitionRef | None = _of_segment("partition")
    start_reason: Reason = _of_segment("start_reason")

    n_submitted: int = deprecated_attribute(
        "job.n_submitted", "job.n_procs_requested", "1.0", attrgetter("n_procs_requested")
    )

    @classmethod
    def from_fields(
        cls, job_id: str, fields: Mapping[str, Any], profile: Mapping[str, Any] | None, submitted_at: float, seq: int
    ) -> Job:
        """Create a job from the fields of JOB_SUBMITTED or REGISTER_JOB."""
        n_procs = fields.get("res")
        if type(n_procs) is not int or n_procs < 0:
            raise RemoteProtocolError(
                f"job {job_id}: expected a number of processors, found {n_procs!r}", field="job.res"
            )
        try:
            walltime = _seconds(fields.get("walltime"))
        except ValueError as error:
            raise RemoteProtocolError(f"job {job_id}: {error}", field="job.walltime") from None
        if walltime is not None and walltime <= 0:
            walltime = None  # -1 means that there is none
        estimate = None
        if "estimate" in fields:
            try:
                estimate = _seconds(fields["estimate"])
            except ValueError as error:
                raise InputError(f"job {job_id}, field estimate: {error}") from None
            if estimate is not None and estimate <= 0:
                raise InputError(f"job {job_id}, field estimate: expected more than 0 seconds, found {estimate}")
        name = fields.get("profile")
        return cls(
            job_id,
            n_procs,
            walltime=walltime,
            estimate=estimate,
            submitted_at=submitted_at,
            seq=seq,
            profile_name=name if isinstance(name, str) else "",
            profile=profile,
            fields=fields,
        )

    @property
    def estimate(self) -> float | None:
        """The run time to plan with, in seconds: its field `estimate`, else its walltime, else None.

        A policy may set it for a waiting job that has none.
        """
        return self.segment.estimate

    @estimate.setter
    def estimate(self, seconds: float | None) -> None:
        self.segment.estimate = seconds

    def deadline_at(self) -> float | None:
        """Return the job's deadline: its field `deadline`, or `max_stay` after submission. Raises InputError."""
        return deadline_of(self.id, self.fields, self.submitted_at)

    def is_urgent(self) -> bool:
        """Return whether the job has the field ``urgent: true``. Raises InputError for all but true and false."""
        urgent = self.fields.get("urgent", False)
        if type(urgent) is not bool:
            raise InputError(f"job {self.id}, field urgent: expected true or false, found {str(urgent)[:60]}")
        return urgent

    @property
    def n_restarts(self) -> int:
        """How often the job was killed and requeued."""
        return len(self.past)

    @property
    def load_s(self) -> float:
        """How many extra seconds come before the job's work, as it runs now: the `extra_s` of its `Replace`."""
        load = self.segment.load
        return 0.0 if load is None else load.seconds

    @property
    def is_reshaped(self) -> bool:
        """Whether the job waits in another shape than it has in Batsim, and is therefore replaced at its start."""
        return self.segment.registered_as is not None

    def estimate_at(self, scale: float) -> float | None:
        """Return the estimate after a `Reshape` with this scale; None if it is unknown. O(1)."""
        base = self.rest or self.whole
        return None if base.estimate is None else base.span_at(base.estimate, scale)

    def history(self) -> str:
        """Return the history of the job in one line."""
        lines = [f"submitted at {self.submitted_at} for {self.n_procs_requested} processors"]
        lines += [
            f"ran from {segment.started_at} to {segment.ended_at} on {segment.procs} as {segment.wire_id}"
            for segment in self.past
        ]
        if self.past and self.wire_id != self.past[-1].wire_id:
            lines.append(f"continued as {self.wire_id}")
        if (self.n_procs, self.scale) != (self.n_procs_requested, 1.0):
            lines.append(
                f"now for {self.n_procs} processors" + (f", times x {self.scale:.12g}" if self.scale != 1 else "")
            )
        if self.started_at is not None:
            why = reason_text(self.start_reason)
            load = f", with {self.load_s:.12g} s before its work" if self.load_s else ""
            lines.append(f"started at {self.started_at} on {self.procs}{load}" + (f" ({why})" if why else ""))
        if self.ended_at is not None:
            lines.append(f"{self.final_state or self.state.value} at {self.ended_at}")
        elif self.state is JobState.HELD:
            lines.append(f"held on {self.procs} since {self.held_from}, to start at {self.start_at}")
        elif self.state is JobState.WAITING:
            lines.append("waiting")
        return "; ".join(lines)

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.state.value}, {self.n_procs} procs>"


def _change(job: Job, name: str) -> None:
    """Change the state. Raises RuntimeError for a change that is not in `TRANSITIONS`. O(1)."""
    before, after, _ = TRANSITIONS[name]
    if job.state is not before:
        raise RuntimeError(f"cannot {name} job {job.id}: it is {job.state.value}: {job.history()}")
    job.state = after


def hold_job(
    job: Job, now: float, at: float, procs: IntervalSet, *, partition: PartitionRef | None, reason: Reason
) -> None:
    """Hold processors for a waiting job until it starts."""
    _change(job, "hold")
    segment = job.segment
    segment.held_from, segment.start_at = now, at
    segment.procs, segment.n_held, segment.partition = procs, len(procs), partition
    segment.start_reason = reason
    segment.expected_end_at = math.inf if segment.estimate is None else instant(at, segment.estimate)


def release_job(job: Job) -> None:
    """Return a held job to the waiting state."""
    _change(job, "release")
    segment = job.segment
    segment.held_from = segment.start_at = segment.procs = segment.partition = None
    segment.expected_end_at = math.inf


def start_job(job: Job, at: float, procs: IntervalSet, reason: Reason, partition: PartitionRef | None = None) -> None:
    """Start a waiting job."""
    _change(job, "start")
    segment = job.segment
    segment.started_at = at
    segment.procs, segment.n_held, segment.partition = procs, len(procs), partition
    segment.start_reason = reason
    segment.expected_end_at = math.inf if segment.estimate is None else instant(at, segment.estimate)


def mark_running(job: Job, at: float) -> None:
    """Record that a waiting job runs without processors, as Batsim's CHANGE_JOB_STATE does."""
    _change(job, "start")
    job.segment.started_at = at


def reshape_job(job: Job, shape: JobShape) -> None:
    """Change the shape of a waiting job, computed from the submitted one. O(1)."""
    _change(job, "reshape")
    job.shape = shape
    segment = job.segment
    before = segment.registered_as or (job.n_procs, segment.work.scale)
    segment.registered_as = None if before == shape[:2] else before
    job.n_procs = shape.n
    segment.work = (job.rest or job.whole).at(shape.scale)  # the name of its profile in Batsim stays
    segment.estimate = segment.work.estimate
    if job.resume_on is not None and len(job.resume_on) != shape.n:
        job.resume_on = None


def replace_job(job: Job, segment: Segment, n_procs: int, whole: JobWork | None) -> None:
    """Let a waiting job continue as another one in Batsim; `whole` is its work if that has changed."""
    _change(job, "replace")
    job.segment, job.n_procs = segment, n_procs
    if whole is not None:
        job.whole, job.rest = whole, None


def requeue_job(job: Job, segment: Segment, rest: JobWork | None, resume_on: IntervalSet | None) -> None:
    """Let a killed job wait again as another one in Batsim, with the rest of its work if not with all of it."""
    _change(job, "requeue")
    job.past = (*job.past, job.segment)
    job.segment, job.rest, job.resume_on = segment, rest, resume_on


def set_estimate(job: Job, estimate: float | None) -> None:
    """Set the estimate of an unfinished job, for its shape at submission, and for all other shapes. O(1)."""
    job.whole = replace(job.whole, estimate=estimate)
    if job.rest is not None:
        walltime = job.rest.walltime
        bound = walltime if estimate is None or walltime is None else min(estimate, walltime)
        job.rest = replace(job.rest, estimate=bound)
    job.segment.estimate = job.estimate_at(job.segment.work.scale)


def forget_plans(job: Job) -> None:
    """Remove what a policy has set on a waiting job: its queue, its shape, an assumed estimate. O(1)."""
    job.queued_in = None
    job.resume_on = None
    reshape_job(job, JobShape(*(job.segment.registered_as or (job.n_procs, job.scale))))


def kill_job(job: Job, at: float) -> None:
    """Record that a kill took effect; Batsim's answer to the kill follows."""
    _change(job, "kill")
    job.segment.ended_at = at


def end_job(job: Job, at: float, state: JobState, final_state: str) -> None:
    """Record the end of a job."""
    if state is JobState.COMPLETED:
        _change(job, "complete")
    elif state is JobState.REJECTED:
        _change(job, "reject")
    else:
        _change(job, "kill" if job.state is JobState.RUNNING else "finish")
    job.segment.ended_at = at
    job.final_state = final_state


class JobTable:
    """All jobs of a run: waiting and running jobs in full, and the `FinishedJobs`. Look-ups are O(1)."""

    def __init__(self) -> None:
        self.alive: dict[str, Job] = {}
        self.finished = FinishedJobs()
        self.by_wire_id: dict[str, Job] = {}
        self.registered = IdSet()  # ids of jobs that were registered in Batsim
        self.kills: dict[str, PendingKill] = {}  # by id in Batsim
        self.n_submitted = 0
        self.n_running = 0
        self.n_over: dict[JobState, int] = dict.fromkeys((JobState.COMPLETED, JobState.KILLED, JobState.REJECTED), 0)
        self.n_final: Counter[str] = Counter()  # by Batsim's final states

    def add(self, job: Job) -> None:
        """Add a new job."""
        self.alive[job.id] = self.by_wire_id[job.segment.wire_id] = job
        self.n_submitted += 1

    def rename(self, job: Job, wire_id: str) -> None:
        """Change the id by which Batsim knows the job, before it gets its next segment."""
        del self.by_wire_id[job.wire_id]
        self.finished.add(job.wire_id, f"continued as {wire_id}")
        self.by_wire_id[wire_id] = job

    def remove_finished(self, job: Job) -> None:
        """Remove a job that ended; its id and how it ended are kept."""
        wire_id, ended_at = job.segment.wire_id, job.segment.ended_at
        del self.alive[job.id]
        del self.by_wire_id[wire_id]
        outcome = job.final_state or job.state.value
        self.n_over[job.state] += 1
        self.n_final[outcome] += 1
        first = job.past[0] if job.past else job.segment
        is_success = outcome == COMPLETED_SUCCESSFULLY and job.fields.get("status", 1) == 1
        self.finished.add(job.id, outcome, ended_at, first.started_at, is_success=is_success)
        if wire_id != job.id:
            self.finished.add(wire_id, outcome, ended_at)

    def check(self) -> None:
        """Assert that states and fields of all jobs agree (for tests). O(alive)."""
        for job in self.alive.values():
            assert job.state not in {JobState.COMPLETED, JobState.REJECTED}, job.history()
            assert (job.state is JobState.HELD) == (job.start_at is not None), job.history()
            if job.state is JobState.WAITING:
                assert job.procs is None, job.history()
                assert job.started_at is None, job.history()
            if job.state is JobState.RUNNING:
                assert job.started_at is not None, job.history()
        assert self.n_running == sum(job.state is JobState.RUNNING for job in self.alive.values())

    def is_used(self, job_id: str) -> bool:
        """Return whether a job with this id was submitted or registered."""
        return job_id in self.by_wire_id or job_id in self.alive or self.finished.has(job_id)

    def knows(self, job_id: str) -> bool:
        """Return whether the id was ever used, by a user or in Batsim."""
        # A job may have been registered for a kill that came too late, and never used.
        return self.is_used(job_id) or self.registered.has(job_id)


def deadline_of(job_id: str, fields: Mapping[str, Any], submitted_at: float) -> float | None:
    """Return a job's deadline from its fields; None if it has none. Raises InputError for an invalid value."""
    if "deadline" not in fields and "max_stay" not in fields:
        return None
    if "deadline" in fields and "max_stay" in fields:
        raise InputError(f"job {job_id} has both deadline and max_stay; expected one of them")
    name = "deadline" if "deadline" in fields else "max_stay"
    try:
        value = _seconds(fields[name])
    except ValueError as error:
        raise InputError(f"job {job_id}, field {name}: {error}") from None
    if value is None:
        raise InputError(f"job {job_id}, field {name}: expected a number of seconds, found nothing")
    if value < 0:
        raise InputError(f"job {job_id}, field {name}: expected at least 0 seconds, found {fields[name]}")
    return value if name == "deadline" else instant(submitted_at, value)


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) is float and math.isfinite(value):
        return value
    try:
        if type(value) is int and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass  # an integer larger than any float
    raise ValueError(f"expected a number of seconds, found {str(value)[:60]}")
