"""Sizes of jobs in cores made sizes in hosts of several cores: nodes, or the psets of a Blue Gene."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.workload.checks import is_number, shown
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import users_of, with_parts
from pybatsched.workload.report import Report
from pybatsched.workload.walltimes import plain

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
