"""Write failures of machines as a file of external events."""

from __future__ import annotations

import argparse
import json
from typing import Final

from pybatsched.cli.common import arguments, inputs
from pybatsched.errors import InputError, quantity
from pybatsched.runs.build import platform_of
from pybatsched.runs.spec import MachineSpec
from pybatsched.simulator import external_events, failure_events
from pybatsched.simulator.external_events import UNAVAILABLE
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.workload.formats.files import write_text
from pybatsched.workload.selection import seconds_of

EPILOG: Final = """\
examples:
  pybatsched workload failures --procs 128 --mtbf 30d --repair 4h --until 365d --output failures.txt
  pybatsched workload failures -p racks.xml --mtbf 90d --fail-together rack --until 365d --output failures.txt
  pybatsched workload failures --procs 99 --mtbf 15h --mtbf-of system --repair exponential:1h --until 9d --output f.txt
  pybatsched workload failures --procs 128 --log lanl.csv --output failures.txt

A log is a table with the columns node, down and up (LANL: nodenum, Prob Started, Prob Fixed): host numbers, and seconds
or dates. Batsim and `simulate --events` read the file. See docs/faults.md for -o on_failure.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload failures`."""
    machine = parser.add_mutually_exclusive_group(required=True)
    arguments.add_settings(machine, MachineSpec, ["platform", "n_procs"])
    parser.add_argument("--log", metavar="FILE", help="a table of failures (CSV), instead of --mtbf")
    inputs.add_failures(parser, FailureModel)
    parser.add_argument("--until", metavar="T", help="write the failures before this time (seconds, or 52w, 365d)")
    arguments.add_for_batsim(parser, "the format to write (default: batsim4)", required=False)
    parser.add_argument("--output", metavar="FILE", required=True, help="the file to write")


def run(args: argparse.Namespace) -> int:
    """Draw or read the failures, and write them."""
    settings = inputs.faults(args)
    platform = platform_of(MachineSpec(platform=args.platform, n_procs=args.n_procs))
    assert platform is not None
    drawn = FailureModel.of_settings(settings["failures"]) if settings else None
    if (drawn is None) == (args.log is None):
        raise InputError("expected either --mtbf T or --log FILE")
    if args.log is not None:
        if args.until is not None:
            raise InputError("--until: works only with --mtbf; a log has its own times")
        arguments.refuse_to_overwrite(args.output, [args.log])
        events = failure_events.events_of(failure_events.read_log(args.log, platform.n_procs))
    else:
        if args.until is None:
            raise InputError("--mtbf: needs --until T, the end of the failures")
        assert drawn is not None
        events = drawn.on(platform).until(seconds_of(args.until, "--until"))
    content = [event.described for event in events]
    if args.batsim == "batsim5":
        content = [external_events.to_batsim5(event) for event in content]
    write_text(args.output, (f"{json.dumps(event, allow_nan=False)}\n" for event in content))
    n = sum(event.kind == UNAVAILABLE for event in events)
    print(f"wrote {args.output}: {quantity(n, 'failure')} of {quantity(platform.n_procs, 'host')}")
    return 0
