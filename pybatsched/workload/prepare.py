"""Cutting a workload to what a study needs: time windows, sizes, the first so many jobs, times that begin at 0.

Everything here takes a workload and a report and gives new ones; what is left out is counted in the report.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pybatsched.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.checks import is_number, shown
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.swf import LOOSE
from pybatsched.workload.walltimes import Walltimes, tidy

OUTSIDE: Final = "submitted outside of the window: dropped"
TOO_SMALL: Final = "smaller than the least size: dropped"
TOO_LARGE: Final = "larger than the greatest size: dropped"
TOO_MANY: Final = "after the first so many jobs: dropped"

_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds_of(text: str, what: str) -> float:
    """Read a time as people write it: 86400, 90m, 12h, 3d, 2w. Raises InputError that begins with `what`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)([smhdw]?)", text.strip())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else math.inf
    if not math.isfinite(seconds):
        raise InputError(f"{what}: expected seconds, or a number with m, h, d or w as in 12h, found {text}")
    return seconds


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs to keep. Times are those of the workload's own clock; a window includes its begin, not its end.

    `shift` moves all times so that the first job kept is submitted at 0; None means: if there is a window.
    """

    from_at: float | None = None
    to_at: float | None = None
    min_size: int | None = None
    max_size: int | None = None
    max_jobs: int | None = None
    shift: bool | None = None

    def __post_init__(self) -> None:
        if self.from_at is not None and self.to_at is not None and self.from_at >= self.to_at:
            raise InputError(f"window: expected an end after {self.from_at:g} s, found {self.to_at:g} s")
        for name in ("min_size", "max_size", "max_jobs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name.replace('_', ' ')}: expected 1 or more, found {value}")
        if self.min_size is not None and self.max_size is not None and self.min_size > self.max_size:
            raise InputError(f"sizes: expected a greatest size of {self.min_size} or more, found {self.max_size}")

    @property
    def shifts(self) -> bool:
        """Whether the first job kept is moved to 0."""
        return (self.from_at is not None or self.to_at is not None) if self.shift is None else self.shift

    def as_json(self) -> dict[str, Any]:
        """Give the limits that are set, for the file that is made with them."""
        names = {"from_at": "from", "to_at": "to"}
        return {
            names.get(name, name): tidy(value)
            for name in ("from_at", "to_at", "min_size", "max_size", "max_jobs")
            if (value := getattr(self, name)) is not None
        }

    def refusal(self, job: Mapping[str, Any], n_kept: int) -> str | None:
        """Give the one rule by which a job is left out, if any."""
        at, size = job["subtime"], job["res"]
        if (self.from_at is not None and at < self.from_at) or (self.to_at is not None and at >= self.to_at):
            return OUTSIDE
        if self.min_size is not None and size < self.min_size:
            return TOO_SMALL
        if self.max_size is not None and size > self.max_size:
            return TOO_LARGE
        return TOO_MANY if self.max_jobs is not None and n_kept >= self.max_jobs else None


def select(workload: Workload, selection: Selection, report: Report | None = None) -> tuple[Workload, Report]:
    """Give the jobs a selection keeps, in order of submission, with the profiles they use. O(n log n).

    The report goes on from the one given (a new one counts the workload's jobs as read). Neither the workload nor its
    jobs are changed. Raises InputError when no job is left.
    """
    report = copy.deepcopy(report) if report is not None else Report(n_read=len(workload.jobs))
    kept: list[dict[str, Any]] = []
    for job in sorted(workload.jobs, key=lambda job: job["subtime"]):
        refusal = selection.refusal(job, len(kept))
        if refusal is None:
            kept.append(job)
        else:
            report.count("dropped", refusal, job["id"], "job")
    report.n_kept = len(kept)
    if workload.jobs and not kept:
        times = [job["subtime"] for job in workload.jobs]
        raise InputError(
            f"{workload.source}: no job is left: the {len(times):,} jobs were submitted from {min(times):g} s to "
            f"{max(times):g} s, and the selection is {selection.as_json()}"
        )
    by_s = kept[0]["subtime"] if kept and selection.shifts else 0
    ids = {str(job["id"]) for job in kept}
    jobs = [_moved(job, by_s, ids, report) for job in kept]
    about = {**workload.about, "report": report.as_json()}
    if chosen := selection.as_json():
        about["selection"] = chosen
    if by_s:
        about["shifted_by"] = tidy(by_s + about.get("shifted_by", 0))
    return Workload(jobs, _used(jobs, workload.profiles), workload.n_procs, workload.source, about), report


def _moved(job: dict[str, Any], by_s: float, ids: set[str], report: Report) -> dict[str, Any]:
    """Give a job with its times moved, and without a dependency on a job that is not there."""
    loose = "depends_on" in job and not all(str(name) in ids for name in as_list(job["depends_on"]))
    if not by_s and not loose:
        return job
    moved = dict(job)
    if by_s:
        moved["subtime"] = tidy(job["subtime"] - by_s)
        if is_number(job.get("deadline")):  # the one other field that is an instant
            moved["deadline"] = tidy(job["deadline"] - by_s)
    if loose:
        report.count("changed", LOOSE, job["id"], "job")
        del moved["depends_on"]
        moved.pop("think_time", None)
    return moved


def as_list(value: Any) -> list[Any]:
    """Give one thing or several as a list: `depends_on` may be written either way."""
    return value if isinstance(value, list) else [value]


def _used(jobs: Iterable[Mapping[str, Any]], profiles: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Give the profiles that jobs use, directly or as parts, in their old order."""
    wanted = {job["profile"] for job in jobs}
    to_see = list(wanted)
    while to_see:
        profile = profiles[to_see.pop()]
        # The parts of a composed profile, and what a receiving one may go on with.
        names = [*profile.get("seq", ()), *(profile.get(outcome) for outcome in ("success", "failure", "timeout"))]
        new = {name for name in names if isinstance(name, str) and name in profiles} - wanted
        wanted |= new
        to_see += new
    return {name: profile for name, profile in profiles.items() if name in wanted}


def with_walltimes(workload: Workload, walltimes: Walltimes, report: Report | None = None) -> tuple[Workload, Report]:
    """Give the jobs of a Batsim file other estimates and walltimes; `requested` leaves them as the file has them.

    Run times are known of profiles made of delays; another profile is an InputError, unless the rule needs no run time.
    """
    report = (
        copy.deepcopy(report) if report is not None else Report(n_read=len(workload.jobs), n_kept=len(workload.jobs))
    )
    if walltimes.rule in {"requested", "requested-strict"}:
        return workload, report
    jobs = []
    for job in workload.jobs:
        bare = {key: value for key, value in job.items() if key not in {"walltime", "estimate"}}
        if walltimes.rule != "none":
            run_s = delay_of(workload.profiles[job["profile"]], workload.profiles)
            if run_s is None:
                raise InputError(
                    f"{workload.source}: job {shown(job['id'])}: walltimes {walltimes}: expected a profile made of "
                    f"delays, whose run time is known, found {shown(job['profile'])}"
                )
            times = walltimes.of(run_s, None)
            bare |= {"walltime": times.walltime_s}
            if times.estimate_s is not None:
                bare |= {"estimate": times.estimate_s}
        if bare != job:
            report.count("changed", f"estimate and walltime set by the rule {walltimes}", job["id"], "job")
        jobs.append(bare)
    about = {**workload.about, "walltimes": str(walltimes), "report": report.as_json()}
    return Workload(jobs, workload.profiles, workload.n_procs, workload.source, about), report
