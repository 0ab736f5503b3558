"""A real Batsim 5 run with a decision component of a few lines, so that its inputs are tried without our scheduler."""

from __future__ import annotations

import csv
import json
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from support.patience import PATIENCE_S

_JSON = (2).to_bytes(4, "little")
_FEATURES = (
    "dynamic_registration",
    "acknowledge_dynamic_jobs",
    "forward_profiles_on_job_submission",
    "forward_profiles_on_jobs_killed",
    "forward_profiles_on_simulation_begins",
)


@dataclass
class BatsimRun:
    """The result of a run. `events` are all events of Batsim, by type and content."""

    exit_code: int
    errors: str
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    jobs: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [content for name, content in self.events if name == kind]


class _FirstFit:
    """Starts jobs in order of submission, each on the first free hosts."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._free: list[int] = []
        self._waiting: list[tuple[str, int]] = []
        self._held: dict[str, list[int]] = {}

    def answer(self, text: bytes) -> bytes:
        message = json.loads(text.rstrip(b"\0"))
        for one in message["events"]:
            kind, content = one["event_type"], one.get("event", {})
            self.events.append((kind, content))
            if kind == "SimulationBeginsEvent":
                self._free = [host["id"] for host in content["computation_hosts"]]
            elif kind == "JobSubmittedEvent":
                self._waiting.append((content["job_id"], content["job"]["resource_request"]))
            elif kind == "JobCompletedEvent":
                self._free = sorted([*self._free, *self._held.pop(content["job_id"])])
        now, decided = message["now"], []
        while self._waiting and self._waiting[0][1] <= len(self._free):
            job, n = self._waiting.pop(0)
            self._held[job], self._free = self._free[:n], self._free[n:]
            hosts = " ".join(map(str, self._held[job]))
            placement = {"strategy": "SpreadOverHostsFirst"}
            kind = "PredefinedExecutorPlacementStrategyWrapper"
            where = {"host_allocation": hosts, "executor_placement_type": kind, "executor_placement": placement}
            started = {"job_id": job, "allocation": where}
            decided.append({"timestamp": now, "event_type": "ExecuteJobEvent", "event": started})
        return json.dumps({"now": now, "events": decided}).encode()


def _serve(socket: zmq.Socket[bytes], decider: _FirstFit, over: threading.Event) -> None:
    hello = {
        "batprotocol_version": "1.0.0",
        "decision_component_name": "first fit",
        "decision_component_version": "1",
        "decision_component_commit": "",
        "requested_simulation_features": dict.fromkeys(_FEATURES, False),
    }
    greeting = {"now": 0.0, "events": [{"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": hello}]}
    is_first = True
    while not over.is_set():
        # patience: the pause between two polls
        if socket.poll(20):
            text = socket.recv()
            socket.send(_JSON + json.dumps(greeting).encode() if is_first else decider.answer(text))
            is_first = False


def run_batsim5(directory: Path, *args: str) -> BatsimRun:
    """Run batsim5 in a directory with these arguments; its outputs go to out/."""
    decider, over = _FirstFit(), threading.Event()
    endpoint = f"ipc://{directory}/edc"
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(endpoint)
        thread = threading.Thread(target=_serve, args=(socket, decider, over))
        thread.start()
        try:
            done = subprocess.run(
                ["batsim5", "-s", endpoint, "", "-e", "out/", *args],
                cwd=directory,
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
            )
        finally:
            over.set()
            thread.join(PATIENCE_S)
    table = directory / "out" / "jobs.csv"
    rows = list(csv.DictReader(table.read_text().splitlines())) if table.exists() else []
    errors = done.stderr.decode(errors="replace")
    return BatsimRun(done.returncode, errors, decider.events, {row["job_id"]: row for row in rows})
