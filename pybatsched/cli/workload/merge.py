"""Make one workload of several logs, each that of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.workload import convert, output
from pybatsched.errors import InputError, quantity
from pybatsched.workload import reading
from pybatsched.workload.formats import batsim4
from pybatsched.workload.merge import Part, check_name, merged
from pybatsched.workload.selection import Selection

SUMMARY: Final = "Make one workload of several logs, each that of a cluster."
EPILOG: Final = """\
examples:
  pybatsched workload merge ctc=CTC-SP2.swf.gz sdsc=SDSC-SP2.swf.gz --to 182d --output grid.json
  pybatsched workload merge ctc=CTC-SP2.swf.gz sdsc=w.json --procs ctc=430 --from 30d --to 60d --output month2.json
  pybatsched workload merge ctc=CTC-SP2.swf.gz sdsc=SDSC-SP2.swf.gz --external 0.667 --seed 1 --output grid.json

T counts from the first submission of each log, and is time 0 of the workload. Jobs are named NAME-ID and have the
field cluster. Options for logs are those of convert; a log that needs others is converted before.
See docs/workloads.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload merge`."""
    add = parser.add_argument
    add("logs", nargs="+", metavar="NAME=FILE", help="a cluster, and its log (SWF, Rackham) or Batsim workload (JSON)")
    add("--output", required=True, metavar="FILE", help="the file to write: .json or .json.gz")
    add("--procs", action="append", default=[], metavar="NAME=N", help="a cluster's processors (repeatable)")
    arguments.add_window(parser)
    add("--external", type=float, metavar="SHARE", help="each job is external with this probability, by the seed")
    add("--seed", type=arguments.natural, default=0, metavar="S", help="where random numbers begin (default: 0)")
    convert.add_log_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write the workload, and say what became of the jobs of each log."""
    paths = _by_name(args.logs, "NAME=FILE, as ctc=CTC-SP2.swf.gz")
    for name in paths:
        check_name(name)
    n_procs = {name: _count_of(name, text) for name, text in _by_name(args.procs, "--procs NAME=N").items()}
    if strange := [name for name in n_procs if name not in paths]:
        raise InputError(f"--procs {strange[0]}: expected one of {', '.join(paths)}")
    output.check_name(args.output)
    for path in paths.values():
        arguments.refuse_to_overwrite(args.output, [path])
    selection = Selection(*arguments.window(args), partitions=tuple(args.partition), clock="first")
    parts = []
    for name, path in paths.items():
        try:
            options = convert.log_options(args, path, n_procs.get(name))
            workload, report = reading.read(path, options, selection, lenient=args.lenient)
            output.refuse_empty(workload, report)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        print("\n".join([f"{name}:", *report.lines()]))
        parts.append(Part(name, workload))
    whole = merged(parts, args.external, args.seed)
    batsim4.write(whole, args.output)
    for part in whole.about["merged"]:
        counts = f"{quantity(part['jobs'], 'job')}, {part['external']:,} of them external"
        print(f"{part['name']}: {counts}, for {quantity(part['nb_res'], 'processor')}")
    output.say_written(whole, args.output)
    return 0


def _by_name(texts: Iterable[str], expected: str) -> dict[str, str]:
    """Read what was given by name. Raises InputError."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{text:.200}: expected {expected}")
        if name in found:
            raise InputError(f"{text:.200}: expected another name, {name} is given twice")
        found[name] = value
    return found


def _count_of(name: str, text: str) -> int:
    try:
        return arguments.positive(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"--procs {name}={text:.40}: {error}") from None
