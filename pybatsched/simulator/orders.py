"""What the scheduler's decisions do, and what Batsim refuses.

`Orders.prepare` gives the function that carries a decision out when its notice is delivered. Registrations take
effect at once, when their turn in the reply comes, and Batsim looks a job to start up then, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pybatsched.core import decisions as d, events as e
from pybatsched.errors import InputError, NotSimulatedError
from pybatsched.simulator import jobs as j
from pybatsched.simulator.machine.power import Power
from pybatsched.simulator.machine.pstates import Switching
from pybatsched.simulator.work.profiles import WorkTable
from pybatsched.simulator.world import Refusal
from pybatsched.workload.formats.checks import check_job, check_profiles
from pybatsched.workload.jobs import name_in

if TYPE_CHECKING:
    from pybatsched.simulator.execution import Execution
    from pybatsched.simulator.job_processes import Lives
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.world import World


_OPTIONS: Final = ("mapping", "storage_mapping", "additional_io_job")
#: Decisions that must have no members but their own.
_ALONE: Final = frozenset(
    {d.RejectJob, d.KillJob, d.CallMeLater, d.SetResourceState, d.SetJobMetadata, d.Query},
)


def check_members(decision: d.Decision) -> None:
    """Raise Refusal if a decision that was read has members that Batsim does not survive.

    A decision keeps what it does not know, and what it has read from another spelling (`0 1` for `0-1`).
    """
    kind = type(decision)
    if kind not in _ALONE:
        return
    own = [kind.v4_keys.get(name, name) for name in d.field_types(kind)]
    for member in decision.extra:
        if member not in own:
            raise Refusal(f"{kind.v4_type} has the member {member!r:.60}; Batsim takes {' and '.join(own)} alone")
    if "state" in decision.extra:
        raise Refusal(f"a pstate is a number as text, not {decision.extra['state']!r:.60}")


def check_execution(decision: d.ExecuteJob) -> None:
    """Raise Refusal if a start has more or other members than Batsim survives; NotSimulatedError if only Batsim can."""
    others = [member for member in decision.extra if member not in ("job_id", "alloc")]
    given = [decision.mapping, decision.storage_mapping, decision.additional_io_job]
    if len(others) + sum(value is not None for value in given) > 1:
        raise Refusal(f"EXECUTE_JOB of {decision.job_id} has more than three members")
    for option in _OPTIONS:
        if option in others:
            raise Refusal(f"EXECUTE_JOB of {decision.job_id}: {option} is null; expected an object, or nothing")
    if decision.mapping is not None and not decision.mapping:
        raise Refusal(f"EXECUTE_JOB of {decision.job_id}: the mapping is empty")
    storages = decision.storage_mapping
    if storages is not None and not (storages and all(type(host) is int for host in storages.values())):
        raise Refusal(
            f"EXECUTE_JOB of {decision.job_id}: expected a storage_mapping of names to numbers of hosts, "
            f"found {dict(storages)!r:.60}"
        )
    if decision.additional_io_job is not None:
        raise NotSimulatedError(f"job {decision.job_id}: additional_io_job needs a network model; run it with Batsim")


def check_answer(decision: d.Answer) -> None:
    """Raise Refusal if an answer is not the one to the only question there is; it has no effect."""
    given: Mapping[str, Any] | None = decision.estimate_waiting_time
    if decision.extra or given is None:
        raise Refusal("Batsim takes the answer estimate_waiting_time, and no other")
    is_number = type(given.get("estimated_waiting_time")) in (int, float)
    if type(given.get("job_id")) is not str or not is_number:
        raise Refusal(
            "the answer estimate_waiting_time: expected a job_id (a text) and an estimated_waiting_time (a number), "
            f"found {dict(given)!r:.60}"
        )


Order = Callable[[Any], None]
_NO_OPTIONS = (None, None, None)


class Orders:
    """Carries decisions out on one world."""

    def __init__(self, world: World, execution: Execution, lives: Lives) -> None:
        self._world = world
        self._execution = execution
        self._lives = lives
        self._orders: dict[type[d.Decision], Order] = {
            cls: getattr(self, f"order_{d.method_name(cls)}") for cls in d.DECISIONS if cls.v4_type
        }
        self._at_once: dict[type[d.Decision], Order | None] = {
            cls: getattr(self, f"prepare_{d.method_name(cls)}", None) for cls in self._orders
        }

    def prepare(self, decision: d.Decision) -> Order:
        """Do what is done before a decision's own time, and give what is to be done then."""
        kind = type(decision)
        order = self._orders.get(kind)
        if order is None:
            name = getattr(decision, "type", kind.__name__)
            raise Refusal(f"Batsim knows no decision {name!r}")
        if decision.extra and self._world.options.batsim == 4:  # Batsim 5 has forms of its own
            check_members(decision)
        at_once = self._at_once[kind]
        if at_once is not None:
            at_once(decision)
        return order

    def _job(self, job_id: str, what: str) -> SimJob:
        job = self._world.jobs.get(job_id)
        if job is not None:
            return job
        gone = "it is over and forgotten" if self._world.has_met(job_id) else "it does not exist"
        raise Refusal(f"cannot {what} job {job_id!r}: {gone}")

    # --- jobs ---

    def prepare_execute_job(self, decision: d.ExecuteJob) -> None:
        """Look up a job that is to start."""
        self._job(decision.job_id, "execute")
        options = decision.mapping, decision.storage_mapping, decision.additional_io_job
        if decision.extra or options != _NO_OPTIONS:
            check_execution(decision)
        if not decision.procs:
            raise Refusal(f"job {decision.job_id} is given no processors")

    def order_execute_job(self, decision: d.ExecuteJob) -> None:
        """Start a job."""
        world = self._world
        job = self._job(decision.job_id, "execute")
        if job.state != j.SUBMITTED:
            raise Refusal(f"cannot execute job {job.id}: its state is {job.state}, not SUBMITTED")
        procs = decision.procs
        blocked = world.book.blocked(procs)
        if blocked is not None:
            raise Refusal(f"job {job.id} cannot run on {procs}: machine {blocked[0]} {blocked[1]}")
        n_procs = world.scenario.platform.n_procs
        if job.work.computes and procs.highest >= n_procs:
            raise Refusal(f"job {job.id} cannot run on {procs}: it computes, and {procs.highest} is a storage host")
        power = self._execution.power
        if power is not None:
            for host in procs:
                if not power.is_computation(host, power.pstate(host)):
                    raise Refusal(f"job {job.id} cannot run on {procs}: machine {host} is in no computation pstate")
        job.mapping = _mapping(decision.mapping, len(procs), job.id)
        n = len(job.mapping) or len(procs)
        if n != job.res and not job.work.is_any_size:
            raise Refusal(f"job {job.id} requires {job.res} processors; {n} were given ({procs})")
        job.state = j.RUNNING
        job.alloc = procs
        world.n_running += 1
        job.process = self._lives.run(job)
        world.loop.spawn(job.process)

    def order_reject_job(self, decision: d.RejectJob) -> None:
        """Reject a job."""
        job = self._job(decision.job_id, "reject")
        if job.state != j.SUBMITTED:
            raise Refusal(f"cannot reject job {job.id}: its state is {job.state}, not SUBMITTED")
        job.state = e.REJECTED
        self._world.over(job)

    def prepare_kill_job(self, decision: d.KillJob) -> None:
        """Check that a kill names a job."""
        if not decision.job_ids:
            raise Refusal("KILL_JOB names no job")

    def order_kill_job(self, decision: d.KillJob) -> None:
        """Kill jobs."""
        jobs = []
        for job_id in decision.job_ids:
            job = self._job(job_id, "kill")
            if job.kill_asked:
                continue
            if job.state in {j.NOT_SUBMITTED, j.SUBMITTED, e.REJECTED}:
                raise Refusal(f"cannot kill job {job.id}: its state is {job.state}")
            job.kill_asked = True
            jobs.append(job)
        if jobs:
            self._world.n_kills += 1
            self._world.loop.spawn(self._lives.kill(jobs))

    def order_set_job_metadata(self, decision: d.SetJobMetadata) -> None:
        """Set a job's metadata."""
        if '"' in decision.metadata:
            raise Refusal(f"the metadata of job {decision.job_id} contains double quotes")
        self._job(decision.job_id, "set the metadata of").metadata = decision.metadata

    def order_change_job_state(self, decision: d.ChangeJobState) -> None:
        """Follow Batsim 4, which survives only the change of a waiting job to RUNNING."""
        job = self._job(decision.job_id, "change the state of")
        world = self._world
        if job.state == j.SUBMITTED and decision.job_state == j.RUNNING:
            job.started_at = world.now
            world.n_running += 1
            job.state = j.RUNNING
            return
        raise Refusal(f"cannot change the state of job {job.id} from {job.state} to {decision.job_state}")

    def order_to_job_msg(self, decision: d.ToJobMsg) -> None:
        """Send a message to a job."""
        job = self._job(decision.job_id, "send a message to")
        if not isinstance(decision.msg, str):
            raise Refusal(f"the message to job {job.id} is no text")
        if job.inbox is None:
            job.inbox = deque()
        job.inbox.append(decision.msg)

    # --- time ---

    def order_call_me_later(self, decision: d.CallMeLater) -> None:
        """Call the scheduler later."""
        world = self._world
        if not decision.at > world.now and world.options.batsim == 4:  # Batsim 5 calls at once
            raise Refusal(f"a call was asked for {decision.at}; it is {world.now} already")
        world.n_calls += 1
        world.loop.spawn(self._lives.call(float(decision.at)))

    # --- registration ---

    def _check_registration(self) -> None:
        if not self._world.options.dynamic_jobs:
            raise Refusal("a registration, but --enable-dynamic-jobs is off")
        if self._world.registration_finished:
            raise Refusal("a registration after registration_finished")

    def prepare_register_profile(self, decision: d.RegisterProfile) -> None:
        """Register a profile."""
        self._check_registration()
        table = self._world.works.setdefault(decision.workload_name, WorkTable(decision.workload_name))
        name = decision.profile_name
        if table.knows(name):
            raise Refusal(f"profile {name} of workload {decision.workload_name} exists already, or did")
        if decision.profile.get("type") in {"composed", "smpi", "usage_trace"}:
            raise Refusal(f"profile {name}: Batsim 4 cannot run a {decision.profile['type']} profile made at run time")
        try:
            check_profiles({name: dict(decision.profile)}, f"REGISTER_PROFILE into {decision.workload_name}")
        except InputError as error:
            raise Refusal(str(error)) from None
        work = table.add(name, dict(decision.profile))
        if work.refusal is not None:
            raise NotSimulatedError(f"registered {work.refusal}; run it with Batsim")

    def prepare_register_job(self, decision: d.RegisterJob) -> None:
        """Register a job."""
        self._check_registration()
        world = self._world
        workload, mark, name = decision.job_id.partition("!")
        table = world.works.get(workload)
        if not mark or not name or table is None:
            raise Refusal(f"job {decision.job_id!r} is registered into workload {workload!r}, which does not exist")
        if world.has_met(decision.job_id):
            raise Refusal(f"cannot register job {decision.job_id}: there has been one of this id")
        fields = dict(decision.job)
        profile = fields.get("profile")
        if isinstance(profile, str) and table.knows(profile) and table.get(profile) is None:
            raise Refusal(
                f"registered job {decision.job_id}: its profile {profile!r} was forgotten with a job that ended on it"
            )
        try:
            work = table.get(profile) if isinstance(profile, str) else None
            check_job(fields, 0, {} if work is None else {work.name: work.described}, "REGISTER_JOB")
            if name_in(workload, fields["id"]) != name:
                raise InputError(f"registered job {decision.job_id} calls itself {fields['id']!r}")
            job = world.make_job(workload, fields)
        except InputError as error:
            raise Refusal(str(error)) from None
        job.state = j.SUBMITTED
        world.register(job)

    def order_register_job(self, decision: d.RegisterJob) -> None:
        """Count a registered job, and acknowledge it."""
        world = self._world
        world.n_submitted += 1
        if world.options.acknowledge_dynamic_jobs:
            world.tell_submitted(world.jobs[decision.job_id])

    def order_notify(self, decision: d.Notify) -> None:
        """Open or finish registration."""
        if decision.kind not in {d.REGISTRATION_FINISHED, d.CONTINUE_REGISTRATION}:
            raise Refusal(f"Batsim knows no notice {decision.kind!r}")
        self._world.registration_finished = decision.kind == d.REGISTRATION_FINISHED

    def order_register_profile(self, decision: d.RegisterProfile) -> None:
        """Do nothing: a profile is registered before."""

    # --- queries and energy ---

    def prepare_answer(self, decision: d.Answer) -> None:
        """Check an answer."""
        check_answer(decision)

    def order_answer(self, decision: d.Answer) -> None:
        """Do nothing: Batsim asks no question that needs the answer."""

    def _power(self, what: str) -> Power:
        if self._execution.power is None:
            raise Refusal(f"{what}, but energy (-E) is off")
        return self._execution.power

    def order_query(self, decision: d.Query) -> None:
        """Answer a query of energy."""
        if set(decision.requests) != {"consumed_energy"} or decision.requests["consumed_energy"] != {}:
            raise Refusal(f"Batsim answers the query {{'consumed_energy': {{}}}} only, not {dict(decision.requests)}")
        world = self._world
        joules = self._power("a query of consumed energy").total_j(world.now)
        world.say(e.Answer(round(joules, 6), timestamp=world.stamp()))

    def order_set_resource_state(self, decision: d.SetResourceState) -> None:
        """Switch processors to a pstate."""
        power = self._power("a change of pstate was asked for")
        try:
            pstate = int(decision.state)
        except ValueError:
            raise Refusal(f"a pstate is a number as text, not {decision.state!r}") from None
        Switching(self._world, self._execution, power).switch(decision.procs, pstate)


def _mapping(given: Mapping[str, Any] | None, n_procs: int, job_id: str) -> tuple[int, ...]:
    """Read a mapping of executors to places in the allocation."""
    if given is None:
        return ()
    try:
        places = {int(executor): int(place) for executor, place in given.items()}
    except (TypeError, ValueError):
        raise Refusal(f"job {job_id}: the mapping holds something that is no integer") from None
    if set(places) != set(range(len(places))) or not all(0 <= place < n_procs for place in places.values()):
        raise Refusal(f"job {job_id}: the mapping must give executors 0, 1, … one of {n_procs} processors each")
    return tuple(places[executor] for executor in range(len(places)))
