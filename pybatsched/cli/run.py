"""Run a policy with a real Batsim: start both, supervise them and stop both together."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from pybatsched.cli.common import arguments, inputs, process, run_end
from pybatsched.cli.common.progress import ProgressLine, print_exchange
from pybatsched.core import events as e
from pybatsched.core.engine import Engine, Reply
from pybatsched.core.policy import BatsimFeature
from pybatsched.core.services.feedback import FollowingJob
from pybatsched.core.services.host_reservations import specs_of
from pybatsched.live import batsim, batsim5
from pybatsched.live.supervision import Supervisor, result_of
from pybatsched.machines import names
from pybatsched.metrics import Tally, energy, jobs_csv, summary
from pybatsched.metrics.workload_fields import evaluated_ids, not_evaluated
from pybatsched.platform.groups import groups
from pybatsched.platform.model import DEFAULT_MASTER, check_energy
from pybatsched.policies import registry
from pybatsched.protocol import Message
from pybatsched.results import run_state
from pybatsched.results.writing import Results
from pybatsched.runs.build import (
    check_partitions,
    check_reservations,
    check_workloads,
    digests,
    fit,
    platform_of,
    read_all,
)
from pybatsched.runs.checks import planning_warnings, size_warnings
from pybatsched.runs.execute import all_warnings, with_node_figures
from pybatsched.runs.spec import MachineSpec, RunSpec
from pybatsched.runs.workloads import Jobs
from pybatsched.session.journal import JournalWriter
from pybatsched.session.session import Session
from pybatsched.workload import Workload, prepare
from pybatsched.workload.formats import batsim4, files
from pybatsched.workload.formats.batsim5 import to_batsim5
from pybatsched.workload.jobs import full_id
from pybatsched.workload.resample.feedback import without_followers

EPILOG: Final = """\
examples:
  pybatsched run -p intrepid-node -w w.json --policy easy -e out/easy
  pybatsched run -p platform.xml -w log.swf.gz --walltimes exact --policy conservative -e out/cons
  pybatsched run -p platform.xml -w w.json --policy easy -e out/easy --image oarteam/batsim:4.0.0
  pybatsched run -p platform.xml -w w.json --policy easy -e out/easy -- -E --disable-schedule-tracing
  pybatsched run -p platform.xml -w w.json --policy easy -e out/easy --batsim batsim5       (its other protocol and
                                                              file formats are used automatically)

Arguments after -- are passed to Batsim. Options that the policy needs are added automatically. Batsim writes
PREFIX_jobs.csv, PREFIX_schedule.csv, …; its output goes to PREFIX_batsim.log. During the run their names are
PREFIX.part_*. Existing results are replaced only when the new run has finished, with a note if they had another policy
or other inputs. PREFIX_state.json holds the state of the run: running, interrupted, failed or finished.
A machine given by name is written to PREFIX_platform.xml, a log to PREFIX_w0.json.
"""

_MARK: Final = "x"
#: Options of Batsim that name files to read.
_FILES_OF_BATSIM: Final = ("--sched-cfg-file", "--events", "--external-events")
_FIRST_TIMEOUT_S: Final = 1800.0  # Batsim takes minutes to load the largest machines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `run`. `main` has moved the arguments after ``--`` to `for_batsim`."""
    parser.usage = "pybatsched run -p PLATFORM -w WORKLOAD --policy NAME -e PREFIX [options] [-- BATSIM ARGS]"
    parser.set_defaults(for_batsim=[])
    add = parser.add_argument
    arguments.add_settings(parser, MachineSpec, ["platform"], required=["platform"])
    inputs.add_workloads(parser)
    arguments.add_settings(parser, MachineSpec, ["units"])
    arguments.add_settings(parser, RunSpec, ["allow_empty"])
    arguments.add_policy(parser, required=True)
    arguments.add_settings(parser, RunSpec, ["seed"])
    add("-e", "--export", default="out", metavar="PREFIX", help="prefix of all output files (default %(default)s)")
    add("--journal", metavar="FILE", help="record the run for replay and explain")
    arguments.add_settings(parser, RunSpec, ["tau_s"])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--batsim", metavar="PATH", help="the batsim program (default: the one on the PATH)")
    which.add_argument("--image", metavar="NAME", help="start Batsim from a Docker image, such as oarteam/batsim:4.0.0")
    arguments.add_timeout(add, "Batsim sends nothing for this time after the start")
    text = "fail if Batsim has not started within this time (default %(default)g, 0 = never)"
    add("--first-timeout", type=arguments.timeout_s, default=_FIRST_TIMEOUT_S, metavar="SECONDS", help=text)
    add("-q", "--quiet", action="store_true", help="print nothing but errors")
    add("-v", "--verbose", action="store_true", help="print every message and decision, and tracebacks of plugins")


