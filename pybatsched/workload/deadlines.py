"""Deadlines for some of a workload's jobs, as studies of deadlines give them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable

from pybatsched.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.model import Workload
from pybatsched.workload.walltimes import tidy


def with_deadlines(workload: Workload, chosen: Iterable[int], *, least_s: float, factor: float) -> Workload:
    """Give the jobs at these places (in order of submission, from 0) `max_stay` = max(least_s, factor x estimate).

    The estimate is the job's field, else its walltime, else its run time. Nothing of the old workload is changed. O(n).
    """
    places = set(chosen)
    jobs = []
    for place, job in enumerate(sorted(workload.jobs, key=lambda job: job["subtime"])):
        if place not in places:
            jobs.append(job)
            continue
        planned_s = job.get("estimate", job.get("walltime", -1))
        if not isinstance(planned_s, int | float) or planned_s <= 0:
            planned_s = delay_of(workload.profiles[job["profile"]], workload.profiles)
        if planned_s is None:
            raise InputError(
                f"{workload.source}: job {job['id']}: no estimate, walltime or delay to derive a deadline from"
            )
        jobs.append({**job, "max_stay": tidy(max(least_s, factor * planned_s))})
    about = {**workload.about, "deadlines": {"n": len(places), "least_s": least_s, "factor": factor}}
    return Workload(jobs, copy.copy(workload.profiles), workload.n_procs, workload.source, about)


def every(n_jobs: int, step: int, first: int = 0) -> range:
    """Choose every so-manieth job.

    >>> list(every(10, 3, 2))
    [2, 5, 8]
    """
    return range(first, n_jobs, step)


def drawn(n_jobs: int, share: float, seed: int) -> list[int]:
    """Choose each job with a probability, by a seed."""
    dice = random.Random(seed)  # noqa: S311  no secret
    return [place for place in range(n_jobs) if dice.random() < share]
