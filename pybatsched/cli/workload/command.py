"""Check, convert, cut, merge, generate and describe workloads."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.arguments import Command
from pybatsched.cli.common.progress import loading
from pybatsched.cli.workload import convert, failures, inject, lint, merge, resample
from pybatsched.errors import InputError, quantity
from pybatsched.runs.workloads import check_formats
from pybatsched.simulator import external_events
from pybatsched.workload.formats import batsim4
from pybatsched.workload.formats.files import write_text
from pybatsched.workload.generate.models import MODELS, Recipe, generate
from pybatsched.workload.logs.tables.proposal import QUESTION, describe_table
from pybatsched.workload.statistics import stats
from pybatsched.workload.walltimes import Walltimes

EPILOG: Final = """\
examples:
  pybatsched workload lint log.swf.gz                              problems in a log, and how convert handles them
  pybatsched workload convert log.swf.gz w.json --walltimes exact  a log as a workload for Batsim
  pybatsched workload describe-table jobs.csv                      a mapping for the columns of another table
  pybatsched workload convert log.swf.gz w.json --weeks            each week of 70 % utilisation or more
  pybatsched workload merge ctc=CTC.swf.gz sdsc=SDSC.swf.gz --submitted-before 26w --output m.json
  pybatsched workload generate lublin --jobs 1000 --procs 128 --seed 1 --output w.json
  pybatsched workload shake log.swf.gz --by 60 --seed 1 --output s.json   the same jobs, submissions moved at random
  pybatsched workload resample log.swf.gz --weeks 26 --seed 1 --output r.json   a new log of the same users
  pybatsched workload inject w.json deadlines --every 3 --least 24h --output d.json   also: urgent, moldable, files
  pybatsched workload inject w.json checkpoints --mtbf 30d --dump 5m --output c.json   by Daly's formula
  pybatsched workload events outages.txt --for batsim5 --output e.txt   external events for Batsim 5
  pybatsched workload failures --procs 128 --mtbf 30d --repair 4h --until 52w --output failures.txt
  pybatsched workload stats w.json --plot w.svg                    numbers and a chart

A log is a file in the Standard Workload Format, output of sacct (Slurm), or a table of jobs (CSV, Parquet,
JSON). Every FILE may be compressed by gzip or zstd.
"""

_DESCRIBE: Final = """\
examples:
  pybatsched workload describe-table jobs.csv.gz > mapping.toml     then check the columns and units in it
  pybatsched workload lint jobs.csv.gz --mapping mapping.toml
  pybatsched workload convert jobs.csv.gz w.json --mapping mapping.toml

Tables are CSV with any delimiter, Parquet or arrays of JSON objects.
"""
_GENERATE: Final = f"""\
models:
{chr(10).join(f"  {name:<20} {text}" for name, text in MODELS.items())}

examples:
  pybatsched workload generate lublin --jobs 5000 --procs 256 --seed 1 --load 0.8 --output w.json
  pybatsched workload generate poisson --days 7 --procs 64 --runtimes lognormal:1800:1.5 --output w.json

The same options and seed write the same file, byte for byte.
"""
_EVENTS: Final = """\
examples:
  pybatsched workload events outages.txt --for batsim5 --output outages5.txt
  pybatsched workload events outages5.txt --for batsim4 --output outages.txt

