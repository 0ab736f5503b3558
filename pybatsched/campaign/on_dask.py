"""Run cells on a Dask cluster: one that is there, or the jobs of `batch_jobs`.

A Dask task sends its cell to a worker process, as on one machine: the process can be killed on a timeout, and its crash
does not end the Dask worker. Each thread of a Dask worker keeps its process for the next cell.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from pybatsched.campaign.cells import Cell
from pybatsched.campaign.workers import DIED, LocalWorkers
from pybatsched.errors import InputError, PeerLostError, quantity

#: How long to wait for the Dask scheduler.
CONNECT_S = 20.0
_LOOK_S: Final = 0.1
#: How often the workers are counted, and jobs that have ended are replaced.
LOOK_AT_WORKERS_S = 5.0
_ANSWER_S: Final = 5.0
_GONE: Final = "lost the Dask scheduler; finished cells are kept: the campaign can be resumed"
_THREAD_STATE: Final = threading.local()
_HAS_RUN: Final = threading.Event()


def run_in_process(cell: Mapping[str, Any], folder: str, timeout_s: float) -> dict[str, Any]:
    """Run a cell in the process of this thread of a Dask worker, and return its result."""
    _HAS_RUN.set()
    workers: LocalWorkers | None = getattr(_THREAD_STATE, "workers", None)
    if workers is None:
        workers = _THREAD_STATE.workers = LocalWorkers(1, lambda _address: folder)
    workers.timeout_s = timeout_s
    workers.folder_of = lambda _address: folder
    return next(result for result in workers.run([Cell(**cell)]) if result is not None)


def dask_setup(worker: Any) -> None:
    """Let cells use the directory of this worker of Dask, which has loaded this module by `--preload`.

    Its pages are closed: they have no authentication.
    """
    worker.http_server.stop()
    os.environ["TMPDIR"] = worker.local_directory
    tempfile.tempdir = None


def dask_teardown(worker: Any) -> None:
    """End this worker of Dask at once, when it is asked to end: other workers run its cells again meanwhile."""
    if _HAS_RUN.is_set():
        shutil.rmtree(worker.local_directory, ignore_errors=True)
        os._exit(0)


class DaskWorkers:
    """Workers of a Dask cluster. They must see the campaign's directory and files under the same paths.

    If a worker dies, Dask gives its cell to another worker; after a few deaths the cell counts as failed.
    """

    def __init__(
        self, address: str, folder_of: Callable[[str], str], timeout_s: float = 0.0, security: Any = None
    ) -> None:
        try:
            from dask.distributed import Client  # noqa: PLC0415  an optional dependency
        except ImportError:
            raise InputError.not_installed("a Dask cluster needs dask.distributed", "cluster") from None
        self._folder_of = folder_of
        self._timeout_s = timeout_s
        self._n_left = 0
        self._n_threads = 0
        self._looked_at = -math.inf
        try:
            self._client = Client(address, timeout=CONNECT_S, security=security)
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
                run_in_process,
                cell.as_dict(),
                self._folder_of(cell.address),
                self._timeout_s,
                key=("cell", cell.address),  # a group of tasks, which Dask gives to workers only when they are free
            ): cell
            for cell in cells
        }
        self._n_left = len(futures)
        coming = as_completed(futures, with_results=True, raise_errors=False)
        while self._n_left:
            if time.monotonic() - self._looked_at > LOOK_AT_WORKERS_S:
                self._looked_at = time.monotonic()
                self._look_at_workers()
            batch = coming.next_batch(block=False)
            if not batch:
                yield None
                time.sleep(_LOOK_S)
            for future, result in batch:
                self._n_left -= 1
                if isinstance(result, dict):  # also if the future has failed: its worker may have died afterwards
                    yield result
                elif future.status == "error":
                    yield {"address": futures[future].address, "error": f"{DIED}{_cause(future.exception())}"}
                else:  # cancelled or lost: the cell did not finish, so no result is kept
                    raise PeerLostError(_GONE)
                future.release()

    def _look_at_workers(self) -> None:
        """Update the number of threads from the scheduler: workers join and leave."""
        with contextlib.suppress(OSError, TimeoutError):  # the futures show whether the scheduler is lost
            self._n_threads = sum(self._client.nthreads(callback_timeout=_ANSWER_S).values())


def _cause(error: Exception) -> str:
    """Return why a cell has failed on Dask, which gives up after some workers have ended."""
    if not hasattr(error, "allowed_failures"):
        return f"{error!r:.300}"
    times = quantity(error.allowed_failures + 1, "time")
    return f"its Dask worker ended {times} while it ran; expected a longer walltime, or more memory"
