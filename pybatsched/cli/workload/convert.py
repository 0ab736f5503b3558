"""Convert a log to a workload, or select jobs of a workload; and the options for reading logs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from pybatsched.cli.common import arguments, inputs
from pybatsched.cli.common.progress import loading
from pybatsched.cli.workload import lint
from pybatsched.errors import InputError, quantity
from pybatsched.experiment import run_inputs
from pybatsched.machines import names
from pybatsched.platform.groups import usual_host
from pybatsched.platform.model import Platform
from pybatsched.workload import prepare, reading
from pybatsched.workload.checks.lint import lint_content
from pybatsched.workload.formats import batsim4, batsim5, files, job_log, swf
from pybatsched.workload.formats.conversion import DEFAULT_MEMORY_UNIT
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import with_cpu_load
from pybatsched.workload.report import Report
from pybatsched.workload.resample.feedback import feedback_note, with_feedback
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import RULES, Walltimes
from pybatsched.workload.weeks import WeekChoice, range_of, weekly

SUMMARY: Final = "Convert a log to a workload, or select jobs of a workload."
EPILOG: Final = """\
examples:
  pybatsched workload convert log.swf.gz w.json                          all jobs that ran, requested walltimes
  pybatsched workload convert log.swf.gz w.json.gz --walltimes exact --max-size 512
  pybatsched workload convert SX-ACE.swf w.json --memory-unit MB         a log whose memory is not in KB
  pybatsched workload convert log.swf.gz w.json --from 30d --submitted-before 37d         a week, moved to time 0
  pybatsched workload convert log.swf.gz w.json --submitted-before 30d --clock first      the first 30 days
  pybatsched workload convert log.swf.gz w.json --weeks --utilisation 0.7:1.0   w-week03.json, ...
  pybatsched workload convert log.swf.gz w.json --week 12                the twelfth week
  pybatsched workload convert sacct.txt.gz w.json --timezone Europe/Paris       a log of Slurm (docs/traces.md)
  pybatsched workload convert job_table.parquet w.json --format pm100           a public set (docs/traces.md)
  pybatsched workload convert jobs.csv.zst w.json --mapping mine.toml           another table
  pybatsched workload convert huge.parquet w.json --lint                        with the findings of workload lint
  pybatsched workload convert w.json smaller.json --max-jobs 100 --shift-to-zero
  pybatsched workload convert CEA-Curie.swf.gz w.json --platform curie-node     sizes in nodes instead of cores
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

In the Rackham format, requested means requested-strict, as in its study. It has no unit of memory and no second count
of processors.