A file has one JSON object per line. Batsim 4 knows machine_available and machine_unavailable and can forward others.
Batsim 5 has only generic events, which send a text `data` to the scheduler: here, the event of Batsim 4 as JSON.
`simulate` reads both formats. Events are written in the order in which Batsim 4 processes them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the sub-commands of `workload` and their options."""
    arguments.add_commands(
        parser,
        (
            Command("lint", lint.SUMMARY, lint.EPILOG, lint.add_arguments, lint.run),
            Command(
                "describe-table",
                "Propose a mapping of a table's columns, as TOML.",
                _DESCRIBE,
                _describe_arguments,
                _describe,
            ),
            Command("convert", convert.SUMMARY, convert.EPILOG, convert.add_arguments, convert.run),
            Command("merge", merge.SUMMARY, merge.EPILOG, merge.add_arguments, merge.run),
            Command(
                "generate",
                "Generate a random workload from a model and a seed.",
                _GENERATE,
                _generate_arguments,
                _generate,
            ),
            Command("shake", resample.SHAKE, resample.SHAKE_EPILOG, resample.add_shake_arguments, resample.run_shake),
            Command(
                "resample",
                resample.RESAMPLE,
                resample.RESAMPLE_EPILOG,
                resample.add_resample_arguments,
                resample.run_resample,
            ),
            Command("inject", inject.SUMMARY, inject.EPILOG, inject.add_arguments, inject.run),
            Command(
                "events",
                "Convert a file of external events to the format of Batsim 4 or Batsim 5.",
                _EVENTS,
                _events_arguments,
                _events,
            ),
            Command(
                "failures",
                "Write a file of external events: random failures of machines, or those of a log.",
                failures.EPILOG,
                failures.add_arguments,
                failures.run,
            ),
            Command("stats", "Describe a workload by numbers and histograms.", "", _stats_arguments, _stats),
        ),
    )


run = arguments.run_chosen


def _describe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a table (CSV, Parquet, JSON), or a directory with its files")


def _describe(args: argparse.Namespace) -> int:
    text = describe_table(args.file)
    print(text, end="")
    for line in text.splitlines():
        if line.startswith(QUESTION):  # standard output may be a file
            print(f"pybatsched: {line.removeprefix('# ')}", file=sys.stderr)
    return 0


def _generate_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", choices=tuple(MODELS), help=f"one of {', '.join(MODELS)}")
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--jobs", type=arguments.positive, metavar="N", help="number of jobs")
    amount.add_argument("--days", type=arguments.number, metavar="D", help="number of days whose jobs are generated")
    add("--procs", type=arguments.positive, metavar="N", required=True, help="processors of the machine")
    add("--seed", type=arguments.integer, metavar="S", default=0, help="seed of the random numbers (default: 0)")
    add("--output", metavar="FILE", required=True, help="the file to write: .json or .json.gz")
    add("--load", type=arguments.number, metavar="L", help="offered load, 0.8 for 80 %% (default of poisson: 0.7)")
    add("--gap", type=arguments.number, metavar="S", help="poisson: mean seconds between arrivals, instead of --load")
    help_text = (
        "poisson: exponential:MEAN, lognormal:MEDIAN:SIGMA, uniform:LOW:HIGH or fixed:S (default: exponential:3600)"
    )
    add("--runtimes", metavar="DIST", help=help_text)
    help_text = "poisson: power2, uniform, each also with :LOW:HIGH, or fixed:N (default: power2)"
    add("--sizes", metavar="DIST", help=help_text)
    add("--walltimes", metavar="RULE", default="exact", help="exact, factor:F, round, none (default: exact)")
    text = "assign the jobs to N users, some with more jobs"
    add("--users", type=arguments.positive, metavar="N", default=0, help=text)


def _generate(args: argparse.Namespace) -> int:
    convert.check_name(args.output)
    own: dict[str, Any] = {name: value for name in ("runtimes", "sizes") if (value := getattr(args, name)) is not None}
    if own and args.model != "poisson":
        raise InputError(
            f"--{next(iter(own))}: works only with the model poisson, not with {args.model}, which has its own "
            "distribution"
        )
    workload = generate(
        Recipe(
            args.model,
            args.procs,
            args.seed,
            n_jobs=args.jobs,
            days=args.days,
            load=args.load,
            gap_s=args.gap,
            walltimes=Walltimes.parse(args.walltimes, "--walltimes: "),
            n_users=args.users,
            **own,
        )
    )
    batsim4.write(workload, args.output)
    offered = stats.summary(stats.sample_workload(workload))["offered_load"]
    print(f"{args.model}, seed {args.seed}" + (f": offered load {offered:.3f}" if offered is not None else ""))
    convert.say_written(workload, args.output)
    return 0


def _events_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="external events, of Batsim 4 or of Batsim 5")
    arguments.add_for_batsim(parser, "the format to write", required=True)
    parser.add_argument("--output", metavar="FILE", required=True, help="the file to write")


def _events(args: argparse.Namespace) -> int:
    arguments.refuse_to_overwrite(args.output, [args.file])
    events = external_events.read(args.file, n_hosts=None, forward_unknown=True)
    content = [event.described for event in events]
    if args.batsim == "batsim5":
        content = [external_events.to_batsim5(event) for event in content]
    write_text(args.output, (f"{json.dumps(event, allow_nan=False)}\n" for event in content))
    print(f"wrote {args.output}: {quantity(len(events), 'event')} for {args.batsim}")
    return 0


def _stats_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_file(parser)
    arguments.add_workload_settings(parser, "partitions", "size_in", "timezone")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    help_text = "draw a chart of arrivals, sizes and load (.svg, .pdf, .png); needs the extra plot"
    parser.add_argument("--plot", metavar="FILE", help=help_text)


def _stats(args: argparse.Namespace) -> int:
    if args.plot is not None:
        arguments.refuse_to_overwrite(args.plot, [args.file])
    spec = arguments.workload_spec(args)
    check_formats([spec])
    with loading(f"reading {args.file}"):
        how = {"format": spec.format, "mapping": spec.mapping}
        sample = stats.sample(args.file, spec.n_procs, spec.partitions, spec.size_in, spec.timezone, **how)
    figures = stats.summary(sample)
    print(json.dumps(figures, indent=1) if args.json else "\n".join(stats.lines(sample, figures)))
    if args.plot is not None:
        from pybatsched.report import workload_chart  # noqa: PLC0415  charts need extras

        workload_chart.draw(sample, args.plot)
        if not args.json:
            print(f"wrote {args.plot}")
    return 0
