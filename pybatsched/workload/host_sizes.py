"""Sizes of jobs in cores made sizes in hosts of several cores: nodes, or the psets of a Blue Gene."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.workload.checks import is_number, shown
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.walltimes import plain

#: What sizes may be in.
UNITS: Final = ("core", "node", "pset")


def in_hosts(
    workload: Workload, unit: str, n_cores: int, report: Report | None = None, n_procs: int | None = None
) -> tuple[Workload, Report]:
    """Give jobs as many hosts as their cores need, rounded up, with a report that counts them. O(n).

    A host is a `unit` of `n_cores`; the machine has `n_procs` of them, else as many as its cores fill. What jobs say of
    one processor (`memory_gb`) is then said of a host. The report goes on from the one given.
    Raises InputError for jobs whose work is written processor by processor, and for sizes that are none of cores.
    """
    if (now := workload.about.get("units")) is not None:
        unit_now = now.get("unit") if isinstance(now, dict) else now
        raise InputError(f"{workload.source}: expected sizes in cores, found what was made sizes in {unit_now}s before")
    report = copy.deepcopy(report) if report else Report(n_read=len(workload.jobs), n_kept=len(workload.jobs))
    jobs = [_in_hosts(job, n_cores, workload) for job in workload.jobs]
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


def _in_hosts(job: Mapping[str, Any], n_cores: int, workload: Workload) -> dict[str, Any]:
    kind = workload.profiles[job["profile"]]["type"]
    if kind == "parallel" or "smpi_ranks_to_hosts_mapping" in job:
        raise InputError(
            f"{workload.source}: job {shown(job['id'])}: expected work that any number of processors can do, found "
            f"what is written for {job['res']:,}"
        )
    made = dict(job)
    made["res"] = -(-job["res"] // n_cores)
    if is_number(memory_gb := job.get("memory_gb")) and made["res"]:
        made["memory_gb"] = plain(memory_gb * job["res"] / made["res"])
    return made
