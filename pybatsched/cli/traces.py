"""Download logs of the Parallel Workloads Archive and check their digests."""

from __future__ import annotations

import argparse
import os
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.arguments import Command
from pybatsched.errors import InputError
from pybatsched.workload import archive

EPILOG: Final = """\
examples:
  pybatsched traces list
  pybatsched traces get SDSC-DS-2004-2.1-cln.swf.gz --output traces
  pybatsched traces get all --output traces

The archive asks its users to acknowledge it and the log's provider: see each log's page there.
"""
TRACES: Final = "PYBATSCHED_TRACES"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the sub-commands of `traces` and their options."""
    arguments.add_commands(
        parser,
        (
            Command("list", "List the known logs.", "", lambda _parser: None, _list),
            Command("get", "Download logs, unless they exist, and check their digests.", "", _get_arguments, _get),
        ),
    )


run = arguments.run_chosen


def _list(_args: argparse.Namespace) -> int:
    print("\n".join(f"{log.file:<34} {archive.ARCHIVE}/{log.page}" for log in archive.LOGS.values()))
    return 0


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG", help="names of `traces list`, or all")
    add(
        "--output",
        default=os.environ.get(TRACES),
        metavar="DIR",
        help=f"the directory to write to (default: ${TRACES})",
    )
    add(
        "--from",
        dest="base",
        default=archive.ARCHIVE,
        metavar="URL",
        help="a mirror of the archive (default %(default)s)",
    )


def _get(args: argparse.Namespace) -> int:
    if not args.output:
        raise InputError(f"expected --output DIR, or {TRACES} to be set")
    for name in archive.LOGS if args.logs == ["all"] else args.logs:
        print(archive.get(name, args.output, args.base.rstrip("/")))
    return 0
