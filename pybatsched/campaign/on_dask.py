"""The same cells on a Dask cluster: a local one, or one that dask-jobqueue started on SLURM or OAR.

A task of Dask hands its cell to a worker process of ours, as on one machine: it can be ended when its time is up, and
one that crashes takes no worker of Dask with it. Each thread of a Dask worker keeps its process for the next cell.
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

_LOOK_S: Final = 0.1
_COUNT_THREADS_S: Final = 5.0
_ANSWER_S: Final = 5.0
_GONE: Final = "the Dask scheduler is gone; what is done is kept, go on with --resume (reproduce does so by itself)"
_OF_THREAD: Final = threading.local()


def watched(cell: Mapping[str, Any], folder: str, timeout_s: float) -> dict[str, Any]:
    """Run a cell in a process of this thread of a Dask worker, and give what it came to."""
    crew: LocalWorkers | None = getattr(_OF_THREAD, "crew", None)
    if crew is None:
        crew = _OF_THREAD.crew = LocalWorkers(1, lambda _address: folder)
    crew.timeout_s = timeout_s
    crew.folder_of = lambda _address: folder
    return next(result for result in crew.run([Cell(**cell)]) if result is not None)


class DaskWorkers:
    """Workers of a Dask cluster. They must see the campaign's directory and files under the same names.

    Dask gives a cell whose worker died to another one; after a few deaths it counts as failed.
    """

    def __init__(self, address: str, folder_of: Callable[[str], str], timeout_s: float = 0.0) -> None:
        try:
            from dask.distributed import Client  # noqa: PLC0415  an extra: only who uses it needs it
        except ImportError:
            raise InputError("--dask: expected dask.distributed; pip install 'pybatsched[cluster]'") from None
        self._folder_of = folder_of
        self._timeout_s = timeout_s
        self._n_left = 0
        self._n_threads = 0
        self._counted_at = -_COUNT_THREADS_S
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

    @property
    def n_running(self) -> int:
        """How many cells are being worked on: no more than there are threads of workers."""
        return min(self._n_left, self._n_threads)

    def run(self, cells: Sequence[Cell]) -> Iterator[dict[str, Any] | None]:
        """Run cells and give their results as they come; None now and then while nothing comes."""
        from dask.distributed import as_completed  # noqa: PLC0415  see above

        futures = {
            self._client.submit(
                watched, cell.as_dict(), self._folder_of(cell.address), self._timeout_s, key=cell.address
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
                if isinstance(result, dict):  # whatever the future says: its worker may have died since
                    yield result
                elif future.status == "error":
                    yield {"address": futures[future].address, "error": f"WorkerDied: {result!r:.300}"}
                else:  # cancelled or lost: it was never run to an end, so nothing is kept of it
                    raise PeerLostError(_GONE)
                future.release()

    def _count_threads(self) -> None:
        """Ask the scheduler now and then how many threads there are; workers come and go."""
        now = time.monotonic()
        if now - self._counted_at < _COUNT_THREADS_S:
            return
        self._counted_at = now
        with contextlib.suppress(OSError, TimeoutError):  # whether it is gone for good is told by the futures
            self._n_threads = sum(self._client.nthreads(callback_timeout=_ANSWER_S).values())
