"""Convert files of external events between the formats of Batsim 4 and Batsim 5."""

from __future__ import annotations

import argparse
import json
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.errors import quantity
from pybatsched.simulator import external_events
from pybatsched.workload.formats.files import write_text

SUMMARY: Final = "Convert a file of external events to the format of Batsim 4 or Batsim 5."
EPILOG: Final = """\
examples:
  pybatsched workload events outages.txt --for batsim5 --output outages5.txt
  pybatsched workload events outages5.txt --for batsim4 --output outages.txt

A file has one JSON object per line. Batsim 4 knows machine_available and machine_unavailable and can forward others.
Batsim 5 has only generic events, which send a text `data` to the scheduler: here, the event of Batsim 4 as JSON.
`simulate` reads both formats. Events are written in the order in which Batsim 4 processes them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `workload events`."""
    parser.add_argument("file", metavar="FILE", help="external events, of Batsim 4 or of Batsim 5")
    arguments.add_for_batsim(parser, "the format to write", required=True)
    parser.add_argument("--output", metavar="FILE", required=True, help="the file to write")


def run(args: argparse.Namespace) -> int:
    """Write the events and print their number."""
    arguments.refuse_to_overwrite(args.output, [args.file])
    events = external_events.read(args.file, n_hosts=None, forward_unknown=True)
    content = [event.described for event in events]
    if args.batsim == "batsim5":
        content = [external_events.to_batsim5(event) for event in content]
    write_text(args.output, (f"{json.dumps(event, allow_nan=False)}\n" for event in content))
    print(f"wrote {args.output}: {quantity(len(events), 'event')} for {args.batsim}")
    return 0
