"""Check, convert, cut, generate and describe workloads."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

from pybatsched.cli import areas, arguments, inject, written
from pybatsched.cli.arguments import Command
from pybatsched.errors import InputError
from pybatsched.workload import batsim_json, describe, files, plot, prepare, rackham, stats, swf
from pybatsched.workload.generate import MODELS, Recipe, generate
from pybatsched.workload.lint import Linted, lint
from pybatsched.workload.logs import LogOptions
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection, seconds_of
from pybatsched.workload.walltimes import RULES, Walltimes
from pybatsched.workload.weeks import Week, busy_weeks, range_of, weeks_of, workloads_of

EPILOG: Final = """\
examples:
  pybatsched workload lint log.swf.gz                              what is odd in a log, and what becomes of it
  pybatsched workload convert log.swf.gz w.json --walltimes exact  a log as a workload for Batsim
  pybatsched workload convert log.swf.gz w.json --weeks            each week of 70 % utilisation or more
  pybatsched workload generate lublin --jobs 1000 --procs 128 --seed 1 --output w.json
  pybatsched workload inject w.json deadlines --every 3 --least 24h --output d.json   also: urgent, moldable, files
  pybatsched workload areas w.json -p rackham                      planned areas, by memory of nodes
  pybatsched workload stats w.json --plot w.svg                    figures and a picture

A log is a file in the Standard Workload Format, or of the Rackham format; every FILE may be plain or gzip.
"""

_LINT: Final = """\
exit codes: 0 read, whatever was found; 2 cannot be read; with --strict 7 when something is odd (notes are not)
"""
_CONVERT: Final = """\
examples:
  pybatsched workload convert log.swf.gz w.json                          requested walltimes, all jobs that ran
  pybatsched workload convert log.swf.gz w.json.gz --walltimes exact --max-size 512
  pybatsched workload convert SX-ACE.swf w.json --memory-unit MB         a log whose memory is not in KB
  pybatsched workload convert log.swf.gz w.json --from 30d --to 37d      a week of the log, moved to time 0
  pybatsched workload convert log.swf.gz w.json --weeks --utilisation 0.7:1.0   w-week03.json, ...
  pybatsched workload convert log.swf.gz w.json --week 12                the twelfth week
  pybatsched workload convert w.json smaller.json --max-jobs 100 --shift-to-zero

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
_GENERATE: Final = f"""\
models:
{chr(10).join(f"  {name:<20} {text}" for name, text in MODELS.items())}

examples:
  pybatsched workload generate lublin --jobs 5000 --procs 256 --seed 1 --load 0.8 --output w.json
  pybatsched workload generate poisson --days 7 --procs 64 --runtimes lognormal:1800:1.5 --output w.json

The same options and seed give the same file, byte for byte.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the sub-commands of `workload` and their options."""
    arguments.add_commands(
        parser,
        (
            Command("lint", "Tell what is odd about a workload.", _LINT, _lint_arguments, _lint),
            Command(
                "convert",
                "Make a workload of a log, or a smaller one of a workload.",
                _CONVERT,
                _convert_arguments,
                _convert,
            ),
            Command(
                "generate",
                "Draw a workload at random, by a model and a seed.",
                _GENERATE,
                _generate_arguments,
                _generate,
            ),
            Command("inject", inject.SUMMARY, inject.EPILOG, inject.add_arguments, inject.run),
            Command("areas", areas.SUMMARY, areas.EPILOG, areas.add_arguments, areas.run),
            Command("stats", "Describe a workload in figures and histograms.", "", _stats_arguments, _stats),
        ),
    )


run = arguments.run_chosen


# --------------------------------------------------------------------------------------------------------------- lint


