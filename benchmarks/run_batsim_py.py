"""A whole simulation with batsim-py, one choice per step. steps.py runs it with a Python that has batsim-py.

    python run_batsim_py.py PLATFORM WORKLOAD

Prints a line of JSON. In each step, the first job of the queue that fits is started, or none.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time


def cpu_s() -> float:
    """Return the CPU time so far of this process and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)


def main() -> None:
    """Simulate, and count steps."""
    platform, workload = sys.argv[1:]
    n_steps = n_jobs = 0
    waited_s = 0.0
    cpu, wall = cpu_s(), time.perf_counter()
    simulator = importlib.import_module("batsim_py").SimulatorHandler()  # not in the usual environment
    simulator.start(platform, workload, verbosity="quiet")
    while simulator.is_running:
        free = simulator.platform.get_not_allocated_hosts()
        job = next((job for job in simulator.queue if job.res <= len(free)), None)
        n_steps += 1
        if job is None:
            simulator.proceed_time()
        else:
            n_jobs += 1
            waited_s += simulator.current_time - job.subtime
            simulator.allocate(job.id, [host.id for host in free[: job.res]])
    row = {"n_steps": n_steps, "n_jobs": n_jobs, "wait_s": waited_s / max(n_jobs, 1)}
    print(json.dumps(row | {"cpu_s": cpu_s() - cpu, "wall_s": time.perf_counter() - wall}))


if __name__ == "__main__":
    main()
