"""A conversation without an end, as Batsim would hold it: jobs come and go, and never more than some are alive."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from pybatsched.core import events as e
from pybatsched.protocol import Message, v4

_STARTED = re.compile(rb'"type":"EXECUTE_JOB","data":\{"job_id":"w0!(\d+)"')
_TALK = (
    b'{"now":%.6f,"events":['
    b'{"timestamp":%.6f,"type":"JOB_COMPLETED","data":{"job_id":"w0!%d","job_state":"%s","return_code":%d}},'
    b'{"timestamp":%.6f,"type":"JOB_SUBMITTED","data":{"job_id":"w0!%d","job":{"id":"w0!%d","subtime":%.6f,'
    b'"walltime":%d.0,"res":%d,"profile":"d%d"},"profile":{"type":"delay","delay":%d.0}}}]}'
)
_ENDS = (
    (b"COMPLETED_SUCCESSFULLY", 0),
    (b"COMPLETED_SUCCESSFULLY", 0),
    (b"COMPLETED_FAILED", 1),
    (b"COMPLETED_WALLTIME_REACHED", -1),
)


class LongTalk:
    """Batsim's side: each message ends a job and brings another one, so an exchange is a job.

    Which of the running jobs ends is drawn, so some run long while thousands pass. `ask` is what carries a message.
    """

    def __init__(self, ask: Callable[[bytes], bytes], *, n_alive: int = 100, n_procs: int = 64, seed: int = 1) -> None:
        self._ask = ask
        self._n_alive = n_alive
        self._n_procs = n_procs
        self._random = random.Random(seed).random
        self._now = 0.0
        self._running: list[int] = []
        self.n_submitted = 0
        self.n_ended = 0
        self.n_exchanges = 0

    def begin(self) -> None:
        """Begin the simulation, and have so many jobs alive as there are to be."""
        hosts = tuple(e.Resource(i, f"n{i}", "idle", {}) for i in range(self._n_procs))
        begins = e.SimulationBegins(
            n_resources=self._n_procs,
            n_compute=self._n_procs,
            n_storage=0,
            allow_compute_sharing=False,
            allow_storage_sharing=True,
            config={"profiles-forwarded-on-submission": True},
            compute_resources=hosts,
            storage_resources=(),
            workloads={"w0": "long.json"},
            profiles={"w0": {}},
            timestamp=0.0,
        )
        self._say([begins])
        self._say([self._submission() for _ in range(self._n_alive)])

    def go_on(self, n: int) -> None:
        """Exchange n more messages. Raises RuntimeError if no job runs, which cannot be with a policy that starts."""
        ask, drawn, running, find = self._ask, self._random, self._running, _STARTED.findall
        for _ in range(n):
            if not running:
                raise RuntimeError(f"after {self.n_exchanges} exchanges no job runs")
            self._now = now = self._now + 1.0
            place = int(drawn() * len(running))
            ended, running[place] = running[place], running[-1]
            running.pop()
            self.n_ended += 1
            new = self.n_submitted
            self.n_submitted += 1
            state, code = _ENDS[ended & 3]
            kind = new % 50
            reply = ask(
                _TALK
                % (
                    now,
                    now,
                    ended,
                    state,
                    code,
                    now,
                    new,
                    new,
                    now,
                    60 * kind + 120,
                    1 << (new % 3),
                    kind,
                    60 * kind + 60,
                )
            )
            self.n_exchanges += 1
            running += map(int, find(reply))

    def end(self) -> None:
        """Let all jobs end, and the simulation."""
        while self._running:
            self._now += 1.0
            ended = [
                e.JobCompleted(f"w0!{number}", e.COMPLETED_SUCCESSFULLY, 0, timestamp=self._now)
                for number in self._running
            ]
            self.n_ended += len(ended)
            self._running = []
            self._say(ended)
        self._say([e.SimulationEnds(timestamp=self._now)])

    def _submission(self) -> e.JobSubmitted:
        number = self.n_submitted
        self.n_submitted += 1
        fields = {
            "id": f"w0!{number}",
            "subtime": self._now,
            "walltime": 600.0,
            "res": 1 << (number % 3),
            "profile": "d",
        }
        return e.JobSubmitted(f"w0!{number}", fields, {"type": "delay", "delay": 60.0}, timestamp=self._now)

    def _say(self, events: Sequence[e.Event]) -> None:
        reply = self._ask(v4.encode_events(Message(self._now, tuple(events))))
        self.n_exchanges += 1
        self._running += map(int, _STARTED.findall(reply))
