"""Tell the story of a job from a journal: why it waited, started, was requeued and ended."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli import arguments
from pybatsched.cli.progress import Bar
from pybatsched.cli.replay import add_policy
from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader

EPILOG: Final = """\
example: pybatsched explain run.pbj 'w0!42'

Why a job waited is asked of the policy, which is run again. No Python file is run because a journal names it:
--policy FILE.py:CLASS runs the code of that file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `explain`."""
    parser.add_argument("journal", metavar="FILE", help="a journal written with --journal")
    parser.add_argument("job", metavar="JOB", help="the job's id as it was submitted, such as w0!42")
    add_policy(parser, "ask this policy why the job waited, instead of the recorded one")


def run(args: argparse.Namespace) -> int:
    """Print the story."""
    with Bar(f"reading {args.journal}") as bar:
        reader = JournalReader(args.journal, bar.heard if bar.is_shown else None)
        story = explain(reader, args.job, args.policy, arguments.options_given(args.options))
    print(f"job {args.job}")
    for at, text in story:
        print(f"{at:>14.6f}  {text}")
    return 0
