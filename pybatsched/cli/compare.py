"""Compare two runs by their summaries, and fail if the second is worse than you allow."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments, run_end
from pybatsched.errors import BrokenPromiseError
from pybatsched.metrics import comparison

EPILOG: Final = """\
examples:
  pybatsched compare out/fcfs out/easy
  pybatsched compare base_summary.json out/new_summary.json --fail-if 'mean_bounded_slowdown > +5%'
  pybatsched compare a_summary.json b_summary.json --fail-if 'n_unfinished > 0' --fail-if 'utilisation < -0.02'

A condition is a metric of the table, one of < <= > >= == !=, and a number: with a sign it is about the change from the
first run to the second (+5% in per cent of the first, +5 in the metric's unit), without a sign about the second alone.
If one holds, or its metric has no value, the exit code is 7. It is also 7 if a run is still running or broke off,
unless --partial is given: the figures of such a run cover only the jobs that were over.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `compare`."""
    add = parser.add_argument
    add(
        "before",
        metavar="PREFIX|FILE",
        help="the run to compare with: the beginning of its files' names, or its summary",
    )
    add("after", metavar="PREFIX|FILE", help="the run to judge")
    add(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="end with exit code 7 if this holds, as in 'mean_wait_s > +5%%' (repeatable)",
    )
    run_end.add_partial(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, then judge."""
    conditions = [comparison.read_condition(text) for text in args.fail_if]
    before, after = (comparison.read_summary(path, partial=args.partial) for path in (args.before, args.after))
    failures = [why for why in (comparison.broken(condition, before, after) for condition in conditions) if why]
    standings = (before.standing, after.standing)
    run_end.introduce(standings)
    print("\n".join(comparison.table(before, after)))
    if why := comparison.other_tau(before, after):
        arguments.say(why)
    if comparison.differs("ended_at", before, after) and not comparison.differs("makespan_s", before, after):
        arguments.say(
            "ended_at is when the scheduler was last called and has answered, makespan_s the last end of a job: here "
            "only the calls differ"
        )
    if differing := comparison.different_inputs(before.inputs, after.inputs):
        arguments.say(f"the two runs had different inputs: {', '.join(differing)}")
    if failures:
        raise BrokenPromiseError("the second run fails:\n" + "\n".join(f"  {why}" for why in failures))
    run_end.check(standings, partial=args.partial)
    return 0
