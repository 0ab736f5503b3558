"""Cells on the cores of this machine: worker processes that are watched, and replaced when they die."""

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
from typing import Any, Final, Self

from pybatsched.campaign.cells import Cell
from pybatsched.errors import InputError
from pybatsched.live.processes import DIE_WITH_PARENT

#: Where this very package is: a worker must run no other, say one that lies where the command was started.
_HOME: Final = str(Path(__file__).parents[2])
_LOOK_S: Final = 0.2
#: A worker that dies takes its cell with it, which may be a bad one; so often is it given to another worker.
_N_TRIES: Final = 2
#: So much is kept of what a worker says on standard error, and so many lines are told when it dies.
_SAID_BYTES: Final = 8192
_PIPE_BYTES: Final = 65536
_SAID_LINES: Final = 30


@dataclass(slots=True, eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    scratch: tempfile.TemporaryDirectory[str]  # what it leaves there goes with it, however it ends
    cell: Cell | None = None
    began_at: float = 0.0
    heard: bytearray = field(default_factory=bytearray)
    said: bytearray = field(default_factory=bytearray)  # the end of its standard error, of its present cell


class LocalWorkers:
    """Worker processes of this machine. `folder_of` says where a cell may keep files; `timeout_s` 0 is for ever."""

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
        """How many cells are being worked on."""
        return sum(worker.cell is not None for worker in self._workers)

    def run(self, cells: Sequence[Cell]) -> Iterator[dict[str, Any] | None]:
        """Run cells and give their results as they come; None now and then while nothing comes."""
        waiting = deque(cells)
        n_tries: dict[str, int] = {}
        while waiting or self.n_running:
            while waiting and len(self._workers) < self._n:
                self._workers.append(self._start())
            for worker in self._workers:
                if waiting and worker.cell is None:
                    self._give(worker, waiting.popleft())
            yield from self._hear()
            for worker in self._workers[:]:
                why = self._trouble(worker)
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
        except OSError as error:  # a full disk, or none that may be written
            raise InputError(f"a worker has no place for temporary files (TMPDIR): {error.strerror or error}") from None
        path = os.pathsep.join(filter(None, (_HOME, os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pybatsched.campaign.worker"],
            env=os.environ | {"PYTHONPATH": path, "TMPDIR": scratch.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=DIE_WITH_PARENT,  # noqa: PLW1509  nobody would read what it finds out
        )
        worker = _Worker(process, scratch)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, worker)
        return worker

    def _give(self, worker: _Worker, cell: Cell) -> None:
        assert worker.process.stdin is not None
        _listen(worker)
        worker.said.clear()  # that was about another cell
        worker.cell, worker.began_at = cell, time.monotonic()
        request = {"cell": cell.as_dict(), "folder": self.folder_of(cell.address)}
        with contextlib.suppress(BrokenPipeError):  # it has died; that is noticed below
            worker.process.stdin.write(json.dumps(request).encode() + b"\n")
            worker.process.stdin.flush()

    def _hear(self) -> Iterator[dict[str, Any] | None]:
        answered = False
        for key, _ in self._selector.select(_LOOK_S):
            worker: _Worker = key.data
            if key.fileobj is worker.process.stderr:
                if not _listen(worker):
                    self._selector.unregister(key.fileobj)
                continue
            assert worker.process.stdout is not None
            worker.heard += worker.process.stdout.read() or b""
            while b"\n" in worker.heard:
                line, _, rest = worker.heard.partition(b"\n")
                worker.heard = bytearray(rest)
                worker.cell = None
                answered = True
                yield json.loads(line)
        if not answered:
            yield None

    def _trouble(self, worker: _Worker) -> str:
        """Say why a worker cannot go on; empty if it can."""
        code = worker.process.poll()
        if code is not None:
            known = {int(one): one.name for one in signal.Signals}
            name = known.get(-code, f"signal {-code}") if code < 0 else f"exit code {code}"
            _listen(worker)
            return f"WorkerDied: its process ended with {name}{_last_words(worker.said)}"
        if not self._is_late(worker):
            return ""
        return f"TimedOut: more time than timeout_s = {self.timeout_s:g}{_last_words(worker.said)}"

    def _is_late(self, worker: _Worker) -> bool:
        taken_s = time.monotonic() - worker.began_at
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
            with contextlib.suppress(KeyError):  # its end was seen before
                self._selector.unregister(pipe)
            pipe.close()
        worker.process.wait()
        worker.scratch.cleanup()


def _listen(worker: _Worker) -> bool:
    """Take what a worker has said on standard error, and keep the end of it. False if it can say nothing any more.

    What a pipe can hold is taken, no more: who talks without end must not keep us from looking at the clock.
    """
    assert worker.process.stderr is not None
    heard = worker.process.stderr.read(_PIPE_BYTES)
    worker.said += heard or b""
    del worker.said[:-_SAID_BYTES]
    return heard != b""


def _last_words(said: bytearray) -> str:
    """Give the last lines, to stand behind another."""
    lines = said.decode(errors="replace").splitlines()[-_SAID_LINES:]
    return "; it said last:\n" + "\n".join(lines) if lines else ""
