"""What a user should know about the inputs of a run before it starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from pybatsched.errors import quantity, setting
from pybatsched.platform.groups import host_size
from pybatsched.platform.model import Platform
from pybatsched.policies.orders import compared_fields
from pybatsched.policies.registry import PolicyPlan, Reserving
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.simulator.kernels import has_network
from pybatsched.simulator.options import BATSIM, EXACT, Scenario, SimulationOptions
from pybatsched.simulator.work.profiles import DELAY, USAGE, Work, resolve
from pybatsched.workload.inject.checkpoints import progress_remark
from pybatsched.workload.model import Workload

#: How many things that Batsim rejects are shown of a platform.
_N_REFUSED_SHOWN: Final = 3


def size_warnings(platform: Platform, loaded: Iterable[Workload]) -> list[str]:
    """Return warnings for workloads that were made for a larger machine. O(jobs + hosts)."""
    warnings = []
    n_procs, has_cores = platform.n_procs, host_size(platform).n_cores > 1
    advice = f"use {setting('units', 'node')} or {setting('units', 'pset')}"
    if not has_cores:
        known = "such as NAME-node or NAME-pset of `pybatsched platform list`"
        advice = f"use a platform whose hosts have the property cores ({known}) and {advice}"
    for workload in loaded:
        all_jobs = quantity(len(workload.jobs), "job")
        n_large = sum(size > n_procs for size in workload.values("res"))
        if 2 * n_large > len(workload.jobs):
            warnings.append(
                f"{workload.source}: {n_large:,} of {all_jobs} {'is' if n_large == 1 else 'are'} larger than the "
                f"platform's {quantity(n_procs, 'processor')} and will be rejected; if their sizes are cores and the "
                f"hosts are not, {advice}"
            )
        elif workload.n_procs > n_procs and "estimated_machine" not in workload.about:
            see = f" See {setting('units')}" if has_cores else ""
            warnings.append(
                f"{workload.source}: made for {quantity(workload.n_procs, 'processor')}, the platform has {n_procs:,}; "
                f"larger jobs are rejected (do both count the same: cores, or nodes?{see})"
            )
    return warnings


def energy_warnings(loaded: Iterable[Workload]) -> list[str]:
    """Return a warning for a run with energy whose jobs are all delays, which put no load on hosts. O(profiles)."""
    profiles = [profile for workload in loaded for profile in workload.profiles.values()]
    if not profiles or any(profile.get("type") != "delay" for profile in profiles):
        return []
    instead = "use `pybatsched workload convert --cpu-load` to write profiles that do"
    return [f"all profiles are delays, which put no load on hosts: jobs use no more power than idle hosts; {instead}"]


def planning_warnings(reserving: Reserving | None, loaded: Iterable[Workload]) -> list[str]:
    """Return warnings about jobs without walltime and estimate that a policy (`reserving`) rejects. O(jobs)."""
    warnings: list[str] = []
    if reserving is None:
        return warnings
    by_option = f"with {setting('options', reserving.option)}, or, in a log, " if reserving.option else "in a log "
    for workload in loaded:
        times = zip(workload.values("walltime"), workload.values("estimate"), strict=True)
        n = sum(walltime_s in {None, -1} and estimate_s is None for walltime_s, estimate_s in times)
        if n:
            have, them, their = ("has", "it", "its") if n == 1 else ("have", "them", "their")
            warnings.append(
                f"{workload.source}: {n:,} of {quantity(len(workload.jobs), 'job')} {have} neither walltime nor "
                f"estimate, and {reserving.policy} rejects {them}: plan {them} {by_option}with {their} run "
                f"time{'' if n == 1 else 's'} by {setting('walltimes', 'requested')} (or another rule than "
                "requested-strict and none)"
            )
    return warnings


def order_warnings(options: Any, loaded: Collection[Workload]) -> list[str]:
    """Return warnings about orders of a policy that compare texts with a field that no job has. O(fields)."""
    known = sorted({name for workload in loaded for name in workload.fields})
    texts = {name: getattr(options, name, None) for name in ("order", "backfill_order")}
    missing = [
        (name, field)
        for name, text in texts.items()
        for field in dict.fromkeys(compared_fields(text) if isinstance(text, str) else ())
        if field not in known
    ]
    return [
        f"{setting('options', name)}: no job of the workloads has the field {field}, which the order compares with a "
        f"text, so the comparison has the same value for all jobs; they have {', '.join(known)[:200]}"
        for name, field in missing
    ]


def network_warning(platform: Platform) -> str:
    """Return a warning if jobs that communicate find hosts without routes; empty if not. O(hosts + routes)."""
    if platform.network is None:
        return ""
    from pybatsched.platform.network.routes import missing_routes  # noqa: PLC0415  most platforms have no network

    missing = missing_routes(platform.network, {host.name for host in platform.hosts})
    return f"{platform.source}: {missing}" if missing else ""


def _works(loaded: Iterable[Workload]) -> list[Work]:
    """Return the profiles of workloads that have other profiles than delays. O(profiles)."""
    return [
        work
        for workload in loaded
        if any(profile["type"] != DELAY for profile in workload.profiles.values())
        for work in resolve(workload.profiles, workload.profiles).known()
    ]


def warnings_of(
    platform: Platform, loaded: Collection[Workload], options: SimulationOptions, plan: PolicyPlan | None
) -> list[str]:
    """Return what a user should know about the inputs of the embedded simulator before the run. O(jobs + hosts)."""
    works = _works(loaded)
    communicates = options.clock != EXACT and any(work.communicates for work in works)
    varies = communicates or any(work.kind == USAGE for work in works)
    is_used = has_network(options, platform, varies=varies)
    may_be_used = is_used or options.clock == BATSIM
    unless = " until a job or a message needs it" if may_be_used else ""
    refused = [f"{text} (Batsim rejects this; the embedded simulator ignores it{unless})" for text in platform.refused]
    if is_used and platform.network is not None and platform.network.refused:
        refused = []  # the run ends with an error
    found = [
        *(energy_warnings(loaded) if options.energy else []),
        *planning_warnings(None if plan is None else plan.reserving(options.begins()), loaded),
        *platform.remarks,
        *refused[:_N_REFUSED_SHOWN],
        "" if may_be_used else platform.network_note,
        network_warning(platform) if communicates else "",
        *size_warnings(platform, loaded),
    ]
    return [text for text in found if text]


def checkpoint_warnings(scenario: Scenario, failures: FailureModel | None) -> list[str]:
    """Return warnings about jobs that would hardly ever complete a checkpoint. O(jobs)."""
    if failures is None:
        return []
    mtbf_s = failures.node_mtbf_s(scenario.platform)
    return [text for workload in scenario.workloads.values() if (text := progress_remark(workload, mtbf_s))]
