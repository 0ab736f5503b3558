"""Kill-and-requeue, replace and reshape, so that policies never handle Batsim's job ids.

A kill needs one exchange: KILL_JOB is sent, JOB_COMPLETED and JOB_KILLED arrive at the same simulated time, and only
then is it known whether the job was killed or had already ended. Until then nothing is planned in its partition. A
requeued job gets a new id and profile in Batsim; for its user and the policy it stays the same job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec.structs import replace

from pybatsched.core import decisions as d, derive
from pybatsched.core.checkpoints import Checkpoints, Restarts, checkpoints_of
from pybatsched.core.decisions import Decision, Reason
from pybatsched.core.finished_jobs import IdSet
from pybatsched.core.instants import TICK
from pybatsched.core.intervals import EMPTY
from pybatsched.core.jobs import (
    Job,
    JobShape,
    JobState,
    JobWork,
    KillCause,
    PendingKill,
    Segment,
    StartupLoad,
    kill_job,
    replace_job,
    requeue_job,
    reshape_job,
)
from pybatsched.core.validator import Validator, Violation

if TYPE_CHECKING:
    from pybatsched.core.cluster import Cluster
    from pybatsched.core.jobs import JobTable


#: Run times that differ by less are the same.
_SAME_S: Final = 1e-3


class ReplyBuilder(Protocol):
    """The interface of `pybatsched.core.actions.Actions` by which `Requeues` and `Holds` build the reply."""

    now: float

    def send(self, decision: Decision, **changes: Any) -> None:
        """Add a decision to the reply."""

    def carry_out(self, decision: Decision) -> None:
        """Apply a decision to the state and add it to the reply."""

    def open_registration(self) -> None:
        """Make sure that jobs can be registered."""


class Notes:
    """The metadata of all unfinished jobs, by their ids in Batsim. All methods are O(1)."""

    def __init__(self) -> None:
        self._facts: dict[str, str] = {}
        self._policy_notes: dict[str, str] = {}

    def add_fact(self, wire_id: str, fact: str) -> str:
        """Add a fact of the engine (``name=value``, several with semicolons). Return all metadata of the job."""
        before = self._facts.get(wire_id)
        self._facts[wire_id] = f"{before};{fact}" if before else fact
        return self.of(wire_id)

    def set_policy_note(self, wire_id: str, note: str) -> str:
        """Replace the policy's part. Return all metadata of the job."""
        self._policy_notes[wire_id] = note
        return self.of(wire_id)

    def of(self, wire_id: str) -> str:
        """Return all metadata of a job; empty if it has none."""
        return ";".join(filter(None, (self._facts.get(wire_id), self._policy_notes.get(wire_id))))

    def move_policy_note(self, wire_id: str, new_id: str) -> None:
        """Move the policy's part to the job that runs in place of another."""
        note = self._policy_notes.pop(wire_id, None)
        if note is not None:
            self._policy_notes[new_id] = note

    def forget(self, wire_id: str) -> None:
        """Forget a job that ended or continues under another id."""
        self._facts.pop(wire_id, None)
        self._policy_notes.pop(wire_id, None)


