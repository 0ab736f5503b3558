"""Who comes first of jobs submitted in one instant: in Batsim, whose id is the lesser text, so that 10 is before 9."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Final, TypeVar

from pybatsched.workload.findings import Linted

Where = TypeVar("Where", int, str)

OTHER_ORDER: Final = "instants whose jobs Batsim takes in another order than the file's: by id as text"


def out_of_turn(jobs: Iterable[tuple[float, str, Where]]) -> Iterator[Where]:
    """Give, for each instant at which the order differs, the place of the first job that another one overtakes.

    Jobs are (submission, id as text, place) in the order of their file. O(n log n).
    """
    in_turn = sorted(jobs, key=itemgetter(0))  # stable: equal times stay in the order of the file
    for _, group in groupby(in_turn, key=itemgetter(0)):
        yield from next(([place] for (_, a, place), (_, b, _) in pairwise(group) if b < a), ())


def see_order(jobs: Iterable[tuple[float, str, Any]], found: Linted) -> None:
    """Count the instants at which jobs are taken in another order than the file has them in. O(n log n)."""
    for place in out_of_turn(jobs):
        found.see(OTHER_ORDER, "kept; ids with as many digits each would be taken in turn", place, "note")
