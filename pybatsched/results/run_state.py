"""The mark of a run: whether it runs, was interrupted, failed or finished, and where its files are.

    PREFIX_state.json            the mark of the last run with this prefix
    PREFIX_jobs.csv, …           results of the last run that finished
    PREFIX.part_jobs.csv, …      what there is of a run that goes on or broke off

The mark is a JSON object; who writes it has its lock, so that a run that was killed can be told from one that goes on.
Files without a mark, as real Batsim's, are taken as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from pybatsched import locks
from pybatsched.errors import InputError

FORMAT: Final = "pybatsched-state"
FORMAT_VERSION: Final = 1

#: What the name of the mark ends in, behind the prefix, and what comes behind the prefix of a run that is not finished.
MARK: Final = "_state.json"
PART: Final = ".part"
JOBS: Final = "_jobs.csv"
SUMMARY: Final = "_summary.json"
LOG: Final = "_batsim.log"
#: What the names of a run's results end in, in the order in which they take their places.
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
    SUMMARY,
)
_MAX_BYTES: Final = 2**24
_N_LOOKS: Final = 20

T = TypeVar("T")


class State(StrEnum):
    """What became of a run. One that was killed outright is still marked as running, but nobody has its lock."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Mark:
    """What the mark of a run says. `n_jobs` are the workload's, `n_over` of these were over when the run ended.

    `about` is the whole object; of a run that is not finished it has members of the summary, as `inputs`, where they
    were known at the start. `moving` names the files of a finished run, by what their names end in, that were just
    taking their places. `is_alive` tells a run that goes on, `written_at` one writing of the same words from another.
    `cut_at` is of a finished run whose simulated time was over then, by its owner's will, and not all of its jobs.
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

    def told(self, n_over: int | None = None) -> str:
        """Say in a few words what became of a run, with so many jobs over (None: as many as the mark says).

        >>> Mark(State.INTERRUPTED, 54034, 40, "signal 2", {}).told()
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


@dataclass(frozen=True, slots=True)
class Found:
    """Which files a reader of a prefix gets: their own prefix, and whether they are those of a whole run.

    `mark` is that of the last run. Of whole files with the mark of a run that is not finished, it is not theirs: they
    are an earlier run's.
    """

    prefix: str
    mark: Mark | None
    is_whole: bool

    def path(self, suffix: str) -> Path:
        """Give where a file is, or would be."""
        there, aside = Path(f"{self.prefix}{suffix}"), Path(f"{self.prefix}{PART}{suffix}")
        if self.mark is None or not self.mark.moving:
            return there
        return there if suffix in self.mark.moving and not aside.exists() else aside

    def standing(self, shown: str, n_over: int) -> RunState:
        """Say how whole the run is that was read under the name `shown`, with so many jobs over."""
        if self.mark is None:
            return RunState(shown)
        if self.mark.state is State.FINISHED:
            return RunState(shown) if self.mark.cut_at is None else RunState(shown, cut=self.mark)
        return RunState(shown, newer=self.mark) if self.is_whole else RunState(shown, self.mark, n_over)


@dataclass(frozen=True, slots=True)
class RunState:
    """How whole a run is that was read: `mark` is its own if it is not finished, `newer` that of a later such run.

    `cut` is its own if it has finished, but at a time that its owner has set. Nothing is wrong with it; who sees its
    figures must know all the same.
    """

    prefix: str = ""
    mark: Mark | None = None
    n_over: int = 0
    newer: Mark | None = None
    cut: Mark | None = None

    @property
    def notice(self) -> str:
        """What everybody who sees its figures must know; empty for a whole run."""
        if self.cut is not None:
            return self.cut.told()
        return "" if self.mark is None else self.mark.told(self.n_over)

    @property
    def reason(self) -> str:
        """Why it failed, if it did."""
        return self.mark.reason if self.mark is not None and self.mark.state is State.FAILED else ""

    @property
    def remark(self) -> str:
        """What is to be said of a later run with the same prefix; empty if there is none."""
        if self.newer is None:
            return ""
        return (
            f"results of an earlier run; the last one: {self.newer.told()} ({self.prefix}{PART}_*, shown by --partial)"
        )


#: Nothing to be said.
WHOLE: Final = RunState()


def find(prefix: str, *, newest: bool = False) -> Found:
    """Find the files of a prefix: those of the last whole run, else what there is of one that is not finished.

    With `newest` those of the last run in any case. Files that are named by their own prefix (``PREFIX.part``) have the
    mark of the run they are of. Raises InputError for a mark that cannot be read.
    """
    if prefix.endswith(PART):
        mark = read(prefix.removesuffix(PART))
        if mark is not None and mark.state is not State.FINISHED:
            return Found(prefix, mark, is_whole=False)
    mark = read(prefix)
    if mark is None or mark.state is State.FINISHED or (not newest and Path(f"{prefix}{JOBS}").exists()):
        return Found(prefix, mark, is_whole=True)
    return Found(f"{prefix}{PART}", mark, is_whole=False)


def steadily(prefix: str, read_files: Callable[[Found], T], *, newest: bool = False) -> T:
    """Give what `read_files` makes of the files that `find` finds; it is asked again if they are replaced meanwhile."""
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
    raise InputError(f"{prefix}: its files are replaced faster than they can be read")


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
        # First whether it runs: a run that ends between the two looks has said so by the second.
        is_locked = locks.has_writer(fd) is not False
        mark = read_open(fd, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    return replace(mark, is_alive=True) if mark is not None and mark.state is State.RUNNING and is_locked else mark


def read_open(fd: int, path: Path) -> Mark | None:
    """Read a mark from an open file, without asking who has its lock. Raises InputError and OSError."""
    text, written_at = os.pread(fd, _MAX_BYTES, 0), os.fstat(fd).st_mtime_ns
    if not text.strip():
        return None  # made by a run that has not begun
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected the state of a run in JSON; {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: expected a JSON object with format {FORMAT!r}")
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
