"""The state file of a run ("mark"): whether the run is running, interrupted, failed or finished, and its files.

    PREFIX_state.json            the mark of the last run with this prefix
    PREFIX_jobs.csv, …           results of the last finished run
    PREFIX.part_jobs.csv, …      files of a run that is running or broke off

The mark is a JSON object. Its writer holds its lock, so a killed run differs from a running one. Files without a mark,
such as those of a real Batsim, count as complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from pybatsched import locks
from pybatsched.errors import InputError, setting

FORMAT: Final = "pybatsched-state"
FORMAT_VERSION: Final = 1

#: The suffix of the mark, and the addition to the prefix of a run that is not finished.
MARK: Final = "_state.json"
PART: Final = ".part"
JOBS: Final = "_jobs.csv"
SUMMARY: Final = "_summary.json"
LOG: Final = "_batsim.log"
#: The workload of a run in Python, if it is not the content of a file.
WORKLOAD: Final = "_workload.json"
#: The suffixes of the results of a run, in the order in which they are renamed.
SUFFIXES: Final = (
    JOBS,
    "_schedule.csv",
    "_machine_states.csv",
    "_consumed_energy.csv",
    "_pstate_changes.csv",
    "_schedule.trace",
    "_schedule.json",  # of Batsim 5, and
    "_real_exec_info.json",
    LOG,
    WORKLOAD,
    SUMMARY,
)
_MAX_BYTES: Final = 2**24
_N_LOOKS: Final = 20

T = TypeVar("T")


class State(StrEnum):
    """The state of a run. A killed run is still marked as running, but its lock is free."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


class Mark(msgspec.Struct, frozen=True):
    """The mark of a run. `n_jobs` is the number of jobs of the workload, `n_over` the number of finished ones.

    `about` is the whole JSON object. In a run that is not finished, it has the members of the summary that were known
    at the start, such as `inputs`. `moving` has the suffixes of the files of a finished run that are being renamed.
    `is_alive` is True while the run is running. `written_at` distinguishes two marks with the same content. `cut_at` is
    the time at which the user stopped the simulation of a finished run.
    """

    state: State
    n_jobs: int
    n_over: int | None
    reason: str
    about: Mapping[str, Any]
    moving: tuple[str, ...] = ()
    is_alive: bool = False
    written_at: int = 0
    cut_at: float | None = None

    def describe(self, n_over: int | None = None) -> str:
        """Return a short text about the state of a run, with `n_over` finished jobs (None: the number in the mark).

        >>> Mark(State.INTERRUPTED, 54034, 40, "signal 2", {}).describe()
        'interrupted after 40 of 54,034 jobs'
        """
        n = self.n_over if n_over is None else n_over
        jobs = "" if n is None else f"{n:,} of {self.n_jobs:,} jobs"
        if self.cut_at is not None:
            return f"cut at {self.cut_at:,.15g} s" + (f" after {jobs}" if jobs else "")
        if self.is_alive:
            return f"still running, {jobs} so far" if jobs else "still running"
        how = "broke off" if self.state is State.RUNNING else str(self.state)
        return f"{how} after {jobs}" if jobs else how


class Found(msgspec.Struct, frozen=True):
    """The files of a prefix, the mark of its last run, and whether the files are those of a complete run."""

    prefix: str
    mark: Mark | None
    is_whole: bool

    def path(self, suffix: str) -> Path:
        """Return the path of a file, which may not exist."""
        there, aside = Path(f"{self.prefix}{suffix}"), Path(f"{self.prefix}{PART}{suffix}")
        if self.mark is None or not self.mark.moving:
            return there
        return there if suffix in self.mark.moving and not aside.exists() else aside

    def standing(self, shown: str, n_over: int) -> RunState:
        """Return the state of a run that was read under the name `shown`, with `n_over` finished jobs."""
        if self.mark is None:
            return RunState(shown)
        if self.mark.state is State.FINISHED:
            return RunState(shown) if self.mark.cut_at is None else RunState(shown, cut=self.mark)
        return RunState(shown, newer=self.mark) if self.is_whole else RunState(shown, self.mark, n_over)


