"""The state of the machine: which processors are idle, computing or unavailable, and for how long.

There are two classes with the same interface. `CountingBook` keeps counts and interval sets, for ordinary runs: its
cost does not depend on the number of processors of a job. `HostBook` keeps the state of every host, for runs with
shared processors, machine events or energy. The tests check the first against the second.

As in Batsim, time in a state is added when a host leaves the state, so the last state of a host is never counted.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final, TypeAlias

from pybatsched.core.intervals import EMPTY, IntervalSet


class HostState(enum.Enum):
    """The state of a host, with Batsim's names."""

    SLEEPING = "sleeping"
    IDLE = "idle"
    COMPUTING = "computing"
    SWITCHING_ON = "switching_on"
    SWITCHING_OFF = "switching_off"
    UNAVAILABLE = "unavailable"

    __hash__ = object.__hash__  # that of Enum is slow


#: The columns of ``_machine_states.csv``, in order.
SHOWN_STATES: Final = (
    HostState.SLEEPING,
    HostState.SWITCHING_ON,
    HostState.SWITCHING_OFF,
    HostState.IDLE,
    HostState.COMPUTING,
)


_PS: Final = 1e12
_USABLE: Final = frozenset({HostState.IDLE, HostState.COMPUTING})
_DOES_NOT_EXIST: Final = "does not exist"
_MANY_CHANGES: Final = 4096
_BUSY: Final = b"\1"
_COMPUTES: Final = "is currently computing jobs ({}), and sharing is off"


class CountingBook:
    """Counts only: every processor is idle or computes one job. O(k) per start and end of a job."""

    def __init__(self, n_procs: int) -> None:
        self._busy = bytearray(n_procs)
        self._n_procs = n_procs
        self._n_computing = 0
        self._computing_ps = 0  # whole picoseconds: sums over a long run stay exact
        self._running: dict[str, tuple[int, IntervalSet]] = {}
        self._changes: list[tuple[int, IntervalSet]] = []  # when which processors became idle, later ones last
        self._n_keep = _MANY_CHANGES

    def start(self, job: str, procs: IntervalSet, now: float) -> None:
        """Record that a job starts to compute on these processors."""
        for start, stop in procs.intervals():
            self._busy[start:stop] = _BUSY * (stop - start)
        self._n_computing += len(procs)
        self._running[job] = (round(now * _PS), procs)

    def end(self, job: str, procs: IntervalSet, now: float) -> None:
        """Record that a job has released these processors."""
        for start, stop in procs.intervals():
            self._busy[start:stop] = bytes(stop - start)
        n, now_ps = len(procs), round(now * _PS)
        self._n_computing -= n
        self._computing_ps += n * (now_ps - self._running.pop(job)[0])
        self._changes.append((now_ps, procs))
        if len(self._changes) > self._n_keep:
            self._changes = _visible(self._changes, self._n_procs)
            self._n_keep = max(_MANY_CHANGES, 2 * len(self._changes))

    def blocked(self, procs: IntervalSet) -> tuple[int, str] | None:
        """Return a processor that cannot take a job now, and why; None if all can."""
        if procs.highest >= self._n_procs:
            return (procs - IntervalSet.span(0, self._n_procs)).lowest, _DOES_NOT_EXIST
        for start, stop in procs.intervals():
            busy = self._busy.find(_BUSY, start, stop)
            if busy >= 0:
                job = next(job for job, (_, taken) in self._running.items() if busy in taken)
                return busy, _COMPUTES.format(job)
        return None

    def is_unavailable(self, host: int) -> bool:
        """Return whether a host is unavailable: none is, in such a run."""
        del host
        return False

    def counts_text(self) -> str:
        """Return the number of hosts in each of `SHOWN_STATES`, as columns of a CSV file."""
        return f"0,0,0,{self._n_procs - self._n_computing},{self._n_computing}"

    def times_s(self) -> dict[HostState, float]:
        """Return the host-seconds spent in each state, up to the last change of state of each host."""
        changes = self._changes + sorted(self._running.values(), key=lambda change: change[0])
        closed_ps = sum(now_ps * len(procs) for now_ps, procs in _visible(changes, self._n_procs))
        times = dict.fromkeys(HostState, 0.0)
        times[HostState.COMPUTING] = self._computing_ps / _PS
        times[HostState.IDLE] = (closed_ps - self._computing_ps) / _PS
        return times


