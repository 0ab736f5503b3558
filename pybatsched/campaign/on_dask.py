"""Run cells on a Dask cluster: a local one, or one that dask-jobqueue started on SLURM or OAR.

A Dask task sends its cell to a worker process, as on one machine: the process can be killed on a timeout, and its crash
does not end the Dask worker. Each thread of a Dask worker keeps its process for the next cell.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from pybatsched.campaign.cells import Cell
from pybatsched.campaign.workers import LocalWorkers
from pybatsched.errors import InputError, PeerLostError

#: How long to wait for the Dask scheduler.
CONNECT_S = 20.0
_LOOK_S: Final = 0.1
_COUNT_THREADS_S: Final = 5.0
_ANSWER_S: Final = 5.0
_GONE: Final = "lost the Dask scheduler; finished cells are kept: the campaign can be resumed"
_THREAD_STATE: Final = threading.local()


def run_in_process(cell: Mapping[str, Any], folder: str, timeout_s: float) -> dict[str, Any]:
    """Run a cell in the process of this thread of a Dask worker, and return its result."""
    workers: LocalWorkers | None = getattr(_THREAD_STATE, "workers", None)
    if workers is None:
        workers = _THREAD_STATE.workers = LocalWorkers(1, lambda _address: folder)
    workers.timeout_s = timeout_s
    workers.folder_of = lambda _address: folder
    return next(result for result in workers.run([Cell(**cell)]) if result is not None)


class DaskWorkers:
    """Workers of a Dask cluster. They must see the campaign's directory and files under the same paths.

    If a worker dies, Dask gives its cell to another worker; after a few deaths the cell counts as failed.
    """

    def __init__(self, address: str, folder_of: Callable[[str], str], timeout_s: float = 0.0) -> None:
        try:
            from dask.distributed import Client  # noqa: PLC0415  an optional dependency
        except ImportError:
            raise InputError.not_installed("a Dask cluster needs dask.distributed", "cluster") from None
        self._folder_of = folder_of
        self._timeout_s = timeout_s
        self._n_left = 0
        self._n_threads = 0
        self._counted_at = -_COUNT_THREADS_S
        try:
            self._client = Client(address, timeout=CONNECT_S)
        except (OSError, ValueError, TypeError) as error:
            raise PeerLostError(f"{address}: no Dask scheduler answers at this address: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @property
    def n_running(self) -> int:
        """The number of running cells: at most the number of worker threads."""
        return min(self._n_left, self._n_threads)

    def run(self, cells: Sequence[Cell]) -> Iterator[dict[str, Any] | None]:
        """Run cells and yield their results as they finish; yields None from time to time while there are none."""
        from dask.distributed import as_completed  # noqa: PLC0415  an optional dependency

        futures = {
            self._client.submit(
                run_in_process, cell.as_dict(), self._folder_of(cell.address), self._timeout_s, key=cell.address
            ): cell
            for cell in cells
        }
        self._n_left = len(futures)
        coming = as_completed(futures, with_results=True, raise_errors=False)
        while self._n_left:
            batch = coming.next_batch(block=False)
            if not batch:
                self._count_threads()
                yield None
                time.sleep(_LOOK_S)
            for future, result in batch:
                self._n_left -= 1
                if isinstance(result, dict):  # also if the future has failed: its worker may have died afterwards
                    yield result
                elif future.status == "error":
                    yield {"address": futures[future].address, "error": f"WorkerDied: {result!r:.300}"}
                else:  # cancelled or lost: the cell did not finish, so no result is kept
                    raise PeerLostError(_GONE)
                future.release()

    def _count_threads(self) -> None:
        """Update the number of threads from the scheduler, every few seconds: workers join and leave."""
        now = time.monotonic()
        if now - self._counted_at < _COUNT_THREADS_S:
            return
        self._counted_at = now
        with contextlib.suppress(OSError, TimeoutError):  # the futures show whether the scheduler is lost
            self._n_threads = sum(self._client.nthreads(callback_timeout=_ANSWER_S).values())
