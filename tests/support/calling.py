"""A policy that keeps requesting calls after the last job, a given number of times or for ever."""

from __future__ import annotations

from collections.abc import Iterable

from pybatsched.core import decisions as d
from pybatsched.policies.local_scheduler import LocalPolicy
from pybatsched.policies.queue_options import QueueOptions
from pybatsched_schedulers.fcfs import FcfsScheduler


class CallingOptions(QueueOptions):
    """The number of calls it requests when its queue is empty."""

    calls: int = 10**9


class Calling(LocalPolicy):
    """FCFS that requests a call ten seconds later, one at a time."""

    Options = CallingOptions
    scheduler = FcfsScheduler
    n_calls = 0
    is_pending = False

    def on_call(self, now: float) -> None:
        self.is_pending = False

    def decide(self, now: float) -> Iterable[d.Decision]:
        yield from super().decide(now)
        if not self.is_pending and self.n_calls < self.options.calls:
            self.is_pending = True
            self.n_calls += 1
            yield d.CallMeLater(now + 10.0)
