"""The rules of Batsim, checked before a decision is sent: Batsim aborts the simulation if a decision breaks one.

`Validator.check(decision)` applies the rules of the decision's class and raises `Violation` with the name of the first
broken rule. It changes nothing. The rules are those of Batsim 4.2, as far as a scheduler can know the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, get_args

from msgspec.structs import astuple, replace

from pybatsched.core import decisions as d
from pybatsched.core.derive import (
    CannotDeriveError,
    can_copy,
    delay_of,
    is_any_size,
    loaded_profile,
    resized_profile,
)
from pybatsched.core.events import NOTHING
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.node_requests import PLAIN
from pybatsched.errors import PolicyError, setting

if TYPE_CHECKING:
    from pybatsched.core.cluster import Cluster
    from pybatsched.core.jobs import JobTable
    from pybatsched.core.nodes import Nodes


class Violation(Exception):  # noqa: N818  the engine converts it to a PolicyError
    """A decision breaks a rule."""

    def __init__(self, rule: str, text: str, *, job: Job | None = None, job_id: str = "", history: str = "") -> None:
        super().__init__(text)
        self.rule = rule
        self.text = text
        self.job_id = job.id if job is not None else job_id
        self.history = job.history() if job is not None else history

    def as_policy_error(self, policy: str) -> PolicyError:
        """Return the error of the policy that made the decision."""
        return PolicyError(self.text, policy=policy, rule=self.rule, job_id=self.job_id, history=self.history)


class Validator:
    """Checks decisions against the current state."""

    def __init__(self, jobs: JobTable, cluster: Cluster) -> None:
        self.jobs = jobs
        self.cluster = cluster
        self.now = 0.0
        self.dynamic_jobs = bool(cluster.config.get("dynamic-jobs-enabled"))
        #: Field types of well-formed decisions, with the fields to convert to plain types before a check.
        self._well_formed: dict[tuple[type, ...], tuple[str, ...]] = {}
        self._checks: dict[type[d.Decision], Callable[[Any], None]] = {
            cls: getattr(self, f"check_{d.method_name(cls)}") for cls in d.DECISIONS
        }

    def check(self, decision: d.Decision) -> d.Decision:
        """Raise `Violation` if the decision is not allowed now. Return it with plain types. O(k)."""
        check = self._checks.get(type(decision))
        if check is None:
            kind = type(decision).__name__
            raise Violation("known decision", f"{kind} is not a decision of pybatsched: {decision!r:.200}")
        if type(decision) is d.ExecuteJob:
            job = self._usual_start(decision)
            if job is not None:
                self._usable(decision.procs, job)
                return decision
        # Only types matter here: a decision is well-formed if an earlier one with the same field types was.
        kinds = (type(decision), *map(type, astuple(decision)))
        to_plain = self._well_formed.get(kinds)
        if to_plain is None:
            self._check_fields(decision)
            to_plain = self._well_formed[kinds] = _fields_to_plain(decision)
        if to_plain:
            decision = replace(decision, **{name: _plain(getattr(decision, name)) for name in to_plain})
        if decision.timestamp is not None and not math.isfinite(decision.timestamp):
            raise Violation("finite numbers", f"the time stamp is {decision.timestamp}; expected a finite number")
        check(decision)
        return decision

    def _usual_start(self, decision: d.ExecuteJob) -> Job | None:
        """Return the waiting job of a start on as many processors as it needs, without options; else None.

        Nearly all decisions are such starts. They need no other check than that the processors can be used.
        """
        if type(decision.job_id) is not str or type(decision.procs) is not IntervalSet:
            return None
        if decision.timestamp is not None or decision.mapping is not None or decision.storage_mapping is not None:
            return None
        if decision.additional_io_job is not None:
            return None
        job = self.jobs.alive.get(decision.job_id)
        if job is None or job.state is not JobState.WAITING or len(decision.procs) != job.n_procs:
            return None
        return job

    def _check_fields(self, decision: d.Decision) -> None:
        for name, types in _field_types(type(decision)):
            value = getattr(decision, name)
            if not isinstance(value, types):
                hint = " (use IntervalSet.from_procset)" if type(value).__name__ == "ProcSet" else ""
                found = f"{type(decision).__name__}.{name} is {_with_article(type(value))}: {value!r:.80}"
                raise Violation("well-formed", f"{found}; expected {_expected(types)}{hint}")

    # --- jobs ---

    def job(self, job_id: str) -> Job:
        """Return a waiting or running job, by its user's id or its current id in Batsim."""
        job = self.jobs.alive.get(job_id) or self.jobs.by_wire_id.get(job_id)
        if job is not None:
            return job
        outcome = self.jobs.finished.outcome(job_id)
        if outcome is not None:
            raise Violation("job alive", f"job {job_id} has ended", job_id=job_id, history=outcome)
        raise Violation("job known", f"unknown job {job_id!r}; expected the id of a submitted job", job_id=str(job_id))

    def _waiting(self, job_id: str, what: str) -> Job:
        job = self.jobs.alive.get(job_id) or self.job(job_id)
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
        mapping, storage_mapping, io_job = decision.mapping, decision.storage_mapping, decision.additional_io_job
        if (mapping is not None) + (storage_mapping is not None) + (io_job is not None) > 1:
            text = "expected at most one of mapping, storage_mapping and additional_io_job"
            raise Violation("one option", text, job=job)
        n = len(decision.procs)
        if mapping is not None:
            self._mapping(mapping, n, job)
        elif n != job.n_procs and not self.any_size(job):
            raise Violation("right number", _wrong_number(job, n), job=job)
        self._usable(decision.procs, job)

    def any_size(self, job: Job) -> bool:
        """Return whether the job's profile lets it run on any number of processors."""
        return is_any_size(job.profile, self.cluster.profiles.get(job.workload, {}))

    def _mapping(self, mapping: Mapping[str, Any], n: int, job: Job) -> None:
        try:
            indices = {int(executor): int(index) for executor, index in mapping.items()}
        except (TypeError, ValueError):
            indices = {}
        if set(indices) != set(range(job.n_procs)) or not all(0 <= index < n for index in indices.values()):
            raise Violation(
                "mapping",
                f"expected a mapping of each executor 0 to {job.n_procs - 1} to one of the {n} processors, "
                f"counted from 0; found {dict(mapping)!r:.120}",
                job=job,
            )

    def _usable(self, procs: IntervalSet, job: Job) -> None:
        """Check that processors exist, are available, free, and in one partition."""
        if not procs:
            raise Violation("right number", "the decision has no processors; expected at least one", job=job)
        for partition in self.cluster.partitions.values():
            if procs.issubset(partition.free):
                if self.cluster.nodes is not None:
                    self._check_nodes(self.cluster.nodes, procs, job)
                return
        self._explain_unusable(procs, job)

    def _check_nodes(self, nodes: Nodes, procs: IntervalSet, job: Job) -> None:
        """Check that free processors are in a partition of the job, and that their nodes have what it requests."""
        request = nodes.requests.get(job.id, PLAIN)
        if nodes.partitions:
            problem = nodes.outside(request, procs)
            if problem is not None:
                raise Violation("inside the partition", f"job {job.id} cannot start on {procs}: {problem}", job=job)
        problem = nodes.problem(request, procs)
        if problem is not None:
            raise Violation("node resources", f"job {job.id} cannot start on {procs}: {problem}", job=job)

    def _explain_unusable(self, procs: IntervalSet, job: Job) -> None:
        """Raise the violation for processors that are not all free in one partition, unless they may be shared."""
        partition = self.cluster.partition_of(procs)
        if partition is None:
            unknown = procs - self.cluster.procs
            text = (
                f"{unknown} are not compute processors of this platform"
                if unknown
                else f"{procs} are in more than one partition; expected one"
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
            text = f"{busy} are not free: used by {', '.join(holders[:5])}"
            raise Violation("processors free", text, job=job)

    def check_reject_job(self, decision: d.RejectJob) -> None:
        """Check `RejectJob`."""
        self._waiting(decision.job_id, "reject")

    def check_kill_job(self, decision: d.KillJob) -> None:
        """Check `KillJob`."""
        if not decision.job_ids:
            raise Violation("job running", "KillJob has no job ids; expected at least one")
        for job_id in decision.job_ids:
            self._running(job_id, "kill")

    def check_requeue(self, decision: d.Requeue) -> None:
        """Check `Requeue`."""
        job = self._running(decision.job_id, "requeue")
        self.registration(job)
        if decision.work not in {"all", "rest"}:
            raise Violation("known work", f"work: expected 'all' or 'rest', found {decision.work!r}", job=job)
        self._check_extra(decision.extra_s, job)
        if decision.procs is not None:
            self._resumable(decision.procs, job)
        pending = self.jobs.kills.get(job.wire_id)
        if pending is None:
            self._check_copied(decision, job)
        elif pending.cause == "decision":
            raise Violation("one kill", f"job {job.id} is being killed already", job=job)

    def _check_copied(self, decision: d.Requeue, job: Job) -> None:
        """Check that a job can run again: Batsim must have its profile, or its work can be registered again."""
        profile = job.whole.profile if decision.work == "all" else job.profile
        if can_copy(profile, self.cluster.profiles.get(job.workload, {})):
            return
        if decision.work != "all" or decision.extra_s:
            kind = (job.profile or {}).get("type", "unknown")
            text = f"its profile {job.profile_name!r} ({kind}) requires work='all' without extra_s"
            raise Violation("can be requeued", text, job=job)
        if not self.cluster.can_restart(job):
            text = (
                f"Batsim deleted its profile {job.profile_name!r} when the first job that uses it ended; "
                f"start Batsim with {setting('profile_reuse')}"
            )
            raise Violation("can be requeued", text, job=job)

    def _check_extra(self, span_s: float, job: Job, name: str = "extra_s") -> None:
        if not (math.isfinite(span_s) and span_s >= 0):
            raise Violation("finite numbers", f"{name}: expected at least 0 seconds, found {span_s}", job=job)

    def _resumable(self, procs: IntervalSet, job: Job) -> None:
        """Check that a running job could be resumed on these processors, once they are free."""
        n = len(procs)
        n_now = 0 if job.procs is None else len(job.procs)  # with a mapping it may run on fewer than requested
        if not n or (n not in {job.n_procs, n_now} and not self.any_size(job)):
            raise Violation("right number", _wrong_number(job, n), job=job)
        if self.cluster.partition_of(procs) is None:
            self._explain_unusable(procs, job)

    def check_start_at(self, decision: d.StartAt) -> None:
        """Check `StartAt`."""
        job = self._waiting(decision.job_id, "hold processors for")
        if not (math.isfinite(decision.at) and decision.at >= self.now - TICK):
            raise Violation(
                "start in the future",
                f"job {job.id} cannot start at {decision.at}; expected at least the current time, {self.now}",
                job=job,
            )
        if len(decision.procs) != job.n_procs and not self.any_size(job):
            raise Violation("right number", _wrong_number(job, len(decision.procs)), job=job)
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
            raise Violation("finite numbers", f"duration_s: expected more than 0 seconds, found {duration_s}", job=job)
        self._check_extra(decision.extra_s, job)
        self._check_extra(decision.spent_s, job, "spent_s")
        if len(decision.procs) != n:
            raise Violation("right number", f"expected {n} processors, found {len(decision.procs)}", job=job)
        self._usable(decision.procs, job)
        profiles = self.cluster.profiles.get(job.workload, {})
        if duration_s == delay_of(job.profile, profiles):
            duration_s = None
        if n != job.n_procs or duration_s is not None or decision.extra_s or decision.spent_s or job.is_reshaped:
            self.registration(job)
            try:
                loaded_profile(resized_profile(job, profiles, n, duration_s), decision.extra_s)
            except CannotDeriveError as error:
                raise Violation("can be replaced", str(error), job=job) from None

    def check_reshape(self, decision: d.Reshape) -> None:
        """Check `Reshape`."""
        job = self._waiting(decision.job_id, "reshape")
        if job.queued_in is not None:
            text = f"job {job.id} waits in the queue of partition {job.queued_in.name}; withdraw it first"
            raise Violation("in no queue", text, job=job)
        if not 1 <= decision.n <= self.cluster.n_procs:
            text = f"n: expected 1 to {self.cluster.n_procs} processors, the size of the platform; found {decision.n}"
            raise Violation("right number", text, job=job)
        # An integer may be larger than any float.
        scale: Any = getattr(decision, "scale")  # noqa: B009
        if not 0 < scale < 1e300:
            text = f"scale: expected a factor for times, more than 0, found {scale!r:.60}"
            raise Violation("finite numbers", text, job=job)
        if (decision.n, scale) == (job.n_procs, job.scale):
            return
        self.registration(job)
        profile = job.whole.profile
        delay_s = delay_of(profile, self.cluster.profiles.get(job.workload, {}))
        if profile is None or delay_s is None:
            kind = "is unknown" if profile is None else f"is of the type {profile.get('type')}"
            text = f"its profile {job.profile_name!r} {kind}; expected a profile of delays"
            raise Violation("can be reshaped", text, job=job)
        if not all(work.is_finite_at(scale, delay_s) for work in (job.whole, job.rest or job.whole)):
            raise Violation("finite numbers", f"its times become infinite with the scale {scale:g}", job=job)

    def check_to_job_msg(self, decision: d.ToJobMsg) -> None:
        """Check `ToJobMsg`."""
        self.job(decision.job_id)

    def check_set_job_metadata(self, decision: d.SetJobMetadata) -> None:
        """Check `SetJobMetadata`."""
        job = self.job(decision.job_id)
        if '"' in decision.metadata:
            raise Violation(
                "metadata without quotes", f"double quotes are not allowed in {decision.metadata!r:.120}", job=job
            )

    def check_change_job_state(self, decision: d.ChangeJobState) -> None:
        """Check `ChangeJobState`."""
        job = self._waiting(decision.job_id, "change the state of")
        if decision.job_state != "RUNNING":
            text = f"Batsim 4 crashes on a change to {decision.job_state!r}; expected 'RUNNING'"
            raise Violation("job state", text, job=job)
        if job.is_reshaped:
            raise Violation("job state", "the job was reshaped; its state in Batsim cannot be changed", job=job)

    # --- time and machines ---

    def check_call_me_later(self, decision: d.CallMeLater) -> None:
        """Check `CallMeLater`."""
        handled_at = max(self.now, decision.timestamp or 0.0)
        if not (math.isfinite(decision.at) and decision.at > handled_at):
            raise Violation(
                "call in the future", f"a call was requested at {decision.at}; expected later than {handled_at}"
            )

    def check_set_resource_state(self, decision: d.SetResourceState) -> None:
        """Check `SetResourceState`."""
        if not decision.procs or not decision.procs.issubset(self.cluster.procs | self.cluster.storage):
            raise Violation("processors known", f"'{decision.procs}' are not processors of this platform")
        if not decision.state.isdigit():
            raise Violation("pstate", f"state: expected a number as text, found {decision.state!r}")
        if any(decision.state in self.cluster.sleep_pstates(i) for i in decision.procs):
            asleep = decision.procs & self.cluster.asleep
            if asleep:
                raise Violation("pstate", f"{asleep} are asleep or switching to sleep already")
            partitions = self.cluster.partitions.values()
            for jobs in (self.cluster.inherited.values(), *(partition.running_jobs for partition in partitions)):
                for job in jobs:
                    if job.procs is not None and not job.procs.isdisjoint(decision.procs):
                        raise Violation("pstate", f"{job.procs & decision.procs} are used by job {job.id}", job=job)

    # --- registration and messages ---

    def registration(self, job: Job | None = None) -> None:
        """Check that Batsim allows the registration of jobs."""
        if not self.dynamic_jobs:
            raise Violation("registration enabled", f"Batsim was started without {setting('dynamic_jobs')}", job=job)

    def check_register_job(self, decision: d.RegisterJob) -> None:
        """Check `RegisterJob`."""
        self.registration()
        job_id, job = decision.job_id, decision.job
        _finite(job, f"job {job_id}")
        workload = job_id.partition("!")[0]
        if "!" not in job_id or not workload:
            raise Violation("job id", f"job_id: expected WORKLOAD!JOB, found {job_id!r}")
        if self.jobs.knows(job_id):
            raise Violation("new job id", f"the id {job_id} was used before; expected a new one", job_id=job_id)
        for key, types in (("subtime", (int, float)), ("res", (int,)), ("profile", (str,))):
            if type(job.get(key)) not in types:
                raise Violation("whole job", f"job {job_id}: {key} is missing or has a wrong type: {job.get(key)!r}")
        if job["res"] < 1:
            raise Violation("whole job", f"job {job_id}: res is {job['res']}; expected at least 1")
        for key in ("walltime", "estimate"):
            value = job.get(key)
            if key == "walltime" and value == -1:
                continue  # means that there is none
            if value is not None and not (type(value) in {int, float} and value > 0):
                raise Violation("whole job", f"job {job_id}: {key}: expected more than 0 seconds, found {value!r}")
        if workload not in self.cluster.profiles:
            raise Violation("workload known", f"unknown workload {workload!r}: register a profile in it first")
        if self.cluster.is_retired(workload, job["profile"]):
            raise Violation(
                "profile known",
                f"Batsim deleted the profile {job['profile']!r} of {workload!r} when the first job that uses it ended; "
                f"register a new profile, or start Batsim with {setting('profile_reuse')}",
            )
        if job["profile"] not in self.cluster.profiles[workload]:
            raise Violation("profile known", f"workload {workload!r} has no profile {job['profile']!r}")

    def check_register_profile(self, decision: d.RegisterProfile) -> None:
        """Check `RegisterProfile`."""
        self.registration()
        name = f"{decision.workload_name}!{decision.profile_name}"
        _finite(decision.profile, f"profile {name}")
        is_retired = self.cluster.is_retired(decision.workload_name, decision.profile_name)
        if is_retired or decision.profile_name in self.cluster.profiles.get(decision.workload_name, {}):
            raise Violation("new profile", f"the profile name {name} was used before; expected a new one")
        kind = decision.profile.get("type")
        if type(kind) is not str:
            raise Violation("whole profile", f"profile {name} has no type")
        if kind in {"smpi", "usage_trace"}:
            raise Violation(
                "whole profile",
                f"profile {name}: Batsim reads {kind} profiles from files only; define it in the workload file",
            )
        if kind == "composed":
            raise Violation("whole profile", f"profile {name}: Batsim 4 crashes on a composed profile made at run time")
        delay = decision.profile.get("delay")
        if kind == "delay" and not (isinstance(delay, int | float) and delay > 0):
            raise Violation("whole profile", f"profile {name}: delay: expected more than 0 seconds, found {delay!r}")

    def check_notify(self, decision: d.Notify) -> None:
        """Check `Notify`."""
        if decision.kind not in {d.REGISTRATION_FINISHED, d.CONTINUE_REGISTRATION}:
            expected = f"{d.REGISTRATION_FINISHED!r} or {d.CONTINUE_REGISTRATION!r}"
            raise Violation("known notice", f"kind: expected {expected}, found {decision.kind!r}")

    def check_query(self, decision: d.Query) -> None:
        """Check `Query`."""
        if set(decision.requests) != {"consumed_energy"}:
            raise Violation("known query", f"requests: expected consumed_energy only, found {list(decision.requests)}")

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


def _field_types(cls: type[d.Decision]) -> Iterator[tuple[str, tuple[type, ...]]]:
    """Return the fields of a decision with the classes that they may have. Slow: it evaluates annotations."""
    for name, kind in {"timestamp": float | None, **d.field_types(cls)}.items():
        classes = _classes_of(kind)
        if classes:
            yield name, classes


def _expected(types: tuple[type, ...]) -> str:
    """Return the types that a field may have, for a message: ``an int, a float or None``."""
    names = [_with_article(one) for one in types]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _with_article(cls: type) -> str:
    """Return the name of a type with its article."""
    name = cls.__name__
    return "None" if cls is type(None) else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


#: Types that every encoder can write. A value of another type may be of a subclass, or contain one.
_PLAIN: Final = {type(None), int, float, str, bool, IntervalSet, type(NOTHING)}


def _fields_to_plain(decision: d.Decision) -> tuple[str, ...]:
    """Return the fields whose types an encoder may not know."""
    names = decision.__struct_fields__
    return tuple(name for name in names if name != "reason" and type(getattr(decision, name)) not in _PLAIN)


def _plain(value: Any) -> Any:
    """Convert numbers and texts of subclasses to plain types, at any depth. A plain value stays the same object."""
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


def _wrong_number(job: Job, n: int) -> str:
    return f"expected the {job.n_procs} processors that job {job.id} requests, found {n}"


def _finite(value: Any, where: str) -> None:
    """Raise `Violation` for numbers that JSON cannot represent, at any depth."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Violation("finite numbers", f"{where} contains {value}")
    if isinstance(value, Mapping):
        for part in value.values():
            _finite(part, where)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _finite(part, where)
