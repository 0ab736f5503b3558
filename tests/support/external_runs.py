"""Run a scheduler of the tests with the embedded simulator or with the real Batsim."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import zmq

from support.fuzzer import Fuzzer
from support.patience import PATIENCE_S

SIMULATE = [sys.executable, "-m", "pybatsched", "simulate", "--external", "--timeout", f"{PATIENCE_S:g}", "--quiet"]
LOOK_MS = 100


def serve(socket: zmq.Socket[bytes], fuzzer: Fuzzer) -> None:
    while not fuzzer.finished:
        if socket.poll(LOOK_MS):
            socket.send(fuzzer.handle(socket.recv()))


def exit_code_of(command: list[str], directory: Path, fuzzer: Fuzzer) -> int:
    """Let a simulator and the fuzzer talk to the end. Return the simulator's exit code."""
    return run_to_end(command, directory, fuzzer).returncode


def run_to_end(command: list[str], directory: Path, fuzzer: Fuzzer) -> subprocess.CompletedProcess[str]:
    """Let a simulator and the fuzzer talk to the end. Return the simulator's exit code and what it printed."""
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        thread = threading.Thread(target=serve, args=(socket, fuzzer))
        thread.start()
        done = subprocess.run(
            [*command, "-s", f"tcp://127.0.0.1:{port}"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        fuzzer.finished = True
        thread.join(PATIENCE_S)
    return done


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is documented to differ: paths, and profiles that no job needs (kept by Batsim's hash order)."""
    for event in message["events"]:
        if event["type"] == "SIMULATION_BEGINS":
            del event["data"]["workloads"], event["data"]["profiles"]
    return message
