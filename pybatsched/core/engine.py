"""The engine: apply events, call the policy, check its decisions, apply them.

`Engine.step(now, events)` is the whole interface. The engine uses no socket, clock, file or random generator. The
ZeroMQ server, the embedded simulator and the replay use the same engine, so all three produce the same schedule.

Order within a step, whatever the order in the message: ends and kills, machine events, jobs that run when the
simulation begins, other submissions, calls and everything else; then one call of `decide`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from pybatsched.core import decisions as d, events as e
from pybatsched.core.actions import Actions
from pybatsched.core.cluster import Cluster
from pybatsched.core.decisions import Reason
from pybatsched.core.field_check import FieldCheck
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.jobs import Job, JobState, JobTable
from pybatsched.core.model_refs import model_of
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.core.policy_calls import IdleCalls, PolicyCaller
from pybatsched.core.services.eligibility import Eligibility
from pybatsched.core.services.failures import Outages
from pybatsched.core.services.feedback import Feedback, FollowingJob
from pybatsched.core.services.order import check_partitions, needs_of, services_of
from pybatsched.core.services.running_at_start import FIELD as RUNNING_AT_START
from pybatsched.core.validator import Validator, Violation
from pybatsched.errors import InputError, PolicyError, RemoteProtocolError, setting

#: Decisions without effect on the simulation. A policy that makes no others would never finish.
_IDLE: Final = {d.CallMeLater, d.Reshape}
_DRAINS: Final = {e.DRAIN, e.UNDRAIN}
_MACHINE_NOTICES: Final = {e.MACHINES_UNAVAILABLE, e.MACHINES_AVAILABLE}
_RANKS: Final[dict[type[e.Event], int]] = {
    e.SimulationBegins: 0,
    e.JobCompleted: 1,
    e.JobKilled: 1,
    e.ResourceStateChanged: 2,
    e.SimulationEnds: 6,
}


def _rank(event: e.Event) -> int:
    if type(event) is e.JobSubmitted:
        return 3 if event.job is not None and event.job.get(RUNNING_AT_START) else 4
    if type(event) is e.Notify:
        return 2 if event.kind in _MACHINE_NOTICES or event.kind in _DRAINS else 5
    return _RANKS.get(type(event), 5)


def _is_call(event: e.Event) -> bool:
    return type(event) is e.RequestedCall


def check_needs(policy: Policy, name: str, begins: e.SimulationBegins) -> None:
    """Raise InputError if Batsim was started without a feature that the policy needs."""
    if not all(isinstance(need, BatsimFeature) for need in policy.needs):
        raise InputError(f"policy {name}: attribute needs: expected a set of pybatsched.BatsimFeature")
    missing = [need.batsim_option for need in needs_of(policy) if not begins.option(need.config_key)]
    if missing:
        raise InputError(f"policy {name} needs Batsim to be started with {' '.join(sorted(missing))}")


class Reply(NamedTuple):
    """The result of a step: the time of the reply, and the decisions in order, each with a time stamp."""

    now: float
    decisions: tuple[d.Decision, ...]


class Engine:
    """One run of one policy.

    `make_policy` is called with SIMULATION_BEGINS and returns the policy, because options may come from Batsim too.
    `policy_name` is for messages. `feedback_jobs` are jobs that the engine submits, because they follow others. With
    `checked`, the invariants of the state are asserted after each step (tests).
    """

    #: The maximum number of decisions for one message, in addition to four for each unfinished job.
    MAX_DECISIONS: ClassVar[int] = 1_000_000

    def __init__(
        self,
        make_policy: Callable[[e.SimulationBegins], Policy],
        policy_name: str,
        *,
        feedback_jobs: Sequence[FollowingJob] = (),
        checked: bool = False,
    ) -> None:
        self.policy_name = policy_name
        self.jobs = JobTable()
        self.now = 0.0
        self.began = False
        self.ended = False
        self.cluster: Cluster
        self.policy: Policy
        self.caller: PolicyCaller
        self.actions: Actions
        self.outages = Outages()
        self.feedback_jobs = feedback_jobs
        self.feedback: Feedback | None = None
        self.eligibility: Eligibility
        self.validator: Validator
        self.machines_settled = False  # no machine that is unavailable now comes back
        self._make_policy = make_policy
        self._checked = checked
        self._is_instant = True  # the policy does not model the time that deciding takes
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
        applied: e.Event | None = None
        if now > self.now:
            self.now = now
        try:
            if self.began:
                actions = self.actions
                actions.start_reply(self.now)
                if actions.services.before_events:
                    for before_events in actions.services.before_events:
                        before_events(events)
            for applied in sorted(events, key=_rank) if len(events) > 1 else events:
                self._apply[type(applied)](applied)
            applied = None
            return Reply(self.now, ()) if self.ended else self.reply(events)
        except RemoteProtocolError as error:
            if applied is not None:
                index = next(i for i, event in enumerate(events) if event is applied)
                error.field = f"events[{index}].data.{error.field}".removesuffix(".")
            raise
        except Violation as error:
            raise error.as_policy_error(self.policy_name) from None

    def reply(self, events: Sequence[e.Event]) -> Reply:
        """Call the policy after events, and return the reply."""
        actions, idle_calls = self.actions, self._idle_calls
        services = actions.services
        if services.before_decide:
            for before_decide in services.before_decide:
                before_decide()
        if events and type(events[0]) is e.RequestedCall and not actions.out and all(map(_is_call, events)):
            idle_calls.add(self.now)
        else:
            idle_calls.n = 0
        if actions.holds.jobs:
            actions.holds.start_due(self.now)
            if actions.out:
                idle_calls.n = 0
        self._run_policy()
        if idle_calls.n:
            idle_calls.check(self._is_at_rest)
        if services.after_decide:
            for after_decide in services.after_decide:
                after_decide()
        if self._checked:
            self.cluster.check()
            self.jobs.check()
        reply_now = self.now if self._is_instant else self._busy_until()
        if actions.latest_stamp > reply_now:
            raise self._late_stamp_error(reply_now)
        if actions.latency_s:
            actions.put_calls_first(actions.latency_s)
        return tuple.__new__(Reply, (reply_now, tuple(actions.out)))  # as Reply(…), in a third of the time

    def _is_at_rest(self) -> bool:
        """Return whether only requested calls can come: no end or submission of a job, no change of machines."""
        actions, machines = self.actions, self.cluster
        return actions.static_jobs_done and not (
            self.jobs.n_running
            or self.jobs.kills
            or actions.holds.jobs
            or any(service.is_waiting() for service in actions.services.all)
            or (machines.unavailable and not self.machines_settled)
        )

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
        reply_now = float(self.caller.call("busy_until", self.now))
        if not math.isfinite(reply_now):
            raise self._late_stamp_error(reply_now)
        return reply_now

    def _late_stamp_error(self, reply_now: float) -> PolicyError:
        return PolicyError(
            f"a decision has the time stamp {self.actions.latest_stamp}; expected at most the time of the reply, "
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
        policy = self._make_policy(event)
        field_check = FieldCheck(model_of(type(policy), "JobFields"), self.policy_name)
        check_needs(policy, self.policy_name, event)
        check_partitions(policy, self.policy_name, self.cluster)
        self.validator = Validator(self.jobs, self.cluster)
        caller = PolicyCaller(policy, self.policy_name)
        self.actions = Actions(self.jobs, self.cluster, self.validator, caller, field_check)
        self.use_policy(caller)
        self.actions.start_reply(self.now)
        self.actions.static_jobs_done = event.workloads is not None and not event.workloads
        if self.feedback_jobs:
            if not self.validator.dynamic_jobs:
                raise InputError(f"feedback: expected a Batsim that is started with {setting('dynamic_jobs')}")
            self.feedback = Feedback(self.feedback_jobs, self.actions)
            self.feedback.check_policy(policy, self.policy_name)
        self.eligibility = Eligibility(self.actions, self.feedback)
        self.began = True
        self.begin_policy()
        self.actions.services = services_of(policy, self.actions, self.outages, self.feedback, self.eligibility)
        for service in self.actions.services.all:
            service.begin()

    def use_policy(self, caller: PolicyCaller) -> None:
        """Call this policy from now on."""
        self.policy, self.policy_name = caller.policy, caller.name
        self.caller = self.actions.caller = caller
        self._is_instant = getattr(caller.policy.busy_until, "__func__", None) is Policy.busy_until

    def begin_policy(self) -> None:
        """Let a new policy begin."""
        self.caller.call("on_begin", self.cluster)
        self.use_policy(self.caller)  # it may have got another `busy_until`
        if not self.cluster.partitions:
            self.cluster.add_partition("all", self.cluster.procs)

    def _on_simulation_ends(self, event: e.SimulationEnds) -> None:  # noqa: ARG002
        self.ended = True
        self.caller.call("on_end", self.now)

    def _on_submitted(self, event: e.JobSubmitted) -> None:
        job_id, jobs, actions = event.job_id, self.jobs, self.actions
        if self.validator.dynamic_jobs and jobs.registered.has(job_id):
            return  # the acknowledgement of a registration
        if jobs.is_used(job_id):
            raise RemoteProtocolError(f"job {job_id} was submitted before; expected a new id", field="job_id")
        fields = event.job
        if fields is None:
            raise RemoteProtocolError(f"job {job_id} has no description; expected an object", field="job")
        if not actions.field_check.needs_no_check(fields):
            problem = actions.field_check.error_text(job_id, fields)
            if problem is not None:
                raise InputError(problem)
        if actions.latency_s != 0.0:
            actions.note_submission(fields, event.timestamp)
        job = actions.add_job(job_id, fields, event.profile, at=event.timestamp)
        for check in actions.services.check:
            check(job)
        actions.submit(job)

    def _on_completed(self, event: e.JobCompleted) -> None:
        job, actions = self.jobs.by_wire_id.get(event.job_id), self.actions
        if job is None:
            if self.jobs.finished.was_killed(event.job_id):
                return  # reported before, by JOB_KILLED
            known = self.jobs.finished.outcome(event.job_id)
            text = f"job {event.job_id} has ended already ({known})" if known else f"unknown job {event.job_id}"
            raise RemoteProtocolError(text, field="job_id")
        if job.state is not JobState.RUNNING:
            raise RemoteProtocolError(f"job {job.id} completed but was not started: {job.history()}", field="job_id")
        final_state = event.final_state
        killed = final_state == e.COMPLETED_KILLED
        is_inherited = self._free_procs(job)
        if killed and event.job_id in self.jobs.kills:
            actions.requeues.record_killed(job, event.timestamp)  # JOB_KILLED follows
            return
        actions.end_job(job, JobState.KILLED if killed else JobState.COMPLETED, final_state, event.timestamp)
        if is_inherited:
            return
        try:
            self.policy.on_job_ended(job, self.now)
        except BaseException as error:  # noqa: BLE001  fail raises
            self.caller.fail("on_job_ended", error)

    def _free_procs(self, job: Job) -> bool:
        """Free the processors of a running job. Return whether it was in no partition: the policy does not know it."""
        is_inherited = job.id in self.cluster.inherited
        if job.segment.procs is not None:
            self.cluster.vacate(job, self.now)
        self.jobs.n_running -= 1
        if is_inherited:
            self._return_inherited(job)
        return is_inherited

    def _return_inherited(self, job: Job) -> None:
        """Notify the policy that the processors of a job that was in no partition are available."""
        self.caller.call("on_machines_changed", job.procs, self.now)
        if self.machines_settled and not self.cluster.inherited:
            self.settle_machines()
            self.caller.call("on_notify", e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=self.now), self.now)

    def _on_killed(self, event: e.JobKilled) -> None:
        progress, requeues = event.job_progress or {}, self.actions.requeues
        for wire_id in event.job_ids:
            job = self.jobs.by_wire_id.get(wire_id)
            if job is not None and job.state is JobState.RUNNING and wire_id in progress:
                self._free_procs(job)  # some peers send JOB_KILLED without JOB_COMPLETED
                requeues.record_killed(job, event.timestamp)
            pending = self.jobs.kills.get(wire_id)
            job = requeues.finish_kill(wire_id, progress.get(wire_id))
            if job is None or pending is None:
                continue
            cause = pending.cause
            is_over = job.state is not JobState.WAITING
            if is_over:
                self.actions.end_job(job, JobState.KILLED, e.COMPLETED_KILLED, event.timestamp, cause=cause)
            if cause == "decision":
                self.caller.call("on_job_killed", job, self.now)
                continue
            for killed in self.actions.services.killed:
                killed(job, cause)
            partition = job.partition if is_over else job.past[-1].partition
            if partition is not None:  # else it is a job of an earlier policy
                self.caller.call("on_job_ended", job, self.now)

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
                failed = procs - self.cluster.unavailable
                self.cluster.change_machines(gone=procs)
                for machines_gone in self.actions.services.machines_gone:
                    machines_gone(failed, event.timestamp)
                self.actions.release_held(procs)
            else:
                self.cluster.change_machines(back=procs)
                for machines_back in self.actions.services.machines_back:
                    machines_back(procs, event.timestamp)
            self.caller.call("on_machines_changed", procs, self.now)
            return
        if event.kind in _DRAINS:
            self._drain(event)
        elif event.kind == e.NO_MORE_STATIC_JOBS:
            self.actions.static_jobs_done = True
        elif event.kind == e.NO_MORE_EXTERNAL_EVENTS:
            self.machines_settled = not self.cluster.asleep
            self.settle_machines()
        self.notify(event)

    def notify(self, notice: e.Notify) -> None:
        """Send a notice to the policy, unless a service sends it later."""
        if not any(holds_back(notice) for holds_back in self.actions.services.holds_back):
            self.caller.call("on_notify", notice, self.now)

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
        self.actions.release_held(procs & self.cluster.drained)
        self.caller.call("on_machines_changed", procs, self.now)

    def settle_machines(self) -> None:
        """Set in all partitions whether machines can come back. Those of inherited jobs do."""
        for partition in self.cluster.partitions.values():
            partition.machines_settled = self.machines_settled and not self.cluster.inherited

    def _on_resource_state(self, event: e.ResourceStateChanged) -> None:
        back = event.procs & self.cluster.asleep
        awake = IntervalSet(i for i in back if event.state not in self.cluster.sleep_pstates(i))
        self.cluster.change_machines(awake=awake)
        self.caller.call("on_machines_changed", event.procs, self.now)

    def _on_call(self, event: e.RequestedCall) -> None:  # noqa: ARG002
        self.actions.n_calls_pending = max(self.actions.n_calls_pending - 1, 0)
        self.caller.call("on_call", self.now)

    def _pass_on(self, hook: str, event: e.Event) -> None:
        self.caller.call(hook, event, self.now)

    def _run_policy(self) -> None:
        validator, actions, adjusts = self.validator, self.actions, self.actions.services.adjust
        validator.now = self.now
        n_left = self.MAX_DECISIONS + 4 * len(self.jobs.alive)
        runs_policy = True  # its code may run before each decision and after the last
        try:
            wanted: Any = self.policy.decide(self.now)
            if wanted is None:
                return self._check_not_forgotten()
            if isinstance(wanted, str) or not hasattr(wanted, "__iter__"):
                expected = "an iterable of decisions, such as a list or a generator, or None"
                raise self.caller.returned("decide", wanted, expected)
            for decision in wanted:
                runs_policy = False
                if adjusts:
                    for adjust in adjusts:
                        decision = adjust(decision)  # noqa: PLW2901
                actions.carry_out(validator.check(decision))
                if type(decision) not in _IDLE:
                    self._idle_calls.n = 0
                n_left -= 1
                if n_left < 0:
                    raise self._endless_decisions(decision)
                runs_policy = True
        except BaseException as error:
            if runs_policy:
                self.caller.fail("decide", error)
            raise

    def _check_not_forgotten(self) -> None:
        """Raise PolicyError for a policy that returns None while a job waits and nothing else will happen."""
        actions = self.actions
        if len(self.jobs.alive) > len(actions.holds.jobs) and not (
            self.jobs.n_running
            or self.jobs.kills
            or actions.n_calls_pending
            or any(service.is_waiting() for service in actions.services.all)
        ):
            text = (
                f"decide returned None although job {next(iter(self.jobs.alive))} waits and no job runs; expected "
                "decisions: write `yield ExecuteJob(…)`, or return a list (`[]` for no decision)"
            )
            raise PolicyError(text, policy=self.policy_name, rule="well-formed")

    def _endless_decisions(self, last: d.Decision) -> Violation:
        return Violation(
            "endless decisions",
            f"decide made more decisions for one message than {self.MAX_DECISIONS:,} plus four for each unfinished "
            f"job, the last a {type(last).__name__}; check that its loop ends",
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The remarks of the policy and of the services for the user at the end of the run."""
        if not self.began:
            return ()
        return (*self.caller.lines("remarks"), *(line for one in self.actions.services.all for line in one.remarks()))

    @property
    def broken_promises(self) -> tuple[str, ...]:
        """A line for each guarantee that the policy did not keep, unless a service excuses it."""
        if not self.began or any(one.excuses_promises() for one in self.actions.services.all):
            return ()
        return self.caller.lines("broken_promises")

    @property
    def figures(self) -> dict[str, float]:
        """The numbers of the policy and of the services. Raises PolicyError."""
        if not self.began:
            return {}
        found = self.caller.figures()
        for service in self.actions.services.all:
            found.update(service.figures())
        return found

    @property
    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The tables of the services for the summary, by name."""
        services = self.actions.services.all if self.began else ()
        return {name: table for service in services for name, table in service.tables().items()}

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return why a waiting job was not started now: because of a service, or the policy's reason."""
        for service in self.actions.services.all:
            reason = service.why_waiting(job)
            if reason is not None:
                return reason
        return self.policy.why_waiting(job, now)

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
        return self.actions.rejections if self.began else {}

    @property
    def held_back(self) -> Mapping[str, Job]:
        """The jobs that may not start yet, by id. The policy does not have them."""
        return self.eligibility.held_back if self.began else {}

    @property
    def n_calls_pending(self) -> int:
        """How many requested calls are not due yet."""
        return self.actions.n_calls_pending if self.began else 0
