"""Moldable jobs: how far each can be spread, and what part of it gains by that, drawn from a few types."""

from __future__ import annotations

import copy
import itertools
import random
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from pybatsched.workload.model import Workload


class Type(NamedTuple):
    """A type of jobs: the parallel fraction of the work (Amdahl), the most processors, and the share of the jobs."""

    fraction: float
    limit: int
    share: float


#: Types t1 to t4 of Caniou, Charrier and Desprez 2011.
TYPES: Final = (Type(0.8, 32, 0.5), Type(0.9, 96, 0.3), Type(0.99, 256, 0.15), Type(0.999, 650, 0.05))


def with_types(workload: Workload, types: Sequence[Type], seed: int) -> Workload:
    """Give each job of more than one processor a type by chance, as its field `moldable`.

    With shares of less than 1 together the other jobs stay as they are. So do external ones, whose cluster runs them as
    they are; dice are thrown for them all the same, so that the others have the types that they have without external
    jobs. Nothing else of the jobs is changed but that they are in order of submission. O(n log n).
    """
    dice = random.Random(f"{seed}/moldable")  # noqa: S311  no secret
    bounds = list(itertools.accumulate(kind.share for kind in types))
    if abs(bounds[-1] - 1.0) < 1e-9:
        bounds[-1] = 1.0  # a sum of floats: nobody is to fall into the gap
    jobs, n_drawn = [], [0] * len(types)
    for job in sorted(workload.jobs, key=lambda job: job["subtime"]):
        place = bisect_right(bounds, dice.random()) if job["res"] > 1 else len(types)
        if place == len(types) or job.get("external") is True:
            jobs.append(job)
            continue
        n_drawn[place] += 1
        kind = types[place]
        jobs.append({**job, "moldable": {"fraction": kind.fraction, "limit": kind.limit}})
    drawn = [{**kind._asdict(), "n": n} for kind, n in zip(types, n_drawn, strict=True)]
    about = {**workload.about, "moldable": {"types": drawn, "seed": seed}}
    return Workload(jobs, copy.copy(workload.profiles), workload.n_procs, workload.source, about)
