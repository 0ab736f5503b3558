"""Batsim's ``--no-sched``: every job starts at 0 on the first processors, without a scheduler.

Batsim 4 does this, although its help promises one job after the other. Jobs share processors. As in Batsim, no rows
of jobs are written, because the server writes them and this mode has no server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.simulator import jobs as j
from pybatsched.simulator.execution import Execution
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import Loop, Process
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.simgrid.kernel import SimgridLoop
from pybatsched.simulator.simgrid.processes import SimgridExecution, SimgridProcesses
from pybatsched.simulator.world import World
from pybatsched.workload.jobs import full_id
from pybatsched.workload.resample.feedback import check_no_feedback

Launch: TypeAlias = Callable[[list[SimJob]], None]


def run_all_at_once(scenario: Scenario, observers: Sequence[Observer]) -> float:
    """Run all jobs of a scenario at once, without events; return the last end. O(jobs) per start and end."""
    check_no_feedback(scenario.workloads)
    shared = replace(scenario.options, compute_sharing=True)
    loop = Loop(_nothing, scenario.ends_at)
    world = World(replace(scenario, options=shared), loop, observers)
    execution, launch = _with_network(world) if world.has_network else _without_network(world)
    n_procs = scenario.platform.n_procs
    jobs = world.all_jobs()
    for job in jobs:
        if job.res > n_procs:
            raise InputError(
                f"job {job.id} requests {job.res} processors; expected at most {n_procs}, the size of the platform"
            )
        job.alloc = IntervalSet.span(0, job.res)
    with world.observers.opened(world.scenario, world.book):
        execution.begin_run()
        for name, workload in scenario.workloads.items():
            # The last job of the file first, as in Batsim with few jobs; with many, Batsim's order depends on hashes.
            launch([world.jobs[full_id(name, one)] for one in reversed(workload.values("id"))])
        world.loop.run()
        # Not the clock: it continues to the walltimes of jobs that have ended.
        ended_at = max((job.finished_at for job in jobs), default=0.0)
        execution.end_run(ended_at)
    return ended_at


def _without_network(world: World) -> tuple[Execution, Launch]:
    execution = Execution(world)

    def launch(jobs: list[SimJob]) -> None:
        for job in jobs:
            job.process = _run_job(job, execution, world.loop)
            world.loop.spawn(job.process)

    return execution, launch


def _with_network(world: World) -> tuple[Execution, Launch]:
    scenario = world.scenario
    world.loop = loop = SimgridLoop(_nothing, scenario.ends_at, scenario.platform, lambda: False)
    execution = SimgridExecution(world, loop)
    processes = SimgridProcesses(world, execution, loop)

    def launcher(jobs: list[SimJob]) -> Process:
        for job in jobs:
            job.state = j.RUNNING
            job.process = processes.run_unannounced(job)
            yield loop.creation_of(job.process)

    return execution, lambda jobs: loop.spawn(launcher(jobs))


def _nothing() -> None:
    """Do nothing: there is no scheduler to send messages to."""


def _run_job(job: SimJob, execution: Execution, loop: Loop) -> Process:
    job.started_at = loop.now
    job.state = j.RUNNING
    execution.started(job)
    job.end((yield from execution.execute(job, job.work, [job.walltime])))
    execution.ended(job)
