"""Run cells on the cores of this machine, in worker processes that are monitored and replaced when they die."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from pybatsched.errors import InputError
from pybatsched.live.batsim import DIE_WITH_PARENT

#: The directory of this package: a worker must not import another copy from the working directory.
_HOME: Final = str(Path(__file__).parents[2])
_LOOK_S: Final = 0.2
#: Number of workers that try a cell: a worker may die because of its cell, or for another reason.
_N_TRIES: Final = 2
#: How much of a worker's standard error is kept, and how many lines are reported when it dies.
_STDERR_BYTES: Final = 8192
_PIPE_BYTES: Final = 65536
_STDERR_LINES: Final = 30
#: The beginning of the error of a cell whose worker process died.
DIED: Final = "WorkerDied: "

#: Each worker has a core for itself, and tables of a cell are small: threads of polars would only disturb others.
_ONE_THREAD: Final = {"POLARS_MAX_THREADS": "1"}


class WorkItem(Protocol):
    """What a worker does: a cell of a campaign, or a pickled call (`call` in its dictionary)."""

    @property
    def address(self) -> str:
        """Its name in results."""

    def as_dict(self) -> dict[str, Any]:
        """Return what the worker process reads."""


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    scratch: tempfile.TemporaryDirectory[str]  # removed with its files when the worker ends
    cell: WorkItem | None = None
    started_at: float = 0.0
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)  # the end of its standard error for its current cell


class LocalWorkers:
    """Worker processes of this machine. `folder_of` returns the directory of a cell; `timeout_s` 0 is no timeout."""

    def __init__(self, n: int, folder_of: Callable[[str], str], timeout_s: float = 0.0) -> None:
        self._n = n
        self.folder_of = folder_of
        self.timeout_s = timeout_s
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers[:]:
            self._end(worker)
        self._selector.close()

    @property
    def n_running(self) -> int:
        """The number of running cells."""
        return sum(worker.cell is not None for worker in self._workers)

    def run(self, cells: Sequence[WorkItem]) -> Iterator[dict[str, Any] | None]:
        """Run cells and yield their results as they finish; yields None from time to time while there are none."""
        waiting = deque(cells)
        n_tries: dict[str, int] = {}
        while waiting or self.n_running:
            while len(self._workers) < min(self._n, len(waiting) + self.n_running):  # none without a cell to run
                self._workers.append(self._start())
            for worker in self._workers:
                if waiting and worker.cell is None:
                    self._send(worker, waiting.popleft())
            yield from self._read_results()
            for worker in self._workers[:]:
                why = self._failure(worker)
                if not why:
                    continue
                cell = worker.cell
                self._end(worker)
                if cell is None:
                    continue
                n_tries[cell.address] = n_tries.get(cell.address, 0) + 1
                if n_tries[cell.address] < _N_TRIES and not self._is_late(worker):
                    waiting.append(cell)
                else:
                    yield {"address": cell.address, "error": why}

    def _start(self) -> _Worker:
        try:
            scratch = tempfile.TemporaryDirectory(prefix="pybatsched-", ignore_cleanup_errors=True)
        except OSError as error:  # a full or read-only disk
            raise InputError(
                f"cannot create a directory for temporary files (TMPDIR): {error.strerror or error}"
            ) from None
        path = os.pathsep.join(filter(None, (_HOME, os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pybatsched.campaign.worker"],
            env=_ONE_THREAD | os.environ | {"PYTHONPATH": path, "TMPDIR": scratch.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=DIE_WITH_PARENT,  # noqa: PLW1509  it runs no Python code
        )
        worker = _Worker(process, scratch)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, worker)
        return worker

    def _send(self, worker: _Worker, cell: WorkItem) -> None:
        assert worker.process.stdin is not None
        _read_stderr(worker)
        worker.stderr.clear()  # of an earlier cell
        worker.cell, worker.started_at = cell, time.monotonic()
        request = {"cell": cell.as_dict(), "folder": self.folder_of(cell.address)}
        with contextlib.suppress(BrokenPipeError):  # the worker has died; `run` notices it
            worker.process.stdin.write(json.dumps(request).encode() + b"\n")
            worker.process.stdin.flush()

    def _read_results(self) -> Iterator[dict[str, Any] | None]:
        answered = False
        for key, _ in self._selector.select(_LOOK_S):
            worker: _Worker = key.data
            if key.fileobj is worker.process.stderr:
                if not _read_stderr(worker):
                    self._selector.unregister(key.fileobj)
                continue
            assert worker.process.stdout is not None
            worker.stdout += worker.process.stdout.read() or b""
            while b"\n" in worker.stdout:
                line, _, rest = worker.stdout.partition(b"\n")
                worker.stdout = bytearray(rest)
                worker.cell = None
                answered = True
                yield json.loads(line)
        if not answered:
            yield None

    def _failure(self, worker: _Worker) -> str:
        """Return why a worker cannot continue; empty if it can."""
        code = worker.process.poll()
        if code is not None:
            known = {int(one): one.name for one in signal.Signals}
            name = known.get(-code, f"signal {-code}") if code < 0 else f"exit code {code}"
            _read_stderr(worker)
            return f"{DIED}its process ended with {name}{_last_lines(worker.stderr)}"
        if not self._is_late(worker):
            return ""
        return f"TimedOut: more time than timeout_s = {self.timeout_s:g}{_last_lines(worker.stderr)}"

    def _is_late(self, worker: _Worker) -> bool:
        taken_s = time.monotonic() - worker.started_at
        return worker.cell is not None and 0 < self.timeout_s < taken_s

    def _end(self, worker: _Worker) -> None:
        assert worker.process.stdin is not None
        self._workers.remove(worker)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            worker.process.stdin.close()
        for pipe in (worker.process.stdout, worker.process.stderr):
            assert pipe is not None
            with contextlib.suppress(KeyError):  # its end was already read
                self._selector.unregister(pipe)
            pipe.close()
        worker.process.wait()
        worker.scratch.cleanup()


def _read_stderr(worker: _Worker) -> bool:
    """Read at most one pipe buffer of a worker's standard error; keep the end. Return False at its end."""
    assert worker.process.stderr is not None
    content = worker.process.stderr.read(_PIPE_BYTES)
    worker.stderr += content or b""
    del worker.stderr[:-_STDERR_BYTES]
    return content != b""


def _last_lines(stderr: bytearray) -> str:
    """Return the last lines of standard error as the end of an error message."""
    lines = stderr.decode(errors="replace").splitlines()[-_STDERR_LINES:]
    return "; its last output:\n" + "\n".join(lines) if lines else ""
