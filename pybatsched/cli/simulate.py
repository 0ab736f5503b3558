"""Simulate a policy on a workload with the embedded simulator: no Batsim needed."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybatsched.cli.common import arguments, faults, inputs, process, run_end
from pybatsched.cli.common.progress import ProgressLine, print_exchange
from pybatsched.errors import InputError, not_utf8, quantity
from pybatsched.experiment import run_inputs
from pybatsched.live import DEFAULT_ENDPOINT, DEFAULT_TIMEOUT_S
from pybatsched.metrics import summary
from pybatsched.metrics.workload_fields import not_evaluated
from pybatsched.platform import model, roles
from pybatsched.platform.model import Platform
from pybatsched.policies import registry
from pybatsched.results.writing import Results
from pybatsched.simulator import run as runs
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.simulator.options import AUTO, BATSIM5_VERSION, CLOCKS, Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import BATSIM_VERSION, Outputs
from pybatsched.workload.model import Workload
from pybatsched.workload.selection import seconds_of

if TYPE_CHECKING:
    from pybatsched.live.keys import ClientKeys
    from pybatsched.session.journal import JournalWriter

EPILOG: Final = """\
examples:
  pybatsched simulate -w SDSC-SP2.swf.gz --policy easy -e out/easy
  pybatsched simulate -p platform.xml -w a.json -w b.json --policy conservative -o compression=false -e out/run
  pybatsched simulate -p platform.xml -w a.json --external -s tcp://127.0.0.1:28000    act as Batsim for any scheduler

