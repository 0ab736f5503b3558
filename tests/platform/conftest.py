"""Platforms as text, and what the real Batsim makes of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq


@pytest.fixture(scope="session")
def begins() -> Iterator[Callable[..., dict[str, Any] | None]]:
    """Run Batsim on a platform until it speaks. The function gives SIMULATION_BEGINS' data, None if Batsim refused."""
    context = zmq.Context()
    directory = Path(tempfile.mkdtemp())

    def run(text: str, *args: str) -> dict[str, Any] | None:
        (directory / "platform.xml").write_text(text, encoding="utf-8")
        with context.socket(zmq.REP) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            endpoint = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
            # Dynamic jobs, because Batsim ends at once where there are neither jobs nor a chance of any.
            command = [
                "batsim",
                "-p",
                "platform.xml",
                "--enable-dynamic-jobs",
                "-s",
                endpoint,
                "-e",
                "out",
                "-q",
                *args,
            ]
            process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                give_up_at = time.monotonic() + 60
                while not socket.poll(20):
                    if process.poll() is not None:
                        return None
                    assert time.monotonic() < give_up_at, "Batsim neither speaks nor ends"
                return json.loads(socket.recv())["events"][0]["data"]
            finally:
                process.kill()
                process.wait()

    yield run
    context.term()
    shutil.rmtree(directory)
