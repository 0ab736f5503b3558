"""The jobs of a workload in a run: each is made just before its submission, or when a decision names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any

from pybatsched.errors import InputError
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.work.profiles import Work
from pybatsched.simulator.work.usage_traces import check_ranks
from pybatsched.workload.jobs import are_names, in_order, name_in
from pybatsched.workload.model import Workload


class GivenJobs:
    """The jobs of one workload. Those that are made are put into `jobs`, by id; `n_unmade` are left.

    All jobs are checked at once: raises InputError for ids that are the same, and for jobs that do not fit their
    profile in `works`.
    """

    def __init__(self, name: str, workload: Workload, works: Mapping[str, Work], jobs: dict[str, SimJob]) -> None:
        self._name = name
        self._workload = workload
        self.works = works
        self._jobs = jobs
        self._made_early: list[SimJob] | None = None
        ids = workload.values("id")
        self.n_unmade = len(ids)
        self._name_of: Callable[[Any], str] = str if are_names(name, ids) else partial(name_in, name)
        _check_unique(name, ids, self._name_of)
        if any(work.sizes or work.rank_counts for work in works.values()):
            for fields in workload.jobs:
                check_fits(f"{name}!{self._name_of(fields['id'])}", fields, works[fields["profile"]])

    @cached_property
    def ids(self) -> set[str]:
        """The ids of the jobs in the run."""
        return {f"{self._name}!{self._name_of(given)}" for given in self._workload.values("id")}

    def arrivals(self) -> Iterator[SimJob]:
        """Yield the jobs in the order of their submissions and ids; one is made when it is next. O(n log n)."""
        for fields in in_order(self._workload, self._name_of):
            if self._made_early is not None:
                break
            self.n_unmade -= 1
            yield self._make(fields)
        yield from self._made_early or ()

    def make_all(self) -> None:
        """Make the jobs that are not made yet. O(n log n)."""
        if self.n_unmade:
            n_made = len(self._workload.jobs) - self.n_unmade
            self._made_early = list(map(self._make, islice(in_order(self._workload, self._name_of), n_made, None)))
            self.n_unmade = 0

    def _make(self, fields: dict[str, Any]) -> SimJob:
        job = SimJob(self._name, self._name_of(fields["id"]), fields, self.works[fields["profile"]])
        self._jobs[job.id] = job
        return job


def _check_unique(workload: str, ids: Sequence[Any], name_of: Callable[[Any], str]) -> None:
    seen: set[str] = set()
    for given in ids if len(set(map(name_of, ids))) != len(ids) else ():
        if (name := name_of(given)) in seen:
            raise spelled_twice(f"{workload}!{name}", given)
        seen.add(name)


def spelled_twice(job_id: str, given: Any) -> InputError:
    """Return the error for an id that another job has, too."""
    return InputError(f"expected unique job ids, found {job_id} twice: {given!r} is another spelling of the same id")


def check_fits(job_id: str, fields: Mapping[str, Any], work: Work) -> None:
    """Raise InputError for a job whose profile is written for other sizes."""
    if not work.sizes <= {fields["res"]}:
        written_for = ", ".join(map(str, sorted(work.sizes)))
        raise InputError(
            f"job {job_id} requests {fields['res']} processors; expected {written_for}, the size of its profile "
            f"{work.name}"
        )
    if work.rank_counts:
        check_ranks(work.rank_counts, fields, f"job {job_id}")
