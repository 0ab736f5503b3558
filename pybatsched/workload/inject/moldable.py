"""Make jobs moldable: assign random types with a parallel fraction and a maximum number of processors."""

from __future__ import annotations

import copy
import itertools
import random
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from pybatsched.workload.model import Workload


class MoldableType(NamedTuple):
    """A type of jobs: the parallel fraction (Amdahl), the maximum number of processors, and the share of jobs."""

    fraction: float
    limit: int
    share: float


#: Types t1 to t4 of Caniou, Charrier and Desprez 2011.
TYPES: Final = (
    MoldableType(0.8, 32, 0.5),
    MoldableType(0.9, 96, 0.3),
    MoldableType(0.99, 256, 0.15),
    MoldableType(0.999, 650, 0.05),
)


def with_types(workload: Workload, types: Sequence[MoldableType], seed: int) -> Workload:
    """Assign a random type to each job of more than one processor, as its field `moldable`. O(n log n).

    If the sum of shares is less than 1, the rest of the jobs gets no type. External jobs get none either, but they use
    a random number, so that the types of other jobs do not depend on which jobs are external. Jobs are sorted by
    submission and not changed otherwise.
    """
    rng = random.Random(f"{seed}/moldable")  # noqa: S311  no secret
    bounds = list(itertools.accumulate(kind.share for kind in types))
    if abs(bounds[-1] - 1.0) < 1e-9:
        bounds[-1] = 1.0  # a sum of floats may be slightly less than 1
    jobs, n_of_type = [], [0] * len(types)
    for job in sorted(workload.jobs, key=lambda job: job["subtime"]):
        place = bisect_right(bounds, rng.random()) if job["res"] > 1 else len(types)
        if place == len(types) or job.get("external") is True:
            jobs.append(job)
            continue
        n_of_type[place] += 1
        kind = types[place]
        jobs.append({**job, "moldable": {"fraction": kind.fraction, "limit": kind.limit}})
    counts = [{**kind._asdict(), "n": n} for kind, n in zip(types, n_of_type, strict=True)]
    about = {**workload.about, "moldable": {"types": counts, "seed": seed}}
    return Workload(jobs, copy.copy(workload.profiles), workload.n_procs, workload.source, about)
