"""The effects of decisions, and the checks that Batsim makes.

`DecisionEffects.prepare` returns the function that executes a decision when its notice is delivered. Registrations take
effect in `prepare`, in the order of the reply. Batsim also looks up a job to start at that point.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError, NotSimulatedError, setting
from pybatsched.simulator import jobs as j
from pybatsched.simulator.loop import Process
from pybatsched.simulator.work.profiles import COMPOSED, PFS, STAGING, Work, WorkTable, storage_fault
from pybatsched.simulator.world import Refusal
from pybatsched.workload.formats.checks import check_job, check_profiles
from pybatsched.workload.jobs import name_in

if TYPE_CHECKING:
    from pybatsched.simulator.execution import Execution
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.simgrid.meters import Meters
    from pybatsched.simulator.world import World


#: A function that sends events to the scheduler, and one that holds an event for the first message.
Send: TypeAlias = Callable[[list[e.Event]], Process]
Hold: TypeAlias = Callable[[e.Event], list[Process]]

_OPTIONS: Final = ("mapping", "storage_mapping", "additional_io_job")
#: Decisions that Batsim accepts only without additional members.
_ALONE: Final = frozenset({d.RejectJob, d.KillJob, d.CallMeLater, d.SetResourceState, d.SetJobMetadata, d.Query})


class Batsim4:
    """What Batsim 4 rejects and sends, where Batsim 5 differs."""

    def begin(self, begins: e.Event, send: Send, hold: Hold) -> list[Process]:
        """Return the first processes of the server: they send SIMULATION_BEGINS alone."""
        del hold
        return [send([begins])]

    def check_members(self, decision: d.Decision) -> None:
        """Raise Refusal if a received decision has members for which Batsim would abort (`decision.extra`)."""
        kind = type(decision)
        if kind not in _ALONE:
            return
        own = [kind.v4_keys.get(name, name) for name in d.field_types(kind)]
        for member in decision.extra:
            if member not in own:
                raise Refusal(f"{kind.v4_type}: expected only {' and '.join(own)}, found the member {member!r:.60}")
        if "state" in decision.extra:
            raise Refusal(f"expected a pstate (a number as text), found {decision.extra['state']!r:.60}")

    def check_call(self, at: float, now: float) -> None:
        """Raise Refusal for a call that is requested too late."""
        if not at > now:
            raise Refusal(f"a call was requested at {at}; expected later than the current time, {now}")

    def event_members(self, list_name: str, place: int) -> dict[str, Any]:
        """Return additional members of an external event, the one at a place of a list."""
        del list_name, place
        return {}


class Batsim5(Batsim4):
    """What Batsim 5 rejects and sends. It sends the first message when no process has more to post at time 0.

    With several submitters the first message therefore contains the jobs of the first instant.
    """

    def begin(self, begins: e.Event, send: Send, hold: Hold) -> list[Process]:
        """Send SIMULATION_BEGINS with the other events of time 0."""
        del send
        return hold(begins)

    def check_members(self, decision: d.Decision) -> None:
        """Do nothing: decisions have other formats."""

    def check_call(self, at: float, now: float) -> None:
        """Do nothing: late calls are made at once."""

    def event_members(self, list_name: str, place: int) -> dict[str, Any]:
        """Return the id of an external event."""
        return {"id": f"{list_name}!{place}"}


#: The rules by the version of Batsim.
RULES: Final[dict[int, Batsim4]] = {4: Batsim4(), 5: Batsim5()}


def check_execution(decision: d.ExecuteJob) -> None:
    """Raise Refusal if Batsim would abort on the members of a start."""
    others = [member for member in decision.extra if member not in ("job_id", "alloc")]
    given = [decision.mapping, decision.storage_mapping, decision.additional_io_job]
    if len(others) + sum(value is not None for value in given) > 1:
        raise Refusal(f"EXECUTE_JOB of {decision.job_id}: expected at most three members, found more")
    for option in _OPTIONS:
        if option in others:
            raise Refusal(f"EXECUTE_JOB of {decision.job_id}: {option} is null; expected an object, or no such member")
    if decision.mapping is not None and not decision.mapping:
        raise Refusal(f"EXECUTE_JOB of {decision.job_id}: the mapping is empty")
    storages = decision.storage_mapping
    if storages is not None and not (storages and all(type(host) is int for host in storages.values())):
        raise Refusal(
            f"EXECUTE_JOB of {decision.job_id}: expected a storage_mapping from names to host numbers, "
            f"found {dict(storages)!r:.60}"
        )


Order = Callable[[Any], None]
_NO_OPTIONS = (None, None, None)


def _no_effect(_decision: d.Decision) -> None:
    """Do nothing at the time of a decision that was carried out, or only checked, in `prepare`."""


class DecisionEffects:
    """Executes the decisions of one simulation."""

    def __init__(self, world: World, kernel: Execution) -> None:
        self._world = world
        self._kernel = kernel
        self._rules = RULES[world.options.batsim]
        #: What prepares a decision, if anything does, and what has its effect.
        self._steps: dict[type[d.Decision], tuple[Order | None, Order]] = {
            cls: (getattr(self, f"prepare_{name}", None), getattr(self, f"effect_{name}", _no_effect))
            for cls, name in ((cls, d.method_name(cls)) for cls in d.DECISIONS if cls.v4_type)
        }

    def prepare(self, decision: d.Decision) -> Order:
        """Apply the immediate part of a decision, and return the function to call at the decision's time."""
        kind = type(decision)
        if kind not in self._steps:
            name = getattr(decision, "type", kind.__name__)
            raise Refusal(f"unknown decision {name!r}")
        if decision.extra:
            self._rules.check_members(decision)
        at_once, order = self._steps[kind]
        if at_once is not None:
            at_once(decision)
        return order

    def _job(self, job_id: str, what: str) -> SimJob:
        job = self._world.find(job_id)
        if job is not None:
            return job
        why = "it has ended and was removed" if self._world.has_seen(job_id) else "it does not exist"
        raise Refusal(f"cannot {what} job {job_id!r}: {why}")

    # --- jobs ---

    def prepare_execute_job(self, decision: d.ExecuteJob) -> None:
        """Check a start before its time: the job exists and has processors."""
        job = self._job(decision.job_id, "execute")
        options = decision.mapping, decision.storage_mapping, decision.additional_io_job
        if decision.extra or options != _NO_OPTIONS:
            check_execution(decision)
            if decision.storage_mapping is not None:
                job.io = j.JobIO(decision.storage_mapping)
            if decision.additional_io_job is not None:
                job.io = self._io_job(job, decision.additional_io_job)
        if not decision.procs:
            raise Refusal(f"cannot execute job {decision.job_id}: no processors are allocated")

    def _io_job(self, job: SimJob, given: Mapping[str, Any]) -> j.JobIO:
        """Return the hosts and the profile of an additional I/O job. Its profile may be new."""
        name, alloc = given.get("profile_name"), given.get("alloc")
        if type(name) is not str or type(alloc) is not str:
            raise Refusal(f"job {job.id}: additional_io_job: expected the texts profile_name and alloc")
        table = self._world.works[job.workload]
        if "profile" in given:
            if table.knows(name):
                raise Refusal(f"job {job.id}: additional_io_job: a profile {name!r} exists or existed")
            work = self._new_profile(table, name, given["profile"], f"additional_io_job of {job.id}")
        else:
            found = table.get(name)
            if found is None:
                raise Refusal(f"job {job.id}: additional_io_job: profile {name!r} does not exist")
            work = found
        try:
            hosts = IntervalSet.parse(alloc)
        except ValueError:
            raise Refusal(f"job {job.id}: additional_io_job: expected hosts such as 0-3, found {alloc!r:.60}") from None
        n_hosts = len(self._world.scenario.platform.hosts)
        if not hosts or hosts.highest >= n_hosts:
            raise Refusal(f"job {job.id}: additional_io_job: expected some of {n_hosts} hosts, found {alloc!r:.60}")
        _check_io(job, job.work, work, len(hosts))
        if why := self._kernel.why_varying_refused(work):
            raise NotSimulatedError(f"job {job.id}: additional_io_job is not simulated {why}")
        return j.JobIO({}, hosts, work)

    def _new_profile(self, table: WorkTable, name: str, described: Any, where: str) -> Work:
        """Add a profile that the scheduler describes."""
        try:
            check_profiles({name: described}, where)
            if described["type"] in {PFS, STAGING} and (fault := storage_fault(described)):
                raise InputError(f"{where}: profile {name}: {fault}")
        except InputError as error:
            raise Refusal(str(error)) from None
        return table.add(name, dict(described))

    def effect_execute_job(self, decision: d.ExecuteJob) -> None:
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
            raise Refusal(
                f"job {job.id} cannot run on {procs}: it has flops to compute, and {procs.highest} is a storage host"
            )
        power = self._kernel.meters
        if power is not None:
            for host in procs:
                if not power.is_computation(host, power.pstate(host)):
                    raise Refusal(f"job {job.id} cannot run on {procs}: machine {host} is not in a computation pstate")
        job.mapping = _mapping(decision.mapping, len(procs), job.id)
        n = len(job.mapping) or len(procs)
        if n != job.res and not job.work.is_any_size:
            raise Refusal(f"job {job.id} requests {job.res} processors; {n} are allocated ({procs})")
        job.state = j.RUNNING
        job.alloc = procs
        world.n_running += 1
        job.process = self._kernel.run(job)
        world.loop.spawn(job.process)

    def effect_reject_job(self, decision: d.RejectJob) -> None:
        """Reject a job."""
        job = self._job(decision.job_id, "reject")
        if job.state != j.SUBMITTED:
            raise Refusal(f"cannot reject job {job.id}: its state is {job.state}, not SUBMITTED")
        job.state = e.REJECTED
        self._world.record_finished(job)

    def prepare_kill_job(self, decision: d.KillJob) -> None:
        """Check that a kill has a job."""
        if not decision.job_ids:
            raise Refusal("KILL_JOB has no jobs")

    def effect_kill_job(self, decision: d.KillJob) -> None:
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
            self._world.loop.spawn(self._kernel.kill(jobs))

    def effect_set_job_metadata(self, decision: d.SetJobMetadata) -> None:
        """Set a job's metadata."""
        if '"' in decision.metadata:
            raise Refusal(f"the metadata of job {decision.job_id} contains double quotes, which Batsim rejects")
        self._job(decision.job_id, "set the metadata of").metadata = decision.metadata

    def effect_change_job_state(self, decision: d.ChangeJobState) -> None:
        """Change a submitted job to RUNNING. Batsim 4 aborts on any other change."""
        job = self._job(decision.job_id, "change the state of")
        world = self._world
        if job.state == j.SUBMITTED and decision.job_state == j.RUNNING:
            job.started_at = world.now
            world.n_running += 1
            job.state = j.RUNNING
            return
        raise Refusal(f"cannot change the state of job {job.id} from {job.state} to {decision.job_state}")

    def effect_to_job_msg(self, decision: d.ToJobMsg) -> None:
        """Send a message to a job."""
        job = self._job(decision.job_id, "send a message to")
        if not isinstance(decision.msg, str):
            raise Refusal(f"the message to job {job.id} is not a text")
        if job.inbox is None:
            job.inbox = deque()
        job.inbox.append(decision.msg)

    # --- time ---

    def effect_call_me_later(self, decision: d.CallMeLater) -> None:
        """Call the scheduler later."""
        world = self._world
        self._rules.check_call(decision.at, world.now)
        world.n_calls += 1
        world.loop.spawn(self._kernel.call(float(decision.at)))

    # --- registration ---

    def _check_registration(self) -> None:
        if not self._world.options.dynamic_jobs:
            raise Refusal(f"cannot register jobs or profiles: {setting('dynamic_jobs')} is off")
        if self._world.registration_finished:
            raise Refusal("cannot register jobs or profiles after registration_finished")

    def prepare_register_profile(self, decision: d.RegisterProfile) -> None:
        """Register a profile."""
        self._check_registration()
        table = self._world.works.setdefault(decision.workload_name, WorkTable())
        name = decision.profile_name
        if table.knows(name):
            raise Refusal(
                f"cannot register profile {name}: workload {decision.workload_name} has or had one of this name"
            )
        if decision.profile.get("type") in ("composed", "smpi", "usage_trace"):  # may be unhashable
            raise Refusal(f"profile {name}: Batsim 4 cannot run a registered {decision.profile['type']} profile")
        where = f"REGISTER_PROFILE into {decision.workload_name}"
        work = self._new_profile(table, name, copy.deepcopy(dict(decision.profile)), where)
        refusal = self._kernel.why_refused(work)
        if refusal is not None:
            raise NotSimulatedError(f"registered {refusal}; run it with Batsim")

    def prepare_register_job(self, decision: d.RegisterJob) -> None:
        """Register a job."""
        self._check_registration()
        world = self._world
        workload, mark, name = decision.job_id.partition("!")
        table = world.works.get(workload)
        if not mark or not name or table is None:
            raise Refusal(f"cannot register job {decision.job_id!r}: workload {workload!r} does not exist")
        if world.has_seen(decision.job_id):
            raise Refusal(f"cannot register job {decision.job_id}: a job with this id exists or existed")
        fields = copy.deepcopy(dict(decision.job))
        profile = fields.get("profile")
        if isinstance(profile, str) and table.knows(profile) and table.get(profile) is None:
            raise Refusal(
                f"cannot register job {decision.job_id}: its profile {profile!r} was removed when a job with it ended"
            )
        try:
            work = table.get(profile) if isinstance(profile, str) else None
            check_job(fields, 0, {} if work is None else {work.name: work.described}, "REGISTER_JOB")
            if name_in(workload, fields["id"]) != name:
                raise InputError(f"cannot register job {decision.job_id}: its field id is {fields['id']!r}")
            job = world.make_job(workload, fields)
        except InputError as error:
            raise Refusal(str(error)) from None
        job.state = j.SUBMITTED

    def effect_register_job(self, decision: d.RegisterJob) -> None:
        """Count a registered job, and acknowledge it."""
        world = self._world
        world.n_submitted += 1
        world.held_back.discard(decision.job_id)
        if world.options.acknowledge_dynamic_jobs:
            world.add_submitted(world.jobs[decision.job_id])

    def effect_notify(self, decision: d.Notify) -> None:
        """Open or finish registration."""
        if decision.kind not in {d.REGISTRATION_FINISHED, d.CONTINUE_REGISTRATION}:
            raise Refusal(f"unknown notification {decision.kind!r}")
        self._world.registration_finished = decision.kind == d.REGISTRATION_FINISHED

    # --- queries and energy ---

    def prepare_answer(self, decision: d.Answer) -> None:
        """Raise Refusal unless this is the only answer that Batsim accepts. Batsim ignores it."""
        given: Mapping[str, Any] | None = decision.estimate_waiting_time
        if decision.extra or given is None:
            raise Refusal("Batsim accepts only the answer estimate_waiting_time")
        is_number = type(given.get("estimated_waiting_time")) in (int, float)
        if type(given.get("job_id")) is not str or not is_number:
            raise Refusal(
                "answer estimate_waiting_time: expected a job_id (a text) and an estimated_waiting_time (a number), "
                f"found {dict(given)!r:.60}"
            )

    def _meters(self, what: str) -> Meters:
        if self._kernel.meters is None:
            raise Refusal(f"{what} needs energy (-E), which is off")
        return self._kernel.meters

    def effect_query(self, decision: d.Query) -> None:
        """Answer a query of the consumed energy."""
        if set(decision.requests) != {"consumed_energy"} or decision.requests["consumed_energy"] != {}:
            raise Refusal(f"expected the query {{'consumed_energy': {{}}}}, found {dict(decision.requests)}")
        world = self._world
        joules = self._meters("a query of the consumed energy").total_j()
        world.outbox.append(e.Answer(round(joules, 6), timestamp=world.stamp()))

    def effect_set_resource_state(self, decision: d.SetResourceState) -> None:
        """Switch processors to a pstate."""
        self._meters("a change of pstate")
        try:
            pstate = int(decision.state)
        except ValueError:
            raise Refusal(f"expected a pstate (a number as text), found {decision.state!r}") from None
        self._kernel.switch(decision.procs, pstate)


