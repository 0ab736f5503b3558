"""The rules of Batsim, checked before a decision leaves: breaking one would abort the simulation.

`Validator.check(decision)` applies the rules of the decision's class and raises `Violation` with the name of the first
broken rule. It changes nothing. The rules are those that Batsim 4.2 checks, as far as a scheduler can know the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, get_args

from msgspec.structs import astuple, replace

from pybatsched.core import decisions as d
from pybatsched.core.derive import is_any_size
from pybatsched.core.events import NOTHING
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState

if TYPE_CHECKING:
    from pybatsched.core.cluster import Cluster
    from pybatsched.core.jobs import JobTable


class Violation(Exception):  # noqa: N818  the referee's word; the engine makes a PolicyError of it
    """A decision breaks a rule."""

    def __init__(self, rule: str, text: str, *, job: Job | None = None, job_id: str = "", story: str = "") -> None:
        super().__init__(text)
        self.rule = rule
        self.text = text
        self.job_id = job.id if job is not None else job_id
        self.story = job.story() if job is not None else story


class Validator:
    """Checks decisions against the present state."""

    def __init__(self, jobs: JobTable, cluster: Cluster) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self.now = 0.0
        self.dynamic_jobs = bool(cluster.config.get("dynamic-jobs-enabled"))
        #: The types of the fields of decisions that are well-formed, and the fields to make plain before a check.
        self._well_formed: dict[tuple[type, ...], tuple[str, ...]] = {}
        self._checks: dict[type[d.Decision], Callable[[Any], None]] = {
            cls: getattr(self, f"check_{d.method_name(cls)}") for cls in d.DECISIONS
        }

    def check(self, decision: d.Decision) -> d.Decision:
        """Raise `Violation` if the decision is not allowed now. O(k) for the processors it names.

        Return the decision to carry out: the same one, with numbers and texts of subclasses (``numpy.float64`` is a
        float) made plain ones, which every encoder can write.
        """
        check = self._checks.get(type(decision))
        if check is None:
            kind = type(decision).__name__
            raise Violation("known decision", f"{kind} is no decision that Batsim understands: {decision!r:.200}")
        # Only types matter here, so a decision is well-formed if one with the same types in its fields was.
        kinds = (type(decision), *map(type, astuple(decision)))
        to_plain = self._well_formed.get(kinds)
        if to_plain is None:
            self._check_fields(decision)
            to_plain = self._well_formed[kinds] = _fields_to_plain(decision)
        if to_plain:
            decision = replace(decision, **{name: _plain(getattr(decision, name)) for name in to_plain})
        if decision.timestamp is not None and not math.isfinite(decision.timestamp):
            raise Violation("finite numbers", f"the time stamp {decision.timestamp} is no instant")
        check(decision)
        return decision

    def _check_fields(self, decision: d.Decision) -> None:
        for name, types in _FIELD_TYPES[type(decision)]:
            value = getattr(decision, name)
            if not isinstance(value, types):
                hint = " (IntervalSet.from_procset makes one of it)" if type(value).__name__ == "ProcSet" else ""
                found = f"{type(decision).__name__}.{name} is {_with_article(type(value))}: {value!r:.80}"
                raise Violation("well-formed", f"{found}; expected {_expected(types)}{hint}")

    # --- jobs ---

    def job(self, job_id: str) -> Job:
        """Give a job that is alive, by its user's id or the one Batsim knows it by now."""
        job = self.jobs.alive.get(job_id) or self.jobs.by_wire_id.get(job_id)
        if job is not None:
            return job
        last_word = self.jobs.last_word(job_id)
        if last_word is not None:
            raise Violation("job alive", f"job {job_id} is over", job_id=job_id, story=last_word)
        raise Violation("job known", f"no job {job_id!r} has been submitted", job_id=str(job_id))

    def _waiting(self, job_id: str, what: str) -> Job:
        job = self.job(job_id)
        if job.state is not JobState.WAITING:
            raise Violation("job waiting", f"cannot {what} job {job_id}: it is {job.state.value}", job=job)
        return job

    def _running(self, job_id: str, what: str) -> Job:
        job = self.job(job_id)
        if job.state is not JobState.RUNNING:
            raise Violation("job running", f"cannot {what} job {job_id}: it is {job.state.value}", job=job)
        return job

    def check_execute_job(self, decision: d.ExecuteJob) -> None:
        """Check `ExecuteJob`."""
        job = self._waiting(decision.job_id, "start")
        n_options = (
            (decision.mapping is not None)
            + (decision.storage_mapping is not None)
            + (decision.additional_io_job is not None)
        )
        if n_options > 1:
            raise Violation("one option", "only one of mapping, storage_mapping and additional_io_job", job=job)
        n = len(decision.procs)
        if decision.mapping is not None:
            self._mapping(decision.mapping, n, job)
        elif n != job.n_procs and not self.any_size(job):
            raise Violation("right number", f"job {job.id} asks for {job.n_procs} processors, got {n}", job=job)
        self._usable(decision.procs, job)

    def any_size(self, job: Job) -> bool:
        """Tell whether the job's profile lets it run on any number of processors."""
        return is_any_size(job.profile, self.cluster.profiles.get(job.workload, {}))

    def _mapping(self, mapping: Mapping[str, Any], n: int, job: Job) -> None:
        try:
            places = {int(executor): int(place) for executor, place in mapping.items()}
        except (TypeError, ValueError):
            places = {}
        if set(places) != set(range(job.n_procs)) or not all(0 <= place < n for place in places.values()):
            raise Violation(
                "mapping",
                f"the mapping must give each executor 0 to {job.n_procs - 1} one of the {n} processors, "
                f"counted from 0; got {dict(mapping)!r:.120}",
                job=job,
            )

    def _usable(self, procs: IntervalSet, job: Job) -> None:
        """Check that processors exist, are here, free, and in one partition."""
        if not procs:
            raise Violation("right number", "a job needs at least one processor", job=job)
        for partition in self.cluster.partitions.values():
            if procs.issubset(partition.free):
                return
        self._explain_unusable(procs, job)

    def _explain_unusable(self, procs: IntervalSet, job: Job) -> None:
        """Say why these processors are not all free in one partition, unless they may be shared."""
        partition = self.cluster.partition_of(procs)
        if partition is None:
            strange = procs - self.cluster.procs
            text = (
                f"{strange} are no compute processors of this platform"
                if strange
                else f"{procs} lie in more than one partition"
            )
            raise Violation("inside the partition", text, job=job)
        away = procs & partition.away
        if away:
            raise Violation("processors available", f"{away} are unavailable or asleep", job=job)
        if not self.cluster.allow_sharing:
            busy = procs - partition.free
            holders = sorted(
                other.id for other in partition.running_jobs if other.procs and not other.procs.isdisjoint(busy)
            )
            text = f"{busy} are not free: held by {', '.join(holders[:5])}"
            raise Violation("processors free", text, job=job)

    def check_reject_job(self, decision: d.RejectJob) -> None:
        """Check `RejectJob`."""
        self._waiting(decision.job_id, "reject")

    def check_kill_job(self, decision: d.KillJob) -> None:
        """Check `KillJob`."""
        if not decision.job_ids:
            raise Violation("job running", "KillJob names no job")
        for job_id in decision.job_ids:
            self._running(job_id, "kill")

    def check_requeue(self, decision: d.Requeue) -> None:
        """Check `Requeue`."""
        job = self._running(decision.job_id, "requeue")
        self.registration(job)
        if decision.work not in {"all", "rest"}:
            raise Violation("known work", f"work is 'all' or 'rest', not {decision.work!r}", job=job)
        if not (math.isfinite(decision.extra_s) and decision.extra_s >= 0):
            raise Violation("finite numbers", f"extra_s is a number of seconds from 0, not {decision.extra_s}", job=job)
        if decision.procs is not None:
            self._resumable(decision.procs, job)

    def _resumable(self, procs: IntervalSet, job: Job) -> None:
        """Check that a running job could be resumed on these processors, once they are free."""
        n = len(procs)
        n_now = 0 if job.procs is None else len(job.procs)  # by a mapping it may run on fewer than it asks for
        if not n or (n not in {job.n_procs, n_now} and not self.any_size(job)):
            raise Violation("right number", f"job {job.id} asks for {job.n_procs} processors, got {n}", job=job)
        if self.cluster.partition_of(procs) is None:
            self._explain_unusable(procs, job)

    def check_start_at(self, decision: d.StartAt) -> None:
        """Check `StartAt`."""
        job = self._waiting(decision.job_id, "hold processors for")
        if not (math.isfinite(decision.at) and decision.at >= self.now - TICK):
            raise Violation(
                "start in the future", f"job {job.id} cannot start at {decision.at}; it is {self.now}", job=job
            )
        if len(decision.procs) != job.n_procs and not self.any_size(job):
            raise Violation(
                "right number", f"job {job.id} asks for {job.n_procs} processors, got {len(decision.procs)}", job=job
            )
        self._usable(decision.procs, job)

    def check_release(self, decision: d.Release) -> None:
        """Check `Release`."""
        job = self.job(decision.job_id)
        if job.state is not JobState.HELD:
            raise Violation("job held", f"cannot release job {job.id}: it is {job.state.value}", job=job)

    def check_replace(self, decision: d.Replace) -> None:
        """Check `Replace`."""
        job = self._waiting(decision.job_id, "replace")
        n = job.n_procs if decision.n is None else decision.n
        duration_s = decision.duration_s
        if duration_s is not None and not (math.isfinite(duration_s) and duration_s > 0):
            raise Violation("finite numbers", f"duration_s must be more than 0 seconds, not {duration_s}", job=job)
        if not (math.isfinite(decision.extra_s) and decision.extra_s >= 0):
            raise Violation("finite numbers", f"extra_s is a number of seconds from 0, not {decision.extra_s}", job=job)
        if len(decision.procs) != n:
            raise Violation("right number", f"{n} processors are wanted, {len(decision.procs)} given", job=job)
        self._usable(decision.procs, job)

    def check_reshape(self, decision: d.Reshape) -> None:
        """Check `Reshape`."""
        job = self._waiting(decision.job_id, "reshape")
        if job.queued_in is not None:
            text = f"job {job.id} waits in the queue of partition {job.queued_in.name}; withdraw it first"
            raise Violation("in no queue", text, job=job)
        if not 1 <= decision.n <= self.cluster.n_procs:
            text = f"a job has 1 to {self.cluster.n_procs} processors, as many as the platform; got {decision.n}"
            raise Violation("right number", text, job=job)
        # An integer may be larger than any float, which compiled code would not let in.
        scale: Any = getattr(decision, "scale")  # noqa: B009
        if not 0 < scale < 1e300:
            text = f"scale is what times are multiplied with, a number above 0, not {scale!r:.60}"
            raise Violation("finite numbers", text, job=job)

    def check_to_job_msg(self, decision: d.ToJobMsg) -> None:
        """Check `ToJobMsg`."""
        self.job(decision.job_id)

    def check_set_job_metadata(self, decision: d.SetJobMetadata) -> None:
        """Check `SetJobMetadata`."""
        job = self.job(decision.job_id)
        if '"' in decision.metadata:
            raise Violation("metadata without quotes", f"double quotes in {decision.metadata!r:.120}", job=job)

    def check_change_job_state(self, decision: d.ChangeJobState) -> None:
        """Check `ChangeJobState`."""
        job = self._waiting(decision.job_id, "change the state of")
        if decision.job_state != "RUNNING":
            raise Violation("job state", f"Batsim 4 crashes on a change to {decision.job_state!r}", job=job)
        if job.is_reshaped:
            raise Violation("job state", "it was reshaped, and Batsim knows it in another shape", job=job)

    # --- time and machines ---

    def check_call_me_later(self, decision: d.CallMeLater) -> None:
        """Check `CallMeLater`."""
        handled_at = max(self.now, decision.timestamp or 0.0)
        if not (math.isfinite(decision.at) and decision.at > handled_at):
            raise Violation(
                "call in the future", f"asked to be called at {decision.at}; it is {handled_at} when Batsim reads it"
            )

    def check_set_resource_state(self, decision: d.SetResourceState) -> None:
        """Check `SetResourceState`."""
        if not decision.procs or not decision.procs.issubset(self.cluster.procs | self.cluster.storage):
            raise Violation("processors known", f"'{decision.procs}' are no processors of this platform")
        if not decision.state.isdigit():
            raise Violation("pstate", f"a pstate is a number as text, not {decision.state!r}")
        if any(decision.state in self.cluster.sleep_pstates(i) for i in decision.procs):
            asleep = decision.procs & self.cluster.asleep
            if asleep:
                raise Violation("pstate", f"{asleep} sleep already, or are on the way")
            for partition in self.cluster.partitions.values():
                for job in partition.running_jobs:
                    if job.procs is not None and not job.procs.isdisjoint(decision.procs):
                        raise Violation("pstate", f"{job.procs & decision.procs} run job {job.id}", job=job)

    # --- registration and talk ---

    def registration(self, job: Job | None = None) -> None:
        """Check that jobs can be registered at all."""
        if not self.dynamic_jobs:
            raise Violation("registration enabled", "Batsim was started without --enable-dynamic-jobs", job=job)

    def check_register_job(self, decision: d.RegisterJob) -> None:
        """Check `RegisterJob`."""
        self.registration()
        job_id, job = decision.job_id, decision.job
        _finite(job, f"job {job_id}")
        workload = job_id.partition("!")[0]
        if "!" not in job_id or not workload:
            raise Violation("job id", f"a registered job is named WORKLOAD!JOB, not {job_id!r}")
        if self.jobs.knows(job_id):
            raise Violation("new job id", f"there has been a job {job_id} already", job_id=job_id)
        for key, types in (("subtime", (int, float)), ("res", (int,)), ("profile", (str,))):
            if type(job.get(key)) not in types:
                raise Violation("whole job", f"job {job_id} has no {key}, or one of a wrong type: {job.get(key)!r}")
        if job["res"] < 1:
            raise Violation("whole job", f"job {job_id} asks for {job['res']} processors")
        for key in ("walltime", "estimate"):
            value = job.get(key)
            if key == "walltime" and value == -1:
                continue  # Batsim's way to say that there is none
            if value is not None and not (type(value) in {int, float} and value > 0):
                raise Violation("whole job", f"job {job_id}: {key} must be more than 0 seconds, got {value!r}")
        if workload not in self.cluster.profiles:
            raise Violation("workload known", f"there is no workload {workload!r}: register a profile in it first")
        if self.cluster.is_spent(workload, job["profile"]):
            raise Violation(
                "profile known",
                f"Batsim has forgotten the profile {job['profile']!r} of {workload!r} with the first job that ended on "
                "it; register another one, or start Batsim with --enable-profile-reuse",
            )
        if job["profile"] not in self.cluster.profiles[workload]:
            raise Violation("profile known", f"workload {workload!r} has no profile {job['profile']!r}")

    def check_register_profile(self, decision: d.RegisterProfile) -> None:
        """Check `RegisterProfile`."""
        self.registration()
        name = f"{decision.workload_name}!{decision.profile_name}"
        _finite(decision.profile, f"profile {name}")
        is_spent = self.cluster.is_spent(decision.workload_name, decision.profile_name)
        if is_spent or decision.profile_name in self.cluster.profiles.get(decision.workload_name, {}):
            raise Violation("new profile", f"there has been a profile {name} already")
        kind = decision.profile.get("type")
        if type(kind) is not str:
            raise Violation("whole profile", f"profile {name} has no type")
        if kind in {"smpi", "usage_trace"}:
            raise Violation("whole profile", f"profile {name}: Batsim reads {kind} profiles from files only")
        if kind == "composed":
            raise Violation("whole profile", f"profile {name}: Batsim 4 crashes on a composed profile made at run time")
        delay = decision.profile.get("delay")
        if kind == "delay" and not (isinstance(delay, int | float) and delay > 0):
            raise Violation("whole profile", f"profile {name}: a delay must be more than 0 seconds, got {delay!r}")

    def check_notify(self, decision: d.Notify) -> None:
        """Check `Notify`."""
        if decision.kind not in {d.REGISTRATION_FINISHED, d.CONTINUE_REGISTRATION}:
            raise Violation("known notice", f"Batsim knows no notice {decision.kind!r}")

    def check_query(self, decision: d.Query) -> None:
        """Check `Query`."""
        if set(decision.requests) != {"consumed_energy"}:
            raise Violation("known query", f"Batsim answers consumed_energy only, not {list(decision.requests)}")

    def check_answer(self, decision: d.Answer) -> None:
        """Check `Answer`."""
        if not decision.estimate_waiting_time:
            raise Violation("whole answer", f"the answer is empty: {decision!r:.120}")