@dataclass(frozen=True, slots=True)
class _PreparedRun:
    """A run that is ready to start: its inputs, and Batsim's arguments except for the prefix of its files."""

    spec: RunSpec
    plan: registry.PolicyPlan
    workloads: Mapping[str, Workload]
    how: Mapping[str, Any]
    warnings: Sequence[str]
    feedback_jobs: Sequence[FollowingJob]  # those that Batsim does not submit
    digests: Mapping[str, list[dict[str, str]]]
    launcher: batsim.Launcher
    version: str
    is_five: bool
    reads: list[str]
    flags: list[str]
    options: Mapping[str, list[str]]

    def batsim_arguments(self, prefix: str) -> list[str]:
        """Return Batsim's arguments, with the prefix of its output files."""
        words = [*self.reads, "-e", batsim5.prefix_of(prefix) if self.is_five else prefix]
        if self.launcher.container:  # only absolute paths are the same in the container
            words = [word if word[0] == "-" else str(_absolute(word)).removesuffix(_MARK) for word in words]
        return words + self.flags


def run(args: argparse.Namespace) -> int:
    """Run both to the end, and print the closing table."""
    with contextlib.ExitStack() as stack:
        job, results = _prepare(args, stack)
        result, engine = _supervised(args, job, results)
        own = {"seed": args.seed, "batsim_args": job.batsim_arguments(args.export)}
        extra = {**job.how, **own, **all_warnings(job.warnings, result)}
        about = summary.of_run(_setting(job, engine), result, extra, {"batsim": job.version})
        run_end.put_in_place(results, about, quiet=args.quiet)
    dynamic_jobs = bool(engine.cluster.config.get("dynamic-jobs-enabled"))
    return run_end.print_result(result, quiet=args.quiet, dynamic_jobs=dynamic_jobs)


def _supervised(args: argparse.Namespace, job: _PreparedRun, results: Results) -> tuple[summary.Result, Engine]:
    process.raise_interrupted()
    n_jobs = sum(len(workload.jobs) for workload in job.workloads.values())
    with ProgressLine(n_jobs, quiet=args.quiet or args.verbose) as progress:

        def show(message: Message[e.Event], reply: Reply) -> None:
            progress.update_run(message.now, sum(session.engine.jobs.n_over.values()))
            if args.verbose:
                print_exchange(message, reply)

        session = Session(job.plan, watch=show, say=_say(args), keeps_notes=True, feedback_jobs=job.feedback_jobs)
        if args.journal:
            session.record_in(JournalWriter(args.journal))
        log = Path(f"{results.part}{run_state.LOG}")
        supervisor = Supervisor(
            session,
            job.launcher,
            job.batsim_arguments(results.part),
            log,
            args.timeout,
            _say(args),
            first_timeout_s=args.first_timeout,
            is_five=job.is_five,
        )
        results.begin(n_jobs)
        finished = False
        try:
            with session.closing_journal():
                finished = supervisor.run()
        finally:
            results.n_over = sum(session.engine.jobs.n_over.values())
            if job.is_five:
                batsim5.settle_files(results.part, session.notes, is_whole=finished)
    ids = (full_id(name, one) for name, workload in job.workloads.items() for one in workload.values("id"))
    tally = Tally(job.spec.tau_s, evaluated_ids(job.workloads))
    written = Path(f"{results.part}{run_state.JOBS}")
    result = result_of(session, finished, written, f"{args.export}{run_state.JOBS}", ids, tally=tally)
    if result.nodes:
        policy = _setting(job, session.engine).policy
        result = with_node_figures(result, jobs_csv.read_partial(written), job.workloads, policy)
    if _has_energy(job.options) and result.finished:
        result = msgspec.structs.replace(result, energy=energy.read(written, Path(f"{results.part}_schedule.csv")))
    results.n_over = result.figures.n_jobs + result.figures.n_left_out
    return result, session.engine


