"""A policy that pauses at a given job of a run until a file tells it to continue."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pybatsched.core import decisions as d
from pybatsched.core.jobs import Job
from pybatsched.policies.local_scheduler import LocalPolicy
from pybatsched.policies.queue_options import QueueOptions
from pybatsched_schedulers.easy import EasyScheduler


class HaltingOptions(QueueOptions):
    """When to pause, and what to do then: raise, or touch the file `halted` and wait for the file `go`."""

    after: int = 40
    then: Literal["wait", "raise"] = "wait"
    halted: str = "halted"
    go: str = "go"


class Halting(LocalPolicy):
    """EASY that pauses when this number of jobs has ended."""

    Options = HaltingOptions
    scheduler = EasyScheduler
    n_ended = 0

    def on_job_ended(self, job: Job, now: float) -> None:
        super().on_job_ended(job, now)
        self.n_ended += 1

    def decide(self, now: float) -> Iterable[d.Decision]:
        if self.n_ended == self.options.after:
            if self.options.then == "raise":
                raise ValueError("that is enough")
            Path(self.options.halted).touch()
            while not Path(self.options.go).exists():
                # patience: the pause between two polls
                time.sleep(0.01)
        return super().decide(now)
