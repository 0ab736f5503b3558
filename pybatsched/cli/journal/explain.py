"""Show the history of a job from a journal: why it waited, started, was requeued and ended."""

from __future__ import annotations

import argparse
import math
from typing import Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import ProgressBar
from pybatsched.cli.journal.replay import add_policy
from pybatsched.core.instants import seconds_text
from pybatsched.errors import InputError, spelled
from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader
from pybatsched.session.tables import tables_at
from pybatsched.session.waits import Holder, Wait, waits_of
from pybatsched.settings import TIME
from pybatsched.text_table import aligned

EPILOG: Final = """\
examples:
  pybatsched explain run.pbj 'w0!42'                        its history
  pybatsched explain run.pbj 'w0!42' --why-not-earlier      which jobs held the processors while it waited
  pybatsched explain run.pbj --at 3600                      priorities and shares after an hour (policy slurm)

The policy is run again to find out why the job waited and which processors were reserved for it. A Python file that
only the journal names is not run: --policy FILE.py:CLASS runs the code of that file.
"""


_N_SHOWN: Final = 20
_N_OBSTACLES: Final = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `explain`."""
    parser.add_argument("journal", metavar="FILE", help="a journal written with --journal")
    parser.add_argument("job", metavar="JOB", nargs="?", help="the job's id as it was submitted, such as w0!42")
    parser.add_argument(
        "--why-not-earlier", action="store_true", help="list the jobs that held the processors while the job waited"
    )
    parser.add_argument(
        "--at",
        type=_time,
        metavar="TIME",
        help="instead of a job: the tables of the policy at this time (of slurm: squeue, sprio and sshare)",
    )
    add_policy(parser, "run this policy instead of the recorded one to find out why the job waited")


def _time(text: str) -> float:
    found = TIME.of(TIME.of_text(text))
    if found is None:
        raise argparse.ArgumentTypeError(f"expected {TIME.expected}, found {text!r:.60}")
    return float(found)


def run(args: argparse.Namespace) -> int:
    """Print the history of a job, or the tables of the policy."""
    if (args.job is None) == (args.at is None):
        raise InputError("expected either a job or --at TIME")
    with ProgressBar(f"reading {args.journal}") as bar:
        reader = JournalReader(args.journal, bar.update if bar.is_shown else None, is_trusted=args.trust)
        if args.job is None:
            now, tables = tables_at(reader, args.at, args.policy, arguments.options_given(args.options))
        elif args.why_not_earlier:
            waits = waits_of(reader, args.job, args.policy, arguments.options_given(args.options))
        else:
            history = explain(reader, args.job, args.policy, arguments.options_given(args.options))
    if args.job is None:
        for name, rows in tables.items():
            print("\n".join([f"{name} at {seconds_text(now)}", *aligned(rows), ""]))
        return 0
    if args.why_not_earlier:
        if waits[0].job_id != args.job:
            print(f"{args.job} is a part of {waits[0].job_id}")
        for wait in waits:
            print("\n".join(_lines(wait)))
        print(f"({waits[0].note})")
        return 0
    print(f"job {args.job}")
    for at, text in history:
        print(f"{at:>14.6f}  {spelled(text, arguments.as_option)}")
    return 0


def _lines(wait: Wait) -> list[str]:
    """Return a table of the jobs that held the processors, by decreasing processor-seconds."""
    waited_s = wait.ended_at - wait.submitted_at
    why = f": {wait.why}" if wait.why else ""
    where = f" of partition {' and '.join(wait.partitions)}" if wait.partitions else ""
    size = f"{wait.n_procs:,} of {wait.n_machine:,} processors{where}"
    event = "killed, and requeued," if wait.is_requeued else "submitted"
    lines = [
        f"job {wait.job_id}: {event} at {seconds_text(wait.submitted_at)} for {size}",
        f"{wait.how} at {seconds_text(wait.ended_at)}, {seconds_text(waited_s)} s later{why}",
    ]
    if waited_s > 0 and not wait.is_asked:
        lines.append(
            "(the policy cannot be run: free processors are those of the whole machine, including reserved ones)"
        )
    if kept := wait.spans_kept():
        total = sum(end - begin for begin, end in kept)
        when = f"first from {seconds_text(kept[0][0])} to {seconds_text(kept[0][1])}"
        lines.append(f"processors were held for it for {seconds_text(total)} s of that, {when}; its history shows why")
    for obstacle, own in [*wait.spans_of_obstacles().items()][:_N_OBSTACLES]:
        total = sum(end - begin for begin, end in own)
        when = f"first from {seconds_text(own[0][0])} to {seconds_text(own[0][1])}" if own else ""
        lines.append(f"for {seconds_text(total)} s of that, {when}: {obstacle}")
    counts = [n_free for _, n_free in wait.usable() if n_free >= 0]
    spans = wait.spans_with(wait.n_procs)
    if waited_s > 0 and spans:
        first, last = spans[0]
        why_not = "it was not started on these" if wait.is_requeued else "other jobs were before it in the queue"
        total = sum(end - begin for begin, end in spans)
        lines.append(
            f"{wait.n_procs:,} or more were free for {seconds_text(total)} s of that, first from "
            f"{seconds_text(first)} to {seconds_text(last)}: {why_not}; its history shows why"
        )
    elif waited_s > 0 and counts:
        lines.append(f"fewer than {wait.n_procs:,} were free meanwhile: {min(counts):,} to {max(counts):,}")
    by_share = sorted(wait.holders, key=lambda one: (-one.n_procs * wait.held_s(one), one.started_at, one.job_id))
    if by_share:
        rows: list[tuple[str, ...]] = [("held by", "processors", "from", "to", "of its wait", "")]
        rows += [_row(wait, holder) for holder in by_share[:_N_SHOWN]]
        lines += aligned(rows, "lrrrrl")
    if len(by_share) > _N_SHOWN:
        rest = sum(one.n_procs * wait.held_s(one) for one in by_share[_N_SHOWN:])
        lines.append(f"and {len(by_share) - _N_SHOWN:,} more, with {rest:,.0f} processor-seconds in all")
    return lines


def _row(wait: Wait, holder: Holder) -> tuple[str, ...]:
    if wait.submitted_at < wait.eligible_at and holder.started_at <= wait.eligible_at:
        how = "was running when it could start first"
    elif holder.started_at <= wait.submitted_at:
        how = "was running before" if wait.is_requeued else "was running when it was submitted"
    elif (holder.submitted_at, holder.job_id) < (wait.came_at, wait.job_id):
        how = "submitted before it" + (f": {holder.how}" if holder.how else "")
    else:
        how = "overtook it" + (f": {holder.how}" if holder.how else "")
    end = "" if math.isinf(holder.ended_at) else f"{seconds_text(holder.ended_at)}"
    span = f"{seconds_text(wait.held_s(holder))} s"
    return holder.job_id, f"{holder.n_procs:,}", f"{seconds_text(holder.started_at)}", end, span, how