class Requeues:
    """Manages the pending kills, the derived jobs and the dynamic profiles of one run."""

    def __init__(
        self, jobs: JobTable, cluster: Cluster, validator: Validator, reply: ReplyBuilder, notes: Notes
    ) -> None:
        self._jobs = jobs
        self._cluster = cluster
        self._validator = validator
        self.dynamic_jobs = validator.dynamic_jobs
        self._reply = reply
        self._kills = jobs.kills
        self._origins: dict[str, derive.Derivation] = {}  # of unfinished derived jobs, by their ids in Batsim
        #: Workload and name of the profiles that the policy registered, as long as Batsim has them.
        self._dynamic_profiles: set[tuple[str, str]] = set()
        self._by_policy = IdSet()  # ids of jobs that the policy registered
        self._notes = notes
        self._keeps_profiles = bool(cluster.config.get("profile-reuse-enabled"))
        cluster.can_restart = self.can_restart
        cluster.can_suspend = self.can_suspend
        cluster.can_load = self.can_load
        cluster.can_reshape = self.can_load  # both need a profile of delays

    def _record_kill(
        self,
        jobs: list[Job],
        requeue: d.Requeue | None = None,
        spare_id: str | None = None,
        *,
        cause: KillCause = "decision",
    ) -> None:
        """Record kills that are being sent. Batsim answers only the first one for a job."""
        for job in jobs:
            if job.wire_id not in self._kills:
                self._kills[job.wire_id] = PendingKill(job, requeue, spare_id, cause=cause)
                if job.partition is not None:
                    job.partition.n_kills_pending += 1

    def kill_for_good(self, jobs: list[Job]) -> list[Job]:
        """Record kills without a requeue. Return the jobs for which the engine has not sent a kill already."""
        self._record_kill(jobs)
        for job in jobs:
            self._kills[job.wire_id].requeue = None
        return [job for job in jobs if self._kills[job.wire_id].cause == "decision"]

    def kill_and_requeue(self, cause: KillCause, jobs: list[Job], lost: list[Job], reason: Reason) -> None:
        """Kill jobs for a failure or a reservation, by one decision. All but the `lost` ones are requeued."""
        for job in jobs:
            requeue = None if job in lost else d.Requeue(job.id, reason=reason)
            spare_id = None if requeue is None else self._spare_for(job, requeue)
            self._record_kill([job], requeue, spare_id, cause=cause)
        self._reply.send(d.KillJob(tuple(job.wire_id for job in jobs), reason=reason))

    def record_killed(self, job: Job, at: float) -> None:
        """Record that a kill took effect; Batsim's answer follows."""
        kill_job(job, at)
        self._record_kill([job])  # no effect, unless the peer killed it without a request

    def finish_kill(self, wire_id: str, progress: Mapping[str, Any] | None) -> Job | None:
        """Finish a kill. Return the killed job, which waits again if it is requeued; None if it had ended before."""
        pending = self._kills.pop(wire_id, None)
        if pending is None:
            return None
        job = pending.job
        if job.partition is not None:
            job.partition.n_kills_pending -= 1
        was_killed = job.state is JobState.KILLED  # else it had ended before the kill
        if pending.spare_id is not None and not (was_killed and pending.requeue is not None):
            self._reject_spare(pending.spare_id, job, "killed" if was_killed else "ended by itself")
        if was_killed and pending.requeue is not None:
            self._register_next_segment(job, pending, progress)
        return job if was_killed else None

    def _reject_spare(self, spare_id: str, job: Job, why: str) -> None:
        """Reject a spare job that is not needed."""
        reason = (f"{{}} had {why}", job.id)
        note = f"unused_spare_of={derive.id_in_note(job.id)}"
        self._reply.send(d.SetJobMetadata(spare_id, note, reason=reason))
        self._reply.send(d.RejectJob(spare_id, reason=reason))
        del self._origins[spare_id]
        self._notes.forget(spare_id)

    def can_restart(self, job: Job) -> bool:
        """Return whether the job can be killed and restarted: Batsim must have its profile, or it can be copied."""
        known = not self._cluster.is_retired(job.workload, job.profile_name)
        return known or derive.can_copy(job.whole.profile, self._profiles(job))

    def can_suspend(self, job: Job) -> bool:
        """Return whether the job can be killed and continue with the rest of its work."""
        return derive.can_copy(job.profile, self._profiles(job))

    def can_load(self, job: Job) -> bool:
        """Return whether extra seconds can be put before the job's work: its profile must consist of delays."""
        return derive.delay_of(job.profile, self._profiles(job)) is not None

    def requeue(self, decision: d.Requeue) -> None:
        """Kill a running job that continues later."""
        job = self._validator.job(decision.job_id)
        if job.wire_id in self._kills:
            return  # by the engine, which the policy cannot know
        self._record_kill([job], decision, self._spare_for(job, decision))
        self._reply.send(d.KillJob((job.wire_id,), timestamp=decision.timestamp, reason=decision.reason))

    def _spare_for(self, job: Job, decision: d.Requeue) -> str | None:
        """Register a spare job before a kill if the profile cannot be copied. Return its id."""
        base = job.whole.profile if decision.work == "all" else job.profile
        if derive.can_copy(base, self._profiles(job)):
            return None
        # Batsim deletes the profile with the kill, so the next job that uses it must be registered before.
        spare_id = self._new_id(job, job.workload, prefix="")
        how = derive.Derivation("requeue", by=decision.by)
        work = replace(job.segment.work, estimate=job.estimate)
        self._register(job, spare_id, work, n=job.n_procs, how=how)
        return spare_id

    def _register_next_segment(self, job: Job, pending: PendingKill, progress: Mapping[str, Any] | None) -> None:
        """Register the next segment of a killed job, which waits again."""
        requeue = pending.requeue
        assert requeue is not None
        restarts = job.restarts = job.restarts or Restarts()
        restarts.n_failures += pending.cause == "failure"
        work, saved_s, cut_s = self._work_left(job, restarts, requeue.work)
        restarts.extra_s += requeue.extra_s
        walltime, estimate = (
            None if span_s is None else span_s + requeue.extra_s for span_s in (work.walltime, work.estimate)
        )
        work = replace(work, walltime=walltime, estimate=estimate)
        if pending.spare_id is not None:
            wire_id = pending.spare_id
            self._describe_spare(wire_id, restarts.facts)
        else:
            share = (progress or {}).get("progress")
            try:
                profile = derive.requeued_profile(
                    work.profile,
                    self._profiles(job),
                    ran=job.profile,
                    work=requeue.work,
                    extra_s=requeue.extra_s,
                    elapsed_s=job.segment.own_s,
                    progress=float(share) if isinstance(share, int | float) else None,
                )
            except derive.CannotDeriveError as error:
                raise Violation("can be requeued", str(error), job=job) from None
            wire_id = self._new_dynamic_id(job)
            work = replace(work, profile_name=wire_id.partition("!")[2], profile=profile)
            how = derive.Derivation(
                "requeue",
                is_rest=requeue.work == "rest",
                extra_s=requeue.extra_s + (saved_s - cut_s),  # and the time to read the last checkpoint
                by=requeue.by,
                kept_s=saved_s,
                failures=restarts.facts,
            )
            self._derive(job, wire_id, work, n=job.n_procs, how=how)
        self._continue_as(job, wire_id)
        is_whole = requeue.work == "all" and not requeue.extra_s and not saved_s
        requeue_job(job, Segment(wire_id, work), None if is_whole else work, requeue.procs)

    def _work_left(self, job: Job, restarts: Restarts, kind: Literal["all", "rest"]) -> tuple[JobWork, float, float]:
        """Record what a killed segment has done. Return the work of the next one, and two spans of the whole job.

        The walltime and the estimate are what is left of them. The profile begins at the last checkpoint; for a `rest`
        it is still that of the segment. The spans are the run time that checkpoints have saved, dumps included, and by
        how much the next segment is shorter than the whole job: this time without that to read the last checkpoint.
        """
        segment = job.segment
        restarts.add_run(segment.n_held, segment.ran_s - segment.own_s, segment.own_s)
        if kind == "rest":
            work = replace(segment.work, estimate=segment.estimate) if segment.load is None else segment.load.own
            return _shortened(work, segment.own_s), 0.0, 0.0
        work = job.whole.at(job.scale)
        checkpoints = self.checkpoints_of(job)
        n = restarts.restart(checkpoints)
        if checkpoints is None or not n:
            return work, 0.0, 0.0
        assert work.profile is not None
        cut_s, total_s = checkpoints.cut_s(n), checkpoints.total_s
        profile = derive.shortened_profile(work.profile, self._profiles(job), total_s, round(total_s - cut_s, 6))
        return replace(_shortened(work, cut_s), profile=profile), checkpoints.saved_s(n), cut_s

    def _describe_spare(self, wire_id: str, facts: str) -> None:
        """Add what failures have cost to a spare job: it was registered before that was known."""
        if not facts:
            return
        self._origins[wire_id] = self._origins[wire_id]._replace(failures=facts)
        note = self._notes.add_fact(wire_id, facts)
        self._reply.send(d.SetJobMetadata(wire_id, note, reason="what failures have cost the job"))

    def checkpoints_of(self, job: Job) -> Checkpoints | None:
        """Return a job's checkpoints; None if it has none, or has another size or run time than at its submission."""
        found = checkpoints_of(job.id, job.fields)
        if found is None or job.scale != 1.0 or job.n_procs != job.n_procs_requested:
            return None
        profile = job.whole.profile
        if not derive.can_copy(profile, self._profiles(job)):
            return None
        delay_s = derive.delay_of(profile, self._profiles(job))
        return found if delay_s is None or abs(delay_s - found.total_s) < _SAME_S else None

    def replace(self, decision: d.Replace) -> None:
        """Start a waiting job with another size or duration, or extra seconds before its work, in one reply."""
        job = self._validator.job(decision.job_id)
        n = job.n_procs if decision.n is None else decision.n
        old_s = derive.delay_of(job.profile, self._profiles(job))
        duration_s = None if decision.duration_s == old_s else decision.duration_s
        if n != job.n_procs or duration_s is not None or decision.extra_s or decision.spent_s or job.is_reshaped:
            self._register_replacement(job, n, duration_s, old_s, decision)
        self._reply.carry_out(
            d.ExecuteJob(job.id, decision.procs, timestamp=decision.timestamp, reason=decision.reason)
        )

    def _register_replacement(
        self, job: Job, n: int, duration_s: float | None, old_s: float | None, decision: d.Replace
    ) -> None:
        """Register the job that runs in place of a waiting job."""
        extra_s = decision.extra_s
        work = derive.resized_profile(job, self._profiles(job), n, duration_s)
        profile = derive.loaded_profile(work, extra_s)
        walltime, estimate = job.walltime, job.estimate
        if duration_s is not None and not decision.within_walltime:
            # A delay must end before its walltime to count as a success. If the old duration is unknown, the margin is
            # one second, as in `workload convert --walltimes exact`.
            margin_s = max(walltime - old_s, TICK) if walltime is not None and old_s is not None else 1.0
            slack_s = max(estimate - old_s, 0.0) if estimate is not None and old_s is not None else 0.0
            walltime = None if walltime is None else round(duration_s + margin_s, 6)
            estimate = round(duration_s + slack_s, 6)
        wire_id = self._new_dynamic_id(job)
        own = JobWork(wire_id.partition("!")[2], work, walltime, estimate, job.scale)
        grows_s = 0.0 if decision.within_walltime else extra_s
        walltime, estimate = _more(walltime, grows_s), _more(estimate, grows_s)
        if decision.spent_s:
            walltime, estimate = _left(walltime, decision.spent_s), _left(estimate, decision.spent_s)
        work_now = replace(own, profile=profile, walltime=walltime, estimate=estimate)
        self._notes.move_policy_note(job.wire_id, wire_id)
        note = self._notes.add_fact(job.wire_id, f"replaced_by={derive.id_in_note(wire_id)};kind=replace")
        self._reply.send(d.SetJobMetadata(job.wire_id, note, reason=decision.reason))
        self._reply.send(d.RejectJob(job.wire_id, reason=("continues as {}", wire_id)))
        how = self._origin_of_replaced(job, extra_s, is_same_work=duration_s is None)
        self._derive(job, wire_id, work_now, n=n, how=how)
        self._continue_as(job, wire_id)
        # A job of another size alone keeps its work, all of which a restart repeats.
        segment = Segment(wire_id, work_now, StartupLoad(extra_s, own) if extra_s else None)
        replace_job(job, segment, n, None if duration_s is None else own)

    def _origin_of_replaced(self, job: Job, extra_s: float, *, is_same_work: bool) -> derive.Derivation:
        """Return the derivation of a replacing job; that of a requeued job keeps its other facts."""
        before = self._origins.get(job.wire_id)
        if before is None:
            return derive.Derivation("replace", extra_s=extra_s)
        _, scale = job.segment.registered_as or (job.n_procs, job.scale)
        kept_s = round(before.extra_s * (job.scale / scale), 6) if is_same_work else 0.0
        return before._replace(kind="replace", extra_s=extra_s + kept_s)

    def reshape(self, decision: d.Reshape) -> None:
        """Change the size and times of a waiting job: O(1), or O(parts) for the first time of a composed profile."""
        job = self._validator.job(decision.job_id)
        shape = JobShape(decision.n, float(decision.scale), decision.reason)
        if (shape.n, shape.scale) == (job.n_procs, job.scale):
            job.shape = shape
            return
        profile = job.whole.profile
        if profile is not None and profile.get("type") != "delay":
            delay_s = derive.delay_of(profile, self._profiles(job))
            assert delay_s is not None
            job.whole = replace(job.whole, profile=derive.single_delay(profile, delay_s))
        reshape_job(job, shape)

    def register_reshaped(self, job: Job, reason: d.Reason) -> None:
        """Register the job that runs in place of a reshaped job."""
        self._register_replacement(job, job.n_procs, None, None, d.Replace(job.id, EMPTY, reason=reason))

    def _derive(self, job: Job, wire_id: str, work: JobWork, *, n: int, how: derive.Derivation) -> None:
        """Register a profile and a job for the next segment of a job."""
        assert work.profile is not None
        workload, _, profile_name = wire_id.partition("!")
        self._reply.open_registration()
        self._cluster.retire_profile(workload, profile_name)  # only this job uses it
        self._reply.send(
            d.RegisterProfile(workload, profile_name, work.profile, reason=("the next segment of {}", job.id))
        )
        self._register(job, wire_id, work, n=n, how=how)

    def _register(self, job: Job, wire_id: str, work: JobWork, *, n: int, how: derive.Derivation) -> None:
        self._reply.open_registration()
        fields = derive.derived_job(
            job,
            wire_id,
            work.profile_name,
            n=n,
            walltime=work.walltime or job.walltime,
            estimate=work.estimate or job.estimate,
        )
        self._jobs.registered.add(wire_id)
        self._origins[wire_id] = how
        job.n_derived += 1
        note = self._notes.add_fact(wire_id, derive.lineage(job, job.n_derived, how))
        self._reply.send(d.RegisterJob(wire_id, fields, reason=("the next segment of {}", job.id)))
        self._reply.send(d.SetJobMetadata(wire_id, note, reason="so that its parts can be put together again"))

    def _new_dynamic_id(self, job: Job) -> str:
        return self._new_id(job, derive.DYNAMIC_WORKLOAD, prefix=f"{job.workload}." if job.workload else "")

    def _new_id(self, job: Job, workload: str, *, prefix: str) -> str:
        name = job.id.partition("!")[2] or job.id
        k = job.n_derived + 1
        while self._jobs.knows(wire_id := f"{workload}!{prefix}{name}.{k}"):
            k += 1
        return wire_id

    def _continue_as(self, job: Job, wire_id: str) -> None:
        """Forget the present segment of a job, which continues under another id in Batsim."""
        self._notes.forget(job.wire_id)
        self._forget_segment(job)
        self._jobs.rename(job, wire_id)

    def registered(self, job: Job, *, by_policy: bool) -> None:
        """Record a job that a policy registers, or that the engine registers for its user."""
        self._jobs.registered.add(job.id)
        if by_policy:
            self._by_policy.add(job.id)

    def is_by_policy(self, job_id: str) -> bool:
        """Return whether a policy registered this job."""
        return self._by_policy.has(job_id)

    # --- profiles that Batsim has deleted -------------------------------------------------------------------------

    def add_profile(self, workload: str, name: str, profile: Mapping[str, Any]) -> None:
        """Record a profile that a policy registers."""
        self._dynamic_profiles.add((workload, name))
        self._cluster.profiles.setdefault(workload, {})[name] = profile

    def forget_job(self, job: Job) -> None:
        """Forget a job that ended."""
        if self.dynamic_jobs:  # else no job is derived from another
            self._forget_segment(job)

    def _forget_segment(self, job: Job) -> None:
        self._origins.pop(job.wire_id, None)
        self._forget_profile(job.wire_id.partition("!")[0], job.profile_name)

    def _forget_profile(self, workload: str, name: str) -> None:
        """Record that Batsim deleted a profile, and the parts of a composed one, when its first job ended."""
        if self._keeps_profiles or self._cluster.is_retired(workload, name):
            return
        self._cluster.retire_profile(workload, name)
        profiles = self._cluster.profiles.get(workload, {})
        for part in profiles.get(name, {}).get("seq", ()):
            self._forget_profile(workload, part)
        if (workload, name) in self._dynamic_profiles:  # no job of a workload file uses it
            self._dynamic_profiles.remove((workload, name))
            del profiles[name]

    def _profiles(self, job: Job) -> derive.Profiles:
        return self._cluster.profiles.get(job.workload, {})


def _more(span_s: float | None, extra_s: float) -> float | None:
    """Return a span plus some seconds; None if the span is unknown."""
    return span_s if span_s is None or not extra_s else round(span_s + extra_s, 6)


def _shortened(work: JobWork, done_s: float) -> JobWork:
    """Return work with the times that are left. For a job past its estimate only the walltime is known."""
    walltime = _left(work.walltime, done_s)
    estimate = walltime if (work.estimate or done_s) <= done_s else _left(work.estimate, done_s)
    return replace(work, walltime=walltime, estimate=estimate)


def _left(span_s: float | None, done_s: float) -> float | None:
    """Return the rest of a span, at least one tick; None if the span is unknown."""
    return None if span_s is None else max(round(span_s - done_s, 6), TICK)
