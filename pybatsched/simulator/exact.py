"""The kernel with the exact clock: work of a fixed speed, which is delays and tasks on processors of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from pybatsched.core import events as e
from pybatsched.errors import setting
from pybatsched.simulator import jobs as j
from pybatsched.simulator.execution import SHORTEST_CALL_S, Execution, Handler, Steps, greeted
from pybatsched.simulator.loop import SOON, Loop, Process
from pybatsched.simulator.options import EXACT, SIMGRID
from pybatsched.simulator.work.profiles import DELAY, PARALLEL, TOTAL, Frame, Work, progress_node
from pybatsched.simulator.work.sharing import SharedResource, Sharing, User

if TYPE_CHECKING:
    from pybatsched.simulator.external_events import ExternalEvent
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.world import World

T = TypeVar("T")


class ExactExecution(Execution):
    """Creates the processes of one simulation with the exact clock."""

    def __init__(self, world: World, loop: Loop) -> None:
        super().__init__(world, loop)
        hosts = world.scenario.platform.hosts
        self._speeds = [host.speed for host in hosts]
        self._n_cores = [host.n_cores for host in hosts]
        self._is_uniform = len(set(self._speeds[: world.scenario.platform.n_procs])) == 1

    def submit(self, take_jobs: Callable[[], Iterator[SimJob]], submitted: Handler, goodbye: Handler) -> Process:
        """Submit the jobs of a workload."""
        yield greeted, None
        yield from _batches(take_jobs(), lambda job: job.subtime, submitted)
        yield goodbye, None

    def occur(self, events: Iterable[ExternalEvent], occurred: Handler, goodbye: Handler) -> Process:
        """Post external events."""
        yield greeted, None
        yield from _batches(events, lambda event: event.at, occurred)
        yield goodbye, None

    def run(self, job: SimJob) -> Process:
        """Run a job from its start to the notice of its end."""
        job.started_at = self._loop.now
        job.trail = []
        self.started(job)
        if job.work.kind == DELAY:  # most jobs: no nested generator is needed
            end_at, code = self._start_delay(job)
            yield end_at
            job.trail.pop()
        else:
            code = yield from self.execute(job, job.work, [job.walltime])
        job.end(code)
        self.release(job)
        self._loop.post(self._on_done, job)

    def call(self, at: float) -> Process:
        """Send a requested call to the scheduler."""
        yield max(at, self._loop.now + SHORTEST_CALL_S)
        self._loop.post(self._on_called, None)

    def kill(self, jobs: list[SimJob]) -> Process:
        """Stop the running ones of these jobs now; jobs that have ended are left unchanged."""
        progress = {}
        for job in jobs:
            if job.state == j.RUNNING and job.process is not None:
                progress[job.id] = progress_node(job.trail, self._loop.now)
                parallel = job.trail[-1].work.is_parallel
                job.process.close()
                job.state = e.COMPLETED_KILLED
                job.return_code = j.KILLED_TASK if parallel else -1
                self.release(job)
        yield self._on_killed, (jobs, progress)

    def why_varying_refused(self, work: Work) -> str:
        """Return that only the other clock executes it."""
        del work
        return f"with {setting('clock', EXACT)} (use {setting('clock', SIMGRID)})"

    def _start_delay(self, job: SimJob) -> tuple[float, int]:
        """Start a job that is a single delay; return its end and its return code. `execute` has the same effect."""
        work = job.work
        frame = Frame(work, self._loop.now)
        frame.span_s = work.delay_s
        job.trail.append(frame)
        end_at, code = self._sleep_end(work.delay_s, job.walltime)
        return end_at, code or work.ret

    def _sleep_end(self, span_s: float, limit_s: float) -> tuple[float, int]:
        """Return the end of a sleep and its return code. A sleep as long as the remaining walltime reaches it."""
        if limit_s < 0 or span_s < limit_s:
            return self._loop.now + span_s, 0
        return self._loop.now + limit_s, j.WALLTIME_REACHED

    def _sleep(self, span_s: float, left: list[float]) -> Steps:
        """Sleep until the end or the walltime, whichever comes first."""
        limit = left[0]
        end_at, code = self._sleep_end(span_s, limit)
        yield end_at
        if limit > 0:
            left[0] = 0.0 if code else limit - span_s
        return code

    def _compute(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Run a parallel task. A task that takes exactly the remaining walltime succeeds."""
        if self._is_later_part(job):
            yield SOON
        frame.span_s = span_s = self._span_s(job, work)
        limit = left[0]
        if limit < 0 or span_s <= limit:
            yield self._loop.now + span_s
            if limit >= 0:
                left[0] = limit - span_s
            return 0
        if self._is_later_part(job):
            yield SOON
        yield self._loop.now + limit
        left[0] = 0.0
        return j.WALLTIME_REACHED

    def _is_later_part(self, job: SimJob) -> bool:
        """Return whether a parallel task that starts now is not the first part of its job.

        In Batsim, a later part starts one scheduling round after its job has resumed, and waits for its walltime one
        round later still. Other processes that start to wait at the same instant, such as delays, therefore come
        before it. At the start of a job there are none, because each job starts in a separate round.
        """
        return self._loop.now > job.started_at

    def _span_s(self, job: SimJob, work: Work) -> float:
        """Return the length of a parallel task. O(1) on equal hosts, else O(n)."""
        if self._is_uniform and not job.mapping and work.kind != PARALLEL:
            cpu = float(work.described["cpu"])
            return (cpu / len(job.alloc) if work.kind == TOTAL else cpu) / self._speeds[0]
        places = job.places()
        cpus: dict[int, SharedResource] = {}
        needs, bound = [], math.inf
        for host, amount in zip(places, work.flops(len(places)), strict=True):
            if amount > 0:
                if host not in cpus:
                    cpus[host] = SharedResource(self._speeds[host] * self._n_cores[host])
                needs.append((cpus[host], amount))
                bound = min(bound, self._speeds[host] / amount)
        if not needs:
            return 0.0
        task, sharing = User(needs, bound), Sharing()  # executors of one task may share a host
        sharing.add(task)
        sharing.solve()
        return 1.0 / task.rate


def _batches(items: Iterable[T], due: Callable[[T], float], post: Handler) -> Process:
    """Post all items of one instant together, at that instant."""
    for at, batch in groupby(items, due):
        if at > 0.0:
            yield at
        yield post, list(batch)
