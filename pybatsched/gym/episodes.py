"""Episodes of a workload: consecutive jobs, or the jobs of a time span, from a random start."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pybatsched.errors import InputError, quantity, setting
from pybatsched.runs.build import Built, build
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import RunSpec
from pybatsched.runs.workloads import Jobs
from pybatsched.settings import NUMBER, whole
from pybatsched.workload import Workload
from pybatsched.workload.prepare import used_profiles


class Episodes:
    """The episodes of a workload, by the index of their first job in order of submission.

    An episode has `n_jobs` consecutive jobs, or the jobs of `span_s` seconds; without both, it is the workload. Jobs
    keep their times, so a day in an episode is a day of the log. Parts of a workload have no jobs that are too large
    for the machine.
    """

    def __init__(self, workload: Workload, n_procs: int, *, n_jobs: int | None, span_s: float | None) -> None:
        if n_jobs is not None and span_s is not None:
            raise InputError("episodes: expected n_jobs or span_s, found both")
        n_jobs = None if n_jobs is None else whole(1).read("n_jobs", n_jobs)
        span_s = None if span_s is None else NUMBER.read("span_s", span_s)
        self._workload = workload
        fitting = [job for job in workload.jobs if 0 < job["res"] <= n_procs]
        self._jobs = sorted(fitting, key=lambda job: float(job["subtime"]))
        self._times = [float(job["subtime"]) for job in self._jobs]
        self._n_jobs: int | None = n_jobs
        self._span_s: float | None = span_s
        source = workload.source or "the workload"
        if not self._jobs:
            raise InputError(
                f"{source}: expected jobs that fit the machine of {quantity(n_procs, 'processor')}, found none"
            )
        if n_jobs is not None and n_jobs > len(self._jobs):
            raise InputError(
                f"{source}: expected at least {quantity(n_jobs, 'job')} (n_jobs) that fit the machine, found "
                f"{len(self._jobs):,}"
            )

    def __deepcopy__(self, _memo: Any) -> Self:
        return self  # it is immutable

    @property
    def n_starts(self) -> int:
        """The number of episodes: of jobs with which a complete one can start."""
        if self._n_jobs is not None:
            return len(self._jobs) - self._n_jobs + 1
        if self._span_s is not None:
            return max(bisect_left(self._times, self._times[-1] - self._span_s), 1)
        return 1

    def at(self, start: int) -> Workload:
        """Return the episode that starts with a job. O(its jobs). Raises InputError if there is none."""
        start = whole(0, self.n_starts - 1).read("start", start)
        if self._n_jobs is not None:
            stop = start + self._n_jobs
        elif self._span_s is not None:
            stop = bisect_left(self._times, self._times[start] + self._span_s)
        else:
            return self._workload
        jobs = self._jobs[start:stop]
        return replace(self._workload, jobs=jobs, profiles=used_profiles(jobs, self._workload.profiles), batsim=0)


def built_of(
    workload: str | Path | Workload,
    platform: str | Path | int | None,
    settings: Mapping[str, Any],
    policy: PolicySpec,
) -> Built:
    """Return the run of a whole workload: a file of any format, or a `Workload`. Raises InputError.

    `platform` is a file, the name of a machine, or a number of processors; None: that of the workload.
    """
    if not isinstance(workload, str | Path | Workload):
        raise InputError(f"workload: expected a file or a Workload, found {workload!r:.60}")
    given = dict(settings)
    if platform is not None and "n_procs" in given:
        raise InputError(f"{setting('platform')} and {setting('n_procs')}: expected only one of them, found both")
    if isinstance(platform, str | Path):
        given["platform"] = str(platform)
    elif platform is not None:
        given["n_procs"] = whole().read("platform", platform)
    files = [""] if isinstance(workload, Workload) else [str(workload)]
    spec = RunSpec.of(given, policy, files)
    if isinstance(workload, Workload):
        for name, _ in spec.workloads[0].changed():
            if name not in {"load", "scale_load"}:
                raise InputError(f"{setting(name)}: works only with a file, not with a Workload")
        return build(spec, [Jobs(workload, workload.source or "the workload")])
    return build(spec)