def _check_io(job: SimJob, work: Work, io: Work, n_hosts: int) -> None:
    """Raise Refusal unless an I/O profile can be merged with the profile of a job, part by part."""
    if COMPOSED in {io.kind, work.kind}:
        if io.kind != work.kind or len(io.parts) != len(work.parts):
            raise Refusal(
                f"job {job.id}: additional_io_job: expected a composed profile with as many parts as that of the job, "
                "or none of both composed"
            )
        for part, io_part in zip(work.parts, io.parts, strict=True):
            _check_io(job, part, io_part, n_hosts)
    elif work.is_parallel and (work.uses_storage or io.uses_storage or not io.is_parallel):
        raise Refusal(f"job {job.id}: additional_io_job: Batsim cannot merge {io.kind} with {work.kind}")
    elif not io.sizes <= {n_hosts}:
        raise Refusal(f"job {job.id}: additional_io_job: profile {io.name} is not defined for {n_hosts} hosts")


def _mapping(given: Mapping[str, Any] | None, n_procs: int, job_id: str) -> tuple[int, ...]:
    """Return the index in the allocation of each executor, from a mapping in a decision."""
    if given is None:
        return ()
    try:
        places = {int(executor): int(place) for executor, place in given.items()}
    except (TypeError, ValueError):
        raise Refusal(f"job {job_id}: the mapping has a value that is not an integer") from None
    if set(places) != set(range(len(places))) or not all(0 <= place < n_procs for place in places.values()):
        raise Refusal(f"job {job_id}: expected a mapping of executors 0, 1, … to one of {n_procs} processors each")
    return tuple(places[executor] for executor in range(len(places)))
