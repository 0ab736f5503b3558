"""Run a scene: by the engine alone, through a session over bytes, or over a socket."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from support.patience import PATIENCE_S

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine
from pybatsched.errors import PeerLostError, PybatschedError, RemoteProtocolError
from pybatsched.live.server import ServerOptions, serve
from pybatsched.policies.registry import PolicyPlan
from pybatsched.protocol import Codec, Message, v4, v5
from pybatsched.protocol.v5_handshake import features_for, read_hello, write_greeting
from pybatsched.session.journal import JournalWriter
from pybatsched.session.session import Session
from pybatsched.simulator import batsim5_handshake
from pybatsched.simulator.execution import Answer
from pybatsched.simulator.external import ExternalScheduler
from pybatsched.simulator.jobs import NOT_SUBMITTED, RUNNING, SUBMITTED, SimJob
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.simulation import Scheduler, SimulatedRun
from reliability.soak.other_programs import Ledger, Others
from reliability.soak.scenes import Scene

#: Looks at a session's engine after a message has been answered.
Look = Callable[[Engine, float], None]


class Fate(NamedTuple):
    """What became of a job towards Batsim. `state` is empty if it is not over, `start` and `end` -1 if it never ran.

    `by_others` is whether another program than the scheduler has killed it.
    """

    state: str
    start: float
    end: float
    procs: str
    note: str
    by_others: bool = False


@dataclass(slots=True)
class Played:
    """A finished run of a scene: its jobs by Batsim's ids, whether it finished, and its counts."""

    fates: dict[str, Fate]
    finished: bool
    ledger: Ledger
    engine: Engine | None
    error: str = ""


class _Rows(Observer):
    """Keeps the finished jobs."""

    def __init__(self) -> None:
        self.over: list[SimJob] = []

    def finished(self, job: SimJob, outcome: object) -> None:
        self.over.append(job)


def _play(scene: Scene, scenario: Scenario, scheduler: Scheduler) -> Played:
    ledger = Ledger(scene.n_procs)
    acknowledged = scenario.options.acknowledge_dynamic_jobs
    rows, played = _Rows(), Played({}, finished=False, ledger=ledger, engine=None)
    simulation = SimulatedRun(scenario, Others(scene, scheduler, ledger, acknowledged=acknowledged), [rows])
    try:
        simulation.run()
    except TimeoutError:
        raise
    except Exception as error:  # noqa: BLE001  all that may happen is what a run is judged by
        played.error = f"{type(error).__name__}: {error}"
    played.finished = simulation.finished
    for job in rows.over:
        if job.id in played.fates:
            ledger.problems.append(f"{job.id} is written down twice")
        played.fates[job.id] = _fate(job, ledger)
    for job in simulation.world.all_jobs():
        played.fates.setdefault(job.id, _fate(job, ledger))
    return played


def _fate(job: SimJob, ledger: Ledger) -> Fate:
    ran, is_over = job.started_at >= 0, job.state not in {NOT_SUBMITTED, SUBMITTED, RUNNING}
    start = round(job.started_at, 6) if ran else -1.0
    end = round(job.started_at + job.runtime_s, 6) if ran and is_over else -1.0
    state, note = job.state if is_over else "", ledger.notes.get(job.id, "")
    return Fate(state, start, end, str(job.alloc), note, job.id in ledger.killed_by_others)


def _greeted(scene: Scene, scenario: Scenario, plan: PolicyPlan) -> Scenario:
    """Return the inputs of a simulation in Batsim 5's place, in which the policy has what it asks for."""
    if scene.batsim == 4:
        return scenario
    return replace(
        scenario, options=batsim5_handshake.with_requested_features(scenario.options, features_for(plan.needs()))
    )


