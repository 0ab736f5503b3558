"""The end of a run: final file names, the closing table and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from pybatsched.cli.common import arguments, process
from pybatsched.core.instants import seconds_text
from pybatsched.errors import BrokenPromiseError, NothingCompletedError, UnfinishedError, quantity
from pybatsched.metrics import summary
from pybatsched.results import run_state
from pybatsched.results.run_state import RunState
from pybatsched.results.writing import Results


def add_partial(parser: arguments.Group) -> None:
    """Describe the option for runs that are not finished."""
    text = "show the last run even if it is incomplete (default: the last complete run, else exit code 7)"
    parser.add_argument("--partial", action="store_true", help=text)


def introduce(standings: Iterable[RunState], file: TextIO | None = None) -> None:
    """Print which of these runs are incomplete, and on standard error which are not the last run of their prefix."""
    for standing in {one.prefix: one for one in standings}.values():
        if standing.notice:
            print(f"{standing.prefix}: {standing.notice}", file=file or sys.stdout)
        if standing.reason:
            print(f"  {standing.reason}", file=file or sys.stdout)
        if standing.remark:
            arguments.say(f"{standing.prefix}: {standing.remark}")


def check(standings: Iterable[RunState], *, partial: bool) -> None:
    """Raise BrokenPromiseError if one of these runs is incomplete, unless `partial` is set."""
    each = {one.prefix: one for one in standings}.values()
    broken = [f"{one.prefix}: {one.notice}" for one in each if one.mark is not None]
    if broken and not partial:
        raise BrokenPromiseError(f"{'; '.join(broken)} (expected complete runs, or --partial)")


#: Maximum number of jobs or promises that are listed.
N_SHOWN: Final = 20
#: Why a run has not ended although all its jobs have.
NOT_CLOSED: Final = (
    "all jobs are done, but the scheduler did not send registration_finished, which --enable-dynamic-jobs requires"
)


@contextmanager
def keep_files(results: Results) -> Iterator[Results]:
    """Keep the files of a run. If it does not finish, print which files there are."""
    try:
        with results:
            yield results
    except BaseException as error:
        is_kept = results.state is run_state.State.INTERRUPTED or results.has_part_files
        if is_kept and results.state in {run_state.State.INTERRUPTED, run_state.State.FAILED}:
            earlier = Path(f"{results.prefix}{run_state.JOBS}").exists()
            where = (
                f"{results.describe()}; its files are {results.part}_*"
                + (f", the results of an earlier run stay in {results.prefix}_*" if earlier else "")
                + f" (pybatsched metrics {results.prefix} --partial)"
            )
            if results.state is run_state.State.INTERRUPTED:
                error.add_note(where)  # printed in one line with the signal
            else:
                arguments.say(where)
        raise


def put_in_place(results: Results, about: Mapping[str, Any], *, quiet: bool) -> None:
    """Write the summary and rename the files of a finished run. Print a note if they replace another run."""
    earlier = None if quiet else _summary_in_place(results.prefix)
    summary.write(f"{results.part}{run_state.SUMMARY}", about)
    with process.signals_ignored():
        results.finish()
    if earlier is not None and (different := _different(earlier, about)):
        arguments.say(
            f"{results.prefix}: replaced the results of {_named(earlier)} with those of {_named(about)} "
            f"(different: {', '.join(different)})"
        )


def _summary_in_place(prefix: str) -> Mapping[str, Any] | None:
    """Read the summary of the last finished run; None if it is missing or cannot be read."""
    try:
        content = json.loads(Path(f"{prefix}{run_state.SUMMARY}").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.get("format") == summary.FORMAT else None


def _different(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return what differs between the summaries of two runs."""
    from pybatsched.metrics.compare import comparison  # noqa: PLC0415  only if a run is replaced

    (name, options), (other_name, other_options) = _policy(before), _policy(after)
    different = ["policy"] if name != other_name else ["options"] * (options != other_options)
    different += comparison.different_inputs(comparison.inputs_of(before), comparison.inputs_of(after))
    different += ["processors"] * (before.get("n_procs") != after.get("n_procs"))
    return different + ["cut_at"] * (before.get("cut_at") != after.get("cut_at"))


def _policy(about: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of a run's policy, or an empty text, and its options as text."""
    policy = about.get("policy")
    return (str(policy.get("name")), json.dumps(policy.get("options"))) if isinstance(policy, dict) else ("", "")


def _named(about: Mapping[str, Any]) -> str:
    """Return a description of a run: its policy and its workloads."""
    inputs, (name, _) = about.get("inputs"), _policy(about)
    found = inputs.get("workloads") if isinstance(inputs, Mapping) else None
    files = [str(one.get("file")) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    scheduler = f"policy {name}" if name else "an external scheduler"
    return f"{scheduler} on {', '.join(files)}" if files else scheduler


def print_result(result: summary.Result, *, quiet: bool, dynamic_jobs: bool) -> int:
    """Print the closing table, and unfinished jobs on standard error. Returns the exit code: 0, 5, 7 or 8."""
    if not quiet:
        print("\n".join(summary.closing_table(result)))
        for remark in result.remarks:
            arguments.say(remark)
    if result.broken_promises:
        print("pybatsched: " + "\n".join(broken(result.broken_promises)), file=sys.stderr)
    if result.finished:
        if why := summary.nothing_completed(result.figures.n_by_state):
            print(f"pybatsched: {why}", file=sys.stderr)
            return NothingCompletedError.exit_code
        return BrokenPromiseError.exit_code if result.broken_promises else 0
    n = len(result.stuck)
    stopped = f"the simulation stopped at {seconds_text(result.ended_at)} with {quantity(n, 'job')} unfinished"
    lines = [f"{stopped}: there are no more events"]
    if result.cut_at is not None:
        lines = [f"{stopped} and {result.n_to_come} still to come: {result.stopped} (--stop-at)"]
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
    """Return one line for each broken promise of a policy, at most `N_SHOWN`."""
    lines = [f"the policy broke {len(promises)} of its promises"]
    lines += [f"  {promise}" for promise in promises[:N_SHOWN]]
    if len(promises) > N_SHOWN:
        lines.append(f"  and {len(promises) - N_SHOWN} more")
    return lines
