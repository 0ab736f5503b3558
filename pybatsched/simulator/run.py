"""Whole runs: a scenario with a policy of ours in process, or with any scheduler over the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine, Reply
from pybatsched.core.fields import JobFields
from pybatsched.core.instants import on_tick
from pybatsched.core.policy import BatsimFeature
from pybatsched.errors import PeerLostError, PolicyError, RemoteProtocolError
from pybatsched.live.keys import ClientKeys
from pybatsched.metrics import DEFAULT_TAU_S, Tally
from pybatsched.metrics.fields import evaluated_ids
from pybatsched.metrics.summary import Result, Stuck
from pybatsched.metrics.truncated import UnfinishedJob
from pybatsched.policies.registry import PolicyPlan, Reserving
from pybatsched.protocol import Message, v4
from pybatsched.session.diagnosis import word_of
from pybatsched.session.journal import JournalWriter
from pybatsched.session.session import Session
from pybatsched.simulator import batsim5
from pybatsched.simulator.external import ExternalScheduler, Hear
from pybatsched.simulator.jobs import RUNNING
from pybatsched.simulator.options import Options, Scenario
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.simulator.simulation import Scheduler, Simulation

_OPTION_OF: Final[dict[BatsimFeature, str]] = {
    BatsimFeature.DYNAMIC_JOBS: "dynamic_jobs",
    BatsimFeature.ACKNOWLEDGED_JOBS: "acknowledge_dynamic_jobs",
    BatsimFeature.PROFILE_REUSE: "profile_reuse",
    BatsimFeature.FORWARDED_PROFILES: "forward_profiles",
    BatsimFeature.UNKNOWN_EVENTS: "forward_unknown_events",
}


#: Hears of each message: (clock, jobs over so far).
Progress = Callable[[float, int], None]


def with_needs(options: Options, plan: PolicyPlan) -> Options:
    """Turn on what a policy needs from Batsim."""
    needed: dict[str, Any] = {_OPTION_OF[need]: True for need in plan.source.cls.needs}
    return replace(options, **needed)


def options_of(plan: PolicyPlan, options: Options) -> Mapping[str, Any]:
    """Give the options a policy will have, with what Batsim's ``--sched-cfg`` says. Raises what is wrong with them."""
    begins = e.SimulationBegins(config=options.told(), timestamp=0.0)
    return plan.options_for(begins).model_dump(mode="json")


def field_models(plan: PolicyPlan, options: Options) -> dict[str, type[JobFields]]:
    """Give what a policy, and those that its options name, will read of jobs, with what ``--sched-cfg`` says."""
    return plan.field_models(e.SimulationBegins(config=options.told(), timestamp=0.0))


def reserving(plan: PolicyPlan, options: Options) -> Reserving | None:
    """Name the policy that will reject jobs without walltime and estimate, with what ``--sched-cfg`` says."""
    return plan.reserving(e.SimulationBegins(config=options.told(), timestamp=0.0))