class RunState(msgspec.Struct, frozen=True):
    """The completeness of a run: the mark of an unfinished run, of a `newer` one, of one that the user has `cut`."""

    prefix: str = ""
    mark: Mark | None = None
    n_over: int = 0
    newer: Mark | None = None
    cut: Mark | None = None

    @property
    def notice(self) -> str:
        """The notice to show with its figures; empty for a complete run."""
        if self.cut is not None:
            return self.cut.describe()
        return "" if self.mark is None else self.mark.describe(self.n_over)

    @property
    def reason(self) -> str:
        """Why it failed; empty if it did not."""
        return self.mark.reason if self.mark is not None and self.mark.state is State.FAILED else ""

    @property
    def remark(self) -> str:
        """The remark about a later unfinished run with the same prefix; empty if there is none."""
        if self.newer is None:
            return ""
        last = f"{self.newer.describe()} ({self.prefix}{PART}_*, shown by {setting('partial')})"
        return f"results of an earlier run; the last one: {last}"


#: A complete run, without notice or remark.
WHOLE: Final = RunState()


def find(prefix: str, *, newest: bool = False) -> Found:
    """Find the files of the last complete run with a prefix (with `newest`: the last). Raises InputError."""
    if prefix.endswith(PART):
        mark = read(prefix.removesuffix(PART))
        if mark is not None and mark.state is not State.FINISHED:
            return Found(prefix, mark, is_whole=False)
    mark = read(prefix)
    if mark is None or mark.state is State.FINISHED or (not newest and Path(f"{prefix}{JOBS}").exists()):
        return Found(prefix, mark, is_whole=True)
    return Found(f"{prefix}{PART}", mark, is_whole=False)


def read_stable(prefix: str, read_files: Callable[[Found], T], *, newest: bool = False) -> T:
    """Return the result of `read_files` for the files of `find`; call it again if they were replaced meanwhile."""
    found = find(prefix, newest=newest)
    for _ in range(_N_LOOKS):
        paths = [found.path(suffix) for suffix in SUFFIXES]
        problem: InputError | None = None
        try:
            result = read_files(found)
        except InputError as error:
            problem = error
        before, found = found, find(prefix, newest=newest)
        if found == before and paths == [found.path(suffix) for suffix in SUFFIXES]:
            if problem is not None:
                raise problem
            return result
    raise InputError(
        f"{prefix}: its files are replaced faster than they can be read; try again when its runs have ended"
    )


def read(prefix: str) -> Mark | None:
    """Read the mark of a prefix; None if there is none. Raises InputError that names the file and the member."""
    path = Path(f"{prefix}{MARK}")
    if not path.is_file():
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        # The lock first: a run that ends between the two steps has written its mark by the second.
        is_locked = locks.has_writer(fd) is not False
        mark = read_open(fd, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    return replace(mark, is_alive=True) if mark is not None and mark.state is State.RUNNING and is_locked else mark


def read_open(fd: int, path: Path) -> Mark | None:
    """Read a mark from an open file, without checking its lock. Raises InputError and OSError."""
    text, written_at = os.pread(fd, _MAX_BYTES, 0), os.fstat(fd).st_mtime_ns
    if not text.strip():
        return None  # of a run that has not started
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        found = repr(text[:60].decode(errors="replace"))
        raise InputError(f"{path}: expected the state of a run in JSON, found {found} ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected a JSON object with format {FORMAT!r}, found {content!r:.60}")
    if content.get("format") != FORMAT:
        raise InputError(f"{path}: format: expected {FORMAT!r}, found {content.get('format')!r:.60}")
    if content.get("format_version") != FORMAT_VERSION:
        raise InputError(f"{path}: format_version is {content.get('format_version')!r}; expected {FORMAT_VERSION}")
    state = content.get("state")
    if state not in tuple(State):
        raise InputError(f"{path}: state is {state!r:.40}; expected one of {', '.join(State)}")
    n_jobs, n_over, moving = content.get("n_jobs"), content.get("n_over"), content.get("moving", [])
    if not isinstance(n_jobs, int):
        raise InputError(f"{path}: n_jobs is {n_jobs!r:.40}; expected a number of jobs")
    if not (n_over is None or isinstance(n_over, int)):
        raise InputError(f"{path}: n_over is {n_over!r:.40}; expected a number of jobs")
    if not isinstance(moving, list) or not {*map(str, moving)} <= {*SUFFIXES}:
        raise InputError(f"{path}: moving is {moving!r:.60}; expected some of {', '.join(SUFFIXES)}")
    reason, cut_at = str(content.get("reason", "")), content.get("cut_at")
    if not (cut_at is None or isinstance(cut_at, int | float)):
        raise InputError(f"{path}: cut_at is {cut_at!r:.40}; expected a time in seconds")
    return Mark(State(state), n_jobs, n_over, reason, content, tuple(moving), written_at=written_at, cut_at=cut_at)
