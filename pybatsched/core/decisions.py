"""Decisions of a policy: one class per Batsim decision, and those that the engine carries out by several of them.

The engine checks each decision, adds time stamps and the ids of requeued jobs, and sends it to Batsim. A policy names
a job by `job.id`, which stays the same through kills and restarts.

Each decision has a `reason` for the journal. A reason is a text, or a tuple of a template and its arguments, which is
formatted only when it is shown: ``("ends before shadow time {}", 812.0)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_type_hints

import msgspec

from pybatsched.core.events import NOTHING
from pybatsched.core.intervals import IntervalSet

#: Why a decision was made: a text, or a format and its values, which are joined only if the text is needed.
Reason: TypeAlias = str | tuple[Any, ...]

#: The kind of a `Notify` that ends the registration of jobs.
REGISTRATION_FINISHED: Final = "registration_finished"
#: The kind of a `Notify` that opens the registration of jobs again.
CONTINUE_REGISTRATION: Final = "continue_registration"


def reason_text(reason: Reason) -> str:
    """Return a reason as text. A template that does not match its arguments is shown unformatted."""
    if not isinstance(reason, tuple):
        return str(reason or "")
    try:
        return str(reason[0]).format(*reason[1:])
    except (IndexError, KeyError, ValueError, TypeError):
        return " ".join(map(str, reason))


def reason_template(reason: Reason) -> str:
    """Return the template of a reason without its arguments, which groups reasons of one kind."""
    return str(reason[0]) if isinstance(reason, tuple) and reason else reason_text(reason)


#: The id of a job; peers may write it as a number.
JobId: TypeAlias = Annotated[str, "job id"]
#: A pstate as text; peers may write it as a number.
PState: TypeAlias = Annotated[str, "pstate"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all decisions. Without a `timestamp` the engine stamps it with the current time.

    A subclass is the whole record of a decision. `core.validator` checks its fields and their types, `protocol.v4`
    encodes them, and the class attributes are its names in messages. Methods named after it implement it:
    `check_execute_job` in `core.validator`, `do_execute_job` in `core.actions`, `effect_execute_job` in
    `simulator.decision_effects`, and one row in `protocol.v5_decisions` if Batsim 5 has it.
    """

    #: The type in the protocol of Batsim 4; empty for those that are never sent.
    v4_type: ClassVar[str] = ""
    #: The key of a field in the protocol of Batsim 4 where it is not the field's name.
    v4_keys: ClassVar[Mapping[str, str]] = NOTHING
    #: The type in the protocol of Batsim 5; empty if it has none.
    v5_type: ClassVar[str] = ""

    timestamp: float | None = None
    reason: Reason = ""
    extra: Mapping[str, Any] = NOTHING
    beside: Mapping[str, Any] = NOTHING


class ExecuteJob(Decision, frozen=True):
    """Start a waiting job on these processors. At most one of Batsim's three options may be given."""

    v4_type = "EXECUTE_JOB"
    v4_keys = {"procs": "alloc"}
    v5_type = "ExecuteJobEvent"

    job_id: JobId
    procs: IntervalSet
    mapping: Mapping[str, Any] | None = None
    storage_mapping: Mapping[str, Any] | None = None
    additional_io_job: Mapping[str, Any] | None = None


class RejectJob(Decision, frozen=True):
    """Reject a waiting job."""

    v4_type = "REJECT_JOB"
    v5_type = "RejectJobEvent"

    job_id: JobId


class KillJob(Decision, frozen=True):
    """Stop running jobs; `on_job_killed` follows.

    A job that is being killed already is not requeued. `on_job_ended` follows if the engine has killed it, because its
    machine failed or a reservation of hosts began.
    """

    v4_type = "KILL_JOB"
    v5_type = "KillJobsEvent"

    job_ids: tuple[str, ...]


class CallMeLater(Decision, frozen=True):
    """Request a call (`on_call`) at a time strictly in the future."""

    v4_type = "CALL_ME_LATER"
    v4_keys = {"at": "timestamp"}
    v5_type = "CallMeLaterEvent"

    at: float


class SetResourceState(Decision, frozen=True):
    """Switch processors to a pstate (needs Batsim's ``-E``)."""

    v4_type = "SET_RESOURCE_STATE"
    v4_keys = {"procs": "resources"}
    v5_type = "ChangeHostsPStateEvent"

    procs: IntervalSet
    state: PState


_PLAIN: Final = str.maketrans({";": ",", "=": "-", '"': "'", "\n": " ", "\r": " "})


def fact_text(text: str) -> str:
    """Return a text that can be the value of a fact in a job's metadata.

    >>> fact_text("a=b; c")
    'a-b, c'
    """
    return text.translate(_PLAIN)


class SetJobMetadata(Decision, frozen=True):
    """Set the metadata in the job's line of ``_jobs.csv``. It replaces earlier metadata; double quotes are not allowed.

    Numbers in it (``load_s=64;reused=0``) are facts of the job, which metrics, campaigns and reports can use. Metadata
    of the engine stays in front of it. Metadata that is set before a `Replace` is kept for the job that then runs.
    """

    v4_type = "SET_JOB_METADATA"

    job_id: JobId
    metadata: str


class ChangeJobState(Decision, frozen=True):
    """Force a job's state; in Batsim 4 only SUBMITTED to RUNNING works."""

    v4_type = "CHANGE_JOB_STATE"

    job_id: JobId
    job_state: str
    kill_reason: str | None = None


