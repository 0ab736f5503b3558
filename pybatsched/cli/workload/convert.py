"""Convert a log to a workload, or select jobs of a workload; and the options for reading logs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import loading
from pybatsched.cli.workload import lint
from pybatsched.errors import InputError, quantity, setting
from pybatsched.platform.groups import usual_host
from pybatsched.platform.model import Platform
from pybatsched.runs import workloads
from pybatsched.runs.build import platform_of
from pybatsched.runs.spec import MachineSpec, WorkloadSpec
from pybatsched.runs.workloads import check_formats, kind_of
from pybatsched.workload import prepare, reading
from pybatsched.workload.checks.lint import lint_content
from pybatsched.workload.formats import batsim4, batsim5
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import with_cpu_load
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.weeks import WeekChoice, range_of, weekly

SUMMARY: Final = "Convert a log to a workload, or select jobs of a workload."
EPILOG: Final = """\
examples:
  pybatsched workload convert log.swf.gz w.json                          all jobs that ran, requested walltimes
  pybatsched workload convert log.swf.gz w.json.gz --walltimes exact --max-size 512
  pybatsched workload convert SX-ACE.swf w.json --memory-unit MB         a log whose memory is not in KB
  pybatsched workload convert log.swf.gz w.json --from 30d --submitted-before 37d         a week, moved to time 0
  pybatsched workload convert log.swf.gz w.json --submitted-before 30d                    the first 30 days
  pybatsched workload convert log.swf.gz w.json --weeks --utilisation 0.7:1.0   w-week03.json, ...
  pybatsched workload convert log.swf.gz w.json --week 12                the twelfth week
  pybatsched workload convert sacct.txt.gz w.json --timezone Europe/Paris       a log of Slurm (docs/traces.md)
  pybatsched workload convert job_table.parquet w.json --format pm100           a public set (docs/traces.md)
  pybatsched workload convert jobs.csv.zst w.json --mapping mine.toml           another table
  pybatsched workload convert huge.parquet w.json --lint                        with the findings of workload lint
  pybatsched workload convert w.json smaller.json --max-jobs 100 --shift-to-zero
  pybatsched workload convert RICC.swf.gz w.json --platform ricc-node          sizes in nodes instead of cores
  pybatsched workload convert log.swf.gz w.json --cpu-load --platform mine.xml  jobs that use power, for -E
  pybatsched workload convert w.json w5.json --for batsim5               the same jobs in Batsim 5's format

walltimes:
  requested         the requested time, which is also the estimate; if the job ran as long or longer, its walltime is
                    its run time + 1 and its estimate is the requested time, so that it runs as logged
  requested-strict  the requested time; the simulator kills jobs that ran longer
  exact             estimate = run time, walltime = run time + 1
  factor:F          F times the run time, at least run time + 1 as walltime
  round             run time rounded up to a usual request: 5, 10, 15 min, ... 1, 2, 4 h, ... days
  none              neither walltime nor estimate

