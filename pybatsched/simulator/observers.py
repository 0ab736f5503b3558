"""What sees a run and does not change it: files, figures, progress. A run has a list of observers, perhaps empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.metrics import Outcome, Tally
    from pybatsched.simulator.hosts import Book
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.options import Scenario


class Observer:
    """Sees a run. Override the methods for the events that you need: the others cost nothing."""

    @contextmanager
    def opened(self, scenario: Scenario, book: Book) -> Iterator[None]:
        """Enclose the run: what comes after the `yield` is also done after an error, if it is in a `finally`."""
        del scenario, book
        yield

    def sending(self, now: float, n_finished: int) -> None:
        """See a message to the scheduler. So many jobs have finished."""

    def started(self, job: SimJob, now: float) -> None:
        """See a job that has got its processors."""

    def released(self, job: SimJob, now: float) -> None:
        """See a job that has released its processors."""

    def machines_changed(self, now: float) -> None:
        """See new states of machines, also after each start and release."""

    def pstate_changed(self, now: float, hosts: IntervalSet, pstate: int) -> None:
        """See the new pstate of hosts; -1 means switching on, -2 switching off."""

    def energy_read(self, now: float, joules: float, kind: str, watts_min: float) -> None:
        """See the energy so far; `kind` is s (a start), e (an end) or p (a change of pstate)."""

    def finished(self, job: SimJob, outcome: Outcome) -> None:
        """See a job that has finished or was rejected, when its end is announced."""

    def run_ended(self, now: float, joules: float, n_switches: tuple[int, int]) -> None:
        """See the end of the run, its energy, and the numbers of pstate requests and of hosts in them."""


class Observers:
    """The observers of a run. For each event there are the methods that are overridden, in the order of the list."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = observers
        self.sending: Sequence[Callable[[float, int], None]] = self._methods("sending")
        self.started: Sequence[Callable[[SimJob, float], None]] = self._methods("started")
        self.released: Sequence[Callable[[SimJob, float], None]] = self._methods("released")
        self.machines_changed: Sequence[Callable[[float], None]] = self._methods("machines_changed")
        self.pstate_changed: Sequence[Callable[[float, IntervalSet, int], None]] = self._methods("pstate_changed")
        self.energy_read: Sequence[Callable[[float, float, str, float], None]] = self._methods("energy_read")
        self.finished: Sequence[Callable[[SimJob, Outcome], None]] = self._methods("finished")
        self.run_ended: Sequence[Callable[[float, float, tuple[int, int]], None]] = self._methods("run_ended")

    def _methods(self, name: str) -> Sequence[Any]:
        return [getattr(one, name) for one in self._all if getattr(type(one), name) is not getattr(Observer, name)]

    @contextmanager
    def opened(self, scenario: Scenario, book: Book) -> Iterator[None]:
        """Enclose the run."""
        with ExitStack() as stack:
            for one in self._all:
                stack.enter_context(one.opened(scenario, book))
            yield


class Counting(Observer):
    """Counts the finished jobs in a tally."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def finished(self, job: SimJob, outcome: Outcome) -> None:
        """Count a job. O(1)."""
        del job
        self.tally.add(outcome)


class Watching(Observer):
    """Calls a function before each message to the scheduler, with the clock and the number of finished jobs."""

    def __init__(self, progress: Callable[[float, int], None]) -> None:
        self._progress = progress

    def sending(self, now: float, n_finished: int) -> None:
        """Call the function."""
        self._progress(now, n_finished)