writes PREFIX_jobs.csv, PREFIX_schedule.csv and PREFIX_machine_states.csv with Batsim's columns, and PREFIX_summary.json
with figures, versions, options and digests of the inputs. During the run their names are PREFIX.part_*. Existing
results are replaced only when the new run has finished, with a note if they had another policy or other inputs.
PREFIX_state.json holds the state of the run: running, interrupted, failed or finished.
Options that also exist in Batsim have Batsim's names.
Jobs that communicate or use storage run on SimGrid's clock (--clock). Profiles of MPI traces are rejected: run them
with Batsim.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `simulate`."""
    _add_inputs(parser.add_argument_group("inputs"))
    failing = parser.add_argument_group("failures of machines")
    faults.add_failures(failing)
    faults.add_checkpoints(failing)
    scheduler = parser.add_argument_group("scheduler")
    arguments.add_policy(scheduler, required=False)
    add = scheduler.add_argument
    add("--external", action="store_true", help="act as Batsim for an external scheduler")
    add(
        "-s",
        "--socket-endpoint",
        default=None,
        metavar="ENDPOINT",
        help=f"endpoint of the external scheduler (default {DEFAULT_ENDPOINT})",
    )
    add(
        "--curve",
        metavar="DIR",
        help="encrypt the connection by CURVE, with the keys in DIR (see `pybatsched keys`)",
    )
    add(
        "--protocol",
        choices=["v4", "v5"],
        default="v4",
        help="protocol of the external scheduler: that of Batsim 3.1 to 4.2 (default), or of Batsim 5",
    )
    arguments.add_timeout(add, "the external scheduler does not reply for this time", default=None)
    add(
        "--send-end",
        action="store_true",
        help="send SIMULATION_ENDS to an external scheduler after a deadlock (Batsim sends nothing)",
    )
    arguments.add_old_names(scheduler, "--farewell", dest="send_end", action="store_true")
    arguments.add_seed(scheduler)
    out = parser.add_argument_group("output")
    add = out.add_argument
    add("-e", "--export", default="out", metavar="PREFIX", help="prefix of all output files (default %(default)s)")
    add("--journal", metavar="FILE", help="record the run for replay and explain")
    add("--disable-machine-state-tracing", action="store_true", help="do not write PREFIX_machine_states.csv")
    arguments.add_tau(out)
    add("-q", "--quiet", action="store_true", help="print nothing but errors")
    add("-v", "--verbose", action="store_true", help="print every message and decision, and tracebacks of plugins")
    _add_batsim(parser.add_argument_group("options of Batsim"))


def _add_inputs(group: arguments.Group) -> None:
    add = group.add_argument
    add("-p", "--platform", metavar="FILE|NAME", help=inputs.PLATFORM_HELP)
    add(
        "--procs", type=arguments.processors, metavar="N", help="instead of a platform: N equal processors of 1 Gflop/s"
    )
    inputs.add_workloads(group)
    add("--events", action="append", default=[], metavar="FILE", help="external events, one JSON object per line")
    inputs.add_roles(group)
    add(
        "--mmax",
        type=arguments.natural,
        default=0,
        metavar="N",
        help="keep the first N processors only (default 0: all)",
    )
    add("--mmax-workload", action="store_true", help="keep as many processors as the workloads have (nb_res)")
    add("--stop-at", metavar="T", help="end the simulation at time T (seconds, or 12h, 3d, 2w), even with jobs left")
    arguments.add_old_names(group, "--until-time", dest="stop_at")


def _add_batsim(group: arguments.Group) -> None:
    add = group.add_argument
    flag = "store_true"
    add(
        "--clock",
        choices=CLOCKS,
        default=AUTO,
        help="exact: exact times, Batsim's own messages take no simulated time; simgrid: times, network and order as "
        "in SimGrid, to the last bit; auto: simgrid if jobs communicate, else exact (default: %(default)s)",
    )
    add("-E", "--energy", action=flag, help="simulate energy and pstates; writes two more files")
    add(
        "--enable-dynamic-jobs",
        action=flag,
        help="allow the scheduler to register jobs (on by default for policies that need it)",
    )
    add("--acknowledge-dynamic-jobs", action=flag, help="send an event to the scheduler for each job it has registered")
    add("--enable-profile-reuse", action=flag, help="keep profiles whose jobs have ended")
    add("--forward-profiles-on-submission", action=flag, help="send the profile with each job")
    add("--enable-compute-sharing", action=flag, help="allow several jobs to compute on one processor")
    add("--disable-storage-sharing", action=flag, help="one job at a time on a storage host")
    add("--forward-unknown-events", action=flag, help="forward events of unknown types to the scheduler")
    add("--sched-cfg", metavar="TEXT", help="configuration for the scheduler, sent to it at the start")
    add("--sched-cfg-file", metavar="FILE", help="the same from a file")


def run(args: argparse.Namespace) -> int:
    """Simulate, write the files and print the closing table."""
    _check_choices(args)
    if args.energy and args.platform is None:
        raise InputError("-E, --energy: expected -p PLATFORM with watts; the processors of --procs N have none")
    process.raise_interrupted()
    plan = None
    if args.policy:
        plan = arguments.policy_plan(args.policy, args.options, args.config, args.seed, args.reservations)
        plan.check_early()
    elif args.options or args.config or args.journal or args.reservations:
        raise InputError(
            "-o, --config, --reservations and --journal: work only with --policy; an external scheduler has its own "
            "options"
        )
    elif args.curve is not None:
        _keys(args)  # before the run starts
    if args.curve is not None and plan is not None:
        raise InputError("--curve: works only with --external; a policy in this process has no connection")
    _refuse_to_overwrite(args, plan)
    if args.protocol == "v5":
        _check_batsim5(args)
    failures = faults.failure_model(args)
    if failures is not None and plan is not None:
        plan = runs.with_failure_rule(plan, _options(args), failures)
    scenario = read_scenario(args, plan, failures)
    options = scenario.options
    files = run_inputs.digests(args.platform, args.workload, args.events, energy=options.energy)
    how_read = {**inputs.reading_options(args), **not_evaluated(scenario.workloads)}
    how_read |= {} if failures is None else {"failures": failures.as_dict()}
    checkpointing = faults.checkpointing(args)
    how_read |= {} if checkpointing is None else {"checkpoint": checkpointing.as_dict()}
    how_read["command"] = inputs.command_to_repeat("simulate", add_arguments, args)
    setting, about = run_inputs.described(scenario, plan, files, how_read, args.tau)
    with run_end.keep_files(Results(args.export, about, args.journal)) as results:
        result = _simulate(args, scenario, plan, results)
        results.cut_at = result.cut_at
        extra = {**how_read, "seed": args.seed}
        version = BATSIM5_VERSION if args.protocol == "v5" else BATSIM_VERSION
        about = summary.of_run(setting, result, extra, {"behaves_as_batsim": version})
        run_end.put_in_place(results, about, quiet=args.quiet)
    return run_end.print_result(result, quiet=args.quiet, dynamic_jobs=options.dynamic_jobs)


def _check_choices(args: argparse.Namespace) -> None:
    """Raise InputError for options that exclude each other, are missing, or have no effect."""
    if args.policy and args.external:
        raise InputError("--policy and --external were both given; expected only one")
    if not args.policy and not args.external:
        raise InputError("expected either --policy NAME or --external")
    if args.platform is not None and args.procs is not None:
        raise InputError("-p and --procs were both given; expected only one")
    if args.timeout is not None and not args.external:
        raise InputError("--timeout: works only with --external; a policy in this process has no time limit")
    if args.platform is None:
        if args.master_host != model.DEFAULT_MASTER:
            raise InputError(
                f"-m {args.master_host}: works only with -p PLATFORM; the hosts of --procs N have no master"
            )
        if args.add_role_to_hosts:
            raise InputError(
                "-r, --add-role-to-hosts: works only with -p PLATFORM; the hosts of --procs N have no roles"
            )


def _refuse_to_overwrite(args: argparse.Namespace, plan: registry.PolicyPlan | None) -> None:
    """Raise InputError if the run would write over one of its own inputs."""
    single = (path for path in (args.platform, args.sched_cfg_file, args.reservations) if path)
    given = [*single, *args.workload, *args.events, *arguments.files_of_policy(plan, args.config)]
    arguments.refuse_outputs_over(args.export, given)
    if args.journal:
        arguments.refuse_to_overwrite(args.journal, given)
        arguments.refuse_journal_among(args.journal, args.export)


#: Options that only Batsim 4 has: a scheduler of Batsim 5 requests these features itself.
_BATSIM4_ONLY: Final = (
    "enable_dynamic_jobs",
    "acknowledge_dynamic_jobs",
    "enable_profile_reuse",
    "forward_profiles_on_submission",
)


def _check_batsim5(args: argparse.Namespace) -> None:
    if not args.external:
        raise InputError("--protocol v5: works only with --external; a policy in this process uses no protocol")
    for name in _BATSIM4_ONLY:
        if getattr(args, name):
            option = name.replace("_", "-")
            raise InputError(
                f"--{option}: cannot be used with --protocol v5; schedulers of Batsim 5 request it themselves"
            )


def _simulate(
    args: argparse.Namespace, scenario: Scenario, plan: registry.PolicyPlan | None, results: Results
) -> summary.Result:
    options = scenario.options
    outputs = Outputs(results, energy=options.energy, machine_states=not args.disable_machine_state_tracing)
    n_jobs = sum(len(workload.jobs) for workload in scenario.workloads.values())
    with ProgressLine(n_jobs, ends_at=scenario.ends_at, quiet=args.quiet or args.verbose) as progress:
        if plan is not None:
            return runs.run_policy(
                scenario,
                plan,
                outputs,
                journal=_journal(args),
                watch=print_exchange if args.verbose else None,
                progress=progress.update_run,
                tau_s=args.tau,
            )
        endpoint = args.socket_endpoint or DEFAULT_ENDPOINT
        if not args.quiet:
            arguments.say(f"connecting to the scheduler at {endpoint}")
        return runs.run_external(
            scenario,
            endpoint,
            outputs,
            timeout_s=DEFAULT_TIMEOUT_S if args.timeout is None else args.timeout,
            send_end=args.send_end,
            progress=progress.update_run,
            tau_s=args.tau,
            batsim=5 if args.protocol == "v5" else 4,
            keys=_keys(args),
        )


def _journal(args: argparse.Namespace) -> JournalWriter | None:
    """Create the journal of --journal; None without it."""
    if not args.journal:
        return None
    from pybatsched.session.journal import JournalWriter  # noqa: PLC0415  only for --journal

    return JournalWriter(args.journal)


def _keys(args: argparse.Namespace) -> ClientKeys | None:
    """Read the keys of --curve; None without it."""
    if args.curve is None:
        return None
    from pybatsched.live import keys  # noqa: PLC0415  slow to import, and rarely needed

    return keys.read_client(args.curve)


def _options(args: argparse.Namespace) -> SimulationOptions:
    text = args.sched_cfg or ""
    if args.sched_cfg_file is not None:
        if args.sched_cfg is not None:
            raise InputError("expected either --sched-cfg or --sched-cfg-file, found both")
        try:
            text = Path(args.sched_cfg_file).read_text(encoding="utf-8-sig")
        except OSError as error:
            raise InputError(f"--sched-cfg-file {args.sched_cfg_file}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"--sched-cfg-file {args.sched_cfg_file}: {not_utf8(error)}") from None
    return SimulationOptions(
        dynamic_jobs=args.enable_dynamic_jobs,
        acknowledge_dynamic_jobs=args.acknowledge_dynamic_jobs,
        profile_reuse=args.enable_profile_reuse,
        forward_profiles=args.forward_profiles_on_submission,
        compute_sharing=args.enable_compute_sharing,
        storage_sharing=not args.disable_storage_sharing,
        energy=args.energy,
        forward_unknown_events=args.forward_unknown_events or args.protocol == "v5",  # Batsim 5 forwards all events
        sched_config=text,
        clock=args.clock,
    )


def read_scenario(
    args: argparse.Namespace, plan: registry.PolicyPlan | None = None, failures: FailureModel | None = None
) -> Scenario:
    """Read all inputs of the arguments. Turns on the options that the policy needs."""
    options = _options(args)
    ends_at = math.inf if args.stop_at is None else seconds_of(args.stop_at, "--stop-at")
    if plan is not None:
        options = runs.with_needs(options, plan)
    platform = _platform(args)
    models = {} if plan is None else runs.field_models(plan, options)
    n_procs = None if args.mmax_workload or platform is None else platform.n_procs
    workloads = inputs.workloads(args, models, platform, n_procs)
    if platform is None:
        platform = _machine_of(workloads, args)
    if args.mmax_workload and workloads:
        platform = model.limit(platform, max(workload.n_procs for workload in workloads.values()))
    if options.energy:
        model.check_energy(platform)
    if not args.quiet:
        for remark in run_inputs.warnings_of(platform, workloads.values(), options, plan):
            arguments.say(remark)
    checkpointing = faults.checkpointing(args)
    if failures is not None:
        faults.failures_on(failures, platform)  # raises InputError
    if plan is not None and args.reservations is not None:
        from pybatsched.core.services.reservation_specs import check_members  # noqa: PLC0415  imports pydantic

        jobs = ((workload.source, job) for workload in workloads.values() for job in workload.jobs)
        check_members(plan.given["host_reservations"], jobs)
    if plan is not None:
        run_inputs.check_reservations(runs.host_reservations(plan, options), platform)
    scenario = run_inputs.scenario_of(
        platform, workloads, options, args.events, ends_at, failures=failures, checkpointing=checkpointing
    )
    if not args.quiet:
        for remark in run_inputs.checkpoint_warnings(scenario, failures):
            arguments.say(remark)
    return scenario


def _machine_of(workloads: Mapping[str, Workload], args: argparse.Namespace) -> Platform:
    """Return as many equal processors as the workloads were made for, and print their number."""
    n_procs = max((workload.n_procs for workload in workloads.values()), default=0)
    if not n_procs:
        raise InputError("expected -p PLATFORM or --procs N, or a workload that contains the size of its machine")
    if not args.quiet:
        arguments.say(f"{quantity(n_procs, 'processor')}, as in the workload; --procs N or -p PLATFORM changes this")
    platform = model.uniform(n_procs)
    return model.limit(platform, args.mmax) if args.mmax else platform


def _platform(args: argparse.Namespace) -> Platform | None:
    """Return the platform of the arguments; None if it is that of the workloads."""
    if args.platform is None and args.procs is None:
        return None
    if args.platform is None:
        platform = model.uniform(args.procs)
    else:
        from pybatsched.machines import names  # noqa: PLC0415  only for runs with a platform

        roles_given = roles.read_roles(args.add_role_to_hosts)
        platform = names.find(args.platform, energy=args.energy).read(master=args.master_host, roles=roles_given)
    return model.limit(platform, args.mmax) if args.mmax else platform
