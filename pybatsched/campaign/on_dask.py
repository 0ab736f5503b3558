"""The same cells on a Dask cluster: a local one, or one that dask-jobqueue started on SLURM or OAR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from pybatsched.campaign.cells import Cell
from pybatsched.campaign.execute import tried
from pybatsched.errors import InputError, PeerLostError


class DaskWorkers:
    """Workers of a Dask cluster. They must see the campaign's directory under the same name, for the workloads.

    Dask gives a cell whose worker died to another one; after a few deaths it counts as failed.
    """

    def __init__(self, address: str, folder_of: Callable[[str], str]) -> None:
        try:
            from dask.distributed import Client  # noqa: PLC0415  an extra: only who uses it needs it
        except ImportError:
            raise InputError("--dask: expected dask.distributed; pip install 'pybatsched[cluster]'") from None
        self._folder_of = folder_of
        self.n_running = 0
        try:
            self._client = Client(address, timeout=20)
        except (OSError, ValueError, TypeError) as error:
            raise PeerLostError(f"--dask {address}: no scheduler answers there: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def run(self, cells: Sequence[Cell]) -> Iterator[dict[str, Any] | None]:
        """Run cells and give their results as they come."""
        from dask.distributed import as_completed  # noqa: PLC0415  see above

        futures = {
            self._client.submit(tried, cell.as_dict(), self._folder_of(cell.address), key=cell.address): cell
            for cell in cells
        }
        self.n_running = len(futures)
        for future, result in as_completed(futures, with_results=True, raise_errors=False):
            self.n_running -= 1
            if future.status == "finished":
                yield result
            elif future.status == "error":
                yield {"address": futures[future].address, "error": f"WorkerDied: {result!r:.300}"}
            else:  # cancelled or lost: it was never run to an end, so nothing is kept of it
                raise PeerLostError("the Dask scheduler is gone; what is done is kept, go on with --resume")
            future.release()
