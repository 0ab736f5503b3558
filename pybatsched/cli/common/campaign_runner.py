"""Run the cells of a campaign, for `campaign run` and `reproduce`: workers and the progress line."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from pybatsched.campaign import table
from pybatsched.campaign.all_cells import Progress, Workers, run_campaign
from pybatsched.campaign.batch_jobs import BatchSpec, BatchWorkers
from pybatsched.campaign.on_dask import DaskWorkers
from pybatsched.campaign.spec import Spec
from pybatsched.campaign.store import Store
from pybatsched.campaign.workers import LocalWorkers
from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import span
from pybatsched.errors import InputError, NothingCompletedError, quantity

#: Most lines about losses at the end of a command.
_N_LOSSES: Final = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options for workers and for failed cells."""
    add = parser.add_argument
    add("--retry-failed", action="store_true", help="run failed cells again")
    arguments.add_workers(parser)
    add("--dask", metavar="ADDRESS", help="run on a Dask cluster, given by the address of its scheduler")
    add("-q", "--quiet", action="store_true", help="print nothing but errors and results")
    arguments.add_settings(parser.add_argument_group("jobs of a batch system"), BatchSpec)


def run(
    args: argparse.Namespace,
    spec: Spec,
    store: Store,
    folders: Sequence[Path],
    command: str,
    *,
    beside: Path | None = None,
    source: str = "",
) -> Progress:
    """Run the cells that are not done yet, with a progress line. The store must be open."""
    line = CampaignLine(quiet=args.quiet)
    line.start()
    try:
        return run_campaign(
            spec,
            store,
            folders,
            workers(args, spec, store, line.say),
            spec_folder=beside,
            retry_failed=args.retry_failed,
            on_progress=line.update,
            command=command,
            source=source,
        )
    finally:
        line.end()


def workers(
    args: argparse.Namespace, spec: Spec, store: Store, say: Callable[[str], None] = arguments.say
) -> Callable[[], AbstractContextManager[Workers]]:
    """Return what starts the workers of the options: processes here, a Dask cluster, or jobs of a batch system."""
    given = arguments.given_settings(args, BatchSpec)
    batch = BatchSpec(**given)
    if batch.on:
        if args.dask:
            raise InputError("--dask and --on were both given; expected only one")
        return partial(BatchWorkers, batch, store.run_folder, spec.timeout_s, store.folder, say)
    for name in given:
        raise batch.works_only_with(name, "--on")
    if args.dask:
        return partial(DaskWorkers, args.dask, store.run_folder, spec.timeout_s)
    return partial(LocalWorkers, args.workers, store.run_folder, spec.timeout_s)


def check_same_campaign(store: Store, spec: Spec) -> None:
    """Raise InputError if the directory holds the results of a campaign with another name."""
    if store.has_manifest and store.manifest().get("name") != spec.name:
        raise InputError(
            f"{store.folder}: expected results of {spec.name}, found those of the campaign "
            f"{store.manifest().get('name')!r:.60}; use another --output"
        )


def say_missing(folder: str, n_missing: int) -> None:
    """Print how many points of a campaign are not shown, because they failed or were not run."""
    if n_missing:
        arguments.say(f"{quantity(n_missing, 'point')} not included; pybatsched campaign status {folder} shows why")


def outcome_text(progress: Progress, folder: str) -> str:
    """Return the outcome of a campaign in one line."""
    done = progress.n_before + progress.n_done
    return (
        f"{done:,} of {progress.n_cells:,} cells done ({progress.n_before:,} before), {progress.n_failed:,} failed; "
        f"results in {folder}"
    )


def failures_of(store: Store) -> list[tuple[str, str, str]]:
    """Return the address, the text and the error of each failed cell."""
    points = {point["address"]: point for point in store.manifest()["points"]}
    found = store.results(points)
    return [
        (address, table.cell_text(points[address]), one["error"]) for address, one in found.items() if "error" in one
    ]


def losses_of(store: Store) -> tuple[list[str], int]:
    """Return a line for each loss in the finished cells, and the exit code: 8 if a cell completed no job."""
    points = {point["address"]: point for point in store.manifest()["points"]}
    done = {address: one for address, one in store.results(points).items() if "figures" in one}
    rejected = [n for one in done.values() if (n := one["figures"].get("n_rejected"))]
    n_jobs = sum(one["figures"].get("n_jobs") or 0 for one in done.values())
    of = f"of {quantity(len(done), 'cell')}"
    lines = []
    if rejected:
        lines.append(f"{sum(rejected):,.0f} of {n_jobs:,.0f} jobs rejected, in {len(rejected):,} {of}")
    warned: dict[str, list[str]] = {}
    for address, one in done.items():
        for text in dict.fromkeys(table.warnings_of(one)):
            warned.setdefault(text, []).append(address)
    counted = {table.CUT: f"{sum(one.get('n_cut') or 0 for one in done.values()):,} {table.CUT}"}
    for text, cells in warned.items():
        which = table.cell_text(points[cells[0]]) + (", …" if len(cells) > 1 else "")
        which = f" ({which})" if len(cells) < len(done) else ""
        lines.append(f"warning in {len(cells):,} {of}{which}: {counted.get(text, text)}")
    return lines, NothingCompletedError.exit_code if table.NOTHING_COMPLETED in warned else 0


def say_losses(store: Store) -> int:
    """Print the first failure and losses of a campaign, also with --quiet. Returns the exit code of `losses_of`."""
    lines, code = losses_of(store)
    failures = [f"failed: {cell}: {error.partition(chr(10))[0]}" for _, cell, error in failures_of(store)]
    shown = [*failures[:1], *lines][:_N_LOSSES]
    for line in shown:
        arguments.say(line)
    if n_more := len(failures) + len(lines) - len(shown):
        more = quantity(n_more, "line")
        arguments.say(f"and {more} more; pybatsched campaign status {store.folder} shows all of them")
    return code


class CampaignLine:
    """The progress of a campaign: one line that is updated on a terminal, else a new line every 30 seconds."""

    _EVERY_S: Final = 0.5
    _NO_TERMINAL_S: Final = 30.0

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._started_at = self._shown_at = time.monotonic()

    def start(self) -> None:
        """Show the first line."""
        if self._live:
            print("preparing the workloads ...", end="", file=sys.stderr, flush=True)

    def update(self, progress: Progress) -> None:
        """Show the progress, unless the last line is too recent."""
        now = time.monotonic()
        if self._quiet or now - self._shown_at < (self._EVERY_S if self._live else self._NO_TERMINAL_S):
            return
        self._shown_at = now
        text = self.text(progress, now - self._started_at)
        print(f"\r{text}\x1b[K" if self._live else text, end="" if self._live else "\n", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a message in the place of the line, which is shown again after it."""
        self.end()
        arguments.say(text)

    def end(self) -> None:
        """Remove the line."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    @staticmethod
    def text(progress: Progress, wall_s: float) -> str:
        """Return the text of the line."""
        n_now = progress.n_done + progress.n_failed_now
        rate = n_now / wall_s if wall_s > 0 else 0.0
        eta = span(progress.n_left / rate) if rate > 0 else "?"
        return (
            f"{progress.n_before + progress.n_done:,} of {progress.n_cells:,} cells done, {progress.n_failed:,} failed,"
            f" {progress.n_running:,} running, {rate:.2f} per second, {eta} left"
        )
