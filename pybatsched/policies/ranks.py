"""The orders of a queue: what each ranks jobs by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pybatsched.core.jobs import Job
from pybatsched.policies.options import Order

#: The rank of a job that is planned for so many seconds, by the order's name. The lowest goes first, of equals who came
#: first.
RANKS: Final[dict[Order, Callable[[Job, float], float]]] = {
    "fcfs": lambda _job, _span_s: 0.0,
    "sjf": lambda _job, span_s: span_s,
    "ljf": lambda _job, span_s: -span_s,
    "narrowest": lambda job, _span_s: job.n_procs,
    "widest": lambda job, _span_s: -job.n_procs,
    "smallest_area": lambda job, span_s: job.n_procs * span_s,
    "largest_area": lambda job, span_s: -job.n_procs * span_s,
    "urgent_first": lambda job, _span_s: 0.0 if job.is_urgent() else 1.0,
}
