"""Run a policy with a real Batsim: both are started, watched and ended together."""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Final

from pybatsched import batsim, summary
from pybatsched import events as e
from pybatsched.cli import arguments, closing, inputs
from pybatsched.cli.policies import batsim_args
from pybatsched.cli.progress import ProgressLine
from pybatsched.cli.serve import narrate
from pybatsched.engine import Reply
from pybatsched.errors import InputError, Interrupted, PybatschedError
from pybatsched.journal import JournalWriter
from pybatsched.machines import names
from pybatsched.platform.model import DEFAULT_MASTER, check_energy
from pybatsched.platform.roles import read_roles
from pybatsched.protocol import Message
from pybatsched.server import DEFAULT_TIMEOUT_S
from pybatsched.session import Session
from pybatsched.simulator.jobs import name_in
from pybatsched.simulator.options import Options, Scenario
from pybatsched.simulator.run import with_needs
from pybatsched.supervision import Supervisor, result_of
from pybatsched.workload import Workload, batsim_json, files

EPILOG: Final = """\
examples:
  pybatsched run -p curie-node -w w.json --policy easy -e out/easy
  pybatsched run -p platform.xml -w log.swf.gz --walltimes exact --policy conservative -e out/cons
  pybatsched run -p platform.xml -w w.json --policy easy -e out/easy --image oarteam/batsim:4.0.0
  pybatsched run -p platform.xml -w w.json --policy easy -e out/easy -- -E --disable-schedule-tracing

What follows -- goes to Batsim as it is; options that the policy needs are given to Batsim by themselves. Batsim writes
PREFIX_jobs.csv, PREFIX_schedule.csv, …, and what it says goes to PREFIX_batsim.log. A machine by name is written to
PREFIX_platform.xml, a log in SWF to PREFIX_w0.json.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `run`."""
    add = parser.add_argument
    add("-p", "--platform", required=True, metavar="FILE|NAME", help=inputs.PLATFORM_HELP)
    inputs.add_workloads(parser)
    arguments.add_policy(parser, required=True)
    add("--seed", type=int, metavar="N", help="seed for policies that draw random numbers (their option seed)")
    add("-e", "--export", default="out", metavar="PREFIX", help="begin of the names of all files (default %(default)s)")
    add("--journal", metavar="FILE", help="record the run for replay and explain")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--batsim", metavar="PATH", help="the batsim program (default: the one on the PATH)")
    which.add_argument("--image", metavar="NAME", help="start Batsim from a Docker image, as oarteam/batsim:4.0.0")
    add(
        "--timeout",
        type=arguments.timeout_s,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="give up on a Batsim that is silent for so long after the start (default %(default)g, 0 = never)",
    )
    add("-q", "--quiet", action="store_true", help="print nothing but errors")
    add("-v", "--verbose", action="store_true", help="tell every message and decision, and tracebacks of plugins")
    add("batsim_args", nargs="*", metavar="-- BATSIM ARGS", help="further arguments for Batsim")


