"""A simulation that pauses at each choice.

The simulator pauses at each message (`Simulation.exchanges`). The engine gets the message, and then one step without
events for each chosen job, all at the same instant. Its decisions are sent as one reply. So there is no thread, no
socket and no copy of the state, and all checks are those of other runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet
from typing import SupportsIndex, cast

from pybatsched.core import decisions as d
from pybatsched.core.cluster import Partition
from pybatsched.core.engine import Engine
from pybatsched.core.events import REJECTED, Event, SimulationBegins
from pybatsched.core.policy import TrustedFiles
from pybatsched.gym.rewards import Since
from pybatsched.metrics import Outcome, Tally
from pybatsched.metrics.workload_fields import evaluated_ids
from pybatsched.policies.choices import ChoiceScheduler
from pybatsched.policies.local_scheduler import LocalPolicy
from pybatsched.policies.predictions import predictions_of
from pybatsched.policies.queue_options import ChoiceOptions
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.simulator.simulation import Simulation


class _Queue(ChoiceScheduler):
    """The queue. `chosen` has the decisions of the agent for the next step."""

    def __init__(self, partition: Partition, options: ChoiceOptions) -> None:
        super().__init__(partition, options)
        self.chosen: tuple[d.Decision, ...] = ()

    def decide(self, now: float) -> Iterable[d.Decision]:  # noqa: ARG002
        """Return the decisions of the agent."""
        chosen, self.chosen = self.chosen, ()
        return chosen


class _Chosen(LocalPolicy):
    """The policy that executes the decisions of the agent."""

    Options = ChoiceOptions
    scheduler = _Queue


class _Record(Outputs):
    """Counts the finished jobs, and keeps the evaluated ones until the next step. It writes no file."""

    def __init__(self, tally: Tally, evaluated: AbstractSet[str] | None) -> None:
        super().__init__(None)
        self.tally = tally
        self.ended: list[Outcome] = []
        self._evaluated = evaluated

    def job(self, job: SimJob) -> None:
        """Record a finished job. O(1)."""
        outcome = job.outcome()
        self.tally.add(outcome)
        if job.state != REJECTED and (self._evaluated is None or job.id in self._evaluated):
            self.ended.append(outcome)


class Play:
    """A running episode. `queue` has the jobs to choose from; `n_jobs` is the number of evaluated jobs."""

    queue: ChoiceScheduler

    def __init__(self, scenario: Scenario, options: ChoiceOptions, tau_s: float) -> None:
        self.now = 0.0
        self.is_over = False
        self._evaluated = evaluated_ids(scenario.workloads)
        n_jobs = sum(len(workload.jobs) for workload in scenario.workloads.values())
        self.n_jobs = n_jobs if self._evaluated is None else len(self._evaluated)
        self._n_procs = scenario.platform.n_procs
        self._tau_s = tau_s
        self._record = _Record(Tally(tau_s, self._evaluated), self._evaluated)
        self._policy = _Chosen(options)
        self._policy.predictions = predictions_of(options, TrustedFiles(frozenset({options.predict or ""})))
        self._engine = Engine(self._made, "the environment")
        self._exchanges = Simulation(scenario, None, self._record).exchanges()
        self._decisions: list[d.Decision] = []
        self._receive(*next(self._exchanges))
        self.queue = self._queue = cast(_Queue, self._policy.local)
        self._continue()

    def choose(self, action: SupportsIndex) -> Since:
        """Apply an action, and run to the next choice or the end. Return what has happened since."""
        from_at, started = self.now, []
        start = self._queue.choose(action)
        if start is not None:
            if self._evaluated is None or start.job_id in self._evaluated:
                started.append(self._engine.cluster.jobs[start.job_id])
            self._queue.chosen = (start,)
            self._decisions += self._engine.step(self.now, ()).decisions
        if not self._queue.goes_on():
            self._continue()
        ended, self._record.ended = self._record.ended, []
        figures = self._record.tally.figures(self._n_procs) if self.is_over else None
        n_jobs = max(self.n_jobs, 1)
        return Since(from_at, self.now, started, ended, n_jobs, self._n_procs, self._tau_s, figures)

    def _continue(self) -> None:
        """Answer messages until there is a choice, or the simulation has ended."""
        is_asked = False
        while not is_asked:
            answer, self._decisions = (self.now, self._decisions), []
            try:
                message = self._exchanges.send(answer)
            except StopIteration:
                self.is_over = True
                return
            is_asked = self._receive(*message)

    def _receive(self, now: float, events: Sequence[Event]) -> bool:
        """Pass a message to the engine. Return whether there is a choice."""
        self.now = now
        self._decisions += self._engine.step(now, events).decisions
        return cast(_Queue, self._policy.local).begin(now)

    def _made(self, _begins: SimulationBegins) -> LocalPolicy:
        return self._policy
