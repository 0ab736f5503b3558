"""Replace the policy of a run while the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine, Reply, check_needs
from pybatsched.core.field_check import FieldCheck
from pybatsched.core.jobs import Job, JobState, forget_plans
from pybatsched.core.model_refs import model_of
from pybatsched.core.policy_calls import PolicyCaller
from pybatsched.core.services.host_reservations import numbers_of, specs_of, windows_of
from pybatsched.core.services.order import check_partitions, services_of
from pybatsched.core.validator import Violation
from pybatsched.errors import InputError

if TYPE_CHECKING:
    from pybatsched.core.policy import Policy


def replace_policy(
    engine: Engine, begins: e.SimulationBegins, make_policy: Callable[[e.SimulationBegins], Policy], policy_name: str
) -> Reply:
    """Continue a run with another policy, and return its decisions at this time. O(unfinished jobs).

    Running jobs continue; see `Policy.take_over`. Held jobs are released. All waiting jobs are submitted to the new
    policy in order of submission, with the size and times that Batsim knows. Calls that the old policy requested
    still arrive. `begins` is the first event of the run.

    Raises InputError, and changes nothing, while a kill is pending, and if the new policy cannot begin here. After
    an exception of another method of the policy the engine cannot be used any more.
    """
    if not engine.began or engine.ended:
        raise InputError("the policy can be replaced only between SIMULATION_BEGINS and SIMULATION_ENDS")
    _check_no_kill_pending(engine)
    policy = make_policy(begins)
    check_needs(policy, policy_name, begins)
    if engine.feedback is not None:
        engine.feedback.check_policy(policy, policy_name)
    field_check = FieldCheck(model_of(type(policy), "JobFields"), policy_name)
    for job in engine.jobs.alive.values():
        problem = field_check.error_text(job.id, job.fields)
        if problem is not None:
            raise InputError(problem)
    cluster, actions = engine.cluster, engine.actions
    windows_of(specs_of(policy.options), cluster.procs, numbers_of(cluster))  # raises InputError
    check_partitions(policy, policy_name, cluster)
    before, partitions = engine.caller, cluster.partitions
    cluster.partitions = {}
    try:
        engine.use_policy(PolicyCaller(policy, policy_name))
        engine.begin_policy()
    except BaseException:
        cluster.partitions = partitions
        engine.use_policy(before)
        raise
    actions.field_check = field_check
    try:
        _replace_services(engine)
        _hand_over(engine)
        return engine.reply(())
    except Violation as error:
        raise error.as_policy_error(policy_name) from None


def _check_no_kill_pending(engine: Engine) -> None:
    if engine.jobs.kills:
        killed = [job.id for job in engine.jobs.alive.values() if job.wire_id in engine.jobs.kills]
        which = f"job {killed[0]}" if killed else "a job"
        raise InputError(
            f"{which} is being killed by policy {engine.policy_name}; expected no pending kill when the policy is "
            "replaced: handle the next message first"
        )


def _replace_services(engine: Engine) -> None:
    """Begin the services of the new policy. Those that the old policy had as well continue."""
    actions = engine.actions
    earlier = {type(one): one for one in actions.services.all}
    actions.services = services_of(engine.policy, actions, engine.outages, engine.feedback, engine.eligibility)
    for service in actions.services.all:
        old = earlier.pop(type(service), None)
        if old is None:
            service.begin()
        elif old is not service:
            service.follow(old)
    for old in earlier.values():
        old.leave()


def _hand_over(engine: Engine) -> None:
    """Give all unfinished jobs to a policy that has just begun."""
    actions, cluster, caller, now = engine.actions, engine.cluster, engine.caller, engine.now
    actions.start_reply(now)
    actions.holds.release_all()
    unfinished = sorted(engine.jobs.alive.values(), key=lambda job: (job.started_at or 0.0, job.seq))
    running = [job for job in unfinished if job.state is JobState.RUNNING and job.procs is not None]

    def is_taken_over(job: Job) -> bool:
        return bool(caller.call("take_over", job, now))

    cluster.hand_over(running, is_taken_over)
    engine.settle_machines()
    taken = cluster.procs
    for partition in cluster.partitions.values():
        taken = taken - partition.free
    if taken:
        caller.call("on_machines_changed", taken, now)
    if engine.policy.manages_registration and actions.registration_finished:
        actions.carry_out(d.Notify(d.CONTINUE_REGISTRATION, reason="another policy manages the registration"))
    for job in sorted(unfinished, key=lambda job: job.seq):
        if job.state is JobState.WAITING:
            forget_plans(job)
            actions.submit(job)
    if actions.static_jobs_done:
        engine.notify(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=now))
    if engine.machines_settled and not cluster.inherited:
        engine.notify(e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=now))
