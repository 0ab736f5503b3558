"""Programs with Batsim's command line, run with a scheduler that sends recorded replies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq

from support.patience import PATIENCE_MS, PATIENCE_OF_WORK_S
from support.recordings import Recording

#: The embedded simulator in Batsim's place.
DROP_IN = (sys.executable, "-m", "pybatsched", "batsim")
LOOPBACK = "tcp://127.0.0.1"
LOOK_MS = 100


class Scheduler:
    """A scheduler that sends recorded replies to any messages, and disconnects when it has no more."""

    def __init__(self, replies: Sequence[bytes]) -> None:
        self._replies = replies
        self.requests: list[bytes] = []

    @contextmanager
    def listening(self) -> Iterator[str]:
        context = zmq.Context()
        self._socket = context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        port = self._socket.bind_to_random_port(LOOPBACK)
        try:
            yield f"{LOOPBACK}:{port}"
        finally:
            self._socket.close()
            context.term()

    def waits(self) -> bool:
        """Return whether there is a message, or will be immediately."""
        return bool(self._socket.poll(LOOK_MS))

    def receive(self) -> bytes:
        """Wait for a message, and answer nothing."""
        assert self._socket.poll(PATIENCE_MS)
        return bytes(self._socket.recv())

    def send(self, reply: bytes) -> None:
        """Reply to the received message."""
        self._socket.send(reply)

    def answer(self, process: subprocess.Popen[Any] | None = None) -> None:
        """Reply until the process has ended."""
        for reply in self._replies:
            while not self._socket.poll(PATIENCE_MS if process is None else LOOK_MS):
                if process is None or (process.poll() is not None and not self.waits()):
                    return
            self.requests.append(self._socket.recv())
            self._socket.send(reply)


def run_beside(
    source: Recording, prefix: Path, *more: str, program: Sequence[str] = DROP_IN
) -> tuple[subprocess.CompletedProcess[str], Scheduler]:
    """Run a program with Batsim's command line beside the recorded scheduler."""
    scheduler = Scheduler(source.replies)
    with scheduler.listening() as endpoint:
        command = [*program, *source.args, "-s", endpoint, "-e", str(prefix), *more]
        process = subprocess.Popen(
            command, cwd=source.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        scheduler.answer(process)
        error_output, errors = process.communicate(timeout=PATIENCE_OF_WORK_S)
    return subprocess.CompletedProcess(command, process.returncode, error_output, errors), scheduler
