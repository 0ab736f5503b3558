"""Run many simulations described in one file, stop and resume them, and put the results into one table."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from pybatsched.campaign import table
from pybatsched.campaign.on_dask import DaskWorkers
from pybatsched.campaign.running import Progress, Workers, run_campaign
from pybatsched.campaign.spec import read_spec
from pybatsched.campaign.store import Store
from pybatsched.campaign.workers import LocalWorkers
from pybatsched.cli import arguments
from pybatsched.cli.arguments import Command
from pybatsched.cli.progress import span
from pybatsched.cli.traces import TRACES
from pybatsched.errors import InputError

EPILOG: Final = """\
examples:
  pybatsched campaign run study.toml --output out/study          all cores of this machine
  pybatsched campaign run study.toml --output out/study --resume after an interruption, whatever it was
  pybatsched campaign run study.toml --dask tcp://head:8786      on a Dask cluster
  pybatsched campaign status out/study
  pybatsched campaign table out/study --by policy,options --format markdown

docs/campaigns.md describes the file.
"""
_RUN: Final = """\
A cell is done once and for all: its address is a digest of all that its result depends on, our own code included.
exit codes: 0 all cells are done; 7 some failed (pybatsched campaign status tells which and why)
"""
_TABLE: Final = """\
examples:
  pybatsched campaign table out/study                                     every point
  pybatsched campaign table out/study --by policy,options --figures wait_s_mean,utilisation
  pybatsched campaign table out/study --format csv > study.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the sub-commands of `campaign` and their options."""
    arguments.add_commands(
        parser,
        (
            Command("run", "Run all cells of a campaign that are not done yet.", _RUN, _run_arguments, _run),
            Command("status", "Tell how far a campaign is, and what failed.", "", _status_arguments, _status),
            Command("table", "Print the results.", _TABLE, _table_arguments, _table),
        ),
    )


run = arguments.run_chosen


# ---------------------------------------------------------------------------------------------------------------- run


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("spec", metavar="SPEC.toml", help="the description of the campaign")
    add("--output", metavar="DIR", help="where results are kept (default out/NAME)")
    add("--resume", action="store_true", help="go on with a campaign that was begun there")
    add("--retry-failed", action="store_true", help="run cells again that failed")
    arguments.add_workers(parser)
    add("--dask", metavar="ADDRESS", help="run on a Dask cluster instead, by its scheduler's address")
    add("--traces", metavar="DIR", help=f"where logs are looked for, too (default: ${TRACES})")
    add("-q", "--quiet", action="store_true", help="print nothing but errors")


def _run(args: argparse.Namespace) -> int:
    spec = read_spec(args.spec)
    folder = args.output or f"out/{spec.name}"
    places = [Path(args.spec).parent, *(Path(place) for place in (args.traces, os.environ.get(TRACES)) if place)]
    arguments.raise_on_signals()
    with Store(folder) as store:
        if store.has_manifest and not args.resume:
            raise InputError(f"{folder}: a campaign was begun there; go on with --resume, or take another --output")
        line = _Line(quiet=args.quiet)

        def crew() -> AbstractContextManager[Workers]:
            if args.dask:
                if spec.timeout_s:
                    arguments.say("timeout_s has no effect on a Dask cluster")
                return DaskWorkers(args.dask, store.run_folder)
            return LocalWorkers(args.workers, store.run_folder, spec.timeout_s)

        try:
            progress = run_campaign(spec, store, places, crew, retry_failed=args.retry_failed, heard=line.heard)
        finally:
            line.end()
    if not args.quiet:
        done = progress.n_before + progress.n_done
        arguments.say(
            f"{done:,} of {progress.n_cells:,} cells done ({progress.n_before:,} before), "
            f"{progress.n_failed:,} failed; results in {folder}"
        )
    return 7 if progress.n_failed else 0


class _Line:
    """One line that tells how far a campaign is, on a terminal; now and then a line elsewhere."""

    _EVERY_S: Final = 0.5
    _ELSEWHERE_S: Final = 30.0

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._began_at = self._told_at = time.monotonic()

    def heard(self, progress: Progress) -> None:
        """Take note of the progress; show it if it is time."""
        now = time.monotonic()
        if self._quiet or now - self._told_at < (self._EVERY_S if self._live else self._ELSEWHERE_S):
            return
        self._told_at = now
        text = self.text(progress, now - self._began_at)
        print(f"\r{text}\x1b[K" if self._live else text, end="" if self._live else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    @staticmethod
    def text(progress: Progress, wall_s: float) -> str:
        """Give the line."""
        n_now = progress.n_done + progress.n_failed_now
        rate = n_now / wall_s if wall_s > 0 else 0.0
        eta = span(progress.n_left / rate) if rate > 0 else "?"
        return (
            f"{progress.n_before + progress.n_done:,} of {progress.n_cells:,} cells done, {progress.n_failed:,} failed,"
            f" {progress.n_running:,} running, {rate:.2f} a second, {eta} left"
        )


# ------------------------------------------------------------------------------------------------------------- status


def _status_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the campaign's directory")


def _status(args: argparse.Namespace) -> int:
    store = Store(args.folder)
    manifest = store.manifest()
    points = {point["address"]: point for point in manifest["points"]}
    results = store.results(points)
    failed = {address: result["error"] for address, result in results.items() if "error" in result}
    n_done = len(results) - len(failed)
    print(f"{manifest['name']}: {len(manifest['points']):,} points, {len(points):,} cells")
    print(f"{n_done:,} done, {len(failed):,} failed, {len(points) - len(results):,} left")
    for address, error in failed.items():
        point = points[address]
        where = f"{point['workload']} {point['platform']} {point['policy']} {point['options']} seed {point['seed']}"
        print(f"failed: {where}: {error.splitlines()[0] if error else 'no word why'}")
    return 7 if failed else 0


# -------------------------------------------------------------------------------------------------------------- table


def _table_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", help="the campaign's directory")
    add("--by", default="", metavar="COLUMNS", help=f"means over groups of points, by some of {', '.join(table.POINT)}")
    add("--figures", default=",".join(table.SHOWN), metavar="NAMES", help="which figures (default: %(default)s; all)")
    add("--format", choices=("text", "csv", "markdown", "latex"), default="text", help="(default %(default)s)")


def _table(args: argparse.Namespace) -> int:
    everything = table.frame(Store(args.folder))
    figures = [name for name in args.figures.split(",") if name]
    if figures == ["all"]:
        figures = [name for name in everything.columns if name not in table.POINT]
    by = [name for name in args.by.split(",") if name]
    if everything.is_empty():
        raise InputError(f"{args.folder}: no cell is done yet")
    print(table.written(table.grouped(everything, by, figures), args.format), end="")
    return 0
