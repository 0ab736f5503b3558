"""What a chooser is shown: arrays of fixed shapes, all numbers of 32 bits from 0 to 1.

* A number of processors is a share of the partition's.
* A span of time is on a scale of logarithms, `scaled`: 0 for no time, 1 for a year, for more, and for what has no end.
* A number of jobs is on such a scale as well, which ends at 100,000.

Both ways see the same: `pybatsched.gym` in training, and the policy ``rl`` everywhere else. This needs numpy.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pybatsched.policies.choices import SHARE, SUBMITTED_AT, ChoiceScheduler, all_scaled, scaled

Observation: TypeAlias = dict[str, NDArray[np.float32]]

#: The columns of "queue", one row a place of the window: whether a job is there, its processors, the time to plan for,
#: how long it has waited, whether it would start if it were chosen now, whether it is the one reserved for.
QUEUE: Final = ("is_there", "processors", "time", "wait", "may_start", "is_reserved")
#: The columns of "running", one row a job, soonest expected end first: whether a job is there, its processors, the time
#: that is left by its estimate, the time since it started.
RUNNING: Final = ("is_there", "processors", "rest", "elapsed")
#: "machine": processors that are free and that are away, numbers of jobs that wait and run, the time until the shadow
#: time and the processors beyond it (0 without a reservation).
MACHINE: Final = ("free", "away", "waiting", "running", "shadow", "extra")
#: "time": how much of the day and of the week is over, by the clock of the workload.
TIME: Final = ("day", "week")

DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S
MANY_JOBS: Final = 100_000
_COUNTS: Final = math.log1p(MANY_JOBS)


def shapes(window: int, running: int) -> dict[str, tuple[int, ...]]:
    """Give the shape of each array, for so many places of the queue and so many running jobs."""
    return {
        "queue": (window, len(QUEUE)),
        "running": (running, len(RUNNING)),
        "machine": (len(MACHINE),),
        "time": (len(TIME),),
    }


def observe(scheduler: ChoiceScheduler, n_running: int) -> Observation:
    """Show a queue and its partition as they are now, to who is to choose. O(window + n_running)."""
    now, partition = scheduler.now, scheduler.partition
    n, n_procs, reserved = scheduler.n_shown, partition.n_procs, scheduler.reserved
    queue = np.zeros((scheduler.window, len(QUEUE)), dtype=np.float32)
    if n:
        table, shown = scheduler.table, queue[:n]
        shown[:, 0] = 1.0
        shown[:, 1:3] = table[SHARE:, :n].T
        shown[:, 3] = all_scaled(now - table[SUBMITTED_AT, :n])
        may_start = scheduler.may_start
        if may_start.size:
            shown[:, 4] = may_start
        if reserved is not None:
            place = next((place for place, entry in enumerate(scheduler.queue[:n]) if entry.job is reserved), None)
            if place is not None:
                queue[place, 5] = 1.0
    running = np.zeros((n_running, len(RUNNING)), dtype=np.float32)
    rows = [
        (1.0, job.n_procs / n_procs, end_at - now, now - (now if job.started_at is None else job.started_at))
        for end_at, _, job in partition.running[:n_running]
    ]
    if rows:
        found = np.array(rows, dtype=np.float64)
        all_scaled(found[:, 2:])
        running[: len(rows)] = found
    shares = (partition.n_free / n_procs, partition.n_away / n_procs)
    counts = (_counted(len(scheduler.queue)), _counted(len(partition.running)))
    place_kept = (0.0, 0.0) if reserved is None else (scaled(scheduler.shadow_at - now), scheduler.n_extra / n_procs)
    return {
        "queue": queue,
        "running": running,
        "machine": np.array(shares + counts + place_kept, dtype=np.float32),
        "time": np.array((now % DAY_S / DAY_S, now % WEEK_S / WEEK_S), dtype=np.float32),
    }


def _counted(n: int) -> float:
    return min(math.log1p(n) / _COUNTS, 1.0)