def _lint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a log (SWF, Rackham) or a Batsim workload (JSON)")
    parser.add_argument(
        "--procs", type=arguments.positive, metavar="N", help="the machine's processors (default: as the file says)"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 7 when something is odd")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def _lint(args: argparse.Namespace) -> int:
    found = lint(args.file, args.procs)
    print(json.dumps(found.as_json(), indent=1) if args.json else "\n".join(_lint_lines(found)))
    return 7 if args.strict and found.is_odd else 0


def _lint_lines(found: Linted) -> list[str]:
    lines = [f"{found.source}: {found.format}, {found.n_jobs:,} jobs, {found.n_procs:,} processors"]
    for level, title in (("odd", "odd:"), ("note", "notes:")):
        chosen = [finding for finding in found.findings.values() if finding.level == level]
        lines += [title] * bool(chosen)
        for finding in sorted(chosen, key=lambda finding: -finding.count):
            more = ", ..." if finding.count > len(finding.places) else ""
            plural = "s" if finding.count > 1 else ""
            places = f"{found.where}{plural} {', '.join(map(str, finding.places))}{more}"
            lines += [f"{finding.count:>9,}  {finding.what}", f"{'':11}{places}", f"{'':11}convert: {finding.remedy}"]
    return lines if found.findings else [*lines, "nothing odd"]


# ------------------------------------------------------------------------------------------------------------ convert


def _convert_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="IN", help="a log (SWF, Rackham) or a Batsim workload (JSON)")
    parser.add_argument("output", metavar="OUT", help="the file to write: OUT.json or OUT.json.gz")
    parser.add_argument("--walltimes", metavar="RULE", help=f"{', '.join(RULES)} (default: requested)")
    log = parser.add_argument_group("logs only")
    size = "which processors of SWF count (default: allocated)"
    log.add_argument("--size", choices=("allocated", "requested"), help=size)
    arguments.add_memory_unit(log)
    log.add_argument("--min-runtime", type=float, metavar="S", help="keep jobs that ran 0 s or unknown, as running S s")
    log.add_argument("--profile", choices=("delay", "parallel"), help="delays, or parallel tasks (default: delay)")
    log.add_argument(
        "--speed", type=float, metavar="F", help="flop/s of a processor, for parallel tasks (default: 1e9)"
    )
    log.add_argument("--duplicates", choices=("renumber", "error"), help="second job of a number (default: renumber)")
    log.add_argument("--lenient", action="store_true", help="leave out bad lines, counted, instead of stopping at one")
    parser.add_argument(
        "--procs", type=arguments.positive, metavar="N", help="the machine's processors (default: as the file says)"
    )
    cut = parser.add_argument_group("what to keep")
    cut.add_argument("--from", dest="from_at", metavar="T", help="jobs submitted from T on: seconds, or 12h, 3d, 2w")
    cut.add_argument("--to", dest="to_at", metavar="T", help="jobs submitted before T")
    cut.add_argument("--min-size", type=arguments.positive, metavar="N", help="jobs of at least N processors")
    cut.add_argument("--max-size", type=arguments.positive, metavar="N", help="jobs of at most N processors")
    cut.add_argument("--max-jobs", type=arguments.positive, metavar="N", help="the first N jobs of what is kept")
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


def _convert(args: argparse.Namespace) -> int:
    selection = Selection(
        from_at=None if args.from_at is None else seconds_of(args.from_at, "--from"),
        to_at=None if args.to_at is None else seconds_of(args.to_at, "--to"),
        min_size=args.min_size,
        max_size=args.max_size,
        max_jobs=args.max_jobs,
        shift=args.shift,
    )
    written.check_name(args.output)
    arguments.refuse_to_overwrite(args.output, [args.file])
    if (args.utilisation or args.keep_ends or args.max_weeks) and not args.weeks:
        raise InputError("--utilisation, --keep-ends and --max-weeks: expected together with --weeks")
    walltimes = Walltimes.parse(args.walltimes or "requested")
    kind = files.format_of(args.file)
    if kind == "Batsim JSON":
        _refuse(args, _OF_LOGS, "a log", "a Batsim file")
        _refuse(args, _OF_SWF, "a log in SWF", "a Batsim file")
        return _convert_json(args, selection, walltimes)
    if args.speed is not None and args.profile != "parallel":
        raise InputError("--speed: expected together with --profile parallel")
    options: dict[str, Any] = {
        "walltimes": walltimes,
        "min_runtime_s": args.min_runtime,
        "n_procs": args.procs,
        "duplicates": args.duplicates or "renumber",
        "profile": args.profile or "delay",
        "speed_flops": 1e9 if args.speed is None else args.speed,
    }
    if kind == "Rackham":
        _refuse(args, _OF_SWF, "a log in SWF", "a file of the Rackham format")
        trace = rackham.read_rackham(args.file, lenient=args.lenient)
        _write(*rackham.to_workload(trace, LogOptions(**options), selection), args.output)
        return 0
    options |= {"size": args.size or "allocated", "memory_unit": args.memory_unit or swf.DEFAULT_MEMORY_UNIT}
    return _convert_swf(args, selection, swf.Options(**options))


#: Options that a Batsim file has no use for, and those that mean something for SWF alone.
_OF_LOGS: Final = ("min_runtime", "profile", "speed", "duplicates", "lenient")
_OF_SWF: Final = ("size", "memory_unit", "weeks", "week")


def _refuse(args: argparse.Namespace, names: tuple[str, ...], expected: str, found: str) -> None:
    for name in names:
        if getattr(args, name) is not None and getattr(args, name) is not False:
            raise InputError(f"--{name.replace('_', '-')}: expected {expected}, found {found}, {args.file}")


def _convert_swf(args: argparse.Namespace, selection: Selection, options: swf.Options) -> int:
    trace = swf.read_swf(args.file, lenient=args.lenient)
    if not args.weeks and args.week is None:
        _write(*swf.to_workload(trace, options, selection), args.output)
        return 0
    if selection.from_at is not None or selection.to_at is not None:
        raise InputError("--from and --to: expected without --weeks or --week, which are windows of their own")
    weeks = weeks_of(trace, swf.machine_of(trace, options)[0], options.size)
    for week, workload, report in workloads_of(trace, _chosen_weeks(args, weeks), options, selection):
        path = args.output if args.week is not None else _week_path(args.output, week.number)
        print(f"week {week.number} of {len(weeks)}: logged utilisation {week.utilisation:.1%}")
        _write(workload, report, path)
    return 0


