"""Shake a workload: move all submissions by small random amounts (Tsafrir, Ouaknine, Feitelson, MASCOTS 2007)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from pybatsched.errors import InputError
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import resubmitted
from pybatsched.workload.walltimes import tidy


def shake(workload: Workload, by_s: float, seed: int | str = 0) -> Workload:
    """Move each submission by a random amount from -by_s to +by_s, not before 0, and sort the jobs. O(n log n).

    All amounts are equally likely: whole seconds if `by_s` is one, else microseconds. Deadlines keep their distance
    from the submission. By 0 s, the workload is returned unchanged. The same seed gives the same copy. Raises
    InputError.
    """
    if not 0 <= by_s < math.inf:
        raise InputError(f"shake: expected 0 seconds or more to move submissions by, found {by_s:g}")
    if not by_s:
        return workload
    rng = random.Random(f"{seed}/shake")  # noqa: S311  no secret
    whole = by_s == int(by_s)
    jobs = []
    for job in workload.jobs:
        move_s = rng.randint(-int(by_s), int(by_s)) if whole else rng.uniform(-by_s, by_s)
        jobs.append(resubmitted(job, tidy(max(job["subtime"] + move_s, 0))))
    jobs.sort(key=lambda job: job["subtime"])  # stable: jobs of one time stay in the order of the workload
    about = {**workload.about, "shaken": {"by_s": tidy(by_s), "seed": seed}}
    return Workload(jobs, workload.profiles, workload.n_procs, workload.source, about)


def shaken(workload: Workload, n: int, by_s: float, seed: int) -> Iterator[Workload]:
    """Yield `n` shaken copies of a workload, with different random amounts. O(n log n) each."""
    for number in range(1, n + 1):
        yield shake(workload, by_s, f"{seed}/{number}")
