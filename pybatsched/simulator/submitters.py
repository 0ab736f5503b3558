"""Processes that submit jobs and external events: one for each workload and one for each list of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pybatsched.simulator.loop import SOON, Process

if TYPE_CHECKING:
    from pybatsched.simulator.execution import Execution
    from pybatsched.simulator.external_events import ExternalEvent
    from pybatsched.simulator.jobs import SimJob

T = TypeVar("T")
Handler = Callable[[Any], None]


def submit(
    take_jobs: Callable[[], Iterable[SimJob]], execution: Execution, submitted: Handler, goodbye: Handler
) -> Process:
    """Submit the jobs of a workload, those of one instant in the order of their full ids. O(n log n).

    The jobs are taken one step after the hello, so jobs registered into the workload before that are included.
    """
    yield _greeted, None
    jobs = sorted(take_jobs(), key=lambda job: (job.subtime, job.id))
    if jobs:
        yield jobs[0].subtime
        if execution.awaits_first_submission:  # checked here: the submitter of another workload may have been first
            if execution.meters_are_stale():
                yield SOON
                execution.meters_read()
            execution.note_first_submission()
    jobs.reverse()
    remaining = (jobs.pop() for _ in range(len(jobs)))  # drops each job, so that finished jobs can be freed
    yield from _batches(remaining, lambda job: job.subtime, submitted)
    yield goodbye, None


def occur(events: Iterable[ExternalEvent], occurred: Handler, goodbye: Handler) -> Process:
    """Post external events, which are sorted by time."""
    yield _greeted, None
    yield from _batches(events, lambda event: event.at, occurred)
    yield goodbye, None


def _batches(items: Iterable[T], due: Callable[[T], float], post: Handler) -> Process:
    """Post all items of one instant together, at that instant."""
    date = 0.0
    batch: list[T] = []
    for item in items:
        at = due(item)
        if at > date:
            if batch:
                yield post, batch
                batch = []
            yield at
            date = at
        batch.append(item)
    if batch:
        yield post, batch


def _greeted(_nothing: None) -> None:
    """Do nothing: the hello takes one step of the loop, as in Batsim."""
