"""A process that kills itself at a counted moment, not at a time: so a busy machine hits the same moments.

What is counted are calls and returns of functions, of Python and of C, as `sys.setprofile` reports them: all of them
(`calls`), or those that touch files (`files`). A process is armed by a fork of its parent, or by the environment
(see `hook/sitecustomize.py`). Only modules of the interpreter are used here: it is loaded before all others.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypedDict

#: The variable that arms a new interpreter: a `Plan` in JSON.
VARIABLE: Final = "PYBATSCHED_CRASH"

BEFORE: Final = "before the first write"
RUNNING: Final = "while running"
MOVING: Final = "while files take their places"
AFTER: Final = "after"
STAGES: Final = (BEFORE, RUNNING, MOVING, AFTER)

#: Names of functions of C that touch files, if they are of these modules or of a file.
_FILE_CALLS: Final = frozenset(
    (
        *("open", "read", "pread", "write", "writelines", "pwrite", "flush", "truncate", "ftruncate", "close"),
        *("__exit__", "flock", "replace", "rename", "unlink", "remove", "mkdir", "rmdir"),
    )
)
_FILE_MODULES: Final = frozenset(("posix", "io", "_io", "fcntl"))
_MOVES: Final = frozenset(("replace", "rename"))
#: Functions that show the progress of a run: the last directory and the name of the file, and the function.
_BEGIN, _MOVE, _END, _SENT, _CELL, _REQUEST = "begin", "move", "end", "sent", "cell", "request"
PROGRESS_CALLS: Final = {
    ("results/writing.py", "begin"): _BEGIN,
    ("session/journal.py", "__init__"): _BEGIN,
    ("session/journal.py", "request"): _REQUEST,
    ("campaign/store.py", "__enter__"): _BEGIN,
    ("campaign/one_cell.py", "run_or_error"): _CELL,
    ("outputs/files.py", "written"): _BEGIN,
    ("results/writing.py", "finish"): _MOVE,
    ("formats/files.py", "write_text"): _MOVE,
    ("campaign/table.py", "frame"): _MOVE,
    ("common/run_end.py", "put_in_place"): _END,
    ("campaign/all_cells.py", "run_campaign"): _END,
    ("live/server.py", "serve"): _END,
    ("simulator/run.py", "run_external"): _END,
    ("simulator/external.py", "_send_bytes"): _SENT,
}


class Plan(TypedDict, total=False):
    """When to kill itself. Without `at` it only counts. `note` is the file for the counts, or for the place of its end.

    Of several processes with the same plan, only those kill themselves that can delete one of the files `tokens`.
    """

    scale: str
    at: int
    note: str
    tokens: list[str]


def arm(plan: Plan) -> Counter | None:
    """Count from now on, and end the process at its moment. Return the counter; None if others have the tokens."""
    if "tokens" in plan and not any(_taken(token) for token in plan["tokens"]):
        return None
    counter = Counter(plan)
    sys.setprofile(counter.count_event)
    return counter


def arm_by_environment(environ: Mapping[str, str] = os.environ) -> None:
    """Arm this process if the environment says so."""
    counter = arm(json.loads(environ[VARIABLE])) if VARIABLE in environ else None
    if counter is not None:
        atexit.register(counter.finish)


def _taken(token: str) -> bool:
    try:
        os.unlink(token)  # noqa: PTH108  no module but those of the interpreter itself is loaded yet
    except FileNotFoundError:
        return False
    return True


class Counter:
    """Counts the events of a process."""

    def __init__(self, plan: Plan) -> None:
        self._by_files = plan.get("scale") == "files"
        self._at = plan.get("at", -1)
        self._note = plan["note"]
        self.n_calls = self.n_files = self.n_requests = 0
        self._names: dict[CodeType, str] = {}
        self._seen: dict[str, tuple[int, int]] = {}

    def count_event(self, frame: FrameType, event: str, arg: Any) -> None:
        """Count an event, and end the process at the chosen one."""
        self.n_calls += 1
        if event[0] == "c":
            if event == "call":
                name = self._name_of(frame.f_code)
                if name == _REQUEST:
                    self.n_requests += 1
                elif name and name != _END:
                    self._see(name)
            elif _touches_files(arg):
                self.n_files += 1
                if self._by_files and self.n_files == self._at:
                    self._die(frame, arg)
        elif event == "return":
            name = self._name_of(frame.f_code)
            if name == _END:
                self._see(name)
            elif name == _CELL and self._at < 0:
                self._count()  # a worker does not come to its end: it is killed when there is no more to do
        if not self._by_files and self.n_calls == self._at:
            self._die(frame, arg)

    def finish(self) -> None:
        """Write the counts at the end of a process that was not killed."""
        sys.setprofile(None)
        if self._at < 0:
            self._count()

    def _see(self, name: str) -> None:
        self._seen.setdefault(name, (self.n_calls, self.n_files))

    def _count(self) -> None:
        stages = sorted({*self._seen.values(), (self.n_calls, self.n_files)})
        self._write({"calls": [n_calls for n_calls, _ in stages], "files": [n_files for _, n_files in stages]})

    def _name_of(self, code: CodeType) -> str:
        found = self._names.get(code)
        if found is None:
            name = "/".join(code.co_filename.split("/")[-2:])
            found = self._names[code] = PROGRESS_CALLS.get((name, code.co_name), "")
        return found

    def _die(self, frame: FrameType, arg: Any) -> None:
        sys.setprofile(None)
        where = f"{frame.f_code.co_filename.split('/')[-1]}:{frame.f_lineno} {getattr(arg, '__name__', '')}"
        counts = {"has_sent": _SENT in self._seen, "n_requests": self.n_requests}
        self._write({"stage": self._stage(frame, arg), "where": where, **counts})
        os.kill(os.getpid(), signal.SIGKILL)

    def _stage(self, frame: FrameType, arg: Any) -> str:
        if _END in self._seen:
            return AFTER
        inner: FrameType | None = frame
        while inner is not None:
            if self._name_of(inner.f_code) == _MOVE:
                return MOVING
            inner = inner.f_back
        if _touches_files(arg) and arg.__name__ in _MOVES:
            return MOVING
        return RUNNING if self._seen.keys() & {_BEGIN, _CELL} else BEFORE

    def _write(self, what: Mapping[str, Any]) -> None:
        Path(self._note).write_text(json.dumps(what))


def _touches_files(function: Any) -> bool:
    if getattr(function, "__name__", "") not in _FILE_CALLS:
        return False
    owner = getattr(function, "__self__", None)
    return isinstance(owner, io.IOBase) or getattr(owner, "__name__", "") in _FILE_MODULES
