"""Download logs of the Parallel Workloads Archive, and print the command that exports a log of Slurm."""

from __future__ import annotations

import argparse
import os
import re
import shlex
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
  pybatsched traces sacct-command --from 2026-01-01 --to 2026-04-01    the command to run on a cluster with Slurm

The archive asks its users to acknowledge it and the log's provider: see each log's page there.
"""
TRACES: Final = "PYBATSCHED_TRACES"
_SACCT: Final = """\
examples:
  pybatsched traces sacct-command --from 2026-01-01 --to 2026-04-01 --output q1.txt.gz
  pybatsched traces sacct-command --from now-30days
  pybatsched traces sacct-command --steps --names    also the memory and energy of steps, and names of users and jobs

Run the printed command on the cluster. Times are written as seconds since 1970, which need no time zone.
All commands that read logs read the result: see docs/traces.md.
"""
#: Columns that the reader uses: always, with --names, and of steps.
_COLUMNS: Final = (
    *("JobID", "JobIDRaw", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "Timelimit", "AllocCPUS", "ReqCPUS"),
    *("AllocNodes", "ReqNodes", "AllocTRES", "ReqTRES", "ReqMem", "State", "ExitCode", "Partition", "QOS", "Priority"),
    *("ConsumedEnergyRaw", "NodeList", "Constraints"),
)
_ANONYMOUS: Final = ("UID", "GID")
_NAMES: Final = ("User", "Group", "Account", "JobName")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the sub-commands of `traces` and their options."""
    arguments.add_commands(
        parser,
        (
            Command("list", "List the known logs.", "", lambda _parser: None, _list),
            Command("get", "Download logs, unless they exist, and check their digests.", "", _get_arguments, _get),
            Command(
                "sacct-command",
                "Print the sacct command that exports a log of Slurm.",
                _SACCT,
                _sacct_arguments,
                _sacct,
            ),
        ),
    )


run = arguments.run_chosen


def _list(_args: argparse.Namespace) -> int:
    print("\n".join(f"{log.file:<34} {archive.ARCHIVE}/{log.page}" for log in archive.LOGS.values()))
    return 0


def _sacct_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--from", dest="begin", type=_date, default="now-90days", metavar="DATE", help="first day (%(default)s)")
    add("--to", dest="end", type=_date, default="now", metavar="DATE", help="last day, or now (%(default)s)")
    add("--steps", action="store_true", help="include steps, for the memory that jobs used")
    add("--names", action="store_true", help="include names of users, groups, accounts and jobs (default: ids)")
    add("--output", default="sacct.txt.gz", metavar="FILE", help="the file that the command writes (%(default)s)")


def _date(text: str) -> str:
    """Read a date."""
    if re.fullmatch(r"now(?:-[0-9]+(?:hours|days|weeks))?|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2})?", text):
        return text
    raise argparse.ArgumentTypeError(f"expected a date such as 2026-01-31, now or now-30days, found {text!r:.60}")


def _sacct(args: argparse.Namespace) -> int:
    columns = [*_COLUMNS, *(_NAMES if args.names else _ANONYMOUS), *(["MaxRSS"] if args.steps else [])]
    words = [
        *("SLURM_TIME_FORMAT=%s", "sacct", "--allusers", "--duplicates", "--parsable2", "--noconvert"),
        *([] if args.steps else ["--allocations"]),
        *("--starttime", args.begin, "--endtime", args.end, f"--format={','.join(columns)}"),
    ]
    packed = " | gzip" if args.output.endswith(".gz") else ""
    print(f"{' '.join(words)}{packed} > {shlex.quote(args.output)}")
    return 0


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG", help="names of `traces list`, or all")
    text = f"the directory to write to (default: ${TRACES})"
    add("--output", default=os.environ.get(TRACES), metavar="DIR", help=text)
    text = "a mirror of the archive (default %(default)s)"
    add("--from", dest="base", default=archive.ARCHIVE, metavar="URL", help=text)


def _get(args: argparse.Namespace) -> int:
    if not args.output:
        raise InputError(f"expected --output DIR, or {TRACES} to be set")
    for name in archive.LOGS if args.logs == ["all"] else args.logs:
        print(archive.get(name, args.output, args.base.rstrip("/")))
    return 0
