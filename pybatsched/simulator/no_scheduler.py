"""Batsim's ``--no-sched``: every job starts at 0 on the first processors, without a scheduler.

Batsim 4 does this, although its help promises one job after the other. Jobs share processors. As in Batsim, no rows
of jobs are written, because the server writes them and this mode has no server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.simulator import jobs as j
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.kernels import kernel_of
from pybatsched.simulator.loop import Process
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.simgrid.kernel import SimgridLoop
from pybatsched.simulator.simgrid.processes import SimgridExecution
from pybatsched.simulator.world import World
from pybatsched.workload.jobs import full_id
from pybatsched.workload.resample.feedback import check_no_feedback


def run_all_at_once(scenario: Scenario, observers: Sequence[Observer]) -> float:
    """Run all jobs of a scenario at once, without events; return the last end. O(jobs) per start and end."""
    check_no_feedback(scenario.workloads)
    shared = replace(scenario.options, compute_sharing=True)
    world = World(replace(scenario, options=shared), observers)
    kernel = kernel_of(world, lambda: None, lambda: False)
    assert isinstance(kernel, SimgridExecution)
    assert isinstance(world.loop, SimgridLoop)
    n_procs = scenario.platform.n_procs
    jobs = world.all_jobs()
    for job in jobs:
        if job.res > n_procs:
            raise InputError(
                f"job {job.id} requests {job.res} processors; expected at most {n_procs}, the size of the platform"
            )
        job.alloc = IntervalSet.span(0, job.res)
    with world.observers.opened(world.scenario, world.book):
        for name, workload in scenario.workloads.items():
            # The last job of the file first, as in Batsim with few jobs; with many, Batsim's order depends on hashes.
            last_first = [world.jobs[full_id(name, one)] for one in reversed(workload.values("id"))]
            world.loop.spawn(_launch(last_first, kernel, world.loop))
        world.loop.run()
        # Not the clock: it continues to the walltimes of jobs that have ended.
        ended_at = max((job.started_at + job.runtime_s for job in jobs), default=0.0)
        kernel.end_run(ended_at)
    return ended_at


def _launch(jobs: list[SimJob], kernel: SimgridExecution, loop: SimgridLoop) -> Process:
    for job in jobs:
        job.state = j.RUNNING
        job.process = kernel.run_unannounced(job)
        yield loop.creation_of(job.process)
