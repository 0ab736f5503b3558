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
from pybatsched.metrics.runs import Run, common_tau_s, read_what_is_there
from pybatsched.report.provenance import labels_of
from pybatsched.results.run_state import RunState
from pybatsched.workload.formats.conversion import gc_paused
from pybatsched.workload.formats.files import write_text

EPILOG: Final = """\
examples:
  pybatsched report out/easy                                  one run: table, Gantt chart, use and queue over time, …
  pybatsched report out/fcfs out/easy --output both.html      side by side, and job by job
  pybatsched report out/fcfs out/easy --label FCFS --label EASY    … by names of your own
  pybatsched report out/easy --journal run.pbj                hovering over a job tells its story (out/easy.pbj, and
                                                              where simulate has put it, are found by themselves)
  pybatsched report out/backfilling                           a campaign: means, and box plots by parameter

The page holds everything and loads nothing: open it without a network, send it by mail. It needs Bokeh:
pip install 'pybatsched[report]'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `report`."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="PREFIX|DIR", help="runs, by the begin of their files' names; or one campaign")
    add("--output", default="report.html", metavar="FILE", help="the page to write (default %(default)s)")
    add("--label", action="append", default=[], metavar="NAME", help="what the first run, second run, … is called")
    add("--journal", action="append", default=[], metavar="FILE", help="journal of the first run, second run, …")
    arguments.add_fields_from(parser)
    arguments.add_procs(parser)
    add(
        "--baseline",
        default="",
        metavar="POLICY",
        help="of a campaign: compare with this policy (default: the baseline in its file, else its first policy)",
    )
    arguments.add_own_tau(parser)
    run_end.add_partial(parser)


def run(args: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    with gc_paused():
        return _write(args, *_pages())


def _write(args: argparse.Namespace, of_runs: Callable[..., str], of_campaign: Callable[[str, str], str]) -> int:
    standings: list[RunState] = []
    if len(args.runs) == 1 and (Path(args.runs[0]) / "manifest.json").exists():
        if args.label:
            raise InputError("--label: expected with runs; the policies of a campaign have labels in its file")
        arguments.refuse_to_overwrite(args.output, Store(args.runs[0]).files_read())
        text = of_campaign(args.runs[0], args.baseline)
    else:
        runs = _read(args)
        arguments.refuse_to_overwrite_runs(args.output, runs, [*args.workload, *args.journal])
        standings = [run.standing for run in runs]
        run_end.introduce(standings)
        text = of_runs(runs, args.journal, common_tau_s(runs, args.tau))
    # A byte of a file's name that is no UTF-8 is half a character, which no page can hold.
    write_text(args.output, [text.encode("utf-8", "backslashreplace").decode()])
    print(f"{args.output}: {len(text) / 1e6:.1f} MB")
    run_end.check(standings, partial=args.partial)
    return 0


def _read(args: argparse.Namespace) -> list[Run]:
    """Read the runs, each with its label."""
    if args.baseline:
        raise InputError("--baseline: expected with a campaign; runs are compared with the first one")
    if len(args.journal) > len(args.runs):
        raise InputError(f"--journal: {quantity(len(args.journal), 'journal')} for {quantity(len(args.runs), 'run')}")
    labels = labels_of(args.runs, args.label)
    with doing(f"reading {', '.join(args.runs)}"):
        read = partial(read_what_is_there, newest=args.partial, all_fields=False)
        runs = [read(prefix, args.workload, args.procs) for prefix in args.runs]
    return [replace(run, name=label) for run, label in zip(runs, labels, strict=True)]


def _pages() -> tuple[Callable[..., str], Callable[[str, str], str]]:
    """Bring the part that needs Bokeh, which is an extra."""
    try:
        from pybatsched.report import page  # noqa: PLC0415  see above
        from pybatsched.report.run import job_history  # noqa: PLC0415  see above
    except ImportError as error:
        raise InputError(f"reports need {error.name}; pip install 'pybatsched[report]'") from None

    def of_runs(runs: Sequence[Run], journals: Sequence[str], tau_s: float) -> str:
        told = []
        for run, journal in zip(runs, [*journals, *[""] * (len(runs) - len(journals))], strict=True):
            with doing(f"reading the journal of {run.label}"):
                told.append(job_history.tell(run, journal))
        with doing("drawing the page"):
            return page.of_runs(runs, told, tau_s)

    return of_runs, lambda folder, baseline: page.of_campaign(Store(folder), baseline)
