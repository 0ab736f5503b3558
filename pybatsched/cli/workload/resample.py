"""Make other workloads from a log: with shaken submissions, or of resampled users."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import loading
from pybatsched.cli.workload import convert
from pybatsched.text_table import aligned
from pybatsched.workload import reading
from pybatsched.workload.formats import batsim4
from pybatsched.workload.model import Workload
from pybatsched.workload.resample.feedback import feedback_note, with_feedback
from pybatsched.workload.resample.shaking import shake
from pybatsched.workload.resample.users import Resampling, checks, resample
from pybatsched.workload.selection import Selection, seconds_of

SHAKE: Final = "Move all submissions by small random amounts."
SHAKE_EPILOG: Final = """\
examples:
  pybatsched workload shake log.swf.gz --by 60 --seed 1 --output shaken.json
  pybatsched workload shake w.json --by 5m --seed 2 --output shaken.json.gz

Each submission moves by a random amount, from T earlier to T later. With --by 0, submissions are
unchanged, as in `workload convert`. Campaigns have shake = { n = 20, by_s = 60 }. See docs/experiments.md.
"""


def add_shake_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload shake`."""
    _add_files(parser)
    parser.add_argument("--by", default="60", metavar="T", help="the largest move: seconds, or 5m, 1h (default: 60)")
    convert.add_log_options(parser)


def run_shake(args: argparse.Namespace) -> int:
    """Write the shaken workload."""
    by_s = seconds_of(args.by, "--by")
    return _write(args, shake(_read(args), by_s, args.seed))


RESAMPLE: Final = "Generate a new log by recombining the users of a log."
RESAMPLE_EPILOG: Final = """\
examples:
  pybatsched workload resample KTH-SP2.swf.gz --weeks 26 --seed 1 --output r.json
  pybatsched workload resample KTH-SP2.swf.gz --weeks 26 --load 0.9 --seed 1 --output r.json     by more users

Long-term users are active for --long-term-weeks or more; their weeks are shifted by a random number of weeks. Temporary
users come in random weeks. Jobs keep their day of the week and their time of the day. The printed table compares the
log and the resample. Campaigns have resample = { n = 10, weeks = 26 }. See docs/experiments.md.
"""


def add_resample_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload resample`."""
    _add_files(parser)
    add = parser.add_argument
    add("--weeks", type=arguments.positive, metavar="N", help="weeks of the new log (default: as many as the log has)")
    long_term = (
        "a user is a long-term user if active for at least this many weeks, from first to last job (default: 12)"
    )
    add("--long-term-weeks", type=arguments.positive, default=12, metavar="N", help=long_term)
    load = "change the number of users to reach an offered load of about F, such as 0.9 (default: that of the log)"
    add("--load", type=arguments.number, metavar="F", help=load)
    arguments.add_workload_settings(parser, "feedback")
    convert.add_log_options(parser)


def run_resample(args: argparse.Namespace) -> int:
    """Write the new log, and print how it differs from the log."""
    options = Resampling(args.weeks, args.long_term_weeks, args.load)
    workload = _read(args)
    workload = with_feedback(workload) if args.feedback else workload
    made = resample(workload, options, args.seed)
    rows = [[one.name, f"{one.log:,.4g}", f"{one.resample:,.4g}"] for one in checks(workload, made)]
    print("\n".join(aligned([["", "log", "resample"], *rows], "lr")))
    if args.feedback:
        print(feedback_note(made))
    return _write(args, made)


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="LOG", help="a log (SWF, Slurm, a table) or a Batsim workload (JSON)")
    add("--output", required=True, metavar="FILE", help="the file to write: .json or .json.gz")
    add("--seed", type=arguments.natural, default=0, metavar="S", help="seed of the random numbers (default: 0)")
    add("--procs", type=arguments.positive, metavar="N", help="processors of the machine (default: as in the file)")


def _read(args: argparse.Namespace) -> Workload:
    """Read the log, and print how many jobs were dropped or changed. Raises InputError."""
    convert.check_name(args.output)
    arguments.refuse_to_overwrite(args.output, [args.file])
    options = convert.log_options(args, args.file, args.procs)
    with loading(f"reading {args.file}"):
        selection = Selection(partitions=tuple(args.partitions or ()))
        workload, report = reading.read(args.file, options, selection, lenient=bool(args.lenient))
    convert.refuse_empty(workload, report)
    arguments.show("\n".join(report.lines()))
    return workload


def _write(args: argparse.Namespace, workload: Workload) -> int:
    batsim4.write(workload, args.output)
    convert.say_written(workload, args.output)
    return 0