#: The classes that a value of a field may have, by the field's type; other types are not checked here.
_CLASSES: Final[dict[Any, tuple[type, ...]]] = {
    str: (str,),
    d.JobId: (str,),
    d.PState: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    IntervalSet: (IntervalSet,),
    Mapping[str, Any]: (Mapping,),
    tuple[str, ...]: (tuple, list),
    type(None): (type(None),),
}


def _classes_of(field_type: Any) -> tuple[type, ...]:
    parts = get_args(field_type) if isinstance(field_type, UnionType) else (field_type,)
    return tuple(cls for part in parts for cls in _CLASSES.get(part, ()))


_FIELD_TYPES: Final[dict[type[d.Decision], tuple[tuple[str, tuple[type, ...]], ...]]] = {
    cls: tuple(
        (name, classes)
        for name, kind in {"timestamp": float | None, **d.field_types(cls)}.items()
        if (classes := _classes_of(kind))
    )
    for cls in d.DECISIONS
}


def _expected(types: tuple[type, ...]) -> str:
    """Name the types that a field may have, for a message: ``an int, a float or None``."""
    names = [_with_article(one) for one in types]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _with_article(cls: type) -> str:
    """Name a type with its article."""
    name = cls.__name__
    return "None" if cls is type(None) else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


#: Types that encoders can write as they are; a field of another type may be a subclass, or contain one.
_PLAIN: Final = {type(None), int, float, str, bool, IntervalSet, type(NOTHING)}