def _prepare(args: argparse.Namespace, stack: contextlib.ExitStack) -> tuple[_PreparedRun, Results]:
    """Read and check all inputs, find Batsim, lock the output files and write the files that Batsim reads.

    Errors of the input are reported before a missing Batsim. With arguments for Batsim, its version is needed before
    the platform and the workloads are read, because Batsim 4 and Batsim 5 have different options.
    """
    spec = inputs.run_spec(args, arguments.policy_spec(args))
    assert spec.policy is not None
    plan = spec.policy.plan(spec.seed)
    given = [one.file for one in spec.workloads]
    own_suffixes = ("_platform.xml", *(f"_w{i}.json" for i in range(len(given))))
    arguments.refuse_outputs_over(args, [args.platform, *given, *spec.policy.files()], own_suffixes)
    version = _version(args) if args.for_batsim else None
    options = _options(args.for_batsim, version) if version else {}
    of_batsim = [path for name in _FILES_OF_BATSIM for path in options.get(name, ())]
    arguments.refuse_outputs_over(args, of_batsim, own_suffixes)
    roles = [*options.get("--add-role-to-hosts", ()), *options.get("--add-role", ())]
    machine = replace(
        spec.machine,
        energy=_has_energy(options),
        master_host=options.get("--master-host", [DEFAULT_MASTER])[-1],
        roles=tuple(roles),
    )
    platform = platform_of(machine)
    assert platform is not None
    if machine.energy:
        check_energy(platform)
    jobs = read_all(spec)
    fitted = fit(jobs, spec.workloads, machine, platform)
    workloads = fitted.workloads
    check_workloads(workloads, plan.field_models(), platform)
    submitted, feedback_jobs = without_followers(workloads)
    if not options.keys() & {"--sched-cfg", "--sched-cfg-file", "--mmax"}:  # else the options or hosts may be others
        chosen = plan.options_for(None)
        check_reservations(specs_of(chosen), platform)
        check_partitions(chosen, workloads, platform)
    warnings = [*platform.remarks, *platform.refused, *fitted.warnings]
    warnings += planning_warnings(plan.reserving(), workloads.values())
    warnings += size_warnings(platform, workloads.values())
    for text in (*fitted.notes, *warnings):
        _say(args)(text)
    how = {**fitted.how, **not_evaluated(workloads), "command": inputs.command_to_repeat("run", add_arguments, args)}
    inputs_read = digests(machine, jobs)
    clusters = summary.clusters_text(groups(platform, "cluster"))
    about = {"inputs": inputs_read, "tau_s": spec.tau_s, **how} | ({"clusters": clusters} if clusters else {})
    version = version or _version(args)
    is_five = batsim5.is_five(version)
    results = stack.enter_context(run_end.keep_files(Results(args.export, about, args.journal)))
    source = names.find(args.platform, energy=machine.energy)
    platform_file = str(source.path) if source.path else _written(f"{args.export}_platform.xml", source.text)
    own_files = [
        _as_file(one, f"{args.export}_{name}.json", submitted[name], workload, five_as=name if is_five else None)
        for one, (name, workload) in zip(jobs, workloads.items(), strict=True)
    ]
    launcher = _launcher(args, [platform_file, *own_files], _absolute(args.export).parent)
    reads = ["-p", platform_file, *(word for path in own_files for word in ("-w", path))]
    needs = plan.needs() | {BatsimFeature.DYNAMIC_JOBS} if feedback_jobs else plan.needs()
    wanted = [] if is_five else registry.batsim_args(needs)
    flags = [flag for flag in wanted if flag not in options]
    flags += args.for_batsim
    if not {"--quiet", "--verbosity"} & options.keys():
        flags.append("-q")
    shown_version = f"{args.image} ({version})" if args.image else version
    run = _PreparedRun(
        spec,
        plan,
        workloads,
        how,
        warnings,
        feedback_jobs,
        inputs_read,
        launcher,
        shown_version,
        is_five,
        reads,
        flags,
        options,
    )
    return run, results


