"""Run a campaign: prepare workloads, run the cells that are not done yet, store results, and report progress."""

from __future__ import annotations

import contextlib
import io
import platform as python_platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pybatsched.campaign import table
from pybatsched.campaign.cells import (
    Cell,
    PreparedWorkloads,
    cells_of,
    code_digest,
    effective_seed,
    hosts_of,
)
from pybatsched.campaign.keys import as_key
from pybatsched.campaign.prepare import Prepared, Preparer
from pybatsched.campaign.spec import Spec
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.results.atomic_files import whole
from pybatsched.version import __version__

if TYPE_CHECKING:
    import polars as pl


class Workers(Protocol):
    """Workers that run cells: processes of this machine, or a cluster."""

    @property
    def n_running(self) -> int:
        """The number of running cells."""

    def run(self, cells: Sequence[Cell]) -> Iterator[dict[str, Any] | None]:
        """Run cells and yield their results as they finish; yields None from time to time while there are none."""


@dataclass(slots=True)
class Progress:
    """The progress of a campaign. `n_before` cells were done and `n_failed_before` had failed at its start."""

    n_cells: int
    n_before: int
    n_failed_before: int = 0
    n_done: int = 0
    n_failed_now: int = 0
    n_running: int = 0

    @property
    def n_failed(self) -> int:
        """The number of failed cells, of this and earlier runs."""
        return self.n_failed_before + self.n_failed_now

    @property
    def n_left(self) -> int:
        """The number of cells that are neither done nor failed."""
        return self.n_cells - self.n_before - self.n_done - self.n_failed


def points_of(
    spec: Spec, store: Store, folders: Sequence[Path], spec_folder: Path | None = None
) -> list[tuple[dict[str, Any], Cell]]:
    """Prepare all workloads, searched for in `folders`, and return all points of a campaign with their cells."""
    return points_in(spec, prepared_of(spec, store, folders, spec_folder), spec_folder)


def prepared_of(
    spec: Spec, store: Store, folders: Sequence[Path], spec_folder: Path | None = None
) -> dict[tuple[int, str], list[Prepared]]:
    """Prepare all workloads of a campaign, and return them by effective seed and name of the platform."""
    preparer = Preparer(store.prepared, folders)
    machines = hosts_of(spec, spec_folder)
    seeds = sorted((effective_seed(seed, repeat), seed) for seed in spec.seeds for repeat in range(spec.repeats))
    return {
        (effective, name): [
            one for part in spec.workload if part.has(seed) for one in preparer.prepare(part, effective, machine)
        ]
        for effective, seed in seeds
        for name, machine in machines.items()
    }


def points_in(
    spec: Spec, prepared: PreparedWorkloads, spec_folder: Path | None = None
) -> list[tuple[dict[str, Any], Cell]]:
    """Return all points of a campaign with their cells, given its prepared workloads."""
    points = []
    for platform, cell in cells_of(spec, prepared, spec_folder):
        point = {name: getattr(cell, name) for name in ("address", "options", "seed", "repeat")}
        names = {"workload": cell.workload["name"], "platform": platform.name, "policy": cell.policy["label"]}
        points.append((point | names, cell))
    return points


def run_campaign(
    spec: Spec,
    store: Store,
    folders: Sequence[Path],
    workers: Callable[[], contextlib.AbstractContextManager[Workers]],
    *,
    spec_folder: Path | None = None,
    retry_failed: bool = False,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
    command: str = "",
    source: str = "",
) -> Progress:
    """Run all cells that are not done yet, and write the table.

    The store must be open; `folders` and `spec_folder` are as in `points_of`. A failed cell is kept with its error, and
    the others continue. The manifest keeps `command`, which repeats the campaign. Errors in the description of the
    campaign name its file, `source`.
    """
    try:
        points = points_of(spec, store, folders, spec_folder)
    except InputError as error:
        text = error.spelled(as_key)
        raise InputError(f"{source}: {text}" if source else text) from None
    store.write_manifest(manifest_of(spec, [point for point, _ in points], command))
    cells = {cell.address: cell for _, cell in points}
    known = {
        address: result
        for address, result in store.results(cells).items()
        if not spec.baseline or "error" in result or store.has_ends(address)
    }
    failed = {address for address, result in known.items() if "error" in result}
    todo = [cell for address, cell in cells.items() if address not in known or (retry_failed and address in failed)]
    n_failed_before = 0 if retry_failed else len(failed)
    progress = Progress(len(cells), len(cells) - len(todo) - n_failed_before, n_failed_before)
    on_progress(progress)
    if todo:
        with workers() as active:
            for result in active.run(todo):
                if result is not None:
                    keep_result(store, result)
                    if "error" in result:
                        progress.n_failed_now += 1
                    else:
                        progress.n_done += 1
                progress.n_running = active.n_running
                on_progress(progress)
    write_parquet(store.folder / "results.parquet", table.frame(store))
    return progress


def keep_result(store: Store, result: dict[str, Any]) -> None:
    """Store the result of a cell, with the table of its jobs if there is one."""
    jobs = result.get("jobs")
    if jobs:
        import polars as pl  # noqa: PLC0415  slow to import

        from pybatsched.campaign.one_cell import KEPT_FIELDS  # noqa: PLC0415

        path = store.folder / "jobs" / f"{result['address']}.parquet"
        write_parquet(path, pl.DataFrame(jobs, infer_schema_length=None, schema_overrides=KEPT_FIELDS))
    store.save(result)


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    """Write a table atomically. Raises InputError that names the file: polars does not report a full disk."""
    content = io.BytesIO()
    frame.write_parquet(content)
    with whole(path) as half:
        half.write_bytes(content.getvalue())  # a view that an error leaves behind crashes Python 3.12


def manifest_of(spec: Spec, points: list[dict[str, Any]], command: str) -> dict[str, Any]:
    """Return the content of a manifest."""
    return {
        "name": spec.name,
        **({"command": command} if command else {}),
        "versions": {"pybatsched": __version__, "python": python_platform.python_version(), "code": code_digest()},
        "spec": {"tau_s": spec.run.tau_s, **spec.model_dump(mode="json", by_alias=True)},
        "points": points,
    }
