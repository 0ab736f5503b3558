"""A workload in memory: jobs and profiles with the fields of Batsim's files, checked when it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pybatsched.errors import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybatsched.workload.job_columns import JobColumns


@dataclass(slots=True)
class Workload:
    """Jobs and profiles as a Batsim workload file holds them.

    `jobs` are in the order of the file, each with `id` (text or integer), `subtime`, `res`, `profile` and any other
    fields: a list of dictionaries, or the columns of a log (`job_columns`), which make new dictionaries each time they
    are read. Do not change these dictionaries: other workloads share them. `n_procs` is the file's `nb_res`, the size
    of its machine. `source` names the file in messages, and `about` holds the other top-level members of the file.
    `batsim` is the version of the file's format, 4 or 5; it is 0 if the workload is not the unchanged content of such
    a file.
    """

    jobs: list[dict[str, Any]] | JobColumns
    profiles: dict[str, dict[str, Any]]
    n_procs: int
    source: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    batsim: int = field(default=0, compare=False)

    def at(self, places: Sequence[int]) -> list[dict[str, Any]] | JobColumns:
        """Return some jobs by their places, in this order. O(places)."""
        return [self.jobs[place] for place in places] if isinstance(self.jobs, list) else self.jobs.at(places)

    def values(self, name: str, missing: Any = None) -> list[Any]:
        """Return a field of all jobs, or another value where a job does not have it. O(jobs)."""
        if isinstance(self.jobs, list):
            return [job.get(name, missing) for job in self.jobs]
        found = self.jobs.values(name)
        return found if missing is None else [missing if value is None else value for value in found]

    @property
    def fields(self) -> set[str]:
        """The names of the fields that some job has. O(jobs), O(1) for a log."""
        if isinstance(self.jobs, list):
            return set[str]().union(*self.jobs)
        return set(self.jobs.fields)

    @property
    def why_empty(self) -> str:
        """Why the workload has no jobs: the number of dropped jobs by rule, if known."""
        report = self.about.get("report")
        rules = report.get("rules") if isinstance(report, dict) else None
        dropped = [
            f"{quantity(what['count'], 'job')}: {rule}"
            for rule, what in (rules.items() if isinstance(rules, dict) else ())
            if isinstance(what, dict) and what.get("fate") == "dropped" and isinstance(what.get("count"), int)
        ]
        return ", ".join(dropped) or "the file has no jobs"
