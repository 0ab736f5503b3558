"""Compare two runs by their summaries, or two sets of runs, and fail if the second meets a condition."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments, run_end
from pybatsched.errors import BrokenPromiseError, quantity
from pybatsched.metrics.compare import comparison
from pybatsched.metrics.outcomes import LOST_JOBS
from pybatsched.text_table import aligned

EPILOG: Final = """\
examples:
  pybatsched compare out/fcfs out/easy
  pybatsched compare base_summary.json out/new_summary.json --fail-if 'mean_bounded_slowdown > +5%'
  pybatsched compare a_summary.json b_summary.json --fail-if 'n_unfinished > 0' --fail-if 'utilisation < -0.02'
  pybatsched compare logged out/easy                    the waits that the log recorded, and those of a policy
  pybatsched compare 'out/easy-*' 'out/sjf-*'           two sets of runs, paired by what the star stands for

The name `logged` is the run that the log of the other run recorded: its jobs start after their logged waits.

With a star in both names, the runs are pairs: of the same week, seed or shaken copy. The table has the means of both
sets, the difference, its confidence interval by paired bootstrap, the probability that the second set is better, and a
p-value, corrected for the number of metrics, and a verdict. docs/experiments.md explains the columns.

A condition is a metric of the table, one of < <= > >= == !=, and a number. A number with a sign is compared with the
change from the first run to the second (+5% in per cent of the first, +5 in the metric's unit), one without a sign with
the value of the second run. The exit code is 7 if a condition holds or its metric has no value. It is also 7 if a run
is still running or incomplete, unless --partial is given: its figures include only the jobs that have ended. If one run
rejected or killed other jobs, their figures are over other jobs, and a condition on a change of them always holds.
"""

#: Columns that are texts.
_TEXTS: Final = ("figure", "better", "verdict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `compare`."""
    add = parser.add_argument
    add("before", metavar="PREFIX|FILE", help="the run to compare with: the prefix of its files, or its summary")
    add("after", metavar="PREFIX|FILE", help="the run that is compared with it")
    text = "end with exit code 7 if this condition holds, such as 'mean_wait_s > +5%%' (repeatable)"
    add("--fail-if", action="append", default=[], metavar="CONDITION", help=text)
    run_end.add_partial(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, then check the conditions."""
    if "*" in args.before + args.after:
        return _run_sets(args)
    conditions = [comparison.read_condition(text) for text in args.fail_if]
    before, after = comparison.read_both(args.before, args.after, partial=args.partial)
    others = comparison.other_jobs(before, after)
    failures = [why for condition in conditions if (why := comparison.broken(condition, before, after, others))]
    run_states = (before.run_state, after.run_state)
    run_end.introduce(run_states)
    print("\n".join(comparison.table(before, after)))
    for why in filter(None, (comparison.other_tau(before, after), others)):
        arguments.say(why)
    of_end = [comparison.differs(name, before, after) for name in ("ended_at", "makespan_s")]
    if of_end == [True, False] and not others:
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


def _run_sets(args: argparse.Namespace) -> int:
    """Compare two sets of runs, pair by pair, then check the conditions on their means."""
    from pybatsched.metrics.compare import bootstrap  # noqa: PLC0415  scipy is an extra

    conditions = [comparison.read_condition(text) for text in args.fail_if]
    pairs = comparison.read_pairs(args.before, args.after, partial=args.partial)
    run_states = [one.run_state for pair in pairs.values() for one in pair]
    run_end.introduce(run_states)
    runs = [one for pair in pairs.values() for one in pair]
    names = [name for name in runs[0].metrics if all(one.metrics.get(name) is not None for one in runs)]
    names = [name for name in names if name != LOST_JOBS]
    rows = [
        {"workload": key, "policy": policy, **one.metrics}
        for key, pair in pairs.items()
        for policy, one in zip(("before", "after"), pair, strict=True)
    ]
    found = bootstrap.against(rows, lambda row: row["policy"] == "before", (), names)
    heads = [
        "metric",
        "before",
        "after",
        "difference",
        "low",
        "high",
        "better",
        "p_better",
        "p",
        "p_adjusted",
        "verdict",
    ]
    keys = ["figure", "baseline", "mean", *heads[3:]]
    texts = [[str(row[key]) if key in _TEXTS else comparison.shown(row[key]) for key in keys] for row in found]
    print("\n".join(aligned([heads, *texts], "lr")))
    arguments.say(f"{quantity(len(pairs), 'pair')} of runs; the difference is after - before")
    if n := sum(bool(comparison.different_inputs(a.inputs, b.inputs)) for a, b in pairs.values()):
        arguments.say(f"different inputs in {quantity(n, 'pair')}")
    before, after = (
        comparison.RunSummary(path, {row["figure"]: row[key] for row in found}, {})
        for path, key in ((args.before, "baseline"), (args.after, "mean"))
    )
    others = next((f"{key}: {why}" for key, pair in pairs.items() if (why := comparison.other_jobs(*pair))), "")
    if failures := [why for one in conditions if (why := comparison.broken(one, before, after, others))]:
        lines = "\n".join(f"  {why}" for why in failures)
        raise BrokenPromiseError(f"the second set of runs meets a condition of --fail-if:\n{lines}")
    run_end.check(run_states, partial=args.partial)
    return 0
