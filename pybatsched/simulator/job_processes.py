"""What goes on by itself once it was ordered: a job's life, a kill, a call. Each process ends with a notice."""

from __future__ import annotations

from typing import Any, Final

from pybatsched.core import events as e
from pybatsched.simulator import jobs as j
from pybatsched.simulator.execution import Execution
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import SOON, Process
from pybatsched.simulator.work.profiles import DELAY, progress_node
from pybatsched.simulator.world import World

#: A call comes at least so much later, as in Batsim.
SHORTEST_CALL_S: Final = 1e-5


class Lives:
    """Makes the processes of one simulation; the caller counts them in and spawns them, they count themselves out."""

    def __init__(self, world: World, execution: Execution) -> None:
        self._world = world
        self._execution = execution

    def run(self, job: SimJob) -> Process:
        """Live a job's life: from its start to the notice of its end."""
        job.started_at = self._world.loop.now
        job.trail = []
        self._execution.started(job)
        if job.work.kind == DELAY and self._execution.power is None:  # most jobs: no need of processes in processes
            end_at, code = self._execution.nap(job)
            yield end_at
            job.trail.pop()
        else:
            code = yield from self._execution.execute(job, job.work, [job.walltime])
        job.end(code)
        if self._execution.ended(job):
            yield SOON  # who wakes with it and has no meters to read is quicker
            self._execution.meters_read()
        self._world.loop.post(self._on_done, job)

    def call(self, at: float) -> Process:
        """Call the scheduler back."""
        yield max(at, self._world.now + SHORTEST_CALL_S)
        self._world.loop.post(self._on_called, None)

    def kill(self, jobs: list[SimJob]) -> Process:
        """Stop jobs at once; what had ended before is left as it is."""
        progress = {}
        for job in jobs:
            if job.state == j.RUNNING and job.process is not None:
                progress[job.id] = progress_node(job.trail, self._world.now)
                parallel = job.trail[-1].work.is_parallel
                job.process.close()
                job.state = e.COMPLETED_KILLED
                job.return_code = j.KILLED_TASK if parallel else -1
                self._execution.ended(job)
        yield self._on_killed, (jobs, progress)

    def _on_done(self, job: SimJob) -> None:
        world = self._world
        world.n_running -= 1
        world.over(job)
        world.tell_completed(job)

    def _on_called(self, _nothing: None) -> None:
        self._world.n_calls -= 1
        self._world.say(e.RequestedCall(timestamp=self._world.stamp()))

    def _on_killed(self, what: tuple[list[SimJob], dict[str, Any]]) -> None:
        jobs, progress = what
        for job in jobs:
            if job.state == e.COMPLETED_KILLED:
                self._on_done(job)
        self._world.n_kills -= 1
        ids = tuple(job.id for job in jobs)
        self._world.say(e.JobKilled(ids, progress, timestamp=self._world.stamp()))
