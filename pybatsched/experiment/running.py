"""Run one simulation of an experiment and write its files, those of `pybatsched simulate`; in any process."""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError, quantity
from pybatsched.experiment import run_inputs
from pybatsched.experiment.arguments import check_count, warn
from pybatsched.experiment.log import Log, Time, in_seconds
from pybatsched.experiment.policies import PolicyChoice
from pybatsched.machines import names
from pybatsched.metrics import DEFAULT_TAU_S, summary
from pybatsched.metrics.workload_fields import not_evaluated
from pybatsched.platform import model
from pybatsched.platform.model import Platform
from pybatsched.policies.registry import PolicyPlan
from pybatsched.results.run_state import SUMMARY
from pybatsched.results.writing import Results
from pybatsched.session.journal import JournalWriter
from pybatsched.simulator import run as runs
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.simulator.options import AUTO, CLOCKS, Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import BATSIM_VERSION, Outputs
from pybatsched.workload.inject.checkpoints import Checkpointing
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import UNITS

#: The journal beside the results.
JOURNAL: Final = ".pbj"


class Folder:
    """A temporary directory, which is removed with this object."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="pybatsched-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass(frozen=True)
class Machine:
    """The machine of an experiment: a number of processors, or a platform by its file or name."""

    n_procs: int | None = None
    platform: str | None = None
    units: str | None = None
    energy: bool = False
    events: tuple[str, ...] = ()
    stop_at: Time | None = None
    clock: str = AUTO
    failures: FailureModel | None = None
    checkpointing: Checkpointing | None = None

    def __post_init__(self) -> None:
        if self.n_procs is not None:
            check_count("n_procs", self.n_procs)
        if self.n_procs is not None and self.platform is not None:
            raise InputError("n_procs and platform: expected only one of them, found both")
        if self.units not in {None, *UNITS}:
            raise InputError(f"units: expected one of {', '.join(UNITS)}, found {self.units!r:.40}")
        if self.units not in {None, "core"} and self.platform is None:
            raise InputError(f"units {self.units}: works only with a platform")
        if self.clock not in CLOCKS:
            raise InputError(f"clock: expected one of {', '.join(CLOCKS)}, found {self.clock!r:.40}")
        if self.energy and self.platform is None:
            raise InputError("energy: expected a platform with watts; equal processors have none")


def machine_of(
    *,
    n_procs: int | None,
    platform: str | Path | None,
    units: str | None,
    energy: bool,
    events: str | Path | Sequence[str | Path],
    stop_at: Time | None,
    clock: str = AUTO,
    failures: Mapping[str, Any] | None = None,
    checkpoint: str | Mapping[str, Any] | None = None,
) -> Machine:
    """Return the machine of a user's arguments. Raises InputError."""
    paths = (events,) if isinstance(events, str | Path) else events
    name = None if platform is None else str(platform)
    model = None if failures is None else FailureModel.of_settings(failures)
    saving = None if checkpoint is None else Checkpointing.of_settings(checkpoint)
    return Machine(n_procs, name, units, energy, tuple(map(str, paths)), stop_at, clock, model, saving)


@dataclass(frozen=True)
class Task:
    """One simulation: a workload, a policy and its seed, and a machine."""

    log: Log
    policy: PolicyChoice
    machine: Machine = Machine()
    seed: int | None = None
    tau_s: float = DEFAULT_TAU_S

    def __post_init__(self) -> None:
        if not 0 <= self.tau_s < math.inf:
            raise InputError(f"tau_s: expected 0 seconds or more, found {self.tau_s}")

    @property
    def label(self) -> str:
        """A short name of the run: its policy."""
        return self.policy.label


def sized(log: Log, machine: Machine) -> tuple[Platform, Workload]:
    """Return the platform, and the workload with sizes in its hosts. Raises InputError.

    Without a machine, the number of processors is that of the workload.
    """
    if machine.platform is None:
        return model.uniform(log.n_procs if machine.n_procs is None else machine.n_procs), log.workload
    platform = names.find(machine.platform, energy=machine.energy).read()
    sizing = run_inputs.sizing(machine.units, platform, machine.platform)
    if sizing is None or not (sizing.asked or log.is_from_log):
        return platform, log.workload
    return platform, sizing.applied(log.workload)[0]


