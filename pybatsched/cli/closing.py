"""The last lines of a run: the closing table, and the exit code that goes with it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from pybatsched.cli import arguments
from pybatsched.errors import BrokenPromiseError, UnfinishedError
from pybatsched.metrics import summary

_N_SHOWN: Final = 20


def tell(result: summary.Result, *, quiet: bool, dynamic_jobs: bool) -> int:
    """Print the closing table, and on standard error what was left over. Gives the exit code: 0, 5 or 7."""
    if not quiet:
        print("\n".join(summary.table(result)))
        for remark in result.remarks:
            arguments.say(remark)
    if result.broken_promises:
        print("pybatsched: " + "\n".join(broken(result.broken_promises)), file=sys.stderr)
    if result.finished:
        return BrokenPromiseError.exit_code if result.broken_promises else 0
    n = len(result.stuck)
    lines = [f"the simulation stopped at {result.ended_at:g} with {n} jobs unfinished: nothing can happen any more"]
    lines += [
        f"  {job.job_id} ({job.n_procs} processors, submitted at {job.submitted_at:g}): {job.why}"
        for job in result.stuck[:_N_SHOWN]
    ]
    if n > _N_SHOWN:
        lines.append(f"  and {n - _N_SHOWN} more (all of them in the summary)")
    if not n and dynamic_jobs:
        lines[0] = (
            f"the simulation stopped at {result.ended_at:g}: all jobs are over, but with --enable-dynamic-jobs "
            "the scheduler has to say registration_finished, and it did not"
        )
    print("pybatsched: " + "\n".join(lines), file=sys.stderr)
    return UnfinishedError.exit_code


def broken(promises: Sequence[str]) -> list[str]:
    """Tell the promises of a policy that did not hold, a line each, and not too many."""
    lines = [f"the policy broke {len(promises)} of its promises"]
    lines += [f"  {promise}" for promise in promises[:_N_SHOWN]]
    if len(promises) > _N_SHOWN:
        lines.append(f"  and {len(promises) - _N_SHOWN} more")
    return lines
