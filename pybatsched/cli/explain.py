"""Tell the story of a job from a journal: why it waited, started, was requeued and ended."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader

EPILOG: Final = "example: pybatsched explain run.pbj 'w0!42'\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `explain`."""
    parser.add_argument("journal", metavar="FILE", help="a journal written with --journal")
    parser.add_argument("job", metavar="JOB", help="the job's id as it was submitted, such as w0!42")


def run(args: argparse.Namespace) -> int:
    """Print the story."""
    story = explain(JournalReader(args.journal), args.job)
    print(f"job {args.job}")
    for at, text in story:
        print(f"{at:>14.6f}  {text}")
    return 0
