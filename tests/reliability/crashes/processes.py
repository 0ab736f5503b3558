"""Processes that are started to be killed: forks or new interpreters; and the search for survivors."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.patience import PATIENCE_S

from pybatsched import __main__
from reliability.crashes import self_kill
from reliability.crashes.self_kill import Plan

#: The exit code of a process that did not end within PATIENCE_S.
ENDLESS: Final = -99
_TESTS: Final = Path(__file__).parents[2]
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
_LOOK_S: Final = 0.005


def adopt_orphans() -> None:
    """Become the parent of processes that our children leave behind, so that none is missed."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def happens(condition: Callable[[], object], within_s: float = PATIENCE_S) -> bool:
    """Wait until a condition holds. Return False if that takes too long."""
    # patience: a limit of PATIENCE_S, or a time that may be of any length
    give_up_at = time.monotonic() + within_s
    while not condition():
        # patience: a limit of PATIENCE_S, or a time that may be of any length
        if time.monotonic() > give_up_at:
            return False
        # patience: the pause between two polls
        time.sleep(_LOOK_S)
    return True


@dataclass(slots=True)
class Child:
    """A process that runs a pybatsched command in a directory. `errors_path` is the file of its standard error."""

    pid: int
    errors_path: Path
    note: Path
    code: int | None = None
    pipe: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def ended(self) -> int:
        """Wait for its end, and return its exit code. If it does not end within PATIENCE_S, end it: ENDLESS."""
        if not happens(lambda: self.poll() is not None):
            self.kill()
            self.code = ENDLESS
        assert self.code is not None
        return self.code

    def waits_until_printed(self, text: str) -> bool:
        """Wait until it has printed a text. Return False if it ends without."""
        happens(lambda: text in self.errors or self.poll() is not None)
        return text in self.errors

    def kill(self) -> None:
        """Kill it from outside, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def errors(self) -> str:
        """All of its standard error so far."""
        if self.pipe is not None:
            with contextlib.suppress(BlockingIOError), self.errors_path.open("ab") as file:
                while lines := os.read(self.pipe, 65536):
                    file.write(lines)
        return self.errors_path.read_text(errors="replace")

    @property
    def notes(self) -> dict[str, Any]:
        """Its notes on its end or its counts; empty if it was killed from outside."""
        return read_notes(self.note)


def read_notes(path: Path) -> dict[str, Any]:
    """Read what a process has noted; nothing if it has not, or was killed while it did."""
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def start(
    args: Sequence[str],
    cwd: Path,
    name: str = "it",
    plan: Plan | None = None,
    *,
    is_new: bool = False,
    largest_file: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> Child:
    """Start a pybatsched command, as a fork of this process or as a new interpreter (`is_new`).

    Its output goes to files beside `cwd`, and so do its notes. With a `largest_file` its errors go to a pipe, because
    no file of it may have more bytes than that.
    """
    errors_path, note = (cwd.with_name(f"{cwd.name}.{name}.{what}") for what in ("err", "note"))
    errors_path.write_bytes(b"")
    note.unlink(missing_ok=True)
    scratch_of(cwd).mkdir(exist_ok=True)
    own: Plan | None = None if plan is None else {"note": str(note), **plan}
    ours, theirs = os.pipe() if largest_file is not None else (None, os.open(errors_path, os.O_WRONLY | os.O_APPEND))
    pid = os.fork()
    if pid:
        os.close(theirs)
        if ours is not None:
            os.set_blocking(ours, False)
        return Child(pid, errors_path, note, pipe=ours)
    code = 70
    try:
        os.environ.update({"TMPDIR": str(scratch_of(cwd)), **(environ or {})})
        _become(cwd, errors_path, theirs, largest_file)
        if is_new:
            os.execv(sys.executable, [sys.executable, "-P", "-m", "pybatsched", *args])
        sys.argv[1:] = args
        counter = None if own is None else self_kill.arm(own)
        code = __main__.main()
        sys.stdout.flush()
        sys.stderr.flush()
        if counter is not None:
            counter.finish()
    except BaseException:  # noqa: BLE001  whatever it is, this process ends here
        sys.setprofile(None)
        traceback.print_exc()
        code = 71
    finally:
        os._exit(code)


def _become(cwd: Path, errors_path: Path, errors: int, largest_file: int | None) -> None:
    """Take the place of a process that was started in a directory, with files of its own."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(os.open(errors_path.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(errors, 2)
    sys.stdout = os.fdopen(1, "w")  # pytest may have put another here
    tempfile.tempdir = None
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if largest_file is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # Python does not detect that it wrote only a part of a file of bytecode.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """Run a pybatsched command to its end, in another process: this one forks, and must not use polars itself.

    A fork has no threads, for example those of polars, and hangs as soon as it waits for one.
    """
    with tempfile.TemporaryDirectory(prefix="crashes-") as folder:
        place = Path(folder) / "run"
        place.mkdir()
        child = start(args, place, is_new=len(list(Path("/proc/self/task").iterdir())) > 1)
        code = child.ended()
        return subprocess.CompletedProcess(args, code, child.errors_path.with_suffix(".out").read_text(), child.errors)


def scratch_of(cwd: Path) -> Path:
    """Return the directory of temporary files for commands started in a directory."""
    return cwd.with_name(f"{cwd.name}.tmp")


def hooked(plan: Plan) -> dict[str, str]:
    """Return variables that arm each new interpreter."""
    given = os.environ.get("PYTHONPATH")
    places = [str(Path(__file__).with_name("hook")), str(_TESTS), *([given] if given else [])]
    return {"PYTHONPATH": os.pathsep.join(places), self_kill.VARIABLE: json.dumps(plan)}


def strays() -> list[str]:
    """Wait for processes that our children have left behind, and return those that did not end with them.

    Linux has sent its signal to a child before its dead parent can be waited for, so they end by SIGKILL. Files of the
    dead are closed a moment before that: a worker that waits for a cell may have found the end of its input, and left.
    """
    problems: list[str] = []

    def all_gone() -> bool:
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                code = os.waitstatus_to_exitcode(found[1])
                if code not in {-signal.SIGKILL, 0}:
                    problems.append(f"process {found[0]} outlived its parent and ended with {code}")
        except ChildProcessError:
            return True
        return False

    if happens(all_gone):
        return problems
    for pid in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
        name = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        problems.append(f"process {pid} is left behind: {name:.80}")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return problems
