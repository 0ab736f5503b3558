"""Run a scheduler with a real Batsim: start and stop both, and collect the result of every job."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pybatsched.core.engine import Engine
from pybatsched.core.jobs import JobState
from pybatsched.errors import InputError, PeerLostError, setting
from pybatsched.live.batsim import Child, Launcher
from pybatsched.live.server import ServerOptions, serve
from pybatsched.metrics import Tally, jobs_csv
from pybatsched.metrics.summary import Result, Stuck, from_engine
from pybatsched.session.diagnosis import diagnose, why_waiting_text
from pybatsched.session.session import Session

_NOT_WRITTEN: Final = "it has no row in {}, so Batsim lost it"


class _BatsimEndedError(PeerLostError):
    """Batsim ended before the simulation."""


@dataclass(slots=True)
class Supervisor:
    """Runs a Batsim (Batsim 5 if `is_five`) for a session. `log` gets its output, `say` messages for the user."""

    session: Session
    launcher: Launcher
    arguments: Sequence[str]
    log: Path
    timeout_s: float
    say: Callable[[str], None]
    first_timeout_s: float = 0.0
    is_five: bool = False
    _child: Child | None = field(default=None, init=False)

    def run(self) -> bool:
        """Run to the end; return False after a deadlock. Raises InputError, PeerLostError, and as `serve`."""
        with tempfile.TemporaryDirectory(prefix="pybatsched-") as folder:
            # A socket file needs no port; a container can always be reached by TCP.
            endpoint = "tcp://127.0.0.1:*" if self.launcher.container else f"ipc://{folder}/socket"
            try:
                options = ServerOptions(endpoint, self.timeout_s, self.first_timeout_s, look=self._look)
                serve(self.session, options, self._start)
                self._await_end()
            except _BatsimEndedError as error:
                if not self.session.engine.began:
                    raise InputError(f"Batsim did not start: {error}") from None
                if not self._is_deadlock():
                    raise PeerLostError(f"{error}\n{diagnose(self.session.engine)}") from None
                return False
            finally:
                if self._child is not None:
                    self._child.stop()
        return True

    def _start(self, endpoint: str) -> None:
        socket = ["-s", endpoint, ""] if self.is_five else ["--socket-endpoint", endpoint]
        self._child = Child(self.launcher, [*self.arguments, *socket], self.log)
        self.say(f"{self.launcher.shown} started; its output is in {self.log}")

    def _look(self) -> None:
        code = None if self._child is None else self._child.exit_code()
        if code is not None:
            raise _BatsimEndedError(self._ended(code))

    def _ended(self, code: int) -> str:
        excerpt = "" if self._child is None else self._child.log_excerpt()
        after = f"after message {self.session.n_messages}" if self.session.n_messages else "before its first message"
        return f"Batsim ended with exit code {code} {after}. Its output ({self.log}):\n{excerpt}"

    def _await_end(self) -> None:
        """Wait until Batsim has written its files after the end of the simulation."""
        code = None if self._child is None else self._child.wait(self.timeout_s)
        if code is None:
            raise PeerLostError(
                f"Batsim is still running {self.timeout_s:g} s after the end of the simulation ({setting('timeout')})"
            )
        if code:
            raise PeerLostError(self._ended(code))

    def _is_deadlock(self) -> bool:
        """Return whether Batsim ended with a deadlock: exit code 0, or a deadlock in its log (SimGrid 3.25)."""
        return self._child is not None and (self._child.exit_code() == 0 or self._child.has_deadlocked())


def result_of(
    session: Session, finished: bool, jobs: Path, shown: str, expected: Iterable[str], *, tally: Tally
) -> Result:
    """Return the result of a run; jobs without a row, or alive after a deadlock, are unfinished. O(jobs)."""
    seen = set()
    for outcome in jobs_csv.read(jobs) if finished else jobs_csv.read_partial(jobs):
        tally.add(outcome)
        seen.add(outcome.id)
    engine = session.engine
    stuck = [] if finished else _stuck(engine)
    known = seen | {job.job_id for job in stuck}
    for job_id in expected:
        if job_id not in known and (finished or engine.jobs.finished.outcome(job_id) is None):
            why = _NOT_WRITTEN.format(shown) if finished else "Batsim never submitted it"
            stuck.append(Stuck(job_id, 0, 0.0, why))
    return Result(
        finished=finished and not stuck,
        ended_at=engine.now,
        n_messages=session.n_messages,
        figures=tally.figures(engine.cluster.n_procs, (job.job_id for job in stuck)),
        stuck=tuple(stuck),
        remarks=engine.remarks,
        **from_engine(engine),
    )


def _stuck(engine: Engine) -> list[Stuck]:
    found = []
    for job in engine.jobs.alive.values():
        if job.state is JobState.RUNNING:
            why = "it is running, and no event will end it"
        elif job.state is JobState.HELD:
            why = f"it is held on {job.procs} and would start at {job.start_at}"
        else:
            why = f"the scheduler has not started it: {why_waiting_text(engine, job, engine.now)}"
        found.append(Stuck(job.id, job.n_procs, job.submitted_at, why))
    return found