def run_policy(
    scenario: Scenario,
    plan: PolicyPlan,
    outputs: Outputs,
    *,
    journal: JournalWriter | None = None,
    watch: Callable[[Message[e.Event], Reply], None] | None = None,
    progress: Progress | None = None,
    checked: bool = False,
    tau_s: float = DEFAULT_TAU_S,
) -> Result:
    """Run a policy of ours in this process. Without a journal and a watcher no message is ever written as bytes."""
    outputs.tally = Tally(tau_s, evaluated_ids(scenario.workloads))
    if journal is None and watch is None:
        engine = Engine(plan.make, plan.source.name, checked=checked)
        return _run(scenario, engine.step, outputs, progress, engine)
    session = Session(plan, journal=journal, watch=watch, checked=checked)

    def through_bytes(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        reply = v4.decode_decisions(session.handle(v4.encode_events(Message(now, tuple(events)))))
        return reply.now, reply.items

    with session.to_its_end():
        return _run(scenario, through_bytes, outputs, progress, session.engine)


def run_external(
    scenario: Scenario,
    endpoint: str,
    outputs: Outputs,
    *,
    timeout_s: float = 0.0,
    farewell: bool = False,
    progress: Progress | None = None,
    tau_s: float = DEFAULT_TAU_S,
    hear: Hear | None = None,
    before_last: Callable[[], None] | None = None,
    batsim: int = 4,
    keys: ClientKeys | None = None,
) -> Result:
    """Run a scheduler that waits at an endpoint, as Batsim would. After a deadlock it is left alone, as Batsim does.

    With `farewell` it is told SIMULATION_ENDS then, so that it does not wait for ever; so it is in any case when we end
    a run that Batsim would go on with. `hear`, `before_last` and `keys` are as in `ExternalScheduler`. With `batsim` 5
    it is asked first what it wants of the simulation, and all is said in Batsim 5's language.
    """
    outputs.tally = Tally(tau_s, evaluated_ids(scenario.workloads))
    with ExternalScheduler(endpoint, timeout_s, hear, before_last, keys) as scheduler:
        answer: Scheduler = scheduler
        is_greeted = batsim == 5
        if is_greeted:
            options = batsim5.as_asked(scenario.options, scheduler.greet(scenario.options.sched_config))
            scenario = replace(scenario, options=options)
            answer = batsim5.telling_more(scheduler, scenario, endpoint)
        result = _run(scenario, answer, outputs, progress, None, n_before=int(is_greeted))
        if (farewell or result.stopped) and not result.finished:
            with suppress(PeerLostError, RemoteProtocolError):  # it was only a courtesy
                scheduler.farewell(result.ended_at)
    return result


def _run(
    scenario: Scenario,
    scheduler: Scheduler,
    outputs: Outputs,
    progress: Progress | None,
    engine: Engine | None,
    *,
    n_before: int = 0,
) -> Result:
    """Simulate. What is wrong with a reply is told by the number of its message, and `n_before` came before all."""
    simulation = Simulation(scenario, scheduler, outputs)
    if progress is not None:
        simulation.watch_exchanges(progress)
    try:
        simulation.run()
    except RemoteProtocolError as error:
        if engine is not None:  # then the peer is a policy of ours, and its referee could not know better
            raise PolicyError(error.text, policy=engine.policy_name, rule="what Batsim refuses") from error
        if error.message_number is None:
            error.message_number = n_before + simulation.n_messages
        raise
    stuck = () if simulation.finished else tuple(_stuck(simulation, engine))
    if simulation.is_cut:
        outputs.tally.truncate(
            scenario.ends_at, (UnfinishedJob(one.n_procs, one.submitted_at, one.started_at) for one in stuck)
        )
    rejections = () if engine is None else tuple((n, d.reason_text(why)) for n, why in engine.rejections.values())
    return Result(
        finished=simulation.finished,
        ended_at=on_tick(simulation.ended_at),
        n_messages=simulation.n_messages,
        figures=outputs.tally.figures(scenario.platform.n_procs),
        stuck=stuck,
        rejections=rejections,
        remarks=() if engine is None else engine.remarks,
        broken_promises=() if engine is None else engine.broken_promises,
        policy_figures={} if engine is None else engine.figures,
        energy=simulation.energy,
        stopped=_stopped(simulation),
        cut_at=scenario.ends_at if simulation.is_cut else None,
        n_to_come=simulation.n_to_come if simulation.is_cut else 0,
    )


def _stopped(simulation: Simulation) -> str:
    """Say why a simulation was ended that would have gone on; nothing of another."""
    if simulation.is_cut:
        return f"simulated time ended at {simulation.world.stamp():g}"
    if simulation.called_since is None:
        return ""
    return (
        "all jobs are over and none is to come, but the scheduler asks to be called for ever: "
        f"{simulation.MAX_CALLS_AT_REST:,} times in a row since {simulation.called_since:g}, and nothing else happened"
    )


def _stuck(simulation: Simulation, engine: Engine | None) -> list[Stuck]:
    n_procs = simulation.world.scenario.platform.n_procs
    n_away = 0 if simulation.world.hosts is None else simulation.world.hosts.n_away(n_procs)
    found = []
    for job in simulation.unfinished:
        if job.state == RUNNING and simulation.is_cut:
            why = f"it runs since {job.started_at:g}"
        elif job.state == RUNNING:
            why = "it runs, and nothing will ever end it"
        elif job.res > n_procs:
            why = f"it asks for {job.res} processors; the platform has {n_procs}"
        elif job.res > n_procs - n_away:
            why = f"it asks for {job.res} processors; {n_away} of {n_procs} are unavailable or asleep for good"
        else:
            why = f"the scheduler has not started it: {_word_of(engine, job.id, simulation)}"
        runs = job.state == RUNNING
        n, started_at = (len(job.alloc), on_tick(job.started_at)) if runs else (job.res, None)
        found.append(Stuck(job.id, n, job.subtime, why, started_at))
    return found


def _word_of(engine: Engine | None, wire_id: str, simulation: Simulation) -> str:
    """Ask the policy why a job waits."""
    if engine is None:
        nothing = "all its processors may be had, nothing runs and no call is pending"
        return "it may still do so" if simulation.is_cut else nothing
    job = engine.jobs.by_wire_id.get(wire_id)
    return "the policy does not know it" if job is None else word_of(engine, job, simulation.world.stamp())
