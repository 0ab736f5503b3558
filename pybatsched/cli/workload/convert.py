"""Make a workload of a log, or a smaller one of a workload; and the options by which every log is read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pybatsched.cli.common import arguments, inputs
from pybatsched.cli.common.progress import loading
from pybatsched.cli.workload import output
from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.platform.groups import usual_host
from pybatsched.platform.model import Platform
from pybatsched.workload import prepare, reading
from pybatsched.workload.formats import batsim4, batsim5, files, swf
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import with_load
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import RULES, Walltimes
from pybatsched.workload.weeks import Week, busy_weeks, range_of, weeks_of, workloads_of

SUMMARY: Final = "Make a workload of a log, or a smaller one of a workload."
EPILOG: Final = """\
examples:
  pybatsched workload convert log.swf.gz w.json                          requested walltimes, all jobs that ran
  pybatsched workload convert log.swf.gz w.json.gz --walltimes exact --max-size 512
  pybatsched workload convert SX-ACE.swf w.json --memory-unit MB         a log whose memory is not in KB
  pybatsched workload convert log.swf.gz w.json --from 30d --to 37d      a week of the log, moved to time 0
  pybatsched workload convert log.swf.gz w.json --to 30d --clock first   the first 30 days, whenever it begins
  pybatsched workload convert log.swf.gz w.json --weeks --utilisation 0.7:1.0   w-week03.json, ...
  pybatsched workload convert log.swf.gz w.json --week 12                the twelfth week
  pybatsched workload convert w.json smaller.json --max-jobs 100 --shift-to-zero
  pybatsched workload convert CEA-Curie.swf.gz w.json --platform curie-node     sizes in nodes, not in cores
  pybatsched workload convert log.swf.gz w.json --load --platform mine.xml      jobs that draw power, for -E
  pybatsched workload convert w.json w5.json --for batsim5               the same jobs in Batsim 5's format

walltimes:
  requested         what the user asked for, which is also the estimate; a job that ran as long or longer gets its
                    run time + 1 as walltime and keeps the request as the estimate, so that it still runs as logged
  requested-strict  what the user asked for, and the simulator kills what ran longer
  exact             estimate = run time, walltime = run time + 1
  factor:F          F times the run time, at least run time + 1 as walltime
  round             run time rounded up as people ask for it: 5, 10, 15 min, ... 1, 2, 4 h, ... days
  none              neither

A file of the Rackham format has the walltimes of its study: requested is requested-strict there. It has neither weeks,
a unit of memory nor a second count of processors.