def _launcher(args: argparse.Namespace, readable: Sequence[str], writable: str | Path) -> batsim.Launcher:
    """Find the Batsim to start. Raises InputError if it is missing."""
    return batsim.in_docker(args.image, readable, writable) if args.image else batsim.find(args.batsim)


def _version(args: argparse.Namespace) -> str:
    """Return the version of Batsim. Raises InputError if Batsim is missing."""
    return _launcher(args, (), ".").version()


def _options(words: Sequence[str], version: str) -> dict[str, list[str]]:
    """Read the user's arguments for a Batsim of this version."""
    if not batsim5.is_five(version):
        return batsim.read_arguments(words)
    options = batsim.read_arguments(words, batsim5.OPTIONS, batsim5.OURS)
    batsim5.check_removed(options)
    return options


def _has_energy(options: Mapping[str, list[str]]) -> bool:
    return not {"--energy", "--energy-host"}.isdisjoint(options)


def _setting(job: _PreparedRun, engine: Engine) -> summary.RunSetting:
    """Return the inputs and options of the run, as Batsim has sent them."""
    cluster = engine.cluster
    options = dict(cluster.config) | {
        "energy": _has_energy(job.options),
        "compute-sharing": cluster.allow_sharing,
        "storage-sharing": "--disable-storage-sharing" not in job.options,
    }
    source = job.plan.source
    chosen = engine.policy.options.model_dump(mode="json")
    policy: dict[str, Any] = {"name": source.name, "origin": source.origin, "options": chosen}
    n_jobs = sum(len(workload.jobs) for workload in job.workloads.values())
    clusters = summary.clusters_text(cluster.groups("cluster"))
    return summary.RunSetting(job.digests, cluster.n_procs, n_jobs, options, policy, clusters)


def _say(args: argparse.Namespace) -> Callable[[str], None]:
    return (lambda _text: None) if args.quiet else arguments.say


def _absolute(prefix: str) -> Path:
    """Return the absolute path of a prefix, with a mark at its end: the prefix ``out/`` is not the directory out."""
    return Path(f"{prefix}{_MARK}").resolve()


def _written(path: str, text: str) -> str:
    files.write_text(path, [text])
    return path


def _as_file(read: Jobs, copy: str, workload: Workload, given: Workload, *, five_as: str | None) -> str:
    """Return a workload file for Batsim: the user's own file, if nothing has to be changed, else a copy."""
    is_own = not read.is_from_log and not files.is_compressed(read.name) and workload is given
    made = workload
    if five_as is not None:
        used = prepare.without_unused(workload)
        prepare.check_work(used)
        prepare.check_names(used, five_as)
        made = to_batsim5(used)
        is_own = is_own and used is workload
    if is_own and workload.batsim == (4 if five_as is None else 5):
        return read.name
    batsim4.write(made, copy)
    return copy
