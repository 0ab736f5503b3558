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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.patience import PATIENCE_S

from pybatsched import __main__
from reliability import self_kill
from reliability.self_kill import Plan

_TESTS: Final = Path(__file__).parents[1]
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
_LOOK_S: Final = 0.005


def adopt_orphans() -> None:
    """Become the parent of processes that our children leave behind, so that none is missed."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)


def comes(happened: Callable[[], object], within_s: float = PATIENCE_S) -> bool:
    """Wait until something has happened; False if that takes too long."""
    # patience: a limit of PATIENCE_S, or a time that may be of any length
    give_up_at = time.monotonic() + within_s
    while not happened():
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

    def ended(self) -> int | None:
        """Wait for its end, for PATIENCE_S at most. Return its exit code; None if it has not come by then."""
        comes(lambda: self.poll() is not None)
        return self.code

    def waits_until_printed(self, text: str) -> bool:
        """Wait until it has printed a text; return False if it ends without."""
        comes(lambda: text in self.errors or self.poll() is not None)
        return text in self.errors

    def kill(self) -> None:
        """Kill it from outside, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.ended()

    @property
    def errors(self) -> str:
        """All of its standard error so far."""
        if self.pipe is not None:
            with contextlib.suppress(BlockingIOError), self.errors_path.open("ab") as file:
                while lines := os.read(self.pipe, 65536):
                    file.write(lines)
        return self.errors_path.read_text(errors="replace") if self.errors_path.exists() else ""

    @property
    def notes(self) -> dict[str, Any]:
        """Its notes on its end or its counts; empty if it was killed from outside."""
        return noted_in(self.note)


def noted_in(path: Path) -> dict[str, Any]:
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
    room: int | None = None,
    environ: dict[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Child:
    """Start a pybatsched command, as a fork of this process or as a new interpreter (`is_new`).

    Its output goes to files beside `cwd`, and so do its notes. With `room` no file of it may have more bytes than that:
    then its errors go to a pipe, which is not a file. A fork calls `before` first.
    """
    errors_path, note = (cwd.with_name(f"{cwd.name}.{name}.{what}") for what in ("err", "note"))
    for path in (errors_path, note):
        path.unlink(missing_ok=True)
    errors_path.touch()
    scratch_of(cwd).mkdir(exist_ok=True)
    own: Plan | None = None if plan is None else {"note": str(note), **plan}
    ours, theirs = os.pipe() if room is not None else (None, os.open(errors_path, os.O_WRONLY | os.O_APPEND))
    pid = os.fork()
    if pid:
        os.close(theirs)
        if ours is not None:
            os.set_blocking(ours, False)
        return Child(pid, errors_path, note, pipe=ours)
    code = 70
    try:
        os.dup2(theirs, 2)
        _become(cwd, errors_path, room)
        os.environ.update({"TMPDIR": str(scratch_of(cwd)), **(environ or {})})
        tempfile.tempdir = None
        if is_new:
            _be_new(args, own)
        sys.argv[1:] = args
        if before is not None:
            before()
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


def has_threads() -> bool:
    """Return whether this process has threads, for example those of polars.

    A fork has none of them, and hangs as soon as it waits for one.
    """
    return len(list(Path("/proc/self/task").iterdir())) > 1


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """Run a pybatsched command to its end, in another process: this one forks, and must not use polars itself."""
    with tempfile.TemporaryDirectory(prefix="crashes-") as folder:
        place = Path(folder) / "run"
        place.mkdir()
        child = start(args, place, is_new=has_threads())
        code = child.ended()
        child.kill()
        output = child.errors_path.with_suffix(".out").read_text(errors="replace")
        return subprocess.CompletedProcess(args, 1 if code is None else code, output, child.errors)


def scratch_of(cwd: Path) -> Path:
    """Return the directory of temporary files for commands started in a directory."""
    return cwd.with_name(f"{cwd.name}.tmp")


def _become(cwd: Path, errors_path: Path, room: int | None) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(os.open(errors_path.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    sys.stdout = os.fdopen(1, "w")  # pytest may have put another here
    os.chdir(cwd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if room is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # Python does not detect that it wrote only a part of a file of bytecode.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


def _be_new(args: Sequence[str], plan: Plan | None) -> None:
    environ = dict(os.environ)
    if plan is not None:
        environ |= hooked(plan)
    os.execve(sys.executable, [sys.executable, "-P", "-m", "pybatsched", *args], environ)


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

    return problems if comes(all_gone) else [*problems, *_end_strays()]


def _end_strays() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            name = path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError):
            continue
        if parent == os.getpid():
            found.append(f"process {path.parent.name} is left behind: {name:.80}")
            os.kill(int(path.parent.name), signal.SIGKILL)
            os.waitpid(int(path.parent.name), 0)
    return found


def seconds_of(args: Sequence[str], cwd: Path) -> float:
    """Measure how long a command takes in an interpreter of its own."""
    # patience: measured and reported only
    began_at = time.monotonic()
    code = start(args, cwd, "seconds", is_new=True).ended()
    assert code == 0, code
    # patience: measured and reported only
    return time.monotonic() - began_at
