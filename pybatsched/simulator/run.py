"""Complete runs of a scenario: with a policy in this process, or with a scheduler at an endpoint."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pybatsched.core import events as e
from pybatsched.core.actions import TOO_LARGE
from pybatsched.core.engine import Engine, Reply
from pybatsched.core.events import NOTHING
from pybatsched.core.instants import on_tick
from pybatsched.core.node_requests import REQUEST_FIELDS
from pybatsched.core.policy import BatsimFeature
from pybatsched.errors import InputError, PeerLostError, PolicyError, RemoteProtocolError, setting
from pybatsched.metrics import DEFAULT_TAU_S, Tally
from pybatsched.metrics.summary import Result, Stuck, from_engine
from pybatsched.metrics.truncated import UnfinishedJob
from pybatsched.metrics.workload_fields import evaluated_ids
from pybatsched.policies.registry import PolicyPlan
from pybatsched.protocol import Message
from pybatsched.session.diagnosis import why_waiting_text
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.simulator.jobs import RUNNING
from pybatsched.simulator.kernels import has_network
from pybatsched.simulator.observers import Counting, Observer
from pybatsched.simulator.options import EXACT, SIMGRID, Scenario, SimulationOptions
from pybatsched.simulator.simulation import Scheduler, SimulatedRun
from pybatsched.workload.resample.feedback import check_no_feedback

if TYPE_CHECKING:
    from pybatsched.live.keys import ClientKeys
    from pybatsched.session.journal import JournalWriter
    from pybatsched.simulator.external import OnMessage
    from pybatsched.simulator.jobs import SimJob

_OPTION_OF: Final[dict[BatsimFeature, str]] = {
    BatsimFeature.DYNAMIC_JOBS: "dynamic_jobs",
    BatsimFeature.ACKNOWLEDGED_JOBS: "acknowledge_dynamic_jobs",
    BatsimFeature.PROFILE_REUSE: "profile_reuse",
    BatsimFeature.FORWARDED_PROFILES: "forward_profiles",
    BatsimFeature.UNKNOWN_EVENTS: "forward_unknown_events",
}


#: The garbage collector starts after this many new objects in a run; Python's default is 700.
_N_OBJECTS: Final = 50_000


def with_needs(options: SimulationOptions, plan: PolicyPlan) -> SimulationOptions:
    """Turn on the Batsim features that a policy needs, and SimGrid's clock if it moves data. Raises InputError."""
    begins = options.begins()
    needed: dict[str, Any] = {_OPTION_OF[need]: True for need in plan.needs(begins)}
    if option := plan.communicates_by(begins):
        if options.clock == EXACT:
            raise InputError(
                f"policy {plan.source.name}: option {option} needs the network; expected "
                f"{setting('clock', 'simgrid')}, found exact"
            )
        needed["clock"] = SIMGRID
    return replace(options, **needed)


def with_failure_rule(plan: PolicyPlan, options: SimulationOptions, failures: FailureModel) -> PolicyPlan:
    """Return the plan for a run with random failures: they requeue jobs, unless the options say otherwise."""
    begins = options.begins()
    plan = plan.with_default("on_failure", "requeue_first", begins)
    repair_s = failures.fixed_repair_s
    return plan if repair_s is None else plan.with_default("expected_repair_s", repair_s, begins)


def run_policy(
    scenario: Scenario,
    plan: PolicyPlan,
    observers: Sequence[Observer] = (),
    *,
    tally: Tally | None = None,
    journal: JournalWriter | None = None,
    watch: Callable[[Message[e.Event], Reply], None] | None = None,
) -> Result:
    """Run a policy in this process. Messages are encoded only for a journal or a `watch` function.

    The jobs are counted in `tally`, by default a new one (`tally_of`).
    """
    tally = tally or tally_of(scenario)
    feedback_jobs = scenario.feedback_jobs()
    if journal is None and watch is None:
        engine = Engine(plan.make, plan.source.name, feedback_jobs=feedback_jobs)
        return _run(scenario, engine.step, observers, tally, engine)
    from pybatsched.protocol import v4  # noqa: PLC0415  without messages no codec is needed
    from pybatsched.session.session import Session  # noqa: PLC0415

    session = Session(plan, journal=journal, watch=watch, feedback_jobs=feedback_jobs)

    def through_messages(now: float, events: Sequence[e.Event]) -> Reply:
        session.handle(v4.encode_events(Message(now, tuple(events))))
        return session.reply

    with session.closing_journal():
        return _run(scenario, through_messages, observers, tally, session.engine)


