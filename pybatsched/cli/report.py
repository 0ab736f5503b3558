"""Write one self-contained HTML page about runs, or about a campaign."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from pybatsched.campaign.store import Store
from pybatsched.cli.common import arguments, run_end
from pybatsched.cli.common.progress import doing
from pybatsched.errors import InputError, quantity
from pybatsched.metrics.saved_runs import SavedRun, common_tau_s, read_latest
from pybatsched.report.provenance import labels_of
from pybatsched.results.run_state import RunState
from pybatsched.workload.formats.conversion import gc_paused
from pybatsched.workload.formats.files import write_text

EPILOG: Final = """\
examples:
  pybatsched report out/easy                                  one run: table, Gantt chart, use and queue over time, …
  pybatsched report out/fcfs out/easy --output both.html      side by side, and job by job
  pybatsched report out/fcfs out/easy --label FCFS --label EASY    … with your own names
  pybatsched report out/easy --journal run.pbj                tooltips show the history of a job (out/easy.pbj and
                                                              the journal of simulate are found without the option)
  pybatsched report out/backfilling                           a campaign: means, and box plots by parameter

The page is one self-contained file that needs no network. Needs matplotlib: pip install '.[report]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `report`."""
    add = parser.add_argument
    arguments.add_runs(parser)
    add("--output", default="report.html", metavar="FILE", help="the page to write (default %(default)s)")
    add("--label", action="append", default=[], metavar="NAME", help="label of the first run, second run, …")
    add("--journal", action="append", default=[], metavar="FILE", help="journal of the first run, second run, …")
    arguments.add_fields_from(parser)
    arguments.add_procs(parser)
    arguments.add_baseline(parser)
    arguments.add_own_tau(parser)
    run_end.add_partial(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    with gc_paused():
        return _write(args, *_pages())


def _write(args: argparse.Namespace, of_runs: Callable[..., str], of_campaign: Callable[[str, str], str]) -> int:
    run_states: list[RunState] = []
    if len(args.runs) == 1 and (Path(args.runs[0]) / "manifest.json").exists():
        if args.label:
            raise InputError("--label: works only with runs; the policies of a campaign have labels in its file")
        arguments.refuse_to_overwrite(args.output, Store(args.runs[0]).files_read())
        text = of_campaign(args.runs[0], args.baseline)
    else:
        runs = _read(args)
        arguments.refuse_to_overwrite_runs(args.output, runs, [*args.workload, *args.journal])
        run_states = [run.run_state for run in runs]
        run_end.introduce(run_states)
        text = of_runs(runs, args.journal, common_tau_s(runs, args.tau))
    # A byte of a file name that is not UTF-8 is half a surrogate pair, which a page cannot contain.
    write_text(args.output, [text.encode("utf-8", "backslashreplace").decode()])
    print(f"{args.output}: {len(text) / 1e6:.1f} MB")
    run_end.check(run_states, partial=args.partial)
    return 0


def _read(args: argparse.Namespace) -> list[SavedRun]:
    """Read the runs, each with its label."""
    if args.baseline:
        raise InputError("--baseline: works only with a campaign; of several runs, the first one is the baseline")
    if len(args.journal) > len(args.runs):
        found = f"{quantity(len(args.journal), 'journal')} for {quantity(len(args.runs), 'run')}"
        raise InputError(f"--journal: {found}; expected at most one journal per run")
    labels = labels_of(args.runs, args.label)
    with doing(f"reading {', '.join(args.runs)}"):
        read = partial(read_latest, newest=args.partial, all_fields=False)
        runs = [read(prefix, args.workload, args.procs) for prefix in args.runs]
    return [replace(run, name=label) for run, label in zip(runs, labels, strict=True)]


def _pages() -> tuple[Callable[..., str], Callable[[str, str], str]]:
    """Import the modules that need matplotlib, an optional dependency."""
    try:
        from pybatsched.report import page  # noqa: PLC0415  see above
        from pybatsched.report.run import job_history  # noqa: PLC0415  see above
    except ImportError as error:
        raise InputError.not_installed(f"reports need {error.name}", "report") from None

    def of_runs(runs: Sequence[SavedRun], journals: Sequence[str], tau_s: float) -> str:
        histories = []
        for run, journal in zip(runs, [*journals, *[""] * (len(runs) - len(journals))], strict=True):
            with doing(f"reading the journal of {run.label}"):
                histories.append(job_history.read_histories(run, journal))
        with doing("drawing the page"):
            return page.of_runs(runs, histories, tau_s)

    return of_runs, lambda folder, baseline: page.of_campaign(Store(folder), baseline)
