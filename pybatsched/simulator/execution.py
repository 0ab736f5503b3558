"""What both kernels have in common: the steps of a job, and the notices of starts, ends, kills and calls.

A kernel is a clock with its processes. `pybatsched.simulator.exact` does work of a fixed speed;
`pybatsched.simulator.simgrid` does all work that is shared, metered or communicates.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pybatsched.core import decisions as d, events as e
from pybatsched.simulator import jobs as j
from pybatsched.simulator.work import profiles as w
from pybatsched.simulator.work.profiles import Frame, Work
from pybatsched.simulator.work.usage_traces import check_ranks
from pybatsched.simulator.world import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybatsched.core.intervals import IntervalSet
    from pybatsched.simulator.external_events import ExternalEvent
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.loop import Loop, Process
    from pybatsched.simulator.simgrid.meters import Meters
    from pybatsched.simulator.world import World

#: A part of a process that ends with a return code.
Steps: TypeAlias = Generator[Any, None, int]
#: A function to which a process posts something.
Handler: TypeAlias = Callable[[Any], None]
#: A reply of the scheduler: when it is ready again, and its decisions.
Answer: TypeAlias = "tuple[float, Sequence[d.Decision]]"

#: The shortest delay of a call, as in Batsim.
SHORTEST_CALL_S: Final = 1e-5


class Execution(ABC):
    """Creates the processes of one simulation. The caller counts and spawns them; each uncounts itself at its end."""

    #: The energy meters; None in runs without energy.
    meters: Meters | None = None
    #: What executes SET_RESOURCE_STATE, in a run with energy.
    switch: Callable[[IntervalSet, int], None]

    def __init__(self, world: World, loop: Loop) -> None:
        self._world = world
        self._loop = loop
        self._book = world.book
        self._observers = world.observers

    # --- what a kernel defines ---

    @abstractmethod
    def submit(self, take_jobs: Callable[[], Iterator[SimJob]], submitted: Handler, goodbye: Handler) -> Process:
        """Submit the jobs of a workload, those of one instant in the order of their full ids. O(n log n).

        The jobs are taken one step after the hello, so jobs registered into the workload before that are included.
        """

    @abstractmethod
    def occur(self, events: Iterable[ExternalEvent], occurred: Handler, goodbye: Handler) -> Process:
        """Post external events, which are sorted by time."""

    @abstractmethod
    def run(self, job: SimJob) -> Process:
        """Run a job from its start to the notice of its end."""

    @abstractmethod
    def call(self, at: float) -> Process:
        """Send a requested call to the scheduler."""

    @abstractmethod
    def kill(self, jobs: list[SimJob]) -> Process:
        """Stop the running ones of these jobs now; jobs that have ended are left unchanged."""

    @abstractmethod
    def _sleep(self, span_s: float, left: list[float]) -> Steps:
        """Sleep until the end or the walltime, whichever comes first."""

    @abstractmethod
    def _compute(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Run a parallel task, which succeeds if it takes exactly the remaining walltime, or replay a usage trace."""

    def as_read(self, answer: Answer) -> Answer:
        """Return a reply with its times as this clock reads them."""
        return answer

    @abstractmethod
    def why_varying_refused(self, work: Work) -> str:
        """Return why this kernel does not execute a profile without a fixed speed; empty if it does."""

    def why_refused(self, work: Work) -> str | None:
        """Return why this run cannot execute a profile; None if it can."""
        what = self._world.what_varies(work)
        if work.refusal is not None or not what:
            return work.refusal
        why = self.why_varying_refused(work)
        return f"profile {work.name} ({work.kind}) {what}, which is not simulated {why}" if why else None

    # --- jobs ---

    def started(self, job: SimJob) -> None:
        """Allocate the processors of a job."""
        now = self._loop.now
        self._book.start(job.id, job.alloc, now)
        for started in self._observers.started:
            started(job, now)
        for machines_changed in self._observers.machines_changed:
            machines_changed(now)

    def release(self, job: SimJob) -> None:
        """Release the processors of a job and record its run time."""
        now = self._loop.now
        self._book.end(job.id, job.alloc, now)
        for released in self._observers.released:
            released(job, now)
        for machines_changed in self._observers.machines_changed:
            machines_changed(now)
        job.runtime_s = (now - job.started_at) or j.NO_TIME_S

    def execute(self, job: SimJob, work: Work, left: list[float]) -> Steps:
        """Run a profile until it ends or the remaining walltime, `left[0]`, is used up. `left` is updated."""
        kind = work.kind
        frame = Frame(work, self._loop.now)
        job.trail.append(frame)
        if kind == w.DELAY:
            frame.span_s = work.delay_s
            code = yield from self._sleep(work.delay_s, left)
        elif kind == w.COMPOSED:
            code = yield from self._sequence(job, work, frame, left)
        elif kind == w.SEND:
            yield self._on_message, (job, work.described["msg"])
            code = yield from self._sleep(float(work.described.get("sleeptime", 1e-7)), left)
        elif kind == w.RECV:
            code = yield from self._receive(job, work, frame, left)
        else:
            code = yield from self._compute(job, work, frame, left)
        job.trail.pop()
        return code or work.ret

    def _sequence(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Run the parts one after the other; stop at the first that fails."""
        index = 0
        for _ in range(work.repeat):
            for part in work.parts:
                frame.index = index
                index += 1
                code = yield from self.execute(job, part, left)
                if code:
                    return code
        return 0

    def _receive(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Wait for a message from the scheduler and continue with the profile that it selects."""
        described = work.described
        inbox = job.inbox = job.inbox if job.inbox is not None else deque()
        chosen = described.get("timeout", "")
        while not inbox and not chosen:
            if (yield from self._sleep(float(described.get("polltime", 0.005)), left)):
                return j.WALLTIME_REACHED
        if inbox:
            matches = re.fullmatch(described.get("regex", ".*"), inbox.popleft()) is not None
            chosen = described.get("success" if matches else "failure", "")
        if not chosen:
            return 0
        part = self._world.works[job.workload].get(chosen)
        if part is None:
            raise Refusal(
                f"job {job.id}: profile {work.name} continues with profile {chosen!r}; it does not exist or was removed"
            )
        refusal = self.why_refused(part)
        if refusal is not None or not part.sizes <= {job.res}:
            why = refusal or f"profile {part.name} is defined for another number of processors"
            raise Refusal(f"job {job.id}: {why}; run it with Batsim")
        check_ranks(part.rank_counts, job.fields, f"job {job.id}")
        frame.index = 0
        return (yield from self.execute(job, part, left))

    # --- notices ---

    def _on_message(self, what: tuple[SimJob, Any]) -> None:
        job, message = what
        self._world.outbox.append(e.FromJobMsg(job.id, j.rounded(message), timestamp=self._world.stamp()))

    def _on_done(self, job: SimJob) -> None:
        world = self._world
        world.n_running -= 1
        world.record_finished(job)
        ended = e.JobCompleted(job.id, job.state, job.return_code, str(job.alloc), timestamp=world.stamp())
        world.outbox.append(ended)

    def _on_called(self, _nothing: None) -> None:
        self._world.n_calls -= 1
        self._world.outbox.append(e.RequestedCall(timestamp=self._world.stamp()))

    def _on_killed(self, what: tuple[list[SimJob], dict[str, Any]]) -> None:
        jobs, progress = what
        for job in jobs:
            if job.state == e.COMPLETED_KILLED:
                self._on_done(job)
        self._world.n_kills -= 1
        ids = tuple(job.id for job in jobs)
        self._world.outbox.append(e.JobKilled(ids, progress, timestamp=self._world.stamp()))

    # --- the run ---

    @property
    def consumed_j(self) -> float:
        """The energy from the first submission to the last end, for ``_schedule.csv``."""
        return 0.0 if self.meters is None else self.meters.consumed_j

    def end_run(self, now: float) -> None:
        """Show the end of the run."""
        n_switches = (0, 0) if self.meters is None else (self.meters.n_grouped, self.meters.n_machines)
        for run_ended in self._observers.run_ended:
            run_ended(now, self.consumed_j, n_switches)


def greeted(_nothing: None) -> None:
    """Do nothing: the hello of a submitter takes one step of the loop, as in Batsim."""
