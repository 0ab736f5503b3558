"""Submit jobs to the policy, carry out its decisions, and build the reply to Batsim, with its ids."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pybatsched.core import decisions as d
from pybatsched.core.cluster import Cluster, Partition
from pybatsched.core.instants import HALF_TICK, TICK, instant, on_tick
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job, JobState, end_job, hold_job, mark_running, release_job, start_job
from pybatsched.core.requeue import Notes, ReplyBuilder, Requeues
from pybatsched.core.services.service import Services
from pybatsched.core.validator import Validator, Violation

if TYPE_CHECKING:
    from pybatsched.core.field_check import FieldCheck
    from pybatsched.core.jobs import JobTable, KillCause
    from pybatsched.core.policy_calls import PolicyCaller


#: Why a job is rejected that can never start.
TOO_LARGE: Final = "asks for {} processors; the platform has {}"


class Holds:
    """The held jobs of one run."""

    def __init__(self, cluster: Cluster, requeues: Requeues, notes: Notes, reply: ReplyBuilder) -> None:
        self._cluster = cluster
        self._requeues = requeues
        self._notes = notes
        self._reply = reply
        self.jobs: dict[str, Job] = {}
        self._called_at: set[float] = set()

    def hold(self, job: Job, decision: d.StartAt) -> None:
        """Hold processors for a waiting job and request the call; start the job if its time has come. O(k)."""
        now = self._reply.now
        at = round(decision.at, 6)
        if at <= now:
            reason = decision.reason
            self._reply.carry_out(d.ExecuteJob(job.id, decision.procs, timestamp=decision.timestamp, reason=reason))
            return
        partition = self._cluster.partition_at(decision.procs)
        hold_job(job, now, at, decision.procs, partition=partition, reason=decision.reason)
        self._cluster.occupy(job, now)
        self.jobs[job.id] = job
        self._called_at = {due_at for due_at in self._called_at if due_at > now}
        if at not in self._called_at:
            self._called_at.add(at)
            self._reply.carry_out(
                d.CallMeLater(at, reason=("{} is held on {} and starts then", job.id, decision.procs))
            )

    def release(self, job: Job) -> None:
        """Return a held job to the waiting state and free its processors. O(k)."""
        del self.jobs[job.id]
        self._cluster.vacate(job, self._reply.now)
        release_job(job)

    def release_all(self) -> None:
        """Return all held jobs to the waiting state, when partitions are created again. O(held)."""
        for job in self.jobs.values():
            for usage in self._cluster.usages.values():
                usage.ended(job, self._reply.now)
            release_job(job)
        self.jobs.clear()

    def start_due(self, now: float) -> None:
        """Start the held jobs that are due, in the order of their start times. O(held)."""
        due = [job for job in self.jobs.values() if job.start_at is not None and job.start_at <= now + HALF_TICK]
        for job in sorted(due, key=lambda job: (job.start_at, job.seq)):
            procs, reason, held_from = job.procs, job.start_reason, job.held_from
            assert procs is not None
            assert held_from is not None
            self.release(job)
            if job.is_reshaped:  # first: the metadata belongs to the job that runs
                self._requeues.register_reshaped(job, reason)
            note = self._notes.add_fact(job.wire_id, f"held_s={now - held_from:.12g}")
            self._reply.send(d.SetJobMetadata(job.wire_id, note, reason="how long its processors were kept for it"))
            self._reply.carry_out(d.ExecuteJob(job.id, procs, reason=reason))

    def lose(self, gone: IntervalSet) -> list[tuple[Job, IntervalSet]]:
        """Release the jobs that were held on lost processors. Return them with the processors they were held on."""
        lost = [(job, job.procs) for job in self.jobs.values() if job.procs and not job.procs.isdisjoint(gone)]
        for job, _ in lost:
            self.release(job)
        return lost


class Actions:
    """Applies submissions and decisions to the state of one run, and builds the reply (`out`)."""

    def __init__(
        self, jobs: JobTable, cluster: Cluster, validator: Validator, caller: PolicyCaller, field_check: FieldCheck
    ) -> None:
        self.now = 0.0
        self.out: list[d.Decision] = []
        self.latest_stamp = -math.inf  # of the decisions that the policy stamped
        self.n_calls_pending = 0
        self.latency_s: float | None = None  # of the shortest message to Batsim's server so far; None before the first
        self.registration_finished = False
        self.static_jobs_done = False  # Batsim has submitted all jobs of the workloads
        self.rejections: dict[str, tuple[int, d.Reason]] = {}
        self.jobs = jobs
        self.cluster = cluster
        self.caller = caller
        self.field_check = field_check
        self.services = Services()
        self._job = validator.job
        self._notes = Notes()
        self.requeues = Requeues(jobs, cluster, validator, self, self._notes)
        self.holds = Holds(cluster, self.requeues, self._notes, self)
        self._do: dict[type[d.Decision], Callable[[Any], None]] = {
            cls: getattr(self, f"do_{d.method_name(cls)}", self.send) for cls in d.DECISIONS
        }
        self._do |= {
            d.Requeue: self.requeues.requeue,
            d.Replace: self.requeues.replace,
            d.Reshape: self.requeues.reshape,
        }

    def all_over(self) -> bool:
        """Return whether all jobs were submitted and have ended."""
        return self.static_jobs_done and not self.jobs.alive and not self.jobs.kills

    def start_reply(self, now: float) -> None:
        """Start an empty reply."""
        self.now = now
        self.out = []
        self.latest_stamp = -math.inf

    def carry_out(self, decision: d.Decision) -> None:
        """Apply a checked decision."""
        self._do[type(decision)](decision)

    def send(self, decision: d.Decision, **changes: Any) -> None:
        """Add a decision to the reply, with a time stamp and the given changes."""
        if decision.timestamp is None:
            changes["timestamp"] = self.now
        else:
            self.latest_stamp = max(self.latest_stamp, decision.timestamp)
        self.out.append(replace(decision, **changes))

    def add_fact(self, job: Job, fact: str, reason: d.Reason) -> None:
        """Add a fact ``name=value`` to the metadata of a job."""
        self.send(d.SetJobMetadata(job.wire_id, self._notes.add_fact(job.wire_id, fact), reason=reason))

    def note_submission(self, fields: Mapping[str, Any], at: float) -> None:
        """Measure the latency by a submission: the submitter of jobs sends a message, too."""
        subtime = fields.get("subtime")
        if isinstance(subtime, int | float):
            late_s = at - on_tick(subtime)
            self.latency_s = min(self.latency_s or math.inf, late_s if late_s > HALF_TICK else 0.0)

    def put_calls_first(self, latency_s: float) -> None:
        """Send calls first and not too near if one may be late when it reaches Batsim's server. O(decisions).

        Decisions are sent one after the other, and each takes the latency. Messages of jobs come in between, with a
        latency that is not known: up to half a second is allowed for one.
        """
        needed_s = min(100 * latency_s, 4 * latency_s + 0.5)
        calls = [one for one in self.out if type(one) is d.CallMeLater and one.timestamp == self.now]
        if all(one.at >= instant(self.now, len(self.out) * needed_s) for one in calls):
            return
        others = [one for one in self.out if not (type(one) is d.CallMeLater and one.timestamp == self.now)]
        first = [
            replace(one, at=max(one.at, instant(self.now, place * needed_s)))
            for place, one in enumerate(calls, start=1)
        ]
        self.out = [*first, *others]

    def add_job(
        self, job_id: str, fields: Mapping[str, Any], profile: Mapping[str, Any] | None = None, *, at: float
    ) -> Job:
        """Add a new job to the table. Its submission time may lie in the past."""
        if profile is None:
            workload, mark, _ = job_id.partition("!")
            profiles = self.cluster.profiles.get(workload if mark else "")
            if profiles is not None:
                profile = profiles.get(str(fields.get("profile")))
        job = Job.from_fields(job_id, fields, profile, at, self.jobs.n_submitted)
        self.jobs.add(job)
        return job

    def submit(self, job: Job) -> None:
        """Give a waiting job to a service or the policy, or reject it if it is larger than the platform."""
        policy, services = self.caller.policy, self.services
        if not policy.handles_oversized and not 0 < job.n_procs <= self.cluster.n_procs:
            reason: tuple[Any, ...] = ("asks for {} processors; expected at least 1", job.n_procs)
            if job.n_procs > 0:
                reason = (TOO_LARGE, job.n_procs, self.cluster.n_procs)
            self.carry_out(d.RejectJob(job.id, reason=reason))
            return
        if (services.fields is None or not services.fields.isdisjoint(job.fields)) and services.take(job):
            return
        for submitted in services.submitted:
            submitted(job)
        try:
            policy.on_job_submitted(job, self.now)
        except BaseException as error:  # noqa: BLE001  fail raises
            self.caller.fail("on_job_submitted", error)

    def release_held(self, gone: IntervalSet) -> None:
        """Release the jobs that are held on lost processors, and notify the policy."""
        for job, held_on in self.holds.lose(gone):
            self.caller.call("on_job_released", job, held_on, self.now)

    def end_job(
        self, job: Job, state: JobState, final_state: str, at: float, *, cause: KillCause | None = None
    ) -> None:
        """Record the end of a job and forget its details."""
        end_job(job, at, state, final_state)
        self.jobs.remove_finished(job)
        self._notes.forget(job.segment.wire_id)
        self.requeues.forget_job(job)
        for ended in self.services.ended:
            ended(job, cause)

    def start_beside(self, job: Job, procs: IntervalSet, reason: d.Reason) -> None:
        """Start a job of a reservation, in no partition: the policy does not know it."""
        start_job(job, self.now, procs, reason)
        self.jobs.n_running += 1
        self.cluster.inherit(job)
        self.cluster.change_machines()
        self.send(d.ExecuteJob(job.wire_id, procs, reason=reason))

    def start_running(self, job: Job, procs: IntervalSet, reason: d.Reason) -> None:
        """Start a job that ran before, in its partition if the policy takes it over, else in none."""
        partition = self.cluster.partition_of(procs)
        start_job(job, self.now, procs, reason, partition)
        self.jobs.n_running += 1
        if partition is not None and self.caller.call("take_over", job, self.now):
            self.cluster.occupy(job, self.now)
        else:
            job.segment.partition = None
            self.cluster.inherit(job)
            self.cluster.change_machines()
        self.send(d.ExecuteJob(job.wire_id, procs, reason=reason))
        self.caller.call("on_machines_changed", procs, self.now)

    def do_execute_job(self, decision: d.ExecuteJob) -> None:
        """Start a job, unless it must wait for a reservation of hosts."""
        job = self.jobs.alive.get(decision.job_id) or self._job(decision.job_id)
        for admit in self.services.admit:
            admitted: d.ExecuteJob | None = admit(job, decision)
            if admitted is None:
                return
            decision = admitted
        if job.segment.registered_as is not None:
            self.requeues.register_reshaped(job, decision.reason)
        stamp = self.now if decision.timestamp is None else decision.timestamp
        partitions = self.cluster.partitions
        if len(partitions) == 1:  # the usual case; the processors were checked to be in it
            partition: Partition | None = next(iter(partitions.values()))
        else:
            partition = self.cluster.partition_at(decision.procs)
        start_job(job, max(stamp, self.now), decision.procs, decision.reason, partition)
        self.jobs.n_running += 1
        self.cluster.occupy(job, self.now)
        self.send(decision, job_id=job.segment.wire_id)

    def do_reject_job(self, decision: d.RejectJob) -> None:
        """Reject a job."""
        job = self._job(decision.job_id)
        self.send(decision, job_id=job.wire_id)
        template = d.reason_template(decision.reason)
        n, first = self.rejections.get(template, (0, decision.reason))
        self.rejections[template] = (n + 1, first)
        self.end_job(job, JobState.REJECTED, "", self.now)

    def do_kill_job(self, decision: d.KillJob) -> None:
        """Kill jobs. Those that are being killed already are not requeued."""
        jobs = self.requeues.kill_for_good([self._job(job_id) for job_id in decision.job_ids])
        if jobs:
            self.send(decision, job_ids=tuple(job.wire_id for job in jobs))

    def do_call_me_later(self, decision: d.CallMeLater) -> None:
        """Request a call."""
        # Batsim's clock may be up to half a tick ahead of the time it prints.
        at = max(decision.at, max(decision.timestamp or self.now, self.now, self.latest_stamp) + TICK)
        self.n_calls_pending += 1
        self.send(decision, at=at)

    def do_set_resource_state(self, decision: d.SetResourceState) -> None:
        """Switch processors to a pstate."""
        going = decision.procs & self.cluster.procs
        if any(decision.state in self.cluster.sleep_pstates(i) for i in going):
            self.cluster.change_machines(asleep=going)
        self.send(decision)

    def do_set_job_metadata(self, decision: d.SetJobMetadata) -> None:
        """Set a job's metadata."""
        job = self._job(decision.job_id)
        self.send(decision, job_id=job.wire_id, metadata=self._notes.set_policy_note(job.wire_id, decision.metadata))

    def do_change_job_state(self, decision: d.ChangeJobState) -> None:
        """Force a job's state."""
        job = self._job(decision.job_id)
        mark_running(job, self.now)
        self.jobs.n_running += 1
        self.send(decision, job_id=job.wire_id)

    def do_to_job_msg(self, decision: d.ToJobMsg) -> None:
        """Send a message to a job."""
        self.send(decision, job_id=self._job(decision.job_id).wire_id)

    def do_start_at(self, decision: d.StartAt) -> None:
        """Hold processors for a job that starts later."""
        self.holds.hold(self._job(decision.job_id), decision)

    def do_release(self, decision: d.Release) -> None:
        """Return a held job to the waiting state."""
        self.holds.release(self._job(decision.job_id))

    def do_register_job(self, decision: d.RegisterJob) -> None:
        """Register a job."""
        # The policy created this job: it waits from now on, and no hook is called for it.
        self.open_registration()
        self.requeues.registered(self.add_job(decision.job_id, decision.job, at=self.now), by_policy=True)
        self.send(decision)

    def do_register_profile(self, decision: d.RegisterProfile) -> None:
        """Register a profile."""
        self.open_registration()
        self.requeues.add_profile(decision.workload_name, decision.profile_name, decision.profile)
        self.send(decision)

    def do_notify(self, decision: d.Notify) -> None:
        """Open or finish registration."""
        self.registration_finished = decision.kind == d.REGISTRATION_FINISHED
        self.send(decision)

    def open_registration(self) -> None:
        """Reopen the registration if it was finished."""
        if self.registration_finished:
            if self.caller.policy.manages_registration:
                raise Violation("registration open", "the policy has already finished the registration")
            self.carry_out(d.Notify(d.CONTINUE_REGISTRATION, reason="a job is registered after all"))