Dropped by default, and counted: jobs that ran 0 seconds or an unknown time, or on no processors. See docs/workloads.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload convert`."""
    parser.add_argument("file", metavar="IN", help="a log (SWF, Slurm, a table) or a Batsim workload (JSON)")
    parser.add_argument("output", metavar="OUT", help="the file to write: OUT.json or OUT.json.gz")
    arguments.add_for_batsim(parser, "the format to write (default: batsim4); all commands read both formats")
    add_log_options(parser)
    arguments.add_workload_settings(parser, "n_procs")
    arguments.add_settings(parser, MachineSpec, ["platform", "units"])
    cpu_load = "replace delays by computations of the same duration, which put load on the hosts of the platform"
    parser.add_argument("--cpu-load", action="store_true", help=cpu_load)
    arguments.add_workload_settings(parser, "load", "scale_load", "feedback", "ignore_eligibility")
    lint_help = "also print the problems of the file, as `workload lint` does, without reading it twice"
    parser.add_argument("--lint", action="store_true", help=lint_help)
    cut = parser.add_argument_group("what to keep")
    arguments.add_workload_settings(cut, *WINDOW, "window_clock")
    clocks = ("log", "first")
    arguments.add_old_name(cut, "--clock", "--window-clock", "1.0", dest="window_clock", choices=clocks)
    cut.add_argument("--min-size", type=arguments.positive, metavar="N", help="keep jobs of at least N processors")
    cut.add_argument("--max-size", type=arguments.positive, metavar="N", help="keep jobs of at most N processors")
    arguments.add_workload_settings(cut, "max_jobs")
    shift = cut.add_mutually_exclusive_group()
    text = "move the first submission to time 0 (default: the window starts at time 0, if there is one)"
    shift.add_argument("--shift-to-zero", dest="shift", action="store_true", help=text)
    shift.add_argument("--no-shift", dest="shift", action="store_false", help="keep the submission times of the log")
    parser.set_defaults(shift=None)
    weeks = parser.add_argument_group("weeks of a log (168 h each, from the first submission)")
    which = weeks.add_mutually_exclusive_group()
    which.add_argument("--weeks", action="store_true", help="write each busy week, to OUT-week01.json, …")
    text = "write week K to OUT, counted from 1; several (3,7,9) or all to OUT-week03.json, …"
    which.add_argument("--week", type=_weeks, metavar="K", help=text)
    text = "range of the logged utilisation of busy weeks (default: 0.70:, no upper limit)"
    weeks.add_argument("--utilisation", metavar="A:B", help=text)
    weeks.add_argument(
        "--offered-load", metavar="A:B", help="range of the offered load of busy weeks instead, for logs without waits"
    )
    weeks.add_argument("--keep-ends", action="store_true", help="include the first and the last week")
    weeks.add_argument("--max-weeks", type=arguments.positive, metavar="N", help="write at most N busy weeks")


#: The settings of the window of submission times.
WINDOW: Final = ("begin", "end", "warm_up", "cool_down")
#: Settings of all logs, and of some formats only.
_OF_LOGS: Final = (
    "size",
    "run_times",
    "memory_unit",
    "size_in",
    "timezone",
    "partitions",
    "min_runtime",
    "running_at_start",
)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Describe the options for the conversion of logs. `log_options` reads them."""
    arguments.add_workload_settings(parser, "walltimes", "format", "mapping")
    log = parser.add_argument_group("logs only")
    arguments.add_workload_settings(log, *_OF_LOGS, "unknown_runtime")
    log.add_argument("--profile", choices=("delay", "parallel"), help="type of the profiles (default: delay)")
    log.add_argument(
        "--speed", type=arguments.number, metavar="F", help="flop/s of a processor, for parallel tasks (default: 1e9)"
    )
    log.add_argument(
        "--duplicates", choices=("renumber", "error"), help="how to handle a repeated job number (default: renumber)"
    )
    arguments.add_workload_settings(log, "lenient")


def log_options(args: argparse.Namespace, path: str, n_procs: int | None) -> LogOptions:
    """Return the options for reading a file. Raises InputError for an option that is not for its format."""
    spec = replace(arguments.workload_spec(args, path), n_procs=n_procs)
    check_formats([spec])
    for name in ("profile", "speed", "duplicates"):
        if getattr(args, name) is not None and kind_of(spec) == "Batsim JSON":
            raise InputError(f"--{name}: expected a log, found a Batsim file, {path}")
    if args.speed is not None and args.profile != "parallel":
        raise InputError("--speed: works only with --profile parallel; add it, or remove --speed")
    return workloads.log_options(
        spec,
        duplicates=args.duplicates or "renumber",
        profile=args.profile or "delay",
        speed_flops=1e9 if args.speed is None else args.speed,
    )


def run(args: argparse.Namespace) -> int:
    """Write the workload, or one for each week, and print how many jobs were dropped or changed."""
    spec = arguments.workload_spec(args)
    selection = replace(workloads.selection_of(spec), min_size=args.min_size, max_size=args.max_size, shift=args.shift)
    check_name(args.output)
    arguments.refuse_to_overwrite(args.output, [args.file])
    if (args.utilisation or args.offered_load or args.keep_ends or args.max_weeks) and not args.weeks:
        raise InputError("--utilisation, --offered-load, --keep-ends and --max-weeks: work only with --weeks")
    if args.utilisation and args.offered_load:
        raise InputError("--utilisation and --offered-load were both given; expected only one")
    options = log_options(args, args.file, spec.n_procs)
    changes = _changes(args)
    if args.weeks or args.week is not None:
        return _convert_weeks(args, selection, options, changes)
    findings: list[str] = []
    readers = lint.field_readers() if args.lint else {}

    def check(content: reading.Content) -> None:
        findings.extend(lint.lines_of(lint_content(args.file, content, spec.n_procs, readers)))

    with loading(f"reading {args.file}"):
        workload, report = reading.read(
            args.file, options, selection, lenient=spec.lenient, check=check if args.lint else None
        )
    if findings:
        arguments.show("\n".join(findings))
    if text := workloads.window_note(spec, workload):
        arguments.say(text)
    _write(workload, report, args.output, changes)
    return 0


#: Returns a changed workload and the continued report.
Change = Callable[[Workload, Report], tuple[Workload, Report]]


def _changes(args: argparse.Namespace) -> list[Change]:
    """Return the changes before a workload is written: sizes, offered load, CPU load, and the format of Batsim 5."""
    machine = MachineSpec(platform=args.platform, units=args.units)
    platform = platform_of(machine)
    sizes, cpu_load = _changes_for_platform(args, machine, platform)
    spec = arguments.workload_spec(args)
    n_procs = None if platform is None else platform.n_procs
    scaled = [partial(_scaled, spec, n_procs)] if spec.scales_load else []
    changed = partial(_changed, spec)
    return [changed, *sizes, *scaled, *cpu_load, *([_for_batsim5] if args.batsim == "batsim5" else [])]


def _changed(spec: WorkloadSpec, workload: Workload, report: Report) -> tuple[Workload, Report]:
    made, notes = workloads.changed(spec, workload)
    for text in notes:
        report.note(text)
        made.about["report"] = report.as_json()
    return made, report


def _scaled(spec: WorkloadSpec, n_procs: int | None, workload: Workload, report: Report) -> tuple[Workload, Report]:
    factor = workloads.load_factor(spec, [workload], n_procs or workload.n_procs)
    made = prepare.scale_load(workload, factor)
    what = f"submission times divided by {factor:g}"
    report.note(what if spec.load is None else f"{what}: an offered load of {spec.load:g}")
    made.about["report"] = report.as_json()
    return made, report


def _changes_for_platform(
    args: argparse.Namespace, machine: MachineSpec, platform: Platform | None
) -> tuple[list[Change], list[Change]]:
    """Return the change of sizes, and that of the work of jobs."""
    if platform is None:
        if args.cpu_load:
            raise InputError(f"--cpu-load: expected {setting('platform')}, which has the speed of hosts")
        return [], []
    if args.cpu_load and args.profile is not None:
        raise InputError("--cpu-load: cannot be used with --profile, which sets the type of work as well")
    changes: list[Change] = []
    # Batsim files are converted only with --units
    if machine.units is not None or arguments.format_of(args.file, args) != "Batsim JSON":
        sizing = workloads.sizing(machine, platform)
        changes += [sizing.applied] if sizing is not None else []
    return changes, [partial(_loaded, platform)] if args.cpu_load else []


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
    made, report = with_cpu_load(workload, usual.speed, report)
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
    args: argparse.Namespace, selection: Selection, options: LogOptions, changes: Sequence[Change]
) -> int:
    if args.begin is not None or args.end is not None or args.window_clock is not None:
        window = "--from, --submitted-before and --window-clock"
        raise InputError(f"{window}: cannot be used with --weeks or --week, which set the window")
    if args.lint:
        raise InputError("--lint: cannot be used with --weeks or --week; use `pybatsched workload lint`")
    with loading(f"reading {args.file}"):
        made = list(weekly(args.file, options, selection, _choice(args), lenient=bool(args.lenient)))
    for week, workload, report in made:
        path = args.output if args.week is not None and len(args.week) == 1 else _week_path(args.output, week.number)
        load, use = week.offered_load, week.utilisation
        what = f"offered load {load:.1%}" if use is None else f"logged utilisation {use:.1%}"
        print(f"week {week.number} of {week.n_weeks}: {what}")
        _write(workload, report, path, changes)
    return 0


def _weeks(text: str) -> tuple[int, ...]:
    """Read numbers of weeks, separated by commas; none for all."""
    if text == "all":
        return ()
    return tuple(sorted({arguments.positive(part) for part in text.split(",")}))


def _choice(args: argparse.Namespace) -> WeekChoice:
    """Return which weeks to write. Raises InputError."""
    if args.week is not None:
        return WeekChoice(all=not args.week, numbers=args.week)
    utilisation = range_of(args.utilisation) if args.utilisation else None
    offered_load = range_of(args.offered_load, "offered load") if args.offered_load else None
    return WeekChoice(
        utilisation=utilisation, offered_load=offered_load, keep_ends=args.keep_ends, max_weeks=args.max_weeks
    )


def _week_path(path: str, number: int) -> str:
    end = ".json.gz" if path.endswith(".json.gz") else ".json"
    return f"{path.removesuffix(end)}-week{number:02}{end}"


def _write(workload: Workload, report: Report, path: str, changes: Sequence[Change]) -> None:
    refuse_empty(workload, report)
    for change in changes:
        workload, report = change(workload, report)
    batsim4.write(workload, path)
    arguments.show("\n".join(report.lines()))
    say_written(workload, path)


def check_name(path: str) -> None:
    """Raise InputError for a name that does not end in .json or .json.gz."""
    if not path.endswith((".json", ".json.gz")):
        raise InputError(f"{path}: expected a file name that ends in .json or .json.gz")


def refuse_empty(workload: Workload, report: Report) -> None:
    """Raise InputError if all jobs of a file have been dropped, or if a log has no jobs."""
    if not workload.jobs and (report.n_dropped or format_of(workload.source) != "Batsim JSON"):
        raise InputError(f"{workload.source}: no job is left ({workload.why_empty}); expected at least one")


def say_written(workload: Workload, path: str) -> None:
    """Print the number of jobs and processors of a file."""
    times = workload.values("subtime")
    span = f", submitted from {times[0]:,} s to {times[-1]:,} s" if times else ""
    print(f"wrote {path}: {quantity(len(times), 'job')} for {quantity(workload.n_procs, 'processor')}{span}")