class RegisterJob(Decision, frozen=True):
    """Register a new job (needs `DYNAMIC_JOBS`)."""

    v4_type = "REGISTER_JOB"
    v5_type = "RegisterJobEvent"

    job_id: JobId
    job: Mapping[str, Any]


class RegisterProfile(Decision, frozen=True):
    """Register a new profile, and its workload if that does not exist yet (needs `DYNAMIC_JOBS`)."""

    v4_type = "REGISTER_PROFILE"
    v5_type = "RegisterProfileEvent"

    workload_name: str
    profile_name: str
    profile: Mapping[str, Any]


class Notify(Decision, frozen=True):
    """Send `REGISTRATION_FINISHED`, or `CONTINUE_REGISTRATION`, to Batsim (with `manages_registration`)."""

    v4_type = "NOTIFY"
    v4_keys = {"kind": "type"}
    v5_type = "FinishRegistrationEvent"

    kind: str


class Query(Decision, frozen=True):
    """Send a query to Batsim, which answers ``{"consumed_energy": {}}`` only. `on_answer` follows."""

    v4_type = "QUERY"

    requests: Mapping[str, Any]


class Answer(Decision, frozen=True):
    """Answer a query of the peer."""

    v4_type = "ANSWER"

    estimate_waiting_time: Mapping[str, Any] | None = None


class ToJobMsg(Decision, frozen=True):
    """Send a message to a running job."""

    v4_type = "TO_JOB_MSG"

    job_id: JobId
    msg: Any


class UnknownDecision(Decision, frozen=True):
    """A decision of unknown type, read from a peer. A policy must not make one."""

    type: str
    data: Mapping[str, Any]


class Requeue(Decision, frozen=True):
    """Kill a running job and requeue it as the same job, by several decisions of Batsim.

    ``work="all"`` restarts it from its last checkpoint, or from scratch if it has none; ``"rest"`` keeps the work done
    so far. `extra_s` seconds are added to the work (the cost of a swap, for example). When the kill has taken effect,
    the engine calls `on_job_killed` and the job waits again. If the job had ended before the kill, the engine calls
    `on_job_ended` and requeues nothing. `procs` are the processors on which the policy intends to resume it; the
    engine stores them in ``job.resume_on``. `by` is the job that it is preempted for, if there is one; reports show
    it.
    """

    job_id: JobId
    work: Literal["all", "rest"] = "all"
    extra_s: float = 0.0
    procs: IntervalSet | None = None
    by: str = ""


class StartAt(Decision, frozen=True):
    """Hold processors for a waiting job from now on, and start it on them at a given time.

    Until then the job is *held*: its partition counts it as running until that time plus its estimate, so local
    schedulers plan around it as around a running job. The engine requests the call. If one of the processors becomes
    unavailable before, the job waits again and the engine calls `on_job_released`. A time that has passed starts the
    job now.
    """

    job_id: JobId
    procs: IntervalSet
    at: float


class Release(Decision, frozen=True):
    """Return a held job to the waiting state; its processors are free at once."""

    job_id: JobId


class Replace(Decision, frozen=True):
    """Start a waiting job with another size or duration, or extra seconds before its work.

    A value of None changes nothing. `extra_s` seconds (a load) come before the job's work; this requires a profile of
    delays or a `duration_s`. Metrics count them as wait, and a `Requeue` does not keep them. Walltime and estimate grow
    with the duration and the load. With `within_walltime` both keep their values, and Batsim kills the job at its
    walltime, load included. `spent_s` seconds of walltime and estimate are over when the job starts: both shrink to
    the rest, at least one tick. The job keeps its id for the policy and its users. After a `duration_s`, a restart
    repeats this duration; with another size alone, it repeats all work of the job.
    """

    job_id: JobId
    procs: IntervalSet
    n: int | None = None
    duration_s: float | None = None
    extra_s: float = 0.0
    within_walltime: bool = False
    spent_s: float = 0.0


class Reshape(Decision, frozen=True):
    """Change the size and the times of a waiting job. Nothing is sent to Batsim yet. O(1).

    The run time, walltime and estimate of the submitted job are multiplied by `scale` and rounded to Batsim's tick. A
    second `Reshape` replaces the first. `job.n_procs`, `job.walltime` and `job.estimate` change at once. When the job
    starts, the engine registers a job of the new shape in its place, as for a `Replace`; in its submitted shape the job
    itself starts. A requeued job keeps its shape and can be reshaped again: its remaining work is then scaled to the
    new shape. The job must be in no local scheduler's queue, and its profile must consist of delays.
    """

    job_id: JobId
    n: int
    scale: float


#: All decisions that a policy may make.
DECISIONS: Final[tuple[type[Decision], ...]] = tuple(
    cls for cls in Decision.__subclasses__() if cls is not UnknownDecision
)


def method_name(decision: type[Decision]) -> str:
    """Return the name of the methods for a decision, without their prefix.

    >>> method_name(SetResourceState)
    'set_resource_state'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", decision.__name__).lower()


def field_types(decision: type[Decision]) -> dict[str, Any]:
    """Return the types of a decision's own fields, in order."""
    hints = get_type_hints(decision, include_extras=True)
    return {name: hints[name] for name in decision.__struct_fields__ if name not in Decision.__struct_fields__}
