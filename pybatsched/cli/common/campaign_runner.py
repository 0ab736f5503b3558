"""Running the cells of a campaign, as `campaign run` and `reproduce` do: who works, and what is shown meanwhile."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from pybatsched.campaign.on_dask import DaskWorkers
from pybatsched.campaign.running import Progress, Workers, run_campaign
from pybatsched.campaign.spec import Spec
from pybatsched.campaign.store import Store
from pybatsched.campaign.workers import LocalWorkers
from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import CLEARED, span
from pybatsched.errors import InputError, quantity


def add_arguments(parser: arguments.Group) -> None:
    """Describe the options that say who runs cells, and which of them."""
    add = parser.add_argument
    add("--retry-failed", action="store_true", help="run cells again that failed")
    arguments.add_workers(parser)
    add("--dask", metavar="ADDRESS", help="run on a Dask cluster instead, by its scheduler's address")
    add("-q", "--quiet", action="store_true", help="print nothing but errors and results")


def run(
    args: argparse.Namespace,
    spec: Spec,
    store: Store,
    places: Sequence[Path],
    command: str,
    *,
    beside: Path | None = None,
) -> Progress:
    """Run what is not done yet, with a line that tells how far it is. The store must be open.

    `command` is what makes the campaign again, which its page tells.
    """
    line = CampaignLine(quiet=args.quiet)

    def workers() -> AbstractContextManager[Workers]:
        if args.dask:
            return DaskWorkers(args.dask, store.run_folder, spec.timeout_s)
        return LocalWorkers(args.workers, store.run_folder, spec.timeout_s)

    line.begin()
    try:
        return run_campaign(
            spec,
            store,
            places,
            workers,
            spec_folder=beside,
            retry_failed=args.retry_failed,
            on_progress=line.heard,
            command=command,
        )
    finally:
        line.end()


def refuse_another(store: Store, spec: Spec) -> None:
    """Raise InputError if the directory holds the results of a campaign with another name."""
    if store.has_manifest and store.manifest().get("name") != spec.name:
        raise InputError(
            f"{store.folder}: expected results of {spec.name}, found those of the campaign "
            f"{store.manifest().get('name')!r:.60}; take another --output"
        )


def say_missing(folder: str, n_missing: int) -> None:
    """Say how many points of a campaign are not shown, because they failed or were not run."""
    if n_missing:
        arguments.say(f"not in it: {quantity(n_missing, 'point')}; pybatsched campaign status {folder} tells why")


def told(progress: Progress, folder: str) -> str:
    """Say how it went, in a line."""
    done = progress.n_before + progress.n_done
    return (
        f"{done:,} of {progress.n_cells:,} cells done ({progress.n_before:,} before), {progress.n_failed:,} failed; "
        f"results in {folder}"
    )


class CampaignLine:
    """One line that tells how far a campaign is, on a terminal; now and then a line elsewhere."""

    _EVERY_S: Final = 0.5
    _ELSEWHERE_S: Final = 30.0

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._began_at = self._told_at = time.monotonic()

    def begin(self) -> None:
        """Say what comes first."""
        if self._live:
            print("making the workloads ready ...", end="", file=sys.stderr, flush=True)

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
            print(CLEARED, end="", file=sys.stderr, flush=True)

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
