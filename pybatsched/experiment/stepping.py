"""A simulation that runs step by step, for notebooks.

A step is one message of the simulator and its reply. Between two steps the state can be read, copied, or given to
another policy.

The processes of the simulator are generators, which Python cannot copy. A copy is therefore a new simulation that
repeats the run: the policy is created again and gets the same messages. This is exact for every deterministic policy,
whatever objects it holds. The replies are compared with the recorded ones, so a policy that decides at random without a
seed is found.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from msgspec.structs import replace as replace_fields

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.replacement import replace_policy
from pybatsched.errors import InputError, RemoteProtocolError
from pybatsched.experiment.arguments import public
from pybatsched.experiment.log import Log, as_log
from pybatsched.experiment.one_run import warn_all
from pybatsched.experiment.policies import PolicyLike, policy as choose
from pybatsched.experiment.simulating import INSTEAD, NOT_OF_SIMULATE
from pybatsched.metrics import DEFAULT_TAU_S, Outcome, Tally
from pybatsched.metrics.summary import Result, from_engine
from pybatsched.metrics.workload_fields import evaluated_ids
from pybatsched.policies.registry import PolicyPlan
from pybatsched.runs.build import build
from pybatsched.runs.execute import warnings_after
from pybatsched.runs.spec import MachineSpec, RunSpec, WorkloadSpec
from pybatsched.settings import taken, takes
from pybatsched.simulator import simulation
from pybatsched.simulator.execution import Answer
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.observers import Counting, Observer
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.run import refused_by_batsim, result_of, with_needs


@dataclass(frozen=True, slots=True)
class JobView:
    """An unfinished job at the moment at which it was read. Later steps do not change it."""

    #: The id of the user's job, such as ``w0!12``.
    id: str
    #: waiting, held (processors are kept for it), running, or killed (until the kill is answered).
    state: str
    #: The number of processors that it requests.
    n_procs: int
    #: When it was submitted.
    submitted_at: float
    #: When it started; None if it waits.
    started_at: float | None
    #: The processors that it holds; None if there are none.
    procs: IntervalSet | None
    #: The expected run time in seconds; None if it is unknown.
    estimate: float | None
    #: The limit of its run time in seconds; None if there is none.
    walltime: float | None
    #: Its fields in the workload.
    fields: Mapping[str, Any]


class _Reply(NamedTuple):
    """A recorded reply: when the scheduler is ready again, and its decisions."""

    now: float
    decisions: tuple[d.Decision, ...]

    def differs(self, other: _Reply) -> bool:
        """Return whether two replies differ in more than the reasons of their decisions."""
        return self != other and self._without_reasons() != other._without_reasons()

    def _without_reasons(self) -> tuple[float, list[d.Decision]]:
        return self.now, [replace_fields(decision, reason="") for decision in self.decisions]


class _Record(Counting):
    """Counts the finished jobs. `known` has those that the scheduler knows of.

    The simulator runs ahead to the next message, so it may know of more.
    """

    def __init__(self, tau_s: float, evaluated: AbstractSet[str] | None) -> None:
        super().__init__(Tally(tau_s, evaluated))
        self.known = Tally(tau_s, evaluated)
        self.outcomes: list[Outcome] = []  # those that are not in `known` yet

    def finished(self, job: SimJob, outcome: Outcome) -> None:
        """Count a finished job. O(1)."""
        super().finished(job, outcome)
        self.outcomes.append(outcome)

    def catch_up(self) -> None:
        """Add all finished jobs to `known`, when the scheduler gets a message."""
        for outcome in self.outcomes:
            self.known.add(outcome)
        self.outcomes.clear()


class _TakeOver(NamedTuple):
    """A policy that took over after so many messages."""

    n_messages: int
    plan: PolicyPlan


class _Live:
    """A simulator and an engine, connected.

    `request` is a message that the engine has not got yet. `reply` is the last reply of the engine. It is sent only
    when the next message is needed; until then a new policy can add decisions to it.
    """

    def __init__(
        self, scenario: Scenario, plan: PolicyPlan, tau_s: float, evaluated: AbstractSet[str] | None, *, checked: bool
    ) -> None:
        self.engine = Engine(plan.make, plan.source.name, feedback_jobs=scenario.feedback_jobs(), checked=checked)
        self.last_events: tuple[e.Event, ...] = ()
        self.reply: _Reply | None = None
        self._begins: e.SimulationBegins | None = None
        self._scenario = scenario
        self._tau_s = tau_s
        self._evaluated = evaluated
        self._connect()

    def _connect(self) -> None:
        """Create the simulator. It writes no files."""
        self.record = _Record(self._tau_s, self._evaluated)
        self.simulator = simulation.SimulatedRun(self._scenario, None, [self.record])
        self.request: simulation.Request | None = None
        self.is_over = False
        self._exchanges = self.simulator.exchanges()

    def fetch(self) -> simulation.Request | None:
        """Send the last reply, if it was not sent yet, and return the next message; None if there is none."""
        if self.request is None and not self.is_over:
            try:
                self.request = next(self._exchanges) if self.reply is None else self._exchanges.send(self.reply)
            except StopIteration:
                self.is_over = True
            except RemoteProtocolError as error:
                raise refused_by_batsim(error, self.engine) from error
        return self.request

    def handle(self) -> bool:
        """Pass the next message to the engine. Return False if there is none."""
        request = self.fetch()
        if request is None:
            return False
        self.record.catch_up()
        now, events = request
        if self._begins is None and isinstance(events[0], e.SimulationBegins):
            self._begins = events[0]
        self.last_events = tuple(events)
        self.reply = _Reply(*self.engine.step(now, events))
        self.request = None
        if self.engine.ended:
            self.fetch()
        return True

    def take_over(self, plan: PolicyPlan, replies: Sequence[_Reply]) -> None:
        """Replace the policy. Its decisions are added to the last reply, before it is sent.

        If it was sent already, a new simulator gets all replies but the last one.
        """
        assert self._begins is not None
        assert self.reply is not None
        now, decisions = replace_policy(self.engine, self._begins, plan.make, plan.source.name)
        if self.request is not None or self.is_over:
            self._connect()
            next(self._exchanges)
            for reply in replies[:-1]:
                self._exchanges.send(reply)
            self.record.catch_up()
        self.reply = _Reply(max(self.reply.now, now), self.reply.decisions + decisions)


class Simulation:
    """A simulation that is run step by step.

    >>> from pybatsched import Log
    >>> from pybatsched.workload.model import Workload
    >>> jobs = [{"id": i, "subtime": i, "res": 3, "walltime": 60, "profile": "p"} for i in range(2)]
    >>> log = Log(Workload(jobs, {"p": {"type": "delay", "delay": 10}}, n_procs=4), "two jobs")
    >>> sim = Simulation(log, "fcfs")
    >>> sim.run_until(lambda sim: sim.n_waiting == 1), sim.now, [job.id for job in sim.waiting], sim.free
    (True, 1.0, ['w0!1'], IntervalSet('3'))
    >>> sim.run()
    >>> sim.is_over, sim.result().figures.mean_wait_s
    (True, 4.5)

    The arguments are those of `simulate`, without journal and several runs. Features of Batsim that the policy
    needs are turned on; `features` turns on more, for policies that take over later (``{"dynamic_jobs"}``). All replies
    are kept in memory.

    An exception in a step, such as a mistake in the policy, leaves the simulation as it was before the step. The next
    call then repeats the run up to that step first.
    """

    _warns = False  # at the end of the run, as `simulate` does

    @public
    @takes(MachineSpec, RunSpec, WorkloadSpec, without=NOT_OF_SIMULATE, instead=INSTEAD)
    def __init__(
        self,
        log: Log | str | Path,
        policy: PolicyLike,
        *,
        seed: int | None = None,
        features: Collection[str] = (),
        **options: Any,
    ) -> None:
        settings = taken(Simulation.__init__, options)
        spec = RunSpec.of({**settings, "seed": seed}, choose(policy, **options))
        built = build(spec, [as_log(log).as_jobs()])
        warn_all(built.warnings)
        assert built.plan is not None
        self._seed, self._warns = seed, True
        known = {field.name for field in fields(SimulationOptions) if field.type in {bool, "bool"}}
        if wrong := sorted(set(features) - known):
            raise InputError(f"features: {', '.join(wrong)}: expected some of {', '.join(sorted(known))}")
        more: dict[str, Any] = dict.fromkeys(features, True)
        scenario = replace(built.scenario, options=replace(built.scenario.options, **more))
        self._begin(scenario, built.plan, (), spec.tau_s, checked=False)

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        plan: PolicyPlan,
        observers: Sequence[Observer] = (),
        *,
        tau_s: float = DEFAULT_TAU_S,
        checked: bool = False,
    ) -> Simulation:
        """Create a simulation from the inputs of the simulator.

        `observers` see the run as in `run_policy`, but not before it is over: then the recorded replies are
        simulated once more, without the policy. With `checked`, the invariants of the state are asserted
        after each step (tests).
        """
        made: Simulation = cls.__new__(cls)
        made._seed = None
        made._begin(scenario, plan, observers, tau_s, checked=checked)
        return made

    def _begin(
        self, scenario: Scenario, plan: PolicyPlan, observers: Sequence[Observer], tau_s: float, *, checked: bool
    ) -> None:
        self._given = scenario
        self._plan = plan
        self._observers = observers
        self._tau_s = tau_s
        self._checked = checked
        self._evaluated = evaluated_ids(scenario.workloads)
        self._replies: list[_Reply] = []
        self._take_overs: list[_TakeOver] = []
        self._result: Result | None = None
        self._scenario = replace(scenario, options=with_needs(scenario.options, plan))
        self._live_now: _Live | None = self._new_live()

    def step(self) -> bool:
        """Handle one message. Return False if the simulation is over and there was none."""
        with _interrupts_deferred():
            return self._step()

    @public
    def run(self, until: float | None = None) -> None:
        """Run to the end, or until the next message would be later than the simulated time `until`.

        An interrupt (Ctrl-C) stops the run between two messages. A second one stops it at once.
        """
        with _interrupts_deferred() as is_interrupted:
            while not is_interrupted():
                if until is not None:
                    request = self._fetch()
                    if request is not None and not request[0] <= until:
                        return
                if not self._step():
                    return

    @public
    def run_until(self, condition: Callable[[Simulation], object]) -> bool:
        """Run until a condition holds. Return True then, False if the simulation ended first.

        The condition is called with this simulation, now and after each step. An interrupt is handled as in `run`.
        """
        with _interrupts_deferred() as is_interrupted:
            while not condition(self):
                if is_interrupted() or not self._step():
                    return False
        return True

    def _step(self) -> bool:
        live = self._live()
        self._live_now = None  # an exception leaves it so: the state is then created again
        is_handled = live.handle()
        self._live_now = live
        if is_handled:
            assert live.reply is not None
            self._replies.append(live.reply)
        if live.is_over and self._result is None:
            self._finish(live)
        return is_handled

    def _fetch(self) -> simulation.Request | None:
        live = self._live()
        self._live_now = None
        request = live.fetch()
        self._live_now = live
        return request

    def _finish(self, live: _Live) -> None:
        """Compute the result, write the files, and warn about what a user should know of the result."""
        if self._observers:
            self._repeat_for(self._observers)
        self._result = result_of(live.simulator, live.engine, live.record.tally)
        if self._warns:
            warn_all([f"{live.engine.policy_name}: {text}" for text in warnings_after(self._result)])

    def _repeat_for(self, observers: Sequence[Observer]) -> None:
        """Simulate the recorded replies once more, with observers."""
        replies = iter(self._replies)

        def repeated(_now: float, _events: Sequence[e.Event]) -> Answer:
            return next(replies)

        simulation.SimulatedRun(self._scenario, repeated, observers).run()

    @property
    def now(self) -> float:
        """The simulated time of the last message; 0 before the first."""
        return self._live().engine.now

    @property
    def n_messages(self) -> int:
        """The number of messages so far."""
        return len(self._replies)

    @property
    def is_over(self) -> bool:
        """Whether the simulation is over: it finished, or no event is left although jobs wait."""
        return self._live().is_over

    @property
    def tables(self) -> dict[str, list[dict[str, str]]]:
        """The tables of the policy's state by name, such as sprio and sshare of policy slurm: a dictionary each row."""
        engine = self._live().engine
        found = engine.policy.tables(engine.now) if engine.began else {}
        return {name: [dict(zip(rows[0], row, strict=True)) for row in rows[1:]] for name, rows in found.items()}

    @property
    def waiting(self) -> list[JobView]:
        """The unfinished jobs that do not run, in order of submission. O(unfinished * log unfinished).

        Jobs with held processors, and jobs whose kill was not answered yet, are included. Jobs that may not start yet,
        because of a dependency for example, are not.
        """
        not_yet = self._live().engine.held_back
        jobs = (job for job in self._unfinished() if job.id not in not_yet)
        return [_view(job) for job in jobs if job.state is not JobState.RUNNING]

    @property
    def running(self) -> list[JobView]:
        """The running jobs, in order of submission. O(unfinished * log unfinished)."""
        return [_view(job) for job in self._unfinished() if job.state is JobState.RUNNING]

    @property
    def n_waiting(self) -> int:
        """The number of waiting jobs. O(1)."""
        engine = self._live().engine
        return len(engine.jobs.alive) - engine.jobs.n_running - len(engine.held_back)

    @property
    def n_running(self) -> int:
        """The number of running jobs. O(1)."""
        return self._live().engine.jobs.n_running

    @property
    def free(self) -> IntervalSet:
        """The free processors: without a running or held job, available and awake. O(partitions)."""
        engine = self._live().engine
        if not engine.began:
            return IntervalSet.span(0, self._scenario.platform.n_procs)
        found = EMPTY
        for partition in engine.cluster.partitions.values():
            found = found | partition.free
        return found

    @property
    def n_free(self) -> int:
        """The number of free processors."""
        return len(self.free)

    @property
    def last_events(self) -> tuple[e.Event, ...]:
        """The events of the last message; empty before the first."""
        return self._live().last_events

    @property
    def last_decisions(self) -> tuple[d.Decision, ...]:
        """The decisions of the last reply, as they are sent to the simulator; empty before the first."""
        return self._replies[-1].decisions if self._replies else ()

    def result(self) -> Result:
        """Return the result of the run. Before its end: the figures of the jobs that have ended so far."""
        if self._result is not None:
            return self._result
        live = self._live()
        engine = live.engine
        return Result(
            finished=False,
            ended_at=engine.now,
            n_messages=self.n_messages,
            figures=live.record.known.figures(self._scenario.platform.n_procs),
            stuck=(),
            remarks=engine.remarks,
            stopped=f"the simulation is not over; it is at {engine.now:g}",
            **from_engine(engine),
        )

    def __repr__(self) -> str:
        state = "over" if self.is_over else f"at {self.now:g}"
        counts = f"{self.n_waiting} waiting, {self.n_running} running, {self.n_free} processors free"
        return f"<Simulation of {self._live().engine.policy_name}, {state}: {counts}>"

    def _unfinished(self) -> list[Job]:
        return sorted(self._live().engine.jobs.alive.values(), key=lambda job: job.seq)

    def copy(self, observers: Sequence[Observer] = ()) -> Simulation:
        """Return an independent simulation in the same state. It has only the `observers` that are given here.

        The copy repeats the run so far: this takes as long as the run did. Raises InputError if the policy then decides
        something else, because it uses random numbers without a seed, for example.
        """
        made: Simulation = Simulation.of(self._given, self._plan, observers, tau_s=self._tau_s, checked=self._checked)
        made._seed = self._seed
        made._replies = list(self._replies)
        made._take_overs = list(self._take_overs)
        made._live_now = made._repeated()
        if made._live_now.is_over:
            made._finish(made._live_now)
        elif self.is_over:
            made._step()
        made._warns = self._warns
        return made

    @public
    def replace_policy(self, policy: PolicyLike | PolicyPlan, **options: Any) -> None:
        """Continue with another policy from here ("what if").

        Running jobs continue. Waiting jobs are in the queue of the new policy, in order of submission; held jobs and
        suspended jobs are among them. A job that continues after a kill keeps the work that is done. The new policy
        decides at once, at the time of the last message.

        A running job that does not fit into one partition of the new policy, or that the new policy cannot plan with
        (`Policy.take_over`), keeps its processors, and the new policy sees these as unavailable until it ends. The
        result contains the remarks and figures of the last policy only. O(unfinished jobs), and after `run(until=…)`
        also the time to simulate the run so far without its policy.

        Raises InputError, and changes nothing: while a kill is pending (call `step` first), if the simulation has
        finished, if the results were written, and if the new policy cannot begin here. A policy that needs a feature
        of Batsim can take over only if the feature is on: set it with `features`.
        """
        plan = policy if isinstance(policy, PolicyPlan) else choose(policy, **options).plan(self._seed)
        if not self._replies:
            self._plan = plan
            self._scenario = replace(self._given, options=with_needs(self._given.options, plan))
            self._live_now = self._new_live()
            return
        live = self._live()
        if live.engine.ended:
            raise InputError("the policy cannot be replaced: the simulation has finished; replace it earlier")
        if self._result is not None and self._observers:
            raise InputError(
                "the policy cannot be replaced: the results were written already; use a copy of the simulation"
            )
        self._check_features(plan)
        self._live_now = None
        live.take_over(plan, self._replies)
        assert live.reply is not None
        self._live_now = live
        self._replies[-1] = live.reply
        self._take_overs.append(_TakeOver(len(self._replies), plan))
        self._result = None

    def _check_features(self, plan: PolicyPlan) -> None:
        """Raise InputError if the policy needs features of Batsim that are off."""
        options = self._scenario.options
        wanted = with_needs(options, plan)
        missing = [
            field.name for field in fields(options) if getattr(options, field.name) != getattr(wanted, field.name)
        ]
        if missing:
            raise InputError(
                f"policy {plan.source.name} needs {', '.join(missing)}, which is off in this simulation; expected it "
                f"on from the start: Simulation(…, features={missing})"
            )

    def _new_live(self) -> _Live:
        return _Live(self._scenario, self._plan, self._tau_s, self._evaluated, checked=self._checked)

    def _live(self) -> _Live:
        """Return the state. It is created again if a step was left by an exception."""
        if self._live_now is None:
            self._live_now = self._repeated()
        return self._live_now

    def _repeated(self) -> _Live:
        """Repeat the run so far, and compare the replies with the recorded ones."""
        live, take_overs = self._new_live(), list(self._take_overs)
        for number, recorded in enumerate(self._replies, start=1):
            live.handle()
            while take_overs and take_overs[0].n_messages == number:
                live.take_over(take_overs.pop(0).plan, self._replies[:number])
            if live.reply is None or live.reply.differs(recorded):
                raise InputError(
                    f"policy {live.engine.policy_name}: its reply to message {number} differs when the run is "
                    "repeated; expected a deterministic policy: use random numbers with a seed, and no state outside "
                    "of the policy"
                )
        return live


def _view(job: Job) -> JobView:
    return JobView(
        job.id,
        job.state.value,
        job.n_procs,
        job.submitted_at,
        job.started_at,
        job.procs,
        job.estimate,
        job.walltime,
        job.fields,
    )


@contextmanager
def _interrupts_deferred() -> Iterator[Callable[[], bool]]:
    """Defer an interrupt (Ctrl-C) to the end of the block; a second one is raised at once.

    The block gets a function that returns whether there was one. Interrupts are not deferred outside of the main
    thread, within another such block, and if the program handles them itself.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: False
        return
    n_interrupts = 0

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal n_interrupts
        n_interrupts += 1
        if n_interrupts > 1:
            signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: n_interrupts > 0
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if n_interrupts:
        raise KeyboardInterrupt
