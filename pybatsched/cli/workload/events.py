"""Write files of external events in the format of one Batsim or the other."""

from __future__ import annotations

import argparse
import json
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.errors import quantity
from pybatsched.simulator import external_events
from pybatsched.workload.formats.files import write_text

SUMMARY: Final = "Write a file of external events in Batsim 4's or Batsim 5's format."
EPILOG: Final = """\
examples:
  pybatsched workload events outages.txt --for batsim5 --output outages5.txt
  pybatsched workload events outages5.txt --for batsim4 --output outages.txt

A file has a JSON object a line. Batsim 4 knows machine_available and machine_unavailable and forwards others. Batsim 5
knows generic events only, which do nothing but tell the scheduler a text, `data`: here, the event of Batsim 4 as JSON.
`simulate` reads both. Events are written in the order in which Batsim 4 takes them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload events`."""
    parser.add_argument("file", metavar="FILE", help="external events, of Batsim 4 or of Batsim 5")
    arguments.add_for_batsim(parser, "whose format", required=True)
    parser.add_argument("--output", metavar="FILE", required=True, help="the file to write")


def run(args: argparse.Namespace) -> int:
    """Write the events, and say how many there are."""
    arguments.refuse_to_overwrite(args.output, [args.file])
    events = external_events.read(args.file, n_hosts=None, forward_unknown=True)
    told = [event.described for event in events]
    if args.batsim == "batsim5":
        told = [external_events.to_batsim5(event) for event in told]
    write_text(args.output, (f"{json.dumps(event, allow_nan=False)}\n" for event in told))
    print(f"wrote {args.output}: {quantity(len(events), 'event')} for {args.batsim}")
    return 0
