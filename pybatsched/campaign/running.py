"""A campaign from its file to its table: prepare, run what is not done yet, keep it, and say how far it is."""

from __future__ import annotations

import contextlib
import io
import platform as python_platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pybatsched import __version__
from pybatsched.campaign import table
from pybatsched.campaign.cells import Cell, cells_of, code_digest, effective_seed
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.spec import Spec
from pybatsched.campaign.store import Store
from pybatsched.results.atomic_files import whole

if TYPE_CHECKING:
    import polars as pl


class Workers(Protocol):
    """Who runs cells: processes of this machine, or a cluster."""

    @property
    def n_running(self) -> int:
        """How many cells are being worked on."""

    def run(self, cells: Sequence[Cell]) -> Iterator[dict[str, Any] | None]:
        """Run cells and give their results as they come; None now and then while nothing comes."""


@dataclass(slots=True)
class Progress:
    """How far a campaign is. `n_before` were done and `n_failed_before` had failed when it began."""

    n_cells: int
    n_before: int
    n_failed_before: int = 0
    n_done: int = 0
    n_failed_now: int = 0
    n_running: int = 0

    @property
    def n_failed(self) -> int:
        """How many cells have failed in all."""
        return self.n_failed_before + self.n_failed_now

    @property
    def n_left(self) -> int:
        """How many cells are neither done nor failed."""
        return self.n_cells - self.n_before - self.n_done - self.n_failed


def points_of(
    spec: Spec, store: Store, places: Sequence[Path], beside: Path | None = None
) -> list[tuple[dict[str, Any], Cell]]:
    """Prepare all workloads, and give all points of a campaign with the cell that each is.

    Workloads are looked for in `places`, files of platforms and policies in `beside` and in the working directory.
    """
    preparer = Preparer(store.prepared, places)
    prepared = {
        effective: [one for part in spec.workload if part.has(seed) for one in preparer.prepare(part, effective)]
        for effective, seed in sorted(
            (effective_seed(seed, repeat), seed) for seed in spec.seeds for repeat in range(spec.repeats)
        )
    }
    points = []
    for platform, cell in cells_of(spec, prepared, beside):
        point = {
            "address": cell.address,
            "workload": cell.workload,
            "platform": platform.name,
            "policy": cell.label,
            "options": cell.told_options,
            "seed": cell.seed,
            "repeat": cell.repeat,
        }
        points.append((point, cell))
    return points


def run_campaign(
    spec: Spec,
    store: Store,
    places: Sequence[Path],
    workers: Callable[[], contextlib.AbstractContextManager[Workers]],
    *,
    beside: Path | None = None,
    retry_failed: bool = False,
    heard: Callable[[Progress], None] = lambda _progress: None,
    command: str = "",
) -> Progress:
    """Run all cells that are not done yet, and write the table. What is done is never done again.

    The store must be open; `places` and `beside` are as in `points_of`. A cell that fails is kept with its error, and
    the others go on. `command` is kept: what makes the campaign again.
    """
    table.load_polars()  # the workers need it
    points = points_of(spec, store, places, beside)
    store.write_manifest(_manifest(spec, [point for point, _ in points], command))
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
    heard(progress)
    if todo:
        with workers() as crew:
            for result in crew.run(todo):
                if result is not None:
                    _keep(store, result)
                    if "error" in result:
                        progress.n_failed_now += 1
                    else:
                        progress.n_done += 1
                progress.n_running = crew.n_running
                heard(progress)
    _write_parquet(store.folder / "results.parquet", table.frame(store))
    return progress


def _keep(store: Store, result: dict[str, Any]) -> None:
    jobs = result.get("jobs")
    if jobs:
        import polars as pl  # noqa: PLC0415  an extra: only who uses it needs it

        path = store.folder / "jobs" / f"{result['address']}.parquet"
        _write_parquet(path, pl.DataFrame(jobs, infer_schema_length=None))
    store.save(result)


def _write_parquet(path: Path, frame: pl.DataFrame) -> None:
    """Write a table whole or not at all. Raises InputError that names the file: polars does not tell a full disk."""
    content = io.BytesIO()
    frame.write_parquet(content)
    with whole(path) as half:
        half.write_bytes(content.getvalue())  # a view of it, left over by an error, ends Python 3.12 by a fault


def _manifest(spec: Spec, points: list[dict[str, Any]], command: str) -> dict[str, Any]:
    return {
        "name": spec.name,
        **({"command": command} if command else {}),
        "versions": {"pybatsched": __version__, "python": python_platform.python_version(), "code": code_digest()},
        "spec": spec.model_dump(mode="json", by_alias=True),
        "points": points,
    }
