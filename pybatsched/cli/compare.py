"""Compare two runs by their summaries, and fail if the second run meets a condition."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments, run_end
from pybatsched.errors import BrokenPromiseError
from pybatsched.metrics.compare import comparison

EPILOG: Final = """\
examples:
  pybatsched compare out/fcfs out/easy
  pybatsched compare base_summary.json out/new_summary.json --fail-if 'mean_bounded_slowdown > +5%'
  pybatsched compare a_summary.json b_summary.json --fail-if 'n_unfinished > 0' --fail-if 'utilisation < -0.02'

A condition is a metric of the table, one of < <= > >= == !=, and a number. A number with a sign is compared with the
change from the first run to the second (+5% in per cent of the first, +5 in the metric's unit), one without a sign with
the value of the second run. The exit code is 7 if a condition holds or its metric has no value. It is also 7 if a run
is still running or incomplete, unless --partial is given: its figures include only the jobs that have ended.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `compare`."""
    add = parser.add_argument
    add(
        "before",
        metavar="PREFIX|FILE",
        help="the run to compare with: the start of its file names, or its summary",
    )
    add("after", metavar="PREFIX|FILE", help="the run to judge")
    add(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="end with exit code 7 if this condition holds, such as 'mean_wait_s > +5%%' (repeatable)",
    )
    run_end.add_partial(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, then check the conditions."""
    conditions = [comparison.read_condition(text) for text in args.fail_if]
    before, after = (comparison.read_summary(path, partial=args.partial) for path in (args.before, args.after))
    failures = [why for why in (comparison.broken(condition, before, after) for condition in conditions) if why]
    run_states = (before.run_state, after.run_state)
    run_end.introduce(run_states)
    print("\n".join(comparison.table(before, after)))
    if why := comparison.other_tau(before, after):
        arguments.say(why)
    if comparison.differs("ended_at", before, after) and not comparison.differs("makespan_s", before, after):
        arguments.say(
            "ended_at is the last reply of the scheduler, makespan_s the last end of a job: here only the calls of the "
            "scheduler differ"
        )
    if differing := comparison.different_inputs(before.inputs, after.inputs):
        arguments.say(f"the two runs have different inputs: {', '.join(differing)}")
    if failures:
        raise BrokenPromiseError(
            "the second run meets a condition of --fail-if:\n" + "\n".join(f"  {why}" for why in failures)
        )
    run_end.check(run_states, partial=args.partial)
    return 0
