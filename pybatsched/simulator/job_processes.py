"""Processes of the event loop that decisions start: a running job, a kill, a call. Each ends with a notice."""

from __future__ import annotations

from typing import Any, Final

from pybatsched.core import events as e
from pybatsched.simulator import jobs as j
from pybatsched.simulator.execution import Execution
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import SOON, Process
from pybatsched.simulator.work.profiles import DELAY, progress_node
from pybatsched.simulator.world import World

#: The shortest delay of a call, as in Batsim.
SHORTEST_CALL_S: Final = 1e-5


class JobProcesses:
    """Creates the processes of one simulation. The caller counts and spawns them; each uncounts itself at its end."""

    def __init__(self, world: World, execution: Execution) -> None:
        self._world = world
        self._execution = execution

    def run(self, job: SimJob) -> Process:
        """Run a job from its start to the notice of its end."""
        job.started_at = self._world.loop.now
        job.trail = []
        self._execution.started(job)
        if job.work.kind == DELAY and self._execution.power is None:  # most jobs: no nested generator is needed
            end_at, code = self._execution.start_delay(job)
            yield end_at
            job.trail.pop()
        else:
            code = yield from self._execution.execute(job, job.work, [job.walltime])
        job.end(code)
        if self._execution.ended(job):
            yield SOON  # processes that wake now and read no meters run first
            self._execution.meters_read()
        self._world.loop.post(self._on_done, job)

    def call(self, at: float) -> Process:
        """Send a requested call to the scheduler."""
        yield max(at, self._world.now + SHORTEST_CALL_S)
        self._world.loop.post(self._on_called, None)

    def kill(self, jobs: list[SimJob]) -> Process:
        """Stop the running ones of these jobs now; jobs that have ended are left unchanged."""
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
        world.record_finished(job)
        world.add_completed(job)

    def _on_called(self, _nothing: None) -> None:
        self._world.n_calls -= 1
        self._world.add_event(e.RequestedCall(timestamp=self._world.stamp()))

    def _on_killed(self, what: tuple[list[SimJob], dict[str, Any]]) -> None:
        jobs, progress = what
        for job in jobs:
            if job.state == e.COMPLETED_KILLED:
                self._on_done(job)
        self._world.n_kills -= 1
        ids = tuple(job.id for job in jobs)
        self._world.add_event(e.JobKilled(ids, progress, timestamp=self._world.stamp()))