Dropped by default, and counted: jobs that ran 0 seconds or an unknown time, or on no processors. See docs/workloads.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload convert`."""
    parser.add_argument("file", metavar="IN", help="a log (SWF, Rackham) or a Batsim workload (JSON)")
    parser.add_argument("output", metavar="OUT", help="the file to write: OUT.json or OUT.json.gz")
    arguments.add_for_batsim(parser, "whose format to write (default: batsim4); all commands read both")
    add_log_options(parser)
    parser.add_argument(
        "--procs", type=arguments.positive, metavar="N", help="the machine's processors (default: as the file says)"
    )
    inputs.add_units(parser)
    load = "write work that takes as long on the platform and keeps its hosts busy, instead of delays, which do not"
    parser.add_argument("--load", action="store_true", help=load)
    parser.add_argument("--platform", metavar="FILE|NAME", help="the platform that --units and --load are about")
    cut = parser.add_argument_group("what to keep")
    arguments.add_window(cut)
    cut.add_argument(
        "--clock", choices=("log", "first"), default="log", help="T counts from the log's 0, or its first submission"
    )
    cut.add_argument("--min-size", type=arguments.positive, metavar="N", help="jobs of at least N processors")
    cut.add_argument("--max-size", type=arguments.positive, metavar="N", help="jobs of at most N processors")
    arguments.add_max_jobs(cut)
    shift = cut.add_mutually_exclusive_group()
    shift.add_argument(
        "--shift-to-zero", dest="shift", action="store_true", help="first submission at 0 (windows: yes)"
    )
    shift.add_argument("--no-shift", dest="shift", action="store_false", help="keep the times of a window")
    parser.set_defaults(shift=None)
    weeks = parser.add_argument_group("weeks of a log in SWF (168 h each, from the first submission)")
    which = weeks.add_mutually_exclusive_group()
    which.add_argument("--weeks", action="store_true", help="write each busy week, to OUT-week01.json and so on")
    which.add_argument("--week", type=arguments.positive, metavar="K", help="write week K to OUT, counted from 1")
    weeks.add_argument(
        "--utilisation", metavar="A:B", help="logged utilisation of a busy week (default: 0.70: or more)"
    )
    weeks.add_argument("--keep-ends", action="store_true", help="consider the first and the last week too")
    weeks.add_argument("--max-weeks", type=arguments.positive, metavar="N", help="the first N busy weeks")


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Describe the options by which logs become workloads; `log_options` reads them."""
    parser.add_argument("--walltimes", metavar="RULE", help=f"{', '.join(RULES)} (default: requested)")
    log = parser.add_argument_group("logs only")
    size = "which processors of SWF count (default: allocated)"
    log.add_argument("--size", choices=("allocated", "requested"), help=size)
    run_times = "as the log has them, or cut to the requested time; jobs without one are dropped (default: logged)"
    log.add_argument("--run-times", choices=("logged", "cut"), help=run_times)
    arguments.add_memory_unit(log)
    arguments.add_partition(log)
    log.add_argument("--min-runtime", type=float, metavar="S", help="keep jobs that ran 0 s or unknown, as running S s")
    log.add_argument("--profile", choices=("delay", "parallel"), help="delays, or parallel tasks (default: delay)")
    log.add_argument(
        "--speed", type=float, metavar="F", help="flop/s of a processor, for parallel tasks (default: 1e9)"
    )
    log.add_argument("--duplicates", choices=("renumber", "error"), help="second job of a number (default: renumber)")
    arguments.add_lenient(log)


#: Options that a Batsim file has no use for, and those that mean something for SWF alone.
_OF_LOGS: Final = ("min_runtime", "profile", "speed", "duplicates", "lenient")
_OF_SWF: Final = ("size", "run_times", "memory_unit", "weeks", "week")


def log_options(args: argparse.Namespace, path: str, n_procs: int | None) -> swf.Options:
    """Give the options by which a file is read. Raises InputError for one that its format has no use for."""
    kind = files.format_of(path)
    if kind == "Batsim JSON":
        _refuse(args, _OF_LOGS, "a log", f"a Batsim file, {path}")
        _refuse(args, _OF_SWF, "a log in SWF", f"a Batsim file, {path}")
    if kind == "Rackham":
        _refuse(args, _OF_SWF, "a log in SWF", f"a file of the Rackham format, {path}")
    if args.speed is not None and args.profile != "parallel":
        raise InputError("--speed: expected together with --profile parallel")
    return swf.Options(
        walltimes=Walltimes.parse(args.walltimes or "requested"),
        min_runtime_s=args.min_runtime,
        n_procs=n_procs,
        duplicates=args.duplicates or "renumber",
        profile=args.profile or "delay",
        speed_flops=1e9 if args.speed is None else args.speed,
        size=args.size or "allocated",
        run_times=args.run_times or "logged",
        memory_unit=args.memory_unit or swf.DEFAULT_MEMORY_UNIT,
    )


def _refuse(args: argparse.Namespace, names: tuple[str, ...], expected: str, found: str) -> None:
    for name in names:
        value = getattr(args, name, None)
        if value is not None and value is not False:
            raise InputError(f"--{name.replace('_', '-')}: expected {expected}, found {found}")


def run(args: argparse.Namespace) -> int:
    """Write the workload, or one for each week, and say what became of the log's jobs."""
    selection = Selection(
        *arguments.window(args),
        min_size=args.min_size,
        max_size=args.max_size,
        max_jobs=args.max_jobs,
        partitions=tuple(args.partition),
        shift=args.shift,
        clock=args.clock,
    )
    output.check_name(args.output)
    arguments.refuse_to_overwrite(args.output, [args.file])
    if (args.utilisation or args.keep_ends or args.max_weeks) and not args.weeks:
        raise InputError("--utilisation, --keep-ends and --max-weeks: expected together with --weeks")
    options = log_options(args, args.file, args.procs)
    changes = _changes(args)
    if args.weeks or args.week is not None:
        return _convert_weeks(args, selection, options, changes)
    with loading(f"reading {args.file}"):
        workload, report = reading.read(args.file, options, selection, lenient=args.lenient)
    _write(workload, report, args.output, changes)
    return 0


#: Makes another workload of one, and goes on with its report.
Change = Callable[[Workload, Report], tuple[Workload, Report]]


def _changes(args: argparse.Namespace) -> list[Change]:
    """Say what is done to the jobs of a file before it is written: their sizes and their work, and whose words."""
    return [*_changes_for_platform(args), *([_for_batsim5] if args.batsim == "batsim5" else [])]


def _changes_for_platform(args: argparse.Namespace) -> list[Change]:
    if args.platform is None:
        for given, name, why in (
            (args.units, "--units", "the cores of a host"),
            (args.load, "--load", "the speed of hosts"),
        ):
            if given:
                raise InputError(f"{name}: expected --platform FILE|NAME, which tells {why}")
        return []
    if args.load and args.profile is not None:
        raise InputError("--load: expected without --profile, which says what work is as well")
    platform = names.find(args.platform).read()
    changes: list[Change] = []
    if args.units is not None or files.format_of(args.file) != "Batsim JSON":  # which says itself what its jobs are
        sizing = inputs.sizing(args.units, platform, args.platform)
        changes += [sizing.applied] if sizing is not None else []
    return [*changes, partial(_loaded, platform)] if args.load else changes


def _for_batsim5(workload: Workload, report: Report) -> tuple[Workload, Report]:
    prepare.check_work(workload)
    made = batsim5.to_batsim5(workload)
    n = batsim5.n_changed(workload, made)
    if n:
        what = "a profile" if n == 1 else f"{n:,} profiles"
        report.note(f"amounts of {what} are written as Batsim 5 spreads them, so that jobs do the same as in Batsim 4")
        made.about = {**made.about, "report": report.as_json()}
    return made, report


def _loaded(platform: Platform, workload: Workload, report: Report) -> tuple[Workload, Report]:
    usual = usual_host(platform)
    made, report = with_load(workload, usual.speed, report)
    if usual.n_others:
        report.note(
            f"{usual.n_others:,} of {platform.n_procs:,} hosts are not as fast as most ({usual.speed:g} flop/s): there "
            "jobs take other times"
        )
    if usual.n_cores > 1:
        report.note(
            f"hosts have {usual.n_cores:,} cores, and work on a host keeps one of them busy: a load of "
            f"1/{usual.n_cores:,}"
        )
    made.about["report"] = report.as_json()
    return made, report


def _convert_weeks(
    args: argparse.Namespace, selection: Selection, options: swf.Options, changes: Sequence[Change]
) -> int:
    if args.from_at is not None or args.to_at is not None or args.clock != "log":
        raise InputError("--from, --to and --clock: expected without --weeks or --week, which are windows of their own")
    with loading(f"reading {args.file}"):
        trace = swf.read_swf(args.file, lenient=args.lenient)
    if selection.partitions:
        trace = trace.of_partitions(selection.partitions)
    weeks = weeks_of(trace, swf.machine_of(trace, options)[0], options.size)
    for week, workload, report in workloads_of(trace, _chosen_weeks(args, weeks), options, selection):
        path = args.output if args.week is not None else _week_path(args.output, week.number)
        told = "" if week.utilisation is None else f": logged utilisation {week.utilisation:.1%}"
        print(f"week {week.number} of {len(weeks)}{told}")
        _write(workload, report, path, changes)
    return 0


def _chosen_weeks(args: argparse.Namespace, weeks: list[Week]) -> list[Week]:
    if args.week is not None:
        if args.week > len(weeks):
            raise InputError(f"--week {args.week}: expected 1 to {len(weeks)}, the weeks of {args.file}")
        return [weeks[args.week - 1]]
    least, most = range_of(args.utilisation or "0.70:")
    try:
        chosen = busy_weeks(weeks, least, most, keep_ends=args.keep_ends)
    except InputError as error:
        raise InputError(f"--weeks: {args.file}: {error} (--week K)") from None
    if not chosen:
        shown = ", ".join(f"{week.utilisation:.0%}" for week in weeks if week.utilisation is not None)
        raise InputError(f"{args.file}: no week has a logged utilisation of {least:g} to {most:g}: {shown}")
    return chosen[: args.max_weeks]


def _week_path(path: str, number: int) -> str:
    end = ".json.gz" if path.endswith(".json.gz") else ".json"
    return f"{path.removesuffix(end)}-week{number:02}{end}"


def _write(workload: Workload, report: Report, path: str, changes: Sequence[Change]) -> None:
    output.refuse_empty(workload, report)
    for change in changes:
        workload, report = change(workload, report)
    batsim4.write(workload, path)
    print("\n".join(report.lines()))
    output.say_written(workload, path)
