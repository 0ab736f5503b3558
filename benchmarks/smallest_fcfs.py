"""The smallest useful scheduler: FCFS with msgspec and a REP socket, as the lower bound of a scheduler in Python.

    python benchmarks/smallest_fcfs.py

It checks nothing, and knows only what Batsim 4 sends for delays. `benchmarks/exchanges.py` measures it.
"""

from __future__ import annotations

import sys
from collections import deque

import msgspec
import zmq


class Fields(msgspec.Struct):
    """The fields of a job that are used."""

    res: int


class Data(msgspec.Struct):
    """The members of all events that are used."""

    job_id: str = ""
    job: Fields | None = None
    nb_resources: int = 0


class Event(msgspec.Struct):
    """One event."""

    type: str
    data: Data


class Message(msgspec.Struct):
    """One message of Batsim."""

    now: float
    events: list[Event]


class SmallestFcfs:
    """Starts jobs in order of submission, each on any free processors."""

    def __init__(self) -> None:
        self.finished = False
        self._decode = msgspec.json.Decoder(Message).decode
        self._encode = msgspec.json.Encoder().encode
        self._free: list[int] = []
        self._queue: deque[tuple[str, int]] = deque()
        self._running: dict[str, list[int]] = {}

    def handle(self, raw: bytes) -> bytes:
        """Return the reply to a message."""
        message = self._decode(raw)
        now, free, queue = message.now, self._free, self._queue
        for event in message.events:
            data = event.data
            if event.type == "JOB_SUBMITTED" and data.job is not None:
                queue.append((data.job_id, data.job.res))
            elif event.type == "JOB_COMPLETED":
                free += self._running.pop(data.job_id)
            elif event.type == "SIMULATION_BEGINS":
                free += range(data.nb_resources)
            elif event.type == "SIMULATION_ENDS":
                self.finished = True
        decisions = []
        while queue and queue[0][1] <= len(free):
            job_id, n = queue.popleft()
            self._running[job_id] = taken = free[-n:]
            del free[-n:]
            started = {"job_id": job_id, "alloc": " ".join(map(str, taken))}
            decisions.append({"timestamp": now, "type": "EXECUTE_JOB", "data": started})
        return self._encode({"now": now, "events": decisions})


def main() -> None:
    """Serve until the simulation has ended."""
    socket = zmq.Context().socket(zmq.REP)
    socket.bind(sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:*")
    print("waiting for Batsim at", socket.getsockopt_string(zmq.LAST_ENDPOINT), file=sys.stderr, flush=True)
    scheduler = SmallestFcfs()
    while not scheduler.finished:
        socket.send(scheduler.handle(socket.recv()))
    socket.close(1000)


if __name__ == "__main__":
    main()