def _fields_to_plain(decision: d.Decision) -> tuple[str, ...]:
    """Return the fields whose types an encoder may not know."""
    names = decision.__struct_fields__
    return tuple(name for name in names if name != "reason" and type(getattr(decision, name)) not in _PLAIN)


def _plain(value: Any) -> Any:
    """Make numbers and texts of subclasses plain ones, however deep they are. What is plain stays the same object."""
    if type(value) not in _PLAIN:
        for types, to_plain in _TO_PLAIN:
            if isinstance(value, types):
                return to_plain(value)
    return value


def _plain_mapping(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    made = {_plain(key): _plain(part) for key, part in value.items()}
    is_same = all(one is other for one, other in zip((*made, *made.values()), (*value, *value.values()), strict=True))
    return value if is_same else made


def _plain_list(value: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
    made = [_plain(part) for part in value]
    return value if all(one is other for one, other in zip(made, value, strict=True)) else made


_TO_PLAIN: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    (float, float),
    (int, int),
    (str, str.__str__),
    (Mapping, _plain_mapping),
    ((list, tuple), _plain_list),
)


def _finite(value: Any, where: str) -> None:
    """Refuse numbers that JSON cannot carry, however deep they are."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Violation("finite numbers", f"{where} contains {value}")
    if isinstance(value, Mapping):
        for part in value.values():
            _finite(part, where)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _finite(part, where)
