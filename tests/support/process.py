"""The real pybatsched process, and peers that talk to it over a real socket."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self
from unittest import mock

import zmq

from pybatsched import cli
from support.nursery import Forked
from support.patience import PATIENCE_MS, PATIENCE_OF_WORK_S, no_longer_than, wait_until

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}
SCRIPTED = f"{Path(__file__).with_name('scripted.py')}:Scripted"


class Server:
    """A running ``pybatsched`` with a port of its own."""

    def __init__(self, *args: str, endpoint: str = "tcp://127.0.0.1:*", cwd: Path | None = None) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed by __exit__; a file never fills up, as a pipe does
        self._last_words = ""
        self.process = Forked([*args, "--endpoint", endpoint], stderr=self._said, cwd=cwd)
        self.endpoint = ""

    @property
    def errors(self) -> str:
        """All of its standard error so far."""
        if self._said.closed:
            return self._last_words
        fd = self._said.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode()  # where we read must not move where it writes

    def wait_ready(self) -> str:
        """Wait until it listens. Return the endpoint."""
        ready = re.compile(r"waiting for Batsim at (\S+)\n")
        self.wait_until_it_says(ready)
        self.endpoint = ready.findall(self.errors)[0]
        return self.endpoint

    def wait_until_it_says(self, pattern: str | re.Pattern[str]) -> None:
        """Wait for a text in its output."""
        wait_until(lambda: re.search(pattern, self.errors), by=self.process)

    def finish(self) -> int:
        """Wait for the end. Return the exit code; `errors` holds all of standard error."""
        return self.process.finish()

    def send_signal(self, signum: int) -> None:
        self.process.send_signal(signum)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.process.kill()
        self.process.finish()
        self._last_words = self.errors
        self._said.close()


class Peer:
    """A REQ socket, as Batsim has one. Every wait has an end."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        self._socket.setsockopt(zmq.SNDTIMEO, PATIENCE_MS)
        self._socket.connect(endpoint)

    def ask(self, raw: bytes) -> bytes:
        self._socket.send(raw)
        return self._socket.recv()

    def ask_parts(self, *parts: bytes) -> bytes:
        self._socket.send_multipart(parts)
        return self._socket.recv()

    def send(self, raw: bytes) -> None:
        self._socket.send(raw)

    def receive(self) -> bytes:
        return self._socket.recv()

    def vanish(self) -> None:
        self._socket.close()
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.vanish()


def run_process(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a pybatsched command to its end in a process of its own, for claims about processes."""
    command = [sys.executable, "-m", "pybatsched", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=PATIENCE_OF_WORK_S, check=False)


def run_forked(
    *args: str, cwd: Path, largest_file: int | None = None, loads: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a process that starts with all modules loaded."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = Forked(args, stderr=errors, stdout=output.fileno(), cwd=cwd, largest_file=largest_file, loads=loads)
        code = process.finish(PATIENCE_OF_WORK_S)
        both = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (output, errors)]
    return subprocess.CompletedProcess(args, code, *both)


def run_with_little_room(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that draws where no file can have more than 5,000 bytes, as on a full disk."""
    return run_forked(*args, cwd=cwd, largest_file=5_000, loads=("matplotlib.backends.backend_agg",))


_ONE_AFTER_ANOTHER = """
import json, sys
from pybatsched import cli
sys.exit(max(cli.main(args) for args in json.load(sys.stdin)))
"""


def run_elsewhere(commands: Sequence[Sequence[str]], cwd: Path) -> None:
    """Run commands one after another in one other interpreter: it hashes text in another way, and makes the same."""
    program = [sys.executable, "-c", _ONE_AFTER_ANOTHER]
    commands_json = json.dumps(commands)
    subprocess.run(program, input=commands_json, text=True, cwd=cwd, timeout=PATIENCE_OF_WORK_S, check=True)


def run_cli(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a pybatsched command to its end in this process, which has all modules loaded.

    Its output, its exit code and what it does to files are the same as in a process of its own. What would abort the
    process, as Batsim does after a fatal error, has the exit code 134.
    """
    output, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
        contextlib.chdir(cwd or Path.cwd()),
        _nothing_left_behind(),
        mock.patch("pybatsched.cli.batsim._abort", _end_as_aborted),
        no_longer_than(PATIENCE_OF_WORK_S),
    ):
        try:
            code = cli.main(args)
        except SystemExit as stop:  # from argparse
            assert isinstance(stop.code, int)
            code = stop.code
    return subprocess.CompletedProcess(args, code, output.getvalue(), errors.getvalue())


def _end_as_aborted() -> NoReturn:
    raise SystemExit(128 + signal.SIGABRT)


@contextlib.contextmanager
def _nothing_left_behind() -> Iterator[None]:
    """Restore the signal handlers, and remove the modules that a policy file has imported."""
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    path = sys.path[:]
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        places = {Path(place) for place in sys.path if place not in path}
        sys.path[:] = path
        for name, module in list(sys.modules.items()) if places else ():
            if Path(getattr(module, "__file__", None) or os.devnull).parent in places:
                del sys.modules[name]
