"""Compare two runs of the same jobs, job by job: which jobs end earlier or later, and by how much."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pybatsched.metrics.distributions import distribution
from pybatsched.metrics.outcomes import LOST_JOBS
from pybatsched.metrics.slowdown import DEFAULT_TAU_S

if TYPE_CHECKING:
    from pybatsched.metrics.job_results import JobResults

#: Ends that differ by at most this many seconds are equal: files have six decimals.
SAME_S: Final = 1.5e-6
#: The members in which a run and its partner are equal.
PAIRED_BY: Final = ("workload", "platform", "seed", "repeat")
#: Returns the values by which a point is paired.
pair_key: Final = itemgetter(*PAIRED_BY)
#: The mark of figures over other jobs than those they are compared with.
OTHER_JOBS: Final = "other jobs"
_LOST: Final = ("n_rejected", "n_killed", "n_unfinished")

_Group = TypeVar("_Group", bound=Hashable)


class Ran(NamedTuple):
    """The jobs that ran, that were killed, and all jobs. `lost` is the figure `lost_jobs`, NaN if unknown."""

    n_ran: float
    n_killed: float
    n_jobs: float
    lost: float

    def __str__(self) -> str:
        killed = f", {self.n_killed:,.0f} killed" if self.n_killed else ""
        return f"{self.n_ran:,.0f} of {self.n_jobs:,.0f} ran{killed}"

    @property
    def share(self) -> float:
        """The share of the jobs that ran and were not killed."""
        return (self.n_ran - self.n_killed) / self.n_jobs if self.n_jobs else 1.0

    def differs(self, other: Ran) -> bool:
        """Return whether figures are over different jobs: by the share, and by the lost jobs if both are known."""
        return self.share != other.share or abs(self.lost - other.lost) > 0  # False with NaN


def ran_of(*runs: Mapping[str, Any]) -> Ran:
    """Return how many jobs ran in runs, by the counts among their figures."""
    n_jobs, n_rejected, n_killed, n_unfinished = (
        sum(run.get(name) or 0 for run in runs) for name in ("n_jobs", "n_rejected", "n_killed", "n_unfinished")
    )
    lost = [run.get(LOST_JOBS) or math.nan for run in runs if any(run.get(name) for name in _LOST)]
    return Ran(n_jobs - n_rejected, n_killed, n_jobs + n_unfinished, sum(lost))


def other_jobs(
    groups: Mapping[_Group, Iterable[Mapping[str, Any]]], compared: Callable[[_Group], Hashable]
) -> dict[_Group, str]:
    """Return which groups of runs have figures over other jobs than one with the same `compared`, and how many ran.

    Runs are compared by workload, platform, seed and repeat; one without a seed is compared with all seeds. A group is
    marked if another one ran more jobs of some workload, or as many but others. O(runs).
    """
    rows = [(group, (compared(group), *map(run.get, PAIRED_BY)), run) for group, runs in groups.items() for run in runs]
    seeds: dict[Hashable, set[Hashable]] = {}
    for _, key, _ in rows:
        if key[-2] is not None:
            seeds.setdefault(key[:-2], set()).add(key[-2:])
    pairs: dict[Hashable, dict[_Group, list[Mapping[str, Any]]]] = {}
    for group, key, run in rows:
        for seed in seeds.get(key[:-2], (key[-2:],)) if key[-2] is None else (key[-2:],):
            pairs.setdefault((key[:-2], seed), {}).setdefault(group, []).append(run)
    marked: set[_Group] = set()
    for own in pairs.values():
        found = {group: ran_of(*runs) for group, runs in own.items()}
        most = max(found.values(), key=lambda ran: ran.share)
        are_equal = not any(ran.differs(most) for ran in found.values() if ran.share == most.share)
        marked |= {group for group, ran in found.items() if not are_equal or ran.share < most.share}
    return {group: str(ran_of(*runs)) for group, runs in groups.items() if group in marked}


class JobStay(NamedTuple):
    """The first submission and the last end of a job."""

    submitted_at: float
    ended_at: float

    @property
    def response_s(self) -> float:
        """The response time: from submission to end."""
        return self.ended_at - self.submitted_at


class Impact(NamedTuple):
    """The differences between the ends of jobs in two runs.

    `n_pairs` jobs ran in both. `impacted` is the share of them that end at another time; `early` and `late` are shares
    of the impacted jobs. `response_ratio` is the mean response time of the impacted jobs over that of the same jobs in
    the first run. A figure is None if its denominator is 0.
    """

    n_pairs: int
    impacted: float | None
    early: float | None
    late: float | None
    response_ratio: float | None


def impact(first: Mapping[str, JobStay], second: Mapping[str, JobStay]) -> Impact:
    """Compare the ends of jobs that ran in two runs, by their ids. O(n)."""
    n_pairs = n_early = n_late = 0
    before: list[float] = []
    after: list[float] = []
    for job_id, one in first.items():
        other = second.get(job_id)
        if other is None:
            continue
        n_pairs += 1
        move_s = other.ended_at - one.ended_at
        if abs(move_s) > SAME_S:
            n_early += move_s < 0
            n_late += move_s > 0
            before.append(one.response_s)
            after.append(other.response_s)
    n_impacted = n_early + n_late
    total_s = math.fsum(before)
    return Impact(
        n_pairs,
        _share(n_impacted, n_pairs),
        _share(n_early, n_impacted),
        _share(n_late, n_impacted),
        math.fsum(after) / total_s if total_s > 0 else None,
    )


def stays_of(jobs: JobResults) -> dict[str, JobStay]:
    """Return the stay of each job that ran, by its id. O(n)."""
    columns = jobs.ran.select("id", "submitted_at", "ended_at")
    return {job_id: JobStay(submitted_at, ended_at) for job_id, submitted_at, ended_at in columns.iter_rows()}


@dataclass(frozen=True, slots=True)
class Paired:
    """A measure in two runs. Ratios are second over first, so that below 1 the second is better.

    `n_pairs`, `impacted`, `early`, `late` and `response_ratio` are those of `Impact` and do not depend on the measure.
    `mean_ratio` and `median_ratio` are over the `n_ratios` jobs that have the measure in both runs and whose first
    value is not 0 (a wait may be 0). `impacted_ratio` is the mean over the impacted jobs, `ratio_of_means` the ratio of
    the two runs' means. A figure is None if its denominator is 0.
    """

    measure: str
    n_pairs: int
    n_only_first: int
    n_only_second: int
    impacted: float | None
    early: float | None
    late: float | None
    response_ratio: float | None
    n_ratios: int
    mean_ratio: float | None
    median_ratio: float | None
    impacted_ratio: float | None
    ratio_of_means: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def paired(first: JobResults, second: JobResults, measure: str = "flow_s", tau_s: float = DEFAULT_TAU_S) -> Paired:
    """Compare two runs job by job. O(n log n)."""
    before, after = stays_of(first), stays_of(second)
    pairs = [job_id for job_id in before if job_id in after]
    ends = impact(before, after)
    xs, ys = (dict(zip(jobs.frame["id"], jobs.column(measure, tau_s), strict=True)) for jobs in (first, second))
    both = ((xs[job_id], ys[job_id], after[job_id].ended_at - before[job_id].ended_at) for job_id in pairs)
    values = [(x, y, move) for x, y, move in both if x is not None and y is not None]
    ratios = [y / x for x, y, _ in values if x > 0]
    of_impacted = [y / x for x, y, move in values if x > 0 and abs(move) > SAME_S]
    shares = distribution(ratios)
    total = math.fsum(x for x, _, _ in values)
    return Paired(
        measure=measure,
        n_pairs=len(pairs),
        n_only_first=len(before) - len(pairs),
        n_only_second=len(after) - len(pairs),
        impacted=ends.impacted,
        early=ends.early,
        late=ends.late,
        response_ratio=ends.response_ratio,
        n_ratios=len(ratios),
        mean_ratio=shares.mean if shares is not None else None,
        median_ratio=shares.median if shares is not None else None,
        impacted_ratio=math.fsum(of_impacted) / len(of_impacted) if of_impacted else None,
        ratio_of_means=math.fsum(y for _, y, _ in values) / total if total > 0 else None,
    )


def _share(n: int, n_all: int) -> float | None:
    return n / n_all if n_all else None
