"""Select jobs of a Batsim workload, and change walltimes, sizes and profiles; return a new one and a report."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pybatsched.core.dependencies import follows_only, names_of, with_ids
from pybatsched.core.derive import delay_of
from pybatsched.errors import InputError, quantity, setting
from pybatsched.workload.formats.checks import is_number, shown
from pybatsched.workload.formats.conversion import LOOSE, profile_of
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import NOT_COUNTED, OTHER_PARTITION, TOO_MANY, Selection
from pybatsched.workload.walltimes import Walltimes, plain, tidy

#: Fields of jobs that are points in time, besides the submission.
_INSTANTS: Final = ("deadline", "history_start", "eligible_at")
#: Fields of a `recv` profile that name the next profile.
RECEIVED: Final = ("success", "failure", "timeout")
_MOST_LOAD: Final = 10  # a greater one is a percentage


def select(workload: Workload, selection: Selection, report: Report | None = None) -> tuple[Workload, Report]:
    """Return the jobs that a selection keeps, in order of submission. O(n log n). Raises InputError."""
    report = copy.deepcopy(report) if report is not None else Report(n_read=len(workload.jobs))
    places: list[int] = []
    ids, times, sizes = (workload.values(name) for name in ("id", "subtime", "res"))
    is_wanted = _of_partitions(workload, selection)
    origin_at = selection.origin(itertools.compress(times, is_wanted))
    for place in sorted(range(len(times)), key=times.__getitem__):
        dropped_by = None if is_wanted[place] else OTHER_PARTITION
        dropped_by = dropped_by or selection.drop_reason(times[place], sizes[place], origin_at)
        if dropped_by is None and selection.max_jobs is not None and len(places) >= selection.max_jobs:
            dropped_by = TOO_MANY.format(quantity(selection.max_jobs, "job"))
        if dropped_by is None:
            places.append(place)
        else:
            report.count("dropped", dropped_by, ids[place], "job")
    kept = list(workload.at(places))
    report.n_kept = len(kept)
    if workload.jobs and not kept and not selection.may_be_empty:
        raise selection.no_jobs_error(workload.source, times)
    by_s = selection.moved_by(origin_at, kept[0]["subtime"]) if kept else 0
    counted = selection.counted(workload.source, [job["subtime"] for job in kept], origin_at)
    kept = kept if counted is None else _evaluated(kept, counted, report)
    names = names_of(kept)
    jobs = [_moved(job, by_s, names, report) for job in kept]
    about = {**workload.about, "report": report.as_json()}
    if chosen := selection.as_json():
        about["selection"] = chosen
    if by_s:
        before = about.get("shifted_by", 0)
        about["shifted_by"] = tidy(by_s + (before if is_number(before) else 0))
    return Workload(jobs, used_profiles(jobs, workload.profiles), workload.n_procs, workload.source, about), report


def _evaluated(jobs: Sequence[dict[str, Any]], counted: Sequence[bool], report: Report) -> list[dict[str, Any]]:
    """Return jobs with the field `evaluated`. A job that did not count before does not count now."""
    some_do_not = any("evaluated" in job for job in jobs)
    made = []
    for job, is_counted in zip(jobs, counted, strict=True):
        counts = is_counted and (not some_do_not or job.get("evaluated") is True)
        made.append({**job, "evaluated": counts})
        if not is_counted:
            report.count("noted", NOT_COUNTED, job["id"], "job")
    return made


def _of_partitions(workload: Workload, selection: Selection) -> list[bool]:
    """Return which jobs are of the selected partitions. O(n). Raises InputError for a partition without jobs."""
    if not selection.partitions:
        return [True] * len(workload.jobs)
    found = [None if one is None else str(one) for one in workload.values("partition")]
    present = sorted({one for one in found if one is not None})
    for name in selection.partitions:
        if name not in present:
            known = ", ".join(present) or "none"
            raise InputError(f"{workload.source}: partition {name!r:.40}: expected a partition of the jobs: {known}")
    return [one in selection.partitions for one in found]


def _moved(job: dict[str, Any], by_s: float, ids: set[str], report: Report) -> dict[str, Any]:
    """Return a job with its times moved, and without dependencies on missing jobs."""
    made, loose = with_ids(job, lambda one: one if one in ids else None) if "depends_on" in job else (job, False)
    if not by_s and not loose:
        return job
    moved = dict(made if loose else job)
    if loose and follows_only(job):
        moved.pop("depends_on", None)
        moved.pop("think_time", None)
    if by_s:
        moved["subtime"] = tidy(job["subtime"] - by_s)
        for field in _INSTANTS:
            if is_number(job.get(field)):
                moved[field] = tidy(job[field] - by_s)
    if loose:
        report.count("changed", LOOSE, job["id"], "job")
    return moved


def consecutive(workload: Workload, start: int, n_jobs: int) -> Workload:
    """Return `n_jobs` consecutive jobs from index `start` on, without dependencies. O(profiles)."""
    report = Report(n_read=len(workload.jobs))
    kept = workload.jobs[start : start + n_jobs]
    ids = names_of(kept)
    jobs = [_moved(job, 0, ids, report) for job in kept]
    report.n_kept = len(jobs)
    about = {**workload.about, "report": report.as_json()}
    return Workload(jobs, used_profiles(jobs, workload.profiles), workload.n_procs, workload.source, about)


def scale_load(workload: Workload, factor: float) -> Workload:
    """Divide all submission times by a factor; deadlines keep their distance. O(n). Raises InputError."""
    if not 0 < factor < math.inf:
        raise InputError(f"scale_load: expected a factor above 0, found {factor:g}")
    jobs = [resubmitted(job, tidy(job["subtime"] / factor)) for job in workload.jobs]
    about = {**workload.about, "scaled_load": tidy(factor * workload.about.get("scaled_load", 1))}
    return Workload(jobs, workload.profiles, workload.n_procs, workload.source, about)


def resubmitted(job: Mapping[str, Any], at: float) -> dict[str, Any]:
    """Return a job with another submission; deadlines and logged starts keep their distance from it."""
    moved = {**job, "subtime": at}
    for name in _INSTANTS:
        if is_number(job.get(name)):
            moved[name] = tidy(job[name] - job["subtime"] + at)
    return moved


def offered_load(workloads: Iterable[Workload], n_procs: int) -> float:
    """Return the work over the capacity from the first submission to the last. O(n). Raises InputError."""
    work = 0.0
    times: list[float] = []
    source = ""
    for workload in workloads:
        source = source or workload.source
        run_s = {name: delay_of(profile, workload.profiles) for name, profile in workload.profiles.items()}
        for job_id, profile, size in zip(*map(workload.values, ("id", "profile", "res")), strict=True):
            known_s = run_s[profile]
            if known_s is None:
                raise InputError(
                    f"{workload.source}: job {shown(job_id)}: load: expected a profile made of delays, whose run time "
                    f"is known, found {shown(profile)}"
                )
            work += known_s * size
        times += workload.values("subtime")
    span_s = max(times, default=0) - min(times, default=0)
    if not span_s:
        n = quantity(len(times), "job")
        raise InputError(f"{source}: load: expected jobs submitted at different times, found {n} at one time")
    return work / (n_procs * span_s)


def check_load(load: float, what: str = setting("load")) -> None:
    """Raise InputError for an offered load that is not above 0, or that seems to be a percentage."""
    if not 0 < load <= _MOST_LOAD:
        hint = f"; did you mean {load / 100:g}?" if _MOST_LOAD < load <= 100 * _MOST_LOAD else ""
        expected = f"expected an offered load above 0 and at most {_MOST_LOAD}, such as 0.8 for 80 %"
        raise InputError(f"{what}: {expected}, found {load:g}{hint}")


def load_factor(workloads: Sequence[Workload], load: float, n_procs: int) -> float:
    """Return the factor of `scale_load` for an offered load of `load` on `n_procs`. O(n). Raises InputError."""
    check_load(load)
    now = offered_load(workloads, n_procs)
    if not now:
        raise InputError(
            f"{workloads[0].source}: {setting('load')}: expected jobs that need processors for some time, found none"
        )
    return load / now


def with_load(workload: Workload, load: float, n_procs: int | None = None) -> Workload:
    """Scale submissions to an offered load of `load` on `n_procs` processors. O(n). Raises InputError."""
    return scale_load(workload, load_factor([workload], load, n_procs or workload.n_procs))


def as_list(value: Any) -> list[Any]:
    """Return a value as a list: `depends_on` may be one id or a list."""
    return value if isinstance(value, list) else [value]


def used_profiles(
    jobs: Iterable[Mapping[str, Any]], profiles: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the profiles that jobs use, directly or as parts, in the same order. O(profiles)."""
    wanted = with_parts({job["profile"] for job in jobs}, profiles)
    return {name: profile for name, profile in profiles.items() if name in wanted}


