"""Build a run: from its description to the inputs of the simulator, with all checks and warnings."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pybatsched.core.dependencies import FIELDS
from pybatsched.core.host_nodes import NODE_PROPERTIES
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.model_refs import ModelRef
from pybatsched.core.node_partitions import places_of, problem_with, specs_of as partitions_of
from pybatsched.core.services.host_reservations import specs_of, windows_of
from pybatsched.core.services.running_at_start import FIELD as RUNNING_AT_START
from pybatsched.errors import InputError, quantity, setting, spelled
from pybatsched.metrics import summary
from pybatsched.metrics.workload_fields import check_fields, not_evaluated
from pybatsched.platform import model, roles
from pybatsched.platform.groups import groups, has_properties, property_of
from pybatsched.platform.model import Platform
from pybatsched.policies.loading import names_file
from pybatsched.policies.registry import PolicyPlan
from pybatsched.runs.checks import checkpoint_warnings, order_warnings, warnings_of
from pybatsched.runs.running_jobs import placed
from pybatsched.runs.spec import MachineSpec, RunSpec, WorkloadSpec
from pybatsched.runs.workloads import Jobs, Sizing, check_formats, in_hosts, load_factor, read, sizing
from pybatsched.settings import check_exists, text_of
from pybatsched.simulator import external_events, run as simulator
from pybatsched.simulator.external_events import ExternalEvent
from pybatsched.simulator.failure_events import checkpointed
from pybatsched.simulator.options import AUTO, Scenario, SimulationOptions
from pybatsched.workload import jobs as job_checks, prepare
from pybatsched.workload.model import Workload
from pybatsched.workload.origins import origins
from pybatsched.workload.selection import NoJobsLeftError
from pybatsched.workload.start_rules import known_only

if TYPE_CHECKING:
    from pybatsched.core.field_check import FieldsLike
    from pybatsched.core.reservation_specs import ReservationSpec


_EQUAL: Final = MachineSpec()
#: The model of the fields of jobs that may not start yet, or that run when the simulation begins.
_START_FIELDS: Final = ModelRef("pybatsched.core.fields:StartFields", dict.fromkeys((*FIELDS, RUNNING_AT_START)))


class Fitted(msgspec.Struct, frozen=True):
    """The machine of a run, and its workloads in hosts with the wanted load. `how` is for summaries."""

    platform: Platform
    workloads: dict[str, Workload]
    how: Mapping[str, Any]
    notes: Sequence[str]
    warnings: Sequence[str]


class Built(msgspec.Struct, frozen=True):
    """A run that is ready to start. `plan` is its policy; None for an external scheduler."""

    spec: RunSpec
    scenario: Scenario
    plan: PolicyPlan | None
    how: Mapping[str, Any]
    inputs: Mapping[str, list[dict[str, str]]]
    notes: Sequence[str]
    warnings: Sequence[str]

    @property
    def n_jobs(self) -> int:
        """The number of jobs of all workloads."""
        return sum(len(workload.jobs) for workload in self.scenario.workloads.values())

    def setting(self) -> summary.RunSetting:
        """Return the inputs and options of the run, for its summary."""
        options = self.scenario.options
        more: dict[str, bool | str] = {
            "energy": options.energy,
            "compute-sharing": options.compute_sharing,
            "storage-sharing": options.storage_sharing,
        }
        if options.clock != AUTO:
            more["clock"] = options.clock
        platform = self.scenario.platform
        policy = None if self.plan is None else described(self.plan, options)
        clusters = summary.clusters_text(groups(platform, "cluster"))
        return summary.RunSetting(
            self.inputs, platform.n_procs, self.n_jobs, options.batsim_config() | more, policy, clusters
        )


def build(spec: RunSpec, jobs: Sequence[Jobs] = (), *, clock: str = "") -> Built:
    """Return a run that is ready to start, of workloads in memory (`jobs`) or files. Raises InputError.

    With `clock` BATSIM, it is a run of `pybatsched batsim`.
    """
    plan = None if spec.policy is None else spec.policy.plan(spec.seed)
    options = options_of(spec)
    options = replace(options, clock=clock or options.clock)
    machine = _with_seed(spec)
    if plan is not None:
        machine = _with_platform(machine, plan)
        if machine.failures is not None:
            plan = simulator.with_failure_rule(plan, options, machine.failures)
        options = simulator.with_needs(options, plan)
    platform = platform_of(machine)
    jobs = read_all(spec, jobs)
    fitted = fit(jobs, spec.workloads, machine, platform)
    platform, workloads = fitted.platform, fitted.workloads
    check_workloads(workloads, {} if plan is None else plan.field_models(options.begins()), platform)
    if options.energy:
        model.check_energy(platform)
    if plan is not None:
        chosen = plan.options_for(options.begins())
        _check_reserved(chosen, workloads, platform)
        check_partitions(chosen, workloads, platform)
    scenario = scenario_of(platform, workloads, options, machine, math.inf if spec.stop_at is None else spec.stop_at)
    warnings = [
        *fitted.warnings,
        *warnings_of(platform, workloads.values(), options, plan),
        *([] if plan is None else order_warnings(chosen, workloads.values())),
        *checkpoint_warnings(scenario, machine.failures),
    ]
    for one, workload in zip(jobs, workloads.values(), strict=True):
        if one.how is not None:
            workload.source = str(Path(one.name).resolve())  # as in Batsim; errors name files as the user does
    how = {**fitted.how, **not_evaluated(workloads)}
    found = zip(jobs, workloads.values(), strict=True)
    how["origins"] = sorted({name for one, workload in found for name in origins(workload.about, one.name)})
    how |= {} if machine.failures is None else {"failures": machine.failures.as_dict()}
    how |= {} if machine.checkpoint is None else {"checkpoint": machine.checkpoint.as_dict()}
    return Built(spec, scenario, plan, how, digests(machine, jobs), fitted.notes, warnings)


def read_all(spec: RunSpec, jobs: Sequence[Jobs] = ()) -> Sequence[Jobs]:
    """Return the jobs of a run, read from its files unless they are in memory. Raises InputError."""
    if not jobs:
        check_formats(spec.workloads)
        try:
            jobs = [read(one, len(spec.workloads), may_be_empty=spec.allow_empty) for one in spec.workloads]
        except NoJobsLeftError as error:
            raise InputError(f"{error}; expected at least one job, or {setting('allow_empty')}") from None
    if not spec.allow_empty and not any(one.workload.jobs for one in jobs):
        what = "; ".join(f"{one.name}: {one.workload.why_empty}" for one in jobs) or f"no {setting('file')}"
        raise InputError(f"no job to run ({what}); expected a workload with jobs, or {setting('allow_empty')}")
    return jobs


def options_of(spec: RunSpec) -> SimulationOptions:
    """Return the options of the simulator. Raises InputError."""
    text = spec.sched_cfg if spec.sched_cfg_file is None else text_of("sched_cfg_file", spec.sched_cfg_file)
    return SimulationOptions(
        dynamic_jobs=spec.dynamic_jobs,
        acknowledge_dynamic_jobs=spec.acknowledge_dynamic_jobs,
        profile_reuse=spec.profile_reuse,
        forward_profiles=spec.forward_profiles,
        compute_sharing=spec.compute_sharing,
        storage_sharing=spec.storage_sharing,
        energy=spec.machine.energy,
        forward_unknown_events=spec.forward_unknown_events,
        sched_config=text,
        clock=spec.clock,
    )


def _with_seed(spec: RunSpec) -> MachineSpec:
    """Return the machine, with the seed of the run for its failures unless they have one of their own."""
    failures = spec.machine.failures
    if failures is None or failures.seed is not None or spec.seed is None:
        return spec.machine
    return replace(spec.machine, failures=replace(failures, seed=spec.seed))


def _with_platform(machine: MachineSpec, plan: PolicyPlan) -> MachineSpec:
    """Return the machine, with the platform that an option of the policy names if the user names none."""
    named = machine.platform or machine.nodes or machine.n_procs
    path = None if named else plan.option(plan.source.cls.machine_option)
    return machine if path is None else replace(machine, platform=str(path))


def platform_of(spec: MachineSpec) -> Platform | None:
    """Return the platform that is named, or one of equal processors; None if it is that of the workloads."""
    if spec.platform is not None:
        from pybatsched.machines import names  # noqa: PLC0415  only for runs with a platform

        source = names.find(spec.platform, energy=spec.energy)
        platform = source.read(master=spec.master_host, roles=roles.read_roles(spec.roles))
    elif spec.nodes is not None:
        from pybatsched.machines import names  # noqa: PLC0415  as above

        platform = names.of_nodes(spec.nodes).read()
    elif spec.n_procs is not None:
        platform = model.uniform(spec.n_procs)
    else:
        return None
    return model.limit(platform, spec.mmax)


def fit(jobs: Sequence[Jobs], specs: Sequence[WorkloadSpec], spec: MachineSpec, platform: Platform | None) -> Fitted:
    """Return the machine and the workloads of a run: sizes in hosts, then the load. O(jobs). Raises InputError."""
    is_own = platform is None or spec.mmax_workload
    notes = [text for one in jobs for text in one.notes if is_own or not _is_estimate(one, text)]
    warnings = [text for one in jobs for text in one.warnings]
    resize = sizing(spec, platform)
    found: dict[str, Workload] = {}
    for number, one in enumerate(jobs):
        workload, conversion = in_hosts(one, resize)
        warnings += conversion
        found[f"w{number}"] = replace(workload)
    found, unknown = known_only(found)
    notes += unknown
    n_procs = max((workload.n_procs for workload in found.values()), default=0)
    if platform is None and n_procs:
        either = f"{setting('n_procs')} or {setting('platform')} changes this"
        if n_procs > model.MAX_HOSTS:
            source = max(found.values(), key=lambda one: one.n_procs).source
            expected = f"expected at most {model.MAX_HOSTS:,} processors, found {n_procs:,}"
            raise InputError(f"{source}: size of the machine: {expected}; {either}")
        notes.append(f"{quantity(n_procs, 'processor')}, as in the workload; {either}")
    platform = machine_of(spec, platform, n_procs)
    if any(RUNNING_AT_START in workload.fields for workload in found.values()):
        found = placed(found, platform)
    how = _how(jobs, spec, resize)
    if specs and specs[0].scales_load and any(workload.jobs for workload in found.values()):
        factor = load_factor(specs[0], list(found.values()), platform.n_procs)
        how["scale_load"] = factor
        notes.append(f"submission times are divided by {factor:g}")
        found = {name: prepare.scale_load(workload, factor) for name, workload in found.items()}
    return Fitted(platform, found, how, notes, warnings)


def machine_of(spec: MachineSpec, platform: Platform | None, n_procs: int) -> Platform:
    """Return the machine of a run whose workloads were made for `n_procs` processors. Raises InputError."""
    if platform is None:
        if not n_procs:
            raise InputError(
                f"expected {setting('platform')} or {setting('n_procs')}, or a workload that contains the size of its "
                "machine"
            )
        platform = model.limit(model.uniform(n_procs), spec.mmax)
    return model.limit(platform, n_procs if spec.mmax_workload else 0)


def size_of(spec: MachineSpec, n_procs: int) -> int:
    """Return the size of that machine. Reads its platform again only if the file has changed. Raises InputError."""
    return _size_of(spec, n_procs, version_of(spec.platform or ""))


@lru_cache(16)
def _size_of(spec: MachineSpec, n_procs: int, _version: tuple[int, int] | None) -> int:
    return machine_of(spec, platform_of(spec), n_procs).n_procs


def version_of(path: str) -> tuple[int, int] | None:
    """Return the time and the size of a file, which change with its content; None if it is no file."""
    status = Path(path).stat() if path and os.path.isfile(path) else None  # noqa: PTH113  false for an impossible name
    return status and (status.st_mtime_ns, status.st_size)


def _is_estimate(jobs: Jobs, note: str) -> bool:
    """Return whether a note says how the machine of a log was estimated: a given machine replaces it."""
    estimate = jobs.workload.about.get("estimated_machine")
    return estimate is not None and spelled(note).endswith(estimate)


def _how(jobs: Sequence[Jobs], spec: MachineSpec, resize: Sizing | None) -> dict[str, Any]:
    """Return how the workloads were read. All files of a run are read in the same way."""
    how = dict(next((one.how for one in jobs if one.how is not None), {"walltimes": "requested"}))
    converted = [one.is_from_log for one in jobs]
    if resize is not None and (resize.asked or any(converted)):
        how["units"] = resize.unit if resize.asked or all(converted) else f"{resize.unit} (of logs)"
    elif spec.units is not None:
        how["units"] = spec.units
    return how


def scenario_of(
    platform: Platform,
    workloads: Mapping[str, Workload],
    options: SimulationOptions,
    machine: MachineSpec = _EQUAL,
    ends_at: float = math.inf,
    *,
    event_lists: Sequence[Iterable[ExternalEvent]] = (),
) -> Scenario:
    """Return the inputs of the simulator, and read its external events. Raises InputError."""
    events = list(event_lists)
    for path in machine.events:
        check_exists("events", path)
        n_hosts, forward = len(platform.hosts), options.forward_unknown_events
        events.append(external_events.read(path, n_hosts=n_hosts, forward_unknown=forward))
    if machine.failures is not None:
        events.append(machine.failures.on(platform))
    workloads = checkpointed(workloads, machine.checkpoint, platform, machine.failures)
    return Scenario(platform, dict(workloads), options, events, ends_at)


def check_workloads(
    workloads: Mapping[str, Workload], models: Mapping[str, FieldsLike], platform: Platform | None
) -> None:
    """Raise InputError for repeated ids, and for fields that metrics or `models` cannot read. O(jobs)."""
    job_checks.check_ids(workloads)
    check_fields(workloads.values())
    files = [workload for workload in workloads.values() if isinstance(workload.jobs, list)]  # logs have valid fields
    job_checks.check_fields(files, {"engine": _START_FIELDS})
    clusters = () if platform is None else tuple(groups(platform, "cluster"))
    job_checks.check_fields(workloads.values(), models, {"clusters": clusters})
    if platform is not None and has_properties(platform, NODE_PROPERTIES):
        job_checks.check_requests(workloads.values())


def _check_reserved(options: Any, workloads: Mapping[str, Workload], platform: Platform) -> None:
    """Raise InputError for reservations of hosts or for jobs that are not there."""
    specs = specs_of(options)
    if specs:
        _check_members(specs, workloads)
    check_reservations(specs, platform)


def _check_members(specs: Iterable[ReservationSpec], workloads: Mapping[str, Workload]) -> None:
    """Raise InputError for users, accounts and reservations that are unknown. O(jobs)."""
    users: set[str] = set()
    accounts: set[str] = set()
    asked: dict[str, str] = {}
    for workload in workloads.values():
        for job in workload.jobs:
            users.add(str(job.get("user", "")))
            accounts.update((str(job.get("account", "")), str(job.get("group", ""))))
            if "reservation" in job:
                asked.setdefault(str(job["reservation"]), f"{workload.source}: job {job['id']}")
    for spec in specs:
        for kind, names, known in (("users", spec.users, users), ("accounts", spec.accounts, accounts)):
            for name in names:
                if name not in known:
                    text = f"{kind}: expected {kind} of jobs, found {name!r:.60}, which no job has"
                    raise InputError(f"{spec.title}: {text}")
    reserved = sorted({spec.name for spec in specs})
    for name, where in asked.items():
        if name not in reserved:
            raise InputError(f"{where}, field reservation: expected one of {reserved}, found {name!r:.60}")


def check_partitions(options: Any, workloads: Mapping[str, Workload], platform: Platform) -> None:
    """Raise InputError for nodes of partitions, or partitions of jobs, that are not there. O(jobs), 0 without any."""
    specs = partitions_of(options)
    if not specs:
        return
    nodes = list(dict.fromkeys(property_of(host, "node") or host.name for host in platform.compute))
    for spec in specs:
        places_of(spec, nodes)
    for workload in workloads.values():
        for job in workload.jobs:
            problem = None if job.get(RUNNING_AT_START) else problem_with(job, specs)
            if problem is not None:
                raise InputError(f"{workload.source}: job {job['id']}, field partition: {problem}")


def check_reservations(specs: Sequence[ReservationSpec], platform: Platform) -> None:
    """Raise InputError for reserved hosts that the platform does not have. O(hosts + windows²), 0 without any."""
    if specs:
        numbers = {host.name: number for number, host in enumerate(platform.hosts)}
        windows_of(specs, IntervalSet.span(0, platform.n_procs), numbers)


def digests(machine: MachineSpec, jobs: Sequence[Jobs]) -> dict[str, list[dict[str, str]]]:
    """Return the digests of the inputs, by kind. Call it when they are read, not after the run."""
    platforms = []
    if machine.platform is not None:
        from pybatsched.machines import names  # noqa: PLC0415  only for runs with a platform

        platforms = [_digest(machine.platform, names.find(machine.platform, energy=machine.energy).data())]
    elif machine.nodes is not None:
        platforms = [_digest(machine.nodes, machine.nodes.encode())]
    return {
        "platform": platforms,
        "workloads": [{"file": one.copy or one.name, "sha256": one.digest} for one in jobs],
        "events": [_digest(path, _content(path)) for path in machine.events],
    }


def _digest(name: str, content: bytes) -> dict[str, str]:
    return {"file": name, "sha256": hashlib.sha256(content).hexdigest()}


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def described(plan: PolicyPlan, options: SimulationOptions) -> dict[str, Any]:
    """Return the policy and its options, before any file is written. References are those of a policy in a file."""
    chosen = plan.options_for(options.begins()).model_dump(mode="json")
    about = {"name": plan.source.name, "origin": plan.source.origin, "options": chosen}
    own = plan.source.cls.references
    return about | ({"references": list(own)} if own and names_file(plan.source.name) else {})
