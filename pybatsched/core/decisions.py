"""What the scheduler tells the world, in the imperative: one class per Batsim decision, and the engine's services.

Policies make decisions and hand them to the engine, which checks them, fills in what a policy need not know
(time stamps, the ids of requeued jobs) and passes them on to Batsim. A job is named by `job.id`, which stays the
same through kills and restarts.

Each decision carries a `reason` for the people who read the journal. A reason is a text, or a tuple of a
template and its arguments that is formatted only when somebody looks: ``("ends before shadow time {}", 812.0)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_type_hints

import msgspec

from pybatsched.core.events import NOTHING
from pybatsched.core.intervals import IntervalSet

Reason: TypeAlias = str | tuple[Any, ...]

REGISTRATION_FINISHED: Final = "registration_finished"
CONTINUE_REGISTRATION: Final = "continue_registration"


def reason_text(reason: Reason) -> str:
    """Format a reason. A template that does not match its arguments is shown as it is, never an error."""
    if not isinstance(reason, tuple):
        return str(reason or "")
    try:
        return str(reason[0]).format(*reason[1:])
    except (IndexError, KeyError, ValueError, TypeError):
        return " ".join(map(str, reason))


def reason_template(reason: Reason) -> str:
    """Give what reasons of one kind share: the template without its arguments."""
    return str(reason[0]) if isinstance(reason, tuple) and reason else reason_text(reason)


#: The id of a job; peers may write it as a number.
JobId: TypeAlias = Annotated[str, "job id"]
#: A pstate as text; peers may write it as a number.
PState: TypeAlias = Annotated[str, "pstate"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all decisions. Without a `timestamp` the engine stamps it with the present time.

    A subclass is the whole record of a decision. Its fields and their types are what `core.rules` checks and
    `protocol.v4` encodes; the class attributes are its names on the wire. What it does is in methods that carry its
    name: `check_execute_job` in `core.rules`, `do_execute_job` in `core.actions`, `order_execute_job` in
    `simulator.orders`, and one row in `protocol.v5_decisions` if Batsim 5 has it.
    """

    #: The type in the protocol of Batsim 4; empty for the engine's services, which are never sent.
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
    """Refuse a waiting job for good."""

    v4_type = "REJECT_JOB"
    v5_type = "RejectJobEvent"

    job_id: JobId


class KillJob(Decision, frozen=True):
    """Stop running jobs; `on_job_killed` follows."""

    v4_type = "KILL_JOB"
    v5_type = "KillJobsEvent"

    job_ids: tuple[str, ...]


class CallMeLater(Decision, frozen=True):
    """Ask to be called (`on_call`) at an instant strictly in the future."""

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
    """Write words so that they can be the value of a fact in a job's metadata.

    >>> fact_text("a=b; c")
    'a-b, c'
    """
    return text.translate(_PLAIN)


class SetJobMetadata(Decision, frozen=True):
    """Write a note into the job's line of ``_jobs.csv``, instead of an earlier one; it must not contain double quotes.

    Numbers in it (``load_s=64;reused=0``) are facts of the job, and measures of metrics, campaigns and pages. What the
    engine itself has to say stays in front of it. A note that is given before a `Replace` is that of what runs.
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
    """Make a new job (needs `DYNAMIC_JOBS`)."""

    v4_type = "REGISTER_JOB"
    v5_type = "RegisterJobEvent"

    job_id: JobId
    job: Mapping[str, Any]


class RegisterProfile(Decision, frozen=True):
    """Make a new profile, and its workload if that does not exist yet (needs `DYNAMIC_JOBS`)."""

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
    """Ask Batsim something; it knows ``{"consumed_energy": {}}``. `on_answer` follows."""

    v4_type = "QUERY"

    requests: Mapping[str, Any]


class Answer(Decision, frozen=True):
    """Answer a question of the peer."""

    v4_type = "ANSWER"

    estimate_waiting_time: Mapping[str, Any] | None = None


class ToJobMsg(Decision, frozen=True):
    """Send a message to a running job."""

    v4_type = "TO_JOB_MSG"

    job_id: JobId
    msg: Any


class UnknownDecision(Decision, frozen=True):
    """A decision this version does not know. Read from a peer it is kept; a policy must not make one."""

    type: str
    data: Mapping[str, Any]


class Requeue(Decision, frozen=True):
    """Kill a running job and put it back into the queue as the same job, by the engine's service.

    ``work="all"`` starts it from scratch, ``"rest"`` keeps what is done; `extra_s` seconds are added to the work
    (the price of a swap, say). When the kill has taken effect the policy hears `on_job_killed` with the job waiting
    again; if it had ended by itself meanwhile, the policy hears `on_job_ended` and nothing is requeued. `procs` are the
    processors the policy means to resume it on; the engine notes them in ``job.resume_on``. `by` is the job that it
    makes room for, if there is one, for those who look at the run later.
    """

    job_id: JobId
    work: Literal["all", "rest"] = "all"
    extra_s: float = 0.0
    procs: IntervalSet | None = None
    by: str = ""


class StartAt(Decision, frozen=True):
    """Keep processors for a waiting job from now on, and start it on them at an instant, by the engine's service.

    Until then the job is *held*: its partition counts it as running until that instant and its estimate after it, so
    local schedulers plan around it as around any other. The engine asks for the call. If one of the processors goes
    away before, the job waits again and the policy hears `on_job_released`. An instant that has come starts it now.
    """

    job_id: JobId
    procs: IntervalSet
    at: float


class Release(Decision, frozen=True):
    """Let a held job wait again; its processors are free at once."""

    job_id: JobId


class Replace(Decision, frozen=True):
    """Start a waiting job with another size or duration, or a load in front of its work, by the engine's service.

    What is None stays as it is. `extra_s` seconds that are no work, a load, come before the job's own (only where its
    profile is made of delays, or with a `duration_s`): metrics count them as wait, and a `Requeue` does not keep them.
    Walltime and estimate grow with the duration and the load, unless it is `within_walltime`: then both stay as they
    are, and Batsim kills the job at its walltime, load included. The job keeps its id for the policy and its users.
    """

    job_id: JobId
    procs: IntervalSet
    n: int | None = None
    duration_s: float | None = None
    extra_s: float = 0.0
    within_walltime: bool = False


class Reshape(Decision, frozen=True):
    """Let a waiting job have another size and other times from now on, by the engine's service. Nothing is sent. O(1).

    Its run time, walltime and estimate are those of the job as it was submitted times `scale`, on Batsim's tick: a
    second `Reshape` takes the place of the first. Whoever plans sees the new `job.n_procs`, `job.walltime` and
    `job.estimate` at once. When the job starts, one of this shape is registered in its place, as by a `Replace`; in the
    shape it was submitted in, the job itself. What is requeued goes on in its shape, and may be reshaped again: then
    the rest of its work is what it would be in the new one. The job must be in no local scheduler's queue, and its
    profile made of delays.
    """

    job_id: JobId
    n: int
    scale: float


#: All decisions that a policy may make.
DECISIONS: Final[tuple[type[Decision], ...]] = tuple(
    cls for cls in Decision.__subclasses__() if cls is not UnknownDecision
)


def method_name(decision: type[Decision]) -> str:
    """Return the name that methods about a decision carry.

    >>> method_name(SetResourceState)
    'set_resource_state'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", decision.__name__).lower()


def field_types(decision: type[Decision]) -> dict[str, Any]:
    """Return the types of a decision's own fields, in order."""
    hints = get_type_hints(decision, include_extras=True)
    return {name: hints[name] for name in decision.__struct_fields__ if name not in Decision.__struct_fields__}
