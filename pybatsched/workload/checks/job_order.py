"""Find jobs that Batsim takes in another order than their file: by id as text, if they are submitted together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final, TypeVar

from pybatsched.workload.report import LintReport

Where = TypeVar("Where", int, str)

OTHER_ORDER: Final = "submission times whose jobs Batsim takes in another order than the file: by id as text"


def overtaken_jobs(jobs: Iterable[tuple[float, str, Where]]) -> Iterator[Where]:
    """Yield the first overtaken of (submission, id, place) at each time with another order. O(n log n)."""
    ordered = sorted(jobs, key=itemgetter(0))  # stable: equal times stay in the order of the file
    for _, group in groupby(ordered, key=itemgetter(0)):
        jobs_then = list(group)
        if len(jobs_then) > 1:  # most jobs are alone
            yield from next(([place] for (_, a, place), (_, b, _) in pairwise(jobs_then) if b < a), ())


def check_order(jobs: Iterable[tuple[float, str, Any]], found: LintReport) -> None:
    """Count the submission times whose jobs Batsim takes in another order than the file. O(n log n)."""
    for place in overtaken_jobs(jobs):
        found.add(OTHER_ORDER, "kept; ids with the same number of digits would keep the order", place, "note")
