"""Changes of jobs that may not start yet: without conditions on jobs that are not there, or without all rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import replace
from typing import Any

from pybatsched.core.dependencies import FIELDS, follows_only, with_ids
from pybatsched.errors import InputError, quantity
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.model import Workload


def without_rules(workload: Workload) -> tuple[Workload, int]:
    """Return a workload whose jobs may start from their submission on, and how many jobs had a rule. O(jobs)."""
    if workload.fields.isdisjoint(FIELDS):
        return workload, 0
    jobs = []
    n_changed = 0
    for job in workload.jobs:
        rules = {name for name in FIELDS if name in job}
        rules -= {"depends_on"} if "depends_on" in job and follows_only(job) else set()
        n_changed += bool(rules - {"array"})
        jobs.append({name: value for name, value in job.items() if name not in rules})
    return Workload(jobs, workload.profiles, workload.n_procs, workload.source, dict(workload.about)), n_changed


def ignored_note(n: int) -> str:
    """Return how many jobs start from their submission on because their rules are ignored, for reports."""
    are = "is" if n == 1 else "are"
    return f"{quantity(n, 'job')} with an eligible time, a dependency, a limit or a hold, which {are} ignored"


def known_only(workloads: Mapping[str, Workload]) -> tuple[dict[str, Workload], list[str]]:
    """Return the workloads of a run without conditions on other jobs, and notes. O(jobs). Raises InputError.

    Such a condition counts as met: the job ended before the run. The engine cannot know this before all jobs are
    submitted.
    """
    found = dict(workloads)
    if not any("depends_on" in workload.fields for workload in workloads.values()):
        return found, []
    names = {
        f"{name}!{str(one).rpartition('!')[2]}"
        for name, workload in workloads.items()
        for field in ("id", "array")
        for one in workload.values(field)
        if one is not None
    }
    notes = []
    for name, workload in workloads.items():
        loose = dict(_loose(name, workload, names))
        if loose:
            jobs = [loose.get(place, job) for place, job in enumerate(workload.jobs)]
            found[name] = replace(workload, jobs=jobs, batsim=0)
            n = quantity(len(loose), "job")
            notes.append(f"{workload.source}: {n}: depends on a job that is not in the run, which counts as met")
    return found, notes


def _loose(name: str, workload: Workload, names: AbstractSet[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the jobs with conditions on jobs that are not among the names, without these, and their places."""

    def known(one: str) -> str | None:
        return one if (one if "!" in one else f"{name}!{one}") in names else None

    for place, given in enumerate(workload.values("depends_on")):
        if given is None or type(given) is int or follows_only(job := workload.jobs[place]):
            continue
        try:
            made, is_loose = with_ids(job, known)
        except InputError as error:
            raise InputError(f"{workload.source}: {error}, found {shown(given)}") from None
        if is_loose:
            yield place, made
