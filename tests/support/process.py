"""The real pybatsched process, and peers that talk to it over a real socket."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import zmq


class Server:
    """A running ``pybatsched`` with a port of its own."""

    def __init__(self, *args: str, endpoint: str = "tcp://127.0.0.1:*", cwd: Path | None = None) -> None:
        command = [sys.executable, "-m", "pybatsched", *args, "--endpoint", endpoint]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd)
        self.errors = ""
        self.endpoint = ""

    def wait_ready(self) -> str:
        """Wait until it listens. Gives the endpoint."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line
            if match := re.search(r"waiting for Batsim at (\S+)", line):
                self.endpoint = match[1]
                return self.endpoint
        raise AssertionError(f"the server did not come up: {self.errors}")

    def finish(self, timeout: float = 20.0) -> int:
        """Wait for the end. Gives the exit code; `errors` holds all it said."""
        _, errors = self.process.communicate(timeout=timeout)
        self.errors += errors
        return self.process.returncode

    def send_signal(self, signum: int) -> None:
        self.process.send_signal(signum)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Peer:
    """A REQ socket, as Batsim has one. Every wait has an end."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, 20_000)
        self._socket.setsockopt(zmq.SNDTIMEO, 20_000)
        self._socket.connect(endpoint)

    def ask(self, raw: bytes) -> bytes:
        self._socket.send(raw)
        return self._socket.recv()

    def ask_parts(self, *parts: bytes) -> bytes:
        self._socket.send_multipart(parts)
        return self._socket.recv()

    def send(self, raw: bytes) -> None:
        self._socket.send(raw)

    def vanish(self) -> None:
        self._socket.close()
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.vanish()


def run_cli(*args: str, cwd: Path | None = None, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run a pybatsched command to its end."""
    command = [sys.executable, "-m", "pybatsched", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout, check=False)


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}
SCRIPTED = f"{Path(__file__).with_name('scripted.py')}:Scripted"
