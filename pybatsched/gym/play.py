"""A simulation that pauses at each choice.

The simulator pauses at each message (`SimulatedRun.exchanges`). The engine gets the message, and then one step without
events for each chosen job, all at the same instant. Its decisions are sent as one reply. So there is no thread, no
socket and no copy of the state, and all checks are those of other runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set as AbstractSet
from typing import SupportsIndex, cast

from pybatsched.core import decisions as d
from pybatsched.core.cluster import Partition
from pybatsched.core.engine import Engine
from pybatsched.core.events import REJECTED, Event
from pybatsched.gym.rewards import Since
from pybatsched.metrics import Outcome, Tally
from pybatsched.metrics.summary import Result
from pybatsched.metrics.workload_fields import evaluated_ids
from pybatsched.policies.choices import ChoiceScheduler
from pybatsched.policies.local_scheduler import LocalPolicy
from pybatsched.policies.queue_options import ChoiceOptions
from pybatsched.policies.registry import PolicyPlan
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.observers import Counting
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.run import result_of
from pybatsched.simulator.simulation import SimulatedRun


class _Queue(ChoiceScheduler):
    """The queue. `chosen` has the decisions of the agent for the next step."""

    def __init__(self, partition: Partition, options: ChoiceOptions) -> None:
        super().__init__(partition, options)
        self.chosen: tuple[d.Decision, ...] = ()

    def decide(self, now: float) -> Iterable[d.Decision]:  # noqa: ARG002
        """Return the decisions of the agent."""
        chosen, self.chosen = self.chosen, ()
        return chosen


class Environment(LocalPolicy):
    """The policy that executes the decisions of the agent."""

    Options = ChoiceOptions
    scheduler = _Queue
    local: _Queue


class _Record(Counting):
    """Counts the finished jobs, and keeps the evaluated ones until the next step."""

    def __init__(self, tally: Tally, evaluated: AbstractSet[str] | None) -> None:
        super().__init__(tally)
        self.ended: list[Outcome] = []
        self._evaluated = evaluated

    def finished(self, job: SimJob, outcome: Outcome) -> None:
        """Record a finished job. O(1)."""
        self.tally.add(outcome)
        if job.state != REJECTED and (self._evaluated is None or job.id in self._evaluated):
            self.ended.append(outcome)


class Play:
    """A running episode. `queue` has the jobs to choose from. `result` is that of the run, when it is over."""

    result: Result

    def __init__(self, scenario: Scenario, plan: PolicyPlan, tau_s: float) -> None:
        self.now = 0.0
        self.is_over = False
        self._evaluated = evaluated_ids(scenario.workloads)
        self._n_procs = scenario.platform.n_procs
        counted = (
            size
            for workload in scenario.workloads.values()
            for size, counts in zip(workload.values("res"), workload.values("evaluated"), strict=True)
            if self._evaluated is None or counts is True
        )
        self._n_jobs = max(sum(size <= self._n_procs for size in counted), 1)  # others are rejected
        self._tau_s = tau_s
        self._record = _Record(Tally(tau_s, self._evaluated), self._evaluated)
        self._engine = Engine(plan.make, plan.source.name, feedback_jobs=scenario.feedback_jobs())
        self._simulation = SimulatedRun(scenario, None, [self._record])
        self._exchanges = self._simulation.exchanges()
        self._decisions: list[d.Decision] = []
        self._receive(*next(self._exchanges))
        self._continue()

    @property
    def queue(self) -> _Queue:
        """The queue of the policy."""
        return cast(Environment, self._engine.policy).local

    def choose(self, action: SupportsIndex) -> Since:
        """Apply an action, and run to the next choice or the end. Return what has happened since."""
        from_at, started = self.now, []
        queue = self.queue
        start = queue.choose(action)
        if start is not None:
            if self._evaluated is None or start.job_id in self._evaluated:
                started.append(self._engine.cluster.jobs[start.job_id])
            queue.chosen = (start,)
            self._decisions += self._engine.step(self.now, ()).decisions
        if not queue.goes_on():
            self._continue()
        ended, self._record.ended = self._record.ended, []
        figures = self.result.figures if self.is_over else None
        return Since(from_at, self.now, started, ended, self._n_jobs, self._n_procs, self._tau_s, figures)

    def _continue(self) -> None:
        """Answer messages until there is a choice, or the simulation has ended."""
        is_asked = False
        while not is_asked:
            answer, self._decisions = (self.now, self._decisions), []
            try:
                message = self._exchanges.send(answer)
            except StopIteration:
                self.is_over = True
                self.result = result_of(self._simulation, self._engine, self._record.tally)
                return
            is_asked = self._receive(*message)

    def _receive(self, now: float, events: Sequence[Event]) -> bool:
        """Pass a message to the engine. Return whether there is a choice."""
        self.now = now
        self._decisions += self._engine.step(now, events).decisions
        return self.queue.begin(now)
