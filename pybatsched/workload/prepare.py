"""Cutting a Batsim workload to what a study needs, and giving it other walltimes.

Everything here takes a workload and a report and gives new ones; what is left out or changed is counted in the report.
(A log is cut while it is converted, by `formats.conversion`, so that its report is about the jobs kept.)
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from pybatsched.core.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import is_number, shown
from pybatsched.workload.formats.conversion import LOOSE, profile_of
from pybatsched.workload.formats.swf_file import OTHER_PARTITION
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import TOO_MANY, Selection
from pybatsched.workload.walltimes import Walltimes, plain, tidy

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


#: What sizes may be in.
UNITS: Final = ("core", "node", "pset")
#: Types of profiles that fewer processors cannot do in the same time, and why.
_BOUND: Final = {
    "parallel": "it has an amount for each processor",
    "parallel_homogeneous_total": "its amounts are shared among the processors",
    "parallel_homogeneous_pfs": "it depends on who reads and writes",
    "smpi": "its ranks are written for a number of hosts",
    "usage_trace": "it is written for a number of hosts",
}


def in_hosts(
    workload: Workload, unit: str, n_cores: int, report: Report | None = None, n_procs: int | None = None
) -> tuple[Workload, Report]:
    """Give jobs as many hosts as their cores need, rounded up, with a report that counts them. O(n).

    A host is a `unit` of `n_cores`; the machine has `n_procs` of them, else as many as its cores fill. What jobs say of
    one processor (`memory_gb`) is then said of a host. The report goes on from the one given.
    Raises InputError for jobs whose work would take another time then, or is written processor by processor, and for
    sizes that are none of cores.
    """
    if (now := workload.about.get("units")) is not None:
        unit_now = now.get("unit") if isinstance(now, dict) else now
        raise InputError(f"{workload.source}: expected sizes in cores, found what was made sizes in {unit_now}s before")
    report = copy.deepcopy(report) if report else Report(n_read=len(workload.jobs), n_kept=len(workload.jobs))
    bound = users_of((name for name, one in workload.profiles.items() if one["type"] in _BOUND), workload.profiles)
    jobs = [_in_hosts(job, n_cores, workload, bound) for job in workload.jobs]
    made = f"size in cores: now in hosts that are a {unit} of {n_cores:,}"
    report.count_all("changed", made, [job["id"] for job in jobs], "job")
    partly = [job["id"] for job in workload.jobs if job["res"] % n_cores]
    report.count_all("changed", f"cores that do not fill the last {unit}: rounded up", partly, "job")
    n_procs = n_procs or -(-workload.n_procs // n_cores)
    about = {**workload.about, "units": {"unit": unit, "cores": n_cores}, "report": report.as_json()}
    return Workload(jobs, workload.profiles, n_procs, workload.source, about), report


def n_rounded(workload: Workload, n_cores: int) -> int:
    """Count the jobs whose cores do not fill hosts of so many. O(n)."""
    return sum(job["res"] % n_cores > 0 for job in workload.jobs)


def _in_hosts(job: Mapping[str, Any], n_cores: int, workload: Workload, bound: set[str]) -> dict[str, Any]:
    if job["profile"] in bound or "smpi_ranks_to_hosts_mapping" in job:
        raise _refused(job, workload)
    made = dict(job)
    made["res"] = -(-job["res"] // n_cores)
    if is_number(memory_gb := job.get("memory_gb")) and made["res"]:
        made["memory_gb"] = plain(memory_gb * job["res"] / made["res"])
    return made


def _refused(job: Mapping[str, Any], workload: Workload) -> InputError:
    """Make the error for a job whose work fewer processors cannot do in the same time."""
    place = f"{workload.source}: job {shown(job['id'])}"
    if "smpi_ranks_to_hosts_mapping" in job:
        what = "field smpi_ranks_to_hosts_mapping: expected none, since sizes become numbers of hosts"
        return InputError(f"{place}, {what}")
    kinds = {part: workload.profiles[part]["type"] for part in with_parts([job["profile"]], workload.profiles)}
    part, kind = min(one for one in kinds.items() if one[1] in _BOUND)
    return InputError(
        f"{place}, field profile: expected work that fewer processors do in the same time, found {shown(part)}, "
        f"which is {kind}: {_BOUND[kind]}"
    )


LOADED: Final = "a delay: now work that takes as long on processors of {:g} flop/s, and puts load on them"


def with_load(workload: Workload, speed_flops: float, report: Report | None = None) -> tuple[Workload, Report]:
    """Give delays as `parallel_homogeneous` work of the same duration on processors of this speed. O(n).

    Other profiles stay as they are, composed ones with their parts. The report counts jobs and goes on from the one
    given.
    """
    report = copy.deepcopy(report) if report else Report(n_read=len(workload.jobs), n_kept=len(workload.jobs))
    profiles = {name: _loaded(profile, speed_flops) for name, profile in workload.profiles.items()}
    delayed = users_of((name for name, one in workload.profiles.items() if one["type"] == "delay"), workload.profiles)
    jobs: list[int | str] = [job["id"] for job in workload.jobs if job["profile"] in delayed]
    report.count_all("changed", LOADED.format(speed_flops), jobs, "job")
    about = {**workload.about, "load": {"speed": speed_flops}, "report": report.as_json()}
    return Workload(workload.jobs, profiles, workload.n_procs, workload.source, about), report


def _loaded(profile: dict[str, Any], speed_flops: float) -> dict[str, Any]:
    if profile["type"] != "delay":
        return profile
    others = {key: value for key, value in profile.items() if key not in {"type", "delay"}}
    return {**profile_of(profile["delay"], "parallel", speed_flops), **others}


_COMPUTING: Final = frozenset(("parallel", "parallel_homogeneous", "parallel_homogeneous_total"))


def without_unused(workload: Workload) -> Workload:
    """Leave out the profiles that no job uses, neither by itself nor as a part: 5.0.0-rc2 may end of one. O(size)."""
    profiles = used_profiles(workload.jobs, workload.profiles)
    return workload if len(profiles) == len(workload.profiles) else replace(workload, profiles=profiles)


def check_work(workload: Workload) -> None:
    """Raise InputError for a parallel task without any work: 5.0.0-rc2 ends when it begins one. O(profiles)."""
    for name, profile in workload.profiles.items():
        if profile["type"] in _COMPUTING and not any(map(_is_some, (profile.get("cpu", 0), profile.get("com", 0)))):
            raise InputError(
                f"{workload.source}: profile {shown(name)} computes and sends nothing; expected some work for Batsim 5 "
                "(its 5.0.0-rc2 ends when it begins such a job)"
            )


def _is_some(amounts: Any) -> bool:
    return any(amount > 0 for amount in amounts) if type(amounts) is list else amounts > 0


def check_names(workload: Workload, name: str) -> None:
    """Raise InputError for a profile that 5.0.0-rc2 does not find in a workload of a name such as w0. O(profiles).

    It takes the name of a profile with that name in it for a whole id. (With ids of jobs Batsim 4 does the same, and
    they are told when a workload is read.)
    """
    for one in workload.profiles:
        if name in one:
            raise InputError(
                f"{workload.source}: profile {shown(one)}: expected a name without {name!r} in it, which is what the "
                "workload is called in this run: Batsim 5 would not find it"
            )