def _convert_json(args: argparse.Namespace, selection: Selection, walltimes: Walltimes) -> int:
    workload, report = prepare.with_walltimes(batsim_json.read(args.file), walltimes)
    workload, report = prepare.select(workload, selection, report)
    if args.procs is not None:
        workload.n_procs = args.procs
    _write(workload, report, args.output)
    return 0


def _chosen_weeks(args: argparse.Namespace, weeks: list[Week]) -> list[Week]:
    if args.week is not None:
        if args.week > len(weeks):
            raise InputError(f"--week {args.week}: expected 1 to {len(weeks)}, the weeks of {args.file}")
        return [weeks[args.week - 1]]
    least, most = range_of(args.utilisation or "0.70:")
    chosen = busy_weeks(weeks, least, most, keep_ends=args.keep_ends)
    if not chosen:
        shown = ", ".join(f"{week.utilisation:.0%}" for week in weeks)
        raise InputError(f"{args.file}: no week has a logged utilisation of {least:g} to {most:g}: {shown}")
    return chosen[: args.max_weeks]


def _week_path(path: str, number: int) -> str:
    end = ".json.gz" if path.endswith(".json.gz") else ".json"
    return f"{path.removesuffix(end)}-week{number:02}{end}"


def _write(workload: Workload, report: Report, path: str) -> None:
    batsim_json.write(workload, path)
    print("\n".join(report.lines()))
    written.say_written(workload, path)


# ----------------------------------------------------------------------------------------------------------- generate


def _generate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", choices=tuple(MODELS), help=f"one of {', '.join(MODELS)}")
    much = parser.add_mutually_exclusive_group(required=True)
    much.add_argument("--jobs", type=arguments.positive, metavar="N", help="so many jobs")
    much.add_argument("--days", type=float, metavar="D", help="the jobs of so many days")
    parser.add_argument("--procs", type=arguments.positive, metavar="N", required=True, help="the machine's processors")
    parser.add_argument("--seed", type=int, metavar="S", default=0, help="where the random numbers begin (default: 0)")
    parser.add_argument("--output", metavar="FILE", required=True, help="the file to write: .json or .json.gz")
    parser.add_argument("--load", type=float, metavar="L", help="work over capacity, 0.8 for 80 %% (poisson: 0.7)")
    parser.add_argument(
        "--gap", type=float, metavar="S", help="poisson: mean seconds between arrivals, instead of a load"
    )
    help_text = (
        "poisson: exponential:MEAN, lognormal:MEDIAN:SIGMA, uniform:LOW:HIGH or fixed:S (default: exponential:3600)"
    )
    parser.add_argument("--runtimes", metavar="DIST", help=help_text)
    help_text = "poisson: power2, uniform, each also with :LOW:HIGH, or fixed:N (default: power2)"
    parser.add_argument("--sizes", metavar="DIST", help=help_text)
    parser.add_argument(
        "--walltimes", metavar="RULE", default="exact", help="exact, factor:F, round, none (default: exact)"
    )
    parser.add_argument(
        "--users", type=arguments.positive, metavar="N", default=0, help="give the jobs to N users, some busier"
    )


def _generate(args: argparse.Namespace) -> int:
    written.check_name(args.output)
    own: dict[str, Any] = {name: value for name in ("runtimes", "sizes") if (value := getattr(args, name)) is not None}
    if own and args.model != "poisson":
        raise InputError(f"--{next(iter(own))}: expected the model poisson, found {args.model}, which has its own")
    workload = generate(
        Recipe(
            args.model,
            args.procs,
            args.seed,
            n_jobs=args.jobs,
            days=args.days,
            load=args.load,
            gap_s=args.gap,
            walltimes=Walltimes.parse(args.walltimes),
            n_users=args.users,
            **own,
        )
    )
    batsim_json.write(workload, args.output)
    load = stats.summary(stats.sample_workload(workload))["offered_load"]
    print(f"{args.model}, seed {args.seed}" + (f": offered load {load:.3f}" if load is not None else ""))
    written.say_written(workload, args.output)
    return 0


# -------------------------------------------------------------------------------------------------------------- stats


def _stats_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a log (SWF, Rackham) or a Batsim workload (JSON)")
    parser.add_argument(
        "--procs", type=arguments.positive, metavar="N", help="the machine's processors (default: as the file says)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    help_text = f"draw arrivals, sizes and load ({', '.join(plot.FORMATS)}); needs the extra pybatsched[plot]"
    parser.add_argument("--plot", metavar="PICTURE", help=help_text)


def _stats(args: argparse.Namespace) -> int:
    sample = stats.sample(args.file, args.procs)
    figures = stats.summary(sample)
    print(json.dumps(figures, indent=1) if args.json else "\n".join(describe.lines(sample, figures)))
    if args.plot is not None:
        plot.draw(sample, args.plot)
        if not args.json:
            print(f"drew {args.plot}")
    return 0
