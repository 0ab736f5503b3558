"""Make other workloads from a log: with shaken submissions, or of resampled users."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import loading
from pybatsched.cli.workload import convert
from pybatsched.workload import reading
from pybatsched.workload.formats import batsim4
from pybatsched.workload.model import Workload
from pybatsched.workload.resample.shaking import shake
from pybatsched.workload.selection import Selection, seconds_of

SHAKE: Final = "Move all submissions by small random amounts."
SHAKE_EPILOG: Final = """\
examples:
  pybatsched workload shake log.swf.gz --by 60 --seed 1 --output shaken.json
  pybatsched workload shake w.json --by 5m --seed 2 --output shaken.json.gz

Each submission moves by a random amount, from T earlier to T later. By 0 s, the file is that of `workload convert`.
Campaigns have shake = { n = 20, by_s = 60 }. See docs/experiments.md.
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


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="LOG", help="a log (SWF, Slurm, a table, Rackham) or a Batsim workload (JSON)")
    add("--output", required=True, metavar="FILE", help="the file to write: .json or .json.gz")
    add("--seed", type=arguments.natural, default=0, metavar="S", help="seed of the random numbers (default: 0)")
    add("--procs", type=arguments.positive, metavar="N", help="processors of the machine (default: as in the file)")


def _read(args: argparse.Namespace) -> Workload:
    """Read the log, and print how many jobs were dropped or changed. Raises InputError."""
    convert.check_name(args.output)
    arguments.refuse_to_overwrite(args.output, [args.file])
    options = convert.log_options(args, args.file, args.procs)
    with loading(f"reading {args.file}"):
        selection = Selection(partitions=tuple(args.partition))
        workload, report = reading.read(args.file, options, selection, lenient=args.lenient)
    convert.refuse_empty(workload, report)
    print("\n".join(report.lines()))
    return workload


def _write(args: argparse.Namespace, workload: Workload) -> int:
    batsim4.write(workload, args.output)
    convert.say_written(workload, args.output)
    return 0
