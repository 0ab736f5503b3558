"""Batsim's side of a simulation: the exchanges with the scheduler, and when they take place.

The order of things at one instant is the loop's matter (`pybatsched.simulator.loop`); what a decision may do is that of
`pybatsched.simulator.orders`, and what goes on by itself that of `pybatsched.simulator.job_processes`. All share one
`World`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from pybatsched.core import decisions as d, events as e
from pybatsched.metrics.energy import Energy
from pybatsched.simulator import jobs as j
from pybatsched.simulator.execution import Execution
from pybatsched.simulator.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from pybatsched.simulator.job_processes import Lives
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import HALT, Loop, Process
from pybatsched.simulator.machine.hosts import HostState
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.orders import Orders
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.simulator.submitters import occur, submit
from pybatsched.simulator.world import Refusal, World

#: What the scheduler is told, now and events, and what it answers: when it is ready again, and decisions.
Told: TypeAlias = tuple[float, Sequence[e.Event]]
Answer: TypeAlias = tuple[float, Sequence[d.Decision]]
#: Answers a message.
Scheduler: TypeAlias = Callable[[float, Sequence[e.Event]], Answer]


class _CalledForEver(Exception):  # noqa: N818  no error of ours: what ends the loop
    """All jobs are over, and the scheduler still wants to be called."""


class Simulation:
    """One run, from SIMULATION_BEGINS to SIMULATION_ENDS, or to the point where nothing can happen any more.

    After `run`, `finished` tells whether it came to its end; else `unfinished` are the jobs that are left over. It is
    stopped at `scenario.ends_at` (`is_cut`), and when all jobs are over and the scheduler does nothing but ask for
    another call, again and again (`called_since`: since when).

    Without a scheduler it is played by `exchanges`, which stands still at each message until it is answered.
    """

    #: So many messages in a row may be nothing but calls when all jobs are over. A policy of ours is stopped one later.
    MAX_CALLS_AT_REST: ClassVar[int] = 1_000

    def __init__(self, scenario: Scenario, scheduler: Scheduler | None, outputs: Outputs | None = None) -> None:
        self.world = World(scenario, Loop(self._look, scenario.ends_at), outputs or Outputs(None))
        self.finished = False
        self.ended_at = 0.0  # when the scheduler was last ready; the clock goes on to alarms of jobs that were killed
        self.called_since: float | None = None
        self.n_messages = 0
        self._scheduler = scheduler
        self._told: Told | None = None  # a message that waits for its answer, and this
        self._answer: Answer = (0.0, ())
        self._ready = False
        self._ending = False
        self._n_submitters = len(scenario.workloads)
        self._n_event_lists = len(scenario.event_lists)
        self._n_calls_at_rest = 0
        self._at_rest_since = 0.0
        self._execution = Execution(self.world)
        self._orders = Orders(self.world, self._execution, Lives(self.world, self._execution))

    @property
    def is_cut(self) -> bool:
        """Whether something would still have happened when time ended."""
        return self.world.loop.is_cut

    @property
    def n_to_come(self) -> int:
        """How many jobs of the workloads have not been submitted. O(jobs still known)."""
        return sum(job.state == j.NOT_SUBMITTED for job in self.world.jobs.values())

    @property
    def unfinished(self) -> list[SimJob]:
        """The jobs that were submitted and are not over. O(jobs still known)."""
        return [job for job in self.world.jobs.values() if job.state in {j.SUBMITTED, j.RUNNING}]

    def run(self) -> bool:
        """Play the whole simulation. Tells whether it came to its end; what was written until then is kept."""
        for _ in self.exchanges():
            raise AssertionError("a simulation that runs by itself was given no scheduler")
        return self.finished

    def exchanges(self) -> Generator[Told, Answer, None]:
        """Play the simulation for somebody who answers when he likes: gives each message, and is sent its answer.

        In between everything stands still, and nothing but this generator need be kept; who leaves it before its end
        closes it, so that files are closed. With a scheduler there is no message to be seen.
        """
        n_jobs = sum(len(workload.jobs) for workload in self.world.scenario.workloads.values())
        with self.world.outputs.opened(n_jobs, self.world.scenario.platform.n_procs):
            self._begin()
            self._go_on()
            while self._told is not None:
                self._answer = yield self._told
                self._told = None
                self._go_on()
            if self.is_cut or self.called_since is not None:
                self.ended_at = self.world.now
            self._execution.note_schedule(self.ended_at)

    def _begin(self) -> None:
        loop = self.world.loop
        for name in self.world.scenario.workloads:
            take_jobs = partial(self.world.take_jobs, name)
            loop.spawn(submit(take_jobs, self._execution, self._on_submitted, self._on_bye))
        for index, events in enumerate(self.world.scenario.event_lists):
            loop.spawn(occur(events, partial(self._on_occurred, f"ee{index}"), self._on_events_bye))
        self._execution.note_pstates()
        if self.world.options.batsim == 4:
            loop.spawn(self._exchange([self._begins()]))
            return
        # In Batsim 5 the first message leaves when nobody has anything to say any more: where several say hello before
        # they submit, it has the jobs of the first instant in it.
        self.world.say(self._begins())
        self._ready = True
        if not self._n_submitters and not self._n_event_lists:
            loop.post(self._on_nobody, None)

    def _on_nobody(self, _nothing: None) -> None:
        """Take notice that nobody will say hello."""

    def _go_on(self) -> None:
        try:
            self.world.loop.run()
        except _CalledForEver:
            self.called_since = self._at_rest_since

    def watch_exchanges(self, progress: Callable[[float, int], None]) -> None:
        """Let somebody hear of each message: the clock, and how many jobs are over."""
        answer = self._scheduler
        assert answer is not None

        def scheduler(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
            progress(now, self.world.n_over)
            return answer(now, events)

        self._scheduler = scheduler

    # --- exchanges ---

    def _begins(self) -> e.SimulationBegins:
        platform = self.world.scenario.platform
        resources = tuple(
            e.Resource(i, host.name, "idle", dict(host.properties), dict(host.zone_properties))
            for i, host in enumerate(platform.hosts)
        )
        n = platform.n_procs
        profiles = {
            name: {work.name: j.rounded(dict(work.described)) for work in table.known()}
            for name, table in self.world.works.items()
        }
        return e.SimulationBegins(
            len(resources),
            n,
            len(platform.storage),
            self.world.options.compute_sharing,
            self.world.options.storage_sharing,
            self.world.options.told(),
            resources[:n],
            resources[n:],
            {name: workload.source for name, workload in self.world.scenario.workloads.items()},
            profiles,
            timestamp=0.0,
        )

    def _exchange(self, events: list[e.Event]) -> Process:
        """Tell the scheduler, and carry out its decisions in order, each not before its time."""
        self.n_messages += 1
        if self._scheduler is not None:
            reply_now, decisions = self._scheduler(self.world.stamp(), events)
        else:
            self._told = (self.world.stamp(), events)
            yield HALT
            reply_now, decisions = self._answer
        orders, loop = self._orders, self.world.loop
        for index, decision in enumerate(decisions):
            stamp = decision.timestamp
            if stamp is None or stamp > reply_now:
                raise Refusal(
                    f"the decision is for {stamp}, after the reply's own time, {reply_now}",
                    field=f"events[{index}].timestamp",
                )
            order = orders.prepare(decision)
            if stamp > loop.now:
                yield float(stamp)
            yield order, decision
        if reply_now > loop.now:
            yield float(reply_now)
        loop.post(self._on_ready, None)

    # --- notices ---

    def _look(self) -> None:
        """Look, after the last notice in the mailbox, whether there is something to say, or all is over."""
        if not self._ready or self._ending:
            return
        if self.world.outbox:
            if not self._n_submitters and self.world.n_over == self.world.n_submitted:
                self._count_calls()
            events, self.world.outbox = self.world.outbox, []
            self._ready = False
            if self.world.over_now:
                self.world.forget_jobs()
            self.world.loop.spawn(self._exchange(events))
        elif self._is_over():
            self._ending = True
            self._ready = False
            self.world.loop.spawn(self._exchange([e.SimulationEnds(timestamp=self.world.stamp())]))

    def _count_calls(self) -> None:
        """Count the messages that are nothing but calls while no job is left and none is to come. O(events)."""
        world = self.world
        is_idle = not (self._n_event_lists or world.n_running or world.n_kills or world.n_switching)
        if not (is_idle and all(type(event) is e.RequestedCall for event in world.outbox)):
            self._n_calls_at_rest = 0
            return
        if not self._n_calls_at_rest:
            self._at_rest_since = world.stamp()
        self._n_calls_at_rest += 1
        if self._n_calls_at_rest > self.MAX_CALLS_AT_REST:
            raise _CalledForEver

    def _is_over(self) -> bool:
        return not (self._n_submitters or self._n_event_lists) and self.world.is_at_rest

    def _on_bye(self, _nothing: None) -> None:
        self._n_submitters -= 1
        if not self._n_submitters:
            self.world.say(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=self.world.stamp()))

    def _on_events_bye(self, _nothing: None) -> None:
        self._n_event_lists -= 1
        if not self._n_event_lists:
            self.world.say(e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=self.world.stamp()))

    def _on_submitted(self, jobs: list[SimJob]) -> None:
        for job in jobs:
            job.state = j.SUBMITTED
            self.world.tell_submitted(job)
        self.world.n_submitted += len(jobs)

    def _on_occurred(self, list_name: str, events: list[ExternalEvent]) -> None:
        now = self.world.stamp()
        for event in events:
            known = {"id": f"{list_name}!{event.place}"} if self.world.options.batsim == 5 else {}
            if event.kind in {AVAILABLE, UNAVAILABLE}:
                self._change_machines(event)
                kind = e.MACHINES_AVAILABLE if event.kind == AVAILABLE else e.MACHINES_UNAVAILABLE
                self.world.say(e.Notify(kind, event.procs, timestamp=now, extra=known or e.NOTHING))
            else:
                told = {key: value for key, value in j.rounded(event.described).items() if key != "type"}
                self.world.say(e.Notify(event.kind, timestamp=now, extra=told | known))

    def _change_machines(self, event: ExternalEvent) -> None:
        assert self.world.hosts is not None
        for host in event.procs:
            state = HostState.UNAVAILABLE
            if event.kind == AVAILABLE:
                state = HostState.COMPUTING if self.world.hosts.jobs[host] else HostState.IDLE
            self.world.hosts.change(host, state, self.world.now)

    def _on_ready(self, _nothing: None) -> None:
        self._ready = True
        self.ended_at = self.world.now
        if self._ending:
            pending = ("jobs", self.world.n_running), ("calls", self.world.n_calls), ("kills", self.world.n_kills)
            for what, n in (*pending, ("jobs", self.world.n_submitted - self.world.n_over)):
                if n:
                    raise Refusal(f"the reply to SIMULATION_ENDS left {n} {what} behind")
            self.finished = True

    @property
    def energy(self) -> Energy | None:
        """The energy of the whole run, as its files have it; None without, and while it is not over."""
        totals = self.world.outputs.totals
        if not self.finished or not self.world.options.energy or not totals.n_finished:
            return None
        return Energy(round(self._execution.consumed_j, 6), round(totals.jobs_j, 6))
