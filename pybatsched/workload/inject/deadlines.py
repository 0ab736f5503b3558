"""Add deadlines to some jobs of a workload."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from typing import Any, Final, Literal

from pybatsched.core.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.model import Workload
from pybatsched.workload.walltimes import tidy

#: The time of a job that is multiplied to get its deadline.
Basis = Literal["estimate", "walltime", "runtime"]
_FIELDS: Final[dict[Basis, tuple[str, ...]]] = {
    "estimate": ("estimate", "walltime"),
    "walltime": ("walltime", "estimate"),
    "runtime": (),
}
_WANTED: Final[dict[Basis, str]] = {
    "estimate": "estimate, walltime or delay",
    "walltime": "walltime, estimate or delay",
    "runtime": "delay",
}


def with_deadlines(
    workload: Workload, chosen: Iterable[int], *, least_s: float, factor: float, of: Basis = "estimate"
) -> Workload:
    """Set `max_stay` = max(least_s, factor x `of`) of the jobs at these places by submission. O(n log n)."""
    places = set(chosen)
    jobs = []
    for place, job in enumerate(sorted(workload.jobs, key=lambda job: job["subtime"])):
        if place not in places:
            jobs.append(job)
            continue
        planned_s = _planned_s(workload, job, of)
        if planned_s is None:
            raise InputError(f"{workload.source}: job {job['id']}: expected {_WANTED[of]} for its deadline, found none")
        plain = {key: value for key, value in job.items() if key != "deadline"}  # it could contradict max_stay
        jobs.append({**plain, "max_stay": tidy(max(least_s, factor * planned_s))})
    about = {**workload.about, "deadlines": {"n": len(places), "least_s": least_s, "factor": factor, "of": of}}
    return Workload(jobs, copy.copy(workload.profiles), workload.n_procs, workload.source, about)


def _planned_s(workload: Workload, job: dict[str, Any], of: Basis) -> float | None:
    for field in _FIELDS[of]:
        planned_s = job.get(field)
        if isinstance(planned_s, int | float) and planned_s > 0:
            return planned_s
    return delay_of(workload.profiles[job["profile"]], workload.profiles)


def every(n_jobs: int, step: int, first: int = 0) -> range:
    """Return the indices of every `step`-th job.

    >>> list(every(10, 3, 2))
    [2, 5, 8]
    """
    return range(first, n_jobs, step)


def random_jobs(n_jobs: int, share: float, seed: int) -> list[int]:
    """Return the indices of random jobs, each with probability `share`."""
    rng = random.Random(seed)  # noqa: S311  no secret
    return [place for place in range(n_jobs) if rng.random() < share]
