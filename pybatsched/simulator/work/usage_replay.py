"""Replay of a usage trace: one process for each rank of a job, which runs its tasks one after the other on its host."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from pybatsched.simulator.jobs import WALLTIME_REACHED
from pybatsched.simulator.loop import SAME_INSTANT_S, SOON, Process
from pybatsched.simulator.work.usage_traces import Phases, hosts_of, n_cores_used

if TYPE_CHECKING:
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.loop import Loop
    from pybatsched.simulator.work.profiles import Work
    from pybatsched.simulator.work.tasks import Capacity, Tasks


class Replay:
    """The trace of one job. The job's process waits until all ranks end, its walltime is reached or it is killed."""

    def __init__(
        self, job: SimJob, work: Work, loop: Loop, tasks: Tasks, capacity_of: Callable[[int], Capacity]
    ) -> None:
        self._job = job
        self._ranks = work.ranks
        self._loop = loop
        self._tasks = tasks
        self._capacity_of = capacity_of
        self._n_left = len(work.ranks)
        self._is_over = False

    def run(self, left: list[float]) -> Generator[Any, None, int]:
        """Replay the trace until it ends or the remaining walltime is used up."""
        limit, begun = left[0], self._loop.now
        alloc = list(self._job.alloc)
        hosts = [alloc[place] for place in self._job.mapping] if self._job.mapping else alloc
        processes = []
        for phases, host in zip(self._ranks, hosts_of(self._ranks, self._job.fields, hosts), strict=True):
            own: list[Process] = []  # the process that the tasks of the rank wake
            own.append(self._rank(phases, host, own))
            processes += own
            self._loop.spawn(own[0])
        if limit >= 0:
            self._wake_at(begun + limit)
        try:
            while self._n_left:
                if limit >= 0 and self._loop.now >= begun + limit - SAME_INSTANT_S:
                    left[0] = 0.0
                    return WALLTIME_REACHED
                yield None
        finally:  # also after a kill
            self._is_over = True
            for process in processes:
                process.close()
        if limit >= 0:
            left[0] = limit - (self._loop.now - begun)
        return 0

    def _rank(self, phases: Phases, host: int, own: list[Process]) -> Process:
        capacity = self._capacity_of(host)
        for usage, flops in phases:
            n_cores = n_cores_used(usage, capacity.n_cores)
            if not flops:  # takes no time, but reads the meter of its host as other phases do
                if n_cores == 1:
                    self._tasks.read_meter(host)
                yield SOON
                self._tasks.read_meter(host)
                continue
            task = self._tasks.begin([(host, flops)] * n_cores, own[0])
            try:
                while not task.is_over(self._loop.now):
                    yield None
            finally:
                self._tasks.end(task)
        self._n_left -= 1
        self._wake_at(self._loop.now, (host, self._job.alloc.lowest))

    def _wake_at(self, at: float, hosts: Sequence[int] = ()) -> None:
        self._loop.wake_at(self._alarm(hosts), at, self._loop.next_wait())

    def _alarm(self, hosts: Sequence[int]) -> Process:
        """Wake the process of the job if it still waits. A rank cannot do so: the job's process may close the rank.

        In Batsim a rank that ends sends a message, and the end of the message reads the meters of both hosts.
        """
        if not self._is_over and self._job.process is not None:
            for host in hosts:
                self._tasks.read_meter(host)
            self._loop.resume(self._job.process)
        yield from ()