Dropped by default, and counted: jobs that ran 0 seconds or an unknown time, or on no processors. See docs/workloads.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload convert`."""
    parser.add_argument("file", metavar="IN", help="a log (SWF, Slurm, a table, Rackham) or a Batsim workload (JSON)")
    parser.add_argument("output", metavar="OUT", help="the file to write: OUT.json or OUT.json.gz")
    arguments.add_for_batsim(parser, "the format to write (default: batsim4); all commands read both formats")
    add_log_options(parser)
    parser.add_argument(
        "--procs", type=arguments.positive, metavar="N", help="processors of the machine (default: as in the file)"
    )
    inputs.add_units(parser)
    cpu_load = "replace delays by computations of the same duration, which put load on the hosts of the platform"
    parser.add_argument("--cpu-load", action="store_true", help=cpu_load)
    arguments.add_load(parser)
    arguments.add_feedback(parser)
    lint_help = "also print the problems of the file, as `workload lint` does, without reading it twice"
    parser.add_argument("--lint", action="store_true", help=lint_help)
    parser.add_argument("--platform", metavar="FILE|NAME", help="the platform for --units and --cpu-load")
    cut = parser.add_argument_group("what to keep")
    arguments.add_window(cut)
    cut.add_argument(
        "--clock",
        choices=("log", "first"),
        default="log",
        help="T counts from time 0 of the log (default), or from its first submission",
    )
    cut.add_argument("--min-size", type=arguments.positive, metavar="N", help="keep jobs of at least N processors")
    cut.add_argument("--max-size", type=arguments.positive, metavar="N", help="keep jobs of at most N processors")
    arguments.add_max_jobs(cut)
    shift = cut.add_mutually_exclusive_group()
    shift.add_argument(
        "--shift-to-zero",
        dest="shift",
        action="store_true",
        help="move the first submission to time 0 (default with --from or --submitted-before)",
    )
    shift.add_argument("--no-shift", dest="shift", action="store_false", help="keep the submission times of the log")
    parser.set_defaults(shift=None)
    weeks = parser.add_argument_group("weeks of a log (168 h each, from the first submission)")
    which = weeks.add_mutually_exclusive_group()
    which.add_argument("--weeks", action="store_true", help="write each busy week, to OUT-week01.json, …")
    which.add_argument(
        "--week",
        type=_weeks,
        metavar="K",
        help="write week K to OUT, counted from 1; several (3,7,9) or all to OUT-week03.json, …",
    )
    weeks.add_argument(
        "--utilisation",
        metavar="A:B",
        help="range of the logged utilisation of busy weeks (default: 0.70:, no upper limit)",
    )
    weeks.add_argument(
        "--offered-load",
        metavar="A:B",
        help="range of the offered load of busy weeks instead, for logs without waits",
    )
    weeks.add_argument("--keep-ends", action="store_true", help="include the first and the last week")
    weeks.add_argument("--max-weeks", type=arguments.positive, metavar="N", help="write at most N busy weeks")


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Describe the options for the conversion of logs. `log_options` reads them."""
    parser.add_argument("--walltimes", metavar="RULE", help=f"{', '.join(RULES)} (default: requested)")
    arguments.add_format(parser)
    log = parser.add_argument_group("logs only")
    size = "which number of processors to use, not for Rackham (default: allocated)"
    log.add_argument("--size", choices=("allocated", "requested", "larger"), help=size)
    run_times = "logged (default); cut: shorten to the requested time, and drop jobs without one"
    log.add_argument("--run-times", choices=("logged", "cut"), help=run_times)
    arguments.add_memory_unit(log)
    arguments.add_slurm(log)
    arguments.add_partition(log)
    log.add_argument(
        "--min-runtime", type=arguments.number, metavar="S", help="keep jobs with run time 0 or unknown; set it to S"
    )
    unknown = "keep jobs of SWF with an unknown run time; set it to S. Without a requested time they have no estimate"
    log.add_argument("--unknown-runtime", type=arguments.number, metavar="S", help=unknown)
    log.add_argument("--profile", choices=("delay", "parallel"), help="type of the profiles (default: delay)")
    log.add_argument(
        "--speed", type=arguments.number, metavar="F", help="flop/s of a processor, for parallel tasks (default: 1e9)"
    )
    log.add_argument(
        "--duplicates", choices=("renumber", "error"), help="how to handle a repeated job number (default: renumber)"
    )
    arguments.add_lenient(log)


#: Options for all logs, for all but Rackham, for SWF only, and for Slurm and tables only.
_OF_LOGS: Final = ("min_runtime", "profile", "speed", "duplicates", "lenient")
_OF_BOTH: Final = ("size", "run_times")
_OF_SWF: Final = ("memory_unit", "unknown_runtime")
_OF_JOB_LOGS: Final = ("size_in", "timezone")
_IN_WORDS: Final = {
    "Batsim JSON": "a Batsim file",
    "SWF": "a log in SWF",
    "Rackham": "a file of the Rackham format",
    "Slurm": "a log of Slurm",
    "table": "a table",
}


def log_options(args: argparse.Namespace, path: str, n_procs: int | None) -> swf.SwfOptions:
    """Return the options for reading a file. Raises InputError for an option that is not for its format."""
    kind = arguments.format_of(path, args)
    if kind == "Batsim JSON":
        _check_unused(args, _OF_LOGS, "a log", f"a Batsim file, {path}")
    found = f"{_IN_WORDS[kind]}, {path}"
    if kind in {"Batsim JSON", "Rackham"}:
        _check_unused(args, _OF_BOTH, "a log in SWF", found)
    if kind != "SWF":
        _check_unused(args, _OF_SWF, "a log in SWF", found)
    if kind not in {"Slurm", "table"}:
        _check_unused(args, _OF_JOB_LOGS, "a log of Slurm or a table", found)
    if args.speed is not None and args.profile != "parallel":
        raise InputError("--speed: works only with --profile parallel; add it, or remove --speed")
    options = swf.SwfOptions(
        walltimes=Walltimes.parse(args.walltimes or "requested", "--walltimes: "),
        min_runtime_s=args.min_runtime,
        unknown_runtime_s=args.unknown_runtime,
        n_procs=n_procs,
        duplicates=args.duplicates or "renumber",
        profile=args.profile or "delay",
        speed_flops=1e9 if args.speed is None else args.speed,
        size=args.size or "allocated",
        run_times=args.run_times or "logged",
        memory_unit=args.memory_unit or DEFAULT_MEMORY_UNIT,
        format=args.format,
        mapping=args.mapping,
        with_waits=getattr(args, "feedback", False),
    )
    return job_log.JobLogOptions.of(options, args.size_in, args.timezone) if kind in {"Slurm", "table"} else options


def _check_unused(args: argparse.Namespace, names: tuple[str, ...], expected: str, found: str) -> None:
    for name in names:
        value = getattr(args, name, None)
        if value is not None and value is not False:
            raise InputError(f"--{name.replace('_', '-')}: expected {expected}, found {found}")


def run(args: argparse.Namespace) -> int:
    """Write the workload, or one for each week, and print how many jobs were dropped or changed."""
    window: dict[str, Any] = {**arguments.window(args)}
    selection = Selection(
        **window,
        min_size=args.min_size,
        max_size=args.max_size,
        max_jobs=args.max_jobs,
        partitions=tuple(args.partition),
        shift=args.shift,
        clock=args.clock,
    )
    check_name(args.output)
    arguments.refuse_to_overwrite(args.output, [args.file])
    if (args.utilisation or args.offered_load or args.keep_ends or args.max_weeks) and not args.weeks:
        raise InputError("--utilisation, --offered-load, --keep-ends and --max-weeks: work only with --weeks")
    if args.utilisation and args.offered_load:
        raise InputError("--utilisation and --offered-load were both given; expected only one")
    options = log_options(args, args.file, args.procs)
    changes = _changes(args)
    if args.weeks or args.week is not None:
        return _convert_weeks(args, selection, options, changes)
    findings: list[str] = []
    readers = lint.field_readers() if args.lint else {}

    def check(content: reading.Content) -> None:
        findings.extend(lint.lines_of(lint_content(args.file, content, args.procs, readers)))

    with loading(f"reading {args.file}"):
        workload, report = reading.read(
            args.file, options, selection, lenient=args.lenient, check=check if args.lint else None
        )
    if findings:
        print("\n".join(findings))
    arguments.say_window(args, args.file, workload)
    _write(workload, report, args.output, changes)
    return 0


#: Returns a changed workload and the continued report.
Change = Callable[[Workload, Report], tuple[Workload, Report]]


def _changes(args: argparse.Namespace) -> list[Change]:
    """Return the changes before a workload is written: sizes, offered load, CPU load, and the format of Batsim 5."""
    sizes, cpu_load = _changes_for_platform(args)
    scaled = [partial(_scaled, args)] if arguments.scales_load(args) else []
    feedback: list[Change] = [_with_feedback] if args.feedback else []
    return [*feedback, *sizes, *scaled, *cpu_load, *([_for_batsim5] if args.batsim == "batsim5" else [])]


def _with_feedback(workload: Workload, report: Report) -> tuple[Workload, Report]:
    made = with_feedback(workload)
    report.note(feedback_note(made))
    made.about["report"] = report.as_json()
    return made, report


def _scaled(args: argparse.Namespace, workload: Workload, report: Report) -> tuple[Workload, Report]:
    factor = arguments.load_factor(args, [workload], workload.n_procs)
    made = prepare.scale_load(workload, factor)
    what = f"submission times divided by {factor:g}"
    report.note(what if args.load is None else f"{what}: an offered load of {args.load:g}")
    made.about["report"] = report.as_json()
    return made, report


def _changes_for_platform(args: argparse.Namespace) -> tuple[list[Change], list[Change]]:
    """Return the change of sizes, and that of the work of jobs."""
    if args.platform is None:
        for given, name, why in (
            (args.units, "--units", "the cores of a host"),
            (args.cpu_load, "--cpu-load", "the speed of hosts"),
        ):
            if given:
                raise InputError(f"{name}: expected --platform FILE|NAME, which has {why}")
        return [], []
    if args.cpu_load and args.profile is not None:
        raise InputError("--cpu-load: cannot be used with --profile, which sets the type of work as well")
    platform = names.find(args.platform).read()
    changes: list[Change] = []
    if (
        args.units is not None or arguments.format_of(args.file, args) != "Batsim JSON"
    ):  # Batsim files are converted only with --units
        sizing = run_inputs.sizing(args.units, platform, args.platform)
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
    args: argparse.Namespace, selection: Selection, options: swf.SwfOptions, changes: Sequence[Change]
) -> int:
    if args.from_at is not None or args.to_at is not None or args.clock != "log":
        raise InputError(
            "--from, --submitted-before and --clock: cannot be used with --weeks or --week, which set the window"
        )
    if args.lint:
        raise InputError("--lint: cannot be used with --weeks or --week; use `pybatsched workload lint`")
    with loading(f"reading {args.file}"):
        made = list(weekly(args.file, options, selection, _choice(args), lenient=args.lenient))
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
    print("\n".join(report.lines()))
    say_written(workload, path)


def check_name(path: str) -> None:
    """Raise InputError for a name that does not end in .json or .json.gz."""
    if not path.endswith((".json", ".json.gz")):
        raise InputError(f"{path}: expected a file name that ends in .json or .json.gz")


def refuse_empty(workload: Workload, report: Report) -> None:
    """Raise InputError if all jobs of a file have been dropped, or if a log has no jobs."""
    if not workload.jobs and (report.n_dropped or files.format_of(workload.source) != "Batsim JSON"):
        raise InputError(f"{workload.source}: no job is left ({workload.why_empty}); expected at least one")


def say_written(workload: Workload, path: str) -> None:
    """Print the number of jobs and processors of a file."""
    times = [job["subtime"] for job in workload.jobs]
    span = f", submitted from {times[0]:,} s to {times[-1]:,} s" if times else ""
    print(f"wrote {path}: {quantity(len(times), 'job')} for {quantity(workload.n_procs, 'processor')}{span}")