def embedded(scene: Scene, plan: PolicyPlan) -> Played:
    """Play a scene with the engine alone, whose own invariants are checked at each step."""
    engine = Engine(plan.make, plan.source.name, checked=True)
    scenario = _greeted(scene, scene.scenario(), plan)
    scheduler: Scheduler = engine.step
    ours: v5.Codec | None = None
    if scene.batsim == 5:
        # Decisions that Batsim 5 lacks, such as calls between milliseconds, are not sent here either.
        ours = v5.Codec(features_for(plan.needs()))
        theirs = v5.Codec(features_for(plan.needs()))
        scheduler = batsim5_handshake.with_batsim5_fields(_in_words_of_5(engine, ours, theirs), scenario, "ENDPOINT")
    played = _play(scene, scenario, scheduler)
    played.engine = engine
    return played


def _in_words_of_5(engine: Engine, ours: v5.Codec, theirs: v5.Codec) -> Scheduler:
    def scheduler(now: float, events: Sequence[e.Event]) -> Answer:
        reply = engine.step(now, ours.order(tuple(events)))
        decisions = ours.prepare(reply.decisions)
        messages = iter(theirs.decode_decisions(ours.encode_decisions(Message(reply.now, decisions))).items)
        # Notes are kept, and all others go as they are on the wire.
        return reply.now, [one if type(one) is d.SetJobMetadata else next(messages) for one in decisions]

    return scheduler


def over_bytes(scene: Scene, plan: PolicyPlan, journal: Path, look: Look | None = None) -> Played:
    """Play a scene through a session and its codec, as over a socket, and record it."""
    session = Session(plan, journal=JournalWriter(journal), keeps_notes=True)
    handle = session.handle if look is None else _looked_at(session, look)
    codec: Codec = v4 if scene.batsim == 4 else v5.Codec(read_hello(handle(write_greeting(""))).features, "")
    scenario = _greeted(scene, scene.scenario(), plan)

    def scheduler(now: float, events: Sequence[e.Event]) -> Answer:
        reply = codec.decode_decisions(handle(codec.encode_events(Message(now, tuple(events)))))
        return reply.now, reply.items

    return _conversation(scene, scenario, scheduler, session)


def _looked_at(session: Session, look: Look) -> Callable[[bytes], bytes]:
    def handle(raw: bytes) -> bytes:
        reply = session.handle(raw)
        if session.engine.began and not session.engine.ended:
            look(session.engine, session.engine.now)
        return reply

    return handle


def _conversation(scene: Scene, scenario: Scenario, scheduler: Scheduler, session: Session) -> Played:
    if scene.batsim == 5:
        scheduler = batsim5_handshake.with_batsim5_fields(scheduler, scenario, "ENDPOINT")
    played = _play(scene, scenario, scheduler)
    session.close("ended" if session.finished else "stopped")
    played.engine = session.engine
    if scene.batsim == 5:  # it keeps no notes, and so the session does
        played.fates = {name: fate._replace(note=session.notes.get(name, "")) for name, fate in played.fates.items()}
    return played


def over_a_socket(scene: Scene, plan: PolicyPlan) -> Played:
    """Play a scene over a real socket, with the scheduler in a thread."""
    session = Session(plan, keeps_notes=True)
    options = ServerOptions("tcp://127.0.0.1:*", PATIENCE_S, PATIENCE_S)
    endpoints: queue.Queue[str] = queue.Queue()
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(serve, session, options, endpoints.put)
        serving.add_done_callback(lambda _: endpoints.put(""))  # so that nothing waits if it could not begin
        with ExternalScheduler(endpoints.get(timeout=PATIENCE_S), PATIENCE_S) as scheduler:
            if scene.batsim == 5:
                scheduler.greet("")
            played = _conversation(scene, _greeted(scene, scene.scenario(), plan), scheduler, session)
            if not played.finished:  # so that the server does not wait; it may have ended already
                with suppress(PeerLostError, RemoteProtocolError):
                    scheduler.send_end(session.engine.now)
        if isinstance(error := serving.exception(), PybatschedError):
            played.error = played.error or str(error)
        else:
            serving.result()
    return played


def jobs_of(played: Played) -> dict[str, Any]:
    """Return what two runs of a scene have to agree on."""
    message = () if played.engine is None else played.engine.broken_promises
    return {"error": played.error, "finished": played.finished, "what is told": message, **played.fates}
