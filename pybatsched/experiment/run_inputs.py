"""The inputs of a run: sizes in hosts, warnings about workloads, digests of files, and the setting in its summary."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybatsched.core.field_check import FieldsLike
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.services.host_reservations import windows_of
from pybatsched.errors import InputError, quantity
from pybatsched.metrics import summary
from pybatsched.metrics.workload_fields import check_fields
from pybatsched.platform.groups import groups, host_size
from pybatsched.platform.model import Platform
from pybatsched.policies import registry
from pybatsched.policies.registry import Reserving
from pybatsched.simulator import external_events, run as runs
from pybatsched.simulator.external_events import ExternalEvent
from pybatsched.simulator.failure_events import FailureModel, checkpointed
from pybatsched.simulator.options import AUTO, BATSIM, EXACT, SIMGRID, Scenario, SimulationOptions
from pybatsched.simulator.work.profiles import DELAY, resolve
from pybatsched.workload import jobs as job_checks
from pybatsched.workload.formats.files import digest_of
from pybatsched.workload.inject.checkpoints import Checkpointing, progress_remark
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import in_hosts
from pybatsched.workload.report import Report

if TYPE_CHECKING:
    from pybatsched.core.services.reservation_specs import ReservationSpec

#: How many things that Batsim rejects are shown of a platform.
_N_REFUSED_SHOWN: Final = 3


class Sizing(NamedTuple):
    """How sizes in cores become sizes in hosts. `asked`: by --units, for all files; else by the platform, for logs."""

    unit: str
    n_cores: int
    n_hosts: int
    n_cores_in_all: int
    asked: bool

    def applied(self, workload: Workload, report: Report | None = None) -> tuple[Workload, Report]:
        """Return the workload with sizes in hosts. Its machine is the platform, unless the workload has more cores."""
        n_procs = None if workload.n_procs > self.n_cores_in_all else -(-workload.n_procs // self.n_cores)
        n_procs = None if n_procs is None else min(n_procs, self.n_hosts)
        return in_hosts(workload, self.unit, self.n_cores, report, n_procs)


def unit_by_name(name: str | None) -> str | None:
    """Return the unit that sizes of logs are converted to on this platform by default; None for no conversion."""
    known = _named_unit(name)
    return None if known is None or known[1] else known[0]


def _named_unit(name: str | None) -> tuple[str, bool] | None:
    """Return the unit of the hosts of a platform, by its name, as `machines.names.unit_of`; None without a name."""
    if name is None:
        return None
    from pybatsched.machines import names  # noqa: PLC0415  only for runs with a platform

    return names.unit_of(name)


def sizing(unit: str | None, platform: Platform, name: str | None) -> Sizing | None:
    """Return how sizes in cores become sizes in hosts of this platform; None for no conversion.

    `unit` is the user's choice. If it is None, a known machine whose logs count cores has its own unit. Raises
    InputError if the hosts of the platform are not such units.
    """
    known = _named_unit(name)
    by_name = unit_by_name(name)
    if unit == "core" or (unit is None and by_name is None):
        return None
    if unit is not None and known is not None and known[0] != unit:
        raise InputError(
            f"--units {unit}: expected a platform with a {unit} per host, found {name}, with a {known[0]} per host"
        )
    size = host_size(platform)
    if unit is not None and size.n_cores == 1:
        raise InputError(
            f"--units {unit}: expected a platform whose hosts have the property cores, found one core per host "
            f"in {platform.source}"
        )
    return Sizing(unit or by_name or "", *size, asked=unit is not None)


def size_warnings(platform: Platform, loaded: Iterable[Workload]) -> list[str]:
    """Return warnings for workloads that were made for a larger machine. O(jobs + hosts).

    A typical cause are sizes in cores on a platform of nodes. `--units` needs a platform with the property cores.
    """
    warnings = []
    n_procs, has_cores = platform.n_procs, host_size(platform).n_cores > 1
    advice = "use --units node or --units pset"
    if not has_cores:
        known = "such as NAME-node or NAME-pset of `pybatsched platform list`"
        advice = f"use a platform whose hosts have the property cores ({known}) and {advice}"
    for workload in loaded:
        all_jobs = quantity(len(workload.jobs), "job")
        n_large = sum(job["res"] > n_procs for job in workload.jobs)
        if 2 * n_large > len(workload.jobs):
            warnings.append(
                f"{workload.source}: {n_large:,} of {all_jobs} {'is' if n_large == 1 else 'are'} larger than the "
                f"platform's {quantity(n_procs, 'processor')} and will be rejected; if their sizes are cores and the "
                f"hosts are not, {advice}"
            )
        elif workload.n_procs > n_procs:
            see = " See --units" if has_cores else ""
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
    """Return warnings about jobs that a policy rejects because they have neither walltime nor estimate. O(jobs).

    `reserving` describes a policy that makes a reservation for each job. It is None for other policies.
    """
    warnings: list[str] = []
    if reserving is None:
        return warnings
    by_option = f"with -o {shlex.quote(reserving.option)}, or, in a log, " if reserving.option else "in a log "
    for workload in loaded:
        n = sum(job.get("walltime", -1) == -1 and job.get("estimate") is None for job in workload.jobs)
        if n:
            have, them, their = ("has", "it", "its") if n == 1 else ("have", "them", "their")
            warnings.append(
                f"{workload.source}: {n:,} of {quantity(len(workload.jobs), 'job')} {have} neither walltime nor "
                f"estimate, and {reserving.policy} rejects {them}: plan {them} {by_option}with {their} run "
                f"time{'' if n == 1 else 's'} by --walltimes requested "
                "(or another rule than requested-strict and none)"
            )
    return warnings


def check_workloads(
    workloads: Mapping[str, Workload], models: Mapping[str, FieldsLike], platform: Platform | None
) -> None:
    """Raise InputError for repeated ids of jobs, and for fields that metrics or the policy cannot read. O(jobs).

    `models` are the fields of the policy. Without a platform, there are no clusters.
    """
    job_checks.check_ids(workloads)
    check_fields(workloads.values())
    clusters = () if platform is None else tuple(groups(platform, "cluster"))
    job_checks.check_fields(workloads.values(), models, {"clusters": clusters})


def check_reservations(specs: Sequence[ReservationSpec], platform: Platform) -> None:
    """Raise InputError for reservations of hosts that the platform does not have. O(hosts + windows²), 0 without any.

    The engine has the same check, but it knows the machine only when the run has begun.
    """
    if specs:
        numbers = {host.name: number for number, host in enumerate(platform.hosts)}
        windows_of(specs, IntervalSet.span(0, platform.n_procs), numbers)


def network_warning(platform: Platform) -> str:
    """Return a warning if jobs that communicate find hosts without routes; empty if not. O(hosts + routes)."""
    if platform.network is None:
        return ""
    from pybatsched.platform.network.routes import missing_routes  # noqa: PLC0415  most platforms have no network

    missing = missing_routes(platform.network, {host.name for host in platform.hosts})
    return f"{platform.source}: {missing}" if missing else ""


def _communicates(loaded: Iterable[Workload]) -> bool:
    """Return whether a profile moves data over the network. O(profiles)."""
    return any(
        work.communicates
        for workload in loaded
        if any(profile["type"] != DELAY for profile in workload.profiles.values())
        for work in resolve("", workload.profiles, workload.profiles).known()
    )


def warnings_of(
    platform: Platform,
    loaded: Collection[Workload],
    options: SimulationOptions,
    plan: registry.PolicyPlan | None,
) -> list[str]:
    """Return what a user should know about the inputs of the embedded simulator before the run. O(jobs + hosts)."""
    communicates = options.clock != EXACT and _communicates(loaded)
    has_network = communicates or options.clock in {SIMGRID, BATSIM}
    unless = " until a job or a message needs it" if has_network else ""
    refused = [f"{text} (Batsim rejects this; the embedded simulator ignores it{unless})" for text in platform.refused]
    if (communicates or options.clock == SIMGRID) and platform.network is not None and platform.network.refused:
        refused = []  # the run ends with an error
    found = [
        *(energy_warnings(loaded) if options.energy else []),
        *planning_warnings(None if plan is None else runs.reserving(plan, options), loaded),
        *platform.remarks,
        *refused[:_N_REFUSED_SHOWN],
        "" if has_network else platform.network_note,
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


def scenario_of(
    platform: Platform,
    workloads: Mapping[str, Workload],
    options: SimulationOptions,
    event_files: Iterable[str],
    ends_at: float,
    *,
    failures: FailureModel | None = None,
    checkpointing: Checkpointing | None = None,
) -> Scenario:
    """Return the inputs of the embedded simulator, and read its external events. Raises InputError."""
    events: list[Iterable[ExternalEvent]] = [
        external_events.read(path, n_hosts=len(platform.hosts), forward_unknown=options.forward_unknown_events)
        for path in event_files
    ]
    if failures is not None:
        if events:
            raise InputError("events and random failures: expected only one of them, found both")
        events.append(failures.on(platform))
    workloads = checkpointed(workloads, checkpointing, platform, failures)
    return Scenario(platform, dict(workloads), options, events, ends_at)


def digests(
    platform: str | None, workload_files: Sequence[str], events: Sequence[str] = (), *, energy: bool = False
) -> dict[str, list[dict[str, str]]]:
    """Return the digests of the inputs, by kind. Call it when they are read, not after the run."""
    platforms = []
    if platform is not None:
        from pybatsched.machines import names  # noqa: PLC0415  only for runs with a platform

        platforms = [_digest(platform, names.find(platform, energy=energy).data())]
    return {
        "platform": platforms,
        "workloads": [{"file": path, "sha256": digest_of(path)} for path in workload_files],
        "events": [_digest(path, _content(path)) for path in events],
    }


def _digest(name: str, content: bytes) -> dict[str, str]:
    return {"file": name, "sha256": hashlib.sha256(content).hexdigest()}


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def setting_of(
    scenario: Scenario, files_read: Mapping[str, list[dict[str, str]]], policy: Mapping[str, Any] | None
) -> summary.Setting:
    """Return the inputs and options of a run on the embedded simulator."""
    options = scenario.options
    more: dict[str, bool | str] = {
        "energy": options.energy,
        "compute-sharing": options.compute_sharing,
        "storage-sharing": options.storage_sharing,
    }
    if options.clock != AUTO:
        more["clock"] = options.clock
    n_jobs = sum(len(workload.jobs) for workload in scenario.workloads.values())
    clusters = clusters_of(scenario.platform)
    return summary.Setting(
        files_read, scenario.platform.n_procs, n_jobs, options.batsim_config() | more, policy, clusters
    )


def described(
    scenario: Scenario,
    plan: registry.PolicyPlan | None,
    files_read: Mapping[str, list[dict[str, str]]],
    how_read: Mapping[str, Any],
    tau_s: float,
) -> tuple[summary.Setting, dict[str, Any]]:
    """Return the setting of a run on the embedded simulator, and the content of its state file."""
    policy = None if plan is None else policy_description(plan, scenario.options)
    setting = setting_of(scenario, files_read, policy)
    about = {"inputs": setting.inputs, "policy": policy, "tau_s": tau_s, **how_read}
    return setting, about | ({"clusters": setting.clusters} if setting.clusters else {})


def clusters_of(platform: Platform) -> dict[str, str]:
    """Return the processors of each cluster by name, if the machine has several. O(hosts)."""
    return summary.clusters_text(groups(platform, "cluster"))


def policy_description(plan: registry.PolicyPlan, options: SimulationOptions) -> dict[str, Any]:
    """Return the policy and its options, before any file is written."""
    return {"name": plan.source.name, "origin": plan.source.origin, "options": runs.options_of(plan, options)}
