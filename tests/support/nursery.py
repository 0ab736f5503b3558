"""Processes that begin with all modules loaded: a new interpreter needs most of a second to load them, a fork does not.

One process of this module, the nursery, has loaded `pybatsched` and does nothing but fork. Each fork is a process like
``python -m pybatsched``, with signals, files, an exit code and an end of its own.
"""

from __future__ import annotations

import array
import functools
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from support.patience import PATIENCE_S

_MAX_BYTES = 2**20  # of arguments and environment


class Forked:
    """A ``pybatsched`` that the nursery has started; of what `subprocess.Popen` has, what tests need."""

    def __init__(
        self,
        args: Sequence[str],
        *,
        stderr: IO[bytes],
        stdout: int | None = None,
        cwd: Path | None = None,
        largest_file: int | None = None,
        loads: Sequence[str] = (),
    ) -> None:
        """Start it: where no file may have more bytes than the `largest_file`, and with more modules that are there."""
        self.returncode: int | None = None
        self._news, news = os.pipe()
        request: dict[str, Any] = {"args": list(args), "cwd": str(cwd or Path.cwd()), "env": dict(os.environ)}
        request |= {"largest_file": largest_file, "loads": list(loads)}
        fds = [stderr.fileno(), news, *([] if stdout is None else [stdout])]
        socket.send_fds(_nursery().channel, [json.dumps(request).encode()], fds)
        os.close(news)
        self.pid = self._receive()

    def _receive(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for the next number from its parent: its process id, then its wait status."""
        ready, _, _ = select.select([self._news], [], [], patience_s)
        if not ready:
            raise subprocess.TimeoutExpired("a process of the nursery", patience_s)
        (number,) = array.array("i", os.read(self._news, array.array("i").itemsize))
        return number

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        if self.returncode is None and select.select([self._news], [], [], 0)[0]:
            self.finish()
        return self.returncode

    def finish(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for the end, for so long at most. Return the exit code."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(self._receive(patience_s))
            os.close(self._news)
        return self.returncode

    def send_signal(self, signum: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class _Nursery:
    """Our end of the nursery."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._scratch = tempfile.TemporaryDirectory()
        env = dict(os.environ)
        if not os.access(Path.home(), os.W_OK):  # or a fork would remove the caches of matplotlib
            env.setdefault("MPLCONFIGDIR", self._scratch.name)
        with theirs:
            command = [sys.executable, "-m", "support.nursery", str(theirs.fileno())]
            folder = Path(__file__).parents[1]
            self._process = subprocess.Popen(command, cwd=folder, pass_fds=[theirs.fileno()], env=env)

    def close(self) -> None:
        self.channel.close()
        self._process.wait(PATIENCE_S)
        self._scratch.cleanup()


@functools.cache
def _nursery() -> _Nursery:
    return _Nursery()


def close() -> None:
    """Close the nursery, if there is one."""
    if _nursery.cache_info().currsize:
        _nursery().close()
        _nursery.cache_clear()


def _tend(channel: socket.socket) -> int:
    """Fork for every request until the channel is closed. In a fork: run the command and give its exit code."""
    from pybatsched import __main__, cli
    from pybatsched.policies import registry

    cli.build_parser()
    registry.available()
    gc.freeze()  # what a fork never collects, it does not have to copy
    keepers: list[int] = []
    while True:
        raw, fds, _, _ = socket.recv_fds(channel, _MAX_BYTES, 3)
        if not raw:
            for keeper in keepers:
                os.waitpid(keeper, 0)
            return 0
        request = json.loads(raw)
        for name in request["loads"]:
            importlib.import_module(name)
        keeper = os.fork()
        if not keeper:
            channel.close()
            _become(request, *fds)
            return __main__.main()
        keepers.append(keeper)
        for fd in fds:
            os.close(fd)


def _become(request: dict[str, Any], stderr: int, news: int, stdout: int | None = None) -> None:
    """Fork again: one process waits for the other and reports its end. The other runs the requested command."""
    pid = os.fork()
    if pid:
        os.write(news, array.array("i", [pid]))
        _, status = os.waitpid(pid, 0)
        os.write(news, array.array("i", [status]))
        os._exit(0)
    os.close(news)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0 if stdout is None else stdout, 1)
    os.dup2(stderr, 2)
    for fd in (stderr, *([] if stdout is None else [stdout])):
        os.close(fd)
    if request["largest_file"] is not None:
        sys.dont_write_bytecode = True  # Python does not detect that it wrote only a part of a file
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"], request["largest_file"]))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]  # as with python -m
    sys.argv[1:] = request["args"]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for pytest, which closes the channel
    sys.exit(_tend(socket.socket(fileno=int(sys.argv[1]))))
