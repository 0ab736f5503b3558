"""The last lines of a run: the closing table, and the exit code that goes with it."""

from __future__ import annotations

import sys
from typing import Final

from pybatsched import summary

_N_STUCK_SHOWN: Final = 20


def tell(result: summary.Result, *, quiet: bool, dynamic_jobs: bool) -> int:
    """Print the closing table, and on standard error what was left over. Gives the exit code: 0, or 5."""
    if not quiet:
        print("\n".join(summary.table(result)))
    if result.finished:
        return 0
    n = len(result.stuck)
    lines = [f"the simulation stopped at {result.ended_at:g} with {n} jobs unfinished: nothing can happen any more"]
    lines += [
        f"  {job.job_id} ({job.n_procs} processors, submitted at {job.submitted_at:g}): {job.why}"
        for job in result.stuck[:_N_STUCK_SHOWN]
    ]
    if n > _N_STUCK_SHOWN:
        lines.append(f"  and {n - _N_STUCK_SHOWN} more (all of them in the summary)")
    if not n and dynamic_jobs:
        lines[0] = (
            f"the simulation stopped at {result.ended_at:g}: all jobs are over, but with --enable-dynamic-jobs "
            "the scheduler has to say registration_finished, and it did not"
        )
    print("pybatsched: " + "\n".join(lines), file=sys.stderr)
    return 5
