"""Batsim's side of a simulation: the messages to the scheduler, and when they are sent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from pybatsched.core import events as e
from pybatsched.metrics.energy import Energy
from pybatsched.simulator import jobs as j
from pybatsched.simulator.decision_effects import RULES, DecisionEffects
from pybatsched.simulator.execution import Answer, greeted
from pybatsched.simulator.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from pybatsched.simulator.failure_events import FailureStream, RandomFailures
from pybatsched.simulator.hosts import HostState
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.kernels import kernel_of
from pybatsched.simulator.loop import HALT, Process
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.world import Refusal, World

#: A message to the scheduler: its time and events.
Request: TypeAlias = tuple[float, Sequence[e.Event]]
#: A function that answers a message.
Scheduler: TypeAlias = Callable[[float, Sequence[e.Event]], Answer]


class _EndlessCalls(Exception):  # noqa: N818  not an error: it ends the loop
    """All jobs are done, and the scheduler keeps requesting calls."""


class SimulatedRun:
    """One run, from SIMULATION_BEGINS to SIMULATION_ENDS or to a deadlock.

    After `run`, `finished` is True if SIMULATION_ENDS was sent; otherwise `unfinished` has the remaining jobs. The run
    is stopped at `scenario.ends_at` (`is_cut`). It is also stopped if all jobs are done and the scheduler only keeps
    requesting calls; `called_since` is then the time of the first such call.

    Without a scheduler, use `exchanges`, which yields each message and waits for its reply.
    """

    #: The maximum number of consecutive messages with only calls after all jobs are done. A policy in this process is
    #: stopped one message later.
    MAX_CALLS_AT_REST: ClassVar[int] = 1_000
    #: The maximum number of random failures and repairs in a row without the end of a job.
    MAX_FAILURES_AT_REST: ClassVar[int] = 20_000

    def __init__(self, scenario: Scenario, scheduler: Scheduler | None, observers: Sequence[Observer] = ()) -> None:
        self.world = World(scenario, observers)
        self.finished = False
        self.ended_at = 0.0  # when the scheduler was last ready; the clock continues to alarms of killed jobs
        self.called_since: float | None = None
        self.n_messages = 0
        self._scheduler = scheduler
        self._request: Request | None = None  # the message that waits for its reply
        self._answer: Answer = (0.0, ())
        self._ready = False
        self._ending = False
        self._n_submitters = len(scenario.workloads)
        self._n_event_lists = len(scenario.event_lists)
        self._n_calls_at_rest = 0
        self._at_rest_since = 0.0
        self.failures_ended_at: float | None = None  # when random failures were ended, because no job ended any more
        self._kernel = kernel_of(self.world, self._look, lambda: self._ready)
        self._rules = RULES[scenario.options.batsim]
        self._effects = DecisionEffects(self.world, self._kernel)

    @property
    def is_cut(self) -> bool:
        """Whether events were left when the run was stopped at `scenario.ends_at`."""
        return self.world.loop.is_cut

    @property
    def n_to_come(self) -> int:
        """The number of jobs of the workloads that have not been submitted. O(jobs in memory)."""
        n_held_back = len(self.world.held_back)
        n_waiting = sum(job.state == j.NOT_SUBMITTED for job in self.world.jobs.values())
        return n_held_back + self.world.n_unmade + n_waiting

    @property
    def unfinished(self) -> list[SimJob]:
        """The jobs that were submitted and have not ended. O(jobs in memory)."""
        return [job for job in self.world.jobs.values() if job.state in {j.SUBMITTED, j.RUNNING}]

    def run(self) -> bool:
        """Run the whole simulation; return whether it finished. Output written so far is kept in both cases."""
        for _ in self.exchanges():
            raise AssertionError("SimulatedRun.run needs a scheduler")
        return self.finished

    def exchanges(self) -> Generator[Request, Answer, None]:
        """Run the simulation as a generator: it yields each message and expects the reply by `send`.

        The simulation is suspended in between; only this generator must be kept. A caller that leaves early closes
        the generator, which closes the files. With a scheduler it yields nothing.
        """
        with self.world.observers.opened(self.world.scenario, self.world.book):
            self._begin()
            self._continue()
            while self._request is not None:
                self._answer = yield self._request
                self._request = None
                self._continue()
            if self.is_cut or self.called_since is not None:
                self.ended_at = self.world.loop.now
            self._kernel.end_run(self.ended_at)

    def _begin(self) -> None:
        kernel, loop = self._kernel, self.world.loop
        for name in self.world.scenario.workloads:
            loop.spawn(kernel.submit(partial(self.world.take_jobs, name), self._on_submitted, self._on_goodbye))
        for index, events in enumerate(self.world.scenario.event_lists):
            on_occurred = partial(self._on_occurred, f"ee{index}")
            loop.spawn(kernel.occur(self._needed(events), on_occurred, self._on_events_goodbye))
        loop.serve(self._rules.begin(self._begins(), self._exchange, self._hold))

    def _hold(self, begins: e.Event) -> list[Process]:
        """Hold the first event until the processes of time 0 have posted theirs; return a process if there is none."""
        self.world.outbox.append(begins)
        self._ready = True
        return [] if self._n_submitters or self._n_event_lists else [_greet()]

    def _needed(self, events: Iterable[ExternalEvent]) -> Iterable[ExternalEvent]:
        """Return the events of a list. Random failures, which are endless, end with the last job."""
        return self._while_jobs_are_left(iter(events)) if isinstance(events, RandomFailures) else events

    def _while_jobs_are_left(self, stream: FailureStream) -> Iterator[ExternalEvent]:
        """Return random failures. If no job ends any more, as all are killed before their end, only repairs follow."""
        world, n, before = self.world, 0, (-1, -1)
        for event in stream:
            left = (self._n_submitters + len(world.held_back), world.n_submitted - world.n_finished)
            if left == (0, 0) and not world.n_kills:
                return
            n = n + 1 if left == before and left[1] else 0  # without a job there is none that could end
            before = left
            if n == self.MAX_FAILURES_AT_REST:
                stream.ends_at = self.failures_ended_at = world.now
            yield event

    def _continue(self) -> None:
        try:
            self.world.loop.run()
        except _EndlessCalls:
            self.called_since = self._at_rest_since

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
            self.world.options.batsim_config(),
            resources[:n],
            resources[n:],
            {name: workload.source for name, workload in self.world.scenario.workloads.items()},
            profiles,
            timestamp=0.0,
        )

    def _exchange(self, events: list[e.Event]) -> Process:
        """Send events to the scheduler, and execute its decisions in order, each not before its time."""
        self.n_messages += 1
        world = self.world
        orders, loop, now = self._effects, world.loop, world.stamp()
        for sending in world.observers.sending:
            sending(now, world.n_finished)
        if self._scheduler is not None:
            answer = self._scheduler(now, events)
        else:
            self._request = (now, events)
            yield HALT
            answer = self._answer
        reply_now, decisions = self._kernel.as_read(answer)
        for index, decision in enumerate(decisions):
            stamp = decision.timestamp
            if stamp is None or stamp > reply_now:
                raise Refusal(
                    f"expected a time up to that of the reply ({reply_now}), found {stamp}",
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
        """Send pending events, or SIMULATION_ENDS if the simulation is finished. Called when the mailbox is empty."""
        if not self._ready:
            return
        world = self.world
        if world.outbox:
            if not (self._n_submitters or world.held_back) and world.n_finished == world.n_submitted:
                self._count_calls()
            events, world.outbox = world.outbox, []
            self._ready = False
            if world.finished_jobs:
                world.forget_jobs()
            world.loop.spawn(self._exchange(events))
        elif self._is_over():
            self._ending = True
            self._ready = False
            world.loop.spawn(self._exchange([e.SimulationEnds(timestamp=world.stamp())]))

    def _count_calls(self) -> None:
        """Count the messages with only calls while no job is left and none will be submitted. O(events)."""
        world = self.world
        is_idle = not (self._n_event_lists or world.n_running or world.n_kills or world.n_switching)
        if not (is_idle and all(type(event) is e.RequestedCall for event in world.outbox)):
            self._n_calls_at_rest = 0
            return
        if not self._n_calls_at_rest:
            self._at_rest_since = world.stamp()
        self._n_calls_at_rest += 1
        if self._n_calls_at_rest > self.MAX_CALLS_AT_REST:
            raise _EndlessCalls

    def _is_over(self) -> bool:
        return not (self._n_submitters or self._n_event_lists) and self.world.is_idle

    def _on_goodbye(self, _nothing: None) -> None:
        self._n_submitters -= 1
        if not self._n_submitters:
            self.world.outbox.append(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=self.world.stamp()))

    def _on_events_goodbye(self, _nothing: None) -> None:
        self._n_event_lists -= 1
        if not self._n_event_lists:
            self.world.outbox.append(e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=self.world.stamp()))

    def _on_submitted(self, jobs: list[SimJob]) -> None:
        for job in jobs:
            job.state = j.SUBMITTED
            self.world.add_submitted(job)
        self.world.n_submitted += len(jobs)

    def _on_occurred(self, list_name: str, events: list[ExternalEvent]) -> None:
        now = self.world.stamp()
        for event in events:
            known = self._rules.event_members(list_name, event.place)
            if event.kind in {AVAILABLE, UNAVAILABLE}:
                self._change_machines(event)
                kind = e.MACHINES_AVAILABLE if event.kind == AVAILABLE else e.MACHINES_UNAVAILABLE
                self.world.outbox.append(e.Notify(kind, event.procs, timestamp=now, extra=known or e.NOTHING))
            else:
                sent = {key: value for key, value in j.rounded(event.described).items() if key != "type"}
                self.world.outbox.append(e.Notify(event.kind, timestamp=now, extra=sent | known))

    def _change_machines(self, event: ExternalEvent) -> None:
        assert self.world.hosts is not None
        for host in event.procs:
            state = HostState.UNAVAILABLE
            if event.kind == AVAILABLE:
                state = HostState.COMPUTING if self.world.hosts.jobs[host] else HostState.IDLE
            self.world.hosts.change(host, state, self.world.now)

    def _on_ready(self, _nothing: None) -> None:
        self.ended_at = self.world.now
        self._ready = not self._ending
        if self._ending:
            pending = ("jobs", self.world.n_running), ("calls", self.world.n_calls), ("kills", self.world.n_kills)
            for what, n in (*pending, ("jobs", self.world.n_submitted - self.world.n_finished)):
                if n:
                    raise Refusal(f"after the reply to SIMULATION_ENDS, {n} {what} are left; expected none")
            self.finished = True

    @property
    def energy(self) -> Energy | None:
        """The energy of the whole run, as in its files; None without energy and before the run has finished."""
        jobs_j = self.world.jobs_j
        if not self.finished or jobs_j is None:
            return None
        return Energy(round(self._kernel.consumed_j, 6), round(jobs_j, 6))


def _greet() -> Process:
    """Send a notice, after which the server looks for events."""
    yield greeted, None
