"""Campaign workers that are forks of their parent: a new interpreter needs most of a second to load all modules."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import IO, Any

from pybatsched.campaign import worker, workers
from reliability import children, self_kill


def use() -> None:
    """Let campaigns of this process use such workers. Everything else is as with new interpreters."""
    setattr(workers, "subprocess", SimpleNamespace(Popen=_started, PIPE=subprocess.PIPE))  # noqa: B010  no such type


def _started(command: Sequence[str], **how: Any) -> Any:
    """Start a worker: a fork if that is possible, else a new interpreter."""
    return subprocess.Popen(command, **how) if children.has_threads() else WarmWorker(command, **how)


class WarmWorker:
    """A worker process; of what `subprocess.Popen` has, what a campaign needs."""

    def __init__(
        self, _command: Sequence[str], *, env: Mapping[str, str], preexec_fn: Callable[[], None], **_how: object
    ) -> None:
        profiler, counted = sys.getprofile(), sys.getprofile() is not None
        sys.setprofile(None)  # we are in no danger before the child is a process of its own: so it is with the real one
        pipes = [os.pipe() for _ in range(4)]
        (in_read, in_write), (out_read, out_write), (err_read, err_write), (ready_read, ready_write) = pipes
        self.pid = os.fork()
        if not self.pid:
            _work((in_read, out_write, err_write), ready_write, env, preexec_fn)
        for fd in (in_read, out_write, err_write, ready_write):
            os.close(fd)
        os.read(ready_read, 1)
        os.close(ready_read)
        self.stdin: IO[bytes] = os.fdopen(in_write, "wb")
        self.stdout: IO[bytes] = os.fdopen(out_read, "rb")
        self.stderr: IO[bytes] = os.fdopen(err_read, "rb")
        self.returncode: int | None = None
        if counted:
            sys.setprofile(profiler)

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end."""
        return self._reap(0)

    def _reap(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _work(fds: Sequence[int], ready: int, env: Mapping[str, str], preexec_fn: Callable[[], None]) -> None:
    """Be a worker, in the child."""
    try:
        os.setsid()
        preexec_fn()
        os.write(ready, b".")
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        os.closerange(3, 1024)  # the locks of the parent among them
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(env)
        tempfile.tempdir = None
        sys.stdin = os.fdopen(0)
        sys.stderr = os.fdopen(2, "w")
        self_kill.arm_by_environment()
        worker.main()
    except BaseException:  # noqa: BLE001  this process ends here
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(0)
