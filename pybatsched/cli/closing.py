"""The end of a run: its files in their places, the closing table, and the exit code that goes with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pybatsched.cli import arguments, signals
from pybatsched.core.instants import seconds_text
from pybatsched.errors import BrokenPromiseError, UnfinishedError, quantity
from pybatsched.metrics import summary
from pybatsched.results import marks
from pybatsched.results.writing import Results

#: How many of a kind are told.
N_SHOWN: Final = 20
#: Why a run is not over although its jobs are.
NOT_CLOSED: Final = (
    "all jobs are over, but with --enable-dynamic-jobs the scheduler has to say registration_finished, and it did not"
)


@contextmanager
def kept(results: Results) -> Iterator[Results]:
    """Keep the files of a run; if it breaks off, say where there is what of it."""
    try:
        with results:
            yield results
    except BaseException as error:
        if results.state in {marks.State.INTERRUPTED, marks.State.FAILED}:
            earlier = Path(f"{results.prefix}{marks.JOBS}").exists()
            where = (
                f"{results.told()}; its files are {results.part}_*"
                + (f", the results of an earlier run stay in {results.prefix}_*" if earlier else "")
                + f" (pybatsched metrics {results.prefix} --partial)"
            )
            if results.state is marks.State.INTERRUPTED:
                error.add_note(where)  # which comes with the one line that tells of the signal
            else:
                arguments.say(where)
        raise


def put_in_place(results: Results, about: Mapping[str, Any]) -> None:
    """Write the summary, and put all files of a run that is over in their places."""
    summary.write(f"{results.part}{marks.SUMMARY}", about)
    with signals.undisturbed():
        results.finish()


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
    stopped = f"the simulation stopped at {seconds_text(result.ended_at)} with {quantity(n, 'job')} unfinished"
    lines = [f"{stopped}: nothing can happen any more"]
    if result.cut_at is not None:
        lines = [f"{stopped} and {result.n_to_come} still to come: {result.stopped} (--until-time)"]
    elif result.stopped:
        lines = [f"{stopped}: {result.stopped}"]
    lines += [
        f"  {job.job_id} ({quantity(job.n_procs, 'processor')}, submitted at {seconds_text(job.submitted_at)}): "
        f"{job.why}"
        for job in result.stuck[:N_SHOWN]
    ]
    if n > N_SHOWN:
        lines.append(f"  and {n - N_SHOWN} more (all of them in the summary)")
    if not n and dynamic_jobs and not result.stopped:
        lines[0] = f"the simulation stopped at {seconds_text(result.ended_at)}: {NOT_CLOSED}"
    print("pybatsched: " + "\n".join(lines), file=sys.stderr)
    return UnfinishedError.exit_code


def broken(promises: Sequence[str]) -> list[str]:
    """Tell the promises of a policy that did not hold, a line each, and not too many."""
    lines = [f"the policy broke {len(promises)} of its promises"]
    lines += [f"  {promise}" for promise in promises[:N_SHOWN]]
    if len(promises) > N_SHOWN:
        lines.append(f"  and {len(promises) - N_SHOWN} more")
    return lines
