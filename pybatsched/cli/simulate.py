"""Simulate a policy on a workload with the embedded simulator: no Batsim needed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pybatsched.cli.common import arguments, inputs, process, run_end
from pybatsched.cli.common.progress import ProgressLine, loading, print_exchange
from pybatsched.errors import InputError, setting
from pybatsched.live import DEFAULT_ENDPOINT, DEFAULT_TIMEOUT_S
from pybatsched.runs.build import build
from pybatsched.runs.execute import execute, results_of
from pybatsched.runs.spec import MachineSpec, RunSpec
from pybatsched.simulator.observers import Observer, Watching
from pybatsched.simulator.options import BATSIM5_VERSION, Scenario
from pybatsched.simulator.outputs.files import BATSIM_VERSION, EnergyFiles, JobFiles, batsim_files
from pybatsched.simulator.run import run_external

if TYPE_CHECKING:
    from pybatsched.live.keys import ClientKeys
    from pybatsched.metrics import Tally
    from pybatsched.metrics.summary import Result

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
    add_inputs(parser.add_argument_group("inputs"))
    inputs.add_failures(parser.add_argument_group("failures of machines"))
    scheduler = parser.add_argument_group("scheduler")
    arguments.add_policy(scheduler, required=False)
    arguments.add_settings(scheduler, RunSpec, ["seed"])
    add = scheduler.add_argument
    add("--external", action="store_true", help="act as Batsim for an external scheduler")
    text = f"endpoint of the external scheduler (default {DEFAULT_ENDPOINT})"
    add("-s", "--socket-endpoint", default=None, metavar="ENDPOINT", help=text)
    add("--curve", metavar="DIR", help="encrypt the connection by CURVE, with the keys in DIR (see `pybatsched keys`)")
    text = "protocol of the external scheduler: that of Batsim 3.1 to 4.2 (default), or of Batsim 5"
    add("--protocol", choices=["v4", "v5"], default="v4", help=text)
    arguments.add_timeout(add, "the external scheduler does not reply for this time", default=None)
    text = "send SIMULATION_ENDS to an external scheduler after a deadlock (Batsim sends nothing)"
    add("--send-end", action="store_true", help=text)
    arguments.add_old_name(scheduler, "--farewell", "--send-end", "1.0", dest="send_end", action="store_true")
    out = parser.add_argument_group("output")
    add = out.add_argument
    add("-e", "--export", default="out", metavar="PREFIX", help="prefix of all output files (default %(default)s)")
    add("--journal", metavar="FILE", help="record the run for replay and explain")
    add("--disable-machine-state-tracing", action="store_true", help="do not write PREFIX_machine_states.csv")
    arguments.add_settings(out, RunSpec, ["tau_s"])
    add("-q", "--quiet", action="store_true", help="print nothing but errors")
    add("-v", "--verbose", action="store_true", help="print every message and decision, and tracebacks of plugins")
    batsim = parser.add_argument_group("options of Batsim")
    arguments.add_settings(batsim, MachineSpec, ["energy"])
    arguments.add_settings(batsim, RunSpec, ["clock", *BATSIM4_ONLY, *_OF_BATSIM])


def add_inputs(group: arguments.Group) -> None:
    """Describe the options for the machine, the workloads and the end of the simulation."""
    arguments.add_settings(group, MachineSpec, ["platform", "n_procs", "nodes"])
    inputs.add_workloads(group)
    arguments.add_settings(group, MachineSpec, ["units", "events", "master_host", "roles", "mmax", "mmax_workload"])
    arguments.add_settings(group, RunSpec, ["stop_at", "allow_empty"])


#: Settings that only Batsim 4 has: a scheduler of Batsim 5 requests these features itself.
BATSIM4_ONLY: Final = ("dynamic_jobs", "acknowledge_dynamic_jobs", "profile_reuse", "forward_profiles")
_OF_BATSIM: Final = ("compute_sharing", "storage_sharing", "forward_unknown_events", "sched_cfg", "sched_cfg_file")


def run(args: argparse.Namespace) -> int:
    """Simulate, write the files and print the closing table."""
    spec = spec_of(args)
    process.raise_interrupted()
    if args.curve is not None:
        _keys(args)  # before the run starts
    single = (path for path in (spec.machine.platform, spec.sched_cfg_file) if path)
    files = [*spec.machine.events, *(spec.policy.files() if spec.policy else ())]
    arguments.refuse_outputs_over(args, [*single, *(one.file for one in spec.workloads), *files])
    with loading(", ".join(f"reading {one.file}" for one in spec.workloads), quiet=args.quiet):
        built = build(spec)
    if not args.quiet:
        for text in (*built.notes, *built.warnings):
            arguments.say(text)
    command = {"command": inputs.command_to_repeat("simulate", add_arguments, args)}
    progress = ProgressLine(built.n_jobs, ends_at=built.scenario.ends_at, quiet=args.quiet or args.verbose)
    with run_end.keep_files(results_of(built, args.export, args.journal, command)) as results:
        with progress:
            result, content = execute(
                built,
                results,
                [Watching(progress.update_run)],
                files=_without_states if args.disable_machine_state_tracing else batsim_files,
                journal=args.journal,
                watch=print_exchange if args.verbose else None,
                external=None if spec.policy else partial(_external, args),
                version=BATSIM5_VERSION if args.protocol == "v5" else BATSIM_VERSION,
                more=command,
            )
        run_end.put_in_place(results, content, quiet=args.quiet)
    return run_end.print_result(result, quiet=args.quiet, dynamic_jobs=built.scenario.options.dynamic_jobs)


def spec_of(args: argparse.Namespace) -> RunSpec:
    """Return the run of the options. Raises InputError for options that exclude each other or have no effect."""
    if args.policy and args.external:
        raise InputError("--policy and --external were both given; expected only one")
    if not args.policy and not args.external:
        raise InputError("expected either --policy NAME or --external")
    if args.timeout is not None and not args.external:
        raise InputError("--timeout: works only with --external; a policy in this process has no time limit")
    given = (args.options, args.config, args.host_reservations, args.node_partitions, args.journal)
    if not args.policy and any(given):
        raise InputError(
            "-o, --config, --reservations, --partitions and --journal: work only with --policy; an external scheduler "
            "has its own options"
        )
    if args.curve is not None and args.policy:
        raise InputError("--curve: works only with --external; a policy in this process has no connection")
    if args.protocol == "v5":
        if not args.external:
            raise InputError("--protocol v5: works only with --external; a policy in this process uses no protocol")
        for name in BATSIM4_ONLY:
            if getattr(args, name):
                raise InputError(
                    f"{setting(name)}: cannot be used with --protocol v5; schedulers of Batsim 5 request it themselves"
                )
    spec = inputs.run_spec(args, arguments.policy_spec(args) if args.policy else None)
    return replace(spec, forward_unknown_events=True) if args.protocol == "v5" else spec  # Batsim 5 forwards all events


def _without_states(prefix: str) -> Sequence[Observer]:
    return [JobFiles(prefix), EnergyFiles(prefix)]


def _external(args: argparse.Namespace, scenario: Scenario, observers: Sequence[Observer], tally: Tally) -> Result:
    """Run the scheduler at the endpoint."""
    endpoint = args.socket_endpoint or DEFAULT_ENDPOINT
    if not args.quiet:
        arguments.say(f"connecting to the scheduler at {endpoint}")
    return run_external(
        scenario,
        endpoint,
        observers,
        tally=tally,
        timeout_s=DEFAULT_TIMEOUT_S if args.timeout is None else args.timeout,
        send_end=args.send_end,
        batsim=5 if args.protocol == "v5" else 4,
        keys=_keys(args),
    )


def _keys(args: argparse.Namespace) -> ClientKeys | None:
    """Read the keys of --curve; None without it."""
    if args.curve is None:
        return None
    from pybatsched.live import keys  # noqa: PLC0415  slow to import, and rarely needed

    return keys.read_client(args.curve)
