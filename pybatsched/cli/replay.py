"""Run a journal's policy again and report the first difference."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.errors import BrokenPromiseError
from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import replay

EPILOG: Final = "exit code 0: identical; 7: the policy answers otherwise.\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `replay`."""
    parser.add_argument("journal", metavar="FILE", help="a journal written with --journal")
    parser.add_argument("--policy", metavar="NAME", help="play it at this policy instead of the recorded one")


def run(args: argparse.Namespace) -> int:
    """Replay and report."""
    result = replay(JournalReader(args.journal), args.policy)
    if result.note:
        print(f"({result.note})")
    if result.difference is not None:
        raise BrokenPromiseError(f"{result.n_same} messages answered as recorded; {result.difference}")
    print(f"identical: {result.n_same} messages answered as recorded")
    return 0
