"""Write the results of a run: temporary names during the run, final names at its end, and the mark throughout."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pybatsched import locks
from pybatsched.errors import InputError, Interrupted, PybatschedError
from pybatsched.results import run_state
from pybatsched.results.run_state import MARK, PART, SUFFIXES, State

_MAX_REASON: Final = 300


class Results:
    """The files of one run with a prefix, locked against other writers. Use it as a context manager.

    Between `begin` and `finish`, files are written with the prefix `part`. An exit without `finish` leaves them there,
    marked as interrupted or failed; without a finished job, a failed run leaves only its mark. An exit without `begin`
    changes nothing. Neither does an error before anything happened (`is_before_run`), unless an earlier run had broken
    off, because its files are removed by `begin`. `about` are members of the mark for readers of an unfinished run. Set
    `n_over` to the number of finished jobs, and `cut_at` to the time at which the simulation was stopped, if it was.
    The mark has the path of the `journal` relative to itself; the summary has no paths, so that it is the same for any
    prefix.
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
        self._mark_before: bytes | None = None  # None: a run that broke off, whose files are removed
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Lock the files. Raises InputError."""
        refusal = f"-e {self.prefix}: another run is writing {self.part}_*; wait for its end, or use another prefix"
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
            with suppress(OSError):  # then it stays marked as running, with a free lock
                if isinstance(error, PybatschedError) and error.is_before_run and self._mark_before is not None:
                    self._restore(self._mark_before)
                else:
                    self._write(State.INTERRUPTED if is_stopped else State.FAILED, **how, **self._about)
                if not is_stopped and isinstance(error, PybatschedError):
                    self._remove_empty()
        self._stack.__exit__(kind, error, trace)

    @property
    def has_part_files(self) -> bool:
        """Whether there are files of an unfinished run."""
        return any(Path(f"{self.part}{suffix}").exists() for suffix in SUFFIXES)

    def _remove_empty(self) -> None:
        """Remove the files of a run that failed before a job ended, unless there is a log of Batsim."""
        if not self.n_over and not Path(f"{self.part}{run_state.LOG}").exists():
            for suffix in SUFFIXES:
                Path(f"{self.part}{suffix}").unlink(missing_ok=True)

    def _restore(self, mark: bytes) -> None:
        """Write the mark as it was before the run. An empty file is removed with the lock."""
        self._put(mark, 0)
        os.ftruncate(self._fd, len(mark))
        self.state = None

    def begin(self, n_jobs: int, n_procs: int | None = None) -> None:
        """Mark the run as running, and remove the files of an earlier run that broke off. Raises InputError."""
        mark = None
        try:
            mark = run_state.read_open(self._fd, self._path(MARK))
            if mark is None or (mark.state is State.FINISHED and not mark.moving):
                self._mark_before = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
            if mark is not None and mark.moving:
                self._move(mark.moving)  # their run was killed during `finish`
            for suffix in SUFFIXES:
                if self._path(suffix).is_dir():
                    raise InputError(f"-e {self.prefix}: cannot write {self._path(suffix)}: it is a directory")
            for suffix in (*SUFFIXES, MARK):  # `pybatsched batsim` as the child also has a mark there
                Path(f"{self.part}{suffix}").unlink(missing_ok=True)
            self._n_jobs = n_jobs
            if n_procs is not None:
                self._about["n_procs"] = n_procs
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            origin = {"pid": os.getpid(), "host": socket.gethostname(), "started": now}
            self._write(State.RUNNING, **origin, **self._about)
        except OSError as error:
            where = error.filename or self._path(MARK)
            raise InputError(f"-e {self.prefix}: cannot write {where}: {error.strerror}") from None

    def finish(self) -> None:
        """Rename all files, which the mark lists meanwhile, and mark the run as finished. Raises InputError."""
        files = tuple(suffix for suffix in SUFFIXES if Path(f"{self.part}{suffix}").exists())
        if run_state.JOBS not in files:
            raise InputError(f"-e {self.prefix}: {self.part}{run_state.JOBS} was removed during the run")
        how: dict[str, Any] = {"n_over": self.n_over}
        how |= {} if self.cut_at is None else {"cut_at": self.cut_at}
        try:
            self._write(State.FINISHED, **how, moving=files, **self._lasting)
            self._move(files)
            self._write(State.FINISHED, **how, **self._lasting)
        except OSError as error:
            raise InputError(
                f"-e {self.prefix}: the results are complete, but {error.filename or self._path(MARK)} cannot be "
                f"renamed: {error.strerror}; some files are still {self.part}_*"
            ) from None

    def describe(self) -> str:
        """Return a short text about the state of the run."""
        return run_state.Mark(self.state or State.FAILED, self._n_jobs, self.n_over, "", {}).describe()

    def _path(self, suffix: str) -> Path:
        return Path(f"{self.prefix}{suffix}")

    def _move(self, files: tuple[str, ...]) -> None:
        """Rename files that have not been renamed yet, and remove old results that the run has not written."""
        for suffix in SUFFIXES:
            # A log is not a result. With `pybatsched batsim` as the child, it belongs to the parent.
            if suffix not in files and suffix != run_state.LOG:
                self._path(suffix).unlink(missing_ok=True)
        for suffix in files:
            with suppress(FileNotFoundError):  # already renamed
                Path(f"{self.part}{suffix}").replace(self._path(suffix))
        Path(f"{self.part}{MARK}").unlink(missing_ok=True)

    def _write(self, state: State, **members: Any) -> None:
        """Overwrite the mark at once, padded with blanks; it keeps its lock and its space on a full disk."""
        head = {"format": run_state.FORMAT, "format_version": run_state.FORMAT_VERSION, "state": state}
        text = json.dumps({**head, "n_jobs": self._n_jobs, **members}, indent=1).encode() + b"\n"
        size = os.fstat(self._fd).st_size
        try:
            self._put(b" " * (len(text) - size), size)  # allocate the space before anything is overwritten
        except OSError:
            os.ftruncate(self._fd, size)
            raise
        self._put(text.ljust(size), 0)
        os.ftruncate(self._fd, len(text))
        self.state = state

    def _put(self, data: bytes, at: int) -> None:
        """Write bytes of the mark. Raises OSError if the disk is full."""
        if os.pwrite(self._fd, data, at) < len(data):
            raise OSError(0, "the disk is full", str(self._path(MARK)))


def _reason(error: BaseException | None) -> str:
    """Return one line about why a run broke off."""
    if error is None:
        return "left before its end"
    text = str(error) if isinstance(error, PybatschedError | Interrupted) else f"{type(error).__name__}: {error}"
    return (text.splitlines() or [""])[0].rstrip(": ")[:_MAX_REASON]


def _exit_code(error: BaseException | None) -> int:
    """Return the exit code of a command that ends with this error."""
    if isinstance(error, PybatschedError):
        return error.exit_code
    if isinstance(error, Interrupted):
        return 128 + error.signum
    return 130 if isinstance(error, KeyboardInterrupt) else 1
