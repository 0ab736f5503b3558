"""Run a journal's policy again and report the first difference."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import ProgressBar
from pybatsched.errors import BrokenPromiseError, quantity
from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import replay

EPILOG: Final = """\
exit codes: 0 identical; 7 the policy decides differently.
A Python file that only the journal names is not run: --policy FILE.py:CLASS runs the code of that file, and --trust
that of all files that the journal names. Use --trust only for your own journals.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `replay`."""
    parser.add_argument("journal", metavar="FILE", help="a journal written with --journal")
    add_policy(parser, "run this policy instead of the recorded one; a Python file must be named here")


def add_policy(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Describe the options for the policy of a journal and its Python files."""
    parser.add_argument("--policy", metavar="NAME", help=help_text)
    arguments.add_options(
        parser, "an option of the policy, instead of the recorded one; Python files must be named here, too"
    )
    parser.add_argument(
        "--trust", action="store_true", help="run the Python files that the journal names (only for your own journals)"
    )


def run(args: argparse.Namespace) -> int:
    """Replay and report."""
    with ProgressBar(f"replaying {args.journal}") as bar:
        reader = JournalReader(args.journal, bar.update if bar.is_shown else None, is_trusted=args.trust)
        result = replay(reader, args.policy, arguments.options_given(args.options))
    if result.note:
        print(f"({result.note})")
    if result.difference is not None:
        raise BrokenPromiseError(f"{quantity(result.n_same, 'message')} answered as recorded; {result.difference}")
    print(f"identical: {quantity(result.n_same, 'message')} answered as recorded")
    return 0
