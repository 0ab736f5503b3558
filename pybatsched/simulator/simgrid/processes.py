"""The kernel with the clock of SimGrid: submitters, jobs with their tasks, kills and calls, as Batsim's processes.

They do the same as those of the exact clock, call by call as in Batsim: a kill looks at the progress of a task and
cancels it, and the job then ends by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from pybatsched.core import events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.simulator import jobs as j
from pybatsched.simulator.execution import SHORTEST_CALL_S, Answer, Execution, Handler, Steps, greeted
from pybatsched.simulator.external_events import ExternalEvent
from pybatsched.simulator.hosts import HostState
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import Process
from pybatsched.simulator.simgrid.kernel import CANCELLED, ROUND, Exec, Flops, SimgridLoop, doing
from pybatsched.simulator.simgrid.meters import WAY_DOWN, WAY_UP, Meters, exact_sum
from pybatsched.simulator.simgrid.numbers import as_read
from pybatsched.simulator.work import profiles as w
from pybatsched.simulator.work.profiles import Frame, Transfers, Work, progress_node
from pybatsched.simulator.work.usage_traces import Phases, hosts_of, n_cores_used
from pybatsched.simulator.world import Refusal, World

#: The calls with which a process describes a task in SimGrid 3.32, before it starts it: flops, bytes and hosts.
_ROUNDS_TO_DESCRIBE: Final = 3

T = TypeVar("T")


class SimgridExecution(Execution):
    """Creates the processes of one simulation, with shared hosts, communication and energy."""

    def __init__(self, world: World, loop: SimgridLoop) -> None:
        super().__init__(world, loop)
        self._simgrid = loop
        self._joules_before: dict[str, list[float]] = {}  # of running jobs: those of their hosts at the start
        if world.options.energy:
            self.meters = Meters(world.scenario.platform.hosts, loop.load_of, loop.change_speed, loop.actions)
            loop.watch(self.meters)
            self.switch = Switching(world, self, loop, self.meters).switch

    def as_read(self, answer: Answer) -> Answer:
        """Return a reply with its times as Batsim reads them."""
        now, decisions = answer
        return as_read(now), [
            decision if decision.timestamp is None else replace(decision, timestamp=as_read(decision.timestamp))
            for decision in decisions
        ]

    def submit(self, take_jobs: Callable[[], Iterator[SimJob]], submitted: Handler, goodbye: Handler) -> Process:
        """Submit the jobs of a workload."""
        yield greeted, None
        jobs = list(take_jobs())
        for job in jobs:
            job.subtime = as_read(job.subtime)
        jobs.sort(key=lambda job: (job.subtime, job.id))
        jobs.reverse()
        remaining = (jobs.pop() for _ in range(len(jobs)))  # drops each job, so that finished jobs can be freed
        yield from self._batches(remaining, lambda job: job.subtime, submitted, self._first_submission())
        yield goodbye, None

    def occur(self, events: Iterable[ExternalEvent], occurred: Handler, goodbye: Handler) -> Process:
        """Post external events."""
        yield greeted, None
        yield from self._batches(events, lambda event: as_read(event.at), occurred)
        yield goodbye, None

    def _batches(
        self, items: Iterable[T], due: Callable[[T], float], post: Handler, first: Iterable[Any] = ()
    ) -> Process:
        """Post all items of one instant together. As in Batsim, the time of posting delays what follows.

        The steps of `first` run when the first item is due. Rounding may leave the clock just before this time: a
        second item of the same time is then posted separately.
        """
        date = self._loop.now
        batch: list[T] = []
        for item in items:
            at = due(item)
            if at > date:
                if batch:
                    yield post, batch
                    batch = []
                yield from self._simgrid.sleep(at - date)
                date = self._loop.now
            batch.append(item)
            yield from first  # nothing is left of it after the first item
        if batch:
            yield post, batch

    def _first_submission(self) -> Process:
        """Read the energy at the first submission, unless the submitter of another workload was first."""
        if self.meters is not None and self.meters.first_j is None:
            yield from self._simgrid.read_all()
            self.meters.first_j = self.meters.all_joules()

    # --- jobs ---

    def run(self, job: SimJob) -> Process:
        """Run a job from its start to the notice of its end."""
        yield from self.run_unannounced(job)
        if job.state != e.COMPLETED_KILLED:  # the kill announces the end
            self._simgrid.post(self._on_done, job)

    def run_unannounced(self, job: SimJob) -> Process:
        """Run a job from its start to its end, on the first of its processors."""
        job.started_at = self._loop.now
        job.trail = []
        yield from self._read(job)
        self._simgrid.place(job.alloc.lowest)
        if self.meters is not None:
            self._joules_before[job.id] = self.meters.joules_of(job.alloc)
            self.show_energy("s")
        self.started(job)
        code = yield from self.execute(job, job.work, [as_read(job.walltime)])
        if code == j.KILLED_TASK:
            job.return_code = code
            job.state = e.COMPLETED_KILLED
        else:
            job.end(code)
        yield from self._end(job)

    def _end(self, job: SimJob) -> Process:
        """Release the processors of a job and record its energy, with the six decimals of Batsim's exact difference."""
        self.release(job)
        yield from self._read(job)
        if self.meters is not None:
            self.show_energy("e")
            before = exact_sum(self._joules_before.pop(job.id))
            job.energy_j = float(round(exact_sum(self.meters.joules_of(job.alloc)) - before, 6))
            self.meters.last_j = self.meters.all_joules()

    def _read(self, job: SimJob) -> Process:
        """Update the energy meters of a job, then those of all other hosts."""
        yield from self._simgrid.read(job.alloc)
        yield from self._simgrid.read_all()

    def call(self, at: float) -> Process:
        """Send a requested call to the scheduler."""
        yield from self._simgrid.sleep(max(as_read(at) - self._loop.now, SHORTEST_CALL_S))
        self._simgrid.post(self._on_called, None)

    def kill(self, jobs: list[SimJob]) -> Process:
        """Stop the running ones of these jobs now; jobs that have ended are left unchanged."""
        progress: dict[str, Any] = {}
        for job in jobs:
            if job.state != j.RUNNING or job.process is None:
                continue
            task = job.trail[-1].share if job.trail else None
            if isinstance(task, Exec):
                yield doing(partial(self._look_at, job, progress))
                yield doing(partial(self._simgrid.cancel_exec, task))
            else:
                progress[job.id] = _node_without_task(job, self._loop.now)
                yield doing(partial(self._simgrid.kill, job.process))
                job.state = e.COMPLETED_KILLED
                job.return_code = -1
                yield from self._end(job)
        yield self._on_killed, (jobs, progress)

    def _look_at(self, job: SimJob, progress: dict[str, Any]) -> None:
        progress[job.id] = progress_node(job.trail, self._loop.now)

    # --- work ---

    def why_varying_refused(self, work: Work) -> str:
        """Return that communication needs a network."""
        platform = self._world.scenario.platform
        needs_links = work.communicates and platform.network is None
        return f"on {platform.source}, without a network (use a platform file with links)" if needs_links else ""

    def _sleep(self, span_s: float, left: list[float]) -> Steps:
        """Sleep until the end or the walltime, whichever comes first."""
        limit, span_s = left[0], as_read(span_s)
        if limit < 0 or span_s < limit:
            yield from self._simgrid.sleep(span_s)
            if limit > 0:
                left[0] = limit - span_s
            return 0
        yield from self._simgrid.sleep(limit)
        left[0] = 0.0
        return j.WALLTIME_REACHED

    def _compute(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Run a parallel task, which succeeds if it takes exactly the remaining walltime, or replay a usage trace."""
        if work.kind == w.USAGE:
            return (yield from self._replay(job, work, left))
        limit, begun = left[0], self._loop.now
        task = Exec(*self._amounts(job, work))
        yield from self.run_task(task, limit, frame)
        if limit >= 0:
            left[0] = limit - (self._loop.now - begun)
        if task.is_late:
            return j.WALLTIME_REACHED
        return j.KILLED_TASK if task.state == CANCELLED else 0

    def run_task(self, task: Exec, limit: float = -1.0, frame: Frame | None = None) -> Process:
        """Describe, start and await a task, at most for a time unless that is below 0."""
        for _ in range(_ROUNDS_TO_DESCRIBE):
            yield ROUND
        if frame is not None:
            frame.share = task
        yield partial(self._simgrid.start_exec, task)
        yield partial(self._simgrid.wait_exec, task, limit if limit >= 0 else -1.0)

    def _replay(self, job: SimJob, work: Work, left: list[float]) -> Steps:
        """Replay a usage trace: a process for each rank, which run independently of each other."""
        limit, begun, loop = left[0], self._loop.now, self._simgrid
        ranks: list[Process] = []
        all_ranks = loop.latch(len(work.ranks))
        for phases, host in zip(work.ranks, hosts_of(work.ranks, job.fields, job.places()), strict=True):
            ranks.append(self._rank(phases, host, job.alloc.lowest, all_ranks))
            yield loop.creation_of(ranks[-1])
        try:
            yield partial(loop.wait_exec, all_ranks, limit if limit >= 0 else -1.0)
        finally:  # also after a kill
            loop.drop_latch(all_ranks)
            for rank in ranks:
                loop.kill(rank)
        if limit >= 0:
            left[0] = limit - (self._loop.now - begun)
        return j.WALLTIME_REACHED if all_ranks.is_late else 0

    def _rank(self, phases: Phases, host: int, job_host: int, all_ranks: Exec) -> Process:
        """Run the phases of a rank. Its end is a message to the host of the job, which reads the meters of both."""
        self._simgrid.place(host)
        n_cores = self._world.scenario.platform.hosts[host].n_cores
        for usage, flops in phases:
            yield from self.run_task(Exec([(host, flops)] * n_cores_used(usage, n_cores), ()))
        yield doing(partial(self._simgrid.count_down, all_ranks, host, job_host))

    def _amounts(self, job: SimJob, work: Work) -> tuple[Flops, Transfers]:
        """Return the flops of each executor, and the bytes between them. O(n²) if they communicate."""
        places = job.places()
        if work.kind == w.PFS:
            storage = self._storage(job, work, _label(work))
            reads, writes = (as_read(float(work.described.get(key, 0))) for key in ("bytes_to_read", "bytes_to_write"))
            bytes_of = [(place, storage, writes) for place in places] + [(storage, place, reads) for place in places]
            return [(place, 0.0) for place in (*places, storage)], bytes_of
        if work.kind == w.STAGING:
            src, dst = (self._storage(job, work, work.described[key]) for key in ("from", "to"))
            return [(src, 0.0), (dst, 0.0)], [(src, dst, as_read(float(work.described["nb_bytes"])))]
        flops = list(zip(places, work.flops(len(places), as_read), strict=True))
        transfers = work.transfers(places, as_read)
        if job.io is None or job.io.work is None:
            return flops, transfers
        return self._merged(job, job.io.alloc, job.io.work, (flops, transfers))

    def _merged(
        self, job: SimJob, alloc: IntervalSet, io: Work, own: tuple[Flops, Transfers]
    ) -> tuple[Flops, Transfers]:
        """Add the amounts of the additional I/O job to those of the job, host by host and pair by pair."""
        flops, transfers = own
        for frame in job.trail[:-1]:
            if frame.work.kind == w.COMPOSED:
                io = io.parts[frame.index % len(io.parts)]
        hosts = list(alloc)
        amounts: dict[int, float] = dict.fromkeys(sorted({*job.alloc, *alloc}), 0.0)
        for host, amount in (*flops, *zip(hosts, io.flops(len(hosts), as_read), strict=True)):
            amounts[host] += amount
        n_procs = self._world.scenario.platform.n_procs
        for host, amount in amounts.items():
            if amount > 0 and host >= n_procs:
                raise Refusal(f"job {job.id}: its additional_io_job has flops to compute on the storage host {host}")
        moved: dict[tuple[int, int], float] = {}
        for src, dst, amount in (*transfers, *io.transfers(hosts, as_read)):
            moved[src, dst] = moved.get((src, dst), 0.0) + amount
        return list(amounts.items()), [(src, dst, amount) for (src, dst), amount in sorted(moved.items())]

    def _storage(self, job: SimJob, work: Work, label: str) -> int:
        """Return the storage host of a label: by the decision, or the only one."""
        platform = self._world.scenario.platform
        n = platform.n_procs
        mapping = {} if job.io is None else job.io.storage_mapping
        if not mapping and work.kind == w.PFS:
            if len(platform.storage) == 1:
                return n
            raise Refusal(
                f"job {job.id}: profile {work.name} uses a storage, the platform has {len(platform.storage)}; expected "
                "a storage_mapping in EXECUTE_JOB"
            )
        if label not in mapping:
            raise Refusal(f"job {job.id}: profile {work.name} uses the storage {label!r}, which storage_mapping lacks")
        host = mapping[label]
        if not n <= host < n + len(platform.storage):
            raise Refusal(f"job {job.id}: storage_mapping maps {label!r} to host {host}, which is not a storage host")
        return host

    # --- energy ---

    def show_machines(self) -> None:
        """Show new states of machines."""
        for machines_changed in self._observers.machines_changed:
            machines_changed(self._loop.now)

    def show_energy(self, kind: str) -> None:
        """Show the energy consumed so far, at a start (s), an end (e) or a change of pstate (p)."""
        if self.meters is not None and self._observers.energy_read:
            joules = self.meters.total_j()
            for energy_read in self._observers.energy_read:
                energy_read(self._loop.now, joules, kind, self.meters.watts_min)


class Switching:
    """Changes pstates of hosts in a simulation with energy: at once, or through a virtual pstate to and from sleep."""

    def __init__(self, world: World, kernel: SimgridExecution, loop: SimgridLoop, meters: Meters) -> None:
        assert world.hosts is not None
        self._world = world
        self._loop = loop
        self._book = world.hosts
        self._kernel = kernel
        self._meters = meters

    def switch(self, hosts: IntervalSet, pstate: int) -> None:
        """Execute SET_RESOURCE_STATE. O(hosts)."""
        world, meters = self._world, self._meters
        self._check(hosts, pstate)
        meters.begin_switch(hosts, pstate)
        self._kernel.show_energy("p")
        falls_asleep = meters.is_sleep(hosts.lowest, pstate)
        self._show_pstate(hosts, WAY_DOWN if falls_asleep else WAY_UP)
        for host in hosts:
            if meters.is_sleep(host, pstate) or meters.is_sleep(host, meters.pstate(host)):
                down = meters.is_sleep(host, pstate)
                self._book.change(host, HostState.SWITCHING_OFF if down else HostState.SWITCHING_ON, world.now)
                world.n_switching += 1
                self._loop.spawn(self._switch_host(host, pstate))
            else:
                self._loop.change_then(partial(meters.set_pstate, host, pstate), partial(self._arrived, host, pstate))
        self._loop.change_then(None, self._kernel.show_machines)

    def _show_pstate(self, hosts: IntervalSet, pstate: int) -> None:
        for pstate_changed in self._world.observers.pstate_changed:
            pstate_changed(self._world.now, hosts, pstate)

    def _check(self, hosts: IntervalSet, pstate: int) -> None:
        book, meters = self._book, self._meters
        if not hosts:
            raise Refusal("SET_RESOURCE_STATE has no machines")
        for host in hosts:
            if host >= len(book.states):
                raise Refusal(f"cannot change the pstate of machine {host}: it does not exist")
            if not meters.exists(host, pstate):
                raise Refusal(f"machine {host} has no pstate {pstate}")
            present = meters.pstate(host)
            if book.states[host] in {HostState.SWITCHING_ON, HostState.SWITCHING_OFF}:
                raise Refusal(f"machine {host} is already switching")
            if meters.is_sleep(host, present) and not meters.is_computation(host, pstate):
                raise Refusal(f"machine {host} is asleep: expected a computation pstate, found {pstate}")
            if meters.is_sleep(host, pstate) and book.jobs[host]:
                raise Refusal(f"machine {host} cannot sleep: it computes {', '.join(book.jobs[host])}")
            if not meters.is_sleep(host, pstate) and not meters.is_computation(host, pstate):
                raise Refusal(
                    f"machine {host}: expected a computation or sleep pstate, found the switching pstate {pstate}"
                )

    def _switch_host(self, host: int, pstate: int) -> Process:
        """Compute one flop in the virtual pstate, at full load, in a process of its own on the host."""
        world, meters = self._world, self._meters
        down = meters.is_sleep(host, pstate)
        meters.set_pstate(host, meters.switch_pstate(host, pstate))
        self._loop.place(host)
        yield from self._kernel.run_task(Exec([(host, 1.0)], ()))
        meters.set_pstate(host, pstate)
        self._book.change(host, HostState.SLEEPING if down else HostState.IDLE, world.now)
        yield self._on_switched, (host, pstate)

    def _on_switched(self, what: tuple[int, int]) -> None:
        world = self._world
        world.n_switching -= 1
        if self._arrived(*what):
            self._kernel.show_machines()

    def _arrived(self, host: int, pstate: int) -> bool:
        """Record that a host has reached its pstate, and notify the scheduler if it was the last of its request."""
        hosts = self._meters.arrived(host, pstate)
        if hosts is None:
            return False
        world = self._world
        self._show_pstate(hosts, pstate)
        self._kernel.show_energy("p")
        world.outbox.append(e.ResourceStateChanged(hosts, str(pstate), timestamp=world.stamp()))
        return True


def _node_without_task(job: SimJob, now: float) -> dict[str, Any]:
    """Return the progress of a job that runs no task. A task that is not described yet has no progress."""
    root = node = progress_node(job.trail, now)
    while "current_task" in node:
        node = node["current_task"]
    if job.trail[-1].work.is_parallel:
        del node["progress"]
        node["current_task_index"] = -1
    return root


def _label(work: Work) -> str:
    described = work.described
    label: str = described.get("storage", described.get("host", "pfs"))
    return label
