"""Run a journal's policy again and report the first difference."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import Bar
from pybatsched.errors import BrokenPromiseError, quantity
from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import replay

EPILOG: Final = """\
exit code 0: identical; 7: the policy answers otherwise.
No Python file is run because a journal names it: --policy FILE.py:CLASS runs the code of that file, and --trust that of
all files that the journal names, which is for journals of your own.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `replay`."""
    parser.add_argument("journal", metavar="FILE", help="a journal written with --journal")
    add_policy(parser, "play it at this policy instead of the recorded one; a file of yours must be named here")


def add_policy(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Describe the options that name a journal's policy, or what it needs of Python files."""
    parser.add_argument("--policy", metavar="NAME", help=help_text)
    arguments.add_options(parser, "an option of the policy, over the recorded ones; a file must be named here, too")
    parser.add_argument("--trust", action="store_true", help="run the Python files that the journal names: it is yours")


def run(args: argparse.Namespace) -> int:
    """Replay and report."""
    with Bar(f"replaying {args.journal}") as bar:
        reader = JournalReader(args.journal, bar.heard if bar.is_shown else None, is_trusted=args.trust)
        result = replay(reader, args.policy, arguments.options_given(args.options))
    if result.note:
        print(f"({result.note})")
    if result.difference is not None:
        raise BrokenPromiseError(f"{quantity(result.n_same, 'message')} answered as recorded; {result.difference}")
    print(f"identical: {quantity(result.n_same, 'message')} answered as recorded")
    return 0
