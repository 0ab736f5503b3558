"""Batsim's processes with the clock of SimGrid: submitters, jobs with their tasks, kills and calls.

They do the same as those of the exact clock, call by call as in Batsim: a kill looks at the progress of a task and
cancels it, and the job then ends by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeVar

from pybatsched.core import events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.simulator import jobs as j
from pybatsched.simulator.execution import Execution, Steps
from pybatsched.simulator.external_events import ExternalEvent
from pybatsched.simulator.job_processes import SHORTEST_CALL_S, JobProcesses
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import Process
from pybatsched.simulator.machine.power import Power
from pybatsched.simulator.simgrid.kernel import CANCELLED, ROUND, Actor, Exec, Flops, SimgridLoop, Sleep
from pybatsched.simulator.simgrid.meters import Meters
from pybatsched.simulator.simgrid.numbers import as_read
from pybatsched.simulator.work import profiles as w
from pybatsched.simulator.work.profiles import Frame, Transfers, Work, progress_node
from pybatsched.simulator.world import Refusal, World

#: The calls with which a process describes a task in SimGrid 3.32, before it starts it: flops, bytes and hosts.
_ROUNDS_TO_DESCRIBE: Final = 3

T = TypeVar("T")
Handler = Callable[[Any], None]


class SimgridExecution(Execution):
    """Runs the work of jobs as tasks of SimGrid, with communication."""

    def __init__(self, world: World, loop: SimgridLoop) -> None:
        super().__init__(world)
        self._simgrid = loop
        self.tasks = None
        self._joules_before: dict[str, Fraction] = {}  # of running jobs: the energy of their hosts at the start
        if self.power is not None:
            hosts = world.scenario.platform.hosts
            self.power = loop.meters = Meters(hosts, loop.load_of, loop.change_speed, lambda: loop.actions.now)
            loop.actions.on_meter = loop.meters.update

    def started(self, job: SimJob) -> None:
        """Allocate the processors of a job, whose process runs on the first of them."""
        self._simgrid.place(job.alloc.lowest)
        super().started(job)
        if self._simgrid.meters is not None:
            self._joules_before[job.id] = self._simgrid.meters.exact_joules_of(job.alloc, self._loop.now)

    def count_energy(self, job: SimJob, power: Power) -> bool:
        """Record the energy of a job that ends, with the six decimals of Batsim's exact difference."""
        is_stale = super().count_energy(job, power)
        if self._simgrid.meters is not None:
            after = self._simgrid.meters.exact_joules_of(job.alloc, self._loop.now)
            job.energy_j = float(round(after - self._joules_before.pop(job.id), 6))
            self._last_j = self._exact_total_j(self._simgrid.meters)
        return is_stale

    def note_first_submission(self) -> None:
        """Remember the energy consumed when the first job of a run is submitted."""
        if self._simgrid.meters is not None:
            self._first_j = self._exact_total_j(self._simgrid.meters)

    def _exact_total_j(self, meters: Meters) -> Fraction:
        return meters.exact_joules_of(range(len(self._world.scenario.platform.hosts)), self._loop.now)

    def _sleep(self, span_s: float, left: list[float]) -> Steps:
        """Sleep until the end or the walltime, whichever comes first."""
        limit, span_s = left[0], as_read(span_s)
        if limit < 0 or span_s < limit:
            yield Sleep(span_s)
            if limit > 0:
                left[0] = limit - span_s
            return 0
        yield Sleep(limit)
        left[0] = 0.0
        return j.WALLTIME_REACHED

    def _compute(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Run a parallel task. A task that takes exactly the remaining walltime succeeds."""
        limit, begun, loop = left[0], self._loop.now, self._simgrid
        task = Exec(*self._amounts(job, work))
        for _ in range(_ROUNDS_TO_DESCRIBE):
            yield ROUND
        frame.share = task
        yield partial(loop.start_exec, task)
        yield partial(loop.wait_exec, task, limit if limit >= 0 else -1.0)
        if limit >= 0:
            left[0] = limit - (loop.now - begun)
        if task.is_late:
            return j.WALLTIME_REACHED
        return j.KILLED_TASK if task.state == CANCELLED else 0

    def one_flop(self, host: int) -> Process:
        """Compute one flop on a host, in a process of its own there."""
        self._simgrid.place(host)
        task = Exec([(host, 1.0)], ())
        for _ in range(_ROUNDS_TO_DESCRIBE):
            yield ROUND
        yield partial(self._simgrid.start_exec, task)
        yield partial(self._simgrid.wait_exec, task, -1.0)

    def _amounts(self, job: SimJob, work: Work) -> tuple[Flops, Transfers]:
        """Return the flops of each executor, and the bytes between them. O(n²) if they communicate."""
        hosts = list(job.alloc)
        places = [hosts[place] for place in job.mapping] if job.mapping else hosts
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


class SimgridProcesses(JobProcesses):
    """Creates the processes of one simulation with the clock of SimGrid."""

    def __init__(self, world: World, execution: SimgridExecution, loop: SimgridLoop) -> None:
        super().__init__(world, execution)
        self._simgrid = loop

    def run(self, job: SimJob) -> Process:
        """Run a job from its start to the notice of its end."""
        yield from self.run_unannounced(job)
        if job.state != e.COMPLETED_KILLED:  # the kill announces the end
            self._simgrid.post(self._on_done, job)

    def run_unannounced(self, job: SimJob) -> Process:
        """Run a job from its start to its end."""
        job.started_at = self._world.loop.now
        job.trail = []
        yield from self._read(job)
        self._execution.started(job)
        code = yield from self._execution.execute(job, job.work, [as_read(job.walltime)])
        if code == j.KILLED_TASK:
            job.return_code = code
            job.state = e.COMPLETED_KILLED
        else:
            job.end(code)
        yield from self._end(job)

    def _end(self, job: SimJob) -> Process:
        """Release the processors of a job and count its energy."""
        self._execution.release(job)
        yield from self._read(job)
        if self._execution.power is not None:
            self._execution.count_energy(job, self._execution.power)

    def _read(self, job: SimJob) -> Process:
        """Update the energy meters of a job, then those of all other hosts."""
        if self._simgrid.meters is not None:
            yield from self._simgrid.read(job.alloc)
            yield from self._simgrid.read_all()

    def call(self, at: float) -> Process:
        """Send a requested call to the scheduler."""
        yield Sleep(max(as_read(at) - self._world.now, SHORTEST_CALL_S))
        self._simgrid.post(self._on_called, None)

    def kill(self, jobs: list[SimJob]) -> Process:
        """Stop the running ones of these jobs now; jobs that have ended are left unchanged."""
        progress: dict[str, Any] = {}
        for job in jobs:
            if job.state != j.RUNNING or job.process is None:
                continue
            task = job.trail[-1].share if job.trail else None
            if isinstance(task, Exec):
                yield partial(self._look_at, job, progress)
                yield partial(self._cancel, task)
            else:
                progress[job.id] = _node_without_task(job, self._world.now)
                yield partial(self._kill, job)
                job.state = e.COMPLETED_KILLED
                job.return_code = -1
                yield from self._end(job)
        yield self._on_killed, (jobs, progress)

    def _look_at(self, job: SimJob, progress: dict[str, Any], _actor: Actor) -> bool:
        progress[job.id] = progress_node(job.trail, self._world.now)
        return True

    def _cancel(self, task: Exec, _actor: Actor) -> bool:
        self._simgrid.cancel_exec(task)
        return True

    def _kill(self, job: SimJob, _actor: Actor) -> bool:
        assert job.process is not None
        self._simgrid.kill(job.process)
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


def submit(
    take_jobs: Callable[[], Iterable[SimJob]],
    execution: SimgridExecution,
    loop: SimgridLoop,
    submitted: Handler,
    goodbye: Handler,
) -> Process:
    """Submit the jobs of a workload, those of one instant in the order of their full ids. O(n log n)."""
    yield _greeted, None
    jobs = list(take_jobs())
    for job in jobs:
        job.subtime = as_read(job.subtime)
    jobs.sort(key=lambda job: (job.subtime, job.id))
    jobs.reverse()
    remaining = (jobs.pop() for _ in range(len(jobs)))  # drops each job, so that finished jobs can be freed
    yield from _batches(remaining, lambda job: job.subtime, submitted, loop, _first_submission(execution, loop))
    yield goodbye, None


def _first_submission(execution: SimgridExecution, loop: SimgridLoop) -> Process:
    """Read the energy at the first submission, unless the submitter of another workload was first."""
    if execution.power is not None and execution.awaits_first_submission:
        yield from loop.read_all()
        execution.note_first_submission()


def occur(events: Iterable[ExternalEvent], loop: SimgridLoop, occurred: Handler, goodbye: Handler) -> Process:
    """Post external events, which are sorted by time."""
    yield _greeted, None
    yield from _batches(events, lambda event: as_read(event.at), occurred, loop)
    yield goodbye, None


def _batches(
    items: Iterable[T], due: Callable[[T], float], post: Handler, loop: SimgridLoop, first: Iterable[Any] = ()
) -> Process:
    """Post all items of one instant together. As in Batsim, the time of posting delays what follows.

    The steps of `first` run when the first item is due. Rounding may leave the clock just before this time: a second
    item of the same time is then posted separately.
    """
    date = loop.now
    batch: list[T] = []
    for item in items:
        at = due(item)
        if at > date:
            if batch:
                yield post, batch
                batch = []
            yield Sleep(at - date)
            date = loop.now
        batch.append(item)
        yield from first  # nothing is left of it after the first item
    if batch:
        yield post, batch


def _greeted(_nothing: None) -> None:
    """Do nothing: the hello is a message, as in Batsim."""