def run_external(
    scenario: Scenario,
    endpoint: str,
    observers: Sequence[Observer] = (),
    *,
    tally: Tally | None = None,
    timeout_s: float = 0.0,
    send_end: bool = False,
    on_message: OnMessage | None = None,
    before_last: Callable[[], None] | None = None,
    batsim: int = 4,
    keys: ClientKeys | None = None,
) -> Result:
    """Run a scheduler that waits at an endpoint, as Batsim would. After a deadlock it gets no message, as in Batsim.

    With `send_end` it then gets SIMULATION_ENDS, so that it can stop. It always gets SIMULATION_ENDS if the simulator
    stops a run that Batsim would continue. `on_message`, `before_last` and `keys` are those of `ExternalScheduler`.
    With `batsim` 5 the run starts with the handshake of Batsim 5 and uses its protocol.
    """
    check_no_feedback(scenario.workloads)
    tally = tally or tally_of(scenario)
    from pybatsched.simulator import batsim5_handshake  # noqa: PLC0415  only for external schedulers
    from pybatsched.simulator.external import ExternalScheduler  # noqa: PLC0415  it imports ZeroMQ

    with ExternalScheduler(endpoint, timeout_s, on_message, before_last, keys) as scheduler:
        answer: Scheduler = scheduler
        is_greeted = batsim == 5
        if is_greeted:
            options = batsim5_handshake.with_requested_features(
                scenario.options, scheduler.greet(scenario.options.sched_config)
            )
            scenario = replace(scenario, options=options)
            answer = batsim5_handshake.with_batsim5_fields(scheduler, scenario, endpoint)
        result = _run(scenario, answer, observers, tally, None, n_before=int(is_greeted))
        if (send_end or result.stopped) and not result.finished:
            with suppress(PeerLostError, RemoteProtocolError):  # the scheduler may have stopped already
                scheduler.send_end(result.ended_at)
    return result


def tally_of(scenario: Scenario, tau_s: float = DEFAULT_TAU_S) -> Tally:
    """Return what counts the jobs of a run that are evaluated."""
    return Tally(tau_s, evaluated_ids(scenario.workloads))


def _run(
    scenario: Scenario,
    scheduler: Scheduler,
    observers: Sequence[Observer],
    tally: Tally,
    engine: Engine | None,
    *,
    n_before: int = 0,
) -> Result:
    """Simulate and return the result. Errors in a reply have its message number; `n_before` messages came earlier."""
    simulation = SimulatedRun(scenario, scheduler, [Counting(tally), *observers])
    try:
        with _fewer_collections():
            simulation.run()
    except RemoteProtocolError as error:
        if engine is not None:
            raise refused_by_batsim(error, engine) from error
        if error.message_number is None:
            error.message_number = n_before + simulation.n_messages
        raise
    return result_of(simulation, engine, tally)


