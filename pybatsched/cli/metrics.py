"""Print the metrics of runs: of all jobs, by class, or of two runs job by job."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pybatsched.cli.common import arguments, run_end
from pybatsched.metrics.compare.paired import paired
from pybatsched.metrics.distributions import Distribution, distribution
from pybatsched.metrics.figure_names import MEASURES, OF_LOGS, STRETCHES
from pybatsched.metrics.node_use import figures_of_summary
from pybatsched.metrics.saved_runs import SavedRun, common_tau_s, read_latest
from pybatsched.text_table import aligned

_BOUNDED: Final = "bounded_slowdown"
_TAU: Final = "tau_s"
#: The figures of predicted run times in a summary: of the run, and of each user.
_PREDICTIONS: Final = ("mean_prediction_error_s", "share_underestimated")

EPILOG: Final = """\
examples:
  pybatsched metrics out/easy                              every measure over all jobs
  pybatsched metrics out/easy --by user --measure wait_s   one measure by class: kind, size, state, or a job's field
  pybatsched metrics out/easy --measure logged_wait_s --by user      the waits that the log recorded
  pybatsched metrics out/easy --against out/fcfs           job by job: which jobs end earlier or later
  pybatsched metrics out/easy out/fcfs --json

PREFIX is the value of -e: PREFIX_jobs.csv of the embedded simulator or of Batsim is read. docs/metrics.md has the
definitions.
A run that is still running or incomplete is shown with a notice, and the exit code is 7 unless --partial
is given.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `metrics`."""
    add = parser.add_argument
    add("prefixes", nargs="+", metavar="PREFIX", help="a run, by the prefix of its files (the value of -e)")
    add("--by", metavar="CLASS", help="kind, size, state, resource (on nodes), or a field of jobs such as user")
    text = (
        f"with --by or --against: {', '.join(MEASURES)}; {', '.join(STRETCHES)} of jobs with alone_s; "
        f"{', '.join(OF_LOGS)} of jobs of a log; or one of their facts (default %(default)s)"
    )
    add("--measure", default="bounded_slowdown", metavar="NAME", help=text)
    arguments.add_procs(parser)
    arguments.add_own_tau(parser)
    add("--against", metavar="PREFIX", help="compare each run with this one, job by job")
    arguments.add_fields_from(parser)
    run_end.add_partial(parser)
    add("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the tables."""
    runs = {prefix: _read(prefix, args) for prefix in dict.fromkeys(args.prefixes)}
    base = _read(args.against, args) if args.against else None
    run_states = [run.run_state for run in (*runs.values(), *([base] if base is not None else []))]
    tables = {prefix: _table(run, base, args) for prefix, run in runs.items()}
    run_end.introduce(run_states, sys.stderr if args.json else sys.stdout)
    if args.json:
        rows_by_run = {prefix: _notices(runs[prefix]) | rows for prefix, rows in tables.items()}
        print(json.dumps(rows_by_run, indent=1))
    else:
        for prefix, run in {**runs, **({args.against: base} if base is not None else {})}.items():
            if run.left_out_text:
                print(f"{prefix}: {run.left_out_text}")
        for prefix, rows in tables.items():
            if len(tables) > 1:
                print(f"{prefix}:")
            print("\n".join(_lines(rows)))
    run_end.check(run_states, partial=args.partial)
    return 0


def _read(prefix: str, args: argparse.Namespace) -> SavedRun:
    return read_latest(prefix, args.workload, args.procs, newest=args.partial)


def _notices(run: SavedRun) -> dict[str, Mapping[str, Any]]:
    """Return rows with the state of an incomplete run, and with the number of jobs that do not count."""
    rows: dict[str, Mapping[str, Any]] = {}
    if (mark := run.run_state.mark) is not None:
        n_over = run.run_state.n_over
        rows["(run)"] = {"state": mark.state, "is_alive": mark.is_alive, "n_over": n_over, "n_jobs": mark.n_jobs}
    if run.n_left_out:
        rows["left_out"] = {"n": run.n_left_out}
    return rows


def _table(run: SavedRun, base: SavedRun | None, args: argparse.Namespace) -> dict[str, Mapping[str, Any]]:
    """Return rows of numbers by name: of the evaluated jobs, and of the whole machine."""
    jobs = run.evaluated
    jobs.check_measure(args.measure)
    tau_s = common_tau_s([run] if base is None else [base, run], args.tau)
    if base is not None:
        pairs = {name: paired(base.evaluated, jobs, name, tau_s).as_dict() for name in ("flow_s", args.measure)}
        return {name: pair | _tau(name, tau_s) for name, pair in pairs.items()}
    if args.by:
        jobs.check_class(args.by)
        classes = jobs.by_class(args.by)
        found = {name: distribution(members.values(args.measure, tau_s)) for name, members in classes.items()}
        is_fact = args.measure in jobs.facts
        tau = _tau(args.measure, tau_s)
        users = _object(run.summary, "predictions_by_user") if args.by == "user" else {}
        return {
            name: {"jobs": len(classes[name])}
            | _row(statistics, is_fact=is_fact)
            | _quality(users, name)
            | classes[name].use_of_nodes()
            | tau
            for name, statistics in found.items()
        }
    rows: dict[str, Mapping[str, Any]] = {}
    for name in (*jobs.plain_measures, *jobs.measures_of_log):
        rows[name] = (_row(jobs.distribution(name, tau_s)) or {"n": 0}) | _tau(name, tau_s)
    for name in jobs.facts:
        rows[name] = _row(jobs.distribution(name), is_fact=True)
    rows["queue_length"] = {"mean": run.queue_length.mean(*run.span), "max": run.queue_length.maximum}
    rows["utilisation"] = {"mean": run.utilisation()}
    rows["makespan_s"] = {"max": run.jobs.span[1]}
    rows |= {name: {"mean": value} for name, value in figures_of_summary(run.summary).items()}
    rows |= {name: {"mean": value} for name, value in _quality(run.summary, "policy_figures").items()}
    if run.energy is not None:
        rows |= {name: {"total": joules} for name, joules in run.energy.as_dict().items()}
    return rows


def _object(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a member of an object that is itself an object; empty if there is none."""
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _quality(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the figures of predicted run times in a member of an object; empty without predictions."""
    found = _object(values, name)
    return {figure: found[figure] for figure in _PREDICTIONS if figure in found}


def _row(statistics: Distribution | None, *, is_fact: bool = False) -> dict[str, Any]:
    """Return the statistics of a measure by name; for facts also their sum."""
    if statistics is None:
        return {}
    return statistics.as_dict() | ({"total": statistics.total} if is_fact else {})


def _tau(measure: str, tau_s: float) -> dict[str, float]:
    """Return the bound of a measure that has one."""
    return {_TAU: tau_s} if measure == _BOUNDED else {}


def _lines(rows: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    columns = [name for name in dict.fromkeys(name for row in rows.values() for name in row) if name != _TAU]
    bounds = [f"{_BOUNDED} (tau {row[_TAU]:g} s)" for row in rows.values() if _TAU in row]
    is_row = _BOUNDED in rows  # else all rows are classes of it
    table = [(bounds[0] if bounds and not is_row else "", *columns)]
    table += [
        (bounds[0] if name == _BOUNDED else name, *(_shown(row.get(column)) for column in columns))
        for name, row in rows.items()
    ]
    return aligned(table, "lr")


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"  # no powers of ten in a table of seconds