def _visible(changes: list[tuple[int, IntervalSet]], n_procs: int) -> list[tuple[int, IntervalSet]]:
    """Reduce each change to the processors that have not changed since. O(changes), less on a busy machine."""
    kept: list[tuple[int, IntervalSet]] = []
    covered = EMPTY
    n_hidden = n_procs
    for now_ps, procs in reversed(changes):
        seen = procs - covered
        if seen:
            kept.append((now_ps, seen))
            covered = covered | seen
            n_hidden -= len(seen)
            if not n_hidden:
                break  # all earlier changes are covered
    kept.reverse()
    return kept


class HostBook:
    """The state of every host. O(n) per start and end for the n processors of a job."""

    def __init__(self, n_procs: int, *, shared: bool = False, n_storage: int = 0, storage_shared: bool = True) -> None:
        n_hosts = n_procs + n_storage
        self.states = [HostState.IDLE] * n_hosts
        self.jobs: list[dict[str, None]] = [{} for _ in range(n_hosts)]
        self._n_procs = n_procs
        self._shared = shared
        self._storage_shared = storage_shared
        self._since = [0.0] * n_hosts
        self._counts = Counter({HostState.IDLE: n_procs})
        self._times = dict.fromkeys(HostState, 0.0)

    def n_away(self, n_procs: int) -> int:
        """Return the number of processors that can take no job even when idle: unavailable, asleep or switching."""
        return sum(state not in _USABLE for state in self.states[:n_procs])

    def change(self, host: int, state: HostState, now: float) -> None:
        """Change the state of a host."""
        old = self.states[host]
        self._times[old] += now - self._since[host]
        self._counts[old] -= 1
        self._counts[state] += 1
        self.states[host] = state
        self._since[host] = now

    def start(self, job: str, procs: IntervalSet, now: float) -> None:
        """Record that a job starts to compute on these processors."""
        for host in procs:
            self.change(host, HostState.COMPUTING, now)
            self.jobs[host][job] = None

    def end(self, job: str, procs: IntervalSet, now: float) -> None:
        """Record that a job has released these processors. Unavailable ones stay unavailable."""
        for host in procs:
            del self.jobs[host][job]
            if not self.jobs[host] and self.states[host] is not HostState.UNAVAILABLE:
                self.change(host, HostState.IDLE, now)

    def blocked(self, procs: IntervalSet) -> tuple[int, str] | None:
        """Return a processor that cannot take a job now, and why; None if all can."""
        for host in procs:
            if host >= len(self.states):
                return host, _DOES_NOT_EXIST
            if self.jobs[host] and not (self._shared if host < self._n_procs else self._storage_shared):
                return host, _COMPUTES.format(", ".join(self.jobs[host]))
        for host in procs:
            state = self.states[host]
            if state not in _USABLE:
                return host, f"cannot compute jobs now: it is {state.value}"
        return None

    def is_unavailable(self, host: int) -> bool:
        """Return whether a host is unavailable."""
        return self.states[host] is HostState.UNAVAILABLE

    def counts_text(self) -> str:
        """Return the number of hosts in each of `SHOWN_STATES`, as columns of a CSV file."""
        return ",".join(str(self._counts[state]) for state in SHOWN_STATES)

    def times_s(self) -> dict[HostState, float]:
        """Return the host-seconds spent in each state, up to the last change of state of each host."""
        return dict(self._times)


#: The state of the machine.
Book: TypeAlias = CountingBook | HostBook
