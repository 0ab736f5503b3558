"""Writing the results of a run: aside while it goes on, in their places when it is over, with a mark all the time."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pybatsched import locks
from pybatsched.errors import InputError, Interrupted, PybatschedError
from pybatsched.results import run_state
from pybatsched.results.run_state import MARK, PART, SUFFIXES, State

_MAX_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class InPlace:
    """Files of a run that are written where they belong, over what is there, unlocked and unmarked: as Batsim does."""

    prefix: str


class Results:
    """The files of one run with a prefix; nobody else may write them meanwhile. Use it as a context manager.

    Between `begin` and `finish` files are written under the prefix `part`. Who leaves without `finish` leaves them
    there, marked as interrupted or failed; who leaves without `begin` leaves everything as it was. `about` are members
    for the mark that help to read what there is of a run; set `n_over` to the number of jobs that are over, and
    `cut_at` to when simulated time was over, if that was before the run was. The mark says where the `journal` is, seen
    from its own place: the summary cannot, as it is the same wherever a run writes.
    """

    def __init__(self, prefix: str, about: Mapping[str, Any] | None = None, journal: str | None = None) -> None:
        self.prefix = prefix
        self.part = f"{prefix}{PART}"
        self.n_over = 0
        self.cut_at: float | None = None
        self.state: State | None = None
        self._lasting = {} if not journal else {"journal": os.path.relpath(journal, Path(prefix + MARK).parent)}
        self._about = dict(about or {}) | self._lasting
        self._n_jobs = 0
        self._fd = -1
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Keep others from the files. Raises InputError."""
        refusal = (
            f"-e {self.prefix}: another run is writing {self.part}_* right now; expected its end, or another prefix"
        )
        try:
            self._fd = self._stack.enter_context(locks.held(self._path(MARK), refusal))
        except OSError as error:
            raise InputError(f"-e {self.prefix}: cannot write {error.filename}: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state is State.RUNNING:
            is_stopped = isinstance(error, Interrupted | KeyboardInterrupt)
            how = {"n_over": self.n_over, "reason": _reason(error), "exit_code": _exit_code(error)}
            with suppress(OSError):  # then it stays marked as running, by a process that is gone
                self._write(State.INTERRUPTED if is_stopped else State.FAILED, **how, **self._about)
        self._stack.__exit__(kind, error, trace)

    def begin(self, n_jobs: int, n_procs: int | None = None) -> None:
        """Mark the run as running, with nothing of an earlier one that broke off. Raises InputError."""
        mark = None
        try:
            mark = run_state.read_open(self._fd, self._path(MARK))
            if mark is not None and mark.moving:
                self._move(mark.moving)  # whoever wrote them was killed on the last inch
            for suffix in SUFFIXES:
                if self._path(suffix).is_dir():
                    raise InputError(f"-e {self.prefix}: cannot write {self._path(suffix)}: it is a directory")
            for suffix in (*SUFFIXES, MARK):  # a simulation of ours that plays Batsim has a mark there, too
                Path(f"{self.part}{suffix}").unlink(missing_ok=True)
            self._n_jobs = n_jobs
            if n_procs is not None:
                self._about["n_procs"] = n_procs
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            who = {"pid": os.getpid(), "host": socket.gethostname(), "started": now}
            self._write(State.RUNNING, **who, **self._about)
        except OSError as error:
            where = error.filename or self._path(MARK)
            raise InputError(f"-e {self.prefix}: cannot write {where}: {error.strerror}") from None

    def finish(self) -> None:
        """Put all files in the places of those of the last run, and mark the run as finished. Raises InputError.

        A reader on the way sees by the mark which files are on the move, and finds the new one under either name.
        """
        files = tuple(suffix for suffix in SUFFIXES if Path(f"{self.part}{suffix}").exists())
        if run_state.JOBS not in files:
            raise InputError(f"-e {self.prefix}: {self.part}{run_state.JOBS} is gone; somebody has taken it away")
        how: dict[str, Any] = {"n_over": self.n_over}
        how |= {} if self.cut_at is None else {"cut_at": self.cut_at}
        try:
            self._write(State.FINISHED, **how, moving=files, **self._lasting)
            self._move(files)
            self._write(State.FINISHED, **how, **self._lasting)
        except OSError as error:
            raise InputError(
                f"-e {self.prefix}: the results are whole, but {error.filename or self._path(MARK)} cannot take its "
                f"place: {error.strerror}; some are {self.part}_*"
            ) from None

    def told(self) -> str:
        """Say in a few words how far the run came."""
        return run_state.Mark(self.state or State.FAILED, self._n_jobs, self.n_over, "", {}).told()

    def _path(self, suffix: str) -> Path:
        return Path(f"{self.prefix}{suffix}")

    def _move(self, files: tuple[str, ...]) -> None:
        """Put files in their places, where that has not been done yet; results that the run has not written go away."""
        for suffix in SUFFIXES:
            # A log is no result, and where a simulation of ours plays Batsim, it belongs to whoever has started that.
            if suffix not in files and suffix != run_state.LOG:
                self._path(suffix).unlink(missing_ok=True)
        for suffix in files:
            with suppress(FileNotFoundError):  # it is there already
                Path(f"{self.part}{suffix}").replace(self._path(suffix))
        Path(f"{self.part}{MARK}").unlink(missing_ok=True)

    def _write(self, state: State, **members: Any) -> None:
        """Write the mark, over the last one: its lock stays, and so does its room on a full disk.

        Whenever it breaks off, and whenever somebody reads it, there is the last one or the new one: blanks stand where
        one of them is longer.
        """
        head = {"format": run_state.FORMAT, "format_version": run_state.FORMAT_VERSION, "state": state}
        text = json.dumps({**head, "n_jobs": self._n_jobs, **members}, indent=1).encode() + b"\n"
        size = os.fstat(self._fd).st_size
        try:
            self._put(b" " * (len(text) - size), size)  # the room that it needs, before it replaces anything
        except OSError:
            os.ftruncate(self._fd, size)
            raise
        self._put(text.ljust(size), 0)
        os.ftruncate(self._fd, len(text))
        self.state = state

    def _put(self, data: bytes, at: int) -> None:
        """Write some bytes of the mark. Raises OSError if not all of them have room."""
        if os.pwrite(self._fd, data, at) < len(data):
            raise OSError(0, "the disk is full", str(self._path(MARK)))


def _reason(error: BaseException | None) -> str:
    """Say in a line why a run broke off."""
    if error is None:
        return "left before its end"
    text = str(error) if isinstance(error, PybatschedError | Interrupted) else f"{type(error).__name__}: {error}"
    return (text.splitlines() or [""])[0].rstrip(": ")[:_MAX_REASON]


def _exit_code(error: BaseException | None) -> int:
    """Give the exit code of a command that ends so."""
    if isinstance(error, PybatschedError):
        return error.exit_code
    if isinstance(error, Interrupted):
        return 128 + error.signum
    return 130 if isinstance(error, KeyboardInterrupt) else 1
