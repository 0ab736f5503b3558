"""Cutting a Batsim workload to what a study needs, and giving it other walltimes.

Everything here takes a workload and a report and gives new ones; what is left out or changed is counted in the report.
(A log is cut while it is converted, by `pybatsched.workload.logs`, so that its report is about the jobs kept.)
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pybatsched.core.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.checks import is_number, shown
from pybatsched.workload.logs import LOOSE
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import TOO_MANY, Selection
from pybatsched.workload.swf_file import OTHER_PARTITION
from pybatsched.workload.walltimes import Walltimes, tidy

#: Fields of jobs that are instants, besides the submission.
_INSTANTS: Final = ("deadline", "history_start")
#: Fields of a receiving profile that name others: what it goes on with.
RECEIVED: Final = ("success", "failure", "timeout")


def select(workload: Workload, selection: Selection, report: Report | None = None) -> tuple[Workload, Report]:
    """Give the jobs a selection keeps, in order of submission, with the profiles they use. O(n log n).

    The report goes on from the one given (a new one counts the workload's jobs as read). Neither the workload nor its
    jobs are changed. Raises InputError when no job is left, unless there may be none.
    """
    report = copy.deepcopy(report) if report is not None else Report(n_read=len(workload.jobs))
    kept: list[dict[str, Any]] = []
    origin_at = selection.origin(job["subtime"] for job in workload.jobs)
    wanted = _partitions(workload, selection)
    for job in sorted(workload.jobs, key=lambda job: job["subtime"]):
        refusal = None if wanted is None or _partition(job) in wanted else OTHER_PARTITION
        refusal = refusal or selection.refusal(job["subtime"], job["res"], origin_at)
        if refusal is None and selection.max_jobs is not None and len(kept) >= selection.max_jobs:
            refusal = TOO_MANY
        if refusal is None:
            kept.append(job)
        else:
            report.count("dropped", refusal, job["id"], "job")
    report.n_kept = len(kept)
    if workload.jobs and not kept and not selection.may_be_empty:
        raise selection.nothing_left(workload.source, [job["subtime"] for job in workload.jobs])
    by_s = selection.moved_by(origin_at, kept[0]["subtime"]) if kept else 0
    ids = {str(job["id"]) for job in kept}
    jobs = [_moved(job, by_s, ids, report) for job in kept]
    about = {**workload.about, "report": report.as_json()}
    if chosen := selection.as_json():
        about["selection"] = chosen
    if by_s:
        before = about.get("shifted_by", 0)
        about["shifted_by"] = tidy(by_s + (before if is_number(before) else 0))
    return Workload(jobs, used_profiles(jobs, workload.profiles), workload.n_procs, workload.source, about), report


def _partitions(workload: Workload, selection: Selection) -> set[str] | None:
    """Give the partitions whose jobs are kept, None for all. Raises InputError for one that has none."""
    if not selection.partitions:
        return None
    there = sorted({str(job["partition"]) for job in workload.jobs if "partition" in job})
    for name in selection.partitions:
        if name not in there:
            known = ", ".join(there) or "none"
            raise InputError(f"{workload.source}: partition {name!r:.40}: expected one of the jobs', who have {known}")
    return set(selection.partitions)


def _partition(job: Mapping[str, Any]) -> str | None:
    return str(job["partition"]) if "partition" in job else None


def _moved(job: dict[str, Any], by_s: float, ids: set[str], report: Report) -> dict[str, Any]:
    """Give a job with its times moved, and without a dependency on a job that is not there."""
    loose = "depends_on" in job and not all(str(name) in ids for name in as_list(job["depends_on"]))
    if not by_s and not loose:
        return job
    moved = dict(job)
    if by_s:
        moved["subtime"] = tidy(job["subtime"] - by_s)
        for field in _INSTANTS:
            if is_number(job.get(field)):
                moved[field] = tidy(job[field] - by_s)
    if loose:
        report.count("changed", LOOSE, job["id"], "job")
        del moved["depends_on"]
        moved.pop("think_time", None)
    return moved


def as_list(value: Any) -> list[Any]:
    """Give one thing or several as a list: `depends_on` may be written either way."""
    return value if isinstance(value, list) else [value]


def used_profiles(
    jobs: Iterable[Mapping[str, Any]], profiles: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Give the profiles that jobs use, directly or as parts, in their old order. O(profiles)."""
    wanted = with_parts({job["profile"] for job in jobs}, profiles)
    return {name: profile for name, profile in profiles.items() if name in wanted}


def with_parts(names: Iterable[str], profiles: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Give the names of profiles, and of all that they are made of. O(profiles)."""
    found = set(names)
    to_see = list(found)
    while to_see:
        new = {name for name in parts_of(profiles[to_see.pop()]) if name in profiles} - found
        found |= new
        to_see += new
    return found


def users_of(names: Iterable[str], profiles: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Give the names of profiles, and of all that have one of them in them. O(profiles)."""
    users: dict[str, list[str]] = {}
    for name, profile in profiles.items():
        for part in parts_of(profile):
            users.setdefault(part, []).append(name)
    found = set(names)
    to_see = list(found)
    while to_see:
        new = set(users.get(to_see.pop(), ())) - found
        found |= new
        to_see += new
    return found


def parts_of(profile: Mapping[str, Any]) -> list[str]:
    """Give the names of the profiles that one is made of: in sequence, or what it goes on with when it has received."""
    if profile["type"] == "composed":
        return list(profile["seq"])
    if profile["type"] == "recv":
        return [profile[outcome] for outcome in RECEIVED if outcome in profile]
    return []


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
    changed: list[int | str] = []
    for job in workload.jobs:
        bare = job.copy()
        bare.pop("walltime", None)
        bare.pop("estimate", None)
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
            changed.append(job["id"])
        jobs.append(bare)
    report.count_all("changed", f"estimate and walltime set by the rule {walltimes}", changed, "job")
    about = {**workload.about, "walltimes": str(walltimes), "report": report.as_json()}
    return Workload(jobs, workload.profiles, workload.n_procs, workload.source, about), report