def scenario_of(task: Task, plan: PolicyPlan) -> tuple[Scenario, list[str]]:
    """Return the inputs of the simulator, and warnings about them. Raises InputError."""
    machine = task.machine
    platform, workload = sized(task.log, machine)
    options = runs.with_needs(SimulationOptions(energy=machine.energy, clock=machine.clock), plan)
    if options.energy:
        model.check_energy(platform)
    workloads = {"w0": workload}
    run_inputs.check_workloads(workloads, runs.field_models(plan, options), platform)
    run_inputs.check_reservations(runs.host_reservations(plan, options), platform)
    ends_at = math.inf if machine.stop_at is None else in_seconds(machine.stop_at, "stop_at")
    scenario = run_inputs.scenario_of(
        platform,
        workloads,
        options,
        machine.events,
        ends_at,
        failures=machine.failures,
        checkpointing=machine.checkpointing,
    )
    warnings = run_inputs.warnings_of(platform, workloads.values(), options, plan)
    return scenario, [*warnings, *run_inputs.checkpoint_warnings(scenario, machine.failures)]


def run_task(
    task: Task,
    prefix: str,
    *,
    progress: Callable[[float, int], None] | None = None,
    journal: bool = False,
) -> list[str]:
    """Simulate, and write the files of `pybatsched simulate -e PREFIX`. Returns warnings."""
    plan = task.policy.plan(task.seed)
    failures = task.machine.failures
    if failures is not None:
        plan = runs.with_failure_rule(plan, SimulationOptions(), failures)
    scenario, found = scenario_of(task, plan)
    how_read = dict(task.log.how_read or {"walltimes": "requested"})
    unit = scenario.workloads["w0"].about.get("units")
    if task.log.how_read is not None and isinstance(unit, dict):
        how_read["units"] = unit["unit"]
    how_read |= not_evaluated(scenario.workloads)
    how_read |= {} if failures is None else {"failures": failures.as_dict()}
    saving = task.machine.checkpointing
    how_read |= {} if saving is None else {"checkpoint": saving.as_dict()}
    options = scenario.options
    files = run_inputs.digests(task.machine.platform, [], task.machine.events, energy=options.energy)
    name = task.log.name if task.log.how_read is None else task.log.workload.source
    files["workloads"] = [{"file": name, "sha256": task.log.digest}]
    setting, about = run_inputs.described(scenario, plan, files, how_read, task.tau_s)
    journal_path = f"{prefix}{JOURNAL}" if journal else None
    with Results(prefix, about, journal_path) as results:
        result = runs.run_policy(
            scenario,
            plan,
            Outputs(results, energy=options.energy),
            journal=JournalWriter(journal_path) if journal_path else None,
            progress=progress,
            tau_s=task.tau_s,
        )
        results.cut_at = result.cut_at
        extra = {**how_read, "seed": task.seed, "names": {"policy": task.label, "workload": task.log.name}}
        content = summary.of_run(setting, result, extra, {"behaves_as_batsim": BATSIM_VERSION})
        summary.write(f"{results.part}{SUMMARY}", content)
        results.finish()
    return [*found, *_about_result(task, result)]


def _about_result(task: Task, result: summary.Result) -> list[str]:
    """Return what a user should know about a result: rejected and unfinished jobs, remarks, broken promises."""
    found = [f"{quantity(n, 'job')} rejected, first reason: {why or 'none was given'}" for n, why in result.rejections]
    found += result.remarks
    found += [f"the policy broke a promise: {text}" for text in result.broken_promises]
    if not result.finished and result.cut_at is None:
        why = f": {result.stuck[0].job_id}: {result.stuck[0].why}" if result.stuck else ""
        found.append(f"the simulation stopped with {quantity(len(result.stuck), 'job')} unfinished{why}")
    return [f"{task.label}: {text}" for text in found]


def warn_all(texts: Sequence[str]) -> None:
    """Show warnings, each once."""
    for text in dict.fromkeys(texts):
        warn(text)
