"""Two runs of the same jobs, job by job: who ends earlier, who later, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pybatsched.metrics.classes import value_of
from pybatsched.metrics.distributions import distribution
from pybatsched.metrics.outcomes import DEFAULT_TAU_S, JobRecord

#: Ends that differ by no more than this are the same: files have six decimals.
SAME_S: Final = 1.5e-6


@dataclass(frozen=True, slots=True)
class Paired:
    """A measure in two runs. Ratios are second over first, so that below 1 the second is better.

    `n_pairs` jobs ran in both. `impacted` is the share of them that end at another time, `early` and `late` are shares
    of these. `mean_ratio` and `median_ratio` are over the `n_ratios` jobs that have the measure in both runs and whose
    first value is not 0 (think of waits), `impacted_ratio` is the mean over those impacted, `ratio_of_means` that of
    the two runs' means. None where nothing is to be divided.
    """

    measure: str
    n_pairs: int
    n_only_first: int
    n_only_second: int
    impacted: float | None
    early: float | None
    late: float | None
    n_ratios: int
    mean_ratio: float | None
    median_ratio: float | None
    impacted_ratio: float | None
    ratio_of_means: float | None

    def as_dict(self) -> dict[str, Any]:
        """Give the numbers by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def paired(
    first: Iterable[JobRecord],
    second: Iterable[JobRecord],
    measure: str = "flow_s",
    tau_s: float = DEFAULT_TAU_S,
) -> Paired:
    """Compare two runs job by job. O(n log n)."""
    before = {record.id: record for record in first if record.ran}
    after = {record.id: record for record in second if record.ran}
    pairs = [(before[job_id], after[job_id]) for job_id in before if job_id in after]
    moves = [b.ended_at - a.ended_at for a, b in pairs]
    n_early, n_late = sum(move < -SAME_S for move in moves), sum(move > SAME_S for move in moves)
    n_impacted = n_early + n_late
    both = ((value_of(a, measure, tau_s), value_of(b, measure, tau_s)) for a, b in pairs)
    values = [(x, y, move) for (x, y), move in zip(both, moves, strict=True) if x is not None and y is not None]
    ratios = [y / x for x, y, _ in values if x > 0]
    of_impacted = [y / x for x, y, move in values if x > 0 and abs(move) > SAME_S]
    shares = distribution(ratios)
    total = math.fsum(x for x, _, _ in values)
    return Paired(
        measure=measure,
        n_pairs=len(pairs),
        n_only_first=len(before) - len(pairs),
        n_only_second=len(after) - len(pairs),
        impacted=_share(n_impacted, len(pairs)),
        early=_share(n_early, n_impacted),
        late=_share(n_late, n_impacted),
        n_ratios=len(ratios),
        mean_ratio=shares.mean if shares is not None else None,
        median_ratio=shares.median if shares is not None else None,
        impacted_ratio=_mean(of_impacted),
        ratio_of_means=math.fsum(y for _, y, _ in values) / total if total > 0 else None,
    )


def _share(n: int, n_all: int) -> float | None:
    return n / n_all if n_all else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