def run(args: argparse.Namespace) -> int:
    """Run both to the end, and print the closing table."""
    batsim.refuse_ours(args.batsim_args)
    plan = arguments.policy_plan(args.policy, args.options, args.config, args.seed)
    plan.check_early()
    if args.journal:
        arguments.refuse_to_overwrite(args.journal, [args.platform, *args.workload])
    arguments.raise_on_signals()
    energy = bool({"-E", "--energy"} & set(args.batsim_args))
    source = names.find(args.platform, energy=energy)
    masters = _given(args.batsim_args, "-m", "--master-host")
    roles = read_roles(_given(args.batsim_args, "-r", "--add-role-to-hosts"))
    platform = source.read(master=masters[-1] if masters else DEFAULT_MASTER, roles=roles)
    if energy:
        check_energy(platform)
    if not args.quiet:
        for remark in (*platform.remarks, *platform.refused):
            arguments.say(remark)
    workloads = inputs.workloads(args.workload, args.walltimes, quiet=args.quiet)
    prefix = Path(args.export)
    _make_room(prefix)
    platform_file = str(source.path) if source.path else _kept(f"{prefix}_platform.xml", source.text)
    workload_files = [
        _as_file(args, path, f"{prefix}_{name}.json", workload)
        for path, (name, workload) in zip(args.workload, workloads.items(), strict=True)
    ]
    read = [platform_file, *workload_files]
    launcher = batsim.in_docker(args.image, read, prefix.parent) if args.image else batsim.find(args.batsim)
    told = ["-p", platform_file, *(word for path in workload_files for word in ("-w", path)), "-e", str(prefix)]
    if args.image:  # in there, only whole paths mean the same
        told = [word if word[0] == "-" else str(Path(word).resolve()) for word in told]
    needed = batsim_args(plan.source)
    told += [*(flag for flag in needed if flag not in args.batsim_args), *args.batsim_args]
    if not {"-q", "--quiet", "-v", "--verbosity"} & set(args.batsim_args):
        told.append("-q")
    version = launcher.version()
    n_jobs = sum(len(workload.jobs) for workload in workloads.values())
    with ProgressLine(n_jobs, quiet=args.quiet or args.verbose) as progress:

        def heard(message: Message[e.Event], reply: Reply) -> None:
            progress.heard(message.now, sum(session.engine.jobs.n_over.values()))
            if args.verbose:
                narrate(message, reply)

        session = Session(plan, watch=heard)
        if args.journal:
            session.record_in(JournalWriter(args.journal))
        say = _say_nothing if args.quiet else arguments.say
        Path(f"{prefix}_jobs.csv").unlink(missing_ok=True)  # what an earlier run left must not be taken for this one's
        supervisor = Supervisor(session, launcher, told, Path(f"{prefix}_batsim.log"), args.timeout, say)
        finished = _supervised(supervisor)
    scenario = Scenario(platform, workloads, with_needs(Options(), plan))
    ids = [f"{name}!{name_in(name, job['id'])}" for name, workload in workloads.items() for job in workload.jobs]
    result = result_of(session, finished, Path(f"{prefix}_jobs.csv"), ids)
    _write_summary(args, scenario, result, version, told)
    return closing.tell(result, quiet=args.quiet, dynamic_jobs=bool(needed))


def _supervised(supervisor: Supervisor) -> bool:
    session, how = supervisor.session, "failed"
    try:
        finished = supervisor.run()
        how = "ended" if finished else "stopped with jobs unfinished"
    except PybatschedError as error:
        how = f"failed with {type(error).__name__}"
        raise
    except (Interrupted, KeyboardInterrupt):
        how = "was interrupted"
        raise
    finally:
        session.close(how)
    return finished


def _write_summary(
    args: argparse.Namespace, scenario: Scenario, result: summary.Result, version: str, told: list[str]
) -> None:
    plan = arguments.policy_plan(args.policy, args.options, args.config, args.seed)
    files_read = {"platform": inputs.digests([args.platform]), "workloads": inputs.digests(args.workload)}
    extra = {"walltimes": args.walltimes, "seed": args.seed, "batsim_args": told}
    policy = inputs.described(plan, scenario.options)
    about = summary.of_run(scenario, policy, result, files_read, extra, simulator={"batsim": version})
    summary.write(f"{args.export}_summary.json", about)


def _say_nothing(_text: str) -> None:
    """Be quiet."""


def _make_room(prefix: Path) -> None:
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-e {prefix}: cannot make the directory: {error.strerror}") from None


def _kept(path: str, text: str) -> str:
    files.write_text(path, [text])
    return path


def _as_file(args: argparse.Namespace, path: str, copy: str, workload: Workload) -> str:
    """Give a file that Batsim reads: the user's own, if it is what Batsim shall see."""
    if args.walltimes == "requested" and files.looks_like_json(path) and not files.is_gzip(path):
        return path
    arguments.refuse_to_overwrite(copy, args.workload)
    batsim_json.write(workload, copy)
    return copy


def _given(words: list[str], *flags: str) -> list[str]:
    """Find the values of an option among the arguments for Batsim."""
    return [value for flag, value in pairwise(words) if flag in flags]
