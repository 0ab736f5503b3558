"""The observation of an agent: arrays of fixed shapes with 32-bit numbers from 0 to 1.

* A number of processors is a share of the partition.
* A duration is on a logarithmic scale, `scaled`: 0 for no time, 1 for a year or more and for infinity.
* A number of jobs is on a logarithmic scale as well, which ends at 100,000.

`pybatsched.gym` in training and the policy ``rl`` use the same observations. This module needs numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from pybatsched.core.jobs import Job
from pybatsched.policies.choices import QUEUE, SUBMITTED_AT, ChoiceScheduler, Shown, all_scaled, scaled

#: What an agent sees: arrays of numbers from 0 to 1, by name.
#: "queue" has a row for each position of the window, with the columns `QUEUE`.
Observation: TypeAlias = dict[str, Shown]

#: The columns of "running", one row per job, earliest expected end first: whether the row has a job, its processors,
#: the remaining time by its estimate, the time since its start.
RUNNING: Final = ("is_there", "processors", "rest", "elapsed")
#: "machine": free and unavailable processors, numbers of waiting and running jobs, the time until the shadow time and
#: the extra processors (0 without a reservation).
MACHINE: Final = ("free", "away", "waiting", "running", "shadow", "extra")
#: "time": the elapsed share of the day and of the week, by the clock of the workload.
TIME: Final = ("day", "week")

DAY_S: Final = 86_400.0
WEEK_S: Final = 7 * DAY_S
MANY_JOBS: Final = 100_000
_COUNTS: Final = math.log1p(MANY_JOBS)


def shapes(window: int, running: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array, for a window and a number of running jobs."""
    return {
        "queue": (window, len(QUEUE)),
        "running": (running, len(RUNNING)),
        "machine": (len(MACHINE),),
        "time": (len(TIME),),
    }


def observe(scheduler: ChoiceScheduler, n_running: int) -> Observation:
    """Return the observation of a queue and its partition at the current time. O(window + n_running)."""
    now, partition = scheduler.now, scheduler.partition
    n, n_procs, reserved = scheduler.n_shown, partition.n_procs, scheduler.reserved
    queue = np.zeros((scheduler.window, len(QUEUE)), dtype=np.float32)
    if n:
        queue[:n] = scheduler.shown[:n]
        queue[:n, 3] = all_scaled(now - scheduler.table[SUBMITTED_AT, :n], now)
        may_start = scheduler.may_start
        if may_start.size:
            queue[:n, 4] = may_start
        if reserved is not None:
            place = next((place for place, entry in enumerate(scheduler.queue[:n]) if entry.job is reserved), None)
            if place is not None:
                queue[place, 5] = 1.0
    running = np.zeros((n_running, len(RUNNING)), dtype=np.float32)
    jobs = partition.running_jobs[:n_running]
    if jobs:
        _show_running(running[: len(jobs)], jobs, now, n_procs)
    shadow, extra = 0.0, 0.0
    if reserved is not None:
        shadow, extra = scaled(scheduler.shadow_at - now), scheduler.n_extra / n_procs
    rest = np.array(
        (
            partition.n_free / n_procs,
            partition.n_away / n_procs,
            _counted(len(scheduler.queue)),
            _counted(len(partition.running_jobs)),
            shadow,
            extra,
            now % DAY_S / DAY_S,
            now % WEEK_S / WEEK_S,
        ),
        dtype=np.float32,
    )
    n_facts = len(MACHINE)
    return {"queue": queue, "running": running, "machine": rest[:n_facts], "time": rest[n_facts:]}


def _show_running(rows: Shown, jobs: Sequence[Job], now: float, n_procs: int) -> None:
    """Fill in the rows of running jobs, which are sorted by expected end."""
    numbers: list[float] = []
    for job in jobs:
        end_at = job.expected_end_at
        began_at = now if job.started_at is None else job.started_at
        numbers += (job.n_procs, end_at - now if end_at > now else 0.0, now - began_at)
    found = np.array(numbers).reshape(-1, 3)
    longest_s = max(jobs[-1].expected_end_at - now, now)
    rows[:, 0] = 1.0
    rows[:, 1] = found[:, 0] / n_procs
    rows[:, 2:] = all_scaled(found[:, 1:], longest_s)


def _counted(n: int) -> float:
    return min(math.log1p(n) / _COUNTS, 1.0)
