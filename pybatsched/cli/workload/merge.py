"""Merge the logs of several clusters into one workload."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.workload import convert
from pybatsched.errors import InputError, quantity
from pybatsched.runs.workloads import selection_of
from pybatsched.workload import reading
from pybatsched.workload.formats import batsim4
from pybatsched.workload.merge import ClusterLog, check_name, merged
from pybatsched.workload.selection import Selection

SUMMARY: Final = "Merge the logs of several clusters into one workload."
EPILOG: Final = """\
examples:
  pybatsched workload merge ctc=CTC-SP2.swf.gz sdsc=SDSC-SP2.swf.gz --submitted-before 182d --output grid.json
  pybatsched workload merge ctc=CTC.swf.gz sdsc=w.json --procs ctc=430 --from 30d --submitted-before 60d --output m.json
  pybatsched workload merge ctc=CTC-SP2.swf.gz sdsc=SDSC-SP2.swf.gz --external 0.667 --seed 1 --output grid.json

T counts from the first submission of each log, and the start of the window is time 0 of the workload; with
--window-clock log, both are those of the logs. Ids of jobs are
NAME-ID, and the field cluster is NAME. Options for logs are those of convert and apply to all logs; to use other
options for one log, convert it first. See docs/workloads.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload merge`."""
    add = parser.add_argument
    text = "a cluster and its log (SWF, Slurm) or Batsim workload (JSON)"
    add("logs", nargs="+", metavar="NAME=FILE", help=text)
    add("--output", required=True, metavar="FILE", help="the file to write: .json or .json.gz")
    add("--procs", action="append", default=[], metavar="NAME=N", help="processors of a cluster (repeatable)")
    arguments.add_workload_settings(parser, *convert.WINDOW, "window_clock")
    text = "make each job external with this probability, by the seed"
    add("--external", type=arguments.number, metavar="SHARE", help=text)
    add("--seed", type=arguments.natural, default=0, metavar="S", help="seed of the random numbers (default: 0)")
    convert.add_log_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write the workload and print how many jobs of each log were kept."""
    paths = _by_name(args.logs, "NAME=FILE, such as ctc=CTC-SP2.swf.gz")
    for name in paths:
        check_name(name)
    n_procs = {name: _count_of(name, text) for name, text in _by_name(args.procs, "--procs NAME=N").items()}
    if unknown := [name for name in n_procs if name not in paths]:
        raise InputError(f"--procs {unknown[0]}: expected one of {', '.join(paths)}")
    convert.check_name(args.output)
    for path in paths.values():
        arguments.refuse_to_overwrite(args.output, [path])
    spec = arguments.workload_spec(args, paths[next(iter(paths))])
    clock = spec.window_clock
    selection = replace(selection_of(spec), clock=clock, shift=Selection.shift_of(len(paths), clock))
    parts = []
    for name, path in paths.items():
        try:
            options = convert.log_options(args, path, n_procs.get(name))
            workload, report = reading.read(path, options, selection, lenient=bool(args.lenient))
            convert.refuse_empty(workload, report)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        arguments.show("\n".join([f"{name}:", *report.lines()]))
        parts.append(ClusterLog(name, workload))
    workload = merged(parts, args.external, args.seed)
    batsim4.write(workload, args.output)
    for part in workload.about["merged"]:
        counts = f"{quantity(part['jobs'], 'job')}, {part['external']:,} of them external"
        print(f"{part['name']}: {counts}, for {quantity(part['nb_res'], 'processor')}")
    convert.say_written(workload, args.output)
    return 0


def _by_name(texts: Iterable[str], expected: str) -> dict[str, str]:
    """Read NAME=VALUE arguments. Raises InputError."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{text:.200}: expected {expected}")
        if name in found:
            raise InputError(f"{text:.200}: expected different names, found {name} twice")
        found[name] = value
    return found


def _count_of(name: str, text: str) -> int:
    try:
        return arguments.positive(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"--procs {name}={text:.40}: {error}") from None