def with_parts(names: Iterable[str], profiles: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return these names of profiles and the names of all their parts. O(profiles)."""
    found = set(names)
    to_visit = list(found)
    while to_visit:
        new = {name for name in parts_of(profiles[to_visit.pop()]) if name in profiles} - found
        found |= new
        to_visit += new
    return found


def users_of(names: Iterable[str], profiles: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return these names of profiles and the names of all profiles that contain one of them. O(profiles)."""
    users: dict[str, list[str]] = {}
    for name, profile in profiles.items():
        for part in parts_of(profile):
            users.setdefault(part, []).append(name)
    found = set(names)
    to_visit = list(found)
    while to_visit:
        new = set(users.get(to_visit.pop(), ())) - found
        found |= new
        to_visit += new
    return found


def parts_of(profile: Mapping[str, Any]) -> list[str]:
    """Return the names of the parts of a profile: its sequence, or the next profiles of a `recv`."""
    if profile["type"] == "composed":
        return list(profile["seq"])
    if profile["type"] == "recv":
        return [profile[outcome] for outcome in RECEIVED if outcome in profile]
    return []


def with_walltimes(workload: Workload, walltimes: Walltimes) -> tuple[Workload, Report]:
    """Set estimates and walltimes of a Batsim file by a rule, if run times are known. Raises InputError."""
    report = Report(n_read=len(workload.jobs), n_kept=len(workload.jobs))
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
    report.count_changed(f"estimate and walltime set by the rule {walltimes}", changed)
    about = {**workload.about, "walltimes": str(walltimes), "report": report.as_json()}
    return Workload(jobs, workload.profiles, workload.n_procs, workload.source, about), report


#: Units of sizes.
UNITS: Final = ("core", "node", "pset")
#: Types of profiles whose duration depends on the number of processors, and why.
_BOUND: Final = {
    "parallel": "it has an amount for each processor",
    "parallel_homogeneous_total": "its amounts are shared among the processors",
    "parallel_homogeneous_pfs": "it depends on the hosts that read and write",
    "smpi": "its ranks are written for a number of hosts",
    "usage_trace": "it is written for a number of hosts",
}


def in_hosts(
    workload: Workload, unit: str, n_cores: int, report: Report | None = None, n_procs: int | None = None
) -> tuple[Workload, Report]:
    """Convert sizes from cores to hosts, rounded up. The report counts them. O(n).

    A host is a `unit` of `n_cores`. The machine has `n_procs` hosts, by default as many as its cores fill. `memory_gb`,
    which is per processor, becomes memory per host. The report continues the given one.
    Raises InputError for jobs whose work depends on the number of processors, and for sizes that are not in cores.
    """
    if (now := workload.about.get("units")) is not None:
        unit_now = now.get("unit") if isinstance(now, dict) else now
        raise InputError(f"{workload.source}: expected sizes in cores, found sizes that were converted to {unit_now}s")
    report = copy.deepcopy(report) if report else Report(n_read=len(workload.jobs), n_kept=len(workload.jobs))
    bound = users_of((name for name, one in workload.profiles.items() if one["type"] in _BOUND), workload.profiles)
    jobs = [_in_hosts(job, n_cores, workload, bound) for job in workload.jobs]
    made = f"size in cores: now in hosts that are a {unit} of {n_cores:,}"
    report.count_changed(made, [job["id"] for job in jobs])
    partly = [job_id for job_id, n in zip(workload.values("id"), workload.values("res"), strict=True) if n % n_cores]
    report.count_changed(f"cores that do not fill the last {unit}: rounded up", partly)
    n_procs = n_procs or -(-workload.n_procs // n_cores)
    about = {**workload.about, "units": {"unit": unit, "cores": n_cores}, "report": report.as_json()}
    return Workload(jobs, workload.profiles, n_procs, workload.source, about), report


def n_rounded(workload: Workload, n_cores: int) -> int:
    """Return the number of jobs whose cores do not fill their last host. O(n)."""
    return sum(n % n_cores > 0 for n in workload.values("res"))


def _in_hosts(job: Mapping[str, Any], n_cores: int, workload: Workload, bound: set[str]) -> dict[str, Any]:
    if job["profile"] in bound or "smpi_ranks_to_hosts_mapping" in job:
        raise _not_convertible(job, workload)
    made = dict(job)
    made["res"] = -(-job["res"] // n_cores)
    if is_number(memory_gb := job.get("memory_gb")) and made["res"]:
        made["memory_gb"] = plain(memory_gb * job["res"] / made["res"])
    return made


def _not_convertible(job: Mapping[str, Any], workload: Workload) -> InputError:
    """Return the error for a job whose work depends on the number of processors."""
    where = f"{workload.source}: job {shown(job['id'])}"
    if "smpi_ranks_to_hosts_mapping" in job:
        what = "field smpi_ranks_to_hosts_mapping: expected none, because sizes are converted to hosts"
        return InputError(f"{where}, {what}")
    kinds = {part: workload.profiles[part]["type"] for part in with_parts([job["profile"]], workload.profiles)}
    part, kind = min(one for one in kinds.items() if one[1] in _BOUND)
    return InputError(
        f"{where}, field profile: expected one whose duration does not depend on the number of processors, "
        f"found {shown(part)} of type {kind}: {_BOUND[kind]}"
    )


LOADED: Final = "a delay: now work that takes as long on processors of {:g} flop/s, and puts load on them"


def with_cpu_load(workload: Workload, speed_flops: float, report: Report | None = None) -> tuple[Workload, Report]:
    """Replace delays by `parallel_homogeneous` work of the same duration on processors of this speed. O(n)."""
    report = copy.deepcopy(report) if report else Report(n_read=len(workload.jobs), n_kept=len(workload.jobs))
    profiles = {name: _loaded(profile, speed_flops) for name, profile in workload.profiles.items()}
    delayed = users_of((name for name, one in workload.profiles.items() if one["type"] == "delay"), workload.profiles)
    pairs = zip(workload.values("id"), workload.values("profile"), strict=True)
    jobs: list[int | str] = [job_id for job_id, profile in pairs if profile in delayed]
    report.count_changed(LOADED.format(speed_flops), jobs)
    about = {**workload.about, "load": {"speed": speed_flops}, "report": report.as_json()}
    return Workload(workload.jobs, profiles, workload.n_procs, workload.source, about), report


def _loaded(profile: dict[str, Any], speed_flops: float) -> dict[str, Any]:
    if profile["type"] != "delay":
        return profile
    others = {key: value for key, value in profile.items() if key not in {"type", "delay"}}
    return {**profile_of(profile["delay"], "parallel", speed_flops), **others}


_COMPUTING: Final = frozenset(("parallel", "parallel_homogeneous", "parallel_homogeneous_total"))


def without_unused(workload: Workload) -> Workload:
    """Remove the profiles that no job uses, directly or as a part: Batsim 5.0.0-rc2 may crash on them. O(size)."""
    used = with_parts(workload.values("profile"), workload.profiles)
    profiles = {name: profile for name, profile in workload.profiles.items() if name in used}
    return workload if len(profiles) == len(workload.profiles) else replace(workload, profiles=profiles)


def check_work(workload: Workload) -> None:
    """Raise InputError for a parallel task without work: Batsim 5.0.0-rc2 crashes when it starts one. O(profiles)."""
    for name, profile in workload.profiles.items():
        if profile["type"] in _COMPUTING and not any(map(_has_amount, (profile.get("cpu", 0), profile.get("com", 0)))):
            raise InputError(
                f"{workload.source}: profile {shown(name)} has no work; expected computation or communication "
                "(Batsim 5.0.0-rc2 crashes when it starts such a job)"
            )


def _has_amount(amounts: Any) -> bool:
    return any(amount > 0 for amount in amounts) if type(amounts) is list else amounts > 0


def check_names(workload: Workload, name: str) -> None:
    """Raise InputError for a profile that Batsim 5.0.0-rc2 does not find in a workload of this name. O(profiles).

    It reads a profile name that contains the name of the workload, such as w0, as a full id. (Batsim 4 does the same
    with ids of jobs, which `jobs.check_ids` checks.)
    """
    for one in workload.profiles:
        if name in one:
            raise InputError(
                f"{workload.source}: profile {shown(one)}: expected a name that does not contain {name!r}, the name of "
                "the workload in this run; Batsim 5 does not find such a profile"
            )
