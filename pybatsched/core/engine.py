"""The engine: apply events, call the policy, check its decisions, apply them.

`Engine.step(now, events)` is the whole interface. The engine uses no socket, clock, file or random generator. The
ZeroMQ server, the embedded simulator and the replay use the same engine, so all three produce the same schedule.

Order within a step, whatever the order in the message: ends and kills, machine events, submissions, calls and
everything else; then one call of `decide`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from pybatsched.core import decisions as d, events as e
from pybatsched.core.actions import Actions
from pybatsched.core.cluster import Cluster
from pybatsched.core.decisions import Reason
from pybatsched.core.field_check import FieldCheck
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.jobs import Job, JobState, JobTable, forget_plans
from pybatsched.core.model_refs import model_of
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.core.policy_calls import IdleCalls, PolicyCaller
from pybatsched.core.services.failures import REQUEUING, Failures, Outages, repair_s_of, rule_of
from pybatsched.core.services.feedback import FEEDBACK_JOBS, Feedback, feedback_of
from pybatsched.core.services.host_reservations import HostReservations, numbers_of, specs_of, windows_of
from pybatsched.core.validator import Validator, Violation
from pybatsched.errors import NOT_THE_PLUGINS, InputError, PolicyError, RemoteProtocolError, setting

if TYPE_CHECKING:
    from pybatsched.core.actions import Holds
    from pybatsched.core.predictions import Predictions
    from pybatsched.core.requeue import KillCause, Services


#: Why a job is rejected that can never start.
TOO_LARGE: Final = "asks for {} processors; the platform has {}"


#: Decisions without effect on the simulation. A policy that makes no others would never finish.
_IDLE: Final = {d.CallMeLater, d.Reshape}
_DRAINS: Final = {e.DRAIN, e.UNDRAIN}
_MACHINE_NOTICES: Final = {e.MACHINES_UNAVAILABLE, e.MACHINES_AVAILABLE}
_RANKS: Final[dict[type[e.Event], int]] = {
    e.SimulationBegins: 0,
    e.JobCompleted: 1,
    e.JobKilled: 1,
    e.ResourceStateChanged: 2,
    e.JobSubmitted: 3,
    e.SimulationEnds: 5,
}


def _rank(event: e.Event) -> int:
    if type(event) is e.Notify:
        return 2 if event.kind in _MACHINE_NOTICES or event.kind in _DRAINS else 4
    return _RANKS.get(type(event), 4)


def _is_call(event: e.Event) -> bool:
    return type(event) is e.RequestedCall


def _needs_of(policy: Policy) -> frozenset[BatsimFeature]:
    """Return the features of Batsim that a policy needs with its options."""
    requeues = rule_of(policy.options) in REQUEUING
    requeues |= any(spec.conflict == "requeue" for spec in specs_of(policy.options))
    return policy.needs | {BatsimFeature.DYNAMIC_JOBS} if requeues else policy.needs


def _check_needs(policy: Policy, name: str, begins: e.SimulationBegins) -> None:
    """Raise InputError if Batsim was started without a feature that the policy needs."""
    if not all(isinstance(need, BatsimFeature) for need in policy.needs):
        raise InputError(f"policy {name}: attribute needs: expected a set of pybatsched.BatsimFeature")
    missing = [need.batsim_option for need in _needs_of(policy) if not begins.option(need.config_key)]
    if missing:
        raise InputError(f"policy {name} needs Batsim to be started with {' '.join(sorted(missing))}")


def _predictions_of(policy: Policy) -> Predictions | None:
    """Return the predictions that the engine makes for a policy; None if there are none, or the policy makes them."""
    return None if policy.drives_predictions else policy.predictions


class Reply(NamedTuple):
    """The result of a step: the time of the reply, and the decisions in order, each with a time stamp."""

    now: float
    decisions: tuple[d.Decision, ...]


class Engine:
    """One run of one policy.

    `make_policy` is called with SIMULATION_BEGINS and returns the policy, because options may come from Batsim too.
    `policy_name` is for messages. With `checked`, the invariants of the state are asserted after each step (tests).
    """

    #: The maximum number of decisions for one message, in addition to four for each unfinished job.
    MAX_DECISIONS: ClassVar[int] = 1_000_000

    def __init__(
        self, make_policy: Callable[[e.SimulationBegins], Policy], policy_name: str, *, checked: bool = False
    ) -> None:
        self.policy_name = policy_name
        self.jobs = JobTable()
        self.now = 0.0
        self.began = False
        self.ended = False
        self.cluster: Cluster
        self.policy: Policy
        self._make_policy = make_policy
        self._checked = checked
        self._caller: PolicyCaller
        self._hook = ""  # the policy's method that runs now: its exceptions are the policy's
        self._event: e.Event | None = None  # the event that is being applied
        self._is_instant = True  # the policy does not model the time that deciding takes
        self._predictions: Predictions | None = None
        self._failures: Failures | None = None
        self._outages = Outages()
        self._reservations: HostReservations | None = None
        self._feedback: Feedback | None = None
        self._correction_at = -math.inf  # the last call that was requested for a correction
        self._field_check: FieldCheck
        self._validator: Validator
        self._actions: Actions
        self._services: Services
        self._holds: Holds
        self._is_plain = False  # replies have only the decisions of the policy: see `_has_plain_replies`
        self._static_jobs_done = False
        self._machines_settled = False  # no machine that is unavailable now comes back
        self._idle_calls = IdleCalls()
        self._apply: dict[type[e.Event], Callable[[Any], None]] = {
            e.SimulationBegins: self._on_simulation_begins,
            e.SimulationEnds: self._on_simulation_ends,
            e.JobSubmitted: self._on_submitted,
            e.JobCompleted: self._on_completed,
            e.JobKilled: self._on_killed,
            e.Notify: self._on_notify,
            e.ResourceStateChanged: self._on_resource_state,
            e.RequestedCall: self._on_call,
            e.Answer: partial(self._pass_on, "on_answer"),
            e.Query: partial(self._pass_on, "on_query"),
            e.FromJobMsg: partial(self._pass_on, "on_job_message"),
            e.UnknownEvent: partial(self._pass_on, "on_unknown"),
        }

    def step(self, now: float, events: Sequence[e.Event]) -> Reply:
        """Apply one message and return the reply. Cost: the policy's, plus a few set operations per event."""
        is_expected = self.began and not self.ended and self.now - TICK <= now < math.inf
        for event in events:
            if event.timestamp > now + TICK:
                is_expected = False
        if not is_expected:
            self._check_time(now, events)
        if now > self.now:
            self.now = now
        try:
            if self.began:
                self._actions.start_reply(self.now)
                if self._predictions is not None:
                    self._correct_estimates(events)
            for event in sorted(events, key=_rank) if len(events) > 1 else events:
                self._event = event
                self._apply[type(event)](event)
            self._event = None
            if self._feedback is not None:
                self._submit_following(self._feedback)
            return Reply(self.now, ()) if self.ended else self._reply(events)
        except NOT_THE_PLUGINS as error:
            if isinstance(error, RemoteProtocolError) and self._event is not None and not self._hook:
                index = next(i for i, event in enumerate(events) if event is self._event)
                error.field = f"events[{index}].data.{error.field}".removesuffix(".")
            raise
        except BaseException as error:
            self._raise_as_policy_error(error)
            raise
        finally:
            self._hook = ""

    def _raise_as_policy_error(self, error: BaseException) -> None:
        """Raise PolicyError for an exception of the policy's code and for a broken rule; return for all others."""
        if self._hook:
            raise self._caller.raised(self._hook, error) from error
        if isinstance(error, Violation):
            raise PolicyError(
                error.text, policy=self.policy_name, rule=error.rule, job_id=error.job_id, history=error.history
            ) from None

    def _reply(self, events: Sequence[e.Event]) -> Reply:
        """Call the policy after events, and return the reply."""
        actions, idle_calls = self._actions, self._idle_calls
        if not self._is_plain:
            self._requeue_and_reserve()
        if events and type(events[0]) is e.RequestedCall and not actions.out and all(map(_is_call, events)):
            idle_calls.add(self.now)
        else:
            idle_calls.n = 0
        if self._holds.jobs:
            self._holds.start_due(self.now)
            if actions.out:
                idle_calls.n = 0
        self._run_policy()
        if idle_calls.n:
            idle_calls.check(self._is_at_rest)
        reply_now = self.now if self._is_plain else self._finish_reply()
        if actions.latest_stamp > reply_now:
            raise self._late_stamp_error(reply_now)
        if actions.latency_s:
            actions.put_calls_first(actions.latency_s)
        return tuple.__new__(Reply, (reply_now, tuple(actions.out)))  # as Reply(…), in a third of the time

    def _is_at_rest(self) -> bool:
        """Return whether only requested calls can come: no end or submission of a job, no change of machines."""
        feedback, reservations, machines = self._feedback, self._reservations, self.cluster
        return self._static_jobs_done and not (
            self.jobs.n_running
            or self._services.n_kills_pending
            or self._holds.jobs
            or (feedback is not None and feedback.n_left)
            or (reservations is not None and reservations.next_change(self.now) < math.inf)
            or (machines.unavailable and not self._machines_settled)
        )

    def _finish_reply(self) -> float:
        """Add the decisions of the engine itself to a reply, and return its time."""
        if self._predictions is not None and len(self.jobs.alive) > self.jobs.n_running:
            self._call_for_corrections(self._predictions)
        if self._reservations is not None and self.jobs.alive:
            self._reservations.request_call(self.now)
        if self._validator.dynamic_jobs:
            self._manage_registration()
        if self._checked:
            self.cluster.check()
            self.jobs.check()
        return self.now if self._is_instant else self._busy_until()

    def _requeue_and_reserve(self) -> None:
        """Advance reservations, requeue the jobs of failed machines, and start jobs in reservations."""
        if self._reservations is not None:
            self._advance_reservations(self._reservations)
        if self._failures is not None and self._failures.has_stopped:
            for job in self._failures.to_requeue(self.now):
                if self._reservations is None or not self._reservations.submit(job, self.now):
                    self._caller.call("on_failure", job, self.now)
        if self._reservations is not None:
            self._reservations.start_jobs(self.now)

    def _correct_estimates(self, events: Sequence[e.Event]) -> None:
        """Correct the estimates of jobs that run longer than predicted, and notify the policy."""
        assert self._predictions is not None
        due = self._predictions.due(self.cluster, self.now)
        if not due:
            return
        ending = {event.job_id for event in events if type(event) is e.JobCompleted}
        for job in due:
            if job.wire_id not in ending and self._predictions.correct(job, self.cluster, self.now):
                self._caller.call("on_estimate_changed", job, self.now)

    def _call_for_corrections(self, predictions: Predictions) -> None:
        """Request a call for the next end of an estimate of a running job, if a waiting job could start then."""
        at, job = predictions.next_correction(self.cluster, self.now)
        if job is None or self.now < self._correction_at <= at:
            return
        self._hook = "uses_new_estimates"
        is_used = self.policy.uses_new_estimates(self.now)
        self._hook = ""
        if is_used:
            self._correction_at = at
            self._actions.carry_out(d.CallMeLater(at, reason=("{} is expected to end then", job.id)))

    def _check_time(self, now: float, events: Sequence[e.Event]) -> None:
        """Raise RemoteProtocolError for a message that cannot come now."""
        if self.ended:
            raise RemoteProtocolError("received a message after SIMULATION_ENDS; expected none")
        if not self.now - TICK <= now < math.inf:
            raise RemoteProtocolError(f"time goes back: found {now}, expected at least {self.now}", field="now")
        if not self.began and (not events or type(events[0]) is not e.SimulationBegins):
            first = type(events[0]).__name__ if events else "nothing"
            raise RemoteProtocolError(
                f"expected SIMULATION_BEGINS first, found {first}; restart Batsim and the scheduler together",
                field="events[0].type",
            )
        for event in events:
            if event.timestamp > now + TICK:
                index = next(i for i, other in enumerate(events) if other is event)
                raise RemoteProtocolError(
                    f"the event is at {event.timestamp}; expected at most the message's now, {now}",
                    field=f"events[{index}].timestamp",
                )

    def _busy_until(self) -> float:
        self._hook = "busy_until"
        reply_now = float(self.policy.busy_until(self.now))
        self._hook = ""
        if not math.isfinite(reply_now):
            raise self._late_stamp_error(reply_now)
        return reply_now

    def _late_stamp_error(self, reply_now: float) -> PolicyError:
        return PolicyError(
            f"a decision has the time stamp {self._actions.latest_stamp}; expected at most the time of the reply, "
            f"{reply_now}",
            policy=self.policy_name,
            rule="stamps before now",
        )

    def _on_simulation_begins(self, event: e.SimulationBegins) -> None:
        if self.began:
            raise RemoteProtocolError("received a second SIMULATION_BEGINS; is another Batsim using this endpoint?")
        if event.option("redis-enabled"):
            raise InputError(
                "Batsim was started with --enable-redis, which pybatsched does not support; remove this option"
            )
        self.cluster = Cluster.from_begins(event)
        self.cluster.jobs = MappingProxyType(self.jobs.alive)
        self.policy = self._make_policy(event)
        self._caller = PolicyCaller(self.policy, self.policy_name)
        self._field_check = FieldCheck(model_of(type(self.policy), "JobFields"), self.policy_name)
        _check_needs(self.policy, self.policy_name, event)
        self._validator = Validator(self.jobs, self.cluster)
        may_reopen = not self.policy.manages_registration
        self._actions = Actions(self.jobs, self.cluster, self._validator, may_reopen=may_reopen)
        self._actions.start_reply(self.now)
        self._services = self._actions.services
        self._holds = self._actions.holds
        self._static_jobs_done = event.workloads is not None and not event.workloads
        self._feedback = self._actions.feedback = feedback_of(event.extra)
        if self._feedback is not None and not self._validator.dynamic_jobs:
            raise InputError(f"feedback: expected a Batsim that is started with {setting('dynamic_jobs')}")
        self._check_feedback(self.policy, self.policy_name)
        self._predictions = _predictions_of(self.policy)
        self._begin_predictions(self._predictions)
        self._failures = self._failures_of_policy()
        self.began = True
        self._begin_policy()
        self._begin_reservations()
        self._is_plain = self._has_plain_replies()

    def _has_plain_replies(self) -> bool:
        """Return whether a reply has only the decisions of the policy, at the time of the message."""
        services = self._predictions, self._failures, self._reservations
        others = self._validator.dynamic_jobs, self._checked, not self._is_instant
        return all(one is None for one in services) and not any(others)

    def _check_feedback(self, policy: Policy, name: str) -> None:
        """Raise InputError if jobs that follow others are left, and the policy manages the registration."""
        if policy.manages_registration and self._feedback is not None and self._feedback.n_left:
            raise InputError(
                f"feedback: policy {name} manages the registration of jobs (manages_registration); expected a policy "
                "that leaves it to the engine, which registers the jobs that follow others"
            )

    def _failures_of_policy(self) -> Failures | None:
        rule, repair_s = rule_of(self.policy.options), repair_s_of(self.policy.options)
        is_needed = rule is not None or repair_s is not None or specs_of(self.policy.options)
        return Failures(rule, self.cluster, self._services, repair_s) if is_needed else None

    def _begin_reservations(self) -> None:
        specs = specs_of(self.policy.options)
        self._reservations = self._actions.gate = None
        self.cluster.reserved = EMPTY
        self.cluster.window_ends = []
        if specs:
            assert self._failures is not None
            any_procs = self.policy.takes_any_procs
            self._reservations = HostReservations(
                specs, self.cluster, self._actions, self._failures, takes_any_procs=any_procs
            )
            self._actions.gate = self._reservations

    def _advance_reservations(self, reservations: HostReservations) -> None:
        """Announce, begin and end reservations of hosts."""
        changed = reservations.advance(self.now)
        if changed:
            for job, held_on in self._holds.lose(changed & self.cluster.reserved):
                self._caller.call("on_job_released", job, held_on, self.now)
            self._caller.call("on_machines_changed", changed, self.now)

    def _begin_predictions(self, predictions: Predictions | None) -> None:
        if predictions is not None:
            self._hook = "begin"
            predictions.predictor.begin(self.cluster)
            self._hook = ""

    def _begin_policy(self) -> None:
        self._caller.call("on_begin", self.cluster)
        self._is_instant = getattr(self.policy.busy_until, "__func__", None) is Policy.busy_until
        if not self.cluster.partitions:
            self.cluster.add_partition("all", self.cluster.procs)

    def _on_simulation_ends(self, event: e.SimulationEnds) -> None:  # noqa: ARG002
        self.ended = True
        self._caller.call("on_end", self.now)

    def _on_submitted(self, event: e.JobSubmitted) -> None:
        job_id, jobs = event.job_id, self.jobs
        if self._validator.dynamic_jobs and jobs.registered.has(job_id):
            return  # the acknowledgement of a registration
        if self._is_used(job_id):
            raise RemoteProtocolError(f"job {job_id} was submitted before; expected a new id", field="job_id")
        fields = event.job
        if fields is None:
            raise RemoteProtocolError(f"job {job_id} has no description; expected an object", field="job")
        if not self._field_check.needs_no_check(fields):
            problem = self._field_check.error_text(job_id, fields)
            if problem is not None:
                raise InputError(problem)
        if self._actions.latency_s != 0.0:
            self._actions.note_submission(fields, event.timestamp)
        job = self._actions.add_job(job_id, fields, event.profile, at=event.timestamp)
        if self._failures is not None:
            self._failures.check(job)
        self._submit(job)

    def _is_used(self, job_id: str) -> bool:
        """Return whether a job with this id was submitted or registered."""
        jobs = self.jobs
        return job_id in jobs.by_wire_id or job_id in jobs.alive or jobs.finished.has(job_id)

    def _submit(self, job: Job) -> None:
        """Notify the policy of a waiting job, or reject the job if it is larger than the platform."""
        if not self.policy.handles_oversized and not 0 < job.n_procs <= self.cluster.n_procs:
            reason: tuple[Any, ...] = ("asks for {} processors; expected at least 1", job.n_procs)
            if job.n_procs > 0:
                reason = (TOO_LARGE, job.n_procs, self.cluster.n_procs)
            self._actions.carry_out(d.RejectJob(job.id, reason=reason))
        elif self._reservations is None or not self._reservations.submit(job, self.now):
            if self._predictions is not None:
                self._hook = "predict"
                self._predictions.predict(job, self.now, self._running())
            self._hook = "on_job_submitted"
            self.policy.on_job_submitted(job, self.now)
            self._hook = ""

    def _submit_following(self, feedback: Feedback) -> None:
        """Submit the jobs whose think time after the end of others is over."""
        n_before = feedback.n_left
        while (due := feedback.next_due(self.now)) is not None:
            at, following = due
            if self._is_used(following.id):
                raise RemoteProtocolError(
                    f"job {following.id} was submitted before; expected a new id", field=FEEDBACK_JOBS
                )
            problem = self._field_check.error_text(following.id, following.job)
            if problem is not None:
                raise InputError(problem)
            job = self._actions.register_following(following, at)
            if self._failures is not None:
                self._failures.check(job)
            self._submit(job)
        if n_before and not feedback.n_left and self._static_jobs_done:
            self._caller.call("on_notify", e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=self.now), self.now)

    def _running(self) -> list[Job]:
        """Return the running jobs. O(1) with one partition and no held job, else O(running)."""
        partitions = self.cluster.partitions
        if len(partitions) == 1 and not self._holds.jobs:
            return next(iter(partitions.values())).running_jobs
        jobs = [job for partition in partitions.values() for job in partition.running_jobs]
        return [job for job in jobs if job.state is JobState.RUNNING]

    def _learn(self, job: Job, ended: float) -> None:
        """Let the predictor learn from a job that ran."""
        assert self._predictions is not None
        self._hook = "learn"
        self._predictions.learn(job, ended)
        self._hook = ""

    def _on_completed(self, event: e.JobCompleted) -> None:
        job = self.jobs.by_wire_id.get(event.job_id)
        if job is None:
            if self._services.was_stopped(event.job_id):
                return  # reported before, by JOB_KILLED
            known = self.jobs.outcome(event.job_id)
            text = f"job {event.job_id} has ended already ({known})" if known else f"unknown job {event.job_id}"
            raise RemoteProtocolError(text, field="job_id")
        if job.state is not JobState.RUNNING:
            raise RemoteProtocolError(f"job {job.id} completed but was not started: {job.history()}", field="job_id")
        final_state = event.final_state
        killed = final_state == e.COMPLETED_KILLED
        is_inherited = job.id in self.cluster.inherited
        self._actions.stop_job(job)
        if is_inherited:
            self._return_inherited(job)
        if killed and self._services.kill_pending(event.job_id):
            self._services.stopped(job, event.timestamp)  # JOB_KILLED follows
            return
        self._actions.end_job(job, JobState.KILLED if killed else JobState.COMPLETED, final_state, event.timestamp)
        if self._predictions is not None:
            self._learn(job, event.timestamp)
        if self._failures is not None:
            self._failures.ended(job)
        if is_inherited:
            return
        self._hook = "on_job_ended"
        self.policy.on_job_ended(job, self.now)
        self._hook = ""

    def _on_killed(self, event: e.JobKilled) -> None:
        progress = event.job_progress or {}
        for wire_id in event.job_ids:
            job = self.jobs.by_wire_id.get(wire_id)
            if job is not None and job.state is JobState.RUNNING and wire_id in progress:
                is_inherited = job.id in self.cluster.inherited
                self._actions.stop_job(job)  # this peer sends JOB_KILLED without JOB_COMPLETED
                if is_inherited:
                    self._return_inherited(job)
                self._services.stopped(job, event.timestamp)
            cause = self._services.kill_cause(wire_id)
            ended = self._services.kill_answered(wire_id, progress.get(wire_id))
            if ended is None:
                continue
            if ended.state is not JobState.WAITING:
                self._actions.end_job(ended, JobState.KILLED, e.COMPLETED_KILLED, event.timestamp)
                if self._predictions is not None:
                    self._learn(ended, event.timestamp)
            if cause is not None:
                self._killed_for(cause, ended)
            else:
                self._caller.call("on_job_killed", ended, self.now)

    def _killed_for(self, cause: KillCause, job: Job) -> None:
        """Notify the policy that a job was killed for a failure or a reservation."""
        assert self._failures is not None
        self._failures.stopped(job, cause)
        partition = job.past[-1].partition if job.state is JobState.WAITING else job.partition
        if partition is not None:  # else it is a job of an earlier policy
            self._caller.call("on_job_ended", job, self.now)

    def _on_notify(self, event: e.Notify) -> None:
        if event.kind in _MACHINE_NOTICES:
            if event.procs is None:
                raise RemoteProtocolError(f"{event.kind} has no resources; expected an interval set", field="resources")
            unknown = event.procs - self.cluster.procs - self.cluster.storage
            if unknown:
                text = f"{event.kind}: unknown resources {unknown}; expected resources of the platform"
                raise RemoteProtocolError(text, field="resources")
            procs = event.procs & self.cluster.procs
            if event.kind == e.MACHINES_UNAVAILABLE:
                self._outages.begin(procs - self.cluster.unavailable, event.timestamp)
                self.cluster.change_machines(gone=procs)
                if self._failures is not None:
                    self._failures.fail(procs)
                    self._failures.expect_repair(procs, self.now)
                for job, held_on in self._holds.lose(procs):
                    self._caller.call("on_job_released", job, held_on, self.now)
            else:
                self._outages.end(procs, event.timestamp)
                self.cluster.change_machines(back=procs)
                if self._failures is not None:
                    self._failures.repaired(procs)
            self._caller.call("on_machines_changed", procs, self.now)
            return
        if event.kind in _DRAINS:
            self._drain(event)
        elif event.kind == e.NO_MORE_STATIC_JOBS:
            self._static_jobs_done = True
            if self._feedback is not None and self._feedback.n_left:
                return  # jobs that follow others are still to come
        elif event.kind == e.NO_MORE_EXTERNAL_EVENTS:
            self._machines_settled = not self.cluster.asleep
            self._settle_machines()
        self._caller.call("on_notify", event, self.now)

    def _drain(self, event: e.Notify) -> None:
        """Start no more jobs on processors, or start jobs there again. Running jobs continue."""
        text = event.extra.get("resources")
        try:
            procs = event.procs if event.procs is not None else IntervalSet.parse(str(text or ""))
        except ValueError:
            procs = EMPTY
        if not procs or not procs.issubset(self.cluster.procs):
            raise InputError(
                f"event {event.kind} at {event.timestamp:g}: resources: expected processors of the platform such as "
                f"'0-3 5', found {text!r:.60}"
            )
        drained = self.cluster.drained
        self.cluster.drained = drained | procs if event.kind == e.DRAIN else drained - procs
        self.cluster.change_machines()
        for job, held_on in self._holds.lose(procs & self.cluster.drained):
            self._caller.call("on_job_released", job, held_on, self.now)
        self._caller.call("on_machines_changed", procs, self.now)

    def _settle_machines(self) -> None:
        """Set in all partitions whether machines can come back. Those of inherited jobs do."""
        for partition in self.cluster.partitions.values():
            partition.machines_settled = self._machines_settled and not self.cluster.inherited

    def _return_inherited(self, job: Job) -> None:
        """Notify the policy that the processors of an inherited job are available."""
        self._caller.call("on_machines_changed", job.procs, self.now)
        if self._machines_settled and not self.cluster.inherited:
            self._settle_machines()
            self._caller.call("on_notify", e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=self.now), self.now)

    def _on_resource_state(self, event: e.ResourceStateChanged) -> None:
        back = event.procs & self.cluster.asleep
        awake = IntervalSet(i for i in back if event.state not in self.cluster.sleep_pstates(i))
        self.cluster.change_machines(awake=awake)
        self._caller.call("on_machines_changed", event.procs, self.now)

    def _on_call(self, event: e.RequestedCall) -> None:  # noqa: ARG002
        self._actions.n_calls_pending = max(self._actions.n_calls_pending - 1, 0)
        self._caller.call("on_call", self.now)

    def _pass_on(self, hook: str, event: e.Event) -> None:
        self._caller.call(hook, event, self.now)

    def replace_policy(
        self, begins: e.SimulationBegins, make_policy: Callable[[e.SimulationBegins], Policy], policy_name: str
    ) -> Reply:
        """Continue the run with another policy, and return its decisions at this time. O(unfinished jobs).

        Running jobs continue; see `Policy.take_over`. Held jobs are released. All waiting jobs are submitted to the new
        policy in order of submission, with the size and times that Batsim knows. Calls that the old policy requested
        still arrive. `begins` is the first event of the run.

        Raises InputError, and changes nothing, while a kill is pending, and if the new policy cannot begin here. After
        an exception of another method of the policy the engine cannot be used any more.
        """
        if not self.began or self.ended:
            raise InputError("the policy can be replaced only between SIMULATION_BEGINS and SIMULATION_ENDS")
        if self._services.n_kills_pending:
            killed = [job.id for job in self.jobs.alive.values() if self._services.kill_pending(job.wire_id)]
            which = f"job {killed[0]}" if killed else "a job"
            raise InputError(
                f"{which} is being killed by policy {self.policy_name}; expected no pending kill when the policy is "
                "replaced: handle the next message first"
            )
        policy = make_policy(begins)
        _check_needs(policy, policy_name, begins)
        self._check_feedback(policy, policy_name)
        field_check = FieldCheck(model_of(type(policy), "JobFields"), policy_name)
        for job in self.jobs.alive.values():
            problem = field_check.error_text(job.id, job.fields)
            if problem is not None:
                raise InputError(problem)
        windows_of(specs_of(policy.options), self.cluster.procs, numbers_of(self.cluster))  # raises InputError
        before = (self.policy, self.policy_name, self._caller, self.cluster.partitions)
        self.policy, self.policy_name, self._caller = policy, policy_name, PolicyCaller(policy, policy_name)
        self.cluster.partitions = {}
        try:
            self._begin_policy()
        except BaseException:
            self.policy, self.policy_name, self._caller, self.cluster.partitions = before
            self._is_instant = getattr(self.policy.busy_until, "__func__", None) is Policy.busy_until
            raise
        self._field_check = field_check
        try:
            self._replace_predictions()
            before_failures, self._failures = self._failures, self._failures_of_policy()
            if self._failures is not None and before_failures is not None:
                self._failures.follow(before_failures)
            self._begin_reservations()
            self._is_plain = self._has_plain_replies()
            self._hand_over()
            if self._reservations is not None:
                self._advance_reservations(self._reservations)
            return self._reply(())
        except NOT_THE_PLUGINS:
            raise
        except BaseException as error:
            self._raise_as_policy_error(error)
            raise
        finally:
            self._hook = ""

    def _replace_predictions(self) -> None:
        """Use the predictor of a policy that has just begun, with what was learnt if it has the same name."""
        old, new = self._predictions, _predictions_of(self.policy)
        self._predictions = new
        if old is not None and new is not None and old.name == new.name:
            new.follow(old)
            return
        if old is not None:
            for job in self.jobs.alive.values():
                old.undo(job)
        self._begin_predictions(new)

    def _hand_over(self) -> None:
        """Give all unfinished jobs to a policy that has just begun."""
        self._actions.start_reply(self.now)
        self._holds.release_all()
        unfinished = sorted(self.jobs.alive.values(), key=lambda job: (job.started_at or 0.0, job.seq))
        running = [job for job in unfinished if job.state is JobState.RUNNING and job.procs is not None]
        self.cluster.hand_over(running, self._is_taken_over)
        self._settle_machines()
        taken = self.cluster.procs
        for partition in self.cluster.partitions.values():
            taken = taken - partition.free
        if taken:
            self._caller.call("on_machines_changed", taken, self.now)
        actions = self._actions
        actions.may_reopen = not self.policy.manages_registration
        if self.policy.manages_registration and actions.registration_finished:
            actions.carry_out(d.Notify(d.CONTINUE_REGISTRATION, reason="another policy manages the registration"))
        for job in sorted(unfinished, key=lambda job: job.seq):
            if job.state is JobState.WAITING:
                forget_plans(job)
                self._submit(job)
        if self._static_jobs_done and not (self._feedback is not None and self._feedback.n_left):
            self._caller.call("on_notify", e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=self.now), self.now)
        if self._machines_settled and not self.cluster.inherited:
            self._caller.call("on_notify", e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=self.now), self.now)

    def _is_taken_over(self, job: Job) -> bool:
        """Return whether the policy plans with a running job of an earlier policy."""
        self._hook = "take_over"
        is_taken_over = bool(self.policy.take_over(job, self.now))
        self._hook = ""
        return is_taken_over

    def _run_policy(self) -> None:
        validator = self._validator
        validator.now = self.now
        n_left = self.MAX_DECISIONS + 4 * len(self.jobs.alive)
        self._hook = "decide"
        wanted: Any = self.policy.decide(self.now)
        if wanted is not None:
            if isinstance(wanted, str) or not hasattr(wanted, "__iter__"):
                raise self._caller.returned(
                    "decide", wanted, "an iterable of decisions, such as a list or a generator, or None"
                )
            for decision in wanted:
                self._hook = ""
                if self._reservations is not None:
                    decision = self._reservations.after_moves(decision)  # noqa: PLW2901
                self._actions.carry_out(validator.check(decision))
                if type(decision) not in _IDLE:
                    self._idle_calls.n = 0
                n_left -= 1
                if n_left < 0:
                    raise self._endless_decisions(decision)
                self._hook = "decide"
        elif len(self.jobs.alive) > len(self._holds.jobs) and not (
            self.jobs.n_running
            or self._services.n_kills_pending
            or self._actions.n_calls_pending
            or self._reservations is not None  # which has waiting jobs of its own
        ):
            text = (
                f"decide returned None although job {next(iter(self.jobs.alive))} waits and no job runs; expected "
                "decisions: write `yield ExecuteJob(…)`, or return a list (`[]` for no decision)"
            )
            raise PolicyError(text, policy=self.policy_name, rule="well-formed")
        self._hook = ""

    def _endless_decisions(self, last: d.Decision) -> Violation:
        return Violation(
            "endless decisions",
            f"decide made more decisions for one message than {self.MAX_DECISIONS:,} plus four for each unfinished "
            f"job, the last a {type(last).__name__}; check that its loop ends",
        )

    def _manage_registration(self) -> None:
        """Request a call for the next job that follows others, or finish the registration: Batsim waits for it."""
        actions, feedback = self._actions, self._feedback
        over = self._static_jobs_done and not self.jobs.alive and not self._services.n_kills_pending
        if feedback is not None and feedback.n_left:
            if over:
                feedback.check_not_stuck()
            call = feedback.next_call(self.now)
            if call is not None:
                actions.carry_out(d.CallMeLater(call[0], reason=("{} is submitted then", call[1])))
            return
        if actions.registration_finished or self.policy.manages_registration:
            return
        never = BatsimFeature.DYNAMIC_JOBS not in _needs_of(self.policy)
        if never or over:
            why = "this policy registers no jobs" if never else "all jobs are in and over"
            actions.carry_out(d.Notify(d.REGISTRATION_FINISHED, reason=why))

    @property
    def remarks(self) -> tuple[str, ...]:
        """The policy's remarks for the user at the end of the run."""
        if not self.began:
            return ()
        own = self._caller.lines("remarks")
        return own if self._failures is None else (*own, *self._failures.remarks())

    @property
    def broken_promises(self) -> tuple[str, ...]:
        """A line for each guarantee that the policy did not keep; none after predictions or failures."""
        if not self.began or self._predictions is not None:
            return ()
        if self._failures is not None and self._failures.n_killed:
            return ()
        return self._caller.lines("broken_promises")

    @property
    def figures(self) -> dict[str, float]:
        """The policy's own numbers, the quality of predictions, and failures. Raises PolicyError."""
        if not self.began:
            return {}
        found = self._caller.figures()
        if self._predictions is not None:
            found.update(self._predictions.figures())
        if self._failures is not None:
            found.update(self._failures.figures())
        if self._reservations is not None:
            found.update(self._reservations.figures())
        return found

    @property
    def reservations(self) -> list[dict[str, Any]]:
        """The reservations of hosts, for summaries: name, start, end and processors of each window."""
        windows = () if self._reservations is None else self._reservations.windows
        return [{"name": w.name, "start": w.start_at, "end": w.end_at, "procs": str(w.procs)} for w in windows]

    @property
    def unavailable(self) -> list[dict[str, Any]]:
        """The outages of hosts, for summaries: start, end and processors of each; the end is None while down."""
        return [{"start": o.start_at, "end": o.end_at, "procs": str(o.procs)} for o in self._outages.all()]

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return why a waiting job was not started now: because of a reservation of hosts, or the policy's reason."""
        reason = None if self._reservations is None else self._reservations.why_waiting(job)
        return self.policy.why_waiting(job, now) if reason is None else reason

    @property
    def predictions_by_user(self) -> dict[str, dict[str, float]]:
        """The quality of predicted run times for each user, by name of the user; empty without predictions."""
        predictions = self.policy.predictions if self.began else None
        if predictions is None:
            return {}
        return {user: one.as_dict() for user, one in sorted(predictions.by_user.items())}

    @property
    def rejections(self) -> Mapping[str, tuple[int, Reason]]:
        """For each reason template: how many jobs were rejected, and the first reason."""
        return self._actions.rejections if self.began else {}

    @property
    def n_calls_pending(self) -> int:
        """How many requested calls are not due yet."""
        return self._actions.n_calls_pending if self.began else 0