@contextmanager
def _fewer_collections() -> Iterator[None]:
    """Search for cyclic garbage rarely: only policies may make any."""
    before = gc.get_threshold()
    if before[0]:  # else it is disabled
        gc.set_threshold(max(before[0], _N_OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def refused_by_batsim(error: RemoteProtocolError, engine: Engine) -> PolicyError:
    """Return the error to raise if the simulator rejects a decision that the rules of the engine allow."""
    return PolicyError(error.text, policy=engine.policy_name, rule="what Batsim refuses")


def result_of(simulation: SimulatedRun, engine: Engine | None, tally: Tally) -> Result:
    """Return the result of a simulation that is over, with the rest of its jobs. Call it once for `tally`."""
    scenario = simulation.world.scenario
    stuck = () if simulation.finished else tuple(_stuck(simulation, engine))
    if simulation.is_cut:
        tally.truncate(
            scenario.ends_at, (UnfinishedJob(one.n_procs, one.submitted_at, one.started_at) for one in stuck)
        )
    return Result(
        finished=simulation.finished,
        ended_at=on_tick(simulation.ended_at),
        n_messages=simulation.n_messages,
        figures=tally.figures(scenario.platform.n_procs, (one.job_id for one in stuck)),
        stuck=stuck,
        remarks=(*(() if engine is None else engine.remarks), *_failure_remarks(simulation)),
        energy=simulation.energy,
        stopped=_stopped(simulation),
        cut_at=scenario.ends_at if simulation.is_cut else None,
        n_to_come=simulation.n_to_come if simulation.is_cut else 0,
        clock=SIMGRID if has_network(scenario.options, scenario.platform, varies=simulation.world.varies) else "",
        n_too_large=0 if engine is None else engine.rejections.get(TOO_LARGE, (0, ""))[0],
        **({} if engine is None else from_engine(engine)),
    )


def _failure_remarks(simulation: SimulatedRun) -> tuple[str, ...]:
    if simulation.failures_ended_at is None:
        return ()
    during = f"during {simulation.MAX_FAILURES_AT_REST:,} failures and repairs"
    after = f"no machine failed after {simulation.failures_ended_at:g}: before that no job had ended {during}"
    return (f"{after}; use checkpoints, or a longer MTBF",)


def _stopped(simulation: SimulatedRun) -> str:
    """Return why the simulator stopped a run that would have continued; empty if it did not."""
    if simulation.is_cut:
        return f"the simulation was stopped at {simulation.world.stamp():g}"
    if simulation.called_since is None:
        return ""
    return (
        "all jobs were done, but the scheduler kept requesting calls: "
        f"{simulation.MAX_CALLS_AT_REST:,} times in a row since {simulation.called_since:g}, without another event"
    )


def _stuck(simulation: SimulatedRun, engine: Engine | None) -> list[Stuck]:
    n_procs = simulation.world.scenario.platform.n_procs
    n_away = 0 if simulation.world.hosts is None else simulation.world.hosts.n_away(n_procs)
    found = []
    for job in simulation.unfinished:
        if job.state == RUNNING and simulation.is_cut:
            why = f"it has been running since {job.started_at:g}"
        elif job.state == RUNNING:
            why = "it is running, and no event will end it"
        elif job.res > n_procs:
            why = f"it requests {job.res} processors; the platform has {n_procs}"
        elif job.res > n_procs - n_away:
            why = f"it requests {job.res} processors; {n_away} of {n_procs} are unavailable or asleep"
        else:
            why = f"the scheduler has not started it: {_why_waiting(engine, job.id, simulation)}"
        if job.state != RUNNING:
            found.append(Stuck(job.id, job.res, job.subtime, why))
            continue
        started_at, on_nodes = on_tick(job.started_at), _on_nodes(engine, job)
        found.append(Stuck(job.id, len(job.alloc), job.subtime, why, started_at, *on_nodes))
    return found


def _on_nodes(engine: Engine | None, job: SimJob) -> tuple[str, Mapping[str, Any]]:
    """Return the processors of a running job, and its fields that figures of nodes need, if nodes are counted."""
    if engine is None or not engine.began or engine.cluster.nodes is None:
        return "", NOTHING
    known = engine.jobs.by_wire_id[job.id]
    names = (*REQUEST_FIELDS, "res", "partition")
    return str(job.alloc), {name: value for name, value in known.fields.items() if name in names}


def _why_waiting(engine: Engine | None, wire_id: str, simulation: SimulatedRun) -> str:
    """Return the policy's explanation of why a job waits."""
    if engine is None:
        nothing = "enough processors are available, no job is running and no call is pending"
        return "it may start it later" if simulation.is_cut else nothing
    job = engine.jobs.by_wire_id.get(wire_id)
    return "the policy does not know it" if job is None else why_waiting_text(engine, job, simulation.world.stamp())
