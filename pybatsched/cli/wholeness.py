"""Runs that are not whole: how the commands that read them say so, and the exit code that goes with it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from pybatsched.cli import arguments
from pybatsched.errors import BrokenPromiseError
from pybatsched.results.marks import Standing


def add_partial(parser: arguments.Group) -> None:
    """Describe the option for runs that are not finished."""
    text = "show the last run even if it still runs or broke off (without it: the last whole one, else exit code 7)"
    parser.add_argument("--partial", action="store_true", help=text)


def introduce(standings: Iterable[Standing], file: TextIO | None = None) -> None:
    """Say on top of what is shown which of these runs are not whole, and on standard error which are not the last."""
    for standing in {one.prefix: one for one in standings}.values():
        if standing.notice:
            print(f"{standing.prefix}: {standing.notice}", file=file or sys.stdout)
        if standing.reason:
            print(f"  {standing.reason}", file=file or sys.stdout)
        if standing.remark:
            arguments.say(f"{standing.prefix}: {standing.remark}")


def check(standings: Iterable[Standing], *, partial: bool) -> None:
    """Raise BrokenPromiseError if one of these runs is not whole and nobody has asked for such."""
    each = {one.prefix: one for one in standings}.values()
    broken = [f"{one.prefix}: {one.notice}" for one in each if one.mark is not None]
    if broken and not partial:
        raise BrokenPromiseError(f"{'; '.join(broken)} (expected whole runs, or --partial)")
