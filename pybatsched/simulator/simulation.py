"""Batsim's side of a simulation: who submits, runs, kills and calls, and what is told to the scheduler when.

The order of things at one instant is the loop's matter (`pybatsched.simulator.loop`); what a decision may do is that of
`pybatsched.simulator.orders`. Here are the processes, the notices they post, and the bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from pybatsched.core import decisions as d
from pybatsched.core import events as e
from pybatsched.errors import InputError
from pybatsched.simulator import jobs as j
from pybatsched.simulator.execution import Execution
from pybatsched.simulator.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import SOON, Loop, Process
from pybatsched.simulator.machines import Book, CountingBook, HostBook, HostState
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.orders import Orders
from pybatsched.simulator.outputs import Outputs, schedule_figures
from pybatsched.simulator.refusal import Refusal
from pybatsched.simulator.submitters import occur, submit
from pybatsched.simulator.work import WorkTable, progress_node, resolve
from pybatsched.workload.ids import name_in

#: Answers a message: (now, events) -> (ready again at, decisions).
Scheduler: TypeAlias = Callable[[float, Sequence[e.Event]], tuple[float, Sequence[d.Decision]]]

#: A call comes at least so much later, as in Batsim.
SHORTEST_CALL_S: Final = 1e-5


class Simulation:
    """One run, from SIMULATION_BEGINS to SIMULATION_ENDS, or to the point where nothing can happen any more.

    After `run`, `finished` tells whether it came to its end; else `unfinished` are the jobs that are left over.
    """

    def __init__(self, scenario: Scenario, scheduler: Scheduler, outputs: Outputs | None = None) -> None:
        self.scenario = scenario
        self.options = scenario.options
        self.loop = Loop(self._look)
        self.outputs = outputs or Outputs(None)
        self.jobs: dict[str, SimJob] = {}  # those that Batsim would still know
        self.met: set[str] = set()
        self.works: dict[str, WorkTable] = {}
        self.n_submitted = 0
        self.n_over = 0
        self.n_running = 0
        self.n_calls = 0
        self.n_kills = 0
        self.n_switching = 0
        self.registration_finished = False
        self.finished = False
        self.n_messages = 0
        self._scheduler = scheduler
        self._by_workload: dict[str, list[SimJob]] = {}  # until their submitters take them
        self._outbox: list[e.Event] = []
        self._forget: list[SimJob] = []
        self._ready = False
        self._ending = False
        self._stamp = self._stamped_at = 0.0
        self._n_submitters = len(scenario.workloads)
        self._n_event_lists = len(scenario.event_lists)
        platform = scenario.platform
        by_host = self.options.compute_sharing or self.options.energy or bool(scenario.event_lists or platform.storage)
        self.hosts = (
            HostBook(
                platform.n_procs,
                shared=self.options.compute_sharing,
                n_storage=len(platform.storage),
                storage_shared=self.options.storage_sharing,
            )
            if by_host
            else None
        )
        self.book: Book = self.hosts or CountingBook(platform.n_procs)
        self._load()
        self.execution = Execution(self)
        self._orders = Orders(self)

    @property
    def now(self) -> float:
        """The clock."""
        return self.loop.now

    @property
    def unfinished(self) -> list[SimJob]:
        """The jobs that were submitted and are not over. O(jobs still known)."""
        return [job for job in self.jobs.values() if job.state in {j.SUBMITTED, j.RUNNING}]

    def run(self) -> bool:
        """Play the whole simulation. Tells whether it came to its end; what was written until then is kept."""
        n_jobs = sum(len(workload.jobs) for workload in self.scenario.workloads.values())
        with self.outputs.opened(n_jobs, self.scenario.platform.n_procs):
            self._play()
        return self.finished

    def _play(self) -> None:
        for name in self.scenario.workloads:
            take_jobs = partial(self._take_jobs, name)
            self.loop.spawn(submit(take_jobs, self.execution, self._on_submitted, self._on_bye))
        for events in self.scenario.event_lists:
            self.loop.spawn(occur(events, self._on_occurred, self._on_events_bye))
        self.execution.note_pstates()
        self.loop.spawn(self._exchange([self._begins()]))
        self.loop.run()
        self._write_schedule()

    def watch_exchanges(self, progress: Callable[[float, int], None]) -> None:
        """Let somebody hear of each message: the clock, and how many jobs are over."""
        answer = self._scheduler

        def scheduler(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
            progress(now, self.n_over)
            return answer(now, events)

        self._scheduler = scheduler

    # --- loading ---

    def _load(self) -> None:
        for name, workload in self.scenario.workloads.items():
            used = dict.fromkeys(job["profile"] for job in workload.jobs)
            self.works[name] = table = resolve(name, workload.profiles, used)
            refused = {work.name: work.refusal for work in table.known() if work.refusal is not None}
            jobs = self._by_workload[name] = []
            for fields in workload.jobs:
                profile = fields["profile"]
                if profile in refused:
                    raise InputError(
                        f"{workload.source or name}: job {fields['id']}: {refused[profile]}; run it with Batsim"
                    )
                jobs.append(self.make_job(name, fields))

    def make_job(self, workload: str, fields: Any) -> SimJob:
        """Take in a job; its profile is known."""
        work = self.works[workload].get(fields["profile"])
        assert work is not None
        name = name_in(workload, fields["id"])
        job = SimJob(workload, name, fields, work)
        if job.id in self.met:
            raise InputError(f"there are two jobs {job.id}: {fields['id']!r} is another way to write the same id")
        if not work.sizes <= {job.res}:
            written_for = ", ".join(map(str, sorted(work.sizes)))
            raise InputError(
                f"job {job.id} asks for {job.res} processors; its profile {work.name} is written for {written_for}"
            )
        self.jobs[job.id] = job
        self.met.add(job.id)
        return job

    def register(self, job: SimJob) -> None:
        """Note a job made at run time with its workload, if that has a submitter that has not taken its jobs yet."""
        if job.workload in self._by_workload:
            self._by_workload[job.workload].append(job)

    def _take_jobs(self, workload: str) -> list[SimJob]:
        return self._by_workload.pop(workload)

    def _begins(self) -> e.SimulationBegins:
        platform = self.scenario.platform
        resources = tuple(
            e.Resource(i, host.name, "idle", dict(host.properties), dict(host.zone_properties))
            for i, host in enumerate(platform.hosts)
        )
        n = platform.n_procs
        profiles = {
            name: {work.name: j.rounded(dict(work.described)) for work in table.known()}
            for name, table in self.works.items()
        }
        return e.SimulationBegins(
            len(resources),
            n,
            len(platform.storage),
            self.options.compute_sharing,
            self.options.storage_sharing,
            self.options.told(),
            resources[:n],
            resources[n:],
            {name: workload.source for name, workload in self.scenario.workloads.items()},
            profiles,
            timestamp=0.0,
        )

    # --- processes ---

    def _exchange(self, events: list[e.Event]) -> Process:
        """Tell the scheduler, and carry out its decisions in order, each not before its time."""
        self.n_messages += 1
        reply_now, decisions = self._scheduler(self.stamp(), events)
        orders, loop = self._orders, self.loop
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
        yield self._on_ready, None

    def run_job(self, job: SimJob) -> Process:
        """Live a job's life: from its start to the notice of its end."""
        job.started_at = self.loop.now
        self.execution.started(job)
        code = yield from self.execution.execute(job, job.work, [job.walltime])
        job.return_code = code
        if code == 0:
            job.state = e.COMPLETED_SUCCESSFULLY
        else:
            job.state = e.COMPLETED_FAILED if code > 0 else e.COMPLETED_WALLTIME_REACHED
        if self.execution.ended(job):
            yield SOON  # who wakes with it and has no meters to read is quicker
            self.execution.meters_read()
        yield self._on_done, job

    def call(self, at: float) -> Process:
        """Call the scheduler back."""
        yield max(at, self.now + SHORTEST_CALL_S)
        yield self._on_called, None

    def kill(self, jobs: list[SimJob]) -> Process:
        """Stop jobs at once; what had ended before is left as it is."""
        progress = {}
        for job in jobs:
            if job.state == j.RUNNING and job.process is not None:
                progress[job.id] = progress_node(job.trail, self.now)
                parallel = job.trail[-1].work.is_parallel
                job.process.close()
                job.state = e.COMPLETED_KILLED
                job.return_code = -2 if parallel else -1
                self.execution.ended(job)
        yield self._on_killed, (jobs, progress)

    def message_from(self, job: SimJob, message: Any) -> tuple[Callable[[Any], None], Any]:
        """Give the notice of a job that has something to say."""
        return self._on_message, (job, message)

    # --- notices ---

    def say(self, event: e.Event) -> None:
        """Put an event into the next message."""
        self._outbox.append(event)

    def stamp(self) -> float:
        """Give the clock as it is written on the wire. Rounding is dear, and an instant has several stamps."""
        now = self.loop.now
        if now != self._stamped_at:
            self._stamped_at = now
            self._stamp = round(now, 6)
        return self._stamp

    def _look(self) -> None:
        """Look, after the last notice in the mailbox, whether there is something to say, or all is over."""
        if not self._ready or self._ending:
            return
        if self._outbox:
            events, self._outbox = self._outbox, []
            self._ready = False
            if self._forget:
                self._forget_jobs()
            self.loop.spawn(self._exchange(events))
        elif self._is_over():
            self._ending = True
            self._ready = False
            self.loop.spawn(self._exchange([e.SimulationEnds(timestamp=self.stamp())]))

    def _forget_jobs(self) -> None:
        for job in self._forget:
            del self.jobs[job.id]
            if not self.options.profile_reuse:
                self.works[job.workload].forget(job.work.name)
        self._forget.clear()

    def _is_over(self) -> bool:
        return (
            self.n_over == self.n_submitted
            and not (self._n_submitters or self._n_event_lists or self.n_running or self.n_calls or self.n_kills)
            and not self.n_switching
            and (self.registration_finished or not self.options.dynamic_jobs)
        )

    def _on_bye(self, _nothing: None) -> None:
        self._n_submitters -= 1
        if not self._n_submitters:
            self.say(e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=self.stamp()))

    def _on_events_bye(self, _nothing: None) -> None:
        self._n_event_lists -= 1
        if not self._n_event_lists:
            self.say(e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=self.stamp()))

    def _on_submitted(self, jobs: list[SimJob]) -> None:
        for job in jobs:
            job.state = j.SUBMITTED
            self.tell_submitted(job)
        self.n_submitted += len(jobs)

    def tell_submitted(self, job: SimJob) -> None:
        """Say JOB_SUBMITTED."""
        profile = j.rounded(job.work.described) if self.options.forward_profiles else None
        self.say(e.JobSubmitted(job.id, j.as_told(job.fields, job.id), profile, timestamp=self.stamp()))

    def _on_occurred(self, events: list[ExternalEvent]) -> None:
        now = self.stamp()
        for event in events:
            if event.kind in {AVAILABLE, UNAVAILABLE}:
                self._change_machines(event)
                kind = e.MACHINES_AVAILABLE if event.kind == AVAILABLE else e.MACHINES_UNAVAILABLE
                self.say(e.Notify(kind, event.procs, timestamp=now))
            else:
                told = {key: value for key, value in j.rounded(event.described).items() if key != "type"}
                self.say(e.Notify(event.kind, timestamp=now, extra=told))

    def _change_machines(self, event: ExternalEvent) -> None:
        assert self.hosts is not None
        for host in event.procs:
            state = HostState.UNAVAILABLE
            if event.kind == AVAILABLE:
                state = HostState.COMPUTING if self.hosts.jobs[host] else HostState.IDLE
            self.hosts.change(host, state, self.now)

    def _on_ready(self, _nothing: None) -> None:
        self._ready = True
        if self._ending:
            pending = ("jobs", self.n_running), ("calls", self.n_calls), ("kills", self.n_kills)
            for what, n in (*pending, ("jobs", self.n_submitted - self.n_over)):
                if n:
                    raise Refusal(f"the reply to SIMULATION_ENDS left {n} {what} behind")
            self.finished = True

    def _on_done(self, job: SimJob) -> None:
        self.n_running -= 1
        self.over(job)
        self._tell_completed(job)

    def _tell_completed(self, job: SimJob) -> None:
        self.say(e.JobCompleted(job.id, job.state, job.return_code, str(job.alloc), timestamp=self.stamp()))

    def over(self, job: SimJob) -> None:
        """Write a job down as over; it is forgotten when the next message leaves."""
        self.n_over += 1
        self.outputs.job(job)
        self._forget.append(job)

    def _on_called(self, _nothing: None) -> None:
        self.n_calls -= 1
        self.say(e.RequestedCall(timestamp=self.stamp()))

    def _on_killed(self, what: tuple[list[SimJob], dict[str, Any]]) -> None:
        jobs, progress = what
        for job in jobs:
            if job.state == e.COMPLETED_KILLED:
                self.n_running -= 1
                self.over(job)
                self._tell_completed(job)
        self.n_kills -= 1
        self.say(e.JobKilled(tuple(job.id for job in jobs), progress, timestamp=self.stamp()))

    def _on_message(self, what: tuple[SimJob, Any]) -> None:
        job, message = what
        self.say(e.FromJobMsg(job.id, j.rounded(message), timestamp=self.stamp()))

    def _write_schedule(self) -> None:
        platform = self.scenario.platform
        figures = schedule_figures(
            self.outputs.totals,
            self.book.times_s(),
            n_hosts=platform.n_procs + len(platform.storage),
            joules=self.execution.consumed_j,
            n_switches=self.execution.n_switches,
        )
        self.outputs.schedule(figures)
